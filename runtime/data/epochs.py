"""Rows that were inserted together, of commits that follow one another: each ends an epoch of its own."""

from collections.abc import Sequence

from kpg.runtime.data.table import Change, Closed, Table


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
