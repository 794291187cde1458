"""Flattening: clauses to flat rules with one head, a conjunction of literals and renamed local variables.

Renaming implements Soufflé's scopes of aggregates. A variable in an aggregate's body that the enclosing rule
binds is *injected*: each of its values has an aggregate of its own. A variable of the operand that the body
binds is always local. A variable that the body binds and the rule reads, but does not bind, is a *witness*:
its values come from the bindings with the least or greatest operand. The rule then gets a copy of the body
in which the operand equals the result, which binds the witnesses.

An underscore beside the alternatives of an aggregate is one variable, the same in all alternatives.
"""

from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from itertools import count, product
from typing import Final, assert_never

from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.syntax.traverse import (
    FlatLiteral,
    all_variables,
    children,
    literal_expressions,
    literals,
    transform,
    transform_literal,
    variables,
    walk,
    with_literals,
)
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass

LOCAL: Final = "@"
"""Stands between the name of an aggregate's local variable and the number that sets it apart."""
TESTS: Final = ("match", "contains")
"""What looks like an atom and binds nothing."""
WITH_WITNESSES: Final = ("min", "max")

ScopesConjunction = tuple[FlatLiteral, ...]


def scoped(head: ast.Atom | None, body: ScopesConjunction) -> tuple[ast.Atom | None, ScopesConjunction]:
    """The rule with the local variables of its aggregates renamed apart, and literals for witnesses."""
    run = _Scoping(direct((*body, head) if head is not None else body), body)
    made = tuple(run.literal(one) for one in body)
    new_head = None if head is None else run.literal(head)
    assert new_head is None or isinstance(new_head, ast.Atom)
    return new_head, (*made, *run.extra)


def direct(body: Iterable[FlatLiteral]) -> set[str]:
    """The variables of literals that are in no aggregate."""
    return {
        variable.name
        for literal in body
        for expression in literal_expressions(literal)
        for variable in variables(expression)
    }


def grounded(
    body: Iterable[FlatLiteral], known: Iterable[str], unknown: ast.Aggregate | None = None
) -> set[str]:
    """The variables that a conjunction binds, ``known`` being bound; the result of ``unknown`` is not."""
    body, bound = tuple(body), set(known)
    size = -1
    while size < len(bound):
        size = len(bound)
        for one in body:
            if isinstance(one, ast.Atom) and one.name.text not in TESTS:
                bound |= {name for arg in one.args for name in _bindable(arg)}
            elif isinstance(one, ast.Comparison) and one.operator == "=":
                for left, right in ((one.left, one.right), (one.right, one.left)):
                    if _is_ground(right, bound, unknown):
                        bound |= set(_bindable(left))
    return bound


def _bindable(expression: ast.Expression) -> Iterator[str]:
    """The variables that an expression binds if its value is known."""
    if isinstance(expression, ast.Variable):
        yield expression.name
    elif isinstance(expression, ast.Record | ast.Dollar | ast.Cast):
        for part in children(expression):
            yield from _bindable(part)


def _is_ground(expression: ast.Expression, bound: set[str], unknown: ast.Aggregate | None) -> bool:
    return not any(
        part is unknown or (isinstance(part, ast.Variable) and part.name not in bound)
        for part in walk(expression)
    )


@dataclass(slots=True)
class _Scoping:
    """One scope, a rule's or an aggregate's; ``outer`` are the variables that it has, by their new names."""

    outer: set[str]
    body: ScopesConjunction
    known: frozenset[str] = frozenset()
    extra: list[FlatLiteral] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def literal(self, literal: FlatLiteral) -> FlatLiteral:
        def change(expression: ast.Expression) -> ast.Expression:
            return self.aggregate(expression) if isinstance(expression, ast.Aggregate) else expression

        return transform_literal(literal, change)

    def aggregate(self, one: ast.Aggregate) -> ast.Expression:
        """The aggregate in this scope; if it has witnesses, the variable that is its result."""
        value = () if one.value is None else (one.value,)
        operand = {variable.name for part in value for variable in variables(part)}
        used = direct(literals(one.body)) | operand
        bound = grounded(self.body, self.known, one)
        injected = (used & bound) - operand
        own = grounded(literals(one.body), injected)
        injected |= (operand & bound) - own
        named = grounded(self.body, self.known)  # ``Z = max Z*2 : {a(_, Z)}``: the rule has a Z of its own
        shared = (used & self.outer) - injected - (operand & named & own)
        inside = own - injected
        witnesses = shared & inside
        has_copy = one.function in WITH_WITNESSES and not isinstance(one.body, ast.Or)
        if witnesses and self.body and has_copy:
            return self._with_witnesses(one, used, injected | (shared - inside), injected | shared)
        return self._apart(one, used - injected - shared, bound)

    def _apart(self, one: ast.Aggregate, local: set[str], bound: set[str]) -> ast.Aggregate:
        """The aggregate with its own variables renamed, those of aggregates in it too."""
        number = next(self.numbers)
        found = _renamed(one, {name: f"{name}{LOCAL}{number}" for name in local})
        body = literals(found.body)
        inner = _Scoping(self.outer | direct(body) | bound, body, frozenset(bound), numbers=self.numbers)
        value = None if found.value is None else transform(found.value, inner.in_value)
        flat = with_literals(found.body, inner.literal)
        if inner.extra:
            flat = ast.And((*literals(flat), *inner.extra), flat.span)
        return replace(found, value=value, body=flat)

    def in_value(self, expression: ast.Expression) -> ast.Expression:
        """An aggregate in the operand of this one."""
        return self.aggregate(expression) if isinstance(expression, ast.Aggregate) else expression

    def _with_witnesses(
        self, one: ast.Aggregate, used: set[str], kept: set[str], visible: set[str]
    ) -> ast.Variable:
        bound = grounded(self.body, self.known, one)
        own = self._apart(one, used - kept, bound)
        number = next(self.numbers)
        copy = _renamed(one, {name: f"{name}{LOCAL}{number}" for name in used - visible})
        result = ast.Variable(f"result{LOCAL}{number}", one.span)
        self.extra.append(ast.Comparison("=", result, own, one.span))
        assert copy.value is not None
        inner = _Scoping(self.outer | used, literals(copy.body), frozenset(bound), numbers=self.numbers)
        self.extra += [inner.literal(literal) for literal in literals(copy.body)]
        self.extra += [*inner.extra, ast.Comparison("=", copy.value, result, one.span)]
        return result


def _renamed(aggregate: ast.Aggregate, names: dict[str, str]) -> ast.Aggregate:
    """The aggregate with variables under new names, in aggregates inside of it too."""

    def change(expression: ast.Expression) -> ast.Expression:
        if isinstance(expression, ast.Variable) and expression.name in names:
            return replace(expression, name=names[expression.name])
        if isinstance(expression, ast.Aggregate):
            return _renamed(expression, names)
        return expression

    value = None if aggregate.value is None else transform(aggregate.value, change)
    flat = with_literals(aggregate.body, lambda literal: transform_literal(literal, change))
    return replace(aggregate, value=value, body=flat)


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


def same_underscores(body: ast.Body) -> ast.Body:
    """The body of an aggregate without underscores in the atoms that stand beside alternatives."""
    if not isinstance(body, ast.And) or not any(isinstance(part, ast.Or) for part in body.parts):
        return body
    return replace(body, parts=tuple(_named(*numbered) for numbered in enumerate(body.parts)))


def _named(number: int, part: ast.Body) -> ast.Body:
    if not isinstance(part, ast.Atom):
        return part
    args = (
        ast.Variable(f"_{number}_{place}{LOCAL}", arg.span) if isinstance(arg, ast.Underscore) else arg
        for place, arg in enumerate(part.args)
    )
    return replace(part, args=tuple(args))
