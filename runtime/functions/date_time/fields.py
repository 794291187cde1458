"""Fields and truncation of moments, times of day and intervals, in Python.

A moment is a number of microseconds since 1970 (days for a DATE), in UTC if it has a time zone.
"""

import datetime
from collections.abc import Callable
from typing import Any, Final

from kpg.runtime.types import INTEGER, Kind, Type, decimal
from kpg.runtime.values.intervals import Interval
from kpg.runtime.values.words import DAY, civil, days_of, is_infinite

SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
EPOCH: Final = datetime.datetime(1970, 1, 1)
MICROSECOND: Final = datetime.timedelta(microseconds=1)
JULIAN_EPOCH: Final = 2_440_588
YEAR_DAYS: Final = 365.25

SECONDS: Final = decimal(8, 6)
LONG_SECONDS: Final = decimal(18, 6)
FIELD_TYPES: Final[dict[str, Type]] = {
    **dict.fromkeys(
        ("century", "day", "decade", "dow", "doy", "hour", "isodow", "isoyear", "microseconds", "millennium"),
        INTEGER,
    ),
    **dict.fromkeys(("minute", "month", "quarter", "week", "year"), INTEGER),
    **dict.fromkeys(("timezone", "timezone_hour", "timezone_minute"), INTEGER),
    "milliseconds": decimal(8, 3),
    "second": SECONDS,
    "epoch": LONG_SECONDS,
    "julian": decimal(18, 10),
}
"""The fields and the types of their values, which are words."""
ALIASES: Final = {
    **{f"{name}s": name for name in ("second", "minute", "hour", "day", "week", "month", "year", "decade")},
    "centuries": "century",
    "millennia": "millennium",
    "millenniums": "millennium",
    "c": "century",
    "microsecond": "microseconds",
    "us": "microseconds",
    "usec": "microseconds",
    "usecs": "microseconds",
    "millisecond": "milliseconds",
    "ms": "milliseconds",
    "msec": "milliseconds",
    "msecs": "milliseconds",
    "sec": "second",
    "secs": "second",
    "s": "second",
    "min": "minute",
    "mins": "minute",
    "m": "minute",
    "hr": "hour",
    "hrs": "hour",
    "h": "hour",
    "d": "day",
    "w": "week",
    "mon": "month",
    "mons": "month",
    "yr": "year",
    "yrs": "year",
    "y": "year",
    "dec": "decade",
    "decs": "decade",
    "cent": "century",
    "mil": "millennium",
    "mils": "millennium",
    "qtr": "quarter",
    "timezone_h": "timezone_hour",
    "timezone_m": "timezone_minute",
}
TIME_FIELDS: Final = frozenset({"hour", "minute", "second", "milliseconds", "microseconds", "epoch"})
"""Fields of a time of day."""
UNBOUNDED_FIELDS: Final = frozenset({"epoch", "julian", "year", "isoyear", "decade", "century", "millennium"})
"""Fields that grow without bound: infinite for an infinite moment, where other fields are NULL."""
MOMENT_FIELDS: Final = frozenset({"dow", "doy", "isodow", "isoyear", "week", "julian"})

FieldReader = Callable[[Any], int | None]


def canonical_field(field: str) -> str:
    """Return the field with this name or alias.

    Raises:
        ValueError: There is no such field.
    """
    lowered = field.lower().strip()
    canonical = ALIASES.get(lowered, lowered)
    if canonical not in FIELD_TYPES:
        raise ValueError(f'unit "{field}" not recognized')
    return canonical


def field_reader(field: str, type_: Type) -> FieldReader:
    """Return a function from a value of a type to a field, as a word of the field's type.

    Raises:
        ValueError: The type does not have the field.
    """
    unsupported = ValueError(f'unit "{field}" not supported for type {type_}')
    match type_.kind:
        case Kind.DATE:
            if field in TIME_FIELDS - {"epoch"} or field.startswith("timezone"):
                raise unsupported
            return lambda days: None if is_infinite(days) else moment_field(field, days * DAY)
        case Kind.TIMESTAMP:
            if field.startswith("timezone"):
                raise unsupported
            return lambda stamp: moment_field(field, stamp)
        case Kind.TIMESTAMPTZ:
            return lambda stamp: moment_field(field, stamp)
        case Kind.TIME:
            if field not in TIME_FIELDS:
                raise unsupported
            return lambda time: time if field == "epoch" else time_field(field, time)
        case _:
            if field in MOMENT_FIELDS or field.startswith("timezone"):
                raise unsupported
            return lambda span: interval_field(field, span)


def time_field(field: str, time: int) -> int:
    """Return a field of microseconds since midnight."""
    match field:
        case "hour":
            return time // HOUR
        case "minute":
            return time // MINUTE % 60
        case _:  # the same word at different scales
            return time % MINUTE


def moment_field(field: str, stamp: int) -> int | None:
    """Return a field of a moment, or NULL for an infinite moment."""
    if is_infinite(stamp):
        return None
    if field in TIME_FIELDS:
        return stamp if field == "epoch" else time_field(field, stamp % DAY)
    if field.startswith("timezone"):
        return 0
    days, rest = divmod(stamp, DAY)
    year, month, day = civil(days)
    match field:
        case "year" | "decade" | "century" | "millennium":
            return _period_number(year, {"year": 1, "decade": 10, "century": 100, "millennium": 1000}[field])
        case "month" | "day":
            return month if field == "month" else day
        case "quarter":
            return (month + 2) // 3
        case "dow" | "isodow":
            return (days + 4) % 7 if field == "dow" else (days + 3) % 7 + 1
        case "doy":
            return days - days_of(year, 1, 1) + 1
        case "week" | "isoyear":
            thursday = days - (days + 3) % 7 + 3
            year = civil(thursday)[0]
            return (thursday - days_of(year, 1, 1)) // 7 + 1 if field == "week" else _period_number(year, 1)
        case _:
            return (days + JULIAN_EPOCH) * 10**10 + round(rest * 10**10 / DAY)


def _period_number(year: int, length: int) -> int:
    """Return the year, or its decade, century or millennium. The year 0 is 1 BC."""
    if length == 10:
        return year // 10
    return (year + length - 1) // length if year > 0 else -((length - year) // length)


def interval_field(field: str, span: Interval) -> int:
    """Return a field of an interval."""
    years, months = split_units(span.months, 12)
    match field:
        case "year":
            return years
        case "decade" | "century" | "millennium":
            return split_units(years, {"decade": 10, "century": 100, "millennium": 1000}[field])[0]
        case "month":
            return months
        case "quarter":
            return split_units(months, 3)[0] + 1
        case "day":
            return span.days
        case "hour":
            return split_units(span.microseconds, HOUR)[0]
        case "minute":
            return split_units(split_units(span.microseconds, HOUR)[1], MINUTE)[0]
        case "epoch":
            return int(years * YEAR_DAYS * DAY) + (months * 30 + span.days) * DAY + span.microseconds
        case _:
            return split_units(span.microseconds, MINUTE)[1]


def split_units(number: int, unit: int) -> tuple[int, int]:
    """Return the quotient and remainder, both truncated toward zero."""
    sign = -1 if number < 0 else 1
    whole, rest = divmod(abs(number), unit)
    return sign * whole, sign * rest


def word_to_number(field: str, word: int | None) -> float | None:
    """Return the number of a field's word."""
    return None if word is None else word / 10 ** FIELD_TYPES[field].scale


def truncate_moment(field: str, stamp: int) -> int:
    """Return the start of the unit that contains a moment."""
    lengths = {
        "microseconds": 1,
        "milliseconds": 1000,
        "second": SECOND,
        "minute": MINUTE,
        "hour": HOUR,
        "day": DAY,
    }
    if is_infinite(stamp):
        return stamp
    if field in lengths:
        return stamp // lengths[field] * lengths[field]
    date = (EPOCH + stamp * MICROSECOND).date()
    year = date.year
    match field:
        case "week":
            first = date - datetime.timedelta(days=date.weekday())
        case "month":
            first = date.replace(day=1)
        case "quarter":
            first = date.replace(month=(date.month - 1) // 3 * 3 + 1, day=1)
        case "year":
            first = datetime.date(year, 1, 1)
        case "decade":
            first = datetime.date(max(year // 10 * 10, 1), 1, 1)
        case "century":
            first = datetime.date((year - 1) // 100 * 100 + 1, 1, 1)
        case "millennium":
            first = datetime.date((year - 1) // 1000 * 1000 + 1, 1, 1)
        case _:
            raise ValueError(f'unit "{field}" not supported for type timestamp')
    return (first - EPOCH.date()).days * DAY


def truncate_interval(field: str, span: Interval) -> Interval:
    """Return an interval without the units below a unit."""
    months = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1200, "millennium": 12000}
    if field in months:
        return Interval(split_units(span.months, months[field])[0] * months[field], 0, 0)
    if field == "day":
        return Interval(span.months, span.days, 0)
    lengths = {"microseconds": 1, "milliseconds": 1000, "second": SECOND, "minute": MINUTE, "hour": HOUR}
    if field not in lengths:
        raise ValueError(f'unit "{field}" not supported for type interval')
    return span._replace(microseconds=split_units(span.microseconds, lengths[field])[0] * lengths[field])
