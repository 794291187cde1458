"""Chains: the operators of a scope compiled into one call for small steps and for rounds of a loop.

A :class:`Chain` covers the operators of the outermost scope that have links (``links.py``). An
operator without links runs in Python. Meanwhile a :class:`Relay` collects its output for consumers
with links: the output becomes a stream of the chain, and the links continue. Consumers without
links receive it as usual.

:class:`Rounds` is the chain of one loop's body. It runs rounds of few rows without a return to
Python, as long as only the variables carry updates over. It stops when an operator schedules work
for a later round, when an operator must run in Python, or when no work is left. It exists within
one step, so its operators are fixed.
"""

from collections.abc import Iterable, Sequence
from heapq import heappop
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from kpg.runtime import versions
from kpg.runtime.chain.links import Links, LoopLinks, has_loop_links, set_array
from kpg.runtime.dataflow.dataflow_graph import Operator, Step
from kpg.runtime.kernels import arguments as slot
from kpg.runtime.kernels import chain as kernels
from kpg.runtime.kernels import historytable, streams
from kpg.runtime.kernels import links as tables
from kpg.runtime.kernels.links import SMALL_STEP
from kpg.runtime.mfp.bytecode import Machine
from kpg.runtime.mfp.python_calls import Memo
from kpg.runtime.native.link import call_module
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.input import Source
from kpg.runtime.operators.linear import Linear
from kpg.runtime.operators.loop import Loop, Variable, is_leave
from kpg.runtime.operators.reduce import LoopReduce, Reduce
from kpg.runtime.operators.topk import Corners, TopK
from kpg.runtime.records import dataclass
from kpg.runtime.tables.table import Change
from kpg.runtime.trace.updates import ONE, Updates

Words = NDArray[np.int64]


class OutputBuffer:
    """Consumer that only stores updates."""

    def __init__(self) -> None:
        self.updates: list[Updates] = []

    def push(self, port: int, updates: Updates) -> None:
        """Store updates."""
        self.updates.append(updates)

    def absorb(self) -> None:
        """Do nothing."""


@dataclass(slots=True, eq=False)
class Relay:
    """Buffer in the place of an operator's linked consumers while the operator runs."""

    operator: Operator
    consumers: list[tuple[Operator, int]]
    linked_consumers: list[tuple[Operator, int]]
    buffer: OutputBuffer

    def end(self) -> None:
        """Restore the operator's consumers."""
        self.operator.consumers = self.consumers

    def stream(self, time: int) -> Updates | None:
        """Return the buffered output as one stream.

        Returns None if it is empty, or was pushed because links cannot read it.
        """
        updates_list = self.buffer.updates
        rows = sum(updates.data.shape[1] for updates in updates_list)
        fits = rows <= SMALL_STEP and all(
            part.constant_time and part.time[0, 0] == time for part in updates_list
        )
        if fits:
            return Updates.concat(updates_list) if rows else None
        for updates in updates_list:
            for consumer, port in self.linked_consumers:
                consumer.push(port, updates)
        return None


def attach_relay(operator: Operator, linked_consumers: list[tuple[Operator, int]]) -> Relay:
    """Replace the linked consumers of an operator by a relay."""
    buffer = OutputBuffer()
    relay = Relay(operator, operator.consumers, linked_consumers, buffer)
    other_consumers = [consumer for consumer in operator.consumers if consumer not in linked_consumers]
    operator.consumers = [*other_consumers, (cast(Operator, buffer), 0)]
    return relay


MEMORY: Final = 1 << 14
"""Initial words of memory for streams; a step of ten rows needs less."""


class Chain:
    """Links of a worker's operators, with memory for the streams between them.

    A step is :meth:`begin`; then :meth:`advance`, :meth:`hand_over` of the first queued operator and
    its flush, until none is queued; then :meth:`commit`. To roll the step back, call :meth:`settle` and
    :meth:`invalidate` instead.
    """

    def __init__(self, operators: Iterable[Operator]) -> None:
        self._links = links = self._make_links()
        for operator in sorted(operators):
            links.add(operator)
        self._set_listeners()
        self._table: Words = np.array(links.rows, np.int64).reshape(-1, tables.LINK_FIELDS)
        self._streams: Words = np.zeros((max(1, links.stream_count), tables.STREAM_FIELDS), np.int64)
        # Changes of the last call that operators have not recorded, unless ``_is_settled``.
        self._changes: Words = np.empty((len(links.rows), tables.CHANGE_FIELDS), np.int64)
        self._listened = np.empty(len(links.rows), np.int64)
        self._state = np.zeros(tables.CHAIN_FIELDS, np.int64)
        self._state[tables.CHAIN_CLOCK] = call_module().CLOCK
        self._state[tables.CHAIN_DEPTH] = 1
        self._memory = np.empty(MEMORY, np.int64)
        # Outgrown memory, to which streams of the step still refer.
        self._retained: list[Words] = []
        self._trace_links = list(links.traces.values())
        self._is_settled = True
        self._latest_version = -1
        """``versions.latest`` as of which templates are up to date."""
        self._step: Step | None = None
        self._current_relay: Relay | None = None
        self._program_arrays = ProgramArrays([machine for machine, _ in links.machines.values()])

    def _make_links(self) -> Links:
        return Links()

    def _outside_consumers(self, operator: Operator) -> list[tuple[Operator, int]]:
        """Return the consumers of an operator, with ports, that are not in the chain."""
        return [
            (consumer, port)
            for consumer, port in operator.consumers
            if consumer not in self._links.ends and not (isinstance(consumer, Linear) and consumer.is_idle)
        ]

    def _set_listeners(self) -> None:
        """Record in each link the first consumer of its output without links, if there is one."""
        links = self._links
        for operator, end in links.ends.items():
            outside = [consumer.position for consumer, _ in self._outside_consumers(operator)]
            links.rows[end - 1][tables.LINK_HEARD] = min(outside, default=tables.NOBODY)
        for row, operator in zip(links.rows, links.operators, strict=True):
            row[tables.LINK_POSITION] = operator.position
            row[tables.LINK_HEARD] = row[tables.LINK_HEARD] or tables.NOBODY

    def begin(self, step: Step) -> None:
        """Begin a step of one epoch and discard the streams of the previous one."""
        self._step = step
        if self._retained:
            self._retained.clear()
        epoch = step.lower
        streams.begin(self._streams, self._state, self._memory, epoch, epoch, epoch - 1)

    def feed(self, source: Source, changes: Sequence[Change]) -> None:
        """Add a step's changes of a table."""
        stream = self._links.streams[source]
        for rowids, diff in changes:
            while not streams.feed(self._streams, self._state, stream, rowids, diff):
                self._widen()

    def advance(self, step: Step) -> None:
        """Run links until a queued operator must run first, or to the end.

        Work that links cannot do is queued in the step.

        Raises:
            DataError: If a sum does not fit its type; also any error of an operator.
        """
        state = self._state
        self._end_relay(step)
        while True:
            self._refresh_templates()
            state[tables.CHAIN_LIMIT] = step.queue[0][0] if step.queue else tables.NOBODY
            verdict = kernels.run(self._table, self._streams, state, self._changes, self._listened)
            self._is_settled = False
            if verdict == tables.WAITS and not step.queue and not state[tables.CHAIN_TOLD]:
                return
            self.settle(step)
            if verdict >= 0:
                self.hand_over(self._links.operators[verdict])
                return
            if verdict == tables.NARROW:
                self._widen()
            elif verdict == tables.LACKS:
                self._fill_memos()
            elif verdict == tables.DOUBTS:
                self._check_output(int(state[tables.CHAIN_NEXT]) - 1, step)
            else:
                return

    def _widen(self) -> None:
        """Allocate memory for twice the need of the next link."""
        self._retained.append(self._memory)
        words = 2 * (self._memory.shape[0] + int(self._state[tables.CHAIN_WANTED]))
        self._memory = np.empty(words, np.int64)
        base = self._memory.ctypes.data
        self._state[tables.CHAIN_FREE], self._state[tables.CHAIN_END] = base, base + 8 * words

    def _fill_memos(self) -> None:
        """Compute the memo entries that the next link needs."""
        machine, _ = self._links.machines[int(self._state[tables.CHAIN_NEXT])]
        missing = np.empty((2, int(self._state[tables.CHAIN_WANTED])), np.int64)
        streams.take(int(self._state[tables.CHAIN_LACKED]), missing.reshape(-1))
        machine.sources.fill_memos(missing[:, : machine.status[0]])

    def _refresh_templates(self) -> None:
        """Update templates whose arrays were replaced since the last call."""
        latest = versions.latest
        if latest == self._latest_version:
            return
        self._latest_version = latest
        for trace_links in self._trace_links:
            if trace_links.version != trace_links.spine.version:
                trace_links.refresh(self._table)
        for group_links in self._links.group_links:
            if group_links.version != group_links.table.version:
                group_links.refresh()
        if self._program_arrays.has_changed():
            for machine, template in self._links.machines.values():
                dictionary = machine.sources.context.dictionary
                set_array(template, slot.RUN_SOURCES, machine.sources.refresh())
                set_array(template, slot.RUN_ARENA, dictionary.arena)
                set_array(template, slot.RUN_OFFSETS, dictionary.offsets)

    def commit(self, step: Step) -> None:
        """Commit the changes of links that operators have not recorded, without marking traces first.

        Operators that recorded changes in :meth:`settle` commit with the operators visited by the step.
        """
        if self._is_settled:
            return
        self._is_settled = True
        operators, after = self._links.operators, step.after
        for link, verdict, count, added in self._changes[: self._state[tables.CHAIN_CHANGED]].tolist():
            operators[link].commit_link(verdict, count, added, after)

    def settle(self, step: Step) -> None:
        """Let operators record the changes of links, so that they can be rolled back.

        Push output to outside consumers.
        """
        if self._current_relay is not None:
            self._current_relay.end()
            self._current_relay = None
        if self._is_settled:
            return
        self._is_settled = True
        operators, state = self._links.operators, self._state
        for link, verdict, count, added in self._changes[: state[tables.CHAIN_CHANGED]].tolist():
            step.visited.append(operators[link])
            operators[link].record_link(verdict, count, added)
        self._push_outside(step)

    def _push_outside(self, step: Step) -> None:
        """Push output to consumers without links."""
        for link in self._listened[: self._state[tables.CHAIN_TOLD]].tolist():
            updates = self._copy_stream(int(self._table[link, tables.LINK_OUTPUT]), step)
            for consumer, port in self._outside_consumers(self._links.operators[link]):
                consumer.push(port, updates)

    def _copy_stream(self, stream: int, step: Step) -> Updates:
        """Return a copy of a stream as updates of the step."""
        address, width, rows, diff, diffs, ordered = self._streams[stream].tolist()
        data, counts = np.empty((width, rows), np.int64), np.empty(diffs, np.int64)
        streams.take(address, data.reshape(-1))
        streams.take(diff, counts)
        if diffs == 1 and counts[0] == 1:
            counts = ONE
        return Updates(data, step.stamp, counts, bool(ordered))

    def _set_stream(self, stream: int, updates: Updates) -> None:
        """Set a stream to these updates."""
        width, rows = updates.data.shape
        words = np.concatenate((updates.data.reshape(-1), updates.diff))
        address, diffs = words.ctypes.data, updates.diff.shape[0]
        self._retained.append(words)
        self._streams[stream] = address, width, rows, address + 8 * width * rows, diffs, updates.ordered

    def _begin_relay(self, operator: Operator) -> None:
        """Attach a relay to an operator without links that runs next, if links read its output."""
        ends = self._links.ends
        if operator in self._links.streams:
            linked_consumers = [consumer for consumer in operator.consumers if consumer[0] in ends]
            if linked_consumers and all(
                self._state[tables.CHAIN_NEXT] < ends[consumer] for consumer, _ in linked_consumers
            ):
                self._current_relay = attach_relay(operator, linked_consumers)

    def _end_relay(self, step: Step) -> None:
        """Turn the relayed output into a stream."""
        relay, self._current_relay = self._current_relay, None
        if relay is not None:
            relay.end()
            updates = relay.stream(step.time)
            if updates is not None:
                self._set_stream(self._links.streams[relay.operator], updates)

    def hand_over(self, operator: Operator) -> None:
        """Push to an operator that runs in Python the input of its links, unless they ran, and skip them."""
        end = self._links.ends.get(operator)
        # Its appends change the bound of multiplicities without a new version of the trace.
        if isinstance(operator, Arrange) and operator.spine in self._links.traces:
            self._links.traces[operator.spine].version = self._latest_version = -1
        if end is None:
            self._begin_relay(operator)
        if end is None or self._state[tables.CHAIN_NEXT] >= end:
            return
        self._state[tables.CHAIN_NEXT] = end
        step = operator.step
        for port, stream in enumerate(self._links.inputs[operator]):
            if self._streams[stream, tables.STREAM_ROWS]:
                operator.push(port, self._copy_stream(stream, step))

    def _check_output(self, link: int, step: Step) -> None:
        """Let a link's operator check its output.

        Raises:
            DataError: If a value does not fit.
        """
        operator = self._links.operators[link]
        assert isinstance(operator, Reduce)
        operator.table.check_overflow()
        if operator.table.may_be_out_of_range:
            stream = int(self._table[link, tables.LINK_OUTPUT])
            operator.output.check(operator.table, self._copy_stream(stream, step).data)

    def invalidate(self) -> None:
        """Make the next step refresh all traces, after operators ran outside it or were rolled back."""
        self._latest_version = -1
        for trace_links in self._trace_links:
            trace_links.version = -1

    def add_counters(self) -> None:
        """Add the counts and seconds of links since the last call to their operators' counters."""
        fresh: dict[Operator, float] = {}
        for row, operator in zip(self._table, self._links.operators, strict=True):
            counters, step = operator.counters, self._step
            counters.updates_in += int(row[tables.LINK_UPDATES_IN])
            counters.updates_out += int(row[tables.LINK_UPDATES_OUT])
            counters.seconds += 1e-9 * int(row[tables.LINK_NANOSECONDS])
            row[tables.LINK_UPDATES_IN : tables.LINK_EPOCH] = 0
            # Not the operator's step: that may be a new step at the time of a failed one.
            if step is not None and row[tables.LINK_EPOCH] == step.time:
                operator.scheduled_step = step
                fresh[operator] = fresh.get(operator, 0.0) + 1e-9 * int(row[tables.LINK_LATEST])
        for operator, seconds in fresh.items():
            operator.counters.step_seconds = seconds


class ProgramArrays:
    """Arrays that programs read by address: of tables, of memos, and of the dictionary's texts."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        entries = {id(entry): entry for machine in machines for entry in machine.sources.entries}.values()
        self._memos: list[tuple[Memo, Any]] = [
            (source, None) for source in entries if isinstance(source, Memo)
        ]
        self._stores: list[tuple[Any, Any]] = [
            (source, None) for source in entries if not isinstance(source, Memo)
        ]
        self._dictionary = machines[0].sources.context.dictionary if machines else None
        self._texts: tuple[Any, Any] = None, None

    def has_changed(self) -> bool:
        """Return whether an array was replaced since the last call."""
        for store, directory in self._stores:
            if store.directory is not directory:
                return self._update()
        for memo, words in self._memos:
            if memo.words is not words:
                return self._update()
        dictionary = self._dictionary
        if dictionary is None:
            return False
        arena, offsets = self._texts
        return self._update() if dictionary.arena is not arena or dictionary.offsets is not offsets else False

    def _update(self) -> bool:
        self._stores = [(store, store.directory) for store, _ in self._stores]
        self._memos = [(memo, memo.words) for memo, _ in self._memos]
        if self._dictionary is not None:
            self._texts = self._dictionary.arena, self._dictionary.offsets
        return True


AT_ONCE: Final = 1 << 8
"""Rounds between checks for Ctrl-C: a millisecond of small ones, a tenth of a second of large ones."""


class Rounds(Chain):
    """Chain of one loop's body, for one step of one epoch."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._scope = loop.body_scope
        self._loop_links = LoopLinks(Corners.below_later_rounds(self._scope.step))
        Chain.__init__(self, filter(has_loop_links, loop.body))
        links, variables = (
            self._links,
            [loop_variable for loop_variable in loop.body if isinstance(loop_variable, Variable)],
        )
        self._variables: dict[Operator, int] = {
            loop_variable: links.inputs[loop_variable][0] for loop_variable in variables
        }
        self._carried_streams = [
            (links.streams[result], variable)
            for result in links.ends
            for variable, port in result.consumers
            if isinstance(variable, Variable) and port == 0
        ]
        pairs = [
            word
            for stream, loop_variable in self._carried_streams
            for word in (stream, self._variables[loop_variable])
        ]
        self._carry_table: Words = np.array([len(self._carried_streams), *pairs], np.int64)
        self._limit = min(
            (loop_variable.limit for loop_variable in variables if loop_variable.limit is not None),
            default=tables.NOBODY,
        )
        self._changes[:] = 0
        self._time: Words = np.zeros(self._scope.depth, np.int64)
        self._other_memory: Words = np.empty(MEMORY, np.int64)

    def _make_links(self) -> Links:
        return self._loop_links

    def _outside_consumers(self, operator: Operator) -> list[tuple[Operator, int]]:
        outside = Chain._outside_consumers(self, operator)
        return [(consumer, port) for consumer, port in outside if not is_leave(consumer)]

    def can_run(self, step: Step) -> bool:
        """Return whether a beginning round has only a few rows, carried over by variables."""
        rows = 0
        for _, operator in step.queue:
            if not isinstance(operator, Variable):
                return False
            rows += sum(map(len, operator.pending))
        return rows <= tables.SMALL_STEP and step.rounds[-1] < self._limit

    def follow(self, step: Step) -> None:
        """Run the round and those after it, as long as they are of this kind."""
        try:
            self._start(step)
            while not self._is_done():
                self._scope.interrupt.check()
                self._go_on()
            step = self._scope.step
            for stream, variable in self._carried_streams:
                if self._streams[stream, tables.STREAM_ROWS]:
                    updates = self._copy_stream(stream, step)
                    variable.counters.updates_in += len(updates)
                    self._scope.carry_to_next_round(variable, updates)
        except BaseException:
            self.settle(self._scope.step)
            raise
        for leaving in self._loop_links.leave_buffers:
            leaving.flush()

    def _start(self, step: Step) -> None:
        """Begin a round with the updates that variables carry into it."""
        self._step = step
        self._retained.clear()
        state, memory, other = self._state, self._memory, self._other_memory
        streams.begin(self._streams, state, memory, step.time, step.lower, step.floor)
        self._time[:] = step.time, *step.rounds
        state[tables.CHAIN_TIME] = self._time.ctypes.data
        state[tables.CHAIN_DEPTH] = self._time.shape[0]
        state[tables.CHAIN_CARRIES] = self._carry_table.ctypes.data
        state[tables.CHAIN_BASE] = memory.ctypes.data
        state[tables.CHAIN_OTHER] = other.ctypes.data
        state[tables.CHAIN_OTHER_END] = other.ctypes.data + other.nbytes
        for _, operator in step.queue:
            carried = Updates.concat(operator.take_pending())
            operator.counters.updates_in -= len(carried)  # the links count them again
            self._set_stream(self._variables[operator], carried)
            operator.scheduled_step = None  # it may still have to run in Python
        step.queue.clear()

    def _begin_relay(self, operator: Operator) -> None:
        """Do nothing: in a loop, output may belong to other rounds."""

    def _is_done(self) -> bool:
        """Return whether the round is over and links cannot begin the next one."""
        if self._state[tables.CHAIN_NEXT] < self._table.shape[0] or self._scope.step.queue:
            return False
        if not any(self._streams[stream, tables.STREAM_ROWS] for stream, _ in self._carried_streams):
            return True
        return self._scope.step.rounds[-1] + 1 >= self._last()

    def _last(self) -> int:
        """Return the first round that links must not begin: it has other work, or exceeds the limit."""
        order, outer = self._scope.order, self._scope.step.rounds[:-1]
        agenda = order[0][-1] if order and order[0][:-1] == outer else tables.NOBODY
        return min(agenda, self._limit)

    def _go_on(self) -> None:
        """Run links as far as possible, then the first queued operator in Python."""
        self.advance(self._scope.step)
        queue = self._scope.step.queue
        if queue:
            _, operator = heappop(queue)
            self._loop.touched_operators[operator] = None
            self.hand_over(operator)
            operator.flush()

    def advance(self, step: Step) -> None:
        """Run links until a queued operator must run first, or to the end of a round."""
        state = self._state
        while True:
            self._refresh_templates()
            state[tables.CHAIN_LIMIT] = step.queue[0][0] if step.queue else tables.NOBODY
            state[tables.CHAIN_LAST] = min(self._last(), step.rounds[-1] + 1 + AT_ONCE)
            verdict = kernels.run(self._table, self._streams, state, self._changes, self._listened)
            self._is_settled = False
            step = self._reach_round()
            self.settle(step)
            if verdict >= 0:
                self.hand_over(self._links.operators[verdict])
                return
            if verdict == tables.NARROW:
                self._widen()
            elif verdict == tables.LACKS:
                self._fill_memos()
            elif verdict == tables.LEAVES:
                for leaving in self._loop_links.leave_buffers:
                    leaving.flush(enlarge=True)
            elif verdict == tables.CRAMPED:
                self._widen_other()
            elif verdict == tables.OWES:
                self._schedule_later(int(state[tables.CHAIN_NEXT]) - 1)
            else:
                return

    def _reach_round(self) -> Step:
        """Return the step of the round that links have reached."""
        step, round = self._scope.step, self._time.item(-1)
        if step.rounds[-1] != round:
            rounds = (*step.rounds[:-1], round)
            step = self._scope.step = Step(step.lower, step.upper, step.hydrating, rounds)
        return step

    def settle(self, step: Step) -> None:
        """Let operators record the changes of links in all rounds; push output to outside consumers."""
        if self._is_settled:
            return
        self._is_settled = True
        for link, (runs, verdict, count, added) in enumerate(self._changes.tolist()):
            if not runs:
                continue
            operator = self._links.operators[link]
            self._loop.touched_operators[operator] = None
            if isinstance(operator, Arrange):
                operator.record_link(verdict, count, added)
            elif isinstance(operator, LoopReduce):
                here = self._state[tables.CHAIN_NEXT] >= self._links.ends[operator]
                *outer, round = step.rounds
                operator.record_rounds(added, step.rounds if here else (*outer, round - 1))
            elif isinstance(operator, TopK):
                operator.record_link(verdict, count, added)
        self._changes[:] = 0
        self._push_outside(step)

    def _refresh_templates(self) -> None:
        Chain._refresh_templates(self)
        for operator, template in self._loop_links.bounds.items():
            template[slot.EVALUATING_BOUND] = min(operator.bound, tables.MOST_COUNTED)

    def _widen(self) -> None:
        """Allocate memory for twice the need of the next link."""
        state = self._state
        base, end = self._replace_memory(int(state[tables.CHAIN_BASE]))
        state[tables.CHAIN_BASE] = state[tables.CHAIN_FREE] = base
        state[tables.CHAIN_END] = end

    def _widen_other(self) -> None:
        """Allocate memory for twice the updates carried into the next round."""
        other, end = self._replace_memory(int(self._state[tables.CHAIN_OTHER]))
        self._state[tables.CHAIN_OTHER], self._state[tables.CHAIN_OTHER_END] = other, end

    def _replace_memory(self, address: int) -> tuple[int, int]:
        """Replace the memory at an address by more, and return the ends of the new memory.

        Streams may use the old one.
        """
        first = address == self._memory.ctypes.data
        old = self._memory if first else self._other_memory
        new = np.empty(2 * (old.shape[0] + int(self._state[tables.CHAIN_WANTED])), np.int64)
        self._retained.append(old)
        if first:
            self._memory = new
        else:
            self._other_memory = new
        return new.ctypes.data, new.ctypes.data + new.nbytes

    def _schedule_later(self, link: int) -> None:
        """Schedule a link's operator in later rounds."""
        operator, state = self._links.operators[link], self._state
        pairs = np.empty((self._time.shape[0], int(state[tables.CHAIN_WANTED])), np.int64)
        streams.take(int(state[tables.CHAIN_LACKED]), pairs.reshape(-1))
        if isinstance(operator, TopK):
            top = self._loop_links.tops[link]
            prefix = np.empty((operator.group, top[tables.TOP_TASKS]), np.int64)
            streams.take(top.item(tables.TOP_PREFIX), prefix.reshape(-1))
            operator.schedule_groups(prefix, pairs[:, : top[tables.TOP_OWED]])
            return
        assert isinstance(operator, LoopReduce)
        for rounds in operator.table.schedule_keys(pairs[:, : operator.table.state.item(historytable.OWED)]):
            self._scope.schedule_at(operator, rounds)

    def hand_over(self, operator: Operator) -> None:
        """Pass to an operator that runs in Python the input of its links, unless they ran, and skip them."""
        end = self._links.ends.get(operator)
        if isinstance(operator, Arrange) and operator.spine in self._links.traces:
            self._links.traces[operator.spine].version = self._latest_version = -1
        if end is None or self._state[tables.CHAIN_NEXT] >= end:
            return
        self._state[tables.CHAIN_NEXT] = end
        for port, stream in enumerate(self._links.inputs[operator]):
            if self._streams[stream, tables.STREAM_ROWS]:
                updates = self._copy_stream(stream, self._scope.step)
                operator.counters.updates_in += len(updates)
                operator.accept(port, updates)
                self._scope.enqueue(operator)

    def add_counters(self) -> None:
        """Add the counts and seconds of links to their operators' counters."""
        for row, operator in zip(self._table, self._links.operators, strict=True):
            operator.counters.updates_in += int(row[tables.LINK_UPDATES_IN])
            operator.counters.updates_out += int(row[tables.LINK_UPDATES_OUT])
            operator.counters.seconds += 1e-9 * int(row[tables.LINK_NANOSECONDS])
