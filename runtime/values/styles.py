"""Session styles for input and output: TimeZone, DateStyle, IntervalStyle and similar settings.

Values do not depend on a style. Expressions that do are bound with the text of the style, so a view
keeps the style under which it was created.
"""

import contextvars
import functools
from collections.abc import Mapping
from typing import Final

from kpg.runtime.records import dataclass
from kpg.runtime.types import Kind, Type

STYLE_SETTINGS: Final = frozenset(
    {"timezone", "datestyle", "intervalstyle", "extra_float_digits", "bytea_output"}
)
"""Settings that make up a style."""
OUTPUT_STYLE_KINDS: Final = frozenset(
    {Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.INTERVAL, Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH}
    | {Kind.BYTEA, Kind.REAL, Kind.DOUBLE}
)
"""Kinds whose text depends on the style."""


@dataclass(frozen=True, slots=True)
class Style:
    """A style. ``zone`` is a time zone's name or seconds east; ``dates`` and ``order`` are DateStyle's."""

    zone: str = "UTC"
    dates: str = "ISO"
    order: str = "MDY"
    intervals: str = "postgres"
    digits: int = 1
    bytea: str = "hex"

    @property
    def text(self) -> str:
        """Text form that :func:`parse_style` reads."""
        return "|".join((self.zone, self.dates, self.order, self.intervals, str(self.digits), self.bytea))


DEFAULT_STYLE: Final = Style()
"""Style of a session without settings."""
CURRENT_STYLE: Final = contextvars.ContextVar("style", default=DEFAULT_STYLE)
"""Style of the statement whose constants are parsed."""


@functools.lru_cache(maxsize=256)
def parse_style(text: str) -> Style:
    """Parse the text form of a style."""
    zone, dates, order, intervals, digits, bytea = text.split("|")
    return Style(zone, dates, order, intervals, int(digits), bytea)


def style_of_settings(settings: Mapping[str, str]) -> Style:
    """Return the style of a session's settings."""
    if STYLE_SETTINGS.isdisjoint(settings):
        return DEFAULT_STYLE
    dates, _, order = settings.get("datestyle", "ISO, MDY").partition(", ")
    return Style(
        settings.get("timezone", "UTC"),
        dates,
        order,
        settings.get("intervalstyle", "postgres"),
        int(settings.get("extra_float_digits", "1")),
        settings.get("bytea_output", "hex"),
    )


def has_style_output(type_: Type) -> bool:
    """Check whether the text of a type's values depends on the style."""
    if type_.kind in (Kind.JSON, Kind.JSONB):
        return False
    return type_.kind in OUTPUT_STYLE_KINDS or any(map(has_style_output, type_.parts))


INPUT_STYLE_KINDS: Final = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})
"""Kinds whose input depends on the style."""


def has_style_input(type_: Type) -> bool:
    """Check whether the input of a type, or of its elements, depends on the style."""
    return type_.kind in INPUT_STYLE_KINDS or (
        type_.kind is Kind.ARRAY and type_.parts[0].kind in INPUT_STYLE_KINDS
    )
