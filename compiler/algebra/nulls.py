"""When a scalar can be NULL, and which of its columns make it so."""

from typing import Final, assert_never

from kpg.runtime.functions.registry import (
    Columns,
    Composition,
    Matcher,
    Membership,
    Memoized,
    Opcode,
    Vector,
    implementation,
    may_give_null,
)
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Named, Scalar

Key = frozenset[int]

NEVER_NULL: Final = frozenset(
    {"is_null", "is_not_null", "is_distinct", "is_not_distinct", "is_true", "is_false"}
)
FIRST_NOT_NULL: Final = frozenset({"coalesce", "greatest", "least"})
LAX: Final = NEVER_NULL | FIRST_NOT_NULL | {"and", "or", "in", "nullif"}
"""Functions that may give a value for a NULL argument; all others give NULL."""


def can_be_null(scalar: Scalar, flags: tuple[bool, ...]) -> bool:
    """Whether the scalar can be NULL over rows whose columns can be NULL where ``flags`` says so."""
    match scalar:
        case Column(index=index):
            return flags[index]
        case Literal(value=value):
            return value is None
        case If(then=then, otherwise=otherwise):
            return can_be_null(then, flags) or can_be_null(otherwise, flags)
        case Fetch():
            return True
        case Call(function=function, args=args):
            if function in NEVER_NULL:
                return False
            if function in FIRST_NOT_NULL:
                return all(can_be_null(arg, flags) for arg in args)
            if any(can_be_null(arg, flags) for arg in args):
                return True
            return makes_null(scalar)
        case _:
            assert_never(scalar)


def makes_null(call: Call) -> bool:
    """Whether the call may be NULL though none of its arguments is."""
    if call.function == "nullif":
        return True
    made = implementation(call)
    match made:
        case Composition(build=build):
            return can_be_null(build(_outline(call)), (False,) * len(call.args))
        case Memoized(build=build):
            return isinstance(call.function, Named) or may_give_null(build(call))
        case Columns():
            return True
        case Opcode() | Vector() | Matcher() | Membership():
            return False
        case _:
            assert_never(made)


def strict_columns(scalar: Scalar) -> Key:
    """The columns that make the whole scalar NULL when they are NULL."""
    match scalar:
        case Column(index=index):
            return frozenset((index,))
        case Call(function=function) if function not in LAX:
            return _strict_columns(scalar)
        case Call(function="in", args=args):
            return strict_columns(args[0])
        case Fetch() | Literal() | If() | Call():
            return frozenset()
        case _:
            assert_never(scalar)


def _outline(call: Call) -> Call:
    """The call with columns numbered by their places for its arguments, but constants.

    What is built of it has the size of the function, not of the arguments, which it may repeat.
    """
    args = tuple(
        arg if isinstance(arg, Literal) else Column(place, arg.type) for place, arg in enumerate(call.args)
    )
    return Call(call.function, args, call.type)


def _strict_columns(call: Call) -> Key:
    made = implementation(call)
    if isinstance(made, Composition):
        places = strict_columns(made.build(_outline(call)))
        return frozenset[int]().union(*(strict_columns(call.args[place]) for place in places))
    if isinstance(made, Memoized) and made.takes_nulls:
        return frozenset()
    return frozenset[int]().union(*(strict_columns(arg) for arg in call.args))


def rejected_nulls(predicate: Scalar) -> Key:
    """The columns that cannot be NULL where the predicate is true."""
    match predicate:
        case Call(function="and", args=args):
            return frozenset[int]().union(*(rejected_nulls(arg) for arg in args))
        case Call(function="or", args=args):
            return frozenset.intersection(*(rejected_nulls(arg) for arg in args))
        case Call(function="is_not_null", args=args):
            return strict_columns(args[0])
        case Column() | Fetch() | Literal() | If() | Call():
            return strict_columns(predicate)
        case _:
            assert_never(predicate)
