"""Subscriptions over HTTP: server-sent events (``GET /subscribe``) and WebSocket (``GET /ws``).

A WebSocket carries any number of subscriptions in JSON. The client sends
``{"subscribe": {"view": "v"}, "id": 1}`` (the fields of ``json_results.Wanted``) and ``{"unsubscribe": 1}``.
Each message to the client has that ``id`` and either the content described in ``json_results`` or ``error``.

A server-sent event's id holds the server's run and the epoch up to which all changes have been sent. A
browser that reconnects returns it (``Last-Event-ID``) and resumes there. If the run is another one, or the
history no longer reaches back that far, the client gets a new snapshot.

The engine's thread fills an ``Outbox`` per client, and the connection's thread empties it. An outbox is
bounded: a client that exceeds it is disconnected, and no other client is delayed.
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
from kpg.server.web.http import CHUNK, Connection, Gone, Refused, Request
from kpg.server.web.json_results import MARK, Told, Wanted, Watch, error_of, mark_of, status_of, wanted_of
from kpg.session.session import Session

if TYPE_CHECKING:
    from kpg.server.listener import Server


MOST_WAITING: Final = 1 << 26
"""Bytes of changes that may wait for a client before it is cut off, besides what its connection takes."""
AT_ONCE: Final = 1 << 20
"""Bytes after which no more messages are taken in one go."""


class Overflow(Exception):
    """The client was too slow."""


class Outbox:
    """What waits for one client. Each of the two counters of bytes is changed by one thread only."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[bytes | Spool] = deque()
        self._came = asyncio.Event()
        self._woken = False
        self._in = 0
        self._out = 0
        self.overflown = False

    def put(self, message: bytes) -> None:
        """Have a message be sent, if that is not too much; from any one thread."""
        if self.overflown:
            return
        self._in += len(message)
        if self._in - self._out > MOST_WAITING:
            self.overflown = True
        else:
            self._waiting.append(message)
        self._wake()

    def put_all(self, messages: Iterable[bytes]) -> None:
        """Have messages be sent however many they are; from that thread."""
        if not self.overflown:
            self._waiting.append(Spool(messages))
            self._wake()

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            self._loop.call_soon_threadsafe(self._came.set)

    async def take(self, patience: float) -> list[bytes]:
        """Some of what has come, at least one message; none if none has come in so many seconds.

        Overflow, once all that was put in before has been taken.
        """
        if not self._waiting and not self.overflown:
            self._came.clear()
            self._woken = False
            if not self._waiting and not self.overflown:
                try:
                    async with asyncio.timeout(patience):
                        await self._came.wait()
                except TimeoutError:
                    return []
        found, size = list[bytes](), 0
        while self._waiting and size < AT_ONCE:
            message = self._next()
            if message is not None:
                found.append(message)
                size += len(message)
        if not found and self.overflown:
            raise Overflow
        return found

    def _next(self) -> bytes | None:
        """A message; None at the end of a spool."""
        first = self._waiting[0]
        message: bytes | None = first.next() if isinstance(first, Spool) else first
        if message is None or message is first:
            self._waiting.popleft()
        if message is not None and message is first:
            self._out += len(message)
        return message


HEARTBEAT: Final = 1.0
"""Seconds after which a subscription says how far it is, and looks whether its view is still there."""
WORDS: Final = {"true": True, "1": True, "": True, "false": False, "0": False}


def cut_off() -> OperationalError:
    """What a client is told that was too slow."""
    message = f"the subscription is cut off: {MOST_WAITING >> 20} MB of changes wait for the client"
    return OperationalError(message, hint="subscribe again, as of the last epoch that came")


def wanted(request: Request) -> Wanted:
    """What the query of an address asks for; Refused if that cannot be."""
    fields: dict[str, Any] = dict(request.query)
    try:
        for name in fields.keys() & {"as_of"}:
            fields[name] = int(fields[name])
        for name in fields.keys() & {"snapshot", "progress"}:
            fields[name] = WORDS[fields[name].lower()]
        if "parameters" in fields:
            fields["parameters"] = json.loads(fields["parameters"])
        seen = request.headers.get("last-event-id", "")
        if MARK.fullmatch(seen):  # those of other servers are not: with them it is begun anew
            fields.setdefault("seen", seen)
    except (ValueError, KeyError, RecursionError):
        raise Refused(
            400, "the query of the address cannot be read", hint="view=name&progress=true"
        ) from None
    try:
        return wanted_of(fields)
    except InterfaceError as error:
        raise Refused(400, error.message, hint=error.hint or "") from None


def event(kind: str, epoch: int | None, message: bytes, life: str) -> bytes:
    """A message as an event; what is JSON already may have line ends, which would end its line here."""
    data = b"{" + message.replace(b"\r", b" ").replace(b"\n", b" ") + b"}"
    mark = b"" if epoch is None else f"id: {mark_of(life, epoch)}\n".encode()
    return b"event: %s\n%sdata: %s\n\n" % (kind.encode(), mark, data)


class Events:
    """Messages as events, on their way to one client."""

    def __init__(self, outbox: Outbox, life: str) -> None:
        self._outbox, self._life = outbox, life

    def send(self, message: Told) -> None:
        """See ``Sending``."""
        self._outbox.put(event(*message, self._life))

    def send_all(self, messages: Iterable[Told]) -> None:
        """See ``Sending``."""
        self._outbox.put_all(event(*message, self._life) for message in messages)


async def subscribe(server: "Server", connection: Connection, request: Request, user: str) -> None:
    """Answer GET /subscribe until the client goes, or is too slow."""
    outbox = Outbox()
    watch = Watch(wanted(request), server.spellings, server.life, Events(outbox, server.life))
    session = await server.open_session(user)
    try:
        try:
            await server.run(session, watch.open)
        except Error as error:
            data = json.dumps({"error": error_of(error)}).encode()
            await connection.reply(status_of(error), "application/json", data)
            return
        await connection.begin(200, "text/event-stream; charset=utf-8")
        await connection.write(b"retry: 1000\n\n")
        await until_gone(connection, _forward(server, connection, outbox, watch, session))
    finally:
        await server.look(watch.close)
        await server.close_session(session)


async def until_gone(connection: Connection, work: Coroutine[Any, Any, None]) -> None:
    """Do something that is given up when the client goes."""
    tasks = [asyncio.ensure_future(work), asyncio.ensure_future(connection.watch())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not tasks[0].done():
            raise Gone
        tasks[0].result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _forward(
    server: "Server", connection: Connection, outbox: Outbox, watch: Watch, session: "Session"
) -> None:
    failure: Error | None = None
    loop = asyncio.get_running_loop()
    beaten = loop.time()
    while failure is None:
        try:
            messages = await outbox.take(HEARTBEAT)
            if messages:
                await connection.write(b"".join(messages))
            if loop.time() - beaten >= HEARTBEAT:
                beaten = loop.time()
                await connection.write(b":\n\n")
                await server.look_as(session, watch.beat)
            await connection.push()
        except Overflow:
            failure = cut_off()
        except Error as error:
            failure = error
    text = json.dumps({"error": error_of(failure)})[1:-1].encode()
    await connection.write(event("failure", None, text, server.life))
    await connection.end()


MOST_SENT: Final = 1 << 20
"""Bytes of one message of a client."""
MOST_SUBSCRIPTIONS: Final = 100
QUIET: Final = 30
"""Heartbeats without a word of the client after which it is asked whether it is there, and then left."""


async def socket(server: "Server", connection: Connection, request: Request, user: str) -> None:
    """Answer GET /ws: take the connection over until the client goes."""
    if request.headers.get("upgrade", "").lower() != "websocket":
        raise Refused(426, "this is for WebSocket", headers=[("upgrade", "websocket")])
    protocol = WSConnection(ConnectionType.SERVER)
    headers, target = connection.upgrade_head()
    try:
        protocol.initiate_upgrade_connection(headers, target)
        if not any(isinstance(one, Upgrade) for one in protocol.events()):
            raise ValueError
        data = protocol.send(AcceptConnection())
    except (LocalProtocolError, RemoteProtocolError, ValueError):
        raise Refused(400, "the WebSocket handshake cannot be read") from None
    session = await server.open_session(user)
    talk = Talk(server, connection, protocol, session)
    try:
        await connection.raw(data)
        await talk.run()
    finally:
        await talk.close()
        await server.close_session(session)
    raise Gone


def _answer(id_: str | int | None, data: bytes) -> bytes:
    return b'{"id":' + json.dumps(id_).encode() + b"," + data + b"}"


class Answers:
    """Messages of one subscription of several, on their way to one client."""

    def __init__(self, outbox: Outbox, id_: str | int) -> None:
        self._outbox = outbox
        self._id = id_

    def send(self, message: Told) -> None:
        """See ``Sending``."""
        self._outbox.put(_answer(self._id, message[2]))

    def send_all(self, messages: Iterable[Told]) -> None:
        """See ``Sending``."""
        self._outbox.put_all(_answer(self._id, message[2]) for message in messages)


class Talk:
    """One WebSocket and its subscriptions."""

    def __init__(
        self, server: "Server", connection: Connection, protocol: WSConnection, session: Session
    ) -> None:
        self._server = server
        self._connection = connection
        self._protocol = protocol
        self._session = session
        self._outbox = Outbox()
        self._watches: dict[str | int, Watch] = {}
        self._quiet = 0

    async def run(self) -> None:
        """Read and write until one of them ends."""
        tasks = [asyncio.ensure_future(self._read()), asyncio.ensure_future(self._write())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception) and not isinstance(result, Gone | ConnectionError):
                raise result

    async def close(self) -> None:
        """Give all subscriptions up."""
        watches, self._watches = list(self._watches.values()), {}

        def close(_: object) -> None:
            for watch in watches:
                watch.close()

        await self._server.look(close)

    # What comes

    async def _read(self) -> None:
        pieces: list[str] = []
        size = 0
        while True:
            data = await self._connection.reader.read(CHUNK)
            await asyncio.sleep(0)  # what is there is read at once: others have their turns between
            if not data:
                return
            self._quiet = 0
            try:
                self._protocol.receive_data(data)
                for event in self._protocol.events():
                    match event:
                        case Ping():
                            await self._reply(event.response())
                        case CloseConnection():
                            with contextlib.suppress(LocalProtocolError):
                                await self._reply(event.response())
                            return
                        case TextMessage():
                            pieces.append(event.data)
                            size += len(event.data) + 1  # many pieces without a letter are long, too
                            if size > MOST_SENT:
                                await self._reply(CloseConnection(1009, "the message is too long"))
                                return
                            if event.message_finished:
                                text, pieces, size = "".join(pieces), [], 0
                                await self._heard(text)
                        case Message():
                            await self._reply(CloseConnection(1003, "messages are text"))
                            return
                        case _:
                            pass
            except RemoteProtocolError as error:
                with contextlib.suppress(LocalProtocolError):
                    await self._reply(error.event_hint or CloseConnection(1002, "malformed"))
                return

    async def _heard(self, text: str) -> None:
        id_: Any = None
        try:
            try:
                found = json.loads(text)
            except (ValueError, RecursionError):
                raise InterfaceError("the message is no JSON") from None
            if not isinstance(found, dict):
                raise InterfaceError("a message is an object")
            id_ = found.get("id", found.get("unsubscribe", 0))
            if not isinstance(id_, str | int):
                id_ = None
                raise InterfaceError("an id is a text or a number")
            await self._act(found, id_)
        except Error as error:
            self._send(id_, b'"error":' + json.dumps(error_of(error)).encode())

    async def _act(self, found: dict[str, Any], id_: str | int) -> None:
        if "unsubscribe" in found:
            watch = self._watches.pop(id_, None)
            if watch is None:
                raise InterfaceError("there is no subscription of that id")
            await self._server.look(watch.close)
            self._send(id_, b'"unsubscribed":true')
            return
        wanted = found.get("subscribe")
        if not isinstance(wanted, dict):
            raise InterfaceError("nothing is asked", hint='{"subscribe": {"view": "v"}, "id": 1}')
        if id_ in self._watches:
            raise InterfaceError("there is a subscription of that id already")
        if len(self._watches) >= MOST_SUBSCRIPTIONS:
            raise InterfaceError(f"a connection has {MOST_SUBSCRIPTIONS} subscriptions at most")
        server, answers = self._server, Answers(self._outbox, id_)
        watch = Watch(wanted_of(wanted), server.spellings, server.life, answers)
        self._watches[id_] = watch
        try:
            await self._server.run(self._session, watch.open)
        except Error:
            self._watches.pop(id_, None)
            raise

    # What goes

    def _send(self, id_: str | int | None, data: bytes) -> None:
        self._outbox.put(_answer(id_, data))

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        beaten = loop.time()
        while True:
            try:
                messages = await self._outbox.take(HEARTBEAT)
            except Overflow:
                await self._reply(CloseConnection(1013, cut_off().message))
                return
            if messages:
                frames = [self._protocol.send(TextMessage(data=one.decode())) for one in messages]
                await self._connection.raw(b"".join(frames))
            if loop.time() - beaten >= HEARTBEAT:
                beaten = loop.time()
                await self._beat()

    async def _beat(self) -> None:
        self._quiet += 1
        if self._quiet == QUIET:
            await self._reply(Ping())
        elif self._quiet > 2 * QUIET:
            raise Gone
        for id_, watch in list(self._watches.items()):
            try:
                await self._server.look_as(self._session, watch.beat)
            except Error as error:
                self._watches.pop(id_, None)
                self._send(id_, b'"error":' + json.dumps(error_of(error)).encode())

    async def _reply(self, event: Any) -> None:
        await self._connection.raw(self._protocol.send(event))
