"""Rewriting with the lets around each node at hand."""

from collections import Counter
from collections.abc import Callable, Mapping
from operator import is_

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import children, walk, with_children

Bound = Mapping[str, Rel]


def transform_scoped(rel: Rel, rewrite: Callable[[Rel, Bound], Rel], bound: Bound | None = None) -> Rel:
    """Rebuild bottom-up; ``rewrite`` also sees the (rewritten) values of the lets in scope.

    Where no two lets have the same name, which is usual, there is one scope that grows: what is found out
    about a relation in it stays true.
    """
    names = Counter(name for node in walk(rel) for name in _bound_by(node))
    names.update(bound or ())
    grows = all(count == 1 for count in names.values())
    return _transformed(rel, rewrite, dict(bound or {}), grows=grows)


def _bound_by(node: Rel) -> tuple[str, ...]:
    if isinstance(node, algebra.LetRec):
        return node.ids
    return (node.id,) if isinstance(node, algebra.Let) else ()


def _transformed(
    rel: Rel, rewrite: Callable[[Rel, Bound], Rel], scope: dict[str, Rel], *, grows: bool
) -> Rel:
    if isinstance(rel, algebra.Let):
        value = _transformed(rel.value, rewrite, scope, grows=grows)
        inside = scope if grows else dict(scope)
        inside[rel.id] = value
        body = _transformed(rel.body, rewrite, inside, grows=grows)
        return rewrite(algebra.Let(rel.id, value, body), scope)
    if isinstance(rel, algebra.LetRec) and not grows:
        scope = {id_: value for id_, value in scope.items() if id_ not in rel.ids}
    old = children(rel)
    new = tuple(_transformed(child, rewrite, scope, grows=grows) for child in old)
    return rewrite(rel if all(map(is_, old, new)) else with_children(rel, new), scope)
