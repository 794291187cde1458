"""Inlining: the rules of an inline relation replace its atoms.

An atom keeps its relation under negation, in an aggregate and where bindings are counted. The exception is a
*dependent* relation, with a rule that binds its variables only together with the body around it, such as
``small(x) :- x < 9.`` Its atoms are inlined everywhere. Under negation and in aggregates this requires that
the rule has no variables of its own. A negated atom becomes the negation of the bodies.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from itertools import count, product
from typing import assert_never

from kpg.compiler.datalog.desugar import normal_rules
from kpg.compiler.datalog.desugar.groundness import ground
from kpg.compiler.datalog.desugar.normal_rules import (
    INLINED,
    NormalAggregate,
    NormalLiteral,
    NormalRule,
    Range,
)
from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.syntax.flatten import written
from kpg.compiler.datalog.types.declarations import TypeTable
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
    counts_repeats,
    replacing,
    variables,
)
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
        found = [variable for part in rule.body for variable in normal_rules.everywhere(part)]
        found += [variable for part in rule.terms for variable in variables(part)]
        mapping: dict[str, Expression] = {
            variable.name: replace(variable, name=f"{variable.name}{INLINED}{number}") for variable in found
        }
        for name, span in rule.places.items():
            places.setdefault(f"{name}{INLINED}{number}", span)
        change = replacing(mapping)
        body = tuple(normal_rules.literal(part, change) for part in rule.body)
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
            opposite = _opposite(normal_rules.literal(one, change))
            if opposite is None:
                self._refuse(atom, "in a negation, because of an aggregate or range in its rule")
            else:
                yield (opposite,)

    def _refuse_own(self, atom: Atom, rule: NormalRule, where: str) -> bool:
        """Notes a variable of the rule's body that its head does not have, if there is one."""
        heads = {variable.name for part in rule.terms for variable in variables(part)}
        own = {v.name for part in rule.body for v in normal_rules.direct(part)} - heads
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


MOST_RULES = 10_000
"""Rules that inlining may make of a program: each use of a relation of n rules makes n of a rule, so that a
few lines stand for more than can be planned.
"""
MOST_LITERALS = 1_000
"""The longest body that inlining may make."""


@dataclass(slots=True)
class Inlined:
    """The rules without positive atoms of inline relations; ``kept`` are those named otherwise too."""

    rules: list[NormalRule]
    kept: set[str]


def inline(
    rules: list[NormalRule], relations: set[str], table: TypeTable, diagnostics: Diagnostics
) -> Inlined:
    """Carries the inlining out; relations that need each other are noted and kept."""
    by_relation = {name: [rule for rule in rules if rule.relation == name] for name in relations}
    relations = relations - _cyclic(by_relation, diagnostics)
    own = {name: by_relation[name] for name in relations}
    otherwise = {name for rule in rules for name in _kept_by(rule) if name in by_relation}
    dependent = frozenset(
        name for name in otherwise if name in relations and not _stands_alone(own, name, table)
    )
    kept = {name for name in by_relation if name not in relations} | (otherwise - dependent)
    run = _Inlining(Bodies(own, dependent, diagnostics), diagnostics)
    result = [
        made
        for rule in rules
        if rule.relation not in relations or rule.relation in kept
        for made in run.expand(rule)
    ]
    return Inlined(result, kept)


def _kept_by(rule: NormalRule) -> Iterator[str]:
    """The relations that a rule needs as relations."""
    for one in rule.body:
        if isinstance(one, Atom) and _counts(rule):
            yield one.relation
        yield from _otherwise(one)


def _counts(rule: NormalRule) -> bool:
    """Whether the bindings of the rule's body are counted, of which inlining might make more."""
    return counts_repeats(rule.aggregates)


def _stands_alone(own: Mapping[str, list[NormalRule]], name: str, table: TypeTable) -> bool:
    """Whether the relation's rules bind all their variables, so that it can be computed."""
    scratch = Diagnostics()
    run = _Inlining(Bodies(own, frozenset(), scratch), scratch)
    return all(ground(made, table, scratch) is not None for rule in own[name] for made in run.expand(rule))


def _otherwise(one: NormalLiteral) -> Iterator[str]:
    """The relations that a literal names other than by a positive atom of the rule."""
    match one:
        case Negation(atom=atom):
            yield atom.relation
        case NormalAggregate():
            for inner in one.literals:
                if isinstance(inner, Atom):
                    yield inner.relation
                else:
                    yield from _otherwise(inner)
        case Atom() | Comparison() | Assignment() | BodyAggregate() | Range():
            return
        case _:
            assert_never(one)


def _cyclic(by_relation: Mapping[str, list[NormalRule]], diagnostics: Diagnostics) -> set[str]:
    """The inline relations that depend on themselves."""
    needs: dict[str, set[str]] = {
        name: {one.relation for rule in rules for one in rule.body if isinstance(one, Atom)}
        & set(by_relation)
        for name, rules in by_relation.items()
    }
    cyclic: set[str] = set()
    for name in needs:
        reached, todo = set[str](), list(needs[name])
        while todo:
            other = todo.pop()
            if other not in reached:
                reached.add(other)
                todo.extend(needs[other])
        if name in reached:
            cyclic.add(name)
    if cyclic:
        shown = ", ".join(sorted(cyclic))
        first = min(cyclic, key=lambda name: by_relation[name][0].span.start)
        message = f"cannot inline relations that depend on each other: {shown}"
        diagnostics.error("inline", message, by_relation[first][0].head_span)
    return cyclic


@dataclass(slots=True)
class _Inlining:
    bodies: Bodies
    diagnostics: Diagnostics
    made: int = 0

    def expand(self, rule: NormalRule) -> Iterator[NormalRule]:
        """The rules that a rule becomes."""
        if self.made > MOST_RULES:
            return
        if len(rule.body) > MOST_LITERALS:
            message = f"inlining makes a rule of more than {MOST_LITERALS} literals"
            self.diagnostics.error("inline", message, rule.span)
            self.made = MOST_RULES + 1
            return
        for position, one in enumerate(rule.body):
            found = self.bodies.instead(one, rule.places, inner=_counts(rule))
            if found is not None:
                self._warn_of_plan(rule)
                before, after = rule.body[:position], rule.body[position + 1 :]
                for literals in found:
                    yield from self.expand(replace(rule, body=(*before, *literals, *after), plan=None))
                return
        self.made += 1
        if self.made == MOST_RULES + 1:
            message = f"inlining makes more than {MOST_RULES} rules"
            self.diagnostics.error("inline", message, rule.span)
        if self.made <= MOST_RULES:
            yield rule

    def _warn_of_plan(self, rule: NormalRule) -> None:
        if rule.plan is not None:
            message = "the plan is not followed, since relations are inlined in the rule"
            hint = "qualify them no_inline"
            self.diagnostics.warning("plan", message, rule.plan.span, hint=hint)
