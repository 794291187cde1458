"""Variance and standard deviation of NUMERICs, exact up to the digits that Postgres gives them."""

from collections.abc import Callable
from decimal import Decimal
from itertools import product

from kpg.runtime.functions import numerics
from kpg.runtime.functions.aggregation import AggregateFunction, Folded, Types, register
from kpg.runtime.functions.algorithms import over_numerics
from kpg.runtime.functions.registry import Signature
from kpg.runtime.records import dataclass
from kpg.runtime.types import NUMERIC, Kind
from kpg.runtime.values.numeric import EXACT, rounded


@dataclass(slots=True)
class NumericMoments:
    """NUMERICs: how many, of them how many are not finite, their sum and that of their squares."""

    count: int = 0
    others: int = 0
    total: Decimal = Decimal(0)
    squares: Decimal = Decimal(0)

    def add(self, value: Decimal, times: int) -> "NumericMoments":
        """This one with a value ``times`` times more; negative ``times`` takes it away."""
        self.count += times
        if not value.is_finite():
            self.others += times
            return self
        more = EXACT.multiply(value, Decimal(times))
        self.total = EXACT.add(self.total, more)
        self.squares = EXACT.add(self.squares, EXACT.multiply(value, more))
        return self

    def merge(self, other: "NumericMoments") -> "NumericMoments":
        """This one with all of the other."""
        self.count += other.count
        self.others += other.others
        self.total = EXACT.add(self.total, other.total)
        self.squares = EXACT.add(self.squares, other.squares)
        return self

    @property
    def excess(self) -> Decimal:
        """The count times the sum of the squares of the distances from the mean."""
        squares = EXACT.multiply(Decimal(self.count), self.squares)
        return EXACT.subtract(squares, EXACT.multiply(self.total, self.total))


def finished(*, sample: bool, root: bool) -> Callable[[NumericMoments], Decimal | None]:
    """The variance, or its root, of all values or of a sample."""

    def finish(state: NumericMoments) -> Decimal | None:
        divisor = Decimal(state.count) * (state.count - sample)
        if not divisor:
            return None
        if state.others:
            return Decimal("NaN")
        if state.excess <= 0:
            return Decimal(0)
        variance = numerics.divide(state.excess, divisor)
        if not root:
            return variance
        places, context = numerics.quotient_scale(state.excess, divisor), EXACT.copy()
        context.prec = max(variance.adjusted() // 2 + 1, 0) + places + 3
        return rounded(context.sqrt(variance), places)

    return finish


def _numeric(types: Types) -> Signature | None:
    is_numeric = len(types) == 1 and types[0].kind is Kind.NUMERIC
    return Signature((NUMERIC,), NUMERIC) if is_numeric else None


for _sample, _root in product((True, False), repeat=2):
    register(
        AggregateFunction(
            f"${'stddev' if _root else 'var'}_{'samp' if _sample else 'pop'}",
            "a NUMERIC",
            "Spread of NUMERICs.",
            {},
            _numeric,
            over_numerics(NumericMoments, finished(sample=_sample, root=_root)),
            Folded(),
        )
    )
