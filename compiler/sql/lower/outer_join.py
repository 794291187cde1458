"""Lowering of LEFT, RIGHT and FULL JOIN: the matching pairs, and the other rows padded with NULLs."""

from collections.abc import Sequence
from typing import Final

from kpg.compiler.sql.bound_tree import Ids, Join, free_ids, referenced_ids
from kpg.compiler.sql.lower import block as blocks
from kpg.compiler.sql.lower.block import left_join_call
from kpg.compiler.sql.lower.relation import (
    Lowering,
    Relation,
    distinct,
    extend,
    join,
    keep_with_key,
    matches_once,
    minus,
    project,
    semijoin,
    split_equalities,
    union,
)
from kpg.runtime.scalar import Literal, Scalar, columns
from kpg.runtime.types import BOOLEAN

TRUE: Final = Literal(1, BOOLEAN)


def lower_outer_join(ctx: Lowering, node: Join, outer: Relation | None, needed: Ids) -> Relation:
    """Return the outer join over correlation values, with at least the ``needed`` columns."""
    subqueries = ctx.bound_query.subqueries
    condition_ids = frozenset[int]().union(*(referenced_ids(test, subqueries) for test in node.on))
    correlation_columns = frozenset(outer.ids) if outer is not None else frozenset()
    wanted = needed | condition_ids | correlation_columns | free_ids(node.right, subqueries)
    if node.kind == "left" and all(test == TRUE for test in node.on):
        joined = left_join_call(ctx, ctx.lower(node.left, outer, wanted), node.right)
        if joined is not None:
            return joined
    left, right = _lower_sides(ctx, node, outer, wanted)
    left = blocks.attach(ctx, left, outer, condition_ids | set(right.ids))
    if node.kind == "full":
        right = blocks.attach(ctx, right, outer, condition_ids | set(left.ids))
    tests = node.on
    if node.kind == "left":
        right, tests = _filter_right(ctx, right, tests)
    left, right = (ctx.share(keep_with_key(ctx, side, wanted)) for side in (left, right))
    return _outer_join(ctx, node.kind, left, right, tests)


def _lower_sides(ctx: Lowering, node: Join, outer: Relation | None, wanted: Ids) -> tuple[Relation, Relation]:
    """Return both sides. A LATERAL right side is lowered over the left columns that it refers to."""
    left = ctx.lower(node.left, outer, wanted)
    references = free_ids(node.right, ctx.bound_query.subqueries)
    if references.isdisjoint(left.ids):
        return left, ctx.lower(node.right, outer, wanted)
    left = ctx.share(keep_with_key(ctx, blocks.attach(ctx, left, outer, references), wanted))
    values = ctx.share(distinct(ctx, left, sorted(references)))
    return left, ctx.lower(node.right, values, wanted)


def _filter_right(
    ctx: Lowering, right: Relation, tests: tuple[Scalar, ...]
) -> tuple[Relation, tuple[Scalar, ...]]:
    """Return the right side of a left join filtered by the tests on it alone, and the other tests.

    Only tests with subqueries are applied here.
    """
    subqueries = ctx.bound_query.subqueries
    own = [
        t for t in tests if blocks.has_subquery(ctx, t) and right.has_columns(referenced_ids(t, subqueries))
    ]
    right = blocks.apply_predicates(ctx, right, own, (), None, frozenset(right.ids))
    return right, tuple(test for test in tests if test not in own)


def _outer_join(
    ctx: Lowering, kind: str, left: Relation, right: Relation, tests: Sequence[Scalar]
) -> Relation:
    nested = [test for test in tests if blocks.has_subquery(ctx, test)]
    plain = [test for test in tests if test not in nested]
    both = frozenset(left.ids) | frozenset(right.ids)
    pairs = join(ctx, [left, right], plain)
    pairs = blocks.apply_predicates(ctx, pairs, nested, (), None, both)
    pairs = ctx.share(project(pairs, sorted(both)))
    unmatched = minus(left, _matching_rows(ctx, left, right, pairs, plain, bool(nested)))
    parts = [pairs, _pad_with_nulls(unmatched, right)]
    if kind == "full":
        unmatched = minus(right, _matching_rows(ctx, right, left, pairs, plain, bool(nested)))
        parts.append(_pad_with_nulls(unmatched, left))
    result = union(parts)
    if kind == "full":
        return result
    keys: list[Ids] = ctx.keys(left)
    if not matches_once(ctx, right, split_equalities(left, right, plain)):
        keys = [one | other for one in keys[:1] for other in ctx.keys(right)[:1]]
    return Relation(result.rel, result.ids, tuple(keys))


def _matching_rows(
    ctx: Lowering, side: Relation, other: Relation, pairs: Relation, plain: Sequence[Scalar], nested: bool
) -> Relation:
    """Return the rows of one side that occur in some pair."""
    is_unique = not nested and matches_once(ctx, other, split_equalities(side, other, plain))
    own = project(pairs, side.ids)
    if is_unique and all(not side.has_columns(columns(test)) for test in plain):
        return own
    if ctx.keys(side):
        return distinct(ctx, own, own.ids)
    if nested:
        return join(ctx, [side, distinct(ctx, own, own.ids)])
    return semijoin(ctx, side, other, plain, frozenset(side.ids))


def _pad_with_nulls(unmatched: Relation, other: Relation) -> Relation:
    missing = [id_ for id_ in other.ids if id_ not in unmatched.ids]
    return extend(unmatched, missing, [Literal(None, other.type_of(id_)) for id_ in missing])
