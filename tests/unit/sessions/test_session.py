"""Sessions of one database: what each sees of the others, and what happens when they meet."""

import threading
from concurrent.futures import Future

import pytest

import kpg
from kpg.postgres.sqlstate import sqlstate_of
from kpg.runtime.errors import CanceledError, SerializationError
from kpg.session.group_commit import FunctionJob
from kpg.session.transaction import State
from tests.unit.sessions.conftest import rows
from tests.waiting import until

TABLES = """
    create table t (id int primary key, x int);
    create materialized view v as select sum(x) as s, count(*) as n from t;
    insert into t values (1, 1), (2, 2);
"""


def test_what_is_not_committed_only_its_session_sees(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    one.sql("begin")
    one.sql("update t set x = 10 where id = 1; insert into t values (3, 3); delete from t where id = 2")
    assert rows(one, "select * from t") == [(1, 10), (3, 3)]
    assert rows(one, "select * from v") == [(13, 2)]
    assert rows(other, "select * from t") == [(1, 1), (2, 2)]
    assert rows(other, "select * from v") == [(3, 2)]
    one.sql("commit")
    assert rows(other, "select * from t") == [(1, 10), (3, 3)]
    assert rows(other, "select * from v") == [(13, 2)]


def test_others_commit_in_the_middle_of_a_transaction(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    one.sql("begin; insert into t values (3, 3)")
    other.sql("insert into t values (4, 40)")
    assert rows(one, "select id from t") == [(1,), (2,), (3,), (4,)]
    other.sql("delete from t where id = 4")
    one.sql("update t set x = 33 where id = 3; commit")
    assert rows(other, "select * from t") == [(1, 1), (2, 2), (3, 33)]
    assert rows(other, "select * from v") == [(36, 3)]
    db.verify("v")


@pytest.mark.parametrize("notices", [False, True])
def test_what_was_done_before_a_conflict_can_be_returned_to(db: kpg.Database, notices: bool) -> None:
    one, other = db.session(), db.session()
    one.sql("begin; insert into t values (3, 3); savepoint b; savepoint a")
    one.sql("insert into t values (10, 1); savepoint b")
    other.sql("insert into t values (10, 5)")
    if notices:
        with pytest.raises(kpg.IntegrityError, match="duplicate key"):
            one.sql("select * from t")
        with pytest.raises(kpg.InterfaceError, match="rolled back by an earlier error"):
            one.sql("select * from t")
    with pytest.raises(SerializationError, match='before savepoint "b"'):
        one.sql("rollback to b")
    with pytest.raises(kpg.InterfaceError, match="does not exist"):
        one.sql("rollback to c")
    one.sql("rollback to a; update t set x = x + 1 where id = 10; commit")
    assert rows(other, "select * from t") == [(1, 1), (10, 6), (2, 2), (3, 3)]
    assert rows(other, "select * from v") == [(12, 4)]
    one.sql("begin; savepoint a")
    with pytest.raises(kpg.InterfaceError, match='"b" does not exist'):
        one.sql("rollback to b")


def test_a_conflict_at_the_commit_takes_what_was_before_savepoints_too(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    one.sql("begin; insert into t values (3, 3); savepoint a; insert into t values (10, 1)")
    other.sql("insert into t values (10, 5)")
    with pytest.raises(kpg.IntegrityError):
        one.sql("commit")
    assert rows(one, "select * from t") == rows(other, "select * from t") == [(1, 1), (10, 5), (2, 2)]
    one.sql("insert into t values (4, 4)")
    assert rows(other, "select * from v") == [(12, 4)]


def test_a_commit_that_is_cancelled_is_none_and_a_rollback_cannot_be(db: kpg.Database) -> None:
    one = db.session()
    one.sql("begin; insert into t values (3, 3)")
    one.cancel()
    with pytest.raises(CanceledError):
        one.sql("commit")
    assert one.transactions.state is State.NONE
    one.sql("begin; insert into t values (4, 4)")
    one.cancel()
    one.sql("rollback")
    assert one.transactions.state is State.NONE
    with pytest.raises(CanceledError):
        one.sql("select 1")
    assert rows(one, "select id from t") == [(1,), (2,)]


def test_savepoints_live_through_statements_of_others(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    one.sql("begin; insert into t values (3, 3); savepoint a; update t set x = 30 where id = 3")
    other.sql("insert into t values (9, 9)")
    one.sql("savepoint b; delete from t where id = 3; delete from t where id = 9")
    assert rows(other, "select id from t") == [(1,), (2,), (9,)]
    assert rows(one, "select * from t") == [(1, 1), (2, 2)]
    other.sql("select 1")
    one.sql("rollback to b")
    assert rows(one, "select * from t where id > 2") == [(3, 30), (9, 9)]
    other.sql("select 1")
    one.sql("rollback to a; commit")
    assert rows(other, "select * from t") == [(1, 1), (2, 2), (3, 3), (9, 9)]
    db.verify("v")


@pytest.mark.parametrize("change", ["update t set x = x + 100 where id = 1", "delete from t where id = 1"])
def test_who_changes_a_row_second_waits_for_the_first(db: kpg.Database, change: str) -> None:
    one, other = db.session(), db.session()
    one.sql("begin; update t set x = x + 1 where id = 1")
    second = threading.Thread(target=other.sql, args=(change,))
    second.start()
    until(lambda: other in db.hub.waiting_statements)
    assert rows(one, "select * from t") == [(1, 2), (2, 2)]
    one.sql("commit")
    second.join()
    expected = [(1, 102), (2, 2)] if change.startswith("update") else [(2, 2)]
    assert rows(one, "select * from t") == expected
    db.verify("v")


def test_two_insert_the_same_key(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    one.sql("begin; insert into t values (3, 3)")
    other.sql("insert into t values (3, 300)")
    with pytest.raises(kpg.IntegrityError, match="duplicate key"):
        one.sql("commit")
    one.sql("rollback")
    assert rows(one, "select * from t where id = 3") == [(3, 300)]


def test_a_foreign_key_is_checked_again(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    one.sql("create table c (id int primary key, t int references t)")
    one.sql("begin; insert into c values (1, 2)")
    other.sql("delete from t where id = 2")
    with pytest.raises(kpg.IntegrityError, match="no row of table t"):
        one.sql("commit")
    one.sql("rollback")
    assert rows(other, "select * from c") == []
    one.sql("insert into c values (1, 1)")
    one.sql("begin; update t set x = 5 where id = 1")
    other.sql("insert into c values (2, 1)")
    one.sql("commit")
    assert rows(other, "select id, t from c") == [(1, 1), (2, 1)]
    one.sql("begin; delete from c; delete from t where id = 1")
    other.sql("insert into c values (3, 1)")
    with pytest.raises(kpg.IntegrityError, match="still referred to"):
        one.sql("commit")


@pytest.mark.parametrize("end", ["rollback", "close"])
def test_a_transaction_that_cannot_go_on_can_be_given_up(db: kpg.Database, end: str) -> None:
    one, other = db.session(), db.session()
    one.sql("begin; update t set x = 5 where id = 1; savepoint a; update t set x = 6 where id = 1")
    one.sql("insert into t values (3, 3)")
    other.sql("insert into t values (3, 4); delete from t where id = 2")
    one.close() if end == "close" else one.sql("rollback")
    assert rows(other, "select * from t") == [(1, 1), (3, 4)]


def test_settings_and_prepared_statements_are_a_sessions_own(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    one.sql("create schema s; create table s.u (a int); insert into s.u values (7)")
    one.sql("set search_path = s; set application_name = 'mine'; prepare p as select a from u")
    assert rows(one, "select a from u") == [(7,)]
    assert rows(one, "execute p") == [(7,)]
    with pytest.raises(kpg.ProgrammingError, match='relation "u" does not exist'):
        other.sql("select a from u")
    with pytest.raises(kpg.ProgrammingError, match='prepared statement "p" does not exist'):
        other.sql("execute p")
    assert rows(other, "show application_name") == [("",)]
    assert rows(one, "show application_name") == [("mine",)]


def test_the_database_itself_sees_what_is_committed(db: kpg.Database) -> None:
    one = db.session()
    one.sql("begin; insert into t values (3, 3)")
    assert db.query("select count(*) from t").fetchall() == [(2,)]
    assert db.view("v").fetchall() == [(3, 2)]
    db.insert("t", [(4, 4)])
    one.sql("commit")
    assert db.view("v").fetchall() == [(10, 4)]


def test_closing_a_session_rolls_it_back(db: kpg.Database) -> None:
    with db.session() as one:
        one.sql("begin; insert into t values (3, 3)")
    assert rows(db.session(), "select id from t") == [(1,), (2,)]
    with pytest.raises(kpg.InterfaceError, match="the session is closed"):
        one.sql("select 1")


def test_definitions_in_a_transaction_keep_others_out(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    one.sql("begin; create table u (a int); insert into u values (1)")
    seen: list[object] = []
    waiting = threading.Thread(target=lambda: seen.extend(rows(other, "select * from u")))
    waiting.start()
    until(lambda: len(db.hub.waiting_statements) == 1)
    assert seen == []
    one.sql("commit")
    waiting.join()
    assert seen == [(1,)]


def test_many_threads_insert(db: kpg.Database) -> None:
    def insert(first: int) -> None:
        with db.session() as one:
            for place in range(20):
                one.sql(f"insert into t values ({first + place}, 1)")

    threads = [threading.Thread(target=insert, args=(1000 * place,)) for place in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert db.view("v").fetchall() == [(163, 162)]
    db.verify("v")


def test_of_commits_that_share_a_step_only_the_wrong_ones_fail(db: kpg.Database) -> None:
    db.sql("create materialized view w as select id, 100 / x as y from t")
    sessions = [db.session() for _ in range(4)]
    texts = ("(3, 3)", "(1, 1)", "(4, 0)", "(5, 5)")
    futures = [
        session.submit(session.parse(f"insert into t values {text}")[0])
        for session, text in zip(sessions, texts, strict=True)
    ]
    db.hub.serve()
    errors = [type(future.exception()) for future in futures]
    assert errors == [type(None), kpg.IntegrityError, kpg.DataError, type(None)]
    assert sorted(db.view("w").fetchall()) == [(1, 100), (2, 50), (3, 33), (5, 20)]
    db.verify("v")


def test_gathered_commits_keep_their_epochs(db: kpg.Database) -> None:
    view = db.view("v")
    list(view.changes())
    before = db.epoch
    sessions = [db.session() for _ in range(3)]
    futures = [
        session.submit(session.parse(f"insert into t values ({place}, 1)")[0])
        for place, session in enumerate(sessions, 10)
    ]
    db.hub.serve()
    assert [future.result() is not None for future in futures] == [True] * 3
    assert db.epoch == before + 3
    assert [(row, time - before) for row, time, diff in view.changes() if diff > 0] == [
        ((4, 3), 1),
        ((5, 4), 2),
        ((6, 5), 3),
    ]


def test_a_statement_is_cancelled_from_another_thread(db: kpg.Database) -> None:
    one = db.session()
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
    timer = threading.Timer(0.3, one.cancel)
    timer.start()
    with pytest.raises(CanceledError, match="user request"):
        one.sql(endless)
    assert rows(one, "select count(*) from t") == [(2,)]


def test_a_statement_has_a_time_limit(db: kpg.Database) -> None:
    one = db.session()
    one.sql("set statement_timeout = '200ms'")
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
    with pytest.raises(CanceledError, match="statement timeout"):
        one.sql(endless)
    one.sql("set statement_timeout = 0")
    assert rows(one, "select count(*) from t") == [(2,)]


LEVELS = ["repeatable read", "serializable"]


@pytest.mark.parametrize("level", LEVELS)
def test_all_statements_of_a_transaction_see_the_same(db: kpg.Database, level: str) -> None:
    one, other = db.session(), db.session()
    one.sql("create table u (a int); insert into u values (1)")
    one.sql(f"begin isolation level {level}")
    assert rows(one, "select s from v") == [(3,)]
    other.sql("insert into u values (2)")
    assert rows(one, "select * from t") == [(1, 1), (2, 2)]
    assert rows(one, "select * from u") == [(1,)]
    other.sql("update t set x = 20 where id = 2; insert into t values (3, 3); delete from t where id = 1")
    one.sql("prepare p as select x from t where id = $1")
    for _ in range(3):
        assert rows(one, "select * from v") == [(3, 2)]
        assert rows(one, "select x from t where id = 1") == [(1,)]
        assert rows(one, "execute p(2)") == [(2,)]
        assert rows(one, "select t.x, u.a from t join u on t.id = u.a") == [(1, 1)]
        other.sql("insert into t select max(id) + 1, 0 from t")
    assert rows(other, "select s from v") == [(23,)]
    one.sql("commit")
    assert rows(one, "select * from u") == [(1,), (2,)]


def test_a_snapshot_has_the_transactions_own_changes(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    one.sql("begin isolation level repeatable read; select 1 from t")
    one.sql("insert into t values (5, 50); savepoint a; delete from t where id = 1")
    other.sql("insert into t values (6, 60); update t set x = 21 where id = 2")
    assert rows(one, "select * from t") == [(2, 2), (5, 50)]
    assert rows(one, "select * from v") == [(52, 2)]
    one.sql("update t set x = x + 1 where id = 5")
    other.sql("insert into t values (7, 70)")
    assert rows(one, "select * from t") == [(2, 2), (5, 51)]
    one.sql("rollback to a")
    assert rows(one, "select * from t") == [(1, 1), (2, 2), (5, 50)]
    one.sql("delete from t where x = 1; commit")
    assert rows(other, "select id from t") == [(2,), (5,), (6,), (7,)]
    db.verify("v")


@pytest.mark.parametrize(
    "change",
    ["update t set x = 0 where id = 2", "delete from t where x = 2", "select 1; update t set x = x + 1"],
)
def test_a_row_that_was_changed_after_the_snapshot_is_not_changed(db: kpg.Database, change: str) -> None:
    one, other = db.session(), db.session()
    one.sql("begin isolation level repeatable read; select 1 from t")
    other.sql("update t set x = 20 where id = 2")
    with pytest.raises(SerializationError, match='concurrent update of a row of table "t"'):
        one.sql(change)
    with pytest.raises(kpg.InterfaceError, match="rolled back by an earlier error"):
        one.sql("select 1")
    one.sql("rollback")
    assert rows(one, "select * from t") == [(1, 1), (2, 20)]


def test_no_snapshot_has_two_rows_with_one_key(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    one.sql("begin isolation level repeatable read; select 1 from t")
    other.sql("delete from t where id = 2")
    one.sql("insert into t values (3, 3)")
    with pytest.raises(SerializationError, match="concurrent deletion"):
        one.sql("insert into t values (2, 20)")
    one.sql("rollback")
    assert rows(one, "select * from t") == [(1, 1)]


def test_what_is_kept_for_snapshots_is_given_up(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    executor = db.hub.engine.executor
    one.sql("begin isolation level repeatable read; select 1 from t")
    other.sql("update t set x = 20 where id = 2")
    assert executor.tables.history_since("t") is not None
    one.sql("commit and chain; select 1 from t")
    assert rows(one, "select * from t") == [(1, 1), (2, 20)]
    other.sql("update t set x = 21 where id = 2")
    assert rows(one, "select * from t") == [(1, 1), (2, 20)]
    one.close()
    assert executor.tables.history_since("t") is None
    assert rows(other, "select * from t") == [(1, 1), (2, 21)]


def test_a_table_that_was_defined_anew_is_not_known_as_it_was(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    one.sql("begin isolation level repeatable read; select 1 from t")
    other.sql("insert into t values (3, 3); create table u (a int); insert into u values (1)")
    with pytest.raises(SerializationError, match='what "u" was is not known'):
        one.sql("select * from u")
    one.sql("rollback")


def test_a_level_is_set_before_the_first_query(db: kpg.Database) -> None:
    one = db.session()
    one.sql("begin; set transaction isolation level repeatable read; select 1 from t")
    assert rows(one, "show transaction_isolation") == [("repeatable read",)]
    with pytest.raises(kpg.InterfaceError, match="before any query"):
        one.sql("set transaction isolation level serializable")
    one.sql("rollback")
    assert rows(one, "show transaction_isolation") == [("read committed",)]


def test_serializable_reads_alone_are_never_refused(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    one.sql("begin isolation level serializable; select 1 from t")
    other.sql("update t set x = 20 where id = 2")
    assert rows(one, "select * from t") == [(1, 1), (2, 2)]
    one.sql("commit")


def test_write_skew_is_for_repeatable_read_only(db: kpg.Database) -> None:
    db.sql("create table duty (name text primary key, here boolean)")
    leave = "update duty set here = false where name = '{}' and (select count(*) from duty where here) > 1"
    for level, together in (("repeatable read", 0), ("serializable", 1)):
        db.sql("delete from duty; insert into duty values ('ann', true), ('bob', true)")
        ann, bob = db.session(), db.session()
        for session, name in ((ann, "ann"), (bob, "bob")):
            session.sql(f"begin isolation level {level}")
            session.sql(leave.format(name))
        ann.sql("commit")
        if together:
            with pytest.raises(SerializationError, match='table "duty"'):
                bob.sql("commit")
        else:
            bob.sql("commit")
        assert db.query("select count(*) from duty where here").fetchall() == [(together,)]


def test_levels_are_set_in_all_of_sqls_ways(db: kpg.Database) -> None:
    def sees_later_commits(*statements: str) -> bool:
        one, other = db.session(), db.session()
        for statement in statements:
            one.sql(statement)
        before = rows(one, "select count(*) from t")
        other.sql("insert into t select max(id) + 1, 0 from t")
        after = rows(one, "select count(*) from t")
        one.close()
        return before != after

    assert sees_later_commits("begin")
    assert sees_later_commits("begin isolation level read uncommitted")
    assert not sees_later_commits("start transaction isolation level repeatable read, read write")
    assert not sees_later_commits("begin", "set transaction isolation level serializable")
    always = "set session characteristics as transaction isolation level serializable"
    assert not sees_later_commits(always, "begin")
    assert not sees_later_commits("set default_transaction_isolation = 'repeatable read'", "begin")


def test_an_insert_reads_nothing(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    one.sql("begin isolation level serializable; select * from v where false")
    one.sql("rollback; begin isolation level serializable")
    one.sql("insert into t values (3, 3)")
    other.sql("insert into t values (4, 4)")
    one.sql("commit")
    assert rows(one, "select id from t") == [(1,), (2,), (3,), (4,)]


def test_a_cancel_that_one_use_of_the_engine_misses_meets_the_next(db: kpg.Database) -> None:
    one = db.session()
    one.run(lambda _: one.cancel())
    assert rows(one, "select 1") == [(1,)]
    one.has_explicit_end = True
    one.run(lambda _: one.cancel())
    with pytest.raises(CanceledError, match="due to user request"):
        rows(one, "select 1")
    one.token.is_canceled = False
    assert rows(one, "select 1") == [(1,)]


def test_work_may_be_handed_in_while_what_waits_is_counted(db: kpg.Database) -> None:
    one, hub = db.session(), db.hub

    class Meddling(FunctionJob):
        @property
        def sessions(self) -> None:
            hub._waiting.append(self)
            hub._waiting.pop()

    done: Future[int] = Future()
    hub.submit_job(Meddling(one, lambda: 7, done, light=lambda _: True))
    assert hub.serve_if_light() == 1
    assert done.result() == 7


def test_a_snapshot_is_handed_on(db: kpg.Database) -> None:
    """As parallel readers do: what the first transaction sees the others see, while it lasts."""
    first, second, other = db.session(), db.session(), db.session()
    first.sql("begin isolation level repeatable read")
    ((name,),) = rows(first, "select pg_export_snapshot()")
    assert rows(first, "select pg_export_snapshot()") == [(name,)]
    other.sql("insert into t values (3, 3)")
    second.sql(f"begin isolation level repeatable read; set transaction snapshot '{name}'")
    assert rows(second, "select id from t") == rows(first, "select id from t") == [(1,), (2,)]
    first.sql("commit")
    assert rows(second, "select id from t") == [(1,), (2,)]
    second.sql("commit")
    assert rows(second, "select id from t") == [(1,), (2,), (3,)]


@pytest.mark.parametrize(
    ("before", "message"),
    [
        ("begin", "must have isolation level SERIALIZABLE or REPEATABLE READ"),
        ("begin isolation level repeatable read; select 1", "must be called before any query"),
        ("begin isolation level repeatable read", 'invalid snapshot identifier: "0-1"'),
    ],
)
def test_a_snapshot_that_cannot_be_had(db: kpg.Database, before: str, message: str) -> None:
    session = db.session()
    session.sql(before)
    with pytest.raises(kpg.Error, match=message):
        session.sql("set transaction snapshot '0-1'")


def test_what_has_been_changed_is_not_handed_on(db: kpg.Database) -> None:
    session = db.session()
    session.sql("begin; insert into t values (3, 3)")
    with pytest.raises(kpg.Error, match="exports no snapshot"):
        session.sql("select pg_export_snapshot()")


def test_only_sessions_have_snapshots(db: kpg.Database) -> None:
    for text in ("select pg_export_snapshot()", "begin; set transaction snapshot '0-1'"):
        with pytest.raises(kpg.Error, match="only sessions have snapshots"):
            db.sql(text)


def test_settings_are_a_sessions_own_and_nobody_waits_for_them(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    one.sql("begin; set work_mem = '8MB'; set local lock_timeout = '7s'; set search_path = far, public")
    assert other.sql("select 1").fetchall() == [(1,)]  # which would wait for ever
    assert one.sql("show work_mem").fetchall() == [("8MB",)]
    one.sql("savepoint s; set work_mem = '9MB'; set app.x = 'a'; set role none")
    other.sql("begin; set work_mem = '1MB'")
    one.sql("rollback to s")
    shown = (
        "select current_setting('work_mem'), current_setting('lock_timeout'), current_setting('app.x', true)"
    )
    assert one.sql(shown).fetchall() == [("8MB", "7s", None)]
    one.sql("savepoint t; set work_mem = '10MB'; release t; commit")
    assert one.sql(shown).fetchall() == [("10MB", "0", None)]
    assert one.sql("show search_path").fetchall() == [("far, public",)]
    assert other.sql("show work_mem").fetchall() == [("1MB",)]
    other.sql("rollback")
    assert other.sql("show work_mem").fetchall() == [("4MB",)]


def test_settings_go_with_a_transaction_that_fails(db: kpg.Database) -> None:
    one = db.session()
    one.sql("set work_mem = '5MB'; create schema far; create table far.g (a int)")
    one.sql("begin; set search_path = far; set work_mem = '6MB'; create table made (a int)")
    with pytest.raises(kpg.Error):
        one.sql("select nosuch")
    one.sql("rollback")
    assert one.sql("show work_mem").fetchall() == [("5MB",)]
    assert one.sql("select current_schema()").fetchall() == [("public",)]
    with pytest.raises(kpg.ProgrammingError):
        one.sql("select * from g")
    # What is set for the transaction only takes nothing else with it.
    one.sql("begin; set local work_mem = '7MB'; set lock_timeout = '3s'; commit")
    assert one.sql("select current_setting('work_mem'), current_setting('lock_timeout')").fetchall() == [
        ("5MB", "3s")
    ]


def test_each_session_has_the_numbers_that_it_was_given() -> None:
    with kpg.connect() as db:
        db.sql("create sequence s; create table t (id serial primary key, x int)")
        one, other = db.session(), db.session()
        one.sql("select nextval('s')")
        other.sql("select nextval('s'); insert into t (x) values (1), (2)")
        one.sql("insert into t (x) values (3)")
        asked = "select currval('s'), currval('t_id_seq'), lastval()"
        assert one.sql(asked).fetchall() == [(1, 3, 3)]
        assert other.sql(asked).fetchall() == [(2, 2, 2)]
        with pytest.raises(kpg.Error, match=r'currval of sequence "s" is not yet defined in this session'):
            db.sql("select currval('s')")
        other.sql("alter sequence t_id_seq rename to renamed; discard sequences")
        assert one.sql("select currval('renamed'), lastval()").fetchall() == [(3, 3)]
        with pytest.raises(kpg.Error, match="lastval is not yet defined in this session"):
            other.sql("select lastval()")
        one.close()
        assert one.number not in db._engine.sequences._sessions
        other.sql("begin; create sequence brief; select nextval('brief'); rollback")
        with pytest.raises(kpg.Error, match="lastval is not yet defined in this session"):
            other.sql("select lastval()")


def test_a_session_is_its_roles_and_not_that_of_another_which_gets_the_name() -> None:
    """Otherwise who has been dropped, or has another name, would have the rights of who comes after."""
    with kpg.connect() as db:
        db.sql("create table t (x int); insert into t values (1); create role ann; grant select on t to ann")
        owner, ann = db.session(), db.session("ann")
        owner.sql("begin; alter role ann rename to eve; rollback")
        assert ann.sql("select current_user, x from t").fetchall() == [("ann", 1)]
        owner.sql("alter role ann rename to eve; create role ann superuser")
        assert ann.sql("select current_user, session_user, x from t").fetchall() == [("eve", "eve", 1)]
        with pytest.raises(kpg.Error, match="permission denied to create role"):
            ann.sql("create role more superuser")
        owner.sql("revoke select on t from eve; begin; drop role eve; rollback")
        assert ann.sql("select current_user").fetchall() == [("eve",)]
        owner.sql("drop role eve; create role eve superuser")
        for text in ("select * from t", "create role more", "set role ann", "set session authorization eve"):
            with pytest.raises(kpg.Error, match="permission denied"):
                ann.sql(text)


@pytest.mark.parametrize(
    "statement",
    [
        "delete from nosuch",
        "update nosuch set x = 1",
        "merge into nosuch n using t on n.x = t.id when matched then delete",
        "with d as (delete from nosuch returning x) select * from d",
        "set transaction isolation level serializable",
    ],
)
def test_what_fails_before_it_is_run_fails_its_transaction(db: kpg.Database, statement: str) -> None:
    one = db.session()
    one.sql("begin isolation level repeatable read")
    one.sql("insert into t values (3, 3)")
    with pytest.raises(kpg.Error):
        one.sql(statement)
    with pytest.raises(kpg.Error, match="rolled back by an earlier error"):
        one.sql("insert into t values (4, 4)")
    one.sql("rollback")
    assert rows(one, "select id from t") == [(1,), (2,)]


def test_definitions_before_a_savepoint_stay_unseen_after_an_error(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    one.sql("begin; create table made (a int); insert into made values (1); insert into t values (3, 3)")
    one.sql("savepoint a")
    with pytest.raises(kpg.Error):
        one.sql("select nosuch from t")
    asked = [
        other.submit(other.parse(text)[0])
        for text in ("select id from t order by id", "insert into t values (4, 4)", "select * from made")
    ]
    db.hub.serve()
    assert not any(one.done() for one in asked)
    one.sql("rollback")
    db.hub.serve()
    read, inserted, made = asked
    found = read.result()
    assert found is not None and found.fetchall() == [(1,), (2,)]
    assert inserted.exception() is None
    assert isinstance(made.exception(), kpg.ProgrammingError)
    assert rows(one, "select * from t") == [(1, 1), (2, 2), (4, 4)]


def test_a_table_dropped_before_a_savepoint_is_there_again_after_an_error(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    one.sql("begin; insert into t values (3, 3); delete from t where id = 1")
    one.sql("drop materialized view v; drop table t; savepoint a")
    with pytest.raises(kpg.Error):
        one.sql("select * from t")
    asked = other.submit(other.parse("select * from t order by id")[0])
    db.hub.serve()
    assert not asked.done()
    one.close()
    db.hub.serve()
    found = asked.result()
    assert found is not None and found.fetchall() == [(1, 1), (2, 2)]
    assert rows(other, "select * from v") == [(3, 2)]


def test_a_statement_that_is_cancelled_before_it_begins_fails_its_transaction(db: kpg.Database) -> None:
    one = db.session()
    one.sql("begin; insert into t values (3, 3)")
    one.cancel()
    with pytest.raises(CanceledError):
        one.sql("insert into t values (4, 4)")
    with pytest.raises(kpg.Error, match="rolled back by an earlier error"):
        one.sql("insert into t values (5, 5)")
    one.sql("rollback")
    assert rows(one, "select id from t") == [(1,), (2,)]


def test_a_session_does_not_wait_for_its_own_threads_transaction(db: kpg.Database) -> None:
    one = db.session()
    with db.transaction():
        db.sql("create table other (a int)")
        with pytest.raises(kpg.InterfaceError, match="wait for ever for this thread's transaction"):
            one.sql("select 1")
        db.sql("insert into other values (1)")
    assert rows(one, "select * from other") == [(1,)]
    with db.transaction():
        db.sql("update t set x = 10 where id = 1")
        with pytest.raises(kpg.InterfaceError, match="wait for ever for a lock"):
            one.sql("update t set x = x + 1 where id = 1")
        assert rows(one, "select x from t where id = 1") == [(1,)]
    one.sql("update t set x = x + 1 where id = 1")
    assert rows(one, "select x from t where id = 1") == [(11,)]


@pytest.mark.parametrize("end", ["commit", "rollback", "end", "commit and chain"])
def test_the_transaction_of_a_block_ends_with_the_block(db: kpg.Database, end: str) -> None:
    with (
        pytest.raises(kpg.InterfaceError, match="cannot end the transaction of a block"),
        db.transaction(),
    ):
        db.sql("insert into t values (3, 3)")
        db.sql(end)
    assert db.query("select count(*) from t").fetchall() == [(2,)]
    with db.transaction():
        db.sql("insert into t values (3, 3); savepoint a; insert into t values (4, 4); rollback to a")
    assert db.query("select count(*) from t").fetchall() == [(3,)]
    db.sql("begin; insert into t values (5, 5); commit")


def test_a_serialization_error_has_its_sqlstate() -> None:
    assert SerializationError("could not serialize access").sqlstate == "40001"


@pytest.mark.parametrize(
    ("query", "state"),
    [
        ("select * from t limit -1", "2201W"),
        ("select * from t offset -1", "2201X"),
        ("select * from t limit (select -1)", "2201W"),
        ("select (select 1 from t as u where u.id = t.id limit t.x - 2) from t", "2201W"),
        ("select (select count(*) from (select 1 from t as u offset t.x - 2) as q) from t", "2201X"),
    ],
)
def test_limit_and_offset_must_not_be_negative(db: kpg.Database, query: str, state: str) -> None:
    clause = "LIMIT" if state == "2201W" else "OFFSET"
    with pytest.raises(kpg.Error, match=f"{clause} must not be negative") as e:
        db.query(query).fetchall()
    assert sqlstate_of(e.value) == state
