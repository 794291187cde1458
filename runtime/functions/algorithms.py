"""How the aggregates are computed: states of plain Python values, exact wherever the engine's are."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import field
from decimal import Decimal
from fractions import Fraction

from kpg.runtime.functions import numerics
from kpg.runtime.functions.aggregation import Algorithm, Types, Value
from kpg.runtime.records import dataclass
from kpg.runtime.types import MAX_WORD, MIN_WORD, Type
from kpg.runtime.values import intervals
from kpg.runtime.values.numeric import EXACT, checked
from kpg.runtime.values.text import limits

Operands = tuple[Value, ...]


def counting(types: Types) -> Algorithm:
    """How many rows there are."""
    return Algorithm(
        initialize=lambda: 0,
        add=lambda state, operands, times: state + times,
        subtract=lambda state, operands, times: state - times,
        merge=lambda left, right: left + right,
        finish=lambda state: _checked(state, MIN_WORD, MAX_WORD),
    )


def _checked(value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise OverflowError(f"{value} is not from {low} to {high}")
    return value


@dataclass(slots=True)
class Total:
    """The number of operands, the exact sum of the finite ones, and how many were NaN, inf and -inf."""

    count: int = 0
    finite: int | Fraction = 0
    nans: int = 0
    positive: int = 0
    negative: int = 0

    def add(self, value: int | float, times: int) -> "Total":
        """This one with a value ``times`` times more; negative ``times`` takes it away."""
        self.count += times
        if not isinstance(value, float):
            self.finite += value * times
        elif math.isfinite(value):
            self.finite += Fraction(value) * times
        elif math.isnan(value):
            self.nans += times
        elif value > 0:
            self.positive += times
        else:
            self.negative += times
        return self

    def merge(self, other: "Total") -> "Total":
        """This one with all of the other."""
        self.count += other.count
        self.finite += other.finite
        self.nans += other.nans
        self.positive += other.positive
        self.negative += other.negative
        return self

    def as_float(self, scale: int = 1) -> float:
        """The sum of operands in units of 1 / ``scale``, rounded once; OverflowError beyond any double."""
        if self.nans or (self.positive and self.negative):
            return math.nan
        if self.positive or self.negative:
            return math.inf if self.positive else -math.inf
        return float(Fraction(self.finite) / scale)


def _over_totals(finish: Callable[[Total], Value]) -> Algorithm:
    return Algorithm(
        initialize=Total,
        add=lambda state, operands, times: state.add(operands[0], times),
        subtract=lambda state, operands, times: state.add(operands[0], -times),
        merge=Total.merge,
        finish=lambda state: finish(state) if state.count else None,
    )


def summing(result: Callable[[Type], Type]) -> Callable[[Types], Algorithm]:
    """The sum, of the type that ``result`` gives for the operand's."""

    def algorithm(types: Types) -> Algorithm:
        type_ = result(types[0])
        if type_.is_float:
            return _over_totals(Total.as_float)
        low, high = limits(type_)
        return _over_totals(lambda total: _checked(int(total.finite), low, high))

    return algorithm


@dataclass(slots=True)
class NumericTotal:
    """The number of NUMERICs, the sum of the finite ones, and how many of the others there are."""

    count: int = 0
    finite: Decimal = Decimal(0)
    others: Counter[str] = field(default_factory=Counter)

    def add(self, value: Decimal, times: int) -> "NumericTotal":
        """This one with a value ``times`` times more; negative ``times`` takes it away."""
        self.count += times
        if value.is_finite():
            self.finite = EXACT.add(self.finite, EXACT.multiply(value, Decimal(times)))
        else:
            self.others[str(value)] += times
        return self

    def merge(self, other: "NumericTotal") -> "NumericTotal":
        """This one with all of the other."""
        self.count += other.count
        self.finite = EXACT.add(self.finite, other.finite)
        self.others.update(other.others)
        return self

    def value(self) -> Decimal:
        """The sum."""
        present = {name for name, times in self.others.items() if times}
        if len(present) > 1 or "NaN" in present:
            return Decimal("NaN")
        return Decimal(present.pop()) if present else self.finite


def numeric_total(state: NumericTotal) -> Value:
    """The sum of NUMERICs."""
    return checked(state.value())


def numeric_mean(state: NumericTotal) -> Value:
    """The mean of NUMERICs."""
    return numerics.divide(state.value(), Decimal(state.count))


def over_intervals(*, mean: bool) -> Callable[[Types], Algorithm]:
    """The sum of INTERVALs, part by part, or their mean."""

    def add(state: list[int], operands: Operands, times: int) -> list[int]:
        return [total + part * times for total, part in zip(state, (1, *operands[0]), strict=True)]

    def finish(state: list[int]) -> Value:
        count, *parts = state
        if not count:
            return None
        total = intervals.made(*map(Fraction, parts))
        return intervals.divided(total, count) if mean else total

    algorithm = Algorithm(
        initialize=lambda: [0, 0, 0, 0],
        add=add,
        subtract=lambda state, operands, times: add(state, operands, -times),
        merge=lambda left, right: [a + b for a, b in zip(left, right, strict=True)],
        finish=finish,
    )
    return lambda types: algorithm


def over_numerics(finish: Callable[[NumericTotal], Value]) -> Callable[[Types], Algorithm]:
    """What is computed of the sum and the number of NUMERICs."""
    algorithm = Algorithm(
        initialize=NumericTotal,
        add=lambda state, operands, times: state.add(operands[0], times),
        subtract=lambda state, operands, times: state.add(operands[0], -times),
        merge=NumericTotal.merge,
        finish=lambda state: finish(state) if state.count else None,
    )
    return lambda types: algorithm


def averaging(types: Types) -> Algorithm:
    """The sum as a double, divided by the number of operands."""
    scale = 10 ** types[0].scale if types[0].is_exact else 1

    return _over_totals(lambda total: total.as_float(scale) / total.count)


def rank(value: Value) -> tuple[bool, Value]:
    """What values that are not NULL are ordered by: NaN is larger than any other number."""
    nan = value != value
    return nan, 0.0 if nan else value


def extreme(largest: bool) -> Callable[[Types], Algorithm]:
    """The smallest or the largest value."""

    def better(left: Value, right: Value) -> Value:
        if left is None or right is None:
            return right if left is None else left
        return max(left, right, key=rank) if largest else min(left, right, key=rank)

    algorithm = Algorithm(
        initialize=lambda: None,
        add=lambda state, operands, times: better(state, operands[0]),
        merge=better,
        finish=lambda state: state,
    )
    return lambda types: algorithm


@dataclass(slots=True)
class Moments:
    """The totals of operands and of their squares, each square rounded to a double first.

    Adding an operand whose square is no double raises OverflowError.
    """

    plain: Total = field(default_factory=Total)
    squares: Total = field(default_factory=Total)

    def add(self, value: float, times: int) -> "Moments":
        """This one with a value ``times`` times more; negative ``times`` takes it away."""
        square = value * value
        if math.isinf(square) and math.isfinite(value):
            raise OverflowError(f"the square of {value} is no DOUBLE")
        self.plain.add(value, times)
        self.squares.add(square, times)
        return self

    def merge(self, other: "Moments") -> "Moments":
        """This one with all of the other."""
        self.plain.merge(other.plain)
        self.squares.merge(other.squares)
        return self


def spreading(*, sample: bool, root: bool) -> Callable[[Types], Algorithm]:
    """Variance (of a sample, of n values, divided by n - 1; or of all values), or its square root."""

    def finish(state: Moments) -> float | None:
        count = state.plain.count
        if count <= (1 if sample else 0):
            return None
        total = state.plain.as_float()
        excess = state.squares.as_float() - total * total / count
        variance = max(excess, 0.0) / (count - 1 if sample else count)
        return math.sqrt(variance) if root else variance

    def algorithm(types: Types) -> Algorithm:
        scale = 10 ** types[0].scale if types[0].is_exact else 1

        def value(operand: int | float) -> float:
            return float(operand) / scale

        return Algorithm(
            initialize=Moments,
            add=lambda state, operands, times: state.add(value(operands[0]), times),
            subtract=lambda state, operands, times: state.add(value(operands[0]), -times),
            merge=Moments.merge,
            finish=finish,
        )

    return algorithm
