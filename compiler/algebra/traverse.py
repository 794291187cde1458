"""Traversals and rewrites of relations, shared by every pass.

Walks and plain transforms are iterative, so a deep plan cannot exhaust Python's stack.
:func:`with_unique_ids` makes let ids unique in the plan. :func:`transform_scoped` also passes the
values of the lets in scope.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from operator import is_
from typing import Final, TypeVar, assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.runtime.interrupts import checkpoint
from kpg.runtime.scalar import Scalar

Rewrite = Callable[[Rel], Rel]
Found = TypeVar("Found")


def children(rel: Rel) -> tuple[Rel, ...]:
    """Return the direct inputs of a relation.

    Those of a let are its values, then its body.
    """
    match rel:
        case algebra.Get() | algebra.Constant() | algebra.LocalGet():
            return ()
        case algebra.Join(inputs=inputs) | algebra.Union(inputs=inputs):
            return inputs
        case algebra.Let(value=value, body=body):
            return (value, body)
        case algebra.LetRec(values=values, body=body):
            return (*values, body)
        case (
            algebra.Map()
            | algebra.Filter()
            | algebra.Project()
            | algebra.Reduce()
            | algebra.Expand()
            | algebra.TopK()
            | algebra.Window()
            | algebra.Distinct()
            | algebra.Threshold()
            | algebra.Negate()
            | algebra.Single()
        ):
            return (rel.input,)
        case _:
            assert_never(rel)


def with_children(rel: Rel, new: tuple[Rel, ...]) -> Rel:
    """Return the relation with its direct inputs replaced, in the order of :func:`children`."""
    match rel:
        case algebra.Get() | algebra.Constant() | algebra.LocalGet():
            return rel
        case algebra.Join() | algebra.Union():
            return replace(rel, inputs=new)
        case algebra.Let():
            return replace(rel, value=new[0], body=new[1])
        case algebra.LetRec():
            return replace(rel, values=new[:-1], body=new[-1])
        case (
            algebra.Map()
            | algebra.Filter()
            | algebra.Project()
            | algebra.Reduce()
            | algebra.Expand()
            | algebra.TopK()
            | algebra.Window()
            | algebra.Distinct()
            | algebra.Threshold()
            | algebra.Negate()
            | algebra.Single()
        ):
            return replace(rel, input=new[0])
        case _:
            assert_never(rel)


def walk(rel: Rel) -> Iterator[Rel]:
    """Yield the relation and all relations below it in preorder."""
    stack = [rel]
    while stack:
        node = stack.pop()
        checkpoint()
        yield node
        stack.extend(reversed(children(node)))


def walk_up(rel: Rel) -> Iterator[Rel]:
    """Yield the relation and all relations below it in postorder."""
    stack = [(rel, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            checkpoint()
            yield node
            continue
        stack.append((node, True))
        stack.extend((child, False) for child in reversed(children(node)))


def transform_up(rel: Rel, rewrite: Rewrite) -> Rel:
    """Rebuild the relation bottom-up.

    ``rewrite`` receives each node with its inputs already rewritten. An unchanged node stays the same
    object.
    """
    done: list[Rel] = []
    for node in walk_up(rel):
        old = children(node)
        new = tuple(done[len(done) - len(old) :])
        del done[len(done) - len(old) :]
        done.append(rewrite(_rebuild(node, old, new)))
    return done.pop()


def transform_down(rel: Rel, rewrite: Rewrite) -> Rel:
    """Rebuild the relation top-down.

    ``rewrite`` receives a node first, then the inputs of its result.
    """
    done: list[Rel] = []
    stack = [(rel, False)]
    while stack:
        node, ready = stack.pop()
        if not ready:
            checkpoint()
            node = rewrite(node)
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(children(node)))
            continue
        old = children(node)
        new = tuple(done[len(done) - len(old) :])
        del done[len(done) - len(old) :]
        done.append(_rebuild(node, old, new))
    return done.pop()


def _rebuild(node: Rel, old: tuple[Rel, ...], new: tuple[Rel, ...]) -> Rel:
    return node if all(map(is_, old, new)) else with_children(node, new)


def scalars(rel: Rel) -> tuple[Scalar, ...]:
    """Return the scalars that the node itself evaluates over its input's columns."""
    match rel:
        case algebra.Map(scalars=result) | algebra.Filter(predicates=result) | algebra.Join(on=result):
            return result
        case algebra.Reduce(keys=keys, aggregates=aggregates):
            return (*keys, *(arg for aggregate in aggregates for arg in aggregate.args))
        case algebra.Expand(calls=calls):
            return tuple(arg for call in calls for arg in call.args)
        case (
            algebra.Get()
            | algebra.Constant()
            | algebra.LocalGet()
            | algebra.Project()
            | algebra.Union()
            | algebra.Negate()
            | algebra.Distinct()
            | algebra.Threshold()
            | algebra.TopK()
            | algebra.Window()
            | algebra.Single()
            | algebra.Let()
            | algebra.LetRec()
        ):
            return ()
        case _:
            assert_never(rel)


def with_scalars(rel: Rel, new: tuple[Scalar, ...]) -> Rel:
    """Return the node with its own scalars replaced, in the order of :func:`scalars`."""
    match rel:
        case algebra.Map():
            return replace(rel, scalars=new)
        case algebra.Filter():
            return replace(rel, predicates=new)
        case algebra.Join():
            return replace(rel, on=new)
        case algebra.Reduce(keys=keys, aggregates=aggregates):
            rest = iter(new[len(keys) :])
            calls = tuple(replace(call, args=tuple(next(rest) for _ in call.args)) for call in aggregates)
            return replace(rel, keys=new[: len(keys)], aggregates=calls)
        case algebra.Expand(calls=expanded):
            rest = iter(new)
            new_calls = tuple(replace(call, args=tuple(next(rest) for _ in call.args)) for call in expanded)
            return replace(rel, calls=new_calls)
        case (
            algebra.Get()
            | algebra.Constant()
            | algebra.LocalGet()
            | algebra.Project()
            | algebra.Union()
            | algebra.Negate()
            | algebra.Distinct()
            | algebra.Threshold()
            | algebra.TopK()
            | algebra.Window()
            | algebra.Single()
            | algebra.Let()
            | algebra.LetRec()
        ):
            return rel
        case _:
            assert_never(rel)


def width(rel: Rel) -> int:
    """Return the number of columns of a relation."""
    return len(algebra.types(rel))


def _memoize_bottom_up(slot: str, find: Callable[[Rel], Found]) -> Callable[[Rel], Found]:
    """Return ``find``, memoized and evaluated bottom-up, so that a deep plan needs no deep recursion."""
    known = algebra.memoize(slot, find)

    def compute(rel: Rel) -> Found:
        stack = [rel]
        while stack:
            node = stack[-1]
            missing = [] if hasattr(node, slot) else [one for one in children(node) if not hasattr(one, slot)]
            if missing:
                stack += missing
            else:
                known(stack.pop())
        return known(rel)

    return compute


def _free(rel: Rel) -> frozenset[str]:
    if isinstance(rel, algebra.LocalGet):
        return frozenset((rel.id,))
    if isinstance(rel, algebra.Let):
        return free_locals(rel.value) | (free_locals(rel.body) - {rel.id})
    free = frozenset[str]().union(*map(free_locals, children(rel)))
    return free - set(rel.ids) if isinstance(rel, algebra.LetRec) else free


free_locals: Final = _memoize_bottom_up("_free", _free)
"""Ids that the relation reads by LocalGet and does not bind itself."""
size: Final[Callable[[Rel], int]] = _memoize_bottom_up("_size", lambda rel: 1 + sum(map(size, children(rel))))
"""Number of nodes of a relation, with all nodes below it."""


def renumber_lets(rel: Rel) -> Rel:
    """Rename the ids of all lets to ``l0``, ``l1``..., from the outside in."""
    return _renumber_lets(rel, {}, count())


def with_unique_ids(rel: Rel) -> Rel:
    """Return the relation with unique let ids, renumbered only if they are not unique."""
    ids = [id_ for node in walk(rel) for id_ in _let_ids(node)]
    return rel if len(set(ids)) == len(ids) else renumber_lets(rel)


def let_values(rel: Rel) -> dict[str, Rel]:
    """Return the value of each let of a relation with unique ids."""
    return {node.id: node.value for node in walk(rel) if isinstance(node, algebra.Let)}


def recursions(rel: Rel) -> dict[str, algebra.LetRec]:
    """Return the LetRec of each recursive id of a relation with unique ids."""
    found = (node for node in walk(rel) if isinstance(node, algebra.LetRec))
    return {id_: rec for rec in found for id_ in rec.ids}


def _let_ids(rel: Rel) -> tuple[str, ...]:
    if isinstance(rel, algebra.LetRec):
        return rel.ids
    return (rel.id,) if isinstance(rel, algebra.Let) else ()


def _renumber_lets(rel: Rel, names: Mapping[str, str], fresh: "count[int]") -> Rel:
    if isinstance(rel, algebra.LocalGet):
        name = names.get(rel.id, rel.id)
        return rel if name == rel.id else algebra.LocalGet(name, rel.types)
    if isinstance(rel, algebra.Let):
        name = f"l{next(fresh)}"
        inside = {**names, rel.id: name}
        return algebra.Let(
            name, _renumber_lets(rel.value, names, fresh), _renumber_lets(rel.body, inside, fresh)
        )
    if isinstance(rel, algebra.LetRec):
        inside = {**names, **{id_: f"l{next(fresh)}" for id_ in rel.ids}}
        values = tuple(_renumber_lets(value, inside, fresh) for value in rel.values)
        body = _renumber_lets(rel.body, inside, fresh)
        return replace(rel, ids=tuple(inside[id_] for id_ in rel.ids), values=values, body=body)
    old = children(rel)
    new = tuple(_renumber_lets(child, names, fresh) for child in old)
    return rel if all(map(is_, old, new)) else with_children(rel, new)


LetValues = Mapping[str, Rel]


def transform_scoped(
    rel: Rel, rewrite: Callable[[Rel, LetValues], Rel], outer_scope: LetValues | None = None
) -> Rel:
    """Rebuild the relation bottom-up.

    ``rewrite`` also receives the rewritten values of the lets in scope. If all ids are unique, which
    is usual, one scope grows during the traversal, so facts cached for it stay valid. Otherwise each
    let has its own scope.
    """
    names = Counter(name for node in walk(rel) for name in _let_names(node))
    names.update(outer_scope or ())
    grows = all(count == 1 for count in names.values())
    return _transform_scoped(rel, rewrite, dict(outer_scope or {}), grows=grows)


def _let_names(node: Rel) -> tuple[str, ...]:
    if isinstance(node, algebra.LetRec):
        return node.ids
    return (node.id,) if isinstance(node, algebra.Let) else ()


def _transform_scoped(
    rel: Rel, rewrite: Callable[[Rel, LetValues], Rel], scope: dict[str, Rel], *, grows: bool
) -> Rel:
    if isinstance(rel, algebra.Let):
        value = _transform_scoped(rel.value, rewrite, scope, grows=grows)
        inside = scope if grows else dict(scope)
        inside[rel.id] = value
        body = _transform_scoped(rel.body, rewrite, inside, grows=grows)
        return rewrite(algebra.Let(rel.id, value, body), scope)
    if isinstance(rel, algebra.LetRec) and not grows:
        scope = {id_: value for id_, value in scope.items() if id_ not in rel.ids}
    old = children(rel)
    new = tuple(_transform_scoped(child, rewrite, scope, grows=grows) for child in old)
    return rewrite(rel if all(map(is_, old, new)) else with_children(rel, new), scope)
