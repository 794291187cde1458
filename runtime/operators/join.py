"""``plan.DeltaJoin``: a delta join over shared arrangements, without intermediate state."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.errors import DataError
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.linear import apply_all
from kpg.runtime.program import Program
from kpg.runtime.trace.lookup import Order, lookup
from kpg.runtime.trace.updates import Updates

LARGE = 1 << 18
"""Output chunks of at least this many rows are absorbed downstream before the next is made."""
SAMPLE = 256
"""Rows that are followed along a path to see what it costs."""
MOST_TOUCHED = 1 << 20
"""A sample that meets so many rows costs what it is to save: a smaller one is followed instead."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One lookup: ``program`` sees the kept stream columns, then the kept arrangement columns."""

    arrangement: Arrange
    relation: int
    key: tuple[int, ...]
    keep_stream: NDArray[np.int64]
    keep_batch: NDArray[np.int64]
    program: Program


@dataclass(frozen=True, slots=True)
class JoinPath:
    """How changes of one relation find their matches in all others."""

    relation: int
    program: Program
    stages: tuple[Stage, ...]


@dataclass(slots=True, eq=False, kw_only=True)
class Join(Operator):
    """Each relation's changes go along its path; see ``plan.DeltaJoin`` for which updates meet."""

    streams: tuple[Operator, ...]
    paths: tuple[JoinPath, ...]
    deltas: list[list[Updates]] = field(default_factory=list)
    matched: int = 0

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
                if all(stage.arrangement.layers for stage in path.stages):
                    self._pass_on(self._changes(path, Updates.concat(delta)))

    def _changes(self, path: JoinPath, delta: Updates) -> Iterable[Updates]:
        """What changes of the path's relation make of the result.

        In a loop, a match can move an update to a later time; what it meets next goes by its time at the
        start, which is carried along below the other.
        """
        depth = self.place.scope.depth
        if depth == 1 or len(path.stages) == 1:
            return self._follow(path, (delta,), hydrating=False)
        start = delta.with_time(np.concatenate((delta.time, delta.time)))
        found = self._follow(path, (start,), origin=depth, hydrating=False)
        return (updates.with_time(updates.time[:depth]) for updates in found)

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
        found = apply_all(path.program, parts)
        for stage in path.stages:
            if hydrating:
                order = Order.ANY
            else:
                order = Order.THROUGH if stage.relation < path.relation else Order.BEFORE
            found = apply_all(stage.program, self._matches(stage, found, order, origin))
        return found

    def _matches(
        self, stage: Stage, stream: Iterable[Updates], order: Order, origin: int
    ) -> Iterator[Updates]:
        step, keep = self.step, (stage.keep_stream, stage.keep_batch)
        poll = self.place.scope.interrupt.check
        closed, floor = step.lower, step.floor
        for updates in stream:
            layers = stage.arrangement.layers
            for matches in lookup(
                updates, stage.key, layers, *keep, order, closed=closed, floor=floor, origin=origin, poll=poll
            ):
                self.matched += len(matches)
                yield matches

    def _contents(self, relation: int) -> Iterator[Updates]:
        """All of a relation: what a new input has pushed in this step, or an older one's history."""
        stream = self.streams[relation]
        if stream.hydrated:
            yield from stream.snapshot()
        else:
            yield from self.deltas[relation]

    def _cheapest(self) -> JoinPath:
        """The path that touches the fewest rows, judged by following a sample of its relation."""
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
        # A sample may hold a row that came without its going, on which a program may fail.
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
