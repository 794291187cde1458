"""Scalars as text."""

import pytest

from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar, sql_text
from kpg.runtime.types import BOOLEAN, DATE, DOUBLE, INTEGER, ROWID, TEXT, decimal, float_to_word

A, B = Column(0, INTEGER), Column(1, INTEGER)
SUM = Call("add", (A, B), INTEGER)


@pytest.mark.parametrize(
    ("scalar", "text"),
    [
        (Call("mul", (SUM, Literal(2, INTEGER)), INTEGER), "(#0 + #1) * 2"),
        (
            Call("and", (Call("is_null", (A,), BOOLEAN), Call("not", (B,), BOOLEAN)), BOOLEAN),
            "#0 IS NULL AND (NOT #1)",
        ),
        (If(Call("lt", (A, B), BOOLEAN), A, B, INTEGER), "CASE WHEN #0 < #1 THEN #0 ELSE #1 END"),
        (Call("in", (A, Literal(1, INTEGER), Literal(None, INTEGER)), BOOLEAN), "#0 IN (1, NULL)"),
        (Call("cast", (SUM,), decimal(10, 2)), "CAST(#0 + #1 AS DECIMAL(10, 2))"),
        (Call("extract_year", (Column(2, DATE),), INTEGER), "EXTRACT(YEAR FROM #2)"),
        (Call("upper", (Fetch("t", 3, Column(0, ROWID), TEXT),), TEXT), "upper(t.#3)"),
        (Literal("it's", TEXT), "'it''s'"),
        (Literal(-5, decimal(3, 2)), "-0.05"),
        (Literal(float_to_word(1.5), DOUBLE), "1.5"),
        (Literal(10471, DATE), "DATE '1998-09-02'"),
        (Literal(1, BOOLEAN), "TRUE"),
    ],
)
def test_render(scalar: Scalar, text: str) -> None:
    assert sql_text(scalar) == text


def test_columns_can_have_names() -> None:
    assert sql_text(SUM, lambda column: "ab"[column.index]) == "a + b"
