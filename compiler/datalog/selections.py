"""Subsumption, choice domains and limits: which derived tuples a relation keeps, decided on core rules.

A subsumption that keeps the least or greatest value of a column becomes an aggregate of that column. Any
other is a ``Subsumption`` if only comparisons decide it or the relation is recursive. If other relations
decide it, it becomes rules with negation.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Final

from kpg.compiler.datalog.clauses import DOMINATED, Clauses
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
    replacing,
)
from kpg.compiler.rules.strata import dependencies, reachable, strongly_connected, successors
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass
from kpg.runtime.types import BIGINT, DOUBLE

KEPT: Final = {"lt": "min", "le": "min", "gt": "max", "ge": "max"}
"""What keeps the dominating one of two values, if that compares to the other one so."""
TURNED: Final = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
HOLDS: Final = {
    name: frozenset(signs)
    for name, signs in {"lt": "<", "le": "<=", "eq": "=", "ne": "<>", "ge": ">=", "gt": ">"}.items()
}
"""How two values compare where a comparison of them holds."""
MIRRORED: Final = str.maketrans("<>", "><")
MOST_WAYS: Final = 16
"""Rules that a subsumption by comparisons may become, before pairs of tuples are compared as a whole."""


@dataclass(slots=True)
class Selections:
    """Gives relations their selections; ``rules`` are those of the program, to which it may add."""

    clauses: Clauses
    relations: dict[str, Relation]
    rules: list[Rule]
    diagnostics: Diagnostics

    def run(self, dominated: Mapping[str, Sequence[Rule]]) -> None:
        """``dominated``: of each relation, the rules of its subsumptive clauses."""
        for name, info in self.clauses.relations.known.items():
            if info.keys and name in self.relations:
                self._refuse_aggregates(name, "choice-domain", info.span)
                self.relations[name] = replace(self.relations[name], selection=Choice(info.keys))
        for name, rules in dominated.items():
            if name in self.relations:
                self._refuse_aggregates(name, "subsumption", rules[0].span)
                self._subsume(name, rules)
        for name, most in self.clauses.limits.items():
            if name in self.relations and self._recursive(name):
                self._limit(name, most)
        for one in self.clauses.rounds:
            counter = self.relations[one.counter.text]
            together = tuple(name.text for name in one.names)
            limit = Limit(one.ends, together, one.is_ahead)
            self.relations[counter.name] = replace(counter, selection=limit)
            self._check_rounds(one, together)

    def _check_rounds(self, one: Rounds, together: Sequence[str]) -> None:
        """Of each relation of a loop all is known that is derived."""
        for name in together:
            relation = self.relations[name]
            if name != one.counter.text and (relation.selection is not None or any(relation.aggregates)):
                message = f"{name} keeps less than is derived: in a loop like this that is not supported"
                self.diagnostics.error("unsupported", message, one.span)

    def _refuse_aggregates(self, name: str, what: str, span: Span | None) -> None:
        if any(one is not None for one in self.relations[name].aggregates):
            message = f"{name} has an aggregate in its rules' heads, {what} is not supported beside it"
            self.diagnostics.error("unsupported", message, span)

    def _component(self, name: str) -> tuple[str, ...]:
        edges = dependencies(self.rules)
        found = strongly_connected(successors(self.relations, edges))
        return next(one for one in found if name in one)

    def _recursive(self, name: str) -> bool:
        members = self._component(name)
        return len(members) > 1 or any(
            edge.head == name and edge.body == name for edge in dependencies(self.rules)
        )

    def _limit(self, name: str, most: int) -> None:
        for member in self._component(name):
            relation = self.relations[member]
            if any(relation.aggregates) or isinstance(relation.selection, Choice | Subsumption):
                message = f".limitsize of {name} is not supported: {member} keeps less than is derived"
                self.diagnostics.error("unsupported", message, relation.span)
                return
        self.relations[name] = replace(self.relations[name], selection=Limit((((name, most),),)))

    # Subsumption

    def _subsume(self, name: str, rules: Sequence[Rule]) -> None:
        relation = self.relations[name]
        if not relation.columns:
            return
        best = {_extreme(rule) for rule in rules}
        found = next(iter(best))
        if len(best) == 1 and found is not None:
            place, function = found
            aggregates = tuple(function if at == place else None for at in range(len(relation.columns)))
            self.relations[name] = replace(relation, aggregates=aggregates)
        elif all(isinstance(one, Comparison) for rule in rules for one in rule.body[2:]):
            self.relations[name] = replace(relation, selection=_ordered(rules))
        elif self._recursive(name):
            guarded = Subsumption(tuple(_whole(rule) for rule in rules), is_mutual=True)
            edges = dependencies(self.rules)
            reached = reachable(successors(self.relations, edges), guarded.guards)
            if name in reached:
                message = f"subsumption of {name} by what depends on {name} is not supported"
                hint = "compare columns of the two tuples, or use relations that are not in the recursion"
                self.diagnostics.error("unsupported", message, rules[0].span, hint=hint)
            self.relations[name] = replace(relation, selection=guarded)
        else:
            self._by_negation(relation, rules)

    def _by_negation(self, relation: Relation, rules: Sequence[Rule]) -> None:
        """Relations of all that is derived, of the pairs of which one dominates the other, and of what is
        dominated.
        """
        name, span = relation.name, rules[0].span
        every, pairs, losers = f"{name}@derived", f"{name}@pairs", f"{name}{DOMINATED}"
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
        forth, back = Atom(pairs, (*left, *right), span), Atom(pairs, (*right, *left), span)
        self.rules.append(Rule(Head(losers, left, span), (forth, Negation(back)), span))
        for tests in _before(right, left, span):
            self.rules.append(Rule(Head(losers, left, span), (forth, back, *tests), span))
        kept = (Atom(every, left, span), Negation(Atom(losers, left, span)))
        self.rules.append(Rule(Head(name, left, span), kept, span))


def _parts(rule: Rule) -> tuple[tuple[HeadTerm, ...], tuple[HeadTerm, ...], tuple[Literal, ...]]:
    """The terms of the tuple that is dominated and of the other one, none a wildcard, and the rest."""
    less, greater, *rest = rule.body
    assert isinstance(less, Atom) and isinstance(greater, Atom)
    return _named(less.terms, "l"), _named(greater.terms, "g"), tuple(rest)


def _apart(rule: Rule) -> tuple[tuple[HeadTerm, ...], tuple[HeadTerm, ...], tuple[Literal, ...]]:
    """As :func:`_parts`, with a variable for each term, the same for both where they always are equal, and
    comparisons for what else the terms say.
    """
    less, greater, rest = _parts(rule)
    uses = Counter((*less, *greater))
    made: dict[str, list[HeadTerm]] = {"l": [], "g": []}
    seen: set[HeadTerm] = set()
    tests: list[Literal] = []
    for place, pair in enumerate(zip(less, greater, strict=True)):
        is_key = pair[0] == pair[1] and uses[pair[0]] == 2 and isinstance(pair[0], Variable)
        for side, term in zip("lg", pair, strict=True):
            if is_key or (isinstance(term, Variable) and term not in seen):
                made[side].append(term)
            else:
                made[side].append(Variable(f"@{side}{place}", term.type))
                tests.append(Comparison("eq", made[side][-1], term, rule.span))
            seen.add(term)
    return tuple(made["l"]), tuple(made["g"]), (*tests, *rest)


def _named(terms: Sequence[Term], prefix: str) -> tuple[HeadTerm, ...]:
    return tuple(
        term if isinstance(term, Variable | Constant) else Variable(f"@{prefix}{place}", term.type)
        for place, term in enumerate(terms)
    )


def _extreme(rule: Rule) -> tuple[int, str] | None:
    """The column whose least or greatest value is kept for equal other ones, if that is all."""
    less, greater, rest = _parts(rule)
    different = [place for place, (one, other) in enumerate(zip(less, greater, strict=True)) if one != other]
    only = rest[0] if len(rest) == 1 else None
    if len(different) != 1 or not isinstance(only, Comparison) or only.negated:
        return None
    if len(set(less)) < len(less) or not all(isinstance(term, Variable) for term in (*less, *greater)):
        return None
    (place,) = different
    if only.function not in KEPT or less[place].type not in (BIGINT, DOUBLE):
        return None
    if (only.left, only.right) == (greater[place], less[place]):
        return place, KEPT[only.function]
    if (only.left, only.right) == (less[place], greater[place]):
        return place, KEPT[TURNED[only.function]]
    return None


def _whole(rule: Rule) -> Rule:
    """The rule in the form of :func:`_apart`."""
    less, greater, rest = _apart(rule)
    of = rule.body[0]
    assert isinstance(of, Atom)
    atoms = (Atom(of.relation, less, rule.span), Atom(of.relation, greater, rule.span))
    return replace(rule, head=replace(rule.head, terms=less), body=(*atoms, *rest))


def _ordered(rules: Sequence[Rule]) -> Subsumption:
    """Rules of comparisons in a form by which of two tuples that dominate each other only the greater one
    goes, whichever rules say so.
    """
    whole = [_whole(rule) for rule in rules]
    made: list[Rule] = []
    for rule in whole:
        ways = _one_way(rule, whole)
        if len(ways) > MOST_WAYS:
            return Subsumption(tuple(whole), is_mutual=True)
        made += [replace(rule, body=(*rule.body, *way)) for way in ways]
    return Subsumption(tuple(made))


def _one_way(rule: Rule, rules: Sequence[Rule]) -> list[tuple[Comparison, ...]]:
    """The ways in which the rule's greater tuple is before the other one, or not dominated by it."""
    less, greater, rest = _parts(rule)
    tests = [one for one in rest if isinstance(one, Comparison)]
    choices: list[list[Comparison]] = []
    for other in rules:
        back = _swapped(other, less, greater)
        if not _is_contradiction([*tests, *back]):
            choices.append([replace(one, negated=not one.negated) for one in back if one.left != one.right])
    if not choices:
        return [()]
    size = prod(len(one) for one in choices)
    if size > MOST_WAYS:
        return [()] * (MOST_WAYS + 1)
    ways = [tuple(dict.fromkeys(way)) for way in product(*choices)]
    return [*dict.fromkeys(ways), *_before(greater, less, rule.span)]


def _swapped(rule: Rule, less: Sequence[HeadTerm], greater: Sequence[HeadTerm]) -> list[Comparison]:
    """What has to hold for the rule to say that ``less`` dominates ``greater``."""
    theirs, ours, rest = _parts(rule)
    mapping: dict[str, HeadTerm] = {}
    tests: list[Comparison] = []
    for at, (one, other) in enumerate(zip(theirs, ours, strict=True)):
        assert isinstance(one, Variable) and isinstance(other, Variable)
        mapping[one.name], mapping[other.name] = greater[at], less[at]
        if one == other and less[at] != greater[at]:
            tests.append(Comparison("eq", less[at], greater[at], rule.span))
    change = replacing(mapping)
    return tests + [
        replace(one, left=change(one.left), right=change(one.right))
        for one in rest
        if isinstance(one, Comparison)
    ]


def _is_contradiction(tests: Sequence[Comparison]) -> bool:
    """Whether comparisons of the same two values exclude each other."""
    left: dict[frozenset[Expression], tuple[Expression, frozenset[str]]] = {}
    for one in tests:
        if one.function not in HOLDS:
            continue
        signs = HOLDS[one.function]
        if one.negated:
            signs = frozenset("<=>") - signs
        sides = frozenset((one.left, one.right))
        if len(sides) == 1:
            signs = signs & {"="}
        first, known = left.get(sides, (one.left, frozenset("<=>")))
        if first != one.left:
            signs = frozenset(sign.translate(MIRRORED) for sign in signs)
        left[sides] = first, known & signs
        if not known & signs:
            return True
    return False


def _before(left: Sequence[HeadTerm], right: Sequence[HeadTerm], span: Span) -> list[tuple[Comparison, ...]]:
    """The ways in which one tuple comes before another in the order of their values."""
    places = [place for place, (one, other) in enumerate(zip(left, right, strict=True)) if one != other]
    return [
        (
            *(Comparison("eq", left[before], right[before], span) for before in places[:number]),
            Comparison("lt", left[place], right[place], span),
        )
        for number, place in enumerate(places)
    ]
