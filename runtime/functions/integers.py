"""Divisors, factorials, buckets, and the digits behind a point."""

import math
from bisect import bisect_right
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from kpg.runtime.functions.numerics import careful
from kpg.runtime.functions.registry import Memoized, Overload, Rule, Signature, scalar
from kpg.runtime.functions.rules import common_type, fixed, is_exact_or_numeric, is_unknown, shown_type
from kpg.runtime.scalar import Call
from kpg.runtime.types import BIGINT, DOUBLE, INTEGER, NUMERIC, Kind, Type, array
from kpg.runtime.values.numeric import EXACT, rounded, scale_of, shown_scale, trimmed

LARGEST: Final = 32_177
"""The factorials of numbers above it are beyond NUMERIC."""


def _whole_pair(types: tuple[Type, ...]) -> Signature | None:
    common = common_type(types) if len(types) == 2 else None
    if common is None or not common.is_integer:
        return None
    return Signature((common, common), common)


def numerics(count: int, result: Type = NUMERIC) -> Rule:
    """So many exact numbers, as NUMERIC."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != count or not all(is_unknown(t) or is_exact_or_numeric(t) for t in types):
            return None
        return Signature((NUMERIC,) * count, result)

    return rule


def gcd_of(left: Decimal, right: Decimal) -> Decimal:
    """The largest number that divides both."""
    if left.is_infinite() or right.is_infinite():
        return Decimal("NaN")
    scale = max(shown_scale(left), shown_scale(right))
    whole = math.gcd(int(left.scaleb(scale, EXACT)), int(right.scaleb(scale, EXACT)))
    return Decimal(whole).scaleb(-scale, EXACT)


def lcm_of(left: Decimal, right: Decimal) -> Decimal:
    """The smallest number that both divide."""
    if left.is_infinite() or right.is_infinite():
        return Decimal("NaN")
    scale = max(shown_scale(left), shown_scale(right))
    whole = math.lcm(int(left.scaleb(scale, EXACT)), int(right.scaleb(scale, EXACT)))
    return Decimal(whole).scaleb(-scale, EXACT)


def _two(
    name: str, doc: str, examples: dict[str, str], whole: Callable[[int, int], int], exact: object
) -> None:
    assert callable(exact)
    scalar(
        name,
        "two exact numbers",
        doc,
        examples,
        Overload(_whole_pair, Memoized(lambda call: whole)),
        Overload(numerics(2), Memoized(lambda call: careful(exact))),
    )


_two("gcd", "The largest number that divides both.", {"gcd(1071, 462)": "21"}, math.gcd, gcd_of)
_two("lcm", "The smallest number that both divide.", {"lcm(1071, 462)": "23562"}, math.lcm, lcm_of)


def factorial(number: int) -> Decimal:
    """The product of the numbers from 1 to the number."""
    if number < 0:
        raise ValueError("factorial of a negative number is undefined")
    if number > LARGEST:
        raise ValueError("value overflows numeric format")
    return Decimal(math.factorial(number))


scalar(
    "factorial",
    "an integer",
    factorial.__doc__ or "",
    {"factorial(5)": "120"},
    Overload(fixed(NUMERIC, BIGINT), Memoized(lambda call: factorial)),
)


def quotient(left: Decimal, right: Decimal) -> Decimal:
    """The whole part of a quotient."""
    if not right:
        raise ZeroDivisionError
    if left.is_infinite():
        return Decimal("NaN") if right.is_infinite() else left * int(Decimal(1).copy_sign(right))
    return Decimal(0) if right.is_infinite() else rounded(EXACT.divide_int(left, right), 0)


scalar(
    "whole_quotient",
    "two exact numbers (in SQL it is called div)",
    quotient.__doc__ or "",
    {"div(9, 4)": "2", "div(-9, 4)": "-2"},
    Overload(numerics(2), Memoized(lambda call: careful(quotient))),
)


def bucket(value: float, low: float, high: float, count: int) -> int:
    """The number of the bucket, of so many between two bounds, that a value is in."""
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


def _exact_bucket(value: Decimal, low: Decimal, high: Decimal, count: int) -> int:
    if not all(one.is_finite() for one in (value, low, high)):
        return bucket(float(value), float(low), float(high), count)
    if count <= 0 or low == high or not min(low, high) <= value <= max(low, high):
        return bucket(float(value), float(low), float(high), count)
    if value == high:
        return count + 1
    return int(EXACT.divide_int(abs(value - low) * count, abs(high - low))) + 1


def _buckets(types: tuple[Type, ...]) -> Signature | None:
    if len(types) != 4 or numerics(3)(types[:3]) is None or not (types[3].is_integer or is_unknown(types[3])):
        return None
    return Signature((NUMERIC, NUMERIC, NUMERIC, INTEGER), INTEGER)


def _among_bounds(types: tuple[Type, ...]) -> Signature | None:
    """A value and an array of lower bounds."""
    if len(types) != 2 or types[1].kind is not Kind.ARRAY:
        return None
    joint = shown_type((types[0], types[1].parts[0]))
    return None if joint is None or joint.kind is Kind.ARRAY else Signature((joint, array(joint)), INTEGER)


def _bound_below(call: Call) -> Callable[[Any, Any], int]:
    from kpg.runtime.functions.arrays import key_of

    key = key_of(call.args[0].type)

    def place(value: Any, bounds: Any) -> int:
        if None in bounds.items:
            raise ValueError("thresholds array must not contain NULLs")
        if len(bounds.shape) > 1:
            raise ValueError("thresholds must be one-dimensional array")
        return bisect_right([key(one) for one in bounds.items], key(value))

    return place


scalar(
    "width_bucket",
    "a number, two bounds and how many buckets lie between them, or a value and an array of lower bounds",
    "The bucket that the number is in, from 1 on; 0 below the first, one more than there are above the last.",
    {"width_bucket(5.35, 0.024, 10.06, 5)": "3", "width_bucket(11, 10, 0, 5)": "0"},
    Overload(_among_bounds, Memoized(_bound_below)),
    Overload(_buckets, Memoized(lambda call: _exact_bucket)),
    Overload(fixed(INTEGER, DOUBLE, DOUBLE, DOUBLE, INTEGER), Memoized(lambda call: bucket)),
)


def _decimal(result: Type) -> Rule:
    """A DECIMAL, whose digits behind the point its type says."""

    def rule(types: tuple[Type, ...]) -> Signature | None:
        fits = len(types) == 1 and types[0].is_exact
        return Signature(types, result) if fits else None

    return rule


def _own_scale(value: Decimal) -> int | None:
    """NULL of NaN and the infinities."""
    return shown_scale(value) if value.is_finite() else None


scalar(
    "scale",
    "an exact number",
    "How many digits behind the point it has: of a DECIMAL as many as its type says.",
    {"scale(8.4100)": "4", "scale(8)": "0"},
    Overload(_decimal(INTEGER), Memoized(lambda call: lambda value: call.args[0].type.scale)),
    Overload(numerics(1, INTEGER), Memoized(lambda call: _own_scale)),
)


def least_scale(value: Decimal) -> int:
    """How many digits behind the point are needed for the number."""
    return scale_of(value)


scalar(
    "min_scale",
    "an exact number",
    least_scale.__doc__ or "",
    {"min_scale(8.4100)": "2"},
    Overload(numerics(1, INTEGER), Memoized(lambda call: least_scale)),
)
scalar(
    "trim_scale",
    "an exact number",
    "The number without zeros at the end.",
    {"trim_scale(8.4100)": "8.41"},
    Overload(numerics(1), Memoized(lambda call: trimmed)),
)
