"""Bodies of rewritten rules: which literal binds a variable depends on what else is in the body."""

from collections.abc import Iterable, Sequence
from typing import Final, assert_never

from kpg.compiler.rules.core import (
    Assignment,
    Atom,
    BodyAggregate,
    Call,
    Comparison,
    Expression,
    Literal,
    Negation,
    Term,
    Variable,
    literal_variables,
    variables,
)

TOTAL: Final = frozenset(
    (
        *("add", "sub", "mul", "neg", "abs", "least", "greatest", "concat", "length", "$substr", "$show"),
        *("$wrap_number", "$wrap_unsigned", "$wrap_product", "$band", "$bor", "$bxor", "$bnot", "$bshl"),
        *("$wrap_int8", "$wrap_int16", "$wrap_uint8", "$wrap_uint16", "$single"),
        *("$bshr", "$bshru", "$land", "$lor", "$lxor", "$lnot", "$quote", "$record", "$branch"),
    )
)
"""The functions that have a value for all arguments, within range."""


def names(literals: Iterable[Literal]) -> frozenset[str]:
    """The variables that the literals mention; of aggregates, groups and result."""
    return frozenset(v.name for literal in literals for v in literal_variables(literal))


def term_names(terms: Iterable[Term]) -> frozenset[str]:
    """The variables among terms."""
    return frozenset(term.name for term in terms if isinstance(term, Variable))


def expression_names(expression: Expression) -> frozenset[str]:
    """The variables of an expression."""
    return frozenset(v.name for v in variables(expression))


def equated(literal: Literal) -> tuple[tuple[Variable, Expression], ...]:
    """The variables that a literal says are equal to an expression."""
    match literal:
        case Assignment(variable=variable, expression=expression):
            return ((variable, expression),)
        case Comparison(function="eq", negated=False, left=left, right=right):
            found = ((left, right), (right, left))
            return tuple((one, other) for one, other in found if isinstance(one, Variable))
        case Comparison() | Atom() | Negation() | BodyAggregate():
            return ()
        case _:
            assert_never(literal)


def oriented(body: Sequence[Literal]) -> tuple[Literal, ...]:
    """The body with an equality as assignment exactly where nothing else binds the variable.

    Every variable is bound by the literals before its use, or by an atom or an aggregate anywhere.
    """
    bound = {v.name for one in body if isinstance(one, Atom) for v in literal_variables(one)}
    bound |= {one.result.name for one in body if isinstance(one, BodyAggregate)}
    result: list[Literal] = []
    for literal in body:
        pairs = equated(literal)
        assert not pairs or isinstance(literal, Assignment | Comparison)
        free = [(v, e) for v, e in pairs if v.name not in bound and expression_names(e) <= bound]
        if free and isinstance(literal, Assignment | Comparison):
            variable, expression = free[0]
            bound.add(variable.name)
            result.append(Assignment(variable, expression, literal.span))
        elif isinstance(literal, Assignment):
            result.append(Comparison("eq", literal.variable, literal.expression, literal.span))
        else:
            result.append(literal)
    return tuple(result)


def can_fail(literal: Literal) -> bool:
    """Whether evaluating a comparison or assignment can fail for a value; overflow aside.

    The rule's other literals may keep such values away, so that demand must not be made by it on its own.
    """
    match literal:
        case Assignment(expression=expression):
            return _can_fail(expression)
        case Comparison(left=left, right=right):
            return _can_fail(left) or _can_fail(right)
        case Atom() | Negation() | BodyAggregate():
            return False
        case _:
            assert_never(literal)


def _can_fail(expression: Expression) -> bool:
    return isinstance(expression, Call) and (
        expression.function not in TOTAL or any(map(_can_fail, expression.args))
    )


def is_functor(expression: Expression) -> bool:
    """Whether an expression makes new values."""
    return isinstance(expression, Call)
