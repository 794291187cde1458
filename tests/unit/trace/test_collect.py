"""Mixed differences of ordered groups, against dictionaries."""

import random
from collections import Counter
from itertools import product

import numpy as np
import pytest

from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.trace.batch import Batch, Layers, differences
from kpg.runtime.trace.updates import Updates

Row = tuple[int, ...]
Time = tuple[int, ...]
START = Antichain.minimum(2)


def batch_of(updates: list[tuple[Row, Time, int]], width: int) -> Batch:
    rows = np.array([row for row, _, _ in updates], np.int64).reshape(-1, width).T
    times = np.array([time for _, time, _ in updates], np.int64).reshape(-1, 2).T
    diffs = np.array([diff for _, _, diff in updates], np.int64)
    return Batch.build(Updates.of(rows, times, diffs), START, START)


def window(
    updates: list[tuple[Row, Time, int]], group: Row, time: Time, skip: int, limit: int
) -> Counter[Row]:
    """The rows of a group accumulated at a time, in order, those from ``skip`` on, at most ``limit``."""
    net: Counter[Row] = Counter()
    for row, at, diff in updates:
        if row[: len(group)] == group and at[0] <= time[0] and at[1] <= time[1]:
            net[row] += diff
    ordered = [row for row in sorted(net) for _ in range(net[row])]
    return Counter(ordered[skip : skip + limit])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("group", [0, 1, 2])
@pytest.mark.parametrize(("skip", "limit"), [(0, 1), (0, 3), (2, 2), (1, 1 << 40)])
def test_windows_differ_as_their_contents_do(seed: int, group: int, skip: int, limit: int) -> None:
    source = random.Random(seed)
    width, layers, updates = 3, [], []
    for _ in range(source.randrange(1, 4)):
        some = [
            (tuple(source.randrange(4) for _ in range(width)), (source.randrange(3), source.randrange(3)), 1)
            for _ in range(source.choice((1, 30, 120)))
        ]
        some += [(row, (min(2, t + 1), r), -1) for row, (t, r), _ in source.sample(some, len(some) // 3)]
        layers.append(batch_of(some, width))
        updates += some
    prefixes = sorted({row[:group] for row, _, _ in updates} | {(9,) * group, (-1,) * group})
    tasks = [(i, epoch) for i in range(len(prefixes)) for epoch in (1, 2)]
    corners = [(a, b) for a, b in product((0, 1), (0, 1))]
    signs = [1, -1, -1, 1]
    rows, diffs, task, vain = differences(
        Layers(layers),
        np.array(prefixes, np.int64).reshape(len(prefixes), group).T.copy(),
        np.array([i for i, _ in tasks], np.int64),
        (np.array([epoch for _, epoch in tasks], np.int64), np.array([2], np.int64)),
        (np.array(corners, np.int64).T.copy(), np.array(signs, np.int64)),
        width,
        skip,
        limit,
    )
    found: dict[int, list[tuple[Row, int]]] = {}
    for row, diff, at in zip(rows.T.tolist(), diffs.tolist(), task.tolist(), strict=True):
        found.setdefault(at, []).append((tuple(row), diff))
    for at, (i, epoch) in enumerate(tasks):
        net: Counter[Row] = Counter()
        for (a, b), sign in zip(corners, signs, strict=True):
            for row, n in window(updates, prefixes[i], (epoch - a, 2 - b), skip, limit).items():
                net[row] += sign * n
        assert found.get(at, []) == sorted((row, n) for row, n in net.items() if n)
    assert vain >= 0


def test_more_rows_than_were_expected() -> None:
    """There is room for two rows a task at first."""
    rows = [((0, i), (0, 0), 1) for i in range(500)]
    data, diffs, task, _ = differences(
        Layers([batch_of(rows, 2)]),
        np.zeros((1, 1), np.int64),
        np.zeros(1, np.int64),
        (np.zeros(1, np.int64), np.zeros(1, np.int64)),
        (np.zeros((2, 1), np.int64), np.ones(1, np.int64)),
        2,
    )
    assert data[1].tolist() == list(range(500))
    assert diffs.tolist() == [1] * 500 and task.tolist() == [0] * 500
