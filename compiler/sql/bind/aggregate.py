"""Aggregate calls: bound once each, collected by the grouped query that they belong to."""

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from kpg.compiler.algebra.rel import AggregateCall
from kpg.compiler.algebra.scalars import substitute
from kpg.compiler.sql.bind.aggregate_operands import Operands, bind_operands
from kpg.compiler.sql.bind.calls import coerce, condition, settled
from kpg.compiler.sql.bind.functions import Called, aggregate_of
from kpg.compiler.sql.bind.scope import Aggregates, Binding, Marker, Scope
from kpg.compiler.sql.syntax import construct_name, only
from kpg.compiler.sql.tree import used
from kpg.runtime.functions import (
    AggregateFunction,
    Composed,
    Direction,
    Form,
    Maintenance,
    Part,
    aggregate_named,
    exact,
    resolve_aggregate,
    specialised,
)
from kpg.runtime.functions.comparison import key
from kpg.runtime.scalar import Column, If, Literal, Scalar
from kpg.runtime.types import BIGINT, INTEGER, NUMERIC

MOST_MARKED: Final = 31
"""Keys of one GROUPING, a bit each."""


def bind_aggregate(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    """The scalar that stands for an aggregate: a column of the grouping, or an expression over such."""
    return collected(binding, scope, scope.without_aggregates("the argument of an aggregate"), None, node)


def collected(
    binding: Binding, scope: Scope, inner: Scope, into: Aggregates | None, node: exp.Expr
) -> Scalar:
    """The scalar that stands for an aggregate with arguments in ``inner``, collected ``into`` others.

    Where these are not given, they are those of the query whose columns it is over.
    """
    kept = within = None
    aggregate = node
    if isinstance(aggregate, exp.Filter):
        only(aggregate, binding.source, "this", "expression")
        kept, aggregate = aggregate.expression.this, aggregate.this
    if isinstance(aggregate, exp.WithinGroup):
        only(aggregate, binding.source, "this", "expression")
        within, aggregate = aggregate.expression, aggregate.this
    called = aggregate_of(aggregate, binding.catalog.functions)
    if called is None:
        binding.refuse(f"aggregate {construct_name(aggregate)}", aggregate)
    operands = bind_operands(binding, inner, aggregate, called, within)
    args = operands.args
    if kept is not None:
        test = condition(binding, binding.expression(inner, kept), kept, "FILTER")
        args = args or [Literal(1, BIGINT)]
        args = [If(test, args[0], Literal(None, args[0].type), args[0].type), *args[1:]]
    if into is None:
        into = _collector(binding, scope, [*args, *operands.keys], node)
    into.direct += operands.direct
    return _collected(binding, into, node, called, args, operands)


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


def _collector(binding: Binding, scope: Scope, args: Sequence[Scalar], node: exp.Expr) -> Aggregates:
    """What collects an aggregate: the innermost query whose columns it is over, else the one it stands in."""
    needed = frozenset[int]().union(*(used(arg, binding.subqueries) for arg in args))
    home = scope.home_of(needed)
    if home.aggregates is None:
        binding.wrong(f"an aggregate is not allowed in {home.clause}", node)
    if not needed.isdisjoint(home.aggregates.all_ids):
        binding.wrong("an aggregate is not allowed in the argument of an aggregate", node)
    return home.aggregates


def _collected(
    binding: Binding, into: Aggregates, node: exp.Expr, called: Called, args: list[Scalar], operands: Operands
) -> Scalar:
    """The aggregate as columns of the grouping: its own, or those of the aggregates that it is made of."""
    function = aggregate_named(called.name)
    if operands.distinct and args and args[0].type.kind in function.exact:
        args = [coerce(args[0], NUMERIC)]  # of different values there are few, and one state does
    types = tuple(arg.type for arg in args)
    function = exact(specialised(function, types), types)
    signature = function.rule(types)
    if signature is None:
        shown = ", ".join(str(arg.type) for arg in args[function.keeps_nulls :])
        binding.wrong(f"{called.shown} needs {function.accepts}, not {shown}", node)
    taken = tuple(coerce(arg, type_) for arg, type_ in zip(args, signature.args, strict=True))
    distinct = operands.distinct and not function.idempotent
    if distinct and function.accumulator is not None:
        taken = tuple(map(key, taken))
    written = ", ".join(arg.sql("postgres") for arg in called.args)
    maintenance: Maintenance = function.maintenance
    if taken and taken[0].type == NUMERIC and not distinct:
        from kpg.compiler.sql.bind.mixed import over_words

        maintenance, taken = over_words(function.name, taken) or (maintenance, taken)
    if not isinstance(maintenance, Composed):
        keys, order = _ordered(binding, into, function, taken, operands, node)
        text = f"{called.name}({written})"
        return _column(
            binding,
            into,
            AggregateCall(function.name, (*taken, *keys), distinct, signature.result, order, text),
        )
    parts, result = maintenance.build(taken)
    whole = node.sql("postgres")
    made = [_part(part, taken, written, whole, distinct=distinct) for part in parts]
    return substitute(result, [_column(binding, into, call) for call in made])


def _part(
    part: Part, taken: tuple[Scalar, ...], written: str, whole: str, *, distinct: bool
) -> AggregateCall:
    """One of the aggregates that another is made of; ``written`` are its arguments, ``whole`` the call."""
    type_ = resolve_aggregate(part.function, tuple(arg.type for arg in part.args)).result_type
    own = part.args == taken
    different = (distinct or part.distinct) and not aggregate_named(part.function).idempotent
    beside = tuple(arg for arg in taken if arg not in part.args) if distinct and not own else ()
    operated = tuple(map(key, part.args)) if different else part.args
    text = f"{part.function}({written})" if own else whole
    return AggregateCall(part.function, (*operated, *beside), different, type_, text=text)


def _ordered(
    binding: Binding,
    into: Aggregates,
    function: AggregateFunction,
    taken: tuple[Scalar, ...],
    operands: Operands,
    node: exp.Expr,
) -> tuple[tuple[Scalar, ...], tuple[Direction, ...]]:
    """The keys by which an aggregate that minds the order has its rows put in order, and their directions."""
    if function.in_order is None:
        return (), ()
    if function.form is Form.ORDERED_SET:
        return taken[:1], operands.order
    if operands.distinct and not set(operands.keys) <= {*operands.args, *taken}:
        hint = "order by its arguments"
        binding.wrong("an aggregate with DISTINCT can only be ordered by its arguments", node, hint)
    if operands.distinct:
        return operands.keys, operands.order
    order = (*operands.order, *(Direction(by.descending, by.nulls_first) for by in into.order))
    return (*map(key, operands.keys), *(by.column for by in into.order)), order


def _column(binding: Binding, into: Aggregates, aggregate: AggregateCall) -> Column:
    id_ = into.known.get(aggregate)
    if id_ is None:
        id_ = into.known[aggregate] = binding.fresh()
        into.calls.append(aggregate)
        into.ids.append(id_)
    return Column(id_, aggregate.type)
