"""``directory``, ``seek``, ``pairs``: batches described by addresses, and pairs of rows that match."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np

from kpg.runtime.kernels import layout, pairs, seek
from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.trace.batch import Batch, Directory, Layers
from kpg.runtime.trace.updates import Updates
from tests.model.kernels import comes_before, triples
from tests.model.references import Arguments, Case, Random, reference
from tests.model.references.words import Row, Words, columns, diffs, size, spread, times, tuples, words

Update = tuple[Row, Row, int]
UNLIMITED = 1 << 62


@dataclass
class Known:
    """What addresses lead to: the batches, which must be held, and their updates."""

    layers: Layers
    updates: list[list[Update]]


def some_layers(
    random: Random, width: int, depth: int, least: int = 0, most: int = 4, large: bool = False, step: int = 1
) -> Known:
    """Batches of rows of a few numbers, ``step`` from one to the next, or of the words at the edges."""
    found = []
    for _ in range(int(random.integers(least, most))):
        n = int(random.choice([0, 1, 5, 40, 200] if large else [0, 1, 3, 8, 20]))
        few = step * random.integers(0, 3, (width, n))
        data = few if random.random() < 0.7 else words(random, width, n)
        given = Updates(data, times(random, depth, n), diffs(random, n))
        batch = Batch.build(given, Antichain.minimum(depth), Antichain.of((9,) * depth))
        if large and width and len(batch) > 1 and random.random() < 0.5:
            batch.build_directory()
        found.append(batch)
    return Known(Layers(found), [triples(batch.updates) for batch in found])


# directory


def describe_cases(random: Random) -> Iterator[Arguments]:
    n, width, depth = size(random), int(random.integers(0, 4)), int(random.integers(1, 4))
    arrays = words(random, width, n), times(random, depth, n), diffs(random, n)
    yield (*arrays, int(random.integers(2)), np.full(layout.LATEST + depth, -7, np.int64))


NOT_DESCRIBED = {*range(layout.BOUNDS, layout.PROBES), layout.ENOUGH}


def described(description: Words) -> list[int]:
    """What ``describe`` fills."""
    return [word for place, word in enumerate(description.tolist()) if place not in NOT_DESCRIBED]


def seen_description(result, data, time, diff, known, description) -> object:
    return result, described(description)


@reference("directory.describe", describe_cases, seen_description)
def describe(data, time, diff, known, description) -> object:
    n = data.shape[1]
    expected = description.copy()
    expected[layout.DATA], expected[layout.ROWS] = data.ctypes.data, n
    expected[layout.TIME], expected[layout.TIME_STRIDE] = time.ctypes.data, time.shape[1] != 1
    expected[layout.DIFF], expected[layout.DIFF_STRIDE] = diff.ctypes.data, diff.shape[0] != 1
    expected[layout.WIDTH], expected[layout.DEPTH] = data.shape[0], time.shape[0]
    expected[layout.STRIDE], expected[layout.SLOTS] = n, 0
    expected[layout.OFFSETS] = expected[layout.OFFSETS_LENGTH] = expected[layout.PROBES] = 0
    if not known:
        latest = [max([0, *column]) if n else 0 for column in time.tolist()]
        expected[layout.LATEST :] = latest
    return description.ctypes.data, described(expected)


def directory_cases(random: Random) -> Iterator[Arguments]:
    column = np.sort(words(random, size(random, 1)))
    made = Directory(column)
    yield column, made.bounds, made.offsets, made._state, int(random.choice([len(column), UNLIMITED]))


@reference(
    "directory.fill_directory",
    directory_cases,
    lambda result, column, bounds, offsets, state, limit: (offsets.tolist(), state.tolist()),
)
def fill_directory(column, bounds, offsets, state, limit) -> object:
    origin, _, shift = bounds.tolist()
    start, _, end = state.tolist()
    buckets = [(value - origin) >> shift for value in column.tolist()[start:end]]
    expected = [start + bisect_left(buckets, bucket) for bucket in range(len(offsets))]
    return expected, [end, len(offsets), end]


# seek, pairs


def stream_of(random: Random, width: int, depth: int, n: int) -> Updates:
    """Rows that may meet those of ``some_layers``."""
    data = random.integers(0, 3, (width, n)) if random.random() < 0.8 else words(random, width, n)
    return Updates(np.ascontiguousarray(data), times(random, depth, n), diffs(random, n))


def match_cases(random: Random) -> Iterator[Case]:
    depth, origin = int(random.integers(1, 3)), int(random.integers(0, 2))
    width, stream_width = int(random.integers(1, 4)), int(random.integers(1, 4))
    known = some_layers(random, width, int(random.integers(1, depth + 1)), large=True)
    n = int(random.choice([0, 1, 10, 80]))
    stream = stream_of(random, stream_width, depth + origin * depth, n)
    keys = int(random.integers(0, min(width, stream_width) + 1))
    ordered = bool(keys) and random.random() < 0.5
    key = np.arange(keys) if ordered else random.permutation(stream_width)[:keys]
    data = stream.data
    if ordered:
        data = np.ascontiguousarray(data[:, np.lexsort(data[::-1])])
    state = np.zeros(seek.EARLIEST + stream.depth, np.int64)
    state[seek.LAYER] = -1
    closed, floor = (int(random.integers(0, 4)) for _ in range(2))
    rows = sum(map(len, known.updates)) * n
    yield Case(
        (
            data, key.astype(np.int64), stream.time, origin * depth, known.layers.addresses,
            int(random.choice([seek.ANY, seek.THROUGH, seek.BEFORE])), ordered, closed, floor, state,
            np.empty(len(known.layers) + 1, np.int64), np.empty((2, rows + 1), np.int64),
        ),
        known,
    )  # fmt: skip


def seen_pairs(
    result, stream, key, time, origin, layers, order, ordered, closed, floor, state, starts, found
) -> object:
    if result < 0:
        return "wants a directory"
    ends = starts.tolist()
    parts = [sorted(tuples(found[:, a:b])) for a, b in pairwise(ends)]
    return result, parts, int(state[seek.LAYER])


@reference("seek.match", match_cases, seen_pairs, knows=True)
def match(
    known, stream, key, time, origin, layers, order, ordered, closed, floor, state, starts, found
) -> object:
    n = stream.shape[1]
    rows, at = tuples(stream, n), tuples(time[origin:], n)
    parts = []
    for updates, batch in zip(known.updates, known.layers, strict=True):
        searched = not batch.has_directory and len(batch) > 64 and not (ordered and n >= len(batch))
        if searched and not meets(updates, [row[column] for row in rows for column in key.tolist()[:1]]):
            searched = False
        if searched and n * 128 >= len(batch) and tested(known, batch, time[origin:], order, closed, floor):
            return "wants a directory"
        part = []
        for (i, row), (j, (other, when, _)) in product(enumerate(rows), enumerate(updates)):
            if any(row[column] != other[place] for place, column in enumerate(key.tolist())):
                continue
            through = order == seek.THROUGH
            if order == seek.ANY or comes_before(when, at[i], closed, floor, through=through):
                part.append((i, j))
        parts.append(part)
    return sum(map(len, parts)), parts, len(parts)


def meets(updates: list[Update], values: list[int]) -> bool:
    """Whether the first words of a batch and the first of stream keys may have one in common."""
    words = [row[0] for row, _, _ in updates if row]
    return not values or not words or (min(words) <= max(values) and min(values) <= max(words))


def tested(known: Known, batch: Batch, time: Words, order: int, closed: int, floor: int) -> bool:
    """Whether a pair with the batch may be admitted at all, so that it is searched."""
    if order == seek.ANY or time.shape[1] > 1 or not batch.constant_time:
        return True
    when, at = tuple(batch.time[:, 0].tolist()), tuple(time[:, 0].tolist())
    return comes_before(when, at, closed, floor, through=order == seek.THROUGH)


def gather_cases(random: Random) -> Iterator[Case]:
    depth, width = int(random.integers(1, 3)), int(random.integers(1, 4))
    known = some_layers(random, width, int(random.integers(1, depth + 1)))
    n, stream_width = size(random, 1), int(random.integers(1, 4))
    stream = stream_of(random, stream_width, depth, n)
    diff = stream.diff * (1 << 62 if random.random() < 0.1 else 1)
    chosen, starts = [], [0]
    for updates in known.updates:
        count = int(random.integers(0, 10)) if updates else 0
        chosen += [(int(random.integers(n)), int(random.integers(len(updates)))) for _ in range(count)]
        starts.append(len(chosen))
    keep_stream, keep_batch = (
        random.permutation(width)[: int(random.integers(0, width + 1))].astype(np.int64)
        for width in (stream_width, width)
    )
    total = len(chosen)
    yield Case(
        (
            stream.data, stream.time, diff, keep_stream, keep_batch, known.layers.addresses,
            np.array(starts, np.int64), columns(chosen, 2), int(random.integers(4)),
            np.empty((len(keep_stream) + len(keep_batch), total), np.int64),
            np.empty((depth, total), np.int64),
            np.empty(total, np.int64), 0,
        ),
        known,
    )  # fmt: skip


def seen_updates(
    result,
    stream,
    time,
    diff,
    keep_stream,
    keep_batch,
    layers,
    starts,
    found,
    wanted,
    data,
    out_time,
    out_diff,
    start,
) -> object:
    n = found.shape[1]
    overflow = bool(result & pairs.OVERFLOW)
    diffs_shown = out_diff.tolist() if wanted & pairs.DIFFS and not overflow else None
    times_shown = tuples(out_time, n) if wanted & pairs.TIMES else None
    return tuples(data, n), times_shown, diffs_shown, overflow, bool(result & pairs.VARIED)


@reference("pairs.gather", gather_cases, seen_updates, knows=True)
def gather(
    known,
    stream,
    time,
    diff,
    keep_stream,
    keep_batch,
    layers,
    starts,
    found,
    wanted,
    data,
    out_time,
    out_diff,
    start,
) -> object:
    n = stream.shape[1]
    rows, at, counts = tuples(stream, n), tuples(time, n), spread(diff, n)
    made = []
    for updates, first, last in zip(known.updates, starts.tolist(), starts.tolist()[1:], strict=False):
        for i, j in tuples(found[:, first:last]):
            other, when, amount = updates[j]
            row = tuple(rows[i][c] for c in keep_stream.tolist()) + tuple(
                other[c] for c in keep_batch.tolist()
            )
            padded = when + (0,) * (len(at[i]) - len(when))
            made.append((row, tuple(map(max, at[i], padded)), counts[i] * amount))
    whens = [when for _, when, _ in made]
    overflow = bool(wanted & pairs.DIFFS) and any(abs(amount) > 2**62 * 2 - 1 for _, _, amount in made)
    return (
        [row for row, _, _ in made],
        whens if wanted & pairs.TIMES else None,
        [amount for _, _, amount in made] if wanted & pairs.DIFFS and not overflow else None,
        overflow,
        bool(wanted & pairs.TIMES) and len(set(whens)) > 1,
    )
