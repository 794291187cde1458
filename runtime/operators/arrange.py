"""``plan.Arrange``: the input as batches, and the trace they form, shared by all its readers."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.trace.batch import Batch, Layers
from kpg.runtime.trace.handle import TraceHandle
from kpg.runtime.trace.multiplicity import bound_with
from kpg.runtime.trace.spine import Spine
from kpg.runtime.trace.updates import Updates

RUN = 1 << 21
"""Updates buffered before they are consolidated into one sorted run."""


@dataclass(slots=True, eq=False, kw_only=True)
class Arrange(Operator):
    """Sorts each step's updates into one batch, adds it to the trace and streams it on.

    Reads between steps, and in the step after this operator's flush, see the batch.
    """

    key: int
    spine: Spine
    handle: TraceHandle
    step_batch: Batch | None = None
    mark: int | None = None
    run_limit: int = RUN
    bound: int = 0
    """No multiplicity is larger; ``committed_bound`` is what it was before the step."""
    committed_bound: int = 0

    def absorb(self) -> None:
        if sum(len(updates) for updates in self.pending) > self.run_limit:
            run = Updates.concat(self.take()).consolidate()
            self.pending.append(run)
            self.run_limit = max(RUN, 2 * len(run))

    def flush(self) -> None:
        pending = self.take()
        self.run_limit = RUN
        if not pending:
            return
        if self.mark is None:
            self.mark = self.spine.mark()
        batch = Batch.build(Updates.concat(pending), self.spine.upper, self.step.after)
        if len(batch):
            self.bound = bound_with(self.bound, self._held, batch.updates)
            self.spine.insert(batch)
            self.step_batch = batch
            self.emit(batch.updates)

    def _held(self) -> Iterator[Updates]:
        return (layer.updates for layer in self.layers)

    @property
    def layers(self) -> Layers:
        """All batches, oldest first, this step's last."""
        return self.spine.layers()

    def snapshot(self) -> Iterator[Updates]:
        time = self.step.stamp
        for layer in self.layers:
            yield layer.updates.with_time(time)

    def size(self) -> int:
        return self.spine.rows

    def commit(self) -> None:
        self.pending.clear()
        self.committed_bound = self.bound

    def rollback(self) -> None:
        self.pending.clear()
        self.bound = self.committed_bound
        if self.mark is not None:
            self.spine.truncate(self.mark)
        self.step_batch = self.mark = None

    def maintain(self) -> None:
        self.handle.advance_logical(self.step.beginning)
        self.mark = None
        if self.step_batch is not None:
            self.handle.advance_physical(self.spine.upper)
            self.spine.work()
            self.step_batch = None

    def renumber(self, table: str, mapping: NDArray[np.int64]) -> None:
        columns = self.place.rowid_columns(table)
        if columns:
            self.spine.compact()
            self.spine.rewrite(lambda updates: renumbered(updates, columns, mapping))

    @property
    def rows(self) -> int:
        return self.spine.rows

    @property
    def bytes(self) -> int:
        return self.spine.bytes


def renumbered(updates: Updates, columns: list[int], mapping: NDArray[np.int64]) -> Updates:
    """The updates of rows that remain, with new rowids in the given columns; the order is kept."""
    data = updates.data.copy()
    gone = np.zeros(len(updates), np.bool_)
    for column in columns:
        old = data[column]
        data[column] = np.where(old >= 0, mapping[np.maximum(old, 0)], old)
        gone |= (old >= 0) & (data[column] < 0)
    kept = np.flatnonzero(~gone)
    return Updates(data, updates.time, updates.diff).take(kept)
