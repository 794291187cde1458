"""Counts and sums of words: a few numbers a node, which are added and taken away."""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.ego.overlay import WRITER, Overlay, stretched
from kpg.runtime.errors import DataError
from kpg.runtime.kernels import overlays
from kpg.runtime.plan.ego import EgoCall
from kpg.runtime.records import dataclass
from kpg.runtime.types import NULL

Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Written:
    """What a write has added to writers."""

    overlay: Overlay
    nodes: Words
    deltas: Words


class Sums:
    """Of each node how many rows there are, and for each operand how many are not NULL, and their sum."""

    subtracts = True
    timed = True
    repeats = False

    def __init__(self, calls: tuple[EgoCall, ...]) -> None:
        self._calls = calls
        parts = [(call.arguments[0], summed) for call in calls if call.arguments for summed in _parts(call)]
        self._parts = tuple(dict.fromkeys(parts))
        self._columns = np.array([column for column, _ in self._parts], np.int64)
        self._summed = np.array([summed for _, summed in self._parts], np.uint8)
        self._state: Words = np.zeros((0, 1 + len(self._parts)), np.int64)
        self._place = np.empty(0, np.int32)
        """What a kernel needs for each node while it looks for each writer's rows."""
        self._written: list[Written] = []

    def grow(self, room: int) -> None:
        self._state = stretched(self._state, room)
        self._place = np.full(room, -1, np.int32)

    def moved(self, writers: Words, room: int) -> None:
        self._state = stretched(self._state[writers], room)
        self._place = np.full(room, -1, np.int32)

    def write(self, overlay: Overlay, nodes: Words, rows: Words, diffs: Words) -> None:
        found = np.empty(nodes.shape[0], np.int64)
        deltas = np.empty((nodes.shape[0], self._state.shape[1]), np.int64)
        count = overlays.gather_sums(
            nodes, rows, diffs, self._columns, self._summed, self._place, found, deltas
        )
        if count:
            self._written.append(Written(overlay, found[:count], deltas[:count]))
            if self._push(overlay, found[:count], deltas[:count]):
                raise _overflow()

    def sample(self, nodes: Words) -> tuple[Words, Words, Words]:
        ones = np.ones(nodes.shape[0], np.int64)  # whatever is added takes as long
        return nodes, np.zeros((1 + int(self._columns.max(initial=0)), nodes.shape[0]), np.int64), ones

    def listed(self, overlay: Overlay, nodes: Words) -> tuple[Words, Words] | None:
        """Answers are no lists."""
        return None

    def _push(self, overlay: Overlay, nodes: Words, deltas: Words) -> bool:
        edges = overlay.outputs
        return bool(
            overlays.push_sums(
                nodes, deltas, edges.start, overlay.live, edges.items, overlay.kinds, self._state
            )
        )

    def fill(self, overlay: Overlay, order: Words) -> None:
        edges = overlay.inputs
        self._state[order[(edges.size[order] == 0) & (overlay.kinds[order] != WRITER)]] = 0
        overlays.fill_sums(order, edges.start, edges.size, edges.items, overlay.pushed, self._state)

    def drop(self, nodes: Words) -> None:
        self._state[nodes] = 0

    def read(self, overlay: Overlay, nodes: Words) -> tuple[NDArray[np.bool_], Words]:
        found = np.empty((nodes.shape[0], self._state.shape[1]), np.int64)
        edges = overlay.inputs
        if overlays.pull_sums(
            nodes, edges.start, edges.size, edges.items, overlay.pushed, self._state, found
        ):
            raise _overflow()
        words = np.empty((len(self._calls), nodes.shape[0]), np.int64)
        for place, call in enumerate(self._calls):
            if not call.arguments:
                words[place] = found[:, 0]
                continue
            known = found[:, 1 + self._parts.index((call.arguments[0], False))]
            if call.counts:
                words[place] = known
            else:
                total = found[:, 1 + self._parts.index((call.arguments[0], True))]
                words[place] = np.where(known == 0, NULL, total)
        return found[:, 0] > 0, words

    def commit(self) -> None:
        self._written.clear()

    def rollback(self) -> None:
        for one in reversed(self._written):
            self._push(one.overlay, one.nodes, -one.deltas)
        self._written.clear()

    @property
    def bytes(self) -> int:
        return self._state.nbytes + self._place.nbytes


def _parts(call: EgoCall) -> tuple[bool, ...]:
    """Of a call's words how many there are, and, if it is no count, their sum."""
    return (False,) if call.counts else (False, True)


def _overflow() -> DataError:
    return DataError("sum overflows: a sum of what neighbours wrote does not fit 64 bits")
