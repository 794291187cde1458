"""Variables of normal rules replaced, and the variables that normal literals have."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import assert_never

from kpg.compiler.datalog.core import (
    Assignment,
    Atom,
    BodyAggregate,
    Call,
    Comparison,
    Expression,
    Negation,
    Term,
    Variable,
    Wildcard,
    variables,
)
from kpg.compiler.datalog.normal import Collected, Grounded, NormalAggregate, NormalLiteral, Range

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
            case _:
                return value

    return change


def atom(value: Atom, change: Change) -> Atom:
    """The atom with its terms changed, to terms."""
    return replace(value, terms=tuple(_term(part, change) for part in value.terms))


def _term(value: Term, change: Change) -> Term:
    if isinstance(value, Wildcard):
        return value
    made = change(value)
    assert not isinstance(made, Call)
    return made


def literal(value: NormalLiteral, change: Change) -> NormalLiteral:
    """The literal with its expressions changed; a variable that it binds, only to a variable."""
    match value:
        case Atom():
            return atom(value, change)
        case Negation(atom=inner):
            return Negation(atom(inner, change))
        case Comparison(left=left, right=right):
            return replace(value, left=change(left), right=change(right))
        case Assignment(variable=variable, expression=right):
            return replace(value, variable=_bound(variable, change), expression=change(right))
        case Range(variable=variable, args=args):
            return replace(value, variable=_bound(variable, change), args=tuple(map(change, args)))
        case NormalAggregate(result=result, value=operand, alternatives=parts):
            return replace(
                value,
                result=_bound(result, change),
                value=None if operand is None else change(operand),
                alternatives=tuple(tuple(literal(one, change) for one in part) for part in parts),
            )
        case BodyAggregate():
            raise AssertionError(value)
        case _:
            assert_never(value)


def _bound(variable: Variable, change: Change) -> Variable:
    made = change(variable)
    return made if isinstance(made, Variable) else variable


def bound_by(one: NormalLiteral | Grounded) -> Iterator[Variable]:
    """The variables that a literal binds."""
    match one:
        case Atom():
            yield from direct(one)
        case Assignment(variable=variable) | Range(variable=variable):
            yield variable
        case BodyAggregate(result=variable) | NormalAggregate(result=variable) | Collected(result=variable):
            yield variable
        case _:
            return


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
