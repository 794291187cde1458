"""Row groups that all workers of a machine read where the coordinator writes them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.data.rowgroups import Group, RowGroups
from kpg.runtime.data.table import Change, Savepoint, Table
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.kernels import rowgroups as kernels
from kpg.runtime.sharing.memory import At, Memory, Shown
from kpg.runtime.types import Schema

Words = NDArray[np.int64]


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
