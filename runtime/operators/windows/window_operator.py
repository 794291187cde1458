"""The operator of ``plan.Window``: incremental window functions over changed partitions.

For each changed partition it retracts the old results and emits the new ones. A small partition is
read twice from the arrangement: without this step's batch and with it. A large one is read this way
once, and then has an index (``partition_index.py``). With an index, a step costs in proportion to
the affected rows, provided that every call is local (``plan.is_local``).

A :class:`Change` is a range of positions; the rows before and after it are unchanged. It affects a
bounded number of rows, peer groups or values around it, or propagates: to the end of the partition,
or until the propagated state is the same as before. The affected rows are evaluated together with
the rows of their frames; partial aggregates represent the rest.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import partial
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.dataflow_graph import Operator
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.functions import TEXT_WORDS, Hierarchical, lookup_aggregate, window_function
from kpg.runtime.functions.aggregation.window_functions import WindowResult
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.topk import (
    ExactOrder,
    GroupRows,
    ScheduledGroups,
    Tasks,
    distinct_prefixes,
    flush_groups,
    group_snapshot,
    read_differences,
)
from kpg.runtime.operators.windows.partition_index import IndexSpec, Key, Node, PartitionIndex
from kpg.runtime.operators.windows.window_evaluation import (
    Surroundings,
    bucket_starts,
    evaluate_calls,
    summaries_of,
)
from kpg.runtime.operators.windows.window_frames import build_layout, limit_of
from kpg.runtime.plan import Bound, Edge, Exclude, Unit, WindowCall, is_local
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Literal
from kpg.runtime.trace.batch import Layers, collect
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import NULL

Words = NDArray[np.int64]


NUMBERING = (WindowResult.ROW_NUMBER, WindowResult.RANK, WindowResult.DENSE_RANK, WindowResult.PERCENT_RANK)
SIZE_DEPENDENT = (WindowResult.PERCENT_RANK, WindowResult.CUME_DIST)
"""Functions that depend on the partition's size: a change of it affects all rows."""
POSITIONAL = (*NUMBERING, WindowResult.CUME_DIST, WindowResult.NTILE)
"""Functions that depend on positions only."""
PEERS = (Exclude.GROUP, Exclude.TIES)
PRECEDING, FOLLOWING = Edge.UNBOUNDED_PRECEDING, Edge.UNBOUNDED_FOLLOWING


def answer_of(call: WindowCall) -> WindowResult | None:
    """Return the kind of a window function's result; None for aggregates."""
    function = window_function(call.function)
    return None if function is None else function.answer


def has_local_effect(call: WindowCall) -> bool:
    """Return whether a change affects only nearby results, apart from new extreme values.

    If not (row numbers, running totals), changes that compensate each other are best applied together.
    """
    answer, frame = answer_of(call), call.frame
    if answer is not None:
        return answer not in (*NUMBERING, WindowResult.CUME_DIST)
    closed = frame.start.edge is not PRECEDING and frame.end.edge is not FOLLOWING
    return closed or isinstance(lookup_aggregate(call.function).maintenance, Hierarchical)


def row_offset(call: WindowCall) -> int:
    """Return the offset of a lead, the negative one of a lag, or the number of an nth_value."""
    value = call.args[1] if len(call.args) > 1 else None
    number = value.value if isinstance(value, Literal) else 1
    number = number if isinstance(number, int) else 0
    return -number if answer_of(call) is WindowResult.LAG else number


def affected_start(
    index: PartitionIndex, calls: Sequence[WindowCall], at: int, rows: Sequence[list[int]]
) -> int:
    """Return the first position up to ``at`` whose result may change if ``rows`` at ``at`` change."""
    start = at
    for call in calls:
        answer, frame = answer_of(call), call.frame
        if answer is WindowResult.CUME_DIST:
            start = min(start, *(peers_start(index, at, row) for row in rows))
        if answer in POSITIONAL:
            continue
        if answer in (WindowResult.LAG, WindowResult.LEAD):
            start = min(start, at - max(row_offset(call), 0))
            continue
        edges = [frame.end]
        if frame.end.edge is FOLLOWING:
            edges = [frame.start]
        for bound in edges:
            for row in rows:
                start = min(start, _first_frame_with(index, call, bound, at, row))
        if frame.exclude in PEERS:
            start = min(start, *(peers_start(index, at, row) for row in rows))
        if _propagates_backward(call):
            start = min(start, at - 1)
    return max(start, 0)


def affected_end(
    index: PartitionIndex, calls: Sequence[WindowCall], at: int, rows: Sequence[list[int]]
) -> int:
    """Return the end of the positions from ``at`` on whose results may change with ``rows`` before it."""
    end = at
    for call in calls:
        answer, frame = answer_of(call), call.frame
        if answer in NUMBERING:
            end = max(end, at + 1)
        if answer in POSITIONAL:
            continue
        if answer in (WindowResult.LAG, WindowResult.LEAD):
            end = max(end, at - min(row_offset(call), 0))
            continue
        bound = frame.end if frame.start.edge is PRECEDING else frame.start
        for row in rows:
            end = max(end, _last_frame_with(index, call, bound, at, row))
        if frame.exclude in PEERS:
            end = max(end, *(peers_end(index, at, row) for row in rows))
        if _propagates_forward(call):
            end = max(end, at + 1)
    return min(end, index.size)


def peers_start(index: PartitionIndex, at: int, row: list[int]) -> int:
    """Return the start of the peers of ``row`` that directly precede ``at``."""
    peers = index.spec.peers
    own = [row[column] for column in peers]
    return index.find_first(0, at, lambda other: [other[column] for column in peers] == own)


def peers_end(index: PartitionIndex, at: int, row: list[int]) -> int:
    """Return the end of the peers of ``row`` from ``at`` on."""
    peers = index.spec.peers
    own = [row[column] for column in peers]
    return index.find_first(at, index.size, lambda other: [other[column] for column in peers] != own)


def _first_frame_with(index: PartitionIndex, call: WindowCall, bound: Bound, at: int, row: list[int]) -> int:
    """Return the first position before ``at`` whose frame, which ends at ``bound``, may contain the row."""
    unit = call.frame.unit
    if bound.edge in (Edge.PRECEDING, PRECEDING, FOLLOWING):
        return at
    if unit is Unit.ROWS:
        return at - (bound.offset if bound.edge is Edge.FOLLOWING else 0)
    start = peers_start(index, at, row)
    if bound.edge is Edge.CURRENT_ROW or at == 0:
        return start
    if unit is Unit.GROUPS:
        return min(start, index.group_start(max(index.count_groups(start) - bound.offset, 0)))
    return min(start, index.find_first(0, at, _bound_test(call, bound, row, forwards=True)))


def _last_frame_with(index: PartitionIndex, call: WindowCall, bound: Bound, at: int, row: list[int]) -> int:
    """Return the end of the positions from ``at`` on whose frames may contain the row.

    The frames start at ``bound``.
    """
    unit = call.frame.unit
    if bound.edge in (Edge.FOLLOWING, PRECEDING, FOLLOWING):
        return at
    if unit is Unit.ROWS:
        return at + (bound.offset if bound.edge is Edge.PRECEDING else 0)
    end, size = peers_end(index, at, row), index.size
    if bound.edge is Edge.CURRENT_ROW or at == size:
        return end
    if unit is Unit.GROUPS:
        return max(end, index.group_start(min(index.count_groups(at) + bound.offset + 1, size)))
    reaches = _bound_test(call, bound, row, forwards=False)
    return max(end, index.find_first(at, size, lambda other: not reaches(other)))


def _bound_test(
    call: WindowCall, bound: Bound, row: list[int], *, forwards: bool
) -> Callable[[list[int]], bool]:
    """Return a test whether a row's bound is at or beyond a value; False if one of them is NULL."""
    by = call.frame.ranged
    assert by is not None
    value = row[by.column]

    def test(other: list[int]) -> bool:
        if value == NULL or other[by.column] == NULL:
            return False
        limit = limit_of(other, bound, by, after=forwards)
        beyond = limit >= value if forwards is not by.descending else limit <= value
        return bool(beyond)

    return test


def _propagates_backward(call: WindowCall) -> bool:
    answer = answer_of(call)
    return (
        answer not in (*POSITIONAL, WindowResult.LAG, WindowResult.LEAD) and call.frame.end.edge is FOLLOWING
    )


def _propagates_forward(call: WindowCall) -> bool:
    answer = answer_of(call)
    return (
        answer not in (*POSITIONAL, WindowResult.LAG, WindowResult.LEAD)
        and call.frame.start.edge is PRECEDING
    )


Pair = tuple[int, int]
CHUNK_ROWS = 64
"""Rows first recomputed where a change propagates; the number doubles each time."""


@dataclass(frozen=True, slots=True)
class Change:
    """A partition before and after a change, which starts at ``start``."""

    old: PartitionIndex
    new: PartitionIndex
    start: int
    tail_rows: int
    """Number of unchanged rows at the end of both."""
    rows: Sequence[list[int]]
    """Rows inserted or deleted."""


@dataclass(frozen=True, slots=True)
class IndexedCalls:
    """The calls of a window over indexes with their partial aggregates."""

    calls: tuple[WindowCall, ...]
    dictionary: Dictionary

    def result_changes(self, change: Change) -> Iterator[tuple[Words, int]]:
        """Yield rows with their results, with sign -1 if removed and 1 if added; some cancel out."""
        old, new, calls = change.old, change.new, self.calls
        ends = old.size - change.tail_rows, new.size - change.tail_rows
        start = min(affected_start(index, calls, change.start, change.rows) for index in (old, new))
        tail_rows = min(
            index.size - affected_end(index, calls, end, change.rows)
            for index, end in zip((old, new), ends, strict=True)
        )
        yield from self._evaluate_both(change, (start, start), (old.size - tail_rows, new.size - tail_rows))
        portion = CHUNK_ROWS
        while tail_rows and not all(
            _is_unchanged_after(call, n, change, tail_rows) for n, call in enumerate(calls)
        ):
            before, tail_rows = tail_rows, max(tail_rows - portion, 0)
            portion *= 2
            starts = old.size - before, new.size - before
            yield from self._evaluate_both(change, starts, (old.size - tail_rows, new.size - tail_rows))
        portion = CHUNK_ROWS
        while start and not all(_is_unchanged_before(call, n, change, start) for n, call in enumerate(calls)):
            before, start = start, max(start - portion, 0)
            portion *= 2
            yield from self._evaluate_both(change, (start, start), (before, before))
        growth = change.new.size - change.old.size
        for low, high in find_moved_buckets(self.calls, change):
            for first, last in ((low, min(high, start)), (max(low, old.size - tail_rows), high)):
                if first < last:
                    shift = growth if first >= start else 0
                    yield from self._evaluate_both(change, (first, first + shift), (last, last + shift))

    def _evaluate_both(
        self, change: Change, starts: tuple[int, int], ends: tuple[int, int]
    ) -> Iterator[tuple[Words, int]]:
        for index, start, end, sign in zip((change.old, change.new), starts, ends, (-1, 1), strict=True):
            if start < end:
                yield self.evaluate_range(index, start, end), sign

    def evaluate_range(self, index: PartitionIndex, start: int, end: int) -> Words:
        """Return the rows at ``start <= position < end``, at least one, with their results."""
        low, high, head, tail = _required_rows(index, self.calls, start, end)
        size = index.size
        parts = (index.rows(0, head), index.rows(low, high), index.rows(size - tail, size))
        rows = np.ascontiguousarray(np.concatenate(parts, axis=1))
        layout = build_layout(rows, np.zeros(rows.shape[1], np.int64), index.spec.peers)
        layout.skipped_rows, layout.skipped_behind = low - head, size - tail - high
        layout.skipped_groups = index.count_groups(low) - int(layout.group[head])
        output_rows = slice(head + start - low, head + end - low)
        before, behind = (
            _partials_of(index, index.summarize(*bounds)) for bounds in ((head, low), (high, size - tail))
        )
        answers = evaluate_calls(
            layout, self.calls, self.dictionary, Surroundings(output_rows, before, behind)
        )
        return np.concatenate((rows[:, output_rows], answers))


def _partials_of(index: PartitionIndex, node: Node | None) -> Sequence[object]:
    return [summary.empty for summary in index.spec.summaries] if node is None else node.partials


def _required_rows(
    index: PartitionIndex, calls: Sequence[WindowCall], start: int, end: int
) -> tuple[int, int, int, int]:
    """Return the rows that results from ``start`` to ``end`` need: (low, high, head rows, tail rows)."""
    low, high, head, tail = start, end, 0, 0
    for call in calls:
        answer = answer_of(call)
        if answer in POSITIONAL:
            continue
        if answer in (WindowResult.LAG, WindowResult.LEAD):
            distance = row_offset(call)
            low, high = min(low, start + distance), max(high, end + distance)
            continue
        for bound in (call.frame.start, call.frame.end):
            if bound.edge is Edge.PRECEDING:
                low = min(low, _lowest_bound(index, call, bound, start))
            elif bound.edge is Edge.FOLLOWING:
                high = max(high, _highest_bound(index, call, bound, end))
        if call.frame.start.edge is Edge.UNBOUNDED_PRECEDING:
            first = {WindowResult.FIRST_VALUE: 1, WindowResult.NTH_VALUE: row_offset(call)}
            head = max(head, first.get(answer, 0) if answer is not None else 0)
        if call.frame.end.edge is Edge.UNBOUNDED_FOLLOWING and answer is WindowResult.LAST_VALUE:
            tail = 1
    low, high = max(low, 0), min(high, index.size)
    low = peers_start(index, low, index.row(low))
    high = peers_end(index, high, index.row(high - 1))
    if low <= head:
        low = head = 0
    if high >= index.size - tail:
        high, tail = index.size, 0
    return low, high, head, tail


def _lowest_bound(index: PartitionIndex, call: WindowCall, bound: Bound, start: int) -> int:
    """Return a position that no frame of the rows from ``start`` on begins before."""
    if call.frame.unit is Unit.ROWS:
        return start - bound.offset
    if call.frame.unit is Unit.GROUPS:
        return index.group_start(max(index.count_groups(start + 1) - 1 - bound.offset, 0))
    by, row = call.frame.ranged, index.row(start)
    assert by is not None
    if row[by.column] == NULL:
        return start
    limit, column, descending = limit_of(row, bound, by, after=False), by.column, by.descending

    def inside(other: list[int]) -> bool:
        value = other[column]
        return value != NULL and (value <= limit if descending else value >= limit)

    return index.find_first(0, start, inside) - 1


def _highest_bound(index: PartitionIndex, call: WindowCall, bound: Bound, end: int) -> int:
    """Return a position that no frame of the rows before ``end`` ends after."""
    if call.frame.unit is Unit.ROWS:
        return end + bound.offset
    if call.frame.unit is Unit.GROUPS:
        return index.group_start(min(index.count_groups(end) + bound.offset, index.size))
    by, row = call.frame.ranged, index.row(end - 1)
    assert by is not None
    if row[by.column] == NULL:
        return end
    limit, column, descending = limit_of(row, bound, by, after=True), by.column, by.descending

    def outside(other: list[int]) -> bool:
        value = other[column]
        return value == NULL or (value < limit if descending else value > limit)

    return index.find_first(end, index.size, outside) + 1


def _has_equal_partials(call: int, change: Change, old: tuple[int, int], new: tuple[int, int]) -> bool:
    """Return whether the partial aggregates of two ranges are equal."""
    nodes = (change.old.summarize(*old), change.new.summarize(*new))
    left, right = (
        _partials_of(index, node)[call] for index, node in zip((change.old, change.new), nodes, strict=True)
    )
    return bool(left == right)


def _is_unchanged_after(call: WindowCall, number: int, change: Change, rest: int) -> bool:
    """Return whether the last ``rest`` rows keep their results."""
    answer, frame, old, new = answer_of(call), call.frame, change.old, change.new
    ends = old.size - rest, new.size - rest
    match answer:
        case WindowResult.ROW_NUMBER | WindowResult.CUME_DIST:
            return ends[0] == ends[1]
        case WindowResult.NTILE:
            return True
        case WindowResult.RANK | WindowResult.PERCENT_RANK:
            starts = (
                peers_start(index, end, index.row(end)) for index, end in zip((old, new), ends, strict=True)
            )
            return ends[0] == ends[1] and len(set(starts)) == 1
        case WindowResult.DENSE_RANK:
            return old.count_groups(ends[0]) == new.count_groups(ends[1])
        case _ if frame.start.edge is not Edge.UNBOUNDED_PRECEDING:
            return True
        case WindowResult.FIRST_VALUE | WindowResult.NTH_VALUE:
            return change.start >= max(row_offset(call), 1)
        case None:
            return _is_aggregate_unchanged(call, number, change, (0, 0), ends, frame.end)
        case _:
            return True


def _is_unchanged_before(call: WindowCall, number: int, change: Change, start: int) -> bool:
    """Return whether the first ``start`` rows keep their results."""
    answer, frame, old, new = answer_of(call), call.frame, change.old, change.new
    if answer in SIZE_DEPENDENT:
        return old.size == new.size
    if answer in POSITIONAL or frame.end.edge is not Edge.UNBOUNDED_FOLLOWING:
        return True
    match answer:
        case WindowResult.LAST_VALUE:
            return change.tail_rows > 0
        case WindowResult.NTH_VALUE:
            return change.start >= row_offset(call)
        case None:
            return _is_aggregate_unchanged(
                call, number, change, (start, start), (old.size, new.size), frame.start
            )
        case _:
            return True


def find_moved_buckets(calls: Sequence[WindowCall], change: Change) -> list[Pair]:
    """Return the old ranges of unchanged rows that move to another bucket; nearby ranges are merged."""
    old, new = change.old.size, change.new.size
    ranges = [np.empty((2, 0), np.int64)]
    for call in calls:
        number = call.args[0] if answer_of(call) is WindowResult.NTILE else None
        buckets = number.value if isinstance(number, Literal) else None
        if old == new or not isinstance(buckets, int) or buckets < 1:
            continue
        before, after = (bucket_starts(size, buckets, max(old, new) + 1) for size in (old, new))
        ahead = np.minimum(before, after), np.minimum(np.maximum(before, after), change.start)
        then = after + old - new
        behind = np.maximum(np.minimum(before, then), old - change.tail_rows), np.maximum(before, then)
        ranges += [np.stack(bounds) for bounds in (ahead, behind)]
    stretches = np.concatenate(ranges, axis=1)
    stretches = stretches[:, stretches[0] < np.minimum(stretches[1], old)]
    merged_ranges: list[Pair] = []
    for low, high in stretches[:, np.argsort(stretches[0])].T.tolist():
        if merged_ranges and low <= merged_ranges[-1][1] + CHUNK_ROWS:
            low, high = merged_ranges[-1][0], max(merged_ranges.pop()[1], high)
        merged_ranges.append((low, min(high, old)))
    return merged_ranges


def _is_aggregate_unchanged(
    call: WindowCall, number: int, change: Change, starts: Pair, ends: Pair, other: Bound
) -> bool:
    """Return whether an aggregate's remaining results are unchanged.

    They are if the changed rows have equal partial aggregates, or the rows that all remaining frames
    share. These are all rows, or those up to the rows computed so far, if every remaining frame
    contains them.
    """
    old, new, exclude = change.old.size, change.new.size, call.frame.exclude
    changed = (change.start, old - change.tail_rows), (change.start, new - change.tail_rows)
    if _has_equal_partials(number, change, *changed):
        return True
    if (call.frame.start.edge, call.frame.end.edge) == (Edge.UNBOUNDED_PRECEDING, Edge.UNBOUNDED_FOLLOWING):
        return exclude is Exclude.NO_OTHERS and _has_equal_partials(number, change, (0, old), (0, new))
    if other.edge in (Edge.PRECEDING, Edge.FOLLOWING):
        return False
    whole = exclude in (Exclude.NO_OTHERS, Exclude.CURRENT_ROW)
    return whole and _has_equal_partials(number, change, (starts[0], ends[0]), (starts[1], ends[1]))


Partition = tuple[int, ...]
INDEXED_ROWS: Final = 1024
"""Rows from which a partition has an index."""
MAX_INDEXED_CHANGES: Final = 16
"""Changed rows of a partition up to which its index is used.

For more, reading the partition is cheaper.
"""


@dataclass(slots=True, eq=False, kw_only=True)
class Window(Operator):
    """Each row of a partition with the calls' results; equal rows are separate rows."""

    arrangement: Arrange
    group: int
    scheduled_groups: ScheduledGroups = field(default_factory=ScheduledGroups)
    peers: tuple[int, ...]
    calls: tuple[WindowCall, ...]
    exact: ExactOrder | None
    dictionary: Dictionary
    index_spec: IndexSpec | None = None
    """Properties of the indexes; None if large partitions have none."""
    indexes: dict[Partition, PartitionIndex] = field(default_factory=dict)
    undo_indexes: dict[Partition, PartitionIndex | None] = field(default_factory=dict)
    """Previous indexes of the partitions that the step has changed."""
    computed_rows: int = 0
    """Rows computed so far, for tests that count work."""

    def snapshot(self) -> Iterator[Updates]:
        return group_snapshot(self)

    def read_groups(self, layers: Layers, tasks: Tasks, visible_layers: Words) -> GroupRows:
        rows, count, task, _ = collect(
            layers, tasks.prefix, tasks.times, visible_layers, self.arrangement.width
        )
        if self.exact is not None:
            order = self.exact.order(rows, task)
            rows, count, task = rows[:, order], count[order], task[order]
        if (count != 1).any():
            rows, task = np.repeat(rows, count, axis=1), np.repeat(task, count)
        self.computed_rows += task.shape[0]
        layout = build_layout(rows, task, self.peers)
        answers = evaluate_calls(layout, self.calls, self.dictionary)
        return np.ascontiguousarray(np.concatenate((rows, answers))), np.ones(task.shape[0], np.int64), task

    def flush(self) -> None:
        step = self.step
        local = self.index_spec is not None and self.place.scope.depth == 1
        if local and not step.hydrating and self.pending:
            if step.has_single_time:
                self._flush_locally(Updates.concat(self.take_pending()).consolidate())
                return
            for prefix in distinct_prefixes(self.pending, (), self.group).T.tolist():
                self._set_index(tuple(prefix), None)
        for rounds in flush_groups(self, partial(read_differences, self)):
            self.place.scope.schedule_at(self, rounds)

    def _flush_locally(self, updates: Updates) -> None:
        """Emit the differences of partitions, by their index or by reading them."""
        parts: list[Updates] = []
        unindexed: list[Updates] = []
        for part in _split_partitions(updates, self.group):
            index = self.indexes.get(_partition_of(part, self.group))
            if index is None or len(part) > MAX_INDEXED_CHANGES:
                unindexed.append(part)
            else:
                for some in self._group_changes(index, part):
                    parts += self._apply_changes(self.indexes[_partition_of(part, self.group)], some)
        if unindexed:
            for part in unindexed:
                self._set_index(_partition_of(part, self.group), None)
            parts += self._recompute(Updates.concat(unindexed))
        if parts:
            self.emit(Updates.concat(parts).consolidate())

    def _group_changes(self, index: PartitionIndex, updates: Updates) -> list[Updates]:
        """Split a partition's changes into groups to apply together: all, or neighbours."""
        if len(updates) == 1 or not all(map(has_local_effect, self.calls)):
            return [updates]
        places = np.array([index.lower_bound(index.spec.key(row)) for row in updates.data.T.tolist()])
        order = np.argsort(places, kind="stable")
        cuts = np.flatnonzero(np.diff(places[order]) > CHUNK_ROWS) + 1
        return [updates.take(np.sort(part)) for part in np.split(order, cuts)]

    def _recompute(self, updates: Updates) -> list[Updates]:
        """Return the differences of partitions that are read as a whole, and index the large ones."""
        layers = self.arrangement.layers
        if not layers:
            return []
        prefix = distinct_prefixes([updates], (), self.group)
        count = prefix.shape[1]
        at = np.ascontiguousarray(np.repeat(prefix, 2, axis=1))
        times = np.tile(np.array([self.step.time - 1, self.step.time], np.int64), count).reshape(1, -1)
        tasks = Tasks(at, times, np.zeros(2 * count, np.bool_))
        rows, diff, task = self.read_groups(layers, tasks, np.full(2 * count, len(layers), np.int64))
        sizes = np.bincount(task, minlength=2 * count)
        ends = np.cumsum(sizes)
        for number in np.flatnonzero(sizes[1::2] >= INDEXED_ROWS).tolist():
            place = 2 * number + 1
            own = rows[: self.arrangement.width, ends[place] - sizes[place] : ends[place]]
            assert self.index_spec is not None
            self._set_index(tuple(prefix[:, number].tolist()), PartitionIndex.build(self.index_spec, own))
        return [Updates(rows, self.step.stamp, np.where(task % 2 == 1, diff, -diff))]

    def _apply_changes(self, index: PartitionIndex, updates: Updates) -> list[Updates]:
        """Update a partition's index and return the differences of its results."""
        rows, diffs = updates.data, updates.diffs()
        if self.exact is not None:
            order = self.exact.order(rows, np.zeros(len(updates), np.int64))
            rows, diffs = np.ascontiguousarray(rows[:, order]), diffs[order]
        columns = rows.T.tolist()
        start = index.lower_bound(index.spec.key(columns[0]))
        new = index.apply_changes(rows, diffs.tolist())
        last = index.spec.key(columns[-1])
        deleted = max(-int(diffs[-1]), 0)
        rest = index.size - index.lower_bound(last) - deleted
        self._set_index(_partition_of(updates, self.group), new)
        change = Change(index, new, start, rest, columns)
        result = []
        for data, sign in IndexedCalls(self.calls, self.dictionary).result_changes(change):
            self.computed_rows += data.shape[1]
            result.append(Updates(np.ascontiguousarray(data), self.step.stamp, np.array([sign], np.int64)))
        return result

    def _set_index(self, partition: Partition, index: PartitionIndex | None) -> None:
        """Set or remove a partition's index; the previous one is saved for a rollback."""
        previous = self.indexes.get(partition)
        self.undo_indexes.setdefault(partition, previous)
        if index is None:
            self.indexes.pop(partition, None)
        else:
            self.indexes[partition] = index

    def commit(self) -> None:
        self.pending.clear()
        self.scheduled_groups.clear()
        self.undo_indexes.clear()

    def rollback(self) -> None:
        self.pending.clear()
        self.scheduled_groups.clear()
        for partition, index in self.undo_indexes.items():
            if index is None:
                self.indexes.pop(partition, None)
            else:
                self.indexes[partition] = index
        self.undo_indexes.clear()

    @property
    def rows(self) -> int:
        return sum(index.size for index in self.indexes.values())

    @property
    def bytes(self) -> int:
        return sum(block.nbytes for index in self.indexes.values() for block in index.blocks)


def make_index_spec(
    width: int,
    peers: tuple[int, ...],
    calls: Sequence[WindowCall],
    exact: tuple[tuple[int, int, bool], ...],
    dictionary: Dictionary,
) -> IndexSpec | None:
    """Return the properties of a window's indexes; None if it has none."""
    summaries = summaries_of(calls, dictionary)
    if summaries is None or not all(map(is_local, calls)):
        return None
    return IndexSpec(width, _make_key(exact, dictionary), peers, summaries)


class _Descending:
    """Bytes of a string, in descending order."""

    __slots__ = ("text",)

    def __init__(self, text: bytes) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and self.text == other.text

    def __lt__(self, other: "_Descending") -> bool:
        return other.text < self.text


def _make_key(exact: tuple[tuple[int, int, bool], ...], dictionary: Dictionary) -> Callable[[list[int]], Key]:
    """Return a function from rows to tuples in row order: a text's bytes follow its order words."""
    if not exact:
        return tuple
    texts = [(first + TEXT_WORDS, code, descending) for first, code, descending in exact]

    def key(row: list[int]) -> Key:
        parts: list[object] = list(row)
        for place, code, descending in reversed(texts):
            text = b"" if row[code] == NULL else (dictionary.get(row[code]) or "").encode()
            parts.insert(place, _Descending(text) if descending else text)
        return tuple(parts)

    return key


def _partition_of(updates: Updates, group: int) -> Partition:
    return tuple(updates.data[:group, 0].tolist())


def _split_partitions(updates: Updates, group: int) -> list[Updates]:
    """Return sorted updates, split by partition."""
    if not len(updates):
        return []
    data = updates.data
    fresh = (data[:group, 1:] != data[:group, :-1]).any(axis=0)
    bounds = [0, *(np.flatnonzero(fresh) + 1).tolist(), len(updates)]
    return [updates.take(np.arange(start, end, dtype=np.int64)) for start, end in pairwise(bounds)]
