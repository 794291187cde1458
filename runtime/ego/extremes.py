"""Least and greatest words: of a writer all that it wrote lately, of a pushed node the best of its inputs."""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.ego.bags import Bags
from kpg.runtime.ego.overlay import WRITER, Overlay
from kpg.runtime.ego.written import Undoable, Written
from kpg.runtime.kernels import overlays
from kpg.runtime.types import NULL

Words = NDArray[np.int64]


class Extremes(Undoable):
    """Of each node one word; the greatest is the least of complements. Repetition does not matter.

    A pushed node whose best input has got worse looks at all its inputs, which are pushed too.
    """

    subtracts = False
    timed = True
    repeats = True

    def __init__(self, *, greatest: bool) -> None:
        super().__init__()
        self._flip = np.int64(-1 if greatest else 0)
        self._bags = Bags()
        self._best: Words = np.empty(0, np.int64)

    def grow(self, room: int) -> None:
        self._bags.grow(room)
        known = self._best
        self._best = np.full(room, overlays.EMPTY, np.int64)
        self._best[: known.shape[0]] = known

    def moved(self, writers: Words, room: int) -> None:
        self._bags.moved(writers, room)
        best = np.full(room, overlays.EMPTY, np.int64)
        best[: writers.shape[0]] = self._best[writers]
        self._best = best

    def write(self, overlay: Overlay, nodes: Words, rows: Words, diffs: Words) -> None:
        self._take(Written(overlay, nodes, rows[0] ^ self._flip, diffs))

    def _change(self, one: Written, diffs: Words) -> None:
        overlay = one.overlay
        self._bags.add(one.nodes, one.words, diffs)
        nodes = one.nodes[np.flatnonzero(np.diff(one.nodes, prepend=-1))]
        outputs, inputs = overlay.outputs, overlay.inputs
        overlays.push_least(
            nodes, self._bags.least(nodes), outputs.start, overlay.live, outputs.items,
            inputs.start, inputs.size, inputs.items, self._best,
        )  # fmt: skip

    def sample(self, nodes: Words) -> tuple[Words, Words, Words]:
        nodes, words, diffs = self._bags.exchanged(nodes)
        return nodes, (words ^ self._flip).reshape(1, -1), diffs

    def listed(self, overlay: Overlay, nodes: Words) -> tuple[Words, Words] | None:
        """Answers are no lists."""
        return None

    def fill(self, overlay: Overlay, order: Words) -> None:
        empty = order[(overlay.inputs.size[order] == 0) & (overlay.kinds[order] != WRITER)]
        self._best[empty] = overlays.EMPTY
        edges = overlay.inputs
        overlays.fill_least(order, edges.start, edges.size, edges.items, overlay.pushed, self._best)

    def drop(self, nodes: Words) -> None:
        self._best[nodes] = overlays.EMPTY

    def read(self, overlay: Overlay, nodes: Words) -> tuple[NDArray[np.bool_], Words]:
        found = np.empty(nodes.shape[0], np.int64)
        edges = overlay.inputs
        overlays.pull_least(nodes, edges.start, edges.size, edges.items, overlay.pushed, self._best, found)
        there = found != overlays.EMPTY
        return there, np.where(there, found ^ self._flip, NULL).reshape(1, -1)

    @property
    def bytes(self) -> int:
        return self._bags.bytes + self._best.nbytes
