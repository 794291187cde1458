"""Dates and timestamps: fields, truncation, construction.

A date is a number of days, a timestamp of microseconds; all is built from the instruction that splits
a date into year, month and day, the one that adds months, and division.
"""

from collections.abc import Callable
from typing import Any, Final

from kpg.runtime.functions.infinite import unless_infinite
from kpg.runtime.functions.registry import (
    Composition,
    Memoized,
    Opcode,
    Overload,
    Rule,
    Signature,
    memoized,
    primitive,
    scalar,
)
from kpg.runtime.functions.rules import exactly, is_unknown
from kpg.runtime.scalar import Call, Literal, Scalar
from kpg.runtime.types import (
    DATE,
    INTEGER,
    INTERVAL,
    INTERVAL_DAY,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    Kind,
    Type,
    decimal,
)
from kpg.runtime.values.calendars import days_of

SECOND = 1_000_000
STAMPS = (Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
SECONDS = decimal(8, 6)
LONG_SECONDS = decimal(18, 6)
DAY = 86_400 * SECOND

primitive("$floor_div", Opcode("floor_div"))
primitive("$minus", Opcode("sub"))
primitive("$div", Opcode("div"))
primitive("$civil", Opcode("civil", lambda call: _number(call.args[1]), operands=1))


def _number(scalar_: Scalar) -> int:
    assert isinstance(scalar_, Literal) and isinstance(scalar_.value, int)
    return scalar_.value


def _integer(value: int) -> Literal:
    return Literal(value, INTEGER)


def _plus(left: Scalar, right: Scalar) -> Scalar:
    return Call("add", (left, right), INTEGER)


def _minus(left: Scalar, right: Scalar) -> Scalar:
    return Call("sub", (left, right), INTEGER)


def _floor_div(left: Scalar, divisor: int) -> Scalar:
    return Call("$floor_div", (left, _integer(divisor)), INTEGER)


def _cycle(left: Scalar, divisor: int) -> Scalar:
    """The remainder that is never negative."""
    return _minus(left, Call("mul", (_floor_div(left, divisor), _integer(divisor)), INTEGER))


def _civil(date: Scalar, field: int) -> Scalar:
    return Call("$civil", (date, _integer(field)), INTEGER)


def _days(x: Scalar) -> Scalar:
    """The date of a date or timestamp, as a number of days."""
    if x.type.kind in STAMPS:
        return Call("$floor_div", (x, Literal(DAY, INTERVAL_DAY)), INTEGER)
    return Call("$date", (x,), INTEGER)


primitive("$date", Composition(lambda call: call.args[0]))
primitive("$add_months", Opcode("add_months"))


def _month_start(days: Scalar) -> Scalar:
    return _minus(days, _minus(_civil(days, 2), _integer(1)))


def _back(days: Scalar, months: Scalar) -> Scalar:
    return Call("$add_months", (days, _minus(_integer(0), months)), DATE)


def _year_start(days: Scalar) -> Scalar:
    return Call("$date", (_back(_month_start(days), _minus(_civil(days, 1), _integer(1))),), INTEGER)


def _quarter_start(days: Scalar) -> Scalar:
    months = _cycle(_minus(_civil(days, 1), _integer(1)), 3)
    return Call("$date", (_back(_month_start(days), months),), INTEGER)


def _week_start(days: Scalar) -> Scalar:
    """Monday; day 0 was a Thursday."""
    return _minus(days, _cycle(_plus(days, _integer(3)), 7))


def _day_of_year(days: Scalar) -> Scalar:
    return _plus(_minus(days, _year_start(days)), _integer(1))


def _iso_week(days: Scalar) -> Scalar:
    """The week belongs to the year of its Thursday."""
    thursday = _plus(_week_start(days), _integer(3))
    return _plus(_floor_div(_minus(_day_of_year(thursday), _integer(1)), 7), _integer(1))


def _time_of_day(x: Scalar, unit: int, cycle: int) -> Scalar:
    units = Call("$floor_div", (x, Literal(unit, INTERVAL_DAY)), INTERVAL_DAY)
    turns = Call("$floor_div", (units, Literal(cycle, INTERVAL_DAY)), INTERVAL_DAY)
    whole = Call("$mul", (turns, Literal(cycle, INTEGER)), INTERVAL_DAY)
    rest = Call("$minus", (units, whole), INTERVAL_DAY)
    return unless_infinite(x, Literal(None, INTERVAL_DAY), rest)


WHOLE_SECONDS: Final = decimal(18, 0)


def _seconds_since_epoch(x: Scalar) -> Scalar:
    """The microseconds, which are seconds with six digits behind the point; of a DATE whole seconds."""
    if x.type.kind in STAMPS:
        return unless_infinite(x, Literal(None, LONG_SECONDS), Call("$as_seconds", (x,), LONG_SECONDS))
    known = Call("$mul", (x, Literal(DAY // SECOND, WHOLE_SECONDS)), WHOLE_SECONDS)
    return unless_infinite(x, Literal(None, WHOLE_SECONDS), known)


primitive("$as_seconds", Composition(lambda call: call.args[0]))


def _on_date(result: Type) -> Rule:
    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 1 or not (types[0].kind in (Kind.DATE, *STAMPS) or is_unknown(types[0])):
            return None
        return Signature((types[0] if types[0].kind in STAMPS else DATE,), result)

    return rule


def _on_stamps(result: Type) -> Rule:
    """A timestamp: a DATE has no time of day."""
    dated = _on_date(result)
    return lambda types: dated(types) if len(types) == 1 and types[0].kind in STAMPS else None


def _on_spans(result: Type, *kinds: Kind) -> Rule:
    """An interval, or what else the kinds say."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 1:
            return None
        if types[0].kind in (Kind.INTERVAL, Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH):
            return Signature((INTERVAL,), result)
        return Signature(types, result) if types[0].kind in kinds else None

    return rule


def _field(name: str) -> Memoized:
    """A field read in Python."""

    def build(call: Call) -> Callable[..., object]:
        from kpg.runtime.functions import fields

        return fields.reader(name, call.args[0].type)

    return Memoized(build)


_DATED = "a date, timestamp, time or interval that has such a field"
_DAY_FIELDS: dict[str, tuple[Callable[[Scalar], Scalar], str]] = {
    "year": (lambda days: _civil(days, 0), "1998"),
    "month": (lambda days: _civil(days, 1), "9"),
    "day": (lambda days: _civil(days, 2), "2"),
    "quarter": (lambda days: _plus(_floor_div(_minus(_civil(days, 1), _integer(1)), 3), _integer(1)), "3"),
    "dow": (lambda days: _cycle(_plus(days, _integer(4)), 7), "3"),
    "doy": (_day_of_year, "245"),
    "week": (_iso_week, "36"),
}
_DAY_DOCS = {
    "year": "The year.",
    "month": "The month, 1 to 12.",
    "day": "The day of the month.",
    "quarter": "The quarter, 1 to 4.",
    "dow": "The day of the week, 0 (Sunday) to 6.",
    "doy": "The day of the year, 1 to 366.",
    "week": "The ISO week.",
}


def _of_day(name: str, build: Callable[[Scalar], Scalar], x: Scalar) -> Scalar:
    """A field of a moment, NULL of an infinite one, as the fields of calendar dates are by themselves."""
    found = build(_days(x))
    return unless_infinite(x, Literal(None, INTEGER), found) if name in ("dow", "week") else found


def _define_day_field(name: str, build: Callable[[Scalar], Scalar], value: str) -> None:
    scalar(
        f"extract_{name}",
        _DATED,
        _DAY_DOCS[name],
        {f"EXTRACT({name} FROM DATE '1998-09-02')": value},
        Overload(_on_date(INTEGER), Composition(lambda call: _of_day(name, build, call.args[0]))),
        *([] if name in ("dow", "doy", "week") else [Overload(_on_spans(INTEGER), _field(name))]),
    )


def _define_time_field(name: str, unit: int, cycle: int, value: str, result: Type = INTEGER) -> None:
    scalar(
        f"extract_{name}",
        _DATED,
        f"The {name}.",
        {f"EXTRACT({name} FROM TIMESTAMP '1998-09-02 07:08:09')": value},
        Overload(_on_stamps(result), Composition(lambda call: _time_of_day(call.args[0], unit, cycle))),
        Overload(_on_spans(result, Kind.TIME), _field(name)),
    )


for _name, (_build, _value) in _DAY_FIELDS.items():
    _define_day_field(_name, _build, _value)
_define_time_field("hour", 3600 * SECOND, 24, "7")
_define_time_field("minute", 60 * SECOND, 60, "8")
_define_time_field("second", 1, 60 * SECOND, "9", SECONDS)

primitive("$to_double", Opcode("to_double", lambda call: _number(call.args[1]), operands=1))
scalar(
    "extract_epoch",
    _DATED,
    "Seconds since 1970-01-01 00:00:00, or of a time or interval.",
    {"EXTRACT(epoch FROM TIMESTAMP '1970-01-02 00:00:01.5')": "86401.5"},
    Overload(_on_stamps(LONG_SECONDS), Composition(lambda call: _seconds_since_epoch(call.args[0]))),
    Overload(_on_date(WHOLE_SECONDS), Composition(lambda call: _seconds_since_epoch(call.args[0]))),
    Overload(_on_spans(LONG_SECONDS, Kind.TIME), _field("epoch")),
)

_STARTS: dict[str, Callable[[Scalar], Scalar]] = {
    "year": _year_start,
    "quarter": _quarter_start,
    "month": _month_start,
    "week": _week_start,
    "day": lambda days: days,
}
_LENGTHS = {"hour": 3600 * SECOND, "minute": 60 * SECOND, "second": SECOND}


def _truncate(call: Call) -> Scalar:
    """By instructions where the unit is known and frequent, else in Python."""
    unit, x, *zone = call.args
    name = str(unit.value).lower() if isinstance(unit, Literal) else ""
    if zone or x.type.kind is Kind.INTERVAL or name not in {*_STARTS, *_LENGTHS}:
        return Call("$truncate", call.args, call.type)
    length = Literal(_LENGTHS.get(name, DAY), INTERVAL_DAY)
    units = _STARTS[name](_days(x)) if name in _STARTS else Call("$floor_div", (x, length), INTERVAL_DAY)
    return unless_infinite(x, x, Call("$mul", (units, length), call.type))


def _truncated(call: Call) -> Callable[..., object]:
    from kpg.runtime.functions import fields
    from kpg.runtime.values import zones

    cut = fields.cut if call.type.kind is Kind.INTERVAL else fields.start

    def truncate(unit: str, value: Any, zone: str = "UTC") -> object:
        where = None if zone == "UTC" else zones.zone(zone)
        if where is None:
            return cut(fields.named(unit), value)
        return zones.from_local(fields.start(fields.named(unit), zones.to_local(value, where)), where)

    return truncate


primitive("$mul", Opcode("mul"))
primitive("$truncate", Memoized(_truncated))


def _truncate_types(types: tuple[Type, ...]) -> Signature | None:
    """A unit and a moment, of which dates have a time zone as in Postgres, or an interval."""
    if len(types) not in (2, 3) or not all(
        type_.is_text or is_unknown(type_) for type_ in (types[0], *types[2:])
    ):
        return None
    if len(types) == 2 and types[1].kind in (Kind.INTERVAL, Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH):
        return Signature((TEXT, INTERVAL), INTERVAL)
    if types[1].kind not in (Kind.DATE, *STAMPS) and not is_unknown(types[1]):
        return None
    stamp = TIMESTAMP if types[1].kind is Kind.TIMESTAMP and len(types) == 2 else TIMESTAMPTZ
    return Signature((TEXT, stamp, *(TEXT,) * (len(types) - 2)), stamp)


scalar(
    "date_trunc",
    "a unit (microseconds to millennium), a date, timestamp or interval, and optionally a time zone",
    "The start of the unit that a moment lies in: of a DATE as TIMESTAMPTZ.",
    {
        "date_trunc('month', DATE '1998-09-02')": "TIMESTAMPTZ '1998-09-01 00:00:00+00'",
        "date_trunc('week', TIMESTAMP '1998-09-02 07:08:09')": "TIMESTAMP '1998-08-31 00:00:00'",
        "date_trunc('hour', TIMESTAMP '1998-09-02 07:08:09')": "TIMESTAMP '1998-09-02 07:00:00'",
        "date_trunc('century', TIMESTAMP '1998-09-02 07:08:09')": "TIMESTAMP '1901-01-01 00:00:00'",
    },
    Overload(_truncate_types, Composition(_truncate)),
)


@memoized(
    "make_date",
    "a year, a month and a day",
    exactly(DATE, INTEGER, INTEGER, INTEGER),
    {"make_date(1998, 9, 2)": "DATE '1998-09-02'"},
)
def make_date(year: int, month: int, day: int) -> int:
    """The date of a year, month and day; an error if there is none."""
    if not year:
        raise ValueError("there is no year 0")
    return days_of(year if year > 0 else year + 1, month, day)
