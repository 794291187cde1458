"""The compilation pipeline: bound query to dataflow plan, with every stage kept for EXPLAIN."""

from collections.abc import Sequence

from kpg.compiler.algebra.rel import Get, LetRec, Map, Project, Rel
from kpg.compiler.algebra.traverse import scalars, transform_up, walk
from kpg.compiler.passes import PIPELINE, Pass, Step, run, without_rowids
from kpg.compiler.passes.prune_columns import prune_columns
from kpg.compiler.physical import plan_query
from kpg.compiler.physical.cardinality import NoStatistics, Statistics
from kpg.compiler.rules.demand.outcome import Restricted
from kpg.compiler.sql.frontend import Bound
from kpg.runtime.plan import Plan
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Literal, Scalar


@dataclass(frozen=True, slots=True)
class Compiled:
    """A query at every stage; ``steps`` are the rewrites that changed it, with what they made of it.

    ``restricted``: what became of its recursion, which is the first of them.
    """

    bound: Bound
    logical: Rel
    restricted: Restricted
    optimized: Rel
    steps: tuple[Step, ...]
    plan: Plan


def compile_bound(
    bound: Bound,
    statistics: Statistics | None = None,
    *,
    passes: Sequence[Pass] = PIPELINE,
    restricting: bool = True,
) -> Compiled:
    """The plan of a bound query. ``passes=()`` plans it as it was bound.

    ``restricting``: whether its recursion may be computed for just what the query asks of it.
    """
    known = statistics if statistics is not None else NoStatistics()
    if known.early:
        passes = without_rowids(passes)
    restricted = _restricted(bound.rel, known) if restricting and passes else Restricted(bound.rel, ())
    steps = run(restricted.rel, passes)
    if restricted.rel is not bound.rel:
        steps = (Step("restrict", restricted.rel), *steps)
    optimized = steps[-1].rel if steps else bound.rel
    return Compiled(bound, bound.rel, restricted, optimized, steps, plan_query(optimized, known))


def reads_column(rel: Rel, table: str, place: int) -> bool:
    """Whether the rows of a relation may depend on a column of a base table.

    A literal takes the column's place: what is left of it when unread columns are pruned is read.
    """
    mark: Scalar | None = None

    def marked(node: Rel) -> Rel:
        nonlocal mark
        if not isinstance(node, Get) or not node.is_table or node.name != table:
            return node
        mark = Literal(f"column {place} of {table}", node.types[place])
        width = len(node.types)
        return Project(Map(node, (mark,)), (*range(place), width, *range(place + 1, width)))

    pruned = prune_columns(transform_up(rel, marked), spare=-1)  # of a table that is its rowid
    return mark is not None and any(mark in scalars(node) for node in walk(pruned))


def _restricted(rel: Rel, statistics: Statistics) -> Restricted:
    """The query with its recursion, if it has any, computed for what is asked of it."""
    if not any(isinstance(node, LetRec) for node in walk(rel)):
        return Restricted(rel, ())
    # Only recursion needs the compiler of Datalog, which takes longer to load than all of SQL's.
    from kpg.compiler.rules.demand.restriction import restrict  # lazy: recursion, 80 ms

    return restrict(rel, statistics)
