"""Group by a row instead of by its columns."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import children, transform_up, width, with_children
from kpg.compiler.passes._selection import SELECTIONS, all_columns
from kpg.runtime.scalar import Call, Column, Scalar, remap
from kpg.runtime.types import ROWID

Path = tuple[int, ...]
"""Which input to take at each node on the way down to a base table."""
Origins = dict[tuple[Path, str], frozenset[int]]
"""For the base tables below (by path, with the name), the columns of them that a column equals."""


def key_by_rowid(rel: Rel) -> Rel:
    """Groups and distinct rows that have a base table's key among their columns get its rowid as well.

    The key gives the rowid and the rowid the other columns, so the groups stay the same; the planner then
    keeps the rowid alone and fetches the table's other columns: ``GROUP BY c_custkey, c_name, c_phone``
    takes one word a group (TPC-H Q3, Q4, Q10, Q18, Q21). Inputs of joins keep their keys as they are.
    """
    return transform_up(rel, _rewritten)


def _rewritten(node: Rel) -> Rel:
    match node:
        case algebra.Reduce(input=source, keys=keys):
            places = [key.index if isinstance(key, Column) else -1 for key in keys]
            widened, rowids = _with_rowids(source, places)
            if not rowids:
                return node
            grouped = algebra.Reduce(widened, (*rowids, *keys), node.aggregates)
            return _without(grouped, len(rowids))
        case algebra.Distinct(input=source):
            widened, rowids = _with_rowids(source, range(width(source)))
            if not rowids:
                return node
            columns = (*(rowid.index for rowid in rowids), *range(width(source)))
            return _without(algebra.Distinct(algebra.Project(widened, columns)), len(rowids))
        case _:
            return node
