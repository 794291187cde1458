"""Words as lists of Python values, against Arrow and against the values made one by one."""

import datetime
from decimal import Decimal

import numpy as np
import pytest

from kpg.runtime.convert.arrow import decode_array
from kpg.runtime.convert.python_values import (
    SMALL_VALUE_COUNT,
    float_words,
    to_list,
    to_python,
    to_rows,
    word_floats,
)
from kpg.runtime.dictionary import FEW_CODES, MANY_CODES, Dictionary
from kpg.runtime.errors import DataError
from kpg.runtime.types import BIGINT, BOOLEAN, DATE, DOUBLE, ERROR, NULL, TEXT, Kind, Type, decimal

FIRST_DAY, LAST_DAY = -719_162, 2_932_896
DAY = 86_400_000_000
RANGES: dict[Type, tuple[int, int]] = {
    BOOLEAN: (0, 1),
    Type(Kind.SMALLINT): (-(2**15), 2**15 - 1),
    Type(Kind.INTEGER): (-(2**31), 2**31 - 1),
    BIGINT: (ERROR + 1, 2**63 - 1),
    decimal(18, 0): (1 - 10**18, 10**18 - 1),
    decimal(18, 18): (1 - 10**18, 10**18 - 1),
    decimal(9, 2): (1 - 10**9, 10**9 - 1),
    Type(Kind.REAL): (-0x47EFFFFFE0000000, 0x47EFFFFFE0000000),
    DOUBLE: (-0x7FF0000000000001, 0x7FF0000000000000),
    DATE: (FIRST_DAY, LAST_DAY),
    Type(Kind.TIMESTAMP): (FIRST_DAY * DAY, (LAST_DAY + 1) * DAY - 1),
    Type(Kind.INTERVAL_DAY): (ERROR + 1, 2**63 - 1),
}


def words(type_: Type, count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Both ends of the type's range, values between them, and NULL; a REAL's are those that 32 bits hold."""
    low, high = RANGES[type_]
    random = np.random.default_rng(count)
    drawn = random.integers(low, high, count, endpoint=True)
    drawn[:3] = low, high, NULL
    drawn[random.random(count) < 0.1] = NULL
    if type_.kind is Kind.REAL:
        rounded = word_floats(np.where(drawn == NULL, 0, drawn)).astype(np.float32)
        drawn = np.where(drawn == NULL, NULL, float_words(rounded.astype(np.float64)))
    return drawn


@pytest.mark.parametrize("count", [3, SMALL_VALUE_COUNT, SMALL_VALUE_COUNT + 1, 300])
@pytest.mark.parametrize("type_", RANGES, ids=str)
def test_values_are_those_of_arrow_and_of_one_by_one(type_: Type, count: int) -> None:
    given = words(type_, count)
    dictionary = Dictionary()
    found = to_list(given, type_, dictionary)
    assert list(map(repr, found)) == [repr(to_python(int(word), type_, dictionary)) for word in given]
    assert found == decode_array(given, type_, dictionary).to_pylist()


@pytest.mark.parametrize("count", [0, 1, FEW_CODES, FEW_CODES + 1, MANY_CODES + 1])
@pytest.mark.parametrize("letter", ["a", "日"])
def test_texts(count: int, letter: str) -> None:
    dictionary = Dictionary()
    texts = [None if index % 7 == 6 else letter * (index % 5) + str(index % 100) for index in range(count)]
    assert to_list(dictionary.intern(texts), TEXT, dictionary) == texts


def test_nan_and_infinity() -> None:
    given = np.array([0x7FF8000000000000, 0x7FF0000000000000] * SMALL_VALUE_COUNT, np.int64)
    assert list(map(str, to_list(given, DOUBLE, Dictionary()))) == ["nan", "inf"] * SMALL_VALUE_COUNT


def test_months_are_numbers_and_null_has_no_value() -> None:
    months = Type(Kind.INTERVAL_MONTH)
    assert to_list(np.array([-1, NULL, 14]), months, Dictionary()) == [-1, None, 14]
    assert to_list(np.full(20, NULL), Type(Kind.NULL), Dictionary()) == [None] * 20


def test_columns_of_a_larger_array_are_read_in_place() -> None:
    table = np.arange(40).reshape(20, 2).T
    rows = to_rows(table[:, 3:5], [DATE, decimal(5, 1)], Dictionary())
    assert rows == [
        (datetime.date(1970, 1, 7), Decimal("0.7")),
        (datetime.date(1970, 1, 9), Decimal("0.9")),
    ]
    assert to_list(table[0], DATE, Dictionary())[-1] == datetime.date(1970, 2, 8)


def test_rows_without_columns() -> None:
    assert to_rows(np.empty((0, 3), np.int64), [], Dictionary()) == [(), (), ()]


@pytest.mark.parametrize("count", [1, 20])
@pytest.mark.parametrize("word", [FIRST_DAY - 1, LAST_DAY + 1])
def test_dates_beyond_python(word: int, count: int) -> None:
    given = np.zeros(count, np.int64)
    given[-1] = word
    found = to_list(given, DATE, Dictionary())[-1]
    assert found == (datetime.date.max if word > 0 else datetime.date.min)
    assert str(found) == ("10000-01-01" if word > 0 else "0001-12-31 BC")


@pytest.mark.parametrize("count", [1, 20])
@pytest.mark.parametrize("type_", [BIGINT, DOUBLE, DATE, BOOLEAN], ids=str)
def test_failed_operation(type_: Type, count: int) -> None:
    given = np.zeros(count, np.int64)
    given[-1] = ERROR
    with pytest.raises(DataError, match="failed operation"):
        to_list(given, type_, Dictionary())
