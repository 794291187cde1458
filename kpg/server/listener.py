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
from kpg.server.batched_inserts import BatchReader
from kpg.server.client import Client, close_idle_clients
from kpg.server.fast_path import FastPathProtocol, FastPathReader, SocketReader
from kpg.server.logs import Limits
from kpg.server.startup import LoginVerifiers
from kpg.session.engine import Engine
from kpg.session.engine_thread import EngineThread, JobOutcome
from kpg.session.session import Session
from kpg.session.session_manager import SessionManager
from kpg.session.snapshot_query import SnapshotQueries

if TYPE_CHECKING:
    from kpg.api.view import MaintainedView
    from kpg.server.web.json_results import ChangeEncoder

Given = TypeVar("Given")
STOP_POLL_INTERVAL: Final = 0.02
"""Seconds between checks whether statements have ended."""
REPORTED_SETTINGS: Final = {
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
"""Settings that are reported to clients, with their initial values."""


class DataflowStatistics(Protocol):
    """Source of the dataflow's statistics."""

    def statistics(self) -> Awaitable[dict[str, Any]]:
        """Return recent statistics."""


class Server:
    """Serves one database. ``users`` are the verifiers of passwords; None if no password is required."""

    def __init__(
        self,
        session_manager: SessionManager,
        users: Mapping[str, Verifier] | None,
        tls: ssl.SSLContext | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.session_manager = session_manager
        self.users = (
            None if users is None else LoginVerifiers(users, session_manager.engine.catalog.privileges)
        )
        self.tls = tls
        self.limits = limits or Limits()
        session_manager.cancellation.memory.bound = self.limits.memory
        self.queries = SnapshotQueries(session_manager, self.limits.query_processes)
        self.settings = REPORTED_SETTINGS
        self.clients: dict[int, Client] = {}
        self.http_connections: Collection[object] = ()
        """Connections of HTTP clients."""
        self.sampler: DataflowStatistics
        """Samples the dataflow's statistics for the web page."""
        self.run_id = secrets.token_hex(4)
        """Random id of this run of the server. In-memory databases start their epochs anew with each run."""
        self.change_encoders: dict[MaintainedView, ChangeEncoder] = {}
        """Encoders of the views that HTTP clients subscribe to."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._local_server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.engine_thread = EngineThread(session_manager)
        self.batch_reader = BatchReader(self.engine_thread, self.limits)
        self.socket_reader = SocketReader(
            self.engine_thread.begin_batch, self.engine_thread.end_batch, self.batch_reader
        )

    def call_on_loop(self, callback: Callable[[], object]) -> None:
        """Call a function on the event loop of the connections, from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback)

    async def start(self, host: str | None, port: int) -> asyncio.Server:
        """Start listening."""
        self.engine_thread.start()
        self._loop = loop = asyncio.get_running_loop()
        self.socket_reader.start(loop)
        self.start_task(close_idle_clients(self))
        return await loop.create_server(self._new_protocol, host, port)

    async def start_local(self, local_socket: socket.socket) -> None:
        """Also listen on a Unix-domain socket, after :meth:`start`."""
        assert self._loop is not None
        self._local_server = await self._loop.create_unix_server(self._new_protocol, sock=local_socket)

    def close_local(self) -> None:
        """Stop listening on the Unix-domain socket."""
        if self._local_server is not None:
            self._local_server.close()

    def _new_protocol(self) -> asyncio.StreamReaderProtocol:
        assert self._loop is not None
        return FastPathProtocol(FastPathReader(self._loop), self._serve_connection, self._loop)

    async def stop(self, grace: float = 0.0) -> None:
        """Stop the server.

        Running statements have ``grace`` seconds to end. Open transactions are rolled back.
        """
        deadline = time.monotonic() + grace
        while time.monotonic() < deadline and any(client.busy for client in self.clients.values()):
            await asyncio.sleep(STOP_POLL_INTERVAL)
        for client in list(self.clients.values()):
            if client.session is not None and client.busy:
                client.session.cancel()
        for client in list(self.clients.values()):
            await client.shut_down()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.socket_reader.stop()
        await self.engine_thread.stop()

    def start_task(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine as a task of the server."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve_connection(self, reader: FastPathReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await Client(self, reader, writer).run()
        except asyncio.CancelledError:
            # The server stops: only stop() waits for this task.
            pass
        finally:
            self._tasks.discard(task)

    async def run(self, session: Session, work: Callable[[Engine], Given], **flags: Any) -> Given:
        """Run a function with the engine when it is the session's turn."""
        engine = self.session_manager.engine
        future: asyncio.Future[Given] = asyncio.get_running_loop().create_future()

        def resolve(ending: JobOutcome) -> None:
            if future.done():
                return
            if ending.error is None:
                future.set_result(ending.result)
            else:
                future.set_exception(ending.error)

        self.engine_thread.submit(session, lambda: work(engine), resolve, **flags)
        return await future

    async def read_engine(self, work: Callable[[Engine], Given]) -> Given:
        """Run a function that only reads the engine, between statements."""
        future = self.session_manager.submit_read(work)
        self.engine_thread.wake()
        return await asyncio.wrap_future(future)

    async def read_engine_as(self, session: Session, work: Callable[[Engine], object]) -> None:
        """Like :meth:`read_engine`, with a session's privileges.

        Does nothing while another session has uncommitted definitions.
        """

        def read_as_session(engine: Engine) -> None:
            if self.session_manager.is_excluded(session):
                return
            catalog = engine.catalog
            before = catalog.search_path, catalog.asker, catalog.settings
            catalog.search_path, catalog.asker = session.search_path, session.asker
            catalog.settings = session.settings
            try:
                work(engine)
            finally:
                catalog.search_path, catalog.asker, catalog.settings = before

        await self.read_engine(read_as_session)

    def connection_refusal(self, user: str) -> str:
        """Return why another connection of a user exceeds a limit; empty if it does not."""
        rights = self.session_manager.engine.catalog.privileges
        free_slots = self.limits.connections - len(self.clients)
        if free_slots <= 0:
            return "sorry, too many clients already"
        if free_slots <= self.limits.reserved and not rights.is_superuser(user):
            return "remaining connection slots are reserved for roles with the SUPERUSER attribute"
        role = rights.find_role(user)
        if role is not None and role.connections >= 0 and not role.superuser:
            user_connections = sum(
                1 for one in self.clients.values() if one.session and one.session.user == user
            )
            if user_connections >= role.connections:
                return f'too many connections for role "{user}"'
        return ""

    async def open_session(self, user: str) -> Session:
        """Return a new session of a user."""
        return Session(self.session_manager, user)

    async def close_session(self, session: Session) -> None:
        """End a session and roll back its open transaction."""
        if not session.closed:
            session.closed = True
            await self.run(session, lambda _: self.session_manager.end_session(session), rolls_back=True)

    def cancel(self, number: int, secret: bytes) -> None:
        """Cancel a client's statement, if the secret is the client's."""
        client = self.clients.get(number)
        if client is None or not hmac.compare_digest(client.secret, secret):
            return
        client.canceled.set()
        if client.busy and client.session is not None:
            client.session.cancel()
