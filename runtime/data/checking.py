"""Whether the indexes of a table have exactly its live rows, by looking each of them up."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.data.table import Table
from kpg.runtime.types import NULL

Words = NDArray[np.int64]
AT_ONCE = 1 << 18


def wrong(table: Table) -> Iterator[str]:
    """What is wrong with the indexes of a table, a line for each."""
    live = table.live()
    if live.shape[0] != table.rows:
        yield f"table {table.name} counts {table.rows} rows and has {live.shape[0]}"
    for start in range(0, live.shape[0], AT_ONCE):
        yield from _wrong_of(table, live[start : start + AT_ONCE])


def _wrong_of(table: Table, rowids: Words) -> Iterator[str]:
    words = table.read(rowids)
    key = table.schema.primary_key
    if key and not (table.find(np.ascontiguousarray(words[list(key)])) == rowids).all():
        yield f"the index of the primary key of table {table.name} is not of its rows"
    for index in table._unique:
        keys = np.ascontiguousarray(words[list(index.columns)])
        known = ~(keys == NULL).any(axis=0) if index.nulls_distinct else np.ones(rowids.shape[0], np.bool_)
        found = index.find(np.ascontiguousarray(keys[:, known]))
        if not (found == rowids[known]).all():
            yield f"the index of {index.name} of table {table.name} is not of its rows"
    for columns in table._lookups:
        keys = np.ascontiguousarray(words[list(columns)])
        places, found = table.find_all(columns, keys)
        mine = found[found == rowids[places]]
        if np.unique(mine).shape[0] != rowids.shape[0]:
            yield f"the index of columns {columns} of table {table.name} misses rows"
