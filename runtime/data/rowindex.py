"""Hash indexes over the rows of a row store, sized and built as they are needed."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import rows as kernels

Words = NDArray[np.int64]
Flags = NDArray[np.uint8]

FIRST_SLOTS: Final = 512
"""4 KB, a page: small tables are many."""


def slots_for(entries: int) -> int:
    """A power of two that holds the entries at a load of at most a half."""
    return max(FIRST_SLOTS, 1 << (2 * entries - 1).bit_length())


def is_full(slots: int, used: int, more: int) -> bool:
    """Whether ``more`` entries would take the load above three quarters, where probing gets long."""
    return 4 * (used + more) > 3 * slots


class KeyIndex:
    """The live row of each key; ``key`` are the key's columns.

    The hash table covers the live rows below ``indexed`` and catches up when it is needed: keys that
    arrive in ascending order, above all before, are new without looking. ``highest`` is a row (maybe
    dead) with a key that no live row exceeds, or -1.
    """

    def __init__(self, key: tuple[int, ...]) -> None:
        self.indexed = 0
        self.highest = -1
        self._key: Words = np.array(key, np.int64)
        self._given: Words = np.arange(len(key), dtype=np.int64)
        self._slots: Words = np.zeros(FIRST_SLOTS, np.int64)
        self._tally: Words = np.zeros(1, np.int64)

    @property
    def bytes(self) -> int:
        return self._slots.nbytes

    def insert(self, columns: Words, live: Flags, count: int, rowids: Words) -> int:
        """Take in new rows, from ``count`` on; the position of the first whose key is taken, or -1.

        Given a duplicate, none is taken in.
        """
        end = count + rowids.shape[0]
        if kernels.ascending(columns, self._key, self.highest, count, end):
            self.highest = end - 1 if rowids.shape[0] else self.highest
            return -1
        self.catch_up(columns, live, count, rowids.shape[0])
        duplicate = int(kernels.key_insert(self._slots, self._tally, columns, self._key, rowids))
        if duplicate < 0:
            self.indexed = end
            self.highest = int(kernels.highest_key(columns, self._key, self.highest, count, end))
        return duplicate

    def restart(self, columns: Words, count: int) -> None:
        """Begin anew with ``count`` live rows, none of them indexed yet."""
        self.highest = int(kernels.highest_key(columns, self._key, -1, 0, count))

    def catch_up(self, columns: Words, live: Flags, count: int, more: int = 0) -> None:
        """Index the live rows below ``count`` that are not yet, with room for ``more``."""
        full = is_full(self._slots.shape[0], int(self._tally[0]), count - self.indexed + more)
        if full:
            self.indexed = 0
            self._slots = np.zeros(slots_for(int(np.count_nonzero(live[:count])) + more), np.int64)
            self._tally[0] = 0
        if self.indexed < count:
            rowids = self.indexed + np.flatnonzero(live[self.indexed : count])
            kernels.key_insert(self._slots, self._tally, columns, self._key, rowids)
            self.indexed = count

    def remove(self, columns: Words, rowids: Words) -> None:
        """Take rows out that are going to be dead."""
        known = rowids if self.indexed > rowids.max(initial=-1) else rowids[rowids < self.indexed]
        kernels.key_remove(self._slots, self._tally, columns, self._key, known)

    def restore(self, columns: Words, live: Flags, count: int, rowids: Words, highest: int) -> None:
        """Return to ``count`` rows, of which ``rowids`` are live again; those beyond are removed already."""
        self.highest = highest
        self.indexed = min(self.indexed, count)
        known = np.ascontiguousarray(rowids[rowids < self.indexed])
        if is_full(self._slots.shape[0], int(self._tally[0]), known.shape[0]):
            self._tally[0] = self._slots.shape[0]
            self.catch_up(columns, live, count)
        else:
            kernels.key_insert(self._slots, self._tally, columns, self._key, known)

    def find(self, columns: Words, live: Flags, count: int, keys: Words) -> Words:
        """Rowid of each key ``keys[k, n]``, or -1."""
        return self._find(columns, live, count, keys, self._given)

    def find_in(self, columns: Words, live: Flags, count: int, rows: Words) -> Words:
        """Rowid with the key of each whole row ``rows[ncols, n]``, or -1."""
        return self._find(columns, live, count, rows, self._key)

    def _find(self, columns: Words, live: Flags, count: int, given: Words, key: Words) -> Words:
        self.catch_up(columns, live, count)
        out = np.empty(given.shape[1], np.int64)
        kernels.key_find(self._slots, columns, self._key, np.ascontiguousarray(given), key, out)
        return out


class BagIndex:
    """The live rows by all their columns; equal rows are found one after the other."""

    def __init__(self, columns: Words, rowids: Words) -> None:
        self._every: Words = np.arange(columns.shape[0], dtype=np.int64)
        self._tally: Words = np.zeros(1, np.int64)
        self._slots: Words
        self._following: Words
        self._preceding: Words
        self._build(columns, rowids)

    @property
    def bytes(self) -> int:
        return self._slots.nbytes + self._following.nbytes + self._preceding.nbytes

    def insert(self, columns: Words, live: Flags, count: int, rowids: Words) -> None:
        """Index the given rows, which are among the live ones below ``count``."""
        if is_full(self._slots.shape[0], int(self._tally[0]), rowids.shape[0]):
            self._build(columns, np.flatnonzero(live[:count]))
            return
        if self._following.shape[0] < columns.shape[1]:
            self._following = _extended(self._following, columns.shape[1])
            self._preceding = _extended(self._preceding, columns.shape[1])
        self._push(columns, rowids)

    def remove(self, columns: Words, rowids: Words) -> None:
        """Take indexed rows out."""
        kernels.bag_remove(
            self._slots, self._tally, columns, self._every, self._following, self._preceding, rowids
        )

    def match(self, columns: Words, given: Words) -> Words:
        """For each row ``given[ncols, n]`` an indexed row equal to it, no row twice, or -1."""
        out = np.empty(given.shape[1], np.int64)
        kernels.bag_match(
            self._slots, self._tally, columns, self._every, self._following, self._preceding, given, out
        )
        return out

    def _build(self, columns: Words, rowids: Words) -> None:
        self._slots = np.zeros(slots_for(rowids.shape[0]), np.int64)
        self._tally[0] = 0
        self._following = np.zeros(columns.shape[1], np.int64)
        self._preceding = np.zeros(columns.shape[1], np.int64)
        self._push(columns, rowids)

    def _push(self, columns: Words, rowids: Words) -> None:
        kernels.bag_insert(
            self._slots, self._tally, columns, self._every, self._following, self._preceding, rowids
        )


def _extended(array: Words, size: int) -> Words:
    extended = np.zeros(size, np.int64)
    extended[: array.shape[0]] = array
    return extended
