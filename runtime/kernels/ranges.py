"""A comparison with thresholds that move: the rows that a small step makes satisfy more or fewer of them.

Rows are compared by their first column, thresholds are the first column of theirs. Of thresholds few count at
a time, however many came and went: their updates are added up as they are read.
"""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import device, kernel, load_intrinsic, view_intrinsic
from kpg.runtime.kernels.layout import (
    DATA,
    DEPTH,
    DIFF,
    DIFF_STRIDE,
    LATEST,
    ROWS,
    STRIDE,
    TIME,
    TIME_STRIDE,
    WIDTH,
)

Words = NDArray[np.int64]

view = view_intrinsic()
load = load_intrinsic()

LESS = 0  # comparisons: of the row with the threshold
LESS_EQUAL = 1
GREATER = 2
GREATER_EQUAL = 3

REFUSED = -1  # instead of a number: what is too much for here

MOST = 64  # thresholds that count at a time
MOST_TIMES = 2**31  # so often occurs a row, or a threshold: a product of two fits 64 bits
FIRST_WORD = -(2**63) + 2  # of values: NULL and errors are below
LAST_WORD = 2**63 - 1

FROM, TO, TIMES = 0, 1, 2  # of a stretch of a layer: its rows, and how many thresholds more they satisfy
STRETCH = 3


@device
def add(value: int, count: int, values: Words, counts: Words, known: int) -> int:
    """Add to a threshold's count; how many thresholds count then, -1 if they are too many."""
    if value < FIRST_WORD:
        return known
    i = known - 1
    while i >= 0 and values[i] != value:
        i -= 1
    if i >= 0:
        counts[i] += count
        if counts[i] == 0:
            known -= 1
            values[i], counts[i] = values[known], counts[known]
        return known
    if known == values.shape[0]:
        return -1
    values[known], counts[known] = value, count
    return known + 1


@device
def before(layers: Words, epoch: int, values: Words, counts: Words) -> int:
    """The thresholds of earlier epochs that count; -1 if they are too many."""
    known = 0
    for i in range(layers.shape[0]):
        layer = view(layers[i], 1, LATEST)[0]
        rows, stride = layer[ROWS], layer[STRIDE]
        data = view(layer[DATA], layer[WIDTH], stride)
        times = view(layer[TIME], layer[DEPTH], stride if layer[TIME_STRIDE] > 0 else 1)
        diffs = view(layer[DIFF], 1, stride if layer[DIFF_STRIDE] > 0 else 1)
        for row in range(rows):
            if times[0, row * layer[TIME_STRIDE]] < epoch:
                known = add(data[0, row], diffs[0, row * layer[DIFF_STRIDE]], values, counts, known)
                if known < 0:
                    return -1
    return known


@device
def sort_few(values: Words, counts: Words, known: int) -> None:
    """Sort thresholds by value."""
    for i in range(1, known):
        value, count = values[i], counts[i]
        j = i
        while j > 0 and values[j - 1] > value:
            values[j], counts[j] = values[j - 1], counts[j - 1]
            j -= 1
        values[j], counts[j] = value, count


@device
def holds(value: int, comparison: int, threshold: int) -> bool:
    """Whether a value satisfies a threshold."""
    if comparison == LESS:
        return value < threshold
    if comparison == LESS_EQUAL:
        return value <= threshold
    if comparison == GREATER:
        return value > threshold
    return value >= threshold


@device
def weigh(column: Words, comparison: int, values: Words, counts: Words, known: int, weights: Words) -> int:
    """How many thresholds each value satisfies; the number of those that satisfy other than none."""
    found = 0
    for i in range(column.shape[0]):
        total = 0
        if column[i] >= FIRST_WORD:
            for k in range(known):
                if holds(column[i], comparison, values[k]):
                    total += counts[k]
        weights[i] = total
        found += int(total != 0)
    return found


@device
def first_from(layers: Words, layer: int, bound: int) -> int:
    """The first row of a layer whose first column is at least ``bound``."""
    low, high = 0, layers[layer, ROWS]
    while low < high:
        middle = (low + high) >> 1
        if load(layers[layer, DATA], middle) < bound:
            low = middle + 1
        else:
            high = middle
    return low


@device
def stretch_out(
    layers: Words, comparison: int, values: Words, counts: Words, known: int, stretches: Words
) -> int:
    """The stretches of each layer in which rows satisfy more or fewer thresholds; how many rows they have.

    ``stretches int64[STRETCH, layers * (known + 1)]``, those of a layer one after another.
    """
    rising = comparison in (GREATER, GREATER_EQUAL)
    beyond = comparison in (GREATER, LESS_EQUAL)
    total = 0
    for layer in range(layers.shape[0]):
        times = 0
        if not rising:
            for k in range(known):
                times += counts[k]
        first = first_from(layers, layer, FIRST_WORD)
        for k in range(known + 1):
            last = layers[layer, ROWS]
            if k < known:
                if not beyond:
                    last = first_from(layers, layer, values[k])
                elif values[k] < LAST_WORD:
                    last = first_from(layers, layer, values[k] + 1)
            at = layer * (known + 1) + k
            stretches[FROM, at], stretches[TO, at], stretches[TIMES, at] = first, last, times
            total += last - first if times != 0 else 0
            first = last
            if k < known:
                times += counts[k] if rising else -counts[k]
    return total


@device
def put_weighed(left: Words, diff: Words, weights: Words, out: Words) -> int:
    """Rows with their diffs times their weights, where that is not 0; how many, or REFUSED."""
    width, count = left.shape[0], 0
    step = 1 if diff.shape[0] > 1 else 0
    for i in range(left.shape[1]):
        if weights[i] != 0:
            if abs(weights[i]) > MOST_TIMES or abs(diff[i * step]) > MOST_TIMES:
                return REFUSED
            for c in range(width):
                out[c, count] = left[c, i]
            out[width, count] = diff[i * step] * weights[i]
            count += 1
    return count


@device
def put_stretch(layers: Words, layer: int, first: int, last: int, times: int, out: Words, count: int) -> int:
    """Append a layer's rows with their diffs so many times; how many there are then, or REFUSED."""
    width, rows = out.shape[0] - 1, layers[layer, ROWS]
    if abs(times) > MOST_TIMES:
        return REFUSED
    for c in range(width):
        for i in range(first, last):
            out[c, count + i - first] = load(layers[layer, DATA], c * rows + i)
    for i in range(first, last):
        diff = load(layers[layer, DIFF], i * layers[layer, DIFF_STRIDE])
        if abs(diff) > MOST_TIMES:
            return REFUSED
        out[width, count + i - first] = diff * times
    return count + last - first


@kernel(
    "int64(int64[:, ::1], int64[::1], int64[:, ::1], int64[::1], int64[::1], int64[:, ::1], int64, int64,"
    " int64[:, ::1])"
)
def follow(
    left: Words,
    left_diff: Words,
    right: Words,
    right_diff: Words,
    thresholds: Words,
    layers: Words,
    comparison: int,
    epoch: int,
    out: Words,
) -> int:
    """What becomes of the rows that satisfy thresholds, in a step of one epoch.

    ``left`` are changes of rows, compared with the thresholds before the step, of whose layers ``thresholds``
    has the addresses. ``right`` are changes of thresholds, with which all rows are compared: their layers are
    sorted, the step's changes are among them, and ``layers int64[count, BEGINNING]`` describes them. Into the
    columns of ``out int64[width + 1, room]``: rows, and how many thresholds more they satisfy.

    Returns their number; if there is too little room, -1 less that number; REFUSED if more than ``MOST``
    thresholds count, or a row or a threshold too often.
    """
    values, counts = np.empty(MOST, np.int64), np.empty(MOST, np.int64)
    weights = np.empty(left.shape[1], np.int64)
    total = 0
    if left.shape[1] > 0:
        known = before(thresholds, epoch, values, counts)
        if known < 0:
            return REFUSED
        total = weigh(left[0], comparison, values, counts, known, weights)
    known = 0
    step = 1 if right_diff.shape[0] > 1 else 0
    for i in range(right.shape[1]):
        known = add(right[0, i], right_diff[i * step], values, counts, known)
        if known < 0:
            return REFUSED
    stretches = np.zeros((STRETCH, layers.shape[0] * (known + 1)), np.int64)
    if known > 0:
        sort_few(values, counts, known)
        total += stretch_out(layers, comparison, values, counts, known, stretches)
    if total > out.shape[1]:
        return -1 - total
    count = put_weighed(left, left_diff, weights, out)
    for at in range(stretches.shape[1]):
        times = stretches[TIMES, at]
        if count >= 0 and times != 0:
            layer = at // (known + 1)
            count = put_stretch(layers, layer, stretches[FROM, at], stretches[TO, at], times, out, count)
    return count
