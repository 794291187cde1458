"""The operator of ``plan.Window``: incremental window functions over changed partitions.

For each changed partition it retracts the old answers and emits the new ones. A small partition is read twice
from the arrangement: without this step's batch and with it. A large one is read so once, and then has an
index (``partition_index.py``). With an index, a step costs what its changes reach, provided that every call
is local (``plan.is_local``).

A :class:`Change` is a stretch of positions; the rows before and after it are unchanged. It affects a bounded
number of rows, peer groups or values around it, or propagates: to the end of the partition, or until the
propagated state is the same as before. The affected rows are evaluated together with the rows of their
frames; partial aggregates stand for the rest.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.functions import TEXT_WORDS, Hierarchical, aggregate_named, window_function
from kpg.runtime.functions.aggregation.window_functions import Answer
from kpg.runtime.operators.topk import ExactOrder, GroupReader, Tasks, distinct_prefixes
from kpg.runtime.operators.windows.partition_index import Index, Key, Node, Shape
from kpg.runtime.operators.windows.window_evaluation import Around, bucket_starts, evaluated, summaries_of
from kpg.runtime.operators.windows.window_frames import laid_out, limit_of
from kpg.runtime.plan import Bound, Edge, Exclude, Unit, WindowCall, is_local
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Literal
from kpg.runtime.trace.batch import Layers, collect
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import NULL

Words = NDArray[np.int64]


NUMBERING = (Answer.ROW_NUMBER, Answer.RANK, Answer.DENSE_RANK, Answer.PERCENT_RANK)
SHARES = (Answer.PERCENT_RANK, Answer.CUME_DIST)
"""What depends on how many rows there are: it changes in all rows with that."""
PLACED = (*NUMBERING, Answer.CUME_DIST, Answer.NTILE)
"""What places alone tell."""
PEERS = (Exclude.GROUP, Exclude.TIES)
PRECEDING, FOLLOWING = Edge.UNBOUNDED_PRECEDING, Edge.UNBOUNDED_FOLLOWING


def answer_of(call: WindowCall) -> Answer | None:
    """What the call tells if it is no aggregate."""
    function = window_function(call.function)
    return None if function is None else function.answer


def stays_near(call: WindowCall) -> bool:
    """Whether what a change does to the call's answers ends near it, but for new extreme values.

    If not (row numbers, running totals), changes that make up for each other are best seen together.
    """
    answer, frame = answer_of(call), call.frame
    if answer is not None:
        return answer not in (*NUMBERING, Answer.CUME_DIST)
    closed = frame.start.edge is not PRECEDING and frame.end.edge is not FOLLOWING
    return closed or isinstance(aggregate_named(call.function).maintenance, Hierarchical)


def distance_of(call: WindowCall) -> int:
    """How far a lag looks ahead (a lead), or, negative, back; which row of its frame an nth_value is of."""
    value = call.args[1] if len(call.args) > 1 else None
    number = value.value if isinstance(value, Literal) else 1
    number = number if isinstance(number, int) else 0
    return -number if answer_of(call) is Answer.LAG else number


def reach_before(index: Index, calls: Sequence[WindowCall], at: int, rows: Sequence[list[int]]) -> int:
    """From where on answers before the place ``at`` may differ, if ``rows`` there have come or gone."""
    found = at
    for call in calls:
        answer, frame = answer_of(call), call.frame
        if answer is Answer.CUME_DIST:
            found = min(found, *(peers_before(index, at, row) for row in rows))
        if answer in PLACED:
            continue
        if answer in (Answer.LAG, Answer.LEAD):
            found = min(found, at - max(distance_of(call), 0))
            continue
        edges = [frame.end]
        if frame.end.edge is FOLLOWING:
            edges = [frame.start]
        for bound in edges:
            for row in rows:
                found = min(found, _reached_before(index, call, bound, at, row))
        if frame.exclude in PEERS:
            found = min(found, *(peers_before(index, at, row) for row in rows))
        if _is_carried_before(call):
            found = min(found, at - 1)
    return max(found, 0)


def reach_behind(index: Index, calls: Sequence[WindowCall], at: int, rows: Sequence[list[int]]) -> int:
    """Up to where answers from the place ``at`` on may differ, if ``rows`` before it have come or gone."""
    found = at
    for call in calls:
        answer, frame = answer_of(call), call.frame
        if answer in NUMBERING:
            found = max(found, at + 1)
        if answer in PLACED:
            continue
        if answer in (Answer.LAG, Answer.LEAD):
            found = max(found, at - min(distance_of(call), 0))
            continue
        bound = frame.end if frame.start.edge is PRECEDING else frame.start
        for row in rows:
            found = max(found, _reached_behind(index, call, bound, at, row))
        if frame.exclude in PEERS:
            found = max(found, *(peers_behind(index, at, row) for row in rows))
        if _is_carried_behind(call):
            found = max(found, at + 1)
    return min(found, index.size)


def peers_before(index: Index, at: int, row: list[int]) -> int:
    """Where those rows before ``at`` begin that are next to it and peers of a row."""
    peers = index.shape.peers
    own = [row[column] for column in peers]
    return index.first(0, at, lambda other: [other[column] for column in peers] == own)


def peers_behind(index: Index, at: int, row: list[int]) -> int:
    """Where those rows from ``at`` on end that are next to it and peers of a row."""
    peers = index.shape.peers
    own = [row[column] for column in peers]
    return index.first(at, index.size, lambda other: [other[column] for column in peers] != own)


def _reached_before(index: Index, call: WindowCall, bound: Bound, at: int, row: list[int]) -> int:
    """The first row before ``at`` whose frame, that ends so, may have the row."""
    unit = call.frame.unit
    if bound.edge in (Edge.PRECEDING, PRECEDING, FOLLOWING):
        return at
    if unit is Unit.ROWS:
        return at - (bound.offset if bound.edge is Edge.FOLLOWING else 0)
    start = peers_before(index, at, row)
    if bound.edge is Edge.CURRENT_ROW or at == 0:
        return start
    if unit is Unit.GROUPS:
        return min(start, index.group_start(max(index.groups(start) - bound.offset, 0)))
    return min(start, index.first(0, at, _reaches(call, bound, row, forwards=True)))


def _reached_behind(index: Index, call: WindowCall, bound: Bound, at: int, row: list[int]) -> int:
    """Where the rows from ``at`` on end whose frames, that start so, may have the row."""
    unit = call.frame.unit
    if bound.edge in (Edge.FOLLOWING, PRECEDING, FOLLOWING):
        return at
    if unit is Unit.ROWS:
        return at + (bound.offset if bound.edge is Edge.PRECEDING else 0)
    end, size = peers_behind(index, at, row), index.size
    if bound.edge is Edge.CURRENT_ROW or at == size:
        return end
    if unit is Unit.GROUPS:
        return max(end, index.group_start(min(index.groups(at) + bound.offset + 1, size)))
    reaches = _reaches(call, bound, row, forwards=False)
    return max(end, index.first(at, size, lambda other: not reaches(other)))


def _reaches(
    call: WindowCall, bound: Bound, row: list[int], *, forwards: bool
) -> Callable[[list[int]], bool]:
    """Whether a row's bound is at a value or beyond it; where a NULL is one of them, never."""
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


def _is_carried_before(call: WindowCall) -> bool:
    answer = answer_of(call)
    return answer not in (*PLACED, Answer.LAG, Answer.LEAD) and call.frame.end.edge is FOLLOWING


def _is_carried_behind(call: WindowCall) -> bool:
    answer = answer_of(call)
    return answer not in (*PLACED, Answer.LAG, Answer.LEAD) and call.frame.start.edge is PRECEDING


Pair = tuple[int, int]
PORTION = 64
"""Rows behind a change that are computed at first, where what is carried does not settle; then ever more."""


@dataclass(frozen=True, slots=True)
class Change:
    """A partition before and after: the places from ``start`` to the two ends are not the same rows."""

    old: Index
    new: Index
    start: int
    rest: int
    """How many rows are behind them, in both."""
    rows: Sequence[list[int]]
    """What has come or gone."""


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls of a window over indexes that have their partial aggregates."""

    calls: tuple[WindowCall, ...]
    dictionary: Dictionary

    def differences(self, change: Change) -> Iterator[tuple[Words, int]]:
        """Rows with their answers that are there no longer, -1, or now, 1; some of them cancel out."""
        old, new, calls = change.old, change.new, self.calls
        ends = old.size - change.rest, new.size - change.rest
        start = min(reach_before(index, calls, change.start, change.rows) for index in (old, new))
        rest = min(
            index.size - reach_behind(index, calls, end, change.rows)
            for index, end in zip((old, new), ends, strict=True)
        )
        yield from self._both(change, (start, start), (old.size - rest, new.size - rest))
        portion = PORTION
        while rest and not all(_settled_behind(call, n, change, rest) for n, call in enumerate(calls)):
            before, rest = rest, max(rest - portion, 0)
            portion *= 2
            starts = old.size - before, new.size - before
            yield from self._both(change, starts, (old.size - rest, new.size - rest))
        portion = PORTION
        while start and not all(_settled_before(call, n, change, start) for n, call in enumerate(calls)):
            before, start = start, max(start - portion, 0)
            portion *= 2
            yield from self._both(change, (start, start), (before, before))
        moved = change.new.size - change.old.size
        for low, high in moved_buckets(self.calls, change):
            for first, last in ((low, min(high, start)), (max(low, old.size - rest), high)):
                if first < last:
                    shift = moved if first >= start else 0
                    yield from self._both(change, (first, first + shift), (last, last + shift))

    def _both(
        self, change: Change, starts: tuple[int, int], ends: tuple[int, int]
    ) -> Iterator[tuple[Words, int]]:
        for index, start, end, sign in zip((change.old, change.new), starts, ends, (-1, 1), strict=True):
            if start < end:
                yield self.stretch(index, start, end), sign

    def stretch(self, index: Index, start: int, end: int) -> Words:
        """The rows at ``start <= place < end``, at least one, with their answers."""
        low, high, head, tail = _needed(index, self.calls, start, end)
        size = index.size
        parts = (index.rows(0, head), index.rows(low, high), index.rows(size - tail, size))
        rows = np.ascontiguousarray(np.concatenate(parts, axis=1))
        layout = laid_out(rows, np.zeros(rows.shape[1], np.int64), index.shape.peers)
        layout.skipped, layout.skipped_behind = low - head, size - tail - high
        layout.skipped_groups = index.groups(low) - int(layout.group[head])
        shown = slice(head + start - low, head + end - low)
        before, behind = (
            _partials(index, index.summed(*bounds)) for bounds in ((head, low), (high, size - tail))
        )
        answers = evaluated(layout, self.calls, self.dictionary, Around(shown, before, behind))
        return np.concatenate((rows[:, shown], answers))


def _partials(index: Index, node: Node | None) -> Sequence[object]:
    return [summary.empty for summary in index.shape.summaries] if node is None else node.partials


def _needed(index: Index, calls: Sequence[WindowCall], start: int, end: int) -> tuple[int, int, int, int]:
    """The stretch of rows that answers from ``start`` to ``end`` need, and how many at the very ends."""
    low, high, head, tail = start, end, 0, 0
    for call in calls:
        answer = answer_of(call)
        if answer in PLACED:
            continue
        if answer in (Answer.LAG, Answer.LEAD):
            distance = distance_of(call)
            low, high = min(low, start + distance), max(high, end + distance)
            continue
        for bound in (call.frame.start, call.frame.end):
            if bound.edge is Edge.PRECEDING:
                low = min(low, _low(index, call, bound, start))
            elif bound.edge is Edge.FOLLOWING:
                high = max(high, _high(index, call, bound, end))
        if call.frame.start.edge is Edge.UNBOUNDED_PRECEDING:
            first = {Answer.FIRST_VALUE: 1, Answer.NTH_VALUE: distance_of(call)}
            head = max(head, first.get(answer, 0) if answer is not None else 0)
        if call.frame.end.edge is Edge.UNBOUNDED_FOLLOWING and answer is Answer.LAST_VALUE:
            tail = 1
    low, high = max(low, 0), min(high, index.size)
    low = peers_before(index, low, index.row(low))
    high = peers_behind(index, high, index.row(high - 1))
    if low <= head:
        low = head = 0
    if high >= index.size - tail:
        high, tail = index.size, 0
    return low, high, head, tail


def _low(index: Index, call: WindowCall, bound: Bound, start: int) -> int:
    """A place no frame bound of the rows from ``start`` on is before."""
    if call.frame.unit is Unit.ROWS:
        return start - bound.offset
    if call.frame.unit is Unit.GROUPS:
        return index.group_start(max(index.groups(start + 1) - 1 - bound.offset, 0))
    by, row = call.frame.ranged, index.row(start)
    assert by is not None
    if row[by.column] == NULL:
        return start
    limit, column, descending = limit_of(row, bound, by, after=False), by.column, by.descending

    def inside(other: list[int]) -> bool:
        value = other[column]
        return value != NULL and (value <= limit if descending else value >= limit)

    return index.first(0, start, inside) - 1


def _high(index: Index, call: WindowCall, bound: Bound, end: int) -> int:
    """A place no frame bound of the rows before ``end`` is behind."""
    if call.frame.unit is Unit.ROWS:
        return end + bound.offset
    if call.frame.unit is Unit.GROUPS:
        return index.group_start(min(index.groups(end) + bound.offset, index.size))
    by, row = call.frame.ranged, index.row(end - 1)
    assert by is not None
    if row[by.column] == NULL:
        return end
    limit, column, descending = limit_of(row, bound, by, after=True), by.column, by.descending

    def outside(other: list[int]) -> bool:
        value = other[column]
        return value == NULL or (value < limit if descending else value > limit)

    return index.first(end, index.size, outside) + 1


def _same(call: int, change: Change, old: tuple[int, int], new: tuple[int, int]) -> bool:
    """Whether the partial aggregates of two stretches are the same."""
    nodes = (change.old.summed(*old), change.new.summed(*new))
    left, right = (
        _partials(index, node)[call] for index, node in zip((change.old, change.new), nodes, strict=True)
    )
    return bool(left == right)


def _settled_behind(call: WindowCall, number: int, change: Change, rest: int) -> bool:
    """Whether the last ``rest`` rows have the same answers as before."""
    answer, frame, old, new = answer_of(call), call.frame, change.old, change.new
    ends = old.size - rest, new.size - rest
    match answer:
        case Answer.ROW_NUMBER | Answer.CUME_DIST:
            return ends[0] == ends[1]
        case Answer.NTILE:
            return True
        case Answer.RANK | Answer.PERCENT_RANK:
            starts = (
                peers_before(index, end, index.row(end)) for index, end in zip((old, new), ends, strict=True)
            )
            return ends[0] == ends[1] and len(set(starts)) == 1
        case Answer.DENSE_RANK:
            return old.groups(ends[0]) == new.groups(ends[1])
        case _ if frame.start.edge is not Edge.UNBOUNDED_PRECEDING:
            return True
        case Answer.FIRST_VALUE | Answer.NTH_VALUE:
            return change.start >= max(distance_of(call), 1)
        case None:
            return _settled(call, number, change, (0, 0), ends, frame.end)
        case _:
            return True


def _settled_before(call: WindowCall, number: int, change: Change, start: int) -> bool:
    """Whether the first ``start`` rows have the same answers as before."""
    answer, frame, old, new = answer_of(call), call.frame, change.old, change.new
    if answer in SHARES:
        return old.size == new.size
    if answer in PLACED or frame.end.edge is not Edge.UNBOUNDED_FOLLOWING:
        return True
    match answer:
        case Answer.LAST_VALUE:
            return change.rest > 0
        case Answer.NTH_VALUE:
            return change.start >= distance_of(call)
        case None:
            return _settled(call, number, change, (start, start), (old.size, new.size), frame.start)
        case _:
            return True


def moved_buckets(calls: Sequence[WindowCall], change: Change) -> list[Pair]:
    """The places, in the partition before, of rows that were not changed and are in other buckets now.

    Stretches that are near each other are one.
    """
    old, new = change.old.size, change.new.size
    found = [np.empty((2, 0), np.int64)]
    for call in calls:
        number = call.args[0] if answer_of(call) is Answer.NTILE else None
        buckets = number.value if isinstance(number, Literal) else None
        if old == new or not isinstance(buckets, int) or buckets < 1:
            continue
        before, now = (bucket_starts(size, buckets, max(old, new) + 1) for size in (old, new))
        ahead = np.minimum(before, now), np.minimum(np.maximum(before, now), change.start)
        then = now + old - new
        behind = np.maximum(np.minimum(before, then), old - change.rest), np.maximum(before, then)
        found += [np.stack(bounds) for bounds in (ahead, behind)]
    stretches = np.concatenate(found, axis=1)
    stretches = stretches[:, stretches[0] < np.minimum(stretches[1], old)]
    merged: list[Pair] = []
    for low, high in stretches[:, np.argsort(stretches[0])].T.tolist():
        if merged and low <= merged[-1][1] + PORTION:
            low, high = merged[-1][0], max(merged.pop()[1], high)
        merged.append((low, min(high, old)))
    return merged


def _settled(call: WindowCall, number: int, change: Change, starts: Pair, ends: Pair, other: Bound) -> bool:
    """Whether an aggregate is settled: the changes come to the same, or all that the frames of others share.

    That is all rows, or those up to where answers have been computed, if every frame that is left has them.
    """
    old, new, exclude = change.old.size, change.new.size, call.frame.exclude
    changed = (change.start, old - change.rest), (change.start, new - change.rest)
    if _same(number, change, *changed):
        return True
    if (call.frame.start.edge, call.frame.end.edge) == (Edge.UNBOUNDED_PRECEDING, Edge.UNBOUNDED_FOLLOWING):
        return exclude is Exclude.NO_OTHERS and _same(number, change, (0, old), (0, new))
    if other.edge in (Edge.PRECEDING, Edge.FOLLOWING):
        return False
    whole = exclude in (Exclude.NO_OTHERS, Exclude.CURRENT_ROW)
    return whole and _same(number, change, (starts[0], ends[0]), (starts[1], ends[1]))


Partition = tuple[int, ...]
LARGE: Final = 1024
"""Rows from which on a partition has an index."""
FEW: Final = 16
"""Rows that may come and go at once where an index is used: more are not worth finding one by one."""


@dataclass(slots=True, eq=False, kw_only=True)
class Window(GroupReader):
    """Each row of a partition with what the calls say of it; equal rows are numbered one by one."""

    peers: tuple[int, ...]
    calls: tuple[WindowCall, ...]
    exact: ExactOrder | None
    dictionary: Dictionary
    shape: Shape | None = None
    """Of the indexes; None if large partitions have none."""
    indexes: dict[Partition, Index] = field(default_factory=dict)
    saved: dict[Partition, Index | None] = field(default_factory=dict)
    """What the step has changed of them."""
    read_rows: int = 0
    """Rows computed so far, for tests that count work."""

    def read(self, layers: Layers, tasks: Tasks, seen: Words) -> tuple[Words, Words, Words]:
        rows, count, task, _ = collect(layers, tasks.prefix, tasks.times, seen, self.arrangement.width)
        if self.exact is not None:
            order = self.exact.order(rows, task)
            rows, count, task = rows[:, order], count[order], task[order]
        if (count != 1).any():
            rows, task = np.repeat(rows, count, axis=1), np.repeat(task, count)
        self.read_rows += task.shape[0]
        layout = laid_out(rows, task, self.peers)
        answers = evaluated(layout, self.calls, self.dictionary)
        return np.ascontiguousarray(np.concatenate((rows, answers))), np.ones(task.shape[0], np.int64), task

    def flush(self) -> None:
        step = self.step
        local = self.shape is not None and self.place.scope.depth == 1
        if not local or step.hydrating or not self.pending:
            GroupReader.flush(self)
            return
        if not step.single_time:
            for prefix in distinct_prefixes(self.pending, (), self.group).T.tolist():
                self._keep(tuple(prefix), None)
            GroupReader.flush(self)
            return
        self._flush_locally(Updates.concat(self.take()).consolidate())

    def _flush_locally(self, updates: Updates) -> None:
        """The differences of partitions with an index by these; of the others by reading them."""
        parts: list[Updates] = []
        plain: list[Updates] = []
        for part in _partitions(updates, self.group):
            index = self.indexes.get(_partition(part, self.group))
            if index is None or len(part) > FEW:
                plain.append(part)
            else:
                for some in self._together(index, part):
                    parts += self._changed(self.indexes[_partition(part, self.group)], some)
        if plain:
            for part in plain:
                self._keep(_partition(part, self.group), None)
            parts += self._reread(Updates.concat(plain))
        if parts:
            self.emit(Updates.concat(parts).consolidate())

    def _together(self, index: Index, updates: Updates) -> list[Updates]:
        """The changes of a partition as far as they are to be seen together: all, or neighbours."""
        if len(updates) == 1 or not all(map(stays_near, self.calls)):
            return [updates]
        places = np.array([index.place(index.shape.key(row)) for row in updates.data.T.tolist()])
        order = np.argsort(places, kind="stable")
        cuts = np.flatnonzero(np.diff(places[order]) > PORTION) + 1
        return [updates.take(np.sort(part)) for part in np.split(order, cuts)]

    def _reread(self, updates: Updates) -> list[Updates]:
        """The differences of these partitions, all of which are read; the large ones get an index."""
        layers = self.arrangement.layers
        if not layers:
            return []
        prefix = distinct_prefixes([updates], (), self.group)
        count = prefix.shape[1]
        at = np.ascontiguousarray(np.repeat(prefix, 2, axis=1))
        times = np.tile(np.array([self.step.time - 1, self.step.time], np.int64), count).reshape(1, -1)
        tasks = Tasks(at, times, np.zeros(2 * count, np.bool_))
        rows, diff, task = self.read(layers, tasks, np.full(2 * count, len(layers), np.int64))
        sizes = np.bincount(task, minlength=2 * count)
        ends = np.cumsum(sizes)
        for number in np.flatnonzero(sizes[1::2] >= LARGE).tolist():
            place = 2 * number + 1
            own = rows[: self.arrangement.width, ends[place] - sizes[place] : ends[place]]
            assert self.shape is not None
            self._keep(tuple(prefix[:, number].tolist()), Index.of(self.shape, own))
        return [Updates(rows, self.step.stamp, np.where(task % 2 == 1, diff, -diff))]

    def _changed(self, index: Index, updates: Updates) -> list[Updates]:
        """The differences in one partition that has an index, which is changed with it."""
        rows, diffs = updates.data, updates.diffs()
        if self.exact is not None:
            order = self.exact.order(rows, np.zeros(len(updates), np.int64))
            rows, diffs = np.ascontiguousarray(rows[:, order]), diffs[order]
        columns = rows.T.tolist()
        start = index.place(index.shape.key(columns[0]))
        new = index.changed(rows, diffs.tolist())
        last = index.shape.key(columns[-1])
        gone = max(-int(diffs[-1]), 0)
        rest = index.size - index.place(last) - gone
        self._keep(_partition(updates, self.group), new)
        change = Change(index, new, start, rest, columns)
        found = []
        for data, sign in Calls(self.calls, self.dictionary).differences(change):
            self.read_rows += data.shape[1]
            found.append(Updates(np.ascontiguousarray(data), self.step.stamp, np.array([sign], np.int64)))
        return found

    def _keep(self, partition: Partition, index: Index | None) -> None:
        """Another index for a partition, or none; the one before is saved for a rollback."""
        known = self.indexes.get(partition)
        self.saved.setdefault(partition, known)
        if index is None:
            self.indexes.pop(partition, None)
        else:
            self.indexes[partition] = index

    def commit(self) -> None:
        GroupReader.commit(self)
        self.saved.clear()

    def rollback(self) -> None:
        GroupReader.rollback(self)
        for partition, index in self.saved.items():
            if index is None:
                self.indexes.pop(partition, None)
            else:
                self.indexes[partition] = index
        self.saved.clear()

    @property
    def rows(self) -> int:
        return sum(index.size for index in self.indexes.values())

    @property
    def bytes(self) -> int:
        return sum(block.nbytes for index in self.indexes.values() for block in index.blocks)


def shape_of(
    width: int,
    peers: tuple[int, ...],
    calls: Sequence[WindowCall],
    exact: tuple[tuple[int, int, bool], ...],
    dictionary: Dictionary,
) -> Shape | None:
    """What indexes of a window's partitions are like, if there are any."""
    summaries = summaries_of(calls, dictionary)
    if summaries is None or not all(map(is_local, calls)):
        return None
    return Shape(width, _key(exact, dictionary), peers, summaries)


class _Descending:
    """The bytes of a string in the other order."""

    __slots__ = ("text",)

    def __init__(self, text: bytes) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and self.text == other.text

    def __lt__(self, other: "_Descending") -> bool:
        return other.text < self.text


def _key(exact: tuple[tuple[int, int, bool], ...], dictionary: Dictionary) -> Callable[[list[int]], Key]:
    """Rows as tuples that are in the order of the rows: behind the order words of a text are its bytes."""
    if not exact:
        return tuple
    texts = [(first + TEXT_WORDS, code, descending) for first, code, descending in exact]

    def key(row: list[int]) -> Key:
        found: list[object] = list(row)
        for place, code, descending in reversed(texts):
            text = b"" if row[code] == NULL else (dictionary.get(row[code]) or "").encode()
            found.insert(place, _Descending(text) if descending else text)
        return tuple(found)

    return key


def _partition(updates: Updates, group: int) -> Partition:
    return tuple(updates.data[:group, 0].tolist())


def _partitions(updates: Updates, group: int) -> list[Updates]:
    """Sorted updates, those of each partition apart."""
    if not len(updates):
        return []
    data = updates.data
    fresh = (data[:group, 1:] != data[:group, :-1]).any(axis=0)
    bounds = [0, *(np.flatnonzero(fresh) + 1).tolist(), len(updates)]
    return [updates.take(np.arange(start, end, dtype=np.int64)) for start, end in pairwise(bounds)]
