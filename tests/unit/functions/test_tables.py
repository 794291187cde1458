"""Functions that make rows: their examples, what they refuse, and how many rows they make at a time."""

from decimal import Decimal

import pytest

import kpg
from kpg.runtime.functions import autoload
from kpg.runtime.functions.table_functions import RowFunction, row_functions, similar_names
from kpg.runtime.operators import expand

CASES = [pytest.param(call, rows, id=call) for one in row_functions() for call, rows in one.examples.items()]


@pytest.mark.parametrize(("call", "rows"), CASES)
def test_examples_hold(call: str, rows: str) -> None:
    db = kpg.connect()
    found = db.sql(f"select * from {call} with ordinality").fetchall()
    values = [row[:-1] for row in sorted(found, key=lambda row: row[-1])]
    wanted = db.sql(f"select * from (values {rows}) t").fetchall() if rows else []
    assert sorted(values, key=repr) == sorted(wanted, key=repr)


@pytest.mark.parametrize("function", list(row_functions()), ids=lambda one: one.name)
def test_entries_say_what_they_do(function: RowFunction) -> None:
    assert (
        (
            function.examples
            or function.name in autoload.COLUMN_DEFINITION_FUNCTIONS | autoload.POPULATE_FUNCTIONS
        )
        and function.doc.endswith(".")
        and function.accepts
    )


def test_a_series_is_made_by_parts_and_one_larger_than_memory_can_be_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(expand, "CHUNK", 10)
    db = kpg.connect()
    assert db.sql("select count(*), sum(x) from generate_series(1, 101) x").fetchall() == [(101, 5151)]
    both = db.sql(
        "select count(*), count(a), count(b) from rows from (generate_series(1, 25), abs(1)) t(a, b)"
    )
    assert both.fetchall() == [(25, 25, 1)]


def test_decimals_keep_their_scale() -> None:
    db = kpg.connect()
    found = db.sql("select * from generate_series(0, 1, 0.25)").fetchall()
    assert found == [(Decimal(0),), (Decimal("0.25"),), (Decimal("0.50"),), (Decimal("0.75"),), (Decimal(1),)]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select * from generate_series(1, 3, 0)", "step size cannot be zero in generate_series(1, 3, 0)"),
        ("select * from generate_series(true, 3)", "generate_series does not take (BOOLEAN, INTEGER)"),
        (
            "select 1 from t where x = generate_series(1, 2)",
            "a function that makes rows is not allowed in WHERE",
        ),
        ("values (generate_series(1, 2))", "a function that makes rows is not allowed in VALUES"),
        ("select * from generate_series(1, 2) as g(a, b)", '"g" has 1 columns but 2 are named'),
    ],
)
def test_what_is_refused(query: str, message: str) -> None:
    db = kpg.connect()
    db.sql("create table t (x int)")
    with pytest.raises(kpg.Error) as caught:
        db.sql(query)
    assert caught.value.message == message


def test_a_row_on_which_the_call_fails_is_no_error_once_it_is_gone() -> None:
    db = kpg.connect()
    db.sql(
        "create table t (x int); create materialized view v as select g from t, generate_series(1, 5, x) g"
    )
    with pytest.raises(kpg.DataError, match="step size cannot be zero"):
        db.sql("insert into t values (0)")
    with db.transaction():
        db.sql("insert into t values (0), (2)")
        db.sql("delete from t where x = 0")
    assert sorted(db.view("v")) == [(1,), (3,), (5,)]


def test_names_that_are_near() -> None:
    assert similar_names("generate_serie")[0] == "generate_series"
