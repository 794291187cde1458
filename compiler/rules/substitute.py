"""Variables of rules replaced."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import assert_never

from kpg.compiler.rules.core import (
    Assignment,
    Atom,
    BodyAggregate,
    Call,
    Comparison,
    Constant,
    Expression,
    Literal,
    Negation,
    Parameter,
    Term,
    Variable,
    Wildcard,
)

Mapped = Mapping[str, Expression]
Change = Callable[[Expression], Expression]
"""Applied to whole expressions, to variables that are bound, and to terms other than wildcards."""


def replacing(mapping: Mapped) -> Change:
    """The change that replaces variables by name, everywhere in an expression."""

    def change(value: Expression) -> Expression:
        match value:
            case Variable(name=name):
                return mapping.get(name, value)
            case Call(args=args):
                return replace(value, args=tuple(change(arg) for arg in args))
            case Constant() | Parameter():
                return value
            case _:
                assert_never(value)

    return change


def changed_atom(value: Atom, change: Change) -> Atom:
    """The atom with its terms changed, to terms."""
    return replace(value, terms=tuple(_term(part, change) for part in value.terms))


def _term(value: Term, change: Change) -> Term:
    if isinstance(value, Wildcard):
        return value
    made = change(value)
    assert not isinstance(made, Call)
    return made


def changed_binding(variable: Variable, change: Change) -> Variable:
    """A variable where it is bound: changed if to a variable."""
    made = change(variable)
    return made if isinstance(made, Variable) else variable


def changed(value: Literal, change: Change) -> Literal:
    """The literal with its expressions changed; a variable that it binds, only to a variable.

    Of an aggregate, the variables of its own are changed too: they have names of their own.
    """
    match value:
        case Atom():
            return changed_atom(value, change)
        case Negation(atom=inner):
            return Negation(changed_atom(inner, change))
        case Comparison(left=left, right=right):
            return replace(value, left=change(left), right=change(right))
        case Assignment(variable=variable, expression=right):
            return replace(value, variable=changed_binding(variable, change), expression=change(right))
        case BodyAggregate(result=result, value=operand, body=body, groups=groups):
            return replace(
                value,
                result=changed_binding(result, change),
                value=None if operand is None else change(operand),
                body=tuple(changed(one, change) for one in body),
                groups=tuple(changed_binding(one, change) for one in groups),
            )
        case _:
            assert_never(value)
