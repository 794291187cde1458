"""Intervals in expressions: added to dates and times, to each other, multiplied, compared by their length.

To a date or time the months of an interval are added first, then its days, then its time.
"""

from decimal import Decimal

from kpg.runtime.functions.infinite import end_of, unless_infinite
from kpg.runtime.functions.registry import Composition, Memoized, Opcode, Rule, Signature, primitive
from kpg.runtime.functions.rules import common_pair, is_unknown
from kpg.runtime.scalar import Call, Literal, Scalar
from kpg.runtime.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTERVAL,
    INTERVAL_DAY,
    MAX_WORD,
    MIN_WORD,
    TEXT,
    TIME,
    TIMESTAMP,
    Kind,
    Type,
)
from kpg.runtime.values import intervals
from kpg.runtime.values.codec import ordered
from kpg.runtime.values.words import DAY

INTERVALS = frozenset({Kind.INTERVAL, Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH})
MOMENTS = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})


def _field(name: str) -> Memoized:
    return Memoized(lambda call: lambda value: getattr(value, name))


primitive("$months", _field("months"))
primitive("$days", _field("days"))
primitive("$microseconds", _field("microseconds"))
primitive("$span", Memoized(lambda call: lambda value: ordered(intervals.span(value))))
primitive("$of_months", Memoized(lambda call: lambda months: intervals.Interval(months, 0, 0)))
primitive("$of_microseconds", Memoized(lambda call: intervals.of_microseconds))
primitive("$interval_add", Memoized(lambda call: lambda x, y: _of(a + b for a, b in zip(x, y, strict=True))))
primitive("$interval_sub", Memoized(lambda call: lambda x, y: _of(a - b for a, b in zip(x, y, strict=True))))
primitive("$interval_neg", Memoized(lambda call: lambda x: _of(-part for part in x)))
primitive("$interval_mul", Memoized(lambda call: _scaled))
primitive("$interval_div", Memoized(lambda call: _divided))
primitive(
    "$sub_months", Composition(lambda call: Call("$add_months", (call.args[0], _minus(call.args[1])), DATE))
)
primitive("$interval_time", Memoized(lambda call: lambda value: value.microseconds % DAY))


def _of(parts: object) -> intervals.Interval:
    return intervals.made(*parts)  # type: ignore[misc]


def _scaled(value: intervals.Interval, factor: float | Decimal) -> intervals.Interval:
    return intervals.scaled(value, factor)


def _divided(value: intervals.Interval, divisor: float | Decimal) -> intervals.Interval:
    if not divisor:
        raise ZeroDivisionError
    return intervals.divided(value, divisor)


def _minus(x: Scalar) -> Scalar:
    return Call("sub", (Literal(0, BIGINT), x), BIGINT)


def _moved(call: Call) -> Scalar:
    """A moment plus or minus an interval."""
    moment, interval = call.args
    if moment.type.kind in INTERVALS:
        moment, interval = interval, moment
    back = call.function == "sub"

    def part(name: str) -> Scalar:
        value = Call(name, (interval,), BIGINT)
        return _minus(value) if back else value

    if moment.type.kind is Kind.TIME:
        moved = Call("$add", (moment, part("$microseconds")), BIGINT)
        turns = Call("$floor_div", (moved, Literal(DAY, INTERVAL_DAY)), BIGINT)
        return Call("$sub", (moved, Call("$mul", (turns, Literal(DAY, BIGINT)), BIGINT)), TIME)
    stamp = moment
    if moment.type.kind is Kind.DATE:
        stamp = Call("cast", (moment,), TIMESTAMP)
    date = Call("$floor_div", (stamp, Literal(DAY, INTERVAL_DAY)), DATE)
    clock = Call("$sub", (stamp, Call("$mul", (date, Literal(DAY, INTERVAL_DAY)), BIGINT)), BIGINT)
    shifted = Call(
        "$sub_months" if back else "$add_months", (date, Call("$months", (interval,), BIGINT)), DATE
    )
    days = Call("$mul", (Call("$add", (shifted, part("$days")), BIGINT), Literal(DAY, BIGINT)), BIGINT)
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
