"""Memory that processes of one machine have in common: a file without a name, mapped whole by each of them.

It has room for far more than there ever is: pages that nobody has written to take nothing. So nothing in
it ever moves, and a *place* in it, a number, means the same everywhere.
"""

import fcntl
import mmap
import os
from types import TracebackType
from typing import Any, Final, NamedTuple, Protocol
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.errors import OperationalError
from kpg.runtime.sharing.pages import large_file

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
