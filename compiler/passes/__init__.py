"""Rewrites of the relational algebra, one a file, in the one order of ``PIPELINE``."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kpg.compiler.algebra.rel import Rel
from kpg.compiler.passes.factor_disjunctions import factor_disjunctions
from kpg.compiler.passes.flatten_joins import flatten_joins
from kpg.compiler.passes.fuse_selections import fuse_selections
from kpg.compiler.passes.normalize_lets import normalize_lets
from kpg.compiler.passes.propagate_equalities import propagate_equalities
from kpg.compiler.passes.push_filters import push_filters

Rewrite = Callable[[Rel], Rel]


@dataclass(frozen=True, slots=True)
class Pass:
    """A rewrite that keeps what a relation stands for, and why it runs where it does."""

    rewrite: Rewrite
    reason: str

    @property
    def name(self) -> str:
        """The rewrite's name, which is its module's too."""
        return self.rewrite.__name__


@dataclass(frozen=True, slots=True)
class Step:
    """A pass that changed the plan, and the plan after it."""

    name: str
    rel: Rel


PIPELINE: Final = (
    Pass(normalize_lets, "what is inlined can be fused with its surroundings"),
    Pass(fuse_selections, "the other passes expect at most one filter, map and projection in a row"),
    Pass(flatten_joins, "predicates of nested joins meet in one place"),
    Pass(factor_disjunctions, "finds predicates over one input, which can be pushed"),
    Pass(propagate_equalities, "finds more of them"),
    Pass(push_filters, "all predicates are known now"),
)


def run(rel: Rel, passes: Sequence[Pass]) -> tuple[Step, ...]:
    """Applies the passes in order; only those that changed something are among the steps."""
    steps: list[Step] = []
    for one in passes:
        after = one.rewrite(rel)
        if after != rel:
            steps.append(Step(one.name, after))
        rel = after
    return tuple(steps)
