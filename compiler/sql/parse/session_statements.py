"""Session statements: transactions, settings, prepared statements, cursors, LOCK TABLE and EXPLAIN.

EXPLAIN takes Postgres 16's options; EXPLAIN ROW asks for the provenance of a row. Statements without meaning
in kpg are accepted and have no effect.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NoReturn, TypeVar

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from kpg.compiler.qualified_names import quote_name
from kpg.compiler.sql.parse import roles, statements, storage_parameters
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.dialect import Dialect
from kpg.compiler.sql.parse.parameters import map_trees
from kpg.compiler.sql.parse.reader import Reader, parse_expression, parse_setting_value
from kpg.compiler.sql.parse.statements import Select
from kpg.compiler.sql.parse.syntax import transform_tree
from kpg.runtime.errors import ProgrammingError, Span
from kpg.runtime.types import Type
from kpg.runtime.unsupported_features import SYNTAX, unsupported_syntax_error

Part = TypeVar("Part")

UNSUPPORTED_STATEMENTS: Final = {
    "SECURITY": "SECURITY LABEL",
    "IMPORT": "IMPORT FOREIGN SCHEMA",
    "LOAD": "LOAD",
}
UTILITY_COMMANDS: Final = (
    "VACUUM",
    "ANALYZE",
    "ANALYSE",
    "REINDEX",
    "CLUSTER",
    "CHECKPOINT",
    "DISCARD",
    "REFRESH",
)
"""Commands with little or no effect."""
TRANSACTION_MODES: Final = (
    "ISOLATION LEVEL SERIALIZABLE",
    "ISOLATION LEVEL REPEATABLE READ",
    "ISOLATION LEVEL READ COMMITTED",
    "ISOLATION LEVEL READ UNCOMMITTED",
    "READ WRITE",
    "READ ONLY",
    "NOT DEFERRABLE",
    "DEFERRABLE",
)


def parse_session_statement(word: str, reader: Reader) -> statements.Statement | None:
    """Parse a statement that begins with ``word``; None if sqlglot parses it."""
    if word in UTILITY_COMMANDS:
        return parse_utility(reader)
    if word == "LOCK":
        return parse_lock_table(reader)
    if word in ("GRANT", "REVOKE", "REASSIGN"):
        return (
            roles.parse_owned_by(reader, word)
            if reader.accept("REASSIGN", "OWNED", "BY")
            else roles.parse_grant(reader)
        )
    if word in UNSUPPORTED_STATEMENTS:
        reader.refuse(UNSUPPORTED_STATEMENTS[word])
    if word in SYNTAX:
        raise unsupported_syntax_error(word, reader.here())
    if word in ("LISTEN", "UNLISTEN", "NOTIFY"):
        return _parse_channel(word, reader)
    if word in ("SET", "RESET", "SHOW"):
        return parse_setting(reader)
    if word in ("PREPARE", "EXECUTE", "DEALLOCATE"):
        return parse_prepared_statement(reader)
    if reader.accept("DECLARE") or reader.accept("FETCH") or reader.accept("MOVE") or reader.accept("CLOSE"):
        if word == "DECLARE":
            return parse_declare(reader)
        return parse_close(reader) if word == "CLOSE" else parse_fetch(reader, moves=word == "MOVE")
    return parse_transaction(reader)


def _parse_channel(word: str, reader: Reader) -> statements.Statement:
    """Parse LISTEN channel, UNLISTEN channel or *, or NOTIFY channel [, 'payload']."""
    span = reader.span
    reader.expect(word)
    if word == "UNLISTEN" and reader.accept("*"):
        reader.expect_end()
        return ast.Listen("", False, span)
    quoted = not reader.at_end and reader.tokens[reader.position].token_type is TokenType.IDENTIFIER
    name = reader.name()
    channel = name if quoted else name.lower()
    if word == "NOTIFY":
        payload = reader.string() if reader.accept(",") else ""
        reader.expect_end()
        return ast.Notify(channel, payload, span)
    reader.expect_end()
    return ast.Listen(channel, word == "LISTEN", span)


def parse_transaction(reader: Reader) -> statements.Statement | None:
    """Parse BEGIN, COMMIT, ROLLBACK, SAVEPOINT and their variants; None for any other statement."""
    span = reader.span
    if (is_start := reader.accept("START", "TRANSACTION")) or reader.accept("BEGIN"):
        _skip_noise_word(reader)
        _, read_only = _parse_modes(reader)
        found: statements.Statement = statements.Begin(span, read_only, is_start)
    elif reader.accept("SAVEPOINT"):
        found = ast.Savepoint("SAVE", reader.name(), span)
    elif reader.accept("RELEASE"):
        reader.accept("SAVEPOINT")
        found = ast.Savepoint("RELEASE", reader.name(), span)
    elif reader.accept("COMMIT") or reader.accept("END"):
        _skip_noise_word(reader)
        _refuse_prepared(reader)
        found = statements.Commit(span, _parse_chain(reader))
    elif reader.accept("ROLLBACK") or reader.accept("ABORT"):
        _skip_noise_word(reader)
        _refuse_prepared(reader)
        if reader.accept("TO"):
            reader.accept("SAVEPOINT")
            found = ast.Savepoint("RETURN", reader.name(), span)
        else:
            found = statements.Rollback(span, _parse_chain(reader))
    else:
        return None
    reader.expect_end()
    return found


def _parse_modes(reader: Reader) -> tuple[str, bool | None]:
    """Parse transaction modes; return the isolation level in lower case, and READ ONLY.

    They are "" and None if unspecified.
    """
    level, read_only = "", None
    while (
        mode := next((candidate for candidate in TRANSACTION_MODES if reader.accept(*candidate.split())), "")
    ) != "":
        reader.accept(",")
        if mode.startswith("READ"):
            read_only = mode == "READ ONLY"
        elif mode.startswith("ISOLATION"):
            level = mode.removeprefix("ISOLATION LEVEL ").lower()
    return level, read_only


def _skip_noise_word(reader: Reader) -> None:
    if not reader.accept("WORK"):
        reader.accept("TRANSACTION")


def _refuse_prepared(reader: Reader) -> None:
    if reader.at("PREPARED"):
        reader.refuse("a prepared transaction")


def _parse_chain(reader: Reader) -> bool:
    """Return whether AND CHAIN comes next."""
    return reader.accept("AND", "CHAIN") or (reader.accept("AND", "NO", "CHAIN") and False)


def parse_setting(reader: Reader) -> statements.Statement | None:
    """Parse SET, RESET and SHOW."""
    span = reader.span
    if reader.accept("SET", "CONSTRAINTS"):
        names = () if reader.accept("ALL") else reader.relations()
        deferred = reader.expect_one_of("DEFERRED", "IMMEDIATE") == "DEFERRED"
        reader.expect_end()
        return ast.SetConstraints(tuple(name.rpartition(".")[2] for name in names), deferred, span)
    for words, for_session in (("ROLE", False), ("SESSION AUTHORIZATION", True)):
        if reader.accept("RESET", *words.split()):
            reader.expect_end()
            return ast.SetRole("", for_session, False, span, is_reset=True)
    if reader.accept("RESET"):
        name = "" if reader.accept("ALL") else _parse_setting_name(reader)
        reader.expect_end()
        return ast.Set(name, (), span, is_reset=True)
    if reader.accept("SHOW"):
        name = _parse_setting_name(reader)
        reader.expect_end()
        return ast.Show(name, span)
    reader.expect("SET")
    session = reader.accept("SESSION", "CHARACTERISTICS", "AS", "TRANSACTION")
    if session or reader.accept("TRANSACTION"):
        snapshot = reader.string() if not session and reader.accept("SNAPSHOT") else ""
        level, read_only = ("", None) if snapshot else _parse_modes(reader)
        reader.expect_end()
        return ast.SetTransaction(level, read_only, session, span, snapshot)
    if reader.accept("POSITION"):
        return _parse_position(reader)
    for_session = reader.accept("SESSION", "AUTHORIZATION")
    local = not for_session and not reader.accept("SESSION") and reader.accept("LOCAL")
    for_session = for_session or reader.accept("SESSION", "AUTHORIZATION")
    if for_session or (reader.accept("ROLE") and not (reader.at("=") or reader.at("TO"))):
        return _parse_set_role(reader, for_session, local, span)
    return _parse_set(reader, span, local=local)


def _parse_set(reader: Reader, span: Span, *, local: bool) -> ast.Set:
    """Parse a setting and its values."""
    name = _parse_setting_name(reader)
    plain = name in ("timezone", "schema", "client_encoding") and not (reader.at("=") or reader.at("TO"))
    if not plain and not reader.accept("="):
        reader.expect("TO")
    values = []
    while not reader.at_end:
        values.append(parse_setting_value(reader))
        if not reader.accept(","):
            break
    reader.expect_end()
    if not values:
        reader.fail_unexpected("a value")
    set_values = () if values == ["DEFAULT"] else tuple(values)
    return ast.Set("search_path" if name == "schema" else name, set_values, span, local)


def _parse_set_role(reader: Reader, session: bool, local: bool, span: Span) -> statements.Statement:
    """Parse the name of SET ROLE or SET SESSION AUTHORIZATION."""
    if reader.accept("NONE") or reader.accept("DEFAULT"):
        name = ""
    elif not reader.at_end and reader.tokens[reader.position].token_type is TokenType.STRING:
        name = reader.string()
    else:
        name = roles.parse_role(reader)
    reader.expect_end()
    return ast.SetRole(name, session, local, span)


def _parse_position(reader: Reader) -> statements.Statement:
    """Parse the rest of SET POSITION."""
    source = reader.operand()
    if not reader.accept("="):
        reader.expect("TO")
    position = reader.expression()
    reader.expect_end()
    return ast.SetPosition(source, position, reader.statement_span())


def _parse_setting_name(reader: Reader) -> str:
    if reader.accept("TIME", "ZONE"):
        return "timezone"
    if reader.accept("TRANSACTION", "ISOLATION", "LEVEL"):
        return "transaction_isolation"
    if reader.accept("NAMES"):
        return "client_encoding"
    parts = [reader.tokens[reader.position].text if not reader.at_end else reader.name()]
    reader.skip(1)
    while reader.accept("."):
        parts.append(reader.name())
    return ".".join(parts).lower()


def parse_utility(reader: Reader) -> statements.Statement:
    """Parse VACUUM and the other UTILITY_COMMANDS."""
    command = reader.expect_one_of(*UTILITY_COMMANDS)
    relations: tuple[str, ...] = ()
    option = ""
    if command == "DISCARD":
        option = reader.expect_one_of("ALL", "PLANS", "SEQUENCES", "TEMPORARY", "TEMP").replace(
            "TEMPORARY", "TEMP"
        )
    if command == "REINDEX":
        option, relations = _parse_reindex(reader)
    if command == "REFRESH":
        reader.expect("MATERIALIZED", "VIEW")
        reader.accept("CONCURRENTLY")
        relations = (reader.relation(),)
        if reader.at("WITH", "NO", "DATA"):
            reader.refuse("a view WITH NO DATA", "a materialized view is always up to date")
        reader.accept("WITH", "DATA")
        reader.expect_end()
    if command in ("ANALYZE", "ANALYSE", "VACUUM"):
        options, relations = _parse_options_and_relations(reader, command.replace("ANALYSE", "ANALYZE"))
        option = "ANALYZE" if command == "VACUUM" and _is_option_on(options, "ANALYZE") else option
    if command == "CLUSTER":
        if reader.at("("):
            storage_parameters.parse_utility_options(reader, command, ("verbose",))
        reader.accept("VERBOSE")
        relations = () if reader.at_end else (reader.relation(),)
        if reader.accept("USING") or reader.accept("ON"):
            reader.relation()
    reader.expect_end()
    return ast.Utility(command, relations, reader.span, option)


PARENTHESIZED_OPTIONS: Final = {
    "ANALYZE": ("verbose", "skip_locked", "buffer_usage_limit"),
    "VACUUM": (
        *("full", "freeze", "verbose", "analyze", "disable_page_skipping", "skip_locked", "index_cleanup"),
        *("process_main", "process_toast", "truncate", "parallel", "skip_database_stats"),
        *("only_database_stats", "buffer_usage_limit"),
    ),
    "REINDEX": ("concurrently", "tablespace", "verbose"),
}
"""Parenthesized options of utility commands."""
UTILITY_OPTIONS = ("FULL", "FREEZE", "VERBOSE", "ANALYZE", "ANALYSE", "TABLE", "ONLY")


def _parse_options_and_relations(reader: Reader, command: str) -> tuple[list[str], tuple[str, ...]]:
    """Return the words of the options and the relations after them."""
    start = reader.position
    if reader.at("("):
        storage_parameters.parse_utility_options(reader, command, PARENTHESIZED_OPTIONS[command])
    while any(reader.accept(word) for word in UTILITY_OPTIONS):
        pass
    tokens, found = reader.tokens[start : reader.position], list[str]()
    while not reader.at_end:
        found.append(reader.relation())
        if reader.at("("):
            reader.names()
        if not reader.accept(","):
            break
    return [token.text.upper().replace("ANALYSE", "ANALYZE") for token in tokens], tuple(found)


def _is_option_on(words: list[str], option: str) -> bool:
    """Return whether an option is among the words and not turned off."""
    places = [place for place, word in enumerate(words) if word == option]
    return any(not {*words[place + 1 : place + 2]} & {"OFF", "FALSE", "0"} for place in places)


def _parse_reindex(reader: Reader) -> tuple[str, tuple[str, ...]]:
    """Return the kind of object of REINDEX, and its name if there is one."""
    if reader.at("("):
        storage_parameters.parse_utility_options(reader, "REINDEX", PARENTHESIZED_OPTIONS["REINDEX"])
    part = reader.expect_one_of("TABLE", "INDEX", "SCHEMA", "DATABASE", "SYSTEM")
    reader.accept("CONCURRENTLY")
    return part, () if reader.at_end else (reader.relation(),)


def parse_nested_execute(reader: Reader) -> ast.Execute:
    """Parse EXECUTE inside CREATE TABLE AS or EXPLAIN, whose text is kept."""
    text_before = reader.text[reader.span.start : reader.here().start]
    found = parse_prepared_statement(reader, to_end=False)
    assert isinstance(found, ast.Execute)
    return replace(found, enclosing_text=(text_before, found.enclosing_text[1]))


def parse_prepared_statement(reader: Reader, *, to_end: bool = True) -> statements.Statement | None:
    """Parse PREPARE, EXECUTE and DEALLOCATE; None for any other statement.

    Without ``to_end`` the text after EXECUTE is kept in the statement.
    """
    span = reader.span
    if reader.accept("PREPARE"):
        if reader.at("TRANSACTION"):
            reader.refuse("a prepared transaction")
        name = reader.folded_name()
        types = _parse_parameter_types(reader)
        reader.expect("AS")
        tokens = reader.rest()
        if not tokens:
            reader.fail_unexpected("a statement")
        return ast.Prepare(name, types, reader.text[tokens[0].start : span.end], span)
    if reader.accept("EXECUTE"):
        name = reader.folded_name()
        values: list[str] = []
        if reader.accept("("):
            while not reader.at(")"):
                values.append(reader.condition())
                if not reader.accept(","):
                    break
            reader.expect(")")
        text_after = ""
        if to_end:
            reader.expect_end()
        elif not reader.at_end:
            text_after = " " + reader.text[reader.here().start : span.end]
            reader.skip(len(reader.rest()))
        return ast.Execute(name, tuple(values), span, ("", text_after))
    if reader.accept("DEALLOCATE"):
        reader.accept("PREPARE")
        name = "" if reader.accept("ALL") else reader.folded_name()
        reader.expect_end()
        return ast.Deallocate(name, span)
    return None


def _parse_parameter_types(reader: Reader) -> tuple[str, ...]:
    """Return the texts of a prepared statement's parameter types."""
    types: list[str] = []
    if reader.accept("("):
        while not reader.at(")"):
            start = reader.position
            reader.type()
            last = reader.tokens[reader.position - 1]
            types.append(reader.text[reader.tokens[start].start : last.end + 1])
            if not reader.accept(","):
                break
        reader.expect(")")
    return tuple(types)


def substitute_arguments(statement: Part, values: tuple[str, ...], types: tuple[str, ...]) -> Part:
    """Return a prepared statement with ``values`` in place of $1, $2, ..., cast to ``types``.

    Values and types are texts.

    ProgrammingError if the number of values does not match.
    """
    used: set[int] = set()

    def substitute(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Parameter) or not node.name.isdigit():
            return node
        place = int(node.name) - 1
        if not 0 <= place < len(values):
            raise ProgrammingError(f"no value for ${place + 1}: EXECUTE gives {len(values)}")
        used.add(place)
        is_typed = place < len(types) and types[place].lower() != "unknown"
        text = f"({values[place]})::{types[place]}" if is_typed else values[place]
        return parse_expression(text)

    bound = map_trees(
        statement, lambda tree: transform_tree(tree, substitute) if tree.find(exp.Parameter) else tree
    )
    if len(values) > max(len(types), max(used, default=-1) + 1):
        raise ProgrammingError(f"EXECUTE gives {len(values)} values, the statement takes {len(used)}")
    if len(values) < len(types):
        raise ProgrammingError(f"EXECUTE gives {len(values)} values, the statement takes {len(types)}")
    return bound


ALL_ROWS: Final = 1 << 62
"""Count of FETCH ALL: more rows than any cursor has."""


def parse_declare(reader: Reader) -> ast.Declare:
    """Parse the rest of DECLARE."""
    name, scrolls, holds = reader.folded_name(), True, False
    while not reader.accept("CURSOR"):
        if reader.accept("NO", "SCROLL"):
            scrolls = False
        else:
            reader.expect_one_of("BINARY", "INSENSITIVE", "ASENSITIVE", "SCROLL")
    if reader.accept("WITH", "HOLD"):
        holds = True
    else:
        reader.accept("WITHOUT", "HOLD")
    reader.expect("FOR")
    tree, span = reader.query()
    return ast.Declare(name, Select(tree, span), scrolls, holds, reader.span)


def parse_fetch(reader: Reader, *, moves: bool) -> ast.Fetch:
    """Parse the rest of FETCH or MOVE."""
    direction, count = _parse_direction(reader)
    if not reader.accept("FROM"):
        reader.accept("IN")
    name = reader.folded_name()
    reader.expect_end()
    return ast.Fetch(name, direction, count, moves, reader.span)


def _parse_direction(reader: Reader) -> tuple[str, int]:
    for word, found in (
        ("NEXT", ("FORWARD", 1)),
        ("PRIOR", ("FORWARD", -1)),
        ("FIRST", ("ABSOLUTE", 1)),
        ("LAST", ("ABSOLUTE", -1)),
        ("ALL", ("FORWARD", ALL_ROWS)),
    ):
        if reader.accept(word):
            return found
    for word in ("ABSOLUTE", "RELATIVE"):
        if reader.accept(word):
            return word, reader.number()
    sign = -1 if reader.accept("BACKWARD") else 1
    if sign > 0:
        reader.accept("FORWARD")
    if reader.accept("ALL"):
        return "FORWARD", sign * ALL_ROWS
    plain = not reader.at_end and reader.tokens[reader.position].text.lstrip("+-").isdigit()
    signed = reader.at("-") or reader.at("+")
    return "FORWARD", sign * (reader.number() if plain or signed else 1)


def parse_close(reader: Reader) -> ast.Close:
    """Parse the rest of CLOSE."""
    name = "" if reader.accept("ALL") else reader.folded_name()
    reader.expect_end()
    return ast.Close(name, reader.span)


LOCK_MODES: Final = (
    "ACCESS SHARE",
    "ROW SHARE",
    "ROW EXCLUSIVE",
    "SHARE UPDATE EXCLUSIVE",
    "SHARE ROW EXCLUSIVE",
    "SHARE",
    "ACCESS EXCLUSIVE",
    "EXCLUSIVE",
)
"""Modes of LOCK TABLE."""


def parse_lock_table(reader: Reader) -> ast.LockTable:
    """Parse LOCK TABLE."""
    reader.expect("LOCK")
    reader.accept("TABLE")
    found: list[tuple[str, bool]] = []
    while not found or reader.accept(","):
        only = reader.accept("ONLY")
        found.append((reader.relation(), only))
        reader.accept("*")
    mode: str | None = "ACCESS EXCLUSIVE"
    if reader.accept("IN"):
        mode = next((one for one in LOCK_MODES if reader.accept(*one.split(), "MODE")), None)
        if mode is None:
            reader.fail_unexpected("a mode of locks")
    waits = not reader.accept("NOWAIT")
    reader.expect_end()
    return ast.LockTable(tuple(found), str(mode).title().replace(" ", "") + "Lock", waits, reader.span)


ROW_FORMATS = ("TEXT", "JSON")
PLAN_FORMATS: Final = ("TEXT", "XML", "JSON", "YAML")
EXPLAIN_FIELDS: Final = {
    "analyze": "analyze",
    "costs": "costs",
    "timing": "timing",
    "summary": "summary",
    "generic_plan": "generic",
}
"""Fields of ``ExplainOptions`` by option."""
IGNORED_EXPLAIN_OPTIONS: Final = ("verbose", "buffers", "wal", "settings")
"""Options that have no effect."""
QUERY_WORDS: Final = ("select", "with", "values", "table", "(")
"""First words of a query in parentheses."""
TRUE: Final = ("true", "on", "1")
FALSE: Final = ("false", "off", "0")


def parse_explain_options(tokens: list[Token], text: str) -> tuple[list[Token], ast.ExplainOptions]:
    """Return the options of EXPLAIN, and the tokens after them."""
    if tokens and tokens[0].text == "(" and len(tokens) > 1 and tokens[1].text.lower() not in QUERY_WORDS:
        return _parse_option_list(tokens, text)
    analyze = bool(tokens) and tokens[0].text.lower() in ("analyze", "analyse")
    tokens = tokens[1:] if analyze else tokens
    verbose = bool(tokens) and tokens[0].text.lower() == "verbose"
    return tokens[1:] if verbose else tokens, ast.ExplainOptions(analyze=analyze)


def _parse_option_list(tokens: list[Token], text: str) -> tuple[list[Token], ast.ExplainOptions]:
    values: dict[str, Any] = {}
    enabled: set[str] = set()
    place = 1
    while True:
        start, words = place, list[Token]()
        while place < len(tokens) and tokens[place].text not in (",", ")"):
            words.append(tokens[place])
            place += 1
        if place == len(tokens) or not 1 <= len(words) <= 2:
            raise _error("syntax error in the options of EXPLAIN", text, tokens[min(start, len(tokens) - 1)])
        _parse_explain_option(words, text, values, enabled)
        place += 1
        if tokens[place - 1].text == ")":
            break
    options = ast.ExplainOptions(**values)
    for name in ("wal", "timing"):
        if name in enabled and not options.analyze:
            _raise_invalid(f"EXPLAIN option {name.upper()} requires ANALYZE")
    if options.generic and options.analyze:
        _raise_invalid("EXPLAIN options ANALYZE and GENERIC_PLAN cannot be used together")
    return tokens[place:], options


def _parse_explain_option(words: list[Token], text: str, values: dict[str, Any], enabled: set[str]) -> None:
    """Parse one option; a later option overrides an earlier one of the same name."""
    name = words[0].text.lower().replace("analyse", "analyze")
    value = words[1].text if len(words) > 1 else ""
    if name == "format":
        if value.upper() not in PLAN_FORMATS:
            message = f'unrecognized value for EXPLAIN option "format": "{value.lower()}"'
            raise _error(message, text, words[0], "22023" if value else "42601")
        values["format"] = value.upper()
        return
    if name not in EXPLAIN_FIELDS and name not in IGNORED_EXPLAIN_OPTIONS:
        raise _error(f'unrecognized EXPLAIN option "{name}"', text, words[0])
    if value and value.lower() not in (*TRUE, *FALSE):
        raise _error(f"{name} requires a Boolean value", text)
    on = value.lower() not in FALSE
    enabled.discard(name)
    if on:
        enabled.add(name)
    if name in EXPLAIN_FIELDS:
        values[EXPLAIN_FIELDS[name]] = on


def _error(message: str, text: str, token: Token | None = None, state: str = "42601") -> ProgrammingError:
    span = None if token is None else Span(text, token.start, token.end + 1)
    error = ProgrammingError(message, span=span)
    error.sqlstate = state
    return error


def _raise_invalid(message: str) -> NoReturn:
    raise _error(message, "", state="22023")


def parse_explain_view(
    tokens: list[Token], stage: str, text: str, span: Span, options: ast.ExplainOptions
) -> ast.ExplainView | None:
    """Parse EXPLAIN [[MATERIALIZED] VIEW] name; None for a statement."""
    words = [token.text.lower() for token in tokens]
    keyword_count = 2 if words[:2] == ["materialized", "view"] else int(words[0] == "view")
    names = tokens[keyword_count:]
    is_name = keyword_count or (names and names[0].token_type in (TokenType.VAR, TokenType.IDENTIFIER))
    if not names or not is_name or any(token.text != "." for token in names[1::2]):
        return None
    place = Span(text, names[0].start, names[-1].end + 1)
    return ast.ExplainView(stage, Reader(names, text).relation(), place, span, options)


def parse_explain_row(reader: Reader) -> ast.ExplainRow | None:
    """Parse EXPLAIN ROW or EXPLAIN (ROW [, FORMAT JSON]); None for any other EXPLAIN."""
    reader.expect("EXPLAIN")
    as_json = False
    if reader.accept("(", "ROW"):
        while reader.accept(","):
            reader.expect("FORMAT")
            as_json = reader.expect_one_of(*ROW_FORMATS) == "JSON"
        reader.expect(")")
    elif not reader.accept("ROW"):
        return None
    reader.accept("FOR")
    place = reader.here()
    relation = reader.relation()
    where: exp.Expr | None = None
    found: list[exp.Expr] = []
    if reader.accept("WHERE"):
        where = reader.expression()
    else:
        reader.expect_one_of("VALUES")
        reader.expect("(")
        found = [reader.expression()]
        while reader.accept(","):
            found.append(reader.expression())
        reader.expect(")")
    reader.expect_end()
    return ast.ExplainRow(relation, place, tuple(found), where, as_json, reader.statement_span())


def matching_rows_query(statement: ast.ExplainRow, name: str, columns: Sequence[str]) -> ast.Select:
    """Return a query for the rows that EXPLAIN ROW names; NULL matches NULL."""
    query = exp.select("*").from_(exp.to_table(".".join(map(quote_name, name.split(".")))))
    for column, value in zip(columns, statement.values, strict=False):
        column_node = exp.column(exp.to_identifier(column, quoted=True))
        query = query.where(exp.NullSafeEQ(this=column_node, expression=value.copy()))
    if statement.where is not None:
        query = query.where(statement.where.copy())
    return ast.Select(query, statement.span)


def row_values_query(statement: ast.ExplainRow, types: Sequence[Type]) -> ast.Select:
    """Return a query for the values of the row that EXPLAIN ROW names."""
    pairs = zip(statement.values, types, strict=True)
    casts = [exp.cast(value.copy(), str(type_), dialect=Dialect()) for value, type_ in pairs]
    items = (exp.alias_(cast, f"c{number}") for number, cast in enumerate(casts))
    return ast.Select(exp.select(*items), statement.span)
