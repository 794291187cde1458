"""Cursors over subscriptions: DECLARE ... CURSOR FOR SUBSCRIBE, FETCH with a timeout, CLOSE."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import asyncpg
import psycopg
import pytest

from kpg.server import streams, subscription_cursors
from tests.unit.server.conftest import Running


@pytest.fixture
def writer(running: Running) -> Iterator[Any]:
    with psycopg.connect(running.dsn, autocommit=True) as one:
        one.execute("DROP TABLE IF EXISTS t CASCADE")
        one.execute("CREATE TABLE t (a INT PRIMARY KEY, b TEXT)")
        one.execute("CREATE MATERIALIZED VIEW v AS SELECT b, count(*) AS n FROM t GROUP BY b")
        one.execute("INSERT INTO t VALUES (1, 'x'), (2, 'x')")
        yield one


@pytest.fixture
def reader(running: Running) -> Iterator[Any]:
    with psycopg.connect(running.dsn) as one:
        yield one


def test_changes_are_fetched_as_they_come(writer: Any, reader: Any) -> None:
    reader.execute("DECLARE c CURSOR FOR SUBSCRIBE v")
    assert [row[1:] for row in reader.execute("FETCH ALL c WITH (timeout = '20ms')")] == [(1, "x", 2)]
    assert reader.execute("FETCH ALL c WITH (timeout = '1ms')").fetchall() == []
    writer.execute("INSERT INTO t VALUES (3, 'y')")
    writer.execute("DELETE FROM t WHERE a = 1")
    assert [row[1:] for row in reader.execute("FETCH 1 FROM c")] == [(1, "y", 1)]
    found = reader.execute("FETCH 2 c WITH (TIMEOUT '600s')").fetchall()
    assert sorted(row[1:] for row in found) == [(-1, "x", 2), (1, "x", 1)]
    assert len({row[0] for row in found}) == 1
    reader.execute("CLOSE c")
    with pytest.raises(psycopg.errors.InvalidCursorName, match='cursor "c" does not exist'):
        reader.execute("FETCH ALL c")
    reader.rollback()


def test_a_cursor_ends_with_its_transaction(running: Running, writer: Any, reader: Any) -> None:
    reader.execute("DECLARE c NO SCROLL CURSOR WITHOUT HOLD FOR SUBSCRIBE TO v WITH (SNAPSHOT = false)")
    with pytest.raises(psycopg.errors.DuplicateCursor), reader.transaction():
        reader.execute("DECLARE c CURSOR FOR SUBSCRIBE v")
    reader.rollback()
    with pytest.raises(psycopg.errors.InvalidCursorName):
        reader.execute("FETCH c")
    reader.rollback()
    writer.execute("INSERT INTO t VALUES (8, 'z')")
    assert not running.db._engine.views["v"].feed.has_listeners()
    with pytest.raises(psycopg.errors.NoActiveSqlTransaction):
        writer.execute("DECLARE c CURSOR FOR SUBSCRIBE v")


def test_a_fetch_that_waits_can_be_canceled(running: Running, writer: Any, reader: Any) -> None:
    reader.execute("DECLARE c CURSOR FOR SUBSCRIBE v WITH (SNAPSHOT = false)")
    reader.execute("SET LOCAL application_name = 'waits'")
    fetch = "FETCH 1 c WITH (timeout = '1h')"
    canceling = running.canceling(reader, fetch)
    with pytest.raises(psycopg.errors.QueryCanceled):
        reader.execute(fetch)
    canceling.join()
    reader.rollback()


def test_values_in_binary_form(running: Running, writer: Any) -> None:
    async def work() -> list[Any]:
        one = await asyncpg.connect(host="127.0.0.1", port=running.port, user="kpg", database="kpg")
        try:
            async with one.transaction():
                await one.execute("DECLARE c CURSOR FOR SUBSCRIBE v WITH (PROGRESS)")
                rows = await one.fetch("FETCH 2 c")
                more = await one.fetch("FETCH 2 c WITH (timeout = '100ms')")
                return [tuple(row)[1:] for row in (*rows, *more)]
        finally:
            await one.close()

    assert asyncio.run(work()) == [(False, 1, "x", 2), *[(True, None, None, None)] * 2]


def test_what_cannot_be_is_said(writer: Any, reader: Any) -> None:
    reader.execute("DECLARE c CURSOR FOR SUBSCRIBE v")
    with pytest.raises(psycopg.errors.SyntaxError, match="is no time to wait"):
        reader.execute("FETCH c WITH (timeout = 'soon')")
    reader.rollback()
    with pytest.raises(psycopg.Error, match="is a table"):
        reader.execute("DECLARE c CURSOR FOR SUBSCRIBE t")
    reader.rollback()


ENDS = [
    ("drop materialized view v", "55000", "view v was dropped or replaced"),
    ("alter materialized view v rename to w", "55000", "view v was dropped or replaced"),
    ("revoke select on v from follower", "42501", "permission denied for materialized view v"),
]


@pytest.fixture
def follower(running: Running, writer: Any) -> Iterator[Any]:
    with contextlib.suppress(psycopg.errors.DuplicateObject):
        writer.execute("create role follower login")
    writer.execute("grant select on v to follower")
    with psycopg.connect(running.dsn.replace("user=kpg", "user=follower")) as one:
        yield one
    writer.execute("drop materialized view if exists w")


@pytest.mark.parametrize(("end", "state", "message"), ENDS, ids=["drop", "rename", "revoke"])
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
def test_a_subscription_ends_with_its_view_and_with_the_right_to_it(
    writer: Any,
    follower: Any,
    monkeypatch: pytest.MonkeyPatch,
    end: str,
    state: str,
    message: str,
    busy: bool,
) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT", 0.05)
    rows, number = [], 100
    with (
        pytest.raises(psycopg.Error) as found,
        follower.cursor().copy("copy (subscribe v) to stdout") as lines,
    ):
        for row in lines.rows():
            rows.append(row[1:])
            if len(rows) == 1:
                writer.execute(end)
            if busy:
                number += 1
                writer.execute(f"insert into t values ({number}, 'new {number}')")
    assert (found.value.sqlstate, str(found.value).splitlines()[0]) == (state, message)
    assert rows[0] == ("1", "x", "2")
    follower.rollback()


@pytest.mark.parametrize(("end", "state", "message"), ENDS, ids=["drop", "rename", "revoke"])
def test_so_does_a_cursor_over_one(
    writer: Any, follower: Any, monkeypatch: pytest.MonkeyPatch, end: str, state: str, message: str
) -> None:
    monkeypatch.setattr(subscription_cursors, "CHECK_INTERVAL", 0.05)
    follower.execute("declare c cursor for subscribe v")
    assert len(follower.execute("fetch all c").fetchall()) == 1
    writer.execute(end)
    with pytest.raises(psycopg.Error) as found:
        follower.execute("fetch c with (timeout = '60s')")
    assert (found.value.sqlstate, str(found.value).splitlines()[0]) == (state, message)
    follower.rollback()


def test_a_subscription_goes_on_while_definitions_are_not_committed(
    writer: Any, reader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription_cursors, "CHECK_INTERVAL", 0.01)
    reader.execute("declare c cursor for subscribe v")
    reader.execute("fetch all c")
    writer.execute("begin; drop materialized view v")
    assert reader.execute("fetch c with (timeout = '100ms')").fetchall() == []
    writer.execute("rollback")
    writer.execute("insert into t values (9, 'nine')")
    assert [row[1:] for row in reader.execute("fetch c")] == [(1, "nine", 1)]
    reader.rollback()
