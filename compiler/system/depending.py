"""Rows of ``pg_depend``: which things need which, so that a dump has them in an order that can be read."""

from collections.abc import Iterator
from typing import Final

from kpg.compiler.catalog import Catalog, TableEntry
from kpg.compiler.constraints import Domain
from kpg.compiler.system.kin import rule_number
from kpg.compiler.system.naming import number_of, system_number
from kpg.compiler.system.relations import Row, System, columns, entries
from kpg.compiler.system.tables import defaults
from kpg.compiler.system.users import routines, type_number_of

NORMAL, AUTO, INTERNAL = "n", "a", "i"


def owned(catalog: Catalog) -> Iterator[tuple[str, str, int, bool]]:
    """Each sequence that goes with a column: its name, the table, the column's place, whether IDENTITY."""
    seen = set()
    for _, _, entry in entries(catalog):
        if isinstance(entry, TableEntry):
            for place, rule in enumerate(entry.constraints.rules, 1):
                if rule.sequence and catalog.find_sequence(rule.sequence) is not None:
                    seen.add(rule.sequence.lower())
                    yield rule.sequence, entry.name, place, bool(rule.identity)
    for one in catalog.sequences.values():
        if one.owner is not None and one.name.lower() not in seen and one.owner[0] in catalog:
            names = [name.lower() for name in catalog.get(one.owner[0]).schema.names]
            if one.owner[1].lower() in names:
                yield one.name, catalog.get(one.owner[0]).name, names.index(one.owner[1].lower()) + 1, False


def _rows(catalog: Catalog) -> Iterator[Row]:
    relation, default = system_number("pg_class"), system_number("pg_attrdef")
    places: dict[tuple[str, int], str] = {}
    for sequence, table, place, identity in owned(catalog):
        places[table, place] = sequence
        number, where = number_of("relation", sequence), number_of("relation", table)
        yield relation, number, 0, relation, where, place, INTERNAL if identity else AUTO
    for number, entry, place in defaults(catalog):
        yield default, number, 0, relation, number_of("relation", entry.name), place + 1, AUTO
        used = places.get((entry.name, place + 1))
        if used is not None:
            yield default, number, 0, relation, number_of("relation", used), 0, NORMAL
    yield from _of_views(catalog)
    yield from _of_types(catalog)


def _of_views(catalog: Catalog) -> Iterator[Row]:
    """A view's rule is part of it, and needs the relations and functions that its query names."""
    rule, relation = system_number("pg_rewrite"), system_number("pg_class")
    function = system_number("pg_proc")
    called: dict[str, list[int]] = {}
    for number, one in routines(catalog):
        called.setdefault(one.name.lower(), []).append(number)
    for view, used in catalog.consulted.session("uses"):
        entry = catalog.find(str(view))
        if entry is None or isinstance(entry, TableEntry):
            continue
        own = rule_number(entry.name, "_RETURN")
        yield rule, own, 0, relation, number_of("relation", entry.name), 0, INTERNAL
        name = str(used)
        if name.startswith("function "):
            for number in called.get(name.removeprefix("function ").lower(), ()):
                yield rule, own, 0, function, number, 0, NORMAL
        else:
            yield rule, own, 0, relation, number_of("relation", name), 0, NORMAL


def _of_types(catalog: Catalog) -> Iterator[Row]:
    """A type of rows needs those of its fields, a domain the one below it."""
    number = system_number("pg_type")
    for key, one in catalog.types.items():
        for part in (one.type,) if isinstance(one, Domain) else one.parts:
            element = part.parts[0] if part.kind.value == "ARRAY" else part
            if element.name:
                used = type_number_of(element)
                yield number, number_of("type", one.name or key), 0, number, used, 0, NORMAL


POSTGRES: Final = {
    "pg_depend": System(
        columns("classid:o objid:o objsubid:i refclassid:o refobjid:o refobjsubid:i deptype"), _rows
    ),
}
