"""Connections that are idle for too long are closed; limits and cancels hold for all of a statement."""

import select
import socket
import time

import psycopg
import pytest

from kpg.server import client
from kpg.session import cancel
from tests.unit.engine.test_locks import Asking
from tests.unit.server.conftest import Running, serving
from tests.unit.server.test_lane import connected, query, replies
from tests.waiting import PATIENCE, Clock, until


@pytest.fixture(scope="module")
def running():  # type: ignore[no-untyped-def]
    with serving() as one:
        one.db.sql(
            "create table numbers (i int); insert into numbers select * from generate_series(1, 100000)"
        )
        yield one


def closed(running: Running) -> None:
    until(lambda: not running.server.clients)


def test_an_idle_session_is_closed(running: Running) -> None:
    one = psycopg.connect(running.dsn, autocommit=True)
    one.execute("set idle_session_timeout = 100")
    closed(running)
    with pytest.raises(psycopg.errors.IdleSessionTimeout, match="due to idle-session timeout"):
        one.execute("select 1")


def test_an_idle_transaction_is_rolled_back(running: Running) -> None:
    with psycopg.connect(running.dsn, autocommit=True) as watching:
        watching.execute("create table held (a int)")
        watching.execute("set idle_in_transaction_session_timeout = 50")
        one = psycopg.connect(
            running.dsn, options="-c idle_in_transaction_session_timeout=200", autocommit=True
        )
        one.execute("begin; insert into held values (1); select pg_advisory_xact_lock(1)")
        watching.execute("select pg_advisory_lock(1)")
        message = "terminating connection due to idle-in-transaction timeout"
        with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout, match=message):
            one.execute("select 1")
        assert watching.execute("select count(*) from held").fetchone() == (0,)
    closed(running)


def test_who_works_is_not_idle(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(client, "time", clock)
    with psycopg.connect(running.dsn, autocommit=True) as other, psycopg.connect(running.dsn) as one:
        one.autocommit = True
        other.execute("select pg_advisory_lock(1)")
        one.execute("set idle_session_timeout = 300; set idle_in_transaction_session_timeout = 300")
        asking = Asking(lambda: one.execute("select pg_advisory_lock(1)"))
        until(lambda: len(running.db.hub.waiting_statements))
        clock.looked_at()
        clock.move_on(0.6)
        clock.looked_at()
        other.execute("select pg_advisory_unlock(1)")
        asking.join()
        for _ in range(5):
            clock.looked_at()
            clock.move_on(0.2)
            clock.looked_at()
            assert one.execute("select 1").fetchone() == (1,)
        clock.looked_at()
        clock.move_on(0.4)
        until(lambda: len(running.server.clients) == 1)


def some_came(one: socket.socket) -> None:
    """Wait until something can be read, which is not read: the server soon has to wait for its client."""
    assert select.select([one], [], [], PATIENCE)[0]


def test_a_limit_holds_for_rows_that_the_client_takes(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(cancel, "time", clock)
    monkeypatch.setattr(client, "time", clock)
    for prefix in ("", "/* so that it is not one of the fast lane */ "):
        with connected(running) as one:
            one.sendall(query("set statement_timeout = 400"))
            replies(one, 1)
            one.sendall(query(f"{prefix}select i, repeat('x', 100) as text from numbers"))
            some_came(one)
            clock.move_on(0.5)
            found = replies(one, 1)
            assert b"canceling statement due to statement timeout" in found[-2][1]
            one.sendall(query("select 1"))
            assert ("D", found_one()) in replies(one, 1)


def found_one() -> bytes:
    """The row of SELECT 1."""
    return b"\x00\x01\x00\x00\x00\x011"


@pytest.mark.parametrize(
    "text",
    [
        "select i, repeat('x', 100) as text from numbers",
        "begin; select i, repeat('x', 100) as text from numbers",
        "copy (select i, repeat('x', 100) from numbers) to stdout",
        "copy (select i, repeat('x', 100) from numbers) to stdout (format binary)",
    ],
)
def test_a_cancel_ends_rows_on_their_way(running: Running, text: str) -> None:
    closed(running)  # those before
    with psycopg.connect(running.dsn, autocommit=True) as watching, connected(running) as one:
        one.sendall(query(text))
        busy = "select pid from pg_stat_activity where pid <> %s"
        (pid,) = watching.execute(busy, (watching.info.backend_pid,)).fetchone() or (0,)
        some_came(one)
        assert watching.execute("select pg_cancel_backend(%s)", (pid,)).fetchone() == (True,)
        found = replies(one, 1)
        assert b"canceling statement due to user request" in found[-2][1]
        one.sendall(query("rollback") + query("select 1"))
        assert ("D", found_one()) in replies(one, 2)


def test_a_cancel_ends_a_copy_that_comes(running: Running) -> None:
    with psycopg.connect(running.dsn) as one:
        with (
            pytest.raises(psycopg.errors.QueryCanceled),
            one.cursor().copy("copy numbers from stdin") as copy,
        ):
            copy.write(b"1\n")
            one.cancel_safe()
            for _ in range(1000):
                copy.write(b"2\n" * 1000)
                time.sleep(0.001)
        one.rollback()
        assert one.execute("select count(*) from numbers").fetchone() == (100000,)


@pytest.mark.parametrize("limit", ["statement_timeout", "lock_timeout"])
def test_an_error_while_another_has_the_database_leaves_the_connection(running: Running, limit: str) -> None:
    with psycopg.connect(running.dsn, autocommit=True) as one, psycopg.connect(running.dsn) as other:
        one.execute(f"set {limit} = 100; begin; insert into numbers values (-1)")
        other.execute("create table only_mine (i int)")
        with pytest.raises(psycopg.errors.SyntaxError):
            one.execute("selec 1")
        other.rollback()
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            one.execute("select 1")
        one.execute("rollback")
        assert one.execute("select count(*) from numbers where i < 0").fetchone() == (0,)
