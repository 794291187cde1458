"""Time zones by name, abbreviation or offset, as Postgres takes them."""

import datetime
import functools
import re
import zoneinfo
from typing import Final

from kpg.runtime.values.calendars import is_infinite
from kpg.runtime.values.words import EPOCH, MICROSECOND

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
POSIX: Final = re.compile(r"(?:<[^<>]+>|[a-z]{3,})([+-]?)(\d{1,2})(?::(\d{2}))?", re.IGNORECASE)


@functools.lru_cache(maxsize=1024)
def offset(text: str) -> datetime.tzinfo:
    """The time zone of an offset east of Greenwich, as in ISO 8601; of a name as :func:`zone`."""
    found = OFFSET.fullmatch(text.strip())
    return zone(text) if found is None else _fixed(_seconds(*found.groups()))


def _seconds(sign: str, hours: str, minutes: str | None, seconds: str | None) -> int:
    total = int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    return -total if sign == "-" else total


@functools.lru_cache(maxsize=1024)
def zone(name: str) -> datetime.tzinfo:
    """The time zone of a name, abbreviation or, as in POSIX, offset west; ValueError if there is none."""
    text = name.strip()
    if text.lower() in HOURS:
        return _fixed(HOURS[text.lower()] * 3600)
    found = OFFSET.fullmatch(text)
    if found is not None:
        return _fixed(-_seconds(*found.groups()))
    posix = POSIX.fullmatch(text)
    if posix is not None:  # whose sign is the other way round
        sign, hours, minutes = posix.groups()
        total = int(hours) * 3600 + int(minutes or 0) * 60
        return _fixed(total if sign == "-" else -total)
    for known in (text, _cased(text), text.upper()):
        try:
            return zoneinfo.ZoneInfo(known)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            continue
    raise ValueError(f"no time zone {name}")


def _cased(text: str) -> str:
    """``america/new_york`` with capitals where names have them."""
    return re.sub(r"(?:^|(?<=[/_-]))[a-z]", lambda found: found[0].upper(), text.lower())


def named(name: str) -> str:
    """The name of a time zone as it is written in its list; ValueError if there is none."""
    where = zone(name)
    return where.key if isinstance(where, zoneinfo.ZoneInfo) else name


def _fixed(seconds: int) -> datetime.tzinfo:
    if abs(seconds) >= 86_400:
        raise ValueError("a time zone is less than a day from Greenwich")
    return datetime.timezone(datetime.timedelta(seconds=seconds))


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
