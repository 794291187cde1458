"""Accumulable reduce, distinct, threshold, and the single-row assertion.

Outside loops they use a group table, in loops a history table.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.dataflow_graph import Operator, Step
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


class AggregateOutput:
    """Output of ``plan.Reduce``: key columns and one column per accumulable aggregate."""

    def __init__(self, aggregates: tuple[Aggregate, ...]) -> None:
        self.aggregates = aggregates

    @property
    def kind(self) -> int:
        """Kind of output of a small step; see ``GroupTable.refresh``."""
        return groups.SUMS

    def prepare(self, table: GroupTable) -> None:
        """Touch the only group of a reduce without a key, which has a row without input."""
        if table.key == 0:
            table.touch_empty()

    def changes(self, table: GroupTable, single_time: bool) -> tuple[Words, Words, Words]:
        """Return output rows, their diffs, and the table entry of each."""
        return table.emit(single_time)

    def check(self, table: GroupTable, data: Words) -> None:
        """Raise an error if a new output row has a failed value."""
        check_sums(self.aggregates, data[table.key :])

    def round_changes(self, table: HistoryTable, step: Step) -> Updates:
        """Return the output's updates at the current rounds of a loop."""
        updates = table.evaluate(step.rounds, hydrating=step.hydrating, epoch=step.time)
        check_sums(self.aggregates, updates.data[table.key :])
        return updates

    def contents(self, table: HistoryTable) -> Iterator[tuple[Words, Words]]:
        """Yield the current output rows and their multiplicities, in chunks."""
        yield from table.contents()


class ThresholdOutput:
    """Output of ``plan.Distinct`` and ``plan.Threshold``: rows of positive multiplicity.

    With ``distinct`` each once. The methods are those of ``AggregateOutput``.
    """

    def __init__(self, distinct: bool) -> None:
        self.distinct = distinct

    @property
    def kind(self) -> int:
        """Kind of output of a small step."""
        return groups.SIGNS if self.distinct else groups.MULTIPLICITIES

    def prepare(self, table: GroupTable) -> None:
        """Do nothing: without input there is no row."""

    def changes(self, table: GroupTable, single_time: bool) -> tuple[Words, Words, Words]:
        """Return output rows, their diffs, and the table entry of each."""
        return table.emit_threshold(single_time, self.distinct)

    def check(self, table: GroupTable, data: Words) -> None:
        """Do nothing: no value fails."""

    def round_changes(self, table: HistoryTable, step: Step) -> Updates:
        """Return the output's updates at the current rounds of a loop."""
        return table.evaluate_threshold(step.rounds, self.distinct)

    def contents(self, table: HistoryTable) -> Iterator[tuple[Words, Words]]:
        """Yield the current output rows and their multiplicities, in chunks."""
        yield from table.threshold_contents(self.distinct)


@dataclass(slots=True, eq=False, kw_only=True)
class Reduce(Operator):
    """Accumulates its input in a group table and emits the changes of the touched groups."""

    table: GroupTable
    output: AggregateOutput | ThresholdOutput
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
        if step.hydrating:
            self.output.prepare(self.table)
        if self.table.entries:
            data, diff, entry = self.output.changes(self.table, step.has_single_time)
            self.output.check(self.table, data)
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
        data, diff = self.table.refresh(updates, self.output.kind)
        if self.table.may_be_out_of_range:
            self.output.check(self.table, data)
        self.emit(Updates(data, self.step.stamp, diff))
        return True

    def _times(self, entry: Words) -> Words:
        if self.buffered_updates is None:
            return self.step.stamp
        return np.ascontiguousarray(self.buffered_updates.times()[:, self.table.when[entry]])

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
            data, diff, _ = self.output.changes(table, False)
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


@dataclass(slots=True, eq=False, kw_only=True)
class Single(Operator):
    """``plan.Single``: forwards its input and raises an error if a key has more than one row."""

    table: GroupTable

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
        return len(self.table)

    @property
    def bytes(self) -> int:
        return self.table.bytes


BUFFERED_UPDATES = 1 << 21
"""Updates that go to the table before the end of the round."""

COUNT_LIMIT = 2**63
"""Counts must stay below this."""


@dataclass(slots=True, eq=False, kw_only=True)
class LoopReduce(Operator):
    """A ``Reduce`` in a loop: accumulates its input in a history table by rounds.

    It runs again at the rounds that the table has scheduled.
    """

    table: HistoryTable
    output: AggregateOutput | ThresholdOutput
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
        step = self.step
        self.emit(step.share_stamp(self.output.round_changes(self.table, step)))
        if self.table.new_rounds:
            scope = self.place.scope
            for rounds in self.table.new_rounds:
                scope.schedule_at(self, rounds)

    def record_rounds(self, added: int, rounds: tuple[int, ...]) -> None:
        """Record what a compiled call has added to the table in rounds up to ``rounds``."""
        self.bound += added
        self.table.record_rounds(rounds)

    def snapshot(self) -> Iterator[Updates]:
        stamp = self.step.stamp
        for data, diff in self.output.contents(self.table):
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
