"""Giving back the memory of deleted rows, group by group, in proportion to what is deleted."""

from collections import deque
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.data.rowgroups import RowGroups
from kpg.runtime.kernels import rowgroups as kernels

Words = NDArray[np.int64]

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
