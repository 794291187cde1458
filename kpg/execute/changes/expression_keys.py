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
from kpg.compiler.sql.parse.reader import parse_expression
from kpg.compiler.sql.rewrite.column_expressions import bind_index_key
from kpg.runtime.convert.python_values import show_word
from kpg.runtime.errors import IntegrityError
from kpg.runtime.executor import Executor
from kpg.runtime.plan import Mfp
from kpg.runtime.types import NULL, Type

Words = NDArray[np.int64]


class ExpressionKey:
    """A unique index over expressions or with a predicate, maintained in its hidden key table."""

    def __init__(self, executor: Executor, entry: TableEntry, catalog: Catalog, index: UniqueIndex) -> None:
        self._executor = executor
        self._entry = entry
        self._catalog = catalog
        self.index = index

    @cached_property
    def _mfp(self) -> Mfp:
        return bind_index_key(self._entry, self.index, self._catalog)

    @property
    def types(self) -> tuple[Type, ...]:
        """Types of the key columns."""
        return tuple(scalar.type for scalar in self._mfp.outputs)

    def keys(self, words: Words) -> tuple[Words, Words]:
        """Return the keys of the rows that the index covers, and the positions of these rows."""
        values, kept = self._executor.evaluate(self._mfp, np.ascontiguousarray(words))
        places = np.arange(words.shape[1]) if kept is None else kept
        whole = (
            (values != NULL).all(axis=0) if self.index.nulls_distinct else np.ones(values.shape[1], np.bool_)
        )
        return np.ascontiguousarray(values[:, whole]), places[whole]

    def delete_keys(self, words: Words) -> None:
        """Delete the keys of deleted rows."""
        keys, _ = self.keys(words)
        if keys.shape[1]:
            self._executor.tables.delete(self.index.kept, self._executor.tables.match(self.index.kept, keys))

    def insert_keys(self, words: Words) -> None:
        """Insert the keys of new rows; IntegrityError for a duplicate."""
        keys, _ = self.keys(words)
        if not keys.shape[1]:
            return
        try:
            self._executor.tables.insert(self.index.kept, keys)
        except IntegrityError:
            raise self._duplicate_error(keys) from None

    def find_conflicts(self, words: Words) -> NDArray[np.bool_]:
        """Return a mask of the rows whose key exists."""
        keys, places = self.keys(words)
        mask = np.zeros(words.shape[1], np.bool_)
        columns = tuple(range(keys.shape[0]))
        mask[places] = self._executor.tables.find_unique(self.index.kept, columns, keys) >= 0
        return mask

    def find(self, words: Words) -> Words:
        """Return for each row the rowid of the existing row with the same key, or -1."""
        found = np.full(words.shape[1], -1, np.int64)
        conflicts = np.flatnonzero(self.find_conflicts(words))
        if not conflicts.size:
            return found
        rowids = self._executor.tables.rowids(self._entry.name)
        keys, places = self.keys(self._executor.tables.fetch(self._entry.name, rowids))
        rowids_by_key = {
            tuple(key): rowids[place] for key, place in zip(keys.T.tolist(), places, strict=True)
        }
        wanted, at = self.keys(np.ascontiguousarray(words[:, conflicts]))
        for key, place in zip(wanted.T.tolist(), at.tolist(), strict=True):
            found[conflicts[place]] = rowids_by_key[tuple(key)]
        return found

    def _format_key(self, key: Words) -> str:
        values = zip(key[:, 0].tolist(), self.types, strict=True)
        return ", ".join(show_word(word, type_, self._executor.dictionary) for word, type_ in values)

    def _duplicate_error(self, keys: Words) -> IntegrityError:
        """Return the error for a duplicate key."""
        rowids = self._executor.tables.find_unique(self.index.kept, tuple(range(keys.shape[0])), keys)
        place = int(np.argmax(rowids >= 0)) if (rowids >= 0).any() else 0
        elements = ", ".join(self.index.elements)
        found = f"({elements})=({self._format_key(keys[:, place : place + 1])})"
        error = IntegrityError(
            f'duplicate key value violates unique constraint "{self.index.name}": {found} already exists',
            hint="nothing was changed",
        )
        error.sqlstate = "23505"
        return error.with_detail(f"Key {found} already exists.")


def unique_indexes(catalog: Catalog, name: str) -> Iterator[UniqueIndex]:
    """Yield a table's unique indexes over expressions or with a predicate."""
    for (table, _), index in list(catalog.unique_indexes.items()):
        if table == name.lower():
            yield index


def expression_keys(executor: Executor, entry: TableEntry, catalog: Catalog) -> Sequence[ExpressionKey]:
    """Return the :class:`ExpressionKey` of each such index of a table."""
    return [ExpressionKey(executor, entry, catalog, index) for index in unique_indexes(catalog, entry.name)]


def without_conflicts(unique_keys: Sequence[ExpressionKey], words: Words) -> Words:
    """Return the rows whose keys neither exist nor occur in an earlier row."""
    for rule in unique_keys:
        words = np.ascontiguousarray(words[:, ~rule.find_conflicts(words)])
        row_keys, places = rule.keys(words)
        kept = np.ones(words.shape[1], np.bool_)
        _, first = np.unique(row_keys, axis=1, return_index=True)
        kept[np.setdiff1d(places, places[first])] = False
        words = np.ascontiguousarray(words[:, kept])
    return words


def normalize_expression(text: str) -> str:
    """Return an expression in a canonical form, for comparison."""
    return str(parse_expression(text).unnest().sql(dialect="postgres")).lower()
