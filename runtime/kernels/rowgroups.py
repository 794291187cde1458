"""The groups of rows of a row store, as kernels see them.

``directory int64[1 + groups, 8]`` begins with a row whose first word is ``bits``; a row of the table
with rowid ``r`` is the one at *offset* ``r % 2**bits`` of group ``r >> bits``, which row ``1 + (r >>
bits)`` of the directory describes: see the constants. In a group that was never rewritten the *position* of
a row in the group's arrays is its offset. A rewritten group has a *chart* ``int64[2 * words]``: for each 64
offsets the bits of those that have a position, and how many have one before them. A group that was given up
has a chart of zeros. Liveness is one bit for each position. Columns of a row that has no position any more
read as NULL.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import (
    bit_count_intrinsic,
    device,
    kernel,
    load_intrinsic,
    lowest_bit_intrinsic,
    save_intrinsic,
)

Words = NDArray[np.int64]

NULL = -(2**63)
FIELDS = 8
BYTES = 64  # of a row of the directory
REWRITTEN = 1  # in the first row: 1 if some group has a chart
COLUMNS = 0  # address of int64[width, stride]
COLUMN_STRIDE = 1
CHART = 2  # address of the chart, or 0
LIVE = 3  # address of the bits that tell which positions hold live rows
POSITIONS = 4  # positions in use, of a group that is full
DEAD = 5  # of them, rows whose deletion is final
WAITING = 6  # 1 if the group waits for being rewritten
NEIGHBOURS = 7  # address of int64[2, stride], the neighbours of a row in its list of equal rows, or 0

load = load_intrinsic()


save = save_intrinsic()
bit_count = bit_count_intrinsic()
lowest_bit = lowest_bit_intrinsic()


@device
def locate(root: int, rowid: int) -> tuple[int, int]:
    """Where a row is, by the address of a directory.

    The address of its group's description, and its position in the group's arrays or -1.
    """
    bits = load(root, 0)
    group = root + BYTES * (1 + (rowid >> bits))
    offset = rowid & ((1 << bits) - 1)
    chart = load(group, CHART)
    if chart == 0:
        return group, offset
    there = load(chart, 2 * (offset >> 6))
    bit = offset & 63
    if (there >> bit) & 1 == 0:
        return group, -1
    return group, load(chart, 2 * (offset >> 6) + 1) + bit_count(there & ((1 << bit) - 1))


@device
def is_set(bitmap: int, position: int) -> bool:
    """A bit of a bitmap at an address."""
    return (load(bitmap, position >> 6) >> (position & 63)) & 1 == 1


@device
def clear_bit(bitmap: int, position: int) -> None:
    save(bitmap, position >> 6, load(bitmap, position >> 6) & ~(1 << (position & 63)))


@device
def set_bit(bitmap: int, position: int) -> None:
    save(bitmap, position >> 6, load(bitmap, position >> 6) | (1 << (position & 63)))


@device
def set_bits(bitmap: int, start: int, size: int) -> None:
    """Set bits ``start .. start + size`` of a bitmap."""
    position = start
    end = start + size
    while position < end:
        if position & 63 == 0 and end - position >= 64:
            save(bitmap, position >> 6, -1)
            position += 64
        else:
            set_bit(bitmap, position)
            position += 1


BLOCK = 1024  # keys that are compared at a time


@device
def compare_keys(words: Words, key: Words, row: int, other: Words) -> int:
    """-1, 0 or 1 as ``other``, a key's words, comes before, equals or follows the row's key."""
    for k in range(key.shape[0]):
        a, b = other[k], words[key[k], row]
        if a != b:
            return -1 if a < b else 1
    return 0


@device
def raise_highest(words: Words, key: Words, highest: Words, known: int) -> int:
    """Make ``highest`` the highest of it, if ``known``, and the keys of all rows of ``words``.

    Returns 1 if the keys ascend strictly, from above it.
    """
    ascending = 1
    for row in range(words.shape[1]):
        order = compare_keys(words, key, row, highest) if known else -1
        if order < 0:
            for k in range(key.shape[0]):
                highest[k] = words[key[k], row]
        else:
            ascending = 0
        known = 1
    return ascending


@device
def ascend(words: Words, key: Words, highest: Words, known: int) -> bool:
    """Whether the keys of all rows ascend strictly, from above ``highest`` if ``known``; most do at once."""
    n = words.shape[1]
    if n == 0 or (known and compare_keys(words, key, 0, highest) >= 0):
        return n == 0
    less = np.empty(min(n, BLOCK), np.int64)
    for start in range(1, n, BLOCK):
        size = min(BLOCK, n - start)
        for i in range(size):
            less[i] = 0
        for k in range(key.shape[0] - 1, -1, -1):
            column = words[key[k], start - 1 : start + size]
            for i in range(size):
                p, q = column[i], column[i + 1]
                less[i] = int(p < q) | (int(p == q) & less[i])
        every = 1
        for i in range(size):
            every &= less[i]
        if every == 0:
            return False
    return True


@device
def copy_words(source: int, target: int, size: int) -> None:
    for i in range(size):
        save(target, i, load(source, i))


@device
def copy_no_null(source: int, target: int, size: int) -> bool:
    """Copy words; whether there is no NULL among them."""
    null = 0
    for i in range(size):
        p = load(source, i)
        null |= int(p == NULL)
        save(target, i, p)
    return null == 0


@kernel("int64(int64[:, ::1], int64[:, ::1], int64, uint8[::1], int64[::1], int64[::1], int64)")
def append(
    directory: Words, words: Words, start: int, required: Any, key: Words, highest: Words, known: int
) -> int:
    """Copy ``words[width, n]`` to rows ``start ..``, for which there is room, and mark them live.

    ``-1 - (column * n + row)`` for a NULL in a column that ``required[width]`` marks, the rows then meaning
    nothing. Else 1 if the words of ``key`` columns ascend strictly, from above ``highest`` if ``known``; 0
    if not. ``highest`` becomes the highest key.
    """
    width, n = words.shape
    root = directory.ctypes.data
    size = 1 << directory[0, 0]
    done = 0
    while done < n:
        group, position = locate(root, start + done)
        part = min(n - done, size - position)
        for j in range(width):
            target = load(group, COLUMNS) + 8 * (j * load(group, COLUMN_STRIDE) + position)
            source = words.ctypes.data + 8 * (j * n + done)
            if required[j] == 0:
                copy_words(source, target, part)
            elif not copy_no_null(source, target, part):
                for i in range(part):
                    if load(source, i) == NULL:
                        return -1 - (j * n + done + i)
        set_bits(load(group, LIVE), position, part)
        done += part
    if key.shape[0] == 0:
        return 1
    if not ascend(words, key, highest, known):
        return raise_highest(words, key, highest, known)
    if n > 0:
        for k in range(key.shape[0]):
            highest[k] = words[key[k], n - 1]
    return 1


@kernel("int64(int64[:, ::1], int64[::1], int64[::1], int64[:, ::1])")
def gather(directory: Words, columns: Words, rowids: Words, out: Words) -> int:
    """``out[k, i]``: column ``columns[k]`` of row ``rowids[i]``; returns how many words that are."""
    root = directory.ctypes.data
    for k in range(columns.shape[0]):
        column = columns[k]
        for i in range(rowids.shape[0]):
            group, position = locate(root, rowids[i])
            if position < 0:
                out[k, i] = NULL
            else:
                out[k, i] = load(load(group, COLUMNS), column * load(group, COLUMN_STRIDE) + position)
    return columns.shape[0] * rowids.shape[0]


@device
def live_bits(group: int, part: int, start: int, end: int) -> int:
    """Which of the 64 offsets from ``64 * part`` on hold live rows, of those in ``start .. end``."""
    chart = load(group, CHART)
    live = load(group, LIVE)
    if chart == 0:
        bits = load(live, part)
    else:
        there = load(chart, 2 * part)
        position = load(chart, 2 * part + 1)
        bits = 0
        while there != 0:
            if is_set(live, position):
                bits |= there & -there
            there &= there - 1
            position += 1
    first = 64 * part
    if start > first:
        bits &= -1 << (start - first)
    if end < first + 64:
        bits &= (1 << (end - first)) - 1
    return bits


@kernel("int64(int64[:, ::1], int64, int64, int64[::1])")
def live_rows(directory: Words, start: int, end: int, out: Words) -> int:
    """The live rows among ``start .. end``, ascending; returns how many. ``out`` must have room."""
    bits = directory[0, 0]
    found = 0
    row = start
    while row < end:
        number = row >> bits
        first = number << bits
        last = min(end, (number + 1) << bits) - first
        group = directory.ctypes.data + BYTES * (1 + number)
        if load(group, COLUMNS) != 0:
            for part in range((row - first) >> 6, (last + 63) >> 6):
                there = live_bits(group, part, row - first, last)
                base = first + 64 * part
                while there != 0:
                    out[found] = base + lowest_bit(there)
                    found += 1
                    there &= there - 1
        row = first + last
    return found


@kernel("int64(int64[:, ::1], int64, int64[::1], uint8[::1])")
def are_live(directory: Words, count: int, rowids: Words, out: Any) -> int:
    """Whether each of the rows, of which ``count`` were ever there, is live; returns how many are."""
    root = directory.ctypes.data
    found = 0
    for i in range(rowids.shape[0]):
        out[i] = 0
        if rowids[i] >= 0 and rowids[i] < count:
            group, position = locate(root, rowids[i])
            if position >= 0 and is_set(load(group, LIVE), position):
                out[i] = 1
                found += 1
    return found


@kernel("int64(int64[:, ::1], int64, int64[::1])")
def kill(directory: Words, count: int, rowids: Words) -> int:
    """Mark rows dead; -1, or the position of the first not live or given twice, nothing being changed."""
    root = directory.ctypes.data
    for i in range(rowids.shape[0]):
        rowid = rowids[i]
        position = -1
        group = root
        if rowid >= 0 and rowid < count:
            group, position = locate(root, rowid)
        if position < 0 or not is_set(load(group, LIVE), position):
            for undo in range(i):
                group, position = locate(root, rowids[undo])
                set_bit(load(group, LIVE), position)
            return i
        clear_bit(load(group, LIVE), position)
    return -1


@kernel("int64(int64[:, ::1], int64[::1])")
def revive(directory: Words, rowids: Words) -> int:
    """Mark rows live that are still stored; returns how many."""
    root = directory.ctypes.data
    for i in range(rowids.shape[0]):
        group, position = locate(root, rowids[i])
        set_bit(load(group, LIVE), position)
    return rowids.shape[0]


@kernel("int64(int64[:, ::1], int64[:, ::1], int64[::1])")
def claim(directory: Words, given: Words, rowids: Words) -> int:
    """Keep ``rowids[i]`` only where that whole live row equals ``given[:, i]``, each once; counts them.

    A row is marked dead while it is claimed, so that it is not claimed again.
    """
    root = directory.ctypes.data
    width, n = given.shape
    for i in range(n):
        if rowids[i] < 0:
            continue
        group, position = locate(root, rowids[i])
        equal = position >= 0 and is_set(load(group, LIVE), position)
        for j in range(width):
            if equal:
                equal = load(load(group, COLUMNS), j * load(group, COLUMN_STRIDE) + position) == given[j, i]
        if equal:
            clear_bit(load(group, LIVE), position)
        else:
            rowids[i] = -1
    claimed = 0
    for i in range(n):
        if rowids[i] >= 0:
            group, position = locate(root, rowids[i])
            set_bit(load(group, LIVE), position)
            claimed += 1
    return claimed


@kernel("int64(int64[:, ::1], int64, int64[::1], int64[::1])")
def bury(directory: Words, full: int, rowids: Words, out: Words) -> int:
    """Count dead rows whose deletion is final; the groups that are mostly dead now, once each.

    Only the first ``full`` groups, in which every offset has been given out, are told.
    """
    bits = directory[0, 0]
    found = 0
    for i in range(rowids.shape[0]):
        group = rowids[i] >> bits
        entry = directory[1 + group]
        entry[DEAD] += 1
        if group < full and entry[WAITING] == 0 and 2 * entry[DEAD] > entry[POSITIONS]:
            entry[WAITING] = 1
            out[found] = group
            found += 1
    return found


@kernel("int64(int64[:, ::1], int64, int64[:, ::1], int64[::1], int64[::1], int64[:, ::1])")
def rewrite(directory: Words, number: int, columns: Words, live: Words, chart: Words, links: Words) -> int:
    """Copy the live rows of a group, in order, to new arrays, which are zeros; returns how many.

    ``columns[width, rows]`` and, unless their second dimension is 0, ``links[2, rows]`` take the words.
    """
    group = directory.ctypes.data + BYTES * (1 + number)
    bits = directory[0, 0]
    chosen = np.empty(columns.shape[1], np.int64)
    found = 0
    before = load(group, CHART)
    for part in range(chart.shape[0] // 2):
        there = live_bits(group, part, 0, 1 << bits)
        chart[2 * part] = there
        chart[2 * part + 1] = found
        while there != 0:
            bit = lowest_bit(there)
            position = 64 * part + bit
            if before != 0:
                earlier = load(before, 2 * part) & ((1 << bit) - 1)
                position = load(before, 2 * part + 1) + bit_count(earlier)
            chosen[found] = position
            live[found >> 6] |= 1 << (found & 63)
            found += 1
            there &= there - 1
    stride = load(group, COLUMN_STRIDE)
    for j in range(columns.shape[0]):
        for i in range(found):
            columns[j, i] = load(load(group, COLUMNS), j * stride + chosen[i])
    if links.shape[1] > 0:
        for j in range(2):
            for i in range(found):
                links[j, i] = load(load(group, NEIGHBOURS), j * stride + chosen[i])
    return found
