"""PEP 249, point by point."""

import datetime
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import kpg
from kpg import dbapi


def test_the_module_says_what_it_is() -> None:
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 2, "qmark")
    assert issubclass(dbapi.IntegrityError, dbapi.DatabaseError)
    assert issubclass(dbapi.DatabaseError, dbapi.Error)
    assert issubclass(dbapi.InterfaceError, dbapi.Error)
    assert dbapi.Date(2024, 1, 2) == datetime.date(2024, 1, 2)
    assert isinstance(dbapi.TimeFromTicks(0.0), datetime.time)


def test_a_cursor_executes_and_fetches() -> None:
    connection = dbapi.connect()
    cursor = connection.cursor()
    cursor.execute("create table t (a int primary key, b text, c numeric(5, 2), d date)")
    assert cursor.description is None
    cursor.executemany("insert into t values (?, ?, 1.5, date '2024-01-02')", [(1, "x"), (2, None), (3, "z")])
    assert cursor.rowcount == 3
    cursor.execute("select a, b, c, d from t order by a")
    assert cursor.description is not None
    names = [column[0] for column in cursor.description]
    assert names == ["a", "b", "c", "d"]
    kinds = [column[1] for column in cursor.description]
    assert kinds[0] == dbapi.NUMBER
    assert kinds[1] == dbapi.STRING
    assert kinds[2] == dbapi.NUMBER
    assert kinds[3] == dbapi.DATETIME
    assert kinds[0] != dbapi.STRING
    assert cursor.fetchone() is not None
    assert [row[0] for row in cursor.fetchmany(5)] == [2, 3]
    assert cursor.fetchone() is None
    assert [row[0] for row in cursor.execute("select a from t where a > :low", {"low": 1})] == [2, 3]
    cursor.execute("delete from t where a = $1", [1])
    assert cursor.rowcount == 1
    with pytest.raises(dbapi.ProgrammingError, match="no rows to fetch"):
        cursor.fetchall()
    connection.close()


def test_a_transaction_begins_by_itself() -> None:
    with kpg.connect() as db:
        db.sql("create table t (a int primary key)")
        one, other = dbapi.connect(database=db), dbapi.connect(database=db, autocommit=True)
        one.cursor().execute("insert into t values (1)")
        assert other.cursor().execute("select count(*) from t").fetchone() == (0,)
        one.commit()
        assert other.cursor().execute("select count(*) from t").fetchone() == (1,)
        one.cursor().execute("insert into t values (2)")
        one.rollback()
        with pytest.raises(dbapi.IntegrityError), one:
            one.cursor().execute("insert into t values (1)")
        with one:
            one.cursor().execute("insert into t values (3)")
        other.cursor().execute("insert into t values (4)")
        assert other.cursor().execute("select a from t order by a").fetchall() == [(1,), (3,), (4,)]
        one.close()
        one.close()
        with pytest.raises(dbapi.InterfaceError, match="the connection is closed"):
            one.cursor()
        assert db.query("select count(*) from t").fetchall() == [(3,)]


def test_a_folder(tmp_path: Path) -> None:
    connection = dbapi.connect(tmp_path / "db")
    connection.cursor().execute("create table t (a int)").execute("insert into t values (7)")
    connection.commit()
    connection.close()
    again = dbapi.connect(tmp_path / "db")
    assert again.cursor().execute("select a from t").fetchall() == [(7,)]
    again.close()


def test_a_cursor_that_is_closed_is_used_no_more() -> None:
    with dbapi.connect() as connection:
        with connection.cursor() as cursor:
            cursor.execute("select * from (values (1), (2), (3)) v(a)")
            assert (cursor.rowcount, cursor.rownumber, next(cursor), cursor.rownumber) == (3, 0, (1,), 1)
            assert (list(cursor), cursor.rownumber, cursor.nextset(), cursor.lastrowid) == (
                [(2,), (3,)],
                3,
                None,
                None,
            )
        for use in (cursor.fetchone, lambda: cursor.execute("select 1"), lambda: cursor.executemany("x", [])):
            with pytest.raises(connection.InterfaceError, match="the cursor is closed"):
                use()
    assert connection.ProgrammingError is dbapi.ProgrammingError


def test_a_cursor_of_a_closed_connection_is_used_no_more() -> None:
    connection = dbapi.connect()
    cursor = connection.cursor().execute("select 1")
    connection.close()
    with pytest.raises(dbapi.InterfaceError, match="the connection is closed"):
        cursor.fetchone()


def test_an_error_leaves_no_rows_of_before() -> None:
    with dbapi.connect(autocommit=True) as connection:
        cursor = connection.cursor().execute("select 1 as count")
        assert cursor.fetchall() == [(1,)]
        with pytest.raises(dbapi.ProgrammingError):
            cursor.execute("select nothing")
        assert cursor.description is None
        connection.cursor().execute("create table t (count int)")
        assert cursor.execute("insert into t values (7) returning count").fetchall() == [(7,)]


def test_a_connection_that_the_collector_gives_up_amid_a_statement() -> None:
    """It is rolled back when the statement is done: at once would be to wait for oneself."""
    db = kpg.connect()
    db.sql("CREATE TABLE t (a INT)")
    left: list[kpg.dbapi.Connection] = [kpg.dbapi.connect(database=db)]
    left[0].cursor().execute("INSERT INTO t VALUES (1)")
    seen: list[str] = []

    def give_up(a: int) -> int:
        while left:
            with pytest.raises(kpg.InterfaceError, match="a statement is running in this thread"):
                left[-1].cursor().execute("SELECT 1")
            left[-1].rollback()
            left.pop().close()
            seen.append("given up")
        return a

    db.create_function("give_up", give_up, ["BIGINT"], "BIGINT")
    asking = kpg.dbapi.connect(database=db)
    assert asking.cursor().execute("SELECT give_up(7)").fetchall() == [(7,)]
    asking.commit()
    assert seen == ["given up"]
    assert db.query("SELECT count(*) FROM t").fetchall() == [(0,)]
    assert len(db.hub.sessions) == 1


def test_threads_share_a_connection() -> None:
    """The transaction is the connection's: nobody ends it between its beginning and a statement."""
    before = sys.getswitchinterval()
    connection = dbapi.connect()
    connection.cursor().execute("create table t (a int primary key)")

    def work(first: int) -> None:
        cursor = connection.cursor()
        for number in range(first, first + 30):
            cursor.execute("insert into t values (?)", [number])
            cursor.execute("select a from t where a = ?", [number])
            assert cursor.fetchall() == [(number,)]
            connection.commit()
        cursor.executemany("insert into t values (?)", [[first + number] for number in range(30, 40)])

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(work, (0, 100, 200, 300)))
            assert connection.cursor().execute("select count(*) from t").fetchall() == [(160,)]
            list(threads.map(lambda _: connection.close(), range(4)))
    finally:
        sys.setswitchinterval(before)
    assert connection._database.closed
