"""The basic aggregate functions. ``definition.AggregateFunction`` explains the fields."""

from kpg.runtime.functions.aggregation import definition
from kpg.runtime.functions.aggregation.definition import (
    Accumulable,
    AccumulatorKind,
    AggregateFunction,
    Composite,
    Hierarchical,
    Invertible,
    Part,
    Trend,
    Types,
    register,
)
from kpg.runtime.functions.registry import Signature
from kpg.runtime.functions.type_rules import is_unknown
from kpg.runtime.scalar import Call, Column, If, Literal, Scalar
from kpg.runtime.types import (
    BIGINT,
    BIT_KINDS,
    BOOLEAN,
    DOUBLE,
    EXACT_KINDS,
    INTERVAL,
    NUMERIC,
    REAL,
    Kind,
    Type,
    decimal,
)


def sum_type(operand: Type) -> Type:
    """Return the type of a sum over an operand."""
    match operand.kind:
        case Kind.DECIMAL:
            return decimal(18, operand.scale)
        case Kind.REAL | Kind.DOUBLE:
            return DOUBLE
        case Kind.INTERVAL_DAY | Kind.INTERVAL_MONTH:
            return operand
        case _:
            return BIGINT


def _count_rule(types: Types) -> Signature | None:
    return Signature(types, BIGINT)


def _sum_rule(types: Types) -> Signature | None:
    if len(types) != 1:
        return None
    type_ = BIGINT if is_unknown(types[0]) else types[0]
    if not (type_.is_numeric or type_.kind in (Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH)):
        return None
    return Signature((type_,), sum_type(type_))


def _extreme_rule(types: Types) -> Signature | None:
    return Signature(types, types[0]) if len(types) == 1 else None


def number_rule(types: Types) -> Signature | None:
    if len(types) != 1 or not (types[0].is_numeric or is_unknown(types[0])):
        return None
    return Signature((DOUBLE,) if is_unknown(types[0]) else types, DOUBLE)


def _interval_rule(types: Types) -> Signature | None:
    is_interval = len(types) == 1 and types[0].kind in (Kind.INTERVAL, Kind.INTERVAL_DAY, Kind.TIME)
    return Signature((INTERVAL,), INTERVAL) if is_interval else None


def _numeric_rule(types: Types) -> Signature | None:
    is_numeric = len(types) == 1 and types[0].kind is Kind.NUMERIC
    return Signature((NUMERIC,), NUMERIC) if is_numeric else None


def _integer_rule(types: Types) -> Signature | None:
    kinds = (Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT)
    return Signature(types, types[0]) if len(types) == 1 and types[0].kind in kinds else None


def _boolean_rule(types: Types) -> Signature | None:
    if len(types) != 1 or not (types[0] == BOOLEAN or is_unknown(types[0])):
        return None
    return Signature((BOOLEAN,), BOOLEAN)


def _as_double(scalar: Scalar) -> Scalar:
    return scalar if scalar.type == DOUBLE else Call("cast", (scalar,), DOUBLE)


def _mean(args: tuple[Scalar, ...]) -> tuple[tuple[Part, ...], Scalar]:
    total, number = Column(0, sum_type(args[0].type)), Column(1, BIGINT)
    parts = (Part("sum", args), Part("count", args))
    return parts, Call("div", (_as_double(total), _as_double(number)), DOUBLE)


def _real_sum(args: tuple[Scalar, ...]) -> tuple[tuple[Part, ...], Scalar]:
    return (Part("sum", args),), Call("cast", (Column(0, DOUBLE),), REAL)


def _alias(name: str) -> Composite:
    """Return the composition of another aggregate with this name."""
    return Composite(lambda args: ((Part(name, args),), Column(0, args[0].type)))


def _boolean_aggregate(*, is_all: bool) -> Composite:
    """Return whether all rows, or some, are true, composed of two counts."""

    def build(args: tuple[Scalar, ...]) -> tuple[tuple[Part, ...], Scalar]:
        true = If(args[0], args[0], Literal(None, BOOLEAN), BOOLEAN)
        parts = (Part("count", args), Part("count", (true,)))
        known, found, none = Column(0, BIGINT), Column(1, BIGINT), Literal(0, BIGINT)
        test = Call("eq", (known, found), BOOLEAN) if is_all else Call("gt", (found, none), BOOLEAN)
        return parts, If(Call("eq", (known, none), BOOLEAN), Literal(None, BOOLEAN), test, BOOLEAN)

    return Composite(build)


register(
    AggregateFunction(
        "count",
        "nothing, or a value",
        "Rows, or non-NULL values.",
        {"(1), (1), (NULL)": "2", "('a')": "1"},
        _count_rule,
        definition.count_algorithm,
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
        _sum_rule,
        definition.sum_algorithm(sum_type),
        Accumulable(AccumulatorKind.SUM),
        identity=0,
        by_kind={
            Kind.NUMERIC: "$sum",
            Kind.INTERVAL: "$interval_sum",
            Kind.TIME: "$interval_sum",
        },
        exact_by_kind={Kind.BIGINT: "$exact_sum", Kind.REAL: "$real_sum"},
    )
)
register(
    AggregateFunction(
        "$only",
        "a value",
        "The value of the one row, of those of a group, that has one.",
        {},
        lambda types: Signature(types, types[0]),
        definition.extreme_algorithm(largest=True),
        Accumulable(AccumulatorKind.ONLY),
    )
)
register(
    AggregateFunction(
        "$real_sum",
        "a REAL",
        "Sum, rounded at the end.",
        {},
        lambda types: Signature(types, REAL),
        definition.sum_algorithm(sum_type),
        Composite(_real_sum),
    )
)
for _name, _mean_of in (("$interval_sum", False), ("$interval_avg", True)):
    register(
        AggregateFunction(
            _name,
            "an INTERVAL",
            "The sum or mean of INTERVALs.",
            {},
            _interval_rule,
            definition.interval_algorithm(mean=_mean_of),
            Invertible(),
        )
    )
for _name, _finish in (("$sum", definition.numeric_total), ("$avg", definition.numeric_mean)):
    register(
        AggregateFunction(
            _name,
            "a NUMERIC",
            "The exact sum or mean of NUMERICs.",
            {},
            _numeric_rule,
            definition.numeric_algorithm(definition.NumericTotal, _finish),
            Invertible(),
        )
    )
for _name in ("avg", "mean"):
    register(
        AggregateFunction(
            _name,
            "a number",
            "Mean; in SQL of exact numbers a NUMERIC.",
            {"(1), (2), (NULL)": "1.5", "(0.5), (0.25)": "0.375"},
            number_rule,
            definition.mean_algorithm,
            Composite(_mean),
            by_kind={
                Kind.NUMERIC: "$avg",
                Kind.INTERVAL: "$interval_avg",
                Kind.INTERVAL_DAY: "$interval_avg",
                Kind.TIME: "$interval_avg",
            },
            exact_by_kind={**dict.fromkeys(EXACT_KINDS, "$exact_avg"), Kind.BIGINT: "$wide_avg"},
        )
    )
register(
    AggregateFunction(
        "min",
        "a value",
        "Smallest value.",
        {"(2), (1), (NULL)": "1", "('b'), ('a')": "'a'", "('NaN'::DOUBLE), (1)": "1"},
        _extreme_rule,
        definition.extreme_algorithm(largest=False),
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
        _extreme_rule,
        definition.extreme_algorithm(largest=True),
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
        _extreme_rule,
        definition.extreme_algorithm(largest=False),
        _alias("min"),
        trend=Trend.DOWN,
        idempotent=True,
    )
)
for _name, _every in (("bool_and", True), ("every", True), ("bool_or", False)):
    register(
        AggregateFunction(
            _name,
            "a BOOLEAN",
            "Whether all are true." if _every else "Whether one is true.",
            {"(TRUE), (FALSE)": "FALSE" if _every else "TRUE", "(TRUE), (NULL)": "TRUE"},
            _boolean_rule,
            definition.extreme_algorithm(largest=not _every),
            _boolean_aggregate(is_all=_every),
            trend=Trend.DOWN if _every else Trend.UP,
            idempotent=True,
        )
    )
for _name, _kind, _expected in (
    ("bit_and", AccumulatorKind.BIT_AND, "2"),
    ("bit_or", AccumulatorKind.BIT_OR, "7"),
    ("bit_xor", AccumulatorKind.BIT_XOR, "1"),
):
    register(
        AggregateFunction(
            _name,
            "a whole number",
            f"The bitwise {_name[4:].upper()} of the values.",
            {"(7), (2), (NULL), (6), (2)": _expected},
            _integer_rule,
            definition.bitwise_algorithm(_kind),
            Accumulable(_kind),
            idempotent=_kind is not AccumulatorKind.BIT_XOR,
            by_kind=dict.fromkeys(BIT_KINDS, f"$bits{_name[3:]}"),
        )
    )
