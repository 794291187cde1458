"""Choice between the chain and single operators for a step, and when the chain is built."""

import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from kpg.runtime.dataflow.dataflow_graph import Operator, Step
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.kernels import Kernel
from kpg.runtime.kernels.links import SMALL_STEP
from kpg.runtime.native.load import are_compiled
from kpg.runtime.operators.loop import Loop, iterate_operators

if TYPE_CHECKING:
    from kpg.runtime.chain import chain as chains
    from kpg.runtime.chain.chain import Chain, Rounds
else:
    chains = LazyModule("kpg.runtime.chain.chain")

FEW: Final = SMALL_STEP
"""Maximum rows of a step that runs as a chain; larger steps bypass heads and need the operators."""

USUAL: Final = 8
"""Small steps, since the operators last changed, after which a chain is built.

The first chain waits for its modules and kernels: a program of a few statements does not need it.
"""

USUAL_LATER: Final = 3
"""The same, once the process has built a chain.

Building takes 20 us per operator, the gain of two or three steps.
"""

RETRY_STEPS: Final = 256
"""Small steps after which kernels that were not compiled are checked again.

A check costs as much as a step.
"""

CHAIN_KERNELS: Final = (
    "chain.run",
    "streams.begin",
    "streams.feed",
    "streams.take",
    "vm.run",
    "meet.match_few",
    "head.append",
    "tail.insert",
    "groups.refresh",
    "sort.consolidate_few",
    "sort.consolidate",
    "collect.heads",
    "collect.differences",
    "ranges.follow",
)
"""Kernels of chains and those that links call."""


LOOP_KERNELS: Final = ("history.accumulate", "thresholds.evaluate", "collect.later_rounds")
"""Kernels that links of loops call additionally."""


class ChainCache:
    """The chain of a worker's operators, built for small steps.

    It is discarded when operators are added or removed.
    """

    def __init__(self) -> None:
        self._chain: Chain | None = None
        self._small_steps = 0
        self._added: set[str] = set()

    def chain_for(self, step: Step, rows: int, operators: Callable[[], Iterable[Operator]]) -> "Chain | None":
        """Return the chain for a step that changes ``rows`` rows of tables; None to run single operators.

        It is None if only inputs of the Collection API have changed, which have no links.
        """
        if not 0 < rows <= FEW or not step.has_single_time:
            return None
        if self._added:
            self.discard()
        if self._chain is None:
            self._small_steps += 1
            if self._small_steps < (
                min(USUAL_LATER, USUAL) if "kpg.runtime.chain.chain" in sys.modules else USUAL
            ):
                return None
            if not load_kernels():
                self._small_steps = USUAL - RETRY_STEPS
                return None

            self._chain = chains.Chain(operators())
        return self._chain

    def add_name(self, name: str) -> None:
        """Record that an installation or a listener of this name was added."""
        self._added.add(name)

    def remove_name(self, name: str) -> None:
        """Record that a name was removed; a chain built before it was added, as for queries, stays valid."""
        if name in self._added:
            self._added.remove(name)
        else:
            self.discard()

    def discard(self) -> None:
        """Discard the chain until there are small steps again."""
        self.add_counters()
        self._chain, self._small_steps = None, 0
        self._added.clear()

    def add_counters(self) -> None:
        """Update the operators' counters."""
        if self._chain is not None:
            self._chain.add_counters()

    def invalidate(self) -> None:
        """Record that a finished step has run single operators."""
        if self._chain is not None:
            self._chain.invalidate()


def enable_round_chains(operators: tuple[Operator, ...]) -> None:
    """Let the loops among these operators, and within them, run many small rounds in one call."""
    for operator in iterate_operators(operators):
        if isinstance(operator, Loop):
            operator.make_runner = make_rounds


def make_rounds(loop: Loop) -> "Rounds | None":
    """Return the chain of a loop's step; None if its kernels are not loaded."""
    if not load_kernels((*CHAIN_KERNELS, *LOOP_KERNELS)):
        return None

    return chains.Rounds(loop)


def load_kernels(names: Sequence[str] = CHAIN_KERNELS) -> bool:
    """Load compiled kernels and return whether all are loaded.

    Missing ones are compiled in the background.
    """
    missing = [kernel for kernel in map(kernel_named, names) if isinstance(kernel, Kernel)]
    if are_compiled(missing):
        for kernel in missing:
            kernel.prepare()
    return all(hasattr(kernel_named(name), "address") for name in names)


def kernel_named(name: str) -> Any:
    """Return a kernel, or its compiled form, by name such as ``chain.run``."""
    file, _, kernel = name.partition(".")
    return getattr(import_module(f"kpg.runtime.kernels.{file}"), kernel)
