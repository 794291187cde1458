"""Inline relations: their rules take the place of the positive atoms that name them.

Under negation and inside of aggregates an atom keeps its relation, which then needs rules that stand by
themselves.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from kpg.compiler.datalog import substitute
from kpg.compiler.datalog.core import Atom, Comparison, Expression, Negation, Term, Wildcard, variables
from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.flatten import LOCAL
from kpg.compiler.datalog.normal import NormalAggregate, NormalLiteral, NormalRule
from kpg.runtime.errors import Span

MOST_RULES = 10_000
MOST_LITERALS = 1_000
"""The longest body that inlining may make."""


@dataclass(slots=True)
class Inlined:
    """The rules without positive atoms of inline relations; ``kept`` are those named otherwise too."""

    rules: list[NormalRule]
    kept: set[str]


def inline(rules: list[NormalRule], relations: set[str], diagnostics: Diagnostics) -> Inlined:
    """Carries the inlining out; relations that need each other are noted and kept."""
    by_relation = {name: [rule for rule in rules if rule.relation == name] for name in relations}
    relations = relations - _cyclic(by_relation, diagnostics)
    kept = {name for name in by_relation if name not in relations}
    kept |= {name for rule in rules for one in rule.body for name in _otherwise(one) if name in by_relation}
    run = _Inlining({name: by_relation[name] for name in relations}, diagnostics)
    result = [
        made
        for rule in rules
        if rule.relation not in relations or rule.relation in kept
        for made in run.expand(rule)
    ]
    return Inlined(result, kept)


def _otherwise(one: NormalLiteral) -> Iterator[str]:
    """The relations that a literal names other than by a positive atom of the rule."""
    match one:
        case Negation(atom=atom):
            yield atom.relation
        case NormalAggregate(body=body):
            for inner in body:
                if isinstance(inner, Atom):
                    yield inner.relation
                else:
                    yield from _otherwise(inner)
        case _:
            return


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
    rules: Mapping[str, list[NormalRule]]
    diagnostics: Diagnostics
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
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
            if isinstance(one, Atom) and one.relation in self.rules:
                for inlined in self.rules[one.relation]:
                    yield from self.expand(self._replaced(rule, position, one, inlined))
                return
        self.made += 1
        if self.made == MOST_RULES + 1:
            message = f"inlining makes more than {MOST_RULES} rules"
            self.diagnostics.error("inline", message, rule.span)
        if self.made <= MOST_RULES:
            yield rule

    def _replaced(self, rule: NormalRule, position: int, atom: Atom, inlined: NormalRule) -> NormalRule:
        number = next(self.numbers)
        found = [variable for part in inlined.body for variable in substitute.everywhere(part)]
        found += [variable for part in inlined.terms for variable in variables(part)]
        mapping: dict[str, Expression] = {
            variable.name: replace(variable, name=f"{variable.name}{LOCAL}i{number}") for variable in found
        }
        change = substitute.replacing(mapping)
        body = tuple(substitute.literal(part, change) for part in inlined.body)
        terms = tuple(change(part) for part in inlined.terms)
        equal = tuple(_equal(term, value, atom.span) for term, value in zip(atom.terms, terms, strict=True))
        places = dict(rule.places)
        for name, span in inlined.places.items():
            places.setdefault(f"{name}{LOCAL}i{number}", span)
        literals = (*(one for one in equal if one is not None), *body)
        return replace(
            rule,
            body=(*rule.body[:position], *literals, *rule.body[position + 1 :]),
            places=places,
            plan=None,
        )


def _equal(term: Term, value: Expression, span: Span) -> Comparison | None:
    return None if isinstance(term, Wildcard) else Comparison("eq", term, value, span)
