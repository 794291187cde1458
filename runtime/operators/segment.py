"""A part of a delta join's path: the lookups that rows make at one worker before they go to another.

See ``plan.DeltaJoin`` for which updates meet. In loops updates carry the time at which they set out below the
one that they have reached, from the path's first part to its last (see ``trace.lookup``).
"""

from collections.abc import Iterable, Iterator

import numpy as np

from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.operators.join import LARGE, Join
from kpg.runtime.operators.linear import apply_all, apply_one
from kpg.runtime.records import dataclass
from kpg.runtime.trace.updates import Updates


@dataclass(slots=True, eq=False, kw_only=True)
class Segment(Join):
    """The stages of ``paths[0]`` over ``streams[0]``; its mfp is applied by the ``first`` part only.

    Of the paths of a join one is ``followed`` when it is filled.
    """

    first: bool
    final: bool
    followed: bool
    carries: bool
    """Whether times are carried along."""

    def push(self, port: int, updates: Updates) -> None:
        if self.first:
            Operator.push(self, port, updates)
            return
        self.counters.updates_in += len(updates)
        self.place.scope.pass_on(self, port, updates)

    def accept(self, port: int, updates: Updates) -> None:
        self.deltas[0].append(updates)

    def hydrate(self) -> None:
        if self.first:
            self.schedule()

    def flush(self) -> None:
        step, delta = self.step, self.deltas[0]
        self.deltas[0] = []
        if step.hydrating and not any(step.rounds):
            if self.followed or not self.first:
                self._fill(delta)
        elif delta:
            self._follow_changes(Updates.concat(delta))

    def _fill(self, delta: list[Updates]) -> None:
        (path,), (stream,) = self.paths, self.streams
        parts: Iterable[Updates] = delta
        if self.first:
            parts = stream.snapshot() if stream.hydrated else delta
            parts = map(self._setting_out, apply_all(path.mfp, parts))
        found = self._match(path, path.stages, parts, origin=self._origin, hydrating=True)
        self._pass_on(map(self._arrived, found))

    def _follow_changes(self, updates: Updates) -> None:
        (path,) = self.paths
        if self.first:
            updates = self._setting_out(apply_one(path.mfp, updates))
        passed = 0
        if path.stages:
            updates, passed = self._meet(path, updates, self._origin)
        if not len(updates):
            return
        if passed == len(path.stages):
            self.emit(self._arrived(updates), more=len(updates) >= LARGE)
            return
        rest = self._match(path, path.stages[passed:], (updates,), origin=self._origin, hydrating=False)
        self._pass_on(map(self._arrived, rest))

    @property
    def _origin(self) -> int:
        return self.place.scope.depth if self.carries else 0

    def _setting_out(self, updates: Updates) -> Updates:
        if not self.carries:
            return updates
        return updates.with_time(np.concatenate((updates.time, updates.time)))

    def _arrived(self, updates: Updates) -> Updates:
        if not (self.carries and self.final):
            return updates
        return updates.with_time(np.ascontiguousarray(updates.time[: self._origin]))

    def snapshot(self) -> Iterator[Updates]:
        raise NotImplementedError("a part of a path has nothing of its own to read")
