"""Assembly of the core program from normal rules and declarations."""

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import assert_never

from kpg.compiler.datalog.clauses import DOMINATED_SUFFIX, Clauses, NormalGoal
from kpg.compiler.datalog.desugar import normal_rules
from kpg.compiler.datalog.desugar.core_rules import CoreRules
from kpg.compiler.datalog.desugar.counters import expand_autoinc, expand_iteration
from kpg.compiler.datalog.desugar.normal_rules import NormalLiteral, NormalRule
from kpg.compiler.datalog.desugar.safety import ground
from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.selections import Selections
from kpg.compiler.datalog.types.declarations import NUMBER, RelationInfo
from kpg.compiler.rules.core import (
    Atom,
    Call,
    Column,
    Constant,
    Expression,
    Goal,
    Head,
    Kind,
    Parameter,
    Program,
    Relation,
    Rule,
    Term,
    TransferKind,
    Update,
    Value,
    ValueType,
    Variable,
)
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass

BASE_SUFFIX = "@facts"
"""Suffix of the base table of a relation's facts, if the relation also has rules."""


@dataclass(slots=True)
class ProgramBuilder:
    """Builder of the core program.

    ``not_inlined`` are inline relations that stay relations.
    """

    clauses: Clauses
    not_inlined: set[str]
    diagnostics: Diagnostics
    size: int
    mark: str
    goals: list[Goal] = field(default_factory=list)
    subsumption_rules: dict[str, list[Rule]] = field(default_factory=dict)
    desugar: CoreRules = field(init=False)

    def __post_init__(self) -> None:
        self.desugar = CoreRules(self.clauses.relations.types, self.diagnostics, self.size, self.mark)

    def add(self, rules: Iterable[NormalRule]) -> None:
        """Add rules, including those of goals."""
        goals: dict[str | None, list[NormalRule]] = {goal.name: [] for goal in self.clauses.goals}
        subsumed = {name + DOMINATED_SUFFIX: name for name in self.clauses.subsumptive}
        for rule in rules:
            if rule.relation in goals:
                goals[rule.relation].append(rule)
                continue
            ground_rule = ground(rule, self.clauses.relations.types, self.diagnostics)
            if ground_rule is None:
                continue
            before = len(self.desugar.rules)
            self.desugar.add(ground_rule)
            if rule.relation in subsumed:
                new_rules = self.desugar.rules[before:]
                own_rules = [core_rule for core_rule in new_rules if core_rule.head.relation == rule.relation]
                self.subsumption_rules.setdefault(subsumed[rule.relation], []).extend(own_rules)
                self.desugar.rules[before:] = [
                    core_rule for core_rule in new_rules if core_rule not in own_rules
                ]
        for goal in self.clauses.goals:
            self._add_goal(goal, goals[goal.name])

    # Goals

    def _add_goal(self, goal: NormalGoal, rules: list[NormalRule]) -> None:
        if len(rules) == 1 and len(rules[0].body) == 1 and isinstance(rules[0].body[0], Atom):
            self.goals.append(_single_atom_goal(rules[0].body[0], goal.span))
            return
        columns = self._goal_columns(goal)
        terms = tuple(Variable(column.name, column.type.type) for column in columns)
        count = len(goal.parameters)
        parameter_names = frozenset(term.name for term in terms[:count])
        demanded: set[int] = set()
        for rule in rules:
            body = tuple(_parameters_to_variables(literal) for literal in rule.body)
            goal_rule = replace(rule, terms=terms, aggregates=(None,) * len(terms), body=body)
            demanded |= self._add_goal_rule(goal_rule, parameter_names)
        none = (None,) * len(terms)
        relation = Relation(goal.name, columns, Kind.DERIVED, goal.span, none, frozenset(demanded))
        self.desugar.relations[goal.name] = relation
        parameters_ = tuple(Parameter(term.name[1:], term.type) for term in terms[:count])
        goal_terms: tuple[Term, ...] = (*parameters_, *terms[count:])
        self.goals.append(Goal(goal.name, goal_terms, parameters_, terms[count:], goal.span))

    def _goal_columns(self, goal: NormalGoal) -> tuple[Column, ...]:
        """Return the columns of the parameters, then of the variables, with their types."""
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

    def _add_goal_rule(self, rule: NormalRule, parameter_names: frozenset[str]) -> set[int]:
        """Add the rule of a goal, and return the columns that its body does not bind."""
        found = ground(rule, self.clauses.relations.types, self.diagnostics, parameter_names)
        if found is None:
            return set()
        self.desugar.add(found)
        bound = {
            variable.name for literal in found.body for variable in normal_rules.bound_variables(literal)
        }
        terms = [term for term in found.terms if isinstance(term, Variable)]
        return {
            position
            for position, term in enumerate(found.terms)
            if term in terms and term.name not in bound and term.name in parameter_names
        }

    # Relations

    def program(self, pragmas: Mapping[str, str]) -> Program:
        """Return the program, after all rules are added."""
        clauses = self.clauses
        relations: dict[str, Relation] = {}
        facts: dict[str, tuple[tuple[Value, ...], ...]] = {}
        for info in clauses.relations.by_name.values():
            if info.is_inline and info.name not in self.not_inlined:
                continue
            self._add_relation(info, relations, facts)
        relations.update(self.desugar.relations)
        expand_autoinc(relations, self.desugar.rules)
        expand_iteration(relations, self.desugar.rules, self.diagnostics)
        Selections(clauses, relations, self.desugar.rules, self.diagnostics).add_all(self.subsumption_rules)
        self._warn_empty(relations)
        return Program(
            relations,
            tuple(self.desugar.rules),
            facts,
            tuple(self.goals),
            tuple(clauses.queries),
            tuple(self._redirect_to_base(one, relations) for one in clauses.updates),
            tuple(
                replace(one, relation=relations[one.relation].base or one.relation)
                if one.direction is TransferKind.INPUT and one.relation in relations
                else one
                for one in clauses.transfers
            ),
            clauses.relations.types.structures(),
            pragmas,
            self.size,
        )

    def _add_relation(
        self,
        info: RelationInfo,
        relations: dict[str, Relation],
        facts: dict[str, tuple[tuple[Value, ...], ...]],
    ) -> None:
        aggregates = info.aggregates or (None,) * len(info.columns)
        rows = tuple(self.clauses.facts.get(info.name, ()))
        magic = True if "magic" in info.qualifiers else False if "no_magic" in info.qualifiers else None
        plain_relation = Relation(info.name, info.columns, info.kind, info.span, aggregates, magic=magic)
        is_equivalence = "eqrel" in info.qualifiers and len(info.columns) == 2
        selects = is_equivalence or info.name in self.clauses.subsumptive or bool(info.keys)
        if info.kind is Kind.EXTERNAL or not (info.has_rules or selects):
            relations[info.name] = plain_relation
            if rows:
                facts[info.name] = rows
            return
        if is_equivalence and info.span is not None:
            self.desugar.add_equivalence(
                info.name, (plain_relation.types[0], plain_relation.types[1]), info.span
            )
        base = info.name + BASE_SUFFIX if rows or info.has_input else None
        relations[info.name] = replace(plain_relation, kind=Kind.DERIVED, base=base)
        if base is not None and info.span is not None:
            relations[base] = replace(plain_relation, name=base, aggregates=(None,) * len(info.columns))
            self._add_copy_rule(base, relations[info.name], info.span)
            if rows:
                facts[base] = rows

    def _add_copy_rule(self, base: str, relation: Relation, span: Span) -> None:
        """Add the rule that copies a relation's facts."""
        terms = tuple(Variable(f"c{position}", type_) for position, type_ in enumerate(relation.types))
        self.desugar.rules.append(Rule(Head(relation.name, terms, span), (Atom(base, terms, span),), span))

    @staticmethod
    def _redirect_to_base(update: Update, relations: Mapping[str, Relation]) -> Update:
        base = relations[update.relation].base if update.relation in relations else None
        return update if base is None else replace(update, relation=base)

    def _warn_empty(self, relations: Mapping[str, Relation]) -> None:
        """Warn of relations that are used but never filled."""
        for name, place in self.clauses.used_relations.items():
            info = self.clauses.relations.by_name.get(name)
            relation = relations.get(name)
            if info is None or relation is None or relation.kind is not Kind.INPUT:
                continue
            is_round = "@" in name  # of an unrolled loop: empty in its first round
            if not info.has_facts and not info.has_input and not is_round:
                message = f"no rules or facts define relation {name}"
                self.diagnostics.warning("no-rules", message, info.span or place)


def _single_atom_goal(atom: Atom, span: Span) -> Goal:
    """Return the goal for a single atom."""
    parameters = {term.name: term for term in atom.terms if isinstance(term, Parameter)}
    variables = {term.name: term for term in atom.terms if isinstance(term, Variable)}
    return Goal(atom.relation, atom.terms, tuple(parameters.values()), tuple(variables.values()), span)


def _parameters_to_variables(literal: NormalLiteral) -> NormalLiteral:
    """Return the literal with parameters as variables named ``$name``."""
    return normal_rules.literal(literal, _replace_parameters)


def _replace_parameters(value: Expression) -> Expression:
    match value:
        case Parameter(name=name, type=type_):
            return Variable(f"${name}", type_)
        case Call(args=args):
            return replace(value, args=tuple(_replace_parameters(arg) for arg in args))
        case Variable() | Constant():
            return value
        case _:
            assert_never(value)
