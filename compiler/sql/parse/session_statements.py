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
from kpg.compiler.sql.parse.parameters import rewritten
from kpg.compiler.sql.parse.reader import Reader, parsed_expression, setting_value
from kpg.compiler.sql.parse.statements import Select
from kpg.compiler.sql.parse.syntax import transformed
from kpg.runtime.errors import ProgrammingError, Span
from kpg.runtime.types import Type
from kpg.runtime.unsupported_features import SYNTAX, unsupported_syntax

Part = TypeVar("Part")

REFUSED: Final = {
    "SECURITY": "SECURITY LABEL",
    "IMPORT": "IMPORT FOREIGN SCHEMA",
    "LOAD": "LOAD",
}
ACCEPTED: Final = ("VACUUM", "ANALYZE", "ANALYSE", "REINDEX", "CLUSTER", "CHECKPOINT", "DISCARD", "REFRESH")
"""What has little or nothing to do here."""
MODES: Final = (
    "ISOLATION LEVEL SERIALIZABLE",
    "ISOLATION LEVEL REPEATABLE READ",
    "ISOLATION LEVEL READ COMMITTED",
    "ISOLATION LEVEL READ UNCOMMITTED",
    "READ WRITE",
    "READ ONLY",
    "NOT DEFERRABLE",
    "DEFERRABLE",
)


def read(word: str, reader: Reader) -> statements.Statement | None:
    """A statement that begins with the word; None if it is read elsewhere."""
    if word in ACCEPTED:
        return accepted(reader)
    if word == "LOCK":
        return locked(reader)
    if word in ("GRANT", "REVOKE", "REASSIGN"):
        return roles.owned(reader, word) if reader.take("REASSIGN", "OWNED", "BY") else roles.grant(reader)
    if word in REFUSED:
        reader.refuse(REFUSED[word])
    if word in SYNTAX:
        raise unsupported_syntax(word, reader.here())
    if word in ("LISTEN", "UNLISTEN", "NOTIFY"):
        return _channel(word, reader)
    if word in ("SET", "RESET", "SHOW"):
        return setting(reader)
    if word in ("PREPARE", "EXECUTE", "DEALLOCATE"):
        return prepared(reader)
    if reader.take("DECLARE") or reader.take("FETCH") or reader.take("MOVE") or reader.take("CLOSE"):
        if word == "DECLARE":
            return declare(reader)
        return close(reader) if word == "CLOSE" else fetch(reader, moves=word == "MOVE")
    return transaction(reader)


def _channel(word: str, reader: Reader) -> statements.Statement:
    """LISTEN channel, UNLISTEN channel or *, NOTIFY channel [, 'payload']."""
    span = reader.span
    reader.need(word)
    if word == "UNLISTEN" and reader.take("*"):
        reader.end()
        return ast.Listen("", False, span)
    quoted = not reader.done and reader.tokens[reader.place].token_type is TokenType.IDENTIFIER
    name = reader.name()
    channel = name if quoted else name.lower()
    if word == "NOTIFY":
        payload = reader.string() if reader.take(",") else ""
        reader.end()
        return ast.Notify(channel, payload, span)
    reader.end()
    return ast.Listen(channel, word == "LISTEN", span)


def transaction(reader: Reader) -> statements.Statement | None:
    """BEGIN, COMMIT, ROLLBACK, SAVEPOINT and their like; None for another statement."""
    span = reader.span
    if reader.take("BEGIN") or reader.take("START", "TRANSACTION"):
        _noise(reader)
        _, read_only = _modes(reader)
        found: statements.Statement = statements.Begin(span, read_only)
    elif reader.take("SAVEPOINT"):
        found = ast.Savepoint("SAVE", reader.name(), span)
    elif reader.take("RELEASE"):
        reader.take("SAVEPOINT")
        found = ast.Savepoint("RELEASE", reader.name(), span)
    elif reader.take("COMMIT") or reader.take("END"):
        _noise(reader)
        _prepared(reader)
        found = statements.Commit(span, _chain(reader))
    elif reader.take("ROLLBACK") or reader.take("ABORT"):
        _noise(reader)
        _prepared(reader)
        if reader.take("TO"):
            reader.take("SAVEPOINT")
            found = ast.Savepoint("RETURN", reader.name(), span)
        else:
            found = statements.Rollback(span, _chain(reader))
    else:
        return None
    reader.end()
    return found


def _modes(reader: Reader) -> tuple[str, bool | None]:
    """Modes of a transaction: the level of its isolation, and whether it is READ ONLY."""
    level, read_only = "", None
    while (mode := next((one for one in MODES if reader.take(*one.split())), "")) != "":
        reader.take(",")
        if mode.startswith("READ"):
            read_only = mode == "READ ONLY"
        elif mode.startswith("ISOLATION"):
            level = mode.removeprefix("ISOLATION LEVEL ").lower()
    return level, read_only


def _noise(reader: Reader) -> None:
    if not reader.take("WORK"):
        reader.take("TRANSACTION")


def _prepared(reader: Reader) -> None:
    if reader.at("PREPARED"):
        reader.refuse("a prepared transaction")


def _chain(reader: Reader) -> bool:
    """Whether another transaction is to begin."""
    return reader.take("AND", "CHAIN") or (reader.take("AND", "NO", "CHAIN") and False)


def setting(reader: Reader) -> statements.Statement | None:
    """SET, RESET and SHOW; None for SHOW TABLES."""
    span = reader.span
    if reader.take("SET", "CONSTRAINTS"):
        names = () if reader.take("ALL") else reader.relations()
        deferred = reader.choice("DEFERRED", "IMMEDIATE") == "DEFERRED"
        reader.end()
        return ast.SetConstraints(tuple(name.rpartition(".")[2] for name in names), deferred, span)
    for words, whole in (("ROLE", False), ("SESSION AUTHORIZATION", True)):
        if reader.take("RESET", *words.split()):
            reader.end()
            return ast.SetRole("", whole, False, span)
    if reader.take("RESET"):
        name = "" if reader.take("ALL") else _setting_name(reader)
        reader.end()
        return ast.Set(name, (), span)
    if reader.take("SHOW"):
        name = _setting_name(reader)
        reader.end()
        return ast.Show(name, span)
    reader.need("SET")
    session = reader.take("SESSION", "CHARACTERISTICS", "AS", "TRANSACTION")
    if session or reader.take("TRANSACTION"):
        shared = reader.string() if not session and reader.take("SNAPSHOT") else ""
        level, read_only = ("", None) if shared else _modes(reader)
        reader.end()
        return ast.SetTransaction(level, read_only, session, span, shared)
    if reader.take("POSITION"):
        return _position(reader, span)
    whole = reader.take("SESSION", "AUTHORIZATION")
    local = not whole and not reader.take("SESSION") and reader.take("LOCAL")
    whole = whole or reader.take("SESSION", "AUTHORIZATION")
    if whole or (reader.take("ROLE") and not (reader.at("=") or reader.at("TO"))):
        return _role(reader, whole, local, span)
    return _set(reader, span, local=local)


def _set(reader: Reader, span: Span, *, local: bool) -> ast.Set:
    """A setting and its values."""
    name = _setting_name(reader)
    plain = name in ("timezone", "schema", "client_encoding") and not (reader.at("=") or reader.at("TO"))
    if not plain and not reader.take("="):
        reader.need("TO")
    values = []
    while not reader.done:
        values.append(setting_value(reader))
        if not reader.take(","):
            break
    reader.end()
    if not values:
        reader.unexpected("a value")
    given = () if values == ["DEFAULT"] else tuple(values)
    return ast.Set("search_path" if name == "schema" else name, given, span, local)


def _role(reader: Reader, whole: bool, local: bool, span: Span) -> statements.Statement:
    """SET ROLE and SET SESSION AUTHORIZATION, of which the name is next."""
    if reader.take("NONE") or reader.take("DEFAULT"):
        name = ""
    elif not reader.done and reader.tokens[reader.place].token_type is TokenType.STRING:
        name = reader.string()
    else:
        name = roles.role(reader)
    reader.end()
    return ast.SetRole(name, whole, local, span)


def _position(reader: Reader, span: Span) -> statements.Statement:
    """SET POSITION source = position."""
    source = reader.operand()
    if not reader.take("="):
        reader.need("TO")
    position = reader.expression()
    reader.end()
    return ast.SetPosition(source, position, span)


def _setting_name(reader: Reader) -> str:
    if reader.take("TIME", "ZONE"):
        return "timezone"
    if reader.take("TRANSACTION", "ISOLATION", "LEVEL"):
        return "transaction_isolation"
    if reader.take("NAMES"):
        return "client_encoding"
    parts = [reader.tokens[reader.place].text if not reader.done else reader.name()]
    reader.skip(1)
    while reader.take("."):
        parts.append(reader.name())
    return ".".join(parts).lower()


def accepted(reader: Reader) -> statements.Statement:
    """VACUUM and its like."""
    what = reader.choice(*ACCEPTED)
    relations: tuple[str, ...] = ()
    part = ""
    if what == "DISCARD":
        part = reader.choice("ALL", "PLANS", "SEQUENCES", "TEMPORARY", "TEMP").replace("TEMPORARY", "TEMP")
    if what == "REINDEX":
        part, relations = _reindexed(reader)
    if what == "REFRESH":
        reader.need("MATERIALIZED", "VIEW")
        reader.take("CONCURRENTLY")
        relations = (reader.relation(),)
        if reader.at("WITH", "NO", "DATA"):
            reader.refuse("a view WITH NO DATA", "a materialized view is always up to date")
        reader.take("WITH", "DATA")
        reader.end()
    if what in ("ANALYZE", "ANALYSE", "VACUUM"):
        said, relations = _with_options(reader, what.replace("ANALYSE", "ANALYZE"))
        part = "ANALYZE" if what == "VACUUM" and _is_on(said, "ANALYZE") else part
    if what == "CLUSTER":
        if reader.at("("):
            storage_parameters.options(reader, what, ("verbose",))
        reader.take("VERBOSE")
        relations = () if reader.done else (reader.relation(),)
        if reader.take("USING") or reader.take("ON"):
            reader.relation()
    reader.end()
    return ast.Accepted(what, relations, reader.span, part)


MAINTENANCE: Final = {
    "ANALYZE": ("verbose", "skip_locked", "buffer_usage_limit"),
    "VACUUM": (
        *("full", "freeze", "verbose", "analyze", "disable_page_skipping", "skip_locked", "index_cleanup"),
        *("process_main", "process_toast", "truncate", "parallel", "skip_database_stats"),
        *("only_database_stats", "buffer_usage_limit"),
    ),
    "REINDEX": ("concurrently", "tablespace", "verbose"),
}
"""The options in parentheses of statements that have little or nothing to do here."""
OPTIONS = ("FULL", "FREEZE", "VERBOSE", "ANALYZE", "ANALYSE", "TABLE", "ONLY")


def _with_options(reader: Reader, what: str) -> tuple[list[str], tuple[str, ...]]:
    """The words of options, and the relations behind them."""
    start = reader.place
    if reader.at("("):
        storage_parameters.options(reader, what, MAINTENANCE[what])
    while any(reader.take(word) for word in OPTIONS):
        pass
    tokens, found = reader.tokens[start : reader.place], list[str]()
    while not reader.done:
        found.append(reader.relation())
        if reader.at("("):
            reader.names()
        if not reader.take(","):
            break
    return [token.text.upper().replace("ANALYSE", "ANALYZE") for token in tokens], tuple(found)


def _is_on(said: list[str], option: str) -> bool:
    """Whether an option is among those said, and not with a word behind it that turns it off."""
    places = [place for place, word in enumerate(said) if word == option]
    return any(not {*said[place + 1 : place + 2]} & {"OFF", "FALSE", "0"} for place in places)


def _reindexed(reader: Reader) -> tuple[str, tuple[str, ...]]:
    """What REINDEX is about."""
    if reader.at("("):
        storage_parameters.options(reader, "REINDEX", MAINTENANCE["REINDEX"])
    part = reader.choice("TABLE", "INDEX", "SCHEMA", "DATABASE", "SYSTEM")
    reader.take("CONCURRENTLY")
    return part, () if reader.done else (reader.relation(),)


def executed(reader: Reader) -> ast.Execute:
    """EXECUTE within another statement: what stands around it is kept as text."""
    before = reader.text[reader.span.start : reader.here().start]
    found = prepared(reader, wholly=False)
    assert isinstance(found, ast.Execute)
    return replace(found, around=(before, found.around[1]))


def prepared(reader: Reader, *, wholly: bool = True) -> statements.Statement | None:
    """PREPARE, EXECUTE and DEALLOCATE; None for another statement."""
    span = reader.span
    if reader.take("PREPARE"):
        if reader.at("TRANSACTION"):
            reader.refuse("a prepared transaction")
        name = reader.folded()
        types = _declared(reader)
        reader.need("AS")
        tokens = reader.rest()
        if not tokens:
            reader.unexpected("a statement")
        return ast.Prepare(name, types, reader.text[tokens[0].start : span.end], span)
    if reader.take("EXECUTE"):
        name = reader.folded()
        values: list[str] = []
        if reader.take("("):
            while not reader.at(")"):
                values.append(reader.condition())
                if not reader.take(","):
                    break
            reader.need(")")
        behind = ""
        if wholly:
            reader.end()
        elif not reader.done:
            behind = " " + reader.text[reader.here().start : span.end]
            reader.skip(len(reader.rest()))
        return ast.Execute(name, tuple(values), span, ("", behind))
    if reader.take("DEALLOCATE"):
        reader.take("PREPARE")
        name = "" if reader.take("ALL") else reader.folded()
        reader.end()
        return ast.Deallocate(name, span)
    return None


def _declared(reader: Reader) -> tuple[str, ...]:
    """The types of a prepared statement's parameters, as texts."""
    types: list[str] = []
    if reader.take("("):
        while not reader.at(")"):
            start = reader.place
            reader.type()
            last = reader.tokens[reader.place - 1]
            types.append(reader.text[reader.tokens[start].start : last.end + 1])
            if not reader.take(","):
                break
        reader.need(")")
    return tuple(types)


def with_values(statement: Part, values: tuple[str, ...], types: tuple[str, ...]) -> Part:
    """A prepared statement with expressions in the place of $1, $2, ...; of the types that were declared."""
    used: set[int] = set()

    def given(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Parameter) or not node.name.isdigit():
            return node
        place = int(node.name) - 1
        if not 0 <= place < len(values):
            raise ProgrammingError(f"no value for ${place + 1}: EXECUTE gives {len(values)}")
        used.add(place)
        known = place < len(types) and types[place].lower() != "unknown"
        text = f"({values[place]})::{types[place]}" if known else values[place]
        return parsed_expression(text)

    bound = rewritten(statement, lambda tree: transformed(tree, given) if tree.find(exp.Parameter) else tree)
    if len(values) > max(len(types), max(used, default=-1) + 1):
        raise ProgrammingError(f"EXECUTE gives {len(values)} values, the statement takes {len(used)}")
    if len(values) < len(types):
        raise ProgrammingError(f"EXECUTE gives {len(values)} values, the statement takes {len(types)}")
    return bound


ALL: Final = 1 << 62
"""More rows than there are."""


def declare(reader: Reader) -> ast.Declare:
    """What follows DECLARE."""
    name, scrolls, holds = reader.folded(), True, False
    while not reader.take("CURSOR"):
        if reader.take("NO", "SCROLL"):
            scrolls = False
        else:
            reader.choice("BINARY", "INSENSITIVE", "ASENSITIVE", "SCROLL")
    if reader.take("WITH", "HOLD"):
        holds = True
    else:
        reader.take("WITHOUT", "HOLD")
    reader.need("FOR")
    tree, span = reader.query()
    return ast.Declare(name, Select(tree, span), scrolls, holds, reader.span)


def fetch(reader: Reader, *, moves: bool) -> ast.Fetch:
    """What follows FETCH or MOVE."""
    direction, count = _direction(reader)
    if not reader.take("FROM"):
        reader.take("IN")
    name = reader.folded()
    reader.end()
    return ast.Fetch(name, direction, count, moves, reader.span)


def _direction(reader: Reader) -> tuple[str, int]:
    for word, found in (
        ("NEXT", ("FORWARD", 1)),
        ("PRIOR", ("FORWARD", -1)),
        ("FIRST", ("ABSOLUTE", 1)),
        ("LAST", ("ABSOLUTE", -1)),
        ("ALL", ("FORWARD", ALL)),
    ):
        if reader.take(word):
            return found
    for word in ("ABSOLUTE", "RELATIVE"):
        if reader.take(word):
            return word, reader.number()
    sign = -1 if reader.take("BACKWARD") else 1
    if sign > 0:
        reader.take("FORWARD")
    if reader.take("ALL"):
        return "FORWARD", sign * ALL
    plain = not reader.done and reader.tokens[reader.place].text.lstrip("+-").isdigit()
    signed = reader.at("-") or reader.at("+")
    return "FORWARD", sign * (reader.number() if plain or signed else 1)


def close(reader: Reader) -> ast.Close:
    """What follows CLOSE."""
    name = "" if reader.take("ALL") else reader.folded()
    reader.end()
    return ast.Close(name, reader.span)


LEVELS: Final = (
    "ACCESS SHARE",
    "ROW SHARE",
    "ROW EXCLUSIVE",
    "SHARE UPDATE EXCLUSIVE",
    "SHARE ROW EXCLUSIVE",
    "SHARE",
    "ACCESS EXCLUSIVE",
    "EXCLUSIVE",
)
"""The modes of LOCK TABLE."""


def locked(reader: Reader) -> ast.LockTable:
    """LOCK TABLE."""
    reader.need("LOCK")
    reader.take("TABLE")
    found: list[tuple[str, bool]] = []
    while not found or reader.take(","):
        only = reader.take("ONLY")
        found.append((reader.relation(), only))
        reader.take("*")
    level: str | None = "ACCESS EXCLUSIVE"
    if reader.take("IN"):
        level = next((one for one in LEVELS if reader.take(*one.split(), "MODE")), None)
        if level is None:
            reader.unexpected("a mode of locks")
    waits = not reader.take("NOWAIT")
    reader.end()
    return ast.LockTable(tuple(found), str(level).title().replace(" ", "") + "Lock", waits, reader.span)


FORMATS = ("TEXT", "JSON")
PLAN_FORMATS: Final = ("TEXT", "XML", "JSON", "YAML")
FIELDS: Final = {
    "analyze": "analyze",
    "costs": "costs",
    "timing": "timing",
    "summary": "summary",
    "generic_plan": "generic",
}
"""Options with a meaning here, and what ``Explaining`` calls them."""
IDLE: Final = ("verbose", "buffers", "wal", "settings")
"""Options that are taken, and change nothing."""
QUERIES: Final = ("select", "with", "values", "table", "(")
"""What a query in parentheses begins with."""
TRUE: Final = ("true", "on", "1")
FALSE: Final = ("false", "off", "0")


def explaining(tokens: list[Token], text: str) -> tuple[list[Token], ast.Explaining]:
    """What the options behind EXPLAIN say, and the tokens that follow them."""
    if tokens and tokens[0].text == "(" and len(tokens) > 1 and tokens[1].text.lower() not in QUERIES:
        return _listed(tokens, text)
    analyze = bool(tokens) and tokens[0].text.lower() in ("analyze", "analyse")
    tokens = tokens[1:] if analyze else tokens
    verbose = bool(tokens) and tokens[0].text.lower() == "verbose"
    return tokens[1:] if verbose else tokens, ast.Explaining(analyze=analyze)


def _listed(tokens: list[Token], text: str) -> tuple[list[Token], ast.Explaining]:
    said: dict[str, Any] = {}
    needing: set[str] = set()
    place = 1
    while True:
        start, words = place, list[Token]()
        while place < len(tokens) and tokens[place].text not in (",", ")"):
            words.append(tokens[place])
            place += 1
        if place == len(tokens) or not 1 <= len(words) <= 2:
            raise _wrong("syntax error in the options of EXPLAIN", text, tokens[min(start, len(tokens) - 1)])
        _option(words, text, said, needing)
        place += 1
        if tokens[place - 1].text == ")":
            break
    how = ast.Explaining(**said)
    for name in ("wal", "timing"):
        if name in needing and not how.analyze:
            _invalid(f"EXPLAIN option {name.upper()} requires ANALYZE")
    if how.generic and how.analyze:
        _invalid("EXPLAIN options ANALYZE and GENERIC_PLAN cannot be used together")
    return tokens[place:], how


def _option(words: list[Token], text: str, said: dict[str, Any], needing: set[str]) -> None:
    """Note one option, the last word on which counts, and whether it is on."""
    name = words[0].text.lower().replace("analyse", "analyze")
    value = words[1].text if len(words) > 1 else ""
    if name == "format":
        if value.upper() not in PLAN_FORMATS:
            message = f'unrecognized value for EXPLAIN option "format": "{value.lower()}"'
            raise _wrong(message, text, words[0], "22023" if value else "42601")
        said["format"] = value.upper()
        return
    if name not in FIELDS and name not in IDLE:
        raise _wrong(f'unrecognized EXPLAIN option "{name}"', text, words[0])
    if value and value.lower() not in (*TRUE, *FALSE):
        raise _wrong(f"{name} requires a Boolean value", text)
    on = value.lower() not in FALSE
    needing.discard(name)
    if on:
        needing.add(name)
    if name in FIELDS:
        said[FIELDS[name]] = on


def _wrong(message: str, text: str, token: Token | None = None, state: str = "42601") -> ProgrammingError:
    span = None if token is None else Span(text, token.start, token.end + 1)
    error = ProgrammingError(message, span=span)
    error.sqlstate = state
    return error


def _invalid(message: str) -> NoReturn:
    raise _wrong(message, "", state="22023")


def viewed(
    rest: list[Token], stage: str, text: str, span: Span, how: ast.Explaining
) -> ast.ExplainView | None:
    """EXPLAIN [[MATERIALIZED] VIEW] name; None if it is of a statement."""
    words = [token.text.lower() for token in rest]
    named = 2 if words[:2] == ["materialized", "view"] else int(words[0] == "view")
    names = rest[named:]
    is_name = named or (names and names[0].token_type in (TokenType.VAR, TokenType.IDENTIFIER))
    if not names or not is_name or any(token.text != "." for token in names[1::2]):
        return None
    place = Span(text, names[0].start, names[-1].end + 1)
    return ast.ExplainView(stage, Reader(names, text).relation(), place, span, how)


def explain_row(reader: Reader) -> ast.ExplainRow | None:
    """EXPLAIN ROW or EXPLAIN (ROW [, FORMAT JSON]) of a relation's row; None for any other EXPLAIN."""
    reader.need("EXPLAIN")
    as_json = False
    if reader.take("(", "ROW"):
        while reader.take(","):
            reader.need("FORMAT")
            as_json = reader.choice(*FORMATS) == "JSON"
        reader.need(")")
    elif not reader.take("ROW"):
        return None
    reader.take("FOR")
    place = reader.here()
    relation = reader.relation()
    where: exp.Expr | None = None
    found: list[exp.Expr] = []
    if reader.take("WHERE"):
        where = reader.expression()
    else:
        reader.choice("VALUES")
        reader.need("(")
        found = [reader.expression()]
        while reader.take(","):
            found.append(reader.expression())
        reader.need(")")
    reader.end()
    return ast.ExplainRow(relation, place, tuple(found), where, as_json, reader.span)


def meant_rows(statement: ast.ExplainRow, name: str, columns: Sequence[str]) -> ast.Select:
    """The query of the rows of a relation that the statement means; NULL means NULL."""
    query = exp.select("*").from_(exp.to_table(".".join(map(quote_name, name.split(".")))))
    for column, value in zip(columns, statement.values, strict=False):
        named = exp.column(exp.to_identifier(column, quoted=True))
        query = query.where(exp.NullSafeEQ(this=named, expression=value.copy()))
    if statement.where is not None:
        query = query.where(statement.where.copy())
    return ast.Select(query, statement.span)


def meant_values(statement: ast.ExplainRow, types: Sequence[Type]) -> ast.Select:
    """The values of the row that is meant, as a query."""
    pairs = zip(statement.values, types, strict=True)
    casts = [exp.cast(value.copy(), str(type_), dialect=Dialect()) for value, type_ in pairs]
    named = (exp.alias_(one, f"c{number}") for number, one in enumerate(casts))
    return ast.Select(exp.select(*named), statement.span)
