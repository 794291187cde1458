"""A trace: the batches of one collection, merged geometrically with bounded effort.

The batches are adjacent (each one's ``upper`` is the next one's ``lower``), oldest first. Two neighbours
are merged when the older is not larger than ``factor`` times all that is newer; so, once merges are
done, sizes fall geometrically and there are O(log n) batches. Merging is done in :meth:`Spine.work`,
in proportion to what was inserted. In a loop one step inserts a batch a round: these, and no older ones,
merge with each other when they are looked up, so that :meth:`Spine.truncate` can take the step back.

What comes in small steps goes to the *head* first (``runtime/trace/head.py``), the newest part of the trace:
all batches precede it. It is sealed into a batch when it is large, when somebody reads the trace in order,
when a second reader holds the trace (whose frontier may be where no batch ends), or when look-ups find it
crowded.
"""

import math
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kpg.runtime.errors import InternalError
from kpg.runtime.kernels.head import UNFIT
from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.trace.batch import Batch, Layers, Sought
from kpg.runtime.trace.folding import (
    ROUND_FACTOR,
    TINY,
    TINY_BATCHES,
    combined,
    comparable,
    meet,
    settled,
    tiny_tail,
)
from kpg.runtime.trace.head import MOST, Head
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

SMALL_STEP: Final = MOST // 16
"""A step of more rows makes a batch: sorted at once it is as cheap."""

DIRECT: Final = 64
"""So many steps make a batch each once somebody has read the trace in order: sealing tiny heads is dearer."""

CHURN: Final = 64
"""A head of more rows, and more than all batches have, is sealed if rows went: they may cancel."""

DEFERRED: Final = 1 << 12
"""Rows that may come to the head before work that is owed for them is done: the fixed cost of a step of all
merges is then a thousandth of a microsecond a row, and a step stalls by what four times as many rows take."""

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
    held: int
    """Rows in the head."""


class Spine:
    """The trace of rows of ``width`` columns at times of ``depth`` coordinates.

    ``since`` is the frontier F up to which times have been compacted: reads are right at times in advance of
    it. An update at u is at rep(u) = meet of (u join f) over f in F, so that rep(u) <= t if and only if
    u <= t, for every such t. F never passes a handle's logical frontier, and no batch spans a handle's
    physical one.
    """

    def __init__(
        self, width: int, depth: int, *, key: int = 1, factor: float = FACTOR, effort: int = EFFORT
    ) -> None:
        self.width = width
        self._head = Head(width, depth, key)
        self._head_lower = Antichain.minimum(depth)
        self._crowded = False
        self._direct = 0
        self._churned_at = CHURN
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
        self._merging = False
        self._marks = 0
        self._mark: _Mark | None = None
        self._holds: list[weakref.ref[Hold]] = []
        self._layers: Layers | None = None
        self._layers_before: Layers | None = None
        self._newer: list[Batch] = []
        self._sought: Sought | None = None

    def append(self, updates: Updates, upper: Antichain) -> Updates:
        """Add a step's updates, in any order, up to ``upper``: few to the head, many as a batch.

        Returns them, consolidated if that can make them fewer or if they are in a batch; without any left the
        trace stays as it was. DataError where a sum of diffs does not fit 64 bits.
        """
        if self._direct or len(updates) > SMALL_STEP or len(self._holds) != 1:
            self._direct = max(0, self._direct - 1)
            self.seal()
            updates = updates.consolidate()
            if len(updates):
                self.insert(Batch(updates, self.upper, upper, Antichain.minimum(self.depth)))
            return updates
        if not updates.constant_diff:
            updates = updates.consolidate()
        count = updates.data.shape[1]
        if count:
            self._append(updates, count)
            self.upper = upper
        return updates

    def _append(self, updates: Updates, count: int) -> None:
        head = self._head
        if head.size + count > MOST:
            self.seal()
        if not head.size:
            self._head_lower = self.upper
        verdict = head.append(updates)
        if verdict:
            self._crowded = True
            if verdict == UNFIT:
                self._direct = DIRECT
        elif head.size > self._churned_at:
            batches = sum(len(batch) for batch in self._sorted())
            self._crowded = head.counts and head.size > batches
            self._churned_at = max(2 * head.size, batches)
        self.inserted_rows += count
        self._owed += count

    def seal(self, *, compact: bool = True) -> None:
        """Make batches of the head: one of what is there for good, one of what came since the mark."""
        head, mark = self._head, self._mark
        size = head.size
        if not size:
            return
        upper, self.upper = self.upper, self._head_lower
        held = size if mark is None else mark.held
        if held:
            middle = upper if mark is None or held == size else mark.upper
            frontier = self._frontier() if compact else None
            if frontier:
                self.since = self.since.join(frontier)
            self._push(settled(head.updates(0, held), self.upper, middle, frontier))
        if held < size:
            batch = Batch.build(head.updates(held, size), self.upper, upper)
            self._push(batch)
            if self.depth > 1:
                self._unfolded += 1
                self._unfolded_rows += len(batch)
        if mark is not None:
            self._mark = replace(mark, held=0, position=mark.position + (held > 0))
        head.clear()
        self._crowded = False
        self._churned_at = CHURN

    def _push(self, batch: Batch) -> None:
        """Let a batch be the newest."""
        if self._layers is not None:
            self._layers_before, self._newer, self._layers = self._layers, [], None
        if self._layers_before is not None:
            self._newer.append(batch)
        self._sought = None
        self._pending.append(batch)
        self.upper = batch.upper

    def insert(self, batch: Batch) -> None:
        """Append a batch whose ``lower`` is the ``upper`` of this trace.

        If there are rounds (``depth`` above 1), it will merge with others since the mark, their times kept.
        Raises DataError where a sum of diffs does not fit 64 bits.
        """
        if batch.lower is not self.upper and batch.lower != self.upper:
            raise InternalError(f"batch from {batch.lower.elements} does not follow {self.upper.elements}")
        self.seal()
        self._push(batch)
        if self.depth > 1 and self._mark is not None:
            self._unfolded += 1
            self._unfolded_rows += len(batch)
            if self._unfolded_rows > RUN:
                self._fold(self._mark.position)
        self.inserted_rows += len(batch)
        self._owed += len(batch)

    def mark(self) -> int:
        """A token for the present contents, valid until the next mark, :meth:`work` or :meth:`compact`."""
        self._marks += 1
        self._mark = _Mark(
            self._marks, len(self._pending), self.upper, self.inserted_rows, self._owed, self._head.size
        )
        return self._marks

    def truncate(self, mark: int) -> None:
        """Take back all batches inserted since the mark, which stays valid.

        Raises InternalError if the mark is not valid any more.
        """
        marked = self._mark
        if marked is None or marked.number != mark:
            raise InternalError("a trace was merged or marked again before it was taken back to a mark")
        if self._head.size > marked.held:
            self._head.truncate(marked.held)
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

        ``through`` must not be before a physical frontier that the caller has given up. Whoever reads in
        order will do so again: there is no head for a while.
        """
        if self._head.size:
            self.seal(compact=False)
            self._direct = DIRECT
        if through is not None and through is not self.upper and through != self.upper:
            return self._layers_through(through)
        return self._sorted()

    def sought(self) -> Sought:
        """What look-ups go through, all updates in whatever order."""
        if self._sought is None:
            self._sought = Sought(self._sorted(), self._head)
        return self._sought

    def parts(self) -> Iterator[Updates]:
        """All updates, part by part, in no particular order."""
        for batch in self._sorted():
            yield batch.updates
        if self._head.size:
            yield self._head.updates()

    def _sorted(self) -> Layers:
        """The batches that hold updates, oldest first."""
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
        self._layers = self._layers_before = self._sought = None
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
        """Number of batches a reader sees, the head, if it has rows, among them."""
        return len(self._sorted()) + (self._head.size > 0)

    @property
    def rows(self) -> int:
        """Updates in all batches and the head."""
        return sum(len(batch) for batch in self._sorted()) + self._head.size

    @property
    def bytes(self) -> int:
        """Bytes of all batches with their directories, and of unfinished merges."""
        unfinished = sum(node.nbytes for node in self._nodes if isinstance(node, Merge))
        return unfinished + sum(batch.nbytes for batch in self._all_batches()) + self._head.nbytes

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

    def rest(self) -> bool:
        """Whether nothing needs to be done after a step: it came to the head, and little work is owed as yet.

        Then the step is final, as after ``work``.
        """
        if self._pending or self._crowded or self._owed >= DEFERRED:
            return False
        self._mark = None
        return True

    def work(self, fuel: int | None = None) -> int:
        """Merge; returns the rows of work done.

        Without ``fuel``: what is due after the insertions since the last call, ``effort`` times their rows
        on each unfinished merge. With ``fuel``: about so many rows in all, shared by the unfinished merges.
        """
        if self._crowded:
            self._mark = None
            self.seal()
        elif self._settled and not self._pending and not self._merging:
            self._mark, self._owed = None, 0
            return 0
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
        self._merging = any(isinstance(node, Merge) for node in self._nodes)
        self.merged_rows += spent
        return spent

    def compact(self) -> None:
        """Merge all that readers' physical frontiers allow into one batch, compacted as far as they allow."""
        self._mark = None
        self.seal()
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
        self._merging = True

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
