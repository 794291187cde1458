"""Primary keys of rows that a member has taken past the coordinator, which has not seen them."""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.convert.values import show
from kpg.runtime.data.rowgroups import RowGroups
from kpg.runtime.data.rowindex import KeyIndex
from kpg.runtime.data.table import Table
from kpg.runtime.errors import IntegrityError
from kpg.runtime.types import Schema

Words = NDArray[np.int64]


class Keys:
    """The keys of one table's rows here, of which none is ever deleted as long as nobody else has them."""

    def __init__(self, table: Table, schema: Schema) -> None:
        self._table = table
        self._schema = schema
        self._key = schema.primary_key
        self._index = KeyIndex(table.groups, self._key)
        self._highest: Words | None = None
        """The highest key, as long as all came in their order."""

    def check(self, words: Words) -> None:
        """IntegrityError if rows, of which none is in the table, have a key twice or one that is there."""
        keys = np.ascontiguousarray(words[list(self._key)])
        if not keys.shape[1] or self._goes_on(keys):
            return
        every = KeyIndex(RowGroups.over(keys), tuple(range(len(self._key))))
        place = every.insert(np.arange(keys.shape[1]), 0)
        if place >= 0:
            raise self._duplicate(keys[:, place], "is given twice", "give each key once")
        there = np.flatnonzero(self._index.find(self._table.count, self._table.rows, keys) >= 0)
        if there.shape[0]:
            hint = "delete the old row first, or use upsert"
            raise self._duplicate(keys[:, there[0]], "exists already", hint)

    def taken(self, words: Words) -> None:
        """The rows are in the table now."""
        keys = words[list(self._key)]
        if not keys.shape[1]:
            return
        in_order = self._goes_on(keys)
        self._highest = keys[:, -1].copy() if in_order else np.full(len(self._key), np.iinfo(np.int64).max)

    def _goes_on(self, keys: Words) -> bool:
        """Whether keys ascend, from above all that are there."""
        first = () if self._highest is None else (self._highest[:, None],)
        every = np.concatenate((*first, keys), axis=1)
        above = np.zeros(every.shape[1] - 1, np.bool_)
        same = np.ones(every.shape[1] - 1, np.bool_)
        for words in every:
            above |= same & (words[1:] > words[:-1])
            same &= words[1:] == words[:-1]
        return bool(above.all())

    def _duplicate(self, key: Words, what: str, hint: str) -> IntegrityError:
        names = ", ".join(self._schema.names[place] for place in self._key)
        types = [self._schema.types[place] for place in self._key]
        shown = ", ".join(
            show(word, type_, self._table.dictionary) for word, type_ in zip(key.tolist(), types, strict=True)
        )
        return IntegrityError(
            f"duplicate key in table {self._table.name}: ({names}) = ({shown}) {what}", hint=hint
        )
