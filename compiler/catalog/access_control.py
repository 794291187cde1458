"""Access control: privilege checks that raise Postgres' errors, and the conditions of row security policies.

The ``require_*`` functions raise :class:`PrivilegeError`. :func:`policy_conditions` lists the conditions
that a role's rows must satisfy for a command. The privileges and policies themselves are in
``privileges``; ``sql.bind.row_security`` turns policies into filters.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from kpg.compiler.catalog.entries import POLICIES, Catalog, TableEntry, ViewEntry
from kpg.compiler.catalog.operations import CatalogOp
from kpg.compiler.catalog.privileges import ACLS, DATABASE, Asker, Key, Policy, Secured
from kpg.compiler.catalog.routines import Routine
from kpg.runtime.errors import PrivilegeError, Span
from kpg.runtime.records import dataclass

FILE_ROLES: Final = {"from": "pg_read_server_files", "to": "pg_write_server_files"}
"""Roles that may have the server read and write files, by direction."""


def definer_identity(catalog: "Catalog", routine: "Routine") -> "Asker":
    """Return the session's identity inside a SECURITY DEFINER function."""
    return replace(catalog.asker, user=catalog.privileges.owner(("FUNCTION", routine.name.lower())))


def may_deny_access(catalog: "Catalog") -> bool:
    """Return whether a statement can lack a privilege of the current user or of a view's owner."""
    return bool(catalog.privileges.owners) or catalog.checks_privileges


def view_role(catalog: "Catalog", view: "ViewEntry") -> str:
    """Return the role whose privileges apply to the relations that a view reads."""
    return catalog.asker.user if view.invoker else catalog.privileges.owner(relation_key(view.name))


def relation_key(name: str) -> Key:
    """Return the privilege key of a relation."""
    return ("RELATION", name.lower())


def schema_of(catalog: "Catalog", name: str) -> str:
    """Return the lower-case schema of a qualified name; ``public`` if it has none."""
    schema = name.rpartition(".")[0].lower()
    return schema if schema in catalog.schemas else "public"


def describe_object(catalog: "Catalog", key: Key) -> str:
    """Return the kind and name of an object, for errors."""
    if key[0] == "COLUMN":
        return f"column {key[2]} of {describe_object(catalog, ('RELATION', key[1]))}"
    if key[0] != "RELATION":
        return f"{key[0].lower()} {object_name(catalog, key)}"
    entry = catalog.entries.get(key[1])
    materialized = getattr(entry, "materialized", None)
    if materialized is None:
        return f"table {object_name(catalog, key)}"
    return f"{'materialized view' if materialized else 'view'} {object_name(catalog, key)}"


def object_name(catalog: "Catalog", key: Key) -> str:
    """Return the unqualified name of an object."""
    name = key[1]
    if key[0] == "RELATION" and name in catalog.entries:
        name = catalog.entries[name].name
    if key[0] == "SEQUENCE" and name in catalog.sequences:
        name = catalog.sequences[name].name
    return catalog.unqualified_name(name) if key[0] in ("RELATION", "SEQUENCE") else name.partition("(")[0]


def permission_denied(catalog: "Catalog", key: Key, span: Span | None = None) -> PrivilegeError:
    """Return the error for a missing privilege."""
    if key[0] == "COLUMN":
        relation = object_name(catalog, ("RELATION", key[1]))
        return PrivilegeError(f'permission denied for column "{key[2]}" of relation "{relation}"', span=span)
    return PrivilegeError(f"permission denied for {describe_object(catalog, key)}", span=span)


def require_privileges(catalog: "Catalog", key: Key, letters: str, span: Span | None = None) -> None:
    """Raise PrivilegeError unless the current user has all the privileges."""
    if catalog.checks_privileges and not catalog.privileges.has_privileges(catalog.asker.user, key, letters):
        raise permission_denied(catalog, key, span)


def require_any_privilege(catalog: "Catalog", key: Key, letters: str) -> None:
    """Raise PrivilegeError unless the current user has one of the privileges."""
    if catalog.checks_privileges and not set(letters) & set(
        catalog.privileges.granted_letters(catalog.asker.user, key)
    ):
        raise permission_denied(catalog, key)


def require_owner(catalog: "Catalog", key: Key, span: Span | None = None) -> None:
    """Raise PrivilegeError unless the current user owns the object."""
    if catalog.checks_privileges and not catalog.privileges.owns(catalog.asker.user, key):
        raise PrivilegeError(f"must be owner of {describe_object(catalog, key)}", span=span)


def require_file_access(catalog: "Catalog", direction: str, span: Span | None, command: str = "COPY") -> None:
    """Raise PrivilegeError unless the current user may read (``from``) or write (``to``) server files.

    Call it before any access to the disk: the error must not reveal whether a file exists.
    """
    role = FILE_ROLES[direction]
    if catalog.checks_privileges and role not in catalog.privileges.effective_roles(catalog.asker.user):
        copies = command == "COPY"
        verb = {"from": "read", "to": "write"}[direction]
        done = f"COPY {direction} a file" if copies else f"{verb} files by {command}"
        raise PrivilegeError(
            f"permission denied to {'COPY to or from a file' if copies else done}",
            span=span,
            detail=f'Only roles with privileges of the "{role}" role may {done}.',
        )


def require_schema_privilege(catalog: "Catalog", name: str, letter: str, span: Span | None = None) -> None:
    """Raise PrivilegeError unless the current user has a privilege on the schema of a qualified name."""
    schema = schema_of(catalog, name)
    if catalog.checks_privileges and not schema.startswith("pg_temp"):
        require_privileges(catalog, ("SCHEMA", schema), letter, span)


def require_schema_usage(catalog: "Catalog", name: str, span: Span | None = None) -> None:
    """Raise PrivilegeError if a name has a schema that the current user may not use."""
    if catalog.checks_privileges and "." in name:
        require_schema_privilege(catalog, name, "U", span)


def require_column_privileges(
    catalog: "Catalog", name: str, letter: str, columns: "frozenset[str] | None", span: Span | None = None
) -> None:
    """Raise PrivilegeError unless the current user has a privilege on a relation or on all the columns.

    If ``columns`` is empty, one column is enough. If it is None, the privilege on the relation is
    required.
    """
    if not catalog.checks_privileges:
        return
    require_schema_privilege(catalog, name, "U", span)
    if not has_column_privileges(catalog, catalog.asker.user, name, letter, columns):
        raise permission_denied(catalog, relation_key(name), span)


def has_column_privileges(
    catalog: "Catalog", user: str, name: str, letter: str, columns: "frozenset[str] | None"
) -> bool:
    """Return whether a role passes the check of :func:`require_column_privileges`."""
    rights = catalog.privileges
    if rights.has_privileges(user, relation_key(name), letter):
        return True
    if columns is None:
        return False
    if columns:
        return all(
            rights.has_privileges(user, ("COLUMN", name.lower(), one.lower()), letter) for one in columns
        )
    own = (one for one in rights.acls if one[0] == "COLUMN" and one[1] == name.lower())
    return any(rights.has_privileges(user, one, letter) for one in own)


COMMANDS: Final = ("ALL", "SELECT", "INSERT", "UPDATE", "DELETE")
PUBLIC_ROLE: Final = "public"


@dataclass(frozen=True, slots=True)
class Demand:
    """A condition that rows must satisfy, and the restrictive policy that it comes from, if any."""

    condition: str
    policy: str = ""


def row_security_of(catalog: "Catalog", table: str) -> Secured:
    """Return the row-level security state of a table."""
    return catalog.row_security.get(table.lower()) or Secured(table)


def has_enabled_row_security(catalog: "Catalog") -> bool:
    """Return whether row-level security is enabled for any table."""
    return any(one.enabled for one in catalog.row_security.values())


def has_row_security(catalog: "Catalog", table: str, user: str) -> bool:
    """Return whether policies of a table apply to a role.

    They do not apply to superusers, to roles with BYPASSRLS, or to the owner unless forced.
    """
    if not catalog.row_security:
        return False
    said = row_security_of(catalog, table)
    if not said.enabled:
        return False
    rights = catalog.privileges
    role = rights.find_role(user)
    if rights.is_superuser(user) or (role is not None and role.bypasses):
        return False
    return said.forced or not rights.owns(user, relation_key(table))


def policies(catalog: "Catalog", table: str) -> Iterator[Policy]:
    """Yield the policies of a table by name."""
    found = [one for key, one in catalog.policies.items() if key[0] == table.lower()]
    yield from sorted(found, key=lambda one: one.name)


def policy_conditions(
    catalog: "Catalog", table: str, command: str, user: str, *, for_new_rows: bool = False
) -> list[Demand]:
    """Return the conditions on rows that a role reads or changes by a command, or on its new rows."""
    acts = catalog.privileges.effective_roles(user) | {user}
    permissive: list[str] = []
    found: list[Demand] = []
    for one in policies(catalog, table):
        if one.command not in ("ALL", command) or not (
            PUBLIC_ROLE in one.roles or acts.intersection(one.roles)
        ):
            continue
        text = (one.check or one.using) if for_new_rows else one.using
        if not text:
            continue  # as in Postgres, a policy without USING permits no existing rows
        if one.permissive:
            permissive.append(text)
        else:
            found.append(Demand(text, one.name))
    return [Demand(" OR ".join(f"({text})" for text in permissive) or "false"), *found]


def require_sequence_privileges(catalog: "Catalog", entry: "TableEntry", columns: Iterable[str]) -> None:
    """Raise PrivilegeError unless the user may draw numbers for the columns that INSERT leaves out."""
    given = {name.lower() for name in columns}
    for name, rule in zip(entry.schema.names, entry.constraints.rules, strict=False):
        if rule.sequence and not rule.identity and name.lower() not in given:
            require_any_privilege(catalog, ("SEQUENCE", rule.sequence.lower()), "Uw")


def policies_of_role(catalog: "Catalog", role: str) -> list[tuple[tuple[str, str], Policy]]:
    """Return the policies that name a role, with their catalog keys."""
    return [(key, one) for key, one in catalog.policies.items() if role in one.roles]


def rename_role_in_policies(catalog: "Catalog", old: str, new: str) -> list[CatalogOp]:
    """Return the operations that rename a role in all policies."""
    return [
        POLICIES.put(key, replace(one, roles=tuple(new if role == old else role for role in one.roles)))
        for key, one in policies_of_role(catalog, old)
    ]


def owned_objects(catalog: Catalog) -> Iterator[Key]:
    """Yield the keys of all objects that have an owner."""
    yield from (("RELATION", name) for name in catalog.entries)
    yield from (("SEQUENCE", name) for name in catalog.sequences)
    yield from (("SCHEMA", name) for name in catalog.schemas)
    yield from (("TYPE", name) for name in catalog.types)
    yield from (("FUNCTION", name) for name in catalog.routines)
    yield ("DATABASE", DATABASE)


def update_ownership(
    catalog: Catalog, before: frozenset[Key], owner: str | None, *, altered: Key | None
) -> None:
    """After a definition, set the owners of new objects and remove those of dropped objects.

    ``altered``: the object of an ALTER. New sequences get its owner, and its other new keys are
    skipped.
    """
    privileges = catalog.privileges
    after = frozenset(owned_objects(catalog))
    catalog.apply(*(op for key in before - after for op in privileges.ops_to_remove(key)))
    ops: list[CatalogOp] = []
    for key in after - before:
        if key in privileges.owners or key in privileges.acls:
            continue
        if altered is not None and key[0] != "SEQUENCE":
            continue
        new_owner = catalog.asker.user if owner is None else owner
        ops += privileges.ops_to_add(
            key, privileges.owner(altered) if altered is not None else new_owner, schema_of(catalog, key[1])
        )
    for key in privileges.acls:
        entry = catalog.entries.get(key[1]) if key[0] == "COLUMN" else None
        if key[0] == "COLUMN" and (
            entry is None or key[2] not in (name.lower() for name in entry.schema.names)
        ):
            ops.append(ACLS.remove(key))
    catalog.apply(*ops)


def require_view_owner(catalog: Catalog, name: str, span: Span) -> None:
    """Raise PrivilegeError unless the current user owns a view."""
    entry = catalog.get(name, span)
    if isinstance(entry, ViewEntry):
        require_owner(catalog, relation_key(entry.name), span)
