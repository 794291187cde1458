"""Variables of normal rules replaced, and the variables that normal literals have."""

from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from kpg.compiler.datalog.desugaring.normal import Collected, Grounded, NormalAggregate, NormalLiteral, Range
from kpg.compiler.rules.core import (
    Assignment,
    Atom,
    BodyAggregate,
    Comparison,
    Negation,
    Variable,
    variables,
)
from kpg.compiler.rules.substitute import Change, changed, changed_binding


def literal(value: NormalLiteral, change: Change) -> NormalLiteral:
    """The literal with its expressions changed; a variable that it binds, only to a variable."""
    match value:
        case Atom() | Negation() | Comparison() | Assignment():
            return changed(value, change)
        case Range(variable=variable, args=args):
            return replace(value, variable=changed_binding(variable, change), args=tuple(map(change, args)))
        case NormalAggregate(result=result, value=operand, alternatives=parts):
            return replace(
                value,
                result=changed_binding(result, change),
                value=None if operand is None else change(operand),
                alternatives=tuple(tuple(literal(one, change) for one in part) for part in parts),
            )
        case BodyAggregate():
            raise AssertionError(value)
        case _:
            assert_never(value)


def bound_by(one: NormalLiteral | Grounded) -> Iterator[Variable]:
    """The variables that a literal binds."""
    match one:
        case Atom():
            yield from direct(one)
        case Assignment(variable=variable) | Range(variable=variable):
            yield variable
        case BodyAggregate(result=variable) | NormalAggregate(result=variable) | Collected(result=variable):
            yield variable
        case Negation() | Comparison():
            return
        case _:
            assert_never(one)


def direct(value: NormalLiteral | Grounded) -> Iterator[Variable]:
    """The variables of a literal, of an aggregate its result only."""
    match value:
        case Atom(terms=terms) | Negation(atom=Atom(terms=terms)):
            for part in terms:
                yield from variables(part)
        case Comparison(left=left, right=right):
            yield from variables(left)
            yield from variables(right)
        case Assignment(variable=variable, expression=right):
            yield variable
            yield from variables(right)
        case Range(variable=variable, args=args):
            yield variable
            for arg in args:
                yield from variables(arg)
        case NormalAggregate(result=result) | BodyAggregate(result=result) | Collected(result=result):
            yield result
        case _:
            assert_never(value)


def everywhere(value: NormalLiteral) -> Iterator[Variable]:
    """The variables of a literal, inside of aggregates too."""
    yield from direct(value)
    if isinstance(value, NormalAggregate):
        if value.value is not None:
            yield from variables(value.value)
        for part in value.literals:
            yield from everywhere(part)
