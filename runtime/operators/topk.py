"""``plan.TopK`` (also min and max), and functions of operators that read ordered groups.

A :class:`GroupOperator` keeps no state of groups. It reads the old result of a group from the trace
without this step's batch, and the new result with it.

In a loop, the output update at time t is the mixed difference over the unit cube below t: at each
corner some coordinates are those of t and the others are one less, with alternating signs. It can
be nonzero only at least upper bounds of times of the group's updates. :class:`ScheduledGroups`
holds the groups to read again in later rounds.

Arrangements order text by words that hold its first bytes (``order_word``), which is exact except
for longer strings with an equal prefix. :class:`ExactOrder` therefore reads a whole run of equal
prefixes and sorts it before the window is cut.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import cache, cmp_to_key
from itertools import pairwise, product
from operator import gt
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.dataflow_graph import Operator, Place, Step
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.functions import TEXT_WORDS
from kpg.runtime.kernels.collect import heads
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.records import dataclass
from kpg.runtime.trace.batch import Layers, collect, differences, group_times, later_rounds
from kpg.runtime.trace.head import ORDERED_STEPS
from kpg.runtime.trace.updates import ONE, Updates

Words = NDArray[np.int64]


Rounds = tuple[int, ...]
GroupRows = tuple[Words, Words, Words]
"""Rows, their multiplicities or diffs, and the task of each."""


ONLY_GROUP: Final = np.zeros(1, np.int64)
"""Group numbers of a single group."""

FEW_SCHEDULED = 8
"""Scheduled groups up to which they are added one by one."""

FEW_GROUPS = 8
"""Groups up to which looking them up is cheaper than asking each layer for later times first."""


@dataclass(frozen=True, slots=True)
class Corners:
    """Corners of the cube below a time, as offsets to subtract from its coordinates, and their signs."""

    offsets: Words
    signs: Words

    @property
    def count(self) -> int:
        """Number of corners of a time."""
        return self.signs.shape[0]

    @staticmethod
    def below(step: Step) -> "Corners":
        """Return the corners that can have rows: none before round 0 or the epoch of hydration."""
        return _make_corners((not step.hydrating, *map(bool, step.rounds)))

    @staticmethod
    def below_later_rounds(step: Step) -> "Corners":
        """Return the corners for this and all later rounds of the innermost loop."""
        return _make_corners((not step.hydrating, *map(bool, step.rounds[:-1]), True))

    def times(self, epochs: Words, rounds: Rounds) -> Words:
        """Return the corners per ``(epoch, *rounds)``, adjacent: ``int64[depth, len(epochs) * count]``."""
        times = np.empty((len(rounds) + 1, epochs.shape[0], self.count), np.int64)
        times[0] = epochs[:, None] - self.offsets[0]
        for i, r in enumerate(rounds):
            times[i + 1] = r - self.offsets[i + 1]
        return times.reshape(len(rounds) + 1, -1)


@cache
def _make_corners(varies: tuple[bool, ...]) -> Corners:
    """Return the corners that vary in the coordinates marked True."""
    offsets = np.array(list(product(*((0, 1) if two else (0,) for two in varies))), np.int64).T
    return Corners(np.ascontiguousarray(offsets), 1 - 2 * (offsets.sum(axis=0) % 2))


EPOCH_CORNERS: Final = _make_corners((True,))
"""Corners of a time outside loops: the time, and the one before."""


@dataclass(slots=True)
class ScheduledGroups:
    """Groups to read again in later rounds of the step."""

    groups: dict[Rounds, list[Words]] = field(default_factory=dict)

    def pop(self, rounds: Rounds) -> list[Words]:
        """Remove and return the prefixes ``int64[group, n]`` scheduled at these rounds."""
        return self.groups.pop(rounds, [])

    def clear(self) -> None:
        """Remove all groups."""
        self.groups.clear()

    def add_changed(self, prefix: Words, layers: Layers, step: Step) -> tuple[Words, Words, list[Rounds]]:
        """Schedule changed groups ``prefix int64[group, n]`` for later rounds.

        Returns (group, epoch) pairs to read in this round, and the rounds at which groups were scheduled:
        the least upper bounds of this round and the rounds in each group's history. In a loop that is not
        nested only the next one is scheduled; reading the group then schedules the one after.
        """
        if step.has_single_time:
            count = prefix.shape[1]
            current = (
                (ONLY_GROUP, step.stamp[0]) if count == 1 else (np.arange(count), np.full(count, step.time))
            )
            if count > FEW_GROUPS and not _may_have_later(layers, step.rounds):
                return *current, []
            return *current, self.schedule(prefix, *later_rounds(layers, prefix, step.inner))
        rounds = np.array(step.rounds, np.int64).reshape(-1, 1)
        trace_rounds = (
            layers[0].time.shape[0] - 1
        )  # an arrangement that enters the loop lacks the last rounds
        times, group = group_times(layers, prefix, step.lower)
        times = np.concatenate((times, np.zeros((len(rounds) - trace_rounds, times.shape[1]), np.int64)))
        here = (times[0] >= step.lower) & (times[1:] <= rounds).all(axis=0)
        pairs = distinct_columns(np.stack((group[here], times[0, here])))
        current = pairs[0], pairs[1]
        bound = np.maximum(times[1:], rounds)
        after = np.flatnonzero((bound != rounds).any(axis=0))
        if not after.shape[0]:
            return *current, []
        later_pairs = distinct_columns(np.concatenate((group[None, after], bound[:, after])))
        if len(step.rounds) == 1:
            later_pairs = later_pairs[:, np.flatnonzero(np.diff(later_pairs[0], prepend=-1))]
        return *current, self._schedule(prefix, later_pairs)

    def schedule(self, prefix: Words, at: Words, group: Words) -> list[Rounds]:
        """Schedule groups, columns of ``prefix``, at rounds, columns of ``at``; return the rounds."""
        if group.shape[0] <= FEW_SCHEDULED:
            return self._schedule_few(prefix, at.T.tolist(), group.tolist())
        return self._schedule(prefix, np.concatenate((group.reshape(1, -1), at)))

    def _schedule_few(self, prefix: Words, rounds: list[list[int]], groups: list[int]) -> list[Rounds]:
        """Schedule each group, a column of ``prefix``, at its rounds."""
        scheduled_rounds: dict[Rounds, None] = {}
        for at, number in zip(map(tuple, rounds), groups, strict=True):
            self.groups.setdefault(at, []).append(prefix[:, number : number + 1])
            scheduled_rounds[at] = None
        return list(scheduled_rounds)

    def _schedule(self, prefix: Words, pairs: Words) -> list[Rounds]:
        """Schedule the columns (group, rounds...) of ``pairs``."""
        order = np.lexsort(pairs[:0:-1])
        at = pairs[1:, order]
        starts = [0, *(np.flatnonzero((at[:, 1:] != at[:, :-1]).any(axis=0)) + 1).tolist(), order.shape[0]]
        scheduled_rounds: list[Rounds] = []
        for start, end in pairwise(starts):
            rounds = tuple(at[:, start].tolist())
            self.groups.setdefault(rounds, []).append(prefix[:, pairs[0, order[start:end]]])
            scheduled_rounds.append(rounds)
        return scheduled_rounds


def _may_have_later(layers: Layers, rounds: Rounds) -> bool:
    """Return whether the layers may have later rounds.

    Missing coordinates are round 0, which is not later.
    """
    return any(any(map(gt, layer.latest[1:], rounds)) for layer in layers)


def distinct_columns(array: Words) -> Words:
    """Return the distinct columns in lexicographic order; one column if there are no rows."""
    if not array.shape[0]:
        return np.empty((0, 1), np.int64)
    if array.shape[0] == 1:
        return np.unique(array[0]).reshape(1, -1)
    ordered = array[:, np.lexsort(array[::-1])]
    new = np.ones(ordered.shape[1], np.bool_)
    new[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    return np.ascontiguousarray(ordered[:, new])


Text = tuple[int, int, bool]
"""(first order column of the prefix words, column of the code, descending), as in ``plan.TopK.exact``."""


class ExactOrder:
    """Comparison of rows whose order columns include text."""

    def __init__(self, texts: tuple[Text, ...], dictionary: Dictionary) -> None:
        self.texts = {first: (code, descending) for first, code, descending in texts}
        self.first = min(self.texts)
        self.ends = tuple(text + TEXT_WORDS for text in sorted(self.texts))
        self.dictionary = dictionary

    def window(self, rows: Words, count: Words, task: Words, offset: int, limit: int | None) -> GroupRows:
        """Return rows ``offset .. offset + limit`` of each task, in exact order."""
        order = self.order(rows, task)
        rows, count = rows[:, order], count[order]
        before = np.cumsum(count) - count
        start = np.searchsorted(task, task)
        place = before - before[start] if task.shape[0] else before
        low = np.maximum(place, offset)
        high = place + count if limit is None else np.minimum(place + count, offset + limit)
        positions = np.flatnonzero(high > low)
        return np.ascontiguousarray(rows[:, positions]), (high - low)[positions], task[positions]

    def order(self, rows: Words, task: Words) -> Words:
        """Return positions in exact order: each run of ties with different strings is sorted."""
        order = np.arange(task.shape[0], dtype=np.int64)
        run, unsure = self._find_runs(rows, task)
        starts = np.append(np.flatnonzero(run), task.shape[0])
        for place in np.unique(np.searchsorted(starts, np.flatnonzero(unsure), "right")).tolist():
            start, end = starts[place - 1 : place + 1].tolist()
            order[start:end] = start + self._sort_run(rows[:, start:end])
        return order

    def _find_runs(self, rows: Words, task: Words) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Mark where runs of ties on the first text's words begin, and after which rows the order is open.

        It is open where all words up to a text's last one tie and the texts differ.
        """
        tied, column = task[1:] == task[:-1], 0
        first, unsure = tied, np.zeros(tied.shape, np.bool_)
        for text, (code, _) in sorted(self.texts.items()):
            after = text + TEXT_WORDS
            tied = tied & (rows[column:after, 1:] == rows[column:after, :-1]).all(axis=0)
            unsure |= tied & (rows[code, 1:] != rows[code, :-1])
            first, column = tied if text == self.first else first, after
        return np.concatenate(([True], ~first)), unsure

    def _sort_run(self, rows: Words) -> Words:
        columns = rows.tolist()
        texts = {first: self.dictionary.decode(rows[code]) for first, (code, _) in self.texts.items()}

        def compare(a: int, b: int) -> int:
            column = self.first
            while column < len(columns):
                if column in texts:
                    x, y = texts[column][a], texts[column][b]
                    if x != y and x is not None and y is not None:
                        sign = -1 if x.encode() < y.encode() else 1
                        return -sign if self.texts[column][1] else sign
                if columns[column][a] != columns[column][b]:
                    return -1 if columns[column][a] < columns[column][b] else 1
                column += TEXT_WORDS if column in texts else 1
            return 0

        return np.array(sorted(range(rows.shape[1]), key=cmp_to_key(compare)), np.int64)


LAST_TIME = np.iinfo(np.int64).max
"""Coordinate at or after all times."""
COMPACTION_STEPS: Final = 64
"""Steps over which the compaction of a trace is spread; at most twice as many."""
MIN_COMPACTION_ROWS: Final = 1 << 12
"""Rows of work of a compaction step below which dividing does not pay."""
FEW_WASTED_READS: Final = 1 << 10
"""Reads of cancelled updates that do not trigger a compaction."""
SINGLE_TIME: Final[Words] = np.zeros((1, 1), np.int64)
"""Time of rows that are sorted or compared without times."""


@dataclass(frozen=True, slots=True)
class Tasks:
    """Groups to read, each at a time; ``is_before[i]`` marks the read of a group's result before the step.

    A group's tasks are adjacent, in time order, the one before the step first.
    """

    prefix: Words
    times: Words
    is_before: NDArray[np.bool_]


def distinct_prefixes(pending: Sequence[Updates], scheduled: Sequence[Words], group: int) -> Words:
    """Return the distinct first ``group`` columns of updates and of scheduled prefixes, sorted."""
    if group == 0:
        return np.empty((0, 1), np.int64)
    if not scheduled and len(pending) == 1 and pending[0].data.shape[1] == 1:
        return np.ascontiguousarray(pending[0].data[:group])
    if not pending and len(scheduled) == 1 and scheduled[0].shape[1] == 1:
        return np.ascontiguousarray(scheduled[0])  # a contiguous copy: it may be a column of a larger array
    if len(pending) == 1 and pending[0].ordered and not scheduled:
        data = pending[0].data
        out = np.empty((group, data.shape[1]), np.int64)
        count = heads(data, out)
        return np.ascontiguousarray(out[:, :count])
    prefix = np.concatenate([*(updates.data[:group] for updates in pending), *scheduled], axis=1)
    return Updates(np.ascontiguousarray(prefix), SINGLE_TIME, ONE).consolidate().data


MixedDifferences = Callable[[Layers, Words, Words, Words], GroupRows]
"""Computes mixed differences; see :func:`read_differences`, without the operator."""


class GroupOperator(Protocol):
    """Operator whose output has rows for each group of an arrangement's rows.

    For each change of a group it retracts the group's old result and adds the new one.
    """

    place: Place
    arrangement: Arrange
    group: int
    """Number of columns that form the group."""
    scheduled_groups: ScheduledGroups

    @property
    def step(self) -> Step: ...
    def take_pending(self) -> list[Updates]: ...
    def emit(self, updates: Updates, *, more: bool = False) -> None: ...

    def read_groups(self, layers: Layers, tasks: Tasks, visible_layers: Words) -> GroupRows:
        """Return the output rows of the tasks: (rows, multiplicities, task of each), tasks ascending."""


def flush_groups(operator: GroupOperator, differences: MixedDifferences) -> list[Rounds]:
    """Emit the changes of the groups whose rows have changed, or that are scheduled in this round.

    Returns the later rounds of the step at which the operator has to run again.
    """
    step = operator.step
    if operator.place.scope.depth > 1:
        return _flush_in_loop(operator, differences)
    pending = operator.take_pending()
    layers = operator.arrangement.layers
    if not pending:
        return []
    if step.has_single_time and not step.hydrating:
        prefix = distinct_prefixes(pending, (), operator.group)
        groups = np.arange(prefix.shape[1], dtype=np.int64)
        epochs = np.full(prefix.shape[1], step.time, np.int64)
        if layers:
            rows, diff, _ = differences(layers, prefix, groups, epochs)
            operator.emit(Updates(rows, step.stamp, diff))
        return []
    tasks = _make_tasks(operator, Updates.concat(pending), hydrating=step.hydrating)
    visible_layers = np.full(tasks.is_before.shape[0], len(layers), np.int64)
    if operator.arrangement.has_changed:
        visible_layers[tasks.is_before] -= 1
    answer = operator.read_groups(layers, tasks, visible_layers)
    operator.emit(_result_differences(operator, answer, tasks))
    return []


def _flush_in_loop(operator: GroupOperator, differences: MixedDifferences) -> list[Rounds]:
    step, layers = operator.step, operator.arrangement.layers
    pending, prefixes = operator.take_pending(), operator.scheduled_groups.pop(step.rounds)
    if not (pending or prefixes) or not layers:
        return []
    prefix = distinct_prefixes(pending, prefixes, operator.group)
    groups, epochs, later = operator.scheduled_groups.add_changed(prefix, layers, step)
    rows, diff, task = differences(layers, prefix, groups, epochs)
    time = step.stamp
    if not step.has_single_time:
        time = np.repeat(step.stamp, task.shape[0], axis=1)
        time[0] = epochs[task]
    operator.emit(Updates(rows, time, diff))
    return later


def read_differences(
    operator: GroupOperator, layers: Layers, prefix: Words, groups: Words, epochs: Words
) -> GroupRows:
    """Return mixed differences of groups ``prefix[:, groups]`` at these epochs and the current rounds.

    The result is (rows, diffs, task of each), each row once per task.
    """
    step, corners = operator.step, Corners.below(operator.step)
    times = corners.times(epochs, step.rounds)
    at = np.ascontiguousarray(prefix[:, np.repeat(groups, corners.count)])
    trace_times = np.ascontiguousarray(times[: operator.arrangement.spine.depth])
    tasks = Tasks(at, trace_times, np.zeros(times.shape[1], np.bool_))
    visible_layers = np.full(times.shape[1], len(layers), np.int64)
    rows, count, task = operator.read_groups(layers, tasks, visible_layers)
    origin = task // corners.count
    signed = count * corners.signs[task % corners.count]
    net = Updates(rows, origin.reshape(1, -1), signed).consolidate()
    return net.data, net.diffs(), net.times()[0]


def _make_tasks(operator: GroupOperator, updates: Updates, *, hydrating: bool) -> Tasks:
    """Return one task per changed (group, time), and one per group before the step."""
    prefix, times = updates.data[: operator.group], updates.times()
    keys = np.concatenate((prefix, times)) if not hydrating else prefix
    changed = np.unique(keys, axis=1) if keys.shape[0] else keys[:, :1]
    prefix = np.ascontiguousarray(changed[: operator.group])
    if hydrating:
        at = np.full((operator.arrangement.spine.depth, changed.shape[1]), LAST_TIME, np.int64)
        return Tasks(prefix, at, np.zeros(changed.shape[1], np.bool_))
    at = changed[operator.group :]
    first = np.ones(changed.shape[1], np.bool_)
    if operator.group:
        first[1:] = (prefix[:, 1:] != prefix[:, :-1]).any(axis=0)
    else:
        first[1:] = False
    origin = np.sort(np.concatenate((np.arange(changed.shape[1]), np.flatnonzero(first))))
    before = np.zeros(origin.shape[0], np.bool_)
    before[:-1] = origin[:-1] == origin[1:]
    at = np.where(before, LAST_TIME, at[:, origin])
    return Tasks(np.ascontiguousarray(prefix[:, origin]), np.ascontiguousarray(at), before)


def _result_differences(operator: GroupOperator, results: GroupRows, tasks: Tasks) -> Updates:
    """Return the changes: each result appears at its task's time and goes at the group's next task."""
    rows, count, task = results
    entering = np.flatnonzero(~tasks.is_before[task])
    following = np.append(~tasks.is_before[1:], False)
    if operator.group:
        same = (tasks.prefix[:, 1:] == tasks.prefix[:, :-1]).all(axis=0)
        following[:-1] &= same
    leaving = np.flatnonzero(following[task])
    index = np.concatenate((entering, leaving))
    when = np.concatenate((task[entering], task[leaving] + 1))
    diff = np.concatenate((count[entering], -count[leaving]))
    data = np.ascontiguousarray(rows[:, index])
    time = np.ascontiguousarray(tasks.times[:, when])
    if operator.step.has_single_time:
        time = operator.step.stamp
    return Updates(data, time, diff).consolidate()


def group_snapshot(operator: GroupOperator) -> Iterator[Updates]:
    """Yield the results of all groups."""
    parts = [Updates(u.data[: operator.group], u.time, u.diff) for u in operator.arrangement.snapshot()]
    if not parts:
        return
    tasks = _make_tasks(operator, Updates.concat(parts), hydrating=True)
    layers = operator.arrangement.layers
    visible_layers = np.full(tasks.is_before.shape[0], len(layers), np.int64)
    rows, count, _ = operator.read_groups(layers, tasks, visible_layers)
    yield Updates(rows, operator.step.stamp, count)


@dataclass(slots=True, eq=False, kw_only=True)
class TopK(Operator):
    """``plan.TopK``: a window of each group's rows, in the order of the arrangement."""

    arrangement: Arrange
    group: int
    scheduled_groups: ScheduledGroups = field(default_factory=ScheduledGroups)
    limit: int | None
    offset: int
    exact: ExactOrder | None = None
    wasted_reads: int = 0
    is_compacting: bool = False

    def flush(self) -> None:
        for rounds in flush_groups(self, self._mixed_differences):
            self.place.scope.schedule_at(self, rounds)

    def snapshot(self) -> Iterator[Updates]:
        return group_snapshot(self)

    def commit(self) -> None:
        self.pending.clear()
        self.scheduled_groups.clear()

    def rollback(self) -> None:
        self.pending.clear()
        self.scheduled_groups.clear()

    def read_groups(self, layers: Layers, tasks: Tasks, visible_layers: Words) -> GroupRows:
        skip, limit, texts = self._read_limits()
        rows, count, task, updates_read = collect(
            layers, tasks.prefix, tasks.times, visible_layers, self.width, skip, limit, texts
        )
        self.wasted_reads += updates_read - rows.shape[1]
        if self.exact is None:
            return rows, count, task
        return self.exact.window(rows, count, task, self.offset, self.limit)

    def _read_limits(self) -> tuple[int, int | None, Sequence[int]]:
        """Return the rows to skip, the rows to read, and the columns after texts in the sort order."""
        if self.exact is None:
            return self.offset, self.limit, ()
        return 0, None if self.limit is None else self.offset + self.limit, self.exact.ends

    def _mixed_differences(self, layers: Layers, prefix: Words, groups: Words, epochs: Words) -> GroupRows:
        if self.exact is not None:
            return read_differences(self, layers, prefix, groups, epochs)
        step, corners = self.step, Corners.below(self.step)
        times = epochs, step.inner
        rows, diff, task, wasted = differences(
            layers,
            prefix,
            groups,
            times,
            (corners.offsets, corners.signs),
            self.width,
            self.offset,
            self.limit,
        )
        self.wasted_reads += wasted
        return rows, diff, task

    def record_link(self, verdict: int, count: int, added: int) -> None:
        """Record an ordered read (:meth:`Spine.read_in_order`) of the arrangement, and its wasted reads."""
        self.wasted_reads += added  # reads of cancelled updates
        self.arrangement.spine.recent.ordered_steps = ORDERED_STEPS

    def commit_link(self, verdict: int, count: int, added: int, after: Antichain) -> None:
        self.record_link(verdict, count, added)
        self.maintain()

    def schedule_groups(self, prefix: Words, pairs: Words) -> None:
        """Schedule groups for later rounds: columns (rounds..., group) of ``pairs``."""
        for rounds in self.scheduled_groups.schedule(prefix, pairs[:-1], pairs[-1]):
            self.place.scope.schedule_at(self, rounds)

    def maintain(self) -> None:
        """Compact the trace when reads of cancelled updates add up to a scan.

        The work is spread over the following steps.
        """
        if self.is_compacting or (
            self.wasted_reads > FEW_WASTED_READS
            and self.wasted_reads > 2 * self.arrangement.rows + FEW_WASTED_READS
        ):
            late = 2 * self.wasted_reads if self.is_compacting else 0
            spine = self.arrangement.spine
            self.is_compacting = not spine.compact(
                max(MIN_COMPACTION_ROWS, late, self.arrangement.rows // COMPACTION_STEPS)
            )
            self.wasted_reads = 0
