"""Joins of a stream of rows with a trace: the only way in which operators look up arrangements.

A short stream takes one compiled call; :func:`~kpg.runtime.trace.lookup.lookup` chooses.
"""

import enum
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

import numpy as np

from kpg.runtime.errors import DataError
from kpg.runtime.kernels import meet as kernels_meet
from kpg.runtime.kernels import pairs as kernels
from kpg.runtime.kernels import seek
from kpg.runtime.kernels.links import LEAST_ROOM, MANY, MOST_ROOM
from kpg.runtime.trace.batch import Layers, Sought
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


@cache
def _columns(key: tuple[int, ...]) -> Words:
    return np.array(key, np.int64)


def lookup(
    stream: Updates,
    key: tuple[int, ...],
    sought: Sought | Layers,
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
    if n == 0 or not sought:
        return
    if sought.head is not None:
        sought.head.serve(len(key))
    ordered = stream.ordered and len(key) > 0 and key == tuple(range(len(key)))
    columns, addresses = _columns(key), sought.addresses
    layers = addresses.shape[0]
    state = np.zeros(seek.EARLIEST + stream.depth, np.int64)
    state[seek.LAYER] = -1
    matches = _Matches(stream, keep_stream, keep_batch, addresses, state)
    wanted, pairs = 2 * n + 64, None
    while True:
        wanted = min(wanted, chunk - matches.total)
        if pairs is None or pairs.shape[1] != wanted:
            pairs, starts = np.empty((2, wanted), np.int64), np.empty(layers + 1, np.int64)
        found = seek.match(
            stream.data, columns, stream.time, origin, addresses, order.value, ordered, closed, floor,
            state, starts, pairs,
        )  # fmt: skip
        layer = state.item(seek.LAYER)
        unsearched, found = found < 0, found if found >= 0 else -1 - found
        if found:
            matches.parts.append((starts, pairs, matches.total))
            matches.total += found
            pairs = None
        done = layer == layers
        if matches.total == chunk or (done and matches.total):
            yield matches.take()
        if done:
            return
        if unsearched:
            sought.batches[layer].build_directory()
        elif found == wanted:
            wanted *= 4
        elif poll is not None:
            poll()


class _Matches:
    """Pairs that are to become updates: parts of ``starts`` and ``pairs``, and the position of each part."""

    __slots__ = ("addresses", "keep_batch", "keep_stream", "parts", "state", "stream", "total")

    def __init__(
        self, stream: Updates, keep_stream: Words, keep_batch: Words, addresses: Words, state: Words
    ) -> None:
        self.stream = stream
        self.keep_stream = keep_stream
        self.keep_batch = keep_batch
        self.addresses = addresses
        self.state = state
        self.parts: list[tuple[Words, Words, int]] = []
        self.total = 0

    def take(self) -> Updates:
        """The updates of all pairs so far, which are forgotten."""
        stream, total, state = self.stream, self.total, self.state
        data = np.empty((self.keep_stream.shape[0] + self.keep_batch.shape[0], total), np.int64)
        time, diff = stream.time, stream.diff
        wanted = 0
        if time.shape[1] > 1 or state[seek.LATE]:
            time = np.empty((stream.depth, total), np.int64)
            wanted = kernels.TIMES
        if diff.shape[0] > 1 or state[seek.COUNTED]:
            diff = np.empty(total, np.int64)
            wanted |= kernels.DIFFS
        result = 0
        for starts, pairs, start in self.parts:
            result |= kernels.gather(
                stream.data, stream.time, stream.diff, self.keep_stream, self.keep_batch, self.addresses,
                starts, pairs, wanted, data, time, diff, start,
            )  # fmt: skip
        if result & kernels.OVERFLOW:
            raise DataError(
                "multiplicity overflow: a joined row occurs more often than a 64-bit count can hold"
            )
        if wanted & kernels.TIMES and not result & kernels.VARIED:
            time = time[:, :1].copy()
        self.parts, self.total = [], 0
        state[seek.LATE] = state[seek.COUNTED] = 0
        return Updates(data, time, diff)


FEW: Final = MANY
"""Stream rows for which room for their matches is made without asking how many there are."""

EACH: Final = 2
"""Matches of a stream row for which there is room at first."""


class Meeting:
    """The columns by which a stream meets a trace, and those that are kept of both; see ``lookup``."""

    __slots__ = ("_each", "columns", "key", "leading", "width")

    def __init__(self, key: tuple[int, ...], keep_stream: Words, keep_batch: Words) -> None:
        counts = [len(key), keep_stream.shape[0], keep_batch.shape[0]]
        self.columns: Words = np.array([*counts, *key, *keep_stream, *keep_batch], np.int64)
        """As ``kernels.meet`` takes them."""
        self.key = len(key)
        self.leading = bool(key) and key == tuple(range(len(key)))
        """Whether a stream that is sorted is sorted by the key."""
        self.width = counts[1] + counts[2]
        self._each = EACH
        """Matches of a stream row for which room is made: about as many as there were, within limits."""

    def of(
        self, stream: Updates, sought: Sought, order: Order, closed: int, floor: int, origin: int
    ) -> Updates | None:
        """All pairs as updates, as ``lookup`` describes them; None if it takes ``lookup`` to make them."""
        data, time = stream.data, stream.time
        n, depth = data.shape[1], time.shape[0]
        if n > FEW:
            return None
        if sought.head is not None:
            sought.head.serve(self.key)
        width = self.width
        while True:
            room = min(self._each * n, MOST_ROOM) + LEAST_ROOM
            buffer = np.empty(1 + (width + 3 + depth) * room, np.int64)
            count = kernels_meet.meet(
                data, time, stream.diff, self.columns, sought.addresses, order.value,
                self.leading and stream.ordered, closed, floor, origin, room, buffer,
            )  # fmt: skip
            if count != kernels_meet.FULL or room >= MOST_ROOM:
                break
            self._each *= 4
        if count < 0:
            return None
        found = buffer[1 : 1 + width * count].reshape(width, count)
        if not count:
            return Updates(found, time, stream.diff)
        told, beside = buffer.item(0), 1 + width * room
        if told & (kernels_meet.TIMES | kernels_meet.ONE_TIME):
            time = buffer[beside + room : beside + room + depth * count].reshape(depth, count)
            if told & kernels_meet.ONE_TIME:
                time = time[:, :1].copy()
        diff = buffer[beside : beside + count] if told & kernels_meet.DIFFS else stream.diff
        return Updates(found, time, diff)
