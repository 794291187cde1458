"""Ground rules to core rules, including ``.plan``.

Heads get only variables and constants. A range becomes a recursion, and an equivalence relation becomes
rules. :func:`plan_orders` checks ``.plan`` and translates its atom numbers to positions in the rule's body.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import count
from typing import assert_never

from kpg.compiler.datalog.desugar import constants
from kpg.compiler.datalog.desugar.constants import integer
from kpg.compiler.datalog.desugar.counters import has_counter, has_counter_literal
from kpg.compiler.datalog.desugar.normal_rules import (
    UNNAMED_PREFIX,
    GroundLiteral,
    Range,
    RuleAggregate,
    bound_variables,
)
from kpg.compiler.datalog.desugar.safety import GroundRule, name_wildcards
from kpg.compiler.datalog.diagnostics import Diagnostics, plural
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.types.declarations import TypeTable, kind_of_sql_type
from kpg.compiler.datalog.types.functors import build_call
from kpg.compiler.rules.core import (
    Assignment,
    Atom,
    BodyAggregate,
    Column,
    Comparison,
    Constant,
    Expression,
    Head,
    HeadTerm,
    Kind,
    Literal,
    Negation,
    Relation,
    Rule,
    ValueType,
    Variable,
    Wildcard,
    is_duplicate_sensitive,
    literal_variables,
)
from kpg.compiler.rules.strata import strata
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass
from kpg.runtime.types import Type, float_to_word, word_to_float

GENERATED_PREFIX = "@"
"""Prefix of relations that no atom of the text names."""

Orders = tuple[tuple[int, tuple[int, ...]], ...]


def plan_orders(plan: ast.Plan | None, body: Sequence[Literal], diagnostics: Diagnostics) -> Orders:
    """Return the plan in the form of ``core.Rule.plan``, and report if it does not name every atom once.

    Generated atoms come last.
    """
    if plan is None:
        return ()
    atoms = [one for one in body if isinstance(one, Atom)]
    named_places = [place for place, one in enumerate(atoms) if not one.relation.startswith(GENERATED_PREFIX)]
    rest = tuple(place for place in range(len(atoms)) if place not in named_places)
    found: dict[int, tuple[int, ...]] = {}
    if plan.is_strict:
        return ((0, (*named_places, *rest)),) if len(atoms) > 1 else ()
    for version, order in plan.orders:
        if sorted(order) != list(range(1, len(named_places) + 1)):
            message = f"invalid plan: it has to name each of the {len(named_places)} atoms once"
            hint = f"atoms are numbered from 1 to {len(named_places)}, in the order of the body"
            diagnostics.error("plan", message, plan.span, hint=hint)
        elif version in found:
            diagnostics.error("plan", f"two plans for version {version}", plan.span)
        else:
            found[version] = (*(named_places[number - 1] for number in order), *rest)
    return tuple(found.items())


def check_versions(
    relations: Mapping[str, Relation], rules: Sequence[Rule], diagnostics: Diagnostics
) -> None:
    """Report plans for versions that no rule of the clause has.

    A rule has a version per recursive atom. A plan holds for the rules of all heads of a clause. It
    has no effect on rules without such a version.
    """
    if not any(rule.plan for rule in rules):
        return
    max_counts: dict[tuple[str, int, int], tuple[Rule, int]] = {}
    for stratum in strata(relations, rules):
        members = frozenset(stratum.relations) if stratum.is_recursive else frozenset[str]()
        for rule in stratum.rules:
            if rule.plan:
                clause = (rule.span.file, rule.span.line, rule.span.start)
                count = sum(
                    isinstance(literal, Atom) and literal.relation in members for literal in rule.body
                )
                if clause not in max_counts or count > max_counts[clause][1]:
                    max_counts[clause] = rule, count
    for rule, count in max_counts.values():
        _check_versions(rule, count, diagnostics)


def _check_versions(rule: Rule, count: int, diagnostics: Diagnostics) -> None:
    for version, _ in rule.plan:
        if version >= max(1, count):
            message = f"a plan for version {version}, but the rule has {plural(count, 'recursive atom')}"
            hint = "version v orders what the changes of the v-th recursive atom, from 0 on, are joined with"
            note = diagnostics.error if count else diagnostics.warning
            note("plan", message, rule.span, hint=hint)


@dataclass(slots=True)
class CoreRules:
    """Builder of core rules.

    ``relations`` are generated relations, whose names end in ``mark``.
    """

    table: TypeTable
    diagnostics: Diagnostics
    size: int
    mark: str = ""
    relations: dict[str, Relation] = field(default_factory=dict)
    rules: list[Rule] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def add(self, ground: GroundRule) -> None:
        """Add the rules of a ground rule."""
        rule = ground.rule
        assert rule.relation is not None
        body = self._replace_generators(ground.body)
        counts = any(map(has_counter, ground.terms)) or any(map(has_counter_literal, body))
        if counts or is_duplicate_sensitive(rule.aggregates):
            body = tuple(
                name_wildcards(one, f"{UNNAMED_PREFIX}{position}_") if isinstance(one, Atom) else one
                for position, one in enumerate(body)
            )
        extra: list[Literal] = []
        terms = tuple(self._head_term(term, extra, rule.head_span) for term in ground.terms)
        head = Head(rule.relation, terms, rule.head_span)
        plan = plan_orders(rule.plan, body, self.diagnostics)
        self.rules.append(Rule(head, (*body, *extra), rule.span, plan))

    def _head_term(self, term: Expression, extra: list[Literal], span: Span) -> HeadTerm:
        value = constants.encode(term, self.table)
        if isinstance(value, Variable | Constant):
            return value
        variable = Variable(f"@h{len(extra) + 1}", value.type)
        extra.append(Assignment(variable, value, span))
        return variable

    def _replace_generators(self, body: Iterable[GroundLiteral]) -> tuple[Literal, ...]:
        """Return the body with generated relations for ranges and for bodies of some aggregates."""
        literals: list[Literal] = []
        for literal in body:
            match literal:
                case Range():
                    atom, extra = self._replace_range(literal, tuple(literals))
                    literals += [*extra, atom]
                case RuleAggregate():
                    literals.append(self._aggregate_over_rules(literal, tuple(literals)))
                case Atom() | Negation() | Comparison() | Assignment() | BodyAggregate():
                    literals.append(literal)
                case _:
                    assert_never(literal)
        return _assignments_to_tests(literals)

    def _aggregate_over_rules(self, aggregate: RuleAggregate, before: tuple[Literal, ...]) -> BodyAggregate:
        """Return the aggregate over a generated relation, with a rule per part."""
        name = f"@aggregate{next(self.numbers)}{self.mark}"
        groups = {group.name for group in aggregate.groups}
        for terms, body in aggregate.parts:
            own = {variable.name for literal in body for variable in bound_variables(literal)}
            whole = body if groups <= own else (*before, *body)
            literals = list(self._replace_generators(whole))
            heads = tuple(self._head_term(term, literals, aggregate.span) for term in terms)
            self.rules.append(Rule(Head(name, heads, aggregate.span), tuple(literals), aggregate.span))
        kinds = [(column, kind_of_sql_type(column.type)) for column in aggregate.columns]
        columns = tuple(
            Column(variable.name, ValueType(str(kind), kind.domain, kind.type), kind.type)
            for variable, kind in kinds
        )
        none = (None,) * len(columns)
        self.relations[name] = Relation(name, columns, Kind.DERIVED, aggregate.span, none)
        atom = Atom(name, aggregate.columns, aggregate.span)
        return BodyAggregate(
            aggregate.result, aggregate.function, aggregate.value, (atom,), aggregate.groups, aggregate.span
        )

    def _replace_range(self, range_: Range, before: tuple[Literal, ...]) -> tuple[Atom, list[Literal]]:
        """Return the atom that binds the range's variable, and tests of its computed arguments."""
        name, type_, span = f"@range{next(self.numbers)}{self.mark}", range_.kind.type, range_.span
        extra: list[Literal] = []
        computed: list[Literal] = []
        args: list[HeadTerm] = []
        for arg in range_.args:
            if not isinstance(arg, Variable | Constant):
                variable = Variable(f"{name}_{len(args)}", type_)
                extra.append(Assignment(variable, arg, span))
                computed.append(Comparison("eq", variable, arg, span))
                arg = variable
            args.append(arg)
        prefix = (
            _assignments_to_tests((*before, *extra)) if any(isinstance(arg, Variable) for arg in args) else ()
        )
        start, end, *steps = args
        for sign in _directions(steps):
            step = steps[0] if steps else _unit_step(sign, type_)
            tests: list[Literal] = [_beyond(end, start, sign, span)]
            if steps and not isinstance(steps[0], Constant):
                zero = integer(0, range_.kind, 64)
                tests.append(
                    _beyond(steps[0], zero, sign, span) if sign else Comparison("eq", steps[0], zero, span)
                )
            head = Head(name, (start, end, step, start), span)
            self.rules.append(Rule(head, (*prefix, *tests), span))
            if sign:
                self._add_step_rule(name, sign, range_)
        value_type = self.table.value_type(range_.kind.domain.value)
        columns = tuple(Column(label, value_type, type_) for label in ("start", "end", "step", "value"))
        self.relations[name] = Relation(name, columns, Kind.DERIVED, span, (None,) * 4)
        step_term = steps[0] if steps else Wildcard(type_)
        return Atom(name, (start, end, step_term, range_.variable), span), computed

    def _add_step_rule(self, name: str, sign: int, range_: Range) -> None:
        """Add the rule that derives the next value in one direction."""
        type_, span = range_.kind.type, range_.span
        start, end, step, last, next_value = (
            Variable(label, type_) for label in ("start", "end", "step", "last", "next")
        )
        addition = build_call("+", [(last, range_.kind), (step, range_.kind)], range_.kind, 64)
        body: tuple[Literal, ...] = (
            Atom(name, (start, end, step, last), span),
            _beyond(step, integer(0, range_.kind, 64), sign, span),
            Assignment(next_value, addition, span),
            _beyond(end, next_value, sign, span),
        )
        self.rules.append(Rule(Head(name, (start, end, step, next_value), span), body, span))

    def add_equivalence(self, relation: str, types: tuple[Type, Type], span: Span) -> None:
        """Add the rules that make a relation an equivalence: reflexive, symmetric, transitive."""
        x, y, z = Variable("x", types[0]), Variable("y", types[0]), Variable("z", types[0])
        for terms, body in (
            ((x, x), ((x, Wildcard(types[1])),)),
            ((y, x), ((x, y),)),
            ((x, z), ((x, y), (y, z))),
        ):
            literals = tuple(Atom(relation, part, span) for part in body)
            self.rules.append(Rule(Head(relation, terms, span), literals, span))


def _assignments_to_tests(body: Sequence[Literal]) -> tuple[Literal, ...]:
    """Replace assignments of variables that atoms bind by equalities."""
    bound = {v.name for literal in body if isinstance(literal, Atom) for v in literal_variables(literal)}
    return tuple(
        Comparison("eq", literal.variable, literal.expression, literal.span)
        if isinstance(literal, Assignment) and literal.variable.name in bound
        else literal
        for literal in body
    )


def _directions(steps: list[HeadTerm]) -> tuple[int, ...]:
    """Return the possible directions of a range.

    In direction 0 it has only its start.
    """
    if not steps:
        return (1, -1)
    if not isinstance(steps[0], Constant):
        return (1, -1, 0)
    word = steps[0].value
    value = word_to_float(int(word)) if steps[0].type.is_float else int(word)
    return (0,) if value == 0 else (1,) if value > 0 else (-1,)


def _unit_step(sign: int, type_: Type) -> Constant:
    """Return the default step, 1 or -1."""
    return Constant(float_to_word(float(sign)) if type_.is_float else sign, type_)


def _beyond(left: HeadTerm, right: HeadTerm, sign: int, span: Span) -> Comparison:
    """Return the test that ``left`` lies beyond ``right`` in a direction.

    In direction 0 it tests that they differ.
    """
    return Comparison({1: "gt", -1: "lt", 0: "ne"}[sign], left, right, span)
