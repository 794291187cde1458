"""TIMETZ in functions and operators of other types."""

from collections.abc import Callable
from decimal import Decimal

from kpg.runtime.functions.registry import Memoized, Overload, extend
from kpg.runtime.functions.rules import among
from kpg.runtime.functions.zones import east
from kpg.runtime.types import DATE, DOUBLE, INTERVAL, NUMERIC, TEXT, TIMESTAMPTZ, TIMETZ, Kind, Type
from kpg.runtime.values.intervals import Interval
from kpg.runtime.values.small import SECOND, at_zone
from kpg.runtime.values.words import DAY
from kpg.runtime.values.zones import zone

OF = frozenset({Kind.TIMETZ})
Value = tuple[int, int]


def _define(
    name: str, accepts: str, result: Type, args: tuple[Type, ...], code: Callable[..., object]
) -> None:
    extend(name, accepts, Overload(among(OF, result, *args), Memoized(lambda call: code)))


def moved(value: Value, by: Interval) -> Value:
    """Later by an interval's time, around midnight."""
    return (value[0] + by.microseconds) % DAY, value[1]


def field(name: str, value: Value) -> object:
    """What EXTRACT and date_part give."""
    time, east = value
    minutes, micros = divmod(time, 60 * SECOND)
    match name.lower():
        case "hour":
            return Decimal(minutes // 60)
        case "minute":
            return Decimal(minutes % 60)
        case "second":
            return Decimal(micros).scaleb(-6)
        case "millisecond" | "milliseconds":
            return Decimal(micros).scaleb(-3)
        case "microsecond" | "microseconds":
            return Decimal(micros)
        case "epoch":
            return Decimal(time - east * SECOND).scaleb(-6)
        case "timezone":
            return Decimal(east)
        case "timezone_hour":
            return Decimal(int(east / 3600))
        case "timezone_minute":
            return Decimal(int((abs(east) % 3600) / 60) * (-1 if east < 0 else 1))
        case _:
            raise ValueError(f'unit "{name}" not supported for type time with time zone')


def there(name: str, value: Value) -> Value:
    """What clocks show then in a zone, which is taken as of the first day of 1970."""
    import datetime

    offset = zone(name).utcoffset(datetime.datetime(1970, 1, 1))
    return at_zone(value, 0 if offset is None else int(offset.total_seconds()))


def later(value: Value, by: Interval) -> Value:
    """As ``value + interval``."""
    return moved(value, by)


_define("add", "a TIMETZ and an INTERVAL", TIMETZ, (TIMETZ, INTERVAL), moved)
_define("add", "a TIMETZ and an INTERVAL", TIMETZ, (INTERVAL, TIMETZ), lambda by, value: moved(value, by))
_define(
    "add",
    "a DATE and a TIMETZ",
    TIMESTAMPTZ,
    (DATE, TIMETZ),
    lambda day, value: day * DAY + value[0] - value[1] * SECOND,
)
_define(
    "add",
    "a TIMETZ and a DATE",
    TIMESTAMPTZ,
    (TIMETZ, DATE),
    lambda value, day: day * DAY + value[0] - value[1] * SECOND,
)
_define(
    "sub",
    "a TIMETZ and an INTERVAL",
    TIMETZ,
    (TIMETZ, INTERVAL),
    lambda value, by: moved(value, Interval(0, 0, -by.microseconds)),
)
_define(
    "timezone",
    "an offset and a TIMETZ",
    TIMETZ,
    (INTERVAL, TIMETZ),
    lambda by, value: at_zone(value, east(by) // SECOND),
)
_define("timezone", "a zone and a TIMETZ", TIMETZ, (TEXT, TIMETZ), there)
_define(
    "date_part",
    "a field and a TIMETZ",
    DOUBLE,
    (TEXT, TIMETZ),
    lambda name, value: float(str(field(name, value))),
)
for _name in ("hour", "minute", "second", "milliseconds", "microseconds", "epoch"):
    _define(
        f"extract_{_name}", "a TIMETZ", NUMERIC, (TIMETZ,), lambda value, _name=_name: field(_name, value)
    )
for _name in ("timezone", "timezone_hour", "timezone_minute"):
    _define(
        f"extract_{_name}", "a TIMETZ", NUMERIC, (TIMETZ,), lambda value, _name=_name: field(_name, value)
    )
