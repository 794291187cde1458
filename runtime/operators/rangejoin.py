"""``plan.RangeJoin``: a comparison with a maintained threshold touches the rows between old and new.

This is the operator that K-Pg's section 6.1 wishes for (TPC-H Q11 and Q22): an inequality join.
"""

from collections.abc import Iterable, Iterator
from dataclasses import field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.kernels.collect import range_bounds
from kpg.runtime.kernels.links import MANY
from kpg.runtime.mfp import CompiledMfp
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.linear import apply_all
from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.records import dataclass
from kpg.runtime.trace.batch import Layers
from kpg.runtime.trace.lookup import Order, lookup
from kpg.runtime.trace.recent import DIRECT
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import MAX_WORD, MIN_WORD, NULL

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
