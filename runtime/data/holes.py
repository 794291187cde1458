"""Tables of which many rowids are somebody else's."""

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.data.again import NONE, replay
from kpg.runtime.data.rowgroups import RowGroups
from kpg.runtime.data.table import NO_KEY, Savepoint, Table
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.kernels import rowgroups as kernels
from kpg.runtime.types import Schema

Words = NDArray[np.int64]

FULLNESS: Final = 16
"""A group is rewritten if one row in so many is missing."""


class HoledTable(Table):
    """A table that has its own rows under the rowids that they have everywhere.

    Whole groups of rowids that are others' take no memory; in groups that are shared with others, places are
    given up as groups are full.
    """

    def __init__(
        self,
        name: str,
        schema: Schema,
        dictionary: Dictionary,
        interrupt: DeferredInterrupt | None = None,
        touched: "dict[Table, None] | None" = None,
        groups: RowGroups | None = None,
    ) -> None:
        super().__init__(name, schema, dictionary, interrupt, touched, groups)
        self._vacuum.fullness = FULLNESS

    def take_block(self, start: int, parts: Iterable[Words], end: int) -> None:
        """Have rows from rowid ``start`` on, ``int64[ncols, n]`` after each other; all others below ``end``

        are somebody else's.
        """
        self._pass_over(start)
        for words in parts:
            replay(self, NONE, np.arange(self.count, self.count + words.shape[1]), words)
        self._pass_over(end)

    def take_rows(self, parts: Iterable[tuple[Words, Words]], end: int) -> None:
        """As :meth:`take_block`, of rows under any rowids, all ascending."""
        for rowids, words in parts:
            if rowids.shape[0]:
                self._pass_over(int(rowids[0]))
                replay(self, NONE, rowids, words)
        self._pass_over(end)

    def _pass_over(self, end: int) -> None:
        """Have no rows below ``end`` but those that there are."""
        groups, size = self.groups, 1 << self.groups.bits
        first, last = -(-self.count // size), end // size
        with self._interrupt:
            if first < last and groups.capacity <= first * size:
                self._leave_out(first * size)
                groups.directory[0, kernels.REWRITTEN] = 1
                for _ in range(first, last):
                    groups.add_nothing()
                groups.capacity = self.count = last * size
                self.reclaimed += (last - first) * size
                self.touched[self] = None
            while self.count < end:
                self._leave_out(min(end, (self.count // size + 1) * size))

    def _leave_out(self, end: int) -> None:
        """Give rowids of one group to rows that are dead already."""
        start = self.count
        if start == end:
            return
        if end > self.groups.capacity:
            self.groups.reserve(end, start)
        words = np.zeros((self.groups.width, end - start), np.int64)
        key, highest, known = NO_KEY
        required = np.zeros_like(self._required)
        kernels.append(self.groups.directory, words, start, required, key, highest, known)
        dead = np.arange(start, end)
        kernels.kill(self.groups.directory, end, dead)
        self.count = end
        self.dead += end - start
        self._deletions.append(dead)
        self._untold.append(dead)
        self.touched[self] = None

    def rollback(self, savepoint: Savepoint) -> None:
        size = 1 << self.groups.bits
        first = -(-savepoint.count // size)
        passed = [
            number for number, group in enumerate(self.groups.held_groups[first:], first) if group is None
        ]
        self.reclaimed -= len(passed) * size
        super().rollback(savepoint)
        if passed:
            self.groups.cut(passed[0])
