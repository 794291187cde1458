"""Hash indexes over the rows of a row store, built on first use and sized by its rows."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import rowgroups
from kpg.runtime.kernels import rows as kernels
from kpg.runtime.tables.row_groups import RowGroups

Words = NDArray[np.int64]

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
    arrive in ascending order, above all before, are new without looking. ``highest`` is the highest key that
    any row ever had, or as many words of no meaning while ``known`` is 0.
    """

    def __init__(self, groups: RowGroups, key: tuple[int, ...]) -> None:
        self.indexed = 0
        self.key: Words = np.array(key, np.int64)
        self.highest: Words = np.zeros(len(key), np.int64)
        self.known = 0
        self._groups = groups
        self._given: Words = np.arange(len(key), dtype=np.int64)
        self._asked: Words = np.zeros((2, rowgroups.FIELDS), np.int64)
        self._slots: Words = np.zeros(FIRST_SLOTS, np.int64)
        self._tally: Words = np.zeros(1, np.int64)

    @property
    def bytes(self) -> int:
        return self._slots.nbytes

    def insert(self, rowids: Words, live: int) -> int:
        """Take in stored rows, the last, next to ``live`` others; the position of the first whose key is
        taken.

        -1 if none is. Given a duplicate, none is taken in.
        """
        count = int(rowids[0])
        self.catch_up(count, live, rowids.shape[0])
        duplicate = int(
            kernels.key_insert(self._slots, self._tally, self._groups.directory, self.key, rowids)
        )
        if duplicate < 0:
            self.indexed = count + rowids.shape[0]
        return duplicate

    def catch_up(self, count: int, live: int, more: int = 0) -> None:
        """Index the live rows below ``count``, ``live`` in all, that are not yet, with room for ``more``."""
        if is_full(self._slots.shape[0], int(self._tally[0]), count - self.indexed + more):
            # For as many rows again: where few come at a time, they are indexed anew a third as often.
            self.indexed = 0
            self._slots = np.zeros(slots_for(live + max(live, more)), np.int64)
            self._tally[0] = 0
        if self.indexed < count:
            rowids = self._groups.live(self.indexed, count, live)
            kernels.key_insert(self._slots, self._tally, self._groups.directory, self.key, rowids)
            self.indexed = count

    def remove(self, rowids: Words) -> None:
        """Take rows out that are going to be dead."""
        known = rowids if self.indexed > rowids.max(initial=-1) else rowids[rowids < self.indexed]
        kernels.key_remove(self._slots, self._tally, self._groups.directory, self.key, known)

    def forget(self, rowids: Words) -> None:
        """Take out the last rows, if they were taken in, as if they had never come."""
        if self.indexed > int(rowids[0]):
            kernels.key_remove(self._slots, self._tally, self._groups.directory, self.key, rowids)
            self.indexed = int(rowids[0])

    def restore(self, count: int, live: int, rowids: Words) -> None:
        """Return to ``count`` rows, of which ``rowids`` are live again; those beyond are removed already."""
        self.indexed = min(self.indexed, count)
        known = np.ascontiguousarray(rowids[rowids < self.indexed])
        if is_full(self._slots.shape[0], int(self._tally[0]), known.shape[0]):
            self._tally[0] = self._slots.shape[0]
            self.catch_up(count, live)
        else:
            kernels.key_insert(self._slots, self._tally, self._groups.directory, self.key, known)

    def find(self, count: int, live: int, keys: Words) -> Words:
        """Rowid of each key ``keys[k, n]``, or -1."""
        return self._find(count, live, keys, self._given)

    def find_in(self, count: int, live: int, rows: Words) -> Words:
        """Rowid with the key of each whole row ``rows[ncols, n]``, or -1."""
        return self._find(count, live, rows, self.key)

    def _find(self, count: int, live: int, given: Words, key: Words) -> Words:
        self.catch_up(count, live)
        out = np.empty(given.shape[1], np.int64)
        given = np.ascontiguousarray(given)
        directory = self._groups.directory
        kernels.key_find(self._slots, directory, self.key, given, key, self._asked, out)
        return out


class BagIndex:
    """The live rows by all their columns; equal rows are found one after the other."""

    def __init__(self, groups: RowGroups, rowids: Words | None) -> None:
        """Without ``rowids``, an index to be filled in."""
        self._groups = groups
        self._every: Words = np.arange(groups.width, dtype=np.int64)
        self._tally: Words = np.zeros(1, np.int64)
        self._asked: Words = np.zeros((2, rowgroups.FIELDS), np.int64)
        self._slots: Words
        if rowids is not None:
            groups.link()
            self._build(rowids)

    @property
    def bytes(self) -> int:
        return self._slots.nbytes

    def insert(self, rowids: Words, count: int, live: int) -> None:
        """Index the given rows, which are among the ``live`` ones below ``count``."""
        if is_full(self._slots.shape[0], int(self._tally[0]), rowids.shape[0]):
            self._build(self._groups.live(0, count, live))
        else:
            self._push(rowids)

    def remove(self, rowids: Words) -> None:
        """Take indexed rows out."""
        kernels.bag_remove(self._slots, self._tally, self._groups.directory, self._every, rowids)

    def match(self, given: Words) -> Words:
        """For each row ``given[ncols, n]`` an indexed row equal to it, no row twice, or -1."""
        out = np.empty(given.shape[1], np.int64)
        directory = self._groups.directory
        kernels.bag_match(self._slots, self._tally, directory, self._every, given, self._asked, out)
        return out

    def _build(self, rowids: Words) -> None:
        self._slots = np.zeros(slots_for(rowids.shape[0]), np.int64)
        self._tally[0] = 0
        self._push(rowids)

    def _push(self, rowids: Words) -> None:
        kernels.bag_insert(self._slots, self._tally, self._groups.directory, self._every, rowids)
