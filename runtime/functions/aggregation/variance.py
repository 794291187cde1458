"""Variance, covariance and regression aggregates, composed of exact sums of products.

``$comoment`` is sum(x * y) - sum(x) * sum(y) / n over exact sums: no cancellation error, and deletions leave
no residue.
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
    Composed,
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
    """Pairs of numbers of which neither is NULL: how many, how many are not finite, and exact sums."""

    count: int = 0
    others: int = 0
    first: Fraction = Fraction(0)
    second: Fraction = Fraction(0)
    squares: Fraction = Fraction(0)
    products: Fraction = Fraction(0)
    second_squares: Fraction = Fraction(0)

    def add(self, operands: Operands, times: int) -> "Moments":
        """This one with a pair ``times`` times more; negative ``times`` takes it away."""
        first, second = operands[0], operands[-1]
        if first is None or second is None:
            return self
        self.count += times
        if not (math.isfinite(first) and math.isfinite(second)):
            self.others += times
            return self
        x, y = Fraction(first), Fraction(second)
        self.first += x * times
        self.second += y * times
        self.squares += x * x * times
        self.products += x * y * times
        self.second_squares += y * y * times
        return self

    def merge(self, other: "Moments") -> "Moments":
        """This one with all of the other."""
        self.count += other.count
        self.others += other.others
        self.first += other.first
        self.second += other.second
        self.squares += other.squares
        self.products += other.products
        self.second_squares += other.second_squares
        return self

    @property
    def sxx(self) -> float:
        """Of the first numbers: the sum of the squares of their distances from the mean."""
        return self._rounded(self.squares - self.first * self.first / self.count)

    @property
    def sxy(self) -> float:
        """The sum of the products of the distances of both numbers from their means."""
        return self._rounded(self.products - self.first * self.second / self.count)

    @property
    def syy(self) -> float:
        """Of the second numbers: the sum of the squares of their distances from the mean."""
        return self._rounded(self.second_squares - self.second * self.second / self.count)

    @property
    def means(self) -> tuple[float, float]:
        """The means of both."""
        return self._rounded(self.first / self.count), self._rounded(self.second / self.count)

    def _rounded(self, exact: Fraction) -> float:
        return math.nan if self.others else float(exact)


def _over_moments(finish: Callable[[Moments], Value], scale: int = 1) -> Algorithm:
    def scaled(operands: Operands) -> Operands:
        return operands if scale == 1 else tuple(Fraction(one, scale) for one in operands)

    return Algorithm(
        initialize=Moments,
        add=lambda state, operands, times: state.add(scaled(operands), times),
        subtract=lambda state, operands, times: state.add(scaled(operands), -times),
        merge=Moments.merge,
        finish=lambda state: finish(state) if state.count else None,
    )


def _pair(types: Types) -> Signature | None:
    same = len(types) == 2 and types[0] == types[1]
    return Signature(types, DOUBLE) if same and (types[0] == DOUBLE or types[0].is_exact) else None


register(
    AggregateFunction(
        "$comoment",
        "two numbers of one type",
        "The sum of the products of both numbers' distances from their means.",
        {},
        _pair,
        lambda types: _over_moments(lambda state: state.sxy),
        Accumulable(AccumulatorKind.COMOMENT),
    )
)


def _of(function: str, *args: Scalar) -> Scalar:
    return Call(function, args, DOUBLE)


def _double(scalar: Scalar) -> Scalar:
    return scalar if scalar.type == DOUBLE else Call("cast", (scalar,), DOUBLE)


def _constant(value: float) -> Scalar:
    return Literal(float_to_word(value), DOUBLE)


def _positive(scalar: Scalar) -> Scalar:
    """The number, or NULL if it is 0."""
    return _of("nullif", scalar, _constant(0.0))


def _spread(*, sample: bool, root: bool) -> Composed:
    def build(args: tuple[Scalar, ...]) -> tuple[tuple[Part, ...], Scalar]:
        value = args[0] if args[0].type.is_exact else _double(args[0])
        squares: Scalar = Column(0, DOUBLE)
        if value.type.is_exact and value.type.scale:
            squares = _of("div", squares, _constant(10.0 ** (2 * value.type.scale)))
        number = _double(Column(1, BIGINT))
        divisor = _positive(_of("sub", number, _constant(1.0)) if sample else number)
        variance = _of("div", squares, divisor)
        parts = (Part("$comoment", (value, value)), Part("count", (value,)))
        return parts, _of("sqrt", variance) if root else variance

    return Composed(build)


def _spreading(*, sample: bool, root: bool) -> Callable[[Types], Algorithm]:
    def finish(state: Moments) -> float | None:
        divisor = state.count - 1 if sample else state.count
        if not divisor:
            return None
        return math.sqrt(state.sxx / divisor) if root else state.sxx / divisor

    return lambda types: _over_moments(finish, 10 ** types[0].scale if types[0].is_exact else 1)


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
            _spreading(sample=_sample, root=_root),
            _spread(sample=_sample, root=_root),
            over={Kind.NUMERIC: f"${'stddev' if _root else 'var'}_{'samp' if _sample else 'pop'}"},
            exact=dict.fromkeys(
                EXACT_KINDS, f"$exact_{'stddev' if _root else 'var'}_{'samp' if _sample else 'pop'}"
            ),
        )
    )


# Of pairs (y, x), as Postgres has them.

N, SXY, SXX, SYY, SX, SY = range(6)
"""What regressions are composed of."""


def _pairs(types: Types) -> Signature | None:
    if len(types) != 2 or not all(type_.is_numeric or is_unknown(type_) for type_ in types):
        return None
    return Signature((DOUBLE, DOUBLE), DOUBLE)


def _count_pairs(types: Types) -> Signature | None:
    signature = _pairs(types)
    return None if signature is None else Signature(signature.args, BIGINT)


def _beside(value: Scalar, other: Scalar) -> Scalar:
    """The value where the other is not NULL."""
    known = Call("is_not_null", (other,), BOOLEAN)
    return value if value == other else If(known, value, Literal(None, DOUBLE), DOUBLE)


def _composed(of: tuple[int, ...], result: Callable[..., Scalar]) -> Composed:
    def build(args: tuple[Scalar, ...]) -> tuple[tuple[Part, ...], Scalar]:
        y, x = _beside(args[0], args[1]), _beside(args[1], args[0])
        every = (
            Part("count", (y,)),
            Part("$comoment", args),
            Part("$comoment", (x, x)),
            Part("$comoment", (y, y)),
            Part("sum", (x,)),
            Part("sum", (y,)),
        )
        columns = (Column(place, BIGINT if part == N else DOUBLE) for place, part in enumerate(of))
        return tuple(every[part] for part in of), result(*columns)

    return Composed(build)


def _mean(total: Scalar, number: Scalar) -> Scalar:
    return _of("div", total, _positive(_double(number)))


def _sample_mean(total: Scalar, number: Scalar) -> Scalar:
    return _of("div", total, _positive(_of("sub", _double(number), _constant(1.0))))


def _if_large(first: Scalar, second: Scalar, apart: Scalar, together: Scalar) -> Scalar:
    """What is computed of two spreads apart, if their product may be no double, else of the product."""
    large = (Call("gt", (spread, _constant(1e150)), BOOLEAN) for spread in (first, second))
    return If(Call("or", tuple(large), BOOLEAN), apart, together, DOUBLE)


def _correlation(sxy: Scalar, sxx: Scalar, syy: Scalar) -> Scalar:
    apart = _of("div", _of("div", sxy, _positive(_of("sqrt", sxx))), _positive(_of("sqrt", syy)))
    together = _of("div", sxy, _positive(_of("sqrt", _of("mul", sxx, syy))))
    return _if_large(sxx, syy, apart, together)


def _determination(sxy: Scalar, sxx: Scalar, syy: Scalar) -> Scalar:
    apart = _of("mul", _of("div", sxy, _positive(sxx)), _of("div", sxy, _positive(syy)))
    together = _of("div", _of("mul", sxy, sxy), _positive(_of("mul", sxx, syy)))
    share = _if_large(sxx, syy, apart, together)
    flat = Call("eq", (syy, _constant(0.0)), BOOLEAN)
    sloping = Call("ne", (sxx, _constant(0.0)), BOOLEAN)
    return If(sloping, If(flat, _constant(1.0), share, DOUBLE), Literal(None, DOUBLE), DOUBLE)


def _slope(sxy: Scalar, sxx: Scalar) -> Scalar:
    return _of("div", sxy, _positive(sxx))


def _intercept(sxy: Scalar, sxx: Scalar, sx: Scalar, sy: Scalar, number: Scalar) -> Scalar:
    return _mean(_of("sub", sy, _of("div", _of("mul", sx, sxy), _positive(sxx))), number)


def _quotient(dividend: float, divisor: float) -> float | None:
    return dividend / divisor if divisor else None


def _square_share(state: Moments) -> float | None:
    """``first`` is y, ``second`` is x."""
    if not state.syy:
        return None
    return state.sxy / state.sxx * (state.sxy / state.syy) if state.sxx else 1.0


def _crossing(state: Moments) -> float | None:
    slope = _quotient(state.sxy, state.syy)
    return None if slope is None else state.means[0] - state.means[1] * slope


_LINE = "(1, 1), (3, 2), (5, 3), (7, 5), (NULL, 4), (4, NULL)"
_REGRESSIONS: tuple[tuple[str, str, str, Composed, Callable[[Moments], Value]], ...] = (
    (
        "regr_sxx",
        "Sum of the squares of x's distances from its mean.",
        "8.75",
        _composed((SXX,), lambda s: s),
        lambda m: m.syy,
    ),
    (
        "regr_syy",
        "Sum of the squares of y's distances from its mean.",
        "20",
        _composed((SYY,), lambda s: s),
        lambda m: m.sxx,
    ),
    (
        "regr_sxy",
        "Sum of the products of y's and x's distances from their means.",
        "13",
        _composed((SXY,), lambda s: s),
        lambda m: m.sxy,
    ),
    ("regr_avgx", "Mean of x, where y is known.", "2.75", _composed((SX, N), _mean), lambda m: m.means[1]),
    ("regr_avgy", "Mean of y, where x is known.", "4", _composed((SY, N), _mean), lambda m: m.means[0]),
    (
        "regr_slope",
        "Slope of the line through the pairs that is nearest by least squares.",
        "13 / 8.75",
        _composed((SXY, SXX), _slope),
        lambda m: _quotient(m.sxy, m.syy),
    ),
    (
        "regr_intercept",
        "Where that line is at x = 0.",
        "4 - 2.75 * 13 / 8.75",
        _composed((SXY, SXX, SX, SY, N), _intercept),
        _crossing,
    ),
    (
        "regr_r2",
        "Square of the correlation; 1 if y is constant.",
        "169 / 175.0",
        _composed((SXY, SXX, SYY), _determination),
        _square_share,
    ),
    (
        "corr",
        "Correlation of y and x.",
        "13 / sqrt(175.0)",
        _composed((SXY, SXX, SYY), _correlation),
        lambda m: _quotient(m.sxy, math.sqrt(m.sxx) * math.sqrt(m.syy)),
    ),
    ("covar_pop", "Covariance of all pairs.", "3.25", _composed((SXY, N), _mean), lambda m: m.sxy / m.count),
    (
        "covar_samp",
        "Covariance of a sample.",
        "13 / 3.0",
        _composed((SXY, N), _sample_mean),
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
            _pairs,
            lambda types, finish=_finish: _over_moments(finish),  # type: ignore[misc]
            _maintenance,
        )
    )
register(
    AggregateFunction(
        "regr_count",
        "two numbers, y and x",
        "Pairs of which both are known.",
        {_LINE: "4"},
        _count_pairs,
        lambda types: Algorithm(
            initialize=Moments,
            add=Moments.add,
            subtract=lambda state, operands, times: state.add(operands, -times),
            merge=Moments.merge,
            finish=lambda state: state.count,
        ),
        _composed((N,), lambda number: number),
        empty=0,
    )
)
