"""A trace: the batches of one collection, followed by its newest updates.

The batches are adjacent (the ``upper`` of each is the ``lower`` of the next), oldest first.
:meth:`Spine.finish_step` merges the batches of finished steps, in proportion to the inserted rows
(``runtime/trace/merge.py``). In a loop, a step inserts one batch a round. These batches merge only
with each other, when they are looked up, so that :meth:`Spine.truncate` can undo the step.

Small steps go to the *head*, or to the *tail* if a reader needs them in order
(``runtime/trace/head.py``). It is sealed into a batch in four cases: it is large, the other one is
needed, lookups find the head crowded, or a second reader holds the trace. The frontier of a second
reader may be where no batch ends.

A :class:`TraceHandle` is a reader's hold: the frontiers from which the reader may still read.
"""

from collections.abc import Iterator
from typing import Final

from kpg.runtime.errors import InternalError
from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.trace.batch import Batch, Layers, LookupTarget
from kpg.runtime.trace.head import ORDERED_STEPS, Destination, Mark, Recent
from kpg.runtime.trace.merge import (
    EFFORT,
    FACTOR,
    ROUND_FACTOR,
    TINY_BATCHES,
    Hold,
    Holds,
    Merge,
    Tiers,
    build_batch,
    combine_batches,
    count_tiny,
)
from kpg.runtime.trace.updates import Updates
from kpg.runtime.versions import next_version

DEFERRED_ROWS: Final = 1 << 12
"""Rows appended to the head before the merge work that they owe is done.

The fixed cost of a call to the merges is then a thousandth of a microsecond a row, and a step
stalls by at most the work for four times as many rows.
"""

COMBINE_ROWS: Final = 1 << 20
"""Total rows from which the batches of one step are combined."""


class Spine:
    """The trace of rows of ``width`` columns at times of ``depth`` coordinates.

    ``since`` is the frontier F up to which times have been compacted: reads are exact at times in
    advance of it. An update at u is stored at rep(u) = meet of (u join f) over f in F, so that rep(u)
    <= t if and only if u <= t, for every such t. F never passes a handle's logical frontier, and no
    batch spans a handle's physical one.
    """

    def __init__(
        self, width: int, depth: int, *, key: int = 1, factor: float = FACTOR, effort: int = EFFORT
    ) -> None:
        self.width = width
        self.recent = Recent(width, depth, key)
        """Head and tail. A compiled call that appends to the head reports it by :meth:`record_append`."""
        self.depth = depth
        self.upper = Antichain.minimum(depth)
        self.inserted_rows = 0
        self._holds = Holds()
        self._tiers = Tiers(depth, self._holds, factor, effort)
        self._pending: list[Batch] = []
        self._owed_rows = 0
        self._uncombined = self._uncombined_rows = 0
        """Batches of the step, and their rows, since the step's batches were last combined."""
        self._last_mark_number = 0
        self._mark: Mark | None = None
        self._layers: Layers | None = None
        self._layers_before: Layers | None = None
        self._newer: list[Batch] = []
        self._target: LookupTarget | None = None
        self.version = 0
        """Changes whenever lookups read other arrays, or small steps go to another destination."""

    def append(self, updates: Updates, upper: Antichain, *, alone: bool = False) -> Updates:
        """Add a step's updates, in any order, up to ``upper``: few to the head or the tail, many as a batch.

        ``alone`` means that the step, in a loop this round, adds nothing else. Returns the updates,
        consolidated if that may leave fewer or if they are kept in order. Without any left the trace stays
        unchanged.

        Raises:
            DataError: If a sum of diffs does not fit 64 bits.
        """
        recent, destination = self.recent, self.choose_destination(len(updates))
        if destination is Destination.TAIL and not (alone and updates.constant_time):
            destination = Destination.BATCH
        if destination is not Destination.HEAD or not updates.constant_diff:
            updates = updates.consolidate()
        if recent.ordered_steps:
            recent.ordered_steps -= 1
            if not recent.ordered_steps:
                self.version = next_version()
        count = updates.data.shape[1]
        if not count:
            return updates
        if destination is Destination.BATCH:
            self.seal()
            self._insert(Batch(updates, self.upper, upper, Antichain.minimum(self.depth)))
            return updates
        if recent.is_mixed or not recent.has_room(count):
            self.seal()
        if destination is Destination.TAIL and recent.tail is None:
            recent.make_tail()
            self._drop_layers()
        recent.add(updates, self.upper, upper, self._count_batch_rows)
        self.inserted_rows += count
        self._owed_rows += count
        self.upper = upper
        return updates

    def choose_destination(self, count: int) -> Destination:
        """Return where ``count`` updates of a step go."""
        return (
            self.recent.choose_destination(count) if len(self._holds.references) == 1 else Destination.BATCH
        )

    def record_append(self, count: int, verdict: int, upper: Antichain) -> None:
        """Record ``count`` updates, up to ``upper``, that a compiled call appended to the head.

        ``verdict`` is the result of ``Head.append``.
        """
        # ``Recent.record_append`` inlined: small steps do this for each trace.
        recent, head = self.recent, self.recent.head
        size = head.size = head.size + count
        if size == count:
            recent.lower = self.upper
        if verdict or size > recent.next_churn_check:
            recent.update_crowded(verdict, size, self._count_batch_rows)
        recent.ends.append(upper, size)
        self.inserted_rows += count
        self._owed_rows += count
        self.upper = upper

    def record_insert(self, count: int, upper: Antichain) -> None:
        """Record ``count`` updates, up to ``upper``, that a compiled call merged into the tail."""
        recent = self.recent
        recent.record_insert(count, self.upper, self._count_batch_rows)
        recent.ordered_steps -= 1
        if not recent.ordered_steps:
            self.version = next_version()
        self.inserted_rows += count
        self._owed_rows += count
        self.upper = upper

    def _count_batch_rows(self) -> int:
        return sum(len(batch) for batch in self._sorted_layers())

    def seal(self, *, compact: bool = True) -> None:
        """Make batches of the head and tail: of the final updates, and of those since the mark."""
        recent, mark = self.recent, self._mark
        if not recent.size:
            return
        upper, self.upper = self.upper, recent.lower  # `_append_batch` advances it piece by piece
        frontier = self._holds.logical() if compact else None
        head_rows, marked = (None, upper) if mark is None else (mark.head_rows, mark.upper)
        final = 0
        for piece in recent.pieces(upper, head_rows, marked, self._holds.physicals()):
            if piece.final:
                if frontier:
                    self._tiers.since = self._tiers.since.join(frontier)
                self._append_batch(build_batch(piece.updates, self.upper, piece.upper, frontier))
                final += 1
                continue
            batch = Batch.build(piece.updates, self.upper, piece.upper)
            self._append_batch(batch)
            if self.depth > 1:
                self._uncombined += 1
                self._uncombined_rows += len(batch)
        self.upper = upper
        if mark is not None:
            self._mark = mark._replace(head_rows=0, position=mark.position + final)

    def _append_batch(self, batch: Batch) -> None:
        """Append a batch and update the cached layers."""
        if self._layers is not None:
            self._layers_before, self._newer, self._layers = self._layers, [], None
        if self._layers_before is not None:
            self._newer.append(batch)
        self._target = None
        self.version = next_version()
        self._pending.append(batch)
        self.upper = batch.upper

    def insert(self, batch: Batch) -> None:
        """Append a batch whose ``lower`` is the ``upper`` of this trace.

        With rounds (``depth`` above 1) it may merge with other batches since the mark; times are kept.

        Raises:
            DataError: If a sum of diffs does not fit 64 bits.
        """
        if batch.lower is not self.upper and batch.lower != self.upper:
            raise InternalError(f"batch from {batch.lower.elements} does not follow {self.upper.elements}")
        self.seal()
        self._insert(batch)

    def _insert(self, batch: Batch) -> None:
        self._append_batch(batch)
        if self.depth > 1 and self._mark is not None:
            self._uncombined += 1
            self._uncombined_rows += len(batch)
            if self._uncombined_rows > COMBINE_ROWS:
                self._combine_newest(self._mark.position)
        self.inserted_rows += len(batch)
        self._owed_rows += len(batch)

    def mark(self) -> int:
        """Return a token of the contents, valid until the next mark or the end of the step.

        :meth:`finish_step`, :meth:`finish_idle_step` and :meth:`compact` end a step.
        """
        self._last_mark_number += 1
        self._mark = Mark(
            self._last_mark_number,
            len(self._pending),
            self.upper,
            self.inserted_rows,
            self._owed_rows,
            self.recent.head.size,
        )
        return self._last_mark_number

    def truncate(self, mark: int) -> None:
        """Remove all updates inserted since the mark, which stays valid.

        Raises:
            InternalError: If the mark is not valid.
        """
        marked = self._mark
        if marked is None or marked.number != mark:
            raise InternalError("a trace was merged or marked again before it was truncated to a mark")
        self.recent.truncate(marked.head_rows, marked.upper)
        del self._pending[marked.position :]
        self.upper, self.inserted_rows, self._owed_rows = marked.upper, marked.inserted_rows, marked.owed_rows
        self._uncombined = self._uncombined_rows = 0
        self._drop_layers()

    def _combine_newest(self, position: int) -> None:
        """Combine the newest batches, and merge the result with those from ``position`` on if not larger."""
        batches = self._pending[position:]
        count = min(self._uncombined, len(batches))
        if count > 1:
            batches[-count:] = [combine_batches(batches[-count:], None)]
            self._tiers.merged_rows += len(batches[-1])
        while len(batches) > 1 and len(batches[-2]) <= ROUND_FACTOR * len(batches[-1]):
            node = Merge(batches[-2], batches[-1], None)
            while node.result is None:
                self._tiers.merged_rows += node.advance(len(node) + 1)
            batches[-2:] = [node.result]
        self._pending[position:] = batches
        self._uncombined = self._uncombined_rows = 0
        self._drop_layers()

    def _all_batches(self) -> list[Batch]:
        return self._tiers.batches() + self._pending

    def read_in_order(self, upper: Antichain | None = None) -> Layers:
        """Seal the head and return the batches with updates, oldest first; those before ``upper`` if given.

        ``upper`` must be at or after the caller's physical frontier. A caller that reads in order will
        read again, so following steps do not append to the head.
        """
        recent = self.recent
        if recent.head.size:
            self.seal(compact=False)
        if not recent.ordered_steps:
            self.version = next_version()
        recent.ordered_steps = ORDERED_STEPS
        if upper is not None and upper is not self.upper and upper != self.upper:
            self.seal(compact=False)
            return self._layers_up_to(upper)
        layers = self._sorted_layers()
        if recent.tail is not None and recent.tail.size:
            late = Batch(recent.tail.view(), recent.lower, self.upper, Antichain.minimum(self.depth))
            layers = layers.with_batch(late, recent.tail.description)
        return layers

    @property
    def batches_in_order(self) -> Layers:
        """The batches with updates, oldest first, without the head and tail."""
        return self._sorted_layers()

    def lookup_target(self) -> LookupTarget:
        """Return all updates as a target of lookups."""
        if self._target is None:
            self._target = LookupTarget(self._sorted_layers(), self.recent.head, self.recent.tail)
        return self._target

    def parts(self) -> Iterator[Updates]:
        """Yield all updates in parts, in no particular order."""
        for batch in self._sorted_layers():
            yield batch.updates
        yield from self.recent.parts()

    def _sorted_layers(self) -> Layers:
        """Return the batches with updates, oldest first."""
        if self._layers is None:
            has_few_batches = self._uncombined < TINY_BATCHES and self._uncombined <= count_tiny(
                self._pending
            )
            if self._mark is not None and not has_few_batches:
                self._combine_newest(self._mark.position)
            older, newer = self._layers_before, self._newer
            if older is None:
                older, newer = Layers(), self._all_batches()
            self._drop_layers()
            self._layers = Layers((*older, *[batch for batch in newer if len(batch)]))
        return self._layers

    def _drop_layers(self) -> None:
        """Drop the cached layers: they are no longer a prefix of the batches."""
        self._layers = self._layers_before = self._target = None
        self.version = next_version()
        self._newer = []

    def _layers_up_to(self, upper: Antichain) -> Layers:
        batches = []
        for batch in self._all_batches():
            if batch.upper.precedes(upper):
                batches.append(batch)
            elif not upper.precedes(batch.lower):
                raise InternalError(f"the frontier {upper.elements} falls within a merged batch")
        return Layers(batch for batch in batches if len(batch))

    @property
    def batch_count(self) -> int:
        """Number of batches that a reader sees; the head or tail counts as one."""
        return len(self._sorted_layers()) + (self.recent.size > 0)

    @property
    def rows(self) -> int:
        """Number of updates in all batches, the head and the tail."""
        return self._count_batch_rows() + self.recent.size

    @property
    def bytes(self) -> int:
        """Bytes of all batches with their directories, of the head and tail, and of unfinished merges."""
        batches = sum(batch.nbytes for batch in self._all_batches())
        return self._tiers.unfinished_bytes + batches + self.recent.nbytes

    def add_hold(self, hold: Hold) -> None:
        """Respect a reader's frontiers while the hold lives."""
        self._holds.add(hold)
        self.version = next_version()

    def remove_hold(self, hold: Hold) -> None:
        """Stop respecting a reader's frontiers."""
        self._holds.remove(hold)
        self.version = next_version()

    @property
    def since(self) -> Antichain:
        """Frontier up to which times have been compacted."""
        return self._tiers.since

    @property
    def merged_rows(self) -> int:
        """Rows of merge work done."""
        return self._tiers.merged_rows

    @property
    def merged_upper(self) -> Antichain:
        """Frontier up to which batches may have been merged."""
        nodes = self._tiers.nodes
        return nodes[-1].upper if nodes else Antichain.minimum(self.depth)

    def finish_idle_step(self) -> bool:
        """Finish a step that made no batch and owes little merge work, else return False.

        If finished, the step is final, as after :meth:`finish_step`.
        """
        if self._pending or self.recent.is_crowded or self._owed_rows >= DEFERRED_ROWS:
            return False
        self._mark = None
        return True

    def finish_step(self) -> int:
        """Make the step final, advance the merges, and return the rows of incremental merge work.

        Each unfinished merge gets ``effort`` times the rows inserted since the last call.
        """
        tiers = self._tiers
        if self.recent.is_crowded:
            self._mark = None
            self.seal()
        elif tiers.has_begun_due_merges and not self._pending and not tiers.has_unfinished_merge:
            self._mark, self._owed_rows = None, 0
            return 0
        self._release_pending()
        inserted, self._owed_rows = self._owed_rows, 0
        spent = tiers.advance_merges(inserted)
        self._drop_replaced_layers()
        return spent

    def compact(self, fuel: int | None = None) -> bool:
        """Merge all batches into one, as far as readers' frontiers allow; return whether it is done.

        With ``fuel`` each call does about that many rows of work.
        """
        if fuel is None or not self._tiers.compacting_count:
            self._mark = None
            self.seal()
            self._release_pending()
        is_done = self._tiers.compact(fuel)
        self._drop_replaced_layers()
        return is_done

    def _drop_replaced_layers(self) -> None:
        """Drop the cached layers if merges have replaced batches."""
        if self._tiers.has_replaced_batches:
            self._tiers.has_replaced_batches = False
            self._drop_layers()

    def _release_pending(self) -> None:
        """Move pending batches to the tiers, except those that a reader's physical frontier separates."""
        if self._mark is not None and self._uncombined:
            self._combine_newest(self._mark.position)
        self._mark = None
        if not self._pending:
            return
        physical = self._holds.physical()
        if physical is self.upper:
            physical = None  # it does not separate pending batches
        count = len(self._pending)
        if physical is not None:
            ready = (batch.upper.precedes(physical) for batch in self._pending)
            count = next((position for position, is_ready in enumerate(ready) if not is_ready), count)
        self._tiers.add(self._pending[:count])
        del self._pending[:count]


class TraceHandle:
    """A reader's claim: to read at times in advance of ``logical`` and to cut from ``physical`` on.

    Both frontiers only advance; advancing them lets the spine compact times and merge batches. A handle
    that is closed or dropped restricts nothing. Handles own the spine: it is freed with the last of
    them.
    """

    __slots__ = ("_hold", "_spine")

    def __init__(self, spine: Spine) -> None:
        self._open(spine, spine.since, spine.merged_upper)

    def _open(self, spine: Spine, logical: Antichain, physical: Antichain) -> None:
        self._spine: Spine | None = spine
        self._hold = Hold(logical, physical)
        spine.add_hold(self._hold)

    @property
    def spine(self) -> Spine:
        """The trace.

        Raises:
            InternalError: If the handle is closed.
        """
        if self._spine is None:
            raise InternalError("a closed trace handle was used")
        return self._spine

    @property
    def logical(self) -> Antichain:
        """Frontier from which reads are exact."""
        return self._hold.logical

    @property
    def physical(self) -> Antichain:
        """Frontier that no batch spans, nor does one span a later frontier at which a step ended."""
        return self._hold.physical

    def restore(self, logical: Antichain, physical: Antichain) -> None:
        """Set the frontiers of the handle that this one replaces."""
        self._hold.logical, self._hold.physical = logical, physical

    def advance_logical(self, frontier: Antichain) -> None:
        """Give up reads at times not in advance of ``frontier``."""
        held = self._hold.logical
        if held is not frontier and not held.precedes(frontier):
            raise InternalError(
                f"a logical frontier cannot go back from {self.logical.elements} to {frontier.elements}"
            )
        self._hold.logical = frontier

    def advance_physical(self, frontier: Antichain) -> None:
        """Give up cuts at frontiers before ``frontier``."""
        held = self._hold.physical
        if held is not frontier and not held.precedes(frontier):
            raise InternalError(
                f"a physical frontier cannot go back from {self.physical.elements} to {frontier.elements}"
            )
        self._hold.physical = frontier

    def advance_physical_to_upper(self) -> None:
        """Give up cuts anywhere but at the trace's upper frontier."""
        if self._spine is None:
            raise InternalError("a closed trace handle was used")
        self._hold.physical = self._spine.upper

    def clone(self) -> "TraceHandle":
        """Return another handle with the same frontiers."""
        handle = TraceHandle.__new__(TraceHandle)
        handle._open(self.spine, self.logical, self.physical)
        return handle

    def close(self) -> None:
        """Release the hold; closing twice is allowed."""
        if self._spine is not None:
            self._spine.remove_hold(self._hold)
            self._spine = None
