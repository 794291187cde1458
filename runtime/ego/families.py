"""The partial aggregates of each kind, and what they cost."""

import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import assert_never

import numpy as np

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.ego.counts import Counts
from kpg.runtime.ego.deciding import Costs
from kpg.runtime.ego.extremes import Extremes
from kpg.runtime.ego.family import Family
from kpg.runtime.ego.overlay import Edges, Overlay
from kpg.runtime.ego.states import States
from kpg.runtime.ego.sums import Sums
from kpg.runtime.plan.ego import EgoCall, EgoFamily


def family_of(kind: EgoFamily, calls: tuple[EgoCall, ...], few: int, dictionary: Dictionary) -> Family:
    """Partial aggregates of a kind."""
    match kind:
        case EgoFamily.SUMS:
            return Sums(calls)
        case EgoFamily.LEAST:
            return Extremes(greatest=False)
        case EgoFamily.GREATEST:
            return Extremes(greatest=True)
        case EgoFamily.COUNTS:
            return Counts(calls, few, dictionary)
        case EgoFamily.STATES:
            return States(calls, dictionary)
        case _:
            assert_never(kind)


SIZES = (2, 16, 128)
"""Numbers of inputs that costs are measured with."""
TIMES = 400


@lru_cache(maxsize=8)
def calibrated(kind: EgoFamily) -> Costs:
    """What an update, and a read, of a node costs in microseconds, as timed on nodes of some sizes."""
    if kind is EgoFamily.STATES:
        return Costs(push=2.0, push_log=0.0, pull=2.0, pull_each=2.0)
    from kpg.runtime.types import BIGINT

    calls = (EgoCall("distinct_count", (0,), (BIGINT,), BIGINT),)
    writing, reading = [], []
    for size in SIZES:
        family = family_of(kind, calls, 0, Dictionary())
        overlay = Overlay(size, 1, _star(size), size)
        family.grow(overlay.room)
        nodes = np.arange(TIMES, dtype=np.int64) % size
        values = (np.arange(TIMES, dtype=np.int64) * 7919 % 97).reshape(1, -1)
        overlay.pushed[:] = 1
        writing.append(_seconds(partial(family.write, overlay, nodes, values, np.ones(TIMES, np.int64))))
        overlay.pushed[size:] = 0
        reader = np.full(TIMES, size, np.int64)
        reading.append(_seconds(partial(family.read, overlay, reader)))
    each, first = np.polyfit(np.array(SIZES, float), np.array(reading), 1)
    slope, least = np.polyfit(np.log2(SIZES), np.array(writing), 1)
    return Costs(max(least, 0.005), max(slope, 0.0), max(first, 0.005), max(each, 0.0005))


def _star(size: int) -> Edges:
    """So many writers that feed one reader."""
    sizes = np.zeros(size + 1, np.int64)
    sizes[size] = size
    return Edges(np.zeros(size + 1, np.int64), sizes, np.arange(0, 2 * size, 2, dtype=np.int32))


def _seconds(run: Callable[[], object]) -> float:
    """Microseconds for each of :data:`TIMES`, the better of two times after a first one."""
    took = []
    for _ in range(3):
        begun = time.perf_counter()
        run()
        took.append(time.perf_counter() - begun)
    return min(took[1:]) * 1e6 / TIMES
