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

PATIENCE = 1 << 24
"""Units of work, one for each pair tried, after which a matching kernel lets its caller look up."""

PROBE = 16
"""Units of work that finding a stream row's first position counts."""


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
def admitted(
    stream_time: Words, row: int, batch_time: Words, position: int, order: int, closed: int, floor: int
) -> bool:
    """Whether a batch row's time comes before a stream row's, or with THROUGH is equal to it.

    The order is by rounds (rows 1.. of the times), then by epoch (row 0); batch epochs count as no less
    than ``floor``, and those below ``closed`` come before everything. Rounds that the batch lacks are 0.
    """
    b = position if batch_time.shape[1] > 1 else 0
    epoch = max(batch_time[0, b], floor)
    if epoch < closed:
        return True
    s = row if stream_time.shape[1] > 1 else 0
    for d in range(1, stream_time.shape[0]):
        x = batch_time[d, b] if d < batch_time.shape[0] else 0
        y = stream_time[d, s]
        if x != y:
            return x < y
    if epoch != stream_time[0, s]:
        return epoch < stream_time[0, s]
    return order == THROUGH


@kernel(
    "int64(int64[:, ::1], int64[::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int32[::1], int64[::1],"
    " int64, int64, int64, int64[::1], int64[::1], int64[::1])"
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
    closed: int,
    floor: int,
    state: Words,
    left: Words,
    right: Words,
) -> int:
    """Pairs of a stream row and a batch row that agree on the key: positions into ``left``, ``right``.

    Stream columns ``key`` are compared with the batch's leading columns; see :func:`admitted` for
    ``order``, ``closed`` and ``floor``. Returns the number of pairs; stops when ``left`` is full or after
    about ``PATIENCE`` units of work. ``state`` is ``(stream row, batch position or -1, ...)`` and starts as
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
    patience = PATIENCE
    while row < rows and patience > 0:
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
        patience += position - PROBE
        while position < positions and agrees(stream, key, row, batch, position):
            if order == ANY or admitted(stream_time, row, batch_time, position, order, closed, floor):
                if count == left.shape[0]:
                    state[0] = row
                    state[1] = position
                    return count
                left[count] = row
                right[count] = position
                count += 1
            position += 1
        patience -= position
        row += 1
        position = -1
    state[0] = row
    state[1] = -1
    return count


@device
def key_order(stream: Words, row: int, batch: Words, position: int, columns: int) -> int:
    """-1, 0 or 1 as a stream row is before, equal to or after a batch row on that many leading columns."""
    for c in range(columns):
        x = stream[c, row]
        y = batch[c, position]
        if x < y:
            return -1
        if x > y:
            return 1
    return 0


@kernel(
    "int64(int64[:, ::1], int64[::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int32[::1], int64[::1],"
    " int64, int64, int64, int64[::1], int64[::1], int64[::1])"
)
def match_sorted(
    stream: Words,
    key: Words,
    stream_time: Words,
    batch: Words,
    batch_time: Words,
    offsets: Offsets,
    bounds: Words,
    order: int,
    closed: int,
    floor: int,
    state: Words,
    left: Words,
    right: Words,
) -> int:
    """As :func:`match`, for a stream sorted by ``key``, which is its leading columns; uses no directory.

    Whichever side is behind gallops to the other (K-Pg, section 5.3.1), so the work is in proportion to
    the distinct keys of the smaller side, times a logarithm, and to the pairs. ``state`` is ``(stream row,
    position of the next pair or -1, first position of its key, rows compared)``, at first ``(0, -1, 0, 0)``.
    """
    columns = key.shape[0]
    rows = stream.shape[1]
    positions = batch.shape[1]
    row = state[0]
    position = state[1]
    first = state[2] if position >= 0 else 0
    compared = state[3]
    limit = compared + PATIENCE
    count = 0
    while row < rows and compared < limit:
        if position < 0:
            if first == positions:
                row = rows
                break
            sign = key_order(stream, row, batch, first, columns)
            compared += 1
            if sign != 0:
                # Gallop: the last step found behind is ``low``, the first found not to be is ``high``.
                forward = sign < 0
                low = row if forward else first
                end = rows if forward else positions
                step = 1
                while low + step < end:
                    s, b = (low + step, first) if forward else (row, low + step)
                    compared += 1
                    if key_order(stream, s, batch, b, columns) != sign:
                        break
                    low += step
                    step *= 2
                high = min(end, low + step)
                low += 1
                while low < high:
                    middle = (low + high) >> 1
                    s, b = (middle, first) if forward else (row, middle)
                    compared += 1
                    if key_order(stream, s, batch, b, columns) == sign:
                        low = middle + 1
                    else:
                        high = middle
                if forward:
                    row = low
                else:
                    first = low
                continue
            position = first
        while position < positions and key_order(stream, row, batch, position, columns) == 0:
            if order == ANY or admitted(stream_time, row, batch_time, position, order, closed, floor):
                if count == left.shape[0]:
                    state[0] = row
                    state[1] = position
                    state[2] = first
                    state[3] = compared
                    return count
                left[count] = row
                right[count] = position
                count += 1
            position += 1
            compared += 1
        row += 1
        position = -1
    state[0] = row
    state[1] = -1
    state[2] = first
    state[3] = compared
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
    """Least upper bounds of the matched times into ``target[:, start:]``; short forms allowed.

    Coordinates that the batch lacks are 0.
    """
    stream_step = 1 if stream_time.shape[1] > 1 else 0
    batch_step = 1 if batch_time.shape[1] > 1 else 0
    common = batch_time.shape[0]
    for d in range(common):
        for k in range(left.shape[0]):
            x = stream_time[d, left[k] * stream_step]
            y = batch_time[d, right[k] * batch_step]
            target[d, start + k] = max(x, y)
    for d in range(common, target.shape[0]):
        for k in range(left.shape[0]):
            target[d, start + k] = stream_time[d, left[k] * stream_step]


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
