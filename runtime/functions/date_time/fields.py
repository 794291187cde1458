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
TYPES: Final[dict[str, Type]] = {
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
"""The fields and their types: numbers as words of these."""
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
DAY_ONLY: Final = frozenset({"hour", "minute", "second", "milliseconds", "microseconds", "epoch"})
"""The fields of a time of day."""
ENDLESS: Final = frozenset({"epoch", "julian", "year", "isoyear", "decade", "century", "millennium"})
"""The fields that grow without end: of an infinite moment they are infinite, as others are NULL."""
NOT_OF_SPANS: Final = frozenset({"dow", "doy", "isodow", "isoyear", "week", "julian"})

Reader = Callable[[Any], int | None]


def named(field: str) -> str:
    """The field that a word means; ValueError if it means none."""
    lowered = field.lower().strip()
    found = ALIASES.get(lowered, lowered)
    if found not in TYPES:
        raise ValueError(f'unit "{field}" not recognized')
    return found


def reader(field: str, type_: Type) -> Reader:
    """Gives a field of values of a type, as a word of the field's type; ValueError if the type has none."""
    unsupported = ValueError(f'unit "{field}" not supported for type {type_}')
    match type_.kind:
        case Kind.DATE:
            if field in DAY_ONLY - {"epoch"} or field.startswith("timezone"):
                raise unsupported
            return lambda days: None if is_infinite(days) else of_moment(field, days * DAY)
        case Kind.TIMESTAMP:
            if field.startswith("timezone"):
                raise unsupported
            return lambda stamp: of_moment(field, stamp)
        case Kind.TIMESTAMPTZ:
            return lambda stamp: of_moment(field, stamp)
        case Kind.TIME:
            if field not in DAY_ONLY:
                raise unsupported
            return lambda time: time if field == "epoch" else of_time(field, time)
        case _:
            if field in NOT_OF_SPANS or field.startswith("timezone"):
                raise unsupported
            return lambda span: of_span(field, span)


def of_time(field: str, time: int) -> int:
    """A field of microseconds since midnight."""
    match field:
        case "hour":
            return time // HOUR
        case "minute":
            return time // MINUTE % 60
        case _:  # all the same word, with the point at other places
            return time % MINUTE


def of_moment(field: str, stamp: int) -> int | None:
    """A field of a moment, NULL of an infinite one."""
    if is_infinite(stamp):
        return None
    if field in DAY_ONLY:
        return stamp if field == "epoch" else of_time(field, stamp % DAY)
    if field.startswith("timezone"):
        return 0
    days, rest = divmod(stamp, DAY)
    year, month, day = civil(days)
    match field:
        case "year" | "decade" | "century" | "millennium":
            return _counted(year, {"year": 1, "decade": 10, "century": 100, "millennium": 1000}[field])
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
            return (thursday - days_of(year, 1, 1)) // 7 + 1 if field == "week" else _counted(year, 1)
        case _:
            return (days + JULIAN_EPOCH) * 10**10 + round(rest * 10**10 / DAY)


def _counted(year: int, length: int) -> int:
    """The year, or the decade, century or millennium that it is in; the year 0 is 1 BC."""
    if length == 10:
        return year // 10
    return (year + length - 1) // length if year > 0 else -((length - year) // length)


def of_span(field: str, span: Interval) -> int:
    """A field of an interval."""
    years, months = _split(span.months, 12)
    match field:
        case "year":
            return years
        case "decade" | "century" | "millennium":
            return _split(years, {"decade": 10, "century": 100, "millennium": 1000}[field])[0]
        case "month":
            return months
        case "quarter":
            return _split(months, 3)[0] + 1
        case "day":
            return span.days
        case "hour":
            return _split(span.microseconds, HOUR)[0]
        case "minute":
            return _split(_split(span.microseconds, HOUR)[1], MINUTE)[0]
        case "epoch":
            return int(years * YEAR_DAYS * DAY) + (months * 30 + span.days) * DAY + span.microseconds
        case _:
            return _split(span.microseconds, MINUTE)[1]


def _split(number: int, unit: int) -> tuple[int, int]:
    """The whole units and the rest, both towards zero."""
    sign = -1 if number < 0 else 1
    whole, rest = divmod(abs(number), unit)
    return sign * whole, sign * rest


def as_number(field: str, word: int | None) -> float | None:
    """A field's word as the number that it means."""
    return None if word is None else word / 10 ** TYPES[field].scale


def start(field: str, stamp: int) -> int:
    """The beginning of the unit that a moment is in."""
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


def cut(field: str, span: Interval) -> Interval:
    """An interval without what is less than a unit."""
    months = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1200, "millennium": 12000}
    if field in months:
        return Interval(_split(span.months, months[field])[0] * months[field], 0, 0)
    if field == "day":
        return Interval(span.months, span.days, 0)
    lengths = {"microseconds": 1, "milliseconds": 1000, "second": SECOND, "minute": MINUTE, "hour": HOUR}
    if field not in lengths:
        raise ValueError(f'unit "{field}" not supported for type interval')
    return span._replace(microseconds=_split(span.microseconds, lengths[field])[0] * lengths[field])
