"""A server in a thread of the tests' process."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

import kpg
from kpg.postgres.passwords import make_verifier
from kpg.server.listener import Server
from tests.oracle import postgres
from tests.waiting import PATIENCE, until


class Running:
    """A database that is being served: ``port`` of this machine, ``dsn`` for libpq."""

    def __init__(self, db: kpg.Database, server: Server, port: int, call: Any) -> None:
        """``call`` runs a coroutine on the server's loop."""
        self.db = db
        self.call = call
        self.server = server
        self.port = port
        self.dsn = f"host=127.0.0.1 port={port} user=kpg dbname=kpg connect_timeout=300"

    def is_doing(self, number: int, text: str) -> bool:
        """Whether the session of a number is at work on a statement, which can be cancelled from now on."""
        client = self.server.clients.get(number)
        return client is not None and client.busy and self.db.hub.sessions[number].last_query == text

    def canceling(self, one: psycopg.Connection, text: str) -> threading.Thread:
        """A thread that cancels a statement once it is being done."""

        def cancel() -> None:
            try:
                until(lambda: self.is_doing(one.info.backend_pid, text))
            finally:
                one.cancel_safe()  # in any case: some of these statements take all memory

        thread = threading.Thread(target=cancel)
        thread.start()
        return thread


@contextmanager
def serving(password: str | None = None, tls: Any = None, history: Any = None) -> Iterator[Running]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    users = None if password is None else {"kpg": make_verifier(password)}

    def call(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(PATIENCE)

    with kpg.connect(history=history) as db:
        server = Server(db.hub, users, tls)
        listening = call(server.start("127.0.0.1", 0))
        try:
            yield Running(db, server, listening.sockets[0].getsockname()[1], call)
        finally:
            loop.call_soon_threadsafe(listening.close)
            call(server.stop())
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving() as one:
        yield one


@contextmanager
def beside(running: Running, folder: Path) -> Iterator[tuple[psycopg.Connection, psycopg.Connection]]:
    """Connections to a server, and to Postgres whose data are in the folder."""
    with (
        postgres.serving(folder) as address,
        psycopg.connect(running.dsn, autocommit=True) as ours,
        psycopg.connect(address, autocommit=True) as theirs,
    ):
        yield ours, theirs
