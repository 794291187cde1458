"""``plan.Ego``: readers' aggregates over their neighbours' writes, computed by an overlay.

Port 0 receives pairs, port 1 the writes in windows, and the optional port 2 the readers that are
always continuous. Without consumers, a step maintains only pushed nodes, and reads compute the
rest. Readers that a consumer follows are pushed, and are read before and after each step that may
change them. Filters on the reader column of the consumers select those readers.
"""

from collections.abc import Iterator
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.dataflow_graph import Operator
from kpg.runtime.ego.overlay import ALL_READERS, NONE, PARTIAL, READER, WRITER, FollowedReaders, Test
from kpg.runtime.ego.overlay_engine import Change, OverlayEngine
from kpg.runtime.errors import DataError, InternalError
from kpg.runtime.handles import OverlayInfo
from kpg.runtime.mfp.bytecode import conjuncts
from kpg.runtime.mfp.evaluation import CompiledMfp
from kpg.runtime.operators.input import Capture
from kpg.runtime.operators.linear import Linear, apply_mfp_to_net
from kpg.runtime.plan import Mfp
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Scalar, columns, remap, walk
from kpg.runtime.trace.updates import ONE, Updates

Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _MapPath:
    """Maps below an operator: the reader's column after them, and the predicates on the reader."""

    reader_column: int | None
    predicates: tuple[Scalar, ...]
    map: CompiledMfp | None


def find_followed_readers(operator: Operator, previous: FollowedReaders) -> FollowedReaders:
    """Return the readers whose changes a consumer receives, directly or through maps.

    Returns ``previous`` if that is still the answer.
    """
    reader_words: list[Words] = []
    tests: list[tuple[tuple[Scalar, ...], CompiledMfp]] = []
    name: list[object] = []
    waiting = [(operator, _MapPath(0, (), None))]
    while waiting:
        source, way = waiting.pop()
        for consumer, _ in source.consumers:
            if isinstance(consumer, Linear):
                waiting.append((consumer, _append_map(way, consumer)))
            elif isinstance(consumer, Capture) and consumer.readers is not None and way.reader_column == 0:
                reader_words.append(consumer.readers)
                name.append(consumer.readers.tobytes())
            elif way.predicates and way.map is not None:
                tests.append((way.predicates, way.map))
                name.append(way.predicates)
            else:
                return ALL_READERS
    if tuple(name) == previous.key and not previous.is_all:
        return previous
    words = np.unique(np.concatenate((NONE, *reader_words)))
    return FollowedReaders(False, words, tuple(_make_test(*test) for test in tests), tuple(name))


def _append_map(way: _MapPath, linear: Linear) -> _MapPath:
    """Return the path extended by one map."""
    if way.reader_column is None:
        return way
    place, mfp = way.reader_column, linear.mfp.source
    parts = [part for predicate in mfp.predicates for part in conjuncts(predicate)]
    predicates = [remap(one, lambda column: 0) for one in parts if columns(one) == frozenset({place})]
    after = [at for at, one in enumerate(mfp.outputs) if isinstance(one, Column) and one.index == place]
    return _MapPath(after[0] if after else None, (*way.predicates, *predicates), linear.mfp)


def _make_test(predicates: tuple[Scalar, ...], like: CompiledMfp) -> Test:
    reader = next(node for scalar in predicates for node in walk(scalar) if isinstance(node, Column))
    compiled = like.compile_other(Mfp(predicates, (reader,)))

    def test(words: Words) -> Words:
        updates = Updates(words.reshape(1, -1), np.zeros((1, 1), np.int64), ONE)
        try:
            return apply_mfp_to_net(compiled, updates).data[0]
        except DataError:  # the consumer may never receive such a reader
            return words

    return test


@dataclass(slots=True, eq=False, kw_only=True)
class Ego(Operator):
    """One row (reader, aggregates...) for each reader with a row of one of its writers."""

    engine: OverlayEngine
    deltas: tuple[list[Updates], ...] = field(default_factory=lambda: ([], [], []))
    applied_changes: list[Change] = field(default_factory=list)
    """Changes that this step has made."""

    def push(self, port: int, updates: Updates) -> None:
        self.counters.updates_in += len(updates)
        self.deltas[port].append(updates)
        self.schedule()

    def flush(self) -> None:
        widths = [*(source.width for source in self.inputs), 1]
        inputs = [
            Updates.concat([Updates.empty(width, 1), *one]).consolidate()
            for width, one in zip(widths, self.deltas, strict=False)
        ]
        for delta in self.deltas:
            delta.clear()
        self.engine.follow(find_followed_readers(self, self.engine.followed_readers))
        if self.engine.followed_readers.is_empty:
            self._apply(_make_change([_merge_epochs(one) for one in inputs]))
            return
        times = [one.times()[0] for one in inputs]
        for epoch in np.unique(np.concatenate(times)).tolist():
            parts = [one.take(np.flatnonzero(time == epoch)) for one, time in zip(inputs, times, strict=True)]
            self._emit_epoch(_make_change(parts), epoch)

    def _apply(self, change: Change) -> None:
        if change.pairs.shape[1] or change.writes.shape[1] or change.readers.shape[0]:
            self.engine.apply(change)
            self.applied_changes.append(change)

    def _emit_epoch(self, change: Change, epoch: int) -> None:
        """Apply the changes of an epoch and emit the changed rows of followed readers."""
        readers = self.engine.affected_readers(change)
        had_row, words = self.engine.read(readers)
        self._apply(change)
        after, new_words = self.engine.read(readers)
        same = had_row & after & (words == new_words).all(axis=0)
        is_removed, is_added = had_row & ~same, after & ~same
        rows = np.concatenate(
            (
                np.vstack((readers[is_removed], words[:, is_removed])),
                np.vstack((readers[is_added], new_words[:, is_added])),
            ),
            axis=1,
        )
        diffs = np.concatenate((np.full(int(is_removed.sum()), -1), np.ones(int(is_added.sum()), np.int64)))
        self.emit(Updates(np.ascontiguousarray(rows), np.full((1, 1), epoch, np.int64), diffs))

    def snapshot(self) -> Iterator[Updates]:
        yield Updates(np.ascontiguousarray(self.engine.rows()), self.step.stamp, ONE)

    def read_rows(self, readers: Words) -> tuple[NDArray[np.bool_], Words]:
        """Return which readers have a row, and the rows (undefined for the other readers).

        Call it only between steps.
        """
        there, words = self.engine.read(readers)
        return there, np.concatenate((readers.reshape(1, -1), words))

    def size(self) -> int:
        return self.engine.size

    def commit(self) -> None:
        self.pending.clear()
        self.applied_changes.clear()

    def maintain(self) -> None:
        self.engine.follow(find_followed_readers(self, self.engine.followed_readers))
        self.engine.maintain()

    def rollback(self) -> None:
        self.pending.clear()
        for delta in self.deltas:
            delta.clear()
        for change in reversed(self.applied_changes):
            self.engine.apply(change.opposite())
        self.applied_changes.clear()

    @property
    def rows(self) -> int:
        """Number of overlay nodes."""
        return self.engine.overlay.count

    @property
    def bytes(self) -> int:
        return self.engine.bytes


def _merge_epochs(updates: Updates) -> Updates:
    """Return the updates of several epochs as one change."""
    if updates.constant_time:
        return updates
    return updates.with_time(np.zeros((1, 1), np.int64)).consolidate()


def _make_change(parts: list[Updates]) -> Change:
    pairs, writes, readers = parts
    return Change(pairs.data, pairs.diffs(), writes.data, writes.diffs(), readers.data[0], readers.diffs())


def find_ego(output: Operator) -> Ego | None:
    """Return the Ego operator whose rows an output maps, if any."""
    while isinstance(output, Linear):
        output = output.inputs[0]
    return output if isinstance(output, Ego) else None


def read_rows(output: Operator, readers: Words) -> tuple[NDArray[np.bool_], Words]:
    """Return which readers have a row, and the output's rows for all of them (undefined for the others)."""
    if isinstance(output, Linear):
        there, rows = read_rows(output.inputs[0], readers)
        updates = Updates(np.ascontiguousarray(rows[:, there]), np.zeros((1, 1), np.int64), ONE)
        mapped_rows = apply_mfp_to_net(output.mfp, updates).data
        result = np.zeros((mapped_rows.shape[0], readers.shape[0]), np.int64)
        result[:, there] = mapped_rows
        return there, result
    if not isinstance(output, Ego):
        raise InternalError("only an ego view can be read by readers")
    return output.read_rows(readers)


def read_arrays(output: Operator, readers: Words) -> tuple[Words, Words] | None:
    """Return the lengths of the readers' arrays and their elements; None for other outputs."""
    return output.engine.read_arrays(readers) if isinstance(output, Ego) else None


def overlay_info(output: Operator) -> OverlayInfo | None:
    """Return the statistics of an ego view's overlay; None for other outputs."""
    ego = find_ego(output)
    if ego is None:
        return None
    engine, overlay = ego.engine, ego.engine.overlay
    count = overlay.count
    kinds, pushed, levels = overlay.kinds[:count], overlay.pushed[:count] == 1, overlay.levels()[:count]
    report, decision = engine.report, engine.decision
    size = overlay.inputs.size[:count]
    there = (kinds != PARTIAL) | (size > 0)  # dissolved partial aggregates have no inputs
    kinds, pushed, levels, size = kinds[there], pushed[there], levels[there], size[there]
    level_counts = []
    for level in range(int(levels.max(initial=0)) + 1):
        here = levels == level
        level_counts.append((int((here & pushed).sum()), int((here & ~pushed).sum()), int(size[here].sum())))
    readers, writers, partials = (int((kinds == kind).sum()) for kind in (READER, WRITER, PARTIAL))
    others = kinds != WRITER
    return OverlayInfo(
        engine.construction.value, writers, readers, partials, overlay.edges, overlay.pair_count,
        overlay.sharing, float(levels[kinds == READER].mean()) if readers else 0.0, tuple(level_counts),
        int((pushed & others).sum()), int((~pushed & others).sum()),
        decision.method if decision else "nothing", decision.undecided if decision else 0,
        decision.write if decision else 0.0, decision.read if decision else 0.0,
        report.seconds if report else 0.0, engine.bytes, overlay.patches,
        engine.flip_count, engine.rebuild_count,
    )  # fmt: skip
