"""NUMERIC: decimals of any precision, NaN and the infinities, as ``decimal.Decimal``.

The string of a number is its sign, exponent, and digits without trailing zeros. For a negative number
all of that is complemented, so strings order as values do. The scale follows if trailing zeros are
displayed: 1.0 and 1.00 have different strings, and ``strip_zeros`` maps both to one number.
"""

import decimal
import functools
import math
import numbers
from decimal import Decimal
from typing import Any, Final

from kpg.runtime.types import Kind, Type
from kpg.runtime.values.codec import DIGIT_COMPLEMENT, Codec
from kpg.runtime.values.words import BLANKS, UnrepresentableValue, WrongPythonType

MAX_INTEGER_DIGITS: Final = 131_072
"""Maximum number of digits before the point, as in Postgres."""
MAX_SCALE: Final = 16_383
"""Maximum number of digits after the point, as in Postgres."""
MAX_PRECISION: Final = 1000
"""Maximum precision of NUMERIC(precision, scale)."""
EXACT: Final = decimal.Context(
    prec=MAX_INTEGER_DIGITS + MAX_SCALE + 10,
    rounding=decimal.ROUND_HALF_UP,
    Emin=-1_000_000,
    Emax=1_000_000,
    traps=[decimal.InvalidOperation],
)
"""Context that holds every NUMERIC exactly."""
EXPONENT_BIAS: Final = 200_000
"""Bias of exponents, so that all have six digits."""
NAN, INFINITY, NEGATIVE_INFINITY, ZERO = "z", "y", "a", "o"
SCALE_MARK: Final = "!"
"""Prefix of a scale. It orders before digits."""
NUMBER_CHARACTERS: Final = "0123456789."


def codec(type_: Type) -> Codec:
    """Return the codec of NUMERIC, or of NUMERIC(precision, scale)."""
    fit = functools.partial(fit_precision, type_)
    return Codec(
        encode=encode,
        decode=decode,
        parse=lambda text: fit(parse(text)),
        show=show,
        to_python=_without_exponent,
        from_python=functools.partial(_from_python, type_),
        input_hint="a Decimal, an int, a float, or a text such as '2.50'",
    )


def encode(value: Decimal) -> str:
    """Encode a number as an order-preserving string."""
    if value.is_nan():
        return NAN
    if value.is_infinite():
        return INFINITY if value > 0 else NEGATIVE_INFINITY
    body, _, power = f"{value:E}".partition("E")  # faster than as_tuple()
    sign, adjusted = body[0] == "-", int(power)
    text = body.lstrip("-").replace(".", "")
    exponent = adjusted - len(text) + 1
    text = text.lstrip("0")
    significant = text.rstrip("0")
    if not significant:
        return f"{ZERO}{SCALE_MARK}{-exponent:05d}" if exponent < 0 else ZERO
    min_scale = max(0, len(significant) - len(text) - exponent)
    scale_suffix = f"{SCALE_MARK}{-exponent:05d}" if -exponent > min_scale else ""
    order = f"{adjusted + EXPONENT_BIAS:06d}"
    return (
        f"n{(order + significant).translate(DIGIT_COMPLEMENT)}~{scale_suffix}"
        if sign
        else f"p{order}{significant}{scale_suffix}"
    )


def encode_units(number: int, places: int) -> str:
    """Like :func:`encode`, for an integer in units of the last of ``places`` digits behind the point."""
    text = str(abs(number))
    significant = text.rstrip("0") if number else ""
    if not significant:
        return f"{ZERO}{SCALE_MARK}{places:05d}" if places else ZERO
    min_scale = max(0, len(significant) - len(text) + places)
    scale_suffix = f"{SCALE_MARK}{places:05d}" if places > min_scale else ""
    order = f"{len(text) - 1 - places + EXPONENT_BIAS:06d}"
    return (
        f"n{(order + significant).translate(DIGIT_COMPLEMENT)}~{scale_suffix}"
        if number < 0
        else f"p{order}{significant}{scale_suffix}"
    )


def decode(string: str) -> Decimal:
    """Decode the string of a number."""
    match string[0]:
        case "z":
            return Decimal("NaN")
        case "y":
            return Decimal("Infinity")
        case "a":
            return Decimal("-Infinity")
    string, _, scale = string.partition(SCALE_MARK)
    if string == ZERO:
        return Decimal((0, (0,), -int(scale or 0)))
    body = string[1:] if string[0] == "p" else string[1:-1].translate(DIGIT_COMPLEMENT)
    digits = body[6:]
    exponent = int(body[:6]) - EXPONENT_BIAS - len(digits) + 1
    lowest = -int(scale) if scale else min(exponent, 0)
    value = int(digits) * 10 ** (exponent - lowest)
    return Decimal(value if string[0] == "p" else -value).scaleb(lowest, EXACT)


def strip_zeros(value: Decimal) -> Decimal:
    """Return the number without trailing zeros, the same for equal numbers."""
    return round_to_scale(value, significant_scale(value)) if value.is_finite() else value


def parse(text: str) -> Decimal:
    """Parse an SQL number, also with underscores or in hexadecimal, octal or binary.

    Raises:
        ValueError: The text is not a number.
    """
    body = text.strip(BLANKS)
    sign = body[:1] if body[:1] in ("+", "-") else ""
    body = body[len(sign) :]
    word = body.lower()
    if word in ("nan", "inf", "infinity"):
        if word == "nan" and sign:
            raise ValueError("not a number")
        return Decimal(f"{sign}{word}")
    if word[:2] in ("0x", "0o", "0b"):
        return check_range(Decimal(int(f"{sign}{word}", 0)))
    if (
        not word
        or word[0] not in NUMBER_CHARACTERS
        or word[-1] not in NUMBER_CHARACTERS
        or not word.isascii()
        or "n" in word
    ):
        raise ValueError("not a number")
    try:
        value = check_range(Decimal(f"{sign}{word}"))
        return round_to_scale(value, 0) if value.as_tuple().exponent > 0 else value  # type: ignore[operator]
    except decimal.InvalidOperation:
        raise ValueError("not a number") from None


def check_range(value: Decimal) -> Decimal:
    """Return the number, rounded to the maximum scale.

    Raises:
        OverflowError: It has more digits than Postgres supports.
    """
    if not value.is_finite():
        return value
    if value.adjusted() >= MAX_INTEGER_DIGITS and value:
        raise OverflowError("numeric out of range")
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    return round_to_scale(value, MAX_SCALE) if exponent < -MAX_SCALE else value


def round_to_scale(value: Decimal, scale: int) -> Decimal:
    """Round to a number of digits behind the point, half away from zero."""
    return value.quantize(Decimal(1).scaleb(-scale), decimal.ROUND_HALF_UP, EXACT)


def fit_precision(type_: Type, value: Decimal) -> Decimal:
    """Round the number to the type's scale.

    Raises:
        OverflowError: It has too many digits for the type.
    """
    if not type_.precision or value.is_nan():
        return value
    if value.is_infinite():
        raise OverflowError(f"an infinity is no {type_}")
    value = round_to_scale(value, type_.scale)
    if value and value.adjusted() >= type_.precision - type_.scale:
        raise OverflowError(f"more digits than {type_} has")
    return value


def display_scale(value: Decimal) -> int:
    """Return the number of digits behind the point, including trailing zeros."""
    exponent = value.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def significant_scale(value: Decimal) -> int:
    """Return the number of digits behind the point without trailing zeros."""
    if not value.is_finite() or not value:
        return 0
    exponent = value.normalize(EXACT).as_tuple().exponent
    assert isinstance(exponent, int)
    return max(0, -exponent)


def _without_exponent(value: Decimal) -> Decimal:
    """Return the number without a positive exponent, as result rows have it."""
    return round_to_scale(value, display_scale(value)) if value.is_finite() else value


def show(value: Decimal) -> str:
    """Format like Postgres."""
    if value.is_nan():
        return "NaN"
    if value.is_infinite():
        return "Infinity" if value > 0 else "-Infinity"
    text = f"{value:f}"
    return text if value or text[0] != "-" else text[1:]


def _from_python(type_: Type, value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (Decimal, str, numbers.Real)):
        raise WrongPythonType
    try:
        return fit_precision(type_, _to_decimal(value))
    except (ValueError, ArithmeticError):
        raise UnrepresentableValue from None


def _to_decimal(value: Any) -> Decimal:
    if isinstance(value, str):
        return parse(value)
    if isinstance(value, Decimal):
        return Decimal("NaN") if value.is_nan() else check_range(value)
    if isinstance(value, numbers.Integral):
        return check_range(Decimal(int(value)))
    return from_float(float(value))


def from_float(value: float) -> Decimal:
    """Return the decimal with the fewest digits that identifies a float."""
    if math.isnan(value):
        return Decimal("NaN")
    return Decimal(repr(value).removesuffix(".0"))  # 5.0 has no digit behind its point, as in Postgres


def from_number(value: int | float, source: Type, target: Type) -> Decimal:
    """Convert a number of another type to NUMERIC. A float keeps 15 significant digits, a REAL 6."""
    if isinstance(value, float):
        digits = 6 if source.kind is Kind.REAL else 15
        number = Decimal(f"{value:.{digits}g}") if math.isfinite(value) else from_float(value)
    else:
        number = Decimal(value).scaleb(-source.scale, EXACT)
    return fit_precision(target, number)


def to_number(value: Decimal, target: Type) -> Decimal | int | float:
    """Convert a NUMERIC to another type of numbers, rounded half away from zero.

    Raises:
        OverflowError: The type cannot hold the number.
    """
    if target.kind is Kind.NUMERIC:
        return fit_precision(target, value)
    if target.is_float:
        number = float(value)
        if math.isinf(number) and value.is_finite():
            raise OverflowError(f"{value} is no {target}")
        return number
    if not value.is_finite():
        raise OverflowError(f"{value} is no {target}")
    return int(round_to_scale(value, target.scale).scaleb(target.scale, EXACT))
