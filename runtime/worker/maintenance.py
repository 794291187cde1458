"""VACUUM and index checks of a worker.

:func:`vacuum` frees at once what deleted rows and earlier times of traces occupy; otherwise each commit frees
a part, in proportion to what it changes. :func:`wrong` looks up every live row in the indexes of a table.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.input import Source
from kpg.runtime.tables.table import Table
from kpg.runtime.types import NULL
from kpg.runtime.worker.dataflows import Installed

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


def vacuum(
    tables: Mapping[str, Table], views: Iterable[Installed], relations: Collection[str], epoch: int
) -> int:
    """Tidy up tables and views of these names, and what is arranged of the tables, after a step.

    How many rows had their places given up. Rows of the group that is still added to keep theirs.
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
    return sum(_give_up(table) for name, table in tables.items() if name in relations)


def _give_up(table: Table) -> int:
    """Give up the places of all deleted rows in full groups, with nothing pending; how many."""
    table.commit()
    given_up = table._vacuum.run_through(table.count)
    table.dead -= given_up
    table.reclaimed += given_up
    return given_up
