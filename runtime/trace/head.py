"""The head of a trace: what came lately, unsorted, so that a small step costs no more than its rows.

Steps of few rows append to the head; look-ups find its rows by a hash of their first columns, in the order
newest first. A head that has grown large is *sealed*: sorted into a batch, like those that large steps make.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import head as kernels
from kpg.runtime.kernels import layout
from kpg.runtime.trace.updates import ONE, Updates, Words

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
