"""``shards``: xxHash64 with Spark's seed by integers of any size, and the worker it leads to."""

from collections.abc import Iterator

import numpy as np

from tests.model.references import Arguments, Case, Random, reference
from tests.model.references.storing import NULL, some_store
from tests.model.references.words import size, words

MASK = 2**64 - 1
FIRST = 0x9E3779B185EBCA87
SECOND = 0xC2B2AE3D27D4EB4F
THIRD = 0x165667B19E3779F9
FOURTH = 0x85EBCA77C2B2AE63
FIFTH = 0x27D4EB2F165667C5


def turned(value: int, count: int) -> int:
    return ((value << count) | (value >> (64 - count))) & MASK


def mixed(lane: int, word: int) -> int:
    return turned((lane + word * SECOND) & MASK, 31) * FIRST & MASK


def hashed(data: bytes, seed: int = 42) -> int:
    """xxHash64."""
    rest = data
    if len(data) >= 32:
        lanes = [(seed + FIRST + SECOND) & MASK, (seed + SECOND) & MASK, seed, (seed - FIRST) & MASK]
        while len(rest) >= 32:
            parts = [int.from_bytes(rest[at : at + 8], "little") for at in (0, 8, 16, 24)]
            lanes = [mixed(lane, part) for lane, part in zip(lanes, parts, strict=True)]
            rest = rest[32:]
        value = sum(turned(lane, count) for lane, count in zip(lanes, (1, 7, 12, 18), strict=True)) & MASK
        for lane in lanes:
            value = ((value ^ mixed(0, lane)) * FIRST + FOURTH) & MASK
    else:
        value = (seed + FIFTH) & MASK
    value = (value + len(data)) & MASK
    while len(rest) >= 8:
        value = (turned(value ^ mixed(0, int.from_bytes(rest[:8], "little")), 27) * FIRST + FOURTH) & MASK
        rest = rest[8:]
    if len(rest) >= 4:
        value ^= int.from_bytes(rest[:4], "little") * FIRST & MASK
        value = (turned(value, 23) * SECOND + THIRD) & MASK
        rest = rest[4:]
    for byte in rest:
        value = turned(value ^ (byte * FIFTH & MASK), 11) * FIRST & MASK
    for shift, factor in ((33, SECOND), (29, THIRD), (32, 1)):
        value = (value ^ (value >> shift)) * factor & MASK
    return value


def owner(data: bytes, count: int) -> int:
    value = hashed(data)
    return (value - 2**64 if value >> 63 else value) % count


def word_cases(random: Random) -> Iterator[Arguments]:
    for n in (0, size(random, 1)):
        yield words(random, 1, n)[0], int(random.integers(1, 2**40)), np.zeros(n, np.int64)


@reference("shards.owners", word_cases, lambda result, words, count, out: out.tolist())
def owners(words, count, out) -> object:
    return [owner(int(word).to_bytes(8, "little", signed=True), count) for word in words]


def text_cases(random: Random) -> Iterator[Arguments]:
    for n in (0, 5):
        sizes = random.integers(0, 70, n + 2)
        offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        arena = random.integers(0, 256, int(offsets[-1]) + 1).astype(np.uint8)
        yield arena, offsets, 2, int(random.integers(1, 2**40)), np.zeros(n, np.int64)


@reference("shards.text_owners", text_cases, lambda result, arena, offsets, first, count, out: out.tolist())
def text_owners(arena, offsets, first, count, out) -> object:
    texts = (arena[offsets[first + i] : offsets[first + i + 1]].tobytes() for i in range(len(out)))
    return [owner(text, count) for text in texts]


def near(word: int, count: int) -> int:
    return ((int(word) * FIRST & MASK) >> 32) * count >> 32


def near_cases(random: Random) -> Iterator[Arguments]:
    for count in (1, 3):
        n = size(random, 1)
        yield words(random, 1, n)[0], count, np.zeros(n, np.int64)


@reference("shards.near_owners", near_cases, lambda result, words, count, out: out.tolist())
def near_owners(words, count, out) -> object:
    return [near(word, count) for word in words]


def mine_cases(random: Random) -> Iterator[Arguments]:
    for count in (1, 2, 3, 8):
        n = size(random, 1)
        chosen = int(random.integers(0, count))
        yield words(random, 1, n)[0], words(random, 1, n)[0], count, chosen, np.zeros(n, np.int64)


@reference(
    "shards.near_mine",
    mine_cases,
    lambda result, words, values, count, index, out: out[:result].tolist(),
)
def near_mine(words, values, count, index, out) -> object:
    return [int(value) for word, value in zip(words, values, strict=True) if near(word, count) == index]


def row_cases(random: Random) -> Iterator[Case]:
    for count in (1, 2, 3):
        store = some_store(random)
        asked = random.integers(0, max(1, len(store.rows)), 20 if store.rows else 0)
        column, chosen = int(random.integers(0, store.groups.width)), int(random.integers(0, count))
        arguments = store.directory, column, asked, count, chosen, np.zeros(len(asked), np.int64)
        yield Case(arguments, store)


@reference(
    "shards.near_rows",
    row_cases,
    lambda result, directory, column, rowids, count, index, out: out[:result].tolist(),
    knows=True,
)
def near_rows(store, directory, column, rowids, count, index, out) -> object:
    rows = [(rowid, store.rows[rowid]) for rowid in rowids.tolist()]
    found = [(rowid, NULL if row is None else row[column]) for rowid, row in rows]
    return [rowid for rowid, word in found if near(word, count) == index]
