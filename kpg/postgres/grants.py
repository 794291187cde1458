"""GRANT, REVOKE, ALTER DEFAULT PRIVILEGES and OWNER TO.

It resolves the objects that a statement names, selects the grantor as Postgres does, and updates the
privileges in the catalog.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, assert_never

from kpg.compiler.catalog.access_control import (
    object_name,
    owned_objects,
    permission_denied,
    relation_key,
    require_owner,
    require_privileges,
    require_schema_usage,
    schema_of,
)
from kpg.compiler.catalog.entries import Catalog, Entry
from kpg.compiler.catalog.operations import CatalogOp
from kpg.compiler.catalog.privileges import (
    ACLS,
    ALL_LETTERS,
    DATABASE,
    DEFAULT_ACLS,
    LETTERS,
    OWNERS,
    PUBLIC,
    PUBLIC_LETTERS,
    Item,
    Items,
    Key,
    Privileges,
    merge_item,
    privilege_kind,
    sort_letters,
)
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.parse.definitions import DropOther
from kpg.compiler.sql.parse.features import SETTING_FUNCTIONS
from kpg.compiler.sql.parse.parser import parse_query
from kpg.compiler.sql.parse.statements import Drop
from kpg.compiler.system.oids import quote_identifier
from kpg.compiler.system.user_objects import display_type
from kpg.execute.definitions.drop import drop_relations
from kpg.execute.definitions.routines import drop_routine, resolve_type
from kpg.execute.definitions.schema_statements import drop_schema
from kpg.execute.definitions.sequences import drop_sequence
from kpg.execute.definitions.user_types import drop_type
from kpg.execute.queries.query_plan import plan
from kpg.postgres.roles import resolve_role
from kpg.postgres.row_security import remove_role_from_policies
from kpg.runtime.errors import Error, PrivilegeError, ProgrammingError, Span
from kpg.runtime.types import Type
from kpg.session.engine import Engine
from kpg.session.notices import notice_missing_relation, warn

SIMPLE_NAME: Final = re.compile("[a-z_][a-z0-9_]*")


def grant_targets(engine: Engine, statement: ast.Grant) -> Iterator[Key]:
    """Yield the objects that a GRANT or REVOKE names."""
    catalog = engine.catalog
    if not statement.in_schemas:
        arguments = statement.arguments or (None,) * len(statement.names)
        for name, types in zip(statement.names, arguments, strict=True):
            yield from _resolve_object(engine, statement.kind, name, statement.span, types=types)
        return
    for schema in statement.names:
        key = schema_key(catalog, schema, statement.span)
        require_privileges(catalog, key, "U", statement.span)
        kind = "RELATION" if statement.kind == "TABLE" else statement.kind
        for key in owned_objects(catalog):
            if key[0] == kind and schema_of(catalog, key[1]) == schema.lower():
                yield key


def owner_target(engine: Engine, statement: ast.AlterOwner) -> Iterator[Key]:
    """Yield the object of an OWNER TO; nothing if it is missing and IF EXISTS is given."""
    return _resolve_object(
        engine,
        statement.kind,
        statement.name,
        statement.span,
        if_exists=statement.if_exists,
        types=statement.arguments,
    )


def schema_key(catalog: Catalog, name: str, span: Span) -> Key:
    """Return the key of a schema. ProgrammingError if there is none of that name."""
    if name.lower() not in catalog.schemas:
        raise ProgrammingError(f'schema "{name}" does not exist', span=span, sqlstate="3F000")
    return ("SCHEMA", name.lower())


def _resolve_object(
    engine: Engine,
    kind: str,
    name: str,
    span: Span,
    *,
    if_exists: bool = False,
    types: Sequence[Type] | None = None,
) -> Iterator[Key]:
    """Yield the object of a kind and name."""
    catalog = engine.catalog
    key: Key | None = None
    match kind:
        case "SCHEMA":
            key = schema_key(catalog, name, span)
        case "DATABASE":
            if name != DATABASE:
                raise ProgrammingError(f'database "{name}" does not exist', span=span)
            key = ("DATABASE", DATABASE)
        case "TYPE" | "DOMAIN":
            type_ = catalog.find_type(name)
            if type_ is None:
                raise ProgrammingError(f'type "{name}" does not exist', span=span, sqlstate="42704")
            key = ("TYPE", type_.name.lower())
        case "FUNCTION" | "ROUTINE":
            key = _resolve_function(engine, name, types, span)
        case "INDEX":
            index = catalog.find_index(name)
            key = None if index is None else relation_key(index.table)
        case _:
            key = _resolve_relation(engine, kind, name, span, if_exists)
    if key is not None:
        yield key


def _resolve_function(engine: Engine, name: str, types: Sequence[Type] | None, span: Span) -> Key | None:
    """Return the key of a user-defined function; None for a system function, which every role may call."""

    catalog, (schema, _, plain) = engine.catalog, name.rpartition(".")
    if schema not in ("", "pg_catalog"):
        schema_key(catalog, schema, span)
    argument_types = None if types is None else [resolve_type(catalog, one, span) for one in types]
    routines = catalog.find_routines(plain, schema)
    matches = [one for one in routines if argument_types is None or one.has_argument_types(argument_types)]
    if len(matches) > 1:
        error = ProgrammingError(
            f'function name "{name}" is not unique',
            span=span,
            hint="Specify the argument list to select the function unambiguously.",
        )
        error.sqlstate = "42725"
        raise error
    if matches:
        return ("FUNCTION", matches[0].name.lower())
    if schema in ("", "pg_catalog") and not routines and _is_system_function(engine, plain.lower()):
        return None
    message = f'could not find a function named "{name}"'
    if argument_types is not None:
        types_text = ", ".join(display_type(catalog, one) for one in argument_types)
        message = f"function {name}({types_text}) does not exist"
    error = ProgrammingError(message, span=span)
    error.sqlstate = "42883"
    raise error


def _is_system_function(engine: Engine, name: str) -> bool:
    """Return whether a function is built in, an aggregate, or registered from Python.

    Only the binder knows many of them, so a call without arguments is planned.
    """
    if name in SETTING_FUNCTIONS or name in engine.catalog.aggregates or name in engine.catalog.functions:
        return True
    quoted_name = name if SIMPLE_NAME.fullmatch(name) else quote_identifier(name)
    try:
        plan(parse_query(f"SELECT {quoted_name}()"), engine.catalog, engine.statistics)
    except Error as error:
        return not error.message.startswith("unknown function")
    return True


def _resolve_relation(engine: Engine, kind: str, name: str, span: Span, if_exists: bool) -> Key | None:
    catalog = engine.catalog
    require_schema_usage(catalog, name, span)
    entry = catalog.find(name) if kind != "SEQUENCE" else None
    if entry is not None:
        return relation_key(entry.name)
    sequence = catalog.find_sequence(name)
    if sequence is not None and kind in ("TABLE", "SEQUENCE"):
        return ("SEQUENCE", sequence.name.lower())
    if if_exists:
        notice_missing_relation(engine, name)
        return None
    if kind == "SEQUENCE":
        catalog.sequence(name, span)
    catalog.get(name, span)
    return None


def select_best_grantor(privileges: Privileges, user: str, key: Key, letters: str) -> tuple[str, str]:
    """Return the grantor of privileges that a role grants, and which of them may be granted.

    The grantor is the owner, if the role owns the object or is a superuser. Otherwise, as in Postgres,
    it is the first of its effective roles with grant options for all the privileges, else the one with
    the most.
    """
    owner = privileges.owner(key)
    if user == owner or privileges.is_superuser(user):
        return owner, letters
    best = user, ""
    for role in _effective_roles_in_order(privileges, user):
        grantable = letters if role == owner else _own_grant_options(privileges, role, key, letters)
        if len(grantable) > len(best[1]):
            best = role, grantable
        if grantable == letters:
            break
    return best


def _own_grant_options(privileges: Privileges, role: str, key: Key, letters: str) -> str:
    """Return the letters for which a role itself has the grant option; on a column, also by its relation."""
    keys = [("RELATION", key[1]), key] if key[0] == "COLUMN" else [key]
    held = {
        letter
        for one in keys
        for item in privileges.acl(one)
        if item.grantee == role
        for letter in item.options
    }
    return sort_letters(held.intersection(letters))


def _effective_roles_in_order(privileges: Privileges, user: str) -> Iterator[str]:
    """Yield a role's effective roles: itself, its direct memberships by age, then theirs."""
    effective, ages = (
        privileges.effective_roles(user),
        {role: age for age, role in enumerate(privileges.roles)},
    )
    queue, seen = [user], {user}
    for role_name in queue:
        yield role_name
        role = privileges.find_role(role_name)
        members = role.member_of if role is not None else ()
        inherited = {
            membership.role for membership in members if membership.inherits and membership.role not in seen
        }
        seen |= inherited
        queue += sorted(inherited, key=lambda name: ages.get(name, -1))
    yield from sorted(effective - seen)


def run_grant_statement(
    engine: Engine, statement: ast.Grant | ast.AlterDefaults | ast.AlterOwner | ast.Reassign
) -> None:
    """Run GRANT, REVOKE, ALTER DEFAULT PRIVILEGES, OWNER TO, REASSIGN OWNED or DROP OWNED."""
    match statement:
        case ast.Grant():
            roles = [resolve_role(engine, one, statement.span) if one else PUBLIC for one in statement.roles]
            for key in list(grant_targets(engine, statement)):
                _grant_or_revoke(engine, key, statement, roles)
        case ast.AlterDefaults():
            _alter_default_privileges(engine, statement)
        case ast.AlterOwner():
            for key in owner_target(engine, statement):
                change_owner(
                    engine, key, resolve_role(engine, statement.owner, statement.span), statement.span
                )
        case ast.Reassign():
            _reassign_or_drop(engine, statement)
        case _:
            assert_never(statement)


# GRANT and REVOKE


def _grant_or_revoke(engine: Engine, key: Key, statement: ast.Grant, roles: list[str]) -> None:
    """Grant or revoke privileges on one object and its columns."""
    object_letters = "".join(LETTERS[part.privilege] for part in statement.privileges if not part.columns)
    is_all = not statement.privileges and not statement.columns
    letters = ALL_LETTERS[privilege_kind(key)] if is_all else sort_letters(object_letters)
    if letters:
        if set(letters) - set(ALL_LETTERS[privilege_kind(key)]):
            word = next(
                part.privilege
                for part in statement.privileges
                if LETTERS[part.privilege] not in ALL_LETTERS[privilege_kind(key)]
            )
            kind = "table" if key[0] == "RELATION" else key[0].lower()
            raise ProgrammingError(
                f"invalid privilege type {word} for {kind}", span=statement.span, sqlstate="0LP01"
            )
        privileges, user = engine.catalog.privileges, engine.catalog.asker.user
        has_column_privilege = privileges.owns(user, key) or set(privileges.granted_letters(user, key)) & set(
            ALL_LETTERS["COLUMN"]
        )
        _update_acl(engine, key, letters, statement, roles)
        if not statement.is_grant and key[0] in ("RELATION", "SEQUENCE"):
            if set(letters) & set(ALL_LETTERS["COLUMN"]) and not has_column_privilege:
                # Revoking from a table also revokes from each column, including system columns.
                relation = object_name(engine.catalog, key)
                message = f'permission denied for column "tableoid" of relation "{relation}"'
                raise PrivilegeError(message, span=statement.span)
            for column in [one for one in privileges.acls if one[0] == "COLUMN" and one[1] == key[1]]:
                _update_acl(
                    engine, column, sort_letters(set(letters) & set(ALL_LETTERS["COLUMN"])), statement, roles
                )
    parts = [(LETTERS[part.privilege], part.columns) for part in statement.privileges if part.columns]
    if statement.columns:
        parts = [(ALL_LETTERS["COLUMN"], statement.columns)]
    for some, named in parts:
        for one in named:
            _update_acl(engine, _column_key(engine.catalog, key, one, statement.span), some, statement, roles)


def _column_key(catalog: Catalog, key: Key, name: str, span: Span) -> Key:
    entry: Entry | None = catalog.entries.get(key[1]) if key[0] == "RELATION" else None
    if entry is None or name.lower() not in (one.lower() for one in entry.schema.names):
        raise ProgrammingError(
            f'column "{name}" of relation "{object_name(catalog, key)}" does not exist', span=span
        )
    return ("COLUMN", key[1], name.lower())


def _update_acl(engine: Engine, key: Key, letters: str, statement: ast.Grant, roles: list[str]) -> None:
    catalog = engine.catalog
    privileges = catalog.privileges
    grantor, allowed = select_best_grantor(privileges, catalog.asker.user, key, letters)
    if allowed != letters:
        _report_missing_options(engine, key, letters, allowed, statement)
    items = list(privileges.acl(key))
    for role in roles:
        if statement.is_grant:
            if role == PUBLIC and statement.grant_option:
                raise ProgrammingError(
                    "grant options can only be granted to roles", span=statement.span, sqlstate="0LP01"
                )
            options = allowed if statement.grant_option else ""
            items = merge_item(items, Item(role, grantor, allowed, options))
        else:
            items = _revoke(items, role, grantor, allowed, statement)
    remaining = tuple(one for one in items if one.letters)
    if remaining or key[0] != "COLUMN":
        catalog.apply(ACLS.put(key, remaining))
    else:
        catalog.apply(ACLS.remove(key))


def _report_missing_options(
    engine: Engine, key: Key, letters: str, allowed: str, statement: ast.Grant
) -> None:
    catalog = engine.catalog
    name = key[2] if key[0] == "COLUMN" else object_name(catalog, key)
    outcome = "were granted" if statement.is_grant else "could be revoked"
    if not allowed:
        keys = [key, ("RELATION", key[1])] if key[0] == "COLUMN" else [key]
        own_letters = {
            one for each in keys for one in catalog.privileges.granted_letters(catalog.asker.user, each)
        }
        if not own_letters & set(ALL_LETTERS[privilege_kind(key)]):
            raise permission_denied(catalog, key, statement.span)
        warn(engine, f'no privileges {outcome} for "{name}"', "01007" if statement.is_grant else "01006")
    elif statement.privileges or statement.columns:  # ALL means all grantable privileges, without a warning
        text = f'not all privileges {outcome} for "{name}"'
        warn(engine, text, "01007" if statement.is_grant else "01006")


def _revoke(items: list[Item], role: str, grantor: str, letters: str, statement: ast.Grant) -> list[Item]:
    """Return the ACL without some privileges, or without their grant options.

    With CASCADE, privileges that were granted by those options are revoked too.
    """
    result: list[Item] = []
    lost_options = ""
    for one in items:
        if (one.grantee, one.grantor) != (role, grantor):
            result.append(one)
            continue
        lost_options = sort_letters(set(one.options) & set(letters))
        letters_left = (
            one.letters if statement.grant_option else sort_letters(set(one.letters) - set(letters))
        )
        result.append(
            replace(one, letters=letters_left, options=sort_letters(set(one.options) - set(letters)))
        )
    if not lost_options:
        return result
    dependents = [
        one
        for one in result
        if one.grantor == role and set(one.letters) & set(lost_options) and one.grantee != role
    ]
    if dependents and not statement.cascade:
        raise ProgrammingError(
            "dependent privileges exist", span=statement.span, hint="Use CASCADE to revoke them too."
        )
    for one in dependents:
        result = _revoke(result, one.grantee, role, lost_options, replace(statement, grant_option=False))
    return result


# ALTER DEFAULT PRIVILEGES


def _alter_default_privileges(engine: Engine, statement: ast.AlterDefaults) -> None:
    catalog, grant = engine.catalog, statement.grant
    owners = [resolve_role(engine, one, statement.span) for one in statement.owners] or [catalog.asker.user]
    schemas = [schema_key(catalog, one, statement.span)[1] for one in statement.schemas] or [""]
    roles = [resolve_role(engine, one, statement.span) if one else PUBLIC for one in grant.roles]
    letters = sort_letters(LETTERS[part.privilege] for part in grant.privileges) or ALL_LETTERS[grant.kind]
    for owner in owners:
        if catalog.checks_privileges and owner not in catalog.privileges.effective_roles(catalog.asker.user):
            raise PrivilegeError("permission denied to change default privileges", span=statement.span)
        for schema in schemas:
            _update_default_acl(engine, (owner, schema, f"{grant.kind}S"), letters, roles, grant)


def _update_default_acl(
    engine: Engine, key: tuple[str, str, str], letters: str, roles: list[str], grant: ast.Grant
) -> None:
    privileges, owner = engine.catalog.privileges, key[0]
    initial = _initial_acl(owner, grant.kind)
    items = list(privileges.default_acls.get(key, () if key[1] else initial))
    for role in roles:
        if grant.is_grant:
            items = merge_item(items, Item(role, owner, letters, letters if grant.grant_option else ""))
        else:
            items = _revoke(items, role, owner, letters, grant)
    remaining = privileges.sort_acl(one for one in items if one.letters)
    if (key[1] and remaining) or (not key[1] and set(remaining) != set(initial)):
        engine.catalog.apply(DEFAULT_ACLS.put(key, remaining))
    else:
        engine.catalog.apply(DEFAULT_ACLS.remove(key))


def _initial_acl(owner: str, kind: str) -> Items:

    own = Item(owner, owner, ALL_LETTERS[kind])
    return (Item(PUBLIC, owner, PUBLIC_LETTERS[kind]), own) if kind in PUBLIC_LETTERS else (own,)


# Ownership


def change_owner(engine: Engine, key: Key, owner: str, span: Span | None) -> None:
    """Change the owner of an object and of the sequences of its columns."""
    catalog = engine.catalog
    privileges, asker = catalog.privileges, catalog.asker
    if key[0] not in ("RELATION", "SEQUENCE") and owner == privileges.owner(key):
        return  # as in Postgres, no privilege is needed if nothing changes
    require_owner(catalog, key, span)
    if catalog.checks_privileges and owner != privileges.owner(key):
        if owner not in privileges.effective_roles(asker.user, by="sets"):
            raise PrivilegeError(f'must be able to SET ROLE "{owner}"', span=span)
        if key[0] in ("RELATION", "SEQUENCE", "FUNCTION", "TYPE"):
            schema: Key = ("SCHEMA", schema_of(catalog, key[1]))
            if not privileges.has_privileges(owner, schema, "C"):
                raise permission_denied(catalog, schema, span)
    for one in (key, *_column_sequences(catalog, key)):
        catalog.apply(*_ops_to_set_owner(privileges, one, owner))


def _ops_to_set_owner(privileges: Privileges, key: Key, owner: str) -> Iterator[CatalogOp]:
    """Yield the operations that set an object's owner, also in its ACL and those of its columns."""
    old = privileges.owner(key)
    for one in (key, *privileges.column_keys(key)):
        if one in privileges.acls:
            yield ACLS.put(one, _replace_owner(privileges.acls[one], old, owner))
    yield OWNERS.put(key, owner)


def _column_sequences(catalog: Catalog, key: Key) -> Iterator[Key]:
    if key[0] == "RELATION":
        for sequence in catalog.sequences.values():
            if sequence.owner is not None and sequence.owner[0].lower() == key[1]:
                yield ("SEQUENCE", sequence.name.lower())


def _replace_owner(items: Items, old: str, new: str) -> Items:
    """Return an ACL in which the new owner replaces the old one."""
    result: list[Item] = []
    for one in items:
        grantee = new if one.grantee == old else one.grantee
        grantor = new if one.grantor == old else one.grantor
        result = merge_item(result, replace(one, grantee=grantee, grantor=grantor))
    return tuple(result)


def _reassign_or_drop(engine: Engine, statement: ast.Reassign) -> None:
    catalog = engine.catalog
    privileges = catalog.privileges
    roles = [resolve_role(engine, one, statement.span) for one in statement.roles]
    for role in roles:
        if catalog.checks_privileges and role not in privileges.effective_roles(catalog.asker.user):
            verb = "reassign" if statement.owner else "drop"
            raise PrivilegeError(f"permission denied to {verb} objects", span=statement.span)
    owned = [key for key, owner in privileges.owners.items() if owner in roles]
    if statement.owner:
        owner = resolve_role(engine, statement.owner, statement.span)
        if catalog.checks_privileges and owner not in privileges.effective_roles(catalog.asker.user):
            raise PrivilegeError("permission denied to reassign objects", span=statement.span)
        for key in owned:
            catalog.apply(*_ops_to_set_owner(privileges, key, owner))
        return
    _drop_owned(engine, owned, roles, statement)


DROP_FUNCTIONS: Final = {"SEQUENCE": drop_sequence, "TYPE": drop_type, "SCHEMA": drop_schema}
"""Functions that drop an owned object, by its kind."""


def _drop_owned(engine: Engine, owned: Iterable[Key], roles: list[str], statement: ast.Reassign) -> None:
    """Drop the objects that roles own, and revoke the privileges granted to them."""

    catalog, span = engine.catalog, statement.span
    privileges = catalog.privileges
    relations = [key[1] for key in owned if key[0] == "RELATION" and key[1] in catalog.entries]
    views = [name for name in relations if hasattr(catalog.entries[name], "materialized")]
    tables = [name for name in relations if name not in views]
    for kind, names in (("VIEW", views), ("TABLE", tables)):
        drop_relations(engine, Drop(kind, tuple(names), True, statement.cascade, span))
    for kind, *rest in owned:
        if kind in DROP_FUNCTIONS:
            DROP_FUNCTIONS[kind](engine, DropOther(kind, (rest[0],), True, statement.cascade, span), rest[0])
        if kind == "FUNCTION":
            for routine in catalog.routines.get(rest[0], ()):
                drop_routine(engine, routine, span, cascade=statement.cascade)
    for role in roles:
        remove_role_from_policies(catalog, role)
    catalog.apply(*(op for key in owned for op in privileges.ops_to_remove(key)))
    ops: list[CatalogOp] = []
    for key, items in privileges.acls.items():
        kept = tuple(one for one in items if one.grantee not in roles and one.grantor not in roles)
        ops.append(ACLS.put(key, kept))
    for default, items in privileges.default_acls.items():
        remaining = tuple(one for one in items if one.grantee not in roles)
        dropped = default[0] in roles or not remaining
        ops.append(DEFAULT_ACLS.remove(default) if dropped else DEFAULT_ACLS.put(default, remaining))
    catalog.apply(*ops)
