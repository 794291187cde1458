"""Subscriptions over HTTP: server-sent events (``GET /subscribe``) and WebSocket (``GET /ws``).

A WebSocket carries any number of subscriptions in JSON. The client sends ``{"subscribe": {"view":
"v"}, "id": 1}`` (the fields of ``json_results.SubscriptionRequest``) and ``{"unsubscribe": 1}``.
Each message to the client has that ``id`` and either the content described in ``json_results`` or
``error``.

The id of a server-sent event holds the server's run and the epoch up to which all changes have been
sent. A browser that reconnects returns it (``Last-Event-ID``) and resumes there. If the run is
another one, or the history does not reach back that far, the client gets a new snapshot.

The engine's thread fills an ``Outbox`` per client, and the connection's task empties it. An outbox
is bounded: a client that exceeds it is disconnected, and no other client is delayed.
"""

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Final

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, Message, Ping, TextMessage
from wsproto.events import Request as Upgrade
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from kpg.runtime.errors import Error, InterfaceError, OperationalError
from kpg.server.subscribe import Spool
from kpg.server.web.http import CHUNK, ClientDisconnected, Connection, HttpError, Request
from kpg.server.web.json_results import (
    RESUME_TOKEN,
    JsonSubscription,
    SubscriptionMessage,
    SubscriptionRequest,
    error_fields,
    http_status,
    parse_subscription,
    resume_token,
)
from kpg.session.session import Session

if TYPE_CHECKING:
    from kpg.server.listener import Server


MAX_PENDING_BYTES: Final = 1 << 26
"""Bytes of changes, besides the socket's buffers, from which a slow client is disconnected."""
BATCH_BYTES: Final = 1 << 20
"""Bytes from which no more messages are added to one write."""


class Overflow(Exception):
    """The client was too slow."""


class Outbox:
    """The messages that wait for one client. Each of the two byte counters is changed by one thread only."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pending: deque[bytes | Spool] = deque()
        self._arrival = asyncio.Event()
        self._is_woken = False
        self._bytes_in = 0
        self._bytes_out = 0
        self.has_overflowed = False

    def put(self, message: bytes) -> None:
        """Queue a message, unless the outbox overflows. Always called from the same thread."""
        if self.has_overflowed:
            return
        self._bytes_in += len(message)
        if self._bytes_in - self._bytes_out > MAX_PENDING_BYTES:
            self.has_overflowed = True
        else:
            self._pending.append(message)
        self._wake()

    def put_snapshot(self, messages: Iterable[bytes]) -> None:
        """Spool any number of messages. Called from the thread of :meth:`put`."""
        if not self.has_overflowed:
            self._pending.append(Spool(messages))
            self._wake()

    def _wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._arrival.set)

    async def get(self, timeout: float) -> list[bytes]:
        """Return at least one message; none if none arrives within ``timeout`` seconds.

        Raises Overflow once all messages before the overflow have been returned.
        """
        if not self._pending and not self.has_overflowed:
            self._arrival.clear()
            self._is_woken = False
            if not self._pending and not self.has_overflowed:
                try:
                    async with asyncio.timeout(timeout):
                        await self._arrival.wait()
                except TimeoutError:
                    return []
        messages, size = list[bytes](), 0
        while self._pending and size < BATCH_BYTES:
            message = self._next()
            if message is not None:
                messages.append(message)
                size += len(message)
        if not messages and self.has_overflowed:
            raise Overflow
        return messages

    def _next(self) -> bytes | None:
        """Return a message; None at the end of a spool."""
        first = self._pending[0]
        message: bytes | None = first.next() if isinstance(first, Spool) else first
        if message is None or message is first:
            self._pending.popleft()
        if message is not None and message is first:
            self._bytes_out += len(message)
        return message


HEARTBEAT: Final = 1.0
"""Seconds between progress messages, and between checks whether the view exists."""
BOOLEANS: Final = {"true": True, "1": True, "": True, "false": False, "0": False}


def overflow_error() -> OperationalError:
    """Return the error for a client that was too slow."""
    message = f"the subscription is cut off: {MAX_PENDING_BYTES >> 20} MB of changes wait for the client"
    return OperationalError(message, hint="subscribe again, as of the last epoch that came")


def subscription_of_query(request: Request) -> SubscriptionRequest:
    """Return the subscription that a query string requests. Raises HttpError if it is invalid."""
    fields: dict[str, Any] = dict(request.query)
    try:
        for name in fields.keys() & {"as_of"}:
            fields[name] = int(fields[name])
        for name in fields.keys() & {"snapshot", "progress"}:
            fields[name] = BOOLEANS[fields[name].lower()]
        if "parameters" in fields:
            fields["parameters"] = json.loads(fields["parameters"])
        seen = request.headers.get("last-event-id", "")
        if RESUME_TOKEN.fullmatch(seen):  # an id of another server starts a new subscription
            fields.setdefault("seen", seen)
    except (ValueError, KeyError, RecursionError):
        raise HttpError(400, "invalid query string", hint="view=name&progress=true") from None
    try:
        return parse_subscription(fields)
    except InterfaceError as error:
        raise HttpError(400, error.message, hint=error.hint or "") from None


def format_event(kind: str, epoch: int | None, message: bytes, run_id: str) -> bytes:
    """Return a message as a server-sent event. Line breaks inside embedded JSON are replaced by blanks."""
    data = b"{" + message.replace(b"\r", b" ").replace(b"\n", b" ") + b"}"
    id_line = b"" if epoch is None else f"id: {resume_token(run_id, epoch)}\n".encode()
    return b"event: %s\n%sdata: %s\n\n" % (kind.encode(), id_line, data)


class EventSink:
    """Sends messages to one client as server-sent events."""

    def __init__(self, outbox: Outbox, run_id: str) -> None:
        self._outbox, self._run_id = outbox, run_id

    def send(self, message: SubscriptionMessage) -> None:
        """See ``MessageSink``."""
        self._outbox.put(format_event(*message, self._run_id))

    def send_all(self, messages: Iterable[SubscriptionMessage]) -> None:
        """See ``MessageSink``."""
        self._outbox.put_snapshot(format_event(*message, self._run_id) for message in messages)


async def subscribe(server: "Server", connection: Connection, request: Request, user: str) -> None:
    """Answer GET /subscribe until the client disconnects or is too slow."""
    outbox = Outbox()
    subscription = JsonSubscription(
        subscription_of_query(request),
        server.change_encoders,
        server.run_id,
        EventSink(outbox, server.run_id),
    )
    session = await server.open_session(user)
    try:
        try:
            await server.run(session, subscription.open)
        except Error as error:
            data = json.dumps({"error": error_fields(error)}).encode()
            await connection.respond(http_status(error), "application/json", data)
            return
        await connection.begin_response(200, "text/event-stream; charset=utf-8")
        await connection.write(b"retry: 1000\n\n")
        await run_until_disconnect(connection, _forward(server, connection, outbox, subscription, session))
    finally:
        await server.read_engine(subscription.close)
        await server.close_session(session)


async def run_until_disconnect(connection: Connection, work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine, and cancel it when the client disconnects."""
    tasks = [asyncio.ensure_future(work), asyncio.ensure_future(connection.wait_for_disconnect())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not tasks[0].done():
            raise ClientDisconnected
        tasks[0].result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _forward(
    server: "Server",
    connection: Connection,
    outbox: Outbox,
    subscription: JsonSubscription,
    session: "Session",
) -> None:
    failure: Error | None = None
    loop = asyncio.get_running_loop()
    last_heartbeat = loop.time()
    while failure is None:
        try:
            messages = await outbox.get(HEARTBEAT)
            if messages:
                await connection.write(b"".join(messages))
            if loop.time() - last_heartbeat >= HEARTBEAT:
                last_heartbeat = loop.time()
                await connection.write(b":\n\n")
                await server.read_engine_as(session, subscription.send_heartbeat)
            await connection.push()
        except Overflow:
            failure = overflow_error()
        except Error as error:
            failure = error
    text = json.dumps({"error": error_fields(failure)})[1:-1].encode()
    await connection.write(format_event("failure", None, text, server.run_id))
    await connection.end_response()


MAX_MESSAGE_BYTES: Final = 1 << 20
"""Bytes of one message of a client."""
MAX_SUBSCRIPTIONS: Final = 100
SILENT_HEARTBEATS: Final = 30
"""Heartbeats without a message before a ping; after twice as many the client is disconnected."""


async def websocket(server: "Server", connection: Connection, request: Request, user: str) -> None:
    """Answer GET /ws: use the connection as a WebSocket until the client disconnects."""
    if request.headers.get("upgrade", "").lower() != "websocket":
        raise HttpError(426, "a WebSocket upgrade is required", headers=[("upgrade", "websocket")])
    protocol = WSConnection(ConnectionType.SERVER)
    headers, target = connection.upgrade_head()
    try:
        protocol.initiate_upgrade_connection(headers, target)
        if not any(isinstance(one, Upgrade) for one in protocol.events()):
            raise ValueError
        data = protocol.send(AcceptConnection())
    except (LocalProtocolError, RemoteProtocolError, ValueError):
        raise HttpError(400, "invalid WebSocket handshake") from None
    session = await server.open_session(user)
    websocket_connection = WebSocketConnection(server, connection, protocol, session)
    try:
        await connection.write_raw(data)
        await websocket_connection.run()
    finally:
        await websocket_connection.close()
        await server.close_session(session)
    raise ClientDisconnected


def _with_id(id_: str | int | None, data: bytes) -> bytes:
    return b'{"id":' + json.dumps(id_).encode() + b"," + data + b"}"


class WebSocketSink:
    """Sends the messages of one subscription over a WebSocket."""

    def __init__(self, outbox: Outbox, id_: str | int) -> None:
        self._outbox = outbox
        self._id = id_

    def send(self, message: SubscriptionMessage) -> None:
        """See ``MessageSink``."""
        self._outbox.put(_with_id(self._id, message[2]))

    def send_all(self, messages: Iterable[SubscriptionMessage]) -> None:
        """See ``MessageSink``."""
        self._outbox.put_snapshot(_with_id(self._id, message[2]) for message in messages)


class WebSocketConnection:
    """A WebSocket and its subscriptions."""

    def __init__(
        self, server: "Server", connection: Connection, protocol: WSConnection, session: Session
    ) -> None:
        self._server = server
        self._connection = connection
        self._protocol = protocol
        self._session = session
        self._outbox = Outbox()
        self._subscriptions: dict[str | int, JsonSubscription] = {}
        self._silent_heartbeats = 0

    async def run(self) -> None:
        """Read and write until either ends."""
        tasks = [asyncio.ensure_future(self._read()), asyncio.ensure_future(self._write())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception) and not isinstance(result, ClientDisconnected | ConnectionError):
                raise result

    async def close(self) -> None:
        """Close all subscriptions."""
        subscriptions, self._subscriptions = list(self._subscriptions.values()), {}

        def close(_: object) -> None:
            for watch in subscriptions:
                watch.close()

        await self._server.read_engine(close)

    # Receiving

    async def _read(self) -> None:
        pieces: list[str] = []
        size = 0
        while True:
            data = await self._connection.reader.read(CHUNK)
            await asyncio.sleep(0)  # read() returns at once if data is buffered, so let other tasks run
            if not data:
                return
            self._silent_heartbeats = 0
            try:
                self._protocol.receive_data(data)
                for event in self._protocol.events():
                    match event:
                        case Ping():
                            await self._send_event(event.response())
                        case CloseConnection():
                            with contextlib.suppress(LocalProtocolError):
                                await self._send_event(event.response())
                            return
                        case TextMessage():
                            pieces.append(event.data)
                            size += len(event.data) + 1  # so that empty pieces count too
                            if size > MAX_MESSAGE_BYTES:
                                await self._send_event(CloseConnection(1009, "the message is too long"))
                                return
                            if event.message_finished:
                                text, pieces, size = "".join(pieces), [], 0
                                await self._handle_text(text)
                        case Message():
                            await self._send_event(CloseConnection(1003, "messages are text"))
                            return
                        case _:
                            pass
            except RemoteProtocolError as error:
                with contextlib.suppress(LocalProtocolError):
                    await self._send_event(error.event_hint or CloseConnection(1002, "malformed"))
                return

    async def _handle_text(self, text: str) -> None:
        id_: Any = None
        try:
            try:
                message = json.loads(text)
            except (ValueError, RecursionError):
                raise InterfaceError("the message is no JSON") from None
            if not isinstance(message, dict):
                raise InterfaceError("a message is an object")
            id_ = message.get("id", message.get("unsubscribe", 0))
            if not isinstance(id_, str | int):
                id_ = None
                raise InterfaceError("an id is a text or a number")
            await self._handle_message(message, id_)
        except Error as error:
            self._send(id_, b'"error":' + json.dumps(error_fields(error)).encode())

    async def _handle_message(self, message: dict[str, Any], id_: str | int) -> None:
        if "unsubscribe" in message:
            subscription = self._subscriptions.pop(id_, None)
            if subscription is None:
                raise InterfaceError("there is no subscription of that id")
            await self._server.read_engine(subscription.close)
            self._send(id_, b'"unsubscribed":true')
            return
        fields = message.get("subscribe")
        if not isinstance(fields, dict):
            raise InterfaceError("nothing is asked", hint='{"subscribe": {"view": "v"}, "id": 1}')
        if id_ in self._subscriptions:
            raise InterfaceError("a subscription with that id exists already")
        if len(self._subscriptions) >= MAX_SUBSCRIPTIONS:
            raise InterfaceError(f"a connection may have {MAX_SUBSCRIPTIONS} subscriptions at most")
        server, sink = self._server, WebSocketSink(self._outbox, id_)
        subscription = JsonSubscription(
            parse_subscription(fields), server.change_encoders, server.run_id, sink
        )
        self._subscriptions[id_] = subscription
        try:
            await self._server.run(self._session, subscription.open)
        except Error:
            self._subscriptions.pop(id_, None)
            raise

    # Sending

    def _send(self, id_: str | int | None, data: bytes) -> None:
        self._outbox.put(_with_id(id_, data))

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        last_heartbeat = loop.time()
        while True:
            try:
                messages = await self._outbox.get(HEARTBEAT)
            except Overflow:
                await self._send_event(CloseConnection(1013, overflow_error().message))
                return
            if messages:
                frames = [self._protocol.send(TextMessage(data=one.decode())) for one in messages]
                await self._connection.write_raw(b"".join(frames))
            if loop.time() - last_heartbeat >= HEARTBEAT:
                last_heartbeat = loop.time()
                await self._send_heartbeat()

    async def _send_heartbeat(self) -> None:
        self._silent_heartbeats += 1
        if self._silent_heartbeats == SILENT_HEARTBEATS:
            await self._send_event(Ping())
        elif self._silent_heartbeats > 2 * SILENT_HEARTBEATS:
            raise ClientDisconnected
        for id_, subscription in list(self._subscriptions.items()):
            try:
                await self._server.read_engine_as(self._session, subscription.send_heartbeat)
            except Error as error:
                self._subscriptions.pop(id_, None)
                self._send(id_, b'"error":' + json.dumps(error_fields(error)).encode())

    async def _send_event(self, event: Any) -> None:
        await self._connection.write_raw(self._protocol.send(event))
