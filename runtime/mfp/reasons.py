"""Why an operation has no value, in Postgres' words, without the place and the operands."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from kpg.runtime.types import Kind, Type

OF_ANGLES: Final = frozenset(
    (
        *("asin", "acos", "asind", "acosd", "atanh", "acosh"),
        *("sin", "cos", "tan", "cot", "sind", "cosd", "tand", "cotd"),
    )
)
"""Functions of angles, and those that give them."""


def reason(function: str, type_: Type, values: Sequence[Any]) -> str:
    """What is wrong with the operands of a function of numbers that has no value for them."""
    try:
        found = SPECIAL[function](values) if function in SPECIAL else None
    except (ArithmeticError, TypeError, ValueError):
        found = None
    if found is not None:
        return found
    if function in OF_ANGLES:
        return "input is out of range"
    return out_of_range(type_)


def out_of_range(type_: Type) -> str:
    """A number is beyond its type."""
    match type_.kind:
        case Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT:
            return f"{type_.kind.value.lower()} out of range"
        case Kind.REAL | Kind.DOUBLE:
            return "value out of range: overflow"
        case Kind.NUMERIC | Kind.DECIMAL:
            return "value overflows numeric format"
        case _:
            return "value out of range"


def _logarithm(values: Sequence[Any]) -> str | None:
    if any(value < 0 for value in values):
        return "cannot take logarithm of a negative number"
    if any(value == 0 for value in values):
        return "cannot take logarithm of zero"
    return "division by zero" if len(values) > 1 else None


def _power(values: Sequence[Any]) -> str | None:
    base, exponent = values
    if base == 0 and exponent < 0:
        return "zero raised to a negative power is undefined"
    if base < 0 and (math.isinf(exponent) or exponent != int(exponent)):
        return "a negative number raised to a non-integer power yields a complex result"
    return None


def _bucket(values: Sequence[Any]) -> str | None:
    operand, low, high, count = values
    if count <= 0:
        return "count must be greater than zero"
    if any(value != value for value in (operand, low, high)):
        return "operand, lower bound, and upper bound cannot be NaN"
    if math.isinf(low) or math.isinf(high):
        return "lower and upper bounds must be finite"
    return "lower bound cannot equal upper bound" if low == high else None


SPECIAL: Final[dict[str, Callable[[Sequence[Any]], str | None]]] = {
    "sqrt": lambda values: "cannot take square root of a negative number" if values[0] < 0 else None,
    "ln": _logarithm,
    "log": _logarithm,
    "log10": _logarithm,
    "power": _power,
    "factorial": lambda values: "factorial of a negative number is undefined" if values[0] < 0 else None,
    "width_bucket": _bucket,
}
