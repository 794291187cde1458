"""Exact sums, means, variances and standard deviations of exact numbers, as NUMERICs.

A word is split into halves of at most 32 bits, so that the sum of at least 2**31 of them fits a word.
The products of halves are summed likewise. A group keeps these sums. The NUMERIC is computed when the
group is emitted. Variances and standard deviations have Postgres' number of digits.
"""

import functools
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import product
from typing import Final

from kpg.runtime.functions import numerics, registry
from kpg.runtime.functions.aggregation.builtins import sum_type
from kpg.runtime.functions.aggregation.definition import (
    AggregateFunction,
    Algorithm,
    Composite,
    Invertible,
    NumericTotal,
    Part,
    Types,
    numeric_algorithm,
    numeric_mean,
    numeric_total,
    register,
)
from kpg.runtime.functions.registry import (
    Composition,
    MemoizedFunction,
    Opcode,
    Shadow,
    Signature,
    register_primitive,
)
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, If, Literal, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, NUMERIC, Kind
from kpg.runtime.values.numeric import EXACT, round_to_scale


@dataclass(slots=True)
class NumericMoments:
    """Moments of NUMERICs: count, number of values that are not finite, sum, and sum of squares."""

    count: int = 0
    non_finite: int = 0
    total: Decimal = Decimal(0)
    squares: Decimal = Decimal(0)

    def add(self, value: Decimal, times: int) -> "NumericMoments":
        """Add a value ``times`` times and return self. A negative ``times`` removes it."""
        self.count += times
        if not value.is_finite():
            self.non_finite += times
            return self
        more = EXACT.multiply(value, Decimal(times))
        self.total = EXACT.add(self.total, more)
        self.squares = EXACT.add(self.squares, EXACT.multiply(value, more))
        return self

    def merge(self, other: "NumericMoments") -> "NumericMoments":
        """Add all of another state and return self."""
        self.count += other.count
        self.non_finite += other.non_finite
        self.total = EXACT.add(self.total, other.total)
        self.squares = EXACT.add(self.squares, other.squares)
        return self

    @property
    def excess(self) -> Decimal:
        """The count times the sum of squared distances from the mean."""
        squares = EXACT.multiply(Decimal(self.count), self.squares)
        return EXACT.subtract(squares, EXACT.multiply(self.total, self.total))


def spread_function(*, sample: bool, root: bool) -> Callable[[NumericMoments], Decimal | None]:
    """Return the final function of the variance or its root, of a sample or the population."""

    def finish(state: NumericMoments) -> Decimal | None:
        divisor = Decimal(state.count) * (state.count - sample)
        if not divisor:
            return None
        if state.non_finite:
            return Decimal("NaN")
        if state.excess <= 0:
            return Decimal(0)
        variance = numerics.divide(state.excess, divisor)
        if not root:
            return variance
        places, context = numerics.quotient_scale(state.excess, divisor), EXACT.copy()
        context.prec = max(variance.adjusted() // 2 + 1, 0) + places + 3
        return round_to_scale(context.sqrt(variance), places)

    return finish


def _numeric(types: Types) -> Signature | None:
    is_numeric = len(types) == 1 and types[0].kind is Kind.NUMERIC
    return Signature((NUMERIC,), NUMERIC) if is_numeric else None


for _numeric_spreads_sample, _numeric_spreads_root in product((True, False), repeat=2):
    register(
        AggregateFunction(
            f"${'stddev' if _numeric_spreads_root else 'var'}_{'samp' if _numeric_spreads_sample else 'pop'}",
            "a NUMERIC",
            "Spread of NUMERICs.",
            {},
            _numeric,
            numeric_algorithm(
                NumericMoments, spread_function(sample=_numeric_spreads_sample, root=_numeric_spreads_root)
            ),
            Invertible(),
        )
    )


HALF_BASE: Final = 3_037_000_500
"""Square root of 2**63: a word has two parts below it, whose products are words."""
MAX_SQUARE_DIGITS: Final = 9
"""Digits of words whose squares are words."""


def _split_word(x: Scalar) -> tuple[Scalar, Scalar]:
    """Split a word into high and low, so that it is high * HALF_BASE + low. Both have its sign."""
    half = Literal(HALF_BASE, BIGINT)
    return Call("$div", (x, half), BIGINT), Call("$mod", (x, half), BIGINT)


def _exact_word(x: Scalar) -> Scalar:
    """Return the word of an exact number, as a BIGINT."""
    return Call("$word", (x,), BIGINT)


def _sums(x: Scalar) -> tuple[Part, Part]:
    high, low = _split_word(x)
    return Part("sum", (high,)), Part("sum", (low,))


def _columns(count: int) -> tuple[Column, ...]:
    return tuple(Column(index, BIGINT) for index in range(count))


def _wide_sum(args: tuple[Scalar, ...]) -> tuple[tuple[Part, ...], Scalar]:
    return _sums(_exact_word(args[0])), Call("$wide_sum", _columns(2), NUMERIC)


def _wide_mean(args: tuple[Scalar, ...]) -> tuple[tuple[Part, ...], Scalar]:
    parts = (*_sums(_exact_word(args[0])), Part("count", args))
    return parts, Call("$wide_mean", _columns(3), NUMERIC)


def _mean(args: tuple[Scalar, ...]) -> tuple[tuple[Part, ...], Scalar]:
    total, number = Column(0, sum_type(args[0].type)), Column(1, BIGINT)
    return (Part("sum", args), Part("count", args)), Call("$mean", (total, number), NUMERIC)


def _join_halves(high: int, low: int) -> Decimal:
    return Decimal(high * HALF_BASE + low)


def _mean_function(call: Call) -> Callable[..., object]:
    scale = call.args[0].type.scale
    return lambda total, count: numerics.divide_scaled(total, scale, count, 0) if count else None


def _mean_encoder(call: Call) -> Callable[..., str | None]:
    scale = call.args[0].type.scale
    return lambda total, count: numerics.encode_ratio(total, scale, count, 0) if count else None


def _quotient(total: Decimal, count: int) -> Decimal | None:
    return numerics.divide(total, Decimal(count)) if count else None


def _wide_shadow(call: Call, args: Sequence[Shadow]) -> Shadow | None:
    """Return the shadow of a sum of halves, or of a mean of such a sum.

    The sum is 0 where the low half cancels the high half.
    """
    high, low, *count = args
    if high.word is None or low.word is None:
        return None
    half = Literal(HALF_BASE, BIGINT)
    carried = Call("$same", (high.word, Call("$div", (low.word, half), BIGINT)), BIGINT)
    rest = Call("$mod", (low.word, half), BIGINT)
    parts = (Call("eq", (part, Literal(0, BIGINT)), BOOLEAN) for part in (carried, rest))
    whole = If(Call("and", tuple(parts), BOOLEAN), Literal(0, BIGINT), Literal(1, BIGINT), BIGINT)
    total = Shadow((*high.checks, *low.checks), whole, keeps_zero=True, has_few_digits=True)
    return registry.mean_shadow(call, (total, *count)) if count else total


register_primitive(
    "$word", Composition(lambda call: Call("$same", (call.args[0], Literal(0, BIGINT)), BIGINT))
)
register_primitive("$mod", Opcode("mod"))
register_primitive("$wide_sum", MemoizedFunction(lambda call: _join_halves, shadow=_wide_shadow))
register_primitive(
    "$wide_mean",
    MemoizedFunction(
        lambda call: lambda high, low, count: _quotient(_join_halves(high, low), count), shadow=_wide_shadow
    ),
)
register_primitive(
    "$mean",
    MemoizedFunction(
        _mean_function,
        build_encoded=_mean_encoder,
        build_units=lambda call: (
            lambda total, count: numerics.divide_units(total, count) if count[0] else None
        ),
        shadow=registry.mean_shadow,
    ),
)


def _has_small_squares(x: Scalar) -> bool:
    if x.type.kind is Kind.DECIMAL:
        return x.type.precision <= MAX_SQUARE_DIGITS
    return x.type.kind is not Kind.BIGINT


def _spread_composite(*, sample: bool, root: bool) -> Composite:
    """Compose a spread of the sums of words and their squares, or of halves for larger words."""
    name = f"$spread_{'samp' if sample else 'pop'}_{'root' if root else 'square'}"

    def build(args: tuple[Scalar, ...]) -> tuple[tuple[Part, ...], Scalar]:
        (x,) = args
        word, scale = _exact_word(x), Literal(x.type.scale, BIGINT)
        count = Part("count", args)
        if _has_small_squares(x):
            square = Call("$mul", (word, word), BIGINT)
            parts: tuple[Part, ...] = (count, Part("sum", (word,)), *_sums(square))
            return parts, Call(name, (scale, *_columns(4)), NUMERIC)
        high, low = _split_word(word)
        products = (Call("$mul", pair, BIGINT) for pair in ((high, high), (high, low), (low, low)))
        split = (part for one in products for part in _sums(one))
        parts = (count, Part("sum", (high,)), Part("sum", (low,)), *split)
        return parts, Call(name, (scale, *_columns(9)), NUMERIC)

    return Composite(build)


def _moments_of_sums(scale: int, count: int, *sums: int) -> NumericMoments:
    """Return the moments from the sums of words or of their halves."""
    if len(sums) == 3:
        total, squares = sums[0], sums[1] * HALF_BASE + sums[2]
    else:
        high, low = sums[0], sums[1]
        high_high, high_low, low_low = (sums[i] * HALF_BASE + sums[i + 1] for i in (2, 4, 6))
        total = high * HALF_BASE + low
        squares = high_high * HALF_BASE**2 + 2 * high_low * HALF_BASE + low_low
    return NumericMoments(
        count, 0, Decimal(total).scaleb(-scale, EXACT), Decimal(squares).scaleb(-2 * scale, EXACT)
    )


def _finish_spread(finish: Callable[[NumericMoments], Decimal | None], *sums: int) -> Decimal | None:
    """Return the spread, or NULL for inconsistent sums, which occur temporarily where parts are joined."""
    moments = _moments_of_sums(*sums)
    return None if moments.excess < 0 else finish(moments)


def _lift_to_words(algorithm: Algorithm, types: Types) -> Algorithm:
    """Return an algorithm over NUMERICs for operands that are words."""
    scale = types[0].scale
    add, subtract = algorithm.add, algorithm.subtract
    assert subtract is not None

    def to_decimal(operands: tuple[object, ...]) -> tuple[Decimal]:
        return (Decimal(operands[0]).scaleb(-scale, EXACT),)  # type: ignore[arg-type]

    return Algorithm(
        initialize=algorithm.initialize,
        add=lambda state, operands, times: add(state, to_decimal(operands), times),
        subtract=lambda state, operands, times: subtract(state, to_decimal(operands), times),
        merge=algorithm.merge,
        finish=algorithm.finish,
    )


def _exact(types: Types) -> Signature | None:
    return Signature(types, NUMERIC) if len(types) == 1 and types[0].is_exact else None


def _register(name: str, doc: str, algorithm: Callable[[Types], Algorithm], maintenance: Composite) -> None:
    register(
        AggregateFunction(
            name,
            "an exact number",
            doc,
            {},
            _exact,
            lambda types: _lift_to_words(algorithm(types), types),
            maintenance,
        )
    )


_SUM, _MEAN = numeric_algorithm(NumericTotal, numeric_total), numeric_algorithm(NumericTotal, numeric_mean)
_register("$exact_sum", "The sum, as NUMERIC.", _SUM, Composite(_wide_sum))
_register("$exact_avg", "The mean, as NUMERIC.", _MEAN, Composite(_mean))
_register("$wide_avg", "The mean of BIGINTs, as NUMERIC.", _MEAN, Composite(_wide_mean))
for _sample, _root in product((True, False), repeat=2):
    _finish = spread_function(sample=_sample, root=_root)
    register_primitive(
        f"$spread_{'samp' if _sample else 'pop'}_{'root' if _root else 'square'}",
        MemoizedFunction(
            lambda call, finish=_finish: functools.partial(_finish_spread, finish),  # type: ignore[misc]
            shadow=registry.number_shadow,
        ),
    )
    _register(
        f"$exact_{'stddev' if _root else 'var'}_{'samp' if _sample else 'pop'}",
        "Spread of exact numbers.",
        numeric_algorithm(NumericMoments, _finish),
        _spread_composite(sample=_sample, root=_root),
    )
