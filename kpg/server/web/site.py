"""The HTTP side of a server: what is at which address."""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from kpg.engine.steps import Steps
from kpg.server.logs import address_of
from kpg.server.web import asking, events, files, flow, metrics, reasoning, sockets
from kpg.server.web.connection import Connection, Gone, Refused, Request, refuse
from kpg.server.web.guard import Guard

if TYPE_CHECKING:
    from kpg.server.listen import Server

log = logging.getLogger("kpg.server.web")
MOST_CONNECTIONS: Final = 1000
"""Connections at one time; more are closed as they come."""
Handler = Callable[["Server", Connection, Request, str], Awaitable[None]]
"""What answers a request of a user."""
ROUTES: Final[dict[tuple[str, str], Handler]] = {
    ("POST", "/sql"): asking.sql,
    ("POST", "/datalog"): reasoning.datalog,
    ("GET", "/metrics"): metrics.answer,
    ("GET", "/dataflow"): flow.dataflow,
    ("GET", "/relation"): flow.relation,
    ("GET", "/subscribe"): events.subscribe,
    ("GET", "/ws"): sockets.socket,
}


class Site:
    """Answers the requests of clients of one server."""

    def __init__(self, server: "Server") -> None:
        self.server = server
        server.sampler = flow.Sampler(server)
        self._listening: asyncio.Server | None = None
        self._guard = Guard(lambda: server.users)
        self._tasks: dict[asyncio.Task[None], Connection] = {}
        server.web = self._tasks.keys()
        if server.hub.engine.steps is None:
            server.hub.engine.steps = Steps()

    async def start(self, host: str | None, port: int, tls: ssl.SSLContext | None = None) -> None:
        """Begin to listen."""
        self._listening = await asyncio.start_server(self._came, host, port, ssl=tls)

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        assert self._listening is not None
        host, port = self._listening.sockets[0].getsockname()[:2]
        return host, port

    async def stop(self) -> None:
        """Let all clients go."""
        if self._listening is not None:
            self._listening.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _came(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connection = self._tasks[task] = Connection(reader, writer)
        try:
            if len(self._tasks) <= MOST_CONNECTIONS:
                await self._serve(connection)
        except (Gone, ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            del self._tasks[task]
            with contextlib.suppress(ConnectionError):
                writer.close()

    async def _serve(self, connection: Connection) -> None:
        while True:
            try:
                await self._answer(connection, await connection.next())
            except Refused as error:
                await refuse(connection, error)
                if connection.is_last:
                    await connection.linger()
            except (Gone, ConnectionError):
                raise
            except Exception:
                # A fault of ours must not take the server with it, nor tell strangers what it was.
                log.exception("a request failed")
                await refuse(connection, Refused(500, "internal error"))

    async def _answer(self, connection: Connection, request: Request) -> None:
        if request.path == "/healthz" and request.method in ("GET", "HEAD"):
            await connection.body()
            await connection.reply(200, "text/plain", b"ok\n")
            return
        address = address_of(connection.writer.get_extra_info("peername"))
        user = await self._guard.user_of(request, secure=connection.secure, address=address)
        method = "GET" if request.method == "HEAD" else request.method
        found = ROUTES.get((method, request.path))
        if found is None and method == "GET" and request.path in files.page():
            found = files.answer
        if found is None:
            methods = [known for known, path in ROUTES if path == request.path]
            if methods:
                raise Refused(
                    405,
                    f"{request.path} takes {' or '.join(methods)}",
                    headers=[("allow", ", ".join(methods))],
                )
            raise Refused(404, f"there is nothing at {request.path[:100]}")
        if method == "GET":
            await connection.body()
        await found(self.server, connection, request, user)
