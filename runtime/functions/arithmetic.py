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
from kpg.runtime.functions.date_time.dates import cast_infinity, unless_infinite
from kpg.runtime.functions.registry import (
    Composition,
    MemoizedFunction,
    Opcode,
    Overload,
    Signature,
    VectorFunction,
    register_primitive,
    register_scalar,
)
from kpg.runtime.functions.type_rules import (
    double_pair,
    exact_kinds_rule,
    exact_product,
    exact_sum,
    is_exact_or_numeric,
    is_of_kind,
    is_unknown,
    number_pair,
    numeric_pair,
    real_pair,
    same_type_rule,
    signature_rule,
    single_numeric,
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
"""Mask that, XORed with a negative double's bits, gives words in the order of the values."""
NAN_WORD = 0x7FF8000000000000
"""The only word of NaN. It is above the word of infinity."""


def to_doubles(words: Words) -> Doubles:
    """Convert words to doubles."""
    return np.where(words >= 0, words, words ^ SIGN_FLIP).view(np.float64)


def from_doubles(values: Doubles) -> Words:
    """Convert doubles to words. This is the inverse of :func:`to_doubles`."""
    bits = (values + 0.0).view(np.int64)
    words = np.where(bits >= 0, bits, bits ^ SIGN_FLIP)
    return np.where(np.isnan(values), NAN_WORD, words)


def propagate_nulls(result: Words, *operands: Words) -> Words:
    """Return ``result`` with NULL or ERROR where an operand has it. ERROR wins."""
    lowest = np.minimum.reduce(operands)
    if len(result) and lowest.min() < MIN_WORD:
        result = np.where(lowest < MIN_WORD, NULL, result)
        for operand in operands:
            result[operand == ERROR] = ERROR
    return result


def lift_doubles(function: Callable[..., Doubles]) -> Callable[..., Words]:
    """Lift a function of doubles to words.

    NaN from operands without NaN and infinity from finite operands become ERROR.
    """

    def apply(*words: Words) -> Words:
        operands = [to_doubles(word) for word in words]
        with np.errstate(all="ignore"):
            values = np.asarray(function(*operands), dtype=np.float64)
            finite = np.logical_and.reduce([np.isfinite(operand) for operand in operands])
            numbers = ~np.logical_or.reduce([np.isnan(operand) for operand in operands])
        result = from_doubles(values)
        result[(finite & np.isinf(values)) | (numbers & np.isnan(values))] = ERROR
        return propagate_nulls(result, *words)

    return apply


def lift_unbounded(function: Callable[[Doubles], Doubles]) -> Callable[[Words], Words]:
    """Lift a function of doubles to words. A result beyond the doubles is infinite, not an error."""

    def apply(words: Words) -> Words:
        with np.errstate(all="ignore"):
            return propagate_nulls(from_doubles(function(to_doubles(words))), words)

    return apply


def _power(base: Doubles, exponent: Doubles) -> Doubles:
    values = np.power(base, exponent)
    is_complex = np.isneginf(base) & np.isfinite(exponent) & (exponent != np.trunc(exponent))
    values = np.where(is_complex | ((base == 0) & np.isneginf(exponent)), np.nan, values)
    is_underflow = (values == 0) & (base != 0) & np.isfinite(base) & np.isfinite(exponent)
    return np.where(is_underflow, np.inf, values)


floor = lift_doubles(np.floor)
ceil = lift_doubles(np.ceil)
trunc = lift_doubles(np.trunc)
sqrt = lift_doubles(np.sqrt)
cbrt = lift_doubles(np.cbrt)
exp = lift_doubles(np.exp)
ln = lift_doubles(np.log)
log10 = lift_doubles(np.log10)
power = lift_doubles(_power)
remainder = lift_doubles(np.fmod)
log_base = lift_doubles(lambda base, value: np.log(value) / np.log(base))
round_half_even = lift_doubles(np.rint)


def _round_places(value: Doubles, places: Doubles) -> Doubles:
    factor = 10.0**places
    magnitude = np.abs(value) * factor
    rounded = np.copysign(np.floor(magnitude + 0.5) / factor, value)
    return np.where(magnitude < 2.0**52, rounded, value)


def round_places(words: Words, places: Words) -> Words:
    """Round a double to a number of decimal places, half away from zero."""
    places_words = from_doubles(np.clip(places, -300, 300).astype(np.float64))
    return propagate_nulls(lift_doubles(_round_places)(words, places_words), words, places)


def to_real(words: Words) -> Words:
    """Round doubles to the nearest single-precision number. Nonzero doubles that underflow become ERROR."""
    result = lift_doubles(lambda values: values.astype(np.float32).astype(np.float64))(words)
    result[(result == 0) & (words != 0)] = ERROR
    return result


def _call(name: str, type_: Type, *args: Scalar) -> Call:
    return Call(name, args, type_)


def _in_single_precision(call: Call) -> Scalar:
    """Compute in double precision, then round.

    A double has more than twice the digits of a REAL, so rounding twice changes nothing.
    """
    operands = (_call("cast", DOUBLE, arg) for arg in call.args)
    return _call("$to_real", REAL, _call(call.function, DOUBLE, *operands))


def _midnight(date: Scalar) -> Call:
    return _call("cast", TIMESTAMP, date)


def _add_days(call: Call) -> Scalar:
    left, right = call.args
    if left.type.kind is Kind.DATE:
        return _call(call.function, TIMESTAMP, _midnight(left), right)
    return _call("add", TIMESTAMP, right, left)


def _swap_operands(call: Call) -> Scalar:
    return _call(call.function, call.type, call.args[1], call.args[0])


def _add_negated(call: Call) -> Scalar:
    return _call("add", call.type, call.args[0], _call("neg", call.args[1].type, call.args[1]))


def _add_months_to_timestamp(call: Call) -> Scalar:
    """Add months to the date part and keep the time of day."""
    timestamp, months = call.args
    date = _call("cast", DATE, timestamp)
    midnight = _midnight(_call("add", DATE, date, months))
    time_of_day = _call("sub", INTERVAL_DAY, timestamp, _midnight(date))
    return _call("add", TIMESTAMP, midnight, time_of_day)


def _combine_date_and_time(call: Call) -> Scalar:
    date, time = call.args
    return unless_infinite(
        date, cast_infinity(date, TIMESTAMP), _call("$add", TIMESTAMP, _midnight(date), time)
    )


def _subtract_timestamps(call: Call) -> Scalar:
    left, right = (_midnight(arg) if arg.type.kind is Kind.DATE else arg for arg in call.args)
    return _call("sub", INTERVAL_DAY, left, right)


def _moment_and_unknown(types: tuple[Type, ...]) -> Signature | None:
    """Accept a moment and a quoted constant, which gets the same type."""
    known = [type_ for type_ in types if not is_unknown(type_)]
    if len(types) != 2 or len(known) != 1 or known[0].kind not in dates.MOMENTS_AND_TIME:
        return None
    return Signature((known[0], known[0]), INTEGER if known[0].kind is Kind.DATE else INTERVAL_DAY)


def _subtract_moments(call: Call) -> Scalar:
    """Return the time between two moments. Infinite moments raise an error."""
    difference: Scalar = _call("$sub", call.type, *call.args)
    if call.args[0].type.kind not in dates.MOMENTS or call.type == INTEGER:
        return difference
    too_long = Literal(MAX_WORD, INTERVAL_DAY)
    for moment in call.args:
        difference = unless_infinite(moment, _call("$add", call.type, too_long, too_long), difference)
    return difference


def _add_integer_days(call: Call) -> Scalar:
    date, days = call.args
    return unless_infinite(date, date, _call(f"${call.function}", DATE, date, days))


_ADD_WORDS = Opcode("add")
_SUBTRACT_WORDS = Opcode("sub")
for _name in ("add", "sub", "mul"):
    register_primitive(f"${_name}_all", Opcode(_name, in_order=True))
    register_primitive(f"${_name}_doubles", Opcode(f"{_name}_double", in_order=True))

register_scalar(
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
    Overload(exact_sum, _ADD_WORDS),
    Overload(numeric_pair, numeric_code.ADD),
    Overload(real_pair, Composition(_in_single_precision)),
    Overload(double_pair, Opcode("add_double")),
    Overload(exact_kinds_rule(DATE, DATE, INTEGER), Composition(_add_integer_days)),
    Overload(exact_kinds_rule(DATE, INTEGER, DATE), Composition(_swap_operands)),
    Overload(exact_kinds_rule(DATE, DATE, INTERVAL_MONTH), Opcode("add_months")),
    Overload(exact_kinds_rule(DATE, INTERVAL_MONTH, DATE), Composition(_swap_operands)),
    Overload(exact_kinds_rule(TIMESTAMP, DATE, INTERVAL_DAY), Composition(_add_days)),
    Overload(exact_kinds_rule(TIMESTAMP, INTERVAL_DAY, DATE), Composition(_add_days)),
    Overload(exact_kinds_rule(TIMESTAMP, TIMESTAMP, INTERVAL_DAY), _ADD_WORDS),
    Overload(exact_kinds_rule(TIMESTAMP, INTERVAL_DAY, TIMESTAMP), _ADD_WORDS),
    Overload(exact_kinds_rule(TIMESTAMP, TIMESTAMP, INTERVAL_MONTH), Composition(_add_months_to_timestamp)),
    Overload(exact_kinds_rule(TIMESTAMP, INTERVAL_MONTH, TIMESTAMP), Composition(_swap_operands)),
    Overload(exact_kinds_rule(INTERVAL_DAY, INTERVAL_DAY, INTERVAL_DAY), _ADD_WORDS),
    Overload(exact_kinds_rule(INTERVAL_MONTH, INTERVAL_MONTH, INTERVAL_MONTH), _ADD_WORDS),
    Overload(dates.interval_pair, dates.ADD),
    Overload(dates.MOMENT_AND_INTERVAL, dates.ADD_INTERVAL),
    Overload(dates.INTERVAL_AND_MOMENT, dates.ADD_INTERVAL),
    Overload(exact_kinds_rule(TIMESTAMP, DATE, TIME), Composition(_combine_date_and_time)),
    Overload(exact_kinds_rule(TIMESTAMP, TIME, DATE), Composition(_swap_operands)),
)

register_scalar(
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
    Overload(exact_sum, _SUBTRACT_WORDS),
    Overload(numeric_pair, numeric_code.SUBTRACT),
    Overload(real_pair, Composition(_in_single_precision)),
    Overload(double_pair, Opcode("sub_double")),
    Overload(exact_kinds_rule(DATE, DATE, INTEGER), Composition(_add_integer_days)),
    Overload(exact_kinds_rule(INTEGER, DATE, DATE), _SUBTRACT_WORDS),
    Overload(exact_kinds_rule(DATE, DATE, INTERVAL_MONTH), Composition(_add_negated)),
    Overload(exact_kinds_rule(TIMESTAMP, DATE, INTERVAL_DAY), Composition(_add_days)),
    Overload(exact_kinds_rule(TIMESTAMP, TIMESTAMP, INTERVAL_DAY), _SUBTRACT_WORDS),
    Overload(exact_kinds_rule(TIMESTAMP, TIMESTAMP, INTERVAL_MONTH), Composition(_add_negated)),
    Overload(exact_kinds_rule(INTERVAL_DAY, TIMESTAMP, TIMESTAMP), Composition(_subtract_moments)),
    Overload(exact_kinds_rule(INTERVAL_DAY, TIMESTAMP, DATE), Composition(_subtract_timestamps)),
    Overload(exact_kinds_rule(INTERVAL_DAY, DATE, TIMESTAMP), Composition(_subtract_timestamps)),
    Overload(exact_kinds_rule(INTERVAL_DAY, INTERVAL_DAY, INTERVAL_DAY), _SUBTRACT_WORDS),
    Overload(exact_kinds_rule(INTERVAL_MONTH, INTERVAL_MONTH, INTERVAL_MONTH), _SUBTRACT_WORDS),
    Overload(dates.interval_pair, dates.SUBTRACT),
    Overload(dates.MOMENT_AND_INTERVAL, dates.ADD_INTERVAL),
    Overload(dates.moment_pair, Composition(_subtract_moments)),
    Overload(_moment_and_unknown, Composition(_subtract_moments)),
)


_MULTIPLY_WORDS = Opcode("mul")

register_scalar(
    "mul",
    "two numbers, or an interval and an integer",
    "Product; decimal places add up.",
    {"6 * 7": "42", "1.5 * 0.25": "0.375", "2e0 * 0.5": "1e0", "INTERVAL '2' DAY * 3": "INTERVAL '6' DAY"},
    Overload(exact_product, _MULTIPLY_WORDS),
    Overload(numeric_pair, numeric_code.MULTIPLY),
    Overload(real_pair, Composition(_in_single_precision)),
    Overload(double_pair, Opcode("mul_double")),
    Overload(exact_kinds_rule(INTERVAL_DAY, INTERVAL_DAY, BIGINT), _MULTIPLY_WORDS),
    Overload(exact_kinds_rule(INTERVAL_DAY, BIGINT, INTERVAL_DAY), _MULTIPLY_WORDS),
    Overload(exact_kinds_rule(INTERVAL_MONTH, INTERVAL_MONTH, BIGINT), _MULTIPLY_WORDS),
    Overload(exact_kinds_rule(INTERVAL_MONTH, BIGINT, INTERVAL_MONTH), _MULTIPLY_WORDS),
    Overload(dates.interval_and_number, dates.MULTIPLY),
)


def _integer_pair(types: tuple[Type, ...]) -> Signature | None:
    pair = number_pair(types)
    if pair is None or not (pair[0].is_integer and pair[1].is_integer):
        return None
    return exact_sum(types)


def _remainder_rule(types: tuple[Type, ...]) -> Signature | None:
    """Accept two exact numbers. The remainder has no more digits than its operands."""
    sum_ = exact_sum(types)
    if sum_ is None or sum_.result.kind is not Kind.DECIMAL:
        return sum_
    type_ = decimal(max(sum_.result.precision - 1, 1), sum_.result.scale)
    return Signature((type_, type_), type_)


register_scalar(
    "div",
    "two numbers",
    "Quotient: integers truncate, other exact numbers give NUMERIC; an error if the divisor is 0.",
    {"7e0 / 2": "3.5", "1.0 / 4": "0.25", "NULL / 0.5": "NULL"},
    Overload(_integer_pair, Opcode("div")),
    Overload(numeric_pair, numeric_code.DIVIDE),
    Overload(real_pair, Composition(_in_single_precision)),
    Overload(double_pair, Opcode("div_double")),
    Overload(dates.interval_by_number, dates.DIVIDE),
)

register_scalar(
    "mod",
    "two numbers",
    "Remainder, with the sign of the dividend; an error if the divisor is 0.",
    {"7 % 3": "1", "-7 % 3": "-1", "5.5 % 2": "1.5"},
    Overload(_remainder_rule, Opcode("mod")),
    Overload(numeric_pair, numeric_code.REMAINDER),
    Overload(double_pair, VectorFunction(lambda call: remainder)),
)


def _rounding_call(name: str, type_: Type, *args: Scalar) -> Call:
    return Call(name, args, type_)


def _zero(type_: Type) -> Literal:
    return Literal(0, type_)


def _negate(call: Call) -> Scalar:
    (x,) = call.args
    name = "$sub_double" if x.type.is_float else "sub"
    return _rounding_call(name, call.type, _zero(call.type), x)


def _absolute_value(call: Call) -> Scalar:
    (x,) = call.args
    return If(_rounding_call("lt", BOOLEAN, x, _zero(x.type)), _rounding_call("neg", x.type, x), x, x.type)


def _sign(call: Call) -> Scalar:
    (x,) = call.args
    above = _rounding_call("gt", BOOLEAN, x, _zero(x.type))
    below = _rounding_call("lt", BOOLEAN, x, _zero(x.type))
    sign = _rounding_call(
        "sub", INTEGER, _rounding_call("cast", INTEGER, above), _rounding_call("cast", INTEGER, below)
    )
    if x.type.is_float:  # NaN is above all numbers, and its sign is 0
        is_nan = _rounding_call("eq", BOOLEAN, x, Literal(NAN_WORD, x.type))
        sign = _rounding_call("sub", INTEGER, sign, _rounding_call("cast", INTEGER, is_nan))
    return _rounding_call("cast", call.type, sign)


def _sign_rule(types: tuple[Type, ...]) -> Signature | None:
    """Accept a number. A DECIMAL gives a DECIMAL without decimal places, all else DOUBLE, as in Postgres."""
    if len(types) != 1 or not (types[0].is_exact or types[0].is_float):
        return None
    return Signature(types, decimal(1, 0) if types[0].kind is Kind.DECIMAL else DOUBLE)


_number = same_type_rule(lambda type_: type_.is_exact or type_.is_float)
_interval = same_type_rule(is_of_kind(Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH))
_double = signature_rule(DOUBLE, DOUBLE)


def _exact_as_numeric(types: tuple[Type, ...]) -> Signature | None:
    """Accept one or two exact numbers as NUMERIC. Integers alone are DOUBLE, as in Postgres."""
    if not 1 <= len(types) <= 2 or not all(
        is_unknown(type_) or is_exact_or_numeric(type_) for type_ in types
    ):
        return None
    if all(is_unknown(type_) or type_.is_integer for type_ in types):
        return None
    return Signature((NUMERIC,) * len(types), NUMERIC)


def _one_decimal(types: tuple[Type, ...]) -> Signature | None:
    return _exact_as_numeric(types) if len(types) == 1 else None


def _two_decimals(types: tuple[Type, ...]) -> Signature | None:
    return _exact_as_numeric(types) if len(types) == 2 else None


def _two_integers(types: tuple[Type, ...]) -> Signature | None:
    """Accept two integers as NUMERIC: Postgres has ``log(base, x)`` for NUMERIC only."""
    fits = len(types) == 2 and all(type_.is_integer or is_unknown(type_) for type_ in types)
    return Signature((NUMERIC, NUMERIC), NUMERIC) if fits else None


def _numerics_function(name: str) -> MemoizedFunction:
    """Return the function ``name`` of :mod:`numerics`, memoized."""

    def build(call: Call) -> Callable[..., object]:
        function: Callable[..., object] = getattr(functions_numerics, name)
        return function

    return MemoizedFunction(build)


register_scalar(
    "neg",
    "a number or an interval",
    "The value with the other sign.",
    {"-(3)": "-3", "-(1.5)": "-1.5", "-(CAST(NULL AS INTEGER))": "NULL"},
    Overload(_number, Composition(_negate)),
    Overload(single_numeric, functions_numerics.NEGATE),
    Overload(_interval, Composition(_negate)),
    Overload(dates.single_interval, dates.NEGATE),
)
register_scalar(
    "abs",
    "a number",
    "Absolute value.",
    {"abs(-3)": "3", "abs(2.5)": "2.5", "abs(CAST(NULL AS INTEGER))": "NULL"},
    Overload(_number, Composition(_absolute_value)),
    Overload(single_numeric, functions_numerics.ABSOLUTE),
)
register_scalar(
    "sign",
    "a number",
    "-1, 0 or 1.",
    {"sign(-2.5)": "-1", "sign(0)": "0e0", "sign(7)": "1e0"},
    Overload(_sign_rule, Composition(_sign)),
    Overload(
        single_numeric,
        MemoizedFunction(lambda call: functions_numerics.sign, shadow=registry.arithmetic_shadow),
    ),
)


def _whole_decimal(types: tuple[Type, ...]) -> Signature | None:
    """Accept one DECIMAL, for a result without decimal places.

    Integers are DOUBLE here, as in Postgres: ``floor(5) / 2`` is 2.5.
    """
    if len(types) != 1 or types[0].kind is not Kind.DECIMAL:
        return None
    return Signature(types, decimal(types[0].precision, 0))


def _round(call: Call) -> Scalar:
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


def _number_and_places(types: tuple[Type, ...]) -> Signature | None:
    """Accept a number and a number of decimal places."""
    if len(types) != 2 or not (types[1].is_integer or is_unknown(types[1])) or not types[0].is_numeric:
        return None
    type_ = types[0] if types[0].is_exact or types[0].kind is Kind.NUMERIC else DOUBLE
    return Signature((type_, INTEGER), type_)


def _numeric_and_places(types: tuple[Type, ...]) -> Signature | None:
    known = _number_and_places(types)
    exact = known is not None and not known.result.is_float
    return Signature((NUMERIC, INTEGER), NUMERIC) if exact else None


register_scalar(
    "round",
    "a number, and optionally how many decimal places to keep",
    "Rounds half away from zero; DOUBLE without places rounds half to even.",
    {"round(2.5)": "3", "round(-2.5)": "-3", "round(2.345, 2)": "2.35", "round(1234.5, -2)": "1200"},
    Overload(_whole_decimal, Composition(_round)),
    Overload(
        single_numeric,
        MemoizedFunction(lambda call: functions_numerics.round_to, shadow=registry.arithmetic_shadow),
    ),
    Overload(
        _numeric_and_places,
        MemoizedFunction(lambda call: functions_numerics.round_to, shadow=registry.arithmetic_shadow),
    ),
    Overload(_double, VectorFunction(lambda call: round_half_even)),
    Overload(_number_and_places, VectorFunction(lambda call: round_places)),
)
register_scalar(
    "floor",
    "a number",
    "The largest whole number that is not above.",
    {"floor(-1.5)": "-2", "floor(2.7e0)": "2e0", "floor(3)": "3e0"},
    Overload(_whole_decimal, Composition(_floor)),
    Overload(single_numeric, functions_numerics.FLOOR),
    Overload(_double, VectorFunction(lambda call: floor)),
)
register_scalar(
    "ceil",
    "a number",
    "The smallest whole number that is not below.",
    {"ceil(-1.5)": "-1", "ceil(2.1e0)": "3e0"},
    Overload(_whole_decimal, Composition(_ceil)),
    Overload(single_numeric, functions_numerics.CEILING),
    Overload(_double, VectorFunction(lambda call: ceil)),
)
register_scalar(
    "trunc",
    "a number",
    "The whole number towards zero, or so many decimal places kept.",
    {"trunc(-1.5)": "-1", "trunc(2.7e0)": "2e0", "trunc(42.4382, 2)": "42.43"},
    Overload(_whole_decimal, Composition(_truncate)),
    Overload(
        single_numeric,
        MemoizedFunction(lambda call: functions_numerics.truncate_to, shadow=registry.arithmetic_shadow),
    ),
    Overload(
        _numeric_and_places,
        MemoizedFunction(lambda call: functions_numerics.truncate_to, shadow=registry.arithmetic_shadow),
    ),
    Overload(_double, VectorFunction(lambda call: trunc)),
)
register_scalar(
    "sqrt",
    "a number",
    "Square root; an error below 0.",
    {"sqrt(16)": "4e0", "sqrt(CAST(NULL AS DOUBLE PRECISION))": "NULL"},
    Overload(_one_decimal, functions_numerics.ROOT),
    Overload(_double, VectorFunction(lambda call: sqrt)),
)
register_scalar(
    "cbrt",
    "a number",
    "Cube root.",
    {"cbrt(27)": "3e0", "cbrt(-8)": "-2e0", "cbrt(CAST(NULL AS DOUBLE PRECISION))": "NULL"},
    Overload(_double, VectorFunction(lambda call: cbrt)),
)
register_scalar(
    "exp",
    "a number",
    "e to the power of the number.",
    {"exp(0)": "1e0"},
    Overload(_one_decimal, _numerics_function("exp")),
    Overload(_double, VectorFunction(lambda call: exp)),
)
register_scalar(
    "ln",
    "a number",
    "Natural logarithm; an error at 0 and below.",
    {"ln(1)": "0e0"},
    Overload(_one_decimal, _numerics_function("ln")),
    Overload(_double, VectorFunction(lambda call: ln)),
)
register_scalar(
    "log",
    "a number, or a base and a number",
    "Logarithm, to base 10 unless a base is given.",
    {"log(1000)": "3e0", "log(2, 8)": "3e0"},
    Overload(_one_decimal, _numerics_function("log10")),
    Overload(_two_decimals, _numerics_function("log")),
    Overload(_two_integers, _numerics_function("log")),
    Overload(_double, VectorFunction(lambda call: log10)),
    Overload(signature_rule(DOUBLE, DOUBLE, DOUBLE), VectorFunction(lambda call: log_base)),
)
register_scalar(
    "power",
    "two numbers",
    "The first to the power of the second.",
    {"power(2, 10)": "1024e0"},
    Overload(_two_decimals, _numerics_function("power")),
    Overload(signature_rule(DOUBLE, DOUBLE, DOUBLE), VectorFunction(lambda call: power)),
)
