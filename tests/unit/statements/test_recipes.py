"""INSERTs of one row that come again: the same words as the statement itself stores, or none."""

import datetime
from decimal import Decimal
from typing import Any

import pytest

import kpg
from kpg.execute.changes.keyed_changes import encode_single_insert

TABLES = """
    create table t (a int primary key, b text, c numeric(10, 2), d date, e boolean, f double precision,
        g bigint);
    create table ruled (id serial primary key, x int);
    create table checked (x int check (x > 0));
    create table short (x varchar(3));
"""
ROWS: list[list[Any]] = [
    [1, "x", Decimal("1.5"), datetime.date(2020, 1, 2), True, "2.5", 2**40],
    ["2", "it's", "1.005", "2020-01-02", "f", "nan", "-7"],
    [3, None, None, None, None, None, None],
    ["-4", "", 7, "2020-01-02", False, 1, 1],
]


@pytest.fixture
def db() -> Any:
    with kpg.connect() as opened:
        opened.sql(TABLES)
        yield opened


@pytest.mark.parametrize("values", ROWS)
def test_a_row_is_what_the_statement_stores(db: kpg.Database, values: list[Any]) -> None:
    engine = db._engine
    text = "insert into t values ($1, $2, $3, $4, $5, $6, $7)"
    found = encode_single_insert(engine, text, values)
    db.sql(text, values)
    assert found is not None
    assert found[0].entry.name == "t"
    assert [[word] for word in found[1]] == engine.table("t").scan().tolist()


def test_columns_constants_and_positions(db: kpg.Database) -> None:
    text = "insert into t (b, g, a) values ('q', ?, ?);"
    found = encode_single_insert(db._engine, text, [5, 6])
    db.sql(text, [5, 6])
    assert found is not None
    assert [[word] for word in found[1]] == db._engine.table("t").scan().tolist()


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("insert into t (a) values ($1)", ["x"]),
        ("insert into t (a) values ($1)", [2**31]),
        ("insert into t (a) values ($1)", ["1_0"]),
        ("insert into t (a) values ($1)", [True]),
        ("insert into t (a) values ($1)", []),
        ("insert into t (a) values ($2)", [1, 2]),
        ("insert into t (a, b) values (1, $1)", [7]),
        ("insert into t (a) values ($1), ($2)", [1, 2]),
        ("insert into t (a) values ($1) returning a", [1]),
        ("insert into t (a) values ($1) on conflict (a) do update set b = (select max(b) from t)", [1]),
        ("insert into t (a) values (1 + $1)", [1]),
        ("insert into none values ($1)", [1]),
        ("insert into ruled (x) values ($1)", [1]),
        ("insert into checked values ($1)", [1]),
        ("insert into short values ($1)", ["abcd"]),
        ("select $1", [1]),
    ],
)
def test_what_takes_more_is_left_to_others(db: kpg.Database, text: str, values: list[Any]) -> None:
    assert encode_single_insert(db._engine, text, values) is None


def test_a_recipe_ends_with_the_table_that_it_was_for(db: kpg.Database) -> None:
    text = "insert into u values ($1)"
    assert encode_single_insert(db._engine, text, ["1"]) is None
    db.sql("create table u (x text)")
    first = encode_single_insert(db._engine, text, ["1"])
    db.sql("drop table u; create table u (x int)")
    second = encode_single_insert(db._engine, text, ["1"])
    assert first is not None
    assert second is not None
    assert second[1] == [1]
