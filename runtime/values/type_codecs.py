"""The codecs of all types; those whose values are words are defined here.

A word type has an encoder (from a Python object to its word), a parser and a formatter. Modules of rare types
load on first use of a codec, because every start imports this module.
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
from kpg.runtime.values.codec import Codec, ordered, register_codec, unordered, word_functions
from kpg.runtime.values.words import (
    BLANKS,
    DAY,
    EPOCH,
    EPOCH_DAY,
    FALSE_WORDS,
    INTEGER_LIMITS,
    MICROSECOND,
    TRUE_WORDS,
    WIDE,
    Beyond,
    Mistyped,
    Unfit,
    decimal_of_float,
    limits,
    parse_float,
    parse_real,
    parse_tid,
    parse_whole,
    python_of,
    show_tid,
    shown_date,
    shown_double,
    shown_real,
    shown_stamp,
)


@register_codec(*(kind for kind in Kind if kind not in INTERNED_KINDS))
def _words(type_: Type) -> Codec:
    to_word, from_word = word_functions(type_)
    encode = encoder_of(type_)
    return Codec(
        encode=lambda value: ordered(to_word(value)),
        decode=lambda string: from_word(unordered(string)),
        parse=parser(type_),
        show=formatter(type_),
        to_python=lambda value: python_of(to_word(value), type_),
        from_python=lambda value: from_word(encode(value)),
        expected=expected(type_),
    )


Encoder = Callable[[Any], int]


MOST_ISO: Final = len("2004-10-19 10:23:54.123456")


@functools.cache
def encoder_of(type_: Type) -> Encoder:
    """The function from a Python value (not None) to its word, no code; it raises Unfit or Mistyped."""
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
        case Kind.TIMESTAMPTZ:
            return _instant
        case Kind.TIME:
            return _time
        case Kind.INTERVAL_DAY:
            return _interval
        case Kind.TID:
            return _place
        case Kind.ENUM:
            return functools.partial(_label, {label: place for place, label in enumerate(type_.labels)})
        case Kind.NULL:
            return _nothing
        case _:
            raise AssertionError(f"values of {type_} are no words")


def _place(value: Any) -> int:

    if not isinstance(value, str):
        raise Mistyped
    try:
        return parse_tid(value)
    except ValueError:
        raise Unfit from None


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
            word = int(scaled.to_integral_value(decimal.ROUND_HALF_UP))
    elif isinstance(value, str):
        return _decimal(scale, limit, _parsed(numeric.parse, value))
    elif isinstance(value, (float, np.floating)):
        word = decimal_of_float(float(value), scale)
    else:
        word = _whole(value) * 10**scale
    if -limit < word < limit:
        return word
    raise Unfit


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
    except (ValueError, ArithmeticError):
        raise Unfit from None


def parse_date(text: str) -> int:
    """The day that a text means; ValueError if none."""
    try:
        return datetime.date.fromisoformat(text).toordinal() - EPOCH_DAY
    except ValueError:
        from kpg.runtime.values import date_time  # lazy: 15 ms of start-up

        return date_time.parse_date(text)


def parse_timestamp(text: str) -> int:
    """The date and time that a text means, its time zone left out; ValueError if none."""
    try:
        if len(text) > MOST_ISO:
            raise ValueError("more digits than Python would round")
        return (datetime.datetime.fromisoformat(text).replace(tzinfo=None) - EPOCH) // MICROSECOND
    except ValueError:
        from kpg.runtime.values import date_time  # lazy: 15 ms of start-up

        return date_time.parse_timestamp(text)


def parse_instant(text: str) -> int:
    """The instant that a text means; ValueError if none."""
    from kpg.runtime.values import date_time  # lazy: 15 ms of start-up

    return date_time.parse_instant(text)


def parse_time(text: str) -> int:
    """The time of day that a text means; ValueError if none."""
    from kpg.runtime.values import date_time  # lazy: 15 ms of start-up

    return date_time.parse_time(text)


def _date(value: Any) -> int:
    if isinstance(value, str):
        return int(_parsed(parse_date, value))
    if isinstance(value, Beyond):
        return value.word
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None or value.time() != datetime.time():
            raise Unfit
    elif not isinstance(value, datetime.date):
        raise Mistyped
    return value.toordinal() - EPOCH_DAY


def _timestamp(value: Any) -> int:
    if isinstance(value, str):
        return int(_parsed(parse_timestamp, value))
    if isinstance(value, Beyond):
        return value.word
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            if value.utcoffset():
                raise Unfit
            value = value.replace(tzinfo=None)
        return (value - EPOCH) // MICROSECOND
    return _date(value) * DAY


def _instant(value: Any) -> int:
    if isinstance(value, str):
        return int(_parsed(parse_instant, value))
    if isinstance(value, Beyond):
        return value.word
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return (value.astimezone(datetime.UTC).replace(tzinfo=None) - EPOCH) // MICROSECOND
    return _timestamp(value)


def _time(value: Any) -> int:
    if isinstance(value, str):
        return int(_parsed(parse_time, value))
    if not isinstance(value, datetime.time):
        raise Mistyped
    if value.tzinfo is not None:
        raise Unfit
    return (datetime.datetime.combine(EPOCH, value) - EPOCH) // MICROSECOND


def _interval(value: Any) -> int:
    if not isinstance(value, datetime.timedelta):
        raise Mistyped
    return value // MICROSECOND


def _label(places: dict[str, int], value: Any) -> int:
    if not isinstance(value, str):
        raise Mistyped
    if value not in places:
        raise Unfit
    return places[value]


def _nothing(value: Any) -> int:
    raise Mistyped


CONTEXT = decimal.Context(prec=60, rounding=decimal.ROUND_HALF_UP)
"""More digits than a word of any scale has."""


def _checked(value: int, type_: Type) -> int:
    low, high = limits(type_)
    if not low <= value <= high:
        raise ValueError("out of range")
    return value


def parser(target: Type) -> Callable[[str], object]:
    """The function that reads a value of a type of words from text; it raises ValueError."""
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
            return functools.partial(_read, encoder_of(target))
        case Kind.TID:
            return parse_tid
        case Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT:
            return lambda text: _checked(parse_whole(text), target)
        case _:
            return lambda text: _checked(_parse_number(text, target.scale), target)


def _read(encode: Callable[[object], int], text: str) -> int:
    try:
        return encode(text)
    except Unfit:
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
    return int(value.scaleb(scale, CONTEXT).to_integral_value(decimal.ROUND_HALF_UP, CONTEXT))


def formatter(source: Type) -> Callable[..., str]:
    """The function that writes a value of a type (as ``Memoized`` functions take it) as text."""
    match source.kind:
        case Kind.BOOLEAN:
            return lambda value: "true" if value else "false"
        case Kind.DECIMAL:
            return lambda value: f"{decimal.Decimal(value).scaleb(-source.scale, CONTEXT):f}"
        case Kind.DATE:
            return shown_date
        case Kind.TIMESTAMP:
            return shown_stamp
        case Kind.TIMESTAMPTZ:
            return lambda value: shown_stamp(value, "+00")
        case Kind.TIME:
            return intervals.clock
        case Kind.ENUM:
            return lambda value: source.labels[value]
        case Kind.TID:
            return show_tid
        case Kind.INTERVAL_DAY:
            return lambda value: intervals.shown(intervals.of_microseconds(value))
        case Kind.INTERVAL_MONTH:
            return lambda value: intervals.shown(intervals.Interval(value, 0, 0))
        case Kind.REAL:
            return shown_real
        case Kind.DOUBLE:
            return shown_double
        case _:
            return str


def expected(type_: Type) -> str:
    """What Python objects a type of words takes."""
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
def _intervals(type_: Type) -> Codec:
    return intervals.codec()


@register_codec(Kind.RECORD)
def _rows(type_: Type) -> Codec:
    from kpg.runtime.values import row_values  # lazy: few programs have such values

    return row_values.codec(type_)


@register_codec(Kind.JSON, Kind.JSONB)
def _jsons(type_: Type) -> Codec:
    return jsons.jsons() if type_.kind is Kind.JSON else jsons.jsonbs()


@register_codec(Kind.UUID, Kind.BYTEA)
def _bytes(type_: Type) -> Codec:
    from kpg.runtime.values import byte_strings  # lazy: few programs have such values

    return byte_strings.uuids() if type_.kind is Kind.UUID else byte_strings.byteas()


@register_codec(Kind.BIT, Kind.VARBIT)
def _bits(type_: Type) -> Codec:
    from kpg.runtime.values import byte_strings  # lazy: few programs have such values

    return byte_strings.codec(type_)


@register_codec(Kind.TIMETZ, Kind.PG_LSN)
def _zoned_times(type_: Type) -> Codec:
    from kpg.runtime.values import date_time  # lazy: 15 ms of start-up

    return date_time.codec(type_)


@register_codec(Kind.INET, Kind.CIDR, Kind.MACADDR, Kind.MACADDR8)
def _networks(type_: Type) -> Codec:
    from kpg.runtime.values import networks  # lazy: 5 ms of start-up

    return networks.codec(type_)


@register_codec(Kind.RANGE, Kind.MULTIRANGE)
def _ranges(type_: Type) -> Codec:
    from kpg.runtime.values import ranges  # lazy: 5 ms of start-up

    return ranges.codec(type_)
