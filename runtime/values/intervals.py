"""INTERVAL: months, days and microseconds, each with its own sign, in Postgres' text forms.

Comparisons count 30 days a month and 24 hours a day. Values that compare equal, such as 1 mon and 30 days,
may still differ when added to a date, so their strings start with the length and continue with the parts.
"""

import datetime
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, NamedTuple

from kpg.runtime.values.codec import Codec, ordered, unordered
from kpg.runtime.values.words import BLANKS, DAY, Mistyped, Unfit

HOUR: Final = 3_600_000_000
MINUTE: Final = 60_000_000
SECOND: Final = 1_000_000
MONTH_DAYS: Final = 30
MOST: Final = 2**31 - 1
"""Months and days that an interval can have."""


class Interval(NamedTuple):
    """An interval."""

    months: int
    days: int
    microseconds: int


MONTHS: Final = {
    **dict.fromkeys(("y", "yr", "yrs", "year", "years"), 12),
    **dict.fromkeys(("mon", "mons", "month", "months"), 1),
    **dict.fromkeys(("qtr", "quarter", "quarters"), 3),
    **dict.fromkeys(("dec", "decs", "decade", "decades"), 120),
    **dict.fromkeys(("c", "cent", "century", "centuries"), 1200),
    **dict.fromkeys(("mil", "mils", "millennia", "millennium"), 12_000),
}
DAYS: Final = {**dict.fromkeys(("d", "day", "days"), 1), **dict.fromkeys(("w", "week", "weeks"), 7)}
TIMES: Final = {
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), HOUR),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), MINUTE),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), SECOND),
    **dict.fromkeys(("ms", "msec", "msecs", "msecond", "mseconds", "millisecond", "milliseconds"), 1000),
    **dict.fromkeys(("us", "usec", "usecs", "usecond", "useconds", "microsecond", "microseconds"), 1),
}
NUMBER: Final = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?"
TOKEN: Final = re.compile(
    rf"\s*(?:(?P<time>[+-]?\d+:\d+(?::\d+(?:\.\d*)?)?(?:\.\d+)?)|(?P<years>[+-]?\d+)-(?P<months>\d+)"
    rf"|(?P<number>{NUMBER})\s*(?P<unit>[a-z]+)?|(?P<ago>ago)|(?P<at>@))\s*",
    re.IGNORECASE | re.ASCII,
)
ISO: Final = re.compile(rf"({NUMBER})([ymwdhs])", re.IGNORECASE | re.ASCII)
ISO_FORM: Final = re.compile(rf"p((?:{NUMBER}[ymwd])*)(?:t((?:{NUMBER}[hms])+))?", re.IGNORECASE | re.ASCII)
ISO_OTHER: Final = re.compile(
    r"p(-?\d+)-(-?\d+)(?:-(-?\d+))?(?:t(-?\d+):(-?\d+)(?::(-?\d+(?:\.\d*)?))?)?", re.IGNORECASE | re.ASCII
)


def codec() -> Codec:
    """The codec of INTERVAL."""
    return Codec(
        encode=encode,
        decode=decode,
        parse=parse,
        show=shown,
        to_python=to_python,
        from_python=_from_python,
        expected="a datetime.timedelta, or a text such as '1 mon 2 days 03:00:00'",
    )


def span(value: Interval) -> int:
    """Its length in microseconds, by months of 30 days and days of 24 hours: what comparisons go by."""
    return (value.months * MONTH_DAYS + value.days) * DAY + value.microseconds


def encode(value: Interval) -> str:
    """The string that stands for an interval."""
    return f"{ordered(span(value))} {value.months} {value.days}"


def decode(string: str) -> Interval:
    """The interval that a string stands for."""
    length, months, days = string.split(" ")
    whole = (int(months) * MONTH_DAYS + int(days)) * DAY
    return Interval(int(months), int(days), unordered(length) - whole)


def made(months: Fraction, days: Fraction, microseconds: Fraction) -> Interval:
    """An interval of parts that need not be whole: of a month 30 days, of a day 24 hours are carried."""
    whole_months = int(months)
    days += (months - whole_months) * MONTH_DAYS
    whole_days = int(days)
    microseconds += (days - whole_days) * DAY
    result = Interval(whole_months, whole_days, round(microseconds))
    if max(map(abs, result[:2])) > MOST or abs(result.microseconds) >= 2**63:
        raise OverflowError("interval out of range")
    return result


def parse(text: str, unit: str = "second") -> Interval:
    """The interval that a text means, numbers without a unit in ``unit``; ValueError if none."""
    stripped = re.sub(r"(?a)([+-])\s+(?=[\d.])", r"\1", text.strip(BLANKS))
    if stripped[:1] in ("P", "p"):
        return _iso(stripped)
    months, days, micros = Fraction(0), Fraction(0), Fraction(0)
    place, found_any, sign = 0, False, 1
    units: set[tuple[int | None, ...]] = set()
    while place < len(stripped):
        found = TOKEN.match(stripped, place)
        if found is None:
            raise ValueError("not an interval")
        place, parts = found.end(), found.groupdict()
        if parts["at"] or parts["ago"]:
            if (parts["at"] and found_any) or (parts["ago"] and place < len(stripped)):
                raise ValueError("not an interval")
            sign = -1 if parts["ago"] else sign
            continue
        found_any = True
        if parts["time"]:
            micros += _clock(parts["time"])
            unit = "day"
        elif parts["years"]:
            months += _signed_months(parts["years"], parts["months"])
            unit = "day"
        else:
            last = place >= len(stripped)
            before_time = not parts["unit"] and not last
            name = (parts["unit"] or ("day" if before_time else unit)).lower()
            kind = (MONTHS.get(name), DAYS.get(name), TIMES.get(name))
            if kind in units:
                raise ValueError("a unit that occurs twice")
            units.add(kind)
            more = _amount(Fraction(parts["number"]), name)
            months, days, micros = months + more[0], days + more[1], micros + more[2]
    if not found_any:
        raise ValueError("not an interval")
    return made(sign * months, sign * days, sign * micros)


def _amount(number: Fraction, unit: str) -> tuple[Fraction, Fraction, Fraction]:
    """A number of a unit as months, days and microseconds."""
    none = Fraction(0)
    if unit in MONTHS:
        months = number * MONTHS[unit]
        # Of a year only whole months are kept.
        return (Fraction(round(months)) if MONTHS[unit] > 1 else months), none, none
    if unit in DAYS:
        return none, number * DAYS[unit], none
    if unit in TIMES:
        return none, none, number * TIMES[unit]
    raise ValueError(f"no unit {unit}")


def _signed_months(years: str, months: str) -> int:
    if int(months) > 11:
        raise ValueError("more than 11 months")
    return int(years) * 12 + (-int(months) if years.startswith("-") else int(months))


def _clock(text: str) -> Fraction:
    """``[+-]hours:minutes[:seconds]``; of two fields with a fraction, minutes and seconds."""
    sign = -1 if text.startswith("-") else 1
    fields = text.lstrip("+-").split(":")
    if len(fields) == 2 and "." in fields[1]:
        fields.insert(0, "0")
    hours, minutes, seconds = (Fraction(field or "0") for field in (*fields, "0")[:3])
    if minutes >= 60 or seconds >= 60 + (seconds == 60):
        raise ValueError("more than 59 minutes or 60 seconds")
    return sign * (hours * HOUR + minutes * MINUTE + seconds * SECOND)


def _iso(text: str) -> Interval:
    """ISO 8601: ``P1Y2M3DT4H5M6S`` or ``P0001-02-03T04:05:06``."""
    other = ISO_OTHER.fullmatch(text)
    if other is not None:
        years, months, days, hours, minutes, seconds = (Fraction(part or "0") for part in other.groups())
        micros = hours * HOUR + minutes * MINUTE + seconds * SECOND
        return made(years * 12 + months, days, micros)
    found = ISO_FORM.fullmatch(text)
    if found is None or len(text) < 3:
        raise ValueError("not an interval")
    totals = [Fraction(0)] * 3
    for part, units in ((found[1], "ymwd"), (found[2] or "", "hms")):
        for number, letter in ISO.findall(part):
            name = letter.lower()
            unit = {"m": "mon" if units == "ymwd" else "min"}.get(name, name)
            for place, value in enumerate(_amount(Fraction(number), unit)):
                totals[place] += value
    return made(*totals)


def shown(value: Interval) -> str:
    """As Postgres writes it: ``1 year 2 mons 3 days 04:05:06.5``."""
    years, months = _split(value.months, 12)
    texts: list[str] = []
    negative = False
    for number, name in ((years, "year"), (months, "mon"), (value.days, "day")):
        if number:
            sign = "+" if negative and number > 0 else ""
            texts.append(f"{sign}{number} {name}{'' if number == 1 else 's'}")
            negative = number < 0
    if value.microseconds or not texts:
        sign = "-" if value.microseconds < 0 else "+" if negative else ""
        texts.append(sign + clock(abs(value.microseconds)))
    return " ".join(texts)


def _split(number: int, unit: int) -> tuple[int, int]:
    """Quotient and rest with the number's sign."""
    quotient, rest = divmod(abs(number), unit)
    return (-quotient, -rest) if number < 0 else (quotient, rest)


def clock(microseconds: int) -> str:
    """``04:05:06.5``: zeros at the end of a fraction are left out."""
    seconds, fraction = divmod(microseconds, SECOND)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:06d}".rstrip("0") if fraction else text


def of_microseconds(word: int) -> Interval:
    """The interval between two times: days of 24 hours, and the rest."""
    days, rest = _split(word, DAY)
    return Interval(0, days, rest)


def to_python(value: Interval) -> Any:
    """A timedelta; with months Arrow's triple of months, days and nanoseconds: Python has no such type."""
    if value.months:
        import pyarrow  # lazy: pyarrow takes a thirteenth of the start

        return pyarrow.MonthDayNano((value.months, value.days, value.microseconds * 1000))
    return datetime.timedelta(days=value.days, microseconds=value.microseconds)


def _from_python(value: Any) -> Interval:
    if isinstance(value, datetime.timedelta):
        return of_microseconds(value // datetime.timedelta(microseconds=1))
    try:
        if isinstance(value, str):
            return parse(value)
        if isinstance(value, tuple) and len(value) == 3:
            months, days, nanoseconds = map(int, value)
            return made(Fraction(months), Fraction(days), Fraction(nanoseconds, 1000))
    except (ValueError, ArithmeticError):
        raise Unfit from None
    raise Mistyped


def scaled(value: Interval, factor: float | Decimal) -> Interval:
    """An interval times a number; parts of a month become days, parts of a day time."""
    by = Fraction(factor)
    return _carried(value.months * by, value.days * by, value.microseconds * by)


def divided(value: Interval, divisor: float | Decimal) -> Interval:
    """An interval divided by a number that is not 0."""
    by = Fraction(divisor)
    return _carried(value.months / by, value.days / by, value.microseconds / by)


def _carried(months: Fraction, days: Fraction, micros: Fraction) -> Interval:
    """As Postgres does it: what is left of months goes to days, and then to the time."""
    whole_months, whole_days = int(months), int(days)
    rest = (months - whole_months) * MONTH_DAYS
    rest = Fraction(round(rest * 10**6), 10**6)
    whole_days += int(rest)
    left = (rest - int(rest)) + (days - int(days))
    micros += Fraction(round(left * DAY))
    if abs(left) >= 1 or (left and abs(int(left)) >= 1):
        whole_days += int(left)
        micros -= int(left) * DAY
    return made(Fraction(whole_months), Fraction(whole_days), Fraction(round(micros)))


def cut(value: Interval, last: str) -> Interval:
    """Without what is below the last field."""
    months, days, micros = value
    if last == "year":
        months -= months - int(months / 12) * 12
    if last in ("year", "month"):
        return Interval(months, 0, 0)
    if last == "day":
        return Interval(months, days, 0)
    unit = {"hour": HOUR, "minute": MINUTE}.get(last, 1)
    return Interval(months, days, int(micros / unit) * unit)
