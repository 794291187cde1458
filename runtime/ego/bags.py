"""Multisets of words for the nodes of an overlay, in one pool (``runtime/kernels/bags.py``)."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.ego.overlay import Edges, stretched
from kpg.runtime.kernels import bags as kernels

Words = NDArray[np.int64]
MANY: Final = 1 << 14
"""So many nodes are filled at once."""


class Bags:
    """A bag for each node, empty at first."""

    def __init__(self) -> None:
        self.start: Words = np.zeros(0, np.int64)
        self.room: Words = np.zeros(0, np.int64)
        self.used: Words = np.zeros(0, np.int64)
        self.live: Words = np.zeros(0, np.int64)
        self.answer: Words = np.zeros(0, np.int64)
        self.words: Words = np.empty(1024, np.int64)
        self.counts: Words = np.empty(1024, np.int64)
        self._state: Words = np.zeros(1, np.int64)

    def grow(self, nodes: int) -> None:
        """Have bags for so many nodes."""
        self.start, self.room, self.used, self.live = (
            stretched(one, nodes) for one in (self.start, self.room, self.used, self.live)
        )
        self.answer = np.full(nodes, kernels.FREE, np.int64)

    def moved(self, nodes: Words, room: int) -> None:
        """Node i has from now on what ``nodes[i]`` had, and there are bags for ``room``."""
        self.start, self.room, self.used, self.live = (
            stretched(one[nodes], room) for one in (self.start, self.room, self.used, self.live)
        )
        self.answer = np.full(room, kernels.FREE, np.int64)
        self._compact()

    def add(self, nodes: Words, words: Words, diffs: Words) -> None:
        """Words come to nodes' bags, or go, as often as ``diffs`` says."""
        first = 0
        while first < nodes.shape[0]:
            first = kernels.add(
                nodes, words, diffs, first, self.start, self.room, self.used, self.live,
                self.answer, self.words, self.counts, self._state,
            )  # fmt: skip
            if first < nodes.shape[0]:
                self._make_room(nodes[first])

    def gather(self, nodes: Words, edges: Edges) -> None:
        """Have nodes' bags be what is in those of their inputs, none of which is among these nodes."""
        self.clear(nodes)
        for first in range(0, nodes.shape[0], MANY):
            some = nodes[first : first + MANY]
            found = np.empty((3, 0), np.int64)
            for _ in range(2):
                count = kernels.gathered(
                    some, edges.start, edges.size, edges.items, self.start, self.room, self.words,
                    self.counts, found,
                )  # fmt: skip
                if count > found.shape[1]:
                    found = np.empty((3, count), np.int64)
            self.add(found[0], found[1], found[2])

    def _make_room(self, node: int) -> None:
        """Close gaps if there are many, else have a larger pool."""
        needed = max(64, 8 * int(self.room[node]))
        if 2 * int(self.room.sum()) < self._state[0]:
            self._compact()
        if self._state[0] + needed > self.words.shape[0]:
            room = 2 * self.words.shape[0] + needed
            self.words, self.counts = stretched(self.words, room), stretched(self.counts, room)

    def _compact(self) -> None:
        used = np.flatnonzero(self.room)
        order = np.ascontiguousarray(used[np.argsort(self.start[used], kind="stable")])
        self._state[0] = kernels.compact(self.start, self.room, self.words, self.counts, order)

    def clear(self, nodes: Words) -> None:
        """Have nodes' bags be empty."""
        self.room[nodes] = self.used[nodes] = self.live[nodes] = 0
        self.answer[nodes] = kernels.FREE

    def of(self, node: int) -> tuple[Words, Words]:
        """The words of a node, and how often each is there."""
        found, times = (np.empty(int(self.room[node]), np.int64) for _ in range(2))
        count = kernels.listed(node, self.start, self.room, self.words, self.counts, found, times)
        return found[:count], times[:count]

    def least(self, nodes: Words) -> Words:
        """The least word of each node; the greatest there is of an empty bag."""
        found = np.empty(nodes.shape[0], np.int64)
        kernels.least(nodes, self.start, self.room, self.words, self.counts, found)
        return found

    @property
    def bytes(self) -> int:
        """What is kept."""
        return 2 * self.words.nbytes + 5 * self.start.nbytes
