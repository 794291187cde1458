"""The fast lane: requests that come again and again go from the socket to the engine without a detour.

It is used while the client's task waits for its next message, and has nothing else to do. Replies are sent in
the order of requests; what cannot be done here is handed on to the task when all before it has been answered.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from kpg.result import Affected, Result
from kpg.runtime.records import dataclass
from kpg.runtime.types import Type
from kpg.server import quick, replies
from kpg.server.portal import Portal, Prepared, encoded, shape_of_result, spread
from kpg.server.quick import taken
from kpg.server.requests import Repeated, Request, again, name_at, repeated, request_at
from kpg.sessions.texts import gathers, is_light, word_of
from kpg.transaction import State

if TYPE_CHECKING:
    from kpg.engine import Engine
    from kpg.keyed import Keyed, Merged
    from kpg.server.client import Client
    from kpg.server.wires import Wire
    from kpg.sessions.jobs import Ready

STATUS: Final = {State.NONE: "I", State.OPEN: "T", State.FAILED: "E"}
FEW: Final = 2_000
"""So many rows are a reply that is put together at once; more are sent bit by bit."""
MOST_UNSENT: Final = 1 << 16
MOST_HELD: Final = 1 << 20
"""Bytes that a client has not taken, and that it has sent ahead, while requests are taken here."""

MOST_USUAL: Final = 64
"""Statements of a client whose way is remembered."""
NOTHING: Final = Repeated(b"", 0, b"", 0)
ONE: Final = Affected(1)
"""What most INSERTs give."""


class Lane(asyncio.StreamReader):
    """What a client's bytes come through."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._client: Client | None = None
        self._held: list[bytes] = []
        self._replies: deque[Reply] = deque()
        self._at_end = False
        self._usual: dict[bytes, Usual] = {}
        """Prepared statements that have come, by name."""
        self.wire: Wire | None = None
        """What reads from the client, if not the transport."""
        self.left: Callable[[], object] | None = None
        """Called when the client has gone."""

    def open_for(self, client: "Client") -> None:
        """The client's task waits for the next request, unless something has come already."""
        self._client = None if self._buffer else client  # type: ignore[attr-defined]

    def adopted(self, wire: "Wire") -> None:
        """Another reads from the client from now on than its transport, which has been paused."""
        self.wire = self._transport = wire
        if not self._paused:  # type: ignore[attr-defined]
            wire.resume_reading()

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
        transport = self._transport
        if transport is not None and not transport.is_closing():
            (transport.pause_reading if paused else transport.resume_reading)()

    def _take(self, data: bytes) -> None:
        client, stop, end = self._client, 0, len(data)
        assert client is not None
        while stop < end:
            reply = self._again(client, data, stop) or self._first(client, data, stop)
            if reply is None:
                break
            self._replies.append(reply)
            client.busy = True
            client.server.turns.take(reply)
            stop = reply.stop
        if stop == end:
            return
        rest = data[stop:] if stop else data
        if self._replies:
            self._held.append(rest)
        else:
            self._hand_on(rest)

    def _again(self, client: "Client", data: bytes, start: int) -> "Reply | None":
        """The request that begins at ``start``, if it is as one before, but for its values."""
        name = name_at(data, start)
        usual = None if name is None else self._usual.get(name)
        if usual is None or client.prepared(usual.name) is not usual.prepared:
            return None
        found = again(data, start, usual.known)
        if found is None:
            return None
        values = taken(found[0], usual.takers)
        return None if values is None else Reply(self, client, usual, values or None, found[1])

    def _first(self, client: "Client", data: bytes, start: int) -> "Reply | None":
        """The request that begins at ``start``; None if it cannot be run here."""
        request = request_at(data, start)
        if request is None:
            return None
        asked = client.asked(request)
        word = None if asked is None else word_of(asked[0])
        if asked is None or word is None:
            return None
        usual = Usual.of(client, request, asked[0], word, data)
        if request.name is not None:
            if len(self._usual) >= MOST_USUAL:
                self._usual.clear()
            self._usual[request.name.encode()] = usual
        return Reply(self, client, usual, asked[1], request.stop)

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
        client.rest()
        if self._held:
            # The task still waits.
            held, self._held = b"".join(self._held), []
            if len(held) > MOST_HELD:
                self._pause(paused=False)
            self._hand_on(held) if client.unsent > MOST_UNSENT else self._take(held)
        if self._at_end and not self._replies:
            super().feed_eof()


class Plug(asyncio.StreamReaderProtocol):
    """Tells a lane's wire that the connection is lost, before its number can be another's."""

    def __init__(
        self, lane: Lane, came: Callable[..., Awaitable[None]], loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(lane, came, loop=loop)
        self._lane = lane

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        if self._lane.wire is not None:
            self._lane.wire.forget()
        super().connection_lost(exc)


@dataclass(frozen=True, slots=True)
class Usual:
    """A statement that may come again with other values: as it is asked for, and as it is answered."""

    text: str
    word: str
    name: str
    """Of the prepared statement; ``prepared`` is None for the text of a Query."""
    prepared: Prepared | None
    takers: Sequence[quick.Taker]
    known: Repeated
    described: bool
    formats: tuple[int, ...]
    adds: bool | Callable[["Engine"], bool]

    @staticmethod
    def of(client: "Client", request: Request, text: str, word: str, data: bytes) -> "Usual":
        """Of the first request for it."""
        prepared = None if request.name is None else client.prepared(request.name)
        takers: Sequence[quick.Taker] = ()
        known = NOTHING
        if prepared is not None:
            formats = spread(request.formats, len(request.values))
            takers = quick.takers_of(formats, prepared.parameters) or ()
            known = repeated(data, request)
        name = request.name or ""
        return Usual(
            text, word, name, prepared, takers, known, request.described, request.results, gathers(text)
        )


class Reply:
    """One request on its way to the engine and back: a job, and who waits for it."""

    __slots__ = (
        "_begun",
        "_error",
        "_lane",
        "_outcome",
        "_ready",
        "_state",
        "_usual",
        "_values",
        "client",
        "commits",
        "data",
        "long",
        "returns",
        "rolls_back",
        "session",
        "stop",
    )

    def __init__(
        self, lane: Lane, client: "Client", usual: Usual, values: list[Any] | None, stop: int
    ) -> None:
        assert client.session is not None
        self.session = client.session
        self.session.asked = usual.text
        self.rolls_back = self.commits = self.returns = False
        self.client = client
        self.data: bytes | None = None
        """The reply, once it is complete."""
        self.long: Result | None = None
        """Rows that are too many to be sent at once."""
        self.stop = stop
        """Where the request ends in what has come."""
        self._lane = lane
        self._usual = usual
        self._values = values
        self._begun = time.monotonic()
        self._ready = b""
        self._outcome: Result | bytes | None = None
        self._error: BaseException | None = None
        self._state = State.NONE

    # As a job

    def work(self) -> bytes | Result | None:
        """See Job."""
        engine = self.client.server.hub.engine
        return self._answered(engine, self.session.answer(engine, self._usual.text, self._values))

    def gathers(self, engine: "Engine") -> bool:
        """See Job."""
        adds = self._usual.adds
        return adds if isinstance(adds, bool) else adds(engine)

    def ready(self, engine: "Engine") -> "Ready | Keyed | Merged | None":
        """See Job."""
        if self._usual.adds is False:
            return None
        return self.session.rows(engine, self._usual.text, self._values, ONE)

    def is_light(self, engine: "Engine") -> bool:
        """See Job."""
        return self._usual.adds is True or is_light(self._usual.text, engine)

    def begin(self) -> bool:
        """See Job: it is wanted, whatever has become of the client: others may see its effect."""
        return True

    def succeed(self, result: Any) -> None:
        """See Job."""
        self._outcome = result
        self._state = self.session.transactions.state
        self.client.server.turns.finished(self._finish)

    def fail(self, error: BaseException) -> None:
        """See Job."""
        self._error = error
        self._state = self.session.transactions.state
        self.client.server.turns.finished(self._finish)

    # As what is sent

    def _answered(self, engine: "Engine", outcome: Result | None) -> bytes | Result | None:
        """What is sent; an outcome that is a mere count, or too long, as it is."""
        shape = shape_of_result(outcome)
        if outcome is None or shape is None or len(outcome) > FEW:
            return outcome
        formats = spread(self._usual.formats, len(outcome.types))
        rows = encoded(outcome, 0, FEW, formats, engine.executor.dictionary, engine.catalog.style)
        count = quick.tag_of(self._usual.word, outcome)
        return self._head(outcome) + replies.data(rows) + completed(count)

    def _head(self, outcome: Result) -> bytes:
        """What comes before the rows."""
        usual = self._usual
        shown = usual.described or usual.prepared is None
        formats = tuple(spread(usual.formats, len(outcome.types)))
        shape = described(tuple(outcome.columns), tuple(outcome.types), formats) if shown else b""
        return shape if usual.prepared is None else replies.BOUND + shape

    def _finish(self) -> None:
        """The engine is done with it."""
        outcome, usual = self._outcome, self._usual
        if (took := time.monotonic() - self._begun) >= self.client.server.limits.slow:
            self.client.took(usual.text, took)
        prepared = usual.prepared is not None
        if self._error is not None:
            failure = replies.failure(self._error) + replies.ready(STATUS[self._state])
            self.data = (replies.BOUND if prepared else b"") + failure
        elif isinstance(outcome, bytes):
            self.data = outcome + replies.ready(STATUS[self._state])
        elif outcome is None or isinstance(outcome, Affected):
            count = 0 if outcome is None else outcome.affected
            self.data = counted(usual.word, count, self._state, prepared, usual.described)
        else:
            self.long = outcome
            self._ready = replies.ready(STATUS[self._state])
        self._lane.done()

    def send_long(self) -> None:
        """Send many rows as fast as the client takes them."""
        outcome, self.long = self.long, None
        assert outcome is not None
        self.client.server.look_after(self._send(outcome))

    async def _send(self, outcome: Result) -> None:
        portal = Portal(None, self._usual.formats)
        portal.outcome, portal.ran = outcome, True
        try:
            self.client.send(self._head(outcome))
            await self.client.send_rows(portal, 0)
        except ConnectionError:
            # The client has gone: its task is told so, too.
            pass
        finally:
            self.data = completed(quick.tag_of(self._usual.word, outcome)) + self._ready
            self._lane.done()


@lru_cache(256)
def completed(tag: str) -> bytes:
    """CommandComplete."""
    return replies.complete(tag)


@lru_cache(1024)
def counted(word: str, count: int, state: State, prepared: bool, described: bool) -> bytes:
    """The whole reply to a statement that gives a count."""
    head = (replies.BOUND if prepared else b"") + (replies.NO_DATA if described else b"")
    return head + completed(f"{quick.TAGS[word]} {count}") + replies.ready(STATUS[state])


@lru_cache(256)
def described(names: tuple[str, ...], types: tuple[Type, ...], formats: tuple[int, ...]) -> bytes:
    """RowDescription."""
    return replies.description(names, types, formats)
