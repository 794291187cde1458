"""Date, timestamp and interval expressions: fields, truncation, construction, arithmetic, comparison.

A date is a number of days, a timestamp a number of microseconds. The expressions use three operations
of the expression machine: splitting a date into year, month and day, adding months, and division.
Infinite moments are handled separately. Adding an interval adds its months first, then its days, then
its time. Intervals compare by length.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from kpg.runtime.functions.registry import (
    Composition,
    MemoizedFunction,
    Opcode,
    Overload,
    Rule,
    Signature,
    register_memoized,
    register_primitive,
    register_scalar,
)
from kpg.runtime.functions.type_rules import common_type_of_pair, exact_kinds_rule, is_unknown
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
from kpg.runtime.values.codec import encode_integer
from kpg.runtime.values.words import DAY as WORDS_DAY
from kpg.runtime.values.words import EARLIEST, LATEST, days_of


def is_infinite(x: Scalar) -> Scalar:
    """Return the test whether a moment is infinite."""
    late = Call("ge", (x, Literal(LATEST, x.type)), BOOLEAN)
    return Call("or", (late, Call("le", (x, Literal(EARLIEST, x.type)), BOOLEAN)), BOOLEAN)


def cast_infinity(x: Scalar, type_: Type) -> Scalar:
    """Return the infinite moment ``x`` in another type."""
    late = Call("gt", (x, Literal(0, x.type)), BOOLEAN)
    return If(late, Literal(LATEST, type_), Literal(EARLIEST, type_), type_)


def unless_infinite(x: Scalar, if_infinite: Scalar, other: Scalar) -> Scalar:
    """Return ``if_infinite`` where ``x`` is infinite, and ``other`` elsewhere."""
    if isinstance(x, Literal) and isinstance(x.value, int):
        return if_infinite if x.value in (EARLIEST, LATEST) else other
    return If(is_infinite(x), if_infinite, other, other.type)


SECOND = 1_000_000
STAMPS = (Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
SECONDS = decimal(8, 6)
LONG_SECONDS = decimal(18, 6)
DAY = 86_400 * SECOND

register_primitive("$floor_div", Opcode("floor_div"))
register_primitive("$minus", Opcode("sub"))
register_primitive("$div", Opcode("div"))
register_primitive("$civil", Opcode("civil", lambda call: _literal_integer(call.args[1]), operands=1))


def _literal_integer(scalar_: Scalar) -> int:
    assert isinstance(scalar_, Literal) and isinstance(scalar_.value, int)
    return scalar_.value


def _integer_literal(value: int) -> Literal:
    return Literal(value, INTEGER)


def _add(left: Scalar, right: Scalar) -> Scalar:
    return Call("add", (left, right), INTEGER)


def _subtract(left: Scalar, right: Scalar) -> Scalar:
    return Call("sub", (left, right), INTEGER)


def _floor_div(left: Scalar, divisor: int) -> Scalar:
    return Call("$floor_div", (left, _integer_literal(divisor)), INTEGER)


def _modulo(left: Scalar, divisor: int) -> Scalar:
    """Return the remainder, which is never negative."""
    return _subtract(left, Call("mul", (_floor_div(left, divisor), _integer_literal(divisor)), INTEGER))


def _civil(date: Scalar, field: int) -> Scalar:
    return Call("$civil", (date, _integer_literal(field)), INTEGER)


def _day_number(x: Scalar) -> Scalar:
    """Return the date of a date or timestamp, as a number of days."""
    if x.type.kind in STAMPS:
        return Call("$floor_div", (x, Literal(DAY, INTERVAL_DAY)), INTEGER)
    return Call("$date", (x,), INTEGER)


register_primitive("$date", Composition(lambda call: call.args[0]))
register_primitive("$add_months", Opcode("add_months"))


def _month_start(days: Scalar) -> Scalar:
    return _subtract(days, _subtract(_civil(days, 2), _integer_literal(1)))


def _subtract_months(days: Scalar, months: Scalar) -> Scalar:
    return Call("$add_months", (days, _subtract(_integer_literal(0), months)), DATE)


def _year_start(days: Scalar) -> Scalar:
    return Call(
        "$date",
        (_subtract_months(_month_start(days), _subtract(_civil(days, 1), _integer_literal(1))),),
        INTEGER,
    )


def _quarter_start(days: Scalar) -> Scalar:
    months = _modulo(_subtract(_civil(days, 1), _integer_literal(1)), 3)
    return Call("$date", (_subtract_months(_month_start(days), months),), INTEGER)


def _week_start(days: Scalar) -> Scalar:
    """Return the Monday of the week. Day 0 was a Thursday."""
    return _subtract(days, _modulo(_add(days, _integer_literal(3)), 7))


def _day_of_year(days: Scalar) -> Scalar:
    return _add(_subtract(days, _year_start(days)), _integer_literal(1))


def _iso_week(days: Scalar) -> Scalar:
    """Return the ISO week. A week belongs to the year of its Thursday."""
    thursday = _add(_week_start(days), _integer_literal(3))
    return _add(_floor_div(_subtract(_day_of_year(thursday), _integer_literal(1)), 7), _integer_literal(1))


def _time_of_day(x: Scalar, unit: int, cycle: int) -> Scalar:
    units = Call("$floor_div", (x, Literal(unit, INTERVAL_DAY)), INTERVAL_DAY)
    turns = Call("$floor_div", (units, Literal(cycle, INTERVAL_DAY)), INTERVAL_DAY)
    whole = Call("$mul", (turns, Literal(cycle, INTEGER)), INTERVAL_DAY)
    rest = Call("$minus", (units, whole), INTERVAL_DAY)
    return unless_infinite(x, Literal(None, INTERVAL_DAY), rest)


WHOLE_SECONDS: Final = decimal(18, 0)


def _seconds_since_epoch(x: Scalar) -> Scalar:
    """Return the seconds since 1970: of a timestamp with six decimal places, of a DATE without."""
    if x.type.kind in STAMPS:
        return unless_infinite(x, Literal(None, LONG_SECONDS), Call("$as_seconds", (x,), LONG_SECONDS))
    known = Call("$mul", (x, Literal(DAY // SECOND, WHOLE_SECONDS)), WHOLE_SECONDS)
    return unless_infinite(x, Literal(None, WHOLE_SECONDS), known)


register_primitive("$as_seconds", Composition(lambda call: call.args[0]))


def _date_rule(result: Type) -> Rule:
    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 1 or not (types[0].kind in (Kind.DATE, *STAMPS) or is_unknown(types[0])):
            return None
        return Signature((types[0] if types[0].kind in STAMPS else DATE,), result)

    return rule


def _timestamp_rule(result: Type) -> Rule:
    """Return a rule for a timestamp. A DATE has no time of day."""
    dated = _date_rule(result)
    return lambda types: dated(types) if len(types) == 1 and types[0].kind in STAMPS else None


def _interval_rule(result: Type, *kinds: Kind) -> Rule:
    """Return a rule for an interval, or a type of other kinds."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 1:
            return None
        if types[0].kind in (Kind.INTERVAL, Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH):
            return Signature((INTERVAL,), result)
        return Signature(types, result) if types[0].kind in kinds else None

    return rule


def _python_field(name: str) -> MemoizedFunction:
    """Return the implementation that reads a field in Python."""

    def build(call: Call) -> Callable[..., object]:
        from kpg.runtime.functions.date_time import fields  # lazy: few programs take dates apart

        return fields.field_reader(name, call.args[0].type)

    return MemoizedFunction(build)


_ACCEPTS = "a date, timestamp, time or interval that has such a field"
_DAY_FIELDS: dict[str, tuple[Callable[[Scalar], Scalar], str]] = {
    "year": (lambda days: _civil(days, 0), "1998"),
    "month": (lambda days: _civil(days, 1), "9"),
    "day": (lambda days: _civil(days, 2), "2"),
    "quarter": (
        lambda days: _add(
            _floor_div(_subtract(_civil(days, 1), _integer_literal(1)), 3), _integer_literal(1)
        ),
        "3",
    ),
    "dow": (lambda days: _modulo(_add(days, _integer_literal(4)), 7), "3"),
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


def _day_field(name: str, build: Callable[[Scalar], Scalar], x: Scalar) -> Scalar:
    """Return a field of a moment, with NULL for infinite moments.

    Other fields than ``dow`` and ``week`` are NULL for these already.
    """
    result = build(_day_number(x))
    return unless_infinite(x, Literal(None, INTEGER), result) if name in ("dow", "week") else result


def _define_day_field(name: str, build: Callable[[Scalar], Scalar], value: str) -> None:
    register_scalar(
        f"extract_{name}",
        _ACCEPTS,
        _DAY_DOCS[name],
        {f"EXTRACT({name} FROM DATE '1998-09-02')": value},
        Overload(_date_rule(INTEGER), Composition(lambda call: _day_field(name, build, call.args[0]))),
        *([] if name in ("dow", "doy", "week") else [Overload(_interval_rule(INTEGER), _python_field(name))]),
    )


def _define_time_field(name: str, unit: int, cycle: int, value: str, result: Type = INTEGER) -> None:
    register_scalar(
        f"extract_{name}",
        _ACCEPTS,
        f"The {name}.",
        {f"EXTRACT({name} FROM TIMESTAMP '1998-09-02 07:08:09')": value},
        Overload(_timestamp_rule(result), Composition(lambda call: _time_of_day(call.args[0], unit, cycle))),
        Overload(_interval_rule(result, Kind.TIME), _python_field(name)),
    )


for _name, (_build, _value) in _DAY_FIELDS.items():
    _define_day_field(_name, _build, _value)
_define_time_field("hour", 3600 * SECOND, 24, "7")
_define_time_field("minute", 60 * SECOND, 60, "8")
_define_time_field("second", 1, 60 * SECOND, "9", SECONDS)

register_primitive("$to_double", Opcode("to_double", lambda call: _literal_integer(call.args[1]), operands=1))
register_scalar(
    "extract_epoch",
    _ACCEPTS,
    "Seconds since 1970-01-01 00:00:00, or of a time or interval.",
    {"EXTRACT(epoch FROM TIMESTAMP '1970-01-02 00:00:01.5')": "86401.5"},
    Overload(_timestamp_rule(LONG_SECONDS), Composition(lambda call: _seconds_since_epoch(call.args[0]))),
    Overload(_date_rule(WHOLE_SECONDS), Composition(lambda call: _seconds_since_epoch(call.args[0]))),
    Overload(_interval_rule(LONG_SECONDS, Kind.TIME), _python_field("epoch")),
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
    """Compile truncation to a known, frequent unit to instructions. Other units are truncated in Python."""
    unit, x, *zone = call.args
    name = str(unit.value).lower() if isinstance(unit, Literal) else ""
    if zone or x.type.kind is Kind.INTERVAL or name not in {*_STARTS, *_LENGTHS}:
        return Call("$truncate", call.args, call.type)
    length = Literal(_LENGTHS.get(name, DAY), INTERVAL_DAY)
    units = (
        _STARTS[name](_day_number(x)) if name in _STARTS else Call("$floor_div", (x, length), INTERVAL_DAY)
    )
    return unless_infinite(x, x, Call("$mul", (units, length), call.type))


def _python_truncate(call: Call) -> Callable[..., object]:
    from kpg.runtime.functions.date_time import fields  # lazy: few programs take dates apart
    from kpg.runtime.values import date_time  # lazy: few programs have such values

    truncate_value = fields.truncate_interval if call.type.kind is Kind.INTERVAL else fields.truncate_moment

    def truncate(unit: str, value: Any, zone: str = "UTC") -> object:
        tz = None if zone == "UTC" else date_time.time_zone(zone)
        if tz is None:
            return truncate_value(fields.canonical_field(unit), value)
        return date_time.from_local(
            fields.truncate_moment(fields.canonical_field(unit), date_time.to_local(value, tz)), tz
        )

    return truncate


register_primitive("$mul", Opcode("mul"))
register_primitive("$truncate", MemoizedFunction(_python_truncate))


def _truncate_types(types: tuple[Type, ...]) -> Signature | None:
    """Accept a unit and a moment or interval. DATEs become TIMESTAMPTZ, as in Postgres."""
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


register_scalar(
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


@register_memoized(
    "make_date",
    "a year, a month and a day",
    exact_kinds_rule(DATE, INTEGER, INTEGER, INTEGER),
    {"make_date(1998, 9, 2)": "DATE '1998-09-02'"},
)
def make_date(year: int, month: int, day: int) -> int:
    """The date of a year, month and day; an error if there is none."""
    if not year:
        raise ValueError("there is no year 0")
    return days_of(year if year > 0 else year + 1, month, day)


INTERVALS = frozenset({Kind.INTERVAL, Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH})
MOMENTS = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})


def _interval_part(name: str) -> MemoizedFunction:
    return MemoizedFunction(lambda call: lambda value: getattr(value, name))


register_primitive("$months", _interval_part("months"))
register_primitive("$days", _interval_part("days"))
register_primitive("$microseconds", _interval_part("microseconds"))
register_primitive(
    "$span", MemoizedFunction(lambda call: lambda value: encode_integer(intervals.duration(value)))
)
register_primitive(
    "$of_months", MemoizedFunction(lambda call: lambda months: intervals.Interval(months, 0, 0))
)
register_primitive("$of_microseconds", MemoizedFunction(lambda call: intervals.from_microseconds))
register_primitive(
    "$interval_add",
    MemoizedFunction(lambda call: lambda x, y: _sum_parts(a + b for a, b in zip(x, y, strict=True))),
)
register_primitive(
    "$interval_sub",
    MemoizedFunction(lambda call: lambda x, y: _sum_parts(a - b for a, b in zip(x, y, strict=True))),
)
register_primitive("$interval_neg", MemoizedFunction(lambda call: lambda x: _sum_parts(-part for part in x)))
register_primitive("$interval_mul", MemoizedFunction(lambda call: _multiply_interval))
register_primitive("$interval_div", MemoizedFunction(lambda call: _divide_interval))
register_primitive(
    "$sub_months",
    Composition(lambda call: Call("$add_months", (call.args[0], _negate_integer(call.args[1])), DATE)),
)
register_primitive(
    "$interval_time", MemoizedFunction(lambda call: lambda value: value.microseconds % WORDS_DAY)
)


def _sum_parts(parts: object) -> intervals.Interval:
    return intervals.from_fractions(*parts)  # type: ignore[misc]


def _multiply_interval(value: intervals.Interval, factor: float | Decimal) -> intervals.Interval:
    return intervals.multiply(value, factor)


def _divide_interval(value: intervals.Interval, divisor: float | Decimal) -> intervals.Interval:
    if not divisor:
        raise ZeroDivisionError
    return intervals.divide(value, divisor)


def _negate_integer(x: Scalar) -> Scalar:
    return Call("sub", (Literal(0, BIGINT), x), BIGINT)


def _add_interval(call: Call) -> Scalar:
    """Return a moment plus or minus an interval."""
    moment, interval = call.args
    if moment.type.kind in INTERVALS:
        moment, interval = interval, moment
    is_subtraction = call.function == "sub"

    def part(name: str) -> Scalar:
        value = Call(name, (interval,), BIGINT)
        return _negate_integer(value) if is_subtraction else value

    if moment.type.kind is Kind.TIME:
        shifted_time = Call("$add", (moment, part("$microseconds")), BIGINT)
        turns = Call("$floor_div", (shifted_time, Literal(WORDS_DAY, INTERVAL_DAY)), BIGINT)
        return Call("$sub", (shifted_time, Call("$mul", (turns, Literal(WORDS_DAY, BIGINT)), BIGINT)), TIME)
    stamp = moment
    if moment.type.kind is Kind.DATE:
        stamp = Call("cast", (moment,), TIMESTAMP)
    date = Call("$floor_div", (stamp, Literal(WORDS_DAY, INTERVAL_DAY)), DATE)
    clock = Call("$sub", (stamp, Call("$mul", (date, Literal(WORDS_DAY, INTERVAL_DAY)), BIGINT)), BIGINT)
    shifted = Call(
        "$sub_months" if is_subtraction else "$add_months", (date, Call("$months", (interval,), BIGINT)), DATE
    )
    days = Call("$mul", (Call("$add", (shifted, part("$days")), BIGINT), Literal(WORDS_DAY, BIGINT)), BIGINT)
    time = Call("$add", (clock, part("$microseconds")), BIGINT)
    return unless_infinite(moment, cast_infinity(moment, call.type), Call("$add", (days, time), call.type))


register_primitive("$add", Opcode("add"))
register_primitive("$sub", Opcode("sub"))


def _moment_and_interval(order: tuple[frozenset[Kind], frozenset[Kind]]) -> Rule:
    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 2 or types[0].kind not in order[0] or types[1].kind not in order[1]:
            return None
        moment = next(type_ for type_ in types if type_.kind not in INTERVALS)
        result = TIMESTAMP if moment.kind is Kind.DATE else moment
        args = tuple(INTERVAL if type_.kind in INTERVALS else type_ for type_ in types)
        return Signature(args, result)

    return rule


MOMENTS_AND_TIME = MOMENTS | {Kind.TIME}
MOMENT_AND_INTERVAL = _moment_and_interval((MOMENTS_AND_TIME, INTERVALS))
INTERVAL_AND_MOMENT = _moment_and_interval((INTERVALS, MOMENTS_AND_TIME))
ADD_INTERVAL = Composition(_add_interval)


def interval_pair(types: tuple[Type, ...]) -> Signature | None:
    """Accept two intervals, one of which may be unknown."""
    if len(types) != 2 or not any(type_.kind in INTERVALS for type_ in types):
        return None
    fits = all(type_.kind in INTERVALS or is_unknown(type_) for type_ in types)
    return Signature((INTERVAL, INTERVAL), INTERVAL) if fits else None


ADD = Composition(lambda call: Call("$interval_add", call.args, INTERVAL))
SUBTRACT = Composition(lambda call: Call("$interval_sub", call.args, INTERVAL))
NEGATE = Composition(lambda call: Call("$interval_neg", call.args, INTERVAL))


def single_interval(types: tuple[Type, ...]) -> Signature | None:
    """Accept one INTERVAL."""
    return Signature((INTERVAL,), INTERVAL) if len(types) == 1 and types[0].kind is Kind.INTERVAL else None


def interval_and_number(types: tuple[Type, ...]) -> Signature | None:
    """Accept an interval and a number, in any order."""
    if len(types) != 2:
        return None
    if types[1].kind in INTERVALS:
        commuted = interval_and_number(types[::-1])
        return None if commuted is None else Signature(commuted.args[::-1], INTERVAL)
    if types[0].kind not in INTERVALS or not (types[1].is_numeric or is_unknown(types[1])):
        return None
    return Signature((INTERVAL, DOUBLE), INTERVAL)


def interval_by_number(types: tuple[Type, ...]) -> Signature | None:
    """Accept an interval and a number, in this order."""
    return interval_and_number(types) if len(types) == 2 and types[0].kind in INTERVALS else None


def _multiply(call: Call) -> Scalar:
    args = call.args if call.args[0].type.kind is Kind.INTERVAL else call.args[::-1]
    return Call("$interval_mul", args, INTERVAL)


MULTIPLY = Composition(_multiply)
DIVIDE = Composition(lambda call: Call("$interval_div", call.args, INTERVAL))


def interval_lengths(args: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    """Return what two intervals are compared by: words of microseconds if known, else ordered texts."""
    words = [_known_length(arg) for arg in args]
    known = tuple(word for word in words if word is not None)
    return known if len(known) == len(args) else tuple(Call("$span", (arg,), TEXT) for arg in args)


def _known_length(x: Scalar) -> Scalar | None:
    """Return the length of a constant, or of the time between two moments, as a word; None if unknown."""
    if isinstance(x, Literal) and isinstance(x.value, str):
        length = intervals.duration(intervals.decode(x.value))
        return Literal(length, INTERVAL_DAY) if MIN_WORD <= length <= MAX_WORD else None
    between = isinstance(x, Call) and x.function == "cast" and x.args[0].type.kind is Kind.INTERVAL_DAY
    return x.args[0] if isinstance(x, Call) and between else None


def interval_comparison(types: tuple[Type, ...]) -> Signature | None:
    """Accept two intervals that are compared by length. Intervals of one word type compare by their words."""
    pair = interval_pair(types)
    same = len(types) == 2 and types[0] == types[1] and types[0].kind is not Kind.INTERVAL
    return None if pair is None or same else Signature(pair.args, BOOLEAN)


def moment_pair(types: tuple[Type, ...]) -> Signature | None:
    """Accept two moments or times of day whose common type is TIMESTAMPTZ or TIME."""
    if len(types) != 2 or {type_.kind for type_ in types} - (MOMENTS | {Kind.TIME}):
        return None
    joint = common_type_of_pair(*types)
    if joint is None or joint.kind not in (Kind.TIMESTAMPTZ, Kind.TIME):
        return None
    return Signature((joint, joint), INTERVAL_DAY)
