"""Shared memory of the processes of one machine: an anonymous file that each process maps whole.

The mapping reserves far more address space than is ever used; untouched pages take no memory. Nothing in it
moves, so a *place*, an offset, means the same in every process. Only the creator allocates and frees places.

* :class:`CommonGroups`: row groups that the coordinator writes and members read in place
  (:class:`SeenGroups`).
* :class:`CommonDictionary`: the text dictionary; a code means the same string in every process. Strings,
  their bounds and the hash table are shared. Interning takes a :class:`Lock`. Reading takes none, because a
  code reaches another process only after its string is stored.

The file has huge pages where :mod:`~kpg.runtime.cluster.huge_pages` gets one.
"""

import fcntl
import mmap
import os
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple, Protocol
from weakref import WeakSet, WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.cluster.huge_pages import large_file
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import OperationalError
from kpg.runtime.kernels import rowgroups as kernels
from kpg.runtime.kernels import text as kernels_text
from kpg.runtime.tables.row_groups import Group, RowGroups
from kpg.runtime.tables.table import Change, Savepoint, Table
from kpg.runtime.types import Schema

Words = NDArray[np.int64]
Bytes = NDArray[np.uint8]

PAGE: Final = 4096
BLOCK: Final = 512
"""Bytes of which the system counts what files have."""
ARENA: Final = 1 << 30
"""Where the text of the dictionary is; before it is a page for each of those that keep numbers."""
ARENA_BYTES: Final = 1 << 36
OFFSETS: Final = ARENA + ARENA_BYTES
OFFSETS_BYTES: Final = 1 << 34
SLOTS: Final = 1 << 37
"""A hash table of n bytes is as many behind it: tables of different sizes, powers of two, never overlap."""
ROWS: Final = 1 << 38
END: Final = ROWS + (1 << (4 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") - 1).bit_length())
"""Rows have room for four times what the machine has: what was given up leaves holes."""
MAP_NORESERVE: Final = 0x4000
REMOVE: Final = 9
"""``MADV_REMOVE``: pages are given back, and read as zeros."""


class At(NamedTuple):
    """Where the arrays of a group of rows are; ``chart`` is -1 if it has none. ``rows`` it has room for."""

    rows: int
    columns: int
    live: int
    chart: int


class Shown(NamedTuple):
    """Groups of a table, by its number, that are new or others than before; None: it has no rows left."""

    table: int
    bits: int
    groups: tuple[tuple[int, At | None], ...]


class Restless(Protocol):
    """Groups of rows of which members are to hear something."""

    def shown(self) -> Shown:
        """What members are to hear, which they will."""

    def unshown(self, shown: Shown) -> None:
        """They have not heard it."""


class News(NamedTuple):
    """What is told: groups, and what nobody reads once that is heard."""

    groups: tuple[Restless, ...]
    shown: tuple[Shown, ...]
    doomed: list[tuple[int, int]]


NO_NEWS: Final = News((), (), [])


class Memory:
    """The memory; only who has made it gives out and takes back places."""

    def __init__(self, files: tuple[int, int] | None = None) -> None:
        """``files`` are those of the process that has made it; OperationalError if there is none to have."""
        try:
            if files is None:
                file = large_file()
                files = os.memfd_create("kpg") if file is None else file, os.memfd_create("kpg lock")
                os.ftruncate(files[0], END)
            self.files = files
            flags = mmap.MAP_SHARED | MAP_NORESERVE
            self._map = mmap.mmap(files[0], END, flags, mmap.PROT_READ | mmap.PROT_WRITE)
        except (OSError, ValueError, AttributeError) as error:
            raise OperationalError(
                f"workers cannot have memory in common: {error}",
                hint=f"it takes Linux, and room for {END >> 30} GiB of addresses (ulimit -v)",
            ) from None
        self._bytes = np.frombuffer(self._map, np.uint8)
        self._base = int(self._bytes.ctypes.data)
        self._next = ROWS
        self._free: dict[int, list[int]] = {}
        self._readers: WeakSet[object] = WeakSet()
        self._doomed: list[tuple[int, int]] = []
        self.restless: dict[Restless, None] = {}

    @property
    def allocated(self) -> int:
        """The bytes of it that the system has given."""
        return BLOCK * os.fstat(self.files[0]).st_blocks

    def words(self, place: int, count: int) -> Words:
        """So many words at a place."""
        return self._bytes[place : place + 8 * count].view(np.int64)

    def bytes(self, place: int, count: int) -> Bytes:
        """So many bytes at a place."""
        return self._bytes[place : place + count]

    def has(self, array: "np.ndarray[Any, Any]") -> bool:
        """Whether an array is in it."""
        return 0 <= self.place(array) < END

    def place(self, array: "np.ndarray[Any, Any]") -> int:
        """Where an array is that is in it."""
        return int(array.ctypes.data) - self._base

    def take(self, size: int) -> int:
        """The place of so many bytes that nobody has, all zero."""
        size = _whole(size)
        free = self._free.get(size)
        if free:
            return free.pop()
        place, self._next = self._next, self._next + size
        if self._next > END:
            raise OperationalError(
                "there is no more room for rows that workers have in common",
                hint="delete rows, or begin anew",
            )
        return place

    def doom(self, array: "np.ndarray[Any, Any]", size: int) -> None:
        """Give up the bytes from an array on, which others may still read until they have heard of it."""
        self._doomed.append((self.place(array), _whole(size)))

    def news(self) -> News:
        """What members have not heard yet, which they will now."""
        restless, self.restless = self.restless, {}
        shown = tuple(groups.shown() for groups in restless)
        doomed, self._doomed = self._doomed, []
        return News(tuple(restless), shown, doomed)

    def unsaid(self, news: News) -> None:
        """They have not heard them."""
        for groups, shown in zip(news.groups, news.shown, strict=True):
            groups.unshown(shown)
        self._doomed += news.doomed

    def pin(self, reader: object) -> None:
        """Free nothing as long as somebody is there who reads what there was."""
        self._readers.add(reader)

    def heard(self, news: News) -> None:
        """They have: nobody reads any more what was given up before, unless it is pinned."""
        if self._readers:
            self._doomed += news.doomed
            return
        for place, size in news.doomed:
            self.clear(place, size)
            self._free.setdefault(size, []).append(place)

    def clear(self, place: int, size: int) -> None:
        """Have whole pages be zeros, and take nothing."""
        self._map.madvise(REMOVE, place, _whole(size))

    def close(self) -> None:
        """Give the files back, and what rows take; text stays readable until nobody has it."""
        if self._next > ROWS and not self._readers:
            self.clear(ROWS, self._next - ROWS)
        for file in self.files:
            os.close(file)


class Lock:
    """One process at a time; who dies gives it up, and the next sees that something is half done."""

    def __init__(self, memory: Memory, busy: Words) -> None:
        """``busy`` is a word that is 1 as long as somebody is within."""
        self._file = memory.files[1]
        self._busy = busy
        self.broken = False
        """Whether the last one within did not come to an end."""

    def __enter__(self) -> None:
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        self.broken = bool(self._busy[0])
        self._busy[0] = 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._busy[0] = int(error is not None)
        fcntl.lockf(self._file, fcntl.LOCK_UN)


def _whole(size: int) -> int:
    """In whole pages."""
    return (size + PAGE - 1) // PAGE * PAGE


class CommonGroups(RowGroups):
    """The groups of table ``number``; ``changed`` are those of which members have not heard."""

    def __init__(self, width: int, memory: Memory, number: int) -> None:
        self._memory = memory
        self.number = number
        self.changed: dict[int, None] = {}
        super().__init__(width)

    def tell_all(self) -> None:
        """Have members hear of all groups; those that are elsewhere come into the memory."""
        for number, group in enumerate(self._groups):
            if group is not None and not self._memory.has(group.columns):
                self._bring(number, group)
            self._note(number)

    def shown(self) -> Shown:
        """What members are to hear, which they have then."""
        changed, self.changed = self.changed, {}
        groups = self._groups
        told = ((number, self._at(groups[number])) for number in changed if number < len(groups))
        return Shown(self.number, self.bits, tuple(told))

    def _at(self, group: Group | None) -> At | None:
        if group is None:
            return None
        place = self._memory.place
        chart = -1 if group.chart is None else place(group.chart)
        return At(group.columns.shape[1], place(group.columns), place(group.live), chart)

    def unshown(self, shown: Shown) -> None:
        """They have not heard it."""
        for number, _ in shown.groups:
            self._note(number)

    def give_up(self) -> None:
        """The table has gone: nobody needs its rows."""
        for group in self._groups:
            self._doom(group)
        self._groups = []
        self._memory.restless.pop(self, None)

    def rewrite(self, number: int, live: int) -> None:
        before = self._groups[number]
        super().rewrite(number, live)
        self._doom(before)

    def _bring(self, number: int, group: Group) -> None:
        entry = self.directory[1 + number]
        dead, waiting = int(entry[kernels.DEAD]), int(entry[kernels.WAITING])
        made = self._new(group.columns.shape[1])
        made.columns[:], made.live[:] = group.columns, group.live
        if group.chart is not None:
            made.chart = self._new_chart()
            made.chart[:] = group.chart
        made.links = group.links
        self._groups[number] = made
        self._describe(number, made)
        entry[kernels.DEAD], entry[kernels.WAITING] = dead, waiting

    def _new(self, rows: int) -> Group:
        columns, parts = 8 * self.width * rows, (rows + 63) >> 6
        place = self._memory.take(columns + 8 * parts)
        words = self._memory.words(place, self.width * rows)
        live = self._memory.words(place + columns, parts)
        links = np.zeros((2, rows), np.int64) if self.linked else None
        return Group(words.reshape(self.width, rows), live, None, links)

    def _new_chart(self) -> Words:
        words = super()._new_chart().shape[0]
        return self._memory.words(self._memory.take(8 * words), words)

    def _grow(self, capacity: int, used: int) -> None:
        before = self._groups[0] if self._groups else None
        super()._grow(capacity, used)
        self._doom(before)

    def _describe(self, number: int, group: Group) -> None:
        super()._describe(number, group)
        self._note(number)

    def _describe_nothing(self, number: int) -> None:
        super()._describe_nothing(number)
        self._note(number)

    def _note(self, number: int) -> None:
        self.changed[number] = None
        self._memory.restless[self] = None

    def _doom(self, group: Group | None) -> None:
        if group is not None and self._memory.has(group.columns):
            self._memory.doom(group.columns, group.columns.nbytes + group.live.nbytes)
            if group.chart is not None:
                self._memory.doom(group.chart, group.chart.nbytes)


class SeenGroups(RowGroups):
    """The same groups at a member."""

    def __init__(self, width: int, memory: Memory) -> None:
        super().__init__(width)
        self._memory = memory

    def see(self, shown: Shown) -> None:
        """Groups are there, or others than before."""
        self.bits = int(shown.bits)
        self.directory[0, 0] = shown.bits
        for number, at in shown.groups:
            self._see(number, at)

    def _see(self, number: int, at: At | None) -> None:
        while len(self._groups) <= number:
            self.add_nothing()
        if at is None:
            self._groups[number] = None
            self._describe_nothing(number)
            self.directory[0, kernels.REWRITTEN] = 1
            return
        chart = None
        if at.chart >= 0:
            chart = self._memory.words(at.chart, super()._new_chart().shape[0])
            self.directory[0, kernels.REWRITTEN] = 1
        columns = self._memory.words(at.columns, self.width * at.rows).reshape(self.width, at.rows)
        live = self._memory.words(at.live, (at.rows + 63) >> 6)
        group = self._groups[number] = Group(columns, live, chart)
        self._describe(number, group)


class SeenTable(Table):
    """A table at a member: what it has is told, and what is in it is read."""

    def __init__(self, name: str, schema: Schema, dictionary: Dictionary, memory: Memory) -> None:
        self.seen = SeenGroups(len(schema.columns), memory)
        super().__init__(name, schema, dictionary, groups=self.seen)
        self._rows = 0
        self._hidden: Words = np.empty(0, np.int64)

    @property
    def rows(self) -> int:
        return self._rows

    def stand(self, count: int, rows: int, hidden: Words) -> None:
        """It has given out ``count`` rowids; ``hidden`` ones of its rows are marked dead, but are not yet."""
        self.count, self._told, self._rows, self._hidden = count, count, rows, hidden

    def _live_below(self, count: int) -> Words:
        if self._rows == count and not self._hidden.shape[0]:
            return np.arange(count)
        live = self.groups.live(0, count)
        return np.union1d(live, self._hidden) if self._hidden.shape[0] else live

    def savepoint(self) -> Savepoint:
        return Savepoint(self.count, self._rows, None, 0, 0, (self._hidden,))

    def rollback(self, savepoint: Savepoint) -> None:
        self.stand(savepoint.count, savepoint.told, *savepoint.untold)

    def commit(self) -> None:
        """The coordinator does."""


def changes_of(gone: Words, came: Words) -> list[Change]:
    """As a table would tell them."""
    both: Sequence[tuple[Words, int]] = ((gone, -1), (came, 1))
    return [Change(rowids, diff) for rowids, diff in both if rowids.shape[0]]


FIRST_SLOTS: Final = 1 << 10
COUNT, SIZE, BUSY = range(3)
"""The words of the first page: strings, words of the hash table, whether somebody interns."""


class CommonDictionary(Dictionary):
    """``Dictionary`` in a memory."""

    lazy = False

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._head = memory.words(0, 3)
        self._lock = Lock(memory, self._head[BUSY:])
        self.arena = memory.bytes(ARENA, ARENA_BYTES)
        self.offsets = memory.words(OFFSETS, OFFSETS_BYTES // 8)
        self._slots: Words = np.empty(0, np.int64)
        self.memos = WeakValueDictionary()
        with self._lock:
            if not self._head[SIZE]:
                self._new_slots(FIRST_SLOTS)
                self._head[SIZE] = FIRST_SLOTS
            self._look()

    @property
    def _count(self) -> int:
        return int(self._head[COUNT])

    @_count.setter
    def _count(self, count: int) -> None:
        self._head[COUNT] = count

    def __len__(self) -> int:
        return int(self._head[COUNT])

    def adopt(self, count: int, arena: Bytes, offsets: Words, slots: Words) -> None:
        size = int(offsets[count])
        self.arena[:size] = arena[:size]
        self.offsets[: count + 1] = offsets[: count + 1]
        with self._lock:
            self._slots = self._new_slots(slots.shape[0])
            kernels_text.rehash(np.array(slots), self._slots)
            self._head[SIZE] = slots.shape[0]
            self._count = count

    def begin_reply(self) -> None:
        """See Dictionary; here others may be given what is added, so all of it stays."""

    def lookup(self, string: str) -> int | None:
        with self._lock:
            self._look()
            return super().lookup(string)

    def _intern(self, source: Bytes, bounds: Words, nulls: Bytes) -> Words:
        with self._lock:
            self._look()
            return super()._intern(source, bounds, nulls)

    def _look(self) -> None:
        """Have the hash table be the one of all."""
        size = int(self._head[SIZE])
        if size != self._slots.shape[0]:
            self._slots = self._memory.words(SLOTS + 8 * size, size)
        if self._lock.broken:
            self._mend()

    def _mend(self) -> None:
        """Forget the strings that somebody was about to add who did not come to an end."""
        entries = np.array(self._slots).reshape(-1, 2)
        known = np.ascontiguousarray(entries[entries[:, 0] < self._count]).reshape(-1)
        self._slots[:] = -1
        if known.shape[0]:
            kernels_text.rehash(known, self._slots)

    def _new_slots(self, size: int) -> Words:
        slots = self._memory.words(SLOTS + 8 * size, size)
        slots[:] = -1
        return slots

    def _reserve(self, strings: int, size: int) -> None:
        wanted = self._count + strings
        if int(self.offsets[self._count]) + size > ARENA_BYTES or wanted >= self.offsets.shape[0]:
            raise OperationalError("there is no room for more text", hint="strings take 64 GiB at most")
        if 4 * wanted > self._slots.shape[0]:
            before, slots = self._slots, self._new_slots(1 << (4 * wanted - 1).bit_length())
            kernels_text.rehash(before, slots)
            self._slots = slots
            self._head[SIZE] = slots.shape[0]
            self._memory.clear(SLOTS + before.nbytes, before.nbytes)
