"""Chains: the operators of a scope compiled into one call for small steps and for rounds of a loop.

A :class:`Chain` covers the operators of the outermost scope that have links (``links.py``). An operator
without links runs in Python. Meanwhile a :class:`Relay` collects its output for consumers with links: the
output becomes a stream of the chain, and the links continue. Consumers without links receive it as usual.

:class:`Rounds` is the chain of one loop's body. It runs rounds of few rows without a return to Python, as
long as only the variables carry updates over. It stops when an operator owes something to a later round, when
an operator must run in Python, or when no work is left. It exists within one step, so its operators are
fixed.
"""

from collections.abc import Iterable, Sequence
from heapq import heappop
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from kpg.runtime import versions
from kpg.runtime.chain.links import LINKED, Links, LoopLinks, fill
from kpg.runtime.dataflow.dataflow_graph import Operator, Step
from kpg.runtime.kernels import arguments as slot
from kpg.runtime.kernels import chain as kernels
from kpg.runtime.kernels import historytable, streams
from kpg.runtime.kernels import links as tables
from kpg.runtime.kernels.links import SMALL_STEP
from kpg.runtime.mfp.bytecode import Machine
from kpg.runtime.mfp.python_calls import Memo
from kpg.runtime.native.link import call
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.input import Source
from kpg.runtime.operators.linear import Late
from kpg.runtime.operators.loop import ArrangedLeave, Leave, Loop, Variable
from kpg.runtime.operators.reduce import Grouped, LoopDistinct
from kpg.runtime.operators.topk import Corners, TopK
from kpg.runtime.records import dataclass
from kpg.runtime.tables.table import Change
from kpg.runtime.trace.updates import ONE, Updates

Words = NDArray[np.int64]


class Heard:
    """A consumer that only keeps what it is given."""

    def __init__(self) -> None:
        self.updates: list[Updates] = []

    def push(self, port: int, updates: Updates) -> None:
        """Keep updates."""
        self.updates.append(updates)

    def absorb(self) -> None:
        """There is nothing to do with them yet."""


@dataclass(slots=True, eq=False)
class Relay:
    """An operator that runs, its consumers as they are, and what those with links are to read."""

    operator: Operator
    consumers: list[tuple[Operator, int]]
    linked: list[tuple[Operator, int]]
    heard: Heard

    def end(self) -> None:
        """Let the operator have its consumers again."""
        self.operator.consumers = self.consumers

    def stream(self, time: int) -> Updates | None:
        """What was heard, as one stream; None if it is nothing, or pushed because links cannot read it."""
        heard = self.heard.updates
        rows = sum(updates.data.shape[1] for updates in heard)
        fits = rows <= SMALL_STEP and all(one.constant_time and one.time[0, 0] == time for one in heard)
        if fits:
            return Updates.concat(heard) if rows else None
        for updates in heard:
            for consumer, port in self.linked:
                consumer.push(port, updates)
        return None


def relay(operator: Operator, linked: list[tuple[Operator, int]]) -> Relay:
    """Have the consumers that are ``linked`` hear an operator through a relay."""
    heard = Heard()
    found = Relay(operator, operator.consumers, linked, heard)
    others = [one for one in operator.consumers if one not in linked]
    operator.consumers = [*others, (cast(Operator, heard), 0)]
    return found


MEMORY: Final = 1 << 14
"""Words for streams at first: a step of ten rows needs less."""


class Chain:
    """The links of a worker's operators, with memory for what flows between them.

    A step is :meth:`begin`; :meth:`advance`, then :meth:`hand_over` of the operator that is queued first and
    its flush, until none is queued; then :meth:`commit`, or, if the step is rolled back, :meth:`settle` and
    :meth:`renew`.
    """

    def __init__(self, operators: Iterable[Operator]) -> None:
        self._links = links = self._make_links()
        for operator in sorted(operators):
            links.add(operator)
        self._hear()
        self._table: Words = np.array(links.rows, np.int64).reshape(-1, tables.LINK_FIELDS)
        self._streams: Words = np.zeros((max(1, links.count), tables.STREAM_FIELDS), np.int64)
        # What the last call did and operators have not been told of, unless ``_settled``.
        self._changed: Words = np.empty((len(links.rows), tables.CHANGE_FIELDS), np.int64)
        self._told = np.empty(len(links.rows), np.int64)
        self._state = np.zeros(tables.CHAIN_FIELDS, np.int64)
        self._state[tables.CHAIN_CLOCK] = call().CLOCK
        self._state[tables.CHAIN_DEPTH] = 1
        self._memory = np.empty(MEMORY, np.int64)
        # Memory that was too little, to which streams of the step still refer.
        self._older: list[Words] = []
        self._traced = list(links.traced.values())
        self._settled = True
        self._seen = -1
        """``versions.latest`` as of which templates are up to date."""
        self._step: Step | None = None
        self._relayed: Relay | None = None
        self._read = Read([machine for machine, _ in links.machines.values()])

    def _make_links(self) -> Links:
        return Links()

    def _outside(self, operator: Operator) -> list[tuple[Operator, int]]:
        """Who hears an operator without being in the chain, and by which port."""
        return [
            (one, port)
            for one, port in operator.consumers
            if one not in self._links.ends and not (isinstance(one, Late) and one.sleeps)
        ]

    def _hear(self) -> None:
        """Note in links the first operator without links that hears the output, if any does."""
        links = self._links
        for operator, end in links.ends.items():
            outside = [one.position for one, _ in self._outside(operator)]
            links.rows[end - 1][tables.LINK_HEARD] = min(outside, default=tables.NOBODY)
        for row, operator in zip(links.rows, links.operators, strict=True):
            row[tables.LINK_POSITION] = operator.position
            row[tables.LINK_HEARD] = row[tables.LINK_HEARD] or tables.NOBODY

    def begin(self, step: Step) -> None:
        """Begin a step of one epoch; what the step before left behind is forgotten."""
        self._step = step
        if self._older:
            self._older.clear()
        epoch = step.lower
        streams.begin(self._streams, self._state, self._memory, epoch, epoch, epoch - 1)

    def feed(self, source: Source, changes: Sequence[Change]) -> None:
        """Take a step's changes of a table."""
        stream = self._links.streams[source]
        for rowids, diff in changes:
            while not streams.feed(self._streams, self._state, stream, rowids, diff):
                self._widen()

    def advance(self, step: Step) -> None:
        """Run links until one of the operators that are queued in the step must run first, or to the end.

        What links could not do is queued in the step. DataError, or what an operator raises, where a sum does
        not fit its type.
        """
        state = self._state
        self._take_relayed(step)
        while True:
            self._renew()
            state[tables.CHAIN_LIMIT] = step.queue[0][0] if step.queue else tables.NOBODY
            verdict = kernels.run(self._table, self._streams, state, self._changed, self._told)
            self._settled = False
            if verdict == tables.WAITS and not step.queue and not state[tables.CHAIN_TOLD]:
                return
            self.settle(step)
            if verdict >= 0:
                self.hand_over(self._links.operators[verdict])
                return
            if verdict == tables.NARROW:
                self._widen()
            elif verdict == tables.LACKS:
                self._fill()
            elif verdict == tables.DOUBTS:
                self._look(int(state[tables.CHAIN_NEXT]) - 1, step)
            else:
                return

    def _widen(self) -> None:
        """Make memory for what the next link needs, and for as much again."""
        self._older.append(self._memory)
        words = 2 * (self._memory.shape[0] + int(self._state[tables.CHAIN_WANTED]))
        self._memory = np.empty(words, np.int64)
        base = self._memory.ctypes.data
        self._state[tables.CHAIN_FREE], self._state[tables.CHAIN_END] = base, base + 8 * words

    def _fill(self) -> None:
        """Compute what memos lack for the next link."""
        machine, _ = self._links.machines[int(self._state[tables.CHAIN_NEXT])]
        missing = np.empty((2, int(self._state[tables.CHAIN_WANTED])), np.int64)
        streams.take(int(self._state[tables.CHAIN_LACKED]), missing.reshape(-1))
        machine.sources.fill(missing[:, : machine.status[0]])

    def _renew(self) -> None:
        """Bring templates up to date with arrays that were replaced since the last call."""
        latest = versions.latest
        if latest == self._seen:
            return
        self._seen = latest
        for traced in self._traced:
            if traced.version != traced.spine.version:
                traced.renew(self._table)
        for refreshed in self._links.refreshed:
            if refreshed.version != refreshed.table.version:
                refreshed.renew()
        if self._read.replaced():
            for machine, template in self._links.machines.values():
                dictionary = machine.sources.context.dictionary
                fill(template, slot.RUN_SOURCES, machine.sources.refresh())
                fill(template, slot.RUN_ARENA, dictionary.arena)
                fill(template, slot.RUN_OFFSETS, dictionary.offsets)

    def commit(self, step: Step) -> None:
        """Have operators commit what links have done since they were told last, without marking it first.

        What :meth:`settle` told them of they commit as those that the step has visited.
        """
        if self._settled:
            return
        self._settled = True
        operators, after = self._links.operators, step.after
        for link, verdict, count, added in self._changed[: self._state[tables.CHAIN_CHANGED]].tolist():
            operators[link].committed(verdict, count, added, after)

    def settle(self, step: Step) -> None:
        """Tell operators what links have done for them, so that it can be taken back; push what is heard."""
        if self._relayed is not None:
            self._relayed.end()
            self._relayed = None
        if self._settled:
            return
        self._settled = True
        operators, state = self._links.operators, self._state
        for link, verdict, count, added in self._changed[: state[tables.CHAIN_CHANGED]].tolist():
            step.visited.append(operators[link])
            operators[link].linked(verdict, count, added)
        self._tell(step)

    def _tell(self, step: Step) -> None:
        """Push what operators without links are to hear."""
        for link in self._told[: self._state[tables.CHAIN_TOLD]].tolist():
            updates = self._updates(int(self._table[link, tables.LINK_OUTPUT]), step)
            for consumer, port in self._outside(self._links.operators[link]):
                consumer.push(port, updates)

    def _updates(self, stream: int, step: Step) -> Updates:
        """A copy of a stream, as updates of the step."""
        address, width, rows, diff, diffs, ordered = self._streams[stream].tolist()
        data, counts = np.empty((width, rows), np.int64), np.empty(diffs, np.int64)
        streams.take(address, data.reshape(-1))
        streams.take(diff, counts)
        if diffs == 1 and counts[0] == 1:
            counts = ONE
        return Updates(data, step.stamp, counts, bool(ordered))

    def _feed(self, stream: int, updates: Updates) -> None:
        """Let a stream be these updates."""
        width, rows = updates.data.shape
        words = np.concatenate((updates.data.reshape(-1), updates.diff))
        address, diffs = words.ctypes.data, updates.diff.shape[0]
        self._older.append(words)
        self._streams[stream] = address, width, rows, address + 8 * width * rows, diffs, updates.ordered

    def _relay(self, operator: Operator) -> None:
        """Have an operator without links, which runs next, be heard by links."""
        ends = self._links.ends
        if operator in self._links.streams:
            linked = [one for one in operator.consumers if one[0] in ends]
            if linked and all(self._state[tables.CHAIN_NEXT] < ends[one] for one, _ in linked):
                self._relayed = relay(operator, linked)

    def _take_relayed(self, step: Step) -> None:
        """Let what the operator has put out be a stream."""
        relayed, self._relayed = self._relayed, None
        if relayed is not None:
            relayed.end()
            updates = relayed.stream(step.time)
            if updates is not None:
                self._feed(self._links.streams[relayed.operator], updates)

    def hand_over(self, operator: Operator) -> None:
        """Give an operator, to run in Python, what its links would have read, unless they ran; skip them."""
        end = self._links.ends.get(operator)
        # What it appends moves the bound of multiplicities, which is no other version of the trace.
        if isinstance(operator, Arrange) and operator.spine in self._links.traced:
            self._links.traced[operator.spine].version = self._seen = -1
        if end is None:
            self._relay(operator)
        if end is None or self._state[tables.CHAIN_NEXT] >= end:
            return
        self._state[tables.CHAIN_NEXT] = end
        step = operator.step
        for port, stream in enumerate(self._links.inputs[operator]):
            if self._streams[stream, tables.STREAM_ROWS]:
                operator.push(port, self._updates(stream, step))

    def _look(self, link: int, step: Step) -> None:
        """Have a link's operator look at what it has put out: DataError if that does not fit."""
        operator = self._links.operators[link]
        assert isinstance(operator, Grouped)
        operator.table.check()
        if operator.table.doubtful:
            operator.check(self._updates(int(self._table[link, tables.LINK_OUTPUT]), step).data)

    def renew(self) -> None:
        """Have the next step look at all traces again: operators ran one by one, or were rolled back."""
        self._seen = -1
        for traced in self._traced:
            traced.version = -1

    def tally(self) -> None:
        """Add what links have counted since the last time to their operators' counters, in seconds."""
        fresh: dict[Operator, float] = {}
        for row, operator in zip(self._table, self._links.operators, strict=True):
            counters, step = operator.counters, self._step
            counters.updates_in += int(row[tables.LINK_UPDATES_IN])
            counters.updates_out += int(row[tables.LINK_UPDATES_OUT])
            counters.seconds += 1e-9 * int(row[tables.LINK_NANOSECONDS])
            row[tables.LINK_UPDATES_IN : tables.LINK_EPOCH] = 0
            # Not the operator's step: that may be one that is about to begin, at the time of one that failed.
            if step is not None and row[tables.LINK_EPOCH] == step.time:
                operator.scheduled = step
                fresh[operator] = fresh.get(operator, 0.0) + 1e-9 * int(row[tables.LINK_LATEST])
        for operator, seconds in fresh.items():
            operator.counters.step_seconds = seconds


class Read:
    """The arrays that programs read by address: of tables, of memos, and of the dictionary's texts."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        entries = {id(entry): entry for machine in machines for entry in machine.sources.entries}.values()
        self._memos: list[tuple[Memo, Any]] = [(one, None) for one in entries if isinstance(one, Memo)]
        self._stores: list[tuple[Any, Any]] = [(one, None) for one in entries if not isinstance(one, Memo)]
        self._dictionary = machines[0].sources.context.dictionary if machines else None
        self._texts: tuple[Any, Any] = None, None

    def replaced(self) -> bool:
        """Whether one of the arrays is not the one that it was at the last call."""
        for store, directory in self._stores:
            if store.directory is not directory:
                return self._look()
        for memo, words in self._memos:
            if memo.words is not words:
                return self._look()
        dictionary = self._dictionary
        if dictionary is None:
            return False
        arena, offsets = self._texts
        return self._look() if dictionary.arena is not arena or dictionary.offsets is not offsets else False

    def _look(self) -> bool:
        self._stores = [(store, store.directory) for store, _ in self._stores]
        self._memos = [(memo, memo.words) for memo, _ in self._memos]
        if self._dictionary is not None:
            self._texts = self._dictionary.arena, self._dictionary.offsets
        return True


AT_ONCE: Final = 1 << 8
"""Rounds after which Ctrl-C is looked for: a millisecond of small ones, a tenth of a second of large ones."""


class Rounds(Chain):
    """The chain of one loop's body, for one step of one epoch."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._scope = loop.within
        self._ways = LoopLinks(Corners.from_here(self._scope.step))
        Chain.__init__(self, (operator for operator in loop.body if isinstance(operator, LINKED)))
        links, variables = self._links, [one for one in loop.body if isinstance(one, Variable)]
        self._variables: dict[Operator, int] = {one: links.inputs[one][0] for one in variables}
        self._carried = [
            (links.streams[result], variable)
            for result in links.ends
            for variable, port in result.consumers
            if isinstance(variable, Variable) and port == 0
        ]
        pairs = [word for stream, one in self._carried for word in (stream, self._variables[one])]
        self._carries: Words = np.array([len(self._carried), *pairs], np.int64)
        self._limit = min((one.limit for one in variables if one.limit is not None), default=tables.NOBODY)
        self._changed[:] = 0
        self._time: Words = np.zeros(self._scope.depth, np.int64)
        self._other: Words = np.empty(MEMORY, np.int64)

    def _make_links(self) -> Links:
        return self._ways

    def _outside(self, operator: Operator) -> list[tuple[Operator, int]]:
        outside = Chain._outside(self, operator)
        return [(one, port) for one, port in outside if not isinstance(one, Leave | ArrangedLeave)]

    def takes(self, step: Step) -> bool:
        """Whether a round that begins has nothing but a few rows that variables carry over."""
        rows = 0
        for _, operator in step.queue:
            if not isinstance(operator, Variable):
                return False
            rows += sum(map(len, operator.pending))
        return rows <= tables.SMALL_STEP and step.rounds[-1] < self._limit

    def follow(self, step: Step) -> None:
        """Run the round, and those after it while they are of this kind."""
        try:
            self._start(step)
            while not self._rests():
                self._scope.interrupt.check()
                self._go_on()
            step = self._scope.step
            for stream, variable in self._carried:
                if self._streams[stream, tables.STREAM_ROWS]:
                    updates = self._updates(stream, step)
                    variable.counters.updates_in += len(updates)
                    self._scope.carry(variable, updates)
        except BaseException:
            self.settle(self._scope.step)
            raise
        for left in self._ways.left:
            left.take_out()

    def _start(self, step: Step) -> None:
        """Take what variables carry into the round."""
        self._step = step
        self._older.clear()
        state, memory, other = self._state, self._memory, self._other
        streams.begin(self._streams, state, memory, step.time, step.lower, step.floor)
        self._time[:] = step.time, *step.rounds
        state[tables.CHAIN_TIME] = self._time.ctypes.data
        state[tables.CHAIN_DEPTH] = self._time.shape[0]
        state[tables.CHAIN_CARRIES] = self._carries.ctypes.data
        state[tables.CHAIN_BASE] = memory.ctypes.data
        state[tables.CHAIN_OTHER] = other.ctypes.data
        state[tables.CHAIN_OTHER_END] = other.ctypes.data + other.nbytes
        for _, operator in step.queue:
            carried = Updates.concat(operator.take())
            operator.counters.updates_in -= len(carried)  # links count them
            self._feed(self._variables[operator], carried)
            operator.scheduled = None  # it may have to run in Python yet
        step.queue.clear()

    def _relay(self, operator: Operator) -> None:
        """In a loop what operators put out may be for other rounds."""

    def _rests(self) -> bool:
        """Whether all is done that can be done here: the round is over, and the next one is not for links."""
        if self._state[tables.CHAIN_NEXT] < self._table.shape[0] or self._scope.step.queue:
            return False
        if not any(self._streams[stream, tables.STREAM_ROWS] for stream, _ in self._carried):
            return True
        return self._scope.step.rounds[-1] + 1 >= self._last()

    def _last(self) -> int:
        """The first round that links are not to begin: something else awaits it, or it is past the limit."""
        order, outer = self._scope.order, self._scope.step.rounds[:-1]
        agenda = order[0][-1] if order and order[0][:-1] == outer else tables.NOBODY
        return min(agenda, self._limit)

    def _go_on(self) -> None:
        """Run links as far as they come; then the operators in Python that come first."""
        self.advance(self._scope.step)
        queue = self._scope.step.queue
        if queue:
            _, operator = heappop(queue)
            self._loop.touched[operator] = None
            self.hand_over(operator)
            operator.flush()

    def advance(self, step: Step) -> None:
        """Run links until one of the operators that are queued must run first, or to the end of a round."""
        state = self._state
        while True:
            self._renew()
            state[tables.CHAIN_LIMIT] = step.queue[0][0] if step.queue else tables.NOBODY
            state[tables.CHAIN_LAST] = min(self._last(), step.rounds[-1] + 1 + AT_ONCE)
            verdict = kernels.run(self._table, self._streams, state, self._changed, self._told)
            self._settled = False
            step = self._arrived()
            self.settle(step)
            if verdict >= 0:
                self.hand_over(self._links.operators[verdict])
                return
            if verdict == tables.NARROW:
                self._widen()
            elif verdict == tables.LACKS:
                self._fill()
            elif verdict == tables.LEAVES:
                for left in self._ways.left:
                    left.take_out(more=True)
            elif verdict == tables.CRAMPED:
                self._widen_other()
            elif verdict == tables.OWES:
                self._owe(int(state[tables.CHAIN_NEXT]) - 1)
            else:
                return

    def _arrived(self) -> Step:
        """The step of the round that links have come to."""
        step, round = self._scope.step, self._time.item(-1)
        if step.rounds[-1] != round:
            rounds = (*step.rounds[:-1], round)
            step = self._scope.step = Step(step.lower, step.upper, step.hydrating, rounds)
        return step

    def settle(self, step: Step) -> None:
        """Tell operators what links have done for them in all rounds; push what is heard."""
        if self._settled:
            return
        self._settled = True
        for link, (runs, verdict, count, added) in enumerate(self._changed.tolist()):
            if not runs:
                continue
            operator = self._links.operators[link]
            self._loop.touched[operator] = None
            if isinstance(operator, Arrange):
                operator.linked(verdict, count, added)
            elif isinstance(operator, LoopDistinct):
                here = self._state[tables.CHAIN_NEXT] >= self._links.ends[operator]
                *outer, round = step.rounds
                operator.followed(added, step.rounds if here else (*outer, round - 1))
            elif isinstance(operator, TopK):
                operator.linked(verdict, count, added)
        self._changed[:] = 0
        self._tell(step)

    def _renew(self) -> None:
        Chain._renew(self)
        for operator, template in self._ways.bounds.items():
            template[slot.EVALUATING_BOUND] = min(operator.bound, tables.MOST_COUNTED)

    def _widen(self) -> None:
        """Make memory for what the next link needs, and for as much again."""
        state = self._state
        base, end = self._exchanged(int(state[tables.CHAIN_BASE]))
        state[tables.CHAIN_BASE] = state[tables.CHAIN_FREE] = base
        state[tables.CHAIN_END] = end

    def _widen_other(self) -> None:
        """Make memory for what is carried into the next round, and for as much again."""
        other, end = self._exchanged(int(self._state[tables.CHAIN_OTHER]))
        self._state[tables.CHAIN_OTHER], self._state[tables.CHAIN_OTHER_END] = other, end

    def _exchanged(self, address: int) -> tuple[int, int]:
        """The ends of more memory, instead of that at an address, to which streams may still refer."""
        first = address == self._memory.ctypes.data
        old = self._memory if first else self._other
        new = np.empty(2 * (old.shape[0] + int(self._state[tables.CHAIN_WANTED])), np.int64)
        self._older.append(old)
        if first:
            self._memory = new
        else:
            self._other = new
        return new.ctypes.data, new.ctypes.data + new.nbytes

    def _owe(self, link: int) -> None:
        """Have a link's operator run again in later rounds."""
        operator, state = self._links.operators[link], self._state
        owed = np.empty((self._time.shape[0], int(state[tables.CHAIN_WANTED])), np.int64)
        streams.take(int(state[tables.CHAIN_LACKED]), owed.reshape(-1))
        if isinstance(operator, TopK):
            known = self._ways.tops[link]
            prefix = np.empty((operator.group, known[tables.TOP_TASKS]), np.int64)
            streams.take(known.item(tables.TOP_PREFIX), prefix.reshape(-1))
            operator.owe(prefix, owed[:, : known[tables.TOP_OWED]])
            return
        assert isinstance(operator, LoopDistinct)
        for rounds in operator.table.owe(owed[:, : operator.table.state.item(historytable.OWED)]):
            self._scope.wake(operator, rounds)

    def hand_over(self, operator: Operator) -> None:
        """Give an operator, to run in Python, what its links would have read, unless they ran; skip them."""
        end = self._links.ends.get(operator)
        if isinstance(operator, Arrange) and operator.spine in self._links.traced:
            self._links.traced[operator.spine].version = self._seen = -1
        if end is None or self._state[tables.CHAIN_NEXT] >= end:
            return
        self._state[tables.CHAIN_NEXT] = end
        for port, stream in enumerate(self._links.inputs[operator]):
            if self._streams[stream, tables.STREAM_ROWS]:
                updates = self._updates(stream, self._scope.step)
                operator.counters.updates_in += len(updates)
                operator.accept(port, updates)
                self._scope.enqueue(operator)

    def tally(self) -> None:
        """Add what links have counted to their operators' counters, in seconds."""
        for row, operator in zip(self._table, self._links.operators, strict=True):
            operator.counters.updates_in += int(row[tables.LINK_UPDATES_IN])
            operator.counters.updates_out += int(row[tables.LINK_UPDATES_OUT])
            operator.counters.seconds += 1e-9 * int(row[tables.LINK_NANOSECONDS])
