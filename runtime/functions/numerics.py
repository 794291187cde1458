"""NUMERIC arithmetic, exponentials, logarithms and powers: Python decimals with Postgres' scale rules."""

import decimal
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Final

from kpg.runtime.functions import registry
from kpg.runtime.functions.registry import MemoizedFunction
from kpg.runtime.scalar import Call
from kpg.runtime.values.numeric import (
    EXACT,
    MAX_INTEGER_DIGITS,
    MAX_SCALE,
    check_range,
    display_scale,
    encode_units,
    round_to_scale,
)

MIN_SIGNIFICANT_DIGITS: Final = 16
"""Minimum number of significant digits of a quotient or root."""
MAX_DISPLAY_SCALE: Final = 1000
"""Maximum number of digits behind the point of a quotient or root."""
NAN: Final = Decimal("NaN")

Operation = Callable[..., Decimal]
Units = tuple[int, int]
"""A number as an integer in units of its last digit, and its number of digits behind the point."""
ShadowRule = Callable[[Call, Sequence[registry.Shadow]], registry.Shadow | None]


def checked_operation(function: Operation) -> Operation:
    """Return a function of NUMERICs that checks the range of its result. NaN gives NaN."""

    def apply(*values: Decimal) -> Decimal:
        if any(value.is_nan() for value in values):
            return NAN
        return check_range(function(*values))

    return apply


def operation(
    function: Operation, shadow: ShadowRule | None = None, units: Callable[..., Units] | None = None
) -> MemoizedFunction:
    """Like :func:`checked_operation`, as implementation of an expression over exact numbers of any types."""
    apply = checked_operation(function)

    def build(call: Call) -> Callable[..., Decimal]:
        units = [arg.type.scale if arg.type.is_exact else None for arg in call.args]
        if all(unit is None for unit in units):
            return apply
        return lambda *values: apply(*map(_word_to_decimal, values, units))

    return MemoizedFunction(build, build_units=None if units is None else lambda call: units, shadow=shadow)


def _word_to_decimal(value: Decimal | int, scale: int | None) -> Decimal:
    """Return the number of a word with ``scale`` digits behind the point, or of a NUMERIC."""
    return Decimal(value) if scale is None else Decimal(value).scaleb(-scale, EXACT)


def _nan_for_infinities(function: Operation) -> Operation:
    """Return a function that gives NaN where infinities have no result, such as their difference."""

    def apply(*values: Decimal) -> Decimal:
        try:
            return function(*values)
        except decimal.InvalidOperation:
            return NAN

    return apply


def _quotient(left: Decimal, right: Decimal) -> Decimal:
    if not right:
        raise ZeroDivisionError
    if left.is_infinite():
        return NAN if right.is_infinite() else left * int(Decimal(1).copy_sign(right))
    if right.is_infinite():
        return Decimal(0)
    places, context = quotient_scale(left, right), EXACT.copy()
    context.prec = max(left.adjusted() - right.adjusted() + 1, 0) + places + 2 if left else 1
    context.rounding = decimal.ROUND_DOWN
    return round_to_scale(context.divide(left, right), places)


def quotient_scale(left: Decimal, right: Decimal) -> int:
    """Return the number of digits behind the point of a quotient. Postgres counts groups of four digits."""
    weights = [value.adjusted() // 4 if value else 0 for value in (left, right)]
    leading_groups = [int(abs(v).scaleb(-4 * w, EXACT)) for v, w in zip((left, right), weights, strict=True)]
    weight = weights[0] - weights[1] - (leading_groups[0] <= leading_groups[1])
    return min(
        max(MIN_SIGNIFICANT_DIGITS - 4 * weight, display_scale(left), display_scale(right), 0),
        MAX_DISPLAY_SCALE,
    )


def divide_scaled(left: int, left_scale: int, right: int, right_scale: int) -> Decimal:
    """Return the quotient of two scaled integers, with the scale of ``divide``."""
    places, size = _scaled_quotient(left, left_scale, right, right_scale)
    return Decimal(size if (left < 0) == (right < 0) else -size).scaleb(-places, EXACT)


def _scaled_quotient(left: int, left_scale: int, right: int, right_scale: int) -> tuple[int, int]:
    """Return a quotient's number of digits behind the point, and its size in units of the last one."""
    if not right:
        raise ZeroDivisionError
    weights, firsts = zip(
        _leading_group(abs(left), left_scale), _leading_group(abs(right), right_scale), strict=True
    )
    weight = weights[0] - weights[1] - (firsts[0] <= firsts[1])
    places = min(max(MIN_SIGNIFICANT_DIGITS - 4 * weight, left_scale, right_scale, 0), MAX_DISPLAY_SCALE)
    shift = places + right_scale - left_scale
    dividend, divisor = abs(left) * 10 ** max(shift, 0), abs(right) * 10 ** max(-shift, 0)
    return places, (2 * dividend + divisor) // (2 * divisor)


def encode_ratio(left: int, left_scale: int, right: int, right_scale: int) -> str:
    """Like :func:`divide_scaled`, but return the encoded string of the quotient."""
    places, size = _scaled_quotient(left, left_scale, right, right_scale)
    return encode_units(size if (left < 0) == (right < 0) else -size, places)


def _leading_group(number: int, scale: int) -> tuple[int, int]:
    """Return the weight of the first group of four digits relative to the point, and its value."""
    if not number:
        return 0, 0
    weight = (len(str(number)) - 1 - scale) // 4
    shift = scale + 4 * weight
    return weight, number // 10**shift if shift >= 0 else number * 10**-shift


def _remainder(left: Decimal, right: Decimal) -> Decimal:
    if not right:
        raise ZeroDivisionError
    if left.is_infinite():
        return NAN
    return left if right.is_infinite() else EXACT.remainder(left, right)


def root(value: Decimal) -> Decimal:
    """Return the square root."""
    if value < 0:
        raise ValueError("cannot take square root of a negative number")
    if value.is_infinite():
        return value
    weight = value.adjusted() // 4 if value else 0
    places = max(MIN_SIGNIFICANT_DIGITS - ((weight + 1) * 4 // 2 - 1), display_scale(value), 0)
    if not value:
        return round_to_scale(value, places)
    places = min(places, MAX_DISPLAY_SCALE)
    # One more digit, truncated, so that the root is rounded only once.
    floor = math.isqrt(int(value.scaleb(2 * places + 2, EXACT)))
    return round_to_scale(Decimal(floor).scaleb(-places - 1, EXACT), places)


def _add_units(left: Units, right: Units) -> Units:
    (a, places), (b, others) = left, right
    if places == others:
        return a + b, places
    most = max(places, others)
    return a * 10 ** (most - places) + b * 10 ** (most - others), most


def _negate_units(value: Units) -> Units:
    return -value[0], value[1]


def _multiply_units(left: Units, right: Units) -> Units:
    units, places = left[0] * right[0], left[1] + right[1]
    if places <= MAX_SCALE:
        return units, places
    below = 10 ** (places - MAX_SCALE)
    size = (2 * abs(units) + below) // (2 * below)
    return size if units >= 0 else -size, MAX_SCALE


def divide_units(left: Units, right: Units) -> Units:
    """Return the quotient of two numbers in units of their last digits."""
    places, size = _scaled_quotient(*left, *right)
    return size if (left[0] < 0) == (right[0] < 0) else -size, places


ADD = operation(_nan_for_infinities(EXACT.add), registry.arithmetic_shadow, _add_units)
SUBTRACT = operation(
    _nan_for_infinities(EXACT.subtract),
    registry.arithmetic_shadow,
    lambda a, b: _add_units(a, _negate_units(b)),
)
MULTIPLY = operation(_nan_for_infinities(EXACT.multiply), registry.product_shadow, _multiply_units)
divide = checked_operation(_quotient)
remainder = checked_operation(_remainder)


def _division(call: Call) -> Callable[..., Decimal]:
    """Return the division of a call. Two words are divided without decimals, seven times as fast."""
    left, right = (arg.type for arg in call.args)
    if not (left.is_exact and right.is_exact):
        return operation(_quotient).build(call)  # type: ignore[return-value]
    return lambda a, b: divide_scaled(a, left.scale, b, right.scale)


def _division_encoder(call: Call) -> Callable[..., str] | None:
    left, right = (arg.type for arg in call.args)
    if not (left.is_exact and right.is_exact):
        return None
    return lambda a, b: encode_ratio(a, left.scale, b, right.scale)


DIVIDE = MemoizedFunction(
    _division,
    build_encoded=_division_encoder,
    build_units=lambda call: divide_units,
    shadow=registry.quotient_shadow,
)
REMAINDER = operation(_remainder)
NEGATE = operation(lambda value: value.copy_negate() if value else value, registry.sign_shadow, _negate_units)
ABSOLUTE = operation(Decimal.copy_abs, registry.sign_shadow)
ROOT = operation(root)
FLOOR = operation(lambda value: _round_to_whole(value, decimal.ROUND_FLOOR), registry.arithmetic_shadow)
CEILING = operation(lambda value: _round_to_whole(value, decimal.ROUND_CEILING), registry.arithmetic_shadow)


def _round_to_whole(value: Decimal, rounding: str) -> Decimal:
    return value.to_integral_value(rounding, EXACT) if value.is_finite() else value


def round_to(value: Decimal, places: int = 0) -> Decimal:
    """Round half away from zero to a number of digits behind the point, or before it if negative."""
    return _to_places(value, places, decimal.ROUND_HALF_UP)


def truncate_to(value: Decimal, places: int = 0) -> Decimal:
    """Truncate to a number of digits behind the point, or before it if negative."""
    return _to_places(value, places, decimal.ROUND_DOWN)


def _to_places(value: Decimal, places: int, rounding: str) -> Decimal:
    if not value.is_finite():
        return value
    places = min(max(places, -200_000), MAX_DISPLAY_SCALE * 20)
    result = check_range(value.quantize(Decimal(1).scaleb(-min(places, MAX_SCALE)), rounding, EXACT))
    return round_to_scale(result, max(places, 0))


def sign(value: Decimal) -> Decimal:
    """Return -1, 0 or 1, or NaN for NaN."""
    return value if value.is_nan() else Decimal((value > 0) - (value < 0))


LOG_E: Final = 0.434294481903252
MAX_EXPONENT: Final = 6000
"""Bound beyond which Postgres does not compute the exponential."""
GUARD_DIGITS: Final = 8
"""Digits that are computed beyond those of the result."""
MIN_NEAR_ONE, MAX_NEAR_ONE = Decimal("0.9"), Decimal("1.1")


def _result_scale(digits: float, *values: Decimal) -> int:
    """Return the digits behind the point of a result with about ``digits`` digits before it."""
    return min(max(MIN_SIGNIFICANT_DIGITS - int(digits), 0, *map(display_scale, values)), MAX_DISPLAY_SCALE)


def _context(whole: float, places: int) -> decimal.Context:
    context = EXACT.copy()
    context.prec = max(int(whole), 0) + places + GUARD_DIGITS
    return context


def _log_digits(value: Decimal) -> int:
    """Return the approximate number of decimal digits of the natural logarithm."""
    if value <= 0:
        return 0
    if MIN_NEAR_ONE <= value <= MAX_NEAR_ONE:
        return (value - 1).adjusted() if value != 1 else 0
    logarithm = math.log(float(value.scaleb(-value.adjusted(), EXACT))) + value.adjusted() * math.log(10)
    return int(math.log10(abs(logarithm)))


def _check_log_argument(value: Decimal) -> None:
    if value < 0:
        raise ValueError("cannot take logarithm of a negative number")
    if not value:
        raise ValueError("cannot take logarithm of zero")


def _exp(value: Decimal) -> Decimal:
    if value.is_infinite():
        return value if value > 0 else Decimal(0)
    if abs(value) >= MAX_EXPONENT:
        if value > 0:
            raise ValueError("value overflows numeric format")
        return round_to_scale(Decimal(0), MAX_DISPLAY_SCALE)
    digits = float(value) * LOG_E
    if digits > MAX_INTEGER_DIGITS:
        raise ValueError("value overflows numeric format")
    places = _result_scale(min(max(digits, -2000), 2000), value)
    return round_to_scale(_context(digits, places).exp(value), places)


def _ln(value: Decimal) -> Decimal:
    _check_log_argument(value)
    if value.is_infinite():
        return value
    digits = _log_digits(value)
    places = _result_scale(digits, value)
    return round_to_scale(_context(abs(digits) + 1, places).ln(value), places)


def _log(base: Decimal, value: Decimal) -> Decimal:
    _check_log_argument(base)
    _check_log_argument(value)
    if base.is_infinite() or value.is_infinite():
        return Decimal(0) if base.is_infinite() else value
    places = _result_scale(_log_digits(value) - _log_digits(base), base, value)
    context = _context(abs(_log_digits(value)) + 10, places + 10)
    divisor = context.ln(base)
    if not divisor:
        raise ZeroDivisionError
    return round_to_scale(context.divide(context.ln(value), divisor), places)


def _power(base: Decimal, exponent: Decimal) -> Decimal:
    if not base and exponent < 0:
        raise ValueError("zero raised to a negative power is undefined")
    whole = exponent.is_infinite() or exponent == exponent.to_integral_value(context=EXACT)
    if base < 0 and not whole:
        raise ValueError("a negative number raised to a non-integer power yields a complex result")
    if base.is_infinite() or exponent.is_infinite():
        return _power_of_infinity(base, exponent)
    if not base:
        return round_to_scale(
            Decimal(0), max(MIN_SIGNIFICANT_DIGITS, display_scale(base), display_scale(exponent))
        )
    digits = _power_digits(base, exponent)
    if digits > MAX_INTEGER_DIGITS:
        raise ValueError("value overflows numeric format")
    if digits < -MAX_DISPLAY_SCALE - 1:
        return Decimal(0)
    places = _result_scale(digits, base, exponent)
    context = _context(digits, places)
    context.prec += max(exponent.adjusted(), 0)
    return round_to_scale(context.power(base, exponent), places)


def _power_digits(base: Decimal, exponent: Decimal) -> float:
    size = abs(base)
    logarithm = math.log10(float(size.scaleb(-size.adjusted(), EXACT))) + size.adjusted()
    try:
        return float(exponent) * logarithm
    except OverflowError:
        return math.copysign(math.inf, logarithm) * (1 if exponent > 0 else -1)


def _power_of_infinity(base: Decimal, exponent: Decimal) -> Decimal:
    if base == 1 or not exponent:
        return Decimal(1)
    if exponent.is_infinite():
        grows = (abs(base) > 1) == (exponent > 0)
        return Decimal(1) if base == -1 else Decimal("Infinity") if grows else Decimal(0)
    if exponent < 0:
        return Decimal(0)
    return Decimal("-Infinity") if base < 0 and exponent % 2 else Decimal("Infinity")


exp = checked_operation(_exp)
ln = checked_operation(_ln)
log = checked_operation(_log)
log10 = checked_operation(lambda value: _log(Decimal(10), value))


def power(base: Decimal, exponent: Decimal) -> Decimal:
    """Raise a number to a power. NaN gives NaN, except 1 to any power and any number to the power 0."""
    if base == 1 or exponent == 0:
        places = max(MIN_SIGNIFICANT_DIGITS, display_scale(base), display_scale(exponent))
        return round_to_scale(Decimal(1), min(places, MAX_DISPLAY_SCALE))
    return checked_operation(_power)(base, exponent)
