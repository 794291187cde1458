"""Hash indexes over a row store: the unique key index, and the bag of whole rows.

An index is an open-addressing table ``slots int64[2**m]`` with linear probing; a slot is EMPTY, REMOVED
or ``tag << 40 | rowid + 1``. Keys are compared through ``columns``; the 23-bit tag makes it rare that a
key is read in vain. Keys that differ only in the last three bits of their last column share a cache
line, so ascending keys cost an eighth of the cache misses. ``tally[0]`` counts the slots in use or removed.

A bag keeps equal rows in a doubly linked list through ``following`` and ``preceding`` (rowid + 1, 0 for
none); the slot holds its head, so that a million equal rows cost no more than different ones.
"""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import device, kernel

Words = NDArray[np.int64]
Flags = NDArray[np.uint8]

EMPTY = 0
REMOVED = -1
NULL = -(2**63)
ROW_BITS = 40  # 10^12 rows; 24 bits of a slot are left for the key's tag
ROW_MASK = (1 << ROW_BITS) - 1
BLOCK = 128  # keys that are looked for ahead, so that their cache misses overlap


@device
def hash_rows(table: Words, columns: Words, rows: Words, mask: int, homes: Words, tags: Words) -> None:
    """Home position and shifted tag of the keys of some rows; multiply-xorshift on each column."""
    width = columns.shape[0]
    last_column = columns[width - 1]
    for i in range(rows.shape[0]):
        row = rows[i]
        state = np.uint64(0x9E3779B97F4A7C15)
        for j in range(width - 1):
            state = (state ^ np.uint64(table[columns[j], row])) * np.uint64(0xBF58476D1CE4E5B9)
            state ^= state >> np.uint64(32)
        last = table[last_column, row]
        state = (state ^ np.uint64(last >> 3)) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(31))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(29)
        homes[i] = (np.int64(state & np.uint64(ROW_MASK)) << 3 | (last & 7)) & mask
        tags[i] = np.int64(state >> np.uint64(44)) << 43 | (last & 7) << ROW_BITS


@device
def read_homes(slots: Words, homes: Words, tags: Words, table: Words, column: int, scratch: Words) -> None:
    """Read the slots, then the rows, where keys will be looked for, so that the cache misses overlap."""
    for i in range(homes.shape[0]):
        scratch[i] = slots[homes[i]]
    for i in range(homes.shape[0]):
        if scratch[i] >> ROW_BITS == tags[i] >> ROW_BITS:
            scratch[i] = table[column, (scratch[i] & ROW_MASK) - 1]


@device
def slot_of_key(
    slots: Words, columns: Words, key: Words, given: Words, given_key: Words, row: int, home: int, tag: int
) -> tuple[int, int]:
    """Slot of the key of ``given``'s row or -1, and the slot where it would go."""
    mask = slots.shape[0] - 1
    position = home
    free = -1
    while True:
        slot = slots[position]
        if slot == EMPTY:
            return -1, position if free < 0 else free
        if slot == REMOVED:
            if free < 0:
                free = position
        elif slot >> ROW_BITS == tag >> ROW_BITS:
            rowid = (slot & ROW_MASK) - 1
            equal = True
            for k in range(key.shape[0]):
                equal = equal and columns[key[k], rowid] == given[given_key[k], row]
            if equal:
                return position, free
        position = (position + 1) & mask


@device
def slot_of_entry(slots: Words, home: int, entry: int) -> int:
    """Slot that holds an entry which is known to be in the index."""
    mask = slots.shape[0] - 1
    position = home
    while slots[position] != entry:
        position = (position + 1) & mask
    return position


@device
def vacate(slots: Words, tally: Words, position: int) -> None:
    """Free a slot; it and the removed ones before it become empty if the probe sequence ends there."""
    mask = slots.shape[0] - 1
    slots[position] = REMOVED
    if slots[(position + 1) & mask] != EMPTY:
        return
    while slots[position] == REMOVED:
        slots[position] = EMPTY
        tally[0] -= 1
        position = (position - 1) & mask


@device
def occupy(slots: Words, tally: Words, position: int, entry: int) -> None:
    """Write an entry into an empty or removed slot."""
    if slots[position] == EMPTY:
        tally[0] += 1
    slots[position] = entry


@kernel("int64(int64[:, ::1], int64[::1])")
def first_null(words: Words, columns: Words) -> int:
    """``column * n + row`` of the first NULL among the listed columns of ``words[width, n]``, or -1."""
    n = words.shape[1]
    for k in range(columns.shape[0]):
        column = columns[k]
        for i in range(n):
            if words[column, i] == NULL:
                return column * n + i
    return -1


@kernel("int64(int64[:, ::1], uint8[::1], int64[:, ::1], int64)")
def append(columns: Words, live: Flags, words: Words, start: int) -> int:
    """Copy ``words[width, n]`` to rows ``start ..`` and mark them live; returns the end."""
    width, n = words.shape
    for j in range(width):
        for i in range(n):
            columns[j, start + i] = words[j, i]
    for i in range(n):
        live[start + i] = 1
    return start + n


@device
def compare_keys(columns: Words, key: Words, left: int, right: int) -> int:
    """-1, 0 or 1 as the left row's key words come before, equal or follow the right row's."""
    for k in range(key.shape[0]):
        a, b = columns[key[k], left], columns[key[k], right]
        if a != b:
            return -1 if a < b else 1
    return 0


@kernel("int64(int64[:, ::1], int64[::1], int64, int64, int64)")
def ascending(columns: Words, key: Words, highest: int, start: int, end: int) -> int:
    """1 if the keys of rows ``start .. end`` ascend strictly from above row ``highest`` (-1: none)."""
    before = highest
    for row in range(start, end):
        if before >= 0 and compare_keys(columns, key, before, row) >= 0:
            return 0
        before = row
    return 1


@kernel("int64(int64[:, ::1], int64[::1], int64, int64, int64)")
def highest_key(columns: Words, key: Words, highest: int, start: int, end: int) -> int:
    """The row with the highest key among ``highest`` (-1: none) and ``start .. end``."""
    for row in range(start, end):
        if highest < 0 or compare_keys(columns, key, highest, row) < 0:
            highest = row
    return highest


@kernel("int64(int64[::1], int64[::1], int64[:, ::1], int64[::1], int64[::1])")
def key_insert(slots: Words, tally: Words, columns: Words, key: Words, rowids: Words) -> int:
    """Index the given rows; the position of the first whose key is there already, or -1.

    There must be room for them. Given a duplicate, the index is left as it was.
    """
    homes, tags, scratch = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    n = rowids.shape[0]
    for start in range(0, n, BLOCK):
        size = min(BLOCK, n - start)
        hash_rows(columns, key, rowids[start : start + size], slots.shape[0] - 1, homes, tags)
        read_homes(slots, homes[:size], tags, columns, key[0], scratch)
        for i in range(size):
            rowid = rowids[start + i]
            found, free = slot_of_key(slots, columns, key, columns, key, rowid, homes[i], tags[i])
            if found >= 0:
                for undo in range(start + i - 1, -1, -1):
                    hash_rows(columns, key, rowids[undo : undo + 1], slots.shape[0] - 1, homes, tags)
                    vacate(slots, tally, slot_of_entry(slots, homes[0], tags[0] | (rowids[undo] + 1)))
                return start + i
            occupy(slots, tally, free, tags[i] | (rowid + 1))
    return -1


@kernel("int64(int64[::1], int64[::1], int64[:, ::1], int64[::1], int64[::1])")
def key_remove(slots: Words, tally: Words, columns: Words, key: Words, rowids: Words) -> int:
    """Take the given rows, all of them indexed, out of the index; returns how many."""
    homes, tags, scratch = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    n = rowids.shape[0]
    for start in range(0, n, BLOCK):
        size = min(BLOCK, n - start)
        hash_rows(columns, key, rowids[start : start + size], slots.shape[0] - 1, homes, tags)
        for i in range(size):
            scratch[i] = slots[homes[i]]
        for i in range(size):
            vacate(slots, tally, slot_of_entry(slots, homes[i], tags[i] | (rowids[start + i] + 1)))
    return n


@kernel("int64(int64[::1], int64[:, ::1], int64[::1], int64[:, ::1], int64[::1], int64[::1])")
def key_find(slots: Words, columns: Words, key: Words, given: Words, given_key: Words, out: Words) -> int:
    """``out[i]``: row with the key in columns ``given_key`` of ``given[:, i]``, or -1; returns the hits."""
    homes, tags, scratch = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    n = given.shape[1]
    hits = 0
    for start in range(0, n, BLOCK):
        size = min(BLOCK, n - start)
        for i in range(size):
            out[start + i] = start + i
        hash_rows(given, given_key, out[start : start + size], slots.shape[0] - 1, homes, tags)
        read_homes(slots, homes[:size], tags, columns, key[0], scratch)
        for i in range(size):
            found = slot_of_key(slots, columns, key, given, given_key, start + i, homes[i], tags[i])[0]
            out[start + i] = -1
            if found >= 0:
                out[start + i] = (slots[found] & ROW_MASK) - 1
                hits += 1
    return hits


@kernel("int64(int64[:, ::1], uint8[::1], int64[:, ::1], int64[::1])")
def claim(columns: Words, live: Flags, given: Words, rowids: Words) -> int:
    """Keep ``rowids[i]`` only where that whole row equals ``given[:, i]``, each rowid once; counts them."""
    width, n = given.shape
    for i in range(n):
        rowid = rowids[i]
        if rowid < 0:
            continue
        equal = live[rowid] == 1
        for j in range(width):
            equal = equal and columns[j, rowid] == given[j, i]
        if equal:
            live[rowid] = 2
        else:
            rowids[i] = -1
    claimed = 0
    for i in range(n):
        if rowids[i] >= 0:
            live[rowids[i]] = 1
            claimed += 1
    return claimed


@kernel("int64(uint8[::1], int64[::1], int64)")
def kill(live: Flags, rowids: Words, count: int) -> int:
    """Mark rows dead; -1, or the position of the first not live or given twice, nothing being changed."""
    for i in range(rowids.shape[0]):
        rowid = rowids[i]
        if rowid < 0 or rowid >= count or live[rowid] != 1:
            for undo in range(i):
                live[rowids[undo]] = 1
            return i
        live[rowid] = 0
    return -1


@device
def bag_push(
    slots: Words,
    tally: Words,
    columns: Words,
    every: Words,
    following: Words,
    preceding: Words,
    rowids: Words,
) -> None:
    """Put each row in front of its equals."""
    homes, tags, scratch = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    n = rowids.shape[0]
    for start in range(0, n, BLOCK):
        size = min(BLOCK, n - start)
        hash_rows(columns, every, rowids[start : start + size], slots.shape[0] - 1, homes, tags)
        read_homes(slots, homes[:size], tags, columns, 0, scratch)
        for i in range(size):
            rowid = rowids[start + i]
            found, free = slot_of_key(slots, columns, every, columns, every, rowid, homes[i], tags[i])
            if found < 0:
                occupy(slots, tally, free, tags[i] | (rowid + 1))
                continue
            head = slots[found] & ROW_MASK
            following[rowid] = head
            preceding[head - 1] = rowid + 1
            slots[found] = tags[i] | (rowid + 1)


@device
def bag_pop(slots: Words, tally: Words, following: Words, preceding: Words, position: int) -> int:
    """Take the head out of the list at a slot; its rowid."""
    slot = slots[position]
    rowid = (slot & ROW_MASK) - 1
    after = following[rowid]
    if after == 0:
        vacate(slots, tally, position)
    else:
        preceding[after - 1] = 0
        following[rowid] = 0
        slots[position] = slot >> ROW_BITS << ROW_BITS | after
    return rowid


@kernel("int64(int64[::1], int64[::1], int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def bag_insert(
    slots: Words,
    tally: Words,
    columns: Words,
    every: Words,
    following: Words,
    preceding: Words,
    rowids: Words,
) -> int:
    """Index the given rows by all their columns (``every``: 0 .. ncols); returns how many."""
    bag_push(slots, tally, columns, every, following, preceding, rowids)
    return rowids.shape[0]


@kernel("int64(int64[::1], int64[::1], int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def bag_remove(
    slots: Words,
    tally: Words,
    columns: Words,
    every: Words,
    following: Words,
    preceding: Words,
    rowids: Words,
) -> int:
    """Take the given rows, all of them indexed, out of the index; returns how many."""
    homes, tags = np.empty(1, np.int64), np.empty(1, np.int64)
    for i in range(rowids.shape[0]):
        rowid = rowids[i]
        before = preceding[rowid]
        if before == 0:
            hash_rows(columns, every, rowids[i : i + 1], slots.shape[0] - 1, homes, tags)
            position = slot_of_entry(slots, homes[0], tags[0] | (rowid + 1))
            bag_pop(slots, tally, following, preceding, position)
            continue
        after = following[rowid]
        following[before - 1] = after
        if after > 0:
            preceding[after - 1] = before
        following[rowid] = 0
        preceding[rowid] = 0
    return rowids.shape[0]


@kernel(
    "int64(int64[::1], int64[::1], int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[:, ::1],"
    " int64[::1])"
)
def bag_match(
    slots: Words,
    tally: Words,
    columns: Words,
    every: Words,
    following: Words,
    preceding: Words,
    given: Words,
    out: Words,
) -> int:
    """``out[i]``: a row equal to ``given[:, i]``, no row twice, or -1; counts the matches.

    Matched rows leave the index on the way, so that the next equal one comes first, and return at the end.
    """
    homes, tags, scratch = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    n = given.shape[1]
    matched = np.empty(n, np.int64)
    matches = 0
    for start in range(0, n, BLOCK):
        size = min(BLOCK, n - start)
        for i in range(size):
            out[start + i] = start + i
        hash_rows(given, every, out[start : start + size], slots.shape[0] - 1, homes, tags)
        read_homes(slots, homes[:size], tags, columns, 0, scratch)
        for i in range(size):
            found = slot_of_key(slots, columns, every, given, every, start + i, homes[i], tags[i])[0]
            out[start + i] = -1
            if found >= 0:
                out[start + i] = bag_pop(slots, tally, following, preceding, found)
                matches += 1
                matched[n - matches] = out[start + i]
    bag_push(slots, tally, columns, every, following, preceding, matched[n - matches :])
    return matches
