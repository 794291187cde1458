"""The registry of set-returning functions, for calls in FROM and in the select list.

The binder calls :func:`resolve_row_call` to resolve a call. The runtime calls :func:`row_maker` to compute
its rows. A NULL argument gives no rows unless the function accepts NULLs.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, Final

import numpy as np

from kpg.runtime.errors import ProgrammingError
from kpg.runtime.functions import autoload
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import UserFunctionName
from kpg.runtime.types import Kind, Type

Words = np.ndarray[Any, np.dtype[np.int64]]

SINGLE_VALUE: Final = "$value"
"""Name of the function that returns its only argument as one row, also NULL: any expression in FROM."""


@dataclass(frozen=True, slots=True)
class RowSignature:
    """Types to which the arguments are cast, and the names and types of the result columns.

    A single unnamed column has the name "". It gets the name of the function or its alias.
    """

    args: tuple[Type, ...]
    names: tuple[str, ...]
    types: tuple[Type, ...]
    nullable: bool = True
    """Whether result columns can be NULL."""


RowRule = Callable[[tuple[Type, ...]], RowSignature | None]
"""Function from argument types to a signature, or None where the overload does not apply."""


@dataclass(frozen=True, slots=True)
class Series:
    """Rows computed by numpy, counted first. The arguments are not NULL.

    ``count`` takes the arguments as columns of words, and returns the number of rows of each call.
    ``make`` takes each row's position in its call, from 0, then the columns repeated for each row. It
    returns the single result column.
    """

    count: Callable[..., Words]
    make: Callable[..., Words]


@dataclass(frozen=True, slots=True)
class RowGenerator:
    """A Python function that generates rows as tuples, once for each combination of arguments.

    ``build`` returns it for the types of the arguments and of the columns. Values are those of memoized
    functions. ValueError and ArithmeticError are the user's errors.
    """

    build: Callable[[tuple[Type, ...], tuple[Type, ...]], Callable[..., Iterable[tuple[object, ...]]]]
    takes_nulls: bool = False


RowMaker = Series | RowGenerator


@dataclass(frozen=True, slots=True)
class RowOverload:
    """A way to make the rows, and the rule for its argument types."""

    rule: RowRule
    maker: RowMaker


@dataclass(frozen=True, slots=True)
class RowFunction:
    """A set-returning function. ``examples`` maps calls in SQL to their rows, in order."""

    name: str
    accepts: str
    doc: str
    examples: Mapping[str, str] = field(hash=False)
    overloads: tuple[RowOverload, ...]


@dataclass(frozen=True, slots=True)
class Expansion:
    """A call of a set-returning function on columns of a row, in a plan."""

    function: str
    arguments: tuple[int, ...]
    argument_types: tuple[Type, ...]
    types: tuple[Type, ...]
    """Types of the result columns."""
    text: str = field(default="", compare=False, repr=False)
    """Text of the call as in the query, for error messages."""


_FUNCTIONS: dict[str, RowFunction] = {}


def register_row_function(
    name: str, accepts: str, doc: str, examples: Mapping[str, str], *overloads: RowOverload
) -> RowFunction:
    """Register a set-returning function. Overloads are tried in order."""
    assert name not in _FUNCTIONS, name
    function = RowFunction(name, accepts, doc, examples, overloads)
    _FUNCTIONS[name] = function
    return function


def row_functions() -> Iterator[RowFunction]:
    """Return every registered set-returning function, ordered by name."""
    autoload.load_all()
    known = (one for name, one in _FUNCTIONS.items() if not name.startswith("$"))
    return iter(sorted(known, key=lambda function: function.name))


def is_row_function(name: str) -> bool:
    """Check whether a set-returning function has this name."""
    return name in _FUNCTIONS or name in autoload.row_function_names()


def row_function_names() -> frozenset[str]:
    """Return the names of all set-returning functions, including those not imported yet."""
    return autoload.row_function_names().union(_FUNCTIONS)


def _lookup(name: str) -> RowFunction:
    if isinstance(name, UserFunctionName):
        return name.definition
    if name not in _FUNCTIONS:
        autoload.load_row_function(name)
    return _FUNCTIONS[name]


def similar_names(name: str) -> list[str]:
    """Return the set-returning functions with similar names, for a misspelled name."""
    return difflib.get_close_matches(name, sorted(row_function_names()), n=3)


def resolve_row_call(name: str, arg_types: tuple[Type, ...]) -> RowSignature:
    """Resolve a call by name and argument types.

    Raises:
        ProgrammingError: The function does not accept these types.
    """
    function = _lookup(name)
    for overload in function.overloads:
        signature = overload.rule(arg_types)
        if signature is not None:
            return signature
    type_list = ", ".join("NULL" if type_.kind is Kind.NULL else str(type_) for type_ in arg_types)
    raise ProgrammingError(
        f"{name} does not take ({type_list})", hint=f"it takes {function.accepts}; cast the arguments"
    )


def row_maker(expansion: Expansion) -> RowMaker:
    """Return the maker of a call's rows. Its arguments have the types that the resolution demands."""
    if expansion.function == SINGLE_VALUE:
        return RowGenerator(lambda args, types: lambda value: [(value,)], takes_nulls=True)
    for overload in _lookup(expansion.function).overloads:
        if overload.rule(expansion.argument_types) is not None:
            return overload.maker
    raise ProgrammingError(f"{expansion.function} does not take these types")
