"""Ground rules to core rules: heads of variables and constants, ranges as recursion, equivalence relations
as rules.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count

from kpg.compiler.datalog import structures
from kpg.compiler.datalog.constants import integer
from kpg.compiler.datalog.core import (
    Assignment,
    Atom,
    Column,
    Comparison,
    Constant,
    Expression,
    Head,
    HeadTerm,
    Kind,
    Literal,
    Relation,
    Rule,
    Variable,
    Wildcard,
)
from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.functors import build
from kpg.compiler.datalog.ground import Grounded, GroundRule
from kpg.compiler.datalog.normal import UNNAMED, Range
from kpg.compiler.datalog.types import TypeTable
from kpg.runtime.errors import Span
from kpg.runtime.types import Type, word_to_float


@dataclass(slots=True)
class Desugar:
    """Makes core rules; ``relations`` are those that it had to make up for them."""

    table: TypeTable
    diagnostics: Diagnostics
    size: int
    relations: dict[str, Relation] = field(default_factory=dict)
    rules: list[Rule] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def rule(self, ground: GroundRule) -> None:
        """Adds the rules of a ground rule."""
        rule = ground.rule
        assert rule.relation is not None
        body = self._without_ranges(ground.body, rule.span)
        if any(function not in (None, "min", "max") for function in rule.aggregates):
            body = tuple(_named(one, position) for position, one in enumerate(body))
        extra: list[Literal] = []
        terms = tuple(self._head_term(term, extra, rule.head_span) for term in ground.terms)
        head = Head(rule.relation, terms, rule.head_span)
        made = Rule(head, (*body, *extra), rule.span)
        self.rules.append(replace(made, plan=self._plan(ground, made)))

    def _head_term(self, term: Expression, extra: list[Literal], span: Span) -> HeadTerm:
        value = structures.encode(term, self.table)
        if isinstance(value, Variable | Constant):
            return value
        variable = Variable(f"@h{len(extra) + 1}", value.type)
        extra.append(Assignment(variable, value, span))
        return variable

    def _plan(self, ground: GroundRule, made: Rule) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """The plan with 0-based positions, checked to name every atom once."""
        plan = ground.rule.plan
        if plan is None:
            return ()
        size = sum(isinstance(one, Atom) for one in made.body)
        orders: dict[int, tuple[int, ...]] = {}
        for version, order in plan.orders:
            if sorted(order) != list(range(1, size + 1)):
                message = f"invalid plan: it has to name each of the {size} atoms once"
                hint = f"atoms are numbered from 1 to {size}, in the order of the body"
                self.diagnostics.error("plan", message, plan.span, hint=hint)
            elif version in orders:
                self.diagnostics.error("plan", f"two plans for version {version}", plan.span)
            else:
                orders[version] = tuple(position - 1 for position in order)
        return tuple(orders.items())

    def _without_ranges(self, body: tuple[Grounded, ...], span: Span) -> tuple[Literal, ...]:
        """The body with an atom of a relation of its own for each range."""
        for position, one in enumerate(body):
            if isinstance(one, Range):
                before = self._without_ranges(body[:position], span)
                atom, extra = self._range(one, before)
                return (*before, *extra, atom, *self._without_ranges(body[position + 1 :], span))
        return tuple(one for one in body if not isinstance(one, Range))

    def _range(self, one: Range, before: tuple[Literal, ...]) -> tuple[Atom, list[Literal]]:
        """The atom that binds a range's variable, and the literals that bind its arguments."""
        name, type_, span = f"@range{next(self.numbers)}", one.kind.type, one.span
        extra: list[Literal] = []
        args: list[HeadTerm] = []
        for arg in one.args:
            if not isinstance(arg, Variable | Constant):
                variable = Variable(f"{name}_{len(args)}", type_)
                extra.append(Assignment(variable, arg, span))
                arg = variable
            args.append(arg)
        prefix = (*before, *extra) if any(isinstance(arg, Variable) for arg in args) else ()
        start, end, *steps = args
        for sign in _signs(steps):
            step = steps[0] if steps else integer(sign, one.kind, 64)
            tests: list[Literal] = [_beyond(end, start, sign, span)]
            if steps and not isinstance(steps[0], Constant):
                tests.append(_beyond(steps[0], integer(0, one.kind, 64), sign, span))
            head = Head(name, (start, end, step, start), span)
            self.rules.append(Rule(head, (*prefix, *tests), span))
            self._steps(name, sign, one)
        value_type = self.table.value_type(one.kind.domain.value)
        columns = tuple(Column(label, value_type, type_) for label in ("start", "end", "step", "value"))
        self.relations[name] = Relation(name, columns, Kind.DERIVED, span, (None,) * 4)
        step_term = steps[0] if steps else Wildcard(type_)
        return Atom(name, (start, end, step_term, one.variable), span), extra

    def _steps(self, name: str, sign: int, one: Range) -> None:
        """The rule that goes from each value in one direction to the next."""
        type_, span = one.kind.type, one.span
        start, end, step, last, after = (
            Variable(label, type_) for label in ("start", "end", "step", "last", "next")
        )
        addition = build("+", [(last, one.kind), (step, one.kind)], one.kind, self.size)
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


def _named(literal: Literal, position: int) -> Literal:
    """The literal with variables for the wildcards of an atom, so that their bindings count."""
    if not isinstance(literal, Atom):
        return literal
    terms = tuple(
        Variable(f"{UNNAMED}{position}_{column}", term.type) if isinstance(term, Wildcard) else term
        for column, term in enumerate(literal.terms)
    )
    return replace(literal, terms=terms)


def _signs(steps: list[HeadTerm]) -> tuple[int, ...]:
    """The directions that a range may go in."""
    if not steps or not isinstance(steps[0], Constant):
        return (1, -1)
    word = steps[0].value
    value = word_to_float(int(word)) if steps[0].type.is_float else int(word)
    return () if value == 0 else (1,) if value > 0 else (-1,)


def _beyond(left: HeadTerm, right: HeadTerm, sign: int, span: Span) -> Comparison:
    """``left`` lies beyond ``right`` in a direction."""
    return Comparison("gt" if sign > 0 else "lt", left, right, span)
