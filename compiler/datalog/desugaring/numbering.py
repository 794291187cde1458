"""``autoinc()`` in rules: 0, 1, 2, ... over all bindings of all rules, as far as they are not recursive.

Bindings are numbered in the order of the relations' computation, then of the rules in the text, then of the
values of the variables, in the order in which the body has them; symbols by their first occurrence. So
numbers are a function of the facts, and an update may change them. A relation ``@count`` has the bindings of
a rule with their numbers within it; those of the rules before are counted. In a recursive rule a binding
has a number of its own that stays (``counters``).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Final

from kpg.compiler.datalog.desugaring.counters import AUTOINC, counted, in_literal, of_atoms
from kpg.compiler.datalog.typing.types import kind_of_stored
from kpg.compiler.rules.core import (
    Assignment,
    Atom,
    BodyAggregate,
    Call,
    Column,
    Comparison,
    Constant,
    Expression,
    Head,
    Kind,
    Literal,
    Numbered,
    Relation,
    Rule,
    ValueType,
    Variable,
    literal_variables,
)
from kpg.compiler.rules.strata import strata
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass
from kpg.runtime.types import BIGINT

NUMBER: Final = Variable("@number", BIGINT)
ZERO: Final = Constant(0, BIGINT)


@dataclass(frozen=True, slots=True)
class Counter:
    """The relation of a rule's numbered bindings, and how often the rule asks for a number."""

    relation: str
    columns: tuple[Variable, ...]
    calls: int


def number(relations: dict[str, Relation], rules: list[Rule]) -> None:
    """Give the rules that ask for numbers these, by relations and rules that are added."""
    if not any(counted(one) for rule in rules for one in rule.body):
        return
    before: list[Counter] = []
    names = (name for number in count(1) if (name := f"@count{number}") not in relations)
    made: dict[int, list[Rule]] = {}
    for stratum in strata(dict(relations), rules):
        for rule in stratum.rules:
            if any(map(counted, rule.body)):
                place = next(at for at, one in enumerate(rules) if one is rule)
                if stratum.is_recursive:
                    made[place] = [_lasting(rule, place)]
                else:
                    made[place] = _numbered(rule, next(names), before, relations)
    rules[:] = [new for place, rule in enumerate(rules) for new in made.get(place, [rule])]


def _lasting(rule: Rule, place: int) -> Rule:
    """The rule with numbers that stay."""
    label, bound = f"{rule.head.relation} {place}", of_atoms(rule.body)
    return replace(rule, body=tuple(in_literal(one, label, bound) for one in rule.body))


def _numbered(rule: Rule, name: str, before: list[Counter], relations: dict[str, Relation]) -> list[Rule]:
    own, rest = _parted(rule.body)
    bound = list(dict.fromkeys((*of_atoms(own), *_used(own, rest, rule.head))))
    calls = list(dict.fromkeys(place for one in rest for place in _calls(one)))
    columns = (*bound, NUMBER)
    relations[name] = _relation(name, columns, rule.span)
    counting = Rule(Head(name, (*bound, ZERO), rule.span), tuple(own), rule.span)
    first, offset = _first(before, rule.span)
    value = offset if offset is not None else ZERO
    numbers = {place: _sum(_times(NUMBER, len(calls)), at, value) for at, place in enumerate(calls)}
    body = (Atom(name, columns, rule.span), *first, *(_replaced(one, numbers) for one in rest))
    before.append(Counter(name, columns, len(calls)))
    return [counting, replace(rule, body=body, plan=())]


def _parted(body: Sequence[Literal]) -> tuple[list[Literal], list[Literal]]:
    """The literals without numbers, and those with them or with what is computed from them."""
    own: list[Literal] = []
    rest: list[Literal] = []
    tainted: set[Variable] = set()
    for one in body:
        if counted(one) or not tainted.isdisjoint(literal_variables(one)):
            rest.append(one)
            if isinstance(one, Assignment):
                tainted.add(one.variable)
        else:
            own.append(one)
    return own, rest


def _used(own: Sequence[Literal], rest: Sequence[Literal], head: Head) -> Iterator[Variable]:
    """The variables of the numbered bindings that the rule goes on with."""
    there = {variable for one in own for variable in literal_variables(one)}
    for one in rest:
        yield from (variable for variable in literal_variables(one) if variable in there)
    yield from (term for term in head.terms if isinstance(term, Variable) and term in there)


def _relation(name: str, columns: Sequence[Variable], span: Span | None) -> Relation:
    kinds = [(column, kind_of_stored(column.type)) for column in columns]
    made = tuple(
        Column(variable.name, ValueType(str(kind), kind.domain, kind.type), kind.type)
        for variable, kind in kinds
    )
    return Relation(name, made, Kind.DERIVED, span, (None,) * len(made), selection=Numbered())


def _first(before: Sequence[Counter], span: Span) -> tuple[list[Literal], Expression | None]:
    """How many numbers the rules before take: literals that count them, and their sum."""
    literals: list[Literal] = []
    total: Expression | None = None
    for at, counter in enumerate(before):
        result = Variable(f"@before{at}", BIGINT)
        inner = tuple(Variable(f"{one.name}@{at}", one.type) for one in counter.columns)
        atom = Atom(counter.relation, inner, span)
        literals.append(BodyAggregate(result, "count", None, (atom,), (), span))
        part = _times(result, counter.calls)
        total = part if total is None else Call("add", (total, part), BIGINT)
    return literals, total


def _times(value: Expression, factor: int) -> Expression:
    return value if factor == 1 else Call("mul", (value, Constant(factor, BIGINT)), BIGINT)


def _sum(value: Expression, at: int, offset: Expression) -> Expression:
    for more in (Constant(at, BIGINT), offset):
        if more != ZERO:
            value = Call("add", (value, more), BIGINT)
    return value


def _calls(literal: Literal) -> Iterator[int]:
    """The numbers that a literal asks for, by what tells them apart."""
    if isinstance(literal, Assignment):
        yield from _places(literal.expression)
    elif isinstance(literal, Comparison):
        yield from (*_places(literal.left), *_places(literal.right))


def _places(expression: Expression) -> Iterator[int]:
    if isinstance(expression, Call) and expression.function == AUTOINC:
        (place,) = expression.args
        assert isinstance(place, Constant)
        yield int(place.value or 0)
    elif isinstance(expression, Call):
        for arg in expression.args:
            yield from _places(arg)


def _replaced(literal: Literal, numbers: Mapping[int, Expression]) -> Literal:
    if isinstance(literal, Assignment):
        return replace(literal, expression=_with(literal.expression, numbers))
    if isinstance(literal, Comparison):
        return replace(literal, left=_with(literal.left, numbers), right=_with(literal.right, numbers))
    return literal


def _with(expression: Expression, numbers: Mapping[int, Expression]) -> Expression:
    if not isinstance(expression, Call):
        return expression
    if expression.function == AUTOINC:
        return numbers[next(_places(expression))]
    return replace(expression, args=tuple(_with(arg, numbers) for arg in expression.args))
