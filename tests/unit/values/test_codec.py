"""Codecs: strings that stand for values are equal and in order as these are, and every way leads back."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpg.runtime.types import BIGINT, BOOLEAN, DATE, DOUBLE, NUMERIC, TEXT, TIME, TIMESTAMPTZ, Kind, Type
from kpg.runtime.values import Mistyped, Unfit, codec_of, speller_of

WORDS = {
    BIGINT: st.integers(-(2**63) + 2, 2**63 - 1),
    BOOLEAN: st.booleans(),
    DATE: st.integers(-700_000, 2_900_000),
    TIME: st.integers(0, 86_399_999_999),
    TIMESTAMPTZ: st.integers(-60_000_000_000_000_000, 250_000_000_000_000_000),
    DOUBLE: st.floats(allow_nan=False).map(lambda value: value + 0.0),
    Type(Kind.ENUM, labels=("sad", "ok", "happy"), name="mood"): st.integers(0, 2),
    TEXT: st.text(st.characters(exclude_categories=["Cs"])),
}
finite = st.decimals(allow_nan=False, allow_infinity=False, places=None).filter(
    lambda value: -500 < value.adjusted() < 500
)
numerics = finite | st.sampled_from([Decimal("Infinity"), Decimal("-Infinity"), Decimal(0), Decimal("-0.0")])


def plain(value: Any) -> Any:
    return value if not isinstance(value, Decimal) else value + 0


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
    codec = codec_of(NUMERIC)
    assert (codec.encode(left) < codec.encode(right)) == (left < right)
    assert (codec.encode(left) == codec.encode(right)) == (left == right)
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
    with pytest.raises(Unfit):
        codec.from_python(Decimal("1.0005"))


@pytest.mark.parametrize("text", ["", "abc", "1.2.3", "1e", "--1", "1 2", "0xg", "-nan", "1_", "infinit"])
def test_what_is_no_numeric(text: str) -> None:
    with pytest.raises(ValueError):
        codec_of(NUMERIC).parse(text)


@pytest.mark.parametrize("value", [True, None, [1], b"1"])
def test_python_objects_that_are_no_numerics(value: object) -> None:
    with pytest.raises(Mistyped):
        speller_of(NUMERIC)(value)
