"""Making updates of matched pairs: columns, times and diffs gathered over all layers in one call."""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import device, kernel, view_intrinsic
from kpg.runtime.kernels.layout import DATA, DEPTH, DIFF, DIFF_STRIDE, STRIDE, TIME, TIME_STRIDE, WIDTH

Words = NDArray[np.int64]

view = view_intrinsic()

TIMES = 1  # wanted
DIFFS = 2

OVERFLOW = 1  # in the result
VARIED = 2


@device
def gather_columns(
    stream: Words, keep_stream: Words, batch: Words, keep_batch: Words, pairs: Words, first: int, last: int,
    target: Words, start: int,
) -> None:  # fmt: skip
    """Columns of pairs ``first .. last``: kept stream columns, then kept batch columns."""
    for c in range(keep_stream.shape[0]):
        source = stream[keep_stream[c]]
        out = target[c]
        for k in range(first, last):
            out[start + k] = source[pairs[0, k]]
    for c in range(keep_batch.shape[0]):
        source = batch[keep_batch[c]]
        out = target[keep_stream.shape[0] + c]
        for k in range(first, last):
            out[start + k] = source[pairs[1, k]]


@device
def gather_times(
    stream_time: Words, batch_time: Words, pairs: Words, first: int, last: int, target: Words, start: int
) -> None:
    """Least upper bounds of the matched times; coordinates that the batch lacks are 0."""
    stream_step = 1 if stream_time.shape[1] > 1 else 0
    batch_step = 1 if batch_time.shape[1] > 1 else 0
    common = batch_time.shape[0]
    for d in range(common):
        for k in range(first, last):
            x = stream_time[d, pairs[0, k] * stream_step]
            y = batch_time[d, pairs[1, k] * batch_step]
            target[d, start + k] = max(x, y)
    for d in range(common, target.shape[0]):
        for k in range(first, last):
            target[d, start + k] = stream_time[d, pairs[0, k] * stream_step]


@device
def gather_diffs(
    stream_diff: Words, batch_diff: Words, pairs: Words, first: int, last: int, target: Words, start: int
) -> bool:
    """Products of the matched diffs; whether one overflowed."""
    stream_step = 1 if stream_diff.shape[0] > 1 else 0
    batch_step = 1 if batch_diff.shape[0] > 1 else 0
    overflow = False
    for k in range(first, last):
        x = stream_diff[pairs[0, k] * stream_step]
        y = batch_diff[pairs[1, k] * batch_step]
        target[start + k] = x * y
        if abs(np.float64(x) * np.float64(y)) > 9.2e18:
            overflow = True
    return overflow


@device
def varies(target: Words, start: int, end: int) -> bool:
    """Whether a column from ``start`` to ``end`` differs from the first of all."""
    for d in range(target.shape[0]):
        for k in range(start, end):
            if target[d, k] != target[d, 0]:
                return True
    return False


@device
def gather_layers(
    stream: Words, stream_time: Words, stream_diff: Words, keep_stream: Words, keep_batch: Words,
    layers: Words, starts: Words, pairs: Words, timed: bool, counted: bool, data: Words, times: Words,
    diffs: Words, start: int,
) -> bool:  # fmt: skip
    """Updates of the pairs of all layers, from position ``start`` on; whether a product overflowed."""
    overflow = False
    for layer in range(layers.shape[0]):
        first, last = starts[layer], starts[layer + 1]
        if first == last:
            continue
        batch = view(layers[layer], 1, STRIDE + 1)[0]
        rows = batch[STRIDE]
        batch_data = view(batch[DATA], batch[WIDTH], rows)
        gather_columns(stream, keep_stream, batch_data, keep_batch, pairs, first, last, data, start)
        if timed:
            batch_time = view(batch[TIME], batch[DEPTH], rows if batch[TIME_STRIDE] > 0 else 1)
            gather_times(stream_time, batch_time, pairs, first, last, times, start)
        if counted:
            batch_diff = view(batch[DIFF], 1, rows if batch[DIFF_STRIDE] > 0 else 1)[0]
            overflow |= gather_diffs(stream_diff, batch_diff, pairs, first, last, diffs, start)
    return overflow


@kernel(
    "int64(int64[:, ::1], int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1],"
    " int64[:, ::1], int64, int64[:, ::1], int64[:, ::1], int64[::1], int64)"
)
def gather(
    stream: Words,
    stream_time: Words,
    stream_diff: Words,
    keep_stream: Words,
    keep_batch: Words,
    layers: Words,
    starts: Words,
    pairs: Words,
    wanted: int,
    data: Words,
    times: Words,
    diffs: Words,
    start: int,
) -> int:
    """Updates of the pairs that ``seek.match`` found, written from position ``start`` on.

    Times and diffs only if ``wanted`` has TIMES or DIFFS. The result has OVERFLOW if a product of diffs does
    not fit 64 bits, and VARIED if a time differs from the one at position 0.
    """
    timed, counted = wanted & TIMES != 0, wanted & DIFFS != 0
    overflow = gather_layers(
        stream, stream_time, stream_diff, keep_stream, keep_batch, layers, starts, pairs, timed, counted,
        data, times, diffs, start,
    )  # fmt: skip
    result = OVERFLOW if overflow else 0
    if wanted & TIMES and varies(times, start, start + starts[layers.shape[0]]):
        result |= VARIED
    return result
