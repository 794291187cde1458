"""The links of a chain that call other kernels, by address and with slots for arguments.

``kernels.arguments`` says which slots are which. Each function here runs one kind of link over all rows of
its input, and returns what ``chain.run_link`` does: FAILED and NARROW come before the output is written.
Memory is what ``reserve`` finds; the part that the output takes is kept by moving CHAIN_FREE behind it.
"""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import device, inlined, invoke_intrinsic, load_intrinsic, save_intrinsic
from kpg.runtime.kernels.arguments import (
    APPEND_HEAD,
    APPENDING_HEAD,
    APPENDING_INSERT,
    APPENDING_SPARE,
    APPENDING_TAIL,
    CONSOLIDATE_OUT,
    CONSOLIDATE_OUT_TIME,
    CONSOLIDATE_STATE,
    CONSOLIDATE_SUMS,
    DIFFERENCES_EPOCHS,
    DIFFERENCES_GROUPS,
    DIFFERENCES_OUT,
    DIFFERENCES_PREFIX,
    DIFFERENCES_READING,
    FOLLOW_EPOCH,
    FOLLOW_LEFT,
    FOLLOW_LEFT_DIFF,
    FOLLOW_OUT,
    FOLLOW_RIGHT,
    FOLLOW_RIGHT_DIFF,
    FOLLOWING_WIDTH,
    HEADS_DATA,
    HEADS_OUT,
    INSERT_SPARE,
    INSERT_TAIL,
    LATER_OUT,
    LATER_PREFIX,
    LATER_READING,
    LATER_ROUNDS,
    MATCHES_EACH,
    MATCHES_WIDTH,
    MEET_BUFFER,
    MEET_CLOSED,
    MEET_FLOOR,
    MEET_ORDERED,
    MEET_ORIGIN,
    MEET_ROOM,
    PROGRAM_FILTERS,
    PROGRAM_MEMOS,
    PROGRAM_OUTPUTS,
    REFRESH_DATA,
    REFRESH_DIFF,
    REFRESH_MARKER,
    REFRESH_OUT,
    REFRESH_OUT_DIFF,
    REFRESH_ROWS,
    REFRESH_SLOTS,
    REFRESH_TOUCHED,
    REFRESHING_WIDTH,
    RUN_DATA,
    RUN_KEPT,
    RUN_MISSING,
    RUN_OUT,
    RUN_STATUS,
    TIDYING_MANY,
    UPDATES_DATA,
    UPDATES_DIFF,
    UPDATES_TIME,
)
from kpg.runtime.kernels.collect import LAYERS_DEPTH, LIMIT, ROUNDS, SKIP, THERE, WALKED, WRITTEN
from kpg.runtime.kernels.groups import ALLOTTED, DOUBTFUL, ENTRIES, LIVE, MARKER, OVERFLOW
from kpg.runtime.kernels.layout import BEGINNING, LATEST, STRIDE
from kpg.runtime.kernels.layout import ROWS as HEAD_ROWS
from kpg.runtime.kernels.links import (
    CHAIN_CLOSED,
    CHAIN_DEPTH,
    CHAIN_FLOOR,
    CHAIN_FREE,
    CHAIN_LACKED,
    CHAIN_TIME,
    CHAIN_WANTED,
    CHANGE_ADDED,
    CHANGE_APPENDED,
    CHANGE_VERDICT,
    DONE,
    DOUBTS,
    FAILED,
    FEW_IN_TAIL,
    FEW_TIDIED,
    INSERTED,
    LACKS,
    LEAST_ROOM,
    LINK_EXTRA,
    LINK_FUNCTION,
    LINK_INPUT,
    LINK_OUTPUT,
    LINK_SLOTS,
    MANY,
    MOST_COUNTED,
    MOST_IN_TAIL,
    MOST_ROOM,
    MOST_SLOTS,
    NARROW,
    OWES,
    PLACE_BOUND,
    PLACE_GOES_TO,
    RANGE_THRESHOLDS,
    READ_LAST,
    READ_PLACE,
    READ_TAIL,
    SMALL_FOR_TAIL,
    SMALL_STEP,
    STEPS_IN_TAIL,
    STREAM_DATA,
    STREAM_DIFF,
    STREAM_DIFFS,
    STREAM_ORDERED,
    STREAM_ROWS,
    STREAM_WIDTH,
    TO_JOIN,
    TO_TAIL,
    TOP_DEPTH,
    TOP_GROUP,
    TOP_HEADS,
    TOP_LATER,
    TOP_LATEST,
    TOP_LIMIT,
    TOP_OWED,
    TOP_PREFIX,
    TOP_SKIP,
    TOP_TASKS,
    TOP_WIDTH,
)
from kpg.runtime.kernels.meet import DIFFS as COUNTS
from kpg.runtime.kernels.meet import FULL, ONE_TIME, TIMES
from kpg.runtime.kernels.ranges import REFUSED
from kpg.runtime.kernels.streams import pack_columns, put, reserve

Words = NDArray[np.int64]
Table = NDArray[np.int64]

invoke = invoke_intrinsic()
load = load_intrinsic()
save = save_intrinsic()


@device
def copy_template(template: int, slots: Words) -> None:
    """Let the slots be those of a link's template."""
    for i in range(MOST_SLOTS):
        slots[i] = load(template, i)


@inlined
def set_words(slots: Words, at: int, address: int, count: int) -> None:
    """Let the argument that begins at a slot be ``int64[count]``."""
    slots[at] = address
    slots[at + 1] = count


@inlined
def set_table(slots: Words, at: int, address: int, columns: int, rows: int) -> None:
    """Let the argument that begins at a slot be ``int64[columns, rows]``."""
    slots[at] = address
    slots[at + 1] = columns
    slots[at + 2] = rows


@inlined
def set_updates(slots: Words, stream: Words, state: Words) -> None:
    """Let the first arguments be a stream: its data, its one time, and its diffs."""
    set_table(slots, UPDATES_DATA, stream[STREAM_DATA], stream[STREAM_WIDTH], stream[STREAM_ROWS])
    set_table(slots, UPDATES_TIME, state[CHAIN_TIME], state[CHAIN_DEPTH], 1)
    set_words(slots, UPDATES_DIFF, stream[STREAM_DIFF], stream[STREAM_DIFFS])


@device
def run_program(link: Words, streams: Table, state: Words, slots: Words) -> int:
    """``vm.run``: map, filter and project."""
    stream = streams[link[LINK_INPUT]]
    rows = stream[STREAM_ROWS]
    copy_template(link[LINK_SLOTS], slots)
    filters = slots[PROGRAM_FILTERS] != 0
    outputs = slots[PROGRAM_OUTPUTS]
    memos = slots[PROGRAM_MEMOS]
    memory = reserve(state, (outputs + 1) * rows + 2 * memos * rows)
    if memory == 0:
        return NARROW
    kept = memory + 8 * outputs * rows
    set_table(slots, RUN_DATA, stream[STREAM_DATA], stream[STREAM_WIDTH], rows)
    set_table(slots, RUN_OUT, memory, outputs, rows)
    set_words(slots, RUN_KEPT, kept, rows if filters else 0)
    set_table(slots, RUN_MISSING, kept + 8 * rows, 2, memos * rows)
    if invoke(link[LINK_FUNCTION], slots.ctypes.data) != 0:
        return FAILED
    passed = slots[0]
    if passed < 0:
        if load(slots[RUN_STATUS], 0) > 0:
            state[CHAIN_LACKED] = slots[RUN_MISSING]
            state[CHAIN_WANTED] = memos * rows
            return LACKS
        return FAILED
    diff, diffs = stream[STREAM_DIFF], stream[STREAM_DIFFS]
    state[CHAIN_FREE] = memory + 8 * outputs * passed
    if diffs > 1 and passed < rows:
        for i in range(passed):
            save(kept, i, load(diff, load(kept, i)))
        diff, diffs = kept, passed
        state[CHAIN_FREE] = kept + 8 * passed
    put(streams, link[LINK_OUTPUT], memory, outputs, passed, diff, diffs)
    return DONE


@device
def meet(link: Words, streams: Table, state: Words, slots: Words) -> int:
    """``meet.match_few``: a half-join. Too many matches enlarge the room, for later steps too."""
    stream = streams[link[LINK_INPUT]]
    rows = stream[STREAM_ROWS]
    if rows > MANY:
        return FAILED
    template = link[LINK_SLOTS]
    width = load(template, MATCHES_WIDTH)
    memory = 0
    room = 0
    count = FULL
    while count == FULL:
        room = min(load(template, MATCHES_EACH) * rows, MOST_ROOM) + LEAST_ROOM
        words = 1 + (width + 3 + state[CHAIN_DEPTH]) * room
        memory = reserve(state, words)
        if memory == 0:
            return NARROW
        copy_template(template, slots)
        set_updates(slots, stream, state)
        slots[MEET_ORDERED] = slots[MEET_ORDERED] & stream[STREAM_ORDERED]
        slots[MEET_CLOSED], slots[MEET_FLOOR], slots[MEET_ORIGIN] = state[CHAIN_CLOSED], state[CHAIN_FLOOR], 0
        slots[MEET_ROOM] = room
        set_words(slots, MEET_BUFFER, memory, words)
        if invoke(link[LINK_FUNCTION], slots.ctypes.data) != 0:
            return FAILED
        count = slots[0]
        if count == FULL:
            if room >= MOST_ROOM:
                return FAILED
            save(template, MATCHES_EACH, 4 * load(template, MATCHES_EACH))
    told = load(memory, 0)
    if count < 0 or (count > 0 and told & (TIMES | ONE_TIME) != 0):
        return FAILED
    data = memory + 8
    diff, diffs = stream[STREAM_DIFF], stream[STREAM_DIFFS]
    end = data + 8 * width * count
    if count > 0 and told & COUNTS != 0:
        beside = memory + 8 * (1 + width * room)
        for i in range(count):
            save(end, i, load(beside, i))
        diff, diffs = end, count
        end += 8 * count
    state[CHAIN_FREE] = end
    put(streams, link[LINK_OUTPUT], data, width, count, diff, diffs)
    return DONE


@device
def tidy(link: Words, streams: Table, state: Words, slots: Words) -> int:
    """Consolidate what goes to a tail; where diffs differ, what goes on in a join or, if few, to a head."""
    stream = streams[link[LINK_INPUT]]
    rows, width = stream[STREAM_ROWS], stream[STREAM_WIDTH]
    function, goes_to = link[LINK_FUNCTION], load(link[LINK_EXTRA], PLACE_GOES_TO)
    uniform = stream[STREAM_DIFFS] == 1
    if goes_to == TO_TAIL or (goes_to == TO_JOIN and not uniform):
        if rows > SMALL_FOR_TAIL:
            return FAILED
        if rows > FEW_TIDIED:
            function = load(link[LINK_SLOTS], TIDYING_MANY)
    elif uniform or rows > FEW_TIDIED:
        streams[link[LINK_OUTPUT]] = stream
        return DONE
    memory = reserve(state, (width + 1) * rows + 2)
    if memory == 0:
        return NARROW
    sums = memory + 8 * width * rows
    told = sums + 8 * rows
    set_updates(slots, stream, state)
    set_words(slots, CONSOLIDATE_OUT, memory, width * rows)
    set_words(slots, CONSOLIDATE_OUT_TIME, memory, 0)
    set_words(slots, CONSOLIDATE_SUMS, sums, rows)
    set_words(slots, CONSOLIDATE_STATE, told, 2)
    if invoke(function, slots.ctypes.data) != 0:
        return FAILED
    kept = slots[0]
    if kept < 0:
        streams[link[LINK_OUTPUT]] = stream
        streams[link[LINK_OUTPUT], STREAM_ORDERED] = 1
        return DONE
    if load(told, 1) != 0:
        return FAILED
    state[CHAIN_FREE] = told
    diffs = 1 if load(told, 0) != 0 else kept
    put(streams, link[LINK_OUTPUT], memory, width, kept, sums, diffs)
    streams[link[LINK_OUTPUT], STREAM_ORDERED] = 1
    return DONE


@device
def append(link: Words, streams: Table, state: Words, slots: Words, change: Words) -> int:
    """``head.append`` or ``tail.insert``, if the step is small and there is room.

    Fills in ``change``, but for CHANGE_LINK.
    """
    stream = streams[link[LINK_INPUT]]
    rows = stream[STREAM_ROWS]
    template = link[LINK_SLOTS]
    head = load(template, APPENDING_HEAD)
    function = link[LINK_FUNCTION]
    set_words(slots, APPEND_HEAD, head, load(template, APPENDING_HEAD + 1))
    if load(link[LINK_EXTRA], PLACE_GOES_TO) == TO_TAIL:
        tail = load(template, APPENDING_TAIL)
        most = min(max(FEW_IN_TAIL, STEPS_IN_TAIL * rows), MOST_IN_TAIL)
        if rows > SMALL_FOR_TAIL or load(tail, HEAD_ROWS) + rows > most:
            return FAILED
        function = load(template, APPENDING_INSERT)
        set_words(slots, INSERT_TAIL, tail, load(template, APPENDING_TAIL + 1))
        set_words(slots, INSERT_SPARE, load(template, APPENDING_SPARE), 3)
    elif rows > SMALL_STEP or load(head, HEAD_ROWS) + rows > load(head, STRIDE):
        return FAILED
    largest = 0
    for i in range(stream[STREAM_DIFFS]):
        largest = max(largest, abs(load(stream[STREAM_DIFF], i)))
    bound = load(link[LINK_EXTRA], PLACE_BOUND)
    if largest > (MOST_COUNTED - bound) // (rows + 1):
        return FAILED
    set_updates(slots, stream, state)
    if invoke(function, slots.ctypes.data) != 0:
        return FAILED
    change[CHANGE_VERDICT] = slots[0] if function == link[LINK_FUNCTION] else INSERTED
    change[CHANGE_APPENDED], change[CHANGE_ADDED] = rows, largest * rows
    save(link[LINK_EXTRA], PLACE_BOUND, bound + largest * rows)
    streams[link[LINK_OUTPUT]] = stream
    return DONE


@device
def look_at_tail(extra: int) -> bool:
    """Let the last of the layers, of a link that reads in order, be the tail as it is, if it is in use."""
    tail = load(extra, READ_TAIL)
    if tail == 0 or load(load(extra, READ_PLACE), PLACE_GOES_TO) != TO_TAIL:
        return False
    for i in range(BEGINNING):
        save(load(extra, READ_LAST), i, load(tail, i))
    return True


@device
def comes_later(extra: int, state: Words) -> bool:
    """Whether an arrangement may have updates at later rounds."""
    tail, latest, depth = load(extra, READ_TAIL), load(extra, TOP_LATEST), load(extra, TOP_DEPTH)
    for c in range(1, state[CHAIN_DEPTH]):
        round = load(state[CHAIN_TIME], c)
        if load(latest, c - 1) > round or (c < depth and load(tail, LATEST + c) > round):
            return True
    return False


@device
def owe(link: Words, state: Words, slots: Words, memory: int, room: int) -> int:
    """``collect.later_rounds`` of the groups that were read: how many are owed, -1 if not all were found.

    ``memory`` is for a reading, and for what is found, with ``room`` for so many.
    """
    extra, depth = link[LINK_EXTRA], state[CHAIN_DEPTH]
    group, tasks = load(extra, TOP_GROUP), load(extra, TOP_TASKS)
    for i in range(ROUNDS):
        save(memory, i, 0)
    save(memory, LAYERS_DEPTH, load(extra, TOP_DEPTH))
    copy_template(link[LINK_SLOTS], slots)
    set_table(slots, LATER_PREFIX, load(extra, TOP_PREFIX), group, tasks)
    set_words(slots, LATER_ROUNDS, state[CHAIN_TIME] + 8, depth - 1)
    set_words(slots, LATER_READING, memory, ROUNDS)
    set_table(slots, LATER_OUT, memory + 8 * ROUNDS, depth, room)
    if invoke(load(extra, TOP_LATER), slots.ctypes.data) != 0 or slots[0] != tasks:
        return -1
    state[CHAIN_LACKED], state[CHAIN_WANTED] = memory + 8 * ROUNDS, room
    return int(load(memory, WRITTEN))


@device
def top(link: Words, streams: Table, state: Words, slots: Words, change: Words) -> int:
    """``collect.differences``: what the change of some groups, of sorted rows, makes of their first rows.

    Fills in CHANGE_ADDED. OWES if, in a loop, groups are to be read again at later rounds.
    """
    stream = streams[link[LINK_INPUT]]
    rows, extra, depth = stream[STREAM_ROWS], link[LINK_EXTRA], state[CHAIN_DEPTH]
    if stream[STREAM_ORDERED] == 0 or not look_at_tail(extra):
        return FAILED
    group, width = load(extra, TOP_GROUP), load(extra, TOP_WIDTH)
    room = 4 * rows + LEAST_ROOM
    later = (rows + 1 if depth == 2 else room) if load(extra, TOP_LATER) != 0 else 0
    words = (width + 2) * room + (group + 2) * rows + 2 * ROUNDS + depth + later * depth
    memory = reserve(state, words)
    if memory == 0:
        return NARROW
    prefix = memory + 8 * (width + 2) * room
    tasks = 1
    if group > 0:
        set_table(slots, HEADS_DATA, stream[STREAM_DATA], stream[STREAM_WIDTH], rows)
        set_table(slots, HEADS_OUT, prefix, group, rows)
        if invoke(load(extra, TOP_HEADS), slots.ctypes.data) != 0:
            return FAILED
        tasks = slots[0]
        pack_columns(prefix, group, rows, tasks)
    numbers = prefix + 8 * group * rows
    epochs = numbers + 8 * rows
    reading = epochs + 8 * rows
    for i in range(tasks):
        save(numbers, i, i)
        save(epochs, i, load(state[CHAIN_TIME], 0))
    for i in range(ROUNDS):
        save(reading, i, 0)
    save(reading, SKIP, load(extra, TOP_SKIP))
    save(reading, LIMIT, load(extra, TOP_LIMIT))
    save(reading, LAYERS_DEPTH, load(extra, TOP_DEPTH))
    for c in range(1, depth):
        save(reading, ROUNDS + c - 1, load(state[CHAIN_TIME], c))
    copy_template(link[LINK_SLOTS], slots)
    set_table(slots, DIFFERENCES_PREFIX, prefix, group, tasks)
    set_words(slots, DIFFERENCES_GROUPS, numbers, tasks)
    set_words(slots, DIFFERENCES_EPOCHS, epochs, tasks)
    set_words(slots, DIFFERENCES_READING, reading, ROUNDS + depth - 1)
    set_table(slots, DIFFERENCES_OUT, memory, width + 2, room)
    if invoke(link[LINK_FUNCTION], slots.ctypes.data) != 0 or slots[0] != tasks:
        return FAILED
    found, owed = load(reading, WRITTEN), 0
    if later > 0 and comes_later(extra, state):
        save(extra, TOP_PREFIX, prefix)
        save(extra, TOP_TASKS, tasks)
        owed = owe(link, state, slots, reading + 8 * (ROUNDS + depth), later)
        if owed < 0:
            return FAILED
        save(extra, TOP_OWED, owed)
    change[CHANGE_ADDED] = load(reading, WALKED) - load(reading, THERE)
    pack_columns(memory, width + 1, room, found)
    put(streams, link[LINK_OUTPUT], memory, width, found, memory + 8 * width * found, found)
    if owed > 0:
        state[CHAIN_FREE] = memory + 8 * words
        return OWES
    state[CHAIN_FREE] = memory + 8 * (width + 1) * found
    return DONE


@device
def follow(link: Words, streams: Table, state: Words, slots: Words, change: Words) -> int:
    """``ranges.follow``: what a change of rows, and one of thresholds, makes of the rows that satisfy them.

    Fills in CHANGE_VERDICT.
    """
    extra = link[LINK_EXTRA]
    left, right = streams[link[LINK_INPUT]], streams[load(extra, RANGE_THRESHOLDS)]
    rows, moved = left[STREAM_ROWS], right[STREAM_ROWS]
    if moved > 0:
        if not look_at_tail(extra):
            return FAILED
    columns = load(link[LINK_SLOTS], FOLLOWING_WIDTH)
    room = rows + LEAST_ROOM
    found = -1
    memory = 0
    while found < 0:
        memory = reserve(state, columns * room)
        if memory == 0:
            return NARROW
        copy_template(link[LINK_SLOTS], slots)
        slots[FOLLOW_EPOCH] = load(state[CHAIN_TIME], 0)
        set_table(slots, FOLLOW_LEFT, left[STREAM_DATA], columns - 1, rows)
        set_words(slots, FOLLOW_LEFT_DIFF, left[STREAM_DIFF], left[STREAM_DIFFS])
        set_table(slots, FOLLOW_RIGHT, right[STREAM_DATA], right[STREAM_WIDTH], moved)
        set_words(slots, FOLLOW_RIGHT_DIFF, right[STREAM_DIFF], right[STREAM_DIFFS])
        set_table(slots, FOLLOW_OUT, memory, columns, room)
        if invoke(link[LINK_FUNCTION], slots.ctypes.data) != 0:
            return FAILED
        found = slots[0]
        if found == REFUSED or found < -1 - MOST_ROOM:
            return FAILED
        if found < 0:
            room = -1 - found
    change[CHANGE_VERDICT] = int(moved > 0)
    pack_columns(memory, columns, room, found)
    state[CHAIN_FREE] = memory + 8 * columns * found
    diff = memory + 8 * (columns - 1) * found
    put(streams, link[LINK_OUTPUT], memory, columns - 1, found, diff, found)
    return DONE


@device
def refresh(link: Words, streams: Table, state: Words, slots: Words) -> int:
    """``groups.refresh``, if the table has room for all rows' groups."""
    stream = streams[link[LINK_INPUT]]
    rows = stream[STREAM_ROWS]
    copy_template(link[LINK_SLOTS], slots)
    table = link[LINK_EXTRA]
    room, capacity, entries = slots[REFRESH_ROWS + 1], slots[REFRESH_SLOTS + 1], slots[REFRESH_TOUCHED + 1]
    full = load(table, ALLOTTED) + rows > room or 2 * (load(table, LIVE) + rows) > capacity or rows > entries
    if rows >= MANY or full or load(table, ENTRIES) != 0:
        return FAILED
    width = slots[REFRESHING_WIDTH]
    slots[REFRESH_MARKER] = load(table, MARKER)
    memory = reserve(state, 2 * rows * (width + 1))
    if memory == 0:
        return NARROW
    diff = memory + 16 * rows * width
    set_table(slots, REFRESH_DATA, stream[STREAM_DATA], stream[STREAM_WIDTH], rows)
    set_words(slots, REFRESH_DIFF, stream[STREAM_DIFF], stream[STREAM_DIFFS])
    set_words(slots, REFRESH_OUT, memory, 2 * rows * width)
    set_words(slots, REFRESH_OUT_DIFF, diff, 2 * rows)
    if invoke(link[LINK_FUNCTION], slots.ctypes.data) != 0:
        return FAILED
    count = slots[0]
    state[CHAIN_FREE] = diff + 8 * count
    put(streams, link[LINK_OUTPUT], memory, width, count, diff, count)
    if load(table, OVERFLOW) != 0 or load(table, DOUBTFUL) != 0:
        return DOUBTS
    return DONE
