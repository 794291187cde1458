"""Inline lets that do not need to be shared."""

from collections.abc import Callable
from dataclasses import field
from operator import is_

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import children, renumber_lets, transform_up, walk, with_children
from kpg.runtime.records import dataclass

SELECTIONS = (algebra.Map, algebra.Filter, algebra.Project)
STATELESS = (*SELECTIONS, algebra.Get, algebra.Constant, algebra.LocalGet, algebra.Join)
NOTHING: frozenset[str] = frozenset()


def normalize_lets(rel: Rel) -> Rel:
    """Make let ids unique, and inline lets that are read once or are mere selections.

    A stateless join is also inlined into the joins that read it, so that its result needs no
    arrangement: ``let l = a join b in (l join c) union l`` becomes ``let l = a join b in (a join b
    join c) union l``. Only a selection is moved into a recursion.
    """
    result = renumber_lets(rel)
    readers = LetReads()
    while True:
        simpler = transform_up(result, lambda node: _simplify(node, readers))
        if simpler is result:
            return result
        result = simpler


@dataclass(slots=True)
class LetReads:
    """The lets that each node reads, computed once per node, so that traversals visit only paths to reads."""

    _free_ids: dict[int, tuple[Rel, frozenset[str]]] = field(default_factory=dict)

    def free_ids(self, rel: Rel) -> frozenset[str]:
        """Return the ids of outer lets that a relation reads."""
        stack = [rel]
        while stack:
            node = stack[-1]
            below = [] if id(node) in self._free_ids else children(node)
            missing = [child for child in below if id(child) not in self._free_ids]
            if missing:
                stack += missing
                continue
            stack.pop()
            if id(node) not in self._free_ids:
                free = NOTHING.union(*(self._free_ids[id(child)][1] for child in below))
                if isinstance(node, algebra.LocalGet):
                    free = frozenset((node.id,))
                elif isinstance(node, algebra.Let):
                    free -= {node.id}
                elif isinstance(node, algebra.LetRec):
                    free -= frozenset(node.ids)
                self._free_ids[id(node)] = (node, free)
        return self._free_ids[id(rel)][1]

    def count_reads(self, rel: Rel, id_: str) -> tuple[int, int]:
        """Return how often a relation reads a let, and how many of these reads are inside a recursion."""
        count = looped = 0
        stack = [(rel, False)]
        while stack:
            node, inside = stack.pop()
            if id_ not in self.free_ids(node):
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

    def transform_reads(self, rel: Rel, id_: str, rewrite: Callable[[Rel], Rel]) -> Rel:
        """Rebuild bottom-up; ``rewrite`` receives only nodes that read the let or have a read below."""
        done: list[Rel] = []
        stack = [(rel, False)]
        while stack:
            node, ready = stack.pop()
            if id_ not in self.free_ids(node):
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


def _simplify(rel: Rel, reads: LetReads) -> Rel:
    if not isinstance(rel, algebra.Let):
        return rel
    uses, recursive_uses = reads.count_reads(rel.body, rel.id)
    if uses == 0:
        return rel.body
    if _is_selection(rel.value) or (uses == 1 and not recursive_uses):
        return reads.transform_reads(
            rel.body, rel.id, lambda node: rel.value if _is_read(node, rel.id) else node
        )
    if not recursive_uses and all(isinstance(node, STATELESS) for node in walk(rel.value)):
        body = reads.transform_reads(rel.body, rel.id, lambda node: _inline_into_join(node, rel))
        return rel if body is rel.body else algebra.Let(rel.id, rel.value, body)
    return rel


def _is_read(node: Rel, id_: str) -> bool:
    return isinstance(node, algebra.LocalGet) and node.id == id_


def _is_selection(rel: Rel) -> bool:
    while isinstance(rel, SELECTIONS):
        rel = rel.input
    return isinstance(rel, algebra.Get | algebra.LocalGet | algebra.Constant)


def _inline_into_join(node: Rel, let: algebra.Let) -> Rel:
    """Return the join with the let's value in place of its reads among the inputs."""
    if not isinstance(node, algebra.Join):
        return node
    new = tuple(_inline_below_selections(source, let) for source in node.inputs)
    return node if all(map(is_, node.inputs, new)) else with_children(node, new)


def _inline_below_selections(rel: Rel, let: algebra.Let) -> Rel:
    if _is_read(rel, let.id):
        return let.value
    if isinstance(rel, SELECTIONS):
        inner = _inline_below_selections(rel.input, let)
        return rel if inner is rel.input else with_children(rel, (inner,))
    return rel
