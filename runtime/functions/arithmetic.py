"""Numbers: ``+ - * / %``, rounding, powers. Dates and intervals join ``+`` and ``-`` here as well."""

from kpg.runtime.functions import numerics as numeric_code
from kpg.runtime.functions import spans, vectors
from kpg.runtime.functions.infinite import end_of, unless_infinite
from kpg.runtime.functions.registry import Composition, Opcode, Overload, Signature, Vector, scalar
from kpg.runtime.functions.rules import (
    doubles,
    exact_product,
    exact_sum,
    exactly,
    is_unknown,
    numbers,
    numerics,
    reals,
)
from kpg.runtime.scalar import Call, Literal, Scalar
from kpg.runtime.types import (
    BIGINT,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL_DAY,
    INTERVAL_MONTH,
    MAX_WORD,
    REAL,
    TIME,
    TIMESTAMP,
    Kind,
    Type,
    decimal,
)


def _call(name: str, type_: Type, *args: Scalar) -> Call:
    return Call(name, args, type_)


def _in_single_precision(call: Call) -> Scalar:
    """Of doubles, rounded: these have more than twice as many digits, so that nothing is rounded twice."""
    operands = (_call("cast", DOUBLE, arg) for arg in call.args)
    return _call("$to_real", REAL, _call(call.function, DOUBLE, *operands))


def _midnight(date: Scalar) -> Call:
    return _call("cast", TIMESTAMP, date)


def _add_days(call: Call) -> Scalar:
    left, right = call.args
    if left.type.kind is Kind.DATE:
        return _call(call.function, TIMESTAMP, _midnight(left), right)
    return _call("add", TIMESTAMP, right, left)


def _swapped(call: Call) -> Scalar:
    return _call(call.function, call.type, call.args[1], call.args[0])


def _negated_second(call: Call) -> Scalar:
    return _call("add", call.type, call.args[0], _call("neg", call.args[1].type, call.args[1]))


def _months_to_timestamp(call: Call) -> Scalar:
    """The date part moves, the time of day stays."""
    timestamp, months = call.args
    date = _call("cast", DATE, timestamp)
    moved = _midnight(_call("add", DATE, date, months))
    time_of_day = _call("sub", INTERVAL_DAY, timestamp, _midnight(date))
    return _call("add", TIMESTAMP, moved, time_of_day)


def _at_time(call: Call) -> Scalar:
    date, time = call.args
    return unless_infinite(date, end_of(date, TIMESTAMP), _call("$add", TIMESTAMP, _midnight(date), time))


def _timestamps(call: Call) -> Scalar:
    left, right = (_midnight(arg) if arg.type.kind is Kind.DATE else arg for arg in call.args)
    return _call("sub", INTERVAL_DAY, left, right)


def _of_the_same(types: tuple[Type, ...]) -> Signature | None:
    """A moment and a quoted constant, which is one of the same type."""
    known = [type_ for type_ in types if not is_unknown(type_)]
    if len(types) != 2 or len(known) != 1 or known[0].kind not in spans.MOVABLE:
        return None
    return Signature((known[0], known[0]), INTEGER if known[0].kind is Kind.DATE else INTERVAL_DAY)


def _difference(call: Call) -> Scalar:
    """The time between two moments, which must be finite."""
    difference: Scalar = _call("$sub", call.type, *call.args)
    if call.args[0].type.kind not in spans.MOMENTS or call.type == INTEGER:
        return difference
    too_long = Literal(MAX_WORD, INTERVAL_DAY)
    for moment in call.args:
        difference = unless_infinite(moment, _call("$add", call.type, too_long, too_long), difference)
    return difference


def _days_later(call: Call) -> Scalar:
    date, days = call.args
    return unless_infinite(date, date, _call(f"${call.function}", DATE, date, days))


_PLUS = Opcode("add")
_MINUS = Opcode("sub")

scalar(
    "add",
    "two numbers, a date or timestamp and an interval or number of days, or two intervals",
    "Sum.",
    {
        "1 + 2": "3",
        "1.5 + 2": "3.5",
        "NULL + 1": "NULL",
        "DATE '1998-12-01' + 31": "DATE '1999-01-01'",
        "DATE '1995-01-31' + INTERVAL '1' MONTH": "DATE '1995-02-28'",
        "1e0 + 0.5": "1.5e0",
        "0.1::REAL + 0.2::REAL": "0.3::REAL",
    },
    Overload(exact_sum, _PLUS),
    Overload(numerics, numeric_code.ADD),
    Overload(reals, Composition(_in_single_precision)),
    Overload(doubles, Opcode("add_double")),
    Overload(exactly(DATE, DATE, INTEGER), Composition(_days_later)),
    Overload(exactly(DATE, INTEGER, DATE), Composition(_swapped)),
    Overload(exactly(DATE, DATE, INTERVAL_MONTH), Opcode("add_months")),
    Overload(exactly(DATE, INTERVAL_MONTH, DATE), Composition(_swapped)),
    Overload(exactly(TIMESTAMP, DATE, INTERVAL_DAY), Composition(_add_days)),
    Overload(exactly(TIMESTAMP, INTERVAL_DAY, DATE), Composition(_add_days)),
    Overload(exactly(TIMESTAMP, TIMESTAMP, INTERVAL_DAY), _PLUS),
    Overload(exactly(TIMESTAMP, INTERVAL_DAY, TIMESTAMP), _PLUS),
    Overload(exactly(TIMESTAMP, TIMESTAMP, INTERVAL_MONTH), Composition(_months_to_timestamp)),
    Overload(exactly(TIMESTAMP, INTERVAL_MONTH, TIMESTAMP), Composition(_swapped)),
    Overload(exactly(INTERVAL_DAY, INTERVAL_DAY, INTERVAL_DAY), _PLUS),
    Overload(exactly(INTERVAL_MONTH, INTERVAL_MONTH, INTERVAL_MONTH), _PLUS),
    Overload(spans.both, spans.ADD),
    Overload(spans.LATER, spans.MOVED),
    Overload(spans.LATER_SWAPPED, spans.MOVED),
    Overload(exactly(TIMESTAMP, DATE, TIME), Composition(_at_time)),
    Overload(exactly(TIMESTAMP, TIME, DATE), Composition(_swapped)),
)

scalar(
    "sub",
    "two numbers, dates, timestamps or intervals, or a date or timestamp and an interval or number of days",
    "Difference.",
    {
        "1 - 2": "-1",
        "1 - 0.05": "0.95",
        "DATE '1998-12-01' - DATE '1998-11-01'": "30",
        "DATE '1996-03-31' - INTERVAL '1' MONTH": "DATE '1996-02-29'",
        "DATE '1998-12-01' - 90": "DATE '1998-09-02'",
    },
    Overload(exact_sum, _MINUS),
    Overload(numerics, numeric_code.SUBTRACT),
    Overload(reals, Composition(_in_single_precision)),
    Overload(doubles, Opcode("sub_double")),
    Overload(exactly(DATE, DATE, INTEGER), Composition(_days_later)),
    Overload(exactly(INTEGER, DATE, DATE), _MINUS),
    Overload(exactly(DATE, DATE, INTERVAL_MONTH), Composition(_negated_second)),
    Overload(exactly(TIMESTAMP, DATE, INTERVAL_DAY), Composition(_add_days)),
    Overload(exactly(TIMESTAMP, TIMESTAMP, INTERVAL_DAY), _MINUS),
    Overload(exactly(TIMESTAMP, TIMESTAMP, INTERVAL_MONTH), Composition(_negated_second)),
    Overload(exactly(INTERVAL_DAY, TIMESTAMP, TIMESTAMP), Composition(_difference)),
    Overload(exactly(INTERVAL_DAY, TIMESTAMP, DATE), Composition(_timestamps)),
    Overload(exactly(INTERVAL_DAY, DATE, TIMESTAMP), Composition(_timestamps)),
    Overload(exactly(INTERVAL_DAY, INTERVAL_DAY, INTERVAL_DAY), _MINUS),
    Overload(exactly(INTERVAL_MONTH, INTERVAL_MONTH, INTERVAL_MONTH), _MINUS),
    Overload(spans.both, spans.SUBTRACT),
    Overload(spans.LATER, spans.MOVED),
    Overload(spans.between, Composition(_difference)),
    Overload(_of_the_same, Composition(_difference)),
)


_TIMES = Opcode("mul")

scalar(
    "mul",
    "two numbers, or an interval and an integer",
    "Product; decimal places add up.",
    {"6 * 7": "42", "1.5 * 0.25": "0.375", "2e0 * 0.5": "1e0", "INTERVAL '2' DAY * 3": "INTERVAL '6' DAY"},
    Overload(exact_product, _TIMES),
    Overload(numerics, numeric_code.MULTIPLY),
    Overload(reals, Composition(_in_single_precision)),
    Overload(doubles, Opcode("mul_double")),
    Overload(exactly(INTERVAL_DAY, INTERVAL_DAY, BIGINT), _TIMES),
    Overload(exactly(INTERVAL_DAY, BIGINT, INTERVAL_DAY), _TIMES),
    Overload(exactly(INTERVAL_MONTH, INTERVAL_MONTH, BIGINT), _TIMES),
    Overload(exactly(INTERVAL_MONTH, BIGINT, INTERVAL_MONTH), _TIMES),
    Overload(spans.times, spans.MULTIPLY),
)


def _integers(types: tuple[Type, ...]) -> Signature | None:
    pair = numbers(types)
    if pair is None or not (pair[0].is_integer and pair[1].is_integer):
        return None
    return exact_sum(types)


def _same_scale(types: tuple[Type, ...]) -> Signature | None:
    """The remainder has no more digits than its operands."""
    sum_ = exact_sum(types)
    if sum_ is None or sum_.result.kind is not Kind.DECIMAL:
        return sum_
    type_ = decimal(max(sum_.result.precision - 1, 1), sum_.result.scale)
    return Signature((type_, type_), type_)


scalar(
    "div",
    "two numbers",
    "Quotient: integers truncate, other exact numbers give NUMERIC; an error if the divisor is 0.",
    {"7e0 / 2": "3.5", "1.0 / 4": "0.25", "NULL / 0.5": "NULL"},
    Overload(_integers, Opcode("div")),
    Overload(numerics, numeric_code.DIVIDE),
    Overload(reals, Composition(_in_single_precision)),
    Overload(doubles, Opcode("div_double")),
    Overload(spans.by, spans.DIVIDE),
)

scalar(
    "mod",
    "two numbers",
    "Remainder, with the sign of the dividend; an error if the divisor is 0.",
    {"7 % 3": "1", "-7 % 3": "-1", "5.5 % 2": "1.5"},
    Overload(_same_scale, Opcode("mod")),
    Overload(numerics, numeric_code.REMAINDER),
    Overload(doubles, Vector(lambda call: vectors.remainder)),
)
