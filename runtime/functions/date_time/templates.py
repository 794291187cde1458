"""``to_char``, ``to_date`` and ``to_timestamp`` of moments and intervals, by Postgres' template patterns.

Conversions between text and moments that depend on the session's style are here, too.
"""

import datetime
import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from kpg.runtime.functions.date_time.fields import EPOCH, HOUR, JULIAN_EPOCH, MINUTE, SECOND
from kpg.runtime.functions.registry import Memoized, primitive
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call
from kpg.runtime.values import date_time, style_output, styles
from kpg.runtime.values.intervals import Interval
from kpg.runtime.values.style_output import abbreviation
from kpg.runtime.values.words import BLANKS, DAY, civil, days_of

CYCLE: Final = 146_097
"""The days of 400 years."""
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
    shift: int = 0
    """The years, a multiple of 400, by which the moment is behind ``date``, which has no year below 1."""


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
    year, month, day = civil(stamp // DAY)
    near = year if 1 <= year <= datetime.MAXYEAR else year % 400 + 2000
    return Parts(year, month, day, stamp % DAY, datetime.date(near, month, day), zone, shift=year - near)


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
            year = _counted_year(parts)
            return _padded(year if size == 4 else year % 10**size, size, token)
        case "Y,YYY":
            return f"{_counted_year(parts) // 1000},{_counted_year(parts) % 1000:03d}"
        case "MM":
            return _padded(parts.month, 2, token)
        case "DD":
            return _padded(parts.day, 2, token)
        case "CC":
            if parts.date is None:
                return _padded(parts.year // 100, 2, token)
            return _timed((parts.year + 99) // 100 if parts.year > 0 else -(-parts.year // 100) - 1, token)
        case "Q":
            return str((parts.month + 2) // 3) if parts.month else ""
        case _:
            return _of_date(parts, token)


def _counted_year(parts: Parts) -> int:
    """The year as its era counts it: the year 0 is 1 BC."""
    return parts.year if parts.date is None or parts.year > 0 else 1 - parts.year


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
            year += parts.shift
            year = year if year > 0 else 1 - year
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
            return str((date - EPOCH.date()).days + parts.shift // 400 * CYCLE + JULIAN_EPOCH)


def _word(parts: Parts, token: Token) -> str:
    pattern, lowered = token.pattern, token.pattern.lower()
    if lowered in ("am", "pm", "a.m.", "p.m."):
        later = abs(_clock(parts)[0]) % 24 >= 12
        text = ("p.m." if later else "a.m.") if "." in pattern else ("pm" if later else "am")
        return text.upper() if pattern[0].isupper() else text
    if lowered in ("ad", "bc", "a.d.", "b.c."):
        if parts.date is None:
            raise ValueError(f'invalid format specification for an interval value: "{token.text}"')
        era = "bc" if parts.year <= 0 else "ad"
        text = f"{era[0]}.{era[1]}." if "." in pattern else era
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


def _written(call: Call) -> Callable[..., str]:
    type_ = call.args[0].type
    return lambda value, style: style_output.writer_of(type_, styles.style_of(style))(value)


def _read(call: Call) -> Callable[..., Any]:
    return lambda text, style: style_output.reader_of(call.type, styles.style_of(style))(text)


def _by_template(word: int, template: str, zone: str) -> str | None:
    where = date_time.zone(zone)
    local = date_time.to_local(word, where)
    seconds = (local - word) // 1_000_000
    parts = replace(of_stamp(local, abbreviation(word, where)), east=seconds)
    return shown(parts, template) if template else None


def _east(word: int, zone: str) -> int:
    """How many seconds clocks of a zone are ahead of Greenwich."""
    return (date_time.to_local(word, date_time.zone(zone)) - word) // 1_000_000


primitive("$in_style", Memoized(_written))
primitive("$read_in_style", Memoized(_read))
primitive("$by_template", Memoized(lambda call: _by_template))
primitive("$east", Memoized(lambda call: _east))


WIDTHS: Final = {
    "YYYY": 4,
    "YYY": 3,
    "YY": 2,
    "Y": 1,
    "IYYY": 4,
    "IYY": 3,
    "IY": 2,
    "I": 1,
    "MM": 2,
    "DD": 2,
    "DDD": 3,
    "HH24": 2,
    "HH12": 2,
    "HH": 2,
    "MI": 2,
    "SS": 2,
    "MS": 3,
    "US": 6,
    "SSSS": 5,
    "SSSSS": 5,
    "J": 8,
    "Q": 1,
    "D": 1,
    "ID": 1,
    "IDDD": 3,
    "WW": 2,
    "IW": 2,
    "W": 1,
    "CC": 2,
}
YEARS: Final = frozenset(("YYYY", "YYY", "YY", "Y", "IYYY", "IYY", "IY", "I"))
ISO_PATTERNS: Final = frozenset(("IYYY", "IYY", "IY", "I", "IDDD", "ID", "IW"))
GREGORIAN_PATTERNS: Final = frozenset(
    ("Y,YYY", "YYYY", "YYY", "YY", "Y", "MONTH", "MON", "MM", "RM", "DDD", "DD", "D", "WW", "W")
)
MINUTES: Final = 60
NUMBER: Final = re.compile(r"\s*([+-]?\d+)")


def stamp(text: str, template: str) -> int:
    """The microseconds since 1970 of the moment that a text means by a template; ValueError if none."""
    found = _reading_read(text, template)
    return _day_of(found) * DAY + _time_of(found)


def _reading_read(text: str, template: str) -> dict[str, int]:
    """The values of the patterns, by pattern."""
    found: dict[str, int] = {}
    place, extra = _behind_blanks(text, 0, 0)
    parts = tokens(template)
    for number, token in enumerate(parts):
        if place >= len(text):
            break
        if not token.pattern:
            place, extra = _skipped(text, place, token, extra)
            continue
        place, extra = _behind_blanks(text, place, extra)
        if place >= len(text):
            break
        _note_convention(token.pattern.upper(), found)
        if token.pattern in NUMERIC or token.pattern.startswith("FF"):
            following = parts[number + 1] if number + 1 < len(parts) else None
            place = _digits(text, place, token, following, found)
        else:
            # The sign of a zone may have been taken for a separator.
            signed = token.pattern == "TZH" and extra > 0 and text[place - 1] == "-"
            place = _name(text, place - signed, token, found)
        place, extra = _behind_blanks(text, place, 0)
    return found


def _note_convention(pattern: str, found: dict[str, int]) -> None:
    """Note which calendar a pattern is of; ValueError if one before it is of the other."""
    iso = pattern in ISO_PATTERNS
    if (iso or pattern in GREGORIAN_PATTERNS) and found.setdefault("iso", iso) != iso:
        raise ValueError("invalid combination of date conventions")


def _behind_blanks(text: str, place: int, extra: int) -> tuple[int, int]:
    """The place behind blanks, and how many characters have been skipped beyond those of the template."""
    while place < len(text) and text[place] in BLANKS:
        place, extra = place + 1, extra + 1
    return place, extra


def _skipped(text: str, place: int, token: Token, extra: int) -> tuple[int, int]:
    """Past what stands for itself: a blank or separator for any other, a letter for any character.

    What was skipped before counts: no more is skipped for as many characters of the template.
    """
    if not token.quoted and not token.text.isalnum() and token.text.isascii():
        here = text[place]
        separates = here in BLANKS or (here.isascii() and here.isprintable() and not here.isalnum())
        return (place + 1, extra) if separates else (place, extra - 1)
    for _ in token.text:
        if extra > 0:
            extra -= 1
        else:
            place += 1
    return place, extra


def _digits(text: str, place: int, token: Token, following: Token | None, found: dict[str, int]) -> int:
    width = int(token.pattern[2]) if token.pattern.startswith("FF") else WIDTHS.get(token.pattern, 4)
    packed = following is not None and (following.pattern in NUMERIC or following.text[:1].isdigit())
    if token.pattern == "Y,YYY":
        match = re.compile(r"(\d+),(\d{3})").match(text, place)
        if match is None:
            raise ValueError(f'invalid input string for "{token.text}"')
        found["YYYY"], found["digits"] = int(match[1]) * 1000 + int(match[2]), 4
        return match.end() + 2 * bool(token.suffix)
    many = f"{{1,{width}}}" if packed or (not token.fill and packed) else "+"
    if token.pattern not in ("YYYY", "IYYY", "J", "US", "MS") and not token.pattern.startswith("FF"):
        many = f"{{1,{width}}}" if width > 1 or packed else "{1,1}"
    match = re.compile(rf"([+-]?\d{many})").match(text, place)
    if match is None:
        raise ValueError(f'invalid value "{text[place : place + width]}" for "{token.text}"')
    if token.pattern in ("MS", "US") or token.pattern.startswith("FF"):
        micros = int(match[1][:6].ljust(6, "0"))
        found["fraction"] = micros
    else:
        found[token.pattern] = int(match[1])
        size = len(token.pattern)
        if token.pattern in YEARS:
            value = int(match[1])
            found["YYYY"] = _near(value, len(match[1])) if size < 4 else value
            found["digits"] = size
        elif token.pattern == "ID":
            found["D"] = value % 7 + 1 if (value := int(match[1])) < 7 else 1
    end = match.end()
    if token.suffix:
        end += 2
    return end


def _near(year: int, digits: int) -> int:
    """A year of fewer than four digits: that which is nearest to 2020."""
    if digits >= 4:
        return year
    if year < 70:
        return year + 2000
    return year + (1900 if year < 520 and year < 100 else 2000 if year < 520 else 1000)


def _name(text: str, place: int, token: Token, found: dict[str, int]) -> int:
    lowered = token.pattern.lower()
    names: dict[str, int] = {}
    if lowered in ("month", "mon"):
        names = {(name if lowered == "month" else name[:3]).lower(): at for at, name in enumerate(MONTHS, 1)}
    elif lowered == "rm":
        names = {name.lower(): at for at, name in enumerate(ROMAN, 1)}
    elif lowered in ("day", "dy"):
        names = {(name if lowered == "day" else name[:3]).lower(): at for at, name in enumerate(DAYS, 1)}
    elif lowered in ("am", "pm", "a.m.", "p.m."):
        names = {"a.m.": 0, "p.m.": 1} if "." in lowered else {"am": 0, "pm": 1}
    elif lowered in ("ad", "bc", "a.d.", "b.c."):
        names = {"a.d.": 0, "b.c.": 1} if "." in lowered else {"ad": 0, "bc": 1}
    elif lowered in ("tz", "tzh", "of"):
        match = re.compile(r"[A-Za-z]+|[+-]?\d{1,2}").match(text, place)
        if match is None:
            raise ValueError(f'invalid value for "{token.text}"')
        found["zone"] = int(match[0]) * MINUTES if match[0].lstrip("+-").isdigit() else 0
        found["west"] = match[0].startswith("-")
        return match.end()
    elif lowered == "tzm":
        match = re.compile(r"\d{1,2}").match(text, place)
        if match is None:
            return place
        east = -int(match[0]) if found.get("west") else int(match[0])
        found["zone"] = found.get("zone", 0) + east
        return match.end()
    rest = text[place:].lower()
    for name in sorted(names, key=len, reverse=True):
        if rest.startswith(name):
            found[_key(lowered)] = names[name]
            return place + len(name)
    raise ValueError(f'invalid value "{text[place : place + len(lowered)]}" for "{token.text}"')


def _key(pattern: str) -> str:
    """The value that a pattern of words is for."""
    if pattern in ("month", "mon", "rm"):
        return "MM"
    if pattern in ("am", "pm", "a.m.", "p.m."):
        return "half"
    if pattern in ("day", "dy"):
        return "D"
    return "bc" if pattern in ("ad", "bc", "a.d.", "b.c.") else pattern


def _day_of(found: dict[str, int]) -> int:
    """Days since 1970, by Postgres' rules: a field that is 0 counts as absent."""
    year, month, day = _year(found), 1, 1
    iso = bool(found.get("iso"))
    if found.get("J"):
        year, month, day = civil(found["J"] - JULIAN_EPOCH)
    day_of_year = found.get("IDDD" if iso else "DDD", 0)
    if iso and found.get("IW"):
        year, month, day = civil(_iso_week_start(year, found["IW"]) + _days_behind_monday(found))
    elif found.get("WW"):
        day_of_year = (found["WW"] - 1) * 7 + 1
    day = (found["W"] - 1) * 7 + 1 if found.get("W") else found.get("DD", 0) or day
    month = found.get("MM", 0) or month
    if day_of_year and (month <= 1 or day <= 1):
        if not year and not found.get("bc"):
            raise ValueError("cannot calculate day of year without year information")
        if iso:
            return _iso_week_start(year, 1) + day_of_year - 1
        _, of_month, of_day = civil(days_of(year, 1, 1) + day_of_year - 1)
        if day_of_year > days_of(year + 1, 1, 1) - days_of(year, 1, 1):
            raise ValueError("date/time field value out of range")
        month, day = of_month if month <= 1 else month, of_day if day <= 1 else day
    if not (1 <= month <= 12 and 1 <= day <= 31 and civil(days_of(year, month, day)) == (year, month, day)):
        raise ValueError("date/time field value out of range")
    return days_of(year, month, day)


def _iso_week_start(year: int, week: int) -> int:
    """The Monday of a week of an ISO year, in days since 1970, which began on a Thursday."""
    fourth = days_of(year, 1, 4)
    return fourth - (fourth + 3) % 7 + (week - 1) * 7


def _days_behind_monday(found: dict[str, int]) -> int:
    """How far the day of the week, 1 for Sunday, is behind Monday; 0 without one."""
    return (found["D"] - 2) % 7 if found.get("D") else 0


def _year(found: dict[str, int]) -> int:
    """The year; 0 is 1 BC, which is also that of a text without one."""
    year, century = found.get("YYYY", 0), found.get("CC", 0)
    sign = -1 if found.get("bc") else 1
    century *= sign
    if year and (not century or found["digits"] > 2):
        year *= sign
        return year + 1 if year < 0 else year
    if not century:
        return 0
    if not year:
        return (century - 1) * 100 + 1 if century > 0 else century * 100 + 1
    in_century = year % 100
    if not in_century:
        return century * 100 + (century < 0)
    return (century - 1) * 100 + in_century if century > 0 else (century + 1) * 100 - in_century + 1


def _time_of(found: dict[str, int]) -> int:
    if "SSSS" in found or "SSSSS" in found:
        time = found.get("SSSS", found.get("SSSSS", 0)) * SECOND
    else:
        hour = found.get("HH24", 0)
        if "HH24" not in found and ("HH12" in found or "HH" in found):
            hour = found.get("HH12", found.get("HH", 0))
            if not 1 <= hour <= 12:
                raise ValueError(f'hour "{hour}" is invalid for the 12-hour clock')
            if "half" in found:
                hour = hour % 12 + 12 * found["half"]
        minute, second = found.get("MI", 0), found.get("SS", 0)
        if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60):
            raise ValueError("date/time field value out of range")
        time = hour * HOUR + minute * MINUTE + second * SECOND
    return time + found.get("fraction", 0) - found.get("zone", 0) * MINUTE
