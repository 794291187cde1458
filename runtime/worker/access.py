"""Access to a worker's tables, indexes and operators by name, for clients of the executor."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.chain.chain_selection import ChainCache
from kpg.runtime.dataflow.dataflow_graph import Below, Operator, Scope, Step
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.executor import MANY, Recorder
from kpg.runtime.handles import ArrangementInfo, Installation, OperatorInfo
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.mfp import CompiledMfp
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.input import Capture, Source, attach_capture
from kpg.runtime.operators.loop import iterate_operators
from kpg.runtime.plan import Mfp
from kpg.runtime.render import disconnect
from kpg.runtime.tables.epochs import (
    NONE,
    close_as_one,
    close_separately,
    drain_tables,
    replay,
    table_changes_since,
)
from kpg.runtime.tables.table import EpochChanges, PreparedRows, Savepoint, Table
from kpg.runtime.types import Schema, plan_assumptions
from kpg.runtime.worker import as_of, maintenance
from kpg.runtime.worker.dataflows import (
    Inputs,
    LocalInstallation,
    arrangement_info,
    operator_info,
)

if TYPE_CHECKING:
    from kpg.runtime.checkpoint.captured_state import ArrayReader
    from kpg.runtime.checkpoint.worker_state import PendingRestore
    from kpg.runtime.executor import LoadStaging
    from kpg.runtime.operators.worker_group import WorkerGroup
    from kpg.runtime.storage.packs import Sharded, ShardStore
    from kpg.runtime.worker.worker import Schedule

Words = NDArray[np.int64]
MAX_COMPILED = 256
"""Limit of cached compiled expressions: more than the rules of a program that is explained have."""


class Access:
    """Part of ``runtime.executor.Executor`` that reads and changes single tables, and lists operators."""

    dictionary: Dictionary
    tables: dict[str, Table]
    recorder: Recorder | None
    shard_store: "ShardStore | None" = None
    """Store of rows written by workers; None for a database in memory."""
    scope: Scope
    merge_effort: int
    views: dict[str, LocalInstallation]
    inputs: Inputs
    epoch: int
    _table_numbers: dict[str, int]
    _sources: dict[str, Source]
    keeps_history: bool
    pending_restore: "PendingRestore | None"
    make_reader: "Callable[[], ArrayReader] | None"
    restored_versions: dict[str, object]
    """Versions of tables (by number) and operators right after their restore."""
    last_table_number: int
    _compiled_mfps: dict[Mfp, CompiledMfp]
    _schedule: "Schedule"
    _chain_cache: ChainCache
    _interrupt: DeferredInterrupt
    open_epoch: int
    closed_changes: list[EpochChanges]
    _step_savepoints: dict[str, Savepoint]
    """State of each table after the last step that changed it."""
    _touched: dict[Table, None]
    _uncommitted: dict[Table, None]
    """Tables that were drained since their last commit."""
    reads_pending = True
    """Whether pending changes of tables are read."""
    has_remote_views = False
    """Whether views are in other processes, so that it is unknown here which are watched."""

    @property
    def load_staging(self) -> "LoadStaging | None":
        """None: all rows pass through this process."""
        return None

    @property
    def as_of_epoch(self) -> int | None:
        """None: plans read the current contents."""
        return None

    @property
    def is_restoring(self) -> bool:
        """Whether new operators receive restored state."""
        return self.pending_restore is not None

    worker_group: "WorkerGroup | None" = None

    def next_position(
        self, inputs: Below = (), scope: Scope | None = None, *, at_barrier: bool = False
    ) -> int:
        """Return a position after all existing operators; the arguments are for distributed executors."""
        return self._schedule.next_position(inputs, scope, at_barrier=at_barrier)

    def rename_table(self, old: str, new: str) -> None:
        """Rename a table; installed plans continue to read it."""
        self.tables[new] = self.tables.pop(old)
        self._table_numbers[new] = self._table_numbers.pop(old)
        self._step_savepoints[new] = self._step_savepoints.pop(old)
        if old in self._sources:
            self._sources[new] = self._sources.pop(old)
        self.tables[new].name = new
        self._compiled_mfps.clear()

    def start_at(self, epoch: int) -> None:
        """Set the last closed epoch of a new worker."""
        self.epoch = epoch
        self.open_epoch = epoch + 1
        self.scope.step = Step(epoch, epoch + 1)

    def table_number(self, table: str) -> int:
        """Return a number that no other table has or had, independent of renames."""
        return self._table_numbers[table]

    def source_identity(self, table: str) -> str:
        """Return the table's identity in fingerprints, which is stable across reopening."""
        return f"table {self._table_numbers[table]}"

    def view_output(self, view: str) -> Operator:
        """Return the operator that holds a view's contents."""
        return self.views[view].output

    def input(self, identity: str) -> Operator:
        """Return the operator of an input."""
        return self.inputs.get(identity)

    def close_epochs(self, table: str, counts: Sequence[int], deleted: Words | None = None) -> None:
        """Close an epoch for each row count and each row of ``deleted``; nothing else may be pending."""
        self.inputs.advance_past_all(self.open_epoch, len(counts))
        separately = (
            self.keeps_history
            or self.has_remote_views
            or any(view.needs_separate_epochs for view in self.views.values())
        )
        close = close_separately if separately else close_as_one
        self.open_epoch = close(self.tables[table], self.open_epoch, counts, deleted, self.closed_changes)

    def capture(self) -> object:
        """Return the state of all tables and views as data."""
        from kpg.runtime.checkpoint.worker_state import (
            capture_leaves,
        )  # lazy: databases in memory keep no state

        self._commit_drained_tables()
        return capture_leaves(self)

    def vacuum(self, relations: Collection[str]) -> int:
        """Free deleted rows and compact traces of these relations; return the number of freed rows."""
        self._commit_drained_tables()
        with self._interrupt:
            return maintenance.vacuum(self.tables, self.views.values(), relations, self.epoch)

    def restore(self, state: object, read: "ArrayReader", make_reader: "Callable[[], ArrayReader]") -> None:
        """Provide captured state to tables and installations that are created afterwards.

        ``read`` returns the arrays for their references in the state. ``make_reader`` makes another such
        reader, for a
        branch.
        """
        from kpg.runtime.checkpoint.worker_state import restore  # lazy: databases in memory keep no state

        restore(self, state, read, make_reader)

    def finish_restore(self) -> list[str]:
        """End the restore and return descriptions of the recomputed parts."""
        restore, self.pending_restore = self.pending_restore, None
        if restore is None:
            return []
        self.restored_versions |= restore.versions
        return restore.recomputed

    def has_restored(self, table: str, uniques: Sequence[str]) -> bool:
        """Return whether a table's state was restored; then keep only unique constraints with these names."""
        return self.pending_restore is not None and self.pending_restore.has_restored(
            self.tables[table], uniques
        )

    def replay(self, epoch: int, table: str, deleted: Words, rowids: Words, words: Words) -> None:
        """Reapply an epoch's changes to a table; :meth:`step_replayed` pushes them through all views."""
        store = self.tables[table]
        replay(store, deleted, rowids, words)
        self.closed_changes.append(EpochChanges(epoch, table, store.drain()))

    def step_replayed(self, epoch: int) -> None:
        """Process all replayed changes in one step, which ends at ``epoch``."""
        self.open_epoch = epoch + 1
        if self.closed_changes:
            self._run_step(Step(self.epoch + 1, epoch + 1), epoch)
        self.epoch = epoch

    def _run_step(self, step: Step, epoch: int) -> None:
        raise NotImplementedError

    def store(self, table: str) -> Table:
        """Return the row store of a table."""
        return self.tables[table]

    def delete(self, table: str, rowids: Words) -> None:
        """Delete live rows."""
        self.tables[table].delete(rowids)

    def find(self, table: str, keys: Words) -> Words:
        """Return the rowid of the row with each primary key ``keys[k, n]``, or -1."""
        return self.tables[table].find(keys)

    def match(self, table: str, rows: Words) -> Words:
        """Return for each row the rowid of an equal one, or -1; equal rows get different rowids."""
        return self.tables[table].match(rows)

    def add_unique(self, table: str, name: str, columns: tuple[int, ...], *, nulls_distinct: bool) -> None:
        """Add a unique constraint; do nothing if it was restored with the table."""
        if self.pending_restore is not None and self.pending_restore.has_restored_unique(
            self.tables[table], name
        ):
            return
        self.tables[table].add_unique(name, columns, nulls_distinct=nulls_distinct)

    def drop_unique(self, table: str, name: str) -> None:
        """Drop the unique constraint of that name."""
        self.tables[table].drop_unique(name)

    def set_required(self, table: str, column: int, *, required: bool) -> None:
        """Set or drop NOT NULL on a column; setting it restarts the table's history."""
        self.tables[table].set_required(column, required=required)
        if required:
            self._invalidate_history(table)

    def set_schema(self, table: str, schema: Schema) -> Schema:
        """Replace a table's schema and return the old one; restart history if plans need the difference."""
        store = self.tables[table]
        old, store.schema = store.schema, schema
        if plan_assumptions(old) != plan_assumptions(schema):
            self._invalidate_history(table)
        return old

    def find_unique(self, table: str, columns: tuple[int, ...], keys: Words) -> Words:
        """Return the rowid of the row with each key of a unique constraint, or -1."""
        return self.tables[table].find_unique(columns, keys)

    def find_all(self, table: str, columns: tuple[int, ...], keys: Words) -> tuple[Words, Words]:
        """Return key position and rowid of the rows with one of the keys ``keys[k, n]``."""
        return self.tables[table].find_all(columns, keys)

    def rowids(self, table: str) -> Words:
        """Return the rowids of all rows."""
        return self.tables[table].live()

    def filter_live(self, table: str, rowids: Words) -> Words:
        """Return those rowids whose rows are live."""
        return rowids[self.tables[table].is_live(rowids)]

    def fetch(self, table: str, rowids: Words) -> Words:
        """Return the rows with these rowids."""
        return self.tables[table].read(rowids)

    def scan(self, table: str, columns: Sequence[int] | None = None, *, committed: bool = False) -> Words:
        """Return all rows, or some columns of them; with ``committed``, without pending changes."""
        store = self.tables[table]
        rowids = store.live_at(self._step_savepoints[table]) if committed else store.live()
        return store.read(rowids, columns)

    def count(self, table: str) -> int:
        """Return the number of rows, including pending changes."""
        return self.tables[table].rows

    def evaluate(self, mfp: Mfp, rows: Words) -> tuple[Words, Words | None]:
        """Map, filter and project rows; also return the positions of passing rows, None for all."""
        compiled = self._compiled_mfps.get(mfp)
        if compiled is None:
            if len(self._compiled_mfps) >= MAX_COMPILED:
                self._compiled_mfps.clear()
            compiled = self._compiled_mfps[mfp] = CompiledMfp(mfp, self)
        return compiled.run(rows)

    def drop_input(self, identity: str) -> None:
        """Drop an input with its buffered updates."""
        self.inputs.drop(self.inputs.get(identity))

    def poll_ended_inputs(self) -> bool:
        """Return whether inputs may have ended since the last call."""
        self.inputs.retire()
        ended, self.inputs.have_ended = self.inputs.have_ended, False
        return ended

    def watch(self, installation: Installation) -> None:
        """Start capturing the view's changes."""
        view = self.views[installation.name]
        if view.capture is None:
            self._chain_cache.add_name(f"watch {view.name}")
            position = self.next_position((view.output,), self.scope)
            view.capture = attach_capture(Capture, f"Capture {view.name}", view.output, position)

    def unwatch(self, installation: Installation) -> None:
        """Stop capturing the view's changes and discard those not drained."""
        view = self.views.get(installation.name)
        if view is not None and view.capture is not None:
            self._chain_cache.remove_name(f"watch {view.name}")
            disconnect((view.capture,))
            view.capture = None

    def enable_history(self) -> None:
        """Keep the history of tables from now on."""
        self.keeps_history = True
        for table in self.tables.values():
            self._enable_table_history(table)

    def keep_changes(self, installation: Installation) -> None:
        """Keep the changes of an installation from now on, as its history."""
        self._chain_cache.add_name(f"past of {installation.name}")
        as_of.keep_view_changes(self, self.views[installation.name])

    def history_since(self, table: str) -> int | None:
        """Return the epoch since which a table's history is known; None without history."""
        return history.since if (history := self.tables[table].history) is not None else None

    def mark_new(self, table: str) -> None:
        """Record that the table did not exist before this epoch: at earlier epochs it has no rows."""
        if (history := self.tables[table].history) is not None:
            history.created_at = self.epoch

    def is_known_at(self, table: str, epoch: int) -> bool:
        """Return whether a table's rows at an epoch are known; a table created later has none."""
        history = self.tables[table].history
        return history is not None and history.is_known_at(epoch)

    def changes_after(self, table: str, epoch: int) -> tuple[Words, Words]:
        """Return the rowids deleted and inserted after an epoch that the table's history covers."""
        return as_of.changes_after(self.tables[table], epoch)

    def restart_history(self, table: str, epoch: int) -> None:
        """Restart a table's history at an epoch, at which its definition has changed."""
        if (history := self.tables[table].history) is not None:
            history.since = history.defined_at = max(history.since, epoch)

    def disable_history(self) -> None:
        """Drop all history and stop keeping it; not allowed during a step."""
        as_of.disable_history(self)

    def drop_history_before(self, epoch: int) -> None:
        """Drop the history before an epoch; not allowed during a step."""
        as_of.drop_history_before(self, epoch)

    def _as_of_context(self, epoch: int, *, reads_pending: bool) -> as_of.AsOfContext:
        return as_of.AsOfContext(self, epoch, reads_pending=reads_pending)

    def _enable_table_history(self, table: Table) -> None:
        as_of.enable_table_history(table, self.epoch)

    def _invalidate_history(self, table: str) -> None:
        """Restart a table's history, because plans may rely on facts that earlier rows violate."""
        self.restart_history(table, self.epoch + self.tables[table].has_pending)

    def _record_history(self) -> None:
        as_of.record_epochs(self, self.closed_changes)

    def table_bytes(self, table: str) -> int:
        """Return the memory of a table and its indexes in bytes."""
        return self.tables[table].bytes

    def check_indexes(self, table: str) -> list[str]:
        """Return descriptions of errors in a table's indexes."""
        return list(maintenance.index_errors(self.tables[table]))

    def arrangements(self) -> list[ArrangementInfo]:
        """Return all arrangements in order of creation."""
        arrangements = {op for op in self.all_operators() if isinstance(op, Arrange)}
        return [arrangement_info(operator) for operator in sorted(arrangements)]

    def operators(self) -> list[OperatorInfo]:
        """Return all operators with their work so far, in order of position."""
        operators = set(self.all_operators())
        return [operator_info(operator) for operator in sorted(operators)]

    def all_operators(self) -> Iterator[Operator]:
        for view in self.views.values():
            yield from iterate_operators(view.operators)

    # Inserts, and rows that the recorder has prepared

    def insert(self, table: str, words: Words) -> Words:
        """Append rows and return their rowids."""
        store = self.tables[table]
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
        prepared = self.tables[table].prepared_rows
        return [] if prepared is None else prepared.find(rowids)

    def parts(self, table: str, rowids: Words) -> list[tuple[Words, Words]]:
        """Return (rowids, rows) in parts: views of the row store if rows are contiguous, else a copy."""
        groups = self.tables[table].groups
        return groups.parts(rowids) or [(rowids, groups.read(np.arange(groups.width), rowids))]

    def leading_ranges(self, table: str, rowids: Words) -> list[tuple[int, int, int, Words]]:
        """Return (start, end, group, columns) for ranges of new rows that begin a row group."""
        return self.tables[table].groups.leading_ranges(rowids)

    # Rows written by workers

    def shard_ranges(self, table: str, rowids: Words) -> "list[tuple[int, Sharded]]":
        """Return first rowids and shards of the newest rows that only workers have; empty without any."""
        ranges = self.tables[table].shard_ranges
        return [item for item in ranges if rowids[0] <= item[0] <= rowids[-1]] if ranges else []

    @property
    def pinned_packs(self) -> set[int]:
        """Packs that workers may still read."""
        sharded_ranges = [one for table in self.tables.values() for _, one in table.shard_ranges]
        return {shard.pack for one in sharded_ranges for shard in one.shards}

    def append_shards(self, table: Table, start: int, shards: "Sharded") -> None:
        """Append the rows of shards, from rowid ``start`` on, to a table that need not have a name yet."""
        for words in self.read_shards(table.schema, shards):
            replay(table, NONE, np.arange(start, start + words.shape[1]), words)
            start += words.shape[1]

    def read_shards(self, schema: Schema, shards: "Sharded") -> Iterator[Words]:
        """Yield the rows of shards, in words of this worker's dictionary."""
        from kpg.runtime.storage.packs import translate_columns  # lazy: databases in memory have no packs

        assert self.shard_store is not None
        text_columns = [place for place, type_ in enumerate(schema.types) if type_.is_interned]
        for shard in shards.shards:
            if shard.rows:
                codes = (
                    self.dictionary.intern_parts(*self.shard_store.strings(shard)) if text_columns else NONE
                )
                for words in self.shard_store.parts(shard):
                    yield translate_columns(words, text_columns, codes)

    def replay_shards(self, epoch: int, table: str, start: int, shards: "Sharded") -> None:
        """Reapply an epoch's inserts to a table, whose rows workers have written."""
        self.append_shards(self.tables[table], start, shards)
        self.closed_changes.append(EpochChanges(epoch, table, self.tables[table].drain()))

    # Rollback visits only tables that may have changed.

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
                table.rollback(savepoint.get(table) or self._step_savepoints[table.name])

    def tables_with_changes(self) -> list[str]:
        """Return the tables that may have changes outside any closed epoch."""
        return [table.name for table in self._touched if table.has_pending]

    def changes_since(self, savepoint: object) -> list[tuple[str, Words, Words, Words]]:
        """Return for each table its name, deleted and inserted rowids, and inserted rows, since a savepoint.

        Without a savepoint, return the changes since the last step.
        """
        points: Any = savepoint or {}
        return table_changes_since(
            (table, points.get(table) or self._step_savepoints[table.name])
            for table in self._possibly_changed()
        )

    @property
    def has_pending(self) -> bool:
        """Whether some table has changes that no step has processed."""
        return bool(self.closed_changes) or any(table.pending for table in self._touched)

    def rollback(self) -> None:
        """Discard all changes that no step has processed."""
        with self._interrupt:
            for table in self._possibly_changed():
                table.rollback(self._step_savepoints[table.name])
            self.closed_changes.clear()
            self.open_epoch = self.epoch + 1

    def _drain(self) -> bool:
        self._uncommitted.update(self._touched)
        return drain_tables(self._touched, self.open_epoch, self.closed_changes)

    def _commit_drained_tables(self) -> None:
        """Commit tables whose commits had no net change, unless changes are pending."""
        if not self.has_pending:
            self.commit_tables([table.name for table in self._possibly_changed()])

    def mark_uncommitted(self, table: Table) -> None:
        """Record that a table has drained changes."""
        self._uncommitted[table] = None

    def commit_tables(self, names: Iterable[str]) -> None:
        """Commit tables and record their savepoints."""
        for name in names:
            table = self.tables[name]
            table.commit()
            self._step_savepoints[name] = table.savepoint()
            self._uncommitted.pop(table, None)
