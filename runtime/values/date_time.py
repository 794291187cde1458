"""Parsing of dates, times and time zones in the forms that Postgres accepts; TIMETZ and PG_LSN.

Dates may be in ISO or SQL form or with names of months. Time zones are names, abbreviations, offsets or POSIX
texts. A TIMETZ is a pair: microseconds since midnight, and the zone's seconds east of Greenwich; it compares
by instant, then by zone. A PG_LSN is a number.
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
from kpg.runtime.values.codec import Codec, ordered, spelled, unordered
from kpg.runtime.values.intervals import clock
from kpg.runtime.values.words import BLANKS, DAY, ENDS, EPOCH, MICROSECOND, days_of, is_infinite

SECOND: Final = 1_000_000
MOST_LSN: Final = 2**64


def codec(type_: Type) -> Codec:
    """The codec of one of the types."""
    match type_.kind:
        case Kind.TIMETZ:
            expected = "a time with a zone, or a text such as '12:30:00+02'"
            plain = spelled(parse_timetz, show_timetz, _encode, _decode, expected)
            return replace(plain, from_python=lambda value: plain.from_python(_written(value)))
        case _:
            return spelled(parse_lsn, show_lsn, ordered, unordered, "a text such as '16/B374D848'")


def _written(value: Any) -> Any:
    """A Python time that knows how far it is from Greenwich as text, anything else as it is."""
    known = isinstance(value, datetime.time) and value.utcoffset() is not None
    return value.isoformat() if known else value


def parse_timetz(text: str, default: datetime.tzinfo | None = None) -> tuple[int, int]:
    """The time and the zone that a text means; one by name as of the text's day, or of the first of 1970."""

    found = read(text)
    if found.time is None:
        raise ValueError("no time")
    zone = found.zone or default or datetime.UTC
    day = datetime.datetime(1970, 1, 1) + datetime.timedelta(days=found.day or 0)
    offset = zone.utcoffset(day)
    return found.time, 0 if offset is None else int(offset.total_seconds())


def show_timetz(value: tuple[int, int]) -> str:
    """As Postgres writes it."""

    return clock(value[0]) + zone_text(value[1])


def zone_text(seconds: int) -> str:
    """``+02``, ``-03:30`` or ``+00:19:32``."""
    hours, rest = divmod(abs(seconds), 3600)
    minutes, last = divmod(rest, 60)
    more = f":{minutes:02d}" if minutes or last else ""
    return f"{'-' if seconds < 0 else '+'}{hours:02d}{more}{f':{last:02d}' if last else ''}"


def _encode(value: tuple[int, int]) -> str:
    time, east = value
    return ordered(time - east * SECOND) + "/" + ordered(-east)


def _decode(string: str) -> tuple[int, int]:
    instant, west = string.split("/")
    east = -unordered(west)
    return unordered(instant) + east * SECOND, east


def at_zone(value: tuple[int, int], east: int) -> tuple[int, int]:
    """What clocks show at that instant in another zone."""
    time, before = value
    return (time + (east - before) * SECOND) % DAY, east


def parse_lsn(text: str) -> int:
    """The place in a log that a text means."""
    found = re.fullmatch(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})", text)
    if found is None:
        raise ValueError("no place in a log")
    return int(found[1], 16) << 32 | int(found[2], 16)


def show_lsn(value: Any) -> str:
    """As Postgres writes it."""
    return f"{value >> 32:X}/{value & 0xFFFFFFFF:X}"


HOURS: Final = {
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
"""Abbreviations, which stand for an offset whatever the season."""
OFFSET: Final = re.compile(r"([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")
ZONES_NAME: Final = r"<[^<>|]+>|[^\d,+<>|-]+"
DISTANCE: Final = r"[+-]?\d{1,3}(?::\d{1,2}(?::\d{1,2})?)?"
POSIX: Final = re.compile(
    rf"(?P<name>{ZONES_NAME})?(?P<west>{DISTANCE})"
    rf"(?:(?P<summer>{ZONES_NAME})(?P<then>{DISTANCE})?(?:,(?P<rule>[^|]+))?)?"
)
"""A zone as POSIX spells it: a name, how far west it is, the same in summer, and when that is."""
USUAL_RULE: Final = "M3.2.0,M11.1.0"
"""When summer is where a text does not say: as in the United States."""


@functools.lru_cache(maxsize=1024)
def offset(text: str) -> datetime.tzinfo:
    """The time zone of an offset east of Greenwich, as in ISO 8601; of a name as :func:`zone`."""
    found = OFFSET.fullmatch(text.strip(BLANKS))
    return zone(text) if found is None else _fixed(_seconds(*found.groups()))


def _seconds(sign: str, hours: str, minutes: str | None, seconds: str | None) -> int:
    total = int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    return -total if sign == "-" else total


@functools.lru_cache(maxsize=1024)
def zone(name: str) -> datetime.tzinfo:
    """The time zone of an abbreviation, or as :func:`listed`; ValueError if there is none."""
    hours = HOURS.get(name.strip(BLANKS).lower())
    return listed(name) if hours is None else _fixed(hours * 3600)


@functools.lru_cache(maxsize=1024)
def listed(name: str) -> datetime.tzinfo:
    """The time zone of a name in the database of time zones, or of a POSIX text; ValueError if there is none.

    ``-02:00`` is a POSIX text, too: two hours east of Greenwich.
    """
    text = name.strip(BLANKS)
    if text[:1].isalpha():
        for known in (text, _cased(text), text.upper()):
            try:
                return zoneinfo.ZoneInfo(known)
            except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
                continue
    found = POSIX.fullmatch(text)
    if found is None:
        raise ValueError(f"no time zone {name}")
    west = _distance(found["west"])
    if found["summer"] is None:
        return _fixed(-west, (found["name"] or "").strip("<>"))
    summer = west - 3600 if found["then"] is None else _distance(found["then"])
    first, second = (re.sub("[^A-Za-z0-9+-]", "", found[part] or "") or "-" for part in ("name", "summer"))
    rule = found["rule"] or USUAL_RULE
    return _seasonal(f"<{first}>{_zones_clock(west)}<{second}>{_zones_clock(summer)},{rule}", text)


def _distance(text: str) -> int:
    """Seconds west of Greenwich."""
    hours, minutes, seconds = (*text.lstrip("+-").split(":"), "0", "0")[:3]
    return _seconds("-" if text.startswith("-") else "+", hours, minutes, seconds)


def _zones_clock(west: int) -> str:
    """A distance as ``zoneinfo`` reads it."""
    minutes, seconds = divmod(abs(west), 60)
    return f"{'-' if west < 0 else ''}{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}"


def _seasonal(text: str, key: str) -> datetime.tzinfo:
    """A time zone with a summer time, of a text that files of the database end in."""
    header = struct.pack(">4sc15x6l", b"TZif", b"2", 0, 0, 0, 0, 1, 1)
    kind = struct.pack(">lbb", 0, 0, 0) + b"\0"
    return zoneinfo.ZoneInfo.from_file(io.BytesIO((header + kind) * 2 + f"\n{text}\n".encode()), key=key)


def _cased(text: str) -> str:
    """``america/new_york`` with capitals where names have them."""
    return re.sub(r"(?:^|(?<=[/_-]))[a-z]", lambda found: found[0].upper(), text.lower())


def named(name: str) -> str:
    """The name of a time zone as it is written in its list; ValueError if there is none."""
    where = listed(name)
    return where.key if isinstance(where, zoneinfo.ZoneInfo) else name


def _fixed(seconds: int, name: str | None = None) -> datetime.tzinfo:
    if abs(seconds) >= 86_400:
        raise ValueError("a time zone is less than a day from Greenwich")
    east = datetime.timedelta(seconds=seconds)
    return datetime.timezone(east) if name is None else datetime.timezone(east, name)


CYCLE: Final = 146_097 * 86_400_000_000
"""Microseconds of 400 years, after which days come again."""
FIRST, LAST = -62_000_000_000_000_000, 253_000_000_000_000_000
"""Instants between which Python counts."""


def _within(word: int) -> int:
    """How many microseconds an instant is moved by, in cycles, to be one that Python counts."""
    if word < FIRST:
        return (FIRST - word) // CYCLE * CYCLE + CYCLE
    return -((word - LAST) // CYCLE * CYCLE + CYCLE) if word > LAST else 0


def at(word: int, where: datetime.tzinfo) -> datetime.datetime:
    """An instant in a time zone, by another year if it is beyond those that Python has."""
    return (EPOCH + (word + _within(word)) * MICROSECOND).replace(tzinfo=datetime.UTC).astimezone(where)


def session_zone(name: str) -> datetime.tzinfo:
    """The time zone of a session."""
    return datetime.UTC if name == "UTC" else zone(name)


def to_local(word: int, where: datetime.tzinfo) -> int:
    """What clocks show in a time zone at an instant: TIMESTAMPTZ to TIMESTAMP."""
    if where is datetime.UTC or is_infinite(word):
        return word
    moved = _within(word)
    return (at(word, where).replace(tzinfo=None) - EPOCH) // MICROSECOND - moved


def from_local(word: int, where: datetime.tzinfo) -> int:
    """The instant at which clocks of a time zone show it: TIMESTAMP to TIMESTAMPTZ.

    Of two such instants the one of standard time; a time that is left out counts on from before.
    """
    if where is datetime.UTC or is_infinite(word):
        return word
    moved = _within(word)
    local = EPOCH + (word + moved) * MICROSECOND
    first, second = (local.replace(tzinfo=where, fold=fold) for fold in (0, 1))
    chosen = first if first.utcoffset() == second.utcoffset() or _is_gap(first) else second
    return (chosen.astimezone(datetime.UTC).replace(tzinfo=None) - EPOCH) // MICROSECOND - moved


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
LATEST_CENTURY: Final = 70
"""Years of two digits from here on are of the 20th century, those below of the 21st."""


class Moment(NamedTuple):
    """What a text says: a day (from 1970), microseconds of a day, a time zone; None if it does not."""

    day: int | None
    time: int | None
    zone: datetime.tzinfo | None


class _Reader:
    """What was found so far."""

    def __init__(self, order: str) -> None:
        self.order = order
        self.date: tuple[int, int, int] | None = None
        self.loose: list[str] = []
        self.month: int | None = None
        self.time: int | None = None
        self.zone: datetime.tzinfo | None = None
        self.era = False
        self.half = ""
        self.day: int | None = None

    def set_date(self, year: str, month: str, day: str) -> None:
        if self.date is not None:
            raise ValueError("two dates")
        self.date = (_year(year), MONTHS[month.lower()] if month.isalpha() else int(month), int(day))

    def set_numbers(self, first: str, second: str, third: str) -> None:
        """Three numbers, of which the style says which is the year."""
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
        self.zone = offset(text)

    def result(self) -> Moment:
        if self.month is not None:
            self._named_month()
        elif self.loose:
            raise ValueError("a number that is no part of a date")
        if self.date is not None:
            year, month, day = self.date
            if not year:
                raise ValueError("there is no year 0")
            self.day = days_of(1 - year if self.era else year, month, day)
        time = self.time
        if self.half and time is not None:
            if not 1 <= time // 3_600_000_000 <= 12:
                raise ValueError("an hour from 1 to 12 goes with AM and PM")
            time = time % (DAY // 2) + (DAY // 2 if self.half == "pm" else 0)
        return Moment(self.day, time, self.zone)

    def _named_month(self) -> None:
        if len(self.loose) != 2 or self.date is not None:
            raise ValueError("a day and a year go with the name of a month")
        first, second = self.loose
        day, year = (second, first) if len(first) > 2 else (first, second)
        self.date = (_year(year), self.month or 0, int(day))


def _year(text: str) -> int:
    number = int(text)
    return number + (1900 if number >= LATEST_CENTURY else 2000) if len(text) <= 2 else number


def _clock(hours: int, minutes: int, seconds: int, fraction: str) -> int:
    micros = round(float(f"0.{fraction or 0}") * 1_000_000)
    if minutes > 59 or seconds > 60 or hours > 24:
        raise ValueError("no time of day")
    total = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros
    if total > DAY:
        raise ValueError("no time of day")
    return total


def _compact_time(found: _Reader, text: str, fraction: str | None) -> None:
    found.set_time(text[:2], text[2:4], text[4:6] or None, fraction)


def _word(found: _Reader, text: str) -> None:
    word = text.lower().rstrip(".")
    if word in MONTHS and found.month is None and found.date is None:
        found.month = MONTHS[word]
    elif word in ("am", "pm"):
        found.half = word
    elif word in ("ad", "bc"):
        found.era = word == "bc"
    elif word == "epoch":
        found.day, found.time = 0, 0
    elif word == "allballs":
        found.time, found.zone = 0, datetime.UTC
    elif word not in DAY_NAMES and word != "t":
        found.set_zone(text)


NAME: Final = r"[A-Za-z]{3,9}"
FORMS: Final[tuple[tuple[str, Callable[..., None]], ...]] = (
    (r"(\d{3,})-(\d{1,2})-(\d{1,2})(?:T(?=\d))?", lambda f, y, m, d: f.set_date(y, m, d)),
    (r"(\d{4}) (\d{1,2})[-/](\d{1,2})(?![\d:])", lambda f, y, m, d: f.set_date(y, m, d)),
    (r"(\d{4})[/.](\d{1,2})[/.](\d{1,2})", lambda f, y, m, d: f.set_date(y, m, d)),
    (r"(\d{1,2})[/.-](\d{1,2})[/.-](\d{4}|\d{2})(?![\d:])", lambda f, *parts: f.set_numbers(*parts)),
    (rf"(\d{{4}})[-/ ]({NAME})[-/ ](\d{{1,2}})(?!\d|:)", lambda f, y, m, d: f.set_date(y, m, d)),
    (rf"(\d{{1,2}})[-/]({NAME})[-/](\d{{4}}|\d{{2}})(?!\d)", lambda f, d, m, y: f.set_date(y, m, d)),
    (rf"({NAME})[-/](\d{{1,2}})[-/](\d{{4}}|\d{{2}})(?!\d)", lambda f, m, d, y: f.set_date(y, m, d)),
    (r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:[.,](\d*))?)?(?![\d:])", lambda f, *parts: f.set_time(*parts)),
    (r"J(\d+)(?![A-Za-z])", lambda f, n: setattr(f, "day", int(n) - 2_440_588)),
    (r"(\d{4})(\d{2})(\d{2})(?:T(?=\d)|(?!\d))", lambda f, y, m, d: f.set_date(y, m, d)),
    (r"(\d{4})\.(\d{3})(?!\d)", lambda f, y, n: setattr(f, "day", _of_year(int(y), int(n)))),
    (r"T?(\d{6}|\d{4}(?=[+-]|Z))(?:\.(\d+))?(?!\d)", _compact_time),
    (r"([+-]\d{1,2}(?::?\d{2}(?::?\d{2})?)?)(?!\d)", lambda f, text: f.set_zone(text)),
    (r"([A-Za-z]+(?:[/_+-][A-Za-z0-9]+)*\.?)", _word),
    (r"(\d{1,4})(?:st|nd|rd|th)?(?!\d)", lambda f, text: f.loose.append(text)),
)
SHORT: Final = re.compile(r"(\d{2})(\d{2})(\d{2})")
"""A date of six digits, which elsewhere are a time."""
COMPILED: Final = tuple((re.compile(form, re.ASCII), take) for form, take in FORMS)


def _of_year(year: int, number: int) -> int:
    return days_of(year, 1, 1) + number - 1


def read(text: str, order: str = "MDY") -> Moment:
    """What a text says of a date and time; ValueError if it is not understood.

    ``order`` says what numbers without a sign of their own are: a month, a day, a year.
    """
    found, place, text = _Reader(order), 0, text.strip(BLANKS)
    if not text:
        raise ValueError("an empty text")
    while place < len(text):
        if text[place] in " ,\t\n\v\f\r":
            place += 1
            continue
        for form, take in COMPILED:
            match = form.match(text, place)
            if match is not None:
                try:
                    take(found, *match.groups())
                except KeyError:
                    continue
                place = match.end()
                break
        else:
            raise ValueError("no date or time")
    return found.result()


def parse_date(text: str, order: str = "MDY") -> int:
    """The day that a text means; a time of day is left out."""
    if text.strip(BLANKS).lower() in ENDS:
        return ENDS[text.strip(BLANKS).lower()]
    short = SHORT.fullmatch(text.strip(BLANKS))
    day = read("{1}/{2}/{0}".format(*short.groups()) if short else text, order).day
    if day is None:
        raise ValueError("no date")
    return day


def parse_timestamp(text: str, order: str = "MDY") -> int:
    """The date and time that a text means; a time zone is left out, as in Postgres."""
    if text.strip(BLANKS).lower() in ENDS:
        return ENDS[text.strip(BLANKS).lower()]
    moment = read(text, order)
    if moment.day is None:
        raise ValueError("no date")
    return moment.day * DAY + (moment.time or 0)


def parse_instant(text: str, default: datetime.tzinfo = datetime.UTC, order: str = "MDY") -> int:
    """The instant that a text means, in a time zone unless it says one."""
    if text.strip(BLANKS).lower() in ENDS:
        return ENDS[text.strip(BLANKS).lower()]
    moment = read(text, order)
    if moment.day is None:
        raise ValueError("no date")
    return from_local(moment.day * DAY + (moment.time or 0), moment.zone or default)


def parse_time(text: str) -> int:
    """The time of day that a text means; a date and a time zone are left out."""
    moment = read(text)
    if moment.time is None:
        raise ValueError("no time")
    return moment.time
