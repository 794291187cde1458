"""How the aggregates are computed: states of plain Python values, exact wherever the engine's are."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from kpg.runtime.functions import numerics
from kpg.runtime.functions.aggregation import AccumulatorKind, Algorithm, Types, Value
from kpg.runtime.records import dataclass
from kpg.runtime.types import MAX_WORD, MIN_WORD, Type
from kpg.runtime.values import intervals
from kpg.runtime.values.numeric import EXACT, checked, rounded, shown_scale
from kpg.runtime.values.text import limits

Operands = tuple[Value, ...]
BITS = 64


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
    scales: Counter[int] = field(default_factory=Counter)
    """How many of the finite ones have so many digits behind the point: the sum has as many as any."""

    def add(self, value: Decimal, times: int) -> "NumericTotal":
        """This one with a value ``times`` times more; negative ``times`` takes it away."""
        self.count += times
        if value.is_finite():
            self.finite = EXACT.add(self.finite, EXACT.multiply(value, Decimal(times)))
            self.scales[shown_scale(value)] += times
        else:
            self.others[str(value)] += times
        return self

    def merge(self, other: "NumericTotal") -> "NumericTotal":
        """This one with all of the other."""
        self.count += other.count
        self.finite = EXACT.add(self.finite, other.finite)
        self.others.update(other.others)
        self.scales.update(other.scales)
        return self

    def value(self) -> Decimal:
        """The sum."""
        present = {name for name, times in self.others.items() if times}
        if len(present) > 1 or "NaN" in present:
            return Decimal("NaN")
        if present:
            return Decimal(present.pop())
        return rounded(self.finite, max((scale for scale, times in self.scales.items() if times), default=0))


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


def over_numerics(total: type[Any], finish: Callable[[Any], Value]) -> Callable[[Types], Algorithm]:
    """What is computed of NUMERICs by a class such as :class:`NumericTotal`, which adds them up."""
    algorithm = Algorithm(
        initialize=total,
        add=lambda state, operands, times: state.add(operands[0], times),
        subtract=lambda state, operands, times: state.add(operands[0], -times),
        merge=total.merge,
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


def over_bits(kind: AccumulatorKind) -> Callable[[Types], Algorithm]:
    """The bitwise AND, OR or XOR: by how many operands there are, and in how many each bit is set."""

    def add(state: list[int], operands: Operands, times: int) -> list[int]:
        state[0] += times
        for bit in range(BITS):
            state[1 + bit] += times * (operands[0] >> bit & 1)
        return state

    def merge(left: list[int], right: list[int]) -> list[int]:
        left[:] = [one + other for one, other in zip(left, right, strict=True)]
        return left

    def finish(state: list[int]) -> int | None:
        number, *counts = state
        match kind:
            case AccumulatorKind.BIT_AND:
                found = [count == number for count in counts]
            case AccumulatorKind.BIT_OR:
                found = [count > 0 for count in counts]
            case _:
                found = [count % 2 == 1 for count in counts]
        word = sum(1 << bit for bit, is_set in enumerate(found) if is_set)
        return (word - (1 << BITS) if found[-1] else word) if number else None

    algorithm = Algorithm(
        initialize=lambda: [0] * (1 + BITS),
        add=add,
        subtract=lambda state, operands, times: add(state, operands, -times),
        merge=merge,
        finish=finish,
    )
    return lambda types: algorithm
