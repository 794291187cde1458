"""``sort``, ``rounds``: order, groups of equal rows, parts by rounds."""

from collections.abc import Iterator
from itertools import groupby, pairwise

import numpy as np

from kpg.runtime.kernels import sort
from tests.model.references import Arguments, Case, Random, reference
from tests.model.references.words import (
    Words,
    columns,
    diffs,
    fits,
    size,
    spread,
    times,
    tuples,
    words,
    wrapped,
)


def keys(data: Words, time: Words) -> list[tuple[int, ...]]:
    """What rows are sorted by: their columns, then their times unless these are all one."""
    n = data.shape[1]
    return [row + at for row, at in zip(tuples(data), tuples(time, n), strict=True)]


def rows(random: Random) -> tuple[Words, Words]:
    """Data and times, at times sorted."""
    n, width = size(random), int(random.integers(0, 4))
    data, time = words(random, width, n), times(random, int(random.integers(1, 3)), n)
    if random.random() < 0.3 and time.shape[1] == n and width:
        both = sorted(keys(data, time))
        data, time = (
            columns([one[:width] for one in both], width),
            columns([one[width:] for one in both], time.shape[0]),
        )
    return data, time


def order_cases(random: Random) -> Iterator[Arguments]:
    data, time = rows(random)
    yield data, time, np.empty(data.shape[1], np.int64)


@reference("sort.sort_order", order_cases, lambda result, data, time, order: (result, order.tolist()))
def sort_order(data: Words, time: Words, order: Words) -> object:
    by = keys(data, time)
    expected = sorted(range(len(by)), key=by.__getitem__)
    flags = sort.IDENTITY if expected == list(range(len(by))) else 0
    return flags + (sort.DISTINCT if len(set(by)) == len(by) else 0), expected


def amounts(random: Random, n: int) -> Words:
    """Diffs, zeros and very large ones among them."""
    if random.random() < 0.2:
        return random.choice([2**62, -(2**62), 2**63 - 1, 1, 0], n).astype(np.int64)
    return diffs(random, n)


def group_cases(random: Random) -> Iterator[Arguments]:
    data, time = rows(random)
    by, n = keys(data, time), data.shape[1]
    order = np.array(sorted(range(n), key=by.__getitem__), np.int64)
    yield (
        data,
        time,
        amounts(random, n),
        order,
        *(np.empty(n, np.int64) for _ in range(2)),
        np.zeros(2, np.int64),
    )


def added_up(
    by: list[tuple[int, ...]], diff: list[int], order: list[int]
) -> tuple[list[int], list[int], bool]:
    """The first of each group of equal rows with a sum other than 0, the sums, and whether one overflows."""
    heads, sums, overflow = [], [], False
    for _, group in groupby(order, key=by.__getitem__):
        positions = list(group)
        total = 0
        for position in positions:
            overflow |= not fits(wrapped(total) + diff[position])
            total += diff[position]
        if wrapped(total):
            heads.append(positions[0])
            sums.append(wrapped(total))
    return heads, sums, overflow


def seen_group(result, data, time, diff, order, heads, sums, state) -> object:
    return result, heads[:result].tolist(), sums[:result].tolist(), state.tolist()


@reference("sort.group", group_cases, seen_group)
def group(data, time, diff, order, heads, sums, state) -> object:
    n = data.shape[1]
    found, totals, overflow = added_up(keys(data, time), spread(diff, n), order.tolist())
    return len(found), found, totals, [len(set(totals)) <= 1, overflow]


def few_cases(random: Random) -> Iterator[Arguments]:
    data, time = rows(random)
    data = np.ascontiguousarray(data[:, : sort.FEW])
    n = data.shape[1]
    time = np.ascontiguousarray(time[:, : max(n, 1)])
    out_time = np.empty(time.size if time.shape[1] == n else 0, np.int64)
    yield (
        data,
        time,
        amounts(random, n),
        np.empty(data.size, np.int64),
        out_time,
        *np.zeros((2, max(n, 2)), np.int64),
    )


def seen_few(result, data, time, diff, out, out_time, sums, state) -> object:
    if result < 0:
        return result
    width, depth = data.shape[0], time.shape[0] if out_time.shape[0] else 0
    found = out[: width * result].reshape(width, result), out_time[: depth * result].reshape(depth, result)
    return (
        result,
        tuples(found[0], result),
        tuples(found[1], result),
        sums[:result].tolist(),
        state[:2].tolist(),
    )


@reference("sort.consolidate_few", few_cases, seen_few)
def consolidate_few(data, time, diff, out, out_time, sums, state) -> object:
    by, n = keys(data, time), data.shape[1]
    if all(a < b for a, b in pairwise(by)) and (diff != 0).all():
        return -1
    order = sorted(range(n), key=by.__getitem__)
    heads, totals, overflow = added_up(by, spread(diff, n), order)
    data_rows, at = tuples(data), tuples(time, n)
    shown = [at[i] for i in heads] if out_time.shape[0] else [()] * len(heads)
    return len(heads), [data_rows[i] for i in heads], shown, totals, [len(set(totals)) <= 1, overflow]


def consolidate_cases(random: Random) -> Iterator[Arguments]:
    data, time = rows(random)
    n = data.shape[1]
    out_time = np.empty(time.size if time.shape[1] == n else 0, np.int64)
    room = np.empty(data.size, np.int64)
    yield data, time, amounts(random, n), room, out_time, *np.zeros((2, max(n, 2)), np.int64)


@reference("sort.consolidate", consolidate_cases, seen_few)
def consolidate(*arguments) -> object:
    return consolidate_few.expected(Case(arguments))


def gather_cases(random: Random) -> Iterator[Arguments]:
    n, m, width = size(random, 1), size(random), int(random.integers(0, 4))
    yield words(random, width, n), random.integers(0, n, m), np.empty((width, m), np.int64)


@reference("sort.gather", gather_cases, lambda result, source, index, target: tuples(target))
def gather(source: Words, index: Words, target: Words) -> object:
    rows = tuples(source)
    return [rows[i] for i in index.tolist()]


def time_cases(random: Random) -> Iterator[Arguments]:
    depth, n = int(random.integers(1, 4)), size(random, 1)
    high = int(random.choice([1, 3, 1 << 40]))
    time = random.integers(0, high, (depth, n))
    yield (time, np.empty(n, np.int64), np.empty(n + 1, np.int64), np.empty(n, np.bool_))


@reference(
    "rounds.same_rounds",
    lambda random: [case[:1] for case in time_cases(random)],
    lambda result, time: result,
)
def same_rounds(time: Words) -> object:
    return len({at[1:] for at in tuples(time)}) <= 1


@reference(
    "rounds.epoch_order",
    lambda random: [case[:2] for case in time_cases(random)],
    lambda result, time, order: result or order.tolist(),
)
def epoch_order(time: Words, order: Words) -> object:
    epochs = time[0].tolist()
    return epochs == sorted(epochs) or sorted(range(len(epochs)), key=epochs.__getitem__)


def seen_parts(result, time, order, starts, single) -> object:
    return [(order[starts[i] : starts[i + 1]].tolist(), bool(single[i])) for i in range(result)]


@reference("rounds.split_by_rounds", time_cases, seen_parts)
def split_by_rounds(time, order, starts, single) -> object:
    at = tuples(time)
    parts: dict[tuple[int, ...], list[int]] = {}
    for position, one in enumerate(at):
        parts.setdefault(one[1:], []).append(position)
    return [(found, len({at[i][0] for i in found}) == 1) for _, found in sorted(parts.items())]
