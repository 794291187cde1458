"""Epochs of tables: closing epochs, reads as of an epoch, and replay of logged changes."""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.errors import InternalError
from kpg.runtime.kernels import rowgroups as kernels
from kpg.runtime.tables.table import NO_KEY, Change, EpochChanges, Savepoint, Table

Words = NDArray[np.int64]


NONE: Final[Words] = np.empty(0, np.int64)


def replay(table: Table, deleted: Words, rowids: Words, words: Words) -> None:
    """Delete rows and append rows under their original rowids, without constraint checks.

    ``rowids`` ascend from ``table.count`` on; the gaps between them become dead rows.
    """
    with table._interrupt:
        if deleted.shape[0]:
            table._delete(deleted)
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
    required = np.zeros_like(table._required_columns)
    words = np.ascontiguousarray(words)
    kernels.append(table.groups.directory, words, start, required, key, highest, known)
    if index is not None:
        # The index itself catches up at its next use.
        index.highest, index.known = highest, 1
    kernels.kill(table.groups.directory, end, dead)
    table.count = end
    table.touched_tables[table] = None
    table.dead_rows += dead.shape[0]
    table._deletions.append(dead)
    if dead.shape[0]:
        table._undrained_deletions.append(dead)  # so that the next drain does not report dead rowids
    for unique_index in table._unique:
        unique_index.insert(rowids, start, table.rows)
    if table._bag:
        table._bag.insert(rowids, end, table.rows)


def close_separately(
    table: Table, first: int, counts: Sequence[int], deleted: Words | None, epoch_changes: list[EpochChanges]
) -> int:
    """Close one epoch per row count and deleted row (-1: none), from ``first`` on; return the next epoch.

    The inserted rows are the newest and all live, the deleted ones existed before, and the table has no
    other pending changes.
    """
    *_, change = table.drain()
    start, epoch = 0, first
    for place, count in enumerate(counts):
        changes = [] if deleted is None or deleted[place] < 0 else [Change(deleted[place : place + 1], -1)]
        if count:
            changes.append(Change(change.rowids[start : start + count], 1))
        epoch_changes.append(EpochChanges(epoch, table.name, changes))
        start += count
        epoch += 1
    return epoch


def close_as_one(
    table: Table, first: int, counts: Sequence[int], _: Words | None, epoch_changes: list[EpochChanges]
) -> int:
    """Close the same epochs as :func:`close_separately`, with all changes in the last one.

    For tables whose readers do not distinguish these epochs.
    """
    epoch_changes.append(EpochChanges(first + len(counts) - 1, table.name, table.drain()))
    return first + len(counts)


def table_changes_since(points: Iterable[tuple[Table, Savepoint]]) -> list[tuple[str, Words, Words, Words]]:
    """Return, for each table changed since a savepoint, (name, deleted rowids, new rowids, new rows)."""
    result = []
    for table, point in points:
        deleted, inserted = table.changes_since(point)
        if deleted.size or inserted.size:
            result.append((table.name, deleted, inserted, table.read(inserted)))
    return result


def live_as_of(table: Table, epoch: int, *, reads_pending: bool) -> Words:
    """Return the rowids that were live after an epoch.

    With ``reads_pending``, pending changes are applied.
    """
    if not reads_pending:
        return table.live_as_of(epoch)
    assert table.history is not None
    count, deleted = table.history.state_at(epoch)
    return np.concatenate(
        (table._with_deleted(count, deleted), table.groups.live(table._drained_count, table.count))
    )
