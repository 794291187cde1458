"""Epochs of a table: of commits whose rows came together, and as of which rows are read."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.data.table import Change, Closed, Savepoint, Table

Words = NDArray[np.int64]


def drain_all(touched: dict[Table, None], epoch: int, closed: list[Closed]) -> bool:
    """Take the pending changes of tables as those of an epoch; whether there are any."""
    if not touched:
        return False
    before = len(closed)
    for table in touched:
        if changes := table.drain():
            closed.append(Closed(epoch, table.name, changes))
    touched.clear()
    return len(closed) > before


def close_each(
    table: Table, first: int, counts: Sequence[int], gone: Words | None, closed: list[Closed]
) -> int:
    """Add an epoch, from ``first`` on, for each count of rows and each row ``gone`` (-1: none); the next one.

    The rows came last, all of them are there, rows that went were there before, and nothing else of the table
    is pending.
    """
    *_, change = table.drain()
    start, epoch = 0, first
    for place, count in enumerate(counts):
        changes = [] if gone is None or gone[place] < 0 else [Change(gone[place : place + 1], -1)]
        if count:
            changes.append(Change(change.rowids[start : start + count], 1))
        closed.append(Closed(epoch, table.name, changes))
        start += count
        epoch += 1
    return epoch


def close_together(
    table: Table, first: int, counts: Sequence[int], _: Words | None, closed: list[Closed]
) -> int:
    """As :func:`close_each` where nobody can tell the epochs apart: the last has all that has changed."""
    closed.append(Closed(first + len(counts) - 1, table.name, table.drain()))
    return first + len(counts)


def changed_since(points: Iterable[tuple[Table, Savepoint]]) -> list[tuple[str, Words, Words, Words]]:
    """Of tables that have changed since a savepoint, rowids that went, those that came, and their rows."""
    found = []
    for table, point in points:
        deleted, inserted = table.changed_since(point)
        if deleted.size or inserted.size:
            found.append((table.name, deleted, inserted, table.read(inserted)))
    return found


def live_then(table: Table, epoch: int, *, own: bool) -> Words:
    """Rowids of the rows that were live after an epoch; ``own``: as pending changes leave them."""
    if not own:
        return table.live_then(epoch)
    assert table.past is not None
    count, gone = table.past.at(epoch)
    return np.concatenate((table._with_deleted(count, gone), table.groups.live(table._told, table.count)))
