"""LISTEN and NOTIFY, by real clients and by sessions in Python."""

import asyncio
import threading
from collections.abc import Iterator

import psycopg
import pytest

import kpg
from kpg.runtime.errors import DataError
from tests.unit.server.conftest import Running, serving
from tests.waiting import PATIENCE


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving() as one:
        yield one


def said(session: kpg.session.session.Session) -> list[tuple[str, str]]:
    return [(message.channel, message.payload) for message in session.notifications()]


def test_an_idle_client_is_told_of_a_commit(running: Running) -> None:
    with (
        psycopg.connect(running.dsn, autocommit=True) as listener,
        psycopg.connect(running.dsn) as speaker,
    ):
        listener.execute("listen news")
        speaker.execute("notify news, 'one'")
        speaker.execute("notify NEWS, 'two'")
        speaker.execute("select pg_notify('news', 'thr' || 'ee')")
        speaker.execute("notify news, 'one'")
        timer = threading.Timer(0.2, speaker.commit)
        timer.start()
        told = [
            (one.channel, one.payload, one.pid) for one in listener.notifies(timeout=PATIENCE, stop_after=3)
        ]
        timer.join()
        pid = speaker.info.backend_pid
        assert told == [("news", "one", pid), ("news", "two", pid), ("news", "three", pid)]
        assert speaker.execute("select pg_backend_pid()").fetchone() == (pid,)


def test_a_client_within_a_transaction_is_told_after_it(running: Running) -> None:
    with psycopg.connect(running.dsn) as listener, psycopg.connect(running.dsn, autocommit=True) as speaker:
        listener.execute("listen a")
        listener.commit()
        listener.execute("select 1")
        speaker.execute("notify a, 'x'")
        assert listener.execute("select 2").fetchone() == (2,)
        assert list(listener.notifies(timeout=0)) == []
        listener.commit()
        assert [one.payload for one in listener.notifies(timeout=PATIENCE, stop_after=1)] == ["x"]


def test_asyncpg_listens(running: Running) -> None:
    import asyncpg

    async def work() -> list[tuple[str, str]]:
        heard: list[tuple[str, str]] = []
        done = asyncio.Event()

        def told(_one: object, _pid: int, channel: str, payload: str) -> None:
            heard.append((channel, payload))
            done.set()

        listener, speaker = [
            await asyncpg.connect(host="127.0.0.1", port=running.port, user="kpg", database="kpg")
            for _ in range(2)
        ]
        await listener.add_listener("Mixed", told)
        await speaker.execute("select pg_notify($1, $2)", "Mixed", "hello")
        await asyncio.wait_for(done.wait(), PATIENCE)
        await listener.remove_listener("Mixed", told)
        await listener.close()
        await speaker.close()
        return heard

    assert asyncio.run(work()) == [("Mixed", "hello")]


def test_what_is_rolled_back_was_not_said() -> None:
    with kpg.connect() as db:
        one, other = db.session(), db.session()
        other.sql("listen c; listen d")
        one.sql(
            "begin; notify c, '1'; savepoint s; notify c, '2'; notify d; rollback to s; notify c, '3'; commit"
        )
        assert said(other) == [("c", "1"), ("c", "3")]
        one.sql("begin; notify c, '4'; rollback; notify c, '5'")
        assert said(other) == [("c", "5")]
        one.sql("begin; savepoint s; notify c, '6'; release s; savepoint t; rollback to t; commit")
        assert said(other) == [("c", "6")]
        with pytest.raises(kpg.Error):
            one.sql("begin; notify c, '7'; select 1 / 0")
        one.sql("commit")
        assert said(other) == []
        one.sql("begin; notify c, '8'; savepoint s")
        with pytest.raises(kpg.Error):
            one.sql("notify c, '9'; select nope")
        one.sql("rollback to s; commit")
        assert said(other) == [("c", "8")]


def test_listening_is_a_part_of_the_transaction() -> None:
    with kpg.connect() as db:
        one = db.session()
        one.sql("begin; listen c; rollback; notify c")
        assert said(one) == []
        one.sql("begin; notify c, 'own'; listen c; commit")
        assert said(one) == [("c", "own")]
        assert one.mailbox.list_channels() == ["c"]
        one.sql("unlisten *; notify c")
        assert said(one) == []
        other = db.session()
        other.sql("listen c")
        other.close()
        one.sql("notify c")


def test_a_query_says_something_for_each_row() -> None:
    with kpg.connect() as db:
        one = db.session()
        one.sql("create table t (id int, name text); insert into t values (1, 'a'), (2, 'b'); listen rows")
        result = one.sql(
            "select id, pg_notify('rows', name), id * 2 as twice from t where id > 0 order by id"
        )
        assert result is not None
        assert (result.columns, result.fetchall()) == (
            ["id", "pg_notify", "twice"],
            [(1, "", 2), (2, "", 4)],
        )
        assert said(one) == [("rows", "a"), ("rows", "b")]


def test_what_cannot_be_said() -> None:
    with kpg.connect() as db:
        one = db.session()
        for text, message in (
            ("select pg_notify('', 'x')", "channel name cannot be empty"),
            (f"select pg_notify('{'c' * 64}', 'x')", "channel name too long"),
            (f"notify c, '{'x' * 8000}'", "payload string too long"),
        ):
            with pytest.raises(DataError, match=message):
                one.sql(text)
        with pytest.raises(kpg.Error, match="takes 2 arguments"):
            one.sql("select pg_notify('c')")
