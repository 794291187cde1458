"""Hash indexes over a row store: the unique key index, and the bag of whole rows.

An index is an open-addressing table ``slots int64[2**m]`` with linear probing; a slot is EMPTY, REMOVED
or ``tag << 40 | rowid + 1``. Keys are compared in the row store, which its ``directory`` describes (see
``kernels.rowgroups``); the 23-bit tag makes it rare that a key is read in vain. Keys that differ only in
the last three bits of their last column share a cache line, so ascending keys cost an eighth of the cache
misses. ``tally[0]`` counts the slots in use or removed.

A bag keeps equal rows in a doubly linked list through the two words that each row has in its group's links
(rowid + 1, 0 for none); the slot holds its head, so that a million equal rows cost no more than different
ones.
"""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import device, kernel, load_intrinsic, save_intrinsic
from kpg.runtime.kernels.rowgroups import (
    CHART,
    COLUMN_STRIDE,
    COLUMNS,
    NEIGHBOURS,
    locate,
)

Words = NDArray[np.int64]

EMPTY = 0
REMOVED = -1
ROW_BITS = 40
ROW_MASK = (1 << ROW_BITS) - 1
BLOCK = 128
FOLLOWING = 0
PRECEDING = 1

load = load_intrinsic()
save = save_intrinsic()


@device
def hash_rows(root: int, columns: Words, rows: Words, mask: int, homes: Words, tags: Words) -> None:
    """Home position and shifted tag of the keys of some rows; multiply-xorshift on each column."""
    width = columns.shape[0]
    last_column = columns[width - 1]
    for i in range(rows.shape[0]):
        group, position = locate(root, rows[i])
        base = load(group, COLUMNS) + 8 * position
        stride = load(group, COLUMN_STRIDE)
        state = np.uint64(0x9E3779B97F4A7C15)
        for j in range(width - 1):
            state = (state ^ np.uint64(load(base, columns[j] * stride))) * np.uint64(0xBF58476D1CE4E5B9)
            state ^= state >> np.uint64(32)
        last = load(base, last_column * stride)
        state = (state ^ np.uint64(last >> 3)) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(31))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(29)
        homes[i] = (np.int64(state & np.uint64(ROW_MASK)) << 3 | (last & 7)) & mask
        tags[i] = np.int64(state >> np.uint64(44)) << 43 | (last & 7) << ROW_BITS


@device
def read_homes(slots: Words, homes: Words, tags: Words, root: int, column: int, scratch: Words) -> None:
    """Read the slots, then the rows, where keys will be looked for, so that the cache misses overlap."""
    for i in range(homes.shape[0]):
        scratch[i] = slots[homes[i]]
    for i in range(homes.shape[0]):
        slot = scratch[i]
        if slot != EMPTY and slot != REMOVED and slot >> ROW_BITS == tags[i] >> ROW_BITS:
            group, position = locate(root, (slot & ROW_MASK) - 1)
            scratch[i] = load(load(group, COLUMNS), column * load(group, COLUMN_STRIDE) + position)


@device
def slot_of_key(
    slots: Words, root: int, key: Words, given: int, given_key: Words, row: int, home: int, tag: int
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
            group, place = locate(root, (slot & ROW_MASK) - 1)
            given_group, given_place = locate(given, row)
            stored = load(group, COLUMNS) + 8 * place
            asked = load(given_group, COLUMNS) + 8 * given_place
            equal = True
            for k in range(key.shape[0]):
                word = load(stored, key[k] * load(group, COLUMN_STRIDE))
                equal = equal and word == load(asked, given_key[k] * load(given_group, COLUMN_STRIDE))
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


@device
def describe_given(given: Words, asked: Words) -> int:
    """Have ``asked int64[2, FIELDS]`` be the directory of given rows ``int64[ncols, n]``; its address."""
    asked[0, 0] = ROW_BITS
    asked[1, COLUMNS] = given.ctypes.data
    asked[1, COLUMN_STRIDE] = given.shape[1]
    asked[1, CHART] = 0
    return asked.ctypes.data


@kernel("int64(int64[::1], int64[::1], int64[:, ::1], int64[::1], int64[::1])")
def key_insert(slots: Words, tally: Words, directory: Words, key: Words, rowids: Words) -> int:
    """Index the given rows; the position of the first whose key is there already, or -1.

    There must be room for them. Given a duplicate, the index is left as it was.
    """
    homes, tags, scratch = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    root = directory.ctypes.data
    n = rowids.shape[0]
    for start in range(0, n, BLOCK):
        size = min(BLOCK, n - start)
        hash_rows(root, key, rowids[start : start + size], slots.shape[0] - 1, homes, tags)
        read_homes(slots, homes[:size], tags, root, key[0], scratch)
        for i in range(size):
            rowid = rowids[start + i]
            found, free = slot_of_key(slots, root, key, root, key, rowid, homes[i], tags[i])
            if found >= 0:
                for undo in range(start + i - 1, -1, -1):
                    hash_rows(root, key, rowids[undo : undo + 1], slots.shape[0] - 1, homes, tags)
                    vacate(slots, tally, slot_of_entry(slots, homes[0], tags[0] | (rowids[undo] + 1)))
                return start + i
            occupy(slots, tally, free, tags[i] | (rowid + 1))
    return -1


@kernel("int64(int64[::1], int64[::1], int64[:, ::1], int64[::1], int64[::1])")
def key_remove(slots: Words, tally: Words, directory: Words, key: Words, rowids: Words) -> int:
    """Take the given rows, all of them indexed, out of the index; returns how many."""
    homes, tags, scratch = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    root = directory.ctypes.data
    n = rowids.shape[0]
    for start in range(0, n, BLOCK):
        size = min(BLOCK, n - start)
        hash_rows(root, key, rowids[start : start + size], slots.shape[0] - 1, homes, tags)
        for i in range(size):
            scratch[i] = slots[homes[i]]
        for i in range(size):
            vacate(slots, tally, slot_of_entry(slots, homes[i], tags[i] | (rowids[start + i] + 1)))
    return n


@kernel("int64(int64[::1], int64[:, ::1], int64[::1], int64[:, ::1], int64[::1], int64[:, ::1], int64[::1])")
def key_find(
    slots: Words, directory: Words, key: Words, given: Words, given_key: Words, asked: Words, out: Words
) -> int:
    """``out[i]``: row with the key in columns ``given_key`` of ``given[:, i]``, or -1; returns the hits.

    ``asked int64[2, FIELDS]`` is overwritten.
    """
    homes, tags, scratch = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    root = directory.ctypes.data
    there = describe_given(given, asked)
    n = given.shape[1]
    hits = 0
    for start in range(0, n, BLOCK):
        size = min(BLOCK, n - start)
        for i in range(size):
            out[start + i] = start + i
        hash_rows(there, given_key, out[start : start + size], slots.shape[0] - 1, homes, tags)
        read_homes(slots, homes[:size], tags, root, key[0], scratch)
        for i in range(size):
            found = slot_of_key(slots, root, key, there, given_key, start + i, homes[i], tags[i])[0]
            out[start + i] = -1
            if found >= 0:
                out[start + i] = (slots[found] & ROW_MASK) - 1
                hits += 1
    return hits


@device
def neighbour(root: int, rowid: int, side: int) -> int:
    """The row (+ 1, or 0) after (``FOLLOWING``) or before (``PRECEDING``) a row in its list of equals."""
    group, position = locate(root, rowid)
    return load(load(group, NEIGHBOURS), side * load(group, COLUMN_STRIDE) + position)


@device
def set_neighbour(root: int, rowid: int, side: int, entry: int) -> None:
    group, position = locate(root, rowid)
    save(load(group, NEIGHBOURS), side * load(group, COLUMN_STRIDE) + position, entry)


@device
def bag_push(slots: Words, tally: Words, root: int, every: Words, rowids: Words) -> None:
    """Put each row in front of its equals."""
    homes, tags, scratch = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    n = rowids.shape[0]
    for start in range(0, n, BLOCK):
        size = min(BLOCK, n - start)
        hash_rows(root, every, rowids[start : start + size], slots.shape[0] - 1, homes, tags)
        read_homes(slots, homes[:size], tags, root, 0, scratch)
        for i in range(size):
            rowid = rowids[start + i]
            found, free = slot_of_key(slots, root, every, root, every, rowid, homes[i], tags[i])
            head = 0
            if found < 0:
                occupy(slots, tally, free, tags[i] | (rowid + 1))
            else:
                head = slots[found] & ROW_MASK
                set_neighbour(root, head - 1, PRECEDING, rowid + 1)
                slots[found] = tags[i] | (rowid + 1)
            set_neighbour(root, rowid, FOLLOWING, head)
            set_neighbour(root, rowid, PRECEDING, 0)


@device
def bag_pop(slots: Words, tally: Words, root: int, position: int) -> int:
    """Take the head out of the list at a slot; its rowid."""
    slot = slots[position]
    rowid = (slot & ROW_MASK) - 1
    after = neighbour(root, rowid, FOLLOWING)
    if after == 0:
        vacate(slots, tally, position)
    else:
        set_neighbour(root, after - 1, PRECEDING, 0)
        slots[position] = slot >> ROW_BITS << ROW_BITS | after
    return rowid


@kernel("int64(int64[::1], int64[::1], int64[:, ::1], int64[::1], int64[::1])")
def bag_insert(slots: Words, tally: Words, directory: Words, every: Words, rowids: Words) -> int:
    """Index the given rows by all their columns (``every``: 0 .. ncols); returns how many."""
    bag_push(slots, tally, directory.ctypes.data, every, rowids)
    return rowids.shape[0]


@kernel("int64(int64[::1], int64[::1], int64[:, ::1], int64[::1], int64[::1])")
def bag_remove(slots: Words, tally: Words, directory: Words, every: Words, rowids: Words) -> int:
    """Take the given rows, all of them indexed, out of the index; returns how many."""
    homes, tags = np.empty(1, np.int64), np.empty(1, np.int64)
    root = directory.ctypes.data
    for i in range(rowids.shape[0]):
        rowid = rowids[i]
        before = neighbour(root, rowid, PRECEDING)
        if before == 0:
            hash_rows(root, every, rowids[i : i + 1], slots.shape[0] - 1, homes, tags)
            position = slot_of_entry(slots, homes[0], tags[0] | (rowid + 1))
            bag_pop(slots, tally, root, position)
            continue
        after = neighbour(root, rowid, FOLLOWING)
        set_neighbour(root, before - 1, FOLLOWING, after)
        if after > 0:
            set_neighbour(root, after - 1, PRECEDING, before)
    return rowids.shape[0]


@kernel("int64(int64[::1], int64[::1], int64[:, ::1], int64[::1], int64[:, ::1], int64[:, ::1], int64[::1])")
def bag_match(
    slots: Words, tally: Words, directory: Words, every: Words, given: Words, asked: Words, out: Words
) -> int:
    """``out[i]``: a row equal to ``given[:, i]``, no row twice, or -1; counts the matches.

    Matched rows leave the index on the way, so that the next equal one comes first, and return at the end.
    ``asked int64[2, FIELDS]`` is overwritten.
    """
    homes, tags, scratch = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    root = directory.ctypes.data
    there = describe_given(given, asked)
    n = given.shape[1]
    matched = np.empty(n, np.int64)
    matches = 0
    for start in range(0, n, BLOCK):
        size = min(BLOCK, n - start)
        for i in range(size):
            out[start + i] = start + i
        hash_rows(there, every, out[start : start + size], slots.shape[0] - 1, homes, tags)
        read_homes(slots, homes[:size], tags, root, 0, scratch)
        for i in range(size):
            found = slot_of_key(slots, root, every, there, every, start + i, homes[i], tags[i])[0]
            out[start + i] = -1
            if found >= 0:
                out[start + i] = bag_pop(slots, tally, root, found)
                matches += 1
                matched[n - matches] = out[start + i]
    bag_push(slots, tally, root, every, matched[n - matches :])
    return matches
