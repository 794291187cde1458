"""Results: the cursor, the forms, the description."""

import datetime
from decimal import Decimal

import duckdb
import polars
import pyarrow as pa
import pytest

from kpg.api.database import Database
from kpg.api.result import ColumnContents, Result, listing, plan_result, row_count_result
from kpg.runtime.errors import DataError
from kpg.runtime.types import BIGINT, DATE, TEXT, Type, decimal

COLUMNS = [
    [1, 2, None],
    [Decimal("1.50"), None, Decimal("0.25")],
    [datetime.date(1998, 12, 1), None, datetime.date(1970, 1, 1)],
    ["a", "b", None],
]
ROWS = [
    (1, Decimal("1.50"), datetime.date(1998, 12, 1), "a"),
    (2, None, None, "b"),
    (None, Decimal("0.25"), datetime.date(1970, 1, 1), None),
]
TYPES: list[Type] = [BIGINT, decimal(15, 2), DATE, TEXT]


def result() -> Result:
    names = ["id", "price", "day", "id"]
    return Result(names, TYPES, ColumnContents(names, TYPES, COLUMNS))


def test_fetching_moves_a_cursor() -> None:
    one = result()
    assert one.fetchone() == ROWS[0]
    assert one.fetchmany(1) == ROWS[1:2]
    assert one.fetchall() == ROWS[2:]
    assert one.fetchone() is None
    assert one.fetchall() == []


def test_iteration_and_length_are_over_all_rows() -> None:
    one = result()
    one.fetchone()
    assert list(one) == ROWS
    assert list(one) == ROWS
    assert len(one) == one.rowcount == 3


def test_description_is_that_of_the_db_api() -> None:
    assert result().description[:2] == [
        ("id", BIGINT, None, None, None, None, None),
        ("price", decimal(15, 2), None, None, 15, 2, None),
    ]
    assert result().columns == ["id", "price", "day", "id"]
    assert result().types == TYPES


def test_empty_result_is_true_and_has_no_rows() -> None:
    empty = listing({"n": (BIGINT, [])})
    assert bool(empty)
    assert list(empty) == []
    assert empty.fetchone() is None


def test_arrow_stream_is_read_by_others() -> None:
    numbers = listing({"n": (BIGINT, [1, 2, 39])})
    assert pa.table(numbers) == numbers.arrow()
    assert polars.DataFrame(numbers)["n"].to_list() == [1, 2, 39]
    assert duckdb.sql("SELECT sum(n)::INT FROM numbers").fetchall() == [(42,)]


def test_frames() -> None:
    numbers = listing({"n": (BIGINT, [1, 2]), "t": (TEXT, ["a", None])})
    assert numbers.df()["n"].tolist() == [1, 2]
    assert numbers.pl().rows() == [(1, "a"), (2, None)]


def test_affected_rows() -> None:
    count = row_count_result(3)
    assert (count.rowcount, count.affected, count.fetchall()) == (3, 3, [(3,)])


def test_explanation_prints_as_it_is() -> None:
    plan = plan_result("Join\n  Get t")
    assert repr(plan) == "Join\n  Get t"
    assert plan.fetchall() == [("Join",), ("  Get t",)]


def test_pandas_has_its_own_types_of_days_and_moments(db: Database) -> None:
    frame = db.query(
        "select * from (values (date '2024-02-29', timestamp '2024-02-29 01:02:03', timestamptz "
        "'2024-02-29 01:02:03+00', true), (null, null, null, null)) as t(d, m, z, b) order by d"
    ).df()
    assert [frame[name].dtype.kind for name in "dmzb"] == ["M", "M", "M", "O"]
    assert frame["d"].dt.year.tolist()[0] == 2024
    assert frame["d"].isna().tolist() == [False, True]
    assert frame["b"].tolist() == [True, None]


def test_numeric_columns_are_decimals_where_arrow_has_them(db: Database) -> None:
    db.sql("create table numbers (a numeric, b numeric(30, 2), c numeric(9, 2))")

    def types() -> list[str]:
        return [str(one) for one in db.query("select * from numbers").arrow().schema.types]

    assert types() == ["string", "decimal128(30, 2)", "decimal128(9, 2)"]
    db.sql("insert into numbers values (1.5, 2.50, 3.25)")
    assert types() == ["decimal128(2, 1)", "decimal128(30, 2)", "decimal128(9, 2)"]
    db.sql("insert into numbers (a) values ('nan')")
    assert types() == ["string", "decimal128(30, 2)", "decimal128(9, 2)"]
    assert db.query("select * from numbers").arrow()["a"].to_pylist() == ["1.5", "NaN"]
    frame = db.query("select a, b from numbers where a < 9").df()
    assert frame.values.tolist() == [[Decimal("1.5"), Decimal("2.50")]]
    db.sql("insert into numbers (b) values ('nan')")
    with pytest.raises(DataError, match=r"NaN of a .* column has no value of Arrow's decimal128\(30, 2\)"):
        db.query("select b from numbers").arrow()
