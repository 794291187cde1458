"""Installed plans, the inputs of a worker and its clock, and operators with an empty frontier.

There is one clock, and epochs close in order. The time of an input is the first at which it may still send
updates; a step closes the epochs before the least of these times. A commit of tables closes the next epoch;
no input may have updates at that time while it is still open there. Idle inputs are advanced.

An operator with an empty frontier never sends again: constants, closed inputs that are drained, and operators
whose inputs all have empty frontiers; tables never do. Such an arrangement keeps its contents, and
:func:`detach` and :func:`release` free everything else that it depended on.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakSet, WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.dataflow_graph import LoopScope, Operator, Place
from kpg.runtime.errors import InterfaceError, InternalError
from kpg.runtime.executor import MAX_TIME
from kpg.runtime.handles import (
    NOTHING,
    ArrangementInfo,
    Offered,
    OperatorInfo,
    OverlayInfo,
    Stats,
    not_offered,
)
from kpg.runtime.interrupts import begin_step, end_step
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.input import Capture, Input, Memory, Sink, Source
from kpg.runtime.operators.linear import snapshot_where
from kpg.runtime.operators.loop import ArrangedLeave, Loop, everything
from kpg.runtime.operators.user import Custom
from kpg.runtime.trace.batch import collect
from kpg.runtime.trace.updates import Updates

if TYPE_CHECKING:
    from kpg.runtime.plan import Plan
    from kpg.runtime.types import Type
    from kpg.runtime.worker.derivation_rounds import StateRanks


class Inputs:
    """Inputs by identity, open ones in order of making, and users' operators, which wait for times too."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[str, Input] = WeakValueDictionary()
        self._open: list[Input] = []
        self.idle = True
        """Whether there has been none, nor who waits for times."""
        self.ended = False
        """Whether inputs, or operators that make times, may have come to an end since this was last reset."""
        self._customs: WeakSet[Custom] = WeakSet()
        self._noticed = False
        """Whether there was one of them."""

    def __len__(self) -> int:
        """The number of inputs that may still bring something."""
        return len(self._open)

    def create(self, name: str, place: Place, time: int) -> Input:
        """A new input at ``time``."""
        operator = Input(place, name=name, time=time, asked=time)
        operator.hydrated = True
        self._known[place.fingerprint] = operator
        self._open.append(operator)
        self.idle = False
        return operator

    def get(self, identity: str) -> Input:
        """The input of that identity, open or closed."""
        operator = self._known.get(identity)
        if operator is None:
            raise InternalError(f"input {identity} is gone")
        return operator

    def forget(self, operator: Input) -> None:
        """Nobody steps it any more."""
        operator.open = False
        operator.clear()
        if operator in self._open:
            self._open.remove(operator)

    def notice(self, operator: Operator) -> None:
        """Take account of a new operator that waits for times."""
        if isinstance(operator, Custom):
            self._customs.add(operator)
            self._noticed = True
            self.idle = False

    @property
    def waiting(self) -> bool:
        """Whether there are operators that make times of their own."""
        return bool(self._customs)

    def upper(self, lower: int) -> int:
        """The first time, from ``lower``, that a step must leave open."""
        times = [operator.time for operator in self._open if operator.open]
        if times:
            return max(lower, min(times))
        latest = [
            piece.last(MAX_TIME)
            for operator in self._open
            if operator.earliest is not None
            for piece in operator.buffer
        ]
        latest += [time[0] for custom in self._customs for time in custom.wishes.times()]
        return max([lower, *(time + 1 for time in latest)])

    def span(self, upper: int) -> tuple[int, int] | None:
        """The first time buffered before ``upper``, and the one after the last; None if there is none."""
        spans = [span for operator in self._open if (span := operator.span(upper)) is not None]
        return (min(first for first, _ in spans), max(last for _, last in spans) + 1) if spans else None

    def release(self, upper: int) -> None:
        """Put what is buffered before ``upper``, and who waits for such times, into the step in progress."""
        for operator in self._open:
            operator.release(upper)
        if self._noticed:  # a look into a weak set takes a microsecond, which is a twentieth of a tiny step
            for custom in self._customs:
                custom.awaken(upper)

    def leave_all(self, first: int, count: int) -> None:
        """Have commits close so many epochs, from a first one on; as :meth:`leave`."""
        for epoch in range(first, first + count if self._open else first):
            self.leave(epoch)

    def leave(self, epoch: int) -> None:
        """Have a commit close ``epoch``; InterfaceError if an input with updates at it stands there."""
        for operator in self._open:
            earliest = operator.earliest
            if operator.open and operator.time <= epoch and earliest is not None and earliest <= epoch:
                raise InterfaceError(
                    f"epoch {epoch} cannot be committed: input {operator.name} holds updates at it",
                    hint=f"complete it with advance_to({epoch + 1}), or take it back with discard()",
                )
        for operator in self._open:
            operator.time = max(operator.time, epoch + 1)

    def retire(self) -> None:
        """Forget closed inputs that have brought everything."""
        left = [operator for operator in self._open if operator.open or operator.earliest is not None]
        self.ended |= len(left) < len(self._open) or (not left and self.waiting)
        self._open = left


def with_empty_frontier(operators: Iterable[Operator]) -> set[Operator]:
    """Which of the operators of one scope, given with all that they read, never send again."""
    found: set[Operator] = set()
    for operator in sorted(set(operators)):
        scope = operator.place.scope
        sources = (source for source in operator.inputs if source.place.scope is scope)
        if all(source in found for source in sources) and all(map(_silent, everything((operator,)))):
            found.add(operator)
    return found


def detach(operators: Iterable[Operator]) -> None:
    """Have arrangements among operators that never send again be without inputs."""
    for operator in operators:
        if isinstance(operator, Arrange) and operator.inputs:
            if not isinstance(operator, ArrangedLeave):  # a loop that stays must still find all its ways out
                for source in operator.inputs:
                    source.consumers = [(c, port) for c, port in source.consumers if c is not operator]
            operator.place = replace(operator.place, inputs=())


def release(operators: tuple[Operator, ...]) -> None:
    """Have operators, none of which runs again, hold no others in memory."""
    for operator in tuple(everything(operators)):
        operator.place = replace(operator.place, inputs=())
        operator.consumers.clear()
        if isinstance(operator, Loop):
            operator.body = operator.results = ()


def _silent(operator: Operator) -> bool:
    """Whether nothing more comes from here by itself."""
    if isinstance(operator, Input):
        return not operator.open and operator.earliest is None
    if isinstance(operator, Custom):
        return not operator.wishes.times()
    return not isinstance(operator, Source)


Words = NDArray[np.int64]


class Installed:
    """A plan that is kept up to date: its operators, its output, and its captured changes.

    An ``executor.Installation`` of a worker of this process.
    """

    def __init__(
        self,
        name: str,
        operators: tuple[Operator, ...],
        output: Operator,
        built: int,
        reused: int,
        tally: Callable[[], None],
    ) -> None:
        """``tally`` brings the operators' counters up to date."""
        self.name = name
        self.operators = tuple(dict.fromkeys(operators))
        self.output = output
        self._tally = tally
        self.arrangements_built = built
        self.arrangements_reused = reused
        self.install_seconds = 0.0
        self.found: tuple[Plan, object] | None = None
        """Its plan, and what rendering has found of it."""
        self.capture: Capture | None = None
        self.past: Memory | None = None
        self._shows_epochs = any(operator.shows_epochs for operator in everything(self.operators))
        self._sinks = {op.listener: op for op in everything(self.operators) if isinstance(op, Sink)}

    @property
    def place(self) -> int:
        """The place of the operator whose contents it has."""
        return self.output.position

    @property
    def watched(self) -> bool:
        """Whether changes are captured."""
        return self.capture is not None

    @property
    def epochs_matter(self) -> bool:
        """Whether it matters in which of a step's epochs a change came: somebody is told, or keeps it."""
        return self._shows_epochs or self.capture is not None or self.past is not None

    @property
    def size(self) -> int:
        """About how many rows the contents have."""
        return self.output.size()

    def rows(self, equal: Mapping[int, int] = NOTHING) -> tuple[Words, Words]:
        """The present contents: distinct rows ``int64[width, m]`` and their multiplicities ``int64[m]``.

        Rows that have other words than these in these columns may be left out.
        """
        parts = []
        interrupt = self.output.place.scope.interrupt
        if interrupt.busy:
            begin_step(interrupt)
        try:
            for part in snapshot_where(self.output, equal):
                parts.append(part)
                if interrupt.busy:
                    interrupt.check()
        finally:
            end_step()
        if not parts:
            return np.empty((self.output.width, 0), np.int64), np.empty(0, np.int64)
        contents = Updates.concat(parts).consolidate()
        return contents.data, contents.diffs()

    def matching(self, prefix: Sequence[int]) -> tuple[Words, Words]:
        """The present rows that begin with these words, and their multiplicities.

        The output must be an arrangement, O(log n + rows), or an ego view's. Between steps only.
        """
        output = self.output
        if not isinstance(output, Arrange):
            from kpg.runtime.operators.ego import ego_under  # lazy: most databases have no ego view

            if len(prefix) != 1 or ego_under(output) is None:
                raise InternalError(f"the output of {self.name} is not arranged")
            there, rows = self.rows_of(np.array(prefix, np.int64))
            rows = np.ascontiguousarray(rows[:, there])
            return rows, np.ones(rows.shape[1], np.int64)
        layers = output.layers
        if not layers:
            return np.empty((output.width, 0), np.int64), np.empty(0, np.int64)
        words = np.array(prefix, np.int64).reshape(-1, 1)
        times = np.full((output.spine.depth, 1), np.iinfo(np.int64).max, np.int64)
        visible = np.array([len(layers)], np.int64)
        data, counts, _, _ = collect(layers, words, times, visible, output.width)
        return data, counts

    def rows_of(self, keys: Words) -> tuple[NDArray[np.bool_], Words]:
        """Of an ego view, which of some readers have a row, and rows for all of them."""
        from kpg.runtime.operators.ego import found  # lazy: most databases have no ego view

        return found(self.output, keys)

    def lists_of(self, keys: Words) -> tuple[Words, Words] | None:
        """Of an ego view whose values are arrays, how long readers' are, none of whom has none; the elements.

        None where there is no such way to read them.
        """
        from kpg.runtime.operators.ego import listed  # lazy: most databases have no ego view

        return listed(self.output, keys)

    def overlay(self) -> "OverlayInfo | None":
        """What an ego view is computed by; None of others."""
        from kpg.runtime.operators.ego import overlay_info  # lazy: most databases have no ego view

        return overlay_info(self.output)

    def decide(self) -> None:
        """Have an ego view's labels be decided anew."""
        from kpg.runtime.operators.ego import ego_under  # lazy: most databases have no ego view

        ego = ego_under(self.output)
        assert ego is not None
        ego.engine.relabel()

    def choose(self, readers: Words | None) -> Words | None:
        """Of an ego view that is watched, have changes of these readers be captured only; None: of all.

        What it was before is the result.
        """
        before = None
        if self.capture is not None:
            before, self.capture.chosen = self.capture.chosen, readers
        return before

    def drain(self) -> list[Updates]:
        """The consolidated changes of each step since the last call; capture must be on."""
        if self.capture is None:
            raise InternalError(f"changes of {self.name} are not captured")
        changes, self.capture.changes = self.capture.changes, []
        return self.capture.read(changes)

    @property
    def remembers(self) -> int | None:
        """The epoch since which all changes are kept; None if they are not."""
        return None if self.past is None else self.past.since

    def changes(self, since: int) -> list[Updates]:
        """The changes after an epoch, if they are kept: consolidated, step by step."""
        assert self.past is not None
        return self.past.read(self.past.after(since))

    def rows_then(self, epoch: int) -> tuple[Words, Words]:
        """As :meth:`rows`, after an epoch since which changes are kept."""
        time = np.zeros((1, 1), np.int64)
        parts = [part.with_time(time) for part in self.output.snapshot()]
        parts += [part.negate().with_time(time) for part in self.changes(epoch)]
        contents = Updates.concat([Updates.empty(self.output.width, 1), *parts]).consolidate()
        return contents.data, contents.diffs()

    def heard(self, listener: int) -> list[Updates]:
        """What the sink of that number got in committed steps since the last call."""
        return self._sinks[listener].drain()

    def ignore(self, listener: int) -> None:
        """Have a sink keep nothing more; what it has kept can still be heard."""
        self._sinks[listener].open = False

    def offered(self, names: Sequence[str], types: "Sequence[Type]") -> AbstractContextManager[Offered]:
        """See ``Installation``."""
        raise not_offered()

    def is_final(self) -> bool:
        """Whether nothing in the plan can ever change again."""
        return len(with_empty_frontier(self.operators)) == len(self.operators)

    def own_state(self, prefix: str) -> tuple[int, int]:
        """Rows and bytes of operators that only installations hold whose names begin with ``prefix``."""
        own = [op for op in self.operators if all(name.startswith(prefix) for name in op.owners)]
        return sum(op.rows for op in own), sum(op.bytes for op in own)

    def ranks(self) -> "StateRanks | None":
        """The ranks of the rows of a recursive set; None if the output is anything else."""
        from kpg.runtime.worker.derivation_rounds import ranks  # lazy: for explanations

        return ranks(self.output)

    def first_rounds(self) -> tuple[Words, Words] | None:
        """What a least or greatest value in a loop was taken of, and the round that each row came in."""
        from kpg.runtime.worker.derivation_rounds import first_rounds  # lazy: for explanations

        return first_rounds(self.output)

    @property
    def last_step_seconds(self) -> float:
        """Time that the operators of this view, shared ones included, took in the last step."""
        self._tally()
        step = self.output.step
        return sum(op.counters.step_seconds for op in self.operators if op.scheduled is step)

    @property
    def stats(self) -> Stats:
        """Install and refresh figures; ``rows`` is about how many the view has."""
        return Stats(
            self.install_seconds,
            self.arrangements_built,
            self.arrangements_reused,
            self.last_step_seconds,
            self.output.size(),
        )


def operator_info(operator: Operator) -> OperatorInfo:
    """What an operator tells of itself."""
    counters, scope = operator.counters, operator.place.scope
    within = operator.within.step.rounds if isinstance(operator, Loop) else ()
    return OperatorInfo(
        operator.position,
        operator.place.description,
        tuple(source.position for source in operator.inputs),
        counters.updates_in,
        counters.updates_out,
        operator.rows,
        operator.bytes,
        counters.seconds,
        tuple(sorted(operator.owners)),
        scope.loop.position if isinstance(scope, LoopScope) else None,
        isinstance(operator, Arrange),
        within[-1] + 1 if within else 0,
        counters.step_seconds if operator.scheduled is operator.step else 0.0,
    )


def arrangement_info(arrange: Arrange) -> ArrangementInfo:
    """What an index tells of itself."""
    owners = tuple(sorted(arrange.owners))
    return ArrangementInfo(
        arrange.place.description, arrange.rows, arrange.bytes, arrange.spine.batches, owners
    )
