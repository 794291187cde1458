"""Rows of ``pg_catalog`` about comments, statistics, dependencies, row security and keywords.

``pg_depend`` orders objects for dumps. The statistics count rows present, inserted and deleted; reads are not
counted.
"""

import re
from collections.abc import Iterator
from typing import Final

from kpg.compiler.catalog.access_control import EVERYBODY, Policy
from kpg.compiler.catalog.constraints import Domain
from kpg.compiler.catalog.entries import Catalog, TableEntry, ViewEntry
from kpg.compiler.qualified_names import DATABASE
from kpg.compiler.system import information_schema, pg_class, pg_index, relations, user_objects
from kpg.compiler.system.catalog_columns import informing, widened
from kpg.compiler.system.oids import number_of, query_of, role_number, schema_number, split, system_number
from kpg.compiler.system.pg_class import defaults
from kpg.compiler.system.pg_index import indexes, is_partitioned, rule_number
from kpg.compiler.system.relations import Row, System, columns, entries
from kpg.compiler.system.user_objects import enum_rows, function_rows, routines, type_number_of
from kpg.runtime.functions import aggregates, functions
from kpg.runtime.values.words import BLOCK

STANDARD: Final = (
    (2200, "pg_namespace", "standard public schema"),
    (13501, "pg_extension", "PL/pgSQL procedural language"),
)
"""What is said of what is always there."""


DATABASE_NUMBER: Final = 1


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


COMMENT_RELATIONS: Final = {
    "pg_description": System(columns("objoid:o classoid:o objsubid:i description"), _rows),
    "pg_shdescription": System(columns("objoid:o classoid:o description"), _shared_rows),
}


NOTHING: Final = (0, 0, 0)
"""Rows that came, were changed and went of what holds none itself."""


def _tables(catalog: Catalog) -> Iterator[Row]:
    """Tables, and views that are kept: Postgres counts the rows of both."""
    counts = {str(name): int(str(rows)) for name, rows in catalog.consulted.session("rows")}
    changes = {str(name): told for name, *told in catalog.consulted.session("changes")}
    for schema, name, entry in entries(catalog):
        if isinstance(entry, ViewEntry) and not entry.materialized:
            continue
        whole = is_partitioned(catalog, entry.name)
        rows, told = (0, NOTHING) if whole else (counts.get(entry.name, 0), changes.get(entry.name, NOTHING))
        yield number_of("relation", entry.name), schema, name, *(int(str(one)) for one in told), rows


def _indexes(catalog: Catalog) -> Iterator[Row]:
    for one in indexes(catalog):
        if not is_partitioned(catalog, one.entry.name):
            schema, table = split(catalog, one.entry.name)
            number = number_of("relation", one.entry.name)
            yield number, one.number, schema, table, split(catalog, one.name)[1]


TABLES: Final = System(
    columns("relid:o schemaname relname n_tup_ins:l n_tup_upd:l n_tup_del:l n_live_tup:l"), _tables
)
INDEXES: Final = System(columns("relid:o indexrelid:o schemaname relname indexrelname"), _indexes)
STATISTICS_RELATIONS: Final = {
    "pg_stat_all_tables": TABLES,
    "pg_stat_user_tables": TABLES,
    "pg_stat_all_indexes": INDEXES,
    "pg_stat_user_indexes": INDEXES,
}


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


def _dependency_rows(catalog: Catalog) -> Iterator[Row]:
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


DEPENDENCY_RELATIONS: Final = {
    "pg_depend": System(
        columns("classid:o objid:o objsubid:i refclassid:o refobjid:o refobjsubid:i deptype"),
        _dependency_rows,
    ),
}


LETTERS = {"ALL": "*", "SELECT": "r", "INSERT": "a", "UPDATE": "w", "DELETE": "d"}


def _all(catalog: Catalog) -> list[Policy]:
    return [one for one in catalog.others.values() if isinstance(one, Policy)]


def _policies(catalog: Catalog) -> Iterator[Row]:
    for one in _all(catalog):
        numbers = number_of("policy", f"{one.table}.{one.name}"), number_of("relation", one.table)
        roles = " ".join("0" if role == EVERYBODY else str(role_number(role)) for role in one.roles)
        kind = LETTERS[one.command], int(one.permissive)
        yield numbers[0], one.name, numbers[1], *kind, roles, *_conditions(catalog, one)


def _conditions(catalog: Catalog, one: Policy) -> tuple[str | None, str | None]:
    """USING and WITH CHECK."""
    spell, entry = catalog.consulted.spelling.expression, catalog.get(one.table)
    using, check = (spell(catalog, entry, text) if text else None for text in (one.using, one.check))
    return using, check


def _shown(catalog: Catalog) -> Iterator[Row]:
    for one in _all(catalog):
        schema, table = split(catalog, one.table)
        kind = "PERMISSIVE" if one.permissive else "RESTRICTIVE"
        roles = "{" + ",".join(one.roles) + "}"
        yield schema, table, one.name, kind, roles, one.command, *_conditions(catalog, one)


POLICY_RELATIONS = {
    "pg_policy": System(
        columns("oid:o polname polrelid:o polcmd polpermissive:b polroles:n polqual polwithcheck"), _policies
    ),
    "pg_policies": System(
        columns("schemaname tablename policyname permissive roles:t cmd qual with_check"), _shown
    ),
}


def _sequence_rows(catalog: Catalog) -> Iterator[Row]:
    for row in relations.pg_sequences(catalog):
        name = row[1] if row[0] == "public" else f"{row[0]}.{row[1]}"
        type_ = {"integer": 23, "smallint": 21}.get(str(row[3]), 20)
        yield number_of("relation", str(name)), type_, row[4], row[7], row[6], row[5], 1, row[8]


def _functions(catalog: Catalog) -> Iterator[Row]:

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

    return name in {one.name for one in functions()} | {one.name for one in aggregates()}


def _enums(catalog: Catalog) -> Iterator[Row]:

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


OBJECT_RELATIONS: Final = {
    **pg_class.POSTGRES,
    **pg_index.KEY_RELATIONS,
    **pg_index.PARTITION_RELATIONS,
    **DEPENDENCY_RELATIONS,
    **COMMENT_RELATIONS,
    **STATISTICS_RELATIONS,
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
        pg_class.types,
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
    **relations.POSTGRES,
    **POLICY_RELATIONS,
}


INFORMATION: Final = {
    **relations.INFORMATION,
    **relations.PRIVILEGE_RELATIONS,
    **user_objects.INFORMATION,
    **information_schema.INFORMATION,
}


def find(name: str) -> System | None:
    """The relation that a name means, with or without ``pg_catalog``."""
    schema, _, plain = name.lower().rpartition(".")
    if schema == "information_schema":
        return informing(plain, INFORMATION.get(plain))
    return widened(plain, OBJECT_RELATIONS.get(plain)) if schema in ("", "pg_catalog") else None


KINDS: Final = {
    "R": "reserved",
    "T": "reserved (can be function or type name)",
    "C": "unreserved (cannot be function or type name)",
    "U": "unreserved",
}
WORDS: Final = {
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
"""By their kinds, and by whether a column may be called so without AS."""


def keywords() -> Iterator[tuple[int | str, ...]]:
    """Each word, its kind, whether it is a label without AS; and what these mean."""
    each = ((word, *how) for how, words in WORDS.items() for word in words.split())
    for word, kind, bare in sorted(each):
        yield word, kind, bare, KINDS[kind], "can be bare label" if bare else "requires AS"
