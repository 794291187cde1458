"""One Arrow array to words, and words to one Arrow array, vectorised, for every type.

Integers, floats and decimals convert into each other by value: exactly, or not at all. Only to the scale
of a NUMERIC they are rounded, half away from zero, as SQL does.
"""

import decimal
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kpg.runtime.convert import interned
from kpg.runtime.convert.floats import float_words, word_floats
from kpg.runtime.convert.lists import to_list
from kpg.runtime.convert.texts import UnfitAt, check_length, padded, without_blanks
from kpg.runtime.convert.values import encode_values
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, InternalError, ProgrammingError, no_text
from kpg.runtime.types import (
    EXACT_KINDS,
    MAX_WORD,
    MIN_WORD,
    NULL,
    SPELLED_KINDS,
    TEXT_KINDS,
    ColumnDef,
    Kind,
    Type,
)
from kpg.runtime.values.words import EXACT_FLOAT, INTEGER_LIMITS, WIDE, decimal_of_float

Words = NDArray[np.int64]
Mask = NDArray[np.bool_]

MICROSECONDS: Final = {"s": 1_000_000, "ms": 1000, "us": 1}
DAY_MILLISECONDS: Final = 86_400_000
DAY_MICROSECONDS: Final = 86_400_000_000
SORTED_KINDS: Final = EXACT_KINDS | {Kind.DATE, Kind.TIMESTAMP}
"""Whose words are in the order of their values, which is that of Arrow and of Spark, too."""
UTC: Final = frozenset({"UTC", "Etc/UTC", "+00:00", "Z", "GMT"})
"""The time zones whose timestamps are taken as they are."""
ARROW_TYPES: Final = {
    Kind.NULL: pa.null(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.SMALLINT: pa.int16(),
    Kind.INTEGER: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.ROWID: pa.int64(),
    Kind.REAL: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us"),
    Kind.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
    Kind.TIME: pa.time64("us"),
    Kind.INTERVAL: pa.month_day_nano_interval(),
    Kind.INTERVAL_MONTH: pa.month_day_nano_interval(),
    Kind.INTERVAL_DAY: pa.duration("us"),
    Kind.BYTEA: pa.binary(),
    **dict.fromkeys(
        (*TEXT_KINDS, *SPELLED_KINDS, Kind.ENUM, Kind.TID, Kind.JSON, Kind.JSONB, Kind.UUID),
        pa.string(),
    ),
}
"""In which values are handed out, of the types of which that depends on nothing else."""
MONTH_DAY_NANO: Final = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])


def accepts(type_: Type, given: pa.DataType) -> bool:
    """Whether a column of the type can be read from an Arrow array of the given type, values permitting."""
    if pa.types.is_null(given):
        return True
    if pa.types.is_dictionary(given):
        return accepts(type_, given.value_type)
    if type_.kind in SPELLED_KINDS:
        return is_text(given)
    match type_.kind:
        case Kind.BOOLEAN:
            return bool(pa.types.is_boolean(given))
        case Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT | Kind.DECIMAL | Kind.REAL | Kind.DOUBLE:
            return bool(
                pa.types.is_integer(given) or pa.types.is_floating(given) or pa.types.is_decimal(given)
            )
        case Kind.DATE | Kind.TIMESTAMP:
            utc = not pa.types.is_timestamp(given) or given.tz is None or given.tz in UTC
            return is_text(given) or bool(utc and (pa.types.is_date(given) or pa.types.is_timestamp(given)))
        case Kind.INTERVAL_MONTH:
            return bool(pa.types.is_interval(given))
        case Kind.INTERVAL_DAY:
            return bool(pa.types.is_duration(given) or pa.types.is_interval(given))
        case Kind.TIMESTAMPTZ:
            return bool(pa.types.is_date(given) or pa.types.is_timestamp(given) or is_text(given))
        case Kind.TIME:
            return bool(pa.types.is_time(given) or is_text(given))
        case Kind.CHAR | Kind.VARCHAR | Kind.ENUM | Kind.TID:
            return is_text(given)
        case Kind.NUMERIC:
            number = pa.types.is_integer(given) or pa.types.is_floating(given) or pa.types.is_decimal(given)
            return bool(number or is_text(given))
        case Kind.INTERVAL | Kind.ARRAY | Kind.JSON | Kind.JSONB | Kind.UUID | Kind.BYTEA | Kind.RECORD:
            return interned.accepts(type_, given)
        case Kind.NULL:
            return False
        case Kind.ROWID:
            return bool(pa.types.is_integer(given))
        case kind:
            raise InternalError(f"{kind.value} is read from no Arrow type")


def is_text(given: pa.DataType) -> bool:
    """Whether an Arrow type is one of the string types."""
    return bool(
        pa.types.is_string(given) or pa.types.is_large_string(given) or pa.types.is_string_view(given)
    )


def encode_array(array: pa.Array, type_: Type, dictionary: Dictionary, out: Words) -> None:
    """Write the words of an array of an accepted type to ``out[n]``.

    Raises UnfitAt for the first value that does not fit.
    """
    if pa.types.is_null(array.type):
        out[:] = NULL
        return
    if type_.is_text:
        if type_.kind is Kind.CHAR:
            array = without_blanks(array)
        check_length(array, type_)
        _refuse_zeros(array)
        out[:] = dictionary.intern_arrow(array)
        return
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if type_.is_interned or type_.kind in (Kind.ENUM, Kind.TID, Kind.TIME) or is_text(array.type):
        out[:] = _one_by_one(array, type_, dictionary)
        return
    null = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    out[:] = _converter(type_.kind)(array, null, type_)
    if null is not None:
        out[null] = NULL


def _refuse_zeros(array: pa.Array) -> None:
    """DataError if a text has a zero byte."""
    texts = array.dictionary if pa.types.is_dictionary(array.type) else array
    if pa.types.is_string_view(texts.type):
        texts = texts.cast(pa.large_string())
    data = texts.buffers()[2] if len(texts) else None
    if data is None or np.frombuffer(data, np.uint8).all():
        return
    if pc.any(pc.match_substring(texts, "\0")).as_py():  # not in what stands around these
        raise no_text()


def _one_by_one(array: pa.Array, type_: Type, dictionary: Dictionary) -> Words | list[int]:
    """The words of the Python objects that the array has."""
    column = ColumnDef("", type_)
    values = array.to_pylist()
    try:
        return encode_values(values, column, dictionary)
    except (DataError, ProgrammingError):
        for position, value in enumerate(values):
            try:
                encode_values([value], column, dictionary)
            except (DataError, ProgrammingError):
                raise UnfitAt(position) from None
        raise


def _converter(kind: Kind) -> Callable[[pa.Array, Mask | None, Type], NDArray[Any]]:
    match kind:
        case Kind.BOOLEAN:
            return _booleans
        case Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT | Kind.ROWID:
            return _integers
        case Kind.DECIMAL:
            return _decimals
        case Kind.REAL | Kind.DOUBLE:
            return _floats
        case Kind.DATE:
            return _dates
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return _timestamps
        case Kind.INTERVAL_MONTH | Kind.INTERVAL_DAY:
            return _intervals
        case _:
            raise AssertionError(f"{kind.value} has no converter")


def _require(fits: NDArray[np.bool_]) -> None:
    if not fits.all():
        raise UnfitAt(int(np.argmin(fits)))


def _raw(array: pa.Array, null: Mask | None, dtype: str) -> NDArray[Any]:
    """The values buffer of a fixed-width array, zero where null."""
    kind = np.dtype(dtype)
    _, data = array.buffers()
    size = (
        len(array)
        if kind.itemsize * 8 == array.type.bit_width
        else len(array) * (array.type.bit_width // 8 // kind.itemsize)
    )
    skip = array.offset * array.type.bit_width // 8
    values = np.frombuffer(data, kind, size, skip) if data is not None else np.zeros(size, kind)
    if null is None:
        return values
    per_value = size // max(1, len(array))
    return np.where(np.repeat(null, per_value) if per_value > 1 else null, kind.type(0), values)


def _numbers(array: pa.Array, null: Mask | None) -> NDArray[Any]:
    return _raw(array, null, np.dtype(array.type.to_pandas_dtype()).str)


def _booleans(array: pa.Array, null: Mask | None, type_: Type) -> NDArray[Any]:
    return np.asarray(array.cast(pa.int8()).fill_null(0).to_numpy(zero_copy_only=False))


def _integers(array: pa.Array, null: Mask | None, type_: Type) -> NDArray[Any]:
    low, high = INTEGER_LIMITS.get(type_.kind, (MIN_WORD, MAX_WORD))
    if pa.types.is_decimal(array.type):
        return _rescaled(array, null, 0, low, high)
    values = _numbers(array, null)
    if pa.types.is_floating(array.type):
        whole = np.trunc(values) == values
        _require(whole & (values >= -(2.0**63)) & (values < 2.0**63))
        values = values.astype(np.int64)
    return _in_range(values, low, high)


def _in_range(values: NDArray[Any], low: int, high: int) -> NDArray[Any]:
    """The integers, if none is below ``low`` or above ``high``."""
    limits = np.iinfo(values.dtype)
    if values.size and (
        (limits.min < low and values.min() < low) or (limits.max > high and values.max() > high)
    ):
        above = values > min(high, limits.max)
        raise UnfitAt(int(np.argmax((values < max(low, limits.min)) | above)))
    return values


def _decimals(array: pa.Array, null: Mask | None, type_: Type) -> NDArray[Any]:
    limit = 10**type_.precision - 1
    if pa.types.is_decimal(array.type):
        try:
            return _rescaled(array, null, type_.scale, -limit, limit)
        except UnfitAt:
            return _rescaled(_rounded(array, type_.scale), null, type_.scale, -limit, limit)
    values = _numbers(array, null)
    factor = 10**type_.scale
    if pa.types.is_floating(array.type):
        values = values.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = np.rint(values * float(factor))
            _require(np.abs(scaled) <= EXACT_FLOAT)
            inexact = scaled / float(factor) != values
        words = scaled.astype(np.int64)
        if inexact.any():
            words[inexact] = [decimal_of_float(value, type_.scale) for value in values[inexact].tolist()]
        _require(np.abs(words) <= limit)
        return words
    bound = limit // factor
    return _in_range(values, -bound, bound).astype(np.int64) * np.int64(factor)


def _rounded(array: pa.Array, scale: int) -> pa.Array:
    """A decimal array with at most ``scale`` digits behind the point, half away from zero."""
    if array.type.scale <= scale:
        return array
    wide = array.cast(pa.decimal256(76, array.type.scale))
    return pc.round(wide, scale, "half_towards_infinity").cast(pa.decimal256(76, scale))


def _rescaled(array: pa.Array, null: Mask | None, scale: int, low: int, high: int) -> Words:
    """The unscaled integers of a decimal array at another scale, if they are exact and in ``low .. high``."""
    if array.type.bit_width < 64:
        array = array.cast(pa.decimal64(18, array.type.scale))
    limbs = _raw(array, null, "<i8").reshape(len(array), -1)
    words = limbs[:, 0]
    small = (limbs[:, 1:] == (words >> 63)[:, None]).all(axis=1)
    shift = scale - array.type.scale
    if not small.all():
        return _rescaled_slowly(array, scale, low, high)
    if shift >= 0:
        factor = 10**shift
        words = _in_range(words, -(-low // factor), high // factor)
        return words * np.int64(factor) if factor > 1 else words
    if -shift > 18:
        return _rescaled_slowly(array, scale, low, high)
    quotient = words // np.int64(10**-shift)
    _require(quotient * np.int64(10**-shift) == words)
    return _in_range(quotient, low, high)


def _rescaled_slowly(array: pa.Array, scale: int, low: int, high: int) -> Words:
    """As :func:`_rescaled` for arrays that hold values beyond 64 bits, one value at a time."""
    out = np.zeros(len(array), np.int64)
    for position, value in enumerate(array):
        number: decimal.Decimal | None = value.as_py()
        if number is not None:
            scaled = number.scaleb(scale, WIDE)
            if scaled != int(scaled) or not low <= int(scaled) <= high:
                raise UnfitAt(position)
            out[position] = int(scaled)
    return out


def _floats(array: pa.Array, null: Mask | None, type_: Type) -> NDArray[Any]:
    if pa.types.is_decimal(array.type):
        array = array.cast(pa.float64())
    values = _numbers(array, null).astype(np.float64)
    if type_.kind is Kind.REAL:
        with np.errstate(over="ignore"):
            rounded = values.astype(np.float32).astype(np.float64)
        _require(np.isinf(rounded) == np.isinf(values))
        values = rounded
    return float_words(values)


def _dates(array: pa.Array, null: Mask | None, type_: Type) -> NDArray[Any]:
    if pa.types.is_date32(array.type):
        return _raw(array, null, "<i4")
    values = _raw(array, null, "<i8")
    per_day = DAY_MILLISECONDS
    if pa.types.is_timestamp(array.type):
        per_day = {"s": 86_400, "ms": DAY_MILLISECONDS, "us": DAY_MICROSECONDS}.get(
            array.type.unit, 1000 * DAY_MICROSECONDS
        )
    days = values // per_day
    _require(days * per_day == values)
    return days


def _timestamps(array: pa.Array, null: Mask | None, type_: Type) -> NDArray[Any]:
    if pa.types.is_date32(array.type):
        return _raw(array, null, "<i4").astype(np.int64) * DAY_MICROSECONDS
    unit = "ms" if pa.types.is_date64(array.type) else array.type.unit
    return _microseconds(_raw(array, null, "<i8"), unit)


def _microseconds(values: Words, unit: str) -> Words:
    if unit == "ns":
        micros = values // 1000
        _require(micros * 1000 == values)
        return micros
    factor = MICROSECONDS[unit]
    return _in_range(values, -(-MIN_WORD // factor), MAX_WORD // factor) * np.int64(factor)


def _intervals(array: pa.Array, null: Mask | None, type_: Type) -> NDArray[Any]:
    if pa.types.is_duration(array.type):
        return _microseconds(_raw(array, null, "<i8"), array.type.unit)
    parts = _raw(array, null, "<i8").view(MONTH_DAY_NANO)
    if type_.kind is Kind.INTERVAL_MONTH:
        _require((parts["days"] == 0) & (parts["nanoseconds"] == 0))
        return parts["months"]
    _require(parts["months"] == 0)
    return _microseconds(parts["nanoseconds"], "ns") + parts["days"].astype(np.int64) * DAY_MICROSECONDS


def arrow_type(type_: Type) -> pa.DataType:
    """The Arrow type in which values of a type are handed out."""
    match type_.kind:
        case _ if type_.kind in ARROW_TYPES:
            return ARROW_TYPES[type_.kind]
        case Kind.DECIMAL:
            return pa.decimal128(type_.precision, type_.scale)
        case Kind.NUMERIC:
            return interned.decimals(type_)
        case Kind.ARRAY:
            return pa.list_(arrow_type(type_.parts[0]))
        case Kind.RECORD:
            names = type_.labels or tuple(f"f{place + 1}" for place in range(len(type_.parts)))
            return pa.struct(
                [(name, arrow_type(part)) for name, part in zip(names, type_.parts, strict=True)]
            )
        case kind:
            raise InternalError(f"{kind.value} has no Arrow type")


def decode_array(words: Words, type_: Type, dictionary: Dictionary) -> pa.Array:
    """The values of words as an Arrow array of :func:`arrow_type` (large strings past 2 GiB)."""
    target = arrow_type(type_)
    if type_.is_text:
        return padded(dictionary.decode_arrow(words), type_)
    if type_.is_interned or type_.kind in (Kind.ENUM, Kind.TID):
        return interned.made(to_list(words, type_, dictionary), type_, target)
    if type_.kind is Kind.NULL:
        return pa.nulls(len(words))
    null = words == NULL
    nulls = int(np.count_nonzero(null))
    validity = pa.py_buffer(np.packbits(~null, bitorder="little")) if nulls else None
    if nulls:
        words = np.where(null, 0, words)
    if type_.kind is Kind.BOOLEAN:
        data: NDArray[Any] = np.packbits(words != 0, bitorder="little")
    elif type_.kind is Kind.DECIMAL:
        data = np.stack((words, words >> 63), axis=1)
    elif type_.is_float:
        data = word_floats(words).astype(target.to_pandas_dtype(), copy=False)
    elif type_.kind is Kind.INTERVAL_MONTH:
        data = np.zeros(len(words), MONTH_DAY_NANO)
        data["months"] = words
    else:
        data = np.ascontiguousarray(words, f"<i{target.bit_width // 8}")
    return pa.Array.from_buffers(target, len(words), [validity, pa.py_buffer(data)], nulls)
