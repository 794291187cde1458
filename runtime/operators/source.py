"""``plan.Source``: the rows of a base table, as a stream of rowids."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.data.epochs import live_then
from kpg.runtime.data.table import Table
from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.records import dataclass
from kpg.runtime.trace.updates import Updates

CHUNK = 1 << 20
"""Rows of a table's snapshot that are handed on at a time: what they become is absorbed before the next."""


@dataclass(slots=True, eq=False, kw_only=True)
class Source(Operator):
    """Streams the table's changes of each epoch that a step closes."""

    table: Table
    then: int | None = None
    """The epoch as of which it gives the rows; None for the present one."""
    own: bool = False
    """Whether rows as of an epoch come with pending changes."""

    def change(self, epoch: int, rowids: NDArray[np.int64], sign: int) -> None:
        """Accept rows that ``epoch`` inserted (sign 1) or deleted (-1)."""
        time = np.array([[epoch]], np.int64)
        self.push(0, Updates(rowids.reshape(1, -1), time, np.array([sign], np.int64)))

    def flush(self) -> None:
        if self.step.hydrating:
            for updates in self.snapshot():
                self.emit(updates, more=True)
        # Commits that share a step bring a few rows each: those go on together.
        taken = self.take()
        few = len(taken) > 1 and sum(one.data.shape[1] for one in taken) <= CHUNK
        for updates in [Updates.concat(taken)] if few else taken:
            self.emit(updates)

    def snapshot(self) -> Iterator[Updates]:
        rowids = self.table.live() if self.then is None else self._then(self.then)
        time = self.step.stamp
        for start in range(0, rowids.shape[0], CHUNK):
            chunk = rowids[start : start + CHUNK].reshape(1, -1)
            yield Updates(chunk, time, np.ones(1, np.int64))

    def _then(self, epoch: int) -> NDArray[np.int64]:
        return live_then(self.table, epoch, own=self.own)

    def size(self) -> int:
        return self.table.rows
