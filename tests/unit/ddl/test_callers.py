"""A function does not go while a definition calls it; with CASCADE that goes, and the rest works on."""

import pytest

import kpg
from kpg.api.database import Database

FUNCTIONS = """
    create function ok(int) returns boolean language sql immutable as 'select $1 < 50';
    create function b(int) returns int language sql immutable as 'select $1 + 1';
"""


@pytest.fixture
def db() -> Database:
    made = kpg.connect()
    made.sql(FUNCTIONS)
    return made


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ("create table t (a int check (ok(a)))", "constraint t_a_check of table t"),
        ("create table t (a int, c int default b(3))", "the DEFAULT of column c of table t"),
        ("create table t (a int, c int generated always as (b(a)) stored)", "column c of table t"),
        ("create table t (a int); create unique index i on t (b(a))", 'unique index "i" of t'),
        ("create table t (a int); create policy p on t using (ok(a))", 'policy "p" of t'),
        ("create table t (a int) partition by range (b(a))", 'partitioned table "t"'),
        ("create domain d as int check (ok(value)); create table t (a d)", "constraint t_a_check of table t"),
        ("create domain d as int default b(1)", "the DEFAULT of domain d"),
    ],
)  # fmt: skip
def test_what_calls_a_function_keeps_it(db: Database, definition: str, message: str) -> None:
    db.sql(definition)
    name = "b" if "b(" in definition else "ok"
    with pytest.raises(kpg.Error) as caught:
        db.sql(f"drop function {name}(int)")
    assert f'function "{name}" cannot be dropped: {message} calls it' in str(caught.value)
    db.sql(f"alter function {name}(int) rename to other")
    with pytest.raises(kpg.Error) as caught:
        db.sql("drop function other(int)")
    assert f'function "other" cannot be dropped: {message} calls it' in str(caught.value)
    db.sql(f"alter function other(int) rename to {name}")
    db.sql(f"drop function {name}(int) cascade")
    with pytest.raises(kpg.Error, match="unknown function"):
        db.sql(f"select {name}(1)")
    if "partition" in definition:
        assert not db.query("select relname from pg_class where relname = 't'").fetchall()
    elif "create table t" in definition:
        db.sql("insert into t (a) values (200), (200)")
        assert db.query("select a from t").fetchall() == [(200,), (200,)]


def test_a_default_and_a_generated_column_go(db: Database) -> None:
    db.sql(
        "create table k (a int check (ok(a)), c int default b(3), d int generated always as (b(a)) stored)"
    )
    db.sql("insert into k values (1); drop function b(int) cascade; insert into k values (2)")
    assert db.query("select * from k order by a").fetchall() == [(1, 4), (2, None)]
    with pytest.raises(kpg.IntegrityError, match="k_a_check"):
        db.sql("insert into k values (70)")


def test_other_functions_of_the_name_are_no_reason(db: Database) -> None:
    """Those of other arguments, and those of other schemas."""
    db.sql("create function b(text) returns int language sql immutable as 'select 1'")
    db.sql("create schema far; create function far.b(int) returns int language sql immutable as 'select 2'")
    db.sql("create table t (a int, c int default b(3), d int default far.b(1))")
    db.sql("drop function b(text)")
    with pytest.raises(kpg.Error, match="the DEFAULT of column c"):
        db.sql("drop function b(int)")
    db.sql("alter table t alter column c drop default; drop function b(int)")
    with pytest.raises(kpg.Error, match="the DEFAULT of column d"):
        db.sql("drop function far.b(int)")


def test_an_aggregate_keeps_the_function_of_its_steps(db: Database) -> None:
    db.sql("create function plus(int, int) returns int language sql immutable as 'select $1 + $2'")
    db.sql("create aggregate total (int) (sfunc = plus, stype = int, initcond = '0')")
    db.sql("create table t (a int); insert into t values (1), (2)")
    with pytest.raises(kpg.Error, match='aggregate "total"'):
        db.sql("drop function plus(int, int)")
    assert db.query("select total(a) from t").fetchall() == [(3,)]
    db.sql("drop function plus(int, int) cascade")
    with pytest.raises(kpg.Error, match="unknown function"):
        db.sql("select total(a) from t")


def test_a_name_in_a_text_in_quotes_is_no_call(db: Database) -> None:
    db.sql("create table t (a text check (a <> 'public.b(1)'), c text default 'b(2)' /* b(3) */)")
    db.sql("drop function b(int)")
    db.sql("insert into t values ('x')")
    assert db.query("select * from t").fetchall() == [("x", "b(2)")]


@pytest.mark.parametrize(
    ("definition", "what"),
    [
        ("create table t (x text default 'a'::mood::text)", "the DEFAULT of column x of table t"),
        ("create table t (x text check (x::mood > 'a'::mood))", "constraint t_x_check of table t"),
        ("create table t (x text); create policy p on t using (x::mood > 'a')", 'policy "p" of t'),
        ("create table t (x text); create view v as select x::mood > 'a' as y from t", "view v"),
    ],
)
def test_a_type_that_a_definition_names_stays(db: Database, definition: str, what: str) -> None:
    db.sql("create type mood as enum ('a', 'b')")
    db.sql(definition)
    for name in ("mood", "moods"):
        with pytest.raises(kpg.Error, match=f"dropping type {name} is not supported while {what} names it"):
            db.sql(f"drop type {name}")
        if name == "mood":
            db.sql("alter type mood rename to moods")
    db.sql("insert into t values ('b')")
