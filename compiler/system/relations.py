"""The system relations: the columns of each, and the function that computes its rows.

Rows about schemas, tables, constraints, roles and privileges are computed here.
"""

from collections.abc import Callable, Iterator
from typing import Final, assert_never

from kpg.compiler.catalog.access_control import row_security_of
from kpg.compiler.catalog.constraints import Check, Domain, ForeignKey, Unique
from kpg.compiler.catalog.entries import KEY_TABLE_PREFIX, Catalog, Entry, TableEntry, ViewEntry
from kpg.compiler.catalog.privileges import ALL_LETTERS, PRIVILEGE_NAMES, PUBLIC, Items, Key, Role
from kpg.compiler.catalog.updatable_views import updatable_columns
from kpg.compiler.qualified_names import DATABASE
from kpg.compiler.system.oids import (
    column_domain,
    listed_schemas,
    oid_of,
    role_oid,
    schema_oid,
    split_name,
    view_text,
)
from kpg.runtime.records import dataclass
from kpg.runtime.types import BIGINT, BOOLEAN, INTEGER, OID, TEXT, TIMESTAMPTZ, Type
from kpg.runtime.values import codec_of

Value = int | str | None
Row = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class SystemRelation:
    """A system relation: its columns, and the function that computes its rows."""

    columns: tuple[tuple[str, Type], ...]
    rows: Callable[[Catalog], Iterator[Row]]
    is_cacheable: bool = True
    """Whether its rows depend only on the catalog and on session rows."""
    extension: str = ""
    """The extension that defines it; only databases with the extension have the relation."""


_extension_relations: dict[str, SystemRelation] = {}


def register_relation(name: str, relation: SystemRelation) -> None:
    """Register a system relation of an extension, by lower-case name."""
    _extension_relations[name] = relation


def extension_relation(name: str, catalog: Catalog) -> SystemRelation | None:
    """Return the system relation of a name among those of the database's extensions."""
    found = _extension_relations.get(name.lower())
    return found if found is not None and found.extension in catalog.extensions else None


def columns(text: str) -> tuple[tuple[str, Type], ...]:
    """Parse column names, each optionally with a colon and a letter for its type; the default is text."""
    kinds = {"i": INTEGER, "b": BOOLEAN, "o": OID, "l": BIGINT}
    parts = (word.partition(":") for word in text.split())
    return tuple((name, kinds.get(kind, TEXT)) for name, _, kind in parts)


def yes_or_no(value: object) -> str:
    """Return ``YES`` or ``NO``."""
    return "YES" if value else "NO"


def _owner(catalog: Catalog, entry: Entry) -> str:
    return catalog.privileges.owner(("RELATION", entry.name.lower()))


def listed_entries(catalog: Catalog) -> Iterator[tuple[str, str, Entry]]:
    """Yield schema, name and entry of every table and view except internal key tables."""
    for entry in catalog:
        if entry.name.startswith(KEY_TABLE_PREFIX):
            continue
        yield *split_name(catalog, entry.name), entry


def _schemata_rows(catalog: Catalog) -> Iterator[Row]:
    for name in listed_schemas(catalog):
        yield DATABASE, name, catalog.privileges.owner(("SCHEMA", name))


def accessible_entries(catalog: Catalog) -> Iterator[tuple[str, str, Entry]]:
    """Yield those of :func:`listed_entries` that ``information_schema`` shows to the current user."""

    for schema, name, entry in listed_entries(catalog):
        others = schema.startswith("pg_temp") and schema != catalog.temporary_schema
        if not others and is_accessible(catalog, ("RELATION", entry.name.lower())):
            yield schema, name, entry


def _tables_rows(catalog: Catalog) -> Iterator[Row]:
    for schema, name, entry in accessible_entries(catalog):
        temporary = schema.startswith("pg_temp")
        kind = "LOCAL TEMPORARY" if temporary else "BASE TABLE"
        if isinstance(entry, ViewEntry):
            if entry.materialized:
                continue
            kind = "VIEW"
        gone = "PRESERVE" if temporary else None
        yield DATABASE, schema, name, kind, yes_or_no(updatable_names(catalog, entry)), "NO", gone


def _views_rows(catalog: Catalog) -> Iterator[Row]:
    for schema, name, entry in accessible_entries(catalog):
        if isinstance(entry, ViewEntry) and not entry.materialized:
            written, check = (
                yes_or_no(updatable_names(catalog, entry)),
                "CASCADED" if entry.checked else "NONE",
            )
            owned = catalog.privileges.owns(catalog.asker.user, ("RELATION", entry.name.lower()))
            text = f" {view_text(catalog, entry)};" if owned else None
            yield DATABASE, schema, name, text, check, written, written, "NO", "NO", "NO"


def updatable_names(catalog: Catalog, entry: Entry) -> frozenset[str]:
    """Return the columns that INSERT and UPDATE can set."""
    if isinstance(entry, TableEntry):
        return frozenset(entry.schema.names)
    return updatable_columns(catalog, entry)


def listed_constraints(catalog: Catalog) -> Iterator[tuple[str, TableEntry, Check | Unique | ForeignKey]]:
    """Yield schema, table and constraint, without unique indexes, partition bounds and domain checks."""
    for schema, _, entry in listed_entries(catalog):
        if isinstance(entry, TableEntry):
            hidden = partition_checks(catalog, entry.name)
            for one in entry.constraints:
                if isinstance(one, Unique) and one.index:
                    continue
                if isinstance(one, Check) and (
                    one.name.lower() in hidden or _is_domain_check(catalog, entry, one)
                ):
                    continue
                yield schema, entry, one


def partition_checks(catalog: Catalog, name: str) -> frozenset[str]:
    """Return the lower-case names of the CHECKs that enforce the bounds of a partition and its ancestors."""
    lower = name.lower()
    one = catalog.partitions.get(lower)
    if one is None:
        return frozenset()
    return partition_checks(catalog, one.parent) | {f"{lower.rpartition('.')[2]}_partition"}


def _is_domain_check(catalog: Catalog, entry: TableEntry, check: Check) -> bool:
    """Return whether a CHECK of a column comes from its domain."""
    names = [name.lower() for name in entry.schema.names]
    if check.column.lower() not in names:
        return False
    domain = catalog.types.get(entry.constraints.rule(names.index(check.column.lower())).domain.lower())
    if not isinstance(domain, Domain):
        return False
    quoted = '"' + check.column.replace('"', '""') + '"'
    plain = check.text.replace(quoted, "value").lower()
    return any(one.text.lower() == plain for one in domain.checks)


def _constraint_type(constraint: Check | Unique | ForeignKey) -> str:
    match constraint:
        case Check():
            return "CHECK"
        case Unique():
            return "PRIMARY KEY" if constraint.is_primary else "UNIQUE"
        case ForeignKey():
            return "FOREIGN KEY"
        case _:
            assert_never(constraint)


def _table_constraints_rows(catalog: Catalog) -> Iterator[Row]:
    for schema, table, one in listed_constraints(catalog):
        name = split_name(catalog, table.name)[1]
        deferrable = isinstance(one, ForeignKey) and one.deferrable
        deferred = isinstance(one, ForeignKey) and one.deferred
        row = (DATABASE, schema, one.name, DATABASE, schema, name)
        apart = yes_or_no(one.nulls_distinct) if isinstance(one, Unique) and not one.is_primary else None
        yield *row, _constraint_type(one), yes_or_no(deferrable), yes_or_no(deferred), "YES", apart
    for schema, name, label, _ in not_null_constraints(catalog):
        yield DATABASE, schema, label, DATABASE, schema, name, "CHECK", "NO", "NO", "YES", None


def not_null_constraints(catalog: Catalog) -> Iterator[tuple[str, str, str, str]]:
    """Yield schema, table, generated constraint name and column of each NOT NULL column."""
    for schema, name, entry in listed_entries(catalog):
        if isinstance(entry, TableEntry):
            numbers = f"{schema_oid(schema)}_{oid_of('relation', entry.name)}"
            for place, column in enumerate(entry.schema.columns):
                domain = column_domain(catalog, entry, place)
                if not column.nullable and not (domain is not None and domain.required):
                    yield schema, name, f"{numbers}_{place + 1}_not_null", column.name


def referenced_position(catalog: Catalog, key: ForeignKey, position: int) -> int | None:
    """Return the position, in the referenced key, of the column that a foreign key column references."""
    target = catalog.table(key.target)
    for unique in target.constraints.uniques:
        if set(unique.columns) == set(key.target_columns):
            return unique.columns.index(key.target_columns[position]) + 1
    return None


def _referential_constraints_rows(catalog: Catalog) -> Iterator[Row]:
    for schema, _, one in listed_constraints(catalog):
        if isinstance(one, ForeignKey):
            target = catalog.table(one.target)
            names = (
                key.name for key in target.constraints.uniques if set(key.columns) == set(one.target_columns)
            )
            where = split_name(catalog, target.name)[0]
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


def _sequences_rows(catalog: Catalog) -> Iterator[Row]:
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
        schema, name = split_name(catalog, one.name)
        bounds = (str(one.start), str(one.least), str(one.most), str(one.increment))
        bits = {"smallint": 16, "integer": 32}.get(one.type, 64)
        yield DATABASE, schema, name, one.type, bits, 2, 0, *bounds, yes_or_no(one.cycle)


def pg_database_rows(_catalog: Catalog) -> Iterator[Row]:
    """Yield the rows of ``pg_database``."""
    yield 1, DATABASE, 10, 6, "C"


def pg_namespace_rows(catalog: Catalog) -> Iterator[Row]:
    """Yield the rows of ``pg_namespace``."""
    for name in listed_schemas(catalog):
        key = ("SCHEMA", name)
        items = catalog.privileges.acls.get(key)
        acl = None if items is None else "{" + ",".join(map(str, items)) + "}"
        if items is None and name == "public":  # PUBLIC has USAGE
            owner = catalog.privileges.owner(key)
            acl = "{" + f"{owner}=UC/{owner},=U/{owner}" + "}"
        yield schema_oid(name), name, role_oid(catalog.privileges.owner(key)), acl


def pg_tables_rows(catalog: Catalog) -> Iterator[Row]:
    """Yield the rows of ``pg_tables_rows``."""
    for schema, name, entry in listed_entries(catalog):
        if isinstance(entry, TableEntry):
            indexed = bool(entry.constraints.uniques) or any(
                index.table == entry.name for index in catalog.indexes.values()
            )
            secured = int(row_security_of(catalog, entry.name).enabled)
            yield schema, name, _owner(catalog, entry), None, int(indexed), 0, 0, secured


def pg_views_rows(catalog: Catalog) -> Iterator[Row]:
    """Yield the rows of ``pg_views_rows``."""
    for schema, name, entry in listed_entries(catalog):
        if isinstance(entry, ViewEntry) and not entry.materialized:
            text = view_text(catalog, entry)
            yield schema, name, _owner(catalog, entry), f" {text};"


def pg_matviews_rows(catalog: Catalog) -> Iterator[Row]:
    """Yield the rows of ``pg_matviews_rows``."""
    for schema, name, entry in listed_entries(catalog):
        if isinstance(entry, ViewEntry) and entry.materialized:
            text = view_text(catalog, entry)
            yield schema, name, _owner(catalog, entry), 1, f" {text};"


def pg_sequences_rows(catalog: Catalog) -> Iterator[Row]:
    """Yield the rows of ``pg_sequences_rows``."""
    for one in catalog.sequences.values():
        schema, name = split_name(catalog, one.name)
        owner = catalog.privileges.owner(("SEQUENCE", one.name.lower()))
        numbers = catalog.next_values()
        coming = numbers.get(one.name, one.start)
        fresh = coming == one.start or one.name in getattr(numbers, "fresh", ())
        last = None if fresh else coming - one.increment
        bounds = one.start, one.least, one.most, one.increment
        yield (schema, name, owner, one.type, *bounds, int(one.cycle), 1, last)


INFORMATION: Final = {
    "schemata": SystemRelation(columns("catalog_name schema_name schema_owner"), _schemata_rows),
    "tables": SystemRelation(
        columns("table_catalog table_schema table_name table_type is_insertable_into is_typed commit_action"),
        _tables_rows,
    ),
    "views": SystemRelation(
        columns(
            "table_catalog table_schema table_name view_definition check_option is_updatable "
            "is_insertable_into is_trigger_updatable is_trigger_deletable is_trigger_insertable_into"
        ),
        _views_rows,
    ),
    "table_constraints": SystemRelation(
        columns(
            "constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name "
            "constraint_type is_deferrable initially_deferred enforced nulls_distinct"
        ),
        _table_constraints_rows,
    ),
    "referential_constraints": SystemRelation(
        columns(
            "constraint_catalog constraint_schema constraint_name unique_constraint_catalog "
            "unique_constraint_schema unique_constraint_name match_option update_rule delete_rule"
        ),
        _referential_constraints_rows,
    ),
    "sequences": SystemRelation(
        columns(
            "sequence_catalog sequence_schema sequence_name data_type numeric_precision:i "
            "numeric_precision_radix:i numeric_scale:i start_value minimum_value maximum_value increment "
            "cycle_option"
        ),
        _sequences_rows,
    ),
}


PrivilegeRow = tuple[str, str, str, bool]
"""Grantor, grantee, privilege, and whether it has grant option."""


def owner_oid(catalog: Catalog, key: Key) -> int:
    """Return the OID of an object's owner."""
    return role_oid(catalog.privileges.owner(key))


def acl_text(catalog: Catalog, key: Key) -> str | None:
    """Return the ACL of an object as an array of ``aclitem``; None if nothing was granted."""
    items = catalog.privileges.acls.get(key)
    return None if items is None else acl_array(items)


def acl_array(items: Items) -> str:
    """Return ACL items as the text of an array."""
    return "{" + ",".join(f'"{one}"' if '"' in str(one) else str(one) for one in items) + "}"


def _role_columns(role: Role) -> Row:
    """Return the columns that pg_roles and pg_authid share, from name to expiry."""
    flags = (role.superuser, role.inherits, role.creates_roles, role.creates_databases)
    more = (role.logs_in, role.replicates, role.bypasses)
    return (role.name, *map(int, (*flags, *more)), role.connections, _valid_until(role))


def _valid_until(role: Role) -> Value:
    """Return the time at which a role's password expires, as a word."""
    if not role.until:
        return None
    try:
        moment: int = codec_of(TIMESTAMPTZ).parse(role.until)
    except ValueError:
        return None
    return moment


def pg_roles_rows(catalog: Catalog) -> Iterator[Row]:
    """Yield the rows of ``pg_roles``."""
    for role in catalog.privileges.all_roles():
        yield role_oid(role.name), *_role_columns(role), "********", _role_config(role)


def _pg_authid_rows(catalog: Catalog) -> Iterator[Row]:
    for role in catalog.privileges.all_roles():
        secret: Value = role.password or None
        yield role_oid(role.name), *_role_columns(role), None if catalog.checks_privileges else secret


def _role_config(role: Role) -> str | None:
    texts = [f"{name}={value}" for name, value in role.settings]
    return "{" + ",".join(f'"{one}"' for one in texts) + "}" if texts else None


def _pg_db_role_setting_rows(catalog: Catalog) -> Iterator[Row]:
    for role in catalog.privileges.all_roles():
        if role.settings:
            yield 0, role_oid(role.name), _role_config(role)


def _pg_auth_members_rows(catalog: Catalog) -> Iterator[Row]:
    number = 16_000
    for role in catalog.privileges.all_roles():
        for one in role.member_of:
            number += 1
            flags = (int(one.admin), int(one.inherits), int(one.sets))
            yield number, role_oid(one.role), role_oid(role.name), role_oid(one.grantor), *flags


def _pg_user_rows(catalog: Catalog) -> Iterator[Row]:
    for role in catalog.privileges.all_roles():
        if role.logs_in:
            flags = (role.creates_databases, role.superuser, role.replicates, role.bypasses)
            yield role.name, role_oid(role.name), *map(int, flags), "********", _valid_until(role)


def _pg_group_rows(catalog: Catalog) -> Iterator[Row]:
    every = list(catalog.privileges.all_roles())
    for role in every:
        if not role.logs_in:
            members = (one.name for one in every if any(each.role == role.name for each in one.member_of))
            yield (
                role.name,
                role_oid(role.name),
                "{" + ",".join(str(role_oid(one)) for one in members) + "}",
            )


def _pg_default_acl_rows(catalog: Catalog) -> Iterator[Row]:
    kinds = {"TABLES": "r", "SEQUENCES": "S", "FUNCTIONS": "f", "TYPES": "T", "SCHEMAS": "n"}
    for place, ((owner, schema, kind), items) in enumerate(catalog.privileges.default_acls.items()):
        where = schema_oid(schema) if schema else 0
        yield 17_000 + place, role_oid(owner), where, kinds[kind], acl_array(items)


def expand_privileges(catalog: Catalog, key: Key, *, letters: str = "") -> Iterator[PrivilegeRow]:
    """Yield each privilege on an object that a role of the current user or PUBLIC granted or holds.

    A superuser sees all privileges.
    """
    rights, user = catalog.privileges, catalog.asker.user
    own = rights.effective_roles(user)
    for one in rights.acl(key):
        if not rights.is_superuser(user) and not {one.grantor, one.grantee} & {*own, PUBLIC}:
            continue
        for letter in one.letters:
            if not letters or letter in letters:
                passing = letter in one.options or one.grantee == rights.owner(key)
                yield one.grantor, one.grantee or "PUBLIC", PRIVILEGE_NAMES[letter], passing


def _standard_relations(catalog: Catalog) -> Iterator[tuple[str, str, Entry]]:
    """Yield tables and plain views: the SQL standard has no materialized views."""
    for schema, name, entry in listed_entries(catalog):
        if not isinstance(entry, ViewEntry) or not entry.materialized:
            yield schema, name, entry


def _table_privileges_rows(catalog: Catalog) -> Iterator[Row]:
    for schema, name, entry in _standard_relations(catalog):
        for grantor, grantee, word, passing in expand_privileges(catalog, ("RELATION", entry.name.lower())):
            hierarchy = yes_or_no(word == "SELECT")
            yield grantor, grantee, DATABASE, schema, name, word, yes_or_no(passing), hierarchy


def _column_privileges_rows(catalog: Catalog) -> Iterator[Row]:
    for schema, name, entry in _standard_relations(catalog):
        whole = list(
            expand_privileges(catalog, ("RELATION", entry.name.lower()), letters=ALL_LETTERS["COLUMN"])
        )
        for column in entry.schema.names:
            own = list(expand_privileges(catalog, ("COLUMN", entry.name.lower(), column.lower())))
            for grantor, grantee, word, passing in dict.fromkeys([*whole, *own]):
                yield grantor, grantee, DATABASE, schema, name, column, word, yes_or_no(passing)


def _usage_privileges_rows(catalog: Catalog) -> Iterator[Row]:
    for key, domain in catalog.types.items():
        if isinstance(domain, Domain):
            schema, name = split_name(catalog, domain.name)
            for grantor, grantee, word, passing in expand_privileges(catalog, ("TYPE", key), letters="U"):
                yield grantor, grantee, DATABASE, schema, name, "DOMAIN", word, yes_or_no(passing)
    for one in catalog.sequences.values():
        if ("SEQUENCE", one.name.lower()) not in catalog.privileges.acls:
            continue  # Postgres treats them as tables, whose owners have no USAGE
        schema, name = split_name(catalog, one.name)
        for grantor, grantee, word, passing in expand_privileges(
            catalog, ("SEQUENCE", one.name.lower()), letters="U"
        ):
            yield grantor, grantee, DATABASE, schema, name, "SEQUENCE", word, yes_or_no(passing)


def _applicable_roles_rows(catalog: Catalog) -> Iterator[Row]:
    own = catalog.privileges.effective_roles(catalog.asker.user, by="any")
    for role in catalog.privileges.all_roles():
        if role.name in own:
            for one in role.member_of:
                yield role.name, one.role, yes_or_no(one.admin)


def _administrable_roles_rows(catalog: Catalog) -> Iterator[Row]:
    yield from (row for row in _applicable_roles_rows(catalog) if row[2] == "YES")


def _enabled_roles_rows(catalog: Catalog) -> Iterator[Row]:
    every = [role.name for role in catalog.privileges.all_roles()]
    own = catalog.privileges.effective_roles(catalog.asker.user, by="any")
    for name in every:
        if catalog.privileges.is_superuser(catalog.asker.user) or name in own:
            yield (name,)


def is_accessible(catalog: Catalog, key: Key) -> bool:
    """Return whether ``information_schema`` shows an object: the user owns it or has a privilege on it."""
    if not catalog.checks_privileges:
        return True
    rights, user = catalog.privileges, catalog.asker.user
    if rights.owns(user, key) or rights.granted_letters(user, key):
        return True
    return any(
        one[0] == "COLUMN" and one[1] == key[1] and rights.granted_letters(user, one) for one in rights.acls
    )


def for_enabled_roles(rows: Callable[[Catalog], Iterator[Row]]) -> Callable[[Catalog], Iterator[Row]]:
    """Restrict rows of privileges to those whose grantor or grantee is an enabled role."""

    def own(catalog: Catalog) -> Iterator[Row]:
        enabled = {name for (name,) in _enabled_roles_rows(catalog)}
        yield from (row for row in rows(catalog) if enabled & set(row[:2]))

    return own


ROLE_COLUMNS: Final = (
    "rolname rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b rolreplication:b "
    "rolbypassrls:b rolconnlimit:i rolvaliduntil"
)
TABLE_PRIVILEGE_COLUMNS: Final = (
    "grantor grantee table_catalog table_schema table_name privilege_type is_grantable with_hierarchy"
)
COLUMN_PRIVILEGE_COLUMNS: Final = (
    "grantor grantee table_catalog table_schema table_name column_name privilege_type is_grantable"
)
USAGE_PRIVILEGE_COLUMNS: Final = (
    "grantor grantee object_catalog object_schema object_name object_type privilege_type is_grantable"
)
ROLE_RELATIONS: Final = {
    "pg_roles": SystemRelation(columns(f"oid:o {ROLE_COLUMNS} rolpassword rolconfig"), pg_roles_rows),
    "pg_authid": SystemRelation(columns(f"oid:o {ROLE_COLUMNS} rolpassword"), _pg_authid_rows),
    "pg_auth_members": SystemRelation(
        columns("oid:o roleid:o member:o grantor:o admin_option:b inherit_option:b set_option:b"),
        _pg_auth_members_rows,
    ),
    "pg_user": SystemRelation(
        columns("usename usesysid:o usecreatedb:b usesuper:b userepl:b usebypassrls:b passwd valuntil"),
        _pg_user_rows,
    ),
    "pg_shadow": SystemRelation(
        columns("usename usesysid:o usecreatedb:b usesuper:b userepl:b usebypassrls:b passwd valuntil"),
        _pg_user_rows,
    ),
    "pg_group": SystemRelation(columns("groname grosysid:o grolist"), _pg_group_rows),
    "pg_default_acl": SystemRelation(
        columns("oid:o defaclrole:o defaclnamespace:o defaclobjtype defaclacl"), _pg_default_acl_rows
    ),
    "pg_db_role_setting": SystemRelation(
        columns("setdatabase:o setrole:o setconfig"), _pg_db_role_setting_rows
    ),
}
PRIVILEGE_RELATIONS: Final = {
    "table_privileges": SystemRelation(columns(TABLE_PRIVILEGE_COLUMNS), _table_privileges_rows),
    "role_table_grants": SystemRelation(
        columns(TABLE_PRIVILEGE_COLUMNS), for_enabled_roles(_table_privileges_rows)
    ),
    "column_privileges": SystemRelation(columns(COLUMN_PRIVILEGE_COLUMNS), _column_privileges_rows),
    "role_column_grants": SystemRelation(
        columns(COLUMN_PRIVILEGE_COLUMNS), for_enabled_roles(_column_privileges_rows)
    ),
    "usage_privileges": SystemRelation(columns(USAGE_PRIVILEGE_COLUMNS), _usage_privileges_rows),
    "role_usage_grants": SystemRelation(
        columns(USAGE_PRIVILEGE_COLUMNS), for_enabled_roles(_usage_privileges_rows)
    ),
    "applicable_roles": SystemRelation(columns("grantee role_name is_grantable"), _applicable_roles_rows),
    "administrable_role_authorizations": SystemRelation(
        columns("grantee role_name is_grantable"), _administrable_roles_rows
    ),
    "enabled_roles": SystemRelation(columns("role_name"), _enabled_roles_rows),
}
