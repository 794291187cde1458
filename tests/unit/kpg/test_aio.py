"""The database for asyncio."""

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import kpg
import kpg.aio
from kpg.runtime.errors import CanceledError
from tests.waiting import PATIENCE

SETUP = "create table t (id int primary key, x int); create materialized view v as select sum(x) as s from t"
ENDLESS = (
    "with recursive r(a) as (select 1 union select a + 1 from r where a < 50000000) select count(*) from r"
)


def run(play: Callable[[kpg.aio.Database], Awaitable[Any]], **options: Any) -> Any:
    async def main() -> Any:
        async with kpg.aio.connect(**options) as db:
            await db.sql(SETUP)
            return await play(db)

    return asyncio.run(asyncio.wait_for(main(), PATIENCE))


async def rows(one: kpg.aio.Session | kpg.aio.Database, text: str, *values: Any) -> list[Any]:
    result = await one.sql(text, list(values) or None)
    assert result is not None
    return result.fetchall()


def test_statements_are_awaited() -> None:
    async def play(db: kpg.aio.Database) -> None:
        async with db.session() as one, db.session() as other:
            await one.sql("begin; insert into t values (?, ?)", [1, 10])
            assert await rows(one, "select * from t") == [(1, 10)]
            assert await rows(other, "select * from t") == []
            await one.sql("commit")
            assert await rows(other, "select x from t where id = $1", 1) == [(10,)]
        with pytest.raises(kpg.InterfaceError, match="the session is closed"):
            await one.sql("select 1")

    run(play)


def test_many_at_once() -> None:
    async def play(db: kpg.aio.Database) -> None:
        sessions = [db.session() for _ in range(40)]
        await asyncio.gather(
            *(one.sql("insert into t values ($1, $2)", [place, 1]) for place, one in enumerate(sessions))
        )
        assert await rows(db, "select * from v") == [(40,)]
        found = await asyncio.gather(
            *(one.sql("insert into t values ($1, 1)", [place]) for place, one in enumerate(sessions)),
            return_exceptions=True,
        )
        assert all(isinstance(one, kpg.IntegrityError) for one in found)

    run(play)


def test_a_transaction_is_a_block() -> None:
    async def play(db: kpg.aio.Database) -> None:
        async with db.session() as one:
            async with one.transaction("repeatable read"):
                await one.sql("insert into t values (1, 1)")
            with pytest.raises(ZeroDivisionError):
                async with one.transaction():
                    await one.sql("insert into t values (2, 2)")
                    raise ZeroDivisionError
            assert await rows(one, "select id from t") == [(1,)]

    run(play)


def test_who_stops_waiting_cancels() -> None:
    async def play(db: kpg.aio.Database) -> None:
        async with db.session() as one:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(one.sql(ENDLESS), 0.05)
            assert await rows(db, "select 1") == [(1,)]
            await one.sql("set statement_timeout = '30ms'")
            with pytest.raises(CanceledError, match="statement timeout"):
                await one.sql(ENDLESS)

    run(play)


def test_a_subscription_is_iterated_over() -> None:
    async def play(db: kpg.aio.Database) -> list[Any]:
        await db.sql("insert into t values (1, 1)")
        told = []
        async for changes in db.subscribe("v"):
            told.append([(row, diff) for row, _, diff in changes])
            if len(told) == 3:
                break
            await db.sql("insert into t values (?, 10)", [10 + len(told)])
        return told

    assert run(play) == [[((1,), 1)], [((1,), -1), ((11,), 1)], [((11,), -1), ((21,), 1)]]


def test_a_subscription_goes_on_where_it_stopped() -> None:
    async def play(db: kpg.aio.Database) -> Any:
        await db.sql("insert into t values (1, 1)")
        epoch = db.database.hub.engine.executor.epoch
        await db.sql("insert into t values (2, 2)")
        async for changes in db.subscribe("v", since=epoch):
            return [(row, diff) for row, _, diff in changes]

    assert run(play, history=10) == [((1,), -1), ((3,), 1)]


def test_who_is_too_slow_is_cut_off() -> None:
    async def play(db: kpg.aio.Database) -> None:
        stream = db.subscribe("v", most_waiting=5)
        await db.sql("insert into t values (1, 1)")
        await anext(stream)
        for key in range(2, 12):
            await db.sql("insert into t values (?, 1)", [key])
        with pytest.raises(kpg.OperationalError, match="cut off"):
            while True:
                await anext(stream)

    run(play)


def test_of_a_database_that_is_open(tmp_path: Path) -> None:
    async def play(db: kpg.Database) -> None:
        async with kpg.aio.of(db) as own:
            await own.sql(SETUP)
            await own.sql("insert into t values (1, 5)")

    with kpg.connect(tmp_path / "folder") as db:
        asyncio.run(play(db))
        assert db.query("select * from v").fetchall() == [(5,)]
    with pytest.raises(kpg.InterfaceError, match="not open"):
        asyncio.run(kpg.aio.connect().sql("select 1"))


def test_loops_of_two_threads_share_a_database() -> None:
    """And two databases of asyncio may be made of one: each is told of its own statements."""
    inner = kpg.connect()
    inner.sql("create table t (a int)")
    ready, done = threading.Event(), threading.Event()
    shared: list[kpg.aio.Database] = []

    async def first() -> None:
        async with kpg.aio.of(inner) as db:
            shared.append(db)
            ready.set()
            for number in range(20):
                await db.sql(f"insert into t values ({number})")
            await asyncio.to_thread(done.wait, PATIENCE)

    async def second() -> None:
        async with kpg.aio.of(inner) as db:
            for number in range(20):
                await shared[0].sql(f"insert into t values ({100 + number})")
                await db.sql(f"insert into t values ({200 + number})")

    thread = threading.Thread(target=lambda: asyncio.run(first()))
    thread.start()
    assert ready.wait(PATIENCE)
    asyncio.run(second())
    done.set()
    thread.join(PATIENCE)
    assert inner.query("select count(*), sum(a) from t").fetchall() == [(60, 6000 + 3 * 190)]


def test_unread_changes_are_counted_exactly_from_two_threads() -> None:
    number = 20_000

    async def play() -> int:
        queue = kpg.aio.ChangeQueue(asyncio.get_running_loop(), 10 * number)
        change: Any = ((1,), 1, 1)
        writer = threading.Thread(target=lambda: [queue.put([change]) for _ in range(number)])
        writer.start()
        for _ in range(number):
            await queue.next()
        await asyncio.to_thread(writer.join)
        return queue.waiting

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        assert asyncio.run(asyncio.wait_for(play(), PATIENCE)) == 0
    finally:
        sys.setswitchinterval(interval)
