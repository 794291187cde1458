"""GET /ws: any number of subscriptions over one WebSocket, in JSON. The protocol itself is wsproto's.

A client sends ``{"subscribe": {"view": "v"}, "id": 1}`` (the fields of ``watching.Wanted``), and
``{"unsubscribe": 1}``. Each message to it is an object with that ``id`` and what ``watching`` says, or
``error``.
"""

import asyncio
import contextlib
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, Message, Ping, TextMessage
from wsproto.events import Request as Upgrade
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from kpg.runtime.errors import Error, InterfaceError
from kpg.server.web.answers import error_of
from kpg.server.web.connection import CHUNK, Connection, Gone, Refused, Request
from kpg.server.web.events import HEARTBEAT, cut_off
from kpg.server.web.outbox import Outbox, Overflow
from kpg.server.web.watching import Told, Watch, wanted_of
from kpg.sessions.session import Session

if TYPE_CHECKING:
    from kpg.server.listen import Server

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
        watch = Watch(wanted_of(wanted), self._server, Answers(self._outbox, id_))
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
