"""Codecs: strings that stand for values are equal and in order as these are, and every way leads back."""

import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpg.runtime.functions.comparison import equality_key_encoder
from kpg.runtime.types import (
    BIGINT,
    BOOLEAN,
    BYTEA,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    JSONB,
    NUMERIC,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    Kind,
    Type,
    array,
    record,
)
from kpg.runtime.values import (
    Codec,
    UnrepresentableValue,
    WrongPythonType,
    arrays,
    codec_of,
    intervals,
    jsons,
    string_encoder_of,
)
from kpg.runtime.values.date_time import time_zone, to_local, zone_of_offset

WORDS = {
    BIGINT: st.integers(-(2**63) + 2, 2**63 - 1),
    BOOLEAN: st.booleans(),
    DATE: st.integers(-700_000, 2_900_000),
    TIME: st.integers(0, 86_399_999_999),
    TIMESTAMPTZ: st.integers(-60_000_000_000_000_000, 250_000_000_000_000_000),
    DOUBLE: st.floats(allow_nan=False).map(lambda value: value + 0.0),
    Type(Kind.ENUM, labels=("sad", "ok", "happy"), name="mood"): st.integers(0, 2),
    TEXT: st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
}
finite = st.decimals(allow_nan=False, allow_infinity=False, places=None).filter(
    lambda value: -500 < value.adjusted() < 500
)
numerics = finite | st.sampled_from([Decimal("Infinity"), Decimal("-Infinity"), Decimal(0), Decimal("-0.0")])


def plain(value: Any) -> Any:
    return value if not isinstance(value, Decimal) else value + 0


def test_a_time_of_python_with_a_zone_is_a_timetz() -> None:
    codec = codec_of(Type(Kind.TIMETZ))
    east = datetime.timezone(datetime.timedelta(hours=5, minutes=30))
    assert codec.show(codec.from_python(datetime.time(12, 30, 0, 5, tzinfo=east))) == "12:30:00.000005+05:30"
    with pytest.raises(WrongPythonType):
        codec.from_python(datetime.time(12, 30))


@pytest.mark.parametrize("type_", WORDS, ids=str)
@given(data=st.data())
def test_words_in_other_values_are_in_their_order(type_: Type, data: st.DataObject) -> None:
    codec = codec_of(type_)
    left, right = data.draw(WORDS[type_]), data.draw(WORDS[type_])
    assert (codec.encode(left) < codec.encode(right)) == (left < right)
    assert (codec.encode(left) == codec.encode(right)) == (left == right)
    assert codec.decode(codec.encode(left)) == left


@pytest.mark.parametrize("type_", [type_ for type_ in WORDS if type_ not in (DATE, TIMESTAMPTZ)], ids=str)
@given(data=st.data())
def test_words_go_to_text_and_python_and_back(type_: Type, data: st.DataObject) -> None:
    codec = codec_of(type_)
    value = data.draw(WORDS[type_])
    assert codec.parse(codec.show(value)) == value
    assert codec.from_python(codec.to_python(value)) == value


@given(numerics, numerics)
def test_numerics_are_in_their_order(left: Decimal, right: Decimal) -> None:
    codec, key = codec_of(NUMERIC), equality_key_encoder(NUMERIC)
    assert (key(codec.encode(left)) < key(codec.encode(right))) == (left < right)
    assert left == right or (codec.encode(left) < codec.encode(right)) == (left < right)
    assert (key(codec.encode(left)) == key(codec.encode(right))) == (left == right)
    assert codec.decode(codec.encode(left)) == left
    assert codec.parse(codec.show(left)) == left
    assert codec.from_python(codec.to_python(left)) == left


def test_nan_is_the_largest_numeric() -> None:
    codec = codec_of(NUMERIC)
    assert codec.encode(Decimal("NaN")) > codec.encode(Decimal("Infinity")) > codec.encode(Decimal("1e300"))
    assert codec.decode(codec.encode(Decimal("NaN"))).is_nan()


def test_a_numeric_with_a_scale_is_rounded_and_shows_it() -> None:
    codec = codec_of(Type(Kind.NUMERIC, 25, 3))
    assert codec.show(codec.parse("1.0005")) == "1.001"
    assert codec.show(codec.parse("-7")) == "-7.000"
    assert str(codec.to_python(codec.parse("2.5"))) == "2.500"
    with pytest.raises(ArithmeticError):
        codec.parse("1e22")
    assert codec.from_python(Decimal("1.0005")) == Decimal("1.001")
    with pytest.raises(UnrepresentableValue):
        codec.from_python(Decimal("9999999999999999999999.9995"))


@pytest.mark.parametrize("text", ["", "abc", "1.2.3", "1e", "--1", "1 2", "0xg", "-nan", "1_", "infinit"])
def test_what_is_no_numeric(text: str) -> None:
    with pytest.raises(ValueError):
        codec_of(NUMERIC).parse(text)


@pytest.mark.parametrize("value", [True, None, [1], b"1"])
def test_python_objects_that_are_no_numerics(value: object) -> None:
    with pytest.raises(WrongPythonType):
        string_encoder_of(NUMERIC)(value)


text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
integers = st.integers(-(10**6), 10**6)


def same_order(codec: Codec, left: Any, right: Any, before: bool, equal: bool) -> None:
    """The strings of two values are in their order, and lead back to them."""
    assert (codec.encode(left) < codec.encode(right)) == before
    assert (codec.encode(left) == codec.encode(right)) == equal
    assert codec.decode(codec.encode(left)) == left
    assert codec.parse(codec.show(left)) == left


def ranked(items: Any) -> list[tuple[bool, Any]]:
    """Elements as Postgres orders them: NULL is after all others."""
    return [(item is None, 0 if item is None else item) for item in items]


@given(st.lists(st.none() | integers, max_size=4), st.lists(st.none() | integers, max_size=4))
def test_arrays_of_numbers_are_in_order(left: list[int | None], right: list[int | None]) -> None:
    codec = codec_of(array(INTEGER))
    same_order(
        codec, arrays.array_of(left), arrays.array_of(right), ranked(left) < ranked(right), left == right
    )
    assert codec.from_python(codec.to_python(arrays.array_of(left))) == arrays.array_of(left)


@given(st.lists(st.none() | text, max_size=3), st.lists(st.none() | text, max_size=3))
def test_arrays_of_texts_are_in_order(left: list[str | None], right: list[str | None]) -> None:
    codec = codec_of(array(TEXT))
    before = [(null, "" if null else value) for null, value in ranked(left)] < [
        (null, "" if null else value) for null, value in ranked(right)
    ]
    same_order(codec, arrays.array_of(left), arrays.array_of(right), before, left == right)


def test_arrays_of_dimensions() -> None:
    codec = codec_of(array(INTEGER))
    square = codec.parse("{{1,2},{3,NULL}}")
    assert square == arrays.Array((1, 2, 3, None), (2, 2))
    assert codec.show(square) == "{{1,2},{3,NULL}}"
    assert codec.to_python(square) == [[1, 2], [3, None]]
    assert codec.decode(codec.encode(square)) == square
    assert codec.encode(codec.parse("{1,2,3,NULL}")) < codec.encode(square)


@pytest.mark.parametrize(
    "text", ["", "1,2", "{1,2", "{1,2}}", "{1,,2}", "{{1},{2,3}}", "{a}", '{"1}', "{1}x"]
)
def test_what_is_no_array(text: str) -> None:
    with pytest.raises((ValueError, ArithmeticError)):
        codec_of(array(INTEGER)).parse(text)


rows = st.tuples(st.none() | integers, st.none() | text)


@given(rows, rows)
def test_rows_are_in_order(left: tuple[Any, ...], right: tuple[Any, ...]) -> None:
    codec = codec_of(record([INTEGER, TEXT]))
    before = [(n, str(v) if i else v) for i, (n, v) in enumerate(ranked(left))] < [
        (n, str(v) if i else v) for i, (n, v) in enumerate(ranked(right))
    ]
    same_order(codec, left, right, before, left == right)


spans = st.builds(
    intervals.Interval, st.integers(-500, 500), st.integers(-500, 500), st.integers(-(10**13), 10**13)
)


@given(spans, spans)
def test_intervals_are_in_the_order_of_their_lengths(
    left: intervals.Interval, right: intervals.Interval
) -> None:
    codec = codec_of(INTERVAL)
    if intervals.duration(left) != intervals.duration(right):
        same_order(codec, left, right, intervals.duration(left) < intervals.duration(right), equal=False)
    assert codec.decode(codec.encode(left)) == left
    assert codec.parse(codec.show(left)) == left
    assert intervals.duration(codec.from_python(codec.to_python(left))) == intervals.duration(left)


@pytest.mark.parametrize(
    "text", ["", "1 fortnight", "abc", "1 day 2 days", "P", "P1", "1-13", "10:61", "ago"]
)
def test_what_is_no_interval(text: str) -> None:
    with pytest.raises((ValueError, ArithmeticError)):
        codec_of(INTERVAL).parse(text)


numbers = st.decimals(-1000, 1000, places=2) | st.integers(-5, 5).map(Decimal)
values = st.recursive(
    st.none() | st.booleans() | numbers | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3).map(jsons.sort_keys),
    max_leaves=6,
)


@given(values)
def test_jsonb_leads_back(value: Any) -> None:
    codec, json = codec_of(JSONB), jsons.Json(value)
    assert codec.decode(codec.encode(json)) == json
    assert codec.parse(codec.show(json)) == json
    assert codec.encode(codec.from_python(codec.to_python(json))) == codec.encode(json)


def test_jsonb_is_in_the_order_of_postgres() -> None:
    codec = codec_of(JSONB)
    texts = ["[]", "null", '"a"', '"b"', "-1", "2.50", "10", "false", "true", "[1]", "[2]", "[1, 2]", "{}"]
    texts += ['{"a": 1}', '{"a": 2}', '{"b": 0}', '{"a": 1, "b": 1}']
    strings = [codec.encode(codec.parse(text)) for text in texts]
    assert strings == sorted(strings) and len(set(strings)) == len(strings)


@given(st.binary(max_size=6), st.binary(max_size=6))
def test_bytes_are_in_order(left: bytes, right: bytes) -> None:
    codec = codec_of(BYTEA)
    same_order(codec, left, right, left < right, left == right)


def test_char_has_no_blanks_but_where_it_is_shown() -> None:
    codec = codec_of(Type(Kind.CHAR, 4))
    assert codec.from_python("ab  ") == "ab" and codec.to_python("ab") == "ab  "
    with pytest.raises(UnrepresentableValue):
        codec.from_python("abcde")
    assert codec.from_python("abcd   ") == "abcd"


def test_zones_by_name_and_by_offset() -> None:
    instant = codec_of(TIMESTAMPTZ).parse("2020-07-01 12:00 UTC")
    assert to_local(instant, time_zone("America/New_York")) == codec_of(TIMESTAMP).parse("2020-07-01 08:00")
    assert to_local(instant, time_zone("+03")) == codec_of(TIMESTAMP).parse("2020-07-01 09:00")
    assert to_local(instant, zone_of_offset("+03")) == codec_of(TIMESTAMP).parse("2020-07-01 15:00")
    with pytest.raises(ValueError):
        time_zone("Nowhere/Land")
