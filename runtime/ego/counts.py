"""How often each word is there: what the most frequent, and the distinct, values are told of.

A pushed node keeps a bag of words. Bags are added and taken away like sums, so negative edges are right.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.ego.answers import Answers, Known
from kpg.runtime.ego.bags import Bags
from kpg.runtime.ego.overlay import WRITER, Overlay
from kpg.runtime.ego.reaching import reached
from kpg.runtime.ego.written import Undoable, Written
from kpg.runtime.functions.named import shown
from kpg.runtime.kernels import bags as kernels
from kpg.runtime.plan.ego import EgoCall
from kpg.runtime.types import NULL

Words = NDArray[np.int64]
WAYS: Final = {"distinct_count": kernels.NUMBER, "distinct_values": kernels.BY_WORD}


class Counts(Undoable):
    """Of each writer and each pushed node a bag of the words of one column."""

    subtracts = True
    timed = True
    repeats = False

    def __init__(self, calls: tuple[EgoCall, ...], few: int, dictionary: Dictionary) -> None:
        super().__init__()
        (self._call,) = calls
        self._few = few
        self._way = WAYS.get(shown(self._call.function), kernels.BY_COUNT)
        self._answers = Answers(self._call.argument_types[0], few, dictionary)
        self._known = Known()
        self._bags = Bags()

    def grow(self, room: int) -> None:
        self._bags.grow(room)

    def moved(self, writers: Words, room: int) -> None:
        self._bags.moved(writers, room)

    def write(self, overlay: Overlay, nodes: Words, rows: Words, diffs: Words) -> None:
        words = rows[self._call.arguments[0]]
        known = words != NULL
        if not known.all():
            nodes, words, diffs = nodes[known], np.ascontiguousarray(words[known]), diffs[known]
        self._take(Written(overlay, nodes, words, diffs))

    def sample(self, nodes: Words) -> tuple[Words, Words, Words]:
        nodes, words, diffs = self._bags.exchanged(nodes)
        rows = np.zeros((1 + self._call.arguments[0], nodes.shape[0]), np.int64)
        rows[-1] = words
        return nodes, rows, diffs

    def _change(self, one: Written, diffs: Words) -> None:
        for items, origin in reached(one.overlay, one.nodes):
            self._bags.spread(items, origin, one.nodes, one.words, diffs)

    def fill(self, overlay: Overlay, order: Words) -> None:
        chosen = order[(overlay.pushed[order] == 1) & (overlay.kinds[order] != WRITER)]
        if chosen.shape[0] > 1:  # whose inputs may be among them: level by level
            level = overlay.levels()[chosen]
            by_level = np.argsort(level, kind="stable")
            parts = np.split(chosen[by_level], np.flatnonzero(np.diff(level[by_level])) + 1)
        else:
            parts = [chosen]
        for nodes in parts:
            self._bags.gather(nodes, overlay.inputs)

    def drop(self, nodes: Words) -> None:
        self._bags.clear(nodes)

    def read(self, overlay: Overlay, nodes: Words) -> tuple[NDArray[np.bool_], Words]:
        listed = self.listed(overlay, nodes)
        if listed is None:
            size = np.zeros(nodes.shape[0], np.int64)
            self._frequent(overlay, nodes, 0, size, 0)
            return size > 0, size.reshape(1, -1)
        words = self._answers.words(*listed)
        return words != NULL, words.reshape(1, -1)

    def listed(self, overlay: Overlay, nodes: Words) -> tuple[Words, Words] | None:
        if self._way == kernels.NUMBER:
            return None
        size = np.zeros(nodes.shape[0], np.int64)
        self._known.make_room(self._bags)
        try:
            found = self._find(overlay, nodes, size)
        except BaseException:
            self._bags.answer[nodes] = kernels.FREE
            raise
        return size, self._known.hand_out(nodes, size, found, overlay.pushed, self._bags)

    def _find(self, overlay: Overlay, nodes: Words, size: Words) -> Words:
        """The lists of those nodes of whom none is known, and who were not asked for before in ``nodes``."""
        first, room, parts = 0, max(1024, 4 * self._few * nodes.shape[0]), [np.empty(0, np.int64)]
        while first < nodes.shape[0]:
            found, done = self._frequent(overlay, nodes, first, size, room)
            fresh = first + np.flatnonzero(size[first:done] >= 0)
            elements, size[fresh] = self._answers.ordered(found, size[fresh])
            parts.append(elements)
            first, room = done, 4 * room
        return np.concatenate(parts)

    def _frequent(
        self, overlay: Overlay, nodes: Words, first: int, size: Words, room: int
    ) -> tuple[Words, int]:
        bags, edges, found = self._bags, overlay.inputs, np.empty((2, room), np.int64)
        done = kernels.frequent(
            nodes, first, edges.start, edges.size, edges.items, overlay.pushed, bags.heads, bags.table,
            self._few, self._way, self._answers.sorts, found, size,
        )  # fmt: skip
        return found, int(done)

    @property
    def bytes(self) -> int:
        return self._bags.bytes + self._answers.bytes + self._known.bytes
