"""The slow truth about what means, wide sums and spreads of exact numbers are made of.

A word is ``high * HALF + low``, both with its sign.
"""

from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from typing import Any

HALF = 3_037_000_500
CONTEXT = Context(prec=60)


def quotient(left: Decimal | int, right: Decimal | int) -> Decimal:
    """Of two exact numbers, to many digits."""
    return CONTEXT.divide(Decimal(left), Decimal(right))


def _mean(total: Decimal | int, count: int) -> Decimal | None:
    return quotient(total, count) if count else None


def _spread(*, sample: bool, root: bool) -> Callable[..., Decimal | None]:
    def apply(scale: int, count: int, *sums: int) -> Decimal | None:
        if len(sums) == 3:
            total, squares = sums[0], sums[1] * HALF + sums[2]
        else:
            high, low, *halves = sums
            high_high, high_low, low_low = (halves[i] * HALF + halves[i + 1] for i in (0, 2, 4))
            total, squares = high * HALF + low, high_high * HALF**2 + 2 * high_low * HALF + low_low
        divisor = count * (count - sample)
        excess = count * squares - total**2
        if not divisor or excess < 0:
            return None
        variance = quotient(excess, divisor * 10 ** (2 * scale))
        return CONTEXT.sqrt(variance) if root else variance

    return apply


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "$key": lambda x: x,
    "$div": lambda x, y: _truncated(x, y),
    "$mod": lambda x, y: x - y * _truncated(x, y),
    "$mul": lambda x, y: x * y,
    "$wide_sum": lambda high, low: Decimal(high * HALF + low),
    "$wide_mean": lambda high, low, count: _mean(high * HALF + low, count),
    "$mean": _mean,
    "$spread_samp_root": _spread(sample=True, root=True),
    "$spread_samp_square": _spread(sample=True, root=False),
    "$spread_pop_root": _spread(sample=False, root=True),
    "$spread_pop_square": _spread(sample=False, root=False),
}
"""Of arguments that are not NULL; what is made of sums that do not belong together is NULL."""


def _truncated(x: int, y: int) -> int:
    return abs(x) // y * (1 if x >= 0 else -1)
