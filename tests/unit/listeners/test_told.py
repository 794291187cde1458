"""What clients and bodies are told of errors: Postgres' words and its SQLSTATE."""

import pytest

import kpg
from kpg.postgres.sqlstate import client_context, client_message, sqlstate_of

TOLD = {
    "SELECT 2147483647 + 1": ("integer out of range", "22003"),
    "SELECT 1 / 0": ("division by zero", "22012"),
    "SELECT 1e308::float8 * 10": ("value out of range: overflow", "22003"),
    "SELECT ln(0.0)": ("cannot take logarithm of zero", "2201E"),
    "SELECT sqrt(-1.0)": ("cannot take square root of a negative number", "2201F"),
    "SELECT power(0::float8, -1)": ("zero raised to a negative power is undefined", "2201F"),
    "SELECT width_bucket(5, 1, 10, 0)": ("count must be greater than zero", "2201G"),
    "SELECT asin(2)": ("input is out of range", "22003"),
    "SELECT 'abc' ~ 'a('": ("invalid regular expression: parentheses () not balanced", "2201B"),
    "SELECT split_part('a', 'b', 0)": ("field position must not be zero", "22023"),
    "SELECT * FROM generate_series(1.0, 2, 0)": ("step size cannot equal zero", "22023"),
    "SELECT true + 1": ("operator does not exist: boolean + integer", "42883"),
    "SELECT nowhere(1, 'x', 2.5)": ("function nowhere(integer, unknown, numeric) does not exist", "42883"),
    "SELECT 1 WHERE 1": ("argument of WHERE must be type boolean, not type integer", "42804"),
    "SELECT CAST(true AS DATE)": ("cannot cast type boolean to date", "42846"),
    "SELECT 1 +": ("syntax error at end of input", "42601"),
    "INSERT INTO t VALUES (100000, 'x', 1)": ("smallint out of range", "22003"),
    "INSERT INTO t VALUES (1, 'xyz', 1)": ("value too long for type character varying(2)", "22001"),
    "INSERT INTO t VALUES (1, 'x', 1000)": ("numeric field overflow", "22003"),
}


@pytest.mark.parametrize(("statement", "expected"), TOLD.items())
def test_errors_are_told_in_postgres_words(statement: str, expected: tuple[str, str]) -> None:
    db = kpg.connect()
    db.sql("CREATE TABLE t (a SMALLINT, b VARCHAR(2), c NUMERIC(4, 2))")
    with pytest.raises(kpg.Error) as caught:
        db.sql(statement)
    assert (client_message(caught.value), sqlstate_of(caught.value)) == expected


def test_the_place_and_the_operands_are_the_context() -> None:
    with pytest.raises(kpg.DataError) as caught:
        kpg.connect().sql("SELECT a / (a - 1) FROM (VALUES (1)) t(a)")
    assert str(caught.value.message).startswith("division by zero in ")
    assert client_context(caught.value) == caught.value.message.removeprefix("division by zero ")
