"""The registry of set-returning functions, which calls in FROM and in the select list may use.

The binder calls :func:`resolve_rows` to find what a call means, the runtime :func:`row_maker` to compute its
rows. A NULL argument gives no rows unless the function accepts NULLs.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, Final

import numpy as np

from kpg.runtime.errors import ProgrammingError
from kpg.runtime.functions import autoload
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Named
from kpg.runtime.types import Kind, Type

Words = np.ndarray[Any, np.dtype[np.int64]]

VALUE: Final = "$value"
"""The function that gives its one argument as one row, NULL too: any expression in FROM."""


@dataclass(frozen=True, slots=True)
class RowSignature:
    """The types that the arguments must be cast to, and the names and types of the columns of the rows.

    A function of one unnamed column has the name "" for it: it is called as the function, or its alias.
    """

    args: tuple[Type, ...]
    names: tuple[str, ...]
    types: tuple[Type, ...]
    nullable: bool = True
    """Whether columns of the rows can be NULL."""


RowRule = Callable[[tuple[Type, ...]], RowSignature | None]
"""Argument types to a signature, or None where the overload does not apply."""


@dataclass(frozen=True, slots=True)
class Series:
    """Rows that are counted before they are made, by numpy, for arguments without NULLs.

    ``count`` takes the arguments as columns of words and gives the number of rows of each; ``make`` takes the
    columns repeated for each row, and the row's place among its own, from 0, and gives the row's one column.
    """

    count: Callable[..., Words]
    make: Callable[..., Words]


@dataclass(frozen=True, slots=True)
class Listing:
    """A Python function that gives the rows, tuples of values, once for each combination of arguments.

    ``build`` gives it for the types of the arguments and of the columns. Values are as ``Memoized`` functions
    take and give them; ValueError and ArithmeticError are the user's errors.
    """

    build: Callable[[tuple[Type, ...], tuple[Type, ...]], Callable[..., Iterable[tuple[object, ...]]]]
    takes_nulls: bool = False


RowMaker = Series | Listing


@dataclass(frozen=True, slots=True)
class RowOverload:
    """A way to make the rows and the argument types it is for."""

    rule: RowRule
    maker: RowMaker


@dataclass(frozen=True, slots=True)
class RowFunction:
    """A function that makes rows. ``examples``: calls in SQL with the rows that they give, in their order."""

    name: str
    accepts: str
    doc: str
    examples: Mapping[str, str] = field(hash=False)
    overloads: tuple[RowOverload, ...]


@dataclass(frozen=True, slots=True)
class Expansion:
    """A call that makes rows of some columns of a row: what a plan says of it."""

    function: str
    arguments: tuple[int, ...]
    argument_types: tuple[Type, ...]
    types: tuple[Type, ...]
    """Those of the columns that it gives."""
    text: str = field(default="", compare=False, repr=False)
    """The call as the user would recognise it, for errors."""


_FUNCTIONS: dict[str, RowFunction] = {}


def rows(
    name: str, accepts: str, doc: str, examples: Mapping[str, str], *overloads: RowOverload
) -> RowFunction:
    """Registers a function that makes rows; overloads are tried in order."""
    assert name not in _FUNCTIONS, name
    function = RowFunction(name, accepts, doc, examples, overloads)
    _FUNCTIONS[name] = function
    return function


def row_functions() -> Iterator[RowFunction]:
    """Every registered function that makes rows, by name."""
    autoload.bring_all()
    known = (one for name, one in _FUNCTIONS.items() if not name.startswith("$"))
    return iter(sorted(known, key=lambda function: function.name))


def makes_rows(name: str) -> bool:
    """Whether a name is that of a function that makes rows."""
    return name in _FUNCTIONS or name in autoload.row_names()


def row_function_names() -> frozenset[str]:
    """The names of all functions that make rows, those included that are not defined yet."""
    return autoload.row_names().union(_FUNCTIONS)


def _lookup(name: str) -> RowFunction:
    if isinstance(name, Named):
        return name.definition
    if name not in _FUNCTIONS:
        autoload.bring_rows(name)
    return _FUNCTIONS[name]


def near_names(name: str) -> list[str]:
    """The names that a misspelt one may have been meant for."""
    return difflib.get_close_matches(name, sorted(row_function_names()), n=3)


def resolve_rows(name: str, arg_types: tuple[Type, ...]) -> RowSignature:
    """The meaning of a call by name and argument types; ProgrammingError if it does not take them."""
    function = _lookup(name)
    for overload in function.overloads:
        signature = overload.rule(arg_types)
        if signature is not None:
            return signature
    shown = ", ".join("NULL" if type_.kind is Kind.NULL else str(type_) for type_ in arg_types)
    raise ProgrammingError(
        f"{name} does not take ({shown})", hint=f"it takes {function.accepts}; cast the arguments"
    )


def row_maker(expansion: Expansion) -> RowMaker:
    """How the rows of a call are made whose arguments are typed as :func:`resolve_rows` demands."""
    if expansion.function == VALUE:
        return Listing(lambda args, types: lambda value: [(value,)], takes_nulls=True)
    for overload in _lookup(expansion.function).overloads:
        if overload.rule(expansion.argument_types) is not None:
            return overload.maker
    raise ProgrammingError(f"{expansion.function} does not take these types")
