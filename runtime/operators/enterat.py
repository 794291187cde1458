"""``user.EnterAt``: rows that are there from a round on that they give themselves."""

from collections.abc import Iterator

import numpy as np

from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.errors import DataError
from kpg.runtime.records import dataclass
from kpg.runtime.trace.updates import Updates

LATEST = 2**62
"""Rounds are below it, so that a recursive collection can take each to the next."""


@dataclass(slots=True, eq=False, kw_only=True)
class EnterAt(Operator):
    """Every update at its round, or the one that its last column says if that is later; without the column.

    At every time that is the input filtered by "the round has come". Rounds in which nothing enters cost
    nothing.
    """

    def push(self, port: int, updates: Updates) -> None:
        self.counters.updates_in += len(updates)
        time = updates.times().copy()
        np.maximum(time[-1], updates.data[-1], out=time[-1])
        last = int(time[-1].max(initial=0))
        if last >= LATEST:
            raise DataError(f"a row cannot enter at round {last}", hint="rounds are below 2^62")
        self.place.scope.deliver(self, port, Updates(updates.data[:-1].copy(), time, updates.diff))

    def flush(self) -> None:
        for updates in self.take():
            self.emit(updates)

    def snapshot(self) -> Iterator[Updates]:
        for updates in self.inputs[0].snapshot():
            yield updates.with_data(updates.data[:-1].copy())
