"""Rows that are added up by groups before they are sent, so that few go instead of many."""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import device, kernel

Words = NDArray[np.int64]

NULL = -(2**63)
ERROR = NULL + 1
MULTIPLIER = -7046029254386353131
LOW_HALF = 0xFFFFFFFF
FAILED = -1
MANY = -2
LARGE = -3
LARGEST = 4.0e18


@device
def hash_of(data: Words, row: int, key: int) -> int:
    """A hash of the first words of a row."""
    value = key
    for k in range(key):
        value = (value ^ data[k, row]) * MULTIPLIER
        value ^= (value >> 32) & LOW_HALF
    return value


@device
def same_key(data: Words, row: int, other: int, key: int) -> bool:
    """Whether the first words of two rows are the same."""
    k = 0
    while k < key and data[k, row] == data[k, other]:
        k += 1
    return k == key


@kernel("int64(int64[:, ::1], int64[::1], int64, int64[::1], int64[::1], int64[:, ::1], int64[:, ::1])")
def add_up(
    data: Words, diffs: Words, key: int, summed: Words, slots: Words, groups: Words, sums: Words
) -> int:
    """Add up rows with their diffs, which may be one for all, by their first ``key`` columns.

    ``slots`` is of -1, a power of two of them. Of each group, of which there may be as many as ``groups``
    has rows, row g of ``groups`` becomes (a row of it, all diffs), and then, of each further column, the
    diffs of the rows that have something in it; row g of ``sums`` what these columns come to, where
    ``summed`` says so. How many groups there are; FAILED if a word is ERROR, MANY if there is no room for
    all of them, LARGE if a sum may not fit a word.
    """
    mask = slots.shape[0] - 1
    columns = data.shape[0] - key
    found = 0
    one = diffs.shape[0] == 1
    largest = 0.0
    rough = np.zeros(columns)
    for row in range(data.shape[1]):
        slot = hash_of(data, row, key) & mask
        while slots[slot] >= 0 and not same_key(data, row, groups[slots[slot], 0], key):
            slot = (slot + 1) & mask
        group = slots[slot]
        if group < 0:
            if found == groups.shape[0]:
                return MANY
            group = found
            slots[slot] = group
            groups[group, 0] = row
            groups[group, 1:] = 0
            sums[group, :] = 0
            found += 1
        diff = diffs[0] if one else diffs[row]
        groups[group, 1] += diff
        for column in range(columns):
            word = data[key + column, row]
            if word == NULL:
                continue
            if word == ERROR:
                return FAILED
            groups[group, 2 + column] += diff
            if summed[column] != 0:
                rough[column] += abs(float(word) * float(diff))
                sums[group, column] += word * diff
    for column in range(columns):
        largest = max(largest, rough[column])
    return LARGE if largest > LARGEST else found
