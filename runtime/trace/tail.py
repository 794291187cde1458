"""The tail of a trace: what came lately in order, for those that read it so.

A batch for each small step would have to be described, looked at and merged; a tail takes a step's rows in
one call, by copying itself: up to ``MOST_IN_TAIL`` rows that costs less than the call.
"""

import numpy as np

from kpg.runtime.kernels import layout
from kpg.runtime.kernels import tail as kernels
from kpg.runtime.kernels.links import MOST_IN_TAIL
from kpg.runtime.trace.updates import Updates, Words


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
        kernels.insert(updates.data, updates.time, updates.diff, self.description, self.spare)

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
