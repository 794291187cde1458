"""Base tables of a worker: rows by table name, pending changes and their epochs, savepoints and history.

Tables collect changes. :meth:`BaseTables.drain` assigns them the open epoch; a step processes the changes of
closed epochs and commits the tables.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.executor import MANY, Recorder
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.tables.epochs import NONE, replay, table_changes_since
from kpg.runtime.tables.row_groups import TableHistory
from kpg.runtime.tables.table import EpochChanges, PreparedRows, Savepoint, Table
from kpg.runtime.types import Schema, plan_assumptions
from kpg.runtime.worker import maintenance

if TYPE_CHECKING:
    from kpg.runtime.checkpoint.worker_state import PendingRestore
    from kpg.runtime.storage import packs
    from kpg.runtime.storage.packs import Sharded, ShardStore
else:
    packs = LazyModule("kpg.runtime.storage.packs")

Words = NDArray[np.int64]


class Clock(Protocol):
    """Clock of the epochs that are in all views."""

    epoch: int


class TableFactory(Protocol):
    """Makes the tables of a worker."""

    def __call__(
        self,
        name: str,
        schema: Schema,
        number: int,
        dictionary: Dictionary,
        interrupt: DeferredInterrupt,
        touched_tables: dict[Table, None],
    ) -> Table:
        """Return a new table, which enters itself in ``touched_tables`` when it changes."""


def make_table(
    name: str,
    schema: Schema,
    number: int,
    dictionary: Dictionary,
    interrupt: DeferredInterrupt,
    touched_tables: dict[Table, None],
) -> Table:
    """Return a new table in this process."""
    return Table(name, schema, dictionary, interrupt, touched_tables)


class BaseTables:
    """Tables of a worker; implements ``executor.TableAccess``."""

    def __init__(
        self, clock: Clock, dictionary: Dictionary, interrupt: DeferredInterrupt, make_table: TableFactory
    ) -> None:
        self.by_name: dict[str, Table] = {}
        self.dictionary = dictionary
        self.recorder: Recorder | None = None
        self.last_table_number = 0
        """Highest table number in use so far."""
        self.closed_changes: list[EpochChanges] = []
        """Changes of closed epochs that no step has processed."""
        self.open_epoch = 1
        self.keeps_history = False
        """Whether the history of tables is kept."""
        self.pending_restore: PendingRestore | None = None
        """State that tables and operators take over while a database is opened; None otherwise."""
        self.shard_store: ShardStore | None = None
        """Store of rows written by workers; None for a database in memory."""
        self.attach_shards: Callable[[Table, int, Sharded], bool] | None = None
        """Attaches rows that workers have written, or returns False; None to read them into this process."""
        self._clock = clock
        self._interrupt = interrupt
        self._make_table = make_table
        self._numbers: dict[str, int] = {}
        self._savepoints: dict[str, Savepoint] = {}
        """State of each table after the last step that changed it."""
        self._touched: dict[Table, None] = {}
        """Tables with changes since they were drained."""
        self._uncommitted: dict[Table, None] = {}
        """Tables that were drained since their last commit."""

    # Definitions

    def create(self, name: str, schema: Schema, number: int | None) -> Table:
        """Create a table, empty unless restored state has a table of that number."""
        number = self.last_table_number + 1 if number is None else number
        table = self._make_table(name, schema, number, self.dictionary, self._interrupt, self._touched)
        self.last_table_number = max(self.last_table_number, number)
        if self.pending_restore is not None:
            self.pending_restore.fill_table(
                table, number, self.append_shards, with_history=self.keeps_history
            )
        if self.keeps_history and table.history is None:
            self._enable_table_history(table)
        self.by_name[name] = table
        self._numbers[name] = number
        self._savepoints[name] = table.savepoint()
        return table

    def drop(self, name: str) -> None:
        """Drop a table."""
        table = self.by_name.pop(name)
        self._touched.pop(table, None)
        self._uncommitted.pop(table, None)
        del self._numbers[name], self._savepoints[name]

    def rename(self, old: str, new: str) -> None:
        """Rename a table."""
        self.by_name[new] = self.by_name.pop(old)
        self._numbers[new] = self._numbers.pop(old)
        self._savepoints[new] = self._savepoints.pop(old)
        self.by_name[new].name = new

    def table_number(self, table: str) -> int:
        """Return a number that no other table has or had, independent of renames."""
        return self._numbers[table]

    def has_restored(self, table: str, uniques: Sequence[str]) -> bool:
        """Return whether a table's state was restored; then keep only unique constraints with these names."""
        return self.pending_restore is not None and self.pending_restore.has_restored(
            self.by_name[table], uniques
        )

    def add_unique(self, table: str, name: str, columns: tuple[int, ...], *, nulls_distinct: bool) -> None:
        """Add a unique constraint; do nothing if it was restored with the table."""
        if self.pending_restore is not None and self.pending_restore.has_restored_unique(
            self.by_name[table], name
        ):
            return
        self.by_name[table].add_unique(name, columns, nulls_distinct=nulls_distinct)

    def drop_unique(self, table: str, name: str) -> None:
        """Drop the unique constraint of that name."""
        self.by_name[table].drop_unique(name)

    def set_required(self, table: str, column: int, *, required: bool) -> None:
        """Set or drop NOT NULL on a column; setting it restarts the table's history."""
        self.by_name[table].set_required(column, required=required)
        if required:
            self._invalidate_history(table)

    def set_schema(self, table: str, schema: Schema) -> Schema:
        """Replace a table's schema and return the old one; restart history if plans need the difference."""
        store = self.by_name[table]
        old, store.schema = store.schema, schema
        if plan_assumptions(old) != plan_assumptions(schema):
            self._invalidate_history(table)
        return old

    # Rows

    def insert(self, table: str, words: Words) -> Words:
        """Append rows and return their rowids."""
        store = self.by_name[table]
        if self.recorder is None or words.shape[1] < MANY:
            return store.insert(words)
        words = np.ascontiguousarray(words)
        finish_preparing = self.recorder.prepare_rows(words)
        rowids = store.insert(words)
        # The preparation has to end here: the caller owns the words and may change them.
        if finish_preparing is not None and (token := finish_preparing()) is not None:
            store.prepared_rows = store.prepared_rows or PreparedRows()
            store.prepared_rows.add(rowids, token)
        return rowids

    def prepared_rows(self, table: str, rowids: Words) -> list[tuple[int, int, Any]]:
        """Return the ranges of new rows, ascending, that the recorder has prepared: (start, end, token)."""
        prepared = self.by_name[table].prepared_rows
        return [] if prepared is None else prepared.find(rowids)

    def delete(self, table: str, rowids: Words) -> None:
        """Delete live rows."""
        self.by_name[table].delete(rowids)

    def find(self, table: str, keys: Words) -> Words:
        """Return the rowid of the row with each primary key ``keys[k, n]``, or -1."""
        return self.by_name[table].find(keys)

    def match(self, table: str, rows: Words) -> Words:
        """Return for each row the rowid of an equal one, or -1; equal rows get different rowids."""
        return self.by_name[table].match(rows)

    def find_unique(self, table: str, columns: tuple[int, ...], keys: Words) -> Words:
        """Return the rowid of the row with each key of a unique constraint, or -1."""
        return self.by_name[table].find_unique(columns, keys)

    def find_all(self, table: str, columns: tuple[int, ...], keys: Words) -> tuple[Words, Words]:
        """Return key position and rowid of the rows with one of the keys ``keys[k, n]``."""
        return self.by_name[table].find_all(columns, keys)

    def rowids(self, table: str) -> Words:
        """Return the rowids of all rows."""
        return self.by_name[table].live()

    def filter_live(self, table: str, rowids: Words) -> Words:
        """Return those rowids whose rows are live."""
        return rowids[self.by_name[table].is_live(rowids)]

    def fetch(self, table: str, rowids: Words) -> Words:
        """Return the rows with these rowids."""
        return self.by_name[table].read(rowids)

    def scan(self, table: str, columns: Sequence[int] | None = None, *, committed: bool = False) -> Words:
        """Return all rows, or some columns of them; with ``committed``, without pending changes."""
        store = self.by_name[table]
        rowids = store.live_at(self._savepoints[table]) if committed else store.live()
        return store.read(rowids, columns)

    def count(self, table: str) -> int:
        """Return the number of rows, including pending changes."""
        return self.by_name[table].rows

    def parts(self, table: str, rowids: Words) -> list[tuple[Words, Words]]:
        """Return (rowids, rows) in parts: views of the row store if rows are contiguous, else a copy."""
        groups = self.by_name[table].groups
        return groups.parts(rowids) or [(rowids, groups.read(np.arange(groups.width), rowids))]

    def leading_ranges(self, table: str, rowids: Words) -> list[tuple[int, int, int, Words]]:
        """Return (start, end, group, columns) for ranges of new rows that begin a row group."""
        return self.by_name[table].groups.leading_ranges(rowids)

    # Pending changes. Rollback visits only tables that may have changed.

    def drain(self) -> bool:
        """Move the pending changes to the closed ones, with the open epoch; return whether there are any."""
        touched, closed = self._touched, self.closed_changes
        if not touched:
            return False
        self._uncommitted.update(touched)
        before = len(closed)
        for table in touched:
            if changes := table.drain():
                closed.append(EpochChanges(self.open_epoch, table.name, changes))
        touched.clear()
        return len(closed) > before

    def savepoint(self) -> object:
        """Return the current state of all tables, for :meth:`rollback_to`."""
        return {table: table.savepoint() for table in self._possibly_changed()}

    def _possibly_changed(self) -> list[Table]:
        """Return the tables that may have changed since the last step."""
        return list(self._uncommitted | self._touched)

    def rollback_to(self, savepoint: object) -> None:
        """Discard changes since a savepoint that is later than the last step."""
        assert isinstance(savepoint, dict)
        with self._interrupt:
            for table in self._possibly_changed():
                table.rollback(savepoint.get(table) or self._savepoints[table.name])

    def tables_with_changes(self) -> list[str]:
        """Return the tables that may have changes outside any closed epoch."""
        return [table.name for table in self._touched if table.has_pending]

    def changes_since(self, savepoint: object) -> list[tuple[str, Words, Words, Words]]:
        """Return for each table its name, deleted and inserted rowids, and inserted rows, since a savepoint.

        Without a savepoint, return the changes since the last step.
        """
        points: Any = savepoint or {}
        return table_changes_since(
            (table, points.get(table) or self._savepoints[table.name]) for table in self._possibly_changed()
        )

    @property
    def has_pending(self) -> bool:
        """Whether some table has changes that no step has processed."""
        return bool(self.closed_changes) or any(table.pending for table in self._touched)

    @property
    def has_undrained(self) -> bool:
        """Whether some table has changes outside any closed epoch."""
        return any(table.pending for table in self._touched)

    def rollback(self) -> None:
        """Discard all changes that no step has processed."""
        with self._interrupt:
            for table in self._possibly_changed():
                table.rollback(self._savepoints[table.name])
            self.closed_changes.clear()
            self.open_epoch = self._clock.epoch + 1

    def mark_uncommitted(self, table: Table) -> None:
        """Record that a table has drained changes."""
        self._uncommitted[table] = None

    def committed_state(self, name: str) -> Savepoint:
        """Return the state of a table after the last step that changed it."""
        return self._savepoints[name]

    def commit_drained(self) -> None:
        """Commit the tables that were drained; their changes cancelled out."""
        self.commit([table.name for table in self._uncommitted])

    def commit_unchanged(self) -> None:
        """Commit tables whose commits had no net change, unless changes are pending."""
        if not self.has_pending:
            self.commit([table.name for table in self._possibly_changed()])

    def commit(self, names: Iterable[str]) -> None:
        """Commit tables and record their savepoints."""
        for name in names:
            table = self.by_name[name]
            table.commit()
            self._savepoints[name] = table.savepoint()
            self._uncommitted.pop(table, None)

    def replay(self, epoch: int, table: str, deleted: Words, rowids: Words, words: Words) -> None:
        """Reapply an epoch's changes to a table."""
        store = self.by_name[table]
        replay(store, deleted, rowids, words)
        self.closed_changes.append(EpochChanges(epoch, table, store.drain()))

    # History

    def enable_history(self) -> None:
        """Keep the history of tables from now on."""
        self.keeps_history = True
        for table in self.by_name.values():
            self._enable_table_history(table)

    def _enable_table_history(self, table: Table) -> None:
        if table.history is None:
            table.history = TableHistory(self._clock.epoch)
            table.history.count = table.count

    def disable_history(self) -> None:
        """Drop all history and stop keeping it."""
        self.keeps_history = False
        for table in self.by_name.values():
            table.drop_history_before(self._clock.epoch)
            table.history = None

    def drop_history_before(self, epoch: int) -> None:
        """Drop the history before an epoch."""
        for table in self.by_name.values():
            table.drop_history_before(epoch)

    def record_history(self) -> None:
        """Record the changes of closed epochs in the history of tables, before the step commits."""
        for closed in self.closed_changes:
            history = self.by_name[closed.table].history
            if history is not None:
                inserted = [change.rowids for change in closed.changes if change.diff > 0]
                deleted = [change.rowids for change in closed.changes if change.diff < 0]
                history.record_epoch(
                    closed.epoch, np.concatenate([NONE, *inserted]), np.concatenate([NONE, *deleted])
                )

    def changes_after(self, table: str, epoch: int) -> tuple[Words, Words]:
        """Return the rowids deleted and inserted after an epoch that the table's history covers."""
        store = self.by_name[table]
        assert store.history is not None
        count, deleted = store.history.state_at(epoch)
        return np.concatenate([NONE, *deleted]), store.groups.live(count, store.count)

    def history_since(self, table: str) -> int | None:
        """Return the epoch since which a table's history is known; None without history."""
        return history.since if (history := self.by_name[table].history) is not None else None

    def mark_new(self, table: str) -> None:
        """Record that the table did not exist before this epoch: at earlier epochs it has no rows."""
        if (history := self.by_name[table].history) is not None:
            history.created_at = self._clock.epoch

    def is_known_at(self, table: str, epoch: int) -> bool:
        """Return whether a table's rows at an epoch are known; a table created later has none."""
        history = self.by_name[table].history
        return history is not None and history.is_known_at(epoch)

    def restart_history(self, table: str, epoch: int) -> None:
        """Restart a table's history at an epoch, at which its definition has changed."""
        if (history := self.by_name[table].history) is not None:
            history.since = history.defined_at = max(history.since, epoch)

    def _invalidate_history(self, table: str) -> None:
        """Restart a table's history, because plans may rely on facts that earlier rows violate."""
        self.restart_history(table, self._clock.epoch + self.by_name[table].has_pending)

    # Rows written by workers

    def shard_ranges(self, table: str, rowids: Words) -> "list[tuple[int, Sharded]]":
        """Return first rowids and shards of the newest rows that only workers have; empty without any."""
        ranges = self.by_name[table].shard_ranges
        return [item for item in ranges if rowids[0] <= item[0] <= rowids[-1]] if ranges else []

    @property
    def pinned_packs(self) -> set[int]:
        """Packs that workers may still read."""
        sharded_ranges = [one for table in self.by_name.values() for _, one in table.shard_ranges]
        return {shard.pack for one in sharded_ranges for shard in one.shards}

    def append_shards(self, table: Table, start: int, shards: "Sharded") -> None:
        """Append the rows of shards, from rowid ``start`` on, to a table that need not have a name yet."""
        if self.attach_shards is not None and self.attach_shards(table, start, shards):
            return
        for words in self.read_shards(table.schema, shards):
            replay(table, NONE, np.arange(start, start + words.shape[1]), words)
            start += words.shape[1]

    def read_shards(self, schema: Schema, shards: "Sharded") -> Iterator[Words]:
        """Yield the rows of shards, in words of this worker's dictionary."""
        assert self.shard_store is not None
        text_columns = [place for place, type_ in enumerate(schema.types) if type_.is_interned]
        for shard in shards.shards:
            if shard.rows:
                codes = (
                    self.dictionary.intern_parts(*self.shard_store.strings(shard)) if text_columns else NONE
                )
                for words in self.shard_store.parts(shard):
                    yield packs.translate_columns(words, text_columns, codes)

    def replay_shards(self, epoch: int, table: str, start: int, shards: "Sharded") -> None:
        """Reapply an epoch's inserts to a table, whose rows workers have written."""
        self.append_shards(self.by_name[table], start, shards)
        self.closed_changes.append(EpochChanges(epoch, table, self.by_name[table].drain()))

    # Statistics and consistency checks

    def table_bytes(self, table: str) -> int:
        """Return the memory of a table and its indexes in bytes."""
        return self.by_name[table].bytes

    def check_indexes(self, table: str) -> list[str]:
        """Return descriptions of errors in a table's indexes."""
        return list(maintenance.index_errors(self.by_name[table]))
