"""Merging of the batches of a trace: geometric sizes, with bounded effort for each step.

:class:`Tiers` holds adjacent batches, oldest first, and the merges in progress. It merges two
neighbours when the older is not larger than ``factor`` times everything newer. So sizes fall
geometrically, and there are O(log n) batches once merges are done. A :class:`Merge` does bounded
work each time; :func:`combine_batches` merges several small batches at once.

:class:`Holds` collects the frontiers of all readers. Merges compact times to the meet of the
logical frontiers.
"""

import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from kpg.runtime.kernels import merge
from kpg.runtime.progress.antichain import Antichain, Time, least_upper_bound, precedes
from kpg.runtime.trace.batch import MAX_ROWS_WITHOUT_DIRECTORY, Batch, Directory
from kpg.runtime.trace.updates import Updates, Words, multiplicity_overflow

OLDER_READ, NEWER_READ, WRITTEN, FLAGS = range(4)
"""Slots of the state of a merge that kernels resume: rows read of each source, rows written, flags."""
COPIES_PER_ROW = 8
"""Words that can be copied in the time of merging one row."""


class Merge:
    """Incremental merge of ``older`` and ``newer`` (``older.upper == newer.lower``) into ``result``.

    ``since`` is the frontier to which times are compacted, fixed when the merge begins; None leaves
    times unchanged. The sources stay readable until ``result`` is set. A row's whole history is one
    unit of work.
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
        self._state: Words = np.zeros(FLAGS + 1, np.int64)
        self._time = self._common_time()
        self._times: Words | None = None
        self._diffs: Words | None = None
        self._moved_words = 0
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
        """Do about ``limit`` rows of work and return the rows done; ``result`` is set at the end.

        Raises:
            DataError: In this and every later call, if a sum of diffs does not fit 64 bits.
        """
        spent = 0
        while spent < limit and self.result is None:
            spent += self._stage(self, limit - spent)
        return spent

    def _common_time(self) -> Words | None:
        """Return the single time of all updates after compaction, ``[depth, 1]``; None if several."""
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
        if self._state[FLAGS] == merge.DUPLICATE:
            self._diffs = np.empty(self._total, np.int64)
            self._diffs[: self._state[WRITTEN]] = self.older.diff[0]
            self._state[FLAGS] = 0
            self._stage = Merge._merge_rows
        return self._end_merge_call(spent)

    def _merge_rows(self, limit: int) -> int:
        older, newer = self.older, self.newer
        spent: int = merge.merge_rows(
            older.data, older.diff, newer.data, newer.diff, self._output(), self._diffs, self._state, limit
        )
        return self._end_merge_call(spent)

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
        return self._end_merge_call(spent)

    def _end_merge_call(self, spent: int) -> int:
        if self._state[FLAGS] & merge.OVERFLOW:
            raise multiplicity_overflow()
        if self._state[OLDER_READ] + self._state[NEWER_READ] == self._total:
            self._stage = Merge._trim
        return spent

    def _trim(self, limit: int) -> int:
        """Close the gaps that dropped rows leave between the columns, and between coordinates of times."""
        count = int(self._state[WRITTEN])
        width = self.older.data.shape[0]
        columns = width if self._times is None else width + self.older.time.shape[0]
        spent = 0
        while count < self._total and self._moved_words < columns * count and spent < limit:
            column, row = divmod(self._moved_words, count)
            array, place = (self._data, column) if column < width else (self._times, column - width)
            assert array is not None
            rows = min(count - row, (limit - spent) * COPIES_PER_ROW)
            source, target = place * self._total + row, place * count + row
            array[target : target + rows] = array[source : source + rows]
            self._moved_words += rows
            spent += -(-rows // COPIES_PER_ROW)
        if count == self._total or self._moved_words == columns * count:
            self._finish(count)
        return spent

    def _finish(self, count: int) -> None:
        """Create the result batch in the existing arrays: copying large arrays would stall the step."""
        older, newer = self.older, self.newer
        width, depth = older.data.shape[0], older.time.shape[0]
        if count < self._total:
            self._data.resize(width * count, refcheck=False)
            if self._times is not None:
                self._times.resize(depth * count, refcheck=False)
        diff = older.diff
        if self._diffs is not None:
            diff = self._diffs[:1].copy()
            if self._state[FLAGS] & merge.UNEQUAL:
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
        if count > MAX_ROWS_WITHOUT_DIRECTORY and (older.needs_directory or newer.needs_directory):
            self._directory = Directory(self._batch.data[0])
            self._stage = Merge._build_directory
        else:
            self.result = self._batch

    def _build_directory(self, limit: int) -> int:
        """Build the result's directory, since the sources were searched often.

        The first lookup does not wait.
        """
        assert self._directory is not None and self._batch is not None
        spent = self._directory.build(limit * COPIES_PER_ROW) // COPIES_PER_ROW
        if self._directory.is_complete:
            self._batch.install_directory(self._directory)
            self.result = self._batch
        return spent + 1


TINY_ROWS: Final = 512
"""Rows up to which sorting batches together is cheaper than two merges.

TINY_BATCHES of them make 4,096.
"""
TINY_BATCHES: Final = 8
"""Number of adjacent newest batches of at most ``TINY_ROWS`` rows that triggers combining them."""

ROUND_FACTOR: Final = 2
"""Batches that are combined, or merged in a step, are at most this factor larger than all newer ones."""


def meet(frontiers: Iterable[Antichain]) -> Antichain | None:
    """Return the meet of the frontiers; None if there are none."""
    result = None
    for frontier in frontiers:
        if result is None or (frontier is not result and frontier.precedes(result)):
            result = frontier
        elif frontier is not result and not result.precedes(frontier):
            result = result.meet(frontier)
    return result


def count_tiny(nodes: Sequence[Batch | Merge]) -> int:
    """Return how many of the newest batches are tiny."""
    count = 0
    for node in reversed(nodes):
        if len(node) > TINY_ROWS or isinstance(node, Merge):
            break
        count += 1
    return count


def count_comparable(nodes: Sequence[Batch | Merge]) -> int:
    """Return how many of the newest batches to combine, at least two.

    None of them is much larger than all newer ones together.
    """
    count, rows = 1, len(nodes[-1])
    while count < len(nodes) and (count < 2 or len(nodes[-1 - count]) <= ROUND_FACTOR * rows):
        rows += len(nodes[-1 - count])
        count += 1
    return count


def combine_batches(batches: Sequence[Batch], frontier: Antichain | None) -> Batch:
    """Return one batch of small adjacent ones, with times compacted to ``frontier`` if given."""
    since = batches[0].since
    for batch in batches:
        if batch.since is not since and batch.since != since:
            since = since.join(batch.since)
    updates = Updates.concat([batch.updates for batch in batches])
    whole = build_batch(updates, batches[0].lower, batches[-1].upper, frontier)
    whole.since = whole.since.join(since)
    return whole


def build_batch(updates: Updates, lower: Antichain, upper: Antichain, frontier: Antichain | None) -> Batch:
    """Return the batch of updates in any order, with times compacted to ``frontier`` if given."""
    since = Antichain.minimum(updates.depth)
    floor = frontier.floor() if frontier is not None else None
    if frontier is not None and floor is not None:
        since = frontier
        times = np.maximum(updates.time, np.array(floor, np.int64).reshape(-1, 1))
        updates = Updates(updates.data, _shorten_times(times), updates.diff, updates.ordered)
    return Batch(updates.consolidate(), lower, upper, since)


def _shorten_times(times: Words) -> Words:
    """Return the times in short form if all are equal."""
    return times[:, :1].copy() if (times == times[:, :1]).all() else times


class Hold:
    """A reader's two frontiers, which the spine respects while this object lives."""

    __slots__ = ("__weakref__", "logical", "physical")

    def __init__(self, logical: Antichain, physical: Antichain) -> None:
        self.logical = logical
        self.physical = physical


class Holds:
    """Holds of all readers of a trace, as weak ``references``."""

    __slots__ = ("references",)

    def __init__(self) -> None:
        self.references: list[weakref.ref[Hold]] = []

    def add(self, hold: Hold) -> None:
        """Respect a hold for as long as it lives."""
        self.references.append(weakref.ref(hold, self.references.remove))

    def remove(self, hold: Hold) -> None:
        """Stop respecting a hold."""
        self.references[:] = [reference for reference in self.references if reference() is not hold]

    def logical(self) -> Antichain | None:
        """Return the frontier to compact to; readers only read at times in advance of it."""
        return meet(hold.logical for hold in self._alive())

    def physical(self) -> Antichain | None:
        """Return the frontier up to which batches may merge; no reader cuts the trace before it."""
        return meet(hold.physical for hold in self._alive())

    def physicals(self) -> Iterator[Antichain]:
        """Return the frontiers at which readers may cut the trace."""
        return (hold.physical for hold in self._alive())

    def _alive(self) -> list[Hold]:
        return [hold for reference in self.references if (hold := reference()) is not None]


FACTOR: Final = 1
"""A batch is merged unless it is larger than ``FACTOR`` times all newer rows, so sizes at least halve.

2 would merge more often and hardly reduce the number of batches.
"""
EFFORT: Final = 4
"""With 4, a merge of a and b (b <= 3a) ends before a more rows arrive (docs/design/traces.md)."""
MIN_FUEL: Final = 256
"""Minimum rows of work per merge and call: they take 2 us, less than the call itself."""


class Tiers:
    """Adjacent batches, oldest first, with the merges in progress between them.

    ``since`` is the frontier to which times have been compacted, ``merged_rows`` the work done.
    ``has_replaced_batches`` is set whenever other batches take the place of some; a caller that caches
    batches clears it.
    """

    __slots__ = (
        "_compaction_frontier",
        "_effort",
        "_factor",
        "_holds",
        "compacting_count",
        "has_begun_due_merges",
        "has_replaced_batches",
        "has_unfinished_merge",
        "merged_rows",
        "nodes",
        "since",
    )  # fmt: skip

    def __init__(self, depth: int, holds: Holds, factor: float, effort: int) -> None:
        self.since = Antichain.minimum(depth)
        self.merged_rows = 0
        self.has_replaced_batches = False
        self.has_begun_due_merges = True
        """Whether every due merge has begun."""
        self.has_unfinished_merge = False
        """Whether a merge has begun and is not done."""
        self.nodes: list[Batch | Merge] = []
        self.compacting_count = 0
        """Number of oldest nodes that :meth:`compact` is turning into one batch."""
        self._compaction_frontier: Antichain | None = None
        self._holds = holds
        self._factor = factor
        self._effort = effort

    def batches(self) -> list[Batch]:
        """Return the batches, including the sources of unfinished merges."""
        batches: list[Batch] = []
        for node in self.nodes:
            if isinstance(node, Merge):
                batches += (node.older, node.newer)
            else:
                batches.append(node)
        return batches

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of the output of unfinished merges."""
        return sum(node.nbytes for node in self.nodes if isinstance(node, Merge))

    def add(self, batches: Sequence[Batch]) -> None:
        """Append batches that no rollback can remove."""
        self.nodes += batches
        # Empty batches count too: the next merges absorb them.
        not_tiny = any(not 0 < len(batch) <= TINY_ROWS for batch in batches)
        if not_tiny or (batches and count_tiny(self.nodes) >= TINY_BATCHES):
            self.has_begun_due_merges = False

    def advance_merges(self, inserted: int) -> int:
        """Begin and advance the due merges, and return the rows of incremental work done.

        Each unfinished merge gets ``effort`` times the rows inserted.
        """
        rows_per_merge = max(MIN_FUEL, self._effort * inserted)
        spent = 0
        advanced: set[Merge] = set()
        while True:
            self._begin_merges()
            merges = [node for node in self.nodes if isinstance(node, Merge) and node not in advanced]
            if not merges:
                break
            spent += sum(node.advance(rows_per_merge) for node in merges)
            advanced.update(merges)
            self._install_results()
        self.has_unfinished_merge = any(isinstance(node, Merge) for node in self.nodes)
        self.merged_rows += spent
        return spent

    def compact(self, fuel: int | None) -> bool:
        """Merge all batches into one, with times compacted as far as readers allow now.

        Return whether it is done. With ``fuel`` each call does about that many rows of work; otherwise one
        call does all.
        """
        if not self.compacting_count or fuel is None:
            self.compacting_count, self._compaction_frontier = len(self.nodes), self._holds.logical()
        spent = 0
        while self.compacting_count and (fuel is None or spent < fuel):
            unfinished = (node for node in self.nodes[: self.compacting_count] if isinstance(node, Merge))
            if (node := next(unfinished, None)) is None:
                self._begin_compaction_merge()
                continue
            spent += node.advance(len(node) + 1 if fuel is None else fuel - spent)
            self._install_results()
        self.merged_rows += spent
        self.has_unfinished_merge = any(isinstance(node, Merge) for node in self.nodes)
        return not self.compacting_count

    def _begin_compaction_merge(self) -> None:
        """Begin the next merge of the compaction; none of its nodes is being merged."""
        if self.compacting_count > 1:
            self._begin(self.compacting_count - 2)
            return
        batch, goal = self.nodes[0], self._compaction_frontier
        assert isinstance(batch, Batch)
        if not goal or goal.precedes(batch.since):
            self.compacting_count = 0
            return
        nothing = Updates.empty(batch.data.shape[0], batch.time.shape[0])
        empty = Batch(nothing, batch.upper, batch.upper, batch.since)
        self.nodes[0] = Merge(batch, empty, self._advance_since(self._holds.logical()))

    def _advance_since(self, frontier: Antichain | None) -> Antichain | None:
        """Advance ``since`` to a frontier and return the frontier."""
        if frontier:
            self.since = self.since.join(frontier)
        return frontier

    def _begin_merges(self) -> None:
        """Begin every merge that is due, cheapest neighbours first."""
        if self.has_begun_due_merges:
            return
        self._absorb_empty_batches()
        tiny = count_tiny(self.nodes)
        if tiny >= TINY_BATCHES:
            self._combine(count_comparable(self.nodes[-tiny:]))
            tiny = count_tiny(self.nodes)
        while (index := self._next_pair(len(self.nodes) - tiny)) is not None:
            self._begin(index)
        self.has_begun_due_merges = True

    def _combine(self, count: int) -> None:
        """Combine the newest ``count`` batches at once, which is cheaper than incremental merges."""
        batches = [node for node in self.nodes[-count:] if isinstance(node, Batch)]
        frontier = self._holds.logical()
        self.nodes[-count:] = [combine_batches(batches, self._advance_since(frontier))]
        self.compacting_count = min(self.compacting_count, len(self.nodes))
        self.merged_rows += sum(len(batch) for batch in batches)
        self.has_replaced_batches = True

    def _begin(self, index: int) -> None:
        older, newer = self.nodes[index], self.nodes[index + 1]
        assert isinstance(older, Batch) and isinstance(newer, Batch)
        self.nodes[index : index + 2] = [Merge(older, newer, self._advance_since(self._holds.logical()))]
        if index + 1 < self.compacting_count:
            self.compacting_count -= 1
        self.has_unfinished_merge = True

    def _next_pair(self, end: int) -> int | None:
        """Return the position, before ``end``, of two batches to merge; None if no pair is due.

        The pair costs no more than the due pairs beside it. So several small batches before a large one
        merge with each other first.
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

    def _install_results(self) -> None:
        """Replace the sources of finished merges by their results."""
        for index, node in enumerate(self.nodes):
            if isinstance(node, Merge) and node.result is not None:
                self.nodes[index] = node.result
                self.has_replaced_batches = True
                self.has_begun_due_merges = False

    def _absorb_empty_batches(self) -> None:
        """Replace each batch without rows by extending the frontiers of its neighbour."""
        index = 0
        while index + 1 < len(self.nodes):
            older, newer = self.nodes[index], self.nodes[index + 1]
            if isinstance(older, Batch) and isinstance(newer, Batch) and not (len(older) and len(newer)):
                remaining = newer if len(newer) else older
                self.nodes[index : index + 2] = [remaining.with_frontiers(older.lower, newer.upper)]
                if index + 1 < self.compacting_count:
                    self.compacting_count -= 1
                self.has_replaced_batches = True
            else:
                index += 1
