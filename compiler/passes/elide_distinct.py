"""Remove a Distinct whose input rows are already unique."""

from functools import partial

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.facts import Facts
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import Bound, children, transform_scoped


def elide_distinct(rel: Rel) -> Rel:
    """A Distinct goes where its input has a unique key, a Threshold where nothing is subtracted below it.

    A Distinct keeps counts per row: without it there is no state.
    """
    return transform_scoped(rel, partial(_elided, _Known()))


class _Known:
    """What has been found out in the present scope."""

    def __init__(self) -> None:
        self._facts = Facts({})
        self._subtracts: dict[Rel, bool] = {}

    def is_unique(self, rel: Rel, bound: Bound) -> bool:
        """Whether the relation has a unique key."""
        self._enter(bound)
        return bool(self._facts.unique_keys(rel))

    def subtracts(self, rel: Rel, bound: Bound) -> bool:
        """Whether a multiplicity might be negative where facts take it not to be."""
        self._enter(bound)
        known = self._subtracts
        stack = [rel]
        while stack:
            node = stack[-1]
            if isinstance(node, algebra.LocalGet):
                below: tuple[Rel, ...] = (bound[node.id],) if node.id in bound else ()
                found = node.id not in bound
            else:
                below, found = children(node), isinstance(node, algebra.Negate)
            unknown = [one for one in below if one not in known] if node not in known and not found else []
            if unknown:
                stack += unknown
                continue
            stack.pop()
            known.setdefault(node, found or any(known[one] for one in below))
        return known[rel]

    def _enter(self, bound: Bound) -> None:
        if self._facts.bound is not bound:
            self._facts = Facts(bound)
            self._subtracts = {}


def _elided(known: _Known, node: Rel, bound: Bound) -> Rel:
    if isinstance(node, algebra.Threshold) and not known.subtracts(node.input, bound):
        return node.input
    if not isinstance(node, algebra.Distinct):
        return node
    source = node.input
    if known.is_unique(source, bound) and not known.subtracts(source, bound):
        return source
    if isinstance(source, algebra.Distinct | algebra.Threshold):
        return algebra.Distinct(source.input)
    return node
