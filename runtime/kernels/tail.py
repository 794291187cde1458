"""The tail of a trace: few rows in order, into which a small step's are merged.

A tail has two sides, each with room for so many rows: the present one, which its description tells of as of
a batch's (see :mod:`kpg.runtime.kernels.layout`), and the one before, to which a step may go back.
"""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import device, kernel, view_intrinsic
from kpg.runtime.kernels.layout import DATA, DEPTH, DIFF, LATEST, ROWS, STRIDE, TIME, WIDTH

Words = NDArray[np.int64]

view = view_intrinsic()


@device
def is_before(data: Words, row: int, rows: Words, position: int) -> bool:
    """Whether a row comes before the one at a position."""
    for c in range(data.shape[0]):
        x = data[c, row]
        y = rows[c, position]
        if x != y:
            return x < y
    return False


@device
def places(data: Words, rows: Words, out: Words) -> None:
    """How many of ``rows`` come before each row of ``data``, or are equal to it; both are sorted."""
    low = 0
    for k in range(data.shape[1]):
        high = rows.shape[1]
        while low < high:
            middle = (low + high) >> 1
            if is_before(data, k, rows, middle):
                high = middle
            else:
                low = middle + 1
        out[k] = low


@device
def weave(old: Words, new: Words, step: int, at: Words, out: Words) -> None:
    """``out``: the words of ``old`` with every ``step``-th of ``new``, 0 for the first only, put in."""
    start = 0
    for k in range(at.shape[0]):
        for i in range(start, at[k]):
            out[i + k] = old[i]
        out[at[k] + k] = new[k * step]
        start = at[k]
    for i in range(start, old.shape[0]):
        out[i + at.shape[0]] = old[i]


@kernel("void(int64[:, ::1], int64[:, ::1], int64[::1], int64[::1], int64[::1])")
def insert(data: Words, time: Words, diff: Words, tail: Words, spare: Words) -> None:
    """Merge sorted updates into a tail. Their times are later than those of equal rows that are there.

    ``tail`` is the description, ``spare int64[3]`` the addresses of the other side's data, times and diffs,
    which must have room. The sides change places.
    """
    width, depth, rows = tail[WIDTH], tail[DEPTH], tail[ROWS]
    count = data.shape[1]
    total = rows + count
    old = view(tail[DATA], width, rows)
    new = view(spare[0], width, total)
    at = np.empty(count, np.int64)
    places(data, old, at)
    for c in range(width):
        weave(old[c], data[c], 1, at, new[c])
    old_times = view(tail[TIME], depth, rows)
    new_times = view(spare[1], depth, total)
    step = 1 if time.shape[1] > 1 else 0
    for d in range(depth):
        weave(old_times[d], time[d], step, at, new_times[d])
        for k in range(time.shape[1]):
            tail[LATEST + d] = max(tail[LATEST + d], time[d, k])
    step = 1 if diff.shape[0] > 1 else 0
    weave(view(tail[DIFF], 1, rows)[0], diff, step, at, view(spare[2], 1, total)[0])
    tail[DATA], spare[0] = spare[0], tail[DATA]
    tail[TIME], spare[1] = spare[1], tail[TIME]
    tail[DIFF], spare[2] = spare[2], tail[DIFF]
    tail[ROWS] = total
    tail[STRIDE] = total
