"""Numbers: ``+ - * / %``, rounding, powers. Dates and intervals join ``+`` and ``-`` here as well."""

from kpg.runtime.functions import vectors
from kpg.runtime.functions.dates import DAY
from kpg.runtime.functions.registry import Composition, Distinct, Opcode, Overload, Rule, Signature, Vector, scalar
from kpg.runtime.functions.rules import (
    doubles,
    exact_product,
    exact_sum,
    exactly,
    fixed,
    is_exact,
    is_unknown,
    kinds,
    numbers,
    same,
)
from kpg.runtime.scalar import Call, If, Literal, Scalar
from kpg.runtime.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL_DAY,
    INTERVAL_MONTH,
    TIMESTAMP,
    Kind,
    Type,
    decimal,
)


def _call(name: str, type_: Type, *args: Scalar) -> Call:
    return Call(name, args, type_)


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
    },
    Overload(exact_sum, _PLUS),
    Overload(doubles, Opcode("add_double")),
    Overload(exactly(DATE, DATE, INTEGER), _PLUS),
    Overload(exactly(DATE, INTEGER, DATE), _PLUS),
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
)

scalar(
    "sub",
    "two numbers, two dates or timestamps, a date or timestamp and an interval or number of days, or two intervals",
    "Difference.",
    {
        "1 - 2": "-1",
        "1 - 0.05": "0.95",
        "DATE '1998-12-01' - DATE '1998-11-01'": "30",
        "DATE '1996-03-31' - INTERVAL '1' MONTH": "DATE '1996-02-29'",
        "DATE '1998-12-01' - 90": "DATE '1998-09-02'",
    },
    Overload(exact_sum, _MINUS),
    Overload(doubles, Opcode("sub_double")),
    Overload(exactly(DATE, DATE, INTEGER), _MINUS),
    Overload(exactly(INTEGER, DATE, DATE), _MINUS),
    Overload(exactly(DATE, DATE, INTERVAL_MONTH), Composition(_negated_second)),
    Overload(exactly(TIMESTAMP, DATE, INTERVAL_DAY), Composition(_add_days)),
    Overload(exactly(TIMESTAMP, TIMESTAMP, INTERVAL_DAY), _MINUS),
    Overload(exactly(TIMESTAMP, TIMESTAMP, INTERVAL_MONTH), Composition(_negated_second)),
    Overload(exactly(INTERVAL_DAY, TIMESTAMP, TIMESTAMP), _MINUS),
    Overload(exactly(INTERVAL_DAY, TIMESTAMP, DATE), Composition(lambda call: _timestamps(call))),
    Overload(exactly(INTERVAL_DAY, DATE, TIMESTAMP), Composition(lambda call: _timestamps(call))),
    Overload(exactly(INTERVAL_DAY, INTERVAL_DAY, INTERVAL_DAY), _MINUS),
    Overload(exactly(INTERVAL_MONTH, INTERVAL_MONTH, INTERVAL_MONTH), _MINUS),
)


def _timestamps(call: Call) -> Scalar:
    left, right = (_midnight(arg) if arg.type.kind is Kind.DATE else arg for arg in call.args)
    return _call("sub", INTERVAL_DAY, left, right)


_TIMES = Opcode("mul")

scalar(
    "mul",
    "two numbers, or an interval and an integer",
    "Product; decimal places add up.",
    {"6 * 7": "42", "1.5 * 0.25": "0.375", "2e0 * 0.5": "1e0", "INTERVAL '2' DAY * 3": "INTERVAL '6' DAY"},
    Overload(exact_product, _TIMES),
    Overload(doubles, Opcode("mul_double")),
    Overload(exactly(INTERVAL_DAY, INTERVAL_DAY, BIGINT), _TIMES),
    Overload(exactly(INTERVAL_DAY, BIGINT, INTERVAL_DAY), _TIMES),
    Overload(exactly(INTERVAL_MONTH, INTERVAL_MONTH, BIGINT), _TIMES),
    Overload(exactly(INTERVAL_MONTH, BIGINT, INTERVAL_MONTH), _TIMES),
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
    "Quotient: integers truncate, other numbers give DOUBLE; an error if the divisor is 0.",
    {"7e0 / 2": "3.5e0", "1.0 / 4": "0.25e0", "NULL / 0.5": "NULL"},
    Overload(_integers, Opcode("div")),
    Overload(doubles, Opcode("div_double")),
)

scalar(
    "mod",
    "two numbers",
    "Remainder, with the sign of the dividend; an error if the divisor is 0.",
    {"7 % 3": "1", "-7 % 3": "-1", "5.5 % 2": "1.5"},
    Overload(_same_scale, Opcode("mod")),
    Overload(doubles, Vector(lambda call: vectors.remainder)),
)


def _zero(type_: Type) -> Literal:
    return Literal(0, type_)


def _negative(call: Call) -> Scalar:
    return _call("sub", call.type, _zero(call.type), call.args[0])


def _absolute(call: Call) -> Scalar:
    (x,) = call.args
    return If(_call("lt", BOOLEAN, x, _zero(x.type)), _call("neg", x.type, x), x, x.type)


def _sign(call: Call) -> Scalar:
    (x,) = call.args
    above = _call("cast", INTEGER, _call("gt", BOOLEAN, x, _zero(x.type)))
    below = _call("cast", INTEGER, _call("lt", BOOLEAN, x, _zero(x.type)))
    return _call("sub", INTEGER, above, below)


_number = same(lambda type_: type_.is_numeric)
_interval = same(kinds(Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH))
_double = fixed(DOUBLE, DOUBLE)


def _signed(types: tuple[Type, ...]) -> Signature | None:
    return Signature(types, INTEGER) if len(types) == 1 and types[0].is_numeric else None


scalar(
    "neg",
    "a number or an interval",
    "The value with the other sign.",
    {"-(3)": "-3", "-(1.5)": "-1.5", "-(CAST(NULL AS INTEGER))": "NULL"},
    Overload(_number, Composition(_negative)),
    Overload(_interval, Composition(_negative)),
)
scalar(
    "abs",
    "a number",
    "Absolute value.",
    {"abs(-3)": "3", "abs(2.5)": "2.5", "abs(NULL::int)": "NULL"},
    Overload(_number, Composition(_absolute)),
)
scalar(
    "sign",
    "a number",
    "-1, 0 or 1.",
    {"sign(-2.5)": "-1", "sign(0)": "0", "sign(7)": "1"},
    Overload(_signed, Composition(_sign)),
)


def _whole(types: tuple[Type, ...]) -> Signature | None:
    """One exact number, to an integer or a DECIMAL without places."""
    if len(types) != 1 or not types[0].is_exact:
        return None
    (type_,) = types
    return Signature(types, type_ if type_.is_integer else decimal(type_.precision, 0))


def _round_decimal(call: Call) -> Scalar:
    return _call("cast", call.type, call.args[0])


def _down(call: Call) -> Scalar:
    """Decimal floor: the value less its remainder, less one if that was negative."""
    (x,) = call.args
    if x.type.is_integer:
        return x
    one = Literal(10**x.type.scale, x.type)
    rest = _call("mod", x.type, x, one)
    below = If(_call("lt", BOOLEAN, rest, _zero(x.type)), one, _zero(x.type), x.type)
    wide = decimal(18, x.type.scale)
    return _call("cast", call.type, _call("sub", wide, _call("sub", wide, x, rest), below))


def _up(call: Call) -> Scalar:
    return _call("neg", call.type, _call("floor", call.type, _call("neg", call.args[0].type, call.args[0])))


def _toward_zero(call: Call) -> Scalar:
    (x,) = call.args
    if x.type.is_integer:
        return x
    rest = _call("mod", x.type, x, Literal(10**x.type.scale, x.type))
    return _call("cast", call.type, _call("sub", x.type, x, rest))


def _digits(keep: Rule = same(is_exact)) -> Rule:
    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 2 or not (types[1].is_integer or is_unknown(types[1])):
            return None
        signature = keep(types[:1])
        return None if signature is None else Signature((*signature.args, INTEGER), signature.result)

    return rule


def _round_digits(call: Call) -> "type[int] | object":
    raise NotImplementedError


scalar(
    "floor",
    "a number",
    "The largest whole number that is not above.",
    {"floor(-1.5)": "-2", "floor(2.7e0)": "2e0", "floor(3)": "3"},
    Overload(_whole, Composition(_down)),
    Overload(_double, Vector(lambda call: vectors.floor)),
)
scalar(
    "ceil",
    "a number",
    "The smallest whole number that is not below.",
    {"ceil(-1.5)": "-1", "ceil(2.1e0)": "3e0"},
    Overload(_whole, Composition(_up)),
    Overload(_double, Vector(lambda call: vectors.ceil)),
)
scalar(
    "trunc",
    "a number",
    "The whole number towards zero.",
    {"trunc(-1.5)": "-1", "trunc(2.7e0)": "2e0"},
    Overload(_whole, Composition(_toward_zero)),
    Overload(_double, Vector(lambda call: vectors.trunc)),
)
