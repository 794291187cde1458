"""The rounds of a loop in one compiled call: a chain of the operators of its body.

Rounds of few rows, in which nothing comes but what variables carry over, follow each other without going
back to Python, until an operator owes something to a later round, has to run in Python, or nothing is left. A
chain is made within a step that has many rounds, and forgotten with it: no operator comes or goes meanwhile.
"""

from heapq import heappop
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.chain.chain import MEMORY, Chain
from kpg.runtime.chain.links import Links
from kpg.runtime.chain.looplinks import LINKED, LoopLinks
from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.dataflow.step import Step
from kpg.runtime.kernels import arguments as slot
from kpg.runtime.kernels import chain as kernels
from kpg.runtime.kernels import historytable, streams
from kpg.runtime.kernels import links as tables
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.corners import Corners
from kpg.runtime.operators.history import LoopDistinct
from kpg.runtime.operators.loop import ArrangedLeave, Leave, Loop, Variable
from kpg.runtime.operators.topk import TopK
from kpg.runtime.trace.updates import Updates

Words = NDArray[np.int64]

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
