"""The head of a trace: rows in the order in which they came, chained by a hash of their first columns.

See :mod:`kpg.runtime.kernels.layout` for its description, which holds everything there is to know.
"""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import device, kernel, small_view_intrinsic, view_intrinsic
from kpg.runtime.kernels.layout import (
    COUNTS,
    DATA,
    DEPTH,
    DIFF,
    HASHED,
    LATEST,
    LINKS,
    MASK,
    PROBES,
    ROWS,
    SLOTS,
    STRIDE,
    TIME,
    VAIN,
    VISITED,
    WIDTH,
)

Words = NDArray[np.int64]

view = view_intrinsic()
small_view = small_view_intrinsic()

FINE = 0
CROWDED = 1  # keys have histories that sorting would add up
UNFIT = 2  # the hash of the first columns does not tell keys apart

NEAR = np.uint64(4)
"""Bits of the first column: slots of a cache line."""

PATIENCE = 8
"""Rows that a look-up may see, on average, before the head is crowded: small batches were as many."""
LEAST = 256
"""Rows seen in any case: sorting the head costs about as much."""


@device
def slot_of(data: Words, row: int, columns: int, mask: int) -> int:
    """The slot of a row by its first columns: near each other where the first differs in few last bits.

    So keys that ascend, as those of new rows do, stay in the processor's cache.
    """
    if columns == 0:
        return int(np.uint64(0))
    first = np.uint64(data[0, row])
    h = (first >> NEAR) ^ np.uint64(0x9E3779B97F4A7C15)
    h *= np.uint64(0xFF51AFD7ED558CCD)
    h ^= h >> np.uint64(32)
    for c in range(1, columns):
        h = (h ^ np.uint64(data[c, row])) * np.uint64(0xFF51AFD7ED558CCD)
        h ^= h >> np.uint64(32)
    near = (np.uint64(1) << NEAR) - np.uint64(1)
    return int((h ^ (first & near)) & np.uint64(mask))


@kernel("int64(int64[:, ::1], int64[:, ::1], int64[::1], int64[::1])")
def append(data: Words, time: Words, diff: Words, head: Words) -> int:
    """Append updates, for which there must be room, to the head of this description.

    Returns ``CROWDED`` or ``UNFIT`` if look-ups so far would have been cheaper in batches, else ``FINE``.
    """
    n = data.shape[1]
    start = head[ROWS]
    width, depth, stride = head[WIDTH], head[DEPTH], head[STRIDE]
    rows = view(head[DATA], width, stride)
    for c in range(width):
        for i in range(n):
            rows[c, start + i] = data[c, i]
    times = view(head[TIME], depth, stride)
    for d in range(depth):
        latest = head[LATEST + d]
        if time.shape[1] == 1:
            t = time[d, 0]
            for i in range(n):
                times[d, start + i] = t
            latest = max(latest, t)
        else:
            for i in range(n):
                t = time[d, i]
                times[d, start + i] = t
                latest = max(latest, t)
        head[LATEST + d] = latest
    diffs = view(head[DIFF], 1, stride)[0]
    if diff.shape[0] == 1:
        change = diff[0]
        for i in range(n):
            diffs[start + i] = change
        head[COUNTS] += n if change != 1 else 0
    else:
        for i in range(n):
            change = diff[i]
            diffs[start + i] = change
            head[COUNTS] += int(change != 1)
    slots = small_view(head[SLOTS], head[MASK] + 1)
    links = small_view(head[LINKS], stride)
    columns, mask = head[HASHED], head[MASK]
    for i in range(start, start + n):
        slot = slot_of(rows, i, columns, mask)
        links[i] = slots[slot]
        slots[slot] = i + 1
    head[ROWS] = start + n
    if head[COUNTS] > 0 and head[VISITED] > PATIENCE * head[PROBES] + LEAST:
        return CROWDED
    return UNFIT if head[VAIN] > PATIENCE * head[PROBES] + LEAST else FINE


@kernel("void(int64[::1], int64)")
def truncate(head: Words, size: int) -> None:
    """Take back all rows from position ``size`` on; the latest time stays an upper bound."""
    rows = view(head[DATA], head[WIDTH], head[STRIDE])
    diffs = view(head[DIFF], 1, head[STRIDE])[0]
    slots = small_view(head[SLOTS], head[MASK] + 1)
    links = small_view(head[LINKS], head[STRIDE])
    for i in range(head[ROWS] - 1, size - 1, -1):
        slots[slot_of(rows, i, head[HASHED], head[MASK])] = links[i]
        head[COUNTS] -= int(diffs[i] != 1)
    head[ROWS] = size


@kernel("void(int64[::1])")
def rehash(head: Words) -> None:
    """Chain all rows anew, as when there is more room or fewer columns are to be hashed."""
    rows = view(head[DATA], head[WIDTH], head[STRIDE])
    slots = small_view(head[SLOTS], head[MASK] + 1)
    links = small_view(head[LINKS], head[STRIDE])
    slots[:] = 0
    for i in range(head[ROWS]):
        slot = slot_of(rows, i, head[HASHED], head[MASK])
        links[i] = slots[slot]
        slots[slot] = i + 1
