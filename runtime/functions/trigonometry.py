"""Trigonometric and hyperbolic functions, in radians and in degrees, and the error function.

Those in degrees are exact at multiples of 30 and 45 degrees, as Postgres' are.
"""

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from kpg.runtime.functions import vectors
from kpg.runtime.functions.registry import (
    Composition,
    Memoized,
    Overload,
    Vector,
    Words,
    scalar,
)
from kpg.runtime.functions.rules import fixed
from kpg.runtime.scalar import Literal
from kpg.runtime.types import DOUBLE, float_to_word

RADIAN: Final = math.pi / 180
SIN_30: Final = math.sin(30 * RADIAN)
ONE_MINUS_COS_60: Final = 1 - math.cos(60 * RADIAN)
ASIN_HALF: Final = math.asin(0.5)
ACOS_HALF: Final = math.acos(0.5)
ATAN_ONE: Final = math.atan(1.0)

_one = fixed(DOUBLE, DOUBLE)
_two = fixed(DOUBLE, DOUBLE, DOUBLE)


def _sin_first(x: float) -> float:
    """Of 0 to 90 degrees."""
    return math.sin(x * RADIAN) / SIN_30 / 2 if x <= 30 else _cos_small(90 - x)


def _cos_small(x: float) -> float:
    """Of 0 to 60 degrees."""
    return 1 - (1 - math.cos(x * RADIAN)) / ONE_MINUS_COS_60 / 2


def _cos_first(x: float) -> float:
    """Of 0 to 90 degrees."""
    return _cos_small(x) if x <= 60 else math.sin((90 - x) * RADIAN) / SIN_30 / 2


TAN_45: Final = _sin_first(45) / _cos_first(45)
COT_45: Final = _cos_first(45) / _sin_first(45)


def _turned(x: float) -> tuple[float, int, int]:
    """An angle's counterpart of 0 to 90 degrees, and the signs of its sine and cosine."""
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
    angle, sign, _ = _turned(x)
    return sign * _sin_first(angle)


def cosd(x: float) -> float:
    """The cosine of degrees."""
    angle, _, sign = _turned(x)
    return sign * _cos_first(angle)


def tand(x: float) -> float:
    """The tangent of degrees; infinite at 90."""
    angle, sine, cosine = _turned(x)
    return _over(sine * cosine * _sin_first(angle), _cos_first(angle)) / TAN_45


def cotd(x: float) -> float:
    """The cotangent of degrees; infinite at 0."""
    angle, sine, cosine = _turned(x)
    return _over(sine * cosine * _cos_first(angle), _sin_first(angle)) / COT_45


def _over(value: float, divisor: float) -> float:
    return value / divisor if divisor else math.copysign(math.inf, value)


def _asin_first(x: float) -> float:
    return math.asin(x) / ASIN_HALF * 30 if x <= 0.5 else 90 - math.acos(x) / ACOS_HALF * 60


def asind(x: float) -> float:
    """The angle of a sine, in degrees."""
    return math.copysign(_asin_first(abs(x)), x)


def acosd(x: float) -> float:
    """The angle of a cosine, in degrees."""
    if x < 0:
        return 90 + _asin_first(-x)
    return 90 - math.asin(x) / ASIN_HALF * 30 if x <= 0.5 else math.acos(x) / ACOS_HALF * 60


def atand(x: float) -> float:
    """The angle of a tangent, in degrees."""
    return math.atan(x) / ATAN_ONE * 45


def atan2d(y: float, x: float) -> float:
    """The angle of a point, y before x, in degrees."""
    return math.atan2(y, x) / ATAN_ONE * 45


def atanh(x: float) -> float:
    """Inverse hyperbolic tangent; infinite at 1 and -1."""
    return math.copysign(math.inf, x) if abs(x) == 1 else math.atanh(x)


def cot(x: float) -> float:
    """The cotangent of radians; infinite at 0."""
    return _over(1.0, math.tan(x))


def _vector(name: str, doc: str, example: tuple[str, str], function: Callable[..., Words]) -> None:
    scalar(name, "a number", doc, dict([example]), Overload(_one, Vector(lambda call: function)))


def _python(name: str, doc: str, example: tuple[str, str], function: Callable[[float], float]) -> None:
    scalar(name, "a number", doc, dict([example]), Overload(_one, Memoized(lambda call: function)))


for _name, _doc, _example, _function in (
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
    _vector(_name, _doc, _example, vectors.on_doubles(_function))
_vector("sinh", "Hyperbolic sine.", ("sinh(0)", "0e0"), vectors.unbounded(np.sinh))
_vector("cosh", "Hyperbolic cosine.", ("cosh(0)", "1e0"), vectors.unbounded(np.cosh))

for _name, _example, _plain in (
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
    _python(_name, _plain.__doc__ or "", _example, _plain)

_python("erf", "The error function.", ("erf(0)", "0e0"), math.erf)
_python("erfc", "1 less the error function.", ("erfc(0)", "1e0"), math.erfc)

scalar(
    "atan2",
    "two numbers",
    "The angle of a point, y before x, in radians.",
    {"atan2(0, 1)": "0e0"},
    Overload(_two, Vector(lambda call: vectors.on_doubles(np.arctan2))),
)
scalar(
    "atan2d",
    "two numbers",
    "The angle of a point, y before x, in degrees.",
    {"atan2d(1, 0)": "90e0"},
    Overload(_two, Memoized(lambda call: atan2d)),
)
scalar(
    "pi",
    "nothing",
    "The number pi.",
    {"pi()": "3.141592653589793e0"},
    Overload(fixed(DOUBLE), Composition(lambda call: Literal(float_to_word(math.pi), DOUBLE))),
)
