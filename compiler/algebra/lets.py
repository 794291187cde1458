"""Names of let-bound relations: each has one of its own, which means the same wherever it stands."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from operator import is_

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import children, walk, with_children


def renamed(rel: Rel) -> Rel:
    """The relation with its lets and recursive lets named ``l0``, ``l1``... from the outside in."""
    return _renamed(rel, {}, count())


def with_unique_ids(rel: Rel) -> Rel:
    """The relation as it is if each of its lets has a name of its own, else :func:`renamed`."""
    ids = [id_ for node in walk(rel) for id_ in _bound_ids(node)]
    return rel if len(set(ids)) == len(ids) else renamed(rel)


def let_values(rel: Rel) -> dict[str, Rel]:
    """What each let of a relation with unique ids binds."""
    return {node.id: node.value for node in walk(rel) if isinstance(node, algebra.Let)}


def recursions(rel: Rel) -> dict[str, algebra.LetRec]:
    """The recursion that each recursive let of a relation with unique ids is of."""
    found = (node for node in walk(rel) if isinstance(node, algebra.LetRec))
    return {id_: rec for rec in found for id_ in rec.ids}


def _bound_ids(rel: Rel) -> tuple[str, ...]:
    if isinstance(rel, algebra.LetRec):
        return rel.ids
    return (rel.id,) if isinstance(rel, algebra.Let) else ()


def _renamed(rel: Rel, names: Mapping[str, str], fresh: "count[int]") -> Rel:
    if isinstance(rel, algebra.LocalGet):
        name = names.get(rel.id, rel.id)
        return rel if name == rel.id else algebra.LocalGet(name, rel.types)
    if isinstance(rel, algebra.Let):
        name = f"l{next(fresh)}"
        inside = {**names, rel.id: name}
        return algebra.Let(name, _renamed(rel.value, names, fresh), _renamed(rel.body, inside, fresh))
    if isinstance(rel, algebra.LetRec):
        inside = {**names, **{id_: f"l{next(fresh)}" for id_ in rel.ids}}
        values = tuple(_renamed(value, inside, fresh) for value in rel.values)
        body = _renamed(rel.body, inside, fresh)
        return replace(rel, ids=tuple(inside[id_] for id_ in rel.ids), values=values, body=body)
    old = children(rel)
    new = tuple(_renamed(child, names, fresh) for child in old)
    return rel if all(map(is_, old, new)) else with_children(rel, new)
