"""``autoinc()`` in recursive rules: a number that differs for different bindings, and stays while one holds.

It is the number that the database gives a text: of the rule, and of the values of the variables that its
atoms bind. So numbers neither follow each other nor say anything.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kpg.compiler.rules.core import (
    Assignment,
    Atom,
    Call,
    Comparison,
    Constant,
    Expression,
    Literal,
    Variable,
    literal_variables,
)
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
