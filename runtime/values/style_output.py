"""Text input and output in a session's style: moments, intervals, bytes, floats, and arrays of them."""

import datetime
import functools
from collections.abc import Callable
from typing import Any, Final

from kpg.runtime.types import Kind, Type
from kpg.runtime.values import arrays, date_time, intervals, ranges, row_values
from kpg.runtime.values.codec import Codec, codec_of, output_of
from kpg.runtime.values.date_time import zone_text
from kpg.runtime.values.styles import Style
from kpg.runtime.values.words import DAY, civil, is_infinite, shown_date, shown_stamp

DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
THURSDAY: Final = 3
"""The day of the week of the first of 1970."""


def date(style: Style, days: int) -> str:
    """A date."""
    if style.dates == "ISO" or is_infinite(days):
        return shown_date(days)
    year, month, day = civil(days)
    era = "" if year > 0 else " BC"
    return _numbers(style, year if year > 0 else 1 - year, month, day) + era


def _numbers(style: Style, year: int, month: int, day: int) -> str:
    if style.dates == "German":
        return f"{day:02d}.{month:02d}.{year:04d}"
    sign = "/" if style.dates == "SQL" else "-"
    if style.order == "YMD" and style.dates != "SQL":
        return f"{year:04d}-{month:02d}-{day:02d}"
    first, second = (day, month) if style.order == "DMY" else (month, day)
    return f"{first:02d}{sign}{second:02d}{sign}{year:04d}"


def stamp(style: Style, word: int, zone: str = "") -> str:
    """A date and time; ``zone``: what is written behind it."""
    if style.dates == "ISO" or is_infinite(word):
        return shown_stamp(word, zone)
    days, time = divmod(word, DAY)
    year, month, day = civil(days)
    era = "" if year > 0 else " BC"
    year = year if year > 0 else 1 - year
    clock = intervals.clock(time)
    behind = f" {zone}" if zone and not (zone[0] in "+-" and style.dates == "ISO") else zone
    if style.dates == "Postgres":
        name = MONTHS[month - 1]
        inner = f"{day:02d} {name}" if style.order == "DMY" else f"{name} {day:02d}"
        return f"{DAYS[(days + THURSDAY) % 7]} {inner} {clock} {year:04d}{behind}{era}"
    return f"{_numbers(Style(dates=style.dates, order=style.order), year, month, day)} {clock}{behind}{era}"


def instant(style: Style, word: int) -> str:
    """A moment in the session's time zone."""
    if is_infinite(word):
        return shown_stamp(word)
    where = zone_of(style)
    local = date_time.to_local(word, where)
    if style.dates == "ISO":
        return shown_stamp(local, zone_text((local - word) // 1_000_000))
    return stamp(style, local, abbreviation(word, where))


def abbreviation(word: int, where: datetime.tzinfo) -> str:
    """What a time zone is called at an instant: ``PST``, or its distance from Greenwich."""
    name = date_time.at(word, where).tzname() or ""
    if not name.startswith("UTC") or name == "UTC":
        return name
    return zone_text((date_time.to_local(word, where) - word) // 1_000_000)


def interval(style: Style, kind: Kind, value: Any) -> str:
    """An interval."""
    if kind is Kind.INTERVAL_DAY:
        value = intervals.of_microseconds(value)
    elif kind is Kind.INTERVAL_MONTH:
        value = intervals.Interval(value, 0, 0)
    match style.intervals:
        case "postgres_verbose":
            return _verbose(value)
        case "sql_standard":
            return _standard(value)
        case "iso_8601":
            return _iso(value)
        case _:
            return intervals.shown(value)


def _split(value: intervals.Interval) -> tuple[int, int, int, int, int, int, int]:
    """Years, months, days, hours, minutes, seconds and microseconds, each with its sign."""
    sign = -1 if value.months < 0 else 1
    years, months = divmod(abs(value.months), 12)
    turn = -1 if value.microseconds < 0 else 1
    seconds, fraction = divmod(abs(value.microseconds), 1_000_000)
    return (
        *(sign * years, sign * months, value.days),
        *(turn * (seconds // 3600), turn * (seconds // 60 % 60), turn * (seconds % 60), turn * fraction),
    )


def _seconds(seconds: int, fraction: int) -> str:
    """``5`` or ``-5.25``."""
    sign = "-" if seconds < 0 or fraction < 0 else ""
    tail = f".{abs(fraction):06d}".rstrip("0") if fraction else ""
    return f"{sign}{abs(seconds)}{tail}"


def _verbose(value: intervals.Interval) -> str:
    years, months, days, hours, minutes, seconds, fraction = _split(value)
    fields = [(years, "year"), (months, "mon"), (days, "day"), (hours, "hour"), (minutes, "min")]
    before: bool | None = None
    texts = []
    for number, name in fields:
        if number:
            before = number < 0 if before is None else before
            shown = -number if before else number
            texts.append(f"{shown} {name}{'' if shown == 1 else 's'}")
    if seconds or fraction:
        before = (seconds < 0 or fraction < 0) if before is None else before
        sign = -1 if before else 1
        text = _seconds(sign * seconds, sign * fraction)
        texts.append(f"{text} sec{'' if text == '1' else 's'}")
    if not texts:
        return "@ 0"
    return "@ " + " ".join(texts) + (" ago" if before else "")


def _standard(value: intervals.Interval) -> str:
    parts = _split(value)
    years, months, days, hours, minutes, seconds, fraction = parts
    negative, positive = any(part < 0 for part in parts), any(part > 0 for part in parts)
    has_months, has_time = bool(years or months), bool(hours or minutes or seconds or fraction)
    if not (negative or positive):
        return "0"
    plain = not (negative and positive) and not (has_months and (days or has_time))
    clock = f"{abs(hours)}:{abs(minutes):02d}:{_two(abs(seconds), abs(fraction))}"
    if not plain:
        signs = ["-" if part < 0 else "+" for part in (value.months, days, value.microseconds)]
        return f"{signs[0]}{abs(years)}-{abs(months)} {signs[1]}{abs(days)} {signs[2]}{clock}"
    sign = "-" if negative else ""
    if has_months:
        return f"{sign}{abs(years)}-{abs(months)}"
    return f"{sign}{abs(days)} {clock}" if days else f"{sign}{clock}"


def _two(seconds: int, fraction: int) -> str:
    tail = f".{fraction:06d}".rstrip("0") if fraction else ""
    return f"{seconds:02d}{tail}"


def _iso(value: intervals.Interval) -> str:
    years, months, days, hours, minutes, seconds, fraction = _split(value)
    long, short = ((years, "Y"), (months, "M"), (days, "D")), ((hours, "H"), (minutes, "M"))
    date_part, time_part = (
        "".join(f"{number}{name}" for number, name in parts if number) for parts in (long, short)
    )
    if seconds or fraction:
        time_part += _seconds(seconds, fraction) + "S"
    if not date_part and not time_part:
        return "PT0S"
    return f"P{date_part}{'T' * bool(time_part)}{time_part}"


def escaped(value: bytes) -> str:
    """Bytes with those that are no letters as ``\\\\ooo``."""
    return "".join(
        "\\\\" if byte == 92 else chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}" for byte in value
    )


def short_float(digits: int, value: float) -> str:
    """A float in so many digits, as C writes it."""
    if value != value or value in (float("inf"), float("-inf")):
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")
    return format(value, f".{max(digits, 1)}g")


def zone_of(style: Style) -> Any:
    """The time zone of a style: seconds east of Greenwich, or a name."""
    return date_time.session_zone(style.zone)


@functools.lru_cache(maxsize=256)
def writer_of(type_: Type, style: Style) -> Callable[[Any], str]:
    """How values are written in a style, as parts of others and alone."""
    match type_.kind:
        case Kind.DATE:
            return functools.partial(date, style)
        case Kind.TIMESTAMP:
            return functools.partial(stamp, style)
        case Kind.TIMESTAMPTZ:
            return functools.partial(instant, style)
        case Kind.INTERVAL | Kind.INTERVAL_DAY | Kind.INTERVAL_MONTH:
            return functools.partial(interval, style, type_.kind)
        case Kind.BYTEA if style.bytea == "escape":
            return escaped
        case Kind.REAL | Kind.DOUBLE if style.digits < 1:
            return functools.partial(short_float, (6 if type_.kind is Kind.REAL else 15) + style.digits)
        case Kind.ARRAY:
            return arrays.writer(type_, writer_of(type_.parts[0], style))
        case Kind.RECORD:
            return row_values.writer([writer_of(part, style) for part in type_.parts])
        case Kind.RANGE | Kind.MULTIRANGE:
            return ranges.writer(type_, writer_of(type_.parts[0], style))
        case _:
            return output_of(type_)


@functools.lru_cache(maxsize=256)
def reader_of(type_: Type, style: Style) -> Callable[[str], Any]:
    """From text to a value, in a style."""
    order = style.order
    match type_.kind:
        case Kind.DATE:
            return lambda text: date_time.parse_date(text, order)
        case Kind.TIMESTAMP:
            return lambda text: date_time.parse_timestamp(text, order)
        case Kind.TIMESTAMPTZ:
            return lambda text: date_time.parse_instant(text, zone_of(style), order)
        case Kind.ARRAY:
            element = codec_of(type_.parts[0])
            parse = reader_of(type_.parts[0], style)
            known = Codec(
                element.encode,
                element.decode,
                parse,
                element.show,
                element.to_python,
                element.from_python,
                element.expected,
            )
            return lambda text: arrays.parse(text, known, type_.parts[0])
        case _:
            return codec_of(type_).parse
