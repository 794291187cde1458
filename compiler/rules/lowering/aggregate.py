"""Aggregates in bodies: each group's value, for groups with bindings and for groups without."""

from collections.abc import Callable, Sequence

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import AggregateCall, Rel
from kpg.compiler.algebra.scalars import substitute
from kpg.compiler.rules import core
from kpg.compiler.rules.aggregates import is_total
from kpg.compiler.rules.lowering.atom import Context, any_value
from kpg.compiler.rules.lowering.bindings import Bindings, without
from kpg.runtime.functions import Composed, aggregate_named, resolve_aggregate
from kpg.runtime.scalar import Call, Column, If, Literal, Scalar
from kpg.runtime.types import BOOLEAN, Type

LowerBody = Callable[[Context, Sequence[core.Literal], Sequence[str], Bindings | None], Bindings]


def summary(
    context: Context, literal: core.BodyAggregate, lower_body: LowerBody, given: Bindings | None
) -> Bindings:
    """The groups that the body has bindings for, with the result; without groups the total one has a row.

    ``given`` has the groups that the body does not bind itself.
    """
    body = _without_wildcards(literal.body)
    names = _variables(body, literal.groups)
    rows = lower_body(context, body, names, given)
    if not aggregate_named(literal.function).idempotent and not _is_one_set(context, literal.body, given):
        rows = rows.distinct(names)
    groups = [variable.name for variable in literal.groups]
    value = None if literal.value is None else rows.scalar(literal.value)
    keys = tuple(rows.column(name) for name in groups)
    rel = reduced(rows.rel, keys, ((literal.function, value, literal.result.type),))
    if not groups:
        rel = _of_everything(rel, literal)
    places = {name: place for place, name in enumerate((*groups, literal.result.name))}
    return Bindings(rel, places)


def _of_everything(rel: Rel, literal: core.BodyAggregate) -> Rel:
    """The one row of an aggregate without groups; over nothing, its identity or no row."""
    column = Column(0, literal.result.type)
    if is_total(literal.function):
        nothing = nothing_of(literal)
        return algebra.Project(algebra.Map(rel, (Call("coalesce", (column, nothing), column.type),)), (1,))
    return algebra.Filter(rel, (Call("is_not_null", (column,), BOOLEAN),))


def defaults(context: Context, literal: core.BodyAggregate, found: Bindings, groups: Bindings) -> Bindings:
    """The aggregate's rows, and one with its identity for each of the groups that has none."""
    names = [variable.name for variable in literal.groups]
    missing = without(context.names, groups, found.narrowed(names))
    filled = missing.extended([(literal.result.name, nothing_of(literal))])
    order = [*names, literal.result.name]
    rel = algebra.Union((found.narrowed(order).rel, filled.narrowed(order).rel))
    return Bindings(rel, {name: place for place, name in enumerate(order)})


def nothing_of(literal: core.BodyAggregate) -> Literal:
    """The identity of a total aggregate: 0, whose word is 0 in every numeric type."""
    return Literal(aggregate_named(literal.function).identity, literal.result.type)


def reduced(rel: Rel, keys: Sequence[Column], wanted: Sequence[tuple[str, Scalar | None, Type]]) -> Rel:
    """Rows (keys, aggregates): for each the function, its operand and the type of its result."""
    calls: list[AggregateCall] = []
    values: list[Scalar] = []

    def call(function: str, args: tuple[Scalar, ...], *, distinct: bool = False) -> Scalar:
        meaning = resolve_aggregate(function, tuple(arg.type for arg in args))
        maintenance = meaning.function.maintenance
        if isinstance(maintenance, Composed):
            parts, result = maintenance.build(args)
            return substitute(
                result, [call(part.function, part.args, distinct=part.distinct) for part in parts]
            )
        # Values are never NULL: what can be of rows is of rows.
        if meaning.function.takes_rows and not distinct and not any(isinstance(arg, If) for arg in args):
            args = ()
        made = AggregateCall(function, args, distinct, meaning.result_type)
        if made not in calls:
            calls.append(made)
        return Column(len(keys) + calls.index(made), made.type)

    for function, operand, result in wanted:
        value = call(function, () if operand is None else (operand,))
        values.append(value if value.type == result else Call("cast", (value,), result))
    rows: Rel = algebra.Reduce(rel, tuple(keys), tuple(calls))
    if all(isinstance(value, Column) for value in values):
        places = [value.index for value in values if isinstance(value, Column)]
    else:
        rows = algebra.Map(rows, tuple(values))
        places = [len(keys) + len(calls) + place for place in range(len(values))]
    return algebra.Project(rows, (*range(len(keys)), *places))


def _without_wildcards(body: Sequence[core.Literal]) -> tuple[core.Literal, ...]:
    """The body with a variable for each wildcard of its positive atoms, since they count."""
    result: list[core.Literal] = []
    for number, literal in enumerate(body):
        if isinstance(literal, core.Atom):
            terms = tuple(
                any_value(term.type, number, place) if isinstance(term, core.Wildcard) else term
                for place, term in enumerate(literal.terms)
            )
            literal = core.Atom(literal.relation, terms, literal.span)
        result.append(literal)
    return tuple(result)


def _variables(body: Sequence[core.Literal], groups: Sequence[core.Variable]) -> list[str]:
    """The variables of an aggregate's body, its groups among them."""
    found = [variable.name for variable in groups]
    found += [v.name for literal in body for v in core.literal_variables(literal)]
    return list(dict.fromkeys(found))


def _is_one_set(context: Context, body: Sequence[core.Literal], given: Bindings | None) -> bool:
    """Whether the body is one atom of a relation that has no row twice, as a table may."""
    if given is not None or len(body) != 1:
        return False
    only = body[0]
    return isinstance(only, core.Atom) and context.program.relations[only.relation].kind is core.Kind.DERIVED
