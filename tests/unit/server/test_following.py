"""Cursors over subscriptions: DECLARE ... CURSOR FOR SUBSCRIBE, FETCH with a timeout, CLOSE."""

import asyncio
from collections.abc import Iterator
from typing import Any

import asyncpg
import psycopg
import pytest

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
    assert not running.db._engine.views["v"].feed.is_heard()
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
