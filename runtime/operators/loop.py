"""``plan.Loop`` and the operators at the border of its body: enter, leave, variable.

The loop operator has one place in the enclosing scope. When flushed, it runs its own scope round by round
until no round has work. It passes commit, rollback and maintenance on to the operators inside.
"""

from collections.abc import Callable, Iterator
from dataclasses import field
from heapq import heappop
from typing import Final, Protocol

import numpy as np

from kpg.runtime.dataflow.dataflow_graph import LoopScope, Operator, Step
from kpg.runtime.errors import EndlessError, InternalError
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.linear import Passing, Stateless
from kpg.runtime.records import dataclass
from kpg.runtime.trace.updates import Updates

PATIENCE: Final = 64
"""Rounds of a step after which those that follow are to run in one call: to prepare that takes as long."""


class Follower(Protocol):
    """Who runs rounds of few rows, one after another."""

    def takes(self, step: Step) -> bool:
        """Whether a round that begins is one of these."""
        ...

    def follow(self, step: Step) -> None:
        """Run it, and those after it while they are."""
        ...

    def tally(self) -> None:
        """Add what was counted to the operators' counters."""
        ...


@dataclass(slots=True, eq=False, kw_only=True)
class Loop(Operator):
    """Runs the scope of its ``body``, whose operators are in dependency order."""

    body: tuple[Operator, ...]
    results: tuple[Operator, ...]
    within: LoopScope
    touched: dict[Operator, None] = field(default_factory=dict)
    hasten: "Callable[[Loop], Follower | None] | None" = None

    def hydrate(self) -> None:
        for operator in self.body:
            operator.hydrate()

    def flush(self) -> None:
        touched, interrupt = self.touched, self.within.interrupt
        follower: Follower | None = None
        hasten = self.hasten if self.step.upper - self.step.lower == 1 else None
        for count, step in enumerate(self.within.rounds_of(self.step)):
            queue = step.queue
            if count == PATIENCE and hasten is not None:
                follower = hasten(self)
            if follower is not None and follower.takes(step):
                follower.follow(step)
                continue
            while queue:
                _, operator = heappop(queue)
                touched[operator] = None
                if interrupt.pending or interrupt.watch is not None:
                    interrupt.check()
                operator.flush()
        if follower is not None:
            follower.tally()

    def commit(self) -> None:
        for operator in self.touched:
            operator.commit()
        if not self.hydrated:
            for operator in self.body:
                operator.hydrated = True

    def rollback(self) -> None:
        self.within.clear()
        for operator in self.body:
            operator.rollback()
        self.touched.clear()

    def maintain(self) -> None:
        for operator in self.touched:
            operator.maintain()
        self.touched.clear()

    def snapshot(self) -> Iterator[Updates]:
        raise InternalError("a loop has no contents of its own: its results are read through Leave")

    @property
    def rows(self) -> int:
        return sum(operator.rows for operator in self.body)

    @property
    def bytes(self) -> int:
        return sum(operator.bytes for operator in self.body)


def everything(operators: "tuple[Operator, ...]") -> Iterator[Operator]:
    """The operators and those inside of loops, at any depth."""
    for operator in operators:
        yield operator
        if isinstance(operator, Loop):
            yield from everything(operator.body)


@dataclass(slots=True, eq=False, kw_only=True)
class Enter(Passing):
    """``plan.Enter``: the input's updates at round 0. Its input is an operator of the enclosing scope."""

    def push(self, port: int, updates: Updates) -> None:
        self.counters.updates_in += len(updates)
        depth, n = updates.time.shape
        time = np.empty((depth + 1, n), np.int64)
        time[:-1] = updates.time
        time[-1] = 0
        self.emit(updates.with_time(time))

    def hydrate(self) -> None:
        (source,) = self.inputs
        if source.hydrated:
            stamp = source.step.stamp
            for updates in source.snapshot():
                self.push(0, updates.with_time(stamp))

    def snapshot(self) -> Iterator[Updates]:
        yield from self.inputs[0].snapshot()


@dataclass(slots=True, eq=False, kw_only=True)
class Variable(Operator):
    """``plan.Variable``: ``initial + delay(result - initial)``. Port 0 is the result, port 1 ``initial``.

    Consolidates what it carries, lest updates that cancel circulate for ever; not if the result is
    ``consolidated`` and there is no ``initial``.
    """

    limit: int | None = None
    error_at_limit: bool = False
    consolidated: bool = False
    result: Operator | None = None
    """What defines it, which is made after it."""
    read: bool = False
    """Whether its snapshot is being read, which must not lead to it again."""

    def push(self, port: int, updates: Updates) -> None:
        self.counters.updates_in += len(updates)
        scope = self.place.scope
        if port == 0 and scope.carry(self, updates):
            return
        time = updates.time.copy()
        time[-1] += 1
        later = updates.with_time(time)
        if port == 0:
            scope.deliver(self, 0, later)
        else:
            scope.deliver(self, 0, updates)
            scope.deliver(self, 0, later.negate())

    def hydrate(self) -> None:
        """Starts empty."""

    def flush(self) -> None:
        pending = self.take()
        if not pending:
            return
        updates = Updates.concat(pending)
        if not self.consolidated:
            updates = updates.consolidate()
        if self.limit is not None and self.step.rounds[-1] >= self.limit:
            if len(updates) and self.error_at_limit:
                raise EndlessError(
                    f"the recursion had not come to its end after {self.limit} rounds",
                    hint="check that no value can grow or shrink without end, or raise the limit "
                    f'(of a Datalog program: .pragma "max-rounds" "{10 * self.limit}")',
                )
            return
        self.emit(updates)

    def snapshot(self) -> Iterator[Updates]:
        """What it is in the end: its result, which the way out holds if no operator of the body does."""
        if self.read or self.result is None:
            raise InternalError("no operator of a recursive collection's body holds its contents")
        self.read = True
        consumers = (consumer for consumer, _ in self.result.consumers)
        out = next((one for one in consumers if isinstance(one, ArrangedLeave) and one.hydrated), None)
        try:
            yield from (self.result if out is None else out).snapshot()
        finally:
            self.read = False


def outside(updates: Updates, inner: Step, outer: Step) -> Updates:
    """The updates of an ``inner`` round with times of the enclosing scope, whose step is ``outer``."""
    if updates.time is inner.stamped:
        return updates.with_time(outer.stamp)
    return updates.with_time(np.ascontiguousarray(updates.time[:-1]))


@dataclass(slots=True, eq=False, kw_only=True)
class Leave(Stateless):
    """``plan.Leave``: a result of the loop in the enclosing scope.

    Its inputs are the operator of the body that computes the result, and the loop.
    """

    def push(self, port: int, updates: Updates) -> None:
        self.counters.updates_in += len(updates)
        self.accept(port, outside(updates, self.inputs[0].step, self.step))
        self.schedule()

    def hydrate(self) -> None:
        _leave_history(self)

    def flush(self) -> None:
        """Emit what came in all rounds together."""
        pending = self.take()
        if pending:
            self.emit(Updates.concat(pending))

    def snapshot(self) -> Iterator[Updates]:
        stamp = self.step.stamp
        for updates in self.inputs[0].snapshot():
            yield updates.with_time(stamp)

    def size(self) -> int:
        return self.inputs[0].size()


@dataclass(slots=True, eq=False, kw_only=True)
class ArrangedLeave(Arrange):
    """As Leave, arranged: for a result whose contents no operator of the body holds."""

    def push(self, port: int, updates: Updates) -> None:
        self.counters.updates_in += len(updates)
        self.place.scope.deliver(self, port, outside(updates, self.inputs[0].step, self.step))

    def hydrate(self) -> None:
        _leave_history(self)


def _leave_history(operator: Leave | ArrangedLeave) -> None:
    """Push what a loop that was there before has computed already."""
    source, loop = operator.inputs
    if loop.hydrated:
        stamp = source.step.stamp
        for updates in source.snapshot():
            operator.push(0, updates.with_time(stamp))
            operator.absorb()
    operator.schedule()
