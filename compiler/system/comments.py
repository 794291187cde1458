"""Rows of ``pg_description``: what COMMENT has said."""

from collections.abc import Iterator
from typing import Final

from kpg.compiler.catalog import Catalog
from kpg.compiler.system.indexes import indexes
from kpg.compiler.system.naming import number_of, role_number, schema_number, split, system_number
from kpg.compiler.system.relations import Row, System, columns
from kpg.compiler.system.users import routines

STANDARD: Final = (
    (2200, "pg_namespace", "standard public schema"),
    (13501, "pg_extension", "PL/pgSQL procedural language"),
)
"""What is said of what is always there."""


DATABASE_NUMBER: Final = 1
OF_RELATIONS: Final = ("RELATION", "COLUMN", "CONSTRAINT", "POLICY")
"""Kinds of what has the name of a relation."""


def descriptions(catalog: Catalog) -> Iterator[tuple[int, str, int, str]]:
    """The number of each thing, the catalog that it is in, the place of a column or 0, and what is said."""
    said = set()
    for key, text in catalog.comments.items():
        for number, where, place in _found(catalog, key):
            said.add(number)
            yield number, where, place, text
    for number, where, text in STANDARD:
        if number not in said:
            yield number, where, 0, text


def move_comments(catalog: Catalog, was: str, name: str = "") -> None:
    """What was said of a relation and its parts is said of it under another name, or forgotten with it."""
    for key, text in list(catalog.comments.items()):
        if key[0] in OF_RELATIONS and key[1] == was.lower():
            del catalog.comments[key]
            if name:
                catalog.comments[(key[0], name.lower(), *key[2:])] = text


def _found(catalog: Catalog, key: tuple[str, ...]) -> list[tuple[int, str, int]]:
    kind, name = key[0], key[1].removeprefix("public.")
    match kind:
        case "RELATION" | "SEQUENCE":
            return [(number_of("relation", name), "pg_class", 0)]
        case "INDEX":
            known = (one for one in indexes(catalog) if one.name.lower() in (name, key[1]))
            return [(one.number, "pg_class", 0) for one in known]
        case "COLUMN":
            names = [one.lower() for one in catalog.get(key[1]).schema.names]
            return [(number_of("relation", key[1]), "pg_class", names.index(key[2]) + 1)]
        case "CONSTRAINT":
            return [(number_of("constraint", f"{key[1]} {key[2]}"), "pg_constraint", 0)]
        case "SCHEMA":
            return [(schema_number(name), "pg_namespace", 0)]
        case "TYPE" | "DOMAIN":
            return [(number_of("type", name), "pg_type", 0)]
        case "FUNCTION" | "AGGREGATE":
            plain = name.rpartition(".")[2]
            return [
                (number, "pg_proc", 0)
                for number, one in routines(catalog)
                if split(catalog, one.name)[1].lower() == plain
            ]
        case "POLICY" if len(key) > 2:  # folders of earlier versions may have a key without the policy
            return [(number_of("policy", f"{key[1]}.{key[2]}"), "pg_policy", 0)]
        case _:
            return []


def _shared(catalog: Catalog) -> Iterator[tuple[int, str, str]]:
    """The same of what all databases of a server have: roles, and databases."""
    for (kind, name, *_), text in catalog.comments.items():
        if kind == "ROLE":
            yield role_number(name), "pg_authid", text
        elif kind == "DATABASE":
            yield DATABASE_NUMBER, "pg_database", text


def _shared_rows(catalog: Catalog) -> Iterator[Row]:
    for number, where, text in _shared(catalog):
        yield number, system_number(where), text


def shared_descriptions(catalog: Catalog, where: str) -> list[tuple[int, str]]:
    """What is said of things that are in the catalog ``where``, by their numbers."""
    return [(number, text) for number, its, text in _shared(catalog) if its == where]


def _rows(catalog: Catalog) -> Iterator[Row]:
    for number, where, place, text in descriptions(catalog):
        yield number, system_number(where), place, text


def whole_descriptions(catalog: Catalog) -> list[tuple[int, str]]:
    """What is said of things by their numbers, but for columns."""
    return [(number, text) for number, _, place, text in descriptions(catalog) if not place]


POSTGRES: Final = {
    "pg_description": System(columns("objoid:o classoid:o objsubid:i description"), _rows),
    "pg_shdescription": System(columns("objoid:o classoid:o description"), _shared_rows),
}
