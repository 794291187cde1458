"""Rows of ``pg_type``, and of the relations that types of rows are."""

from collections.abc import Iterator
from typing import Final

from kpg.compiler.catalog import Catalog
from kpg.compiler.rights import Key
from kpg.compiler.system.naming import (
    ARRAYS,
    MORE_TYPES,
    TEXT_TYPE,
    TYPES,
    array_number,
    given_types,
    number_of,
    role_number,
    schema_number,
    split,
)
from kpg.compiler.system.ownership import listed
from kpg.compiler.system.relations import Row
from kpg.compiler.system.stored import physical
from kpg.compiler.system.users import composites
from kpg.compiler.system.users import type_rows as made_types
from kpg.runtime.types import Type

CATEGORIES: Final = {
    **dict.fromkeys(("int2", "int4", "int8", "numeric", "float4", "float8", "oid"), "N"),
    **dict.fromkeys(("date", "timestamp", "timestamptz", "time"), "D"),
    **dict.fromkeys(("text", "varchar", "bpchar"), "S"),
    "bool": "B",
    "interval": "T",
}
"""What pg_type calls the categories of types."""
JOINED: Final = frozenset(
    (
        "bool",
        "int2",
        "int4",
        "int8",
        "oid",
        "tid",
        "float4",
        "float8",
        "text",
        "varchar",
        "bpchar",
        "bytea",
        "char",
    )
)
"""Types whose functions Postgres has named without an underscore."""


def io_names(short: str) -> tuple[str, str, str, str]:
    """What Postgres calls the functions that read and write a type's values, as text and in binary."""
    stem = short
    if short.endswith("range"):
        stem = "multirange" if short.endswith("multirange") else "range"
    stem += "" if short in JOINED else "_"
    return f"{stem}in", f"{stem}out", f"{stem}recv", f"{stem}send"


def _given(_catalog: Catalog) -> Iterator[Row]:
    """Rows of pg_type of the types that are given."""
    for _, short, number, length in given_types():
        kind, category = "b", CATEGORIES.get(short, "U")
        if short.endswith("range"):
            kind, category = ("m" if short.endswith("multirange") else "r"), "R"
        yield number, short, 11, length, kind, category, 0, ARRAYS[number], *io_names(short)
        yield ARRAYS[number], f"_{short}", 11, -1, "b", "A", number, 0, *io_names("array")


READ: Final = {"e": "enum", "c": "record", "d": "domain", "p": "void"}
"""As what the values of types that users have made are read, by the kind of the type."""
NO_BASE: Final = (0, -1, 0, None, 0)
"""What a type that has no base, and is no relation's, has of these."""


def types(catalog: Catalog) -> Iterator[Row]:
    """Rows of pg_type."""
    for row in _given(catalog):
        yield *row, *NO_BASE, *_stored(str(row[1]), int(str(row[3]))), 10, None, None
    bases = {one[2]: (one[1], one[3]) for one in (*TYPES.values(), *MORE_TYPES.values(), TEXT_TYPE)}
    for number, name, schema, kind, category, *rest in made_types(catalog):
        arrays = 0 if kind == "p" else array_number(int(str(number)))
        relation = number_of("relation of a type", f"{schema} {name}") if kind == "c" else 0
        length, given = (4 if kind == "e" else -1), io_names(READ[str(kind)])
        short, key = str(name), _key(catalog, str(name), int(str(schema)))
        owner = role_number(catalog.rights.owner(key)) if key else 10
        if kind == "d":
            short, length = bases.get(int(str(rest[0])), (short, length))
            category = CATEGORIES.get(short, "U")
        facts = (*_stored(short, length), owner)
        head = (number, name, schema, length, kind, category, 0)
        yield *head, arrays, *given, *rest, relation, *facts, rest[3], listed(catalog, key) if key else None
        if arrays:
            its = (arrays, f"_{name}", schema, -1, "b", "A", number)
            yield *its, 0, *io_names("array"), *NO_BASE, *_stored(f"_{short}", -1), owner, None, None


def _stored(short: str, length: int) -> Row:
    by_value, align, storage, collation = physical(short, length)
    return by_value, align, storage, collation


def _key(catalog: Catalog, name: str, schema: int) -> Key | None:
    """What privileges of a user's type are kept by."""
    for key, one in catalog.types.items():
        its, plain = split(catalog, one.name or key)
        if plain == name and schema_number(its) == schema:
            return ("TYPE", (one.name or key).lower())
    return None


def classes(catalog: Catalog) -> Iterator[Row]:
    """Rows of pg_class for composite types; the last value is the number of the type."""
    for whole, type_ in composites(catalog):
        schema, name = split(catalog, whole)
        number = number_of("relation of a type", f"{schema_number(schema)} {name}")
        owner = role_number(catalog.rights.owner(("TYPE", whole.lower())))
        yield (
            number,
            name,
            schema_number(schema),
            "c",
            len(type_.parts),
            owner,
            "p",
            0,
            0,
            0,
            0,
            0,
            None,
            0,
            0,
            number_of("type", whole),
        )


def fields(catalog: Catalog) -> Iterator[tuple[int, str, Type, int]]:
    """The columns that the fields of types of rows are: relation, name, type and place."""
    for whole, type_ in composites(catalog):
        schema, plain = split(catalog, whole)
        number = number_of("relation of a type", f"{schema_number(schema)} {plain}")
        for place, (name, part) in enumerate(zip(type_.labels, type_.parts, strict=True), 1):
            yield number, name, part, place
