"""``plan.Exchange``: sends each row to the workers that need it; and loops with exchanges in their body.

Rows that all workers hold are divided without communication. In a loop, all workers run the rounds together
and agree on the end.
"""

from collections.abc import Iterator
from dataclasses import field
from heapq import heappop
from typing import Final, assert_never

import numpy as np

from kpg.runtime.dataflow.dataflow_graph import LoopScope, Operator, Step
from kpg.runtime.errors import InternalError
from kpg.runtime.kernels import partial as kernels
from kpg.runtime.operators.loop import Loop
from kpg.runtime.operators.worker_group import LEVEL_SHIFT, Parcel, Phase, WorkerGroup
from kpg.runtime.plan import Combine, Exchange, Route
from kpg.runtime.records import dataclass
from kpg.runtime.tables.table import Table
from kpg.runtime.trace.updates import ONE, Updates, Words
from kpg.runtime.types import NULL

MIN_COMBINED: Final = 1024
"""Updates from which combining them before sending pays."""
RANGE_BITS: Final = 12
"""Bits of a rowid within a range that goes to one worker; adjacent rows are read faster."""
COALESCE_ROWS: Final = 1 << 16
"""Received rows up to which all parts are passed on as one.

Each part has a cost in all operators below.
"""
COMBINE_ROWS: Final = 1 << 20
"""Buffered updates at which they are combined before the exchange."""


@dataclass(slots=True, eq=False, kw_only=True)
class LocalShare(Operator):
    """This worker's share of rows that every worker holds."""

    worker_group: WorkerGroup
    node: Exchange
    table: Table | None
    is_interned: bool
    """Whether the routing column is text."""

    def push(self, port: int, updates: Updates) -> None:
        self.counters.updates_in += len(updates)
        self.place.scope.forward(self, port, updates)

    def _select_own(self, updates: Updates) -> Updates:
        node, worker_group = self.node, self.worker_group
        if node.route is Route.FIRST:
            return updates if worker_group.index == 0 else updates.take(np.empty(0, np.int64))
        assert node.by is not None
        words = updates.data[node.by]
        if node.route is Route.PIECES:
            return _select_own_ranges(updates, words, worker_group)
        owners, interned = worker_group.owners, self.is_interned
        if updates.width == 1 and updates.constant_time and updates.constant_diff:
            if self.table is None or node.fetched is None:
                rows = owners.select_own(words, words, worker_group.index, interned=interned)
            else:
                rows = owners.select_own_rows(
                    self.table.groups, node.fetched[1], words, worker_group.index, interned=interned
                )
            return updates.with_data(rows.reshape(1, -1))
        if self.table is not None and node.fetched is not None:
            columns = np.array([node.fetched[1]], np.int64)
            words = self.table.groups.read(columns, np.ascontiguousarray(words))[0]
        places = np.arange(len(updates))
        mine = owners.select_own(words, places, worker_group.index, interned=interned)
        return updates if mine.shape[0] == len(updates) else updates.take(mine)

    def absorb(self) -> None:
        for updates in self.take_pending():
            self.emit(self._select_own(updates), more=True)

    def flush(self) -> None:
        for updates in self.take_pending():
            self.emit(self._select_own(updates))

    def snapshot(self) -> Iterator[Updates]:
        for updates in self.inputs[0].snapshot():
            yield self._select_own(updates)


def _select_own_ranges(updates: Updates, rowids: Words, worker_group: WorkerGroup) -> Updates:
    """Return the updates whose rowid ranges belong to this worker."""
    count, index, n = worker_group.count, worker_group.index, rowids.shape[0]
    alike = updates.width == 1 and updates.constant_time and updates.constant_diff
    if not alike or not n or int(rowids[-1]) - int(rowids[0]) != n - 1 or (np.diff(rowids) != 1).any():
        return updates.take(np.flatnonzero((rowids >> RANGE_BITS) % count == index))
    first, end = int(rowids[0]), int(rowids[-1]) + 1
    piece = first >> RANGE_BITS
    piece += (index - piece) % count
    starts = range(piece << RANGE_BITS, end, count << RANGE_BITS)
    parts = [rowids[max(start - first, 0) : start + (1 << RANGE_BITS) - first] for start in starts]
    return updates.with_data(np.concatenate([rowids[:0], *parts]).reshape(1, -1))


@dataclass(slots=True, eq=False, kw_only=True)
class SendExchange(Operator):
    """Exchange of rows that each exist at one worker: sent at the barrier, emitted at the next level."""

    worker_group: WorkerGroup
    node: Exchange
    is_interned: bool
    text_columns: tuple[int, ...]
    """Columns of dictionary codes."""
    received_updates: list[Updates] = field(default_factory=list)
    sent_rows: int = 0
    """Rows sent to other workers."""
    received_rows: int = 0
    """Rows received from other workers."""

    def push(self, port: int, updates: Updates) -> None:
        self.counters.updates_in += len(updates)
        self.place.scope.forward(self, port, updates)

    def absorb(self) -> None:
        if self.node.combine is not None and sum(map(len, self.pending)) > COMBINE_ROWS:
            self.pending = [preaggregate(Updates.concat(self.take_pending()), self.node.combine)]

    def collect(self, out: list[list[Parcel]]) -> None:
        """Append the rows for each worker to its list."""
        pending = self.take_pending()
        if not pending:
            return
        updates = Updates.concat(pending)
        if self.node.combine is not None:
            updates = preaggregate(updates, self.node.combine)
        for worker, part in enumerate(self._split_by_worker(updates)):
            if part is None:
                continue
            if worker == self.worker_group.index:
                self.received_updates.append(part)
            else:
                self.sent_rows += len(part)
                out[worker].append(
                    Parcel(self.place.position, self._to_common_codes(part), self.text_columns)
                )

    def _split_by_worker(self, updates: Updates) -> list[Updates | None]:
        """Return the updates for each worker."""
        count = self.worker_group.count
        match self.node.route:
            case Route.EVERYWHERE:
                return [updates] * count
            case Route.FIRST:
                return [updates] + [None] * (count - 1)
            case Route.OWNER:
                assert self.node.by is not None
                owners, words = self.worker_group.owners, updates.data[self.node.by]
                positions_by_worker = owners.positions_by_worker(words, interned=self.is_interned)
                return [updates.take(some) if some.shape[0] else None for some in positions_by_worker]
            case Route.PIECES:
                raise InternalError("rows of a sending exchange have owners")
            case _:
                assert_never(self.node.route)

    def _to_common_codes(self, updates: Updates) -> Updates:
        if not self.text_columns:
            return updates
        data = updates.data.copy()
        for column in self.text_columns:
            data[column] = self.worker_group.strings.encode(data[column])
        return updates.with_data(data)

    def receive(self, updates: Updates) -> None:
        """Buffer the updates of another worker."""
        self.received_rows += len(updates)
        self.received_updates.append(updates)
        self.schedule()

    def flush(self) -> None:
        received, self.received_updates = self.received_updates, []
        if len(received) > 1 and sum(map(len, received)) <= COALESCE_ROWS:
            received = [Updates.concat(received)]
        for updates in received:
            self.emit(self.step.share_stamp(updates) if self._is_current_round(updates) else updates)

    def _is_current_round(self, updates: Updates) -> bool:
        """Return whether the updates have the current round and a single time."""
        time, step = updates.time, self.step
        return time.shape == (len(step.rounds) + 1, 1) and time[1:, 0].tolist() == list(step.rounds)

    def snapshot(self) -> Iterator[Updates]:
        raise NotImplementedError("an exchange keeps no rows: its consumers hold them")

    def commit(self) -> None:
        self.pending.clear()
        self.received_updates.clear()

    def rollback(self) -> None:
        self.pending.clear()
        self.received_updates.clear()


def preaggregate(updates: Updates, combine: Combine) -> Updates:
    """Return fewer updates with the same effect on a reduce.

    A group of n rows, with sum s of a column that is NULL in m of them, becomes (s, 1), (0, n - m - 1),
    and (NULL, m), so that the diffs add up to the number of rows.
    """
    n = len(updates)
    if n < MIN_COMBINED or not updates.constant_time:
        return updates.consolidate_if_smaller()
    key, width = combine.key, updates.width
    summed = np.array([column in combine.summed for column in range(key, width)], np.int64)
    groups, sums = np.empty((n // 4, 2 + width - key), np.int64), np.empty((n // 4, width - key), np.int64)
    slots = np.full(1 << (n - 1).bit_length(), -1, np.int64)
    data = np.ascontiguousarray(updates.data)
    group_count = kernels.add_up(data, np.ascontiguousarray(updates.diff), key, summed, slots, groups, sums)
    if group_count < 0:
        return updates.consolidate_if_smaller() if group_count == kernels.MANY else updates
    keys, remaining = data[:key, groups[:group_count, 0]], groups[:group_count, 1]
    rows, counts = list[Words](), list[Words]()
    for place, column in enumerate(range(key, width)):
        filled, total = groups[:group_count, 2 + place], sums[:group_count, place]
        remaining = remaining - filled
        if summed[place]:
            some = total != 0
            rows.append(_fill_rows(keys[:, some], width, column, total[some]))
            counts.append(np.ones(int(some.sum()), np.int64))
            filled = filled - some
        rows.append(_fill_rows(keys, width, column, np.zeros(group_count, np.int64)))
        counts.append(filled)
    rows.append(_fill_rows(keys, width, width, np.empty(0, np.int64)))
    counts.append(remaining)
    diff = np.concatenate(counts)
    nonzero = np.flatnonzero(diff)
    whole = np.ascontiguousarray(np.concatenate(rows, axis=1)[:, nonzero])
    return Updates(whole, updates.time, diff[nonzero] if nonzero.shape[0] else ONE)


def _fill_rows(keys: Words, width: int, column: int, words: Words) -> Words:
    """Return rows of these keys with ``words`` in one column and NULL in all others."""
    out = np.full((width, keys.shape[1]), NULL, np.int64)
    out[: keys.shape[0]] = keys
    if column < width:
        out[column] = words
    return out


@dataclass(frozen=True, slots=True)
class DistributedRounds:
    """Runs the rounds of a loop at all workers; ``last_level`` is the body's last level with a barrier.

    The next round may begin without a barrier: no worker can have work for an earlier one.
    ``operators/worker_group.py`` describes the protocol.
    """

    worker_group: WorkerGroup
    last_level: int

    def __call__(self, loop: Loop) -> None:
        """Run all rounds of the step."""
        scope, worker_group, outer = loop.body_scope, self.worker_group, loop.step
        worker_group.running_loops += 1
        depth = len(outer.rounds)
        rounds: tuple[int, ...] = (*outer.rounds, 0)
        level, step = 0, None
        scope.active = True
        while True:
            if step is None and scope.order and scope.order[0] == rounds:
                step = scope.begin_round(outer, rounds)
            if step is not None:
                self._run(loop, step, level)
            if level == self.last_level:
                rounds, level, step = (*outer.rounds, rounds[-1] + 1), 0, None
                continue
            met = worker_group.reach_barrier(
                step.queue if step is not None else [], _next_phase(scope, step, rounds, depth)
            )
            if met.phase is None:
                break
            if met.phase[:-1] != rounds:
                rounds, step = met.phase[:-1], None
            level = met.phase[-1]
            if level and step is None:
                step = scope.begin_round(outer, rounds)
            worker_group.deliver(met)
        scope.active = False
        worker_group.running_loops -= 1

    def _run(self, loop: Loop, step: Step, level: int) -> None:
        queue, interrupt = step.queue, loop.body_scope.interrupt
        while queue and queue[0][0] >> LEVEL_SHIFT <= level:
            position, operator = heappop(queue)
            loop.touched_operators[operator] = None
            if interrupt.pending or interrupt.watch is not None:
                interrupt.check()
            self.worker_group.failing_position = position & ((1 << LEVEL_SHIFT) - 1)
            operator.flush()


def _next_phase(scope: LoopScope, step: Step | None, rounds: tuple[int, ...], depth: int) -> Phase | None:
    """Return the next phase in which this worker has work."""
    if step is not None and step.queue:
        return (*rounds, step.queue[0][0] >> LEVEL_SHIFT)
    order = scope.order
    if order and order[0][:depth] == rounds[:depth]:
        return (*order[0], 0)
    return None


def last_barrier_level(operators: tuple[Operator, ...], worker_group: WorkerGroup) -> int:
    """Return the last level with a barrier among operators of one scope; 0 if there is none."""
    barrier_levels = (
        operator.place.position >> LEVEL_SHIFT
        for operator in operators
        if worker_group.is_barrier(operator.place.position)
    )
    return max(barrier_levels, default=0)
