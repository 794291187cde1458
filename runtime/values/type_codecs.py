"""The codecs of all types. Those whose values are words are defined here.

A word type has an encoder (from a Python object to its word), a parser and a formatter. Modules of rare
types load on first use of a codec, because every start imports this module.
"""

import datetime
import decimal
import functools
import math
import struct
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from kpg.runtime.types import INTERNED_KINDS, Kind, Type, float_to_word, word_to_float
from kpg.runtime.values import arrays, intervals, jsons, numeric
from kpg.runtime.values.codec import Codec, decode_integer, encode_integer, register_codec, word_functions
from kpg.runtime.values.words import (
    BLANKS,
    DAY,
    EPOCH,
    EPOCH_DAY,
    FALSE_WORDS,
    INTEGER_LIMITS,
    MICROSECOND,
    TRUE_WORDS,
    WIDE_CONTEXT,
    OutOfRangeMoment,
    UnrepresentableValue,
    WrongPythonType,
    decimal_of_float,
    limits,
    parse_float,
    parse_integer,
    parse_real,
    parse_tid,
    show_double,
    show_iso_date,
    show_iso_timestamp,
    show_real,
    show_tid,
    word_text,
    word_to_python,
)


@register_codec(*(kind for kind in Kind if kind not in INTERNED_KINDS))
def _word_codec(type_: Type) -> Codec:
    to_word, from_word = word_functions(type_)
    encode = encoder_of(type_)
    return Codec(
        encode=lambda value: encode_integer(to_word(value)),
        decode=lambda string: from_word(decode_integer(string)),
        parse=parser(type_),
        show=formatter(type_),
        to_python=lambda value: word_to_python(to_word(value), type_),
        from_python=lambda value: from_word(encode(value)),
        input_hint=input_hint(type_),
    )


Encoder = Callable[[Any], int]


MAX_ISO_LENGTH: Final = len("2004-10-19 10:23:54.123456")


@functools.cache
def encoder_of(type_: Type) -> Encoder:
    """Return the function from a non-None Python value to its word, for a word type.

    It raises UnrepresentableValue or WrongPythonType.
    """
    match type_.kind:
        case Kind.BOOLEAN:
            return _encode_boolean
        case Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT:
            return functools.partial(_encode_integer, *INTEGER_LIMITS[type_.kind])
        case Kind.ROWID | Kind.INTERVAL_MONTH:
            return functools.partial(_encode_integer, *INTEGER_LIMITS[Kind.BIGINT])
        case Kind.DECIMAL:
            return functools.partial(_encode_decimal, type_.scale, 10**type_.precision)
        case Kind.REAL:
            return _encode_real
        case Kind.DOUBLE:
            return _encode_double
        case Kind.DATE:
            return _encode_date
        case Kind.TIMESTAMP:
            return _encode_timestamp
        case Kind.TIMESTAMPTZ:
            return _encode_instant
        case Kind.TIME:
            return _encode_time
        case Kind.INTERVAL_DAY:
            return _encode_interval
        case Kind.TID:
            return _encode_tid
        case Kind.ENUM:
            return functools.partial(
                _encode_label, {label: place for place, label in enumerate(type_.labels)}
            )
        case Kind.EXTENSION:
            return functools.partial(_encode_extension_text, type_)
        case Kind.NULL:
            return _reject_value
        case _:
            raise AssertionError(f"values of {type_} are not words")


def _encode_tid(value: Any) -> int:

    if not isinstance(value, str):
        raise WrongPythonType
    try:
        return parse_tid(value)
    except ValueError:
        raise UnrepresentableValue from None


def _encode_boolean(value: Any) -> int:
    if value is True or value is False or isinstance(value, np.bool_):
        return int(value)
    raise WrongPythonType


def _encode_integer(low: int, high: int, value: Any) -> int:
    if type(value) is not int:
        value = _to_integer(value)
    if low <= value <= high:
        return int(value)
    raise UnrepresentableValue


def _to_integer(value: Any) -> int:
    """Return the integer of a whole number of any numeric Python type."""
    if isinstance(value, (bool, np.bool_)):
        raise WrongPythonType
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating, decimal.Decimal)):
        if math.isfinite(value) and value == int(value):
            return int(value)
        raise UnrepresentableValue
    raise WrongPythonType


def _encode_decimal(scale: int, limit: int, value: Any) -> int:
    if isinstance(value, decimal.Decimal):
        if not value.is_finite() or value.adjusted() > 40:
            raise UnrepresentableValue
        scaled = value.scaleb(scale, WIDE_CONTEXT)
        word = int(scaled)
        if word != scaled:
            word = int(scaled.to_integral_value(decimal.ROUND_HALF_UP))
    elif isinstance(value, str):
        return _encode_decimal(scale, limit, _parse_text(numeric.parse, value))
    elif isinstance(value, (float, np.floating)):
        word = decimal_of_float(float(value), scale)
    else:
        word = _to_integer(value) * 10**scale
    if -limit < word < limit:
        return word
    raise UnrepresentableValue


def _encode_double(value: Any) -> int:
    if isinstance(value, (bool, np.bool_)) or not isinstance(
        value, (float, int, np.floating, np.integer, decimal.Decimal)
    ):
        raise WrongPythonType
    try:
        return float_to_word(float(value))
    except OverflowError:
        raise UnrepresentableValue from None


def _encode_real(value: Any) -> int:
    word = _encode_double(value)
    try:
        (rounded,) = struct.unpack("<f", struct.pack("<f", word_to_float(word)))
    except OverflowError:
        raise UnrepresentableValue from None
    return float_to_word(rounded)


def _parse_text(parse: Callable[[str], Any], text: str) -> Any:
    """Parse a text, and raise UnrepresentableValue for invalid text."""
    try:
        return parse(text)
    except (ValueError, ArithmeticError):
        raise UnrepresentableValue from None


def parse_date(text: str) -> int:
    """Parse a date.

    Raises:
        ValueError: The text is not a date.
    """
    try:
        return datetime.date.fromisoformat(text).toordinal() - EPOCH_DAY
    except ValueError:
        from kpg.runtime.values import date_time  # lazy: 15 ms of start-up

        return date_time.parse_date(text)


def parse_timestamp(text: str) -> int:
    """Parse a date and time. A time zone is ignored.

    Raises:
        ValueError: The text is not a timestamp.
    """
    try:
        if len(text) > MAX_ISO_LENGTH:
            raise ValueError("more digits than Python would round")
        return (datetime.datetime.fromisoformat(text).replace(tzinfo=None) - EPOCH) // MICROSECOND
    except ValueError:
        from kpg.runtime.values import date_time  # lazy: 15 ms of start-up

        return date_time.parse_timestamp(text)


def parse_instant(text: str) -> int:
    """Parse an instant.

    Raises:
        ValueError: The text is not an instant.
    """
    from kpg.runtime.values import date_time  # lazy: 15 ms of start-up

    return date_time.parse_instant(text)


def parse_time(text: str) -> int:
    """Parse a time of day.

    Raises:
        ValueError: The text is not a time.
    """
    from kpg.runtime.values import date_time  # lazy: 15 ms of start-up

    return date_time.parse_time(text)


def _encode_date(value: Any) -> int:
    if isinstance(value, str):
        return int(_parse_text(parse_date, value))
    if isinstance(value, OutOfRangeMoment):
        return value.word
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None or value.time() != datetime.time():
            raise UnrepresentableValue
    elif not isinstance(value, datetime.date):
        raise WrongPythonType
    return value.toordinal() - EPOCH_DAY


def _encode_timestamp(value: Any) -> int:
    if isinstance(value, str):
        return int(_parse_text(parse_timestamp, value))
    if isinstance(value, OutOfRangeMoment):
        return value.word
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            if value.utcoffset():
                raise UnrepresentableValue
            value = value.replace(tzinfo=None)
        return (value - EPOCH) // MICROSECOND
    return _encode_date(value) * DAY


def _encode_instant(value: Any) -> int:
    if isinstance(value, str):
        return int(_parse_text(parse_instant, value))
    if isinstance(value, OutOfRangeMoment):
        return value.word
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return (value.astimezone(datetime.UTC).replace(tzinfo=None) - EPOCH) // MICROSECOND
    return _encode_timestamp(value)


def _encode_time(value: Any) -> int:
    if isinstance(value, str):
        return int(_parse_text(parse_time, value))
    if not isinstance(value, datetime.time):
        raise WrongPythonType
    if value.tzinfo is not None:
        raise UnrepresentableValue
    return (datetime.datetime.combine(EPOCH, value) - EPOCH) // MICROSECOND


def _encode_interval(value: Any) -> int:
    if not isinstance(value, datetime.timedelta):
        raise WrongPythonType
    return value // MICROSECOND


def _encode_label(positions: dict[str, int], value: Any) -> int:
    if not isinstance(value, str):
        raise WrongPythonType
    if value not in positions:
        raise UnrepresentableValue
    return positions[value]


def _encode_extension_text(type_: Type, value: Any) -> int:
    if not isinstance(value, str):
        raise WrongPythonType
    try:
        return _parse_extension_text(type_, value)
    except ValueError:
        raise UnrepresentableValue from None


def _parse_extension_text(type_: Type, text: str) -> int:
    """Return the word of a text. Any exception of the extension means that the text is invalid."""
    parse = word_text(type_).parse
    try:
        return _check_limits(int(parse(text)), type_)
    except Exception as error:
        raise ValueError(str(error)) from error


def _reject_value(value: Any) -> int:
    raise WrongPythonType


TEXT_CONTEXT = decimal.Context(prec=60, rounding=decimal.ROUND_HALF_UP)
"""Decimal context with more digits than a word of any scale."""


def _check_limits(value: int, type_: Type) -> int:
    low, high = limits(type_)
    if not low <= value <= high:
        raise ValueError("out of range")
    return value


def parser(target: Type) -> Callable[[str], object]:
    """Return the function that parses a value of a word type. It raises ValueError."""
    match target.kind:
        case Kind.BOOLEAN:
            return _parse_boolean
        case Kind.REAL | Kind.DOUBLE:
            return parse_real if target.kind is Kind.REAL else parse_float
        case Kind.DATE:
            return parse_date
        case Kind.TIMESTAMP:
            return parse_timestamp
        case Kind.TIMESTAMPTZ | Kind.TIME:
            return parse_instant if target.kind is Kind.TIMESTAMPTZ else parse_time
        case Kind.ENUM:
            return functools.partial(_parse_label, encoder_of(target))
        case Kind.TID:
            return parse_tid
        case Kind.EXTENSION:
            return functools.partial(_parse_extension_text, target)
        case Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT:
            return lambda text: _check_limits(parse_integer(text), target)
        case _:
            return lambda text: _check_limits(_parse_number(text, target.scale), target)


def _parse_label(encode: Callable[[object], int], text: str) -> int:
    try:
        return encode(text)
    except UnrepresentableValue:
        raise ValueError("no such value") from None


def _parse_boolean(text: str) -> bool:
    word = text.strip(BLANKS).lower()
    if word in TRUE_WORDS or word in FALSE_WORDS:
        return word in TRUE_WORDS
    raise ValueError("not a boolean")


def _parse_number(text: str, scale: int) -> int:
    value = numeric.parse(text)
    if not value.is_finite() or value.adjusted() > 30:
        raise ValueError("out of range")
    return int(value.scaleb(scale, TEXT_CONTEXT).to_integral_value(decimal.ROUND_HALF_UP, TEXT_CONTEXT))


def formatter(source: Type) -> Callable[..., str]:
    """Return the function that formats a value of a word type."""
    match source.kind:
        case Kind.BOOLEAN:
            return lambda value: "true" if value else "false"
        case Kind.DECIMAL:
            return lambda value: f"{decimal.Decimal(value).scaleb(-source.scale, TEXT_CONTEXT):f}"
        case Kind.DATE:
            return show_iso_date
        case Kind.TIMESTAMP:
            return show_iso_timestamp
        case Kind.TIMESTAMPTZ:
            return lambda value: show_iso_timestamp(value, "+00")
        case Kind.TIME:
            return intervals.show_clock
        case Kind.ENUM:
            return lambda value: source.labels[value]
        case Kind.TID:
            return show_tid
        case Kind.EXTENSION:
            return lambda value: word_text(source).show(value)
        case Kind.INTERVAL_DAY:
            return lambda value: intervals.show(intervals.from_microseconds(value))
        case Kind.INTERVAL_MONTH:
            return lambda value: intervals.show(intervals.Interval(value, 0, 0))
        case Kind.REAL:
            return show_real
        case Kind.DOUBLE:
            return show_double
        case _:
            return str


def input_hint(type_: Type) -> str:
    """Return a description of the accepted Python objects of a word type."""
    match type_.kind:
        case Kind.BOOLEAN:
            return "a bool"
        case Kind.DECIMAL:
            return "a Decimal, an int, or a text such as '2.50'"
        case Kind.REAL | Kind.DOUBLE:
            return "a float"
        case Kind.DATE:
            return "a datetime.date, or a text such as '1998-12-01'"
        case Kind.TIMESTAMP:
            return "a datetime.datetime without time zone, or a text such as '1998-12-01 12:30:00'"
        case Kind.TIMESTAMPTZ:
            return "a datetime.datetime, or a text such as '1998-12-01 12:30:00+02:00'"
        case Kind.TIME:
            return "a datetime.time without time zone, or a text such as '12:30:00'"
        case Kind.ENUM:
            return f"one of {', '.join(map(repr, type_.labels))}"
        case Kind.TID:
            return "a text such as '(0,1)'"
        case Kind.EXTENSION:
            return f"a text that is a value of {type_.name}"
        case Kind.INTERVAL_MONTH:
            return "a number of months (int)"
        case Kind.INTERVAL_DAY:
            return "a datetime.timedelta"
        case Kind.NULL:
            return "None"
        case _:
            return "an int"


register_codec(Kind.NUMERIC)(numeric.codec)
register_codec(Kind.ARRAY)(arrays.codec)


@register_codec(Kind.INTERVAL)
def _interval_codec(type_: Type) -> Codec:
    return intervals.codec()


@register_codec(Kind.RECORD)
def _row_codec(type_: Type) -> Codec:
    from kpg.runtime.values import row_values  # lazy: few programs have such values

    return row_values.codec(type_)


@register_codec(Kind.JSON, Kind.JSONB)
def _json_codec(type_: Type) -> Codec:
    return jsons.json_codec() if type_.kind is Kind.JSON else jsons.jsonb_codec()


@register_codec(Kind.UUID, Kind.BYTEA)
def _byte_codec(type_: Type) -> Codec:
    from kpg.runtime.values import byte_strings  # lazy: few programs have such values

    return byte_strings.uuid_codec() if type_.kind is Kind.UUID else byte_strings.bytea_codec()


@register_codec(Kind.BIT, Kind.VARBIT)
def _bit_codec(type_: Type) -> Codec:
    from kpg.runtime.values import byte_strings  # lazy: few programs have such values

    return byte_strings.codec(type_)


@register_codec(Kind.TIMETZ, Kind.PG_LSN)
def _timetz_or_lsn_codec(type_: Type) -> Codec:
    from kpg.runtime.values import date_time  # lazy: 15 ms of start-up

    return date_time.codec(type_)


@register_codec(Kind.INET, Kind.CIDR, Kind.MACADDR, Kind.MACADDR8)
def _network_codec(type_: Type) -> Codec:
    from kpg.runtime.values import networks  # lazy: 5 ms of start-up

    return networks.codec(type_)


@register_codec(Kind.RANGE, Kind.MULTIRANGE)
def _range_codec(type_: Type) -> Codec:
    from kpg.runtime.values import ranges  # lazy: 5 ms of start-up

    return ranges.codec(type_)
