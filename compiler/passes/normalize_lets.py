"""Inline lets that do not need to be shared."""

from collections.abc import Callable
from dataclasses import field
from operator import is_

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import children, renamed, transform_up, walk, with_children
from kpg.runtime.records import dataclass

SELECTIONS = (algebra.Map, algebra.Filter, algebra.Project)
STATELESS = (*SELECTIONS, algebra.Get, algebra.Constant, algebra.LocalGet, algebra.Join)
NOTHING: frozenset[str] = frozenset()


def normalize_lets(rel: Rel) -> Rel:
    """Lets get unique ids; those used once, and mere selections, go to where they are used.

    A join without state goes into the joins that use it as well, which then need no arrangement of its
    result: ``let l = a join b in (l join c) union l`` becomes ``let l = a join b in (a join b join c)
    union l``. A let bound outside a recursion is not moved into it.
    """
    result = renamed(rel)
    readers = Readers()
    while True:
        simpler = transform_up(result, lambda node: _simplified(node, readers))
        if simpler is result:
            return result
        result = simpler


@dataclass(slots=True)
class Readers:
    """Which nodes read which lets, found once for each node, so that only the ways to them are walked."""

    _found: dict[int, tuple[Rel, frozenset[str]]] = field(default_factory=dict)

    def of(self, rel: Rel) -> frozenset[str]:
        """The lets from outside that a relation reads."""
        stack = [rel]
        while stack:
            node = stack[-1]
            below = [] if id(node) in self._found else children(node)
            missing = [child for child in below if id(child) not in self._found]
            if missing:
                stack += missing
                continue
            stack.pop()
            if id(node) not in self._found:
                free = NOTHING.union(*(self._found[id(child)][1] for child in below))
                if isinstance(node, algebra.LocalGet):
                    free = frozenset((node.id,))
                elif isinstance(node, algebra.Let):
                    free -= {node.id}
                elif isinstance(node, algebra.LetRec):
                    free -= frozenset(node.ids)
                self._found[id(node)] = (node, free)
        return self._found[id(rel)][1]

    def uses(self, rel: Rel, id_: str) -> tuple[int, int]:
        """How often a relation reads a let, and how often of these inside of recursion."""
        count = looped = 0
        stack = [(rel, False)]
        while stack:
            node, inside = stack.pop()
            if id_ not in self.of(node):
                continue
            if isinstance(node, algebra.LocalGet):
                count += 1
                looped += inside
            below = children(node)
            stack += [
                (child, inside or (isinstance(node, algebra.LetRec) and place < len(below) - 1))
                for place, child in enumerate(below)
            ]
        return count, looped

    def rewritten(self, rel: Rel, id_: str, rewrite: Callable[[Rel], Rel]) -> Rel:
        """Rebuilt bottom-up: ``rewrite`` sees the nodes at or below which the let was read."""
        done: list[Rel] = []
        stack = [(rel, False)]
        while stack:
            node, ready = stack.pop()
            if id_ not in self.of(node):
                done.append(node)
            elif not ready:
                stack.append((node, True))
                stack.extend((child, False) for child in reversed(children(node)))
            else:
                old = children(node)
                new = tuple(done[len(done) - len(old) :])
                del done[len(done) - len(old) :]
                done.append(rewrite(node if all(map(is_, old, new)) else with_children(node, new)))
        return done.pop()


def _simplified(rel: Rel, readers: Readers) -> Rel:
    if not isinstance(rel, algebra.Let):
        return rel
    uses, looped = readers.uses(rel.body, rel.id)
    if uses == 0:
        return rel.body
    if _is_selection(rel.value) or (uses == 1 and not looped):
        return readers.rewritten(rel.body, rel.id, lambda node: rel.value if _is_use(node, rel.id) else node)
    if not looped and all(isinstance(node, STATELESS) for node in walk(rel.value)):
        body = readers.rewritten(rel.body, rel.id, lambda node: _into_join(node, rel))
        return rel if body is rel.body else algebra.Let(rel.id, rel.value, body)
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
    new = tuple(_below_selections(source, let) for source in node.inputs)
    return node if all(map(is_, node.inputs, new)) else with_children(node, new)


def _below_selections(rel: Rel, let: algebra.Let) -> Rel:
    if _is_use(rel, let.id):
        return let.value
    if isinstance(rel, SELECTIONS):
        inner = _below_selections(rel.input, let)
        return rel if inner is rel.input else with_children(rel, (inner,))
    return rel
