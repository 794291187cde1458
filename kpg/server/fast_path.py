"""Fast path: repeated requests go from the socket to the engine without waking the client's task.

A client's fast path is active while its task waits for the next message and has no other work. Replies are
sent in the order of the requests. A request that the fast path cannot serve goes to the task, after all
earlier ones are answered.

One event-loop callback reads the sockets of all clients, instead of one transport wake-up per client. It
covers plain TCP connections from login to close. The transports still write, and they still notice a lost
connection. With TLS, or without epoll, the transports also read.
"""

import asyncio
import errno
import os
import select
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol

from kpg.api.result import Result, row_count
from kpg.execute.scripts import is_light, word_of
from kpg.runtime.errors import CanceledError
from kpg.runtime.types import Type
from kpg.server import messages, statement_cache
from kpg.server.batched_inserts import Form, Forms
from kpg.server.interfaces import Services
from kpg.server.messages import Pace
from kpg.server.portal import Portal, Prepared, Usual, encoded, shape_of_result, spread
from kpg.server.statement_cache import Request, again, name_at, request_at, taken
from kpg.session.cancel import deadline_of
from kpg.session.group_commit import Ready
from kpg.session.session import Session
from kpg.session.transaction import State

if TYPE_CHECKING:
    from kpg.execute.changes.keyed_changes import Keyed, Merged
    from kpg.session.engine import Engine


STATUS: Final = {State.NONE: "I", State.OPEN: "T", State.FAILED: "E"}
FEW: Final = 2_000
"""So many rows are a reply that is put together at once, if they are so little; more are sent in pieces."""
LITTLE: Final = 1 << 20
"""Bytes."""
ONE: Final = row_count(1)
"""What most INSERTs give."""


class LaneClient(Protocol):
    """What the fast path uses of a client."""

    session: Session | None
    busy: bool
    """Whether a request is being done or answered."""

    @property
    def server(self) -> Services:
        """The server's services."""

    @property
    def unsent(self) -> int:
        """Bytes that the client has not taken."""

    def write(self, data: bytes) -> None:
        """Send at once."""

    def send(self, data: bytes) -> None:
        """Send with what follows, before the next message is waited for."""

    def send_rows(self, portal: Portal, most: int) -> Awaitable[int]:
        """Send up to ``most`` rows (0: all) of a portal, and return how many."""

    def rest(self) -> None:
        """Note that the request is done, and cannot be canceled any more."""

    def took(self, text: str, seconds: float) -> None:
        """Log a statement if it took long."""

    def fail(self) -> Awaitable[None]:
        """Mark the open transaction as failed."""

    def prepared(self, name: str) -> Prepared | None:
        """Return the prepared statement of a name."""

    def goes_on_as(self, name: str, prepared: Prepared | None) -> bool:
        """Return whether a name still has a prepared statement, with the columns that its client knows."""

    def asked(self, request: Request) -> tuple[str, list[Any] | None] | None:
        """Return the text and the values of a request, if it may be run from these."""


class Reply:
    """One request on its way to the engine and back: a job, and who waits for it."""

    __slots__ = (
        "_before",
        "_begun",
        "_error",
        "_lane",
        "_outcome",
        "_ready",
        "_state",
        "_values",
        "client",
        "commits",
        "data",
        "form",
        "long",
        "returns",
        "rolls_back",
        "session",
        "stop",
        "usual",
    )

    def __init__(
        self, lane: "Lane", client: LaneClient, usual: Usual, values: list[Any] | None, stop: int
    ) -> None:
        assert client.session is not None
        self.session = client.session
        self.session.asked = usual.text
        self.rolls_back = self.commits = self.returns = False
        self.client = client
        self.data: bytes | None = None
        """The reply, once it is complete."""
        self.form: Form | None = None
        """What its statement is one of, if it was done as such."""
        self.long: Result | None = None
        """Rows that are too many to be sent at once."""
        self.stop = stop
        """Where the request ends in what has come."""
        self._lane = lane
        self.usual = usual
        self._values = values
        self._begun = time.monotonic()
        self._ready = self._before = b""
        self._outcome: Result | bytes | None = None
        self._error: BaseException | None = None
        self._state = State.NONE

    # As a job

    @property
    def sessions(self) -> None:
        """See Job."""

    def work(self) -> bytes | Result | None:
        """See Job."""
        engine = self.client.server.hub.engine
        dictionary, kept = engine.executor.dictionary, True
        dictionary.begin_reply()
        try:
            answer = self._answered(engine, self.session.answer(engine, self.usual.text, self._values))
            kept = isinstance(answer, Result)
        finally:
            dictionary.end_reply(kept=kept)
        return answer

    def gathers(self, engine: "Engine") -> bool:
        """See Job."""
        adds = self.usual.adds
        return adds if isinstance(adds, bool) else adds(engine)

    def ready(self, engine: "Engine") -> "Ready | Keyed | Merged | None":
        """See Job."""
        usual = self.usual
        if usual.adds is False:
            return None
        ready = self.session.rows(engine, usual.text, self._values, ONE)
        if isinstance(ready, Ready) and ready.recipe is not None:
            version, reply = engine.catalog.version, counted(usual.word, 1, State.NONE, True, usual.described)
            self.form = self.client.server.forms.of(usual, ready.recipe, version, reply)
        return ready

    @property
    def is_plain(self) -> bool:
        """Whether it has gone well, outside of transactions."""
        return self._error is None and self._state is State.NONE

    def is_light(self, engine: "Engine") -> bool:
        """See Job."""
        return self.usual.adds is True or is_light(self.usual.text, engine)

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
        formats = spread(self.usual.formats, len(outcome.types))
        pace, place, parts = Pace(), 0, [self._head(outcome)]
        while place < len(outcome):
            if place and sum(map(len, parts)) > LITTLE:
                return outcome
            stop = place + pace.rows
            rows = encoded(outcome, place, stop, formats, engine.executor.dictionary, engine.catalog.style)
            parts.append(messages.data(rows))
            pace.took(len(rows), len(parts[-1]))
            place = stop
        parts.append(completed(statement_cache.tag_of(self.usual.word, outcome)))
        return b"".join(parts)

    def _head(self, outcome: Result) -> bytes:
        """What comes before the rows."""
        usual = self.usual
        shown = usual.described or usual.prepared is None
        formats = tuple(spread(usual.formats, len(outcome.types)))
        columns = tuple(outcome.columns), tuple(outcome.types)
        shape = described(*columns, formats, outcome.origins) if shown else b""
        return shape if usual.prepared is None else messages.BOUND + shape

    def _finish(self) -> None:
        """The engine is done with it."""
        outcome, usual = self._outcome, self.usual
        if (took := time.monotonic() - self._begun) >= self.client.server.limits.slow:
            self.client.took(usual.text, took)
        prepared = usual.prepared is not None
        if self._error is not None:
            failure = messages.failure(self._error) + messages.ready(STATUS[self._state])
            self.data = (messages.BOUND if prepared else b"") + failure
        elif isinstance(outcome, bytes):
            self.data = outcome + messages.ready(STATUS[self._state])
        elif outcome is None or outcome.is_count:
            count = 0 if outcome is None else outcome.affected
            self.data = counted(usual.word, count, self._state, prepared, usual.described)
        else:
            self.long = outcome
            self._ready = messages.ready(STATUS[self._state])
        if self.session.notices:
            said = messages.said(self.session)
            self.data, self._before = (None, said) if self.data is None else (said + self.data, b"")
        self._lane.done()

    def send_long(self) -> None:
        """Send many rows as fast as the client takes them."""
        outcome, self.long = self.long, None
        assert outcome is not None
        self.client.server.look_after(self._send(outcome))

    async def _send(self, outcome: Result) -> None:
        portal = Portal(None, self.usual.formats)
        portal.outcome, portal.ran = outcome, True
        self.session.deadline = deadline_of(self.session)
        try:
            self.client.send(self._before + self._head(outcome))
            await self.client.send_rows(portal, 0)
            self.data = completed(statement_cache.tag_of(self.usual.word, outcome)) + self._ready
        except ConnectionError:
            # The client has gone: its task is told so, too.
            self.data = b""
        except CanceledError as error:
            await self.client.fail()
            self.data = messages.failure(error) + messages.ready(STATUS[self.session.transactions.state])
        finally:
            self.session.deadline = 0.0
            self._lane.done()


@lru_cache(256)
def completed(tag: str) -> bytes:
    """CommandComplete."""
    return messages.complete(tag)


@lru_cache(1024)
def counted(word: str, count: int, state: State, prepared: bool, described: bool) -> bytes:
    """The whole reply to a statement that gives a count."""
    head = (messages.BOUND if prepared else b"") + (messages.NO_DATA if described else b"")
    return head + completed(f"{statement_cache.TAGS[word]} {count}") + messages.ready(STATUS[state])


@lru_cache(256)
def described(
    names: tuple[str, ...],
    types: tuple[Type, ...],
    formats: tuple[int, ...],
    origins: tuple[tuple[str, int], ...],
) -> bytes:
    """RowDescription."""
    return messages.description(names, types, formats, origins)


MOST_UNSENT: Final = 1 << 16
MOST_HELD: Final = 1 << 20
"""Bytes that a client has not taken, and that it has sent ahead, while requests are taken here."""

MOST_USUAL: Final = 64
"""Statements of a client whose way is remembered."""


class Lane(asyncio.StreamReader):
    """What a client's bytes come through."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._client: LaneClient | None = None
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

    def open_for(self, client: LaneClient) -> None:
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

    def _again(self, client: LaneClient, data: bytes, start: int) -> Reply | None:
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

    def _first(self, client: LaneClient, data: bytes, start: int) -> Reply | None:
        """The request that begins at ``start``; None if it cannot be run here."""
        request = request_at(data, start)
        if request is None:
            return None
        asked = client.asked(request)
        word = None if asked is None else word_of(asked[0])
        if asked is None or word is None:
            return None
        prepared = None if request.name is None else client.prepared(request.name)
        usual = Usual.of(prepared, request, asked[0], word, data)
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

    def join(self) -> Session:
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

    def _go_on(self, client: LaneClient) -> None:
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


SIZE: Final = 1 << 16
"""Bytes that are read at once."""
MOST_AT_ONCE: Final = 256
"""Clients that are read before what they ask for is done."""


class Wires:
    """The connections that are read here. ``before`` and ``after`` are called around each reading."""

    def __init__(self, before: Callable[[], object], after: Callable[[], object], forms: "Forms") -> None:
        self._before, self._after, self._forms = before, after, forms
        self._loop: asyncio.AbstractEventLoop | None = None
        self._epoll: select.epoll | None = None
        self._wires: dict[int, Wire] = {}

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to read, on the loop that runs."""
        if hasattr(select, "epoll"):
            self._loop, self._epoll = loop, select.epoll()
            loop.add_reader(self._epoll.fileno(), self._read)

    def stop(self) -> None:
        """Read no more."""
        if self._epoll is not None and self._loop is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
        self._epoll = None
        self._wires.clear()

    def numbers(self) -> list[int]:
        """The sockets that are read."""
        return list(self._wires)

    def adopt(self, lane: "Lane", transport: asyncio.WriteTransport) -> None:
        """Read a connection here from now on."""
        socket = transport.get_extra_info("socket")
        if self._epoll is None or socket is None or transport.get_extra_info("sslcontext") is not None:
            return
        if isinstance(transport, asyncio.ReadTransport) and not transport.is_closing():
            transport.pause_reading()
            wire = Wire(self, socket.fileno(), lane, transport)
            self._wires[wire.number] = wire
            lane.adopted(wire)

    def listen(self, wire: "Wire") -> None:
        """Take what comes."""
        if self._epoll is not None and self._wires.get(wire.number) is wire:
            self._epoll.register(wire.number, select.EPOLLIN)

    def ignore(self, wire: "Wire") -> None:
        """Take nothing for now."""
        if self._epoll is not None and self._wires.get(wire.number) is wire:
            with suppress(OSError):
                self._epoll.unregister(wire.number)

    def forget(self, wire: "Wire") -> None:
        """The connection is over: its number may be another's soon."""
        wire.pause_reading()
        wire.gone = True
        if self._wires.get(wire.number) is wire:
            del self._wires[wire.number]

    def _read(self) -> None:
        if self._epoll is None:
            return
        found = self._epoll.poll(0, MOST_AT_ONCE)
        alike: dict[Form, list[Wire]] = {}
        self._before()
        try:
            for number, _ in found:
                wire = self._wires.get(number)
                if wire is None:
                    continue
                if wire.form is None:
                    wire.read()
                else:
                    alike.setdefault(wire.form, []).append(wire)
            for form, wires in alike.items():
                self._forms.read(form, wires)
        finally:
            self._after()


class Wire:
    """One connection's way in; to its reader it is the transport, which it asks to pause and to go on."""

    __slots__ = ("_reads", "_transport", "_wires", "form", "gone", "lane", "number")

    def __init__(self, wires: Wires, number: int, lane: "Lane", transport: asyncio.WriteTransport) -> None:
        self.number = number
        """Of the socket, as the system knows it."""
        self.gone = False
        """Whether the connection is over."""
        self.form: Form | None = None
        """Of the requests that the client is likely to send, if it waits for nothing."""
        self._wires = wires
        self.lane = lane
        self._transport = transport
        self._reads = False

    def read(self) -> None:
        """Hand on what has come."""
        if self._transport.is_closing():
            self.pause_reading()
            return
        try:
            data = os.read(self.number, SIZE)
        except OSError as error:
            self.came(b"", -(error.errno or errno.EIO))
        else:
            self.came(data, len(data))

    def came(self, data: bytes, count: int) -> None:
        """Hand on so many bytes; below 0 it is the number of an error."""
        if count > 0:
            self.lane.feed_data(data)
        elif count == 0:
            self.pause_reading()
            self.lane.feed_eof()
        elif -count not in (errno.EAGAIN, errno.EINTR):
            self.pause_reading()
            self._transport.abort()

    def join(self) -> Session:
        """What has come is done with that of others: see ``Lane.join``."""
        self.form = None
        return self.lane.join()

    @property
    def free_number(self) -> int:
        """The number, if what is written there comes behind all that has been sent; else -1."""
        transport = self._transport
        return -1 if self.gone or transport.is_closing() or transport.get_write_buffer_size() else self.number

    def is_closing(self) -> bool:
        """As a transport's."""
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        """As a transport's."""
        if self._reads:
            self._reads = False
            self._wires.ignore(self)

    def resume_reading(self) -> None:
        """As a transport's."""
        if not self._reads and not self._transport.is_closing():
            self._reads = True
            self._wires.listen(self)

    def forget(self) -> None:
        """The connection is over."""
        self._wires.forget(self)
