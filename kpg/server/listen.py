"""The server: a socket on which clients come in, and one thread that has the engine."""

import asyncio
import hmac
import ssl
import threading
from collections.abc import Callable, Collection, Mapping
from itertools import count
from typing import TYPE_CHECKING, Final, TypeVar

from kpg.engine import Engine
from kpg.server.client import Client
from kpg.server.passwords import Verifier
from kpg.sessions.hub import Hub
from kpg.sessions.session import Session

if TYPE_CHECKING:
    from concurrent.futures import Future

Given = TypeVar("Given")
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


class Server:
    """Serves one database. ``users`` are those who may come in with their passwords; None: anybody."""

    def __init__(
        self, hub: Hub, users: Mapping[str, Verifier] | None, tls: ssl.SSLContext | None = None
    ) -> None:
        self.hub = hub
        self.users = users
        self.tls = tls
        self.settings = SETTINGS
        self.clients: dict[int, Client] = {}
        self.web: Collection[object] = ()
        """Clients that have come by HTTP."""
        self._numbers = count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake = threading.Semaphore(0)
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="kpg-engine", daemon=True)

    def next_number(self) -> int:
        """A number for a client."""
        return next(self._numbers)

    async def start(self, host: str | None, port: int) -> asyncio.Server:
        """Begin to listen."""
        self._thread.start()
        return await asyncio.start_server(self._came, host, port)

    async def stop(self) -> None:
        """Let no statement run any more; what is not committed is rolled back."""
        for client in list(self.clients.values()):
            if client.session is not None and client.busy:
                client.session.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._stopping = True
        self._wake.release()
        await asyncio.to_thread(self._thread.join)

    async def _came(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await Client(self, reader, writer).run()
        finally:
            self._tasks.discard(task)

    # The engine's thread

    def _work(self) -> None:
        while True:
            self._wake.acquire()
            if self._stopping:
                return
            self.hub.serve()

    async def run(self, session: Session, work: Callable[[Engine], Given], **flags: bool) -> Given:
        """Do something with the engine when it is the session's turn."""
        engine = self.hub.engine
        future: Future[Given] = self.hub.submit(session, lambda: work(engine), **flags)
        self._wake.release()
        return await asyncio.wrap_future(future)

    async def look(self, work: Callable[[Engine], Given]) -> Given:
        """Read something of the engine between statements: see ``Hub.look``."""
        future = self.hub.look(work)
        self._wake.release()
        return await asyncio.wrap_future(future)

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
