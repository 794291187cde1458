"""INTERVAL: months, days and microseconds, each with its own sign, in Postgres' text forms.

Comparisons count 30 days a month and 24 hours a day. Values that compare equal, such as 1 mon and 30
days, may differ when added to a date. So their strings start with the length and continue with the
parts.
"""

import datetime
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, NamedTuple

from kpg.runtime.values.codec import Codec, decode_integer, encode_integer
from kpg.runtime.values.words import BLANKS, DAY, UnrepresentableValue, WrongPythonType

HOUR: Final = 3_600_000_000
MINUTE: Final = 60_000_000
SECOND: Final = 1_000_000
MONTH_DAYS: Final = 30
MAX_PART: Final = 2**31 - 1
"""Maximum number of months and of days."""


class Interval(NamedTuple):
    """Months, days and microseconds."""

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
ISO_PART: Final = re.compile(rf"({NUMBER})([ymwdhs])", re.IGNORECASE | re.ASCII)
ISO_FORM: Final = re.compile(rf"p((?:{NUMBER}[ymwd])*)(?:t((?:{NUMBER}[hms])+))?", re.IGNORECASE | re.ASCII)
ISO_ALTERNATIVE_FORM: Final = re.compile(
    r"p(-?\d+)-(-?\d+)(?:-(-?\d+))?(?:t(-?\d+):(-?\d+)(?::(-?\d+(?:\.\d*)?))?)?", re.IGNORECASE | re.ASCII
)


def codec() -> Codec:
    """Return the codec of INTERVAL."""
    return Codec(
        encode=encode,
        decode=decode,
        parse=parse,
        show=show,
        to_python=to_python,
        from_python=_from_python,
        input_hint="a datetime.timedelta, or a text such as '1 mon 2 days 03:00:00'",
    )


def duration(value: Interval) -> int:
    """Return the length in microseconds, with months of 30 days and days of 24 hours, for comparisons."""
    return (value.months * MONTH_DAYS + value.days) * DAY + value.microseconds


def encode(value: Interval) -> str:
    """Encode an interval as an order-preserving string."""
    return f"{encode_integer(duration(value))} {value.months} {value.days}"


def decode(string: str) -> Interval:
    """Decode the string of an interval."""
    length, months, days = string.split(" ")
    whole = (int(months) * MONTH_DAYS + int(days)) * DAY
    return Interval(int(months), int(days), decode_integer(length) - whole)


def from_fractions(months: Fraction, days: Fraction, microseconds: Fraction) -> Interval:
    """Return an interval of fractional parts. A month carries over to 30 days, a day to 24 hours.

    Raises:
        OverflowError: A part is out of range.
    """
    whole_months = int(months)
    days += (months - whole_months) * MONTH_DAYS
    whole_days = int(days)
    microseconds += (days - whole_days) * DAY
    result = Interval(whole_months, whole_days, round(microseconds))
    if max(map(abs, result[:2])) > MAX_PART or abs(result.microseconds) >= 2**63:
        raise OverflowError("interval out of range")
    return result


def parse(text: str, unit: str = "second") -> Interval:
    """Parse an interval. Numbers without a unit count in ``unit``.

    Raises:
        ValueError: The text is not an interval.
    """
    stripped = re.sub(r"(?a)([+-])\s+(?=[\d.])", r"\1", text.strip(BLANKS))
    if stripped[:1] in ("P", "p"):
        return _parse_iso(stripped)
    months, days, micros = Fraction(0), Fraction(0), Fraction(0)
    position, found_any, sign = 0, False, 1
    units: set[tuple[int | None, ...]] = set()
    while position < len(stripped):
        match = TOKEN.match(stripped, position)
        if match is None:
            raise ValueError("not an interval")
        position, parts = match.end(), match.groupdict()
        if parts["at"] or parts["ago"]:
            if (parts["at"] and found_any) or (parts["ago"] and position < len(stripped)):
                raise ValueError("not an interval")
            sign = -1 if parts["ago"] else sign
            continue
        found_any = True
        if parts["time"]:
            micros += _parse_clock(parts["time"])
            unit = "day"
        elif parts["years"]:
            months += _parse_years_months(parts["years"], parts["months"])
            unit = "day"
        else:
            last = position >= len(stripped)
            before_time = not parts["unit"] and not last
            name = (parts["unit"] or ("day" if before_time else unit)).lower()
            kind = (MONTHS.get(name), DAYS.get(name), TIMES.get(name))
            if kind in units:
                raise ValueError("a unit that occurs twice")
            units.add(kind)
            more = _convert_unit(Fraction(parts["number"]), name)
            months, days, micros = months + more[0], days + more[1], micros + more[2]
    if not found_any:
        raise ValueError("not an interval")
    return from_fractions(sign * months, sign * days, sign * micros)


def _convert_unit(number: Fraction, unit: str) -> tuple[Fraction, Fraction, Fraction]:
    """Return a number of a unit as months, days and microseconds."""
    none = Fraction(0)
    if unit in MONTHS:
        months = number * MONTHS[unit]
        # Units of years and more are rounded to whole months.
        return (Fraction(round(months)) if MONTHS[unit] > 1 else months), none, none
    if unit in DAYS:
        return none, number * DAYS[unit], none
    if unit in TIMES:
        return none, none, number * TIMES[unit]
    raise ValueError(f"no unit {unit}")


def _parse_years_months(years: str, months: str) -> int:
    if int(months) > 11:
        raise ValueError("more than 11 months")
    return int(years) * 12 + (-int(months) if years.startswith("-") else int(months))


def _parse_clock(text: str) -> Fraction:
    """Parse ``[+-]hours:minutes[:seconds]``. Two fields with a fraction are minutes and seconds."""
    sign = -1 if text.startswith("-") else 1
    fields = text.lstrip("+-").split(":")
    if len(fields) == 2 and "." in fields[1]:
        fields.insert(0, "0")
    hours, minutes, seconds = (Fraction(field or "0") for field in (*fields, "0")[:3])
    if minutes >= 60 or seconds >= 60 + (seconds == 60):
        raise ValueError("more than 59 minutes or 60 seconds")
    return sign * (hours * HOUR + minutes * MINUTE + seconds * SECOND)


def _parse_iso(text: str) -> Interval:
    """Parse ISO 8601: ``P1Y2M3DT4H5M6S`` or ``P0001-02-03T04:05:06``."""
    other = ISO_ALTERNATIVE_FORM.fullmatch(text)
    if other is not None:
        years, months, days, hours, minutes, seconds = (Fraction(part or "0") for part in other.groups())
        micros = hours * HOUR + minutes * MINUTE + seconds * SECOND
        return from_fractions(years * 12 + months, days, micros)
    match = ISO_FORM.fullmatch(text)
    if match is None or len(text) < 3:
        raise ValueError("not an interval")
    totals = [Fraction(0)] * 3
    for part, units in ((match[1], "ymwd"), (match[2] or "", "hms")):
        for number, letter in ISO_PART.findall(part):
            name = letter.lower()
            unit = {"m": "mon" if units == "ymwd" else "min"}.get(name, name)
            for place, value in enumerate(_convert_unit(Fraction(number), unit)):
                totals[place] += value
    return from_fractions(*totals)


def show(value: Interval) -> str:
    """Format like Postgres: ``1 year 2 mons 3 days 04:05:06.5``."""
    years, months = _divide(value.months, 12)
    texts: list[str] = []
    negative = False
    for number, name in ((years, "year"), (months, "mon"), (value.days, "day")):
        if number:
            sign = "+" if negative and number > 0 else ""
            texts.append(f"{sign}{number} {name}{'' if number == 1 else 's'}")
            negative = number < 0
    if value.microseconds or not texts:
        sign = "-" if value.microseconds < 0 else "+" if negative else ""
        texts.append(sign + show_clock(abs(value.microseconds)))
    return " ".join(texts)


def _divide(number: int, unit: int) -> tuple[int, int]:
    """Return quotient and remainder with the number's sign."""
    quotient, rest = divmod(abs(number), unit)
    return (-quotient, -rest) if number < 0 else (quotient, rest)


def show_clock(microseconds: int) -> str:
    """Format a time as ``04:05:06.5``, without trailing zeros."""
    seconds, fraction = divmod(microseconds, SECOND)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:06d}".rstrip("0") if fraction else text


def from_microseconds(word: int) -> Interval:
    """Return an interval of days of 24 hours and the rest."""
    days, rest = _divide(word, DAY)
    return Interval(0, days, rest)


def to_python(value: Interval) -> Any:
    """Return a timedelta, or Arrow's triple of months, days and nanoseconds if there are months."""
    if value.months:
        import pyarrow  # lazy: pyarrow takes a thirteenth of the start

        return pyarrow.MonthDayNano((value.months, value.days, value.microseconds * 1000))
    return datetime.timedelta(days=value.days, microseconds=value.microseconds)


def _from_python(value: Any) -> Interval:
    if isinstance(value, datetime.timedelta):
        return from_microseconds(value // datetime.timedelta(microseconds=1))
    try:
        if isinstance(value, str):
            return parse(value)
        if isinstance(value, tuple) and len(value) == 3:
            months, days, nanoseconds = map(int, value)
            return from_fractions(Fraction(months), Fraction(days), Fraction(nanoseconds, 1000))
    except (ValueError, ArithmeticError):
        raise UnrepresentableValue from None
    raise WrongPythonType


def multiply(value: Interval, factor: float | Decimal) -> Interval:
    """Multiply an interval by a number. Fractions of a month become days, fractions of a day become time."""
    fraction = Fraction(factor)
    return _cascade(value.months * fraction, value.days * fraction, value.microseconds * fraction)


def divide(value: Interval, divisor: float | Decimal) -> Interval:
    """Divide an interval by a nonzero number."""
    fraction = Fraction(divisor)
    return _cascade(value.months / fraction, value.days / fraction, value.microseconds / fraction)


def _cascade(months: Fraction, days: Fraction, micros: Fraction) -> Interval:
    """Carry the fraction of months to days, and that of days to the time, like Postgres."""
    whole_months, whole_days = int(months), int(days)
    rest = (months - whole_months) * MONTH_DAYS
    rest = Fraction(round(rest * 10**6), 10**6)
    whole_days += int(rest)
    left = (rest - int(rest)) + (days - int(days))
    micros += Fraction(round(left * DAY))
    if abs(left) >= 1 or (left and abs(int(left)) >= 1):
        whole_days += int(left)
        micros -= int(left) * DAY
    return from_fractions(Fraction(whole_months), Fraction(whole_days), Fraction(round(micros)))


def truncate(value: Interval, last: str) -> Interval:
    """Truncate an interval below a field."""
    months, days, micros = value
    if last == "year":
        months -= months - int(months / 12) * 12
    if last in ("year", "month"):
        return Interval(months, 0, 0)
    if last == "day":
        return Interval(months, days, 0)
    unit = {"hour": HOUR, "minute": MINUTE}.get(last, 1)
    return Interval(months, days, int(micros / unit) * unit)
