"""Equalities between variables, and of variables with constants, carried out by substitution."""

from collections.abc import Mapping
from typing import assert_never

from kpg.compiler.datalog.desugaring import substitute
from kpg.compiler.datalog.desugaring.normal import NormalAggregate, NormalLiteral, Range
from kpg.compiler.datalog.desugaring.structures import is_structure
from kpg.compiler.datalog.syntax.scopes import LOCAL
from kpg.compiler.rules.core import (
    Assignment,
    Atom,
    BodyAggregate,
    Call,
    Comparison,
    Constant,
    Expression,
    Negation,
    Parameter,
    Variable,
    variables,
)
from kpg.compiler.rules.substitute import replacing


def equate(
    terms: tuple[Expression, ...], body: tuple[NormalLiteral, ...], fixed: frozenset[str]
) -> tuple[tuple[Expression, ...], tuple[NormalLiteral, ...]]:
    """The terms and the body without equalities that substitution can do.

    ``fixed`` variables keep their names, for they are known outside; records that are equal are so by field.
    """
    pending = [part for one in body for part in _split(one)]
    position = 0
    while position < len(pending):
        one = pending[position]
        found = _replacement(one, fixed, _inside(pending)) if isinstance(one, Comparison) else None
        if found is None:
            position += 1
            continue
        name, value = found
        change = replacing({name: value})
        terms = tuple(change(term) for term in terms)
        rest = (*pending[:position], *pending[position + 1 :])
        pending = [part for other in rest for part in _split(substitute.literal(other, change))]
        position = 0
    return terms, tuple(pending)


def _inside(body: list[NormalLiteral]) -> dict[str, set[str]]:
    """Of each variable that an aggregate or range binds, the variables that this is computed from."""
    found: dict[str, set[str]] = {}
    for one in body:
        match one:
            case NormalAggregate(result=result, value=value):
                names = {variable.name for part in one.literals for variable in substitute.everywhere(part)}
                names |= {variable.name for variable in variables(value)} if value is not None else set()
                found.setdefault(result.name, set()).update(names)
            case Range(variable=variable, args=args):
                found.setdefault(variable.name, set()).update(v.name for arg in args for v in variables(arg))
            case Atom() | Negation() | Comparison() | Assignment() | BodyAggregate():
                pass
            case _:
                assert_never(one)
    return found


def _split(one: NormalLiteral) -> list[NormalLiteral]:
    """An equality of two records of one shape as equalities of their fields."""
    if isinstance(one, Comparison) and one.function == "eq" and not one.negated:
        left, right = one.left, one.right
        if not (isinstance(left, Call) and isinstance(right, Call) and is_structure(left)):
            return [one]
        if left.function == right.function:
            return [
                part
                for ours, theirs in zip(left.args, right.args, strict=True)
                for part in _split(Comparison("eq", ours, theirs, one.span))
            ]
    return [one]


def _replacement(
    one: Comparison, fixed: frozenset[str], results: Mapping[str, set[str]]
) -> tuple[str, Expression] | None:
    """The variable that an equality makes superfluous, and what stands for it."""
    if one.function != "eq" or one.negated:
        return None
    left, right = one.left, one.right
    if isinstance(left, Variable) and isinstance(right, Variable):
        return _of_variables(left, right, fixed, results)
    for variable, value in ((left, right), (right, left)):
        if (
            isinstance(variable, Variable)
            and isinstance(value, Constant | Parameter)
            and variable.name not in fixed
            and variable.name not in results
            and variable.type == value.type
        ):
            return variable.name, value
    return None


def _of_variables(
    left: Variable, right: Variable, fixed: frozenset[str], results: Mapping[str, set[str]]
) -> tuple[str, Expression] | None:
    if left.type != right.type or left == right:
        return None
    if left.name in results.get(right.name, ()) or right.name in results.get(left.name, ()):
        return None
    both_bound = left.name in results and right.name in results
    for gone, kept in ((left, right), (right, left)):
        if gone.name in fixed or both_bound:
            continue
        if _artificial(kept) > _artificial(gone) and kept.name not in fixed:
            continue
        return gone.name, kept
    return None


def _artificial(variable: Variable) -> int:
    """How far a name is from one that the user wrote."""
    return 2 if variable.name.startswith(LOCAL) else int(LOCAL in variable.name)
