"""Replaying recorded changes into a dataflow."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from kpg.collections.outputs import Captured
from kpg.collections.session import Input
from kpg.runtime.errors import InterfaceError

Change = tuple[Any, int, int]


class Replay:
    """Feeds an input from a record; from one that grows, as it grows."""

    def __init__(self, session: Input, changes: Captured | Iterable[Change]) -> None:
        self._session = session
        self._source = changes if isinstance(changes, Captured) else None
        self._rest: list[Change] = [] if isinstance(changes, Captured) else list(changes)
        self._position = 0

    def pull(self) -> None:
        """Take what is new, and let the input come as far as the record has."""
        if self._session.closed:
            return
        if self._source is None:
            self._feed(self._rest)
            self._session.close()
            return
        found, self._position = self._source.since(self._position)
        self._feed(found)
        time = self._source.time
        if time is None:
            self._session.close()
        elif time > self._session.time:
            self._session.advance_to(time)

    def _feed(self, changes: list[Change]) -> None:
        if not changes:
            return
        times = [time for _, time, _ in changes]
        if min(times) < self._session.time:
            raise InterfaceError(
                f"the record begins at time {min(times)}, "
                f"and {self._session.name} is at {self._session.time}",
                hint="replay it into a database of its own, or shift its times",
            )
        self._session.update_many(
            [row for row, _, _ in changes],
            np.array([diff for _, _, diff in changes], np.int64),
            np.array(times, np.int64),
        )
