"""Traversals and rewrites of relations, shared by every pass.

All traversals are iterative, so a deep plan cannot exhaust Python's stack. :func:`with_unique_ids` gives each
let a name that is unique in the plan. :func:`transform_scoped` also passes the values of the lets in scope.
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
    """The direct inputs of a relation: operands, or the bound values and then the body of a let."""
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
    """The relation with its direct inputs replaced, in the order of :func:`children`."""
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
    """The relation and everything below it, parents first, inputs left to right."""
    stack = [rel]
    while stack:
        node = stack.pop()
        checkpoint()
        yield node
        stack.extend(reversed(children(node)))


def walk_up(rel: Rel) -> Iterator[Rel]:
    """The relation and everything below it, inputs first."""
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
    """Rebuild bottom-up: ``rewrite`` sees each node with its inputs already rewritten.

    A node that nothing changes stays the same object.
    """
    done: list[Rel] = []
    for node in walk_up(rel):
        old = children(node)
        new = tuple(done[len(done) - len(old) :])
        del done[len(done) - len(old) :]
        done.append(rewrite(_rebuilt(node, old, new)))
    return done.pop()


def transform_down(rel: Rel, rewrite: Rewrite) -> Rel:
    """Rebuild top-down: ``rewrite`` sees a node first, then the inputs of what it returned."""
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
        done.append(_rebuilt(node, old, new))
    return done.pop()


def _rebuilt(node: Rel, old: tuple[Rel, ...], new: tuple[Rel, ...]) -> Rel:
    return node if all(map(is_, old, new)) else with_children(node, new)


def scalars(rel: Rel) -> tuple[Scalar, ...]:
    """The scalars that the node itself evaluates over its input's columns."""
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
    """The node with its own scalars replaced, in the order of :func:`scalars`."""
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
            made = tuple(replace(call, args=tuple(next(rest) for _ in call.args)) for call in expanded)
            return replace(rel, calls=made)
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
    """The number of columns of a relation's rows."""
    return len(algebra.types(rel))


def _below(slot: str, find: Callable[[Rel], Found]) -> Callable[[Rel], Found]:
    """As ``once``, the inputs first, so that a deep plan is no deep recursion."""
    known = algebra.once(slot, find)

    def found(rel: Rel) -> Found:
        stack = [rel]
        while stack:
            node = stack[-1]
            missing = [] if hasattr(node, slot) else [one for one in children(node) if not hasattr(one, slot)]
            if missing:
                stack += missing
            else:
                known(stack.pop())
        return known(rel)

    return found


def _free(rel: Rel) -> frozenset[str]:
    if isinstance(rel, algebra.LocalGet):
        return frozenset((rel.id,))
    if isinstance(rel, algebra.Let):
        return free_locals(rel.value) | (free_locals(rel.body) - {rel.id})
    free = frozenset[str]().union(*map(free_locals, children(rel)))
    return free - set(rel.ids) if isinstance(rel, algebra.LetRec) else free


free_locals: Final = _below("_free", _free)
"""The ids that the relation reads by LocalGet and does not bind itself."""
size: Final[Callable[[Rel], int]] = _below("_size", lambda rel: 1 + sum(map(size, children(rel))))
"""The number of nodes of a relation: of itself and of all below it."""


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
