"""The settings that say how moments, intervals, bytes and floats are written: which values they may have."""

import re
from typing import Final

from kpg.runtime.errors import ProgrammingError, Span
from kpg.runtime.values import zones

DATES: Final = {"iso": "ISO", "sql": "SQL", "postgres": "Postgres", "german": "German"}
ORDERS: Final = {
    **dict.fromkeys(("mdy", "us", "noneuro", "noneuropean"), "MDY"),
    **dict.fromkeys(("dmy", "euro", "european"), "DMY"),
    "ymd": "YMD",
}
CHOICES: Final = {
    "intervalstyle": ("postgres", "postgres_verbose", "sql_standard", "iso_8601"),
    "bytea_output": ("hex", "escape"),
}
UTC: Final = ("utc", "gmt", "uct", "etc/utc", "etc/gmt", "zulu", "z", "0", "local", "default", "universal")
HOURS: Final = re.compile(r"([+-]?)(\d{1,2})(?::?(\d{2})|(\.\d+))?")


def meant(name: str, value: str, before: str, span: Span) -> str:
    """What a setting is from now on; ProgrammingError for what it cannot be."""
    plain = value.strip().lower()
    if name in CHOICES and plain in CHOICES[name]:
        return plain
    if name == "extra_float_digits" and re.fullmatch(r"-?\d{1,2}", plain) and -15 <= int(plain) <= 3:
        return plain if int(plain) < 1 else "1"
    found = _dates(plain, before) if name == "datestyle" else _zone(value) if name == "timezone" else None
    if found is None:
        raise ProgrammingError(f'invalid value for parameter "{name}": "{value}"', span=span)
    return found


def _dates(text: str, before: str) -> str | None:
    dates, _, order = before.partition(", ")
    for word in filter(None, re.split(r"[,\s]+", text)):
        if word in DATES:
            dates = DATES[word]
            order = "DMY" if word == "german" else order
        elif word in ORDERS:
            order = ORDERS[word]
        elif word == "default":
            dates, order = "ISO", "MDY"
        else:
            return None
    return f"{dates}, {order}"


def _zone(text: str) -> str | None:
    """The name of a time zone; of hours east of Greenwich the name that POSIX has for it."""
    plain = text.strip()
    if plain.lower() in UTC:
        return "UTC"
    hours = HOURS.fullmatch(plain)
    if hours is not None:
        sign, whole, minutes, part = hours.groups()
        total = int(whole) * 60 + int(minutes or 0) + round(float(part or 0) * 60)
        shown = f"{total // 60:02d}" + (f":{total % 60:02d}" if total % 60 else "")
        east, west = ("-", "+") if sign == "-" else ("+", "-")
        return f"<{east}{shown}>{west}{shown}" if total <= 15 * 60 else None
    try:
        return zones.named(plain)
    except ValueError:
        return None
