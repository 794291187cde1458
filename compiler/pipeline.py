"""From a bound query to its dataflow plan, every stage kept for EXPLAIN."""

from collections.abc import Sequence
from dataclasses import dataclass

from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.text import render
from kpg.compiler.catalog import Catalog, NoStatistics, Statistics
from kpg.compiler.explain import STAGES, explain_plan, explain_steps
from kpg.compiler.passes import PIPELINE, Pass, Step, run
from kpg.compiler.physical import plan_query
from kpg.compiler.sql.query import Bound, lower_query
from kpg.compiler.sql.statements import Select
from kpg.runtime.errors import InterfaceError
from kpg.runtime.plan import Plan


@dataclass(frozen=True, slots=True)
class Compiled:
    """A query at every stage; ``steps`` are the passes that changed it, with what they made of it."""

    bound: Bound
    logical: Rel
    optimized: Rel
    steps: tuple[Step, ...]
    plan: Plan


def compile_bound(
    bound: Bound,
    catalog: Catalog | None = None,
    statistics: Statistics | None = None,
    *,
    passes: Sequence[Pass] = PIPELINE,
) -> Compiled:
    """The plan of a bound query. ``passes=()`` plans it as it was bound."""
    known = statistics if statistics is not None else NoStatistics()
    steps = run(bound.rel, passes)
    optimized = steps[-1].rel if steps else bound.rel
    return Compiled(bound, bound.rel, optimized, steps, plan_query(optimized, known))


def explain(query: Select, stage: str, catalog: Catalog, statistics: Statistics | None = None) -> str:
    """The query as text at a stage, one of ``STAGES``."""
    if stage not in STAGES:
        raise InterfaceError(f'there is no stage "{stage}"', hint=f"the stages are {', '.join(STAGES)}")
    if stage == "ast":
        return f"{query.query!r}\n"
    bound = lower_query(query, catalog)
    if stage == "logical":
        return render(bound.rel)
    compiled = compile_bound(bound, catalog, statistics)
    match stage:
        case "steps":
            return explain_steps(compiled.steps)
        case "optimized":
            return render(compiled.optimized)
        case _:
            return explain_plan(compiled.plan, catalog)
