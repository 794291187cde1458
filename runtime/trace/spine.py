"""A trace: the batches of one collection, and after them the head, what came lately.

The batches are adjacent (each one's ``upper`` is the next one's ``lower``), oldest first. Those of steps
that are over are merged by :meth:`Spine.work`, in proportion to what was inserted
(``runtime/trace/tiers.py``). In a loop one step inserts a batch a round: these, and no older ones,
merge with each other when they are looked up, so that :meth:`Spine.truncate` can take the step back.

What comes in small steps goes to the *head* first (``runtime/trace/head.py``), the newest part of the trace:
all batches precede it. It is sealed into a batch when it is large or look-ups find it crowded, when somebody
reads the trace in order, and when a second reader holds it (whose frontier may be where no batch ends).
"""

from collections.abc import Iterator
from dataclasses import replace
from operator import itemgetter
from typing import Final

from kpg.runtime.errors import InternalError
from kpg.runtime.kernels.head import UNFIT
from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.records import dataclass
from kpg.runtime.trace.batch import Batch, Layers, Sought
from kpg.runtime.trace.folding import ROUND_FACTOR, TINY_BATCHES, combined, settled, tiny_tail
from kpg.runtime.trace.head import MOST, Head
from kpg.runtime.trace.holds import Hold, Holds
from kpg.runtime.trace.merge import Merge
from kpg.runtime.trace.tiers import EFFORT, FACTOR, Tiers
from kpg.runtime.trace.updates import Updates

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
        self._ends: list[tuple[Antichain, int]] = []
        self._crowded, self._direct, self._churned_at = False, 0, CHURN
        self.depth = depth
        self.upper = Antichain.minimum(depth)
        self.inserted_rows = 0
        self._holds = Holds()
        self._tiers = Tiers(depth, self._holds, factor, effort)
        self._pending: list[Batch] = []
        self._owed = 0
        self._unfolded = 0
        self._unfolded_rows = 0
        self._marks = 0
        self._mark: _Mark | None = None
        self._layers: Layers | None = None
        self._layers_before: Layers | None = None
        self._newer: list[Batch] = []
        self._sought: Sought | None = None

    def append(self, updates: Updates, upper: Antichain) -> Updates:
        """Add a step's updates, in any order, up to ``upper``: few to the head, many as a batch.

        Returns them, consolidated if that can make them fewer or if they are in a batch; without any left the
        trace stays as it was. DataError where a sum of diffs does not fit 64 bits.
        """
        if self._direct or len(updates) > SMALL_STEP or len(self._holds.references) != 1:
            self._direct = max(0, self._direct - 1)
            if self._head.size:
                self.seal()
            updates = updates.consolidate()
            if updates.data.shape[1]:
                self._insert(Batch(updates, self.upper, upper, Antichain.minimum(self.depth)))
            return updates
        if not updates.constant_diff:
            updates = updates.consolidate()
        count = updates.data.shape[1]
        if count:
            self._append(updates, count)
            self.upper = upper
            self._ends.append((upper, self._head.size))
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
        frontier = self._holds.logical() if compact else None
        first = settled_batches = 0
        for end, last in self._cuts(size, upper):
            if last <= held:
                if frontier:
                    self._tiers.since = self._tiers.since.join(frontier)
                self._push(settled(head.updates(first, last), self.upper, end, frontier))
                settled_batches += 1
            else:
                batch = Batch.build(head.updates(first, last), self.upper, end)
                self._push(batch)
                if self.depth > 1:
                    self._unfolded += 1
                    self._unfolded_rows += len(batch)
            first = last
        if mark is not None:
            self._mark = replace(mark, held=0, position=mark.position + settled_batches)
        head.clear()
        self._ends.clear()
        self._crowded = False
        self._churned_at = CHURN

    def _cuts(self, size: int, upper: Antichain) -> list[tuple[Antichain, int]]:
        """Where batches of the head end, in order: at the mark, at readers' physical frontiers, last."""
        cuts, mark = [(upper, size)], self._mark
        if mark is not None and 0 < mark.held < size:
            cuts.append((mark.upper, mark.held))
        for physical in self._holds.physicals():
            if all(physical is not end and physical != end for end, _ in cuts):
                cuts += [(end, last) for end, last in self._ends if end == physical and 0 < last < size]
        return sorted(cuts, key=itemgetter(1))

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
        self._insert(batch)

    def _insert(self, batch: Batch) -> None:
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
            while self._ends and self._ends[-1][1] > marked.held:
                self._ends.pop()
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
            self._tiers.merged_rows += len(batches[-1])
        while len(batches) > 1 and len(batches[-2]) <= ROUND_FACTOR * len(batches[-1]):
            merge = Merge(batches[-2], batches[-1], None)
            while merge.result is None:
                self._tiers.merged_rows += merge.advance(len(merge) + 1)
            batches[-2:] = [merge.result]
        self._pending[position:] = batches
        self._unfolded = self._unfolded_rows = 0
        self._forget_layers()

    def _all_batches(self) -> list[Batch]:
        return self._tiers.batches() + self._pending

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
        batches = sum(batch.nbytes for batch in self._all_batches())
        return self._tiers.unfinished_bytes + batches + self._head.nbytes

    def hold(self, hold: Hold) -> None:
        """Respect a reader's frontiers for as long as the object lives."""
        self._holds.add(hold)

    def release(self, hold: Hold) -> None:
        """Forget a reader's frontiers."""
        self._holds.remove(hold)

    @property
    def since(self) -> Antichain:
        """The frontier up to which times have been compacted."""
        return self._tiers.since

    @property
    def merged_rows(self) -> int:
        """Rows of work done on merging."""
        return self._tiers.merged_rows

    @property
    def absorbed(self) -> Antichain:
        """The frontier up to which batches may have been merged."""
        nodes = self._tiers.nodes
        return nodes[-1].upper if nodes else Antichain.minimum(self.depth)

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
        tiers = self._tiers
        if self._crowded:
            self._mark = None
            self.seal()
        elif tiers.settled and not self._pending and not tiers.merging:
            self._mark, self._owed = None, 0
            return 0
        self._absorb()
        inserted, self._owed = self._owed, 0
        spent = tiers.work(inserted, fuel)
        self._read_anew()
        return spent

    def compact(self) -> None:
        """Merge all that readers' physical frontiers allow into one batch, compacted as far as they allow."""
        self._mark = None
        self.seal()
        self._absorb()
        self._tiers.compact()
        self._read_anew()

    def _read_anew(self) -> None:
        """Forget batches that gave way to others."""
        if self._tiers.replaced:
            self._tiers.replaced = False
            self._forget_layers()

    def _absorb(self) -> None:
        """Let go of the boundaries between pending batches that no reader's physical frontier needs."""
        if self._mark is not None and self._unfolded:
            self._fold(self._mark.position)
        self._mark = None
        if not self._pending:
            return
        physical = self._holds.physical()
        if physical is self.upper:
            physical = None  # which holds back nothing that is pending
        count = len(self._pending)
        if physical is not None:
            ready = (batch.upper.dominates(physical) for batch in self._pending)
            count = next((position for position, one in enumerate(ready) if not one), count)
        self._tiers.add(self._pending[:count])
        del self._pending[:count]
