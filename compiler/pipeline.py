"""The compilation pipeline: bound query to dataflow plan, with every stage kept for EXPLAIN."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kpg.compiler.algebra.rel import Get, LetRec, Map, Project, Rel
from kpg.compiler.algebra.traverse import scalars, transform_up, walk
from kpg.compiler.passes import PIPELINE, Pass, Step, run, without_rowids
from kpg.compiler.passes.prune_columns import prune_columns
from kpg.compiler.physical import plan_query
from kpg.compiler.physical.cardinality import NoStatistics, Statistics
from kpg.compiler.rules.demand import RestrictionResult
from kpg.compiler.sql.frontend import LoweredQuery
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.plan import Plan
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Literal, Scalar

if TYPE_CHECKING:
    from kpg.compiler.rules.demand import restriction as recursion_restriction
else:
    recursion_restriction = LazyModule("kpg.compiler.rules.demand.restriction")


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """Compiled query: the result of every stage.

    ``steps`` holds the rewrites that changed the relation, each with its result.
    """

    bound: LoweredQuery
    logical: Rel
    restriction: RestrictionResult
    """Result of the magic-sets rewrite of recursion.

    It is the first of ``steps`` if it changed the relation.
    """
    optimized: Rel
    steps: tuple[Step, ...]
    plan: Plan


def compile_query(
    query: LoweredQuery,
    statistics: Statistics | None = None,
    *,
    passes: Sequence[Pass] = PIPELINE,
    restrict_recursion: bool = True,
) -> CompiledQuery:
    """Compile a lowered query to a plan.

    With ``passes=()`` the relation is planned as it is. ``restrict_recursion``: apply magic sets to
    recursion.
    """
    estimates = statistics if statistics is not None else NoStatistics()
    if estimates.early_materialization:
        passes = without_rowids(passes)
    restriction = (
        _restrict_recursion(query.rel, estimates)
        if restrict_recursion and passes
        else RestrictionResult(query.rel, ())
    )
    steps = run(restriction.rel, passes)
    if restriction.rel is not query.rel:
        steps = (Step("restrict", restriction.rel), *steps)
    optimized = steps[-1].rel if steps else query.rel
    return CompiledQuery(query, query.rel, restriction, optimized, steps, plan_query(optimized, estimates))


def reads_column(rel: Rel, table: str, column: int) -> bool:
    """Return whether the rows of a relation can depend on a column of a base table.

    The column is replaced by a literal. The relation reads the column if the literal survives column
    pruning.
    """
    mark: Scalar | None = None

    def replace_column(node: Rel) -> Rel:
        nonlocal mark
        if not isinstance(node, Get) or not node.is_table or node.name != table:
            return node
        mark = Literal(f"column {column} of {table}", node.types[column])
        width = len(node.types)
        return Project(Map(node, (mark,)), (*range(column), width, *range(column + 1, width)))

    pruned = prune_columns(
        transform_up(rel, replace_column), fallback=-1
    )  # keep the rowid of an unread table
    return mark is not None and any(mark in scalars(node) for node in walk(pruned))


def _restrict_recursion(rel: Rel, statistics: Statistics) -> RestrictionResult:
    """Apply magic sets to the recursion of a relation, if it has any."""
    if not any(isinstance(node, LetRec) for node in walk(rel)):
        return RestrictionResult(rel, ())
    # Only recursion needs the compiler of Datalog, which takes longer to load than all of SQL's.
    return recursion_restriction.restrict(rel, statistics)
