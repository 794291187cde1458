"""Scalar conversions of types whose values are words: numbers, moments and TIDs, one value at a time.

* Moments outside the years of Python's calendar (BC, after 9999, infinite) are :class:`OutOfRangeMoment`
  objects. Year 0 is 1 BC. The words of the infinities are next to the limits of a word.
* A TID word is block times 65,536 plus offset. A block has ``BLOCK`` rows and offsets start at 1, so
  TIDs order as rowids do.
* Numbers: parsing, shortest text, and the limits of each type. ``type_codecs`` combines these into
  codecs.
"""

import datetime
import decimal
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from kpg.runtime.errors import DataError
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.types import MAX_WORD, MIN_WORD, Kind, Type, word_to_float

if TYPE_CHECKING:
    from kpg.runtime import extensions
else:
    extensions = LazyModule("kpg.runtime.extensions")

DAY: Final = 86_400_000_000


LATEST: Final = MAX_WORD - 2
"""Word of ``infinity`` in dates and timestamps."""
EARLIEST: Final = MIN_WORD + 2
"""Word of ``-infinity``. The words beyond the infinities are NULLs where words define an order."""
INFINITIES: Final = {"infinity": LATEST, "+infinity": LATEST, "-infinity": EARLIEST}
FIRST_DAY, LAST_DAY = -2_440_588, 106_000_000
"""From 4714 BC to the year 292187: days that a timestamp has too."""


def days_of(year: int, month: int, day: int) -> int:
    """Return the days since 1970 of a date of any year.

    Raises:
        ValueError: There is no such date, or it is out of range.
    """
    if not 1 <= month <= 12 or not 1 <= day <= _month_length(year, month):
        raise ValueError("date out of range")
    years, march = (year, month - 3) if month > 2 else (year - 1, month + 9)
    days = 365 * years + years // 4 - years // 100 + years // 400 + (march * 306 + 5) // 10 + day - 719_469
    if not FIRST_DAY <= days <= LAST_DAY:
        raise ValueError("date out of range")
    return days


def _month_length(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def civil(days: int) -> tuple[int, int, int]:
    """Return year, month and day of days since 1970."""
    shifted = days + 719_468
    era, of_era = divmod(shifted, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    rest = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    march = (5 * rest + 2) // 153
    month = march + 3 if march < 10 else march - 9
    return era * 400 + year_of_era + (month <= 2), month, rest - (153 * march + 2) // 5 + 1


def is_infinite(word: int) -> bool:
    """Check whether a word is that of an infinite moment."""
    return word in (EARLIEST, LATEST)


def show_iso_date(days: int) -> str:
    """Format like Postgres in ISO style."""
    if is_infinite(days):
        return "infinity" if days > 0 else "-infinity"
    year, month, day = civil(days)
    return f"{year if year > 0 else 1 - year:04d}-{month:02d}-{day:02d}{'' if year > 0 else ' BC'}"


def show_iso_timestamp(word: int, suffix: str = "") -> str:
    """Format a date and time in ISO style, without trailing zeros. ``suffix`` is a time zone."""
    if is_infinite(word):
        return "infinity" if word > 0 else "-infinity"
    days, time = divmod(word, DAY)
    date, _, era = show_iso_date(days).partition(" ")
    seconds, micros = divmod(time, 1_000_000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    fraction = f".{micros:06d}".rstrip("0") if micros else ""
    return f"{date} {clock}{fraction}{suffix}{' ' if era else ''}{era}"


class OutOfRangeMoment:
    """A moment outside of Python's years: Python's first or last moment, which shows the real one."""

    __slots__ = ()
    word: int
    text: str

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def isoformat(self, *_: object, **__: object) -> str:
        return self.text


class OutOfRangeDate(OutOfRangeMoment, datetime.date):
    """A DATE before the year 1 or after 9999, or infinite."""

    __slots__ = ("text", "word")


class OutOfRangeTimestamp(OutOfRangeMoment, datetime.datetime):
    """A TIMESTAMP or TIMESTAMPTZ before the year 1 or after 9999, or infinite."""

    __slots__ = ("text", "word")


def out_of_range_moment(word: int, type_: Type) -> OutOfRangeDate | OutOfRangeTimestamp:
    """Return the object of a moment outside of Python's years."""
    if type_.kind is Kind.DATE:
        date = OutOfRangeDate(9999, 12, 31) if word > 0 else OutOfRangeDate(1, 1, 1)
        date.word, date.text = word, show_iso_date(word)
        return date
    zone = datetime.UTC if type_.kind is Kind.TIMESTAMPTZ else None
    end = datetime.datetime.max if word > 0 else datetime.datetime.min
    stamp = OutOfRangeTimestamp(*end.timetuple()[:6], end.microsecond, zone)
    stamp.word, stamp.text = word, show_iso_timestamp(word, "" if zone is None else "+00")
    return stamp


BLOCK: Final = 128
"""Rows per block of a TID."""
TID_OFFSETS: Final = 1 << 16
"""Offsets of a block that a word can hold."""
MAX_TID: Final = (1 << 48) - 1
TID_FORM: Final = re.compile(r"(?a)[^(,)]*\(\s*(\d{1,10}),\s*(\d{1,5})\)")
"""Text of a TID as Postgres reads it: text around the parentheses is ignored. DuckDB sends quotes there."""


def parse_tid(text: str) -> int:
    """Parse a TID such as ``(0,1)``.

    Raises:
        ValueError: The text is not a TID.
    """
    match = TID_FORM.match(text)
    if match is None:
        raise ValueError("no place of a row")
    block, offset = int(match[1]), int(match[2])
    if block >= 1 << 32 or offset >= TID_OFFSETS:
        raise ValueError("no place of a row")
    return block * TID_OFFSETS + offset


def show_tid(word: int) -> str:
    """Format like Postgres."""
    return f"({word // TID_OFFSETS},{word % TID_OFFSETS})"


BLANKS: Final = " \t\n\v\f\r"
"""Blanks that may surround the text of a value. Other Unicode spaces are part of it."""

EPOCH: Final = datetime.datetime(1970, 1, 1)
EPOCH_DAY: Final = EPOCH.toordinal()
MICROSECOND: Final = datetime.timedelta(microseconds=1)
INTEGER_LIMITS: Final = {
    Kind.SMALLINT: (-(2**15), 2**15 - 1),
    Kind.INTEGER: (-(2**31), 2**31 - 1),
    Kind.BIGINT: (MIN_WORD, MAX_WORD),
}
MAX_EXACT_FLOAT: Final = 2**53
"""Largest number up to which a double holds every integer exactly."""
WIDE_CONTEXT: Final = decimal.Context(prec=80, traps=[decimal.InvalidOperation])
"""Context with many more digits than the 18 of a DECIMAL, so that scaling does not round before checks."""


class UnrepresentableValue(Exception):
    """A value that its column's type cannot hold. The encoder's caller adds row and column."""


class WrongPythonType(Exception):
    """A value of a Python type that its column's type does not accept."""


class WordText(NamedTuple):
    """The input and output functions of an extension's type: text to a word, and back."""

    parse: Callable[[str], int]
    show: Callable[[int], str]


_word_texts: dict[str, WordText] = {}
"""Input and output functions of extensions' types, by type name."""


def register_type(type_: Type, text: WordText) -> None:
    """Register the input and output functions of an extension's type."""
    _word_texts[type_.name] = text


def word_text(type_: Type) -> WordText:
    """Return the input and output functions of an extension's type.

    Raises:
        OperationalError: The extension is not installed.
    """
    if type_.name not in _word_texts:
        extensions.load_all()
        if type_.name not in _word_texts:
            raise extensions.missing_error(type_.labels[0], f"type {type_.name}")
    return _word_texts[type_.name]


def word_to_python(word: int, type_: Type) -> Any:
    """Return the Python value of a word other than NULL and ERROR, for a word type.

    An INTERVAL MONTH is a number. Moments outside of Python's years are :class:`OutOfRangeMoment` objects.
    """
    match type_.kind:
        case Kind.BOOLEAN:
            return word != 0
        case Kind.DECIMAL:
            return decimal.Decimal(word).scaleb(-type_.scale, WIDE_CONTEXT)
        case Kind.REAL | Kind.DOUBLE:
            return word_to_float(word)
        case Kind.ENUM:
            return type_.labels[word]
        case Kind.TID:
            return show_tid(word)
        case Kind.EXTENSION:
            return word_text(type_).show(word)
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
            return out_of_range_moment(word, type_)
        raise DataError(
            f"{type_} word {word} is beyond what Python can hold", hint="fetch the result as Arrow instead"
        ) from None


def decimal_of_float(value: float, scale: int) -> int:
    """Return the integer w for which ``value`` is the double nearest to ``w / 10**scale``.

    Without such a w, return that of the float's 15 significant digits. Beyond 2**53 two such w may share
    a double.

    Raises:
        UnrepresentableValue: The scaled value is beyond 2**53.
    """
    scaled = value * 10.0**scale
    if not abs(scaled) <= MAX_EXACT_FLOAT:
        raise UnrepresentableValue
    if round(scaled) / 10.0**scale == value:
        return round(scaled)
    digits = decimal.Decimal(f"{value:.15g}").scaleb(scale, WIDE_CONTEXT)
    return int(digits.to_integral_value(decimal.ROUND_HALF_UP))


TRUE_WORDS = frozenset({"true", "tru", "tr", "t", "yes", "ye", "y", "on", "1"})
FALSE_WORDS = frozenset({"false", "fals", "fal", "fa", "f", "no", "n", "off", "of", "0"})
FLOAT = re.compile(r"[-+]?(?:(\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|inf|infinity|nan)", re.IGNORECASE | re.ASCII)
REAL_UNDERFLOW = 2.0**-150
"""Half of the smallest REAL: numbers up to it round to 0."""
REAL_OVERFLOW = 2.0**128 - 2.0**103
"""Midpoint between the largest REAL and the next power of two: numbers from it on round to infinity."""


def limits(type_: Type) -> tuple[int, int]:
    """Return the lowest and highest word of a type; for moments those of finite ones."""
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
            return 0, MAX_TID
        case Kind.DATE:
            return FIRST_DAY, LAST_DAY
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return FIRST_DAY * DAY, (LAST_DAY + 1) * DAY - 1
        case _:
            return -(2**63) + 2, 2**63 - 1


def parse_float(text: str) -> float:
    """Parse a float.

    Raises:
        ValueError: The text is not a number, or the number overflows or underflows.
    """
    body = text.strip(BLANKS)
    match = FLOAT.fullmatch(body)
    if match is None:
        if re.match(r"[-+]?0x", body, re.IGNORECASE):
            return float.fromhex(body)
        raise ValueError("not a number")
    value = float(body)
    if match[1] and (math.isinf(value) or (not value and match[1].strip("0."))):
        raise ValueError("out of range")
    return value


def parse_real(text: str) -> float:
    """Like :func:`parse_float`, for a REAL."""
    value = parse_float(text)
    if math.isfinite(value) and value and not REAL_UNDERFLOW < abs(value) < REAL_OVERFLOW:
        raise ValueError("out of range")
    return value


def parse_integer(text: str) -> int:
    """Parse an integer, also with underscores or in hexadecimal, octal or binary."""
    body = text.strip(BLANKS)
    sign = -1 if body[:1] == "-" else 1
    body = body[1:] if body[:1] in ("+", "-") else body
    if not body[:1].isdigit() or not body.isascii():
        raise ValueError("not an integer")
    return sign * (int(body, 0) if body[:2].lower() in ("0x", "0o", "0b") else int(body))


def show_double(value: float) -> str:
    """Format a double with the fewest digits that identify it, like Postgres."""
    return _show_digits(repr(value), 15)


def show_real(value: float) -> str:
    return _show_digits(np.format_float_scientific(np.float32(value)), 6)


def _show_digits(text: str, max_digits: int) -> str:
    """Format digits, with an exponent only for more than ``max_digits`` before the point or many zeros
    behind.
    """
    if text[-1] in "fn":
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(text, "NaN")
    number = decimal.Decimal(text)
    exponent = number.adjusted() if number else 0
    if -4 <= exponent < max_digits:
        plain = f"{number:f}"
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    sign, digits, _ = number.normalize().as_tuple()
    first, rest = digits[0], "".join(map(str, digits[1:]))
    return f"{'-' * sign}{first}{'.' * bool(rest)}{rest}e{exponent:+03d}"
