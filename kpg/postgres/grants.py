"""GRANT, REVOKE, ALTER DEFAULT PRIVILEGES and OWNER TO.

It resolves the objects that a statement names, selects the grantor as Postgres does, and updates the
privileges in the catalog.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, assert_never

from kpg.compiler.catalog.access_control import denied, key_of, need, need_named, need_owner, plain, schema_of
from kpg.compiler.catalog.entries import Catalog, Entry
from kpg.compiler.catalog.privileges import (
    ALL,
    DATABASE,
    EVERYBODY,
    LETTERS,
    PUBLIC,
    Item,
    Items,
    Key,
    Rights,
    kind_of,
    merged,
    ordered,
)
from kpg.compiler.sql.bind.eager_subexpressions import SETTINGS
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.parse.definitions import DropOther
from kpg.compiler.sql.parse.parser import parse_query
from kpg.compiler.sql.parse.statements import Drop
from kpg.compiler.system.oids import quoted
from kpg.compiler.system.user_objects import type_name
from kpg.execute.definitions.drop import drop_relations
from kpg.execute.definitions.routines import drop_routine, known_type
from kpg.execute.definitions.schema_statements import drop_schema
from kpg.execute.definitions.sequences import drop_sequence
from kpg.execute.definitions.user_types import drop_type
from kpg.execute.queries.query_plan import plan
from kpg.postgres.roles import known
from kpg.postgres.row_security import release_role
from kpg.runtime.errors import Error, PrivilegeError, ProgrammingError, Span
from kpg.runtime.types import Type
from kpg.session.engine import Engine
from kpg.session.notices import say_skipped_relation, warn

PLAIN: Final = re.compile("[a-z_][a-z0-9_]*")


def things(catalog: Catalog) -> Iterator[Key]:
    """Everything that has an owner."""
    yield from (("RELATION", name) for name in catalog.entries)
    yield from (("SEQUENCE", name) for name in catalog.sequences)
    yield from (("SCHEMA", name) for name in catalog.schemas)
    yield from (("TYPE", name) for name in catalog.types)
    yield from (("FUNCTION", name) for name in catalog.routines)
    yield ("DATABASE", DATABASE)


def keys_of(engine: Engine, statement: ast.Grant) -> Iterator[Key]:
    """What a GRANT or REVOKE is about."""
    catalog = engine.catalog
    if not statement.within:
        arguments = statement.arguments or (None,) * len(statement.names)
        for name, types in zip(statement.names, arguments, strict=True):
            yield from _named(engine, statement.kind, name, statement.span, types=types)
        return
    for schema in statement.names:
        key = schema_key(catalog, schema, statement.span)
        need(catalog, key, "U", statement.span)
        wanted = "RELATION" if statement.kind == "TABLE" else statement.kind
        for key in things(catalog):
            if key[0] == wanted and schema_of(catalog, key[1]) == schema.lower():
                yield key


def key_to_own(engine: Engine, statement: ast.AlterOwner) -> Iterator[Key]:
    """What gets another owner; nothing if it may be missing."""
    return _named(
        engine,
        statement.kind,
        statement.name,
        statement.span,
        if_exists=statement.if_exists,
        types=statement.arguments,
    )


def schema_key(catalog: Catalog, name: str, span: Span) -> Key:
    """The schema of that name; ProgrammingError if there is none."""
    if name.lower() not in catalog.schemas:
        raise ProgrammingError(f'schema "{name}" does not exist', span=span)
    return ("SCHEMA", name.lower())


def _named(
    engine: Engine,
    kind: str,
    name: str,
    span: Span,
    *,
    if_exists: bool = False,
    types: Sequence[Type] | None = None,
) -> Iterator[Key]:
    """What a name means, of a kind."""
    catalog = engine.catalog
    found: Key | None = None
    match kind:
        case "SCHEMA":
            found = schema_key(catalog, name, span)
        case "DATABASE":
            if name != DATABASE:
                raise ProgrammingError(f'database "{name}" does not exist', span=span)
            found = ("DATABASE", DATABASE)
        case "TYPE" | "DOMAIN":
            type_ = catalog.find_type(name)
            if type_ is None:
                raise ProgrammingError(f'type "{name}" does not exist', span=span)
            found = ("TYPE", type_.name.lower())
        case "FUNCTION" | "ROUTINE":
            found = _function(engine, name, types, span)
        case "INDEX":
            index = catalog.find_index(name)
            found = None if index is None else key_of(index.table)
        case _:
            found = _relation(engine, kind, name, span, if_exists)
    if found is not None:
        yield found


def _function(engine: Engine, name: str, types: Sequence[Type] | None, span: Span) -> Key | None:
    """A function of a user's; None is one of the system's, which everybody may call."""

    catalog, (schema, _, plain) = engine.catalog, name.rpartition(".")
    if schema not in ("", "pg_catalog"):
        schema_key(catalog, schema, span)
    wanted = None if types is None else [known_type(catalog, one, span) for one in types]
    routines = catalog.find_routines(plain, schema)
    fitting = [one for one in routines if wanted is None or one.same_arguments(wanted)]
    if len(fitting) > 1:
        error = ProgrammingError(
            f'function name "{name}" is not unique',
            span=span,
            hint="Specify the argument list to select the function unambiguously.",
        )
        error.sqlstate = "42725"
        raise error
    if fitting:
        return ("FUNCTION", fitting[0].name.lower())
    if schema in ("", "pg_catalog") and not routines and _is_known(engine, plain.lower()):
        return None
    message = f'could not find a function named "{name}"'
    if wanted is not None:
        message = f"function {name}({', '.join(type_name(catalog, one) for one in wanted)}) does not exist"
    error = ProgrammingError(message, span=span)
    error.sqlstate = "42883"
    raise error


def _is_known(engine: Engine, name: str) -> bool:
    """Whether a function of that name is no routine: the system's, an aggregate, or one in Python.

    Many are known to the binder only, which is asked about a call without arguments.
    """
    if name in SETTINGS or name in engine.catalog.aggregates or name in engine.catalog.functions:
        return True
    called = name if PLAIN.fullmatch(name) else quoted(name)
    try:
        plan(parse_query(f"SELECT {called}()"), engine.catalog, engine.statistics)
    except Error as error:
        return not error.message.startswith("unknown function")
    return True


def _relation(engine: Engine, kind: str, name: str, span: Span, if_exists: bool) -> Key | None:
    catalog = engine.catalog
    need_named(catalog, name, span)
    entry = catalog.find(name) if kind != "SEQUENCE" else None
    if entry is not None:
        return key_of(entry.name)
    sequence = catalog.find_sequence(name)
    if sequence is not None and kind in ("TABLE", "SEQUENCE"):
        return ("SEQUENCE", sequence.name.lower())
    if if_exists:
        say_skipped_relation(engine, name)
        return None
    if kind == "SEQUENCE":
        catalog.sequence(name, span)
    catalog.get(name, span)
    return None


def best_grantor(rights: Rights, user: str, key: Key, letters: str) -> tuple[str, str]:
    """Who is noted to give privileges if a role does so, and which of them may be given by that.

    The owner, if the role owns the thing itself or is a superuser. Else, as in Postgres, the first role that
    it acts as, itself before all, which may pass on all of them; else the first of those that may most.
    """
    owner = rights.owner(key)
    if user == owner or rights.is_superuser(user):
        return owner, letters
    best = user, ""
    for role in _in_turn(rights, user):
        may = letters if role == owner else _own_options(rights, role, key, letters)
        if len(may) > len(best[1]):
            best = role, may
        if may == letters:
            break
    return best


def _own_options(rights: Rights, role: str, key: Key, letters: str) -> str:
    """Of some privileges those that a role itself may pass on; of a column also those of its relation."""
    keys = [("RELATION", key[1]), key] if key[0] == "COLUMN" else [key]
    held = {
        letter
        for one in keys
        for item in rights.items(one)
        if item.grantee == role
        for letter in item.options
    }
    return ordered(held.intersection(letters))


def _in_turn(rights: Rights, user: str) -> Iterator[str]:
    """The roles that a role acts as: itself, those that it is in by age, then those that these are in."""
    acting, ages = rights.acts_as(user), {role: age for age, role in enumerate(rights.roles)}
    waiting, seen = [user], {user}
    for one in waiting:
        yield one
        role = rights.find(one)
        members = role.member_of if role is not None else ()
        found = {each.role for each in members if each.inherits and each.role not in seen}
        seen |= found
        waiting += sorted(found, key=lambda name: ages.get(name, -1))
    yield from sorted(acting - seen)


def run_granting(
    engine: Engine, statement: ast.Grant | ast.AlterDefaults | ast.AlterOwner | ast.Reassign
) -> None:
    """Run one statement."""
    engine.catalog.version += 1
    match statement:
        case ast.Grant():
            roles = [known(engine, one, statement.span) if one else PUBLIC for one in statement.roles]
            for key in list(keys_of(engine, statement)):
                _change(engine, key, statement, roles)
        case ast.AlterDefaults():
            _defaults(engine, statement)
        case ast.AlterOwner():
            for key in key_to_own(engine, statement):
                give(engine, key, known(engine, statement.owner, statement.span), statement.span)
        case ast.Reassign():
            _reassign(engine, statement)
        case _:
            assert_never(statement)


# GRANT and REVOKE


def _change(engine: Engine, key: Key, statement: ast.Grant, roles: list[str]) -> None:
    """Grant or revoke privileges of one thing, and of its columns."""
    whole = "".join(LETTERS[part.privilege] for part in statement.parts if not part.columns)
    every = not statement.parts and not statement.columns
    letters = ALL[kind_of(key)] if every else ordered(whole)
    if letters:
        if set(letters) - set(ALL[kind_of(key)]):
            word = next(
                part.privilege for part in statement.parts if LETTERS[part.privilege] not in ALL[kind_of(key)]
            )
            what = "table" if key[0] == "RELATION" else key[0].lower()
            raise ProgrammingError(f"invalid privilege type {word} for {what}", span=statement.span)
        rights, user = engine.catalog.rights, engine.catalog.asker.user
        given = rights.owns(user, key) or set(rights.given(user, key)) & set(ALL["COLUMN"])
        _apply(engine, key, letters, statement, roles)
        if not statement.grants and key[0] in ("RELATION", "SEQUENCE"):
            if set(letters) & set(ALL["COLUMN"]) and not given:
                # What is revoked of all columns is revoked of each, those of the system among them.
                message = (
                    f'permission denied for column "tableoid" of relation "{plain(engine.catalog, key)}"'
                )
                raise PrivilegeError(message, span=statement.span)
            for column in [one for one in rights.lists if one[0] == "COLUMN" and one[1] == key[1]]:
                _apply(engine, column, ordered(set(letters) & set(ALL["COLUMN"])), statement, roles)
    parts = [(LETTERS[part.privilege], part.columns) for part in statement.parts if part.columns]
    if statement.columns:
        parts = [(ALL["COLUMN"], statement.columns)]
    for some, named in parts:
        for one in named:
            _apply(engine, _column(engine.catalog, key, one, statement.span), some, statement, roles)


def _column(catalog: Catalog, key: Key, name: str, span: Span) -> Key:
    entry: Entry | None = catalog.entries.get(key[1]) if key[0] == "RELATION" else None
    if entry is None or name.lower() not in (one.lower() for one in entry.schema.names):
        raise ProgrammingError(
            f'column "{name}" of relation "{plain(catalog, key)}" does not exist', span=span
        )
    return ("COLUMN", key[1], name.lower())


def _apply(engine: Engine, key: Key, letters: str, statement: ast.Grant, roles: list[str]) -> None:
    catalog = engine.catalog
    rights = catalog.rights
    grantor, allowed = best_grantor(rights, catalog.asker.user, key, letters)
    if allowed != letters:
        _check_grantable(engine, key, letters, allowed, statement)
    items = list(rights.items(key))
    for role in roles:
        if statement.grants:
            if role == PUBLIC and statement.passing:
                raise ProgrammingError("grant options can only be granted to roles", span=statement.span)
            options = allowed if statement.passing else ""
            items = merged(items, Item(role, grantor, allowed, options))
        else:
            items = _revoked(items, role, grantor, allowed, statement)
    kept = tuple(one for one in items if one.letters)
    if kept or key[0] != "COLUMN":
        rights.lists[key] = kept
    else:
        rights.lists.pop(key, None)


def _check_grantable(engine: Engine, key: Key, letters: str, allowed: str, statement: ast.Grant) -> None:
    catalog = engine.catalog
    name = key[2] if key[0] == "COLUMN" else plain(catalog, key)
    done = "were granted" if statement.grants else "could be revoked"
    if not allowed:
        keys = [key, ("RELATION", key[1])] if key[0] == "COLUMN" else [key]
        given = {one for each in keys for one in catalog.rights.given(catalog.asker.user, each)}
        if not given & set(ALL[kind_of(key)]):
            raise denied(catalog, key, statement.span)
        warn(engine, f'no privileges {done} for "{name}"', "01007" if statement.grants else "01006")
    elif statement.parts or statement.columns:  # of ALL it is meant that there may be less
        text = f'not all privileges {done} for "{name}"'
        warn(engine, text, "01007" if statement.grants else "01006")


def _revoked(items: list[Item], role: str, grantor: str, letters: str, statement: ast.Grant) -> list[Item]:
    """The list without privileges, or without leave to pass them on; with CASCADE what was passed on goes."""
    result: list[Item] = []
    lost = ""
    for one in items:
        if (one.grantee, one.grantor) != (role, grantor):
            result.append(one)
            continue
        lost = ordered(set(one.options) & set(letters))
        left = one.letters if statement.passing else ordered(set(one.letters) - set(letters))
        result.append(replace(one, letters=left, options=ordered(set(one.options) - set(letters))))
    if not lost:
        return result
    passed = [
        one for one in result if one.grantor == role and set(one.letters) & set(lost) and one.grantee != role
    ]
    if passed and not statement.cascade:
        raise ProgrammingError(
            "dependent privileges exist", span=statement.span, hint="Use CASCADE to revoke them too."
        )
    for one in passed:
        result = _revoked(result, one.grantee, role, lost, replace(statement, passing=False))
    return result


# What is to be granted of things that are made later


def _defaults(engine: Engine, statement: ast.AlterDefaults) -> None:
    catalog, grant = engine.catalog, statement.grant
    owners = [known(engine, one, statement.span) for one in statement.owners] or [catalog.asker.user]
    schemas = [schema_key(catalog, one, statement.span)[1] for one in statement.schemas] or [""]
    roles = [known(engine, one, statement.span) if one else PUBLIC for one in grant.roles]
    letters = ordered(LETTERS[part.privilege] for part in grant.parts) or ALL[grant.kind]
    for owner in owners:
        if catalog.is_limited and owner not in catalog.rights.acts_as(catalog.asker.user):
            raise PrivilegeError("permission denied to change default privileges", span=statement.span)
        for schema in schemas:
            _default(engine, (owner, schema, f"{grant.kind}S"), letters, roles, grant)


def _default(
    engine: Engine, key: tuple[str, str, str], letters: str, roles: list[str], grant: ast.Grant
) -> None:
    rights, owner = engine.catalog.rights, key[0]
    natural = _natural(owner, grant.kind)
    items = list(rights.defaults.get(key, () if key[1] else natural))
    for role in roles:
        if grant.grants:
            items = merged(items, Item(role, owner, letters, letters if grant.passing else ""))
        else:
            items = _revoked(items, role, owner, letters, grant)
    kept = rights.in_order(one for one in items if one.letters)
    if (key[1] and kept) or (not key[1] and set(kept) != set(natural)):
        rights.defaults[key] = kept
    else:
        rights.defaults.pop(key, None)


def _natural(owner: str, kind: str) -> Items:

    own = Item(owner, owner, ALL[kind])
    return (Item(PUBLIC, owner, EVERYBODY[kind]), own) if kind in EVERYBODY else (own,)


# Who owns what


def give(engine: Engine, key: Key, owner: str, span: Span | None) -> None:
    """Let a role own something, and the sequences of its columns."""
    catalog = engine.catalog
    rights, asker = catalog.rights, catalog.asker
    if key[0] not in ("RELATION", "SEQUENCE") and owner == rights.owner(key):
        return  # as in Postgres: what is so already is said by anybody
    need_owner(catalog, key, span)
    if catalog.is_limited and owner != rights.owner(key):
        if owner not in rights.acts_as(asker.user, by="sets"):
            raise PrivilegeError(f'must be able to SET ROLE "{owner}"', span=span)
        if key[0] in ("RELATION", "SEQUENCE", "FUNCTION", "TYPE"):
            schema: Key = ("SCHEMA", schema_of(catalog, key[1]))
            if not rights.has(owner, schema, "C"):
                raise denied(catalog, schema, span)
    for one in (key, *_owned_sequences(catalog, key)):
        _hand_over(rights, one, owner)


def _hand_over(rights: Rights, key: Key, owner: str) -> None:
    """Let a role own something; what the old owner gave, of its columns, too, the new one has given."""
    old = rights.owner(key)
    columns = [
        one for one in rights.lists if key[0] == "RELATION" and one[0] == "COLUMN" and one[1] == key[1]
    ]
    for one in (key, *columns):
        if one in rights.lists:
            rights.lists[one] = _moved(rights.lists[one], old, owner)
    rights.owners[key] = owner


def _owned_sequences(catalog: Catalog, key: Key) -> Iterator[Key]:
    if key[0] == "RELATION":
        for sequence in catalog.sequences.values():
            if sequence.owner is not None and sequence.owner[0].lower() == key[1]:
                yield ("SEQUENCE", sequence.name.lower())


def _moved(items: Items, old: str, new: str) -> Items:
    """A list in which the new owner stands for the old one."""
    result: list[Item] = []
    for one in items:
        grantee = new if one.grantee == old else one.grantee
        grantor = new if one.grantor == old else one.grantor
        result = merged(result, replace(one, grantee=grantee, grantor=grantor))
    return tuple(result)


def _reassign(engine: Engine, statement: ast.Reassign) -> None:
    catalog = engine.catalog
    rights = catalog.rights
    roles = [known(engine, one, statement.span) for one in statement.roles]
    for role in roles:
        if catalog.is_limited and role not in rights.acts_as(catalog.asker.user):
            verb = "reassign" if statement.owner else "drop"
            raise PrivilegeError(f"permission denied to {verb} objects", span=statement.span)
    owned = [key for key, owner in rights.owners.items() if owner in roles]
    if statement.owner:
        owner = known(engine, statement.owner, statement.span)
        if catalog.is_limited and owner not in rights.acts_as(catalog.asker.user):
            raise PrivilegeError("permission denied to reassign objects", span=statement.span)
        for key in owned:
            _hand_over(rights, key, owner)
        return
    _drop_owned(engine, owned, roles, statement)


DROPS: Final = {"SEQUENCE": drop_sequence, "TYPE": drop_type, "SCHEMA": drop_schema}
"""How what a role owns is dropped with it, by its kind."""


def _drop_owned(engine: Engine, owned: Iterable[Key], roles: list[str], statement: ast.Reassign) -> None:
    """Drop what roles own, and take from them what they were given."""

    catalog, span = engine.catalog, statement.span
    rights = catalog.rights
    relations = [key[1] for key in owned if key[0] == "RELATION" and key[1] in catalog.entries]
    views = [name for name in relations if hasattr(catalog.entries[name], "materialized")]
    tables = [name for name in relations if name not in views]
    for kind, names in (("VIEW", views), ("TABLE", tables)):
        drop_relations(engine, Drop(kind, tuple(names), True, statement.cascade, span))
    for kind, *rest in owned:
        if kind in DROPS:
            DROPS[kind](engine, DropOther(kind, (rest[0],), True, statement.cascade, span), rest[0])
        if kind == "FUNCTION":
            for routine in catalog.routines.get(rest[0], ()):
                drop_routine(engine, routine, span, cascade=statement.cascade)
    for role in roles:
        release_role(catalog, role)
    for key in owned:
        rights.forget(key)
    for key, items in list(rights.lists.items()):
        rights.lists[key] = tuple(
            one for one in items if one.grantee not in roles and one.grantor not in roles
        )
    for default, items in list(rights.defaults.items()):
        left = tuple(one for one in items if one.grantee not in roles)
        if default[0] in roles or not left:
            del rights.defaults[default]
        else:
            rights.defaults[default] = left


def settle(engine: Engine, before: frozenset[Key], owner: str | None, *, altered: Key | None) -> None:
    """After a definition: what has been made is whose, and what is gone is nobody's.

    ``altered``: what is new has been made for that, or is that, under another name.
    """
    catalog = engine.catalog
    rights = catalog.rights
    after = frozenset(things(catalog))
    for key in before - after:
        rights.forget(key)
    for key in after - before:
        if key in rights.owners or key in rights.lists:
            continue
        if altered is not None and key[0] != "SEQUENCE":
            continue
        whose = catalog.asker.user if owner is None else owner
        rights.made(key, rights.owner(altered) if altered is not None else whose, schema_of(catalog, key[1]))
    for key in [one for one in rights.lists if one[0] == "COLUMN"]:
        entry = catalog.entries.get(key[1])
        if entry is None or key[2] not in (name.lower() for name in entry.schema.names):
            del rights.lists[key]
