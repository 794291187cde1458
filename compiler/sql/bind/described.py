"""What the system tells of functions that users have made, and of constraints."""

from collections.abc import Callable
from functools import partial

from sqlglot import exp

from kpg.compiler.catalog import Catalog
from kpg.compiler.routines import Aggregate, Routine
from kpg.compiler.sql.bind.calls import call
from kpg.compiler.sql.bind.choices import choice
from kpg.compiler.sql.bind.scope import Binding
from kpg.compiler.system import naming, objects, users
from kpg.compiler.system.relations import constraints
from kpg.runtime.scalar import Literal, Scalar
from kpg.runtime.types import OID, TEXT


def of_routine(binding: Binding, node: exp.Anonymous, name: str, number: Scalar) -> Scalar:
    """What a function takes or gives, or all of it."""
    catalog = binding.catalog
    tells: dict[str, Callable[[Routine | Aggregate], str | None]] = {
        "pg_get_function_arguments": users.arguments,
        "pg_get_function_identity_arguments": users.identity,
        "pg_get_function_result": users.result,
        "pg_get_functiondef": partial(users.definition, catalog),
    }
    tell = tells[name]
    if isinstance(number, Literal) and isinstance(number.value, str):
        number = Literal(routine_number(binding, number.value, node), OID)
    found = ((one, tell(routine)) for one, routine in users.routines(catalog))
    text = choice(binding, node, number, ((one, shown) for one, shown in found if shown is not None))
    return call(binding, "coalesce", [text, Literal("", TEXT)], node) if "arguments" in name else text


def routine_number(binding: Binding, name: str, node: exp.Expr) -> int:
    """The number of the function of a name."""
    found = users.named(binding.catalog, name.removeprefix("pg_catalog."))
    if len(found) > 1:
        binding.wrong(f'more than one function named "{name}"', node)
    if not found:
        plain = name.partition("(")[0].removeprefix("pg_catalog.").lower()
        if objects.is_function(plain):
            return naming.number_of("function", plain)
        binding.wrong(f'function "{name}" does not exist', node)
    return found[0]


def routine_names(binding: Binding, operand: Scalar, node: exp.Cast, kind: str) -> Scalar:
    """A cast to regprocedure or regoperator: of a number the name, if there is one."""
    if kind == "regprocedure" and isinstance(operand, Literal) and isinstance(operand.value, str):
        routine_number(binding, operand.value, node)
        return Literal(operand.value, TEXT)
    routines = users.routines(binding.catalog) if kind == "regprocedure" else ()
    return choice(binding, node, operand, ((number, one.name) for number, one in routines))


def constraint_texts(catalog: Catalog) -> list[tuple[int, str]]:
    """The texts of constraints by their numbers."""
    known = [
        (naming.number_of("constraint", f"{entry.name} {one.name}"), objects.definition_of(one))
        for _, entry, one in constraints(catalog)
    ]
    return known + [(one[0], objects.definition_of(one[1])) for one in users.domain_checks(catalog)]
