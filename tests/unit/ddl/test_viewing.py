"""Views: the order that they are in, and what a transaction may do with them and with tables below."""

from pathlib import Path

import pytest

import kpg

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
