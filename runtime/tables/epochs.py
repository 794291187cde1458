"""Epochs of tables: close an epoch, read live rows as of one, and replay logged changes on open."""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.errors import InternalError
from kpg.runtime.kernels import rowgroups as kernels
from kpg.runtime.tables.table import NO_KEY, Change, Closed, Savepoint, Table

Words = NDArray[np.int64]


NONE: Final[Words] = np.empty(0, np.int64)


def replay(table: Table, gone: Words, rowids: Words, words: Words) -> None:
    """Delete rows and append rows, under the rowids that they had, without asking whether that may be.

    ``rowids`` ascend, none below ``table.count``; those between that are not given are of dead rows.
    """
    with table._interrupt:
        if gone.shape[0]:
            table._delete(gone)
        if rowids.shape[0]:
            _append(table, rowids, words)


def _append(table: Table, rowids: Words, words: Words) -> None:
    start, end = table.count, int(rowids[-1]) + 1
    if rowids[0] < start:
        raise InternalError(f"table {table.name} has row {int(rowids[0])} already")
    missing = np.ones(end - start, np.bool_)
    missing[rowids - start] = False
    dead = np.flatnonzero(missing) + start
    if dead.shape[0]:
        whole = np.zeros((words.shape[0], end - start), np.int64)
        whole[:, rowids - start] = words
        words = whole
    if end > table.groups.capacity:
        table.groups.reserve(end, start)
    index = table._key
    key, highest, known = NO_KEY if index is None else (index.key, index.highest.copy(), index.known)
    required = np.zeros_like(table._required)
    words = np.ascontiguousarray(words)
    kernels.append(table.groups.directory, words, start, required, key, highest, known)
    if index is not None:
        # The index itself catches up when it is asked.
        index.highest, index.known = highest, 1
    kernels.kill(table.groups.directory, end, dead)
    table.count = end
    table.touched[table] = None
    table.dead += dead.shape[0]
    table._deletions.append(dead)
    if dead.shape[0]:
        table._untold.append(dead)  # what is told next is not all that came
    for one in table._unique:
        one.insert(rowids, start, table.rows)
    if table._bag:
        table._bag.insert(rowids, end, table.rows)


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
