"""Clauses to flat rules: one head, a conjunction of literals, and local variables with names of their own."""

from dataclasses import replace
from itertools import product
from typing import assert_never

from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.syntax.scopes import LOCAL, scoped
from kpg.compiler.datalog.syntax.walk import (
    FlatLiteral,
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
    alternatives = _alternatives(clause.body, clause.span, diagnostics)
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
        case ast.Atom() | ast.Comparison():
            return [(body,)]
        case _:
            assert_never(body)
    if len(found) > MOST_RULES:
        raise TooMany
    return found


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
