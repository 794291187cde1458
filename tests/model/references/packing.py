"""``packed``: rows as words of less than 64 bits."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from kpg.runtime.kernels import packed
from tests.model.references import Arguments, Random, reference
from tests.model.references.words import fits, size, spread, tuples, words


def measured(data, time, timed: bool) -> list[tuple[int, int]]:
    """Each column's least value, and the bits of its largest above that."""
    found = []
    for column in [*data.tolist(), *(time.tolist() if timed else [])]:
        found.append((min(column), (max(column) - min(column)).bit_length()))
    return found


def measure_cases(random: Random) -> Iterator[Arguments]:
    width, n = int(random.integers(1, 4)), size(random, 1)
    timed = bool(random.integers(2))
    time = random.integers(0, 9, (2, n if timed else 1))
    yield words(random, width, n), time, np.empty((width + 2 * timed, 2), np.int64)


@reference("packed.measure", measure_cases, lambda result, data, time, fields: (result, tuples(fields.T)))
def measure(data, time, fields) -> object:
    found = measured(data, time, fields.shape[0] > data.shape[0])
    return sum(bits for _, bits in found), found


def packed_rows(random: Random) -> tuple:
    """Rows that fit a word: data, times, fields, and whether times are among them."""
    width, n, timed = int(random.integers(1, 4)), size(random, 1), bool(random.integers(2))
    reach = int(random.choice([1, 2, 1000]))
    low = int(random.choice([-(2**63), -5, 2**63 - 2000]))
    data = low + random.integers(0, reach, (width, n))
    if random.random() < 0.3:
        data = np.ascontiguousarray(data[:, np.lexsort(data[::-1])])
    if random.random() < 0.3:
        data[-1] = low + np.arange(n)
    time = random.integers(0, 9, (2, n if timed else 1))
    return data, time, np.array(measured(data, time, timed), np.int64).reshape(-1, 2), timed


def pack_cases(random: Random) -> Iterator[Arguments]:
    data, time, fields, _ = packed_rows(random)
    yield data, time, fields, np.empty(data.shape[1], np.uint64)


def as_words(data, time, fields) -> list[int]:
    """The columns of each row side by side."""
    timed = fields.shape[0] > data.shape[0]
    found = []
    for row, at in zip(tuples(data), tuples(time, data.shape[1]), strict=True):
        word = 0
        for value, (least, bits) in zip(row + (at if timed else ()), fields.tolist(), strict=True):
            word = (word << bits) | (value - least)
        found.append(word)
    return found


@reference("packed.pack", pack_cases, lambda result, data, time, fields, out: (result, out.tolist()))
def pack(data, time, fields, out) -> object:
    found = as_words(data, time, fields)
    ascending = found == sorted(found)
    strict = ascending and len(set(found)) == len(found)
    last = [word & ((1 << int(fields[-1, 1])) - 1) for word in found]
    if not ascending and all(a < b for a, b in pairwise(last)):
        return packed.LAST, found
    return packed.STRICT if strict else int(ascending), found


def unpack_cases(random: Random) -> Iterator[Arguments]:
    data, time, fields, timed = packed_rows(random)
    kept = int(random.integers(0, data.shape[1] + 1))
    given = np.array(as_words(data, time, fields), np.uint64)
    yield given, fields, np.empty((data.shape[0], kept), np.int64), np.empty((2 * timed, kept), np.int64)


@reference(
    "packed.unpack", unpack_cases, lambda result, given, fields, data, time: (tuples(data), tuples(time))
)
def unpack(given, fields, data, time) -> object:
    rows = []
    for word in given.tolist()[: data.shape[1]]:
        row: tuple[int, ...] = ()
        for least, bits in reversed(fields.tolist()):
            row = (least + (word & ((1 << bits) - 1)), *row)
            word >>= bits
        rows.append(row)
    width = data.shape[0]
    return [row[:width] for row in rows], [row[width:] for row in rows]


def combine_cases(random: Random) -> Iterator[Arguments]:
    n = int(random.choice([0, 1, 20, 30, 300, 9000, 40_000], p=[0.1, 0.2, 0.2, 0.2, 0.2, 0.05, 0.05]))
    bits = int(random.choice([0, 1, 5, 13, 14, 40, 63]))
    given = random.integers(0, 2**bits, n, dtype=np.uint64)
    if random.random() < 0.5:
        given = given % np.uint64(50)
    if random.random() < 0.3:
        diff = np.array([random.choice([1, -1, 3, 2**62])], np.int64)
    else:
        high = 2**62 if random.random() < 0.2 else 2
        diff = random.integers(-high, high, n) if n != 1 else random.integers(-high, high, 1)
    yield given, np.empty_like(given), diff, np.empty_like(diff), np.empty(n, np.int64), bits


def seen_combined(result, given, spare, diff, spare_diff, sums, bits) -> object:
    return result, given[: max(result, 0)].tolist(), sums[: max(result, 0)].tolist()


@reference("packed.combine", combine_cases, seen_combined)
def combine(given, spare, diff, spare_diff, sums, bits) -> object:
    found: dict[int, int] = {}
    for word, amount in zip(given.tolist(), spread(diff, len(given)), strict=True):
        found[word] = found.get(word, 0) + amount
        if not fits(found[word]):
            return -1, [], []
    kept = sorted((word, total) for word, total in found.items() if total)
    return len(kept), [word for word, _ in kept], [total for _, total in kept]


def settled_cases(random: Random) -> Iterator[Arguments]:
    n = int(random.choice([0, 1, 20, 30, 300, 9000, 40_000], p=[0.1, 0.2, 0.2, 0.2, 0.2, 0.05, 0.05]))
    settled = n.bit_length()
    bits = settled + int(random.choice([0, 1, 5, 12, 17, 40]))
    first = random.integers(0, 2 ** (bits - settled), n, dtype=np.uint64)
    given = (first << np.uint64(settled)) | np.arange(n, dtype=np.uint64)
    yield given, np.empty_like(given), bits, settled


@reference("packed.sort_stably", settled_cases, lambda result, given, spare, bits, settled: given.tolist())
def sort_stably(given, spare, bits, settled) -> object:
    return sorted(given.tolist())
