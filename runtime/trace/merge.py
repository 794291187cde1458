"""Merging of the batches of a trace: geometrically, with bounded effort for each step.

:class:`Tiers` holds adjacent batches, oldest first, and the merges in progress. It merges two neighbours when
the older is not larger than ``factor`` times everything newer. So sizes fall geometrically, and there are
O(log n) batches once merges are done. A :class:`Merge` does bounded work each time; :func:`combined` merges
several small batches at once.

:class:`Holds` collects the frontiers of all readers. Merges compact times to the meet of the logical
frontiers.
"""

import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from kpg.runtime.kernels import merge
from kpg.runtime.progress.antichain import Antichain, Time, least_upper_bound, precedes
from kpg.runtime.trace.batch import SMALL, Batch, Directory
from kpg.runtime.trace.updates import Updates, Words, multiplicity_overflow

COPIES_PER_ROW = 8
"""Words moved in the time that merging one row takes."""


class Merge:
    """Merges ``older`` and ``newer`` (``older.upper == newer.lower``) into ``result``.

    ``since`` is the frontier that times are compacted to, fixed when the merge begins; None leaves
    them. The sources stay readable until ``result`` is there. A row's whole history is one unit of work.
    """

    def __init__(self, older: Batch, newer: Batch, since: Antichain | None) -> None:
        self.older = older
        self.newer = newer
        self.result: Batch | None = None
        self._batch: Batch | None = None
        self._since = older.since.join(newer.since)
        self._floor: Time = (0,) * older.time.shape[0]
        floor = since.floor() if since is not None else None
        if since is not None and floor is not None:
            self._since = self._since.join(since)
            self._floor = floor
        self._total = len(older) + len(newer)
        self._data = np.empty(older.data.shape[0] * self._total, np.int64)
        self._state: Words = np.zeros(4, np.int64)
        self._time = self._compacted_time()
        self._times: Words | None = None
        self._diffs: Words | None = None
        self._moved = 0
        self._directory: Directory | None = None
        self._stage: Callable[[Merge, int], int] = self._choose_stage()

    def __len__(self) -> int:
        return self._total

    @property
    def upper(self) -> Antichain:
        """Upper frontier of the result."""
        return self.newer.upper

    @property
    def nbytes(self) -> int:
        """Bytes of the unfinished output."""
        parts = (self._data, self._times, self._diffs)
        return sum(part.nbytes for part in parts if part is not None)

    def advance(self, limit: int) -> int:
        """Spend about ``limit`` rows of work; returns the rows spent. ``result`` is set once it is done.

        Raises DataError, now and ever after, where a sum of diffs does not fit 64 bits.
        """
        spent = 0
        while spent < limit and self.result is None:
            spent += self._stage(self, limit - spent)
        return spent

    def _compacted_time(self) -> Words | None:
        """The one time of all updates after compaction, ``[depth, 1]``; None if there are several."""
        floor = np.array(self._floor, np.int64).reshape(-1, 1)
        if precedes(self.older.latest, self._floor) and precedes(self.newer.latest, self._floor):
            return floor
        if self.older.constant_time and self.newer.constant_time:
            older = np.maximum(self.older.time, floor)
            if (older == np.maximum(self.newer.time, floor)).all():
                return older
        return None

    def _choose_stage(self) -> "Callable[[Merge, int], int]":
        if self._time is None:
            self._times = np.empty(self.older.time.shape[0] * self._total, np.int64)
            self._diffs = np.empty(self._total, np.int64)
            return Merge._merge_histories
        older, newer = self.older, self.newer
        distinct = older.constant_time and newer.constant_time
        if distinct and older.constant_diff and newer.constant_diff and older.diff[0] == newer.diff[0]:
            return Merge._merge_distinct
        self._diffs = np.empty(self._total, np.int64)
        return Merge._merge_rows

    def _output(self) -> Words:
        return self._data.reshape(self.older.data.shape[0], self._total)

    def _merge_distinct(self, limit: int) -> int:
        spent: int = merge.merge_distinct(
            self.older.data, self.newer.data, self._output(), self._state, limit
        )
        if self._state[3] == merge.DUPLICATE:
            self._diffs = np.empty(self._total, np.int64)
            self._diffs[: self._state[2]] = self.older.diff[0]
            self._state[3] = 0
            self._stage = Merge._merge_rows
        return self._merged(spent)

    def _merge_rows(self, limit: int) -> int:
        older, newer = self.older, self.newer
        spent: int = merge.merge_rows(
            older.data, older.diff, newer.data, newer.diff, self._output(), self._diffs, self._state, limit
        )
        return self._merged(spent)

    def _merge_histories(self, limit: int) -> int:
        older, newer = self.older, self.newer
        assert self._times is not None
        spent: int = merge.merge_histories(
            older.data,
            older.time,
            older.diff,
            newer.data,
            newer.time,
            newer.diff,
            np.array(self._floor, np.int64),
            self._output(),
            self._times.reshape(-1, self._total),
            self._diffs,
            self._state,
            limit,
        )
        return self._merged(spent)

    def _merged(self, spent: int) -> int:
        if self._state[3] & merge.OVERFLOW:
            raise multiplicity_overflow()
        if self._state[0] + self._state[1] == self._total:
            self._stage = Merge._trim
        return spent

    def _trim(self, limit: int) -> int:
        """Close the gaps that dropped rows leave between the columns, and between coordinates of times."""
        count = int(self._state[2])
        width = self.older.data.shape[0]
        columns = width if self._times is None else width + self.older.time.shape[0]
        spent = 0
        while count < self._total and self._moved < columns * count and spent < limit:
            column, row = divmod(self._moved, count)
            array, place = (self._data, column) if column < width else (self._times, column - width)
            assert array is not None
            rows = min(count - row, (limit - spent) * COPIES_PER_ROW)
            source, target = place * self._total + row, place * count + row
            array[target : target + rows] = array[source : source + rows]
            self._moved += rows
            spent += -(-rows // COPIES_PER_ROW)
        if count == self._total or self._moved == columns * count:
            self._finish(count)
        return spent

    def _finish(self, count: int) -> None:
        """Have the result, in the arrays that are there: to copy them takes long where there is much."""
        older, newer = self.older, self.newer
        width, depth = older.data.shape[0], older.time.shape[0]
        if count < self._total:
            self._data.resize(width * count, refcheck=False)
            if self._times is not None:
                self._times.resize(depth * count, refcheck=False)
        diff = older.diff
        if self._diffs is not None:
            diff = self._diffs[:1].copy()
            if self._state[3] & merge.UNEQUAL:
                self._diffs.resize(count, refcheck=False)
                diff = self._diffs
        time = self._time
        if time is None:
            assert self._times is not None
            time = self._times.reshape(depth, count)
        latest = least_upper_bound(least_upper_bound(older.latest, newer.latest), self._floor)
        updates = Updates(self._data.reshape(width, count), time, diff)
        self._data = np.empty(0, np.int64)
        self._times = self._diffs = None
        self._batch = Batch(updates, older.lower, newer.upper, self._since, latest)
        if count > SMALL and (older.searched or newer.searched):
            self._directory = Directory(self._batch.data[0])
            self._stage = Merge._build_directory
        else:
            self.result = self._batch

    def _build_directory(self, limit: int) -> int:
        """Sources were searched much, so the result will be: not to be left to the first search."""
        assert self._directory is not None and self._batch is not None
        spent = self._directory.build(limit * COPIES_PER_ROW) // COPIES_PER_ROW
        if self._directory.complete:
            self._batch.install(self._directory)
            self.result = self._batch
        return spent + 1


TINY: Final = 512
"""Rows that are sorted together sooner than two merges are set up; TINY_BATCHES of them make 4,096."""
TINY_BATCHES: Final = 8
"""So many batches of up to ``TINY`` rows are left at the end before the newest of them are made one."""

ROUND_FACTOR: Final = 2
"""Batches that are made one, or merged in a step: none is larger than so many times all newer ones."""


def meet(frontiers: Iterable[Antichain]) -> Antichain | None:
    """The earliest of the frontiers; None if there are none."""
    result = None
    for frontier in frontiers:
        if result is None or (frontier is not result and frontier.dominates(result)):
            result = frontier
        elif frontier is not result and not result.dominates(frontier):
            result = result.meet(frontier)
    return result


def tiny_tail(nodes: Sequence[Batch | Merge]) -> int:
    """How many of the newest batches are tiny."""
    count = 0
    for node in reversed(nodes):
        if len(node) > TINY or isinstance(node, Merge):
            break
        count += 1
    return count


def comparable(nodes: Sequence[Batch | Merge]) -> int:
    """How many of the newest to make one, two at least: none is much larger than all newer ones together."""
    count, rows = 1, len(nodes[-1])
    while count < len(nodes) and (count < 2 or len(nodes[-1 - count]) <= ROUND_FACTOR * rows):
        rows += len(nodes[-1 - count])
        count += 1
    return count


def combined(batches: Sequence[Batch], frontier: Antichain | None) -> Batch:
    """One batch of small adjacent ones, sorted anew, with times compacted to the frontier if there is one."""
    since = batches[0].since
    for batch in batches:
        if batch.since is not since and batch.since != since:
            since = since.join(batch.since)
    updates = Updates.concat([batch.updates for batch in batches])
    whole = settled(updates, batches[0].lower, batches[-1].upper, frontier)
    whole.since = whole.since.join(since)
    return whole


def settled(updates: Updates, lower: Antichain, upper: Antichain, frontier: Antichain | None) -> Batch:
    """The batch of updates in any order, with times compacted to the frontier if there is one."""
    since = Antichain.minimum(updates.depth)
    floor = frontier.floor() if frontier is not None else None
    if frontier is not None and floor is not None:
        since = frontier
        times = np.maximum(updates.time, np.array(floor, np.int64).reshape(-1, 1))
        updates = Updates(updates.data, _shortened(times), updates.diff, updates.ordered)
    return Batch(updates.consolidate(), lower, upper, since)


def _shortened(times: Words) -> Words:
    """Times stored once if all are equal."""
    return times[:, :1].copy() if (times == times[:, :1]).all() else times


class Hold:
    """The two frontiers that a spine respects while this object lives."""

    __slots__ = ("__weakref__", "logical", "physical")

    def __init__(self, logical: Antichain, physical: Antichain) -> None:
        self.logical = logical
        self.physical = physical


class Holds:
    """The holds of all readers of a trace, by weak ``references``: none is kept alive by it."""

    __slots__ = ("references",)

    def __init__(self) -> None:
        self.references: list[weakref.ref[Hold]] = []

    def add(self, hold: Hold) -> None:
        """Respect a hold for as long as it lives."""
        self.references.append(weakref.ref(hold, self.references.remove))

    def remove(self, hold: Hold) -> None:
        """Forget a hold."""
        self.references[:] = [reference for reference in self.references if reference() is not hold]

    def logical(self) -> Antichain | None:
        """The frontier to compact to: no reader reads at times that are not in advance of it."""
        return meet(hold.logical for hold in self._alive())

    def physical(self) -> Antichain | None:
        """The frontier up to which batches may be merged: no reader cuts the trace before it."""
        return meet(hold.physical for hold in self._alive())

    def physicals(self) -> Iterator[Antichain]:
        """The frontiers at which readers may cut the trace."""
        return (hold.physical for hold in self._alive())

    def _alive(self) -> list[Hold]:
        return [hold for reference in self.references if (hold := reference()) is not None]


FACTOR: Final = 1
"""A batch outweighs all that is newer, or is merged: sizes at least halve. 2 merges more for hardly fewer."""
EFFORT: Final = 4
"""A merge of a and b must be done within a rows: (a + b) / EFFORT <= a, as b <= 3a: docs/design/traces.md."""
LEAST_FUEL: Final = 256
"""So many rows take 2 us, less than the call that merges them: fewer at a time would save nothing."""


class Tiers:
    """Adjacent batches, oldest first, and the merges that are under way between them.

    ``since`` is the frontier to which times have been compacted, ``merged_rows`` the work done. ``replaced``
    is set whenever batches gave way to others; whoever remembers batches clears it.
    """

    __slots__ = (
        "_effort", "_factor", "_goal", "_holds", "merged_rows", "merging", "nodes", "replaced", "settled",
        "since", "whole",
    )  # fmt: skip

    def __init__(self, depth: int, holds: Holds, factor: float, effort: int) -> None:
        self.since = Antichain.minimum(depth)
        self.merged_rows = 0
        self.replaced = False
        self.settled = True
        """No merge is due that has not begun."""
        self.merging = False
        """A merge has begun and is not done."""
        self.nodes: list[Batch | Merge] = []
        self.whole = 0
        """So many nodes, the oldest, are to become one batch."""
        self._goal: Antichain | None = None
        self._holds = holds
        self._factor = factor
        self._effort = effort

    def batches(self) -> list[Batch]:
        """The batches, the sources of unfinished merges among them."""
        found: list[Batch] = []
        for node in self.nodes:
            if isinstance(node, Merge):
                found += (node.older, node.newer)
            else:
                found.append(node)
        return found

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of what merges under way have made so far."""
        return sum(node.nbytes for node in self.nodes if isinstance(node, Merge))

    def add(self, batches: Sequence[Batch]) -> None:
        """Append batches that nobody takes back any more."""
        self.nodes += batches
        large = any(not 0 < len(batch) <= TINY for batch in batches)
        if large or (batches and tiny_tail(self.nodes) >= TINY_BATCHES):
            self.settled = False

    def work(self, inserted: int, fuel: int | None) -> int:
        """Merge what is due; returns the rows of work done.

        Without ``fuel``: ``effort`` times the rows inserted, on each unfinished merge. With ``fuel``: about
        so many rows in all, shared by the unfinished merges.
        """
        due = max(LEAST_FUEL, self._effort * inserted)
        spent = 0
        served: set[Merge] = set()
        while fuel is None or spent < fuel:
            self._begin_merges()
            merges = [node for node in self.nodes if isinstance(node, Merge) and node not in served]
            if not merges:
                break
            for node in merges:
                if fuel is None:
                    spent += node.advance(due)
                    served.add(node)
                else:
                    spent += node.advance(max(1, (fuel - spent) // len(merges)))
            self._install()
        self.merging = any(isinstance(node, Merge) for node in self.nodes)
        self.merged_rows += spent
        return spent

    def compact(self, fuel: int | None) -> bool:
        """Begin, or go on, to make one batch of all there are, times compacted as far as readers allow now.

        It is done at once, or with ``fuel`` by so many rows of work a call. Returns whether it is done.
        """
        if not self.whole or fuel is None:
            self.whole, self._goal = len(self.nodes), self._holds.logical()
        spent = 0
        while self.whole and (fuel is None or spent < fuel):
            merge = next((node for node in self.nodes[: self.whole] if isinstance(node, Merge)), None)
            if merge is None:
                self._begin_whole()
                continue
            spent += merge.advance(len(merge) + 1 if fuel is None else fuel - spent)
            self._install()
        self.merged_rows += spent
        self.merging = any(isinstance(node, Merge) for node in self.nodes)
        return not self.whole

    def _begin_whole(self) -> None:
        """Begin the next merge of those that make one batch; none of them is being merged."""
        if self.whole > 1:
            self._begin(self.whole - 2)
            return
        batch, goal = self.nodes[0], self._goal
        assert isinstance(batch, Batch)
        if not goal or goal.dominates(batch.since):
            self.whole = 0
            return
        nothing = Updates.empty(batch.data.shape[0], batch.time.shape[0])
        empty = Batch(nothing, batch.upper, batch.upper, batch.since)
        self.nodes[0] = Merge(batch, empty, self._joined(self._holds.logical()))

    def _joined(self, frontier: Antichain | None) -> Antichain | None:
        """A frontier that times are compacted to from now on."""
        if frontier:
            self.since = self.since.join(frontier)
        return frontier

    def _begin_merges(self) -> None:
        """Begin every merge that is due, cheapest neighbours first."""
        if self.settled:
            return
        self._fold_empty()
        tiny = tiny_tail(self.nodes)
        if tiny >= TINY_BATCHES:
            self._combine(comparable(self.nodes[-tiny:]))
            tiny = tiny_tail(self.nodes)
        while (index := self._next_pair(len(self.nodes) - tiny)) is not None:
            self._begin(index)
        self.settled = True

    def _combine(self, count: int) -> None:
        """Make one batch of the newest ``count`` at once: merging in steps would cost more than the rows."""
        batches = [node for node in self.nodes[-count:] if isinstance(node, Batch)]
        frontier = self._holds.logical()
        self.nodes[-count:] = [combined(batches, self._joined(frontier))]
        self.whole = min(self.whole, len(self.nodes))
        self.merged_rows += sum(len(batch) for batch in batches)
        self.replaced = True

    def _begin(self, index: int) -> None:
        older, newer = self.nodes[index], self.nodes[index + 1]
        assert isinstance(older, Batch) and isinstance(newer, Batch)
        self.nodes[index : index + 2] = [Merge(older, newer, self._joined(self._holds.logical()))]
        if index + 1 < self.whole:
            self.whole -= 1
        self.merging = True

    def _next_pair(self, end: int) -> int | None:
        """Position, before ``end``, of two batches to merge: due, and no dearer than the due pairs beside it.

        That order makes a row of small batches before a large one merge with each other first.
        """
        nodes = self.nodes
        costs: list[float] = [math.inf] * (len(nodes) + 1)  # of pair (i, i + 1) at i + 1; infinite if not due
        newer = 0
        for index in range(len(nodes) - 2, -1, -1):
            newer += len(nodes[index + 1])
            if len(nodes[index]) <= self._factor * newer:
                costs[index + 1] = len(nodes[index]) + len(nodes[index + 1])
        for index in range(end - 2, -1, -1):
            cost = costs[index + 1]
            whole = isinstance(nodes[index], Batch) and isinstance(nodes[index + 1], Batch)
            if whole and cost < math.inf and cost <= min(costs[index], costs[index + 2]):
                return index
        return None

    def _install(self) -> None:
        """Put the results of finished merges in the place of their sources."""
        for index, node in enumerate(self.nodes):
            if isinstance(node, Merge) and node.result is not None:
                self.nodes[index] = node.result
                self.replaced = True
                self.settled = False

    def _fold_empty(self) -> None:
        """Let neighbours of batches without rows cover their frontiers."""
        index = 0
        while index + 1 < len(self.nodes):
            older, newer = self.nodes[index], self.nodes[index + 1]
            if isinstance(older, Batch) and isinstance(newer, Batch) and not (len(older) and len(newer)):
                kept = newer if len(newer) else older
                self.nodes[index : index + 2] = [kept.covering(older.lower, newer.upper)]
                if index + 1 < self.whole:
                    self.whole -= 1
                self.replaced = True
            else:
                index += 1
