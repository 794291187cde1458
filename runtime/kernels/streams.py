"""The streams of a chain: memory for them, and what is made of them without another kernel.

A stream is ``int64[STREAM_FIELDS]``, see ``kernels.links``.
"""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import device, kernel, load_intrinsic, save_intrinsic
from kpg.runtime.kernels.links import (
    CHAIN_CLOSED,
    CHAIN_END,
    CHAIN_FLOOR,
    CHAIN_FREE,
    CHAIN_NEXT,
    CHAIN_TIME,
    CHAIN_WANTED,
    DONE,
    LINK_EXTRA,
    LINK_INPUT,
    LINK_OUTPUT,
    NARROW,
    STREAM_DATA,
    STREAM_DIFF,
    STREAM_DIFFS,
    STREAM_ORDERED,
    STREAM_ROWS,
    STREAM_WIDTH,
)

Words = NDArray[np.int64]
Table = NDArray[np.int64]

load = load_intrinsic()
save = save_intrinsic()


@device
def reserve(state: Words, words: int) -> int:
    """The address of free memory for so many words; 0 if there is too little."""
    address = state[CHAIN_FREE]
    if address + 8 * words > state[CHAIN_END]:
        state[CHAIN_WANTED] = words
        return 0
    return int(address)


@device
def put(streams: Table, output: int, address: int, width: int, rows: int, diff: int, diffs: int) -> None:
    """Let a stream be this."""
    streams[output, STREAM_DATA] = address
    streams[output, STREAM_WIDTH] = width
    streams[output, STREAM_ROWS] = rows
    streams[output, STREAM_DIFF] = diff
    streams[output, STREAM_DIFFS] = diffs
    streams[output, STREAM_ORDERED] = 0


@device
def pack_columns(address: int, columns: int, stride: int, rows: int) -> None:
    """Put the first ``rows`` words of columns one after another."""
    if rows < stride:
        for c in range(1, columns):
            for i in range(rows):
                save(address, c * rows + i, load(address, c * stride + i))


@device
def select(link: Words, streams: Table, state: Words) -> int:
    """Some columns of the input."""
    stream = streams[link[LINK_INPUT]]
    rows = stream[STREAM_ROWS]
    count = load(link[LINK_EXTRA], 0)
    memory = reserve(state, count * rows)
    if memory == 0:
        return NARROW
    for k in range(count):
        source = stream[STREAM_DATA] + 8 * rows * load(link[LINK_EXTRA], 1 + k)
        target = memory + 8 * rows * k
        for i in range(rows):
            save(target, i, load(source, i))
    state[CHAIN_FREE] = memory + 8 * count * rows
    put(streams, link[LINK_OUTPUT], memory, count, rows, stream[STREAM_DIFF], stream[STREAM_DIFFS])
    return DONE


@device
def gather(link: Words, streams: Table, state: Words) -> int:
    """One stream of several, one after another."""
    count = load(link[LINK_EXTRA], 0)
    total = 0
    filled = 0
    last = -1
    varied = False
    for k in range(count):
        stream = load(link[LINK_EXTRA], 1 + k)
        rows = streams[stream, STREAM_ROWS]
        if rows > 0:
            if last >= 0 and load(streams[last, STREAM_DIFF], 0) != load(streams[stream, STREAM_DIFF], 0):
                varied = True
            varied = varied or streams[stream, STREAM_DIFFS] > 1
            total += rows
            filled += 1
            last = stream
    if filled <= 1:
        if filled == 1:
            streams[link[LINK_OUTPUT]] = streams[last]
        return DONE
    width = streams[last, STREAM_WIDTH]
    memory = reserve(state, (width + 1) * total)
    if memory == 0:
        return NARROW
    diff = memory + 8 * width * total
    at = 0
    for k in range(count):
        stream = load(link[LINK_EXTRA], 1 + k)
        rows = streams[stream, STREAM_ROWS]
        for c in range(width):
            source = streams[stream, STREAM_DATA] + 8 * rows * c
            target = memory + 8 * (total * c + at)
            for i in range(rows):
                save(target, i, load(source, i))
        if rows > 0 and varied:
            step = 1 if streams[stream, STREAM_DIFFS] > 1 else 0
            for i in range(rows):
                save(diff, at + i, load(streams[stream, STREAM_DIFF], i * step))
        at += rows
    if varied:
        state[CHAIN_FREE] = diff + 8 * total
        put(streams, link[LINK_OUTPUT], memory, width, total, diff, total)
    else:
        state[CHAIN_FREE] = diff
        put(streams, link[LINK_OUTPUT], memory, width, total, streams[last, STREAM_DIFF], 1)
    return DONE


@device
def negate(link: Words, streams: Table, state: Words) -> int:
    """The input with every diff times -1."""
    stream = streams[link[LINK_INPUT]]
    diffs = stream[STREAM_DIFFS]
    memory = reserve(state, diffs)
    if memory == 0:
        return NARROW
    for i in range(diffs):
        save(memory, i, -load(stream[STREAM_DIFF], i))
    state[CHAIN_FREE] = memory + 8 * diffs
    put(
        streams,
        link[LINK_OUTPUT],
        stream[STREAM_DATA],
        stream[STREAM_WIDTH],
        stream[STREAM_ROWS],
        memory,
        diffs,
    )
    streams[link[LINK_OUTPUT], STREAM_ORDERED] = stream[STREAM_ORDERED]
    return DONE


@kernel("void(int64[:, ::1], int64[::1], int64[::1], int64, int64, int64)")
def begin(streams: Table, state: Words, memory: Words, epoch: int, closed: int, floor: int) -> None:
    """Let all streams be empty, all memory free, and a step begin whose updates bear the time ``epoch``."""
    for stream in range(streams.shape[0]):
        streams[stream, STREAM_ROWS] = 0
    memory[0] = epoch
    state[CHAIN_TIME] = memory.ctypes.data
    state[CHAIN_FREE] = memory.ctypes.data + 8
    state[CHAIN_END] = memory.ctypes.data + 8 * memory.shape[0]
    state[CHAIN_CLOSED] = closed
    state[CHAIN_FLOOR] = floor
    state[CHAIN_NEXT] = 0


@kernel("boolean(int64[:, ::1], int64[::1], int64, int64[::1], int64)")
def feed(streams: Table, state: Words, number: int, rows: Words, diff: int) -> bool:
    """Add rows of one column with the same diff to a stream; False if there is no memory for them."""
    stream = streams[number]
    before, count = stream[STREAM_ROWS], rows.shape[0]
    memory = reserve(state, 2 * (before + count))
    if memory == 0:
        return False
    for i in range(before):
        save(memory, i, load(stream[STREAM_DATA], i))
    for i in range(count):
        save(memory, before + i, rows[i])
    diffs = memory + 8 * (before + count)
    if before == 0:
        save(diffs, 0, diff)
        state[CHAIN_FREE] = diffs + 8
        put(streams, number, memory, 1, count, diffs, 1)
        streams[number, STREAM_ORDERED] = 1
        return True
    for i in range(before):
        save(diffs, i, load(stream[STREAM_DIFF], i if stream[STREAM_DIFFS] > 1 else 0))
    for i in range(count):
        save(diffs, before + i, diff)
    state[CHAIN_FREE] = diffs + 8 * (before + count)
    put(streams, number, memory, 1, before + count, diffs, before + count)
    return True


@kernel("void(int64, int64[::1])")
def take(address: int, out: Words) -> None:
    """The words at an address."""
    for i in range(out.shape[0]):
        out[i] = load(address, i)
