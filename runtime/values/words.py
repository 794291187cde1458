"""Python values to words and back, for types whose words are the values: one value at a time."""

import datetime
import decimal
import functools
import math
import struct
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from kpg.runtime.errors import DataError
from kpg.runtime.types import MAX_WORD, MIN_WORD, Kind, Type, float_to_word, word_to_float
from kpg.runtime.values.calendars import Beyond, beyond

Encoder = Callable[[Any], int]

BLANKS: Final = " \t\n\v\f\r"
"""What may stand around the text of a value: Unicode's other spaces are part of it."""

EPOCH: Final = datetime.datetime(1970, 1, 1)
EPOCH_DAY: Final = EPOCH.toordinal()
MICROSECOND: Final = datetime.timedelta(microseconds=1)
DAY: Final = 86_400_000_000
"""Microseconds of a day."""
INTEGER_LIMITS: Final = {
    Kind.SMALLINT: (-(2**15), 2**15 - 1),
    Kind.INTEGER: (-(2**31), 2**31 - 1),
    Kind.BIGINT: (MIN_WORD, MAX_WORD),
}
MOST_ISO: Final = len("2004-10-19 10:23:54.123456")
EXACT_FLOAT: Final = 2**53
"""Doubles up to it hold every whole number exactly."""
WIDE: Final = decimal.Context(prec=80, traps=[decimal.InvalidOperation])
"""Many more digits than the 18 of a DECIMAL, so that scaling does not round what is to be checked."""


class Unfit(Exception):
    """A value that its column's type cannot hold; the encoder's caller knows where it stands."""


class Mistyped(Exception):
    """A value of a Python type that its column's type does not take."""


def python_of(word: int, type_: Type) -> Any:
    """The Python value of a word (not NULL nor ERROR) that is no code; an INTERVAL MONTH is a number.

    Moments beyond Python's years are its last or first, shown as what they are (``calendars.Beyond``).
    """
    match type_.kind:
        case Kind.BOOLEAN:
            return word != 0
        case Kind.DECIMAL:
            return decimal.Decimal(word).scaleb(-type_.scale, WIDE)
        case Kind.REAL | Kind.DOUBLE:
            return word_to_float(word)
        case Kind.ENUM:
            return type_.labels[word]
        case Kind.TID:
            from kpg.runtime.values import places

            return places.show(word)
        case Kind.DATE | Kind.TIMESTAMP | Kind.TIMESTAMPTZ | Kind.TIME | Kind.INTERVAL_DAY:
            return _to_time(word, type_)
        case _:
            return word


def _to_time(word: int, type_: Type) -> datetime.date | datetime.time | datetime.timedelta:
    try:
        match type_.kind:
            case Kind.DATE:
                return datetime.date.fromordinal(EPOCH_DAY + word)
            case Kind.TIMESTAMP:
                return EPOCH + datetime.timedelta(microseconds=word)
            case Kind.TIMESTAMPTZ:
                return (EPOCH + datetime.timedelta(microseconds=word)).replace(tzinfo=datetime.UTC)
            case Kind.TIME:
                return (EPOCH + datetime.timedelta(microseconds=word)).time()
            case _:
                return datetime.timedelta(microseconds=word)
    except (OverflowError, ValueError):
        if type_.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
            return beyond(word, type_)
        raise DataError(
            f"{type_} word {word} is beyond what Python can hold", hint="fetch the result as Arrow instead"
        ) from None


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
    from kpg.runtime.values import places

    if not isinstance(value, str):
        raise Mistyped
    try:
        return places.parse(value)
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
        from kpg.runtime.values import numeric

        return _decimal(scale, limit, _parsed(numeric.parse, value))
    elif isinstance(value, (float, np.floating)):
        word = decimal_of_float(float(value), scale)
    else:
        word = _whole(value) * 10**scale
    if -limit < word < limit:
        return word
    raise Unfit


def decimal_of_float(value: float, scale: int) -> int:
    """The ``w`` for which ``value`` is the double nearest to ``w / 10**scale``, else that of its 15 digits.

    Only up to 2**53, where no two such ``w`` share a double: Unfit beyond it.
    """
    scaled = value * 10.0**scale
    if not abs(scaled) <= EXACT_FLOAT:
        raise Unfit
    if round(scaled) / 10.0**scale == value:
        return round(scaled)
    digits = decimal.Decimal(f"{value:.15g}").scaleb(scale, WIDE)
    return int(digits.to_integral_value(decimal.ROUND_HALF_UP))


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
        from kpg.runtime.values import moments  # for the many other forms

        return moments.parse_date(text)


def parse_timestamp(text: str) -> int:
    """The date and time that a text means, its time zone left out; ValueError if none."""
    try:
        if len(text) > MOST_ISO:
            raise ValueError("more digits than Python would round")
        return (datetime.datetime.fromisoformat(text).replace(tzinfo=None) - EPOCH) // MICROSECOND
    except ValueError:
        from kpg.runtime.values import moments

        return moments.parse_timestamp(text)


def parse_instant(text: str) -> int:
    """The instant that a text means; ValueError if none."""
    from kpg.runtime.values import moments

    return moments.parse_instant(text)


def parse_time(text: str) -> int:
    """The time of day that a text means; ValueError if none."""
    from kpg.runtime.values import moments

    return moments.parse_time(text)


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
