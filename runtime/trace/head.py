"""The newest updates of a trace, which follow all its batches: an unsorted head or a sorted tail.

Small steps append here, so that a step costs only its own rows. One of the two is in use at a time. When it
is large it is *sealed* into a batch, like the batches that large steps make.

* :class:`Head`: unsorted updates. Lookups find rows by a hash of their first columns, newest first.
* :class:`Tail`: up to ``MOST_IN_TAIL`` sorted updates, for traces that are read in order. A step copies the
  tail in one call; at that size this costs less than the call, and less than making, searching and merging a
  batch.
* :class:`Ends`: the frontier after each step in the head or tail.
* :class:`Recent`: owns the two and decides when they are sealed.
"""

import enum
from array import array
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import head as kernels
from kpg.runtime.kernels import layout
from kpg.runtime.kernels import tail as kernels_tail
from kpg.runtime.kernels.head import UNFIT
from kpg.runtime.kernels.links import FEW_IN_TAIL, MOST_IN_TAIL, SMALL_FOR_TAIL, SMALL_STEP, STEPS_IN_TAIL
from kpg.runtime.progress.antichain import Antichain, Time
from kpg.runtime.trace.updates import ONE, Updates

Words = NDArray[np.int64]


NEVER: Final = 1 << 62
"""Stands for the last frontier; times are below it (``runtime.executor.MAX_TIME``)."""


class Ends:
    """For each step, oldest first, the frontier that it led to and how many updates there were then.

    They are two words where times have one coordinate: a head has up to a hundred thousand of them, which as
    objects take 25 MB, and which every collection of garbage looks at.
    """

    __slots__ = ("_sizes", "_times", "_uppers")

    def __init__(self, depth: int) -> None:
        self._sizes = array("q")
        self._times = array("q") if depth == 1 else None
        self._uppers: list[Antichain] = []

    def append(self, upper: Antichain, size: int) -> None:
        """A step led to a frontier, and to so many updates."""
        if self._times is None:
            self._uppers.append(upper)
        else:
            elements = upper.elements
            self._times.append(elements[0][0] if elements else NEVER)
        self._sizes.append(size)

    def truncate(self, held: int) -> None:
        """Forget the steps that led to more updates."""
        count = len(self._sizes)
        while count and self._sizes[count - 1] > held:
            count -= 1
        for ends in (self._sizes, self._uppers if self._times is None else self._times):
            del ends[count:]

    def at(self, frontier: Antichain) -> list[int]:
        """How many updates there were after steps that led to a frontier, in order."""
        if self._times is None:
            return [size for upper, size in zip(self._uppers, self._sizes, strict=True) if upper == frontier]
        time = frontier.elements[0][0] if frontier.elements else NEVER
        return [size for one, size in zip(self._times, self._sizes, strict=True) if one == time]

    def clear(self) -> None:
        """Forget all."""
        self.truncate(-1)

    @property
    def words(self) -> tuple[Words, Words] | None:
        """All of it as times and sizes, for :meth:`adopt`; None if times have more coordinates than one."""
        if self._times is None:
            return None
        return np.array(self._times, np.int64), np.array(self._sizes, np.int64)

    def adopt(self, times: Words, sizes: Words) -> None:
        """Have what another one had as words."""
        self._times, self._sizes = array("q", times.tobytes()), array("q", sizes.tobytes())

    @property
    def pairs(self) -> tuple[tuple[tuple[Time, ...], int], ...]:
        """All of it, for :meth:`restore`: elements of frontiers, and sizes; no times with one coordinate."""
        return tuple(zip([upper.elements for upper in self._uppers], self._sizes, strict=True))

    def restore(self, pairs: Iterable[tuple[tuple[Time, ...], int]]) -> None:
        """Have what another one had as pairs."""
        self.clear()
        for elements, size in pairs:
            self.append(Antichain.known(elements), size)


Slots = NDArray[np.int32]

FIRST: Final = 64
"""Rows for which there is room at first: most traces of a program's rules stay small."""

MOST: Final = 1 << 17
"""Rows at which a head is sealed. A row then goes through seven merges less than one that came in a batch of
a thousand, and look-ups see fewer batches: steps of a thousand rows are up to a fifth faster than with a
quarter of it. Sorting it stalls a step by 5 ms, with five columns by 7, once in so many rows."""


class Head:
    """Up to ``MOST`` updates of rows of ``width`` columns at times of ``depth`` coordinates."""

    __slots__ = ("_arrays", "_room", "address", "description", "hashed", "size")

    def __init__(self, width: int, depth: int, hashed: int) -> None:
        self.description: Words = np.zeros(layout.LATEST + depth, np.int64)
        self.address = self.description.ctypes.data
        self.description[layout.WIDTH] = width
        self.description[layout.DEPTH] = depth
        self.description[layout.TIME_STRIDE] = self.description[layout.DIFF_STRIDE] = 1
        self.hashed = self.description[layout.HASHED] = min(max(1, hashed), width)
        self.size = 0
        self._arrays: tuple[Words, Words, Words, Slots, Slots]
        self._make_room(FIRST)

    def __len__(self) -> int:
        return self.size

    def _make_room(self, room: int) -> None:
        """Arrays for so many rows, a power of two, with those that there are."""
        description, size = self.description, self.size
        data = np.empty((description[layout.WIDTH], room), np.int64)
        time = np.empty((description[layout.DEPTH], room), np.int64)
        diff = np.empty(room, np.int64)
        if size:
            old_data, old_time, old_diff = self._arrays[:3]
            data[:, :size], time[:, :size], diff[:size] = (
                old_data[:, :size],
                old_time[:, :size],
                old_diff[:size],
            )
        self._take(data, time, diff)

    def _take(self, data: Words, time: Words, diff: Words) -> None:
        """Have these arrays, with the rows that they hold."""
        description, room = self.description, diff.shape[0]
        slots, links = np.empty(room, np.int32), np.empty(room, np.int32)
        self._arrays = data, time, diff, slots, links
        self._room = room
        description[layout.DATA] = data.ctypes.data
        description[layout.TIME] = time.ctypes.data
        description[layout.DIFF] = diff.ctypes.data
        description[layout.SLOTS] = slots.ctypes.data
        description[layout.LINKS] = links.ctypes.data
        description[layout.MASK] = room - 1
        description[layout.STRIDE] = room
        kernels.rehash(description)

    def adopt(self, data: Words, time: Words, diff: Words, size: int) -> None:
        """Have these arrays, of which the first ``size`` rows are in use, as another head had them.

        Their number of diffs other than 1 and their latest time are for the caller to set.
        """
        self.size = self.description[layout.ROWS] = size
        self._take(data, time, diff)

    @property
    def arrays(self) -> tuple[Words, Words, Words]:
        """Rows, times and diffs, with room for more."""
        return self._arrays[:3]

    def append(self, updates: Updates) -> int:
        """Take updates; ``kernels.FINE``, or why look-ups would have been cheaper in sorted batches."""
        size = self.size + updates.data.shape[1]
        if size > self._room:
            self._make_room(1 << (size - 1).bit_length())
        self.size = size
        verdict: int = kernels.append(updates.data, updates.time, updates.diff, self.description)
        return verdict

    def serve(self, columns: int) -> None:
        """Have look-ups by so many columns, or more, find their rows by a hash."""
        if 0 < columns < self.hashed:
            self.hashed = self.description[layout.HASHED] = columns
            kernels.rehash(self.description)

    def truncate(self, size: int) -> None:
        """Take back all updates but the first ``size``."""
        kernels.truncate(self.description, size)
        self.size = size

    def clear(self) -> None:
        """Forget all updates, and what look-ups cost."""
        description = self.description
        description[layout.ROWS] = description[layout.COUNTS] = 0
        description[layout.PROBES] = description[layout.VISITED] = description[layout.VAIN] = 0
        self._arrays[3].fill(0)
        self.size = 0

    def updates(self, first: int = 0, last: int | None = None) -> Updates:
        """A copy of the updates from position ``first`` to ``last``, in the order in which they came."""
        data, time, diff = self._arrays[:3]
        last = self.size if last is None else last
        counts = diff[first:last].copy() if self.description[layout.COUNTS] else ONE
        return Updates(data[:, first:last].copy(), time[:, first:last].copy(), counts)

    @property
    def counts(self) -> bool:
        """Whether there is a diff other than 1."""
        return bool(self.description[layout.COUNTS])

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in self._arrays)


class Tail:
    """Up to ``MOST_IN_TAIL`` updates of rows of ``width`` columns, sorted by row and time."""

    __slots__ = ("_depth", "_first", "_sides", "_width", "address", "description", "spare")

    def __init__(self, width: int, depth: int) -> None:
        self.description: Words = np.zeros(layout.LATEST + depth, np.int64)
        self.address = self.description.ctypes.data
        self.spare: Words = np.empty(3, np.int64)
        """The addresses of the side that is not the present one."""
        # Each side: data, times, diffs.
        self._width, self._depth = width, depth
        self._sides = [
            tuple(np.empty(rows * MOST_IN_TAIL, np.int64) for rows in (width, depth, 1)) for _ in range(2)
        ]
        description = self.description
        description[layout.WIDTH], description[layout.DEPTH] = width, depth
        description[layout.TIME_STRIDE] = description[layout.DIFF_STRIDE] = 1
        description[layout.ENOUGH] = np.iinfo(np.int64).max
        places = (layout.DATA, layout.TIME, layout.DIFF)
        for i, place in enumerate(places):
            description[place], self.spare[i] = (side[i].ctypes.data for side in self._sides)
        self._first = description.item(layout.DIFF)

    def insert(self, updates: Updates) -> None:
        """Take a step's or a round's updates, for which there must be room: of one later time, and sorted."""
        kernels_tail.insert(updates.data, updates.time, updates.diff, self.description, self.spare)

    @property
    def size(self) -> int:
        """How many updates there are."""
        return int(self.description[layout.ROWS])

    def clear(self) -> None:
        """Forget all updates."""
        self.description[layout.ROWS] = self.description[layout.STRIDE] = 0

    def view(self) -> Updates:
        """The updates where they are: for use before the step after next."""
        present, rows = self.description[layout.DIFF], self.size
        data, time, diff = self._sides[0 if present == self._first else 1]
        depth, width = self._depth, self._width
        return Updates(
            data[: width * rows].reshape(width, rows),
            time[: depth * rows].reshape(depth, rows),
            diff[:rows],
            True,
        )

    def updates(self) -> Updates:
        """A copy of the updates."""
        view = self.view()
        return Updates(view.data.copy(), view.time.copy(), view.diff.copy(), ordered=True)

    @property
    def nbytes(self) -> int:
        """Bytes of both sides."""
        return sum(array.nbytes for side in self._sides for array in side)


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

MOST_BEFORE_SEAL: Final = MOST_IN_TAIL
"""From so many updates on a tail is sealed. It has memory for ``MOST_IN_TAIL``, which kernels write to."""


def room_in_tail(count: int) -> int:
    """How many updates a tail may have that takes steps of so many: few, and what some of them bring."""
    return min(max(FEW_IN_TAIL, STEPS_IN_TAIL * count), MOST_BEFORE_SEAL)


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
