"""The tables of a member: those of the coordinator, which it sees where they are, or its share of each.

A row has the same rowid everywhere. Where members are sent their shares, those of others are holes.
"""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.data.again import NONE, replay
from kpg.runtime.data.holes import HoledTable
from kpg.runtime.data.table import Closed, Table
from kpg.runtime.dataflow.step import Step
from kpg.runtime.sharing.company import Company
from kpg.runtime.sharing.memory import Memory
from kpg.runtime.sharing.rows import SeenTable, changes_of
from kpg.runtime.sharing.texts import CommonDictionary
from kpg.runtime.types import Schema
from kpg.runtime.worker import Worker
from kpg.runtime.workers.messages import Changed, Command

Words = NDArray[np.int64]


class Holding(Worker):
    """A worker whose tables are told of."""

    sharing: Company
    broken = False
    """Whether it is not what it was before a step that has failed, and has to be started again."""

    def __init__(self, merge_effort: int, memory: Memory | None) -> None:
        super().__init__(merge_effort)
        self._memory = memory
        self._seen: dict[int, SeenTable] = {}
        if memory is not None:
            self.dictionary = CommonDictionary(memory)

    def _learn(self, command: Command) -> None:
        if command.learn is not None:
            self.sharing.strings.learn(command.learn)
        for shown in command.shown:
            if shown.table in self._seen:
                self._seen[shown.table].seen.see(shown)

    def _undo(self, step: Step) -> None:
        """See ``Worker``; what the step has failed for, memory, may be missing here, too."""
        try:
            super()._undo(step)
        except Exception:
            self.broken = True

    def table(self, name: str, schema: Schema, number: int) -> None:
        """There is a table."""
        self.create_table(name, schema, number)

    def _new_table(self, name: str, schema: Schema, number: int) -> Table:
        if self._memory is None:
            return HoledTable(name, schema, self.dictionary, self._interrupt, self._touched)
        table = self._seen[number] = SeenTable(name, schema, self.dictionary, self._memory)
        return table

    def drop_table(self, name: str) -> None:
        """There is a table no more."""
        self._seen.pop(self.table_number(name), None)
        super().drop_table(name)

    def stand(self, name: str, count: int, rows: int, hidden: Words) -> None:
        """Rows that a table has had for long, where they are seen."""
        self._seen[self.table_number(name)].stand(count, rows, hidden)
        self._settle((name,))

    def fill(self, name: str, rowids: Words, words: Words) -> None:
        """Rows that a table has had for long, in words of the coordinator."""
        table = self.tables[name]
        words = self._in_own(words, self.sharing.texts(table.schema.types))
        replay(table, NONE, rowids, words)
        table.drain()
        self._settle((name,))

    def _redo(self, changes: list[Changed]) -> None:
        for one in changes:
            table = self.tables[one.table]
            rowids = NONE if one.rowids is None else one.rowids
            if isinstance(rowids, tuple):
                rowids = np.arange(*rowids)
            gone = NONE if one.gone is None else one.gone
            if isinstance(table, SeenTable):
                table.stand(*one.after, NONE)
                self._unsettled[table] = None
                self._closed.append(Closed(one.epoch, one.table, changes_of(gone, rowids)))
                continue
            assert one.words is not None
            words = self._in_own(one.words, self.sharing.texts(table.schema.types))
            replay(table, gone[table.is_live(gone)], rowids, words)
            self._closed.append(Closed(one.epoch, one.table, table.drain()))

    def _in_own(self, words: Words, texts: tuple[int, ...]) -> Words:
        """The coordinator's words as own ones."""
        if not texts:
            return words
        words = words.copy()
        for column in texts:
            words[column] = self.sharing.strings.from_coordinator(words[column])
        return words
