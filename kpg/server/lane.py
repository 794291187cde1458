"""The fast lane: requests that come again and again go from the socket to the engine without a detour.

It is used while the client's task waits for its next message, and has nothing else to do. Replies are sent in
the order of requests; what cannot be done here is handed on to the task when all before it has been answered.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from kpg.result import Result
from kpg.runtime.types import Type
from kpg.server import quick, replies
from kpg.server.portal import Portal, encoded, shape_of_result, spread
from kpg.server.requests import Request, requests
from kpg.sessions.texts import word_of
from kpg.sessions.turns import Ending
from kpg.transaction import State

if TYPE_CHECKING:
    from kpg.engine import Engine
    from kpg.server.client import Client

STATUS: Final = {State.NONE: "I", State.OPEN: "T", State.FAILED: "E"}
FEW: Final = 2_000
"""So many rows are a reply that is put together at once; more are sent bit by bit."""
MOST_UNSENT: Final = 1 << 16
MOST_HELD: Final = 1 << 20
"""Bytes that a client has not taken, and that it has sent ahead, while requests are taken here."""


class Lane(asyncio.StreamReader):
    """What a client's bytes come through."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._client: Client | None = None
        self._held: list[bytes] = []
        self._replies: deque[Reply] = deque()
        self._at_end = False
        self.left: Callable[[], object] | None = None
        """Called when the client has gone."""

    def open_for(self, client: "Client") -> None:
        """The client's task waits for the next request, unless something has come already."""
        self._client = None if self._buffer else client  # type: ignore[attr-defined]

    def close(self) -> None:
        """The task goes on."""
        self._client = None

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]
        """Bytes have come."""
        if self._replies:
            self._held.append(bytes(data))
            if sum(map(len, self._held)) > MOST_HELD:
                self._pause(paused=True)
        elif self._client is None or self._client.unsent > MOST_UNSENT:
            super().feed_data(data)
        else:
            self._take(bytes(data))

    def feed_eof(self) -> None:
        """No more will come."""
        if self.left is not None:
            self.left()
        if self._replies:
            self._at_end = True
        else:
            super().feed_eof()

    def _pause(self, *, paused: bool) -> None:
        transport = self._transport  # type: ignore[attr-defined]
        if transport is not None and not transport.is_closing():
            (transport.pause_reading if paused else transport.resume_reading)()

    def _take(self, data: bytes) -> None:
        client, stop = self._client, 0
        assert client is not None
        for request in requests(data):
            reply = Reply(self, client, request)
            if not reply.begin():
                break
            self._replies.append(reply)
            stop = request.stop
        rest = data[stop:]
        if not rest:
            return
        if self._replies:
            self._held.append(rest)
        else:
            self._hand_on(rest)

    def _hand_on(self, data: bytes) -> None:
        """Leave what has come to the client's task."""
        self._client = None
        super().feed_data(data)

    def done(self) -> None:
        """Send what is complete, and go on with what has come meanwhile."""
        client = self._replies[0].client
        while self._replies and self._replies[0].data is not None:
            client.write(self._replies.popleft().data or b"")
        if self._replies:
            first = self._replies[0]
            if first.long is not None:
                first.send_long()
            return
        client.busy = False
        if self._held:
            # The task still waits.
            held, self._held = b"".join(self._held), []
            if len(held) > MOST_HELD:
                self._pause(paused=False)
            self._hand_on(held) if client.unsent > MOST_UNSENT else self._take(held)
        if self._at_end and not self._replies:
            super().feed_eof()


class Reply:
    """One request on its way to the engine and back."""

    __slots__ = ("_begun", "_formats", "_lane", "_ready", "_request", "_word", "client", "data", "long")

    def __init__(self, lane: Lane, client: "Client", request: Request) -> None:
        self.client = client
        self.data: bytes | None = None
        """The reply, once it is complete."""
        self.long: Result | None = None
        """Rows that are too many to be sent at once."""
        self._lane = lane
        self._request = request
        self._formats: Sequence[int] = request.results
        self._word = ""
        self._begun = 0.0
        self._ready = b""

    def begin(self) -> bool:
        """Have the statement run; False if it cannot be run here."""
        request, session = self._request, self.client.session
        asked = self.client.asked(request)
        word = None if asked is None else word_of(asked[0])
        if asked is None or word is None or session is None:
            return False
        text, values = asked
        session.asked = text
        self._word = word
        engine = self.client.server.hub.engine
        how = session.how(text, values)
        self.client.busy = True
        self._begun = time.monotonic()
        self.client.server.turns.hand_in(
            session, lambda: self._answered(engine, session.answer(engine, text, values)), self._finish, **how
        )
        return True

    def _answered(self, engine: "Engine", outcome: Result | None) -> bytes | Result | None:
        """What is sent; an outcome that is a mere count, or too long, as it is."""
        shape = shape_of_result(outcome)
        if outcome is None or shape is None or len(outcome) > FEW:
            return outcome
        formats = spread(self._formats, len(outcome.types))
        rows = encoded(outcome, 0, FEW, formats, engine.executor.dictionary, engine.catalog.style)
        count = quick.tag_of(self._word, outcome)
        return self._head(outcome) + replies.data(rows) + completed(count)

    def _head(self, outcome: Result) -> bytes:
        """What comes before the rows."""
        shown = self._request.described or self._request.name is None
        formats = tuple(spread(self._formats, len(outcome.types)))
        shape = described(tuple(outcome.columns), tuple(outcome.types), formats) if shown else b""
        return shape if self._request.name is None else replies.BOUND + shape

    def _finish(self, ending: Ending) -> None:
        """The engine is done with it."""
        outcome = ending.result
        if (took := time.monotonic() - self._begun) >= self.client.server.limits.slow:
            asked = self.client.asked(self._request)
            self.client.took("" if asked is None else asked[0], took)
        prepared = self._request.name is not None
        ready = self._ready = replies.ready(STATUS[ending.state])
        if ending.error is not None:
            self.data = (replies.BOUND if prepared else b"") + replies.failure(ending.error) + ready
        elif isinstance(outcome, bytes):
            self.data = outcome + ready
        elif shape_of_result(outcome) is None:
            head = replies.BOUND if prepared else b""
            head += replies.NO_DATA if self._request.described else b""
            self.data = head + completed(quick.tag_of(self._word, outcome)) + ready
        else:
            self.long = outcome
        self._lane.done()

    def send_long(self) -> None:
        """Send many rows as fast as the client takes them."""
        outcome, self.long = self.long, None
        assert outcome is not None
        self.client.server.look_after(self._send(outcome))

    async def _send(self, outcome: Result) -> None:
        portal = Portal(None, self._formats)
        portal.outcome, portal.ran = outcome, True
        try:
            self.client.send(self._head(outcome))
            await self.client.send_rows(portal, 0)
        except ConnectionError:
            # The client has gone: its task is told so, too.
            pass
        finally:
            self.data = completed(quick.tag_of(self._word, outcome)) + self._ready
            self._lane.done()


@lru_cache(256)
def completed(tag: str) -> bytes:
    """CommandComplete."""
    return replies.complete(tag)


@lru_cache(256)
def described(names: tuple[str, ...], types: tuple[Type, ...], formats: tuple[int, ...]) -> bytes:
    """RowDescription."""
    return replies.description(names, types, formats)
