"""Matching a stream of rows with the rows of a trace: the one way in which operators read arrangements."""

import enum
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Final

import numpy as np

from kpg.runtime.errors import DataError
from kpg.runtime.kernels import seek
from kpg.runtime.progress.antichain import Time, precedes
from kpg.runtime.trace.batch import Batch
from kpg.runtime.trace.updates import Updates, Words


class Order(enum.Enum):
    """Which arrangement updates a stream update meets.

    A step processes times by their rounds, and those of equal rounds by their epoch: a linear extension of
    the product order. What happened in a closed epoch comes before everything.
    """

    ANY = seek.ANY
    """All of them."""
    THROUGH = seek.THROUGH
    """Those that come before it, and those of the same time."""
    BEFORE = seek.BEFORE
    """Those that come before it."""


Segment = tuple[Batch, Words, Words]
"""Matches within one batch: positions in the stream, positions in the batch."""

_NO_DIRECTORY: Final = np.empty(0, np.int32), np.empty(0, np.int64)


@cache
def _columns(key: tuple[int, ...]) -> Words:
    return np.array(key, np.int64)


def lookup(
    stream: Updates,
    key: tuple[int, ...],
    layers: Sequence[Batch],
    keep_stream: Words,
    keep_batch: Words,
    order: Order,
    *,
    closed: int = 0,
    floor: int = 0,
    origin: int = 0,
    chunk: int = 1 << 20,
    poll: Callable[[], None] | None = None,
) -> Iterator[Updates]:
    """All pairs of a stream row s and an arrangement row r with ``s[key[i]] == r[i]`` for every i.

    ``key`` may be shorter than the arrangement's rows (a prefix) or empty (a cross product). An output
    row is the stream columns ``keep_stream`` and the arrangement columns ``keep_batch`` (both
    ``int64[]``), its time the least upper bound, its diff the product. Pieces have 1 to ``chunk`` rows, in
    no particular order and not consolidated. The stream need not be sorted, though it is faster so.

    For ``order``, arrangement epochs below ``closed`` are closed, and those below ``floor`` count as
    ``floor``: a step passes its lower epoch as ``closed`` and less as ``floor``; one that hydrates passes
    the last closed epoch as both, so that all history is at that epoch. An arrangement from an outer scope
    has fewer time coordinates than the stream; those it lacks are 0.

    The time that is compared begins at row ``origin`` of the stream's times. On a delta join's path of
    several lookups it must be that of the update that set out, not the least upper bound with what was
    met on the way, which may come after updates that will find this one themselves. So the times of such a
    stream are the least upper bound so far, then, from row ``origin`` on, the time at the start.

    Memory is in proportion to ``chunk``, whatever the pairs; ``poll`` is called about every tenth of a
    second in which no piece comes.
    Raises DataError if a product of diffs does not fit 64 bits.
    """
    n = len(stream)
    if n == 0:
        return
    columns = _columns(key)
    ordered = stream.ordered and len(key) > 0 and key == tuple(range(len(key)))
    time = stream.time[origin:] if origin else stream.time
    earliest = tuple((stream.time[:, 0] if stream.constant_time else stream.time.min(axis=1)).tolist())
    place = _place(earliest[origin:], time.shape[0], 0)
    segments: list[Segment] = []
    total = capacity = 0
    state = np.zeros(4, np.int64)
    for layer in layers:
        test = _time_test(stream.constant_time, place, layer, order, closed, floor) if len(layer) else None
        if test is None:
            continue
        gallop = ordered and n >= len(layer)
        offsets, bounds = _NO_DIRECTORY if gallop else layer.directory(n)
        matcher = seek.match_sorted if gallop else seek.match
        state[0], state[1] = 0, -1
        wanted = 2 * n + 64
        done = False
        while not done:
            wanted = min(wanted, chunk - total)
            if capacity != wanted:  # otherwise the last buffers are still empty
                left, right = np.empty(wanted, np.int64), np.empty(wanted, np.int64)
                capacity = wanted
            found = matcher(
                stream.data, columns, time, layer.data, layer.time, offsets, bounds,
                test, closed, floor, state, left, right,
            )  # fmt: skip
            if found:
                segments.append((layer, left[:found], right[:found]))
                total += found
                capacity = 0
            if total == chunk:
                yield _assemble(stream, earliest, segments, total, keep_stream, keep_batch)
                segments, total = [], 0
            done = state.item(0) == n
            if found == wanted:
                wanted *= 4
            elif not done and poll is not None:
                poll()
    if total:
        yield _assemble(stream, earliest, segments, total, keep_stream, keep_batch)


def _time_test(
    constant: bool, place: Time, layer: Batch, order: Order, closed: int, floor: int
) -> int | None:
    """What the kernel has to test: nothing where one comparison settles it for all; None: nothing can match.

    No time of the stream is processed before ``place``; if ``constant``, all are at it.
    """
    latest = layer.latest
    if order is Order.ANY or (latest[0] < closed and floor < closed):
        return seek.ANY
    through = order is Order.THROUGH
    if _admits(_place(latest, len(place), floor), place, through):
        return seek.ANY
    if layer.constant_time and constant:
        own = _place(tuple(layer.time[:, 0].tolist()), len(place), floor)
        return seek.ANY if _admits(own, place, through) else None
    test: int = order.value
    return test


def _place(time: Time, depth: int, floor: int) -> Time:
    """The rounds, ``depth - 1`` of them, then the epoch: times compared like this are in processing order."""
    epoch = time[0] if time[0] > floor else floor
    return (epoch,) if depth == 1 else (*time[1:], *(0,) * (depth - len(time)), epoch)


def _admits(layer: Time, stream: Time, through: bool) -> bool:
    return layer < stream or (through and layer == stream)


def _assemble(
    stream: Updates,
    earliest: Time,
    segments: list[Segment],
    total: int,
    keep_stream: Words,
    keep_batch: Words,
) -> Updates:
    """The matched rows of all segments as one set of updates."""
    data = np.empty((keep_stream.shape[0] + keep_batch.shape[0], total), np.int64)
    start = 0
    for batch, left, right in segments:
        seek.gather_pairs(stream.data, keep_stream, left, batch.data, keep_batch, right, data, start)
        start += left.shape[0]
    return Updates(data, _times(stream, earliest, segments, total), _diffs(stream, segments, total))


def _times(stream: Updates, earliest: Time, segments: list[Segment], total: int) -> Words:
    if stream.constant_time:
        # ``precedes`` ends with the shorter time: no coordinate that the batch lacks matters.
        if all(precedes(batch.latest, earliest) for batch, _, _ in segments):
            return stream.time
        if len(segments) == 1 and segments[0][0].constant_time:
            joined = stream.time.copy()
            outer = segments[0][0].time
            np.maximum(joined[: outer.shape[0]], outer, out=joined[: outer.shape[0]])
            return joined
    times = np.empty((stream.depth, total), np.int64)
    start = 0
    for batch, left, right in segments:
        seek.gather_times(stream.time, left, batch.time, right, times, start)
        start += left.shape[0]
    return times


def _diffs(stream: Updates, segments: list[Segment], total: int) -> Words:
    if stream.constant_diff and all(batch.constant_diff and batch.diff[0] == 1 for batch, _, _ in segments):
        return stream.diff
    diffs = np.empty(total, np.int64)
    start = 0
    for batch, left, right in segments:
        if seek.gather_diffs(stream.diff, left, batch.diff, right, diffs, start):
            raise DataError(
                "multiplicity overflow: a joined row occurs more often than a 64-bit count can hold"
            )
        start += left.shape[0]
    return diffs
