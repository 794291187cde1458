"""What rows of a table are unique in, of those that a member has taken past the coordinator."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.data.rowgroups import RowGroups
from kpg.runtime.data.rowindex import KeyIndex
from kpg.runtime.data.table import Table
from kpg.runtime.data.unique import UniqueIndex
from kpg.runtime.types import NULL

Words = NDArray[np.int64]
NOTHING: Final[Words] = np.empty(0, np.int64)
HIGHEST: Final = (1 << 63) - 1


class Keys:
    """The keys of one table's rows here, of which none is ever deleted as long as nobody else has them."""

    def __init__(self, table: Table, columns: tuple[int, ...], *, nulls_distinct: bool = True) -> None:
        self.columns = columns
        self._table = table
        self._nulls_distinct = nulls_distinct
        self._index = UniqueIndex("", table.groups, columns, nulls_distinct=nulls_distinct)
        self._indexed = 0
        """Rows from there on are not in the index yet."""
        self._highest: Words | None = np.full(len(columns), HIGHEST) if table.count else None
        """The highest key, as long as all came in their order."""
        self._coming: Words | None = None

    def suspects(self, keys: Words) -> tuple[Words, Words]:
        """Of keys ``[k, n]`` that are to come the places of those that come twice, and that are there."""
        self._coming = self._after(keys)
        if self._coming is not None:
            return NOTHING, NOTHING
        places = asking(keys, none=self._nulls_distinct)
        keys = np.ascontiguousarray(keys[:, places])
        return places[repeated(keys)], places[self.find(keys) >= 0]

    def taken(self) -> None:
        """The rows that were asked for last are in the table now."""
        self._highest = np.full(len(self.columns), HIGHEST)
        if self._coming is not None:
            self._highest = self._coming

    def find(self, keys: Words) -> Words:
        """The row here of each key ``[k, n]``, or -1."""
        table = self._table
        if self._indexed < table.count:
            rowids = table.groups.live(self._indexed, table.count)
            if rowids.shape[0]:
                self._index.insert(rowids, self._indexed, table.rows)
            self._indexed = table.count
        return self._index.find(keys)

    def _after(self, keys: Words) -> Words | None:
        """The last of keys that ascend, from above all that are there; None if they do not."""
        if not keys.shape[1]:
            return np.full(len(self.columns), NULL) if self._highest is None else self._highest
        first = () if self._highest is None else (self._highest[:, None],)
        every = np.concatenate((*first, keys), axis=1)
        above = np.zeros(every.shape[1] - 1, np.bool_)
        same = np.ones(every.shape[1] - 1, np.bool_)
        for words in every:
            above |= same & (words[1:] > words[:-1])
            same &= words[1:] == words[:-1]
        return keys[:, -1].copy() if above.all() else None


def asking(keys: Words, *, none: bool) -> Words:
    """The places of keys that have no NULL in them; without ``none``, of all."""
    if not none:
        return np.arange(keys.shape[1])
    return np.flatnonzero((keys != NULL).all(axis=0))


def among(known: Words, keys: Words) -> NDArray[np.bool_]:
    """Whether each key ``[k, n]`` is one of those known, none of which is there twice."""
    if not known.shape[1] or not keys.shape[1]:
        return np.zeros(keys.shape[1], np.bool_)
    index = KeyIndex(RowGroups.over(known), tuple(range(known.shape[0])))
    found: Words = index.find(known.shape[1], known.shape[1], keys)
    return found >= 0


def repeated(keys: Words) -> Words:
    """The places of keys that are there more than once."""
    if not keys.shape[1]:
        return NOTHING
    index = KeyIndex(RowGroups.over(keys), tuple(range(keys.shape[0])))
    if index.insert(np.arange(keys.shape[1]), 0) < 0:
        return NOTHING
    _, which, counts = np.unique(keys, axis=1, return_inverse=True, return_counts=True)
    return np.flatnonzero(counts[which.reshape(-1)] > 1)
