"""What was done to a table once is done again, when its database is opened."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.data.table import NO_KEY, Table
from kpg.runtime.errors import InternalError
from kpg.runtime.kernels import rowgroups as kernels

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
