"""Rows of ``information_schema`` about routines and what they take and give."""

from collections.abc import Iterator
from typing import Final

from kpg.compiler.catalog import Catalog
from kpg.compiler.routines import Routine
from kpg.compiler.system.naming import DATABASE, split
from kpg.compiler.system.relations import Row, System, columns, yes
from kpg.compiler.system.typing_told import identified, kind_of
from kpg.compiler.system.users import routines
from kpg.runtime.types import Type

MODES: Final = {"i": "IN", "o": "OUT", "b": "INOUT", "v": "IN", "t": "OUT"}


def specific_name(catalog: Catalog, number: int, name: str) -> str:
    """By what a routine is told from others of its name."""
    return f"{split(catalog, name)[1]}_{number}"


def _known(catalog: Catalog) -> Iterator[tuple[str, str, Routine]]:
    """Schema, specific name and routine; aggregates are none to the standard."""
    for number, one in routines(catalog):
        if isinstance(one, Routine):
            yield split(catalog, one.name)[0], specific_name(catalog, number, one.name), one


def taken(one: Routine) -> list[tuple[str, str, Type, str]]:
    """The arguments and what else a routine gives: mode, name, type and the text of the DEFAULT."""
    found = [("v" if part.variadic else "i", part.name, part.type, part.default) for part in one.parameters]
    table = one.rows and len(one.outs) > 1
    return found + [("t" if table else "o", name, type_, "") for name, type_ in one.outs]


def typed_routines(catalog: Catalog) -> Iterator[tuple[str, str, str, Type]]:
    """Schema and specific name of each routine and the places and types of what it takes; 0 is the result."""
    for schema, specific, one in _known(catalog):
        for place, (_, _, type_, _) in enumerate(taken(one), 1):
            yield schema, specific, str(place), type_
        yield schema, specific, "0", one.result


def _parameters(catalog: Catalog) -> Iterator[Row]:
    spell = catalog.consulted.spelling.expression
    for schema, specific, one in _known(catalog):
        for place, (mode, name, type_, default) in enumerate(taken(one), 1):
            head = (DATABASE, schema, specific, place, MODES[mode], "NO", "NO", name or None)
            given = spell(catalog, None, default, given=type_) if default else None
            yield *head, kind_of(type_), *identified(catalog, type_), str(place), given


def _routines(catalog: Catalog) -> Iterator[Row]:
    for schema, specific, one in _known(catalog):
        told = dict(one.declared)
        own = catalog.rights.acts_as(catalog.asker.user)
        shown = not catalog.is_limited or catalog.rights.owner(("FUNCTION", one.name.lower())) in own
        yield (
            *(DATABASE, schema, specific, DATABASE, schema, split(catalog, one.name)[1]),
            *("FUNCTION", kind_of(one.result), *identified(catalog, one.result), "0"),
            "SQL",
            one.body if shown else None,
            *("SQL", "GENERAL", yes(told.get("volatility") == "IMMUTABLE"), "MODIFIES"),
            *(yes(one.strict), "YES", 0),
            *("DEFINER" if one.definer else "INVOKER", "NO", "NO"),
        )


INFORMATION: Final = {
    "routines": System(
        columns(
            "specific_catalog specific_schema specific_name routine_catalog routine_schema routine_name "
            "routine_type data_type type_udt_catalog type_udt_schema type_udt_name dtd_identifier "
            "routine_body routine_definition external_language parameter_style is_deterministic "
            "sql_data_access is_null_call schema_level_routine max_dynamic_result_sets:i security_type "
            "as_locator is_udt_dependent"
        ),
        _routines,
    ),
    "parameters": System(
        columns(
            "specific_catalog specific_schema specific_name ordinal_position:i parameter_mode is_result "
            "as_locator parameter_name data_type udt_catalog udt_schema udt_name dtd_identifier "
            "parameter_default"
        ),
        _parameters,
    ),
}
