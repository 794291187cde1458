"""Date, timestamp and interval expressions: fields, truncation, construction, arithmetic, comparison.

A date is a number of days, a timestamp a number of microseconds. The expressions use three operations of the
expression machine: splitting a date into year, month and day, adding months, and division. Infinite moments
are handled apart. Adding an interval adds its months first, then its days, then its time. Intervals compare
by length.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

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
from kpg.runtime.functions.type_rules import common_pair, exactly, is_unknown
from kpg.runtime.scalar import Call, If, Literal, Scalar
from kpg.runtime.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    INTERVAL_DAY,
    MAX_WORD,
    MIN_WORD,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    Kind,
    Type,
    decimal,
)
from kpg.runtime.values import intervals
from kpg.runtime.values.codec import ordered
from kpg.runtime.values.words import DAY as WORDS_DAY
from kpg.runtime.values.words import EARLIEST, LATEST, days_of


def is_infinite(x: Scalar) -> Scalar:
    """Whether a moment is one of the ends of time."""
    late = Call("ge", (x, Literal(LATEST, x.type)), BOOLEAN)
    return Call("or", (late, Call("le", (x, Literal(EARLIEST, x.type)), BOOLEAN)), BOOLEAN)


def end_of(x: Scalar, type_: Type) -> Scalar:
    """The same end of time as another type has it."""
    late = Call("gt", (x, Literal(0, x.type)), BOOLEAN)
    return If(late, Literal(LATEST, type_), Literal(EARLIEST, type_), type_)


def unless_infinite(x: Scalar, endless: Scalar, other: Scalar) -> Scalar:
    """What stands for an infinite moment, and what for all others."""
    if isinstance(x, Literal) and isinstance(x.value, int):
        return endless if x.value in (EARLIEST, LATEST) else other
    return If(is_infinite(x), endless, other, other.type)


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
        from kpg.runtime.functions.date_time import fields  # lazy: few programs take dates apart

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
    from kpg.runtime.functions.date_time import fields  # lazy: few programs take dates apart
    from kpg.runtime.values import date_time  # lazy: few programs have such values

    cut = fields.cut if call.type.kind is Kind.INTERVAL else fields.start

    def truncate(unit: str, value: Any, zone: str = "UTC") -> object:
        where = None if zone == "UTC" else date_time.zone(zone)
        if where is None:
            return cut(fields.named(unit), value)
        return date_time.from_local(fields.start(fields.named(unit), date_time.to_local(value, where)), where)

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


INTERVALS = frozenset({Kind.INTERVAL, Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH})
MOMENTS = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})


def _spans_field(name: str) -> Memoized:
    return Memoized(lambda call: lambda value: getattr(value, name))


primitive("$months", _spans_field("months"))
primitive("$days", _spans_field("days"))
primitive("$microseconds", _spans_field("microseconds"))
primitive("$span", Memoized(lambda call: lambda value: ordered(intervals.span(value))))
primitive("$of_months", Memoized(lambda call: lambda months: intervals.Interval(months, 0, 0)))
primitive("$of_microseconds", Memoized(lambda call: intervals.of_microseconds))
primitive("$interval_add", Memoized(lambda call: lambda x, y: _of(a + b for a, b in zip(x, y, strict=True))))
primitive("$interval_sub", Memoized(lambda call: lambda x, y: _of(a - b for a, b in zip(x, y, strict=True))))
primitive("$interval_neg", Memoized(lambda call: lambda x: _of(-part for part in x)))
primitive("$interval_mul", Memoized(lambda call: _scaled))
primitive("$interval_div", Memoized(lambda call: _divided))
primitive(
    "$sub_months",
    Composition(lambda call: Call("$add_months", (call.args[0], _spans_minus(call.args[1])), DATE)),
)
primitive("$interval_time", Memoized(lambda call: lambda value: value.microseconds % WORDS_DAY))


def _of(parts: object) -> intervals.Interval:
    return intervals.made(*parts)  # type: ignore[misc]


def _scaled(value: intervals.Interval, factor: float | Decimal) -> intervals.Interval:
    return intervals.scaled(value, factor)


def _divided(value: intervals.Interval, divisor: float | Decimal) -> intervals.Interval:
    if not divisor:
        raise ZeroDivisionError
    return intervals.divided(value, divisor)


def _spans_minus(x: Scalar) -> Scalar:
    return Call("sub", (Literal(0, BIGINT), x), BIGINT)


def _moved(call: Call) -> Scalar:
    """A moment plus or minus an interval."""
    moment, interval = call.args
    if moment.type.kind in INTERVALS:
        moment, interval = interval, moment
    back = call.function == "sub"

    def part(name: str) -> Scalar:
        value = Call(name, (interval,), BIGINT)
        return _spans_minus(value) if back else value

    if moment.type.kind is Kind.TIME:
        moved = Call("$add", (moment, part("$microseconds")), BIGINT)
        turns = Call("$floor_div", (moved, Literal(WORDS_DAY, INTERVAL_DAY)), BIGINT)
        return Call("$sub", (moved, Call("$mul", (turns, Literal(WORDS_DAY, BIGINT)), BIGINT)), TIME)
    stamp = moment
    if moment.type.kind is Kind.DATE:
        stamp = Call("cast", (moment,), TIMESTAMP)
    date = Call("$floor_div", (stamp, Literal(WORDS_DAY, INTERVAL_DAY)), DATE)
    clock = Call("$sub", (stamp, Call("$mul", (date, Literal(WORDS_DAY, INTERVAL_DAY)), BIGINT)), BIGINT)
    shifted = Call(
        "$sub_months" if back else "$add_months", (date, Call("$months", (interval,), BIGINT)), DATE
    )
    days = Call("$mul", (Call("$add", (shifted, part("$days")), BIGINT), Literal(WORDS_DAY, BIGINT)), BIGINT)
    time = Call("$add", (clock, part("$microseconds")), BIGINT)
    return unless_infinite(moment, end_of(moment, call.type), Call("$add", (days, time), call.type))


primitive("$add", Opcode("add"))
primitive("$sub", Opcode("sub"))


def _moved_types(order: tuple[frozenset[Kind], frozenset[Kind]]) -> Rule:
    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 2 or types[0].kind not in order[0] or types[1].kind not in order[1]:
            return None
        moment = next(type_ for type_ in types if type_.kind not in INTERVALS)
        result = TIMESTAMP if moment.kind is Kind.DATE else moment
        args = tuple(INTERVAL if type_.kind in INTERVALS else type_ for type_ in types)
        return Signature(args, result)

    return rule


MOVABLE = MOMENTS | {Kind.TIME}
LATER = _moved_types((MOVABLE, INTERVALS))
LATER_SWAPPED = _moved_types((INTERVALS, MOVABLE))
MOVED = Composition(_moved)


def both(types: tuple[Type, ...]) -> Signature | None:
    """Two intervals, of which one may be unknown."""
    if len(types) != 2 or not any(type_.kind in INTERVALS for type_ in types):
        return None
    fits = all(type_.kind in INTERVALS or is_unknown(type_) for type_ in types)
    return Signature((INTERVAL, INTERVAL), INTERVAL) if fits else None


ADD = Composition(lambda call: Call("$interval_add", call.args, INTERVAL))
SUBTRACT = Composition(lambda call: Call("$interval_sub", call.args, INTERVAL))
NEGATE = Composition(lambda call: Call("$interval_neg", call.args, INTERVAL))


def one(types: tuple[Type, ...]) -> Signature | None:
    """One INTERVAL."""
    return Signature((INTERVAL,), INTERVAL) if len(types) == 1 and types[0].kind is Kind.INTERVAL else None


def times(types: tuple[Type, ...]) -> Signature | None:
    """An interval and a number, in any order."""
    if len(types) != 2:
        return None
    if types[1].kind in INTERVALS:
        found = times(types[::-1])
        return None if found is None else Signature(found.args[::-1], INTERVAL)
    if types[0].kind not in INTERVALS or not (types[1].is_numeric or is_unknown(types[1])):
        return None
    return Signature((INTERVAL, DOUBLE), INTERVAL)


def by(types: tuple[Type, ...]) -> Signature | None:
    """An interval and a number."""
    return times(types) if len(types) == 2 and types[0].kind in INTERVALS else None


def _multiplied(call: Call) -> Scalar:
    args = call.args if call.args[0].type.kind is Kind.INTERVAL else call.args[::-1]
    return Call("$interval_mul", args, INTERVAL)


MULTIPLY = Composition(_multiplied)
DIVIDE = Composition(lambda call: Call("$interval_div", call.args, INTERVAL))


def lengths(args: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    """What two intervals are compared by: texts in the order of their lengths, or microseconds at once."""
    words = [_microseconds(arg) for arg in args]
    known = tuple(word for word in words if word is not None)
    return known if len(known) == len(args) else tuple(Call("$span", (arg,), TEXT) for arg in args)


def _microseconds(x: Scalar) -> Scalar | None:
    """The length of a constant, or of the time between two moments, as a word."""
    if isinstance(x, Literal) and isinstance(x.value, str):
        length = intervals.span(intervals.decode(x.value))
        return Literal(length, INTERVAL_DAY) if MIN_WORD <= length <= MAX_WORD else None
    between = isinstance(x, Call) and x.function == "cast" and x.args[0].type.kind is Kind.INTERVAL_DAY
    return x.args[0] if isinstance(x, Call) and between else None


def compared(types: tuple[Type, ...]) -> Signature | None:
    """Two intervals, to be compared, unless their words can be."""
    found = both(types)
    same = len(types) == 2 and types[0] == types[1] and types[0].kind is not Kind.INTERVAL
    return None if found is None or same else Signature(found.args, BOOLEAN)


def between(types: tuple[Type, ...]) -> Signature | None:
    """Two moments, or two times of day, of which one is with a time zone or a TIME."""
    if len(types) != 2 or {type_.kind for type_ in types} - (MOMENTS | {Kind.TIME}):
        return None
    joint = common_pair(*types)
    if joint is None or joint.kind not in (Kind.TIMESTAMPTZ, Kind.TIME):
        return None
    return Signature((joint, joint), INTERVAL_DAY)
