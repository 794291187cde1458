"""Python values to words and back, a few at a time: rows typed into a program, values shown in an error.

Whole columns go through ``runtime.convert.arrow``; both make the same checks.
"""

import datetime
import decimal
import functools
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, InterfaceError, ProgrammingError
from kpg.runtime.types import (
    ERROR,
    MAX_WORD,
    MIN_WORD,
    NULL,
    ColumnDef,
    Kind,
    Schema,
    Type,
    float_to_word,
    word_to_float,
)

Words = NDArray[np.int64]
Encoder = Callable[[Any], int]

EPOCH: Final = datetime.datetime(1970, 1, 1)
EPOCH_DAY: Final = EPOCH.toordinal()
MICROSECOND: Final = datetime.timedelta(microseconds=1)
INTEGER_LIMITS: Final = {
    Kind.SMALLINT: (-(2**15), 2**15 - 1),
    Kind.INTEGER: (-(2**31), 2**31 - 1),
    Kind.BIGINT: (MIN_WORD, MAX_WORD),
}
FEW_STRINGS: Final = 4
"""So many strings are interned one by one, for less than it takes to make an Arrow array of them."""
EXACT_FLOAT: Final = 2**53
"""Doubles up to it hold every whole number exactly."""
WIDE: Final = decimal.Context(prec=80, traps=[decimal.InvalidOperation])
"""Many more digits than the 18 of a DECIMAL, so that scaling does not round what is to be checked."""


MOST_RECENT: Final = 256
"""Schemas whose encoders are remembered: more than most programs have tables; all are forgotten at once."""
_recent: dict[int, tuple[Schema, list[tuple[Encoder, bool]]]] = {}
"""Encoders by identity of the schema, which is kept: to hash a schema takes longer than to encode a row."""


class Unfit(Exception):
    """A value that its column's type cannot hold; the encoder's caller knows where it stands."""


class Mistyped(Exception):
    """A value of a Python type that its column's type does not take."""


def show(word: int, type_: Type, dictionary: Dictionary) -> str:
    """A word as its value reads in a message: text quoted, NULL for NULL."""
    value = to_python(word, type_, dictionary)
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"'{value}'" if isinstance(value, str) else str(value)


def to_python(word: int, type_: Type, dictionary: Dictionary) -> Any:
    """The Python value of a word; an INTERVAL MONTH is its number of months.

    Raises DataError for the ERROR word and for dates beyond Python's years.
    """
    if word == NULL:
        return None
    if word == ERROR:
        raise DataError("the value is the result of a failed operation")
    match type_.kind:
        case Kind.NULL | Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT | Kind.INTERVAL_MONTH | Kind.ROWID:
            return word
        case Kind.BOOLEAN:
            return word != 0
        case Kind.DECIMAL:
            return decimal.Decimal(word).scaleb(-type_.scale, WIDE)
        case Kind.REAL | Kind.DOUBLE:
            return word_to_float(word)
        case Kind.CHAR | Kind.VARCHAR:
            return dictionary.decode(np.array([word], np.int64))[0]
        case Kind.DATE | Kind.TIMESTAMP | Kind.INTERVAL_DAY:
            return _to_time(word, type_)
        case _:
            assert_never(type_.kind)


def _to_time(word: int, type_: Type) -> datetime.date | datetime.timedelta:
    try:
        if type_.kind is Kind.DATE:
            return datetime.date.fromordinal(EPOCH_DAY + word)
        if type_.kind is Kind.TIMESTAMP:
            return EPOCH + datetime.timedelta(microseconds=word)
        return datetime.timedelta(microseconds=word)
    except (OverflowError, ValueError):
        raise DataError(
            f"{type_} word {word} is beyond what Python can hold", hint="fetch the result as Arrow instead"
        ) from None


def encode_rows(rows: Sequence[Sequence[Any]], schema: Schema, dictionary: Dictionary) -> Words:
    """Rows of Python values as words ``int64[ncols, n]``; None is NULL.

    Raises InterfaceError for a row of the wrong length, ProgrammingError for a value of a wrong type,
    DataError for one that does not fit; each names the row (from 1) and the column.
    """
    width = len(schema.columns)
    for number, row in enumerate(rows):
        if len(row) != width:
            raise InterfaceError(
                f"row {number + 1} has {len(row)} values, expected {width}: {', '.join(schema.names)}"
            )
    words = np.empty((width, len(rows)), np.int64)
    if rows:
        encoders = _encoders(schema)
        for i, values in enumerate(zip(*rows, strict=True)):
            words[i] = _encode(values, schema.columns[i], *encoders[i], dictionary)
    return words


def _encoders(schema: Schema) -> list[tuple[Encoder, bool]]:
    """For each column its encoder and whether it is text."""
    known = _recent.get(id(schema))
    if known is not None and known[0] is schema:
        return known[1]
    if len(_recent) >= MOST_RECENT:
        _recent.clear()
    encoders = [(encoder_of(type_), type_.is_text) for type_ in schema.types]
    _recent[id(schema)] = schema, encoders
    return encoders


def encode_records(records: Sequence[Mapping[str, Any]], schema: Schema, dictionary: Dictionary) -> Words:
    """Rows given as dicts from column name (in any case) to value, as words ``int64[ncols, n]``.

    Raises ProgrammingError for a missing or unknown name, else as :func:`encode_rows`.
    """
    names = [name.lower() for name in schema.names]
    rows = []
    for number, record in enumerate(records):
        folded = {str(name).lower(): value for name, value in record.items()}
        unknown = [name for name in record if str(name).lower() not in names]
        missing = [name for name in schema.names if name.lower() not in folded]
        if unknown or missing:
            what = f"has unknown column {unknown[0]}" if unknown else f"lacks column {missing[0]}"
            raise ProgrammingError(
                f"row {number + 1} {what}", hint=f"the columns are {', '.join(schema.names)}"
            )
        rows.append([folded[name] for name in names])
    return encode_rows(rows, schema, dictionary)


def encode_values(values: Sequence[Any], column: ColumnDef, dictionary: Dictionary) -> Words | list[int]:
    """The words of one column's Python values; errors as :func:`encode_rows`."""
    return _encode(values, column, encoder_of(column.type), column.type.is_text, dictionary)


def _encode(
    values: Sequence[Any], column: ColumnDef, encoder: Encoder, is_text: bool, dictionary: Dictionary
) -> Words | list[int]:
    try:
        encoded = [NULL if value is None else encoder(value) for value in values]
    except (Unfit, Mistyped):
        raise _value_error(values, column) from None
    if not is_text:
        return encoded
    if len(values) <= FEW_STRINGS:
        return [NULL if value is None else dictionary.code(value) for value in values]
    return dictionary.intern(values)


def _value_error(values: Sequence[Any], column: ColumnDef) -> DataError | ProgrammingError:
    encoder = encoder_of(column.type)
    for number, value in enumerate(values):
        place = f"row {number + 1}, column {column.name}"
        try:
            if value is not None:
                encoder(value)
        except Unfit:
            return DataError(f"{place}: value {value!r} does not fit {column.type}")
        except Mistyped:
            return ProgrammingError(
                f"{place}: value {value!r} is a {type(value).__name__}, expected {column.type}",
                hint=f"give {_expected(column.type)}",
            )
    raise AssertionError("no value was refused")


def _expected(type_: Type) -> str:
    match type_.kind:
        case Kind.BOOLEAN:
            return "a bool"
        case Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT | Kind.ROWID:
            return "an int"
        case Kind.DECIMAL:
            return "a Decimal, an int, or a text such as '2.50'"
        case Kind.REAL | Kind.DOUBLE:
            return "a float"
        case Kind.DATE:
            return "a datetime.date, or a text such as '1998-12-01'"
        case Kind.TIMESTAMP:
            return "a datetime.datetime without time zone, or a text such as '1998-12-01 12:30:00'"
        case Kind.INTERVAL_MONTH:
            return "a number of months (int)"
        case Kind.INTERVAL_DAY:
            return "a datetime.timedelta"
        case Kind.CHAR | Kind.VARCHAR:
            return "a str"
        case Kind.NULL:
            return "None"
        case _:
            assert_never(type_.kind)


@functools.cache
def encoder_of(type_: Type) -> Encoder:
    """The function from a Python value (not None) to its word; it raises Unfit or Mistyped.

    For text it only checks the value and returns 0: codes come from the dictionary, many at once.
    """
    match type_.kind:
        case Kind.BOOLEAN:
            return _boolean
        case Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT:
            return functools.partial(_integer, *INTEGER_LIMITS[type_.kind])
        case Kind.ROWID | Kind.INTERVAL_MONTH:
            return functools.partial(_integer, *INTEGER_LIMITS[Kind.BIGINT])
        case Kind.DECIMAL:
            return functools.partial(_decimal, type_.scale, 10**type_.precision)
        case Kind.REAL:
            return _real
        case Kind.DOUBLE:
            return _double
        case Kind.DATE:
            return _date
        case Kind.TIMESTAMP:
            return _timestamp
        case Kind.INTERVAL_DAY:
            return _interval
        case Kind.CHAR | Kind.VARCHAR:
            return functools.partial(_text, type_.precision)
        case Kind.NULL:
            return _nothing
        case _:
            assert_never(type_.kind)


def _boolean(value: Any) -> int:
    if value is True or value is False or isinstance(value, np.bool_):
        return int(value)
    raise Mistyped


def _integer(low: int, high: int, value: Any) -> int:
    if type(value) is not int:
        value = _whole(value)
    if low <= value <= high:
        return int(value)
    raise Unfit


def _whole(value: Any) -> int:
    """An integer given as another numeric type, provided it is whole."""
    if isinstance(value, (bool, np.bool_)):
        raise Mistyped
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating, decimal.Decimal)):
        if math.isfinite(value) and value == int(value):
            return int(value)
        raise Unfit
    raise Mistyped


def _decimal(scale: int, limit: int, value: Any) -> int:
    if isinstance(value, decimal.Decimal):
        if not value.is_finite() or value.adjusted() > 40:
            raise Unfit
        scaled = value.scaleb(scale, WIDE)
        word = int(scaled)
        if word != scaled:
            raise Unfit
    elif isinstance(value, str):
        return _decimal(scale, limit, _parsed(decimal.Decimal, value))
    elif isinstance(value, (float, np.floating)):
        word = decimal_of_float(float(value), scale)
    else:
        word = _whole(value) * 10**scale
    if -limit < word < limit:
        return word
    raise Unfit


def decimal_of_float(value: float, scale: int) -> int:
    """The ``w`` for which ``value`` is the double nearest to ``w / 10**scale``; Unfit if there is none.

    Only up to 2**53, where no two such ``w`` share a double.
    """
    scaled = value * 10.0**scale
    if not abs(scaled) <= EXACT_FLOAT or round(scaled) / 10.0**scale != value:
        raise Unfit
    return round(scaled)


def _double(value: Any) -> int:
    if isinstance(value, (bool, np.bool_)) or not isinstance(
        value, (float, int, np.floating, np.integer, decimal.Decimal)
    ):
        raise Mistyped
    try:
        return float_to_word(float(value))
    except OverflowError:
        raise Unfit from None


def _real(value: Any) -> int:
    word = _double(value)
    try:
        (rounded,) = struct.unpack("<f", struct.pack("<f", word_to_float(word)))
    except OverflowError:
        raise Unfit from None
    return float_to_word(rounded)


def _parsed(parse: Callable[[str], Any], text: str) -> Any:
    """What a text means; Unfit if nothing."""
    try:
        return parse(text)
    except (ValueError, decimal.InvalidOperation):
        raise Unfit from None


def _date(value: Any) -> int:
    if isinstance(value, str):
        value = _parsed(datetime.date.fromisoformat, value)
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None or value.time() != datetime.time():
            raise Unfit
    elif not isinstance(value, datetime.date):
        raise Mistyped
    return value.toordinal() - EPOCH_DAY


def _timestamp(value: Any) -> int:
    if isinstance(value, str):
        value = _parsed(datetime.datetime.fromisoformat, value)
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            if value.utcoffset():
                raise Unfit
            value = value.replace(tzinfo=None)
        return (value - EPOCH) // MICROSECOND
    return _date(value) * 86_400_000_000


def _interval(value: Any) -> int:
    if not isinstance(value, datetime.timedelta):
        raise Mistyped
    return value // MICROSECOND


def _text(limit: int, value: Any) -> int:
    if not isinstance(value, str):
        raise Mistyped
    if limit and len(value) > limit:
        raise Unfit
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise Unfit
    return 0


def _nothing(value: Any) -> int:
    raise Mistyped
