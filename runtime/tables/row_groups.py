"""Row groups: the rows of a table in arrays of a fixed number of rowids, with history and vacuum.

A group is ``columns int64[width, stride]``, one live bit for each row, and, after a rewrite, a map
from rowids to positions. Rowids are stable; arrays are replaced. Kernels find groups through
:attr:`RowGroups.directory` (layout: ``runtime.kernels.rowgroups``).

:class:`TableHistory` supports AS OF. Rowids ascend with epochs and rows are immutable, so a table
at an epoch is its rows below a rowid that are live or were deleted later. The only cost is one
rowid for each deleted row, whose storage the vacuum keeps until the history of its deletion is
dropped.

:class:`Vacuum` rewrites mostly dead groups, in proportion to the number of deletions.
"""

from bisect import bisect_right
from collections import deque
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import rowgroups as kernels
from kpg.runtime.records import dataclass
from kpg.runtime.versions import next_version

Words = NDArray[np.int64]


NOTHING = np.empty(0, np.int64)


class TableHistory:
    """History of one table from the epoch ``since`` on, at which it had ``count`` rowids.

    ``defined_at`` is the epoch from which the table has its present definition; its earlier contents
    are unknown. ``created_at``, if known, is the epoch at which it was created; at that epoch and
    before it had no rows.
    """

    __slots__ = ("_counts", "_deleted", "_epochs", "_retained", "count", "created_at", "defined_at", "since")

    def __init__(self, defined_at: int) -> None:
        self.defined_at = defined_at
        self.since = defined_at
        self.created_at: int | None = None
        self.count = 0
        self._epochs: list[int] = []
        self._counts: list[int] = []
        self._deleted: list[Words] = []
        self._retained: list[tuple[int, list[Words]]] = []

    @property
    def rows(self) -> int:
        """Number of deleted rows in the history."""
        return sum(rowids.shape[0] for rowids in self._deleted)

    def is_known_at(self, epoch: int) -> bool:
        """Return whether the rows at an epoch are known."""
        return epoch >= self.since or (self.created_at is not None and epoch <= self.created_at)

    def record_epoch(self, epoch: int, inserted: Words, deleted: Words) -> None:
        """Record the net change of an epoch, which is later than all recorded ones."""
        before = self._counts[-1] if self._counts else self.count
        self._epochs.append(epoch)
        self._counts.append(max(before, int(inserted[-1]) + 1 if inserted.shape[0] else 0))
        self._deleted.append(deleted)

    def retain(self, deletions: list[Words]) -> None:
        """Retain the storage of rows that were deleted no later than in the last recorded epoch."""
        self._retained.append((self._epochs[-1] if self._epochs else self.since, deletions))

    def drop_before(self, since: int) -> list[Words]:
        """Drop the history before an epoch and return the deleted rows whose storage can be freed."""
        dropped = bisect_right(self._epochs, since)
        if dropped:
            self.count = self._counts[dropped - 1]
            del self._epochs[:dropped], self._counts[:dropped], self._deleted[:dropped]
        self.since = max(self.since, since)
        ready = next((i for i, (epoch, _) in enumerate(self._retained) if epoch > since), len(self._retained))
        freed = [rowids for _, deletions in self._retained[:ready] for rowids in deletions]
        del self._retained[:ready]
        return freed

    def state_at(self, epoch: int) -> tuple[int, list[Words]]:
        """Return the number of rowids at an epoch, and which of them have been deleted since."""
        later = bisect_right(self._epochs, epoch)
        count = self._counts[later - 1] if later else self.count
        return count, [rowids[rowids < count] for rowids in self._deleted[later:]]


GROUP_BYTES = 1 << 23
"""Minimum size of a group, so that most of it is in large pages (numpy requests them from 4 MB on).

Random reads are several times as fast in large pages. Rewriting a group takes milliseconds.
"""

LARGE_PAGES_FROM: Final = 1 << 22
"""Size in bytes from which numpy requests large pages."""
LARGE_PAGE: Final = 1 << 21
"""Bytes of a large page."""

FIRST_CAPACITY: Final = 256
"""Rows for which a new table has room: a small table must not take the memory of a group."""

GROWTH: Final = 8
"""Factor by which the first group grows; the system allocates memory only when it is written to."""

FIRST_GROUPS: Final = 4
"""Groups for which the directory has room at first; it doubles."""

ONE_GROUP: Final = 62
"""Bits of rowids in a group that covers all rowids."""

NO_LINKS: Words = np.empty((2, 0), np.int64)


@dataclass(slots=True, eq=False)
class Group:
    """Arrays of a group. The directory has only their addresses; this object keeps them alive."""

    columns: Words
    live: Words
    chart: Words | None = None
    links: Words | None = None

    @property
    def bytes(self) -> int:
        arrays = (self.columns, self.live, self.chart, self.links)
        return sum(array.nbytes for array in arrays if array is not None)


class RowGroups:
    """Groups of one table; the first one grows until it is full.

    ``directory`` is replaced when it grows: read the attribute again after :meth:`reserve`.
    ``capacity`` is the least rowid without room.
    """

    def __init__(self, width: int, bits: int | None = None) -> None:
        bits = (GROUP_BYTES // (8 * width) - 1).bit_length() if bits is None else bits
        self.width = width
        self.bits = bits
        self.capacity = 0
        self.directory: Words = np.zeros((1 + FIRST_GROUPS, kernels.FIELDS), np.int64)
        self.directory[0, 0] = bits
        self._groups: list[Group | None] = []
        self.has_links = False
        self._freed_chart: Words | None = None

    @classmethod
    def from_columns(cls, columns: Words) -> "RowGroups":
        """Return a single group that cannot grow, with the rows ``columns[width, n]``, all live."""
        groups = cls(columns.shape[0], ONE_GROUP)
        columns = np.ascontiguousarray(columns)
        groups.add(Group(columns, np.full(_bitmap_words(columns.shape[1]), -1, np.int64)))
        groups.capacity = columns.shape[1]
        return groups

    @property
    def bytes(self) -> int:
        """Bytes of the directory and all groups, including unused room."""
        return self.directory.nbytes + sum(group.bytes for group in self._groups if group is not None)

    @property
    def groups(self) -> list[Group | None]:
        """Arrays by group; None for freed groups."""
        return self._groups

    @property
    def allocated_groups(self) -> int:
        """Number of groups with memory."""
        return sum(group is not None for group in self._groups)

    def live(self, start: int, end: int, limit: int | None = None) -> Words:
        """Return the live rows of ``start .. end``, ascending; ``limit`` bounds their number."""
        room = end - start if limit is None else min(limit, end - start)
        out = np.empty(room, np.int64)
        count = kernels.live_rows(self.directory, start, end, out)
        return out if count == room else out[:count].copy()

    def count_live(self, number: int) -> int:
        """Return the number of live rows of a group."""
        group = self._groups[number]
        return 0 if group is None else int(np.bitwise_count(group.live.view(np.uint64)).sum())

    def read(self, columns: Words, rowids: Words) -> Words:
        """Return columns of rows, ``int64[columns, rowids]``; NULL for a freed row."""
        out = np.empty((columns.shape[0], rowids.shape[0]), np.int64)
        kernels.gather(self.directory, columns, rowids, out)
        return out

    def contiguous_rows(self, start: int, end: int, count: int) -> Words | None:
        """Return a view of rows ``start .. end`` if they are ``count`` contiguous rows, else None."""
        group = self._groups[start >> self.bits]
        if end - start != count or (end - 1) >> self.bits != start >> self.bits or group is None:
            return None
        first = start & ((1 << self.bits) - 1)
        return None if group.chart is not None else group.columns[:, first : first + count]

    def parts(self, rowids: Words) -> list[tuple[Words, Words]]:
        """Return live rows with consecutive rowids by group, as views if possible; [] if there are gaps."""
        parts, at, count = list[tuple[Words, Words]](), 0, rowids.shape[0]
        columns = np.arange(self.width)
        while at < count:
            first = int(rowids[at])
            end = min(count, at + self._rows_to_group_end(first))
            if int(rowids[end - 1]) - first != end - 1 - at:
                return []
            words = self.contiguous_rows(first, first + end - at, end - at)
            parts.append((rowids[at:end], self.read(columns, rowids[at:end]) if words is None else words))
            at = end
        return parts

    def leading_ranges(self, rowids: Words) -> list[tuple[int, int, int, Words]]:
        """Return the ranges of ascending rowids that start at the beginning of a group.

        Each is (start and end position in ``rowids``, group number, the group's columns).
        """
        ranges, at, count = list[tuple[int, int, int, Words]](), 0, rowids.shape[0]
        while at < count:
            first = int(rowids[at])
            end = at + int(np.searchsorted(rowids[at:], first + self._rows_to_group_end(first)))
            number = first >> self.bits
            group = self._groups[number]
            whole = first == number << self.bits and int(rowids[end - 1]) - first == end - 1 - at
            if whole and group is not None and group.chart is None:
                ranges.append((at, end, number, group.columns))
            at = end
        return ranges

    def _rows_to_group_end(self, rowid: int) -> int:
        """Return how many rowids the rowid's group has from there on."""
        size = 1 << self.bits
        return size - rowid % size

    def reserve(self, end: int, used: int) -> None:
        """Make room for the rows below ``end`` and keep those below ``used``."""
        size = 1 << self.bits
        if self.capacity < size:
            capacity = max(FIRST_CAPACITY, GROWTH * self.capacity, end)
            self._grow(min(size, capacity), used)
        while self.capacity < end:
            self.add(self._new(size))
            self.capacity += size

    def enable_links(self) -> None:
        """Give every group, now and later, two words per row for lists of equal rows."""
        if not self.has_links:
            self.has_links = True
            for number, group in enumerate(self._groups):
                if group is not None:
                    group.links = np.zeros((2, group.columns.shape[1]), np.int64)
                    self._describe(number, group)

    def rewrite(self, number: int, live: int) -> None:
        """Free the storage of a full group's dead rows, or the whole group if it has no ``live`` rows."""
        self.directory[0, kernels.REWRITTEN] = 1
        if not live:
            self._groups[number] = None
            self._describe_freed(number)
            return
        group = self._new(live)
        group.chart = self._new_chart()
        links = NO_LINKS if group.links is None else group.links
        kernels.rewrite(self.directory, number, group.columns, group.live, group.chart, links)
        self._groups[number] = group
        self._describe(number, group)
        self.directory[1 + number, kernels.DEAD] = self.directory[1 + number, kernels.WAITING] = 0

    def _new(self, rows: int) -> Group:
        links = np.zeros((2, rows), np.int64) if self.has_links else None
        return Group(
            _allocate_columns(self.width, rows), np.zeros(_bitmap_words(rows), np.int64), None, links
        )

    def _new_chart(self) -> Words:
        return np.zeros(2 * _bitmap_words(1 << self.bits), np.int64)

    def _grow(self, capacity: int, used: int) -> None:
        """Grow the first group, while it is the only one, to ``capacity`` rows."""
        group = self._new(capacity)
        if self._groups:
            (before,) = self._groups
            assert before is not None
            group.columns[:, :used] = before.columns[:, :used]
            group.live[: before.live.shape[0]] = before.live
            if group.links is not None and before.links is not None:
                group.links[:, :used] = before.links[:, :used]
            self._groups.clear()
        self.add(group)
        self.capacity = capacity

    def add(self, group: Group) -> None:
        """Append a group; the caller updates ``capacity``."""
        self._groups.append(group)
        self._make_room()
        self._describe(len(self._groups) - 1, group)

    def truncate(self, number: int) -> None:
        """Remove the groups from ``number`` on, which have no rows."""
        del self._groups[number:]
        self.capacity = number << self.bits

    def add_freed(self) -> None:
        """Append a group whose arrays are freed."""
        self._groups.append(None)
        self._make_room()
        self._describe_freed(len(self._groups) - 1)

    def _make_room(self) -> None:
        if len(self._groups) == self.directory.shape[0]:
            directory = np.zeros((2 * self.directory.shape[0], kernels.FIELDS), np.int64)
            directory[: self.directory.shape[0]] = self.directory
            self.directory = directory
            next_version()

    def _describe_freed(self, number: int) -> None:
        if self._freed_chart is None:
            self._freed_chart = self._new_chart()
        self.directory[1 + number] = 0
        self.directory[1 + number, kernels.CHART] = self._freed_chart.ctypes.data

    def _describe(self, number: int, group: Group) -> None:
        entry = self.directory[1 + number]
        entry[kernels.COLUMNS] = group.columns.ctypes.data
        entry[kernels.COLUMN_STRIDE] = group.columns.shape[1]
        entry[kernels.CHART] = 0 if group.chart is None else group.chart.ctypes.data
        entry[kernels.LIVE] = group.live.ctypes.data
        entry[kernels.NEIGHBOURS] = 0 if group.links is None else group.links.ctypes.data
        entry[kernels.POSITIONS] = group.columns.shape[1]


def _allocate_columns(width: int, rows: int) -> Words:
    """Return columns ``int64[width, rows]`` of a group; large ones start at the boundary of a large page.

    Memory beside whole large pages comes in small ones with a page fault each: 512 of them for 8 MB,
    which take about as long as writing the rows.
    """
    size = width * rows
    if 8 * size < LARGE_PAGES_FROM:
        return np.empty((width, rows), np.int64)
    room = np.empty(size + LARGE_PAGE // 8, np.int64)
    first = -room.ctypes.data % LARGE_PAGE // 8
    return room[first : first + size].reshape(width, rows)


def _bitmap_words(rows: int) -> int:
    """Return the number of words with a bit for each row."""
    return (rows + 63) >> 6


COPIES_PER_DELETION: Final = 2
"""Rows that may be copied per deleted row.

A group is rewritten when it has fewer live rows than dead ones, so 1 would suffice in the long run;
2 keeps the queue of groups short.
"""


UNLIMITED_CREDIT: Final = 1 << 62
"""Credit that exceeds every table."""


class Vacuum:
    """Rewrites mostly dead groups of a table, a few at a time.

    Amortized, a deletion costs less than copying one row. A run copies at most ``COPIES_PER_DELETION``
    rows per row deleted since the last one, plus one group. ``copied_rows`` and ``rewritten_groups`` count
    the work.
    """

    def __init__(self, groups: RowGroups) -> None:
        self.copied_rows = 0
        self.rewritten_groups = 0
        self._groups = groups
        self._deleted: list[Words] = []
        self._full = 0
        self._queue: deque[int] = deque()
        self._credit = 0
        self.fullness = 2
        """A full group is rewritten if more than one row in ``fullness`` is dead."""

    @property
    def has_work(self) -> bool:
        """Whether there are deletions to process or groups to rewrite."""
        return bool(self._deleted or self._queue)

    def add_deleted(self, deletions: list[Words]) -> None:
        """Add rows whose deletion is final; readers may still read them until the next run."""
        self._deleted += deletions

    def run(self, count: int) -> int:
        """Rewrite queued groups as far as the credit goes and return the number of freed rows.

        No reader may still read the deleted rows. ``count`` is the number of rowids in use.
        """
        self._queue_groups(count)
        self._credit = max(self._credit, 0)
        directory = self._groups.directory
        freed = 0
        while self._queue and self._credit >= 0:
            number = self._queue.popleft()
            entry = directory[1 + number]
            rows, dead = int(entry[kernels.POSITIONS]), int(entry[kernels.DEAD])
            if self._groups.count_live(number) < rows - dead:
                # The history retains dead rows: the group waits until these are released.
                entry[kernels.WAITING] = 0
                continue
            self._groups.rewrite(number, rows - dead)
            self._credit -= rows - dead
            self.copied_rows += rows - dead
            self.rewritten_groups += 1
            freed += dead
        if not self._queue:
            self._credit = 0
        return freed

    def run_all(self, count: int) -> int:
        """Rewrite all full groups with dead rows that can be freed; return the number of freed rows."""
        self._queue_groups(count)
        for number in range(self._full):
            entry = self._groups.directory[1 + number]
            if entry[kernels.DEAD] and not entry[kernels.WAITING]:
                entry[kernels.WAITING] = 1
                self._queue.append(number)
        self._credit = UNLIMITED_CREDIT
        try:
            return self.run(count)
        finally:
            self._credit = 0

    def _queue_groups(self, count: int) -> None:
        """Count the deleted rows and queue the groups that are mostly dead."""
        for rowids in self._deleted:
            self._credit += COPIES_PER_DELETION * rowids.shape[0]
            numbers = np.empty(rowids.shape[0], np.int64)
            queued = kernels.bury(self._groups.directory, self._full, rowids, numbers)
            self._queue.extend(numbers[:queued].tolist())
        self._deleted.clear()
        full = count >> self._groups.bits
        for number in range(self._full, full):
            entry = self._groups.directory[1 + number]
            if self.fullness * entry[kernels.DEAD] > entry[kernels.POSITIONS]:
                entry[kernels.WAITING] = 1
                self._queue.append(number)
        self._full = full
