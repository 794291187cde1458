"""Decorrelation: bound queries to relational algebra, with groups and outer joins.

A node is lowered over *correlation values*: the distinct values of the columns that it takes from enclosing
queries. If the node refers to any, its result has them as columns, so each combination has its own rows.
Shared relations become lets around the whole query.

Source: Neumann and Kemper, *Unnesting Arbitrary Queries*, BTW 2015.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Final, assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import AggregateCall, Rel
from kpg.compiler.algebra.traverse import transform_up, walk
from kpg.compiler.sql import bound_tree
from kpg.compiler.sql.bound_tree import Ids, Join, Node, Resolved, free, used
from kpg.compiler.sql.lower import block as blocks
from kpg.compiler.sql.lower.block import attach, block_of, left_joined, lower_block, lower_expand, with_values
from kpg.compiler.sql.lower.relation import (
    Lowered,
    Lowering,
    distinct,
    extend,
    join,
    keep,
    match_of,
    matches_once,
    minus,
    narrowed,
    project,
    semijoin,
    union,
)
from kpg.runtime.functions import aggregate_named
from kpg.runtime.functions.comparison import key
from kpg.runtime.interrupts import checkpoint
from kpg.runtime.plan.nodes import call_columns, moved_call
from kpg.runtime.scalar import Column, Literal, Scalar, columns
from kpg.runtime.types import BIGINT, BOOLEAN, INTEGER, is_loose


def around(inner: Lowered, outer: Lowered | None) -> tuple[int, ...]:
    """The correlation columns that the relation has."""
    return tuple(id_ for id_ in outer.ids if id_ in inner.ids) if outer is not None else ()


def used_by(ctx: Lowering, scalars: Sequence[Scalar]) -> Ids:
    """The columns that scalars and the subqueries in them need."""
    return frozenset[int]().union(*(used(scalar, ctx.resolved.subqueries) for scalar in scalars))


def lower_group(ctx: Lowering, node: bound_tree.Group, outer: Lowered | None, needed: Ids) -> Lowered:
    """One row for each group, and for correlation values without rows where there are no keys."""
    calls = _needed(node, needed)
    inner = _input(ctx, node, calls, outer)
    grouped = _grouped(ctx, inner, outer, (node.key_ids, node.keys), calls)
    if outer is None or not around(inner, outer) or node.key_ids or id(node) in ctx.unfilled:
        return grouped
    return _filled(ctx, grouped, outer, calls)


def lower_grouping_sets(
    ctx: Lowering, node: bound_tree.GroupingSets, outer: Lowered | None, needed: Ids
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


def _needed(node: bound_tree.Group | bound_tree.GroupingSets, needed: Ids) -> dict[int, AggregateCall]:
    pairs = zip(node.ids, node.aggregates, strict=True)
    return {id_: call for id_, call in pairs if id_ in needed}


def _input(
    ctx: Lowering,
    node: bound_tree.Group | bound_tree.GroupingSets,
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


TRUE: Final = Literal(1, BOOLEAN)


def lower_outer_join(ctx: Lowering, node: Join, outer: Lowered | None, needed: Ids) -> Lowered:
    """The join over correlation values, with at least the ``needed`` columns."""
    subqueries = ctx.resolved.subqueries
    asked = frozenset[int]().union(*(used(test, subqueries) for test in node.on))
    around = frozenset(outer.ids) if outer is not None else frozenset()
    wanted = needed | asked | around | free(node.right, subqueries)
    if node.kind == "left" and all(test == TRUE for test in node.on):
        joined = left_joined(ctx, ctx.lower(node.left, outer, wanted), node.right)
        if joined is not None:
            return joined
    left, right = _sides(ctx, node, outer, wanted)
    left = blocks.attach(ctx, left, outer, asked | set(right.ids))
    if node.kind == "full":
        right = blocks.attach(ctx, right, outer, asked | set(left.ids))
    tests = node.on
    if node.kind == "left":
        right, tests = _filtered(ctx, right, tests)
    left, right = (ctx.share(narrowed(ctx, side, wanted)) for side in (left, right))
    return _joined(ctx, node.kind, left, right, tests)


def _sides(ctx: Lowering, node: Join, outer: Lowered | None, wanted: Ids) -> tuple[Lowered, Lowered]:
    """Both sides; a LATERAL right side over the values of the left columns that it refers to."""
    left = ctx.lower(node.left, outer, wanted)
    references = free(node.right, ctx.resolved.subqueries)
    if references.isdisjoint(left.ids):
        return left, ctx.lower(node.right, outer, wanted)
    left = ctx.share(narrowed(ctx, blocks.attach(ctx, left, outer, references), wanted))
    values = ctx.share(distinct(ctx, left, sorted(references)))
    return left, ctx.lower(node.right, values, wanted)


def _filtered(ctx: Lowering, right: Lowered, tests: tuple[Scalar, ...]) -> tuple[Lowered, tuple[Scalar, ...]]:
    """The right side of a left join, with the subqueries applied that concern it alone."""
    subqueries = ctx.resolved.subqueries
    own = [t for t in tests if blocks.has_subquery(ctx, t) and right.has(used(t, subqueries))]
    right = blocks.apply_predicates(ctx, right, own, (), None, frozenset(right.ids))
    return right, tuple(test for test in tests if test not in own)


def _joined(ctx: Lowering, kind: str, left: Lowered, right: Lowered, tests: Sequence[Scalar]) -> Lowered:
    nested = [test for test in tests if blocks.has_subquery(ctx, test)]
    plain = [test for test in tests if test not in nested]
    both = frozenset(left.ids) | frozenset(right.ids)
    pairs = join(ctx, [left, right], plain)
    pairs = blocks.apply_predicates(ctx, pairs, nested, (), None, both)
    pairs = ctx.share(project(pairs, sorted(both)))
    alone = minus(left, _matched(ctx, left, right, pairs, plain, bool(nested)))
    parts = [pairs, _padded(alone, right)]
    if kind == "full":
        alone = minus(right, _matched(ctx, right, left, pairs, plain, bool(nested)))
        parts.append(_padded(alone, left))
    result = union(parts)
    if kind == "full":
        return result
    keys: list[Ids] = ctx.keys(left)
    if not matches_once(ctx, right, match_of(left, right, plain)):
        keys = [one | other for one in keys[:1] for other in ctx.keys(right)[:1]]
    return Lowered(result.rel, result.ids, tuple(keys))


def _matched(
    ctx: Lowering, side: Lowered, other: Lowered, pairs: Lowered, plain: Sequence[Scalar], nested: bool
) -> Lowered:
    """The rows of one side that are in some pair."""
    once = not nested and matches_once(ctx, other, match_of(side, other, plain))
    own = project(pairs, side.ids)
    if once and all(not side.has(columns(test)) for test in plain):
        return own
    if ctx.keys(side):
        return distinct(ctx, own, own.ids)
    if nested:
        return join(ctx, [side, distinct(ctx, own, own.ids)])
    return semijoin(ctx, side, other, plain, frozenset(side.ids))


def _padded(alone: Lowered, other: Lowered) -> Lowered:
    missing = [id_ for id_ in other.ids if id_ not in alone.ids]
    return extend(alone, missing, [Literal(None, other.type_of(id_)) for id_ in missing])


def lower_resolved(resolved: Resolved) -> tuple[Rel, tuple[int, ...]]:
    """The relation of a bound query, and the ids of its columns: the query's, then those of its order."""
    query = resolved.query
    chosen = [column.index for column in query.columns]
    hidden = dict.fromkeys(key.column.index for key in query.order if key.column.index not in chosen)
    ids = (*chosen, *hidden)
    ctx = _lowering(resolved)
    lowered = ctx.lower(query.node, None, frozenset(ids))
    places = tuple(lowered.place(id_) for id_ in ids)
    body: Rel = lowered.rel
    if places != tuple(range(len(lowered.ids))):
        body = algebra.Project(body, places)
    return _with_lets(ctx.lets, body), ids


def _lowering(resolved: Resolved, around: Lowering | None = None, loop: Iterable[str] = ()) -> Lowering:
    ctx: Lowering

    def lower(node: Node, outer: Lowered | None, needed: Ids) -> Lowered:
        return lower_node(ctx, node, outer, needed)

    if around is None:
        ctx = Lowering(resolved, lower, ids=count(resolved.next_id))
    else:
        ctx = Lowering(
            resolved, lower, around=around, loop=frozenset(loop), ids=around.ids, names=around.names
        )
    return ctx


def _with_lets(lets: dict[str, Rel], body: Rel) -> Rel:
    """The body within its lets; those used once are put in place, those not used are dropped."""
    uses = dict.fromkeys(lets, 0)
    for rel in (*lets.values(), body):
        _count_uses(rel, uses)
    placed: dict[str, Rel] = {}

    def place(node: Rel) -> Rel:
        return placed.get(node.id, node) if isinstance(node, algebra.LocalGet) else node

    kept: list[tuple[str, Rel]] = []
    for name, value in lets.items():
        rebuilt = transform_up(value, place)
        if isinstance(rebuilt, algebra.LetRec):
            kept.append((name, rebuilt))
        elif uses[name] == 1:
            placed[name] = rebuilt
        elif uses[name]:
            kept.append((name, rebuilt))
    result = transform_up(body, place)
    for name, value in reversed(kept):
        if isinstance(value, algebra.LetRec):
            result = replace(value, body=result)
        else:
            result = algebra.Let(name, value, result)
    return result


def _count_uses(rel: Rel, uses: dict[str, int]) -> None:
    """Adds how often lets are used; a use in a loop counts for several, so that its value stays outside."""
    for node in walk(rel):
        if isinstance(node, algebra.LocalGet) and node.id in uses:
            uses[node.id] += 1
        elif isinstance(node, algebra.LetRec):
            for value in node.values:
                _count_uses(value, uses)


def lower_node(ctx: Lowering, node: Node, outer: Lowered | None, needed: Ids) -> Lowered:
    """The node over correlation values ``outer``, with at least the ``needed`` ones of its columns."""
    checkpoint()
    match node:
        case bound_tree.Scan(rel=rel, ids=ids):
            return Lowered(_hoisted(ctx, rel), ids)
        case bound_tree.Shared(outer=references) if references:
            return _correlated_loop(ctx, node, outer)
        case bound_tree.Shared(name=name, ids=ids):
            return Lowered(_common(ctx, name).rel, ids)
        case bound_tree.Rows(rows=rows, ids=ids, types=types):
            values = tuple(tuple(literal.value for literal in row) for row in rows)
            return Lowered(algebra.Constant(values, types), ids)
        case bound_tree.Map():
            return _map(ctx, node, outer, needed)
        case bound_tree.Filter() | bound_tree.Join(kind="inner"):
            return lower_block(ctx, block_of(node), outer, needed)
        case bound_tree.Join():
            return lower_outer_join(ctx, node, outer, needed)
        case bound_tree.Group():
            return lower_group(ctx, node, outer, needed)
        case bound_tree.GroupingSets():
            return lower_grouping_sets(ctx, node, outer, needed)
        case bound_tree.Expand():
            return lower_expand(ctx, node, outer, needed)
        case bound_tree.Distinct(input=source, columns=columns):
            ids = tuple(column.index for column in columns)
            inner = ctx.lower(source, outer, frozenset(ids))
            return distinct_values(ctx, inner, around(inner, outer), ids)
        case bound_tree.TopK():
            return _top(ctx, node, outer, needed)
        case bound_tree.Window():
            return _window(ctx, node, outer, needed)
        case bound_tree.SetOperation():
            return _set_operation(ctx, node, outer)
        case _:
            assert_never(node)


def _hoisted(ctx: Lowering, rel: Rel) -> Rel:
    """A view's plan without the lets around it, which become lets around the query, under new names."""
    rel = _renamed_lets(ctx, rel)
    while isinstance(rel, algebra.Let):
        ctx.lets[rel.id] = rel.value
        rel = rel.body
    return rel


def _renamed_lets(ctx: Lowering, rel: Rel) -> Rel:
    names: dict[str, str] = {}
    for node in walk(rel):
        if isinstance(node, algebra.Let):
            names[node.id] = ctx.let_name()
        elif isinstance(node, algebra.LetRec):
            names.update((id_, ctx.let_name()) for id_ in node.ids)

    def rename(node: Rel) -> Rel:
        if isinstance(node, algebra.Let | algebra.LocalGet):
            return replace(node, id=names[node.id])
        if isinstance(node, algebra.LetRec):
            return replace(node, ids=tuple(names[id_] for id_ in node.ids))
        return node

    return transform_up(rel, rename) if names else rel


def _common(ctx: Lowering, name: str) -> Lowered:
    known = ctx.known(name)
    if known is not None:
        return known
    if ctx.around is not None and not _depends_on_loop(ctx, name):
        return _common(ctx.around, name)
    if name in ctx.resolved.loops:
        _lower_loop(ctx, ctx.resolved.loops[name])
    else:
        ctx.common[name] = ctx.share(_whole(ctx, ctx.resolved.shared[name]))
    return ctx.common[name]


def _whole(ctx: Lowering, query: bound_tree.Query) -> Lowered:
    """A query's columns, in their order."""
    ids = tuple(column.index for column in query.columns)
    lowered = ctx.lower(query.node, None, frozenset(ids))
    places = tuple(lowered.place(id_) for id_ in ids)
    return Lowered(algebra.Project(lowered.rel, places), ids)


def _depends_on_loop(ctx: Lowering, name: str) -> bool:
    """Whether a shared query refers to the loop that is being lowered, directly or through others."""
    pending, seen = [name], {name}
    while pending:
        here = pending.pop()
        if here in ctx.loop:
            return True
        if ctx.known(here) is not None:
            continue
        new = bound_tree.shared_names(ctx.resolved.shared[here].node, ctx.resolved.subqueries) - seen
        seen |= new
        pending += new
    return False


def _lower_loop(ctx: Lowering, loop: bound_tree.Loop) -> None:
    """Binds the queries of a loop around the relation being lowered."""
    types = tuple(tuple(column.type for column in query.columns) for query in loop.queries)
    names = tuple(ctx.let_name() for _ in loop.names)
    for group_key, query, name, row in zip(loop.names, loop.queries, names, types, strict=True):
        ids = tuple(column.index for column in query.columns)
        ctx.common[group_key] = Lowered(algebra.LocalGet(name, row), ids)
    values = []
    for query in loop.queries:
        inner = _lowering(ctx.resolved, ctx, loop.names)
        inner.common.update((group_key, ctx.common[group_key]) for group_key in loop.names)
        value = _whole(inner, query).rel
        values.append(_with_lets(inner.lets, value))
    body = algebra.Constant((), types[0])
    ctx.lets[f"loop {names[0]}"] = algebra.LetRec(
        names, tuple(values), types, loop.limit, body, loop.error_at_limit
    )


def _correlated_loop(ctx: Lowering, node: bound_tree.Shared, outer: Lowered | None) -> Lowered:
    """A recursive query that refers to columns around it: its rows have the correlation values, too."""
    assert outer is not None
    chosen = tuple(id_ for id_ in outer.ids if id_ in node.outer)
    known = ctx.known(node.name)
    if known is None:
        known = _lower_correlated(ctx, node.name, ctx.share(distinct(ctx, outer, chosen)))
    return Lowered(known.rel, (*known.ids[: len(chosen)], *node.ids))


def _lower_correlated(ctx: Lowering, name: str, values: Lowered) -> Lowered:
    """Binds a loop of one query over correlation values; its columns after these."""
    loop = ctx.resolved.loops[name]
    (query,) = loop.queries
    row = (*(values.type_of(id_) for id_ in values.ids), *(column.type for column in query.columns))
    ids = (*values.ids, *(column.index for column in query.columns))
    bound = ctx.let_name()
    rows = Lowered(algebra.LocalGet(bound, row), ids)
    inner = _lowering(ctx.resolved, ctx, loop.names)
    inner.common[name] = rows
    lowered = inner.lower(query.node, values, frozenset(ids))
    lowered = project(attach(inner, lowered, values, frozenset(values.ids)), ids)
    value = _with_lets(inner.lets, lowered.rel)
    body = algebra.Constant((), row)
    ctx.lets[f"loop {bound}"] = algebra.LetRec((bound,), (value,), (row,), loop.limit, body, False)
    return rows


def _map(ctx: Lowering, node: bound_tree.Map, outer: Lowered | None, needed: Ids) -> Lowered:
    pairs = [(id_, s) for id_, s in zip(node.ids, node.scalars, strict=True) if id_ in needed]
    scalars = tuple(scalar for _, scalar in pairs)
    references = used_by(ctx, scalars)
    inner = ctx.lower(node.input, outer, (needed - set(node.ids)) | references)
    inner = attach(ctx, inner, outer, references)
    inner = with_values(ctx, inner, scalars, ())
    return extend(inner, [id_ for id_, _ in pairs], scalars)


def _top(ctx: Lowering, node: bound_tree.TopK, outer: Lowered | None, needed: Ids) -> Lowered:
    asked = frozenset(column.index for column in (*node.group, *(key.column for key in node.order)))
    inner = ctx.lower(node.input, outer, needed | asked)
    correlated = around(inner, outer)
    inner = keep(inner, needed | asked | set(correlated))
    (inner,), keys = with_keys(ctx, [inner], asked)
    group = (*correlated, *(keys.get(column.index, column.index) for column in node.group))
    sorting = [(keys.get(key.column.index, key.column.index), key) for key in node.order]
    order = tuple(algebra.OrderBy(inner.place(id_), key.descending, key.nulls_first) for id_, key in sorting)
    places = tuple(inner.place(id_) for id_ in group)
    rel = algebra.TopK(inner.rel, places, order, node.limit, node.offset)
    return Lowered(rel, inner.ids, inner.keys)


def _window(ctx: Lowering, node: bound_tree.Window, outer: Lowered | None, needed: Ids) -> Lowered:
    """Each combination of correlation values has partitions of its own."""
    chosen = [(id_, call) for id_, call in zip(node.ids, node.calls, strict=True) if id_ in needed]
    sorting = (*node.partition, *(key.column for key in (*node.order, *node.ties)))
    read = {column.index for column in sorting}.union(*(call_columns(call) for _, call in chosen))
    asked = (needed - set(node.ids)) | read
    inner = ctx.lower(node.input, outer, asked)
    values = around(inner, outer)
    inner = keep(inner, asked | set(values))
    if not chosen:
        return inner
    partition = (*values, *(column.index for column in node.partition))
    order, ties = (
        tuple(algebra.OrderBy(inner.place(key.column.index), key.descending, key.nulls_first) for key in keys)
        for keys in (node.order, node.ties)
    )
    calls = tuple(moved_call(call, inner.place) for _, call in chosen)
    rel = algebra.Window(inner.rel, tuple(map(inner.place, partition)), order, ties, calls)
    return Lowered(rel, (*inner.ids, *(id_ for id_, _ in chosen)), inner.keys)


def _set_operation(ctx: Lowering, node: bound_tree.SetOperation, outer: Lowered | None) -> Lowered:
    left, right = (_side(ctx, query, outer) for query in (node.left, node.right))
    both = frozenset((*around(left, outer), *around(right, outer)))
    sides = []
    for side, query in ((left, node.left), (right, node.right)):
        whole = attach(ctx, side, outer, both)
        ids = (*around(whole, outer), *(column.index for column in query.columns))
        rel = algebra.Project(whole.rel, tuple(whole.place(id_) for id_ in ids))
        sides.append(Lowered(rel, (*around(whole, outer), *node.ids)))
    return _combined(ctx, node, sides[0], sides[1])


def _side(ctx: Lowering, query: bound_tree.Query, outer: Lowered | None) -> Lowered:
    return ctx.lower(query.node, outer, frozenset(column.index for column in query.columns))


def _combined(ctx: Lowering, node: bound_tree.SetOperation, left: Lowered, right: Lowered) -> Lowered:
    if node.kind == "union":
        both = union([left, right])
        return both if node.all else distinct_values(ctx, both, _others(both, node), node.ids)
    if any(is_loose(left.type_of(id_)) for id_ in node.ids):
        return _combined_by_keys(ctx, node, left, right)
    if not node.all:
        left, right = distinct(ctx, left, left.ids), distinct(ctx, right, right.ids)
    return _rest(ctx, node, left, right)


def _rest(ctx: Lowering, node: bound_tree.SetOperation, left: Lowered, right: Lowered) -> Lowered:
    left = ctx.share(left)
    rest = Lowered(algebra.Threshold(minus(left, right).rel), left.ids, left.keys)
    return rest if node.kind == "except" else minus(left, rest)


def _others(lowered: Lowered, node: bound_tree.SetOperation) -> tuple[int, ...]:
    """The correlation columns among those of a set operation."""
    return tuple(id_ for id_ in lowered.ids if id_ not in node.ids)


def _combined_by_keys(ctx: Lowering, node: bound_tree.SetOperation, left: Lowered, right: Lowered) -> Lowered:
    """INTERSECT or EXCEPT of values that may be equal and look different: of equal left ones one is shown.

    Rows are counted, with ALL, by what equal ones have in common, and each is shown that often.
    """
    left = ctx.share(left)
    shown = ctx.share(distinct_values(ctx, left, _others(left, node), node.ids))
    (shown, *sides), keys = with_keys(ctx, [shown, left if node.all else shown, right], node.ids)
    one, other = (project(side, tuple(keys.get(id_, id_) for id_ in left.ids)) for side in sides)
    if not node.all:
        one, other = distinct(ctx, one, one.ids), distinct(ctx, other, other.ids)
    return project(join(ctx, [shown, _rest(ctx, node, one, other)]), left.ids)
