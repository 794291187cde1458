"""Kernels over a group table: accumulators per group key, found through an open-addressing hash table.

The table is two arrays: ``slots int64[capacity]`` (group number + 1, or 0), and
``rows int64[groups, 1 + nk + na]``: when the group was last touched, its key, and its accumulators, so
that a group is one place in memory. The probe is written out in the loops that use it, because a call
with arrays costs reference counting, many times the probe's own cost.
What ``spec`` says of the accumulators, and how they add up, is in ``accumulators``.

``state int64[6]``: groups allotted, free group numbers, entries, live groups, a sink for prefetches, and, at
``OVERFLOW``, whether the rows of a group came to be more than 64 bits can count.
"""

import math

import numpy as np

from kpg.runtime.kernels import device, kernel
from kpg.runtime.kernels.accumulators import (
    COUNT,
    ERROR,
    FLIP,
    LIMBS,
    LOW,
    NULL,
    SUM,
    add128,
    add_double,
    add_row,
    is_zero,
)

BLOCK = 64
OVERFLOW = 5
NAN_WORD = 0x7FF8000000000000


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
    if state[1] > 0:
        state[1] -= 1
        group = free[state[1]]
    else:
        group = state[0]
        state[0] += 1
    state[3] += 1
    slots[slot] = group + 1
    rows[group, 0] = 0
    for c in range(nk):
        rows[group, 1 + c] = data[c, row]
    for a in range(1 + nk, rows.shape[1]):
        rows[group, a] = 0
    return group


@device
def limbs_value(row, base, limbs):
    """Canonical magnitude of the limbs into ``limbs``; returns the sign (-1, 0, 1)."""
    carry = np.int64(0)
    any_set = False
    for i in range(LIMBS):
        value = row[base + i] + carry
        limbs[i] = value & LOW
        carry = value >> 32
        any_set = any_set or limbs[i] != 0
    if carry < 0:
        borrow = np.int64(1)
        for i in range(LIMBS):
            value = (limbs[i] ^ LOW) + borrow
            limbs[i] = value & LOW
            borrow = value >> 32
        return -1
    return 1 if any_set else 0


@device
def double_word(row, offset):
    """The word of the correctly rounded sum whose accumulator starts at ``offset``."""
    if row[offset] > 0 or (row[offset + 1] > 0 and row[offset + 2] > 0):
        return NAN_WORD
    if row[offset + 1] > 0:
        return np.int64(0x7FF0000000000000)
    if row[offset + 2] > 0:
        return np.int64(-0x7FF0000000000001)
    limbs = np.empty(LIMBS, np.int64)
    sign = limbs_value(row, offset + 3, limbs)
    if sign == 0:
        return np.int64(0)
    top = LIMBS - 1
    while top >= 0 and limbs[top] == 0:
        top -= 1
    shift = 0
    while (limbs[top] << shift) & 0x80000000 == 0:
        shift += 1
    second = limbs[top - 1] if top >= 1 else 0
    third = limbs[top - 2] if top >= 2 else 0
    x = np.uint64((limbs[top] << 32) | second) << np.uint64(shift)
    x |= np.uint64(third >> (32 - shift))
    sticky = (third & ((1 << (32 - shift)) - 1)) != 0
    i = top - 3
    while not sticky and i >= 0:
        sticky = limbs[i] != 0
        i -= 1
    if sticky:
        x |= np.uint64(1)
    buffer = np.empty(1, np.float64)
    buffer[0] = sign * math.ldexp(np.float64(x), 32 * (top - 1) - shift - 1074)
    bits = buffer.view(np.int64)[0]
    if bits & 0x7FF0000000000000 == 0x7FF0000000000000:
        return np.int64(ERROR)
    return bits if bits >= 0 else bits ^ FLIP


@device
def touch(group, marker, nk, rows, touched, old, state):
    """Remember the accumulators of a group that is touched first since ``marker``."""
    rows[group, 0] = marker
    entry = state[2]
    touched[entry] = group
    for a in range(old.shape[1]):
        old[entry, a] = rows[group, 1 + nk + a]
    state[2] = entry + 1


@device
def add_counts(data, column, start, stop, diff, groups, offset, acc):
    """Add a block of rows to one count. Returns whether it came not to fit 64 bits."""
    step = 0 if diff.shape[0] == 1 else 1
    wrapped = np.int64(0)
    for row in range(start, stop):
        if column < 0 or data[column, row] != NULL:
            count = acc[groups[row - start], offset]
            added = count + diff[row * step]
            wrapped |= (count ^ added) & (diff[row * step] ^ added)
            acc[groups[row - start], offset] = added
    return wrapped < 0


@device
def add_sums(data, column, start, stop, diff, groups, offset, acc):
    """Add a block of rows to one exact sum."""
    if diff.shape[0] == 1 and diff[0] == 1:
        for row in range(start, stop):
            word = data[column, row]
            if word != NULL:
                group = groups[row - start]
                acc[group, offset] += 1
                total = acc[group, offset + 1] + word
                carry = 1 if (total ^ NULL) < (word ^ NULL) else 0
                acc[group, offset + 1] = total
                acc[group, offset + 2] += (word >> 63) + carry
        return
    step = 0 if diff.shape[0] == 1 else 1
    for row in range(start, stop):
        word = data[column, row]
        if word != NULL:
            acc[groups[row - start], offset] += diff[row * step]
            add128(acc, groups[row - start], offset + 1, word, diff[row * step])


@device
def add_block(data, start, stop, diff, groups, base, acc, spec):
    """Add a block of rows, whose groups are known, one aggregate after the other.

    Returns whether the count of a group's rows came not to fit 64 bits.
    """
    overflow = add_counts(data, -1, start, stop, diff, groups, base, acc)
    step = 0 if diff.shape[0] == 1 else 1
    for s in range(spec.shape[0]):
        offset = base + spec[s, 2]
        column = spec[s, 1]
        if spec[s, 0] == COUNT:
            add_counts(data, column, start, stop, diff, groups, offset, acc)
        elif spec[s, 0] == SUM:
            add_sums(data, column, start, stop, diff, groups, offset, acc)
        else:
            for row in range(start, stop):
                word = data[column, row]
                if word != NULL:
                    acc[groups[row - start], offset] += diff[row * step]
                    add_double(acc, groups[row - start], offset + 1, word, diff[row * step])
    return overflow


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


@kernel(
    "void(int64[:, ::1], int64[::1], int64, int64, int64, int64[:, ::1], int64[::1], int64[:, ::1], int64,"
    " int64[::1], int64[::1], int64[:, ::1], int64[::1])"
)
def accumulate(data, diff, first, last, nk, spec, slots, rows, marker, free, touched, old, state):
    """Add rows ``first .. last``, which bear one time; entries record the groups touched since ``marker``."""
    mask = slots.shape[0] - 1
    homes = np.empty(BLOCK, np.int64)
    groups = np.empty(BLOCK, np.int64)
    natural = np.empty(0, np.int64)
    for start in range(first, last, BLOCK):
        stop = min(start + BLOCK, last)
        state[4] ^= prefetch(data, natural, start, stop, nk, slots, rows, homes, groups)
        for row in range(start, stop):
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
        if add_block(data, start, stop, diff, groups, 1 + nk, rows, spec):
            state[OVERFLOW] = 1


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
    first = state[2]
    for i in range(n):
        if i % BLOCK == 0:
            state[4] ^= prefetch(data, order, i, min(i + BLOCK, n), nk, slots, rows, homes, groups)
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
            for entry in range(first, state[2]):
                when[entry] = row
                for a in range(new.shape[1]):
                    new[entry, a] = rows[touched[entry], 1 + nk + a]
            first = state[2]
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
    return double_word(row, offset + 1)


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


@kernel("void(int64[::1], int64, int64[:, ::1], int64, int64[::1], int64[:, ::1], int64[::1], int64[::1])")
def purge(touched, entries, spec, nk, slots, rows, free, state):
    """Forget the touched groups whose accumulators are all zero."""
    for entry in range(entries):
        group = touched[entry]
        if rows[group, 1 + nk] != 0 or rows[group, 0] < 0 or not is_zero(rows, group, 1 + nk, spec):
            continue
        remove_slot(group, nk, slots, rows)
        rows[group, 0] = -1
        free[state[1]] = group
        state[1] += 1
        state[3] -= 1
