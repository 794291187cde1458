"""Roles and privileges: CREATE, ALTER and DROP of ROLE and POLICY, GRANT, REVOKE, and ownership."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from sqlglot.tokenizer_core import TokenType

from kpg.compiler.catalog.access_control import COMMANDS, EVERYBODY
from kpg.compiler.catalog.privileges import ALL, LETTERS, Attributes
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.parse.reader import Reader
from kpg.compiler.sql.parse.routines import signatures
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.types import Type

SWITCHES: Final[dict[str, Callable[[Attributes, bool], Attributes]]] = {
    "SUPERUSER": lambda known, on: replace(known, superuser=on),
    "INHERIT": lambda known, on: replace(known, inherits=on),
    "CREATEROLE": lambda known, on: replace(known, creates_roles=on),
    "CREATEDB": lambda known, on: replace(known, creates_databases=on),
    "LOGIN": lambda known, on: replace(known, logs_in=on),
    "REPLICATION": lambda known, on: replace(known, replicates=on),
    "BYPASSRLS": lambda known, on: replace(known, bypasses=on),
}
"""Options that have an opposite with NO before it."""
KINDS: Final = {
    "TABLE": "TABLE",
    "SEQUENCE": "SEQUENCE",
    "SCHEMA": "SCHEMA",
    "DATABASE": "DATABASE",
    "FUNCTION": "FUNCTION",
    "ROUTINE": "FUNCTION",
    "TYPE": "TYPE",
    "DOMAIN": "TYPE",
}
PLURALS: Final = {
    "TABLES": "TABLE",
    "SEQUENCES": "SEQUENCE",
    "FUNCTIONS": "FUNCTION",
    "ROUTINES": "FUNCTION",
    "TYPES": "TYPE",
    "SCHEMAS": "SCHEMA",
}
REFUSED: Final = {
    "LANGUAGE": "a privilege of a language",
    "PROCEDURE": "a privilege of a procedure",
    "TABLESPACE": "a privilege of a tablespace",
    "FOREIGN": "a privilege of foreign data",
    "LARGE": "a privilege of a large object",
    "PARAMETER": "a privilege of a setting",
}
NOTHING: Final = Attributes()
CURRENT: Final = ("CURRENT_USER", "CURRENT_ROLE", "SESSION_USER")


def role(reader: Reader) -> str:
    """A role's name; PUBLIC, CURRENT_USER and its like in capitals, which no name in quotes is taken for."""
    if reader.done:
        reader.unexpected("a role")
    token = reader.tokens[reader.place]
    if token.token_type is TokenType.IDENTIFIER:
        return reader.name()
    if token.text.upper() in (*CURRENT, "PUBLIC"):
        reader.skip(1)
        return "" if token.text.upper() == "PUBLIC" else token.text.upper()
    if token.text.upper() in ("NONE", "USER"):
        reader.wrong(f'role name "{token.text.lower()}" is reserved')
    return reader.name().lower()


def roles(reader: Reader) -> tuple[str, ...]:
    """Roles with commas between them."""
    reader.take("GROUP")
    found = [role(reader)]
    while reader.take(","):
        reader.take("GROUP")
        found.append(role(reader))
    return tuple(found)


def create(reader: Reader, word: str) -> ast.CreateRole:
    """What follows CREATE ROLE, USER or GROUP."""
    name = role(reader)
    if name == "" or name in CURRENT:
        reader.wrong(f'role name "{name.lower() or "public"}" is reserved')
    reader.take("WITH")
    lists: dict[str, tuple[str, ...]] = {"into": (), "members": (), "admins": ()}
    attributes = Attributes(logs_in=word == "USER")
    while not reader.done:
        if reader.take("IN", "ROLE") or reader.take("IN", "GROUP"):
            lists["into"] += roles(reader)
        elif reader.take("ADMIN"):
            lists["admins"] += roles(reader)
        elif reader.take("ROLE") or reader.take("USER"):
            lists["members"] += roles(reader)
        else:
            attributes = _attribute(reader, attributes)
    return ast.CreateRole(name, attributes, span=reader.span, **lists)


def _attribute(reader: Reader, known: Attributes) -> Attributes:
    """What is known of a role, and the attribute that comes next."""
    for word, switched in SWITCHES.items():
        if reader.take(word):
            return switched(known, True)
        if reader.take(f"NO{word}"):
            return switched(known, False)
    if reader.take("ENCRYPTED", "PASSWORD") or reader.take("PASSWORD"):
        return replace(known, password="" if reader.take("NULL") else reader.string())
    if reader.take("CONNECTION", "LIMIT"):
        return replace(known, connections=reader.number())
    if reader.take("VALID", "UNTIL"):
        return replace(known, until=reader.string())
    if reader.take("SYSID"):
        reader.number()
        return known
    reader.unexpected("an option of a role")


def alter(reader: Reader, word: str) -> ast.AlterRole:
    """What follows ALTER ROLE, USER or GROUP."""
    name = "ALL" if reader.take("ALL") else role(reader)
    span = reader.span
    if reader.take("RENAME", "TO"):
        made = ast.AlterRole(name, NOTHING, role(reader), span)
    elif word == "GROUP" and (reader.at("ADD") or reader.at("DROP")):
        joins = reader.choice("ADD", "DROP") == "ADD"
        reader.need("USER")
        members = roles(reader)
        made = ast.AlterRole(name, NOTHING, "", span, *((members, ()) if joins else ((), members)))
    elif reader.at("IN") or reader.at("SET") or reader.at("RESET"):
        made = _setting(reader, ast.AlterRole(name, NOTHING, "", span))
    else:
        reader.take("WITH")
        attributes = NOTHING
        while not reader.done:
            attributes = _attribute(reader, attributes)
        made = ast.AlterRole(name, attributes, "", span)
    reader.end()
    return made


def _setting(reader: Reader, made: ast.AlterRole) -> ast.AlterRole:
    if reader.take("IN", "DATABASE"):
        reader.name()
    if reader.take("RESET"):
        return replace(made, setting="ALL" if reader.take("ALL") else reader.name().lower())
    reader.need("SET")
    name = reader.name().lower()
    while reader.take("."):
        name += "." + reader.name().lower()
    if not reader.take("="):
        reader.need("TO")
    if reader.take("DEFAULT"):
        return replace(made, setting=name)
    if reader.done:
        reader.unexpected("a value")
    parts = []
    while not reader.done:
        parts.append(reader.tokens[reader.place].text)
        reader.skip(1)
        if not reader.take(","):
            break
    return replace(made, setting=name, value=", ".join(parts))


def drop(reader: Reader) -> ast.DropRole:
    """What follows DROP ROLE."""
    exists = reader.take("IF", "EXISTS")
    names = roles(reader)
    reader.end()
    return ast.DropRole(names, exists, reader.span)


def grant(reader: Reader) -> ast.Grant | ast.GrantRole:
    """GRANT and REVOKE."""
    grants = reader.choice("GRANT", "REVOKE") == "GRANT"
    option = "" if grants else _option_for(reader)
    made = _privileges(reader, grants, passing=option == "GRANT")
    found: ast.Grant | ast.GrantRole
    if made is None:
        found = _grant_role(reader, grants, option)
    else:
        found = made
    reader.end()
    return found


def _option_for(reader: Reader) -> str:
    for word in ("GRANT", "ADMIN", "INHERIT", "SET"):
        if reader.take(word, "OPTION", "FOR"):
            return word
    return ""


def _privileges(reader: Reader, grants: bool, *, passing: bool) -> ast.Grant | None:
    """Privileges ON something TO or FROM roles; None if roles are granted."""
    start = reader.place
    words = [token.text.upper() for token in reader.rest()]
    if "ON" not in words:
        return None
    parts, columns = _role_parts(reader)
    if not reader.take("ON"):
        reader.skip(start - reader.place)
        return None
    kind, names, within, arguments = _target(reader)
    reader.need("TO" if grants else "FROM")
    given = roles(reader)
    if grants:
        passing = reader.take("WITH", "GRANT", "OPTION")
    _granted_by(reader)
    cascade = reader.take("CASCADE")
    if not cascade:
        reader.take("RESTRICT")
    found = ast.Grant(
        parts, kind, names, within, given, grants, passing, cascade, reader.span, columns, arguments
    )
    _check(reader, found)
    return found


def _granted_by(reader: Reader) -> None:
    if reader.take("GRANTED", "BY"):
        role(reader)


def _check(reader: Reader, found: ast.Grant) -> None:
    """The privileges have to be such of the kind."""
    for part in found.parts:
        letter = LETTERS.get(part.privilege)
        if letter is None:
            wrong = ProgrammingError(
                f'unrecognized privilege type "{part.privilege.lower()}"', span=reader.span
            )
            wrong.sqlstate = "42601"
            raise wrong
        known = ALL["COLUMN"] if part.columns else ALL[found.kind]
        if letter not in known:
            what = "column" if part.columns else "relation" if found.kind == "TABLE" else found.kind.lower()
            # A sequence may be named as a table, and then takes what sequences take.
            if found.kind != "TABLE" or part.columns or letter not in ALL["SEQUENCE"]:
                message = f"invalid privilege type {part.privilege} for {what}"
                raise ProgrammingError(message, span=reader.span)


def _role_parts(reader: Reader) -> tuple[tuple[ast.Part, ...], tuple[str, ...]]:
    """Privileges with their columns; none for ALL, and the columns of that."""
    if reader.take("ALL"):
        reader.take("PRIVILEGES")
        return (), reader.names() if reader.at("(") else ()
    found = []
    while True:
        if reader.done:
            reader.unexpected("a privilege")
        word = reader.tokens[reader.place].text.upper()
        reader.skip(1)
        found.append(ast.Part(word, reader.names() if reader.at("(") else ()))
        if not reader.take(","):
            return tuple(found), ()


def _target(reader: Reader) -> tuple[str, tuple[str, ...], bool, tuple[tuple[Type, ...] | None, ...]]:
    """What privileges are about: its kind, names, and whether these are schemas whose things are meant.

    Of functions also the types of their arguments.
    """
    if reader.take("ALL"):
        kind = PLURALS[reader.choice(*PLURALS)]
        reader.need("IN", "SCHEMA")
        return kind, reader.relations(), True, ()
    for word, construct in REFUSED.items():
        if reader.at(word):
            reader.refuse(construct)
    kind = next((known for word, known in KINDS.items() if reader.take(word)), "TABLE")
    if kind != "FUNCTION":
        return kind, reader.relations(), False, ()
    found = signatures(reader)
    return kind, tuple(name for name, _ in found), False, tuple(types for _, types in found)


def _grant_role(reader: Reader, grants: bool, option: str) -> ast.GrantRole:
    given = roles(reader)
    reader.need("TO" if grants else "FROM")
    members = roles(reader)
    options: list[tuple[str, bool]] = [(option, False)] if option else []
    if grants and reader.take("WITH"):
        while True:
            word = reader.choice("ADMIN", "INHERIT", "SET")
            if reader.take("OPTION") or reader.take("TRUE"):
                options.append((word, True))
            else:
                reader.need("FALSE")
                options.append((word, False))
            if not reader.take(","):
                break
    _granted_by(reader)
    cascade = reader.take("CASCADE")
    if not cascade:
        reader.take("RESTRICT")
    return ast.GrantRole(given, members, grants, tuple(options), cascade, reader.span)


def defaults(reader: Reader) -> ast.AlterDefaults:
    """What follows ALTER DEFAULT PRIVILEGES."""
    owners: tuple[str, ...] = ()
    schemas: tuple[str, ...] = ()
    while True:
        if reader.take("FOR", "ROLE") or reader.take("FOR", "USER"):
            owners += roles(reader)
        elif reader.take("IN", "SCHEMA"):
            schemas += reader.relations()
        else:
            break
    grants = reader.choice("GRANT", "REVOKE") == "GRANT"
    passing = not grants and reader.take("GRANT", "OPTION", "FOR")
    parts, _ = _role_parts(reader)
    reader.need("ON")
    kind = PLURALS[reader.choice(*PLURALS)]
    reader.need("TO" if grants else "FROM")
    given = roles(reader)
    if grants:
        passing = reader.take("WITH", "GRANT", "OPTION")
    cascade = reader.take("CASCADE")
    if not cascade:
        reader.take("RESTRICT")
    reader.end()
    found = ast.Grant(parts, kind, (), False, given, grants, passing, cascade, reader.span)
    _check(reader, found)
    return ast.AlterDefaults(owners, schemas, found, reader.span)


def owned(reader: Reader, verb: str) -> ast.Reassign:
    """What follows REASSIGN OWNED BY or DROP OWNED BY."""
    given = roles(reader)
    owner = ""
    if verb == "REASSIGN":
        reader.need("TO")
        owner = role(reader)
    cascade = reader.take("CASCADE")
    if not cascade:
        reader.take("RESTRICT")
    reader.end()
    return ast.Reassign(given, owner, cascade, reader.span)


def owner(reader: Reader, kind: str) -> ast.AlterOwner | None:
    """name OWNER TO role, behind ALTER and a kind; None, and nothing taken, if it is another ALTER."""
    start = reader.place
    exists = reader.take("IF", "EXISTS")
    reader.take("ONLY")
    if not reader.done:
        arguments: tuple[Type, ...] | None = None
        if kind in ("FUNCTION", "ROUTINE"):
            ((name, arguments),) = signatures(reader)
        else:
            name = reader.relation()
            reader.take("*")
            if reader.at("("):
                reader.skip_enclosed()
        if reader.take("OWNER", "TO"):
            found = ast.AlterOwner(kind, name, role(reader), exists, reader.span, arguments)
            reader.end()
            return found
    reader.skip(start - reader.place)
    return None


def create_policy(reader: Reader) -> ast.DefinePolicy:
    """What follows CREATE POLICY."""
    name = reader.name()
    reader.need("ON")
    table = reader.relation()
    permissive, command = True, "ALL"
    if reader.take("AS"):
        permissive = reader.choice("PERMISSIVE", "RESTRICTIVE") == "PERMISSIVE"
    if reader.take("FOR"):
        command = reader.choice(*COMMANDS)
    roles, using, check = _parts(reader)
    if using and command == "INSERT":
        reader.wrong("only WITH CHECK expression allowed for INSERT")
    if check and command in ("SELECT", "DELETE"):
        reader.wrong("WITH CHECK cannot be applied to SELECT or DELETE")
    roles = roles or (EVERYBODY,)
    return ast.DefinePolicy("create", name, table, reader.span, permissive, command, roles, using, check)


def alter_policy(reader: Reader) -> ast.DefinePolicy:
    """What follows ALTER POLICY."""
    name = reader.name()
    reader.need("ON")
    table = reader.relation()
    if reader.take("RENAME", "TO"):
        new = reader.name()
        reader.end()
        return ast.DefinePolicy("rename", name, table, reader.span, renamed=new)
    roles, using, check = _parts(reader)
    return ast.DefinePolicy("alter", name, table, reader.span, roles=roles, using=using, check=check)


def drop_policy(reader: Reader) -> ast.DefinePolicy:
    """What follows DROP POLICY."""
    exists, name, table = reader.dropped()
    return ast.DefinePolicy("drop", name, table, reader.span, if_exists=exists)


def _parts(reader: Reader) -> tuple[tuple[str, ...], str, str]:
    roles: list[str] = []
    if reader.take("TO"):
        roles.append(role(reader))
        while reader.take(","):
            roles.append(role(reader))
    using = reader.enclosed() if reader.take("USING") else ""
    check = reader.enclosed() if reader.take("WITH", "CHECK") else ""
    reader.end()
    return tuple(roles), using, check
