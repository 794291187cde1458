"""Finding stream rows in sorted batches: the directory of a batch, matching, and gathering the matches.

A *directory* makes a random probe cost O(1) cache misses: the range ``[origin, last]`` of the first
column is cut into buckets of ``2**shift`` values, and ``offsets[b]`` is the first position of bucket b or
a later one. Rows outside that range (NULLs, outliers) precede ``offsets[0]`` or follow
``offsets[-1]``. ``bounds`` is ``(origin, last, shift)``; without a directory ``offsets`` has length 0.
"""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import device, kernel

Words = NDArray[np.int64]
Offsets = NDArray[np.int32]

ANY = 0
THROUGH = 1
BEFORE = 2

BLOCK = 64


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
    while row < stop:
        bucket = np.int64((np.uint64(column[row]) - origin) >> shift)
        while filled <= bucket:
            offsets[filled] = row
            filled += 1
        row += 1
    if row == state[2]:
        while filled < offsets.shape[0]:
            offsets[filled] = row
            filled += 1
    state[0] = row
    state[1] = filled


@device
def first_positions(
    stream: Words,
    key: Words,
    row: int,
    count: int,
    batch: Words,
    offsets: Offsets,
    bounds: Words,
    low: Words,
    high: Words,
) -> None:
    """For each of ``count`` stream rows: low[k], the first position whose first column is not before its key.

    Nothing branches on what was just read from the batch, so that the cache misses of many rows overlap.
    """
    positions = batch.shape[1]
    buckets = offsets.shape[0] - 1
    wanted = stream[key[0]]
    column = batch[0]
    origin, last, shift = bounds[0], bounds[1], np.uint64(bounds[2])
    for k in range(count):
        value = wanted[row + k]
        if buckets <= 0:
            low[k], high[k] = 0, positions
        elif value < origin:
            low[k], high[k] = 0, offsets[0]
        elif value > last:
            low[k], high[k] = offsets[buckets], positions
        else:
            bucket = (np.uint64(value) - np.uint64(origin)) >> shift
            low[k], high[k] = offsets[bucket], offsets[bucket + np.uint64(1)]
    one = np.uint64(1)  # unsigned, as a signed index costs a test for being negative
    for k in range(count):
        value = wanted[row + k]
        base = np.uint64(low[k])
        size = np.uint64(high[k]) - base
        while size > one:
            half = size >> one
            base += half * np.uint64(column[base + half - one] < value)
            size -= half
        if size == one:
            base += np.uint64(column[base] < value)
        low[k] = base


@device
def is_before(batch: Words, position: int, stream: Words, key: Words, row: int) -> bool:
    """Whether a batch row is before a stream row on the key columns."""
    for c in range(key.shape[0]):
        x = batch[c, position]
        y = stream[key[c], row]
        if x != y:
            return x < y
    return False


@device
def first_position(stream: Words, key: Words, row: int, batch: Words, low: int) -> int:
    """First position that is not before a stream row; no earlier than ``low``, from which it gallops."""
    end = batch.shape[1]
    step = 1
    while low + step <= end and is_before(batch, low + step - 1, stream, key, row):
        low += step
        step *= 2
    high = min(end, low + step - 1)
    while low < high:
        middle = (low + high) >> 1
        if is_before(batch, middle, stream, key, row):
            low = middle + 1
        else:
            high = middle
    return low


@device
def agrees(stream: Words, key: Words, row: int, batch: Words, position: int) -> bool:
    """Whether a stream row and a batch row are equal on the key columns."""
    for c in range(key.shape[0]):
        if stream[key[c], row] != batch[c, position]:
            return False
    return True


@device
def admitted(stream_time: Words, row: int, batch_time: Words, position: int, order: int) -> bool:
    """Whether the time of a batch row is at or before that of a stream row, lexicographically."""
    s = row if stream_time.shape[1] > 1 else 0
    b = position if batch_time.shape[1] > 1 else 0
    for d in range(stream_time.shape[0]):
        x = batch_time[d, b]
        y = stream_time[d, s]
        if x != y:
            return x < y
    return order == THROUGH


@kernel(
    "int64(int64[:, ::1], int64[::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int32[::1], int64[::1],"
    " int64, int64[::1], int64[::1], int64[::1])"
)
def match(
    stream: Words,
    key: Words,
    stream_time: Words,
    batch: Words,
    batch_time: Words,
    offsets: Offsets,
    bounds: Words,
    order: int,
    state: Words,
    left: Words,
    right: Words,
) -> int:
    """Pairs of a stream row and a batch row that agree on the key: positions into ``left``, ``right``.

    Stream columns ``key`` are compared with the batch's leading columns. Returns the number of pairs;
    stops when ``left`` is full. ``state`` is ``(stream row, batch position or -1)`` and starts as
    ``(0, -1)``; all pairs are out when ``state[0]`` is the number of stream rows.
    """
    rows = stream.shape[1]
    positions = batch.shape[1]
    row = state[0]
    position = state[1]
    count = 0
    low = np.empty(BLOCK, np.int64)
    high = np.empty(BLOCK, np.int64)
    block_end = row
    block = row
    while row < rows:
        if position < 0:
            position = 0
            if key.shape[0] > 0:
                if row >= block_end:
                    block = row
                    block_end = min(rows, row + BLOCK)
                    first_positions(stream, key, row, block_end - row, batch, offsets, bounds, low, high)
                position = low[row - block]
                if key.shape[0] > 1:
                    position = first_position(stream, key, row, batch, position)
        while position < positions and agrees(stream, key, row, batch, position):
            if order == ANY or admitted(stream_time, row, batch_time, position, order):
                if count == left.shape[0]:
                    state[0] = row
                    state[1] = position
                    return count
                left[count] = row
                right[count] = position
                count += 1
            position += 1
        row += 1
        position = -1
    state[0] = row
    state[1] = -1
    return count


@kernel(
    "void(int64[:, ::1], int64[::1], int64[::1], int64[:, ::1], int64[::1], int64[::1], int64[:, ::1], int64)"
)
def gather_pairs(
    stream: Words,
    keep_stream: Words,
    left: Words,
    batch: Words,
    keep_batch: Words,
    right: Words,
    target: Words,
    start: int,
) -> None:
    """Columns of matched rows into ``target[:, start:]``: kept stream columns, then kept batch columns."""
    count = left.shape[0]
    for c in range(keep_stream.shape[0]):
        source = stream[keep_stream[c]]
        out = target[c]
        for k in range(count):
            out[start + k] = source[left[k]]
    for c in range(keep_batch.shape[0]):
        source = batch[keep_batch[c]]
        out = target[keep_stream.shape[0] + c]
        for k in range(count):
            out[start + k] = source[right[k]]


@kernel("void(int64[:, ::1], int64[::1], int64[:, ::1], int64[::1], int64[:, ::1], int64)")
def gather_times(
    stream_time: Words, left: Words, batch_time: Words, right: Words, target: Words, start: int
) -> None:
    """Least upper bounds of the matched times into ``target[:, start:]``; short forms allowed."""
    stream_step = 1 if stream_time.shape[1] > 1 else 0
    batch_step = 1 if batch_time.shape[1] > 1 else 0
    for d in range(target.shape[0]):
        for k in range(left.shape[0]):
            x = stream_time[d, left[k] * stream_step]
            y = batch_time[d, right[k] * batch_step]
            target[d, start + k] = max(x, y)


@kernel("int64(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64)")
def gather_diffs(
    stream_diff: Words, left: Words, batch_diff: Words, right: Words, target: Words, start: int
) -> int:
    """Products of the matched diffs into ``target[start:]``; returns how many overflowed."""
    stream_step = 1 if stream_diff.shape[0] > 1 else 0
    batch_step = 1 if batch_diff.shape[0] > 1 else 0
    overflows = 0
    for k in range(left.shape[0]):
        x = stream_diff[left[k] * stream_step]
        y = batch_diff[right[k] * batch_step]
        target[start + k] = x * y
        if abs(np.float64(x) * np.float64(y)) > 9.2e18:
            overflows += 1
    return overflows
