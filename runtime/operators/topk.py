"""``plan.TopK`` (so min and max too), and the base of operators that read ordered groups.

A :class:`GroupReader` keeps no state of its own. It reads the old answer of a group from the trace without
this step's batch, and the new answer with it.

In a loop, the output update at time t is the mixed difference over the unit cube below t: at each corner some
coordinates are those of t and the others are one less, with alternating signs. It can be nonzero only at
least upper bounds of times of the group's updates. :class:`Owed` holds the groups to read again in later
rounds.

Arrangements order text by words that hold its first bytes (``order_word``), which is exact except for longer
strings with an equal prefix. :class:`ExactOrder` therefore reads a whole run of equal prefixes and sorts it
before the window is cut.
"""

from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cache, cmp_to_key
from itertools import pairwise, product
from operator import gt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.dataflow_graph import Operator, Step
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.functions import TEXT_WORDS
from kpg.runtime.kernels.collect import heads
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.records import dataclass
from kpg.runtime.trace.batch import Layers, collect, differences, group_times, later_rounds
from kpg.runtime.trace.head import DIRECT
from kpg.runtime.trace.updates import ONE, Updates

Words = NDArray[np.int64]


Rounds = tuple[int, ...]


FIRST: Final = np.zeros(1, np.int64)
"""The number of the only group."""

FEW_OWED = 8
"""So many groups that are owed are noted one by one."""

FEW_GROUPS = 8
"""So many groups are looked up at once rather than asking each layer first whether it has anything later."""


@dataclass(frozen=True, slots=True)
class Corners:
    """The corners of the cube below a time, as what to subtract from its coordinates, and their signs."""

    offsets: Words
    signs: Words

    @property
    def each(self) -> int:
        """How many corners a time has."""
        return self.signs.shape[0]

    @staticmethod
    def below(step: Step) -> "Corners":
        """The corners at which there can be rows: none before round 0, nor before the epoch of hydration."""
        return _corners((not step.hydrating, *map(bool, step.rounds)))

    @staticmethod
    def from_here(step: Step) -> "Corners":
        """Those that will do in this and all later rounds of the innermost loop."""
        return _corners((not step.hydrating, *map(bool, step.rounds[:-1]), True))

    def times(self, epochs: Words, rounds: Rounds) -> Words:
        """The corners of each ``(epoch, *rounds)``, adjacent: ``int64[depth, len(epochs) * each]``."""
        times = np.empty((len(rounds) + 1, epochs.shape[0], self.each), np.int64)
        times[0] = epochs[:, None] - self.offsets[0]
        for i, r in enumerate(rounds):
            times[i + 1] = r - self.offsets[i + 1]
        return times.reshape(len(rounds) + 1, -1)


@cache
def _corners(both: tuple[bool, ...]) -> Corners:
    """The corners that differ in the coordinates that have both sides."""
    offsets = np.array(list(product(*((0, 1) if two else (0,) for two in both))), np.int64).T
    return Corners(np.ascontiguousarray(offsets), 1 - 2 * (offsets.sum(axis=0) % 2))


ONCE: Final = _corners((True,))
"""Those of a time outside of loops: the time, and the one before."""


@dataclass(slots=True)
class Owed:
    """The groups to be looked at again in later rounds of the step."""

    groups: dict[Rounds, list[Words]] = field(default_factory=dict)

    def take(self, rounds: Rounds) -> list[Words]:
        """The prefixes ``int64[group, n]`` owed at these rounds."""
        return self.groups.pop(rounds, [])

    def clear(self) -> None:
        """Owe nothing."""
        self.groups.clear()

    def add(self, prefix: Words, layers: Layers, step: Step) -> tuple[Words, Words, list[Rounds]]:
        """What to look at now and later, when the groups ``prefix int64[group, n]`` have changed.

        Returns (group, epoch) pairs for this round, and the rounds at which groups have come to be owed:
        the least upper bounds of this round and the rounds in each group's history; of these, in a loop
        that is not nested, only the next, at which the group will come to owe the one after.
        """
        if step.single_time:
            count = prefix.shape[1]
            now = (FIRST, step.stamp[0]) if count == 1 else (np.arange(count), np.full(count, step.time))
            if count > FEW_GROUPS and not _has_later(layers, step.rounds):
                return *now, []
            return *now, self.owe(prefix, *later_rounds(layers, prefix, step.inner))
        rounds = np.array(step.rounds, np.int64).reshape(-1, 1)
        known = layers[0].time.shape[0] - 1  # an arrangement that enters the loop lacks the last rounds
        times, group = group_times(layers, prefix, step.lower)
        times = np.concatenate((times, np.zeros((len(rounds) - known, times.shape[1]), np.int64)))
        here = (times[0] >= step.lower) & (times[1:] <= rounds).all(axis=0)
        pairs = distinct_columns(np.stack((group[here], times[0, here])))
        now = pairs[0], pairs[1]
        bound = np.maximum(times[1:], rounds)
        after = np.flatnonzero((bound != rounds).any(axis=0))
        if not after.shape[0]:
            return *now, []
        owed = distinct_columns(np.concatenate((group[None, after], bound[:, after])))
        if len(step.rounds) == 1:
            owed = owed[:, np.flatnonzero(np.diff(owed[0], prepend=-1))]
        return *now, self._owe(prefix, owed)

    def owe(self, prefix: Words, at: Words, group: Words) -> list[Rounds]:
        """Note groups, columns of ``prefix``, at rounds, columns of ``at``; which rounds these are."""
        if group.shape[0] <= FEW_OWED:
            return self._owe_few(prefix, at.T.tolist(), group.tolist())
        return self._owe(prefix, np.concatenate((group.reshape(1, -1), at)))

    def _owe_few(self, prefix: Words, rounds: list[list[int]], groups: list[int]) -> list[Rounds]:
        """Note each group, a column of ``prefix``, at its rounds."""
        found: dict[Rounds, None] = {}
        for at, number in zip(map(tuple, rounds), groups, strict=True):
            self.groups.setdefault(at, []).append(prefix[:, number : number + 1])
            found[at] = None
        return list(found)

    def _owe(self, prefix: Words, owed: Words) -> list[Rounds]:
        """Note groups by the rounds: columns (group, rounds...) of ``owed``."""
        order = np.lexsort(owed[:0:-1])
        at = owed[1:, order]
        starts = [0, *(np.flatnonzero((at[:, 1:] != at[:, :-1]).any(axis=0)) + 1).tolist(), order.shape[0]]
        found: list[Rounds] = []
        for start, end in pairwise(starts):
            rounds = tuple(at[:, start].tolist())
            self.groups.setdefault(rounds, []).append(prefix[:, owed[0, order[start:end]]])
            found.append(rounds)
        return found


def _has_later(layers: Layers, rounds: Rounds) -> bool:
    """Whether there may be later rounds; what is not in the layers' times is round 0, which is not later."""
    return any(any(map(gt, layer.latest[1:], rounds)) for layer in layers)


def distinct_columns(array: Words) -> Words:
    """The distinct columns in lexicographic order; without rows, one column."""
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
    """The comparison of rows whose order columns include text."""

    def __init__(self, texts: tuple[Text, ...], dictionary: Dictionary) -> None:
        self.texts = {first: (code, descending) for first, code, descending in texts}
        self.first = min(self.texts)
        self.ends = tuple(text + TEXT_WORDS for text in sorted(self.texts))
        self.dictionary = dictionary

    def window(
        self, rows: Words, count: Words, task: Words, offset: int, limit: int | None
    ) -> tuple[Words, Words, Words]:
        """Rows ``offset .. offset + limit`` of each task, in exact order."""
        order = self.order(rows, task)
        rows, count = rows[:, order], count[order]
        before = np.cumsum(count) - count
        start = np.searchsorted(task, task)
        place = before - before[start] if task.shape[0] else before
        low = np.maximum(place, offset)
        high = place + count if limit is None else np.minimum(place + count, offset + limit)
        kept = np.flatnonzero(high > low)
        return np.ascontiguousarray(rows[:, kept]), (high - low)[kept], task[kept]

    def order(self, rows: Words, task: Words) -> Words:
        """Positions in exact order: each run of ties with different strings sorted."""
        order = np.arange(task.shape[0], dtype=np.int64)
        run, unsure = self._runs(rows, task)
        starts = np.append(np.flatnonzero(run), task.shape[0])
        for place in np.unique(np.searchsorted(starts, np.flatnonzero(unsure), "right")).tolist():
            start, end = starts[place - 1 : place + 1].tolist()
            order[start:end] = start + self._sorted_run(rows[:, start:end])
        return order

    def _runs(self, rows: Words, task: Words) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Where runs of rows that tie on the first text's words begin; after which rows words do not tell.

        They do not where all words up to a text's last tie, and the texts are others.
        """
        tied, column = task[1:] == task[:-1], 0
        first, unsure = tied, np.zeros(tied.shape, np.bool_)
        for text, (code, _) in sorted(self.texts.items()):
            after = text + TEXT_WORDS
            tied = tied & (rows[column:after, 1:] == rows[column:after, :-1]).all(axis=0)
            unsure |= tied & (rows[code, 1:] != rows[code, :-1])
            first, column = tied if text == self.first else first, after
        return np.concatenate(([True], ~first)), unsure

    def _sorted_run(self, rows: Words) -> Words:
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


LAST = np.iinfo(np.int64).max
"""A coordinate at or after all times."""
PARTS: Final = 64
"""So many steps have a part each of the work of compacting a trace, or twice as many."""
LEAST_WORK: Final = 1 << 12
"""Rows: what is less is not worth dividing."""
FEW_DEAD: Final = 1 << 10
"""Updates walked over in vain for which no trace is compacted."""
NOW: Final[Words] = np.zeros((1, 1), np.int64)
"""The time of what is put in order or compared at one time only."""


@dataclass(frozen=True, slots=True)
class Tasks:
    """Groups to read, each at a time: ``before[i]`` marks a group's answer before the step.

    A group's tasks are adjacent, in time order, the one before the step first.
    """

    prefix: Words
    times: Words
    before: NDArray[np.bool_]


def distinct_prefixes(pending: Sequence[Updates], owed: Sequence[Words], group: int) -> Words:
    """The distinct first ``group`` columns of updates, and of prefixes that are owed, in order."""
    if group == 0:
        return np.empty((0, 1), np.int64)
    if not owed and len(pending) == 1 and pending[0].data.shape[1] == 1:
        return np.ascontiguousarray(pending[0].data[:group])
    if not pending and len(owed) == 1 and owed[0].shape[1] == 1:
        return np.ascontiguousarray(owed[0])  # it may be a column of more
    if len(pending) == 1 and pending[0].ordered and not owed:
        data = pending[0].data
        out = np.empty((group, data.shape[1]), np.int64)
        found = heads(data, out)
        return np.ascontiguousarray(out[:, :found])
    prefix = np.concatenate([*(updates.data[:group] for updates in pending), *owed], axis=1)
    return Updates(np.ascontiguousarray(prefix), NOW, ONE).consolidate().data


@dataclass(slots=True, eq=False, kw_only=True)
class GroupReader(Operator):
    """Base: on every change of a group, retract its old answer and add its new one."""

    arrangement: Arrange
    group: int
    owed: Owed = field(default_factory=Owed)

    def absorb(self) -> None:
        """Wait for the flush."""

    def flush(self) -> None:
        if self.place.scope.depth > 1:
            self._flush_in_loop()
            return
        pending = self.take()
        if not pending:
            return
        step = self.step
        if step.single_time and not step.hydrating:
            self._flush_once(distinct_prefixes(pending, (), self.group))
            return
        tasks = self._tasks(Updates.concat(pending), hydrating=step.hydrating)
        layers = self.arrangement.layers
        seen = np.full(tasks.before.shape[0], len(layers), np.int64)
        if self.arrangement.changed:
            seen[tasks.before] -= 1
        answer = self.read(layers, tasks, seen)
        self.emit(self._differences(answer, tasks))

    def _flush_once(self, prefix: Words) -> None:
        """The differences of these groups between the step's one epoch and the one before."""
        groups = np.arange(prefix.shape[1], dtype=np.int64)
        epochs = np.full(prefix.shape[1], self.step.time, np.int64)
        layers = self.arrangement.layers
        if layers:
            rows, diff, _ = self.mixed(layers, prefix, groups, epochs)
            self.emit(Updates(rows, self.step.stamp, diff))

    def _flush_in_loop(self) -> None:
        """The mixed differences of the groups that have changed or that are owed in this round."""
        step, layers = self.step, self.arrangement.layers
        pending, owed = self.take(), self.owed.take(step.rounds)
        if not (pending or owed) or not layers:
            return
        prefix = distinct_prefixes(pending, owed, self.group)
        groups, epochs, later = self.owed.add(prefix, layers, step)
        for rounds in later:
            self.place.scope.wake(self, rounds)
        rows, diff, task = self.mixed(layers, prefix, groups, epochs)
        time = step.stamp
        if not step.single_time:
            time = np.repeat(step.stamp, task.shape[0], axis=1)
            time[0] = epochs[task]
        self.emit(Updates(rows, time, diff))

    def mixed(
        self, layers: Layers, prefix: Words, groups: Words, epochs: Words
    ) -> tuple[Words, Words, Words]:
        """The mixed differences of groups ``prefix[:, groups]`` at these epochs and the present rounds.

        Returns (rows, diffs, task of each), each row once for a task.
        """
        step, corners = self.step, Corners.below(self.step)
        times = corners.times(epochs, step.rounds)
        at = np.ascontiguousarray(prefix[:, np.repeat(groups, corners.each)])
        known = np.ascontiguousarray(times[: self.arrangement.spine.depth])
        tasks = Tasks(at, known, np.zeros(times.shape[1], np.bool_))
        seen = np.full(times.shape[1], len(layers), np.int64)
        rows, count, task = self.read(layers, tasks, seen)
        origin = task // corners.each
        signed = count * corners.signs[task % corners.each]
        net = Updates(rows, origin.reshape(1, -1), signed).consolidate()
        return net.data, net.diffs(), net.times()[0]

    def commit(self) -> None:
        self.pending.clear()
        self.owed.clear()

    def rollback(self) -> None:
        self.pending.clear()
        self.owed.clear()

    def _tasks(self, updates: Updates, *, hydrating: bool) -> Tasks:
        """One task per changed (group, time), and one per group before the step."""
        prefix, times = updates.data[: self.group], updates.times()
        keys = np.concatenate((prefix, times)) if not hydrating else prefix
        changed = np.unique(keys, axis=1) if keys.shape[0] else keys[:, :1]
        prefix = np.ascontiguousarray(changed[: self.group])
        if hydrating:
            at = np.full((self.arrangement.spine.depth, changed.shape[1]), LAST, np.int64)
            return Tasks(prefix, at, np.zeros(changed.shape[1], np.bool_))
        at = changed[self.group :]
        first = np.ones(changed.shape[1], np.bool_)
        if self.group:
            first[1:] = (prefix[:, 1:] != prefix[:, :-1]).any(axis=0)
        else:
            first[1:] = False
        origin = np.sort(np.concatenate((np.arange(changed.shape[1]), np.flatnonzero(first))))
        before = np.zeros(origin.shape[0], np.bool_)
        before[:-1] = origin[:-1] == origin[1:]
        at = np.where(before, LAST, at[:, origin])
        return Tasks(np.ascontiguousarray(prefix[:, origin]), np.ascontiguousarray(at), before)

    def _differences(self, answer: tuple[Words, Words, Words], tasks: Tasks) -> Updates:
        """Each answer enters at its task's time; it leaves when the group's next task comes."""
        rows, count, task = answer
        entering = np.flatnonzero(~tasks.before[task])
        following = np.append(~tasks.before[1:], False)
        if self.group:
            same = (tasks.prefix[:, 1:] == tasks.prefix[:, :-1]).all(axis=0)
            following[:-1] &= same
        leaving = np.flatnonzero(following[task])
        index = np.concatenate((entering, leaving))
        when = np.concatenate((task[entering], task[leaving] + 1))
        diff = np.concatenate((count[entering], -count[leaving]))
        data = np.ascontiguousarray(rows[:, index])
        time = np.ascontiguousarray(tasks.times[:, when])
        if self.step.single_time:
            time = self.step.stamp
        return Updates(data, time, diff).consolidate()

    def read(self, layers: Layers, tasks: Tasks, seen: Words) -> tuple[Words, Words, Words]:
        """Output rows of the tasks: (rows, multiplicities, task of each), tasks ascending."""
        raise NotImplementedError

    def snapshot(self) -> Iterator[Updates]:
        parts = [Updates(u.data[: self.group], u.time, u.diff) for u in self.arrangement.snapshot()]
        if not parts:
            return
        tasks = self._tasks(Updates.concat(parts), hydrating=True)
        layers = self.arrangement.layers
        seen = np.full(tasks.before.shape[0], len(layers), np.int64)
        rows, count, _ = self.read(layers, tasks, seen)
        yield Updates(rows, self.step.stamp, count)


@dataclass(slots=True, eq=False, kw_only=True)
class TopK(GroupReader):
    """``plan.TopK``: a window of each group's rows, in the order of the arrangement."""

    limit: int | None
    offset: int
    exact: ExactOrder | None = None
    dead: int = 0
    compacting: bool = False

    def read(self, layers: Layers, tasks: Tasks, seen: Words) -> tuple[Words, Words, Words]:
        skip, limit, texts = self._reading()
        rows, count, task, walked = collect(
            layers, tasks.prefix, tasks.times, seen, self.width, skip, limit, texts
        )
        self.dead += walked - rows.shape[1]
        if self.exact is None:
            return rows, count, task
        return self.exact.window(rows, count, task, self.offset, self.limit)

    def _reading(self) -> tuple[int, int | None, Sequence[int]]:
        """How many rows of a group are left out and how many are read, and where texts end in their order."""
        if self.exact is None:
            return self.offset, self.limit, ()
        return 0, None if self.limit is None else self.offset + self.limit, self.exact.ends

    def mixed(
        self, layers: Layers, prefix: Words, groups: Words, epochs: Words
    ) -> tuple[Words, Words, Words]:
        if self.exact is not None:
            return GroupReader.mixed(self, layers, prefix, groups, epochs)
        step, corners = self.step, Corners.below(self.step)
        times = epochs, step.inner
        rows, diff, task, vain = differences(
            layers,
            prefix,
            groups,
            times,
            (corners.offsets, corners.signs),
            self.width,
            self.offset,
            self.limit,
        )
        self.dead += vain
        return rows, diff, task

    def linked(self, verdict: int, count: int, added: int) -> None:
        """As :meth:`Spine.layers` has it of those who read in order, the next steps go to the tail."""
        self.dead += added  # walked over in vain
        self.arrangement.spine.recent.direct = DIRECT

    def committed(self, verdict: int, count: int, added: int, after: Antichain) -> None:
        self.linked(verdict, count, added)
        self.maintain()

    def owe(self, prefix: Words, owed: Words) -> None:
        """Have groups be read again in later rounds: columns (rounds..., group) of ``owed``."""
        for rounds in self.owed.owe(prefix, owed[:-1], owed[-1]):
            self.place.scope.wake(self, rounds)

    def maintain(self) -> None:
        """Walking over cancelled updates is charged; when it adds up to a scan, compact the trace.

        That is done in the steps that follow, a part in each: nobody waits for all of it.
        """
        if self.compacting or (self.dead > FEW_DEAD and self.dead > 2 * self.arrangement.rows + FEW_DEAD):
            late = 2 * self.dead if self.compacting else 0
            spine = self.arrangement.spine
            self.compacting = not spine.compact(max(LEAST_WORK, late, self.arrangement.rows // PARTS))
            self.dead = 0
