"""``tail.insert``: a step's rows among those that came before."""

from collections.abc import Iterator

import numpy as np

from kpg.runtime.kernels import layout
from kpg.runtime.trace.head import Tail
from kpg.runtime.trace.updates import Updates, Words
from tests.model.kernels import triples
from tests.model.references import Case, Random, reference
from tests.model.references.heads import Update, updates_at
from tests.model.references.words import diffs, size, words


def some_step(random: Random, width: int, epoch: int) -> Updates:
    """Consolidated rows of one time, of few values or of any words."""
    n = size(random)
    data = random.integers(0, 3, (width, n)) if random.random() < 0.6 else words(random, width, n)
    time = np.full((1, 1), epoch, np.int64)
    return Updates(np.ascontiguousarray(data), time, diffs(random, n)).consolidate()


def insert_cases(random: Random) -> Iterator[Case]:
    width = int(random.integers(0, 4))
    tail = Tail(width, 1)
    for epoch in range(int(random.integers(0, 3))):
        tail.insert(some_step(random, width, epoch))
    given = some_step(random, width, 5)
    yield Case((given.data, given.time, given.diff, tail.description, tail.spare), tail)


def seen_insert(result: None, data: Words, time: Words, diff: Words, tail: Words, spare: Words) -> object:
    return in_order(updates_at(tail)), int(tail[layout.ROWS]), int(tail[layout.STRIDE])


def in_order(updates: list[Update]) -> list[Update]:
    """The updates, which are to be sorted by row and time."""
    assert updates == sorted(updates, key=lambda one: one[:2])
    return updates


@reference("tail.insert", insert_cases, seen_insert)
def insert(data: Words, time: Words, diff: Words, tail: Words, spare: Words) -> object:
    expected = sorted([*updates_at(tail), *triples(Updates(data, time, diff))], key=lambda one: one[:2])
    return expected, len(expected), len(expected)
