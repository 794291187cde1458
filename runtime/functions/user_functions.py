"""User-defined Python functions, as records like those of built-in functions.

Arguments are Python values (int, float, Decimal, str, bool, dates), and None for NULL. A function must be
deterministic: when a row is deleted, its result is computed again to retract it.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from kpg.runtime.functions.aggregation.definition import AggregateFunction, Algorithm, Basic, Folded, Types
from kpg.runtime.functions.registry import (
    Columns,
    Memoized,
    NullRule,
    Overload,
    Rule,
    ScalarFunction,
    Signature,
)
from kpg.runtime.functions.table_functions import Listing, RowFunction, RowOverload, RowSignature
from kpg.runtime.functions.type_rules import common_type, converts
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Named
from kpg.runtime.types import Type
from kpg.runtime.values import Mistyped, Unfit, codec_of

Own = ScalarFunction | RowFunction | AggregateFunction
"""What a user's function may be."""


def taking(args: Types, result: Type) -> Rule:
    """Exactly these arguments, or what they hold all values of."""

    def rule(types: Types) -> Signature | None:
        if len(types) != len(args):
            return None
        pairs = zip(types, args, strict=True)
        if not all(converts(given, arg) or common_type((given, arg)) == arg for given, arg in pairs):
            return None
        return Signature(args, result)

    return rule


@dataclass(frozen=True, slots=True)
class Declared:
    """What a user says of a function: its name, with the number that it has, and its types."""

    name: str
    number: int
    args: tuple[Type, ...]
    doc: str

    @property
    def accepts(self) -> str:
        """The arguments, for errors."""
        return f"({', '.join(map(str, self.args))})"


def scalar_function(
    declared: Declared, function: Callable[..., Any], result: Type, *, columns: bool, nulls: bool
) -> Named[ScalarFunction]:
    """A function of a row's values, or of ``columns``, which gives a value or a column of ``result``.

    With ``nulls`` it is called for NULLs too; otherwise they make NULL.
    """
    how: Columns | Memoized = (
        Columns(function) if columns else _memoized(function, declared.args, result, nulls)
    )
    overload = Overload(taking(declared.args, result), how)
    rule = NullRule.OWN if nulls else NullRule.PROPAGATE
    made = ScalarFunction(declared.name, declared.accepts, declared.doc, {}, (overload,), rule)
    name: Named[ScalarFunction] = Named(declared.name, declared.number)
    name.definition = replace(made, name=name)
    name.again = partial(scalar_function, columns=columns, nulls=nulls), (declared, function, result)
    return name


def _memoized(function: Callable[..., Any], args: Types, result: Type, nulls: bool) -> Memoized:
    given, taken = _given(args), codec_of(result).from_python

    def call(*values: object) -> object:
        with failing():
            value = function(*(one(value) for one, value in zip(given, values, strict=True)))
        return accepted(taken, value, result)

    return Memoized(lambda _: call, takes_nulls=nulls)


@contextmanager
def failing() -> Iterator[None]:
    """Makes any exception of a user's function one that means that there is no value: ValueError."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def accepted(take: Callable[[Any], Any], value: Any, type_: Type) -> Any:
    """The value as the engine has it; ValueError if it is none of the type's."""
    try:
        return None if value is None else take(value)
    except (Unfit, Mistyped):
        raise ValueError(f"{value!r} is no {type_}") from None


def _given(args: Types) -> list[Callable[[Any], Any]]:
    """From values as ``Memoized`` functions take them to those that a row has."""

    def or_none(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda value: None if value is None else convert(value)

    return [or_none(codec_of(type_).to_python) for type_ in args]


def row_function(
    declared: Declared, function: Callable[..., Any], columns: Mapping[str, Type], *, nulls: bool
) -> Named[RowFunction]:
    """A function that gives the rows of a call, tuples or, of one column, values."""
    types = tuple(columns.values())
    given, taken = _given(declared.args), [codec_of(type_).from_python for type_ in types]

    def rows(*values: object) -> Iterable[tuple[object, ...]]:
        with failing():
            made = list(function(*(one(value) for one, value in zip(given, values, strict=True))))
        for row in made:
            parts = row if isinstance(row, tuple | list) else (row,)
            if len(parts) != len(taken):
                raise ValueError(f"{declared.name} gave {row!r}, not a row of {', '.join(columns)}")
            of_types = zip(taken, parts, types, strict=True)
            yield tuple(
                None if part is None else accepted(take, part, type_) for take, part, type_ in of_types
            )

    signature = RowSignature(declared.args, tuple(columns), types)
    accepts = taking(declared.args, types[0])

    def rule(found: Types) -> RowSignature | None:
        return None if accepts(found) is None else signature

    overload = RowOverload(rule, Listing(lambda args, types: rows, takes_nulls=nulls))
    made = RowFunction(declared.name, declared.accepts, declared.doc, {}, (overload,))
    name: Named[RowFunction] = Named(declared.name, declared.number)
    name.definition = replace(made, name=name)
    name.again = partial(row_function, nulls=nulls), (declared, function, dict(columns))
    return name


def aggregate_function(declared: Declared, algebra: Any, result: Type) -> Named[AggregateFunction]:
    """An aggregate by the methods of ``algebra``, in the terms of :class:`Algorithm`.

    ``initialize()``, ``add(state, *values)``, ``finish(state)``, and, where it has them, ``subtract(state,
    *values)`` and ``merge(state, other)``; those that do not take ``times`` are called so often. Over no
    values it is NULL: states are counted.
    """
    given, taken = _given(declared.args), codec_of(result).from_python

    def stepper(method: Callable[..., Any], sign: int) -> Callable[[Any, tuple[Any, ...], int], Any]:
        at_once = "times" in inspect.signature(method).parameters

        def step(counted: list[Any], operands: tuple[Any, ...], times: int) -> list[Any]:
            values = [one(value) for one, value in zip(given, operands, strict=True)]
            counted[0] += sign * times
            with failing():
                if at_once:
                    counted[1] = method(counted[1], *values, times=times)
                else:
                    for _ in range(times):
                        counted[1] = method(counted[1], *values)
            return counted

        return step

    def merged(counted: list[Any], other: list[Any]) -> list[Any]:
        return [counted[0] + other[0], algebra.merge(counted[1], other[1])]

    def finish(counted: list[Any]) -> Any:
        with failing():
            value = algebra.finish(counted[1]) if counted[0] else None
        return accepted(taken, value, result)

    subtract = getattr(algebra, "subtract", None)
    algorithm = Algorithm(
        lambda: [0, algebra.initialize()],
        stepper(algebra.add, 1),
        merged,
        finish,
        None if subtract is None else stepper(subtract, -1),
    )
    kept = Basic() if subtract is None else Folded()
    idempotent = bool(getattr(algebra, "idempotent", False))
    name = _named(declared, result, algorithm, kept, idempotent=idempotent)
    name.again = aggregate_function, (declared, algebra, result)
    return name


def _named(
    declared: Declared, result: Type, algorithm: Algorithm, kept: Basic | Folded, *, idempotent: bool
) -> Named[AggregateFunction]:
    made = AggregateFunction(
        declared.name,
        declared.accepts,
        declared.doc,
        {},
        taking(declared.args, result),
        lambda types: algorithm,
        kept,
        idempotent=idempotent,
    )
    name: Named[AggregateFunction] = Named(declared.name, declared.number)
    name.definition = replace(made, name=name)
    return name
