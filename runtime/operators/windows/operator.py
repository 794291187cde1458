"""``plan.Window`` over changed partitions: the old answers of their rows are taken back, the new ones given.

A partition that has changed is read from the arrangement without this step's batch and with it.
"""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.operators.textorder import ExactOrder
from kpg.runtime.operators.topk import GroupReader, Tasks
from kpg.runtime.operators.windows.evaluate import evaluated
from kpg.runtime.operators.windows.layout import laid_out
from kpg.runtime.plan import WindowCall
from kpg.runtime.records import dataclass
from kpg.runtime.trace.batch import Layers
from kpg.runtime.trace.collect import collect

Words = NDArray[np.int64]


@dataclass(slots=True, eq=False, kw_only=True)
class Window(GroupReader):
    """Each row of a partition with what the calls say of it; equal rows are numbered one by one."""

    peers: tuple[int, ...]
    calls: tuple[WindowCall, ...]
    exact: ExactOrder | None
    dictionary: Dictionary

    def read(self, layers: Layers, tasks: Tasks, seen: Words) -> tuple[Words, Words, Words]:
        rows, count, task, _ = collect(layers, tasks.prefix, tasks.times, seen, self.arrangement.width)
        if self.exact is not None:
            order = self.exact.order(rows, task)
            rows, count, task = rows[:, order], count[order], task[order]
        if (count != 1).any():
            rows, task = np.repeat(rows, count, axis=1), np.repeat(task, count)
        layout = laid_out(rows, task, self.peers)
        answers = evaluated(layout, self.calls, self.dictionary)
        return np.ascontiguousarray(np.concatenate((rows, answers))), np.ones(task.shape[0], np.int64), task
