"""Who is there, and how they are ended; what clients are told of settings and errors."""

import threading
from collections.abc import Iterator
from contextlib import suppress

import psycopg
import pytest

from tests.unit.server.conftest import Running, serving
from tests.waiting import until

ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving() as one:
        yield one


def test_sessions_are_listed(running: Running) -> None:
    with (
        psycopg.connect(running.dsn, autocommit=True, application_name="watcher") as one,
        psycopg.connect(running.dsn, application_name="worker") as other,
    ):
        other.execute("select 1 as something")
        listed = (
            "select pid, application_name, state, query from pg_stat_activity where pid = any(%s) order by 2"
        )
        pids = [one.info.backend_pid, other.info.backend_pid]
        assert one.execute(listed, (pids,)).fetchall() == [
            (pids[0], "watcher", "active", listed.replace("%s", "$1")),
            (pids[1], "worker", "idle in transaction", "select 1 as something"),
        ]
        other.commit()
        state = "select state from pg_stat_activity where pid = %s"
        assert one.execute(state, (pids[1],)).fetchone() == ("idle",)


def test_what_others_do_is_told_to_those_who_have_their_privileges(running: Running) -> None:
    with psycopg.connect(running.dsn, autocommit=True) as one, psycopg.connect(running.dsn) as other:
        one.execute("create role peeper")
        other.execute("select 1 as private")
        listed = (
            "select usename, usesysid::regrole::text, state, wait_event, query, backend_type "
            "from pg_stat_activity where pid = %s"
        )
        pid = (other.info.backend_pid,)
        shown = ("kpg", "kpg", "idle in transaction", "ClientRead", "select 1 as private", "client backend")
        assert one.execute(listed, pid).fetchall() == [shown]
        one.execute("set role peeper")
        hidden = ("kpg", "kpg", None, None, "<insufficient privilege>", None)
        assert one.execute(listed, pid).fetchall() == [hidden]
        one.execute("reset role")
        one.execute("grant pg_read_all_stats to peeper")
        one.execute("set role peeper")
        assert one.execute(listed, pid).fetchall() == [shown]


def test_what_sessions_wait_for_is_listed(running: Running) -> None:
    with (
        psycopg.connect(running.dsn, autocommit=True) as one,
        psycopg.connect(running.dsn) as holder,
        psycopg.connect(running.dsn, autocommit=True) as first,
        psycopg.connect(running.dsn, autocommit=True) as second,
    ):
        one.execute("create table w (id int primary key, a int)")
        one.execute("insert into w values (1, 1)")
        pids = {who.info.backend_pid: name for who, name in ((holder, "h"), (first, "f"), (second, "s"))}

        def listed() -> dict[str, tuple[str | None, str | None]]:
            asked = "select pid, wait_event_type, wait_event from pg_stat_activity where pid = any(%s)"
            return {pids[pid]: (kind, event) for pid, kind, event in one.execute(asked, (list(pids),))}

        def waits(statement: str, who: psycopg.Connection, expected: tuple[str, str]) -> threading.Thread:
            thread = threading.Thread(target=who.execute, args=(statement,))
            thread.start()
            until(lambda: listed()[pids[who.info.backend_pid]] == expected, expected)
            return thread

        holder.execute("update w set a = 2 where id = 1")
        threads = [
            waits("update w set a = 3 where id = 1", first, ("Lock", "transactionid")),
            waits("update w set a = 4 where id = 1", second, ("Lock", "tuple")),
        ]
        assert listed()["h"] == ("Client", "ClientRead")
        holder.commit()
        for thread in threads:
            thread.join()
        holder.execute("lock table w")
        holder.execute("select pg_advisory_xact_lock(5)")
        threads = [
            waits("insert into w values (2, 2)", first, ("Lock", "relation")),
            waits("select pg_advisory_xact_lock(5)", second, ("Lock", "advisory")),
        ]
        holder.commit()
        for thread in threads:
            thread.join()

        def nap() -> None:
            with suppress(psycopg.errors.QueryCanceled):
                first.execute("select pg_sleep(1000)")

        napping = threading.Thread(target=nap)
        napping.start()
        until(lambda: listed()["f"] == ("Timeout", "PgSleep"))
        one.execute("select pg_cancel_backend(%s)", (first.info.backend_pid,))
        napping.join()
        mine = "select wait_event_type, wait_event from pg_stat_activity where pid = pg_backend_pid()"
        assert one.execute(mine).fetchone() == (None, None)
        one.execute("drop table w")


def test_a_backend_is_cancelled(running: Running) -> None:
    with (
        psycopg.connect(running.dsn, autocommit=True) as one,
        psycopg.connect(running.dsn, autocommit=True) as other,
    ):
        one.execute("create table z (a int)")
        one.execute("create materialized view zs as select count(*) as n from z")
        stream = other.cursor().stream("subscribe zs")
        next(stream)
        found = one.execute("select pg_cancel_backend(%s), 1 as x", (other.info.backend_pid,)).fetchone()
        assert found == (True, 1)
        with pytest.raises(psycopg.errors.QueryCanceled):
            for _ in stream:
                pass
        assert other.execute("select 1").fetchone() == (1,)
        assert one.execute("select pg_cancel_backend(999999)").fetchone() == (False,)


def test_a_backend_is_terminated(running: Running) -> None:
    with psycopg.connect(running.dsn, autocommit=True) as one:
        one.execute("create table held (a int)")
        others = [psycopg.connect(running.dsn, application_name="doomed") for _ in range(3)]
        others[0].execute("insert into held values (1)")
        ended = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'doomed'"
        assert one.execute(ended).fetchall() == [(True,)] * 3
        for other in others:
            with pytest.raises(psycopg.OperationalError):
                other.execute("select 1")
            other.close()
        left = "select count(*) from pg_stat_activity where application_name = 'doomed'"
        until(lambda: one.execute(left).fetchone() == (0,))
        assert one.execute("select count(*) from held").fetchone() == (0,)


def test_settings_are_told_as_they_change(running: Running) -> None:
    with psycopg.connect(running.dsn, autocommit=True, application_name="first") as one:
        status = one.pgconn.parameter_status
        assert status(b"application_name") == b"first"
        one.execute("set application_name = 'second'")
        assert status(b"application_name") == b"second"
        assert one.execute("show application_name").fetchone() == ("second",)
        one.execute("reset all")
        assert status(b"application_name") == b""


def test_errors_name_what_was_violated(running: Running) -> None:
    with psycopg.connect(running.dsn, autocommit=True) as one:
        columns = "id int primary key, u text unique, c int check (c > 0), n int not null default 1"
        one.execute(f"create table p ({columns})".encode())
        one.execute("create table k (a int references p, b int, constraint positive check (b > 0))")
        one.execute("insert into p values (1, 'a', 1)")
        one.execute("insert into k values (1, 1)")
        expected = {
            "insert into p values (1, 'b', 1)": ("p", None, "p_pkey"),
            "insert into p values (2, 'a', 1)": ("p", None, "p_u_key"),
            "insert into p values (3, 'against constraint x', 0)": ("p", None, "p_c_check"),
            "insert into p values (4, 'c', 1, null)": ("p", "n", None),
            "insert into k values (7, 1)": ("k", None, "k_a_fkey"),
            "insert into k values (1, -1)": ("k", None, "positive"),
            "delete from p": ("k", None, "k_a_fkey"),
        }
        for text, names in expected.items():
            with pytest.raises(psycopg.errors.IntegrityError) as caught:
                one.execute(text.encode())
            told = caught.value.diag
            assert (text, told.table_name, told.column_name, told.constraint_name) == (text, *names)
            assert told.schema_name == "public"


def test_many_come_and_go(running: Running) -> None:
    """Connections that are opened and dropped, some in the middle of something, leave nothing behind."""

    def come(kind: int) -> None:
        for turn in range(40):
            one = psycopg.connect(running.dsn)
            match (kind + turn) % 4:
                case 0:
                    one.execute("insert into crowd values (1)")
                case 1:
                    one.pgconn.send_query(b"copy crowd from stdin")
                case 2:
                    one.pgconn.send_query(b"copy (subscribe crowds) to stdout")
                case _:
                    one.pgconn.send_query(ENDLESS.encode() if turn == 3 else b"select 1")
            one.pgconn.finish()

    with psycopg.connect(running.dsn, autocommit=True) as one:
        one.execute("create table crowd (a int)")
        one.execute("create materialized view crowds as select count(*) as n from crowd")
        threads = [threading.Thread(target=come, args=(kind,)) for kind in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ended = "select pg_cancel_backend(pid) from pg_stat_activity where query like 'with recursive%'"
        until(lambda: one.execute(ended) and len(running.server.clients) == 1)
        assert one.execute("select count(*) from crowd").fetchone() == (0,)
        assert one.execute("select n from crowds").fetchone() == (0,)
