"""Matching a stream of rows with the rows of a trace: the one way in which operators read arrangements."""

import enum
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np

from kpg.runtime.errors import DataError
from kpg.runtime.kernels import seek
from kpg.runtime.progress.antichain import Time, precedes
from kpg.runtime.trace.batch import Batch
from kpg.runtime.trace.updates import Updates, Words


class Order(enum.Enum):
    """Which arrangement updates a stream update at time ``ts`` meets, by their time ``tr``.

    Times compare lexicographically, which extends the product order to a total one.
    """

    ANY = seek.ANY
    """All of them."""
    THROUGH = seek.THROUGH
    """Those with ``tr <= ts``."""
    BEFORE = seek.BEFORE
    """Those with ``tr < ts``."""


Segment = tuple[Batch, Words, Words]
"""Matches within one batch: positions in the stream, positions in the batch."""


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
    chunk: int = 1 << 20,
) -> Iterator[Updates]:
    """All pairs of a stream row s and an arrangement row r with ``s[key[i]] == r[i]`` for every i.

    ``key`` may be shorter than the arrangement's rows (a prefix) or empty (a cross product). An output
    row is the stream columns ``keep_stream`` and the arrangement columns ``keep_batch`` (both
    ``int64[]``), its time the least upper bound, its diff the product. Pieces have 1 to ``chunk`` rows, in
    no particular order and not consolidated. The stream need not be sorted, though it is faster so.
    Raises DataError if a product of diffs does not fit 64 bits.
    """
    n = len(stream)
    if n == 0:
        return
    columns = _columns(key)
    time = tuple(stream.time[:, 0].tolist()) if stream.constant_time else None
    epoch = time[0] if time is not None else int(stream.time[0].min())
    segments: list[Segment] = []
    total = 0
    state = np.empty(2, np.int64)
    capacity = 0
    for layer in layers:
        test = _time_test(time, epoch, layer, order) if len(layer) else None
        if test is None:
            continue
        offsets, bounds = layer.directory(n)
        state[0], state[1] = 0, -1
        found = wanted = min(2 * n + 64, chunk)
        while found == wanted:
            wanted = min(wanted, chunk - total)
            if capacity != wanted:  # otherwise the last buffers are still empty
                left, right = np.empty(wanted, np.int64), np.empty(wanted, np.int64)
                capacity = wanted
            found = seek.match(
                stream.data, columns, stream.time, layer.data, layer.time, offsets, bounds, test,
                state, left, right,
            )  # fmt: skip
            if found:
                segments.append((layer, left[:found], right[:found]))
                total += found
                capacity = 0
            if total == chunk:
                yield _assemble(stream, time, segments, total, keep_stream, keep_batch)
                segments, total = [], 0
            if found == wanted:
                found = wanted = wanted * 4
    if total:
        yield _assemble(stream, time, segments, total, keep_stream, keep_batch)


def _time_test(time: Time | None, epoch: int, layer: Batch, order: Order) -> int | None:
    """What ``match`` has to test: nothing where one comparison settles it for all; None: nothing can match.

    ``time`` is the stream's if all are equal, ``epoch`` its least first coordinate. A batch that is closed
    before that epoch is met as a whole, even where compaction has moved its times up to the stream's.
    """
    if order is Order.ANY or _closed_before(layer, epoch):
        return seek.ANY
    test: int = order.value
    if time is None:
        return test
    if layer.latest < time or (layer.latest == time and order is Order.THROUGH):
        return seek.ANY
    if not layer.constant_time:
        return test
    layer_time = tuple(layer.time[:, 0].tolist())
    return seek.ANY if layer_time < time or (layer_time == time and order is Order.THROUGH) else None


def _closed_before(layer: Batch, epoch: int) -> bool:
    """Whether the layer holds only what happened in epochs (first coordinates) before ``epoch``."""
    elements = layer.upper.elements
    return len(elements) == 1 and elements[0][0] <= epoch and not any(elements[0][1:])


def _assemble(
    stream: Updates,
    time: Time | None,
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
    return Updates(data, _times(stream, time, segments, total), _diffs(stream, segments, total))


def _times(stream: Updates, time: Time | None, segments: list[Segment], total: int) -> Words:
    if time is not None:
        if all(precedes(batch.latest, time) for batch, _, _ in segments):
            return stream.time
        if len(segments) == 1 and segments[0][0].constant_time:
            return np.maximum(stream.time, segments[0][0].time)
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
