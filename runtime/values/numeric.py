"""NUMERIC: decimals of any precision, NaN and the infinities, as ``decimal.Decimal``.

The string of a number is its sign, exponent, and digits without trailing zeros; a negative number has all of
that complemented, so strings order as values do. The scale follows if trailing zeros are displayed: 1.0 and
1.00 have different strings, and ``trimmed`` maps both to one.
"""

import decimal
import functools
import math
import numbers
from decimal import Decimal
from typing import Any, Final

from kpg.runtime.types import Kind, Type
from kpg.runtime.values.codec import COMPLEMENT, Codec
from kpg.runtime.values.words import BLANKS, Mistyped, Unfit

MOST_WHOLE: Final = 131_072
"""Digits before the point, as in Postgres."""
MOST_SCALE: Final = 16_383
"""Digits after the point, as in Postgres."""
MOST_PRECISION: Final = 1000
"""Of NUMERIC(precision, scale)."""
EXACT: Final = decimal.Context(
    prec=MOST_WHOLE + MOST_SCALE + 10,
    rounding=decimal.ROUND_HALF_UP,
    Emin=-1_000_000,
    Emax=1_000_000,
    traps=[decimal.InvalidOperation],
)
"""As many digits as there can be."""
OFFSET: Final = 200_000
"""Added to exponents, so that all have six digits."""
NAN, INFINITY, NEGATIVE_INFINITY, ZERO = "z", "y", "a", "o"
SCALE: Final = "!"
"""What comes before a scale: it is less than any digit."""
FIGURES: Final = "0123456789."


def codec(type_: Type) -> Codec:
    """The codec of NUMERIC, or of NUMERIC(precision, scale)."""
    fit = functools.partial(fitted, type_)
    return Codec(
        encode=encode,
        decode=decode,
        parse=lambda text: fit(parse(text)),
        show=shown,
        to_python=_scaled,
        from_python=functools.partial(_from_python, type_),
        expected="a Decimal, an int, a float, or a text such as '2.50'",
    )


def encode(value: Decimal) -> str:
    """The string that stands for a number."""
    if value.is_nan():
        return NAN
    if value.is_infinite():
        return INFINITY if value > 0 else NEGATIVE_INFINITY
    body, _, power = f"{value:E}".partition("E")  # all digits, one before the point: quicker than as a tuple
    sign, adjusted = body[0] == "-", int(power)
    text = body.lstrip("-").replace(".", "")
    exponent = adjusted - len(text) + 1
    text = text.lstrip("0")
    short = text.rstrip("0")
    if not short:
        return f"{ZERO}{SCALE}{-exponent:05d}" if exponent < 0 else ZERO
    least = max(0, len(short) - len(text) - exponent)
    shown = f"{SCALE}{-exponent:05d}" if -exponent > least else ""
    order = f"{adjusted + OFFSET:06d}"
    return f"n{(order + short).translate(COMPLEMENT)}~{shown}" if sign else f"p{order}{short}{shown}"


def spelled(number: int, places: int) -> str:
    """As :func:`encode`, of a whole number of units of the last of some digits behind the point."""
    text = str(abs(number))
    short = text.rstrip("0") if number else ""
    if not short:
        return f"{ZERO}{SCALE}{places:05d}" if places else ZERO
    least = max(0, len(short) - len(text) + places)
    shown = f"{SCALE}{places:05d}" if places > least else ""
    order = f"{len(text) - 1 - places + OFFSET:06d}"
    return f"n{(order + short).translate(COMPLEMENT)}~{shown}" if number < 0 else f"p{order}{short}{shown}"


def decode(string: str) -> Decimal:
    """The number that a string stands for."""
    match string[0]:
        case "z":
            return Decimal("NaN")
        case "y":
            return Decimal("Infinity")
        case "a":
            return Decimal("-Infinity")
    string, _, scale = string.partition(SCALE)
    if string == ZERO:
        return Decimal((0, (0,), -int(scale or 0)))
    body = string[1:] if string[0] == "p" else string[1:-1].translate(COMPLEMENT)
    digits = body[6:]
    exponent = int(body[:6]) - OFFSET - len(digits) + 1
    lowest = -int(scale) if scale else min(exponent, 0)
    value = int(digits) * 10 ** (exponent - lowest)
    return Decimal(value if string[0] == "p" else -value).scaleb(lowest, EXACT)


def trimmed(value: Decimal) -> Decimal:
    """The number without zeros at the end: what equal numbers have in common."""
    return rounded(value, scale_of(value)) if value.is_finite() else value


def parse(text: str) -> Decimal:
    """The number that a text means in SQL, as hexadecimal and with underscores too; ValueError if none."""
    body = text.strip(BLANKS)
    sign = body[:1] if body[:1] in ("+", "-") else ""
    body = body[len(sign) :]
    word = body.lower()
    if word in ("nan", "inf", "infinity"):
        if word == "nan" and sign:
            raise ValueError("not a number")
        return Decimal(f"{sign}{word}")
    if word[:2] in ("0x", "0o", "0b"):
        return checked(Decimal(int(f"{sign}{word}", 0)))
    if not word or word[0] not in FIGURES or word[-1] not in FIGURES or not word.isascii() or "n" in word:
        raise ValueError("not a number")
    try:
        value = checked(Decimal(f"{sign}{word}"))
        return rounded(value, 0) if value.as_tuple().exponent > 0 else value  # type: ignore[operator]
    except decimal.InvalidOperation:
        raise ValueError("not a number") from None


def checked(value: Decimal) -> Decimal:
    """The number, if it has no more digits than Postgres keeps; those too far behind the point are cut."""
    if not value.is_finite():
        return value
    if value.adjusted() >= MOST_WHOLE and value:
        raise OverflowError("numeric out of range")
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    return rounded(value, MOST_SCALE) if exponent < -MOST_SCALE else value


def rounded(value: Decimal, scale: int) -> Decimal:
    """The number with so many digits behind the point, half away from zero."""
    return value.quantize(Decimal(1).scaleb(-scale), decimal.ROUND_HALF_UP, EXACT)


def fitted(type_: Type, value: Decimal) -> Decimal:
    """The number rounded to the type's scale; OverflowError if it has too many digits."""
    if not type_.precision or value.is_nan():
        return value
    if value.is_infinite():
        raise OverflowError(f"an infinity is no {type_}")
    value = rounded(value, type_.scale)
    if value and value.adjusted() >= type_.precision - type_.scale:
        raise OverflowError(f"more digits than {type_} has")
    return value


def shown_scale(value: Decimal) -> int:
    """Digits behind the point, zeros at the end too."""
    exponent = value.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def scale_of(value: Decimal) -> int:
    """Digits behind the point, without zeros at the end."""
    if not value.is_finite() or not value:
        return 0
    exponent = value.normalize(EXACT).as_tuple().exponent
    assert isinstance(exponent, int)
    return max(0, -exponent)


def _scaled(value: Decimal) -> Decimal:
    """As rows have it: without an exponent above 0."""
    return rounded(value, shown_scale(value)) if value.is_finite() else value


def shown(value: Decimal) -> str:
    """As Postgres writes it."""
    if value.is_nan():
        return "NaN"
    if value.is_infinite():
        return "Infinity" if value > 0 else "-Infinity"
    text = f"{value:f}"
    return text if value or text[0] != "-" else text[1:]


def _from_python(type_: Type, value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (Decimal, str, numbers.Real)):
        raise Mistyped
    try:
        return fitted(type_, _number(value))
    except (ValueError, ArithmeticError):
        raise Unfit from None


def _number(value: Any) -> Decimal:
    if isinstance(value, str):
        return parse(value)
    if isinstance(value, Decimal):
        return Decimal("NaN") if value.is_nan() else checked(value)
    if isinstance(value, numbers.Integral):
        return checked(Decimal(int(value)))
    return from_float(float(value))


def from_float(value: float) -> Decimal:
    """The decimal of fewest digits that a float is nearest to."""
    if math.isnan(value):
        return Decimal("NaN")
    return Decimal(repr(value).removesuffix(".0"))  # 5.0 has no digit behind its point, as in Postgres


def of_number(value: int | float, source: Type, target: Type) -> Decimal:
    """A value of another type of numbers as NUMERIC; a float by the digits that tell it from others."""
    if isinstance(value, float):
        digits = 6 if source.kind is Kind.REAL else 15
        number = Decimal(f"{value:.{digits}g}") if math.isfinite(value) else from_float(value)
    else:
        number = Decimal(value).scaleb(-source.scale, EXACT)
    return fitted(target, number)


def to_number(value: Decimal, target: Type) -> Decimal | int | float:
    """A NUMERIC as a value of another type of numbers, half away from zero; OverflowError if it has none."""
    if target.kind is Kind.NUMERIC:
        return fitted(target, value)
    if target.is_float:
        number = float(value)
        if math.isinf(number) and value.is_finite():
            raise OverflowError(f"{value} is no {target}")
        return number
    if not value.is_finite():
        raise OverflowError(f"{value} is no {target}")
    return int(rounded(value, target.scale).scaleb(target.scale, EXACT))
