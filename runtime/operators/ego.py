"""``plan.Ego``: readers' aggregates over what their neighbours wrote, by an overlay.

Port 0 takes pairs, port 1 the writes in windows. Where nobody hears the rows, a step does what is pushed and
the rest waits for whoever reads; else the readers that a step may change are read before and after it, all
being pushed.
"""

from collections.abc import Iterator
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.ego.engine import Change, Engine
from kpg.runtime.ego.overlay import PARTIAL, READER, WRITER
from kpg.runtime.errors import InternalError
from kpg.runtime.handles import OverlayInfo
from kpg.runtime.operators.linear import Linear, apply_one
from kpg.runtime.records import dataclass
from kpg.runtime.trace.updates import ONE, Updates

Words = NDArray[np.int64]


@dataclass(slots=True, eq=False, kw_only=True)
class Ego(Operator):
    """One row (reader, aggregates...) for each reader with a row of one of its writers."""

    engine: Engine
    widths: tuple[int, int]
    deltas: tuple[list[Updates], list[Updates]] = field(default_factory=lambda: ([], []))
    applied: list[Change] = field(default_factory=list)
    """What this step has changed."""

    def push(self, port: int, updates: Updates) -> None:
        self.counters.updates_in += len(updates)
        self.deltas[port].append(updates)
        self.schedule()

    def flush(self) -> None:
        pairs, writes = (
            Updates.concat([Updates.empty(width, 1), *given]).consolidate()
            for width, given in zip(self.widths, self.deltas, strict=True)
        )
        for given in self.deltas:
            given.clear()
        if not is_heard(self):
            self._apply(_summed(pairs), _summed(writes))
            return
        if not self.engine.heard:
            self.engine.hear(all_of_them=True)
        times = [pairs.times()[0], writes.times()[0]]
        for epoch in np.unique(np.concatenate(times)).tolist():
            parts = [
                one.take(np.flatnonzero(time == epoch))
                for one, time in zip((pairs, writes), times, strict=True)
            ]
            self._tell(parts[0], parts[1], epoch)

    def _apply(self, pairs: Updates, writes: Updates) -> None:
        if len(pairs) or len(writes):
            change = Change(pairs.data, pairs.diffs(), writes.data, writes.diffs())
            self.engine.apply(change)
            self.applied.append(change)

    def _tell(self, pairs: Updates, writes: Updates, epoch: int) -> None:
        """Take the changes of an epoch, and emit what they change."""
        change = Change(pairs.data, pairs.diffs(), writes.data, writes.diffs())
        readers = self.engine.affected(change)
        there, words = self.engine.read(readers)
        self._apply(pairs, writes)
        after, now = self.engine.read(readers)
        same = there & after & (words == now).all(axis=0)
        gone, come = there & ~same, after & ~same
        rows = np.concatenate(
            (np.vstack((readers[gone], words[:, gone])), np.vstack((readers[come], now[:, come]))), axis=1
        )
        diffs = np.concatenate((np.full(int(gone.sum()), -1), np.ones(int(come.sum()), np.int64)))
        self.emit(Updates(np.ascontiguousarray(rows), np.full((1, 1), epoch, np.int64), diffs))

    def snapshot(self) -> Iterator[Updates]:
        yield Updates(np.ascontiguousarray(self.engine.rows()), self.step.stamp, ONE)

    def found(self, readers: Words) -> tuple[NDArray[np.bool_], Words]:
        """Which readers have a row, and the rows, of others anything; between steps only."""
        there, words = self.engine.read(readers)
        return there, np.concatenate((readers.reshape(1, -1), words))

    def size(self) -> int:
        return self.engine.size

    def commit(self) -> None:
        self.pending.clear()
        self.applied.clear()

    def maintain(self) -> None:
        if self.engine.heard and not is_heard(self):
            self.engine.hear(all_of_them=False)
        self.engine.maintain()

    def rollback(self) -> None:
        self.pending.clear()
        for given in self.deltas:
            given.clear()
        for change in reversed(self.applied):
            self.engine.apply(change.opposite())
        self.applied.clear()

    @property
    def rows(self) -> int:
        """Nodes of the overlay."""
        return self.engine.overlay.count

    @property
    def bytes(self) -> int:
        return self.engine.bytes


def _summed(updates: Updates) -> Updates:
    """Updates of several epochs as one change."""
    if updates.constant_time:
        return updates
    return updates.with_time(np.zeros((1, 1), np.int64)).consolidate()


def is_heard(operator: Operator) -> bool:
    """Whether somebody is to be told of changes, by way of maps or not: a map that nobody reads is none."""
    return any(
        is_heard(consumer) if isinstance(consumer, Linear) else True for consumer, _ in operator.consumers
    )


def ego_under(output: Operator) -> Ego | None:
    """The operator whose rows an output maps, or is."""
    while isinstance(output, Linear):
        output = output.inputs[0]
    return output if isinstance(output, Ego) else None


def found(output: Operator, readers: Words) -> tuple[NDArray[np.bool_], Words]:
    """Which readers have a row, and the output's rows for all of them, of others without meaning."""
    if isinstance(output, Linear):
        there, rows = found(output.inputs[0], readers)
        updates = Updates(np.ascontiguousarray(rows[:, there]), np.zeros((1, 1), np.int64), ONE)
        made = apply_one(output.mfp, updates).data
        result = np.zeros((made.shape[0], readers.shape[0]), np.int64)
        result[:, there] = made
        return there, result
    if not isinstance(output, Ego):
        raise InternalError("only of an ego view rows are found for readers")
    return output.found(readers)


def overlay_info(output: Operator) -> OverlayInfo | None:
    """What an ego view is computed by."""
    ego = ego_under(output)
    if ego is None:
        return None
    engine, overlay = ego.engine, ego.engine.overlay
    count = overlay.count
    kinds, pushed, levels = overlay.kinds[:count], overlay.pushed[:count] == 1, overlay.levels()[:count]
    readers, writers, partials = (int((kinds == kind).sum()) for kind in (READER, WRITER, PARTIAL))
    report, decision = engine.report, engine.decision
    size = overlay.inputs.size[:count]
    shown = []
    for level in range(int(levels.max(initial=0)) + 1):
        here = levels == level
        shown.append((int((here & pushed).sum()), int((here & ~pushed).sum()), int(size[here].sum())))
    others = kinds != WRITER
    return OverlayInfo(
        engine.construction.value, writers, readers, partials, overlay.edges, overlay.direct, overlay.sharing,
        float(levels[kinds == READER].mean()) if readers else 0.0, tuple(shown), int((pushed & others).sum()),
        int((~pushed & others).sum()), decision.method if decision else "nothing",
        decision.left if decision else 0, decision.write if decision else 0.0,
        decision.read if decision else 0.0, report.seconds if report else 0.0, engine.bytes, overlay.patches,
        engine.flips, engine.rebuilt,
    )  # fmt: skip
