"""Fold constant expressions that can be evaluated without compiled code."""

import operator
from collections.abc import Callable, Mapping
from typing import Final, assert_never

from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import scalars, transform_up, with_scalars
from kpg.runtime.functions import NullRule, is_function, lookup
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar, columns, transform
from kpg.runtime.types import ERROR, MAX_WORD, Kind, Type

ORDER: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
EXACT: Final[Mapping[str, Callable[[int, int], int]]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
}
MOST: Final = {Kind.SMALLINT: 2**15 - 1, Kind.INTEGER: 2**31 - 1, Kind.BIGINT: MAX_WORD}


def fold_constants(rel: Rel) -> Rel:
    """Literals take the place of constant logic, comparisons, integer arithmetic and exact casts.

    ``x and (1 < 2)`` becomes ``x``. What would fail is left for the rows that need it to fail on.
    """

    def rewrite(node: Rel) -> Rel:
        old = scalars(node)
        new = tuple(map(folded, old))
        return node if new == old else with_scalars(node, new)

    return transform_up(rel, rewrite)


def folded(scalar: Scalar) -> Scalar:
    """The scalar with what is constant in it evaluated, as far as that is possible here."""
    return transform(scalar, _folded)


def _folded(scalar: Scalar) -> Scalar:
    match scalar:
        case If(condition=Literal(value=value), then=then, otherwise=otherwise) if value != ERROR:
            return then if value == 1 else otherwise
        case Call(function="and" | "or"):
            return _logic(scalar)
        case Call(args=args) if args and all(isinstance(arg, Literal) for arg in args):
            return _value(scalar, [arg for arg in args if isinstance(arg, Literal)]) or scalar
        case Call(function=function, args=args, type=type_) if _propagates(function):
            null = any(isinstance(arg, Literal) and arg.value is None for arg in args)
            # What is constant and fails does so whatever is done with it, as in Postgres.
            return Literal(None, type_) if null and all(map(_is_plain, args)) else scalar
        case Column() | Fetch() | Literal() | If() | Call():
            return scalar
        case _:
            assert_never(scalar)


def _is_plain(scalar: Scalar) -> bool:
    return isinstance(scalar, Literal) or bool(columns(scalar))


def _logic(call: Call) -> Scalar:
    """AND without truths, OR without falsehoods; decided by one argument if that is enough."""
    idle = 1 if call.function == "and" else 0
    args: dict[Scalar, None] = {}
    for arg in call.args:
        if isinstance(arg, Literal) and arg.value == 1 - idle:
            return Literal(1 - idle, call.type)
        if not (isinstance(arg, Literal) and arg.value == idle):
            args.setdefault(arg)
    if not args:
        return Literal(idle, call.type)
    return next(iter(args)) if len(args) == 1 else Call(call.function, tuple(args), call.type)


def _value(call: Call, args: list[Literal]) -> Literal | None:
    """The call's value, None if it is not known here."""
    values = [arg.value for arg in args]
    if ERROR in values:
        return None
    if call.function in ("is_null", "is_not_null"):
        return Literal(int((values[0] is None) == (call.function == "is_null")), call.type)
    if None in values:
        return Literal(None, call.type) if _propagates(call.function) else None
    if call.function == "not":
        return Literal(int(values[0] == 0), call.type)
    if call.function in ORDER:
        return _compared(call, values)
    numbers = [value for value in values if isinstance(value, int)]
    if len(numbers) < len(values):
        return None
    if call.function in EXACT and all(arg.type == call.type for arg in args):
        return _in_range(EXACT[call.function](*numbers), call.type) if call.type.is_integer else None
    if call.function == "cast":
        return _cast(numbers[0], args[0].type, call.type)
    return None


def _propagates(name: str) -> bool:
    """Whether a NULL argument makes the call NULL."""
    return is_function(name) and lookup(name).nulls is NullRule.PROPAGATE


def _compared(call: Call, values: list[int | str | None]) -> Literal | None:
    match values:
        case [int() as left, int() as right] if call.args[0].type == call.args[1].type:
            return Literal(int(ORDER[call.function](left, right)), call.type)
        case [str() as left, str() as right] if call.function in ("eq", "ne"):
            return Literal(int((left == right) == (call.function == "eq")), call.type)
        case _:
            return None


def _cast(value: int, source: Type, target: Type) -> Literal | None:
    """Integers to wider integers and to decimals, decimals to larger scales: what never rounds."""
    if not source.is_exact or not target.is_exact:
        return None
    if target.is_integer:
        return _in_range(value, target) if source.is_integer else None
    if target.scale < source.scale:
        return None
    scaled = value * 10 ** (target.scale - source.scale)
    return Literal(scaled, target) if abs(scaled) < 10**target.precision else None


def _in_range(value: int, type_: Type) -> Literal | None:
    most = MOST[type_.kind]
    # A BIGINT's words begin with those that are reserved.
    return Literal(value, type_) if -most <= value <= most and value > ERROR else None
