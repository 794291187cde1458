"""Rows of ``pg_class``, ``pg_attribute``, ``pg_attrdef`` and ``pg_type``."""

from collections.abc import Iterator
from typing import Final

from kpg.compiler.catalog.access_control import security_of
from kpg.compiler.catalog.constraints import Check, Domain, ForeignKey, Heir
from kpg.compiler.catalog.entries import Catalog, Entry, TableEntry, ViewEntry
from kpg.compiler.catalog.privileges import Key
from kpg.compiler.system import relations
from kpg.compiler.system.oids import (
    ARRAYS,
    MORE_TYPES,
    TEXT_TYPE,
    TYPES,
    array_number,
    domain_at,
    given_types,
    modifier,
    modifier_at,
    number_of,
    physical,
    role_number,
    rule_of,
    schema_number,
    split,
    type_at,
    type_facts,
)
from kpg.compiler.system.pg_index import (
    IndexFacts,
    bound_text,
    included_parts,
    indexes,
    inherited,
    is_partition,
    is_partitioned,
    label_of,
)
from kpg.compiler.system.relations import Row, System, columns, constraints, entries, listed
from kpg.compiler.system.user_objects import composites
from kpg.compiler.system.user_objects import type_rows as made_types
from kpg.runtime.types import Type
from kpg.runtime.values.words import BLOCK

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


HEAP, BTREE = 2, 403
"""Numbers of access methods."""


def _classes(catalog: Catalog) -> Iterator[Row]:
    known = list(indexes(catalog))
    yield from _relations(catalog, {one.entry.name for one in known})
    for one in catalog.sequences.values():
        schema, name = split(catalog, one.name)
        key = ("SEQUENCE", one.name.lower())
        number, owner = number_of("relation", one.name), relations.number_of_owner(catalog, key)
        facts = (number, name, schema_number(schema), "S", 3, owner, "p")
        yield *facts, 1, 0, 0, 0, 0, relations.listed(catalog, key), 0, 0, 0, 0, 0, None, "n", 1, 0
    for index in known:
        yield _index_class(catalog, index)
    for row in classes(catalog):
        yield *row[:-1], 0, 0, 0, None, "n", 0, row[-1]


def _relations(catalog: Catalog, indexed: set[str]) -> Iterator[Row]:
    """Tables and views; ``indexed`` are those with indexes."""
    others = catalog.others.values()
    keys = [(entry.name, one.target) for _, entry, one in constraints(catalog) if isinstance(one, ForeignKey)]
    # Postgres keeps foreign keys by triggers on both sides, and psql looks for keys where there are some.
    linked = {name.lower() for pair in keys for name in pair}
    parents = {one.parent.lower() for one in others if isinstance(one, Heir)}
    counts = {str(name): int(str(rows)) for name, rows in catalog.consulted.session("rows")}
    checked = [entry.name for _, entry, one in constraints(catalog) if isinstance(one, Check)]
    for schema, name, entry in entries(catalog):
        lower = entry.name.lower()
        kind = _kind(catalog, entry)
        key = ("RELATION", lower)
        owner = relations.number_of_owner(catalog, key)
        secured = security_of(catalog, entry.name)
        number, width = number_of("relation", entry.name), len(entry.schema.columns)
        tuples = counts.get(entry.name) or -1
        yield (
            *(number, name, schema_number(schema), kind, width),
            *(owner, "t" if schema.startswith("pg_temp") else "p", tuples, int(entry.name in indexed)),
            checked.count(entry.name),
            *(0 if kind in "vp" else HEAP, int(lower in linked), relations.listed(catalog, key)),
            *(int(secured.enabled), int(secured.forced), int(kind in "vm")),
            *(int(lower in parents), int(is_partition(catalog, entry.name)), bound_text(catalog, entry.name)),
            "n" if kind == "v" else "d",
            -(-counts.get(entry.name, 0) // BLOCK),
            0,
        )


def _kind(catalog: Catalog, entry: Entry) -> str:
    if isinstance(entry, ViewEntry):
        return "m" if entry.materialized else "v"
    return "p" if is_partitioned(catalog, entry.name) else "r"


def _index_class(catalog: Catalog, index: IndexFacts) -> Row:
    schema, plain = split(catalog, index.name)
    owner = relations.number_of_owner(catalog, ("RELATION", index.entry.name.lower()))
    kind = "I" if is_partitioned(catalog, index.entry.name) else "i"
    part = int(kind == "i" and is_partition(catalog, index.entry.name))
    kept = "t" if index.entry.name.startswith("pg_temp") else "p"
    width, below = len(index.parts) + len(included_parts(index)), int(kind == "I")
    head = (index.number, plain, schema_number(schema), kind, width, owner, kept, 0, 0, 0)
    return *head, BTREE, 0, None, 0, 0, 0, below, part, None, "n", 0, 0


Plain = tuple[int, str, Type, int]
"""The relation's number, the column's name, its type and its place."""


def _plain_column(number: int, name: str, type_: Type, place: int, its: int) -> Row:
    facts = type_facts(type_)
    head = (number, name, facts[2], facts[3], place, its)
    return *head, 0, 0, "", "", 0, None, *physical(facts[1], facts[3]), _dimensions(type_), 1, 0


def modifiers(catalog: Catalog) -> set[tuple[int, int]]:
    """The numbers of the types with the modifiers that columns, fields and domains have."""
    found = {
        (type_at(catalog, entry, place)[0], modifier_at(catalog, entry, place))
        for _, _, entry in entries(catalog)
        for place in range(len(entry.schema.columns))
    }
    parts = [type_ for _, _, type_, _ in fields(catalog)]
    parts += [one.type for one in catalog.types.values() if isinstance(one, Domain)]
    found |= {(type_facts(type_)[2], modifier(type_)) for type_ in parts}
    return {one for one in found if one[1] >= 0}


def _dimensions(type_: Type) -> int:
    return int(type_.kind.value == "ARRAY")


def _attributes(catalog: Catalog) -> Iterator[Row]:
    for index in indexes(catalog):
        for place, part in enumerate((*index.parts, *included_parts(index)), 1):
            name = part.text if part.place else label_of(part)
            its = modifier_at(catalog, index.entry, part.place - 1) if part.place else -1
            yield _plain_column(index.number, name, part.type, place, its)
    for number, name, type_, place in fields(catalog):
        yield _plain_column(number, name, type_, place, modifier(type_))
    for _, _, entry in entries(catalog):
        theirs = inherited(catalog, entry.name)
        for place, column in enumerate(entry.schema.columns):
            facts, rule = type_facts(column.type), rule_of(entry, place)
            number, length = type_at(catalog, entry, place)
            domain = domain_at(catalog, entry, place)
            required = not column.nullable and isinstance(entry, TableEntry)
            granted = relations.listed(catalog, ("COLUMN", entry.name.lower(), column.name.lower()))
            from_others = column.name.lower() in theirs
            yield (
                *(number_of("relation", entry.name), column.name, number, length, place + 1),
                modifier_at(catalog, entry, place),
                int(required and not (domain is not None and domain.required)),
                int(bool(_default(catalog, entry, place))),
                {"ALWAYS": "a", "BY DEFAULT": "d"}.get(rule.identity, ""),
                "s" if rule.generated else "",
                *(0, granted, *physical(facts[1], length), _dimensions(column.type)),
                *(int(not from_others), int(from_others)),
            )


def _default(catalog: Catalog, entry: Entry, place: int) -> str:
    """What a column is given, or computed by; but for what its domain gives."""
    rule, domain = rule_of(entry, place), domain_at(catalog, entry, place)
    if rule.identity or (domain is not None and rule.default == domain.default and not rule.generated):
        return ""
    return rule.generated or rule.default


def default_text(catalog: Catalog, entry: Entry, place: int, *, pretty: bool) -> str:
    """The same in Postgres' words; empty without one."""
    text, rule = _default(catalog, entry, place), rule_of(entry, place)
    if not text:
        return ""
    given = None if rule.generated else entry.schema.types[place]
    return catalog.consulted.spelling.expression(catalog, entry, text, pretty, given)


def defaults(catalog: Catalog) -> Iterator[tuple[int, Entry, int]]:
    """The number, the relation and the place of each column with a DEFAULT."""
    for _, _, entry in entries(catalog):
        for place in range(len(entry.schema.columns)):
            if _default(catalog, entry, place):
                yield number_of("default", f"{entry.name} {place}"), entry, place


def _default_rows(catalog: Catalog) -> Iterator[Row]:
    for number, entry, place in defaults(catalog):
        text = default_text(catalog, entry, place, pretty=False)
        yield number, number_of("relation", entry.name), place + 1, text


POSTGRES: Final = {
    "pg_class": System(
        columns(
            "oid:o relname relnamespace:o relkind relnatts:i relowner:o relpersistence reltuples:i "
            "relhasindex:b relchecks:i relam:o relhastriggers:b relacl relrowsecurity:b "
            "relforcerowsecurity:b relhasrules:b relhassubclass:b relispartition:b relpartbound relreplident "
            "relpages:i reltype:o"
        ),
        _classes,
    ),
    "pg_attribute": System(
        columns(
            "attrelid:o attname atttypid:o attlen:i attnum:i atttypmod:i attnotnull:b atthasdef:b "
            "attidentity attgenerated attisdropped:b attacl attbyval:b attalign attstorage attcollation:o "
            "attndims:i attislocal:b attinhcount:i"
        ),
        _attributes,
    ),
    "pg_attrdef": System(columns("oid:o adrelid:o adnum:i adbin"), _default_rows),
}
