"""What a few changes of a large partition make of its rows' answers, found around the changes.

A stretch of the partition is computed in its surroundings: the rows that its frames have, and partial
aggregates of all others that they have too.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.functions.windowing import Answer
from kpg.runtime.operators.windows import reach
from kpg.runtime.operators.windows.evaluate import Around, evaluated
from kpg.runtime.operators.windows.frames import limit_of
from kpg.runtime.operators.windows.index import Index, Node
from kpg.runtime.operators.windows.layout import laid_out
from kpg.runtime.operators.windows.ranking import bucket_starts
from kpg.runtime.operators.windows.reach import answer_of, distance_of
from kpg.runtime.plan import Bound, Edge, Exclude, Unit, WindowCall
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Literal
from kpg.runtime.types import NULL

Words = NDArray[np.int64]
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
        start = min(reach.before(index, calls, change.start, change.rows) for index in (old, new))
        rest = min(
            index.size - reach.behind(index, calls, end, change.rows)
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
        if answer in reach.PLACED:
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
    low = reach.peers_before(index, low, index.row(low))
    high = reach.peers_behind(index, high, index.row(high - 1))
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
    limit, column, descending = limit_of(row, bound, by), by.column, by.descending

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
    limit, column, descending = limit_of(row, bound, by), by.column, by.descending

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
                reach.peers_before(index, end, index.row(end))
                for index, end in zip((old, new), ends, strict=True)
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
    if answer in reach.SHARES:
        return old.size == new.size
    if answer in reach.PLACED or frame.end.edge is not Edge.UNBOUNDED_FOLLOWING:
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
