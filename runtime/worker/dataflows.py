"""Installed plans, the inputs and clock of a worker, and operators with an empty frontier.

There is one clock, and epochs close in order. The time of an input is the first at which it may still send
updates. A step closes the epochs before the least of these times. A commit of tables closes the next epoch;
an open input must not hold updates at that epoch. Idle inputs are advanced.

An operator with an empty frontier never sends again. These are constants, closed and drained inputs, and
operators whose inputs all have empty frontiers, but never tables. An arrangement with an empty frontier keeps
its contents; :func:`detach` and :func:`release` free everything else that it depended on.
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
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.handles import (
    NO_FILTER,
    ArrangementInfo,
    ExportLocations,
    OperatorInfo,
    OverlayInfo,
    Stats,
    export_error,
)
from kpg.runtime.interrupts import begin_step, end_step
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.input import Capture, Input, Sink, Source
from kpg.runtime.operators.linear import snapshot_where
from kpg.runtime.operators.loop import Loop, iterate_operators
from kpg.runtime.operators.user import Custom
from kpg.runtime.trace.batch import collect
from kpg.runtime.trace.updates import Updates

if TYPE_CHECKING:
    from kpg.runtime.operators import ego as ego_operator
    from kpg.runtime.plan import Plan
    from kpg.runtime.types import Type
    from kpg.runtime.worker import derivation_rounds
    from kpg.runtime.worker.derivation_rounds import StateRanks
else:
    ego_operator = LazyModule("kpg.runtime.operators.ego")
    derivation_rounds = LazyModule("kpg.runtime.worker.derivation_rounds")


class Inputs:
    """Inputs by identity, the open ones in order of creation, and user operators that schedule times."""

    def __init__(self) -> None:
        self._by_identity: WeakValueDictionary[str, Input] = WeakValueDictionary()
        self._open: list[Input] = []
        self.is_unused = True
        """Whether there has never been an input or an operator that schedules times."""
        self.have_ended = False
        """Whether inputs, or operators that schedule times, may have ended since this was last reset."""
        self._customs: WeakSet[Custom] = WeakSet()
        self._had_customs = False
        """Whether there has been a user operator that schedules times."""

    def __len__(self) -> int:
        """Return the number of inputs that may still send updates."""
        return len(self._open)

    def create(self, name: str, place: Place, time: int) -> Input:
        """Create an input at ``time``."""
        operator = Input(place, name=name, time=time, user_time=time)
        operator.is_hydrated = True
        self._by_identity[place.fingerprint] = operator
        self._open.append(operator)
        self.is_unused = False
        return operator

    def get(self, identity: str) -> Input:
        """Return the input of that identity, open or closed."""
        operator = self._by_identity.get(identity)
        if operator is None:
            raise InternalError(f"input {identity} is gone")
        return operator

    def drop(self, operator: Input) -> None:
        """Close an input and discard its buffered updates."""
        operator.is_open = False
        operator.clear()
        if operator in self._open:
            self._open.remove(operator)

    def add_custom(self, operator: Operator) -> None:
        """Register a new operator if it schedules times."""
        if isinstance(operator, Custom):
            self._customs.add(operator)
            self._had_customs = True
            self.is_unused = False

    @property
    def has_customs(self) -> bool:
        """Whether there are operators that schedule times."""
        return bool(self._customs)

    def upper(self, lower: int) -> int:
        """Return the first time, not before ``lower``, that a step must leave open."""
        times = [operator.time for operator in self._open if operator.is_open]
        if times:
            return max(lower, min(times))
        latest = [
            piece.last(MAX_TIME)
            for operator in self._open
            if operator.earliest is not None
            for piece in operator.buffer
        ]
        latest += [time[0] for custom in self._customs for time in custom.pending_work.times()]
        return max([lower, *(time + 1 for time in latest)])

    def span(self, upper: int) -> tuple[int, int] | None:
        """Return the first buffered time before ``upper`` and the successor of the last, or None."""
        spans = [span for operator in self._open if (span := operator.span(upper)) is not None]
        return (min(first for first, _ in spans), max(last for _, last in spans) + 1) if spans else None

    def push_until(self, upper: int) -> None:
        """Push updates before ``upper`` in the current step, and schedule operators with such times."""
        for operator in self._open:
            operator.push_until(upper)
        if self._had_customs:  # iterating a weak set takes 1 us, a twentieth of a tiny step
            for custom in self._customs:
                custom.schedule_before(upper)

    def advance_past_all(self, first: int, count: int) -> None:
        """Let commits close ``count`` epochs from ``first`` on; as :meth:`advance_past`."""
        for epoch in range(first, first + count if self._open else first):
            self.advance_past(epoch)

    def advance_past(self, epoch: int) -> None:
        """Let a commit close ``epoch`` and advance idle inputs past it.

        Raises:
            InterfaceError: If an open input holds updates at the epoch.
        """
        for operator in self._open:
            earliest = operator.earliest
            if operator.is_open and operator.time <= epoch and earliest is not None and earliest <= epoch:
                raise InterfaceError(
                    f"epoch {epoch} cannot be committed: input {operator.name} holds updates at it",
                    hint=f"complete it with advance_to({epoch + 1}), or discard the updates with discard()",
                )
        for operator in self._open:
            operator.time = max(operator.time, epoch + 1)

    def retire(self) -> None:
        """Remove closed inputs whose updates have all been processed."""
        remaining = [operator for operator in self._open if operator.is_open or operator.earliest is not None]
        self.have_ended |= len(remaining) < len(self._open) or (not remaining and self.has_customs)
        self._open = remaining


def with_empty_frontier(operators: Iterable[Operator]) -> set[Operator]:
    """Return which operators of one scope, passed with all that they read, never send again."""
    result: set[Operator] = set()
    for operator in sorted(set(operators)):
        scope = operator.place.scope
        sources = (source for source in operator.inputs if source.place.scope is scope)
        if all(source in result for source in sources) and all(
            map(_sends_nothing, iterate_operators((operator,)))
        ):
            result.add(operator)
    return result


def detach(operators: Iterable[Operator]) -> None:
    """Remove the inputs of arrangements among operators that never send again."""
    for operator in operators:
        if isinstance(operator, Arrange) and operator.inputs:
            if not operator.leaves_loop:  # a remaining loop must still find all its leaves
                for source in operator.inputs:
                    source.consumers = [(c, port) for c, port in source.consumers if c is not operator]
            operator.place = replace(operator.place, inputs=())


def release(operators: tuple[Operator, ...]) -> None:
    """Remove references to other operators from operators that never run again."""
    for operator in tuple(iterate_operators(operators)):
        operator.place = replace(operator.place, inputs=())
        operator.consumers.clear()
        if isinstance(operator, Loop):
            operator.body = operator.results = ()


def _sends_nothing(operator: Operator) -> bool:
    """Return whether an operator sends nothing unless its inputs do."""
    if isinstance(operator, Input):
        return not operator.is_open and operator.earliest is None
    if isinstance(operator, Custom):
        return not operator.pending_work.times()
    return not isinstance(operator, Source)


Words = NDArray[np.int64]


class LocalInstallation:
    """A plan maintained by a worker of this process: its operators, its output, and its captured changes.

    It implements ``handles.Installation``.
    """

    def __init__(
        self,
        name: str,
        operators: tuple[Operator, ...],
        output: Operator,
        built: int,
        reused: int,
        update_counters: Callable[[], None],
    ) -> None:
        """Create an installation; ``update_counters`` brings the operators' counters up to date."""
        self.name = name
        self.operators = tuple(dict.fromkeys(operators))
        self.output = output
        self._update_counters = update_counters
        self.arrangements_built = built
        self.arrangements_reused = reused
        self.install_seconds = 0.0
        self.rendered_plan: tuple[Plan, object] | None = None
        """The plan, and the identities that rendering has computed for it."""
        self.capture: Capture | None = None
        self.history: Capture | None = None
        self._exposes_epochs = any(operator.shows_epochs for operator in iterate_operators(self.operators))
        self._sinks = {op.listener: op for op in iterate_operators(self.operators) if isinstance(op, Sink)}

    @property
    def operator_position(self) -> int:
        """Position of the output operator."""
        return self.output.position

    @property
    def is_watched(self) -> bool:
        """Whether changes are captured."""
        return self.capture is not None

    @property
    def needs_separate_epochs(self) -> bool:
        """Whether the epoch of each change matters: changes are captured or kept, or plans read epochs."""
        return self._exposes_epochs or self.capture is not None or self.history is not None

    @property
    def size(self) -> int:
        """Approximate number of rows."""
        return self.output.size()

    def rows(self, equal: Mapping[int, int] = NO_FILTER) -> tuple[Words, Words]:
        """Return the contents: distinct rows ``int64[width, m]`` and their multiplicities ``int64[m]``.

        Rows without the words ``equal`` (by column) may be missing.
        """
        parts = []
        interrupt = self.output.place.scope.interrupt
        if interrupt.is_entered:
            begin_step(interrupt)
        try:
            for part in snapshot_where(self.output, equal):
                parts.append(part)
                if interrupt.is_entered:
                    interrupt.check()
        finally:
            end_step()
        if not parts:
            return np.empty((self.output.width, 0), np.int64), np.empty(0, np.int64)
        contents = Updates.concat(parts).consolidate()
        return contents.data, contents.diffs()

    def rows_with_prefix(self, prefix: Sequence[int]) -> tuple[Words, Words]:
        """Return the rows that begin with these words, and their multiplicities; only between steps.

        The output must be an arrangement, which takes O(log n + rows), or an ego view's.
        """
        output = self.output
        if not isinstance(output, Arrange):
            if len(prefix) != 1 or ego_operator.find_ego(output) is None:
                raise InternalError(f"the output of {self.name} is not arranged")
            has_row, rows = self.rows_of(np.array(prefix, np.int64))
            rows = np.ascontiguousarray(rows[:, has_row])
            return rows, np.ones(rows.shape[1], np.int64)
        layers = output.layers
        if not layers:
            return np.empty((output.width, 0), np.int64), np.empty(0, np.int64)
        words = np.array(prefix, np.int64).reshape(-1, 1)
        times = np.full((output.spine.depth, 1), np.iinfo(np.int64).max, np.int64)
        visible_layers = np.array([len(layers)], np.int64)
        data, counts, _, _ = collect(layers, words, times, visible_layers, output.width)
        return data, counts

    def rows_of(self, keys: Words) -> tuple[NDArray[np.bool_], Words]:
        """Return, for an ego view, which readers have a row, and rows for all of them."""
        return ego_operator.read_rows(self.output, keys)

    def arrays_of(self, keys: Words) -> tuple[Words, Words] | None:
        """Return, for an ego view with array values, their lengths (0 without a row) and elements.

        The result is None if the values cannot be read in this way.
        """
        return ego_operator.read_arrays(self.output, keys)

    def overlay(self) -> "OverlayInfo | None":
        """Return the overlay's statistics for an ego view; None otherwise."""
        return ego_operator.overlay_info(self.output)

    def decide_pushes(self) -> None:
        """Recompute an ego view's push decisions from the observed traffic."""
        ego = ego_operator.find_ego(self.output)
        assert ego is not None
        ego.engine.relabel()

    def capture_readers(self, readers: Words | None) -> Words | None:
        """Restrict the captured changes of a watched ego view to these readers; None captures all.

        The result is the previous restriction.
        """
        previous = None
        if self.capture is not None:
            previous, self.capture.readers = self.capture.readers, readers
        return previous

    def drain(self) -> list[Updates]:
        """Return the consolidated changes of each step since the last call; it must be watched."""
        if self.capture is None:
            raise InternalError(f"changes of {self.name} are not captured")
        changes, self.capture.changes = self.capture.changes, []
        return self.capture.view_changes(changes)

    @property
    def history_since(self) -> int | None:
        """Epoch since which all changes are kept; None if they are not kept."""
        return None if self.history is None else self.history.since

    def changes_after(self, since: int) -> list[Updates]:
        """Return the kept changes after an epoch, consolidated, step by step."""
        assert self.history is not None
        return self.history.view_changes(self.history.changes_since(since))

    def rows_as_of(self, epoch: int) -> tuple[Words, Words]:
        """Return :meth:`rows` as of an epoch that the kept changes cover."""
        time = np.zeros((1, 1), np.int64)
        parts = [part.with_time(time) for part in self.output.snapshot()]
        parts += [part.negate().with_time(time) for part in self.changes_after(epoch)]
        contents = Updates.concat([Updates.empty(self.output.width, 1), *parts]).consolidate()
        return contents.data, contents.diffs()

    def drain_sink(self, listener: int) -> list[Updates]:
        """Return the updates of the sink with that number in committed steps since the last call."""
        return self._sinks[listener].drain()

    def close_sink(self, listener: int) -> None:
        """Stop a sink; its buffered updates can still be drained."""
        self._sinks[listener].is_open = False

    def export(
        self, names: Sequence[str], types: "Sequence[Type]"
    ) -> AbstractContextManager[ExportLocations]:
        """Raise an error: the contents are only in this process."""
        raise export_error()

    def is_final(self) -> bool:
        """Return whether the contents can never change again."""
        return len(with_empty_frontier(self.operators)) == len(self.operators)

    def exclusive_state(self, prefix: str) -> tuple[int, int]:
        """Return rows and bytes of state that only installations with names beginning with ``prefix`` use."""
        own = [op for op in self.operators if all(name.startswith(prefix) for name in op.owners)]
        return sum(op.rows for op in own), sum(op.bytes for op in own)

    def ranks(self) -> "StateRanks | None":
        """Return the ranks of the rows if the output is a recursive set; None otherwise."""
        return derivation_rounds.ranks(self.output)

    def first_rounds(self) -> tuple[Words, Words] | None:
        """Return the input rows of a min or max in a loop, and the round of each; None otherwise."""
        return derivation_rounds.first_rounds(self.output)

    @property
    def last_step_seconds(self) -> float:
        """Time that the operators of this view, including shared ones, took in the last step."""
        self._update_counters()
        step = self.output.step
        return sum(op.counters.step_seconds for op in self.operators if op.scheduled_step is step)

    @property
    def stats(self) -> Stats:
        """Cost of the plan: of its installation, and of the last step."""
        return Stats(
            self.install_seconds,
            self.arrangements_built,
            self.arrangements_reused,
            self.last_step_seconds,
            self.output.size(),
        )


def operator_info(operator: Operator) -> OperatorInfo:
    """Return the statistics of an operator."""
    counters, scope = operator.counters, operator.place.scope
    loop_rounds = operator.body_scope.step.rounds if isinstance(operator, Loop) else ()
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
        loop_rounds[-1] + 1 if loop_rounds else 0,
        counters.step_seconds if operator.scheduled_step is operator.step else 0.0,
    )


def arrangement_info(arrange: Arrange) -> ArrangementInfo:
    """Return the statistics of an arrangement."""
    owners = tuple(sorted(arrange.owners))
    return ArrangementInfo(
        arrange.place.description, arrange.rows, arrange.bytes, arrange.spine.batch_count, owners
    )
