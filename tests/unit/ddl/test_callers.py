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
