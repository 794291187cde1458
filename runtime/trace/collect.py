"""Reading accumulated groups from a trace: what top-k, min, max and basic reduces are made of."""

from collections.abc import Sequence

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
    texts: Sequence[int] = (),
) -> tuple[Words, Words, Words, int]:
    """Live rows of many groups: (rows int64[width, m], multiplicities, task of each row, updates walked).

    Task i reads the group ``prefix[:, i]`` accumulated at ``times[:, i]`` over the first
    ``visible_layers[i]`` layers; rows come in the order of the trace, clipped to ``skip`` and ``limit``, or,
    with ``texts``, followed by all that may be before the last (then ``skip`` must be 0). These are, for each
    text that rows are ordered by, the column after its words: equal words of long texts do not tell which is
    before which (``ExactOrder``).
    """
    tasks, description = visible_layers.shape[0], layers.descriptions
    bound = UNLIMITED if limit is None else limit
    reading = np.array((0, 0, 0, 0, skip, bound, len(texts), *texts))
    out: Words = np.empty((width + 2, max(64, tasks * min(bound, 4))), np.int64)
    while kernels.collect(description, prefix, times, visible_layers, reading, out) < tasks:
        out = _doubled(out)
    written, walked = reading.item(kernels.WRITTEN), reading.item(kernels.WALKED)
    return np.ascontiguousarray(out[:width, :written]), out[width, :written], out[width + 1, :written], walked


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
    tasks, description = groups.shape[0], layers.descriptions
    bound = UNLIMITED if limit is None else limit
    reading = np.array((0, 0, 0, 0, skip, bound, 0, layers[0].time.shape[0], *rounds.tolist()))
    out: Words = np.empty((width + 2, 2 * tasks + 64), np.int64)
    while kernels.differences(description, prefix, groups, epochs, *corners, reading, out) < tasks:
        out = _doubled(out)
    _, written, walked, live, *_ = reading.tolist()
    rows = np.ascontiguousarray(out[:width, :written])
    return rows, out[width, :written], out[width + 1, :written], walked - live


def later_rounds(layers: Layers, prefix: Words, rounds: Words) -> tuple[Words, Words]:
    """The distinct least upper bounds of ``rounds`` and those of the updates of many groups, where later.

    In a loop that is not nested, of each group the first. ``prefix int64[group, n]``, layers of one depth (at
    least one). Returns (rounds ``int64[len(rounds), m]``, group of each, ascending).
    """
    tasks, description = prefix.shape[1], layers.descriptions
    reading = np.array((0, 0, 0, 0, 0, 0, 0, layers[0].time.shape[0]))
    out: Words = np.empty((rounds.shape[0] + 1, 4 * tasks + 65), np.int64)
    while kernels.later_rounds(description, prefix, rounds, reading, out) < tasks:
        out = _doubled(out)
    written = reading.item(kernels.WRITTEN)
    return out[:-1, :written], out[-1, :written]


def group_times(layers: Layers, prefix: Words, closed: int) -> tuple[Words, Words]:
    """The distinct times of the updates of many groups: (times int64[depth, m], group of each, ascending).

    ``prefix int64[group, n]``, layers of one depth (at least one layer); epochs before ``closed`` appear
    as ``closed - 1``.
    """
    tasks, description = prefix.shape[1], layers.descriptions
    reading = np.zeros(kernels.WRITTEN + 1, np.int64)
    out: Words = np.empty((layers[0].time.shape[0] + 1, 4 * tasks + 65), np.int64)
    while kernels.group_times(description, prefix, closed, reading, out) < tasks:
        out = _doubled(out)
    written = reading.item(kernels.WRITTEN)
    return np.ascontiguousarray(out[:-1, :written]), out[-1, :written]


def _doubled(out: Words) -> Words:
    """What a kernel has written, with as much room again."""
    grown: Words = np.empty((out.shape[0], 2 * out.shape[1]), np.int64)
    grown[:, : out.shape[1]] = out
    return grown
