"""Fields that are read in Python, and ``date_part``."""

import math
from collections.abc import Callable
from typing import Any, Final

from kpg.runtime.functions import fields
from kpg.runtime.functions.infinite import unless_infinite
from kpg.runtime.functions.moments import MOMENTS, SPANS
from kpg.runtime.functions.registry import (
    Composition,
    Memoized,
    Overload,
    Signature,
    primitive,
    resolve,
    scalar,
)
from kpg.runtime.functions.rules import is_unknown
from kpg.runtime.scalar import Call, If, Literal, Scalar
from kpg.runtime.types import BOOLEAN, DOUBLE, INTERVAL, TEXT, Kind, Type, decimal, float_to_word
from kpg.runtime.values.calendars import is_infinite

JULIAN_DAYS: Final = decimal(18, 0)
"""Of a DATE, which has no part of a day."""


def _part(call: Call) -> Callable[..., object]:
    type_ = call.args[1].type

    def part(field: str, value: Any) -> float | None:
        name = fields.named(field)
        read = fields.reader(name, type_)
        if type_.kind in MOMENTS and name in fields.ENDLESS and is_infinite(value):
            return math.copysign(math.inf, value)
        return fields.as_number(name, read(value))

    return part


def _parts(given: tuple[Type, ...]) -> Signature | None:
    if len(given) != 2 or not (given[0].is_text or is_unknown(given[0])):
        return None
    if given[1].kind in SPANS:
        return Signature((TEXT, INTERVAL), DOUBLE)
    fits = given[1].kind in MOMENTS or given[1].kind is Kind.TIME
    return Signature((TEXT, given[1]), DOUBLE) if fits else None


def _known_part(call: Call) -> Scalar:
    """A field that is known is read as ``extract`` does."""
    field, value = call.args
    if isinstance(field, Literal) and isinstance(field.value, str):
        try:
            name = fields.named(field.value)
            meaning = resolve(f"extract_{name}", (value.type,))
        except ValueError:
            return Call("$date_part", call.args, DOUBLE)
        found = Call("cast", (Call(meaning.function.name, (value,), meaning.result_type),), DOUBLE)
        if value.type.kind not in MOMENTS or name not in fields.ENDLESS:
            return found
        late = Call("gt", (value, Literal(0, value.type)), BOOLEAN)
        highest, lowest = (Literal(float_to_word(end), DOUBLE) for end in (math.inf, -math.inf))
        end = If(late, highest, lowest, DOUBLE)
        return unless_infinite(value, end, found)
    return Call("$date_part", call.args, DOUBLE)


def _extracted(name: str) -> Callable[[tuple[Type, ...]], Signature | None]:
    def rule(given: tuple[Type, ...]) -> Signature | None:
        if len(given) != 1 or not (given[0].kind in MOMENTS | SPANS or given[0].kind is Kind.TIME):
            return None
        type_ = INTERVAL if given[0].kind in SPANS else given[0]
        try:
            fields.reader(name, type_)
        except ValueError:
            return None
        whole = name == "julian" and type_.kind is Kind.DATE
        return Signature((type_,), JULIAN_DAYS if whole else fields.TYPES[name])

    return rule


def _reader(name: str) -> Memoized:
    def made(call: Call) -> Callable[..., object]:
        read = fields.reader(name, call.args[0].type)
        if call.type != JULIAN_DAYS:
            return read
        return lambda days: None if (found := read(days)) is None else found // 10**10

    return Memoized(made)


for _name, _value in (
    ("century", "20"),
    ("decade", "199"),
    ("isodow", "3"),
    ("isoyear", "1998"),
    ("julian", "2451059.5"),
    ("microseconds", "0"),
    ("millennium", "2"),
    ("milliseconds", "0"),
):
    scalar(
        f"extract_{_name}",
        "a date, timestamp, time or interval that has such a field",
        f"The field {_name}.",
        {f"EXTRACT({_name} FROM TIMESTAMP '1998-09-02 12:00:00')": _value},
        Overload(_extracted(_name), _reader(_name)),
    )
for _name in ("timezone", "timezone_hour", "timezone_minute"):
    scalar(
        f"extract_{_name}",
        "a timestamp with time zone",
        "The distance from UTC, which is the time zone: 0.",
        {f"EXTRACT({_name} FROM TIMESTAMPTZ '1998-09-02 12:00:00+00')": "0"},
        Overload(_extracted(_name), _reader(_name)),
    )


primitive("$date_part", Memoized(_part))
scalar(
    "date_part",
    "the name of a field, and a date, timestamp, time or interval",
    "A field as DOUBLE; see extract.",
    {
        "date_part('day', TIMESTAMP '2001-02-16 20:38:40')": "16e0",
        "date_part('hour', INTERVAL '4 hours')": "4e0",
    },
    Overload(_parts, Composition(_known_part)),
)
