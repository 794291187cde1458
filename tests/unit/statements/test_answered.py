"""Answers of queries over the system's relations are kept, until one of these is another."""

import pytest

import kpg
from kpg.api.result import Result


@pytest.fixture
def db() -> kpg.Database:
    db = kpg.connect()
    db.sql("create table pet (id int primary key, name text default 'x' not null)")
    return db


def answer(db: kpg.Database, query: str) -> list[tuple[object, ...]]:
    found = db.sql(query)
    assert isinstance(found, Result)
    return found.fetchall()


CASES = {
    "a table": ("select count(*) from pg_class where relname = 'dog'", "create table dog (x int)", 0, 1),
    "a column": (
        "select count(*) from information_schema.columns where table_name = 'pet'",
        "alter table pet add column age int",
        2,
        3,
    ),
    "a comment": (
        "select obj_description('pet'::regclass, 'pg_class')",
        "comment on table pet is 'lives'",
        None,
        "lives",
    ),
    "a default": (
        "select pg_get_expr(adbin, adrelid) from pg_attrdef",
        "alter table pet alter column name set default 'y'",
        "'x'::text",
        "'y'::text",
    ),
    "an index": ("select count(*) from pg_indexes", "create index on pet (name)", 1, 2),
    "a sequence": ("select count(*) from information_schema.sequences", "create sequence s", 0, 1),
    "a number of a sequence": (
        "select last_value from pg_sequences where sequencename = 's'",
        "select nextval('s')",
        None,
        1,
    ),
    "a type": (
        "select count(*) from pg_type where typname = 'mood'",
        "create type mood as enum ('ok')",
        0,
        1,
    ),
    "a function": (
        "select count(*) from pg_proc where proname = 'one'",
        "create function one() returns int language sql as 'select 1'",
        0,
        1,
    ),
    "a privilege": (
        "select count(*) from information_schema.table_privileges where grantee = 'ann'",
        "grant select on pet to ann",
        0,
        1,
    ),
    "rows": (
        "select reltuples::int from pg_class where relname = 'pet'",
        "insert into pet values (1)",
        -1,
        1,
    ),
    "a setting": (
        "select setting from pg_settings where name = 'application_name'",
        "set application_name = 'me'",
        "",
        "me",
    ),
    "the path": (
        "select pg_table_is_visible(oid) from pg_class where relname = 'pet'",
        "set search_path = other",
        True,
        False,
    ),
    "a schema": ("select count(*) from pg_namespace where nspname = 'more'", "create schema more", 0, 1),
    "a prepared statement": ("select count(*) from pg_prepared_statements", "prepare p as select 1", 0, 1),
    "who asks": (
        "select current_user::text from pg_namespace where nspname = 'other'",
        "set role ann",
        "kpg",
        "ann",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_has_changed_is_told(db: kpg.Database, name: str) -> None:
    query, change, before, after = CASES[name]
    db.sql(
        "create role ann; create schema other; grant usage on schema other to ann; create table seen (x int)"
    )
    if name == "a number of a sequence":
        db.sql("create sequence s")
    for _ in range(3):
        assert answer(db, query) == [(before,)]
    db.sql(change)
    for _ in range(3):
        assert answer(db, query) == [(after,)]


def test_an_answer_is_computed_once_while_nothing_changes(db: kpg.Database) -> None:
    query = "select relname from pg_class where relname = 'pet'"
    assert answer(db, query) == [("pet",)]
    consulted = db._engine.catalog.system_reads
    before = consulted.count
    for _ in range(5):
        assert answer(db, query) == [("pet",)]
        assert answer(db, query + ";") == [("pet",)]
    assert consulted.count == before
    assert answer(db, "select relname from pg_class where relname = 'pet_pkey'") == [("pet_pkey",)]
    assert consulted.count > before


def test_what_a_transaction_defines_others_do_not_see(db: kpg.Database) -> None:
    query = "select count(*) from pg_class where relname = 'dog'"
    assert answer(db, query) == [(0,)]
    db.sql("begin")
    db.sql("create table dog (x int)")
    assert [answer(db, query) for _ in range(3)] == [[(1,)]] * 3
    db.sql("rollback")
    assert [answer(db, query) for _ in range(3)] == [[(0,)]] * 3


def test_a_failed_transaction_answers_nothing(db: kpg.Database) -> None:
    query = "select count(*) from pg_class where relname = 'pet'"
    for _ in range(2):
        assert answer(db, query) == [(1,)]
    db.sql("begin")
    with pytest.raises(kpg.Error):
        db.sql("select 1 / 0")
    with pytest.raises(kpg.Error, match="rolled back by an earlier error"):
        db.sql(query)
    db.sql("rollback")


def test_what_is_another_each_time_is_computed_each_time(db: kpg.Database) -> None:
    query = "select random() from pg_class where relname = 'pet'"
    assert len({answer(db, query)[0] for _ in range(5)}) == 5
    moments = {answer(db, "select now() from pg_class where relname = 'pet'")[0] for _ in range(5)}
    assert len(moments) == 5


def test_tables_are_read_each_time(db: kpg.Database) -> None:
    query = "select count(*) from pet, pg_class where relname = 'pet'"
    assert answer(db, query) == [(0,)]
    db.sql("insert into pet values (1)")
    assert answer(db, query) == [(1,)]


def test_a_materialized_view_is_one_while_changes_are_pending(db: kpg.Database) -> None:
    db.sql("create materialized view seen as select count(*) as n from pet")
    db.sql("begin; insert into pet values (1)")
    assert answer(db, "select relkind from pg_class where relname = 'seen'") == [("m",)]
    assert answer(db, "select n from seen") == [(1,)]
    db.sql("rollback")


def test_parameters_are_told_apart(db: kpg.Database) -> None:
    query = "select relname from pg_class where relname = $1"
    for name in ("pet", "pet_pkey", "none", "pet"):
        found = db.sql(query, [name])
        assert isinstance(found, Result)
        assert found.fetchall() == ([] if name == "none" else [(name,)])
