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
from kpg.compiler.sql.parse.statements import Utility
from kpg.compiler.sql.parse.tables import (
    CODE_POINT_COLLATIONS,
    COLLATION_HINT,
    TABLE_ELEMENT_KEYWORDS,
    TableElements,
    is_true,
    make_sequence,
    parse_collation,
    parse_column,
    parse_partition_bound,
    parse_sequence_options,
    parse_table_constraint,
)
from kpg.compiler.sql.parse.tokenizer import tokenize
from kpg.runtime.types import UNKNOWN
from kpg.runtime.unsupported_features import unsupported_syntax_error


def parse_create_index(reader: Reader, *, unique: bool) -> CreateIndex:
    """Parse the rest of CREATE INDEX."""
    reader.accept("CONCURRENTLY")
    exists = reader.accept("IF", "NOT", "EXISTS")
    name = "" if reader.at("ON") else reader.relation()
    reader.expect("ON")
    reader.accept("ONLY")
    table = reader.relation()
    method = (
        storage_parameters.parse_access_method(reader, storage_parameters.PARAMETERS_BY_METHOD)
        if reader.accept("USING")
        else "btree"
    )
    start = reader.position
    columns, plain, elements = _parse_index_columns(reader, method)
    included = reader.names() if reader.accept("INCLUDE") else ()
    distinct = not reader.accept("NULLS", "NOT", "DISTINCT")
    reader.accept("NULLS", "DISTINCT")
    if reader.accept("WITH"):
        storage_parameters.parse_storage_parameters(reader, storage_parameters.PARAMETERS_BY_METHOD[method])
    if reader.accept("TABLESPACE"):
        storage_parameters.parse_tablespace(reader)
    where = reader.condition() if reader.accept("WHERE") else ""
    reader.expect_end()
    text = reader.text[reader.tokens[start].start : reader.span.end]
    key_columns = columns if plain and not where else ()
    key_elements = () if key_columns else elements
    span = reader.span
    return CreateIndex(
        name, table, key_columns, text, unique, distinct, exists, span, key_elements, where, included
    )


def _parse_index_columns(reader: Reader, method: str) -> tuple[tuple[str, ...], bool, tuple[str, ...]]:
    """Return the first words of the elements, whether all are plain columns, and the elements' texts."""
    reader.expect("(")
    names: list[str] = []
    elements: list[str] = []
    plain = True
    while True:
        start = reader.position
        for collate in reader.expression().find_all(exp.Collate):
            if collate.expression.name.lower() not in CODE_POINT_COLLATIONS:
                reader.skip(-1)
                reader.refuse("COLLATE", COLLATION_HINT)
        alone = reader.position == start + 1
        plain = plain and alone
        names.append(reader.tokens[start].text)
        last = reader.tokens[reader.position - 1]
        elements.append(reader.text[reader.tokens[start].start : last.end + 1])
        if not (reader.at_end or reader.at(",") or reader.at(")") or _is_order_next(reader)):
            storage_parameters.parse_operator_class(reader, method)
        while _is_order_next(reader):
            reader.skip(1)
        if not reader.accept(","):
            break
    reader.expect(")")
    return tuple(names), plain, tuple(elements)


def _is_order_next(reader: Reader) -> bool:
    return any(reader.at(word) for word in ("ASC", "DESC", "NULLS", "FIRST", "LAST"))


def parse_create_domain(reader: Reader) -> ast.CreateDomain:
    """Parse the rest of CREATE DOMAIN."""
    name = reader.relation()
    reader.accept("AS")
    type_ = reader.type()
    default, required, checks = "", False, list[Check]()
    while not reader.at_end:
        constraint_name = reader.name() if reader.accept("CONSTRAINT") else ""
        if reader.accept("DEFAULT"):
            default = reader.value()
        elif reader.accept("NOT", "NULL"):
            required = True
        elif reader.accept("NULL"):
            required = False
        elif reader.at("CHECK"):
            checks.append(_parse_check(reader, constraint_name))
        elif reader.accept("COLLATE"):
            parse_collation(reader)
        else:
            reader.fail_unexpected("DEFAULT, NOT NULL or CHECK")
    reader.expect_end()
    return ast.CreateDomain(Domain(name, type_, default, required, tuple(checks)), reader.span)


def _parse_check(reader: Reader, name: str) -> Check:
    check = parse_table_constraint(reader, name)
    assert isinstance(check, Check)
    return check


def parse_alter_domain(reader: Reader) -> ast.AlterDomain | Utility:
    """Parse the rest of ALTER DOMAIN."""
    name = reader.relation()
    if reader.accept("OWNER", "TO") or reader.accept("VALIDATE", "CONSTRAINT"):
        reader.name()
        reader.expect_end()
        return Utility("ALTER DOMAIN", (), reader.span)
    action: ast.Action
    if reader.accept("SET", "DEFAULT"):
        action = ast.SetRule("", "default", reader.value())
    elif reader.accept("DROP", "DEFAULT"):
        action = ast.SetRule("", "default", "")
    elif reader.accept("SET", "NOT", "NULL") or reader.accept("DROP", "NOT", "NULL"):
        reader.skip(-3)
        action = ast.SetNotNull("", reader.expect_one_of("SET", "DROP") == "SET")
        reader.skip(2)
    elif reader.accept("ADD"):
        constraint_name = reader.name() if reader.accept("CONSTRAINT") else ""
        check = _parse_check(reader, constraint_name)
        action = ast.AddConstraint(check, not reader.accept("NOT", "VALID"))
    elif reader.accept("DROP", "CONSTRAINT"):
        exists = reader.accept("IF", "EXISTS")
        action = ast.DropConstraint(reader.name(), exists, False)
        _ = reader.accept("CASCADE") or reader.accept("RESTRICT")
    elif reader.accept("RENAME", "CONSTRAINT"):
        old = reader.name()
        reader.expect("TO")
        action = ast.RenameConstraint(old, reader.name())
    elif reader.accept("RENAME", "TO"):
        action = ast.RenameTo(reader.name())
    else:
        reader.refuse("this ALTER DOMAIN")
    reader.expect_end()
    return ast.AlterDomain(name, action, reader.span)


def check_of_column(check: Check, column: str) -> Check:
    """Return the CHECK of a domain as a CHECK of a column."""
    quoted = '"' + column.replace('"', '""') + '"'
    text, end = "", 0
    for token in tokenize(check.text):
        if token.text.upper() == "VALUE" and check.text[token.start] not in "'\"":
            text += check.text[end : token.start] + quoted
            end = token.end + 1
    return replace(check, text=text + check.text[end:], column=column)


def parse_alter_type(reader: Reader) -> ast.AlterUserType | Utility:
    """Parse the rest of ALTER TYPE."""
    name = reader.relation()
    if reader.accept("OWNER", "TO"):
        reader.name()
        reader.expect_end()
        return Utility("ALTER TYPE", (), reader.span)
    statement = ast.AlterUserType(name, "", "", "", "", "", False, UNKNOWN, reader.span)
    if reader.accept("ADD", "VALUE"):
        has_if_exists = reader.accept("IF", "NOT", "EXISTS")
        statement = replace(statement, action="ADD VALUE", new=reader.string(), has_if_exists=has_if_exists)
        if reader.accept("BEFORE"):
            statement = replace(statement, before=reader.string())
        elif reader.accept("AFTER"):
            statement = replace(statement, after=reader.string())
    elif reader.accept("RENAME", "VALUE"):
        old = reader.string()
        reader.expect("TO")
        statement = replace(statement, action="RENAME VALUE", old=old, new=reader.string())
    elif reader.accept("RENAME", "ATTRIBUTE"):
        old = reader.name()
        reader.expect("TO")
        statement = replace(statement, action="RENAME ATTRIBUTE", old=old, new=reader.name())
    elif reader.accept("RENAME", "TO"):
        statement = replace(statement, action="RENAME TO", new=reader.name())
    elif reader.accept("ADD", "ATTRIBUTE"):
        new = reader.name()
        statement = replace(statement, action="ADD ATTRIBUTE", new=new, type=reader.type())
    elif reader.accept("DROP", "ATTRIBUTE"):
        has_if_exists = reader.accept("IF", "EXISTS")
        statement = replace(
            statement, action="DROP ATTRIBUTE", old=reader.name(), has_if_exists=has_if_exists
        )
    elif reader.accept("ALTER", "ATTRIBUTE"):
        old = reader.name()
        if reader.accept("SET"):
            reader.expect("DATA")
        reader.expect("TYPE")
        statement = replace(statement, action="ALTER ATTRIBUTE", old=old, type=reader.type())
    else:
        reader.refuse("this ALTER TYPE")
    _ = reader.accept("CASCADE") or reader.accept("RESTRICT")
    reader.expect_end()
    return statement


def parse_create_ego_view(reader: Reader, *, or_replace: bool) -> CreateEgoView:
    """Parse the rest of CREATE EGO VIEW."""
    span = reader.here()
    name = reader.relation()
    reader.expect("AS")
    aggregate = reader.condition()
    reader.expect("FROM")
    writes = _parse_source(reader)
    window = _parse_window(reader)
    reader.expect("OVER")
    edges = _parse_source(reader)
    neighbourhood = _parse_neighbourhood(reader)
    where = reader.condition() if reader.accept("WHERE") else None
    readers = None
    if reader.accept("READERS"):
        readers = _parenthesized_text(reader) if reader.at("(") else reader.condition()
    continuous = None
    if reader.accept("CONTINUOUS"):
        continuous = _parenthesized_text(reader) if reader.at("(") else reader.condition()
    options = _parse_ego_options(reader)
    reader.expect_end()
    return CreateEgoView(
        name, aggregate, writes, window, edges, neighbourhood, where, readers, continuous, options,
        or_replace, span,
    )  # fmt: skip


def _parse_source(reader: Reader) -> str:
    """Parse a relation's name, or a query in parentheses; return its text."""
    return _parenthesized_text(reader) if reader.at("(") else reader.relation()


def _parenthesized_text(reader: Reader) -> str:
    """Skip parentheses; return the text between them."""
    start = reader.tokens[reader.position].end + 1
    reader.skip_parentheses()
    return reader.text[start : reader.tokens[reader.position - 1].start].strip()


def _parse_window(reader: Reader) -> int | str | tuple[str, int] | None:
    if reader.accept("LAST"):
        return reader.number()
    if reader.accept("WITHIN"):
        return reader.string()
    return ("range", reader.number()) if reader.accept("RANGE") else None


def _parse_neighbourhood(reader: Reader) -> str:
    for word in ("OUT", "IN", "BOTH"):
        if reader.accept(word):
            steps = (
                "" if reader.at_end or not reader.tokens[reader.position].text.isdigit() else reader.number()
            )
            return f"{word.lower()} {steps}".strip()
    return _parse_source(reader) if reader.accept("BY") else "out"


def _parse_ego_options(reader: Reader) -> tuple[tuple[str, str], ...]:
    """Parse WITH (mode = ..., overlay = ...)."""
    found: list[tuple[str, str]] = []
    if reader.accept("WITH"):
        reader.expect("(")
        while True:
            option = reader.expect_one_of("MODE", "OVERLAY").lower()
            reader.expect("=")
            found.append((option, reader.name()))
            if not reader.accept(","):
                break
        reader.expect(")")
    return tuple(found)


UNSUPPORTED_ACTIONS: Final = {
    "OF": "a typed table",
    "OWNER TO": "OWNER TO beside other actions",
}
ROW_SECURITY_ACTIONS: Final = {
    "ENABLE": ast.SetRowSecurity(enabled=True),
    "DISABLE": ast.SetRowSecurity(enabled=False),
    "NO FORCE": ast.SetRowSecurity(forced=False),
    "FORCE": ast.SetRowSecurity(forced=True),
}
STORAGE_PARAMETERS: Final = (
    storage_parameters.TABLE_PARAMETERS
    | storage_parameters.VIEW_PARAMETERS
    | storage_parameters.INDEX_PARAMETERS
)
REPLICA_IDENTITIES: Final = ("DEFAULT", "FULL", "NOTHING", "USING INDEX")


def parse_alter_relation(reader: Reader, kind: str) -> ast.Alter:
    """Parse the rest of ALTER TABLE, VIEW, MATERIALIZED VIEW or INDEX."""
    exists = reader.accept("IF", "EXISTS")
    reader.accept("ONLY")
    name = reader.relation()
    reader.accept("*")
    if kind == "INDEX" and reader.accept("ATTACH", "PARTITION"):
        reader.relation()  # indexes of partitions are attached automatically
        reader.expect_end()
        return ast.Alter(kind, name, exists, (), reader.span)
    actions = [_parse_action(reader)]
    while reader.accept(","):
        actions.append(_parse_action(reader))
    reader.expect_end()
    return ast.Alter(kind, name, exists, tuple(actions), reader.span)


def parse_rename_schema(reader: Reader) -> ast.RenameSchema:
    """Parse the rest of ALTER SCHEMA."""
    name = reader.name()
    reader.expect("RENAME", "TO")
    statement = ast.RenameSchema(name, reader.name(), reader.span)
    reader.expect_end()
    return statement


def _parse_action(reader: Reader) -> ast.Action:
    if reader.accept("ADD"):
        return _parse_add(reader)
    if reader.accept("DROP", "CONSTRAINT"):
        exists, name = reader.accept("IF", "EXISTS"), reader.name()
        return ast.DropConstraint(name, exists, _parse_cascade(reader))
    if reader.accept("DROP"):
        reader.accept("COLUMN")
        exists, name = reader.accept("IF", "EXISTS"), reader.name()
        return ast.DropColumn(name, exists, _parse_cascade(reader))
    if reader.accept("ALTER", "CONSTRAINT"):
        name = reader.name()
        deferrable = not reader.accept("NOT", "DEFERRABLE") and reader.accept("DEFERRABLE")
        deferred = reader.accept("INITIALLY", "DEFERRED")
        reader.accept("INITIALLY", "IMMEDIATE")
        return ast.AlterConstraint(name, False, deferrable or deferred, deferred)
    if reader.accept("VALIDATE", "CONSTRAINT"):
        return ast.AlterConstraint(reader.name(), True)
    if reader.accept("ALTER"):
        reader.accept("COLUMN")
        return _parse_alter_column(reader)
    if reader.accept("RENAME", "TO"):
        return ast.RenameTo(reader.name())
    if reader.accept("RENAME", "CONSTRAINT"):
        old = reader.name()
        reader.expect("TO")
        return ast.RenameConstraint(old, reader.name())
    if reader.accept("RENAME"):
        reader.accept("COLUMN")
        old = reader.name()
        reader.expect("TO")
        return ast.RenameColumn(old, reader.name())
    if reader.accept("SET", "SCHEMA"):
        return ast.SetSchema(reader.name())
    return _parse_other_action(reader)


def _parse_other_action(reader: Reader) -> ast.Action:
    for words, action in ROW_SECURITY_ACTIONS.items():
        if reader.accept(*words.split(), "ROW", "LEVEL", "SECURITY"):
            return action
    for words in ("ENABLE", "ENABLE ALWAYS", "ENABLE REPLICA", "DISABLE"):
        if reader.at(*words.split(), "TRIGGER"):
            raise unsupported_syntax_error("TRIGGER", reader.here(), verb=f"ALTER TABLE ... {words}")
        if reader.at(*words.split(), "RULE"):
            raise unsupported_syntax_error("RULE", reader.here(), verb=words)
    if reader.accept("ATTACH", "PARTITION"):
        child = reader.relation()
        return ast.AttachPartition(child, parse_partition_bound(reader, ""))
    if reader.accept("DETACH", "PARTITION"):
        child = reader.relation()
        if not reader.accept("CONCURRENTLY"):
            reader.accept("FINALIZE")
        return ast.DetachPartition(child)
    if reader.at("INHERIT") or reader.at("NO", "INHERIT"):
        raise unsupported_syntax_error("INHERIT", reader.here(), verb="NO" if reader.at("NO") else "")
    for words, construct in UNSUPPORTED_ACTIONS.items():
        if reader.at(*words.split()):
            reader.refuse(construct)
    for word in ("SET", "RESET"):
        if reader.at(word, "("):
            reader.accept(word)
            parameters = storage_parameters.parse_storage_parameters(reader, STORAGE_PARAMETERS, toast=True)
            if "SECURITY_INVOKER" in parameters:
                return ast.SetSecurityInvoker(is_true(parameters["SECURITY_INVOKER"]) and word == "SET")
            return ast.NoEffect(word)
    if _skip_storage_action(reader):
        return ast.NoEffect("SET")
    reader.fail_unexpected("an action such as ADD COLUMN")


def _skip_storage_action(reader: Reader) -> bool:
    """Skip an action on the storage of a table or an index; return whether one came next.

    Such actions have no effect.
    """
    if reader.accept("CLUSTER", "ON"):
        reader.name()
    elif reader.accept("SET", "WITHOUT"):
        reader.expect_one_of("CLUSTER", "OIDS")
    elif reader.accept("SET", "TABLESPACE"):
        storage_parameters.parse_tablespace(reader)
        reader.accept("NOWAIT")
    elif reader.accept("SET", "ACCESS", "METHOD"):
        storage_parameters.parse_access_method(reader)
    elif reader.accept("REPLICA", "IDENTITY"):
        if reader.expect_one_of(*REPLICA_IDENTITIES) == "USING INDEX":
            reader.name()
    else:
        return reader.accept("SET", "LOGGED") or reader.accept("SET", "UNLOGGED")
    return True


def _parse_cascade(reader: Reader) -> bool:
    return reader.accept("CASCADE") or (reader.accept("RESTRICT") and False)


def _parse_add(reader: Reader) -> ast.Action:
    if any(reader.at(*words.split()) for words in TABLE_ELEMENT_KEYWORDS if words != "LIKE"):
        constraint = parse_table_constraint(reader)
        not_valid = reader.accept("NOT", "VALID")
        if not_valid and not isinstance(constraint, Check | ForeignKey):
            reader.skip(-2)
            reader.fail("only CHECK and FOREIGN KEY constraints can be marked NOT VALID")
        return ast.AddConstraint(constraint, not not_valid)
    reader.accept("COLUMN")
    exists = reader.accept("IF", "NOT", "EXISTS")
    parts = TableElements()
    parse_column(reader, parts)
    sequence = parts.sequences[0][1] if parts.sequences else None
    return ast.AddColumn(
        parts.columns[0],
        parts.rules[0],
        tuple(parts.constraints),
        sequence,
        exists,
    )


def _is_sequence_option_next(reader: Reader) -> bool:
    """Return whether SET and an option of a sequence come next."""
    words = ("INCREMENT", "START", "MINVALUE", "MAXVALUE", "NO", "CYCLE", "CACHE")
    return any(reader.at("SET", word) for word in words)


def _parse_alter_identity(reader: Reader, name: str) -> ast.Action:
    kind, sequence_options = "", list[tuple[str, object]]()
    while not reader.at_end and not reader.at(","):
        if reader.accept("SET", "GENERATED"):
            kind = reader.expect_one_of("ALWAYS", "BY DEFAULT")
            continue
        reader.accept("SET")
        found = parse_sequence_options(reader)
        if not found:
            reader.fail_unexpected("an option of a sequence")
        sequence_options += found
    return ast.AlterIdentity(name, kind, tuple(sequence_options))


def _parse_alter_column(reader: Reader) -> ast.Action:
    name = reader.name()
    if reader.accept("SET", "DATA", "TYPE") or reader.accept("TYPE"):
        type_ = reader.type()
        if reader.digits is not None:
            reader.skip(-1)
            reader.refuse("a lower precision of seconds for an existing column")
        if reader.at("COLLATE"):
            reader.refuse("COLLATE")
        return ast.AlterType(name, type_, reader.condition() if reader.accept("USING") else "")
    if reader.accept("SET", "DEFAULT"):
        return ast.SetRule(name, "default", reader.value())
    if reader.accept("DROP", "DEFAULT"):
        return ast.SetRule(name, "default", "")
    if reader.accept("SET", "NOT", "NULL"):
        return ast.SetNotNull(name, True)
    if reader.accept("DROP", "NOT", "NULL"):
        return ast.SetNotNull(name, False)
    if reader.accept("DROP", "EXPRESSION"):
        return ast.SetRule(name, "generated", "", None, reader.accept("IF", "EXISTS"))
    if reader.accept("DROP", "IDENTITY"):
        return ast.SetRule(name, "identity", "", None, reader.accept("IF", "EXISTS"))
    if reader.accept("ADD", "GENERATED"):
        kind = reader.expect_one_of("ALWAYS", "BY DEFAULT")
        reader.expect("AS", "IDENTITY")
        sequence_options: ast.Options = ()
        if reader.accept("("):
            sequence_options = parse_sequence_options(reader)
            reader.expect(")")
        return ast.SetRule(name, "identity", kind, make_sequence("", sequence_options, "bigint", reader.span))
    if reader.at("SET", "GENERATED") or reader.at("RESTART") or _is_sequence_option_next(reader):
        return _parse_alter_identity(reader, name)
    if reader.accept("SET", "STATISTICS"):
        reader.number()
    elif reader.accept("SET", "STORAGE"):
        storage_parameters.parse_storage(reader)
    elif reader.accept("SET", "COMPRESSION"):
        storage_parameters.parse_compression(reader)
    elif reader.at("SET", "(") or reader.at("RESET", "("):
        reader.skip(1)
        storage_parameters.parse_storage_parameters(reader, storage_parameters.COLUMN_PARAMETERS)
    else:
        reader.fail_unexpected("TYPE, SET or DROP")
    return ast.NoEffect("SET")
