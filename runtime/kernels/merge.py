"""Merging two sorted batches in resumable steps, with compaction of times and consolidation.

``state`` is ``(next row of a, next row of b, rows written, flag)``. A call consumes about ``limit`` input
rows and returns how many it did; a merge is done when both inputs are consumed. The output arrays
have room for all input rows. The kernels that add up diffs stop before a row whose sum does not fit
64 bits, with the flag ``OVERFLOW``, as often as they are called.
"""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import device, inlined, kernel

Words = NDArray[np.int64]

DUPLICATE = 1
"""Flag of ``merge_distinct``: the next rows of a and b are equal, which it cannot merge."""

UNEQUAL = 1
"""Flag of ``merge_rows`` and ``merge_histories``: not all diffs written so far are equal."""

OVERFLOW = 2
"""Flag of ``merge_rows`` and ``merge_histories``, added to the other."""

INSERTION = 32  # updates up to which insertion sort is quicker than a heap
BLOCK = 64  # rows that are chosen before they are copied, column by column
SHORT_BLOCK = 8  # rows below which a run is not worth a copy of its own


@device
def compare_rows(a: Words, i: int, b: Words, j: int) -> int:
    """-1, 0 or 1 as row i of a is before, equal to or after row j of b."""
    for c in range(a.shape[0]):
        x = a[c, i]
        y = b[c, j]
        if x < y:
            return -1
        if x > y:
            return 1
    return 0


@device
def run_length(a: Words, i: int, end: int, b: Words, j: int) -> int:
    """How many rows of a from i on are before row j of b: by doubling, then halving, the step."""
    step = 1
    low = i
    while low + step < end and compare_rows(a, low + step, b, j) < 0:
        low += step
        step *= 2
    high = min(end, low + step)
    low += 1
    while low < high:
        middle = (low + high) >> 1
        if compare_rows(a, middle, b, j) < 0:
            low = middle + 1
        else:
            high = middle
    return low - i


@device
def copy_rows(source: Words, i: int, count: int, target: Words, at: int) -> None:
    """target[:, at:at + count] = source[:, i:i + count]."""
    for c in range(source.shape[0]):
        target[c, at : at + count] = source[c, i : i + count]


@device
def merge_block(a: Words, i: int, b: Words, j: int, out: Words, at: int, count: int, from_a: Words) -> int:
    """Merge the next ``count`` rows without branching on the data; returns how many, fewer at a duplicate.

    Neither side may run out. ``from_a[k]`` says where row k came from. The first two columns decide
    nearly always; they are chosen and written at once, the others when all choices are known.
    """
    width = a.shape[0]
    a_first = a[0]
    b_first = b[0]
    a_second = a[min(1, width - 1)]
    b_second = b[min(1, width - 1)]
    out_first = out[0]
    out_second = out[min(1, width - 1)]
    ia = i
    jb = j
    done = 0
    while done < count:
        x = a_first[ia]
        y = b_first[jb]
        x2 = a_second[ia]
        y2 = b_second[jb]
        less = (x < y) | ((x == y) & (x2 < y2))
        if (x == y) & (x2 == y2):
            sign = compare_rows(a, ia, b, jb)
            if sign == 0:
                break
            less = sign < 0
        out_second[at + done] = x2 if less else y2
        out_first[at + done] = x if less else y
        from_a[done] = less
        ia += less
        jb += 1 - less
        done += 1
    for c in range(2, width):
        ia = i
        jb = j
        for k in range(done):
            less = from_a[k]
            out[c, at + k] = a[c, ia] if less else b[c, jb]
            ia += less
            jb += 1 - less
    return done


@device
def split(a: Words, i: int, b: Words, j: int, count: int) -> int:
    """How many of the next ``count`` rows are from a, where neither side has fewer."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if compare_rows(a, i + middle, b, j + count - 1 - middle) < 0:
            low = middle + 1
        else:
            high = middle
    return low


@device
def merge_pairs(a: Words, i: int, b: Words, j: int, out: Words, at: int, count: int) -> int:
    """Merge the next ``2 * count`` rows of two columns: how many were from a, -1 if two may be equal.

    Neither side may have fewer. Which row is next depends on the one before; so the second half is merged
    beside the first, from where it begins, and nothing branches. Indices are unsigned: a signed one is tested
    for being negative.
    """
    a_first, b_first, out_first = a[0], b[0], out[0]
    a_second, b_second, out_second = a[1], b[1], out[1]
    here = split(a, i, b, j, count)
    ia, ja = np.uint64(i), np.uint64(j)
    ib, jb = np.uint64(i + here), np.uint64(j + count - here)
    to, too = np.uint64(at), np.uint64(at + count)
    one = np.uint64(1)
    equal = False
    for _ in range(count):
        x, y, x2, y2 = a_first[ia], b_first[ja], a_second[ia], b_second[ja]
        less = (x < y) | ((x == y) & (x2 < y2))
        equal |= (x == y) & (x2 == y2)
        out_first[to] = x if less else y
        out_second[to] = x2 if less else y2
        ia += np.uint64(less)
        ja += np.uint64(not less)
        to += one
        x, y, x2, y2 = a_first[ib], b_first[jb], a_second[ib], b_second[jb]
        less = (x < y) | ((x == y) & (x2 < y2))
        equal |= (x == y) & (x2 == y2)
        out_first[too] = x if less else y
        out_second[too] = x2 if less else y2
        ib += np.uint64(less)
        jb += np.uint64(not less)
        too += one
    return -1 if equal else int(np.int64(ib) - i)


@kernel("int64(int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[::1], int64)")
def merge_distinct(a: Words, b: Words, out: Words, state: Words, limit: int) -> int:
    """Merge rows that are distinct within a and within b; times and diffs are all equal, so not merged.

    Stops with the flag ``DUPLICATE`` before a row that is in both. Where the rows of one side come in
    runs, the runs are found by galloping and copied as a whole.
    """
    i, j, at = state[0], state[1], state[2]
    start = i + j
    a_rows = a.shape[1]
    b_rows = b.shape[1]
    from_a = np.empty(BLOCK, np.int64)
    gallop = True
    while i < a_rows and j < b_rows and i + j - start < limit:
        count = min(BLOCK, a_rows - i, b_rows - j)
        if not gallop and a.shape[0] == 2 and min(a_rows - i, b_rows - j) >= 2 * BLOCK:
            taken = merge_pairs(a, i, b, j, out, at, BLOCK)
            if taken >= 0:
                i += taken
                j += 2 * BLOCK - taken
                at += 2 * BLOCK
                gallop = taken == 0 or taken == 2 * BLOCK
                continue
        if not gallop and count >= SHORT_BLOCK:
            done = merge_block(a, i, b, j, out, at, count, from_a)
            taken = from_a[:done].sum()
            i += taken
            j += done - taken
            at += done
            gallop = done < count or taken == 0 or taken == done
            continue
        sign = compare_rows(a, i, b, j)
        if sign == 0:
            state[3] = DUPLICATE
            break
        if sign < 0:
            count = run_length(a, i, min(a_rows, i + limit), b, j)
            copy_rows(a, i, count, out, at)
            i += count
        else:
            count = run_length(b, j, min(b_rows, j + limit), a, i)
            copy_rows(b, j, count, out, at)
            j += count
        at += count
        gallop = count >= SHORT_BLOCK
    if i == a_rows or j == b_rows:
        count = min(limit, a_rows - i)
        copy_rows(a, i, count, out, at)
        i += count
        at += count
        count = min(limit, b_rows - j)
        copy_rows(b, j, count, out, at)
        j += count
        at += count
    state[0] = i
    state[1] = j
    state[2] = at
    return i + j - start


@device
def run_end(a: Words, i: int) -> int:
    """End of the run of rows equal to row i."""
    end = i + 1
    while end < a.shape[1] and compare_rows(a, i, a, end) == 0:
        end += 1
    return end


@device
def overflows(a: int, b: int) -> bool:
    """Whether the sum of two words does not fit a word."""
    total = a + b
    return ((a ^ total) & (b ^ total)) < 0


@kernel(
    "int64(int64[:, ::1], int64[::1], int64[:, ::1], int64[::1], int64[:, ::1], int64[::1], int64[::1],"
    " int64)"
)
def merge_rows(
    a: Words, a_diff: Words, b: Words, b_diff: Words, out: Words, out_diff: Words, state: Words, limit: int
) -> int:
    """Merge when all times compact to one: diffs of equal rows are added up, zero sums dropped."""
    i, j, at = state[0], state[1], state[2]
    start = i + j
    a_rows = a.shape[1]
    b_rows = b.shape[1]
    a_step = 1 if a_diff.shape[0] > 1 else 0
    b_step = 1 if b_diff.shape[0] > 1 else 0
    while (i < a_rows or j < b_rows) and i + j - start < limit:
        sign = -1 if j == b_rows else (1 if i == a_rows else compare_rows(a, i, b, j))
        total = 0
        overflow = False
        first_a, first_b = i, j
        if sign <= 0:
            for c in range(a.shape[0]):
                out[c, at] = a[c, i]
            end = run_end(a, i)
            while i < end:
                overflow |= overflows(total, a_diff[i * a_step])
                total += a_diff[i * a_step]
                i += 1
        if sign >= 0:
            for c in range(a.shape[0]):
                out[c, at] = b[c, j]
            end = run_end(b, j)
            while j < end:
                overflow |= overflows(total, b_diff[j * b_step])
                total += b_diff[j * b_step]
                j += 1
        if overflow:
            i, j = first_a, first_b
            state[3] |= OVERFLOW
            break
        if total != 0:
            out_diff[at] = total
            if total != out_diff[0]:
                state[3] |= UNEQUAL
            at += 1
    state[0] = i
    state[1] = j
    state[2] = at
    return i + j - start


@device
def compare_times(time: Words, a: int, b: int) -> int:
    """-1, 0 or 1 as time a is before, equal to or after time b, lexicographically."""
    for d in range(time.shape[0]):
        if time[d, a] < time[d, b]:
            return -1
        if time[d, a] > time[d, b]:
            return 1
    return 0


@device
def swap(time: Words, diff: Words, a: int, b: int) -> None:
    """Exchange two updates of a row."""
    for d in range(time.shape[0]):
        time[d, a], time[d, b] = time[d, b], time[d, a]
    diff[a], diff[b] = diff[b], diff[a]


@device
def sift_down(time: Words, diff: Words, start: int, root: int, size: int) -> None:
    """Restore the heap order of start..start + size below root."""
    while True:
        child = 2 * root + 1
        if child >= size:
            return
        if child + 1 < size and compare_times(time, start + child, start + child + 1) < 0:
            child += 1
        if compare_times(time, start + root, start + child) >= 0:
            return
        swap(time, diff, start + root, start + child)
        root = child


@device
def sort_history(time: Words, diff: Words, start: int, end: int) -> None:
    """Sort the updates start..end of one row by time: nothing if sorted, insertion if few, else a heap."""
    unsorted = start + 1
    while unsorted < end and compare_times(time, unsorted - 1, unsorted) <= 0:
        unsorted += 1
    if unsorted == end:
        return
    size = end - start
    if size <= INSERTION:
        for i in range(unsorted, end):
            k = i
            while k > start and compare_times(time, k - 1, k) > 0:
                swap(time, diff, k - 1, k)
                k -= 1
        return
    for root in range(size // 2 - 1, -1, -1):
        sift_down(time, diff, start, root, size)
    for last in range(size - 1, 0, -1):
        swap(time, diff, start, start + last)
        sift_down(time, diff, start, 0, last)


@device
def copy_history(
    source_time: Words,
    source_diff: Words,
    i: int,
    end: int,
    floor: Words,
    out_time: Words,
    out_diff: Words,
    to: int,
) -> int:
    """Append the updates i..end of a row, with every time raised to the floor."""
    time_step = 1 if source_time.shape[1] > 1 else 0
    diff_step = 1 if source_diff.shape[0] > 1 else 0
    for k in range(i, end):
        for d in range(source_time.shape[0]):
            out_time[d, to] = max(floor[d], source_time[d, k * time_step])
        out_diff[to] = source_diff[k * diff_step]
        to += 1
    return to


@device
def in_advance(time: Words, i: int, count: int, floor: Words) -> bool:
    """Whether the times of ``count`` updates from i on are what they would be raised to."""
    step = 1 if time.shape[1] > 1 else 0
    early = 0
    for d in range(time.shape[0]):
        own = time[d]
        for k in range(count if step else 1):
            early |= own[(i + k) * step] < floor[d]
    return early == 0


@device
def choose(a: Words, i: int, b: Words, j: int, out: Words, at: int, count: int, from_a: Words) -> None:
    """The next ``count`` of two columns of words, or of one word each, by ``from_a``."""
    a_step = 1 if a.shape[0] > 1 else 0
    b_step = 1 if b.shape[0] > 1 else 0
    ia = i * a_step
    jb = j * b_step
    for k in range(count):
        less = from_a[k]
        out[at + k] = a[ia] if less else b[jb]
        ia += less * a_step
        jb += (1 - less) * b_step


@inlined
def note_diff(out_diff: Words, at: int, state: Words) -> None:
    """Take account of the diff at ``at``: the first that differs has those before it written out."""
    if out_diff[at] != out_diff[0] and state[3] & UNEQUAL == 0:
        out_diff[1:at] = out_diff[0]
        state[3] |= UNEQUAL


@inlined
def is_single(rows: Words, i: int) -> bool:
    """Whether the row after row i is another."""
    c = 0
    while i + 1 < rows.shape[1] and c < rows.shape[0] and rows[c, i] == rows[c, i + 1]:
        c += 1
    return i + 1 == rows.shape[1] or c < rows.shape[0]


@inlined
def copy_single(
    rows: Words,
    time: Words,
    diff: Words,
    i: int,
    floor: Words,
    out: Words,
    out_time: Words,
    out_diff: Words,
    at: int,
    state: Words,
) -> None:
    """Put a row of one update into place ``at``, its time raised to the floor."""
    for c in range(rows.shape[0]):
        out[c, at] = rows[c, i]
    time_step = 1 if time.shape[1] > 1 else 0
    for d in range(time.shape[0]):
        out_time[d, at] = max(floor[d], time[d, i * time_step])
    out_diff[at] = diff[i * (1 if diff.shape[0] > 1 else 0)]
    note_diff(out_diff, at, state)


@device
def choose_diffs(
    a: Words, i: int, b: Words, j: int, out: Words, at: int, count: int, from_a: Words, state: Words
) -> None:
    """The diffs of the next ``count`` rows by ``from_a``, where any may be other than the first."""
    if at == 0:
        out[0] = a[i if a.shape[0] > 1 else 0] if from_a[0] else b[j if b.shape[0] > 1 else 0]
    same = a.shape[0] == 1 and b.shape[0] == 1 and a[0] == b[0]
    if same and state[3] & UNEQUAL == 0 and a[0] == out[0]:
        return
    choose(a, i, b, j, out, at, count, from_a)
    for k in range(at, at + count):
        if out[k] != out[0] and state[3] & UNEQUAL == 0:
            out[1:at] = out[0]
            state[3] |= UNEQUAL


@device
def add_up_history(
    rows: Words, i: int, out: Words, out_time: Words, out_diff: Words, at: int, to: int, state: Words
) -> int:
    """Leave one update a time of row i's history, sorted in places ``at`` to ``to``; where it ends."""
    k = at
    while k < to:
        head = k
        total = out_diff[k]
        k += 1
        while k < to and compare_times(out_time, head, k) == 0:
            if overflows(total, out_diff[k]):
                state[3] |= OVERFLOW
            total += out_diff[k]
            k += 1
        if total == 0:
            continue
        for d in range(out_time.shape[0]):
            out_time[d, at] = out_time[d, head]
        for c in range(rows.shape[0]):
            out[c, at] = rows[c, i]
        out_diff[at] = total
        note_diff(out_diff, at, state)
        at += 1
    return at


@kernel(
    "int64(int64[:, ::1], int64[:, ::1], int64[::1], int64[:, ::1], int64[:, ::1], int64[::1], int64[::1],"
    " int64[:, ::1], int64[:, ::1], int64[::1], int64[::1], int64)"
)
def merge_histories(
    a: Words,
    a_time: Words,
    a_diff: Words,
    b: Words,
    b_time: Words,
    b_diff: Words,
    floor: Words,
    out: Words,
    out_time: Words,
    out_diff: Words,
    state: Words,
    limit: int,
) -> int:
    """Merge with times: each time becomes ``max(time, floor)``, then equal (row, time) are added up.

    Times may change their order within a row by that (in two dimensions), so each row's history is
    sorted where it lands. A row is merged as a whole, whatever the limit. Until diffs are ``UNEQUAL``, only
    the first is sure to be written.
    """
    i, j, at = state[0], state[1], state[2]
    start = i + j
    a_rows = a.shape[1]
    b_rows = b.shape[1]
    width, depth = a.shape[0], out_time.shape[0]
    from_a = np.empty(BLOCK, np.int64)
    singly = 0
    while (i < a_rows or j < b_rows) and i + j - start < limit:
        # Where all rows of a block are in one side only, and times stay, order is all there is to find.
        count = min(BLOCK, a_rows - i, b_rows - j)
        if singly > 0:
            singly -= 1
        elif count >= SHORT_BLOCK and width > 0:
            done = 0
            if in_advance(a_time, i, count, floor) and in_advance(b_time, j, count, floor):
                done = merge_block(a, i, b, j, out, at, count, from_a)
                for d in range(depth):
                    choose(a_time[d], i, b_time[d], j, out_time[d], at, done, from_a)
                choose_diffs(a_diff, i, b_diff, j, out_diff, at, done, from_a, state)
                taken = from_a[:done].sum()
                i += taken
                j += done - taken
                at += done
            if done == count:
                continue
            singly = BLOCK if done < SHORT_BLOCK else 0
        sign = -1 if j == b_rows else (1 if i == a_rows else compare_rows(a, i, b, j))
        # A row with one update, as most have, is copied.
        if sign < 0 and is_single(a, i):
            copy_single(a, a_time, a_diff, i, floor, out, out_time, out_diff, at, state)
            at += 1
            i += 1
            continue
        if sign > 0 and is_single(b, j):
            copy_single(b, b_time, b_diff, j, floor, out, out_time, out_diff, at, state)
            at += 1
            j += 1
            continue
        to = at
        first_a, first_b = i, j
        if sign <= 0:
            i = run_end(a, i)
            to = copy_history(a_time, a_diff, first_a, i, floor, out_time, out_diff, to)
        if sign >= 0:
            j = run_end(b, j)
            to = copy_history(b_time, b_diff, first_b, j, floor, out_time, out_diff, to)
        if to > at + 1:
            sort_history(out_time, out_diff, at, to)
        if sign <= 0:
            end = add_up_history(a, first_a, out, out_time, out_diff, at, to, state)
        else:
            end = add_up_history(b, first_b, out, out_time, out_diff, at, to, state)
        if state[3] & OVERFLOW:
            i, j = first_a, first_b
            break
        at = end
    state[0] = i
    state[1] = j
    state[2] = at
    return i + j - start
