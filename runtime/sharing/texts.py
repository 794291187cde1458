"""The text dictionary of all workers of one machine: a code means the same string at each of them.

Strings, where each begins, and the hash table are in memory that all have in common. Who interns holds a
lock; who reads needs none, since a code comes to others only after its string is there.
"""

from typing import Final
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import OperationalError
from kpg.runtime.kernels import text as kernels
from kpg.runtime.sharing.memory import ARENA, ARENA_BYTES, OFFSETS, OFFSETS_BYTES, SLOTS, Lock, Memory

Words = NDArray[np.int64]
Bytes = NDArray[np.uint8]

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
            kernels.rehash(np.array(slots), self._slots)
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
            kernels.rehash(known, self._slots)

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
            kernels.rehash(before, slots)
            self._slots = slots
            self._head[SIZE] = slots.shape[0]
            self._memory.clear(SLOTS + before.nbytes, before.nbytes)
