"""Every kind of bad input: a typed error that says where and what next, and nothing has changed."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kpg
from kpg.api.database import Database
from kpg.runtime.errors import Error

BEFORE = [("a", Decimal("6.00")), ("b", Decimal("1.00"))]


@pytest.fixture(params=["alone", "in a transaction"])
def run(shop: Database, request: pytest.FixtureRequest) -> Iterator[Database]:
    """The database; afterwards it must be as it was."""
    if request.param == "in a transaction":
        shop.sql("BEGIN; DELETE FROM item WHERE id = 3")
    yield shop
    if request.param == "in a transaction":
        with pytest.raises(kpg.InterfaceError):
            shop.sql("SELECT 1")
        shop.sql("COMMIT")  # of nothing: as in Postgres, a failed transaction is rolled back
    assert shop.view("total").fetchall() == BEFORE
    result = shop.query("SELECT id FROM item ORDER BY id")
    assert list(result) == [(1,), (2,), (3,)]
    shop.insert("item", [(4, "b", 1)])
    shop.verify("total")
    assert shop.view("total").fetchall()[1] == ("b", Decimal("2.00"))


def fails(db: Database, text: str) -> Error:
    with pytest.raises(Error) as caught:
        db.sql(text)
    return caught.value


def place(error: Error) -> str:
    assert error.span is not None
    return error.span.source[error.span.start : error.span.end]


def test_malformed(run: Database) -> None:
    error = fails(run, "SELECT id FROM item WHERE (price > 1")
    assert isinstance(error, kpg.ProgrammingError)
    assert "syntax error" in error.message
    assert "^" in str(error)


def test_unknown_relation(run: Database) -> None:
    error = fails(run, "SELECT * FROM itm")
    assert isinstance(error, kpg.ProgrammingError)
    assert error.message == 'relation "itm" does not exist'
    assert error.hint == 'did you mean "item"?'
    assert place(error) == "itm"


def test_unknown_column(run: Database) -> None:
    error = fails(run, "INSERT INTO item SELECT id + 10, kind, pric FROM item")
    assert isinstance(error, kpg.ProgrammingError)
    assert error.message == 'column "pric" does not exist'
    assert error.hint == 'did you mean "price"?'
    assert place(error) == "pric"


def test_ambiguous_column(run: Database) -> None:
    error = fails(run, "SELECT kind FROM item i JOIN total t ON i.kind = t.kind")
    assert isinstance(error, kpg.ProgrammingError)
    assert error.message == 'column "kind" is ambiguous'
    assert error.hint == "write one of i.kind, t.kind"
    assert place(error) == "kind"


def test_type_error(run: Database) -> None:
    error = fails(run, "SELECT id + kind FROM item")
    assert isinstance(error, kpg.ProgrammingError)
    assert "VARCHAR" in error.message
    assert error.span is not None


def test_wrong_type_for_a_column(run: Database) -> None:
    error = fails(run, "UPDATE item SET price = kind")
    assert isinstance(error, kpg.ProgrammingError)
    assert error.message == 'column "price" is DECIMAL(10, 2), not VARCHAR'


def test_unsupported_syntax(run: Database) -> None:
    error = fails(run, "SELECT * FROM XMLTABLE('/a' PASSING '<a/>' COLUMNS b TEXT)")
    assert isinstance(error, kpg.NotSupportedError)
    assert "not supported" in error.message
    assert error.span is not None


def test_unsupported_statement(run: Database) -> None:
    error = fails(run, "CREATE SUBSCRIPTION s CONNECTION 'host=there' PUBLICATION p")
    assert isinstance(error, kpg.NotSupportedError)
    assert "not supported" in error.message
    assert place(error) == "SUBSCRIPTION"


def test_division_by_zero_in_a_query(run: Database) -> None:
    error = fails(run, "SELECT price / (id - 1) FROM item")
    assert isinstance(error, kpg.DataError)
    assert "division by zero" in error.message


def test_division_by_zero_in_an_insert(run: Database) -> None:
    error = fails(run, "INSERT INTO item SELECT id + 10, kind, price / (id - 1) FROM item")
    assert isinstance(error, kpg.DataError)
    assert "division by zero" in error.message


def test_overflow_in_an_update(run: Database) -> None:
    error = fails(run, "UPDATE item SET price = price * 99999999")
    assert isinstance(error, kpg.DataError)


def test_text_too_long(db: Database) -> None:
    db.sql("CREATE TABLE t (c VARCHAR(2))")
    error = fails(db, "INSERT INTO t VALUES ('ab'), ('abc')")
    assert isinstance(error, kpg.DataError)
    assert "'abc'" in error.message
    assert len(db.query("SELECT * FROM t")) == 0


def test_duplicate_key(run: Database) -> None:
    error = fails(run, "INSERT INTO item VALUES (7, 'c', 1), (1, 'c', 1)")
    assert isinstance(error, kpg.IntegrityError)
    assert error.message == "duplicate key in table item: (id) = (1) exists already"
    assert error.hint is not None


def test_null_in_a_not_null_column(run: Database) -> None:
    error = fails(run, "UPDATE item SET price = NULL WHERE id = 1")
    assert isinstance(error, kpg.IntegrityError)
    assert "NULL in column price" in error.message


def test_parquet_with_a_wrong_schema(run: Database, tmp_path: Path) -> None:
    path = tmp_path / "item.parquet"
    pq.write_table(pa.table({"id": ["x"], "kind": ["b"], "price": [1.5]}), path)
    error = fails(run, f"COPY item FROM '{path}'")
    assert isinstance(error, kpg.ProgrammingError)
    assert "column id has type string, expected INTEGER" in error.message


def test_file_that_is_no_parquet(run: Database, tmp_path: Path) -> None:
    path = tmp_path / "item.parquet"
    path.write_bytes(b"PAR1 no")
    assert isinstance(fails(run, f"COPY item FROM '{path}'"), kpg.OperationalError)


def test_division_by_zero_in_a_view(shop: Database) -> None:
    """The view is fine until a row comes that it cannot compute: that transaction is refused."""
    shop.sql("CREATE MATERIALIZED VIEW share AS SELECT id, 10 / price AS n FROM item")
    before = sorted(shop.view("share"))
    error = fails(shop, "INSERT INTO item VALUES (4, 'a', 1), (5, 'a', 0)")
    assert isinstance(error, kpg.DataError)
    assert "division by zero" in error.message
    assert sorted(shop.view("share")) == before
    assert shop.view("total").fetchall() == BEFORE
    shop.insert("item", [(5, "a", 2)])
    shop.verify("share")
    shop.verify("total")


def test_overflow_in_a_view(shop: Database) -> None:
    shop.sql("CREATE TABLE big (n DECIMAL(18)); CREATE MATERIALIZED VIEW s AS SELECT sum(n) AS n FROM big")
    shop.insert("big", [(10**17 * 9,)])
    error = fails(shop, f"INSERT INTO big VALUES ({10**17 * 9}), (1)")
    assert isinstance(error, kpg.DataError)
    assert "overflow" in error.message
    assert shop.view("s").fetchall() == [(10**17 * 9,)]
    assert list(shop.query("SELECT count(*) FROM big")) == [(1,)]


BIG = 2**63 - 1


@pytest.mark.parametrize(
    ("query", "message", "hint"),
    [
        (
            "SELECT sum(x) FROM big",
            "sum(x) overflows DOUBLE",
            "scale what is summed down: a DOUBLE is at most 1.8e308",
        ),
        (
            "SELECT x * 10 FROM big WHERE x > 0",
            "DOUBLE out of range in x * 10.0 (x is 1e+308)",
            "scale an operand down: a DOUBLE is at most 1.8e308",
        ),
        (
            "SELECT x / 0.001 FROM big",
            "DOUBLE out of range in x / 0.001 (x is 1e+308)",
            "scale an operand down: a DOUBLE is at most 1.8e308",
        ),
        (
            "SELECT n * 2 FROM big",
            f"BIGINT out of range in n * 2 (n is {BIG})",
            "cast an operand to DOUBLE",
        ),
        (
            "SELECT i + 2147483647 FROM big",
            "INTEGER out of range in i + 2147483647 (i is 7)",
            "cast an operand to BIGINT",
        ),
        (
            "SELECT n / (i - 7) FROM big",
            f"division by zero in n / (i - 7) (n is {BIG}, i - 7 is 0)",
            "guard the divisor with NULLIF or CASE",
        ),
        (
            "UPDATE big SET i = i + 3000000000",
            'value out of range for column "i" INTEGER: i + 3000000000 is 3000000007',
            None,
        ),
        (
            "INSERT INTO big (i) SELECT n FROM big",
            f'value out of range for column "i" INTEGER: n is {BIG}',
            None,
        ),
        (
            "INSERT INTO big (i) VALUES (1 + 3000000000)",
            'value out of range for column "i" INTEGER: 3000000001',
            None,
        ),
    ],
)
def test_overflows_name_what_the_user_wrote(db: Database, query: str, message: str, hint: str | None) -> None:
    db.sql("CREATE TABLE big (i INT, n BIGINT, x DOUBLE, p DECIMAL(18, 0))")
    row = f"(7, {BIG}, 1e308, 999999999999999999)"
    db.sql(f"INSERT INTO big VALUES {', '.join([row] * 10)}")
    error = fails(db, query)
    assert isinstance(error, kpg.DataError)
    assert (error.message, error.hint) == (message, hint)


@pytest.mark.parametrize(
    "query", ["SELECT sum(p) FROM big", "SELECT sum(m) FROM (SELECT p AS m FROM big) AS v"]
)
def test_sums_beyond_eighteen_digits_are_numerics(db: Database, query: str) -> None:
    db.sql("CREATE TABLE big (p DECIMAL(18, 0))")
    db.sql(f"INSERT INTO big VALUES {', '.join(['(999999999999999999)'] * 10)}")
    assert db.query(query).fetchall() == [(Decimal("9999999999999999990"),)]


def test_the_lowest_words_are_no_numbers(db: Database) -> None:
    assert db.query("SELECT -9223372036854775806").fetchall() == [(-(2**63) + 2,)]
    for number in ("-9223372036854775807", "-9223372036854775808"):
        assert db.query(f"SELECT {number}").fetchall() == [(Decimal(number),)]
        error = fails(db, f"SELECT CAST({number} AS BIGINT)")
        assert error.message.startswith("bigint out of range")


def test_scalar_subquery_with_two_rows(run: Database) -> None:
    error = fails(run, "SELECT (SELECT id FROM item WHERE kind = 'a')")
    assert isinstance(error, kpg.DataError)


def test_missing_java(shop: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Asked for, Spark is an error without Java; else pyarrow takes its place."""
    path = tmp_path / "item.parquet"
    pq.write_table(pa.table({"id": [4], "kind": ["b"], "price": [1.0]}), path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(kpg.OperationalError, match="Java"):
        shop.load("item", path, mode="spark")
    assert shop.view("total").fetchall() == BEFORE
    assert shop.load("item", path) == 1


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("folder", 3),
        ("synchronous", 3),
        ("synchronous", ["full"]),
        ("read_only", "yes"),
        ("functions", 3),
        ("functions", {"f": 1}),
        ("merge_effort", ["lazy"]),
        ("merge_effort", 3),
        ("memory_limit", 1.5),
        ("memory_limit", [1]),
        ("history", [1]),
        ("history", 2.5),
        ("workers", "2"),
        ("workers", 1.5),
        ("workers", True),
        ("spark", "local[2]"),
    ],
)
def test_arguments_of_wrong_types_are_named(tmp_path: Path, argument: str, value: Any) -> None:
    wanted: dict[str, Any] = {"folder": tmp_path / "f", argument: value}
    with pytest.raises(kpg.InterfaceError, match=f"{argument}.* (is|are|must be) "):
        kpg.connect(**wanted)
    assert not (tmp_path / "f").exists()
