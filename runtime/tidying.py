"""VACUUM: what deleted rows, and earlier times of traces, still take is given up at once.

Both happen by themselves, a little with each commit, in proportion to what it changes; this does all of it.
"""

from collections.abc import Collection, Iterable, Mapping

from kpg.runtime.data.table import Table
from kpg.runtime.installed import Installed
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.source import Source


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
