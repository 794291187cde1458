"""Semijoins and antijoins by joins, unions and negation, exact in multiplicities.

A semijoin keeps the rows of ``left`` that some row of ``right`` matches, as often as ``left`` has them.
An antijoin is ``left`` minus its semijoin.
"""

from collections.abc import Sequence

from kpg.compiler.algebra import facts
from kpg.compiler.sql.lower.lowered import (
    DEAD,
    Lowered,
    Lowering,
    distinct,
    extend,
    join,
    keep,
    minus,
    project,
    row_count,
    where,
)
from kpg.compiler.sql.tree import Ids
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Scalar, columns
from kpg.runtime.types import BOOLEAN


@dataclass(frozen=True, slots=True)
class Match:
    """How rows of two relations match: equal in pairs of scalars and in shared ids, and ``rest`` true."""

    pairs: tuple[tuple[Scalar, Scalar], ...]
    functions: tuple[str, ...]
    rest: tuple[Scalar, ...]
    shared: Ids


def match_of(left: Lowered, right: Lowered, predicates: Sequence[Scalar]) -> Match:
    """The predicates (over ids) sorted into equalities between the two sides and others."""
    pairs, functions, rest = [], [], []
    for predicate in predicates:
        sides = facts.equalities([predicate])
        if sides and _oriented(left, right, *sides[0]) is not None:
            pair = _oriented(left, right, *sides[0])
            assert pair is not None and isinstance(predicate, Call)
            pairs.append(pair)
            functions.append(predicate.function)
        else:
            rest.append(predicate)
    return Match(tuple(pairs), tuple(functions), tuple(rest), shared_ids(left, right))


def shared_ids(left: Lowered, right: Lowered) -> Ids:
    """The columns that both have."""
    return (frozenset(left.ids) & frozenset(right.ids)) - {DEAD}


def _oriented(left: Lowered, right: Lowered, one: Scalar, other: Scalar) -> tuple[Scalar, Scalar] | None:
    for here, there in ((one, other), (other, one)):
        if columns(here) and columns(there) and left.has(columns(here)) and right.has(columns(there)):
            return here, there
    return None


def matches_once(ctx: Lowering, right: Lowered, match: Match) -> bool:
    """Whether no left row can match two right rows."""
    fixed = {side.index for _, side in match.pairs if isinstance(side, Column)}
    return ctx.is_unique(right, fixed | match.shared)


def semijoin(
    ctx: Lowering, left: Lowered, right: Lowered, predicates: Sequence[Scalar], needed: Ids
) -> Lowered:
    """The rows of ``left`` that match, with at least the ``needed`` columns of it."""
    own = [p for p in predicates if left.has(columns(p))]
    theirs = [p for p in predicates if p not in own and right.has(columns(p))]
    both = [p for p in predicates if p not in own and p not in theirs]
    left, right = where(left, own), where(right, theirs)
    match = match_of(left, right, both)
    if not both and not match.shared:
        right = row_count(ctx, right, positive=True)
    if matches_once(ctx, right, match):
        return _with_keys(ctx, left, keep(join(ctx, [left, right], both), needed & set(left.ids)))
    if ctx.keys(left):
        kept = (needed | ctx.keys(left)[0]) & set(left.ids)
        joined = join(ctx, [left, right], both)
        return _with_keys(ctx, left, distinct(ctx, joined, (id_ for id_ in left.ids if id_ in kept)))
    if not match.rest:
        return keep(_join_values(ctx, left, right, match), needed & set(left.ids))
    used = frozenset[int]().union(*(columns(p) for p in both)) | match.shared
    values = distinct(ctx, left, (id_ for id_ in left.ids if id_ in used))
    matched = distinct(ctx, join(ctx, [values, right], both), values.ids)
    return keep(join(ctx, [left, matched]), needed & set(left.ids))


def _with_keys(ctx: Lowering, left: Lowered, result: Lowered) -> Lowered:
    keys = tuple(key for key in ctx.keys(left) if result.has(key))
    return Lowered(result.rel, result.ids, keys)


def _join_values(ctx: Lowering, left: Lowered, right: Lowered, match: Match) -> Lowered:
    """Joins with the distinct values that the right sides of the equalities have."""
    computed = [side for _, side in match.pairs if not isinstance(side, Column)]
    names = [ctx.fresh() for _ in computed]
    right = extend(right, names, computed)
    fresh = iter(names)
    sides = [side if isinstance(side, Column) else Column(next(fresh), side.type) for _, side in match.pairs]
    values = distinct(ctx, right, (*sorted(match.shared), *(side.index for side in sides)))
    tests = [
        Call(function, (here, side), BOOLEAN)
        for function, (here, _), side in zip(match.functions, match.pairs, sides, strict=True)
    ]
    return join(ctx, [left, values], tests)


def antijoin(
    ctx: Lowering, left: Lowered, right: Lowered, predicates: Sequence[Scalar], needed: Ids
) -> Lowered:
    """The rows of ``left`` that match nothing, with at least the ``needed`` columns of it."""
    used = frozenset[int]().union(*(columns(p) for p in predicates)) | shared_ids(left, right)
    kept = (needed | used) & set(left.ids)
    keys = ctx.keys(left)
    if keys:
        kept |= keys[0]
    narrow = project(left, (id_ for id_ in left.ids if id_ in kept))
    whole = ctx.share(_with_keys(ctx, left, narrow))
    return minus(whole, semijoin(ctx, whole, right, predicates, frozenset(whole.ids)))
