"""Push a predicate into a let if every reader of the let applies it."""

from collections.abc import Sequence

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import transform_up, walk
from kpg.compiler.passes.push_filters import push_filters
from kpg.runtime.scalar import Scalar


def narrow_lets(rel: Rel) -> Rel:
    """A let whose every reader filters it by a predicate keeps only what satisfies that.

    An outer join reads its pairs twice, as its answer and to know which rows have none; what is asked
    of the rows that it keeps is asked of both, and so of its inputs: ``let l = a join b in (l where p)
    union (a where p minus distinct (l where p))`` becomes ``let l = (a where p) join b in ...``. Inner
    lets come first, since what moves into them is asked of those that they read.
    """
    filtered = _filtered_lets(rel)

    def narrowed(node: Rel) -> Rel:
        if not isinstance(node, algebra.Let) or node.id not in filtered:
            return node
        common = _asked_by_all(node)
        if not common:
            return node
        value = push_filters(algebra.Filter(node.value, tuple(common)))
        filtered.update(_filtered_lets(value))
        body = transform_up(node.body, lambda use: _without(use, node.id, common))
        return algebra.Let(node.id, value, body)

    return transform_up(rel, narrowed) if filtered else rel


def _filtered_lets(rel: Rel) -> set[str]:
    """The names of lets that a filter reads."""
    filters = (node.input for node in walk(rel) if isinstance(node, algebra.Filter))
    return {source.id for source in filters if isinstance(source, algebra.LocalGet)}


def _asked_by_all(let: algebra.Let) -> list[Scalar]:
    """The predicates that stand directly above each use of the let."""
    reads = 0
    asked: list[tuple[Scalar, ...]] = []
    for node in walk(let.body):
        if _reads(node, let.id):
            reads += 1
        elif isinstance(node, algebra.Filter) and _reads(node.input, let.id):
            asked.append(node.predicates)
    if not asked or len(asked) < reads:
        return []
    return [one for one in dict.fromkeys(asked[0]) if all(one in others for others in asked)]


def _reads(node: Rel, id_: str) -> bool:
    return isinstance(node, algebra.LocalGet) and node.id == id_


def _without(node: Rel, id_: str, predicates: Sequence[Scalar]) -> Rel:
    """A use of the let without the predicates that it satisfies now."""
    if not isinstance(node, algebra.Filter) or not _reads(node.input, id_):
        return node
    left = tuple(one for one in node.predicates if one not in predicates)
    return algebra.Filter(node.input, left) if left else node.input
