"""Text input and output in a session's style: moments, intervals, bytes, floats, and arrays of them."""

import datetime
import functools
from collections.abc import Callable
from typing import Any, Final

from kpg.runtime.types import Kind, Type
from kpg.runtime.values import arrays, date_time, intervals, ranges, row_values
from kpg.runtime.values.codec import Codec, codec_of, output_function
from kpg.runtime.values.date_time import show_offset
from kpg.runtime.values.styles import Style
from kpg.runtime.values.words import DAY, civil, is_infinite, show_iso_date, show_iso_timestamp

DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
EPOCH_WEEKDAY: Final = 3
"""Day of the week of 1970-01-01, a Thursday."""


def format_date(style: Style, days: int) -> str:
    """Format a date."""
    if style.dates == "ISO" or is_infinite(days):
        return show_iso_date(days)
    year, month, day = civil(days)
    era = "" if year > 0 else " BC"
    return _format_date_numbers(style, year if year > 0 else 1 - year, month, day) + era


def _format_date_numbers(style: Style, year: int, month: int, day: int) -> str:
    if style.dates == "German":
        return f"{day:02d}.{month:02d}.{year:04d}"
    sign = "/" if style.dates == "SQL" else "-"
    if style.order == "YMD" and style.dates != "SQL":
        return f"{year:04d}-{month:02d}-{day:02d}"
    first, second = (day, month) if style.order == "DMY" else (month, day)
    return f"{first:02d}{sign}{second:02d}{sign}{year:04d}"


def format_timestamp(style: Style, word: int, zone: str = "") -> str:
    """Format a date and time. ``zone`` is appended."""
    if style.dates == "ISO" or is_infinite(word):
        return show_iso_timestamp(word, zone)
    days, time = divmod(word, DAY)
    year, month, day = civil(days)
    era = "" if year > 0 else " BC"
    year = year if year > 0 else 1 - year
    clock = intervals.show_clock(time)
    suffix = f" {zone}" if zone and not (zone[0] in "+-" and style.dates == "ISO") else zone
    if style.dates == "Postgres":
        name = MONTHS[month - 1]
        inner = f"{day:02d} {name}" if style.order == "DMY" else f"{name} {day:02d}"
        return f"{DAYS[(days + EPOCH_WEEKDAY) % 7]} {inner} {clock} {year:04d}{suffix}{era}"
    date = _format_date_numbers(Style(dates=style.dates, order=style.order), year, month, day)
    return f"{date} {clock}{suffix}{era}"


def format_instant(style: Style, word: int) -> str:
    """Format an instant in the session's time zone."""
    if is_infinite(word):
        return show_iso_timestamp(word)
    tz = zone_of(style)
    local = date_time.to_local(word, tz)
    if style.dates == "ISO":
        return show_iso_timestamp(local, show_offset((local - word) // 1_000_000))
    return format_timestamp(style, local, zone_abbreviation(word, tz))


def zone_abbreviation(word: int, tz: datetime.tzinfo) -> str:
    """Return the abbreviation of a time zone at an instant, such as ``PST``, or its offset."""
    name = date_time.to_datetime(word, tz).tzname() or ""
    if not name.startswith("UTC") or name == "UTC":
        return name
    return show_offset((date_time.to_local(word, tz) - word) // 1_000_000)


def format_interval(style: Style, kind: Kind, value: Any) -> str:
    """Format an interval."""
    if kind is Kind.INTERVAL_DAY:
        value = intervals.from_microseconds(value)
    elif kind is Kind.INTERVAL_MONTH:
        value = intervals.Interval(value, 0, 0)
    match style.intervals:
        case "postgres_verbose":
            return _format_verbose(value)
        case "sql_standard":
            return _format_sql_standard(value)
        case "iso_8601":
            return _format_iso_8601(value)
        case _:
            return intervals.show(value)


def _interval_fields(value: intervals.Interval) -> tuple[int, int, int, int, int, int, int]:
    """Return years, months, days, hours, minutes, seconds and microseconds, each with its sign."""
    sign = -1 if value.months < 0 else 1
    years, months = divmod(abs(value.months), 12)
    time_sign = -1 if value.microseconds < 0 else 1
    seconds, fraction = divmod(abs(value.microseconds), 1_000_000)
    return (
        *(sign * years, sign * months, value.days),
        *(
            time_sign * (seconds // 3600),
            time_sign * (seconds // 60 % 60),
            time_sign * (seconds % 60),
            time_sign * fraction,
        ),
    )


def _format_seconds(seconds: int, fraction: int) -> str:
    """Format seconds as ``5`` or ``-5.25``."""
    sign = "-" if seconds < 0 or fraction < 0 else ""
    tail = f".{abs(fraction):06d}".rstrip("0") if fraction else ""
    return f"{sign}{abs(seconds)}{tail}"


def _format_verbose(value: intervals.Interval) -> str:
    years, months, days, hours, minutes, seconds, fraction = _interval_fields(value)
    fields = [(years, "year"), (months, "mon"), (days, "day"), (hours, "hour"), (minutes, "min")]
    is_negative: bool | None = None
    texts = []
    for number, name in fields:
        if number:
            is_negative = number < 0 if is_negative is None else is_negative
            size = -number if is_negative else number
            texts.append(f"{size} {name}{'' if size == 1 else 's'}")
    if seconds or fraction:
        is_negative = (seconds < 0 or fraction < 0) if is_negative is None else is_negative
        sign = -1 if is_negative else 1
        text = _format_seconds(sign * seconds, sign * fraction)
        texts.append(f"{text} sec{'' if text == '1' else 's'}")
    if not texts:
        return "@ 0"
    return "@ " + " ".join(texts) + (" ago" if is_negative else "")


def _format_sql_standard(value: intervals.Interval) -> str:
    parts = _interval_fields(value)
    years, months, days, hours, minutes, seconds, fraction = parts
    negative, positive = any(part < 0 for part in parts), any(part > 0 for part in parts)
    has_months, has_time = bool(years or months), bool(hours or minutes or seconds or fraction)
    if not (negative or positive):
        return "0"
    has_single_sign = not (negative and positive) and not (has_months and (days or has_time))
    clock = f"{abs(hours)}:{abs(minutes):02d}:{_format_two_digit_seconds(abs(seconds), abs(fraction))}"
    if not has_single_sign:
        signs = ["-" if part < 0 else "+" for part in (value.months, days, value.microseconds)]
        return f"{signs[0]}{abs(years)}-{abs(months)} {signs[1]}{abs(days)} {signs[2]}{clock}"
    sign = "-" if negative else ""
    if has_months:
        return f"{sign}{abs(years)}-{abs(months)}"
    return f"{sign}{abs(days)} {clock}" if days else f"{sign}{clock}"


def _format_two_digit_seconds(seconds: int, fraction: int) -> str:
    tail = f".{fraction:06d}".rstrip("0") if fraction else ""
    return f"{seconds:02d}{tail}"


def _format_iso_8601(value: intervals.Interval) -> str:
    years, months, days, hours, minutes, seconds, fraction = _interval_fields(value)
    long, short = ((years, "Y"), (months, "M"), (days, "D")), ((hours, "H"), (minutes, "M"))
    date_part, time_part = (
        "".join(f"{number}{name}" for number, name in parts if number) for parts in (long, short)
    )
    if seconds or fraction:
        time_part += _format_seconds(seconds, fraction) + "S"
    if not date_part and not time_part:
        return "PT0S"
    return f"P{date_part}{'T' * bool(time_part)}{time_part}"


def escape_bytes(value: bytes) -> str:
    r"""Format bytes with those outside of printable ASCII as ``\ooo``."""
    return "".join(
        "\\\\" if byte == 92 else chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}" for byte in value
    )


def format_float(digits: int, value: float) -> str:
    """Format a float in a number of significant digits, like C."""
    if value != value or value in (float("inf"), float("-inf")):
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")
    return format(value, f".{max(digits, 1)}g")


def zone_of(style: Style) -> Any:
    """Return the time zone of a style."""
    return date_time.session_zone(style.zone)


@functools.lru_cache(maxsize=256)
def writer_of(type_: Type, style: Style) -> Callable[[Any], str]:
    """Return the function that formats values of a type in a style, alone and as parts of others."""
    match type_.kind:
        case Kind.DATE:
            return functools.partial(format_date, style)
        case Kind.TIMESTAMP:
            return functools.partial(format_timestamp, style)
        case Kind.TIMESTAMPTZ:
            return functools.partial(format_instant, style)
        case Kind.INTERVAL | Kind.INTERVAL_DAY | Kind.INTERVAL_MONTH:
            return functools.partial(format_interval, style, type_.kind)
        case Kind.BYTEA if style.bytea == "escape":
            return escape_bytes
        case Kind.REAL | Kind.DOUBLE if style.digits < 1:
            return functools.partial(format_float, (6 if type_.kind is Kind.REAL else 15) + style.digits)
        case Kind.ARRAY:
            return arrays.writer(type_, writer_of(type_.parts[0], style))
        case Kind.RECORD:
            return row_values.writer([writer_of(part, style) for part in type_.parts])
        case Kind.RANGE | Kind.MULTIRANGE:
            return ranges.writer(type_, writer_of(type_.parts[0], style))
        case _:
            return output_function(type_)


@functools.lru_cache(maxsize=256)
def reader_of(type_: Type, style: Style) -> Callable[[str], Any]:
    """Return the function that parses values of a type in a style."""
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
            styled_element = Codec(
                element.encode,
                element.decode,
                parse,
                element.show,
                element.to_python,
                element.from_python,
                element.input_hint,
            )
            return lambda text: arrays.parse(text, styled_element, type_.parts[0])
        case _:
            return codec_of(type_).parse
