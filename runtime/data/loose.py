"""Indexes of keys whose equal values may be different words: 1.5 and 1.50, a month and 30 days."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.data.unique import LookupIndex, UniqueIndex
from kpg.runtime.types import NULL, is_loose

if TYPE_CHECKING:
    from kpg.runtime.data.table import Table

Words = NDArray[np.int64]
Key = tuple[Any, ...]
ENTRY_BYTES = 200
"""About what one entry takes."""


def is_loose_key(table: "Table", columns: Sequence[int]) -> bool:
    """Whether some columns of a table have values that are equal and look different."""
    return any(is_loose(table.schema.columns[place].type) for place in columns)


class LooseIndex(UniqueIndex):
    """As its base, by what equal values have in common; in Python, a few microseconds a row.

    What a table that was restored has is read when it is first asked.
    """

    def __init__(self, name: str, table: "Table", columns: tuple[int, ...], *, nulls_distinct: bool) -> None:
        super().__init__(name, table.groups, columns, nulls_distinct=nulls_distinct)
        self._table = table
        self._rows: dict[Key, int] | None = None

    @property
    def bytes(self) -> int:
        return ENTRY_BYTES * len(self._rows or ())

    def insert(self, rowids: Words, count: int, live: int) -> int:
        known = self._known()
        taken: list[Key] = []
        for place, (key, rowid) in enumerate(zip(self._keys(rowids), rowids.tolist(), strict=True)):
            if key is None:
                continue
            if known.get(key, rowid) != rowid:
                for one in taken:
                    del known[one]
                return place
            if key not in known:
                known[key] = rowid
                taken.append(key)
        return -1

    def build(self, rowids: Words, more: int = 0) -> int:
        self._rows = {}
        return self.insert(rowids, 0, 0)

    def remove(self, rowids: Words) -> None:
        known = self._known()
        for key, rowid in zip(self._keys(rowids), rowids.tolist(), strict=True):
            if key is not None and known.get(key) == rowid:
                del known[key]

    def find(self, keys: Words) -> Words:
        known = self._known()
        given = shared(self._table, self.columns, keys, nulls_distinct=self.nulls_distinct)
        found = [-1 if key is None else known.get(key, -1) for key in given]
        return np.array(found, np.int64).reshape(-1)

    def _known(self) -> dict[Key, int]:
        if self._rows is None:
            self.build(self._table.live())
        assert self._rows is not None
        return self._rows

    def _keys(self, rowids: Words) -> list[Key | None]:
        words = self._groups.read(self._key, np.ascontiguousarray(rowids))
        return shared(self._table, self.columns, words, nulls_distinct=self.nulls_distinct)


class LooseLookup(LookupIndex):
    """As its base, by what equal values have in common."""

    def __init__(self, table: "Table", columns: tuple[int, ...]) -> None:
        super().__init__(table.groups, columns)
        self._table = table
        self._rows: dict[Key, list[int]] = {}

    @property
    def bytes(self) -> int:
        return ENTRY_BYTES * len(self._rows)

    def find(self, keys: Words, count: int, live: int) -> tuple[Words, Words]:
        self._catch_up(count, live)
        pairs = [
            (place, rowid)
            for place, key in enumerate(shared(self._table, self.columns, keys, nulls_distinct=True))
            for rowid in sorted(set(self._rows.get(key, ()) if key is not None else ()))
            if rowid < count
        ]
        found = np.array(pairs, np.int64).reshape(-1, 2)
        same = self._keys(found[:, 1])
        given = shared(self._table, self.columns, keys, nulls_distinct=True)
        kept = [key == given[place] for key, place in zip(same, found[:, 0].tolist(), strict=True)]
        chosen = found[np.array(kept, np.bool_)] if kept else found
        return chosen[:, 0], chosen[:, 1]

    def _add(self, rowids: Words) -> None:
        for key, rowid in zip(self._keys(rowids), rowids.tolist(), strict=True):
            if key is not None:
                self._rows.setdefault(key, []).append(rowid)

    def _keys(self, rowids: Words) -> list[Key | None]:
        words = self._groups.read(self._key, np.ascontiguousarray(rowids))
        return shared(self._table, self.columns, words, nulls_distinct=True)


def shared(table: "Table", columns: Sequence[int], words: Words, *, nulls_distinct: bool) -> list[Key | None]:
    """What equal keys share, None for one with a NULL that is like no other."""
    from kpg.runtime.functions.keys import key_string

    parts: list[list[Any]] = []
    for place, column in zip(columns, words, strict=True):
        type_ = table.schema.columns[place].type
        if not is_loose(type_):
            parts.append(column.tolist())
            continue
        of_key, strings = key_string(type_), table.dictionary.decode(np.ascontiguousarray(column))
        parts.append([None if string is None else of_key(string) for string in strings])
    absent = (words == NULL).any(axis=0) if nulls_distinct else np.zeros(words.shape[1], np.bool_)
    keys = zip(*parts, strict=True)
    return [None if gone else key for gone, key in zip(absent.tolist(), keys, strict=True)]


def index_of(table: "Table", name: str, columns: tuple[int, ...], *, nulls_distinct: bool) -> UniqueIndex:
    """An empty index of what a table is to be unique in."""
    if is_loose_key(table, columns):
        return LooseIndex(name, table, columns, nulls_distinct=nulls_distinct)
    return UniqueIndex(name, table.groups, columns, nulls_distinct=nulls_distinct)


def lookup_of(table: "Table", columns: tuple[int, ...]) -> LookupIndex:
    """An index of what a table is to be asked by."""
    return LooseLookup(table, columns) if is_loose_key(table, columns) else LookupIndex(table.groups, columns)


def loose_key(table: "Table") -> LooseIndex | None:
    """What else holds a primary key to be unique, if its equal values may be different words."""
    key = table.schema.primary_key
    loose = bool(key) and is_loose_key(table, key)
    return LooseIndex(f"{table.name}_pkey", table, key, nulls_distinct=True) if loose else None
