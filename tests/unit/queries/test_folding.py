"""Aggregates that users write in SQL: kept in folders, followed by views, refused where they cannot be."""

from pathlib import Path

import pytest

import kpg

MADE = """
    create table t (g text, a int);
    create function times(p numeric, x int) returns numeric language sql immutable strict as 'select p * x';
    create function shown(p numeric) returns text language sql immutable as 'select ''= '' || p';
    create aggregate product (int) (sfunc = times, stype = numeric, finalfunc = shown, initcond = '1');
    create function latest(anyelement, anyelement) returns anyelement language sql as 'select $2';
    create aggregate last_one (anyelement) (sfunc = latest, stype = anyelement);
    create aggregate longest (int[]) (sfunc = array_cat, stype = int[], initcond = '{}');
    create materialized view v as
        select g, product(a order by a) p, last_one(a order by a) l from t group by g;
    insert into t values ('x', 2), ('x', 3), ('y', null), ('y', 7)
"""


def rows(db: kpg.Database, text: str) -> list[tuple[object, ...]]:
    return db.query(text).fetchall()


def test_a_view_follows_an_aggregate_and_goes_on_in_another_life(tmp_path: Path) -> None:
    with kpg.connect(tmp_path / "db") as db:
        db.sql(MADE)
        assert rows(db, "select * from v order by g") == [("x", "= 6", 3), ("y", "= 7", None)]
    with kpg.connect(tmp_path / "db") as db:
        db.sql("insert into t values ('x', 10); delete from t where a = 7")
        assert rows(db, "select * from v order by g") == [("x", "= 60", 10), ("y", "= 1", None)]
        query = "select longest(array[a, 0] order by a) from t where g = 'x'"
        assert rows(db, query) == [([2, 0, 3, 0, 10, 0],)]
        query = "select prorettype::regtype::text from pg_proc where proname = 'product' and pronargs = 1"
        assert rows(db, query) == [("text",)]


def test_an_aggregate_that_a_view_calls_stays() -> None:
    db = kpg.connect()
    db.sql(MADE)
    for text in ("drop aggregate product(int)", "drop function times(numeric, int)"):
        with pytest.raises(kpg.ProgrammingError, match="cannot be dropped"):
            db.sql(text)
    db.sql("drop aggregate product(int) cascade; drop function times(numeric, int)")
    with pytest.raises(kpg.ProgrammingError, match='"v" does not exist'):
        db.sql("select * from v")


def test_an_aggregate_of_another_arity_does_not_take_its_place() -> None:
    """A name of a function that computes one is not given twice."""
    db = kpg.connect()
    db.sql("create aggregate mine (int) (sfunc = int4pl, stype = int)")
    db.sql("create function two(int, int, int) returns int language sql as 'select $1 + $2 * $3'")
    db.sql("create aggregate mine (int, int) (sfunc = two, stype = int, initcond = '0')")
    db.sql("drop aggregate mine (int); create aggregate mine (int) (sfunc = int4mul, stype = int)")
    assert rows(db, "select mine(x), mine(x, 2) from (values (3), (4)) s (x)") == [(12, 14)]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("(sfunc = nosuch, stype = int)", kpg.ProgrammingError, "unknown function nosuch"),
        ("(sfunc = counted, stype = bigint)", kpg.NotSupportedError, "whose functions ask queries"),
        ("(sfunc = named, stype = int)", kpg.ProgrammingError, "DATE cannot be the state of aggregate bad"),
    ],
)
def test_what_cannot_be_computed_is_refused(text: str, error: type[kpg.Error], message: str) -> None:
    db = kpg.connect()
    db.sql("create table t (a int)")
    db.sql("create function counted(bigint, int) returns bigint language sql as 'select count(*) from t'")
    db.sql("create function named(int, int) returns date language sql as 'select date ''2020-01-01'''")
    with pytest.raises(error, match=message):
        db.sql(f"create aggregate bad (int) {text}")


def test_a_step_that_fails_is_the_error_of_its_row() -> None:
    db = kpg.connect()
    db.sql("create function divided(int, int) returns int language sql as 'select $1 / $2'")
    db.sql("create aggregate quotient (int) (sfunc = divided, stype = int, initcond = '100')")
    assert rows(db, "select quotient(x) from (values (2), (5)) s (x)") == [(10,)]
    with pytest.raises(kpg.DataError, match="division by zero"):
        db.sql("select quotient(x) from (values (2), (0)) s (x)")
