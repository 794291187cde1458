"""Kernels over a group table: accumulators per group key, found through an open-addressing hash table.

The table is two arrays: ``slots int64[capacity]`` (group number + 1, or 0), and
``rows int64[groups, 1 + nk + na]``: when the group was last touched, its key, and its accumulators, so
that a group is one place in memory. The probe is written out in the loops that use it, because a call
with arrays costs reference counting, many times the probe's own cost.
What ``spec`` says of the accumulators, and how they add up, is in ``accumulators``.

What a table counts and tells of is ``state int64[STATE_FIELDS]``.
"""

import numpy as np

from kpg.runtime.kernels import device, kernel
from kpg.runtime.kernels.accumulators import (
    COUNT,
    ERROR,
    NULL,
    SUM,
    SUM_DOUBLE,
    SUM_DOUBLE_WORDS,
    add_block,
    add_few,
    add_row,
    double_word,
    is_zero,
    other_word,
    sort_by_group,
)

__all__ = ["COUNT", "NULL", "SUM", "SUM_DOUBLE", "SUM_DOUBLE_WORDS"]

BLOCK = 64
FEW = 64  # groups, in a table of at most which rows are first sorted by group
FEWER = 8  # groups, in a table of at most which a block of keys is compared with each
LARGE = 1024  # rows of a block then
ALLOTTED = 0  # of the state: groups that have a number, or had one that is free
FREED = 1  # numbers that are free
ENTRIES = 2  # groups touched in the step
LIVE = 3  # groups
SINK = 4  # for what is prefetched
OVERFLOW = 5  # whether the rows of a group came to be more than 64 bits can count
DOUBTFUL = 6  # whether an output word may be out of its type's range
MARKER = 7  # what tells this step from others
STATE_FIELDS = 8
MOST_DECIMAL = 10**18 - 1
SUMS = 0  # what a refresh puts out: key and aggregates
SIGNS = 1  # each key with a positive count, once
MULTIPLICITIES = 2  # or as often as it counts


@device
def hash_row(data, row, width):
    h = np.uint64(0x9E3779B97F4A7C15)
    for c in range(width):
        h = (h ^ np.uint64(data[c, row])) * np.uint64(0xFF51AFD7ED558CCD)
        h ^= h >> np.uint64(32)
    return np.int64(h & np.uint64(0x7FFFFFFFFFFFFFFF))


@device
def hash_key(rows, group, width):
    h = np.uint64(0x9E3779B97F4A7C15)
    for c in range(width):
        h = (h ^ np.uint64(rows[group, 1 + c])) * np.uint64(0xFF51AFD7ED558CCD)
        h ^= h >> np.uint64(32)
    return np.int64(h & np.uint64(0x7FFFFFFFFFFFFFFF))


@device
def new_group(data, row, slot, nk, slots, rows, free, state):
    """A group with the row's key and zero accumulators, at the empty slot."""
    if state[FREED] > 0:
        state[FREED] -= 1
        group = free[state[FREED]]
    else:
        group = state[ALLOTTED]
        state[ALLOTTED] += 1
    state[LIVE] += 1
    slots[slot] = group + 1
    rows[group, 0] = 0
    for c in range(nk):
        rows[group, 1 + c] = data[c, row]
    for a in range(1 + nk, rows.shape[1]):
        rows[group, a] = 0
    return group


@device
def touch(group, marker, nk, rows, touched, old, state):
    """Remember the accumulators of a group that is touched first since ``marker``."""
    rows[group, 0] = marker
    entry = state[ENTRIES]
    touched[entry] = group
    for a in range(old.shape[1]):
        old[entry, a] = rows[group, 1 + nk + a]
    state[ENTRIES] = entry + 1


@device
def compare_with_each(data, start, stop, nk, rows, allotted, groups):
    """The group of each row of a block, -1 if it is not among the first ``allotted``; counts these."""
    count = stop - start
    for i in range(count):
        groups[i] = -1
    same = np.empty(count, np.int64)
    for g in range(allotted):
        for i in range(count):
            same[i] = -1
        for c in range(nk):
            words = data[c, start:stop]
            word = rows[g, 1 + c]
            for i in range(count):
                same[i] = same[i] if words[i] == word else 0
        for i in range(count):
            groups[i] = g if same[i] != 0 else groups[i]
    missing = 0
    for i in range(count):
        missing += int(groups[i] < 0)
    return missing


@device
def prefetch(data, order, start, stop, nk, slots, rows, homes, groups):
    """Home slots of a block of rows; touches what they lead to, so that the misses overlap."""
    mask = slots.shape[0] - 1
    for i in range(start, stop):
        row = order[i] if order.shape[0] > 0 else i
        home = hash_row(data, row, nk) & mask
        homes[i - start] = home
        groups[i - start] = slots[home]
    sink = 0
    for i in range(stop - start):
        if groups[i] > 0:
            sink ^= rows[groups[i] - 1, 0] ^ rows[groups[i] - 1, rows.shape[1] - 1]
    return sink


@device
def add_rows(data, diff, first, last, nk, spec, slots, rows, marker, free, touched, old, state):
    """Add rows ``first .. last``, which bear one time; entries record the groups touched since ``marker``."""
    mask = slots.shape[0] - 1
    few = last - first > BLOCK and state[ALLOTTED] <= FEW and diff.shape[0] == 1 and abs(diff[0]) == 1
    for s in range(spec.shape[0]):
        few = few and spec[s, 0] < SUM_DOUBLE
    block = LARGE if few else BLOCK
    homes = np.empty(block, np.int64)
    groups = np.empty(block, np.int64)
    ends = np.empty(FEW + 2 if few else 0, np.int64)
    order = np.empty(LARGE if few else 0, np.int64)
    natural = np.empty(0, np.int64)
    for start in range(first, last, block):
        stop = min(start + block, last)
        known = few and state[ALLOTTED] <= FEWER and state[FREED] == 0
        if known:
            known = compare_with_each(data, start, stop, nk, rows, state[ALLOTTED], groups) == 0
        if not known:
            state[SINK] ^= prefetch(data, natural, start, stop, nk, slots, rows, homes, groups)
        for row in range(start, start if known else stop):
            slot = homes[row - start]
            while True:
                group = slots[slot] - 1
                if group < 0:
                    break
                same = True
                for c in range(nk):
                    same = same and rows[group, 1 + c] == data[c, row]
                if same:
                    break
                slot = (slot + 1) & mask
            if group < 0:
                group = new_group(data, row, slot, nk, slots, rows, free, state)
            if rows[group, 0] != marker:
                touch(group, marker, nk, rows, touched, old, state)
            groups[row - start] = group
        if few and state[ALLOTTED] <= FEW:
            sort_by_group(groups, stop - start, state[ALLOTTED], ends, order)
            for group in range(state[ALLOTTED]):
                if ends[group] < ends[group + 1] and rows[group, 0] != marker:
                    touch(group, marker, nk, rows, touched, old, state)
            overflow = add_few(
                data, start, stop, diff[0], groups, state[ALLOTTED], ends, order, 1 + nk, rows, spec
            )
        else:
            overflow = add_block(data, start, stop, diff, groups, 1 + nk, rows, spec)
        if overflow:
            state[OVERFLOW] = 1


@kernel(
    "void(int64[:, ::1], int64[::1], int64, int64, int64, int64[:, ::1], int64[::1], int64[:, ::1], int64,"
    " int64[::1], int64[::1], int64[:, ::1], int64[::1])"
)
def accumulate(data, diff, first, last, nk, spec, slots, rows, marker, free, touched, old, state):
    """Add rows ``first .. last``, which bear one time; entries record the groups touched since ``marker``."""
    add_rows(data, diff, first, last, nk, spec, slots, rows, marker, free, touched, old, state)


@kernel(
    "int64(int64[:, ::1], int64[:, ::1], int64[::1], int64[::1], int64, int64[:, ::1], int64[::1],"
    " int64[:, ::1], int64, int64[::1], int64[::1], int64[:, ::1], int64[:, ::1], int64[::1], int64[::1])"
)
def accumulate_times(
    data, time, diff, order, nk, spec, slots, rows, marker, free, touched, old, new, when, state
):
    """Add rows in the ``order`` of their times; an entry for each (group, time) touched.

    ``when[entry]`` is a row with the entry's time. Returns the next unused marker.
    """
    step = 0 if diff.shape[0] == 1 else 1
    n = data.shape[1]
    mask = slots.shape[0] - 1
    homes = np.empty(BLOCK, np.int64)
    groups = np.empty(BLOCK, np.int64)
    first = state[ENTRIES]
    for i in range(n):
        if i % BLOCK == 0:
            state[SINK] ^= prefetch(data, order, i, min(i + BLOCK, n), nk, slots, rows, homes, groups)
        row = order[i]
        slot = homes[i % BLOCK]
        while True:
            group = slots[slot] - 1
            if group < 0:
                break
            same = True
            for c in range(nk):
                same = same and rows[group, 1 + c] == data[c, row]
            if same:
                break
            slot = (slot + 1) & mask
        if group < 0:
            group = new_group(data, row, slot, nk, slots, rows, free, state)
        if rows[group, 0] != marker:
            touch(group, marker, nk, rows, touched, old, state)
        change, count = diff[row * step], rows[group, 1 + nk]
        add_row(data, row, change, rows, group, 1 + nk, spec)
        if (count ^ rows[group, 1 + nk]) & (change ^ rows[group, 1 + nk]) < 0:
            state[OVERFLOW] = 1
        last = i + 1 == n
        if not last:
            for c in range(time.shape[0]):
                if time[c, row] != time[c, order[i + 1]]:
                    last = True
        if last:
            for entry in range(first, state[ENTRIES]):
                when[entry] = row
                for a in range(new.shape[1]):
                    new[entry, a] = rows[touched[entry], 1 + nk + a]
            first = state[ENTRIES]
            marker += 1
    return marker


@kernel("void(int64[::1], int64[:, ::1], int64, int64[:, ::1])")
def current(numbers, rows, nk, new):
    """The present accumulators of the listed groups."""
    for i in range(new.shape[0]):
        for a in range(new.shape[1]):
            new[i, a] = rows[numbers[i], 1 + nk + a]


@device
def output_word(row, kind, offset):
    """The result of one aggregate, NULL over nothing, ERROR if it does not fit a word."""
    if kind == COUNT:
        return row[offset]
    if row[offset] == 0:
        return np.int64(NULL)
    if kind == SUM:
        low = row[offset + 1]
        if row[offset + 2] != low >> 63 or low <= ERROR:
            return np.int64(ERROR)
        return low
    return double_word(row, offset + 1) if kind == SUM_DOUBLE else other_word(row, kind, offset)


@kernel(
    "int64(int64[::1], int64[:, ::1], int64[:, ::1], int64, int64[:, ::1], int64, int64[:, ::1],"
    " int64[:, ::1], int64[::1], int64[::1])"
)
def emit(touched, old, new, entries, rows, nk, spec, out, out_diff, out_entry):
    """Retract each entry's old row and add its new one, where they differ. Returns the rows written.

    A row exists while the group's count is positive; for ``nk == 0`` always, once it has been output
    (a count of NULL says: not yet). ``out int64[nk + naggs, 2 * entries]``.
    """
    n = 0
    naggs = spec.shape[0]
    for entry in range(entries):
        had = old[entry, 0] > 0 or (nk == 0 and old[entry, 0] != NULL)
        has = new[entry, 0] > 0 or nk == 0
        if not had and not has:
            continue
        equal = had and has
        for s in range(naggs):
            before = output_word(old[entry], spec[s, 0], spec[s, 2]) if had else 0
            after = output_word(new[entry], spec[s, 0], spec[s, 2]) if has else 0
            equal = equal and before == after
            out[nk + s, n] = before
            if has:
                out[nk + s, n + (1 if had else 0)] = after
        if equal:
            continue
        for which in range(2):
            if (which == 0 and had) or (which == 1 and has):
                for c in range(nk):
                    out[c, n] = rows[touched[entry], 1 + c]
                out_diff[n] = 2 * which - 1
                out_entry[n] = entry
                n += 1
    return n


@kernel(
    "int64(int64[::1], int64[:, ::1], int64[:, ::1], int64, int64[:, ::1], int64, int64, int64[:, ::1],"
    " int64[::1], int64[::1])"
)
def emit_threshold(touched, old, new, entries, rows, nk, distinct, out, out_diff, out_entry):
    """The change of each key's positive multiplicity, or of its sign if ``distinct``."""
    n = 0
    for entry in range(entries):
        before = max(old[entry, 0], 0)
        after = max(new[entry, 0], 0)
        if distinct == 1:
            before = min(before, 1)
            after = min(after, 1)
        if before != after:
            for c in range(nk):
                out[c, n] = rows[touched[entry], 1 + c]
            out_diff[n] = after - before
            out_entry[n] = entry
            n += 1
    return n


@device
def put_changes(entries, touched, old, rows, nk, spec, out, diff, state):
    """Write the old row of each entry, retracted, and its new one, where they differ; returns how many."""
    n = 0
    naggs = spec.shape[0]
    doubtful = False
    for entry in range(entries):
        group = touched[entry]
        new = rows[group, 1 + nk :]
        had = old[entry, 0] > 0 or (nk == 0 and old[entry, 0] != NULL)
        has = new[0] > 0 or nk == 0
        if not had and not has:
            continue
        equal = had and has
        for s in range(naggs):
            before = output_word(old[entry], spec[s, 0], spec[s, 2]) if had else 0
            after = output_word(new, spec[s, 0], spec[s, 2]) if has else 0
            equal = equal and before == after
            doubtful |= after == ERROR or (after != NULL and abs(after) > MOST_DECIMAL)
            out[nk + s, n] = before
            if has:
                out[nk + s, n + (1 if had else 0)] = after
        if equal:
            continue
        for which in range(2):
            if (which == 0 and had) or (which == 1 and has):
                for c in range(nk):
                    out[c, n] = rows[group, 1 + c]
                diff[n] = 2 * which - 1
                n += 1
    state[DOUBTFUL] = 1 if doubtful else 0
    return n


@device
def put_multiplicities(entries, touched, old, rows, nk, distinct, out, diff):
    """Write the change of each key's positive multiplicity, or of its sign; returns how many have changed."""
    n = 0
    for entry in range(entries):
        before = max(old[entry, 0], 0)
        after = max(rows[touched[entry], 1 + nk], 0)
        if distinct:
            before = min(before, 1)
            after = min(after, 1)
        if before != after:
            for c in range(nk):
                out[c, n] = rows[touched[entry], 1 + c]
            diff[n] = after - before
            n += 1
    return n


@kernel(
    "int64(int64[:, ::1], int64[::1], int64, int64, int64[:, ::1], int64[::1], int64[:, ::1], int64,"
    " int64[::1], int64[::1], int64[:, ::1], int64[::1], int64[::1], int64[::1])"
)
def refresh(data, diff, what, nk, spec, slots, rows, marker, free, touched, old, state, out, out_diff):
    """Add all rows of a step, the first of it, and put out what changes: ``accumulate`` and ``emit`` in one.

    ``what`` is SUMS, SIGNS or MULTIPLICITIES. ``out`` has room for two rows of each row's group; it then
    begins with the changes ``int64[width, n]``. Returns n.
    """
    add_rows(data, diff, 0, data.shape[1], nk, spec, slots, rows, marker, free, touched, old, state)
    entries = state[ENTRIES]
    room = 2 * entries
    width = nk + spec.shape[0] if what == SUMS else nk
    wide = out[: width * room].reshape((width, room))
    if what == SUMS:
        n = put_changes(entries, touched, old, rows, nk, spec, wide, out_diff, state)
    else:
        n = put_multiplicities(entries, touched, old, rows, nk, what == SIGNS, wide, out_diff)
    if n < room:
        for c in range(1, width):
            for i in range(n):
                out[c * n + i] = out[c * room + i]
    return n


@kernel("void(int64[::1], int64[::1], int64[:, ::1], int64)")
def rebuild(source, slots, rows, nk):
    """Insert every group listed in ``source`` into the larger, empty ``slots``."""
    mask = slots.shape[0] - 1
    for i in range(source.shape[0]):
        if source[i] != 0:
            slot = hash_key(rows, source[i] - 1, nk) & mask
            while slots[slot] != 0:
                slot = (slot + 1) & mask
            slots[slot] = source[i]


@device
def remove_slot(group, nk, slots, rows):
    """Backward-shift deletion of a group's slot."""
    mask = slots.shape[0] - 1
    slot = hash_key(rows, group, nk) & mask
    while slots[slot] != group + 1:
        slot = (slot + 1) & mask
    hole = slot
    probe = slot
    while True:
        probe = (probe + 1) & mask
        if slots[probe] == 0:
            break
        home = hash_key(rows, slots[probe] - 1, nk) & mask
        if ((probe - home) & mask) >= ((probe - hole) & mask):
            slots[hole] = slots[probe]
            hole = probe
    slots[hole] = 0


@kernel("void(int64[::1], int64[:, ::1], int64, int64[::1], int64[:, ::1], int64[::1], int64[::1])")
def finish(touched, spec, nk, slots, rows, free, state):
    """End a step: forget touched groups, if they have keys, whose accumulators are all zero."""
    entries = state[ENTRIES] if nk > 0 else 0
    state[ENTRIES] = 0
    state[OVERFLOW] = 0
    state[MARKER] += 1
    for entry in range(entries):
        group = touched[entry]
        if rows[group, 1 + nk] != 0 or rows[group, 0] < 0 or not is_zero(rows, group, 1 + nk, spec):
            continue
        remove_slot(group, nk, slots, rows)
        rows[group, 0] = -1
        free[state[FREED]] = group
        state[FREED] += 1
        state[LIVE] -= 1
