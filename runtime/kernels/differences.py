"""Kernels that read a history table (``historytable`` has its layout): what keys owe at given rounds.

At time (e, R) a key owes the mixed difference of its output over the unit cube below: the sum over the
*corners* c, sets of round coordinates, of (-1)**|c| times the output at (e, R - c) less that at any earlier
epoch. A record with rounds h <= R counts at corner c unless h[i] == R[i] for an i in c; the i with
h[i] == R[i] are the record's *mask*.

An evaluated key also owes an evaluation at the least upper bounds of R with other records' rounds. The next
of them in lexicographic order is enough, because the key will then be evaluated again. It is written to
``owed int64[1 + k, n]``: key, rounds.
"""

import numpy as np

from kpg.runtime.kernels import device, inlined, kernel
from kpg.runtime.kernels.accumulators import NULL, add_words
from kpg.runtime.kernels.historytable import (
    ABSENT,
    COLUMNS,
    CURRENT,
    ENTRIES,
    FREE,
    KEYS,
    OWED,
    ROUNDS,
    bits_of,
    current_of,
    keys_of,
    records_of,
    spec_of,
)

MOST = 2**63 - 1
FIRST_ROOM = 16  # records of a key for which there is room at first; for more it is made


@inlined
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
def count_records(number, keys, records):
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
def owe(number, base, rounds, keys, records, times, owed, n_owed):
    """Owe an evaluation at the next bound. Returns the number of evaluations owed.

    ``times int64[rows, 1 + k]`` has room for one row more than the key has records.
    """
    point = times[times.shape[0] - 1]
    n = load_times(number, base, rounds.shape[0], keys, records, times)
    if next_bound(times, n, rounds, point):
        owed[0, n_owed] = number
        for c in range(rounds.shape[0]):
            owed[1 + c, n_owed] = point[c]
        n_owed += 1
    return n_owed


@device
def add_record(acc, number, base, rounds, mask, link, keys, records, spec):
    """Add a record's accumulators at each corner where it counts."""
    for corner in range(acc.shape[0]):
        if mask & corner == 0:
            if link == 0:
                add_words(acc, corner, 0, keys, number, base + 1 + rounds, spec)
            else:
                add_words(acc, corner, 0, records, link - 1, 2 + rounds, spec)


@device
def write_pairs(number, epoch, absent, before, acc, n, entries, sides):
    """An entry for each corner at which an epoch changes the accumulators. Returns the number of entries.

    At an odd corner what is new is retracted, so old and new change places.
    """
    room = entries.shape[1]
    for corner in range(acc.shape[0]):
        differs = absent and corner == 0
        for word in range(acc.shape[1]):
            differs = differs or acc[corner, word] != before[corner, word]
        if differs:
            swap = odd(corner)
            for word in range(acc.shape[1]):
                sides[n, word] = acc[corner, word] if swap else before[corner, word]
                sides[room + n, word] = before[corner, word] if swap else acc[corner, word]
            if absent and corner == 0:
                sides[n, 0] = NULL
            entries[0, n], entries[1, n] = number, epoch
            n += 1
    return n


@kernel("int64(int64[::1], int64, int64[::1], int64[:, ::1], int64[:, ::1], int64[:, ::1])")
def corners(rounds, first, table, entries, sides, owed):
    """Accumulators before and after each epoch, at each corner below ``rounds``, of the current keys.

    Starts at position ``first``. ``entries int64[2, capacity]`` are key and epoch, those of one key and epoch
    adjacent; ``sides int64[2 * capacity, words]`` the accumulators before, then those after. If
    ``table[ABSENT]``, the output did not exist before. Returns the position of the first key for which there
    was no room, or empties ``current`` and returns its length; ``table[ENTRIES]`` entries are written.
    """
    base, k = 1 + table[COLUMNS], rounds.shape[0]
    keys, records, spec = keys_of(table), records_of(table), spec_of(table)
    bits, current = bits_of(table), current_of(table)
    acc = np.empty((1 << k, sides.shape[1]), np.int64)
    before = np.empty((1 << k, sides.shape[1]), np.int64)
    found = np.empty((FIRST_ROOM, 3), np.int64)
    times = np.empty((FIRST_ROOM + 1, 1 + k), np.int64)
    n, n_owed = 0, table[OWED]
    position = first
    while position < table[CURRENT]:
        number = current[position]
        size = count_records(number, keys, records)
        if size > found.shape[0]:
            found = np.empty((2 * size, 3), np.int64)
            times = np.empty((2 * size + 1, 1 + k), np.int64)
        end = gather(number, base, rounds, keys, records, found)
        acc[:] = 0
        i = 0
        while i < end and found[i, 0] < 0:
            add_record(acc, number, base, k, found[i, 1], found[i, 2], keys, records, spec)
            i += 1
        if n + ((end - i) << k) > entries.shape[1]:
            break
        changed = False
        while i < end:
            before[:] = acc
            epoch = found[i, 0]
            while i < end and found[i, 0] == epoch:
                add_record(acc, number, base, k, found[i, 1], found[i, 2], keys, records, spec)
                i += 1
            for word in range(acc.shape[1]):
                changed = changed or acc[0, word] != before[0, word]
            n = write_pairs(number, epoch, table[ABSENT] != 0, before, acc, n, entries, sides)
        if size > 1 and (changed or k > 1):
            n_owed = owe(number, base, rounds, keys, records, times, owed, n_owed)
        bits[number >> 6] &= ~(1 << (number & 63))
        position += 1
    if position == table[CURRENT]:
        table[CURRENT] = 0
    table[ENTRIES], table[OWED] = n, n_owed
    return position


@kernel("int64(int64[:, ::1], int64[::1], int64[::1], int64[:, ::1], int64, int64[::1])")
def cancel(out, diff, entry, entries, n, epochs):
    """Add up equal rows of one key and epoch, among the first n; those of a key and epoch are adjacent.

    ``entries[:, entry[row]]`` are a row's key and epoch. Returns the number of rows that remain, in place;
    their epochs are written to ``epochs``.
    """
    kept = 0
    start = 0
    while start < n:
        number = entries[0, entry[start]]
        epoch = entries[1, entry[start]]
        begin = kept
        row = start
        while row < n and entries[0, entry[row]] == number and entries[1, entry[row]] == epoch:
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


@kernel("int64(int64, int64, int64[::1], int64[::1], int64[:, ::1])")
def totals(first, last, table, numbers, acc):
    """The accumulators over all times of the keys in ``first .. last`` that are in use; returns how many."""
    nk, rounds = table[COLUMNS], table[ROUNDS]
    keys, records, spec = keys_of(table), records_of(table), spec_of(table)
    n = 0
    for number in range(first, last):
        if keys[number, 1 + nk] == FREE:
            continue
        numbers[n] = number
        acc[n] = 0
        add_words(acc, n, 0, keys, number, 2 + nk + rounds, spec)
        link = keys[number, 0]
        while link > 0:
            add_words(acc, n, 0, records, link - 1, 2 + rounds, spec)
            link = records[link - 1, 0]
        n += 1
    return n


@kernel("float64(int64[::1])")
def most_rows(table):
    """The largest sum, over the records of one key, of absolute row counts."""
    nk, rounds = table[COLUMNS], table[ROUNDS]
    keys, records = keys_of(table), records_of(table)
    most = 0.0
    for number in range(table[KEYS]):
        if keys[number, 1 + nk] == FREE:
            continue
        total = abs(np.float64(keys[number, 2 + nk + rounds]))
        link = keys[number, 0]
        while link > 0:
            total += abs(np.float64(records[link - 1, 2 + rounds]))
            link = records[link - 1, 0]
        most = max(most, total)
    return most
