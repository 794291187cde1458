"""Multisets of words for the nodes of an overlay, in one pool (``runtime/kernels/bags.py``)."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.ego.overlay import Edges, aligned, stretched
from kpg.runtime.kernels import bags as kernels

Words = NDArray[np.int64]
MANY: Final = 1 << 14
"""So many nodes are filled at once."""
NOTHING: Final = 2**63 - 1
"""The least word of an empty bag."""


class Bags:
    """A bag for each node, empty at first."""

    def __init__(self) -> None:
        self.heads: Words = np.zeros((0, 4), np.int64)
        self.table: Words = np.empty((1024, 2), np.int64)
        self._state: Words = np.zeros(2, np.int64)

    @property
    def answer(self) -> Words:
        """What was once found of each bag, FREE where that has changed."""
        return self.heads[:, kernels.FOUND]

    def grow(self, nodes: int) -> None:
        """Have bags for so many nodes."""
        self.heads = aligned(self.heads, nodes)
        self.answer[:] = kernels.FREE

    def moved(self, nodes: Words, room: int) -> None:
        """Node i has from now on what ``nodes[i]`` had, and there are bags for ``room``."""
        self.heads = aligned(self.heads[nodes], room)
        self.answer[:] = kernels.FREE
        self._compact()

    def add(self, nodes: Words, words: Words, diffs: Words) -> None:
        """Words come to nodes' bags, or go, as often as ``diffs`` says."""
        first = 0
        while first < nodes.shape[0]:
            first = kernels.add(nodes, words, diffs, first, self.heads, self.table, self._state)
            if first < nodes.shape[0]:
                self._make_room(nodes[first])

    def spread(self, items: Words, origin: Words, nodes: Words, words: Words, diffs: Words) -> None:
        """To each of ``items`` comes what its writer got: the rows of ``nodes`` from ``origin`` on."""
        done, bag = np.zeros(2, np.int64), 0
        while bag >= 0:
            bag = kernels.spread(
                items, origin, nodes, words, diffs, done, self.heads, self.table, self._state
            )
            if bag >= 0:
                self._make_room(bag)

    def gather(self, nodes: Words, edges: Edges) -> None:
        """Have nodes' bags be what is in those of their inputs, none of which is among these nodes."""
        self.clear(nodes)
        for first in range(0, nodes.shape[0], MANY):
            some = nodes[first : first + MANY]
            found = np.empty((3, 0), np.int64)
            for _ in range(2):
                count = kernels.gathered(
                    some, edges.start, edges.size, edges.items, self.heads, self.table, found
                )
                if count > found.shape[1]:
                    found = np.empty((3, count), np.int64)
            self.add(found[0], found[1], found[2])

    def _make_room(self, node: int) -> None:
        """Close gaps if there are many, else have a larger pool."""
        needed = max(64, 8 * int(self.heads[node, kernels.TABLE_ROWS]))
        if 2 * int(self.heads[:, kernels.TABLE_ROWS].sum()) < self._state[0]:
            self._compact()
        if self._state[0] + needed > self.table.shape[0]:
            self.table = stretched(self.table, 2 * self.table.shape[0] + needed)

    def _compact(self) -> None:
        used = np.flatnonzero(self.heads[:, kernels.TABLE_ROWS])
        order = np.ascontiguousarray(used[np.argsort(self.heads[used, kernels.TABLE_AT], kind="stable")])
        self._state[0] = kernels.compact(self.heads, self.table, order)

    def clear(self, nodes: Words) -> None:
        """Have nodes' bags be empty."""
        self.heads[nodes] = (0, 0, 0, kernels.FREE)

    def of(self, node: int) -> tuple[Words, Words]:
        """The words of a node, and how often each is there."""
        found, times = (np.empty(int(self.heads[node, kernels.TABLE_ROWS]), np.int64) for _ in range(2))
        count = kernels.listed(node, self.heads, self.table, found, times)
        return found[:count], times[:count]

    def least(self, nodes: Words) -> Words:
        """The least word of each node; the greatest there is of an empty bag."""
        found = np.empty(nodes.shape[0], np.int64)
        kernels.least(nodes, self.heads, self.table, found)
        return found

    def exchanged(self, nodes: Words) -> tuple[Words, Words, Words]:
        """Nodes, words and diffs with which each node that has a word gets another's for one of its."""
        words = self.least(nodes)
        there = words != NOTHING
        nodes, words = nodes[there], words[there]
        pairs = np.stack((words, np.roll(words, 1)), axis=1)
        return np.repeat(nodes, 2), pairs.reshape(-1), np.tile(np.array([-1, 1]), nodes.shape[0])

    @property
    def bytes(self) -> int:
        """What is kept."""
        return self.table.nbytes + self.heads.nbytes
