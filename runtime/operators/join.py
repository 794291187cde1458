"""Joins: ``plan.DeltaJoin`` over shared arrangements, and ``plan.RangeJoin`` for inequalities.

A delta join keeps no intermediate state: the changes of each relation look up all other relations
along a path. A :class:`PathSegment` is the part of a path that runs at one worker, between exchanges.
In loops, updates carry their original time besides their current one, through all segments (see
``trace.lookup``). ``plan.DeltaJoin`` defines which updates match.

A range join compares with a maintained threshold and touches only the rows between the old and the
new threshold. Section 6.1 of the paper on K-Pg asks for such an inequality join (TPC-H Q11 and Q22):
McSherry, Lattuada, Schwarzkopf, Roscoe, Shared Arrangements, VLDB 2020.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.dataflow_graph import Operator
from kpg.runtime.errors import DataError
from kpg.runtime.kernels.collect import range_bounds
from kpg.runtime.kernels.links import MANY
from kpg.runtime.mfp import CompiledMfp
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.linear import apply_mfp_to_net, apply_mfp_to_parts
from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.records import dataclass
from kpg.runtime.trace.batch import Layers
from kpg.runtime.trace.head import ORDERED_STEPS
from kpg.runtime.trace.lookup import KeyMatcher, Order, lookup
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import MAX_WORD, MIN_WORD, NULL

LARGE_CHUNK = 1 << 18
"""Rows from which an output chunk is absorbed downstream before the next one is computed."""
SAMPLE_ROWS = 256
"""Rows of the sample that estimates the cost of a path."""
GROWTH_FACTOR = 1.25
"""Growth in a lookup from which its output is consolidated, as many updates may cancel.

Twelve lookups that each grow by a little less multiply the updates by 14.
"""
MAX_SAMPLE_MATCHES = 1 << 20
"""Matches at which a sample costs more than it saves; a smaller sample is tried."""


@dataclass(frozen=True, slots=True)
class HalfJoin:
    """``plan.HalfJoin``; ``mfp`` reads the kept stream columns, then the kept arrangement columns."""

    arrangement: Arrange
    relation: int
    key: tuple[int, ...]
    keep_stream: NDArray[np.int64]
    keep_batch: NDArray[np.int64]
    mfp: CompiledMfp
    matcher: KeyMatcher


@dataclass(frozen=True, slots=True)
class DeltaPath:
    """The lookups by which changes of one relation find their matches in all others."""

    relation: int
    mfp: CompiledMfp
    half_joins: tuple[HalfJoin, ...]


def consolidate_if_grown(updates: Updates, input_rows: int) -> Updates:
    """Return the output of a lookup, consolidated if it has grown much from ``input_rows`` updates.

    An updated row is matched as its old version, its deletion and its new version. If all n relations of
    a path have rows that change together, that makes 3^n combinations, of which all but one cancel.
    """
    if updates.constant_diff or updates.data.shape[1] < GROWTH_FACTOR * input_rows:
        return updates
    return updates.consolidate()


@dataclass(slots=True, eq=False, kw_only=True)
class DeltaJoin(Operator):
    """Delta join: each relation's changes run along its path; see ``plan.DeltaJoin`` for the matches."""

    streams: tuple[Operator, ...]
    paths: tuple[DeltaPath, ...]
    deltas: list[list[Updates]] = field(default_factory=list)
    match_count: int = 0
    hydration_path: int | None = None
    """Path that hydration uses, if several workers must agree on one."""

    def accept(self, port: int, updates: Updates) -> None:
        self.deltas[port].append(updates)

    def flush(self) -> None:
        step = self.step
        if step.hydrating and not any(step.rounds):
            self._emit_contents()
            return
        for path in self.paths:
            delta = self.deltas[path.relation]
            if not delta:
                continue
            self.deltas[path.relation] = []
            if any(not half.arrangement.spine.lookup_target() for half in path.half_joins):
                continue
            # Several parts of a step may cancel.
            self._emit_matches(path, consolidate_if_grown(Updates.concat(delta), len(delta[0])))

    def _emit_matches(self, path: DeltaPath, delta: Updates) -> None:
        """Emit the changes of the result for ``delta``, the changes of the path's relation.

        In a loop, a match can move an update to a later time. Following lookups compare its original time,
        which is appended to the current one.
        """
        depth, origin = self.place.scope.depth, 0
        time = delta.time
        if depth > 1 and len(path.half_joins) > 1:
            delta, origin = delta.with_time(np.concatenate((time, time))), depth
        updates, passed = _match_while_small(self, path, apply_mfp_to_net(path.mfp, delta), origin)
        if not updates.data.shape[1]:
            return
        if passed == len(path.half_joins):
            if origin:
                updates = updates.with_time(time if updates.time is delta.time else updates.time[:depth])
            self.emit(updates, more=updates.data.shape[1] >= LARGE_CHUNK)
            return
        results = _match_half_joins(
            self, path, path.half_joins[passed:], (updates,), origin=origin, hydrating=False
        )
        if origin:
            results = (matches.with_time(matches.time[:depth]) for matches in results)
        _emit_all(self, results)

    def hydrate(self) -> None:
        self.schedule()

    def _emit_contents(self) -> None:
        """Emit the whole result, computed along the cheapest path."""
        _emit_all(self, self.snapshot())
        self._clear()

    def snapshot(self) -> Iterator[Updates]:
        path = self._choose_path()
        return self._match_path(path, self._contents(path.relation), hydrating=True)

    def _match_path(
        self, path: DeltaPath, parts: Iterable[Updates], *, origin: int = 0, hydrating: bool
    ) -> Iterator[Updates]:
        """Yield the matches of the parts of the path's relation with all others.

        ``origin`` as in ``lookup``.
        """
        mapped_parts = apply_mfp_to_parts(path.mfp, parts)
        return _match_half_joins(
            self, path, path.half_joins, mapped_parts, origin=origin, hydrating=hydrating
        )

    def _contents(self, relation: int) -> Iterator[Updates]:
        """Yield a relation's contents: the updates of a new input, or the snapshot of an existing one."""
        stream = self.streams[relation]
        if stream.is_hydrated:
            yield from stream.snapshot()
        else:
            yield from self.deltas[relation]

    def _choose_path(self) -> DeltaPath:
        """Return the path with the fewest estimated matches."""
        if self.hydration_path is not None:
            return self.paths[self.hydration_path]
        return min(self.paths, key=self._estimate)

    def _estimate(self, path: DeltaPath) -> float:
        stream = self.streams[path.relation]
        size = stream.size() if stream.is_hydrated else sum(len(u) for u in self.deltas[path.relation])
        first = next((u for u in self._contents(path.relation) if len(u)), None)
        if first is None:
            return 0.0
        rows = SAMPLE_ROWS
        while True:
            step = max(1, len(first) // rows)
            sample = first.take(np.arange(0, len(first), step, dtype=np.int64))
            touched = self._count_matches(path, sample)
            if touched < MAX_SAMPLE_MATCHES or len(sample) == 1:
                return size * (1.0 + touched / len(sample))
            rows = max(1, len(sample) // 16)

    def _count_matches(self, path: DeltaPath, sample: Updates) -> int:
        """Return the number of matches of a sample on the path; stops at ``MAX_SAMPLE_MATCHES``."""
        before = self.match_count
        # A sample may contain an insertion without its deletion; an expression may fail on that row.
        with suppress(DataError):
            for _ in self._match_path(path, (sample,), hydrating=True):
                self.place.scope.interrupt.check()
                if self.match_count - before >= MAX_SAMPLE_MATCHES:
                    break
        touched = self.match_count - before
        self.match_count = before
        return touched

    def _clear(self) -> None:
        for delta in self.deltas:
            delta.clear()

    def commit(self) -> None:
        self._clear()

    def rollback(self) -> None:
        self._clear()


def _match_while_small(
    operator: "DeltaJoin | PathSegment", path: DeltaPath, updates: Updates, origin: int
) -> tuple[Updates, int]:
    """Run the half-joins while updates are few; return the updates and the number of half-joins run."""
    step = operator.step
    closed, floor, relation = step.lower, step.floor, path.relation
    for passed, half in enumerate(path.half_joins):
        if not updates.data.shape[1]:
            return updates, passed
        order = Order.THROUGH if half.relation < relation else Order.BEFORE
        matches = half.matcher.match(
            updates, half.arrangement.spine.lookup_target(), order, closed, floor, origin
        )
        if matches is None:
            return updates, passed
        operator.match_count += matches.data.shape[1]
        if half is not path.half_joins[-1]:
            matches = consolidate_if_grown(matches, updates.data.shape[1])
        updates = apply_mfp_to_net(half.mfp, matches)
    return updates, len(path.half_joins)


def _emit_all(operator: "DeltaJoin | PathSegment", results: Iterable[Updates]) -> None:
    """Emit results one by one, with interrupt checks in between."""
    interrupt = operator.place.scope.interrupt
    for updates in results:
        operator.emit(updates, more=updates.data.shape[1] >= LARGE_CHUNK)
        interrupt.check()


def _match_half_joins(
    operator: "DeltaJoin | PathSegment",
    path: DeltaPath,
    half_joins: tuple[HalfJoin, ...],
    partial_results: Iterable[Updates],
    *,
    origin: int,
    hydrating: bool,
) -> Iterator[Updates]:
    """Yield the matches of partial results along ``half_joins``."""
    partial_results = iter(partial_results)
    for half in half_joins:
        if hydrating:
            order = Order.ANY
        else:
            order = Order.THROUGH if half.relation < path.relation else Order.BEFORE
        last = half is half_joins[-1]
        partial_results = apply_mfp_to_parts(
            half.mfp, _lookup(operator, half, partial_results, order, origin, last=last)
        )
    return partial_results


def _lookup(
    operator: "DeltaJoin | PathSegment",
    half: HalfJoin,
    stream: Iterable[Updates],
    order: Order,
    origin: int,
    *,
    last: bool,
) -> Iterator[Updates]:
    step, keep = operator.step, (half.keep_stream, half.keep_batch)
    poll = operator.place.scope.interrupt.check
    closed, floor = step.lower, step.floor
    for updates in stream:
        target = half.arrangement.lookup_target
        for matches in lookup(
            updates, half.key, target, *keep, order, closed=closed, floor=floor, origin=origin, poll=poll
        ):
            operator.match_count += len(matches)
            yield matches if last else consolidate_if_grown(matches, len(updates))
            poll()  # if a predicate rejects all matches, no later code polls


Words = NDArray[np.int64]
NO_KEY: Words = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Range:
    """Left rows of ``key`` whose compared column is in [low, high) change by ``diff`` at ``time``.

    Without an upper end, ``high`` is one more than the largest word.
    """

    key: Words
    low: int
    high: int
    time: Words
    diff: int


def changed_ranges(bounds: Updates, key: int, comparison: str) -> Iterator[Range]:
    """Yield the ranges of left rows that a change of thresholds affects, with their diffs.

    ``bounds`` are consolidated rows (key..., v). Where a retracted and an added threshold agree on a
    row, their diffs cancel, and the row is in no range.
    """
    if key == 0 and bounds.constant_time:
        # Consolidated rows are sorted, and NULL is the least word.
        values, diffs = bounds.data[0].tolist(), bounds.diffs().tolist()
        first_value = 1 if values[:1] == [NULL] else 0
        for low, high, diff in _satisfied_ranges(values[first_value:], diffs[first_value:], comparison):
            if diff and low < high:
                yield Range(NO_KEY, low, high, bounds.time, diff)
        return
    rows, times, counts = bounds.data[: key + 1], bounds.times(), bounds.diffs()
    valid = np.flatnonzero(rows[key] != NULL)
    group_columns = np.concatenate((rows[:key, valid], times[:, valid]))
    order = valid[np.lexsort(np.concatenate((rows[key : key + 1, valid], group_columns[::-1])))]
    group = np.concatenate((rows[:key, order], times[:, order]))
    starts = [0, *(np.flatnonzero((group[:, 1:] != group[:, :-1]).any(axis=0)) + 1).tolist(), len(order)]
    for first, last in pairwise(starts):
        if first == last:
            continue
        index = order[first:last]
        prefix = np.ascontiguousarray(rows[:key, index[0]])
        time = np.ascontiguousarray(times[:, index[:1]])
        for low, high, diff in _satisfied_ranges(
            rows[key, index].tolist(), counts[index].tolist(), comparison
        ):
            if diff and low < high:
                yield Range(prefix, low, high, time, diff)


def _satisfied_ranges(values: list[int], diffs: list[int], comparison: str) -> Iterator[tuple[int, int, int]]:
    """Yield (low, high, sum of the diffs of the thresholds that a row in [low, high) satisfies)."""
    shift = 1 if comparison in (">", "<=") else 0
    edges = [value + shift for value in values]
    if comparison in (">", ">="):
        total = 0
        for i, diff in enumerate(diffs):
            total += diff
            yield edges[i], edges[i + 1] if i + 1 < len(edges) else MAX_WORD + 1, total
    else:
        total = sum(diffs)
        low = MIN_WORD
        for i, diff in enumerate(diffs):
            yield low, edges[i], total
            total -= diff
            low = edges[i]


def scan_range(layers: Layers, task: Range) -> Iterator[Updates]:
    """Yield the left updates in a range at times up to its time, multiplied by its diff."""
    bounds = np.empty((len(layers), 2), np.int64)
    range_bounds(layers.descriptions, task.key.shape[0], task.key, task.low, task.high - 1, bounds)
    for layer, (first, last) in zip(layers, bounds.tolist(), strict=True):
        if first == last:
            continue
        data = np.ascontiguousarray(layer.data[:, first:last])
        diff = layer.diff if layer.diff.shape[0] == 1 else layer.diff[first:last]
        if layer.time.shape[1] == 1:
            if (layer.time <= task.time).all():
                yield Updates(data, task.time, diff * task.diff)
            continue
        visible = np.flatnonzero((layer.time[:, first:last] <= task.time).all(axis=0))
        diffs = np.broadcast_to(diff, last - first)[visible] * task.diff
        yield Updates(np.ascontiguousarray(data[:, visible]), task.time, diffs)


def coalesce(parts: Iterable[Updates]) -> Iterator[Updates]:
    """Yield the updates in larger parts; a range often has only a few rows in each layer."""
    waiting: list[Updates] = []
    rows = 0
    for part in parts:
        waiting.append(part)
        rows += len(part)
        if rows >= MANY:
            yield Updates.concat(waiting)
            waiting, rows = [], 0
    if waiting:
        yield Updates.concat(waiting)


@dataclass(slots=True, eq=False, kw_only=True)
class RangeJoin(Operator):
    """``plan.RangeJoin``: port 0 receives changes of the left side, port 1 those of the thresholds."""

    left: Arrange
    right: Arrange
    key: int
    comparison: str
    pair_mfp: CompiledMfp
    """Mfp over left row and right row: the comparison as a predicate, and the outputs."""
    left_mfp: CompiledMfp
    """Mfp of the same outputs over the left row alone."""
    deltas: tuple[list[Updates], list[Updates]] = field(default_factory=lambda: ([], []))

    def push(self, port: int, updates: Updates) -> None:
        self.counters.updates_in += len(updates)
        self.deltas[port].append(updates)
        self.schedule()

    def hydrate(self) -> None:
        self.schedule()

    def flush(self) -> None:
        left, right = self.deltas
        if self.step.hydrating:
            for updates in self.snapshot():
                self.emit(updates)
        else:
            if left:
                for updates in self._match_left_changes(Updates.concat(left)):
                    self.emit(updates)
            if right:
                for updates in self._match_threshold_changes(Updates.concat(right), self.left.layers):
                    self.emit(updates)
        self.commit()

    def _match_left_changes(self, updates: Updates) -> Iterator[Updates]:
        """Yield changed left rows joined with the thresholds of earlier times."""
        target, closed, floor = self.right.lookup_target, self.step.lower, self.step.floor
        keep_left = np.arange(updates.data.shape[0], dtype=np.int64)
        keep_right = np.arange(self.right.width, dtype=np.int64)
        key = tuple(range(self.key))
        pairs = lookup(updates, key, target, keep_left, keep_right, Order.BEFORE, closed=closed, floor=floor)
        yield from apply_mfp_to_parts(self.pair_mfp, pairs)

    def _match_threshold_changes(self, updates: Updates, layers: Layers) -> Iterator[Updates]:
        """Yield changed thresholds joined with the left rows of times no later."""
        bounds = Updates(np.ascontiguousarray(updates.data[: self.key + 1]), updates.time, updates.diff)
        yield from apply_mfp_to_parts(self.left_mfp, coalesce(self._scan_changed_ranges(bounds, layers)))

    def _scan_changed_ranges(self, bounds: Updates, layers: Layers) -> Iterator[Updates]:
        for task in changed_ranges(bounds.consolidate(), self.key, self.comparison):
            yield from scan_range(layers, task)

    def record_link(self, verdict: int, count: int, added: int) -> None:
        """Record whether the left side was read in order (``verdict``); see :meth:`Spine.read_in_order`."""
        if verdict:
            self.left.spine.recent.ordered_steps = ORDERED_STEPS

    def commit_link(self, verdict: int, count: int, added: int, after: Antichain) -> None:
        self.record_link(verdict, count, added)

    def snapshot(self) -> Iterator[Updates]:
        thresholds = list(self.right.snapshot())
        if thresholds:
            yield from self._match_threshold_changes(Updates.concat(thresholds), self.left.layers)

    def size(self) -> int:
        return self.left.size()

    def commit(self) -> None:
        for delta in self.deltas:
            delta.clear()

    def rollback(self) -> None:
        self.commit()


@dataclass(slots=True, eq=False, kw_only=True)
class PathSegment(Operator):
    """The half-joins of ``paths[0]`` over ``streams[0]``; only the first part applies the path's mfp."""

    streams: tuple[Operator, ...]
    paths: tuple[DeltaPath, ...]
    deltas: list[list[Updates]] = field(default_factory=list)
    match_count: int = 0
    is_first: bool
    is_last: bool
    hydrates: bool
    """Whether its path is the one that hydration uses."""
    carries_original_time: bool
    """Whether updates carry their original time."""

    def push(self, port: int, updates: Updates) -> None:
        if self.is_first:
            Operator.push(self, port, updates)
            return
        self.counters.updates_in += len(updates)
        self.place.scope.forward(self, port, updates)

    def accept(self, port: int, updates: Updates) -> None:
        self.deltas[0].append(updates)

    def hydrate(self) -> None:
        if self.is_first:
            self.schedule()

    def flush(self) -> None:
        step, delta = self.step, self.deltas[0]
        self.deltas[0] = []
        if step.hydrating and not any(step.rounds):
            if self.hydrates or not self.is_first:
                self._hydrate_path(delta)
        elif delta:
            self._match_changes(Updates.concat(delta))

    def _hydrate_path(self, delta: list[Updates]) -> None:
        (path,), (stream,) = self.paths, self.streams
        parts: Iterable[Updates] = delta
        if self.is_first:
            parts = stream.snapshot() if stream.is_hydrated else delta
            parts = map(self._add_original_time, apply_mfp_to_parts(path.mfp, parts))
        results = _match_half_joins(self, path, path.half_joins, parts, origin=self._origin, hydrating=True)
        _emit_all(self, map(self._drop_original_time, results))

    def _match_changes(self, updates: Updates) -> None:
        (path,) = self.paths
        if self.is_first:
            updates = self._add_original_time(apply_mfp_to_net(path.mfp, updates))
        passed = 0
        if path.half_joins:
            updates, passed = _match_while_small(self, path, updates, self._origin)
        if not len(updates):
            return
        if passed == len(path.half_joins):
            self.emit(self._drop_original_time(updates), more=len(updates) >= LARGE_CHUNK)
            return
        rest = _match_half_joins(
            self, path, path.half_joins[passed:], (updates,), origin=self._origin, hydrating=False
        )
        _emit_all(self, map(self._drop_original_time, rest))

    @property
    def _origin(self) -> int:
        return self.place.scope.depth if self.carries_original_time else 0

    def _add_original_time(self, updates: Updates) -> Updates:
        if not self.carries_original_time:
            return updates
        return updates.with_time(np.concatenate((updates.time, updates.time)))

    def _drop_original_time(self, updates: Updates) -> Updates:
        if not (self.carries_original_time and self.is_last):
            return updates
        return updates.with_time(np.ascontiguousarray(updates.time[: self._origin]))

    def snapshot(self) -> Iterator[Updates]:
        raise NotImplementedError("a part of a path has nothing of its own to read")

    def commit(self) -> None:
        self.deltas[0].clear()

    def rollback(self) -> None:
        self.deltas[0].clear()
