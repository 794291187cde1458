"""What a literal about an inline relation becomes: the bodies of the relation's rules, or their negation.

A relation is *dependent* if some rule of it binds its variables only together with the body around it, as
``small(x) :- x < 9.`` does. Its atoms are inlined everywhere, under negation and inside of aggregates too,
for which the rule must have no variables of its own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from itertools import count, product
from typing import assert_never

from kpg.compiler.datalog.desugaring import substitute
from kpg.compiler.datalog.desugaring.normal import INLINED, NormalAggregate, NormalLiteral, NormalRule, Range
from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.syntax.flatten import written
from kpg.compiler.rules.core import (
    Assignment,
    Atom,
    BodyAggregate,
    Comparison,
    Expression,
    Negation,
    Term,
    Variable,
    Wildcard,
    variables,
)
from kpg.compiler.rules.substitute import replacing
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass

OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
MOST_BODIES = 10_000
"""Alternatives that may take a literal's place: those of a negation are a product, see also
``inline.MOST_RULES``.
"""

Conjunction = tuple[NormalLiteral, ...]
Places = dict[str, Span]


@dataclass(slots=True)
class Bodies:
    """Inlines by ``rules``, those of the inline relations; ``dependent`` are some of them."""

    rules: Mapping[str, list[NormalRule]]
    dependent: frozenset[str]
    diagnostics: Diagnostics
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def instead(self, one: NormalLiteral, places: Places, *, inner: bool) -> list[Conjunction] | None:
        """The alternatives that take a literal's place, None if it stays.

        ``inner``: bindings are counted here. ``places`` is told where the new variables are.
        """
        match one:
            case Atom(relation=name) if name in (self.dependent if inner else self.rules):
                return [self._body(one, rule, places, counted=inner) for rule in self.rules[name]]
            case Negation(atom=Atom(relation=name) as atom) if name in self.dependent:
                parts = [list(self._negated(atom, rule, places)) for rule in self.rules[name]]
                return self._product(parts, atom)
            case NormalAggregate(alternatives=alternatives):
                expanded = [made for body in alternatives for made in self._inside(body, places)]
                same = len(expanded) == len(alternatives) and all(map(_is, expanded, alternatives))
                return None if same else [(replace(one, alternatives=tuple(expanded)),)]
            case Atom() | Negation() | Comparison() | Assignment() | BodyAggregate() | Range():
                return None
            case _:
                assert_never(one)

    def _inside(self, body: Conjunction, places: Places) -> Iterator[Conjunction]:
        """The conjunctions that one of an aggregate becomes; itself if there is nothing to inline."""
        for position, one in enumerate(body):
            found = self.instead(one, places, inner=True)
            if found is not None:
                for literals in found:
                    yield from self._inside((*body[:position], *literals, *body[position + 1 :]), places)
                return
        yield body

    def _product(self, parts: list[list[Conjunction]], atom: Atom) -> list[Conjunction]:
        """One alternative of each part, in all ways."""
        size = 1
        for part in parts:
            size *= len(part)
        if size > MOST_BODIES:
            message = f"inlining makes more than {MOST_BODIES} rules"
            self.diagnostics.error("inline", message, atom.span)
            return []
        return [tuple(one for chosen in choice for one in chosen) for choice in product(*parts)]

    def _renamed(self, rule: NormalRule, places: Places) -> NormalRule:
        """The rule with variables of its own."""
        number = next(self.numbers)
        found = [variable for part in rule.body for variable in substitute.everywhere(part)]
        found += [variable for part in rule.terms for variable in variables(part)]
        mapping: dict[str, Expression] = {
            variable.name: replace(variable, name=f"{variable.name}{INLINED}{number}") for variable in found
        }
        for name, span in rule.places.items():
            places.setdefault(f"{name}{INLINED}{number}", span)
        change = replacing(mapping)
        body = tuple(substitute.literal(part, change) for part in rule.body)
        return replace(rule, terms=tuple(change(part) for part in rule.terms), body=body)

    def _body(self, atom: Atom, rule: NormalRule, places: Places, *, counted: bool) -> Conjunction:
        rule = self._renamed(rule, places)
        if counted:
            self._refuse_own(atom, rule, "where bindings are counted")
        pairs = zip(atom.terms, rule.terms, strict=True)
        equal = (_equal(term, value, atom.span) for term, value in pairs)
        return (*(one for one in equal if one is not None), *rule.body)

    def _negated(self, atom: Atom, rule: NormalRule, places: Places) -> Iterator[Conjunction]:
        """The alternatives in any of which the rule does not derive the atom."""
        rule = self._renamed(rule, places)
        if self._refuse_own(atom, rule, "in a negation"):
            return
        given: dict[str, Expression] = {}
        tests: list[NormalLiteral] = []
        for term, value in zip(atom.terms, rule.terms, strict=True):
            if isinstance(value, Variable) and value.name not in given and not isinstance(term, Wildcard):
                given[value.name] = term
            elif not isinstance(term, Wildcard):
                tests.append(Comparison("eq", term, value, atom.span))
            elif any(v.name not in given for v in variables(value)):
                self._refuse(atom, "in a negation with an underscore")
                return
        change = replacing(given)
        for one in (*tests, *rule.body):
            opposite = _opposite(substitute.literal(one, change))
            if opposite is None:
                self._refuse(atom, "in a negation, because of an aggregate or range in its rule")
            else:
                yield (opposite,)

    def _refuse_own(self, atom: Atom, rule: NormalRule, where: str) -> bool:
        """Notes a variable of the rule's body that its head does not have, if there is one."""
        heads = {variable.name for part in rule.terms for variable in variables(part)}
        own = {v.name for part in rule.body for v in substitute.direct(part)} - heads
        for name in sorted(own)[:1]:
            self._refuse(atom, f"{where}, because of variable {written(name)} in its rule")
        return bool(own)

    def _refuse(self, atom: Atom, why: str) -> None:
        hint = "bind the variables of its rules by atoms, then it can be computed as a relation"
        self.diagnostics.error("inline", f"cannot inline {atom.relation} {why}", atom.span, hint=hint)


def _is(left: Conjunction, right: Conjunction) -> bool:
    return left is right


def _equal(term: Term, value: Expression, span: Span) -> Comparison | None:
    return None if isinstance(term, Wildcard) else Comparison("eq", term, value, span)


def _opposite(one: NormalLiteral) -> NormalLiteral | None:
    match one:
        case Atom():
            return Negation(one)
        case Negation(atom=atom):
            return atom
        case Comparison(function=function) if function in OPPOSITE and not one.negated:
            return replace(one, function=OPPOSITE[function])
        case Comparison():
            return replace(one, negated=not one.negated)
        case Assignment() | BodyAggregate() | Range() | NormalAggregate():
            return None
        case _:
            assert_never(one)
