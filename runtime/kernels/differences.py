"""Kernels that read a history table (``kernels/history.py`` has its layout): what keys owe at given rounds.

At time (e, R) a key owes the mixed difference of its output over the unit cube below: the sum over the
*corners* c, sets of round coordinates, of (-1)**|c| times the output at (e, R - c) less that at any earlier
epoch. A record with rounds h <= R counts at corner c unless h[i] == R[i] for an i in c; the i with
h[i] == R[i] are the record's *mask*.

An evaluated key also owes an evaluation at the least upper bounds of R with other records' rounds. The next
of them in lexicographic order is enough, because the key will then be evaluated again. It is written to
``owed int64[1 + k, n]``: key, rounds.
"""

import numpy as np

from kpg.runtime.kernels import device, kernel

COUNT = 0
SUM = 1
LIMBS = 68
NULL = -(2**63)
LOW = 0xFFFFFFFF
MOST = 2**63 - 1
FREE = -2
BLOCK = 64  # entries that are read ahead, so that their cache misses overlap
FEW = 32  # records of a key that are added up without calls

CURRENT, STEP_RECORDS, FIRST_EPOCH, LAST_EPOCH, MIXED, ENTRIES, OWED, SINK = range(7, 15)


@device
def mask_of(acc, index, base, rounds):
    """The coordinates in which the record's rounds equal ``rounds``, as bits; -1 unless they are <= it."""
    mask = 0
    for c in range(rounds.shape[0]):
        own = acc[index, base + 1 + c]
        if own > rounds[c]:
            return -1
        if own == rounds[c]:
            mask |= 1 << c
    return mask


@device
def odd(corner):
    parity = False
    while corner > 0:
        parity = not parity
        corner &= corner - 1
    return parity


@device
def records_of(number, keys, records):
    """How many records a key has."""
    n = 1
    link = keys[number, 0]
    while link > 0:
        n += 1
        link = records[link - 1, 0]
    return n


@device
def gather(number, base, rounds, keys, records, entries):
    """The key's records up to ``rounds`` into ``entries`` (epoch, mask, link or 0), sorted by epoch."""
    n = 0
    mask = mask_of(keys, number, base, rounds)
    if mask >= 0:
        entries[0, 0], entries[0, 1], entries[0, 2] = keys[number, base], mask, 0
        n = 1
    link = keys[number, 0]
    while link > 0:
        mask = mask_of(records, link - 1, 1, rounds)
        if mask >= 0:
            entries[n, 0], entries[n, 1], entries[n, 2] = records[link - 1, 1], mask, link
            n += 1
        elif rounds.shape[0] == 1 and records[link - 1, 1] < 0:
            break
        link = records[link - 1, 0]
    sort_entries(entries, n)
    return n


@device
def sort_entries(entries, n):
    """Shell sort by epoch."""
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            epoch, mask, link = entries[i, 0], entries[i, 1], entries[i, 2]
            j = i
            while j >= gap and entries[j - gap, 0] > epoch:
                entries[j, 0], entries[j, 1] = entries[j - gap, 0], entries[j - gap, 1]
                entries[j, 2] = entries[j - gap, 2]
                j -= gap
            entries[j, 0], entries[j, 1], entries[j, 2] = epoch, mask, link
        gap //= 3


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
def load_times(number, base, rounds, keys, records, times):
    """Epoch and rounds of all records of a key. Returns how many, 0 if the step's are all zero."""
    words = base + 1 + rounds
    changed = False
    for i in range(rounds + 1):
        times[0, i] = keys[number, base + i]
    if times[0, 0] >= 0:
        for word in range(words, keys.shape[1]):
            changed = changed or keys[number, word] != 0
    n = 1
    link = keys[number, 0]
    while link > 0:
        for i in range(rounds + 1):
            times[n, i] = records[link - 1, 1 + i]
        if times[n, 0] >= 0:
            for word in range(2 + rounds, records.shape[1]):
                changed = changed or records[link - 1, word] != 0
        n += 1
        link = records[link - 1, 0]
    return n if changed else 0


@device
def least(times, n, prefix, fixed, coordinate, above, step):
    """The least round above ``above`` in a coordinate, of records <= ``prefix`` in the ``fixed`` first."""
    found = MOST
    for i in range(n):
        fits = times[i, 1 + coordinate] > above and (not step or times[i, 0] >= 0)
        for c in range(fixed):
            fits = fits and times[i, 1 + c] <= prefix[c]
        if fits:
            found = min(found, times[i, 1 + coordinate])
    return found


@device
def next_bound(times, n, rounds, point):
    """The next least upper bound of records, one of them the step's, into ``point``, if there is one.

    Exact for two rounds; with more it may be a point before that one.
    """
    for pivot in range(rounds.shape[0] - 1, -1, -1):
        value = least(times, n, rounds, pivot, pivot, rounds[pivot], False)
        if value == MOST:
            continue
        for c in range(pivot):
            point[c] = rounds[c]
        point[pivot] = value
        for c in range(pivot + 1, rounds.shape[0]):
            point[c] = MOST
            for i in range(n):
                fits = times[i, 1 + pivot] == value
                for before in range(pivot):
                    fits = fits and times[i, 1 + before] <= rounds[before]
                if fits:
                    point[c] = min(point[c], times[i, 1 + c])
            own = least(times, n, point, pivot + 1, c, -1, True)
            if own < MOST:
                point[c] = max(point[c], own)
        return True
    return False


@device
def owe(number, base, rounds, keys, records, times, point, owed, n_owed):
    """Owe an evaluation at the next bound. Returns the number of evaluations owed."""
    n = load_times(number, base, rounds.shape[0], keys, records, times)
    if next_bound(times, n, rounds, point):
        owed[0, n_owed] = number
        for c in range(rounds.shape[0]):
            owed[1 + c, n_owed] = point[c]
        n_owed += 1
    return n_owed


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
def write_update(out, most, n, number, nk, keys, rounds, epoch, diff):
    """The n-th update: key, time and diff in columns of ``most`` words, one behind the other."""
    for c in range(nk):
        out[c * most + n] = keys[number, 1 + c]
    out[nk * most + n] = epoch
    for c in range(rounds.shape[0]):
        out[(nk + 1 + c) * most + n] = rounds[c]
    out[(nk + 1 + rounds.shape[0]) * most + n] = diff


@device
def close_up(out, most, n, columns):
    """Let columns of which n words are in use follow each other without gaps."""
    for c in range(1, columns):
        for i in range(n):
            out[c * n + i] = out[c * most + i]


@kernel(
    "int64(int64[::1], int64, int64, int64[:, ::1], int64[:, ::1], int64[::1], int64[::1], int64[::1],"
    " int64, int64[:, ::1], int64[::1])"
)
def evaluate_threshold(rounds, distinct, nk, keys, records, bits, current, out, most, owed, state):
    """The updates at ``rounds`` of the current keys: positive multiplicity, or its sign if ``distinct``.

    Empties ``current``. Returns n, how many there are: at most ``most``. In ``out`` are then the ``nk`` key
    columns, those of the times and that of the diffs, of n words each. ``state[ENTRIES]`` is 1 if all diffs
    are equal.
    """
    base = 1 + nk
    corners = 1 << rounds.shape[0]
    sums = np.zeros(corners, np.int64)
    entries = np.empty((16, 3), np.int64)
    times = np.empty((16, 1 + rounds.shape[0]), np.int64)
    point = np.empty(rounds.shape[0], np.int64)
    n = 0
    n_owed = 0
    uniform = True
    first = np.int64(0)
    sink = np.int64(0)
    single = state[FIRST_EPOCH] == state[LAST_EPOCH]
    chain = rounds.shape[0] == 1 and single
    lasting = chain and distinct == 1 and state[MIXED] == 0  # a key that came in the step stays
    links = np.empty(BLOCK, np.int64)
    totals = np.empty(BLOCK, np.int64)
    here = np.empty(BLOCK, np.int64)
    few = np.empty((FEW, 3), np.int64)
    cap = np.int64(1) if distinct == 1 else MOST
    for position in range(state[CURRENT]):
        number = current[position]
        place = position & (BLOCK - 1)
        if place == 0 and not lasting:
            ahead = min(BLOCK, state[CURRENT] - position)
            if chain:
                chain_counts(current, position, ahead, base, rounds[0], keys, records, links, totals, here)
            else:
                sink ^= touch_chains(current, position, ahead, keys, records, links)
        bits[number >> 6] &= ~(1 << (number & 63))
        if keys[number, 0] == 0:
            if keys[number, base] >= 0 and mask_of(keys, number, base, rounds) == corners - 1:
                count = bounded(keys[number, base + 1 + rounds.shape[0]], distinct)
                if count > 0:
                    write_update(out, most, n, number, nk, keys, rounds, keys[number, base], count)
                    first = count if n == 0 else first
                    uniform = uniform and count == first
                    n += 1
            continue
        if lasting and keys[number, base] >= 0:
            continue
        if chain and keys[number, base] >= 0:
            change = bounded(totals[place], distinct) - bounded(totals[place] - here[place], distinct)
            if change != 0:
                write_update(out, most, n, number, nk, keys, rounds, keys[number, base], change)
                first = change if n == 0 else first
                uniform = uniform and change == first
                n += 1
            continue
        if rounds.shape[0] == 1:
            # As below, for one round and few records, with no calls: these count references to each array.
            present = rounds[0]
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
            if link == 0 and m < FEW and not (moved and ahead_of):
                before = capped(below + level, cap) - capped(below, cap)
                for j in range(m - 1, -1, -1):
                    if few[j, 1] == present:
                        level += few[j, 2]
                    else:
                        below += few[j, 2]
                    if j == 0 or few[j - 1, 0] != few[j, 0]:
                        after = capped(below + level, cap) - capped(below, cap)
                        if after != before:
                            for c in range(nk):
                                out[c * most + n] = keys[number, 1 + c]
                            out[nk * most + n] = few[j, 0]
                            out[(nk + 1) * most + n] = present
                            out[(nk + 2) * most + n] = after - before
                            first = after - before if n == 0 else first
                            uniform = uniform and after - before == first
                            n += 1
                            before = after
                continue
        size = records_of(number, keys, records)
        if size > entries.shape[0]:
            entries = np.empty((2 * size, 3), np.int64)
            times = np.empty((2 * size, 1 + rounds.shape[0]), np.int64)
        found = gather(number, base, rounds, keys, records, entries)
        sums[:] = 0
        committed = 0
        moved = False
        for i in range(found):
            link = entries[i, 2]
            if link == 0:
                entries[i, 2] = keys[number, base + 1 + rounds.shape[0]]
            else:
                entries[i, 2] = records[link - 1, 2 + rounds.shape[0]]
            if entries[i, 0] < 0:
                sums[entries[i, 1]] += entries[i, 2]
                committed = i + 1
            else:
                moved = moved or entries[i, 2] != 0
        old = sums.sum()
        before = alternating(sums, distinct)
        for i in range(committed, found):
            sums[entries[i, 1]] += entries[i, 2]
            if i + 1 == found or entries[i + 1, 0] != entries[i, 0]:
                after = alternating(sums, distinct)
                if after != before:
                    write_update(out, most, n, number, nk, keys, rounds, entries[i, 0], after - before)
                    first = after - before if n == 0 else first
                    uniform = uniform and after - before == first
                    n += 1
                before = after
        if rounds.shape[0] > 1:
            n_owed = owe(number, base, rounds, keys, records, times, point, owed, n_owed)
        elif moved:
            later = next_change(number, base, rounds, keys, records, old, entries, committed, found, distinct)
            if later >= 0:
                owed[0, n_owed] = number
                owed[1, n_owed] = later
                n_owed += 1
    if n < most:
        close_up(out, most, n, nk + rounds.shape[0] + 2)
    state[CURRENT] = 0
    state[OWED] = n_owed
    state[SINK] ^= sink
    state[ENTRIES] = 1 if uniform else 0
    return n


@device
def add_limb(acc, index, base, limb, amount):
    """Add to a limb; carry on only when it nears overflow, so that signs may alternate cheaply."""
    acc[index, base + limb] += amount
    while limb + 1 < LIMBS:
        value = acc[index, base + limb]
        if -(1 << 61) < value < (1 << 61):
            break
        acc[index, base + limb] = value & LOW
        acc[index, base + limb + 1] += value >> 32
        limb += 1


@device
def add_words(acc, index, source, other, offset, spec):
    """Add accumulators to accumulators."""
    acc[index, 0] += source[other, offset]
    for s in range(spec.shape[0]):
        at = spec[s, 2]
        of = offset + spec[s, 2]
        acc[index, at] += source[other, of]
        if spec[s, 0] == SUM:
            low = source[other, of + 1]
            total = acc[index, at + 1] + low
            acc[index, at + 1] = total
            acc[index, at + 2] += source[other, of + 2] + (1 if (total ^ NULL) < (low ^ NULL) else 0)
        elif spec[s, 0] != COUNT:
            for special in range(1, 4):
                acc[index, at + special] += source[other, of + special]
            for limb in range(LIMBS):
                if source[other, of + 4 + limb] != 0:
                    add_limb(acc, index, at + 4, limb, source[other, of + 4 + limb])


@device
def add_record(acc, number, base, rounds, mask, link, keys, records, spec):
    """Add a record's accumulators at each corner where it counts."""
    for corner in range(acc.shape[0]):
        if mask & corner == 0:
            if link == 0:
                add_words(acc, corner, keys, number, base + 1 + rounds, spec)
            else:
                add_words(acc, corner, records, link - 1, 2 + rounds, spec)


@device
def write_pairs(number, epoch, absent, before, acc, n, entry_key, entry_epoch, old, new):
    """An entry for each corner at which an epoch changes the accumulators. Returns the number of entries.

    At an odd corner what is new is retracted, so old and new change places.
    """
    for corner in range(acc.shape[0]):
        differs = absent == 1 and corner == 0
        for word in range(acc.shape[1]):
            differs = differs or acc[corner, word] != before[corner, word]
        if differs:
            swap = odd(corner)
            for word in range(acc.shape[1]):
                old[n, word] = acc[corner, word] if swap else before[corner, word]
                new[n, word] = before[corner, word] if swap else acc[corner, word]
            if absent == 1 and corner == 0:
                old[n, 0] = NULL
            entry_key[n] = number
            entry_epoch[n] = epoch
            n += 1
    return n


@kernel(
    "int64(int64[::1], int64, int64, int64, int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[::1],"
    " int64[::1], int64[::1], int64[::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[::1])"
)
def corners(
    rounds, first, absent, nk, spec, keys, records, bits, current, entry_key, entry_epoch, old, new,
    owed, state,
):  # fmt: skip
    """Accumulators before and after each epoch, at each corner below ``rounds``, of the current keys.

    Starts at position ``first``. Pairs of rows for ``groups.emit``, those of one key and epoch adjacent. If
    ``absent``, the output did not exist before. Returns the position of the first key for which there was no
    room, or empties ``current`` and returns its length; ``state[ENTRIES]`` pairs are written.
    """
    base = 1 + nk
    k = rounds.shape[0]
    acc = np.empty((1 << k, old.shape[1]), np.int64)
    before = np.empty((1 << k, old.shape[1]), np.int64)
    entries = np.empty((16, 3), np.int64)
    times = np.empty((16, 1 + k), np.int64)
    point = np.empty(k, np.int64)
    n = 0
    n_owed = state[OWED]
    position = first
    while position < state[CURRENT]:
        number = current[position]
        size = records_of(number, keys, records)
        if size > entries.shape[0]:
            entries = np.empty((2 * size, 3), np.int64)
            times = np.empty((2 * size, 1 + k), np.int64)
        found = gather(number, base, rounds, keys, records, entries)
        acc[:] = 0
        i = 0
        while i < found and entries[i, 0] < 0:
            add_record(acc, number, base, k, entries[i, 1], entries[i, 2], keys, records, spec)
            i += 1
        if n + ((found - i) << k) > old.shape[0]:
            break
        changed = False
        while i < found:
            before[:] = acc
            epoch = entries[i, 0]
            while i < found and entries[i, 0] == epoch:
                add_record(acc, number, base, k, entries[i, 1], entries[i, 2], keys, records, spec)
                i += 1
            for word in range(acc.shape[1]):
                changed = changed or acc[0, word] != before[0, word]
            n = write_pairs(number, epoch, absent, before, acc, n, entry_key, entry_epoch, old, new)
        if size > 1 and (changed or k > 1):
            n_owed = owe(number, base, rounds, keys, records, times, point, owed, n_owed)
        bits[number >> 6] &= ~(1 << (number & 63))
        position += 1
    if position == state[CURRENT]:
        state[CURRENT] = 0
    state[ENTRIES] = n
    state[OWED] = n_owed
    return position


@kernel("int64(int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[::1], int64, int64[::1])")
def cancel(out, diff, entry, entry_key, entry_epoch, n, epochs):
    """Add up equal rows of one key and epoch, among the first n; those of a key and epoch are adjacent.

    Returns the number of rows that remain, in place; their epochs are written to ``epochs``.
    """
    kept = 0
    start = 0
    while start < n:
        number = entry_key[entry[start]]
        epoch = entry_epoch[entry[start]]
        begin = kept
        row = start
        while row < n and entry_key[entry[row]] == number and entry_epoch[entry[row]] == epoch:
            same = begin
            while same < kept:
                equal = True
                for c in range(out.shape[0]):
                    equal = equal and out[c, same] == out[c, row]
                if equal:
                    break
                same += 1
            change = diff[row]
            if same == kept:
                for c in range(out.shape[0]):
                    out[c, kept] = out[c, row]
                diff[kept] = 0
                kept += 1
            diff[same] += change
            row += 1
        end = kept
        kept = begin
        for same in range(begin, end):
            if diff[same] != 0:
                for c in range(out.shape[0]):
                    out[c, kept] = out[c, same]
                diff[kept] = diff[same]
                epochs[kept] = epoch
                kept += 1
        start = row
    return kept


@kernel(
    "int64(int64, int64, int64, int64, int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[::1],"
    " int64[:, ::1])"
)
def totals(first, last, nk, rounds, spec, keys, records, numbers, acc):
    """The accumulators over all times of the keys in ``first .. last`` that are in use; returns how many."""
    n = 0
    for number in range(first, last):
        if keys[number, 1 + nk] == FREE:
            continue
        numbers[n] = number
        acc[n] = 0
        add_words(acc, n, keys, number, 2 + nk + rounds, spec)
        link = keys[number, 0]
        while link > 0:
            add_words(acc, n, records, link - 1, 2 + rounds, spec)
            link = records[link - 1, 0]
        n += 1
    return n
