"""Scripts: all of a text is read before its first statement runs."""

import pytest

import kpg
from kpg.compiler.sql.parameterize.value_lists import find_inserts
from kpg.runtime.errors import CanceledError, Error
from tests.unit.kpg.twins import Twins


def test_nothing_of_a_script_runs_if_it_cannot_be_read() -> None:
    db = kpg.connect()
    db.sql("create table t (a int)")
    with pytest.raises(Error, match="syntax error"):
        db.sql("insert into t values (1); insert into t values (2;")
    with pytest.raises(Error, match="no parameter for placeholder 2"):
        db.sql("insert into t values ($1); insert into t values ($2)", [1])
    assert db.query("select * from t").fetchall() == []


def test_a_script_stops_at_its_first_error() -> None:
    db = kpg.connect()
    db.sql("create table t (a int primary key)")
    with pytest.raises(Error, match="key"):
        db.sql("insert into t values (1); insert into t values (1); insert into t values (2)")
    assert db.query("select * from t").fetchall() == [(1,)]
    outcomes = db.script("insert into t values (5); insert into t values (1);")
    assert next(outcomes).affected == 1
    with pytest.raises(Error, match="key"):
        next(outcomes)
    assert db.query("select * from t").fetchall() == [(1,), (5,)]


BLANK = " " * 600
"""Long texts only are searched for INSERTs among others."""


@pytest.mark.parametrize(
    "text",
    [
        "begin; insert into t values (1), (2);\ninsert into t values (3); commit; select count(*) from t",
        "-- a dump\n\ninsert into t values (1);\n-- more\ninsert into t values (2);\nselect * from t;",
        "insert into t values (1); select '; insert into t values (2);', count(*) from t",
        "insert into t values (1); select $$; insert into t values (2);$$, count(*) from t",
        "insert into t values (1); /* ; insert into t values (2); */ select * from t",
        "insert into t values (1); -- ; insert into t values (2);\nselect * from t",
        'insert into t values (1); select "; insert into t values (2);" from t',
        "insert into t values (1); insert into t values (1); select * from t",
        "insert into t values (1); insert into t values ('x'); select * from t",
        "insert into t values (1); insert into t values (2), (3) returning a; select 5",
        "insert into t values (1); select * from nothing; insert into t values (2)",
        "insert into t values (1); select from where; insert into t values (2)",
        "insert into t values (1); select 'open; insert into t values (2)",
        "create table other (a text); insert into other values ('a; insert into t values (9);'); table other",
        "create table other (a int default 5, b serial); insert into other (a) values (1), (2); table other",
        "prepare p as insert into t values ($1); insert into t values (7); execute p(8); select * from t",
        "with q as (insert into t values (1) returning a) select * from q; insert into t values (2); table t",
        "explain select 1; insert into t values (2); ;; insert into t values (3);",
        "insert into t values (1 + 1); insert into t values (4); table t",
    ],
)
def test_inserts_among_others(text: str) -> None:
    twins = Twins("create table t (a int primary key)")
    twins.tell(text + BLANK)
    twins.tell("rollback")
    twins.tell("select * from t order by a")
    twins.close()


def test_where_inserts_are() -> None:
    text = "begin; insert into t values (1), (2);\n-- two\n insert into t values ('x;y'); commit"
    found = find_inserts(text)
    assert [text[one.start : one.stop] for one in found] == [
        "insert into t values (1), (2)",
        "insert into t values ('x;y')",
    ]
    assert find_inserts("select 1; -- insert\ninsert into t values (1)") == []


LONG = (
    "select count(*) from t x, t y, t z where x.a + y.a <> z.a",
    "insert into t select x.a from t x, t y",
    "select " + "(select " * 60 + "1" + ")" * 60,
    "with recursive r(x) as (select 1 union all select x + 1 from r where x < 999999) select * from r",
)


@pytest.mark.parametrize("text", LONG)
def test_the_databases_own_time_limit(text: str) -> None:
    db = kpg.connect()
    db.sql("create table t (a int); insert into t select * from generate_series(1, 3000)")
    db.sql("set statement_timeout = '100ms'")
    with pytest.raises(CanceledError, match="canceling statement due to statement timeout"):
        db.sql(text)
    assert db.query("select count(*) from t").fetchall() == [(3000,)]
    db.sql("begin; insert into t values (0)")
    with pytest.raises(CanceledError):
        db.sql(text)
    db.sql("rollback; set statement_timeout = 0")
    assert db.query("select count(*), min(a) from t").fetchall() == [(3000, 1)]


def test_the_databases_own_limit_of_memory() -> None:
    db = kpg.connect()
    db.sql("create table t (a int); insert into t select * from generate_series(1, 6000)")
    db.sql("set statement_memory_limit = '100 MB'")
    with pytest.raises(kpg.OperationalError, match="may take 100 MB"):
        db.sql("create table u as select x.a, y.a as b from t x, t y")
    assert db.query("select count(*) from t").fetchall() == [(6000,)]
