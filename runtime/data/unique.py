"""Indexes of the columns that a table is unique in, next to its primary key, or that others ask it by."""

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.data.rowgroups import RowGroups
from kpg.runtime.data.rowindex import is_full, slots_for
from kpg.runtime.kernels import rowgroups
from kpg.runtime.kernels import rows as kernels
from kpg.runtime.types import NULL

if TYPE_CHECKING:
    from kpg.runtime.data.table import Table

Words = NDArray[np.int64]

SEED: Final = np.uint64(0x9E3779B97F4A7C15)
FACTOR: Final = np.uint64(0xBF58476D1CE4E5B9)
MOST_RUNS: Final = 12
SLACK: Final = 1024
"""Entries of dead rows that are kept, besides as many as there are live ones."""


class UniqueIndex:
    """The live row of each key. Rows with a NULL in the key are left out if NULLs are distinct."""

    def __init__(
        self, name: str, groups: RowGroups, columns: tuple[int, ...], *, nulls_distinct: bool
    ) -> None:
        self.name = name
        self.columns = columns
        self.nulls_distinct = nulls_distinct
        self._groups = groups
        self._key: Words = np.array(columns, np.int64)
        self._given: Words = np.arange(len(columns), dtype=np.int64)
        self._asked: Words = np.zeros((2, rowgroups.FIELDS), np.int64)
        self._tally: Words = np.zeros(1, np.int64)
        self._slots: Words = np.zeros(slots_for(0), np.int64)

    @property
    def bytes(self) -> int:
        return self._slots.nbytes

    def insert(self, rowids: Words, count: int, live: int) -> int:
        """Take in stored rows next to the ``live`` ones below ``count``.

        The position of the first whose key is taken, and then none is taken in; -1 if none is.
        """
        places = self._places(rowids)
        known = rowids if places is None else rowids[places]
        if is_full(self._slots.shape[0], int(self._tally[0]), known.shape[0]):
            self.build(self._groups.live(0, count, live), known.shape[0])
        found = self._push(known)
        return found if found < 0 or places is None else int(places[found])

    def build(self, rowids: Words, more: int = 0) -> int:
        """Index these rows and no others, as :meth:`insert`, with room for ``more``."""
        self._slots = np.zeros(slots_for(rowids.shape[0] + more), np.int64)
        self._tally[0] = 0
        places = self._places(rowids)
        found = self._push(rowids if places is None else rowids[places])
        return found if found < 0 or places is None else int(places[found])

    def remove(self, rowids: Words) -> None:
        """Take indexed rows out."""
        places = self._places(rowids)
        known = np.ascontiguousarray(rowids if places is None else rowids[places])
        kernels.key_remove(self._slots, self._tally, self._groups.directory, self._key, known)

    def find(self, keys: Words) -> Words:
        """Rowid of each key ``keys[k, n]``, or -1."""
        out = np.empty(keys.shape[1], np.int64)
        given = np.ascontiguousarray(keys)
        directory = self._groups.directory
        kernels.key_find(self._slots, directory, self._key, given, self._given, self._asked, out)
        return out

    def _push(self, rowids: Words) -> int:
        rowids = np.ascontiguousarray(rowids)
        return int(kernels.key_insert(self._slots, self._tally, self._groups.directory, self._key, rowids))

    def _places(self, rowids: Words) -> Words | None:
        """Which of some rows belong into the index; None if all do."""
        if not self.nulls_distinct:
            return None
        keys = self._groups.read(self._key, np.ascontiguousarray(rowids))
        absent = (keys == NULL).any(axis=0)
        return np.flatnonzero(~absent) if absent.any() else None


class LookupIndex:
    """The rows of each key, of which there may be many: sorted runs of hashes with rowids.

    It covers the rows below a rowid and catches up when it is asked. What it finds are candidates: a row may
    be dead, or have come with another key after one that was rolled back, so each is looked at.
    """

    def __init__(self, groups: RowGroups, columns: tuple[int, ...]) -> None:
        self.columns = columns
        self.indexed = 0
        self._groups = groups
        self._key: Words = np.array(columns, np.int64)
        self._runs: list[tuple[Words, Words]] = []

    @property
    def bytes(self) -> int:
        return sum(hashes.nbytes + rowids.nbytes for hashes, rowids in self._runs)

    def find(self, keys: Words, count: int, live: int) -> tuple[Words, Words]:
        """Positions of keys ``keys[k, n]`` and rowids of rows that have them, ``dead`` ones among them."""
        self._catch_up(count, live)
        wanted = _hashes(keys)
        positions, rowids = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for hashes, rows in self._runs:
            first, last = np.searchsorted(hashes, wanted, "left"), np.searchsorted(hashes, wanted, "right")
            counts = last - first
            place = np.repeat(np.arange(wanted.shape[0]), counts)
            offset = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            positions.append(place)
            rowids.append(rows[np.repeat(first, counts) + offset])
        place, found = np.concatenate(positions), np.concatenate(rowids)
        below = found < count
        place, found = place[below], found[below]
        same = (self._groups.read(self._key, np.ascontiguousarray(found)) == keys[:, place]).all(axis=0)
        pairs = np.unique(np.stack((place[same], found[same])), axis=1)
        return pairs[0], pairs[1]

    def restore(self, count: int, revived: Words) -> None:
        """Rows from ``count`` on are gone, others may take their rowids; ``revived`` ones are live again."""
        self.indexed = min(self.indexed, count)
        self._add(revived[revived < self.indexed])

    def _catch_up(self, count: int, live: int) -> None:
        if sum(rowids.shape[0] for _, rowids in self._runs) > 2 * live + SLACK:
            self.indexed, self._runs = 0, []
        if self.indexed < count:
            self._add(self._groups.live(self.indexed, count, live))
            self.indexed = count

    def _add(self, rowids: Words) -> None:
        if not rowids.shape[0]:
            return
        rowids = np.ascontiguousarray(rowids)
        self._runs.append(_sorted(_hashes(self._groups.read(self._key, rowids)), rowids))
        while len(self._runs) > 1 and (
            self._runs[-2][0].shape[0] <= 2 * self._runs[-1][0].shape[0] or len(self._runs) > MOST_RUNS
        ):
            (one, its), (other, theirs) = self._runs.pop(), self._runs.pop()
            self._runs.append(_sorted(np.concatenate((one, other)), np.concatenate((its, theirs))))


def _sorted(hashes: Words, rowids: Words) -> tuple[Words, Words]:
    order = np.argsort(hashes, kind="stable")
    return hashes[order], rowids[order]


def _hashes(keys: Words) -> Words:
    """A hash of each key ``keys[k, n]``."""
    state = np.full(keys.shape[1], SEED, np.uint64)
    for words in keys:
        state = (state ^ np.ascontiguousarray(words).view(np.uint64)) * FACTOR
        state ^= state >> np.uint64(31)
    return state.view(np.int64)


def take_in(table: "Table", words: Words, state: int, highest: Words) -> Words:
    """Index the rows ``words`` that lie behind the last one, and have them count; their rowids.

    ``state`` and ``highest`` are what ``rowgroups.append`` has made of them. IntegrityError, with nothing
    changed, for a NULL where none may be, or a key that another row has.
    """
    start, end = table.count, table.count + words.shape[1]
    index = table._key
    if state < 0:
        from kpg.runtime.data.violations import null_error

        raise null_error(table, words, *divmod(-1 - state, words.shape[1]))
    rowids = np.arange(start, end)
    if index is not None and end > start:
        duplicate = -1 if state else index.insert(rowids, table.rows)
        if duplicate >= 0:
            from kpg.runtime.data.violations import duplicate_error

            raise duplicate_error(table, words, duplicate)
        if table._unique:
            _insert_unique(table, words, rowids)
        index.highest, index.known = highest, 1
    elif table._unique:
        _insert_unique(table, words, rowids)
    table.touched[table] = None
    table.count = end
    if table._bag:
        table._bag.insert(rowids, end, table.rows)
    return rowids


def _insert_unique(table: "Table", words: Words, rowids: Words) -> None:
    """Index new rows in all that the table is unique in, or, raising IntegrityError, in nothing."""
    for place, index in enumerate(table._unique):
        duplicate = index.insert(rowids, table.count, table.rows)
        if duplicate >= 0:
            for taken in table._unique[:place]:
                taken.remove(rowids)
            if table._key:
                table._key.forget(rowids)
            from kpg.runtime.data.violations import unique_error

            raise unique_error(table, index, words, duplicate)
