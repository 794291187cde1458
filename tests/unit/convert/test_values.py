"""Python values to words and back."""

import datetime
import math
from decimal import Decimal

import numpy as np
import pytest

from kpg.runtime.convert.python_values import encode_rows, show_word, to_python
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, ProgrammingError
from kpg.runtime.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    ERROR,
    INTEGER,
    INTERVAL_DAY,
    INTERVAL_MONTH,
    NULL,
    REAL,
    SMALLINT,
    TEXT,
    TIMESTAMP,
    UNKNOWN,
    ColumnDef,
    Kind,
    Schema,
    Type,
    decimal,
    float_to_word,
)
from kpg.runtime.values import codec_of

VARCHAR3 = Type(Kind.VARCHAR, 3)


def one(value, type_):
    return encode_rows([(value,)], Schema((ColumnDef("x", type_),)), Dictionary()).tolist()


@pytest.mark.parametrize(
    ("value", "type_", "word"),
    [
        (True, BOOLEAN, 1),
        (np.bool_(False), BOOLEAN, 0),
        (7, SMALLINT, 7),
        (np.int8(7), INTEGER, 7),
        (3.0, INTEGER, 3),
        (Decimal("4.00"), BIGINT, 4),
        (2**63 - 1, BIGINT, 2**63 - 1),
        (Decimal("1.1"), decimal(9, 2), 110),
        (Decimal("1.10000"), decimal(9, 2), 110),
        (-3, decimal(9, 2), -300),
        ("2.50", decimal(9, 2), 250),
        ("-1e2", decimal(9, 2), -10_000),
        (0.1, decimal(9, 2), 10),
        (1.5, DOUBLE, float_to_word(1.5)),
        (-0.0, DOUBLE, 0),
        (2, DOUBLE, float_to_word(2.0)),
        (Decimal("0.5"), REAL, float_to_word(0.5)),
        (0.1, REAL, float_to_word(float(np.float32(0.1)))),
        (math.inf, REAL, float_to_word(math.inf)),
        (datetime.date(1970, 1, 2), DATE, 1),
        ("1970-01-02", DATE, 1),
        ("1970-01-01 00:00:01.000005", TIMESTAMP, 1_000_005),
        ("1970-01-02", TIMESTAMP, 86_400_000_000),
        (datetime.datetime(1970, 1, 2), DATE, 1),
        (datetime.datetime(1970, 1, 1, 0, 0, 1, 5), TIMESTAMP, 1_000_005),
        (datetime.datetime(1969, 12, 31, 23, tzinfo=datetime.UTC), TIMESTAMP, -3_600_000_000),
        (datetime.date(1970, 1, 2), TIMESTAMP, 86_400_000_000),
        (datetime.timedelta(seconds=-1), INTERVAL_DAY, -1_000_000),
        (14, INTERVAL_MONTH, 14),
        ("äöü", VARCHAR3, 0),
        (None, DATE, NULL),
        (None, TEXT, NULL),
        (None, UNKNOWN, NULL),
    ],
)
def test_values_that_fit(value, type_, word):
    assert one(value, type_) == [[word]]


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (32768, SMALLINT),
        (2**31, INTEGER),
        (NULL, BIGINT),
        (ERROR, BIGINT),
        (2**63, BIGINT),
        (1.5, INTEGER),
        (math.nan, INTEGER),
        (Decimal("NaN"), INTEGER),
        (Decimal("0.5"), BIGINT),
        (Decimal("9999999.995"), decimal(9, 2)),
        (Decimal("Infinity"), decimal(9, 2)),
        (Decimal("1e30"), decimal(18, 2)),
        (Decimal("1e999999"), decimal(18, 2)),
        (100, decimal(4, 2)),
        (9.995, decimal(3, 2)),
        ("9.995", decimal(3, 2)),
        (2.0**53 + 2, decimal(18, 2)),
        ("two", decimal(9, 2)),
        ("tomorrow", DATE),
        ("1970-02-30", DATE),
        ("noon", TIMESTAMP),
        (math.nan, decimal(9, 2)),
        (1e300, decimal(9, 2)),
        (1e300, REAL),
        (10**400, DOUBLE),
        (datetime.datetime(1970, 1, 2, 1), DATE),
        (datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=1))), TIMESTAMP),
        ("abcd", VARCHAR3),
        ("\ud800", TEXT),
    ],
)
def test_values_that_do_not_fit(value, type_):
    with pytest.raises(DataError, match=r"row 1, column x: value .* does not fit") as caught:
        one(value, type_)
    assert caught.value.message.endswith(str(type_))


@pytest.mark.parametrize(
    ("value", "type_", "expected"),
    [
        (1, BOOLEAN, "a bool"),
        (True, INTEGER, "an int"),
        ("1", INTEGER, "an int"),
        (b"1", decimal(9, 2), "a Decimal, an int, or a text"),
        (True, DOUBLE, "a float"),
        ("x", REAL, "a float"),
        (5, DATE, "a datetime.date, or a text"),
        (5, TIMESTAMP, "a datetime.datetime without time zone"),
        (5, INTERVAL_DAY, "a datetime.timedelta"),
        ("5", INTERVAL_MONTH, r"a number of months \(int\)"),
        (b"x", TEXT, "a str"),
        (1, UNKNOWN, "None"),
    ],
)
def test_values_of_a_wrong_type(value, type_, expected):
    with pytest.raises(ProgrammingError, match=rf"row 1, column x: value .* expected [\s\S]*give {expected}"):
        one(value, type_)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((Decimal("2.675"), 268), (Decimal("-2.675"), -268), (Decimal("2.6749999"), 267)),
        *((2.675, 268), (0.1 + 0.2, 30), (-1.005, -101), (np.float64(0.125), 13)),
        *(("2.675", 268), (" 1e-9", 0), ("0x1F", 3100)),
    ],
)
def test_numbers_are_rounded_to_the_scale_as_sql_does(value, expected):
    assert one(value, decimal(10, 2)) == [[expected]]
    assert codec_of(Type(Kind.NUMERIC, 25, 2)).from_python(value) == Decimal(expected).scaleb(-2)


def test_errors_name_the_row():
    schema = Schema((ColumnDef("a", INTEGER), ColumnDef("b", decimal(3, 1))))
    with pytest.raises(
        DataError, match=r"row 3, column b: value Decimal\('99.95'\) does not fit DECIMAL\(3, 1\)"
    ):
        encode_rows([(1, 1), (2, None), (3, Decimal("99.95"))], schema, Dictionary())


def test_many_texts_share_codes():
    schema = Schema((ColumnDef("s", TEXT),))
    dictionary = Dictionary()
    rows = [(text,) for text in ["a", "b", None, "a", "c", "b", None]]
    assert encode_rows(rows, schema, dictionary).tolist() == [[0, 1, NULL, 0, 2, 1, NULL]]


@pytest.mark.parametrize(
    ("word", "type_", "value", "shown"),
    [
        (NULL, BIGINT, None, "NULL"),
        (1, BOOLEAN, True, "true"),
        (0, BOOLEAN, False, "false"),
        (-5, INTEGER, -5, "-5"),
        (-5, decimal(9, 2), Decimal("-0.05"), "-0.05"),
        (float_to_word(-2.5), DOUBLE, -2.5, "-2.5"),
        (1, DATE, datetime.date(1970, 1, 2), "1970-01-02"),
        (1_000_001, TIMESTAMP, datetime.datetime(1970, 1, 1, 0, 0, 1, 1), "1970-01-01 00:00:01.000001"),
        (-1_000_000, INTERVAL_DAY, datetime.timedelta(seconds=-1), "-1 day, 23:59:59"),
        (14, INTERVAL_MONTH, 14, "14"),
    ],
)
def test_back_to_python(word, type_, value, shown):
    assert to_python(word, type_, Dictionary()) == value
    assert show_word(word, type_, Dictionary()) == shown


def test_text_is_shown_in_quotes():
    dictionary = Dictionary()
    assert show_word(dictionary.code("it's"), TEXT, dictionary) == "'it's'"


@pytest.mark.parametrize(
    ("word", "type_", "shown"),
    [
        (10**8, DATE, "275760-09-13"),
        (-(10**6), DATE, "0769-02-04 BC"),
        (2**62, TIMESTAMP, "148108-07-06 14:00:27.387904"),
        (2**63 - 3, TIMESTAMP, "infinity"),
        (2**63 - 1, INTERVAL_DAY, ""),
    ],
)
def test_times_beyond_python(word, type_, shown):
    if type_ is INTERVAL_DAY:
        assert to_python(word, type_, Dictionary()) == datetime.timedelta(microseconds=word)
        return
    assert str(to_python(word, type_, Dictionary())) == shown


def test_the_error_word_has_no_value():
    with pytest.raises(DataError, match="the result of a failed operation"):
        to_python(ERROR, BIGINT, Dictionary())
