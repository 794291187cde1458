"""Aggregate calls: bound once each, collected by the grouped query that they stand in."""

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from kpg.compiler.algebra.rel import AggregateCall
from kpg.compiler.algebra.scalars import substitute
from kpg.compiler.sql.bind.calls import call, coerce, condition, settled
from kpg.compiler.sql.bind.functions import Called, aggregate_of, listed
from kpg.compiler.sql.bind.scope import Aggregates, Binding, Marker, Scope
from kpg.compiler.sql.syntax import construct_name, only
from kpg.compiler.sql.tree import used
from kpg.runtime.functions import AggregateFunction, Composed, aggregate_named, resolve_aggregate, specialised
from kpg.runtime.scalar import Column, If, Literal, Scalar
from kpg.runtime.types import BIGINT, INTEGER

MOST_MARKED: Final = 31
"""Keys of one GROUPING, a bit each."""


def bind_aggregate(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    """The scalar that stands for an aggregate: a column of the grouping, or an expression over such."""
    kept = None
    aggregate = node
    if isinstance(node, exp.Filter):
        only(node, binding.source, "this", "expression")
        kept, aggregate = node.expression.this, node.this
    called = aggregate_of(aggregate)
    if called is None:
        binding.refuse(f"aggregate {construct_name(aggregate)}", aggregate)
    inner = scope.without_aggregates("the argument of an aggregate")
    args, distinct = _arguments(binding, inner, aggregate, called)
    if kept is not None:
        test = condition(binding, binding.expression(inner, kept), kept, "FILTER")
        args = args or [Literal(1, BIGINT)]
        args[0] = If(test, args[0], Literal(None, args[0].type), args[0].type)
    into = _collector(binding, scope, args, node)
    return _collected(binding, into, aggregate, called, args, distinct)


def bind_grouping(binding: Binding, scope: Scope, node: exp.Grouping) -> Scalar:
    """GROUPING(keys...): a number that tells which of the keys a row's grouping set lacks."""
    only(node, binding.source, "expressions")
    inner = scope.without_aggregates("GROUPING")
    keys = tuple(settled(binding.expression(inner, part)) for part in node.expressions)
    if not 1 <= len(keys) <= MOST_MARKED:
        binding.wrong(f"GROUPING takes 1 to {MOST_MARKED} expressions", node)
    into = _collector(binding, scope, keys, node)
    known = next((marker for marker in into.markers if marker.keys == keys), None)
    if known is None:
        known = Marker(binding.fresh(), keys, node)
        into.markers.append(known)
    return Column(known.id, INTEGER)


def _arguments(binding: Binding, scope: Scope, node: exp.Expr, called: Called) -> tuple[list[Scalar], bool]:
    """The bound operands, and whether only different ones count."""
    function = aggregate_named(called.name)
    only(node, binding.source, "this", *(name for name, part in node.args.items() if listed(part)))
    if not called.args:
        binding.wrong(f"{called.shown} takes {function.accepts}", node)
    operand, *others = called.args
    if isinstance(operand, exp.Order):
        operand = _ordered(binding, scope, operand, function)
    distinct = False
    if isinstance(operand, exp.Distinct):
        distinct = True
        only(operand, binding.source, "expressions")
        rows = _distinct_rows(binding, scope, operand, node, called)
        if rows is not None:
            return rows, True
        operand = operand.expressions[0]
    if isinstance(operand, exp.Star):
        if not function.takes_rows or distinct:
            binding.wrong(f"{called.shown} does not take *", node)
        only(operand, binding.source)
        return [], False
    if function.takes_rows and others:
        binding.wrong(f"{called.shown} takes one argument", node)
    return [settled(binding.expression(scope, arg)) for arg in (operand, *others)], distinct


def _distinct_rows(
    binding: Binding, scope: Scope, distinct: exp.Distinct, node: exp.Expr, called: Called
) -> list[Scalar] | None:
    """The arguments of ``count(DISTINCT (a, b))`` or ``count(DISTINCT a, b)``; None for one plain operand.

    The first is what is counted where it is not NULL: a row in parentheses always is something (as in
    Postgres), without them it counts if none of its values is NULL (as in Spark).
    """
    parts = distinct.expressions
    whole = len(parts) == 1 and isinstance(parts[0], exp.Tuple)
    if len(parts) == 1 and not whole:
        return None
    if not aggregate_named(called.name).takes_rows:
        binding.refuse(f"DISTINCT over several expressions in {called.shown}", node)
    operands = parts[0].expressions if whole else parts
    values = [settled(binding.expression(scope, part)) for part in operands]
    one = Literal(1, INTEGER)
    if whole:
        return [one, *values]
    tests = [call(binding, "is_not_null", [value], node) for value in values]
    counted = If(call(binding, "and", tests, node), one, Literal(None, INTEGER), INTEGER)
    return [counted, *values]


def _ordered(binding: Binding, scope: Scope, order: exp.Order, function: AggregateFunction) -> exp.Expr:
    """The operand without its ORDER BY, which may only say what the aggregate does anyhow."""
    only(order, binding.source, "this", "expressions")
    (key, *rest) = order.expressions
    operand = order.this.expressions[0] if isinstance(order.this, exp.Distinct) else order.this
    same = binding.expression(scope, key.this) == binding.expression(scope, operand)
    if rest or key.args.get("desc") or not same or not function.order_sensitive:
        hint = "string_agg can be ordered by its own text, ascending"
        binding.refuse("this ORDER BY in an aggregate", order, hint)
    result: exp.Expr = order.this
    return result


def _collector(binding: Binding, scope: Scope, args: Sequence[Scalar], node: exp.Expr) -> Aggregates:
    """What collects an aggregate: the innermost query whose columns it is over, else the one it stands in."""
    needed = frozenset[int]().union(*(used(arg, binding.subqueries) for arg in args))
    home = scope.home_of(needed)
    if home.aggregates is None:
        binding.wrong(f"an aggregate is not allowed in {home.clause}", node)
    return home.aggregates


def _collected(
    binding: Binding, into: Aggregates, node: exp.Expr, called: Called, args: list[Scalar], distinct: bool
) -> Scalar:
    """The aggregate as columns of the grouping: its own, or those of the aggregates that it is made of."""
    function = aggregate_named(called.name)
    types = tuple(arg.type for arg in args)
    function = specialised(function, types)
    signature = function.rule(types)
    if signature is None:
        shown = ", ".join(str(arg.type) for arg in args)
        binding.wrong(f"{called.shown} needs {function.accepts}, not {shown}", node)
    operands = tuple(coerce(arg, type_) for arg, type_ in zip(args, signature.args, strict=True))
    distinct = distinct and not function.idempotent
    written = ", ".join(arg.sql("postgres") for arg in called.args)
    if not isinstance(function.maintenance, Composed):
        text = f"{called.name}({written})"
        return _column(
            binding, into, AggregateCall(function.name, operands, distinct, signature.result, text)
        )
    parts, result = function.maintenance.build(operands)
    if distinct and any(part.args != operands for part in parts):
        binding.refuse(f"DISTINCT in {called.shown}", node)
    columns: list[Scalar] = []
    for part in parts:
        type_ = resolve_aggregate(part.function, tuple(arg.type for arg in part.args)).result_type
        text = f"{part.function}({written})" if part.args == operands else node.sql("postgres")
        columns.append(_column(binding, into, AggregateCall(part.function, part.args, distinct, type_, text)))
    return substitute(result, columns)


def _column(binding: Binding, into: Aggregates, aggregate: AggregateCall) -> Column:
    if aggregate not in into.calls:
        into.calls.append(aggregate)
        into.ids.append(binding.fresh())
    return Column(into.ids[into.calls.index(aggregate)], aggregate.type)
