"""The system relations: the columns of each, and the function that computes its rows.

Rows about schemas, tables, constraints, roles and privileges are computed here.
"""

from collections.abc import Callable, Iterator
from typing import Final, assert_never

from kpg.compiler.catalog.access_control import security_of
from kpg.compiler.catalog.constraints import Check, Domain, ForeignKey, Heir, Unique
from kpg.compiler.catalog.entries import KEYS, Catalog, Entry, TableEntry, ViewEntry
from kpg.compiler.catalog.privileges import ALL, PUBLIC, WORDS, Items, Key, Role
from kpg.compiler.catalog.updatable_views import written_columns
from kpg.compiler.qualified_names import DATABASE
from kpg.compiler.system.oids import (
    domain_at,
    number_of,
    query_of,
    role_number,
    schema_number,
    schemas,
    split,
)
from kpg.runtime.records import dataclass
from kpg.runtime.types import BIGINT, BOOLEAN, INTEGER, OID, TEXT, TIMESTAMPTZ, Type
from kpg.runtime.values import codec_of

Value = int | str | None
Row = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class System:
    """One relation: its columns and what makes its rows."""

    columns: tuple[tuple[str, Type], ...]
    rows: Callable[[Catalog], Iterator[Row]]
    steady: bool = True
    """Whether its rows are of the catalog alone, and of what the session tells when it is asked."""


def columns(text: str) -> tuple[tuple[str, Type], ...]:
    """Columns by name: text, or what follows the colon of the name."""
    kinds = {"i": INTEGER, "b": BOOLEAN, "o": OID, "l": BIGINT}
    parts = (word.partition(":") for word in text.split())
    return tuple((name, kinds.get(kind, TEXT)) for name, _, kind in parts)


def yes(value: object) -> str:
    """YES or NO."""
    return "YES" if value else "NO"


def _owner(catalog: Catalog, entry: Entry) -> str:
    return catalog.rights.owner(("RELATION", entry.name.lower()))


def entries(catalog: Catalog) -> Iterator[tuple[str, str, Entry]]:
    """Schema, name and entry of every table and view."""
    for entry in catalog:
        if entry.name.startswith(KEYS):
            continue
        yield *split(catalog, entry.name), entry


def _schemata(catalog: Catalog) -> Iterator[Row]:
    for name in schemas(catalog):
        yield DATABASE, name, catalog.rights.owner(("SCHEMA", name))


def allowed(catalog: Catalog) -> Iterator[tuple[str, str, Entry]]:
    """As :func:`entries`, of what ``information_schema`` shows to who asks."""

    for schema, name, entry in entries(catalog):
        others = schema.startswith("pg_temp") and schema != catalog.temporary
        if not others and visible(catalog, ("RELATION", entry.name.lower())):
            yield schema, name, entry


def _tables(catalog: Catalog) -> Iterator[Row]:
    for schema, name, entry in allowed(catalog):
        temporary = schema.startswith("pg_temp")
        kind = "LOCAL TEMPORARY" if temporary else "BASE TABLE"
        if isinstance(entry, ViewEntry):
            if entry.materialized:
                continue
            kind = "VIEW"
        gone = "PRESERVE" if temporary else None
        yield DATABASE, schema, name, kind, yes(written_names(catalog, entry)), "NO", gone


def _views(catalog: Catalog) -> Iterator[Row]:
    for schema, name, entry in allowed(catalog):
        if isinstance(entry, ViewEntry) and not entry.materialized:
            written, check = yes(written_names(catalog, entry)), "CASCADED" if entry.checked else "NONE"
            owned = catalog.rights.owns(catalog.asker.user, ("RELATION", entry.name.lower()))
            text = f" {query_of(catalog, entry)};" if owned else None
            yield DATABASE, schema, name, text, check, written, written, "NO", "NO", "NO"


def written_names(catalog: Catalog, entry: Entry) -> frozenset[str]:
    """The columns that INSERT and UPDATE may name."""
    if isinstance(entry, TableEntry):
        return frozenset(entry.schema.names)
    return written_columns(catalog, entry)


def constraints(catalog: Catalog) -> Iterator[tuple[str, TableEntry, Check | Unique | ForeignKey]]:
    """Schema, table and constraint, for each one that is no index only."""
    for schema, _, entry in entries(catalog):
        if isinstance(entry, TableEntry):
            hidden = bounds_of(catalog, entry.name)
            for one in entry.constraints:
                if isinstance(one, Unique) and one.index:
                    continue
                if isinstance(one, Check) and (one.name.lower() in hidden or _of_domain(catalog, entry, one)):
                    continue
                yield schema, entry, one


def bounds_of(catalog: Catalog, name: str) -> frozenset[str]:
    """The names of the CHECKs by which a partition, or one that it is within, refuses rows of others."""
    lower = name.lower()
    for one in catalog.others.values():
        if isinstance(one, Heir) and one.child.lower() == lower:
            return bounds_of(catalog, one.parent) | {f"{lower.rpartition('.')[2]}_partition"}
    return frozenset()


def _of_domain(catalog: Catalog, entry: TableEntry, check: Check) -> bool:
    """Whether a CHECK is what the domain of a column asks for."""
    names = [name.lower() for name in entry.schema.names]
    if check.column.lower() not in names:
        return False
    domain = catalog.types.get(entry.constraints.rule(names.index(check.column.lower())).domain.lower())
    if not isinstance(domain, Domain):
        return False
    quoted = '"' + check.column.replace('"', '""') + '"'
    plain = check.text.replace(quoted, "value").lower()
    return any(one.text.lower() == plain for one in domain.checks)


def _kind(one: Check | Unique | ForeignKey) -> str:
    match one:
        case Check():
            return "CHECK"
        case Unique():
            return "PRIMARY KEY" if one.is_primary else "UNIQUE"
        case ForeignKey():
            return "FOREIGN KEY"
        case _:
            assert_never(one)


def _table_constraints(catalog: Catalog) -> Iterator[Row]:
    for schema, table, one in constraints(catalog):
        name = split(catalog, table.name)[1]
        deferrable = isinstance(one, ForeignKey) and one.deferrable
        deferred = isinstance(one, ForeignKey) and one.deferred
        row = (DATABASE, schema, one.name, DATABASE, schema, name)
        apart = yes(one.nulls_distinct) if isinstance(one, Unique) and not one.is_primary else None
        yield *row, _kind(one), yes(deferrable), yes(deferred), "YES", apart
    for schema, name, label, _ in required(catalog):
        yield DATABASE, schema, label, DATABASE, schema, name, "CHECK", "NO", "NO", "YES", None


def required(catalog: Catalog) -> Iterator[tuple[str, str, str, str]]:
    """Schema, table, what Postgres calls the constraint, and the column, of each that is NOT NULL."""
    for schema, name, entry in entries(catalog):
        if isinstance(entry, TableEntry):
            numbers = f"{schema_number(schema)}_{number_of('relation', entry.name)}"
            for place, column in enumerate(entry.schema.columns):
                domain = domain_at(catalog, entry, place)
                if not column.nullable and not (domain is not None and domain.required):
                    yield schema, name, f"{numbers}_{place + 1}_not_null", column.name


def place_of_key(catalog: Catalog, key: ForeignKey, place: int) -> int | None:
    """The place, in the key that a foreign key refers to, of what its column refers to."""
    target = catalog.table(key.target)
    for unique in target.constraints.uniques:
        if set(unique.columns) == set(key.target_columns):
            return unique.columns.index(key.target_columns[place]) + 1
    return None


def _referential(catalog: Catalog) -> Iterator[Row]:
    for schema, _, one in constraints(catalog):
        if isinstance(one, ForeignKey):
            target = catalog.table(one.target)
            names = (
                key.name for key in target.constraints.uniques if set(key.columns) == set(one.target_columns)
            )
            where = split(catalog, target.name)[0]
            match = "NONE" if one.match == "SIMPLE" else one.match
            yield (
                DATABASE,
                schema,
                one.name,
                DATABASE,
                where,
                next(names, None),
                match,
                one.on_update,
                one.on_delete,
            )


def _sequences(catalog: Catalog) -> Iterator[Row]:
    identities = {
        rule.sequence
        for entry in catalog
        if isinstance(entry, TableEntry)
        for rule in entry.constraints.rules
        if rule.identity
    }
    for one in catalog.sequences.values():
        if one.name in identities:
            continue
        schema, name = split(catalog, one.name)
        bounds = (str(one.start), str(one.least), str(one.most), str(one.increment))
        bits = {"smallint": 16, "integer": 32}.get(one.type, 64)
        yield DATABASE, schema, name, one.type, bits, 2, 0, *bounds, yes(one.cycle)


def database(_catalog: Catalog) -> Iterator[Row]:
    """Rows of pg_database."""
    yield 1, DATABASE, 10, 6, "C"


def namespaces(catalog: Catalog) -> Iterator[Row]:
    """Rows of pg_namespace."""
    for name in schemas(catalog):
        key = ("SCHEMA", name)
        items = catalog.rights.lists.get(key)
        acl = None if items is None else "{" + ",".join(map(str, items)) + "}"
        if items is None and name == "public":  # everybody may look into it
            owner = catalog.rights.owner(key)
            acl = "{" + f"{owner}=UC/{owner},=U/{owner}" + "}"
        yield schema_number(name), name, role_number(catalog.rights.owner(key)), acl


def pg_tables(catalog: Catalog) -> Iterator[Row]:
    """Rows of pg_tables."""
    for schema, name, entry in entries(catalog):
        if isinstance(entry, TableEntry):
            indexed = bool(entry.constraints.uniques) or any(
                index.table == entry.name for index in catalog.indexes.values()
            )
            secured = int(security_of(catalog, entry.name).enabled)
            yield schema, name, _owner(catalog, entry), None, int(indexed), 0, 0, secured


def pg_views(catalog: Catalog) -> Iterator[Row]:
    """Rows of pg_views."""
    for schema, name, entry in entries(catalog):
        if isinstance(entry, ViewEntry) and not entry.materialized:
            text = query_of(catalog, entry)
            yield schema, name, _owner(catalog, entry), f" {text};"


def pg_matviews(catalog: Catalog) -> Iterator[Row]:
    """Rows of pg_matviews."""
    for schema, name, entry in entries(catalog):
        if isinstance(entry, ViewEntry) and entry.materialized:
            text = query_of(catalog, entry)
            yield schema, name, _owner(catalog, entry), 1, f" {text};"


def pg_sequences(catalog: Catalog) -> Iterator[Row]:
    """Rows of pg_sequences."""
    for one in catalog.sequences.values():
        schema, name = split(catalog, one.name)
        owner = catalog.rights.owner(("SEQUENCE", one.name.lower()))
        numbers = catalog.numbers()
        coming = numbers.get(one.name, one.start)
        fresh = coming == one.start or one.name in getattr(numbers, "fresh", ())
        last = None if fresh else coming - one.increment
        bounds = one.start, one.least, one.most, one.increment
        yield (schema, name, owner, one.type, *bounds, int(one.cycle), 1, last)


def nothing(_catalog: Catalog) -> Iterator[Row]:
    """Rows of pg_nothing."""
    yield from ()


INFORMATION: Final = {
    "schemata": System(columns("catalog_name schema_name schema_owner"), _schemata),
    "tables": System(
        columns("table_catalog table_schema table_name table_type is_insertable_into is_typed commit_action"),
        _tables,
    ),
    "views": System(
        columns(
            "table_catalog table_schema table_name view_definition check_option is_updatable "
            "is_insertable_into is_trigger_updatable is_trigger_deletable is_trigger_insertable_into"
        ),
        _views,
    ),
    "table_constraints": System(
        columns(
            "constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name "
            "constraint_type is_deferrable initially_deferred enforced nulls_distinct"
        ),
        _table_constraints,
    ),
    "referential_constraints": System(
        columns(
            "constraint_catalog constraint_schema constraint_name unique_constraint_catalog "
            "unique_constraint_schema unique_constraint_name match_option update_rule delete_rule"
        ),
        _referential,
    ),
    "sequences": System(
        columns(
            "sequence_catalog sequence_schema sequence_name data_type numeric_precision:i "
            "numeric_precision_radix:i numeric_scale:i start_value minimum_value maximum_value increment "
            "cycle_option"
        ),
        _sequences,
    ),
}


Granted = tuple[str, str, str, bool]
"""Grantor, grantee, privilege, and whether it may be passed on."""


def number_of_owner(catalog: Catalog, key: Key) -> int:
    """The number of who owns something."""
    return role_number(catalog.rights.owner(key))


def listed(catalog: Catalog, key: Key) -> str | None:
    """Who may do what, as an array of Postgres' items; None where nothing was granted."""
    items = catalog.rights.lists.get(key)
    return None if items is None else array_of(items)


def array_of(items: Items) -> str:
    """A list as the text of an array."""
    return "{" + ",".join(f'"{one}"' if '"' in str(one) else str(one) for one in items) + "}"


def _attributes(role: Role) -> Row:
    """What pg_roles and pg_authid have of a role, but for its number and its password."""
    flags = (role.superuser, role.inherits, role.creates_roles, role.creates_databases)
    more = (role.logs_in, role.replicates, role.bypasses)
    return (role.name, *map(int, (*flags, *more)), role.connections, _until(role))


def _until(role: Role) -> Value:
    """The moment until which a role's password holds, as a word."""
    if not role.until:
        return None
    try:
        moment: int = codec_of(TIMESTAMPTZ).parse(role.until)
    except ValueError:
        return None
    return moment


def roles(catalog: Catalog) -> Iterator[Row]:
    """Rows of pg_roles."""
    for role in catalog.rights.every():
        yield role_number(role.name), *_attributes(role), "********", _settings(role)


def _authid(catalog: Catalog) -> Iterator[Row]:
    for role in catalog.rights.every():
        secret: Value = role.password or None
        yield role_number(role.name), *_attributes(role), None if catalog.is_limited else secret


def _settings(role: Role) -> str | None:
    texts = [f"{name}={value}" for name, value in role.settings]
    return "{" + ",".join(f'"{one}"' for one in texts) + "}" if texts else None


def _role_settings(catalog: Catalog) -> Iterator[Row]:
    for role in catalog.rights.every():
        if role.settings:
            yield 0, role_number(role.name), _settings(role)


def _members(catalog: Catalog) -> Iterator[Row]:
    number = 16_000
    for role in catalog.rights.every():
        for one in role.member_of:
            number += 1
            flags = (int(one.admin), int(one.inherits), int(one.sets))
            yield number, role_number(one.role), role_number(role.name), role_number(one.grantor), *flags


def _users(catalog: Catalog) -> Iterator[Row]:
    for role in catalog.rights.every():
        if role.logs_in:
            flags = (role.creates_databases, role.superuser, role.replicates, role.bypasses)
            yield role.name, role_number(role.name), *map(int, flags), "********", _until(role)


def _groups(catalog: Catalog) -> Iterator[Row]:
    every = list(catalog.rights.every())
    for role in every:
        if not role.logs_in:
            members = (one.name for one in every if any(each.role == role.name for each in one.member_of))
            yield (
                role.name,
                role_number(role.name),
                "{" + ",".join(str(role_number(one)) for one in members) + "}",
            )


def _defaults(catalog: Catalog) -> Iterator[Row]:
    kinds = {"TABLES": "r", "SEQUENCES": "S", "FUNCTIONS": "f", "TYPES": "T", "SCHEMAS": "n"}
    for place, ((owner, schema, kind), items) in enumerate(catalog.rights.defaults.items()):
        where = schema_number(schema) if schema else 0
        yield 17_000 + place, role_number(owner), where, kinds[kind], array_of(items)


def expanded_privileges(catalog: Catalog, key: Key, *, letters: str = "") -> Iterator[Granted]:
    """Each privilege of something for itself; of those only that who asks has given or got."""
    rights, user = catalog.rights, catalog.asker.user
    own = rights.acts_as(user)
    for one in rights.items(key):
        if not rights.is_superuser(user) and not {one.grantor, one.grantee} & {*own, PUBLIC}:
            continue
        for letter in one.letters:
            if not letters or letter in letters:
                passing = letter in one.options or one.grantee == rights.owner(key)
                yield one.grantor, one.grantee or "PUBLIC", WORDS[letter], passing


def _standard(catalog: Catalog) -> Iterator[tuple[str, str, Entry]]:
    """Tables and views; the standard has no materialized views."""
    for schema, name, entry in entries(catalog):
        if not isinstance(entry, ViewEntry) or not entry.materialized:
            yield schema, name, entry


def _table_privileges(catalog: Catalog) -> Iterator[Row]:
    for schema, name, entry in _standard(catalog):
        for grantor, grantee, word, passing in expanded_privileges(catalog, ("RELATION", entry.name.lower())):
            hierarchy = yes(word == "SELECT")
            yield grantor, grantee, DATABASE, schema, name, word, yes(passing), hierarchy


def _column_privileges(catalog: Catalog) -> Iterator[Row]:
    for schema, name, entry in _standard(catalog):
        whole = list(expanded_privileges(catalog, ("RELATION", entry.name.lower()), letters=ALL["COLUMN"]))
        for column in entry.schema.names:
            own = list(expanded_privileges(catalog, ("COLUMN", entry.name.lower(), column.lower())))
            for grantor, grantee, word, passing in dict.fromkeys([*whole, *own]):
                yield grantor, grantee, DATABASE, schema, name, column, word, yes(passing)


def _usage_privileges(catalog: Catalog) -> Iterator[Row]:
    for key, domain in catalog.types.items():
        if isinstance(domain, Domain):
            schema, name = split(catalog, domain.name)
            for grantor, grantee, word, passing in expanded_privileges(catalog, ("TYPE", key), letters="U"):
                yield grantor, grantee, DATABASE, schema, name, "DOMAIN", word, yes(passing)
    for one in catalog.sequences.values():
        if ("SEQUENCE", one.name.lower()) not in catalog.rights.lists:
            continue  # Postgres takes them for tables, whose owners have no USAGE
        schema, name = split(catalog, one.name)
        for grantor, grantee, word, passing in expanded_privileges(
            catalog, ("SEQUENCE", one.name.lower()), letters="U"
        ):
            yield grantor, grantee, DATABASE, schema, name, "SEQUENCE", word, yes(passing)


def _applicable(catalog: Catalog) -> Iterator[Row]:
    own = catalog.rights.acts_as(catalog.asker.user, by="any")
    for role in catalog.rights.every():
        if role.name in own:
            for one in role.member_of:
                yield role.name, one.role, yes(one.admin)


def _administrable(catalog: Catalog) -> Iterator[Row]:
    yield from (row for row in _applicable(catalog) if row[2] == "YES")


def _enabled(catalog: Catalog) -> Iterator[Row]:
    every = [role.name for role in catalog.rights.every()]
    own = catalog.rights.acts_as(catalog.asker.user, by="any")
    for name in every:
        if catalog.rights.is_superuser(catalog.asker.user) or name in own:
            yield (name,)


def visible(catalog: Catalog, key: Key) -> bool:
    """Whether ``information_schema`` shows it to who asks: their own, and what they may do anything with."""
    if not catalog.is_limited:
        return True
    rights, user = catalog.rights, catalog.asker.user
    if rights.owns(user, key) or rights.given(user, key):
        return True
    return any(one[0] == "COLUMN" and one[1] == key[1] and rights.given(user, one) for one in rights.lists)


def only_own_privileges(rows: Callable[[Catalog], Iterator[Row]]) -> Callable[[Catalog], Iterator[Row]]:
    """Of privileges those that a role has given or got whose privileges who asks has."""

    def own(catalog: Catalog) -> Iterator[Row]:
        enabled = {name for (name,) in _enabled(catalog)}
        yield from (row for row in rows(catalog) if enabled & set(row[:2]))

    return own


ROLE: Final = (
    "rolname rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b rolreplication:b "
    "rolbypassrls:b rolconnlimit:i rolvaliduntil"
)
TABLE: Final = (
    "grantor grantee table_catalog table_schema table_name privilege_type is_grantable with_hierarchy"
)
COLUMN: Final = (
    "grantor grantee table_catalog table_schema table_name column_name privilege_type is_grantable"
)
USAGE: Final = (
    "grantor grantee object_catalog object_schema object_name object_type privilege_type is_grantable"
)
POSTGRES: Final = {
    "pg_roles": System(columns(f"oid:o {ROLE} rolpassword rolconfig"), roles),
    "pg_authid": System(columns(f"oid:o {ROLE} rolpassword"), _authid),
    "pg_auth_members": System(
        columns("oid:o roleid:o member:o grantor:o admin_option:b inherit_option:b set_option:b"), _members
    ),
    "pg_user": System(
        columns("usename usesysid:o usecreatedb:b usesuper:b userepl:b usebypassrls:b passwd valuntil"),
        _users,
    ),
    "pg_shadow": System(
        columns("usename usesysid:o usecreatedb:b usesuper:b userepl:b usebypassrls:b passwd valuntil"),
        _users,
    ),
    "pg_group": System(columns("groname grosysid:o grolist"), _groups),
    "pg_default_acl": System(
        columns("oid:o defaclrole:o defaclnamespace:o defaclobjtype defaclacl"), _defaults
    ),
    "pg_db_role_setting": System(columns("setdatabase:o setrole:o setconfig"), _role_settings),
}
PRIVILEGE_RELATIONS: Final = {
    "table_privileges": System(columns(TABLE), _table_privileges),
    "role_table_grants": System(columns(TABLE), only_own_privileges(_table_privileges)),
    "column_privileges": System(columns(COLUMN), _column_privileges),
    "role_column_grants": System(columns(COLUMN), only_own_privileges(_column_privileges)),
    "usage_privileges": System(columns(USAGE), _usage_privileges),
    "role_usage_grants": System(columns(USAGE), only_own_privileges(_usage_privileges)),
    "applicable_roles": System(columns("grantee role_name is_grantable"), _applicable),
    "administrable_role_authorizations": System(columns("grantee role_name is_grantable"), _administrable),
    "enabled_roles": System(columns("role_name"), _enabled),
}
