"""Kernels that part updates by their rounds: the coordinates of their times but the first, the epoch."""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import device, kernel

Words = NDArray[np.int64]

DENSE = 4
"""Rounds are sorted by counting while their range is not so many times longer than the updates."""


@kernel("boolean(int64[:, ::1])")
def same_rounds(time: Words) -> bool:
    """Whether all times ``int64[depth, n]`` agree on the rounds."""
    for d in range(1, time.shape[0]):
        for i in range(1, time.shape[1]):
            if time[d, i] != time[d, 0]:
                return False
    return True


@device
def sort_stably(keys: Words, order: Words) -> None:
    """Permute ``order``, positions in ``keys``: the keys ascend then, and equal ones keep their places."""
    n = order.shape[0]
    low = keys.min()
    span = keys.max() - low + 1
    if span > DENSE * n + 64:
        order[:] = order[np.argsort(keys[order], kind="mergesort")]
        return
    ends = np.zeros(span + 1, np.int64)
    for i in range(n):
        ends[keys[i] - low + 1] += 1
    for k in range(span):
        ends[k + 1] += ends[k]
    sorted_order = np.empty(n, np.int64)
    for i in range(n):
        k = keys[order[i]] - low
        sorted_order[ends[k]] = order[i]
        ends[k] += 1
    order[:] = sorted_order


@kernel("boolean(int64[:, ::1], int64[::1])")
def epoch_order(time: Words, order: Words) -> bool:
    """Whether the epochs of times ``int64[depth, n]`` ascend; if not, ``order`` makes them.

    Equal epochs keep their order.
    """
    ascending = True
    for i in range(1, time.shape[1]):
        ascending = ascending and time[0, i - 1] <= time[0, i]
    if not ascending:
        for i in range(order.shape[0]):
            order[i] = i
        sort_stably(time[0], order)
    return ascending


@kernel("int64(int64[:, ::1], int64[::1], int64[::1], boolean[::1])")
def split_by_rounds(time: Words, order: Words, starts: Words, single: NDArray[np.bool_]) -> int:
    """Part times ``int64[depth, n]`` by their rounds; the number of parts.

    ``order`` lists positions part by part, parts in lexicographic order of rounds and each in its own order;
    part i is ``order[starts[i]:starts[i + 1]]``, and ``single[i]`` says that it is of one epoch.
    """
    n = order.shape[0]
    for i in range(n):
        order[i] = i
    for d in range(time.shape[0] - 1, 0, -1):
        sort_stably(time[d], order)
    count = 0
    for i in range(n):
        fresh = i == 0
        for d in range(1, time.shape[0]):
            fresh = fresh or time[d, order[i]] != time[d, order[i - 1]]
        if fresh:
            starts[count] = i
            single[count] = True
            count += 1
        elif time[0, order[i]] != time[0, order[i - 1]]:
            single[count - 1] = False
    starts[count] = n
    return count
