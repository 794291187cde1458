"""Locks of rows and tables as sessions meet them: who waits, who goes on with what, and when they end."""

import threading
from collections.abc import Callable, Iterator
from functools import partial

import psycopg
import pytest

import kpg
from kpg.runtime.errors import SerializationError
from kpg.session import scheduler
from kpg.session.locks import DeadlockError, LockNotAvailableError
from kpg.session.session import Session
from tests.unit.server.conftest import Running, serving
from tests.waiting import PATIENCE, Clock, until

TABLES = """
    create table t (id int primary key, x int);
    create materialized view v as select sum(x) as s, count(*) as n from t;
    insert into t select i, 0 from generate_series(1, 6) g(i);
"""
WAITS = ("Lock", "Timeout")
Rows = list[tuple[object, ...]]


@pytest.fixture
def db() -> Iterator[kpg.Database]:
    with kpg.connect() as opened:
        opened.sql(TABLES)
        _ = opened.hub
        yield opened
        assert not opened.hub.engine.tables.change_hooks
        opened.verify("v")


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving() as one:
        yield one


def asked(session: Session, text: str) -> Rows:
    found = session.sql(text)
    assert found is not None
    return found.fetchall()


class Asking:
    """A statement that is asked for in a thread, and waits."""

    def __init__(self, session: Session, text: str) -> None:
        self._error: BaseException | None = None
        self._rows: Rows = []
        self._work: Callable[[], Rows] = lambda: asked(session, text)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        until(lambda: session.wait_event[0] in WAITS or not self._thread.is_alive())
        assert session.wait_event[0] in WAITS, (self._rows, self._error)

    def _run(self) -> None:
        try:
            self._rows = self._work()
        except BaseException as error:
            self._error = error

    def rows(self) -> Rows:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error
        return self._rows


def test_rows_are_locked_until_the_transaction_ends(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    for end, before in (("commit", 0), ("rollback", 11)):
        one.sql("begin")
        assert asked(one, "select id from t where id < 3 order by id for update") == [(1,), (2,)]
        with pytest.raises(LockNotAvailableError, match='could not obtain lock on row in relation "t"'):
            other.sql("select * from t where id = 2 for share nowait")
        assert asked(other, "select id, x from t where id = 2") == [(2, before)]
        waiting = Asking(other, "update t set x = x + 1 where id = 2 returning x")
        one.sql(f"update t set x = x + 10 where id = 2; {end}")
        assert waiting.rows() == [(11 if end == "commit" else 12,)]


def test_who_skips_locked_rows_gets_others(db: kpg.Database) -> None:
    one, other, third = db.session(), db.session(), db.session()
    queue = "select id from t order by id limit 2 for update skip locked"
    one.sql("begin")
    other.sql("begin")
    assert asked(one, queue) == [(1,), (2,)]
    assert asked(other, queue) == [(3,), (4,)]
    assert asked(one, queue) == [(1,), (2,)]
    assert asked(third, "select id from t order by id desc offset 1 for update skip locked") == [(5,)]
    assert asked(third, "select id from t order by id fetch first 5 rows only for share skip locked") == [
        (5,),
        (6,),
    ]
    one.sql("rollback")
    assert asked(third, queue) == [(1,), (2,)]
    other.sql("commit")


def test_subqueries_lock_before_the_statement_around_them(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    one.sql("begin; select id from t where id = 1 for update")
    first = "(select id from t order by id for update skip locked limit 1)"
    assert asked(other, f"update t set x = 7 where id = {first} returning id") == [(2,)]
    assert asked(other, f"delete from t where id in {first} returning id") == [(2,)]
    assert asked(other, f"select q.id from {first} as q") == [(3,)]
    taken = "with q as (select id from t order by id for update skip locked limit 2)"
    assert asked(other, f"{taken} update t set x = 8 from q where q.id = t.id returning t.id, x") == [
        (3, 8),
        (4, 8),
    ]
    assert asked(other, f"{taken}, r as (select max(id) as m from q) select m from r") == [(4,)]
    other.sql("create table u (id int)")
    other.sql("insert into u select id from t for update skip locked")
    assert asked(other, "select count(*) from u") == [(4,)]
    other.sql("drop table u; insert into t select i, 0 from generate_series(100, 400) g(i)")
    many = "with q as (select id from t where id >= 100 for update) delete from t using q where q.id = t.id"
    gone = other.sql(many)
    assert gone is not None and gone.rowcount == 301
    with pytest.raises(kpg.NotSupportedError, match="cannot be asked by itself"):
        other.sql("select (select u.id from t as u where u.id = t.id for update) from t")
    one.sql("rollback")


def test_the_new_version_of_a_row_is_looked_at(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    one.sql("begin; update t set x = 5 where id = 1; delete from t where id = 2")
    one.sql("update t set id = 9 where id = 3")
    waiting = Asking(other, "select id, x from t where id <= 3 and x < 5 order by id for update")
    one.sql("commit")
    assert waiting.rows() == []
    one.sql("begin; update t set x = 6 where id = 1")
    waiting = Asking(other, "select id, x from t where id = 1 for no key update")
    one.sql("commit")
    assert waiting.rows() == [(1, 6)]


@pytest.mark.parametrize(
    "change", ["update t set x = 1 where id = 1", "select * from t where id = 1 for share"]
)
def test_a_snapshot_does_not_go_on_with_a_row_that_has_changed(db: kpg.Database, change: str) -> None:
    one, other = db.session(), db.session()
    for end in ("rollback", "commit"):
        other.sql("begin isolation level repeatable read; select 1 from t")
        one.sql("begin; update t set x = x + 1 where id = 1")
        waiting = Asking(other, change)
        one.sql(end)
        if end == "commit":
            with pytest.raises(SerializationError, match='concurrent update of a row of table "t"'):
                waiting.rows()
        else:
            waiting.rows()
        other.sql("rollback")


def test_savepoints_let_go_of_what_was_locked_after_them(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    one.sql("begin; select 1 from t where id = 1 for update; savepoint a")
    one.sql("select 1 from t where id = 2 for update")
    one.sql("update t set x = 1 where id = 3")
    first = Asking(other, "update t set x = 5 where id in (2, 3)")
    one.sql("rollback to a")
    first.rows()
    with pytest.raises(LockNotAvailableError):
        other.sql("select 1 from t where id = 1 for update nowait")
    one.sql("select 1 from t where id = 4 for update; savepoint b")
    one.sql("update t set x = 1 where id = 5; release a")
    for key in (4, 5):
        with pytest.raises(LockNotAvailableError):
            other.sql(f"select 1 from t where id = {key} for update nowait")
    with pytest.raises(kpg.Error):
        one.sql("select nothing")
    assert asked(other, "select id from t where x = 5 for update nowait") == [(2,), (3,)]
    one.sql("rollback")


def test_sessions_that_wait_for_each_other_are_told(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    for session, key in ((one, 1), (other, 2)):
        session.sql(f"begin; update t set x = 1 where id = {key}")
    waiting = Asking(one, "update t set x = 2 where id = 2 returning id")
    with pytest.raises(DeadlockError):
        other.sql("select * from t where id = 1 for update")
    assert waiting.rows() == [(2,)]
    one.sql("commit")
    other.sql("rollback")
    assert asked(one, "select id, x from t where x > 0") == [(1, 1), (2, 2)]


def test_who_waits_ends_in_time_or_when_cancelled(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    one.sql("begin; update t set x = 1 where id = 1")
    for setting, message in (("lock_timeout", "lock timeout"), ("statement_timeout", "statement timeout")):
        other.sql(f"set {setting} = '20ms'")
        for text in ("delete from t where id = 1", "select * from t for share", "update t set x = 0"):
            with pytest.raises(kpg.Error, match=message):
                other.sql(text)
        other.sql(f"reset {setting}")
    waiting = Asking(other, "delete from t where id = 1")
    other.cancel()
    with pytest.raises(kpg.Error, match="user request"):
        waiting.rows()
    one.sql("rollback")


@pytest.mark.parametrize("action", ["cascade", "set null"])
def test_what_a_foreign_key_changes_waits_too(db: kpg.Database, action: str) -> None:
    db.sql(
        f"create table c (id int primary key, t int references t (id) on delete {action});"
        "insert into c values (1, 1), (2, 2)"
    )
    one, other = db.session(), db.session()
    for begin in ("begin", "select 1"):
        one.sql("begin; select * from c for update")
        other.sql(f"{begin}; insert into t values (50, 5)")
        waiting = Asking(other, "delete from t where id = 1 returning id")
        one.sql("commit")
        assert waiting.rows() == [(1,)]
        if begin == "begin":
            other.sql("commit")
        kept = [(2, 2)] if action == "cascade" else [(1, None), (2, 2)]
        assert sorted(asked(one, "select id, t from c")) == kept
        assert asked(one, "select id from t where id in (1, 50)") == [(50,)]
        one.sql("delete from t where id = 50; insert into t values (1, 0); delete from c where id = 1")
        one.sql("insert into c values (1, 1)")


def test_tables_are_locked_as_the_mode_says(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    with pytest.raises(kpg.InterfaceError, match="transaction blocks"):
        one.sql("lock table t")
    one.sql("begin; lock table t in share mode")
    assert asked(other, "select id from t where id = 1 for update") == [(1,)]
    waiting = Asking(other, "insert into t values (7, 7) returning id")
    assert asked(one, "select mode, granted from pg_locks where relation = 't'::regclass order by 2") == [
        ("RowExclusiveLock", False),
        ("ShareLock", True),
    ]
    one.sql("lock t in access exclusive mode; insert into t values (8, 8)")
    third = db.session()
    reading = Asking(third, "select s from v, t limit 1")
    one.sql("commit")
    assert waiting.rows() == [(7,)]
    assert reading.rows() in ([(8,)], [(15,)])
    other.sql("begin; update t set x = 0 where id = 7")
    with pytest.raises(LockNotAvailableError, match='could not obtain lock on relation "t"'):
        one.sql("begin; lock table only t in exclusive mode nowait")
    other.sql("commit")
    one.sql("rollback; begin; create view w as select * from t")
    one.sql("lock table w in exclusive mode; commit; begin; lock table w")
    changing = Asking(other, "alter table t add column z int default 1; select z from t limit 1")
    one.sql("drop view w; commit")
    assert changing.rows() == [(1,)]
    with pytest.raises(kpg.ProgrammingError, match='cannot lock relation "v"'):
        one.sql("begin; lock table v")
    one.sql("rollback")


def test_what_cannot_be_locked_is_refused(db: kpg.Database) -> None:
    one = db.session()
    db.sql("create view un as select id from t union all select x from t")
    db.sql("create view ag as select count(*) as n from t")
    for text, message in (
        ("select * from un for update", 'of rows of view "un" is not supported as it is no plain SELECT'),
        ("select * from ag for update", "not allowed with aggregate functions"),
        ("select * from v for update", 'cannot lock rows in materialized view "v"'),
        ("with q as (select 1) select * from q for update of q", "cannot be applied to a WITH query"),
        ("select * from generate_series(1, 2) g for update of g", "cannot be applied to a function"),
        ("select * from (values (1)) as s for update of s", "cannot be applied to VALUES"),
        ("select * from (select count(*) from t) s for update", "not allowed with aggregate functions"),
    ):
        with pytest.raises(kpg.Error, match=message):
            one.sql(text)
    one.sql("begin read only")
    with pytest.raises(kpg.InterfaceError, match="read-only transaction"):
        one.sql("select * from t for update")
    one.sql("rollback")
    with pytest.raises(kpg.InterfaceError, match="read-only transaction"):
        one.sql("begin read only; lock table t")
    one.sql("rollback")


def test_rows_below_views_are_locked_and_no_others(db: kpg.Database) -> None:
    db.sql("create table u (id int primary key, y int); insert into u values (1, 0), (2, 0)")
    db.sql("create view w as select id as k, x from t where id < 5")
    db.sql("create view j (a, b) as select w.k, u.y from w join u on u.id = w.k")
    one, other = db.session(), db.session()
    skipping = "for update skip locked"
    assert asked(one, "begin; select * from w where k = 2 for update") == [(2, 0)]
    assert asked(other, f"select id from t order by id {skipping}") == [(1,), (3,), (4,), (5,), (6,)]
    assert asked(other, f"select k from w order by k limit 2 {skipping}") == [(1,), (3,)]
    with pytest.raises(LockNotAvailableError):
        other.sql("select * from t where id = 2 for update nowait")
    with pytest.raises(LockNotAvailableError):
        other.sql("select * from j for share nowait")
    one.sql("rollback")
    assert asked(one, "begin; select s.* from j as s (z) where z = 1 for update of s") == [(1, 0)]
    assert asked(other, f"select id from u order by id {skipping}") == [(2,)]
    assert asked(other, f"select id from t where id < 3 order by id {skipping}") == [(2,)]
    changing = Asking(other, "update t set x = 7 where id = 1; select x from t where id = 1")
    one.sql("commit")
    assert changing.rows() == [(7,)]
    assert asked(one, "select * from w where k = 1 for update") == [(1, 7)]
    db.sql("create role ann; alter table u owner to ann")
    with pytest.raises(kpg.NotSupportedError, match="while roles own anything"):
        one.sql("select * from w for update")


def test_partitions_and_subqueries_are_locked(db: kpg.Database) -> None:
    db.sql(
        "create table p (a int, b int) partition by range (a); create table p1 partition of p"
        " for values from (0) to (10); create table p2 partition of p for values from (10) to (20);"
        "insert into p values (1, 1), (11, 2)"
    )
    one, other = db.session(), db.session()
    one.sql("begin; select * from p where a = 11 for update")
    assert asked(other, "select a from p for update skip locked") == [(1,)]
    assert asked(other, "select a from p1 for update nowait") == [(1,)]
    waiting = Asking(other, "update p set b = b + 1 where a = 11 returning b")
    one.sql("update p set b = 10 where a = 11; commit")
    assert waiting.rows() == [(11,)]
    one.sql("begin; select s.id from (select * from t where id < 3) s where s.id < 2 for update")
    with pytest.raises(LockNotAvailableError):
        other.sql("select * from t where id = 1 for update nowait")
    one.sql("rollback")


def test_many_rows_are_locked_together(db: kpg.Database) -> None:
    db.sql("insert into t select i, 0 from generate_series(1001, 4000) g(i)")
    one, other = db.session(), db.session()
    one.sql("begin; select * from t where id > 1000 for update")
    assert asked(other, "select count(*) from t") == [(3006,)]
    assert asked(other, "select id from t for update skip locked") == [(1,), (2,), (3,), (4,), (5,), (6,)]
    waiting = Asking(other, "update t set x = 1 where id = 2000 returning x")
    one.sql("rollback; begin; update t set x = 2 where id > 1000")
    assert waiting.rows() == [(1,)]
    waiting = Asking(other, "delete from t where x = 0 and id in (1001, 1002) returning id")
    one.sql("savepoint a; delete from t where id = 1002; rollback to a; commit")
    assert waiting.rows() == []


def test_the_database_itself_does_not_wait(db: kpg.Database) -> None:
    one = db.session()
    one.sql("begin; select * from t where id = 1 for update")
    with pytest.raises(LockNotAvailableError, match="could not obtain lock on row"):
        db.sql("update t set x = 1 where id = 1")
    with pytest.raises(LockNotAvailableError):
        db.sql("select * from t where id = 1 for update")
    db.sql("update t set x = 1 where id = 2; select * from t where id = 2 for update")
    db.delete("t", [(3,)])
    one.sql("commit")
    db.sql("update t set x = 1 where id = 1")


def test_workers_take_every_job_once(running: Running) -> None:
    workers, jobs = 5, 40
    with psycopg.connect(running.dsn, autocommit=True) as one:
        one.execute("create table jobs (id int primary key, state text)")
        one.execute("create table done (job int, worker int)")
        one.execute("insert into jobs select i, 'new' from generate_series(1, %s) g(i)", (jobs,))
    taken: list[list[int]] = [[] for _ in range(workers)]

    def work(number: int) -> None:
        with psycopg.connect(running.dsn) as own:
            while True:
                row = own.execute(
                    "select id from jobs where state = 'new' order by id for update skip locked limit 1"
                    if number % 2
                    else "update jobs set state = 'taken' where id = (select id from jobs where state = 'new'"
                    " order by id for update skip locked limit 1) returning id"
                ).fetchone()
                if row is None:
                    own.commit()
                    return
                taken[number].append(row[0])
                own.execute("insert into done values (%s, %s)", (row[0], number))
                own.execute("update jobs set state = 'done' where id = %s", row)
                own.commit()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(job for one in taken for job in one) == list(range(1, jobs + 1))
    with psycopg.connect(running.dsn) as one:
        assert one.execute("select count(*), count(distinct job) from done").fetchone() == (jobs, jobs)
        assert one.execute("select distinct state from jobs").fetchall() == [("done",)]


def test_a_bank_loses_nothing_at_read_committed(running: Running) -> None:
    accounts, clients, moves = 4, 5, 12
    with psycopg.connect(running.dsn, autocommit=True) as one:
        one.execute("create table account (id int primary key, balance int)")
        one.execute("create materialized view total as select sum(balance) as s from account")
        one.execute("insert into account select i, 100 from generate_series(1, %s) g(i)", (accounts,))

    def move(number: int) -> None:
        with psycopg.connect(running.dsn) as own:
            for turn in range(moves):
                first, second = sorted(((number + turn) % accounts + 1, (number * turn) % accounts + 1))
                asked_for = "select balance from account where id = %s for update"
                if first == second:
                    own.execute("update account set balance = balance + 1 where id = %s", (first,))
                else:
                    held = [own.execute(asked_for, (key,)).fetchone() for key in (first, second)]
                    for key, row, by in zip((first, second), held, (1, -1), strict=True):
                        assert row is not None
                        own.execute("update account set balance = %s where id = %s", (row[0] + by, key))
                own.commit()
            own.execute("insert into account values (%s, %s)", (100 + number, 0))

    threads = [threading.Thread(target=move, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    added = sum(
        (number + turn) % accounts == (number * turn) % accounts
        for number in range(clients)
        for turn in range(moves)
    )
    with psycopg.connect(running.dsn) as one:
        assert one.execute("select s from total").fetchone() == (100 * accounts + added,)
        assert one.execute("select count(*) from account where id >= 100").fetchone() == (clients,)


def test_changes_that_are_tried_together_leave_no_locks(db: kpg.Database) -> None:
    # One of them has to wait: what the first one's session held meanwhile, nobody would have let go of.
    holder, *others = (db.session() for _ in range(4))
    hub = db.hub
    for key in (4, 5, 6):
        others[0].sql(f"update t set x = x + 1 where id = {key}")
    holder.sql("begin; update t set x = x + 1 where id = 3")
    texts = [f"update t set x = x + 10 where id = {key}" for key in (1, 2, 3)]
    asked = [
        hub.submit(one, partial(one.run_text, hub.engine, text), **one.job_options(text, None))
        for one, text in zip(others, texts, strict=True)
    ]
    hub.serve()
    assert [one.done() for one in asked] == [True, True, False]
    holder.sql("commit")
    hub.serve()
    assert [one.done() for one in asked] == [True, True, True]
    assert not len(hub.engine.locks)


def note_outcome(one: psycopg.Connection, text: str, found: list[BaseException | None]) -> None:
    """Run a statement, and note its error, or that there was none."""
    try:
        one.execute(text.encode())
    except psycopg.Error as error:
        found.append(error)
    else:
        found.append(None)


def test_who_goes_on_does_not_come_between_uncommitted_definitions(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, waiting = Clock(), running.db.hub.waiting_statements
    monkeypatch.setattr(scheduler, "time", clock)
    monkeypatch.setattr(waiting, "_request_check_at", lambda *_: None)  # it is given here
    with (
        psycopg.connect(running.dsn, autocommit=True) as one,
        psycopg.connect(running.dsn, autocommit=True) as other,
    ):
        one.execute("create table amid (id int primary key, x int)")
        one.execute("insert into amid values (1, 0)")
        other.execute("set lock_timeout = '300s'")
        for asked, error in (
            ("select pg_sleep(200)", None),
            ("update amid set x = 7", psycopg.errors.LockNotAvailable),
        ):
            one.execute("begin")
            one.execute("update amid set x = x + 1")
            found: list[BaseException | None] = []

            thread = threading.Thread(target=note_outcome, args=(other, asked, found))
            thread.start()
            session = running.db.hub.sessions[other.info.backend_pid]
            until(lambda session=session: session in waiting)
            one.execute("create table made (id int)")
            clock.move_on(500)
            waiting.request_check(session)
            if error is None:
                until(lambda session=session: session in waiting.excluded)
                assert found == []
            else:
                until(lambda found=found: found)
                assert [type(wrong) for wrong in found] == [error]
            assert one.execute("commit").statusmessage == "COMMIT"
            thread.join(PATIENCE)
            assert not thread.is_alive()
            assert one.execute("select * from made").fetchall() == []
            one.execute("drop table made")
        assert one.execute("select x from amid").fetchall() == [(2,)]
        one.execute("drop table amid")


def test_changes_are_nobody_elses_whatever_the_path_is(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    one.sql("create schema far; set search_path = far; begin; update public.t set x = 5 where id = 1")
    assert asked(other, "select sum(x) from t") == [(0,)]
    assert asked(one, "select sum(x) from public.t") == [(5,)]
    assert asked(other, "select id from t order by id limit 1 for key share") == [(1,)]
    one.sql("rollback")
    assert asked(other, "select sum(x) from t") == [(0,)]
