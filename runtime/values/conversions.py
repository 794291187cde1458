"""One value of a type as a value of another: what a cast does to the parts of arrays, rows and JSON."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from kpg.runtime.types import JSONB, NUMERIC, Kind, Type, same_words
from kpg.runtime.values import numeric
from kpg.runtime.values.arrays import Array
from kpg.runtime.values.codec import codec_of
from kpg.runtime.values.jsons import Json

Convert = Callable[[Any], Any]


def between(source: Type, target: Type) -> Convert:
    """The function that converts a value, None for NULL; it raises ValueError or ArithmeticError."""
    convert = _between(source, target)
    return lambda value: None if value is None else convert(value)


def _between(source: Type, target: Type) -> Convert:
    if source.kind is Kind.ARRAY and target.kind is Kind.ARRAY:
        inner = between(source.parts[0], target.parts[0])
        return lambda value: Array(tuple(map(inner, value.items)), value.shape)
    if source.kind is Kind.RECORD and target.kind is Kind.RECORD:
        fields = tuple(map(between, source.parts, target.parts))
        return lambda value: tuple(field(one) for field, one in zip(fields, value, strict=True))
    if source.kind is Kind.JSONB and (target.is_numeric or target.kind is Kind.BOOLEAN):
        return _from_json(target)
    if source.is_numeric and target.is_numeric:
        return lambda value: _number(value, source, target)
    if source == target or (same_words(source, target) and not target.precision):
        return lambda value: value
    read, write = codec_of(target).parse, codec_of(source).show
    if target.is_text and target.precision:
        return lambda value: write(value)[: target.precision]
    return lambda value: read(write(value))


def _number(value: Any, source: Type, target: Type) -> Any:
    exact = value if isinstance(value, Decimal) else numeric.of_number(value, source, NUMERIC)
    return numeric.to_number(exact, target)


def _from_json(target: Type) -> Convert:
    """A number or a truth value out of JSON, of which ``null`` is NULL."""

    def convert(value: Json) -> Any:
        if value.value is None:
            return None
        if target.kind is Kind.BOOLEAN and isinstance(value.value, bool):
            return value.value
        if target.is_numeric and isinstance(value.value, Decimal):
            return numeric.to_number(value.value, target)
        raise ValueError(f"{codec_of(JSONB).show(value)} is no {target}")

    return convert
