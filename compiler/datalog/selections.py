"""Subsumption, choice domains and limits: the derived tuples that a relation keeps.

A subsumption that keeps the least or greatest value of a column becomes an aggregate of that
column. Any other is a ``Subsumption`` if only comparisons decide it or the relation is recursive.
If other relations decide it, it becomes rules with negation.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Final

from kpg.compiler.datalog.clauses import DOMINATED_SUFFIX, Clauses
from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.syntax.ast import Rounds
from kpg.compiler.rules.core import (
    Atom,
    Choice,
    Comparison,
    Constant,
    Expression,
    Head,
    HeadTerm,
    Limit,
    Literal,
    Negation,
    Relation,
    Rule,
    Subsumption,
    Term,
    Variable,
    substitution,
)
from kpg.compiler.rules.strata import dependencies, reachable, strongly_connected, successors
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass
from kpg.runtime.types import BIGINT, DOUBLE

KEEPING_AGGREGATE: Final = {"lt": "min", "le": "min", "gt": "max", "ge": "max"}
"""The aggregate that keeps the dominating value, by its comparison with the dominated one."""
MIRRORED_COMPARISON: Final = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
ORDERINGS: Final = {
    name: frozenset(signs)
    for name, signs in {"lt": "<", "le": "<=", "eq": "=", "ne": "<>", "ge": ">=", "gt": ">"}.items()
}
"""The orderings of two values for which a comparison is true."""
MIRRORED_SIGNS: Final = str.maketrans("<>", "><")
MAX_ALTERNATIVES: Final = 16
"""Maximum number of rules for a subsumption by comparisons.

Beyond it, pairs of tuples are compared.
"""


@dataclass(slots=True)
class Selections:
    """Adds selections to relations.

    It may add rules to ``rules``, the rules of the program.
    """

    clauses: Clauses
    relations: dict[str, Relation]
    rules: list[Rule]
    diagnostics: Diagnostics

    def add_all(self, dominated: Mapping[str, Sequence[Rule]]) -> None:
        """Add all selections.

        ``dominated`` has the rules of each relation's subsumptive clauses.
        """
        for name, info in self.clauses.relations.by_name.items():
            if info.keys and name in self.relations:
                self._refuse_aggregates(name, "choice-domain", info.span)
                self.relations[name] = replace(self.relations[name], selection=Choice(info.keys))
        for name, rules in dominated.items():
            if name in self.relations:
                self._refuse_aggregates(name, "subsumption", rules[0].span)
                self._add_subsumption(name, rules)
        for name, max_tuples in self.clauses.limits.items():
            if name in self.relations and self._is_recursive(name):
                self._add_limit(name, max_tuples)
        for rounds in self.clauses.rounds:
            counter = self.relations[rounds.counter.text]
            lockstep_relations = tuple(name.text for name in rounds.names)
            limit = Limit(rounds.end_conditions, lockstep_relations, rounds.counts_next_round)
            self.relations[counter.name] = replace(counter, selection=limit)
            self._check_rounds(rounds, lockstep_relations)

    def _check_rounds(self, rounds: Rounds, lockstep_relations: Sequence[str]) -> None:
        """Check that all relations of a lockstep loop keep all derived tuples."""
        for name in lockstep_relations:
            relation = self.relations[name]
            if name != rounds.counter.text and (relation.selection is not None or any(relation.aggregates)):
                message = f"{name} keeps less than is derived: in a loop like this that is not supported"
                self.diagnostics.error("unsupported", message, rounds.span)

    def _refuse_aggregates(self, name: str, feature: str, span: Span | None) -> None:
        if any(function is not None for function in self.relations[name].aggregates):
            message = f"{name} has an aggregate in its rules' heads, {feature} is not supported beside it"
            self.diagnostics.error("unsupported", message, span)

    def _component(self, name: str) -> tuple[str, ...]:
        edges = dependencies(self.rules)
        found = strongly_connected(successors(self.relations, edges))
        return next(component for component in found if name in component)

    def _is_recursive(self, name: str) -> bool:
        members = self._component(name)
        return len(members) > 1 or any(
            edge.head == name and edge.body == name for edge in dependencies(self.rules)
        )

    def _add_limit(self, name: str, max_tuples: int) -> None:
        for member in self._component(name):
            relation = self.relations[member]
            if any(relation.aggregates) or isinstance(relation.selection, Choice | Subsumption):
                message = f".limitsize of {name} is not supported: {member} keeps less than is derived"
                self.diagnostics.error("unsupported", message, relation.span)
                return
        self.relations[name] = replace(self.relations[name], selection=Limit((((name, max_tuples),),)))

    # Subsumption

    def _add_subsumption(self, name: str, rules: Sequence[Rule]) -> None:
        relation = self.relations[name]
        if not relation.columns:
            return
        best = {_extreme_column(rule) for rule in rules}
        found = next(iter(best))
        if len(best) == 1 and found is not None:
            place, function = found
            aggregates = tuple(function if at == place else None for at in range(len(relation.columns)))
            self.relations[name] = replace(relation, aggregates=aggregates)
        elif all(isinstance(literal, Comparison) for rule in rules for literal in rule.body[2:]):
            self.relations[name] = replace(relation, selection=_order_mutual_dominance(rules))
        elif self._is_recursive(name):
            guarded = Subsumption(tuple(_separate_rule(rule) for rule in rules), is_mutual=True)
            edges = dependencies(self.rules)
            reached = reachable(successors(self.relations, edges), guarded.guards)
            if name in reached:
                message = f"subsumption of {name} by what depends on {name} is not supported"
                hint = "compare columns of the two tuples, or use relations that are not in the recursion"
                self.diagnostics.error("unsupported", message, rules[0].span, hint=hint)
            self.relations[name] = replace(relation, selection=guarded)
        else:
            self._add_negation_rules(relation, rules)

    def _add_negation_rules(self, relation: Relation, rules: Sequence[Rule]) -> None:
        """Add relations of all derived tuples, of dominating pairs, and of dominated tuples."""
        name, span = relation.name, rules[0].span
        every, pairs, losers = f"{name}@derived", f"{name}@pairs", f"{name}{DOMINATED_SUFFIX}"
        plain = replace(relation, base=None, selection=None)
        columns = (*relation.columns, *relation.columns)
        self.relations[every] = replace(plain, name=every)
        self.relations[pairs] = replace(plain, name=pairs, columns=columns, aggregates=(None,) * len(columns))
        self.relations[losers] = replace(plain, name=losers)
        self.rules[:] = [
            replace(rule, head=replace(rule.head, relation=every)) if rule.head.relation == name else rule
            for rule in self.rules
        ]
        for rule in rules:
            less, greater, rest = _parts(rule)
            atoms = (Atom(every, less, span), Atom(every, greater, span))
            self.rules.append(Rule(Head(pairs, (*less, *greater), span), (*atoms, *rest), span))
        left = tuple(Variable(f"l{place}", type_) for place, type_ in enumerate(relation.types))
        right = tuple(Variable(f"r{place}", type_) for place, type_ in enumerate(relation.types))
        pair, reverse_pair = Atom(pairs, (*left, *right), span), Atom(pairs, (*right, *left), span)
        self.rules.append(Rule(Head(losers, left, span), (pair, Negation(reverse_pair)), span))
        for tests in _lexicographic_alternatives(right, left, span):
            self.rules.append(Rule(Head(losers, left, span), (pair, reverse_pair, *tests), span))
        kept = (Atom(every, left, span), Negation(Atom(losers, left, span)))
        self.rules.append(Rule(Head(name, left, span), kept, span))


def _parts(rule: Rule) -> tuple[tuple[HeadTerm, ...], tuple[HeadTerm, ...], tuple[Literal, ...]]:
    """Return the terms of the dominated and the dominating tuple, and the other literals.

    Wildcards become variables.
    """
    less, greater, *rest = rule.body
    assert isinstance(less, Atom) and isinstance(greater, Atom)
    return _name_wildcards(less.terms, "l"), _name_wildcards(greater.terms, "g"), tuple(rest)


def _separate_parts(rule: Rule) -> tuple[tuple[HeadTerm, ...], tuple[HeadTerm, ...], tuple[Literal, ...]]:
    """Return the parts with a variable per term, and equality tests for what the terms required.

    Both tuples share the variable of a column only if it always is equal.
    """
    less, greater, rest = _parts(rule)
    uses = Counter((*less, *greater))
    terms_by_side: dict[str, list[HeadTerm]] = {"l": [], "g": []}
    seen: set[HeadTerm] = set()
    tests: list[Literal] = []
    for place, pair in enumerate(zip(less, greater, strict=True)):
        is_key = pair[0] == pair[1] and uses[pair[0]] == 2 and isinstance(pair[0], Variable)
        for side, term in zip("lg", pair, strict=True):
            if is_key or (isinstance(term, Variable) and term not in seen):
                terms_by_side[side].append(term)
            else:
                terms_by_side[side].append(Variable(f"@{side}{place}", term.type))
                tests.append(Comparison("eq", terms_by_side[side][-1], term, rule.span))
            seen.add(term)
    return tuple(terms_by_side["l"]), tuple(terms_by_side["g"]), (*tests, *rest)


def _name_wildcards(terms: Sequence[Term], prefix: str) -> tuple[HeadTerm, ...]:
    return tuple(
        term if isinstance(term, Variable | Constant) else Variable(f"@{prefix}{place}", term.type)
        for place, term in enumerate(terms)
    )


def _extreme_column(rule: Rule) -> tuple[int, str] | None:
    """Return the column whose extreme value is kept per key and the aggregate, if the rule is just that."""
    less, greater, rest = _parts(rule)
    different = [place for place, (one, other) in enumerate(zip(less, greater, strict=True)) if one != other]
    only = rest[0] if len(rest) == 1 else None
    if len(different) != 1 or not isinstance(only, Comparison) or only.negated:
        return None
    if len(set(less)) < len(less) or not all(isinstance(term, Variable) for term in (*less, *greater)):
        return None
    (place,) = different
    if only.function not in KEEPING_AGGREGATE or less[place].type not in (BIGINT, DOUBLE):
        return None
    if (only.left, only.right) == (greater[place], less[place]):
        return place, KEEPING_AGGREGATE[only.function]
    if (only.left, only.right) == (less[place], greater[place]):
        return place, KEEPING_AGGREGATE[MIRRORED_COMPARISON[only.function]]
    return None


def _separate_rule(rule: Rule) -> Rule:
    """Return the rule in the form of :func:`_separate_parts`."""
    less, greater, rest = _separate_parts(rule)
    first_atom = rule.body[0]
    assert isinstance(first_atom, Atom)
    atoms = (Atom(first_atom.relation, less, rule.span), Atom(first_atom.relation, greater, rule.span))
    return replace(rule, head=replace(rule.head, terms=less), body=(*atoms, *rest))


def _order_mutual_dominance(rules: Sequence[Rule]) -> Subsumption:
    """Return rules that remove only the greater one of two mutually dominating tuples."""
    separated = [_separate_rule(rule) for rule in rules]
    new_rules: list[Rule] = []
    for rule in separated:
        alternatives = _one_way_alternatives(rule, separated)
        if len(alternatives) > MAX_ALTERNATIVES:
            return Subsumption(tuple(separated), is_mutual=True)
        new_rules += [replace(rule, body=(*rule.body, *way)) for way in alternatives]
    return Subsumption(tuple(new_rules))


def _one_way_alternatives(rule: Rule, rules: Sequence[Rule]) -> list[tuple[Comparison, ...]]:
    """Return the alternatives under which the dominating tuple is smaller, or is not dominated itself."""
    less, greater, rest = _parts(rule)
    tests = [one for one in rest if isinstance(one, Comparison)]
    choices: list[list[Comparison]] = []
    for other in rules:
        reverse_tests = _reverse_tests(other, less, greater)
        if not _is_contradiction([*tests, *reverse_tests]):
            choices.append(
                [replace(one, negated=not one.negated) for one in reverse_tests if one.left != one.right]
            )
    if not choices:
        return [()]
    size = prod(len(one) for one in choices)
    if size > MAX_ALTERNATIVES:
        return [()] * (MAX_ALTERNATIVES + 1)
    alternatives = [tuple(dict.fromkeys(way)) for way in product(*choices)]
    return [*dict.fromkeys(alternatives), *_lexicographic_alternatives(greater, less, rule.span)]


def _reverse_tests(rule: Rule, less: Sequence[HeadTerm], greater: Sequence[HeadTerm]) -> list[Comparison]:
    """Return the tests by which the rule lets ``less`` dominate ``greater``."""
    theirs, ours, rest = _parts(rule)
    mapping: dict[str, HeadTerm] = {}
    tests: list[Comparison] = []
    for at, (one, other) in enumerate(zip(theirs, ours, strict=True)):
        assert isinstance(one, Variable) and isinstance(other, Variable)
        mapping[one.name], mapping[other.name] = greater[at], less[at]
        if one == other and less[at] != greater[at]:
            tests.append(Comparison("eq", less[at], greater[at], rule.span))
    change = substitution(mapping)
    return tests + [
        replace(one, left=change(one.left), right=change(one.right))
        for one in rest
        if isinstance(one, Comparison)
    ]


def _is_contradiction(tests: Sequence[Comparison]) -> bool:
    """Return whether comparisons of the same two values exclude each other."""
    left: dict[frozenset[Expression], tuple[Expression, frozenset[str]]] = {}
    for test in tests:
        if test.function not in ORDERINGS:
            continue
        signs = ORDERINGS[test.function]
        if test.negated:
            signs = frozenset("<=>") - signs
        sides = frozenset((test.left, test.right))
        if len(sides) == 1:
            signs = signs & {"="}
        first, known = left.get(sides, (test.left, frozenset("<=>")))
        if first != test.left:
            signs = frozenset(sign.translate(MIRRORED_SIGNS) for sign in signs)
        left[sides] = first, known & signs
        if not known & signs:
            return True
    return False


def _lexicographic_alternatives(
    left: Sequence[HeadTerm], right: Sequence[HeadTerm], span: Span
) -> list[tuple[Comparison, ...]]:
    """Return the alternatives under which one tuple is before another in lexicographic order."""
    places = [place for place, (one, other) in enumerate(zip(left, right, strict=True)) if one != other]
    return [
        (
            *(Comparison("eq", left[before], right[before], span) for before in places[:number]),
            Comparison("lt", left[place], right[place], span),
        )
        for number, place in enumerate(places)
    ]
