"""Which node of an overlay a word is: the writer, or the reader, of a value."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import ids as kernels

Words = NDArray[np.int64]
SPARSE: Final = 8
"""Words are listed if so many of them have one that is known, at least, on average."""


class Ids:
    """Nodes by word: in a list where words are near each other, else in a table, three quarters full."""

    def __init__(self, words: Words, nodes: Words) -> None:
        self._count = words.shape[0]
        self._first = 0
        self._listed: NDArray[np.int32] | None = None
        self._table = _table(0)
        self._place(words, nodes)

    def _place(self, words: Words, nodes: Words) -> None:
        """Have these be all that are known."""
        first, last = (int(words.min()), int(words.max())) if words.shape[0] else (0, 0)
        if last - first < SPARSE * words.shape[0]:
            more = words.shape[0] // 4
            self._first = max(first - more, -(2**62))
            self._listed = np.full(last + more + 1 - self._first, -1, np.int32)
            self._listed[words - self._first] = nodes
            self._table = _table(0)
        else:
            self._listed = None
            self._table = _table(2 * words.shape[0])
            kernels.put(self._table, np.ascontiguousarray(words), np.ascontiguousarray(nodes))

    def find(self, words: Words) -> Words:
        """The node of each word, -1 where there is none."""
        found = np.empty(words.shape[0], np.int64)
        words = np.ascontiguousarray(words)
        if self._listed is not None:
            kernels.find_listed(self._listed, self._first, words, found)
        else:
            kernels.find(self._table, words, found)
        return found

    def observe(self, words: Words, diffs: Words, counts: Words) -> tuple[Words, int]:
        """The node of each word, -1 where there is none, and how many there are not.

        ``counts`` has one more at each node for what comes to it.
        """
        found = np.empty(words.shape[0], np.int64)
        words = np.ascontiguousarray(words)
        if self._listed is not None:
            missing = kernels.observe_listed(self._listed, self._first, words, diffs, found, counts)
        else:
            missing = kernels.observe(self._table, words, diffs, found, counts)
        return found, int(missing)

    def put(self, words: Words, nodes: Words) -> None:
        """Words that were not known."""
        self._count += words.shape[0]
        if self._listed is not None:
            last = self._first + self._listed.shape[0] - 1
            if ((words >= self._first) & (words <= last)).all():
                self._listed[words - self._first] = nodes
                return
        elif 4 * self._count <= 3 * self._table.shape[0]:
            kernels.put(self._table, np.ascontiguousarray(words), np.ascontiguousarray(nodes))
            return
        known, of = self.every()
        self._place(np.concatenate((known, words)), np.concatenate((of, nodes)))

    def every(self) -> tuple[Words, Words]:
        """All words and their nodes."""
        if self._listed is not None:
            there = np.flatnonzero(self._listed >= 0)
            return there + self._first, self._listed[there].astype(np.int64)
        found = self._table[:, 1] >= 0
        return np.ascontiguousarray(self._table[found, 0]), np.ascontiguousarray(self._table[found, 1])

    def by_node(self, room: int) -> Words:
        """The word of each of so many nodes; 0 where it is none of these."""
        words, nodes = self.every()
        found = np.zeros(room, np.int64)
        found[nodes] = words
        return found

    def renumbered(self, number: Words) -> "Ids":
        """The same words, of nodes with other numbers."""
        words, nodes = self.every()
        return Ids(words, number[nodes])

    @property
    def bytes(self) -> int:
        """What is kept."""
        return self._table.nbytes if self._listed is None else self._listed.nbytes


def _table(count: int) -> NDArray[np.int64]:
    places = 16
    while 3 * places < 4 * (count + 1):
        places *= 2
    table = np.zeros((places, 2), np.int64)
    table[:, 1] = -1
    return table
