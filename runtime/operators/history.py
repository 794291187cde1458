"""Accumulable reduce, distinct and threshold in loops, over a history table."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.kernels import differences
from kpg.runtime.operators.reduce import check_sums
from kpg.runtime.plan import Aggregate
from kpg.runtime.records import dataclass
from kpg.runtime.state.history import HistoryTable
from kpg.runtime.trace.multiplicity import largest, most_added
from kpg.runtime.trace.updates import Updates, multiplicity_overflow

Words = NDArray[np.int64]

BUFFERED = 1 << 21
"""So many updates go to the table before the rest of the round has come."""

MOST_COUNTED = 2**63
"""What a count stays below."""


@dataclass(slots=True, eq=False, kw_only=True)
class Historic(Operator):
    """Base: feeds a history table round by round, and is woken for the rounds at which it owes changes."""

    table: HistoryTable
    bound: int = 0
    """No key's rows are more, added up over all rounds without their signs."""

    def absorb(self) -> None:
        if sum(len(updates) for updates in self.pending) >= BUFFERED:
            self._accumulate()

    def _accumulate(self) -> None:
        """Equal rows that many derivations give are added up before they go to the table."""
        if self.pending:
            updates = Updates.concat(self.take()).combined()
            self._weigh(updates)
            self.table.accumulate(updates, self.step.rounds)

    def _weigh(self, updates: Updates) -> None:
        """Raise DataError if with the updates a key's rows could be more than 64 bits can count."""
        self.bound += most_added(updates)
        if self.bound >= MOST_COUNTED:
            table = self.table
            held = differences.most_rows(table.state)
            rows = np.ascontiguousarray(updates.data[: table.key])
            # Negative, as the least int64 has no absolute value.
            more = largest(Updates(rows, np.zeros((1, 1), np.int64), -np.abs(updates.diff)))
            self.bound = int(held) + more
            if self.bound >= MOST_COUNTED:
                raise multiplicity_overflow()

    def flush(self) -> None:
        self._accumulate()
        self.emit(self.changes())
        if self.table.owed:
            scope = self.place.scope
            for rounds in self.table.owed:
                scope.wake(self, rounds)

    def followed(self, added: int, rounds: tuple[int, ...]) -> None:
        """Take note of what kernels have added to the table in rounds up to these."""
        self.bound += added
        self.table.followed(rounds)

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
        return self.step.stamp_on(updates)

    def contents(self) -> Iterator[tuple[Words, Words]]:
        yield from self.table.contents()


@dataclass(slots=True, eq=False, kw_only=True)
class LoopDistinct(Historic):
    """``plan.Distinct`` and ``plan.Threshold`` in a loop."""

    distinct: bool

    def changes(self) -> Updates:
        step = self.step
        return step.stamp_on(self.table.evaluate_threshold(step.rounds, self.distinct))

    def contents(self) -> Iterator[tuple[Words, Words]]:
        yield from self.table.threshold_contents(self.distinct)
