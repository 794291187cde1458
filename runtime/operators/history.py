"""Accumulable reduce, distinct and threshold in loops, over a history table."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.operators.reduce import check_sums
from kpg.runtime.plan import Aggregate
from kpg.runtime.trace.history import HistoryTable
from kpg.runtime.trace.updates import Updates

Words = NDArray[np.int64]

BUFFERED = 1 << 21
"""So many updates go to the table before the rest of the round has come."""


@dataclass(slots=True, eq=False, kw_only=True)
class Historic(Operator):
    """Base: feeds a history table round by round, and is woken for the rounds at which it owes changes."""

    table: HistoryTable

    def absorb(self) -> None:
        if sum(len(updates) for updates in self.pending) >= BUFFERED:
            self._accumulate()

    def _accumulate(self) -> None:
        """Equal rows that many derivations give are added up before they go to the table."""
        if self.pending:
            self.table.accumulate(Updates.concat(self.take()).combined(), self.step.rounds)

    def flush(self) -> None:
        self._accumulate()
        self.emit(self.changes())
        scope = self.place.scope
        for rounds in self.table.owed:
            scope.wake(self, rounds)

    def changes(self) -> Updates:
        """The output's updates at the present rounds."""
        raise NotImplementedError

    def contents(self) -> Iterator[tuple[Words, Words]]:
        """The present output rows and their multiplicities, in chunks."""
        raise NotImplementedError

    def snapshot(self) -> Iterator[Updates]:
        stamp = self.step.stamp
        for data, diff in self.contents():
            yield Updates(data, stamp, diff)

    def size(self) -> int:
        return len(self.table)

    def renumber(self, table: str, mapping: Words) -> None:
        columns = [c for c in self.place.rowid_columns(table) if c < self.table.key]
        if columns:
            self.table.renumber(columns, mapping)

    def commit(self) -> None:
        self.pending.clear()
        self.table.commit()

    def rollback(self) -> None:
        self.pending.clear()
        self.table.rollback()

    @property
    def rows(self) -> int:
        return self.table.rows

    @property
    def bytes(self) -> int:
        return self.table.bytes


@dataclass(slots=True, eq=False, kw_only=True)
class LoopReduce(Historic):
    """``plan.Reduce`` in a loop."""

    aggregates: tuple[Aggregate, ...]

    def changes(self) -> Updates:
        updates = self.table.evaluate(self.step.rounds, hydrating=self.step.hydrating, epoch=self.step.time)
        check_sums(self.aggregates, updates.data[self.table.key :])
        return updates

    def contents(self) -> Iterator[tuple[Words, Words]]:
        yield from self.table.contents()


@dataclass(slots=True, eq=False, kw_only=True)
class LoopDistinct(Historic):
    """``plan.Distinct`` and ``plan.Threshold`` in a loop."""

    distinct: bool

    def changes(self) -> Updates:
        return self.table.evaluate_threshold(self.step.rounds, self.distinct)

    def contents(self) -> Iterator[tuple[Words, Words]]:
        yield from self.table.threshold_contents(self.distinct)
