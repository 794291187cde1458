"""Dates and timestamps: fields, truncation, construction.

A date is a number of days, a timestamp of microseconds; all is built from the instruction that splits
a date into year, month and day, the one that adds months, and division.
"""

import datetime
from collections.abc import Callable

from kpg.runtime.errors import ProgrammingError
from kpg.runtime.functions.registry import (
    Composition,
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
from kpg.runtime.types import DATE, DOUBLE, INTEGER, INTERVAL_DAY, TIMESTAMP, Kind, Type

SECOND = 1_000_000
DAY = 86_400 * SECOND
EPOCH_ORDINAL = datetime.date(1970, 1, 1).toordinal()

primitive("$floor_div", Opcode("floor_div"))
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
    if x.type.kind is Kind.TIMESTAMP:
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
    if x.type.kind is Kind.DATE:
        return Call("mul", (Call("$date", (x,), INTEGER), _integer(0)), INTEGER)
    units = Call("$floor_div", (x, Literal(unit, INTERVAL_DAY)), INTERVAL_DAY)
    turns = Call("$floor_div", (units, Literal(cycle, INTERVAL_DAY)), INTERVAL_DAY)
    return Call("sub", (units, Call("mul", (turns, Literal(cycle, INTEGER)), INTERVAL_DAY)), INTERVAL_DAY)


def _seconds_since_epoch(x: Scalar) -> Scalar:
    stamp = x if x.type.kind is Kind.TIMESTAMP else Call("cast", (x,), TIMESTAMP)
    seconds = Call("$to_double", (stamp, _integer(SECOND)), DOUBLE)
    return seconds


def _on_date(result: Type) -> Rule:
    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 1 or not (types[0].kind in (Kind.DATE, Kind.TIMESTAMP) or is_unknown(types[0])):
            return None
        return Signature((TIMESTAMP if types[0].kind is Kind.TIMESTAMP else DATE,), result)

    return rule


_DATED = "a DATE or TIMESTAMP"
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


def _define_day_field(name: str, build: Callable[[Scalar], Scalar], value: str) -> None:
    scalar(
        f"extract_{name}",
        _DATED,
        _DAY_DOCS[name],
        {f"EXTRACT({name} FROM DATE '1998-09-02')": value},
        Overload(_on_date(INTEGER), Composition(lambda call: build(_days(call.args[0])))),
    )


def _define_time_field(name: str, unit: int, cycle: int, value: str) -> None:
    scalar(
        f"extract_{name}",
        _DATED,
        f"The {name}, without fraction; 0 for a DATE.",
        {f"EXTRACT({name} FROM TIMESTAMP '1998-09-02 07:08:09')": value},
        Overload(_on_date(INTEGER), Composition(lambda call: _time_of_day(call.args[0], unit, cycle))),
    )


for _name, (_build, _value) in _DAY_FIELDS.items():
    _define_day_field(_name, _build, _value)
_define_time_field("hour", 3600 * SECOND, 24, "7")
_define_time_field("minute", 60 * SECOND, 60, "8")
_define_time_field("second", SECOND, 60, "9")

primitive("$to_double", Opcode("to_double", lambda call: _number(call.args[1]), operands=1))
scalar(
    "extract_epoch",
    _DATED,
    "Seconds since 1970-01-01 00:00:00.",
    {"EXTRACT(epoch FROM TIMESTAMP '1970-01-02 00:00:01')": "86401e0"},
    Overload(_on_date(DOUBLE), Composition(lambda call: _seconds_since_epoch(call.args[0]))),
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
    unit, x = call.args
    if not isinstance(unit, Literal) or str(unit.value).lower() not in {*_STARTS, *_LENGTHS}:
        raise ProgrammingError(
            "the unit of date_trunc must be a literal unit", hint=f"one of {', '.join((*_STARTS, *_LENGTHS))}"
        )
    name = str(unit.value).lower()
    if name in _STARTS:
        start = _STARTS[name](_days(x))
        if x.type.kind is Kind.DATE:
            return start
        return Call("$mul", (start, Literal(DAY, INTERVAL_DAY)), TIMESTAMP)
    if x.type.kind is Kind.DATE:
        return x
    length = Literal(_LENGTHS[name], INTERVAL_DAY)
    return Call("$mul", (Call("$floor_div", (x, length), INTERVAL_DAY), length), TIMESTAMP)


primitive("$mul", Opcode("mul"))


def _truncate_types(types: tuple[Type, ...]) -> Signature | None:
    if len(types) != 2 or not (types[0].is_text or is_unknown(types[0])):
        return None
    inner = _on_date(DATE)(types[1:])
    return None if inner is None else Signature((Type(Kind.VARCHAR), *inner.args), inner.args[0])


scalar(
    "date_trunc",
    "a literal unit (year, quarter, month, week, day, hour, minute, second) and a DATE or TIMESTAMP",
    "The start of the unit that a date or timestamp lies in; a DATE stays one.",
    {
        "date_trunc('month', DATE '1998-09-02')": "DATE '1998-09-01'",
        "date_trunc('quarter', DATE '1998-09-02')": "DATE '1998-07-01'",
        "date_trunc('week', DATE '1998-09-02')": "DATE '1998-08-31'",
        "date_trunc('hour', TIMESTAMP '1998-09-02 07:08:09')": "TIMESTAMP '1998-09-02 07:00:00'",
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
    return datetime.date(year, month, day).toordinal() - EPOCH_ORDINAL
