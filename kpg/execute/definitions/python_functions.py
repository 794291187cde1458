"""User-defined functions in Python: registers, inspects and drops them."""

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from kpg.collections.expression import type_of
from kpg.compiler.catalog.entries import FUNCTIONS, did_you_mean
from kpg.runtime.errors import InterfaceError, NotSupportedError, ProgrammingError
from kpg.runtime.functions import is_aggregate, is_function
from kpg.runtime.functions.table_functions import is_row_function
from kpg.runtime.functions.user_functions import (
    FunctionDeclaration,
    UserFunction,
    aggregate_function,
    row_function,
    scalar_function,
)
from kpg.runtime.scalar import UserFunctionName
from kpg.runtime.types import NUMERIC, Type
from kpg.session.engine import Engine, importable

Types = Sequence[Any] | None
AGGREGATE_METHODS: Final = ("initialize", "add", "finish")
"""Methods that an aggregate must have."""


def create(
    engine: Engine, name: str, function: Any, args: Types, returns: Any, *, columns: bool, nulls: bool
) -> None:
    """Register a function; see :meth:`kpg.api.database.Database.create_function`."""
    _check_name(engine, name)
    if isinstance(function, type):
        function = function()
    algebra = hasattr(function, "initialize")
    missing = [
        method for method in AGGREGATE_METHODS if algebra and not callable(getattr(function, method, None))
    ]
    if missing or not (algebra or callable(function)):
        what = (
            f"an aggregate needs the method {missing[0]}()" if missing else f"{function!r} is not a function"
        )
        raise InterfaceError(what, hint="give a function, or an object with initialize, add and finish")
    if algebra and (columns or nulls):
        raise InterfaceError("an aggregate is called with values, and not for NULLs")
    place = importable(function)
    if engine.write_ahead_log is not None and place is None and name.lower() not in engine.supplied_functions:
        raise NotSupportedError(
            f"function {name} cannot be kept in a folder: {function!r} is not in a module",
            hint="define it in a module that can be imported, or give it when the database is opened: "
            f"kpg.connect(folder, functions={{{name!r}: ...}})",
        )
    number = engine.catalog.next_function_number()
    argument_types, result = _signature(
        name, function.add if algebra else function, args, returns, 1 if algebra else 0
    )
    declared = FunctionDeclaration(name.lower(), number, argument_types, inspect.getdoc(function) or "")
    entry: UserFunctionName[UserFunction]
    result_types: Any
    if algebra:
        result_types = _type(name, _result_type(function.finish, result, name))
        entry = aggregate_function(declared, function, result_types)
    elif isinstance(result, Mapping):
        if columns:
            raise InterfaceError("a function that returns rows takes values, not columns")
        listed = {column: _type(column, given) for column, given in result.items()}
        entry = row_function(declared, function, listed, nulls=nulls)
        result_types = tuple(listed.items())
    else:
        result_types = _type(name, _result_type(function, result, name))
        entry = scalar_function(declared, function, result_types, columns=columns, nulls=nulls)
    engine.catalog.apply(FUNCTIONS.put(name.lower(), entry))
    engine.function_records[name.lower()] = (number, place, argument_types, result_types, columns, nulls)
    engine.plan_cache.invalidate()


def make_restorer(engine: Engine) -> Callable[[], None]:
    """Return a function that restores the present set of user functions."""
    catalog = engine.catalog
    functions, records, count = catalog.functions, dict(engine.function_records), catalog.function_count

    def restore() -> None:
        catalog.apply(
            *(FUNCTIONS.remove(name) for name in catalog.functions),
            *(FUNCTIONS.put(name, function) for name, function in functions.items()),
        )
        engine.function_records.clear()
        engine.function_records.update(records)
        catalog.function_count = count
        engine.plan_cache.invalidate()

    return restore


def drop(engine: Engine, name: str) -> None:
    """Drop a function that no view uses."""
    made = engine.catalog.functions.get(name.lower())
    if made is None:
        hint = did_you_mean(name, engine.catalog.functions)
        raise ProgrammingError(f'there is no function "{name}" of your own', hint=hint)
    users = engine.views.users(made)
    if users:
        raise ProgrammingError(f'function "{name}" cannot be dropped: view "{users[0]}" uses it')
    engine.catalog.apply(FUNCTIONS.remove(name.lower()))
    del engine.function_records[name.lower()]
    engine.plan_cache.invalidate()


def _check_name(engine: Engine, name: str) -> None:
    lower = name.lower()
    if not name.isidentifier():
        raise InterfaceError(f"{name!r} is no name of a function", hint="letters, digits and underscores")
    if is_function(lower) or is_aggregate(lower) or is_row_function(lower):
        raise ProgrammingError(f'"{name}" is a function of SQL', hint="choose another name")
    if lower in engine.catalog.functions:
        raise ProgrammingError(f'function "{lower}" already exists', hint="drop_function() it first")


def _signature(
    name: str, function: Callable[..., Any], args: Types, returns: Any, skipped: int
) -> tuple[tuple[Type, ...], Any]:
    """Return the argument types and the result, from the call or from annotations."""
    if args is not None:
        return tuple(
            _type(f"{name}, argument {place + 1}", given) for place, given in enumerate(args)
        ), returns
    hints = _hints(function)
    try:
        parameters = list(inspect.signature(function).parameters)[skipped:]
    except ValueError:
        parameters = []
    parameters = [parameter for parameter in parameters if parameter != "times" or not skipped]
    unknown = [parameter for parameter in parameters if parameter not in hints]
    if unknown or not (parameters or hints):
        where = f" of argument {unknown[0]}" if unknown else "s of the arguments"
        raise InterfaceError(
            f"the type{where} of {name} cannot be told", hint="annotate the function, or give args=[...]"
        )
    return tuple(_type(parameter, hints[parameter]) for parameter in parameters), returns


def _result_type(function: Callable[..., Any], returns: Any, name: str) -> Any:
    """Return the declared or annotated result."""
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


def _type(name: str, annotation: Any) -> Type:
    """Return a type as users write it; ``T | None`` is ``T``."""
    parts = [part for part in typing.get_args(annotation) if part is not type(None)]
    plain = parts[0] if len(parts) == 1 else annotation
    return NUMERIC if plain is Decimal else type_of(name, plain)
