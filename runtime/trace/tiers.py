"""The batches of a trace that are there for good, merged geometrically with bounded effort.

Two neighbours are merged when the older is not larger than ``factor`` times all that is newer; so, once
merges are done, sizes fall geometrically and there are O(log n) batches.
"""

import math
from collections.abc import Sequence
from typing import Final

from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.trace.batch import Batch
from kpg.runtime.trace.folding import TINY, TINY_BATCHES, combined, comparable, tiny_tail
from kpg.runtime.trace.holds import Holds
from kpg.runtime.trace.merge import Merge
from kpg.runtime.trace.updates import Updates

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
            for merge in merges:
                if fuel is None:
                    spent += merge.advance(due)
                    served.add(merge)
                else:
                    spent += merge.advance(max(1, (fuel - spent) // len(merges)))
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
