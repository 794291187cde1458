"""Leave out what makes rows unique that are unique already."""

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.facts import unique_keys
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import walk
from kpg.compiler.passes._scoped import Bound, transform_scoped


def elide_distinct(rel: Rel) -> Rel:
    """A Distinct goes where its input has a unique key, a Threshold where nothing is subtracted below it.

    A Distinct keeps counts per row: without it there is no state.
    """
    return transform_scoped(rel, _elided)


def _elided(node: Rel, bound: Bound) -> Rel:
    if isinstance(node, algebra.Threshold) and not _subtracts(node.input, bound):
        return node.input
    if not isinstance(node, algebra.Distinct):
        return node
    source = node.input
    if unique_keys(source, bound) and not _subtracts(source, bound):
        return source
    if isinstance(source, algebra.Distinct | algebra.Threshold):
        return algebra.Distinct(source.input)
    return node


def _subtracts(rel: Rel, bound: Bound) -> bool:
    """Whether a multiplicity might be negative where facts take it not to be."""
    nodes = [rel]
    seen: set[str] = set()
    while nodes:
        for node in walk(nodes.pop()):
            if isinstance(node, algebra.Negate):
                return True
            if isinstance(node, algebra.LocalGet) and node.id not in seen:
                seen.add(node.id)
                if node.id not in bound:
                    return True
                nodes.append(bound[node.id])
    return False
