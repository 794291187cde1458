"""Variance, covariance and regression aggregates, composed of exact sums of products.

``$comoment`` is sum(x * y) - sum(x) * sum(y) / n over exact sums: no cancellation error, and deletions
leave no residue.
"""

import math
from collections.abc import Callable
from fractions import Fraction

from kpg.runtime.functions.aggregation.builtins import number_rule
from kpg.runtime.functions.aggregation.definition import (
    Accumulable,
    AccumulatorKind,
    AggregateFunction,
    Algorithm,
    Composite,
    Part,
    Types,
    Value,
    register,
)
from kpg.runtime.functions.registry import Signature
from kpg.runtime.functions.type_rules import is_unknown
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, If, Literal, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, DOUBLE, EXACT_KINDS, Kind, float_to_word

Operands = tuple[Value, ...]


@dataclass(slots=True)
class Moments:
    """Moments of pairs without NULLs: count, number of pairs that are not finite, and exact sums."""

    count: int = 0
    non_finite: int = 0
    first: Fraction = Fraction(0)
    second: Fraction = Fraction(0)
    squares: Fraction = Fraction(0)
    products: Fraction = Fraction(0)
    second_squares: Fraction = Fraction(0)

    def add(self, operands: Operands, times: int) -> "Moments":
        """Add a pair ``times`` times and return self. A negative ``times`` removes it."""
        first, second = operands[0], operands[-1]
        if first is None or second is None:
            return self
        self.count += times
        if not (math.isfinite(first) and math.isfinite(second)):
            self.non_finite += times
            return self
        x, y = Fraction(first), Fraction(second)
        self.first += x * times
        self.second += y * times
        self.squares += x * x * times
        self.products += x * y * times
        self.second_squares += y * y * times
        return self

    def merge(self, other: "Moments") -> "Moments":
        """Add all of another state and return self."""
        self.count += other.count
        self.non_finite += other.non_finite
        self.first += other.first
        self.second += other.second
        self.squares += other.squares
        self.products += other.products
        self.second_squares += other.second_squares
        return self

    @property
    def sxx(self) -> float:
        """Sum of squared distances of the first numbers from their mean."""
        return self._to_float(self.squares - self.first * self.first / self.count)

    @property
    def sxy(self) -> float:
        """Sum of the products of both numbers' distances from their means."""
        return self._to_float(self.products - self.first * self.second / self.count)

    @property
    def syy(self) -> float:
        """Sum of squared distances of the second numbers from their mean."""
        return self._to_float(self.second_squares - self.second * self.second / self.count)

    @property
    def means(self) -> tuple[float, float]:
        """Means of the first and the second numbers."""
        return self._to_float(self.first / self.count), self._to_float(self.second / self.count)

    def _to_float(self, exact: Fraction) -> float:
        return math.nan if self.non_finite else float(exact)


def _moments_algorithm(finish: Callable[[Moments], Value], scale: int = 1) -> Algorithm:
    def unscale(operands: Operands) -> Operands:
        return operands if scale == 1 else tuple(Fraction(one, scale) for one in operands)

    return Algorithm(
        initialize=Moments,
        add=lambda state, operands, times: state.add(unscale(operands), times),
        subtract=lambda state, operands, times: state.add(unscale(operands), -times),
        merge=Moments.merge,
        finish=lambda state: finish(state) if state.count else None,
    )


def _pair_rule(types: Types) -> Signature | None:
    same = len(types) == 2 and types[0] == types[1]
    return Signature(types, DOUBLE) if same and (types[0] == DOUBLE or types[0].is_exact) else None


register(
    AggregateFunction(
        "$comoment",
        "two numbers of one type",
        "The sum of the products of both numbers' distances from their means.",
        {},
        _pair_rule,
        lambda types: _moments_algorithm(lambda state: state.sxy),
        Accumulable(AccumulatorKind.COMOMENT),
    )
)


def _double_call(function: str, *args: Scalar) -> Scalar:
    return Call(function, args, DOUBLE)


def _double(scalar: Scalar) -> Scalar:
    return scalar if scalar.type == DOUBLE else Call("cast", (scalar,), DOUBLE)


def _constant(value: float) -> Scalar:
    return Literal(float_to_word(value), DOUBLE)


def _null_if_zero(scalar: Scalar) -> Scalar:
    """Return the number, or NULL for 0."""
    return _double_call("nullif", scalar, _constant(0.0))


def _spread_composite(*, sample: bool, root: bool) -> Composite:
    def build(args: tuple[Scalar, ...]) -> tuple[tuple[Part, ...], Scalar]:
        value = args[0] if args[0].type.is_exact else _double(args[0])
        squares: Scalar = Column(0, DOUBLE)
        if value.type.is_exact and value.type.scale:
            squares = _double_call("div", squares, _constant(10.0 ** (2 * value.type.scale)))
        number = _double(Column(1, BIGINT))
        divisor = _null_if_zero(_double_call("sub", number, _constant(1.0)) if sample else number)
        variance = _double_call("div", squares, divisor)
        parts = (Part("$comoment", (value, value)), Part("count", (value,)))
        return parts, _double_call("sqrt", variance) if root else variance

    return Composite(build)


def _spread_algorithm(*, sample: bool, root: bool) -> Callable[[Types], Algorithm]:
    def finish(state: Moments) -> float | None:
        divisor = state.count - 1 if sample else state.count
        if not divisor:
            return None
        return math.sqrt(state.sxx / divisor) if root else state.sxx / divisor

    return lambda types: _moments_algorithm(finish, 10 ** types[0].scale if types[0].is_exact else 1)


_SPREADS: tuple[tuple[str, str, str, bool, bool], ...] = (
    ("stddev", "Standard deviation of a sample.", "1.0", True, True),
    ("stddev_samp", "Standard deviation of a sample.", "1.0", True, True),
    ("stddev_pop", "Standard deviation of all values.", "0.816496580927726", False, True),
    ("variance", "Variance of a sample.", "1.0", True, False),
    ("var_samp", "Variance of a sample.", "1.0", True, False),
    ("var_pop", "Variance of all values.", "0.6666666666666666", False, False),
)
for _name, _doc, _expected, _sample, _root in _SPREADS:
    register(
        AggregateFunction(
            _name,
            "a number",
            _doc,
            {"(1), (2), (3), (NULL)": _expected, "(1e9), (1000000001), (1000000002)": _expected},
            number_rule,
            _spread_algorithm(sample=_sample, root=_root),
            _spread_composite(sample=_sample, root=_root),
            by_kind={Kind.NUMERIC: f"${'stddev' if _root else 'var'}_{'samp' if _sample else 'pop'}"},
            exact_by_kind=dict.fromkeys(
                EXACT_KINDS, f"$exact_{'stddev' if _root else 'var'}_{'samp' if _sample else 'pop'}"
            ),
        )
    )


# Regression aggregates take pairs (y, x), as in Postgres.

N, SXY, SXX, SYY, SX, SY = range(6)
"""The sums from which regressions are computed."""


def _pairs_rule(types: Types) -> Signature | None:
    if len(types) != 2 or not all(type_.is_numeric or is_unknown(type_) for type_ in types):
        return None
    return Signature((DOUBLE, DOUBLE), DOUBLE)


def _count_rule(types: Types) -> Signature | None:
    signature = _pairs_rule(types)
    return None if signature is None else Signature(signature.args, BIGINT)


def _where_not_null(value: Scalar, other: Scalar) -> Scalar:
    """Return the value where the other is not NULL."""
    known = Call("is_not_null", (other,), BOOLEAN)
    return value if value == other else If(known, value, Literal(None, DOUBLE), DOUBLE)


def _regression_composite(components: tuple[int, ...], result: Callable[..., Scalar]) -> Composite:
    def build(args: tuple[Scalar, ...]) -> tuple[tuple[Part, ...], Scalar]:
        y, x = _where_not_null(args[0], args[1]), _where_not_null(args[1], args[0])
        parts = (
            Part("count", (y,)),
            Part("$comoment", args),
            Part("$comoment", (x, x)),
            Part("$comoment", (y, y)),
            Part("sum", (x,)),
            Part("sum", (y,)),
        )
        columns = (Column(place, BIGINT if part == N else DOUBLE) for place, part in enumerate(components))
        return tuple(parts[part] for part in components), result(*columns)

    return Composite(build)


def _mean(total: Scalar, number: Scalar) -> Scalar:
    return _double_call("div", total, _null_if_zero(_double(number)))


def _sample_mean(total: Scalar, number: Scalar) -> Scalar:
    return _double_call("div", total, _null_if_zero(_double_call("sub", _double(number), _constant(1.0))))


def _if_large(first: Scalar, second: Scalar, apart: Scalar, together: Scalar) -> Scalar:
    """Return ``apart`` if the product of two spreads may overflow a double, otherwise ``together``."""
    large = (Call("gt", (spread, _constant(1e150)), BOOLEAN) for spread in (first, second))
    return If(Call("or", tuple(large), BOOLEAN), apart, together, DOUBLE)


def _correlation(sxy: Scalar, sxx: Scalar, syy: Scalar) -> Scalar:
    apart = _double_call(
        "div",
        _double_call("div", sxy, _null_if_zero(_double_call("sqrt", sxx))),
        _null_if_zero(_double_call("sqrt", syy)),
    )
    together = _double_call("div", sxy, _null_if_zero(_double_call("sqrt", _double_call("mul", sxx, syy))))
    return _if_large(sxx, syy, apart, together)


def _determination(sxy: Scalar, sxx: Scalar, syy: Scalar) -> Scalar:
    apart = _double_call(
        "mul", _double_call("div", sxy, _null_if_zero(sxx)), _double_call("div", sxy, _null_if_zero(syy))
    )
    together = _double_call(
        "div", _double_call("mul", sxy, sxy), _null_if_zero(_double_call("mul", sxx, syy))
    )
    share = _if_large(sxx, syy, apart, together)
    flat = Call("eq", (syy, _constant(0.0)), BOOLEAN)
    sloping = Call("ne", (sxx, _constant(0.0)), BOOLEAN)
    return If(sloping, If(flat, _constant(1.0), share, DOUBLE), Literal(None, DOUBLE), DOUBLE)


def _slope(sxy: Scalar, sxx: Scalar) -> Scalar:
    return _double_call("div", sxy, _null_if_zero(sxx))


def _intercept(sxy: Scalar, sxx: Scalar, sx: Scalar, sy: Scalar, number: Scalar) -> Scalar:
    return _mean(
        _double_call("sub", sy, _double_call("div", _double_call("mul", sx, sxy), _null_if_zero(sxx))), number
    )


def _quotient(dividend: float, divisor: float) -> float | None:
    return dividend / divisor if divisor else None


def _determination_of_moments(state: Moments) -> float | None:
    """Return r squared of moments, in which ``first`` is y and ``second`` is x."""
    if not state.syy:
        return None
    return state.sxy / state.sxx * (state.sxy / state.syy) if state.sxx else 1.0


def _intercept_of_moments(state: Moments) -> float | None:
    slope = _quotient(state.sxy, state.syy)
    return None if slope is None else state.means[0] - state.means[1] * slope


_LINE = "(1, 1), (3, 2), (5, 3), (7, 5), (NULL, 4), (4, NULL)"
_REGRESSIONS: tuple[tuple[str, str, str, Composite, Callable[[Moments], Value]], ...] = (
    (
        "regr_sxx",
        "Sum of the squares of x's distances from its mean.",
        "8.75",
        _regression_composite((SXX,), lambda s: s),
        lambda m: m.syy,
    ),
    (
        "regr_syy",
        "Sum of the squares of y's distances from its mean.",
        "20",
        _regression_composite((SYY,), lambda s: s),
        lambda m: m.sxx,
    ),
    (
        "regr_sxy",
        "Sum of the products of y's and x's distances from their means.",
        "13",
        _regression_composite((SXY,), lambda s: s),
        lambda m: m.sxy,
    ),
    (
        "regr_avgx",
        "Mean of x, where y is known.",
        "2.75",
        _regression_composite((SX, N), _mean),
        lambda m: m.means[1],
    ),
    (
        "regr_avgy",
        "Mean of y, where x is known.",
        "4",
        _regression_composite((SY, N), _mean),
        lambda m: m.means[0],
    ),
    (
        "regr_slope",
        "Slope of the line through the pairs that is nearest by least squares.",
        "13 / 8.75",
        _regression_composite((SXY, SXX), _slope),
        lambda m: _quotient(m.sxy, m.syy),
    ),
    (
        "regr_intercept",
        "Where that line is at x = 0.",
        "4 - 2.75 * 13 / 8.75",
        _regression_composite((SXY, SXX, SX, SY, N), _intercept),
        _intercept_of_moments,
    ),
    (
        "regr_r2",
        "Square of the correlation; 1 if y is constant.",
        "169 / 175.0",
        _regression_composite((SXY, SXX, SYY), _determination),
        _determination_of_moments,
    ),
    (
        "corr",
        "Correlation of y and x.",
        "13 / sqrt(175.0)",
        _regression_composite((SXY, SXX, SYY), _correlation),
        lambda m: _quotient(m.sxy, math.sqrt(m.sxx) * math.sqrt(m.syy)),
    ),
    (
        "covar_pop",
        "Covariance of all pairs.",
        "3.25",
        _regression_composite((SXY, N), _mean),
        lambda m: m.sxy / m.count,
    ),
    (
        "covar_samp",
        "Covariance of a sample.",
        "13 / 3.0",
        _regression_composite((SXY, N), _sample_mean),
        lambda m: _quotient(m.sxy, m.count - 1),
    ),
)
for _name, _doc, _expected, _maintenance, _finish in _REGRESSIONS:
    register(
        AggregateFunction(
            _name,
            "two numbers, y and x",
            _doc,
            {_LINE: _expected},
            _pairs_rule,
            lambda types, finish=_finish: _moments_algorithm(finish),  # type: ignore[misc]
            _maintenance,
        )
    )
register(
    AggregateFunction(
        "regr_count",
        "two numbers, y and x",
        "Pairs of which both are known.",
        {_LINE: "4"},
        _count_rule,
        lambda types: Algorithm(
            initialize=Moments,
            add=Moments.add,
            subtract=lambda state, operands, times: state.add(operands, -times),
            merge=Moments.merge,
            finish=lambda state: state.count,
        ),
        _regression_composite((N,), lambda number: number),
        empty=0,
    )
)
