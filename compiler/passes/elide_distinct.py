"""Remove each Distinct and Threshold that changes nothing."""

from functools import partial

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.facts import Facts
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import LetValues, children, transform_scoped


def elide_distinct(rel: Rel) -> Rel:
    """Remove a Distinct whose input has a unique key, and a Threshold whose input has no negation.

    Of a Distinct over a Distinct or Threshold, only the outer one remains. Each keeps a count per row, so
    its removal saves that state.
    """
    return transform_scoped(rel, partial(_elide, _ScopeFacts()))


class _ScopeFacts:
    """Facts about relations in the current scope of lets."""

    def __init__(self) -> None:
        self._facts = Facts({})
        self._subtracts: dict[Rel, bool] = {}

    def is_unique(self, rel: Rel, let_values: LetValues) -> bool:
        self._enter(let_values)
        return bool(self._facts.unique_keys(rel))

    def may_be_negative(self, rel: Rel, let_values: LetValues) -> bool:
        """Return whether a multiplicity might be negative, which :class:`Facts` assumes it is not."""
        self._enter(let_values)
        known = self._subtracts
        stack = [rel]
        while stack:
            node = stack[-1]
            if isinstance(node, algebra.LocalGet):
                below: tuple[Rel, ...] = (let_values[node.id],) if node.id in let_values else ()
                negative = node.id not in let_values
            else:
                below, negative = children(node), isinstance(node, algebra.Negate)
            missing = (
                [child for child in below if child not in known] if node not in known and not negative else []
            )
            if missing:
                stack += missing
                continue
            stack.pop()
            known.setdefault(node, negative or any(known[child] for child in below))
        return known[rel]

    def _enter(self, let_values: LetValues) -> None:
        if self._facts.let_values is not let_values:
            self._facts = Facts(let_values)
            self._subtracts = {}


def _elide(facts: _ScopeFacts, node: Rel, let_values: LetValues) -> Rel:
    if isinstance(node, algebra.Threshold) and not facts.may_be_negative(node.input, let_values):
        return node.input
    if not isinstance(node, algebra.Distinct):
        return node
    source = node.input
    if facts.is_unique(source, let_values) and not facts.may_be_negative(source, let_values):
        return source
    if isinstance(source, algebra.Distinct | algebra.Threshold):
        return algebra.Distinct(source.input)
    return node
