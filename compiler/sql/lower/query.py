"""Decorrelation: bound queries to relational algebra, with groups.

A node is lowered over *correlation values*: the distinct values of the columns that it takes from enclosing
queries. If the node refers to any, its result has them as columns, so each combination has its own rows.
Shared relations become lets around the whole query.

Source: Neumann and Kemper, *Unnesting Arbitrary Queries*, BTW 2015.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import AggregateCall, Rel
from kpg.compiler.algebra.traverse import transform_up, walk
from kpg.compiler.sql import bound_tree
from kpg.compiler.sql.bound_tree import BoundQuery, Ids, Node, referenced_ids
from kpg.compiler.sql.lower.block import (
    attach,
    block_of,
    lower_block,
    lower_expand,
    with_values,
)
from kpg.compiler.sql.lower.relation import (
    Lowering,
    Relation,
    distinct,
    extend,
    join,
    keep,
    minus,
    project,
    union,
)
from kpg.runtime.functions import lookup_aggregate
from kpg.runtime.functions.comparison import equality_key
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.interrupts import checkpoint
from kpg.runtime.plan.nodes import call_columns, remap_call
from kpg.runtime.scalar import Column, Literal, Scalar
from kpg.runtime.types import BIGINT, INTEGER, is_loose

if TYPE_CHECKING:
    from kpg.compiler.sql.lower import outer_join as outer_joins
else:
    outer_joins = LazyModule("kpg.compiler.sql.lower.outer_join")


def correlation_ids(inner: Relation, outer: Relation | None) -> tuple[int, ...]:
    """Return the correlation columns that the relation has."""
    return tuple(id_ for id_ in outer.ids if id_ in inner.ids) if outer is not None else ()


def references_of(ctx: Lowering, scalars: Sequence[Scalar]) -> Ids:
    """Return the columns that scalars and their subqueries refer to."""
    return frozenset[int]().union(*(referenced_ids(scalar, ctx.bound_query.subqueries) for scalar in scalars))


def lower_group(ctx: Lowering, node: bound_tree.Group, outer: Relation | None, needed: Ids) -> Relation:
    """Return one row per group; without keys, also a row for correlation values without input rows."""
    calls = _needed_calls(node, needed)
    inner = _group_input(ctx, node, calls, outer)
    grouped = _group(ctx, inner, outer, (node.key_ids, node.keys), calls)
    if outer is None or not correlation_ids(inner, outer) or node.key_ids or id(node) in ctx.unpadded_groups:
        return grouped
    return _pad_empty_groups(ctx, grouped, outer, calls)


def lower_grouping_sets(
    ctx: Lowering, node: bound_tree.GroupingSets, outer: Relation | None, needed: Ids
) -> Relation:
    """Return the union of one reduce per set of keys, all over one input."""
    calls = _needed_calls(node, needed)
    inner = ctx.share(_group_input(ctx, node, calls, outer))
    ids = (*correlation_ids(inner, outer), *node.key_ids, *calls, *node.marks)
    parts: list[Relation] = []
    for number, places in enumerate(node.sets):
        chosen = tuple(node.key_ids[place] for place in places), tuple(node.keys[place] for place in places)
        part = _group(ctx, inner, outer, chosen, calls)
        if outer is not None and correlation_ids(inner, outer) and not places:
            part = _pad_empty_groups(ctx, part, outer, calls)
        missing = [place for place in range(len(node.keys)) if place not in places]
        values = [Literal(None, node.keys[place].type) for place in missing]
        values += [Literal(marked[number], INTEGER) for marked in node.mark_values]
        part = extend(part, [*(node.key_ids[place] for place in missing), *node.marks], values)
        parts.append(project(part, ids))
    return union(parts)


def _needed_calls(node: bound_tree.Group | bound_tree.GroupingSets, needed: Ids) -> dict[int, AggregateCall]:
    pairs = zip(node.ids, node.aggregates, strict=True)
    return {id_: call for id_, call in pairs if id_ in needed}


def _group_input(
    ctx: Lowering,
    node: bound_tree.Group | bound_tree.GroupingSets,
    calls: dict[int, AggregateCall],
    outer: Relation | None,
) -> Relation:
    """Return the rows to group, with all columns that keys and arguments refer to."""
    scalars = (*node.keys, *(arg for call in calls.values() for arg in call.args))
    references = references_of(ctx, scalars)
    inner = ctx.lower(node.input, outer, references)
    inner = attach(ctx, inner, outer, references)
    return with_values(ctx, inner, scalars, ())


def _group(
    ctx: Lowering,
    inner: Relation,
    outer: Relation | None,
    keys: tuple[tuple[int, ...], tuple[Scalar, ...]],
    calls: dict[int, AggregateCall],
) -> Relation:
    """Return the groups of rows by the correlation values and the keys (ids and scalars)."""
    correlated = correlation_ids(inner, outer)
    if not calls and not correlated and not keys[0]:
        calls = {ctx.new_id(): AggregateCall("count", (), False, BIGINT)}
    return _reduce(ctx, inner, correlated, dict(zip(*keys, strict=True)), calls)


def _reduce(
    ctx: Lowering,
    inner: Relation,
    correlated: Sequence[int],
    keys: dict[int, Scalar],
    calls: dict[int, AggregateCall],
) -> Relation:
    """Return the groups by correlation values and keys.

    Of loose keys, which can be equal and look different, the group shows the least.
    """
    loose = {id_: scalar for id_, scalar in keys.items() if is_loose(scalar.type)}
    calls = {
        **calls,
        **{
            id_: AggregateCall("min", (loose_key,), False, loose_key.type) for id_, loose_key in loose.items()
        },
    }
    scalars = (*(Column(id_, inner.type_of(id_)) for id_ in correlated), *map(equality_key, keys.values()))
    aggregates = (
        replace(call, args=tuple(inner.to_positions(arg) for arg in call.args)) for call in calls.values()
    )
    rel = algebra.Reduce(
        inner.rel, tuple(inner.to_positions(scalar) for scalar in scalars), tuple(aggregates)
    )
    ids = tuple(ctx.new_id() if id_ in loose else id_ for id_ in keys)
    return Relation(rel, (*correlated, *ids, *calls))


def distinct_values(
    ctx: Lowering, relation: Relation, correlation: Sequence[int], ids: Sequence[int]
) -> Relation:
    """Return the rows without duplicates per combination of correlation values; of equal rows one stays."""
    columns = {id_: Column(id_, relation.type_of(id_)) for id_ in ids if id_ not in correlation}
    chosen = (*correlation, *columns)
    if not any(is_loose(column.type) for column in columns.values()) or ctx.is_unique(relation, chosen):
        return distinct(ctx, relation, chosen)
    return project(_reduce(ctx, project(relation, chosen), correlation, dict(columns), {}), chosen)


def with_keys(
    ctx: Lowering, sides: Sequence[Relation], ids: Iterable[int]
) -> tuple[list[Relation], dict[int, int]]:
    """Return the relations with a comparison key for each loose column in ``ids``, and the keys' ids.

    Values of a loose type can be equal and look different.
    """
    loose = {id_: ctx.new_id() for id_ in ids if is_loose(sides[0].type_of(id_))}
    extended = [
        extend(side, list(loose.values()), [equality_key(Column(id_, side.type_of(id_))) for id_ in loose])
        for side in sides
    ]
    return extended, loose


def _pad_empty_groups(
    ctx: Lowering, grouped: Relation, outer: Relation, calls: dict[int, AggregateCall]
) -> Relation:
    """Return the groups, and the aggregates of no rows for correlation values without a group."""
    grouped = ctx.share(grouped)
    missing = minus(outer, project(grouped, outer.ids))
    empty = [Literal(lookup_aggregate(call.function).empty, call.type) for call in calls.values()]
    result = union([grouped, extend(missing, list(calls), empty)])
    return Relation(result.rel, result.ids, (frozenset(outer.ids),))


def lower_to_algebra(resolved: BoundQuery) -> tuple[Rel, tuple[int, ...]]:
    """Return the relation of a bound query and the ids of its columns.

    The query's columns come first, then those that serve only its order.
    """
    query = resolved.query
    chosen = [column.index for column in query.columns]
    hidden = dict.fromkeys(key.column.index for key in query.order if key.column.index not in chosen)
    ids = (*chosen, *hidden)
    ctx = _new_lowering(resolved)
    lowered = ctx.lower(query.node, None, frozenset(ids))
    places = tuple(lowered.position(id_) for id_ in ids)
    body: Rel = lowered.rel
    if places != tuple(range(len(lowered.ids))):
        body = algebra.Project(body, places)
    return _with_lets(ctx.lets, body), ids


def _new_lowering(
    resolved: BoundQuery, enclosing: Lowering | None = None, loop: Iterable[str] = ()
) -> Lowering:
    ctx: Lowering

    def lower(node: Node, outer: Relation | None, needed: Ids) -> Relation:
        return lower_node(ctx, node, outer, needed)

    if enclosing is None:
        ctx = Lowering(resolved, lower, ids=count(resolved.next_id))
    else:
        ctx = Lowering(
            resolved,
            lower,
            enclosing=enclosing,
            loop=frozenset(loop),
            ids=enclosing.ids,
            names=enclosing.names,
        )
    return ctx


def _with_lets(lets: dict[str, Rel], body: Rel) -> Rel:
    """Return the body inside its lets. A let used once is inlined, an unused one is dropped."""
    uses = dict.fromkeys(lets, 0)
    for rel in (*lets.values(), body):
        _count_uses(rel, uses)
    inlined: dict[str, Rel] = {}

    def inline(node: Rel) -> Rel:
        return inlined.get(node.id, node) if isinstance(node, algebra.LocalGet) else node

    retained: list[tuple[str, Rel]] = []
    for name, value in lets.items():
        rebuilt = transform_up(value, inline)
        if isinstance(rebuilt, algebra.LetRec):
            retained.append((name, rebuilt))
        elif uses[name] == 1:
            inlined[name] = rebuilt
        elif uses[name]:
            retained.append((name, rebuilt))
    result = transform_up(body, inline)
    for name, value in reversed(retained):
        if isinstance(value, algebra.LetRec):
            result = replace(value, body=result)
        else:
            result = algebra.Let(name, value, result)
    return result


def _count_uses(rel: Rel, uses: dict[str, int]) -> None:
    """Add the uses of lets in a relation. A use in a loop counts several times, so the let stays outside."""
    for node in walk(rel):
        if isinstance(node, algebra.LocalGet) and node.id in uses:
            uses[node.id] += 1
        elif isinstance(node, algebra.LetRec):
            for value in node.values:
                _count_uses(value, uses)


def lower_node(ctx: Lowering, node: Node, outer: Relation | None, needed: Ids) -> Relation:
    """Return the node over the correlation values ``outer``, with at least its ``needed`` columns."""
    checkpoint()
    match node:
        case bound_tree.Scan(rel=rel, ids=ids):
            return Relation(_hoist_lets(ctx, rel), ids)
        case bound_tree.SharedScan(outer=references) if references:
            return _correlated_loop(ctx, node, outer)
        case bound_tree.SharedScan(name=name, ids=ids):
            return Relation(_shared_query(ctx, name).rel, ids)
        case bound_tree.Rows(rows=rows, ids=ids, types=types):
            values = tuple(tuple(literal.value for literal in row) for row in rows)
            return Relation(algebra.Constant(values, types), ids)
        case bound_tree.Map():
            return _lower_map(ctx, node, outer, needed)
        case bound_tree.Filter() | bound_tree.Join(kind="inner"):
            return lower_block(ctx, block_of(node), outer, needed)
        case bound_tree.Join():
            return outer_joins.lower_outer_join(ctx, node, outer, needed)
        case bound_tree.Group():
            return lower_group(ctx, node, outer, needed)
        case bound_tree.GroupingSets():
            return lower_grouping_sets(ctx, node, outer, needed)
        case bound_tree.Expand():
            return lower_expand(ctx, node, outer, needed)
        case bound_tree.Distinct(input=source, columns=columns):
            ids = tuple(column.index for column in columns)
            inner = ctx.lower(source, outer, frozenset(ids))
            return distinct_values(ctx, inner, correlation_ids(inner, outer), ids)
        case bound_tree.TopK():
            return _lower_top_k(ctx, node, outer, needed)
        case bound_tree.Window():
            return _lower_window(ctx, node, outer, needed)
        case bound_tree.SetOperation():
            return _lower_set_operation(ctx, node, outer)
        case _:
            assert_never(node)


def _hoist_lets(ctx: Lowering, rel: Rel) -> Rel:
    """Return a view's plan without its outer lets, which become lets of the query under new names."""
    rel = _rename_lets(ctx, rel)
    while isinstance(rel, algebra.Let):
        ctx.lets[rel.id] = rel.value
        rel = rel.body
    return rel


def _rename_lets(ctx: Lowering, rel: Rel) -> Rel:
    names: dict[str, str] = {}
    for node in walk(rel):
        if isinstance(node, algebra.Let):
            names[node.id] = ctx.new_let_name()
        elif isinstance(node, algebra.LetRec):
            names.update((id_, ctx.new_let_name()) for id_ in node.ids)

    def rename(node: Rel) -> Rel:
        if isinstance(node, algebra.Let | algebra.LocalGet):
            return replace(node, id=names[node.id])
        if isinstance(node, algebra.LetRec):
            return replace(node, ids=tuple(names[id_] for id_ in node.ids))
        return node

    return transform_up(rel, rename) if names else rel


def _shared_query(ctx: Lowering, name: str) -> Relation:
    shared = ctx.find_shared(name)
    if shared is not None:
        return shared
    if ctx.enclosing is not None and not _depends_on_loop(ctx, name):
        return _shared_query(ctx.enclosing, name)
    if name in ctx.bound_query.loops:
        _lower_loop(ctx, ctx.bound_query.loops[name])
    else:
        ctx.shared_queries[name] = ctx.share(_lower_query(ctx, ctx.bound_query.shared_queries[name]))
    return ctx.shared_queries[name]


def _lower_query(ctx: Lowering, query: bound_tree.Query) -> Relation:
    """Return a query's columns, in their order."""
    ids = tuple(column.index for column in query.columns)
    lowered = ctx.lower(query.node, None, frozenset(ids))
    places = tuple(lowered.position(id_) for id_ in ids)
    return Relation(algebra.Project(lowered.rel, places), ids)


def _depends_on_loop(ctx: Lowering, name: str) -> bool:
    """Return whether a shared query refers to the loop being lowered, directly or through others."""
    pending, seen = [name], {name}
    while pending:
        current = pending.pop()
        if current in ctx.loop:
            return True
        if ctx.find_shared(current) is not None:
            continue
        new = (
            bound_tree.shared_query_names(
                ctx.bound_query.shared_queries[current].node, ctx.bound_query.subqueries
            )
            - seen
        )
        seen |= new
        pending += new
    return False


def _lower_loop(ctx: Lowering, loop: bound_tree.Loop) -> None:
    """Define the queries of a loop around the relation being lowered."""
    types = tuple(tuple(column.type for column in query.columns) for query in loop.queries)
    names = tuple(ctx.new_let_name() for _ in loop.names)
    for group_key, query, name, row in zip(loop.names, loop.queries, names, types, strict=True):
        ids = tuple(column.index for column in query.columns)
        ctx.shared_queries[group_key] = Relation(algebra.LocalGet(name, row), ids)
    values = []
    for query in loop.queries:
        inner = _new_lowering(ctx.bound_query, ctx, loop.names)
        inner.shared_queries.update((group_key, ctx.shared_queries[group_key]) for group_key in loop.names)
        value = _lower_query(inner, query).rel
        values.append(_with_lets(inner.lets, value))
    body = algebra.Constant((), types[0])
    ctx.lets[f"loop {names[0]}"] = algebra.LetRec(
        names, tuple(values), types, loop.limit, body, loop.error_at_limit
    )


def _correlated_loop(ctx: Lowering, node: bound_tree.SharedScan, outer: Relation | None) -> Relation:
    """Return a recursive query with references to enclosing queries; the correlation values are columns."""
    assert outer is not None
    chosen = tuple(id_ for id_ in outer.ids if id_ in node.outer)
    lowered_loop = ctx.find_shared(node.name)
    if lowered_loop is None:
        lowered_loop = _lower_correlated_loop(ctx, node.name, ctx.share(distinct(ctx, outer, chosen)))
    return Relation(lowered_loop.rel, (*lowered_loop.ids[: len(chosen)], *node.ids))


def _lower_correlated_loop(ctx: Lowering, name: str, values: Relation) -> Relation:
    """Define a loop of one query over correlation values, which are its first columns."""
    loop = ctx.bound_query.loops[name]
    (query,) = loop.queries
    row = (*(values.type_of(id_) for id_ in values.ids), *(column.type for column in query.columns))
    ids = (*values.ids, *(column.index for column in query.columns))
    bound = ctx.new_let_name()
    rows = Relation(algebra.LocalGet(bound, row), ids)
    inner = _new_lowering(ctx.bound_query, ctx, loop.names)
    inner.shared_queries[name] = rows
    lowered = inner.lower(query.node, values, frozenset(ids))
    lowered = project(attach(inner, lowered, values, frozenset(values.ids)), ids)
    value = _with_lets(inner.lets, lowered.rel)
    body = algebra.Constant((), row)
    ctx.lets[f"loop {bound}"] = algebra.LetRec((bound,), (value,), (row,), loop.limit, body, False)
    return rows


def _lower_map(ctx: Lowering, node: bound_tree.Map, outer: Relation | None, needed: Ids) -> Relation:
    pairs = [(id_, s) for id_, s in zip(node.ids, node.scalars, strict=True) if id_ in needed]
    scalars = tuple(scalar for _, scalar in pairs)
    references = references_of(ctx, scalars)
    inner = ctx.lower(node.input, outer, (needed - set(node.ids)) | references)
    inner = attach(ctx, inner, outer, references)
    inner = with_values(ctx, inner, scalars, ())
    return extend(inner, [id_ for id_, _ in pairs], scalars)


def _lower_top_k(ctx: Lowering, node: bound_tree.TopK, outer: Relation | None, needed: Ids) -> Relation:
    needed_ids = frozenset(column.index for column in (*node.group, *(key.column for key in node.order)))
    inner = ctx.lower(node.input, outer, needed | needed_ids)
    correlated = correlation_ids(inner, outer)
    inner = keep(inner, needed | needed_ids | set(correlated))
    (inner,), keys = with_keys(ctx, [inner], needed_ids)
    group = (*correlated, *(keys.get(column.index, column.index) for column in node.group))
    sorting = [(keys.get(key.column.index, key.column.index), key) for key in node.order]
    order = tuple(
        algebra.OrderBy(inner.position(id_), key.descending, key.nulls_first) for id_, key in sorting
    )
    places = tuple(inner.position(id_) for id_ in group)
    rel = algebra.TopK(inner.rel, places, order, node.limit, node.offset)
    return Relation(rel, inner.ids, inner.keys)


def _lower_window(ctx: Lowering, node: bound_tree.Window, outer: Relation | None, needed: Ids) -> Relation:
    """Return the window calls; partitions are per combination of correlation values."""
    chosen = [(id_, call) for id_, call in zip(node.ids, node.calls, strict=True) if id_ in needed]
    sorting = (*node.partition, *(key.column for key in (*node.order, *node.ties)))
    read = {column.index for column in sorting}.union(*(call_columns(call) for _, call in chosen))
    needed_ids = (needed - set(node.ids)) | read
    inner = ctx.lower(node.input, outer, needed_ids)
    values = correlation_ids(inner, outer)
    inner = keep(inner, needed_ids | set(values))
    if not chosen:
        return inner
    partition = (*values, *(column.index for column in node.partition))
    order, ties = (
        tuple(
            algebra.OrderBy(inner.position(key.column.index), key.descending, key.nulls_first) for key in keys
        )
        for keys in (node.order, node.ties)
    )
    calls = tuple(remap_call(call, inner.position) for _, call in chosen)
    rel = algebra.Window(inner.rel, tuple(map(inner.position, partition)), order, ties, calls)
    return Relation(rel, (*inner.ids, *(id_ for id_, _ in chosen)), inner.keys)


def _lower_set_operation(ctx: Lowering, node: bound_tree.SetOperation, outer: Relation | None) -> Relation:
    left, right = (_lower_side(ctx, query, outer) for query in (node.left, node.right))
    both = frozenset((*correlation_ids(left, outer), *correlation_ids(right, outer)))
    sides = []
    for side, query in ((left, node.left), (right, node.right)):
        attached = attach(ctx, side, outer, both)
        ids = (*correlation_ids(attached, outer), *(column.index for column in query.columns))
        rel = algebra.Project(attached.rel, tuple(attached.position(id_) for id_ in ids))
        sides.append(Relation(rel, (*correlation_ids(attached, outer), *node.ids)))
    return _combine(ctx, node, sides[0], sides[1])


def _lower_side(ctx: Lowering, query: bound_tree.Query, outer: Relation | None) -> Relation:
    return ctx.lower(query.node, outer, frozenset(column.index for column in query.columns))


def _combine(ctx: Lowering, node: bound_tree.SetOperation, left: Relation, right: Relation) -> Relation:
    if node.kind == "union":
        both = union([left, right])
        return both if node.all else distinct_values(ctx, both, _correlation_columns(both, node), node.ids)
    if any(is_loose(left.type_of(id_)) for id_ in node.ids):
        return _combine_by_keys(ctx, node, left, right)
    if not node.all:
        left, right = distinct(ctx, left, left.ids), distinct(ctx, right, right.ids)
    return _intersect_or_except(ctx, node, left, right)


def _intersect_or_except(
    ctx: Lowering, node: bound_tree.SetOperation, left: Relation, right: Relation
) -> Relation:
    left = ctx.share(left)
    difference = Relation(algebra.Threshold(minus(left, right).rel), left.ids, left.keys)
    return difference if node.kind == "except" else minus(left, difference)


def _correlation_columns(relation: Relation, node: bound_tree.SetOperation) -> tuple[int, ...]:
    """Return the columns of a set operation that are correlation values."""
    return tuple(id_ for id_ in relation.ids if id_ not in node.ids)


def _combine_by_keys(
    ctx: Lowering, node: bound_tree.SetOperation, left: Relation, right: Relation
) -> Relation:
    """Return INTERSECT or EXCEPT over loose types, whose equal values can look different.

    Rows are compared and, with ALL, counted by their keys. Of equal left rows one is shown.
    """
    left = ctx.share(left)
    representatives = ctx.share(distinct_values(ctx, left, _correlation_columns(left, node), node.ids))
    (representatives, *sides), keys = with_keys(
        ctx, [representatives, left if node.all else representatives, right], node.ids
    )
    left_keys, right_keys = (project(side, tuple(keys.get(id_, id_) for id_ in left.ids)) for side in sides)
    if not node.all:
        left_keys, right_keys = (
            distinct(ctx, left_keys, left_keys.ids),
            distinct(ctx, right_keys, right_keys.ids),
        )
    return project(
        join(ctx, [representatives, _intersect_or_except(ctx, node, left_keys, right_keys)]), left.ids
    )
