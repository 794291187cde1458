"""The aggregate functions, one entry each: see ``aggregation.AggregateFunction`` for what an entry says."""

from kpg.runtime.functions import algorithms, sequences
from kpg.runtime.functions.aggregation import (
    Accumulable,
    AccumulatorKind,
    AggregateFunction,
    Basic,
    Composed,
    Hierarchical,
    Part,
    Trend,
    Types,
    register,
)
from kpg.runtime.functions.registry import Signature
from kpg.runtime.functions.rules import is_unknown
from kpg.runtime.scalar import Call, Column, If, Literal, Scalar
from kpg.runtime.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTERVAL,
    NUMERIC,
    TEXT,
    Kind,
    Type,
    decimal,
    float_to_word,
)


def sum_type(operand: Type) -> Type:
    """The type of a sum over an operand."""
    match operand.kind:
        case Kind.DECIMAL:
            return decimal(18, operand.scale)
        case Kind.REAL | Kind.DOUBLE:
            return DOUBLE
        case Kind.INTERVAL_DAY | Kind.INTERVAL_MONTH:
            return operand
        case _:
            return BIGINT


def _count(types: Types) -> Signature | None:
    return Signature(types, BIGINT)


def _sum(types: Types) -> Signature | None:
    if len(types) != 1:
        return None
    type_ = BIGINT if is_unknown(types[0]) else types[0]
    if not (type_.is_numeric or type_.kind in (Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH)):
        return None
    return Signature((type_,), sum_type(type_))


def _extreme(types: Types) -> Signature | None:
    return Signature(types, types[0]) if len(types) == 1 else None


def number_rule(types: Types) -> Signature | None:
    if len(types) != 1 or not (types[0].is_numeric or is_unknown(types[0])):
        return None
    return Signature((DOUBLE,) if is_unknown(types[0]) else types, DOUBLE)


def _interval(types: Types) -> Signature | None:
    is_interval = len(types) == 1 and types[0].kind in (Kind.INTERVAL, Kind.INTERVAL_DAY)
    return Signature((INTERVAL,), INTERVAL) if is_interval else None


def _numeric(types: Types) -> Signature | None:
    is_numeric = len(types) == 1 and types[0].kind is Kind.NUMERIC
    return Signature((NUMERIC,), NUMERIC) if is_numeric else None


def _double(types: Types) -> Signature | None:
    return None if number_rule(types) is None else Signature((DOUBLE,), DOUBLE)


def _condition(types: Types) -> Signature | None:
    if len(types) != 1 or not (types[0] == BOOLEAN or is_unknown(types[0])):
        return None
    return Signature((BOOLEAN,), BOOLEAN)


def _text(types: Types) -> Signature | None:
    if len(types) != 2 or not all(type_.is_text or is_unknown(type_) for type_ in types):
        return None
    return Signature((TEXT, TEXT), TEXT)


def _as_double(scalar: Scalar) -> Scalar:
    return scalar if scalar.type == DOUBLE else Call("cast", (scalar,), DOUBLE)


def _mean(args: tuple[Scalar, ...]) -> tuple[tuple[Part, ...], Scalar]:
    total, number = Column(0, sum_type(args[0].type)), Column(1, BIGINT)
    parts = (Part("sum", args), Part("count", args))
    return parts, Call("div", (_as_double(total), _as_double(number)), DOUBLE)


def _same_as(name: str) -> Composed:
    """Another aggregate by this name."""
    return Composed(lambda args: ((Part(name, args),), Column(0, args[0].type)))


def _spread(*, sample: bool, root: bool) -> Composed:
    """By the sums of the values and of their squares; a difference that rounding has made negative is 0."""

    def build(args: tuple[Scalar, ...]) -> tuple[tuple[Part, ...], Scalar]:
        value = _as_double(args[0])
        squares, plain = Column(0, DOUBLE), Column(1, DOUBLE)
        number = _as_double(Column(2, BIGINT))
        parts = (Part("sum", (_of("mul", value, value),)), Part("sum", (value,)), Part("count", (value,)))
        mean_square = _of("div", _of("mul", plain, plain), _of("nullif", number, _ZERO))
        excess = _of("sub", squares, mean_square)
        positive = If(Call("lt", (excess, _ZERO), BOOLEAN), _ZERO, excess, DOUBLE)
        divisor = _of("nullif", _of("sub", number, _ONE) if sample else number, _ZERO)
        variance = _of("div", positive, divisor)
        return parts, _of("sqrt", variance) if root else variance

    return Composed(build)


def _of(function: str, *args: Scalar) -> Scalar:
    return Call(function, args, DOUBLE)


_ZERO, _ONE = (Literal(float_to_word(constant), DOUBLE) for constant in (0.0, 1.0))

register(
    AggregateFunction(
        "count",
        "nothing, or a value",
        "Rows, or non-NULL values.",
        {"(1), (1), (NULL)": "2", "('a')": "1"},
        _count,
        algorithms.counting,
        Accumulable(AccumulatorKind.COUNT),
        empty=0,
        identity=0,
        trend=Trend.UP,
    )
)
register(
    AggregateFunction(
        "sum",
        "a number",
        "Sum; NULL if there is no value.",
        {"(1), (2), (NULL), (2)": "5", "(1.5), (-0.25)": "1.25", "(0.1::DOUBLE), (0.2), (-0.1)": "0.2"},
        _sum,
        algorithms.summing(sum_type),
        Accumulable(AccumulatorKind.SUM),
        identity=0,
        over={Kind.NUMERIC: "$sum", Kind.INTERVAL: "$interval_sum"},
    )
)
for _name, _mean_of in (("$interval_sum", False), ("$interval_avg", True)):
    register(
        AggregateFunction(
            _name,
            "an INTERVAL",
            "The sum or mean of INTERVALs.",
            {},
            _interval,
            algorithms.over_intervals(mean=_mean_of),
            Basic(),
        )
    )
for _name, _finish in (("$sum", algorithms.numeric_total), ("$avg", algorithms.numeric_mean)):
    register(
        AggregateFunction(
            _name,
            "a NUMERIC",
            "The exact sum or mean of NUMERICs.",
            {},
            _numeric,
            algorithms.over_numerics(_finish),
            Basic(),
        )
    )
for _name in ("avg", "mean"):
    register(
        AggregateFunction(
            _name,
            "a number",
            "Mean, as DOUBLE.",
            {"(1), (2), (NULL)": "1.5", "(0.5), (0.25)": "0.375"},
            number_rule,
            algorithms.averaging,
            Composed(_mean),
            over={
                Kind.NUMERIC: "$avg",
                Kind.INTERVAL: "$interval_avg",
                Kind.INTERVAL_DAY: "$interval_avg",
            },
        )
    )
register(
    AggregateFunction(
        "min",
        "a value",
        "Smallest value.",
        {"(2), (1), (NULL)": "1", "('b'), ('a')": "'a'", "('NaN'::DOUBLE), (1)": "1"},
        _extreme,
        algorithms.extreme(largest=False),
        Hierarchical(),
        trend=Trend.DOWN,
        idempotent=True,
    )
)
register(
    AggregateFunction(
        "max",
        "a value",
        "Largest value.",
        {"(2), (1), (NULL)": "2", "('b'), ('ba')": "'ba'"},
        _extreme,
        algorithms.extreme(largest=True),
        Hierarchical(),
        trend=Trend.UP,
        idempotent=True,
    )
)
register(
    AggregateFunction(
        "any_value",
        "a value",
        "One of the values: the smallest.",
        {"(1), (1), (NULL)": "1"},
        _extreme,
        algorithms.extreme(largest=False),
        _same_as("min"),
        trend=Trend.DOWN,
        idempotent=True,
    )
)
_CONDITIONS: tuple[tuple[str, str, str, dict[str, str], bool], ...] = (
    (
        "bool_and",
        "min",
        "Whether all are true.",
        {"(TRUE), (FALSE)": "FALSE", "(TRUE), (NULL)": "TRUE"},
        False,
    ),
    ("bool_or", "max", "Whether one is true.", {"(TRUE), (FALSE)": "TRUE", "(FALSE), (NULL)": "FALSE"}, True),
)
for _name, _extremum, _doc, _examples, _largest in _CONDITIONS:
    register(
        AggregateFunction(
            _name,
            "a BOOLEAN",
            _doc,
            _examples,
            _condition,
            algorithms.extreme(largest=_largest),
            _same_as(_extremum),
            trend=Trend.UP if _largest else Trend.DOWN,
            idempotent=True,
        )
    )
register(
    AggregateFunction(
        "string_agg",
        "a text and a separator",
        "The texts in their order, each after the first with its separator before it.",
        {"('a', '+'), (NULL, '+'), ('b', '+')": "'a+b'"},
        _text,
        sequences.natural(sequences.joining),
        Basic(),
        in_order=sequences.joining,
    )
)
register(
    AggregateFunction(
        "median",
        "a number",
        "The value in the middle, or the mean of the two that are.",
        {"(7), (1), (2), (NULL)": "2", "(1), (10), (4), (2)": "3"},
        _double,
        sequences.natural(sequences.median),
        Basic(),
    )
)
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
            {"(1), (2), (3), (NULL)": _expected},
            number_rule,
            algorithms.spreading(sample=_sample, root=_root),
            _spread(sample=_sample, root=_root),
        )
    )
