"""``to_char``, ``to_date`` and ``to_timestamp`` of moments and intervals, by Postgres' template patterns.

Conversions between text and moments that depend on the session's style are also here.
"""

import datetime
import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from kpg.runtime.functions.date_time.fields import EPOCH, HOUR, JULIAN_EPOCH, MINUTE, SECOND
from kpg.runtime.functions.registry import MemoizedFunction, register_primitive
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call
from kpg.runtime.values import date_time, style_output, styles
from kpg.runtime.values.intervals import Interval
from kpg.runtime.values.style_output import zone_abbreviation
from kpg.runtime.values.words import BLANKS, DAY, civil, days_of

GREGORIAN_CYCLE: Final = 146_097
"""Days of 400 years."""
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
NUMERIC_PATTERNS: Final = frozenset(_NUMBERS.split())
"""Patterns of numbers."""
_MORE_CASE_INSENSITIVE: Final = "ff1 ff2 ff3 ff4 ff5 ff6 tzh tzm"
CASE_INSENSITIVE_PATTERNS: Final = frozenset((*_NUMBERS.lower().split(), *_MORE_CASE_INSENSITIVE.split()))
"""Patterns that mean the same in lower case."""
TOKEN: Final = re.compile(
    r'(?P<modifier>FM|TM|FX|fm|tm|fx)|"(?P<quoted>(?:[^"\\]|\\.)*)"?|\\(?P<escaped>.)|(?P<pattern>'
    + "|".join(sorted(map(re.escape, (*PATTERNS, *CASE_INSENSITIVE_PATTERNS)), key=len, reverse=True))
    + r")(?P<suffix>TH|th)?|(?P<other>.)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A pattern, or with an empty ``pattern`` literal text."""

    pattern: str
    text: str = ""
    fill: bool = True
    suffix: str = ""
    is_quoted: bool = False


@dataclass(frozen=True, slots=True)
class MomentParts:
    """Components of a moment or an interval."""

    year: int
    month: int
    day: int
    time: int
    """Microseconds. An interval may have more than a day, or a negative time."""
    date: datetime.date | None
    zone: str = ""
    east: int = 0
    """Seconds east of Greenwich."""
    shift: int = 0
    """The years, a multiple of 400, by which the moment is behind ``date``, which has no year below 1."""


@lru_cache(maxsize=512)
def parse_template(template: str) -> tuple[Token, ...]:
    """Split a template into its tokens."""
    result: list[Token] = []
    fill = True
    for found in TOKEN.finditer(template):
        if found["modifier"]:
            if found["modifier"].upper() in ("FM", "TM"):
                fill = False
            continue
        if found["pattern"]:
            pattern = found["pattern"]
            canonical = pattern.upper() if pattern in CASE_INSENSITIVE_PATTERNS else pattern
            result.append(Token(canonical, pattern, fill, found["suffix"] or ""))
            fill = True
        elif found["quoted"] is not None:
            result.append(Token("", re.sub(r"\\(.)", r"\1", found["quoted"]), is_quoted=True))
        else:
            result.append(Token("", found["escaped"] or found["other"]))
    return tuple(result)


def moment_parts(stamp: int, zone: str = "") -> MomentParts:
    """Return the components of a moment."""
    year, month, day = civil(stamp // DAY)
    near = year if 1 <= year <= datetime.MAXYEAR else year % 400 + 2000
    return MomentParts(
        year, month, day, stamp % DAY, datetime.date(near, month, day), zone, shift=year - near
    )


def interval_parts(span: Interval) -> MomentParts:
    """Return the components of an interval, which has no date."""
    sign = -1 if span.months < 0 else 1
    years, months = divmod(abs(span.months), 12)
    return MomentParts(sign * years, sign * months, span.days, span.microseconds, None)


def format_parts(parts: MomentParts, template: str) -> str:
    """Format components by a template.

    Raises:
        ValueError: The template needs a component that an interval lacks.
    """
    return "".join(
        token.text if not token.pattern else _format_token(parts, token) for token in parse_template(template)
    )


def _format_token(parts: MomentParts, token: Token) -> str:
    text = _format_number(parts, token) if token.pattern in NUMERIC_PATTERNS else _format_word(parts, token)
    if token.suffix and token.pattern in NUMERIC_PATTERNS:
        text += _ordinal_suffix(text, token.suffix)
    return text


def _pad_number(value: int, width: int, token: Token) -> str:
    """Pad with zeros. A sign counts as a digit."""
    return f"{value:0{width}d}" if token.fill else str(value)


def _pad_time(value: int, token: Token) -> str:
    """Pad to two digits, and a sign before them."""
    return _pad_number(value, 3 if value < 0 else 2, token)


def _clock_fields(parts: MomentParts) -> tuple[int, int, int, int]:
    """Return hours, minutes, seconds and microseconds, each with the sign of the time."""
    sign = -1 if parts.time < 0 else 1
    hours, rest = divmod(abs(parts.time), HOUR)
    return sign * hours, sign * (rest // MINUTE), sign * (rest % MINUTE // SECOND), sign * (rest % SECOND)


def _format_number(parts: MomentParts, token: Token) -> str:
    hours, minutes, seconds, micros = _clock_fields(parts)
    match token.pattern:
        case "HH24":
            return _pad_time(hours, token)
        case "HH" | "HH12":
            sign = -1 if hours < 0 else 1
            return _pad_time(sign * ((abs(hours) + 11) % 12 + 1), token)
        case "MI":
            return _pad_time(minutes, token)
        case "SS":
            return _pad_time(seconds, token)
        case "MS":
            return _pad_number(micros // 1000, 3, token)
        case "US":
            return _pad_number(micros, 6, token)
        case "SSSS" | "SSSSS":
            return str(hours * 3600 + minutes * 60 + seconds)
        case "YYYY" | "YYY" | "YY" | "Y":
            size = len(token.pattern)
            year = _counted_year(parts)
            return _pad_number(year if size == 4 else year % 10**size, size, token)
        case "Y,YYY":
            return f"{_counted_year(parts) // 1000},{_counted_year(parts) % 1000:03d}"
        case "MM":
            return _pad_number(parts.month, 2, token)
        case "DD":
            return _pad_number(parts.day, 2, token)
        case "CC":
            if parts.date is None:
                return _pad_number(parts.year // 100, 2, token)
            return _pad_time((parts.year + 99) // 100 if parts.year > 0 else -(-parts.year // 100) - 1, token)
        case "Q":
            return str((parts.month + 2) // 3) if parts.month else ""
        case _:
            return _format_date_number(parts, token)


def _counted_year(parts: MomentParts) -> int:
    """The year as its era counts it: the year 0 is 1 BC."""
    return parts.year if parts.date is None or parts.year > 0 else 1 - parts.year


def _format_date_number(parts: MomentParts, token: Token) -> str:
    """Format a pattern that needs a date."""
    date = parts.date
    if date is None:
        if token.pattern in ("DDD", "J"):
            days = (parts.year * 12 + parts.month) * 30 + parts.day
            return _pad_number(days, 3, token) if token.pattern == "DDD" else str(days)
        raise ValueError(f'invalid format specification for an interval value: "{token.text}"')
    year, week, weekday = date.isocalendar()
    match token.pattern:
        case "IYYY" | "IYY" | "IY" | "I":
            size = len(token.pattern)
            year += parts.shift
            year = year if year > 0 else 1 - year
            return _pad_number(year if size == 4 else year % 10**size, size, token)
        case "DDD":
            return _pad_number(date.timetuple().tm_yday, 3, token)
        case "IDDD":
            return _pad_number((week - 1) * 7 + weekday, 3, token)
        case "D":
            return str(date.isoweekday() % 7 + 1)
        case "ID":
            return str(weekday)
        case "WW":
            return _pad_number((date.timetuple().tm_yday - 1) // 7 + 1, 2, token)
        case "IW":
            return _pad_number(week, 2, token)
        case "W":
            return str((date.day - 1) // 7 + 1)
        case _:
            return str((date - EPOCH.date()).days + parts.shift // 400 * GREGORIAN_CYCLE + JULIAN_EPOCH)


def _format_word(parts: MomentParts, token: Token) -> str:
    pattern, lowered = token.pattern, token.pattern.lower()
    if lowered in ("am", "pm", "a.m.", "p.m."):
        later = abs(_clock_fields(parts)[0]) % 24 >= 12
        text = ("p.m." if later else "a.m.") if "." in pattern else ("pm" if later else "am")
        return text.upper() if pattern[0].isupper() else text
    if lowered in ("ad", "bc", "a.d.", "b.c."):
        if parts.date is None:
            raise ValueError(f'invalid format specification for an interval value: "{token.text}"')
        era = "bc" if parts.year <= 0 else "ad"
        text = f"{era[0]}.{era[1]}." if "." in pattern else era
        return text.upper() if pattern[0].isupper() else text
    if pattern.startswith("FF"):
        micros = abs(_clock_fields(parts)[3])
        return f"{micros:06d}"[: int(pattern[2])]
    if lowered in ("month", "mon", "rm"):
        return _format_month(parts, token)
    if lowered in ("day", "dy"):
        if parts.date is None:
            raise ValueError(f'invalid format specification for an interval value: "{token.text}"')
        return _format_name(DAYS[parts.date.isoweekday() % 7], token, 9, lowered == "day")
    if pattern in ("TZ", "tz"):
        return parts.zone if pattern == "TZ" else parts.zone.lower()
    return _format_offset(parts.east, pattern)


def _format_offset(seconds: int, pattern: str) -> str:
    """Format an offset from UTC: hours, minutes, or both, minutes only if not 0."""
    hours, minutes = divmod(abs(seconds) // 60, 60)
    signed = f"{'-' if seconds < 0 else '+'}{hours:02d}"
    match pattern:
        case "TZH":
            return signed
        case "TZM":
            return f"{minutes:02d}"
        case "OF":
            return f"{signed}:{minutes:02d}" if minutes else signed
        case _:
            return ""


def _format_month(parts: MomentParts, token: Token) -> str:
    lowered = token.pattern.lower()
    if lowered == "rm":
        if not parts.month and not parts.year:
            return ""
        # As in Postgres: month 0 of an interval is XII (I if it is negative), and -1 is counted from the end.
        if parts.month:
            name = ROMAN[parts.month - 1 if parts.month > 0 else parts.month]
        else:
            name = ROMAN[-1 if parts.year > 0 else 0]
        text = name if token.pattern == "RM" else name.lower()
        return text.ljust(4) if token.fill else text
    if parts.date is None:
        raise ValueError(f'invalid format specification for an interval value: "{token.text}"')
    return _format_name(MONTHS[parts.month - 1], token, 9, lowered == "month")


def _format_name(name: str, token: Token, width: int, is_full: bool) -> str:
    """Format a name in the case of the pattern. A full name is padded with blanks."""
    text = name if is_full else name[:3]
    if token.pattern.isupper():
        text = text.upper()
    elif token.pattern.islower():
        text = text.lower()
    return text.ljust(width) if is_full and token.fill else text


def _ordinal_suffix(number: str, suffix: str) -> str:
    digits = number.lstrip("-")
    teen = len(digits) > 1 and digits[-2] == "1"
    ending = "th" if teen else {"1": "st", "2": "nd", "3": "rd"}.get(digits[-1], "th")
    return ending.upper() if suffix.isupper() else ending


def _style_writer(call: Call) -> Callable[..., str]:
    type_ = call.args[0].type
    return lambda value, style: style_output.writer_of(type_, styles.parse_style(style))(value)


def _style_reader(call: Call) -> Callable[..., Any]:
    return lambda text, style: style_output.reader_of(call.type, styles.parse_style(style))(text)


def _format_in_zone(word: int, template: str, zone: str) -> str | None:
    tz = date_time.time_zone(zone)
    local = date_time.to_local(word, tz)
    seconds = (local - word) // 1_000_000
    parts = replace(moment_parts(local, zone_abbreviation(word, tz)), east=seconds)
    return format_parts(parts, template) if template else None


def _utc_offset(word: int, zone: str) -> int:
    """Return a zone's offset from UTC at an instant, in seconds."""
    return (date_time.to_local(word, date_time.time_zone(zone)) - word) // 1_000_000


register_primitive("$in_style", MemoizedFunction(_style_writer))
register_primitive("$read_in_style", MemoizedFunction(_style_reader))
register_primitive("$by_template", MemoizedFunction(lambda call: _format_in_zone))
register_primitive("$east", MemoizedFunction(lambda call: _utc_offset))


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


def parse_timestamp(text: str, template: str) -> int:
    """Parse a moment by a template and return the microseconds since 1970.

    Raises:
        ValueError: The text does not match the template.
    """
    values = _parse_values(text, template)
    return _day_number(values) * DAY + _time_of_day(values)


def _parse_values(text: str, template: str) -> dict[str, int]:
    """Return the values of the patterns, by pattern."""
    values: dict[str, int] = {}
    position, extra = _skip_blanks(text, 0, 0)
    parts = parse_template(template)
    for number, token in enumerate(parts):
        if position >= len(text):
            break
        if not token.pattern:
            position, extra = _skip_literal(text, position, token, extra)
            continue
        position, extra = _skip_blanks(text, position, extra)
        if position >= len(text):
            break
        _note_convention(token.pattern.upper(), values)
        if token.pattern in NUMERIC_PATTERNS or token.pattern.startswith("FF"):
            following = parts[number + 1] if number + 1 < len(parts) else None
            position = _parse_digits(text, position, token, following, values)
        else:
            # The sign of a zone may have been taken for a separator.
            has_sign = token.pattern == "TZH" and extra > 0 and text[position - 1] == "-"
            position = _parse_name(text, position - has_sign, token, values)
        position, extra = _skip_blanks(text, position, 0)
    return values


def _note_convention(pattern: str, found: dict[str, int]) -> None:
    """Note which calendar a pattern is of; ValueError if one before it is of the other."""
    iso = pattern in ISO_PATTERNS
    if (iso or pattern in GREGORIAN_PATTERNS) and found.setdefault("iso", iso) != iso:
        raise ValueError("invalid combination of date conventions")


def _skip_blanks(text: str, position: int, excess: int) -> tuple[int, int]:
    """Return the position behind blanks, and the number of characters skipped beyond the template's."""
    while position < len(text) and text[position] in BLANKS:
        position, excess = position + 1, excess + 1
    return position, excess


def _skip_literal(text: str, position: int, token: Token, excess: int) -> tuple[int, int]:
    """Skip literal text: a blank or separator for any other one, a letter for any character.

    Characters that were skipped before count: they stand for as many characters of the template.
    """
    if not token.is_quoted and not token.text.isalnum() and token.text.isascii():
        here = text[position]
        separates = here in BLANKS or (here.isascii() and here.isprintable() and not here.isalnum())
        return (position + 1, excess) if separates else (position, excess - 1)
    for _ in token.text:
        if excess > 0:
            excess -= 1
        else:
            position += 1
    return position, excess


def _parse_digits(
    text: str, position: int, token: Token, following: Token | None, values: dict[str, int]
) -> int:
    width = int(token.pattern[2]) if token.pattern.startswith("FF") else WIDTHS.get(token.pattern, 4)
    packed = following is not None and (following.pattern in NUMERIC_PATTERNS or following.text[:1].isdigit())
    if token.pattern == "Y,YYY":
        match = re.compile(r"(\d+),(\d{3})").match(text, position)
        if match is None:
            raise ValueError(f'invalid input string for "{token.text}"')
        values["YYYY"], values["digits"] = int(match[1]) * 1000 + int(match[2]), 4
        return match.end() + 2 * bool(token.suffix)
    quantifier = f"{{1,{width}}}" if packed or (not token.fill and packed) else "+"
    if token.pattern not in ("YYYY", "IYYY", "J", "US", "MS") and not token.pattern.startswith("FF"):
        quantifier = f"{{1,{width}}}" if width > 1 or packed else "{1,1}"
    match = re.compile(rf"([+-]?\d{quantifier})").match(text, position)
    if match is None:
        raise ValueError(f'invalid value "{text[position : position + width]}" for "{token.text}"')
    if token.pattern in ("MS", "US") or token.pattern.startswith("FF"):
        micros = int(match[1][:6].ljust(6, "0"))
        values["fraction"] = micros
    else:
        values[token.pattern] = int(match[1])
        size = len(token.pattern)
        if token.pattern in YEARS:
            value = int(match[1])
            values["YYYY"] = _complete_year(value, len(match[1])) if size < 4 else value
            values["digits"] = size
        elif token.pattern == "ID":
            values["D"] = value % 7 + 1 if (value := int(match[1])) < 7 else 1
    end = match.end()
    if token.suffix:
        end += 2
    return end


def _complete_year(year: int, digits: int) -> int:
    """Complete a year of fewer than four digits to the year nearest to 2020."""
    if digits >= 4:
        return year
    if year < 70:
        return year + 2000
    return year + (1900 if year < 520 and year < 100 else 2000 if year < 520 else 1000)


def _parse_name(text: str, position: int, token: Token, values: dict[str, int]) -> int:
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
        match = re.compile(r"[A-Za-z]+|[+-]?\d{1,2}").match(text, position)
        if match is None:
            raise ValueError(f'invalid value for "{token.text}"')
        values["zone"] = int(match[0]) * MINUTES if match[0].lstrip("+-").isdigit() else 0
        values["west"] = match[0].startswith("-")
        return match.end()
    elif lowered == "tzm":
        match = re.compile(r"\d{1,2}").match(text, position)
        if match is None:
            return position
        east = -int(match[0]) if values.get("west") else int(match[0])
        values["zone"] = values.get("zone", 0) + east
        return match.end()
    rest = text[position:].lower()
    for name in sorted(names, key=len, reverse=True):
        if rest.startswith(name):
            values[_value_key(lowered)] = names[name]
            return position + len(name)
    raise ValueError(f'invalid value "{text[position : position + len(lowered)]}" for "{token.text}"')


def _value_key(pattern: str) -> str:
    """Return the key of the value that a pattern of words sets."""
    if pattern in ("month", "mon", "rm"):
        return "MM"
    if pattern in ("am", "pm", "a.m.", "p.m."):
        return "half"
    if pattern in ("day", "dy"):
        return "D"
    return "bc" if pattern in ("ad", "bc", "a.d.", "b.c.") else pattern


def _day_number(values: dict[str, int]) -> int:
    """Return the days since 1970."""
    year, month, day = _year(values), 1, 1
    iso = bool(values.get("iso"))
    if values.get("J"):
        year, month, day = civil(values["J"] - JULIAN_EPOCH)
    day_of_year = values.get("IDDD" if iso else "DDD", 0)
    if iso and values.get("IW"):
        year, month, day = civil(_iso_week_start(year, values["IW"]) + _days_behind_monday(values))
    elif values.get("WW"):
        day_of_year = (values["WW"] - 1) * 7 + 1
    day = (values["W"] - 1) * 7 + 1 if values.get("W") else values.get("DD", 0) or day
    month = values.get("MM", 0) or month
    if day_of_year and (month <= 1 or day <= 1):
        if not year and not values.get("bc"):
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


def _year(values: dict[str, int]) -> int:
    """Return the year. 0 is 1 BC, also for a text without a year."""
    year, century = values.get("YYYY", 0), values.get("CC", 0)
    sign = -1 if values.get("bc") else 1
    century *= sign
    if year and (not century or values["digits"] > 2):
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


def _time_of_day(values: dict[str, int]) -> int:
    if "SSSS" in values or "SSSSS" in values:
        time = values.get("SSSS", values.get("SSSSS", 0)) * SECOND
    else:
        hour = values.get("HH24", 0)
        if "HH24" not in values and ("HH12" in values or "HH" in values):
            hour = values.get("HH12", values.get("HH", 0))
            if not 1 <= hour <= 12:
                raise ValueError(f'hour "{hour}" is invalid for the 12-hour clock')
            if "half" in values:
                hour = hour % 12 + 12 * values["half"]
        minute, second = values.get("MI", 0), values.get("SS", 0)
        if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60):
            raise ValueError("date/time field value out of range")
        time = hour * HOUR + minute * MINUTE + second * SECOND
    return time + values.get("fraction", 0) - values.get("zone", 0) * MINUTE
