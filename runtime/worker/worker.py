"""The worker: the tables, operators, views and the clock of one engine, in this process.

Tables collect changes. :meth:`Worker.close_epoch` assigns them an epoch. :meth:`Worker.step` pushes all
closed epochs through the operators of all views as one batch, and commits or rolls back everything. Views are
installed and dropped between steps. Hydration of a view reports its progress in operators and, in a loop, in
rounds.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain as chain_iterables
from typing import TYPE_CHECKING, Final, Protocol
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.chain.chain_selection import FEW, ChainCache, enable_round_chains
from kpg.runtime.dataflow.dataflow_graph import Below, Operator, Place, Scope, Step
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import InternalError
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.handles import ArrangementInfo, Installation, OperatorInfo
from kpg.runtime.interrupts import DeferredInterrupt, Watch, begin_step, end_step
from kpg.runtime.mfp import CompiledMfp
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.input import Input, Source, attach_capture
from kpg.runtime.operators.loop import Loop, iterate_operators
from kpg.runtime.plan import Mfp, Plan
from kpg.runtime.progress_report import ProgressCallback, is_observed, report_progress
from kpg.runtime.records import dataclass
from kpg.runtime.render import RenderResult, disconnect, render, with_inputs
from kpg.runtime.tables.epochs import close_as_one, close_separately
from kpg.runtime.tables.table import Table
from kpg.runtime.trace.merge import EFFORT
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import Schema
from kpg.runtime.worker import maintenance
from kpg.runtime.worker.as_of import AsOfContext, ViewHistory, keep_view_changes
from kpg.runtime.worker.base_tables import BaseTables, TableFactory, make_table
from kpg.runtime.worker.dataflows import (
    Inputs,
    LocalInstallation,
    arrangement_info,
    detach,
    operator_info,
    release,
    with_empty_frontier,
)

if TYPE_CHECKING:
    from kpg.runtime.chain.chain import Chain
    from kpg.runtime.checkpoint import worker_state
    from kpg.runtime.checkpoint.captured_state import ArrayReader
    from kpg.runtime.checkpoint.worker_state import PendingRestore
    from kpg.runtime.executor import LoadStaging
    from kpg.runtime.operators.worker_group import WorkerGroup
    from kpg.runtime.storage.packs import Sharded
else:
    worker_state = LazyModule("kpg.runtime.checkpoint.worker_state")

Words = NDArray[np.int64]
MAX_COMPILED = 256
"""Limit of cached compiled expressions: more than the rules of a program that is explained have."""


@dataclass(slots=True)
class _ProgressWatch:
    """Watch that reports the progress of a step at its safe points, after the previous watch has run."""

    report: ProgressCallback
    step: Step
    operator_count: int
    previous: Watch | None

    def begin_step(self) -> None:
        """Begin a step; see ``Watch``."""
        if self.previous is not None:
            self.previous.begin_step()

    def check_room(self, size: int) -> None:
        """Check for memory; see ``Watch``."""
        if self.previous is not None:
            self.previous.check_room(size)

    def __call__(self) -> None:
        """Report the operators run so far, and in a loop its round."""
        if self.previous is not None:
            self.previous()
        visited = self.step.visited
        note = ""
        if visited and isinstance(visited[-1], Loop):
            note = f"round {sum(visited[-1].body_scope.step.rounds)}"
        self.report(len(visited), self.operator_count, note)


@contextmanager
def report_hydration(
    name: str, step: Step, operator_count: int, interrupt: DeferredInterrupt
) -> Iterator[None]:
    """Report the progress of ``step``, which hydrates new operators, within the block."""
    if not is_observed():
        yield
        return
    with report_progress(name, "operators") as report:
        previous = interrupt.watch
        interrupt.watch = _ProgressWatch(report, step, operator_count, previous)
        try:
            yield
        finally:
            interrupt.watch = previous


class Schedule(Protocol):
    """Order in which a worker runs its operators."""

    worker_group: "WorkerGroup | None"
    """The workers that run the same operators; None for a single worker."""

    def next_position(self, inputs: Below, scope: Scope | None, *, at_barrier: bool) -> int:
        """Return the position of a new operator, after those of all operators that exist."""

    def begin_hydration(self, outermost_operators: Callable[[], set[Operator]]) -> None:
        """Prepare for a step that hydrates new operators, which are among the outermost ones."""

    def run(self, step: Step, chain: "Chain | None") -> None:
        """Run the queued operators, and those that they queue."""

    def shareable(self, operators: tuple[Operator, ...]) -> tuple[Operator, ...]:
        """Return the operators whose contents later plans can read."""

    def remove(self, operators: Iterable[Operator]) -> None:
        """Forget operators that are freed."""


class SerialSchedule:
    """Schedule of a single worker: one operator at a time, in order of position."""

    worker_group: "WorkerGroup | None" = None

    def __init__(self, interrupt: DeferredInterrupt) -> None:
        self._last_position = 0
        self._interrupt = interrupt

    def next_position(self, inputs: Below, scope: Scope | None, *, at_barrier: bool) -> int:
        """Return a position; see ``Schedule``."""
        self._last_position += 1
        return self._last_position

    def begin_hydration(self, outermost_operators: Callable[[], set[Operator]]) -> None:
        """Do nothing."""

    def run(self, step: Step, chain: "Chain | None") -> None:
        """Run the queued operators; see ``Schedule``."""
        clock, interrupt = time.perf_counter, self._interrupt
        begin_step(interrupt)
        try:
            while True:
                if chain is not None:
                    chain.advance(step)
                operator = step.next() if step.queue else None
                if operator is None:
                    break
                interrupt.check()
                if chain is not None:
                    chain.hand_over(operator)
                start = clock()
                operator.flush()
                elapsed = clock() - start
                operator.counters.seconds += elapsed
                operator.counters.step_seconds = elapsed
        finally:
            end_step()

    def shareable(self, operators: tuple[Operator, ...]) -> tuple[Operator, ...]:
        """Return all operators."""
        return operators

    def remove(self, operators: Iterable[Operator]) -> None:
        """Do nothing."""


class Distribution(Protocol):
    """The members that run the plans of a worker, which is then a coordinator's."""

    def run_step(self, step: Step, epoch: int) -> None:
        """Process the closed changes in one step at all members, which ends at ``epoch``."""

    def view_history(self, view: str) -> ViewHistory:
        """Return the history of a view."""


class Worker:
    """One engine in this process: dictionary, tables, operators, views and clock.

    It implements ``executor.Executor``.
    """

    def __init__(
        self,
        merge_effort: int = EFFORT,
        interrupt: DeferredInterrupt | None = None,
        *,
        dictionary: Dictionary | None = None,
        make_table: TableFactory = make_table,
        schedule: Schedule | None = None,
        distribution: Distribution | None = None,
    ) -> None:
        """Create a worker without tables.

        Args:
            merge_effort: Rows of each unfinished merge of a trace that are merged per inserted row.
            interrupt: Defers Ctrl-C to the end of a step, and perhaps of the operation that runs the step.
            dictionary: Dictionary of text words; None for a new one.
            make_table: Makes tables, by default in this process.
            schedule: Runs the operators; None for a single worker.
            distribution: Members that run the plans; None if this worker does.
        """
        self.dictionary = Dictionary() if dictionary is None else dictionary
        self.merge_effort = merge_effort
        self.epoch = 0
        """Last epoch whose effects are in all views."""
        self.views: dict[str, LocalInstallation] = {}
        self.inputs = Inputs()
        self.is_stepping = False
        """Whether operators are running, and with them perhaps user functions."""
        self.make_reader: Callable[[], ArrayReader] | None = None
        """Makes another reader of the stored state from which this worker was restored."""
        self.restored_versions: dict[str, object] = {}
        """Versions of tables (by number) and operators right after their restore."""
        self._interrupt = interrupt or DeferredInterrupt()
        self.tables = BaseTables(self, self.dictionary, self._interrupt, make_table)
        self.scope = Scope(Step(0, 1), self._interrupt)
        self._schedule = schedule or SerialSchedule(self._interrupt)
        self.worker_group = self._schedule.worker_group
        self._distribution = distribution
        self._registry: WeakValueDictionary[str, Operator] = WeakValueDictionary()
        self._sources: dict[str, Source] = {}
        self._compiled_mfps: dict[Mfp, CompiledMfp] = {}
        self._chain_cache = ChainCache()

    # Context of rendering

    reads_pending: Final = True
    """Whether pending changes of tables are read."""
    as_of_epoch: Final = None
    """Epoch at which plans read tables: the current one."""

    @property
    def is_restoring(self) -> bool:
        """Whether new operators receive restored state."""
        return self.tables.pending_restore is not None

    def next_position(
        self, inputs: Below = (), scope: Scope | None = None, *, at_barrier: bool = False
    ) -> int:
        """Return a position after all existing operators; the arguments are for distributed executors."""
        return self._schedule.next_position(inputs, scope, at_barrier=at_barrier)

    def source_identity(self, table: str) -> str:
        """Return the table's identity in fingerprints, which is stable across reopening."""
        return f"table {self.tables.table_number(table)}"

    def store(self, table: str) -> Table:
        """Return the row store of a table."""
        return self.tables.by_name[table]

    def view_output(self, view: str) -> Operator:
        """Return the operator that holds a view's contents."""
        return self.views[view].output

    def input(self, identity: str) -> Operator:
        """Return the operator of an input."""
        return self.inputs.get(identity)

    # Tables

    @property
    def load_staging(self) -> "LoadStaging | None":
        """None: all rows pass through this process."""
        return None

    def create_table(self, name: str, schema: Schema, number: int | None = None) -> Table:
        """Create a table, empty unless restored state has a table of that number.

        ``number`` is that of the same table before the database was reopened.
        """
        return self.tables.create(name, schema, number)

    def drop_table(self, name: str) -> None:
        """Drop a table that no installed view reads."""
        self.tables.drop(name)
        self._compiled_mfps.clear()

    def rename_table(self, old: str, new: str) -> None:
        """Rename a table; installed plans continue to read it."""
        self.tables.rename(old, new)
        if old in self._sources:
            self._sources[new] = self._sources.pop(old)
        self._compiled_mfps.clear()

    def replay_shards(self, epoch: int, table: str, start: int, shards: "Sharded") -> None:
        """Reapply an epoch's inserts to a table, whose rows workers have written."""
        self.tables.replay_shards(epoch, table, start, shards)

    def evaluate(self, mfp: Mfp, rows: Words) -> tuple[Words, Words | None]:
        """Map, filter and project rows; also return the positions of passing rows, None for all."""
        compiled = self._compiled_mfps.get(mfp)
        if compiled is None:
            if len(self._compiled_mfps) >= MAX_COMPILED:
                self._compiled_mfps.clear()
            compiled = self._compiled_mfps[mfp] = CompiledMfp(mfp, self)
        return compiled.run(rows)

    # Branches and checkpoints

    def fork(self, interrupt: DeferredInterrupt) -> "Worker":
        """Return a worker with the same tables; changes of either do not affect the other.

        Until :meth:`finish_fork` is called there, views installed on it reuse results that this worker has
        computed.
        """
        other = Worker(self.merge_effort, interrupt, dictionary=self.dictionary)
        self._chain_cache.discard()
        self.tables.commit_unchanged()
        worker_state.fork(self, other)
        return other

    def finish_fork(self) -> None:
        """End the fork: views installed from now on are computed."""
        self.tables.pending_restore = None

    def capture(self) -> object:
        """Return the state of all tables and views as data."""
        self.tables.commit_unchanged()
        return worker_state.capture_leaves(self)

    def restore(self, state: object, read: "ArrayReader", make_reader: "Callable[[], ArrayReader]") -> None:
        """Provide captured state to tables and installations that are created afterwards.

        ``read`` returns the arrays for their references in the state. ``make_reader`` makes another such
        reader, for a
        branch.
        """
        worker_state.restore(self, state, read, make_reader)

    def finish_restore(self) -> list[str]:
        """End the restore and return descriptions of the recomputed parts."""
        restore, self.tables.pending_restore = self.tables.pending_restore, None
        if restore is None:
            return []
        self.restored_versions |= restore.versions
        return restore.recomputed

    def vacuum(self, relations: Collection[str]) -> int:
        """Free deleted rows and compact traces of these relations; return the number of freed rows."""
        self.tables.commit_unchanged()
        with self._interrupt:
            return maintenance.vacuum(self.tables.by_name, self.views.values(), relations, self.epoch)

    # Inputs

    def create_input(self, name: str, width: int) -> Input:
        """Create an input of ``width`` columns, whose time is the next epoch."""
        position = self.next_position()
        place = Place(f"{name}#{position}", f"Input {name}", position, (), self.scope, width)
        return self.inputs.create(name, place, self.tables.open_epoch)

    def drop_input(self, identity: str) -> None:
        """Drop an input with its buffered updates."""
        self.inputs.drop(self.inputs.get(identity))

    def poll_ended_inputs(self) -> bool:
        """Return whether inputs may have ended since the last call."""
        self.inputs.retire()
        ended, self.inputs.have_ended = self.inputs.have_ended, False
        return ended

    # Views

    def install(
        self,
        name: str,
        plan: Plan,
        *,
        isolated: bool = False,
        as_of: int | None = None,
        reads_pending: bool = False,
    ) -> LocalInstallation:
        """Build the missing operators of a plan, hydrate them, and maintain its result.

        See ``Executor.install``. If evaluation raises, nothing has changed.
        """
        if self.tables.has_pending and not isolated:
            raise InternalError("a view cannot be installed while changes are pending")
        self._chain_cache.add_name(name)
        start = time.perf_counter()
        pending_restore = None if isolated else self.tables.pending_restore
        context = self if as_of is None else self._as_of_context(as_of, reads_pending=reads_pending)
        known_identities = None if pending_restore is None else pending_restore.identities(name, plan)
        rendered = render(plan, {} if isolated else self._registry, context, known_identities)
        enable_round_chains(rendered.new)
        self._hydrate(name, rendered, pending_restore)
        arrangements = {op for op in rendered.operators if isinstance(op, Arrange)}
        built = len(arrangements & set(rendered.new))
        reused, update_counters = len(arrangements) - built, self._chain_cache.add_counters
        installed = LocalInstallation(
            name, rendered.operators, rendered.output, built, reused, update_counters
        )
        installed.rendered_plan = plan, rendered.identities
        for operator in iterate_operators(installed.operators):
            operator.owners.add(name)
        if not isolated:
            self._register(rendered.new)
        self.views[name] = installed
        if pending_restore is not None:
            pending_restore.restore_history(self, installed)
        installed.install_seconds = time.perf_counter() - start
        return installed

    def _as_of_context(self, epoch: int, *, reads_pending: bool) -> AsOfContext:
        distribution = self._distribution
        view_history = self.views.__getitem__ if distribution is None else distribution.view_history
        return AsOfContext(self, epoch, view_history, reads_pending=reads_pending)

    def uninstall(self, installation: Installation) -> None:
        """Remove a view, and free operators without other users. Do nothing if it is not installed."""
        view = self.views.get(installation.name)
        if view is not installation:
            return
        self._chain_cache.remove_name(view.name)
        del self.views[view.name]
        orphans = self._disown(view.name, view.operators)
        orphans += [one for one in (view.capture, view.history) if one is not None]
        disconnect(tuple(orphans))

    def watch(self, installation: Installation) -> None:
        """Start capturing the view's changes."""
        view = self.views[installation.name]
        if view.capture is None:
            self._chain_cache.add_name(f"watch {view.name}")
            position = self.next_position((view.output,), self.scope)
            view.capture = attach_capture(f"Capture {view.name}", view.output, position)

    def unwatch(self, installation: Installation) -> None:
        """Stop capturing the view's changes and discard those not drained."""
        view = self.views.get(installation.name)
        if view is not None and view.capture is not None:
            self._chain_cache.remove_name(f"watch {view.name}")
            disconnect((view.capture,))
            view.capture = None

    def arrangements(self) -> list[ArrangementInfo]:
        """Return all arrangements in order of creation."""
        arrangements = {op for op in self.all_operators() if isinstance(op, Arrange)}
        return [arrangement_info(operator) for operator in sorted(arrangements)]

    def operators(self) -> list[OperatorInfo]:
        """Return all operators with their work so far, in order of position."""
        operators = set(self.all_operators())
        return [operator_info(operator) for operator in sorted(operators)]

    def all_operators(self) -> Iterator[Operator]:
        """Yield the operators of all views, with counters that are up to date."""
        self._chain_cache.add_counters()
        for view in self.views.values():
            yield from iterate_operators(view.operators)

    def close(self) -> None:
        """Remove all views and free their memory at once."""
        self._chain_cache.discard()
        for installed in self.views.values():
            release(installed.operators)
            installed.operators = ()
        self.views.clear()

    def _disown(self, name: str, operators: Iterable[Operator]) -> list[Operator]:
        """Remove a view from the owners of operators; return those without owners, still connected."""
        orphans = []
        for operator in iterate_operators(tuple(operators)):
            operator.owners.discard(name)
            if not operator.owners:
                orphans.append(operator)
                if self._registry.get(operator.place.fingerprint) is operator:
                    del self._registry[operator.place.fingerprint]
                if isinstance(operator, Source) and self._sources.get(operator.table.name) is operator:
                    del self._sources[operator.table.name]
        self._schedule.remove(orphans)
        return orphans

    def free_final_operators(self) -> None:
        """Free operators that are needed only to compute arrangements that can never change."""
        self._chain_cache.discard()
        detach(with_empty_frontier(operator for view in self.views.values() for operator in view.operators))
        orphans = []
        for view in self.views.values():
            needed = set(with_inputs((view.output,)))
            orphans += self._disown(view.name, (op for op in view.operators if op not in needed))
            view.operators = tuple(op for op in view.operators if op in needed)
        disconnect(tuple(orphans))

    # History

    def enable_history(self) -> None:
        """Keep the history of tables from now on."""
        self.tables.enable_history()

    def keep_changes(self, installation: Installation) -> None:
        """Keep the changes of an installation from now on, as its history."""
        self._chain_cache.add_name(f"past of {installation.name}")
        view = self.views[installation.name]
        if view.history is None:
            keep_view_changes(view, self.next_position(), self.epoch)

    def drop_history_before(self, epoch: int) -> None:
        """Drop the history before an epoch; not allowed during a step."""
        self.tables.drop_history_before(epoch)
        for view in self.views.values():
            if view.history is not None:
                view.history.drop_through(epoch)

    def disable_history(self) -> None:
        """Drop all history and stop keeping it; not allowed during a step."""
        self.tables.disable_history()
        for view in self.views.values():
            if view.history is not None:
                disconnect((view.history,))
                view.history = None

    # The clock and steps

    def start_at(self, epoch: int) -> None:
        """Set the last closed epoch of a new worker."""
        self.epoch = epoch
        self.tables.open_epoch = epoch + 1
        self.scope.step = Step(epoch, epoch + 1)

    def close_epoch(self) -> bool:
        """End the open epoch with the tables' pending changes; without any, return False and keep it open."""
        tables = self.tables
        if not self.inputs.is_unused and self.inputs and tables.has_undrained:
            self.inputs.advance_past(tables.open_epoch)
        changed = tables.drain()
        tables.open_epoch += changed
        return changed

    def close_epochs(self, table: str, counts: Sequence[int], deleted: Words | None = None) -> None:
        """Close an epoch for each row count and each row of ``deleted``; nothing else may be pending."""
        self.inputs.advance_past_all(self.tables.open_epoch, len(counts))
        separately = (
            self.tables.keeps_history
            or self._distribution is not None
            or any(view.needs_separate_epochs for view in self.views.values())
        )
        close = close_separately if separately else close_as_one
        tables = self.tables
        tables.open_epoch = close(
            tables.by_name[table], tables.open_epoch, counts, deleted, tables.closed_changes
        )

    def step(self) -> None:
        """Process all closed epochs, and pending changes as one more, in one atomic step."""
        self.close_epoch()
        tables = self.tables
        if not tables.closed_changes:
            if tables.recorder is not None:
                tables.recorder.record(self.epoch, ())
            tables.commit_drained()
            return
        self._run_step(Step(tables.closed_changes[0].epoch, tables.open_epoch), tables.open_epoch - 1)

    def step_replayed(self, epoch: int) -> None:
        """Process all replayed changes in one step, which ends at ``epoch``."""
        self.tables.open_epoch = epoch + 1
        if self.tables.closed_changes:
            self._run_step(Step(self.epoch + 1, epoch + 1), epoch)
        self.epoch = epoch

    def preview(self, installation: Installation) -> Updates:
        """Return the changes that pending changes would make to a view, and discard the pending changes.

        Nothing else changes, also if an error is raised. No epoch ends.
        """
        if self.tables.closed_changes:
            raise InternalError("a step has not processed all closed epochs")
        view = self.views[installation.name]
        was_watched, readers = view.is_watched, view.capture_readers(None)
        self.watch(view)
        assert view.capture is not None
        step = self.scope.step = Step(self.epoch + 1, self.epoch + 2)
        with self._interrupt:
            try:
                self.tables.drain()
                self.feed_sources(step)
                self.run_operators(step)
                self._interrupt.check()
                return Updates.concat(
                    [
                        Updates.empty(view.output.width, 1),
                        *view.capture.view_changes(view.capture.uncommitted_changes),
                    ]
                )
            finally:
                self.roll_back_step(step)
                step.visited.clear()
                view.capture_readers(readers)
                if not was_watched:
                    self.unwatch(view)

    def advance(self) -> None:
        """Process the buffered updates of inputs before the least of their times, in one atomic step.

        Epochs are then the inputs' times; most of them may be empty.
        """
        upper = self.inputs.upper(self.epoch + 1)
        span = (self.epoch + 1, upper) if self.inputs.has_customs else self.inputs.span(upper)
        if upper > self.epoch + 1 and span is not None:
            self._run_step(Step(*span), upper - 1)
        self.epoch = upper - 1
        self.tables.open_epoch = upper
        self.inputs.retire()

    def _run_step(self, step: Step, epoch: int) -> None:
        if self._distribution is not None:
            self._distribution.run_step(step, epoch)
            return
        self.scope.step = step
        recorder, closed_changes = self.tables.recorder, self.tables.closed_changes
        # Ctrl-C takes effect between operators and between chunks of a join, but not in a commit or rollback.
        with self._interrupt:
            chain = self._chain_for(step)
            self.is_stepping = True
            try:
                if recorder is not None:
                    recorder.prepare(closed_changes)
                self.feed_sources(step, chain)
                if not self.inputs.is_unused:
                    self.inputs.push_until(step.upper)
                self._schedule.run(step, chain)
                self.is_stepping = False
                self._interrupt.check()
                if recorder is not None:
                    recorder.record(epoch, closed_changes)
            except BaseException:
                self.is_stepping = False
                if chain is not None:
                    chain.settle(step)
                    chain.invalidate()
                if recorder is not None:
                    recorder.cancel()
                self.roll_back_step(step)
                raise
            self.finish_step(step, epoch, chain)

    def roll_back_step(self, step: Step) -> None:
        """Roll back all operators that the step has visited or queued, and all tables."""
        for operator in (*step.visited, *(queued for _, queued in step.queue)):
            operator.rollback()
        self.tables.rollback()

    def _register(self, operators: tuple[Operator, ...]) -> None:
        for inner in iterate_operators(operators):
            self.inputs.add_custom(inner)
        for operator in self._schedule.shareable(operators):
            self._registry[operator.place.fingerprint] = operator
            if isinstance(operator, Source):
                self._sources[operator.table.name] = operator

    def _hydrate(self, name: str, rendered: RenderResult, pending_restore: "PendingRestore | None") -> None:
        new = rendered.new if pending_restore is None else pending_restore.restore(rendered.new)
        step = Step(self.epoch, self.epoch + 1, hydrating=True)
        self.scope.step = step
        try:
            with self._interrupt, report_hydration(name, step, len(new), self._interrupt):
                self._schedule.begin_hydration(partial(self.outermost_operators, rendered.new))
                self.is_stepping = True
                for operator in new:
                    operator.hydrate()
                    self._interrupt.check()
                self.run_operators(step)
                self._interrupt.check()
        except BaseException:
            self.is_stepping = False
            disconnect(rendered.new)
            raise
        for operator in new:
            operator.commit()
            operator.is_hydrated = True
            operator.maintain()
        step.visited.clear()

    def _chain_for(self, step: Step) -> "Chain | None":
        """Return the chain that runs the step, if the step is small."""
        rows = 0
        for closed in self.tables.closed_changes:
            for rowids, _ in closed.changes:
                rows += rowids.shape[0]
        return self._chain_cache.chain_for(step, rows, self.outermost_operators) if rows <= FEW else None

    def outermost_operators(self, new: Iterable[Operator] = ()) -> set[Operator]:
        """Return the operators outside all loops, of all views and among new ones."""
        operators = chain_iterables(new, *(view.operators for view in self.views.values()))
        return {operator for operator in operators if operator.place.scope is self.scope}

    def feed_sources(self, step: Step, chain: "Chain | None" = None) -> None:
        """Push the closed changes of each table that some view reads to its source."""
        if chain is not None:
            chain.begin(step)
        for epoch, table, changes in self.tables.closed_changes:
            source = self._sources.get(table)
            if source is not None and chain is not None:
                chain.feed(source, changes)
            elif source is not None:
                for rowids, diff in changes:
                    source.push_change(epoch, rowids, diff)

    def run_operators(self, step: Step, chain: "Chain | None" = None) -> None:
        """Run the queued operators, and those that they queue."""
        self.is_stepping = True
        try:
            self._schedule.run(step, chain)
        finally:
            self.is_stepping = False

    def finish_step(self, step: Step, epoch: int, chain: "Chain | None" = None) -> None:
        """Commit a step, which ends at ``epoch``."""
        self.epoch = epoch
        try:
            self.commit_step(step, chain)
        except BaseException:
            if self.tables.recorder is not None:
                self.tables.recorder.cancel()  # too late to undo: the recorder stops recording
            raise

    def commit_step(self, step: Step, chain: "Chain | None" = None) -> None:
        """Commit the operators that the step has visited, and the tables that it has changed."""
        if chain is not None:
            chain.commit(step)
        else:
            self._chain_cache.invalidate()
        for operator in step.visited:
            operator.commit()
        tables = self.tables
        if tables.keeps_history:
            tables.record_history()
        tables.commit({closed.table for closed in tables.closed_changes})
        tables.closed_changes.clear()
        for operator in step.visited:
            operator.maintain()
        step.visited.clear()
