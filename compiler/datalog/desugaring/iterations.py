"""``__ITERATION__()``: in which round, from 0, a recursive rule derives a tuple, as Soufflé counts them.

A rule that asks is applied to what is new only: for each of its recursive atoms it becomes a rule that wants
that one not to have been there a round before, ``R@old``. The number of the round is the tuple of ``@now``,
which is replaced from round to round and gone after the one that brings nothing new. The stratum is then
computed by rounds (``core.Limit``), and its relations keep what they have.

``debug_delta(R)`` has the tuples of R that recursive rules derive, with the round that each first comes in:
it is computed in those rounds too. That of a relation that is not recursive is empty.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.rules.core import (
    Assignment,
    Atom,
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
    Rule,
    ValueType,
    Variable,
    Wildcard,
)
from kpg.compiler.rules.strata import strata
from kpg.runtime.errors import Span
from kpg.runtime.types import BIGINT

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
