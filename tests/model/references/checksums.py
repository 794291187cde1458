"""``checksum``: by Python's integers of any size."""

from collections.abc import Iterator

import numpy as np

from tests.model.references import Arguments, Random, reference
from tests.model.references.words import size, words

MASK = 2**64 - 1


def signed(value: int) -> int:
    value &= MASK
    return value - 2**64 if value >> 63 else value


def mixed(value: int, word: int) -> int:
    value = (((value ^ word) & MASK) * 0x9E3779B97F4A7C15) & MASK
    # What is shifted in is cut off: only the high half comes down.
    return value ^ (value >> 32)


def checksum_cases(random: Random) -> Iterator[Arguments]:
    for n in (0, size(random, 1)):
        yield words(random, 1, n)[0], int(random.integers(-(2**63), 2**63 - 1))


@reference("checksum.checksum", checksum_cases, lambda result, words, seed: result)
def checksum(words, seed) -> object:
    return sum_of(words, seed)


def sum_of(words, seed) -> int:
    lanes = [(seed + lane) & MASK for lane in range(4)]
    whole = len(words) - len(words) % 4
    for place, word in enumerate(words.tolist()):
        lane = place % 4 if place < whole else 0
        lanes[lane] = mixed(lanes[lane], word)
    value = len(words)
    for lane in lanes:
        value = mixed(value, lane)
    return signed(value)


def checksums_cases(random: Random) -> Iterator[Arguments]:
    for n in (0, 1, size(random, 1)):
        each = int(random.integers(1, 12))
        yield words(random, 1, n * each)[0], each, np.empty(n, np.int64)


@reference("checksum.checksums", checksums_cases, lambda result, words, size, out: out.tolist())
def checksums(words, size, out) -> object:
    return [sum_of(words[place * size : (place + 1) * size], 0) for place in range(len(out))]
