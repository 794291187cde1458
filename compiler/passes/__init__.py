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
    """A rewrite that keeps what a relation stands for, and why it runs where it does.

    ``again``: what runs again where it changed something, and then it too, for ``MOST_ROUNDS``.
    """

    rewrite: Rewrite
    reason: str
    again: "tuple[Pass, ...]" = ()

    @property
    def name(self) -> str:
        """The rewrite's name, which is its module's too."""
        return self.rewrite.__name__


@dataclass(frozen=True, slots=True)
class Step:
    """A pass that changed the plan, and the plan after it."""

    name: str
    rel: Rel


PLACING: Final = (
    Pass(normalize_lets, "what is inlined can be fused with its surroundings"),
    Pass(fold_constants, "a literal truth is no predicate, and a literal falsehood empties its relation"),
    Pass(fuse_selections, "the passes below expect at most one filter, map and projection in a row"),
    Pass(flatten_joins, "predicates of nested joins meet in one place"),
    Pass(factor_disjunctions, "finds predicates over one input, which can be pushed"),
    Pass(propagate_equalities, "finds more of them"),
    Pass(push_filters, "all predicates are known now"),
)
"""What brings every predicate to its place."""

MOST_ROUNDS: Final = 3
"""Equalities are copied anew in each round, so that there need not be one that changes nothing. An outer
join whose padding nothing passes may show another to be one in the next round.
"""
EMPTYING: Final = (
    Pass(fold_constants, "predicates have met the NULLs that outer joins pad with"),
    Pass(cancel_unions, "what no padded row passes is an inner join, whose pairs are read once"),
)
"""What finds outer joins that are none."""

PIPELINE: Final = (
    *PLACING,
    *EMPTYING,
    Pass(narrow_lets, "predicates stand at the lets that they are asked of", (*PLACING, *EMPTYING)),
    Pass(limit_windows, "predicates on row numbers are at their windows"),
    Pass(elide_distinct, "filters on constants have made more relations unique"),
    Pass(cancel_unions, "branches are as similar as they will be, and filters that are never true in place"),
    Pass(flatten_joins, "distincts between joins are gone"),
    Pass(bound_inputs, "joins compare all that they will, and means are where they are made"),
    Pass(key_by_rowid, "joins show which columns are a table's key"),
    Pass(share_subplans, "subplans are still equal, before each is cut down to what its reader needs"),
    Pass(prune_columns, "takes away what no one reads any more"),
    Pass(fuse_selections, "merges the projections that the passes before have put in"),
)


def without_rowids(passes: Sequence[Pass]) -> tuple[Pass, ...]:
    """The passes that pay where columns cannot be read by rowids later on."""
    return tuple(one for one in passes if one.rewrite is not key_by_rowid)


def run(rel: Rel, passes: Sequence[Pass]) -> tuple[Step, ...]:
    """Applies the passes in order; only those that changed something are among the steps."""
    steps: list[Step] = []
    for one in passes:
        for _ in range(MOST_ROUNDS if one.again else 1):
            after = one.rewrite(rel)
            if after is rel or after == rel:
                break
            steps += (Step(one.name, after), *run(after, one.again))
            rel = steps[-1].rel
    return tuple(steps)
