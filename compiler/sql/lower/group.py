"""Groups, and the groups of several sets of keys, over correlation values."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import AggregateCall
from kpg.compiler.sql import tree
from kpg.compiler.sql.lower.block import attach
from kpg.compiler.sql.lower.lowered import Lowered, Lowering, distinct, extend, minus, project, union
from kpg.compiler.sql.lower.subquery import with_values
from kpg.compiler.sql.tree import Ids, used
from kpg.runtime.functions import aggregate_named
from kpg.runtime.functions.comparison import key
from kpg.runtime.scalar import Column, Literal, Scalar
from kpg.runtime.types import BIGINT, INTEGER, is_loose


def around(inner: Lowered, outer: Lowered | None) -> tuple[int, ...]:
    """The correlation columns that the relation has."""
    return tuple(id_ for id_ in outer.ids if id_ in inner.ids) if outer is not None else ()


def used_by(ctx: Lowering, scalars: Sequence[Scalar]) -> Ids:
    """The columns that scalars and the subqueries in them need."""
    return frozenset[int]().union(*(used(scalar, ctx.resolved.subqueries) for scalar in scalars))


def lower_group(ctx: Lowering, node: tree.Group, outer: Lowered | None, needed: Ids) -> Lowered:
    """One row for each group, and for correlation values without rows where there are no keys."""
    calls = _needed(node, needed)
    inner = _input(ctx, node, calls, outer)
    grouped = _grouped(ctx, inner, outer, (node.key_ids, node.keys), calls)
    if outer is None or not around(inner, outer) or node.key_ids or id(node) in ctx.unfilled:
        return grouped
    return _filled(ctx, grouped, outer, calls)


def lower_grouping_sets(
    ctx: Lowering, node: tree.GroupingSets, outer: Lowered | None, needed: Ids
) -> Lowered:
    """A reduce for each set of keys, all over one input."""
    calls = _needed(node, needed)
    inner = ctx.share(_input(ctx, node, calls, outer))
    ids = (*around(inner, outer), *node.key_ids, *calls, *node.marks)
    parts: list[Lowered] = []
    for number, places in enumerate(node.sets):
        chosen = tuple(node.key_ids[place] for place in places), tuple(node.keys[place] for place in places)
        part = _grouped(ctx, inner, outer, chosen, calls)
        if outer is not None and around(inner, outer) and not places:
            part = _filled(ctx, part, outer, calls)
        missing = [place for place in range(len(node.keys)) if place not in places]
        values = [Literal(None, node.keys[place].type) for place in missing]
        values += [Literal(marked[number], INTEGER) for marked in node.marked]
        part = extend(part, [*(node.key_ids[place] for place in missing), *node.marks], values)
        parts.append(project(part, ids))
    return union(parts)


def _needed(node: tree.Group | tree.GroupingSets, needed: Ids) -> dict[int, AggregateCall]:
    pairs = zip(node.ids, node.aggregates, strict=True)
    return {id_: call for id_, call in pairs if id_ in needed}


def _input(
    ctx: Lowering,
    node: tree.Group | tree.GroupingSets,
    calls: dict[int, AggregateCall],
    outer: Lowered | None,
) -> Lowered:
    """The rows to be grouped, with all that keys and operands refer to."""
    scalars = (*node.keys, *(arg for call in calls.values() for arg in call.args))
    references = used_by(ctx, scalars)
    inner = ctx.lower(node.input, outer, references)
    inner = attach(ctx, inner, outer, references)
    return with_values(ctx, inner, scalars, ())


def _grouped(
    ctx: Lowering,
    inner: Lowered,
    outer: Lowered | None,
    keys: tuple[tuple[int, ...], tuple[Scalar, ...]],
    calls: dict[int, AggregateCall],
) -> Lowered:
    """The groups of rows by the correlation values and the keys (ids and scalars)."""
    correlated = around(inner, outer)
    if not calls and not correlated and not keys[0]:
        calls = {ctx.fresh(): AggregateCall("count", (), False, BIGINT)}
    return _reduced(ctx, inner, correlated, dict(zip(*keys, strict=True)), calls)


def _reduced(
    ctx: Lowering,
    inner: Lowered,
    correlated: Sequence[int],
    keys: dict[int, Scalar],
    calls: dict[int, AggregateCall],
) -> Lowered:
    """The groups by correlation values, as they are, and by keys: of equal values one is shown."""
    loose = {id_: scalar for id_, scalar in keys.items() if is_loose(scalar.type)}
    calls = {**calls, **{id_: AggregateCall("min", (one,), False, one.type) for id_, one in loose.items()}}
    scalars = (*(Column(id_, inner.type_of(id_)) for id_ in correlated), *map(key, keys.values()))
    aggregates = (replace(call, args=tuple(inner.over(arg) for arg in call.args)) for call in calls.values())
    rel = algebra.Reduce(inner.rel, tuple(inner.over(scalar) for scalar in scalars), tuple(aggregates))
    ids = tuple(ctx.fresh() if id_ in loose else id_ for id_ in keys)
    return Lowered(rel, (*correlated, *ids, *calls))


def distinct_values(
    ctx: Lowering, lowered: Lowered, correlated: Sequence[int], ids: Sequence[int]
) -> Lowered:
    """For each combination of correlation values the rows of other columns of which no two are equal."""
    columns = {id_: Column(id_, lowered.type_of(id_)) for id_ in ids if id_ not in correlated}
    chosen = (*correlated, *columns)
    if not any(is_loose(column.type) for column in columns.values()) or ctx.is_unique(lowered, chosen):
        return distinct(ctx, lowered, chosen)
    return project(_reduced(ctx, project(lowered, chosen), correlated, dict(columns), {}), chosen)


def with_keys(
    ctx: Lowering, sides: Sequence[Lowered], ids: Iterable[int]
) -> tuple[list[Lowered], dict[int, int]]:
    """Relations with one more column for each of some that they share, if it is loose: the values' keys."""
    loose = {id_: ctx.fresh() for id_ in ids if is_loose(sides[0].type_of(id_))}
    extended = [
        extend(side, list(loose.values()), [key(Column(id_, side.type_of(id_))) for id_ in loose])
        for side in sides
    ]
    return extended, loose


def _filled(ctx: Lowering, grouped: Lowered, outer: Lowered, calls: dict[int, AggregateCall]) -> Lowered:
    """The groups, and for correlation values without rows what aggregating nothing gives."""
    grouped = ctx.share(grouped)
    missing = minus(outer, project(grouped, outer.ids))
    empty = [Literal(aggregate_named(call.function).empty, call.type) for call in calls.values()]
    result = union([grouped, extend(missing, list(calls), empty)])
    return Lowered(result.rel, result.ids, (frozenset(outer.ids),))
