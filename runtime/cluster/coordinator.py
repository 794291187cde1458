"""The coordinator: an executor that holds tables and the clock, and runs operators at the members of a crew.

It checks and rolls back table changes like a single worker. A step sends the net changes to all members,
which process them together. Queries that share nothing with maintained views (over pending changes, or as of
an epoch) run in this process.
"""

from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.cluster.installation import Placer, RemoteInstaller
from kpg.runtime.cluster.messages import ChangeMessage, Crew, PerMember, Reply, shorten_rowids, text_columns
from kpg.runtime.cluster.remote_load import RemoteLoadStaging, RemoteTable, RowDistributor, change_messages
from kpg.runtime.cluster.shared_memory import SharedDictionary, SharedGroups
from kpg.runtime.dataflow.dataflow_graph import Step
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import InternalError, ProgrammingError
from kpg.runtime.handles import Installation
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.operators.input import Input
from kpg.runtime.operators.text_exchange import CoordinatorStrings
from kpg.runtime.plan import Types
from kpg.runtime.tables.epochs import drain_tables
from kpg.runtime.tables.table import Table
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import Schema
from kpg.runtime.worker.as_of import AsOfContext, ViewHistory
from kpg.runtime.worker.worker import Worker

Words = NDArray[np.int64]


def _without_constraints(schema: Schema) -> Schema:
    """Return the schema without constraints, which members need not check."""
    return Schema(tuple(replace(column, nullable=True) for column in schema.columns))


def _concat_rowids(parts: list[Words]) -> Words:
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.int64), *parts])


CHUNK_ROWS: Final = 1 << 20
"""Rows of a table that are sent to new members in one message."""


class DistributedAsOfContext(AsOfContext):
    """Context as of an epoch for views at members; the coordinator has their changes."""

    _worker: "Coordinator"

    def _view_history(self, view: str) -> ViewHistory:
        return self._worker.remote[view]


class Coordinator(RemoteInstaller):
    """An ``executor.Executor`` whose operators are at the members of a crew."""

    has_remote_views = True

    def __init__(self, crew: Crew, placer: Placer, merge_effort: int, interrupt: DeferredInterrupt) -> None:
        dictionary = None if crew.memory is None else SharedDictionary(crew.memory)
        Worker.__init__(self, merge_effort, interrupt, dictionary=dictionary, make_table=self._new_table)
        self.crew = crew
        self.remote = {}
        self._placer = placer
        self._strings = self._new_strings()
        self._is_closed = False
        self._input_texts = {}
        self._size_bits = {}
        self._last_member_position = 0
        """Highest position of an operator, from which all members continue alike."""
        self._row_distributor = RowDistributor(self.dictionary, crew.count)
        self._home_columns: dict[str, int] = {}
        """Home columns of tables whose rows were sent: their words determine the member of each row."""
        self._load_staging = RemoteLoadStaging(self)

    @property
    def load_staging(self) -> RemoteLoadStaging | None:
        """Load path that bypasses this process; None if members share its memory."""
        return self._load_staging if self.crew.memory is None and self.crew.hosts else None

    # Restarted members

    def _ensure_members(self) -> None:
        """Start new members if the old ones are lost, with the state of the last commit.

        The captured changes of views are in this process, so their listeners miss nothing and hear nothing
        twice.
        """
        failure = self._failure
        if failure is None:
            return
        if self.inputs or any(remote.has_sinks for remote in self.remote.values()):
            raise failure
        self.crew.restart()
        self._failure = None
        self._strings = self._new_strings()
        self._last_member_position = 0
        self._load_staging.reset_visibility()
        try:
            self.notify_members("start_at", self.epoch)
            for name in self.tables:
                self._send_table(name)
            for remote in self.remote.values():
                self._install_at_members(remote)
                if remote.needs_changes:
                    self.notify_members("observe", remote.name, True)
            if self._failure is not None:
                raise self._failure
        except BaseException:
            self.crew.close()
            self._failure = failure
            raise

    def _new_strings(self) -> CoordinatorStrings:
        return CoordinatorStrings(self.dictionary, self.crew.count, has_local_codes=self.crew.memory is None)

    def text_columns(self, types: Types) -> tuple[int, ...]:
        """Return the columns whose words differ at members."""
        return () if self.crew.memory is not None else text_columns(types)

    def _send_table(self, name: str) -> None:
        """Create a table at members, with the rows of the last commit."""
        table, savepoint = self.tables[name], self._step_savepoints[name]
        self.notify_members("table", name, _without_constraints(table.schema), self.table_number(name))
        if isinstance(table.groups, SharedGroups):
            table.groups.mark_all_changed()
            if savepoint.count:
                hidden, _ = table.changes_since(savepoint)
                self.notify_members("stand", name, savepoint.count, table.live_at(savepoint).shape[0], hidden)
            return
        if isinstance(table, RemoteTable) and table.ranges and self._load_staging.restore_rows(table):
            return
        rowids = table.live_at(savepoint)
        for start in range(0, rowids.shape[0], CHUNK_ROWS):
            chunk = rowids[start : start + CHUNK_ROWS]
            self.notify_members(
                "fill", name, *self._row_distributor.distribute(table, self.home_column(name), chunk)
            )

    def _send_contents(self, name: str) -> None:
        """Tell members that share memory which rows a table had at the last commit."""
        table, savepoint = self.tables[name], self._step_savepoints[name]
        if isinstance(table.groups, SharedGroups):
            hidden, _ = table.changes_since(savepoint)
            self.notify_members("stand", name, savepoint.count, table.live_at(savepoint).shape[0], hidden)

    def start_at(self, epoch: int) -> None:
        """Set the last closed epoch, here and at all members."""
        super().start_at(epoch)
        self.notify_members("start_at", epoch)

    def step_replayed(self, epoch: int) -> None:
        """Process all replayed changes in one step, which ends at ``epoch``."""
        super().step_replayed(epoch)
        self.notify_members("start_at", epoch)

    # Tables

    def create_table(self, name: str, schema: Schema, number: int | None = None) -> Any:
        """Create a table here and at all members, with its restored rows."""
        table = super().create_table(name, schema, number)
        self._send_table(name)
        return table

    def _new_table(
        self,
        name: str,
        schema: Schema,
        number: int,
        dictionary: Dictionary,
        interrupt: DeferredInterrupt,
        touched_tables: dict[Table, None],
    ) -> Table:
        memory = self.crew.memory
        if memory is None:
            table = RemoteTable(name, schema, dictionary, interrupt, touched_tables)
            table.fetch_rows, table.discard_range = (
                self._load_staging.fetch_rows,
                self._load_staging.discard_range,
            )
            table.is_opening = lambda: self.recorder is None and self.shard_store is not None
            return table
        groups = SharedGroups(len(schema.columns), memory, number)
        return Table(name, schema, dictionary, interrupt, touched_tables, groups)

    def drop_table(self, name: str) -> None:
        """Drop a table that no installation reads."""
        table = self.tables[name]
        if isinstance(table, RemoteTable):
            table.discard()
        groups = table.groups
        super().drop_table(name)
        self._home_columns.pop(name, None)
        self.notify_members("drop_table", name)
        if isinstance(groups, SharedGroups):
            groups.free()

    def rename_table(self, old: str, new: str) -> None:
        """Rename a table; installed plans continue to read it."""
        super().rename_table(old, new)
        if old in self._home_columns:
            self._home_columns[new] = self._home_columns.pop(old)
        self.notify_members("rename_table", old, new)

    # Installations

    def watch(self, installation: Installation) -> None:
        """Start capturing its changes."""
        remote = self.remote[installation.name]
        if not remote.needs_changes:
            self.notify_members("observe", remote.name, True)
        remote.is_watched = True

    def unwatch(self, installation: Installation) -> None:
        """Stop capturing its changes and discard those not drained."""
        remote = self.remote.get(installation.name)
        if remote is not None and remote.is_watched:
            remote.is_watched = False
            remote.captured_changes.clear()
            if not remote.needs_changes:
                self.notify_members("observe", remote.name, False)

    def preview(self, installation: Installation) -> Updates:
        """Return the changes that pending changes of tables would make to it; discard the pending changes."""
        if self.closed_changes:
            raise InternalError("a step has not processed all closed epochs")
        remote = self.remote[installation.name]
        with self._interrupt:
            try:
                drain_tables(self._touched, self.open_epoch, self.closed_changes)
                replies = self.call_members("consider", remote.name, self._change_messages())
                self._interrupt.check()
            finally:
                self.rollback()
        return remote.merge_changes(replies)

    def close(self) -> None:
        """Release all resources and end the members."""
        super().close()
        for table in self.tables.values():
            if isinstance(table, RemoteTable):
                table.discard()
        self.remote.clear()
        self._is_closed = True
        self.crew.close()

    def fork(self, interrupt: DeferredInterrupt) -> Worker:
        """Return a single worker with the tables of this one, which computes what is installed in it."""
        self._fetch_all_tables()
        other = super().fork(interrupt)
        if self.crew.memory is not None:
            self.crew.memory.pin(other)
        return other

    def _fetch_all_tables(self) -> None:
        for table in self.tables.values():
            if isinstance(table, RemoteTable):
                table.fetch_all()

    def keep_changes(self, installation: Installation) -> None:
        """Keep the changes of an installation from now on, as its history."""
        remote = self.remote[installation.name]
        if remote.history_since is None:
            if not remote.needs_changes:
                self.notify_members("observe", remote.name, True)
            remote.keep_history(self.epoch)

    def drop_history_before(self, epoch: int) -> None:
        """Drop the history before an epoch."""
        super().drop_history_before(epoch)
        for remote in self.remote.values():
            remote.drop_history_before(epoch)

    def disable_history(self) -> None:
        """Drop all history and stop keeping it."""
        super().disable_history()
        for remote in self.remote.values():
            remote.keep_history(None)
            if not remote.needs_changes:
                self.notify_members("observe", remote.name, False)

    def _as_of_context(self, epoch: int, *, reads_pending: bool) -> AsOfContext:
        return DistributedAsOfContext(self, epoch, reads_pending=reads_pending)

    def free_final_operators(self) -> None:
        """Do nothing: members keep operators that are final."""

    # Inputs and the clock

    def create_input(self, name: str, width: int) -> Input:
        """Create an input; its updates are sent to members with the step that processes them."""
        operator = super().create_input(name, width)
        self.notify_members("feed", name, width, operator.identity)
        return operator

    def drop_input(self, identity: str) -> None:
        """Drop an input with its buffered updates."""
        super().drop_input(identity)
        self.notify_members("forget", identity)

    def _run_step(self, step: Step, epoch: int) -> None:
        self.scope.step = step
        with self._interrupt:
            recorder = self.recorder
            self._replan_for_sizes()
            try:
                if recorder is not None:
                    recorder.prepare(self.closed_changes)
                self.inputs.push_until(step.upper)
                input_updates = self._take_inputs(step)
                replies = self.call_for_replies(
                    "change", step.lower, step.upper, self._change_messages(), input_updates
                )
                self._interrupt.check()
                if recorder is not None:
                    recorder.record(epoch, self.closed_changes)
            except BaseException:
                if recorder is not None:
                    recorder.cancel()
                self._roll_back_members(step)
                raise
            self._finish_step(step, epoch, None)
            self._collect_changes(replies)
            self.send_to_members("check_constraints", epoch)

    def _replan_for_sizes(self) -> None:
        """Replace plans whose placement depends on table sizes that the step changes, before it runs."""
        names = {closed.table for closed in self.closed_changes}
        if self._update_sizes(names):
            rows = sum(change.rowids.shape[0] for closed in self.closed_changes for change in closed.changes)
            self._replace_plans(rows, names)

    def _roll_back_members(self, step: Step) -> None:
        self.notify_members("undo")
        self.roll_back_step(step)

    def _take_inputs(self, step: Step) -> list[tuple[str, Updates, tuple[int, ...]]]:
        """Return the updates of inputs, with the text columns of each."""
        result = []
        while (operator := step.next()) is not None:
            assert isinstance(operator, Input)
            pending = operator.take_pending()
            if pending:
                texts = self._input_texts.get(operator.identity, ())
                result.append((operator.identity, Updates.concat(pending), texts))
        return result

    def _change_messages(self) -> list[ChangeMessage] | PerMember:
        """Return the closed changes; where members do not share memory, each member's rows as words."""
        if self.crew.memory is None:
            parts = [change_messages(self, closed, self._row_distributor) for closed in self.closed_changes]
            members = range(self.crew.count)
            return PerMember(tuple([one for each in parts for one in each[member]] for member in members))
        messages = []
        for closed in self.closed_changes:
            table = self.tables[closed.table]
            deletions = [change.rowids for change in closed.changes if change.diff < 0]
            insertions = [change.rowids for change in closed.changes if change.diff > 0]
            rowids, deleted = _concat_rowids(insertions), _concat_rowids(deletions)
            if len(insertions) > 1:
                rowids.sort()
            deleted_or_none, size_after = deleted if deleted.shape[0] else None, (table.count, table.rows)
            messages.append(
                ChangeMessage(
                    closed.epoch, table.name, deleted_or_none, shorten_rowids(rowids), None, size_after
                )
            )
        return messages

    def _collect_changes(self, replies: list[Reply]) -> None:
        """Collect the changes of watched installations from the members' replies."""
        for worker, reply in enumerate(replies):
            assert isinstance(reply.value, dict)
            for name, changes in reply.value.items():
                remote = self.remote.get(name)
                if remote is not None and (worker == 0 or not remote.is_replicated):
                    remote.step_changes += [
                        self.decode_updates(worker, one, remote.text_columns) for one in changes
                    ]
        for remote in self.remote.values():
            remote.finish_step()

    # Columns of tables

    def home_column(self, table: str) -> int:
        """Return the column whose words determine the member of each row of a table."""
        column = self._home_columns.get(table)
        if column is None:
            column = self._home_columns[table] = self._placer.home_column(table)
        return column

    def column_position(self, table: str, name: str) -> int:
        """Return the position of a table's column; the name is case insensitive."""
        names = [one.lower() for one in self.tables[table].schema.names]
        if name.lower() not in names:
            raise ProgrammingError(f'column "{name}" does not exist')
        return names.index(name.lower())

    def leading_key_column(self, table: str) -> int:
        """Return the first column of a table's primary key, or 0 without one."""
        key = self.tables[table].schema.primary_key
        return key[0] if key else 0
