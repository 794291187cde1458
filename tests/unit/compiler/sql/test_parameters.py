"""Values for placeholders."""

import datetime
import math
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from kpg.compiler.sql.parse.parameters import (
    Binder,
    Parameters,
    blank_placeholders,
    number_placeholders,
    to_literal,
)
from kpg.compiler.sql.parse.parser import parse
from kpg.runtime.errors import InterfaceError


def bound(text: str, parameters: Parameters) -> Any:
    binder = Binder(parameters)
    (statement,) = (binder.bind(one) for one in parse(text))
    binder.finish()
    return statement


def test_by_position_in_order_of_the_text() -> None:
    text = number_placeholders("SELECT ?, '?', \"?\" FROM t -- ?\n WHERE x = ? /* ? */ LIMIT ?")
    assert text == "SELECT $1, '?', \"?\" FROM t -- ?\n WHERE x = $2 /* ? */ LIMIT $3"
    query = bound(text, [True, "it's", 3]).query
    assert query.expressions[0].sql() == "TRUE"
    assert query.args["where"].sql() == "WHERE x = 'it''s'"
    assert query.args["limit"].sql() == "LIMIT 3"


def test_in_statements_that_change_tables() -> None:
    assert bound("INSERT INTO t VALUES ($1, $2)", [-1, None]).query.query.sql() == "VALUES (-1, NULL)"
    update = bound("UPDATE t SET a = $2 WHERE b = $1", ["x", 2])
    assert update.assignments[0][1].sql() == "2"
    assert update.where.sql() == "b = 'x'"


def test_by_name() -> None:
    assert bound("SELECT :a + :a, :b", {"a": 1, "b": 2}).query.sql() == "SELECT 1 + 1, 2"


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        (None, "NULL"),
        (False, "FALSE"),
        (-7, "-7"),
        (Decimal("-1.50"), "-1.50"),
        (Decimal("1E+2"), "100"),
        (Decimal("-123456789012345678901234567890.12345"), "-123456789012345678901234567890.12345"),
        (0.1, "CAST('0.1' AS DOUBLE)"),
        (-math.inf, "CAST('-Infinity' AS DOUBLE)"),
        (datetime.date(1998, 12, 1), "CAST('1998-12-01' AS DATE)"),
        (datetime.datetime(1998, 12, 1, 2, 3), "CAST('1998-12-01 02:03:00' AS TIMESTAMP)"),
        (datetime.time(2, 3), "CAST('02:03:00' AS TIME)"),
        (datetime.time(2, 3, tzinfo=datetime.UTC), "CAST('02:03:00+00:00' AS TIMETZ)"),
    ],
)
def test_literals(value: object, literal: str) -> None:
    assert to_literal(value).sql() == literal


@pytest.mark.parametrize(
    ("text", "parameters", "message"),
    [
        ("SELECT $1, $2", [1], "no parameter for placeholder 2: 1 were given"),
        ("SELECT $1", [1, 2], "2 parameters given, 1 placeholders in the text"),
        ("SELECT :a", [1], "placeholder :a needs parameters by name"),
        ("SELECT :a", {}, "no parameter for placeholder :a"),
        ("SELECT $1", {"a": 1}, "placeholders by position need parameters in a list"),
        ("SELECT :a", {"a": 1, "b": 2}, 'no placeholder for parameter "b"'),
        ("SELECT ?", (), "placeholder \\? has no parameter"),
        ("SELECT $1", [1j], "a complex cannot be a parameter"),
        (
            "SELECT $1",
            [datetime.time(2, 3, tzinfo=ZoneInfo("Europe/Berlin"))],
            "a time cannot be a parameter",
        ),
    ],
)
def test_mistakes(text: str, parameters: Parameters, message: str) -> None:
    with pytest.raises(InterfaceError, match=message):
        bound(text, parameters)


@pytest.mark.parametrize(
    ("text", "numbers", "left"),
    [
        ("select f($1,$2)", {1}, "select f(   $2)"),
        ("select f($1, $2)", {2}, "select f($1    )"),
        ("select f($1, $2 , $3), '$2'", {2, 3}, "select f($1         ), '$2'"),
        ("select f($1)", {1}, "select f(  )"),
        ("select f($1, g($2), $12)", {1, 2}, "select f(    g(  ), $12)"),
        ("select f($1)", {2}, "select f($1)"),
    ],
)
def test_arguments_are_left_out(text: str, numbers: set[int], left: str) -> None:
    assert blank_placeholders(text, numbers) == left
