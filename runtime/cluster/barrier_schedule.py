"""The schedule of a member: operators run level by level, with a barrier of all members before each level."""

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from kpg.runtime.dataflow.dataflow_graph import Below, Operator, Scope, Step
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.operators.exchange import LocalShare, SendExchange, last_barrier_level
from kpg.runtime.operators.expand import Expand
from kpg.runtime.operators.join import DeltaJoin, PathSegment
from kpg.runtime.operators.linear import Concat, Linear, Negate
from kpg.runtime.operators.loop import Enter, Leave, Loop, is_leave
from kpg.runtime.operators.reduce import Single
from kpg.runtime.operators.user import Apply
from kpg.runtime.operators.worker_group import LEVEL_SHIFT, WorkerGroup, level_of

if TYPE_CHECKING:
    from kpg.runtime.chain.chain import Chain

PASS_THROUGH: Final = (
    Linear,
    Concat,
    Negate,
    LocalShare,
    DeltaJoin,
    Apply,
    Expand,
    Single,
    Enter,
    Leave,
)
"""Operators whose contents are computed from those of their inputs."""


def _without_contents(operators: Iterable[Operator], outside: Iterable[Operator] = ()) -> set[Operator]:
    """Return the operators whose contents cannot be read.

    Rows of theirs, or of their inputs, were sent to other members and not stored.
    """
    result = set(outside)
    for operator in operators:
        if isinstance(operator, Loop):
            if not _without_contents(operator.body, result).isdisjoint(operator.results):
                result.add(operator)
        elif isinstance(operator, SendExchange | PathSegment) or (
            (isinstance(operator, PASS_THROUGH) or is_leave(operator))
            and not result.isdisjoint(operator.inputs)
        ):
            result.add(operator)
    return result


class BarrierSchedule:
    """Schedule of a member; implements ``worker.Schedule``."""

    def __init__(self, group: WorkerGroup, interrupt: DeferredInterrupt) -> None:
        self.worker_group: WorkerGroup | None = group
        self.last_position = 0
        """Highest position of an operator, apart from its level."""
        self._group = group
        self._interrupt = interrupt

    def next_position(self, inputs: Below, scope: Scope | None, *, at_barrier: bool) -> int:
        """Return a position after all existing operators, at the level of the inputs in this scope.

        With ``at_barrier`` it is at the next level.
        """
        level = max((level_of(one) for one in inputs if one.place.scope is scope), default=0) + at_barrier
        self.last_position += 1
        return (level << LEVEL_SHIFT) + self.last_position

    def begin_hydration(self, outermost_operators: Callable[[], set[Operator]]) -> None:
        """Wait until all members have rendered the plan."""
        group = self._group
        self.set_last_level(outermost_operators())
        group.reach_barrier([], None)
        group.is_done = not group.last_level

    def set_last_level(self, outermost_operators: Iterable[Operator]) -> None:
        """Set the last level with a barrier outside loops."""
        self._group.last_level = last_barrier_level(tuple(outermost_operators), self._group)

    def run(self, step: Step, chain: "Chain | None") -> None:
        """Run the operators level by level; members run no chains."""
        group, level = self._group, 0
        while True:
            group.is_done = level == group.last_level
            self._run_level(step, level)
            if level == group.last_level:
                return
            result = group.reach_barrier(
                step.queue, (step.queue[0][0] >> LEVEL_SHIFT,) if step.queue else None
            )
            group.deliver(result)
            if result.phase is None:
                group.is_done = True
                return
            level = result.phase[-1]

    def _run_level(self, step: Step, level: int) -> None:
        clock = time.perf_counter
        queue = step.queue
        while queue and queue[0][0] >> LEVEL_SHIFT <= level:
            operator = step.next()
            assert operator is not None
            self._interrupt.check()
            self._group.failing_position = operator.position & ((1 << LEVEL_SHIFT) - 1)
            start = clock()
            operator.flush()
            elapsed = clock() - start
            operator.counters.seconds += elapsed
            operator.counters.step_seconds = elapsed

    def shareable(self, operators: tuple[Operator, ...]) -> tuple[Operator, ...]:
        """Return the operators whose contents can be read without a barrier."""
        unreadable = _without_contents(operators)
        return tuple(one for one in operators if one not in unreadable)

    def remove(self, operators: Iterable[Operator]) -> None:
        """Remove the barriers of operators that are freed."""
        for operator in operators:
            self._group.remove(operator.place.position)
