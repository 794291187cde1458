"""How deep the expressions of rules may be: what is done with them later goes down them by recursion."""

from collections.abc import Iterable, Iterator
from typing import assert_never

from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.rules.core import (
    Assignment,
    Atom,
    BodyAggregate,
    Call,
    Comparison,
    Expression,
    Literal,
    Negation,
    Rule,
)
from kpg.runtime.errors import Span

DEEPEST = 200
"""Calls in each other in an expression: each takes frames of Python's stack, of which there are 1000."""


def check_depth(rules: Iterable[Rule], diagnostics: Diagnostics) -> None:
    """Notes rules with an expression of more than ``DEEPEST`` calls in each other."""
    for rule in rules:
        for expression, span in _expressions(rule.body):
            if _is_deep(expression):
                message = f"an expression nested more than {DEEPEST} deep is not supported"
                hint = "give parts of it to variables of relations in between"
                diagnostics.error("unsupported", message, span, hint=hint)


def _expressions(body: Iterable[Literal]) -> Iterator[tuple[Expression, Span]]:
    for one in body:
        match one:
            case Assignment(expression=expression, span=span):
                yield expression, span
            case Comparison(left=left, right=right, span=span):
                yield left, span
                yield right, span
            case BodyAggregate(value=value, body=inner, span=span):
                if value is not None:
                    yield value, span
                yield from _expressions(inner)
            case Atom() | Negation():
                pass
            case _:
                assert_never(one)


def _is_deep(expression: Expression) -> bool:
    level: list[Expression] = [expression]
    for _ in range(DEEPEST):
        level = [arg for one in level if isinstance(one, Call) for arg in one.args]
        if not level:
            return False
    return True
