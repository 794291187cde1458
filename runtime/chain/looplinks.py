"""Operators of a loop's body as links: what they have besides those of the outermost scope."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.chain.links import Links, address_of, can, link_tidied, link_top_at
from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.kernels import arguments as slot
from kpg.runtime.kernels import collect, history, thresholds
from kpg.runtime.kernels import links as tables
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.corners import Corners
from kpg.runtime.operators.history import LoopDistinct
from kpg.runtime.operators.join import Join
from kpg.runtime.operators.linear import Concat, Linear, Negate
from kpg.runtime.operators.loop import ArrangedLeave, Leave, Variable
from kpg.runtime.operators.topk import TopK
from kpg.runtime.trace.updates import Updates

Words = NDArray[np.int64]

LINKED: Final = (Linear, Concat, Negate, Arrange, Join, LoopDistinct, TopK, Variable)
"""Operators that have links in a loop, those of the outermost scope among them."""

LEFT: Final = 1 << 12
"""Rows that have left a loop before they are taken out, at first."""


class Left:
    """What has left the loop by one way since it was last taken out."""

    __slots__ = ("_data", "_diff", "_port", "_way", "state")

    def __init__(self, way: Leave | ArrangedLeave, port: int, width: int) -> None:
        self._way, self._port = way, port
        self.state: Words = np.zeros(tables.LEFT_FIELDS, np.int64)
        self._make_room(width, LEFT)

    def _make_room(self, width: int, room: int) -> None:
        self._data: Words = np.empty((width, room), np.int64)
        self._diff: Words = np.empty(room, np.int64)
        self.state[:] = self._data.ctypes.data, self._diff.ctypes.data, room, 0

    def take_out(self, *, more: bool = False) -> None:
        """Hand on what is there, at the outer scope's round; with ``more`` to come make more room for it."""
        rows, way = self.state.item(tables.LEFT_ROWS), self._way
        if rows:
            updates = Updates(self._data[:, :rows].copy(), way.step.stamp, self._diff[:rows].copy())
            way.counters.updates_in += rows
            way.accept(self._port, updates)
            way.schedule()
            self.state[tables.LEFT_ROWS] = 0
        if more:
            width, room = self._data.shape
            self._make_room(width, 4 * room)


class LoopLinks(Links):
    """The links of a loop's body; ``corners`` are those at which groups are read in every round to come."""

    def __init__(self, corners: Corners) -> None:
        Links.__init__(self)
        self._corners = corners
        self.left: list[Left] = []
        self.bounds: dict[LoopDistinct, Words] = {}
        """Templates in which the bound of a table's rows is."""
        self.tops: dict[int, Words] = {}
        """What links know, by number, that read groups."""

    def add(self, operator: Operator) -> None:
        """Make the operator's links, and one for each of its ways out of the loop."""
        first = len(self.rows)
        if isinstance(operator, Variable):
            self._link_variable(operator)
        elif isinstance(operator, LoopDistinct):
            self._link_distinct(operator)
        elif isinstance(operator, TopK):
            self._link_top(operator)
        else:
            Links.add(self, operator)
        if len(self.rows) == first:
            return
        for way, port in operator.consumers:
            if isinstance(way, Leave | ArrangedLeave):
                self._link_leave(operator, way, port)
        for row in self.rows[first:]:
            row[tables.LINK_READ] = 0
        inputs = self.inputs[operator]
        self.rows[-1][tables.LINK_READ] = self.array([len(inputs), *inputs])
        self.ends[operator] = len(self.rows)
        self.operators += [operator] * (len(self.rows) - len(self.operators))

    def _link_variable(self, operator: Variable) -> None:
        """One link, which consolidates what is carried over as far as the operator would."""
        source, target = self.new_stream(), self.stream(operator)
        self.inputs[operator] = (source,)
        if operator.consolidated:
            self.link(tables.PASSING, source, target)
            return
        link_tidied(self, source, target, tables.TO_TAIL)

    def _link_distinct(self, operator: LoopDistinct) -> None:
        """One link that adds to keys' histories, and puts out what changes in the round."""
        template, state = self.template(), operator.table.state.ctypes.data
        source, target = self.stream(operator.inputs[0]), self.stream(operator)
        self.inputs[operator] = (source,)
        self.bounds[operator] = template
        template[slot.EVALUATING_EVALUATE] = address_of(thresholds.evaluate)
        template[slot.EVALUATING_DISTINCT] = int(operator.distinct)
        add = history.accumulate
        self.link(tables.EVALUATING, source, target, kernel=add, slots=template, extra=state)

    def _link_top(self, operator: TopK) -> None:
        """One link that reads groups, and finds out at which later rounds they are to be read again."""
        if can(operator):
            self.inputs[operator] = (self.stream(operator.inputs[0]),)
            known = link_top_at(self, operator, self._corners)
            self.tops[len(self.rows) - 1] = known
            known[tables.TOP_LATER] = address_of(collect.later_rounds)

    def _link_leave(self, operator: Operator, way: Leave | ArrangedLeave, port: int) -> None:
        """One link that keeps what leaves until it is taken out."""
        left, stream = Left(way, port, operator.width), self.stream(operator)
        self.left.append(left)
        self.link(tables.LEAVING, stream, stream, extra=self.address(left.state))
