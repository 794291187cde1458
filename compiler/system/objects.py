"""Rows of ``pg_catalog`` about relations, their columns, indexes and constraints."""

from collections.abc import Iterator
from typing import Final, assert_never

from kpg.compiler.catalog import KEYS, Catalog, Entry, TableEntry, ViewEntry
from kpg.compiler.constraints import Check, ForeignKey, Unique
from kpg.compiler.security import security_of
from kpg.compiler.system import acting, ownership, policies, relations, type_rows
from kpg.compiler.system.naming import (
    DATABASE,
    modifier,
    number_of,
    schema_number,
    split,
    system_number,
    type_facts,
)
from kpg.compiler.system.relations import Row, System, columns, constraints, entries
from kpg.compiler.system.widening import widened

HEAP, BTREE = 2, 403
"""Numbers of access methods."""
ACTIONS: Final = {"NO ACTION": "a", "RESTRICT": "r", "CASCADE": "c", "SET NULL": "n", "SET DEFAULT": "d"}


def _classes(catalog: Catalog) -> Iterator[Row]:
    keys = [(entry.name, one.target) for _, entry, one in constraints(catalog) if isinstance(one, ForeignKey)]
    keyed = {name for pair in keys for name in pair}
    for schema, name, entry in entries(catalog):
        kind = "r" if isinstance(entry, TableEntry) else "m" if entry.materialized else "v"
        kind = "p" if ("partitioned", entry.name.lower(), "") in catalog.others else kind
        width = len(entry.schema.columns)
        number = number_of("relation", entry.name)
        checks = len(entry.constraints.checks) if isinstance(entry, TableEntry) else 0
        indexed = isinstance(entry, TableEntry) and bool(entry.constraints.uniques)
        kept = "t" if schema.startswith("pg_temp") else "p"
        method = 0 if kind == "v" else HEAP
        # Postgres keeps foreign keys by triggers on both sides, and psql looks for keys where there are some.
        linked = int(entry.name in keyed)
        key = ("RELATION", entry.name.lower())
        owner = ownership.number_of_owner(catalog, key)
        place = (number, name, schema_number(schema), kind, width, owner, kept, -1)
        secured = security_of(catalog, entry.name)
        rows = int(secured.enabled), int(secured.forced)
        yield *place, int(indexed), checks, method, linked, ownership.listed(catalog, key), *rows
    for one in catalog.sequences.values():
        schema, name = split(catalog, one.name)
        key = ("SEQUENCE", one.name.lower())
        number, owner = number_of("relation", one.name), ownership.number_of_owner(catalog, key)
        facts = (number, name, schema_number(schema), "S", 3, owner, "p")
        yield *facts, 1, 0, 0, 0, 0, ownership.listed(catalog, key), 0, 0
    for name, entry, names, _, _, _ in indexes(catalog):
        schema, plain = split(catalog, name)
        number = number_of("relation", name)
        owner = ownership.number_of_owner(catalog, ("RELATION", entry.name.lower()))
        yield number, plain, schema_number(schema), "i", len(names), owner, "p", 0, 0, 0, BTREE, 0, None, 0, 0
    yield from type_rows.classes(catalog)


def indexes(catalog: Catalog) -> Iterator[tuple[str, Entry, tuple[str, ...], bool, bool, str]]:
    """Name, table, columns, whether it is unique, and primary, and its text, of each index."""
    for entry in catalog:
        if isinstance(entry, TableEntry) and not entry.name.startswith(KEYS):
            for key in entry.constraints.uniques:
                listed = ", ".join(key.columns)
                text = f"CREATE UNIQUE INDEX {key.name} ON {_whole(catalog, entry)} USING btree ({listed})"
                yield key.name, entry, key.columns, True, key.primary, text
    for index in catalog.indexes.values():
        entry_ = catalog.get(index.table)
        plain = split(catalog, index.name)[1]
        text = f"CREATE INDEX {plain} ON {_whole(catalog, entry_)} USING btree {index.what}"
        yield index.name, entry_, index.columns, False, False, text


def _whole(catalog: Catalog, entry: Entry) -> str:
    return ".".join(split(catalog, entry.name))


def _attributes(catalog: Catalog) -> Iterator[Row]:
    for index, table, names, _, _, _ in indexes(catalog):
        for place, name in enumerate(names):
            type_ = table.schema.types[table.schema.names.index(name)]
            facts = type_facts(type_)
            head = (number_of("relation", index), name, facts[2], facts[3], place + 1, modifier(type_))
            yield *head, 0, 0, "", "", 0, None
    yield from type_rows.fields(catalog)
    for _, _, entry in entries(catalog):
        for place, column in enumerate(entry.schema.columns):
            rule = entry.constraints.rule(place) if isinstance(entry, TableEntry) else None
            facts = type_facts(column.type)
            identity = {"ALWAYS": "a", "BY DEFAULT": "d"}.get(rule.identity if rule else "", "")
            default = rule is not None and bool(rule.default or rule.generated) and not rule.identity
            yield (
                number_of("relation", entry.name),
                column.name,
                facts[2],
                facts[3],
                place + 1,
                modifier(column.type),
                int(not column.nullable and isinstance(entry, TableEntry)),
                int(default),
                identity,
                "s" if rule is not None and rule.generated else "",
                0,
                ownership.listed(catalog, ("COLUMN", entry.name.lower(), column.name.lower())),
            )


def _defaults(catalog: Catalog) -> Iterator[Row]:
    for _, _, entry in entries(catalog):
        if isinstance(entry, TableEntry):
            for place, rule in enumerate(entry.constraints.rules):
                text = rule.generated or rule.default
                if text and not rule.identity:
                    number = number_of("default", f"{entry.name} {place}")
                    yield number, number_of("relation", entry.name), place + 1, text


def _index_rows(catalog: Catalog) -> Iterator[Row]:
    for name, entry, names, unique, primary, _ in indexes(catalog):
        places = " ".join(str(entry.schema.names.index(one) + 1) for one in names)
        numbers = (number_of("relation", name), number_of("relation", entry.name))
        zeros = " ".join("0" for _ in names)
        yield *numbers, len(names), len(names), int(unique), int(primary), 1, 1, places, zeros, zeros, zeros


def _sequence_rows(catalog: Catalog) -> Iterator[Row]:
    for row in relations.pg_sequences(catalog):
        name = row[1] if row[0] == "public" else f"{row[0]}.{row[1]}"
        yield number_of("relation", str(name)), 20, row[4], row[7], row[6], row[5], 1, row[8]


def _pg_indexes(catalog: Catalog) -> Iterator[Row]:
    for name, entry, _, _, _, text in indexes(catalog):
        schema, table = split(catalog, entry.name)
        yield schema, table, split(catalog, name)[1], None, text


def _constraint_rows(catalog: Catalog) -> Iterator[Row]:
    for schema, entry, one in constraints(catalog):
        kind, target, keys, actions = "c", 0, "", (" ", " ")
        if isinstance(one, Unique):
            kind = "p" if one.primary else "u"
        elif isinstance(one, ForeignKey):
            other = catalog.table(one.target)
            kind, target = "f", number_of("relation", other.name)
            keys = _places(other, one.target_columns)
            actions = ACTIONS[one.on_update], ACTIONS[one.on_delete]
        own = _places(entry, ()) if isinstance(one, Check) else _places(entry, one.columns)
        number = number_of("constraint", f"{entry.name} {one.name}")
        deferrable = isinstance(one, ForeignKey) and one.deferrable
        deferred = isinstance(one, ForeignKey) and one.deferred
        table = number_of("relation", entry.name)
        index = number_of("relation", one.name) if isinstance(one, Unique) else 0
        if isinstance(one, ForeignKey):
            index = _index_of_key(catalog.table(one.target), one)
        yield (
            *(number, one.name, schema_number(schema), kind, int(deferrable), int(deferred), 1, table, index),
            *(target, *actions, own or None, keys or None, 0),
        )
    from kpg.compiler.system.users import domain_checks

    for number, check, place, domain in domain_checks(catalog):
        flags = (0, 0, 1, 0, 0, 0, " ", " ", None, None)
        yield number, check.name, place, "c", *flags, domain


def _index_of_key(target: TableEntry, key: ForeignKey) -> int:
    """The number of the index that a foreign key looks things up in."""
    wanted = set(key.target_columns)
    found = (one for one in target.constraints.uniques if set(one.columns) == wanted)
    return next((number_of("relation", one.name) for one in found), 0)


def _places(entry: TableEntry, names: tuple[str, ...]) -> str:
    return "{" + ",".join(str(entry.schema.names.index(one) + 1) for one in names) + "}" if names else ""


def definition_of(one: Check | Unique | ForeignKey) -> str:
    """A constraint as ``pg_get_constraintdef`` writes it."""
    match one:
        case Check():
            return f"CHECK (({one.text}))"
        case Unique():
            listed = ", ".join(one.columns)
            if one.primary:
                return f"PRIMARY KEY ({listed})"
            return f"UNIQUE {'' if one.nulls_distinct else 'NULLS NOT DISTINCT '}({listed})"
        case ForeignKey():
            text = f"FOREIGN KEY ({', '.join(one.columns)}) REFERENCES {one.target}"
            text += f"({', '.join(one.target_columns)})"
            text += " MATCH FULL" if one.match == "FULL" else ""
            text += f" ON UPDATE {one.on_update}" if one.on_update != "NO ACTION" else ""
            text += f" ON DELETE {one.on_delete}" if one.on_delete != "NO ACTION" else ""
            text += " DEFERRABLE" if one.deferrable else ""
            return text + (" INITIALLY DEFERRED" if one.deferred else "")
        case _:
            assert_never(one)


def _descriptions(catalog: Catalog) -> Iterator[Row]:
    for key, text in catalog.comments.items():
        if key[0] == "RELATION":
            yield number_of("relation", key[1]), system_number("pg_class"), 0, text
        elif key[0] == "COLUMN":
            place = [name.lower() for name in catalog.get(key[1]).schema.names].index(key[2]) + 1
            yield number_of("relation", key[1]), system_number("pg_class"), place, text


def _functions(catalog: Catalog) -> Iterator[Row]:
    from kpg.compiler.system.users import function_rows
    from kpg.runtime.functions import aggregates, functions

    yield from function_rows(catalog)

    for kind, names in (
        ("f", {one.name for one in functions()}),
        ("a", {one.name for one in aggregates()}),
    ):
        for name in sorted(names):
            yield number_of("function", name), name, 11, 10, kind, 0, 0, "", 12, 0, 0, "i", 0


def is_function(name: str) -> bool:
    """Whether there is a function or an aggregate of that name that users have not made."""
    from kpg.runtime.functions import aggregates, functions

    return name in {one.name for one in functions()} | {one.name for one in aggregates()}


def _enums(catalog: Catalog) -> Iterator[Row]:
    from kpg.compiler.system.users import enum_rows

    return enum_rows(catalog)


PRESET: Final = {
    "block_size": "8192",
    "integer_datetimes": "on",
    "max_connections": "100",
    "max_function_args": "100",
    "max_identifier_length": "63",
    "max_index_keys": "32",
    "server_encoding": "UTF8",
    "server_version": "16.0",
    "server_version_num": "160000",
}
"""Settings that say what is so, as programs look for them."""


def _settings(catalog: Catalog) -> Iterator[Row]:
    for name, value in PRESET.items():
        yield name, value, "Preset Options"
    for setting, shown in catalog.consulted.session("settings"):
        if setting not in PRESET:
            yield setting, shown, "Client Connection Defaults"


def _cursors(catalog: Catalog) -> Iterator[Row]:
    yield from catalog.consulted.session("cursors")


def _prepared(catalog: Catalog) -> Iterator[Row]:
    yield from catalog.consulted.session("prepared")


def _locks(catalog: Catalog) -> Iterator[Row]:
    for high, low, numbers, session, mode, granted in catalog.consulted.session("locks"):
        yield "advisory", 1, high, low, numbers, f"{session}/1", session, mode, granted == "true", False


def _activity(catalog: Catalog) -> Iterator[Row]:
    for number, user, program, doing, asked in catalog.activity():
        yield (
            1,
            DATABASE,
            int(str(number)),
            10,
            str(user),
            str(program),
            str(doing),
            str(asked),
            "client backend",
        )


def of_views(catalog: Catalog) -> Iterator[tuple[int, str]]:
    """The number and the text of each view."""
    for entry in catalog:
        if isinstance(entry, ViewEntry):
            yield number_of("relation", entry.name), f" {entry.sql};"


POSTGRES: Final = {
    "pg_class": System(
        columns(
            "oid:o relname relnamespace:o relkind relnatts:i relowner:o relpersistence reltuples:i "
            "relhasindex:b relchecks:i relam:o relhastriggers:b relacl relrowsecurity:b relforcerowsecurity:b"
        ),
        _classes,
    ),
    "pg_attribute": System(
        columns(
            "attrelid:o attname atttypid:o attlen:i attnum:i atttypmod:i attnotnull:b atthasdef:b "
            "attidentity attgenerated attisdropped:b attacl"
        ),
        _attributes,
    ),
    "pg_attrdef": System(columns("oid:o adrelid:o adnum:i adbin"), _defaults),
    "pg_index": System(
        columns(
            "indexrelid:o indrelid:o indnatts:i indnkeyatts:i indisunique:b indisprimary:b indisvalid:b "
            "indisready:b indkey:a indclass:a indoption:a indcollation:a"
        ),
        _index_rows,
    ),
    "pg_sequence": System(
        columns("seqrelid:o seqtypid:o seqstart:l seqincrement:l seqmax:l seqmin:l seqcache:l seqcycle:b"),
        _sequence_rows,
    ),
    "pg_indexes": System(columns("schemaname tablename indexname tablespace indexdef"), _pg_indexes),
    "pg_constraint": System(
        columns(
            "oid:o conname connamespace:o contype condeferrable:b condeferred:b convalidated:b conrelid:o "
            "conindid:o confrelid:o confupdtype confdeltype conkey:a confkey:a contypid:o"
        ),
        _constraint_rows,
    ),
    "pg_description": System(columns("objoid:o classoid:o objsubid:i description"), _descriptions),
    "pg_proc": System(
        columns(
            "oid:o proname pronamespace:o proowner:o prokind prorettype:o pronargs:i prosrc prolang:o "
            "proisstrict:b proretset:b provolatile prosecdef:b"
        ),
        _functions,
    ),
    "pg_enum": System(columns("oid:o enumtypid:o enumsortorder:i enumlabel"), _enums),
    "pg_settings": System(columns("name setting category"), _settings),
    "pg_database": System(columns("oid:o datname datdba:o encoding:i datcollate"), relations.database),
    "pg_cursors": System(
        columns("name statement is_holdable:b is_binary:b is_scrollable:b creation_time"), _cursors
    ),
    "pg_prepared_statements": System(columns("name statement parameter_types from_sql:b"), _prepared),
    "pg_locks": System(
        columns(
            "locktype database:o classid:o objid:o objsubid:i virtualtransaction pid:i mode granted:b "
            "fastpath:b"
        ),
        _locks,
    ),
    "pg_stat_activity": System(
        columns("datid:o datname pid:i usesysid:o usename application_name state query backend_type"),
        _activity,
    ),
    "pg_namespace": System(columns("oid:o nspname nspowner:o nspacl"), relations.namespaces),
    "pg_type": System(
        columns(
            "oid:o typname typnamespace:o typlen:i typtype typcategory typelem:o typarray:o typinput "
            "typoutput typreceive typsend typbasetype:o typtypmod:i typnotnull:b typdefault typrelid:o"
        ),
        type_rows.types,
    ),
    "pg_tables": System(
        columns(
            "schemaname tablename tableowner tablespace hasindexes:b hasrules:b hastriggers:b rowsecurity:b"
        ),
        relations.pg_tables,
    ),
    "pg_views": System(columns("schemaname viewname viewowner definition"), relations.pg_views),
    "pg_matviews": System(
        columns("schemaname matviewname matviewowner ispopulated:b definition"), relations.pg_matviews
    ),
    "pg_sequences": System(
        columns(
            "schemaname sequencename sequenceowner data_type start_value:l min_value:l max_value:l "
            "increment_by:l cycle:b cache_size:l last_value:l"
        ),
        relations.pg_sequences,
    ),
    **ownership.POSTGRES,
    **policies.POSTGRES,
    **acting.POSTGRES,
}


def find(name: str) -> System | None:
    """The relation that a name means, with or without ``pg_catalog``."""
    schema, _, plain = name.lower().rpartition(".")
    if schema == "information_schema":
        known = relations.INFORMATION.get(plain) or ownership.INFORMATION.get(plain)
        return known or acting.INFORMATION.get(plain)
    return widened(plain, POSTGRES.get(plain)) if schema in ("", "pg_catalog") else None
