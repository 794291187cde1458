"""The newest updates of a trace, which follow all its batches: an unsorted head or a sorted tail.

Small steps append here, so that a step costs only its own rows. One of the two is in use at a time.
When it is large it is *sealed* into a batch, like the batches that large steps make.

* :class:`Head`: unsorted updates. Lookups find rows by a hash of their first columns, newest first.
* :class:`Tail`: up to ``MOST_IN_TAIL`` sorted updates, for traces that are read in order. A step
  copies the tail in one call; at that size this costs less than the call, and less than making,
  searching and merging a batch.
* :class:`StepEnds`: the frontier after each step in the head or tail.
* :class:`Recent`: owns the two and decides when they are sealed.
"""

import enum
from array import array
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import head as kernels_head
from kpg.runtime.kernels import layout
from kpg.runtime.kernels import tail as kernels_tail
from kpg.runtime.kernels.head import UNFIT
from kpg.runtime.kernels.links import FEW_IN_TAIL, MOST_IN_TAIL, SMALL_FOR_TAIL, SMALL_STEP, STEPS_IN_TAIL
from kpg.runtime.progress.antichain import Antichain, Time
from kpg.runtime.trace.updates import ONE, Updates

Words = NDArray[np.int64]


NEVER_TIME: Final = 1 << 62
"""Time that represents the last frontier; times are below it (``runtime.executor.MAX_TIME``)."""


class StepEnds:
    """For each step, oldest first, the frontier after it and the number of updates then.

    With one time coordinate they are two words. A head has up to a hundred thousand of them; as objects
    they would take 25 MB and slow every garbage collection.
    """

    __slots__ = ("_sizes", "_times", "_uppers")

    def __init__(self, depth: int) -> None:
        self._sizes = array("q")
        self._times = array("q") if depth == 1 else None
        self._uppers: list[Antichain] = []

    def append(self, upper: Antichain, size: int) -> None:
        """Add the frontier after a step and the number of updates then."""
        if self._times is None:
            self._uppers.append(upper)
        else:
            elements = upper.elements
            self._times.append(elements[0][0] if elements else NEVER_TIME)
        self._sizes.append(size)

    def truncate(self, size: int) -> None:
        """Remove the steps after which there were more updates than ``size``."""
        count = len(self._sizes)
        while count and self._sizes[count - 1] > size:
            count -= 1
        for ends in (self._sizes, self._uppers if self._times is None else self._times):
            del ends[count:]

    def sizes_at(self, frontier: Antichain) -> list[int]:
        """Return the numbers of updates after the steps that ended at ``frontier``, in order."""
        if self._times is None:
            return [size for upper, size in zip(self._uppers, self._sizes, strict=True) if upper == frontier]
        time = frontier.elements[0][0] if frontier.elements else NEVER_TIME
        return [size for step_time, size in zip(self._times, self._sizes, strict=True) if step_time == time]

    def clear(self) -> None:
        """Remove all steps."""
        self.truncate(-1)

    @property
    def words(self) -> tuple[Words, Words] | None:
        """Times and sizes as arrays, for :meth:`adopt_words`; None for times of several coordinates."""
        if self._times is None:
            return None
        return np.array(self._times, np.int64), np.array(self._sizes, np.int64)

    def adopt_words(self, times: Words, sizes: Words) -> None:
        """Set the contents from another object's ``words``."""
        self._times, self._sizes = array("q", times.tobytes()), array("q", sizes.tobytes())

    @property
    def pairs(self) -> tuple[tuple[tuple[Time, ...], int], ...]:
        """Elements of frontiers with sizes, for :meth:`restore`; only for times of several coordinates."""
        assert self._times is None
        return tuple(zip([upper.elements for upper in self._uppers], self._sizes, strict=True))

    def restore(self, pairs: Iterable[tuple[tuple[Time, ...], int]]) -> None:
        """Set the contents from another object's ``pairs``."""
        self.clear()
        for elements, size in pairs:
            self.append(Antichain.of_minimal(elements), size)


Slots = NDArray[np.int32]

FIRST: Final = 64
"""Rows for which a head has room at first; most traces of a program's rules stay small."""

MOST: Final = 1 << 17
"""Rows at which a head is sealed.

A row then takes part in seven merges fewer than one of a batch of a thousand, and lookups see fewer
batches: steps of a thousand rows are up to a fifth faster than with a quarter of this. Sorting the
head stalls a step by 5 ms, with five columns by 7 ms.
"""


class Head:
    """Up to ``MOST`` updates of rows of ``width`` columns at times of ``depth`` coordinates.

    ``hash_columns`` is the number of leading columns that are hashed.
    """

    __slots__ = ("_arrays", "_room", "address", "description", "hash_columns", "size")

    def __init__(self, width: int, depth: int, hash_columns: int) -> None:
        self.description: Words = np.zeros(layout.LATEST + depth, np.int64)
        self.address = self.description.ctypes.data
        self.description[layout.WIDTH] = width
        self.description[layout.DEPTH] = depth
        self.description[layout.TIME_STRIDE] = self.description[layout.DIFF_STRIDE] = 1
        self.hash_columns = self.description[layout.HASHED] = min(max(1, hash_columns), width)
        self.size = 0
        self._arrays: tuple[Words, Words, Words, Slots, Slots]
        self._make_room(FIRST)

    def __len__(self) -> int:
        return self.size

    def _make_room(self, room: int) -> None:
        """Allocate arrays for ``room`` rows, a power of two, and copy the existing rows."""
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
        self._set_arrays(data, time, diff)

    def _set_arrays(self, data: Words, time: Words, diff: Words) -> None:
        """Use these arrays, with the rows that they hold."""
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
        kernels_head.rehash(description)

    def adopt_arrays(self, data: Words, time: Words, diff: Words, size: int) -> None:
        """Use the arrays of another head, whose first ``size`` rows are in use.

        The caller sets the number of diffs other than 1 and the latest time.
        """
        self.size = self.description[layout.ROWS] = size
        self._set_arrays(data, time, diff)

    @property
    def arrays(self) -> tuple[Words, Words, Words]:
        """Rows, times and diffs, including unused room."""
        return self._arrays[:3]

    def append(self, updates: Updates) -> int:
        """Add updates and return ``kernels_head.FINE``, or why sorted batches would make lookups cheaper."""
        size = self.size + updates.data.shape[1]
        if size > self._room:
            self._make_room(1 << (size - 1).bit_length())
        self.size = size
        verdict: int = kernels_head.append(updates.data, updates.time, updates.diff, self.description)
        return verdict

    def hash_prefix(self, columns: int) -> None:
        """Hash few enough leading columns for lookups by ``columns`` columns or more."""
        if 0 < columns < self.hash_columns:
            self.hash_columns = self.description[layout.HASHED] = columns
            kernels_head.rehash(self.description)

    def truncate(self, size: int) -> None:
        """Remove all updates but the first ``size``."""
        kernels_head.truncate(self.description, size)
        self.size = size

    def clear(self) -> None:
        """Remove all updates and reset the costs of lookups."""
        description = self.description
        description[layout.ROWS] = description[layout.COUNTS] = 0
        description[layout.PROBES] = description[layout.VISITED] = description[layout.VAIN] = 0
        self._arrays[3].fill(0)
        self.size = 0

    def updates(self, first: int = 0, last: int | None = None) -> Updates:
        """Return a copy of the updates from position ``first`` to ``last``, in order of arrival."""
        data, time, diff = self._arrays[:3]
        last = self.size if last is None else last
        counts = diff[first:last].copy() if self.description[layout.COUNTS] else ONE
        return Updates(data[:, first:last].copy(), time[:, first:last].copy(), counts)

    @property
    def has_counts(self) -> bool:
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
        """Addresses of the arrays of the unused side."""
        # The two sides alternate: an insertion writes to the unused one. Each has data, times, diffs.
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
        """Add the sorted updates of a step or round, all at one later time; there must be room."""
        kernels_tail.insert(updates.data, updates.time, updates.diff, self.description, self.spare)

    @property
    def size(self) -> int:
        """Number of updates."""
        return int(self.description[layout.ROWS])

    def clear(self) -> None:
        """Remove all updates."""
        self.description[layout.ROWS] = self.description[layout.STRIDE] = 0

    def view(self) -> Updates:
        """Return the updates without a copy; valid until the step after the next."""
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
        """Return a copy of the updates."""
        view = self.view()
        return Updates(view.data.copy(), view.time.copy(), view.diff.copy(), ordered=True)

    @property
    def nbytes(self) -> int:
        """Bytes of both sides."""
        return sum(array.nbytes for side in self._sides for array in side)


ORDERED_STEPS: Final = 64
"""Steps that bypass the head after a reader has read the trace in order."""

CHURN_ROWS: Final = 64
"""Rows from which a head with retractions is sealed if it outweighs all batches, as they may cancel.

The same holds for a loop's tail.
"""

OUTWEIGH_FACTOR: Final = 6
"""A head outweighs the batches when it has this many times their rows.

With 1, a thousand rows that all change in fourteen steps take a tenth longer, with 3 a twentieth.
Loops use 1: they read a group at many times.
"""

LARGE_HEAD_ROWS: Final = 1 << 13
"""Rows from which a head is sealed at twice the rows of its batches.

Merging a row costs little at this size, and cancelled rows do not stay long.
"""

MAX_TAIL_ROWS: Final = MOST_IN_TAIL
"""Updates from which a tail is sealed. It has memory for ``MOST_IN_TAIL``, which kernels write to."""


def max_tail_rows(count: int) -> int:
    """Return how many updates a tail may have when steps bring ``count`` each."""
    return min(max(FEW_IN_TAIL, STEPS_IN_TAIL * count), MAX_TAIL_ROWS)


class Destination(enum.Enum):
    """Where the updates of a step go."""

    HEAD = enum.auto()
    TAIL = enum.auto()
    BATCH = enum.auto()


class Piece(NamedTuple):
    """Updates that become one batch, up to ``upper``; ``final`` if no rollback can remove them."""

    updates: Updates
    upper: Antichain
    final: bool


class Mark(NamedTuple):
    """State of a trace when it was marked; ``position`` is an index into the pending batches."""

    number: int
    position: int
    upper: Antichain
    inserted_rows: int
    owed_rows: int
    head_rows: int
    """Rows in the head."""


class Recent:
    """The head and the tail of a trace, and the decision when to seal them."""

    __slots__ = (
        "_depth",
        "_outweigh_factor",
        "_width",
        "ends",
        "head",
        "is_crowded",
        "lower",
        "next_churn_check",
        "ordered_steps",
        "tail",
    )

    def __init__(self, width: int, depth: int, key: int) -> None:
        self._width, self._depth = width, depth
        self.head = Head(width, depth, key)
        self.tail: Tail | None = None
        self.lower = Antichain.minimum(depth)
        """Lower frontier of the updates here."""
        self.is_crowded = False
        """Whether to seal after the step."""
        self.ordered_steps = 0
        """Remaining steps that bypass the head."""
        self.ends = StepEnds(depth)
        self.next_churn_check = CHURN_ROWS
        self._outweigh_factor = OUTWEIGH_FACTOR if depth == 1 else 1

    @property
    def size(self) -> int:
        """Number of updates in the head and the tail."""
        return self.head.size if self.tail is None else self.head.size + self.tail.size

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.head.nbytes + (self.tail.nbytes if self.tail is not None else 0)

    def choose_destination(self, count: int) -> Destination:
        """Return where ``count`` updates of a step go if there is one reader, without checking for room."""
        if count > SMALL_STEP:
            return Destination.BATCH
        if not self.ordered_steps:
            return Destination.HEAD
        return Destination.TAIL if count <= SMALL_FOR_TAIL else Destination.BATCH

    def has_room(self, count: int) -> bool:
        """Return whether the destination has room for ``count`` more updates."""
        if self.ordered_steps:
            return self.tail is None or self.tail.size + count <= max_tail_rows(count)
        return self.head.size + count <= MOST

    @property
    def is_mixed(self) -> bool:
        """Whether there are updates in the head or tail that is not the current destination."""
        if self.ordered_steps:
            return self.head.size > 0
        return self.tail is not None and self.tail.size > 0

    def add(
        self, updates: Updates, before: Antichain, upper: Antichain, batch_rows: Callable[[], int]
    ) -> None:
        """Add a small step's updates, from ``before`` up to ``upper``; ``batch_rows`` counts rows in batches.

        Updates for the tail, which must exist, must be consolidated and have a single time.
        """
        if not self.ordered_steps:
            verdict = self.head.append(updates)
            self.record_append(len(updates), verdict, before, upper, batch_rows)
            return
        assert self.tail is not None
        self.tail.insert(updates)
        self.record_insert(len(updates), before, batch_rows)

    def make_tail(self) -> None:
        """Create the tail."""
        self.tail = Tail(self._width, self._depth)

    def record_append(
        self, count: int, verdict: int, before: Antichain, upper: Antichain, batch_rows: Callable[[], int]
    ) -> None:
        """Record updates that were added to the head; ``verdict`` is the result of ``Head.append``."""
        size = self.head.size
        if size == count:
            self.lower = before
        if verdict or size > self.next_churn_check:
            self.update_crowded(verdict, size, batch_rows)
        self.ends.append(upper, size)

    def update_crowded(self, verdict: int, size: int, batch_rows: Callable[[], int]) -> None:
        """Set ``is_crowded`` if sorted batches would make lookups cheaper."""
        if verdict:
            self.is_crowded = True
            if verdict == UNFIT:
                self.ordered_steps = ORDERED_STEPS
        else:
            rows = batch_rows()
            rows = min(self._outweigh_factor * rows, max(LARGE_HEAD_ROWS, 2 * rows))
            self.is_crowded = self.head.has_counts and size > rows
            self.next_churn_check = max(2 * size, rows)

    def record_insert(self, count: int, before: Antichain, batch_rows: Callable[[], int]) -> None:
        """Record ``count`` updates, from ``before`` on, that were added to the tail."""
        assert self.tail is not None
        size = self.tail.size
        if size == count:
            self.lower = before
        # Seal at the end of this step if an equal step would not fit: else that step would wait for it.
        if size + count > max_tail_rows(count):
            self.is_crowded = True
        elif self._depth > 1 and size > self.next_churn_check:
            rows = batch_rows()
            self.is_crowded = size > rows
            self.next_churn_check = max(2 * size, rows)

    def truncate(self, head_rows: int, upper: Antichain) -> None:
        """Remove all but ``head_rows`` updates from the head, and those from ``upper`` on from the tail."""
        if self.head.size > head_rows:
            self.head.truncate(head_rows)
            self.ends.truncate(head_rows)
        if self.tail is not None and self.tail.size:
            before, _ = self._split(upper)
            self.tail.clear()
            self.tail.insert(before)

    def pieces(
        self, upper: Antichain, head_rows: int | None, marked: Antichain, physicals: Iterable[Antichain]
    ) -> Iterator[Piece]:
        """Yield all updates, oldest first, cut where batches end, and clear the head and tail.

        They extend up to ``upper``. ``head_rows``, if not None, counts the updates in the head before the
        mark, which is at ``marked``.
        """
        if self.tail is not None and self.tail.size:
            final, rest = (self.tail.updates(), None) if head_rows is None else self._split(marked)
            if len(final):
                yield Piece(final, upper if rest is None or not len(rest) else marked, True)
            if rest is not None and len(rest):
                yield Piece(rest, upper, False)
            self.tail.clear()
        size, first = self.head.size, 0
        if size:
            for end, last in self._cuts(size, upper, head_rows, marked, physicals):
                yield Piece(self.head.updates(first, last), end, head_rows is None or last <= head_rows)
                first = last
            self.head.clear()
        self.ends.clear()
        self.is_crowded = False
        self.next_churn_check = CHURN_ROWS

    def _cuts(
        self,
        size: int,
        upper: Antichain,
        head_rows: int | None,
        marked: Antichain,
        physicals: Iterable[Antichain],
    ) -> list[tuple[Antichain, int]]:
        """Return the ends of the head's batches, in order: mark, readers' physical frontiers, end."""
        cuts = [(upper, size)]
        if head_rows is not None and 0 < head_rows < size:
            cuts.append((marked, head_rows))
        for physical in physicals:
            if all(physical is not end and physical != end for end, _ in cuts):
                cuts += [(physical, last) for last in self.ends.sizes_at(physical) if 0 < last < size]
        return sorted(cuts, key=itemgetter(1))

    def _split(self, marked: Antichain) -> tuple[Updates, Updates]:
        """Return the tail's updates before a frontier where a step ends, and the others."""
        assert self.tail is not None
        updates = self.tail.updates()
        late = updates.time[0] >= marked.elements[-1][0]
        return updates.take(np.flatnonzero(~late)), updates.take(np.flatnonzero(late))

    def parts(self) -> Iterator[Updates]:
        """Yield copies of all updates."""
        if self.tail is not None and self.tail.size:
            yield self.tail.updates()
        if self.head.size:
            yield self.head.updates()
