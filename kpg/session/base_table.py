"""Base table: its name, its columns, and its rows in the executor."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.convert.python_values import RowEncoder
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.executor import Executor, Landing
from kpg.runtime.handles import Rules
from kpg.runtime.types import Schema
from kpg.runtime.values import Mistyped, Unfit

if TYPE_CHECKING:
    from kpg.execute.changes.constraints import Guard

Words = NDArray[np.int64]
Watch = Callable[[str, Words | None, Words | None], None]
"""Asked before rows of a table become others: their rowids, None for new ones, and what comes."""
NO_RULES = Rules(None, None)
FEW = 16
"""So many rows are encoded one by one, in 15 us each; more of them by columns, which is faster from 20 on."""


class Tally:
    """How many rows statements have inserted, updated and deleted while the database was open.

    As in Postgres what was rolled back counts, and what TRUNCATE takes does not.
    """

    __slots__ = ("deleted", "inserted", "updated")

    def __init__(self) -> None:
        self.inserted = self.updated = self.deleted = 0

    def replace(self, rows: int) -> None:
        """So many rows were deleted, and inserted, that are the same ones with other values."""
        self.inserted -= rows
        self.deleted -= rows
        self.updated += rows


class Table:
    """One table of an executor. Rows are words ``int64[ncols, n]``; it is good until the table is dropped."""

    __slots__ = ("_encoders", "_executor", "_watching", "dictionary", "guard", "name", "schema", "tally")

    def __init__(self, executor: Executor, name: str, schema: Schema, watching: Sequence[Watch] = ()) -> None:
        """``watching`` are asked before each change; there are none while nobody has locked anything."""
        self.tally = Tally()
        self._executor = executor
        self._watching = watching
        self.guard: Guard | None = None
        self.name = name
        self.schema = schema
        self.dictionary: Dictionary = executor.dictionary
        self._encoders: tuple[RowEncoder, RowEncoder] | None = None

    def _encoder(self, *, of_keys: bool) -> RowEncoder:
        """What encodes rows, or the values of keys; made when it is first needed: of many tables few are."""
        if self._encoders is None:
            # NULLs are let through: NOT NULL is checked for all ways in, by the executor.
            columns = [replace(column, nullable=True) for column in self.schema.columns]
            key = [columns[i] for i in self.schema.primary_key]
            self._encoders = RowEncoder(columns, self.dictionary), RowEncoder(key, self.dictionary)
        return self._encoders[of_keys]

    @property
    def rows(self) -> int:
        """The number of rows, pending changes included."""
        return self._executor.count(self.name)

    def encoded(self, rows: Sequence[Any]) -> Words | None:
        """The words of a few rows, each a tuple of values; None if there is more to it than that."""
        return _encoded(self._encoder(of_keys=False), rows)

    def encoded_keys(self, rows: Sequence[Any]) -> Words | None:
        """As :meth:`encoded`, for rows of the key's columns only; None if these are all columns."""
        key = self.schema.primary_key
        return (
            _encoded(self._encoder(of_keys=True), rows) if 0 < len(key) < len(self.schema.columns) else None
        )

    def insert(self, words: Words) -> Words:
        """Append rows; their rowids. As ``Executor.insert``."""
        for watch in self._watching:
            watch(self.name, None, words)
        guard = self.guard
        rowids = guard.insert(words) if guard is not None else self._executor.insert(self.name, words)
        self.tally.inserted += words.shape[1]
        return rowids

    def load(self, words: Words) -> Words:
        """As :meth:`insert`, of bulk data."""
        if self._executor.recorder is not None:
            self._executor.recorder.load()
        return self.insert(words)

    @property
    def rules(self) -> Rules | None:
        """What workers can hold new rows to; None if there is more to it than they can tell."""
        if self._watching:
            return None
        return NO_RULES if self.guard is None else self.guard.rules

    def landed(self, rowids: tuple[int, int]) -> None:
        """Rows have come that workers have held to ``rules``."""
        self.tally.inserted += rowids[1] - rowids[0]
        if self.guard is not None:
            self.guard.landed(rowids)

    @property
    def landing(self) -> Landing | None:
        """The way in for bulk data that goes past this process; None if there is none."""
        return self._executor.landing

    def delete(self, rowids: Words) -> None:
        """Delete live rows. As ``Executor.delete``."""
        for watch in self._watching:
            watch(self.name, rowids, None)
        if self.guard is not None:
            self.guard.delete(rowids)
        else:
            self._executor.delete(self.name, rowids)
        self.tally.deleted += rowids.shape[0]

    def truncate(self, rowids: Words) -> None:
        """Delete all rows, which are these, and check no keys that refer to them."""
        for watch in self._watching:
            watch(self.name, rowids, None)
        self._executor.delete(self.name, rowids)

    def update(self, rowids: Words, words: Words) -> Words:
        """Put rows in the place of live ones, one by one; their rowids."""
        for watch in self._watching:
            watch(self.name, rowids, words)
        self.tally.updated += rowids.shape[0]
        if self.guard is not None:
            return self.guard.update(rowids, words)
        self._executor.delete(self.name, rowids)
        return self._executor.insert(self.name, words)

    def find_unique(self, columns: tuple[int, ...], keys: Words) -> Words:
        """As :meth:`find`, by columns that the table is unique in."""
        return self._executor.find_unique(self.name, columns, keys)

    def find(self, keys: Words) -> Words:
        """The rowid of the row with each primary key ``keys[k, n]``, or -1."""
        return self._executor.find(self.name, keys)

    def match(self, rows: Words) -> Words:
        """For each given row the rowid of one equal to it, or -1; equal ones get different rowids."""
        return self._executor.match(self.name, rows)

    def fetch(self, rowids: Words) -> Words:
        """The rows with these rowids."""
        return self._executor.fetch(self.name, rowids)

    def scan(self, columns: Sequence[int] | None = None) -> Words:
        """All rows, or of all rows some columns."""
        return self._executor.scan(self.name, columns)


def _encoded(encoder: RowEncoder, rows: Sequence[Any]) -> Words | None:
    if not 0 < len(rows) <= FEW or not all(type(row) is tuple for row in rows):
        return None
    words = encoder.words
    try:
        return np.ascontiguousarray(np.array([words(row) for row in rows], np.int64).T)
    except (Unfit, Mistyped):
        return None
