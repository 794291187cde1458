"""CREATE DOMAIN and ALTER DOMAIN."""

from dataclasses import replace

from kpg.compiler.constraints import Check, Domain
from kpg.compiler.sql import definitions as ast
from kpg.compiler.sql.ddl.constraints import table_constraint
from kpg.compiler.sql.ddl.reader import Reader
from kpg.compiler.sql.ddl.tables import collation
from kpg.compiler.sql.session import Accepted
from kpg.compiler.sql.tokens import tokenize


def create_domain(reader: Reader) -> ast.CreateDomain:
    """What follows CREATE DOMAIN."""
    name = reader.relation()
    reader.take("AS")
    type_ = reader.type()
    default, required, checks = "", False, list[Check]()
    while not reader.done:
        named = reader.name() if reader.take("CONSTRAINT") else ""
        if reader.take("DEFAULT"):
            default = reader.value()
        elif reader.take("NOT", "NULL"):
            required = True
        elif reader.take("NULL"):
            required = False
        elif reader.at("CHECK"):
            checks.append(_check(reader, named))
        elif reader.take("COLLATE"):
            collation(reader)
        else:
            reader.unexpected("DEFAULT, NOT NULL or CHECK")
    reader.end()
    return ast.CreateDomain(Domain(name, type_, default, required, tuple(checks)), reader.span)


def _check(reader: Reader, named: str) -> Check:
    check = table_constraint(reader, named)
    assert isinstance(check, Check)
    return check


def alter_domain(reader: Reader) -> ast.AlterDomain | Accepted:
    """What follows ALTER DOMAIN."""
    name = reader.relation()
    if reader.take("OWNER", "TO") or reader.take("VALIDATE", "CONSTRAINT"):
        reader.name()
        reader.end()
        return Accepted("ALTER DOMAIN", (), reader.span)
    action: ast.Action
    if reader.take("SET", "DEFAULT"):
        action = ast.SetRule("", "default", reader.value())
    elif reader.take("DROP", "DEFAULT"):
        action = ast.SetRule("", "default", "")
    elif reader.take("SET", "NOT", "NULL") or reader.take("DROP", "NOT", "NULL"):
        reader.skip(-3)
        action = ast.SetNotNull("", reader.choice("SET", "DROP") == "SET")
        reader.skip(2)
    elif reader.take("ADD"):
        named = reader.name() if reader.take("CONSTRAINT") else ""
        check = _check(reader, named)
        action = ast.AddConstraint(check, not reader.take("NOT", "VALID"))
    elif reader.take("DROP", "CONSTRAINT"):
        exists = reader.take("IF", "EXISTS")
        action = ast.DropConstraint(reader.name(), exists, False)
        _ = reader.take("CASCADE") or reader.take("RESTRICT")
    elif reader.take("RENAME", "CONSTRAINT"):
        old = reader.name()
        reader.need("TO")
        action = ast.RenameConstraint(old, reader.name())
    elif reader.take("RENAME", "TO"):
        action = ast.RenameTo(reader.name())
    else:
        reader.refuse("this ALTER DOMAIN")
    reader.end()
    return ast.AlterDomain(name, action, reader.span)


def over_column(check: Check, column: str) -> Check:
    """The CHECK of a domain as one of a column."""
    quoted = '"' + column.replace('"', '""') + '"'
    text, end = "", 0
    for token in tokenize(check.text):
        if token.text.upper() == "VALUE" and check.text[token.start] not in "'\"":
            text += check.text[end : token.start] + quoted
            end = token.end + 1
    return replace(check, text=text + check.text[end:], column=column)
