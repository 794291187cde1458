"""Joins: ``plan.DeltaJoin`` over shared arrangements, and ``plan.RangeJoin`` for inequalities.

A delta join keeps no intermediate state: the changes of each relation look up all other relations along a
path. A :class:`Segment` is the part of a path that runs at one worker, between exchanges. In loops, updates
carry their start time beside the time that they have reached, through all segments (see ``trace.lookup``).
``plan.DeltaJoin`` says which updates meet.

A range join compares with a maintained threshold and touches only the rows between the old and the new
threshold. Section 6.1 of K-Pg asks for such an inequality join (TPC-H Q11 and Q22).
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
from kpg.runtime.operators.linear import apply_all, apply_one
from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.records import dataclass
from kpg.runtime.trace.batch import Layers
from kpg.runtime.trace.head import DIRECT
from kpg.runtime.trace.lookup import Meeting, Order, lookup
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import MAX_WORD, MIN_WORD, NULL

LARGE = 1 << 18
"""Output chunks of at least this many rows are absorbed downstream before the next is made."""
SAMPLE = 256
"""Rows that are followed along a path to see what it costs."""
GROWN = 1.25
"""A lookup after which there are so many times as many updates may have met what cancels out. Twelve lookups
that grow by a little less make 14 times as many of a few."""
MOST_TOUCHED = 1 << 20
"""A sample that meets so many rows costs what it is to save: a smaller one is followed instead."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One lookup: ``mfp`` sees the kept stream columns, then the kept arrangement columns."""

    arrangement: Arrange
    relation: int
    key: tuple[int, ...]
    keep_stream: NDArray[np.int64]
    keep_batch: NDArray[np.int64]
    mfp: CompiledMfp
    meeting: Meeting


@dataclass(frozen=True, slots=True)
class JoinPath:
    """How changes of one relation find their matches in all others."""

    relation: int
    mfp: CompiledMfp
    stages: tuple[Stage, ...]


def settled(updates: Updates, before: int) -> Updates:
    """What ``before`` updates of a stream have become, without what cancels out, if there may be much of it.

    A row that was replaced is met as having come, gone, and as what it is now: where all n relations of a
    path have rows that change together, that would make 3^n combinations, of which all but one cancel out.
    """
    if updates.constant_diff or updates.data.shape[1] < GROWN * before:
        return updates
    return updates.consolidate()


@dataclass(slots=True, eq=False, kw_only=True)
class Join(Operator):
    """Each relation's changes go along its path; see ``plan.DeltaJoin`` for which updates meet."""

    streams: tuple[Operator, ...]
    paths: tuple[JoinPath, ...]
    deltas: list[list[Updates]] = field(default_factory=list)
    matched: int = 0
    chosen: int | None = None
    """The path that is followed to fill it, if many workers have agreed on one."""

    def accept(self, port: int, updates: Updates) -> None:
        self.deltas[port].append(updates)

    def flush(self) -> None:
        step = self.step
        if step.hydrating and not any(step.rounds):
            self._hydrate()
            return
        for path in self.paths:
            delta = self.deltas[path.relation]
            if delta:
                self.deltas[path.relation] = []
                for stage in path.stages:
                    if not stage.arrangement.spine.sought():
                        break
                else:
                    self._change(path, settled(Updates.concat(delta), len(delta[0])))

    def _change(self, path: JoinPath, delta: Updates) -> None:
        """Emit what changes of the path's relation make of the result.

        In a loop, a match can move an update to a later time; what it meets next goes by its time at the
        start, which is carried along below the other.
        """
        depth, origin = self.place.scope.depth, 0
        time = delta.time
        if depth > 1 and len(path.stages) > 1:
            delta, origin = delta.with_time(np.concatenate((time, time))), depth
        updates, passed = self._meet(path, apply_one(path.mfp, delta), origin)
        if not updates.data.shape[1]:
            return
        if passed == len(path.stages):
            if origin:
                updates = updates.with_time(time if updates.time is delta.time else updates.time[:depth])
            self.emit(updates, more=updates.data.shape[1] >= LARGE)
            return
        found = self._match(path, path.stages[passed:], (updates,), origin=origin, hydrating=False)
        if origin:
            found = (one.with_time(one.time[:depth]) for one in found)
        self._pass_on(found)

    def _meet(self, path: JoinPath, updates: Updates, origin: int) -> tuple[Updates, int]:
        """Follow the path as long as updates are few: what comes of them, and how many stages they passed."""
        step = self.step
        closed, floor, relation = step.lower, step.floor, path.relation
        for passed, stage in enumerate(path.stages):
            if not updates.data.shape[1]:
                return updates, passed
            order = Order.THROUGH if stage.relation < relation else Order.BEFORE
            met = stage.meeting.of(updates, stage.arrangement.spine.sought(), order, closed, floor, origin)
            if met is None:
                return updates, passed
            self.matched += met.data.shape[1]
            if stage is not path.stages[-1]:
                met = settled(met, updates.data.shape[1])
            updates = apply_one(stage.mfp, met)
        return updates, len(path.stages)

    def _pass_on(self, results: Iterable[Updates]) -> None:
        """Emit results one by one; Ctrl-C is noticed between them."""
        interrupt = self.place.scope.interrupt
        for updates in results:
            self.emit(updates, more=updates.data.shape[1] >= LARGE)
            interrupt.check()

    def hydrate(self) -> None:
        self.schedule()

    def _hydrate(self) -> None:
        """The whole result, along the one path that looks cheapest: every pair is met exactly once."""
        self._pass_on(self.snapshot())
        self._clear()

    def snapshot(self) -> Iterator[Updates]:
        path = self._cheapest()
        return self._follow(path, self._contents(path.relation), hydrating=True)

    def _follow(
        self, path: JoinPath, parts: Iterable[Updates], *, origin: int = 0, hydrating: bool
    ) -> Iterator[Updates]:
        """The parts of the path's relation matched with all others; every part goes through at once.

        ``origin`` is that of ``lookup``.
        """
        found = apply_all(path.mfp, parts)
        return self._match(path, path.stages, found, origin=origin, hydrating=hydrating)

    def _match(
        self,
        path: JoinPath,
        stages: tuple[Stage, ...],
        found: Iterable[Updates],
        *,
        origin: int,
        hydrating: bool,
    ) -> Iterator[Updates]:
        """What has got as far as these stages of the path matched with the rest."""
        found = iter(found)
        for stage in stages:
            if hydrating:
                order = Order.ANY
            else:
                order = Order.THROUGH if stage.relation < path.relation else Order.BEFORE
            last = stage is stages[-1]
            found = apply_all(stage.mfp, self._matches(stage, found, order, origin, last=last))
        return found

    def _matches(
        self, stage: Stage, stream: Iterable[Updates], order: Order, origin: int, *, last: bool
    ) -> Iterator[Updates]:
        step, keep = self.step, (stage.keep_stream, stage.keep_batch)
        poll = self.place.scope.interrupt.check
        closed, floor = step.lower, step.floor
        for updates in stream:
            sought = stage.arrangement.sought
            for matches in lookup(
                updates, stage.key, sought, *keep, order, closed=closed, floor=floor, origin=origin, poll=poll
            ):
                self.matched += len(matches)
                yield matches if last else settled(matches, len(updates))
                poll()  # a predicate may let none of them through, so that nobody else looks

    def _contents(self, relation: int) -> Iterator[Updates]:
        """All of a relation: what a new input has pushed in this step, or an older one's history."""
        stream = self.streams[relation]
        if stream.hydrated:
            yield from stream.snapshot()
        else:
            yield from self.deltas[relation]

    def _cheapest(self) -> JoinPath:
        """The path that touches the fewest rows, judged by following a sample of its relation."""
        if self.chosen is not None:
            return self.paths[self.chosen]
        return min(self.paths, key=self._estimate)

    def _estimate(self, path: JoinPath) -> float:
        stream = self.streams[path.relation]
        size = stream.size() if stream.hydrated else sum(len(u) for u in self.deltas[path.relation])
        first = next((u for u in self._contents(path.relation) if len(u)), None)
        if first is None:
            return 0.0
        rows = SAMPLE
        while True:
            step = max(1, len(first) // rows)
            sample = first.take(np.arange(0, len(first), step, dtype=np.int64))
            touched = self._touched(path, sample)
            if touched < MOST_TOUCHED or len(sample) == 1:
                return size * (1.0 + touched / len(sample))
            rows = max(1, len(sample) // 16)

    def _touched(self, path: JoinPath, sample: Updates) -> int:
        """How many rows a sample meets on the path; it is left once they are ``MOST_TOUCHED``."""
        before = self.matched
        # A sample may hold a row that came without its going, on which an expression may fail.
        with suppress(DataError):
            for _ in self._follow(path, (sample,), hydrating=True):
                self.place.scope.interrupt.check()
                if self.matched - before >= MOST_TOUCHED:
                    break
        touched = self.matched - before
        self.matched = before
        return touched

    def _clear(self) -> None:
        for delta in self.deltas:
            delta.clear()

    def commit(self) -> None:
        self._clear()

    def rollback(self) -> None:
        self._clear()


Words = NDArray[np.int64]
NO_KEY: Words = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Range:
    """Left rows of ``key`` whose compared column is in [low, high) change by ``diff`` at ``time``.

    ``high`` is one beyond the largest word where there is no upper end.
    """

    key: Words
    low: int
    high: int
    time: Words
    diff: int


def ranges(bounds: Updates, key: int, comparison: str) -> Iterator[Range]:
    """The stretches of left rows that a change of thresholds touches, and by how much.

    ``bounds`` are consolidated rows (key..., v). Where a retracted and an added threshold agree on a
    row, their diffs cancel, and the row is in no range.
    """
    if key == 0 and bounds.constant_time:
        # Consolidated, so in order: NULL is the least word.
        values, diffs = bounds.data[0].tolist(), bounds.diffs().tolist()
        known = 1 if values[:1] == [NULL] else 0
        for low, high, diff in _stretches(values[known:], diffs[known:], comparison):
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
        for low, high, diff in _stretches(rows[key, index].tolist(), counts[index].tolist(), comparison):
            if diff and low < high:
                yield Range(prefix, low, high, time, diff)


def _stretches(values: list[int], diffs: list[int], comparison: str) -> Iterator[tuple[int, int, int]]:
    """(low, high, sum of the diffs of the thresholds that a row in [low, high) satisfies)."""
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


def scan(layers: Layers, task: Range) -> Iterator[Updates]:
    """The left updates in a range that are no later than its time, scaled by its diff."""
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
        seen = np.flatnonzero((layer.time[:, first:last] <= task.time).all(axis=0))
        diffs = np.broadcast_to(diff, last - first)[seen] * task.diff
        yield Updates(np.ascontiguousarray(data[:, seen]), task.time, diffs)


def together(parts: Iterable[Updates]) -> Iterator[Updates]:
    """The updates in larger parts: what comes of a range in each layer is often a few rows."""
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
    """Port 0 takes changes of the left side, port 1 those of the thresholds."""

    left: Arrange
    right: Arrange
    key: int
    comparison: str
    pair_mfp: CompiledMfp
    """Over left row, right row: the comparison as a predicate, and the outputs."""
    left_mfp: CompiledMfp
    """The same outputs over the left row alone."""
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
                for updates in self._left(Updates.concat(left)):
                    self.emit(updates)
            if right:
                for updates in self._right(Updates.concat(right), self.left.layers):
                    self.emit(updates)
        self.commit()

    def _left(self, updates: Updates) -> Iterator[Updates]:
        """Changed left rows against the thresholds of earlier times."""
        sought, closed, floor = self.right.sought, self.step.lower, self.step.floor
        keep_left = np.arange(updates.data.shape[0], dtype=np.int64)
        keep_right = np.arange(self.right.width, dtype=np.int64)
        key = tuple(range(self.key))
        pairs = lookup(updates, key, sought, keep_left, keep_right, Order.BEFORE, closed=closed, floor=floor)
        yield from apply_all(self.pair_mfp, pairs)

    def _right(self, updates: Updates, layers: Layers) -> Iterator[Updates]:
        """Changed thresholds against the left rows of times no later."""
        bounds = Updates(np.ascontiguousarray(updates.data[: self.key + 1]), updates.time, updates.diff)
        yield from apply_all(self.left_mfp, together(self._between(bounds, layers)))

    def _between(self, bounds: Updates, layers: Layers) -> Iterator[Updates]:
        for task in ranges(bounds.consolidate(), self.key, self.comparison):
            yield from scan(layers, task)

    def linked(self, verdict: int, count: int, added: int) -> None:
        """The verdict is whether the left side was read in order: see :meth:`Spine.layers`."""
        if verdict:
            self.left.spine.recent.direct = DIRECT

    def committed(self, verdict: int, count: int, added: int, after: Antichain) -> None:
        self.linked(verdict, count, added)

    def snapshot(self) -> Iterator[Updates]:
        thresholds = list(self.right.snapshot())
        if thresholds:
            yield from self._right(Updates.concat(thresholds), self.left.layers)

    def size(self) -> int:
        return self.left.size()

    def commit(self) -> None:
        for delta in self.deltas:
            delta.clear()

    def rollback(self) -> None:
        self.commit()


@dataclass(slots=True, eq=False, kw_only=True)
class Segment(Join):
    """The stages of ``paths[0]`` over ``streams[0]``; its mfp is applied by the ``first`` part only.

    Of the paths of a join one is ``followed`` when it is filled.
    """

    first: bool
    final: bool
    followed: bool
    carries: bool
    """Whether times are carried along."""

    def push(self, port: int, updates: Updates) -> None:
        if self.first:
            Operator.push(self, port, updates)
            return
        self.counters.updates_in += len(updates)
        self.place.scope.pass_on(self, port, updates)

    def accept(self, port: int, updates: Updates) -> None:
        self.deltas[0].append(updates)

    def hydrate(self) -> None:
        if self.first:
            self.schedule()

    def flush(self) -> None:
        step, delta = self.step, self.deltas[0]
        self.deltas[0] = []
        if step.hydrating and not any(step.rounds):
            if self.followed or not self.first:
                self._fill(delta)
        elif delta:
            self._follow_changes(Updates.concat(delta))

    def _fill(self, delta: list[Updates]) -> None:
        (path,), (stream,) = self.paths, self.streams
        parts: Iterable[Updates] = delta
        if self.first:
            parts = stream.snapshot() if stream.hydrated else delta
            parts = map(self._setting_out, apply_all(path.mfp, parts))
        found = self._match(path, path.stages, parts, origin=self._origin, hydrating=True)
        self._pass_on(map(self._arrived, found))

    def _follow_changes(self, updates: Updates) -> None:
        (path,) = self.paths
        if self.first:
            updates = self._setting_out(apply_one(path.mfp, updates))
        passed = 0
        if path.stages:
            updates, passed = self._meet(path, updates, self._origin)
        if not len(updates):
            return
        if passed == len(path.stages):
            self.emit(self._arrived(updates), more=len(updates) >= LARGE)
            return
        rest = self._match(path, path.stages[passed:], (updates,), origin=self._origin, hydrating=False)
        self._pass_on(map(self._arrived, rest))

    @property
    def _origin(self) -> int:
        return self.place.scope.depth if self.carries else 0

    def _setting_out(self, updates: Updates) -> Updates:
        if not self.carries:
            return updates
        return updates.with_time(np.concatenate((updates.time, updates.time)))

    def _arrived(self, updates: Updates) -> Updates:
        if not (self.carries and self.final):
            return updates
        return updates.with_time(np.ascontiguousarray(updates.time[: self._origin]))

    def snapshot(self) -> Iterator[Updates]:
        raise NotImplementedError("a part of a path has nothing of its own to read")
