"""Text of SQLite, DuckDB and MySQL that has one meaning; what is expected is what these answer."""

import pytest

import kpg
from kpg.api.database import Database


@pytest.fixture
def db() -> Database:
    made = kpg.connect()
    made.sql("create table t (id int primary key, a int, b text default 'none')")
    made.sql("insert into t values (1, 10, 'x'), (2, 20, 'y'), (3, null, 'z')")
    return made


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("from t select a where id == 1", [(10,)]),
        ("from t where a <=> null", [(3, None, "z")]),
        ("select * exclude (a) from t where id = 1", [(1, "x")]),
        ("select * exclude b from t where id = 1", [(1, 10)]),
        ("select t.* exclude (id, b), u.id from t, t u where t.id = 1 and u.id = 2", [(10, 2)]),
        ("select * replace (a * 2 as a, upper(b) as b) from t where id = 1", [(1, 20, "X")]),
        ("select a.aa from (select * rename (a as aa) from t) a where a.id = 2", [(20,)]),
        ("select a % 20 = 0 as even, count(*) from t group by all order by all", None),
        ("select b, id from t order by all desc", [("z", 3), ("y", 2), ("x", 1)]),
        ("select count_if(a > 10), countif(a > 0) from t", [(1, 2)]),
        ("select list_value(1, 2), list_contains([1, 2], 2), list_contains([1], 5)", [([1, 2], True, False)]),
        (
            "select list_append([1], 2), list_prepend(0, [1]), list_concat([1], [2])",
            [([1, 2], [0, 1], [1, 2])],
        ),
        ("select string_split('a,b', ','), list_position(['p', 'q'], 'q')", [(["a", "b"], 2)]),
        ("select id from t order by id limit 1, 2", [(2,), (3,)]),
    ],
)
def test_queries(db: Database, text: str, rows: list[tuple[object, ...]] | None) -> None:
    found = db.query(text).fetchall()
    assert found == (rows or [(False, 1), (True, 1), (None, 1)])


def test_insert_or_replace_and_or_ignore(db: Database) -> None:
    db.sql("create materialized view v as select sum(a) s, count(*) n from t")
    db.sql("insert or replace into t (id, a) values (1, 11), (4, 40)")
    assert db.query("select * from t where id in (1, 4) order by id").fetchall() == [
        (1, 11, "none"),
        (4, 40, "none"),
    ]
    db.sql("insert or ignore into t values (1, 0, 'q'), (5, 50, 'q')")
    db.sql("replace into t values (2, 0, 'm')")
    assert db.view("v").fetchall() == [(101, 5)]
    db.sql("insert into t by name select 60 as a, 6 as id")
    assert db.query("select * from t where id = 6").fetchall() == [(6, 60, "none")]


def test_create_or_replace_table(db: Database) -> None:
    db.sql("create or replace table t as select id, a + 1 as c from t where a is not null")
    assert db.query("select * from t order by id").fetchall() == [(1, 11), (2, 21)]
    db.sql("create or replace table t (k integer primary key autoincrement, v text) strict")
    db.sql("insert into t (v) values ('p'), ('q')")
    assert db.query("select * from t order by k").fetchall() == [(1, "p"), (2, "q")]
    db.sql("create view w as select * from t")
    with pytest.raises(kpg.ProgrammingError, match='view "w" uses it'):
        db.sql("create or replace table t (x int)")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("select * exclude (nothing) from t", 'column "nothing" does not exist'),
        ("select * exclude (id, a, b) from t", "EXCLUDE leaves no columns"),
        ("select * replace (1 as nothing) from t", 'column "nothing" does not exist'),
        ("insert or replace into t values (1, 1, 'x') on conflict do nothing", "INSERT OR with ON CONFLICT"),
        ("insert or abort into t values (9, 1, 'x')", "INSERT OR ABORT"),
        ("insert or replace into plain values (1)", "which has no keys"),
        ("insert into t by name select 1", "INSERT BY NAME takes a SELECT"),
        ("insert into t by name select * from t", "INSERT BY NAME takes a SELECT"),
    ],
)
def test_what_is_refused(db: Database, text: str, message: str) -> None:
    db.sql("create table plain (x int)")
    with pytest.raises(kpg.Error) as caught:
        db.sql(text)
    assert message in str(caught.value)
