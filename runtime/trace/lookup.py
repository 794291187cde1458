"""Lookups of a stream's rows in a trace: the only way to read arrangements by key.

:class:`KeyMatcher` handles a short stream in one compiled call; :func:`lookup` handles any stream.
"""

import enum
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

import numpy as np

from kpg.runtime.errors import DataError
from kpg.runtime.kernels import meet as kernels_meet
from kpg.runtime.kernels import pairs as kernels_pairs
from kpg.runtime.kernels import seek
from kpg.runtime.kernels.links import LEAST_ROOM, MANY, MOST_ROOM
from kpg.runtime.trace.batch import Layers, LookupTarget
from kpg.runtime.trace.updates import Updates, Words


class Order(enum.Enum):
    """Which arrangement updates a stream update matches.

    A step processes times by their rounds, and equal rounds by their epoch: a linear extension of the
    product order. Updates of closed epochs come before all others.
    """

    ANY = seek.ANY
    """All updates."""
    THROUGH = seek.THROUGH
    """Earlier updates and those of the same time."""
    BEFORE = seek.BEFORE
    """Earlier updates."""


@cache
def _key_columns(key: tuple[int, ...]) -> Words:
    return np.array(key, np.int64)


def lookup(
    stream: Updates,
    key: tuple[int, ...],
    target: LookupTarget | Layers,
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
    """Yield all pairs of a stream row s and an arrangement row r with ``s[key[i]] == r[i]`` for every i.

    ``key`` may be shorter than the arrangement's rows (a prefix) or empty (a cross product). An output
    row has the stream columns ``keep_stream`` and the arrangement columns ``keep_batch`` (both
    ``int64[]``), the least upper bound of the times, and the product of the diffs. Pieces have 1 to
    ``chunk`` rows, in no particular order and not consolidated. A sorted stream is faster.

    For ``order``, arrangement epochs below ``closed`` are closed, and those below ``floor`` count as
    ``floor``:

    =========  =====================  =====================  =======================================
    step       ``closed``             ``floor``              why
    =========  =====================  =====================  =======================================
    usual      its first epoch        the epoch before       earlier updates precede the whole step
    hydrating  the last closed epoch  the last closed epoch  all history is at that epoch
    =========  =====================  =====================  =======================================

    An arrangement of an outer scope has fewer time coordinates than the stream; missing ones are 0.

    The time to compare begins at row ``origin`` of the stream's times. On a delta join's path with
    several lookups it must be the original time of the change. An earlier match may have raised the time
    above updates that will themselves find this change. Comparing with the raised time would count the
    pair twice. So the times of such a stream are the least upper bound so far, then, from row ``origin``
    on, the original time.

    Memory is in proportion to ``chunk``. ``poll`` is called about every tenth of a second without
    output.

    Raises:
        DataError: If a product of diffs does not fit 64 bits.
    """
    n = len(stream)
    if n == 0 or not target:
        return
    if target.head is not None:
        target.head.hash_prefix(len(key))
    is_sorted_by_key = stream.ordered and len(key) > 0 and key == tuple(range(len(key)))
    columns, addresses = _key_columns(key), target.addresses
    layers = addresses.shape[0]
    state = np.zeros(seek.EARLIEST + stream.depth, np.int64)
    state[seek.LAYER] = -1
    matches = _Pairs(stream, keep_stream, keep_batch, addresses, state)
    room, pairs = 2 * n + 64, None
    while True:
        room = min(room, chunk - matches.total)
        if pairs is None or pairs.shape[1] != room:
            pairs, starts = np.empty((2, room), np.int64), np.empty(layers + 1, np.int64)
        count = seek.match(
            stream.data, columns, stream.time, origin, addresses, order.value, is_sorted_by_key, closed,
            floor, state, starts, pairs,
        )  # fmt: skip
        layer = state.item(seek.LAYER)
        needs_directory, count = count < 0, count if count >= 0 else -1 - count
        if count:
            matches.parts.append((starts, pairs, matches.total))
            matches.total += count
            pairs = None
        is_done = layer == layers
        if matches.total == chunk or (is_done and matches.total):
            yield matches.take_updates()
        if is_done:
            return
        if needs_directory:
            target.batches[layer].build_directory()
        elif count == room:
            room *= 4
        elif poll is not None:
            poll()


class _Pairs:
    """Matched pairs before their conversion to updates.

    Each part is (starts, pairs, first output position).
    """

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

    def take_updates(self) -> Updates:
        """Return the updates of all pairs so far and clear them."""
        stream, total, state = self.stream, self.total, self.state
        data = np.empty((self.keep_stream.shape[0] + self.keep_batch.shape[0], total), np.int64)
        time, diff = stream.time, stream.diff
        output_flags = 0
        if time.shape[1] > 1 or state[seek.LATE]:
            time = np.empty((stream.depth, total), np.int64)
            output_flags = kernels_pairs.TIMES
        if diff.shape[0] > 1 or state[seek.COUNTED]:
            diff = np.empty(total, np.int64)
            output_flags |= kernels_pairs.DIFFS
        result = 0
        for starts, pairs, start in self.parts:
            result |= kernels_pairs.gather(
                stream.data, stream.time, stream.diff, self.keep_stream, self.keep_batch, self.addresses,
                starts, pairs, output_flags, data, time, diff, start,
            )  # fmt: skip
        if result & kernels_pairs.OVERFLOW:
            raise DataError(
                "multiplicity overflow: a joined row occurs more often than a 64-bit count can hold"
            )
        if output_flags & kernels_pairs.TIMES and not result & kernels_pairs.VARIED:
            time = time[:, :1].copy()
        self.parts, self.total = [], 0
        state[seek.LATE] = state[seek.COUNTED] = 0
        return Updates(data, time, diff)


MAX_MATCHER_ROWS: Final = MANY
"""Stream rows up to which room for matches is reserved without counting them first."""

INITIAL_MATCHES_PER_ROW: Final = 2
"""Matches of a stream row for which room is reserved at first."""


class KeyMatcher:
    """Key and output columns of a lookup, for short streams; see ``lookup``."""

    __slots__ = ("_matches_per_row", "columns", "has_leading_key", "key", "width")

    def __init__(self, key: tuple[int, ...], keep_stream: Words, keep_batch: Words) -> None:
        counts = [len(key), keep_stream.shape[0], keep_batch.shape[0]]
        self.columns: Words = np.array([*counts, *key, *keep_stream, *keep_batch], np.int64)
        """The column lists in the layout of ``runtime.kernels.meet``."""
        self.key = len(key)
        self.has_leading_key = bool(key) and key == tuple(range(len(key)))
        """Whether the key is the stream's first columns, so that a sorted stream is sorted by the key."""
        self.width = counts[1] + counts[2]
        self._matches_per_row = INITIAL_MATCHES_PER_ROW
        """Matches of a stream row for which room is reserved; adapts to the matches seen, within limits."""

    def match(
        self, stream: Updates, target: LookupTarget, order: Order, closed: int, floor: int, origin: int
    ) -> Updates | None:
        """Return all pairs as updates, as ``lookup`` describes them; None if they need ``lookup``."""
        data, time = stream.data, stream.time
        n, depth = data.shape[1], time.shape[0]
        if n > MAX_MATCHER_ROWS:
            return None
        if target.head is not None:
            target.head.hash_prefix(self.key)
        width = self.width
        while True:
            room = min(self._matches_per_row * n, MOST_ROOM) + LEAST_ROOM
            buffer = np.empty(1 + (width + 3 + depth) * room, np.int64)
            count = kernels_meet.match_few(
                data, time, stream.diff, self.columns, target.addresses, order.value,
                self.has_leading_key and stream.ordered, closed, floor, origin, room, buffer,
            )  # fmt: skip
            if count != kernels_meet.FULL or room >= MOST_ROOM:
                break
            self._matches_per_row *= 4
        if count < 0:
            return None
        rows = buffer[1 : 1 + width * count].reshape(width, count)
        if not count:
            return Updates(rows, time, stream.diff)
        flags, beside = buffer.item(0), 1 + width * room
        if flags & (kernels_meet.TIMES | kernels_meet.ONE_TIME):
            time = buffer[beside + room : beside + room + depth * count].reshape(depth, count)
            if flags & kernels_meet.ONE_TIME:
                time = time[:, :1].copy()
        diff = buffer[beside : beside + count] if flags & kernels_meet.DIFFS else stream.diff
        return Updates(rows, time, diff)
