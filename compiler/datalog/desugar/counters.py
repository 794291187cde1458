"""``__ITERATION__()``, ``debug_delta(R)`` and ``autoinc()``: numbers of rounds and of bindings.

``__ITERATION__()`` is the round, from 0, in which a recursive rule derives a tuple, as in Soufflé. Such a
rule applies to new tuples only: it becomes one rule per recursive atom, which requires that the atom's tuple
is not in ``R@old``, the relation one round before. The relation ``@now`` has the number of the round as its
one tuple, replaced each round and gone after the round that derives nothing new. The stratum is evaluated by
rounds (``core.Limit``), and its relations accumulate.

``debug_delta(R)`` has the tuples that recursive rules derive for R, each with its first round. It is empty if
R is not recursive.

``autoinc()`` outside recursion numbers all bindings of all rules 0, 1, 2, .... The order is that of the
relations' evaluation, then of the rules in the text, then of the variables' values in body order. Symbols
sort by first occurrence. So the numbers are a function of the facts, and an update may change them. A
relation ``@count`` has the bindings of a rule with their numbers in it, offset by the count of the rules
before.

``autoinc()`` in a recursive rule is the number that the database gives to a text: the rule and the values of
the variables that its atoms bind. It is unique per binding, stable while the binding holds, and otherwise
arbitrary.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Final

from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.types.declarations import kind_of_stored
from kpg.compiler.rules.core import (
    Assignment,
    Atom,
    BodyAggregate,
    Call,
    Column,
    Comparison,
    Constant,
    Domain,
    Expression,
    Head,
    Kind,
    Limit,
    Literal,
    Negation,
    Numbered,
    Relation,
    Rule,
    ValueType,
    Variable,
    Wildcard,
    literal_variables,
)
from kpg.compiler.rules.strata import strata
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass
from kpg.runtime.types import BIGINT, DOUBLE, TEXT

AUTOINC: Final = "$autoinc"
"""Stands for the number until the variables are known; its argument tells it from others of the rule."""


def has_counter(expression: Expression) -> bool:
    """Whether a number is asked for in the expression."""
    if not isinstance(expression, Call):
        return False
    return expression.function == AUTOINC or any(map(has_counter, expression.args))


def counted(literal: Literal) -> bool:
    """Whether a number is asked for in the literal."""
    if isinstance(literal, Comparison):
        return has_counter(literal.left) or has_counter(literal.right)
    return isinstance(literal, Assignment) and has_counter(literal.expression)


def in_literal(literal: Literal, rule: str, variables: Sequence[Variable]) -> Literal:
    """The literal with the numbers that it asks for."""
    if isinstance(literal, Assignment):
        return replace(literal, expression=numbered(literal.expression, rule, variables))
    if isinstance(literal, Comparison):
        sides = (numbered(literal.left, rule, variables), numbered(literal.right, rule, variables))
        return replace(literal, left=sides[0], right=sides[1])
    return literal


def numbered(expression: Expression, rule: str, variables: Sequence[Variable]) -> Expression:
    """The expression with the numbers that it asks for; ``variables`` are those of the rule's atoms."""
    if not isinstance(expression, Call):
        return expression
    if expression.function != AUTOINC:
        return replace(expression, args=tuple(numbered(arg, rule, variables) for arg in expression.args))
    fields = tuple(_text(variable) for variable in variables)
    (place,) = expression.args
    assert isinstance(place, Constant)
    name = Constant(f'"autoinc {place.value} of {rule}"', TEXT)
    return Call("$ord", (Call("$record", (name, *fields), TEXT),), BIGINT)


def of_atoms(body: Sequence[Literal]) -> tuple[Variable, ...]:
    """The variables that the atoms of a body bind."""
    found = (variable for one in body if isinstance(one, Atom) for variable in literal_variables(one))
    return tuple(dict.fromkeys(found))


def _text(variable: Variable) -> Expression:
    if variable.type in (BIGINT, DOUBLE):
        return Call("$show", (variable,), TEXT)
    value = variable if variable.type == TEXT else Call("cast", (variable,), TEXT)
    return Call("$quote", (value,), TEXT)


COUNTER_NUMBER: Final = Variable("@number", BIGINT)
COUNTER_ZERO: Final = Constant(0, BIGINT)


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
    columns = (*bound, COUNTER_NUMBER)
    relations[name] = _relation(name, columns, rule.span)
    counting = Rule(Head(name, (*bound, COUNTER_ZERO), rule.span), tuple(own), rule.span)
    first, offset = _first(before, rule.span)
    value = offset if offset is not None else COUNTER_ZERO
    numbers = {place: _sum(_times(COUNTER_NUMBER, len(calls)), at, value) for at, place in enumerate(calls)}
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
        if more != COUNTER_ZERO:
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
        return replace(literal, expression=_with_counter(literal.expression, numbers))
    if isinstance(literal, Comparison):
        return replace(
            literal, left=_with_counter(literal.left, numbers), right=_with_counter(literal.right, numbers)
        )
    return literal


def _with_counter(expression: Expression, numbers: Mapping[int, Expression]) -> Expression:
    if not isinstance(expression, Call):
        return expression
    if expression.function == AUTOINC:
        return numbers[next(_places(expression))]
    return replace(expression, args=tuple(_with_counter(arg, numbers) for arg in expression.args))


ITERATION: Final = "$iteration"
"""Stands for the number while rules are made."""
DELTA: Final = "$delta"
"""Stands in the one rule of a ``debug_delta``."""
OLD: Final = "@old"
NUMBER: Final = Variable("@iteration", BIGINT)
ZERO: Final = Constant(0, BIGINT)
COLUMN: Final = Column("n", ValueType("number", Domain.NUMBER, BIGINT), BIGINT)


def iterate(relations: dict[str, Relation], rules: list[Rule], diagnostics: Diagnostics) -> None:
    """Give the rules that ask in which round they are this, by relations and rules that are added."""
    deltas = {_only_atom(rule): rule for rule in rules if _asks(rule, DELTA)}
    if not deltas and not any(map(_asks, rules)):
        return
    made: dict[int, list[Rule]] = {}
    added: list[Rule] = []
    for number, stratum in enumerate(strata(dict(relations), rules)):
        asking = [rule for rule in stratum.rules if _asks(rule)]
        members = [name for name in stratum.relations if name in relations]
        shown = [deltas[name] for name in members if name in deltas]
        made |= {id(rule): [] for rule in shown}
        is_counted = any(_recursive(rule, members) for rule in asking) or bool(shown)
        if not stratum.is_recursive or not is_counted:
            made |= {id(rule): [_answered(rule, ZERO)] for rule in asking}
            continue
        span = (*asking, *shown)[0].span
        if any(relations[name].selection is not None or any(relations[name].aggregates) for name in members):
            what = "__ITERATION__()" if asking else "debug_delta"
            message = f"{what} beside relations that keep less than is derived is not supported"
            diagnostics.error("unsupported", message, span)
            continue
        now = f"@now{number}"
        made |= {id(rule): list(_versions(rule, members, now)) for rule in asking}
        names = [rule.head.relation for rule in shown]
        added += [_delta(rule, now) for rule in shown]
        added += _helpers(relations, members, names, {rule.head.relation for rule in asking}, now, span)
    rules[:] = [new for rule in rules for new in made.get(id(rule), [rule])] + added


def _helpers(
    relations: dict[str, Relation],
    members: Sequence[str],
    deltas: Sequence[str],
    keeping: set[str],
    now: str,
    span: Span,
) -> Iterator[Rule]:
    """The relations of what was there a round before, and of the round; rules for them."""
    begun = f"{now}.begun"
    olds = tuple(name + OLD for name in members)
    limit = Limit((), (now, begun, *members, *olds, *deltas))
    for name, selection in ((now, limit), (begun, None)):
        relations[name] = Relation(name, (COLUMN,), Kind.DERIVED, span, (None,), selection=selection)
    yield Rule(Head(begun, (ZERO,), span), (), span)
    started = Negation(Atom(begun, (ZERO,), span))
    yield Rule(Head(now, (ZERO,), span), (started,), span)
    before = Variable("n", BIGINT)
    following = Assignment(NUMBER, Call("add", (before, Constant(1, BIGINT)), BIGINT), span)
    for name in deltas:
        yield _kept(relations[name], span)
    for name in members:
        relation = relations[name]
        relations[name + OLD] = replace(relation, name=name + OLD, base=None, kind=Kind.DERIVED)
        terms = tuple(Variable(f"c{place}", type_) for place, type_ in enumerate(relation.types))
        there = Atom(name, terms, span)
        yield Rule(Head(name + OLD, terms, span), (there,), span)
        if name in keeping:
            yield Rule(Head(name, terms, span), (there,), span)
        is_new = Negation(Atom(name + OLD, terms, span))
        body = (Atom(now, (before,), span), there, is_new, following)
        yield Rule(Head(now, (NUMBER,), span), body, span)


def _kept(relation: Relation, span: Span) -> Rule:
    """What was there stays there."""
    terms = tuple(Variable(f"c{place}", type_) for place, type_ in enumerate(relation.types))
    return Rule(Head(relation.name, terms, span), (Atom(relation.name, terms, span),), span)


def _only_atom(rule: Rule) -> str:
    (name,) = (one.relation for one in rule.body if isinstance(one, Atom))
    return name


def _delta(rule: Rule, now: str) -> Rule:
    """The tuples that are new, and come of rules, with the round before: they came in that."""
    (atom,) = (one for one in rule.body if isinstance(one, Atom))
    before, span = Variable("@before", BIGINT), rule.span
    body = (
        atom,
        Negation(replace(atom, relation=atom.relation + OLD)),
        Atom(now, (NUMBER,), span),
        Comparison("gt", NUMBER, ZERO, span),
        Assignment(before, Call("sub", (NUMBER, Constant(1, BIGINT)), BIGINT), span),
    )
    return Rule(replace(rule.head, terms=(*rule.head.terms[:-1], before)), body, span)


def _versions(rule: Rule, members: Sequence[str], now: str) -> Iterator[Rule]:
    """The rule for what is new of each of its recursive atoms."""
    places = _recursive(rule, members)
    if not places:
        yield _answered(rule, ZERO)
    asked = _answered(rule, NUMBER)
    for place in places:
        atom = asked.body[place]
        assert isinstance(atom, Atom)
        terms = tuple(
            Variable(f"@{at}", term.type) if isinstance(term, Wildcard) else term
            for at, term in enumerate(atom.terms)
        )
        body = list(asked.body)
        body[place] = replace(atom, terms=terms)
        is_new = Negation(replace(atom, relation=atom.relation + OLD, terms=terms))
        yield replace(asked, body=(*body, is_new, Atom(now, (NUMBER,), rule.span)), plan=())


def _recursive(rule: Rule, members: Sequence[str]) -> list[int]:
    return [at for at, one in enumerate(rule.body) if isinstance(one, Atom) and one.relation in members]


def _asks(rule: Rule, what: str = ITERATION) -> bool:
    return any(_in_literal(one, what) for one in rule.body)


def _in_literal(literal: Literal, what: str) -> bool:
    if isinstance(literal, Comparison):
        return _in(literal.left, what) or _in(literal.right, what)
    return isinstance(literal, Assignment) and _in(literal.expression, what)


def _in(expression: Expression, what: str) -> bool:
    if not isinstance(expression, Call):
        return False
    return expression.function == what or any(_in(arg, what) for arg in expression.args)


def _answered(rule: Rule, number: Expression) -> Rule:
    return replace(rule, body=tuple(_with(one, number) for one in rule.body))


def _with(literal: Literal, number: Expression) -> Literal:
    if isinstance(literal, Comparison):
        return replace(literal, left=_put(literal.left, number), right=_put(literal.right, number))
    if isinstance(literal, Assignment):
        return replace(literal, expression=_put(literal.expression, number))
    return literal


def _put(expression: Expression, number: Expression) -> Expression:
    if not isinstance(expression, Call):
        return expression
    if expression.function == ITERATION:
        return number
    return replace(expression, args=tuple(_put(arg, number) for arg in expression.args))
