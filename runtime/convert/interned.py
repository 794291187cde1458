"""Interned values that are no text, in and out of Arrow: one at a time, by their Python objects."""

import datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from kpg.runtime.types import Kind, Type

MOST_DIGITS: Final = 38
"""Of decimal128; decimal256 has twice as many."""


def accepts(type_: Type, given: pa.DataType) -> bool:
    """Whether a column of the type can be read from an Arrow array of the given type, values permitting."""
    text = pa.types.is_string(given) or pa.types.is_large_string(given) or pa.types.is_string_view(given)
    binary = pa.types.is_binary(given) or pa.types.is_large_binary(given)
    match type_.kind:
        case Kind.BYTEA:
            return bool(text or binary or pa.types.is_fixed_size_binary(given))
        case Kind.INTERVAL:
            return bool(text or pa.types.is_duration(given) or pa.types.is_interval(given))
        case Kind.ARRAY:
            return bool(text or pa.types.is_list(given) or pa.types.is_large_list(given))
        case Kind.RECORD:
            return bool(text or pa.types.is_struct(given))
        case _:
            return bool(text)


def decimals(type_: Type) -> pa.DataType:
    """The Arrow type of NUMERIC(precision, scale); text without a precision, or with one too large."""
    if not type_.precision or type_.precision > 2 * MOST_DIGITS:
        return pa.string()
    wide = type_.precision > MOST_DIGITS
    return (pa.decimal256 if wide else pa.decimal128)(type_.precision, type_.scale)


def made(values: list[Any], type_: Type, target: pa.DataType) -> pa.Array:
    """Python objects of rows as an Arrow array of a type.

    Numbers of any digits are decimals if one type of those has them all, else text; arrays of more dimensions
    nest deeper.
    """
    if type_.kind is Kind.NUMERIC and pa.types.is_string(target):
        return _numbers(values)
    if type_.kind is Kind.ARRAY:
        target = _deep(values, target)
    return pa.array([None if value is None else plain(value, type_) for value in values], target)


def _numbers(values: list[Any]) -> pa.Array:
    known = [value for value in values if value is not None]
    if known and all(value.is_finite() for value in known):
        try:
            return pa.array(values)
        except pa.ArrowInvalid:
            pass  # too many digits
    return pa.array([None if value is None else _digits(value) for value in values], pa.string())


def _digits(value: Decimal) -> str:
    return f"{value:f}" if value.is_finite() else str(value)


def _deep(values: list[Any], target: pa.DataType) -> pa.DataType:
    """The list type as deep as the arrays are."""
    depth = max((_depth(value) for value in values if value is not None), default=1)
    for _ in range(depth - 1):
        target = pa.list_(target)
    return target


def _depth(value: Any) -> int:
    if not isinstance(value, list):
        return 0
    return 1 + max((_depth(item) for item in value[:1]), default=0)


def plain(value: Any, type_: Type) -> Any:
    """The object as Arrow takes it."""
    match type_.kind:
        case Kind.ARRAY:
            (element,) = type_.parts
            return [
                None if item is None else plain(item, type_ if isinstance(item, list) else element)
                for item in value
            ]
        case Kind.RECORD:
            names = names_of(type_)
            fields = zip(names, value, type_.parts, strict=True)
            return {name: None if item is None else plain(item, part) for name, item, part in fields}
        case Kind.UUID:
            return str(value)
        case Kind.NUMERIC if not type_.precision:
            return _digits(value)
        case Kind.INTERVAL if isinstance(value, datetime.timedelta):
            return pa.MonthDayNano((0, value.days, (value.seconds * 1_000_000 + value.microseconds) * 1000))
        case _:
            return value


def names_of(type_: Type) -> list[str]:
    """The names of a row's fields, no two the same."""
    if type_.labels and len(set(type_.labels)) == len(type_.labels):
        return list(type_.labels)
    return [f"f{place + 1}" for place in range(len(type_.parts))]
