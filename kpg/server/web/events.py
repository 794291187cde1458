"""GET /subscribe: a subscription as server-sent events.

An event's id is the server's life and the epoch up to which all has been told: a browser that has lost the
connection gives it back (Last-Event-ID), and goes on there, or, where that is of another life, or is not
kept any more, gets a new snapshot.
"""

import asyncio
import json
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Final

from kpg.runtime.errors import Error, InterfaceError, OperationalError
from kpg.server.web.answers import error_of, status_of
from kpg.server.web.connection import Connection, Gone, Refused, Request
from kpg.server.web.outbox import MOST_WAITING, Outbox, Overflow
from kpg.server.web.watching import MARK, Told, Wanted, Watch, mark_of, wanted_of

if TYPE_CHECKING:
    from kpg.server.listen import Server
    from kpg.sessions.session import Session

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
    watch = Watch(wanted(request), server, Events(outbox, server.life))
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
