"""``plan.Loop`` and the operators at the boundary of its body: enter, leave, variable.

The loop operator has one place in the enclosing scope. Its flush runs the body's scope round by
round until no round has work. Commit, rollback and maintenance are forwarded to the operators of
the body.
"""

from collections.abc import Callable, Iterator
from dataclasses import field
from heapq import heappop
from typing import Final, Protocol, TypeGuard

import numpy as np

from kpg.runtime.dataflow.dataflow_graph import LoopScope, Operator, Step
from kpg.runtime.errors import EndlessError, InternalError
from kpg.runtime.operators.arrange import Arrange, push_history, to_outer_times
from kpg.runtime.records import dataclass
from kpg.runtime.trace.updates import Updates

PATIENCE: Final = 64
"""Rounds of a step before a round runner is prepared, which takes about as long."""


class RoundRunner(Protocol):
    """Runs small rounds of a loop in compiled calls."""

    def can_run(self, step: Step) -> bool:
        """Return whether it can run the round ``step``, which is beginning."""
        ...

    def follow(self, step: Step) -> None:
        """Run the round and those after it, as long as it can."""
        ...

    def add_counters(self) -> None:
        """Add the work done to the operators' counters."""
        ...


@dataclass(slots=True, eq=False, kw_only=True)
class Loop(Operator):
    """Runs the scope of its ``body``, whose operators are in dependency order."""

    body: tuple[Operator, ...]
    results: tuple[Operator, ...]
    body_scope: LoopScope
    touched_operators: dict[Operator, None] = field(default_factory=dict)
    make_runner: "Callable[[Loop], RoundRunner | None] | None" = None
    run_rounds: "Callable[[Loop], None] | None" = None
    """Runs the rounds together with other workers; None if this worker runs them alone."""

    def hydrate(self) -> None:
        for operator in self.body:
            operator.hydrate()

    def flush(self) -> None:
        if self.run_rounds is not None:
            self.run_rounds(self)
            return
        touched, interrupt = self.touched_operators, self.body_scope.interrupt
        follower: RoundRunner | None = None
        hasten = self.make_runner if self.step.upper - self.step.lower == 1 else None
        for count, step in enumerate(self.body_scope.iterate_rounds(self.step)):
            queue = step.queue
            if count == PATIENCE and hasten is not None:
                follower = hasten(self)
            if follower is not None and follower.can_run(step):
                follower.follow(step)
                continue
            while queue:
                _, operator = heappop(queue)
                touched[operator] = None
                if interrupt.pending or interrupt.watch is not None:
                    interrupt.check()
                operator.flush()
        if follower is not None:
            follower.add_counters()

    def commit(self) -> None:
        for operator in self.touched_operators:
            operator.commit()
        if not self.is_hydrated:
            for operator in self.body:
                operator.is_hydrated = True

    def rollback(self) -> None:
        self.body_scope.clear()
        for operator in self.body:
            operator.rollback()
        self.touched_operators.clear()

    def maintain(self) -> None:
        for operator in self.touched_operators:
            operator.maintain()
        self.touched_operators.clear()

    def snapshot(self) -> Iterator[Updates]:
        raise InternalError("a loop has no contents of its own: its results are read through Leave")

    @property
    def rows(self) -> int:
        return sum(operator.rows for operator in self.body)

    @property
    def bytes(self) -> int:
        return sum(operator.bytes for operator in self.body)


def iterate_operators(operators: "tuple[Operator, ...]") -> Iterator[Operator]:
    """Yield the operators and, recursively, those inside loops."""
    for operator in operators:
        yield operator
        if isinstance(operator, Loop):
            yield from iterate_operators(operator.body)


@dataclass(slots=True, eq=False, kw_only=True)
class Enter(Operator):
    """``plan.Enter``: the updates of its input, an operator of the enclosing scope, at round 0."""

    def push(self, port: int, updates: Updates) -> None:
        self.counters.updates_in += len(updates)
        depth, n = updates.time.shape
        time = np.empty((depth + 1, n), np.int64)
        time[:-1] = updates.time
        time[-1] = 0
        self.emit(updates.with_time(time))

    def absorb(self) -> None:
        for consumer, _ in self.consumers:
            consumer.absorb()

    def flush(self) -> None:
        """Do nothing: no work is ever left."""

    def hydrate(self) -> None:
        (source,) = self.inputs
        if source.is_hydrated:
            stamp = source.step.stamp
            for updates in source.snapshot():
                self.push(0, updates.with_time(stamp))

    def snapshot(self) -> Iterator[Updates]:
        yield from self.inputs[0].snapshot()


@dataclass(slots=True, eq=False, kw_only=True)
class Variable(Operator):
    """``plan.Variable``: ``initial + delay(result - initial)``. Port 0 is the result, port 1 ``initial``.

    It consolidates its updates, since updates that cancel would circulate for ever. If the result is
    consolidated and there is no ``initial``, this is not needed.
    """

    limit: int | None = None
    error_at_limit: bool = False
    is_consolidated: bool = False
    result: Operator | None = None
    """The operator that defines it, which is built later."""
    is_reading: bool = False
    """Whether its snapshot is being read; detects a snapshot that would depend on itself."""

    def push(self, port: int, updates: Updates) -> None:
        self.counters.updates_in += len(updates)
        scope = self.place.scope
        if port == 0 and scope.carry_to_next_round(self, updates):
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
        """Do nothing: a variable starts empty."""

    def flush(self) -> None:
        pending = self.take_pending()
        if not pending:
            return
        updates = Updates.concat(pending)
        if not self.is_consolidated:
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
        """Yield the contents of the result at the fixed point.

        The leave operator has them if no operator of the body does.
        """
        if self.is_reading or self.result is None:
            raise InternalError("no operator of a recursive collection's body holds its contents")
        self.is_reading = True
        consumers = (consumer for consumer, _ in self.result.consumers)
        out = next(
            (
                operator
                for operator in consumers
                if isinstance(operator, Arrange) and operator.leaves_loop and operator.is_hydrated
            ),
            None,
        )
        try:
            yield from (self.result if out is None else out).snapshot()
        finally:
            self.is_reading = False


@dataclass(slots=True, eq=False, kw_only=True)
class Leave(Operator):
    """``plan.Leave``: a result of the loop in the enclosing scope.

    Its inputs are the operator of the body that computes the result, and the loop.
    """

    def push(self, port: int, updates: Updates) -> None:
        self.counters.updates_in += len(updates)
        self.accept(port, to_outer_times(updates, self.inputs[0].step, self.step))
        self.schedule()

    def hydrate(self) -> None:
        push_history(self)

    def flush(self) -> None:
        """Emit the updates of all rounds together."""
        pending = self.take_pending()
        if pending:
            self.emit(Updates.concat(pending))

    def snapshot(self) -> Iterator[Updates]:
        stamp = self.step.stamp
        for updates in self.inputs[0].snapshot():
            yield updates.with_time(stamp)

    def size(self) -> int:
        return self.inputs[0].size()


def is_leave(operator: Operator) -> TypeGuard[Leave | Arrange]:
    """Return whether an operator has a result of a loop in the enclosing scope."""
    return isinstance(operator, Leave) or (isinstance(operator, Arrange) and operator.leaves_loop)
