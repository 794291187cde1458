"""``to_char``, ``to_date``, ``to_timestamp``: moments and intervals by Postgres' template patterns."""

import datetime
import re
from functools import lru_cache
from typing import Final

from kpg.runtime.functions.fields import EPOCH, HOUR, JULIAN_EPOCH, MICROSECOND, MINUTE, SECOND
from kpg.runtime.records import dataclass
from kpg.runtime.values.intervals import Interval
from kpg.runtime.values.words import DAY

MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October"),
    *("November", "December"),
)
DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
ROMAN: Final = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII")
PATTERNS: Final = (
    *("SSSSS", "HH24", "HH12", "SSSS", "IYYY", "IDDD", "Y,YYY", "YYYY", "MONTH", "Month", "month"),
    *(
        "IYY",
        "YYY",
        "DDD",
        "DAY",
        "Day",
        "day",
        "MON",
        "Mon",
        "mon",
        "TZH",
        "TZM",
        "FF1",
        "FF2",
        "FF3",
        "FF4",
    ),
    *("FF5", "FF6", "A.D.", "B.C.", "a.d.", "b.c.", "A.M.", "P.M.", "a.m.", "p.m."),
    *(
        "HH",
        "MI",
        "SS",
        "MS",
        "US",
        "YY",
        "IY",
        "MM",
        "DD",
        "ID",
        "DY",
        "Dy",
        "dy",
        "WW",
        "IW",
        "CC",
        "RM",
        "rm",
    ),
    *("TZ", "tz", "OF", "AD", "BC", "ad", "bc", "AM", "PM", "am", "pm", "D", "W", "J", "Q", "Y", "I"),
)
_NUMBERS: Final = """
    SSSSS HH24 HH12 SSSS IYYY IDDD Y,YYY YYYY IYY YYY DDD HH MI SS MS US YY IY MM DD ID WW IW CC D W J Q Y I
"""
NUMERIC: Final = frozenset(_NUMBERS.split())
"""The patterns of numbers."""
_FOLDED: Final = "ff1 ff2 ff3 ff4 ff5 ff6 tzh tzm"
FOLDED: Final = frozenset((*_NUMBERS.lower().split(), *_FOLDED.split()))
"""Patterns that mean the same in small letters."""
TOKEN: Final = re.compile(
    r'(?P<modifier>FM|TM|FX|fm|tm|fx)|"(?P<quoted>(?:[^"\\]|\\.)*)"?|\\(?P<escaped>.)|(?P<pattern>'
    + "|".join(sorted(map(re.escape, (*PATTERNS, *FOLDED)), key=len, reverse=True))
    + r")(?P<suffix>TH|th)?|(?P<other>.)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A pattern, or with an empty ``pattern`` a text that stands for itself."""

    pattern: str
    text: str = ""
    fill: bool = True
    suffix: str = ""
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Parts:
    """What a moment or an interval shows."""

    year: int
    month: int
    day: int
    time: int
    """Microseconds; of an interval perhaps more than a day's, or negative."""
    date: datetime.date | None
    zone: str = ""
    east: int = 0
    """Seconds that its zone is ahead of Greenwich."""


@lru_cache(maxsize=512)
def tokens(template: str) -> tuple[Token, ...]:
    """A template taken apart."""
    result: list[Token] = []
    fill = True
    for found in TOKEN.finditer(template):
        if found["modifier"]:
            if found["modifier"].upper() in ("FM", "TM"):
                fill = False
            continue
        if found["pattern"]:
            pattern = found["pattern"]
            known = pattern.upper() if pattern in FOLDED else pattern
            result.append(Token(known, pattern, fill, found["suffix"] or ""))
            fill = True
        elif found["quoted"] is not None:
            result.append(Token("", re.sub(r"\\(.)", r"\1", found["quoted"]), quoted=True))
        else:
            result.append(Token("", found["escaped"] or found["other"]))
    return tuple(result)


def of_stamp(stamp: int, zone: str = "") -> Parts:
    """The parts of a moment."""
    moment = EPOCH + stamp * MICROSECOND
    return Parts(moment.year, moment.month, moment.day, stamp % DAY, moment.date(), zone)


def of_interval(span: Interval) -> Parts:
    """The parts of an interval, which has no date."""
    sign = -1 if span.months < 0 else 1
    years, months = divmod(abs(span.months), 12)
    return Parts(sign * years, sign * months, span.days, span.microseconds, None)


def shown(parts: Parts, template: str) -> str:
    """By a template; ValueError if it asks for what is not there."""
    return "".join(token.text if not token.pattern else _shown(parts, token) for token in tokens(template))


def _shown(parts: Parts, token: Token) -> str:
    text = _number(parts, token) if token.pattern in NUMERIC else _word(parts, token)
    if token.suffix and token.pattern in NUMERIC:
        text += _ordinal(text, token.suffix)
    return text


def _padded(value: int, width: int, token: Token) -> str:
    """With zeros, a sign counting as a digit."""
    return f"{value:0{width}d}" if token.fill else str(value)


def _timed(value: int, token: Token) -> str:
    """Two digits, and a sign before them."""
    return _padded(value, 3 if value < 0 else 2, token)


def _clock(parts: Parts) -> tuple[int, int, int, int]:
    """Hours, minutes, seconds, microseconds, of the time's sign."""
    sign = -1 if parts.time < 0 else 1
    hours, rest = divmod(abs(parts.time), HOUR)
    return sign * hours, sign * (rest // MINUTE), sign * (rest % MINUTE // SECOND), sign * (rest % SECOND)


def _number(parts: Parts, token: Token) -> str:
    hours, minutes, seconds, micros = _clock(parts)
    match token.pattern:
        case "HH24":
            return _timed(hours, token)
        case "HH" | "HH12":
            sign = -1 if hours < 0 else 1
            return _timed(sign * ((abs(hours) + 11) % 12 + 1), token)
        case "MI":
            return _timed(minutes, token)
        case "SS":
            return _timed(seconds, token)
        case "MS":
            return _padded(micros // 1000, 3, token)
        case "US":
            return _padded(micros, 6, token)
        case "SSSS" | "SSSSS":
            return str(hours * 3600 + minutes * 60 + seconds)
        case "YYYY" | "YYY" | "YY" | "Y":
            size = len(token.pattern)
            return _padded(parts.year if size == 4 else parts.year % 10**size, size, token)
        case "Y,YYY":
            return f"{parts.year // 1000},{parts.year % 1000:03d}"
        case "MM":
            return _padded(parts.month, 2, token)
        case "DD":
            return _padded(parts.day, 2, token)
        case "CC":
            return _padded((parts.year + 99) // 100 if parts.date else parts.year // 100, 2, token)
        case "Q":
            return str((parts.month + 2) // 3) if parts.month else ""
        case _:
            return _of_date(parts, token)


def _of_date(parts: Parts, token: Token) -> str:
    """What needs a date."""
    date = parts.date
    if date is None:
        if token.pattern in ("DDD", "J"):
            days = (parts.year * 12 + parts.month) * 30 + parts.day
            return _padded(days, 3, token) if token.pattern == "DDD" else str(days)
        raise ValueError(f'invalid format specification for an interval value: "{token.text}"')
    year, week, weekday = date.isocalendar()
    match token.pattern:
        case "IYYY" | "IYY" | "IY" | "I":
            size = len(token.pattern)
            return _padded(year if size == 4 else year % 10**size, size, token)
        case "DDD":
            return _padded(date.timetuple().tm_yday, 3, token)
        case "IDDD":
            return _padded((week - 1) * 7 + weekday, 3, token)
        case "D":
            return str(date.isoweekday() % 7 + 1)
        case "ID":
            return str(weekday)
        case "WW":
            return _padded((date.timetuple().tm_yday - 1) // 7 + 1, 2, token)
        case "IW":
            return _padded(week, 2, token)
        case "W":
            return str((date.day - 1) // 7 + 1)
        case _:
            return str((date - EPOCH.date()).days + JULIAN_EPOCH)


def _word(parts: Parts, token: Token) -> str:
    pattern, lowered = token.pattern, token.pattern.lower()
    if lowered in ("am", "pm", "a.m.", "p.m."):
        later = abs(_clock(parts)[0]) % 24 >= 12
        text = ("p.m." if later else "a.m.") if "." in pattern else ("pm" if later else "am")
        return text.upper() if pattern[0].isupper() else text
    if lowered in ("ad", "bc", "a.d.", "b.c."):
        text = ("bc" if parts.year <= 0 and parts.date else "ad") if "." not in pattern else "a.d."
        return text.upper() if pattern[0].isupper() else text
    if pattern.startswith("FF"):
        micros = abs(_clock(parts)[3])
        return f"{micros:06d}"[: int(pattern[2])]
    if lowered in ("month", "mon", "rm"):
        return _month(parts, token)
    if lowered in ("day", "dy"):
        if parts.date is None:
            raise ValueError(f'invalid format specification for an interval value: "{token.text}"')
        return _cased(DAYS[parts.date.isoweekday() % 7], token, 9, lowered == "day")
    if pattern in ("TZ", "tz"):
        return parts.zone if pattern == "TZ" else parts.zone.lower()
    return _offset(parts.east, pattern)


def _offset(east: int, pattern: str) -> str:
    """How far a zone is from Greenwich: hours, minutes, or both, minutes if there are any."""
    hours, minutes = divmod(abs(east) // 60, 60)
    signed = f"{'-' if east < 0 else '+'}{hours:02d}"
    match pattern:
        case "TZH":
            return signed
        case "TZM":
            return f"{minutes:02d}"
        case "OF":
            return f"{signed}:{minutes:02d}" if minutes else signed
        case _:
            return ""


def _month(parts: Parts, token: Token) -> str:
    lowered = token.pattern.lower()
    if lowered == "rm":
        if not parts.month and not parts.year:
            return ""
        # Of an interval: no months are the year's last one, and those below 0 are counted from its end.
        if parts.month:
            name = ROMAN[parts.month - 1 if parts.month > 0 else parts.month]
        else:
            name = ROMAN[-1 if parts.year > 0 else 0]
        text = name if token.pattern == "RM" else name.lower()
        return text.ljust(4) if token.fill else text
    if parts.date is None:
        raise ValueError(f'invalid format specification for an interval value: "{token.text}"')
    return _cased(MONTHS[parts.month - 1], token, 9, lowered == "month")


def _cased(name: str, token: Token, width: int, whole: bool) -> str:
    """In the case of the pattern, the whole name filled up with blanks."""
    text = name if whole else name[:3]
    if token.pattern.isupper():
        text = text.upper()
    elif token.pattern.islower():
        text = text.lower()
    return text.ljust(width) if whole and token.fill else text


def _ordinal(number: str, suffix: str) -> str:
    digits = number.lstrip("-")
    teen = len(digits) > 1 and digits[-2] == "1"
    ending = "th" if teen else {"1": "st", "2": "nd", "3": "rd"}.get(digits[-1], "th")
    return ending.upper() if suffix.isupper() else ending
