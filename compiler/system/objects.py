"""Rows of ``pg_catalog`` about relations, their columns, indexes and constraints."""

import re
from collections.abc import Iterator
from typing import Final

from kpg.compiler.catalog import Catalog, ViewEntry
from kpg.compiler.system import (
    called,
    comments,
    counted,
    depending,
    keys,
    kin,
    ownership,
    policies,
    relations,
    standard,
    tables,
    type_rows,
)
from kpg.compiler.system.naming import DATABASE, number_of, role_number
from kpg.compiler.system.relations import Row, System, columns
from kpg.compiler.system.widening import informing, widened
from kpg.compiler.system.words import query_of
from kpg.runtime.values.words import BLOCK


def _sequence_rows(catalog: Catalog) -> Iterator[Row]:
    for row in relations.pg_sequences(catalog):
        name = row[1] if row[0] == "public" else f"{row[0]}.{row[1]}"
        type_ = {"integer": 23, "smallint": 21}.get(str(row[3]), 20)
        yield number_of("relation", str(name)), type_, row[4], row[7], row[6], row[5], 1, row[8]


def _functions(catalog: Catalog) -> Iterator[Row]:
    from kpg.compiler.system.users import function_rows
    from kpg.runtime.functions import aggregates, functions

    yield from function_rows(catalog)

    for kind, names in (
        ("f", {one.name for one in functions()}),
        ("a", {one.name for one in aggregates()}),
    ):
        for name in sorted(names):
            head = (number_of("function", name), name, 11, 10, kind, 0, 0, "", 12, 0, 0, 0)
            yield *head, "i", "s", 0, 1, 0, None, "", 0, None, None, None, None, None


def every_routine(catalog: Catalog) -> Iterator[tuple[int, str]]:
    """The numbers and names of all routines."""
    yield from ((int(str(row[0])), str(row[1])) for row in _functions(catalog))


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


SUPERUSER: Final = dict.fromkeys(
    ("lc_messages", "log_statement", "session_replication_role", "track_io_timing"), "superuser"
)
HIDDEN: Final = "<insufficient privilege>"
"""The statement of a session of whom nothing is told, in Postgres' words."""
ENUMS: Final = dict.fromkeys(
    (
        *("bytea_output", "client_min_messages", "constraint_exclusion", "debug_parallel_query"),
        *("default_transaction_isolation", "intervalstyle", "log_statement", "plan_cache_mode"),
        *("synchronous_commit", "transaction_isolation", "xmlbinary", "xmloption"),
    ),
    "enum",
) | dict.fromkeys(
    (
        *("cursor_tuple_fraction", "hash_mem_multiplier", "jit_above_cost", "parallel_setup_cost"),
        *("parallel_tuple_cost", "random_page_cost", "seq_page_cost", "vacuum_cost_delay"),
    ),
    "real",
)


def _kind_of(shown: str) -> str:
    """What kind of value a setting has, by one of its values."""
    if shown in ("on", "off"):
        return "bool"
    return "integer" if re.fullmatch(r"-?\d+ ?(B|kB|MB|GB|TB|us|ms|s|min|h|d)?", shown) else "string"


def _settings(catalog: Catalog) -> Iterator[Row]:
    for name, value in PRESET.items():
        yield name, value, "Preset Options", _kind_of(value), "internal"
    for setting, shown in catalog.consulted.session("settings"):
        if setting not in PRESET:
            name = str(setting)
            context = "internal" if name == "is_superuser" else SUPERUSER.get(name, "user")
            kind = ENUMS.get(name) or _kind_of(str(shown))
            yield name, shown, "Client Connection Defaults", kind, context


def _cursors(catalog: Catalog) -> Iterator[Row]:
    yield from catalog.consulted.session("cursors")


def _prepared(catalog: Catalog) -> Iterator[Row]:
    yield from catalog.consulted.session("prepared")


def _locks(catalog: Catalog) -> Iterator[Row]:
    for table, row, high, low, numbers, session, mode, granted in catalog.consulted.session("locks"):
        kind = "advisory" if table is None else "relation" if row is None else "tuple"
        relation = None if table is None else number_of("relation", str(table))
        block, place = (None, None) if row is None else divmod(int(row), BLOCK)
        where = relation, block, None if place is None else place + 1
        how = f"{session}/1", session, mode, granted == "true", False
        yield kind, 1, *where, high, low, numbers, *how


def _activity(catalog: Catalog) -> Iterator[Row]:
    """Who is there; what the sessions of roles do whose privileges who asks lacks is not told."""
    acts = catalog.rights.acts_as(catalog.asker.user)
    for number, user, program, doing, asked, kind, event in catalog.activity():
        who = 1, DATABASE, int(str(number)), role_number(str(user)), str(user), str(program)
        if catalog.is_limited and user not in acts and "pg_read_all_stats" not in acts:
            yield *who, None, None, None, HIDDEN, None
            continue
        waits = (None if one is None else str(one) for one in (kind, event))
        yield *who, *waits, str(doing), str(asked), "client backend"


def of_views(catalog: Catalog) -> Iterator[tuple[int, str]]:
    """The number and the text of each view."""
    for entry in catalog:
        if isinstance(entry, ViewEntry):
            text = query_of(catalog, entry)
            yield number_of("relation", entry.name), f" {text};"


POSTGRES: Final = {
    **tables.POSTGRES,
    **keys.POSTGRES,
    **kin.POSTGRES,
    **depending.POSTGRES,
    **comments.POSTGRES,
    **counted.POSTGRES,
    "pg_sequence": System(
        columns("seqrelid:o seqtypid:o seqstart:l seqincrement:l seqmax:l seqmin:l seqcache:l seqcycle:b"),
        _sequence_rows,
        steady=False,
    ),
    "pg_proc": System(
        columns(
            "oid:o proname pronamespace:o proowner:o prokind prorettype:o pronargs:i prosrc prolang:o "
            "proisstrict:b proretset:b prosecdef:b provolatile proparallel proleakproof:b procost:i "
            "prorows:i proacl proargtypes:n pronargdefaults:i proallargtypes:n proargmodes "
            "proargnames proargdefaults proconfig"
        ),
        _functions,
    ),
    "pg_enum": System(columns("oid:o enumtypid:o enumsortorder:i enumlabel"), _enums),
    "pg_settings": System(columns("name setting category vartype context"), _settings),
    "pg_database": System(columns("oid:o datname datdba:o encoding:i datcollate"), relations.database),
    "pg_cursors": System(
        columns("name statement is_holdable:b is_binary:b is_scrollable:b creation_time"), _cursors
    ),
    "pg_prepared_statements": System(columns("name statement parameter_types from_sql:b"), _prepared),
    "pg_locks": System(
        columns(
            "locktype database:o relation:o page:i tuple:i classid:o objid:o objsubid:i "
            "virtualtransaction pid:i mode granted:b fastpath:b"
        ),
        _locks,
    ),
    "pg_stat_activity": System(
        columns(
            "datid:o datname pid:i usesysid:o usename application_name wait_event_type wait_event state "
            "query backend_type"
        ),
        _activity,
        steady=False,
    ),
    "pg_namespace": System(columns("oid:o nspname nspowner:o nspacl"), relations.namespaces),
    "pg_type": System(
        columns(
            "oid:o typname typnamespace:o typlen:i typtype typcategory typelem:o typarray:o typinput "
            "typoutput typreceive typsend typbasetype:o typtypmod:i typnotnull:b typdefault typrelid:o "
            "typbyval:b typalign typstorage typcollation:o typowner:o typdefaultbin typacl"
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
        steady=False,
    ),
    **ownership.POSTGRES,
    **policies.POSTGRES,
}


INFORMATION: Final = {
    **relations.INFORMATION,
    **ownership.INFORMATION,
    **called.INFORMATION,
    **standard.INFORMATION,
}


def find(name: str) -> System | None:
    """The relation that a name means, with or without ``pg_catalog``."""
    schema, _, plain = name.lower().rpartition(".")
    if schema == "information_schema":
        return informing(plain, INFORMATION.get(plain))
    return widened(plain, POSTGRES.get(plain)) if schema in ("", "pg_catalog") else None
