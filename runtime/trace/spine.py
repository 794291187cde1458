"""A trace: the batches of one collection, merged geometrically with bounded effort.

The batches are adjacent (each one's ``upper`` is the next one's ``lower``), oldest first. Two neighbours
are merged when the older is not larger than ``factor`` times all that is newer; so, once merges are
done, sizes fall geometrically and there are O(log n) batches. Merging is done in :meth:`Spine.work`,
in proportion to what was inserted. In a loop one step inserts a batch a round: these, and no older ones,
merge with each other when they are looked up, so that :meth:`Spine.truncate` can take the step back.
"""

import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kpg.runtime.errors import InternalError
from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.trace.batch import Batch, Layers
from kpg.runtime.trace.folding import ROUND_FACTOR, TINY, TINY_BATCHES, combined, comparable, meet, tiny_tail
from kpg.runtime.trace.merge import Merge
from kpg.runtime.trace.updates import Updates

if TYPE_CHECKING:
    from kpg.runtime.trace.handle import Hold

FACTOR: Final = 1
"""A batch outweighs all that is newer, or is merged: sizes at least halve. 2 merges more for hardly fewer."""
EFFORT: Final = 4
"""A merge of a and b must be done within a rows: (a + b) / EFFORT <= a, as b <= 3a (see ARCHITECTURE.md)."""
LEAST_FUEL: Final = 256
"""So many rows take 2 us, less than the call that merges them: fewer at a time would save nothing."""

RUN: Final = 1 << 20
"""Batches of one step are made one when they have more rows than this together."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """What a spine was when it was marked: ``position`` among the pending batches."""

    number: int
    position: int
    upper: Antichain
    inserted_rows: int
    owed: int


class Spine:
    """The trace of rows of ``width`` columns at times of ``depth`` coordinates.

    ``since`` is the frontier F up to which times have been compacted: reads are right at times in advance of
    it. An update at u is at rep(u) = meet of (u join f) over f in F, so that rep(u) <= t if and only if
    u <= t, for every such t. F never passes a handle's logical frontier, and no batch spans a handle's
    physical one.
    """

    def __init__(self, width: int, depth: int, *, factor: float = FACTOR, effort: int = EFFORT) -> None:
        self.width = width
        self.depth = depth
        self.upper = Antichain.minimum(depth)
        self.since = Antichain.minimum(depth)
        self.inserted_rows = 0
        self.merged_rows = 0
        self._factor = factor
        self._effort = effort
        self._nodes: list[Batch | Merge] = []
        self._pending: list[Batch] = []
        self._owed = 0
        self._unfolded = 0
        self._unfolded_rows = 0
        self._settled = True
        self._marks = 0
        self._mark: _Mark | None = None
        self._holds: list[weakref.ref[Hold]] = []
        self._layers: Layers | None = None
        self._layers_before: Layers | None = None
        self._newer: list[Batch] = []

    def insert(self, batch: Batch) -> None:
        """Append a batch whose ``lower`` is the ``upper`` of this trace.

        If there are rounds (``depth`` above 1), it will merge with others since the mark, their times kept.
        Raises DataError where a sum of diffs does not fit 64 bits.
        """
        if batch.lower is not self.upper and batch.lower != self.upper:
            raise InternalError(f"batch from {batch.lower.elements} does not follow {self.upper.elements}")
        if self._layers is not None:
            self._layers_before, self._newer, self._layers = self._layers, [], None
        if self._layers_before is not None:
            self._newer.append(batch)
        self._pending.append(batch)
        if self.depth > 1 and self._mark is not None:
            self._unfolded += 1
            self._unfolded_rows += len(batch)
            if self._unfolded_rows > RUN:
                self._fold(self._mark.position)
        self.upper = batch.upper
        self.inserted_rows += len(batch)
        self._owed += len(batch)

    def mark(self) -> int:
        """A token for the present contents, valid until the next mark, :meth:`work` or :meth:`compact`."""
        self._marks += 1
        self._mark = _Mark(self._marks, len(self._pending), self.upper, self.inserted_rows, self._owed)
        return self._marks

    def truncate(self, mark: int) -> None:
        """Take back all batches inserted since the mark, which stays valid.

        Raises InternalError if the mark is not valid any more.
        """
        marked = self._mark
        if marked is None or marked.number != mark:
            raise InternalError("a trace was merged or marked again before it was taken back to a mark")
        del self._pending[marked.position :]
        self.upper, self.inserted_rows, self._owed = marked.upper, marked.inserted_rows, marked.owed
        self._unfolded = self._unfolded_rows = 0
        self._forget_layers()

    def _fold(self, position: int) -> None:
        """Make one batch of the newest, and merge it with those from ``position`` on that are no larger."""
        batches = self._pending[position:]
        count = min(self._unfolded, len(batches))
        if count > 1:
            batches[-count:] = [combined(batches[-count:], None)]
            self.merged_rows += len(batches[-1])
        while len(batches) > 1 and len(batches[-2]) <= ROUND_FACTOR * len(batches[-1]):
            merge = Merge(batches[-2], batches[-1], None)
            while merge.result is None:
                self.merged_rows += merge.advance(len(merge) + 1)
            batches[-2:] = [merge.result]
        self._pending[position:] = batches
        self._unfolded = self._unfolded_rows = 0
        self._forget_layers()

    def _whole_nodes(self) -> list[Batch]:
        """The batches that are or were absorbed, the sources of unfinished merges among them."""
        batches: list[Batch] = []
        for node in self._nodes:
            if isinstance(node, Merge):
                batches += (node.older, node.newer)
            else:
                batches.append(node)
        return batches

    def _all_batches(self) -> list[Batch]:
        return self._whole_nodes() + self._pending

    def layers(self, through: Antichain | None = None) -> Layers:
        """The batches that hold updates, oldest first; with ``through``, those before that frontier.

        ``through`` must not be before a physical frontier that the caller has given up.
        """
        if through is not None and through is not self.upper and through != self.upper:
            return self._layers_through(through)
        if self._layers is None:
            few = self._unfolded < TINY_BATCHES and self._unfolded <= tiny_tail(self._pending)
            if self._mark is not None and not few:
                self._fold(self._mark.position)
            older, newer = self._layers_before, self._newer
            if older is None:
                older, newer = Layers(), self._all_batches()
            self._forget_layers()
            self._layers = Layers((*older, *[batch for batch in newer if len(batch)]))
        return self._layers

    def _forget_layers(self) -> None:
        """What was read is not the beginning of what there is any more."""
        self._layers = self._layers_before = None
        self._newer = []

    def _layers_through(self, through: Antichain) -> Layers:
        found = []
        for batch in self._all_batches():
            if batch.upper.dominates(through):
                found.append(batch)
            elif not through.dominates(batch.lower):
                raise InternalError(f"the frontier {through.elements} falls within a merged batch")
        return Layers(batch for batch in found if len(batch))

    @property
    def batches(self) -> int:
        """Number of batches a reader sees."""
        return len(self.layers())

    @property
    def rows(self) -> int:
        """Updates in all batches."""
        return sum(len(batch) for batch in self.layers())

    @property
    def bytes(self) -> int:
        """Bytes of all batches with their directories, and of unfinished merges."""
        unfinished = sum(node.nbytes for node in self._nodes if isinstance(node, Merge))
        return unfinished + sum(batch.nbytes for batch in self._all_batches())

    def hold(self, hold: "Hold") -> None:
        """Respect a reader's frontiers for as long as the object lives."""
        self._holds.append(weakref.ref(hold, self._holds.remove))

    def release(self, hold: "Hold") -> None:
        """Forget a reader's frontiers."""
        self._holds[:] = [reference for reference in self._holds if reference() is not hold]

    @property
    def absorbed(self) -> Antichain:
        """The frontier up to which batches may have been merged."""
        return self._nodes[-1].upper if self._nodes else Antichain.minimum(self.depth)

    def work(self, fuel: int | None = None) -> int:
        """Merge; returns the rows of work done.

        Without ``fuel``: what is due after the insertions since the last call, ``effort`` times their rows
        on each unfinished merge. With ``fuel``: about so many rows in all, shared by the unfinished merges.
        """
        self._absorb()
        due = max(LEAST_FUEL, self._effort * self._owed)
        self._owed = 0
        spent = 0
        served: set[Merge] = set()
        while fuel is None or spent < fuel:
            self._begin_merges()
            merges = [node for node in self._nodes if isinstance(node, Merge) and node not in served]
            if not merges:
                break
            for merge in merges:
                if fuel is None:
                    spent += merge.advance(due)
                    served.add(merge)
                else:
                    spent += merge.advance(max(1, (fuel - spent) // len(merges)))
            self._install()
        self.merged_rows += spent
        return spent

    def compact(self) -> None:
        """Merge all that readers' physical frontiers allow into one batch, compacted as far as they allow."""
        self._absorb()
        while True:
            for node in self._nodes:
                if isinstance(node, Merge):
                    while node.result is None:
                        self.merged_rows += node.advance(len(node) + 1)
            self._install()
            if len(self._nodes) < 2:
                break
            self._begin(len(self._nodes) - 2)
        if self._nodes:
            self._compact_times()

    def _compact_times(self) -> None:
        """Compact the times of the only batch."""
        (batch,) = self._nodes
        frontier = self._frontier()
        assert isinstance(batch, Batch)
        if not frontier or frontier.dominates(batch.since):
            return
        nothing = Updates.empty(self.width, self.depth)
        merge = Merge(batch, Batch(nothing, batch.upper, batch.upper, batch.since), frontier)
        while merge.result is None:
            self.merged_rows += merge.advance(len(merge) + 1)
        self.since = self.since.join(frontier)
        self._nodes = [merge]
        self._install()

    def rewrite(self, function: Callable[[Updates], Updates]) -> None:
        """Map the rows of all batches, as when row ids are renumbered; the result is sorted again.

        Unfinished merges start over. The batches that readers hold stay as they were.
        """
        self._nodes = [self._rewritten(batch, function) for batch in self._whole_nodes()]
        self._pending = [self._rewritten(batch, function) for batch in self._pending]
        self._mark = None
        self._settled = False
        self._forget_layers()

    @staticmethod
    def _rewritten(batch: Batch, function: Callable[[Updates], Updates]) -> Batch:
        return Batch(function(batch.updates).consolidate(), batch.lower, batch.upper, batch.since)

    def _absorb(self) -> None:
        """Let go of the boundaries between pending batches that no reader's physical frontier needs."""
        if self._mark is not None and self._unfolded:
            self._fold(self._mark.position)
        self._mark = None
        if not self._pending:
            return
        physical = meet(hold.physical for hold in self._live_holds())
        if physical is self.upper:
            physical = None  # which holds back nothing that is pending
        count, large = 0, False
        for batch in self._pending:
            if physical is not None and not batch.upper.dominates(physical):
                break
            self._nodes.append(batch)
            large |= not 0 < len(batch) <= TINY
            count += 1
        del self._pending[:count]
        if large or (count and tiny_tail(self._nodes) >= TINY_BATCHES):
            self._settled = False

    def _live_holds(self) -> "list[Hold]":
        return [hold for reference in self._holds if (hold := reference()) is not None]

    def _frontier(self) -> Antichain | None:
        """The frontier to compact to: no reader reads at times that are not in advance of it."""
        return meet(hold.logical for hold in self._live_holds())

    def _begin_merges(self) -> None:
        """Begin every merge that is due, cheapest neighbours first."""
        if self._settled:
            return
        self._fold_empty()
        tiny = tiny_tail(self._nodes)
        if tiny >= TINY_BATCHES:
            self._combine(comparable(self._nodes[-tiny:]))
            tiny = tiny_tail(self._nodes)
        while (index := self._next_pair(len(self._nodes) - tiny)) is not None:
            self._begin(index)
        self._settled = True

    def _combine(self, count: int) -> None:
        """Make one batch of the newest ``count`` at once: merging in steps would cost more than the rows."""
        batches = [node for node in self._nodes[-count:] if isinstance(node, Batch)]
        frontier = self._frontier()
        self._nodes[-count:] = [combined(batches, frontier)]
        self.merged_rows += sum(len(batch) for batch in batches)
        if frontier:
            self.since = self.since.join(frontier)
        self._forget_layers()

    def _begin(self, index: int) -> None:
        older, newer = self._nodes[index], self._nodes[index + 1]
        assert isinstance(older, Batch) and isinstance(newer, Batch)
        frontier = self._frontier()
        if frontier:
            self.since = self.since.join(frontier)
        self._nodes[index : index + 2] = [Merge(older, newer, frontier)]

    def _next_pair(self, end: int) -> int | None:
        """Position, before ``end``, of two batches to merge: due, and no dearer than the due pairs beside it.

        That order makes a row of small batches before a large one merge with each other first.
        """
        nodes = self._nodes
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
        for index, node in enumerate(self._nodes):
            if isinstance(node, Merge) and node.result is not None:
                self._nodes[index] = node.result
                self._forget_layers()
                self._settled = False

    def _fold_empty(self) -> None:
        """Let neighbours of batches without rows cover their frontiers."""
        index = 0
        while index + 1 < len(self._nodes):
            older, newer = self._nodes[index], self._nodes[index + 1]
            if isinstance(older, Batch) and isinstance(newer, Batch) and not (len(older) and len(newer)):
                kept = newer if len(newer) else older
                self._nodes[index : index + 2] = [kept.covering(older.lower, newer.upper)]
                self._forget_layers()
            else:
                index += 1
