"""Kernels over a group table: accumulators per group key, found through an open-addressing hash table.

The table is a set of arrays: ``slots int64[capacity]`` (group number + 1, or 0), ``keys int64[groups, nk]``,
``acc int64[groups, na]`` and ``stamp int64[groups]`` (when the group was last touched). ``acc[g, 0]`` counts
the group's rows; each aggregate has words of its own from its offset in ``spec int64[naggs, 3]``
(kind, operand column or -1 for none, offset):

* COUNT: non-NULL operands;
* SUM: non-NULL operands, then the 128-bit sum (low word, high word);
* SUM_DOUBLE: non-NULL operands, NaNs, +infinities, -infinities, then 68 limbs of 32 bits of an exact
  fixed-point sum from 2**-1074 up (Kulisch's accumulator), so that retraction is exact.

``state int64[4]``: groups allotted, free group numbers, entries, live groups.
"""

import math

import numpy as np

from kpg.runtime.kernels import device, kernel

COUNT = 0
SUM = 1
SUM_DOUBLE = 2
LIMBS = 68
SUM_DOUBLE_WORDS = LIMBS + 4
NULL = -(2**63)
ERROR = NULL + 1
LOW = 0xFFFFFFFF
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
def hash_key(keys, group, width):
    h = np.uint64(0x9E3779B97F4A7C15)
    for c in range(width):
        h = (h ^ np.uint64(keys[group, c])) * np.uint64(0xFF51AFD7ED558CCD)
        h ^= h >> np.uint64(32)
    return np.int64(h & np.uint64(0x7FFFFFFFFFFFFFFF))


@device
def find_group(data, row, nk, slots, keys, acc, stamp, free, state):
    """The row's group, allotted with zero accumulators if it is new."""
    mask = slots.shape[0] - 1
    slot = hash_row(data, row, nk) & mask
    while True:
        group = slots[slot] - 1
        if group < 0:
            break
        same = True
        for c in range(nk):
            if keys[group, c] != data[c, row]:
                same = False
                break
        if same:
            return group
        slot = (slot + 1) & mask
    if state[1] > 0:
        state[1] -= 1
        group = free[state[1]]
    else:
        group = state[0]
        state[0] += 1
    state[3] += 1
    slots[slot] = group + 1
    for c in range(nk):
        keys[group, c] = data[c, row]
    for a in range(acc.shape[1]):
        acc[group, a] = 0
    stamp[group] = 0
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
    sign = diff if bits >= 0 else -diff
    position = exponent - 1
    limb = position >> 5
    shift = position & 31
    a = (mantissa & LOW) << shift
    b = (mantissa >> 32) << shift
    base = offset + 3
    add_limb(acc, group, base, limb, (a & LOW) * sign)
    add_limb(acc, group, base, limb + 1, ((a >> 32) + (b & LOW)) * sign)
    add_limb(acc, group, base, limb + 2, (b >> 32) * sign)


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
def touch(group, marker, stamp, acc, touched, old, state):
    """Remember the accumulators of a group at its first touch since ``marker``."""
    if stamp[group] != marker:
        stamp[group] = marker
        entry = state[2]
        touched[entry] = group
        for a in range(acc.shape[1]):
            old[entry, a] = acc[group, a]
        state[2] = entry + 1


@device
def add_row(data, row, diff, group, acc, spec):
    """Add one row, ``diff`` times, to its group's accumulators."""
    acc[group, 0] += diff
    for s in range(spec.shape[0]):
        offset = spec[s, 2]
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


@kernel(
    "void(int64[:, ::1], int64[::1], int64, int64[:, ::1], int64[::1], int64[:, ::1], int64[:, ::1],"
    " int64[::1], int64, int64[::1], int64[::1], int64[:, ::1], int64[::1])"
)
def accumulate(data, diff, nk, spec, slots, keys, acc, stamp, marker, free, touched, old, state):
    """Add all rows, which bear one time; entries record the groups touched since ``marker``."""
    step = 0 if diff.shape[0] == 1 else 1
    for row in range(data.shape[1]):
        group = find_group(data, row, nk, slots, keys, acc, stamp, free, state)
        touch(group, marker, stamp, acc, touched, old, state)
        add_row(data, row, diff[row * step], group, acc, spec)


@kernel(
    "int64(int64[:, ::1], int64[:, ::1], int64[::1], int64[::1], int64, int64[:, ::1], int64[::1],"
    " int64[:, ::1], int64[:, ::1], int64[::1], int64, int64[::1], int64[::1], int64[:, ::1], int64[:, ::1],"
    " int64[::1], int64[::1])"
)
def accumulate_times(
    data, time, diff, order, nk, spec, slots, keys, acc, stamp, marker, free, touched, old, new, when, state
):
    """Add rows in the ``order`` of their times; an entry for each (group, time) touched.

    ``when[entry]`` is a row with the entry's time. Returns the next unused marker.
    """
    step = 0 if diff.shape[0] == 1 else 1
    n = data.shape[1]
    start = state[2]
    for i in range(n):
        row = order[i]
        group = find_group(data, row, nk, slots, keys, acc, stamp, free, state)
        touch(group, marker, stamp, acc, touched, old, state)
        add_row(data, row, diff[row * step], group, acc, spec)
        last = i + 1 == n
        if not last:
            for c in range(time.shape[0]):
                if time[c, row] != time[c, order[i + 1]]:
                    last = True
        if last:
            for entry in range(start, state[2]):
                when[entry] = row
                for a in range(acc.shape[1]):
                    new[entry, a] = acc[touched[entry], a]
            start = state[2]
            marker += 1
    return marker


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
def emit(touched, old, new, entries, keys, nk, spec, out, out_diff, out_entry):
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
                    out[c, n] = keys[touched[entry], c]
                out_diff[n] = 2 * which - 1
                out_entry[n] = entry
                n += 1
    return n


@kernel(
    "int64(int64[::1], int64[:, ::1], int64[:, ::1], int64, int64[:, ::1], int64, int64, int64[:, ::1],"
    " int64[::1], int64[::1])"
)
def emit_threshold(touched, old, new, entries, keys, nk, distinct, out, out_diff, out_entry):
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
                out[c, n] = keys[touched[entry], c]
            out_diff[n] = after - before
            out_entry[n] = entry
            n += 1
    return n


@kernel("void(int64[::1], int64[::1], int64[:, ::1], int64)")
def rebuild(source, slots, keys, nk):
    """Insert every group listed in ``source`` into the larger, empty ``slots``."""
    mask = slots.shape[0] - 1
    for i in range(source.shape[0]):
        if source[i] != 0:
            slot = hash_key(keys, source[i] - 1, nk) & mask
            while slots[slot] != 0:
                slot = (slot + 1) & mask
            slots[slot] = source[i]


@device
def is_zero(acc, group, spec):
    """Whether every accumulator of a group is zero, so that it can be forgotten."""
    if acc[group, 0] != 0:
        return False
    limbs = np.empty(LIMBS, np.int64)
    for s in range(spec.shape[0]):
        offset = spec[s, 2]
        if acc[group, offset] != 0:
            return False
        if spec[s, 0] == SUM and (acc[group, offset + 1] != 0 or acc[group, offset + 2] != 0):
            return False
        if spec[s, 0] == SUM_DOUBLE:
            for special in range(3):
                if acc[group, offset + 1 + special] != 0:
                    return False
            if limbs_value(acc[group], offset + 4, limbs) != 0:
                return False
    return True


@kernel(
    "void(int64[::1], int64, int64[:, ::1], int64, int64[::1], int64[:, ::1], int64[:, ::1], int64[::1],"
    " int64[::1], int64[::1])"
)
def purge(touched, entries, spec, nk, slots, keys, acc, stamp, free, state):
    """Forget the touched groups whose accumulators are all zero (backward-shift deletion)."""
    mask = slots.shape[0] - 1
    for entry in range(entries):
        group = touched[entry]
        if acc[group, 0] != 0 or stamp[group] < 0 or not is_zero(acc, group, spec):
            continue
        slot = hash_key(keys, group, nk) & mask
        while slots[slot] != group + 1:
            slot = (slot + 1) & mask
        hole = slot
        probe = slot
        while True:
            probe = (probe + 1) & mask
            if slots[probe] == 0:
                break
            home = hash_key(keys, slots[probe] - 1, nk) & mask
            if ((probe - home) & mask) >= ((probe - hole) & mask):
                slots[hole] = slots[probe]
                hole = probe
        slots[hole] = 0
        stamp[group] = -1
        free[state[1]] = group
        state[1] += 1
        state[3] -= 1
