"""User-defined Python functions, as records like those of built-in functions.

Arguments are Python values (int, float, Decimal, str, bool, dates), and None for NULL. A function must
be deterministic: when a row is deleted, its result is computed again and retracted.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from kpg.runtime.functions.aggregation.definition import (
    AggregateFunction,
    Algorithm,
    Basic,
    Invertible,
    Types,
)
from kpg.runtime.functions.registry import (
    ColumnFunction,
    MemoizedFunction,
    NullRule,
    Overload,
    Rule,
    ScalarFunction,
    Signature,
)
from kpg.runtime.functions.table_functions import RowFunction, RowGenerator, RowOverload, RowSignature
from kpg.runtime.functions.type_rules import common_type, is_implicitly_castable
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import UserFunctionName
from kpg.runtime.types import Type
from kpg.runtime.values import UnrepresentableValue, WrongPythonType, codec_of

UserFunction = ScalarFunction | RowFunction | AggregateFunction
"""Any kind of user-defined function."""


def argument_rule(args: Types, result: Type) -> Rule:
    """Return a rule for exactly these arguments, or arguments whose common type with them is theirs."""

    def rule(types: Types) -> Signature | None:
        if len(types) != len(args):
            return None
        pairs = zip(types, args, strict=True)
        if not all(
            is_implicitly_castable(given, arg) or common_type((given, arg)) == arg for given, arg in pairs
        ):
            return None
        return Signature(args, result)

    return rule


@dataclass(frozen=True, slots=True)
class FunctionDeclaration:
    """Declaration of a user-defined function: its name, unique number, argument types and description."""

    name: str
    number: int
    args: tuple[Type, ...]
    doc: str

    @property
    def accepts(self) -> str:
        """Argument list for error messages."""
        return f"({', '.join(map(str, self.args))})"


def scalar_function(
    declaration: FunctionDeclaration,
    function: Callable[..., Any],
    result: Type,
    *,
    columns: bool,
    nulls: bool,
) -> UserFunctionName[ScalarFunction]:
    """Define a scalar function of a row's values, or of whole columns.

    Args:
        columns: The function takes and returns numpy columns.
        nulls: The function is called for NULLs too. Otherwise NULL arguments give NULL.
    """
    method: ColumnFunction | MemoizedFunction = (
        ColumnFunction(function) if columns else _memoize(function, declaration.args, result, nulls)
    )
    overload = Overload(argument_rule(declaration.args, result), method)
    rule = NullRule.CALLED_ON_NULL if nulls else NullRule.PROPAGATE
    definition = ScalarFunction(declaration.name, declaration.accepts, declaration.doc, {}, (overload,), rule)
    name: UserFunctionName[ScalarFunction] = UserFunctionName(declaration.name, declaration.number)
    name.definition = replace(definition, name=name)
    name.recipe = partial(scalar_function, columns=columns, nulls=nulls), (declaration, function, result)
    return name


def _memoize(function: Callable[..., Any], args: Types, result: Type, nulls: bool) -> MemoizedFunction:
    converters, from_python = _argument_converters(args), codec_of(result).from_python

    def call(*values: object) -> object:
        with translate_errors():
            value = function(*(one(value) for one, value in zip(converters, values, strict=True)))
        return convert_result(from_python, value, result)

    return MemoizedFunction(lambda _: call, takes_nulls=nulls)


@contextmanager
def translate_errors() -> Iterator[None]:
    """Convert any exception of a user's function to ValueError, which means an error value."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def convert_result(from_python: Callable[[Any], Any], value: Any, type_: Type) -> Any:
    """Convert a function's result to an internal value.

    Raises:
        ValueError: The value does not belong to the type.
    """
    try:
        return None if value is None else from_python(value)
    except (UnrepresentableValue, WrongPythonType):
        raise ValueError(f"{value!r} is no {type_}") from None


def _argument_converters(args: Types) -> list[Callable[[Any], Any]]:
    """Return functions from the arguments of memoized functions to Python values."""

    def keep_none(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda value: None if value is None else convert(value)

    return [keep_none(codec_of(type_).to_python) for type_ in args]


def row_function(
    declaration: FunctionDeclaration,
    function: Callable[..., Any],
    columns: Mapping[str, Type],
    *,
    nulls: bool,
) -> UserFunctionName[RowFunction]:
    """Define a set-returning function. It returns tuples or, with one column, values."""
    types = tuple(columns.values())
    converters, result_converters = (
        _argument_converters(declaration.args),
        [codec_of(type_).from_python for type_ in types],
    )

    def rows(*values: object) -> Iterable[tuple[object, ...]]:
        with translate_errors():
            results = list(function(*(one(value) for one, value in zip(converters, values, strict=True))))
        for row in results:
            parts = row if isinstance(row, tuple | list) else (row,)
            if len(parts) != len(result_converters):
                raise ValueError(f"{declaration.name} gave {row!r}, not a row of {', '.join(columns)}")
            of_types = zip(result_converters, parts, types, strict=True)
            yield tuple(
                None if part is None else convert_result(take, part, type_) for take, part, type_ in of_types
            )

    signature = RowSignature(declaration.args, tuple(columns), types)
    accepts = argument_rule(declaration.args, types[0])

    def rule(arg_types: Types) -> RowSignature | None:
        return None if accepts(arg_types) is None else signature

    overload = RowOverload(rule, RowGenerator(lambda args, types: rows, takes_nulls=nulls))
    definition = RowFunction(declaration.name, declaration.accepts, declaration.doc, {}, (overload,))
    name: UserFunctionName[RowFunction] = UserFunctionName(declaration.name, declaration.number)
    name.definition = replace(definition, name=name)
    name.recipe = partial(row_function, nulls=nulls), (declaration, function, dict(columns))
    return name


def aggregate_function(
    declaration: FunctionDeclaration, algebra: Any, result: Type
) -> UserFunctionName[AggregateFunction]:
    """Define an aggregate by the methods of ``algebra``, in the terms of :class:`Algorithm`.

    The methods are ``initialize()``, ``add(state, *values)``, ``finish(state)`` and, optionally,
    ``subtract(state, *values)`` and ``merge(state, other)``. A method without a ``times`` parameter is
    called once for each copy of a row. The aggregate over no values is NULL.
    """
    subtract = getattr(algebra, "subtract", None)
    from_python = codec_of(result).from_python
    algorithm = algorithm_of_methods(
        algebra,
        _argument_converters(declaration.args),
        lambda value: convert_result(from_python, value, result),
    )
    maintenance = Basic() if subtract is None else Invertible()
    idempotent = bool(getattr(algebra, "idempotent", False))
    name = _define_aggregate(declaration, result, algorithm, maintenance, idempotent=idempotent)
    name.recipe = aggregate_function, (declaration, algebra, result)
    return name


def algorithm_of_methods(
    algebra: Any, converters: Sequence[Callable[[Any], Any]], convert_value: Callable[[Any], Any]
) -> Algorithm:
    """Return the algorithm of an object with the methods of :func:`aggregate_function`.

    Args:
        converters: From operands to the arguments of ``add`` and ``subtract``.
        convert_value: From a result of ``finish``, or None over no values, to a value.
    """

    def make_step(method: Callable[..., Any], sign: int) -> Callable[[Any, tuple[Any, ...], int], Any]:
        at_once = "times" in inspect.signature(method).parameters

        def step(counted: list[Any], operands: tuple[Any, ...], times: int) -> list[Any]:
            values = [one(value) for one, value in zip(converters, operands, strict=True)]
            counted[0] += sign * times
            with translate_errors():
                if at_once:
                    counted[1] = method(counted[1], *values, times=times)
                else:
                    for _ in range(times):
                        counted[1] = method(counted[1], *values)
            return counted

        return step

    def merge(counted: list[Any], other: list[Any]) -> list[Any]:
        return [counted[0] + other[0], algebra.merge(counted[1], other[1])]

    def finish(counted: list[Any]) -> Any:
        with translate_errors():
            value = algebra.finish(counted[1]) if counted[0] else None
        return convert_value(value)

    subtract = getattr(algebra, "subtract", None)
    return Algorithm(
        lambda: [0, algebra.initialize()],
        make_step(algebra.add, 1),
        merge,
        finish,
        None if subtract is None else make_step(subtract, -1),
    )


def _define_aggregate(
    declaration: FunctionDeclaration,
    result: Type,
    algorithm: Algorithm,
    maintenance: Basic | Invertible,
    *,
    idempotent: bool,
) -> UserFunctionName[AggregateFunction]:
    definition = AggregateFunction(
        declaration.name,
        declaration.accepts,
        declaration.doc,
        {},
        argument_rule(declaration.args, result),
        lambda types: algorithm,
        maintenance,
        idempotent=idempotent,
    )
    name: UserFunctionName[AggregateFunction] = UserFunctionName(declaration.name, declaration.number)
    name.definition = replace(definition, name=name)
    return name
