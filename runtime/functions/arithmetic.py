"""Arithmetic functions: operators, rounding, roots, powers and logarithms, also of dates and intervals.

Operations without an instruction in the expression machine are numpy functions on columns of words.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from kpg.runtime.functions import numerics as functions_numerics
from kpg.runtime.functions import numerics as numeric_code
from kpg.runtime.functions import registry
from kpg.runtime.functions.date_time import dates
from kpg.runtime.functions.date_time.dates import end_of, unless_infinite
from kpg.runtime.functions.registry import (
    Composition,
    Memoized,
    Opcode,
    Overload,
    Signature,
    Vector,
    primitive,
    scalar,
)
from kpg.runtime.functions.type_rules import (
    doubles,
    exact_product,
    exact_sum,
    exactly,
    fixed,
    is_exact_or_numeric,
    is_unknown,
    kinds,
    numbers,
    numeric,
    numerics,
    reals,
    same,
)
from kpg.runtime.scalar import Call, If, Literal, Scalar
from kpg.runtime.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    ERROR,
    INTEGER,
    INTERVAL_DAY,
    INTERVAL_MONTH,
    MAX_WORD,
    MIN_WORD,
    NULL,
    NUMERIC,
    REAL,
    TIME,
    TIMESTAMP,
    Kind,
    Type,
    decimal,
)

Words = np.ndarray[Any, np.dtype[np.int64]]
Doubles = np.ndarray[Any, np.dtype[np.float64]]

SIGN_FLIP = 0x7FFFFFFFFFFFFFFF
"""XOR of a negative double's bits with it has words order as the values do."""
NAN_WORD = 0x7FF8000000000000
"""The one word of every NaN, above that of infinity."""


def to_doubles(words: Words) -> Doubles:
    """The doubles of words."""
    return np.where(words >= 0, words, words ^ SIGN_FLIP).view(np.float64)


def from_doubles(values: Doubles) -> Words:
    """The words of doubles; inverse of :func:`to_doubles`."""
    bits = (values + 0.0).view(np.int64)
    words = np.where(bits >= 0, bits, bits ^ SIGN_FLIP)
    return np.where(np.isnan(values), NAN_WORD, words)


def combine(result: Words, *operands: Words) -> Words:
    """``result``, but NULL or ERROR where an operand is; ERROR wins."""
    lowest = np.minimum.reduce(operands)
    if len(result) and lowest.min() < MIN_WORD:
        result = np.where(lowest < MIN_WORD, NULL, result)
        for operand in operands:
            result[operand == ERROR] = ERROR
    return result


def on_doubles(function: Callable[..., Doubles]) -> Callable[..., Words]:
    """A function of doubles as one of words; NaN from numbers and infinity from finite ones are ERROR."""

    def apply(*words: Words) -> Words:
        operands = [to_doubles(word) for word in words]
        with np.errstate(all="ignore"):
            values = np.asarray(function(*operands), dtype=np.float64)
            finite = np.logical_and.reduce([np.isfinite(operand) for operand in operands])
            numbers = ~np.logical_or.reduce([np.isnan(operand) for operand in operands])
        result = from_doubles(values)
        result[(finite & np.isinf(values)) | (numbers & np.isnan(values))] = ERROR
        return combine(result, *words)

    return apply


def unbounded(function: Callable[[Doubles], Doubles]) -> Callable[[Words], Words]:
    """A function of doubles as one of words, which is infinite where it is too large for a double."""

    def apply(words: Words) -> Words:
        with np.errstate(all="ignore"):
            return combine(from_doubles(function(to_doubles(words))), words)

    return apply


def _power(base: Doubles, exponent: Doubles) -> Doubles:
    values = np.power(base, exponent)
    complex_ = np.isneginf(base) & np.isfinite(exponent) & (exponent != np.trunc(exponent))
    values = np.where(complex_ | ((base == 0) & np.isneginf(exponent)), np.nan, values)
    vanished = (values == 0) & (base != 0) & np.isfinite(base) & np.isfinite(exponent)
    return np.where(vanished, np.inf, values)


floor = on_doubles(np.floor)
ceil = on_doubles(np.ceil)
trunc = on_doubles(np.trunc)
sqrt = on_doubles(np.sqrt)
cbrt = on_doubles(np.cbrt)
exp = on_doubles(np.exp)
ln = on_doubles(np.log)
log10 = on_doubles(np.log10)
power = on_doubles(_power)
remainder = on_doubles(np.fmod)
log_base = on_doubles(lambda base, value: np.log(value) / np.log(base))
round_half_even = on_doubles(np.rint)


def _round_places(value: Doubles, places: Doubles) -> Doubles:
    factor = 10.0**places
    scaled = np.abs(value) * factor
    rounded = np.copysign(np.floor(scaled + 0.5) / factor, value)
    return np.where(scaled < 2.0**52, rounded, value)


def round_places(words: Words, places: Words) -> Words:
    """A double rounded to some decimal places, half away from zero."""
    exact = from_doubles(np.clip(places, -300, 300).astype(np.float64))
    return combine(on_doubles(_round_places)(words, exact), words, places)


def to_real(words: Words) -> Words:
    """Doubles rounded to the nearest single-precision number; ERROR for those that would become 0."""
    result = on_doubles(lambda values: values.astype(np.float32).astype(np.float64))(words)
    result[(result == 0) & (words != 0)] = ERROR
    return result


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
    if len(types) != 2 or len(known) != 1 or known[0].kind not in dates.MOVABLE:
        return None
    return Signature((known[0], known[0]), INTEGER if known[0].kind is Kind.DATE else INTERVAL_DAY)


def _difference(call: Call) -> Scalar:
    """The time between two moments, which must be finite."""
    difference: Scalar = _call("$sub", call.type, *call.args)
    if call.args[0].type.kind not in dates.MOMENTS or call.type == INTEGER:
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
for _name in ("add", "sub", "mul"):
    primitive(f"${_name}_all", Opcode(_name, in_order=True))
    primitive(f"${_name}_doubles", Opcode(f"{_name}_double", in_order=True))

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
    Overload(dates.both, dates.ADD),
    Overload(dates.LATER, dates.MOVED),
    Overload(dates.LATER_SWAPPED, dates.MOVED),
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
    Overload(dates.both, dates.SUBTRACT),
    Overload(dates.LATER, dates.MOVED),
    Overload(dates.between, Composition(_difference)),
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
    Overload(dates.times, dates.MULTIPLY),
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
    Overload(dates.by, dates.DIVIDE),
)

scalar(
    "mod",
    "two numbers",
    "Remainder, with the sign of the dividend; an error if the divisor is 0.",
    {"7 % 3": "1", "-7 % 3": "-1", "5.5 % 2": "1.5"},
    Overload(_same_scale, Opcode("mod")),
    Overload(numerics, numeric_code.REMAINDER),
    Overload(doubles, Vector(lambda call: remainder)),
)


def _rounding_call(name: str, type_: Type, *args: Scalar) -> Call:
    return Call(name, args, type_)


def _zero(type_: Type) -> Literal:
    return Literal(0, type_)


def _negative(call: Call) -> Scalar:
    (x,) = call.args
    name = "$sub_double" if x.type.is_float else "sub"
    return _rounding_call(name, call.type, _zero(call.type), x)


def _absolute(call: Call) -> Scalar:
    (x,) = call.args
    return If(_rounding_call("lt", BOOLEAN, x, _zero(x.type)), _rounding_call("neg", x.type, x), x, x.type)


def _sign(call: Call) -> Scalar:
    (x,) = call.args
    above = _rounding_call("gt", BOOLEAN, x, _zero(x.type))
    below = _rounding_call("lt", BOOLEAN, x, _zero(x.type))
    found = _rounding_call(
        "sub", INTEGER, _rounding_call("cast", INTEGER, above), _rounding_call("cast", INTEGER, below)
    )
    if x.type.is_float:  # NaN is above all numbers, and its sign is 0
        nothing = _rounding_call("eq", BOOLEAN, x, Literal(NAN_WORD, x.type))
        found = _rounding_call("sub", INTEGER, found, _rounding_call("cast", INTEGER, nothing))
    return _rounding_call("cast", call.type, found)


def _signed(types: tuple[Type, ...]) -> Signature | None:
    """Of a DECIMAL a DECIMAL without places, of integers too a DOUBLE, as Postgres has it."""
    if len(types) != 1 or not (types[0].is_exact or types[0].is_float):
        return None
    return Signature(types, decimal(1, 0) if types[0].kind is Kind.DECIMAL else DOUBLE)


_number = same(lambda type_: type_.is_exact or type_.is_float)
_interval = same(kinds(Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH))
_double = fixed(DOUBLE, DOUBLE)


def _decimals(types: tuple[Type, ...]) -> Signature | None:
    """Exact numbers, one of which is no integer: as NUMERIC. Integers alone are DOUBLE, as in Postgres."""
    if not 1 <= len(types) <= 2 or not all(
        is_unknown(type_) or is_exact_or_numeric(type_) for type_ in types
    ):
        return None
    if all(is_unknown(type_) or type_.is_integer for type_ in types):
        return None
    return Signature((NUMERIC,) * len(types), NUMERIC)


def _one_decimal(types: tuple[Type, ...]) -> Signature | None:
    return _decimals(types) if len(types) == 1 else None


def _two_decimals(types: tuple[Type, ...]) -> Signature | None:
    return _decimals(types) if len(types) == 2 else None


def _two_integers(types: tuple[Type, ...]) -> Signature | None:
    """For log, which Postgres has of two NUMERICs only."""
    fits = len(types) == 2 and all(type_.is_integer or is_unknown(type_) for type_ in types)
    return Signature((NUMERIC, NUMERIC), NUMERIC) if fits else None


def _powers(name: str) -> Memoized:
    """A function of ``numerics``."""

    def build(call: Call) -> Callable[..., object]:
        found: Callable[..., object] = getattr(functions_numerics, name)
        return found

    return Memoized(build)


scalar(
    "neg",
    "a number or an interval",
    "The value with the other sign.",
    {"-(3)": "-3", "-(1.5)": "-1.5", "-(CAST(NULL AS INTEGER))": "NULL"},
    Overload(_number, Composition(_negative)),
    Overload(numeric, functions_numerics.NEGATE),
    Overload(_interval, Composition(_negative)),
    Overload(dates.one, dates.NEGATE),
)
scalar(
    "abs",
    "a number",
    "Absolute value.",
    {"abs(-3)": "3", "abs(2.5)": "2.5", "abs(CAST(NULL AS INTEGER))": "NULL"},
    Overload(_number, Composition(_absolute)),
    Overload(numeric, functions_numerics.ABSOLUTE),
)
scalar(
    "sign",
    "a number",
    "-1, 0 or 1.",
    {"sign(-2.5)": "-1", "sign(0)": "0e0", "sign(7)": "1e0"},
    Overload(_signed, Composition(_sign)),
    Overload(numeric, Memoized(lambda call: functions_numerics.sign, shadow=registry.arithmetic)),
)


def _whole(types: tuple[Type, ...]) -> Signature | None:
    """One DECIMAL, to one without places. Integers are DOUBLE here, as in Postgres: floor(5) / 2 is 2.5."""
    if len(types) != 1 or types[0].kind is not Kind.DECIMAL:
        return None
    return Signature(types, decimal(types[0].precision, 0))


def _nearest(call: Call) -> Scalar:
    (x,) = call.args
    return _rounding_call("cast", call.type, x)


def _floor(call: Call) -> Scalar:
    (x,) = call.args
    return _rounding_call("$floor_div", call.type, x, Literal(10**x.type.scale, x.type))


def _ceil(call: Call) -> Scalar:
    (x,) = call.args
    return _rounding_call(
        "neg", call.type, _rounding_call("floor", call.type, _rounding_call("neg", x.type, x))
    )


def _truncate(call: Call) -> Scalar:
    (x,) = call.args
    return _rounding_call("$div", call.type, x, Literal(10**x.type.scale, x.type))


def _places(types: tuple[Type, ...]) -> Signature | None:
    """A number and how many decimal places to keep."""
    if len(types) != 2 or not (types[1].is_integer or is_unknown(types[1])) or not types[0].is_numeric:
        return None
    type_ = types[0] if types[0].is_exact or types[0].kind is Kind.NUMERIC else DOUBLE
    return Signature((type_, INTEGER), type_)


def _numeric_places(types: tuple[Type, ...]) -> Signature | None:
    known = _places(types)
    exact = known is not None and not known.result.is_float
    return Signature((NUMERIC, INTEGER), NUMERIC) if exact else None


scalar(
    "round",
    "a number, and optionally how many decimal places to keep",
    "Rounds half away from zero; DOUBLE without places rounds half to even.",
    {"round(2.5)": "3", "round(-2.5)": "-3", "round(2.345, 2)": "2.35", "round(1234.5, -2)": "1200"},
    Overload(_whole, Composition(_nearest)),
    Overload(numeric, Memoized(lambda call: functions_numerics.round_to, shadow=registry.arithmetic)),
    Overload(_numeric_places, Memoized(lambda call: functions_numerics.round_to, shadow=registry.arithmetic)),
    Overload(_double, Vector(lambda call: round_half_even)),
    Overload(_places, Vector(lambda call: round_places)),
)
scalar(
    "floor",
    "a number",
    "The largest whole number that is not above.",
    {"floor(-1.5)": "-2", "floor(2.7e0)": "2e0", "floor(3)": "3e0"},
    Overload(_whole, Composition(_floor)),
    Overload(numeric, functions_numerics.FLOOR),
    Overload(_double, Vector(lambda call: floor)),
)
scalar(
    "ceil",
    "a number",
    "The smallest whole number that is not below.",
    {"ceil(-1.5)": "-1", "ceil(2.1e0)": "3e0"},
    Overload(_whole, Composition(_ceil)),
    Overload(numeric, functions_numerics.CEILING),
    Overload(_double, Vector(lambda call: ceil)),
)
scalar(
    "trunc",
    "a number",
    "The whole number towards zero, or so many decimal places kept.",
    {"trunc(-1.5)": "-1", "trunc(2.7e0)": "2e0", "trunc(42.4382, 2)": "42.43"},
    Overload(_whole, Composition(_truncate)),
    Overload(numeric, Memoized(lambda call: functions_numerics.cut_to, shadow=registry.arithmetic)),
    Overload(_numeric_places, Memoized(lambda call: functions_numerics.cut_to, shadow=registry.arithmetic)),
    Overload(_double, Vector(lambda call: trunc)),
)
scalar(
    "sqrt",
    "a number",
    "Square root; an error below 0.",
    {"sqrt(16)": "4e0", "sqrt(CAST(NULL AS DOUBLE PRECISION))": "NULL"},
    Overload(_one_decimal, functions_numerics.ROOT),
    Overload(_double, Vector(lambda call: sqrt)),
)
scalar(
    "cbrt",
    "a number",
    "Cube root.",
    {"cbrt(27)": "3e0", "cbrt(-8)": "-2e0", "cbrt(CAST(NULL AS DOUBLE PRECISION))": "NULL"},
    Overload(_double, Vector(lambda call: cbrt)),
)
scalar(
    "exp",
    "a number",
    "e to the power of the number.",
    {"exp(0)": "1e0"},
    Overload(_one_decimal, _powers("exp")),
    Overload(_double, Vector(lambda call: exp)),
)
scalar(
    "ln",
    "a number",
    "Natural logarithm; an error at 0 and below.",
    {"ln(1)": "0e0"},
    Overload(_one_decimal, _powers("ln")),
    Overload(_double, Vector(lambda call: ln)),
)
scalar(
    "log",
    "a number, or a base and a number",
    "Logarithm, to base 10 unless a base is given.",
    {"log(1000)": "3e0", "log(2, 8)": "3e0"},
    Overload(_one_decimal, _powers("log10")),
    Overload(_two_decimals, _powers("log")),
    Overload(_two_integers, _powers("log")),
    Overload(_double, Vector(lambda call: log10)),
    Overload(fixed(DOUBLE, DOUBLE, DOUBLE), Vector(lambda call: log_base)),
)
scalar(
    "power",
    "two numbers",
    "The first to the power of the second.",
    {"power(2, 10)": "1024e0"},
    Overload(_two_decimals, _powers("power")),
    Overload(fixed(DOUBLE, DOUBLE, DOUBLE), Vector(lambda call: power)),
)
