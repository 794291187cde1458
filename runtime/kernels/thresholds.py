"""The kernel that evaluates a distinct or threshold of a history table; ``differences`` says what a key owes.

Most keys of most rounds need less than that: one that is new in the step, or that has few records and one
coordinate of rounds, is evaluated in one pass over its records.
"""

import numpy as np

from kpg.runtime.kernels import device, inlined, kernel
from kpg.runtime.kernels.differences import (
    FIRST_ROOM,
    MOST,
    count_records,
    gather,
    mask_of,
    odd,
    owe,
)
from kpg.runtime.kernels.historytable import (
    COLUMNS,
    CURRENT,
    ENTRIES,
    FIRST_EPOCH,
    LAST_EPOCH,
    MIXED,
    OWED,
    SINK,
    bits_of,
    current_of,
    keys_of,
    records_of,
)

BLOCK = 64  # keys whose records are read side by side
FEW = 32  # records of a key up to which they are sorted as they come


@device
def bounded(count, distinct):
    """The output's multiplicity."""
    if count <= 0:
        return np.int64(0)
    return np.int64(1) if distinct == 1 else count


@device
def capped(count, cap):
    """A multiplicity that is not negative, nor above ``cap``."""
    return min(max(count, 0), cap)


@device
def alternating(sums, distinct):
    """The mixed difference over round coordinates, of counts given by mask."""
    total = np.int64(0)
    for corner in range(sums.shape[0]):
        count = np.int64(0)
        for mask in range(sums.shape[0]):
            if mask & corner == 0:
                count += sums[mask]
        count = bounded(count, distinct)
        total += -count if odd(corner) else count
    return total


@device
def alters(old, new, entries, committed, n, distinct):
    """Whether any epoch's contribution changes where the committed count goes from ``old`` to ``new``.

    ``entries[committed:n]`` are the step's, with counts instead of links.
    """
    prefix = np.int64(0)
    before = bounded(new, distinct) - bounded(old, distinct)
    for i in range(committed, n):
        prefix += entries[i, 2]
        if i + 1 == n or entries[i + 1, 0] != entries[i, 0]:
            after = bounded(new + prefix, distinct) - bounded(old + prefix, distinct)
            if before != after:
                return True
            before = after
    return False


@device
def chain_counts(current, start, n, base, present, keys, records, links, totals, here):
    """The counts, up to round ``present`` and at it, of n keys if they are new in a step of one epoch.

    Their chains are followed side by side, so that the misses overlap.
    """
    going = False
    for i in range(n):
        number = current[start + i]
        links[i] = keys[number, 0] if keys[number, base] >= 0 else 0
        totals[i] = keys[number, base + 2]
        here[i] = totals[i] if keys[number, base + 1] == present else 0
        going = going or links[i] > 0
    while going:
        going = False
        for i in range(n):
            link = links[i]
            if link > 0:
                count = records[link - 1, 3]
                totals[i] += count
                if records[link - 1, 2] == present:
                    here[i] += count
                links[i] = records[link - 1, 0]
                going = going or links[i] > 0


@device
def touch_chains(current, start, n, keys, records, links):
    """Read the records of n keys side by side, so that the misses overlap."""
    going = False
    sink = np.int64(0)
    for i in range(n):
        links[i] = keys[current[start + i], 0]
        going = going or links[i] > 0
    while going:
        going = False
        for i in range(n):
            if links[i] > 0:
                link = links[i]
                links[i] = records[link - 1, 0]
                sink ^= records[link - 1, records.shape[1] - 1]
                going = going or links[i] > 0
    return sink


@device
def next_change(number, base, rounds, keys, records, old, entries, committed, n, distinct):
    """The least later round at which the step alters the key's output; -1 if there is none. For one round."""
    if keys[number, base] < 0 and keys[number, base + 1] > rounds[0]:
        new = old + keys[number, base + 2]
        if alters(old, new, entries, committed, n, distinct):
            return keys[number, base + 1]
        old = new
    link = keys[number, 0]
    while link > 0:
        if records[link - 1, 1] < 0 and records[link - 1, 2] > rounds[0]:
            new = old + records[link - 1, 3]
            if alters(old, new, entries, committed, n, distinct):
                return records[link - 1, 2]
            old = new
        link = records[link - 1, 0]
    return np.int64(-1)


@device
def owe_change(number, base, rounds, keys, records, entries, found, distinct, owed, n_owed):
    """Owe an evaluation at the least later round at which the step alters the key's output. For one round.

    ``entries`` are as ``by_corners`` leaves them. Returns the number of evaluations owed.
    """
    old = np.int64(0)
    committed = 0
    moved = False
    for i in range(found):
        if entries[i, 0] < 0:
            old += entries[i, 2]
            committed = i + 1
        else:
            moved = moved or entries[i, 2] != 0
    if moved:
        later = next_change(number, base, rounds, keys, records, old, entries, committed, found, distinct)
        if later >= 0:
            owed[0, n_owed] = number
            owed[1, n_owed] = later
            n_owed += 1
    return n_owed


@inlined
def write_update(out, n, number, nk, keys, rounds, epoch, diff):
    """The n-th update, unless its diff is 0: key, time, diff in the rows of ``out``. Returns how many."""
    if diff == 0:
        return n
    for c in range(nk):
        out[c, n] = keys[number, 1 + c]
    out[nk, n] = epoch
    for c in range(rounds.shape[0]):
        out[nk + 1 + c, n] = rounds[c]
    out[nk + 1 + rounds.shape[0], n] = diff
    return n + 1


@inlined
def in_one_pass(number, nk, rounds, keys, records, few, distinct, out, n):
    """The updates of a key of few records, for one round: how many there are then, -1 if that cannot be.

    It cannot if the step changes what is at later rounds too: an evaluation may be owed.
    """
    base, present = 1 + nk, rounds[0]
    cap = np.int64(1) if distinct == 1 else MOST
    below, level = np.int64(0), np.int64(0)
    m = 0
    moved, ahead_of = False, False
    link = np.int64(0)
    while m < FEW:
        if link == 0:
            epoch, at, count = keys[number, base], keys[number, base + 1], keys[number, base + 2]
            following = keys[number, 0]
        else:
            epoch, at, count = records[link - 1, 1], records[link - 1, 2], records[link - 1, 3]
            following = records[link - 1, 0]
        if at > present:
            ahead_of = ahead_of or epoch < 0
            if epoch < 0 and link > 0:
                following = np.int64(0)  # committed records are in order of rounds
        elif epoch >= 0:
            j = m
            while j > 0 and few[j - 1, 0] < epoch:
                few[j, 0], few[j, 1], few[j, 2] = few[j - 1, 0], few[j - 1, 1], few[j - 1, 2]
                j -= 1
            few[j, 0], few[j, 1], few[j, 2] = epoch, at, count
            m += 1
            moved = moved or count != 0
        elif at == present:
            level += count
        else:
            below += count
        link = following
        if link == 0:
            break
    if link != 0 or m == FEW or (moved and ahead_of):
        return -1
    before = capped(below + level, cap) - capped(below, cap)
    for j in range(m - 1, -1, -1):
        if few[j, 1] == present:
            level += few[j, 2]
        else:
            below += few[j, 2]
        if j == 0 or few[j - 1, 0] != few[j, 0]:
            after = capped(below + level, cap) - capped(below, cap)
            n = write_update(out, n, number, nk, keys, rounds, few[j, 0], after - before)
            before = after
    return n


@device
def by_corners(number, nk, rounds, keys, records, entries, found, distinct, sums, out, n):
    """The updates of a key from its records up to ``rounds``, as ``gather`` has them; how many there are.

    In ``entries`` counts take the place of links.
    """
    base = 1 + nk
    sums[:] = 0
    committed = 0
    for i in range(found):
        link = entries[i, 2]
        if link == 0:
            entries[i, 2] = keys[number, base + 1 + rounds.shape[0]]
        else:
            entries[i, 2] = records[link - 1, 2 + rounds.shape[0]]
        if entries[i, 0] < 0:
            sums[entries[i, 1]] += entries[i, 2]
            committed = i + 1
    before = alternating(sums, distinct)
    for i in range(committed, found):
        sums[entries[i, 1]] += entries[i, 2]
        if i + 1 == found or entries[i + 1, 0] != entries[i, 0]:
            after = alternating(sums, distinct)
            n = write_update(out, n, number, nk, keys, rounds, entries[i, 0], after - before)
            before = after
    return n


@inlined
def alone(number, nk, rounds, keys, distinct, out, n):
    """The update of a key with one record, which is new in the step; how many updates there are then."""
    if mask_of(keys, number, 1 + nk, rounds) == (1 << rounds.shape[0]) - 1:
        count = bounded(keys[number, 2 + nk + rounds.shape[0]], distinct)
        n = write_update(out, n, number, nk, keys, rounds, keys[number, 1 + nk], count)
    return n


@device
def is_uniform(diff, n):
    """Whether n diffs are equal."""
    differing = np.int64(0)
    for i in range(1, n):
        differing |= diff[i] ^ diff[0]
    return differing == 0


@device
def close_up(out, most, n, columns):
    """Let columns of which n words are in use follow each other without gaps."""
    for c in range(1, columns):
        for i in range(n):
            out[c * n + i] = out[c * most + i]


@kernel("int64(int64[::1], int64, int64[::1], int64[::1], int64[:, ::1])")
def evaluate(rounds, distinct, table, out, owed):
    """The updates at ``rounds`` of the current keys: positive multiplicity, or its sign if ``distinct``.

    Empties ``current``. Returns n, how many there are; ``out`` has room for as many in each column. In it are
    then the key columns, those of the times and that of the diffs, of n words each. ``table[ENTRIES]`` is 1
    if all diffs are equal.
    """
    nk = table[COLUMNS]
    base = 1 + nk
    keys, records, bits, current = keys_of(table), records_of(table), bits_of(table), current_of(table)
    k = rounds.shape[0]
    most = out.shape[0] // (nk + k + 2)
    updates = out.reshape((nk + k + 2, most))
    entries = np.empty((FIRST_ROOM, 3), np.int64)
    times = np.empty((FIRST_ROOM + 1, 1 + k), np.int64)
    sums = np.zeros(1 << k, np.int64)
    n = n_owed = 0
    sink = np.int64(0)
    chain = rounds.shape[0] == 1 and table[FIRST_EPOCH] == table[LAST_EPOCH]
    lasting = chain and distinct == 1 and table[MIXED] == 0
    links, totals, here = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    few = np.empty((FEW, 3), np.int64)
    for position in range(table[CURRENT]):
        number = current[position]
        place = position & (BLOCK - 1)
        if place == 0 and not lasting:
            ahead = min(BLOCK, table[CURRENT] - position)
            if chain:
                chain_counts(current, position, ahead, base, rounds[0], keys, records, links, totals, here)
            else:
                sink ^= touch_chains(current, position, ahead, keys, records, links)
        bits[number >> 6] &= ~(1 << (number & 63))
        new = keys[number, base] >= 0
        if keys[number, 0] == 0:
            if new:
                n = alone(number, nk, rounds, keys, distinct, updates, n)
            continue
        if chain and new:
            if not lasting:
                change = bounded(totals[place], distinct) - bounded(totals[place] - here[place], distinct)
                n = write_update(updates, n, number, nk, keys, rounds, keys[number, base], change)
            continue
        if k == 1:
            done = in_one_pass(number, nk, rounds, keys, records, few, distinct, updates, n)
            if done >= 0:
                n = done
                continue
        size = count_records(number, keys, records)
        if size > entries.shape[0]:
            entries = np.empty((2 * size, 3), np.int64)
            times = np.empty((2 * size + 1, 1 + k), np.int64)
        found = gather(number, base, rounds, keys, records, entries)
        n = by_corners(number, nk, rounds, keys, records, entries, found, distinct, sums, updates, n)
        if rounds.shape[0] > 1:
            n_owed = owe(number, base, rounds, keys, records, times, owed, n_owed)
        else:
            n_owed = owe_change(number, base, rounds, keys, records, entries, found, distinct, owed, n_owed)
    table[CURRENT] = 0
    table[OWED] = n_owed
    table[SINK] ^= sink
    table[ENTRIES] = 1 if is_uniform(updates[nk + k + 1], n) else 0
    if n < most:
        close_up(out, most, n, nk + k + 2)
    return n
