"""Few stream rows and a trace: what :func:`~kpg.runtime.trace.lookup.lookup` does, in one compiled call."""

from typing import Final

import numpy as np

from kpg.runtime.kernels import meet as kernels
from kpg.runtime.kernels.links import LEAST_ROOM, MANY, MOST_ROOM
from kpg.runtime.trace.batch import Sought
from kpg.runtime.trace.lookup import Order
from kpg.runtime.trace.updates import Updates, Words

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
            count = kernels.meet(
                data, time, stream.diff, self.columns, sought.addresses, order.value,
                self.leading and stream.ordered, closed, floor, origin, room, buffer,
            )  # fmt: skip
            if count != kernels.FULL or room >= MOST_ROOM:
                break
            self._each *= 4
        if count < 0:
            return None
        found = buffer[1 : 1 + width * count].reshape(width, count)
        if not count:
            return Updates(found, time, stream.diff)
        told, beside = buffer.item(0), 1 + width * room
        if told & (kernels.TIMES | kernels.ONE_TIME):
            time = buffer[beside + room : beside + room + depth * count].reshape(depth, count)
            if told & kernels.ONE_TIME:
                time = time[:, :1].copy()
        diff = buffer[beside : beside + count] if told & kernels.DIFFS else stream.diff
        return Updates(found, time, diff)
