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
    SharedScan,
    Subquery,
    TopK,
    Window,
    free_ids,
    output_ids,
    referenced_ids,
    scalars,
    subquery_free_ids,
)
from kpg.compiler.sql.lower.deferral import (
    Conditions,
    DeferredColumns,
    SubqueryPart,
    defer_columns,
    late_value,
    may_fail,
    negate_conditions,
    subquery_conditions,
    substitute_columns,
)
from kpg.compiler.sql.lower.relation import (
    DEAD,
    Lowering,
    Relation,
    antijoin,
    by_part,
    distinct,
    extend,
    join,
    keep,
    keep_with_key,
    minus,
    one_row,
    project,
    row_count,
    semijoin,
    union,
    where,
)
from kpg.runtime.functions import lookup_aggregate
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Literal, Scalar, columns
from kpg.runtime.types import BOOLEAN


@dataclass(frozen=True, slots=True)
class Block:
    """Block of inner joins and filters: the product of the leaves, filtered by predicates."""

    leaves: tuple[Node, ...]
    predicates: tuple[Scalar, ...]


def block_of(node: Node) -> Block:
    """Return the largest block of inner joins and filters with this node at the top."""
    leaves: list[Node] = []
    predicates: list[Scalar] = []
    stack = [node]
    while stack:
        current = stack.pop()
        match current:
            case Filter(input=source, predicates=tests):
                predicates += tests
                stack.append(source)
            case Join(kind="inner", left=left, right=right, on=tests):
                predicates += tests
                stack += [right, left]
            case Scan() | SharedScan() | Rows() | Map() | Join() | Group() | GroupingSets():
                leaves.append(current)
            case Distinct() | TopK() | SetOperation():
                leaves.append(current)
            case Expand() | Window():
                leaves.append(current)
            case _:
                assert_never(current)
    return Block(tuple(leaves), tuple(predicates))


def lower_block(ctx: Lowering, block: Block, outer: Relation | None, needed: Ids) -> Relation:
    """Return the block over correlation values; these become columns if the block refers to them."""
    subqueries = ctx.bound_query.subqueries
    plain = [p for p in block.predicates if not has_subquery(ctx, p)]
    nested = [p for p in block.predicates if has_subquery(ctx, p)]
    lateral = (free_ids(leaf, subqueries) for leaf in block.leaves)
    wanted = needed.union(*(referenced_ids(p, subqueries) for p in block.predicates), *lateral)
    parts: list[Relation] = []
    for leaf in block.leaves:
        parts = _add_leaf(ctx, parts, leaf, plain, outer, wanted)
    own, plain = by_part(parts, plain)
    parts = [where(part, tests) for part, tests in zip(parts, own, strict=True)]
    nested_used = frozenset[int]().union(*(referenced_ids(p, subqueries) for p in nested))
    predicate_ids = frozenset[int]().union(nested_used, *(columns(p) for p in plain))
    deferred_columns = DeferredColumns()
    if nested:
        parts, deferred_columns = defer_columns(ctx, parts, predicate_ids)
        wanted = deferred_columns.input_ids(wanted)
    if any(not is_filter(ctx, p) for p in nested):
        retained = wanted | _common_ids(parts, outer)
        parts = [ctx.share(keep_with_key(ctx, part, retained)) for part in parts]
    current = combine(ctx, parts, plain, outer, nested_used)
    current = apply_predicates(ctx, current, nested, parts, outer, deferred_columns.input_ids(needed))
    return deferred_columns.compute(current, needed)


def _common_ids(parts: Sequence[Relation], outer: Relation | None) -> Ids:
    """Return the ids on which parts agree: those that several parts have, and the correlation values."""
    times = Counter(id_ for part in parts for id_ in part.ids if id_ != DEAD)
    correlation_ids = frozenset(outer.ids) if outer is not None else frozenset()
    return correlation_ids.union(id_ for id_, number in times.items() if number > 1)


def has_subquery(ctx: Lowering, scalar: Scalar) -> bool:
    """Return whether the scalar contains a subquery."""
    return any(id_ in ctx.bound_query.subqueries for id_ in columns(scalar))


def _add_leaf(
    ctx: Lowering,
    parts: list[Relation],
    leaf: Node,
    plain: Sequence[Scalar],
    outer: Relation | None,
    wanted: Ids,
) -> list[Relation]:
    references = free_ids(leaf, ctx.bound_query.subqueries)
    correlation_ids = frozenset(outer.ids) if outer is not None else frozenset()
    lateral = bool(references) and any(not references.isdisjoint(part.ids) for part in parts)
    if not references - correlation_ids and not lateral:
        return [*parts, ctx.lower(leaf, outer, wanted)]
    applicable = [p for p in plain if any(part.has_columns(columns(p)) for part in parts)]
    if isinstance(leaf, Expand) and is_function_call(leaf):
        read = [part for part in parts if not references.isdisjoint(part.ids)]
        others = [part for part in parts if part not in read]
        applicable = [p for p in applicable if any(part.has_columns(columns(p)) for part in read)]
        return [*others, expand(ctx, combine(ctx, read, applicable, outer, references), leaf)]
    current = combine(ctx, parts, applicable, outer, references)
    needed = wanted | references | correlation_ids
    current = ctx.share(keep_with_key(ctx, current, needed))
    values = ctx.share(distinct(ctx, current, (id_ for id_ in current.ids if id_ in references)))
    return [current, ctx.lower(leaf, values, wanted)]


def combine(
    ctx: Lowering,
    parts: Sequence[Relation],
    predicates: Sequence[Scalar],
    outer: Relation | None,
    references: Ids,
) -> Relation:
    """Join the parts on the predicates, with the correlation values that these or ``references`` need."""
    if outer is not None:
        available = frozenset[int]().union(*(part.ids for part in parts))
        needed = references.union(*(columns(p) for p in predicates)) & set(outer.ids)
        if needed - available:
            parts = [outer, *parts]
    return join(ctx, parts, predicates)


def attach(ctx: Lowering, relation: Relation, outer: Relation | None, references: Ids) -> Relation:
    """Return the relation joined with the correlation values, if ``references`` need values that it lacks."""
    return combine(ctx, [relation], (), outer, references)


def apply_predicates(
    ctx: Lowering,
    current: Relation,
    predicates: Sequence[Scalar],
    providers: Sequence[Relation],
    outer: Relation | None,
    needed: Ids,
) -> Relation:
    """Return the rows for which predicates with subqueries are true, with at least the ``needed`` columns.

    ``providers`` are relations that the current one was joined from. The correlation values of a
    subquery may be taken from them.
    """
    subqueries = ctx.bound_query.subqueries
    pending = sorted(predicates, key=lambda p: not is_filter(ctx, p))
    correlation_ids = frozenset(outer.ids) if outer is not None else frozenset()
    after = list(
        accumulate(
            (referenced_ids(p, subqueries) for p in reversed(pending)), or_, initial=needed | correlation_ids
        )
    )
    for predicate, later in zip(pending, after[-2::-1], strict=True):
        current = attach(ctx, current, outer, referenced_ids(predicate, subqueries))
        if is_filter(ctx, predicate):
            current = apply_filter(ctx, current, predicate, later)
        else:
            current = where(with_values(ctx, current, [predicate], providers, filtering=True), [predicate])
    return current


def split_correlation(ctx: Lowering, node: Node) -> tuple[Block, tuple[Scalar, ...]] | None:
    """Split a subquery into an uncorrelated block and the predicates that tie it to the rows outside.

    None if it refers to the rows outside anywhere but in these predicates. For callers that need only
    whether rows exist, and their distinct values.
    """
    block = block_of(node)
    subqueries = ctx.bound_query.subqueries
    if any(free_ids(leaf, subqueries) for leaf in block.leaves):
        return None
    own = frozenset[int]().union(*(output_ids(leaf) for leaf in block.leaves))
    ties = tuple(p for p in block.predicates if referenced_ids(p, subqueries) - own)
    if any(has_subquery(ctx, p) for p in ties):
        return None
    return Block(block.leaves, tuple(p for p in block.predicates if p not in ties)), ties


def is_function_call(node: Node) -> bool:
    """Return whether the node is a function call in FROM that does not expand the rows of another item."""
    return isinstance(node, Expand) and isinstance(node.input, Rows) and len(node.input.rows) == 1


def lower_expand(ctx: Lowering, node: Expand, outer: Relation | None, needed: Ids) -> Relation:
    """Return the rows of set-returning functions over the input's rows.

    A call in FROM is applied to the correlation values that it refers to.
    """
    references = _argument_references(ctx, node)
    if outer is not None and is_function_call(node) and references & set(outer.ids):
        return expand(ctx, outer, node)
    inner = ctx.lower(node.input, outer, (needed - set(node.ids)) | references)
    return expand(ctx, attach(ctx, inner, outer, references), node)


def expand(ctx: Lowering, inner: Relation, node: Expand, *, outer: bool = False) -> Relation:
    """Return the relation expanded by the calls; it has all columns that their arguments refer to.

    With ``outer`` a row without results stays, padded with NULLs.
    """
    inner = with_values(ctx, inner, scalars(node), ())
    calls = tuple(replace(call, args=tuple(map(inner.to_positions, call.args))) for call in node.calls)
    rel = algebra.Expand(inner.rel, calls, node.ordinality, outer)
    return Relation(rel, (*inner.ids, *node.ids))


def left_join_call(ctx: Lowering, left: Relation, right: Node) -> Relation | None:
    """Lower LEFT JOIN of a function call over the left rows, without a condition; None for any other node."""
    if not isinstance(right, Expand) or not is_function_call(right):
        return None
    references = free_ids(right, ctx.bound_query.subqueries)
    return expand(ctx, left, right, outer=True) if references <= set(left.ids) else None


def _argument_references(ctx: Lowering, node: Expand) -> Ids:
    return frozenset[int]().union(
        *(referenced_ids(scalar, ctx.bound_query.subqueries) for scalar in scalars(node))
    )


@dataclass(frozen=True, slots=True)
class SubqueryTest:
    """Rows of a subquery, and the predicates under which one of them matches a row outside.

    ``ties`` correlate the subquery, ``comparison`` is that of IN or ANY.
    """

    rows: Relation
    ties: tuple[Scalar, ...]
    comparison: tuple[Scalar, ...]


def is_filter(ctx: Lowering, predicate: Scalar) -> bool:
    """Return whether the predicate is just EXISTS, IN or ANY, or the negation of one."""
    return _filter_of(ctx, predicate) is not None


def _filter_of(ctx: Lowering, predicate: Scalar) -> tuple[Subquery, bool] | None:
    positive = True
    if isinstance(predicate, Call) and predicate.function == "not":
        predicate, positive = predicate.args[0], False
    if not isinstance(predicate, Column):
        return None
    subquery = ctx.bound_query.subqueries.get(predicate.index)
    return None if subquery is None or subquery.kind == "scalar" else (subquery, positive)


def apply_filter(ctx: Lowering, current: Relation, predicate: Scalar, needed: Ids) -> Relation:
    """Return the rows that pass an EXISTS, IN or ANY, or the negation of one."""
    found = _filter_of(ctx, predicate)
    assert found is not None
    subquery, positive = found
    current = with_values(ctx, current, subquery.comparison, ())
    current, test = _prepare_test(ctx, current, subquery)
    if positive:
        return semijoin(ctx, current, test.rows, (*test.ties, *test.comparison), needed)
    for condition in _not_in_conditions(ctx, current, test):
        rest = needed | _outer_references(ctx, subquery)
        current = antijoin(ctx, current, test.rows, (*test.ties, *condition), rest)
    return current


def _outer_references(ctx: Lowering, subquery: Subquery) -> Ids:
    """Return the columns outside the subquery that it or its comparison refers to."""
    own = frozenset(column.index for column in subquery.query.columns)
    compared = frozenset[int]().union(*(columns(part) for part in subquery.comparison))
    return subquery_free_ids(subquery, ctx.bound_query.subqueries) | (compared - own)


def _not_in_conditions(ctx: Lowering, current: Relation, test: SubqueryTest) -> list[tuple[Scalar, ...]]:
    """Return the conditions of an antijoin for NOT IN and <> ALL: a null-aware anti-join.

    They hold for a pair of rows whose comparison is not false. It is true under the first condition, and
    NULL under the others.
    """
    comparison = test.comparison
    result = [comparison]
    if len(comparison) == 1 and isinstance(comparison[0], Call):
        for side in comparison[0].args:
            sources = [rows for rows in (current, test.rows) if rows.has_columns(columns(side))]
            if not sources or ctx.can_be_null(sources[0], side):
                result.append((Call("is_null", (side,), BOOLEAN),))
    elif comparison:
        result.append((Call("is_null", (Call("and", comparison, BOOLEAN),), BOOLEAN),))
    return result


def _prepare_test(ctx: Lowering, current: Relation, subquery: Subquery) -> tuple[Relation, SubqueryTest]:
    """Return the current relation, shared if necessary, and the subquery's test on it."""
    node, comparison = subquery.query.node, subquery.comparison
    references = free_ids(node, ctx.bound_query.subqueries)
    if not references:
        rows = ctx.lower(node, None, _columns(comparison))
        return current, _share_if_repeated(ctx, current, SubqueryTest(rows, (), comparison))
    source, conjuncts = _strip_irrelevant(node, comparison, subquery.kind == "exists")
    found = None
    if not any(has_subquery(ctx, part) for part in conjuncts):
        found = split_correlation(ctx, source)
    if found is not None:
        block, ties = found
        rows = lower_block(ctx, block, None, _columns((*ties, *conjuncts)))
        return current, _share_if_repeated(ctx, current, SubqueryTest(rows, ties, conjuncts))
    current = ctx.share(current)
    values = ctx.share(distinct(ctx, current, sorted(references)))
    rows = ctx.lower(node, values, _columns(comparison))
    return current, _share_if_repeated(ctx, current, SubqueryTest(rows, (), comparison))


def _share_if_repeated(ctx: Lowering, current: Relation, test: SubqueryTest) -> SubqueryTest:
    if len(_not_in_conditions(ctx, current, test)) == 1:
        return test
    return SubqueryTest(ctx.share(test.rows), test.ties, test.comparison)


def _columns(scalars: Sequence[Scalar]) -> Ids:
    return frozenset[int]().union(*(columns(scalar) for scalar in scalars))


def _strip_irrelevant(
    node: Node, comparison: tuple[Scalar, ...], exists: bool
) -> tuple[Node, tuple[Scalar, ...]]:
    """Return the node without operators that do not change whether a row with certain values exists."""
    while True:
        match node:
            case Map(input=source, ids=ids, scalars=scalars) if all(map(is_total, scalars)):
                comparison = tuple(
                    substitute_columns(part, dict(zip(ids, scalars, strict=True))) for part in comparison
                )
                node = source
            case Distinct(input=source):
                node = source
            case TopK(input=source, group=(), limit=limit, offset=0) if exists and limit != 0:
                node = source
            case Window(input=source) if exists:
                node = source
            case Map() | TopK() | Window() | Scan() | SharedScan() | Rows() | Filter() | Join():
                return node, comparison
            case Group() | GroupingSets() | SetOperation() | Expand():
                return node, comparison
            case _:
                assert_never(node)


def with_values(
    ctx: Lowering,
    current: Relation,
    scalars: Sequence[Scalar],
    providers: Sequence[Relation],
    *,
    filtering: bool = False,
) -> Relation:
    """Return the relation with a column for each subquery in the scalars.

    ``filtering``: the scalars are predicates about to be applied, so rows that they reject may be
    missing.
    """
    values: dict[int, Scalar] = {}
    parts: dict[
        int, SubqueryPart
    ] = {}  # joined together, as they depend neither on conditions nor on each other
    for scalar in scalars:
        rejected = nulls.null_rejecting_columns(scalar) if filtering else frozenset()
        conditions_by_id = subquery_conditions(ctx, scalar)
        for id_ in sorted(conditions_by_id):
            if id_ in parts or id_ in values or id_ in current.ids:
                continue
            subquery, conditions = ctx.bound_query.subqueries[id_], conditions_by_id[id_]
            if subquery.kind == "scalar" and not conditions and not filtering:
                parts[id_] = _part_of(subquery)
                continue
            current = _with_parts(ctx, current, parts, providers)
            parts = {}
            late_subquery = late_value(ctx, subquery) if conditions else None
            if late_subquery is None:
                current = with_values(ctx, current, subquery.comparison, ())
                current = _with_value(ctx, current, subquery, conditions, providers, id_ in rejected)
                continue
            values[id_] = late_subquery.value
            if late_subquery.part is not None:
                current = _with_part(ctx, current, late_subquery.part, conditions, providers, False)
    current = _with_parts(ctx, current, parts, providers)
    missing = [id_ for id_ in values if id_ not in current.ids]
    return extend(current, missing, [values[id_] for id_ in missing])


def _part_of(subquery: Subquery) -> SubqueryPart:
    """The value of a scalar subquery."""
    value = subquery.query.columns[0].index
    return SubqueryPart(subquery.query.node, {value: subquery.id}, subquery.locate)


def _with_parts(
    ctx: Lowering, current: Relation, parts: Mapping[int, SubqueryPart], providers: Sequence[Relation]
) -> Relation:
    """The relation with the values of several scalar subqueries: one join of them all."""
    if not parts:
        return current
    found: list[Relation] = []
    for part in parts.values():
        current, rows, values = _rows_of(ctx, current, part, providers)
        group = values.ids if values is not None else ()
        if not ctx.is_unique(rows, group):
            rows = _single(rows, len(group), part)
        found.append(rows if _always_one_row(part.node) else _pad_missing(ctx, rows, values))
    result = join(ctx, [current, *found])
    return Relation(result.rel, result.ids, tuple(ctx.keys(current)))


def _with_value(
    ctx: Lowering,
    current: Relation,
    subquery: Subquery,
    conditions: Conditions,
    providers: Sequence[Relation],
    rejecting: bool,
) -> Relation:
    """Return the relation with the subquery's value; it may be NULL where the conditions do not hold."""
    if subquery.kind == "scalar":
        return _with_part(ctx, current, _part_of(subquery), conditions, providers, rejecting)
    if conditions and may_fail(ctx, (subquery.query.node,), subquery.comparison):
        return _apply_where_needed(
            ctx, current, conditions, lambda asking: _with_truth_value(ctx, asking, subquery)
        )
    return _with_truth_value(ctx, current, subquery)


def _apply_where_needed(
    ctx: Lowering, current: Relation, conditions: Conditions, add_columns: Callable[[Relation], Relation]
) -> Relation:
    """Add columns to the rows for which the conditions hold; other rows have NULL there."""
    current = ctx.share(with_values(ctx, current, conditions, ()))
    found = add_columns(where(current, conditions))
    others = where(current, [negate_conditions(conditions)])
    names = [id_ for id_ in found.ids if id_ not in others.ids]
    others = extend(others, names, [Literal(None, found.type_of(id_)) for id_ in names])
    both = frozenset(others.ids)
    return replace(union([keep(found, both), others]), keys=tuple(ctx.keys(current)))


def _with_part(
    ctx: Lowering,
    current: Relation,
    part: SubqueryPart,
    conditions: Conditions,
    providers: Sequence[Relation],
    rejecting: bool,
) -> Relation:
    """Return the relation with columns of a subquery's one row, NULL where it has no row."""

    def add_part(rows: Relation) -> Relation:
        return _with_part(ctx, rows, part, (), (), False)

    node = part.node
    if conditions and may_fail(ctx, (node,), ()):
        return _apply_where_needed(ctx, current, conditions, add_part)
    has_one_row = _always_one_row(node)
    if rejecting and has_one_row and _is_null_when_empty(node, next(iter(part.names))):
        ctx.unpadded_groups.add(id(_innermost(node)))
    current, rows, values = _rows_of(ctx, current, part, providers)
    group = values.ids if values is not None else ()
    if not ctx.is_unique(rows, group):
        if conditions:
            return _apply_where_needed(ctx, current, conditions, add_part)
        rows = _single(rows, len(group), part)
    if not has_one_row and not rejecting:
        rows = _pad_missing(ctx, rows, values)
    result = join(ctx, [current, rows])
    return Relation(result.rel, result.ids, tuple(ctx.keys(current)))


def _rows_of(
    ctx: Lowering, current: Relation, part: SubqueryPart, providers: Sequence[Relation]
) -> tuple[Relation, Relation, Relation | None]:
    """The relation, shared if need be, the rows of a subquery, and the correlation values these are for."""
    node = part.node
    references = free_ids(node, ctx.bound_query.subqueries)
    # Correlation values without a row outside are harmless, except that a second row would raise an error.
    certain = _always_one_row(node)
    values = None
    if references:
        near = [one for one in providers if certain and not references.isdisjoint(one.ids)]
        source = (
            near[0] if len(near) == 1 and len(providers) > 1 and near[0].has_columns(references) else None
        )
        if source is None:
            source = current = ctx.share(current)
        values = ctx.share(distinct(ctx, source, sorted(references)))
    rows = ctx.lower(node, values, frozenset(part.names))
    rows = project(rows, (*(values.ids if values is not None else ()), *part.names))
    rows = Relation(rows.rel, tuple(part.names.get(id_, id_) for id_ in rows.ids), rows.keys)
    return current, rows, values


def _single(rows: Relation, group: int, part: SubqueryPart) -> Relation:
    """The rows: at most one for each value of the first ``group`` columns."""
    return Relation(algebra.Single(rows.rel, tuple(range(group)), part.locate()), rows.ids)


def _pad_missing(ctx: Lowering, rows: Relation, values: Relation | None) -> Relation:
    """Return the rows, and a row of NULLs for each combination of correlation values without one."""
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


def _is_null_when_empty(node: Node, value: int) -> bool:
    """Return whether the value over an aggregation is NULL if there are no rows to aggregate."""
    scalar: Scalar = Column(value, BOOLEAN)
    while isinstance(node, Map):
        scalar = substitute_columns(scalar, dict(zip(node.ids, node.scalars, strict=True)))
        node = node.input
    assert isinstance(node, Group)
    calls = zip(node.ids, node.aggregates, strict=True)
    null = {id_ for id_, call in calls if lookup_aggregate(call.function).empty is None}
    return not null.isdisjoint(nulls.strict_columns(scalar))


def _with_truth_value(ctx: Lowering, current: Relation, subquery: Subquery) -> Relation:
    """Return the relation with the truth value of EXISTS, IN or ANY."""
    references = _outer_references(ctx, subquery)
    if references:
        current = ctx.share(current)
        values = ctx.share(distinct(ctx, current, sorted(references)))
    else:
        values = one_row(ctx)
    values, test = _prepare_test(ctx, values, subquery)
    ids = frozenset(values.ids)
    answers: list[Relation] = []
    rest = values
    for index, condition in enumerate(_not_in_conditions(ctx, values, test)):
        rest = ctx.share(rest)
        found = ctx.share(semijoin(ctx, rest, test.rows, (*test.ties, *condition), ids))
        answers.append(extend(found, [subquery.id], [Literal(None if index else 1, BOOLEAN)]))
        rest = minus(rest, found)
    answers.append(extend(rest, [subquery.id], [Literal(0, BOOLEAN)]))
    result = join(ctx, [current, union(answers)])
    return Relation(result.rel, result.ids, tuple(ctx.keys(current)))
