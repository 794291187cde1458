"""Rows one after the other are encoded as rows all at once are."""

import datetime
from decimal import Decimal
from typing import Any

import pytest

from kpg.runtime.convert.python_values import MAX_CACHED_CODES, RowEncoder, encode_rows
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    NULL,
    TEXT,
    TIMESTAMP,
    ColumnDef,
    Kind,
    Schema,
    Type,
    decimal,
)
from kpg.runtime.values import UnrepresentableValue, WrongPythonType

SCHEMA = Schema(
    (
        ColumnDef("a", BIGINT),
        ColumnDef("b", INTEGER),
        ColumnDef("c", TEXT),
        ColumnDef("d", DOUBLE),
        ColumnDef("e", decimal(12, 2)),
        ColumnDef("f", DATE),
        ColumnDef("g", TIMESTAMP),
        ColumnDef("h", BOOLEAN),
        ColumnDef("i", Type(Kind.VARCHAR, 3)),
    )
)
ROWS = [
    (1, 2, "x", 0.5, Decimal("2.50"), datetime.date(1970, 1, 2), datetime.datetime(1970, 1, 1), True, "abc"),
    (None,) * 9,
    (-1, 0, "", -0.0, 3, "1969-12-31", "1970-01-01 00:00:01", False, "ab"),
    (1, 2, "x", 0.5, "2.5", datetime.date(1970, 1, 2), datetime.date(1970, 1, 1), True, "x"),
]


def test_as_by_columns() -> None:
    dictionary = Dictionary()
    encoder = RowEncoder(SCHEMA.columns, dictionary)
    expected = encode_rows(ROWS, SCHEMA, dictionary)
    assert [encoder.words(row) for row in ROWS] == expected.T.tolist()
    assert encoder.words(ROWS[0])[:2] == [1, 2]
    assert encoder.words(ROWS[1]) == [NULL] * 9


@pytest.mark.parametrize(
    ("place", "value", "error"),
    [
        (0, 2**63, UnrepresentableValue),
        (1, 2**31, UnrepresentableValue),
        (1, "1", WrongPythonType),
        (2, 7, WrongPythonType),
        (2, [], WrongPythonType),
        (3, "x", WrongPythonType),
        (4, Decimal("1e20"), UnrepresentableValue),
        (5, 1, WrongPythonType),
        (8, "abcd", UnrepresentableValue),
    ],
)
def test_what_it_refuses(place: int, value: Any, error: type[Exception]) -> None:
    row = [*ROWS[0][:place], value, *ROWS[0][place + 1 :]]
    with pytest.raises(error):
        RowEncoder(SCHEMA.columns, Dictionary()).words(row)


@pytest.mark.parametrize("row", [(), (1,), (1, 2, 3)])
def test_a_row_of_another_length(row: tuple[int, ...]) -> None:
    with pytest.raises(UnrepresentableValue):
        RowEncoder(SCHEMA.columns[:2], Dictionary()).words(row)


def test_a_column_that_takes_no_none() -> None:
    encoder = RowEncoder([ColumnDef("a", BIGINT, nullable=False), ColumnDef("b", BIGINT)], Dictionary())
    assert encoder.words((1, None)) == [1, NULL]
    with pytest.raises(UnrepresentableValue):
        encoder.words((None, 1))


def test_a_text_that_one_column_takes_and_the_other_does_not() -> None:
    columns = [ColumnDef("a", TEXT), ColumnDef("b", Type(Kind.VARCHAR, 2))]
    encoder = RowEncoder(columns, Dictionary())
    assert encoder.words(("long", "ab")) == [0, 1]
    with pytest.raises(UnrepresentableValue):
        encoder.words(("ab", "long"))


def test_more_texts_than_are_remembered() -> None:
    encoder = RowEncoder([ColumnDef("a", TEXT)], Dictionary())
    texts = [str(number) for number in range(MAX_CACHED_CODES + 10)]
    codes = [encoder.words((text,)) for text in texts]
    assert codes == [[number] for number in range(MAX_CACHED_CODES + 10)]
    assert [encoder.words((text,)) for text in texts] == codes
