"""Kernels that read from a history table, between steps, in which round rows came to be there.

``historytable`` has its layout, here for times (epoch, round).
"""

import numpy as np

from kpg.runtime.kernels import device, kernel
from kpg.runtime.kernels.historytable import COLUMNS, FREE, KEYS, keys_of, records_of, slots_of
from kpg.runtime.kernels.limbs import LOW


@device
def hash_row(rows, row, width):
    """As ``history.find_block`` hashes keys."""
    h = np.uint64(0x9E3779B97F4A7C15)
    for c in range(width):
        h = (h ^ np.uint64(rows[c, row])) * np.uint64(0xFF51AFD7ED558CCD)
        h ^= h >> np.uint64(32)
    return np.int64(h & np.uint64(LOW))


@device
def first_round(number, nk, keys, records, gone):
    """The first round at which the key has a positive count; -1 if it has none over all rounds, unless
    ``gone`` ones are wanted too.
    """
    count = keys[number, 3 + nk]
    first = keys[number, 2 + nk] if count > 0 else -1
    link = keys[number, 0]
    while link > 0:
        count += records[link - 1, 3]
        if first < 0 and count > 0:
            first = records[link - 1, 2]
        link = records[link - 1, 0]
    return first if count > 0 or gone else -1


@kernel("void(int64[:, ::1], int64[::1], int64, int64[::1])")
def find(rows, table, gone, ranks):
    """The first round of each of ``rows[nk, n]``, -1 for one that is not there (``gone``: never was)."""
    nk = rows.shape[0]
    slots, keys, records = slots_of(table), keys_of(table), records_of(table)
    mask = slots.shape[0] - 1
    for row in range(rows.shape[1]):
        ranks[row] = -1
        tag = hash_row(rows, row, nk)
        slot = tag & mask
        while slots[slot] != 0:
            if (slots[slot] >> 32) & LOW == tag:
                number = (slots[slot] & LOW) - 1
                same = True
                for c in range(nk):
                    same = same and keys[number, 1 + c] == rows[c, row]
                if same:
                    ranks[row] = first_round(number, nk, keys, records, gone)
                    break
            slot = (slot + 1) & mask


@kernel("int64(int64[::1], int64, int64[:, ::1], int64[::1])")
def every(table, gone, rows, ranks):
    """The keys that are there (``gone``: ever were), as ``rows[nk, n]``, and their ranks; how many."""
    nk, keys, records = table[COLUMNS], keys_of(table), records_of(table)
    n = 0
    for number in range(table[KEYS]):
        if keys[number, 1 + nk] == FREE:
            continue
        rank = first_round(number, nk, keys, records, gone)
        if rank >= 0:
            for c in range(nk):
                rows[c, n] = keys[number, 1 + c]
            ranks[n] = rank
            n += 1
    return n
