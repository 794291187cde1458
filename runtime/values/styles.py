"""Session styles for input and output: TimeZone, DateStyle, IntervalStyle and similar settings.

Values do not depend on a style. Expressions that do are bound with the text of the style, so a view keeps the
style that it was created under.
"""

import contextvars
import functools
from collections.abc import Mapping
from typing import Final

from kpg.runtime.records import dataclass
from kpg.runtime.types import Kind, Type

NAMES: Final = frozenset({"timezone", "datestyle", "intervalstyle", "extra_float_digits", "bytea_output"})
"""The settings that a style is made of."""
STYLED: Final = frozenset(
    {Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.INTERVAL, Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH}
    | {Kind.BYTEA, Kind.REAL, Kind.DOUBLE}
)
"""Types whose text depends on it."""


@dataclass(frozen=True, slots=True)
class Style:
    """``zone`` is a time zone's name or seconds east; ``dates`` and ``order`` are DateStyle's two parts."""

    zone: str = "UTC"
    dates: str = "ISO"
    order: str = "MDY"
    intervals: str = "postgres"
    digits: int = 1
    bytea: str = "hex"

    @property
    def text(self) -> str:
        """What :func:`style_of` reads."""
        return "|".join((self.zone, self.dates, self.order, self.intervals, str(self.digits), self.bytea))


PLAIN: Final = Style()
"""That of a session that has set nothing."""
BINDING: Final = contextvars.ContextVar("style", default=PLAIN)
"""The style of the statement whose constants are read."""


@functools.lru_cache(maxsize=256)
def style_of(text: str) -> Style:
    """The style of a text that one gave."""
    zone, dates, order, intervals, digits, bytea = text.split("|")
    return Style(zone, dates, order, intervals, int(digits), bytea)


def of_settings(settings: Mapping[str, str]) -> Style:
    """The style of a session's settings."""
    if NAMES.isdisjoint(settings):
        return PLAIN
    dates, _, order = settings.get("datestyle", "ISO, MDY").partition(", ")
    return Style(
        settings.get("timezone", "UTC"),
        dates,
        order,
        settings.get("intervalstyle", "postgres"),
        int(settings.get("extra_float_digits", "1")),
        settings.get("bytea_output", "hex"),
    )


def depends(type_: Type) -> bool:
    """Whether the text of a type's values depends on the style."""
    if type_.kind in (Kind.JSON, Kind.JSONB):
        return False
    return type_.kind in STYLED or any(map(depends, type_.parts))


READ: Final = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})
"""Types that are read otherwise in another style."""


def read_otherwise(type_: Type) -> bool:
    """Whether it, or what it is made of, is."""
    return type_.kind in READ or (type_.kind is Kind.ARRAY and type_.parts[0].kind in READ)
