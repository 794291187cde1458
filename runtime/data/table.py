"""The row store of a base table: every row once, addressed by rowid, with its key index.

Rows are immutable, and a deleted row stays readable, since the dataflow still has to retract what it
derived from it, until :meth:`Table.vacuum` renumbers the live ones. The dataflow learns of
a change through :meth:`Table.drain`, once, in its net form.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.convert.values import show
from kpg.runtime.data.rowindex import BagIndex, KeyIndex
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import IntegrityError, InternalError, ProgrammingError
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.kernels import rows as kernels
from kpg.runtime.types import Schema

Words = NDArray[np.int64]

FIRST_CAPACITY: Final = 256
"""Rows of an empty table's columns: 2 KB each, since small tables are many."""

GROWTH: Final = 8
"""Factor by which a full table grows; memory that is not written to yet is not taken."""


@dataclass(frozen=True, slots=True)
class Change:
    """Rows that appeared (``diff`` +1) or went (``diff`` -1)."""

    rowids: Words
    diff: int


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A state of a table to return to: its slots in use, and what it had told the dataflow."""

    count: int
    told: int
    highest: int
    deletions: int
    untold: tuple[Words, ...]


class Table:
    """Columns, liveness, key index and undo log of one base table. Ctrl-C never leaves a change half made.

    ``columns`` is ``int64[ncols, capacity]`` of which the first ``count`` slots are in use; growing
    replaces the array, so read the attribute anew after an insert. ``dead`` of the slots are deleted.
    """

    def __init__(
        self, name: str, schema: Schema, dictionary: Dictionary, interrupt: DeferredInterrupt | None = None
    ) -> None:
        if not schema.columns:
            raise ProgrammingError(f"table {name} has no columns", hint="give it at least one column")
        self.name = name
        self.schema = schema
        self.dictionary = dictionary
        self._interrupt = interrupt or DeferredInterrupt()
        self.columns: Words = np.empty((len(schema.columns), FIRST_CAPACITY), np.int64)
        self.count = 0
        self.dead = 0
        self._live = np.empty(FIRST_CAPACITY, np.uint8)
        key = schema.primary_key
        required = {i for i, column in enumerate(schema.columns) if not column.nullable} | set(key)
        self._required = np.array(sorted(required), np.int64)
        self._key = KeyIndex(key) if key else None
        self._bag: BagIndex | None = None
        self._told = 0
        self._untold: list[Words] = []
        self._deletions: list[Words] = []

    @property
    def rows(self) -> int:
        """Number of live rows."""
        return self.count - self.dead

    @property
    def bytes(self) -> int:
        """Memory that the rows in use and their indexes take."""
        index = (self._key.bytes if self._key else 0) + (self._bag.bytes if self._bag else 0)
        return self.count * (8 * len(self.columns) + 1) + index

    def live(self) -> Words:
        """Rowids of all live rows, ascending."""
        if not self.dead:
            return np.arange(self.count, dtype=np.int64)
        return np.flatnonzero(self._live[: self.count]).astype(np.int64, copy=False)

    def is_live(self, rowids: Words) -> NDArray[np.bool_]:
        """For each rowid (below ``count``), whether its row is live."""
        return self._live[rowids] == 1

    def reserve(self, rows: int) -> None:
        """Make room for that many more rows, so that a bulk load does not copy as it grows."""
        if self.count + rows > self._live.shape[0]:
            self._grow(self.count + rows)

    def index(self) -> None:
        """Bring the key index up to date now, rather than at the first lookup or unordered insert."""
        if self._key:
            self._key.catch_up(self.columns, self._live, self.count)

    def insert(self, words: Words) -> Words:
        """Append the rows ``words[ncols, n]``; their rowids, contiguous and ascending.

        Raises IntegrityError, with nothing changed, for a NULL where none may be, or a primary key that
        a live row or an earlier row of the batch has.
        """
        with self._interrupt:
            return self._insert(np.ascontiguousarray(words))

    def _insert(self, words: Words) -> Words:
        n = words.shape[1]
        if self._required.shape[0]:
            position = kernels.first_null(words, self._required)
            if position >= 0:
                raise self._null_error(words, *divmod(position, n))
        start, end = self.count, self.count + n
        if end > self._live.shape[0]:
            self._grow(max(end, GROWTH * self._live.shape[0]))
        kernels.append(self.columns, self._live, words, start)
        rowids = np.arange(start, end, dtype=np.int64)
        if self._key:
            duplicate = self._key.insert(self.columns, self._live, start, rowids)
            if duplicate >= 0:
                raise self._duplicate_error(words, duplicate)
        self.count = end
        if self._bag:
            self._bag.insert(self.columns, self._live, end, rowids)
        return rowids

    def delete(self, rowids: Words) -> None:
        """Delete live rows. IntegrityError, with nothing changed, if one is not live or given twice."""
        rowids = np.array(rowids, np.int64)
        if rowids.shape[0]:
            with self._interrupt:
                self._delete(rowids)

    def _delete(self, rowids: Words) -> None:
        bad = kernels.kill(self._live, rowids, self.count)
        if bad >= 0:
            raise IntegrityError(
                f"table {self.name} has no row {int(rowids[bad])} to delete",
                hint="the row was deleted before, or the same row is deleted twice",
            )
        if self._key:
            self._key.remove(self.columns, rowids)
        if self._bag:
            self._bag.remove(self.columns, rowids)
        self.dead += rowids.shape[0]
        self._deletions.append(rowids)
        self._untold.append(rowids)

    def find(self, keys: Words) -> Words:
        """The rowid of the live row with each primary key ``keys[k, n]``, or -1."""
        if self._key is None:
            raise InternalError(f"table {self.name} has no primary key to find rows by")
        return self._key.find(self.columns, self._live, self.count, keys)

    def match(self, rows: Words) -> Words:
        """For each given row ``rows[ncols, n]`` a live row equal to it (NULL equals NULL), or -1.

        Equal given rows get different live rows. The first match in a table without key builds an index.
        """
        rows = np.ascontiguousarray(rows)
        if self._key:
            rowids = self._key.find_in(self.columns, self._live, self.count, rows)
            kernels.claim(self.columns, self._live, rows, rowids)
            return rowids
        if self._bag is None:
            self._bag = BagIndex(self.columns, self.live())
        return self._bag.match(self.columns, rows)

    def savepoint(self) -> Savepoint:
        """The present state, for :meth:`rollback`."""
        highest = self._key.highest if self._key else -1
        return Savepoint(self.count, self._told, highest, len(self._deletions), tuple(self._untold))

    def rollback(self, savepoint: Savepoint) -> None:
        """Undo all inserts and deletes since; the savepoint must be from after the last commit."""
        undone = self._deletions[savepoint.deletions :]
        gone = savepoint.count + np.flatnonzero(self._live[savepoint.count : self.count])
        revived = np.concatenate(undone) if undone else np.empty(0, np.int64)
        self.dead -= revived.shape[0]
        revived = np.ascontiguousarray(revived[revived < savepoint.count])
        if self._key:
            self._key.remove(self.columns, gone)
        if self._bag:
            self._bag.remove(self.columns, gone)
        self._live[savepoint.count : self.count] = 0
        self._live[revived] = 1
        self.count = savepoint.count
        if self._key:
            self._key.restore(self.columns, self._live, self.count, revived, savepoint.highest)
        if self._bag:
            self._bag.insert(self.columns, self._live, self.count, revived)
        del self._deletions[savepoint.deletions :]
        self._told = savepoint.told
        self._untold = list(savepoint.untold)

    def live_at(self, savepoint: Savepoint) -> Words:
        """Rowids of the rows that were live at a savepoint from after the last commit, ascending."""
        undone = self._deletions[savepoint.deletions :]
        live = np.flatnonzero(self._live[: savepoint.count])
        gone = [rowids[rowids < savepoint.count] for rowids in undone]
        return np.sort(np.concatenate((live, *gone))).astype(np.int64, copy=False)

    def commit(self) -> None:
        """Forget how to undo; earlier savepoints become invalid. What is pending stays pending."""
        self._deletions.clear()

    @property
    def pending(self) -> list[Change]:
        """The net change since the last :meth:`drain`, without rows that came and went in between."""
        changes = []
        if self._untold:
            deleted = np.concatenate(self._untold)
            deleted = np.sort(deleted[deleted < self._told])
            if deleted.shape[0]:
                changes.append(Change(deleted, -1))
        if self._told < self.count:
            inserted = self._told + np.flatnonzero(self._live[self._told : self.count])
            if inserted.shape[0]:
                changes.append(Change(inserted, 1))
        return changes

    def drain(self) -> list[Change]:
        """The net change since the last drain, which is then no longer pending; deletions come first."""
        changes = self.pending
        self._told = self.count
        self._untold.clear()
        return changes

    def vacuum(self) -> Words:
        """Give up the slots of dead rows. Returns the new rowid of each old one, -1 for a dead row.

        Live rows keep their order. Only between transactions: nothing may be pending.
        """
        if self.pending or self._deletions:
            raise InternalError(f"table {self.name} was vacuumed in the middle of a transaction")
        live = self.live()
        mapping = np.full(self.count, -1, np.int64)
        mapping[live] = np.arange(live.shape[0])
        capacity = max(FIRST_CAPACITY, live.shape[0] + live.shape[0] // 2)
        columns = np.empty((len(self.columns), capacity), np.int64)
        for new, old in zip(columns, self.columns, strict=True):
            np.take(old, live, out=new[: live.shape[0]])
        self.columns = columns
        self._live = np.zeros(capacity, np.uint8)
        self._live[: live.shape[0]] = 1
        self.count = self._told = live.shape[0]
        self.dead = 0
        self._bag = None
        if self._key:
            self._key = KeyIndex(self.schema.primary_key)
            self._key.restart(self.columns, self.count)
        return mapping

    def _grow(self, capacity: int) -> None:
        columns = np.empty((len(self.columns), capacity), np.int64)
        columns[:, : self.count] = self.columns[:, : self.count]
        live = np.empty(capacity, np.uint8)
        live[: self.count] = self._live[: self.count]
        self.columns, self._live = columns, live

    def _null_error(self, words: Words, column: int, row: int) -> IntegrityError:
        name = self.schema.columns[column].name
        key = " of the primary key" if column in self.schema.primary_key else ""
        values = self._describe(words, tuple(range(len(self.schema.columns))), row)
        return IntegrityError(
            f"NULL in column {name}{key} of table {self.name}: row {values}",
            hint=f"{name} is NOT NULL: give it a value",
        )

    def _duplicate_error(self, words: Words, row: int) -> IntegrityError:
        key = self.schema.primary_key
        names = ", ".join(self.schema.columns[i].name for i in key)
        given = np.ascontiguousarray(words[list(key), row : row + 1])
        exists = self.find(given)[0] >= 0
        where = "exists already" if exists else "is given twice"
        return IntegrityError(
            f"duplicate key in table {self.name}: ({names}) = {self._describe(words, key, row)} {where}",
            hint="delete the old row first, or use upsert" if exists else "give each key once",
        )

    def _describe(self, words: Words, columns: tuple[int, ...], row: int) -> str:
        shown = (show(int(words[i, row]), self.schema.columns[i].type, self.dictionary) for i in columns)
        return f"({', '.join(shown)})"
