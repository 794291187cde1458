"""AT TIME ZONE."""

import datetime
from collections.abc import Callable
from typing import Final

from kpg.runtime.functions.registry import Memoized, Overload, Rule, Signature, scalar
from kpg.runtime.functions.rules import is_unknown
from kpg.runtime.scalar import Call
from kpg.runtime.types import INTERVAL, TEXT, TIME, TIMESTAMP, TIMESTAMPTZ, TIMETZ, Kind, Type
from kpg.runtime.values.calendars import is_infinite
from kpg.runtime.values.intervals import Interval, shown
from kpg.runtime.values.zones import from_local, to_local, zone

SECOND: Final = 1_000_000


def _takes(where: Type, when: Type, result: Type) -> Rule:
    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 2:
            return None
        fits = (types[0].is_text and where.is_text) or types[0].kind is where.kind
        fits |= is_unknown(types[0]) and where.is_text
        fits &= types[1].kind is when.kind or (
            (is_unknown(types[1]) or types[1].kind is Kind.DATE) and when == TIMESTAMPTZ
        )
        return Signature((where, when), result) if fits else None

    return rule


def _by_name(convert: Callable[..., int]) -> Callable[[Call], Callable[[str, int], int]]:
    return lambda call: lambda name, word: convert(word, zone(name))


def _shifted(sign: int) -> Callable[[Call], Callable[[Interval, int], int]]:
    return lambda call: lambda offset, word: word if is_infinite(word) else word + sign * east(offset)


def east(offset: Interval) -> int:
    """The microseconds east of Greenwich that an interval means as a time zone."""
    if offset.months or offset.days:
        raise ValueError(f'interval time zone "{shown(offset)}" must not include months or days')
    return offset.microseconds


def _clock_there(call: Call) -> Callable[..., tuple[int, int]]:
    """A time of day as clocks in UTC show it, as those in a zone do."""
    from kpg.runtime.values.small import at_zone

    if call.args[0].type.kind is Kind.INTERVAL:
        return lambda offset, time: at_zone((time, 0), east(offset) // SECOND)

    def there(name: str, time: int) -> tuple[int, int]:
        offset = zone(name).utcoffset(datetime.datetime(1970, 1, 1))
        return at_zone((time, 0), int((offset or datetime.timedelta()).total_seconds()))

    return there


scalar(
    "timezone",
    "a time zone and a TIMESTAMP, TIMESTAMPTZ or TIME",
    "The instant at which clocks there show a TIMESTAMP; what they show at the instant of a TIMESTAMPTZ.",
    {
        "timezone('UTC', TIMESTAMP '2001-02-16 20:38:40')::TEXT": "'2001-02-16 20:38:40+00'",
        "timezone('America/Denver', timezone('UTC', TIMESTAMP '2001-02-17 01:38:40'))": (
            "TIMESTAMP '2001-02-16 18:38:40'"
        ),
    },
    Overload(_takes(TEXT, TIMESTAMPTZ, TIMESTAMP), Memoized(_by_name(to_local))),
    Overload(_takes(TEXT, TIMESTAMP, TIMESTAMPTZ), Memoized(_by_name(from_local))),
    Overload(_takes(INTERVAL, TIMESTAMPTZ, TIMESTAMP), Memoized(_shifted(1))),
    Overload(_takes(INTERVAL, TIMESTAMP, TIMESTAMPTZ), Memoized(_shifted(-1))),
    Overload(_takes(TEXT, TIME, TIMETZ), Memoized(_clock_there)),
    Overload(_takes(INTERVAL, TIME, TIMETZ), Memoized(_clock_there)),
)
