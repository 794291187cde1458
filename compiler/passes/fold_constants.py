"""Fold constant expressions that can be evaluated without compiled code."""

import operator
from collections.abc import Callable, Mapping
from typing import Final, assert_never

from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import scalars, transform_up, with_scalars
from kpg.runtime.functions import NullRule, is_function, lookup
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar, columns, transform
from kpg.runtime.types import ERROR, MAX_WORD, Kind, Type

COMPARISONS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
INTEGER_ARITHMETIC: Final[Mapping[str, Callable[[int, int], int]]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
}
MAX_VALUE: Final = {Kind.SMALLINT: 2**15 - 1, Kind.INTEGER: 2**31 - 1, Kind.BIGINT: MAX_WORD}


def fold_constants(rel: Rel) -> Rel:
    """Replace constant logic, comparisons, integer arithmetic and exact casts by literals.

    ``x and (1 < 2)`` becomes ``x``. An expression that would fail stays, so that it fails only for
    rows that need it.
    """

    def rewrite(node: Rel) -> Rel:
        old = scalars(node)
        new = tuple(map(fold, old))
        return node if new == old else with_scalars(node, new)

    return transform_up(rel, rewrite)


def fold(scalar: Scalar) -> Scalar:
    """Return the scalar with its constant parts evaluated as far as possible."""
    return transform(scalar, _fold_node)


def _fold_node(scalar: Scalar) -> Scalar:
    match scalar:
        case If(condition=Literal(value=value), then=then, otherwise=otherwise) if value != ERROR:
            return then if value == 1 else otherwise
        case Call(function="and" | "or"):
            return _simplify_logic(scalar)
        case Call(args=args) if args and all(isinstance(arg, Literal) for arg in args):
            return _evaluate(scalar, [arg for arg in args if isinstance(arg, Literal)]) or scalar
        case Call(function=function, args=args, type=type_) if _is_strict(function):
            null = any(isinstance(arg, Literal) and arg.value is None for arg in args)
            # A constant argument that fails must fail even if the result is NULL, as in Postgres.
            return Literal(None, type_) if null and all(map(_is_literal_or_reads_columns, args)) else scalar
        case Column() | Fetch() | Literal() | If() | Call():
            return scalar
        case _:
            assert_never(scalar)


def _is_literal_or_reads_columns(scalar: Scalar) -> bool:
    return isinstance(scalar, Literal) or bool(columns(scalar))


def _simplify_logic(call: Call) -> Scalar:
    """Simplify AND or OR: drop neutral arguments, and stop at an argument that decides the result."""
    neutral = 1 if call.function == "and" else 0
    args: dict[Scalar, None] = {}
    for arg in call.args:
        if isinstance(arg, Literal) and arg.value == 1 - neutral:
            return Literal(1 - neutral, call.type)
        if not (isinstance(arg, Literal) and arg.value == neutral):
            args.setdefault(arg)
    if not args:
        return Literal(neutral, call.type)
    return next(iter(args)) if len(args) == 1 else Call(call.function, tuple(args), call.type)


def _evaluate(call: Call, args: list[Literal]) -> Literal | None:
    """Return the value of a call of literals, or None if it cannot be folded."""
    values = [arg.value for arg in args]
    if ERROR in values:
        return None
    if call.function in ("is_null", "is_not_null"):
        return Literal(int((values[0] is None) == (call.function == "is_null")), call.type)
    if None in values:
        return Literal(None, call.type) if _is_strict(call.function) else None
    if call.function == "not":
        return Literal(int(values[0] == 0), call.type)
    if call.function in COMPARISONS:
        return _compare(call, values)
    numbers = [value for value in values if isinstance(value, int)]
    if len(numbers) < len(values):
        return None
    if call.function in INTEGER_ARITHMETIC and all(arg.type == call.type for arg in args):
        return (
            _checked_integer(INTEGER_ARITHMETIC[call.function](*numbers), call.type)
            if call.type.is_integer
            else None
        )
    if call.function == "cast":
        return _fold_exact_cast(numbers[0], args[0].type, call.type)
    return None


def _is_strict(name: str) -> bool:
    """Return whether a NULL argument makes the call NULL."""
    return is_function(name) and lookup(name).nulls is NullRule.PROPAGATE


def _compare(call: Call, values: list[int | str | None]) -> Literal | None:
    match values:
        case [int() as left, int() as right] if call.args[0].type == call.args[1].type:
            return Literal(int(COMPARISONS[call.function](left, right)), call.type)
        case [str() as left, str() as right] if call.function in ("eq", "ne"):
            return Literal(int((left == right) == (call.function == "eq")), call.type)
        case _:
            return None


def _fold_exact_cast(value: int, source: Type, target: Type) -> Literal | None:
    """Return the result of an integer or decimal cast that never rounds, or None."""
    if not source.is_exact or not target.is_exact:
        return None
    if target.is_integer:
        return _checked_integer(value, target) if source.is_integer else None
    if target.scale < source.scale:
        return None
    scaled = value * 10 ** (target.scale - source.scale)
    return Literal(scaled, target) if abs(scaled) < 10**target.precision else None


def _checked_integer(value: int, type_: Type) -> Literal | None:
    most = MAX_VALUE[type_.kind]
    # The lowest words of BIGINT are reserved.
    return Literal(value, type_) if -most <= value <= most and value > ERROR else None
