"""Accumulable reduce, distinct, threshold, and the single-row assertion.

Outside loops they use a group table, in loops a history table.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.dataflow_graph import Operator
from kpg.runtime.errors import DataError
from kpg.runtime.functions import AccumulatorKind, lookup_aggregate
from kpg.runtime.kernels import differences, groups
from kpg.runtime.kernels.links import MANY
from kpg.runtime.mfp.evaluation import sum_overflow
from kpg.runtime.plan import Aggregate
from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.records import dataclass
from kpg.runtime.state.groups import GroupTable, chunks
from kpg.runtime.state.history import HistoryTable
from kpg.runtime.trace.updates import Updates, max_added, max_multiplicity, multiplicity_overflow
from kpg.runtime.types import ERROR, MAX_DECIMAL_PRECISION, NULL, Kind

Words = NDArray[np.int64]


MAX_DECIMAL = 10**MAX_DECIMAL_PRECISION - 1
"""Largest absolute word of a DECIMAL."""


@dataclass(slots=True, eq=False, kw_only=True)
class GroupTableOperator(Operator):
    """Base: accumulates its input in a group table and emits the :meth:`changes` of the touched groups."""

    table: GroupTable
    buffered_updates: Updates | None = None

    def absorb(self) -> None:
        if self.step.has_single_time:
            for updates in self.take_pending():
                self.table.accumulate(updates.consolidate_if_smaller())

    def flush(self) -> None:
        step = self.step
        if step.has_single_time and not step.hydrating and self._flush_small_step():
            return
        if step.has_single_time:
            for updates in self.take_pending():
                self.table.accumulate(updates.consolidate_if_smaller())
            self.buffered_updates = None
        elif self.pending:
            self.buffered_updates = Updates.concat(self.take_pending())
            self.table.accumulate_times(self.buffered_updates)
        self.prepare_emit()
        if self.table.entries:
            data, diff, entry = self.changes(step.has_single_time)
            self.check_output(data)
            self.emit(Updates(data, self._times(entry), diff))

    def _flush_small_step(self) -> bool:
        """Process a small step in one compiled call; return False for other steps."""
        if not self.pending or self.table.entries:
            return False
        updates = Updates.concat(self.pending)
        if len(updates) >= MANY:
            return False
        self.pending = []
        self.buffered_updates = None
        data, diff = self.table.refresh(updates, self.output_kind)
        if self.table.may_be_out_of_range:
            self.check_output(data)
        self.emit(Updates(data, self.step.stamp, diff))
        return True

    @property
    def output_kind(self) -> int:
        """Kind of output of a small step; see ``GroupTable.refresh``."""
        return groups.SUMS

    def _times(self, entry: Words) -> Words:
        if self.buffered_updates is None:
            return self.step.stamp
        return np.ascontiguousarray(self.buffered_updates.times()[:, self.table.when[entry]])

    def prepare_emit(self) -> None:
        """Adjust the table before the step's changes are read from it."""

    def changes(self, single_time: bool) -> tuple[Words, Words, Words]:
        """Return output rows, their diffs, and the table entry of each."""
        raise NotImplementedError

    def check_output(self, data: Words) -> None:
        """Raise an error if a new output row has a failed value."""

    def snapshot(self) -> Iterator[Updates]:
        """Yield the output, computed from the accumulators as if all groups were new."""
        time = self.step.stamp
        for numbers in chunks(self.table.groups()):
            data, diff = self.contents(numbers)
            yield Updates(data, time, diff)

    def contents(self, numbers: Words) -> tuple[Words, Words]:
        """Return the current output rows of the numbered groups and their multiplicities."""
        table, step_arrays = self.table, (self.table.touched_groups, self.table.old, self.table.new)
        entries = int(table.state[2])
        table.touched_groups = numbers
        table.old = np.zeros((numbers.shape[0], table.words), np.int64)
        if table.key == 0:
            table.old[:, 0] = np.iinfo(np.int64).min
        table.new = table.accumulators(numbers)
        table.state[2] = numbers.shape[0]
        try:
            data, diff, _ = self.changes(False)
        finally:
            table.touched_groups, table.old, table.new = step_arrays
            table.state[2] = entries
        return data, diff

    def size(self) -> int:
        return len(self.table)

    def commit_link(self, verdict: int, count: int, added: int, after: Antichain) -> None:
        self.table.commit()

    def commit(self) -> None:
        self.pending.clear()
        self.buffered_updates = None
        self.table.commit()

    def rollback(self) -> None:
        self.pending.clear()
        self.buffered_updates = None
        self.table.rollback()

    @property
    def rows(self) -> int:
        return len(self.table)

    @property
    def bytes(self) -> int:
        return self.table.bytes


def check_sums(aggregates: tuple[Aggregate, ...], values: Words) -> None:
    """Raise DataError if a value is an overflow; ``values`` has one row per aggregate."""
    for aggregate, column in zip(aggregates, values, strict=True):
        kind = lookup_aggregate(aggregate.function).accumulator
        if kind is AccumulatorKind.COMOMENT and (column == ERROR).any():
            raise sum_overflow(aggregate)
        if kind is AccumulatorKind.SUM:
            wide = aggregate.type.kind is Kind.DECIMAL and (np.abs(column) > MAX_DECIMAL) & (column != NULL)
            if (column == ERROR).any() or np.any(wide):
                raise sum_overflow(aggregate)


@dataclass(slots=True, eq=False, kw_only=True)
class Reduce(GroupTableOperator):
    """``plan.Reduce``: key columns and one column per accumulable aggregate."""

    aggregates: tuple[Aggregate, ...]

    def prepare_emit(self) -> None:
        if self.step.hydrating and self.table.key == 0:
            self.table.touch_empty()

    def changes(self, single_time: bool) -> tuple[Words, Words, Words]:
        return self.table.emit(single_time)

    def check_output(self, data: Words) -> None:
        check_sums(self.aggregates, data[self.table.key :])


@dataclass(slots=True, eq=False, kw_only=True)
class Distinct(GroupTableOperator):
    """``plan.Distinct`` and ``plan.Threshold``: rows of positive multiplicity, once each if ``distinct``."""

    distinct: bool

    @property
    def output_kind(self) -> int:
        return groups.SIGNS if self.distinct else groups.MULTIPLICITIES

    def changes(self, single_time: bool) -> tuple[Words, Words, Words]:
        return self.table.emit_threshold(single_time, self.distinct)


@dataclass(slots=True, eq=False, kw_only=True)
class Single(GroupTableOperator):
    """``plan.Single``: forwards its input and raises an error if a key has more than one row."""

    def flush(self) -> None:
        step = self.step
        pending = self.take_pending()
        if not pending:
            return
        updates = Updates.concat(pending)
        if step.has_single_time:
            self.table.accumulate(updates)
        else:
            self.table.accumulate_times(updates)
        if (self.table.counts(step.has_single_time) > 1).any():
            raise DataError(
                "more than one row returned by a subquery used as an expression",
                hint="add LIMIT 1, an aggregate, or a condition that leaves one row",
            )
        self.emit(updates)

    def absorb(self) -> None:
        """Wait for the flush, since only the step's net change counts."""

    def snapshot(self) -> Iterator[Updates]:
        yield from self.inputs[0].snapshot()


BUFFERED_UPDATES = 1 << 21
"""Updates that go to the table before the end of the round."""

COUNT_LIMIT = 2**63
"""Counts must stay below this."""


@dataclass(slots=True, eq=False, kw_only=True)
class HistoryTableOperator(Operator):
    """Base: accumulates its input in a history table by rounds.

    It runs again at the rounds that the table has scheduled.
    """

    table: HistoryTable
    bound: int = 0
    """Upper bound of the absolute diffs of a key's rows, summed over all rounds."""

    def absorb(self) -> None:
        if sum(len(updates) for updates in self.pending) >= BUFFERED_UPDATES:
            self._accumulate()

    def _accumulate(self) -> None:
        """Add the pending updates to the table; equal rows of many derivations are combined first."""
        if self.pending:
            updates = Updates.concat(self.take_pending()).consolidate_if_smaller()
            self._extend_bound(updates)
            self.table.accumulate(updates, self.step.rounds)

    def _extend_bound(self, updates: Updates) -> None:
        """Extend ``bound`` by the updates.

        Raises:
            DataError: If a key's rows may exceed a 64-bit count.
        """
        self.bound += max_added(updates)
        if self.bound >= COUNT_LIMIT:
            table = self.table
            largest_count = differences.most_rows(table.state)
            rows = np.ascontiguousarray(updates.data[: table.key])
            # Negative: the absolute value of the least int64 does not fit.
            increase = max_multiplicity(Updates(rows, np.zeros((1, 1), np.int64), -np.abs(updates.diff)))
            self.bound = int(largest_count) + increase
            if self.bound >= COUNT_LIMIT:
                raise multiplicity_overflow()

    def flush(self) -> None:
        self._accumulate()
        self.emit(self.changes())
        if self.table.new_rounds:
            scope = self.place.scope
            for rounds in self.table.new_rounds:
                scope.schedule_at(self, rounds)

    def record_rounds(self, added: int, rounds: tuple[int, ...]) -> None:
        """Record what a compiled call has added to the table in rounds up to ``rounds``."""
        self.bound += added
        self.table.record_rounds(rounds)

    def changes(self) -> Updates:
        """Return the output's updates at the current rounds."""
        raise NotImplementedError

    def contents(self) -> Iterator[tuple[Words, Words]]:
        """Yield the current output rows and their multiplicities, in chunks."""
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
class LoopReduce(HistoryTableOperator):
    """``plan.Reduce`` in a loop."""

    aggregates: tuple[Aggregate, ...]

    def changes(self) -> Updates:
        updates = self.table.evaluate(self.step.rounds, hydrating=self.step.hydrating, epoch=self.step.time)
        check_sums(self.aggregates, updates.data[self.table.key :])
        return self.step.share_stamp(updates)

    def contents(self) -> Iterator[tuple[Words, Words]]:
        yield from self.table.contents()


@dataclass(slots=True, eq=False, kw_only=True)
class LoopDistinct(HistoryTableOperator):
    """``plan.Distinct`` and ``plan.Threshold`` in a loop."""

    distinct: bool

    def changes(self) -> Updates:
        step = self.step
        return step.share_stamp(self.table.evaluate_threshold(step.rounds, self.distinct))

    def contents(self) -> Iterator[tuple[Words, Words]]:
        yield from self.table.threshold_contents(self.distinct)
