"""The order in which a rule's literals pass bindings on: bound first, the recursive atom late.

Comparisons come as soon as they can. Of the atoms that share a variable with what is bound, those of stored
relations come first, then negations and aggregates, then derived and last recursive atoms; among these, the
one with the most bound columns. An atom that shares nothing with what is bound comes when nothing else does.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import assert_never

from kpg.compiler.rules.core import (
    Assignment,
    Atom,
    BodyAggregate,
    Comparison,
    Constant,
    Expression,
    Literal,
    Negation,
    Variable,
)
from kpg.compiler.rules.magic.literals import equated, expression_names, is_functor, names, term_names
from kpg.runtime.errors import InternalError
from kpg.runtime.records import dataclass


@dataclass(slots=True)
class Known:
    """What is known of a rule's variables at one place of the order.

    ``bound`` have a value. Those of ``passable`` can be passed on as demand: a value that a functor makes
    of one that only demand has bound cannot, since demand could then grow without end. ``strong`` are
    bound by an atom of the body, that is by what is really there.
    """

    bound: set[str] = field(default_factory=set)
    passable: set[str] = field(default_factory=set)
    strong: set[str] = field(default_factory=set)

    def copy(self) -> "Known":
        return Known(set(self.bound), set(self.passable), set(self.strong))

    def limited(self, names: Iterable[str]) -> "Known":
        """What is known of these variables."""
        chosen = set(names)
        return Known(self.bound & chosen, self.passable & chosen, self.strong & chosen)

    def is_ready(self, literal: Literal) -> bool:
        """Whether a literal that is no atom can be evaluated."""
        match literal:
            case Assignment(expression=expression):
                return expression_names(expression) <= self.bound
            case BodyAggregate(groups=groups):
                return term_names(groups) <= self.bound
            case Comparison():
                free = names([literal]) - self.bound
                pairs = equated(literal)
                return not free or any(
                    {v.name} == free for v, e in pairs if expression_names(e) <= self.bound
                )
            case Atom() | Negation():
                return names([literal]) <= self.bound
            case _:
                assert_never(literal)

    def is_better_later(self, literal: Literal) -> bool:
        """Whether it would bind a variable that cannot be passed on, but may once more is bound by atoms."""
        return any(
            variable.name not in self.bound
            and is_functor(expression)
            and expression_names(expression) - self.strong
            for variable, expression in equated(literal)
        )

    def add(self, literal: Literal) -> None:
        """Take account of a literal that is evaluated now."""
        match literal:
            case Atom(terms=terms):
                found = term_names(terms)
                self.bound |= found
                self.passable |= found
                self.strong |= found
            case BodyAggregate(result=result):
                self.bound.add(result.name)
                self.passable.add(result.name)
                self.strong.add(result.name)
            case Comparison() | Assignment():
                for variable, expression in equated(literal):
                    self._equate(variable, expression)
            case Negation():
                pass
            case _:
                assert_never(literal)

    def _equate(self, variable: Variable, expression: Expression) -> None:
        used = expression_names(expression)
        if used <= self.bound:
            self.bound.add(variable.name)
            if used <= self.strong:
                self.strong.add(variable.name)
            if used <= (self.strong if is_functor(expression) else self.passable):
                self.passable.add(variable.name)


@dataclass(frozen=True, slots=True)
class Classes:
    """What relations are to the rule: derived ones that demand restricts, and those in recursion with it."""

    demanded: frozenset[str]
    recursive: frozenset[str]

    def rank(self, atom: Atom) -> int:
        """1 for a stored relation, 3 for a derived one, 4 for one in recursion."""
        return 4 if atom.relation in self.recursive else 3 if atom.relation in self.demanded else 1


def ordered(body: Sequence[Literal], known: Known, classes: Classes) -> Iterator[Literal]:
    """The literals in the order in which they are evaluated; ``known`` is kept up to date between them."""
    left = list(body)
    while left:
        ready = [one for one in left if isinstance(one, Atom) or known.is_ready(one)]
        if not ready:
            raise InternalError(f"nothing binds the variables of {left[0]}")
        chosen = min(ready, key=lambda literal: _rank(literal, known, classes))
        left.remove(chosen)
        yield chosen
        known.add(chosen)


def _rank(literal: Literal, known: Known, classes: Classes) -> tuple[int, int, int]:
    match literal:
        case Comparison() | Assignment() if known.is_better_later(literal):
            return 2, 0, 0
        case Comparison() | Assignment():
            return 0, 0, 0
        case Negation() | BodyAggregate():
            return 2, 0, 0
        case Atom(terms=terms):
            bound = term_names(terms) & known.bound
            given = sum(isinstance(term, Constant) for term in terms) + len(bound)
            free = len(term_names(terms)) - len(bound)
            is_apart = not given and bool(free) and bool(known.bound)
            return 5 if is_apart else classes.rank(literal), -given, free
        case _:
            assert_never(literal)
