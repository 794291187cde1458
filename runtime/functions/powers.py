"""Exponentials, logarithms and powers of NUMERIC, with as many digits behind the point as Postgres gives."""

import decimal
import math
from decimal import Decimal
from typing import Final

from kpg.runtime.functions.numerics import MOST_SHOWN, SIGNIFICANT, careful
from kpg.runtime.values.numeric import EXACT, MOST_WHOLE, rounded, shown_scale

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
