"""Assembly of the core program from normal rules and declarations."""

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import assert_never

from kpg.compiler.datalog.clauses import DOMINATED, Clauses, NormalGoal
from kpg.compiler.datalog.desugar import normal_rules
from kpg.compiler.datalog.desugar.core_rules import Desugar
from kpg.compiler.datalog.desugar.counters import iterate, number
from kpg.compiler.datalog.desugar.groundness import ground
from kpg.compiler.datalog.desugar.normal_rules import NormalLiteral, NormalRule
from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.selections import Selections
from kpg.compiler.datalog.types.declarations import NUMBER, RelationInfo
from kpg.compiler.rules.core import (
    Atom,
    Call,
    Column,
    Constant,
    Direction,
    Expression,
    Goal,
    Head,
    Kind,
    Parameter,
    Program,
    Relation,
    Rule,
    Term,
    Update,
    Value,
    ValueType,
    Variable,
)
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass

BASE = "@facts"
"""Follows a relation's name in that of the base table of its facts, if it has rules too."""


@dataclass(slots=True)
class Assembly:
    """The program while it is put together; ``kept`` are inline relations that are relations nevertheless."""

    clauses: Clauses
    kept: set[str]
    diagnostics: Diagnostics
    size: int
    mark: str
    goals: list[Goal] = field(default_factory=list)
    dominated: dict[str, list[Rule]] = field(default_factory=dict)
    desugar: Desugar = field(init=False)

    def __post_init__(self) -> None:
        self.desugar = Desugar(self.clauses.relations.types, self.diagnostics, self.size, self.mark)

    def add(self, rules: Iterable[NormalRule]) -> None:
        """Add the rules; those of goals too."""
        goals: dict[str | None, list[NormalRule]] = {goal.name: [] for goal in self.clauses.goals}
        subsumed = {name + DOMINATED: name for name in self.clauses.subsumed}
        for rule in rules:
            if rule.relation in goals:
                goals[rule.relation].append(rule)
                continue
            found = ground(rule, self.clauses.relations.types, self.diagnostics)
            if found is None:
                continue
            before = len(self.desugar.rules)
            self.desugar.rule(found)
            if rule.relation in subsumed:
                made = self.desugar.rules[before:]
                of_it = [one for one in made if one.head.relation == rule.relation]
                self.dominated.setdefault(subsumed[rule.relation], []).extend(of_it)
                self.desugar.rules[before:] = [one for one in made if one not in of_it]
        for goal in self.clauses.goals:
            self._goal(goal, goals[goal.name])

    # Goals

    def _goal(self, goal: NormalGoal, rules: list[NormalRule]) -> None:
        if len(rules) == 1 and len(rules[0].body) == 1 and isinstance(rules[0].body[0], Atom):
            self.goals.append(_simple(rules[0].body[0], goal.span))
            return
        columns = self._goal_columns(goal)
        terms = tuple(Variable(column.name, column.type.type) for column in columns)
        count = len(goal.parameters)
        given = frozenset(term.name for term in terms[:count])
        demanded: set[int] = set()
        for rule in rules:
            body = tuple(_without_parameters(one) for one in rule.body)
            made = replace(rule, terms=terms, aggregates=(None,) * len(terms), body=body)
            demanded |= self._goal_rule(made, given)
        none = (None,) * len(terms)
        relation = Relation(goal.name, columns, Kind.DERIVED, goal.span, none, frozenset(demanded))
        self.desugar.relations[goal.name] = relation
        parameters_ = tuple(Parameter(term.name[1:], term.type) for term in terms[:count])
        asked: tuple[Term, ...] = (*parameters_, *terms[count:])
        self.goals.append(Goal(goal.name, asked, parameters_, terms[count:], goal.span))

    def _goal_columns(self, goal: NormalGoal) -> tuple[Column, ...]:
        """The parameters' columns, then the variables'; of the types that they have in the conjunctions."""
        columns: list[Column] = []
        for name in (*(f"${parameter}" for parameter in goal.parameters), *goal.variables):
            kinds = {
                typing.kinds.kind(typing.names[name]): None for typing in goal.typings if name in typing.names
            }
            if len(kinds) > 1:
                message = f"type mismatch: {name} is of different types in the goal's alternatives"
                self.diagnostics.error("type", message, goal.span)
            kind = next(iter(kinds), None) or NUMBER
            columns.append(Column(name, ValueType(str(kind), kind.domain, kind.type), kind.type))
        return tuple(columns)

    def _goal_rule(self, rule: NormalRule, given: frozenset[str]) -> set[int]:
        """Adds the rule of a goal; gives the columns that its body does not bind."""
        found = ground(rule, self.clauses.relations.types, self.diagnostics, given)
        if found is None:
            return set()
        self.desugar.rule(found)
        bound = {variable.name for one in found.body for variable in normal_rules.bound_by(one)}
        terms = [term for term in found.terms if isinstance(term, Variable)]
        return {
            position
            for position, term in enumerate(found.terms)
            if term in terms and term.name not in bound and term.name in given
        }

    # Relations

    def program(self, pragmas: Mapping[str, str]) -> Program:
        """The program, once all rules are added."""
        clauses = self.clauses
        relations: dict[str, Relation] = {}
        facts: dict[str, tuple[tuple[Value, ...], ...]] = {}
        for info in clauses.relations.known.values():
            if info.is_inline and info.name not in self.kept:
                continue
            self._relation(info, relations, facts)
        relations.update(self.desugar.relations)
        number(relations, self.desugar.rules)
        iterate(relations, self.desugar.rules, self.diagnostics)
        Selections(clauses, relations, self.desugar.rules, self.diagnostics).run(self.dominated)
        self._warn_empty(relations)
        return Program(
            relations,
            tuple(self.desugar.rules),
            facts,
            tuple(self.goals),
            tuple(clauses.queries),
            tuple(self._rebased(one, relations) for one in clauses.updates),
            tuple(
                replace(one, relation=relations[one.relation].base or one.relation)
                if one.direction is Direction.INPUT and one.relation in relations
                else one
                for one in clauses.transfers
            ),
            clauses.relations.types.structures(),
            pragmas,
            self.size,
        )

    def _relation(
        self,
        info: RelationInfo,
        relations: dict[str, Relation],
        facts: dict[str, tuple[tuple[Value, ...], ...]],
    ) -> None:
        aggregates = info.aggregates or (None,) * len(info.columns)
        rows = tuple(self.clauses.facts.get(info.name, ()))
        magic = True if "magic" in info.qualifiers else False if "no_magic" in info.qualifiers else None
        made = Relation(info.name, info.columns, info.kind, info.span, aggregates, magic=magic)
        is_equivalence = "eqrel" in info.qualifiers and len(info.columns) == 2
        selects = is_equivalence or info.name in self.clauses.subsumed or bool(info.keys)
        if info.kind is Kind.EXTERNAL or not (info.has_rules or selects):
            relations[info.name] = made
            if rows:
                facts[info.name] = rows
            return
        if is_equivalence and info.span is not None:
            self.desugar.equivalence(info.name, (made.types[0], made.types[1]), info.span)
        base = info.name + BASE if rows or info.has_input else None
        relations[info.name] = replace(made, kind=Kind.DERIVED, base=base)
        if base is not None and info.span is not None:
            relations[base] = replace(made, name=base, aggregates=(None,) * len(info.columns))
            self._copy(base, relations[info.name], info.span)
            if rows:
                facts[base] = rows

    def _copy(self, base: str, relation: Relation, span: Span) -> None:
        """The rule by which a relation has its facts."""
        terms = tuple(Variable(f"c{position}", type_) for position, type_ in enumerate(relation.types))
        self.desugar.rules.append(Rule(Head(relation.name, terms, span), (Atom(base, terms, span),), span))

    @staticmethod
    def _rebased(update: Update, relations: Mapping[str, Relation]) -> Update:
        base = relations[update.relation].base if update.relation in relations else None
        return update if base is None else replace(update, relation=base)

    def _warn_empty(self, relations: Mapping[str, Relation]) -> None:
        """Relations that are used and that nothing fills."""
        for name, place in self.clauses.used.items():
            info = self.clauses.relations.known.get(name)
            relation = relations.get(name)
            if info is None or relation is None or relation.kind is not Kind.INPUT:
                continue
            is_round = "@" in name  # of a loop that is written out: empty in its first
            if not info.has_facts and not info.has_input and not is_round:
                message = f"no rules or facts define relation {name}"
                self.diagnostics.warning("no-rules", message, info.span or place)


def _simple(atom: Atom, span: Span) -> Goal:
    """The goal that asks an atom's relation."""
    parameters = {term.name: term for term in atom.terms if isinstance(term, Parameter)}
    asked = {term.name: term for term in atom.terms if isinstance(term, Variable)}
    return Goal(atom.relation, atom.terms, tuple(parameters.values()), tuple(asked.values()), span)


def _without_parameters(one: NormalLiteral) -> NormalLiteral:
    """The literal with parameters as variables, ``$name``."""
    return normal_rules.literal(one, _as_variables)


def _as_variables(value: Expression) -> Expression:
    match value:
        case Parameter(name=name, type=type_):
            return Variable(f"${name}", type_)
        case Call(args=args):
            return replace(value, args=tuple(_as_variables(arg) for arg in args))
        case Variable() | Constant():
            return value
        case _:
            assert_never(value)
