"""Ground rules to core rules, including ``.plan``.

Heads get only variables and constants. A range becomes a recursion, and an equivalence relation becomes
rules. :func:`orders` checks ``.plan`` and translates its atom numbers to positions in the rule's body.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import count
from typing import assert_never

from kpg.compiler.datalog.desugar import constants
from kpg.compiler.datalog.desugar.constants import integer
from kpg.compiler.datalog.desugar.counters import counted, has_counter
from kpg.compiler.datalog.desugar.groundness import GroundRule, named
from kpg.compiler.datalog.desugar.normal_rules import UNNAMED, Collected, Grounded, Range, bound_by
from kpg.compiler.datalog.diagnostics import Diagnostics, plural
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.types.declarations import TypeTable, kind_of_stored
from kpg.compiler.datalog.types.functors import build
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
    counts_repeats,
    literal_variables,
)
from kpg.compiler.rules.strata import strata
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass
from kpg.runtime.types import Type, float_to_word, word_to_float

MADE_UP = "@"
"""Begins the names of relations that stand for no atom of the text."""

Orders = tuple[tuple[int, tuple[int, ...]], ...]


def orders(plan: ast.Plan | None, body: Sequence[Literal], diagnostics: Diagnostics) -> Orders:
    """The plan as ``core.Rule.plan`` has it; noted if it does not name every atom of the text once.

    Atoms that the text does not have come last.
    """
    if plan is None:
        return ()
    atoms = [one for one in body if isinstance(one, Atom)]
    written = [place for place, one in enumerate(atoms) if not one.relation.startswith(MADE_UP)]
    rest = tuple(place for place in range(len(atoms)) if place not in written)
    found: dict[int, tuple[int, ...]] = {}
    if plan.is_strict:
        return ((0, (*written, *rest)),) if len(atoms) > 1 else ()
    for version, order in plan.orders:
        if sorted(order) != list(range(1, len(written) + 1)):
            message = f"invalid plan: it has to name each of the {len(written)} atoms once"
            hint = f"atoms are numbered from 1 to {len(written)}, in the order of the body"
            diagnostics.error("plan", message, plan.span, hint=hint)
        elif version in found:
            diagnostics.error("plan", f"two plans for version {version}", plan.span)
        else:
            found[version] = (*(written[number - 1] for number in order), *rest)
    return tuple(found.items())


def check_versions(
    relations: Mapping[str, Relation], rules: Sequence[Rule], diagnostics: Diagnostics
) -> None:
    """Notes plans for versions that no rule of a clause has: one for each atom that is recursive with it.

    A plan holds for the rules of all heads of a clause. Those without such an atom have no other versions to
    take it, so that one for them alone is without effect.
    """
    if not any(rule.plan for rule in rules):
        return
    most: dict[tuple[str, int, int], tuple[Rule, int]] = {}
    for stratum in strata(relations, rules):
        members = frozenset(stratum.relations) if stratum.is_recursive else frozenset[str]()
        for rule in stratum.rules:
            if rule.plan:
                clause = (rule.span.file, rule.span.line, rule.span.start)
                count = sum(isinstance(one, Atom) and one.relation in members for one in rule.body)
                if clause not in most or count > most[clause][1]:
                    most[clause] = rule, count
    for rule, count in most.values():
        _check_versions(rule, count, diagnostics)


def _check_versions(rule: Rule, count: int, diagnostics: Diagnostics) -> None:
    for version, _ in rule.plan:
        if version >= max(1, count):
            message = f"a plan for version {version}, but the rule has {plural(count, 'recursive atom')}"
            hint = "version v orders what the changes of the v-th recursive atom, from 0 on, are joined with"
            note = diagnostics.error if count else diagnostics.warning
            note("plan", message, rule.span, hint=hint)


@dataclass(slots=True)
class Desugar:
    """Makes core rules; ``relations`` are those that it had to make up for them, their names ending in
    ``mark``.
    """

    table: TypeTable
    diagnostics: Diagnostics
    size: int
    mark: str = ""
    relations: dict[str, Relation] = field(default_factory=dict)
    rules: list[Rule] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def rule(self, ground: GroundRule) -> None:
        """Adds the rules of a ground rule."""
        rule = ground.rule
        assert rule.relation is not None
        body = self._without_ranges(ground.body)
        counts = any(map(has_counter, ground.terms)) or any(map(counted, body))
        if counts or counts_repeats(rule.aggregates):
            body = tuple(
                named(one, f"{UNNAMED}{position}_") if isinstance(one, Atom) else one
                for position, one in enumerate(body)
            )
        extra: list[Literal] = []
        terms = tuple(self._head_term(term, extra, rule.head_span) for term in ground.terms)
        head = Head(rule.relation, terms, rule.head_span)
        plan = orders(rule.plan, body, self.diagnostics)
        self.rules.append(Rule(head, (*body, *extra), rule.span, plan))

    def _head_term(self, term: Expression, extra: list[Literal], span: Span) -> HeadTerm:
        value = constants.encode(term, self.table)
        if isinstance(value, Variable | Constant):
            return value
        variable = Variable(f"@h{len(extra) + 1}", value.type)
        extra.append(Assignment(variable, value, span))
        return variable

    def _without_ranges(self, body: Iterable[Grounded]) -> tuple[Literal, ...]:
        """The body with relations of their own for ranges and for what some aggregates are over."""
        made: list[Literal] = []
        for one in body:
            match one:
                case Range():
                    atom, extra = self._range(one, tuple(made))
                    made += [*extra, atom]
                case Collected():
                    made.append(self._collected(one, tuple(made)))
                case Atom() | Negation() | Comparison() | Assignment() | BodyAggregate():
                    made.append(one)
                case _:
                    assert_never(one)
        return _once_bound(made)

    def _collected(self, one: Collected, before: tuple[Literal, ...]) -> BodyAggregate:
        """The aggregate over a relation of the bindings, to which each part of it is a rule."""
        name = f"@aggregate{next(self.numbers)}{self.mark}"
        groups = {group.name for group in one.groups}
        for terms, body in one.parts:
            own = {variable.name for literal in body for variable in bound_by(literal)}
            whole = body if groups <= own else (*before, *body)
            literals = list(self._without_ranges(whole))
            heads = tuple(self._head_term(term, literals, one.span) for term in terms)
            self.rules.append(Rule(Head(name, heads, one.span), tuple(literals), one.span))
        kinds = [(column, kind_of_stored(column.type)) for column in one.columns]
        columns = tuple(
            Column(variable.name, ValueType(str(kind), kind.domain, kind.type), kind.type)
            for variable, kind in kinds
        )
        none = (None,) * len(columns)
        self.relations[name] = Relation(name, columns, Kind.DERIVED, one.span, none)
        atom = Atom(name, one.columns, one.span)
        return BodyAggregate(one.result, one.function, one.value, (atom,), one.groups, one.span)

    def _range(self, one: Range, before: tuple[Literal, ...]) -> tuple[Atom, list[Literal]]:
        """The atom that binds a range's variable, and the tests that its arguments are what was computed."""
        name, type_, span = f"@range{next(self.numbers)}{self.mark}", one.kind.type, one.span
        extra: list[Literal] = []
        computed: list[Literal] = []
        args: list[HeadTerm] = []
        for arg in one.args:
            if not isinstance(arg, Variable | Constant):
                variable = Variable(f"{name}_{len(args)}", type_)
                extra.append(Assignment(variable, arg, span))
                computed.append(Comparison("eq", variable, arg, span))
                arg = variable
            args.append(arg)
        prefix = _once_bound((*before, *extra)) if any(isinstance(arg, Variable) for arg in args) else ()
        start, end, *steps = args
        for sign in _signs(steps):
            step = steps[0] if steps else _one(sign, type_)
            tests: list[Literal] = [_beyond(end, start, sign, span)]
            if steps and not isinstance(steps[0], Constant):
                zero = integer(0, one.kind, 64)
                tests.append(
                    _beyond(steps[0], zero, sign, span) if sign else Comparison("eq", steps[0], zero, span)
                )
            head = Head(name, (start, end, step, start), span)
            self.rules.append(Rule(head, (*prefix, *tests), span))
            if sign:
                self._steps(name, sign, one)
        value_type = self.table.value_type(one.kind.domain.value)
        columns = tuple(Column(label, value_type, type_) for label in ("start", "end", "step", "value"))
        self.relations[name] = Relation(name, columns, Kind.DERIVED, span, (None,) * 4)
        step_term = steps[0] if steps else Wildcard(type_)
        return Atom(name, (start, end, step_term, one.variable), span), computed

    def _steps(self, name: str, sign: int, one: Range) -> None:
        """The rule that goes from each value in one direction to the next."""
        type_, span = one.kind.type, one.span
        start, end, step, last, after = (
            Variable(label, type_) for label in ("start", "end", "step", "last", "next")
        )
        addition = build("+", [(last, one.kind), (step, one.kind)], one.kind, 64)
        body: tuple[Literal, ...] = (
            Atom(name, (start, end, step, last), span),
            _beyond(step, integer(0, one.kind, 64), sign, span),
            Assignment(after, addition, span),
            _beyond(end, after, sign, span),
        )
        self.rules.append(Rule(Head(name, (start, end, step, after), span), body, span))

    def equivalence(self, relation: str, types: tuple[Type, Type], span: Span) -> None:
        """The rules that make a relation an equivalence: reflexive, symmetric, transitive."""
        x, y, z = Variable("x", types[0]), Variable("y", types[0]), Variable("z", types[0])
        for terms, body in (
            ((x, x), ((x, Wildcard(types[1])),)),
            ((y, x), ((x, y),)),
            ((x, z), ((x, y), (y, z))),
        ):
            literals = tuple(Atom(relation, part, span) for part in body)
            self.rules.append(Rule(Head(relation, terms, span), literals, span))


def _once_bound(body: Sequence[Literal]) -> tuple[Literal, ...]:
    """The body with equalities for assignments of variables that its atoms, made up ones too, bind."""
    bound = {v.name for one in body if isinstance(one, Atom) for v in literal_variables(one)}
    return tuple(
        Comparison("eq", one.variable, one.expression, one.span)
        if isinstance(one, Assignment) and one.variable.name in bound
        else one
        for one in body
    )


def _signs(steps: list[HeadTerm]) -> tuple[int, ...]:
    """The directions that a range may go in; 0 is none, in which it is its start alone."""
    if not steps:
        return (1, -1)
    if not isinstance(steps[0], Constant):
        return (1, -1, 0)
    word = steps[0].value
    value = word_to_float(int(word)) if steps[0].type.is_float else int(word)
    return (0,) if value == 0 else (1,) if value > 0 else (-1,)


def _one(sign: int, type_: Type) -> Constant:
    """1 or -1, the step where none is given; of unsigned numbers too."""
    return Constant(float_to_word(float(sign)) if type_.is_float else sign, type_)


def _beyond(left: HeadTerm, right: HeadTerm, sign: int, span: Span) -> Comparison:
    """``left`` lies beyond ``right`` in a direction; in direction 0, elsewhere."""
    return Comparison({1: "gt", -1: "lt", 0: "ne"}[sign], left, right, span)
