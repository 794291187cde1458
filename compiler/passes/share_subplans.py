"""Bind a repeated subplan to a let (common subexpression elimination)."""

from collections import Counter

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import children, free_locals, size, transform_down, walk, walk_up
from kpg.compiler.passes.normalize_lets import STATELESS

SELECTIONS = (algebra.Map, algebra.Filter, algebra.Project)
LEAVES = (algebra.Get, algebra.Constant, algebra.LocalGet, algebra.Let, algebra.LetRec)


def share_subplans(rel: Rel) -> Rel:
    """Bind equal subplans to a let, the largest first (TPC-H Q11 joins the same tables twice).

    A stateless join that is an input of another join is not shared: it is free there, and a let would
    need an arrangement. Only subplans without free lets are shared.
    """
    taken = {node.id for node in walk(rel) if isinstance(node, algebra.Let | algebra.LocalGet)}
    number = 0
    while True:
        repeated = _largest_repeated(rel)
        if repeated is None:
            return rel
        while f"s{number}" in taken:
            number += 1
        id_ = f"s{number}"
        taken.add(id_)
        get = algebra.LocalGet(id_, algebra.types(repeated))
        rel = algebra.Let(id_, repeated, _replace(rel, repeated, get))


def _replace(rel: Rel, old: Rel, new: Rel) -> Rel:
    digest = hash(old)

    def rewrite(node: Rel) -> Rel:
        return new if hash(node) == digest and node == old else node

    return transform_down(rel, rewrite)


def _largest_repeated(rel: Rel) -> Rel | None:
    """Return the first of the largest subplans that occur at least twice."""
    counts: Counter[Rel] = Counter(_candidates(rel))
    repeated = [node for node, count in counts.items() if count > 1]
    return max(repeated, key=size, default=None)


def _candidates(rel: Rel) -> list[Rel]:
    """Return the subplans that are worth sharing, once per occurrence."""
    found: list[Rel] = []
    stateless = dict[int, bool]()
    for node in walk_up(rel):
        below = (stateless[id(child)] for child in children(node))
        stateless[id(node)] = isinstance(node, STATELESS) and all(below)
    stack: list[tuple[Rel, bool]] = [(rel, False)]
    while stack:
        node, below_join = stack.pop()
        if (
            not isinstance(node, (*LEAVES, *SELECTIONS))
            and not (below_join and stateless[id(node)])
            and not free_locals(node)
        ):
            found.append(node)
        inside = isinstance(node, algebra.Join) or (below_join and isinstance(node, SELECTIONS))
        stack += [(child, inside) for child in reversed(children(node))]
    return found
