"""Checks of single clauses: names, arities and types. Each checked clause becomes normal rules."""

from collections import Counter
from dataclasses import field, replace
from typing import assert_never

from kpg.compiler.catalog.entries import ViewEntry
from kpg.compiler.datalog.desugar.constants import encode
from kpg.compiler.datalog.desugar.normal_rules import NormalRule, normalize
from kpg.compiler.datalog.diagnostics import Diagnostics, count_text, plural
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.syntax.flatten import LOCAL_MARK, FlatRule, flatten, flatten_goal, original_name
from kpg.compiler.datalog.syntax.traverse import (
    FlatLiteral,
    all_variables,
    atom_of,
    head_aggregate,
    literal_expressions,
    literals,
    walk,
)
from kpg.compiler.datalog.types.declarations import (
    TRANSFER_QUALIFIERS,
    RelationInfo,
    Relations,
    check_transfer,
)
from kpg.compiler.datalog.types.functors import CONSTRAINTS, takes_value
from kpg.compiler.datalog.types.kind_inference import Typing, infer
from kpg.compiler.datalog.types.subtypes import check_subtypes
from kpg.compiler.rules.core import Constant, Kind, Parameter, Query, Transfer, TransferKind, Update, Value
from kpg.runtime.errors import Span
from kpg.runtime.functions import functions
from kpg.runtime.records import dataclass

DOMINATED_SUFFIX = "@dominated"
"""Suffix of the relation of a relation's dominated tuples."""
FACT_HINT = "a fact has constants only; give the rule a body"


@dataclass(frozen=True, slots=True)
class NormalGoal:
    """A goal's conjunctions as rules of a relation ``name``.

    Names are in order of first occurrence.
    """

    name: str
    rules: tuple[NormalRule, ...]
    typings: tuple[Typing, ...]
    parameters: tuple[str, ...]
    variables: tuple[str, ...]
    span: Span


@dataclass(slots=True)
class Clauses:
    """The checked statements of a program.

    Declarations are entered first.
    """

    relations: Relations
    diagnostics: Diagnostics
    size: int
    rules: list[NormalRule] = field(default_factory=list)
    facts: dict[str, dict[tuple[Value, ...], None]] = field(default_factory=dict)
    goals: list[NormalGoal] = field(default_factory=list)
    queries: list[Query] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    transfers: list[Transfer] = field(default_factory=list)
    used_relations: dict[str, Span] = field(default_factory=dict)
    subsumptive: set[str] = field(default_factory=set)
    limits: dict[str, int] = field(default_factory=dict)
    rounds: list[ast.Rounds] = field(default_factory=list)
    _head_aggregates: dict[str, tuple[tuple[str | None, ...], Span]] = field(default_factory=dict)

    def add(self, statement: ast.Statement) -> None:
        """Check a statement and add the result."""
        match statement:
            case ast.Clause():
                self._add_clause(statement)
            case ast.Goal():
                self._add_goal(statement)
            case ast.Update(diff=diff, atom=atom):
                self._add_update(diff, atom, statement.span)
            case ast.Directive():
                self._add_directive(statement)
            case ast.Query():
                self._add_query(statement)
            case ast.Rounds():
                self.rounds.append(statement)
            case ast.Subsumption():
                self._add_subsumption(statement)
            case ast.Declaration(names=names, qualifiers=qualifiers):
                for qualifier in qualifiers:
                    if qualifier.text in TRANSFER_QUALIFIERS:
                        self._add_directive(ast.Directive(qualifier.text, names, (), qualifier.span))
            case ast.Subtype() | ast.UnionType() | ast.RecordType() | ast.AdtType():
                pass  # entered with the declarations
            case ast.Pragma() | ast.Functor():
                pass  # likewise
            case ast.Component() | ast.Init() | ast.Override() | ast.Lattice():
                pass  # expanded earlier
            case _:
                assert_never(statement)

    # Rules and facts

    def _add_clause(self, clause: ast.Clause) -> None:
        errors = self.diagnostics.error_count
        if clause.body is None and clause.plan is not None:
            self.diagnostics.error("plan", "a fact has no plan", clause.plan.span)
        flat = flatten(clause, self.diagnostics)
        if errors != self.diagnostics.error_count:
            return
        for head in clause.heads:
            info = self.relations.find(head.name)
            if info is not None and info.kind is Kind.EXTERNAL:
                message = f"{head.name} is a relation of the database, a program cannot define it"
                hint = "insert rows into the table, or declare a relation of another name"
                self.diagnostics.error("redefinition", message, head.span, hint=hint)
                flat = [rule for rule in flat if rule.head is None or rule.head.name is not head.name]
        self._warn_of_single_uses(flat)
        for rule in flat:
            self._add_rule(rule)

    def _add_subsumption(self, subsumption: ast.Subsumption) -> None:
        """Add the rules that derive dominated tuples, whose bodies begin with both atoms."""
        info, other = (
            self.relations.find(subsumption.less.name),
            self.relations.find(subsumption.greater.name),
        )
        if info is None or other is None:
            return
        if info is not other:
            message = f"{info.name} cannot be subsumed by {other.name}, only by its own tuples"
            self.diagnostics.error("subsumption", message, subsumption.greater.span)
            return
        if info.kind is Kind.EXTERNAL or info.is_inline or info.keys:
            what = "inline" if info.is_inline else "with choice-domain" if info.keys else "of the database"
            self.diagnostics.error(
                "subsumption", f"{info.name} is {what}, it has no subsumption", subsumption.span
            )
            return
        names = (
            ast.Variable(f"_{place}{LOCAL_MARK}", arg.span) if isinstance(arg, ast.Underscore) else arg
            for place, arg in enumerate(subsumption.less.args)
        )
        less = replace(subsumption.less, args=tuple(names))
        body = ast.And((less, subsumption.greater, subsumption.body), subsumption.span)
        flat = flatten(ast.Clause((less,), body, None, subsumption.span), self.diagnostics)
        for rule in flat:
            found = self._normalize(rule)
            if found is not None:
                self.rules.append(replace(found[0], relation=info.name + DOMINATED_SUFFIX))
                self.subsumptive.add(info.name)

    def _add_rule(self, rule: FlatRule) -> None:
        found = self._normalize(rule)
        if found is None or rule.head is None:
            return
        normal, _ = found
        info = self.relations.by_name[rule.head.name.text]
        terms = tuple(encode(term, self.relations.types) for term in normal.terms)
        values = tuple(term.value for term in terms if isinstance(term, Constant))
        is_row = rule.is_fact and not normal.body and len(values) == len(terms)
        if is_row and not info.is_inline:
            info.has_facts = True
            self.facts.setdefault(info.name, {})[values] = None
            return
        info.has_rules = True
        if not rule.is_fact:
            self._check_aggregates(rule.head, info, normal.aggregates)
        self.rules.append(normal)

    def _check_aggregates(
        self, head: ast.Atom, info: RelationInfo, aggregates: tuple[str | None, ...]
    ) -> None:
        """Check that all rules of a relation aggregate the same columns by the same functions."""
        old, span = self._head_aggregates.setdefault(info.name, (aggregates, head.span))
        if old != aggregates:
            message = f"rules for {info.name} aggregate differently"
            notes = (("another rule for it:", span),)
            self.diagnostics.error("aggregation", message, head.span, notes=notes)
        info.aggregates = old

    def _normalize(self, rule: FlatRule) -> tuple[NormalRule, Typing] | None:
        """Return the normal rule, or None if a name, arity or type is wrong."""
        errors = self.diagnostics.error_count
        if rule.head is not None:
            self._check_head(rule)
        for literal in rule.body:
            self._check_names(literal)
        if errors != self.diagnostics.error_count:
            return None
        known = self.relations.by_name
        head = None if rule.head is None else known[rule.head.name.text]
        typing = infer(rule, head, known, self.relations.types, self.diagnostics)
        if typing.has_failed or errors != self.diagnostics.error_count:
            return None
        check_subtypes(rule, typing, known, self.diagnostics)
        normal = normalize(rule, typing, known, self.relations.types, self.diagnostics, self.size)
        return None if normal is None or errors != self.diagnostics.error_count else (normal, typing)

    def _check_head(self, rule: FlatRule) -> None:
        assert rule.head is not None
        info = self.relations.find(rule.head.name)
        if info is not None:
            self._check_arity(rule.head, info)
        for arg in rule.head.args:
            aggregate = head_aggregate(arg)
            if aggregate is not None:
                if rule.is_fact:
                    self.diagnostics.error("fact", "an aggregate in a fact", arg.span, hint=FACT_HINT)
                arg = aggregate[1]
                if isinstance(arg, ast.Underscore) and not takes_value(aggregate[0]):
                    continue
            for part in walk(arg):
                self._check_head_part(part, rule.is_fact)

    def _check_head_part(self, part: ast.Expression, is_fact: bool) -> None:
        match part:
            case ast.Underscore(span=span):
                where = "a fact" if is_fact else "the head of a rule"
                self.diagnostics.error("underscore", f"underscore in {where}", span)
            case ast.Variable(name=name, span=span) if is_fact:
                self.diagnostics.error("fact", f"variable {name} in a fact", span, hint=FACT_HINT)
            case ast.Aggregate(body=body):
                for literal in literals(body):
                    self._check_names(literal)
            case ast.Call(function="autoinc" | "__ITERATION__" as function) if is_fact:
                self.diagnostics.error("fact", f"{function} in a fact", part.span, hint=FACT_HINT)
            case ast.Variable() | ast.Integer() | ast.Float() | ast.Boolean() | ast.String() | ast.Nil():
                pass
            case ast.Record() | ast.Dollar() | ast.Call() | ast.Cast():
                pass  # walk visits their parts
            case _:
                assert_never(part)

    def _check_names(self, literal: FlatLiteral) -> None:
        """Check that relations exist and have the right number of arguments, also inside aggregates."""
        atom = atom_of(literal)
        if atom is not None and not self._is_constraint(atom):
            info = self.relations.find(atom.name)
            if info is not None:
                self.used_relations.setdefault(info.name, atom.span)
                self._check_arity(atom, info)
        for expression in literal_expressions(literal):
            for part in walk(expression):
                if isinstance(part, ast.Aggregate):
                    for inner in literals(part.body):
                        self._check_names(inner)

    def _is_constraint(self, atom: ast.Atom) -> bool:
        name = atom.name.text
        if name in self.relations.by_name or name in self.relations.catalog:
            return False
        if name in CONSTRAINTS:
            if len(atom.args) != 2:
                message = f"constraint {name} takes 2 arguments, {count_text(len(atom.args))}"
                self.diagnostics.error("functor", message, atom.span)
            return True
        return any(function.name == name for function in functions())

    def _check_arity(self, atom: ast.Atom, info: RelationInfo) -> None:
        expected, count = len(info.columns), len(atom.args)
        if expected != count:
            columns = ", ".join(column.name for column in info.columns)
            message = f"relation {info.name} has {plural(expected, 'column')}, {count_text(count)}"
            hint = f"it is {info.name}({columns})"
            self.diagnostics.error("arity", message, atom.span, hint=hint)

    def _warn_of_single_uses(self, rules: list[FlatRule]) -> None:
        """Warn of variables that occur only once in each rule of a clause."""
        max_counts: Counter[str] = Counter()
        places: dict[str, Span] = {}
        for rule in rules:
            counts: Counter[str] = Counter()
            parts = [*(rule.head.args if rule.head is not None else ())]
            parts += [part for literal in rule.body for part in literal_expressions(literal)]
            for part in parts:
                for variable in all_variables(part):
                    counts[original_name(variable.name)] += 1
                    places.setdefault(original_name(variable.name), variable.span)
            for name, number in counts.items():
                max_counts[name] = max(max_counts[name], number)
        for name, number in max_counts.items():
            if number > 1 and name.startswith("_") and not any(rule.is_fact for rule in rules):
                message = f"variable {name} occurs more than once, though its name says that it does not"
                self.diagnostics.warning("unused-variable", message, places[name])
            if number == 1 and not name.startswith("_") and not any(rule.is_fact for rule in rules):
                message = f"variable {name} only occurs once"
                hint = f"write _ or _{name} if it is meant"
                self.diagnostics.warning("unused-variable", message, places[name], hint=hint)

    # Goals, queries, updates, directives

    def _add_goal(self, goal: ast.Goal) -> None:
        errors = self.diagnostics.error_count
        flat = flatten_goal(goal, self.diagnostics)
        if errors != self.diagnostics.error_count:
            return
        found = [one for one in map(self._normalize, flat) if one is not None]
        if errors != self.diagnostics.error_count:
            return
        parameters: dict[str, None] = {}
        variables: dict[str, None] = {}
        for rule in flat:
            for literal in rule.body:
                for expression in literal_expressions(literal):
                    for name in _parameter_names(expression):
                        if name not in self.relations.types.branches:
                            parameters[name] = None
                    for variable in all_variables(expression):
                        if LOCAL_MARK not in variable.name:
                            variables[variable.name] = None
        name = f"?-{len(self.goals) + 1}"
        rules = tuple(replace(one, relation=name) for one, _ in found)
        typings = tuple(one for _, one in found)
        self.goals.append(NormalGoal(name, rules, typings, tuple(parameters), tuple(variables), goal.span))

    def _add_query(self, query: ast.Query) -> None:
        info = self.relations.find(query.name)
        if info is None:
            return
        if len(query.marks) != len(info.columns):
            columns_text = plural(len(info.columns), "column")
            message = f"relation {info.name} has {columns_text}, {count_text(len(query.marks))}"
            self.diagnostics.error("arity", message, query.span)
            return
        for mark in query.marks:
            if mark.text not in ("b", "f"):
                message = f'"{mark}" is neither b (bound) nor f (free)'
                self.diagnostics.error("syntax", message, mark.span)
        info.has_output = True
        self.queries.append(Query(info.name, tuple(mark.text == "b" for mark in query.marks), query.span))

    def _add_update(self, diff: int, atom: ast.Atom, span: Span) -> None:
        info = self.relations.find(atom.name)
        if info is None:
            return
        entry = self.relations.catalog.find(info.name) if info.kind is Kind.EXTERNAL else None
        if isinstance(entry, ViewEntry):
            message = f"{info.name} is a view, it cannot be changed"
            hint = "change the tables that it reads"
            self.diagnostics.error("fact", message, atom.name.span, hint=hint)
            return
        errors = self.diagnostics.error_count
        rule = FlatRule(atom, (), None, span, is_fact=True, takes_parameters=True)
        found = self._normalize(rule)
        if found is None or errors != self.diagnostics.error_count:
            return
        terms = tuple(encode(term, self.relations.types) for term in found[0].terms)
        constant = tuple(term for term in terms if isinstance(term, Constant | Parameter))
        if len(constant) != len(terms) or found[0].body:
            self.diagnostics.error("fact", "an update has constants only", atom.span)
            return
        info.has_input = info.has_input or info.kind is not Kind.EXTERNAL
        self.updates.append(Update(info.name, constant, diff, span))

    def _add_directive(self, directive: ast.Directive) -> None:
        if directive.kind == "limitsize":
            self._add_limit(directive)
            return
        direction = TransferKind(directive.kind)
        for name in directive.names:
            info = self.relations.find(name)
            if info is None:
                continue
            if direction is TransferKind.INPUT and info.kind is Kind.EXTERNAL:
                message = f"{name} is a relation of the database, it is not read from a file"
                self.diagnostics.error("redefinition", message, name.span)
                continue
            info.has_input = info.has_input or direction is TransferKind.INPUT
            info.has_output = info.has_output or direction is not TransferKind.INPUT
            options = dict(directive.options)
            name_text = options.get("name", name.text)
            transfer = Transfer(direction, info.name, name_text, options, directive.span)
            check_transfer(transfer, info, directive.options, self.transfers, self.diagnostics)
            self.transfers.append(transfer)

    def _add_limit(self, directive: ast.Directive) -> None:
        options = dict(directive.options)
        most = options.get("n", "")
        if not (most.isascii() and most.isdecimal()) or len(options) > 1:
            message = ".limitsize takes a number of tuples"
            hint = f".limitsize {directive.names[0]}(n=100)"
            self.diagnostics.error("option", message, directive.span, hint=hint)
            return
        for name in directive.names:
            info = self.relations.find(name)
            if info is not None and info.name in self.limits:
                self.diagnostics.error("redefinition", f".limitsize {name} is given twice", directive.span)
            elif info is not None:
                self.limits[info.name] = int(most)


def _parameter_names(expression: ast.Expression) -> list[str]:
    """Return the names after a ``$`` without arguments, also inside aggregates."""
    found: list[str] = []
    for part in walk(expression):
        if isinstance(part, ast.Dollar) and part.args is None:
            found.append(part.name)
        elif isinstance(part, ast.Aggregate):
            for literal in literals(part.body):
                for inner in literal_expressions(literal):
                    found += _parameter_names(inner)
    return found
