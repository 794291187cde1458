"""Rows of ``pg_class``, ``pg_attribute``, ``pg_attrdef`` and ``pg_type``."""

from collections.abc import Iterator
from typing import Final

from kpg.compiler.catalog.access_control import row_security_of
from kpg.compiler.catalog.constraints import Check, Domain, ForeignKey
from kpg.compiler.catalog.entries import Catalog, Entry, TableEntry, ViewEntry
from kpg.compiler.catalog.privileges import Key
from kpg.compiler.system import relations
from kpg.compiler.system.oids import (
    ARRAY_OIDS,
    MORE_TYPES,
    TEXT_TYPE,
    TYPES,
    array_oid,
    built_in_types,
    column_domain,
    column_modifier,
    column_rule,
    column_type,
    oid_of,
    role_oid,
    schema_oid,
    split_name,
    storage_properties,
    type_facts,
    type_modifier,
)
from kpg.compiler.system.pg_index import (
    IndexFacts,
    element_name,
    included_elements,
    indexes,
    inherited_columns,
    is_partition,
    is_partitioned,
    partition_bound,
)
from kpg.compiler.system.relations import (
    Row,
    SystemRelation,
    acl_text,
    columns,
    listed_constraints,
    listed_entries,
)
from kpg.compiler.system.user_objects import composite_types
from kpg.compiler.system.user_objects import user_type_rows as made_types
from kpg.runtime.types import Type
from kpg.runtime.values.words import BLOCK

TYPE_CATEGORIES: Final = {
    **dict.fromkeys(("int2", "int4", "int8", "numeric", "float4", "float8", "oid"), "N"),
    **dict.fromkeys(("date", "timestamp", "timestamptz", "time"), "D"),
    **dict.fromkeys(("text", "varchar", "bpchar"), "S"),
    "bool": "B",
    "interval": "T",
}
"""Type categories of ``pg_type`` by short name."""
JOINED_IO_NAMES: Final = frozenset(
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
"""Types whose input and output functions have no underscore in their names."""


def io_function_names(short: str) -> tuple[str, str, str, str]:
    """Return the names of a type's input, output, receive and send functions."""
    stem = short
    if short.endswith("range"):
        stem = "multirange" if short.endswith("multirange") else "range"
    stem += "" if short in JOINED_IO_NAMES else "_"
    return f"{stem}in", f"{stem}out", f"{stem}recv", f"{stem}send"


def _built_in_type_rows(_catalog: Catalog) -> Iterator[Row]:
    """Yield the first columns of ``pg_type`` for built-in types."""
    for _, short, number, length in built_in_types():
        kind, category = "b", TYPE_CATEGORIES.get(short, "U")
        if short.endswith("range"):
            kind, category = ("m" if short.endswith("multirange") else "r"), "R"
        yield number, short, 11, length, kind, category, 0, ARRAY_OIDS[number], *io_function_names(short)
        yield ARRAY_OIDS[number], f"_{short}", 11, -1, "b", "A", number, 0, *io_function_names("array")


IO_TYPES: Final = {"e": "enum", "c": "record", "d": "domain", "p": "void"}
"""Type whose input and output functions a user-defined type uses, by its kind."""
NO_BASE_TYPE: Final = (0, -1, 0, None, 0)
"""Values of the columns about base type and relation for other types."""


def pg_type_rows(catalog: Catalog) -> Iterator[Row]:
    """Yield the rows of ``pg_type``."""
    for row in _built_in_type_rows(catalog):
        yield *row, *NO_BASE_TYPE, *_storage_columns(str(row[1]), int(str(row[3]))), 10, None, None
    bases = {one[2]: (one[1], one[3]) for one in (*TYPES.values(), *MORE_TYPES.values(), TEXT_TYPE)}
    for number, name, schema, kind, category, *rest in made_types(catalog):
        arrays = 0 if kind == "p" else array_oid(int(str(number)))
        relation = oid_of("relation of a type", f"{schema} {name}") if kind == "c" else 0
        length, given = (4 if kind == "e" else -1), io_function_names(IO_TYPES.get(str(kind), str(name)))
        short, key = str(name), _privilege_key(catalog, str(name), int(str(schema)))
        owner = role_oid(catalog.privileges.owner(key)) if key else 10
        if kind == "d":
            short, length = bases.get(int(str(rest[0])), (short, length))
            category = TYPE_CATEGORIES.get(short, "U")
        facts = (*_storage_columns(short, length), owner)
        head = (number, name, schema, length, kind, category, 0)
        yield *head, arrays, *given, *rest, relation, *facts, rest[3], acl_text(catalog, key) if key else None
        if arrays:
            its = (arrays, f"_{name}", schema, -1, "b", "A", number)
            yield (
                *its,
                0,
                *io_function_names("array"),
                *NO_BASE_TYPE,
                *_storage_columns(f"_{short}", -1),
                owner,
                None,
                None,
            )


def _storage_columns(short: str, length: int) -> Row:
    by_value, align, storage, collation = storage_properties(short, length)
    return by_value, align, storage, collation


def _privilege_key(catalog: Catalog, name: str, schema: int) -> Key | None:
    """Return the privilege key of a user-defined type; None if there is none of that name."""
    for key, one in catalog.types.items():
        its, plain = split_name(catalog, one.name or key)
        if plain == name and schema_oid(its) == schema:
            return ("TYPE", (one.name or key).lower())
    return None


def composite_type_rows(catalog: Catalog) -> Iterator[Row]:
    """Yield the rows of ``pg_class`` for composite types; the last value is the OID of the type."""
    for whole, type_ in composite_types(catalog):
        schema, name = split_name(catalog, whole)
        number = oid_of("relation of a type", f"{schema_oid(schema)} {name}")
        owner = role_oid(catalog.privileges.owner(("TYPE", whole.lower())))
        yield (
            number,
            name,
            schema_oid(schema),
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
            oid_of("type", whole),
        )


def composite_fields(catalog: Catalog) -> Iterator[tuple[int, str, Type, int]]:
    """Yield relation OID, name, type and position of the fields of composite types."""
    for whole, type_ in composite_types(catalog):
        schema, plain = split_name(catalog, whole)
        number = oid_of("relation of a type", f"{schema_oid(schema)} {plain}")
        for place, (name, part) in enumerate(zip(type_.labels, type_.parts, strict=True), 1):
            yield number, name, part, place


HEAP, BTREE = 2, 403
"""Numbers of access methods."""


def _pg_class_rows(catalog: Catalog) -> Iterator[Row]:
    known = list(indexes(catalog))
    yield from _relation_rows(catalog, {one.entry.name for one in known})
    for one in catalog.sequences.values():
        schema, name = split_name(catalog, one.name)
        key = ("SEQUENCE", one.name.lower())
        number, owner = oid_of("relation", one.name), relations.owner_oid(catalog, key)
        facts = (number, name, schema_oid(schema), "S", 3, owner, "p")
        yield *facts, 1, 0, 0, 0, 0, relations.acl_text(catalog, key), 0, 0, 0, 0, 0, None, "n", 1, 0
    for index in known:
        yield _index_row(catalog, index)
    for row in composite_type_rows(catalog):
        yield *row[:-1], 0, 0, 0, None, "n", 0, row[-1]


def _relation_rows(catalog: Catalog, indexed: set[str]) -> Iterator[Row]:
    """Yield the rows of tables and views; ``indexed`` are the names of those with indexes."""
    keys = [
        (entry.name, one.target)
        for _, entry, one in listed_constraints(catalog)
        if isinstance(one, ForeignKey)
    ]
    # Postgres enforces foreign keys by triggers on both tables. psql shows keys only if there are triggers.
    linked = {name.lower() for pair in keys for name in pair}
    parents = {one.parent.lower() for one in catalog.partitions.values()}
    counts = {str(name): int(str(rows)) for name, rows in catalog.system_reads.session_rows("rows")}
    checked = [entry.name for _, entry, one in listed_constraints(catalog) if isinstance(one, Check)]
    for schema, name, entry in listed_entries(catalog):
        lower = entry.name.lower()
        kind = _relation_kind(catalog, entry)
        key = ("RELATION", lower)
        owner = relations.owner_oid(catalog, key)
        secured = row_security_of(catalog, entry.name)
        number, width = oid_of("relation", entry.name), len(entry.schema.columns)
        tuples = counts.get(entry.name) or -1
        yield (
            *(number, name, schema_oid(schema), kind, width),
            *(owner, "t" if schema.startswith("pg_temp") else "p", tuples, int(entry.name in indexed)),
            checked.count(entry.name),
            *(0 if kind in "vp" else HEAP, int(lower in linked), relations.acl_text(catalog, key)),
            *(int(secured.enabled), int(secured.forced), int(kind in "vm")),
            *(
                int(lower in parents),
                int(is_partition(catalog, entry.name)),
                partition_bound(catalog, entry.name),
            ),
            "n" if kind == "v" else "d",
            -(-counts.get(entry.name, 0) // BLOCK),
            0,
        )


def _relation_kind(catalog: Catalog, entry: Entry) -> str:
    if isinstance(entry, ViewEntry):
        return "m" if entry.materialized else "v"
    return "p" if is_partitioned(catalog, entry.name) else "r"


def _index_row(catalog: Catalog, index: IndexFacts) -> Row:
    schema, plain = split_name(catalog, index.name)
    owner = relations.owner_oid(catalog, ("RELATION", index.entry.name.lower()))
    kind = "I" if is_partitioned(catalog, index.entry.name) else "i"
    part = int(kind == "i" and is_partition(catalog, index.entry.name))
    kept = "t" if index.entry.name.startswith("pg_temp") else "p"
    width, below = len(index.parts) + len(included_elements(index)), int(kind == "I")
    head = (index.oid, plain, schema_oid(schema), kind, width, owner, kept, 0, 0, 0)
    return *head, BTREE, 0, None, 0, 0, 0, below, part, None, "n", 0, 0


def _plain_column_row(relation_oid: int, name: str, type_: Type, position: int, modifier: int) -> Row:
    facts = type_facts(type_)
    head = (relation_oid, name, facts[2], facts[3], position, modifier)
    return *head, 0, 0, "", "", 0, None, *storage_properties(facts[1], facts[3]), _dimensions(type_), 1, 0


def used_modifiers(catalog: Catalog) -> set[tuple[int, int]]:
    """Return the type OIDs and modifiers of all columns, fields and domains that have a modifier."""
    found = {
        (column_type(catalog, entry, place)[0], column_modifier(catalog, entry, place))
        for _, _, entry in listed_entries(catalog)
        for place in range(len(entry.schema.columns))
    }
    parts = [type_ for _, _, type_, _ in composite_fields(catalog)]
    parts += [one.type for one in catalog.types.values() if isinstance(one, Domain)]
    found |= {(type_facts(type_)[2], type_modifier(type_)) for type_ in parts}
    return {one for one in found if one[1] >= 0}


def _dimensions(type_: Type) -> int:
    return int(type_.kind.value == "ARRAY")


def _pg_attribute_rows(catalog: Catalog) -> Iterator[Row]:
    for index in indexes(catalog):
        for place, part in enumerate((*index.parts, *included_elements(index)), 1):
            name = part.text if part.place else element_name(part)
            its = column_modifier(catalog, index.entry, part.place - 1) if part.place else -1
            yield _plain_column_row(index.oid, name, part.type, place, its)
    for number, name, type_, place in composite_fields(catalog):
        yield _plain_column_row(number, name, type_, place, type_modifier(type_))
    for _, _, entry in listed_entries(catalog):
        theirs = inherited_columns(catalog, entry.name)
        for place, column in enumerate(entry.schema.columns):
            facts, rule = type_facts(column.type), column_rule(entry, place)
            number, length = column_type(catalog, entry, place)
            domain = column_domain(catalog, entry, place)
            required = not column.nullable and isinstance(entry, TableEntry)
            granted = relations.acl_text(catalog, ("COLUMN", entry.name.lower(), column.name.lower()))
            from_others = column.name.lower() in theirs
            yield (
                *(oid_of("relation", entry.name), column.name, number, length, place + 1),
                column_modifier(catalog, entry, place),
                int(required and not (domain is not None and domain.required)),
                int(bool(_own_default(catalog, entry, place))),
                {"ALWAYS": "a", "BY DEFAULT": "d"}.get(rule.identity, ""),
                "s" if rule.generated else "",
                *(0, granted, *storage_properties(facts[1], length), _dimensions(column.type)),
                *(int(not from_others), int(from_others)),
            )


def _own_default(catalog: Catalog, entry: Entry, position: int) -> str:
    """Return the text of a column's DEFAULT or GENERATED expression; "" if its domain provides it."""
    rule, domain = column_rule(entry, position), column_domain(catalog, entry, position)
    if rule.identity or (domain is not None and rule.default == domain.default and not rule.generated):
        return ""
    return rule.generated or rule.default


def default_text(catalog: Catalog, entry: Entry, position: int, *, pretty: bool) -> str:
    """Return a column's DEFAULT or GENERATED expression as Postgres writes it; "" if there is none."""
    text, rule = _own_default(catalog, entry, position), column_rule(entry, position)
    if not text:
        return ""
    given = None if rule.generated else entry.schema.types[position]
    return catalog.system_reads.deparser.expression(catalog, entry, text, pretty, given)


def column_defaults(catalog: Catalog) -> Iterator[tuple[int, Entry, int]]:
    """Yield OID, relation and position of each column with a DEFAULT or GENERATED expression."""
    for _, _, entry in listed_entries(catalog):
        for place in range(len(entry.schema.columns)):
            if _own_default(catalog, entry, place):
                yield oid_of("default", f"{entry.name} {place}"), entry, place


def _pg_attrdef_rows(catalog: Catalog) -> Iterator[Row]:
    for number, entry, place in column_defaults(catalog):
        text = default_text(catalog, entry, place, pretty=False)
        yield number, oid_of("relation", entry.name), place + 1, text


CLASS_RELATIONS: Final = {
    "pg_class": SystemRelation(
        columns(
            "oid:o relname relnamespace:o relkind relnatts:i relowner:o relpersistence reltuples:i "
            "relhasindex:b relchecks:i relam:o relhastriggers:b relacl relrowsecurity:b "
            "relforcerowsecurity:b relhasrules:b relhassubclass:b relispartition:b relpartbound relreplident "
            "relpages:i reltype:o"
        ),
        _pg_class_rows,
    ),
    "pg_attribute": SystemRelation(
        columns(
            "attrelid:o attname atttypid:o attlen:i attnum:i atttypmod:i attnotnull:b atthasdef:b "
            "attidentity attgenerated attisdropped:b attacl attbyval:b attalign attstorage attcollation:o "
            "attndims:i attislocal:b attinhcount:i"
        ),
        _pg_attribute_rows,
    ),
    "pg_attrdef": SystemRelation(columns("oid:o adrelid:o adnum:i adbin"), _pg_attrdef_rows),
}
