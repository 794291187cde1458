"""Describing a batch to kernels, and building its directory.

A batch is known to kernels by the address of its *description*: see :mod:`kpg.runtime.kernels.layout`.

A *directory* makes a random probe cost O(1) cache misses: the range ``[origin, last]`` of the first
column is cut into buckets of ``2**shift`` values, and ``offsets[b]`` is the first position of bucket b or
a later one. Rows outside that range (NULLs, outliers) precede ``offsets[0]`` or follow
``offsets[-1]``. ``bounds`` is ``(origin, last, shift)``.
"""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import kernel
from kpg.runtime.kernels.layout import (
    DATA,
    DEPTH,
    DIFF,
    DIFF_STRIDE,
    LATEST,
    OFFSETS,
    OFFSETS_LENGTH,
    PROBES,
    ROWS,
    SLOTS,
    STRIDE,
    TIME,
    TIME_STRIDE,
    WIDTH,
)

Words = NDArray[np.int64]
Offsets = NDArray[np.int32]


@kernel("int64(int64[:, ::1], int64[:, ::1], int64[::1], int64, int64[::1])")
def describe(data: Words, time: Words, diff: Words, known: int, description: Words) -> int:
    """Fill the description of a batch without a directory, the latest time only if it is not ``known``.

    Returns the description's own address.
    """
    description[DATA] = data.ctypes.data
    description[ROWS] = data.shape[1]
    description[TIME] = time.ctypes.data
    description[TIME_STRIDE] = 0 if time.shape[1] == 1 else 1
    description[DIFF] = diff.ctypes.data
    description[DIFF_STRIDE] = 0 if diff.shape[0] == 1 else 1
    description[WIDTH] = data.shape[0]
    description[DEPTH] = time.shape[0]
    description[STRIDE] = data.shape[1]
    description[SLOTS] = 0
    description[OFFSETS] = 0
    description[OFFSETS_LENGTH] = 0
    description[PROBES] = 0
    if known == 0:
        for d in range(time.shape[0]):
            latest = 0
            for row in range(time.shape[1] if data.shape[1] > 0 else 0):
                latest = max(latest, time[d, row])
            description[LATEST + d] = latest
    return description.ctypes.data


@kernel("void(int64[::1], int64[::1], int32[::1], int64[::1], int64)")
def fill_directory(column: Words, bounds: Words, offsets: Offsets, state: Words, limit: int) -> None:
    """Fill ``offsets`` from the sorted ``column``, at most ``limit`` rows a call.

    ``state`` is ``(next row, offsets filled, end)``; rows [row, end) are those within the bounds. It is
    done when ``state[0] == state[2]``.
    """
    origin = np.uint64(bounds[0])
    shift = np.uint64(bounds[2])
    row = state[0]
    filled = state[1]
    stop = min(state[2], row + limit)
    if row < stop:
        # Each row says where its bucket ends so far, and empty ones end where those before do: no branches.
        last = np.int64((np.uint64(column[stop - 1]) - origin) >> shift)
        offsets[filled : last + 1] = row
        for i in range(row, stop):
            offsets[((np.uint64(column[i]) - origin) >> shift) + np.uint64(1)] = i + 1
        reached = np.int32(row)
        for bucket in range(filled, last + 1):
            reached = max(reached, offsets[bucket])
            offsets[bucket] = reached
        filled = last + 1
        row = stop
    if row == state[2]:
        offsets[filled:] = row
        filled = offsets.shape[0]
    state[0] = row
    state[1] = filled
