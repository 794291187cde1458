"""How much a history table counts; ``kernels/history.py`` has its layout."""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import kernel
from kpg.runtime.kernels.history import FREE

Words = NDArray[np.int64]


@kernel("float64(int64[:, ::1], int64, int64, int64, int64[:, ::1])")
def heaviest_key(keys: Words, used: int, nk: int, rounds: int, records: Words) -> float:
    """The largest sum, over the records of one of the first ``used`` keys, of absolute row counts."""
    count = 2 + nk + rounds
    most = 0.0
    for number in range(used):
        if keys[number, 1 + nk] == FREE:
            continue
        total = abs(np.float64(keys[number, count]))
        link = keys[number, 0]
        while link > 0:
            total += abs(np.float64(records[link - 1, 2 + rounds]))
            link = records[link - 1, 0]
        most = max(most, total)
    return most
