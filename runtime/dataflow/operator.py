"""What every operator of the dataflow is: inputs, consumers, and its part in a step.

An operator receives updates by :meth:`Operator.push` any number of times in a step (in a loop: in a
round of it), then is flushed once, after all its inputs. What it pushes to its consumers schedules
them. A stateful operator keeps what it needs to undo the step until :meth:`Operator.commit` or
:meth:`Operator.rollback`.
"""

from collections.abc import Iterator
from dataclasses import field
from typing import ClassVar, NamedTuple

from kpg.runtime.dataflow.scope import Scope
from kpg.runtime.dataflow.step import Step
from kpg.runtime.plan import Mfp
from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.records import dataclass
from kpg.runtime.trace.updates import Updates


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
