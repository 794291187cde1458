"""One step: the operators that have work, in dependency order, and the times that the step closes."""

import heapq
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.records import dataclass
from kpg.runtime.trace.updates import Updates

if TYPE_CHECKING:
    from kpg.runtime.dataflow.operator import Operator


@dataclass(slots=True, eq=False)
class Step:
    """The step in progress: epochs ``lower <= t < upper`` become final, in one physical batch.

    ``hydrating`` marks the step that fills newly installed operators with the history of the shared
    ones they read, all of it at the last closed epoch. In a loop each round of a step is a Step of its
    own, whose updates all bear ``rounds`` as their inner coordinates.
    """

    lower: int
    upper: int
    hydrating: bool = False
    rounds: tuple[int, ...] = ()
    queue: "list[tuple[int, Operator]]" = field(default_factory=list, repr=False)
    visited: "list[Operator]" = field(default_factory=list, repr=False)
    stamped: NDArray[np.int64] | None = None
    """The ``stamp``, once there is one: updates whose time is this very array are known to bear it."""
    _after: Antichain | None = None
    _beginning: Antichain | None = None

    @property
    def single_time(self) -> bool:
        """Whether every update of this step, in a loop of this round, bears the same time."""
        return self.hydrating or self.upper - self.lower == 1

    @property
    def time(self) -> int:
        """The last epoch that the step closes."""
        return self.upper - 1

    @property
    def stamp(self) -> NDArray[np.int64]:
        """The time ``(self.time, *rounds)`` as ``int64[depth, 1]``."""
        if self.stamped is None:
            self.stamped = np.array((self.upper - 1, *self.rounds), np.int64).reshape(-1, 1)
        return self.stamped

    @property
    def inner(self) -> NDArray[np.int64]:
        """The ``rounds`` as ``int64[depth - 1]``."""
        return self.stamp.reshape(-1)[1:]

    def stamp_on(self, updates: Updates) -> Updates:
        """Updates of this round, which are known by its ``stamp`` then if all bear the one time."""
        if updates.time.shape[1] == 1 and self.upper - self.lower == 1:
            updates.time = self.stamp
        return updates

    @property
    def after(self) -> Antichain:
        """The frontier behind all updates up to this step or, in a loop, this round of it."""
        if self._after is None:
            rounds, depth = self.rounds, len(self.rounds)
            if not depth:
                self._after = Antichain.known(((self.upper,),))
                return self._after
            if depth == 1:
                self._after = Antichain.known(((self.lower, rounds[0] + 1), (self.upper, 0)))
                return self._after
            later = [(*rounds[:i], rounds[i] + 1, *(0,) * (depth - 1 - i)) for i in reversed(range(depth))]
            elements = (*((self.lower, *each) for each in later), (self.upper, *(0,) * depth))
            self._after = Antichain.known(elements)
        return self._after

    @property
    def beginning(self) -> Antichain:
        """The frontier of the last epoch that the step closes, at round 0 of every loop."""
        if self._beginning is None:
            self._beginning = Antichain.known(((self.upper - 1, *(0,) * len(self.rounds)),))
        return self._beginning

    @property
    def floor(self) -> int:
        """The epoch that older ones count as: none of this step's but when hydrating (see ``lookup``)."""
        return self.lower if self.hydrating else self.lower - 1

    def next(self) -> "Operator | None":
        """The next operator to flush; each once, inputs before readers."""
        if not self.queue:
            return None
        _, operator = heapq.heappop(self.queue)
        self.visited.append(operator)
        return operator
