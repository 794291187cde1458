"""Rewriting with the lets around each node at hand."""

from collections.abc import Callable, Mapping

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import children, with_children

Bound = Mapping[str, Rel]


def transform_scoped(rel: Rel, rewrite: Callable[[Rel, Bound], Rel], bound: Bound | None = None) -> Rel:
    """Rebuild bottom-up; ``rewrite`` also sees the (rewritten) values of the lets in scope."""
    scope = bound or {}
    if isinstance(rel, algebra.Let):
        value = transform_scoped(rel.value, rewrite, scope)
        body = transform_scoped(rel.body, rewrite, {**scope, rel.id: value})
        return rewrite(algebra.Let(rel.id, value, body), scope)
    if isinstance(rel, algebra.LetRec):
        scope = {id_: value for id_, value in scope.items() if id_ not in rel.ids}
    old = children(rel)
    new = tuple(transform_scoped(child, rewrite, scope) for child in old)
    return rewrite(rel if new == old else with_children(rel, new), scope)
