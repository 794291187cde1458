"""User-defined functions in Python: registers, inspects and drops them."""

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from kpg.collections.expression import type_of
from kpg.compiler.catalog.entries import did_you_mean
from kpg.runtime.errors import InterfaceError, NotSupportedError, ProgrammingError
from kpg.runtime.functions import is_aggregate, is_function
from kpg.runtime.functions.table_functions import makes_rows
from kpg.runtime.functions.user_functions import (
    Declared,
    Own,
    aggregate_function,
    row_function,
    scalar_function,
)
from kpg.runtime.scalar import Named
from kpg.runtime.types import NUMERIC, Type
from kpg.session.engine import Engine, importable

Types = Sequence[Any] | None
Given = tuple[int, str | None, tuple[Type, ...], Any, bool, bool]
"""What a function is made of again: its number, where it is imported from, the types of its arguments, what
it gives, and whether it is called with columns, and for NULLs."""
METHODS: Final = ("initialize", "add", "finish")
"""What an aggregate has at least."""


def create(
    engine: Engine, name: str, function: Any, args: Types, returns: Any, *, columns: bool, nulls: bool
) -> None:
    """As :meth:`kpg.api.database.Database.create_function`."""
    _check_name(engine, name)
    if isinstance(function, type):
        function = function()
    algebra = hasattr(function, "initialize")
    missing = [method for method in METHODS if algebra and not callable(getattr(function, method, None))]
    if missing or not (algebra or callable(function)):
        what = (
            f"an aggregate needs the method {missing[0]}()" if missing else f"{function!r} is not a function"
        )
        raise InterfaceError(what, hint="give a function, or an object with initialize, add and finish")
    if algebra and (columns or nulls):
        raise InterfaceError("an aggregate is called with values, and not for NULLs")
    place = importable(function)
    if engine.keeper is not None and place is None and name.lower() not in engine.given_anew:
        raise NotSupportedError(
            f"function {name} cannot be kept in a folder: {function!r} is not in a module",
            hint="define it in a module that can be imported, or give it when the database is opened: "
            f"kpg.connect(folder, functions={{{name!r}: ...}})",
        )
    number = engine.catalog.number_function()
    told, result = _signature(name, function.add if algebra else function, args, returns, 1 if algebra else 0)
    declared = Declared(name.lower(), number, told, inspect.getdoc(function) or "")
    made: Named[Own]
    kept: Any
    if algebra:
        kept = _type(name, _given(function.finish, result, name))
        made = aggregate_function(declared, function, kept)
    elif isinstance(result, Mapping):
        if columns:
            raise InterfaceError("a function that makes rows is called with values, not columns")
        listed = {column: _type(column, given) for column, given in result.items()}
        made = row_function(declared, function, listed, nulls=nulls)
        kept = tuple(listed.items())
    else:
        kept = _type(name, _given(function, result, name))
        made = scalar_function(declared, function, kept, columns=columns, nulls=nulls)
    engine.catalog.functions[name.lower()] = made
    engine.functions_given[name.lower()] = (number, place, told, kept, columns, nulls)
    engine.remembered.forget()


def known(engine: Engine) -> Callable[[], None]:
    """What has the users' functions be those that there are now."""
    catalog = engine.catalog
    functions, given, made = dict(catalog.functions), dict(engine.functions_given), catalog.functions_made

    def again() -> None:
        catalog.functions.clear()
        catalog.functions.update(functions)
        engine.functions_given.clear()
        engine.functions_given.update(given)
        catalog.functions_made = made
        engine.remembered.forget()

    return again


def drop(engine: Engine, name: str) -> None:
    """Forget a function that no view uses."""
    made = engine.catalog.functions.get(name.lower())
    if made is None:
        hint = did_you_mean(name, engine.catalog.functions)
        raise ProgrammingError(f'there is no function "{name}" of your own', hint=hint)
    users = engine.views.users(made)
    if users:
        raise ProgrammingError(f'function "{name}" cannot be dropped: view "{users[0]}" uses it')
    del engine.catalog.functions[name.lower()]
    del engine.functions_given[name.lower()]
    engine.remembered.forget()


def _check_name(engine: Engine, name: str) -> None:
    lower = name.lower()
    if not name.isidentifier():
        raise InterfaceError(f"{name!r} is no name of a function", hint="letters, digits and underscores")
    if is_function(lower) or is_aggregate(lower) or makes_rows(lower):
        raise ProgrammingError(f'"{name}" is a function of SQL', hint="choose another name")
    if lower in engine.catalog.functions:
        raise ProgrammingError(f'function "{lower}" already exists', hint="drop_function() it first")


def _signature(
    name: str, function: Callable[..., Any], args: Types, returns: Any, skipped: int
) -> tuple[tuple[Type, ...], Any]:
    """The types of the arguments, and what is said of the result, by the call or by annotations."""
    if args is not None:
        return tuple(
            _type(f"{name}, argument {place + 1}", given) for place, given in enumerate(args)
        ), returns
    hints = _hints(function)
    try:
        parameters = list(inspect.signature(function).parameters)[skipped:]
    except ValueError:
        parameters = []
    parameters = [one for one in parameters if one != "times" or not skipped]
    unknown = [one for one in parameters if one not in hints]
    if unknown or not (parameters or hints):
        where = f" of argument {unknown[0]}" if unknown else "s of the arguments"
        raise InterfaceError(
            f"the type{where} of {name} cannot be told", hint="annotate the function, or give args=[...]"
        )
    return tuple(_type(one, hints[one]) for one in parameters), returns


def _given(function: Callable[..., Any], returns: Any, name: str) -> Any:
    """What is said of a result."""
    given = _hints(function).get("return") if returns is None else returns
    if given is None:
        raise InterfaceError(
            f"the type of what {name} gives cannot be told", hint="annotate the function, or give returns=..."
        )
    return given


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except (TypeError, NameError):
        return {}


def _type(name: str, given: Any) -> Type:
    """A type as users write it; one that may be None is that type."""
    parts = [part for part in typing.get_args(given) if part is not type(None)]
    plain = parts[0] if len(parts) == 1 else given
    return NUMERIC if plain is Decimal else type_of(name, plain)
