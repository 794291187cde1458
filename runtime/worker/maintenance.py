"""VACUUM and index checks of a worker.

:func:`vacuum` frees at once the memory of deleted rows and of earlier times of traces. Without it, each
commit frees a part, in proportion to its changes. :func:`index_errors` looks up every live row in the indexes
of a table.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.input import Source
from kpg.runtime.tables.table import Table
from kpg.runtime.types import NULL
from kpg.runtime.worker.dataflows import LocalInstallation

Words = NDArray[np.int64]
CHUNK_ROWS = 1 << 18
"""Rows checked at a time."""


def index_errors(table: Table) -> Iterator[str]:
    """Yield a description of each error in the indexes of a table."""
    live = table.live()
    if live.shape[0] != table.rows:
        yield f"table {table.name} counts {table.rows} rows and has {live.shape[0]}"
    for start in range(0, live.shape[0], CHUNK_ROWS):
        yield from _index_errors_of_rows(table, live[start : start + CHUNK_ROWS])


def _index_errors_of_rows(table: Table, rowids: Words) -> Iterator[str]:
    words = table.read(rowids)
    key = table.schema.primary_key
    if key and not (table.find(np.ascontiguousarray(words[list(key)])) == rowids).all():
        yield f"the index of the primary key of table {table.name} is not of its rows"
    for index in table._unique:
        keys = np.ascontiguousarray(words[list(index.columns)])
        indexed = ~(keys == NULL).any(axis=0) if index.nulls_distinct else np.ones(rowids.shape[0], np.bool_)
        found = index.find(np.ascontiguousarray(keys[:, indexed]))
        if not (found == rowids[indexed]).all():
            yield f"the index of {index.name} of table {table.name} is not of its rows"
    for columns in table._lookups:
        keys = np.ascontiguousarray(words[list(columns)])
        positions, found = table.find_all(columns, keys)
        matches = found[found == rowids[positions]]
        if np.unique(matches).shape[0] != rowids.shape[0]:
            yield f"the index of columns {columns} of table {table.name} misses rows"


def vacuum(
    tables: Mapping[str, Table], views: Iterable[LocalInstallation], relations: Collection[str], epoch: int
) -> int:
    """Vacuum these tables, their arrangements, and views; return the number of freed rows.

    Called between steps; does nothing while changes are pending. Rows in the group that is still filled stay.
    """
    if any(table.has_pending for table in tables.values()):
        return 0
    traces: dict[Arrange, None] = {}
    for view in views:
        for operator in view.operators:
            if isinstance(operator, Arrange) and operator.spine.depth == 1:
                read = {one.table.name for one in operator.place.inputs if isinstance(one, Source)}
                if view.name in relations or any(name in relations for name in read):
                    traces[operator] = None
    for trace in traces:
        trace.compact(epoch)
    return sum(_free_deleted_rows(table) for name, table in tables.items() if name in relations)


def _free_deleted_rows(table: Table) -> int:
    """Free all deleted rows in full groups of a table without pending changes; return their number."""
    table.commit()
    freed = table._vacuum.run_all(table.count)
    table.dead_rows -= freed
    table.reclaimed_rows += freed
    return freed
