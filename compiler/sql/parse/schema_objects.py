"""CREATE INDEX, DOMAIN and EGO VIEW; ALTER of tables, views, indexes, domains and types.

``CREATE EGO VIEW name AS aggregate FROM writes [window] OVER edges [neighbourhood] ...`` is kpg's own.
"""

from dataclasses import replace
from typing import Final

from sqlglot import exp

from kpg.compiler.catalog.constraints import Check, Domain, ForeignKey
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.parse import storage_parameters
from kpg.compiler.sql.parse.definitions import CreateEgoView, CreateIndex
from kpg.compiler.sql.parse.reader import Reader
from kpg.compiler.sql.parse.statements import Accepted
from kpg.compiler.sql.parse.tables import (
    BY_CODE_POINT,
    IN_ORDER,
    TABLE_PARTS,
    Parts,
    bound_of,
    collation,
    column,
    created,
    is_on,
    options,
    table_constraint,
)
from kpg.compiler.sql.parse.tokenizer import tokenize
from kpg.runtime.types import UNKNOWN
from kpg.runtime.unsupported_features import unsupported_syntax


def create_index(reader: Reader, *, unique: bool) -> CreateIndex:
    """What follows CREATE INDEX."""
    reader.take("CONCURRENTLY")
    exists = reader.take("IF", "NOT", "EXISTS")
    name = "" if reader.at("ON") else reader.relation()
    reader.need("ON")
    reader.take("ONLY")
    table = reader.relation()
    method = (
        storage_parameters.access_method(reader, storage_parameters.BY_METHOD)
        if reader.take("USING")
        else "btree"
    )
    start = reader.place
    columns, plain, elements = _columns(reader, method)
    included = reader.names() if reader.take("INCLUDE") else ()
    distinct = not reader.take("NULLS", "NOT", "DISTINCT")
    reader.take("NULLS", "DISTINCT")
    if reader.take("WITH"):
        storage_parameters.parameters(reader, storage_parameters.BY_METHOD[method])
    if reader.take("TABLESPACE"):
        storage_parameters.tablespace(reader)
    where = reader.condition() if reader.take("WHERE") else ""
    reader.end()
    what = reader.text[reader.tokens[start].start : reader.span.end]
    kept = columns if plain and not where else ()
    of_some = () if kept else elements
    span = reader.span
    return CreateIndex(name, table, kept, what, unique, distinct, exists, span, of_some, where, included)


def _columns(reader: Reader, method: str) -> tuple[tuple[str, ...], bool, tuple[str, ...]]:
    """The columns, whether they are nothing but columns, and all as texts."""
    reader.need("(")
    names: list[str] = []
    elements: list[str] = []
    plain = True
    while True:
        start = reader.place
        for one in reader.expression().find_all(exp.Collate):
            if one.expression.name.lower() not in BY_CODE_POINT:
                reader.skip(-1)
                reader.refuse("COLLATE", IN_ORDER)
        alone = reader.place == start + 1
        plain = plain and alone
        names.append(reader.tokens[start].text)
        last = reader.tokens[reader.place - 1]
        elements.append(reader.text[reader.tokens[start].start : last.end + 1])
        if not (reader.done or reader.at(",") or reader.at(")") or _order(reader)):
            storage_parameters.operator_class(reader, method)
        while _order(reader):
            reader.skip(1)
        if not reader.take(","):
            break
    reader.need(")")
    return tuple(names), plain, tuple(elements)


def _order(reader: Reader) -> bool:
    return any(reader.at(word) for word in ("ASC", "DESC", "NULLS", "FIRST", "LAST"))


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


def create_ego_view(reader: Reader, *, or_replace: bool) -> CreateEgoView:
    """What follows CREATE EGO VIEW."""
    span = reader.here()
    name = reader.relation()
    reader.need("AS")
    aggregate = reader.condition()
    reader.need("FROM")
    writes = _source(reader)
    window = _window(reader)
    reader.need("OVER")
    edges = _source(reader)
    neighbourhood = _neighbourhood(reader)
    where = reader.condition() if reader.take("WHERE") else None
    readers = None
    if reader.take("READERS"):
        readers = _enclosed(reader) if reader.at("(") else reader.condition()
    continuous = None
    if reader.take("CONTINUOUS"):
        continuous = _enclosed(reader) if reader.at("(") else reader.condition()
    options = _options(reader)
    reader.end()
    return CreateEgoView(
        name, aggregate, writes, window, edges, neighbourhood, where, readers, continuous, options,
        or_replace, span,
    )  # fmt: skip


def _source(reader: Reader) -> str:
    """A relation's name, or a query between parentheses."""
    return _enclosed(reader) if reader.at("(") else reader.relation()


def _enclosed(reader: Reader) -> str:
    """The text between parentheses."""
    start = reader.tokens[reader.place].end + 1
    reader.skip_enclosed()
    return reader.text[start : reader.tokens[reader.place - 1].start].strip()


def _window(reader: Reader) -> int | str | tuple[str, int] | None:
    if reader.take("LAST"):
        return reader.number()
    if reader.take("WITHIN"):
        return reader.string()
    return ("range", reader.number()) if reader.take("RANGE") else None


def _neighbourhood(reader: Reader) -> str:
    for word in ("OUT", "IN", "BOTH"):
        if reader.take(word):
            steps = "" if reader.done or not reader.tokens[reader.place].text.isdigit() else reader.number()
            return f"{word.lower()} {steps}".strip()
    return _source(reader) if reader.take("BY") else "out"


def _options(reader: Reader) -> tuple[tuple[str, str], ...]:
    """WITH (mode = ..., overlay = ...)."""
    found: list[tuple[str, str]] = []
    if reader.take("WITH"):
        reader.need("(")
        while True:
            option = reader.choice("MODE", "OVERLAY").lower()
            reader.need("=")
            found.append((option, reader.name()))
            if not reader.take(","):
                break
        reader.need(")")
    return tuple(found)


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
PARAMETERS: Final = storage_parameters.TABLE | storage_parameters.VIEW | storage_parameters.INDEX
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
            given = storage_parameters.parameters(reader, PARAMETERS, toast=True)
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
        storage_parameters.tablespace(reader)
        reader.take("NOWAIT")
    elif reader.take("SET", "ACCESS", "METHOD"):
        storage_parameters.access_method(reader)
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
        storage_parameters.storage(reader)
    elif reader.take("SET", "COMPRESSION"):
        storage_parameters.compression(reader)
    elif reader.at("SET", "(") or reader.at("RESET", "("):
        reader.skip(1)
        storage_parameters.parameters(reader, storage_parameters.COLUMN)
    else:
        reader.unexpected("TYPE, SET or DROP")
    return ast.Nothing("SET")
