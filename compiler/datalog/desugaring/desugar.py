"""Ground rules to core rules: heads of variables and constants, ranges as recursion, equivalence relations
as rules.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from itertools import count
from typing import assert_never

from kpg.compiler.datalog.desugaring import structures
from kpg.compiler.datalog.desugaring.collect import named
from kpg.compiler.datalog.desugaring.constants import integer
from kpg.compiler.datalog.desugaring.counters import counted, has_counter
from kpg.compiler.datalog.desugaring.ground import GroundRule
from kpg.compiler.datalog.desugaring.normal import UNNAMED, Collected, Grounded, Range
from kpg.compiler.datalog.desugaring.plans import orders
from kpg.compiler.datalog.desugaring.substitute import bound_by
from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.typing.functors import build
from kpg.compiler.datalog.typing.types import TypeTable, kind_of_stored
from kpg.compiler.rules.aggregates import counts_repeats
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
    literal_variables,
)
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass
from kpg.runtime.types import Type, float_to_word, word_to_float


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
        value = structures.encode(term, self.table)
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
