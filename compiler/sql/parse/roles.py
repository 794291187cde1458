"""Roles and privileges: CREATE, ALTER and DROP of ROLE and POLICY, GRANT, REVOKE, and ownership."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from sqlglot.tokenizer_core import TokenType

from kpg.compiler.catalog.access_control import COMMANDS, PUBLIC_ROLE
from kpg.compiler.catalog.privileges import ALL_LETTERS, LETTERS, Attributes
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.parse.reader import Reader
from kpg.compiler.sql.parse.routines import parse_signatures
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
"""Boolean attributes of roles, which NO before them turns off."""
OBJECT_KINDS: Final = {
    "TABLE": "TABLE",
    "SEQUENCE": "SEQUENCE",
    "SCHEMA": "SCHEMA",
    "DATABASE": "DATABASE",
    "FUNCTION": "FUNCTION",
    "ROUTINE": "FUNCTION",
    "TYPE": "TYPE",
    "DOMAIN": "TYPE",
}
PLURAL_KINDS: Final = {
    "TABLES": "TABLE",
    "SEQUENCES": "SEQUENCE",
    "FUNCTIONS": "FUNCTION",
    "ROUTINES": "FUNCTION",
    "TYPES": "TYPE",
    "SCHEMAS": "SCHEMA",
}
UNSUPPORTED_KINDS: Final = {
    "LANGUAGE": "a privilege of a language",
    "PROCEDURE": "a privilege of a procedure",
    "TABLESPACE": "a privilege of a tablespace",
    "FOREIGN": "a privilege of foreign data",
    "LARGE": "a privilege of a large object",
    "PARAMETER": "a privilege of a setting",
}
NO_ATTRIBUTES: Final = Attributes()
CURRENT_ROLES: Final = ("CURRENT_USER", "CURRENT_ROLE", "SESSION_USER")


def parse_role(reader: Reader) -> str:
    """Parse a role name: "" for PUBLIC; CURRENT_USER, CURRENT_ROLE and SESSION_USER in upper case.

    Other unquoted names are folded to lower case, so they never clash with these.
    """
    if reader.at_end:
        reader.fail_unexpected("a role")
    token = reader.tokens[reader.position]
    if token.token_type is TokenType.IDENTIFIER:
        return reader.name()
    if token.text.upper() in (*CURRENT_ROLES, "PUBLIC"):
        reader.skip(1)
        return "" if token.text.upper() == "PUBLIC" else token.text.upper()
    if token.text.upper() in ("NONE", "USER"):
        reader.fail(f'role name "{token.text.lower()}" is reserved', sqlstate="42939")
    return reader.name().lower()


def parse_roles(reader: Reader) -> tuple[str, ...]:
    """Parse a list of roles."""
    reader.accept("GROUP")
    found = [parse_role(reader)]
    while reader.accept(","):
        reader.accept("GROUP")
        found.append(parse_role(reader))
    return tuple(found)


def parse_create_role(reader: Reader, word: str) -> ast.CreateRole:
    """Parse the rest of CREATE ROLE, USER or GROUP."""
    name = parse_role(reader)
    if name == "" or name in CURRENT_ROLES:
        reader.fail(f'role name "{name.lower() or "public"}" is reserved', sqlstate="42939")
    reader.accept("WITH")
    lists: dict[str, tuple[str, ...]] = {"into": (), "members": (), "admins": ()}
    attributes = Attributes(logs_in=word == "USER")
    while not reader.at_end:
        if reader.accept("IN", "ROLE") or reader.accept("IN", "GROUP"):
            lists["into"] += parse_roles(reader)
        elif reader.accept("ADMIN"):
            lists["admins"] += parse_roles(reader)
        elif reader.accept("ROLE") or reader.accept("USER"):
            lists["members"] += parse_roles(reader)
        else:
            attributes = _parse_attribute(reader, attributes)
    return ast.CreateRole(name, attributes, span=reader.span, **lists)


def _parse_attribute(reader: Reader, attributes: Attributes) -> Attributes:
    """Parse one attribute of a role; return the attributes with it."""
    for word, set_attribute in SWITCHES.items():
        if reader.accept(word):
            return set_attribute(attributes, True)
        if reader.accept(f"NO{word}"):
            return set_attribute(attributes, False)
    if reader.accept("ENCRYPTED", "PASSWORD") or reader.accept("PASSWORD"):
        return replace(attributes, password="" if reader.accept("NULL") else reader.string())
    if reader.accept("CONNECTION", "LIMIT"):
        return replace(attributes, connections=reader.number())
    if reader.accept("VALID", "UNTIL"):
        return replace(attributes, until=reader.string())
    if reader.accept("SYSID"):
        reader.number()
        return attributes
    reader.fail_unexpected("an option of a role")


def parse_alter_role(reader: Reader, word: str) -> ast.AlterRole:
    """Parse the rest of ALTER ROLE, USER or GROUP."""
    name = "ALL" if reader.accept("ALL") else parse_role(reader)
    span = reader.span
    if reader.accept("RENAME", "TO"):
        statement = ast.AlterRole(name, NO_ATTRIBUTES, parse_role(reader), span)
    elif word == "GROUP" and (reader.at("ADD") or reader.at("DROP")):
        joins = reader.expect_one_of("ADD", "DROP") == "ADD"
        reader.expect("USER")
        members = parse_roles(reader)
        statement = ast.AlterRole(name, NO_ATTRIBUTES, "", span, *((members, ()) if joins else ((), members)))
    elif reader.at("IN") or reader.at("SET") or reader.at("RESET"):
        statement = _parse_role_setting(reader, ast.AlterRole(name, NO_ATTRIBUTES, "", span))
    else:
        reader.accept("WITH")
        attributes = NO_ATTRIBUTES
        while not reader.at_end:
            attributes = _parse_attribute(reader, attributes)
        statement = ast.AlterRole(name, attributes, "", span)
    reader.expect_end()
    return statement


def _parse_role_setting(reader: Reader, statement: ast.AlterRole) -> ast.AlterRole:
    if reader.accept("IN", "DATABASE"):
        reader.name()
    if reader.accept("RESET"):
        return replace(statement, setting="ALL" if reader.accept("ALL") else reader.name().lower())
    reader.expect("SET")
    name = reader.name().lower()
    while reader.accept("."):
        name += "." + reader.name().lower()
    if not reader.accept("="):
        reader.expect("TO")
    if reader.accept("DEFAULT"):
        return replace(statement, setting=name)
    if reader.at_end:
        reader.fail_unexpected("a value")
    parts = []
    while not reader.at_end:
        parts.append(reader.tokens[reader.position].text)
        reader.skip(1)
        if not reader.accept(","):
            break
    return replace(statement, setting=name, value=", ".join(parts))


def parse_drop_role(reader: Reader) -> ast.DropRole:
    """Parse the rest of DROP ROLE."""
    exists = reader.accept("IF", "EXISTS")
    names = parse_roles(reader)
    reader.expect_end()
    return ast.DropRole(names, exists, reader.span)


def parse_grant(reader: Reader) -> ast.Grant | ast.GrantRole:
    """Parse a GRANT or REVOKE."""
    grants = reader.expect_one_of("GRANT", "REVOKE") == "GRANT"
    option = "" if grants else _parse_option_for(reader)
    privileges = _parse_grant_privileges(reader, grants, grant_option=option == "GRANT")
    statement: ast.Grant | ast.GrantRole
    if privileges is None:
        statement = _parse_grant_role(reader, grants, option)
    else:
        statement = privileges
    reader.expect_end()
    return statement


def _parse_option_for(reader: Reader) -> str:
    for word in ("GRANT", "ADMIN", "INHERIT", "SET"):
        if reader.accept(word, "OPTION", "FOR"):
            return word
    return ""


def _parse_grant_privileges(reader: Reader, is_grant: bool, *, grant_option: bool) -> ast.Grant | None:
    """Parse privileges ON objects TO or FROM roles; None if roles are granted."""
    start = reader.position
    words = [token.text.upper() for token in reader.rest()]
    if "ON" not in words:
        return None
    parts, columns = _parse_privileges(reader)
    if not reader.accept("ON"):
        reader.skip(start - reader.position)
        return None
    kind, names, in_schemas, arguments = _parse_objects(reader)
    reader.expect("TO" if is_grant else "FROM")
    grantees = parse_roles(reader)
    if is_grant:
        grant_option = reader.accept("WITH", "GRANT", "OPTION")
    _skip_granted_by(reader)
    cascade = reader.accept("CASCADE")
    if not cascade:
        reader.accept("RESTRICT")
    found = ast.Grant(
        parts,
        kind,
        names,
        in_schemas,
        grantees,
        is_grant,
        grant_option,
        cascade,
        reader.span,
        columns,
        arguments,
    )
    _check_privileges(reader, found)
    return found


def _skip_granted_by(reader: Reader) -> None:
    if reader.accept("GRANTED", "BY"):
        parse_role(reader)


def _check_privileges(reader: Reader, statement: ast.Grant) -> None:
    """Raise ProgrammingError for a privilege that the kind of object lacks."""
    for part in statement.privileges:
        letter = LETTERS.get(part.privilege)
        if letter is None:
            wrong = ProgrammingError(
                f'unrecognized privilege type "{part.privilege.lower()}"', span=reader.span
            )
            wrong.sqlstate = "42601"
            raise wrong
        allowed = ALL_LETTERS["COLUMN"] if part.columns else ALL_LETTERS[statement.kind]
        if letter not in allowed:
            object_kind = (
                "column"
                if part.columns
                else "relation"
                if statement.kind == "TABLE"
                else statement.kind.lower()
            )
            # GRANT ON TABLE can name a sequence, which has the privileges of sequences.
            if statement.kind != "TABLE" or part.columns or letter not in ALL_LETTERS["SEQUENCE"]:
                message = f"invalid privilege type {part.privilege} for {object_kind}"
                raise ProgrammingError(message, span=reader.span, sqlstate="0LP01")


def _parse_privileges(reader: Reader) -> tuple[tuple[ast.PrivilegeSpec, ...], tuple[str, ...]]:
    """Parse privileges with their columns; none for ALL, and the columns of ALL."""
    if reader.accept("ALL"):
        reader.accept("PRIVILEGES")
        return (), reader.names() if reader.at("(") else ()
    found = []
    while True:
        if reader.at_end:
            reader.fail_unexpected("a privilege")
        word = reader.tokens[reader.position].text.upper()
        reader.skip(1)
        found.append(ast.PrivilegeSpec(word, reader.names() if reader.at("(") else ()))
        if not reader.accept(","):
            return tuple(found), ()


def _parse_objects(reader: Reader) -> tuple[str, tuple[str, ...], bool, tuple[tuple[Type, ...] | None, ...]]:
    """Parse the objects of a GRANT.

    Returns:
        Their kind, their names, whether the names are schemas (ALL ... IN SCHEMA), and the
        argument types of functions.
    """
    if reader.accept("ALL"):
        kind = PLURAL_KINDS[reader.expect_one_of(*PLURAL_KINDS)]
        reader.expect("IN", "SCHEMA")
        return kind, reader.relations(), True, ()
    for word, construct in UNSUPPORTED_KINDS.items():
        if reader.at(word):
            reader.refuse(construct)
    kind = next((object_kind for word, object_kind in OBJECT_KINDS.items() if reader.accept(word)), "TABLE")
    if kind != "FUNCTION":
        return kind, reader.relations(), False, ()
    found = parse_signatures(reader)
    return kind, tuple(name for name, _ in found), False, tuple(types for _, types in found)


def _parse_grant_role(reader: Reader, is_grant: bool, option: str) -> ast.GrantRole:
    granted_roles = parse_roles(reader)
    reader.expect("TO" if is_grant else "FROM")
    members = parse_roles(reader)
    options: list[tuple[str, bool]] = [(option, False)] if option else []
    if is_grant and reader.accept("WITH"):
        while True:
            word = reader.expect_one_of("ADMIN", "INHERIT", "SET")
            if reader.accept("OPTION") or reader.accept("TRUE"):
                options.append((word, True))
            else:
                reader.expect("FALSE")
                options.append((word, False))
            if not reader.accept(","):
                break
    _skip_granted_by(reader)
    cascade = reader.accept("CASCADE")
    if not cascade:
        reader.accept("RESTRICT")
    return ast.GrantRole(granted_roles, members, is_grant, tuple(options), cascade, reader.span)


def parse_alter_default_privileges(reader: Reader) -> ast.AlterDefaults:
    """Parse the rest of ALTER DEFAULT PRIVILEGES."""
    owners: tuple[str, ...] = ()
    schemas: tuple[str, ...] = ()
    while True:
        if reader.accept("FOR", "ROLE") or reader.accept("FOR", "USER"):
            owners += parse_roles(reader)
        elif reader.accept("IN", "SCHEMA"):
            schemas += reader.relations()
        else:
            break
    is_grant = reader.expect_one_of("GRANT", "REVOKE") == "GRANT"
    grant_option = not is_grant and reader.accept("GRANT", "OPTION", "FOR")
    parts, _ = _parse_privileges(reader)
    reader.expect("ON")
    kind = PLURAL_KINDS[reader.expect_one_of(*PLURAL_KINDS)]
    reader.expect("TO" if is_grant else "FROM")
    grantees = parse_roles(reader)
    if is_grant:
        grant_option = reader.accept("WITH", "GRANT", "OPTION")
    cascade = reader.accept("CASCADE")
    if not cascade:
        reader.accept("RESTRICT")
    reader.expect_end()
    statement = ast.Grant(parts, kind, (), False, grantees, is_grant, grant_option, cascade, reader.span)
    _check_privileges(reader, statement)
    return ast.AlterDefaults(owners, schemas, statement, reader.span)


def parse_owned_by(reader: Reader, verb: str) -> ast.Reassign:
    """Parse the rest of REASSIGN OWNED BY or DROP OWNED BY."""
    owners = parse_roles(reader)
    owner = ""
    if verb == "REASSIGN":
        reader.expect("TO")
        owner = parse_role(reader)
    cascade = reader.accept("CASCADE")
    if not cascade:
        reader.accept("RESTRICT")
    reader.expect_end()
    return ast.Reassign(owners, owner, cascade, reader.span)


def parse_owner_to(reader: Reader, kind: str) -> ast.AlterOwner | None:
    """Parse ``name OWNER TO role`` behind ALTER and a kind.

    None for any other ALTER, at the same position.
    """
    start = reader.position
    exists = reader.accept("IF", "EXISTS")
    reader.accept("ONLY")
    if not reader.at_end:
        arguments: tuple[Type, ...] | None = None
        if kind in ("FUNCTION", "ROUTINE"):
            ((name, arguments),) = parse_signatures(reader)
        else:
            name = reader.relation()
            reader.accept("*")
            if reader.at("("):
                reader.skip_parentheses()
        if reader.accept("OWNER", "TO"):
            found = ast.AlterOwner(kind, name, parse_role(reader), exists, reader.span, arguments)
            reader.expect_end()
            return found
    reader.skip(start - reader.position)
    return None


def parse_create_policy(reader: Reader) -> ast.DefinePolicy:
    """Parse the rest of CREATE POLICY."""
    name = reader.name()
    reader.expect("ON")
    table = reader.relation()
    permissive, command = True, "ALL"
    if reader.accept("AS"):
        permissive = reader.expect_one_of("PERMISSIVE", "RESTRICTIVE") == "PERMISSIVE"
    if reader.accept("FOR"):
        command = reader.expect_one_of(*COMMANDS)
    roles, using, check = _parse_policy_clauses(reader)
    if using and command == "INSERT":
        reader.fail("only WITH CHECK expression allowed for INSERT")
    if check and command in ("SELECT", "DELETE"):
        reader.fail("WITH CHECK cannot be applied to SELECT or DELETE")
    roles = roles or (PUBLIC_ROLE,)
    return ast.DefinePolicy("create", name, table, reader.span, permissive, command, roles, using, check)


def parse_alter_policy(reader: Reader) -> ast.DefinePolicy:
    """Parse the rest of ALTER POLICY."""
    name = reader.name()
    reader.expect("ON")
    table = reader.relation()
    if reader.accept("RENAME", "TO"):
        new = reader.name()
        reader.expect_end()
        return ast.DefinePolicy("rename", name, table, reader.span, new_name=new)
    roles, using, check = _parse_policy_clauses(reader)
    return ast.DefinePolicy("alter", name, table, reader.span, roles=roles, using=using, check=check)


def parse_drop_policy(reader: Reader) -> ast.DefinePolicy:
    """Parse the rest of DROP POLICY."""
    exists, name, table = reader.drop_target()
    return ast.DefinePolicy("drop", name, table, reader.span, if_exists=exists)


def _parse_policy_clauses(reader: Reader) -> tuple[tuple[str, ...], str, str]:
    roles: list[str] = []
    if reader.accept("TO"):
        roles.append(parse_role(reader))
        while reader.accept(","):
            roles.append(parse_role(reader))
    using = reader.parenthesized_text() if reader.accept("USING") else ""
    check = reader.parenthesized_text() if reader.accept("WITH", "CHECK") else ""
    reader.expect_end()
    return tuple(roles), using, check
