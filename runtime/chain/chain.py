"""A chain: the operators of the outermost scope that small steps run through in one compiled call."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime import versions
from kpg.runtime.chain.links import Links
from kpg.runtime.chain.relay import Relay, relay
from kpg.runtime.chain.replaced import fill
from kpg.runtime.data.table import Change
from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.dataflow.step import Step
from kpg.runtime.kernels import arguments as slot
from kpg.runtime.kernels import chain as kernels
from kpg.runtime.kernels import links as tables
from kpg.runtime.kernels import streams
from kpg.runtime.mfp.memo import Memo
from kpg.runtime.mfp.segment import Machine
from kpg.runtime.native.load import call
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.linear import Late
from kpg.runtime.operators.reduce import Grouped
from kpg.runtime.operators.source import Source
from kpg.runtime.trace.updates import ONE, Updates

Words = NDArray[np.int64]

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
