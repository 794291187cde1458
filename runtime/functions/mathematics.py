"""Mathematical functions beyond arithmetic: integer bits, number theory, trigonometry, LSNs, volatile values.

* Bit operators ``&``, ``|``, ``#``, ``~`` and shifts are as wide as the wider operand.
* Trigonometric functions in degrees are exact at multiples of 30 and 45 degrees, as in Postgres.
* Random numbers and sequence values take a call number that is unique to each row as first argument, and the
  seed or statement as second. So a call has one value for each row, however often the row is computed.
"""

import math
import threading
import uuid
from bisect import bisect_right
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from itertools import count
from typing import Any, Final

import numpy as np

from kpg.runtime.functions import arithmetic
from kpg.runtime.functions.arithmetic import from_doubles, propagate_nulls
from kpg.runtime.functions.comparison import sort_key_of
from kpg.runtime.functions.numerics import checked_operation
from kpg.runtime.functions.registry import (
    Composition,
    MemoizedFunction,
    Overload,
    Rule,
    Signature,
    VectorFunction,
    add_overloads,
    register_primitive,
    register_scalar,
)
from kpg.runtime.functions.type_rules import (
    common_result_type,
    common_type,
    is_exact_or_numeric,
    is_unknown,
    kind_rule,
    signature_rule,
)
from kpg.runtime.scalar import Call, Literal
from kpg.runtime.types import (
    BIGINT,
    DOUBLE,
    ERROR,
    INTEGER,
    MIN_WORD,
    NUMERIC,
    PG_LSN,
    Kind,
    Type,
    array,
    float_to_word,
)
from kpg.runtime.values.date_time import MAX_LSN
from kpg.runtime.values.numeric import EXACT, display_scale, round_to_scale, significant_scale, strip_zeros

Words = np.ndarray[Any, np.dtype[np.int64]]


BITS: Final = {Kind.SMALLINT: 16, Kind.INTEGER: 32, Kind.BIGINT: 64}

Operation = Callable[..., Words]


def _integer_pair(types: tuple[Type, ...]) -> Signature | None:
    """Accept two integers, cast to the wider type."""
    common = common_type(types) if len(types) == 2 else None
    if common is None or not common.is_integer:
        return None
    return Signature((common, common), common)


def _single_integer(types: tuple[Type, ...]) -> Signature | None:
    return Signature(types, types[0]) if len(types) == 1 and types[0].is_integer else None


def _shift_rule(types: tuple[Type, ...]) -> Signature | None:
    """Accept an integer, which keeps its type, and a distance."""
    if len(types) != 2 or not types[0].is_integer or not (types[1].is_integer or is_unknown(types[1])):
        return None
    return Signature((types[0], INTEGER), types[0])


def _wrap(type_: Type, words: Words) -> Words:
    """Return the lowest bits of a type's width as a signed number. Reserved words become errors."""
    size = BITS[type_.kind]
    if size < 64:
        half = 1 << (size - 1)
        return ((words + half) & ((1 << size) - 1)) - half
    return np.where(words < MIN_WORD, ERROR, words)


def _bitwise_function(function: Operation) -> VectorFunction:
    def build(call: Call) -> Operation:
        def apply(*words: Words) -> Words:
            return propagate_nulls(_wrap(call.type, np.asarray(function(*words), np.int64)), *words)

        return apply

    return VectorFunction(build)


def _shift_function(function: Callable[[Words, Any], Words]) -> VectorFunction:
    def build(call: Call) -> Operation:
        mask = max(BITS[call.type.kind], 32) - 1

        def apply(words: Words, distance: Words) -> Words:
            return propagate_nulls(_wrap(call.type, function(words, distance & mask)), words, distance)

        return apply

    return VectorFunction(build)


def _define(
    name: str, accepts: str, doc: str, example: tuple[str, str], rule: Rule, implementation: VectorFunction
) -> None:
    register_scalar(name, accepts, doc, dict([example]), Overload(rule, implementation))


_TWO = "two integers"
_define(
    "bitwise_and",
    _TWO,
    "The bits that both have.",
    ("91 & 15", "11"),
    _integer_pair,
    _bitwise_function(np.bitwise_and),
)
_define(
    "bitwise_or",
    _TWO,
    "The bits that either has.",
    ("32 | 3", "35"),
    _integer_pair,
    _bitwise_function(np.bitwise_or),
)
_define(
    "bitwise_xor",
    _TWO,
    "The bits that one has.",
    ("17 # 5", "20"),
    _integer_pair,
    _bitwise_function(np.bitwise_xor),
)
_define(
    "bitwise_not",
    "an integer",
    "All bits turned.",
    ("~1", "-2"),
    _single_integer,
    _bitwise_function(np.bitwise_not),
)
_define(
    "shift_left",
    "an integer and a distance",
    "The bits so many places up, those that leave the type lost; the distance is taken by its lowest bits.",
    ("1 << 4", "16"),
    _shift_rule,
    _shift_function(lambda words, distance: words << distance),
)
_define(
    "shift_right",
    "an integer and a distance",
    "The bits so many places down, with the sign.",
    ("-8 >> 1", "-4"),
    _shift_rule,
    _shift_function(lambda words, distance: words >> distance),
)


Bits = np.ndarray[Any, np.dtype[np.uint64]]

STEP: Final = np.uint64(0x9E3779B97F4A7C15)
FACTORS: Final = ((30, np.uint64(0xBF58476D1CE4E5B9)), (27, np.uint64(0x94D049BB133111EB)))
LAST_SHIFT: Final = np.uint64(31)
"""SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014, figure 17)."""
DROPPED_BITS: Final = np.uint64(11)
"""Bits of 64 that a double has no room for: it holds 53."""


def splitmix64(numbers: Words, salt: Words) -> Bits:
    """Return 64 pseudorandom bits for each number. Another salt gives other bits."""
    with np.errstate(over="ignore"):
        bits = (numbers.view(np.uint64) + np.uint64(1)) * STEP + salt.view(np.uint64)
        for shift, factor in FACTORS:
            bits = (bits ^ (bits >> np.uint64(shift))) * factor
    return bits ^ (bits >> LAST_SHIFT)


def _random(numbers: Words, salt: Words) -> Words:
    return from_doubles((splitmix64(numbers, salt) >> DROPPED_BITS).astype(np.float64) * 2.0**-53)


def _random_uuid(number: int, salt: int) -> str:
    pair = splitmix64(np.array([2 * number, 2 * number + 1], np.int64), np.full(2, salt, np.int64))
    return str(uuid.UUID(bytes=pair.tobytes(), version=4))


class SequenceCalls:
    """Numbers that running statements take from sequences, counted by a token per sequence and statement."""

    def __init__(self) -> None:
        self._tokens = count(1)
        self._lock = threading.Lock()
        self._known: dict[int, dict[int, int]] = {}

    def begin(self) -> int:
        """Return a token for one sequence in one statement."""
        with self._lock:
            token = next(self._tokens)
            self._known[token] = {}
            return token

    def positions(self, numbers: Words, token: int) -> Words:
        """Return each row number's position, from 0, in the order of first occurrence."""
        with self._lock:
            positions = self._known[token]
            return np.array(
                [positions.setdefault(number, len(positions)) for number in numbers.tolist()], np.int64
            )

    def end(self, token: int) -> int:
        """Forget the token and return its number of rows."""
        with self._lock:
            return len(self._known.pop(token))


SEQUENCE_CALLS: Final = SequenceCalls()


def _sequence_positions(numbers: Words, token: Words) -> Words:
    return SEQUENCE_CALLS.positions(numbers, int(token[0])) if len(numbers) else numbers


register_primitive("$random", VectorFunction(lambda call: _random))
register_primitive("$random_uuid", MemoizedFunction(lambda call: _random_uuid))
register_primitive("$drawn", VectorFunction(lambda call: _sequence_positions))


def _row_count(clause: str) -> Callable[[int], int]:
    """Return the check of a LIMIT or OFFSET that differs from row to row."""

    def check(count: int) -> int:
        if count < 0:
            raise ValueError(f"{clause} must not be negative")
        return count

    return check


register_primitive("$limit", MemoizedFunction(lambda call: _row_count("LIMIT")))
register_primitive("$offset", MemoizedFunction(lambda call: _row_count("OFFSET")))


MAX_FACTORIAL: Final = 32_177
"""Largest number whose factorial is a NUMERIC."""


def numeric_arguments(count: int, result: Type = NUMERIC) -> Rule:
    """Return a rule for ``count`` exact numbers, as NUMERIC."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != count or not all(is_unknown(t) or is_exact_or_numeric(t) for t in types):
            return None
        return Signature((NUMERIC,) * count, result)

    return rule


def numeric_gcd(left: Decimal, right: Decimal) -> Decimal:
    """Return the largest number that divides both."""
    if left.is_infinite() or right.is_infinite():
        return Decimal("NaN")
    scale = max(display_scale(left), display_scale(right))
    whole = math.gcd(int(left.scaleb(scale, EXACT)), int(right.scaleb(scale, EXACT)))
    return Decimal(whole).scaleb(-scale, EXACT)


def numeric_lcm(left: Decimal, right: Decimal) -> Decimal:
    """Return the smallest number that both divide."""
    if left.is_infinite() or right.is_infinite():
        return Decimal("NaN")
    scale = max(display_scale(left), display_scale(right))
    whole = math.lcm(int(left.scaleb(scale, EXACT)), int(right.scaleb(scale, EXACT)))
    return Decimal(whole).scaleb(-scale, EXACT)


def _register_number_pair(
    name: str, doc: str, examples: dict[str, str], on_integers: Callable[[int, int], int], on_numerics: object
) -> None:
    assert callable(on_numerics)
    register_scalar(
        name,
        "two exact numbers",
        doc,
        examples,
        Overload(_integer_pair, MemoizedFunction(lambda call: on_integers)),
        Overload(numeric_arguments(2), MemoizedFunction(lambda call: checked_operation(on_numerics))),
    )


_register_number_pair(
    "gcd", "The largest number that divides both.", {"gcd(1071, 462)": "21"}, math.gcd, numeric_gcd
)
_register_number_pair(
    "lcm", "The smallest number that both divide.", {"lcm(1071, 462)": "23562"}, math.lcm, numeric_lcm
)


def factorial(number: int) -> Decimal:
    """The product of the numbers from 1 to the number."""
    if number < 0:
        raise ValueError("factorial of a negative number is undefined")
    if number > MAX_FACTORIAL:
        raise ValueError("value overflows numeric format")
    return Decimal(math.factorial(number))


register_scalar(
    "factorial",
    "an integer",
    factorial.__doc__ or "",
    {"factorial(5)": "120"},
    Overload(signature_rule(NUMERIC, BIGINT), MemoizedFunction(lambda call: factorial)),
)


def quotient(left: Decimal, right: Decimal) -> Decimal:
    """The whole part of a quotient."""
    if not right:
        raise ZeroDivisionError
    if left.is_infinite():
        return Decimal("NaN") if right.is_infinite() else left * int(Decimal(1).copy_sign(right))
    return Decimal(0) if right.is_infinite() else round_to_scale(EXACT.divide_int(left, right), 0)


register_scalar(
    "whole_quotient",
    "two exact numbers (in SQL it is called div)",
    quotient.__doc__ or "",
    {"div(9, 4)": "2", "div(-9, 4)": "-2"},
    Overload(numeric_arguments(2), MemoizedFunction(lambda call: checked_operation(quotient))),
)


def width_bucket(value: float, low: float, high: float, count: int) -> int:
    """Return the number of the bucket of a value, from 1, of ``count`` equal buckets between two bounds.

    It is 0 before the first bucket, and ``count + 1`` after the last.
    """
    if count <= 0:
        raise ValueError("count must be greater than zero")
    if any(map(math.isnan, (value, low, high))):
        raise ValueError("operand, lower bound, and upper bound cannot be NaN")
    if math.isinf(low) or math.isinf(high):
        raise ValueError("lower and upper bounds must be finite")
    if low == high:
        raise ValueError("lower bound cannot equal upper bound")
    if low < high:
        before, after = value < low, value >= high
    else:
        before, after = value > low, value <= high
    if before or after:
        return 0 if before else count + 1
    return int(abs(value - low) * count / abs(high - low)) + 1


def _numeric_width_bucket(value: Decimal, low: Decimal, high: Decimal, count: int) -> int:
    if not all(one.is_finite() for one in (value, low, high)):
        return width_bucket(float(value), float(low), float(high), count)
    if count <= 0 or low == high or not min(low, high) <= value <= max(low, high):
        return width_bucket(float(value), float(low), float(high), count)
    if value == high:
        return count + 1
    return int(EXACT.divide_int(abs(value - low) * count, abs(high - low))) + 1


def _width_bucket_rule(types: tuple[Type, ...]) -> Signature | None:
    if (
        len(types) != 4
        or numeric_arguments(3)(types[:3]) is None
        or not (types[3].is_integer or is_unknown(types[3]))
    ):
        return None
    return Signature((NUMERIC, NUMERIC, NUMERIC, INTEGER), INTEGER)


def _thresholds_rule(types: tuple[Type, ...]) -> Signature | None:
    """Accept a value and an array of lower bounds."""
    if len(types) != 2 or types[1].kind is not Kind.ARRAY:
        return None
    joint = common_result_type((types[0], types[1].parts[0]))
    return None if joint is None or joint.kind is Kind.ARRAY else Signature((joint, array(joint)), INTEGER)


def _threshold_bucket(call: Call) -> Callable[[Any, Any], int]:

    key = sort_key_of(call.args[0].type)

    def find_bucket(value: Any, bounds: Any) -> int:
        if None in bounds.items:
            raise ValueError("thresholds array must not contain NULLs")
        if len(bounds.shape) > 1:
            raise ValueError("thresholds must be one-dimensional array")
        return bisect_right([key(one) for one in bounds.items], key(value))

    return find_bucket


register_scalar(
    "width_bucket",
    "a number, two bounds and how many buckets lie between them, or a value and an array of lower bounds",
    "The bucket that the number is in, from 1 on; 0 below the first, one more than there are above the last.",
    {"width_bucket(5.35, 0.024, 10.06, 5)": "3", "width_bucket(11, 10, 0, 5)": "0"},
    Overload(_thresholds_rule, MemoizedFunction(_threshold_bucket)),
    Overload(_width_bucket_rule, MemoizedFunction(lambda call: _numeric_width_bucket)),
    Overload(
        signature_rule(INTEGER, DOUBLE, DOUBLE, DOUBLE, INTEGER), MemoizedFunction(lambda call: width_bucket)
    ),
)


def _exact_rule(result: Type) -> Rule:
    """Return a rule for an exact number. Its type has the number of digits behind the point."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        fits = len(types) == 1 and types[0].is_exact
        return Signature(types, result) if fits else None

    return rule


def _display_scale(value: Decimal) -> int | None:
    """Return the display scale, or NULL for NaN and the infinities."""
    return display_scale(value) if value.is_finite() else None


register_scalar(
    "scale",
    "an exact number",
    "How many digits behind the point it has: of a DECIMAL as many as its type says.",
    {"scale(8.4100)": "4", "scale(8)": "0"},
    Overload(_exact_rule(INTEGER), MemoizedFunction(lambda call: lambda value: call.args[0].type.scale)),
    Overload(numeric_arguments(1, INTEGER), MemoizedFunction(lambda call: _display_scale)),
)


def min_scale(value: Decimal) -> int:
    """How many digits behind the point are needed for the number."""
    return significant_scale(value)


register_scalar(
    "min_scale",
    "an exact number",
    min_scale.__doc__ or "",
    {"min_scale(8.4100)": "2"},
    Overload(numeric_arguments(1, INTEGER), MemoizedFunction(lambda call: min_scale)),
)
register_scalar(
    "trim_scale",
    "an exact number",
    "The number without zeros at the end.",
    {"trim_scale(8.4100)": "8.41"},
    Overload(numeric_arguments(1), MemoizedFunction(lambda call: strip_zeros)),
)


LSN_KINDS = frozenset({Kind.PG_LSN})


def _memoize(code: Callable[..., object]) -> MemoizedFunction:
    return MemoizedFunction(lambda call: code)


def move_lsn(lsn: int, offset: Decimal) -> int:
    """Return the LSN moved by a number of bytes."""
    if not offset.is_finite():
        raise ValueError("cannot add NaN to pg_lsn")
    result = lsn + int(offset.to_integral_value(ROUND_HALF_UP))
    if not 0 <= result < MAX_LSN:
        raise ValueError("pg_lsn out of range")
    return result


for _name, _args, _code in (
    ("add", (PG_LSN, NUMERIC), move_lsn),
    ("add", (NUMERIC, PG_LSN), lambda by, place: move_lsn(place, by)),
    ("sub", (PG_LSN, NUMERIC), lambda place, by: move_lsn(place, -by)),
):
    add_overloads(_name, "PG_LSN", Overload(kind_rule(LSN_KINDS, PG_LSN, *_args), _memoize(_code)))
add_overloads(
    "sub",
    "PG_LSN",
    Overload(
        kind_rule(LSN_KINDS, NUMERIC, PG_LSN, PG_LSN),
        MemoizedFunction(lambda call: lambda x, y: Decimal(x - y)),
    ),
)


RADIAN: Final = math.pi / 180
SIN_30: Final = math.sin(30 * RADIAN)
ONE_MINUS_COS_60: Final = 1 - math.cos(60 * RADIAN)
ASIN_HALF: Final = math.asin(0.5)
ACOS_HALF: Final = math.acos(0.5)
ATAN_ONE: Final = math.atan(1.0)

_one_double = signature_rule(DOUBLE, DOUBLE)
_two_doubles = signature_rule(DOUBLE, DOUBLE, DOUBLE)


def _sin_first_quadrant(x: float) -> float:
    """Return the sine of 0 to 90 degrees."""
    return math.sin(x * RADIAN) / SIN_30 / 2 if x <= 30 else _cos_small(90 - x)


def _cos_small(x: float) -> float:
    """Return the cosine of 0 to 60 degrees."""
    return 1 - (1 - math.cos(x * RADIAN)) / ONE_MINUS_COS_60 / 2


def _cos_first_quadrant(x: float) -> float:
    """Return the cosine of 0 to 90 degrees."""
    return _cos_small(x) if x <= 60 else math.sin((90 - x) * RADIAN) / SIN_30 / 2


TAN_45: Final = _sin_first_quadrant(45) / _cos_first_quadrant(45)
COT_45: Final = _cos_first_quadrant(45) / _sin_first_quadrant(45)


def _reduce_angle(x: float) -> tuple[float, int, int]:
    """Return the reference angle of 0 to 90 degrees, and the signs of the sine and cosine."""
    x = math.fmod(x, 360.0)
    sine = cosine = 1
    if x < 0:
        x, sine = -x, -sine
    if x > 180:
        x, sine = 360 - x, -sine
    if x > 90:
        x, cosine = 180 - x, -1
    return x, sine, cosine


def sind(x: float) -> float:
    """The sine of degrees."""
    angle, sign, _ = _reduce_angle(x)
    return sign * _sin_first_quadrant(angle)


def cosd(x: float) -> float:
    """The cosine of degrees."""
    angle, _, sign = _reduce_angle(x)
    return sign * _cos_first_quadrant(angle)


def tand(x: float) -> float:
    """The tangent of degrees; infinite at 90."""
    angle, sine, cosine = _reduce_angle(x)
    return (
        _divide_or_infinity(sine * cosine * _sin_first_quadrant(angle), _cos_first_quadrant(angle)) / TAN_45
    )


def cotd(x: float) -> float:
    """The cotangent of degrees; infinite at 0."""
    angle, sine, cosine = _reduce_angle(x)
    return (
        _divide_or_infinity(sine * cosine * _cos_first_quadrant(angle), _sin_first_quadrant(angle)) / COT_45
    )


def _divide_or_infinity(value: float, divisor: float) -> float:
    return value / divisor if divisor else math.copysign(math.inf, value)


def _asin_nonnegative(x: float) -> float:
    return math.asin(x) / ASIN_HALF * 30 if x <= 0.5 else 90 - math.acos(x) / ACOS_HALF * 60


def asind(x: float) -> float:
    """The angle of a sine, in degrees."""
    return math.copysign(_asin_nonnegative(abs(x)), x)


def acosd(x: float) -> float:
    """The angle of a cosine, in degrees."""
    if x < 0:
        return 90 + _asin_nonnegative(-x)
    return 90 - math.asin(x) / ASIN_HALF * 30 if x <= 0.5 else math.acos(x) / ACOS_HALF * 60


def atand(x: float) -> float:
    """The angle of a tangent, in degrees."""
    return math.atan(x) / ATAN_ONE * 45


def atan2d(y: float, x: float) -> float:
    """Return the angle of the point (x, y) in degrees."""
    return math.atan2(y, x) / ATAN_ONE * 45


def atanh(x: float) -> float:
    """Inverse hyperbolic tangent; infinite at 1 and -1."""
    return math.copysign(math.inf, x) if abs(x) == 1 else math.atanh(x)


def cot(x: float) -> float:
    """The cotangent of radians; infinite at 0."""
    return _divide_or_infinity(1.0, math.tan(x))


def _register_vector(name: str, doc: str, example: tuple[str, str], function: Callable[..., Words]) -> None:
    register_scalar(
        name, "a number", doc, dict([example]), Overload(_one_double, VectorFunction(lambda call: function))
    )


def _register_python(
    name: str, doc: str, example: tuple[str, str], function: Callable[[float], float]
) -> None:
    register_scalar(
        name, "a number", doc, dict([example]), Overload(_one_double, MemoizedFunction(lambda call: function))
    )


for _trigonometry_name, _doc, _example, _function in (
    ("sin", "Sine of radians.", ("sin(0)", "0e0"), np.sin),
    ("cos", "Cosine of radians.", ("cos(0)", "1e0"), np.cos),
    ("tan", "Tangent of radians.", ("tan(0)", "0e0"), np.tan),
    ("asin", "The angle of a sine, in radians; an error beyond 1.", ("asin(0)", "0e0"), np.arcsin),
    ("acos", "The angle of a cosine, in radians; an error beyond 1.", ("acos(1)", "0e0"), np.arccos),
    ("atan", "The angle of a tangent, in radians.", ("atan(0)", "0e0"), np.arctan),
    ("tanh", "Hyperbolic tangent.", ("tanh(0)", "0e0"), np.tanh),
    ("asinh", "Inverse hyperbolic sine.", ("asinh(0)", "0e0"), np.arcsinh),
    ("acosh", "Inverse hyperbolic cosine; an error below 1.", ("acosh(1)", "0e0"), np.arccosh),
    ("degrees", "Radians as degrees.", ("degrees(0)", "0e0"), np.degrees),
    ("radians", "Degrees as radians.", ("radians(0)", "0e0"), np.radians),
):
    _register_vector(_trigonometry_name, _doc, _example, arithmetic.lift_doubles(_function))
_register_vector("sinh", "Hyperbolic sine.", ("sinh(0)", "0e0"), arithmetic.lift_unbounded(np.sinh))
_register_vector("cosh", "Hyperbolic cosine.", ("cosh(0)", "1e0"), arithmetic.lift_unbounded(np.cosh))

for _trigonometry_name, _example, _trigonometry_plain in (
    ("sind", ("sind(30)", "0.5e0"), sind),
    ("cosd", ("cosd(60)", "0.5e0"), cosd),
    ("tand", ("tand(45)", "1e0"), tand),
    ("cotd", ("cotd(45)", "1e0"), cotd),
    ("asind", ("asind(0.5)", "30e0"), asind),
    ("acosd", ("acosd(0.5)", "60e0"), acosd),
    ("atand", ("atand(1)", "45e0"), atand),
    ("cot", ("cot(1) - 1 / tan(1)", "0e0"), cot),
    ("atanh", ("atanh(0)", "0e0"), atanh),
):
    _register_python(_trigonometry_name, _trigonometry_plain.__doc__ or "", _example, _trigonometry_plain)

_register_python("erf", "The error function.", ("erf(0)", "0e0"), math.erf)
_register_python("erfc", "1 less the error function.", ("erfc(0)", "1e0"), math.erfc)

register_scalar(
    "atan2",
    "two numbers",
    "The angle of a point, y before x, in radians.",
    {"atan2(0, 1)": "0e0"},
    Overload(_two_doubles, VectorFunction(lambda call: arithmetic.lift_doubles(np.arctan2))),
)
register_scalar(
    "atan2d",
    "two numbers",
    "The angle of a point, y before x, in degrees.",
    {"atan2d(1, 0)": "90e0"},
    Overload(_two_doubles, MemoizedFunction(lambda call: atan2d)),
)
register_scalar(
    "pi",
    "nothing",
    "The number pi.",
    {"pi()": "3.141592653589793e0"},
    Overload(signature_rule(DOUBLE), Composition(lambda call: Literal(float_to_word(math.pi), DOUBLE))),
)
