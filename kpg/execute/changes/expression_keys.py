"""Keys of unique indexes over expressions, and of partial unique indexes.

Each such index has a hidden table of its keys, absent from the catalog relations. It changes in the same
transactions as the indexed table.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.constraints import UniqueIndex
from kpg.compiler.catalog.entries import Catalog, TableEntry
from kpg.compiler.sql.parse.reader import parsed_expression
from kpg.compiler.sql.rewrite.column_expressions import key_of_row
from kpg.runtime.convert.python_values import show
from kpg.runtime.errors import IntegrityError
from kpg.runtime.executor import Executor
from kpg.runtime.plan import Mfp
from kpg.runtime.types import NULL, Type

Words = NDArray[np.int64]


class ExpressionKey:
    """One unique index, as rows come and go."""

    def __init__(self, executor: Executor, entry: TableEntry, catalog: Catalog, one: UniqueIndex) -> None:
        self._executor = executor
        self._entry = entry
        self._catalog = catalog
        self.one = one

    @cached_property
    def _mfp(self) -> Mfp:
        return key_of_row(self._entry, self.one, self._catalog)

    @property
    def types(self) -> tuple[Type, ...]:
        """The types of the keys."""
        return tuple(scalar.type for scalar in self._mfp.outputs)

    def keys(self, words: Words) -> tuple[Words, Words]:
        """The keys of the rows that have one, and the places of these."""
        found, kept = self._executor.evaluate(self._mfp, np.ascontiguousarray(words))
        places = np.arange(words.shape[1]) if kept is None else kept
        whole = (found != NULL).all(axis=0) if self.one.nulls_distinct else np.ones(found.shape[1], np.bool_)
        return np.ascontiguousarray(found[:, whole]), places[whole]

    def deleted(self, words: Words) -> None:
        """Rows have gone."""
        keys, _ = self.keys(words)
        if keys.shape[1]:
            self._executor.delete(self.one.kept, self._executor.match(self.one.kept, keys))

    def inserted(self, words: Words) -> None:
        """Rows have come; IntegrityError if a key is there twice."""
        keys, _ = self.keys(words)
        if not keys.shape[1]:
            return
        try:
            self._executor.insert(self.one.kept, keys)
        except IntegrityError:
            raise self._error(keys) from None

    def there(self, words: Words) -> NDArray[np.bool_]:
        """Which of some rows would meet one that is there."""
        keys, places = self.keys(words)
        found = np.zeros(words.shape[1], np.bool_)
        columns = tuple(range(keys.shape[0]))
        found[places] = self._executor.find_unique(self.one.kept, columns, keys) >= 0
        return found

    def find(self, words: Words) -> Words:
        """The rowids of the rows that some rows meet, -1 where they meet none."""
        found = np.full(words.shape[1], -1, np.int64)
        asked = np.flatnonzero(self.there(words))
        if not asked.size:
            return found
        rowids = self._executor.rowids(self._entry.name)
        keys, places = self.keys(self._executor.fetch(self._entry.name, rowids))
        known = {tuple(key): rowids[place] for key, place in zip(keys.T.tolist(), places, strict=True)}
        wanted, at = self.keys(np.ascontiguousarray(words[:, asked]))
        for key, place in zip(wanted.T.tolist(), at.tolist(), strict=True):
            found[asked[place]] = known[tuple(key)]
        return found

    def _shown(self, key: Words) -> str:
        values = zip(key[:, 0].tolist(), self.types, strict=True)
        return ", ".join(show(word, type_, self._executor.dictionary) for word, type_ in values)

    def _error(self, keys: Words) -> IntegrityError:
        """A key that is there twice."""
        there = self._executor.find_unique(self.one.kept, tuple(range(keys.shape[0])), keys)
        place = int(np.argmax(there >= 0)) if (there >= 0).any() else 0
        named = ", ".join(self.one.elements)
        found = f"({named})=({self._shown(keys[:, place : place + 1])})"
        error = IntegrityError(
            f'duplicate key value violates unique constraint "{self.one.name}": {found} already exists',
            hint="nothing was changed",
        )
        error.sqlstate = "23505"
        return error.with_detail(f"Key {found} already exists.")


def unique_indexes(catalog: Catalog, name: str) -> Iterator[UniqueIndex]:
    """The unique indexes of a table that are over expressions, or of some rows."""
    for key, one in list(catalog.others.items()):
        if key[:2] == ("unique index", name.lower()):
            yield one


def expression_keys(executor: Executor, entry: TableEntry, catalog: Catalog) -> Sequence[ExpressionKey]:
    """The same, as rows come and go."""
    return [ExpressionKey(executor, entry, catalog, one) for one in unique_indexes(catalog, entry.name)]


def without_conflicts(rules: Sequence[ExpressionKey], words: Words) -> Words:
    """The rows that meet none that is there, nor one before them."""
    for rule in rules:
        words = np.ascontiguousarray(words[:, ~rule.there(words)])
        keys, places = rule.keys(words)
        kept = np.ones(words.shape[1], np.bool_)
        _, first = np.unique(keys, axis=1, return_index=True)
        kept[np.setdiff1d(places, places[first])] = False
        words = np.ascontiguousarray(words[:, kept])
    return words


def written(text: str) -> str:
    """An expression in one form of many."""
    return str(parsed_expression(text).unnest().sql(dialect="postgres")).lower()
