"""Rows of the catalogs about roles, and of ``information_schema`` about who may do what."""

from collections.abc import Callable, Iterator
from typing import Final

from kpg.compiler.catalog import Catalog, Entry, ViewEntry
from kpg.compiler.constraints import Domain
from kpg.compiler.rights import ALL, PUBLIC, WORDS, Items, Key, Role
from kpg.compiler.system.naming import DATABASE, role_number, schema_number, split
from kpg.compiler.system.relations import Row, System, Value, columns, entries, yes
from kpg.runtime.types import TIMESTAMPTZ
from kpg.runtime.values import codec_of

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


def _expanded(catalog: Catalog, key: Key, *, letters: str = "") -> Iterator[Granted]:
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
        for grantor, grantee, word, passing in _expanded(catalog, ("RELATION", entry.name.lower())):
            hierarchy = yes(word == "SELECT")
            yield grantor, grantee, DATABASE, schema, name, word, yes(passing), hierarchy


def _column_privileges(catalog: Catalog) -> Iterator[Row]:
    for schema, name, entry in _standard(catalog):
        whole = list(_expanded(catalog, ("RELATION", entry.name.lower()), letters=ALL["COLUMN"]))
        for column in entry.schema.names:
            own = list(_expanded(catalog, ("COLUMN", entry.name.lower(), column.lower())))
            for grantor, grantee, word, passing in dict.fromkeys([*whole, *own]):
                yield grantor, grantee, DATABASE, schema, name, column, word, yes(passing)


def _usage_privileges(catalog: Catalog) -> Iterator[Row]:
    for key, domain in catalog.types.items():
        if isinstance(domain, Domain):
            schema, name = split(catalog, domain.name)
            for grantor, grantee, word, passing in _expanded(catalog, ("TYPE", key), letters="U"):
                yield grantor, grantee, DATABASE, schema, name, "DOMAIN", word, yes(passing)
    for one in catalog.sequences.values():
        if ("SEQUENCE", one.name.lower()) not in catalog.rights.lists:
            continue  # Postgres takes them for tables, whose owners have no USAGE
        schema, name = split(catalog, one.name)
        for grantor, grantee, word, passing in _expanded(
            catalog, ("SEQUENCE", one.name.lower()), letters="U"
        ):
            yield grantor, grantee, DATABASE, schema, name, "SEQUENCE", word, yes(passing)


def _routine_privileges(catalog: Catalog) -> Iterator[Row]:
    from kpg.compiler.system.called import specific_name
    from kpg.compiler.system.users import routines

    for number, one in routines(catalog):
        schema, plain = split(catalog, one.name)
        specific = specific_name(catalog, number, one.name)
        for grantor, grantee, word, passing in _expanded(catalog, ("FUNCTION", one.name.lower())):
            where = (DATABASE, schema, specific, DATABASE, schema, plain)
            yield grantor, grantee, *where, word, yes(passing)


def _type_privileges(catalog: Catalog) -> Iterator[Row]:
    """Of types of rows, which relations have, too."""
    from kpg.compiler.system.users import composites

    found = [(split(catalog, whole), ("TYPE", whole.lower())) for whole, _ in composites(catalog)]
    for (schema, name), key in found:
        for grantor, grantee, _, passing in _expanded(catalog, key, letters="U"):
            yield grantor, grantee, DATABASE, schema, name, "TYPE USAGE", yes(passing)
    for schema, name, entry in entries(catalog):
        owner = catalog.rights.owner(("RELATION", entry.name.lower()))
        for grantee in (owner, "PUBLIC"):
            yield owner, grantee, DATABASE, schema, name, "TYPE USAGE", yes(grantee == owner)


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


def _only_own(rows: Callable[[Catalog], Iterator[Row]]) -> Callable[[Catalog], Iterator[Row]]:
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
ROUTINE: Final = (
    "grantor grantee specific_catalog specific_schema specific_name routine_catalog routine_schema "
    "routine_name privilege_type is_grantable"
)
TYPE: Final = "grantor grantee udt_catalog udt_schema udt_name privilege_type is_grantable"
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
INFORMATION: Final = {
    "table_privileges": System(columns(TABLE), _table_privileges),
    "role_table_grants": System(columns(TABLE), _only_own(_table_privileges)),
    "column_privileges": System(columns(COLUMN), _column_privileges),
    "role_column_grants": System(columns(COLUMN), _only_own(_column_privileges)),
    "usage_privileges": System(columns(USAGE), _usage_privileges),
    "role_usage_grants": System(columns(USAGE), _only_own(_usage_privileges)),
    "routine_privileges": System(columns(ROUTINE), _routine_privileges),
    "role_routine_grants": System(columns(ROUTINE), _only_own(_routine_privileges)),
    "udt_privileges": System(columns(TYPE), _type_privileges),
    "role_udt_grants": System(columns(TYPE), _only_own(_type_privileges)),
    "applicable_roles": System(columns("grantee role_name is_grantable"), _applicable),
    "administrable_role_authorizations": System(columns("grantee role_name is_grantable"), _administrable),
    "enabled_roles": System(columns("role_name"), _enabled),
}
