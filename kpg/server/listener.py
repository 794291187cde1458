"""Listener: accepts clients on a socket and hands their work to the one thread that runs the engine."""

import asyncio
import hmac
import secrets
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from kpg.postgres.passwords import Verifier
from kpg.server.batched_inserts import Forms
from kpg.server.client import Client, look_after_idle
from kpg.server.fast_path import Lane, Plug, Wires
from kpg.server.logs import Limits
from kpg.server.startup import People
from kpg.session.engine import Engine
from kpg.session.engine_thread import Ending, Turns
from kpg.session.session import Session
from kpg.session.session_manager import Hub
from kpg.session.snapshot_query import SnapshotQueries

if TYPE_CHECKING:
    from kpg.api.view import Maintained
    from kpg.server.web.json_results import Spelling

Given = TypeVar("Given")
PAUSE: Final = 0.02
"""Seconds between two looks at whether statements have ended."""
SETTINGS: Final = {
    "server_version": "16.0",
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
    "application_name": "",
    "is_superuser": "on",
    "session_authorization": "kpg",
    "default_transaction_read_only": "off",
    "in_hot_standby": "off",
}
"""What clients are told as they come in."""


class FigureSource(Protocol):
    """Reads the figures of the dataflow."""

    def figures(self) -> Awaitable[dict[str, Any]]:
        """Return the figures, as of not long ago."""


class Server:
    """Serves one database. ``users`` are those who may come in with their passwords; None: anybody."""

    def __init__(
        self,
        hub: Hub,
        users: Mapping[str, Verifier] | None,
        tls: ssl.SSLContext | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.hub = hub
        self.users = None if users is None else People(users, hub.engine.catalog.rights)
        self.tls = tls
        self.limits = limits or Limits()
        hub.cancellation.memory.most = self.limits.memory
        self.queries = SnapshotQueries(hub, self.limits.query_processes)
        self.settings = SETTINGS
        self.clients: dict[int, Client] = {}
        self.web: Collection[object] = ()
        """Clients that have come by HTTP."""
        self.sampler: FigureSource
        """Reads the figures of the dataflow for the page."""
        self.life = secrets.token_hex(4)
        """Tells this server's epochs from those of another life of its database."""
        self.spellings: dict[Maintained, Spelling] = {}
        """How changes of views are written for those of them who subscribe."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._local: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.turns = Turns(hub)
        self.forms = Forms(self.turns, self.limits)
        self.wires = Wires(self.turns.hold, self.turns.go, self.forms)

    def call(self, what: Callable[[], object]) -> None:
        """Have the loop of the connections call something, from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(what)

    async def start(self, host: str | None, port: int) -> asyncio.Server:
        """Begin to listen."""
        self.turns.start()
        self._loop = loop = asyncio.get_running_loop()
        self.wires.start(loop)
        self.look_after(look_after_idle(self))
        return await loop.create_server(self._plug, host, port)

    async def start_local(self, made: socket.socket) -> None:
        """Listen on a socket of this machine, too, once :meth:`start` has."""
        assert self._loop is not None
        self._local = await self._loop.create_unix_server(self._plug, sock=made)

    def close_local(self) -> None:
        """Listen there no more."""
        if self._local is not None:
            self._local.close()

    def _plug(self) -> asyncio.StreamReaderProtocol:
        assert self._loop is not None
        return Plug(Lane(self._loop), self._came, self._loop)

    async def stop(self, grace: float = 0.0) -> None:
        """Give statements that run so many seconds to end; what is not committed is rolled back."""
        end = time.monotonic() + grace
        while time.monotonic() < end and any(client.busy for client in self.clients.values()):
            await asyncio.sleep(PAUSE)
        for client in list(self.clients.values()):
            if client.session is not None and client.busy:
                client.session.cancel()
        for client in list(self.clients.values()):
            await client.end()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.wires.stop()
        await self.turns.stop()

    def look_after(self, work: Coroutine[Any, Any, None]) -> None:
        """Have something be done beside all else."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _came(self, reader: Lane, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await Client(self, reader, writer).run()
        except asyncio.CancelledError:
            # The server stops: nobody waits for the task but who has cancelled it.
            pass
        finally:
            self._tasks.discard(task)

    async def run(self, session: Session, work: Callable[[Engine], Given], **flags: Any) -> Given:
        """Do something with the engine when it is the session's turn."""
        engine = self.hub.engine
        future: asyncio.Future[Given] = asyncio.get_running_loop().create_future()

        def told(ending: Ending) -> None:
            if future.done():
                return
            if ending.error is None:
                future.set_result(ending.result)
            else:
                future.set_exception(ending.error)

        self.turns.hand_in(session, lambda: work(engine), told, **flags)
        return await future

    async def look(self, work: Callable[[Engine], Given]) -> Given:
        """Read something of the engine between statements: see ``Hub.look``."""
        future = self.hub.look(work)
        self.turns.wake()
        return await asyncio.wrap_future(future)

    async def look_as(self, session: Session, work: Callable[[Engine], object]) -> None:
        """As :meth:`look`, with a session's rights; nothing while others' definitions are not committed."""

        def looked(engine: Engine) -> None:
            if self.hub.keeps_out(session):
                return
            catalog = engine.catalog
            before = catalog.search_path, catalog.asker, catalog.settings
            catalog.search_path, catalog.asker = session.path, session.asker
            catalog.settings = session.settings
            try:
                work(engine)
            finally:
                catalog.search_path, catalog.asker, catalog.settings = before

        await self.look(looked)

    def refused(self, user: str) -> str:
        """Why a user cannot come in for the number of those who are there; nothing if he can."""
        rights = self.hub.engine.catalog.rights
        free = self.limits.connections - len(self.clients)
        if free <= 0:
            return "sorry, too many clients already"
        if free <= self.limits.reserved and not rights.is_superuser(user):
            return "remaining connection slots are reserved for roles with the SUPERUSER attribute"
        role = rights.find(user)
        if role is not None and role.connections >= 0 and not role.superuser:
            there = sum(1 for one in self.clients.values() if one.session and one.session.user == user)
            if there >= role.connections:
                return f'too many connections for role "{user}"'
        return ""

    async def open_session(self, user: str) -> Session:
        """A session for a user."""
        return Session(self.hub, user)

    async def close_session(self, session: Session) -> None:
        """End a session, and roll back what it has not committed."""
        if not session.closed:
            session.closed = True
            await self.run(session, lambda _: self.hub.forget(session), rolls_back=True)

    def cancel(self, number: int, secret: bytes) -> None:
        """End the statement that a client is running, if the secret is the client's."""
        client = self.clients.get(number)
        if client is None or not hmac.compare_digest(client.secret, secret):
            return
        client.canceled.set()
        if client.busy and client.session is not None:
            client.session.cancel()
