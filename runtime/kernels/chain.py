"""A chain: the operators of a small step, run one after another without going back to Python.

A *stream* is what flows along an edge in the step, all at the step's one time: ``int64[ROOM]``, see ADDRESS and
the following. A *link* is one call: it reads one stream, and writes one. Links are in the order in which
operators run; those of one operator are adjacent. What a link calls is another kernel, by its address and
the slots in which compiled code takes its arguments (see ``runtime/native/emit.py``); a template of the slots
has what does not depend on the step.

A link that meets what is rare (no room, an error, a batch without a directory) changes nothing and says so:
its operator then runs in Python.
"""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import (
    device,
    invoke_intrinsic,
    kernel,
    load_intrinsic,
    save_intrinsic,
    view_intrinsic,
)
from kpg.runtime.kernels.groups import DOUBTFUL, MARKER, OVERFLOW
from kpg.runtime.kernels.layout import BEGINNING, STRIDE
from kpg.runtime.kernels.layout import ROWS as HEAD_ROWS
from kpg.runtime.kernels.meet import DIFFS as COUNTS
from kpg.runtime.kernels.meet import FULL, ONE_TIME, TIMES

Words = NDArray[np.int64]
Table = NDArray[np.int64]

invoke = invoke_intrinsic()
load = load_intrinsic()
save = save_intrinsic()
view = view_intrinsic()

# Of a stream.
ADDRESS = 0  # of int64[WIDTH, ROWS]
WIDTH = 1
ROWS = 2
DIFF = 3  # address of int64[DIFFS]
DIFFS = 4  # 1 if all rows have the same diff, else ROWS
ORDERED = 5  # whether rows are known to be sorted
STREAM_FIELDS = 6

# Of a link.
KIND = 0
POSITION = 1  # of its operator
INPUT = 2  # the stream it reads
OUTPUT = 3  # the stream it writes
HEARD = 4  # the least position of an operator outside of the chain that reads the output, or NOBODY
FUNCTION = 5  # address of the kernel
SLOTS = 6  # address of the template int64[MOST_SLOTS]
EXTRA = 7  # address of what else there is to know, as the kind has it, see below
SKIPPED = 8  # whether the operator is to run in Python
READ = 9  # address of the operator's streams, their number first, in its last link; 0 in others
UPDATES_IN = 10  # counted in the last link of an operator
UPDATES_OUT = 11
NANOSECONDS = 12  # in all steps
EPOCH = 13  # of the last step in which it ran, and
LATEST = 14  # the nanoseconds of that
LINK_FIELDS = 15

PASS = 0  # the output is the input
SELECT = 1  # columns of the input: EXTRA is their number, and which
PROGRAM = 2  # vm.run
MEET = 3  # meet.meet
GATHER = 4  # all of several streams: EXTRA is their number, and which
NEGATE = 5
TIDY = 6  # sort.consolidate_few, or sort.consolidate for what goes to a tail: EXTRA is the arrangement's place
APPEND = 7  # head.append or tail.insert: EXTRA is the arrangement's place
REFRESH = 8  # groups.refresh: EXTRA is the table's state
TOP = 9  # collect.differences of the groups that changed: EXTRA is int64[TOP_FIELDS]

# Of what is known of an arrangement's place, int64[PLACE_FIELDS].
GOES_TO = 0
BOUND = 1  # no multiplicity is larger
PLACE_FIELDS = 2
TO_HEAD = 0
TO_TAIL = 1

# Of what a TOP knows.
HEADS = 0  # address of collect.heads
PLACE = 1  # address of the arrangement's place
TAIL = 2  # address of its tail's description
LAST = 3  # address of what layers have of the tail, int64[BEGINNING]
GROUP = 4  # how many columns tell groups apart
TOP_FIELDS = 5

# Of what is told of a change of state.
LINK = 0
VERDICT = 1  # of head.append, or INSERTED
APPENDED = 2  # updates
ADDED = 3  # how much any row's multiplicity may have grown; of a TOP, updates walked over in vain
CHANGE_FIELDS = 4

# Of the state.
NEXT = 0  # the link to run next
LIMIT = 1  # operators from this position on are to wait
FREE = 2  # address of memory for streams
END = 3  # where that ends
TIME = 4  # address of the step's time int64[1, 1]
CLOSED = 5  # as seek.match takes them
FLOOR = 6
CHANGED = 7  # how many links that have state ran, and are listed
TOLD = 8  # how many links have output for operators outside of the chain, and are listed
WANTED = 9  # words that the next link needs
CLOCK = 10  # address of a function that writes nanoseconds to its first slot; 0 if nobody counts
STATE_FIELDS = 11

WAITS = -1  # nothing to do before LIMIT
NARROW = -2  # memory is to be made for WANTED words
DOUBTS = -3  # the operator of the link before NEXT must look at what it has put out

INSERTED = -1  # instead of a verdict: they are in the tail

FINE = 0  # of one link
FAILED = 1

MOST_SLOTS = 32
NOBODY = 2**62
ALIGNED = 7

FEW_ROWS = 48  # as sort.FEW: more are not tidied for a head
SMALL = 2048  # as trace.recent.SMALL_STEP
SMALL_FOR_TAIL = 512  # as trace.recent.SMALL_FOR_TAIL
MOST_IN_TAIL = 1024  # as trace.tail.MOST
MANY = 8192  # as trace.updates.MANY, and trace.meeting.FEW
SLACK = 64  # as trace.meeting.LEAST_ROOM
MOST_ROOM = 1 << 16  # as trace.meeting.MOST_ROOM
MOST_MULTIPLICITY = 2**62


@device
def reserve(state: Words, words: int) -> int:
    """The address of free memory for so many words; 0 if there is too little."""
    address = state[FREE]
    if address + 8 * words > state[END]:
        state[WANTED] = words
        return 0
    return int(address)


@device
def put(streams: Table, output: int, address: int, width: int, rows: int, diff: int, diffs: int) -> None:
    """Let a stream be this."""
    streams[output, ADDRESS] = address
    streams[output, WIDTH] = width
    streams[output, ROWS] = rows
    streams[output, DIFF] = diff
    streams[output, DIFFS] = diffs
    streams[output, ORDERED] = 0


@device
def copy_template(template: int, slots: Words) -> None:
    for i in range(MOST_SLOTS):
        slots[i] = load(template, i)


@device
def run_program(link: Words, streams: Table, state: Words, slots: Words) -> int:
    """``vm.run``: map, filter and project."""
    stream = streams[link[INPUT]]
    rows = stream[ROWS]
    copy_template(link[SLOTS], slots)
    filters = slots[19] != 0
    outputs = slots[16]
    kept_rows = rows if filters else 0
    memory = reserve(state, (outputs + 1) * rows + 2 * slots[22] * rows)
    if memory == 0:
        return NARROW
    kept = memory + 8 * outputs * rows
    slots[5], slots[6], slots[7] = stream[ADDRESS], stream[WIDTH], rows
    slots[15], slots[17] = memory, rows
    slots[18], slots[19] = kept, kept_rows
    slots[20], slots[22] = kept + 8 * rows, slots[22] * rows
    if invoke(link[FUNCTION], slots.ctypes.data) != 0:
        return FAILED
    passed = slots[0]
    if passed < 0:
        return FAILED
    diff, diffs = stream[DIFF], stream[DIFFS]
    state[FREE] = memory + 8 * outputs * passed
    if diffs > 1 and passed < rows:
        for i in range(passed):
            save(kept, i, load(diff, load(kept, i)))
        diff, diffs = kept, passed
        state[FREE] = kept + 8 * passed
    put(streams, link[OUTPUT], memory, outputs, passed, diff, diffs)
    return FINE


@device
def select(link: Words, streams: Table, state: Words) -> int:
    """Some columns of the input."""
    stream = streams[link[INPUT]]
    rows = stream[ROWS]
    count = load(link[EXTRA], 0)
    memory = reserve(state, count * rows)
    if memory == 0:
        return NARROW
    for k in range(count):
        source = stream[ADDRESS] + 8 * rows * load(link[EXTRA], 1 + k)
        target = memory + 8 * rows * k
        for i in range(rows):
            save(target, i, load(source, i))
    state[FREE] = memory + 8 * count * rows
    put(streams, link[OUTPUT], memory, count, rows, stream[DIFF], stream[DIFFS])
    return FINE


@device
def meet(link: Words, streams: Table, state: Words, slots: Words) -> int:
    """``meet.meet``: a half-join. The template has in slot 17 for how many matches of a row to make room."""
    stream = streams[link[INPUT]]
    rows = stream[ROWS]
    if rows > MANY:
        return FAILED
    template = link[SLOTS]
    width = load(template, 18)
    memory = 0
    room = 0
    count = FULL
    while count == FULL:
        room = load(template, 17) * rows + SLACK
        words = 1 + (width + 4) * room
        memory = reserve(state, words)
        if memory == 0:
            return NARROW
        copy_template(template, slots)
        slots[0], slots[1], slots[2] = stream[ADDRESS], stream[WIDTH], rows
        slots[3], slots[4], slots[5] = state[TIME], 1, 1
        slots[6], slots[7] = stream[DIFF], stream[DIFFS]
        slots[13] = slots[13] & stream[ORDERED]
        slots[14], slots[15], slots[16] = state[CLOSED], state[FLOOR], 0
        slots[17], slots[18], slots[19] = room, memory, words
        if invoke(link[FUNCTION], slots.ctypes.data) != 0:
            return FAILED
        count = slots[0]
        if count == FULL:
            if room >= MOST_ROOM:
                return FAILED
            save(template, 17, 4 * load(template, 17))
    told = load(memory, 0)
    if count < 0 or (count > 0 and told & (TIMES | ONE_TIME) != 0):
        return FAILED
    data = memory + 8
    diff, diffs = stream[DIFF], stream[DIFFS]
    end = data + 8 * width * count
    if count > 0 and told & COUNTS != 0:
        beside = memory + 8 * (1 + width * room)
        for i in range(count):
            save(end, i, load(beside, i))
        diff, diffs = end, count
        end += 8 * count
    state[FREE] = end
    put(streams, link[OUTPUT], data, width, count, diff, diffs)
    return FINE


@device
def gather(link: Words, streams: Table, state: Words) -> int:
    """One stream of several, one after another."""
    count = load(link[EXTRA], 0)
    total = 0
    filled = 0
    last = -1
    varied = False
    for k in range(count):
        stream = load(link[EXTRA], 1 + k)
        rows = streams[stream, ROWS]
        if rows > 0:
            if last >= 0 and load(streams[last, DIFF], 0) != load(streams[stream, DIFF], 0):
                varied = True
            varied = varied or streams[stream, DIFFS] > 1
            total += rows
            filled += 1
            last = stream
    if filled <= 1:
        if filled == 1:
            streams[link[OUTPUT]] = streams[last]
        return FINE
    width = streams[last, WIDTH]
    memory = reserve(state, (width + 1) * total)
    if memory == 0:
        return NARROW
    diff = memory + 8 * width * total
    at = 0
    for k in range(count):
        stream = load(link[EXTRA], 1 + k)
        rows = streams[stream, ROWS]
        for c in range(width):
            source = streams[stream, ADDRESS] + 8 * rows * c
            target = memory + 8 * (total * c + at)
            for i in range(rows):
                save(target, i, load(source, i))
        if rows > 0 and varied:
            step = 1 if streams[stream, DIFFS] > 1 else 0
            for i in range(rows):
                save(diff, at + i, load(streams[stream, DIFF], i * step))
        at += rows
    if varied:
        state[FREE] = diff + 8 * total
        put(streams, link[OUTPUT], memory, width, total, diff, total)
    else:
        state[FREE] = diff
        put(streams, link[OUTPUT], memory, width, total, streams[last, DIFF], 1)
    return FINE


@device
def negate(link: Words, streams: Table, state: Words) -> int:
    """The input with every diff times -1."""
    stream = streams[link[INPUT]]
    diffs = stream[DIFFS]
    memory = reserve(state, diffs)
    if memory == 0:
        return NARROW
    for i in range(diffs):
        save(memory, i, -load(stream[DIFF], i))
    state[FREE] = memory + 8 * diffs
    put(streams, link[OUTPUT], stream[ADDRESS], stream[WIDTH], stream[ROWS], memory, diffs)
    streams[link[OUTPUT], ORDERED] = stream[ORDERED]
    return FINE


@device
def tidy(link: Words, streams: Table, state: Words, slots: Words) -> int:
    """Consolidate what goes to a tail, and, where diffs differ and rows are few, what goes to a head."""
    stream = streams[link[INPUT]]
    rows, width = stream[ROWS], stream[WIDTH]
    function = link[FUNCTION]
    if load(link[EXTRA], GOES_TO) == TO_TAIL:
        if rows > SMALL_FOR_TAIL:
            return FAILED
        if rows > FEW_ROWS:
            function = load(link[SLOTS], 0)
    elif stream[DIFFS] == 1 or rows > FEW_ROWS:
        streams[link[OUTPUT]] = stream
        return FINE
    memory = reserve(state, (width + 1) * rows + 2)
    if memory == 0:
        return NARROW
    sums = memory + 8 * width * rows
    told = sums + 8 * rows
    slots[0], slots[1], slots[2] = stream[ADDRESS], width, rows
    slots[3], slots[4], slots[5] = state[TIME], 1, 1
    slots[6], slots[7] = stream[DIFF], stream[DIFFS]
    slots[8], slots[9] = memory, width * rows
    slots[10], slots[11] = memory, 0
    slots[12], slots[13] = sums, rows
    slots[14], slots[15] = told, 2
    if invoke(function, slots.ctypes.data) != 0:
        return FAILED
    kept = slots[0]
    if kept < 0:
        streams[link[OUTPUT]] = stream
        streams[link[OUTPUT], ORDERED] = 1
        return FINE
    if load(told, 1) != 0:
        return FAILED
    state[FREE] = told
    diffs = 1 if load(told, 0) != 0 else kept
    put(streams, link[OUTPUT], memory, width, kept, sums, diffs)
    streams[link[OUTPUT], ORDERED] = 1
    return FINE


@device
def append(link: Words, streams: Table, state: Words, slots: Words, change: Words) -> int:
    """``head.append`` or ``tail.insert``, if the step is small and there is room.

    The template has the descriptions of both, and, in slot 12, the address of ``tail.insert``.
    """
    stream = streams[link[INPUT]]
    rows = stream[ROWS]
    template = link[SLOTS]
    head = load(template, 8)
    function = link[FUNCTION]
    slots[8], slots[9] = head, load(template, 9)
    if load(link[EXTRA], GOES_TO) == TO_TAIL:
        tail = load(template, 13)
        if rows > SMALL_FOR_TAIL or load(tail, HEAD_ROWS) + rows > MOST_IN_TAIL:
            return FAILED
        function = load(template, 12)
        slots[8], slots[9] = tail, load(template, 14)
        slots[10], slots[11] = load(template, 15), 3
    elif rows > SMALL or load(head, HEAD_ROWS) + rows > load(head, STRIDE):
        return FAILED
    largest = 0
    for i in range(stream[DIFFS]):
        largest = max(largest, abs(load(stream[DIFF], i)))
    bound = load(link[EXTRA], BOUND)
    if largest > (MOST_MULTIPLICITY - bound) // (rows + 1):
        return FAILED
    slots[0], slots[1], slots[2] = stream[ADDRESS], stream[WIDTH], rows
    slots[3], slots[4], slots[5] = state[TIME], 1, 1
    slots[6], slots[7] = stream[DIFF], stream[DIFFS]
    if invoke(function, slots.ctypes.data) != 0:
        return FAILED
    change[VERDICT] = slots[0] if function == link[FUNCTION] else INSERTED
    change[APPENDED], change[ADDED] = rows, largest * rows
    save(link[EXTRA], BOUND, bound + largest * rows)
    streams[link[OUTPUT]] = stream
    return FINE


@device
def top(link: Words, streams: Table, state: Words, slots: Words, change: Words) -> int:
    """``collect.differences``: what the change of some groups, of sorted rows, makes of their first rows."""
    stream = streams[link[INPUT]]
    rows, extra = stream[ROWS], link[EXTRA]
    if load(load(extra, PLACE), GOES_TO) != TO_TAIL or stream[ORDERED] == 0:
        return FAILED
    group = load(extra, GROUP)
    width = load(link[SLOTS], 3)
    room = 4 * rows + SLACK
    memory = reserve(state, (width + 2) * room + (group + 2) * rows + 3)
    if memory == 0:
        return NARROW
    prefix = memory + 8 * (width + 2) * room
    tasks = 1
    if group > 0:
        slots[0], slots[1], slots[2] = stream[ADDRESS], stream[WIDTH], rows
        slots[3], slots[4], slots[5] = prefix, group, rows
        if invoke(load(extra, HEADS), slots.ctypes.data) != 0:
            return FAILED
        tasks = slots[0]
        pack_columns(prefix, group, rows, tasks)
    numbers = prefix + 8 * group * rows
    epochs = numbers + 8 * rows
    told = epochs + 8 * rows
    for i in range(tasks):
        save(numbers, i, i)
        save(epochs, i, load(state[TIME], 0))
    for i in range(3):
        save(told, i, 0)
    for i in range(BEGINNING):
        save(load(extra, LAST), i, load(load(extra, TAIL), i))
    copy_template(link[SLOTS], slots)
    slots[5], slots[6], slots[7] = prefix, group, tasks
    slots[8], slots[9] = numbers, tasks
    slots[10], slots[11] = epochs, tasks
    slots[22], slots[23], slots[24] = memory, width, room
    slots[25], slots[26] = memory + 8 * width * room, room
    slots[27], slots[28] = memory + 8 * (width + 1) * room, room
    slots[29], slots[30] = told, 3
    if invoke(link[FUNCTION], slots.ctypes.data) != 0 or slots[0] != tasks:
        return FAILED
    found = load(told, 0)
    change[ADDED] = load(told, 1) - load(told, 2)
    pack_columns(memory, width + 1, room, found)
    state[FREE] = memory + 8 * (width + 1) * found
    put(streams, link[OUTPUT], memory, width, found, memory + 8 * width * found, found)
    return FINE


@device
def pack_columns(address: int, columns: int, stride: int, rows: int) -> None:
    """Put the first ``rows`` words of columns one after another."""
    if rows < stride:
        for c in range(1, columns):
            for i in range(rows):
                save(address, c * rows + i, load(address, c * stride + i))


@device
def refresh(link: Words, streams: Table, state: Words, slots: Words) -> int:
    """``groups.refresh``, if the table has room for all rows' groups."""
    stream = streams[link[INPUT]]
    rows = stream[ROWS]
    copy_template(link[SLOTS], slots)
    table = link[EXTRA]
    full = load(table, 0) + rows > slots[13] or 2 * (load(table, 3) + rows) > slots[11]
    if rows >= MANY or full or load(table, 2) != 0 or rows > slots[19]:
        return FAILED
    width = slots[26]
    slots[15] = load(table, MARKER)
    memory = reserve(state, 2 * rows * (width + 1))
    if memory == 0:
        return NARROW
    diff = memory + 16 * rows * width
    slots[0], slots[1], slots[2] = stream[ADDRESS], stream[WIDTH], rows
    slots[3], slots[4] = stream[DIFF], stream[DIFFS]
    slots[25], slots[26] = memory, 2 * rows * width
    slots[27], slots[28] = diff, 2 * rows
    if invoke(link[FUNCTION], slots.ctypes.data) != 0:
        return FAILED
    count = slots[0]
    state[FREE] = diff + 8 * count
    put(streams, link[OUTPUT], memory, width, count, diff, count)
    if load(table, OVERFLOW) != 0 or load(table, DOUBTFUL) != 0:
        return DOUBTS
    return FINE


@device
def run_link(link: Words, streams: Table, state: Words, slots: Words, change: Words) -> int:
    """FINE, DOUBTS when it is done, or FAILED or NARROW when nothing has changed."""
    kind = link[KIND]
    if kind == PROGRAM:
        return run_program(link, streams, state, slots)
    if kind == SELECT:
        return select(link, streams, state)
    if kind == MEET:
        return meet(link, streams, state, slots)
    if kind == GATHER:
        return gather(link, streams, state)
    if kind == NEGATE:
        return negate(link, streams, state)
    if kind == TIDY:
        return tidy(link, streams, state, slots)
    if kind == APPEND:
        return append(link, streams, state, slots, change)
    if kind == REFRESH:
        return refresh(link, streams, state, slots)
    if kind == TOP:
        return top(link, streams, state, slots, change)
    streams[link[OUTPUT]] = streams[link[INPUT]]
    return FINE


@device
def now(state: Words, slots: Words) -> int:
    """Nanoseconds, 0 if nobody counts."""
    if state[CLOCK] == 0:
        return 0
    invoke(state[CLOCK], slots.ctypes.data)
    return int(slots[0])


@device
def count_updates(link: Words, streams: Table) -> None:
    """Count what an operator was given and has put out."""
    given = 0
    for k in range(load(link[READ], 0)):
        given += streams[load(link[READ], 1 + k), ROWS]
    link[UPDATES_IN] += given
    if given > 0:
        link[UPDATES_OUT] += streams[link[OUTPUT], ROWS]


@kernel("int64(int64[:, ::1], int64[:, ::1], int64[::1], int64[:, ::1], int64[::1])")
def run(links: Table, streams: Table, state: Words, changed: Table, told: Words) -> int:
    """Run links from NEXT on, while their operators' positions are below LIMIT.

    ``changed int64[links, CHANGE_FIELDS]`` takes what links did that have state,
    ``told int64[links]`` the numbers of links whose output somebody outside hears, who lowers LIMIT.

    Returns WAITS, NARROW, DOUBTS, or the link whose operator is to run in Python: NEXT is that link then.
    """
    slots = np.empty(MOST_SLOTS, np.int64)
    state[CHANGED] = 0
    state[TOLD] = 0
    epoch = load(state[TIME], 0)
    before = now(state, slots)
    while state[NEXT] < links.shape[0]:
        at = state[NEXT]
        link = links[at]
        if link[POSITION] >= state[LIMIT]:
            break
        verdict = FINE
        if link[KIND] == GATHER or streams[link[INPUT], ROWS] > 0:
            if link[SKIPPED] != 0:
                return int(at)
            verdict = run_link(link, streams, state, slots, changed[state[CHANGED]])
            if verdict == FAILED:
                return int(at)
            if verdict == NARROW:
                return NARROW
            after = now(state, slots)
            link[NANOSECONDS] += after - before
            if link[EPOCH] != epoch:
                link[EPOCH] = epoch
                link[LATEST] = 0
            link[LATEST] += after - before
            before = after
            if link[KIND] >= APPEND:
                changed[state[CHANGED], LINK] = at
                state[CHANGED] += 1
            if link[HEARD] != NOBODY and streams[link[OUTPUT], ROWS] > 0:
                told[state[TOLD]] = at
                state[TOLD] += 1
                state[LIMIT] = min(state[LIMIT], link[HEARD])
        if link[READ] != 0:
            count_updates(link, streams)
        state[NEXT] = at + 1
        if verdict == DOUBTS:
            return DOUBTS
    return WAITS


@kernel("void(int64[:, ::1], int64[::1], int64[::1], int64, int64, int64)")
def begin(streams: Table, state: Words, memory: Words, epoch: int, closed: int, floor: int) -> None:
    """Let all streams be empty, all memory free, and a step begin whose updates bear the time ``epoch``."""
    for stream in range(streams.shape[0]):
        streams[stream, ROWS] = 0
    memory[0] = epoch
    state[TIME] = memory.ctypes.data
    state[FREE] = memory.ctypes.data + 8
    state[END] = memory.ctypes.data + 8 * memory.shape[0]
    state[CLOSED] = closed
    state[FLOOR] = floor
    state[NEXT] = 0


@kernel("boolean(int64[:, ::1], int64[::1], int64, int64[::1], int64)")
def feed(streams: Table, state: Words, number: int, rows: Words, diff: int) -> bool:
    """Add rows of one column with the same diff to a stream; False if there is no memory for them."""
    stream = streams[number]
    before, count = stream[ROWS], rows.shape[0]
    memory = reserve(state, 2 * (before + count))
    if memory == 0:
        return False
    for i in range(before):
        save(memory, i, load(stream[ADDRESS], i))
    for i in range(count):
        save(memory, before + i, rows[i])
    diffs = memory + 8 * (before + count)
    if before == 0:
        save(diffs, 0, diff)
        state[FREE] = diffs + 8
        put(streams, number, memory, 1, count, diffs, 1)
        streams[number, ORDERED] = 1
        return True
    for i in range(before):
        save(diffs, i, load(stream[DIFF], i if stream[DIFFS] > 1 else 0))
    for i in range(count):
        save(diffs, before + i, diff)
    state[FREE] = diffs + 8 * (before + count)
    put(streams, number, memory, 1, before + count, diffs, before + count)
    return True


@kernel("void(int64, int64[::1])")
def take(address: int, out: Words) -> None:
    """The words at an address."""
    for i in range(out.shape[0]):
        out[i] = load(address, i)
