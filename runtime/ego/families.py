"""The partial aggregates of each kind, and what they cost."""

import itertools
import math
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Final, assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.ego.counts import Counts
from kpg.runtime.ego.deciding import Costs
from kpg.runtime.ego.extremes import Extremes
from kpg.runtime.ego.family import Family
from kpg.runtime.ego.overlay import Edges, Overlay
from kpg.runtime.ego.states import States
from kpg.runtime.ego.sums import Sums
from kpg.runtime.plan.ego import EgoCall, EgoFamily
from kpg.runtime.types import BIGINT, INTEGER, array

Words = NDArray[np.int64]


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


SIZES: Final = (2, 64)
"""Numbers of inputs that costs are measured with."""
HOT: Final = 1 << 11
"""How many writers there are when costs are timed of what is at hand."""
COLD: Final = 1 << 17
"""How many there are if what is written and read shall not be at hand."""
EACH: Final = 8
"""How many readers each of them has."""
BATCH: Final = 1 << 10
"""So many are written, or read, at once."""
SAMPLED: Final = 16
"""So many batches, at most, are timed at once, and then others."""
LEAST: Final = 0.002
"""Microseconds: what is timed as less is the clock's."""


@lru_cache(maxsize=8)
def calibrated(kind: EgoFamily, *, answers: bool = False) -> Costs:
    """What an update, and a read, of a node costs in microseconds more than without it, as timed.

    ``answers`` if what is read has to be made of more than a number.
    """
    if kind is EgoFamily.STATES:
        return Costs(push=2.0, push_log=0.0, pull=2.0, pull_each=2.0)
    low, high = (_pushing(kind, size, HOT) for size in SIZES)
    push = max(low, LEAST)
    grows = max((high - low) / math.log2(SIZES[1] / SIZES[0]), 0.0)
    pull, each = _line([_pulling(kind, size, HOT) for size in SIZES])
    far, far_each = _line([_pulling(kind, size, COLD) for size in SIZES])
    return Costs(
        push, min(grows, push), pull, each, _answering() if answers else 0.0,
        max(_pushing(kind, SIZES[0], COLD) - push, 0.0), max(far - pull, 0.0), max(far_each - each, 0.0),
    )  # fmt: skip


def _line(took: list[float]) -> tuple[float, float]:
    """What is the same for all sizes, and what is more for each input."""
    each = max((took[1] - took[0]) / (SIZES[1] - SIZES[0]), LEAST)
    return max(took[0] - each * SIZES[0], LEAST), each


def _pushing(kind: EgoFamily, size: int, count: int) -> float:
    """Microseconds that an update is more for each node of so many inputs that is pushed."""
    random = np.random.default_rng(1)
    family, overlay = _example(kind, size, count, random)
    batches = random.permutation(count).reshape(-1, BATCH)
    turns = np.zeros(batches.shape[0], np.int64)
    places = itertools.cycle(range(batches.shape[0]))

    def write() -> None:
        for place in itertools.islice(places, some):
            _replace(family, overlay, batches[place], int(turns[place]))
            turns[place] += 1

    some = min(SAMPLED, batches.shape[0])

    took = []
    for pushed in (0, 1):
        overlay.pushed[count:] = pushed
        overlay.settle(every=True)
        family.fill(overlay, overlay.order())
        took.append(_seconds(write) / EACH / (some * BATCH))
    return took[1] - took[0]


def _pulling(kind: EgoFamily, size: int, writers: int) -> float:
    """Microseconds that reading a node of so many inputs takes, if all are read in turns."""
    random = np.random.default_rng(1)
    family, overlay = _example(kind, size, writers, random)
    overlay.settle(every=True)
    order = writers + random.permutation(overlay.count - writers)
    batches = itertools.cycle(np.split(order, range(BATCH, order.shape[0], BATCH)))
    some = min(SAMPLED, -(-order.shape[0] // BATCH))

    def read() -> None:
        for _ in range(some):
            family.read(overlay, next(batches))

    return _seconds(read) / min(some * BATCH, order.shape[0])


def _example(kind: EgoFamily, size: int, writers: int, random: np.random.Generator) -> tuple[Family, Overlay]:
    """So many writers, each of whom has written, and readers of ``size`` of them."""
    call = EgoCall("distinct_count", (0,), (BIGINT,), BIGINT)
    family = family_of(kind, (call,), 0, Dictionary())
    stars = EACH * writers // size
    overlay = Overlay(writers, stars, _stars(writers, stars, size, random), EACH * writers)
    family.grow(overlay.room)
    nodes = random.permutation(writers)
    family.write(overlay, nodes, _values(nodes, 0), np.ones(writers, np.int64))
    family.commit()
    return family, overlay


def _answering() -> float:
    """Microseconds that it takes to make an answer of ten words, which was made before."""
    call = EgoCall("top_k", (0, 1), (BIGINT, INTEGER), array(BIGINT))
    family = family_of(EgoFamily.COUNTS, (call,), 10, Dictionary())
    nothing = np.zeros(128, np.int64)
    overlay = Overlay(128, 0, Edges(nothing, nothing.copy(), np.empty(0, np.int32)), 0)
    family.grow(overlay.room)
    nodes, ones = np.arange(128), np.ones(128, np.int64)

    def read() -> None:
        for value in (1, 2):  # what has changed is not known
            family.write(overlay, nodes, np.full((1, 128), value), ones * (2 * value - 3))
        family.listed(overlay, nodes)

    for value in range(10):
        family.write(overlay, nodes, np.full((1, 128), value), 40 * ones)
    return max(_seconds(read) - _seconds(lambda: family.listed(overlay, nodes)), 0.0) / nodes.shape[0]


def _values(writers: Words, turn: int) -> Words:
    return ((writers * 7919 + 31 * turn) % 97).reshape(1, -1)


def _replace(family: Family, overlay: Overlay, writers: Words, turn: int) -> None:
    """Have another value of each writer in the place of the one there is."""
    nodes = np.repeat(writers, 2)
    rows = np.stack((_values(writers, turn)[0], _values(writers, turn + 1)[0]), axis=1).reshape(1, -1)
    family.write(overlay, nodes, rows, np.tile(np.array([-1, 1]), writers.shape[0]))
    family.commit()


def _stars(writers: int, stars: int, size: int, random: np.random.Generator) -> Edges:
    """Readers of so many writers each, in no order."""
    each = np.concatenate([random.permutation(writers) for _ in range(EACH)])
    sizes = np.zeros(writers + stars, np.int64)
    sizes[writers:] = size
    start = np.zeros(writers + stars, np.int64)
    start[writers:] = size * np.arange(stars)
    return Edges(start, sizes, (2 * each[: stars * size]).astype(np.int32))


def _seconds(run: Callable[[], object]) -> float:
    """Microseconds, of the best of a few times after a first one: others may have the processor meanwhile."""
    took = []
    for _ in range(5):
        begun = time.thread_time()
        run()
        took.append(time.thread_time() - begun)
    return min(took[1:]) * 1e6
