"""Every function as it is written in SQL; what each computes in detail is tested where it is defined."""

import datetime
import math
from decimal import Decimal

import pytest

from kpg.database import Database


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("exp(f)", math.exp(2.5)),
        ("ln(f)", math.log(2.5)),
        ("log(f * 40)", 2.0),
        ("log(2, 8)", 3.0),
        ("power(f, 2)", 6.25),
        ("f ^ 2", 6.25),
        ("sqrt(f + 1.5)", 2.0),
        ("sign(-f)", -1.0),
        ("trunc(-f)", -2.0),
        ("round(p, 1)", Decimal("1.3")),
        ("ceiling(f), floor(f)", 3.0),
        ("mod(i, 3)", 1),
        ("lpad(s, 5)", "  abc"),
        ("lpad(s, 5, 'xy')", "xyabc"),
        ("rpad(s, 4, 'x')", "abcx"),
        ("ltrim('  abc ')", "abc "),
        ("rtrim(s, 'c')", "ab"),
        ("trim(leading 'a' from s)", "bc"),
        ("trim(both 'c' from s)", "ab"),
        ("reverse(s)", "cba"),
        ("split_part(s, 'b', 2)", "c"),
        ("contains(s, 'bc')", True),
        ("starts_with(s, 'b')", False),
        ("ends_with(s, 'bc')", True),
        ("s ~ '^a.c$'", True),
        ("s !~ 'b'", False),
        ("strpos(s, 'b')", 2),
        ("position('c' in s)", 3),
        ("substring(s from 2 for 1)", "b"),
        ("left(s, 1) || right(s, 1)", "ac"),
        ("concat(s, NULL, i, p)", "abc41.25"),
        ("make_date(1998, 12, i)", datetime.date(1998, 12, 4)),
        ("date_trunc('month', d)", datetime.date(1998, 12, 1)),
        ("date_part('year', d)", 1998),
        ("d + interval '3 months' - interval '1 day'", datetime.date(1999, 3, 3)),
        ("d + 1 - d", 1),
    ],
)
def test_function(db: Database, text: str, value: object) -> None:
    db.sql("CREATE TABLE t (i INT, f DOUBLE, p DECIMAL(8, 2), s TEXT, d DATE)")
    db.sql("INSERT INTO t VALUES (4, 2.5, 1.25, 'abc', '1998-12-04')")
    assert db.query(f"SELECT {text} FROM t").fetchall()[0][0] == (
        pytest.approx(value) if isinstance(value, float) else value
    )


def test_columns_have_the_names_of_their_functions(db: Database) -> None:
    text = "SELECT date_trunc('month', date '1998-12-04'), 2 ^ 2, string_agg('a', ','), bool_or(TRUE), 1"
    assert db.query(text).columns == ["date_trunc", "power", "string_agg", "bool_or", "?column?"]
