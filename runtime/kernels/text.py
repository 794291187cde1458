"""Kernels over the text dictionary, whose strings live as UTF-8 in one arena.

String ``code`` is ``arena[offsets[code]:offsets[code + 1]]``. The hash table is ``slots int64[2 * size]``,
``size`` a power of two: pairs (code or -1, hash), open addressing with linear probing.
"""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import device, kernel

Words = NDArray[np.int64]
Bytes = NDArray[np.uint8]

NULL = -(2**63)
MIN_WORD = NULL + 2
MULTIPLIER = -7046029254386353131
LOW_HALF = 0xFFFFFFFF
AT_ONCE = 64
"""Strings looked up beside each other; what they touch has to stay in the first caches."""
ANY_CHARACTER = -1
ANY_STRING = -2


@device
def hash_bytes(source: Bytes, start: int, stop: int) -> int:
    """A 64-bit hash of ``source[start:stop]``, eight bytes at a time.

    An unsigned index never counts from the end, so that eight bytes are one read.
    """
    value = (stop - start) * MULTIPLIER
    position = start
    while position + 8 <= stop:
        word = 0
        for byte in range(8):
            word |= int(source[np.uint64(position + byte)]) << (8 * byte)
        value = (value ^ word) * MULTIPLIER
        value ^= (value >> 32) & LOW_HALF
        position += 8
    word = 0
    shift = 0
    while position < stop:
        word |= int(source[np.uint64(position)]) << shift
        shift += 8
        position += 1
    value = (value ^ word) * MULTIPLIER
    return value ^ ((value >> 29) & LOW_HALF)


@device
def same_bytes(source: Bytes, start: int, stop: int, arena: Bytes, low: int, high: int) -> bool:
    """Whether two stretches of bytes are equal."""
    size = stop - start
    same = size == high - low
    i = 0
    while same and i < size:
        same = source[np.uint64(start + i)] == arena[np.uint64(low + i)]
        i += 1
    return same


@device
def fetch(
    source: Bytes,
    bounds: Words,
    arena: Bytes,
    offsets: Words,
    slots: Words,
    out: Words,
    first: int,
    last: int,
) -> int:
    """Hashes of strings ``first..last`` into ``out``; what finding them will read is then in the caches.

    Reads from memory are under way beside each other here, as none waits for another and no branch for one.
    Returns a number from 0 on, for the reads not to be optimised away.
    """
    mask = slots.shape[0] // 2 - 1
    for i in range(first, last):
        out[i] = hash_bytes(source, bounds[i], bounds[i + 1])
    seen = 0
    for i in range(first, last):
        code = slots[2 * (out[i] & mask)]
        seen += arena[offsets[code & ~(code >> 63)]]
    return seen


@device
def intern_one(
    source: Bytes, start: int, stop: int, value: int, arena: Bytes, offsets: Words, slots: Words, count: int
) -> int:
    """The code of ``source[start:stop]``, whose hash is ``value``; ``count``, and added, if it is new."""
    mask = slots.shape[0] // 2 - 1
    slot = value & mask
    while slots[2 * slot] >= 0:
        code = slots[2 * slot]
        if slots[2 * slot + 1] == value and same_bytes(
            source, start, stop, arena, offsets[code], offsets[code + 1]
        ):
            return code
        slot = (slot + 1) & mask
    begin = offsets[count]
    for j in range(stop - start):
        arena[np.uint64(begin + j)] = source[np.uint64(start + j)]
    offsets[count + 1] = begin + stop - start
    slots[2 * slot] = count
    slots[2 * slot + 1] = value
    return count


@kernel(
    "int64(Array(uint8, 1, 'C', True), int64[::1], uint8[::1], uint8[::1], int64[::1], int64[::1], int64,"
    " int64[::1], int64, int64)"
)
def intern(
    source: Bytes,
    bounds: Words,
    nulls: Bytes,
    arena: Bytes,
    offsets: Words,
    slots: Words,
    count: int,
    out: Words,
    first: int,
    last: int,
) -> int:
    """Codes of strings ``first..last`` of ``source`` (string i is ``bounds[i]:bounds[i + 1]``) into ``out``.

    ``nulls`` is empty or marks the NULLs. The caller has made room for all strings being new; returns the
    number of strings now in the arena.
    """
    has_nulls = nulls.shape[0] > 0
    for start in range(first, last, AT_ONCE):
        stop = min(last, start + AT_ONCE)
        if fetch(source, bounds, arena, offsets, slots, out, start, stop) < 0:
            return -1  # never
        for i in range(start, stop):
            if has_nulls and nulls[i] != 0:
                out[i] = NULL
                continue
            out[i] = intern_one(source, bounds[i], bounds[i + 1], out[i], arena, offsets, slots, count)
            count = max(count, out[i] + 1)
    return count


@kernel("int64(Array(uint8, 1, 'C', True), uint8[::1], int64[::1], int64[::1])")
def find(source: Bytes, arena: Bytes, offsets: Words, slots: Words) -> int:
    """The code of the one string ``source``, or -1."""
    mask = slots.shape[0] // 2 - 1
    stop = source.shape[0]
    value = hash_bytes(source, 0, stop)
    slot = value & mask
    while slots[2 * slot] >= 0:
        code = slots[2 * slot]
        if slots[2 * slot + 1] == value and same_bytes(
            source, 0, stop, arena, offsets[code], offsets[code + 1]
        ):
            return code
        slot = (slot + 1) & mask
    return -1


@kernel("void(int64, int64, uint8[::1], int64[::1], int64[::1])")
def forget(first: int, count: int, arena: Bytes, offsets: Words, slots: Words) -> None:
    """Takes the latest strings, from code ``first`` on, out of the hash table they were added to.

    Latest first: what was added after a string, and had to go past it, is gone before it.
    """
    mask = slots.shape[0] // 2 - 1
    for code in range(count - 1, first - 1, -1):
        slot = hash_bytes(arena, offsets[code], offsets[code + 1]) & mask
        while slots[2 * slot] != code:
            slot = (slot + 1) & mask
        slots[2 * slot] = -1


@kernel("void(int64[::1], int64[::1])")
def rehash(old: Words, new: Words) -> None:
    """Moves all entries of hash table ``old`` to the empty table ``new``."""
    mask = new.shape[0] // 2 - 1
    for i in range(old.shape[0] // 2):
        if old[2 * i] >= 0:
            slot = old[2 * i + 1] & mask
            while new[2 * slot] >= 0:
                slot = (slot + 1) & mask
            new[2 * slot] = old[2 * i]
            new[2 * slot + 1] = old[2 * i + 1]


@kernel("void(int64[::1], int64[::1], int64[::1])")
def measure(words: Words, offsets: Words, bounds: Words) -> None:
    """Running total of the lengths of strings ``words`` into ``bounds int64[n + 1]``; NULL has length 0."""
    total = 0
    bounds[0] = 0
    for i in range(words.shape[0]):
        word = words[i]
        if word >= 0:
            total += offsets[word + 1] - offsets[word]
        bounds[i + 1] = total


@kernel("void(int64[::1], uint8[::1], int64[::1], int64[::1], uint8[::1])")
def gather(words: Words, arena: Bytes, offsets: Words, bounds: Words, out: Bytes) -> None:
    """Copies strings ``words`` one after the other to ``out``, string i at ``bounds[i]``."""
    for i in range(words.shape[0]):
        word = words[i]
        if word >= 0:
            begin = offsets[word]
            to = bounds[i]
            for j in range(offsets[word + 1] - begin):
                out[to + j] = arena[begin + j]


@device
def matches(arena: Bytes, start: int, stop: int, pattern: Words) -> bool:
    """Whether ``arena[start:stop]`` matches the pattern tokens; greedy, restarting at the last ANY_STRING."""
    length = pattern.shape[0]
    position = start
    token = 0
    restart = -1
    restart_position = start
    while True:
        if token < length and pattern[token] == ANY_STRING:
            token += 1
            if token == length:
                return True
            restart = token
            restart_position = position
            continue
        if position == stop:
            break
        if token < length and pattern[token] == ANY_CHARACTER:
            position += 1
            while position < stop and arena[position] & 0xC0 == 0x80:
                position += 1
            token += 1
            continue
        if token < length and pattern[token] == arena[position]:
            position += 1
            token += 1
            continue
        if restart < 0:
            return False
        restart_position += 1
        first = pattern[restart]
        if first < 0:
            while restart_position < stop and arena[restart_position] & 0xC0 == 0x80:
                restart_position += 1
        else:
            while restart_position < stop and arena[restart_position] != first:
                restart_position += 1
        position = restart_position
        token = restart
    while token < length and pattern[token] == ANY_STRING:
        token += 1
    return token == length


@kernel("void(int64[::1], uint8[::1], int64[::1], uint8[::1], int64[::1], int64[:, ::1], int64[::1])")
def contains(
    codes: Words, arena: Bytes, offsets: Words, parts: Bytes, bounds: Words, shifts: Words, out: Words
) -> None:
    """1 where string ``codes[i]`` has all parts, one after the other without overlap, else 0.

    Part p is ``parts[bounds[p]:bounds[p + 1]]``, not empty: the pattern ``%part%part%`` of LIKE.
    Horspool's search: ``shifts[p, byte]`` is how far to go on when ``byte`` stands under the part's end.
    """
    for i in range(codes.shape[0]):
        position = offsets[codes[i]]
        stop = offsets[codes[i] + 1]
        found = 1
        for part in range(bounds.shape[0] - 1):
            begin = bounds[part]
            length = bounds[part + 1] - begin
            found = 0
            while position + length <= stop:
                end = length - 1
                byte = arena[position + end]
                same = end if byte == parts[begin + end] else -1
                while same > 0 and arena[position + same - 1] == parts[begin + same - 1]:
                    same -= 1
                if same == 0:
                    found = 1
                    position += length
                    break
                position += shifts[part, byte]
            if found == 0:
                break
        out[i] = found


@kernel("void(int64[::1], uint8[::1], int64[::1], int64[::1], int64[::1])")
def like(codes: Words, arena: Bytes, offsets: Words, pattern: Words, out: Words) -> None:
    """1 where string ``codes[i]`` matches ``pattern`` (bytes, ANY_CHARACTER, ANY_STRING), else 0."""
    for i in range(codes.shape[0]):
        out[i] = 1 if matches(arena, offsets[codes[i]], offsets[codes[i] + 1], pattern) else 0


@kernel("void(int64[::1], int64[::1])")
def widen(old: Words, new: Words) -> None:
    """Copies the entries of ``old`` that are not 0, so that untouched pages of both stay unmapped."""
    for i in range(old.shape[0]):
        if old[i] != 0:
            new[i] = old[i]
