"""A chain: the operators of the outermost scope that small steps run through in one compiled call."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.chain.links import Links
from kpg.runtime.data.table import Change
from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.dataflow.step import Step
from kpg.runtime.kernels import chain as kernels
from kpg.runtime.kernels import Kernel, groups, head, meet, sort, vm
from kpg.runtime.native.load import call
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.reduce import Grouped
from kpg.runtime.operators.source import Source
from kpg.runtime.program.lower import Sources
from kpg.runtime.program.memo import Memo
from kpg.runtime.trace.updates import ONE, Updates

Words = NDArray[np.int64]

FEW: Final = 2048
"""Rows of a step that goes through a chain: as ``trace.spine.SMALL_STEP``, beyond which heads take nothing."""

MEMORY: Final = 1 << 14
"""Words for streams at first: a step of ten rows needs less."""


CALLED: Final = (
    (vm, "run"),
    (meet, "meet"),
    (head, "append"),
    (groups, "refresh"),
    (sort, "consolidate_few"),
)
"""The kernels that links call."""


class Chain:
    """The links of a worker's operators, with memory for what flows between them."""

    def __init__(self, operators: Iterable[Operator]) -> None:
        links = Links()
        for operator in sorted(operators):
            links.add(operator)
        self._links = links
        self._hear()
        self._table: Words = np.array(links.rows, np.int64).reshape(-1, kernels.LINK_FIELDS)
        self._streams: Words = np.zeros((max(1, links.count), kernels.STREAM_FIELDS), np.int64)
        self._changed, self._told = np.empty((2, len(links.rows)), np.int64)
        self._state = np.zeros(kernels.STATE_FIELDS, np.int64)
        self._time = np.zeros((1, 1), np.int64)
        self._state[kernels.TIME] = self._time.ctypes.data
        self._state[kernels.CLOCK] = call().CLOCK
        self._signs = np.array([1, -1], np.int64)
        self._memory = np.empty(MEMORY, np.int64)
        self._older: list[Words] = []
        self._looked = list(links.looked.values())
        self._read: list[tuple[Any, Any]] = []
        self._sources: list[Sources] = list({id(m.sources): m.sources for m, _ in links.machines}.values())
        self._entries = list({id(e): e for sources in self._sources for e in sources.entries}.values())
        self._arrays: list[Any] = [None] * len(self._entries)
        self._dictionary = links.machines[0][0].sources.context.dictionary if links.machines else None
        self._arena: Any = None
        self._offsets: Any = None

    def _hear(self) -> None:
        """Note who, of those that have no links, reads what; whose output nobody hears is not told of."""
        links = self._links
        for operator, end in links.ends.items():
            outside = [one.position for one, _ in operator.consumers if one not in links.ends]
            links.rows[end - 1][kernels.HEARD] = min(outside, default=kernels.NOBODY)
        for row, operator in zip(links.rows, links.operators, strict=True):
            row[kernels.POSITION] = operator.position
            row[kernels.HEARD] = row[kernels.HEARD] or kernels.NOBODY

    def begin(self, step: Step, changes: Iterable[tuple[Source, Sequence[Change]]]) -> None:
        """Take a step's changes of tables."""
        state = self._state
        self._time[0, 0] = step.time
        state[kernels.NEXT] = 0
        state[kernels.CLOSED], state[kernels.FLOOR] = step.lower, step.floor
        self._streams[:, kernels.ROWS] = 0
        self._older.clear()
        at = 0
        for source, found in changes:
            at = self._feed(source, found, at)
        self._rest(at)

    def _rest(self, at: int) -> None:
        """Let the memory from a word on be free."""
        base = self._memory.ctypes.data
        self._state[kernels.FREE] = base + 8 * at
        self._state[kernels.END] = base + 8 * self._memory.shape[0]

    def _feed(self, source: Source, changes: Sequence[Change], at: int) -> int:
        memory = self._memory
        start, base = at, memory.ctypes.data
        for change in changes:
            end = at + change.rowids.shape[0]
            memory[at:end] = change.rowids
            at = end
        rows = at - start
        diff, diffs = self._signs.ctypes.data + (8 if changes[0].diff < 0 else 0), 1
        if len(changes) > 1:
            diff, diffs = base + 8 * at, rows
            for change in changes:
                end = at + change.rowids.shape[0]
                memory[at:end] = change.diff
                at = end
        self._streams[self._links.streams[source]] = (base + 8 * start, 1, rows, diff, diffs, 1)
        return at

    def advance(self, step: Step) -> None:
        """Run links until one of the operators that are queued in the step must run first, or to the end."""
        state = self._state
        while True:
            self._renew()
            state[kernels.LIMIT] = step.queue[0][0] if step.queue else kernels.NOBODY
            state[kernels.CHANGED] = state[kernels.TOLD] = 0
            verdict = kernels.run(self._table, self._streams, state, self._changed, self._told)
            self._settle(step)
            if verdict >= 0:
                self.hand_over(self._links.operators[verdict])
                return
            if verdict == kernels.NARROW:
                self._widen()
            elif verdict == kernels.DOUBTS:
                self._look(int(state[kernels.NEXT]) - 1, step)
            else:
                return

    def _widen(self) -> None:
        """Make memory for what the next link needs, and for as much again."""
        self._older.append(self._memory)
        self._memory = np.empty(2 * (self._memory.shape[0] + int(self._state[kernels.WANTED])), np.int64)
        self._rest(0)

    def _renew(self) -> None:
        """Bring templates up to date with arrays that were replaced since."""
        for looked in self._looked:
            looked.renew()
        for refreshed in self._links.refreshed:
            refreshed.renew()
        for link, spine in self._links.arranged:
            self._table[link, kernels.SKIPPED] = not spine.appendable
        self._renew_machines()

    def _renew_machines(self) -> None:
        replaced = False
        for number, entry in enumerate(self._entries):
            array = entry.words if isinstance(entry, Memo) else entry.directory
            if array is not self._arrays[number]:
                self._arrays[number] = array
                replaced = True
        dictionary = self._dictionary
        if dictionary is None:
            return
        if dictionary.arena is not self._arena or dictionary.offsets is not self._offsets:
            self._arena, self._offsets = dictionary.arena, dictionary.offsets
            replaced = True
        if replaced:
            for machine, template in self._links.machines:
                addresses = machine.sources.refresh()
                template[8], template[9] = addresses.ctypes.data, addresses.shape[0]
                template[11], template[12] = dictionary.arena.ctypes.data, dictionary.arena.shape[0]
                template[13], template[14] = dictionary.offsets.ctypes.data, dictionary.offsets.shape[0]

    def _settle(self, step: Step) -> None:
        """Tell operators what links have done for them, and hand on what others hear."""
        state, operators = self._state, self._links.operators
        for link in self._changed[: state[kernels.CHANGED]].tolist():
            operator = operators[link]
            step.visited.append(operator)
            if isinstance(operator, Arrange):
                extra = self._extra(link)
                operator.appended(*extra)
        for link in self._told[: state[kernels.TOLD]].tolist():
            operator = operators[link]
            updates = self._updates(int(self._table[link, kernels.OUTPUT]), step)
            for consumer, port in operator.consumers:
                if consumer not in self._links.ends:
                    consumer.push(port, updates)

    def _extra(self, link: int) -> list[int]:
        out = np.empty(kernels.APPENDED_FIELDS, np.int64)
        kernels.take(int(self._table[link, kernels.EXTRA]), out)
        return out.tolist()

    def _updates(self, stream: int, step: Step) -> Updates:
        """A stream as updates of the step."""
        address, width, rows, diff, diffs, ordered = self._streams[stream].tolist()
        data, counts = np.empty((width, rows), np.int64), np.empty(diffs, np.int64)
        kernels.take(address, data.reshape(-1))
        kernels.take(diff, counts)
        if diffs == 1 and counts[0] == 1:
            counts = ONE
        return Updates(data, step.stamp, counts, bool(ordered))

    def hand_over(self, operator: Operator) -> None:
        """Give an operator what its links would have read, if they have not: it runs in Python."""
        end = self._links.ends.get(operator)
        if end is None or self._state[kernels.NEXT] >= end:
            return
        self._state[kernels.NEXT] = end
        step = operator.step
        for port, stream in enumerate(self._links.inputs[operator]):
            if self._streams[stream, kernels.ROWS]:
                operator.push(port, self._updates(stream, step))

    def _look(self, link: int, step: Step) -> None:
        """Have an operator look at what it has put out; it raises where that is an error."""
        operator = self._links.operators[link]
        assert isinstance(operator, Grouped)
        operator.table.check()
        if operator.table.doubtful:
            operator.check(self._updates(int(self._table[link, kernels.OUTPUT]), step).data)

    def tally(self) -> None:
        """Add what links have counted to their operators' counters."""
        for row, operator in zip(self._table, self._links.operators, strict=True):
            counters = operator.counters
            counters.updates_in += int(row[kernels.UPDATES_IN])
            counters.updates_out += int(row[kernels.UPDATES_OUT])
            counters.seconds += 1e-9 * int(row[kernels.NANOSECONDS])
            row[kernels.UPDATES_IN :] = 0


def ready() -> bool:
    """Whether the kernels that links call have addresses, as those have that were compiled ahead of time."""
    for module, name in CALLED:
        found = getattr(module, name)
        if isinstance(found, Kernel):
            found.prepare()
    return all(hasattr(getattr(module, name), "address") for module, name in CALLED)
