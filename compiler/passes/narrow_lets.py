"""Push a predicate into a let if every reader of the let applies it."""

from collections.abc import Sequence

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import transform_up, walk
from kpg.compiler.passes.push_filters import push_filters
from kpg.runtime.scalar import Scalar


def narrow_lets(rel: Rel) -> Rel:
    """Push the predicates that all readers of a let apply into the let's value.

    An outer join reads its pairs twice: as output, and to find the rows without a match. A predicate
    on the preserved rows applies to both reads, and so to its inputs: ``let l = a join b in (l where
    p) union (a where p minus distinct (l where p))`` becomes ``let l = (a where p) join b in ...``.
    Inner lets come first, because predicates that move into them then apply to the lets that they
    read.
    """
    filtered = _lets_below_filters(rel)

    def narrow(node: Rel) -> Rel:
        if not isinstance(node, algebra.Let) or node.id not in filtered:
            return node
        common = _common_predicates(node)
        if not common:
            return node
        value = push_filters(algebra.Filter(node.value, tuple(common)))
        filtered.update(_lets_below_filters(value))
        body = transform_up(node.body, lambda use: _remove_predicates(use, node.id, common))
        return algebra.Let(node.id, value, body)

    return transform_up(rel, narrow) if filtered else rel


def _lets_below_filters(rel: Rel) -> set[str]:
    """Return the ids of lets that a filter reads."""
    filters = (node.input for node in walk(rel) if isinstance(node, algebra.Filter))
    return {source.id for source in filters if isinstance(source, algebra.LocalGet)}


def _common_predicates(let: algebra.Let) -> list[Scalar]:
    """Return the predicates that stand directly above every read of the let."""
    reads = 0
    filters: list[tuple[Scalar, ...]] = []
    for node in walk(let.body):
        if _reads(node, let.id):
            reads += 1
        elif isinstance(node, algebra.Filter) and _reads(node.input, let.id):
            filters.append(node.predicates)
    if not filters or len(filters) < reads:
        return []
    return [
        predicate for predicate in dict.fromkeys(filters[0]) if all(predicate in others for others in filters)
    ]


def _reads(node: Rel, id_: str) -> bool:
    return isinstance(node, algebra.LocalGet) and node.id == id_


def _remove_predicates(node: Rel, id_: str, predicates: Sequence[Scalar]) -> Rel:
    """Return a read of the let without the predicates that its value already satisfies."""
    if not isinstance(node, algebra.Filter) or not _reads(node.input, id_):
        return node
    remaining = tuple(predicate for predicate in node.predicates if predicate not in predicates)
    return algebra.Filter(node.input, remaining) if remaining else node.input
