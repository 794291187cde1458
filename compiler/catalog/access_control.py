"""Access control checks: missing privileges raise Postgres' errors, and row security policies become data.

The ``need_*`` functions raise :class:`PrivilegeError`. :class:`Policy` is CREATE POLICY, and :func:`demands`
lists the conditions that a role's rows must satisfy for a command. The privileges themselves are in
``privileges``; ``sql.bind.row_security`` turns policies into filters.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from kpg.compiler.catalog.entries import Catalog, TableEntry, ViewEntry
from kpg.compiler.catalog.privileges import Asker, Key
from kpg.compiler.catalog.routines import Routine
from kpg.runtime.errors import PrivilegeError, Span
from kpg.runtime.records import dataclass

FILES: Final = {"from": "pg_read_server_files", "to": "pg_write_server_files"}
"""The roles that may have the server read and write files."""


def definer_of(catalog: "Catalog", routine: "Routine") -> "Asker":
    """Who asks in the body of a function that has its owner's rights."""
    return replace(catalog.asker, user=catalog.rights.owner(("FUNCTION", routine.name.lower())))


def may_refuse(catalog: "Catalog") -> bool:
    """Whether a privilege may be lacking: by who asks, or by the owner of a view that is read."""
    return bool(catalog.rights.owners) or catalog.is_limited


def whose(catalog: "Catalog", view: "ViewEntry") -> str:
    """With whose rights a view reads what it names."""
    return catalog.asker.user if view.invoker else catalog.rights.owner(key_of(view.name))


def key_of(name: str) -> Key:
    """A relation as what privileges are about."""
    return ("RELATION", name.lower())


def schema_of(catalog: "Catalog", name: str) -> str:
    """The schema of a whole name, as the catalog has it."""
    schema = name.rpartition(".")[0].lower()
    return schema if schema in catalog.schemas else "public"


def described(catalog: "Catalog", key: Key) -> str:
    """What something is, with its name."""
    if key[0] == "COLUMN":
        return f"column {key[2]} of {described(catalog, ('RELATION', key[1]))}"
    if key[0] != "RELATION":
        return f"{key[0].lower()} {plain(catalog, key)}"
    entry = catalog.entries.get(key[1])
    materialized = getattr(entry, "materialized", None)
    if materialized is None:
        return f"table {plain(catalog, key)}"
    return f"{'materialized view' if materialized else 'view'} {plain(catalog, key)}"


def plain(catalog: "Catalog", key: Key) -> str:
    """Its name, without its schema."""
    name = key[1]
    if key[0] == "RELATION" and name in catalog.entries:
        name = catalog.entries[name].name
    if key[0] == "SEQUENCE" and name in catalog.sequences:
        name = catalog.sequences[name].name
    return catalog.plain(name) if key[0] in ("RELATION", "SEQUENCE") else name.partition("(")[0]


def denied(catalog: "Catalog", key: Key, span: Span | None = None) -> PrivilegeError:
    """Somebody lacks a privilege."""
    if key[0] == "COLUMN":
        relation = plain(catalog, ("RELATION", key[1]))
        return PrivilegeError(f'permission denied for column "{key[2]}" of relation "{relation}"', span=span)
    return PrivilegeError(f"permission denied for {described(catalog, key)}", span=span)


def need(catalog: "Catalog", key: Key, letters: str, span: Span | None = None) -> None:
    """PrivilegeError unless who asks has the privileges."""
    if catalog.is_limited and not catalog.rights.has(catalog.asker.user, key, letters):
        raise denied(catalog, key, span)


def need_any(catalog: "Catalog", key: Key, letters: str) -> None:
    """PrivilegeError unless who asks has one of the privileges."""
    if catalog.is_limited and not set(letters) & set(catalog.rights.given(catalog.asker.user, key)):
        raise denied(catalog, key)


def need_owner(catalog: "Catalog", key: Key, span: Span | None = None) -> None:
    """PrivilegeError unless who asks owns it."""
    if catalog.is_limited and not catalog.rights.owns(catalog.asker.user, key):
        raise PrivilegeError(f"must be owner of {described(catalog, key)}", span=span)


def need_file(catalog: "Catalog", direction: str, span: Span | None, what: str = "COPY") -> None:
    """PrivilegeError unless who asks may have the server read (``from``) or write (``to``) files.

    To be called before anything is looked up on the disk: whether there is a file is not to be told either.
    """
    role = FILES[direction]
    if catalog.is_limited and role not in catalog.rights.acts_as(catalog.asker.user):
        copies = what == "COPY"
        verb = {"from": "read", "to": "write"}[direction]
        done = f"COPY {direction} a file" if copies else f"{verb} files by {what}"
        raise PrivilegeError(
            f"permission denied to {'COPY to or from a file' if copies else done}",
            span=span,
            detail=f'Only roles with privileges of the "{role}" role may {done}.',
        )


def need_schema(catalog: "Catalog", name: str, letter: str, span: Span | None = None) -> None:
    """PrivilegeError unless who asks may use, or make something in, the schema of a whole name."""
    schema = schema_of(catalog, name)
    if catalog.is_limited and not schema.startswith("pg_temp"):
        need(catalog, ("SCHEMA", schema), letter, span)


def need_named(catalog: "Catalog", name: str, span: Span | None = None) -> None:
    """PrivilegeError if a name says which schema it is of, and who asks may not use that."""
    if catalog.is_limited and "." in name:
        need_schema(catalog, name, "U", span)


def need_columns(
    catalog: "Catalog", name: str, letter: str, columns: "frozenset[str] | None", span: Span | None = None
) -> None:
    """PrivilegeError unless who asks has a privilege of a relation, or of all of the columns.

    Without any columns, of one of them at least; None: of the relation.
    """
    if not catalog.is_limited:
        return
    need_schema(catalog, name, "U", span)
    if not may_columns(catalog, catalog.asker.user, name, letter, columns):
        raise denied(catalog, key_of(name), span)


def may_columns(
    catalog: "Catalog", user: str, name: str, letter: str, columns: "frozenset[str] | None"
) -> bool:
    """As :func:`need_columns`, for a role."""
    rights = catalog.rights
    if rights.has(user, key_of(name), letter):
        return True
    if columns is None:
        return False
    if columns:
        return all(rights.has(user, ("COLUMN", name.lower(), one.lower()), letter) for one in columns)
    own = (one for one in rights.lists if one[0] == "COLUMN" and one[1] == name.lower())
    return any(rights.has(user, one, letter) for one in own)


COMMANDS: Final = ("ALL", "SELECT", "INSERT", "UPDATE", "DELETE")
EVERYBODY: Final = "public"


@dataclass(frozen=True, slots=True)
class Policy:
    """CREATE POLICY. ``using`` is a condition for rows that are there, ``check`` for rows that are written.

    These are texts; ``using`` stands in for a ``check`` that is not given.
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
    """Whether the policies of a table hold, and for its owner, too."""

    table: str
    enabled: bool = False
    forced: bool = False


@dataclass(frozen=True, slots=True)
class Demand:
    """What rows have to satisfy, and the policy that says so if it is a restrictive one."""

    condition: str
    policy: str = ""


def security_of(catalog: "Catalog", table: str) -> Secured:
    """What is said about a table."""
    found = catalog.others.get(("secured", table.lower(), ""))
    return found if isinstance(found, Secured) else Secured(table)


def any_enabled(catalog: "Catalog") -> bool:
    """Whether a table has policies that hold."""
    return any(isinstance(one, Secured) and one.enabled for one in catalog.others.values())


def is_secured(catalog: "Catalog", table: str, user: str) -> bool:
    """Whether the policies of a table hold for a role: not for superusers, BYPASSRLS, or its owner."""
    if not catalog.others:
        return False
    said = security_of(catalog, table)
    if not said.enabled:
        return False
    rights = catalog.rights
    role = rights.find(user)
    if rights.is_superuser(user) or (role is not None and role.bypasses):
        return False
    return said.forced or not rights.owns(user, key_of(table))


def policies(catalog: "Catalog", table: str) -> Iterator[Policy]:
    """Those of a table, by name."""
    found = [one for key, one in catalog.others.items() if key[:2] == ("policy", table.lower())]
    yield from sorted(found, key=lambda one: one.name)


def demands(
    catalog: "Catalog", table: str, command: str, user: str, *, written: bool = False
) -> list[Demand]:
    """What has to hold for rows that a role reads or changes by a command, or that are ``written`` by it."""
    acts = catalog.rights.acts_as(user) | {user}
    permissive: list[str] = []
    found: list[Demand] = []
    for one in policies(catalog, table):
        if one.command not in ("ALL", command) or not (
            EVERYBODY in one.roles or acts.intersection(one.roles)
        ):
            continue
        text = (one.check or one.using) if written else one.using
        if not text:
            continue  # as in Postgres: of rows that are there a policy without USING lets nobody have any
        if one.permissive:
            permissive.append(text)
        else:
            found.append(Demand(text, one.name))
    return [Demand(" OR ".join(f"({text})" for text in permissive) or "false"), *found]


def need_numbers(catalog: "Catalog", entry: "TableEntry", columns: Iterable[str]) -> None:
    """PrivilegeError unless numbers may be taken for the columns of a table that are not given."""
    given = {name.lower() for name in columns}
    for name, rule in zip(entry.schema.names, entry.constraints.rules, strict=False):
        if rule.sequence and not rule.identity and name.lower() not in given:
            need_any(catalog, ("SEQUENCE", rule.sequence.lower()), "Uw")


def policies_for(catalog: "Catalog", role: str) -> list[tuple[tuple[str, ...], Policy]]:
    """The policies that name a role, with their keys."""
    found = ((key, one) for key, one in catalog.others.items() if key[0] == "policy")
    return [(key, one) for key, one in found if role in one.roles]


def rename_role_in_policies(catalog: "Catalog", old: str, new: str) -> None:
    """Have policies for a role be for it under its new name."""
    for key, one in policies_for(catalog, old):
        roles = tuple(new if role == old else role for role in one.roles)
        catalog.others[key] = replace(one, roles=roles)
