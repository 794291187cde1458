"""Shared memory of the processes of one machine: an anonymous file that each process maps whole.

The mapping reserves far more address space than is ever used; untouched pages take no memory. Nothing in it
moves, so an *offset* means the same in every process. Only the creator allocates and frees.

* :class:`SharedGroups`: row groups that the coordinator writes and members read in place
  (:class:`MappedGroups`).
* :class:`SharedDictionary`: the text dictionary; a code means the same string in every process. Strings,
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

from kpg.runtime.cluster.huge_pages import open_huge_page_file
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
STAT_BLOCK: Final = 512
"""Unit of ``st_blocks`` in bytes."""
ARENA: Final = 1 << 30
"""Offset of the dictionary's text, after the page of counters."""
ARENA_BYTES: Final = 1 << 36
OFFSETS: Final = ARENA + ARENA_BYTES
OFFSETS_BYTES: Final = 1 << 34
SLOTS: Final = 1 << 37
"""Base of hash tables: one of n bytes is at ``SLOTS + n``, so those of different powers of two never overlap.
"""
ROWS: Final = 1 << 38
END: Final = ROWS + (1 << (4 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") - 1).bit_length())
"""End of the mapping: rows have room for four times the machine's memory, since freed sizes leave holes."""
MAP_NORESERVE: Final = 0x4000
MADV_REMOVE: Final = 9
"""Advice that frees pages, which then read as zeros."""


class GroupLocation(NamedTuple):
    """Offsets of the arrays of a row group with room for ``rows``; ``chart`` is -1 without one."""

    rows: int
    columns: int
    live: int
    chart: int


class GroupUpdates(NamedTuple):
    """New and changed row groups of the table with that number; None for a group without rows."""

    table: int
    bits: int
    groups: tuple[tuple[int, GroupLocation | None], ...]


class UpdatedGroups(Protocol):
    """Row groups with updates for members."""

    def take_updates(self) -> GroupUpdates:
        """Return the updates and mark them as sent."""

    def restore_updates(self, updates: GroupUpdates) -> None:
        """Mark updates as unsent."""


class MemoryUpdate(NamedTuple):
    """Updates of row groups for members, and memory that can be freed once they have received them."""

    groups: tuple[UpdatedGroups, ...]
    updates: tuple[GroupUpdates, ...]
    to_free: list[tuple[int, int]]


NO_UPDATE: Final = MemoryUpdate((), (), [])


class SharedMemory:
    """The shared mapping; only its creator allocates and frees."""

    def __init__(self, files: tuple[int, int] | None = None) -> None:
        """Map the files of the creating process, or create them.

        Raises:
            OperationalError: If shared memory is not available.
        """
        try:
            if files is None:
                file = open_huge_page_file()
                files = os.memfd_create("kpg") if file is None else file, os.memfd_create("kpg lock")
                os.ftruncate(files[0], END)
            self.files = files
            flags = mmap.MAP_SHARED | MAP_NORESERVE
            self._map = mmap.mmap(files[0], END, flags, mmap.PROT_READ | mmap.PROT_WRITE)
        except (OSError, ValueError, AttributeError) as error:
            raise OperationalError(
                f"workers cannot share memory: {error}",
                hint=f"this requires Linux, and {END >> 30} GiB of address space (ulimit -v)",
            ) from None
        self._bytes = np.frombuffer(self._map, np.uint8)
        self._base = int(self._bytes.ctypes.data)
        self._next = ROWS
        self._free: dict[int, list[int]] = {}
        self._readers: WeakSet[object] = WeakSet()
        self._to_free: list[tuple[int, int]] = []
        self.updated_groups: dict[UpdatedGroups, None] = {}

    @property
    def allocated_bytes(self) -> int:
        """Bytes that the system has allocated for it."""
        return STAT_BLOCK * os.fstat(self.files[0]).st_blocks

    def words(self, offset: int, count: int) -> Words:
        """Return ``count`` words at an offset."""
        return self._bytes[offset : offset + 8 * count].view(np.int64)

    def bytes(self, offset: int, count: int) -> Bytes:
        """Return ``count`` bytes at an offset."""
        return self._bytes[offset : offset + count]

    def contains(self, array: "np.ndarray[Any, Any]") -> bool:
        """Return whether an array is in it."""
        return 0 <= self.offset_of(array) < END

    def offset_of(self, array: "np.ndarray[Any, Any]") -> int:
        """Return the offset of an array in it."""
        return int(array.ctypes.data) - self._base

    def allocate(self, size: int) -> int:
        """Return the offset of ``size`` unused bytes, all zero."""
        size = _round_to_pages(size)
        free = self._free.get(size)
        if free:
            return free.pop()
        offset, self._next = self._next, self._next + size
        if self._next > END:
            raise OperationalError(
                "the memory that workers share has no more room for rows",
                hint="delete rows, or reopen the database",
            )
        return offset

    def free_later(self, array: "np.ndarray[Any, Any]", size: int) -> None:
        """Free ``size`` bytes from an array on, once members have received the update that replaces them."""
        self._to_free.append((self.offset_of(array), _round_to_pages(size)))

    def take_update(self) -> MemoryUpdate:
        """Return the changes that members have not received."""
        updated, self.updated_groups = self.updated_groups, {}
        updates = tuple(groups.take_updates() for groups in updated)
        doomed, self._to_free = self._to_free, []
        return MemoryUpdate(tuple(updated), updates, doomed)

    def restore_update(self, update: MemoryUpdate) -> None:
        """Mark an update that could not be sent as unsent."""
        for groups, shown in zip(update.groups, update.updates, strict=True):
            groups.restore_updates(shown)
        self._to_free += update.to_free

    def pin(self, reader: object) -> None:
        """Free nothing as long as ``reader`` exists."""
        self._readers.add(reader)

    def confirm_update(self, update: MemoryUpdate) -> None:
        """Free the replaced memory after members have received an update, unless it is pinned."""
        if self._readers:
            self._to_free += update.to_free
            return
        for offset, size in update.to_free:
            self.clear(offset, size)
            self._free.setdefault(size, []).append(offset)

    def clear(self, offset: int, size: int) -> None:
        """Free whole pages, which then read as zeros."""
        self._map.madvise(MADV_REMOVE, offset, _round_to_pages(size))

    def close(self) -> None:
        """Close the files and free the rows; text stays readable as long as it is referenced."""
        if self._next > ROWS and not self._readers:
            self.clear(ROWS, self._next - ROWS)
        for file in self.files:
            os.close(file)


class Lock:
    """Lock between processes. If its owner dies it is released, and the next owner finds the interruption."""

    def __init__(self, memory: SharedMemory, busy: Words) -> None:
        """Create the lock; ``busy`` is a word that is 1 while a process holds it."""
        self._file = memory.files[1]
        self._busy = busy
        self.was_interrupted = False
        """Whether the previous owner died or raised."""

    def __enter__(self) -> None:
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        self.was_interrupted = bool(self._busy[0])
        self._busy[0] = 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._busy[0] = int(error is not None)
        fcntl.lockf(self._file, fcntl.LOCK_UN)


def _round_to_pages(size: int) -> int:
    """Return the size rounded up to whole pages."""
    return (size + PAGE - 1) // PAGE * PAGE


class SharedGroups(RowGroups):
    """Row groups of table ``number`` in shared memory; ``changed_groups`` have updates for members."""

    def __init__(self, width: int, memory: SharedMemory, number: int) -> None:
        self._memory = memory
        self.number = number
        self.changed_groups: dict[int, None] = {}
        super().__init__(width)

    def mark_all_changed(self) -> None:
        """Send all groups to members with the next command; copy them to shared memory if necessary."""
        for number, group in enumerate(self._groups):
            if group is not None and not self._memory.contains(group.columns):
                self._copy_to_memory(number, group)
            self._mark_changed(number)

    def take_updates(self) -> GroupUpdates:
        """Return the updates and mark them as sent."""
        changed, self.changed_groups = self.changed_groups, {}
        groups = self._groups
        locations = ((number, self._location(groups[number])) for number in changed if number < len(groups))
        return GroupUpdates(self.number, self.bits, tuple(locations))

    def _location(self, group: Group | None) -> GroupLocation | None:
        if group is None:
            return None
        place = self._memory.offset_of
        chart = -1 if group.chart is None else place(group.chart)
        return GroupLocation(group.columns.shape[1], place(group.columns), place(group.live), chart)

    def restore_updates(self, updates: GroupUpdates) -> None:
        """Mark updates as unsent."""
        for number, _ in updates.groups:
            self._mark_changed(number)

    def free(self) -> None:
        """Free the rows of a dropped table."""
        for group in self._groups:
            self._free_later(group)
        self._groups = []
        self._memory.updated_groups.pop(self, None)

    def rewrite(self, number: int, live: int) -> None:
        before = self._groups[number]
        super().rewrite(number, live)
        self._free_later(before)

    def _copy_to_memory(self, number: int, group: Group) -> None:
        entry = self.directory[1 + number]
        dead, waiting = int(entry[kernels.DEAD]), int(entry[kernels.WAITING])
        shared = self._new(group.columns.shape[1])
        shared.columns[:], shared.live[:] = group.columns, group.live
        if group.chart is not None:
            shared.chart = self._new_chart()
            shared.chart[:] = group.chart
        shared.links = group.links
        self._groups[number] = shared
        self._describe(number, shared)
        entry[kernels.DEAD], entry[kernels.WAITING] = dead, waiting

    def _new(self, rows: int) -> Group:
        columns, parts = 8 * self.width * rows, (rows + 63) >> 6
        place = self._memory.allocate(columns + 8 * parts)
        words = self._memory.words(place, self.width * rows)
        live = self._memory.words(place + columns, parts)
        links = np.zeros((2, rows), np.int64) if self.has_links else None
        return Group(words.reshape(self.width, rows), live, None, links)

    def _new_chart(self) -> Words:
        words = super()._new_chart().shape[0]
        return self._memory.words(self._memory.allocate(8 * words), words)

    def _grow(self, capacity: int, used: int) -> None:
        before = self._groups[0] if self._groups else None
        super()._grow(capacity, used)
        self._free_later(before)

    def _describe(self, number: int, group: Group) -> None:
        super()._describe(number, group)
        self._mark_changed(number)

    def _describe_freed(self, number: int) -> None:
        super()._describe_freed(number)
        self._mark_changed(number)

    def _mark_changed(self, number: int) -> None:
        self.changed_groups[number] = None
        self._memory.updated_groups[self] = None

    def _free_later(self, group: Group | None) -> None:
        if group is not None and self._memory.contains(group.columns):
            self._memory.free_later(group.columns, group.columns.nbytes + group.live.nbytes)
            if group.chart is not None:
                self._memory.free_later(group.chart, group.chart.nbytes)


class MappedGroups(RowGroups):
    """The row groups of :class:`SharedGroups` at a member."""

    def __init__(self, width: int, memory: SharedMemory) -> None:
        super().__init__(width)
        self._memory = memory

    def apply_updates(self, updates: GroupUpdates) -> None:
        """Map new and changed groups."""
        self.bits = int(updates.bits)
        self.directory[0, 0] = updates.bits
        for number, at in updates.groups:
            self._map_group(number, at)

    def _map_group(self, number: int, location: GroupLocation | None) -> None:
        while len(self._groups) <= number:
            self.add_freed()
        if location is None:
            self._groups[number] = None
            self._describe_freed(number)
            self.directory[0, kernels.REWRITTEN] = 1
            return
        chart = None
        if location.chart >= 0:
            chart = self._memory.words(location.chart, super()._new_chart().shape[0])
            self.directory[0, kernels.REWRITTEN] = 1
        columns = self._memory.words(location.columns, self.width * location.rows).reshape(
            self.width, location.rows
        )
        live = self._memory.words(location.live, (location.rows + 63) >> 6)
        group = self._groups[number] = Group(columns, live, chart)
        self._describe(number, group)


class MappedTable(Table):
    """A table at a member whose rows are in shared memory; the coordinator sends its counts."""

    def __init__(self, name: str, schema: Schema, dictionary: Dictionary, memory: SharedMemory) -> None:
        self.mapped_groups = MappedGroups(len(schema.columns), memory)
        super().__init__(name, schema, dictionary, groups=self.mapped_groups)
        self._rows = 0
        self._hidden: Words = np.empty(0, np.int64)

    @property
    def rows(self) -> int:
        return self._rows

    def set_contents(self, count: int, rows: int, hidden: Words) -> None:
        """Set the number of rowids and rows; those in ``hidden`` are marked as deleted but live here."""
        self.count, self._drained_count, self._rows, self._hidden = count, count, rows, hidden

    def _live_below(self, count: int) -> Words:
        if self._rows == count and not self._hidden.shape[0]:
            return np.arange(count)
        live = self.groups.live(0, count)
        return np.union1d(live, self._hidden) if self._hidden.shape[0] else live

    def savepoint(self) -> Savepoint:
        return Savepoint(self.count, self._rows, None, 0, 0, (self._hidden,))

    def rollback(self, savepoint: Savepoint) -> None:
        self.set_contents(savepoint.count, savepoint.drained_count, *savepoint.undrained_deletions)

    def commit(self) -> None:
        """Do nothing: the coordinator commits the table."""


def make_changes(deleted: Words, inserted: Words) -> list[Change]:
    """Return deletions and insertions as a table drains them."""
    both: Sequence[tuple[Words, int]] = ((deleted, -1), (inserted, 1))
    return [Change(rowids, diff) for rowids, diff in both if rowids.shape[0]]


FIRST_SLOTS: Final = 1 << 10
COUNT, SIZE, BUSY = range(3)
"""Words of the first page: number of strings, size of the hash table, whether a process interns."""


class SharedDictionary(Dictionary):
    """A ``Dictionary`` in shared memory."""

    restores_lazily = False

    def __init__(self, memory: SharedMemory) -> None:
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
            self._refresh_slots()

    @property
    def _count(self) -> int:
        return int(self._head[COUNT])

    @_count.setter
    def _count(self, count: int) -> None:
        self._head[COUNT] = count

    def __len__(self) -> int:
        return int(self._head[COUNT])

    def adopt_arrays(self, count: int, arena: Bytes, offsets: Words, slots: Words) -> None:
        size = int(offsets[count])
        self.arena[:size] = arena[:size]
        self.offsets[: count + 1] = offsets[: count + 1]
        with self._lock:
            self._slots = self._new_slots(slots.shape[0])
            kernels_text.rehash(np.array(slots), self._slots)
            self._head[SIZE] = slots.shape[0]
            self._count = count

    def begin_reply(self) -> None:
        """Do nothing: other processes may receive added strings, so all of them stay."""

    def lookup(self, string: str) -> int | None:
        with self._lock:
            self._refresh_slots()
            return super().lookup(string)

    def _intern(self, source: Bytes, bounds: Words, nulls: Bytes) -> Words:
        with self._lock:
            self._refresh_slots()
            return super()._intern(source, bounds, nulls)

    def _refresh_slots(self) -> None:
        """Use the current hash table."""
        size = int(self._head[SIZE])
        if size != self._slots.shape[0]:
            self._slots = self._memory.words(SLOTS + 8 * size, size)
        if self._lock.was_interrupted:
            self._remove_unfinished()

    def _remove_unfinished(self) -> None:
        """Remove the strings that an interrupted process was about to add."""
        entries = np.array(self._slots).reshape(-1, 2)
        complete = np.ascontiguousarray(entries[entries[:, 0] < self._count]).reshape(-1)
        self._slots[:] = -1
        if complete.shape[0]:
            kernels_text.rehash(complete, self._slots)

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
