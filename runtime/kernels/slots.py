"""Hash tables whose filled slots hold 32 bits of a hash, then 32 of a number that is not 0."""

import numpy as np

from kpg.runtime.kernels import kernel

BLOCK = 64  # slots that are sorted out from empty ones at a time


@kernel("void(int64[::1], int64[::1])")
def rebuild(source, slots):
    """Insert every slot of ``source`` into the larger, empty ``slots``."""
    mask = slots.shape[0] - 1
    filled = np.empty(BLOCK, np.int64)
    for start in range(0, source.shape[0], BLOCK):
        n = 0
        for i in range(start, min(start + BLOCK, source.shape[0])):
            filled[n] = source[i]
            n += source[i] != 0
        for i in range(n):
            slot = (filled[i] >> 32) & mask
            while slots[slot] != 0:
                slot = (slot + 1) & mask
            slots[slot] = filled[i]
