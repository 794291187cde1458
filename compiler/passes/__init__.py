"""Rewrites of the relational algebra, one a file, in the one order of ``PIPELINE``."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kpg.compiler.algebra.rel import Rel

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


PIPELINE: Final[tuple[Pass, ...]] = ()


def run(rel: Rel, passes: Sequence[Pass]) -> tuple[Step, ...]:
    """Applies the passes in order; only those that changed something are among the steps."""
    steps: list[Step] = []
    for one in passes:
        after = one.rewrite(rel)
        if after != rel:
            steps.append(Step(one.name, after))
        rel = after
    return tuple(steps)
