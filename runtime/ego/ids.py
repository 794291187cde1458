"""Which node of an overlay a word is: the writer, or the reader, of a value."""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import ids as kernels

Words = NDArray[np.int64]


class Ids:
    """Nodes by word, in a table that is at most three quarters full."""

    def __init__(self, words: Words, nodes: Words) -> None:
        self._count = words.shape[0]
        self._table = _table(self._count)
        kernels.put(self._table, np.ascontiguousarray(words), np.ascontiguousarray(nodes))

    def find(self, words: Words) -> Words:
        """The node of each word, -1 where there is none."""
        found = np.empty(words.shape[0], np.int64)
        kernels.find(self._table, np.ascontiguousarray(words), found)
        return found

    def observe(self, words: Words, diffs: Words, counts: Words) -> tuple[Words, int]:
        """The node of each word, -1 where there is none, and how many there are not.

        ``counts`` has one more at each node for what comes to it.
        """
        found = np.empty(words.shape[0], np.int64)
        return found, int(kernels.observe(self._table, np.ascontiguousarray(words), diffs, found, counts))

    def put(self, words: Words, nodes: Words) -> None:
        """Words that were not known."""
        self._count += words.shape[0]
        if 4 * self._count > 3 * self._table.shape[0]:
            old = self.every()
            self._table = _table(2 * self._count)
            kernels.put(self._table, *old)
        kernels.put(self._table, np.ascontiguousarray(words), np.ascontiguousarray(nodes))

    def every(self) -> tuple[Words, Words]:
        """All words and their nodes."""
        there = self._table[:, 1] >= 0
        return np.ascontiguousarray(self._table[there, 0]), np.ascontiguousarray(self._table[there, 1])

    @property
    def bytes(self) -> int:
        """What the table takes."""
        return self._table.nbytes


def _table(count: int) -> NDArray[np.int64]:
    places = 16
    while 3 * places < 4 * (count + 1):
        places *= 2
    table = np.zeros((places, 2), np.int64)
    table[:, 1] = -1
    return table
