"""What transactions with one snapshot see where a statement changes tables by WITH or by ON CONFLICT."""

import pytest

import kpg
from kpg.runtime.errors import SerializationError
from kpg.session.session import Session
from tests.unit.sessions.conftest import rows

TABLES = """
    create table t (id int primary key, x int);
    create table u (id int primary key, x int);
    insert into t values (1, 1), (2, 2);
"""


def serializable(db: kpg.Database) -> Session:
    session = db.session()
    session.sql("begin isolation level serializable")
    return session


def test_a_with_query_changes_no_row_that_is_another_since(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    one.sql("begin isolation level repeatable read; select 1 from u")
    other.sql("delete from t where id = 1")
    with pytest.raises(SerializationError, match="concurrent update"):
        one.sql("with gone as (delete from t where id = 1 returning *) insert into u select * from gone")


@pytest.mark.parametrize(
    "change",
    [
        "with d as (update t set x = 10 where id = {} and (select x from t where id = {}) < 5 returning 1)"
        " select count(*) from d",
        "with d as (select {}::int as id) update t set x = 10 from d where t.id = d.id"
        " and (select x from t where id = {}) < 5",
    ],
)
def test_with_queries_read_what_they_change(db: kpg.Database, change: str) -> None:
    one, other = serializable(db), serializable(db)
    one.sql(change.format(1, 2))
    other.sql(change.format(2, 1))
    one.sql("commit")
    with pytest.raises(SerializationError):
        other.sql("commit")
    assert rows(one, "select * from t") == [(1, 10), (2, 2)]


def test_a_deletion_in_a_with_query_is_read_though_it_found_nothing(db: kpg.Database) -> None:
    one, other = serializable(db), serializable(db)
    one.sql("with d as (delete from t where id = 9 returning 1) insert into t values (8, 0)")
    other.sql("with d as (delete from t where id = 8 returning 1) insert into t values (9, 0)")
    one.sql("commit")
    with pytest.raises(SerializationError):
        other.sql("commit")


@pytest.mark.parametrize("action", ["nothing", "update set x = t.x + 1"])
@pytest.mark.parametrize("change", ["update t set x = 100 where id = 1", "insert into t values (3, 3)"])
def test_on_conflict_meets_no_row_that_came_since(db: kpg.Database, action: str, change: str) -> None:
    one, other = db.session(), db.session()
    one.sql("begin isolation level repeatable read; select 1 from u")
    other.sql(change)
    key = 1 if "update" in change else 3
    with pytest.raises(SerializationError, match="concurrent update"):
        one.sql(f"insert into t values ({key}, 0) on conflict (id) do {action}")


def test_on_conflict_meets_rows_of_the_snapshot_and_its_own(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    one.sql("begin isolation level repeatable read; select 1 from u")
    other.sql("update t set x = 100 where id = 1")
    again = "insert into t values ({}, 5) on conflict (id) do update set x = t.x + excluded.x returning x"
    assert rows(one, again.format(2)) == [(7,)]
    assert rows(one, again.format(2)) == [(12,)]
    assert rows(one, again.format(4)) == [(5,)]
    assert rows(one, again.format(4)) == [(10,)]
    one.sql("prepare p as insert into t values ($1, 5) on conflict (id) do nothing")
    with pytest.raises(SerializationError):
        one.sql("execute p(1)")


def test_upserts_of_other_rows_are_serializable(db: kpg.Database) -> None:
    one, other = serializable(db), serializable(db)
    one.sql("insert into t values (1, 5) on conflict (id) do update set x = t.x + excluded.x")
    other.sql("insert into t values (2, 5) on conflict (id) do update set x = t.x + excluded.x")
    one.sql("commit")
    other.sql("commit")
    assert rows(one, "select * from t") == [(1, 6), (2, 7)]


def test_rows_of_with_queries_are_there_though_others_have_committed(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    one.sql("begin isolation level repeatable read; select 1 from u")
    other.sql("update t set x = 100 where id = 1")
    asked = "with m as (update t set x = x + 1 where id = 2 returning *) select m.x, t.id, t.x from m, t"
    assert rows(one, asked) == [(3, 1, 1), (3, 2, 2)]
    one.sql("insert into u values (1, 1)")
    subquery = "insert into u values (1, 8) on conflict (id) do update set x = (select sum(x) from t)"
    assert rows(one, f"{subquery} returning x, (select count(*) from t)") == [(4, 2)]


def test_on_conflict_asks_queries_while_changes_are_pending(db: kpg.Database) -> None:
    one = db.session()
    one.sql("begin; insert into t values (3, 3)")
    asked = (
        "insert into t values (1, 0) on conflict (id) do update set x = (select sum(x) from t) returning x"
    )
    assert rows(one, asked) == [(6,)]
