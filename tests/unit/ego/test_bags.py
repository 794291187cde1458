"""Bags against counters: of what is kept, and of what is added up when it is read."""

from collections import Counter

import numpy as np
import pytest

from kpg.runtime.ego.partial_aggregates import Bags
from kpg.runtime.kernels import bags as kernels

WRITERS, PARTIALS, READERS = 40, 12, 60
"""More readers than are approached together, some of whom read more words than there is room for at first."""


def overlay(random: np.random.Generator) -> list[list[int]]:
    """What feeds each node, as items: partial aggregates writers, readers both of them, some taken away."""
    partials = [random.choice(WRITERS, 5, replace=False) for _ in range(PARTIALS)]
    below = [[2 * int(one) for one in some] for some in partials]
    for _ in range(READERS):
        chosen = random.choice(PARTIALS, int(random.integers(0, 5)), replace=False)
        items = [2 * (WRITERS + int(one)) for one in chosen]
        items += [2 * int(partials[one][0]) + 1 for one in chosen if random.random() < 0.5]
        below.append(items + [2 * int(one) for one in random.choice(WRITERS, 3, replace=False)])
    return [[]] * WRITERS + below


def counted(node: int, inputs: list[list[int]], own: list[Counter[int]]) -> Counter[int]:
    """How often each word is in a node's bag, by all that feeds it."""
    found = Counter(own[node])
    for item in inputs[node]:
        for word, times in counted(item >> 1, inputs, own).items():
            found[word] += -times if item & 1 else times
    return found


def expected(found: Counter[int], few: int) -> list[tuple[int, int]]:
    """The words that come as often as the ``few``-th, or oftener, each with its group."""
    ranked = sorted((-times, word) for word, times in found.items() if times > 0)
    kept = [one for one in ranked if not few or len(ranked) < few or one[0] <= ranked[few - 1][0]]
    groups = sorted({times for times, _ in kept})
    return [(word, groups.index(times)) for times, word in kept]


def asked(bags: Bags, nodes: np.ndarray, inputs: list[list[int]], pushed: np.ndarray) -> list[object]:
    """What the kernel finds of nodes, in as many calls as there has to be room for."""
    size_of = np.array([len(some) for some in inputs])
    items = np.array([item for some in inputs for item in some], np.int32)
    size, result, first, room = np.zeros(nodes.shape[0], np.int64), [], 0, 4
    while first < nodes.shape[0]:
        out = np.empty((2, room), np.int64)
        done = int(
            kernels.frequent(
                nodes, first, np.cumsum(size_of) - size_of, size_of, items, pushed, bags.heads, bags.table, 3,
                kernels.BY_COUNT, True, out, size,
            )
        )  # fmt: skip
        ends = np.cumsum(size[first:done]).tolist()
        for count, end in zip(size[first:done].tolist(), ends, strict=True):
            result.append(list(zip(*out[:, end - count : end].tolist(), strict=True)))
        first, room = done, 2 * room if done == first else room
    return result


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kept", ["writers", "partials", "some readers"])
def test_the_most_frequent_words_are_those_of_a_counter(seed: int, kept: str) -> None:
    random = np.random.default_rng(seed)
    inputs = overlay(random)
    room = len(inputs)
    pushed = np.zeros(room, np.uint8)
    pushed[: WRITERS if kept == "writers" else WRITERS + PARTIALS] = 1
    if kept == "some readers":
        pushed[WRITERS + PARTIALS :: 2] = 1
    own = [Counter[int]() for _ in range(room)]
    bags = Bags()
    bags.grow(room)
    for turn in range(3):  # with words that are looked for in the same place, and more of them each time
        nodes = np.sort(random.integers(0, WRITERS, 200 * (turn + 1)))
        words = random.choice([1, 2, 3, 64, 128, 2**40, -(2**40), *range(500, 500 + 8**turn)], nodes.shape[0])
        for node, word in zip(nodes.tolist(), words.tolist(), strict=True):
            own[node][word] += 1
        bags.add(nodes, words, np.ones(nodes.shape[0], np.int64))
        for node in np.flatnonzero(pushed[WRITERS:]) + WRITERS:
            bags.clear(np.array([node]))
            held = counted(int(node), inputs, own)
            some = [(word, times) for word, times in held.items() if times]
            bags.add(np.full(len(some), node), *np.array(some, np.int64).reshape(-1, 2).T.copy())
        readers = WRITERS + PARTIALS + random.permutation(READERS)
        bags.cached_result[:] = kernels.FREE
        found = asked(bags, readers, inputs, pushed)
        assert found == [expected(counted(int(node), inputs, own), 3) for node in readers]


def test_what_writers_get_is_spread_to_all_they_feed() -> None:
    """Bags of more rows than one line of memory, added to and taken from, some that take it away."""
    random = np.random.default_rng(1)
    bags = Bags()
    bags.grow(100)
    held = [Counter[int]() for _ in range(100)]
    for _ in range(6):
        nodes = np.repeat(np.arange(10), 12)
        words, diffs = random.integers(0, 90, 120), random.choice([-1, 1, 2], 120)
        items, origin = 2 * random.integers(0, 100, 300) + random.integers(0, 2, 300), np.empty(300, np.int64)
        origin[:] = 12 * random.integers(0, 10, 300)
        bags.spread(items, origin, nodes, words, diffs)
        for item, begun in zip(items.tolist(), origin.tolist(), strict=True):
            for place in range(begun, begun + 12):
                sign = -1 if item & 1 else 1
                held[item >> 1][int(words[place])] += sign * int(diffs[place])
        for node in range(100):
            found, times = bags.read_bag(node)
            assert dict(zip(found.tolist(), times.tolist(), strict=True)) == {
                word: count for word, count in held[node].items() if count
            }
