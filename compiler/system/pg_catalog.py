"""Rows of ``pg_catalog`` about comments, statistics, dependencies, row security and keywords.

``pg_depend`` orders objects for dumps. The statistics count rows present, inserted and deleted; reads are not
counted.
"""

import re
from collections.abc import Iterator
from typing import Final

from kpg.compiler.catalog.access_control import PUBLIC_ROLE
from kpg.compiler.catalog.constraints import Domain
from kpg.compiler.catalog.entries import Catalog, TableEntry, ViewEntry
from kpg.compiler.catalog.privileges import Policy
from kpg.compiler.qualified_names import DATABASE
from kpg.compiler.system import information_schema, pg_class, pg_index, relations, user_objects
from kpg.compiler.system.catalog_columns import complete_catalog, complete_information
from kpg.compiler.system.oids import oid_of, role_oid, schema_oid, split_name, system_relation_oid, view_text
from kpg.compiler.system.pg_class import column_defaults
from kpg.compiler.system.pg_index import indexes, is_partitioned, rule_oid
from kpg.compiler.system.relations import Row, SystemRelation, columns, listed_entries
from kpg.compiler.system.user_objects import listed_routines, pg_enum_rows, type_oid, user_function_rows
from kpg.runtime.functions import aggregates, functions
from kpg.runtime.values.words import BLOCK

STANDARD_COMMENTS: Final = (
    (2200, "pg_namespace", "standard public schema"),
    (13501, "pg_extension", "PL/pgSQL procedural language"),
)
"""Comments on objects of every database: OID, catalog and text."""


DATABASE_NUMBER: Final = 1


def object_comments(catalog: Catalog) -> Iterator[tuple[int, str, int, str]]:
    """Yield OID, catalog, column position or 0, and text of each comment."""
    said = set()
    for key, text in catalog.comments.items():
        for number, where, place in _commented_objects(catalog, key):
            said.add(number)
            yield number, where, place, text
    for number, where, text in STANDARD_COMMENTS:
        if number not in said:
            yield number, where, 0, text


def _commented_objects(catalog: Catalog, key: tuple[str, ...]) -> list[tuple[int, str, int]]:
    kind, name = key[0], key[1].removeprefix("public.")
    match kind:
        case "RELATION" | "SEQUENCE":
            return [(oid_of("relation", name), "pg_class", 0)]
        case "INDEX":
            known = (one for one in indexes(catalog) if one.name.lower() in (name, key[1]))
            return [(one.oid, "pg_class", 0) for one in known]
        case "COLUMN":
            names = [one.lower() for one in catalog.get(key[1]).schema.names]
            return [(oid_of("relation", key[1]), "pg_class", names.index(key[2]) + 1)]
        case "CONSTRAINT":
            return [(oid_of("constraint", f"{key[1]} {key[2]}"), "pg_constraint", 0)]
        case "SCHEMA":
            return [(schema_oid(name), "pg_namespace", 0)]
        case "TYPE" | "DOMAIN":
            return [(oid_of("type", name), "pg_type", 0)]
        case "FUNCTION" | "AGGREGATE":
            plain = name.rpartition(".")[2]
            return [
                (number, "pg_proc", 0)
                for number, one in listed_routines(catalog)
                if split_name(catalog, one.name)[1].lower() == plain
            ]
        case "POLICY" if len(key) > 2:  # files of earlier versions may have a key without the policy
            return [(oid_of("policy", f"{key[1]}.{key[2]}"), "pg_policy", 0)]
        case _:
            return []


def _shared_comments(catalog: Catalog) -> Iterator[tuple[int, str, str]]:
    """Yield OID, catalog and text of comments on roles and databases."""
    for (kind, name, *_), text in catalog.comments.items():
        if kind == "ROLE":
            yield role_oid(name), "pg_authid", text
        elif kind == "DATABASE":
            yield DATABASE_NUMBER, "pg_database", text


def _pg_shdescription_rows(catalog: Catalog) -> Iterator[Row]:
    for number, where, text in _shared_comments(catalog):
        yield number, system_relation_oid(where), text


def shared_comments(catalog: Catalog, where: str) -> list[tuple[int, str]]:
    """Return the comments on objects of the catalog ``where`` by OID."""
    return [(number, text) for number, its, text in _shared_comments(catalog) if its == where]


def _pg_description_rows(catalog: Catalog) -> Iterator[Row]:
    for number, where, place, text in object_comments(catalog):
        yield number, system_relation_oid(where), place, text


def object_comment_texts(catalog: Catalog) -> list[tuple[int, str]]:
    """Return the comments on objects by OID, without those on columns."""
    return [(number, text) for number, _, place, text in object_comments(catalog) if not place]


def _pg_extension_rows(catalog: Catalog) -> Iterator[Row]:
    yield 13501, "plpgsql", 10, 11, "1.0"
    for name, version in catalog.extensions.items():
        yield oid_of("extension", name), name, 10, schema_oid("public"), version


COMMENT_RELATIONS: Final = {
    "pg_description": SystemRelation(
        columns("objoid:o classoid:o objsubid:i description"), _pg_description_rows
    ),
    "pg_shdescription": SystemRelation(columns("objoid:o classoid:o description"), _pg_shdescription_rows),
}


NO_CHANGES: Final = (0, 0, 0)
"""Numbers of inserted, updated and deleted rows of a relation that stores none."""


def _table_statistics_rows(catalog: Catalog) -> Iterator[Row]:
    """Yield the statistics of tables and materialized views."""
    counts = {str(name): int(str(rows)) for name, rows in catalog.system_reads.session_rows("rows")}
    changes = {str(name): told for name, *told in catalog.system_reads.session_rows("changes")}
    for schema, name, entry in listed_entries(catalog):
        if isinstance(entry, ViewEntry) and not entry.materialized:
            continue
        whole = is_partitioned(catalog, entry.name)
        rows, told = (
            (0, NO_CHANGES) if whole else (counts.get(entry.name, 0), changes.get(entry.name, NO_CHANGES))
        )
        yield oid_of("relation", entry.name), schema, name, *(int(str(one)) for one in told), rows


def _index_statistics_rows(catalog: Catalog) -> Iterator[Row]:
    for one in indexes(catalog):
        if not is_partitioned(catalog, one.entry.name):
            schema, table = split_name(catalog, one.entry.name)
            number = oid_of("relation", one.entry.name)
            yield number, one.oid, schema, table, split_name(catalog, one.name)[1]


TABLE_STATISTICS: Final = SystemRelation(
    columns("relid:o schemaname relname n_tup_ins:l n_tup_upd:l n_tup_del:l n_live_tup:l"),
    _table_statistics_rows,
)
INDEX_STATISTICS: Final = SystemRelation(
    columns("relid:o indexrelid:o schemaname relname indexrelname"), _index_statistics_rows
)
STATISTICS_RELATIONS: Final = {
    "pg_stat_all_tables": TABLE_STATISTICS,
    "pg_stat_user_tables": TABLE_STATISTICS,
    "pg_stat_all_indexes": INDEX_STATISTICS,
    "pg_stat_user_indexes": INDEX_STATISTICS,
}


NORMAL, AUTO, INTERNAL = "n", "a", "i"


def owned_sequences(catalog: Catalog) -> Iterator[tuple[str, str, int, bool]]:
    """Yield name, table and column position of each owned sequence, and whether it is an IDENTITY's."""
    seen = set()
    for _, _, entry in listed_entries(catalog):
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


def _pg_depend_rows(catalog: Catalog) -> Iterator[Row]:
    relation, default = system_relation_oid("pg_class"), system_relation_oid("pg_attrdef")
    places: dict[tuple[str, int], str] = {}
    for sequence, table, place, identity in owned_sequences(catalog):
        places[table, place] = sequence
        number, where = oid_of("relation", sequence), oid_of("relation", table)
        yield relation, number, 0, relation, where, place, INTERNAL if identity else AUTO
    for number, entry, place in column_defaults(catalog):
        yield default, number, 0, relation, oid_of("relation", entry.name), place + 1, AUTO
        used = places.get((entry.name, place + 1))
        if used is not None:
            yield default, number, 0, relation, oid_of("relation", used), 0, NORMAL
    yield from _view_dependency_rows(catalog)
    yield from _type_dependency_rows(catalog)


def _view_dependency_rows(catalog: Catalog) -> Iterator[Row]:
    """Yield dependencies of view rules on the relations and functions of their queries."""
    rule, relation = system_relation_oid("pg_rewrite"), system_relation_oid("pg_class")
    function = system_relation_oid("pg_proc")
    called: dict[str, list[int]] = {}
    for number, one in listed_routines(catalog):
        called.setdefault(one.name.lower(), []).append(number)
    for view, used in catalog.system_reads.session_rows("uses"):
        entry = catalog.find(str(view))
        if entry is None or isinstance(entry, TableEntry):
            continue
        own = rule_oid(entry.name, "_RETURN")
        yield rule, own, 0, relation, oid_of("relation", entry.name), 0, INTERNAL
        name = str(used)
        if name.startswith("function "):
            for number in called.get(name.removeprefix("function ").lower(), ()):
                yield rule, own, 0, function, number, 0, NORMAL
        else:
            yield rule, own, 0, relation, oid_of("relation", name), 0, NORMAL


def _type_dependency_rows(catalog: Catalog) -> Iterator[Row]:
    """Yield dependencies of composite types and domains on other types."""
    number = system_relation_oid("pg_type")
    for key, one in catalog.types.items():
        for part in (one.type,) if isinstance(one, Domain) else one.parts:
            element = part.parts[0] if part.kind.value == "ARRAY" else part
            if element.name:
                used = type_oid(element)
                yield number, oid_of("type", one.name or key), 0, number, used, 0, NORMAL


DEPENDENCY_RELATIONS: Final = {
    "pg_depend": SystemRelation(
        columns("classid:o objid:o objsubid:i refclassid:o refobjid:o refobjsubid:i deptype"),
        _pg_depend_rows,
    ),
}


COMMAND_LETTERS = {"ALL": "*", "SELECT": "r", "INSERT": "a", "UPDATE": "w", "DELETE": "d"}


def _pg_policy_rows(catalog: Catalog) -> Iterator[Row]:
    for one in catalog.policies.values():
        numbers = oid_of("policy", f"{one.table}.{one.name}"), oid_of("relation", one.table)
        roles = " ".join("0" if role == PUBLIC_ROLE else str(role_oid(role)) for role in one.roles)
        kind = COMMAND_LETTERS[one.command], int(one.permissive)
        yield numbers[0], one.name, numbers[1], *kind, roles, *_deparse_conditions(catalog, one)


def _deparse_conditions(catalog: Catalog, policy: Policy) -> tuple[str | None, str | None]:
    """Return USING and WITH CHECK of a policy as Postgres writes them."""
    spell, entry = catalog.system_reads.deparser.expression, catalog.get(policy.table)
    using, check = (spell(catalog, entry, text) if text else None for text in (policy.using, policy.check))
    return using, check


def _pg_policies_rows(catalog: Catalog) -> Iterator[Row]:
    for one in catalog.policies.values():
        schema, table = split_name(catalog, one.table)
        kind = "PERMISSIVE" if one.permissive else "RESTRICTIVE"
        roles = "{" + ",".join(one.roles) + "}"
        yield schema, table, one.name, kind, roles, one.command, *_deparse_conditions(catalog, one)


POLICY_RELATIONS = {
    "pg_policy": SystemRelation(
        columns("oid:o polname polrelid:o polcmd polpermissive:b polroles:n polqual polwithcheck"),
        _pg_policy_rows,
    ),
    "pg_policies": SystemRelation(
        columns("schemaname tablename policyname permissive roles:t cmd qual with_check"), _pg_policies_rows
    ),
}


def _pg_sequence_rows(catalog: Catalog) -> Iterator[Row]:
    for row in relations.pg_sequences_rows(catalog):
        name = row[1] if row[0] == "public" else f"{row[0]}.{row[1]}"
        type_ = {"integer": 23, "smallint": 21}.get(str(row[3]), 20)
        yield oid_of("relation", str(name)), type_, row[4], row[7], row[6], row[5], 1, row[8]


def _pg_proc_rows(catalog: Catalog) -> Iterator[Row]:

    yield from user_function_rows(catalog)

    for kind, names in (
        ("f", {one.name for one in functions(catalog.extensions)}),
        ("a", {one.name for one in aggregates(catalog.extensions)}),
    ):
        for name in sorted(names):
            head = (oid_of("function", name), name, 11, 10, kind, 0, 0, "", 12, 0, 0, 0)
            yield *head, "i", "s", 0, 1, 0, None, "", 0, None, None, None, None, None


def all_routines(catalog: Catalog) -> Iterator[tuple[int, str]]:
    """Yield the OIDs and names of all routines."""
    yield from ((int(str(row[0])), str(row[1])) for row in _pg_proc_rows(catalog))


def is_built_in_function(name: str) -> bool:
    """Return whether there is a built-in function or aggregate of that name."""

    return name in {one.name for one in functions()} | {one.name for one in aggregates()}


def _enum_rows(catalog: Catalog) -> Iterator[Row]:

    return pg_enum_rows(catalog)


PRESET_OPTIONS: Final = {
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
"""Fixed settings that clients query."""


SUPERUSER_SETTINGS: Final = dict.fromkeys(
    ("lc_messages", "log_statement", "session_replication_role", "track_io_timing"), "superuser"
)
"""Settings that only superusers can change."""
HIDDEN_QUERY: Final = "<insufficient privilege>"
"""Postgres' text in place of the query of a session that the user may not see."""
SETTING_TYPES: Final = dict.fromkeys(
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
"""Value types of settings that their values do not show."""


def _value_type(value: str) -> str:
    """Return the type of a setting's value."""
    if value in ("on", "off"):
        return "bool"
    return "integer" if re.fullmatch(r"-?\d+ ?(B|kB|MB|GB|TB|us|ms|s|min|h|d)?", value) else "string"


def _pg_settings_rows(catalog: Catalog) -> Iterator[Row]:
    for name, value in PRESET_OPTIONS.items():
        yield name, value, "Preset Options", _value_type(value), "internal"
    for setting, shown in catalog.system_reads.session_rows("settings"):
        if setting not in PRESET_OPTIONS:
            name = str(setting)
            context = "internal" if name == "is_superuser" else SUPERUSER_SETTINGS.get(name, "user")
            kind = SETTING_TYPES.get(name) or _value_type(str(shown))
            yield name, shown, "Client Connection Defaults", kind, context


def _pg_cursors_rows(catalog: Catalog) -> Iterator[Row]:
    yield from catalog.system_reads.session_rows("cursors")


def _pg_prepared_statements_rows(catalog: Catalog) -> Iterator[Row]:
    yield from catalog.system_reads.session_rows("prepared")


def _pg_locks_rows(catalog: Catalog) -> Iterator[Row]:
    for table, row, high, low, numbers, session, mode, granted in catalog.system_reads.session_rows("locks"):
        kind = "advisory" if table is None else "relation" if row is None else "tuple"
        relation = None if table is None else oid_of("relation", str(table))
        block, place = (None, None) if row is None else divmod(int(row), BLOCK)
        where = relation, block, None if place is None else place + 1
        how = f"{session}/1", session, mode, granted == "true", False
        yield kind, 1, *where, high, low, numbers, *how


def _pg_stat_activity_rows(catalog: Catalog) -> Iterator[Row]:
    """Yield the sessions. A privilege is needed to see the statements of other roles."""
    acts = catalog.privileges.effective_roles(catalog.asker.user)
    for number, user, program, doing, asked, kind, event in catalog.activity():
        who = 1, DATABASE, int(str(number)), role_oid(str(user)), str(user), str(program)
        if catalog.checks_privileges and user not in acts and "pg_read_all_stats" not in acts:
            yield *who, None, None, None, HIDDEN_QUERY, None
            continue
        waits = (None if one is None else str(one) for one in (kind, event))
        yield *who, *waits, str(doing), str(asked), "client backend"


def view_definitions(catalog: Catalog) -> Iterator[tuple[int, str]]:
    """Yield the OID and the query of each view."""
    for entry in catalog:
        if isinstance(entry, ViewEntry):
            text = view_text(catalog, entry)
            yield oid_of("relation", entry.name), f" {text};"


OBJECT_RELATIONS: Final = {
    **pg_class.CLASS_RELATIONS,
    **pg_index.KEY_RELATIONS,
    **pg_index.PARTITION_RELATIONS,
    **DEPENDENCY_RELATIONS,
    **COMMENT_RELATIONS,
    "pg_extension": SystemRelation(
        columns("oid:o extname extowner:o extnamespace:o extversion"), _pg_extension_rows
    ),
    **STATISTICS_RELATIONS,
    "pg_sequence": SystemRelation(
        columns("seqrelid:o seqtypid:o seqstart:l seqincrement:l seqmax:l seqmin:l seqcache:l seqcycle:b"),
        _pg_sequence_rows,
        is_cacheable=False,
    ),
    "pg_proc": SystemRelation(
        columns(
            "oid:o proname pronamespace:o proowner:o prokind prorettype:o pronargs:i prosrc prolang:o "
            "proisstrict:b proretset:b prosecdef:b provolatile proparallel proleakproof:b procost:i "
            "prorows:i proacl proargtypes:n pronargdefaults:i proallargtypes:n proargmodes "
            "proargnames proargdefaults proconfig"
        ),
        _pg_proc_rows,
    ),
    "pg_enum": SystemRelation(columns("oid:o enumtypid:o enumsortorder:i enumlabel"), _enum_rows),
    "pg_settings": SystemRelation(columns("name setting category vartype context"), _pg_settings_rows),
    "pg_database": SystemRelation(
        columns("oid:o datname datdba:o encoding:i datcollate"), relations.pg_database_rows
    ),
    "pg_cursors": SystemRelation(
        columns("name statement is_holdable:b is_binary:b is_scrollable:b creation_time"), _pg_cursors_rows
    ),
    "pg_prepared_statements": SystemRelation(
        columns("name statement parameter_types from_sql:b"), _pg_prepared_statements_rows
    ),
    "pg_locks": SystemRelation(
        columns(
            "locktype database:o relation:o page:i tuple:i classid:o objid:o objsubid:i "
            "virtualtransaction pid:i mode granted:b fastpath:b"
        ),
        _pg_locks_rows,
    ),
    "pg_stat_activity": SystemRelation(
        columns(
            "datid:o datname pid:i usesysid:o usename application_name wait_event_type wait_event state "
            "query backend_type"
        ),
        _pg_stat_activity_rows,
        is_cacheable=False,
    ),
    "pg_namespace": SystemRelation(columns("oid:o nspname nspowner:o nspacl"), relations.pg_namespace_rows),
    "pg_type": SystemRelation(
        columns(
            "oid:o typname typnamespace:o typlen:i typtype typcategory typelem:o typarray:o typinput "
            "typoutput typreceive typsend typbasetype:o typtypmod:i typnotnull:b typdefault typrelid:o "
            "typbyval:b typalign typstorage typcollation:o typowner:o typdefaultbin typacl"
        ),
        pg_class.pg_type_rows,
    ),
    "pg_tables": SystemRelation(
        columns(
            "schemaname tablename tableowner tablespace hasindexes:b hasrules:b hastriggers:b rowsecurity:b"
        ),
        relations.pg_tables_rows,
    ),
    "pg_views": SystemRelation(columns("schemaname viewname viewowner definition"), relations.pg_views_rows),
    "pg_matviews": SystemRelation(
        columns("schemaname matviewname matviewowner ispopulated:b definition"), relations.pg_matviews_rows
    ),
    "pg_sequences": SystemRelation(
        columns(
            "schemaname sequencename sequenceowner data_type start_value:l min_value:l max_value:l "
            "increment_by:l cycle:b cache_size:l last_value:l"
        ),
        relations.pg_sequences_rows,
        is_cacheable=False,
    ),
    **relations.ROLE_RELATIONS,
    **POLICY_RELATIONS,
}


INFORMATION_RELATIONS: Final = {
    **relations.INFORMATION,
    **relations.PRIVILEGE_RELATIONS,
    **user_objects.INFORMATION,
    **information_schema.INFORMATION_RELATIONS,
}


def find_system_relation(name: str) -> SystemRelation | None:
    """Return the system relation of a name, with or without ``pg_catalog``; None if there is none."""
    schema, _, plain = name.lower().rpartition(".")
    if schema == "information_schema":
        return complete_information(plain, INFORMATION_RELATIONS.get(plain))
    return complete_catalog(plain, OBJECT_RELATIONS.get(plain)) if schema in ("", "pg_catalog") else None


KEYWORD_KINDS: Final = {
    "R": "reserved",
    "T": "reserved (can be function or type name)",
    "C": "unreserved (cannot be function or type name)",
    "U": "unreserved",
}
KEYWORDS: Final = {
    ("C", False): ("char character precision"),
    ("C", True): (
        "between bigint bit boolean coalesce dec decimal exists extract float greatest grouping inout int "
        "integer interval json_array json_arrayagg json_object json_objectagg least national nchar none "
        "normalize nullif numeric out overlay position real row setof smallint substring time timestamp "
        "treat trim values varchar xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces "
        "xmlparse xmlpi xmlroot xmlserialize xmltable"
    ),
    ("R", False): (
        "array as create except fetch for from grant group having intersect into limit offset on order "
        "returning to union where window with"
    ),
    ("R", True): (
        "all analyse analyze and any asc asymmetric both case cast check collate column constraint "
        "current_catalog current_date current_role current_time current_timestamp current_user default "
        "deferrable desc distinct do else end false foreign in initially lateral leading localtime "
        "localtimestamp not null only or placing primary references select session_user some symmetric "
        "system_user table then trailing true unique user using variadic when"
    ),
    ("T", False): ("isnull notnull overlaps"),
    ("T", True): (
        "authorization binary collation concurrently cross current_schema freeze full ilike inner is join "
        "left like natural outer right similar tablesample verbose"
    ),
    ("U", False): ("day filter hour minute month over second varying within without year"),
    ("U", True): (
        "abort absent absolute access action add admin after aggregate also alter always asensitive "
        "assertion assignment at atomic attach attribute backward before begin breadth by cache call "
        "called cascade cascaded catalog chain characteristics checkpoint class close cluster columns "
        "comment comments commit committed compression configuration conflict connection constraints "
        "content continue conversion copy cost csv cube current cursor cycle data database deallocate "
        "declare defaults deferred definer delete delimiter delimiters depends depth detach dictionary "
        "disable discard document domain double drop each enable encoding encrypted enum escape event "
        "exclude excluding exclusive execute explain expression extension external family finalize first "
        "following force format forward function functions generated global granted groups handler header "
        "hold identity if immediate immutable implicit import include including increment indent index "
        "indexes inherit inherits inline input insensitive insert instead invoker isolation json key keys "
        "label language large last leakproof level listen load local location lock locked logged mapping "
        "match matched materialized maxvalue merge method minvalue mode move name names new next nfc nfd "
        "nfkc nfkd no normalized nothing notify nowait nulls object of off oids old operator option "
        "options ordinality others overriding owned owner parallel parameter parser partial partition "
        "passing password plans policy preceding prepare prepared preserve prior privileges procedural "
        "procedure procedures program publication quote range read reassign recheck recursive ref "
        "referencing refresh reindex relative release rename repeatable replace replica reset restart "
        "restrict return returns revoke role rollback rollup routine routines rows rule savepoint scalar "
        "schema schemas scroll search security sequence sequences serializable server session set sets "
        "share show simple skip snapshot sql stable standalone start statement statistics stdin stdout "
        "storage stored strict strip subscription support sysid system tables tablespace temp template "
        "temporary text ties transaction transform trigger truncate trusted type types uescape unbounded "
        "uncommitted unencrypted unknown unlisten unlogged until update vacuum valid validate validator "
        "value version view views volatile whitespace work wrapper write xml yes zone"
    ),
}
"""Keywords by kind and by whether they can be a column label without AS."""


def keyword_rows() -> Iterator[tuple[int | str, ...]]:
    """Yield the rows of ``pg_get_keywords``."""
    each = ((word, *how) for how, words in KEYWORDS.items() for word in words.split())
    for word, kind, bare in sorted(each):
        yield word, kind, bare, KEYWORD_KINDS[kind], "can be bare label" if bare else "requires AS"
