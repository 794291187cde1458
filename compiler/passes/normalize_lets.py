"""Inline the lets that need not be shared."""

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.lets import renamed
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import transform_up, walk, with_children

SELECTIONS = (algebra.Map, algebra.Filter, algebra.Project)
STATELESS = (*SELECTIONS, algebra.Get, algebra.Constant, algebra.LocalGet, algebra.Join)


def normalize_lets(rel: Rel) -> Rel:
    """Lets get unique ids; those used once, and mere selections, go to where they are used.

    A join without state goes into the joins that use it as well, which then need no arrangement of its
    result: ``let l = a join b in (l join c) union l`` becomes ``let l = a join b in (a join b join c)
    union l``. A let bound outside a recursion is not moved into it.
    """
    result = renamed(rel)
    while True:
        simpler = transform_up(result, _simplified)
        if simpler == result:
            return result
        result = simpler


def _simplified(rel: Rel) -> Rel:
    if not isinstance(rel, algebra.Let):
        return rel
    uses = sum(1 for node in walk(rel.body) if _is_use(node, rel.id))
    looped = any(
        _is_use(node, rel.id)
        for loop in walk(rel.body)
        if isinstance(loop, algebra.LetRec)
        for value in loop.values
        for node in walk(value)
    )
    if uses == 0:
        return rel.body
    if _is_selection(rel.value) or (uses == 1 and not looped):
        return transform_up(rel.body, lambda node: rel.value if _is_use(node, rel.id) else node)
    if not looped and all(isinstance(node, STATELESS) for node in walk(rel.value)):
        return algebra.Let(rel.id, rel.value, transform_up(rel.body, lambda node: _into_join(node, rel)))
    return rel


def _is_use(node: Rel, id_: str) -> bool:
    return isinstance(node, algebra.LocalGet) and node.id == id_


def _is_selection(rel: Rel) -> bool:
    while isinstance(rel, SELECTIONS):
        rel = rel.input
    return isinstance(rel, algebra.Get | algebra.LocalGet | algebra.Constant)


def _into_join(node: Rel, let: algebra.Let) -> Rel:
    """A join with the let's value in place of its uses among the inputs."""
    if not isinstance(node, algebra.Join):
        return node
    return with_children(node, tuple(_below_selections(source, let) for source in node.inputs))


def _below_selections(rel: Rel, let: algebra.Let) -> Rel:
    if _is_use(rel, let.id):
        return let.value
    if isinstance(rel, SELECTIONS):
        return with_children(rel, (_below_selections(rel.input, let),))
    return rel
