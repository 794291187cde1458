"""How often each word is there: what the most frequent, and the distinct, values are told of.

A pushed node keeps a bag of words. Bags are added and taken away like sums, so negative edges are right.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.ego.answers import Answers
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
        self._dictionary = dictionary
        self._lasting = Answers(self._call.argument_types[0], few, dictionary, dictionary)
        self._answers = self._lasting
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

    def rehearse(self, *, on: bool) -> None:
        """Answers are interned apart from others, which would be kept for good."""
        self._bags.answer[:] = kernels.FREE
        type_ = self._call.argument_types[0]
        self._answers = Answers(type_, self._few, self._dictionary, Dictionary()) if on else self._lasting

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
        words, size = np.full((1, nodes.shape[0]), NULL, np.int64), np.zeros(nodes.shape[0], np.int64)
        if self._way == kernels.NUMBER:
            self._frequent(overlay, nodes, 0, size, 0)
            words[0] = size
            return size > 0, words
        answer = self._bags.answer
        try:
            self._find(overlay, nodes, size, words[0])
        except BaseException:
            answer[nodes] = kernels.FREE
            raise
        fresh = np.flatnonzero(size >= 0)
        kept = overlay.pushed[nodes[fresh]] == 1  # of others it is not known when they change
        answer[nodes[fresh]] = np.where(kept, words[0, fresh], kernels.FREE)
        known, again = size == kernels.KNOWN, np.flatnonzero(size <= kernels.SAME)
        words[0, known] = answer[nodes[known]]
        words[0, again] = words[0, kernels.SAME - size[again]]
        return words[0] != NULL, words

    def _find(self, overlay: Overlay, nodes: Words, size: Words, words: Words) -> None:
        """Have the words of those nodes whose answer is not known, or asked for before them."""
        first, room = 0, max(1024, 4 * self._few * nodes.shape[0])
        while first < nodes.shape[0]:
            found, done = self._frequent(overlay, nodes, first, size, room)
            fresh = first + np.flatnonzero(size[first:done] >= 0)
            sizes = size[fresh]
            total = int(sizes.sum())
            words[fresh] = self._answers.words(found[0, :total], found[1, :total], sizes)
            first, room = done, 4 * room

    def _frequent(
        self, overlay: Overlay, nodes: Words, first: int, size: Words, room: int
    ) -> tuple[Words, int]:
        bags, edges, found = self._bags, overlay.inputs, np.empty((2, room), np.int64)
        done = kernels.frequent(
            nodes, first, edges.start, edges.size, edges.items, overlay.pushed, bags.heads, bags.table,
            self._few, self._way, found, size,
        )  # fmt: skip
        return found, int(done)

    @property
    def bytes(self) -> int:
        return self._bags.bytes + self._answers.bytes
