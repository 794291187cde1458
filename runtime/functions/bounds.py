"""Words compared with a NUMERIC: with the nearest word below it, or above it.

``price > average`` holds for the prices above the average cut to the digits that a price has. So what is
compared are words, which indexes have in order.
"""

import decimal
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Final

from kpg.runtime.functions import shadows
from kpg.runtime.functions.registry import Memoized, primitive
from kpg.runtime.scalar import Call, Literal, Scalar
from kpg.runtime.types import BIGINT, MAX_DECIMAL_PRECISION, MIN_WORD, Kind, Type
from kpg.runtime.types import decimal as decimal_type
from kpg.runtime.values import numeric
from kpg.runtime.values.text import limits

BELOW: Final = {"gt": "$below", "le": "$below", "ge": "$above", "lt": "$above"}
"""What a word on the left is compared with instead of a NUMERIC on the right."""
SWAPPED: Final = {"gt": "lt", "lt": "gt", "ge": "le", "le": "ge"}


def bounded(name: str, args: Sequence[Scalar]) -> list[Scalar]:
    """The sides of a comparison, of which a NUMERIC beside an integer or DECIMAL is brought to its words."""
    if name not in BELOW or len(args) != 2:
        return list(args)
    left, right = args
    if left.type.is_exact and right.type.kind is Kind.NUMERIC:
        return [left, _bound(BELOW[name], right, left.type)]
    if right.type.is_exact and left.type.kind is Kind.NUMERIC:
        return [_bound(BELOW[SWAPPED[name]], left, right.type), right]
    return list(args)


def _bound(function: str, value: Scalar, beside: Type) -> Scalar:
    type_ = BIGINT if beside.is_integer else decimal_type(MAX_DECIMAL_PRECISION, beside.scale)
    if isinstance(value, Literal) and isinstance(value.value, str):
        return Literal(_word(function, type_)(numeric.decode(value.value)), type_)
    return Call(function, (value,), type_)


def _word(function: str, type_: Type) -> Callable[[Decimal], int]:
    """The nearest word of a type; its first or last if there is none as small or large."""
    rounding = decimal.ROUND_FLOOR if function == "$below" else decimal.ROUND_CEILING
    low, high = _ends(type_)

    def convert(value: Decimal) -> int:
        if value.is_nan():
            return high
        if not value.is_finite() or value.adjusted() > MAX_DECIMAL_PRECISION + 1:
            return high if value > 0 else low
        word = int(value.scaleb(type_.scale, numeric.EXACT).to_integral_value(rounding, numeric.EXACT))
        return min(max(word, low), high)

    return convert


def _ends(type_: Type) -> tuple[int, int]:
    """The first and last word that a bound is; what memos keep is never the lowest of all."""
    low, high = limits(type_)
    return max(low, MIN_WORD + 1), high


def _word_of_units(function: str, type_: Type) -> Callable[[tuple[int, int]], int]:
    """As :func:`_word`, of a number in units of its last digit."""
    low, high = _ends(type_)

    def convert(value: tuple[int, int]) -> int:
        units, places = value
        above, below = 10 ** max(type_.scale - places, 0), 10 ** max(places - type_.scale, 0)
        word = units * above // below if function == "$below" else -(-units * above // below)
        return min(max(word, low), high)

    return convert


for _name in ("$below", "$above"):
    primitive(
        _name,
        Memoized(
            lambda call: _word(call.function, call.type),
            units=lambda call: _word_of_units(call.function, call.type),
            shadow=shadows.strict,
        ),
    )
