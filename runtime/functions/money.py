"""MONEY in functions and operators of other types."""

from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Decimal

from kpg.runtime.functions.registry import Memoized, Overload, extend
from kpg.runtime.functions.rules import among
from kpg.runtime.types import BIGINT, DOUBLE, MONEY, Kind, Type
from kpg.runtime.values.small import MOST

OF = frozenset({Kind.MONEY})


def _define(name: str, result: Type, args: tuple[Type, ...], code: Callable[..., object]) -> None:
    extend(name, "MONEY", Overload(among(OF, result, *args), Memoized(lambda call: code)))


def checked(cents: int) -> int:
    """The amount, if it is one."""
    if not -MOST <= cents <= MOST:
        raise OverflowError("money out of range")
    return cents


def _nearest(value: float) -> int:
    return checked(int(Decimal(value).to_integral_value(ROUND_HALF_EVEN)))


def _whole(cents: int, divisor: int) -> int:
    if divisor == 0:
        raise ZeroDivisionError
    found = abs(cents) // abs(divisor)
    return found if (cents < 0) == (divisor < 0) else -found


def _part(cents: int, divisor: float) -> int:
    if divisor == 0:
        raise ZeroDivisionError
    return _nearest(cents / divisor)


_define("add", MONEY, (MONEY, MONEY), lambda x, y: checked(x + y))
_define("sub", MONEY, (MONEY, MONEY), lambda x, y: checked(x - y))
_define("mul", MONEY, (MONEY, DOUBLE), lambda x, by: _nearest(x * by))
_define("mul", MONEY, (DOUBLE, MONEY), lambda by, x: _nearest(x * by))
_define("mul", MONEY, (MONEY, BIGINT), lambda x, by: checked(x * by))
_define("mul", MONEY, (BIGINT, MONEY), lambda by, x: checked(x * by))
_define("div", MONEY, (MONEY, DOUBLE), _part)
_define("div", MONEY, (MONEY, BIGINT), _whole)
_define("div", DOUBLE, (MONEY, MONEY), lambda x, y: x / y)
