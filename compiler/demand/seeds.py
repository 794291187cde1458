"""The values that predicates give columns."""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Final, assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.failing import INTEGERS, widens
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar
from kpg.runtime.types import Type

MOST_VALUES: Final = 1000
"""Rows of constants that recursion is restricted to: they are the product of the columns' values, and stand
in the plan.
"""
Value = int | str


def constants(predicates: Iterable[Scalar]) -> tuple[tuple[int, ...], algebra.Constant] | None:
    """The columns that can only have certain values where all predicates hold, and these values as rows."""
    found: dict[int, tuple[Type, tuple[Value, ...]]] = {}
    for predicate in predicates:
        given = _given(predicate)
        if given is not None:
            column, values = given
            before = found.get(column.index)
            if before is None or len(values) < len(before[1]):
                found[column.index] = column.type, values
    rows: list[tuple[Value, ...]] = [()]
    chosen: list[int] = []
    for index, (_, values) in sorted(found.items(), key=lambda item: len(item[1][1])):
        if len(rows) * len(values) <= MOST_VALUES:
            chosen.append(index)
            rows = [(*row, value) for row, value in product(rows, values)]
    if not chosen:
        return None
    order = sorted(range(len(chosen)), key=chosen.__getitem__)
    types = tuple(found[chosen[place]][0] for place in order)
    return tuple(sorted(chosen)), algebra.Constant(
        tuple(tuple(row[place] for place in order) for row in rows), types
    )


def _given(predicate: Scalar) -> tuple[Column, tuple[Value, ...]] | None:
    match predicate:
        case Call(function="eq" | "is_not_distinct", args=(left, Literal() as right)):
            return _values(left, (right,))
        case Call(function="eq" | "is_not_distinct", args=(Literal() as left, right)):
            return _values(right, (left,))
        case Call(function="in", args=(left, *rest)):
            literals = [one for one in rest if isinstance(one, Literal)]
            return _values(left, literals) if len(literals) == len(rest) else None
        case Call(function="or", args=args):
            return _any_of([_given(arg) for arg in args])
        case Column() | Fetch() | Literal() | If() | Call():
            return None
        case _:
            assert_never(predicate)


def _any_of(
    choices: Sequence[tuple[Column, tuple[Value, ...]] | None],
) -> tuple[Column, tuple[Value, ...]] | None:
    first = choices[0]
    if first is None:
        return None
    values: dict[Value, None] = {}
    for choice in choices:
        if choice is None or choice[0] != first[0]:
            return None
        values.update(dict.fromkeys(choice[1]))
    return first[0], tuple(values)


def _values(side: Scalar, literals: Sequence[Literal]) -> tuple[Column, tuple[Value, ...]] | None:
    """The values among the literals that the column can be equal to; None if that is not certain.

    A column that is widened to be compared has the same word before and after.
    """
    widened = isinstance(side, Call) and side.function == "cast"
    column = side.args[0] if isinstance(side, Call) and widened else side
    if not isinstance(column, Column) or (widened and not widens(column.type, side.type)):
        return None
    values: dict[Value, None] = {}
    for literal in literals:
        if literal.type != side.type:
            return None
        if literal.value is None:
            if len(literals) == 1:
                return None
            continue
        if _fits(literal.value, column.type):
            values[literal.value] = None
    return column, tuple(values)


def _fits(value: Value, type_: Type) -> bool:
    """Whether a value of the wider type is one of the type."""
    bits = INTEGERS.get(type_.kind)
    return bits is None or not isinstance(value, int) or -(2**bits) <= value < 2**bits
