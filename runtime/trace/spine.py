"""A trace: the batches of one collection, followed by its newest updates.

The batches are adjacent (the ``upper`` of each is the ``lower`` of the next), oldest first.
:meth:`Spine.work` merges the batches of finished steps, in proportion to what was inserted
(``runtime/trace/merge.py``). In a loop, a step inserts one batch a round. These batches merge only with each
other, when they are looked up, so that :meth:`Spine.truncate` can undo the step.

Small steps go to the *head*, or to the *tail* if a reader needs them in order (``runtime/trace/head.py``). It
is sealed into a batch when it is large, when the other one is needed, when a second reader holds the trace
(whose frontier may be where no batch ends), or when lookups find the head crowded.

A :class:`TraceHandle` is a reader's hold: the frontiers from which the reader may still look.
"""

from collections.abc import Iterator
from typing import Final

from kpg.runtime.errors import InternalError
from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.trace.batch import Batch, Layers, Sought
from kpg.runtime.trace.head import DIRECT, Mark, Place, Recent
from kpg.runtime.trace.merge import (
    EFFORT,
    FACTOR,
    ROUND_FACTOR,
    TINY_BATCHES,
    Hold,
    Holds,
    Merge,
    Tiers,
    combined,
    settled,
    tiny_tail,
)
from kpg.runtime.trace.updates import Updates
from kpg.runtime.versions import replaced

DEFERRED: Final = 1 << 12
"""Rows that may come to the head before work that is owed for them is done: the fixed cost of a step of all
merges is then a thousandth of a microsecond a row, and a step stalls by what four times as many rows take."""

RUN: Final = 1 << 20
"""Batches of one step are made one when they have more rows than this together."""


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
        self.recent = Recent(width, depth, key)
        """Who appends to it says so by :meth:`appended`."""
        self.depth = depth
        self.upper = Antichain.minimum(depth)
        self.inserted_rows = 0
        self._holds = Holds()
        self._tiers = Tiers(depth, self._holds, factor, effort)
        self._pending: list[Batch] = []
        self._owed = 0
        self._unfolded = self._unfolded_rows = 0
        self._marks = 0
        self._mark: Mark | None = None
        self._layers: Layers | None = None
        self._layers_before: Layers | None = None
        self._newer: list[Batch] = []
        self._sought: Sought | None = None
        self.version = 0
        """Another whenever look-ups go through other arrays, or small steps through another place."""

    def append(self, updates: Updates, upper: Antichain, *, alone: bool = False) -> Updates:
        """Add a step's updates, in any order, up to ``upper``: few to the head or the tail, many as a batch.

        ``alone``: they are all that the step adds, in a loop in this round: what they join is earlier.
        Returns them, consolidated if that can make them fewer or if they are in order; without any left the
        trace stays as it was. DataError where a sum of diffs does not fit 64 bits.
        """
        recent, place = self.recent, self.place(len(updates))
        if place is Place.TAIL and not (alone and updates.constant_time):
            place = Place.BATCH
        if place is not Place.HEAD or not updates.constant_diff:
            updates = updates.consolidate()
        if recent.direct:
            recent.direct -= 1
            if not recent.direct:
                self.version = replaced()
        count = updates.data.shape[1]
        if not count:
            return updates
        if place is Place.BATCH:
            self.seal()
            self._insert(Batch(updates, self.upper, upper, Antichain.minimum(self.depth)))
            return updates
        if recent.is_mixed or not recent.has_room(count):
            self.seal()
        if place is Place.TAIL and recent.tail is None:
            recent.make_tail()
            self._forget_layers()
        recent.add(updates, self.upper, upper, self._batched)
        self.inserted_rows += count
        self._owed += count
        self.upper = upper
        return updates

    def place(self, count: int) -> Place:
        """Where so many updates of a step go."""
        return self.recent.place(count) if len(self._holds.references) == 1 else Place.BATCH

    def appended(self, count: int, verdict: int, upper: Antichain) -> None:
        """So many updates, up to ``upper``, were appended to the head; ``verdict`` is ``Head.append``'s."""
        # As ``Recent.appended``, in line: small steps do this for each trace.
        recent, head = self.recent, self.recent.head
        size = head.size = head.size + count
        if size == count:
            recent.lower = self.upper
        if verdict or size > recent.churned_at:
            recent.judge(verdict, size, self._batched)
        recent.ends.append(upper, size)
        self.inserted_rows += count
        self._owed += count
        self.upper = upper

    def inserted(self, count: int, upper: Antichain) -> None:
        """So many updates, up to ``upper``, were merged into the tail."""
        recent = self.recent
        recent.inserted(count, self.upper, self._batched)
        recent.direct -= 1
        if not recent.direct:
            self.version = replaced()
        self.inserted_rows += count
        self._owed += count
        self.upper = upper

    def _batched(self) -> int:
        return sum(len(batch) for batch in self._sorted())

    def seal(self, *, compact: bool = True) -> None:
        """Make batches of what came lately: of what is there for good, and of what came since the mark."""
        recent, mark = self.recent, self._mark
        if not recent.size:
            return
        upper, self.upper = self.upper, recent.lower
        frontier = self._holds.logical() if compact else None
        held, marked = (None, upper) if mark is None else (mark.held, mark.upper)
        final = 0
        for piece in recent.pieces(upper, held, marked, self._holds.physicals()):
            if piece.final:
                if frontier:
                    self._tiers.since = self._tiers.since.join(frontier)
                self._push(settled(piece.updates, self.upper, piece.upper, frontier))
                final += 1
                continue
            batch = Batch.build(piece.updates, self.upper, piece.upper)
            self._push(batch)
            if self.depth > 1:
                self._unfolded += 1
                self._unfolded_rows += len(batch)
        self.upper = upper
        if mark is not None:
            self._mark = mark._replace(held=0, position=mark.position + final)

    def _push(self, batch: Batch) -> None:
        """Let a batch be the newest."""
        if self._layers is not None:
            self._layers_before, self._newer, self._layers = self._layers, [], None
        if self._layers_before is not None:
            self._newer.append(batch)
        self._sought = None
        self.version = replaced()
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
        self._mark = Mark(
            self._marks, len(self._pending), self.upper, self.inserted_rows, self._owed, self.recent.head.size
        )
        return self._marks

    def truncate(self, mark: int) -> None:
        """Take back all batches inserted since the mark, which stays valid.

        Raises InternalError if the mark is not valid any more.
        """
        marked = self._mark
        if marked is None or marked.number != mark:
            raise InternalError("a trace was merged or marked again before it was taken back to a mark")
        self.recent.truncate(marked.held, marked.upper)
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
        recent = self.recent
        if recent.head.size:
            self.seal(compact=False)
        if not recent.direct:
            self.version = replaced()
        recent.direct = DIRECT
        if through is not None and through is not self.upper and through != self.upper:
            self.seal(compact=False)
            return self._layers_through(through)
        found = self._sorted()
        if recent.tail is not None and recent.tail.size:
            late = Batch(recent.tail.view(), recent.lower, self.upper, Antichain.minimum(self.depth))
            found = found.followed_by(late, recent.tail.description)
        return found

    @property
    def batches_in_order(self) -> Layers:
        """The batches that hold updates, oldest first, without what came lately."""
        return self._sorted()

    def sought(self) -> Sought:
        """What look-ups go through, all updates in whatever order."""
        if self._sought is None:
            self._sought = Sought(self._sorted(), self.recent.head, self.recent.tail)
        return self._sought

    def parts(self) -> Iterator[Updates]:
        """All updates, part by part, in no particular order."""
        for batch in self._sorted():
            yield batch.updates
        yield from self.recent.parts()

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
        self.version = replaced()
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
        """Number of batches a reader sees, what came lately as one of them."""
        return len(self._sorted()) + (self.recent.size > 0)

    @property
    def rows(self) -> int:
        """Updates in all batches, and those that came lately."""
        return self._batched() + self.recent.size

    @property
    def bytes(self) -> int:
        """Bytes of all batches with their directories, and of unfinished merges."""
        batches = sum(batch.nbytes for batch in self._all_batches())
        return self._tiers.unfinished_bytes + batches + self.recent.nbytes

    def hold(self, hold: Hold) -> None:
        """Respect a reader's frontiers for as long as the object lives."""
        self._holds.add(hold)
        self.version = replaced()

    def release(self, hold: Hold) -> None:
        """Forget a reader's frontiers."""
        self._holds.remove(hold)
        self.version = replaced()

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
        """Whether nothing needs to be done after a step: it made no batch, and little work is owed as yet.

        Then the step is final, as after ``work``.
        """
        if self._pending or self.recent.crowded or self._owed >= DEFERRED:
            return False
        self._mark = None
        return True

    def work(self, fuel: int | None = None) -> int:
        """Merge; returns the rows of work done.

        Without ``fuel``: what is due after the insertions since the last call, ``effort`` times their rows
        on each unfinished merge. With ``fuel``: about so many rows in all, shared by the unfinished merges.
        """
        tiers = self._tiers
        if self.recent.crowded:
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

    def compact(self, fuel: int | None = None) -> bool:
        """Make one batch of all that readers' frontiers allow; of ``fuel`` by so many rows. Is it done?"""
        if fuel is None or not self._tiers.whole:
            self._mark = None
            self.seal()
            self._absorb()
        done = self._tiers.compact(fuel)
        self._read_anew()
        return done

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


class TraceHandle:
    """The right to read a trace at times in advance of ``logical``, cut at frontiers not before ``physical``.

    Both frontiers only advance; advancing them lets the spine compact times and merge batches. A handle
    that is closed, or dropped, holds nothing back. Handles own the spine: when the last is gone, so is it.
    """

    __slots__ = ("_hold", "_spine")

    def __init__(self, spine: Spine) -> None:
        self._open(spine, spine.since, spine.absorbed)

    def _open(self, spine: Spine, logical: Antichain, physical: Antichain) -> None:
        self._spine: Spine | None = spine
        self._hold = Hold(logical, physical)
        spine.hold(self._hold)

    @property
    def spine(self) -> Spine:
        """The trace; InternalError once closed."""
        if self._spine is None:
            raise InternalError("a closed trace handle was used")
        return self._spine

    @property
    def logical(self) -> Antichain:
        """Reads are right at times in advance of this frontier."""
        return self._hold.logical

    @property
    def physical(self) -> Antichain:
        """No batch spans this frontier, or a later one at which a step ended (see :meth:`Spine.mark`)."""
        return self._hold.physical

    def restore(self, logical: Antichain, physical: Antichain) -> None:
        """Hold what another handle held on a trace that is this one's from now on."""
        self._hold.logical, self._hold.physical = logical, physical

    def advance_logical(self, frontier: Antichain) -> None:
        """Give up reading at times not in advance of ``frontier``."""
        held = self._hold.logical
        if held is not frontier and not held.dominates(frontier):
            raise InternalError(
                f"a logical frontier cannot go back from {self.logical.elements} to {frontier.elements}"
            )
        self._hold.logical = frontier

    def advance_physical(self, frontier: Antichain) -> None:
        """Give up cutting the trace at frontiers before ``frontier``."""
        held = self._hold.physical
        if held is not frontier and not held.dominates(frontier):
            raise InternalError(
                f"a physical frontier cannot go back from {self.physical.elements} to {frontier.elements}"
            )
        self._hold.physical = frontier

    def follow(self) -> None:
        """Give up cutting the trace anywhere but at its end."""
        if self._spine is None:
            raise InternalError("a closed trace handle was used")
        self._hold.physical = self._spine.upper

    def clone(self) -> "TraceHandle":
        """Another handle with the same frontiers."""
        handle = TraceHandle.__new__(TraceHandle)
        handle._open(self.spine, self.logical, self.physical)
        return handle

    def close(self) -> None:
        """Hold nothing back any more; closing twice is allowed."""
        if self._spine is not None:
            self._spine.release(self._hold)
            self._spine = None
