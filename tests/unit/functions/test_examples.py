"""Every function's examples: through the engine, and in DuckDB where it means the same."""

import datetime
import decimal
import math
from collections.abc import Iterator

import duckdb
import pytest

import kpg
from kpg.api.database import Database
from kpg.runtime.functions import ScalarFunction, functions

EXAMPLES = [
    pytest.param(function, sql, expected, id=f"{function.name}: {sql}")
    for function in functions()
    for sql, expected in function.examples.items()
]
SPELT_OTHERWISE = {"bitwise_xor", "whole_quotient"}
"""What DuckDB writes otherwise."""
OTHERWISE = {
    "bit_count",
    "format",
    "get_bit",
    "json_extract_path",
    "json_extract_path_text",
    "set_bit",
    "octet_length",
    "similar_substring",
    "similar_to",
    "substring",
    "to_hex",
    "date_trunc",
    "overlaps",
    "pg_size_pretty",
    "regexp_split_to_array",
    "to_timestamp",
    "extract_julian",
    "array_to_string",
    "json_object",
    "row_to_json",
    "string_to_array",
    "decode",
    "encode",
    "sha256",
}
"""Functions that DuckDB has by these names, or this syntax, for something else."""
IN_DUCKDB = {
    name for (name,) in duckdb.sql("SELECT DISTINCT function_name FROM duckdb_functions()").fetchall()
}
"""The functions that DuckDB has; examples of others have the values of Postgres' documentation."""


def is_in_duckdb(name: str, sql: str) -> bool:
    """Whether DuckDB has the function, or the syntax that an example writes it by."""
    if name in OTHERWISE or name in SPELT_OTHERWISE:
        return False
    return name in IN_DUCKDB or f"{name}(" not in sql


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with kpg.connect() as connection:
        yield connection


@pytest.fixture(scope="module")
def oracle() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


def comparable(value: object) -> object:
    match value:
        case bool() | None | str():
            return value
        case int() | decimal.Decimal() | float():
            return float(value)
        case datetime.datetime():
            return value
        case datetime.date():
            return datetime.datetime(value.year, value.month, value.day)
        case _:
            return value


@pytest.mark.parametrize(("function", "sql", "expected"), EXAMPLES)
def test_example_through_the_engine(
    function: ScalarFunction, sql: str, expected: str, database: Database
) -> None:
    ((left, right),) = database.sql(f"SELECT {sql}, {expected}").fetchall()
    assert comparable(left) == comparable(right)


@pytest.mark.parametrize(
    ("function", "sql", "expected"),
    [one for one in EXAMPLES if is_in_duckdb(one.values[0].name, one.values[1])],
)
def test_example_in_duckdb(
    function: ScalarFunction, sql: str, expected: str, oracle: duckdb.DuckDBPyConnection
) -> None:
    row = oracle.execute(f"SELECT {sql}, {expected}").fetchone()
    assert row is not None
    left, right = map(comparable, row)
    if isinstance(left, float) and isinstance(right, float):
        assert math.isclose(left, right)
    else:
        assert left == right


def test_every_function_has_a_line_of_documentation_and_examples() -> None:
    for function in functions():
        assert function.doc.endswith(".") and "\n" not in function.doc, function.name
        own = function.name == "order_word" or function.name.startswith("enum_")  # of types that users make
        assert function.examples or own, function.name
