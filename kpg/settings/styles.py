"""The settings that say how moments, intervals, bytes and floats are written: which values they may have."""

import re
from typing import Final

from kpg.runtime.errors import ProgrammingError, Span
from kpg.runtime.values import date_time, intervals

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
UTC: Final = ("utc", "gmt", "uct", "etc/utc", "etc/gmt", "zulu", "0", "local", "default", "universal")
HOURS: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?", re.IGNORECASE)
"""A number: hours east of Greenwich. What has a colon is a POSIX text, and counts to the west."""
SPAN: Final = re.compile(r"interval\s+'([^']*)'", re.IGNORECASE)


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
    span = SPAN.fullmatch(plain)
    try:
        if HOURS.fullmatch(plain):
            return date_time.named(_posix(int(float(plain) * 3600)))
        if span is not None:
            months, days, micros = intervals.parse(span[1])
            return None if months or days else date_time.named(_posix(int(micros / intervals.SECOND)))
        return date_time.named(plain)
    except (ValueError, OverflowError):
        return None


def _posix(east: int) -> str:
    """The POSIX text of a time zone that many seconds east of Greenwich."""
    minutes, seconds = divmod(abs(east), 60)
    shown = f"{minutes // 60:02d}" + (f":{minutes % 60:02d}" if minutes % 60 or seconds else "")
    shown += f":{seconds:02d}" if seconds else ""
    return f"<-{shown}>+{shown}" if east < 0 else f"<+{shown}>-{shown}"
