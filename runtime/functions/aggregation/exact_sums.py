"""Exact sums, means, variances and standard deviations of exact numbers, as NUMERICs.

A word is split into halves of at most 32 bits, so that the sum of at least 2**31 of them fits a word; the
products of halves are summed likewise. A group keeps these sums; the NUMERIC is computed when the group is
emitted. Variances and standard deviations have Postgres' number of digits.
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
    Composed,
    Folded,
    NumericTotal,
    Part,
    Types,
    numeric_mean,
    numeric_total,
    over_numerics,
    register,
)
from kpg.runtime.functions.registry import Composition, Memoized, Opcode, Shadow, Signature, primitive
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, If, Literal, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, NUMERIC, Kind
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


for _numeric_spreads_sample, _numeric_spreads_root in product((True, False), repeat=2):
    register(
        AggregateFunction(
            f"${'stddev' if _numeric_spreads_root else 'var'}_{'samp' if _numeric_spreads_sample else 'pop'}",
            "a NUMERIC",
            "Spread of NUMERICs.",
            {},
            _numeric,
            over_numerics(
                NumericMoments, finished(sample=_numeric_spreads_sample, root=_numeric_spreads_root)
            ),
            Folded(),
        )
    )


HALF: Final = 3_037_000_500
"""The root of 2**63: words are of two parts below it, the products of which are words."""
SMALL: Final = 9
"""Digits of words whose squares are words."""


def _halves(x: Scalar) -> tuple[Scalar, Scalar]:
    """High and low, so that the number is high * HALF + low; both have its sign."""
    half = Literal(HALF, BIGINT)
    return Call("$div", (x, half), BIGINT), Call("$mod", (x, half), BIGINT)


def _word(x: Scalar) -> Scalar:
    """The word of an exact number, as a BIGINT."""
    return Call("$word", (x,), BIGINT)


def _sums(x: Scalar) -> tuple[Part, Part]:
    high, low = _halves(x)
    return Part("sum", (high,)), Part("sum", (low,))


def _columns(count: int) -> tuple[Column, ...]:
    return tuple(Column(index, BIGINT) for index in range(count))


def _wide_sum(args: tuple[Scalar, ...]) -> tuple[tuple[Part, ...], Scalar]:
    return _sums(_word(args[0])), Call("$wide_sum", _columns(2), NUMERIC)


def _wide_mean(args: tuple[Scalar, ...]) -> tuple[tuple[Part, ...], Scalar]:
    parts = (*_sums(_word(args[0])), Part("count", args))
    return parts, Call("$wide_mean", _columns(3), NUMERIC)


def _mean(args: tuple[Scalar, ...]) -> tuple[tuple[Part, ...], Scalar]:
    total, number = Column(0, sum_type(args[0].type)), Column(1, BIGINT)
    return (Part("sum", args), Part("count", args)), Call("$mean", (total, number), NUMERIC)


def _whole(high: int, low: int) -> Decimal:
    return Decimal(high * HALF + low)


def _of_mean(call: Call) -> Callable[..., object]:
    scale = call.args[0].type.scale
    return lambda total, count: numerics.ratio(total, scale, count, 0) if count else None


def _spelled_mean(call: Call) -> Callable[..., str | None]:
    scale = call.args[0].type.scale
    return lambda total, count: numerics.spelled_ratio(total, scale, count, 0) if count else None


def _quotient(total: Decimal, count: int) -> Decimal | None:
    return numerics.divide(total, Decimal(count)) if count else None


def _wide_shadow(call: Call, args: Sequence[Shadow]) -> Shadow | None:
    """Of the sum of two parts, 0 where the low one makes up for the high one; or of a mean of such."""
    high, low, *count = args
    if high.word is None or low.word is None:
        return None
    half = Literal(HALF, BIGINT)
    carried = Call("$same", (high.word, Call("$div", (low.word, half), BIGINT)), BIGINT)
    rest = Call("$mod", (low.word, half), BIGINT)
    parts = (Call("eq", (part, Literal(0, BIGINT)), BOOLEAN) for part in (carried, rest))
    whole = If(Call("and", tuple(parts), BOOLEAN), Literal(0, BIGINT), Literal(1, BIGINT), BIGINT)
    total = Shadow((*high.checks, *low.checks), whole, zero=True, few=True)
    return registry.mean(call, (total, *count)) if count else total


primitive("$word", Composition(lambda call: Call("$same", (call.args[0], Literal(0, BIGINT)), BIGINT)))
primitive("$mod", Opcode("mod"))
primitive("$wide_sum", Memoized(lambda call: _whole, shadow=_wide_shadow))
primitive(
    "$wide_mean",
    Memoized(lambda call: lambda high, low, count: _quotient(_whole(high, low), count), shadow=_wide_shadow),
)
primitive(
    "$mean",
    Memoized(
        _of_mean,
        spelled=_spelled_mean,
        units=lambda call: lambda total, count: numerics.share(total, count) if count[0] else None,
        shadow=registry.mean,
    ),
)


def _is_small(x: Scalar) -> bool:
    if x.type.kind is Kind.DECIMAL:
        return x.type.precision <= SMALL
    return x.type.kind is not Kind.BIGINT


def _spread(*, sample: bool, root: bool) -> Composed:
    """Of the sums of words and of their squares; of larger words by those of their halves."""
    name = f"$spread_{'samp' if sample else 'pop'}_{'root' if root else 'square'}"

    def build(args: tuple[Scalar, ...]) -> tuple[tuple[Part, ...], Scalar]:
        (x,) = args
        word, scale = _word(x), Literal(x.type.scale, BIGINT)
        count = Part("count", args)
        if _is_small(x):
            square = Call("$mul", (word, word), BIGINT)
            parts: tuple[Part, ...] = (count, Part("sum", (word,)), *_sums(square))
            return parts, Call(name, (scale, *_columns(4)), NUMERIC)
        high, low = _halves(word)
        products = (Call("$mul", pair, BIGINT) for pair in ((high, high), (high, low), (low, low)))
        split = (part for one in products for part in _sums(one))
        parts = (count, Part("sum", (high,)), Part("sum", (low,)), *split)
        return parts, Call(name, (scale, *_columns(9)), NUMERIC)

    return Composed(build)


def _moments(scale: int, count: int, *sums: int) -> NumericMoments:
    """What a spread is computed of, from the sums of words or of their halves."""
    if len(sums) == 3:
        total, squares = sums[0], sums[1] * HALF + sums[2]
    else:
        high, low = sums[0], sums[1]
        high_high, high_low, low_low = (sums[i] * HALF + sums[i + 1] for i in (2, 4, 6))
        total = high * HALF + low
        squares = high_high * HALF**2 + 2 * high_low * HALF + low_low
    return NumericMoments(
        count, 0, Decimal(total).scaleb(-scale, EXACT), Decimal(squares).scaleb(-2 * scale, EXACT)
    )


def _finished(finish: Callable[[NumericMoments], Decimal | None], *sums: int) -> Decimal | None:
    """The spread; NULL of sums that do not belong together, which come and go where parts are joined."""
    moments = _moments(*sums)
    return None if moments.excess < 0 else finish(moments)


def _of_words(algorithm: Algorithm, types: Types) -> Algorithm:
    """An algorithm over NUMERICs for operands that are words."""
    scale = types[0].scale
    add, subtract = algorithm.add, algorithm.subtract
    assert subtract is not None

    def scaled(operands: tuple[object, ...]) -> tuple[Decimal]:
        return (Decimal(operands[0]).scaleb(-scale, EXACT),)  # type: ignore[arg-type]

    return Algorithm(
        initialize=algorithm.initialize,
        add=lambda state, operands, times: add(state, scaled(operands), times),
        subtract=lambda state, operands, times: subtract(state, scaled(operands), times),
        merge=algorithm.merge,
        finish=algorithm.finish,
    )


def _exact(types: Types) -> Signature | None:
    return Signature(types, NUMERIC) if len(types) == 1 and types[0].is_exact else None


def _register(name: str, doc: str, algorithm: Callable[[Types], Algorithm], maintenance: Composed) -> None:
    register(
        AggregateFunction(
            name,
            "an exact number",
            doc,
            {},
            _exact,
            lambda types: _of_words(algorithm(types), types),
            maintenance,
        )
    )


_SUM, _MEAN = over_numerics(NumericTotal, numeric_total), over_numerics(NumericTotal, numeric_mean)
_register("$exact_sum", "The sum, as NUMERIC.", _SUM, Composed(_wide_sum))
_register("$exact_avg", "The mean, as NUMERIC.", _MEAN, Composed(_mean))
_register("$wide_avg", "The mean of BIGINTs, as NUMERIC.", _MEAN, Composed(_wide_mean))
for _sample, _root in product((True, False), repeat=2):
    _finish = finished(sample=_sample, root=_root)
    primitive(
        f"$spread_{'samp' if _sample else 'pop'}_{'root' if _root else 'square'}",
        Memoized(lambda call, finish=_finish: functools.partial(_finished, finish), shadow=registry.number),  # type: ignore[misc]
    )
    _register(
        f"$exact_{'stddev' if _root else 'var'}_{'samp' if _sample else 'pop'}",
        "Spread of exact numbers.",
        over_numerics(NumericMoments, _finish),
        _spread(sample=_sample, root=_root),
    )
