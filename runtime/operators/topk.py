"""Operators that read ordered groups from an arrangement: top-k (so min and max), and basic reduces.

They keep no state of their own: the old answer of a group is read from the trace without this step's
batch, the new one with it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.kernels.collect import heads
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.corners import Corners, Owed
from kpg.runtime.operators.textorder import ExactOrder
from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.records import dataclass
from kpg.runtime.trace.batch import Layers
from kpg.runtime.trace.collect import collect, differences
from kpg.runtime.trace.recent import DIRECT
from kpg.runtime.trace.updates import ONE, Updates

Words = NDArray[np.int64]
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
