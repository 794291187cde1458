"""``plan.Join``: a delta join over shared arrangements, without intermediate state."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from kpg.runtime.program import Program
from numpy.typing import NDArray

from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.linear import apply
from kpg.runtime.trace.lookup import Order, lookup
from kpg.runtime.trace.updates import Updates

LARGE = 1 << 18
"""Output chunks of at least this many rows are absorbed downstream before the next is made."""
SAMPLE = 256


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
    """Each relation's changes go along its path; see ``plan.Join`` for which updates meet."""

    streams: tuple[Operator, ...]
    paths: tuple[JoinPath, ...]
    deltas: list[list[Updates]] = field(default_factory=list)
    matched: int = 0

    def push(self, port: int, updates: Updates) -> None:
        self.counters.updates_in += len(updates)
        self.deltas[port].append(updates)
        self.schedule()

    def flush(self) -> None:
        if self.step.hydrating:
            self._hydrate()
        else:
            for path in self.paths:
                delta = self.deltas[path.relation]
                if delta:
                    self.deltas[path.relation] = []
                    for updates in self._follow(path, Updates.concat(delta), hydrating=False):
                        self.emit(updates, more=len(updates) >= LARGE)

    def hydrate(self) -> None:
        self.schedule()

    def _hydrate(self) -> None:
        """The whole result, along the one path that looks cheapest: every pair is met exactly once."""
        path = self._cheapest()
        for updates in self._contents(path.relation):
            for result in self._follow(path, updates, hydrating=True):
                self.emit(result, more=len(result) >= LARGE)
        self._clear()

    def snapshot(self) -> Iterator[Updates]:
        path = self._cheapest()
        for updates in self._contents(path.relation):
            yield from self._follow(path, updates, hydrating=True)

    def _follow(self, path: JoinPath, updates: Updates, *, hydrating: bool) -> Iterator[Updates]:
        updates = apply(path.program, updates)
        return self._stages(path.relation, path.stages, updates, hydrating)

    def _stages(
        self, relation: int, stages: Sequence[Stage], updates: Updates, hydrating: bool
    ) -> Iterator[Updates]:
        if not len(updates):
            return
        if not stages:
            yield updates
            return
        stage, rest = stages[0], stages[1:]
        if hydrating:
            order = Order.ANY
        else:
            order = Order.THROUGH if stage.relation < relation else Order.BEFORE
        layers = stage.arrangement.layers
        for matches in lookup(updates, stage.key, layers, stage.keep_stream, stage.keep_batch, order):
            self.matched += len(matches)
            yield from self._stages(relation, rest, apply(stage.program, matches), hydrating)

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
        step = max(1, len(first) // SAMPLE)
        sample = first.take(np.arange(0, len(first), step, dtype=np.int64))
        before = self.matched
        for _ in self._follow(path, sample, hydrating=True):
            pass
        touched = self.matched - before
        self.matched = before
        return size * (1.0 + touched / len(sample))

    def _clear(self) -> None:
        for delta in self.deltas:
            delta.clear()

    def commit(self) -> None:
        self._clear()

    def rollback(self) -> None:
        self._clear()
