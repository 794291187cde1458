"""Whose a row is: by what a value is, not by its code."""

from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.data.rowgroups import RowGroups
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.kernels import shards as kernels
from kpg.runtime.sharing.strings import LOWEST

Words = NDArray[np.int64]
FEW: Final = 4
"""Workers up to which it is quickest to look for the rows of each."""


class Owners:
    """The owners of words among ``count`` workers; those of texts are found once."""

    def __init__(self, dictionary: Dictionary, count: int, *, apart: bool) -> None:
        """``apart``: codes are a worker's own, so that whose a text is, is told by what it is."""
        self.count = count
        self._apart = apart
        self._dictionary = dictionary
        self._texts: Words = np.empty(0, np.int64)

    def of(self, words: Words, *, interned: bool) -> Words:
        """The number of each word's worker."""
        out = np.empty(words.shape[0], np.int64)
        words = np.ascontiguousarray(words)
        if not self._apart:
            kernels.near_owners(words, self.count, out)
            return out
        if not interned:
            kernels.owners(words, self.count, out)
            return out
        self._extend()
        special = words <= LOWEST
        out[~special] = self._texts[words[~special]]
        out[special] = 0
        return out

    def places(self, words: Words, *, interned: bool) -> list[Words]:
        """Of each worker the places of its words, ascending."""
        owners, count = self.of(words, interned=interned), self.count
        if count <= FEW:
            return [np.flatnonzero(owners == worker) for worker in range(count)]
        narrow = owners.astype(np.uint8 if count <= 1 << 8 else np.uint16)  # which are sorted by counting
        order = np.argsort(narrow, kind="stable")
        ends = np.cumsum(np.bincount(owners, minlength=count)).tolist()
        return [order[start:end] for start, end in pairwise([0, *ends])]

    def mine(self, words: Words, values: Words, index: int, *, interned: bool) -> Words:
        """The values beside the words that are worker ``index``'s."""
        if self._apart:
            return values[self.of(words, interned=interned) == index]
        out = np.empty(words.shape[0], np.int64)
        words, values = np.ascontiguousarray(words), np.ascontiguousarray(values)
        return out[: kernels.near_mine(words, values, self.count, index, out)]

    def rows(self, groups: RowGroups, column: int, rowids: Words, index: int, *, interned: bool) -> Words:
        """The rowids whose rows have a word of worker ``index`` in a column."""
        rowids = np.ascontiguousarray(rowids)
        if self._apart:
            words = groups.read(np.array([column], np.int64), rowids)[0]
            return self.mine(words, rowids, index, interned=interned)
        out = np.empty(rowids.shape[0], np.int64)
        return out[: kernels.near_rows(groups.directory, column, rowids, self.count, index, out)]

    def _extend(self) -> None:
        known, count = self._texts.shape[0], len(self._dictionary)
        if count > known:
            more = np.empty(count - known, np.int64)
            kernels.text_owners(self._dictionary.arena, self._dictionary.offsets, known, self.count, more)
            self._texts = np.concatenate((self._texts, more))
