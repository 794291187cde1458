"""Where a row is at its owner alone its columns are read there, before it, or its rowid, goes anywhere.

Plans are made so (``statistics.Statistics.early``); this is the check that they are. A column that is read
elsewhere would be NULL.
"""

from collections.abc import Iterator, Sequence

from kpg.compiler.physical.placement import Tables
from kpg.runtime import plan
from kpg.runtime.errors import InternalError
from kpg.runtime.plan import AnyNode, Mfp, Ref
from kpg.runtime.scalar import Column, Fetch, walk


def check_early(nodes: Sequence[AnyNode], tables: Tables, outer: Sequence[AnyNode] = ()) -> None:
    """InternalError if a column is read where its row may not be."""
    for node in nodes:
        if isinstance(node, plan.Loop):
            check_early(node.body, tables, nodes)
        for fetch in _fetches(node):
            if tables.owner(fetch.table) is not None and not _is_here(node, fetch, nodes, outer):
                raise InternalError(f"a column of {fetch.table} is read where its rows may not be")


def _fetches(node: AnyNode) -> Iterator[Fetch]:
    mfp = getattr(node, "mfp", None)
    if isinstance(mfp, Mfp):
        for scalar in (*mfp.predicates, *mfp.outputs):
            yield from (one for one in walk(scalar) if isinstance(one, Fetch))


def _is_here(node: AnyNode, fetch: Fetch, nodes: Sequence[AnyNode], outer: Sequence[AnyNode]) -> bool:
    if not isinstance(node, plan.Linear | plan.Delta) or not isinstance(fetch.rowid, Column):
        return False
    return _is_read(nodes, node.input, fetch.rowid.index, fetch.table, outer)


def _is_read(nodes: Sequence[AnyNode], ref: Ref, column: int, table: str, outer: Sequence[AnyNode]) -> bool:
    """Whether a column has the rowids of a table that is read there."""
    node = nodes[ref]
    if isinstance(node, plan.Source):
        return node.table == table and column == 0
    if isinstance(node, plan.Linear):
        output = node.mfp.outputs[column]
        return isinstance(output, Column) and _is_read(nodes, node.input, output.index, table, outer)
    if isinstance(node, plan.Negate | plan.Arrange):
        return _is_read(nodes, node.input, column, table, outer)
    return isinstance(node, plan.Enter) and _is_read(outer, node.input, column, table, ())
