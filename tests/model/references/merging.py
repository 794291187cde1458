"""``merge``: two sorted batches become one, here in one call."""

from collections.abc import Iterator

import numpy as np

from kpg.runtime.kernels import merge
from tests.model.references import Arguments, Random, reference
from tests.model.references.words import Row, Words, columns, fits, size, spread, tuples, words

ALL = 1 << 40


def distinct_rows(random: Random, width: int) -> list[Row]:
    """Rows in order, none twice."""
    return sorted(set(tuples(words(random, width, size(random)))))


def distinct_cases(random: Random) -> Iterator[Arguments]:
    width = int(random.integers(1, 4))
    a, b = distinct_rows(random, width), distinct_rows(random, width)
    if random.random() < 0.7:
        b = [row for row in b if row not in set(a)]
    out = np.empty((width, len(a) + len(b)), np.int64)
    yield columns(a, width), columns(b, width), out, np.zeros(4, np.int64), ALL


def seen_distinct(result, a, b, out, state, limit) -> object:
    return result, tuples(out[:, : state[2]]), state.tolist()


@reference("merge.merge_distinct", distinct_cases, seen_distinct)
def merge_distinct(a: Words, b: Words, out: Words, state: Words, limit: int) -> object:
    left, right = tuples(a), tuples(b)
    common = set(left) & set(right)
    before = min(common) if common else None
    left = [row for row in left if before is None or row < before]
    right = [row for row in right if before is None or row < before]
    merged = sorted(left + right)
    flag = merge.DUPLICATE if common else 0
    return len(merged), merged, [len(left), len(right), len(merged), flag]


def side(random: Random, width: int, floor: Row, large: bool) -> tuple[Words, Words, Words]:
    """Updates in order, each row and time once, and no diff 0."""
    rows = tuples(words(random, width, size(random)))
    some = [(row, tuple(random.integers(0, 4, len(floor)).tolist())) for row in rows]
    if random.random() < 0.3:
        some = [(row, (0,) * len(floor)) for row in rows]
    both = sorted(set(some))
    n = len(both)
    diff = random.choice([2**62, 2**61] if large else [-2, -1, 1, 2], n).astype(np.int64)
    if n and random.random() < 0.3:
        diff = diff[:1].copy()
    time = columns([at for _, at in both], len(floor))
    if n and (time == time[:, :1]).all():
        time = time[:, :1].copy()
    return columns([row for row, _ in both], width), time, diff


def row_cases(random: Random) -> Iterator[Arguments]:
    width, large = int(random.integers(0, 4)), random.random() < 0.2
    a, _, a_diff = side(random, width, (0, 0), large)
    b, _, b_diff = side(random, width, (0, 0), large)
    n = a.shape[1] + b.shape[1]
    a_diff, b_diff = (one if one.shape[0] else np.ones(1, np.int64) for one in (a_diff, b_diff))
    yield (
        a,
        a_diff,
        b,
        b_diff,
        np.empty((width, n), np.int64),
        np.empty(n, np.int64),
        np.zeros(4, np.int64),
        ALL,
    )


def summed(given: list[tuple[Row, int]]) -> tuple[list[tuple[Row, int]], Row | None]:
    """Equal rows added up in order, without sums of 0; and the first whose sum overflows, which ends it."""
    found: dict[Row, int] = {}
    bad = set()
    for row, diff in given:
        found[row] = found.get(row, 0) + diff
        if not fits(found[row]):
            bad.add(row)
    first = min(bad, default=None)
    kept = sorted((row, total) for row, total in found.items() if total and (first is None or row < first))
    return kept, first


def seen_rows(result, a, a_diff, b, b_diff, out, out_diff, state, limit) -> object:
    at = int(state[2])
    overflow = bool(state[3] & merge.OVERFLOW)
    uneven = not overflow and bool(state[3] & merge.UNEQUAL)
    return overflow, uneven, tuples(out[:, :at], at), out_diff[:at].tolist(), state[:3].tolist()


@reference("merge.merge_rows", row_cases, seen_rows)
def merge_rows(a, a_diff, b, b_diff, out, out_diff, state, limit) -> object:
    left, right = tuples(a), tuples(b)
    given = [
        *zip(left, spread(a_diff, len(left)), strict=True),
        *zip(right, spread(b_diff, len(right)), strict=True),
    ]
    kept, bad = summed(given)
    sums = [total for _, total in kept]
    ends = [sum(1 for row in rows if bad is None or row < bad) for rows in (left, right)]
    uneven = bad is None and len(set(sums)) > 1
    return bad is not None, uneven, [row for row, _ in kept], sums, [*ends, len(kept)]


def history_cases(random: Random) -> Iterator[Arguments]:
    width, depth, large = int(random.integers(0, 4)), int(random.integers(1, 3)), random.random() < 0.15
    floor = tuple(random.integers(0, 4, depth).tolist())
    a, b = side(random, width, floor, large), side(random, width, floor, large)
    n = a[0].shape[1] + b[0].shape[1]
    out = np.empty((width, n), np.int64), np.empty((depth, n), np.int64), np.empty(n, np.int64)
    sides = []
    for data, time, diff in (a, b):
        sides += [data, time if time.shape[1] else np.zeros((depth, 1), np.int64)]
        sides.append(diff if diff.shape[0] else np.ones(1, np.int64))
    yield (*sides, np.array(floor, np.int64), *out, np.zeros(4, np.int64), ALL)


def seen_histories(
    result, a, a_time, a_diff, b, b_time, b_diff, floor, out, out_time, out_diff, state, limit
) -> object:
    at = int(state[2])
    if state[3] & merge.OVERFLOW:
        return "overflow", state[:2].tolist()
    diff = out_diff[:at] if state[3] & merge.UNEQUAL else np.repeat(out_diff[:1], at)
    updates = zip(tuples(out[:, :at], at), tuples(out_time[:, :at], at), diff.tolist(), strict=True)
    return list(updates), bool(state[3] & merge.UNEQUAL), state[:2].tolist(), result


@reference("merge.merge_histories", history_cases, seen_histories)
def merge_histories(
    a, a_time, a_diff, b, b_time, b_diff, floor, out, out_time, out_diff, state, limit
) -> object:
    given = []
    for data, time, diff in ((a, a_time, a_diff), (b, b_time, b_diff)):
        n = data.shape[1]
        at = [tuple(map(max, one, floor.tolist())) for one in tuples(time, n)]
        given += [
            (row + when, amount) for row, when, amount in zip(tuples(data), at, spread(diff, n), strict=True)
        ]
    kept, bad = summed(given)
    width = a.shape[0]
    if bad is not None:
        return "overflow", [sum(1 for row in tuples(one) if row < bad[:width]) for one in (a, b)]
    updates = [(both[:width], both[width:], total) for both, total in kept]
    sizes = [a.shape[1], b.shape[1]]
    return updates, len({total for _, total in kept}) > 1, sizes, sum(sizes)
