"""The choice between the chain and single operators for a step, and when the chain is built."""

import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from kpg.runtime.dataflow.dataflow_graph import Operator, Step
from kpg.runtime.kernels import Kernel
from kpg.runtime.kernels.links import SMALL_STEP
from kpg.runtime.native.load import at_hand
from kpg.runtime.operators.loop import Loop, everything

if TYPE_CHECKING:
    from kpg.runtime.chain.chain import Chain, Rounds

FEW: Final = SMALL_STEP
"""Rows of a step that goes through a chain: more would go past heads and have operators do all the work."""

USUAL: Final = 8
"""After so many small steps since operators came or went, a chain is made for those that follow.

The first one waits for its modules and kernels: a program of a few statements need not begin."""

AGAIN: Final = 3
"""As many where others have been made in the process: one takes 20 us an operator, what two or three steps
save."""

PATIENCE: Final = 256
"""Small steps after which kernels that were not compiled are looked for again: a look costs as one does."""

CALLED: Final = (
    "chain.run",
    "streams.begin",
    "streams.feed",
    "streams.take",
    "vm.run",
    "meet.meet",
    "head.append",
    "tail.insert",
    "groups.refresh",
    "sort.consolidate_few",
    "sort.consolidate",
    "collect.heads",
    "collect.differences",
    "ranges.follow",
)
"""The kernels of chains, and those that links call."""


CALLED_IN_LOOPS: Final = ("history.accumulate", "thresholds.evaluate", "collect.later_rounds")
"""Those that links of loops call besides."""


class SmallSteps:
    """The chain of a worker's operators: made when small steps come, forgotten when operators come or go."""

    def __init__(self) -> None:
        self._chain: Chain | None = None
        self._seen = 0
        self._come: set[str] = set()

    def chain(self, step: Step, rows: int, operators: Callable[[], Iterable[Operator]]) -> "Chain | None":
        """The chain for a step that changes so many ``rows`` of tables; None if operators run one by one.

        So they do where only inputs of the Collection API have changed, which have no links.
        """
        if not 0 < rows <= FEW or not step.single_time:
            return None
        if self._come:
            self.forget()
        if self._chain is None:
            self._seen += 1
            if self._seen < (min(AGAIN, USUAL) if "kpg.runtime.chain.chain" in sys.modules else USUAL):
                return None
            if not ready():
                self._seen = USUAL - PATIENCE
                return None
            from kpg.runtime.chain.chain import Chain  # lazy: a program of a few statements makes none

            self._chain = Chain(operators())
        return self._chain

    def come(self, name: str) -> None:
        """Operators, or who listens to one, have come by this name."""
        self._come.add(name)

    def go(self, name: str) -> None:
        """What came by this name goes; a chain does not mind what came since its last step, as queries do."""
        if name in self._come:
            self._come.remove(name)
        else:
            self.forget()

    def forget(self) -> None:
        """Make a chain anew when there are small steps again."""
        self.tally()
        self._chain, self._seen = None, 0
        self._come.clear()

    def tally(self) -> None:
        """Bring operators' counters up to date."""
        if self._chain is not None:
            self._chain.tally()

    def elsewhere(self) -> None:
        """Take note that operators have run one by one, in a step that is over."""
        if self._chain is not None:
            self._chain.renew()


def hasten(operators: tuple[Operator, ...]) -> None:
    """Have the loops among new operators, and within them, run many rounds of few rows in one call."""
    for operator in everything(operators):
        if isinstance(operator, Loop):
            operator.hasten = rounds_of


def rounds_of(loop: Loop) -> "Rounds | None":
    """What runs the rounds of a loop's step; None if operators run one by one."""
    if not ready((*CALLED, *CALLED_IN_LOOPS)):
        return None
    from kpg.runtime.chain.chain import Rounds  # lazy: most loops have few rounds

    return Rounds(loop)


def ready(names: Sequence[str] = CALLED) -> bool:
    """Whether kernels have been loaded, from machine code that was made ahead of time.

    Nobody waits for what is not compiled yet: it is ordered.
    """
    missing = [kernel for kernel in map(called, names) if isinstance(kernel, Kernel)]
    if at_hand(missing):
        for kernel in missing:
            kernel.prepare()
    return all(hasattr(called(name), "address") for name in names)


def called(name: str) -> Any:
    """A kernel, or what it was compiled to: ``chain.run``."""
    file, _, kernel = name.partition(".")
    return getattr(import_module(f"kpg.runtime.kernels.{file}"), kernel)
