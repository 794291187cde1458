"""What came to a trace lately, in small steps: in its head, or, for those that read in order, in its tail.

One of the two is in use at a time. Both come after all batches of the trace.
"""

import enum
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np

from kpg.runtime.kernels.head import UNFIT
from kpg.runtime.kernels.links import FEW_IN_TAIL, MOST_IN_TAIL, SMALL_FOR_TAIL, SMALL_STEP, STEPS_IN_TAIL
from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.trace.ends import Ends
from kpg.runtime.trace.head import MOST, Head
from kpg.runtime.trace.tail import Tail
from kpg.runtime.trace.updates import Updates

DIRECT: Final = 64
"""So many steps go to the tail, or make a batch each, once somebody has read the trace in order."""

CHURN: Final = 64
"""A head of more rows is sealed once it outweighs all batches, if rows went: they may cancel. So is a loop's
tail."""

OUTWEIGHING: Final = 6
"""So many times the rows of the batches: a thousand rows all of which change in fourteen steps take a tenth
longer with as many as they have, and a twentieth with three times. As many will do in loops: a group is read
there at many times."""

LARGE: Final = 1 << 13
"""From so many rows on in its head a trace is sealed at twice the rows of its batches: what a row costs to be
merged is little then, and what came and went is not kept for long."""


def room_in_tail(count: int) -> int:
    """How many updates a tail may have that takes steps of so many: few, and what some of them bring."""
    return min(max(FEW_IN_TAIL, STEPS_IN_TAIL * count), MOST_IN_TAIL)


class Place(enum.Enum):
    """Where the updates of a step go."""

    HEAD = enum.auto()
    TAIL = enum.auto()
    BATCH = enum.auto()


class Piece(NamedTuple):
    """Updates that make one batch, up to ``upper``; ``final`` if no rollback takes them away."""

    updates: Updates
    upper: Antichain
    final: bool


class Mark(NamedTuple):
    """What a trace was when it was marked: ``position`` among the pending batches."""

    number: int
    position: int
    upper: Antichain
    inserted_rows: int
    owed: int
    held: int
    """Rows in the head."""


class Recent:
    """The head and the tail of a trace, and when they are to be sealed."""

    __slots__ = (
        "_depth",
        "_outweighing",
        "_width",
        "churned_at",
        "crowded",
        "direct",
        "ends",
        "head",
        "lower",
        "tail",
    )

    def __init__(self, width: int, depth: int, key: int) -> None:
        self._width, self._depth = width, depth
        self.head = Head(width, depth, key)
        self.tail: Tail | None = None
        self.lower = Antichain.minimum(depth)
        """Where what is here begins."""
        self.crowded = False
        """Whether it is to be sealed after the step."""
        self.direct = 0
        """So many steps will not go to the head."""
        self.ends = Ends(depth)
        self.churned_at = CHURN
        self._outweighing = OUTWEIGHING if depth == 1 else 1

    @property
    def size(self) -> int:
        """Updates in either."""
        return self.head.size if self.tail is None else self.head.size + self.tail.size

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.head.nbytes + (self.tail.nbytes if self.tail is not None else 0)

    def place(self, count: int) -> Place:
        """Where so many updates of a step go, if nobody else reads the trace: room is not asked for."""
        if count > SMALL_STEP:
            return Place.BATCH
        if not self.direct:
            return Place.HEAD
        return Place.TAIL if count <= SMALL_FOR_TAIL else Place.BATCH

    def has_room(self, count: int) -> bool:
        """Whether so many updates more have a place where they would go."""
        if self.direct:
            return self.tail is None or self.tail.size + count <= room_in_tail(count)
        return self.head.size + count <= MOST

    @property
    def is_mixed(self) -> bool:
        """Whether there are updates where others do not go any more."""
        if self.direct:
            return self.head.size > 0
        return self.tail is not None and self.tail.size > 0

    def add(self, updates: Updates, before: Antichain, upper: Antichain, batched: Callable[[], int]) -> None:
        """Take a small step's updates, from ``before`` up to ``upper``; ``batched`` counts rows in batches.

        What goes to the tail, which there must be, must be consolidated, and all of it at one time.
        """
        if not self.direct:
            verdict = self.head.append(updates)
            self.appended(len(updates), verdict, before, upper, batched)
            return
        assert self.tail is not None
        self.tail.insert(updates)
        self.inserted(len(updates), before, batched)

    def make_tail(self) -> None:
        """Have a tail from now on."""
        self.tail = Tail(self._width, self._depth)

    def appended(
        self, count: int, verdict: int, before: Antichain, upper: Antichain, batched: Callable[[], int]
    ) -> None:
        """Take note of updates that are in the head now; ``verdict`` is what ``Head.append`` gives."""
        size = self.head.size
        if size == count:
            self.lower = before
        if verdict or size > self.churned_at:
            self.judge(verdict, size, batched)
        self.ends.append(upper, size)

    def judge(self, verdict: int, size: int, batched: Callable[[], int]) -> None:
        """Have the head be sealed if look-ups had better go through sorted batches."""
        if verdict:
            self.crowded = True
            if verdict == UNFIT:
                self.direct = DIRECT
        else:
            rows = batched()
            rows = min(self._outweighing * rows, max(LARGE, 2 * rows))
            self.crowded = self.head.counts and size > rows
            self.churned_at = max(2 * size, rows)

    def inserted(self, count: int, before: Antichain, batched: Callable[[], int]) -> None:
        """Take note of ``count`` updates, from ``before`` on, that are in the tail now."""
        assert self.tail is not None
        size = self.tail.size
        if size == count:
            self.lower = before
        # It is sealed as the step ends if another like it would not find room: else that one would wait.
        if size + count > room_in_tail(count):
            self.crowded = True
        elif self._depth > 1 and size > self.churned_at:
            rows = batched()
            self.crowded = size > rows
            self.churned_at = max(2 * size, rows)

    def truncate(self, held: int, upper: Antichain) -> None:
        """Go back to ``held`` updates in the head, and in the tail to those before ``upper``."""
        if self.head.size > held:
            self.head.truncate(held)
            self.ends.truncate(held)
        if self.tail is not None and self.tail.size:
            before, _ = self._split(upper)
            self.tail.clear()
            self.tail.insert(before)

    def pieces(
        self, upper: Antichain, held: int | None, marked: Antichain, physicals: Iterable[Antichain]
    ) -> Iterator[Piece]:
        """All updates, oldest first, cut where batches end; then nothing is here.

        They are up to ``upper``; ``held``, if not None, in the head before a mark, at ``marked``.
        """
        if self.tail is not None and self.tail.size:
            final, rest = (self.tail.updates(), None) if held is None else self._split(marked)
            if len(final):
                yield Piece(final, upper if rest is None or not len(rest) else marked, True)
            if rest is not None and len(rest):
                yield Piece(rest, upper, False)
            self.tail.clear()
        size, first = self.head.size, 0
        if size:
            for end, last in self._cuts(size, upper, held, marked, physicals):
                yield Piece(self.head.updates(first, last), end, held is None or last <= held)
                first = last
            self.head.clear()
        self.ends.clear()
        self.crowded = False
        self.churned_at = CHURN

    def _cuts(
        self,
        size: int,
        upper: Antichain,
        held: int | None,
        marked: Antichain,
        physicals: Iterable[Antichain],
    ) -> list[tuple[Antichain, int]]:
        """Where batches of the head end, in order: at the mark, at readers' physical frontiers, last."""
        cuts = [(upper, size)]
        if held is not None and 0 < held < size:
            cuts.append((marked, held))
        for physical in physicals:
            if all(physical is not end and physical != end for end, _ in cuts):
                cuts += [(physical, last) for last in self.ends.at(physical) if 0 < last < size]
        return sorted(cuts, key=itemgetter(1))

    def _split(self, marked: Antichain) -> tuple[Updates, Updates]:
        """The tail's updates before a frontier where a step ends, and the others."""
        assert self.tail is not None
        updates = self.tail.updates()
        late = updates.time[0] >= marked.elements[-1][0]
        return updates.take(np.flatnonzero(~late)), updates.take(np.flatnonzero(late))

    def parts(self) -> Iterator[Updates]:
        """Copies of all updates."""
        if self.tail is not None and self.tail.size:
            yield self.tail.updates()
        if self.head.size:
            yield self.head.updates()
