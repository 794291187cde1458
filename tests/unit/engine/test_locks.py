"""Advisory locks, compared with what Postgres says of them; who waits, and for how long."""

import threading
from collections.abc import Callable, Iterator

import psycopg
import pytest

import kpg
from kpg.runtime.errors import CanceledError
from kpg.session.locks import DeadlockError, LockNotAvailableError
from kpg.session.session import Session
from tests.unit.server.conftest import Running, serving
from tests.waiting import PATIENCE, until


@pytest.fixture
def db() -> Iterator[kpg.Database]:
    with kpg.connect() as one:
        yield one


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving() as one:
        yield one


def asked(session: Session, text: str) -> list[tuple[object, ...]]:
    found = session.sql(text)
    assert found is not None
    return found.fetchall()


def waiting(db: kpg.Database, count: int = 1) -> None:
    """Wait until so many statements wait."""
    until(lambda: len(db.hub.waiting_statements) == count)


class Asking:
    """A statement that is asked for in a thread."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.error: BaseException | None = None
        self.result: object = None
        self._work = work
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self._work()
        except BaseException as error:
            self.error = error

    def join(self) -> object:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error
        return self.result


def test_who_has_a_lock_keeps_others_out(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    assert asked(one, "select pg_advisory_lock(7), 1 as x") == [("", 1)]
    assert asked(other, "select pg_try_advisory_lock(7) as got") == [(False,)]
    assert asked(other, "select pg_try_advisory_lock_shared(7)") == [(False,)]
    assert asked(other, "select pg_try_advisory_lock(7, 0), pg_try_advisory_lock(8)") == [(True, True)]
    assert asked(one, "select pg_try_advisory_lock(7)") == [(True,)]
    assert asked(one, "select pg_advisory_unlock(7)") == [(True,)]
    assert asked(other, "select pg_try_advisory_lock(7)") == [(False,)]
    assert asked(one, "select pg_advisory_unlock(7), pg_advisory_unlock(7)") == [(True, False)]
    assert [notice.message for notice in one.notices] == ["you don't own a lock of type ExclusiveLock"]
    assert asked(other, "select pg_try_advisory_lock(7)") == [(True,)]


def test_shared_locks_go_together(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    asked(one, "select pg_advisory_lock_shared(1)")
    assert asked(other, "select pg_try_advisory_lock_shared(1)") == [(True,)]
    assert asked(other, "select pg_try_advisory_lock(1)") == [(False,)]
    assert asked(one, "select pg_advisory_unlock_shared(1)") == [(True,)]
    assert asked(other, "select pg_try_advisory_lock(1)") == [(True,)]
    asked(other, "select pg_advisory_unlock_all()")
    assert asked(one, "select pg_try_advisory_lock(1)") == [(True,)]


def test_locks_of_a_transaction_end_with_it(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    for end in ("commit", "rollback"):
        asked_of = "select pg_try_advisory_xact_lock(1)"
        one.sql("begin")
        assert asked(one, asked_of) == [(True,)]
        assert asked(other, asked_of) == [(False,)]
        with pytest.raises(kpg.Error):
            one.sql("select nothing")
        assert asked(other, asked_of) == [(True,)]
        one.sql("rollback; begin")
        asked(one, "select pg_advisory_xact_lock_shared(1)")
        assert asked(other, asked_of) == [(False,)]
        one.sql(end)
        assert asked(other, asked_of) == [(True,)]


def test_savepoints_give_back_what_came_after_them(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    one.sql("begin; savepoint a")
    asked(one, "select pg_advisory_xact_lock(1), pg_advisory_lock(2)")
    one.sql("release a; savepoint b")
    asked(one, "select pg_advisory_xact_lock(3)")
    one.sql("rollback to b")
    tries = "select pg_try_advisory_xact_lock(1), pg_try_advisory_xact_lock(2), pg_try_advisory_xact_lock(3)"
    assert asked(other, tries) == [(False, False, True)]
    one.sql("commit")
    assert asked(other, tries) == [(True, False, True)]
    one.close()
    assert asked(other, tries) == [(True, True, True)]
    assert len(db.hub.engine.locks) == 0


def test_who_waits_goes_on_when_it_can(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    db.sql("create table t (a int)")
    asked(one, "select pg_advisory_lock(1)")
    other.sql("begin; insert into t values (1)")
    asking = Asking(lambda: asked(other, "select pg_advisory_xact_lock(1), pg_advisory_lock(2)"))
    waiting(db)
    one.sql("insert into t values (2)")
    columns = "locktype, classid, objid, objsubid, mode, granted"
    assert asked(one, f"select {columns}, pid from pg_locks where objid is not null order by granted") == [
        ("advisory", 0, 1, 1, "ExclusiveLock", False, other.number),
        ("advisory", 0, 1, 1, "ExclusiveLock", True, one.number),
    ]
    assert asked(one, f"select state from pg_stat_activity where pid = {other.number}") == [("active",)]
    asked(one, "select pg_advisory_unlock(1)")
    assert asking.join() == [("", "")]
    assert asked(other, "select a from t order by a") == [(1,), (2,)]
    other.sql("commit")
    assert asked(one, "select a from t order by a") == [(1,), (2,)]
    assert asked(one, f"select {columns} from pg_locks") == [("advisory", 0, 2, 1, "ExclusiveLock", True)]


def test_those_who_wait_have_their_turn_in_order(db: kpg.Database) -> None:
    one, second, third = db.session(), db.session(), db.session()
    asked(one, "select pg_advisory_lock_shared(1)")
    alone = Asking(lambda: asked(second, "select pg_advisory_lock(1)"))
    waiting(db)
    shared = Asking(lambda: asked(third, "select pg_advisory_lock_shared(1)"))
    waiting(db, 2)
    asked(one, "select pg_advisory_unlock_shared(1)")
    alone.join()
    waiting(db)
    asked(second, "select pg_advisory_unlock(1)")
    shared.join()


def test_a_deadlock_is_found(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    asked(one, "select pg_advisory_lock(1)")
    other.sql("begin")
    asked(other, "select pg_advisory_xact_lock(2)")
    asking = Asking(lambda: asked(one, "select pg_advisory_lock(2)"))
    waiting(db)
    with pytest.raises(DeadlockError, match="deadlock detected"):
        asked(other, "select pg_advisory_xact_lock(1)")
    assert asking.join() == [("",)]
    with pytest.raises(kpg.Error, match="rolled back"):
        asked(other, "select 1")
    other.sql("rollback")


def test_nobody_waits_who_keeps_all_others_out(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    asked(one, "select pg_advisory_lock(1)")
    other.sql("begin; create table t (a int)")
    with pytest.raises(DeadlockError):
        asked(other, "select pg_advisory_lock(1)")
    other.sql("rollback")
    with pytest.raises(LockNotAvailableError):
        db.sql("select pg_advisory_lock(1)")


@pytest.mark.parametrize(
    ("setting", "error", "message"),
    [
        ("lock_timeout", LockNotAvailableError, "canceling statement due to lock timeout"),
        ("statement_timeout", CanceledError, "canceling statement due to statement timeout"),
    ],
)
def test_waiting_has_limits(db: kpg.Database, setting: str, error: type[Exception], message: str) -> None:
    one, other = db.session(), db.session()
    asked(one, "select pg_advisory_lock(1)")
    other.sql(f"set {setting} = '40ms'")
    with pytest.raises(error, match=message):
        asked(other, "select pg_advisory_lock(1)")
    one.sql("begin; create table t (a int)")
    with pytest.raises(error, match=message):
        asked(other, "select 1")
    one.sql("rollback")
    other.sql(f"reset {setting}")
    assert asked(other, "select 1") == [(1,)]
    assert len(db.hub.waiting_statements) == 0


def test_waiting_can_be_cancelled(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    db.sql("create table u (a int)")
    asked(one, "select pg_advisory_lock(1)")
    for statement in ("select pg_advisory_lock(1)", "select pg_sleep(100)"):
        asking = Asking(lambda text=statement: asked(other, text))  # type: ignore[misc]
        waiting(db)
        other.cancel()
        with pytest.raises(CanceledError):
            asking.join()
    one.sql("begin; create table t (a int)")
    asking = Asking(lambda: asked(other, "select 1"))
    waiting(db)
    other.cancel()
    with pytest.raises(CanceledError):
        asking.join()
    one.sql("rollback")
    assert asked(other, "select 1") == [(1,)]


def test_others_have_their_turn_while_one_sleeps(running: Running) -> None:
    with (
        psycopg.connect(running.dsn, autocommit=True) as one,
        psycopg.connect(running.dsn, autocommit=True) as other,
    ):
        asking = Asking(lambda: one.execute("select pg_sleep(100), 1").fetchall())
        waiting(running.db)
        assert other.execute("select 1").fetchone() == (1,)
        assert other.execute("select pg_sleep(0.01) is null, 2").fetchone() == (False, 2)
        one.cancel_safe()
        with pytest.raises(psycopg.errors.QueryCanceled):
            asking.join()
        assert one.execute("select pg_sleep(0.01)").fetchone() == ("",)
        one.execute("set statement_timeout = 30")
        with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
            one.execute("select pg_sleep(100)")


def test_a_client_that_goes_lets_go(running: Running) -> None:
    with psycopg.connect(running.dsn, autocommit=True) as other:
        one = psycopg.connect(running.dsn, autocommit=True)
        one.execute("select pg_advisory_lock(5)")
        gone = psycopg.connect(running.dsn, autocommit=True)
        gone.pgconn.send_query(b"select pg_advisory_lock(5)")
        waiting(running.db)
        gone.close()
        one.close()
        other.execute("select pg_advisory_lock(%s)", (5,))
        listed = "select pid, granted from pg_locks"
        assert other.execute(listed).fetchall() == [(other.info.backend_pid, True)]
    until(lambda: not running.db.hub.sessions)
    assert len(running.db.hub.engine.locks) == len(running.db.hub.waiting_statements) == 0


def test_statements_of_one_message_wait_together(running: Running) -> None:
    with (
        psycopg.connect(running.dsn, autocommit=True) as one,
        psycopg.connect(running.dsn, autocommit=True) as other,
    ):
        one.execute("create table m (a int)")
        one.execute("select pg_advisory_lock(9)")
        text = "insert into m values (1); select pg_advisory_xact_lock(9); insert into m values (2)"
        asking = Asking(lambda: other.execute(text))
        waiting(running.db)
        assert one.execute("select count(*) from m").fetchone() == (0,)
        assert one.execute("select pg_advisory_unlock(9)").fetchone() == (True,)
        asking.join()
        assert one.execute("select a from m order by a").fetchall() == [(1,), (2,)]
        assert one.execute("select pg_try_advisory_lock(9)").fetchone() == (True,)
