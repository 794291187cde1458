"""Scopes: where operators run. The outermost runs once a step; a loop's runs by rounds.

A loop's scope processes updates in the order (rounds, epoch) within a step, a linear extension of the
product order: an operator sees all updates of one vector of rounds, of all epochs of the step,
together. What is pushed with later rounds is held back until then.
"""

import heapq
from collections.abc import Iterator
from dataclasses import field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from kpg.runtime.dataflow.step import Step
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.kernels import rounds as kernels
from kpg.runtime.records import dataclass
from kpg.runtime.trace.updates import Updates

if TYPE_CHECKING:
    from kpg.runtime.dataflow.operator import Operator

Rounds = tuple[int, ...]


@dataclass(slots=True, eq=False)
class Scope:
    """The outermost scope: one step at a time; ``depth`` is the number of coordinates of its times."""

    step: Step
    interrupt: DeferredInterrupt
    depth: int = 1

    def wake(self, operator: "Operator", rounds: Rounds) -> None:
        """Have the operator flushed in the step."""
        operator.schedule()

    def deliver(self, operator: "Operator", port: int, updates: Updates) -> None:
        """Hand updates to an operator, now or at the rounds they bear."""
        operator.accept(port, updates)
        step = self.step
        if operator.scheduled is not step:
            operator.scheduled = step
            heapq.heappush(step.queue, (operator.place.position, operator))

    def pass_on(self, operator: "Operator", port: int, updates: Updates) -> None:
        """Hand updates of any rounds to an operator that passes them on as soon as it runs."""
        self.deliver(operator, port, updates)

    def carry(self, operator: "Operator", updates: Updates) -> bool:
        """Hand updates over in the next round: there are none here."""
        return False

    def enqueue(self, operator: "Operator") -> None:
        """Have the operator flushed in the step, or the round, in progress."""
        step = self.step
        if operator.scheduled is not step:
            operator.scheduled = step
            heapq.heappush(step.queue, (operator.place.position, operator))


@dataclass(slots=True, eq=False)
class Agenda:
    """What awaits one vector of rounds: deliveries, and operators that owe something then."""

    deliveries: "list[tuple[Operator, int, Updates]]" = field(default_factory=list)
    woken: "list[Operator]" = field(default_factory=list)


@dataclass(slots=True, eq=False)
class LoopScope(Scope):
    """The scope of a loop's body. ``loop`` is the operator that stands for it in ``parent``."""

    parent: Scope = field(kw_only=True)
    loop: "Operator" = field(init=False)
    active: bool = False
    agendas: dict[Rounds, Agenda] = field(default_factory=dict)
    order: list[Rounds] = field(default_factory=list)

    def wake(self, operator: "Operator", rounds: Rounds) -> None:
        """Have the operator flushed at the given rounds, not before the present ones."""
        if self.active and rounds == self.step.rounds:
            operator.schedule()
        else:
            self._agenda(rounds).woken.append(operator)

    def enqueue(self, operator: "Operator") -> None:
        """Have the operator flushed in the round in progress; between steps, in round 0 of the next."""
        if not self.active:
            self._agenda((0,) * (self.depth - 1)).woken.append(operator)
        else:
            Scope.enqueue(self, operator)

    def pass_on(self, operator: "Operator", port: int, updates: Updates) -> None:
        if self.active:
            operator.accept(port, updates)
            self.enqueue(operator)
        else:
            self.deliver(operator, port, updates)

    def deliver(self, operator: "Operator", port: int, updates: Updates) -> None:
        """Hand over the updates of the present rounds, hold back the others until theirs."""
        step = self.step
        if updates.time is step.stamped and self.active:
            operator.accept(port, updates)
            if operator.scheduled is not step:
                operator.scheduled = step
                heapq.heappush(step.queue, (operator.place.position, operator))
            return
        if updates.time.shape[1] == 1:
            self._deliver(operator, port, updates, tuple(updates.time[1:, 0].tolist()))
        else:
            for rounds, part in by_rounds(updates):
                self._deliver(operator, port, part, rounds)

    def _deliver(self, operator: "Operator", port: int, updates: Updates, rounds: Rounds) -> None:
        if self.active and rounds == self.step.rounds:
            operator.accept(port, updates)
            if operator.scheduled is not self.step:
                self.enqueue(operator)
        else:
            self._agenda(rounds).deliveries.append((operator, port, updates))

    def carry(self, operator: "Operator", updates: Updates) -> bool:
        """Hand over updates of the present round in the next one, at its time; False if these are others.

        Which time they bear then is put in when that round begins.
        """
        step = self.step
        if updates.time is not step.stamped or not self.active or step.upper - step.lower != 1:
            return False
        *outer, round = step.rounds
        self._agenda((*outer, round + 1)).deliveries.append((operator, 0, updates))
        return True

    def _agenda(self, rounds: Rounds) -> Agenda:
        agenda = self.agendas.get(rounds)
        if agenda is None:
            agenda = self.agendas[rounds] = Agenda()
            heapq.heappush(self.order, rounds)
            outer = rounds[:-1]
            if not self.active or outer != self.step.rounds[:-1]:
                self.parent.wake(self.loop, outer)
        return agenda

    def rounds_of(self, outer: Step) -> Iterator[Step]:
        """The rounds of one step, or one round, of the parent that have work, in order.

        The caller flushes each one's operators before it asks for the next.
        """
        self.active = True
        try:
            while self.order and self.order[0][:-1] == outer.rounds:
                yield self.begin(outer, self.order[0])
        finally:
            self.active = False

    def begin(self, outer: Step, rounds: Rounds) -> Step:
        """A round, with what awaits it, which is the first that something awaits, or nothing does."""
        once = outer.upper - outer.lower == 1
        step = self.step = Step(outer.lower, outer.upper, outer.hydrating, rounds)
        agenda = self.agendas.pop(rounds, None)
        if agenda is None:
            return step
        heapq.heappop(self.order)
        for operator, port, updates in agenda.deliveries:
            if once:
                # By this array all that bears the round's time is known from here on.
                updates = updates.with_time(step.stamp)
            operator.accept(port, updates)
            self.enqueue(operator)
        for operator in agenda.woken:
            self.enqueue(operator)
        return step

    def clear(self) -> None:
        """Forget all work that is left, as when a step is rolled back."""
        self.active = False
        self.agendas.clear()
        self.order.clear()


def by_rounds(updates: Updates) -> Iterator[tuple[Rounds, Updates]]:
    """The updates in parts that agree on all coordinates of their times but the first, in their order."""
    time = updates.time
    if kernels.same_rounds(time):
        yield tuple(time[1:, 0].tolist()), updates
        return
    n = time.shape[1]
    order, starts, single = np.empty(n, np.int64), np.empty(n + 1, np.int64), np.empty(n, np.bool_)
    count = kernels.split_by_rounds(time, order, starts, single)
    ordered = updates.take(order)
    rounds = ordered.time[1:, starts[:count]].T.tolist()
    for i, (first, last) in enumerate(pairwise(starts[: count + 1].tolist())):
        times = ordered.time[:, first : first + 1 if single[i] else last].copy()
        diff = ordered.diff if ordered.constant_diff else ordered.diff[first:last]
        part = Updates(ordered.data[:, first:last].copy(), times, diff, updates.ordered)
        yield tuple(rounds[i]), part
