"""The fast lane: requests that come again and again go from the socket to the engine without a detour.

It is used while the client's task waits for its next message, and has nothing else to do. Replies are sent in
the order of requests; what cannot be done here is handed on to the task when all before it has been answered.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from kpg.server.quick import taken
from kpg.server.reply import Reply, Usual
from kpg.server.requests import again, name_at, request_at
from kpg.sessions.texts import word_of

if TYPE_CHECKING:
    from kpg.server.client import Client
    from kpg.server.crowd import Form
    from kpg.server.wires import Wire
    from kpg.sessions.session import Session

MOST_UNSENT: Final = 1 << 16
MOST_HELD: Final = 1 << 20
"""Bytes that a client has not taken, and that it has sent ahead, while requests are taken here."""

MOST_USUAL: Final = 64
"""Statements of a client whose way is remembered."""


class Lane(asyncio.StreamReader):
    """What a client's bytes come through."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._client: Client | None = None
        self._held: list[bytes] = []
        self._replies: deque[Reply] = deque()
        self._at_end = self._joined = False
        self._form: Form | None = None
        self._formed: Usual | None = None
        """The form of the last request's statement, if it has one."""
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
        if self.wire is not None:
            self.wire.form = None
        if self._replies or self._joined:
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
        if self._replies or self._joined:
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
        if self.wire is not None:
            self.wire.form = None
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

    def _again(self, client: "Client", data: bytes, start: int) -> Reply | None:
        """The request that begins at ``start``, if it is as one before, but for its values."""
        name = name_at(data, start)
        usual = None if name is None else self._usual.get(name)
        if usual is None or not client.goes_on_as(usual.name, usual.prepared):
            return None
        found = again(data, start, usual.known)
        if found is None:
            return None
        values = taken(found[0], usual.takers)
        return None if values is None else Reply(self, client, usual, values or None, found[1])

    def _first(self, client: "Client", data: bytes, start: int) -> Reply | None:
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
        self._note(None)
        super().feed_data(data)

    def done(self) -> None:
        """Send what is complete, and go on with what has come meanwhile."""
        first = self._replies[0]
        client = first.client
        while self._replies and self._replies[0].data is not None:
            first = self._replies.popleft()
            client.write(first.data or b"")
            self._note(first)
        if self._replies:
            first = self._replies[0]
            if first.long is not None:
                first.send_long()
            return
        if self.wire is not None:
            self.wire.form = self._form
        client.rest()
        self._go_on(client)

    def _note(self, last: Reply | None) -> None:
        """Remember the form of the last request, which the next is likely to have, too."""
        if last is None or not last.is_plain:
            self._form = self._formed = None
        elif last.form is not None:
            self._form, self._formed = last.form, last.usual
        elif last.usual is not self._formed:
            self._form = self._formed = None

    def join(self) -> "Session":
        """What has come is done with that of others: what comes until :meth:`leave` waits."""
        client = self._client
        assert client is not None
        assert client.session is not None
        self._joined = client.busy = True
        return client.session

    def leave(self, data: bytes = b"") -> None:
        """It is done, but for ``data``."""
        self._joined = False
        client = self._client
        if client is None:
            return
        if data:
            self._held.insert(0, data)
        else:
            client.rest()
        if self._held or self._at_end:
            self._go_on(client)

    def write(self, data: bytes) -> None:
        """Send something at once."""
        if self._client is not None:
            self._client.write(data)

    def took(self, text: str, seconds: float) -> None:
        """Take note of a statement that has taken long."""
        if self._client is not None:
            self._client.took(text, seconds)

    def _go_on(self, client: "Client") -> None:
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
