"""A member: a worker that runs its share of every plan and exchanges rows with the other members.

A member owns a :class:`Worker` and parts for its tables, loads, shards, constraint checks and views. The
coordinator sends commands, which the member's parts run. All members commit or roll back a step together; a
step is final once the coordinator says so.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.cluster.barrier_schedule import BarrierSchedule
from kpg.runtime.cluster.constraint_audit import ConstraintAudit
from kpg.runtime.cluster.member_views import MemberViews
from kpg.runtime.cluster.messages import STEP_METHODS, ChangeMessage, Command, Reply, unpickle_arguments
from kpg.runtime.cluster.shared_memory import SharedDictionary, SharedMemory
from kpg.runtime.cluster.skew import sample_index
from kpg.runtime.cluster.table_shards import (
    LoadKeys,
    MemberLoads,
    MemberShards,
    MemberTables,
    SharedTables,
    make_sparse_table,
)
from kpg.runtime.dataflow.dataflow_graph import Place, Step
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.handles import WorkerStatistics
from kpg.runtime.interrupts import DeferredInterrupt, Watch
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.exchange import SendExchange
from kpg.runtime.operators.text_exchange import SharedStrings, WorkerStrings
from kpg.runtime.operators.worker_group import PeerFailedError, Peers, StepAbortError, WorkerGroup
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import Schema
from kpg.runtime.worker.worker import Worker

if TYPE_CHECKING:
    from kpg.runtime.cluster.skew import IndexSample

Words = NDArray[np.int64]


class Member:
    """Member number ``index`` of ``count``."""

    def __init__(
        self, index: int, count: int, peers: Peers, merge_effort: int, memory: SharedMemory | None
    ) -> None:
        """Create a member; ``memory`` is shared with the coordinator and all members."""
        self.is_broken = False
        """Whether the rollback of a failed step has failed, so that the member has to be restarted."""
        self._has_open_step = False
        self._interrupt = DeferredInterrupt()
        dictionary = Dictionary() if memory is None else SharedDictionary(memory)
        strings = WorkerStrings if memory is None else SharedStrings
        self.worker_group = group = WorkerGroup(index, count, strings(dictionary, count), peers)
        schedule = BarrierSchedule(group, self._interrupt)
        self._shared_tables = shared = None if memory is None else SharedTables(memory)
        self.worker = worker = Worker(
            merge_effort,
            self._interrupt,
            dictionary=dictionary,
            make_table=make_sparse_table if shared is None else shared.make_table,
            schedule=schedule,
        )
        self._keys = LoadKeys(worker.tables.by_name)
        self._tables = MemberTables(worker.tables, group)
        self._loads = MemberLoads(worker.tables, group, self._keys)
        self._audit = ConstraintAudit(worker.tables, worker.evaluate, group, self._loads, self._keys)
        self._views = MemberViews(worker, group, schedule)
        self._methods = self._command_methods()

    def _command_methods(self) -> dict[str, Callable[..., object]]:
        """Return the method that runs each command."""
        worker, loads, audit, views = self.worker, self._loads, self._audit, self._views
        shards = MemberShards(worker.tables, self.worker_group, loads, self._keys)
        return {
            "start_at": worker.start_at,
            "table": self.create_table,
            "drop_table": self.drop_table,
            "rename_table": self.rename_table,
            "stand": self.set_contents,
            "fill": self._tables.fill,
            "feed": self.create_input,
            "forget": worker.drop_input,
            "change": self.change,
            "undo": self.undo,
            "check_constraints": self.commit,
            "consider": self.preview,
            "dock": loads.receive,
            "stage": loads.stage,
            "staged_part": loads.staged_part,
            "held": loads.rows,
            "unload": loads.discard,
            "again": loads.restore,
            "see": shards.find_folder,
            "shelve": shards.write,
            "moor": shards.attach,
            "audit": audit.check,
            "dangling": audit.find_dangling,
            "forget_keys": audit.forget_keys,
            "put": views.install,
            "drop": views.uninstall,
            "rows": views.rows,
            "matching": views.rows_with_prefix,
            "rows_of": views.rows_of,
            "overlay": views.overlay,
            "decide": views.decide_pushes,
            "choose": views.capture_readers,
            "offer": views.export,
            "withdraw": views.end_export,
            "observe": views.set_watched,
            "heard": views.drain_sink,
            "ignore": views.close_sink,
            "statistics": views.statistics,
            "state": views.exclusive_state,
            "rank_width": views.rank_width,
            "ranks_of": views.ranks_of,
            "ranked": views.all_ranks,
            "first_rounds": views.first_rounds,
            "operators_here": worker.operators,
            "arrangements_here": worker.arrangements,
            "work_here": self.statistics,
        }

    def execute(self, command: Command) -> Reply:
        """Run a command; any error is in the reply."""
        group = self.worker_group
        barriers_before = group.barrier_count
        try:
            self._apply_command_updates(command)
            if command.method == "put":
                group.begin_step(is_done=False)
            value = self._methods[command.method](*unpickle_arguments(command.args, group.index))
            return Reply(value, group.strings.take_coordinator_delta())
        except PeerFailedError as error:
            return Reply(None, group.strings.take_coordinator_delta(), error, is_secondary=True)
        except BaseException as error:
            if command.method in STEP_METHODS:
                group.fail()
            order = group.barrier_count - barriers_before, group.failing_position
            is_secondary = isinstance(error, StepAbortError)
            return Reply(
                None, group.strings.take_coordinator_delta(), error, is_secondary=is_secondary, order=order
            )

    def execute_one_way(self, command: Command) -> None:
        """Run a command to which the coordinator expects no reply."""
        self._apply_command_updates(command)
        self._methods[command.method](*command.args)

    def _apply_command_updates(self, command: Command) -> None:
        if command.strings is not None:
            self.worker_group.strings.add_coordinator_strings(command.strings)
        if self._shared_tables is not None:
            for updates in command.group_updates:
                self._shared_tables.apply_updates(updates)

    def set_watch(self, watch: Watch) -> None:
        """Set the watch that ends a step at a safe point."""
        self._interrupt.watch = watch

    def close(self) -> None:
        """Free the memory of all views."""
        self.worker.close()

    # Tables and inputs

    def create_table(self, name: str, schema: Schema, number: int) -> None:
        """Create a table."""
        self.worker.create_table(name, schema, number)

    def drop_table(self, name: str) -> None:
        """Drop a table."""
        self._audit.forget_keys(name)
        self._keys.drop(name)
        if self._shared_tables is not None:
            self._shared_tables.drop(self.worker.tables.table_number(name))
        self.worker.drop_table(name)

    def rename_table(self, old: str, new: str) -> None:
        """Rename a table."""
        self.worker.rename_table(old, new)
        self._keys.rename(old, new)
        self._audit.rename(old, new)

    def set_contents(self, name: str, count: int, rows: int, hidden: Words) -> None:
        """Set the contents of a table in shared memory, as committed rows."""
        assert self._shared_tables is not None
        self._shared_tables.set_contents(self.worker.tables.table_number(name), count, rows, hidden)
        self.worker.tables.commit((name,))

    def create_input(self, name: str, width: int, identity: str) -> None:
        """Create an input."""
        worker = self.worker
        place = Place(identity, f"Input {name}", worker.next_position(), (), worker.scope, width)
        worker.inputs.create(name, place, worker.epoch + 1)

    # Steps

    def change(
        self,
        lower: int,
        upper: int,
        changes: list[ChangeMessage],
        input_updates: list[tuple[str, Updates, tuple[int, ...]]],
    ) -> dict[str, list[Updates]]:
        """Run a step with changes of tables and updates of inputs; it is not final yet.

        Returns the changes of watched installations.
        """
        worker, strings = self.worker, self.worker_group.strings
        self.worker_group.begin_step(is_done=not self.worker_group.last_level)
        self._has_open_step = True
        step = worker.scope.step = Step(lower, upper)
        try:
            self._apply_changes(changes)
            worker.feed_sources(step)
            for identity, updates, text_columns in input_updates:
                updates = updates.with_data(strings.decode_rows(updates.data, text_columns))
                worker.inputs.get(identity).push(0, self._own_updates(updates, text_columns))
            worker.run_operators(step)
            return self._views.step_changes()
        except BaseException:
            self._roll_back(step)
            self._has_open_step = False
            raise

    def _apply_changes(self, changes: list[ChangeMessage]) -> None:
        for message in changes:
            if message.load is None:
                self._tables.apply(message)
            else:
                self._loads.apply(message)

    def _own_updates(self, updates: Updates, text_columns: tuple[int, ...]) -> Updates:
        """Return this worker's share of an input's updates, which are distributed by their first column."""
        group = self.worker_group
        if not updates.width:
            return updates if group.index == 0 else updates.take(np.empty(0, np.int64))
        owners = group.owners.owners(updates.data[0], interned=0 in text_columns)
        return updates.take(np.flatnonzero(owners == group.index))

    def undo(self) -> None:
        """Roll back the open step, if there is one."""
        if self._has_open_step:
            self._roll_back(self.worker.scope.step)
            self._has_open_step = False

    def _roll_back(self, step: Step) -> None:
        """Roll back a step; this may fail too if memory is exhausted."""
        try:
            self.worker.roll_back_step(step)
        except Exception:
            self.is_broken = True

    def commit(self, epoch: int) -> None:
        """Commit the open step."""
        worker = self.worker
        worker.epoch = epoch
        worker.tables.open_epoch = epoch + 1
        self._has_open_step = False
        worker.commit_step(worker.scope.step)
        self._loads.finish_step()
        self._views.discard_changes()

    def preview(self, name: str, changes: list[ChangeMessage]) -> Updates:
        """Return the changes that changes of tables would make to an installation, and roll them back."""
        worker = self.worker
        self.worker_group.begin_step(is_done=not self.worker_group.last_level)
        view = worker.views[name]
        was_watched, readers = view.is_watched, view.capture_readers(None)
        worker.watch(view)
        assert view.capture is not None
        step = worker.scope.step = Step(worker.epoch + 1, worker.epoch + 2)
        try:
            self._apply_changes(changes)
            worker.feed_sources(step)
            worker.run_operators(step)
            found = view.capture.view_changes(view.capture.uncommitted_changes)
            whole = Updates.concat([Updates.empty(view.output.width, 1), *found])
            return self._views.encode_changes(name, whole)
        finally:
            self._roll_back(step)
            step.visited.clear()
            view.capture_readers(readers)
            if not was_watched:
                worker.unwatch(view)

    def statistics(self) -> "tuple[WorkerStatistics, list[IndexSample]]":
        """Return the state and work of this worker, and samples of its indexes."""
        worker = self.worker
        operators = set(worker.all_operators())
        exchanges = [one for one in operators if isinstance(one, SendExchange)]
        sent, received = sum(one.sent_rows for one in exchanges), sum(one.received_rows for one in exchanges)
        rows, size = sum(one.rows for one in operators), sum(one.bytes for one in operators)
        if self._shared_tables is None:
            rows += sum(table.rows for table in worker.tables.by_name.values())
            size += sum(table.bytes for table in worker.tables.by_name.values()) + worker.dictionary.bytes
        indexes = sorted(one for one in operators if isinstance(one, Arrange))
        samples = [sample_index(one, worker.dictionary) for one in indexes]
        return WorkerStatistics(
            rows, size, time.process_time(), sent, received, self.worker_group.barrier_count
        ), samples
