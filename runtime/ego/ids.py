"""Which node of an overlay a word is: the writer, or the reader, of a value."""

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.int64]


class Ids:
    """Nodes by word: most in a sorted array, those that came lately in a dictionary."""

    def __init__(self, words: Words, nodes: Words) -> None:
        order = np.argsort(words, kind="stable")
        self._words, self._nodes = words[order], nodes[order]
        self._new: dict[int, int] = {}

    def find(self, words: Words) -> Words:
        """The node of each word, -1 where there is none."""
        if not self._words.shape[0]:
            found = np.full(words.shape[0], -1, np.int64)
        else:
            place = np.minimum(np.searchsorted(self._words, words), self._words.shape[0] - 1)
            found = np.where(self._words[place] == words, self._nodes[place], -1)
        if self._new:
            missing = np.flatnonzero(found < 0)
            get = self._new.get
            found[missing] = [get(word, -1) for word in words[missing].tolist()]
        return found

    def put(self, word: int, node: int) -> None:
        """A word that was not known."""
        self._new[word] = node
        if len(self._new) > max(256, self._words.shape[0] // 8):
            words = np.concatenate((self._words, np.array(list(self._new), np.int64)))
            nodes = np.concatenate((self._nodes, np.array(list(self._new.values()), np.int64)))
            self.__init__(words, nodes)  # type: ignore[misc]

    def every(self) -> tuple[Words, Words]:
        """All words and their nodes."""
        words = np.concatenate((self._words, np.array(list(self._new), np.int64)))
        return words, np.concatenate((self._nodes, np.array(list(self._new.values()), np.int64)))

    @property
    def bytes(self) -> int:
        """What the arrays take."""
        return self._words.nbytes + self._nodes.nbytes + 200 * len(self._new)
