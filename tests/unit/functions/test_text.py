"""Text functions through SQL: NULLs, edges and errors, with the values of Postgres' documentation."""

from typing import Any

import pytest

import kpg
from kpg.runtime.errors import DataError, ProgrammingError


def value(expression: str) -> Any:
    ((found,),) = kpg.connect().sql(f"SELECT {expression}").fetchall()
    return found


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("initcap('hi THOMAS')", "Hi Thomas"),
        ("initcap('ünïcode_word x2Y')", "Ünïcode_Word X2y"),
        ("initcap('')", ""),
        ("repeat('Pg', 4)", "PgPgPgPg"),
        ("repeat('', 1000000000)", ""),
        ("repeat(NULL, 2)", None),
        ("md5('')", "d41d8cd98f00b204e9800998ecf8427e"),
        ("md5('é')", "66ddcd97cfdeabb2f6fb8a999b4bc76f"),
        ("concat_ws(',', 'abcde', 2, NULL, 22)", "abcde,2,22"),
        ("concat_ws(',', NULL, NULL)", ""),
        ("concat_ws('', 'a', 'b')", "ab"),
        ("concat_ws(', ', '', '', 'c')", ", , c"),
        ("concat_ws(NULL, 'a')", None),
        ("concat_ws('/', DATE '2024-02-29', 1.50, TRUE)", "2024-02-29/1.50/t"),
        ("cbrt(27)", 3.0),
        ("cbrt(-0.125)", -0.5),
        ("||/ 27.0", 3.0),
        ("lpad('hi', 5)", "   hi"),
        ("lpad('hi', 5, 'xy')", "xyxhi"),
        ("rpad('hi', 1)", "h"),
        ("char_length('é')", 1),
        ("substr('alphabet', 3, 2)", "ph"),
        ("btrim('xyxtrimyyx', 'xyz')", "trim"),
        ("ceiling(1.2)", 2),
        ("pow(2, 10)", 1024.0),
    ],
)
def test_values(expression: str, expected: Any) -> None:
    assert value(expression) == expected


def test_over_rows_as_they_change() -> None:
    db = kpg.connect()
    db.sql("CREATE TABLE t (a VARCHAR, b INT)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT concat_ws('-', initcap(a), repeat(a, b), b) AS x FROM t")
    db.insert("t", [("ab", 2), (None, 3), ("c", None)])
    assert sorted(db.view("v").fetchall()) == [("3",), ("Ab-abab-2",), ("C",)]
    db.delete("t", [("ab", 2)])
    assert sorted(db.view("v").fetchall()) == [("3",), ("C",)]


@pytest.mark.parametrize(
    ("expression", "error", "message"),
    [
        ("repeat('abc', 100000000)", DataError, "repeat"),
        ("repeat('abc', 'x')", ProgrammingError, "x"),
        ("initcap(1)", ProgrammingError, r"initcap does not take .INTEGER."),
        ("concat_ws(',')", ProgrammingError, r"concat_ws does not take .NULL."),
        ("md5('a', 'b')", ProgrammingError, r"md5 does not take .NULL, NULL."),
    ],
)
def test_refusals(expression: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        value(expression)
