"""Roles, ownership and access control lists, as in Postgres.

An ACL is a list of items: grantee, grantor and privilege letters. An object without an ACL has the default of
its kind: all privileges for the owner, and Postgres' defaults for PUBLIC. Superusers bypass the check. An
object without a recorded owner belongs to the bootstrap role.
"""

from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from typing import Final, TypeVar

from kpg.compiler.catalog.cache import Noted
from kpg.runtime.records import dataclass

T = TypeVar("T")
FIRST: Final = "kpg"
"""The role that every database has."""
DATABASE: Final = "kpg"
PUBLIC: Final = ""
"""The grantee that all roles are."""
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
WORDS: Final = {letter: word for word, letter in reversed(LETTERS.items())}
ORDER: Final = "arwdDxtXUCTc"
"""The letters in the order in which lists have them."""
ALL: Final = {
    "TABLE": "arwdDxt",
    "SEQUENCE": "rwU",
    "COLUMN": "arwx",
    "SCHEMA": "UC",
    "DATABASE": "CTc",
    "FUNCTION": "X",
    "TYPE": "U",
}
"""What may be granted of each kind."""
EVERYBODY: Final = {"DATABASE": "Tc", "FUNCTION": "X", "TYPE": "U"}
"""What PUBLIC may without a GRANT."""
PREDEFINED: Final = {
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
"""Roles that are always there, and nobody logs in as; their numbers are Postgres'."""
Key = tuple[str, ...]
"""What privileges are about: RELATION, SEQUENCE, COLUMN, SCHEMA, DATABASE, FUNCTION or TYPE, and its name in
lower case; of a column, that of its relation and its own."""


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks: the role whose rights count, the one whose session it is, and the session's number.

    ``came_as`` is the role that logged in, which decides whose session it may become.
    """

    user: str = FIRST
    login: str = FIRST
    number: int = 0
    came_as: str = FIRST
    shown: str = ""
    """Who CURRENT_USER is, if that is not the role whose rights count: in the action of a rule."""

    def with_rights_of(self, role: str) -> "Asker":
        """Who asks, with the rights of another role."""
        return replace(self, user=role, shown=self.shown or self.user)


@dataclass(frozen=True, slots=True)
class Membership:
    """A role that another one is a member of."""

    role: str
    grantor: str
    admin: bool = False
    inherits: bool = True
    sets: bool = True


@dataclass(frozen=True, slots=True)
class Role:
    """A role, which is a user if it may log in. ``password`` is what is kept of it, as Postgres writes it."""

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
    """What CREATE and ALTER ROLE say about a role; None where they say nothing."""

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

    def of(self, role: Role) -> Role:
        """The role with them."""
        return replace(
            role,
            superuser=_said(self.superuser, role.superuser),
            inherits=_said(self.inherits, role.inherits),
            creates_roles=_said(self.creates_roles, role.creates_roles),
            creates_databases=_said(self.creates_databases, role.creates_databases),
            logs_in=_said(self.logs_in, role.logs_in),
            replicates=_said(self.replicates, role.replicates),
            bypasses=_said(self.bypasses, role.bypasses),
            connections=_said(self.connections, role.connections),
            password=_said(self.password, role.password),
            until=_said(self.until, role.until),
        )


def _said(new: T | None, old: T) -> T:
    return old if new is None else new


@dataclass(frozen=True, slots=True)
class Item:
    """What one role was given by another; ``options`` are the letters that it may pass on."""

    grantee: str
    grantor: str
    letters: str
    options: str = ""

    def __str__(self) -> str:
        shown = "".join(one + "*" * (one in self.options) for one in self.letters)
        return f"{quoted(self.grantee)}={shown}/{quoted(self.grantor)}"


Items = tuple[Item, ...]
DefaultKey = tuple[str, str, str]
"""Whose objects, in which schema ("" for all), and of which kind."""


def quoted(name: str) -> str:
    """A role's name as lists have it."""
    plain = all(one.isalnum() or one == "_" for one in name)
    return name if plain else '"' + name.replace('"', '""') + '"'


def ordered(letters: Iterable[str]) -> str:
    """Letters, each once, in the order of lists."""
    known = set(letters)
    return "".join(one for one in ORDER if one in known)


def kind_of(key: Key) -> str:
    """What is granted of it, as a key of ``ALL``."""
    return "TABLE" if key[0] == "RELATION" else key[0]


@dataclass(slots=True)
class Rights:
    """All that is known of roles. ``defaults`` are lists that are added to those of what is made."""

    roles: dict[str, Role] = field(default_factory=dict)
    owners: dict[Key, str] = field(default_factory=Noted)
    lists: dict[Key, Items] = field(default_factory=Noted)
    defaults: dict[DefaultKey, Items] = field(default_factory=dict)

    def copy(self) -> "Rights":
        """The same, to be changed on its own."""
        return Rights(dict(self.roles), Noted(self.owners), Noted(self.lists), dict(self.defaults))

    def become(self, other: "Rights") -> None:
        """Take over all that another has."""
        taken = other.copy()
        self.roles, self.owners = taken.roles, taken.owners
        self.lists, self.defaults = taken.lists, taken.defaults

    # Roles

    def find(self, name: str) -> Role | None:
        """The role of that name, if there is one."""
        found = self.roles.get(name)
        if found is None and name == FIRST:
            return Role(FIRST, True, True, True, True, True, True, True)
        if found is None and name in PREDEFINED:
            reads = ("pg_read_all_settings", "pg_read_all_stats", "pg_stat_scan_tables")
            members = tuple(Membership(one, FIRST) for one in reads) if name == "pg_monitor" else ()
            return Role(name, member_of=members)
        return found

    def every(self) -> Iterator[Role]:
        """All roles, those first that every database has."""
        for name in (FIRST, *PREDEFINED, *(one for one in self.roles if one != FIRST)):
            found = self.find(name)
            assert found is not None
            yield found

    def is_superuser(self, name: str) -> bool:
        """Whether nothing is refused to a role."""
        found = self.roles.get(name)
        return name == FIRST if found is None else found.superuser

    def acts_as(self, name: str, *, by: str = "inherits") -> frozenset[str]:
        """The roles whose privileges a role has, itself among them; ``by`` is the option that leads on.

        By ``sets`` those that it may become, by ``any`` those that it is a member of.
        """
        found: set[str] = set()
        waiting = [name]
        while waiting:
            one = waiting.pop()
            role = self.find(one)
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

    def administers(self, name: str, role: str) -> bool:
        """Whether one may grant membership in another role."""
        if self.is_superuser(name):
            return True
        known = (self.find(one) for one in self.acts_as(name))
        return any(
            each.role == role and each.admin for one in known if one is not None for each in one.member_of
        )

    # Ownership and lists

    def owner(self, key: Key) -> str:
        """Who owns something; of a column, its relation."""
        if key[0] == "COLUMN":
            key = ("RELATION", key[1])
        if key == ("SCHEMA", "public"):
            return self.owners.get(key, "pg_database_owner")
        return self.owners.get(key, FIRST)

    def owns(self, name: str, key: Key) -> bool:
        """Whether a role may do what only an owner may."""
        return self.is_superuser(name) or self.owner(key) in self.acts_as(name)

    def natural(self, key: Key) -> Items:
        """The list that something has without a GRANT."""
        kind, owner = kind_of(key), self.owner(key)
        if kind == "COLUMN":
            return ()
        own = Item(owner, owner, ALL[kind])
        open_to = "U" if key == ("SCHEMA", "public") else EVERYBODY.get(kind, "")
        return (Item(PUBLIC, owner, open_to), own) if open_to else (own,)

    def items(self, key: Key) -> Items:
        """Who may do what."""
        known = self.lists.get(key)
        return self.natural(key) if known is None else known

    def has(self, name: str, key: Key, letters: str) -> bool:
        """Whether a role has all of some privileges."""
        if self.is_superuser(name):
            return True
        return set(letters) <= set(self.given(name, key))

    def given(self, name: str, key: Key) -> str:
        """The privileges that a role has of something, by whatever way."""
        if self.is_superuser(name):
            return ALL[kind_of(key)]
        own = {*self.acts_as(name), PUBLIC}
        found = "".join(one.letters for one in self.items(key) if one.grantee in own)
        if key[0] in ("RELATION", "SEQUENCE", "COLUMN", "SCHEMA"):
            scope = key[0] == "SCHEMA"
            found += ("U" if scope else "r") if "pg_read_all_data" in own else ""
            found += ("U" if scope else "awd") if "pg_write_all_data" in own else ""
        return found

    def may_pass_on(self, name: str, key: Key, letter: str) -> bool:
        """Whether a role may grant a privilege to others."""
        if self.owns(name, key):
            return True
        own = self.acts_as(name)
        return any(letter in one.options and one.grantee in own for one in self.items(key))

    def forget(self, key: Key) -> None:
        """Something is gone, with its columns."""
        self.owners.pop(key, None)
        self.lists.pop(key, None)
        if key[0] == "RELATION":
            for column in [one for one in self.lists if one[0] == "COLUMN" and one[1] == key[1]]:
                del self.lists[column]

    def rename(self, was: Key, now: Key) -> None:
        """Something, or a column, has another name."""
        if was in self.owners:
            self.owners[now] = self.owners.pop(was)
        if was in self.lists:
            self.lists[now] = self.lists.pop(was)
        if was[0] == "RELATION":
            for key in [one for one in self.lists if one[0] == "COLUMN" and one[1] == was[1]]:
                self.lists["COLUMN", now[1], key[2]] = self.lists.pop(key)

    def made(self, key: Key, owner: str, schema: str) -> None:
        """Something has been made: whose it is, and what its owner has said about such things."""
        if owner != FIRST or key == ("SCHEMA", "public"):
            self.owners[key] = owner
        kind = {"TABLE": "TABLES", "SEQUENCE": "SEQUENCES", "SCHEMA": "SCHEMAS"}.get(
            kind_of(key), f"{kind_of(key)}S"
        )
        everywhere = self.defaults.get((owner, "", kind))
        here = self.defaults.get((owner, schema, kind), ())
        if everywhere is None and not here:
            return
        items = list(self.natural(key) if everywhere is None else everywhere)
        for one in here:
            items = merged(items, one)
        self.lists[key] = self.in_order(items)

    def in_order(self, items: Iterable[Item]) -> Items:
        """As lists of what is not granted one by one are: everybody first, then roles by their age."""
        places = {PUBLIC: -1} | {role: place for place, role in enumerate(self.roles, 1)}
        return tuple(sorted(items, key=lambda one: places.get(one.grantee, 0)))


def merged(items: Iterable[Item], new: Item) -> list[Item]:
    """A list to which an item was added."""
    result = list(items)
    for place, one in enumerate(result):
        if (one.grantee, one.grantor) == (new.grantee, new.grantor):
            letters, options = ordered(one.letters + new.letters), ordered(one.options + new.options)
            result[place] = Item(one.grantee, one.grantor, letters, options)
            return result
    return [*result, new]
