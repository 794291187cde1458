"""Many sockets at once: what has come on them, the requests of one kind in that, and answers.

A request is a prepared statement's Bind (``B``, its length, a head, values, the end), and what
comes behind it up to Sync: all but the length and the values is the same each time.
"""

import numpy as np

from kpg.runtime.kernels import device, invoke_intrinsic, kernel

invoke = invoke_intrinsic()

NULL = -(2**63)
LARGEST = 2**63 - 1
BIND = 66
MINUS, ZERO, NINE = 45, 48, 57

# Fields of a value.
VALUE_PLACE = 0  # where its word goes in the row
VALUE_KIND = 1  # DIGITS, OTHER, or of a binary number the bytes
VALUE_LEAST = 2
VALUE_MOST = 3
VALUE_FIELDS = 4

DIGITS, OTHER = 0, 1


@kernel("int64(int64, int64[::1], uint8[::1], int64, int64[:, ::1])")
def receive(function, sockets, memory, most, parts):
    """Receive on each socket, one behind the other, at most so many bytes of each; how many in all.

    ``parts int64[n, 2]``: where a socket's bytes begin, and how many; below 0 the number of an error. Where
    memory ends nothing is read, as though nothing had come.
    """
    slots = np.empty(3, np.int64)
    at = 0
    for i in range(sockets.shape[0]):
        parts[i, 0] = at
        parts[i, 1] = -11
        if at + most <= memory.shape[0]:
            slots[0] = sockets[i]
            slots[1] = memory.ctypes.data + at
            slots[2] = most
            invoke(function, slots.ctypes.data)
            parts[i, 1] = slots[0]
            at += max(slots[0], 0)
    return at


@kernel("int64(int64, int64[::1], int64[::1], uint8[::1], int64[::1])")
def send(function, sockets, times, reply, sent):
    """Send a reply on each socket so many times; how many sockets have not taken all of that.

    ``sent``: the bytes that each has taken. A number below 0 is no socket, and takes none.
    """
    slots = np.empty(3, np.int64)
    rest = 0
    for i in range(sockets.shape[0]):
        sent[i] = 0
        wanted = times[i] * reply.shape[0]
        while sockets[i] >= 0 and sent[i] < wanted:
            done = sent[i] % reply.shape[0]
            slots[0] = sockets[i]
            slots[1] = reply.ctypes.data + done
            slots[2] = reply.shape[0] - done
            invoke(function, slots.ctypes.data)
            if slots[0] <= 0:
                break
            sent[i] += slots[0]
        rest += sent[i] < wanted
    return rest


@device
def begins(memory, start, end, part):
    """Whether memory goes on with these bytes."""
    if start + part.shape[0] > end:
        return False
    for i in range(part.shape[0]):
        if memory[start + i] != part[i]:
            return False
    return True


@device
def big_endian(memory, start, length):
    """The signed number of so many bytes."""
    word = np.int64(0)
    for i in range(length):
        word = (word << 8) | np.int64(memory[start + i])
    unused = 64 - 8 * length
    return (word << unused) >> unused


@device
def digits(memory, start, length):
    """The number that digits, perhaps behind a minus, say; NULL if they say none that surely fits."""
    negative = length > 0 and memory[start] == MINUS
    first = start + 1 if negative else start
    end = start + length
    if first == end or end - first > 19:
        return np.int64(NULL)
    word = np.int64(0)
    for i in range(first, end):
        if memory[i] < ZERO or memory[i] > NINE:
            return np.int64(NULL)
        digit = np.int64(memory[i]) - ZERO
        if word > (LARGEST - digit) // 10:
            return np.int64(NULL)
        word = 10 * word + digit
    return -word if negative else word


@device
def take_value(memory, start, length, field, words, row):
    """Put a value's word into a row; False if it is none that is read here."""
    place = field[VALUE_PLACE]
    if length < 0:
        words[place, row] = NULL
        return True
    if field[VALUE_KIND] == OTHER:
        return True
    if field[VALUE_KIND] == DIGITS:
        word = digits(memory, start, length)
    elif field[VALUE_KIND] == length:
        word = big_endian(memory, start, length)
    else:
        return False
    words[place, row] = word
    return field[VALUE_LEAST] <= word <= field[VALUE_MOST]


@device
def read_one(memory, start, end, head, tail, results, fields, words, cells, row):
    """Read the request that begins at ``start`` as a row; where it stops, -1 if it is not of the kind."""
    if start + 5 > end or memory[start] != BIND or not begins(memory, start + 5, end, head):
        return -1
    place = start + 5 + head.shape[0]
    for k in range(fields.shape[0]):
        if place + 4 > end:
            return -1
        length = big_endian(memory, place, 4)
        place += 4
        if length > end - place:
            return -1
        cells[2 * k, row] = place
        cells[2 * k + 1, row] = length
        if not take_value(memory, place, length, fields[k], words, row):
            return -1
        place += max(length, 0)
    if big_endian(memory, start + 1, 4) != place + results - start - 1:
        return -1
    return place + tail.shape[0] if begins(memory, place, end, tail) else -1


@kernel(
    "int64(uint8[::1], int64[:, ::1], uint8[::1], uint8[::1], int64, int64[:, ::1], int64[::1], "
    "int64[:, ::1], int64[:, ::1], int64[::1])"
)
def read(memory, parts, head, tail, results, fields, first, words, cells, counts):
    """Read requests of one kind in what has come, each a column of ``words``; how many there are.

    ``first`` are the words of a row but for those of values; ``cells`` has where each value is, and how long.
    ``counts``: the requests of each part; 0 for one that has others, or a request's part, or too many.
    """
    rows = 0
    for i in range(parts.shape[0]):
        place = parts[i, 0]
        end = place + parts[i, 1]
        begun = rows
        while 0 <= place < end and rows < words.shape[1]:
            for column in range(first.shape[0]):
                words[column, rows] = first[column]
            place = read_one(memory, place, end, head, tail, results, fields, words, cells, rows)
            rows += place >= 0
        if place != end:
            rows = begun
        counts[i] = rows - begun
    return rows
