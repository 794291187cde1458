"""Operators, the scopes that run them, and steps.

An :class:`Operator` receives updates through :meth:`Operator.push` any number of times in a step (in a loop:
in a round), and is flushed once, after all its inputs. Updates that it pushes schedule its consumers. A
stateful operator can undo the step until :meth:`Operator.commit` or :meth:`Operator.rollback`.

A :class:`Scope` runs operators with work in dependency order, once a step. A :class:`LoopScope` runs them by
rounds. It processes updates in the order (rounds, epoch), a linear extension of the product order: an
operator sees the updates of one vector of rounds, of all epochs of the step, together. Updates with later
rounds wait in the agenda.
"""

import heapq
from collections.abc import Iterator
from dataclasses import field
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.kernels import rounds as kernels
from kpg.runtime.plan import Mfp
from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.records import dataclass
from kpg.runtime.trace.updates import Updates


@dataclass(slots=True, eq=False)
class Step:
    """The step in progress: epochs ``lower <= t < upper`` become final, in one physical batch.

    ``hydrating`` marks the step that fills newly installed operators with the history of the shared
    ones they read, all of it at the last closed epoch. In a loop each round of a step is a Step of its
    own, whose updates all bear ``rounds`` as their inner coordinates.
    """

    lower: int
    upper: int
    hydrating: bool = False
    rounds: tuple[int, ...] = ()
    queue: "list[tuple[int, Operator]]" = field(default_factory=list, repr=False)
    visited: "list[Operator]" = field(default_factory=list, repr=False)
    stamped: NDArray[np.int64] | None = None
    """The ``stamp``, once there is one: updates whose time is this very array are known to bear it."""
    _after: Antichain | None = None
    _beginning: Antichain | None = None

    @property
    def single_time(self) -> bool:
        """Whether every update of this step, in a loop of this round, bears the same time."""
        return self.hydrating or self.upper - self.lower == 1

    @property
    def time(self) -> int:
        """The last epoch that the step closes."""
        return self.upper - 1

    @property
    def stamp(self) -> NDArray[np.int64]:
        """The time ``(self.time, *rounds)`` as ``int64[depth, 1]``."""
        if self.stamped is None:
            self.stamped = np.array((self.upper - 1, *self.rounds), np.int64).reshape(-1, 1)
        return self.stamped

    @property
    def inner(self) -> NDArray[np.int64]:
        """The ``rounds`` as ``int64[depth - 1]``."""
        return self.stamp.reshape(-1)[1:]

    def stamp_on(self, updates: Updates) -> Updates:
        """Updates of this round, which are known by its ``stamp`` then if all bear the one time."""
        if updates.time.shape[1] == 1 and self.upper - self.lower == 1:
            updates.time = self.stamp
        return updates

    @property
    def after(self) -> Antichain:
        """The frontier behind all updates up to this step or, in a loop, this round of it."""
        if self._after is None:
            rounds, depth = self.rounds, len(self.rounds)
            if not depth:
                self._after = Antichain.known(((self.upper,),))
                return self._after
            if depth == 1:
                self._after = Antichain.known(((self.lower, rounds[0] + 1), (self.upper, 0)))
                return self._after
            later = [(*rounds[:i], rounds[i] + 1, *(0,) * (depth - 1 - i)) for i in reversed(range(depth))]
            elements = (*((self.lower, *each) for each in later), (self.upper, *(0,) * depth))
            self._after = Antichain.known(elements)
        return self._after

    @property
    def beginning(self) -> Antichain:
        """The frontier of the last epoch that the step closes, at round 0 of every loop."""
        if self._beginning is None:
            self._beginning = Antichain.known(((self.upper - 1, *(0,) * len(self.rounds)),))
        return self._beginning

    @property
    def floor(self) -> int:
        """The epoch that older ones count as: none of this step's but when hydrating (see ``lookup``)."""
        return self.lower if self.hydrating else self.lower - 1

    def next(self) -> "Operator | None":
        """The next operator to flush; each once, inputs before readers."""
        if not self.queue:
            return None
        _, operator = heapq.heappop(self.queue)
        self.visited.append(operator)
        return operator


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


@dataclass(slots=True)
class Counters:
    """Work done by an operator, for tests that pin work and for profiles."""

    updates_in: int = 0
    updates_out: int = 0
    seconds: float = 0.0
    step_seconds: float = 0.0


Below = tuple["Operator", ...]
"""What an operator reads."""


class Content(NamedTuple):
    """Which collection an operator computes: ``mfp``, if any, over the ``width`` columns of ``base``."""

    base: str
    width: int
    mfp: Mfp | None = None

    @property
    def columns(self) -> int:
        """The number of columns of its rows."""
        return self.width if self.mfp is None else len(self.mfp.outputs)


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """An operator's place in the dataflow.

    ``fingerprint`` tells what it computes, ``position`` orders it after its ``inputs``, and ``width`` is the
    number of columns of its output stream.
    """

    fingerprint: str
    description: str
    position: int
    inputs: "tuple[Operator, ...]" = field(repr=False)
    scope: Scope = field(repr=False)
    width: int
    content: Content | None = None
    """None for what is only known by its fingerprint."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class Operator:
    """Base of all operators."""

    shows_epochs: ClassVar[bool] = False
    """Whether users see, beside an update, in which of a step's epochs it came."""
    place: Place
    consumers: "list[tuple[Operator, int]]" = field(default_factory=list, repr=False)
    owners: set[str] = field(default_factory=set)
    pending: list[Updates] = field(default_factory=list)
    scheduled: Step | None = field(default=None, repr=False)
    hydrated: bool = False
    counters: Counters = field(default_factory=Counters)

    @property
    def inputs(self) -> "tuple[Operator, ...]":
        """The operators this one reads."""
        return self.place.inputs

    @property
    def position(self) -> int:
        """Rank in the dependency order."""
        return self.place.position

    @property
    def width(self) -> int:
        """Number of columns of the output stream."""
        return self.place.width

    @property
    def step(self) -> Step:
        """The step in progress, or the last one."""
        return self.place.scope.step

    def __lt__(self, other: "Operator") -> bool:
        return self.position < other.position

    def schedule(self) -> None:
        """Have this operator flushed in the current step, or round."""
        self.place.scope.enqueue(self)

    def push(self, port: int, updates: Updates) -> None:
        """Take updates on an input port, to be processed now or, in a loop, at the rounds they bear."""
        self.counters.updates_in += updates.data.shape[1]
        self.place.scope.deliver(self, port, updates)

    def accept(self, port: int, updates: Updates) -> None:
        """Keep updates, whose rounds are the present ones, for the flush."""
        self.pending.append(updates)

    def take(self) -> list[Updates]:
        """The updates pushed since the last call."""
        pending, self.pending = self.pending, []
        return pending

    def emit(self, updates: Updates, *, more: bool = False) -> None:
        """Hand updates to all consumers; with ``more`` to come, they absorb these at once.

        Absorbing keeps a large output (a join's) from being held in memory before a reduce shrinks it.
        """
        count = updates.data.shape[1]
        if not count:
            return
        self.counters.updates_out += count
        for consumer, port in self.consumers:
            consumer.push(port, updates)
        if more:
            for consumer, _ in self.consumers:
                consumer.absorb()

    def absorb(self) -> None:
        """Process what has been pushed as far as possible before the flush."""

    def flush(self) -> None:
        """Process everything pushed in this step and emit the output's changes."""
        raise NotImplementedError

    def snapshot(self) -> Iterator[Updates]:
        """The accumulated output as of the last closed epoch, in chunks, not necessarily consolidated."""
        raise NotImplementedError

    def size(self) -> int:
        """About how many updates :meth:`snapshot` would give."""
        return sum(operator.size() for operator in self.inputs)

    def linked(self, verdict: int, count: int, added: int) -> None:
        """Take note of what a link has done to the state (``CHANGE_VERDICT`` and on in ``kernels.links``)."""

    def committed(self, verdict: int, count: int, added: int, after: Antichain) -> None:
        """:meth:`linked`, :meth:`commit` and :meth:`maintain` in one, for a step that is over.

        ``after`` is the frontier behind it.
        """

    def commit(self) -> None:
        """Keep this step's changes of state."""
        self.pending.clear()

    def rollback(self) -> None:
        """Undo this step's changes of state."""
        self.pending.clear()

    def maintain(self) -> None:
        """Spend effort on physical upkeep in proportion to the step; answers do not change."""

    def hydrate(self) -> None:
        """Feed this new operator the history of the operators it reads that were there before."""
        for port, source in enumerate(self.inputs):
            if source.hydrated:
                for updates in source.snapshot():
                    self.push(port, updates)
                    self.absorb()
        self.schedule()

    @property
    def rows(self) -> int:
        """Updates held in state."""
        return 0

    @property
    def bytes(self) -> int:
        """Bytes of state."""
        return 0
