"""``plan.Ego``: readers' aggregates over their neighbours' writes, computed by an overlay.

Port 0 takes pairs, port 1 the writes in windows, and the optional port 2 the readers that are always
continuous. If no consumer follows the rows, a step maintains only pushed nodes, and reads compute the rest.
Readers that a consumer follows are pushed, and are read before and after each step that may change them.
Filters on the reader column of the consumers tell which readers those are.
"""

from collections.abc import Iterator
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.dataflow_graph import Operator
from kpg.runtime.ego.overlay import EVERYBODY, NONE, PARTIAL, READER, WRITER, Followed, Test
from kpg.runtime.ego.overlay_engine import Change, Engine
from kpg.runtime.errors import DataError, InternalError
from kpg.runtime.handles import OverlayInfo
from kpg.runtime.mfp.bytecode import conjuncts
from kpg.runtime.mfp.evaluation import CompiledMfp
from kpg.runtime.operators.input import Hearer
from kpg.runtime.operators.linear import Linear, apply_one
from kpg.runtime.plan import Mfp
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Scalar, columns, remap, walk
from kpg.runtime.trace.updates import ONE, Updates

Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Way:
    """Maps from an operator on: at which place the reader is, and what is asked of it."""

    place: int | None
    asked: tuple[Scalar, ...]
    map: CompiledMfp | None


def hearing(operator: Operator, known: Followed) -> Followed:
    """The readers whose changes somebody is to be told, by way of maps or not: one that nobody reads is none.

    ``known`` is what this was before, and is again if it still is.
    """
    chosen: list[Words] = []
    tests: list[tuple[tuple[Scalar, ...], CompiledMfp]] = []
    name: list[object] = []
    waiting = [(operator, _Way(0, (), None))]
    while waiting:
        source, way = waiting.pop()
        for consumer, _ in source.consumers:
            if isinstance(consumer, Linear):
                waiting.append((consumer, _through(way, consumer)))
            elif isinstance(consumer, Hearer) and consumer.chosen is not None and way.place == 0:
                chosen.append(consumer.chosen)
                name.append(consumer.chosen.tobytes())
            elif way.asked and way.map is not None:
                tests.append((way.asked, way.map))
                name.append(way.asked)
            else:
                return EVERYBODY
    if tuple(name) == known.name and not known.every:
        return known
    words = np.unique(np.concatenate((NONE, *chosen)))
    return Followed(False, words, tuple(_test(*one) for one in tests), tuple(name))


def _through(way: _Way, linear: Linear) -> _Way:
    """The way by one map more."""
    if way.place is None:
        return way
    place, mfp = way.place, linear.mfp.source
    parts = [part for predicate in mfp.predicates for part in conjuncts(predicate)]
    asked = [remap(one, lambda column: 0) for one in parts if columns(one) == frozenset({place})]
    after = [at for at, one in enumerate(mfp.outputs) if isinstance(one, Column) and one.index == place]
    return _Way(after[0] if after else None, (*way.asked, *asked), linear.mfp)


def _test(asked: tuple[Scalar, ...], like: CompiledMfp) -> Test:
    reader = next(one for scalar in asked for one in walk(scalar) if isinstance(one, Column))
    made = like.another(Mfp(asked, (reader,)))

    def test(words: Words) -> Words:
        updates = Updates(words.reshape(1, -1), np.zeros((1, 1), np.int64), ONE)
        try:
            return apply_one(made, updates).data[0]
        except DataError:  # it may be that whoever asks never sees such a reader
            return words

    return test


@dataclass(slots=True, eq=False, kw_only=True)
class Ego(Operator):
    """One row (reader, aggregates...) for each reader with a row of one of its writers."""

    engine: Engine
    deltas: tuple[list[Updates], ...] = field(default_factory=lambda: ([], [], []))
    applied: list[Change] = field(default_factory=list)
    """What this step has changed."""

    def push(self, port: int, updates: Updates) -> None:
        self.counters.updates_in += len(updates)
        self.deltas[port].append(updates)
        self.schedule()

    def flush(self) -> None:
        widths = [*(source.width for source in self.inputs), 1]
        given = [
            Updates.concat([Updates.empty(width, 1), *one]).consolidate()
            for width, one in zip(widths, self.deltas, strict=False)
        ]
        for delta in self.deltas:
            delta.clear()
        self.engine.follow(hearing(self, self.engine.followed))
        if self.engine.followed.nobody:
            self._apply(_change([_summed(one) for one in given]))
            return
        times = [one.times()[0] for one in given]
        for epoch in np.unique(np.concatenate(times)).tolist():
            parts = [one.take(np.flatnonzero(time == epoch)) for one, time in zip(given, times, strict=True)]
            self._tell(_change(parts), epoch)

    def _apply(self, change: Change) -> None:
        if change.pairs.shape[1] or change.writes.shape[1] or change.readers.shape[0]:
            self.engine.apply(change)
            self.applied.append(change)

    def _tell(self, change: Change, epoch: int) -> None:
        """Take the changes of an epoch, and emit what they change for whoever is followed."""
        readers = self.engine.affected(change)
        there, words = self.engine.read(readers)
        self._apply(change)
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
        self.engine.follow(hearing(self, self.engine.followed))
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


def _change(parts: list[Updates]) -> Change:
    pairs, writes, readers = parts
    return Change(pairs.data, pairs.diffs(), writes.data, writes.diffs(), readers.data[0], readers.diffs())


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


def listed(output: Operator, readers: Words) -> tuple[Words, Words] | None:
    """How long readers' arrays are, and their elements; None if these are not what the output is."""
    return output.engine.listed(readers) if isinstance(output, Ego) else None


def overlay_info(output: Operator) -> OverlayInfo | None:
    """What an ego view is computed by."""
    ego = ego_under(output)
    if ego is None:
        return None
    engine, overlay = ego.engine, ego.engine.overlay
    count = overlay.count
    kinds, pushed, levels = overlay.kinds[:count], overlay.pushed[:count] == 1, overlay.levels()[:count]
    report, decision = engine.report, engine.decision
    size = overlay.inputs.size[:count]
    there = (kinds != PARTIAL) | (size > 0)  # partial aggregates that were dissolved lead nowhere
    kinds, pushed, levels, size = kinds[there], pushed[there], levels[there], size[there]
    shown = []
    for level in range(int(levels.max(initial=0)) + 1):
        here = levels == level
        shown.append((int((here & pushed).sum()), int((here & ~pushed).sum()), int(size[here].sum())))
    readers, writers, partials = (int((kinds == kind).sum()) for kind in (READER, WRITER, PARTIAL))
    others = kinds != WRITER
    return OverlayInfo(
        engine.construction.value, writers, readers, partials, overlay.edges, overlay.direct, overlay.sharing,
        float(levels[kinds == READER].mean()) if readers else 0.0, tuple(shown), int((pushed & others).sum()),
        int((~pushed & others).sum()), decision.method if decision else "nothing",
        decision.left if decision else 0, decision.write if decision else 0.0,
        decision.read if decision else 0.0, report.seconds if report else 0.0, engine.bytes, overlay.patches,
        engine.flips, engine.rebuilt,
    )  # fmt: skip
