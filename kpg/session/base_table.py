"""Base table: its name, its columns, and its rows in the executor; ``Changes`` of its rows."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kpg.api.result import Result, row_count_result
from kpg.execute.queries.result_rows import EncodedContents
from kpg.runtime.convert.python_values import RowEncoder
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.executor import Executor, LoadStaging
from kpg.runtime.handles import LoadRules
from kpg.runtime.records import dataclass
from kpg.runtime.types import Schema, Type
from kpg.runtime.values import UnrepresentableValue, WrongPythonType

if TYPE_CHECKING:
    from kpg.execute.changes.constraints import ConstraintGuard

Words = NDArray[np.int64]
ChangeHook = Callable[[str, Words | None, Words | None], None]
"""Callback before a change of rows: the table, the old rowids or None for an insert, the new words or
None.
"""
NO_RULES = LoadRules(None, None)
MAX_ROWS_ENCODED_SINGLY = 16
"""Up to this number of rows are encoded one by one, at 15 us each. From 20 rows on, columns are
faster.
"""


class Tally:
    """Number of rows that statements have inserted, updated and deleted while the database was open.

    As in Postgres, rolled-back changes count and TRUNCATE does not.
    """

    __slots__ = ("deleted", "inserted", "updated")

    def __init__(self) -> None:
        self.inserted = self.updated = self.deleted = 0

    def replace(self, count: int) -> None:
        """Count ``count`` inserted and deleted rows as updated ones."""
        self.inserted -= count
        self.deleted -= count
        self.updated += count


class Table:
    """A table of the executor, valid until it is dropped. Rows are words ``int64[ncols, n]``."""

    __slots__ = (
        *("_change_hooks", "_encoders", "_executor", "dictionary", "guard", "name", "pipeline", "schema"),
        "tally",
    )

    def __init__(
        self, executor: Executor, name: str, schema: Schema, change_hooks: Sequence[ChangeHook] = ()
    ) -> None:
        """Wrap a table. ``change_hooks`` run before each change; it is empty while nothing is locked."""
        self.tally = Tally()
        self._executor = executor
        self._change_hooks = change_hooks
        self.guard: ConstraintGuard | None = None
        self.pipeline: object = None
        """The ``TablePipeline``, once rows are written."""
        self.name = name
        self.schema = schema
        self.dictionary: Dictionary = executor.dictionary
        self._encoders: tuple[RowEncoder, RowEncoder] | None = None

    def _encoder(self, *, for_keys: bool) -> RowEncoder:
        """Return the encoder of rows or of key values, made on first use."""
        if self._encoders is None:
            # The encoder accepts NULLs: the executor checks NOT NULL for every kind of insert.
            columns = [replace(column, nullable=True) for column in self.schema.columns]
            key = [columns[i] for i in self.schema.primary_key]
            self._encoders = RowEncoder(columns, self.dictionary), RowEncoder(key, self.dictionary)
        return self._encoders[for_keys]

    @property
    def row_count(self) -> int:
        """Number of rows, pending changes included."""
        return self._executor.tables.count(self.name)

    def encode_rows(self, rows: Sequence[Any]) -> Words | None:
        """Return the words of a few rows, each a tuple of values; None if this fast path does not apply."""
        return _encode(self._encoder(for_keys=False), rows)

    def encode_keys(self, rows: Sequence[Any]) -> Words | None:
        """Return the words of rows that have the key's columns only; None if the fast path does not apply."""
        key = self.schema.primary_key
        return (
            _encode(self._encoder(for_keys=True), rows) if 0 < len(key) < len(self.schema.columns) else None
        )

    def insert(self, words: Words, *, checked: bool = False) -> Words:
        """Append rows and return their rowids; see ``TableAccess.insert``.

        Unless they are ``checked``, generated columns are computed and CHECKs tested.
        """
        for hook in self._change_hooks:
            hook(self.name, None, words)
        guard = self.guard
        if guard is None:
            rowids = self._executor.tables.insert(self.name, words)
        else:
            rowids = guard.insert(words if checked else guard.check(guard.complete(words)))
        self.tally.inserted += words.shape[1]
        return rowids

    def begin_load(self) -> None:
        """Tell the log that bulk data follows."""
        if self._executor.tables.recorder is not None:
            self._executor.tables.recorder.begin_bulk_load()

    @property
    def rules(self) -> LoadRules | None:
        """The rules that workers can check for new rows; None if some checks need this process."""
        if self._change_hooks:
            return None
        return NO_RULES if self.guard is None else self.guard.rules

    def record_load(self, rowids: tuple[int, int]) -> None:
        """Record rows that were loaded into the workers, which have checked ``rules``."""
        self.tally.inserted += rowids[1] - rowids[0]
        if self.guard is not None:
            self.guard.record_load(rowids)

    @property
    def load_staging(self) -> LoadStaging | None:
        """Staging for bulk data that bypasses this process; None without workers."""
        return self._executor.load_staging

    def delete(self, rowids: Words) -> None:
        """Delete live rows; see ``TableAccess.delete``."""
        for hook in self._change_hooks:
            hook(self.name, rowids, None)
        if self.guard is not None:
            self.guard.delete(rowids)
        else:
            self._executor.tables.delete(self.name, rowids)
        self.tally.deleted += rowids.shape[0]

    def truncate(self, rowids: Words) -> None:
        """Delete all rows, whose rowids are given, without checking keys that refer to them."""
        for hook in self._change_hooks:
            hook(self.name, rowids, None)
        self._executor.tables.delete(self.name, rowids)

    def update(self, rowids: Words, words: Words, *, completed: bool = False) -> Words:
        """Replace live rows and return the new rowids, in the same order.

        CHECKs are tested. Unless the rows are ``completed``, generated columns are computed.
        """
        for hook in self._change_hooks:
            hook(self.name, rowids, words)
        self.tally.updated += rowids.shape[0]
        if self.guard is not None:
            return self.guard.update(rowids, words if completed else self.guard.complete(words))
        self._executor.tables.delete(self.name, rowids)
        return self._executor.tables.insert(self.name, words)

    def find_unique(self, columns: tuple[int, ...], keys: Words) -> Words:
        """Return the rowid of the row with each key in unique columns, or -1."""
        return self._executor.tables.find_unique(self.name, columns, keys)

    def find(self, keys: Words) -> Words:
        """Return the rowid of the row with each primary key ``keys[k, n]``, or -1."""
        return self._executor.tables.find(self.name, keys)

    def match(self, rows: Words) -> Words:
        """Return for each row the rowid of an equal row, or -1. Equal rows get different rowids."""
        return self._executor.tables.match(self.name, rows)

    def fetch(self, rowids: Words) -> Words:
        """Return the rows with these rowids."""
        return self._executor.tables.fetch(self.name, rowids)

    def scan(self, columns: Sequence[int] | None = None) -> Words:
        """Return all rows, or only some of their columns."""
        return self._executor.tables.scan(self.name, columns)


@dataclass(frozen=True, slots=True)
class ReturningRows:
    """The result of RETURNING."""

    names: tuple[str, ...]
    types: tuple[Type, ...]
    words: Words


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of one table: rowids to delete, rowids with new rows, and rows to insert.

    All rows have passed the stages of the table's pipeline (``kpg/execute/changes/table_pipeline.py``).
    """

    table: Table
    deleted: Words | None = None
    updated: tuple[Words, Words] | None = None
    inserted: Words | None = None
    returned: ReturningRows | None = None

    @property
    def count(self) -> int:
        """Number of changed rows."""
        deleted = 0 if self.deleted is None else self.deleted.shape[0]
        updated = 0 if self.updated is None else self.updated[0].shape[0]
        return int(deleted + updated + (0 if self.inserted is None else self.inserted.shape[1]))

    @property
    def rowids(self) -> Words:
        """Rowids of the existing rows that change."""
        updated = None if self.updated is None else self.updated[0]
        parts = [part for part in (self.deleted, updated) if part is not None]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def apply(self) -> None:
        """Apply the changes to the table."""
        if self.deleted is not None:
            self.table.delete(self.deleted)
        if self.updated is not None:
            self.table.update(*self.updated, completed=True)
        if self.inserted is not None:
            self.table.insert(self.inserted, checked=True)

    def result(self) -> Result:
        """Return the statement's result: the RETURNING rows or the row count."""
        if self.returned is None:
            return row_count_result(self.count)
        names, types = self.returned.names, self.returned.types
        result = Result(
            names, types, EncodedContents(names, types, self.returned.words, self.table.dictionary)
        )
        result.affected = self.count
        return result


def _encode(encoder: RowEncoder, rows: Sequence[Any]) -> Words | None:
    if not 0 < len(rows) <= MAX_ROWS_ENCODED_SINGLY or not all(type(row) is tuple for row in rows):
        return None
    words = encoder.words
    try:
        return np.ascontiguousarray(np.array([words(row) for row in rows], np.int64).T)
    except (UnrepresentableValue, WrongPythonType):
        return None
