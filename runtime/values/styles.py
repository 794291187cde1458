"""How a session writes and reads moments, intervals, bytes and floats: TimeZone, DateStyle and their like.

Values are the same in every style; what depends on one is bound with the style's text, so that a view keeps
the one that it was made under.
"""

import contextvars
import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

from kpg.runtime.records import dataclass
from kpg.runtime.types import Kind, Type
from kpg.runtime.values import arrays, codec

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


def zone_of(style: Style) -> Any:
    """The time zone of a style: seconds east of Greenwich, or a name."""
    from kpg.runtime.values import date_time

    return date_time.session_zone(style.zone)


@functools.lru_cache(maxsize=256)
def writer_of(type_: Type, style: Style) -> Callable[[Any], str]:
    """How values are written in a style, as parts of others and alone."""
    from kpg.runtime.values import ranges, row_values, style_output

    match type_.kind:
        case Kind.DATE:
            return functools.partial(style_output.date, style)
        case Kind.TIMESTAMP:
            return functools.partial(style_output.stamp, style)
        case Kind.TIMESTAMPTZ:
            return functools.partial(style_output.instant, style)
        case Kind.INTERVAL | Kind.INTERVAL_DAY | Kind.INTERVAL_MONTH:
            return functools.partial(style_output.interval, style, type_.kind)
        case Kind.BYTEA if style.bytea == "escape":
            return style_output.escaped
        case Kind.REAL | Kind.DOUBLE if style.digits < 1:
            return functools.partial(
                style_output.short_float, (6 if type_.kind is Kind.REAL else 15) + style.digits
            )
        case Kind.ARRAY:
            return arrays.writer(type_, writer_of(type_.parts[0], style))
        case Kind.RECORD:
            return row_values.writer([writer_of(part, style) for part in type_.parts])
        case Kind.RANGE | Kind.MULTIRANGE:
            return ranges.writer(type_, writer_of(type_.parts[0], style))
        case _:
            return codec.output_of(type_)


@functools.lru_cache(maxsize=256)
def reader_of(type_: Type, style: Style) -> Callable[[str], Any]:
    """From text to a value, in a style."""
    from kpg.runtime.values import date_time

    order = style.order
    match type_.kind:
        case Kind.DATE:
            return lambda text: date_time.parse_date(text, order)
        case Kind.TIMESTAMP:
            return lambda text: date_time.parse_timestamp(text, order)
        case Kind.TIMESTAMPTZ:
            return lambda text: date_time.parse_instant(text, zone_of(style), order)
        case Kind.ARRAY:
            element = codec.codec_of(type_.parts[0])
            parse = reader_of(type_.parts[0], style)
            known = codec.Codec(
                element.encode,
                element.decode,
                parse,
                element.show,
                element.to_python,
                element.from_python,
                element.expected,
            )
            return lambda text: arrays.parse(text, known, type_.parts[0])
        case _:
            return codec.codec_of(type_).parse


READ: Final = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})
"""Types that are read otherwise in another style."""


def read_otherwise(type_: Type) -> bool:
    """Whether it, or what it is made of, is."""
    return type_.kind in READ or (type_.kind is Kind.ARRAY and type_.parts[0].kind in READ)
