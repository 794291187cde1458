"""Dates and times in the forms that Postgres reads: ISO, SQL, names of months, time zones."""

import datetime
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from kpg.runtime.values.calendars import DAY, ENDS, days_of
from kpg.runtime.values.words import BLANKS
from kpg.runtime.values.zones import from_local, offset

MONTH_NAMES: Final = (
    ("jan", "january"),
    ("feb", "february"),
    ("mar", "march"),
    ("apr", "april"),
    ("may",),
    ("jun", "june"),
    ("jul", "july"),
    ("aug", "august"),
    ("sep", "sept", "september"),
    ("oct", "october"),
    ("nov", "november"),
    ("dec", "december"),
)
MONTHS: Final = {name: number for number, names in enumerate(MONTH_NAMES, 1) for name in names}
DAY_NAMES: Final = frozenset(
    [
        "sun",
        "sunday",
        "mon",
        "monday",
        "tue",
        "tues",
        "tuesday",
        "wed",
        "weds",
        "wednesday",
        "thu",
        "thur",
        "thurs",
        "thursday",
        "fri",
        "friday",
        "sat",
        "saturday",
    ]
)
LATEST_CENTURY: Final = 70
"""Years of two digits from here on are of the 20th century, those below of the 21st."""


class Moment(NamedTuple):
    """What a text says: a day (from 1970), microseconds of a day, a time zone; None if it does not."""

    day: int | None
    time: int | None
    zone: datetime.tzinfo | None


class _Reader:
    """What was found so far."""

    def __init__(self, order: str) -> None:
        self.order = order
        self.date: tuple[int, int, int] | None = None
        self.loose: list[str] = []
        self.month: int | None = None
        self.time: int | None = None
        self.zone: datetime.tzinfo | None = None
        self.era = False
        self.half = ""
        self.day: int | None = None

    def set_date(self, year: str, month: str, day: str) -> None:
        if self.date is not None:
            raise ValueError("two dates")
        self.date = (_year(year), MONTHS[month.lower()] if month.isalpha() else int(month), int(day))

    def set_numbers(self, first: str, second: str, third: str) -> None:
        """Three numbers, of which the style says which is the year."""
        if self.order == "YMD" and len(third) == 2:
            self.set_date(first, second, third)
        elif self.order == "DMY":
            self.set_date(third, second, first)
        else:
            self.set_date(third, first, second)

    def set_time(self, hours: str, minutes: str, seconds: str | None, fraction: str | None) -> None:
        if self.time is not None:
            raise ValueError("two times")
        self.time = _clock(int(hours), int(minutes), int(seconds or 0), fraction or "")

    def set_zone(self, text: str) -> None:
        if self.zone is not None:
            raise ValueError("two time zones")
        self.zone = offset(text)

    def result(self) -> Moment:
        if self.month is not None:
            self._named_month()
        elif self.loose:
            raise ValueError("a number that is no part of a date")
        if self.date is not None:
            year, month, day = self.date
            if not year:
                raise ValueError("there is no year 0")
            self.day = days_of(1 - year if self.era else year, month, day)
        time = self.time
        if self.half and time is not None:
            if not 1 <= time // 3_600_000_000 <= 12:
                raise ValueError("an hour from 1 to 12 goes with AM and PM")
            time = time % (DAY // 2) + (DAY // 2 if self.half == "pm" else 0)
        return Moment(self.day, time, self.zone)

    def _named_month(self) -> None:
        if len(self.loose) != 2 or self.date is not None:
            raise ValueError("a day and a year go with the name of a month")
        first, second = self.loose
        day, year = (second, first) if len(first) > 2 else (first, second)
        self.date = (_year(year), self.month or 0, int(day))


def _year(text: str) -> int:
    number = int(text)
    return number + (1900 if number >= LATEST_CENTURY else 2000) if len(text) <= 2 else number


def _clock(hours: int, minutes: int, seconds: int, fraction: str) -> int:
    micros = round(float(f"0.{fraction or 0}") * 1_000_000)
    if minutes > 59 or seconds > 60 or hours > 24:
        raise ValueError("no time of day")
    total = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros
    if total > DAY:
        raise ValueError("no time of day")
    return total


def _compact_time(found: _Reader, text: str, fraction: str | None) -> None:
    found.set_time(text[:2], text[2:4], text[4:6] or None, fraction)


def _word(found: _Reader, text: str) -> None:
    word = text.lower().rstrip(".")
    if word in MONTHS and found.month is None and found.date is None:
        found.month = MONTHS[word]
    elif word in ("am", "pm"):
        found.half = word
    elif word in ("ad", "bc"):
        found.era = word == "bc"
    elif word == "epoch":
        found.day, found.time = 0, 0
    elif word == "allballs":
        found.time, found.zone = 0, datetime.UTC
    elif word not in DAY_NAMES and word != "t":
        found.set_zone(text)


NAME: Final = r"[A-Za-z]{3,9}"
FORMS: Final[tuple[tuple[str, Callable[..., None]], ...]] = (
    (r"(\d{3,})-(\d{1,2})-(\d{1,2})(?:T(?=\d))?", lambda f, y, m, d: f.set_date(y, m, d)),
    (r"(\d{4}) (\d{1,2})[-/](\d{1,2})(?![\d:])", lambda f, y, m, d: f.set_date(y, m, d)),
    (r"(\d{4})[/.](\d{1,2})[/.](\d{1,2})", lambda f, y, m, d: f.set_date(y, m, d)),
    (r"(\d{1,2})[/.-](\d{1,2})[/.-](\d{4}|\d{2})(?![\d:])", lambda f, *parts: f.set_numbers(*parts)),
    (rf"(\d{{4}})[-/ ]({NAME})[-/ ](\d{{1,2}})(?!\d|:)", lambda f, y, m, d: f.set_date(y, m, d)),
    (rf"(\d{{1,2}})[-/]({NAME})[-/](\d{{4}}|\d{{2}})(?!\d)", lambda f, d, m, y: f.set_date(y, m, d)),
    (rf"({NAME})[-/](\d{{1,2}})[-/](\d{{4}}|\d{{2}})(?!\d)", lambda f, m, d, y: f.set_date(y, m, d)),
    (r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:[.,](\d*))?)?(?![\d:])", lambda f, *parts: f.set_time(*parts)),
    (r"J(\d+)(?![A-Za-z])", lambda f, n: setattr(f, "day", int(n) - 2_440_588)),
    (r"(\d{4})(\d{2})(\d{2})(?:T(?=\d)|(?!\d))", lambda f, y, m, d: f.set_date(y, m, d)),
    (r"(\d{4})\.(\d{3})(?!\d)", lambda f, y, n: setattr(f, "day", _of_year(int(y), int(n)))),
    (r"T?(\d{6}|\d{4}(?=[+-]|Z))(?:\.(\d+))?(?!\d)", _compact_time),
    (r"([+-]\d{1,2}(?::?\d{2}(?::?\d{2})?)?)(?!\d)", lambda f, text: f.set_zone(text)),
    (r"([A-Za-z]+(?:[/_+-][A-Za-z0-9]+)*\.?)", _word),
    (r"(\d{1,4})(?:st|nd|rd|th)?(?!\d)", lambda f, text: f.loose.append(text)),
)
SHORT: Final = re.compile(r"(\d{2})(\d{2})(\d{2})")
"""A date of six digits, which elsewhere are a time."""
COMPILED: Final = tuple((re.compile(form, re.ASCII), take) for form, take in FORMS)


def _of_year(year: int, number: int) -> int:
    return days_of(year, 1, 1) + number - 1


def read(text: str, order: str = "MDY") -> Moment:
    """What a text says of a date and time; ValueError if it is not understood.

    ``order`` says what numbers without a sign of their own are: a month, a day, a year.
    """
    found, place, text = _Reader(order), 0, text.strip(BLANKS)
    if not text:
        raise ValueError("an empty text")
    while place < len(text):
        if text[place] in " ,\t\n\v\f\r":
            place += 1
            continue
        for form, take in COMPILED:
            match = form.match(text, place)
            if match is not None:
                try:
                    take(found, *match.groups())
                except KeyError:
                    continue
                place = match.end()
                break
        else:
            raise ValueError("no date or time")
    return found.result()


def parse_date(text: str, order: str = "MDY") -> int:
    """The day that a text means; a time of day is left out."""
    if text.strip(BLANKS).lower() in ENDS:
        return ENDS[text.strip(BLANKS).lower()]
    short = SHORT.fullmatch(text.strip(BLANKS))
    day = read("{1}/{2}/{0}".format(*short.groups()) if short else text, order).day
    if day is None:
        raise ValueError("no date")
    return day


def parse_timestamp(text: str, order: str = "MDY") -> int:
    """The date and time that a text means; a time zone is left out, as in Postgres."""
    if text.strip(BLANKS).lower() in ENDS:
        return ENDS[text.strip(BLANKS).lower()]
    moment = read(text, order)
    if moment.day is None:
        raise ValueError("no date")
    return moment.day * DAY + (moment.time or 0)


def parse_instant(text: str, default: datetime.tzinfo = datetime.UTC, order: str = "MDY") -> int:
    """The instant that a text means, in a time zone unless it says one."""
    if text.strip(BLANKS).lower() in ENDS:
        return ENDS[text.strip(BLANKS).lower()]
    moment = read(text, order)
    if moment.day is None:
        raise ValueError("no date")
    return from_local(moment.day * DAY + (moment.time or 0), moment.zone or default)


def parse_time(text: str) -> int:
    """The time of day that a text means; a date and a time zone are left out."""
    moment = read(text)
    if moment.time is None:
        raise ValueError("no time")
    return moment.time
