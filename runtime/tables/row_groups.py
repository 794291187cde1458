"""Row groups: the rows of a table in arrays of a fixed number of rowids, with past epochs and vacuum.

A group is ``columns int64[width, stride]``, one live bit for each row, and, after a rewrite, a map from
rowids to positions. Rowids are stable; arrays are replaced. Kernels find groups through
:attr:`RowGroups.directory` (layout: ``kernels.rowgroups``).

:class:`TablePast` supports AS OF. Rowids ascend with epochs and rows are immutable, so a table at an epoch is
its rows below a rowid that are live or were deleted later. The only cost is one rowid for each deleted row,
whose storage the vacuum keeps until the epoch of its deletion is forgotten.

:class:`Vacuum` rewrites mostly dead groups, in proportion to the number of deletions.
"""

from bisect import bisect_right
from collections import deque
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import rowgroups as kernels
from kpg.runtime.records import dataclass
from kpg.runtime.versions import replaced

Words = NDArray[np.int64]


NOTHING = np.empty(0, np.int64)


class TablePast:
    """The past of one table from the epoch ``since`` on, at which it had ``count`` rowids.

    ``born`` is the epoch after which there was a table of this form: before it nothing can be told.
    ``made``, if it is known, is the one at which the table was made: before it there were no rows.
    """

    __slots__ = ("_buried", "_counts", "_epochs", "_gone", "born", "count", "made", "since")

    def __init__(self, born: int) -> None:
        self.born = born
        self.since = born
        self.made: int | None = None
        self.count = 0
        self._epochs: list[int] = []
        self._counts: list[int] = []
        self._gone: list[Words] = []
        self._buried: list[tuple[int, list[Words]]] = []

    @property
    def rows(self) -> int:
        """Deleted rows that are remembered."""
        return sum(gone.shape[0] for gone in self._gone)

    def tells(self, epoch: int) -> bool:
        """Whether the rows at an epoch are known to whoever saw that epoch, and sees the table now."""
        return epoch >= self.since or (self.made is not None and epoch <= self.made)

    def note(self, epoch: int, inserted: Words, deleted: Words) -> None:
        """Remember the net change of an epoch, which comes after all others."""
        before = self._counts[-1] if self._counts else self.count
        self._epochs.append(epoch)
        self._counts.append(max(before, int(inserted[-1]) + 1 if inserted.shape[0] else 0))
        self._gone.append(deleted)

    def keep(self, deletions: list[Words]) -> None:
        """Have the places of rows kept that were deleted no later than in the last epoch that was noted."""
        self._buried.append((self._epochs[-1] if self._epochs else self.since, deletions))

    def forget(self, since: int) -> list[Words]:
        """Forget what was before an epoch; the deleted rows whose places may be given up."""
        gone = bisect_right(self._epochs, since)
        if gone:
            self.count = self._counts[gone - 1]
            del self._epochs[:gone], self._counts[:gone], self._gone[:gone]
        self.since = max(self.since, since)
        ready = next((i for i, (epoch, _) in enumerate(self._buried) if epoch > since), len(self._buried))
        freed = [rowids for _, deletions in self._buried[:ready] for rowids in deletions]
        del self._buried[:ready]
        return freed

    def at(self, epoch: int) -> tuple[int, list[Words]]:
        """How many rowids were given out up to an epoch, and which of them have been deleted since."""
        later = bisect_right(self._epochs, epoch)
        count = self._counts[later - 1] if later else self.count
        return count, [gone[gone < count] for gone in self._gone[later:]]


GROUP_BYTES = 1 << 23
"""A group takes as much at least, so that most of it is in large pages (numpy asks for them from 4 MB on),
with which random reads are several times as fast; rewriting one is a matter of milliseconds."""

LARGE: Final = 1 << 22
"""From so many bytes on numpy asks for large pages,"""
LARGE_PAGE: Final = 1 << 21
"""which have so many each."""

FIRST_CAPACITY: Final = 256
"""Rows that a new table has room for: a table of ten rows must not take the memory of a group."""

GROWTH: Final = 8
"""Factor by which the first group grows; memory that is not written to yet is not taken."""

FIRST_GROUPS: Final = 4
"""Groups for which the directory has room at first; it doubles."""

ONE_GROUP: Final = 62
"""Bits of a group that every rowid is in."""

NO_LINKS: Words = np.empty((2, 0), np.int64)


@dataclass(slots=True, eq=False)
class Group:
    """The arrays of a group, kept alive for the directory, which has their addresses."""

    columns: Words
    live: Words
    chart: Words | None = None
    links: Words | None = None

    @property
    def bytes(self) -> int:
        arrays = (self.columns, self.live, self.chart, self.links)
        return sum(array.nbytes for array in arrays if array is not None)


class RowGroups:
    """The groups of one table, the first of which grows until it is full.

    ``directory`` is replaced when it grows: read the attribute anew after :meth:`reserve`. ``capacity``
    is the least rowid there is no room for.
    """

    def __init__(self, width: int, bits: int | None = None) -> None:
        bits = (GROUP_BYTES // (8 * width) - 1).bit_length() if bits is None else bits
        self.width = width
        self.bits = bits
        self.capacity = 0
        self.directory: Words = np.zeros((1 + FIRST_GROUPS, kernels.FIELDS), np.int64)
        self.directory[0, 0] = bits
        self._groups: list[Group | None] = []
        self.linked = False
        self._nothing: Words | None = None

    @classmethod
    def over(cls, columns: Words) -> "RowGroups":
        """One group, never to be added to: the rows ``columns[width, n]``, all of them live."""
        made = cls(columns.shape[0], ONE_GROUP)
        columns = np.ascontiguousarray(columns)
        made.add(Group(columns, np.full(_parts(columns.shape[1]), -1, np.int64)))
        made.capacity = columns.shape[1]
        return made

    @property
    def bytes(self) -> int:
        """Memory that the groups have room in."""
        return self.directory.nbytes + sum(group.bytes for group in self._groups if group is not None)

    @property
    def held_groups(self) -> list[Group | None]:
        """The arrays of each group, None of those that have given up theirs."""
        return self._groups

    @property
    def held(self) -> int:
        """How many groups have memory."""
        return sum(group is not None for group in self._groups)

    def live(self, start: int, end: int, most: int | None = None) -> Words:
        """The live rows of ``start .. end``, ascending; they are ``most`` at most."""
        room = end - start if most is None else min(most, end - start)
        out = np.empty(room, np.int64)
        found = kernels.live_rows(self.directory, start, end, out)
        return out if found == room else out[:found].copy()

    def count_live(self, number: int) -> int:
        """How many live rows a group has."""
        group = self._groups[number]
        return 0 if group is None else int(np.bitwise_count(group.live.view(np.uint64)).sum())

    def read(self, columns: Words, rowids: Words) -> Words:
        """Columns of some rows, ``int64[columns, rowids]``; NULL for a row that has been given up."""
        out = np.empty((columns.shape[0], rowids.shape[0]), np.int64)
        kernels.gather(self.directory, columns, rowids, out)
        return out

    def stretch(self, start: int, end: int, count: int) -> Words | None:
        """The rows ``start .. end`` if they are ``count`` and all in one place, else None."""
        group = self._groups[start >> self.bits]
        if end - start != count or (end - 1) >> self.bits != start >> self.bits or group is None:
            return None
        first = start & ((1 << self.bits) - 1)
        return None if group.chart is not None else group.columns[:, first : first + count]

    def parts(self, rowids: Words) -> list[tuple[Words, Words]]:
        """Rows that are there, by group, as they lie there; nothing if they do not follow each other."""
        found, at, count = list[tuple[Words, Words]](), 0, rowids.shape[0]
        columns = np.arange(self.width)
        while at < count:
            first = int(rowids[at])
            end = min(count, at + self._rest(first))
            if int(rowids[end - 1]) - first != end - 1 - at:
                return []
            words = self.stretch(first, first + end - at, end - at)
            found.append((rowids[at:end], self.read(columns, rowids[at:end]) if words is None else words))
            at = end
        return found

    def begun(self, rowids: Words) -> list[tuple[int, int, int, Words]]:
        """Stretches of rowids, ascending, that are of a group's first rows: their places, the group's

        number, and its columns.
        """
        found, at, count = list[tuple[int, int, int, Words]](), 0, rowids.shape[0]
        while at < count:
            first = int(rowids[at])
            end = at + int(np.searchsorted(rowids[at:], first + self._rest(first)))
            number = first >> self.bits
            group = self._groups[number]
            whole = first == number << self.bits and int(rowids[end - 1]) - first == end - 1 - at
            if whole and group is not None and group.chart is None:
                found.append((at, end, number, group.columns))
            at = end
        return found

    def _rest(self, rowid: int) -> int:
        """How many rowids its group has from there on."""
        size = 1 << self.bits
        return size - rowid % size

    def reserve(self, end: int, used: int) -> None:
        """Make room for the rows below ``end``; those below ``used`` are in use and stay."""
        size = 1 << self.bits
        if self.capacity < size:
            grown = max(FIRST_CAPACITY, GROWTH * self.capacity, end)
            self._grow(min(size, grown), used)
        while self.capacity < end:
            self.add(self._new(size))
            self.capacity += size

    def link(self) -> None:
        """Give every group, from now on, two words a row for lists of equal rows."""
        if not self.linked:
            self.linked = True
            for number, group in enumerate(self._groups):
                if group is not None:
                    group.links = np.zeros((2, group.columns.shape[1]), np.int64)
                    self._describe(number, group)

    def rewrite(self, number: int, live: int) -> None:
        """Give up the places of a full group's dead rows, all of them if it has no ``live`` ones."""
        self.directory[0, kernels.REWRITTEN] = 1
        if not live:
            self._groups[number] = None
            self._describe_nothing(number)
            return
        group = self._new(live)
        group.chart = self._new_chart()
        links = NO_LINKS if group.links is None else group.links
        kernels.rewrite(self.directory, number, group.columns, group.live, group.chart, links)
        self._groups[number] = group
        self._describe(number, group)
        self.directory[1 + number, kernels.DEAD] = self.directory[1 + number, kernels.WAITING] = 0

    def _new(self, rows: int) -> Group:
        links = np.zeros((2, rows), np.int64) if self.linked else None
        return Group(_columns(self.width, rows), np.zeros(_parts(rows), np.int64), None, links)

    def _new_chart(self) -> Words:
        return np.zeros(2 * _parts(1 << self.bits), np.int64)

    def _grow(self, capacity: int, used: int) -> None:
        """Have the first group, the only one, take that many rows."""
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
        """One more group: room for its rows is the caller's to tell."""
        self._groups.append(group)
        self._make_room()
        self._describe(len(self._groups) - 1, group)

    def cut(self, number: int) -> None:
        """Take back the groups from a number on, in which no row is: their room is given up."""
        del self._groups[number:]
        self.capacity = number << self.bits

    def add_nothing(self) -> None:
        """One more group, which has given up its arrays."""
        self._groups.append(None)
        self._make_room()
        self._describe_nothing(len(self._groups) - 1)

    def _make_room(self) -> None:
        if len(self._groups) == self.directory.shape[0]:
            directory = np.zeros((2 * self.directory.shape[0], kernels.FIELDS), np.int64)
            directory[: self.directory.shape[0]] = self.directory
            self.directory = directory
            replaced()

    def _describe_nothing(self, number: int) -> None:
        if self._nothing is None:
            self._nothing = self._new_chart()
        self.directory[1 + number] = 0
        self.directory[1 + number, kernels.CHART] = self._nothing.ctypes.data

    def _describe(self, number: int, group: Group) -> None:
        entry = self.directory[1 + number]
        entry[kernels.COLUMNS] = group.columns.ctypes.data
        entry[kernels.COLUMN_STRIDE] = group.columns.shape[1]
        entry[kernels.CHART] = 0 if group.chart is None else group.chart.ctypes.data
        entry[kernels.LIVE] = group.live.ctypes.data
        entry[kernels.NEIGHBOURS] = 0 if group.links is None else group.links.ctypes.data
        entry[kernels.POSITIONS] = group.columns.shape[1]


def _columns(width: int, rows: int) -> Words:
    """Columns ``int64[width, rows]`` of a group; if they are large, they begin where a large page does.

    Memory before and behind whole large pages comes in small ones, each with a fault of its own: 512 of them
    for 8 MB, which take about as long as it takes to write the rows.
    """
    size = width * rows
    if 8 * size < LARGE:
        return np.empty((width, rows), np.int64)
    room = np.empty(size + LARGE_PAGE // 8, np.int64)
    first = -room.ctypes.data % LARGE_PAGE // 8
    return room[first : first + size].reshape(width, rows)


def _parts(rows: int) -> int:
    """Words that hold a bit for each row."""
    return (rows + 63) >> 6


PACE: Final = 2
"""Rows that may be copied for a row that is deleted. A group is rewritten when it holds fewer live rows than
dead ones, so that one would do in the long run; two keep the queue of such groups short."""


EVERYTHING: Final = 1 << 62


class Vacuum:
    """Rewrites the groups of a table that are mostly dead, a few at a time.

    Amortised, a deletion costs less than one row copied; a run copies at most ``PACE`` rows for each row
    buried since the last, and one group more. ``copied`` counts the rows, ``rewritten`` the groups.
    """

    def __init__(self, groups: RowGroups) -> None:
        self.copied = 0
        self.rewritten = 0
        self._groups = groups
        self._buried: list[Words] = []
        self._full = 0
        self._queue: deque[int] = deque()
        self._credit = 0
        self.fullness = 2
        """A group that has become full is rewritten if more than one row in so many is dead."""

    @property
    def waits(self) -> bool:
        """Whether there is something to do."""
        return bool(self._buried or self._queue)

    def bury(self, deletions: list[Words]) -> None:
        """Take note of rows whose deletion will not be undone; they may still be read until the next run."""
        self._buried += deletions

    def run(self, count: int) -> int:
        """Go on, knowing that nobody reads the buried rows any more; how many rows' places were given up.

        ``count`` rowids have been given out.
        """
        self._notice(count)
        self._credit = max(self._credit, 0)
        directory = self._groups.directory
        given_up = 0
        while self._queue and self._credit >= 0:
            number = self._queue.popleft()
            entry = directory[1 + number]
            rows, dead = int(entry[kernels.POSITIONS]), int(entry[kernels.DEAD])
            if self._groups.count_live(number) < rows - dead:
                # Dead rows that are remembered: the group waits until they are buried, too.
                entry[kernels.WAITING] = 0
                continue
            self._groups.rewrite(number, rows - dead)
            self._credit -= rows - dead
            self.copied += rows - dead
            self.rewritten += 1
            given_up += dead
        if not self._queue:
            self._credit = 0
        return given_up

    def run_through(self, count: int) -> int:
        """As :meth:`run`, of every full group that has a buried row, however many there are."""
        self._notice(count)
        for number in range(self._full):
            entry = self._groups.directory[1 + number]
            if entry[kernels.DEAD] and not entry[kernels.WAITING]:
                entry[kernels.WAITING] = 1
                self._queue.append(number)
        self._credit = EVERYTHING
        try:
            return self.run(count)
        finally:
            self._credit = 0

    def _notice(self, count: int) -> None:
        """Count the buried rows, and queue the groups that are mostly dead."""
        for rowids in self._buried:
            self._credit += PACE * rowids.shape[0]
            found = np.empty(rowids.shape[0], np.int64)
            queued = kernels.bury(self._groups.directory, self._full, rowids, found)
            self._queue.extend(found[:queued].tolist())
        self._buried.clear()
        full = count >> self._groups.bits
        for number in range(self._full, full):
            entry = self._groups.directory[1 + number]
            if self.fullness * entry[kernels.DEAD] > entry[kernels.POSITIONS]:
                entry[kernels.WAITING] = 1
                self._queue.append(number)
        self._full = full
