"""ALTER TYPE."""

from dataclasses import replace

from kpg.compiler.sql import definitions as ast
from kpg.compiler.sql.ddl.reader import Reader
from kpg.compiler.sql.session import Accepted
from kpg.runtime.types import UNKNOWN


def alter_type(reader: Reader) -> ast.AlterUserType | Accepted:
    """What follows ALTER TYPE."""
    name = reader.relation()
    if reader.take("OWNER", "TO"):
        reader.name()
        reader.end()
        return Accepted("ALTER TYPE", (), reader.span)
    made = ast.AlterUserType(name, "", "", "", "", "", False, UNKNOWN, reader.span)
    if reader.take("ADD", "VALUE"):
        lenient = reader.take("IF", "NOT", "EXISTS")
        made = replace(made, what="ADD VALUE", new=reader.string(), lenient=lenient)
        if reader.take("BEFORE"):
            made = replace(made, before=reader.string())
        elif reader.take("AFTER"):
            made = replace(made, after=reader.string())
    elif reader.take("RENAME", "VALUE"):
        old = reader.string()
        reader.need("TO")
        made = replace(made, what="RENAME VALUE", old=old, new=reader.string())
    elif reader.take("RENAME", "ATTRIBUTE"):
        old = reader.name()
        reader.need("TO")
        made = replace(made, what="RENAME ATTRIBUTE", old=old, new=reader.name())
    elif reader.take("RENAME", "TO"):
        made = replace(made, what="RENAME TO", new=reader.name())
    elif reader.take("ADD", "ATTRIBUTE"):
        new = reader.name()
        made = replace(made, what="ADD ATTRIBUTE", new=new, type=reader.type())
    elif reader.take("DROP", "ATTRIBUTE"):
        lenient = reader.take("IF", "EXISTS")
        made = replace(made, what="DROP ATTRIBUTE", old=reader.name(), lenient=lenient)
    elif reader.take("ALTER", "ATTRIBUTE"):
        old = reader.name()
        if reader.take("SET"):
            reader.need("DATA")
        reader.need("TYPE")
        made = replace(made, what="ALTER ATTRIBUTE", old=old, type=reader.type())
    else:
        reader.refuse("this ALTER TYPE")
    _ = reader.take("CASCADE") or reader.take("RESTRICT")
    reader.end()
    return made
