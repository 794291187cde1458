"""Arrow tables to words and back: the path of all columnar input and output.

Input columns match the schema by name, without regard to case. Conversion is by value: nothing is truncated
or wrapped, and a value that does not fit is an error with its row number, from 1. Integers, floats and
decimals convert into each other exactly or not at all; only the scale of a NUMERIC rounds, half away from
zero, as in SQL.

All types are vectorised, except interned types other than text, which convert one Python object at a time.
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
    Omitted,
    encode_records,
    encode_rows,
    encode_values,
    float_words,
    to_list,
    word_floats,
)
from kpg.runtime.dictionary import Dictionary, utf8
from kpg.runtime.errors import DataError, InterfaceError, InternalError, ProgrammingError, no_text
from kpg.runtime.records import dataclass
from kpg.runtime.types import (
    ERROR,
    EXACT_KINDS,
    MAX_WORD,
    MIN_WORD,
    NULL,
    SPELLED_KINDS,
    TEXT_KINDS,
    ColumnDef,
    Kind,
    Schema,
    Type,
)
from kpg.runtime.values import input_errors
from kpg.runtime.values.words import EXACT_FLOAT, INTEGER_LIMITS, WIDE, decimal_of_float

Words = NDArray[np.int64]


MOST_DIGITS: Final = 38
"""Of decimal128; decimal256 has twice as many."""


def accepts_interned(type_: Type, given: pa.DataType) -> bool:
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

    Numbers of any digits are text, whatever the values: a column has one type. Arrays of more dimensions nest
    deeper.
    """
    if type_.kind is Kind.NUMERIC and pa.types.is_string(target):
        return pa.array([None if value is None else _digits(value) for value in values], target)
    if type_.kind is Kind.NUMERIC:
        for value in values:
            if value is not None and not value.is_finite():
                raise DataError(
                    f"{_digits(value)} of a {type_} column has no value of Arrow's {target}",
                    hint="Cast the column to NUMERIC or DOUBLE PRECISION.",
                )
    if type_.kind is Kind.ARRAY:
        target = _deep(values, target)
    return pa.array([None if value is None else plain(value, type_) for value in values], target)


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


class UnfitAt(Exception):
    """The value at ``position`` of the array does not fit the column's type."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


def padded(array: pa.Array, type_: Type) -> pa.Array:
    """CHAR as it is shown."""
    if not type_.is_padded:
        return array
    import pyarrow.compute as pc  # lazy: takes three times as long as the rest of pyarrow

    return pc.utf8_rpad(array, type_.precision)


def without_blanks(array: pa.Array) -> pa.Array:
    """The texts without blanks at their ends."""
    import pyarrow.compute as pc  # lazy: takes three times as long as the rest of pyarrow

    if pa.types.is_dictionary(array.type):
        return pa.DictionaryArray.from_arrays(array.indices, without_blanks(array.dictionary))
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    return pc.utf8_rtrim(array, " ") if pc.any(pc.ends_with(array, " ")).as_py() else array


def check_length(array: pa.Array, type_: Type) -> None:
    """Raise UnfitAt for the first string of more characters than the type allows."""
    if not type_.precision or not len(array):
        return
    import pyarrow.compute as pc  # lazy: takes three times as long as the rest of pyarrow

    encoded = pa.types.is_dictionary(array.type)
    values = array.dictionary if encoded else array
    if pa.types.is_string_view(values.type):
        values = values.cast(pa.large_string())
    if (pc.max(pc.binary_length(values)).as_py() or 0) <= type_.precision:
        return  # as many characters at most; to count those takes far longer
    lengths = pc.utf8_length(values)
    if (pc.max(lengths).as_py() or 0) <= type_.precision:
        return
    if encoded:
        check_length(array.cast(pa.large_string()), type_)  # the dictionary may hold more than the array
        return
    raise UnfitAt(int(pc.index(pc.greater(lengths, type_.precision), True).as_py()))


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
            return accepts_interned(type_, given)
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
            return decimals(type_)
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
        return made(to_list(words, type_, dictionary), type_, target)
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
    """Where a batch came from, for messages: a file (or nothing), and how many of its rows came before."""

    name: str = ""
    row: int = 0

    def place(self, position: int | None, column: str) -> str:
        parts = [self.name] if self.name else []
        if position is not None:
            parts.append(f"row {self.row + position + 1}")
        return ", ".join((*parts, f"column {column}"))


NOWHERE = Origin()


def resolve(
    given: pa.Schema, schema: Schema, origin: Origin = NOWHERE, omitted: Omitted | None = None
) -> list[int]:
    """For each column of the schema, its position in the given one; the types are checked, not the values.

    -1 stands for a column that is omitted.

    Raises ProgrammingError for a column that is missing, extra, ambiguous or of a type that does not convert.
    """
    where = f"{origin.name}: " if origin.name else ""
    positions: dict[str, list[int]] = {}
    for i, name in enumerate(given.names):
        positions.setdefault(name.lower(), []).append(i)
    result = []
    for place, column in enumerate(schema.columns):
        found = positions.pop(column.name.lower(), [])
        if not found and omitted is not None and place in omitted.allowed:
            omitted.found = True
            result.append(-1)
            continue
        if len(found) != 1:
            what = "ambiguous" if found else "missing"
            hint = f"found {', '.join(given.names)}" if given.names else "there are no columns at all"
            raise ProgrammingError(f"{where}column {column.name} {column.type} is {what}", hint=hint)
        if not accepts(column.type, given.types[found[0]]):
            raise ProgrammingError(
                f"{where}column {column.name} has type {given.types[found[0]]}, expected {column.type}",
                hint=f"convert {column.name} to {column.type} before loading it",
            )
        result.append(found[0])
    if positions:
        extra = given.names[next(iter(positions.values()))[0]]
        raise ProgrammingError(
            f"{where}column {extra} is not in the table", hint=f"the columns are {', '.join(schema.names)}"
        )
    return result


def encode(
    data: "pa.Table | pa.RecordBatch",
    schema: Schema,
    dictionary: Dictionary,
    origin: Origin = NOWHERE,
    omitted: Omitted | None = None,
) -> Words:
    """The rows as words ``int64[ncols, n]`` in the order of the schema's columns.

    Raises as :func:`resolve`, and DataError, naming row, column and value, for a value that does not fit its
    column's type. NULLs are let through: NOT NULL is the table's to check.
    """
    words = np.empty((len(schema.columns), data.num_rows), np.int64)
    for i, position in enumerate(resolve(data.schema, schema, origin, omitted)):
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
            except UnfitAt as unfit:
                place, value = (
                    origin.place(start + unfit.position, schema.columns[i].name),
                    chunk[unfit.position],
                )
                error = DataError(
                    f"{place}: value {_shown(value)} does not fit {schema.columns[i].type}",
                    hint="nothing of this batch was taken in; correct the value or widen the column",
                )
                error.sqlstate = _state(value, schema.columns[i].type)
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
            raise UnfitAt(int(np.argmax(reserved)))


def _state(value: pa.Scalar, type_: Type) -> str | None:
    """The SQLSTATE of a text that is not taken; None if it is another value."""
    return input_errors.complaint(value.as_py(), type_).sqlstate if is_text(value.type) else None


def _shown(scalar: pa.Scalar) -> str:
    try:
        return repr(scalar.as_py())
    except (OverflowError, ValueError):
        return f"{scalar.value} {scalar.type}"


def decode(words: Words, names: Sequence[str], types: Sequence[Type], dictionary: Dictionary) -> pa.Table:
    """The rows ``words[ncols, n]`` as an Arrow table with the given column names and types."""
    arrays = []
    for i, type_ in enumerate(types):
        column = np.ascontiguousarray(words[i])
        if (column == ERROR).any():
            raise InternalError(f"column {names[i]} holds the result of a failed operation")
        arrays.append(decode_array(column, type_, dictionary))
    return pa.Table.from_arrays(arrays, names=list(names))


def is_frame(data: object) -> bool:
    """Whether an object is columns with names: an Arrow table, a data frame, or what streams as one."""
    return hasattr(data, "__arrow_c_stream__") or _is_pandas(data)


def _is_pandas(data: object) -> bool:
    return type(data).__module__.split(".")[0] == "pandas" and hasattr(data, "columns")


def frame_table(data: Any) -> "pa.Table | None":
    """A frame as an Arrow table; None for what :func:`is_frame` says is none."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    if _is_pandas(data):
        return pa.Table.from_pandas(data, preserve_index=False)
    return pa.RecordBatchReader.from_stream(data).read_all() if is_frame(data) else None


def from_any(data: Any, schema: Schema, dictionary: Dictionary, omitted: Omitted | None = None) -> Words:
    """The words ``int64[ncols, n]`` of rows in any shape that Python users have them.

    An Arrow table, batch or reader, a pandas or polars data frame, anything with the Arrow C stream
    protocol, a dict of columns, a list of tuples or a list of dicts. Tuples give all columns. Raises
    InterfaceError for anything else.
    """
    table = frame_table(data)
    if table is not None:
        return encode(table, schema, dictionary, omitted=omitted)
    if isinstance(data, Mapping):
        return _encode_columns(data, schema, dictionary, omitted)
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        if not data or isinstance(data[0], (tuple, list)):
            return encode_rows(data, schema, dictionary)
        if isinstance(data[0], Mapping):
            return encode_records(data, schema, dictionary, omitted)
    listed = isinstance(data, Sequence) and not isinstance(data, (str, bytes))
    held = f" of {type(data[0]).__name__}" if listed else ""
    raise InterfaceError(
        f"cannot read rows from a {type(data).__name__}{held}",
        hint="give an Arrow table, a data frame, a dict of columns, or a list of tuples or dicts",
    )


def _encode_columns(
    data: Mapping[str, Any], schema: Schema, dictionary: Dictionary, omitted: Omitted | None
) -> Words:
    """A dict of columns: lists by Python's types, arrays by Arrow's."""
    names = list(data)
    for name in names:
        utf8(str(name))  # which is an error for what is no Unicode
    given = [pa.nulls(0) if isinstance(data[name], (list, tuple)) else pa.array(data[name]) for name in names]
    positions = resolve(
        pa.schema([(str(n), array.type) for n, array in zip(names, given, strict=True)]),
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
            words[i] = encode(pa.table({column.name: given[position]}), one, dictionary)[0]
    return words
