"""The partial aggregates of each kind, and what they cost."""

import math
import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final, assert_never

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
from kpg.runtime.types import BIGINT


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


SIZES: Final = (2, 128)
"""Numbers of inputs that costs are measured with."""
TIMES: Final = 4096
"""How many writers, and how many reads, are timed."""


@lru_cache(maxsize=8)
def calibrated(kind: EgoFamily) -> Costs:
    """What an update, and a read, of a node costs in microseconds more than without it, as timed."""
    if kind is EgoFamily.STATES:
        return Costs(push=2.0, push_log=0.0, pull=2.0, pull_each=2.0)
    (low, pull), (high, most) = (_timed(kind, size) for size in SIZES)
    grows = (high - low) / math.log2(SIZES[-1] / SIZES[0])
    each = (most - pull) / (SIZES[-1] - SIZES[0])
    return Costs(max(low, 0.002), max(grows, 0.0), max(pull - each * SIZES[0], 0.002), max(each, 1e-3))


def _timed(kind: EgoFamily, size: int) -> tuple[float, float]:
    """Microseconds that an update is more if a node of so many inputs is pushed; a read, if it is pulled."""
    stars = TIMES // size
    call = EgoCall("distinct_count", (0,), (BIGINT,), BIGINT)
    family = family_of(kind, (call,), 0, Dictionary())
    overlay = Overlay(TIMES, stars, _stars(stars, size), TIMES)
    family.grow(overlay.room)
    writers, ones = np.arange(TIMES, dtype=np.int64), np.ones(TIMES, np.int64)
    reads = 128 if kind is EgoFamily.COUNTS else TIMES  # each makes a value in Python
    readers = TIMES + np.arange(reads, dtype=np.int64) % stars
    values = (writers * 7919 % 97).reshape(1, -1)
    took = []
    for pushed in (0, 1):
        overlay.pushed[TIMES:] = pushed
        family.fill(overlay, overlay.order())
        took.append(_seconds(partial(family.write, overlay, writers, values, ones)) / TIMES)
        took.append(_seconds(partial(family.read, overlay, readers)) / reads)
    return took[2] - took[0], took[1] - took[3]


def _stars(stars: int, size: int) -> Edges:
    """Readers of so many writers each."""
    sizes = np.zeros(TIMES + stars, np.int64)
    sizes[TIMES:] = size
    start = np.zeros(TIMES + stars, np.int64)
    start[TIMES:] = size * np.arange(stars)
    return Edges(start, sizes, np.arange(0, 2 * stars * size, 2, dtype=np.int32))


def _seconds(run: Callable[[], object]) -> float:
    """Microseconds, of the better of two times after a first one."""
    took = []
    for _ in range(3):
        begun = time.perf_counter()
        run()
        took.append(time.perf_counter() - begun)
    return min(took[1:]) * 1e6
