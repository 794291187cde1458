"""Clauses to flat rules: one head, a conjunction of literals, and local variables with names of their own."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import assert_never

from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.syntax.scopes import LOCAL, scoped
from kpg.compiler.datalog.syntax.walk import (
    FlatLiteral,
    all_variables,
    literal_expressions,
    transform,
    transform_literal,
)
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass

MOST_RULES = 10_000
"""Rules that one clause may stand for: as many as the product of its disjunctions, in one line of text."""
OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}

Conjunction = tuple[FlatLiteral, ...]


@dataclass(frozen=True, slots=True)
class FlatRule:
    """One head (None: a goal) over one conjunction; goals and updates take parameters."""

    head: ast.Atom | None
    body: Conjunction
    plan: ast.Plan | None
    span: Span
    is_fact: bool = False
    takes_parameters: bool = False


class TooMany(Exception):
    """A body stands for too many conjunctions."""


def written(name: str) -> str:
    """The variable as the user wrote it."""
    return name.split(LOCAL)[0]


def flatten(clause: ast.Clause, diagnostics: Diagnostics) -> list[FlatRule]:
    """The rules that a clause stands for."""
    parts = [arg for head in clause.heads for arg in head.args]
    names = frozenset(one.name for part in parts for one in all_variables(part))
    alternatives = [
        flat
        for body in _alternatives(clause.body, clause.span, diagnostics)
        for flat in _without_aliases(body, names)
    ]
    if len(alternatives) * len(clause.heads) > MOST_RULES:
        _too_many(clause.span, diagnostics)
        return []
    heads = [_flat_aggregates(head, diagnostics) for head in clause.heads]
    return [
        _scoped(FlatRule(head, body, clause.plan, clause.span, clause.body is None))
        for body in alternatives
        for head in heads
        if isinstance(head, ast.Atom)
    ]


def flatten_goal(goal: ast.Goal, diagnostics: Diagnostics) -> list[FlatRule]:
    """The conjunctions that a goal asks for."""
    bodies = _alternatives(goal.body, goal.span, diagnostics)
    return [_scoped(FlatRule(None, body, None, goal.span, takes_parameters=True)) for body in bodies]


def _alternatives(body: ast.Body | None, span: Span, diagnostics: Diagnostics) -> list[Conjunction]:
    if body is None:
        return [()]
    try:
        found = _disjuncts(body)
    except TooMany:
        _too_many(span, diagnostics)
        return []
    return [tuple(_flat_aggregates(literal, diagnostics) for literal in literals) for literals in found]


def _too_many(span: Span, diagnostics: Diagnostics) -> None:
    message = f"the rule stands for more than {MOST_RULES} rules"
    diagnostics.error("unsupported", message, span, hint="give its alternatives a relation of their own")


def _disjuncts(body: ast.Body) -> list[Conjunction]:
    """Disjunctive normal form."""
    match body:
        case ast.Or(parts=parts):
            found = [one for part in parts for one in _disjuncts(part)]
        case ast.And(parts=parts):
            choices = [_disjuncts(part) for part in parts]
            size = 1
            for choice in choices:
                size *= len(choice)
                if size > MOST_RULES:
                    raise TooMany
            found = [tuple(literal for one in chosen for literal in one) for chosen in product(*choices)]
        case ast.Truth(value=value):
            return [()] if value else []
        case ast.Not(body=inner):
            return [(body,)] if isinstance(inner, ast.Atom) else _disjuncts(_negated(inner))
        case ast.Comparison(operator="=" | "!=", left=ast.Record() as left, right=ast.Record() as right) if (
            len(left.args) == len(right.args)
        ):
            return _disjuncts(_by_fields(body, left, right))
        case ast.Atom() | ast.Comparison():
            return [(body,)]
        case _:
            assert_never(body)
    if len(found) > MOST_RULES:
        raise TooMany
    return found


def _by_fields(body: ast.Comparison, left: ast.Record, right: ast.Record) -> ast.Body:
    """Two records written out are compared by their fields, so that they need no type."""
    pairs = tuple(
        replace(body, left=one, right=other)
        for one, other in zip(left.args, right.args, strict=True)
        if body.operator != "=" or not any(isinstance(side, ast.Underscore) for side in (one, other))
    )
    return ast.And(pairs, body.span) if body.operator == "=" else ast.Or(pairs, body.span)


def _without_aliases(body: Conjunction, kept: frozenset[str]) -> list[Conjunction]:
    """The body without variables that only stand for records that are written out, but for those ``kept``."""
    found = list(body)
    for one in body:
        name, record = _alias(one)
        if record is None or name in kept:
            continue
        uses = [other for other in found if any(name == it.name for it in _variables(other))]
        records = [_alias(use) for use in uses]
        if len(uses) > 1 and all(alias == name and other is not None for alias, other in records):
            if any(name == it.name for _, other in records if other for it in all_variables(other)):
                continue
            found = [other for other in found if other not in uses]
            found += [
                ast.Comparison("=", record, other, use.span)
                for use, (_, other) in zip(uses, records, strict=True)
                if other is not None and other is not record
            ]
    return [body] if len(found) == len(body) else _disjuncts(ast.And(tuple(found), body[0].span))


def _alias(literal: FlatLiteral) -> tuple[str, ast.Record | None]:
    """The variable that is said to be a record, and that."""
    if isinstance(literal, ast.Comparison) and literal.operator == "=":
        for variable, record in ((literal.left, literal.right), (literal.right, literal.left)):
            if isinstance(variable, ast.Variable) and isinstance(record, ast.Record):
                return variable.name, record
    return "", None


def _variables(literal: FlatLiteral) -> Iterator[ast.Variable]:
    return (one for expression in literal_expressions(literal) for one in all_variables(expression))


def _negated(body: ast.Body) -> ast.Body:
    """The negation, pushed inwards."""
    match body:
        case ast.Or(parts=parts, span=span):
            return ast.And(tuple(_negated(part) for part in parts), span)
        case ast.And(parts=parts, span=span):
            return ast.Or(tuple(_negated(part) for part in parts), span)
        case ast.Truth(value=value, span=span):
            return ast.Truth(not value, span)
        case ast.Not(body=inner):
            return inner
        case ast.Comparison(operator=operator):
            return replace(body, operator=OPPOSITE[operator])
        case ast.Atom(span=span):
            return ast.Not(body, span)
        case _:
            assert_never(body)


def _flat_aggregates(literal: FlatLiteral, diagnostics: Diagnostics) -> FlatLiteral:
    """The literal with the bodies of its aggregates flat."""

    def change(expression: ast.Expression) -> ast.Expression:
        if not isinstance(expression, ast.Aggregate):
            return expression
        span = expression.body.span
        parts = tuple(
            ast.And(part, span) for part in _alternatives(expression.body, expression.span, diagnostics)
        )
        body = parts[0] if len(parts) == 1 else ast.Or(parts, span)
        value = None if expression.value is None else transform(expression.value, change)
        return replace(expression, body=body, value=value)

    return transform_literal(literal, change)


def _scoped(rule: FlatRule) -> FlatRule:
    """The rule with the variables of its aggregates in their scopes."""
    head, body = scoped(rule.head, rule.body)
    return replace(rule, head=head, body=body)
