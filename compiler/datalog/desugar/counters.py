"""``__ITERATION__()``, ``debug_delta(R)`` and ``autoinc()``: numbers of rounds and of bindings.

``__ITERATION__()`` is the round, from 0, in which a recursive rule derives a tuple, as in
Soufflé. Such a rule applies to new tuples only. It becomes one rule per recursive atom, which
requires that the atom's tuple is not in ``R@old``, the relation one round before. The relation
``@now`` has the number of the round as its single tuple. It is replaced each round, and empty
after the round that derives nothing new. The stratum is evaluated by rounds (``core.Limit``), and
its relations accumulate.

``debug_delta(R)`` has the tuples that recursive rules derive for R, each with its first round. It
is empty if R is not recursive.

``autoinc()`` outside recursion numbers all bindings of all rules 0, 1, 2, .... The order is that
of the relations' evaluation, then of the rules in the text, then of the variables' values in body
order. Symbols sort by first occurrence. So the numbers are a function of the facts, and an update
may change them. A relation ``@count`` has the numbered bindings of a rule, offset by the counts
of earlier rules.

``autoinc()`` in a recursive rule is the dictionary code of a text, made of the rule and the
values of the variables that its atoms bind. It is unique per binding, stable while the binding
holds, and otherwise arbitrary.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Final

from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.types.declarations import kind_of_sql_type
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
    Relation,
    RowNumbering,
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
"""Placeholder function for the number.

Its argument identifies the call within the rule.
"""


def has_counter(expression: Expression) -> bool:
    """Return whether the expression contains ``autoinc()``."""
    if not isinstance(expression, Call):
        return False
    return expression.function == AUTOINC or any(map(has_counter, expression.args))


def has_counter_literal(literal: Literal) -> bool:
    """Return whether the literal contains ``autoinc()``."""
    if isinstance(literal, Comparison):
        return has_counter(literal.left) or has_counter(literal.right)
    return isinstance(literal, Assignment) and has_counter(literal.expression)


def number_literal(literal: Literal, rule: str, variables: Sequence[Variable]) -> Literal:
    """Return the literal with dictionary codes for its ``autoinc()`` calls."""
    if isinstance(literal, Assignment):
        return replace(literal, expression=number_expression(literal.expression, rule, variables))
    if isinstance(literal, Comparison):
        sides = (
            number_expression(literal.left, rule, variables),
            number_expression(literal.right, rule, variables),
        )
        return replace(literal, left=sides[0], right=sides[1])
    return literal


def number_expression(expression: Expression, rule: str, variables: Sequence[Variable]) -> Expression:
    """Return the expression with dictionary codes for ``autoinc()``; ``variables`` are those of the atoms."""
    if not isinstance(expression, Call):
        return expression
    if expression.function != AUTOINC:
        return replace(
            expression, args=tuple(number_expression(arg, rule, variables) for arg in expression.args)
        )
    fields = tuple(_text(variable) for variable in variables)
    (place,) = expression.args
    assert isinstance(place, Constant)
    name = Constant(f'"autoinc {place.value} of {rule}"', TEXT)
    return Call("$ord", (Call("$record", (name, *fields), TEXT),), BIGINT)


def atom_variables(body: Sequence[Literal]) -> tuple[Variable, ...]:
    """Return the variables that the atoms of a body bind."""
    found = (
        variable for literal in body if isinstance(literal, Atom) for variable in literal_variables(literal)
    )
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
    """The relation of a rule's numbered bindings, and the number of ``autoinc()`` calls per binding."""

    relation: str
    columns: tuple[Variable, ...]
    calls: int


def expand_autoinc(relations: dict[str, Relation], rules: list[Rule]) -> None:
    """Replace rules with ``autoinc()`` by rules that compute the numbers, and add their relations."""
    if not any(has_counter_literal(one) for rule in rules for one in rule.body):
        return
    before: list[Counter] = []
    names = (name for number in count(1) if (name := f"@count{number}") not in relations)
    replacements: dict[int, list[Rule]] = {}
    for stratum in strata(dict(relations), rules):
        for rule in stratum.rules:
            if any(map(has_counter_literal, rule.body)):
                place = next(at for at, one in enumerate(rules) if one is rule)
                if stratum.is_recursive:
                    replacements[place] = [_number_by_code(rule, place)]
                else:
                    replacements[place] = _number_by_count(rule, next(names), before, relations)
    rules[:] = [new for place, rule in enumerate(rules) for new in replacements.get(place, [rule])]


def _number_by_code(rule: Rule, place: int) -> Rule:
    """Return the rule with dictionary codes, which are stable in recursion."""
    label, bound = f"{rule.head.relation} {place}", atom_variables(rule.body)
    return replace(rule, body=tuple(number_literal(literal, label, bound) for literal in rule.body))


def _number_by_count(
    rule: Rule, name: str, before: list[Counter], relations: dict[str, Relation]
) -> list[Rule]:
    plain, rest = _split_by_counter(rule.body)
    bound = list(dict.fromkeys((*atom_variables(plain), *_needed_variables(plain, rest, rule.head))))
    calls = list(dict.fromkeys(place for literal in rest for place in _literal_calls(literal)))
    columns = (*bound, COUNTER_NUMBER)
    relations[name] = _relation(name, columns, rule.span)
    count_rule = Rule(Head(name, (*bound, COUNTER_ZERO), rule.span), tuple(plain), rule.span)
    first, offset = _offset(before, rule.span)
    value = offset if offset is not None else COUNTER_ZERO
    numbers = {
        place: _sum(_multiply(COUNTER_NUMBER, len(calls)), at, value) for at, place in enumerate(calls)
    }
    body = (
        Atom(name, columns, rule.span),
        *first,
        *(_replace_counters(literal, numbers) for literal in rest),
    )
    before.append(Counter(name, columns, len(calls)))
    return [count_rule, replace(rule, body=body, plan=())]


def _split_by_counter(body: Sequence[Literal]) -> tuple[list[Literal], list[Literal]]:
    """Return the literals that do not depend on ``autoinc()``, and those that do."""
    plain: list[Literal] = []
    rest: list[Literal] = []
    dependent: set[Variable] = set()
    for literal in body:
        if has_counter_literal(literal) or not dependent.isdisjoint(literal_variables(literal)):
            rest.append(literal)
            if isinstance(literal, Assignment):
                dependent.add(literal.variable)
        else:
            plain.append(literal)
    return plain, rest


def _needed_variables(own: Sequence[Literal], rest: Sequence[Literal], head: Head) -> Iterator[Variable]:
    """Yield the variables of plain literals that the other literals or the head read."""
    available = {variable for one in own for variable in literal_variables(one)}
    for literal in rest:
        yield from (variable for variable in literal_variables(literal) if variable in available)
    yield from (term for term in head.terms if isinstance(term, Variable) and term in available)


def _relation(name: str, columns: Sequence[Variable], span: Span | None) -> Relation:
    kinds = [(column, kind_of_sql_type(column.type)) for column in columns]
    relation_columns = tuple(
        Column(variable.name, ValueType(str(kind), kind.domain, kind.type), kind.type)
        for variable, kind in kinds
    )
    return Relation(
        name, relation_columns, Kind.DERIVED, span, (None,) * len(relation_columns), selection=RowNumbering()
    )


def _offset(before: Sequence[Counter], span: Span) -> tuple[list[Literal], Expression | None]:
    """Return literals that count the numbers of earlier rules, and the expression for their sum."""
    literals: list[Literal] = []
    total: Expression | None = None
    for at, counter in enumerate(before):
        result = Variable(f"@before{at}", BIGINT)
        inner = tuple(Variable(f"{column.name}@{at}", column.type) for column in counter.columns)
        atom = Atom(counter.relation, inner, span)
        literals.append(BodyAggregate(result, "count", None, (atom,), (), span))
        part = _multiply(result, counter.calls)
        total = part if total is None else Call("add", (total, part), BIGINT)
    return literals, total


def _multiply(value: Expression, factor: int) -> Expression:
    return value if factor == 1 else Call("mul", (value, Constant(factor, BIGINT)), BIGINT)


def _sum(value: Expression, at: int, offset: Expression) -> Expression:
    for more in (Constant(at, BIGINT), offset):
        if more != COUNTER_ZERO:
            value = Call("add", (value, more), BIGINT)
    return value


def _literal_calls(literal: Literal) -> Iterator[int]:
    """Yield the identifiers of a literal's ``autoinc()`` calls."""
    if isinstance(literal, Assignment):
        yield from _expression_calls(literal.expression)
    elif isinstance(literal, Comparison):
        yield from (*_expression_calls(literal.left), *_expression_calls(literal.right))


def _expression_calls(expression: Expression) -> Iterator[int]:
    if isinstance(expression, Call) and expression.function == AUTOINC:
        (place,) = expression.args
        assert isinstance(place, Constant)
        yield int(place.value or 0)
    elif isinstance(expression, Call):
        for arg in expression.args:
            yield from _expression_calls(arg)


def _replace_counters(literal: Literal, numbers: Mapping[int, Expression]) -> Literal:
    if isinstance(literal, Assignment):
        return replace(literal, expression=_replace_counter(literal.expression, numbers))
    if isinstance(literal, Comparison):
        return replace(
            literal,
            left=_replace_counter(literal.left, numbers),
            right=_replace_counter(literal.right, numbers),
        )
    return literal


def _replace_counter(expression: Expression, numbers: Mapping[int, Expression]) -> Expression:
    if not isinstance(expression, Call):
        return expression
    if expression.function == AUTOINC:
        return numbers[next(_expression_calls(expression))]
    return replace(expression, args=tuple(_replace_counter(arg, numbers) for arg in expression.args))


ITERATION: Final = "$iteration"
"""Placeholder function for the round."""
DELTA: Final = "$delta"
"""Placeholder function in the rule of a ``debug_delta``."""
OLD_SUFFIX: Final = "@old"
NUMBER: Final = Variable("@iteration", BIGINT)
ZERO: Final = Constant(0, BIGINT)
COLUMN: Final = Column("n", ValueType("number", Domain.NUMBER, BIGINT), BIGINT)


def expand_iteration(relations: dict[str, Relation], rules: list[Rule], diagnostics: Diagnostics) -> None:
    """Replace rules with ``__ITERATION__()`` or ``debug_delta`` by rules over rounds, and add relations."""
    deltas = {_only_atom(rule): rule for rule in rules if _mentions(rule, DELTA)}
    if not deltas and not any(map(_mentions, rules)):
        return
    replacements: dict[int, list[Rule]] = {}
    added: list[Rule] = []
    for number, stratum in enumerate(strata(dict(relations), rules)):
        iteration_rules = [rule for rule in stratum.rules if _mentions(rule)]
        members = [name for name in stratum.relations if name in relations]
        delta_rules = [deltas[name] for name in members if name in deltas]
        replacements |= {id(rule): [] for rule in delta_rules}
        is_counted = any(_recursive_places(rule, members) for rule in iteration_rules) or bool(delta_rules)
        if not stratum.is_recursive or not is_counted:
            replacements |= {id(rule): [_replace_round(rule, ZERO)] for rule in iteration_rules}
            continue
        span = (*iteration_rules, *delta_rules)[0].span
        if any(relations[name].selection is not None or any(relations[name].aggregates) for name in members):
            what = "__ITERATION__()" if iteration_rules else "debug_delta"
            message = f"{what} beside relations that keep less than is derived is not supported"
            diagnostics.error("unsupported", message, span)
            continue
        now = f"@now{number}"
        replacements |= {id(rule): list(_versions(rule, members, now)) for rule in iteration_rules}
        names = [rule.head.relation for rule in delta_rules]
        added += [_delta_rule(rule, now) for rule in delta_rules]
        added += _round_rules(
            relations, members, names, {rule.head.relation for rule in iteration_rules}, now, span
        )
    rules[:] = [new for rule in rules for new in replacements.get(id(rule), [rule])] + added


def _round_rules(
    relations: dict[str, Relation],
    members: Sequence[str],
    deltas: Sequence[str],
    accumulating: set[str],
    now: str,
    span: Span,
) -> Iterator[Rule]:
    """Add the relations of the round and of the previous tuples, and yield their rules."""
    begun = f"{now}.begun"
    olds = tuple(name + OLD_SUFFIX for name in members)
    limit = Limit((), (now, begun, *members, *olds, *deltas))
    for name, selection in ((now, limit), (begun, None)):
        relations[name] = Relation(name, (COLUMN,), Kind.DERIVED, span, (None,), selection=selection)
    yield Rule(Head(begun, (ZERO,), span), (), span)
    started = Negation(Atom(begun, (ZERO,), span))
    yield Rule(Head(now, (ZERO,), span), (started,), span)
    before = Variable("n", BIGINT)
    following = Assignment(NUMBER, Call("add", (before, Constant(1, BIGINT)), BIGINT), span)
    for name in deltas:
        yield _accumulation_rule(relations[name], span)
    for name in members:
        relation = relations[name]
        relations[name + OLD_SUFFIX] = replace(relation, name=name + OLD_SUFFIX, base=None, kind=Kind.DERIVED)
        terms = tuple(Variable(f"c{place}", type_) for place, type_ in enumerate(relation.types))
        there = Atom(name, terms, span)
        yield Rule(Head(name + OLD_SUFFIX, terms, span), (there,), span)
        if name in accumulating:
            yield Rule(Head(name, terms, span), (there,), span)
        is_new = Negation(Atom(name + OLD_SUFFIX, terms, span))
        body = (Atom(now, (before,), span), there, is_new, following)
        yield Rule(Head(now, (NUMBER,), span), body, span)


def _accumulation_rule(relation: Relation, span: Span) -> Rule:
    """Return the rule by which tuples of earlier rounds persist."""
    terms = tuple(Variable(f"c{place}", type_) for place, type_ in enumerate(relation.types))
    return Rule(Head(relation.name, terms, span), (Atom(relation.name, terms, span),), span)


def _only_atom(rule: Rule) -> str:
    (name,) = (literal.relation for literal in rule.body if isinstance(literal, Atom))
    return name


def _delta_rule(rule: Rule, now: str) -> Rule:
    """Return the rule for the new derived tuples, with the previous round, in which they were derived."""
    (atom,) = (literal for literal in rule.body if isinstance(literal, Atom))
    before, span = Variable("@before", BIGINT), rule.span
    body = (
        atom,
        Negation(replace(atom, relation=atom.relation + OLD_SUFFIX)),
        Atom(now, (NUMBER,), span),
        Comparison("gt", NUMBER, ZERO, span),
        Assignment(before, Call("sub", (NUMBER, Constant(1, BIGINT)), BIGINT), span),
    )
    return Rule(replace(rule.head, terms=(*rule.head.terms[:-1], before)), body, span)


def _versions(rule: Rule, members: Sequence[str], now: str) -> Iterator[Rule]:
    """Yield the rule once per recursive atom, restricted to new tuples of that atom."""
    places = _recursive_places(rule, members)
    if not places:
        yield _replace_round(rule, ZERO)
    numbered_rule = _replace_round(rule, NUMBER)
    for place in places:
        atom = numbered_rule.body[place]
        assert isinstance(atom, Atom)
        terms = tuple(
            Variable(f"@{at}", term.type) if isinstance(term, Wildcard) else term
            for at, term in enumerate(atom.terms)
        )
        body = list(numbered_rule.body)
        body[place] = replace(atom, terms=terms)
        is_new = Negation(replace(atom, relation=atom.relation + OLD_SUFFIX, terms=terms))
        yield replace(numbered_rule, body=(*body, is_new, Atom(now, (NUMBER,), rule.span)), plan=())


def _recursive_places(rule: Rule, members: Sequence[str]) -> list[int]:
    return [at for at, one in enumerate(rule.body) if isinstance(one, Atom) and one.relation in members]


def _mentions(rule: Rule, function: str = ITERATION) -> bool:
    return any(_literal_mentions(literal, function) for literal in rule.body)


def _literal_mentions(literal: Literal, function: str) -> bool:
    if isinstance(literal, Comparison):
        return _expression_mentions(literal.left, function) or _expression_mentions(literal.right, function)
    return isinstance(literal, Assignment) and _expression_mentions(literal.expression, function)


def _expression_mentions(expression: Expression, function: str) -> bool:
    if not isinstance(expression, Call):
        return False
    return expression.function == function or any(
        _expression_mentions(arg, function) for arg in expression.args
    )


def _replace_round(rule: Rule, number: Expression) -> Rule:
    return replace(rule, body=tuple(_replace_round_in_literal(literal, number) for literal in rule.body))


def _replace_round_in_literal(literal: Literal, number: Expression) -> Literal:
    if isinstance(literal, Comparison):
        return replace(
            literal,
            left=_replace_round_in_expression(literal.left, number),
            right=_replace_round_in_expression(literal.right, number),
        )
    if isinstance(literal, Assignment):
        return replace(literal, expression=_replace_round_in_expression(literal.expression, number))
    return literal


def _replace_round_in_expression(expression: Expression, number: Expression) -> Expression:
    if not isinstance(expression, Call):
        return expression
    if expression.function == ITERATION:
        return number
    return replace(
        expression, args=tuple(_replace_round_in_expression(arg, number) for arg in expression.args)
    )
