"""Accumulable reduce, distinct, threshold, and the single-row assertion.

Outside loops they use a group table, in loops a history table.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.dataflow_graph import Operator
from kpg.runtime.errors import DataError
from kpg.runtime.functions import AccumulatorKind, aggregate_named
from kpg.runtime.kernels import differences, groups
from kpg.runtime.kernels.links import MANY
from kpg.runtime.mfp.evaluation import sum_overflow
from kpg.runtime.plan import Aggregate
from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.records import dataclass
from kpg.runtime.state.groups import GroupTable, chunks
from kpg.runtime.state.history import HistoryTable
from kpg.runtime.trace.updates import Updates, largest, most_added, multiplicity_overflow
from kpg.runtime.types import ERROR, MAX_DECIMAL_PRECISION, NULL, Kind

Words = NDArray[np.int64]


MOST_DECIMAL = 10**MAX_DECIMAL_PRECISION - 1


@dataclass(slots=True, eq=False, kw_only=True)
class Grouped(Operator):
    """Base: feeds a group table, and emits what :meth:`changes` makes of the groups touched."""

    table: GroupTable
    buffered: Updates | None = None

    def absorb(self) -> None:
        if self.step.single_time:
            for updates in self.take():
                self.table.accumulate(updates.combined())

    def flush(self) -> None:
        step = self.step
        if step.single_time and not step.hydrating and self._refresh():
            return
        if step.single_time:
            for updates in self.take():
                self.table.accumulate(updates.combined())
            self.buffered = None
        elif self.pending:
            self.buffered = Updates.concat(self.take())
            self.table.accumulate_times(self.buffered)
        self.before_emit()
        if self.table.entries:
            data, diff, entry = self.changes(step.single_time)
            self.check(data)
            self.emit(Updates(data, self._times(entry), diff))

    def _refresh(self) -> bool:
        """Take a small step in one call; False if it is not one."""
        if not self.pending or self.table.entries:
            return False
        updates = Updates.concat(self.pending)
        if len(updates) >= MANY:
            return False
        self.pending = []
        self.buffered = None
        data, diff = self.table.refresh(updates, self.output)
        if self.table.doubtful:
            self.check(data)
        self.emit(Updates(data, self.step.stamp, diff))
        return True

    @property
    def output(self) -> int:
        """What a small step puts out, see ``GroupTable.refresh``."""
        return groups.SUMS

    def _times(self, entry: Words) -> Words:
        if self.buffered is None:
            return self.step.stamp
        return np.ascontiguousarray(self.buffered.times()[:, self.table.when[entry]])

    def before_emit(self) -> None:
        """Adjust the table before the step's changes are read from it."""

    def changes(self, single_time: bool) -> tuple[Words, Words, Words]:
        """Output rows, their diffs, and the entry each comes from."""
        raise NotImplementedError

    def check(self, data: Words) -> None:
        """Raise if a new output row is an error."""

    def snapshot(self) -> Iterator[Updates]:
        """Rebuilt from the accumulators: a table of the same groups, all of them new."""
        time = self.step.stamp
        for numbers in chunks(self.table.groups()):
            data, diff = self.contents(numbers)
            yield Updates(data, time, diff)

    def contents(self, numbers: Words) -> tuple[Words, Words]:
        """The current output rows of the given groups."""
        table, saved = self.table, (self.table.touched, self.table.old, self.table.new)
        entries = int(table.state[2])
        table.touched = numbers
        table.old = np.zeros((numbers.shape[0], table.words), np.int64)
        if table.key == 0:
            table.old[:, 0] = np.iinfo(np.int64).min
        table.new = table.accumulators(numbers)
        table.state[2] = numbers.shape[0]
        try:
            data, diff, _ = self.changes(False)
        finally:
            table.touched, table.old, table.new = saved
            table.state[2] = entries
        return data, diff

    def size(self) -> int:
        return len(self.table)

    def committed(self, verdict: int, count: int, added: int, after: Antichain) -> None:
        self.table.commit()

    def commit(self) -> None:
        self.pending.clear()
        self.buffered = None
        self.table.commit()

    def rollback(self) -> None:
        self.pending.clear()
        self.buffered = None
        self.table.rollback()

    @property
    def rows(self) -> int:
        return len(self.table)

    @property
    def bytes(self) -> int:
        return self.table.bytes


def check_sums(aggregates: tuple[Aggregate, ...], values: Words) -> None:
    """Raise DataError if a value of an aggregate, one row of ``values`` each, is an overflow."""
    for aggregate, column in zip(aggregates, values, strict=True):
        kind = aggregate_named(aggregate.function).accumulator
        if kind is AccumulatorKind.COMOMENT and (column == ERROR).any():
            raise sum_overflow(aggregate)
        if kind is AccumulatorKind.SUM:
            wide = aggregate.type.kind is Kind.DECIMAL and (np.abs(column) > MOST_DECIMAL) & (column != NULL)
            if (column == ERROR).any() or np.any(wide):
                raise sum_overflow(aggregate)


@dataclass(slots=True, eq=False, kw_only=True)
class Reduce(Grouped):
    """``plan.Reduce``: key columns and one column per accumulable aggregate."""

    aggregates: tuple[Aggregate, ...]

    def before_emit(self) -> None:
        if self.step.hydrating and self.table.key == 0:
            self.table.touch_empty()

    def changes(self, single_time: bool) -> tuple[Words, Words, Words]:
        return self.table.emit(single_time)

    def check(self, data: Words) -> None:
        check_sums(self.aggregates, data[self.table.key :])


@dataclass(slots=True, eq=False, kw_only=True)
class Distinct(Grouped):
    """``plan.Distinct`` and ``plan.Threshold``: positive multiplicities, as one or as they are."""

    distinct: bool

    @property
    def output(self) -> int:
        return groups.SIGNS if self.distinct else groups.MULTIPLICITIES

    def changes(self, single_time: bool) -> tuple[Words, Words, Words]:
        return self.table.emit_threshold(single_time, self.distinct)


@dataclass(slots=True, eq=False, kw_only=True)
class Single(Grouped):
    """``plan.Single``: passes its input on, and raises where a key has more than one row."""

    def flush(self) -> None:
        step = self.step
        pending = self.take()
        if not pending:
            return
        updates = Updates.concat(pending)
        if step.single_time:
            self.table.accumulate(updates)
        else:
            self.table.accumulate_times(updates)
        if (self.table.counts(step.single_time) > 1).any():
            raise DataError(
                "more than one row returned by a subquery used as an expression",
                hint="add LIMIT 1, an aggregate, or a condition that leaves one row",
            )
        self.emit(updates)

    def absorb(self) -> None:
        """Wait for the flush: the step's net effect counts."""

    def snapshot(self) -> Iterator[Updates]:
        yield from self.inputs[0].snapshot()


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
