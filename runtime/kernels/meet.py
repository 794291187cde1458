"""Few stream rows meet a trace: matched and made updates in one call, if all fits.

What :mod:`kpg.runtime.kernels.seek` and ``pairs`` do in turns, with room for whatever comes, is done here for
a small step: fixed costs are what it consists of.
"""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import kernel
from kpg.runtime.kernels.pairs import gather_layers, varies
from kpg.runtime.kernels.seek import COUNTED, EARLIEST, LATE, LAYER, match_layers

Words = NDArray[np.int64]

TIMES = 1  # of what is told of a meeting: each update has a time of its own
ONE_TIME = 2  # all have one, which is not the stream's
DIFFS = 4

FULL = -2  # instead of a number: there was too little room


@kernel(
    "int64(int64[:, ::1], int64[:, ::1], int64[::1], int64[::1], int64[::1], int64, boolean, int64, int64,"
    " int64, int64, int64[::1])"
)
def match_few(
    stream: Words,
    stream_time: Words,
    stream_diff: Words,
    columns: Words,
    layers: Words,
    order: int,
    ordered: bool,
    closed: int,
    floor: int,
    origin: int,
    room: int,
    buffer: Words,
) -> int:
    """The updates that stream rows and rows of layers with the same key make; their number, or less than 0.

    ``columns`` are three counts, then the stream's key columns, its columns to keep, and the layers' to
    keep. The rest up to ``origin`` is as ``seek.match`` takes it. There is ``room`` for so many updates:
    ``buffer`` is ``int64[1 + (kept + 3 + depth) * room]``, and begins with what there is to tell, TIMES or
    ONE_TIME and DIFFS. Then come the data ``int64[kept, n]``, and, from ``1 + kept * room`` on, the diffs
    ``int64[n]`` and, ``room`` later, the times ``int64[depth, n]``, if they are told of.
    FULL if there are more; -1 if a layer should have a directory first, or if a product of diffs overflows:
    nothing is to be used then.
    """
    depth = stream_time.shape[0]
    keys, kept, others = columns[0], columns[1], columns[2]
    key = columns[3 : 3 + keys]
    keep_stream = columns[3 + keys : 3 + keys + kept]
    keep_batch = columns[3 + keys + kept : 3 + keys + kept + others]
    state = np.zeros(EARLIEST + depth, np.int64)
    state[LAYER] = -1
    starts = np.empty(layers.shape[0] + 1, np.int64)
    beside = 1 + (kept + others) * room
    paired = beside + (1 + depth) * room
    pairs = buffer[paired : paired + 2 * room].reshape((2, room))
    count = match_layers(
        stream, key, stream_time, origin, layers, order, ordered, closed, floor, state, starts, pairs
    )
    if count == room and state[LAYER] < layers.shape[0]:
        return FULL
    if count < 0 or state[LAYER] < layers.shape[0]:
        return -1
    buffer[0] = 0
    if count == 0:
        return 0
    timed = stream_time.shape[1] > 1 or state[LATE] != 0
    counted = stream_diff.shape[0] > 1 or state[COUNTED] != 0
    data = buffer[1 : 1 + (kept + others) * count].reshape((kept + others, count))
    diffs = buffer[beside : beside + count]
    times = buffer[beside + room : beside + room + depth * count].reshape((depth, count))
    if gather_layers(
        stream, stream_time, stream_diff, keep_stream, keep_batch, layers, starts, pairs, timed, counted,
        data, times, diffs, 0,
    ):  # fmt: skip
        return -1
    if timed:
        buffer[0] = TIMES if varies(times, 0, count) else ONE_TIME
    if counted:
        buffer[0] |= DIFFS
    return count
