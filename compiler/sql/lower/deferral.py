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
from kpg.compiler.sql.lower.relation import Lowered, Lowering, extend
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar, columns, remap, transform
from kpg.runtime.types import BOOLEAN, INTEGER

Conditions = tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Deferred:
    """Columns to be computed later, of other columns."""

    ids: tuple[int, ...] = ()
    scalars: tuple[Scalar, ...] = ()

    def needed(self, ids: Ids) -> Ids:
        """What has to be there so that ``ids`` can be, once the columns are computed."""
        return ids.union(*(columns(scalar) for scalar in self._asked(ids).values()))

    def computed(self, lowered: Lowered, ids: Ids) -> Lowered:
        """The relation with those of the columns that are among ``ids``."""
        asked = self._asked(ids)
        return extend(lowered, list(asked), list(asked.values()))

    def _asked(self, ids: Ids) -> dict[int, Scalar]:
        return {id_: s for id_, s in zip(self.ids, self.scalars, strict=True) if id_ in ids}


def deferred(ctx: Lowering, parts: Sequence[Lowered], used: Ids) -> tuple[list[Lowered], Deferred]:
    """The relations without the columns that they compute, may fail to, and that are not ``used``."""
    found = [_deferred(ctx, part, used) for part in parts]
    ids = tuple(id_ for _, late in found for id_ in late.ids)
    return [part for part, _ in found], Deferred(ids, tuple(s for _, late in found for s in late.scalars))


def _deferred(ctx: Lowering, lowered: Lowered, used: Ids) -> tuple[Lowered, Deferred]:
    """The relation without the columns that it computes, may fail to, and that are not ``used``."""
    rel, places, tests = lowered.rel, tuple(range(len(lowered.ids))), list[tuple[Scalar, ...]]()
    if isinstance(rel, algebra.Filter) and isinstance(rel.input, algebra.Map | algebra.Project):
        tests.append(rel.predicates)
        rel = rel.input
    if isinstance(rel, algebra.Project):
        places, rel = rel.columns, rel.input
        if tests:
            return lowered, Deferred()
    if not isinstance(rel, algebra.Map):
        return lowered, Deferred()
    below = len(algebra.types(rel.input))
    late = {
        id_: rel.scalars[place - below]
        for id_, place in zip(lowered.ids, places, strict=True)
        if place >= below and id_ not in used and not is_total(rel.scalars[place - below])
    }
    read = frozenset[int]().union(*(columns(test) for part in tests for test in part))
    if not late or any(place in read for place in places if place >= below):
        return lowered, Deferred()
    ids = [ctx.fresh() for _ in range(below)]
    for id_, place in zip(lowered.ids, places, strict=True):
        if place < below:
            ids[place] = id_
    core = Lowered(rel.input, tuple(ids), tuple(key for key in lowered.keys if key.isdisjoint(late)))
    for part in tests:
        core = Lowered(algebra.Filter(core.rel, part), core.ids, core.keys)
    values = {
        id_: remap(rel.scalars[place - below], ids.__getitem__)
        for id_, place in zip(lowered.ids, places, strict=True)
        if place >= below
    }
    now = {id_: scalar for id_, scalar in values.items() if id_ not in late}
    core = extend(core, list(now), list(now.values()))
    return core, Deferred(tuple(late), tuple(values[id_] for id_ in late))


def askers(ctx: Lowering, scalar: Scalar) -> Mapping[int, Conditions]:
    """The subqueries in a scalar, with conditions under all of which a row asks for their value."""
    found: dict[int, Conditions] = {}
    if not _asks(ctx, scalar):
        return found
    for id_, conditions in _askers(ctx, scalar, ()):
        found[id_] = conditions if id_ not in found else _either(found[id_], conditions)
    return found


def _askers(ctx: Lowering, scalar: Scalar, around: Conditions) -> Iterator[tuple[int, Conditions]]:
    match scalar:
        case Column(index=index):
            if index in ctx.resolved.subqueries:
                yield index, around
        case If(condition=condition, then=then, otherwise=otherwise):
            taken = Call("is_true", (condition,), BOOLEAN)
            yield from _askers(ctx, condition, around)
            yield from _askers(ctx, then, (*around, taken))
            yield from _askers(ctx, otherwise, (*around, Call("not", (taken,), BOOLEAN)))
        case Call(function="coalesce", args=args):
            for place, arg in enumerate(args):
                if not _asks(ctx, arg):
                    continue
                before = (Call("is_null", (one,), BOOLEAN) for one in args[:place])
                yield from _askers(ctx, arg, (*around, *before))
        case Call(function="and" | "or", args=args):
            decided = "is_false" if scalar.function == "and" else "is_true"
            asking = [_asks(ctx, arg) for arg in args]
            plain = (arg for arg, asks in zip(args, asking, strict=True) if not asks)
            tests = (*around, *(Call("not", (Call(decided, (one,), BOOLEAN),), BOOLEAN) for one in plain))
            for arg, asks in zip(args, asking, strict=True):
                if asks:
                    yield from _askers(ctx, arg, tests)
        case Call(args=args):
            for arg in args:
                yield from _askers(ctx, arg, around)
        case Fetch() | Literal():
            pass
        case _:
            assert_never(scalar)


def _asks(ctx: Lowering, scalar: Scalar) -> bool:
    subqueries = ctx.resolved.subqueries
    return bool(subqueries) and any(id_ in subqueries for id_ in columns(scalar))


def _either(one: Conditions, other: Conditions) -> Conditions:
    if not one or not other:
        return ()
    return (Call("or", (_all(one), _all(other)), BOOLEAN),)


def _all(conditions: Conditions) -> Scalar:
    return conditions[0] if len(conditions) == 1 else Call("and", conditions, BOOLEAN)


def refused(conditions: Conditions) -> Scalar:
    """That not all of the conditions hold, each of which is true or false."""
    return Call("not", (_all(conditions),), BOOLEAN)


def may_fail(ctx: Lowering, nodes: Sequence[Node], comparison: Sequence[Scalar]) -> bool:
    """Whether what a subquery computes can fail, but for having a second row."""
    tests = [*comparison]
    for node in (part for whole in nodes for part in bound_tree.walk(whole)):
        if isinstance(node, bound_tree.Scan):
            tests += (scalar for part in walk_rel(node.rel) for scalar in scalars_of(part))
        else:
            tests += bound_tree.scalars(node)
    inner = (ctx.resolved.subqueries.get(id_) for test in tests for id_ in columns(test))
    deeper = [one for one in inner if one is not None]
    return not all(map(is_total, tests)) or any(
        may_fail(ctx, (one.query.node,), one.comparison) for one in deeper
    )


@dataclass(frozen=True, slots=True)
class Part:
    """What a scalar subquery computes before its value: columns of ``node``, by the ids that they get."""

    node: Node
    names: dict[int, int]
    place: Callable[[], Span | None]


@dataclass(frozen=True, slots=True)
class Late:
    """A scalar subquery's ``value``, over the rows outside together with the columns of ``part``."""

    value: Scalar
    part: Part | None


def late_value(ctx: Lowering, subquery: Subquery) -> Late | None:
    """The value of a scalar subquery as a scalar for the rows outside, if it may fail; else None."""
    if subquery.kind != "scalar":
        return None
    value: Scalar = subquery.query.columns[0]
    node = subquery.query.node
    while isinstance(node, bound_tree.Map):
        value = over(value, dict(zip(node.ids, node.scalars, strict=True)))
        node = node.input
    if is_total(value) or any(id_ in ctx.resolved.subqueries for id_ in columns(value)):
        return None
    if isinstance(node, bound_tree.Rows) and len(node.rows) == 1:
        row = dict(zip(node.ids, node.rows[0], strict=True))
        return Late(over(value, row), None)
    mark = ctx.fresh()
    node = bound_tree.Map(node, (mark,), (Literal(1, INTEGER),))
    names = {id_: ctx.fresh() for id_ in (*sorted(columns(value) & bound_tree.produced(node)), mark)}
    there = Call("is_not_null", (Column(names[mark], INTEGER),), BOOLEAN)
    here = remap(value, lambda id_: names.get(id_, id_))
    return Late(If(there, here, Literal(None, value.type), value.type), Part(node, names, subquery.place))


def over(scalar: Scalar, values: Mapping[int, Scalar]) -> Scalar:
    """The scalar with values for some of its columns."""
    return transform(scalar, lambda part: values.get(part.index, part) if isinstance(part, Column) else part)
