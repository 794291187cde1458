"""The links of a loop's chain that others have not: distinct in rounds, what leaves, and what is carried on.

See ``kernels.calls`` for what a function of a link returns.
"""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import device, invoke_intrinsic, load_intrinsic, save_intrinsic
from kpg.runtime.kernels import historytable as history
from kpg.runtime.kernels.arguments import (
    ACCUMULATE_FIRST,
    ACCUMULATE_LAST,
    ACCUMULATE_TABLE,
    EVALUATE_DISTINCT,
    EVALUATE_OUT,
    EVALUATE_OWED,
    EVALUATE_ROUNDS,
    EVALUATE_TABLE,
    EVALUATING_BOUND,
    EVALUATING_DISTINCT,
    EVALUATING_EVALUATE,
)
from kpg.runtime.kernels.calls import set_table, set_updates, set_words
from kpg.runtime.kernels.links import (
    CHAIN_BASE,
    CHAIN_CARRIES,
    CHAIN_DEPTH,
    CHAIN_END,
    CHAIN_FREE,
    CHAIN_LACKED,
    CHAIN_LAST,
    CHAIN_NEXT,
    CHAIN_OTHER,
    CHAIN_OTHER_END,
    CHAIN_TIME,
    CHAIN_WANTED,
    CHANGE_ADDED,
    CRAMPED,
    DONE,
    FAILED,
    LEAVES,
    LEFT_DATA,
    LEFT_DIFF,
    LEFT_ROOM,
    LEFT_ROWS,
    LINK_EXTRA,
    LINK_FUNCTION,
    LINK_INPUT,
    LINK_OUTPUT,
    LINK_SLOTS,
    MANY,
    MOST_COUNTED,
    NARROW,
    OWES,
    STREAM_DATA,
    STREAM_DIFF,
    STREAM_DIFFS,
    STREAM_ROWS,
    STREAM_WIDTH,
    WAITS,
)
from kpg.runtime.kernels.streams import put, reserve

Words = NDArray[np.int64]
Table = NDArray[np.int64]

invoke = invoke_intrinsic()
load = load_intrinsic()
save = save_intrinsic()


@device
def has_room(table: int, rows: int) -> bool:
    """Whether a history table has room for so many keys and records more."""
    live = load(table, history.LIVE_KEYS) + rows
    return (
        load(table, history.KEYS) + rows <= load(table, history.KEYS_ROOM)
        and load(table, history.RECORDS) + rows <= load(table, history.RECORDS_ROOM)
        and 3 * live <= 2 * load(table, history.SLOTS_ROOM)
        and load(table, history.TOUCHED) + rows <= load(table, history.TOUCHED_ROOM)
        and load(table, history.CURRENT) + rows <= load(table, history.CURRENT_ROOM)
    )


@device
def evaluate(link: Words, streams: Table, state: Words, slots: Words, change: Words) -> int:
    """``kernels.history.accumulate``, then ``thresholds.evaluate``, if the table has room; OWES if keys owe.

    Fills in CHANGE_ADDED: by how much the bound of a key's rows has grown.
    """
    stream = streams[link[LINK_INPUT]]
    rows, key, depth = stream[STREAM_ROWS], stream[STREAM_WIDTH], state[CHAIN_DEPTH]
    table, template = link[LINK_EXTRA], link[LINK_SLOTS]
    if rows >= MANY or not has_room(table, rows) or load(table, history.CURRENT) != 0:
        return FAILED
    largest = 0
    for i in range(stream[STREAM_DIFFS]):
        largest = max(largest, abs(load(stream[STREAM_DIFF], i)))
    bound = load(template, EVALUATING_BOUND)
    if largest > (MOST_COUNTED - bound) // (rows + 1):
        return FAILED
    memory = reserve(state, (key + 1 + 2 * depth) * rows)
    if memory == 0:
        return NARROW
    set_updates(slots, stream, state)
    slots[ACCUMULATE_FIRST], slots[ACCUMULATE_LAST] = 0, rows
    set_words(slots, ACCUMULATE_TABLE, table, history.LENGTH)
    if invoke(link[LINK_FUNCTION], slots.ctypes.data) != 0:
        return FAILED
    save(template, EVALUATING_BOUND, bound + largest * rows)
    change[CHANGE_ADDED] = largest * rows
    most = load(table, history.CURRENT)
    words = (key + depth + 1) * most
    owed = memory + 8 * words
    set_words(slots, EVALUATE_ROUNDS, state[CHAIN_TIME] + 8, depth - 1)
    slots[EVALUATE_DISTINCT] = load(template, EVALUATING_DISTINCT)
    set_words(slots, EVALUATE_TABLE, table, history.LENGTH)
    set_words(slots, EVALUATE_OUT, memory, words)
    set_table(slots, EVALUATE_OWED, owed, depth, most)
    if invoke(load(template, EVALUATING_EVALUATE), slots.ctypes.data) != 0:
        return FAILED
    count = slots[0]
    state[CHAIN_FREE] = memory + 8 * words
    diffs = 1 if load(table, history.ENTRIES) != 0 else count
    put(streams, link[LINK_OUTPUT], memory, key, count, memory + 8 * (key + depth) * count, diffs)
    if load(table, history.OWED) > 0:
        state[CHAIN_FREE] = owed + 8 * depth * most
        state[CHAIN_LACKED], state[CHAIN_WANTED] = owed, most
        return OWES
    return DONE


@device
def leave(link: Words, streams: Table) -> int:
    """Keep what leaves the loop, if there is room."""
    stream, left = streams[link[LINK_INPUT]], link[LINK_EXTRA]
    rows, room, before = stream[STREAM_ROWS], load(left, LEFT_ROOM), load(left, LEFT_ROWS)
    if before + rows > room:
        return LEAVES
    for c in range(stream[STREAM_WIDTH]):
        source = stream[STREAM_DATA] + 8 * rows * c
        target = load(left, LEFT_DATA) + 8 * (room * c + before)
        for i in range(rows):
            save(target, i, load(source, i))
    step = 1 if stream[STREAM_DIFFS] > 1 else 0
    for i in range(rows):
        save(load(left, LEFT_DIFF), before + i, load(stream[STREAM_DIFF], i * step))
    save(left, LEFT_ROWS, before + rows)
    return DONE


@device
def carry_on(streams: Table, state: Words) -> int:
    """Begin the next round with what is carried into it: DONE. WAITS if nothing is, or this was the last."""
    carries, time, last = state[CHAIN_CARRIES], state[CHAIN_TIME], state[CHAIN_DEPTH] - 1
    count = load(carries, 0)
    words = 0
    for k in range(count):
        stream = streams[load(carries, 1 + 2 * k)]
        if stream[STREAM_ROWS] > 0:
            words += stream[STREAM_WIDTH] * stream[STREAM_ROWS] + stream[STREAM_DIFFS]
    if words == 0 or load(time, last) + 1 >= state[CHAIN_LAST]:
        return WAITS
    if state[CHAIN_OTHER] + 8 * words > state[CHAIN_OTHER_END]:
        state[CHAIN_WANTED] = words
        return CRAMPED
    at = state[CHAIN_OTHER]
    carried = np.zeros((count, 5), np.int64)
    for k in range(count):
        stream = streams[load(carries, 1 + 2 * k)]
        width, rows, diffs = stream[STREAM_WIDTH], stream[STREAM_ROWS], stream[STREAM_DIFFS]
        if rows > 0:
            for i in range(width * rows):
                save(at, i, load(stream[STREAM_DATA], i))
            diff = at + 8 * width * rows
            for i in range(diffs):
                save(diff, i, load(stream[STREAM_DIFF], i))
            carried[k, 0], carried[k, 1], carried[k, 2] = at, width, rows
            carried[k, 3], carried[k, 4] = diff, diffs
            at = diff + 8 * diffs
    for stream in range(streams.shape[0]):
        streams[stream, STREAM_ROWS] = 0
    for k in range(count):
        target = load(carries, 2 + 2 * k)
        put(streams, target, carried[k, 0], carried[k, 1], carried[k, 2], carried[k, 3], carried[k, 4])
    state[CHAIN_FREE] = at
    end, base = state[CHAIN_END], state[CHAIN_BASE]
    state[CHAIN_BASE], state[CHAIN_END] = state[CHAIN_OTHER], state[CHAIN_OTHER_END]
    state[CHAIN_OTHER], state[CHAIN_OTHER_END] = base, end
    save(time, last, load(time, last) + 1)
    state[CHAIN_NEXT] = 0
    return DONE
