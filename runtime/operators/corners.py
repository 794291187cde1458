"""Reduces in loops that read their input's trace: which times to read a group at, and when again.

The update of a function of the accumulated input at time t is the mixed difference over the unit cube
below t: at each corner some coordinates are t's and the others just before; the sign alternates. It can be
other than zero only at least upper bounds of times of the group's updates.
"""

from dataclasses import field
from functools import cache
from itertools import pairwise, product
from operator import gt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.step import Step
from kpg.runtime.records import dataclass
from kpg.runtime.trace.batch import Layers
from kpg.runtime.trace.collect import group_times, later_rounds

Words = NDArray[np.int64]
Rounds = tuple[int, ...]


FIRST: Final = np.zeros(1, np.int64)
"""The number of the only group."""

FEW_OWED = 8
"""So many groups that are owed are noted one by one."""

FEW_GROUPS = 8
"""So many groups are looked up at once rather than asking each layer first whether it has anything later."""


@dataclass(frozen=True, slots=True)
class Corners:
    """The corners of the cube below a time, as what to subtract from its coordinates, and their signs."""

    offsets: Words
    signs: Words

    @property
    def each(self) -> int:
        """How many corners a time has."""
        return self.signs.shape[0]

    @staticmethod
    def below(step: Step) -> "Corners":
        """The corners at which there can be rows: none before round 0, nor before the epoch of hydration."""
        return _corners((not step.hydrating, *map(bool, step.rounds)))

    @staticmethod
    def from_here(step: Step) -> "Corners":
        """Those that will do in this and all later rounds of the innermost loop."""
        return _corners((not step.hydrating, *map(bool, step.rounds[:-1]), True))

    def times(self, epochs: Words, rounds: Rounds) -> Words:
        """The corners of each ``(epoch, *rounds)``, adjacent: ``int64[depth, len(epochs) * each]``."""
        times = np.empty((len(rounds) + 1, epochs.shape[0], self.each), np.int64)
        times[0] = epochs[:, None] - self.offsets[0]
        for i, r in enumerate(rounds):
            times[i + 1] = r - self.offsets[i + 1]
        return times.reshape(len(rounds) + 1, -1)


@cache
def _corners(both: tuple[bool, ...]) -> Corners:
    """The corners that differ in the coordinates that have both sides."""
    offsets = np.array(list(product(*((0, 1) if two else (0,) for two in both))), np.int64).T
    return Corners(np.ascontiguousarray(offsets), 1 - 2 * (offsets.sum(axis=0) % 2))


ONCE: Final = _corners((True,))
"""Those of a time outside of loops: the time, and the one before."""


@dataclass(slots=True)
class Owed:
    """The groups to be looked at again in later rounds of the step."""

    groups: dict[Rounds, list[Words]] = field(default_factory=dict)

    def take(self, rounds: Rounds) -> list[Words]:
        """The prefixes ``int64[group, n]`` owed at these rounds."""
        return self.groups.pop(rounds, [])

    def clear(self) -> None:
        """Owe nothing."""
        self.groups.clear()

    def add(self, prefix: Words, layers: Layers, step: Step) -> tuple[Words, Words, list[Rounds]]:
        """What to look at now and later, when the groups ``prefix int64[group, n]`` have changed.

        Returns (group, epoch) pairs for this round, and the rounds at which groups have come to be owed:
        the least upper bounds of this round and the rounds in each group's history; of these, in a loop
        that is not nested, only the next, at which the group will come to owe the one after.
        """
        if step.single_time:
            count = prefix.shape[1]
            now = (FIRST, step.stamp[0]) if count == 1 else (np.arange(count), np.full(count, step.time))
            if count > FEW_GROUPS and not _has_later(layers, step.rounds):
                return *now, []
            return *now, self.owe(prefix, *later_rounds(layers, prefix, step.inner))
        rounds = np.array(step.rounds, np.int64).reshape(-1, 1)
        known = layers[0].time.shape[0] - 1  # an arrangement that enters the loop lacks the last rounds
        times, group = group_times(layers, prefix, step.lower)
        times = np.concatenate((times, np.zeros((len(rounds) - known, times.shape[1]), np.int64)))
        here = (times[0] >= step.lower) & (times[1:] <= rounds).all(axis=0)
        pairs = distinct_columns(np.stack((group[here], times[0, here])))
        now = pairs[0], pairs[1]
        bound = np.maximum(times[1:], rounds)
        after = np.flatnonzero((bound != rounds).any(axis=0))
        if not after.shape[0]:
            return *now, []
        owed = distinct_columns(np.concatenate((group[None, after], bound[:, after])))
        if len(step.rounds) == 1:
            owed = owed[:, np.flatnonzero(np.diff(owed[0], prepend=-1))]
        return *now, self._owe(prefix, owed)

    def owe(self, prefix: Words, at: Words, group: Words) -> list[Rounds]:
        """Note groups, columns of ``prefix``, at rounds, columns of ``at``; which rounds these are."""
        if group.shape[0] <= FEW_OWED:
            return self._owe_few(prefix, at.T.tolist(), group.tolist())
        return self._owe(prefix, np.concatenate((group.reshape(1, -1), at)))

    def _owe_few(self, prefix: Words, rounds: list[list[int]], groups: list[int]) -> list[Rounds]:
        """Note each group, a column of ``prefix``, at its rounds."""
        found: dict[Rounds, None] = {}
        for at, number in zip(map(tuple, rounds), groups, strict=True):
            self.groups.setdefault(at, []).append(prefix[:, number : number + 1])
            found[at] = None
        return list(found)

    def _owe(self, prefix: Words, owed: Words) -> list[Rounds]:
        """Note groups by the rounds: columns (group, rounds...) of ``owed``."""
        order = np.lexsort(owed[:0:-1])
        at = owed[1:, order]
        starts = [0, *(np.flatnonzero((at[:, 1:] != at[:, :-1]).any(axis=0)) + 1).tolist(), order.shape[0]]
        found: list[Rounds] = []
        for start, end in pairwise(starts):
            rounds = tuple(at[:, start].tolist())
            self.groups.setdefault(rounds, []).append(prefix[:, owed[0, order[start:end]]])
            found.append(rounds)
        return found


def _has_later(layers: Layers, rounds: Rounds) -> bool:
    """Whether there may be later rounds; what is not in the layers' times is round 0, which is not later."""
    return any(any(map(gt, layer.latest[1:], rounds)) for layer in layers)


def distinct_columns(array: Words) -> Words:
    """The distinct columns in lexicographic order; without rows, one column."""
    if not array.shape[0]:
        return np.empty((0, 1), np.int64)
    if array.shape[0] == 1:
        return np.unique(array[0]).reshape(1, -1)
    ordered = array[:, np.lexsort(array[::-1])]
    new = np.ones(ordered.shape[1], np.bool_)
    new[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    return np.ascontiguousarray(ordered[:, new])
