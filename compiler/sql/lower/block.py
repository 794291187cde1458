"""Blocks of inner joins and filters: join the leaves, place the predicates, apply the subqueries.

Predicates without subqueries come first, then subqueries that filter rows, then predicates over the values of
subqueries. A subquery becomes a semijoin if it filters, else a joined column. A set-returning function
expands the rows that its arguments come from, without state and without a join back.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from operator import or_
from typing import assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra import scalars as nulls
from kpg.compiler.algebra.scalars import is_total
from kpg.compiler.sql.bound_tree import (
    Distinct,
    Expand,
    Filter,
    Group,
    GroupingSets,
    Ids,
    Join,
    Map,
    Node,
    Rows,
    Scan,
    SetOperation,
    Shared,
    Subquery,
    TopK,
    Window,
    free,
    free_of,
    produced,
    scalars,
    used,
)
from kpg.compiler.sql.lower.deferral import (
    Conditions,
    Deferred,
    Part,
    askers,
    deferred,
    late_value,
    may_fail,
    over,
    refused,
)
from kpg.compiler.sql.lower.relation import (
    DEAD,
    Lowered,
    Lowering,
    antijoin,
    by_part,
    distinct,
    extend,
    join,
    keep,
    minus,
    narrowed,
    one_row,
    project,
    row_count,
    semijoin,
    union,
    where,
)
from kpg.runtime.functions import aggregate_named
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Literal, Scalar, columns
from kpg.runtime.types import BOOLEAN


@dataclass(frozen=True, slots=True)
class Block:
    """Relations whose product is filtered by predicates."""

    leaves: tuple[Node, ...]
    predicates: tuple[Scalar, ...]


def block_of(node: Node) -> Block:
    """The largest block that the node is."""
    leaves: list[Node] = []
    predicates: list[Scalar] = []
    stack = [node]
    while stack:
        here = stack.pop()
        match here:
            case Filter(input=source, predicates=tests):
                predicates += tests
                stack.append(source)
            case Join(kind="inner", left=left, right=right, on=tests):
                predicates += tests
                stack += [right, left]
            case Scan() | Shared() | Rows() | Map() | Join() | Group() | GroupingSets():
                leaves.append(here)
            case Distinct() | TopK() | SetOperation():
                leaves.append(here)
            case Expand() | Window():
                leaves.append(here)
            case _:
                assert_never(here)
    return Block(tuple(leaves), tuple(predicates))


def lower_block(ctx: Lowering, block: Block, outer: Lowered | None, needed: Ids) -> Lowered:
    """The block over correlation values; these are columns of the result if the block refers to them."""
    subqueries = ctx.resolved.subqueries
    plain = [p for p in block.predicates if not has_subquery(ctx, p)]
    nested = [p for p in block.predicates if has_subquery(ctx, p)]
    lateral = (free(leaf, subqueries) for leaf in block.leaves)
    wanted = needed.union(*(used(p, subqueries) for p in block.predicates), *lateral)
    parts: list[Lowered] = []
    for leaf in block.leaves:
        parts = _add_leaf(ctx, parts, leaf, plain, outer, wanted)
    own, plain = by_part(parts, plain)
    parts = [where(part, tests) for part, tests in zip(parts, own, strict=True)]
    nested_used = frozenset[int]().union(*(used(p, subqueries) for p in nested))
    asked = frozenset[int]().union(nested_used, *(columns(p) for p in plain))
    late = Deferred()
    if nested:
        parts, late = deferred(ctx, parts, asked)
        wanted = late.needed(wanted)
    if any(not is_filter(ctx, p) for p in nested):
        kept = wanted | _tying(parts, outer)
        parts = [ctx.share(narrowed(ctx, part, kept)) for part in parts]
    current = combine(ctx, parts, plain, outer, nested_used)
    current = apply_predicates(ctx, current, nested, parts, outer, late.needed(needed))
    return late.computed(current, needed)


def _tying(parts: Sequence[Lowered], outer: Lowered | None) -> Ids:
    """The ids on which parts agree: those that several have, and the correlation values."""
    times = Counter(id_ for part in parts for id_ in part.ids if id_ != DEAD)
    around = frozenset(outer.ids) if outer is not None else frozenset()
    return around.union(id_ for id_, number in times.items() if number > 1)


def has_subquery(ctx: Lowering, scalar: Scalar) -> bool:
    """Whether a subquery stands in the scalar."""
    return any(id_ in ctx.resolved.subqueries for id_ in columns(scalar))


def _add_leaf(
    ctx: Lowering,
    parts: list[Lowered],
    leaf: Node,
    plain: Sequence[Scalar],
    outer: Lowered | None,
    wanted: Ids,
) -> list[Lowered]:
    references = free(leaf, ctx.resolved.subqueries)
    around = frozenset(outer.ids) if outer is not None else frozenset()
    lateral = bool(references) and any(not references.isdisjoint(part.ids) for part in parts)
    if not references - around and not lateral:
        return [*parts, ctx.lower(leaf, outer, wanted)]
    before = [p for p in plain if any(part.has(columns(p)) for part in parts)]
    if isinstance(leaf, Expand) and is_call(leaf):
        read = [part for part in parts if not references.isdisjoint(part.ids)]
        others = [part for part in parts if part not in read]
        before = [p for p in before if any(part.has(columns(p)) for part in read)]
        return [*others, expanded(ctx, combine(ctx, read, before, outer, references), leaf)]
    current = combine(ctx, parts, before, outer, references)
    needed = wanted | references | around
    current = ctx.share(narrowed(ctx, current, needed))
    values = ctx.share(distinct(ctx, current, (id_ for id_ in current.ids if id_ in references)))
    return [current, ctx.lower(leaf, values, wanted)]


def combine(
    ctx: Lowering,
    parts: Sequence[Lowered],
    predicates: Sequence[Scalar],
    outer: Lowered | None,
    references: Ids,
) -> Lowered:
    """The parts joined on the predicates, with the correlation values that these or ``references`` need."""
    if outer is not None:
        here = frozenset[int]().union(*(part.ids for part in parts))
        asked = references.union(*(columns(p) for p in predicates)) & set(outer.ids)
        if asked - here:
            parts = [outer, *parts]
    return join(ctx, parts, predicates)


def attach(ctx: Lowering, lowered: Lowered, outer: Lowered | None, references: Ids) -> Lowered:
    """The relation with the correlation values, if ``references`` are among them and not here yet."""
    return combine(ctx, [lowered], (), outer, references)


def apply_predicates(
    ctx: Lowering,
    current: Lowered,
    predicates: Sequence[Scalar],
    providers: Sequence[Lowered],
    outer: Lowered | None,
    needed: Ids,
) -> Lowered:
    """The rows for which predicates with subqueries are true; at least the ``needed`` columns stay.

    ``providers`` are relations that the current one was joined from: the correlation values of a
    subquery may be taken from them.
    """
    subqueries = ctx.resolved.subqueries
    pending = sorted(predicates, key=lambda p: not is_filter(ctx, p))
    around = frozenset(outer.ids) if outer is not None else frozenset()
    after = list(accumulate((used(p, subqueries) for p in reversed(pending)), or_, initial=needed | around))
    for predicate, later in zip(pending, after[-2::-1], strict=True):
        current = attach(ctx, current, outer, used(predicate, subqueries))
        if is_filter(ctx, predicate):
            current = apply_filter(ctx, current, predicate, later)
        else:
            current = where(with_values(ctx, current, [predicate], providers, filtering=True), [predicate])
    return current


def lower_correlated(ctx: Lowering, node: Node) -> tuple[Block, tuple[Scalar, ...]] | None:
    """A subquery's rows as an uncorrelated block and the predicates that tie it to the rows outside.

    None if that is not where its references to the outside are. Only whether and with which values
    rows exist must matter.
    """
    block = block_of(node)
    subqueries = ctx.resolved.subqueries
    if any(free(leaf, subqueries) for leaf in block.leaves):
        return None
    own = frozenset[int]().union(*(produced(leaf) for leaf in block.leaves))
    ties = tuple(p for p in block.predicates if used(p, subqueries) - own)
    if any(has_subquery(ctx, p) for p in ties):
        return None
    return Block(block.leaves, tuple(p for p in block.predicates if p not in ties)), ties


def is_call(node: Node) -> bool:
    """Whether the node is a call in FROM, over no row in particular."""
    return isinstance(node, Expand) and isinstance(node.input, Rows) and len(node.input.rows) == 1


def lower_expand(ctx: Lowering, node: Expand, outer: Lowered | None, needed: Ids) -> Lowered:
    """What is made of the input's rows, or of the correlation values that a call in FROM refers to."""
    references = _references(ctx, node)
    if outer is not None and is_call(node) and references & set(outer.ids):
        return expanded(ctx, outer, node)
    inner = ctx.lower(node.input, outer, (needed - set(node.ids)) | references)
    return expanded(ctx, attach(ctx, inner, outer, references), node)


def expanded(ctx: Lowering, inner: Lowered, node: Expand, *, outer: bool = False) -> Lowered:
    """What the calls make of a relation that has all that their arguments refer to.

    With ``outer`` a row stays, with NULLs, if they make none of it.
    """
    inner = with_values(ctx, inner, scalars(node), ())
    calls = tuple(replace(call, args=tuple(map(inner.over, call.args))) for call in node.calls)
    rel = algebra.Expand(inner.rel, calls, node.ordinality, outer)
    return Lowered(rel, (*inner.ids, *node.ids))


def left_joined(ctx: Lowering, left: Lowered, right: Node) -> Lowered | None:
    """LEFT JOIN of a call over the left rows, without a condition; None if that is not what the node is."""
    if not isinstance(right, Expand) or not is_call(right):
        return None
    references = free(right, ctx.resolved.subqueries)
    return expanded(ctx, left, right, outer=True) if references <= set(left.ids) else None


def _references(ctx: Lowering, node: Expand) -> Ids:
    return frozenset[int]().union(*(used(scalar, ctx.resolved.subqueries) for scalar in scalars(node)))


@dataclass(frozen=True, slots=True)
class Tested:
    """A subquery's rows, and the predicates under which one of them answers for a row outside."""

    rows: Lowered
    ties: tuple[Scalar, ...]
    comparison: tuple[Scalar, ...]


def is_filter(ctx: Lowering, predicate: Scalar) -> bool:
    """Whether the predicate is a subquery's truth or its negation, and nothing else."""
    return _filter_of(ctx, predicate) is not None


def _filter_of(ctx: Lowering, predicate: Scalar) -> tuple[Subquery, bool] | None:
    positive = True
    if isinstance(predicate, Call) and predicate.function == "not":
        predicate, positive = predicate.args[0], False
    if not isinstance(predicate, Column):
        return None
    subquery = ctx.resolved.subqueries.get(predicate.index)
    return None if subquery is None or subquery.kind == "scalar" else (subquery, positive)


def apply_filter(ctx: Lowering, current: Lowered, predicate: Scalar, needed: Ids) -> Lowered:
    """The rows that pass an EXISTS, IN or ANY, or the negation of one."""
    found = _filter_of(ctx, predicate)
    assert found is not None
    subquery, positive = found
    current = with_values(ctx, current, subquery.comparison, ())
    current, tested = _tested(ctx, current, subquery)
    if positive:
        return semijoin(ctx, current, tested.rows, (*tested.ties, *tested.comparison), needed)
    for condition in _not_false(ctx, current, tested):
        rest = needed | _has_references(ctx, subquery)
        current = antijoin(ctx, current, tested.rows, (*tested.ties, *condition), rest)
    return current


def _has_references(ctx: Lowering, subquery: Subquery) -> Ids:
    """The columns around the subquery that it or its comparison needs."""
    own = frozenset(column.index for column in subquery.query.columns)
    compared = frozenset[int]().union(*(columns(part) for part in subquery.comparison))
    return free_of(subquery, ctx.resolved.subqueries) | (compared - own)


def _not_false(ctx: Lowering, current: Lowered, tested: Tested) -> list[tuple[Scalar, ...]]:
    """Conditions on a pair of rows, under one of which a comparison is true (the first) or NULL."""
    comparison = tested.comparison
    result = [comparison]
    if len(comparison) == 1 and isinstance(comparison[0], Call):
        for side in comparison[0].args:
            whole = [rows for rows in (current, tested.rows) if rows.has(columns(side))]
            if not whole or ctx.can_be_null(whole[0], side):
                result.append((Call("is_null", (side,), BOOLEAN),))
    elif comparison:
        result.append((Call("is_null", (Call("and", comparison, BOOLEAN),), BOOLEAN),))
    return result


def _tested(ctx: Lowering, current: Lowered, subquery: Subquery) -> tuple[Lowered, Tested]:
    """The subquery ready to be matched with the current relation, which is shared if need be."""
    node, comparison = subquery.query.node, subquery.comparison
    references = free(node, ctx.resolved.subqueries)
    if not references:
        rows = ctx.lower(node, None, _columns(comparison))
        return current, _reusable(ctx, current, Tested(rows, (), comparison))
    peeled, compared = _peeled(node, comparison, subquery.kind == "exists")
    found = None
    if not any(has_subquery(ctx, part) for part in compared):
        found = lower_correlated(ctx, peeled)
    if found is not None:
        block, ties = found
        rows = lower_block(ctx, block, None, _columns((*ties, *compared)))
        return current, _reusable(ctx, current, Tested(rows, ties, compared))
    current = ctx.share(current)
    values = ctx.share(distinct(ctx, current, sorted(references)))
    rows = ctx.lower(node, values, _columns(comparison))
    return current, _reusable(ctx, current, Tested(rows, (), comparison))


def _reusable(ctx: Lowering, current: Lowered, tested: Tested) -> Tested:
    if len(_not_false(ctx, current, tested)) == 1:
        return tested
    return Tested(ctx.share(tested.rows), tested.ties, tested.comparison)


def _columns(scalars: Sequence[Scalar]) -> Ids:
    return frozenset[int]().union(*(columns(scalar) for scalar in scalars))


def _peeled(node: Node, comparison: tuple[Scalar, ...], exists: bool) -> tuple[Node, tuple[Scalar, ...]]:
    """The node without what does not matter to whether a row with certain values exists."""
    while True:
        match node:
            case Map(input=source, ids=ids, scalars=scalars) if all(map(is_total, scalars)):
                comparison = tuple(over(part, dict(zip(ids, scalars, strict=True))) for part in comparison)
                node = source
            case Distinct(input=source):
                node = source
            case TopK(input=source, group=(), limit=limit, offset=0) if exists and limit != 0:
                node = source
            case Window(input=source) if exists:
                node = source
            case Map() | TopK() | Window() | Scan() | Shared() | Rows() | Filter() | Join():
                return node, comparison
            case Group() | GroupingSets() | SetOperation() | Expand():
                return node, comparison
            case _:
                assert_never(node)


def with_values(
    ctx: Lowering,
    current: Lowered,
    scalars: Sequence[Scalar],
    providers: Sequence[Lowered],
    *,
    filtering: bool = False,
) -> Lowered:
    """The relation with a column for each subquery in the scalars.

    ``filtering``: the scalars are predicates about to be applied, so that rows they reject may be missing.
    """
    values: dict[int, Scalar] = {}
    parts: dict[int, Part] = {}  # joined together, as they depend neither on conditions nor on each other
    for scalar in scalars:
        rejected = nulls.rejected_nulls(scalar) if filtering else frozenset()
        asked = askers(ctx, scalar)
        for id_ in sorted(asked):
            if id_ in parts or id_ in values or id_ in current.ids:
                continue
            subquery, conditions = ctx.resolved.subqueries[id_], asked[id_]
            if subquery.kind == "scalar" and not conditions and not filtering:
                parts[id_] = _part_of(subquery)
                continue
            current = _with_parts(ctx, current, parts, providers)
            parts = {}
            late = late_value(ctx, subquery) if conditions else None
            if late is None:
                current = with_values(ctx, current, subquery.comparison, ())
                current = _with_value(ctx, current, subquery, conditions, providers, id_ in rejected)
                continue
            values[id_] = late.value
            if late.part is not None:
                current = _with_part(ctx, current, late.part, conditions, providers, False)
    current = _with_parts(ctx, current, parts, providers)
    missing = [id_ for id_ in values if id_ not in current.ids]
    return extend(current, missing, [values[id_] for id_ in missing])


def _part_of(subquery: Subquery) -> Part:
    """The value of a scalar subquery."""
    value = subquery.query.columns[0].index
    return Part(subquery.query.node, {value: subquery.id}, subquery.place)


def _with_parts(
    ctx: Lowering, current: Lowered, parts: Mapping[int, Part], providers: Sequence[Lowered]
) -> Lowered:
    """The relation with the values of several scalar subqueries: one join of them all."""
    if not parts:
        return current
    found: list[Lowered] = []
    for part in parts.values():
        current, rows, values = _rows_of(ctx, current, part, providers)
        group = values.ids if values is not None else ()
        if not ctx.is_unique(rows, group):
            rows = _single(rows, len(group), part)
        found.append(rows if _always_one_row(part.node) else _padded(ctx, rows, values))
    result = join(ctx, [current, *found])
    return Lowered(result.rel, result.ids, tuple(ctx.keys(current)))


def _with_value(
    ctx: Lowering,
    current: Lowered,
    subquery: Subquery,
    conditions: Conditions,
    providers: Sequence[Lowered],
    rejecting: bool,
) -> Lowered:
    """The relation with the subquery's value; where the conditions do not hold, NULL may stand for it."""
    if subquery.kind == "scalar":
        return _with_part(ctx, current, _part_of(subquery), conditions, providers, rejecting)
    if conditions and may_fail(ctx, (subquery.query.node,), subquery.comparison):
        return _where_asked(ctx, current, conditions, lambda asking: _with_truth(ctx, asking, subquery))
    return _with_truth(ctx, current, subquery)


def _where_asked(
    ctx: Lowering, current: Lowered, conditions: Conditions, attached: Callable[[Lowered], Lowered]
) -> Lowered:
    """The rows that ask, by the conditions, with more columns, and the others with NULL in these."""
    current = ctx.share(with_values(ctx, current, conditions, ()))
    found = attached(where(current, conditions))
    rest = where(current, [refused(conditions)])
    names = [id_ for id_ in found.ids if id_ not in rest.ids]
    rest = extend(rest, names, [Literal(None, found.type_of(id_)) for id_ in names])
    both = frozenset(rest.ids)
    return replace(union([keep(found, both), rest]), keys=tuple(ctx.keys(current)))


def _with_part(
    ctx: Lowering,
    current: Lowered,
    part: Part,
    conditions: Conditions,
    providers: Sequence[Lowered],
    rejecting: bool,
) -> Lowered:
    """The relation with columns of the one row that a subquery has, NULL where it has none."""

    def asking(rows: Lowered) -> Lowered:
        return _with_part(ctx, rows, part, (), (), False)

    node = part.node
    if conditions and may_fail(ctx, (node,), ()):
        return _where_asked(ctx, current, conditions, asking)
    certain = _always_one_row(node)
    if rejecting and certain and _null_without_rows(node, next(iter(part.names))):
        ctx.unfilled.add(id(_innermost(node)))
    current, rows, values = _rows_of(ctx, current, part, providers)
    group = values.ids if values is not None else ()
    if not ctx.is_unique(rows, group):
        if conditions:
            return _where_asked(ctx, current, conditions, asking)
        rows = _single(rows, len(group), part)
    if not certain and not rejecting:
        rows = _padded(ctx, rows, values)
    result = join(ctx, [current, rows])
    return Lowered(result.rel, result.ids, tuple(ctx.keys(current)))


def _rows_of(
    ctx: Lowering, current: Lowered, part: Part, providers: Sequence[Lowered]
) -> tuple[Lowered, Lowered, Lowered | None]:
    """The relation, shared if need be, the rows of a subquery, and the correlation values these are for."""
    node = part.node
    references = free(node, ctx.resolved.subqueries)
    # More correlation values than there are rows outside could only do harm by an error: a second row.
    certain = _always_one_row(node)
    values = None
    if references:
        near = [one for one in providers if certain and not references.isdisjoint(one.ids)]
        source = near[0] if len(near) == 1 and len(providers) > 1 and near[0].has(references) else None
        if source is None:
            source = current = ctx.share(current)
        values = ctx.share(distinct(ctx, source, sorted(references)))
    rows = ctx.lower(node, values, frozenset(part.names))
    rows = project(rows, (*(values.ids if values is not None else ()), *part.names))
    rows = Lowered(rows.rel, tuple(part.names.get(id_, id_) for id_ in rows.ids), rows.keys)
    return current, rows, values


def _single(rows: Lowered, group: int, part: Part) -> Lowered:
    """The rows, of which there is at most one for each value of the first ``group`` columns."""
    return Lowered(algebra.Single(rows.rel, tuple(range(group)), part.place()), rows.ids)


def _padded(ctx: Lowering, rows: Lowered, values: Lowered | None) -> Lowered:
    """The rows, and one with NULLs for each combination of correlation values that has none."""
    rows = ctx.share(rows)
    if values is None:
        missing = row_count(ctx, rows, positive=False)
        names = list(rows.ids)
    else:
        missing = minus(values, project(rows, values.ids))
        names = [id_ for id_ in rows.ids if id_ not in values.ids]
    padding = extend(missing, names, [Literal(None, rows.type_of(id_)) for id_ in names])
    return union([rows, padding])


def _always_one_row(node: Node) -> bool:
    return isinstance(_innermost(node), Group) and not _group_keys(node)


def _innermost(node: Node) -> Node:
    while isinstance(node, Map):
        node = node.input
    return node


def _group_keys(node: Node) -> tuple[int, ...]:
    innermost = _innermost(node)
    return innermost.key_ids if isinstance(innermost, Group) else ()


def _null_without_rows(node: Node, value: int) -> bool:
    """Whether the value computed over an aggregation is NULL where there was no row to aggregate."""
    scalar: Scalar = Column(value, BOOLEAN)
    while isinstance(node, Map):
        scalar = over(scalar, dict(zip(node.ids, node.scalars, strict=True)))
        node = node.input
    assert isinstance(node, Group)
    calls = zip(node.ids, node.aggregates, strict=True)
    null = {id_ for id_, call in calls if aggregate_named(call.function).empty is None}
    return not null.isdisjoint(nulls.strict_columns(scalar))


def _with_truth(ctx: Lowering, current: Lowered, subquery: Subquery) -> Lowered:
    """The relation with the truth value of EXISTS, IN or ANY."""
    references = _has_references(ctx, subquery)
    if references:
        current = ctx.share(current)
        values = ctx.share(distinct(ctx, current, sorted(references)))
    else:
        values = one_row(ctx)
    values, tested = _tested(ctx, values, subquery)
    ids = frozenset(values.ids)
    answers: list[Lowered] = []
    rest = values
    for index, condition in enumerate(_not_false(ctx, values, tested)):
        rest = ctx.share(rest)
        found = ctx.share(semijoin(ctx, rest, tested.rows, (*tested.ties, *condition), ids))
        answers.append(extend(found, [subquery.id], [Literal(None if index else 1, BOOLEAN)]))
        rest = minus(rest, found)
    answers.append(extend(rest, [subquery.id], [Literal(0, BOOLEAN)]))
    result = join(ctx, [current, union(answers)])
    return Lowered(result.rel, result.ids, tuple(ctx.keys(current)))
