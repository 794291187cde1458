"""The settings that say how moments, intervals, bytes and floats are written: which values they may have.

Settings that are times, switches or levels of isolation: what they may be, and how they are read.
"""

import re
from typing import Final

from kpg.runtime.errors import ProgrammingError, Span
from kpg.runtime.values import date_time, intervals

UNITS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "": 1e-3}
DURATION: Final = re.compile(r"\s*(\d+(?:\.\d*)?)\s*(us|ms|s|min|h|d|)\s*")
TIMES: Final = frozenset(
    {"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout"}
)
MOST_SECONDS: Final = (2**31 - 1) / 1000
LEVELS: Final = ("read uncommitted", "read committed", "repeatable read", "serializable")
ISOLATION: Final = "transaction_isolation"
ISOLATIONS: Final = frozenset({ISOLATION, f"default_{ISOLATION}"})
CHECKED: Final = TIMES | ISOLATIONS
"""The names of those that :func:`checked` knows."""


def seconds_of(text: str) -> float:
    """A duration as settings have it: a number of milliseconds, or one with a unit. 0 if it is none."""
    found = DURATION.fullmatch(text)
    return 0.0 if found is None else float(found[1]) * UNITS[found[2]]


def checked(name: str, value: str, span: Span) -> str:
    """A time limit, or a level in lower case; ProgrammingError for what is neither.

    In silence it would be no limit, and a weaker level than was asked for.
    """
    if name in ISOLATIONS:
        if value.lower() in LEVELS:
            return value.lower()
        hint = ", ".join(LEVELS)
    else:
        if DURATION.fullmatch(value) is not None and seconds_of(value) <= MOST_SECONDS:
            return value
        hint = "a number of milliseconds, or one with a unit: us, ms, s, min, h, d"
    error = ProgrammingError(f'invalid value for parameter "{name}": "{value}"', span=span, hint=hint)
    error.sqlstate = "22023"
    raise error


def switched(name: str, value: str, span: Span) -> str:
    """``on`` or ``off``, by whatever word."""
    word = value.lower()
    for found, words in (("on", ("on", "true", "yes", "1")), ("off", ("off", "false", "no", "0"))):
        if word in words or (word and word != "o" and any(one.startswith(word) for one in words)):
            return found
    error = ProgrammingError(f'parameter "{name}" requires a Boolean value', span=span)
    error.sqlstate = "22023"
    raise error


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
