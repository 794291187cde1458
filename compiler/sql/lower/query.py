"""Bound queries to relational algebra, every subquery decorrelated.

A node is lowered over *correlation values*: a relation of the distinct values that the columns from
queries around it take. If the node refers to them (and only then) the result has them as columns, so
that each combination has its own result (after Neumann and Kemper, *Unnesting Arbitrary Queries*,
BTW 2015). Shared relations become lets around the whole.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import count
from typing import assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import transform_up, walk
from kpg.compiler.sql import tree
from kpg.compiler.sql.lower.block import attach, block_of, lower_block
from kpg.compiler.sql.lower.expand import lower_expand
from kpg.compiler.sql.lower.group import (
    around,
    distinct_values,
    lower_group,
    lower_grouping_sets,
    used_by,
    with_keys,
)
from kpg.compiler.sql.lower.join import lower_outer_join
from kpg.compiler.sql.lower.lowered import (
    Lowered,
    Lowering,
    distinct,
    extend,
    join,
    keep,
    minus,
    project,
    union,
)
from kpg.compiler.sql.lower.subquery import with_values
from kpg.compiler.sql.tree import Ids, Node, Resolved
from kpg.runtime.interrupts import checkpoint
from kpg.runtime.plan.nodes import call_columns, moved_call
from kpg.runtime.types import is_loose


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
        case tree.Scan(rel=rel, ids=ids):
            return Lowered(_hoisted(ctx, rel), ids)
        case tree.Shared(outer=references) if references:
            return _correlated_loop(ctx, node, outer)
        case tree.Shared(name=name, ids=ids):
            return Lowered(_common(ctx, name).rel, ids)
        case tree.Rows(rows=rows, ids=ids, types=types):
            values = tuple(tuple(literal.value for literal in row) for row in rows)
            return Lowered(algebra.Constant(values, types), ids)
        case tree.Map():
            return _map(ctx, node, outer, needed)
        case tree.Filter() | tree.Join(kind="inner"):
            return lower_block(ctx, block_of(node), outer, needed)
        case tree.Join():
            return lower_outer_join(ctx, node, outer, needed)
        case tree.Group():
            return lower_group(ctx, node, outer, needed)
        case tree.GroupingSets():
            return lower_grouping_sets(ctx, node, outer, needed)
        case tree.Expand():
            return lower_expand(ctx, node, outer, needed)
        case tree.Distinct(input=source, columns=columns):
            ids = tuple(column.index for column in columns)
            inner = ctx.lower(source, outer, frozenset(ids))
            return distinct_values(ctx, inner, around(inner, outer), ids)
        case tree.TopK():
            return _top(ctx, node, outer, needed)
        case tree.Window():
            return _window(ctx, node, outer, needed)
        case tree.SetOperation():
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


def _whole(ctx: Lowering, query: tree.Query) -> Lowered:
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
        new = tree.shared_names(ctx.resolved.shared[here].node, ctx.resolved.subqueries) - seen
        seen |= new
        pending += new
    return False


def _lower_loop(ctx: Lowering, loop: tree.Loop) -> None:
    """Binds the queries of a loop around the relation being lowered."""
    types = tuple(tuple(column.type for column in query.columns) for query in loop.queries)
    names = tuple(ctx.let_name() for _ in loop.names)
    for key, query, name, row in zip(loop.names, loop.queries, names, types, strict=True):
        ids = tuple(column.index for column in query.columns)
        ctx.common[key] = Lowered(algebra.LocalGet(name, row), ids)
    values = []
    for query in loop.queries:
        inner = _lowering(ctx.resolved, ctx, loop.names)
        inner.common.update((key, ctx.common[key]) for key in loop.names)
        value = _whole(inner, query).rel
        values.append(_with_lets(inner.lets, value))
    body = algebra.Constant((), types[0])
    ctx.lets[f"loop {names[0]}"] = algebra.LetRec(
        names, tuple(values), types, loop.limit, body, loop.error_at_limit
    )


def _correlated_loop(ctx: Lowering, node: tree.Shared, outer: Lowered | None) -> Lowered:
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


def _map(ctx: Lowering, node: tree.Map, outer: Lowered | None, needed: Ids) -> Lowered:
    pairs = [(id_, s) for id_, s in zip(node.ids, node.scalars, strict=True) if id_ in needed]
    scalars = tuple(scalar for _, scalar in pairs)
    references = used_by(ctx, scalars)
    inner = ctx.lower(node.input, outer, (needed - set(node.ids)) | references)
    inner = attach(ctx, inner, outer, references)
    inner = with_values(ctx, inner, scalars, ())
    return extend(inner, [id_ for id_, _ in pairs], scalars)


def _top(ctx: Lowering, node: tree.TopK, outer: Lowered | None, needed: Ids) -> Lowered:
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


def _window(ctx: Lowering, node: tree.Window, outer: Lowered | None, needed: Ids) -> Lowered:
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


def _set_operation(ctx: Lowering, node: tree.SetOperation, outer: Lowered | None) -> Lowered:
    left, right = (_side(ctx, query, outer) for query in (node.left, node.right))
    both = frozenset((*around(left, outer), *around(right, outer)))
    sides = []
    for side, query in ((left, node.left), (right, node.right)):
        whole = attach(ctx, side, outer, both)
        ids = (*around(whole, outer), *(column.index for column in query.columns))
        rel = algebra.Project(whole.rel, tuple(whole.place(id_) for id_ in ids))
        sides.append(Lowered(rel, (*around(whole, outer), *node.ids)))
    return _combined(ctx, node, sides[0], sides[1])


def _side(ctx: Lowering, query: tree.Query, outer: Lowered | None) -> Lowered:
    return ctx.lower(query.node, outer, frozenset(column.index for column in query.columns))


def _combined(ctx: Lowering, node: tree.SetOperation, left: Lowered, right: Lowered) -> Lowered:
    if node.kind == "union":
        both = union([left, right])
        return both if node.all else distinct_values(ctx, both, _others(both, node), node.ids)
    if any(is_loose(left.type_of(id_)) for id_ in node.ids):
        return _combined_by_keys(ctx, node, left, right)
    if not node.all:
        left, right = distinct(ctx, left, left.ids), distinct(ctx, right, right.ids)
    return _rest(ctx, node, left, right)


def _rest(ctx: Lowering, node: tree.SetOperation, left: Lowered, right: Lowered) -> Lowered:
    left = ctx.share(left)
    rest = Lowered(algebra.Threshold(minus(left, right).rel), left.ids, left.keys)
    return rest if node.kind == "except" else minus(left, rest)


def _others(lowered: Lowered, node: tree.SetOperation) -> tuple[int, ...]:
    """The correlation columns among those of a set operation."""
    return tuple(id_ for id_ in lowered.ids if id_ not in node.ids)


def _combined_by_keys(ctx: Lowering, node: tree.SetOperation, left: Lowered, right: Lowered) -> Lowered:
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
