"""What frames columns of words: how far apart their values are."""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import device, kernel

Words = NDArray[np.int64]

NULL = -(2**63)
ERROR = NULL + 1
MOST = 2**63 - 1


@kernel("int64(int64[::1], int64[::1])")
def bounds(words: Words, found: Words) -> int:
    """Fill ``found int64[2]`` with the least and the most of the values; how many words are none."""
    least = MOST
    most = NULL
    for i in range(words.shape[0]):
        least = min(least, words[i])
        most = max(most, words[i])
    reserved = 0
    if least <= ERROR:
        least, most, reserved = values_of(words)
    found[0] = least
    found[1] = most
    return reserved


@device
def values_of(words: Words) -> tuple[int, int, int]:
    """The least and the most of the values, and how many words are none."""
    least = MOST
    most = NULL
    reserved = 0
    for i in range(words.shape[0]):
        word = words[i]
        if word <= ERROR:
            reserved += 1
        else:
            least = min(least, word)
            most = max(most, word)
    return least, most, reserved


@device
def code_of(word: int, below: int) -> int:
    """What is written for a word: how far it is above another one, 0 for NULL, 1 for ERROR."""
    return word - NULL if word <= ERROR else word - below


@kernel("void(int64[::1], int64, int64, int64[::1])")
def encode(words: Words, below: int, width: int, out: Words) -> None:
    """Codes of words above ``below``, the least value less 2: ``64 // width`` of ``width`` bits in a word.

    The codes of word j are those of rows j, j + m, j + 2 m and so on, m = len(out), from the lowest bits on:
    rows beside each other go into words beside each other, which a processor does several at a time.
    """
    count = out.shape[0]
    for i in range(count):
        out[i] = code_of(words[i], below)
    shift = width
    for start in range(count, words.shape[0], count):
        part = words[start : start + count]
        for i in range(part.shape[0]):
            out[i] |= code_of(part[i], below) << shift
        shift += width
