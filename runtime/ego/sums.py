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
    repeats = False

    def __init__(self, calls: tuple[EgoCall, ...]) -> None:
        self._calls = calls
        self._operands = tuple(dict.fromkeys(call.arguments[0] for call in calls if call.arguments))
        self._state: Words = np.zeros((0, 1 + 2 * len(self._operands)), np.int64)
        self._written: list[Written] = []

    def grow(self, room: int) -> None:
        self._state = stretched(self._state, room)

    def moved(self, writers: Words, room: int) -> None:
        self._state = stretched(self._state[writers], room)

    def write(self, overlay: Overlay, nodes: Words, rows: Words, diffs: Words) -> None:
        deltas = np.empty((nodes.shape[0], self._state.shape[1]), np.int64)
        deltas[:, 0] = diffs
        for place, column in enumerate(self._operands):
            words = rows[column]
            known = words != NULL
            deltas[:, 1 + 2 * place] = np.where(known, diffs, 0)
            deltas[:, 2 + 2 * place] = np.where(known, words * diffs, 0)
        if nodes.shape[0] > 1:
            order = np.argsort(nodes, kind="stable")
            sorted_nodes = nodes[order]
            heads = np.flatnonzero(np.diff(sorted_nodes, prepend=-1))
            nodes = np.ascontiguousarray(sorted_nodes[heads])
            deltas = np.add.reduceat(deltas[order], heads, axis=0)
            kept = deltas.any(axis=1)
            if not kept.all():
                nodes, deltas = nodes[kept], deltas[kept]
        self._written.append(Written(overlay, nodes, deltas))
        if self._push(overlay, nodes, deltas):
            raise _overflow()

    def _push(self, overlay: Overlay, nodes: Words, deltas: Words) -> bool:
        edges = overlay.outputs
        return bool(
            overlays.push_sums(
                nodes, deltas, edges.start, edges.size, edges.items, overlay.pushed, self._state,
                overlay.arrivals,
            )
        )  # fmt: skip

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
            nodes, edges.start, edges.size, edges.items, overlay.pushed, self._state, overlay.asked, found
        ):
            raise _overflow()
        words = np.empty((len(self._calls), nodes.shape[0]), np.int64)
        for place, call in enumerate(self._calls):
            if not call.arguments:
                words[place] = found[:, 0]
                continue
            at = 1 + 2 * self._operands.index(call.arguments[0])
            words[place] = (
                found[:, at] if call.counts else np.where(found[:, at] == 0, NULL, found[:, at + 1])
            )
        return found[:, 0] > 0, words

    def commit(self) -> None:
        self._written.clear()

    def rollback(self) -> None:
        for one in reversed(self._written):
            self._push(one.overlay, one.nodes, -one.deltas)
        self._written.clear()

    @property
    def bytes(self) -> int:
        return self._state.nbytes


def _overflow() -> DataError:
    return DataError("sum overflows: a sum of what neighbours wrote does not fit 64 bits")
