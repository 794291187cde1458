"""Roles, ownership, access control lists and row security policies, as in Postgres.

An ACL is a list of items: grantee, grantor and privilege letters. An object without an ACL has the default of
its kind: all privileges for the owner, and Postgres' defaults for PUBLIC. Superusers bypass the check. An
object without a recorded owner belongs to the bootstrap role.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Final, TypeVar

from kpg.compiler.catalog.operations import CatalogOp, ObjectKind
from kpg.runtime.records import dataclass

T = TypeVar("T")
BOOTSTRAP_ROLE: Final = "kpg"
"""The superuser role of every database."""
DATABASE: Final = "kpg"
PUBLIC: Final = ""
"""The grantee of privileges that all roles have."""
LETTERS: Final = {
    "INSERT": "a",
    "SELECT": "r",
    "UPDATE": "w",
    "DELETE": "d",
    "TRUNCATE": "D",
    "REFERENCES": "x",
    "TRIGGER": "t",
    "EXECUTE": "X",
    "USAGE": "U",
    "CREATE": "C",
    "TEMPORARY": "T",
    "TEMP": "T",
    "CONNECT": "c",
}
"""ACL letters by privilege name."""
PRIVILEGE_NAMES: Final = {letter: word for word, letter in reversed(LETTERS.items())}
LETTER_ORDER: Final = "arwdDxtXUCTc"
"""The letters in the order in which ACLs list them."""
ALL_LETTERS: Final = {
    "TABLE": "arwdDxt",
    "SEQUENCE": "rwU",
    "COLUMN": "arwx",
    "SCHEMA": "UC",
    "DATABASE": "CTc",
    "FUNCTION": "X",
    "TYPE": "U",
}
"""All privileges by kind of object."""
PUBLIC_LETTERS: Final = {"DATABASE": "Tc", "FUNCTION": "X", "TYPE": "U"}
"""Default privileges of PUBLIC by kind of object."""
PREDEFINED_ROLES: Final = {
    "pg_database_owner": 6171,
    "pg_read_all_data": 6181,
    "pg_write_all_data": 6182,
    "pg_monitor": 3373,
    "pg_read_all_settings": 3374,
    "pg_read_all_stats": 3375,
    "pg_stat_scan_tables": 3377,
    "pg_read_server_files": 4569,
    "pg_write_server_files": 4570,
    "pg_execute_server_program": 4571,
    "pg_signal_backend": 4200,
    "pg_checkpoint": 4544,
    "pg_use_reserved_connections": 4550,
    "pg_create_subscription": 6304,
}
"""Predefined roles with Postgres' OIDs. They cannot log in."""
Key = tuple[str, ...]
"""The object of a privilege: its kind and its lower-case name.

The kind is RELATION, SEQUENCE, COLUMN, SCHEMA, DATABASE, FUNCTION or TYPE. The key of a column has
the names of the relation and of the column.
"""


@dataclass(frozen=True, slots=True)
class Asker:
    """The identity of a session: current user, session user and session number.

    ``came_as`` is the authenticated role. It decides which roles SET SESSION AUTHORIZATION accepts.
    """

    user: str = BOOTSTRAP_ROLE
    login: str = BOOTSTRAP_ROLE
    number: int = 0
    came_as: str = BOOTSTRAP_ROLE
    shown: str = ""
    """CURRENT_USER, if it differs from the role whose privileges apply, as in the action of a rule."""

    def with_privileges_of(self, role: str) -> "Asker":
        """Return the identity with the privileges of another role."""
        return replace(self, user=role, shown=self.shown or self.user)


@dataclass(frozen=True, slots=True)
class Membership:
    """Membership in a role."""

    role: str
    grantor: str
    admin: bool = False
    inherits: bool = True
    sets: bool = True


@dataclass(frozen=True, slots=True)
class Role:
    """A role; with ``logs_in`` it is a user. ``password`` is the stored verifier in Postgres' format."""

    name: str
    superuser: bool = False
    inherits: bool = True
    creates_roles: bool = False
    creates_databases: bool = False
    logs_in: bool = False
    replicates: bool = False
    bypasses: bool = False
    connections: int = -1
    password: str = ""
    until: str = ""
    member_of: tuple[Membership, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes that CREATE or ALTER ROLE sets; None for those that it does not mention."""

    superuser: bool | None = None
    inherits: bool | None = None
    creates_roles: bool | None = None
    creates_databases: bool | None = None
    logs_in: bool | None = None
    replicates: bool | None = None
    bypasses: bool | None = None
    connections: int | None = None
    password: str | None = None
    until: str | None = None

    def apply_to(self, role: Role) -> Role:
        """Return the role with the attributes set."""
        return replace(
            role,
            superuser=_override(self.superuser, role.superuser),
            inherits=_override(self.inherits, role.inherits),
            creates_roles=_override(self.creates_roles, role.creates_roles),
            creates_databases=_override(self.creates_databases, role.creates_databases),
            logs_in=_override(self.logs_in, role.logs_in),
            replicates=_override(self.replicates, role.replicates),
            bypasses=_override(self.bypasses, role.bypasses),
            connections=_override(self.connections, role.connections),
            password=_override(self.password, role.password),
            until=_override(self.until, role.until),
        )


def _override(new: T | None, old: T) -> T:
    return old if new is None else new


@dataclass(frozen=True, slots=True)
class Item:
    """An ACL item: the privileges that one role granted to another.

    ``options`` are the letters with grant option.
    """

    grantee: str
    grantor: str
    letters: str
    options: str = ""

    def __str__(self) -> str:
        shown = "".join(one + "*" * (one in self.options) for one in self.letters)
        return f"{quote_role(self.grantee)}={shown}/{quote_role(self.grantor)}"


@dataclass(frozen=True, slots=True)
class Policy:
    """CREATE POLICY. ``using`` is a condition on existing rows, ``check`` on new rows.

    Both are SQL text. Without ``check``, ``using`` applies to new rows too.
    """

    name: str
    table: str
    permissive: bool
    command: str
    roles: tuple[str, ...]
    using: str = ""
    check: str = ""


@dataclass(frozen=True, slots=True)
class Secured:
    """Whether row-level security of a table is enabled, and whether it is forced for the owner."""

    table: str
    enabled: bool = False
    forced: bool = False


Items = tuple[Item, ...]
DefaultKey = tuple[str, str, str]
"""Key of ALTER DEFAULT PRIVILEGES: the creating role, the schema ("" for all) and the kind."""


def quote_role(name: str) -> str:
    """Return a role's name as ACLs write it."""
    plain = all(one.isalnum() or one == "_" for one in name)
    return name if plain else '"' + name.replace('"', '""') + '"'


def sort_letters(letters: Iterable[str]) -> str:
    """Return the distinct letters in ACL order."""
    known = set(letters)
    return "".join(one for one in LETTER_ORDER if one in known)


def privilege_kind(key: Key) -> str:
    """Return the kind of an object as a key of ``ALL_LETTERS``."""
    return "TABLE" if key[0] == "RELATION" else key[0]


ROLES: Final = ObjectKind[str, Role]("privileges.roles")
OWNERS: Final = ObjectKind[Key, str]("privileges.owners")
ACLS: Final = ObjectKind[Key, Items]("privileges.acls")
DEFAULT_ACLS: Final = ObjectKind[DefaultKey, Items]("privileges.default_acls")


@dataclass(slots=True)
class Privileges:
    """Roles, owners and access control lists. ``default_acls`` are ACLs for objects to be created.

    The catalog changes them by operations; the ``ops_to_`` methods return such.
    """

    roles: Mapping[str, Role] = field(default_factory=dict)
    owners: Mapping[Key, str] = field(default_factory=dict)
    acls: Mapping[Key, Items] = field(default_factory=dict)
    default_acls: Mapping[DefaultKey, Items] = field(default_factory=dict)

    def copy(self) -> "Privileges":
        """Return an independent copy, which shares the mappings."""
        return Privileges(self.roles, self.owners, self.acls, self.default_acls)

    # Roles

    def find_role(self, name: str) -> Role | None:
        """Return the role of a name; None if there is none."""
        found = self.roles.get(name)
        if found is None and name == BOOTSTRAP_ROLE:
            return Role(BOOTSTRAP_ROLE, True, True, True, True, True, True, True)
        if found is None and name in PREDEFINED_ROLES:
            reads = ("pg_read_all_settings", "pg_read_all_stats", "pg_stat_scan_tables")
            members = tuple(Membership(one, BOOTSTRAP_ROLE) for one in reads) if name == "pg_monitor" else ()
            return Role(name, member_of=members)
        return found

    def all_roles(self) -> Iterator[Role]:
        """Yield all roles, the bootstrap and predefined roles first."""
        for name in (
            BOOTSTRAP_ROLE,
            *PREDEFINED_ROLES,
            *(one for one in self.roles if one != BOOTSTRAP_ROLE),
        ):
            found = self.find_role(name)
            assert found is not None
            yield found

    def is_superuser(self, name: str) -> bool:
        """Return whether a role is a superuser."""
        found = self.roles.get(name)
        return name == BOOTSTRAP_ROLE if found is None else found.superuser

    def effective_roles(self, name: str, *, by: str = "inherits") -> frozenset[str]:
        """Return the role and the roles that it is directly or indirectly a member of.

        ``by`` selects the memberships: ``inherits`` for those whose privileges it has, ``sets`` for those
        that SET ROLE accepts, ``any`` for all.
        """
        found: set[str] = set()
        waiting = [name]
        while waiting:
            one = waiting.pop()
            role = self.find_role(one)
            if one in found or role is None:
                continue
            found.add(one)
            waiting += (
                each.role
                for each in role.member_of
                if by == "any" or (each.inherits if by == "inherits" else each.sets)
            )
        if self.owner(("DATABASE", DATABASE)) in found:
            found.add("pg_database_owner")
        return frozenset(found)

    def has_admin_option(self, name: str, role: str) -> bool:
        """Return whether a role may grant membership in another role."""
        if self.is_superuser(name):
            return True
        known = (self.find_role(one) for one in self.effective_roles(name))
        return any(
            each.role == role and each.admin for one in known if one is not None for each in one.member_of
        )

    # Ownership and lists

    def owner(self, key: Key) -> str:
        """Return the owner of an object; of a column, the owner of its relation."""
        if key[0] == "COLUMN":
            key = ("RELATION", key[1])
        if key == ("SCHEMA", "public"):
            return self.owners.get(key, "pg_database_owner")
        return self.owners.get(key, BOOTSTRAP_ROLE)

    def owns(self, name: str, key: Key) -> bool:
        """Return whether a role has the owner's privileges on an object."""
        return self.is_superuser(name) or self.owner(key) in self.effective_roles(name)

    def initial_acl(self, key: Key, owner: str = "") -> Items:
        """Return the ACL of an object without grants; ``owner`` is given for a new object."""
        kind, owner = privilege_kind(key), owner or self.owner(key)
        if kind == "COLUMN":
            return ()
        own = Item(owner, owner, ALL_LETTERS[kind])
        open_to = "U" if key == ("SCHEMA", "public") else PUBLIC_LETTERS.get(kind, "")
        return (Item(PUBLIC, owner, open_to), own) if open_to else (own,)

    def acl(self, key: Key) -> Items:
        """Return the ACL of an object."""
        known = self.acls.get(key)
        return self.initial_acl(key) if known is None else known

    def has_privileges(self, name: str, key: Key, letters: str) -> bool:
        """Return whether a role has all the privileges."""
        if self.is_superuser(name):
            return True
        return set(letters) <= set(self.granted_letters(name, key))

    def granted_letters(self, name: str, key: Key) -> str:
        """Return the letters of all privileges that a role has on an object."""
        if self.is_superuser(name):
            return ALL_LETTERS[privilege_kind(key)]
        own = {*self.effective_roles(name), PUBLIC}
        found = "".join(one.letters for one in self.acl(key) if one.grantee in own)
        if key[0] in ("RELATION", "SEQUENCE", "COLUMN", "SCHEMA"):
            scope = key[0] == "SCHEMA"
            found += ("U" if scope else "r") if "pg_read_all_data" in own else ""
            found += ("U" if scope else "awd") if "pg_write_all_data" in own else ""
        return found

    def has_grant_option(self, name: str, key: Key, letter: str) -> bool:
        """Return whether a role may grant a privilege to others."""
        if self.owns(name, key):
            return True
        own = self.effective_roles(name)
        return any(letter in one.options and one.grantee in own for one in self.acl(key))

    def column_keys(self, key: Key) -> list[Key]:
        """Return the keys of a relation's columns that have an ACL; none for other objects."""
        if key[0] != "RELATION":
            return []
        return [one for one in self.acls if one[0] == "COLUMN" and one[1] == key[1]]

    def ops_to_remove(self, key: Key) -> list[CatalogOp]:
        """Return the operations that remove the owner and ACLs of an object and its columns."""
        removed = [OWNERS.remove(key)] if key in self.owners else []
        return [*removed, *(ACLS.remove(one) for one in (key, *self.column_keys(key)) if one in self.acls)]

    def ops_to_rename(self, old: Key, new: Key) -> list[CatalogOp]:
        """Return the operations that rename an object or a column."""
        ops: list[CatalogOp] = []
        if old in self.owners:
            ops += (OWNERS.remove(old), OWNERS.put(new, self.owners[old]))
        renamed = {old: new} | {key: ("COLUMN", new[1], key[2]) for key in self.column_keys(old)}
        for before, after in renamed.items():
            if before in self.acls:
                ops += (ACLS.remove(before), ACLS.put(after, self.acls[before]))
        return ops

    def ops_to_add(self, key: Key, owner: str, schema: str) -> list[CatalogOp]:
        """Return the operations that set the owner of a new object, and its ACL by default privileges."""
        ops: list[CatalogOp] = []
        if owner != BOOTSTRAP_ROLE or key == ("SCHEMA", "public"):
            ops.append(OWNERS.put(key, owner))
        kind = {"TABLE": "TABLES", "SEQUENCE": "SEQUENCES", "SCHEMA": "SCHEMAS"}.get(
            privilege_kind(key), f"{privilege_kind(key)}S"
        )
        everywhere = self.default_acls.get((owner, "", kind))
        here = self.default_acls.get((owner, schema, kind), ())
        if everywhere is None and not here:
            return ops
        items = list(self.initial_acl(key, owner) if everywhere is None else everywhere)
        for one in here:
            items = merge_item(items, one)
        return [*ops, ACLS.put(key, self.sort_acl(items))]

    def sort_acl(self, items: Iterable[Item]) -> Items:
        """Sort the items by grantee: PUBLIC first, then roles by age."""
        places = {PUBLIC: -1} | {role: place for place, role in enumerate(self.roles, 1)}
        return tuple(sorted(items, key=lambda one: places.get(one.grantee, 0)))


def merge_item(items: Iterable[Item], new: Item) -> list[Item]:
    """Return an ACL with an item added."""
    result = list(items)
    for place, one in enumerate(result):
        if (one.grantee, one.grantor) == (new.grantee, new.grantor):
            letters, options = (
                sort_letters(one.letters + new.letters),
                sort_letters(one.options + new.options),
            )
            result[place] = Item(one.grantee, one.grantor, letters, options)
            return result
    return [*result, new]
