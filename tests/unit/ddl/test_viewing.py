"""Views: the order that they are in, and what a transaction may do with them and with tables below."""

from pathlib import Path

import pytest

import kpg

VIEWS = """
create table t (a int, b int);
insert into t values (2, 1), (3, 2), (1, 3);
create view po as select a from t order by a desc;
create view ph as select a from t order by b desc;
create materialized view pm as select a from t order by a desc;
"""
ORDERED = [
    ("select * from po", [3, 2, 1]),
    ("table po", [3, 2, 1]),
    ("select a from po limit 2", [3, 2]),
    ("select a from po offset 1", [2, 1]),
    ("select a + 10 from po where a < 3", [12, 11]),
    ("select a from (select * from po) q", [3, 2, 1]),
    ("with q as (select * from po) select a from q", [3, 2, 1]),
    ("select * from ph", [1, 3, 2]),
    ("select array_agg(a) from ph", [[1, 3, 2]]),
    ("select a from ph where a > 1", [3, 2]),
    ("select * from pm", [3, 2, 1]),
    ("select * from pm limit 1", [3]),
    ("select * from po order by a", [1, 2, 3]),
    ("select * from pm order by a", [1, 2, 3]),
    ("select t.b from po join t using (a) order by b", [1, 2, 3]),
    ("select distinct a from po order by 1", [1, 2, 3]),
    ("select count(*) from po", [3]),
]


@pytest.mark.parametrize(("query", "rows"), ORDERED)
def test_a_view_keeps_its_order_where_the_query_has_none(query: str, rows: list[object]) -> None:
    with kpg.connect() as db:
        db.sql(VIEWS)
        assert db.query(query).fetchall() == [(row,) for row in rows]


def test_a_materialized_view_is_read_in_one_order_everywhere() -> None:
    with kpg.connect() as db:
        db.sql(VIEWS)
        db.sql("insert into t values (4, 0); delete from t where a = 2")
        assert db.query("select * from pm").fetchall() == db.view("pm").fetchall() == [(4,), (3,), (1,)]
        db.sql("create view over_it as select a from pm where a < 4")
        assert db.query("table over_it").fetchall() == [(3,), (1,)]


def test_an_index_of_a_view_that_the_transaction_has_made() -> None:
    with kpg.connect() as db:
        db.sql("create table t (a int); insert into t values (1), (1), (2); begin")
        db.sql("create materialized view m as select a, count(*) as n from t group by a")
        db.sql("create index on m (n); create unique index u on m (a); insert into t values (2); commit")
        names = db.query("select indexname from pg_indexes where tablename = 'm' order by 1").fetchall()
        assert names == [("m_n_idx",), ("u",)]
        assert sorted(db.query("table m").fetchall()) == [(1, 2), (2, 2)]
        db.sql("begin; create materialized view o as select a from t; create index on o (a); rollback")
        assert db.query("select count(*) from pg_indexes where tablename = 'o'").fetchall() == [(0,)]
        db.sql("begin; create view p as select a from t")
        with pytest.raises(kpg.ProgrammingError, match='"p" is a view'):
            db.sql("create index on p (a)")


BELOW = """
create table t (id int primary key, a int);
insert into t values (1, 1), (2, 1);
create view v as select id, a from t;
create materialized view m1 as select a, count(*) as n from v group by a;
create materialized view m2 as select n, count(*) as k from m1 group by n;
"""


@pytest.mark.parametrize("end", ["commit", "rollback"])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_columns_of_a_table_change_after_its_rows(end: str, times: int, tmp_path: Path) -> None:
    with kpg.connect(tmp_path / "db") as db:
        db.sql(BELOW)
        db.sql("begin; insert into t values (3, 2)")
        for number in range(times):
            db.sql(
                f"alter table t add column c{number} int default {number}; "
                f"insert into t values ({number + 10}, 2)"
            )
            assert sorted(db.query("table m1").fetchall()) == [(1, 2), (2, number + 2)]
        db.sql("alter table t drop column c0")
        db.sql(end)
        expected = [(1, 3), (2, times + 1)] if end == "commit" else [(1, 3)]
        db.sql("insert into t (id, a) values (100, 1)")
        assert sorted(db.query("table m1").fetchall()) == expected
        db.verify("m1")
        db.verify("m2")
    with kpg.connect(tmp_path / "db") as db:
        assert sorted(db.query("table m1").fetchall()) == expected
        db.verify("m2")


def test_a_savepoint_takes_back_a_column_and_what_came_with_it() -> None:
    with kpg.connect() as db:
        db.sql(BELOW)
        db.sql("begin; insert into t values (3, 7); savepoint s")
        db.sql("alter table t add column b int; insert into t values (4, 7, 1); rollback to s")
        db.sql("insert into t values (5, 7); alter table t add column d int; commit")
        db.sql("insert into t values (6, 1, 2)")
        assert sorted(db.query("table m1").fetchall()) == [(1, 3), (7, 2)]
        db.verify("m2")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("select 1 limit (select 'ab')", "argument of LIMIT or OFFSET must be type bigint, not type text"),
        ("select 1 offset (select 'ab')", "argument of LIMIT or OFFSET must be type bigint, not type text"),
        (
            "create materialized view x as select a from t limit (select 'ab')",
            "argument of LIMIT must be type bigint, not type text",
        ),
        (
            "select (select max(min(t.a)) from t u) from t",
            "an aggregate is not allowed in the argument of an aggregate",
        ),
        (
            "select (select max(min(t.a))) from t",
            "an aggregate is not allowed in the argument of an aggregate",
        ),
    ],
)
def test_what_is_no_number_of_rows_and_no_argument(text: str, message: str) -> None:
    with kpg.connect() as db:
        db.sql("create table t (a int); insert into t values (1)")
        with pytest.raises(kpg.ProgrammingError) as caught:
            db.sql(text)
        assert caught.value.message == message


def test_numbers_of_rows_from_queries_are_rounded() -> None:
    with kpg.connect() as db:
        db.sql("create table t (a int); insert into t values (1), (2), (3), (4)")
        for number, count in (("2.5", 3), ("2.5::float8", 2), ("null::int", 4), ("1", 1)):
            rows = db.query(f"select a from t limit (select {number})").fetchall()
            assert len(rows) == count


@pytest.mark.parametrize(
    "text",
    [
        "create materialized view m as select 1 / a q from t; insert into t values (0)",
        "create or replace view w as select 1 / (a - 1) q from t",
        "create or replace view w as select 1 / a q from t; insert into t values (0)",
        "create materialized view m as select q from w; create materialized view n as select 1 / q r from m; "
        "insert into t values (0)",
        "savepoint s; create materialized view m as select 1 / a q from t; release s; update t set a = 0",
    ],
)
def test_a_view_that_cannot_be_computed_at_the_commit_refuses_it(text: str, tmp_path: Path) -> None:
    """Nothing of the transaction is there, and the folder can be opened."""
    start = "create table t (a int); insert into t values (1); create view w as select a q from t; "
    start += "create materialized view kept as select q from w"
    with kpg.connect(tmp_path) as db:
        db.sql(start)
        with pytest.raises(kpg.DataError, match="division by zero"):
            db.sql(f"begin; {text}; commit")
    for _ in range(2):
        with kpg.connect(tmp_path) as db:
            assert db.query("select * from t").fetchall() == [(1,)]
            kinds = (
                "select relname, relkind from pg_class where relname in ('m', 'n', 'w', 'kept') order by 1"
            )
            assert db.query(kinds).fetchall() == [("kept", "m"), ("w", "v")]
            assert db.query("select * from kept").fetchall() == [(1,)]


@pytest.mark.parametrize("path", ["sh", '"$user", sh'])
def test_the_commit_installs_a_view_as_it_was_defined(path: str, tmp_path: Path) -> None:
    """Whatever the search path, the time zone and the role are by then."""
    with kpg.connect(tmp_path) as db:
        db.sql("create schema sh; create table sh.t (a timestamptz); create table t (a int); create role r")
        db.sql("insert into sh.t values ('2024-01-01 12:00+00')")
        db.sql(f"begin; set local search_path = {path}; set local timezone = 'Asia/Tokyo'")
        db.sql("create materialized view m as select a::text from t")
        db.sql("set local search_path = public; set local timezone = 'UTC'; set local role r; commit")
        assert db.query("select relkind from pg_class where relname = 'm'").fetchall() == [("m",)]
        assert db.query("select * from sh.m").fetchall() == [("2024-01-01 21:00:00+09",)]
        db.sql("insert into sh.t values ('2024-01-01 13:00+00')")
        rows = [("2024-01-01 21:00:00+09",), ("2024-01-01 22:00:00+09",)]
        assert db.query("select * from sh.m order by 1").fetchall() == rows
    with kpg.connect(tmp_path) as db:
        assert db.query("select * from sh.m order by 1").fetchall() == rows


def test_a_schema_may_have_a_materialized_view_over_its_tables() -> None:
    with kpg.connect() as db:
        db.sql(
            "create schema z create table a (x int) create materialized view m as select count(*) n from a"
        )
        db.sql("insert into z.a values (1), (2)")
        assert db.query("select * from z.m").fetchall() == [(2,)]
        assert db.query("select relkind from pg_class where relname = 'm'").fetchall() == [("m",)]
