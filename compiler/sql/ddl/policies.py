"""CREATE, ALTER and DROP POLICY."""

from kpg.compiler.security import COMMANDS, EVERYBODY
from kpg.compiler.sql import definitions as ast
from kpg.compiler.sql.ddl.reader import Reader
from kpg.compiler.sql.ddl.roles import role


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
