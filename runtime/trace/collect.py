"""Reading accumulated groups from a trace: what top-k, min, max and basic reduces are made of."""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import collect as kernels
from kpg.runtime.trace.batch import Layers

Words = NDArray[np.int64]
UNLIMITED = 1 << 62
"""More rows than a group can have."""


def collect(
    layers: Layers,
    prefix: Words,
    times: Words,
    visible_layers: Words,
    width: int,
    skip: int = 0,
    limit: int | None = None,
    ties: int = 0,
) -> tuple[Words, Words, Words, int]:
    """Live rows of many groups: (rows int64[width, m], multiplicities, task of each row, updates walked).

    Task i reads the group ``prefix[:, i]`` accumulated at ``times[:, i]`` over the first
    ``visible_layers[i]`` layers; rows come in the order of the trace, clipped to ``skip`` and ``limit``, or,
    with ``ties``, followed by all that agree with the last on so many columns (then ``skip`` must be 0).
    """
    tasks = visible_layers.shape[0]
    description = layers.descriptions
    bound = UNLIMITED if limit is None else limit
    capacity = max(64, tasks * min(bound, 4))
    out = np.empty((width, capacity), np.int64)
    count, task = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    state = np.zeros(2, np.int64)
    start = 0
    while True:
        start = kernels.collect(
            description, width, times.shape[0], prefix, times, visible_layers, prefix.shape[0], skip, bound,
            ties, start, out, count, task, state,
        )  # fmt: skip
        if start == tasks:
            break
        capacity *= 2
        grown = np.empty((width, capacity), np.int64)
        grown[:, : out.shape[1]] = out
        out = grown
        count, task = np.resize(count, capacity), np.resize(task, capacity)
    written = int(state[0])
    return np.ascontiguousarray(out[:, :written]), count[:written], task[:written], int(state[1])


def differences(
    layers: Layers,
    prefix: Words,
    groups: Words,
    times: tuple[Words, Words],
    corners: tuple[Words, Words],
    width: int,
    skip: int = 0,
    limit: int | None = None,
) -> tuple[Words, Words, Words, int]:
    """Mixed differences of groups' windows: (rows int64[width, m], diffs, task of each, walked in vain).

    Task i is the group ``prefix[:, groups[i]]`` at epoch ``times[0][i]``, rounds ``times[1]``; prefixes and
    groups ascend. ``corners`` are offsets ``int64[depth, c]`` from that time, with their signs. Each row
    comes once for each task, in the order of the trace. The last result counts updates of rows that were not.
    """
    epochs, rounds = times
    tasks = groups.shape[0]
    description = layers.descriptions
    depth = layers[0].time.shape[0]
    capacity = 2 * tasks + 64
    out = np.empty((width, capacity), np.int64)
    diff, task = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    state = np.zeros(3, np.int64)
    bound = UNLIMITED if limit is None else limit
    start = 0
    while True:
        start = kernels.differences(
            description, width, depth, prefix, groups, epochs, rounds, *corners, skip, bound, start,
            out, diff, task, state,
        )  # fmt: skip
        if start == tasks:
            break
        capacity *= 2
        grown = np.empty((width, capacity), np.int64)
        grown[:, : out.shape[1]] = out
        out = grown
        diff, task = np.resize(diff, capacity), np.resize(task, capacity)
    written, walked, live = state.tolist()
    return np.ascontiguousarray(out[:, :written]), diff[:written], task[:written], walked - live


def later_rounds(layers: Layers, prefix: Words, rounds: Words) -> tuple[Words, Words]:
    """The distinct least upper bounds of ``rounds`` and those of the updates of many groups, where later.

    In a loop that is not nested, of each group the first. ``prefix int64[group, n]``, layers of one depth (at
    least one). Returns (rounds ``int64[len(rounds), m]``, group of each, ascending).
    """
    depth = layers[0].time.shape[0]
    tasks = prefix.shape[1]
    description = layers.descriptions
    capacity = 4 * tasks + 64
    out = np.empty((rounds.shape[0], capacity + 1), np.int64)
    task, state = np.empty(capacity + 1, np.int64), np.zeros(1, np.int64)
    start = 0
    while True:
        start = kernels.later_rounds(description, depth, prefix, rounds, start, out, task, state)
        if start == tasks:
            break
        capacity *= 2
        grown = np.empty((rounds.shape[0], capacity + 1), np.int64)
        grown[:, : out.shape[1]] = out
        out, task = grown, np.resize(task, capacity + 1)
    written = int(state[0])
    return out[:, :written], task[:written]


def group_times(layers: Layers, prefix: Words, closed: int) -> tuple[Words, Words]:
    """The distinct times of the updates of many groups: (times int64[depth, m], group of each, ascending).

    ``prefix int64[group, n]``, layers of one depth (at least one layer); epochs before ``closed`` appear
    as ``closed - 1``.
    """
    depth = layers[0].time.shape[0]
    tasks = prefix.shape[1]
    description = layers.descriptions
    capacity = 4 * tasks + 64
    out, task = np.empty((depth, capacity + 1), np.int64), np.empty(capacity + 1, np.int64)
    state = np.zeros(1, np.int64)
    start = 0
    while True:
        start = kernels.group_times(
            description, depth, prefix, prefix.shape[0], closed, start, out, task, state
        )  # fmt: skip
        if start == tasks:
            break
        capacity *= 2
        grown = np.empty((depth, capacity + 1), np.int64)
        grown[:, : out.shape[1]] = out
        out, task = grown, np.resize(task, capacity + 1)
    written = int(state[0])
    return np.ascontiguousarray(out[:, :written]), task[:written]
