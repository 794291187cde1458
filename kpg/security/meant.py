"""What GRANT, REVOKE and OWNER TO name, and in whose name privileges are given."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from kpg.compiler.catalog.access_control import key_of, need, need_named, schema_of
from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.catalog.privileges import DATABASE, Key, Rights, ordered
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.parse.parser import parse_query
from kpg.compiler.sql.rewrite.eager_subexpressions import SETTINGS
from kpg.compiler.system.oids import quoted
from kpg.compiler.system.user_objects import type_name
from kpg.engine.engine import Engine
from kpg.listeners.notices import say_skipped_relation
from kpg.queries.planning import plan
from kpg.runtime.errors import Error, ProgrammingError, Span
from kpg.runtime.types import Type

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
    from kpg.ddl.routines import known_type

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
