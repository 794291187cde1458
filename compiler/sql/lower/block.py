"""Blocks of inner joins and filters: leaves joined, predicates where they belong, subqueries applied.

Predicates without subqueries come first, then the subqueries that keep or drop rows, then those whose
values are compared.
"""

from collections import Counter
from collections.abc import Sequence
from typing import assert_never

from kpg.compiler.sql.lower.expand import expanded, is_call
from kpg.compiler.sql.lower.failing import Deferred, deferred
from kpg.compiler.sql.lower.lowered import DEAD, Lowered, Lowering, distinct, join, narrowed, where
from kpg.compiler.sql.lower.subquery import apply_filter, is_filter, with_values
from kpg.compiler.sql.tree import (
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
    TopK,
    Window,
    free,
    produced,
    used,
)
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Scalar, columns


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
    parts = [where(part, [p for p in plain if columns(p) and part.has(columns(p))]) for part in parts]
    plain = [p for p in plain if not columns(p) or not any(part.has(columns(p)) for part in parts)]
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
    lateral = any(not references.isdisjoint(part.ids) for part in parts)
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
    for index, predicate in enumerate(pending):
        current = attach(ctx, current, outer, used(predicate, subqueries))
        later = needed.union(*(used(p, subqueries) for p in pending[index + 1 :]), around)
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
