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
from kpg.compiler.datalog.desugar.normal_rules import (
    INLINED_MARK,
    NormalAggregate,
    NormalLiteral,
    NormalRule,
    Range,
)
from kpg.compiler.datalog.desugar.safety import ground
from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.syntax.flatten import original_name
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
    is_duplicate_sensitive,
    substitution,
    variables,
)
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass

OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
MAX_BODIES = 10_000
"""Maximum number of alternatives that replace a literal.

Those of a negation are a product.
"""

Conjunction = tuple[NormalLiteral, ...]
Places = dict[str, Span]


@dataclass(slots=True)
class LiteralInliner:
    """Inlines literals by ``rules``, the rules of the inline relations.

    ``dependent`` are some of these.
    """

    rules: Mapping[str, list[NormalRule]]
    dependent: frozenset[str]
    diagnostics: Diagnostics
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def expand(self, literal: NormalLiteral, places: Places, *, inner: bool) -> list[Conjunction] | None:
        """Return the alternatives that replace a literal, or None if it stays.

        ``inner`` is whether bindings are counted. The spans of new variables are added to ``places``.
        """
        match literal:
            case Atom(relation=name) if name in (self.dependent if inner else self.rules):
                return [self._body(literal, rule, places, counted=inner) for rule in self.rules[name]]
            case Negation(atom=Atom(relation=name) as atom) if name in self.dependent:
                parts = [list(self._negate(atom, rule, places)) for rule in self.rules[name]]
                return self._product(parts, atom)
            case NormalAggregate(alternatives=alternatives):
                expanded = [
                    conjunction
                    for body in alternatives
                    for conjunction in self._expand_aggregate_body(body, places)
                ]
                same = len(expanded) == len(alternatives) and all(map(_is_same, expanded, alternatives))
                return None if same else [(replace(literal, alternatives=tuple(expanded)),)]
            case Atom() | Negation() | Comparison() | Assignment() | BodyAggregate() | Range():
                return None
            case _:
                assert_never(literal)

    def _expand_aggregate_body(self, body: Conjunction, places: Places) -> Iterator[Conjunction]:
        """Yield the conjunctions that replace one of an aggregate."""
        for position, one in enumerate(body):
            found = self.expand(one, places, inner=True)
            if found is not None:
                for literals in found:
                    yield from self._expand_aggregate_body(
                        (*body[:position], *literals, *body[position + 1 :]), places
                    )
                return
        yield body

    def _product(self, parts: list[list[Conjunction]], atom: Atom) -> list[Conjunction]:
        """Return all combinations of one alternative of each part."""
        size = 1
        for part in parts:
            size *= len(part)
        if size > MAX_BODIES:
            message = f"inlining makes more than {MAX_BODIES} rules"
            self.diagnostics.error("inline", message, atom.span)
            return []
        return [tuple(one for chosen in choice for one in chosen) for choice in product(*parts)]

    def _rename_variables(self, rule: NormalRule, places: Places) -> NormalRule:
        """Return the rule with fresh variables."""
        number = next(self.numbers)
        found = [variable for part in rule.body for variable in normal_rules.all_variables(part)]
        found += [variable for part in rule.terms for variable in variables(part)]
        mapping: dict[str, Expression] = {
            variable.name: replace(variable, name=f"{variable.name}{INLINED_MARK}{number}")
            for variable in found
        }
        for name, span in rule.places.items():
            places.setdefault(f"{name}{INLINED_MARK}{number}", span)
        change = substitution(mapping)
        body = tuple(normal_rules.literal(part, change) for part in rule.body)
        return replace(rule, terms=tuple(change(part) for part in rule.terms), body=body)

    def _body(self, atom: Atom, rule: NormalRule, places: Places, *, counted: bool) -> Conjunction:
        rule = self._rename_variables(rule, places)
        if counted:
            self._report_local_variable(atom, rule, "where bindings are counted")
        pairs = zip(atom.terms, rule.terms, strict=True)
        equal = (_equality(term, value, atom.span) for term, value in pairs)
        return (*(one for one in equal if one is not None), *rule.body)

    def _negate(self, atom: Atom, rule: NormalRule, places: Places) -> Iterator[Conjunction]:
        """Yield the alternatives under which the rule does not derive the atom."""
        rule = self._rename_variables(rule, places)
        if self._report_local_variable(atom, rule, "in a negation"):
            return
        bindings: dict[str, Expression] = {}
        tests: list[NormalLiteral] = []
        for term, value in zip(atom.terms, rule.terms, strict=True):
            if isinstance(value, Variable) and value.name not in bindings and not isinstance(term, Wildcard):
                bindings[value.name] = term
            elif not isinstance(term, Wildcard):
                tests.append(Comparison("eq", term, value, atom.span))
            elif any(v.name not in bindings for v in variables(value)):
                self._report(atom, "in a negation with an underscore")
                return
        change = substitution(bindings)
        for one in (*tests, *rule.body):
            opposite = _negate_literal(normal_rules.literal(one, change))
            if opposite is None:
                self._report(atom, "in a negation, because of an aggregate or range in its rule")
            else:
                yield (opposite,)

    def _report_local_variable(self, atom: Atom, rule: NormalRule, where: str) -> bool:
        """Report a variable of the rule's body that is not in its head, and return whether there is one."""
        heads = {variable.name for part in rule.terms for variable in variables(part)}
        own = {v.name for part in rule.body for v in normal_rules.direct_variables(part)} - heads
        for name in sorted(own)[:1]:
            self._report(atom, f"{where}, because of variable {original_name(name)} in its rule")
        return bool(own)

    def _report(self, atom: Atom, why: str) -> None:
        hint = "bind the variables of its rules by atoms, then it can be computed as a relation"
        self.diagnostics.error("inline", f"cannot inline {atom.relation} {why}", atom.span, hint=hint)


def _is_same(left: Conjunction, right: Conjunction) -> bool:
    return left is right


def _equality(term: Term, value: Expression, span: Span) -> Comparison | None:
    return None if isinstance(term, Wildcard) else Comparison("eq", term, value, span)


def _negate_literal(literal: NormalLiteral) -> NormalLiteral | None:
    match literal:
        case Atom():
            return Negation(literal)
        case Negation(atom=atom):
            return atom
        case Comparison(function=function) if function in OPPOSITE and not literal.negated:
            return replace(literal, function=OPPOSITE[function])
        case Comparison():
            return replace(literal, negated=not literal.negated)
        case Assignment() | BodyAggregate() | Range() | NormalAggregate():
            return None
        case _:
            assert_never(literal)


MAX_RULES = 10_000
"""Maximum number of rules after inlining.

A use of a relation with n rules makes n rules of one, so a few lines can become more than can be
planned.
"""
MAX_LITERALS = 1_000
"""Maximum length of a body after inlining."""


@dataclass(slots=True)
class InliningResult:
    """Rules without positive atoms of inline relations.

    ``not_inlined`` are those with other uses, which stay.
    """

    rules: list[NormalRule]
    not_inlined: set[str]


def inline(
    rules: list[NormalRule], relations: set[str], table: TypeTable, diagnostics: Diagnostics
) -> InliningResult:
    """Inline the relations.

    Relations that depend on each other are reported and stay.
    """
    by_relation = {name: [rule for rule in rules if rule.relation == name] for name in relations}
    relations = relations - _find_cyclic(by_relation, diagnostics)
    own = {name: by_relation[name] for name in relations}
    used_as_relations = {name for rule in rules for name in _relations_needed(rule) if name in by_relation}
    dependent = frozenset(
        name for name in used_as_relations if name in relations and not _stands_alone(own, name, table)
    )
    kept = {name for name in by_relation if name not in relations} | (used_as_relations - dependent)
    run = _RuleInliner(LiteralInliner(own, dependent, diagnostics), diagnostics)
    result = [
        expanded_rule
        for rule in rules
        if rule.relation not in relations or rule.relation in kept
        for expanded_rule in run.expand(rule)
    ]
    return InliningResult(result, kept)


def _relations_needed(rule: NormalRule) -> Iterator[str]:
    """Yield the relations that a rule reads as relations."""
    for literal in rule.body:
        if isinstance(literal, Atom) and _counts_bindings(rule):
            yield literal.relation
        yield from _non_positive_uses(literal)


def _counts_bindings(rule: NormalRule) -> bool:
    """Return whether the rule counts the bindings of its body, which inlining might multiply."""
    return is_duplicate_sensitive(rule.aggregates)


def _stands_alone(own: Mapping[str, list[NormalRule]], name: str, table: TypeTable) -> bool:
    """Return whether the relation's rules bind all their variables, so that it can be computed."""
    scratch = Diagnostics()
    run = _RuleInliner(LiteralInliner(own, frozenset(), scratch), scratch)
    return all(
        ground(expanded_rule, table, scratch) is not None
        for rule in own[name]
        for expanded_rule in run.expand(rule)
    )


def _non_positive_uses(literal: NormalLiteral) -> Iterator[str]:
    """Yield the relations that a literal reads other than as a positive atom of the rule."""
    match literal:
        case Negation(atom=atom):
            yield atom.relation
        case NormalAggregate():
            for inner in literal.literals:
                if isinstance(inner, Atom):
                    yield inner.relation
                else:
                    yield from _non_positive_uses(inner)
        case Atom() | Comparison() | Assignment() | BodyAggregate() | Range():
            return
        case _:
            assert_never(literal)


def _find_cyclic(by_relation: Mapping[str, list[NormalRule]], diagnostics: Diagnostics) -> set[str]:
    """Return the inline relations that depend on themselves, and report them."""
    needs: dict[str, set[str]] = {
        name: {literal.relation for rule in rules for literal in rule.body if isinstance(literal, Atom)}
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
        names_text = ", ".join(sorted(cyclic))
        first = min(cyclic, key=lambda name: by_relation[name][0].span.start)
        message = f"cannot inline relations that depend on each other: {names_text}"
        diagnostics.error("inline", message, by_relation[first][0].head_span)
    return cyclic


@dataclass(slots=True)
class _RuleInliner:
    bodies: LiteralInliner
    diagnostics: Diagnostics
    rule_count: int = 0

    def expand(self, rule: NormalRule) -> Iterator[NormalRule]:
        """Yield the rules that replace a rule."""
        if self.rule_count > MAX_RULES:
            return
        if len(rule.body) > MAX_LITERALS:
            message = f"inlining makes a rule of more than {MAX_LITERALS} literals"
            self.diagnostics.error("inline", message, rule.span)
            self.rule_count = MAX_RULES + 1
            return
        for position, one in enumerate(rule.body):
            found = self.bodies.expand(one, rule.places, inner=_counts_bindings(rule))
            if found is not None:
                self._warn_of_plan(rule)
                before, after = rule.body[:position], rule.body[position + 1 :]
                for literals in found:
                    yield from self.expand(replace(rule, body=(*before, *literals, *after), plan=None))
                return
        self.rule_count += 1
        if self.rule_count == MAX_RULES + 1:
            message = f"inlining makes more than {MAX_RULES} rules"
            self.diagnostics.error("inline", message, rule.span)
        if self.rule_count <= MAX_RULES:
            yield rule

    def _warn_of_plan(self, rule: NormalRule) -> None:
        if rule.plan is not None:
            message = "the plan is not followed, since relations are inlined in the rule"
            hint = "qualify them no_inline"
            self.diagnostics.warning("plan", message, rule.plan.span, hint=hint)
