"""TIMETZ and PG_LSN: numbers with a form of their own.

A TIMETZ is a pair of microseconds since midnight and seconds that its zone is east of Greenwich; it is
compared by the instant, then by the zone. A PG_LSN is a number.
"""

import datetime
import re
from dataclasses import replace
from typing import Any, Final

from kpg.runtime.types import Kind, Type
from kpg.runtime.values.codec import Codec, ordered, spelled, unordered
from kpg.runtime.values.words import DAY

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
    from kpg.runtime.values.moments import read

    found = read(text)
    if found.time is None:
        raise ValueError("no time")
    zone = found.zone or default or datetime.UTC
    day = datetime.datetime(1970, 1, 1) + datetime.timedelta(days=found.day or 0)
    offset = zone.utcoffset(day)
    return found.time, 0 if offset is None else int(offset.total_seconds())


def show_timetz(value: tuple[int, int]) -> str:
    """As Postgres writes it."""
    from kpg.runtime.values.intervals import clock

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
