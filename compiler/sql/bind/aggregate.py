"""Aggregate calls: bound once each, collected by the grouped query that they stand in."""

from typing import Final

from sqlglot import exp

from kpg.compiler.algebra.rel import AggregateCall
from kpg.compiler.sql.bind.calls import brought, call, coerce, condition, settled
from kpg.compiler.sql.bind.scope import Aggregates, Binding, Scope
from kpg.compiler.sql.syntax import construct_name, only
from kpg.compiler.sql.tree import used
from kpg.runtime.scalar import Column, If, Literal, Scalar
from kpg.runtime.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    MAX_DECIMAL_PRECISION,
    TEXT,
    Kind,
    Type,
    decimal,
    float_to_word,
)

SIMPLE: Final[dict[type[exp.Expr], str]] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.AnyValue: "min",
    exp.LogicalAnd: "min",
    exp.LogicalOr: "max",
    exp.GroupConcat: "string_agg",
}
SPREADS: Final[dict[type[exp.Expr], tuple[bool, bool]]] = {
    exp.Stddev: (True, True),
    exp.StddevSamp: (True, True),
    exp.StddevPop: (False, True),
    exp.Variance: (True, False),
    exp.VariancePop: (False, False),
}
"""Of a sample (of n values, divided by n - 1) or of all values; and whether its square root."""
ORDER_BLIND: Final = frozenset({"min", "max"})


def bind_aggregate(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    """The scalar that stands for an aggregate: a column of the grouping, or an expression over such."""
    kept = None
    aggregate = node
    if isinstance(node, exp.Filter):
        only(node, binding.source, "this", "expression")
        kept, aggregate = node.expression.this, node.this
    if type(aggregate) not in SIMPLE and type(aggregate) not in SPREADS:
        binding.refuse(f"aggregate {construct_name(aggregate)}", aggregate)
    if scope.aggregates is None:
        binding.wrong(f"an aggregate is not allowed in {scope.clause}", node)
    inner = scope.without_aggregates("the argument of an aggregate")
    args, distinct = _arguments(binding, inner, aggregate)
    _check_level(binding, scope, args, node)
    if kept is not None:
        test = condition(binding, binding.expression(inner, kept), kept, "FILTER")
        args = args or [Literal(1, BIGINT)]
        args[0] = If(test, args[0], Literal(None, args[0].type), args[0].type)
    if type(aggregate) in SPREADS:
        return _spread(binding, scope.aggregates, aggregate, args[0], distinct)
    return _collected(binding, scope.aggregates, aggregate, args, distinct)


def _arguments(binding: Binding, scope: Scope, node: exp.Expr) -> tuple[list[Scalar], bool]:
    only(node, binding.source, "this", "expressions", "separator")
    operand = node.this
    if operand is None or node.args.get("expressions"):
        binding.wrong(f"{construct_name(node)} takes one argument", node)
    if isinstance(operand, exp.Order):
        operand = _ordered(binding, scope, operand, node)
    distinct = isinstance(operand, exp.Distinct)
    if distinct:
        only(operand, binding.source, "expressions")
        rows = _distinct_rows(binding, scope, operand, node)
        if rows is not None:
            return rows, True
        operand = operand.expressions[0]
    if isinstance(operand, exp.Star):
        if not isinstance(node, exp.Count) or distinct:
            binding.wrong(f"{construct_name(node)} does not take *", node)
        only(operand, binding.source)
        return [], False
    args = [settled(binding.expression(scope, operand))]
    if isinstance(node, exp.GroupConcat):
        separator = node.args.get("separator")
        if separator is None:
            binding.wrong("string_agg takes a text and a separator", node)
        args = [brought(binding, arg, TEXT, node) for arg in (*args, binding.expression(scope, separator))]
    return args, distinct


def _distinct_rows(
    binding: Binding, scope: Scope, distinct: exp.Distinct, node: exp.Expr
) -> list[Scalar] | None:
    """The arguments of ``count(DISTINCT (a, b))`` or ``count(DISTINCT a, b)``; None for one plain operand.

    The first is what is counted where it is not NULL: a row in parentheses always is something (as in
    Postgres), without them it counts if none of its values is NULL (as in Spark).
    """
    parts = distinct.expressions
    whole = len(parts) == 1 and isinstance(parts[0], exp.Tuple)
    if len(parts) == 1 and not whole:
        return None
    if not isinstance(node, exp.Count):
        binding.refuse(f"DISTINCT over several expressions in {construct_name(node)}", node)
    operands = parts[0].expressions if whole else parts
    values = [settled(binding.expression(scope, part)) for part in operands]
    one = Literal(1, INTEGER)
    if whole:
        return [one, *values]
    tests = [call(binding, "is_not_null", [value], node) for value in values]
    counted = If(call(binding, "and", tests, node), one, Literal(None, INTEGER), INTEGER)
    return [counted, *values]


def _ordered(binding: Binding, scope: Scope, order: exp.Order, node: exp.Expr) -> exp.Expr:
    """The operand without its ORDER BY, which may only say what string_agg does anyhow."""
    only(order, binding.source, "this", "expressions")
    (key, *rest) = order.expressions
    operand = order.this.expressions[0] if isinstance(order.this, exp.Distinct) else order.this
    same = binding.expression(scope, key.this) == binding.expression(scope, operand)
    if rest or key.args.get("desc") or not same or not isinstance(node, exp.GroupConcat):
        hint = "string_agg can be ordered by its own text, ascending"
        binding.refuse("this ORDER BY in an aggregate", order, hint)
    result: exp.Expr = order.this
    return result


def _check_level(binding: Binding, scope: Scope, args: list[Scalar], node: exp.Expr) -> None:
    own = {known.column.index for known in scope.fields}
    needed = frozenset[int]().union(*(used(arg, binding.subqueries) for arg in args))
    if needed and not needed & own:
        binding.refuse("an aggregate over columns of an outer query only", node)


def _collected(
    binding: Binding, into: Aggregates, node: exp.Expr, args: list[Scalar], distinct: bool
) -> Scalar:
    name = SIMPLE[type(node)]
    if isinstance(node, exp.LogicalAnd | exp.LogicalOr) and args[0].type != BOOLEAN:
        binding.wrong(f"{construct_name(node)} needs a BOOLEAN, not {args[0].type}", node)
    if name == "count":
        return _column(binding, into, AggregateCall(name, tuple(args), distinct, BIGINT))
    if name in ("sum", "avg"):
        if not args[0].type.is_numeric:
            binding.wrong(f"{construct_name(node)} needs a number, not {args[0].type}", node)
        text = f"sum({node.this.sql('postgres')})"
        sum_ = AggregateCall("sum", tuple(args), distinct, _sum_type(args[0].type), text)
        total = _column(binding, into, sum_)
        if name == "sum":
            return total
        number = _column(binding, into, AggregateCall("count", tuple(args), distinct, BIGINT))
        return call(binding, "div", [coerce(total, DOUBLE), coerce(number, DOUBLE)], node)
    distinct = distinct and name not in ORDER_BLIND
    return _column(binding, into, AggregateCall(name, tuple(args), distinct, args[0].type))


def _spread(binding: Binding, into: Aggregates, node: exp.Expr, value: Scalar, distinct: bool) -> Scalar:
    """Variance or standard deviation, in DOUBLE, by the sums of the values and of their squares.

    A difference that rounding has made negative is zero.
    """
    if not value.type.is_numeric:
        binding.wrong(f"{construct_name(node)} needs a number, not {value.type}", node)
    if distinct:
        binding.refuse(f"DISTINCT in {construct_name(node)}", node)
    sample, root = SPREADS[type(node)]

    def apply(name: str, *args: Scalar) -> Scalar:
        return call(binding, name, args, node)

    def total(of: Scalar) -> Scalar:
        shown = node.sql("postgres")
        return _column(binding, into, AggregateCall("sum", (of,), False, DOUBLE, shown))

    value = coerce(value, DOUBLE)
    number = coerce(_column(binding, into, AggregateCall("count", (value,), False, BIGINT)), DOUBLE)
    zero, one = (Literal(float_to_word(constant), DOUBLE) for constant in (0.0, 1.0))
    squares, plain = total(apply("mul", value, value)), total(value)
    excess = apply("sub", squares, apply("div", apply("mul", plain, plain), apply("nullif", number, zero)))
    divisor = apply("nullif", apply("sub", number, one) if sample else number, zero)
    variance = apply("div", If(apply("lt", excess, zero), zero, excess, DOUBLE), divisor)
    return apply("sqrt", variance) if root else variance


def _sum_type(type_: Type) -> Type:
    """What a sum of values of the type is: BIGINT, DECIMAL(18, s) or DOUBLE."""
    if type_.is_integer:
        return BIGINT
    return decimal(MAX_DECIMAL_PRECISION, type_.scale) if type_.kind is Kind.DECIMAL else DOUBLE


def _column(binding: Binding, into: Aggregates, aggregate: AggregateCall) -> Column:
    if aggregate not in into.calls:
        into.calls.append(aggregate)
        into.ids.append(binding.fresh())
    return Column(into.ids[into.calls.index(aggregate)], aggregate.type)
