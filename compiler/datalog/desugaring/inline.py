"""Inline relations: their rules take the place of the positive atoms that name them.

Under negation, inside of aggregates and where bindings are counted an atom keeps its relation, unless that
has rules that cannot stand by themselves: see ``inline_bodies``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import assert_never

from kpg.compiler.datalog.desugaring.ground import ground
from kpg.compiler.datalog.desugaring.inline_bodies import Bodies
from kpg.compiler.datalog.desugaring.normal import NormalAggregate, NormalLiteral, NormalRule, Range
from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.typing.types import TypeTable
from kpg.compiler.rules.aggregates import counts_repeats
from kpg.compiler.rules.core import Assignment, Atom, BodyAggregate, Comparison, Negation
from kpg.runtime.records import dataclass

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
