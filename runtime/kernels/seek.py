"""Finding stream rows in sorted batches: the directory of a batch, matching, and gathering the matches.

A *directory* makes a random probe cost O(1) cache misses: the range ``[origin, last]`` of the first
column is cut into buckets of ``2**shift`` values, and ``offsets[b]`` is the first position of bucket b or
a later one. Rows outside that range (NULLs, outliers) precede ``offsets[0]`` or follow
``offsets[-1]``. ``bounds`` is ``(origin, last, shift)``; without a directory ``offsets`` has length 0.
"""

import numpy as np

from kpg.runtime.kernels import device, kernel

ANY = 0
THROUGH = 1
BEFORE = 2


@kernel("void(int64[::1], int64[::1], int32[::1], int64[::1], int64)")
def fill_directory(column, bounds, offsets, state, limit):
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
def locate(stream, key, row, batch, offsets, bounds):
    """First position in the batch that is not before stream row ``row`` on the key columns."""
    low = 0
    high = batch.shape[1]
    if key.shape[0] == 0:
        return low
    first = stream[key[0], row]
    buckets = offsets.shape[0] - 1
    if buckets > 0:
        if first < bounds[0]:
            high = np.int64(offsets[0])
        elif first > bounds[1]:
            low = np.int64(offsets[buckets])
        else:
            bucket = np.int64((np.uint64(first) - np.uint64(bounds[0])) >> np.uint64(bounds[2]))
            low = np.int64(offsets[bucket])
            high = np.int64(offsets[bucket + 1])
    while low < high:
        middle = (low + high) >> 1
        before = False
        for c in range(key.shape[0]):
            x = batch[c, middle]
            y = stream[key[c], row]
            if x != y:
                before = x < y
                break
        if before:
            low = middle + 1
        else:
            high = middle
    return low


@device
def agrees(stream, key, row, batch, position):
    """Whether a stream row and a batch row are equal on the key columns."""
    for c in range(key.shape[0]):
        if stream[key[c], row] != batch[c, position]:
            return False
    return True


@device
def admitted(stream_time, row, batch_time, position, order):
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
def match(stream, key, stream_time, batch, batch_time, offsets, bounds, order, state, left, right):
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
    while row < rows:
        if position < 0:
            position = locate(stream, key, row, batch, offsets, bounds)
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
def gather_pairs(stream, keep_stream, left, batch, keep_batch, right, target, start):
    """Columns of the matched rows into ``target[:, start:]``: kept stream columns, then kept batch columns."""
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
def gather_times(stream_time, left, batch_time, right, target, start):
    """Least upper bounds of the matched times into ``target[:, start:]``; short forms allowed."""
    stream_step = 1 if stream_time.shape[1] > 1 else 0
    batch_step = 1 if batch_time.shape[1] > 1 else 0
    for d in range(target.shape[0]):
        for k in range(left.shape[0]):
            x = stream_time[d, left[k] * stream_step]
            y = batch_time[d, right[k] * batch_step]
            target[d, start + k] = max(x, y)


@kernel("int64(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64)")
def gather_diffs(stream_diff, left, batch_diff, right, target, start):
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
