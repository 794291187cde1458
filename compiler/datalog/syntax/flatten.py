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
    map_literals,
    transform,
    transform_literal,
    variables,
    walk,
)
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass

LOCAL_MARK: Final = "@"
"""Separator between the name of an aggregate's local variable and its number."""
TESTS: Final = ("match", "contains")
"""Predicates that look like atoms and bind nothing."""
WITH_WITNESSES: Final = ("min", "max")

ScopesConjunction = tuple[FlatLiteral, ...]


def rename_locals(
    head: ast.Atom | None, body: ScopesConjunction
) -> tuple[ast.Atom | None, ScopesConjunction]:
    """Return the rule with unique names for the local variables of aggregates, and literals for witnesses."""
    run = _Scope(direct_variables((*body, head) if head is not None else body), body)
    new_body = tuple(run.literal(literal) for literal in body)
    new_head = None if head is None else run.literal(head)
    assert new_head is None or isinstance(new_head, ast.Atom)
    return new_head, (*new_body, *run.extra)


def direct_variables(body: Iterable[FlatLiteral]) -> set[str]:
    """Return the variables of literals outside of aggregates."""
    return {
        variable.name
        for literal in body
        for expression in literal_expressions(literal)
        for variable in variables(expression)
    }


def ground_variables(
    body: Iterable[FlatLiteral], bound_names: Iterable[str], excluded: ast.Aggregate | None = None
) -> set[str]:
    """Return the variables that a conjunction binds, with those in ``bound_names``.

    The result of the aggregate ``excluded`` does not bind any.
    """
    body, bound = tuple(body), set(bound_names)
    size = -1
    while size < len(bound):
        size = len(bound)
        for literal in body:
            if isinstance(literal, ast.Atom) and literal.name.text not in TESTS:
                bound |= {name for arg in literal.args for name in _bindable_variables(arg)}
            elif isinstance(literal, ast.Comparison) and literal.operator == "=":
                for left, right in ((literal.left, literal.right), (literal.right, literal.left)):
                    if _is_ground(right, bound, excluded):
                        bound |= set(_bindable_variables(left))
    return bound


def _bindable_variables(expression: ast.Expression) -> Iterator[str]:
    """Yield the variables that an expression binds if its value is known."""
    if isinstance(expression, ast.Variable):
        yield expression.name
    elif isinstance(expression, ast.Record | ast.Dollar | ast.Cast):
        for part in children(expression):
            yield from _bindable_variables(part)


def _is_ground(expression: ast.Expression, bound: set[str], excluded: ast.Aggregate | None) -> bool:
    return not any(
        part is excluded or (isinstance(part, ast.Variable) and part.name not in bound)
        for part in walk(expression)
    )


@dataclass(slots=True)
class _Scope:
    """A scope of a rule or aggregate.

    ``outer`` are its variables, by their new names.
    """

    outer: set[str]
    body: ScopesConjunction
    bound_names: frozenset[str] = frozenset()
    extra: list[FlatLiteral] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def literal(self, literal: FlatLiteral) -> FlatLiteral:
        def change(expression: ast.Expression) -> ast.Expression:
            return self.aggregate(expression) if isinstance(expression, ast.Aggregate) else expression

        return transform_literal(literal, change)

    def aggregate(self, expression: ast.Aggregate) -> ast.Expression:
        """Return the renamed aggregate, or its result variable if it has witnesses."""
        value = () if expression.value is None else (expression.value,)
        operand = {variable.name for part in value for variable in variables(part)}
        used = direct_variables(literals(expression.body)) | operand
        bound = ground_variables(self.body, self.bound_names, expression)
        injected = (used & bound) - operand
        own = ground_variables(literals(expression.body), injected)
        injected |= (operand & bound) - own
        bound_elsewhere = ground_variables(
            self.body, self.bound_names
        )  # ``Z = max Z*2 : {a(_, Z)}``: the rule has a Z of its own
        shared = (used & self.outer) - injected - (operand & bound_elsewhere & own)
        inside = own - injected
        witnesses = shared & inside
        has_copy = expression.function in WITH_WITNESSES and not isinstance(expression.body, ast.Or)
        if witnesses and self.body and has_copy:
            return self._with_witnesses(expression, used, injected | (shared - inside), injected | shared)
        return self._rename_locals(expression, used - injected - shared, bound)

    def _rename_locals(self, expression: ast.Aggregate, local: set[str], bound: set[str]) -> ast.Aggregate:
        """Return the aggregate with unique names for its local variables, also in nested aggregates."""
        number = next(self.numbers)
        found = _rename(expression, {name: f"{name}{LOCAL_MARK}{number}" for name in local})
        body = literals(found.body)
        inner = _Scope(
            self.outer | direct_variables(body) | bound, body, frozenset(bound), numbers=self.numbers
        )
        value = None if found.value is None else transform(found.value, inner.rename_in_value)
        flat = map_literals(found.body, inner.literal)
        if inner.extra:
            flat = ast.And((*literals(flat), *inner.extra), flat.span)
        return replace(found, value=value, body=flat)

    def rename_in_value(self, expression: ast.Expression) -> ast.Expression:
        """Rename the local variables of an aggregate in the operand of another one."""
        return self.aggregate(expression) if isinstance(expression, ast.Aggregate) else expression

    def _with_witnesses(
        self, expression: ast.Aggregate, used: set[str], shared: set[str], visible: set[str]
    ) -> ast.Variable:
        bound = ground_variables(self.body, self.bound_names, expression)
        own = self._rename_locals(expression, used - shared, bound)
        number = next(self.numbers)
        copy = _rename(expression, {name: f"{name}{LOCAL_MARK}{number}" for name in used - visible})
        result = ast.Variable(f"result{LOCAL_MARK}{number}", expression.span)
        self.extra.append(ast.Comparison("=", result, own, expression.span))
        assert copy.value is not None
        inner = _Scope(self.outer | used, literals(copy.body), frozenset(bound), numbers=self.numbers)
        self.extra += [inner.literal(literal) for literal in literals(copy.body)]
        self.extra += [*inner.extra, ast.Comparison("=", copy.value, result, expression.span)]
        return result


def _rename(aggregate: ast.Aggregate, names: dict[str, str]) -> ast.Aggregate:
    """Return the aggregate with renamed variables, also in nested aggregates."""

    def change(expression: ast.Expression) -> ast.Expression:
        if isinstance(expression, ast.Variable) and expression.name in names:
            return replace(expression, name=names[expression.name])
        if isinstance(expression, ast.Aggregate):
            return _rename(expression, names)
        return expression

    value = None if aggregate.value is None else transform(aggregate.value, change)
    flat = map_literals(aggregate.body, lambda literal: transform_literal(literal, change))
    return replace(aggregate, value=value, body=flat)


MAX_RULES = 10_000
"""Maximum number of flat rules per clause.

It is the product of the clause's disjunctions.
"""
OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}

Conjunction = tuple[FlatLiteral, ...]


@dataclass(frozen=True, slots=True)
class FlatRule:
    """One head, or None for a goal, over one conjunction.

    Goals and updates take parameters.
    """

    head: ast.Atom | None
    body: Conjunction
    plan: ast.Plan | None
    span: Span
    is_fact: bool = False
    takes_parameters: bool = False


class TooManyRules(Exception):
    """A body has more than ``MAX_RULES`` conjunctions."""


def original_name(name: str) -> str:
    """Return the variable's name as the user wrote it."""
    return name.split(LOCAL_MARK)[0]


def flatten(clause: ast.Clause, diagnostics: Diagnostics) -> list[FlatRule]:
    """Return the flat rules of a clause."""
    parts = [arg for head in clause.heads for arg in head.args]
    names = frozenset(variable.name for part in parts for variable in all_variables(part))
    alternatives = [
        flat
        for body in _alternatives(clause.body, clause.span, diagnostics)
        for flat in _inline_aliases(body, names)
    ]
    if len(alternatives) * len(clause.heads) > MAX_RULES:
        _report_too_many(clause.span, diagnostics)
        return []
    heads = [_flatten_aggregates(head, diagnostics) for head in clause.heads]
    return [
        _rename_rule_locals(FlatRule(head, body, clause.plan, clause.span, clause.body is None))
        for body in alternatives
        for head in heads
        if isinstance(head, ast.Atom)
    ]


def flatten_goal(goal: ast.Goal, diagnostics: Diagnostics) -> list[FlatRule]:
    """Return the conjunctions of a goal as flat rules."""
    bodies = _alternatives(goal.body, goal.span, diagnostics)
    return [
        _rename_rule_locals(FlatRule(None, body, None, goal.span, takes_parameters=True)) for body in bodies
    ]


def _alternatives(body: ast.Body | None, span: Span, diagnostics: Diagnostics) -> list[Conjunction]:
    if body is None:
        return [()]
    try:
        found = _disjuncts(body)
    except TooManyRules:
        _report_too_many(span, diagnostics)
        return []
    return [tuple(_flatten_aggregates(literal, diagnostics) for literal in literals) for literals in found]


def _report_too_many(span: Span, diagnostics: Diagnostics) -> None:
    message = f"the rule stands for more than {MAX_RULES} rules"
    diagnostics.error("unsupported", message, span, hint="give its alternatives a relation of their own")


def _disjuncts(body: ast.Body) -> list[Conjunction]:
    """Return the disjunctive normal form of a body."""
    match body:
        case ast.Or(parts=parts):
            found = [one for part in parts for one in _disjuncts(part)]
        case ast.And(parts=parts):
            choices = [_disjuncts(part) for part in parts]
            size = 1
            for choice in choices:
                size *= len(choice)
                if size > MAX_RULES:
                    raise TooManyRules
            found = [tuple(literal for one in chosen for literal in one) for chosen in product(*choices)]
        case ast.Truth(value=value):
            return [()] if value else []
        case ast.Not(body=inner):
            return [(body,)] if isinstance(inner, ast.Atom) else _disjuncts(_negate(inner))
        case ast.Comparison(operator="=" | "!=", left=ast.Record() as left, right=ast.Record() as right) if (
            len(left.args) == len(right.args)
        ):
            return _disjuncts(_compare_fields(body, left, right))
        case ast.Atom() | ast.Comparison():
            return [(body,)]
        case _:
            assert_never(body)
    if len(found) > MAX_RULES:
        raise TooManyRules
    return found


def _compare_fields(body: ast.Comparison, left: ast.Record, right: ast.Record) -> ast.Body:
    """Return the comparison of two record literals as comparisons of fields, which need no record type."""
    pairs = tuple(
        replace(body, left=one, right=other)
        for one, other in zip(left.args, right.args, strict=True)
        if body.operator != "=" or not any(isinstance(side, ast.Underscore) for side in (one, other))
    )
    return ast.And(pairs, body.span) if body.operator == "=" else ast.Or(pairs, body.span)


def _inline_aliases(body: Conjunction, protected: frozenset[str]) -> list[Conjunction]:
    """Return the body without variables that only alias record literals, except the ``protected`` ones."""
    found = list(body)
    for literal in body:
        name, record = _alias(literal)
        if record is None or name in protected:
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
    """Return the variable that a literal equates with a record, and the record."""
    if isinstance(literal, ast.Comparison) and literal.operator == "=":
        for variable, record in ((literal.left, literal.right), (literal.right, literal.left)):
            if isinstance(variable, ast.Variable) and isinstance(record, ast.Record):
                return variable.name, record
    return "", None


def _variables(literal: FlatLiteral) -> Iterator[ast.Variable]:
    return (variable for expression in literal_expressions(literal) for variable in all_variables(expression))


def _negate(body: ast.Body) -> ast.Body:
    """Return the negation of a body in negation normal form."""
    match body:
        case ast.Or(parts=parts, span=span):
            return ast.And(tuple(_negate(part) for part in parts), span)
        case ast.And(parts=parts, span=span):
            return ast.Or(tuple(_negate(part) for part in parts), span)
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


def _flatten_aggregates(literal: FlatLiteral, diagnostics: Diagnostics) -> FlatLiteral:
    """Return the literal with flattened bodies of aggregates."""

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


def _rename_rule_locals(rule: FlatRule) -> FlatRule:
    head, body = rename_locals(rule.head, rule.body)
    return replace(rule, head=head, body=body)


def name_shared_underscores(body: ast.Body) -> ast.Body:
    """Replace underscores beside the alternatives of an aggregate's body by variables."""
    if not isinstance(body, ast.And) or not any(isinstance(part, ast.Or) for part in body.parts):
        return body
    return replace(body, parts=tuple(_name_underscores(*numbered) for numbered in enumerate(body.parts)))


def _name_underscores(number: int, part: ast.Body) -> ast.Body:
    if not isinstance(part, ast.Atom):
        return part
    args = (
        ast.Variable(f"_{number}_{place}{LOCAL_MARK}", arg.span) if isinstance(arg, ast.Underscore) else arg
        for place, arg in enumerate(part.args)
    )
    return replace(part, args=tuple(args))
