"""Scalar conversions of types whose values are words: numbers, moments and TIDs, one value at a time.

* Moments outside the years of Python's calendar (BC, after 9999, infinite) are :class:`Beyond` objects. Year
  0 is 1 BC. The words of the infinities are next to the limits of a word.
* A TID word is block times 65,536 plus offset. A block has ``BLOCK`` rows and offsets start at 1, so TIDs
  order as rowids do.
* Numbers: parsing, shortest text, and the limits of each type. ``type_codecs`` combines these into codecs.
"""

import datetime
import decimal
import math
import re
from typing import Any, Final

import numpy as np

from kpg.runtime.errors import DataError
from kpg.runtime.types import MAX_WORD, MIN_WORD, Kind, Type, word_to_float

DAY: Final = 86_400_000_000


LATEST: Final = MAX_WORD - 2
"""The word of ``infinity``, of dates and timestamps."""
EARLIEST: Final = MIN_WORD + 2
"""The word of ``-infinity``. Words beyond them are taken by NULLs, where words say an order."""
ENDS: Final = {"infinity": LATEST, "+infinity": LATEST, "-infinity": EARLIEST}
FIRST_DAY, LAST_DAY = -2_440_588, 106_000_000
"""From 4714 BC to the year 292187: days that a timestamp has too."""


def days_of(year: int, month: int, day: int) -> int:
    """Days since 1970 of a date of any year; ValueError if there is none."""
    if not 1 <= month <= 12 or not 1 <= day <= _length(year, month):
        raise ValueError("date out of range")
    years, march = (year, month - 3) if month > 2 else (year - 1, month + 9)
    days = 365 * years + years // 4 - years // 100 + years // 400 + (march * 306 + 5) // 10 + day - 719_469
    if not FIRST_DAY <= days <= LAST_DAY:
        raise ValueError("date out of range")
    return days


def _length(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of days since 1970."""
    shifted = days + 719_468
    era, of_era = divmod(shifted, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    rest = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    march = (5 * rest + 2) // 153
    month = march + 3 if march < 10 else march - 9
    return era * 400 + year_of_era + (month <= 2), month, rest - (153 * march + 2) // 5 + 1


def is_infinite(word: int) -> bool:
    """Whether it is one of the ends of time."""
    return word in (EARLIEST, LATEST)


def shown_date(days: int) -> str:
    """As Postgres writes it."""
    if is_infinite(days):
        return "infinity" if days > 0 else "-infinity"
    year, month, day = civil(days)
    return f"{year if year > 0 else 1 - year:04d}-{month:02d}-{day:02d}{'' if year > 0 else ' BC'}"


def shown_stamp(word: int, suffix: str = "") -> str:
    """A date and time, without zeros at the end of its fraction; ``suffix``: a time zone."""
    if is_infinite(word):
        return "infinity" if word > 0 else "-infinity"
    days, time = divmod(word, DAY)
    date, _, era = shown_date(days).partition(" ")
    seconds, micros = divmod(time, 1_000_000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    fraction = f".{micros:06d}".rstrip("0") if micros else ""
    return f"{date} {clock}{fraction}{suffix}{' ' if era else ''}{era}"


class Beyond:
    """What Python has for a moment outside its years: its first or last one, shown as what it stands for."""

    __slots__ = ()
    word: int
    text: str

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def isoformat(self, *_: object, **__: object) -> str:
        return self.text


class DateBeyond(Beyond, datetime.date):
    """A DATE before the year 1 or after 9999, or infinite."""

    __slots__ = ("text", "word")


class StampBeyond(Beyond, datetime.datetime):
    """A TIMESTAMP before the year 1 or after 9999, or infinite, with a time zone too."""

    __slots__ = ("text", "word")


def beyond(word: int, type_: Type) -> DateBeyond | StampBeyond:
    """The object of a moment that Python has none for."""
    if type_.kind is Kind.DATE:
        date = DateBeyond(9999, 12, 31) if word > 0 else DateBeyond(1, 1, 1)
        date.word, date.text = word, shown_date(word)
        return date
    zone = datetime.UTC if type_.kind is Kind.TIMESTAMPTZ else None
    end = datetime.datetime.max if word > 0 else datetime.datetime.min
    stamp = StampBeyond(*end.timetuple()[:6], end.microsecond, zone)
    stamp.word, stamp.text = word, shown_stamp(word, "" if zone is None else "+00")
    return stamp


BLOCK: Final = 128
"""So many rows are said to be in a block."""
SPAN: Final = 1 << 16
"""Places of a block that a word can tell."""
MOST: Final = (1 << 48) - 1
FORM: Final = re.compile(r"(?a)[^(,)]*\(\s*(\d{1,10}),\s*(\d{1,5})\)")
"""As Postgres reads it: what is around the parentheses does not count, and DuckDB sends quotes there."""


def parse_tid(text: str) -> int:
    """The word of a text such as ``(0,1)``; ValueError if it is none."""
    found = FORM.match(text)
    if found is None:
        raise ValueError("no place of a row")
    block, place = int(found[1]), int(found[2])
    if block >= 1 << 32 or place >= SPAN:
        raise ValueError("no place of a row")
    return block * SPAN + place


def show_tid(word: int) -> str:
    """As Postgres writes it."""
    return f"({word // SPAN},{word % SPAN})"


BLANKS: Final = " \t\n\v\f\r"
"""What may stand around the text of a value: Unicode's other spaces are part of it."""

EPOCH: Final = datetime.datetime(1970, 1, 1)
EPOCH_DAY: Final = EPOCH.toordinal()
MICROSECOND: Final = datetime.timedelta(microseconds=1)
INTEGER_LIMITS: Final = {
    Kind.SMALLINT: (-(2**15), 2**15 - 1),
    Kind.INTEGER: (-(2**31), 2**31 - 1),
    Kind.BIGINT: (MIN_WORD, MAX_WORD),
}
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
            return show_tid(word)
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


TRUE_WORDS = frozenset({"true", "tru", "tr", "t", "yes", "ye", "y", "on", "1"})
FALSE_WORDS = frozenset({"false", "fals", "fal", "fa", "f", "no", "n", "off", "of", "0"})
FLOAT = re.compile(r"[-+]?(?:(\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|inf|infinity|nan)", re.IGNORECASE | re.ASCII)
SMALLEST_REAL = 2.0**-150
"""Half of the smallest REAL: what is not above it would be 0."""
BEYOND_REAL = 2.0**128 - 2.0**103
"""Half way from the largest REAL to the next power of two: from here on all would be infinite."""


def limits(type_: Type) -> tuple[int, int]:
    """The lowest and the highest word of a type, of moments that are finite."""
    match type_.kind:
        case Kind.SMALLINT:
            return -(2**15), 2**15 - 1
        case Kind.INTEGER:
            return -(2**31), 2**31 - 1
        case Kind.DECIMAL:
            return 1 - 10**type_.precision, 10**type_.precision - 1
        case Kind.BOOLEAN:
            return 0, 1
        case Kind.TIME:
            return 0, DAY
        case Kind.ENUM:
            return 0, len(type_.labels) - 1
        case Kind.TID:
            return 0, MOST
        case Kind.DATE:
            return FIRST_DAY, LAST_DAY
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return FIRST_DAY * DAY, (LAST_DAY + 1) * DAY - 1
        case _:
            return -(2**63) + 2, 2**63 - 1


def parse_float(text: str) -> float:
    """The float that a text means; ValueError if it means none, or one too small to be told from 0."""
    body = text.strip(BLANKS)
    found = FLOAT.fullmatch(body)
    if found is None:
        if re.match(r"[-+]?0x", body, re.IGNORECASE):
            return float.fromhex(body)
        raise ValueError("not a number")
    value = float(body)
    if found[1] and (math.isinf(value) or (not value and found[1].strip("0."))):
        raise ValueError("out of range")
    return value


def parse_real(text: str) -> float:
    """The same of a REAL."""
    value = parse_float(text)
    if math.isfinite(value) and value and not SMALLEST_REAL < abs(value) < BEYOND_REAL:
        raise ValueError("out of range")
    return value


def parse_whole(text: str) -> int:
    """The integer that a text means, as hexadecimal, octal and binary and with underscores too."""
    body = text.strip(BLANKS)
    sign = -1 if body[:1] == "-" else 1
    body = body[1:] if body[:1] in ("+", "-") else body
    if not body[:1].isdigit() or not body.isascii():
        raise ValueError("not an integer")
    return sign * (int(body, 0) if body[:2].lower() in ("0x", "0o", "0b") else int(body))


def shown_double(value: float) -> str:
    """The fewest digits that tell the number from all others, as Postgres writes them."""
    return _written(repr(value), 15)


def shown_real(value: float) -> str:
    return _written(np.format_float_scientific(np.float32(value)), 6)


def _written(text: str, most: int) -> str:
    """Without an exponent if there are up to ``most`` digits before the point, or few zeros behind it."""
    if text[-1] in "fn":
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(text, "NaN")
    number = decimal.Decimal(text)
    exponent = number.adjusted() if number else 0
    if -4 <= exponent < most:
        plain = f"{number:f}"
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    sign, digits, _ = number.normalize().as_tuple()
    first, rest = digits[0], "".join(map(str, digits[1:]))
    return f"{'-' * sign}{first}{'.' * bool(rest)}{rest}e{exponent:+03d}"
