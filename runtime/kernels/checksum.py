"""A checksum of words: what finds a flipped bit, a torn write, a page that never came."""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import device, kernel

Words = NDArray[np.int64]

MULTIPLIER = -7046029254386353131
LANES = 4
"""So many words are taken beside each other, since each has to wait for the product before it."""
LOW_HALF = 0xFFFFFFFF


@device
def mix(value: int, word: int) -> int:
    """Another value for every word, and for every value."""
    value = (value ^ word) * MULTIPLIER
    return value ^ ((value >> 32) & LOW_HALF)


@device
def sum_of(words: Words, start: int, end: int, seed: int) -> int:
    """The checksum of the words from ``start`` to ``end``."""
    count = end - start
    first, second, third, fourth = seed, seed + 1, seed + 2, seed + 3
    whole = end - count % LANES
    for i in range(start, whole, LANES):
        first = mix(first, words[i])
        second = mix(second, words[i + 1])
        third = mix(third, words[i + 2])
        fourth = mix(fourth, words[i + 3])
    for i in range(whole, end):
        first = mix(first, words[i])
    return mix(mix(mix(mix(count, first), second), third), fourth)


@kernel("int64(int64[::1], int64)")
def checksum(words: Words, seed: int) -> int:
    """64 bits of all words, their number and the seed, which may be the checksum of what comes before.

    Words that differ in one place never have the same.
    """
    return sum_of(words, 0, words.shape[0], seed)


@kernel("void(int64[::1], int64, int64[::1])")
def checksums(words: Words, size: int, out: Words) -> None:
    """The checksum of each ``size`` words, with seed 0."""
    for i in range(out.shape[0]):
        out[i] = sum_of(words, i * size, (i + 1) * size, 0)
