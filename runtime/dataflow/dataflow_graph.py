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

    A ``hydrating`` step fills new operators with the accumulated history of the shared operators that
    they read, all of it at the last closed epoch. In a loop each round is a Step of its own, whose
    updates all have ``rounds`` as their inner coordinates.
    """

    lower: int
    upper: int
    hydrating: bool = False
    rounds: tuple[int, ...] = ()
    queue: "list[tuple[int, Operator]]" = field(default_factory=list, repr=False)
    visited: "list[Operator]" = field(default_factory=list, repr=False)
    cached_stamp: NDArray[np.int64] | None = None
    """The array of ``stamp``, once computed.

    Updates whose time is this very array need no comparison of times.
    """
    _after: Antichain | None = None
    _beginning: Antichain | None = None

    @property
    def has_single_time(self) -> bool:
        """Whether all updates of this step (in a loop, of this round) have the same time."""
        return self.hydrating or self.upper - self.lower == 1

    @property
    def time(self) -> int:
        """Last epoch that the step closes."""
        return self.upper - 1

    @property
    def stamp(self) -> NDArray[np.int64]:
        """The time ``(self.time, *rounds)`` as ``int64[depth, 1]``."""
        if self.cached_stamp is None:
            self.cached_stamp = np.array((self.upper - 1, *self.rounds), np.int64).reshape(-1, 1)
        return self.cached_stamp

    @property
    def inner(self) -> NDArray[np.int64]:
        """The ``rounds`` as ``int64[depth - 1]``."""
        return self.stamp.reshape(-1)[1:]

    def share_stamp(self, updates: Updates) -> Updates:
        """Return updates of this round, with the ``stamp`` array as their time if they have a single time."""
        if updates.time.shape[1] == 1 and self.upper - self.lower == 1:
            updates.time = self.stamp
        return updates

    @property
    def after(self) -> Antichain:
        """Frontier after all updates up to this step or, in a loop, up to this round."""
        if self._after is None:
            rounds, depth = self.rounds, len(self.rounds)
            if not depth:
                self._after = Antichain.of_minimal(((self.upper,),))
                return self._after
            if depth == 1:
                self._after = Antichain.of_minimal(((self.lower, rounds[0] + 1), (self.upper, 0)))
                return self._after
            later = [(*rounds[:i], rounds[i] + 1, *(0,) * (depth - 1 - i)) for i in reversed(range(depth))]
            elements = (*((self.lower, *each) for each in later), (self.upper, *(0,) * depth))
            self._after = Antichain.of_minimal(elements)
        return self._after

    @property
    def beginning(self) -> Antichain:
        """Frontier of the last epoch that the step closes, at round 0 of every loop."""
        if self._beginning is None:
            self._beginning = Antichain.of_minimal(((self.upper - 1, *(0,) * len(self.rounds)),))
        return self._beginning

    @property
    def floor(self) -> int:
        """Epoch that earlier ones are raised to in lookups; below the step's epochs unless it hydrates."""
        return self.lower if self.hydrating else self.lower - 1

    def next(self) -> "Operator | None":
        """Remove and return the next operator to flush: each once, inputs before readers; None at the end."""
        if not self.queue:
            return None
        _, operator = heapq.heappop(self.queue)
        self.visited.append(operator)
        return operator


Rounds = tuple[int, ...]
"""Loop coordinates of a time, outermost loop first."""


@dataclass(slots=True, eq=False)
class Scope:
    """The outermost scope, which runs one step at a time.

    ``depth`` is the number of coordinates of its times.
    """

    step: Step
    interrupt: DeferredInterrupt
    depth: int = 1

    def schedule_at(self, operator: "Operator", rounds: Rounds) -> None:
        """Schedule a flush of the operator at ``rounds``; the outermost scope has only the current step."""
        operator.schedule()

    def deliver(self, operator: "Operator", port: int, updates: Updates) -> None:
        """Pass updates to an operator now or, in a loop, at their rounds."""
        operator.accept(port, updates)
        step = self.step
        if operator.scheduled_step is not step:
            operator.scheduled_step = step
            heapq.heappush(step.queue, (operator.place.position, operator))

    def forward(self, operator: "Operator", port: int, updates: Updates) -> None:
        """Pass updates of any rounds to an operator that forwards them when it runs."""
        self.deliver(operator, port, updates)

    def carry_to_next_round(self, operator: "Operator", updates: Updates) -> bool:
        """Pass updates to an operator in the next round; return False if the scope cannot, as here."""
        return False

    def enqueue(self, operator: "Operator") -> None:
        """Schedule a flush of the operator in the current step, or round."""
        step = self.step
        if operator.scheduled_step is not step:
            operator.scheduled_step = step
            heapq.heappush(step.queue, (operator.place.position, operator))


@dataclass(slots=True, eq=False)
class Agenda:
    """Work scheduled for one vector of rounds: deliveries, and operators to flush."""

    deliveries: "list[tuple[Operator, int, Updates]]" = field(default_factory=list)
    operators: "list[Operator]" = field(default_factory=list)


@dataclass(slots=True, eq=False)
class LoopScope(Scope):
    """Scope of a loop's body; ``loop`` is the loop's operator in the scope ``parent``."""

    parent: Scope = field(kw_only=True)
    loop: "Operator" = field(init=False)
    active: bool = False
    agendas: dict[Rounds, Agenda] = field(default_factory=dict)
    order: list[Rounds] = field(default_factory=list)

    def schedule_at(self, operator: "Operator", rounds: Rounds) -> None:
        """Schedule a flush of the operator at the given rounds, which are not before the current ones."""
        if self.active and rounds == self.step.rounds:
            operator.schedule()
        else:
            self._agenda_of(rounds).operators.append(operator)

    def enqueue(self, operator: "Operator") -> None:
        """Schedule a flush in the current round or, between steps, in round 0 of the next step."""
        if not self.active:
            self._agenda_of((0,) * (self.depth - 1)).operators.append(operator)
        else:
            Scope.enqueue(self, operator)

    def forward(self, operator: "Operator", port: int, updates: Updates) -> None:
        if self.active:
            operator.accept(port, updates)
            self.enqueue(operator)
        else:
            self.deliver(operator, port, updates)

    def deliver(self, operator: "Operator", port: int, updates: Updates) -> None:
        """Pass on the updates of the current rounds and put the others on the agenda of theirs."""
        step = self.step
        if updates.time is step.cached_stamp and self.active:
            operator.accept(port, updates)
            if operator.scheduled_step is not step:
                operator.scheduled_step = step
                heapq.heappush(step.queue, (operator.place.position, operator))
            return
        if updates.time.shape[1] == 1:
            self._deliver(operator, port, updates, tuple(updates.time[1:, 0].tolist()))
        else:
            for rounds, part in split_updates_by_rounds(updates):
                self._deliver(operator, port, part, rounds)

    def _deliver(self, operator: "Operator", port: int, updates: Updates, rounds: Rounds) -> None:
        if self.active and rounds == self.step.rounds:
            operator.accept(port, updates)
            if operator.scheduled_step is not self.step:
                self.enqueue(operator)
        else:
            self._agenda_of(rounds).deliveries.append((operator, port, updates))

    def carry_to_next_round(self, operator: "Operator", updates: Updates) -> bool:
        """Pass updates of the current round to the operator in the next.

        Return False for updates of other rounds. Their time is replaced when that round begins.
        """
        step = self.step
        if updates.time is not step.cached_stamp or not self.active or step.upper - step.lower != 1:
            return False
        *outer, round = step.rounds
        self._agenda_of((*outer, round + 1)).deliveries.append((operator, 0, updates))
        return True

    def _agenda_of(self, rounds: Rounds) -> Agenda:
        agenda = self.agendas.get(rounds)
        if agenda is None:
            agenda = self.agendas[rounds] = Agenda()
            heapq.heappush(self.order, rounds)
            outer = rounds[:-1]
            if not self.active or outer != self.step.rounds[:-1]:
                self.parent.schedule_at(self.loop, outer)
        return agenda

    def iterate_rounds(self, outer: Step) -> Iterator[Step]:
        """Yield the rounds with work, in order, within one step or round of the parent.

        The caller flushes the operators of each round before it continues the iteration.
        """
        self.active = True
        try:
            while self.order and self.order[0][:-1] == outer.rounds:
                yield self.begin_round(outer, self.order[0])
        finally:
            self.active = False

    def begin_round(self, outer: Step, rounds: Rounds) -> Step:
        """Begin a round with the work on its agenda, and return it.

        ``rounds`` is either the earliest on the agenda or not on it.
        """
        single_epoch = outer.upper - outer.lower == 1
        step = self.step = Step(outer.lower, outer.upper, outer.hydrating, rounds)
        agenda = self.agendas.pop(rounds, None)
        if agenda is None:
            return step
        heapq.heappop(self.order)
        for operator, port, updates in agenda.deliveries:
            if single_epoch:
                # Scopes recognize updates of this round by the identity of this array.
                updates = updates.with_time(step.stamp)
            operator.accept(port, updates)
            self.enqueue(operator)
        for operator in agenda.operators:
            self.enqueue(operator)
        return step

    def clear(self) -> None:
        """Discard all scheduled work, for the rollback of a step."""
        self.active = False
        self.agendas.clear()
        self.order.clear()


def split_updates_by_rounds(updates: Updates) -> Iterator[tuple[Rounds, Updates]]:
    """Yield the updates in parts of equal rounds, in order of the rounds."""
    time = updates.time
    if kernels.same_rounds(time):
        yield tuple(time[1:, 0].tolist()), updates
        return
    n = time.shape[1]
    order, starts, single = np.empty(n, np.int64), np.empty(n + 1, np.int64), np.empty(n, np.bool_)
    count = kernels.split_by_rounds(time, order, starts, single)
    sorted_updates = updates.take(order)
    rounds = sorted_updates.time[1:, starts[:count]].T.tolist()
    for i, (first, last) in enumerate(pairwise(starts[: count + 1].tolist())):
        times = sorted_updates.time[:, first : first + 1 if single[i] else last].copy()
        diff = sorted_updates.diff if sorted_updates.constant_diff else sorted_updates.diff[first:last]
        part = Updates(sorted_updates.data[:, first:last].copy(), times, diff, updates.ordered)
        yield tuple(rounds[i]), part


@dataclass(slots=True)
class Counters:
    """Work done by an operator, for profiles and for tests that check work."""

    updates_in: int = 0
    updates_out: int = 0
    seconds: float = 0.0
    step_seconds: float = 0.0


Below = tuple["Operator", ...]
"""The operators that an operator reads."""


class Content(NamedTuple):
    """Identity of an operator's collection: ``mfp``, if any, over the ``width`` columns of ``base``."""

    base: str
    width: int
    mfp: Mfp | None = None

    @property
    def columns(self) -> int:
        """Number of columns of the collection."""
        return self.width if self.mfp is None else len(self.mfp.outputs)


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """An operator's place in the dataflow.

    ``fingerprint`` identifies the computation, ``position`` orders the operator after its ``inputs``,
    and ``width`` is the number of columns of its output stream.
    """

    fingerprint: str
    description: str
    position: int
    inputs: "tuple[Operator, ...]" = field(repr=False)
    scope: Scope = field(repr=False)
    width: int
    content: Content | None = None
    """None for collections that only the fingerprint identifies."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class Operator:
    """Base class of all operators."""

    shows_epochs: ClassVar[bool] = False
    """Whether users see the epoch of each update of a step."""
    place: Place
    consumers: "list[tuple[Operator, int]]" = field(default_factory=list, repr=False)
    owners: set[str] = field(default_factory=set)
    pending: list[Updates] = field(default_factory=list)
    scheduled_step: Step | None = field(default=None, repr=False)
    """The step in which a flush is scheduled, or the last such step."""
    is_hydrated: bool = False
    """Whether the operator has the history of its inputs."""
    counters: Counters = field(default_factory=Counters)

    @property
    def inputs(self) -> "tuple[Operator, ...]":
        """Operators that this one reads."""
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
        """Schedule a flush of this operator in the current step, or round."""
        self.place.scope.enqueue(self)

    def push(self, port: int, updates: Updates) -> None:
        """Receive updates on an input port, for the current flush or, in a loop, for that of their rounds."""
        self.counters.updates_in += updates.data.shape[1]
        self.place.scope.deliver(self, port, updates)

    def accept(self, port: int, updates: Updates) -> None:
        """Buffer updates of the current rounds for the flush."""
        self.pending.append(updates)

    def take_pending(self) -> list[Updates]:
        """Return the updates pushed since the last call and clear the buffer."""
        pending, self.pending = self.pending, []
        return pending

    def emit(self, updates: Updates, *, more: bool = False) -> None:
        """Push updates to all consumers; with ``more``, consumers absorb them at once.

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
        """Process the pushed updates as far as possible before the flush."""

    def flush(self) -> None:
        """Process the updates pushed in this step and emit the output's changes."""
        raise NotImplementedError

    def snapshot(self) -> Iterator[Updates]:
        """Yield the accumulated output as of the last closed epoch, in chunks that may be unconsolidated."""
        raise NotImplementedError

    def size(self) -> int:
        """Return the approximate number of updates of :meth:`snapshot`."""
        return sum(operator.size() for operator in self.inputs)

    def record_link(self, verdict: int, count: int, added: int) -> None:
        """Record the changes that a compiled link has made to the state.

        The arguments are ``CHANGE_VERDICT`` and following in ``runtime.kernels.links``.
        """

    def commit_link(self, verdict: int, count: int, added: int, after: Antichain) -> None:
        """Record, commit and maintain the changes of a compiled link at the end of a step.

        ``after`` is the frontier after the step.
        """

    def commit(self) -> None:
        """Make this step's changes of state final."""
        self.pending.clear()

    def rollback(self) -> None:
        """Undo this step's changes of state."""
        self.pending.clear()

    def maintain(self) -> None:
        """Maintain physical state with effort in proportion to the step; contents do not change."""

    def hydrate(self) -> None:
        """Push the history of the existing operators that this new operator reads."""
        for port, source in enumerate(self.inputs):
            if source.is_hydrated:
                for updates in source.snapshot():
                    self.push(port, updates)
                    self.absorb()
        self.schedule()

    @property
    def rows(self) -> int:
        """Number of updates in the state."""
        return 0

    @property
    def bytes(self) -> int:
        """Bytes of state."""
        return 0
