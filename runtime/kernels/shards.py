"""Which worker a value belongs to: ``pmod(xxhash64(value), n)``, as Spark SQL computes it, with its seed 42.

A word is hashed as Spark hashes a BIGINT, a text as a STRING: what a value is, not its code, decides. Workers
of one machine, to which nobody brings anything, tell it in less time (``near``).
"""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import device, kernel
from kpg.runtime.kernels.rowgroups import COLUMN_STRIDE, COLUMNS, NULL, load, locate

Words = NDArray[np.int64]
Bytes = NDArray[np.uint8]

SALT = 42
PRIME1 = -7046029288634856825
PRIME2 = -4417276706812531889
PRIME3 = 1609587929392839161
PRIME4 = -8796714831421723037
PRIME5 = 2870177450012600261
BELOW = 0x7FFFFFFFFFFFFFFF
LOW_HALF = 0xFFFFFFFF


@device
def rotated(value: int, count: int) -> int:
    """The bits of a word turned to the left."""
    low = (value >> (64 - count)) & ((1 << count) - 1)
    return (value << count) | low


@device
def shifted(value: int, count: int) -> int:
    """The bits of a word moved to the right, with zeros behind them."""
    return (value >> count) & (BELOW >> (count - 1))


@device
def finished(value: int) -> int:
    """The last mixing."""
    value ^= shifted(value, 33)
    value *= PRIME2
    value ^= shifted(value, 29)
    value *= PRIME3
    return value ^ shifted(value, 32)


@device
def hash_word(word: int) -> int:
    """Of eight bytes."""
    value = SALT + PRIME5 + 8
    value ^= rotated(word * PRIME2, 31) * PRIME1
    value = rotated(value, 27) * PRIME1 + PRIME4
    return finished(value)


@device
def read(source: Bytes, position: int, count: int) -> int:
    """So many bytes as a number, the lowest first."""
    word = 0
    for byte in range(count):
        word |= int(source[np.uint64(position + byte)]) << (8 * byte)
    return word


@device
def hash_string(source: Bytes, start: int, stop: int) -> int:
    """Of a stretch of bytes."""
    position, size = start, stop - start
    if size >= 32:
        first, second, third, fourth = SALT + PRIME1 + PRIME2, SALT + PRIME2, SALT, SALT - PRIME1
        while position + 32 <= stop:
            first = rotated(first + read(source, position, 8) * PRIME2, 31) * PRIME1
            second = rotated(second + read(source, position + 8, 8) * PRIME2, 31) * PRIME1
            third = rotated(third + read(source, position + 16, 8) * PRIME2, 31) * PRIME1
            fourth = rotated(fourth + read(source, position + 24, 8) * PRIME2, 31) * PRIME1
            position += 32
        value = rotated(first, 1) + rotated(second, 7) + rotated(third, 12) + rotated(fourth, 18)
        value = (value ^ (rotated(first * PRIME2, 31) * PRIME1)) * PRIME1 + PRIME4
        value = (value ^ (rotated(second * PRIME2, 31) * PRIME1)) * PRIME1 + PRIME4
        value = (value ^ (rotated(third * PRIME2, 31) * PRIME1)) * PRIME1 + PRIME4
        value = (value ^ (rotated(fourth * PRIME2, 31) * PRIME1)) * PRIME1 + PRIME4
    else:
        value = SALT + PRIME5
    value += size
    while position + 8 <= stop:
        value ^= rotated(read(source, position, 8) * PRIME2, 31) * PRIME1
        value = rotated(value, 27) * PRIME1 + PRIME4
        position += 8
    if position + 4 <= stop:
        value ^= read(source, position, 4) * PRIME1
        value = rotated(value, 23) * PRIME2 + PRIME3
        position += 4
    while position < stop:
        value ^= int(source[np.uint64(position)]) * PRIME5
        value = rotated(value, 11) * PRIME1
        position += 1
    return finished(value)


@kernel("void(int64[::1], int64, int64[::1])")
def owners(words: Words, count: int, out: Words) -> None:
    """The worker of each word, among ``count``."""
    for i in range(words.shape[0]):
        out[i] = hash_word(words[i]) % count


@kernel("void(uint8[::1], int64[::1], int64, int64, int64[::1])")
def text_owners(arena: Bytes, offsets: Words, first: int, count: int, out: Words) -> None:
    """The worker of each string from code ``first`` on."""
    for i in range(out.shape[0]):
        out[i] = hash_string(arena, offsets[first + i], offsets[first + i + 1]) % count


@device
def near(word: int, count: int) -> int:
    """The worker of a word where nobody else needs to know how it is told: by the upper half of a product."""
    return (((word * PRIME1) >> 32) & LOW_HALF) * count >> 32


@kernel("void(int64[::1], int64, int64[::1])")
def near_owners(words: Words, count: int, out: Words) -> None:
    """The worker of each word, among ``count``, on one machine."""
    for i in range(words.shape[0]):
        out[i] = near(words[i], count)


@kernel("int64(int64[::1], int64[::1], int64, int64, int64[::1])")
def near_mine(words: Words, values: Words, count: int, index: int, out: Words) -> int:
    """The ``values`` beside the words that belong to worker ``index``, on one machine; how many there are."""
    found = 0
    for i in range(words.shape[0]):
        out[np.uint64(found)] = values[i]
        found += int(near(words[i], count) == index)
    return found


@kernel("int64(int64[:, ::1], int64, int64[::1], int64, int64, int64[::1])")
def near_rows(directory: Words, column: int, rowids: Words, count: int, index: int, out: Words) -> int:
    """The rowids whose rows have a word of worker ``index`` in a column, on one machine; how many."""
    root = directory.ctypes.data
    found = 0
    for i in range(rowids.shape[0]):
        group, position = locate(root, rowids[i])
        word = NULL
        if position >= 0:
            word = load(load(group, COLUMNS), column * load(group, COLUMN_STRIDE) + position)
        out[np.uint64(found)] = rowids[i]
        found += int(near(word, count) == index)
    return found
