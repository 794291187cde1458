"""Left and full outer joins: the matches, and the rows without one padded with NULLs."""

from collections.abc import Sequence
from typing import Final

from kpg.compiler.sql.lower import block as blocks
from kpg.compiler.sql.lower.expand import left_joined
from kpg.compiler.sql.lower.lowered import (
    Lowered,
    Lowering,
    distinct,
    extend,
    join,
    minus,
    narrowed,
    project,
    union,
)
from kpg.compiler.sql.lower.semijoin import match_of, matches_once, semijoin
from kpg.compiler.sql.tree import Ids, Join, free, used
from kpg.runtime.scalar import Literal, Scalar, columns
from kpg.runtime.types import BOOLEAN

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
