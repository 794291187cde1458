"""Time zones by name, abbreviation, offset or POSIX text, as Postgres takes them."""

import datetime
import functools
import io
import re
import struct
import zoneinfo
from typing import Final

from kpg.runtime.values.calendars import is_infinite
from kpg.runtime.values.words import BLANKS, EPOCH, MICROSECOND

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
NAME: Final = r"<[^<>|]+>|[^\d,+<>|-]+"
DISTANCE: Final = r"[+-]?\d{1,3}(?::\d{1,2}(?::\d{1,2})?)?"
POSIX: Final = re.compile(
    rf"(?P<name>{NAME})?(?P<west>{DISTANCE})"
    rf"(?:(?P<summer>{NAME})(?P<then>{DISTANCE})?(?:,(?P<rule>[^|]+))?)?"
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
    return _seasonal(f"<{first}>{_clock(west)}<{second}>{_clock(summer)},{rule}", text)


def _distance(text: str) -> int:
    """Seconds west of Greenwich."""
    hours, minutes, seconds = (*text.lstrip("+-").split(":"), "0", "0")[:3]
    return _seconds("-" if text.startswith("-") else "+", hours, minutes, seconds)


def _clock(west: int) -> str:
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
