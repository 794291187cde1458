"""A member: a worker that runs its share of every plan and exchanges rows with the other members.

The coordinator calls its methods by name through :meth:`Member.execute`. All members commit or roll back a
step together; a step is final once the coordinator says so.
"""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.cluster.constraint_audit import MemberRanks
from kpg.runtime.cluster.messages import STEP_METHODS, ChangeMessage, Command, Reply, unpickle_arguments
from kpg.runtime.cluster.shared_memory import SharedMemory
from kpg.runtime.cluster.skew import sample_index
from kpg.runtime.cluster.transfer import Export, schema_of
from kpg.runtime.convert.arrow import decode_table
from kpg.runtime.dataflow.dataflow_graph import Below, Operator, Place, Scope, Step
from kpg.runtime.handles import ArrangementInfo, OperatorInfo, OverlayInfo, Stats, WorkerStatistics
from kpg.runtime.interrupts import Watch
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.exchange import LocalShare, SendExchange, last_barrier_level
from kpg.runtime.operators.expand import Expand
from kpg.runtime.operators.join import Join, Segment
from kpg.runtime.operators.linear import Concat, Linear, Negate
from kpg.runtime.operators.loop import ArrangedLeave, Enter, Leave, Loop, iterate_operators
from kpg.runtime.operators.reduce import Single
from kpg.runtime.operators.text_exchange import SharedStrings, WorkerStrings
from kpg.runtime.operators.user import Apply
from kpg.runtime.operators.worker_group import (
    LEVEL_SHIFT,
    PeerFailedError,
    Peers,
    StepAbortError,
    WorkerGroup,
    level_of,
)
from kpg.runtime.plan import Plan
from kpg.runtime.render import RenderResult
from kpg.runtime.trace.updates import ONE, Updates
from kpg.runtime.types import Type
from kpg.runtime.worker.dataflows import LocalInstallation
from kpg.runtime.worker.worker import Worker

if TYPE_CHECKING:
    import pyarrow as pa

    from kpg.runtime.chain.chain import Chain
    from kpg.runtime.checkpoint.worker_state import PendingRestore
    from kpg.runtime.cluster.skew import IndexSample

Words = NDArray[np.int64]
PASS_THROUGH: Final = (
    Linear,
    Concat,
    Negate,
    LocalShare,
    Join,
    Apply,
    Expand,
    Single,
    Enter,
    Leave,
    ArrangedLeave,
)
"""Operators whose contents are computed from those of their inputs."""


def _without_contents(operators: Iterable[Operator], outside: Iterable[Operator] = ()) -> set[Operator]:
    """Return the operators whose contents cannot be read.

    Rows of theirs, or of their inputs, were sent to other members and not stored.
    """
    result = set(outside)
    for operator in operators:
        if isinstance(operator, Loop):
            if not _without_contents(operator.body, result).isdisjoint(operator.results):
                result.add(operator)
        elif isinstance(operator, SendExchange | Segment) or (
            isinstance(operator, PASS_THROUGH) and not result.isdisjoint(operator.inputs)
        ):
            result.add(operator)
    return result


class Member(MemberRanks):
    """Member number ``index`` of ``count``."""

    def __init__(
        self, index: int, count: int, peers: Peers, merge_effort: int, memory: SharedMemory | None
    ) -> None:
        """Create a member; ``memory`` is shared with the coordinator and all members."""
        super().__init__(merge_effort, memory)
        strings = WorkerStrings if memory is None else SharedStrings
        self.worker_group = WorkerGroup(index, count, strings(self.dictionary, count), peers)
        self._text_columns: dict[str, tuple[int, ...]] = {}
        self._exports: dict[str, Export] = {}
        self._loads, self._keys, self._hashed_keys = {}, {}, {}
        self._has_open_step = False
        self._last_rendered: RenderResult | None = None

    def execute(self, command: Command) -> Reply:
        """Run a command; any error is in the reply."""
        group = self.worker_group
        barriers_before = group.barrier_count
        try:
            self._apply_command_updates(command)
            if command.method == "put":
                group.begin_step(is_done=False)
            value = getattr(self, command.method)(*unpickle_arguments(command.args, group.index))
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
        getattr(self, command.method)(*command.args)

    def set_watch(self, watch: Watch) -> None:
        """Set the watch that ends a step at a safe point."""
        self._interrupt.watch = watch

    # Positions of operators

    def next_position(
        self, inputs: Below = (), scope: Scope | None = None, *, at_barrier: bool = False
    ) -> int:
        """Return a position after all existing operators, at the level of the inputs in this scope.

        With ``at_barrier`` it is at the next level.
        """
        level = max((level_of(one) for one in inputs if one.place.scope is scope), default=0) + at_barrier
        return (level << LEVEL_SHIFT) + Worker.next_position(self)

    def _register(self, operators: tuple[Operator, ...]) -> None:
        """Share operators, except those whose contents only a barrier could provide."""
        unreadable = _without_contents(operators)
        super()._register(tuple(one for one in operators if one not in unreadable))
        for inner in iterate_operators(tuple(unreadable)):
            self.inputs.add_custom(inner)

    def _disown(self, name: str, operators: Iterable[Operator]) -> list[Operator]:
        orphans = super()._disown(name, operators)
        for orphan in orphans:
            self.worker_group.barriers.pop(orphan.place.position, None)
        return orphans

    def _last_level(self, extra: Iterable[Operator] = ()) -> int:
        operators = {one for view in self.views.values() for one in view.operators} | set(extra)
        outermost = tuple(one for one in operators if one.place.scope is self.scope)
        return last_barrier_level(outermost, self.worker_group)

    # Running

    def _chain_for(self, step: Step) -> "Chain | None":
        return None

    def _hydrate(self, name: str, rendered: RenderResult, pending_restore: "PendingRestore | None") -> None:
        group = self.worker_group
        group.last_level = self._last_level(rendered.new)
        self._last_rendered = rendered
        group.reach_barrier([], None)  # a barrier: all members have rendered the plan
        group.is_done = not group.last_level
        super()._hydrate(name, rendered, pending_restore)

    def _run_operators(self, step: Step, chain: "Chain | None" = None) -> None:
        """Run the operators level by level, with a barrier before each level."""
        group, level = self.worker_group, 0
        self.is_stepping = True
        try:
            while True:
                group.is_done = level == group.last_level
                self._run_level(step, level)
                if level == group.last_level:
                    return
                result = group.reach_barrier(
                    step.queue, (step.queue[0][0] >> LEVEL_SHIFT,) if step.queue else None
                )
                group.deliver(result)
                if result.phase is None:
                    group.is_done = True
                    return
                level = result.phase[-1]
        finally:
            self.is_stepping = False

    def _run_level(self, step: Step, level: int) -> None:
        clock = time.perf_counter
        queue = step.queue
        while queue and queue[0][0] >> LEVEL_SHIFT <= level:
            operator = step.next()
            assert operator is not None
            self._interrupt.check()
            self.worker_group.failing_position = operator.position & ((1 << LEVEL_SHIFT) - 1)
            start = clock()
            operator.flush()
            elapsed = clock() - start
            operator.counters.seconds += elapsed
            operator.counters.step_seconds = elapsed

    # Methods that the coordinator calls by name

    def put(self, name: str, plan: Plan, position: int, row_counts: dict[str, int]) -> tuple[Stats, int, int]:
        """Install a placed plan; return its cost, its output's position, and the last operator's position.

        ``row_counts`` are the rows of its tables at all workers together.
        """
        self._last_position = max(self._last_position, position)
        self.worker_group.table_rows = row_counts
        try:
            installed = self.install(name, plan)
        except BaseException:
            self.worker_group.last_level = self._last_level()
            raise
        assert installed.rendered_plan is not None and self._last_rendered is not None
        output_types = self._last_rendered.identities.types[plan.output]
        self._text_columns[name], self._last_rendered = self.worker_group.text_columns(output_types), None
        return installed.stats, installed.operator_position, self._last_position

    def drop(self, name: str) -> int:
        """Uninstall a plan, if it exists; return the last position of an operator."""
        view = self.views.get(name)
        if view is not None:
            self.uninstall(view)
            self._text_columns.pop(name, None)
            self.worker_group.last_level = self._last_level()
        return self._last_position

    def feed(self, name: str, width: int, identity: str) -> None:
        """Create an input."""
        place = Place(identity, f"Input {name}", self.next_position(), (), self.scope, width)
        self.inputs.create(name, place, self.epoch + 1)

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
        self.worker_group.begin_step(is_done=not self.worker_group.last_level)
        self._has_open_step = True
        step = self.scope.step = Step(lower, upper)
        try:
            self._apply_changes(changes)
            self._feed_sources(step, None)
            for identity, updates, text_columns in input_updates:
                self.inputs.get(identity).push(
                    0,
                    self._own_updates(
                        updates.with_data(self._decode_words(updates.data, text_columns)), text_columns
                    ),
                )
            for custom in self.inputs._customs:
                custom.schedule_before(upper)
            self._run_operators(step)
            return {name: self._watched_changes(view) for name, view in self.views.items() if view.is_watched}
        except BaseException:
            self._roll_back_step(step)
            self._has_open_step = False
            raise

    def _watched_changes(self, view: LocalInstallation) -> list[Updates]:
        assert view.capture is not None
        text_columns = self._text_columns[view.name]
        return [
            self._encode_updates(one, text_columns)
            for one in view.capture.view_changes(view.capture.uncommitted_changes)
        ]

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
            self._roll_back_step(self.scope.step)
            self._has_open_step = False

    def check_constraints(self, epoch: int) -> None:
        """Commit the open step."""
        self.epoch = epoch
        self._open_epoch = epoch + 1
        self._has_open_step = False
        self._commit_step(self.scope.step, None)
        self._finish_loads()
        for view in self.views.values():
            if view.is_watched:
                view.drain()

    def consider(self, name: str, changes: list[ChangeMessage]) -> Updates:
        """Return the changes that changes of tables would make to an installation, and roll them back."""
        self.worker_group.begin_step(is_done=not self.worker_group.last_level)
        view = self.views[name]
        was_watched, readers = view.is_watched, view.capture_readers(None)
        self.watch(view)
        assert view.capture is not None
        step = self.scope.step = Step(self.epoch + 1, self.epoch + 2)
        try:
            self._apply_changes(changes)
            self._feed_sources(step, None)
            self._run_operators(step)
            found = view.capture.view_changes(view.capture.uncommitted_changes)
            whole = Updates.concat([Updates.empty(view.output.width, 1), *found])
            return self._encode_updates(whole, self._text_columns[name])
        finally:
            self._roll_back_step(step)
            step.visited.clear()
            view.capture_readers(readers)
            if not was_watched:
                self.unwatch(view)

    def rows(self, name: str) -> tuple[Words, Words]:
        """Return this worker's rows of an installation, and their multiplicities."""
        data, diffs = self.views[name].rows()
        return self._encode_updates(
            Updates(data, np.zeros((1, 1), np.int64), diffs), self._text_columns[name]
        ).data, diffs

    def matching(self, name: str, prefix: Words) -> tuple[Words, Words]:
        """Return the rows that begin with these words of the coordinator, and their multiplicities."""
        text_columns = self._text_columns[name]
        own = prefix.copy()
        for column in text_columns:
            if column < own.shape[0]:
                own[column] = self.worker_group.strings.decode_from_coordinator(own[column : column + 1])[0]
        data, diffs = self.views[name].rows_with_prefix(own.tolist())
        return self._encode_updates(
            Updates(data, np.zeros((1, 1), np.int64), diffs), text_columns
        ).data, diffs

    def rows_of(self, name: str, keys: Words) -> tuple[Words, Words]:
        """Return positions of the coordinator's keys of an ego view that have a row here, and the rows."""
        text_columns = self._text_columns[name]
        own = self.worker_group.strings.decode_from_coordinator(keys) if 0 in text_columns else keys.copy()
        has_row, rows = self.views[name].rows_of(own)
        found_rows = np.ascontiguousarray(rows[:, has_row])
        data = self._encode_updates(Updates(found_rows, np.zeros((1, 1), np.int64), ONE), text_columns).data
        return np.flatnonzero(has_row), data

    def overlay(self, name: str) -> OverlayInfo | None:
        """Return the statistics of an ego view's overlay here."""
        return self.views[name].overlay()

    def decide(self, name: str) -> None:
        """Recompute an ego view's push decisions from the observed traffic."""
        self.views[name].decide_pushes()

    def choose(self, name: str, readers: Words | None) -> None:
        """Capture only changes of these readers (coordinator's words) of an ego view; None captures all."""
        if readers is not None and 0 in self._text_columns[name]:
            readers = np.sort(self.worker_group.strings.decode_from_coordinator(readers))
        self.views[name].capture_readers(readers)

    def offer(
        self, name: str, names: tuple[str, ...], types: tuple[Type, ...], hosts: list[str], secret: bytes
    ) -> "tuple[int, pa.Schema]":
        """Let other processes fetch this worker's rows of an installation; return port and schema."""
        data, diffs = self.views[name].rows()
        words = np.repeat(data, np.broadcast_to(diffs, data.shape[1]), axis=1)
        table = decode_table(words, names, types, self.dictionary)
        self.withdraw(name)
        self._exports[name] = Export(table, hosts[self.worker_group.index], secret)
        return self._exports[name].port, schema_of(table)

    def withdraw(self, name: str) -> None:
        """End an export."""
        export = self._exports.pop(name, None)
        if export is not None:
            export.close()

    def observe(self, name: str, watched: bool) -> None:
        """Start or stop capturing changes."""
        view = self.views[name]
        if watched:
            self.watch(view)
        else:
            self.unwatch(view)

    def heard(self, name: str, listener: int, text_columns: tuple[int, ...]) -> list[Updates]:
        """Return the updates of a sink since the last call."""
        return [self._encode_updates(one, text_columns) for one in self.views[name].drain_sink(listener)]

    def ignore(self, name: str, listener: int) -> None:
        """Stop a sink; its buffered updates can still be drained."""
        self.views[name].close_sink(listener)

    def statistics(self, name: str) -> tuple[Stats, int, bool]:
        """Return the cost of an installation, its number of rows, and False."""
        view = self.views[name]
        return view.stats, view.size, False

    def state(self, name: str, prefix: str) -> tuple[int, int]:
        """Return rows and bytes as ``Installation.exclusive_state``."""
        return self.views[name].exclusive_state(prefix)

    def operators_here(self) -> list[OperatorInfo]:
        """Return all operators with their work so far."""
        return self.operators()

    def arrangements_here(self) -> list[ArrangementInfo]:
        """Return all arrangements."""
        return self.arrangements()

    def work_here(self) -> "tuple[WorkerStatistics, list[IndexSample]]":
        """Return the state and work of this worker, and samples of its indexes."""

        operators = set(self._all_operators())
        exchanges = [one for one in operators if isinstance(one, SendExchange)]
        sent, received = sum(one.sent_rows for one in exchanges), sum(one.received_rows for one in exchanges)
        rows, size = sum(one.rows for one in operators), sum(one.bytes for one in operators)
        if self._memory is None:
            rows += sum(table.rows for table in self.tables.values())
            size += sum(table.bytes for table in self.tables.values()) + self.dictionary.bytes
        indexes = sorted(one for one in operators if isinstance(one, Arrange))
        samples = [sample_index(one, self.dictionary) for one in indexes]
        return WorkerStatistics(
            rows, size, time.process_time(), sent, received, self.worker_group.barrier_count
        ), samples

    def forget(self, identity: str) -> None:
        """Drop an input with its buffered updates."""
        self.drop_input(identity)
