"""Hash indexes over the rows of a row store, built on first use and sized by its rows."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import rowgroups
from kpg.runtime.kernels import rows as kernels
from kpg.runtime.tables.row_groups import RowGroups

Words = NDArray[np.int64]

FIRST_SLOTS: Final = 512
"""Slots of a new index: 4 KB, a page, since most tables are small."""


def slots_for(entries: int) -> int:
    """Return a power of two that holds the entries at a load of at most a half."""
    return max(FIRST_SLOTS, 1 << (2 * entries - 1).bit_length())


def is_full(slots: int, used: int, more: int) -> bool:
    """Return whether ``more`` entries would raise the load above three quarters, where probing gets long."""
    return 4 * (used + more) > 3 * slots


class KeyIndex:
    """Index from each key to its live row; ``key`` are the key's columns.

    The hash table covers the live rows below ``indexed`` and catches up on use. Keys inserted in
    ascending order, above all others, need no lookup. ``highest`` is the highest key of any row so far,
    or undefined while ``known`` is 0.
    """

    def __init__(self, groups: RowGroups, key: tuple[int, ...]) -> None:
        self.indexed = 0
        self.key: Words = np.array(key, np.int64)
        self.highest: Words = np.zeros(len(key), np.int64)
        self.known = 0
        self._groups = groups
        self._whole_key: Words = np.arange(len(key), dtype=np.int64)
        self._probe_directory: Words = np.zeros((2, rowgroups.FIELDS), np.int64)
        self._slots: Words = np.zeros(FIRST_SLOTS, np.int64)
        self._tally: Words = np.zeros(1, np.int64)

    @property
    def bytes(self) -> int:
        return self._slots.nbytes

    def insert(self, rowids: Words, live: int) -> int:
        """Add the newest stored rows, besides ``live`` others.

        Return the position of the first duplicate key, or -1. With a duplicate, no row is added.
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
        """Index the remaining live rows below ``count``, with room for ``more``; ``live`` is their total."""
        if is_full(self._slots.shape[0], int(self._tally[0]), count - self.indexed + more):
            # Room for twice the rows: with small inserts, the index is rebuilt a third as often.
            self.indexed = 0
            self._slots = np.zeros(slots_for(live + max(live, more)), np.int64)
            self._tally[0] = 0
        if self.indexed < count:
            rowids = self._groups.live(self.indexed, count, live)
            kernels.key_insert(self._slots, self._tally, self._groups.directory, self.key, rowids)
            self.indexed = count

    def remove(self, rowids: Words) -> None:
        """Remove rows that are about to be deleted."""
        indexed_rows = rowids if self.indexed > rowids.max(initial=-1) else rowids[rowids < self.indexed]
        kernels.key_remove(self._slots, self._tally, self._groups.directory, self.key, indexed_rows)

    def remove_newest(self, rowids: Words) -> None:
        """Undo the insertion of the newest rows, if they were indexed."""
        if self.indexed > int(rowids[0]):
            kernels.key_remove(self._slots, self._tally, self._groups.directory, self.key, rowids)
            self.indexed = int(rowids[0])

    def restore(self, count: int, live: int, rowids: Words) -> None:
        """Roll back to ``count`` rows, with ``rowids`` live again. Later rows are removed already."""
        self.indexed = min(self.indexed, count)
        indexed_rows = np.ascontiguousarray(rowids[rowids < self.indexed])
        if is_full(self._slots.shape[0], int(self._tally[0]), indexed_rows.shape[0]):
            self._tally[0] = self._slots.shape[0]
            self.catch_up(count, live)
        else:
            kernels.key_insert(self._slots, self._tally, self._groups.directory, self.key, indexed_rows)

    def find(self, count: int, live: int, keys: Words) -> Words:
        """Return the rowid of each key ``keys[k, n]``, or -1."""
        return self._find(count, live, keys, self._whole_key)

    def find_rows(self, count: int, live: int, rows: Words) -> Words:
        """Return the rowid with the key of each row ``rows[ncols, n]``, or -1."""
        return self._find(count, live, rows, self.key)

    def _find(self, count: int, live: int, rows: Words, key: Words) -> Words:
        self.catch_up(count, live)
        out = np.empty(rows.shape[1], np.int64)
        rows = np.ascontiguousarray(rows)
        directory = self._groups.directory
        kernels.key_find(self._slots, directory, self.key, rows, key, self._probe_directory, out)
        return out


class BagIndex:
    """Index of the live rows by all their columns; equal rows form a list."""

    def __init__(self, groups: RowGroups, rowids: Words | None) -> None:
        """Build the index of ``rowids``; without them the caller fills it."""
        self._groups = groups
        self._all_columns: Words = np.arange(groups.width, dtype=np.int64)
        self._tally: Words = np.zeros(1, np.int64)
        self._probe_directory: Words = np.zeros((2, rowgroups.FIELDS), np.int64)
        self._slots: Words
        if rowids is not None:
            groups.enable_links()
            self._build(rowids)

    @property
    def bytes(self) -> int:
        return self._slots.nbytes

    def insert(self, rowids: Words, count: int, live: int) -> None:
        """Add rows, which are among the ``live`` ones below ``count``."""
        if is_full(self._slots.shape[0], int(self._tally[0]), rowids.shape[0]):
            self._build(self._groups.live(0, count, live))
        else:
            self._insert(rowids)

    def remove(self, rowids: Words) -> None:
        """Remove indexed rows."""
        kernels.bag_remove(self._slots, self._tally, self._groups.directory, self._all_columns, rowids)

    def match(self, rows: Words) -> Words:
        """Return for each row ``rows[ncols, n]`` an equal indexed row, each used once, or -1."""
        out = np.empty(rows.shape[1], np.int64)
        directory = self._groups.directory
        kernels.bag_match(
            self._slots, self._tally, directory, self._all_columns, rows, self._probe_directory, out
        )
        return out

    def _build(self, rowids: Words) -> None:
        self._slots = np.zeros(slots_for(rowids.shape[0]), np.int64)
        self._tally[0] = 0
        self._insert(rowids)

    def _insert(self, rowids: Words) -> None:
        kernels.bag_insert(self._slots, self._tally, self._groups.directory, self._all_columns, rowids)
