"""The functors that users declare and write in Python, and functions of the database's own."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from kpg.compiler.catalog import Catalog
from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.typing.functors import Functor, Scheme
from kpg.compiler.datalog.typing.types import TypeTable, type_name
from kpg.runtime.functions.registry import ScalarFunction
from kpg.runtime.functions.user_functions import Declared, scalar_function
from kpg.runtime.scalar import Named, shown

Made = Mapping[str, Named[ScalarFunction]]


def declare_functors(
    declarations: Iterable[ast.Functor],
    table: TypeTable,
    catalog: Catalog,
    given: Mapping[str, Callable[..., Any]],
    made: Made,
    diagnostics: Diagnostics,
) -> None:
    """Enter what a program can call besides what there is anyway: a declared functor, by the function that
    is given for it, or is the database's by its name; and all functions of the database.

    ``made`` are functors of the same program that were entered before.
    """
    for name, known in catalog.functions.items():
        if isinstance(known.definition, ScalarFunction):
            table.functions[name] = known  # type: ignore[assignment]
    for one in declarations:
        plain = one.name.text.removeprefix("@")
        if one.name.text in table.functors:
            diagnostics.error("redefinition", f"functor {plain} is already defined", one.name.span)
            continue
        args = tuple(table.kinds[type_name(part, table, diagnostics)] for part in one.arguments)
        result = table.kinds[type_name(one.result, table, diagnostics)]
        functor = Functor(plain, Scheme.FIXED, len(args), len(args), args=args, result=result)
        table.functors[one.name.text] = functor
        types = tuple(kind.type for kind in args)
        function = given.get(plain)
        if one.name.text in made:
            table.functions[one.name.text] = made[one.name.text]
        elif function is not None:
            declared = Declared(plain, catalog.number_function(), types, "")
            own = scalar_function(declared, _total(function), result.type, columns=False, nulls=False)
            table.functions[one.name.text] = own
        elif plain.lower() in table.functions:
            _check(one, table.functions[plain.lower()], functor, diagnostics)
            table.functions[one.name.text] = table.functions[plain.lower()]


def _total(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, for which giving nothing is an error."""
    return partial(_call_total, function)


def _call_total(function: Callable[..., Any], *values: Any) -> Any:
    value = function(*values)
    if value is None:
        raise ValueError("it gave None")
    return value


def _check(
    one: ast.Functor, known: Named[ScalarFunction], functor: Functor, diagnostics: Diagnostics
) -> None:
    """A function of the database takes what the functor is declared to take, and gives that."""
    types = tuple(kind.type for kind in functor.args)
    found = next((made for part in known.definition.overloads if (made := part.rule(types))), None)
    assert functor.result is not None
    if found is None or found.result != functor.result.type:
        message = f"function {shown(known)} is not as functor {functor.name} is declared"
        hint = f"it takes {known.definition.accepts}"
        diagnostics.error("functor", message, one.span, hint=hint)
