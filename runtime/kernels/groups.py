"""Kernels over a group table: accumulators per group key, found through an open-addressing hash table.

The table is two arrays: ``slots int64[capacity]`` (group number + 1, or 0), and
``rows int64[groups, 1 + nk + na]``: when the group was last touched, its key, and its accumulators, so
that a group is one place in memory. The probe is written out in the loops that use it, because a call
with arrays costs reference counting, many times the probe's own cost.
The first accumulator counts the group's rows; each aggregate has words of its own from its offset among
the accumulators, in ``spec int64[naggs, 3]`` (kind, operand column or -1 for none, offset):

* COUNT: non-NULL operands;
* SUM: non-NULL operands, then the 128-bit sum (low word, high word);
* SUM_DOUBLE: non-NULL operands, NaNs, +infinities, -infinities, then 68 limbs of 32 bits of an exact
  fixed-point sum from 2**-1074 up (Kulisch's accumulator), so that retraction is exact.

``state int64[6]``: groups allotted, free group numbers, entries, live groups, a sink for prefetches, and, at
``OVERFLOW``, whether the rows of a group came to be more than 64 bits can count.
"""

import math

import numpy as np

from kpg.runtime.kernels import device, kernel

COUNT = 0
SUM = 1
SUM_DOUBLE = 2
LIMBS = 68  # of 32 bits: the 2,098 bits of all doubles, and 63 for sums of as many as there can be
SUM_DOUBLE_WORDS = LIMBS + 4
NULL = -(2**63)
ERROR = NULL + 1
LOW = 0xFFFFFFFF
MOST_AMOUNT = 1 << 28  # products of 33 bits with it are added to limbs
BLOCK = 64  # rows whose groups are read ahead, so that their cache misses overlap
OVERFLOW = 5
NAN_WORD = 0x7FF8000000000000
FLIP = 0x7FFFFFFFFFFFFFFF


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
def add128(acc, group, offset, value, diff):
    """Add value * diff to the 128-bit sum at (offset, offset + 1)."""
    if diff == 1 or diff == -1:
        low = value * diff
        high = low >> 63
    else:
        negative = (value < 0) != (diff < 0)
        a = np.uint64(abs(value))
        b = np.uint64(abs(diff))
        mask = np.uint64(LOW)
        half = np.uint64(32)
        a0, a1, b0, b1 = a & mask, a >> half, b & mask, b >> half
        p00, p01, p10, p11 = a0 * b0, a0 * b1, a1 * b0, a1 * b1
        middle = (p00 >> half) + (p01 & mask) + (p10 & mask)
        ulow = (p00 & mask) | (middle << half)
        uhigh = p11 + (p01 >> half) + (p10 >> half) + (middle >> half)
        low = np.int64(ulow)
        high = np.int64(uhigh)
        if negative:
            high = ~high + (1 if low == 0 else 0)
            low = -low
    total = acc[group, offset] + low
    carry = 1 if (total ^ NULL) < (low ^ NULL) else 0
    acc[group, offset] = total
    acc[group, offset + 1] += high + carry


@device
def add_limb(acc, group, base, limb, amount):
    """Add to a limb; carry on only when it nears overflow, so that signs may alternate cheaply."""
    acc[group, base + limb] += amount
    while limb + 1 < LIMBS:
        value = acc[group, base + limb]
        if -(1 << 61) < value < (1 << 61):
            break
        acc[group, base + limb] = value & LOW
        acc[group, base + limb + 1] += value >> 32
        limb += 1


@device
def add_mantissa(acc, group, base, position, mantissa, amount):
    """Add mantissa * amount * 2**position, where amount is at most ``MOST_AMOUNT`` either way."""
    limb = position >> 5
    shift = position & 31
    a = (mantissa & LOW) << shift
    b = (mantissa >> 32) << shift
    add_limb(acc, group, base, limb, (a & LOW) * amount)
    add_limb(acc, group, base, limb + 1, ((a >> 32) + (b & LOW)) * amount)
    add_limb(acc, group, base, limb + 2, (b >> 32) * amount)


@device
def add_double(acc, group, offset, word, diff):
    """Add the double behind ``word``, times diff, exactly."""
    bits = word if word >= 0 else word ^ FLIP
    exponent = (bits >> 52) & 0x7FF
    mantissa = bits & 0xFFFFFFFFFFFFF
    if exponent == 0x7FF:
        which = 0 if mantissa != 0 else (1 if bits >= 0 else 2)
        acc[group, offset + which] += diff
        return
    if exponent > 0:
        mantissa |= 1 << 52
    else:
        exponent = 1
    amount = diff if bits >= 0 else -diff
    position = exponent - 1
    while not -MOST_AMOUNT <= amount <= MOST_AMOUNT:
        add_mantissa(acc, group, offset + 3, position, mantissa, amount & 0xFFFF)
        amount >>= 16
        position += 16
    add_mantissa(acc, group, offset + 3, position, mantissa, amount)


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
def add_row(data, row, diff, group, base, acc, spec):
    """Add one row, ``diff`` times, to its group's accumulators, which start at column ``base``."""
    acc[group, base] += diff
    for s in range(spec.shape[0]):
        offset = base + spec[s, 2]
        if spec[s, 1] < 0:
            acc[group, offset] += diff
            continue
        word = data[spec[s, 1], row]
        if word == NULL:
            continue
        acc[group, offset] += diff
        if spec[s, 0] == SUM:
            add128(acc, group, offset + 1, word, diff)
        elif spec[s, 0] == SUM_DOUBLE:
            add_double(acc, group, offset + 1, word, diff)


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
        add_row(data, row, change, group, 1 + nk, rows, spec)
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
def is_zero(row, spec):
    """Whether all accumulators are zero, so that the group can be forgotten."""
    if row[0] != 0:
        return False
    limbs = np.empty(LIMBS, np.int64)
    for s in range(spec.shape[0]):
        offset = spec[s, 2]
        if row[offset] != 0:
            return False
        if spec[s, 0] == SUM and (row[offset + 1] != 0 or row[offset + 2] != 0):
            return False
        if spec[s, 0] == SUM_DOUBLE:
            for special in range(3):
                if row[offset + 1 + special] != 0:
                    return False
            if limbs_value(row, offset + 4, limbs) != 0:
                return False
    return True


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
        if rows[group, 1 + nk] != 0 or rows[group, 0] < 0 or not is_zero(rows[group, 1 + nk :], spec):
            continue
        remove_slot(group, nk, slots, rows)
        rows[group, 0] = -1
        free[state[1]] = group
        state[1] += 1
        state[3] -= 1
