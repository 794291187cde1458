"""The coordinator: an executor that holds tables and the clock, and runs operators at the members of a crew.

It checks and rolls back table changes like a single worker. A step sends the net changes to all members,
which process them together. Queries that share nothing with maintained views (over pending changes, or as of
an epoch) run in this process.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.cluster.installation import MemberClient, Placer, RemoteInstaller
from kpg.runtime.cluster.messages import ChangeMessage, Crew, MemberLostError, PerMember, shorten_rowids
from kpg.runtime.cluster.remote_load import (
    HomeColumns,
    RemoteLoadStaging,
    RemoteTable,
    RowDistributor,
    change_messages,
)
from kpg.runtime.cluster.shared_memory import SharedDictionary, SharedGroups
from kpg.runtime.dataflow.dataflow_graph import Step
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import InternalError, ProgrammingError
from kpg.runtime.handles import ArrangementInfo, Installation, OperatorInfo, WorkerStatistics
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.operators.input import Input
from kpg.runtime.plan import Mfp, Plan
from kpg.runtime.storage.packs import Sharded
from kpg.runtime.tables.table import Table
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import Schema
from kpg.runtime.worker.as_of import ViewHistory
from kpg.runtime.worker.worker import Worker

Words = NDArray[np.int64]


def _without_constraints(schema: Schema) -> Schema:
    """Return the schema without constraints, which members need not check."""
    return Schema(tuple(replace(column, nullable=True) for column in schema.columns))


def _concat_rowids(parts: list[Words]) -> Words:
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.int64), *parts])


CHUNK_ROWS: Final = 1 << 20
"""Rows of a table that are sent to new members in one message."""


class Coordinator:
    """An ``executor.DistributedExecutor`` whose operators are at the members of a crew.

    Its worker holds the tables and the clock, and runs small queries.
    """

    def __init__(self, crew: Crew, placer: Placer, merge_effort: int, interrupt: DeferredInterrupt) -> None:
        dictionary = Dictionary() if crew.memory is None else SharedDictionary(crew.memory)
        self.dictionary = dictionary
        self.crew = crew
        self._interrupt = interrupt
        self._worker = worker = Worker(
            merge_effort, interrupt, dictionary=dictionary, make_table=self._make_table, distribution=self
        )
        self.tables = worker.tables
        self.client = client = MemberClient(crew, dictionary, interrupt, self._restart_members)
        self._installer = RemoteInstaller(client, worker, placer)
        self.remote = self._installer.remote
        self._row_distributor = RowDistributor(dictionary, crew.count)
        self._home_columns = HomeColumns(placer.home_column)
        self._load_staging = RemoteLoadStaging(client, worker.tables, self._home_columns)
        worker.tables.attach_shards = self._load_staging.attach_shards

    @property
    def load_staging(self) -> RemoteLoadStaging | None:
        """Load path that bypasses this process; None if members share its memory."""
        return self._load_staging if self.crew.memory is None and self.crew.hosts else None

    # Restarted members

    def _restart_members(self, failure: MemberLostError) -> None:
        """Start new members with the state of the last commit."""
        if self._worker.inputs or self._installer.has_sinks:
            raise failure
        client = self.client
        client.restart()
        self._load_staging.reset_visibility()
        try:
            client.notify_members("start_at", self.epoch)
            for name in self.tables.by_name:
                self._send_table(name)
            self._installer.restart()
            if client.failure is not None:
                raise client.failure
        except BaseException:
            client.give_up(failure)
            raise

    def _send_table(self, name: str) -> None:
        """Create a table at members, with the rows of the last commit."""
        table, savepoint = self.tables.by_name[name], self.tables.committed_state(name)
        self.client.notify_members(
            "table", name, _without_constraints(table.schema), self.tables.table_number(name)
        )
        if isinstance(table.groups, SharedGroups):
            table.groups.mark_all_changed()
            if savepoint.count:
                hidden, _ = table.changes_since(savepoint)
                self.client.notify_members(
                    "stand", name, savepoint.count, table.live_at(savepoint).shape[0], hidden
                )
            return
        if isinstance(table, RemoteTable) and table.ranges and self._load_staging.restore_rows(table):
            return
        rowids = table.live_at(savepoint)
        for start in range(0, rowids.shape[0], CHUNK_ROWS):
            chunk = rowids[start : start + CHUNK_ROWS]
            self.client.notify_members(
                "fill", name, *self._row_distributor.distribute(table, self._home_columns.column(name), chunk)
            )

    def _send_contents(self, name: str) -> None:
        """Tell members that share memory which rows a table had at the last commit."""
        table, savepoint = self.tables.by_name[name], self.tables.committed_state(name)
        if isinstance(table.groups, SharedGroups):
            hidden, _ = table.changes_since(savepoint)
            self.client.notify_members(
                "stand", name, savepoint.count, table.live_at(savepoint).shape[0], hidden
            )

    # Tables

    def create_table(self, name: str, schema: Schema, number: int | None = None) -> Any:
        """Create a table here and at all members, with its restored rows."""
        table = self._worker.create_table(name, schema, number)
        self._send_table(name)
        return table

    def _make_table(
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
            staging = self._load_staging
            table = RemoteTable(name, schema, dictionary, interrupt, touched_tables)
            table.fetch_rows, table.discard_range = staging.fetch_rows, staging.discard_range
            table.is_opening = lambda: self.tables.recorder is None and self.tables.shard_store is not None
            return table
        groups = SharedGroups(len(schema.columns), memory, number)
        return Table(name, schema, dictionary, interrupt, touched_tables, groups)

    def drop_table(self, name: str) -> None:
        """Drop a table that no installation reads."""
        table = self.tables.by_name[name]
        if isinstance(table, RemoteTable):
            table.discard()
        groups = table.groups
        self._worker.drop_table(name)
        self._home_columns.drop(name)
        self.client.notify_members("drop_table", name)
        if isinstance(groups, SharedGroups):
            groups.free()

    def rename_table(self, old: str, new: str) -> None:
        """Rename a table; installed plans continue to read it."""
        self._worker.rename_table(old, new)
        self._home_columns.rename(old, new)
        self.client.notify_members("rename_table", old, new)

    def replay_shards(self, epoch: int, table: str, start: int, shards: Sharded) -> None:
        """Reapply an epoch's inserts to a table, whose rows workers have written."""
        self._worker.replay_shards(epoch, table, start, shards)
        store = self.tables.by_name[table]
        if isinstance(store, RemoteTable) and store.ranges:
            self._load_staging.announce_shards(table, store.ranges[-1], is_committed=False)

    def evaluate(self, mfp: Mfp, rows: Words) -> tuple[Words, Words | None]:
        """Map, filter and project rows; see ``Executor``."""
        return self._worker.evaluate(mfp, rows)

    # Columns of tables

    def home_column(self, table: str) -> int:
        """Return the column whose words determine the member of each row of a table."""
        return self._home_columns.column(table)

    def column_position(self, table: str, name: str) -> int:
        """Return the position of a table's column; the name is case insensitive."""
        names = [one.lower() for one in self.tables.by_name[table].schema.names]
        if name.lower() not in names:
            raise ProgrammingError(f'column "{name}" does not exist')
        return names.index(name.lower())

    def leading_key_column(self, table: str) -> int:
        """Return the first column of a table's primary key, or 0 without one."""
        key = self.tables.by_name[table].schema.primary_key
        return key[0] if key else 0

    # Installations

    def install(
        self,
        name: str,
        plan: Plan,
        *,
        isolated: bool = False,
        as_of: int | None = None,
        reads_pending: bool = False,
    ) -> Installation:
        """Install a plan at the members, or a small query in this process; see ``Executor``."""
        return self._installer.install(
            name, plan, isolated=isolated, as_of=as_of, reads_pending=reads_pending
        )

    def uninstall(self, installation: Installation) -> None:
        """Remove an installation, if it exists."""
        self._installer.uninstall(installation)

    def watch(self, installation: Installation) -> None:
        """Start capturing its changes."""
        self._installer.watch(installation)

    def unwatch(self, installation: Installation) -> None:
        """Stop capturing its changes and discard those not drained."""
        self._installer.unwatch(installation)

    def preview(self, installation: Installation) -> Updates:
        """Return the changes that pending changes of tables would make to it; discard the pending changes."""
        tables = self.tables
        if tables.closed_changes:
            raise InternalError("a step has not processed all closed epochs")
        remote = self.remote[installation.name]
        with self._interrupt:
            try:
                tables.drain()
                replies = self.client.call_members("consider", remote.name, self._change_messages())
                self._interrupt.check()
            finally:
                tables.rollback()
        return remote.merge_changes(replies)

    def free_final_operators(self) -> None:
        """Do nothing: members keep operators that are final."""

    def operators(self) -> list[OperatorInfo]:
        """Return all operators, each with the work of all members."""
        return self.client.operators()

    def arrangements(self) -> list[ArrangementInfo]:
        """Return all arrangements, each with the rows of all members."""
        return self.client.arrangements()

    def worker_statistics(self) -> list[WorkerStatistics]:
        """Return the state and work of each member."""
        return self.client.worker_statistics()

    # Branches, checkpoints and recovery

    def fork(self, interrupt: DeferredInterrupt) -> Worker:
        """Return a single worker with the tables of this one, which computes what is installed in it."""
        for table in self.tables.by_name.values():
            if isinstance(table, RemoteTable):
                table.fetch_all()
        other = self._worker.fork(interrupt)
        if self.crew.memory is not None:
            self.crew.memory.pin(other)
        return other

    def finish_fork(self) -> None:
        """Do nothing: a fork is a single worker."""

    def vacuum(self, relations: Collection[str]) -> int:
        """Free deleted rows of tables; return their number."""
        return self._worker.vacuum(relations)

    def capture(self) -> object:
        """Return the state of all tables as data."""
        return self._worker.capture()

    def restore(
        self, state: object, read: Callable[[Any], Any], make_reader: Callable[[], Callable[[Any], Any]]
    ) -> None:
        """Provide captured state to tables that are created afterwards; see ``Executor``."""
        self._worker.restore(state, read, make_reader)
        self.client.notify_members("start_at", self.epoch)

    @property
    def restored_versions(self) -> Mapping[str, object]:
        """Versions of tables right after their restore."""
        return self._worker.restored_versions

    def finish_restore(self) -> list[str]:
        """End the restore and return descriptions of the recomputed parts."""
        return self._worker.finish_restore()

    def start_at(self, epoch: int) -> None:
        """Set the last closed epoch, here and at all members."""
        self._worker.start_at(epoch)
        self.client.notify_members("start_at", epoch)

    def step_replayed(self, epoch: int) -> None:
        """Process all replayed changes in one step, which ends at ``epoch``."""
        self._worker.step_replayed(epoch)
        self.client.notify_members("start_at", epoch)

    def close(self) -> None:
        """Release all resources and end the members."""
        self._worker.close()
        for table in self.tables.by_name.values():
            if isinstance(table, RemoteTable):
                table.discard()
        self.remote.clear()
        self.client.close()

    # History

    def enable_history(self) -> None:
        """Keep the history of tables from now on."""
        self._worker.enable_history()

    def view_history(self, view: str) -> ViewHistory:
        """Return the history of a view, which is in this process."""
        return self.remote[view]

    def keep_changes(self, installation: Installation) -> None:
        """Keep the changes of an installation from now on, as its history."""
        self._installer.keep_changes(installation, self.epoch)

    def drop_history_before(self, epoch: int) -> None:
        """Drop the history before an epoch."""
        self._worker.drop_history_before(epoch)
        self._installer.drop_history_before(epoch)

    def disable_history(self) -> None:
        """Drop all history and stop keeping it."""
        self._worker.disable_history()
        self._installer.disable_history()

    # Inputs

    def create_input(self, name: str, width: int) -> Input:
        """Create an input; its updates are sent to members with the step that processes them."""
        operator = self._worker.create_input(name, width)
        self.client.notify_members("feed", name, width, operator.identity)
        return operator

    def drop_input(self, identity: str) -> None:
        """Drop an input with its buffered updates."""
        self._worker.drop_input(identity)
        self.client.notify_members("forget", identity)

    def poll_ended_inputs(self) -> bool:
        """Return whether inputs may have ended since the last call."""
        return self._worker.poll_ended_inputs()

    # The clock and steps

    @property
    def epoch(self) -> int:
        """Last epoch whose effects are in everything installed."""
        return self._worker.epoch

    @property
    def is_stepping(self) -> bool:
        """Whether operators of a query are running in this process."""
        return self._worker.is_stepping

    def close_epoch(self) -> bool:
        """End the open epoch with the tables' pending changes; without any, return False and keep it open."""
        return self._worker.close_epoch()

    def close_epochs(self, table: str, counts: Sequence[int], deleted: Words | None = None) -> None:
        """Close an epoch for each row count and each row of ``deleted``; see ``Executor``."""
        self._worker.close_epochs(table, counts, deleted)

    def step(self) -> None:
        """Process all closed epochs, and pending changes as one more, in one atomic step."""
        self._worker.step()

    def advance(self) -> None:
        """Process the buffered updates of inputs before the least of their times, in one atomic step."""
        self._worker.advance()

    def run_step(self, step: Step, epoch: int) -> None:
        """Process the closed changes in one step at all members, which ends at ``epoch``."""
        worker, client, tables = self._worker, self.client, self.tables
        worker.scope.step = step
        with self._interrupt:
            recorder, closed_changes = tables.recorder, tables.closed_changes
            self._installer.replan_for_sizes(closed_changes, self._send_contents)
            try:
                if recorder is not None:
                    recorder.prepare(closed_changes)
                worker.inputs.push_until(step.upper)
                input_updates = self._take_inputs(step)
                replies = client.call_for_replies(
                    "change", step.lower, step.upper, self._change_messages(), input_updates
                )
                self._interrupt.check()
                if recorder is not None:
                    recorder.record(epoch, closed_changes)
            except BaseException:
                if recorder is not None:
                    recorder.cancel()
                client.notify_members("undo")
                worker.roll_back_step(step)
                raise
            worker.finish_step(step, epoch)
            self._installer.collect_changes(replies)
            client.send_to_members("check_constraints", epoch)

    def _take_inputs(self, step: Step) -> list[tuple[str, Updates, tuple[int, ...]]]:
        """Return the updates of inputs, with the text columns of each."""
        result = []
        while (operator := step.next()) is not None:
            assert isinstance(operator, Input)
            pending = operator.take_pending()
            if pending:
                texts = self._installer.input_text_columns(operator.identity)
                result.append((operator.identity, Updates.concat(pending), texts))
        return result

    def _change_messages(self) -> list[ChangeMessage] | PerMember:
        """Return the closed changes; where members do not share memory, each member's rows as words."""
        if self.crew.memory is None:
            parts = [
                change_messages(
                    self.tables.by_name[closed.table],
                    self._home_columns.column(closed.table),
                    closed,
                    self._row_distributor,
                )
                for closed in self.tables.closed_changes
            ]
            members = range(self.crew.count)
            return PerMember(tuple([one for each in parts for one in each[member]] for member in members))
        messages = []
        for closed in self.tables.closed_changes:
            table = self.tables.by_name[closed.table]
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
