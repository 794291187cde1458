"""ALTER TABLE, VIEW and INDEX: their actions."""

from typing import Final

from kpg.compiler.constraints import Check, ForeignKey
from kpg.compiler.sql import definitions as ast
from kpg.compiler.sql.ddl import storage
from kpg.compiler.sql.ddl.constraints import table_constraint
from kpg.compiler.sql.ddl.reader import Reader
from kpg.compiler.sql.ddl.sequences import created, options
from kpg.compiler.sql.ddl.tables import TABLE_PARTS, Parts, column
from kpg.compiler.sql.ddl.views import is_on
from kpg.runtime.unsupported_features import unsupported_syntax

REFUSED: Final = {
    "OF": "a typed table",
    "OWNER TO": "OWNER TO beside other actions",
}
SECURITY: Final = {
    "ENABLE": ast.Secure(enabled=True),
    "DISABLE": ast.Secure(enabled=False),
    "NO FORCE": ast.Secure(forced=False),
    "FORCE": ast.Secure(forced=True),
}
PARAMETERS: Final = storage.TABLE | storage.VIEW | storage.INDEX
IDENTITIES: Final = ("DEFAULT", "FULL", "NOTHING", "USING INDEX")


def alter(reader: Reader, kind: str) -> ast.Alter:
    """What follows ALTER and the kind of what is altered."""
    exists = reader.take("IF", "EXISTS")
    reader.take("ONLY")
    name = reader.relation()
    reader.take("*")
    if kind == "INDEX" and reader.take("ATTACH", "PARTITION"):
        reader.relation()  # an index of a partition is one of the whole table's by itself
        reader.end()
        return ast.Alter(kind, name, exists, (), reader.span)
    actions = [_action(reader)]
    while reader.take(","):
        actions.append(_action(reader))
    reader.end()
    return ast.Alter(kind, name, exists, tuple(actions), reader.span)


def rename_schema(reader: Reader) -> ast.RenameSchema:
    """What follows ALTER SCHEMA."""
    name = reader.name()
    reader.need("RENAME", "TO")
    made = ast.RenameSchema(name, reader.name(), reader.span)
    reader.end()
    return made


def _action(reader: Reader) -> ast.Action:
    if reader.take("ADD"):
        return _add(reader)
    if reader.take("DROP", "CONSTRAINT"):
        exists, name = reader.take("IF", "EXISTS"), reader.name()
        return ast.DropConstraint(name, exists, _cascade(reader))
    if reader.take("DROP"):
        reader.take("COLUMN")
        exists, name = reader.take("IF", "EXISTS"), reader.name()
        return ast.DropColumn(name, exists, _cascade(reader))
    if reader.take("ALTER", "CONSTRAINT"):
        name = reader.name()
        deferrable = not reader.take("NOT", "DEFERRABLE") and reader.take("DEFERRABLE")
        deferred = reader.take("INITIALLY", "DEFERRED")
        reader.take("INITIALLY", "IMMEDIATE")
        return ast.SettleConstraint(name, False, deferrable or deferred, deferred)
    if reader.take("VALIDATE", "CONSTRAINT"):
        return ast.SettleConstraint(reader.name(), True)
    if reader.take("ALTER"):
        reader.take("COLUMN")
        return _alter_column(reader)
    if reader.take("RENAME", "TO"):
        return ast.RenameTo(reader.name())
    if reader.take("RENAME", "CONSTRAINT"):
        old = reader.name()
        reader.need("TO")
        return ast.RenameConstraint(old, reader.name())
    if reader.take("RENAME"):
        reader.take("COLUMN")
        old = reader.name()
        reader.need("TO")
        return ast.RenameColumn(old, reader.name())
    if reader.take("SET", "SCHEMA"):
        return ast.SetSchema(reader.name())
    return _other(reader)


def _other(reader: Reader) -> ast.Action:
    for words, secured in SECURITY.items():
        if reader.take(*words.split(), "ROW", "LEVEL", "SECURITY"):
            return secured
    for words in ("ENABLE", "ENABLE ALWAYS", "ENABLE REPLICA", "DISABLE"):
        if reader.at(*words.split(), "TRIGGER"):
            raise unsupported_syntax("TRIGGER", reader.here(), verb=f"ALTER TABLE ... {words}")
        if reader.at(*words.split(), "RULE"):
            raise unsupported_syntax("RULE", reader.here(), verb=words)
    if reader.take("ATTACH", "PARTITION"):
        from kpg.compiler.sql.ddl.partitions import bound_of

        child = reader.relation()
        return ast.Attach(child, bound_of(reader, ""))
    if reader.take("DETACH", "PARTITION"):
        child = reader.relation()
        if not reader.take("CONCURRENTLY"):
            reader.take("FINALIZE")
        return ast.Detach(child)
    if reader.at("INHERIT") or reader.at("NO", "INHERIT"):
        raise unsupported_syntax("INHERIT", reader.here(), verb="NO" if reader.at("NO") else "")
    for words, construct in REFUSED.items():
        if reader.at(*words.split()):
            reader.refuse(construct)
    for word in ("SET", "RESET"):
        if reader.at(word, "("):
            reader.take(word)
            given = storage.parameters(reader, PARAMETERS, toast=True)
            if "SECURITY_INVOKER" in given:
                return ast.SetInvoker(is_on(given["SECURITY_INVOKER"]) and word == "SET")
            return ast.Nothing(word)
    if _is_stored(reader):
        return ast.Nothing("SET")
    reader.unexpected("an action such as ADD COLUMN")


def _is_stored(reader: Reader) -> bool:
    """Take how Postgres stores a table or an index, if that comes next: it has no effect."""
    if reader.take("CLUSTER", "ON"):
        reader.name()
    elif reader.take("SET", "WITHOUT"):
        reader.choice("CLUSTER", "OIDS")
    elif reader.take("SET", "TABLESPACE"):
        storage.tablespace(reader)
        reader.take("NOWAIT")
    elif reader.take("SET", "ACCESS", "METHOD"):
        storage.access_method(reader)
    elif reader.take("REPLICA", "IDENTITY"):
        if reader.choice(*IDENTITIES) == "USING INDEX":
            reader.name()
    else:
        return reader.take("SET", "LOGGED") or reader.take("SET", "UNLOGGED")
    return True


def _cascade(reader: Reader) -> bool:
    return reader.take("CASCADE") or (reader.take("RESTRICT") and False)


def _add(reader: Reader) -> ast.Action:
    if any(reader.at(*words.split()) for words in TABLE_PARTS if words != "LIKE"):
        constraint = table_constraint(reader)
        unchecked = reader.take("NOT", "VALID")
        if unchecked and not isinstance(constraint, Check | ForeignKey):
            reader.skip(-2)
            reader.wrong("only CHECK and FOREIGN KEY constraints can be marked NOT VALID")
        return ast.AddConstraint(constraint, not unchecked)
    reader.take("COLUMN")
    exists = reader.take("IF", "NOT", "EXISTS")
    parts = Parts()
    column(reader, parts)
    sequence = parts.sequences[0][1] if parts.sequences else None
    return ast.AddColumn(
        parts.columns[0],
        parts.rules[0],
        tuple(parts.constraints),
        sequence,
        exists,
    )


def _sets_option(reader: Reader) -> bool:
    """Whether SET and an option of a sequence come next."""
    words = ("INCREMENT", "START", "MINVALUE", "MAXVALUE", "NO", "CYCLE", "CACHE")
    return any(reader.at("SET", word) for word in words)


def _identity(reader: Reader, name: str) -> ast.Action:
    kind, given = "", list[tuple[str, object]]()
    while not reader.done and not reader.at(","):
        if reader.take("SET", "GENERATED"):
            kind = reader.choice("ALWAYS", "BY DEFAULT")
            continue
        reader.take("SET")
        found = options(reader)
        if not found:
            reader.unexpected("an option of a sequence")
        given += found
    return ast.AlterIdentity(name, kind, tuple(given))


def _alter_column(reader: Reader) -> ast.Action:
    name = reader.name()
    if reader.take("SET", "DATA", "TYPE") or reader.take("TYPE"):
        type_ = reader.type()
        if reader.digits is not None:
            reader.skip(-1)
            reader.refuse("fewer digits of a second for a column that is there")
        if reader.at("COLLATE"):
            reader.refuse("COLLATE")
        return ast.AlterType(name, type_, reader.condition() if reader.take("USING") else "")
    if reader.take("SET", "DEFAULT"):
        return ast.SetRule(name, "default", reader.value())
    if reader.take("DROP", "DEFAULT"):
        return ast.SetRule(name, "default", "")
    if reader.take("SET", "NOT", "NULL"):
        return ast.SetNotNull(name, True)
    if reader.take("DROP", "NOT", "NULL"):
        return ast.SetNotNull(name, False)
    if reader.take("DROP", "EXPRESSION"):
        return ast.SetRule(name, "generated", "", None, reader.take("IF", "EXISTS"))
    if reader.take("DROP", "IDENTITY"):
        return ast.SetRule(name, "identity", "", None, reader.take("IF", "EXISTS"))
    if reader.take("ADD", "GENERATED"):
        kind = reader.choice("ALWAYS", "BY DEFAULT")
        reader.need("AS", "IDENTITY")
        given: ast.Options = ()
        if reader.take("("):
            given = options(reader)
            reader.need(")")
        return ast.SetRule(name, "identity", kind, created("", given, "bigint", reader.span))
    if reader.at("SET", "GENERATED") or reader.at("RESTART") or _sets_option(reader):
        return _identity(reader, name)
    if reader.take("SET", "STATISTICS"):
        reader.number()
    elif reader.take("SET", "STORAGE"):
        storage.storage(reader)
    elif reader.take("SET", "COMPRESSION"):
        storage.compression(reader)
    elif reader.at("SET", "(") or reader.at("RESET", "("):
        reader.skip(1)
        storage.parameters(reader, storage.COLUMN)
    else:
        reader.unexpected("TYPE, SET or DROP")
    return ast.Nothing("SET")
