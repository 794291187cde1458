"""Which variable of an aggregate is which: Soufflé's scopes, carried out by renaming.

A variable of an aggregate's body that the enclosing rule has too is *injected* if the rule binds it: each of
its values there has an aggregate of its own. Unless the body binds it and it is in the operand, for what is
aggregated is always the aggregate's own. One that the body binds, and the rule does not, is a *witness*: it
is of the bindings that have the least or greatest value. The rule then gets a copy of the body in which the
operand is the result, which binds the witnesses.
"""

from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from itertools import count
from typing import Final

from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.syntax.walk import (
    FlatLiteral,
    children,
    literal_expressions,
    literals,
    transform,
    transform_literal,
    variables,
    walk,
    with_literals,
)
from kpg.runtime.records import dataclass

LOCAL: Final = "@"
"""Stands between the name of an aggregate's local variable and the number that sets it apart."""
TESTS: Final = ("match", "contains")
"""What looks like an atom and binds nothing."""
WITH_WITNESSES: Final = ("min", "max")

Conjunction = tuple[FlatLiteral, ...]


def scoped(head: ast.Atom | None, body: Conjunction) -> tuple[ast.Atom | None, Conjunction]:
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
    body: Conjunction
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
