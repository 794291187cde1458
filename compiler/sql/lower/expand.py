"""Functions that make rows, over the rows that their arguments come from: no state, and no join back."""

from dataclasses import replace

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.sql.lower import block as blocks
from kpg.compiler.sql.lower.lowered import Lowered, Lowering
from kpg.compiler.sql.lower.subquery import with_values
from kpg.compiler.sql.tree import Expand, Ids, Node, Rows, free, scalars, used


def is_call(node: Node) -> bool:
    """Whether the node is a call in FROM, over no row in particular."""
    return isinstance(node, Expand) and isinstance(node.input, Rows) and len(node.input.rows) == 1


def lower_expand(ctx: Lowering, node: Expand, outer: Lowered | None, needed: Ids) -> Lowered:
    """What is made of the input's rows, or of the correlation values that a call in FROM refers to."""
    references = _references(ctx, node)
    if outer is not None and is_call(node) and references & set(outer.ids):
        return expanded(ctx, outer, node)
    inner = ctx.lower(node.input, outer, (needed - set(node.ids)) | references)
    return expanded(ctx, blocks.attach(ctx, inner, outer, references), node)


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
