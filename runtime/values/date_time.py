"""Parsing of dates, times and time zones in the forms that Postgres accepts; TIMETZ and PG_LSN.

Dates may be in ISO or SQL form or with names of months. Time zones are names, abbreviations, offsets or
POSIX texts. A TIMETZ is a pair: microseconds since midnight, and the zone's seconds east of Greenwich.
It compares by instant, then by zone. A PG_LSN is a number.
"""

import datetime
import functools
import io
import re
import struct
import zoneinfo
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from kpg.runtime.types import Kind, Type
from kpg.runtime.values.codec import Codec, decode_integer, encode_integer, text_codec
from kpg.runtime.values.intervals import show_clock
from kpg.runtime.values.words import BLANKS, DAY, EPOCH, INFINITIES, MICROSECOND, days_of, is_infinite

SECOND: Final = 1_000_000
MAX_LSN: Final = 2**64


def codec(type_: Type) -> Codec:
    """Return the codec of TIMETZ or PG_LSN."""
    match type_.kind:
        case Kind.TIMETZ:
            expected = "a time with a zone, or a text such as '12:30:00+02'"
            plain = text_codec(parse_timetz, show_timetz, _encode, _decode, expected)
            return replace(plain, from_python=lambda value: plain.from_python(_time_as_text(value)))
        case _:
            return text_codec(
                parse_lsn, show_lsn, encode_integer, decode_integer, "a text such as '16/B374D848'"
            )


def _time_as_text(value: Any) -> Any:
    """Return a Python time with a UTC offset as text, and any other value unchanged."""
    known = isinstance(value, datetime.time) and value.utcoffset() is not None
    return value.isoformat() if known else value


def parse_timetz(text: str, default: datetime.tzinfo | None = None) -> tuple[int, int]:
    """Parse a time and its zone. A zone by name has the offset of the text's day, or of 1970-01-01."""

    parts = parse_moment(text)
    if parts.time is None:
        raise ValueError("no time")
    zone = parts.zone or default or datetime.UTC
    day = datetime.datetime(1970, 1, 1) + datetime.timedelta(days=parts.day or 0)
    offset = zone.utcoffset(day)
    return parts.time, 0 if offset is None else int(offset.total_seconds())


def show_timetz(value: tuple[int, int]) -> str:
    """Format like Postgres."""

    return show_clock(value[0]) + show_offset(value[1])


def show_offset(seconds: int) -> str:
    """Format an offset as ``+02``, ``-03:30`` or ``+00:19:32``."""
    hours, rest = divmod(abs(seconds), 3600)
    minutes, last = divmod(rest, 60)
    more = f":{minutes:02d}" if minutes or last else ""
    return f"{'-' if seconds < 0 else '+'}{hours:02d}{more}{f':{last:02d}' if last else ''}"


def _encode(value: tuple[int, int]) -> str:
    time, east = value
    return encode_integer(time - east * SECOND) + "/" + encode_integer(-east)


def _decode(string: str) -> tuple[int, int]:
    instant, west = string.split("/")
    east = -decode_integer(west)
    return decode_integer(instant) + east * SECOND, east


def timetz_at_offset(value: tuple[int, int], east: int) -> tuple[int, int]:
    """Return the same instant in another offset."""
    time, before = value
    return (time + (east - before) * SECOND) % DAY, east


def parse_lsn(text: str) -> int:
    """Parse a log sequence number."""
    match = re.fullmatch(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})", text)
    if match is None:
        raise ValueError("no place in a log")
    return int(match[1], 16) << 32 | int(match[2], 16)


def show_lsn(value: Any) -> str:
    """Format like Postgres."""
    return f"{value >> 32:X}/{value & 0xFFFFFFFF:X}"


ABBREVIATION_HOURS: Final = {
    "utc": 0,
    "gmt": 0,
    "z": 0,
    "zulu": 0,
    "ut": 0,
    "wet": 0,
    "bst": 1,
    "cet": 1,
    "met": 1,
    "west": 1,
    "cest": 2,
    "eet": 2,
    "eest": 3,
    "msk": 3,
    "jst": 9,
    "kst": 9,
    "aest": 10,
    "est": -5,
    "edt": -4,
    "cst": -6,
    "cdt": -5,
    "mst": -7,
    "mdt": -6,
    "pst": -8,
    "pdt": -7,
    "akst": -9,
    "akdt": -8,
    "hst": -10,
}
"""Hours east of Greenwich of abbreviations, in every season."""
OFFSET: Final = re.compile(r"([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")
ZONE_NAME: Final = r"<[^<>|]+>|[^\d,+<>|-]+"
POSIX_OFFSET: Final = r"[+-]?\d{1,3}(?::\d{1,2}(?::\d{1,2})?)?"
POSIX_ZONE: Final = re.compile(
    rf"(?P<name>{ZONE_NAME})?(?P<west>{POSIX_OFFSET})"
    rf"(?:(?P<summer>{ZONE_NAME})(?P<then>{POSIX_OFFSET})?(?:,(?P<rule>[^|]+))?)?"
)
"""A POSIX time zone: a name, its offset west, the same for daylight saving time, and the rule for it."""
DEFAULT_RULE: Final = "M3.2.0,M11.1.0"
"""Rule for daylight saving time where a text has none: that of the United States."""


@functools.lru_cache(maxsize=1024)
def zone_of_offset(text: str) -> datetime.tzinfo:
    """Return the time zone of an offset east of Greenwich, as in ISO 8601, or of a name."""
    match = OFFSET.fullmatch(text.strip(BLANKS))
    return time_zone(text) if match is None else _fixed_offset_zone(_signed_seconds(*match.groups()))


def _signed_seconds(sign: str, hours: str, minutes: str | None, seconds: str | None) -> int:
    total = int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    return -total if sign == "-" else total


@functools.lru_cache(maxsize=1024)
def time_zone(name: str) -> datetime.tzinfo:
    """Return the time zone of an abbreviation, or as :func:`zone_by_name`.

    Raises:
        ValueError: There is no such time zone.
    """
    hours = ABBREVIATION_HOURS.get(name.strip(BLANKS).lower())
    return zone_by_name(name) if hours is None else _fixed_offset_zone(hours * 3600)


@functools.lru_cache(maxsize=1024)
def zone_by_name(name: str) -> datetime.tzinfo:
    """Return the time zone of a name in the time zone database, or of a POSIX text.

    ``-02:00`` is a POSIX text too: two hours east of Greenwich.

    Raises:
        ValueError: There is no such time zone.
    """
    text = name.strip(BLANKS)
    if text[:1].isalpha():
        for candidate in (text, _capitalize_zone(text), text.upper()):
            try:
                return zoneinfo.ZoneInfo(candidate)
            except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
                continue
    match = POSIX_ZONE.fullmatch(text)
    if match is None:
        raise ValueError(f"no time zone {name}")
    west = _parse_posix_offset(match["west"])
    if match["summer"] is None:
        return _fixed_offset_zone(-west, (match["name"] or "").strip("<>"))
    summer = west - 3600 if match["then"] is None else _parse_posix_offset(match["then"])
    first, second = (re.sub("[^A-Za-z0-9+-]", "", match[part] or "") or "-" for part in ("name", "summer"))
    rule = match["rule"] or DEFAULT_RULE
    return _daylight_saving_zone(
        f"<{first}>{_show_posix_offset(west)}<{second}>{_show_posix_offset(summer)},{rule}", text
    )


def _parse_posix_offset(text: str) -> int:
    """Return the seconds west of Greenwich."""
    hours, minutes, seconds = (*text.lstrip("+-").split(":"), "0", "0")[:3]
    return _signed_seconds("-" if text.startswith("-") else "+", hours, minutes, seconds)


def _show_posix_offset(west: int) -> str:
    """Format an offset as ``zoneinfo`` reads it."""
    minutes, seconds = divmod(abs(west), 60)
    return f"{'-' if west < 0 else ''}{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}"


def _daylight_saving_zone(text: str, key: str) -> datetime.tzinfo:
    """Return a time zone with daylight saving time, from the POSIX text at the end of a TZif file."""
    header = struct.pack(">4sc15x6l", b"TZif", b"2", 0, 0, 0, 0, 1, 1)
    kind = struct.pack(">lbb", 0, 0, 0) + b"\0"
    return zoneinfo.ZoneInfo.from_file(io.BytesIO((header + kind) * 2 + f"\n{text}\n".encode()), key=key)


def _capitalize_zone(text: str) -> str:
    """Capitalize ``america/new_york`` like names in the database."""
    return re.sub(r"(?:^|(?<=[/_-]))[a-z]", lambda found: found[0].upper(), text.lower())


def canonical_zone_name(name: str) -> str:
    """Return the name of a time zone as in the database.

    Raises:
        ValueError: There is no such time zone.
    """
    tz = zone_by_name(name)
    return tz.key if isinstance(tz, zoneinfo.ZoneInfo) else name


def _fixed_offset_zone(seconds: int, name: str | None = None) -> datetime.tzinfo:
    if abs(seconds) >= 86_400:
        raise ValueError("a time zone is less than a day from Greenwich")
    east = datetime.timedelta(seconds=seconds)
    return datetime.timezone(east) if name is None else datetime.timezone(east, name)


GREGORIAN_CYCLE: Final = 146_097 * 86_400_000_000
"""Microseconds of 400 years, after which the calendar repeats."""
MIN_PYTHON_INSTANT, MAX_PYTHON_INSTANT = -62_000_000_000_000_000, 253_000_000_000_000_000
"""Instants between which Python counts."""


def _cycle_shift(word: int) -> int:
    """Return the microseconds, in whole cycles, that move an instant into Python's years."""
    if word < MIN_PYTHON_INSTANT:
        return (MIN_PYTHON_INSTANT - word) // GREGORIAN_CYCLE * GREGORIAN_CYCLE + GREGORIAN_CYCLE
    return (
        -((word - MAX_PYTHON_INSTANT) // GREGORIAN_CYCLE * GREGORIAN_CYCLE + GREGORIAN_CYCLE)
        if word > MAX_PYTHON_INSTANT
        else 0
    )


def to_datetime(word: int, tz: datetime.tzinfo) -> datetime.datetime:
    """Return an instant in a time zone, moved by whole cycles if it is outside of Python's years."""
    return (EPOCH + (word + _cycle_shift(word)) * MICROSECOND).replace(tzinfo=datetime.UTC).astimezone(tz)


def session_zone(name: str) -> datetime.tzinfo:
    """Return the time zone of a session."""
    return datetime.UTC if name == "UTC" else time_zone(name)


def to_local(word: int, tz: datetime.tzinfo) -> int:
    """Return the local time in a time zone at an instant: TIMESTAMPTZ to TIMESTAMP."""
    if tz is datetime.UTC or is_infinite(word):
        return word
    shift = _cycle_shift(word)
    return (to_datetime(word, tz).replace(tzinfo=None) - EPOCH) // MICROSECOND - shift


def from_local(word: int, tz: datetime.tzinfo) -> int:
    """Return the instant of a local time in a time zone: TIMESTAMP to TIMESTAMPTZ.

    Of two such instants it is the one in standard time. In a gap, time continues from before the gap.
    """
    if tz is datetime.UTC or is_infinite(word):
        return word
    shift = _cycle_shift(word)
    local = EPOCH + (word + shift) * MICROSECOND
    first, second = (local.replace(tzinfo=tz, fold=fold) for fold in (0, 1))
    chosen = first if first.utcoffset() == second.utcoffset() or _is_gap(first) else second
    return (chosen.astimezone(datetime.UTC).replace(tzinfo=None) - EPOCH) // MICROSECOND - shift


def _is_gap(local: datetime.datetime) -> bool:
    there = local.astimezone(datetime.UTC).astimezone(local.tzinfo)
    return there.replace(tzinfo=None) != local.replace(tzinfo=None)


MONTH_NAMES: Final = (
    ("jan", "january"),
    ("feb", "february"),
    ("mar", "march"),
    ("apr", "april"),
    ("may",),
    ("jun", "june"),
    ("jul", "july"),
    ("aug", "august"),
    ("sep", "sept", "september"),
    ("oct", "october"),
    ("nov", "november"),
    ("dec", "december"),
)
MONTHS: Final = {name: number for number, names in enumerate(MONTH_NAMES, 1) for name in names}
DAY_NAMES: Final = frozenset(
    [
        "sun",
        "sunday",
        "mon",
        "monday",
        "tue",
        "tues",
        "tuesday",
        "wed",
        "weds",
        "wednesday",
        "thu",
        "thur",
        "thurs",
        "thursday",
        "fri",
        "friday",
        "sat",
        "saturday",
    ]
)
CENTURY_PIVOT: Final = 70
"""First two-digit year of the 20th century. Smaller years are in the 21st."""


class ParsedMoment(NamedTuple):
    """A parsed text: the day since 1970, microseconds of the day, and time zone; None if absent."""

    day: int | None
    time: int | None
    zone: datetime.tzinfo | None


class _MomentParser:
    """State of the parser of a date and time."""

    def __init__(self, order: str) -> None:
        self.order = order
        self.date: tuple[int, int, int] | None = None
        self.loose: list[str] = []
        self.month: int | None = None
        self.time: int | None = None
        self.zone: datetime.tzinfo | None = None
        self.is_bc = False
        self.meridiem = ""
        self.day: int | None = None

    def set_date(self, year: str, month: str, day: str) -> None:
        if self.date is not None:
            raise ValueError("two dates")
        self.date = (_year(year), MONTHS[month.lower()] if month.isalpha() else int(month), int(day))

    def set_numbers(self, first: str, second: str, third: str) -> None:
        """Set the date from three numbers in the order of the style."""
        if self.order == "YMD" and len(third) == 2:
            self.set_date(first, second, third)
        elif self.order == "DMY":
            self.set_date(third, second, first)
        else:
            self.set_date(third, first, second)

    def set_time(self, hours: str, minutes: str, seconds: str | None, fraction: str | None) -> None:
        if self.time is not None:
            raise ValueError("two times")
        self.time = _clock(int(hours), int(minutes), int(seconds or 0), fraction or "")

    def set_zone(self, text: str) -> None:
        if self.zone is not None:
            raise ValueError("two time zones")
        self.zone = zone_of_offset(text)

    def result(self) -> ParsedMoment:
        if self.month is not None:
            self._set_date_with_month_name()
        elif self.loose:
            raise ValueError("a number outside of a date")
        if self.date is not None:
            year, month, day = self.date
            if not year:
                raise ValueError("there is no year 0")
            self.day = days_of(1 - year if self.is_bc else year, month, day)
        time = self.time
        if self.meridiem and time is not None:
            if not 1 <= time // 3_600_000_000 <= 12:
                raise ValueError("an hour from 1 to 12 goes with AM and PM")
            time = time % (DAY // 2) + (DAY // 2 if self.meridiem == "pm" else 0)
        return ParsedMoment(self.day, time, self.zone)

    def _set_date_with_month_name(self) -> None:
        if len(self.loose) != 2 or self.date is not None:
            raise ValueError("a day and a year go with the name of a month")
        first, second = self.loose
        day, year = (second, first) if len(first) > 2 else (first, second)
        self.date = (_year(year), self.month or 0, int(day))


def _year(text: str) -> int:
    number = int(text)
    return number + (1900 if number >= CENTURY_PIVOT else 2000) if len(text) <= 2 else number


def _clock(hours: int, minutes: int, seconds: int, fraction: str) -> int:
    micros = round(float(f"0.{fraction or 0}") * 1_000_000)
    if minutes > 59 or seconds > 60 or hours > 24:
        raise ValueError("no time of day")
    total = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros
    if total > DAY:
        raise ValueError("no time of day")
    return total


def _set_compact_time(parser: _MomentParser, text: str, fraction: str | None) -> None:
    parser.set_time(text[:2], text[2:4], text[4:6] or None, fraction)


def _set_word(parser: _MomentParser, text: str) -> None:
    word = text.lower().rstrip(".")
    if word in MONTHS and parser.month is None and parser.date is None:
        parser.month = MONTHS[word]
    elif word in ("am", "pm"):
        parser.meridiem = word
    elif word in ("ad", "bc"):
        parser.is_bc = word == "bc"
    elif word == "epoch":
        parser.day, parser.time = 0, 0
    elif word == "allballs":
        parser.time, parser.zone = 0, datetime.UTC
    elif word not in DAY_NAMES and word != "t":
        parser.set_zone(text)


MONTH_NAME: Final = r"[A-Za-z]{3,9}"
MOMENT_FORMS: Final[tuple[tuple[str, Callable[..., None]], ...]] = (
    (r"(\d{3,})-(\d{1,2})-(\d{1,2})(?:T(?=\d))?", lambda f, y, m, d: f.set_date(y, m, d)),
    (r"(\d{4}) (\d{1,2})[-/](\d{1,2})(?![\d:])", lambda f, y, m, d: f.set_date(y, m, d)),
    (r"(\d{4})[/.](\d{1,2})[/.](\d{1,2})", lambda f, y, m, d: f.set_date(y, m, d)),
    (r"(\d{1,2})[/.-](\d{1,2})[/.-](\d{4}|\d{2})(?![\d:])", lambda f, *parts: f.set_numbers(*parts)),
    (rf"(\d{{4}})[-/ ]({MONTH_NAME})[-/ ](\d{{1,2}})(?!\d|:)", lambda f, y, m, d: f.set_date(y, m, d)),
    (rf"(\d{{1,2}})[-/]({MONTH_NAME})[-/](\d{{4}}|\d{{2}})(?!\d)", lambda f, d, m, y: f.set_date(y, m, d)),
    (rf"({MONTH_NAME})[-/](\d{{1,2}})[-/](\d{{4}}|\d{{2}})(?!\d)", lambda f, m, d, y: f.set_date(y, m, d)),
    (r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:[.,](\d*))?)?(?![\d:])", lambda f, *parts: f.set_time(*parts)),
    (r"J(\d+)(?![A-Za-z])", lambda f, n: setattr(f, "day", int(n) - 2_440_588)),
    (r"(\d{4})(\d{2})(\d{2})(?:T(?=\d)|(?!\d))", lambda f, y, m, d: f.set_date(y, m, d)),
    (r"(\d{4})\.(\d{3})(?!\d)", lambda f, y, n: setattr(f, "day", _day_of_year(int(y), int(n)))),
    (r"T?(\d{6}|\d{4}(?=[+-]|Z))(?:\.(\d+))?(?!\d)", _set_compact_time),
    (r"([+-]\d{1,2}(?::?\d{2}(?::?\d{2})?)?)(?!\d)", lambda f, text: f.set_zone(text)),
    (r"([A-Za-z]+(?:[/_+-][A-Za-z0-9]+)*\.?)", _set_word),
    (r"(\d{1,4})(?:st|nd|rd|th)?(?!\d)", lambda f, text: f.loose.append(text)),
)
SIX_DIGIT_DATE: Final = re.compile(r"(\d{2})(\d{2})(\d{2})")
"""A date of six digits, which are a time elsewhere."""
COMPILED_FORMS: Final = tuple((re.compile(form, re.ASCII), take) for form, take in MOMENT_FORMS)


def _day_of_year(year: int, number: int) -> int:
    return days_of(year, 1, 1) + number - 1


def parse_moment(text: str, order: str = "MDY") -> ParsedMoment:
    """Parse the parts of a date and time. ``order`` is the order of numbers in dates, such as ``MDY``.

    Raises:
        ValueError: The text is not understood.
    """
    parser, position, text = _MomentParser(order), 0, text.strip(BLANKS)
    if not text:
        raise ValueError("an empty text")
    while position < len(text):
        if text[position] in " ,\t\n\v\f\r":
            position += 1
            continue
        for form, set_part in COMPILED_FORMS:
            match = form.match(text, position)
            if match is not None:
                try:
                    set_part(parser, *match.groups())
                except KeyError:
                    continue
                position = match.end()
                break
        else:
            raise ValueError("no date or time")
    return parser.result()


def parse_date(text: str, order: str = "MDY") -> int:
    """Parse a date. A time of day is ignored."""
    if text.strip(BLANKS).lower() in INFINITIES:
        return INFINITIES[text.strip(BLANKS).lower()]
    short = SIX_DIGIT_DATE.fullmatch(text.strip(BLANKS))
    day = parse_moment("{1}/{2}/{0}".format(*short.groups()) if short else text, order).day
    if day is None:
        raise ValueError("no date")
    return day


def parse_timestamp(text: str, order: str = "MDY") -> int:
    """Parse a date and time. A time zone is ignored, as in Postgres."""
    if text.strip(BLANKS).lower() in INFINITIES:
        return INFINITIES[text.strip(BLANKS).lower()]
    moment = parse_moment(text, order)
    if moment.day is None:
        raise ValueError("no date")
    return moment.day * DAY + (moment.time or 0)


def parse_instant(text: str, default: datetime.tzinfo = datetime.UTC, order: str = "MDY") -> int:
    """Parse an instant, in the default time zone unless the text has one."""
    if text.strip(BLANKS).lower() in INFINITIES:
        return INFINITIES[text.strip(BLANKS).lower()]
    moment = parse_moment(text, order)
    if moment.day is None:
        raise ValueError("no date")
    return from_local(moment.day * DAY + (moment.time or 0), moment.zone or default)


def parse_time(text: str) -> int:
    """Parse a time of day. A date and a time zone are ignored."""
    moment = parse_moment(text)
    if moment.time is None:
        raise ValueError("no time")
    return moment.time
