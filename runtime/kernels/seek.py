"""Matching stream rows with the rows of a trace's layers, which are told by their descriptions.

See :mod:`kpg.runtime.kernels.layout` for descriptions, and ``directory`` for directories.
"""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import device, kernel, small_view_intrinsic, view_intrinsic
from kpg.runtime.kernels.head import NEAR
from kpg.runtime.kernels.layout import (
    BOUNDS,
    COUNTS,
    DATA,
    DEPTH,
    DIFF,
    DIFF_STRIDE,
    ENOUGH,
    HASHED,
    LATEST,
    LINKS,
    MASK,
    OFFSETS,
    OFFSETS_LENGTH,
    PROBES,
    ROWS,
    SLOTS,
    STRIDE,
    TIME,
    TIME_STRIDE,
    VAIN,
    VISITED,
    WIDTH,
)

Words = NDArray[np.int64]
Offsets = NDArray[np.int32]

view = view_intrinsic()
small_view = small_view_intrinsic()

ANY = 0
THROUGH = 1
BEFORE = 2
NONE = -1

LAYER = 0  # of the state of ``match``: where it goes on
ROW = 1
POSITION = 2
FIRST = 3
COMPARED = 4  # rows compared while galloping
LATE = 5  # whether a match may be later than the earliest of the stream
COUNTED = 6  # whether a match may have a diff other than 1
PATIENCE = 7
LEAST = 8  # the least and the largest value in the first column of the stream's key
MOST = 9
EARLIEST = 10  # the earliest of the stream's times, coordinate by coordinate

BLOCK = 64  # stream rows whose places are found together, so that their cache misses overlap

WINDOW = 8  # rows of a batch that are compared at once, without branching, where keys ascend
CLOSE = 4  # rows of a batch for each stream row up to which they are

MOST_WORK = 1 << 24
"""Units of work, one for each pair tried, after which matching lets its caller look up."""

PROBE = 16
"""Units of work that finding a stream row's first position counts."""


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
def walk(wanted: Words, row: int, count: int, column: Words, low: Words) -> None:
    """Fill in low[k] for k > 0 from low[0], for ascending keys that are close together: see ``WINDOW``."""
    position = low[0]
    end = column.shape[0]
    for k in range(1, count):
        value = wanted[row + k]
        passed = WINDOW
        while passed == WINDOW and position + WINDOW <= end:
            passed = 0
            for i in range(WINDOW):
                passed += int(column[position + i] < value)
            position += passed
        if passed == WINDOW:
            while position < end and column[position] < value:
                position += 1
        low[k] = position


@device
def find_positions(
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
    """As :func:`first_positions`; keys that ascend and are close together are found one from the other."""
    wanted = stream[key[0]]
    descents = 0
    for k in range(1, count):
        descents += int(wanted[row + k] < wanted[row + k - 1])
    if descents == 0 and count == BLOCK:
        first_positions(stream, key, row + count - 1, 1, batch, offsets, bounds, low, high)
        last = low[0]
        first_positions(stream, key, row, 1, batch, offsets, bounds, low, high)
        if last - low[0] <= CLOSE * BLOCK:
            walk(wanted, row, count, batch[0], low)
            return
    first_positions(stream, key, row, count, batch, offsets, bounds, low, high)


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
    stream_time: Words,
    origin: int,
    row: int,
    batch_time: Words,
    position: int,
    order: int,
    closed: int,
    floor: int,
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
    for d in range(1, stream_time.shape[0] - origin):
        x = batch_time[d, b] if d < batch_time.shape[0] else 0
        y = stream_time[origin + d, s]
        if x != y:
            return x < y
    if epoch != stream_time[origin, s]:
        return epoch < stream_time[origin, s]
    return order == THROUGH


@device
def test_of(
    stream_time: Words, origin: int, batch: Words, order: int, closed: int, floor: int, state: Words
) -> int:
    """What is to be tested of each pair with a batch: ANY if nothing is, NONE if nothing can match.

    ``state`` tells the earliest of the stream's times, ``batch`` is the description.
    """
    if order == ANY or (batch[LATEST] < closed and floor < closed):
        return ANY
    before = 0  # of the batch's latest time, relative to the stream's earliest
    for d in range(1, stream_time.shape[0] - origin):
        x = batch[LATEST + d] if d < batch[DEPTH] else 0
        y = state[EARLIEST + origin + d]
        if before == 0 and x != y:
            before = -1 if x < y else 1
    if before == 0 and max(batch[LATEST], floor) != state[EARLIEST + origin]:
        before = -1 if max(batch[LATEST], floor) < state[EARLIEST + origin] else 1
    if before < 0 or (before == 0 and order == THROUGH):
        return ANY
    if batch[TIME_STRIDE] == 0 and stream_time.shape[1] == 1:
        one = view(batch[TIME], batch[DEPTH], 1)
        return ANY if admitted(stream_time, origin, 0, one, 0, order, closed, floor) else NONE
    return order


@device
def match_rows(
    stream: Words,
    key: Words,
    stream_time: Words,
    origin: int,
    batch: Words,
    batch_time: Words,
    offsets: Offsets,
    bounds: Words,
    order: int,
    closed: int,
    floor: int,
    count: int,
    state: Words,
    pairs: Words,
) -> int:
    """Pairs with one batch, appended to the first ``count`` of ``pairs``: each stream row is looked up."""
    rows = stream.shape[1]
    positions = batch.shape[1]
    row = state[ROW]
    position = state[POSITION]
    low = np.empty(BLOCK, np.int64)
    high = np.empty(BLOCK, np.int64)
    block_end = row
    block = row
    patience = state[PATIENCE]
    while row < rows and patience > 0:
        if position < 0:
            position = 0
            if key.shape[0] > 0:
                if row >= block_end:
                    block = row
                    block_end = min(rows, row + BLOCK)
                    find_positions(stream, key, row, block_end - row, batch, offsets, bounds, low, high)
                position = low[row - block]
                if key.shape[0] > 1:
                    position = first_position(stream, key, row, batch, position)
        patience += position - PROBE
        while position < positions and agrees(stream, key, row, batch, position):
            if order == ANY or admitted(stream_time, origin, row, batch_time, position, order, closed, floor):
                if count == pairs.shape[1]:
                    state[ROW] = row
                    state[POSITION] = position
                    return count
                pairs[0, count] = row
                pairs[1, count] = position
                count += 1
            position += 1
        patience -= position
        row += 1
        position = -1
    state[ROW] = row
    state[POSITION] = -1
    state[PATIENCE] = patience
    return count


@device
def newest(
    stream: Words, key: Words, row: int, count: int, head: Words, slots: Offsets, found: Words
) -> None:
    """For each of ``count`` stream rows the newest head row of its slot, or -1; without a key, of all."""
    columns = head[HASHED]
    near = (np.uint64(1) << NEAR) - np.uint64(1)
    if key.shape[0] == 0:
        for k in range(count):
            found[k] = head[ROWS] - 1
        return
    for k in range(count):
        first = np.uint64(stream[key[0], row + k])  # as kernels.head.slot_of
        h = ((first >> NEAR) ^ np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xFF51AFD7ED558CCD)
        h ^= h >> np.uint64(32)
        for c in range(1, columns):
            h = (h ^ np.uint64(stream[key[c], row + k])) * np.uint64(0xFF51AFD7ED558CCD)
            h ^= h >> np.uint64(32)
        found[k] = slots[(h ^ (first & near)) & np.uint64(head[MASK])] - 1


@device
def match_head(
    stream: Words,
    key: Words,
    stream_time: Words,
    origin: int,
    head: Words,
    data: Words,
    times: Words,
    order: int,
    closed: int,
    floor: int,
    count: int,
    state: Words,
    pairs: Words,
) -> int:
    """As :func:`match_rows`, with the head: each stream row's chain is followed, newest rows first."""
    rows = stream.shape[1]
    row = state[ROW]
    position = state[POSITION]  # -1 at the beginning of a row, else the next head row to look at
    slots = small_view(head[SLOTS], head[MASK] + 1)
    links = small_view(head[LINKS], head[STRIDE])
    found = np.empty(BLOCK, np.int64)
    block_end = row
    block = row
    patience = state[PATIENCE]
    visited = 0
    vain = 0
    full = False
    while row < rows and patience > 0:
        if position < 0:
            if row >= block_end:
                block = row
                block_end = min(rows, row + BLOCK)
                newest(stream, key, row, block_end - row, head, slots, found)
            position = found[row - block]
            patience -= PROBE
        before = visited
        while position >= 0:
            if agrees(stream, key, row, data, position):
                if order == ANY or admitted(stream_time, origin, row, times, position, order, closed, floor):
                    if count == pairs.shape[1]:
                        full = True
                        break
                    pairs[0, count] = row
                    pairs[1, count] = position
                    count += 1
            else:
                vain += 1
            visited += 1
            position = position - 1 if key.shape[0] == 0 else links[position] - 1
        patience -= visited - before
        if full:
            break
        row += 1
        position = -1
    state[ROW] = row
    state[POSITION] = position
    state[PATIENCE] = patience
    head[VISITED] += visited
    head[VAIN] += vain
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


@device
def gallop(stream: Words, row: int, batch: Words, first: int, columns: int, sign: int, state: Words) -> int:
    """Whichever side is behind gallops to the other: its first row or position that is not behind.

    The last step found behind is ``low``, the first found not to be is ``high``.
    """
    forward = sign < 0
    low = row if forward else first
    end = stream.shape[1] if forward else batch.shape[1]
    step = 1
    while low + step < end:
        s, b = (low + step, first) if forward else (row, low + step)
        state[COMPARED] += 1
        if key_order(stream, s, batch, b, columns) != sign:
            break
        low += step
        step *= 2
    high = min(end, low + step)
    low += 1
    while low < high:
        middle = (low + high) >> 1
        s, b = (middle, first) if forward else (row, middle)
        state[COMPARED] += 1
        if key_order(stream, s, batch, b, columns) == sign:
            low = middle + 1
        else:
            high = middle
    return low


@device
def match_sorted(
    stream: Words,
    columns: int,
    stream_time: Words,
    origin: int,
    batch: Words,
    batch_time: Words,
    order: int,
    closed: int,
    floor: int,
    count: int,
    state: Words,
    pairs: Words,
) -> int:
    """As :func:`match_rows`, for a stream sorted by its leading ``columns``, the key; uses no directory.

    Whichever side is behind gallops to the other (K-Pg, section 5.3.1), so the work is in proportion to
    the distinct keys of the smaller side, times a logarithm, and to the pairs.
    """
    rows = stream.shape[1]
    positions = batch.shape[1]
    row = state[ROW]
    position = state[POSITION]
    first = state[FIRST] if position >= 0 or row > 0 else 0
    limit = state[COMPARED] + state[PATIENCE]
    while row < rows and state[COMPARED] < limit:
        if position < 0:
            if first == positions:
                row = rows
                break
            sign = key_order(stream, row, batch, first, columns)
            state[COMPARED] += 1
            if sign < 0:
                row = gallop(stream, row, batch, first, columns, sign, state)
                continue
            if sign > 0:
                first = gallop(stream, row, batch, first, columns, sign, state)
                continue
            position = first
        compared = 0
        while position < positions and key_order(stream, row, batch, position, columns) == 0:
            if order == ANY or admitted(stream_time, origin, row, batch_time, position, order, closed, floor):
                if count == pairs.shape[1]:
                    state[ROW] = row
                    state[POSITION] = position
                    state[FIRST] = first
                    return count
                pairs[0, count] = row
                pairs[1, count] = position
                count += 1
            position += 1
            compared += 1
        state[COMPARED] += compared
        row += 1
        position = -1
    state[PATIENCE] = limit - state[COMPARED]
    state[ROW] = row
    state[POSITION] = -1
    state[FIRST] = first
    return count


@device
def note_match(stream_depth: int, batch: Words, state: Words) -> None:
    """Note what a match with the batch means for times and diffs, see LATE and COUNTED."""
    for d in range(min(stream_depth, batch[DEPTH])):
        if batch[LATEST + d] > state[EARLIEST + d]:
            state[LATE] = 1
    if batch[SLOTS] != 0:
        counted = batch[COUNTS] > 0
    else:
        counted = batch[DIFF_STRIDE] != 0 or view(batch[DIFF], 1, 1)[0, 0] != 1
    if counted:
        state[COUNTED] = 1


@device
def begin(stream: Words, key: Words, stream_time: Words, state: Words) -> None:
    """Note the earliest of the stream's times, and between which values its keys are."""
    if key.shape[0] > 0 and stream.shape[1] > 0:
        least = most = stream[key[0], 0]
        for row in range(stream.shape[1]):
            least = min(least, stream[key[0], row])
            most = max(most, stream[key[0], row])
        state[LEAST], state[MOST] = least, most
    for d in range(stream_time.shape[0]):
        earliest = stream_time[d, 0]
        for row in range(1, stream_time.shape[1]):
            earliest = min(earliest, stream_time[d, row])
        state[EARLIEST + d] = earliest
    state[LAYER] = 0
    state[ROW] = 0
    state[POSITION] = -1


@device
def may_meet(batch: Words, key: Words, state: Words) -> bool:
    """Whether a layer has rows, and, sorted, a key between those of the stream: tables grow at one end."""
    if batch[ROWS] == 0:
        return False
    if key.shape[0] == 0 or batch[SLOTS] != 0:
        return True
    column = view(batch[DATA], 1, batch[ROWS])[0]
    return column[0] <= state[MOST] and column[batch[ROWS] - 1] >= state[LEAST]


@device
def match_layers(
    stream: Words,
    key: Words,
    stream_time: Words,
    origin: int,
    layers: Words,
    order: int,
    ordered: bool,
    closed: int,
    floor: int,
    state: Words,
    starts: Words,
    pairs: Words,
) -> int:
    """Pairs of a stream row and a row of one of the layers that agree on the key: positions in ``pairs``.

    ``layers`` are addresses of descriptions. Stream columns ``key`` are compared with the batch's leading
    columns; ``ordered`` says that the stream is sorted by them and that they lead there too. See
    :func:`admitted` for ``order``, ``closed`` and ``floor``; the stream's times that it means begin at row
    ``origin``. The pairs with layer l are ``pairs[:, starts[l]:starts[l + 1]]``.

    Returns their number; stops when ``pairs`` is full or after about ``MOST_WORK`` units of work. ``state``
    is ``int64[EARLIEST + depth]``, with LAYER -1 at first and the number of layers when all pairs are out.
    Returns -1 less the number of pairs if layer LAYER should have a directory before it goes on.
    """
    rows = stream.shape[1]
    count = 0
    if state[LAYER] < 0:
        begin(stream, key, stream_time, state)
    state[PATIENCE] = MOST_WORK
    layer = state[LAYER]
    starts[: layer + 1] = 0
    while layer < layers.shape[0]:
        batch = view(layers[layer], 1, LATEST + stream_time.shape[0])[0]
        test = test_of(stream_time, origin, batch, order, closed, floor, state)
        if test != NONE and may_meet(batch, key, state):
            data = view(batch[DATA], batch[WIDTH], batch[STRIDE])
            time = view(batch[TIME], batch[DEPTH], batch[STRIDE] if batch[TIME_STRIDE] > 0 else 1)
            found = count
            if batch[SLOTS] != 0:
                if state[ROW] == 0 and state[POSITION] < 0:
                    batch[PROBES] += rows
                count = match_head(
                    stream, key, stream_time, origin, batch, data, time, test, closed, floor, count, state,
                    pairs,
                )  # fmt: skip
            elif ordered and rows >= batch[ROWS]:
                count = match_sorted(
                    stream, key.shape[0], stream_time, origin, data, time, test, closed, floor, count,
                    state, pairs,
                )  # fmt: skip
            else:
                if state[ROW] == 0 and state[POSITION] < 0:
                    if batch[PROBES] + rows >= batch[ENOUGH]:
                        state[LAYER] = layer
                        starts[layer + 1 :] = count
                        return -1 - count
                    batch[PROBES] += rows
                offsets = small_view(batch[OFFSETS], batch[OFFSETS_LENGTH])
                count = match_rows(
                    stream, key, stream_time, origin, data, time, offsets, batch[BOUNDS : BOUNDS + 3], test,
                    closed, floor, count, state, pairs,
                )  # fmt: skip
            if count > found:
                note_match(stream_time.shape[0], batch, state)
            if state[ROW] < rows:
                break
            state[ROW] = 0
            state[POSITION] = -1
        layer += 1
        starts[layer] = count
    state[LAYER] = layer
    starts[layer + 1 :] = count
    return count


@kernel(
    "int64(int64[:, ::1], int64[::1], int64[:, ::1], int64, int64[::1], int64, boolean, int64, int64,"
    " int64[::1], int64[::1], int64[:, ::1])"
)
def match(
    stream: Words,
    key: Words,
    stream_time: Words,
    origin: int,
    layers: Words,
    order: int,
    ordered: bool,
    closed: int,
    floor: int,
    state: Words,
    starts: Words,
    pairs: Words,
) -> int:
    """See :func:`match_layers`."""
    return match_layers(
        stream, key, stream_time, origin, layers, order, ordered, closed, floor, state, starts, pairs
    )
