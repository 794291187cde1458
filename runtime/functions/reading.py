"""``to_date`` and ``to_timestamp``: moments read by Postgres' template patterns."""

import datetime
import re
from typing import Final

from kpg.runtime.functions.fields import EPOCH, HOUR, JULIAN_EPOCH, MINUTE, SECOND
from kpg.runtime.functions.templates import DAYS, MONTHS, NUMERIC, ROMAN, Token, tokens
from kpg.runtime.values.words import BLANKS, DAY

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
MINUTES: Final = 60
CYCLE: Final = 146_097
"""The days of 400 years."""
NUMBER: Final = re.compile(r"\s*([+-]?\d+)")


def stamp(text: str, template: str) -> int:
    """The microseconds since 1970 of the moment that a text means by a template; ValueError if none."""
    found = _read(text, template)
    return _day_of(found) * DAY + _time_of(found)


def _read(text: str, template: str) -> dict[str, int]:
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
        if token.pattern in NUMERIC or token.pattern.startswith("FF"):
            following = parts[number + 1] if number + 1 < len(parts) else None
            place = _digits(text, place, token, following, found)
        else:
            # The sign of a zone may have been taken for a separator.
            signed = token.pattern == "TZH" and extra > 0 and text[place - 1] == "-"
            place = _name(text, place - signed, token, found)
        place, extra = _behind_blanks(text, place, 0)
    return found


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
        found["YYYY"] = int(match[1]) * 1000 + int(match[2])
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
        if token.pattern in ("YY", "YYY", "Y"):
            found["YYYY"] = _near(int(match[1]), len(match[1]))
        if token.pattern in ("IYY", "IY", "I"):
            found["IYYY"] = _near(int(match[1]), len(match[1]))
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
            key = (
                "MM"
                if lowered in ("month", "mon", "rm")
                else "half"
                if lowered[0] in "ap" and "m" in lowered
                else lowered
            )
            found[key] = names[name]
            return place + len(name)
    raise ValueError(f'invalid value "{text[place : place + len(lowered)]}" for "{token.text}"')


def _key(pattern: str) -> str:
    """The value that a pattern of words is for."""
    if pattern in ("month", "mon", "rm"):
        return "MM"
    if pattern in ("am", "pm", "a.m.", "p.m."):
        return "half"
    return "bc" if pattern in ("ad", "bc", "a.d.", "b.c.") else pattern


def _day_of(found: dict[str, int]) -> int:
    """Days since 1970."""
    if "J" in found:
        return found["J"] - JULIAN_EPOCH
    if "IYYY" in found:
        try:
            iso = datetime.date.fromisocalendar(found["IYYY"], found.get("IW", 1), found.get("ID", 1))
            return iso.toordinal() - EPOCH.toordinal() + found.get("IDDD", 1) - 1
        except ValueError as error:
            raise ValueError(f"date out of range: {error}") from error
    year = _year(found)
    # Years before the first are those of the same calendar 400 years and more later.
    near = year if year > 0 else year % 400 + 2000
    try:
        if "DDD" in found:
            if not 1 <= found["DDD"] <= 366:
                raise ValueError("day of year")
            date = datetime.date(near, 1, 1) + datetime.timedelta(days=found["DDD"] - 1)
        elif "WW" in found:
            date = datetime.date(near, 1, 1) + datetime.timedelta(days=(found["WW"] - 1) * 7)
        else:
            date = datetime.date(near, found.get("MM", 1), found.get("DD", 1))
    except ValueError as error:
        raise ValueError("date/time field value out of range") from error
    return date.toordinal() - EPOCH.toordinal() - (near - year) // 400 * CYCLE


def _year(found: dict[str, int]) -> int:
    """The year; 0 is the first before Christ, which is also that of a text without one."""
    year = found.get("YYYY", (found["CC"] - 1) * 100 + 1 if "CC" in found else 0)
    if found.get("bc") and year:
        year = -year
    return year + 1 if year < 0 else year


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
