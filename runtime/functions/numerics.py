"""NUMERIC arithmetic, exponentials, logarithms and powers: Python decimals with Postgres' scale rules."""

import decimal
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Final

from kpg.runtime.functions import registry
from kpg.runtime.functions.registry import Memoized
from kpg.runtime.scalar import Call
from kpg.runtime.values.numeric import EXACT, MOST_SCALE, MOST_WHOLE, checked, rounded, shown_scale, spelled

SIGNIFICANT: Final = 16
"""Digits that a quotient or a root has at least."""
MOST_SHOWN: Final = 1000
"""Digits behind the point that a quotient or a root has at most."""
NAN: Final = Decimal("NaN")

Operation = Callable[..., Decimal]
Units = tuple[int, int]
"""A number as units of its last digit behind the point, and how many digits these are."""
ShadowRule = Callable[[Call, Sequence[registry.Shadow]], registry.Shadow | None]


def careful(function: Operation) -> Operation:
    """A function of NUMERICs, whose result has to be one that Postgres can hold; NaN gives NaN."""

    def apply(*values: Decimal) -> Decimal:
        if any(value.is_nan() for value in values):
            return NAN
        return checked(function(*values))

    return apply


def operation(
    function: Operation, shadow: ShadowRule | None = None, units: Callable[..., Units] | None = None
) -> Memoized:
    """As :func:`careful`, for expressions, whose arguments are exact numbers of any types."""
    apply = careful(function)

    def build(call: Call) -> Callable[..., Decimal]:
        units = [arg.type.scale if arg.type.is_exact else None for arg in call.args]
        if all(unit is None for unit in units):
            return apply
        return lambda *values: apply(*map(_of_unit, values, units))

    return Memoized(build, units=None if units is None else lambda call: units, shadow=shadow)


def _of_unit(value: Decimal | int, scale: int | None) -> Decimal:
    """The number of a value of a word, of which ``scale`` says how many digits are behind the point."""
    return Decimal(value) if scale is None else Decimal(value).scaleb(-scale, EXACT)


def _nan_for_infinities(function: Operation) -> Operation:
    """What has no value for infinities, as their difference, is NaN."""

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
    return rounded(context.divide(left, right), places)


def quotient_scale(left: Decimal, right: Decimal) -> int:
    """How many digits behind the point a quotient has: Postgres counts in groups of four digits."""
    weights = [value.adjusted() // 4 if value else 0 for value in (left, right)]
    firsts = [int(abs(v).scaleb(-4 * w, EXACT)) for v, w in zip((left, right), weights, strict=True)]
    weight = weights[0] - weights[1] - (firsts[0] <= firsts[1])
    return min(max(SIGNIFICANT - 4 * weight, shown_scale(left), shown_scale(right), 0), MOST_SHOWN)


def ratio(left: int, left_scale: int, right: int, right_scale: int) -> Decimal:
    """The quotient of two numbers that are whole but for so many digits behind the point: as ``divide``'s."""
    places, size = _shares(left, left_scale, right, right_scale)
    return Decimal(size if (left < 0) == (right < 0) else -size).scaleb(-places, EXACT)


def _shares(left: int, left_scale: int, right: int, right_scale: int) -> tuple[int, int]:
    """How many digits behind the point a quotient has, and its size in units of the last of them."""
    if not right:
        raise ZeroDivisionError
    weights, firsts = zip(_leading(abs(left), left_scale), _leading(abs(right), right_scale), strict=True)
    weight = weights[0] - weights[1] - (firsts[0] <= firsts[1])
    places = min(max(SIGNIFICANT - 4 * weight, left_scale, right_scale, 0), MOST_SHOWN)
    shift = places + right_scale - left_scale
    above, below = abs(left) * 10 ** max(shift, 0), abs(right) * 10 ** max(-shift, 0)
    return places, (2 * above + below) // (2 * below)


def spelled_ratio(left: int, left_scale: int, right: int, right_scale: int) -> str:
    """As :func:`ratio`, the string that stands for it."""
    places, size = _shares(left, left_scale, right, right_scale)
    return spelled(size if (left < 0) == (right < 0) else -size, places)


def _leading(number: int, scale: int) -> tuple[int, int]:
    """The weight of the first group of four digits before or behind the point, and what it is."""
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
    """The square root."""
    if value < 0:
        raise ValueError("cannot take square root of a negative number")
    if value.is_infinite():
        return value
    weight = value.adjusted() // 4 if value else 0
    places = max(SIGNIFICANT - ((weight + 1) * 4 // 2 - 1), shown_scale(value), 0)
    if not value:
        return rounded(value, places)
    places = min(places, MOST_SHOWN)
    # One digit more, not rounded: a root that was rounded before could be rounded twice.
    floor = math.isqrt(int(value.scaleb(2 * places + 2, EXACT)))
    return rounded(Decimal(floor).scaleb(-places - 1, EXACT), places)


def _sum(left: Units, right: Units) -> Units:
    (a, places), (b, others) = left, right
    if places == others:
        return a + b, places
    most = max(places, others)
    return a * 10 ** (most - places) + b * 10 ** (most - others), most


def _negative(value: Units) -> Units:
    return -value[0], value[1]


def _product(left: Units, right: Units) -> Units:
    units, places = left[0] * right[0], left[1] + right[1]
    if places <= MOST_SCALE:
        return units, places
    below = 10 ** (places - MOST_SCALE)
    size = (2 * abs(units) + below) // (2 * below)
    return size if units >= 0 else -size, MOST_SCALE


def share(left: Units, right: Units) -> Units:
    """The quotient of two numbers in units of their last digits."""
    places, size = _shares(*left, *right)
    return size if (left[0] < 0) == (right[0] < 0) else -size, places


ADD = operation(_nan_for_infinities(EXACT.add), registry.arithmetic, _sum)
SUBTRACT = operation(
    _nan_for_infinities(EXACT.subtract), registry.arithmetic, lambda a, b: _sum(a, _negative(b))
)
MULTIPLY = operation(_nan_for_infinities(EXACT.multiply), registry.product, _product)
divide = careful(_quotient)
remainder = careful(_remainder)


def _division(call: Call) -> Callable[..., Decimal]:
    """Of two words without decimals in between, which take seven times as long."""
    left, right = (arg.type for arg in call.args)
    if not (left.is_exact and right.is_exact):
        return operation(_quotient).build(call)  # type: ignore[return-value]
    return lambda a, b: ratio(a, left.scale, b, right.scale)


def _spelled_division(call: Call) -> Callable[..., str] | None:
    left, right = (arg.type for arg in call.args)
    if not (left.is_exact and right.is_exact):
        return None
    return lambda a, b: spelled_ratio(a, left.scale, b, right.scale)


DIVIDE = Memoized(_division, spelled=_spelled_division, units=lambda call: share, shadow=registry.quotient)
REMAINDER = operation(_remainder)
NEGATE = operation(lambda value: value.copy_negate() if value else value, registry.same, _negative)
ABSOLUTE = operation(Decimal.copy_abs, registry.same)
ROOT = operation(root)
FLOOR = operation(lambda value: _whole(value, decimal.ROUND_FLOOR), registry.arithmetic)
CEILING = operation(lambda value: _whole(value, decimal.ROUND_CEILING), registry.arithmetic)


def _whole(value: Decimal, rounding: str) -> Decimal:
    return value.to_integral_value(rounding, EXACT) if value.is_finite() else value


def round_to(value: Decimal, places: int = 0) -> Decimal:
    """Rounded half away from zero to so many digits behind the point; a negative number before it."""
    return _to_places(value, places, decimal.ROUND_HALF_UP)


def cut_to(value: Decimal, places: int = 0) -> Decimal:
    """Cut to so many digits behind the point; a negative number before it."""
    return _to_places(value, places, decimal.ROUND_DOWN)


def _to_places(value: Decimal, places: int, rounding: str) -> Decimal:
    if not value.is_finite():
        return value
    places = min(max(places, -200_000), MOST_SHOWN * 20)
    result = checked(value.quantize(Decimal(1).scaleb(-min(places, MOST_SCALE)), rounding, EXACT))
    return rounded(result, max(places, 0))


def sign(value: Decimal) -> Decimal:
    """-1, 0 or 1; NaN for NaN."""
    return value if value.is_nan() else Decimal((value > 0) - (value < 0))


def estimate(value: Decimal) -> float:
    """The decimal logarithm of a positive number, roughly."""
    return value.adjusted() + math.log10(float(value.scaleb(-value.adjusted(), EXACT)))


LOG_E: Final = 0.434294481903252
LARGEST: Final = 2**31
"""Exponents below it are taken as whole numbers."""
MOST_EXPONENT: Final = 6000
"""Beyond that Postgres does not compute the exponential."""
SPARE: Final = 8
"""Digits that are computed beyond those that are given."""
LEAST_CLOSE, MOST_CLOSE = Decimal("0.9"), Decimal("1.1")


def _places(digits: float, *values: Decimal) -> int:
    """The digits behind the point of a result that has about so many before it."""
    return min(max(SIGNIFICANT - int(digits), 0, *map(shown_scale, values)), MOST_SHOWN)


def _context(whole: float, places: int) -> decimal.Context:
    context = EXACT.copy()
    context.prec = max(int(whole), 0) + places + SPARE
    return context


def _log_digits(value: Decimal) -> int:
    """About how many decimal digits the natural logarithm has."""
    if value <= 0:
        return 0
    if LEAST_CLOSE <= value <= MOST_CLOSE:
        return (value - 1).adjusted() if value != 1 else 0
    logarithm = math.log(float(value.scaleb(-value.adjusted(), EXACT))) + value.adjusted() * math.log(10)
    return int(math.log10(abs(logarithm)))


def _checked_log(value: Decimal) -> None:
    if value < 0:
        raise ValueError("cannot take logarithm of a negative number")
    if not value:
        raise ValueError("cannot take logarithm of zero")


def _exp(value: Decimal) -> Decimal:
    if value.is_infinite():
        return value if value > 0 else Decimal(0)
    if abs(value) >= MOST_EXPONENT:
        if value > 0:
            raise ValueError("value overflows numeric format")
        return rounded(Decimal(0), MOST_SHOWN)
    digits = float(value) * LOG_E
    if digits > MOST_WHOLE:
        raise ValueError("value overflows numeric format")
    places = _places(min(max(digits, -2000), 2000), value)
    return rounded(_context(digits, places).exp(value), places)


def _ln(value: Decimal) -> Decimal:
    _checked_log(value)
    if value.is_infinite():
        return value
    digits = _log_digits(value)
    places = _places(digits, value)
    return rounded(_context(abs(digits) + 1, places).ln(value), places)


def _log(base: Decimal, value: Decimal) -> Decimal:
    _checked_log(base)
    _checked_log(value)
    if base.is_infinite() or value.is_infinite():
        return Decimal(0) if base.is_infinite() else value
    places = _places(_log_digits(value) - _log_digits(base), base, value)
    context = _context(abs(_log_digits(value)) + 10, places + 10)
    divisor = context.ln(base)
    if not divisor:
        raise ZeroDivisionError
    return rounded(context.divide(context.ln(value), divisor), places)


def _power(base: Decimal, exponent: Decimal) -> Decimal:
    if not base and exponent < 0:
        raise ValueError("zero raised to a negative power is undefined")
    whole = exponent.is_infinite() or exponent == exponent.to_integral_value(context=EXACT)
    if base < 0 and not whole:
        raise ValueError("a negative number raised to a non-integer power yields a complex result")
    if base.is_infinite() or exponent.is_infinite():
        return _power_of_infinity(base, exponent)
    if not base:
        return rounded(Decimal(0), max(SIGNIFICANT, shown_scale(base), shown_scale(exponent)))
    digits = _power_digits(base, exponent)
    if digits > MOST_WHOLE:
        raise ValueError("value overflows numeric format")
    if digits < -MOST_SHOWN - 1:
        return Decimal(0)
    places = _places(digits, base, exponent)
    context = _context(digits, places)
    context.prec += max(exponent.adjusted(), 0)
    return rounded(context.power(base, exponent), places)


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


exp = careful(_exp)
ln = careful(_ln)
log = careful(_log)
log10 = careful(lambda value: _log(Decimal(10), value))


def power(base: Decimal, exponent: Decimal) -> Decimal:
    """One number to the power of another; NaN but for 1 to any, and any to 0."""
    if base == 1 or exponent == 0:
        places = max(SIGNIFICANT, shown_scale(base), shown_scale(exponent))
        return rounded(Decimal(1), min(places, MOST_SHOWN))
    return careful(_power)(base, exponent)
