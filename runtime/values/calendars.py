"""Days beyond Python's calendar: years before Christ, those of five digits, and the ends of time.

A year 0 is 1 BC. The words of the infinities are next to the ends of what a word holds.
"""

import datetime
from typing import Final

from kpg.runtime.types import MAX_WORD, MIN_WORD, Kind, Type

LATEST: Final = MAX_WORD - 2
"""The word of ``infinity``, of dates and timestamps."""
EARLIEST: Final = MIN_WORD + 2
"""The word of ``-infinity``. Words beyond them are taken by NULLs, where words say an order."""
ENDS: Final = {"infinity": LATEST, "+infinity": LATEST, "-infinity": EARLIEST}
DAY: Final = 86_400_000_000
FIRST_DAY, LAST_DAY = -2_440_588, 106_000_000
"""From 4714 BC to the year 292187: days that a timestamp has too."""


def days_of(year: int, month: int, day: int) -> int:
    """Days since 1970 of a date of any year; ValueError if there is none."""
    if not 1 <= month <= 12 or not 1 <= day <= _length(year, month):
        raise ValueError("date out of range")
    years, march = (year, month - 3) if month > 2 else (year - 1, month + 9)
    days = 365 * years + years // 4 - years // 100 + years // 400 + (march * 306 + 5) // 10 + day - 719_469
    if not FIRST_DAY <= days <= LAST_DAY:
        raise ValueError("date out of range")
    return days


def _length(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of days since 1970."""
    shifted = days + 719_468
    era, of_era = divmod(shifted, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    rest = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    march = (5 * rest + 2) // 153
    month = march + 3 if march < 10 else march - 9
    return era * 400 + year_of_era + (month <= 2), month, rest - (153 * march + 2) // 5 + 1


def is_infinite(word: int) -> bool:
    """Whether it is one of the ends of time."""
    return word in (EARLIEST, LATEST)


def shown_date(days: int) -> str:
    """As Postgres writes it."""
    if is_infinite(days):
        return "infinity" if days > 0 else "-infinity"
    year, month, day = civil(days)
    return f"{year if year > 0 else 1 - year:04d}-{month:02d}-{day:02d}{'' if year > 0 else ' BC'}"


def shown_stamp(word: int, suffix: str = "") -> str:
    """A date and time, without zeros at the end of its fraction; ``suffix``: a time zone."""
    if is_infinite(word):
        return "infinity" if word > 0 else "-infinity"
    days, time = divmod(word, DAY)
    date, _, era = shown_date(days).partition(" ")
    seconds, micros = divmod(time, 1_000_000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    fraction = f".{micros:06d}".rstrip("0") if micros else ""
    return f"{date} {clock}{fraction}{suffix}{' ' if era else ''}{era}"


class Beyond:
    """What Python has for a moment outside its years: its first or last one, shown as what it stands for."""

    __slots__ = ()
    word: int
    text: str

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def isoformat(self, *_: object, **__: object) -> str:
        return self.text


class DateBeyond(Beyond, datetime.date):
    """A DATE before the year 1 or after 9999, or infinite."""

    __slots__ = ("text", "word")


class StampBeyond(Beyond, datetime.datetime):
    """A TIMESTAMP before the year 1 or after 9999, or infinite, with a time zone too."""

    __slots__ = ("text", "word")


def beyond(word: int, type_: Type) -> DateBeyond | StampBeyond:
    """The object of a moment that Python has none for."""
    if type_.kind is Kind.DATE:
        date = DateBeyond(9999, 12, 31) if word > 0 else DateBeyond(1, 1, 1)
        date.word, date.text = word, shown_date(word)
        return date
    zone = datetime.UTC if type_.kind is Kind.TIMESTAMPTZ else None
    end = datetime.datetime.max if word > 0 else datetime.datetime.min
    stamp = StampBeyond(*end.timetuple()[:6], end.microsecond, zone)
    stamp.word, stamp.text = word, shown_stamp(word, "" if zone is None else "+00")
    return stamp
