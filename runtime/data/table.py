"""The row store of a base table: every row once, addressed by rowid, with its key index.

Rows are immutable, and a rowid never means another row, unless the first was rolled back. A deleted row stays
readable, since the dataflow still has to retract what it derived from it, until the step that takes the
deletion has committed; sometime later the vacuum gives up its place. The dataflow learns of a change
through :meth:`Table.drain`, once, in its net form.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.data.foreseen import Foreseen
from kpg.runtime.data.loose import index_of, lookup_of, loose_key
from kpg.runtime.data.rowgroups import RowGroups
from kpg.runtime.data.rowindex import BagIndex, KeyIndex
from kpg.runtime.data.unique import LookupIndex, UniqueIndex, take_in
from kpg.runtime.data.vacuum import Vacuum
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import IntegrityError, InternalError, ProgrammingError
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.kernels import rowgroups as kernels
from kpg.runtime.records import dataclass
from kpg.runtime.types import NULL, Schema

if TYPE_CHECKING:
    from kpg.runtime.data.past import TablePast
    from kpg.runtime.storage.placed import Sharded

Words = NDArray[np.int64]

MOST_ROWIDS: Final = 1 << 40
"""What an entry of an index has room for (see ``kernels.rows``)."""

NO_KEY = (np.empty(0, np.int64), np.empty(0, np.int64), 0)


class Change(NamedTuple):
    """Rows that appeared (``diff`` +1) or went (``diff`` -1)."""

    rowids: Words
    diff: int


class Closed(NamedTuple):
    """What one epoch changed in one table."""

    epoch: int
    table: str
    changes: list[Change]


@dataclass(slots=True)
class Savepoint:
    """A state of a table to return to: its rowids in use, and what it had told the dataflow."""

    count: int
    told: int
    highest: Words | None
    known: int
    deletions: int
    untold: tuple[Words, ...]


class Table:
    """Rows, key index and undo log of one base table. Ctrl-C never leaves a change half made.

    ``count`` rowids have been given out; the rows of ``dead`` of them are deleted and still have their
    places, those of ``reclaimed`` are gone.
    """

    sharded: "Sequence[tuple[int, Sharded]]" = ()
    """Where rows begin that are not here, as workers have written them."""

    def __init__(
        self,
        name: str,
        schema: Schema,
        dictionary: Dictionary,
        interrupt: DeferredInterrupt | None = None,
        touched: "dict[Table, None] | None" = None,
        groups: RowGroups | None = None,
    ) -> None:
        if not schema.columns:
            raise ProgrammingError(f"table {name} has no columns", hint="give it at least one column")
        self.name = name
        self.schema = schema
        self.dictionary = dictionary
        self._interrupt = interrupt or DeferredInterrupt()
        self.touched = {} if touched is None else touched
        """The tables among which it puts itself when there may be changes to drain."""
        self.groups = RowGroups(len(schema.columns)) if groups is None else groups
        self.count = 0
        self.dead = 0
        self.reclaimed = 0
        key = schema.primary_key
        required = {i for i, column in enumerate(schema.columns) if not column.nullable} | set(key)
        self._required = np.zeros(len(schema.columns), np.uint8)
        self._required[sorted(required)] = 1
        self._key = KeyIndex(self.groups, key) if key else None
        self._bag: BagIndex | None = None
        self._loose_key = loose_key(self)
        self._unique: list[UniqueIndex] = [self._loose_key] if self._loose_key else []
        self._lookups: dict[tuple[int, ...], LookupIndex] = {}
        self._told = 0
        self._untold: list[Words] = []
        self._deletions: list[Words] = []
        self._vacuum = Vacuum(self.groups)
        self.foreseen: Foreseen | None = None
        """What a recorder has said of rows that no commit has."""
        self.past: TablePast | None = None
        """What it was before, if that is kept."""

    @property
    def directory(self) -> Words:
        """What kernels find rows by (see ``kernels.rowgroups``); read it anew after an insert."""
        return self.groups.directory

    @property
    def rows(self) -> int:
        """Number of live rows."""
        return self.count - self.reclaimed - self.dead

    @property
    def bytes(self) -> int:
        """Memory that the rows in use and their indexes take."""
        index = (self._key.bytes if self._key else 0) + (self._bag.bytes if self._bag else 0)
        index += sum(one.bytes for one in self._unique) + sum(one.bytes for one in self._lookups.values())
        row = 8 * len(self.schema.columns) + 1 + (16 if self._bag else 0)
        return (self.count - self.reclaimed) * row + index

    def live(self) -> Words:
        """Rowids of all live rows, ascending."""
        return self._live_below(self.count)

    def _live_below(self, count: int) -> Words:
        if self.rows == self.count:
            return np.arange(count, dtype=np.int64)
        return self.groups.live(0, count, self.rows)

    def is_live(self, rowids: Words) -> NDArray[np.bool_]:
        """For each rowid, whether its row is live."""
        out = np.empty(rowids.shape[0], np.uint8)
        kernels.are_live(self.directory, self.count, np.ascontiguousarray(rowids), out)
        return out == 1

    def read(self, rowids: Words, columns: Sequence[int] | None = None) -> Words:
        """The rows ``int64[ncols, n]``, or those columns of them; NULL where a row was reclaimed."""
        chosen = np.arange(self.groups.width) if columns is None else np.array(columns, np.int64)
        return self.groups.read(chosen, np.ascontiguousarray(rowids))

    def reserve(self, rows: int) -> None:
        """Make room for that many more rows, so that a bulk load does not copy as it grows."""
        self.groups.reserve(self.count + rows, self.count)

    def index(self) -> None:
        """Bring the key index up to date now, rather than at the first lookup or unordered insert."""
        if self._key:
            self._key.catch_up(self.count, self.rows)

    def insert(self, words: Words) -> Words:
        """Append the rows ``words[ncols, n]``; their rowids, contiguous and ascending.

        IntegrityError, with nothing changed, for a NULL where none may be, or a key that another row has.
        """
        words = np.ascontiguousarray(words)
        start, end = self.count, self.count + words.shape[1]
        if end > self.groups.capacity:
            self._make_room(start, end)
        index = self._key
        if index is None:
            key, highest, known = NO_KEY
        else:
            key, highest, known = index.key, index.highest.copy(), index.known
        # Ctrl-C may come before the count: what is beyond it does not count.
        self.touched[self] = None
        state = kernels.append(self.groups.directory, words, start, self._required, key, highest, known)
        if state != 1 or start == end or self._unique or self._bag is not None:
            with self._interrupt:
                return take_in(self, words, state, highest)
        if index is not None:
            # Ctrl-C here has other keys looked for than need be.
            index.highest, index.known = highest, 1
        self.count = end
        return np.arange(start, end)

    def _make_room(self, start: int, end: int) -> None:
        if end > MOST_ROWIDS:
            raise ProgrammingError(f"table {self.name} has had 2^40 rows", hint="copy it to a new table")
        with self._interrupt:
            self.groups.reserve(end, start)

    def add_unique(self, name: str, columns: tuple[int, ...], *, nulls_distinct: bool) -> None:
        """Have no two rows be the same in some columns from now on; IntegrityError if two are."""
        index = index_of(self, name, columns, nulls_distinct=nulls_distinct)
        rowids = self.live()
        duplicate = index.build(rowids)
        if duplicate >= 0:
            from kpg.runtime.data.violations import unique_error

            raise unique_error(self, index, self.read(rowids[: duplicate + 1]), duplicate)
        self._unique.append(index)

    def drop_unique(self, name: str) -> None:
        """Let rows be the same in what :meth:`add_unique` said."""
        self._unique = [index for index in self._unique if index.name != name]

    def find_unique(self, columns: tuple[int, ...], keys: Words) -> Words:
        """As :meth:`find`, by the columns of the primary key or of one that was added, in their order."""
        if self._key is not None and columns == self.schema.primary_key:
            return self.find(keys)
        index = next(one for one in self._unique if one.columns == columns)
        return index.find(keys)

    def find_all(self, columns: tuple[int, ...], keys: Words) -> tuple[Words, Words]:
        """Of live rows with one of the keys ``keys[k, n]`` in some columns the key and the rowid."""
        index = self._lookups.get(columns)
        if index is None:
            index = self._lookups[columns] = lookup_of(self, columns)
        positions, rowids = index.find(np.ascontiguousarray(keys), self.count, self.rows)
        live = self.is_live(rowids)
        return positions[live], rowids[live]

    def set_required(self, column: int, *, required: bool) -> None:
        """Let NULLs into a column no more, or again; IntegrityError if there are some."""
        if required:
            rowids = self.live()
            words = self.read(rowids)
            absent = np.flatnonzero(words[column] == NULL)
            if absent.size:
                from kpg.runtime.data.violations import null_error

                raise null_error(self, words, column, int(absent[0]))
        self._required[column] = int(required)

    def delete(self, rowids: Words) -> None:
        """Delete live rows. IntegrityError, with nothing changed, if one is not live or given twice."""
        rowids = np.array(rowids, np.int64)
        if rowids.shape[0]:
            with self._interrupt:
                self._delete(rowids)

    def _delete(self, rowids: Words) -> None:
        bad = kernels.kill(self.directory, self.count, rowids)
        if bad >= 0:
            raise IntegrityError(
                f"table {self.name} has no row {int(rowids[bad])} to delete",
                hint="the row was deleted before, or the same row is deleted twice",
            )
        if self._key:
            self._key.remove(rowids)
        if self._bag:
            self._bag.remove(rowids)
        for index in self._unique:
            index.remove(rowids)
        self.dead += rowids.shape[0]
        self._deletions.append(rowids)
        self._untold.append(rowids)
        self.touched[self] = None

    def find(self, keys: Words) -> Words:
        """The rowid of the live row with each primary key ``keys[k, n]``, or -1."""
        if self._key is None:
            raise InternalError(f"table {self.name} has no primary key to find rows by")
        if self._loose_key is not None:
            return self._loose_key.find(keys)
        return self._key.find(self.count, self.rows, keys)

    def match(self, rows: Words) -> Words:
        """For each given row ``rows[ncols, n]`` a live row equal to it (NULL equals NULL), or -1.

        Equal given rows get different live rows. The first match in a table without key builds an index.
        """
        rows = np.ascontiguousarray(rows)
        if self._key:
            rowids = self._key.find_in(self.count, self.rows, rows)
            kernels.claim(self.directory, rows, rowids)
            return rowids
        if self._bag is None:
            self._bag = BagIndex(self.groups, self.live())
        return self._bag.match(rows)

    def savepoint(self) -> Savepoint:
        """The present state, for :meth:`rollback`."""
        highest, known = (self._key.highest, self._key.known) if self._key else (None, 0)
        untold = tuple(self._untold) if self._untold else ()
        return Savepoint(self.count, self._told, highest, known, len(self._deletions), untold)

    def rollback(self, savepoint: Savepoint) -> None:
        """Undo all inserts and deletes since; the savepoint must be from after the last commit."""
        self.touched[self] = None
        if savepoint.count == self.count and savepoint.deletions == len(self._deletions):
            self._told, self._untold = savepoint.told, list(savepoint.untold)
            return
        undone = self._deletions[savepoint.deletions :]
        gone = self.groups.live(savepoint.count, self.count)
        revived = np.concatenate(undone) if undone else np.empty(0, np.int64)
        self.dead -= revived.shape[0]
        revived = np.ascontiguousarray(revived[revived < savepoint.count])
        if self._key:
            self._key.remove(gone)
        if self._bag:
            self._bag.remove(gone)
        for index in self._unique:
            index.remove(gone)
        kernels.revive(self.directory, revived)
        self.count = savepoint.count
        if self.foreseen is not None:
            self.foreseen.cut(self.count)
        if self._key:
            assert savepoint.highest is not None
            self._key.highest, self._key.known = savepoint.highest, savepoint.known
            self._key.restore(self.count, self.rows, revived)
        if self._bag:
            self._bag.insert(revived, self.count, self.rows)
        for index in self._unique:
            index.insert(revived, self.count, self.rows)
        for lookup in self._lookups.values():
            lookup.restore(self.count, revived)
        del self._deletions[savepoint.deletions :]
        self._told = savepoint.told
        self._untold = list(savepoint.untold)

    def changed_since(self, savepoint: Savepoint) -> tuple[Words, Words]:
        """Rowids that were deleted since a savepoint from after the last commit, and that came; ascending."""
        deleted = np.sort(np.concatenate((NO_KEY[0], *self._deletions[savepoint.deletions :])))
        return deleted[deleted < savepoint.count], self.groups.live(savepoint.count, self.count)

    def live_at(self, savepoint: Savepoint) -> Words:
        """Rowids of the rows that were live at a savepoint from after the last commit, ascending."""
        return self._with_deleted(savepoint.count, self._deletions[savepoint.deletions :])

    def live_then(self, epoch: int) -> Words:
        """Rowids of the rows that were live after an epoch, ascending; its past must be kept."""
        assert self.past is not None
        count, gone = self.past.at(epoch)
        return self._with_deleted(count, [*self._deletions, *gone])

    def _with_deleted(self, count: int, undone: Sequence[Words]) -> Words:
        """Rowids below ``count`` that are live or among the deleted ones, ascending."""
        live = self._live_below(count)
        if not undone:
            return live
        gone = [rowids[rowids < count] for rowids in undone]
        return np.sort(np.concatenate((live, *gone)))

    def commit(self) -> None:
        """Forget how to undo; earlier savepoints become invalid. What is pending stays pending.

        Once nothing is pending, nobody reads a deleted row any more: places of such rows are given up,
        about twice as many as were deleted since.
        """
        self.foreseen = None
        if self._deletions:
            if self.past is None:
                self._vacuum.bury(self._deletions)
            else:
                self.past.keep(self._deletions.copy())
            self._deletions.clear()
        if self._vacuum.waits and not self._untold and self._told == self.count:
            with self._interrupt:
                given_up = self._vacuum.run(self.count)
                self.dead -= given_up
                self.reclaimed += given_up

    def forget(self, epoch: int) -> None:
        """Forget what it was before an epoch. Between steps, with nothing pending."""
        if self.past is not None and (freed := self.past.forget(epoch)):
            self._vacuum.bury(freed)
            self.commit()

    @property
    def has_pending(self) -> bool:
        """Whether there may be a change since the last :meth:`drain`."""
        return self._told < self.count or bool(self._untold)

    @property
    def pending(self) -> list[Change]:
        """The net change since the last :meth:`drain`, without rows that came and went in between."""
        told, count = self._told, self.count
        if not self._untold:
            return [Change(np.arange(told, count), 1)] if told < count else []
        changes = []
        deleted = np.concatenate(self._untold)
        deleted = np.sort(deleted[deleted < told])
        if deleted.shape[0]:
            changes.append(Change(deleted, -1))
        inserted = self.groups.live(told, count)
        if inserted.shape[0]:
            changes.append(Change(inserted, 1))
        return changes

    def drain(self) -> list[Change]:
        """The net change since the last drain, which is then no longer pending; deletions come first."""
        changes = self.pending
        self._told = self.count
        self._untold.clear()
        return changes
