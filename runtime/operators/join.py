"""``plan.DeltaJoin``: a delta join over shared arrangements, without intermediate state."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.errors import DataError
from kpg.runtime.mfp import CompiledMfp
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.linear import apply_all, apply_one
from kpg.runtime.records import dataclass
from kpg.runtime.trace.lookup import Order, lookup
from kpg.runtime.trace.meeting import Meeting
from kpg.runtime.trace.updates import Updates

LARGE = 1 << 18
"""Output chunks of at least this many rows are absorbed downstream before the next is made."""
SAMPLE = 256
"""Rows that are followed along a path to see what it costs."""
GROWN = 1.25
"""A lookup after which there are so many times as many updates may have met what cancels out. Twelve lookups
that grow by a little less make 14 times as many of a few."""
MOST_TOUCHED = 1 << 20
"""A sample that meets so many rows costs what it is to save: a smaller one is followed instead."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One lookup: ``mfp`` sees the kept stream columns, then the kept arrangement columns."""

    arrangement: Arrange
    relation: int
    key: tuple[int, ...]
    keep_stream: NDArray[np.int64]
    keep_batch: NDArray[np.int64]
    mfp: CompiledMfp
    meeting: Meeting


@dataclass(frozen=True, slots=True)
class JoinPath:
    """How changes of one relation find their matches in all others."""

    relation: int
    mfp: CompiledMfp
    stages: tuple[Stage, ...]


def settled(updates: Updates, before: int) -> Updates:
    """What ``before`` updates of a stream have become, without what cancels out, if there may be much of it.

    A row that was replaced is met as having come, gone, and as what it is now: where all n relations of a
    path have rows that change together, that would make 3^n combinations, of which all but one cancel out.
    """
    if updates.constant_diff or updates.data.shape[1] < GROWN * before:
        return updates
    return updates.consolidate()


@dataclass(slots=True, eq=False, kw_only=True)
class Join(Operator):
    """Each relation's changes go along its path; see ``plan.DeltaJoin`` for which updates meet."""

    streams: tuple[Operator, ...]
    paths: tuple[JoinPath, ...]
    deltas: list[list[Updates]] = field(default_factory=list)
    matched: int = 0
    chosen: int | None = None
    """The path that is followed to fill it, if many workers have agreed on one."""

    def accept(self, port: int, updates: Updates) -> None:
        self.deltas[port].append(updates)

    def flush(self) -> None:
        step = self.step
        if step.hydrating and not any(step.rounds):
            self._hydrate()
            return
        for path in self.paths:
            delta = self.deltas[path.relation]
            if delta:
                self.deltas[path.relation] = []
                for stage in path.stages:
                    if not stage.arrangement.spine.sought():
                        break
                else:
                    self._change(path, settled(Updates.concat(delta), len(delta[0])))

    def _change(self, path: JoinPath, delta: Updates) -> None:
        """Emit what changes of the path's relation make of the result.

        In a loop, a match can move an update to a later time; what it meets next goes by its time at the
        start, which is carried along below the other.
        """
        depth, origin = self.place.scope.depth, 0
        time = delta.time
        if depth > 1 and len(path.stages) > 1:
            delta, origin = delta.with_time(np.concatenate((time, time))), depth
        updates, passed = self._meet(path, apply_one(path.mfp, delta), origin)
        if not updates.data.shape[1]:
            return
        if passed == len(path.stages):
            if origin:
                updates = updates.with_time(time if updates.time is delta.time else updates.time[:depth])
            self.emit(updates, more=updates.data.shape[1] >= LARGE)
            return
        found = self._match(path, path.stages[passed:], (updates,), origin=origin, hydrating=False)
        if origin:
            found = (one.with_time(one.time[:depth]) for one in found)
        self._pass_on(found)

    def _meet(self, path: JoinPath, updates: Updates, origin: int) -> tuple[Updates, int]:
        """Follow the path as long as updates are few: what comes of them, and how many stages they passed."""
        step = self.step
        closed, floor, relation = step.lower, step.floor, path.relation
        for passed, stage in enumerate(path.stages):
            if not updates.data.shape[1]:
                return updates, passed
            order = Order.THROUGH if stage.relation < relation else Order.BEFORE
            met = stage.meeting.of(updates, stage.arrangement.spine.sought(), order, closed, floor, origin)
            if met is None:
                return updates, passed
            self.matched += met.data.shape[1]
            if stage is not path.stages[-1]:
                met = settled(met, updates.data.shape[1])
            updates = apply_one(stage.mfp, met)
        return updates, len(path.stages)

    def _pass_on(self, results: Iterable[Updates]) -> None:
        """Emit results one by one; Ctrl-C is noticed between them."""
        interrupt = self.place.scope.interrupt
        for updates in results:
            self.emit(updates, more=updates.data.shape[1] >= LARGE)
            interrupt.check()

    def hydrate(self) -> None:
        self.schedule()

    def _hydrate(self) -> None:
        """The whole result, along the one path that looks cheapest: every pair is met exactly once."""
        self._pass_on(self.snapshot())
        self._clear()

    def snapshot(self) -> Iterator[Updates]:
        path = self._cheapest()
        return self._follow(path, self._contents(path.relation), hydrating=True)

    def _follow(
        self, path: JoinPath, parts: Iterable[Updates], *, origin: int = 0, hydrating: bool
    ) -> Iterator[Updates]:
        """The parts of the path's relation matched with all others; every part goes through at once.

        ``origin`` is that of ``lookup``.
        """
        found = apply_all(path.mfp, parts)
        return self._match(path, path.stages, found, origin=origin, hydrating=hydrating)

    def _match(
        self,
        path: JoinPath,
        stages: tuple[Stage, ...],
        found: Iterable[Updates],
        *,
        origin: int,
        hydrating: bool,
    ) -> Iterator[Updates]:
        """What has got as far as these stages of the path matched with the rest."""
        found = iter(found)
        for stage in stages:
            if hydrating:
                order = Order.ANY
            else:
                order = Order.THROUGH if stage.relation < path.relation else Order.BEFORE
            last = stage is stages[-1]
            found = apply_all(stage.mfp, self._matches(stage, found, order, origin, last=last))
        return found

    def _matches(
        self, stage: Stage, stream: Iterable[Updates], order: Order, origin: int, *, last: bool
    ) -> Iterator[Updates]:
        step, keep = self.step, (stage.keep_stream, stage.keep_batch)
        poll = self.place.scope.interrupt.check
        closed, floor = step.lower, step.floor
        for updates in stream:
            sought = stage.arrangement.sought
            for matches in lookup(
                updates, stage.key, sought, *keep, order, closed=closed, floor=floor, origin=origin, poll=poll
            ):
                self.matched += len(matches)
                yield matches if last else settled(matches, len(updates))
                poll()  # a predicate may let none of them through, so that nobody else looks

    def _contents(self, relation: int) -> Iterator[Updates]:
        """All of a relation: what a new input has pushed in this step, or an older one's history."""
        stream = self.streams[relation]
        if stream.hydrated:
            yield from stream.snapshot()
        else:
            yield from self.deltas[relation]

    def _cheapest(self) -> JoinPath:
        """The path that touches the fewest rows, judged by following a sample of its relation."""
        if self.chosen is not None:
            return self.paths[self.chosen]
        return min(self.paths, key=self._estimate)

    def _estimate(self, path: JoinPath) -> float:
        stream = self.streams[path.relation]
        size = stream.size() if stream.hydrated else sum(len(u) for u in self.deltas[path.relation])
        first = next((u for u in self._contents(path.relation) if len(u)), None)
        if first is None:
            return 0.0
        rows = SAMPLE
        while True:
            step = max(1, len(first) // rows)
            sample = first.take(np.arange(0, len(first), step, dtype=np.int64))
            touched = self._touched(path, sample)
            if touched < MOST_TOUCHED or len(sample) == 1:
                return size * (1.0 + touched / len(sample))
            rows = max(1, len(sample) // 16)

    def _touched(self, path: JoinPath, sample: Updates) -> int:
        """How many rows a sample meets on the path; it is left once they are ``MOST_TOUCHED``."""
        before = self.matched
        # A sample may hold a row that came without its going, on which an expression may fail.
        with suppress(DataError):
            for _ in self._follow(path, (sample,), hydrating=True):
                self.place.scope.interrupt.check()
                if self.matched - before >= MOST_TOUCHED:
                    break
        touched = self.matched - before
        self.matched = before
        return touched

    def _clear(self) -> None:
        for delta in self.deltas:
            delta.clear()

    def commit(self) -> None:
        self._clear()

    def rollback(self) -> None:
        self._clear()
