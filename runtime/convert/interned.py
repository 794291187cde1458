"""Interned values that are no text, in and out of Arrow: one at a time, by their Python objects."""

import datetime
import uuid
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
            return bool(binary or pa.types.is_fixed_size_binary(given))
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


def made(values: list[Any], target: pa.DataType) -> pa.Array:
    """Python objects of rows as an Arrow array of a type.

    Numbers of any digits are decimals if all fit one type of those; arrays of more dimensions nest deeper.
    """
    try:
        return pa.array([plain(value) for value in values], target)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        if not pa.types.is_list(target):
            raise
        return pa.array([plain(value) for value in values])


def plain(value: Any) -> Any:
    """The object as Arrow takes it."""
    match value:
        case pa.MonthDayNano():
            return value
        case list() | tuple():
            return [plain(item) for item in value]
        case uuid.UUID():
            return str(value)
        case Decimal():
            return value
        case datetime.timedelta():
            return pa.MonthDayNano((0, value.days, (value.seconds * 1_000_000 + value.microseconds) * 1000))
        case _:
            return value
