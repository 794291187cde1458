"""Arrow tables to words and back: the path of all columnar input and output.

Input columns match the schema by name, case-insensitively. Conversion is by value: nothing is truncated
or wrapped, and a value that does not fit is an error with its row number, from 1. Integers, floats and
decimals convert into each other exactly or not at all. Only the scale of a NUMERIC rounds, half away
from zero, as in SQL.

All types are vectorised, except interned types other than text, which convert one Python object at a
time.
"""

import datetime
import decimal
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kpg.runtime.convert.python_values import (
    OmittedColumns,
    encode_records,
    encode_rows,
    encode_values,
    float_words,
    to_list,
    word_floats,
)
from kpg.runtime.dictionary import Dictionary, utf8
from kpg.runtime.errors import DataError, InterfaceError, InternalError, ProgrammingError, encoding_error
from kpg.runtime.records import dataclass
from kpg.runtime.types import (
    ERROR,
    EXACT_KINDS,
    MAX_WORD,
    MIN_WORD,
    NULL,
    TEXT_FORM_KINDS,
    TEXT_KINDS,
    ColumnDef,
    Kind,
    Schema,
    Type,
)
from kpg.runtime.values import input_errors
from kpg.runtime.values.words import INTEGER_LIMITS, MAX_EXACT_FLOAT, WIDE_CONTEXT, decimal_of_float

Words = NDArray[np.int64]


MAX_DECIMAL128_DIGITS: Final = 38
"""Maximum precision of decimal128. That of decimal256 is twice as large."""


def accepts_interned(type_: Type, source: pa.DataType) -> bool:
    """Check whether a column of an interned type can be read from an Arrow type, values permitting."""
    text = pa.types.is_string(source) or pa.types.is_large_string(source) or pa.types.is_string_view(source)
    binary = pa.types.is_binary(source) or pa.types.is_large_binary(source)
    match type_.kind:
        case Kind.BYTEA:
            return bool(text or binary or pa.types.is_fixed_size_binary(source))
        case Kind.INTERVAL:
            return bool(text or pa.types.is_duration(source) or pa.types.is_interval(source))
        case Kind.ARRAY:
            return bool(text or pa.types.is_list(source) or pa.types.is_large_list(source))
        case Kind.RECORD:
            return bool(text or pa.types.is_struct(source))
        case _:
            return bool(text)


def numeric_arrow_type(type_: Type) -> pa.DataType:
    """Return the Arrow type of NUMERIC(precision, scale): text without a precision, or with one too large."""
    if not type_.precision or type_.precision > 2 * MAX_DECIMAL128_DIGITS:
        return pa.string()
    wide = type_.precision > MAX_DECIMAL128_DIGITS
    return (pa.decimal256 if wide else pa.decimal128)(type_.precision, type_.scale)


def to_arrow_array(values: list[Any], type_: Type, target: pa.DataType) -> pa.Array:
    """Convert Python objects of rows to an Arrow array of a type.

    NUMERIC without a precision gives the smallest decimal type that holds all values, and text if none does.
    Arrays with more dimensions give deeper lists.
    """
    if type_.kind is Kind.NUMERIC and pa.types.is_string(target):
        return _unconstrained_numbers(values)
    if type_.kind is Kind.NUMERIC:
        for value in values:
            if value is not None and not value.is_finite():
                raise DataError(
                    f"{_numeric_text(value)} of a {type_} column has no value of Arrow's {target}",
                    hint="Cast the column to NUMERIC or DOUBLE PRECISION.",
                )
    if type_.kind is Kind.ARRAY:
        target = _nest_list_type(values, target)
    return pa.array([None if value is None else to_arrow_value(value, type_) for value in values], target)


def _unconstrained_numbers(values: list[Any]) -> pa.Array:
    numbers = [value for value in values if value is not None]
    if numbers and all(value.is_finite() for value in numbers):
        try:
            return pa.array(values)
        except pa.ArrowInvalid:
            pass  # more digits than decimal256 has
    return pa.array([None if value is None else _numeric_text(value) for value in values], pa.string())


def _numeric_text(value: Decimal) -> str:
    return f"{value:f}" if value.is_finite() else str(value)


def _nest_list_type(values: list[Any], target: pa.DataType) -> pa.DataType:
    """Return the list type with the depth of the arrays."""
    depth = max((_depth(value) for value in values if value is not None), default=1)
    for _ in range(depth - 1):
        target = pa.list_(target)
    return target


def _depth(value: Any) -> int:
    if not isinstance(value, list):
        return 0
    return 1 + max((_depth(item) for item in value[:1]), default=0)


def to_arrow_value(value: Any, type_: Type) -> Any:
    """Convert a Python object to the form that Arrow accepts."""
    match type_.kind:
        case Kind.ARRAY:
            (element,) = type_.parts
            return [
                None if item is None else to_arrow_value(item, type_ if isinstance(item, list) else element)
                for item in value
            ]
        case Kind.RECORD:
            names = field_names(type_)
            fields = zip(names, value, type_.parts, strict=True)
            return {name: None if item is None else to_arrow_value(item, part) for name, item, part in fields}
        case Kind.UUID:
            return str(value)
        case Kind.NUMERIC if not type_.precision:
            return _numeric_text(value)
        case Kind.INTERVAL if isinstance(value, datetime.timedelta):
            return pa.MonthDayNano((0, value.days, (value.seconds * 1_000_000 + value.microseconds) * 1000))
        case _:
            return value


def field_names(type_: Type) -> list[str]:
    """Return distinct names for the fields of a row."""
    if type_.labels and len(set(type_.labels)) == len(type_.labels):
        return list(type_.labels)
    return [f"f{place + 1}" for place in range(len(type_.parts))]


class UnrepresentableAt(Exception):
    """The value at ``position`` of the array does not fit the column's type."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


def pad_char(array: pa.Array, type_: Type) -> pa.Array:
    """Pad CHAR(n) with blanks for display. Other arrays are returned unchanged."""
    if not type_.is_padded:
        return array
    import pyarrow.compute as pc  # lazy: takes three times as long as the rest of pyarrow

    return pc.utf8_rpad(array, type_.precision)


def strip_blanks(array: pa.Array) -> pa.Array:
    """Strip trailing blanks of the texts."""
    import pyarrow.compute as pc  # lazy: takes three times as long as the rest of pyarrow

    if pa.types.is_dictionary(array.type):
        return pa.DictionaryArray.from_arrays(array.indices, strip_blanks(array.dictionary))
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    return pc.utf8_rtrim(array, " ") if pc.any(pc.ends_with(array, " ")).as_py() else array


def fit_length(array: pa.Array, type_: Type) -> pa.Array:
    """Return strings without blanks beyond the type's length; UnrepresentableAt for the first longer one."""
    if not type_.precision or not len(array):
        return array
    import pyarrow.compute as pc  # lazy: takes three times as long as the rest of pyarrow

    encoded = pa.types.is_dictionary(array.type)
    values = array.dictionary if encoded else array
    if pa.types.is_string_view(values.type):
        values = values.cast(pa.large_string())
    if (pc.max(pc.binary_length(values)).as_py() or 0) <= type_.precision:
        return array  # no more characters than bytes; counting them takes far longer
    lengths = pc.utf8_length(values)
    if (pc.max(lengths).as_py() or 0) <= type_.precision:
        return array
    if encoded:
        return fit_length(array.cast(pa.large_string()), type_)  # the array may not use the whole dictionary
    is_long = pc.greater(pc.utf8_length(pc.utf8_rtrim(values, " ")), type_.precision)
    if pc.any(is_long).as_py():
        raise UnrepresentableAt(int(pc.index(is_long, True).as_py()))
    return pc.utf8_slice_codeunits(values, 0, type_.precision)


Mask = NDArray[np.bool_]

MICROSECONDS: Final = {"s": 1_000_000, "ms": 1000, "us": 1}
DAY_MILLISECONDS: Final = 86_400_000
DAY_MICROSECONDS: Final = 86_400_000_000
WORD_ORDER_KINDS: Final = EXACT_KINDS | {Kind.DATE, Kind.TIMESTAMP}
"""Kinds whose words have the order of their values in Arrow and in Spark."""
UTC_NAMES: Final = frozenset({"UTC", "Etc/UTC", "+00:00", "Z", "GMT"})
"""Time zones whose timestamps need no conversion."""
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
        (
            *TEXT_KINDS,
            *TEXT_FORM_KINDS,
            Kind.ENUM,
            Kind.EXTENSION,
            Kind.TID,
            Kind.JSON,
            Kind.JSONB,
            Kind.UUID,
        ),
        pa.string(),
    ),
}
"""Arrow types of results, for kinds where the kind alone determines it."""
MONTH_DAY_NANO: Final = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])


def accepts(type_: Type, source: pa.DataType) -> bool:
    """Check whether a column of the type can be read from an Arrow type, values permitting."""
    if pa.types.is_null(source):
        return True
    if pa.types.is_dictionary(source):
        return accepts(type_, source.value_type)
    if type_.kind in TEXT_FORM_KINDS:
        return is_text(source)
    match type_.kind:
        case Kind.BOOLEAN:
            return bool(pa.types.is_boolean(source))
        case Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT | Kind.DECIMAL | Kind.REAL | Kind.DOUBLE:
            return bool(
                pa.types.is_integer(source) or pa.types.is_floating(source) or pa.types.is_decimal(source)
            )
        case Kind.DATE | Kind.TIMESTAMP:
            utc = not pa.types.is_timestamp(source) or source.tz is None or source.tz in UTC_NAMES
            return is_text(source) or bool(
                utc and (pa.types.is_date(source) or pa.types.is_timestamp(source))
            )
        case Kind.INTERVAL_MONTH:
            return bool(pa.types.is_interval(source))
        case Kind.INTERVAL_DAY:
            return bool(pa.types.is_duration(source) or pa.types.is_interval(source))
        case Kind.TIMESTAMPTZ:
            return bool(pa.types.is_date(source) or pa.types.is_timestamp(source) or is_text(source))
        case Kind.TIME:
            return bool(pa.types.is_time(source) or is_text(source))
        case Kind.CHAR | Kind.VARCHAR | Kind.ENUM | Kind.EXTENSION | Kind.TID:
            return is_text(source)
        case Kind.NUMERIC:
            number = (
                pa.types.is_integer(source) or pa.types.is_floating(source) or pa.types.is_decimal(source)
            )
            return bool(number or is_text(source))
        case Kind.INTERVAL | Kind.ARRAY | Kind.JSON | Kind.JSONB | Kind.UUID | Kind.BYTEA | Kind.RECORD:
            return accepts_interned(type_, source)
        case Kind.NULL:
            return False
        case Kind.ROWID:
            return bool(pa.types.is_integer(source))
        case kind:
            raise InternalError(f"{kind.value} is read from no Arrow type")


def is_text(source: pa.DataType) -> bool:
    """Check whether an Arrow type is one of the string types."""
    return bool(
        pa.types.is_string(source) or pa.types.is_large_string(source) or pa.types.is_string_view(source)
    )


def encode_array(array: pa.Array, type_: Type, dictionary: Dictionary, out: Words) -> None:
    """Write the words of an array of an accepted type to ``out[n]``.

    Raises:
        UnrepresentableAt: A value does not fit. It has the position of the first one.
    """
    if pa.types.is_null(array.type):
        out[:] = NULL
        return
    if type_.is_text:
        if type_.kind is Kind.CHAR:
            array = strip_blanks(array)
        array = fit_length(array, type_)
        _reject_zero_bytes(array)
        out[:] = dictionary.intern_arrow(array)
        return
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if (
        type_.is_interned
        or type_.kind in (Kind.ENUM, Kind.EXTENSION, Kind.TID, Kind.TIME)
        or is_text(array.type)
    ):
        out[:] = _encode_one_by_one(array, type_, dictionary)
        return
    null = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    out[:] = _converter(type_.kind)(array, null, type_)
    if null is not None:
        out[null] = NULL


def _reject_zero_bytes(array: pa.Array) -> None:
    """Raise DataError if a text has a zero byte."""
    texts = array.dictionary if pa.types.is_dictionary(array.type) else array
    if pa.types.is_string_view(texts.type):
        texts = texts.cast(pa.large_string())
    data = texts.buffers()[2] if len(texts) else None
    if data is None or np.frombuffer(data, np.uint8).all():
        return
    if pc.any(pc.match_substring(texts, "\0")).as_py():  # the buffer may hold other texts too
        raise encoding_error()


def _encode_one_by_one(array: pa.Array, type_: Type, dictionary: Dictionary) -> Words | list[int]:
    """Return the words of the array's Python objects."""
    column = ColumnDef("", type_)
    values = array.to_pylist()
    try:
        return encode_values(values, column, dictionary)
    except (DataError, ProgrammingError):
        for position, value in enumerate(values):
            try:
                encode_values([value], column, dictionary)
            except (DataError, ProgrammingError):
                raise UnrepresentableAt(position) from None
        raise


def _converter(kind: Kind) -> Callable[[pa.Array, Mask | None, Type], NDArray[Any]]:
    match kind:
        case Kind.BOOLEAN:
            return _convert_booleans
        case Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT | Kind.ROWID:
            return _convert_integers
        case Kind.DECIMAL:
            return _convert_decimals
        case Kind.REAL | Kind.DOUBLE:
            return _convert_floats
        case Kind.DATE:
            return _convert_dates
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return _convert_timestamps
        case Kind.INTERVAL_MONTH | Kind.INTERVAL_DAY:
            return _convert_intervals
        case _:
            raise AssertionError(f"{kind.value} has no converter")


def _require_all(fits: NDArray[np.bool_]) -> None:
    if not fits.all():
        raise UnrepresentableAt(int(np.argmin(fits)))


def _values_buffer(array: pa.Array, null: Mask | None, dtype: str) -> NDArray[Any]:
    """Return the values buffer of a fixed-width array, with zeros where it is null."""
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


def _numeric_values(array: pa.Array, null: Mask | None) -> NDArray[Any]:
    return _values_buffer(array, null, np.dtype(array.type.to_pandas_dtype()).str)


def _convert_booleans(array: pa.Array, null: Mask | None, type_: Type) -> NDArray[Any]:
    return np.asarray(array.cast(pa.int8()).fill_null(0).to_numpy(zero_copy_only=False))


def _convert_integers(array: pa.Array, null: Mask | None, type_: Type) -> NDArray[Any]:
    low, high = INTEGER_LIMITS.get(type_.kind, (MIN_WORD, MAX_WORD))
    if pa.types.is_decimal(array.type):
        return _rescale(array, null, 0, low, high)
    values = _numeric_values(array, null)
    if pa.types.is_floating(array.type):
        whole = np.trunc(values) == values
        _require_all(whole & (values >= -(2.0**63)) & (values < 2.0**63))
        values = values.astype(np.int64)
    return _check_range(values, low, high)


def _check_range(values: NDArray[Any], low: int, high: int) -> NDArray[Any]:
    """Return the integers, or raise UnrepresentableAt for the first out of range."""
    limits = np.iinfo(values.dtype)
    if values.size and (
        (limits.min < low and values.min() < low) or (limits.max > high and values.max() > high)
    ):
        above = values > min(high, limits.max)
        raise UnrepresentableAt(int(np.argmax((values < max(low, limits.min)) | above)))
    return values


def _convert_decimals(array: pa.Array, null: Mask | None, type_: Type) -> NDArray[Any]:
    limit = 10**type_.precision - 1
    if pa.types.is_decimal(array.type):
        try:
            return _rescale(array, null, type_.scale, -limit, limit)
        except UnrepresentableAt:
            return _rescale(_round_decimals(array, type_.scale), null, type_.scale, -limit, limit)
    values = _numeric_values(array, null)
    factor = 10**type_.scale
    if pa.types.is_floating(array.type):
        values = values.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = np.rint(values * float(factor))
            _require_all(np.abs(scaled) <= MAX_EXACT_FLOAT)
            inexact = scaled / float(factor) != values
        words = scaled.astype(np.int64)
        if inexact.any():
            words[inexact] = [decimal_of_float(value, type_.scale) for value in values[inexact].tolist()]
        _require_all(np.abs(words) <= limit)
        return words
    bound = limit // factor
    return _check_range(values, -bound, bound).astype(np.int64) * np.int64(factor)


def _round_decimals(array: pa.Array, scale: int) -> pa.Array:
    """Round a decimal array to at most ``scale`` digits behind the point, half away from zero."""
    if array.type.scale <= scale:
        return array
    wide = array.cast(pa.decimal256(76, array.type.scale))
    return pc.round(wide, scale, "half_towards_infinity").cast(pa.decimal256(76, scale))


def _rescale(array: pa.Array, null: Mask | None, scale: int, low: int, high: int) -> Words:
    """Return the unscaled integers of a decimal array at another scale, exact and in ``low .. high``."""
    if array.type.bit_width < 64:
        array = array.cast(pa.decimal64(18, array.type.scale))
    limbs = _values_buffer(array, null, "<i8").reshape(len(array), -1)
    words = limbs[:, 0]
    small = (limbs[:, 1:] == (words >> 63)[:, None]).all(axis=1)
    shift = scale - array.type.scale
    if not small.all():
        return _rescale_one_by_one(array, scale, low, high)
    if shift >= 0:
        factor = 10**shift
        words = _check_range(words, -(-low // factor), high // factor)
        return words * np.int64(factor) if factor > 1 else words
    if -shift > 18:
        return _rescale_one_by_one(array, scale, low, high)
    quotient = words // np.int64(10**-shift)
    _require_all(quotient * np.int64(10**-shift) == words)
    return _check_range(quotient, low, high)


def _rescale_one_by_one(array: pa.Array, scale: int, low: int, high: int) -> Words:
    """Like :func:`_rescale`, one value at a time, for values beyond 64 bits."""
    out = np.zeros(len(array), np.int64)
    for position, value in enumerate(array):
        number: decimal.Decimal | None = value.as_py()
        if number is not None:
            scaled = number.scaleb(scale, WIDE_CONTEXT)
            if scaled != int(scaled) or not low <= int(scaled) <= high:
                raise UnrepresentableAt(position)
            out[position] = int(scaled)
    return out


def _convert_floats(array: pa.Array, null: Mask | None, type_: Type) -> NDArray[Any]:
    if pa.types.is_decimal(array.type):
        array = array.cast(pa.float64())
    values = _numeric_values(array, null).astype(np.float64)
    if type_.kind is Kind.REAL:
        with np.errstate(over="ignore"):
            rounded = values.astype(np.float32).astype(np.float64)
        _require_all(np.isinf(rounded) == np.isinf(values))
        values = rounded
    return float_words(values)


def _convert_dates(array: pa.Array, null: Mask | None, type_: Type) -> NDArray[Any]:
    if pa.types.is_date32(array.type):
        return _values_buffer(array, null, "<i4")
    values = _values_buffer(array, null, "<i8")
    per_day = DAY_MILLISECONDS
    if pa.types.is_timestamp(array.type):
        per_day = {"s": 86_400, "ms": DAY_MILLISECONDS, "us": DAY_MICROSECONDS}.get(
            array.type.unit, 1000 * DAY_MICROSECONDS
        )
    days = values // per_day
    _require_all(days * per_day == values)
    return days


def _convert_timestamps(array: pa.Array, null: Mask | None, type_: Type) -> NDArray[Any]:
    if pa.types.is_date32(array.type):
        return _values_buffer(array, null, "<i4").astype(np.int64) * DAY_MICROSECONDS
    unit = "ms" if pa.types.is_date64(array.type) else array.type.unit
    return _to_microseconds(_values_buffer(array, null, "<i8"), unit)


def _to_microseconds(values: Words, unit: str) -> Words:
    if unit == "ns":
        micros = values // 1000
        _require_all(micros * 1000 == values)
        return micros
    factor = MICROSECONDS[unit]
    return _check_range(values, -(-MIN_WORD // factor), MAX_WORD // factor) * np.int64(factor)


def _convert_intervals(array: pa.Array, null: Mask | None, type_: Type) -> NDArray[Any]:
    if pa.types.is_duration(array.type):
        return _to_microseconds(_values_buffer(array, null, "<i8"), array.type.unit)
    parts = _values_buffer(array, null, "<i8").view(MONTH_DAY_NANO)
    if type_.kind is Kind.INTERVAL_MONTH:
        _require_all((parts["days"] == 0) & (parts["nanoseconds"] == 0))
        return parts["months"]
    _require_all(parts["months"] == 0)
    return _to_microseconds(parts["nanoseconds"], "ns") + parts["days"].astype(np.int64) * DAY_MICROSECONDS


def arrow_type(type_: Type) -> pa.DataType:
    """Return the Arrow type of a result column."""
    match type_.kind:
        case _ if type_.kind in ARROW_TYPES:
            return ARROW_TYPES[type_.kind]
        case Kind.DECIMAL:
            return pa.decimal128(type_.precision, type_.scale)
        case Kind.NUMERIC:
            return numeric_arrow_type(type_)
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
    """Convert words to an Arrow array of :func:`arrow_type` (large strings beyond 2 GiB)."""
    target = arrow_type(type_)
    if type_.is_text:
        return pad_char(dictionary.decode_arrow(words), type_)
    if type_.is_interned or type_.kind in (Kind.ENUM, Kind.EXTENSION, Kind.TID):
        return to_arrow_array(to_list(words, type_, dictionary), type_, target)
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


@dataclass(frozen=True, slots=True)
class Origin:
    """Source of a batch, for messages: a file name or "", and the number of its rows before the batch."""

    name: str = ""
    row: int = 0

    def describe(self, position: int | None, column: str) -> str:
        parts = [self.name] if self.name else []
        if position is not None:
            parts.append(f"row {self.row + position + 1}")
        return ", ".join((*parts, f"column {column}"))


UNKNOWN_ORIGIN = Origin()


def match_columns(
    source: pa.Schema, schema: Schema, origin: Origin = UNKNOWN_ORIGIN, omitted: OmittedColumns | None = None
) -> list[int]:
    """Match the columns of a schema to those of an Arrow schema by name, and check their types.

    Returns:
        For each column of the schema its position in the Arrow schema, or -1 if it is omitted.

    Raises:
        ProgrammingError: A column is missing, extra, ambiguous or of a type that does not convert.
    """
    where = f"{origin.name}: " if origin.name else ""
    positions: dict[str, list[int]] = {}
    for i, name in enumerate(source.names):
        positions.setdefault(name.lower(), []).append(i)
    result = []
    for place, column in enumerate(schema.columns):
        candidates = positions.pop(column.name.lower(), [])
        if not candidates and omitted is not None and place in omitted.allowed:
            omitted.occurred = True
            result.append(-1)
            continue
        if len(candidates) != 1:
            what = "ambiguous" if candidates else "missing"
            hint = f"found {', '.join(source.names)}" if source.names else "there are no columns at all"
            raise ProgrammingError(f"{where}column {column.name} {column.type} is {what}", hint=hint)
        if not accepts(column.type, source.types[candidates[0]]):
            raise ProgrammingError(
                f"{where}column {column.name} has type {source.types[candidates[0]]}, expected {column.type}",
                hint=f"convert {column.name} to {column.type} before loading it",
            )
        result.append(candidates[0])
    if positions:
        extra = source.names[next(iter(positions.values()))[0]]
        raise ProgrammingError(
            f"{where}column {extra} is not in the table", hint=f"the columns are {', '.join(schema.names)}"
        )
    return result


def encode_table(
    data: "pa.Table | pa.RecordBatch",
    schema: Schema,
    dictionary: Dictionary,
    origin: Origin = UNKNOWN_ORIGIN,
    omitted: OmittedColumns | None = None,
) -> Words:
    """Convert rows to words ``int64[ncols, n]`` in the order of the schema's columns.

    NULLs are accepted: the table checks NOT NULL. The ERROR word stands for an omitted value.

    Raises:
        ProgrammingError: See :func:`match_columns`.
        DataError: A value does not fit its column's type. The message names row, column and value.
    """
    words = np.empty((len(schema.columns), data.num_rows), np.int64)
    for i, position in enumerate(match_columns(data.schema, schema, origin, omitted)):
        if position < 0:
            words[i] = ERROR
            continue
        source = data.column(position)
        chunks = source.chunks if isinstance(source, pa.ChunkedArray) else [source]
        chunks = [chunk for chunk in chunks if len(chunk)]
        start = 0
        for chunk in chunks:
            try:
                _encode_chunk(chunk, schema.columns[i].type, dictionary, words[i, start : start + len(chunk)])
            except UnrepresentableAt as unfit:
                place, value = (
                    origin.describe(start + unfit.position, schema.columns[i].name),
                    chunk[unfit.position],
                )
                error = DataError(
                    f"{place}: value {_show_scalar(value)} does not fit {schema.columns[i].type}",
                    hint="no row of this batch was stored; correct the value or widen the column",
                )
                error.sqlstate = _input_sqlstate(value, schema.columns[i].type)
                raise error from None
            start += len(chunk)
    return words


def _encode_chunk(chunk: pa.Array, type_: Type, dictionary: Dictionary, out: Words) -> None:
    encode_array(chunk, type_, dictionary, out)
    if type_.kind is Kind.BIGINT or type_.kind in (Kind.TIMESTAMP, Kind.INTERVAL_DAY):
        reserved = out <= ERROR
        if chunk.null_count:
            reserved &= chunk.is_valid().to_numpy(zero_copy_only=False)
        if reserved.any():
            raise UnrepresentableAt(int(np.argmax(reserved)))


def _input_sqlstate(value: pa.Scalar, type_: Type) -> str | None:
    """Return the SQLSTATE of an invalid text, or None for another value."""
    return input_errors.input_error(value.as_py(), type_).sqlstate if is_text(value.type) else None


def _show_scalar(scalar: pa.Scalar) -> str:
    try:
        return repr(scalar.as_py())
    except (OverflowError, ValueError):
        return f"{scalar.value} {scalar.type}"


def decode_table(
    words: Words, names: Sequence[str], types: Sequence[Type], dictionary: Dictionary
) -> pa.Table:
    """Convert rows ``words[ncols, n]`` to an Arrow table with these column names and types."""
    arrays = []
    for i, type_ in enumerate(types):
        column = np.ascontiguousarray(words[i])
        if (column == ERROR).any():
            raise InternalError(f"column {names[i]} holds the result of a failed operation")
        arrays.append(decode_array(column, type_, dictionary))
    return pa.Table.from_arrays(arrays, names=list(names))


def is_frame(data: object) -> bool:
    """Check whether an object has named columns: an Arrow table, a data frame, or a stream of one."""
    return hasattr(data, "__arrow_c_stream__") or _is_pandas(data)


def _is_pandas(data: object) -> bool:
    return type(data).__module__.split(".")[0] == "pandas" and hasattr(data, "columns")


def frame_table(data: Any) -> "pa.Table | None":
    """Convert a frame to an Arrow table. Return None for other objects."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    if _is_pandas(data):
        return pa.Table.from_pandas(data, preserve_index=False)
    return pa.RecordBatchReader.from_stream(data).read_all() if is_frame(data) else None


def encode_any(
    data: Any, schema: Schema, dictionary: Dictionary, omitted: OmittedColumns | None = None
) -> Words:
    """Convert rows in any supported form to words ``int64[ncols, n]``.

    The forms are:

    * an Arrow table, batch or reader, or an object with the Arrow C stream protocol;
    * a pandas or polars data frame;
    * a dict of columns;
    * a list of tuples, which have all columns, or a list of dicts.

    Raises:
        InterfaceError: The object has another form.
    """
    table = frame_table(data)
    if table is not None:
        return encode_table(table, schema, dictionary, omitted=omitted)
    if isinstance(data, Mapping):
        return _encode_columns(data, schema, dictionary, omitted)
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        if not data or isinstance(data[0], (tuple, list)):
            return encode_rows(data, schema, dictionary)
        if isinstance(data[0], Mapping):
            return encode_records(data, schema, dictionary, omitted)
    is_sequence = isinstance(data, Sequence) and not isinstance(data, (str, bytes))
    element_text = f" of {type(data[0]).__name__}" if is_sequence else ""
    raise InterfaceError(
        f"cannot read rows from a {type(data).__name__}{element_text}",
        hint="give an Arrow table, a data frame, a dict of columns, or a list of tuples or dicts",
    )


def _encode_columns(
    data: Mapping[str, Any], schema: Schema, dictionary: Dictionary, omitted: OmittedColumns | None
) -> Words:
    """Convert a dict of columns: lists by Python's types, arrays by Arrow's."""
    names = list(data)
    for name in names:
        utf8(str(name))  # raises for a name that is not valid Unicode
    column_arrays = [
        pa.nulls(0) if isinstance(data[name], (list, tuple)) else pa.array(data[name]) for name in names
    ]
    positions = match_columns(
        pa.schema([(str(n), array.type) for n, array in zip(names, column_arrays, strict=True)]),
        schema,
        omitted=omitted,
    )
    lengths = {name: len(data[name]) for name in names}
    if len(set(lengths.values())) > 1:
        raise InterfaceError(f"the columns differ in length: {lengths}")
    words = np.empty((len(positions), next(iter(lengths.values()), 0)), np.int64)
    for i, position in enumerate(positions):
        if position < 0:
            words[i] = ERROR
            continue
        column, values = schema.columns[i], data[names[position]]
        if isinstance(values, (list, tuple)):
            words[i] = encode_values(values, column, dictionary)
        else:
            one = Schema((column,))
            words[i] = encode_table(pa.table({column.name: column_arrays[position]}), one, dictionary)[0]
    return words
