"""Epochs of a table: of commits whose rows came together, and as of which rows are read."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.data.table import Change, Closed, Table

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


def close_each(table: Table, first: int, counts: Sequence[int], closed: list[Closed]) -> int:
    """Add an epoch, from ``first`` on, for each count of rows; the next epoch.

    The rows came last, and nothing else of the table is pending.
    """
    (change,) = table.drain()
    start, epoch = 0, first
    for count in counts:
        closed.append(Closed(epoch, table.name, [Change(change.rowids[start : start + count], change.diff)]))
        start += count
        epoch += 1
    return epoch


def live_then(table: Table, epoch: int, *, own: bool) -> Words:
    """Rowids of the rows that were live after an epoch; ``own``: as pending changes leave them."""
    if not own:
        return table.live_then(epoch)
    assert table.past is not None
    count, gone = table.past.at(epoch)
    return np.concatenate((table._with_deleted(count, gone), table.groups.live(table._told, table.count)))
