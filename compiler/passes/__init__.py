"""Rewrites of the relational algebra, one per file, in the fixed order of ``PIPELINE``."""

from collections.abc import Callable, Sequence
from typing import Final

from kpg.compiler.algebra.rel import Rel
from kpg.compiler.passes.bound_inputs import bound_inputs
from kpg.compiler.passes.cancel_unions import cancel_unions
from kpg.compiler.passes.elide_distinct import elide_distinct
from kpg.compiler.passes.factor_disjunctions import factor_disjunctions
from kpg.compiler.passes.flatten_joins import flatten_joins
from kpg.compiler.passes.fold_constants import fold_constants
from kpg.compiler.passes.fuse_selections import fuse_selections
from kpg.compiler.passes.key_by_rowid import key_by_rowid
from kpg.compiler.passes.limit_windows import limit_windows
from kpg.compiler.passes.narrow_lets import narrow_lets
from kpg.compiler.passes.normalize_lets import normalize_lets
from kpg.compiler.passes.propagate_equalities import propagate_equalities
from kpg.compiler.passes.prune_columns import prune_columns
from kpg.compiler.passes.push_filters import push_filters
from kpg.compiler.passes.share_subplans import share_subplans
from kpg.runtime.records import dataclass

Rewrite = Callable[[Rel], Rel]


@dataclass(frozen=True, slots=True)
class Pass:
    """A rewrite that preserves the meaning of a relation, and the reason for its place in the pipeline."""

    rewrite: Rewrite
    reason: str
    followups: "tuple[Pass, ...]" = ()
    """Passes that run after it if it changed the plan; then it runs again, up to ``MAX_ROUNDS`` times."""

    @property
    def name(self) -> str:
        """Name of the rewrite and of its module."""
        return self.rewrite.__name__


@dataclass(frozen=True, slots=True)
class Step:
    """A pass that changed the plan, and the plan after it."""

    name: str
    rel: Rel


PREDICATE_PLACEMENT: Final = (
    Pass(normalize_lets, "before selections are fused: an inlined let is fused with its surroundings"),
    Pass(
        fold_constants,
        "before predicates move: a literal truth is none, a literal falsehood empties its relation",
    ),
    Pass(fuse_selections, "before passes that expect at most one filter, map and projection in a row"),
    Pass(flatten_joins, "before predicates are compared: those of nested joins meet in one place"),
    Pass(factor_disjunctions, "before filters are pushed: finds predicates over one input"),
    Pass(propagate_equalities, "before filters are pushed: derives more predicates over one input"),
    Pass(push_filters, "after all predicates are known"),
)
"""Passes that move every predicate to its place."""

MAX_ROUNDS: Final = 3
"""Maximum number of rounds of a pass with followups.

Each round copies equalities anew, so there may be no round that changes nothing. An outer join
that is simplified in one round may allow another one to be simplified in the next.
"""
OUTER_JOIN_SIMPLIFICATION: Final = (
    Pass(fold_constants, "after predicates have met the NULLs that outer joins pad with"),
    Pass(
        cancel_unions,
        "after constants are folded: an outer join whose padded rows are rejected becomes an inner join",
    ),
)
"""Passes that turn outer joins into inner joins where predicates reject the padded rows."""

PIPELINE: Final = (
    *PREDICATE_PLACEMENT,
    *OUTER_JOIN_SIMPLIFICATION,
    Pass(
        narrow_lets,
        "after predicates stand directly above the reads of lets",
        (*PREDICATE_PLACEMENT, *OUTER_JOIN_SIMPLIFICATION),
    ),
    Pass(limit_windows, "after predicates on row numbers are directly above their windows"),
    Pass(elide_distinct, "after filters on constants have made more relations unique"),
    Pass(
        cancel_unions, "before passes that make branches less alike; filters that are never true are in place"
    ),
    Pass(flatten_joins, "after distincts between joins are gone"),
    Pass(bound_inputs, "after all comparisons are in joins, before averages are moved out of their inputs"),
    Pass(key_by_rowid, "after joins show which columns are a table's key"),
    Pass(share_subplans, "before equal subplans are cut down to what each reader needs"),
    Pass(prune_columns, "after subplans are shared: removes columns that no reader uses"),
    Pass(fuse_selections, "after passes that add projections: merges them"),
)


def without_rowids(passes: Sequence[Pass]) -> tuple[Pass, ...]:
    """Return the passes that are useful if columns cannot be fetched by rowid."""
    return tuple(pass_ for pass_ in passes if pass_.rewrite is not key_by_rowid)


def run(rel: Rel, passes: Sequence[Pass]) -> tuple[Step, ...]:
    """Apply the passes in order, and return a step for each one that changed the plan."""
    steps: list[Step] = []
    for pass_ in passes:
        for _ in range(MAX_ROUNDS if pass_.followups else 1):
            rewritten = pass_.rewrite(rel)
            if rewritten is rel or rewritten == rel:
                break
            steps += (Step(pass_.name, rewritten), *run(rewritten, pass_.followups))
            rel = steps[-1].rel
    return tuple(steps)
