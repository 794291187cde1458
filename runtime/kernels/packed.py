"""Sorting and adding up rows that fit one word: each column less its least value, side by side.

A *field* is the part of the word that a column takes. The words sort as the rows do, so they are sorted
without a look at the columns: cut into buckets by their first bits, then counted or sorted bucket by bucket
in the processor's cache. Columns are those of ``data``, then those of ``time`` unless it is stored once.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import device, kernel

Words = NDArray[np.int64]
Keys = NDArray[np.uint64]

ROOM = 63
"""Bits that a packed row may take."""

BUCKET = 13
"""Buckets have about so many rows, as a power of two."""

MOST_BUCKETS = 11
"""As a power of two."""

SHORT = 24
"""Buckets up to this size are sorted by insertion."""

STRICT = 2
"""What ``pack`` says of words that ascend, each above the one before."""

LAST = -1
"""What it says of words that do not ascend where the last column does, strictly, as new rowids do."""

COUNTED = 13
"""In buckets whose words differ in no more bits, equal words are counted instead of sorted."""


@device
def bit_length(word: Any) -> int:
    """Position of the highest set bit of a uint64, plus one."""
    bits = 0
    while word != np.uint64(0):
        word >>= np.uint64(1)
        bits += 1
    return bits


@kernel("int64(int64[:, ::1], int64[:, ::1], int64[:, ::1])")
def measure(data: Words, time: Words, fields: Words) -> int:
    """Fill ``fields int64[columns, 2]`` with each column's least value and width; the bits in all."""
    total = 0
    for column in range(fields.shape[0]):
        values = data[column] if column < data.shape[0] else time[column - data.shape[0]]
        least = values[0]
        most = values[0]
        for i in range(values.shape[0]):
            least = min(least, values[i])
            most = max(most, values[i])
        fields[column, 0] = least
        fields[column, 1] = bit_length(np.uint64(most) - np.uint64(least))
        total += fields[column, 1]
    return total


@device
def ascends(column: Words) -> bool:
    """Whether each value is above the one before."""
    for i in range(1, column.shape[0]):
        if column[i] <= column[i - 1]:
            return False
    return True


@kernel("int64(int64[:, ::1], int64[:, ::1], int64[:, ::1], uint64[::1])")
def pack(data: Words, time: Words, fields: Words, words: Keys) -> int:
    """Fill ``words``; ``STRICT``, 1 if they ascend with equal ones, ``LAST``, or 0. All fit
    ``ROOM`` bits.
    """
    count = words.shape[0]
    first = 0
    if data.shape[0] > 1:
        first = 2  # nearly all rows have two columns or more: these at once
        least, second = np.uint64(fields[0, 0]), np.uint64(fields[1, 0])
        width = np.uint64(fields[1, 1])
        for i in range(count):
            words[i] = ((np.uint64(data[0, i]) - least) << width) | (np.uint64(data[1, i]) - second)
    else:
        words[:] = np.uint64(0)
    for column in range(first, fields.shape[0]):
        values = data[column] if column < data.shape[0] else time[column - data.shape[0]]
        least = np.uint64(fields[column, 0])
        width = np.uint64(fields[column, 1])
        for i in range(count):
            words[i] = (words[i] << width) | (np.uint64(values[i]) - least)
    result = STRICT
    for i in range(1, count):
        if words[i] <= words[i - 1]:
            if words[i] < words[i - 1]:
                last = fields.shape[0] - 1
                column = data[last] if last < data.shape[0] else time[last - data.shape[0]]
                return LAST if ascends(column) else 0
            result = 1
    return result


@kernel("void(uint64[::1], int64[:, ::1], int64[:, ::1], int64[:, ::1])")
def unpack(words: Keys, fields: Words, data: Words, time: Words) -> None:
    """The columns of the first ``data.shape[1]`` words; ``time`` is filled if it has fields."""
    shift = np.uint64(0)
    for column in range(fields.shape[0] - 1, -1, -1):
        target = data[column] if column < data.shape[0] else time[column - data.shape[0]]
        least = np.uint64(fields[column, 0])
        width = np.uint64(fields[column, 1])
        mask = (np.uint64(1) << width) - np.uint64(1)
        for i in range(data.shape[1]):
            target[i] = np.int64(((words[i] >> shift) & mask) + least)
        shift += width


@device
def scatter(
    words: Keys,
    diff: Words,
    low: int,
    high: int,
    place: Any,
    digit: Any,
    starts: Keys,
    to: Keys,
    to_diff: Words,
    carried: bool,
) -> None:
    """Words [low, high) into ``to[low:high]``, stably, by ``digit`` bits from bit ``place``.

    If ``carried``, diffs go along. Leaves in ``starts`` the position after each bucket.
    """
    mask = (np.uint64(1) << digit) - np.uint64(1)
    for number in range(np.int64(mask) + 1):
        starts[number] = np.uint64(0)
    for i in range(low, high):
        starts[(words[i] >> place) & mask] += np.uint64(1)
    total = np.uint64(low)
    for number in range(np.int64(mask) + 1):
        size = starts[number]
        starts[number] = total
        total += size
    if carried:
        for i in range(low, high):
            bucket = (words[i] >> place) & mask
            at = starts[bucket]
            to[at] = words[i]
            to_diff[at] = diff[i]
            starts[bucket] = at + np.uint64(1)
    else:
        for i in range(low, high):
            bucket = (words[i] >> place) & mask
            at = starts[bucket]
            to[at] = words[i]
            starts[bucket] = at + np.uint64(1)


@device
def insertion_sort(words: Keys, diff: Words, low: int, high: int, carried: bool) -> None:
    """Sort words [low, high), stably; if ``carried``, diffs go along."""
    for i in range(low + 1, high):
        word = words[i]
        amount = diff[i] if carried else np.int64(0)
        j = i
        while j > low and words[j - 1] > word:
            words[j] = words[j - 1]
            if carried:
                diff[j] = diff[j - 1]
            j -= 1
        words[j] = word
        if carried:
            diff[j] = amount


@device
def count_words(
    words: Keys,
    diff: Words,
    low: int,
    high: int,
    bits: int,
    counters: Words,
    out: Keys,
    sums: Words,
    kept: int,
) -> int:
    """Add up the diffs of words [low, high), which differ in their last ``bits`` only. See ``combine``."""
    mask = np.uint64((1 << bits) - 1)
    base = words[low] & ~mask
    for value in range(1 << bits):
        counters[value] = 0
    overflow = False
    if diff.shape[0] > 1:
        for i in range(low, high):
            slot = words[i] & mask
            total = counters[slot]
            added = total + diff[i]
            overflow |= ((total ^ added) & (diff[i] ^ added)) < 0
            counters[slot] = added
    else:
        amount = diff[0]
        for i in range(low, high):
            slot = words[i] & mask
            total = counters[slot]
            added = total + amount
            overflow |= ((total ^ added) & (amount ^ added)) < 0
            counters[slot] = added
    if overflow:
        return -1
    for value in range(1 << bits):
        if counters[value] != 0:
            out[kept] = base | np.uint64(value)
            sums[kept] = counters[value]
            kept += 1
    return kept


@device
def add_runs(words: Keys, diff: Words, low: int, high: int, out: Keys, sums: Words, kept: int) -> int:
    """Add up the diffs of equal words among the sorted [low, high). See ``combine``."""
    step = 1 if diff.shape[0] > 1 else 0
    i = low
    while i < high:
        word = words[i]
        total = diff[i * step]
        i += 1
        while i < high and words[i] == word:
            term = diff[i * step]
            added = total + term
            if ((total ^ added) & (term ^ added)) < 0:
                return -1
            total = added
            i += 1
        if total != 0:
            out[kept] = word
            sums[kept] = total
            kept += 1
    return kept


@kernel("int64(uint64[::1], uint64[::1], int64[::1], int64[::1], int64[::1], int64)")
def combine(words: Keys, spare: Keys, diff: Words, spare_diff: Words, sums: Words, bits: int) -> int:
    """Sort words of so many bits and add up the diffs of equal ones; those with a sum other than 0.

    They are left in ``words`` and their sums in ``sums``. Returns their number, or -1 where a sum does not
    fit 64 bits. If all diffs are equal, ``diff`` and ``spare_diff`` have one element.
    """
    count = words.shape[0]
    cut = min(bits, max(0, bit_length(np.uint64(count)) - BUCKET), MOST_BUCKETS)
    rest = bits - cut
    buckets = 1 << cut
    starts = np.empty(1 << MOST_BUCKETS, np.uint64)
    digits = np.empty(1 << MOST_BUCKETS, np.uint64)
    counters = np.empty(1 << COUNTED, np.int64)
    carried = diff.shape[0] > 1
    scatter(words, diff, 0, count, np.uint64(rest), np.uint64(cut), starts, spare, spare_diff, carried)
    kept = 0
    low = np.int64(0)
    for bucket in range(buckets):
        high = np.int64(starts[bucket])
        size = high - low
        if size > SHORT and rest <= COUNTED and (1 << rest) <= 4 * size:
            kept = count_words(spare, spare_diff, low, high, rest, counters, words, sums, kept)
        else:
            source, source_diff, target, target_diff = spare, spare_diff, words, sums
            if size <= SHORT:
                insertion_sort(source, source_diff, low, high, carried)
            else:
                widest = 8 if size < 4096 else MOST_BUCKETS
                passes = (rest + widest - 1) // widest
                place = 0
                for turn in range(passes):
                    digit = (rest - place + passes - turn - 1) // (passes - turn)
                    scatter(
                        source, source_diff, low, high, np.uint64(place), np.uint64(digit), digits,
                        target, target_diff, carried,
                    )  # fmt: skip
                    source, target = target, source
                    source_diff, target_diff = target_diff, source_diff
                    place += digit
            kept = add_runs(source, source_diff if carried else diff, low, high, words, sums, kept)
        if kept < 0:
            return -1
        low = high
    return kept


@kernel("void(uint64[::1], uint64[::1], int64, int64)")
def sort_stably(words: Keys, spare: Keys, bits: int, settled: int) -> None:
    """Sort words of so many bits that differ in the last ``settled``, by which they are in order already."""
    count = words.shape[0]
    cut = min(bits - settled, max(0, bit_length(np.uint64(count)) - BUCKET), MOST_BUCKETS)
    rest = bits - cut
    starts = np.empty(1 << MOST_BUCKETS, np.uint64)
    digits = np.empty(1 << MOST_BUCKETS, np.uint64)
    none = np.empty(1, np.int64)
    scatter(words, none, 0, count, np.uint64(rest), np.uint64(cut), starts, spare, none, False)
    low = np.int64(0)
    for bucket in range(1 << cut):
        high = np.int64(starts[bucket])
        source, target = spare, words
        passes = 0
        if high - low <= SHORT:
            insertion_sort(source, none, low, high, False)
        else:
            widest = 8 if high - low < 4096 else MOST_BUCKETS
            passes = (rest - settled + widest - 1) // widest
            place = settled
            for turn in range(passes):
                digit = (rest - place + passes - turn - 1) // (passes - turn)
                scatter(
                    source, none, low, high, np.uint64(place), np.uint64(digit), digits, target, none, False
                )
                source, target = target, source
                place += digit
        if passes & 1 == 0:
            words[low:high] = spare[low:high]
        low = high
