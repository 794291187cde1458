"""Deferral of expressions that can fail: compute them only for rows that need them.

The rules are in :mod:`kpg.compiler.algebra.scalars`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.scalars import is_total
from kpg.compiler.algebra.traverse import scalars as scalars_of
from kpg.compiler.algebra.traverse import walk as walk_rel
from kpg.compiler.sql import bound_tree
from kpg.compiler.sql.bound_tree import Ids, Node, Subquery
from kpg.compiler.sql.lower.relation import Lowering, Relation, extend
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar, columns, remap, transform
from kpg.runtime.types import BOOLEAN, INTEGER

Conditions = tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class DeferredColumns:
    """Columns that are computed later, from other columns."""

    ids: tuple[int, ...] = ()
    scalars: tuple[Scalar, ...] = ()

    def input_ids(self, ids: Ids) -> Ids:
        """Return ``ids`` with the inputs of the deferred columns among them."""
        return ids.union(*(columns(scalar) for scalar in self._select(ids).values()))

    def compute(self, relation: Relation, ids: Ids) -> Relation:
        """Return the relation with the deferred columns that are in ``ids``."""
        asked = self._select(ids)
        return extend(relation, list(asked), list(asked.values()))

    def _select(self, ids: Ids) -> dict[int, Scalar]:
        return {id_: s for id_, s in zip(self.ids, self.scalars, strict=True) if id_ in ids}


def defer_columns(
    ctx: Lowering, parts: Sequence[Relation], used: Ids
) -> tuple[list[Relation], DeferredColumns]:
    """Return the relations without deferrable columns, and those columns.

    A column is deferrable if it can fail and is not in ``used``.
    """
    found = [_defer_columns(ctx, part, used) for part in parts]
    ids = tuple(id_ for _, late in found for id_ in late.ids)
    return [part for part, _ in found], DeferredColumns(
        ids, tuple(s for _, late in found for s in late.scalars)
    )


def _defer_columns(ctx: Lowering, relation: Relation, used: Ids) -> tuple[Relation, DeferredColumns]:
    """Return one relation without its deferrable columns, and those columns."""
    rel, places, tests = relation.rel, tuple(range(len(relation.ids))), list[tuple[Scalar, ...]]()
    if isinstance(rel, algebra.Filter) and isinstance(rel.input, algebra.Map | algebra.Project):
        tests.append(rel.predicates)
        rel = rel.input
    if isinstance(rel, algebra.Project):
        places, rel = rel.columns, rel.input
        if tests:
            return relation, DeferredColumns()
    if not isinstance(rel, algebra.Map):
        return relation, DeferredColumns()
    below = len(algebra.types(rel.input))
    deferrable = {
        id_: rel.scalars[place - below]
        for id_, place in zip(relation.ids, places, strict=True)
        if place >= below and id_ not in used and not is_total(rel.scalars[place - below])
    }
    read = frozenset[int]().union(*(columns(test) for part in tests for test in part))
    if not deferrable or any(place in read for place in places if place >= below):
        return relation, DeferredColumns()
    ids = [ctx.new_id() for _ in range(below)]
    for id_, place in zip(relation.ids, places, strict=True):
        if place < below:
            ids[place] = id_
    core = Relation(rel.input, tuple(ids), tuple(key for key in relation.keys if key.isdisjoint(deferrable)))
    for part in tests:
        core = Relation(algebra.Filter(core.rel, part), core.ids, core.keys)
    values = {
        id_: remap(rel.scalars[place - below], ids.__getitem__)
        for id_, place in zip(relation.ids, places, strict=True)
        if place >= below
    }
    kept = {id_: scalar for id_, scalar in values.items() if id_ not in deferrable}
    core = extend(core, list(kept), list(kept.values()))
    return core, DeferredColumns(tuple(deferrable), tuple(values[id_] for id_ in deferrable))


def subquery_conditions(ctx: Lowering, scalar: Scalar) -> Mapping[int, Conditions]:
    """Return the subqueries in a scalar, each with conditions.

    A row needs the subquery's value only if all its conditions hold.
    """
    found: dict[int, Conditions] = {}
    if not _has_subquery(ctx, scalar):
        return found
    for id_, conditions in _subquery_conditions(ctx, scalar, ()):
        found[id_] = conditions if id_ not in found else _disjunction(found[id_], conditions)
    return found


def _subquery_conditions(
    ctx: Lowering, scalar: Scalar, enclosing: Conditions
) -> Iterator[tuple[int, Conditions]]:
    match scalar:
        case Column(index=index):
            if index in ctx.bound_query.subqueries:
                yield index, enclosing
        case If(condition=condition, then=then, otherwise=otherwise):
            is_taken = Call("is_true", (condition,), BOOLEAN)
            yield from _subquery_conditions(ctx, condition, enclosing)
            yield from _subquery_conditions(ctx, then, (*enclosing, is_taken))
            yield from _subquery_conditions(ctx, otherwise, (*enclosing, Call("not", (is_taken,), BOOLEAN)))
        case Call(function="coalesce", args=args):
            for place, arg in enumerate(args):
                if not _has_subquery(ctx, arg):
                    continue
                earlier_null = (Call("is_null", (one,), BOOLEAN) for one in args[:place])
                yield from _subquery_conditions(ctx, arg, (*enclosing, *earlier_null))
        case Call(function="and" | "or", args=args):
            decided = "is_false" if scalar.function == "and" else "is_true"
            uses_subquery = [_has_subquery(ctx, arg) for arg in args]
            plain = (arg for arg, asks in zip(args, uses_subquery, strict=True) if not asks)
            tests = (*enclosing, *(Call("not", (Call(decided, (one,), BOOLEAN),), BOOLEAN) for one in plain))
            for arg, asks in zip(args, uses_subquery, strict=True):
                if asks:
                    yield from _subquery_conditions(ctx, arg, tests)
        case Call(args=args):
            for arg in args:
                yield from _subquery_conditions(ctx, arg, enclosing)
        case Fetch() | Literal():
            pass
        case _:
            assert_never(scalar)


def _has_subquery(ctx: Lowering, scalar: Scalar) -> bool:
    subqueries = ctx.bound_query.subqueries
    return bool(subqueries) and any(id_ in subqueries for id_ in columns(scalar))


def _disjunction(left: Conditions, right: Conditions) -> Conditions:
    if not left or not right:
        return ()
    return (Call("or", (_conjunction(left), _conjunction(right)), BOOLEAN),)


def _conjunction(conditions: Conditions) -> Scalar:
    return conditions[0] if len(conditions) == 1 else Call("and", conditions, BOOLEAN)


def negate_conditions(conditions: Conditions) -> Scalar:
    """Return the negation of the conjunction of conditions that cannot be NULL."""
    return Call("not", (_conjunction(conditions),), BOOLEAN)


def may_fail(ctx: Lowering, nodes: Sequence[Node], comparison: Sequence[Scalar]) -> bool:
    """Return whether a subquery can fail, other than by returning a second row."""
    tests = [*comparison]
    for node in (part for root in nodes for part in bound_tree.walk(root)):
        if isinstance(node, bound_tree.Scan):
            tests += (scalar for part in walk_rel(node.rel) for scalar in scalars_of(part))
        else:
            tests += bound_tree.scalars(node)
    inner = (ctx.bound_query.subqueries.get(id_) for test in tests for id_ in columns(test))
    nested = [one for one in inner if one is not None]
    return not all(map(is_total, tests)) or any(
        may_fail(ctx, (one.query.node,), one.comparison) for one in nested
    )


@dataclass(frozen=True, slots=True)
class SubqueryPart:
    """Part of a scalar subquery that is computed before its value: columns of ``node``, under new ids."""

    node: Node
    names: dict[int, int]
    locate: Callable[[], Span | None]
    """Return the span of the subquery in the text."""


@dataclass(frozen=True, slots=True)
class LateValue:
    """Value of a scalar subquery, over the rows outside joined with the columns of ``part``."""

    value: Scalar
    part: SubqueryPart | None


def late_value(ctx: Lowering, subquery: Subquery) -> LateValue | None:
    """Return the value of a scalar subquery as a scalar for the rows outside; None if it cannot fail."""
    if subquery.kind != "scalar":
        return None
    value: Scalar = subquery.query.columns[0]
    node = subquery.query.node
    while isinstance(node, bound_tree.Map):
        value = substitute_columns(value, dict(zip(node.ids, node.scalars, strict=True)))
        node = node.input
    if is_total(value) or any(id_ in ctx.bound_query.subqueries for id_ in columns(value)):
        return None
    if isinstance(node, bound_tree.Rows) and len(node.rows) == 1:
        row = dict(zip(node.ids, node.rows[0], strict=True))
        return LateValue(substitute_columns(value, row), None)
    marker = ctx.new_id()
    node = bound_tree.Map(node, (marker,), (Literal(1, INTEGER),))
    names = {id_: ctx.new_id() for id_ in (*sorted(columns(value) & bound_tree.output_ids(node)), marker)}
    exists = Call("is_not_null", (Column(names[marker], INTEGER),), BOOLEAN)
    inner_value = remap(value, lambda id_: names.get(id_, id_))
    return LateValue(
        If(exists, inner_value, Literal(None, value.type), value.type),
        SubqueryPart(node, names, subquery.locate),
    )


def substitute_columns(scalar: Scalar, values: Mapping[int, Scalar]) -> Scalar:
    """Return the scalar with columns replaced by their ``values``."""
    return transform(scalar, lambda part: values.get(part.index, part) if isinstance(part, Column) else part)
