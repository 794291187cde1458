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
    repeats = False

    def __init__(self, calls: tuple[EgoCall, ...], few: int, dictionary: Dictionary) -> None:
        super().__init__()
        (self._call,) = calls
        self.timed = not self._call.argument_types[0].is_interned
        self._few = few
        self._way = WAYS.get(shown(self._call.function), kernels.BY_COUNT)
        self._answers = Answers(self._call.argument_types[0], few, dictionary)
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

    def _change(self, one: Written, diffs: Words) -> None:
        for nodes, origin, sign in reached(one.overlay, one.nodes):
            self._bags.add(nodes, one.words[origin], diffs[origin] * sign)

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
        words = np.full((1, nodes.shape[0]), NULL, np.int64)
        if self._way == kernels.NUMBER:
            _, sizes, _ = self._frequent(overlay, nodes, 0)
            words[0] = sizes
            return sizes > 0, words
        self._pushed = overlay.pushed
        first, room = 0, max(1024, 4 * self._few * nodes.shape[0])
        while first < nodes.shape[0]:
            rest = np.ascontiguousarray(nodes[first:])
            found, size, done = self._frequent(overlay, rest, room)
            self._finished(rest[:done], found, size, words[0, first : first + done])
            first += done
            room *= 4
        return words[0] != NULL, words

    def _finished(self, nodes: Words, found: Words, size: Words, words: Words) -> None:
        """The answers of nodes, of what the kernel found; those of pushed nodes are remembered."""
        answer = self._bags.answer
        known = size == kernels.KNOWN
        words[known] = answer[nodes[known]]
        rest = np.flatnonzero(~known)
        sizes = np.ascontiguousarray(size[rest])
        total = int(sizes.sum())
        words[rest] = self._answers.words(found[0, :total], found[1, :total], sizes)
        kept = rest[self._pushed[nodes[rest]] == 1]
        answer[nodes[kept]] = words[kept]

    def _frequent(self, overlay: Overlay, nodes: Words, room: int) -> tuple[Words, Words, int]:
        bags, edges = self._bags, overlay.inputs
        found, size = np.empty((2, room), np.int64), np.zeros(nodes.shape[0], np.int64)
        done = kernels.frequent(
            nodes, edges.start, edges.size, edges.items, overlay.pushed, bags.start, bags.room,
            bags.live, bags.answer, bags.words, bags.counts, self._few, self._way, found, size,
        )  # fmt: skip
        return found, size[:done], int(done)

    @property
    def bytes(self) -> int:
        return self._bags.bytes + self._answers.bytes
