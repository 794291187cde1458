"""Script text to statements, by sqlglot's tokenizer and Postgres parser.

Syntax that kpg does not support is refused with its name and position, never ignored. On a syntax error,
:func:`hinted` suggests the mistyped word, or says that the text is Datalog.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from kpg.compiler.catalog.entries import did_you_mean
from kpg.compiler.sql.parse import dml, tables
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.dml import change, is_modifying, modifying, overriding, target
from kpg.compiler.sql.parse.reader import Reader, tree_of
from kpg.compiler.sql.parse.statements import Accepted, Declare
from kpg.compiler.sql.parse.syntax import construct_name, only
from kpg.compiler.sql.parse.tokenizer import tokenize
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span, no_text
from kpg.runtime.unsupported_features import unsupported_syntax

STAGES: Final = ("ast", "logical", "magic", "steps", "optimized", "physical", "arrangements")
PARTS: Final = (TokenType.DOT, TokenType.L_BRACKET)
LIST: Final = 400
"""How many tokens of an INSERT are looked at for parts of columns in its list."""
SESSION: Final = frozenset(
    [
        "begin",
        "start",
        "commit",
        "end",
        "rollback",
        "abort",
        "savepoint",
        "release",
        "set",
        "reset",
        "show",
        "prepare",
        "execute",
        "deallocate",
        "vacuum",
        "analyze",
        "analyse",
        "reindex",
        "cluster",
        "checkpoint",
        "lock",
        "discard",
        "do",
        "call",
        "listen",
        "notify",
        "unlisten",
        "grant",
        "revoke",
        "refresh",
        "declare",
        "fetch",
        "move",
        "close",
        "security",
        "import",
        "reassign",
        "load",
    ]
)
"""What statements about the session begin with."""
DEFINING: Final = ("create", "alter", "drop", "truncate", "comment")
"""What statements that define things begin with."""


def parse(text: str) -> list[ast.Statement]:
    """The statements of a script; ProgrammingError on a syntax error, NotSupportedError by construct."""
    if "\0" in text:
        raise no_text()
    if "stdin" not in text and "STDIN" not in text:
        return parse_as(text, text)
    from kpg.compiler.sql.parse.copy import with_data, without_data  # lazy: COPY

    written, blocks = without_data(text)
    found = parse_as(written, text)
    return with_data(found, blocks) if blocks else found


def parse_as(written: str, text: str) -> list[ast.Statement]:
    """As :func:`parse`, of a text that stands for another of the same length, whose places are told."""
    try:
        return [_statement(tokens, text) for tokens in _split(written)]
    except (ProgrammingError, NotSupportedError) as error:
        raise hinted(error, text) from error.__cause__


def parse_query(text: str) -> ast.Select:
    """The one query that the text must be."""
    found = parse(text)
    if len(found) != 1 or not isinstance(found[0], ast.Select):
        raise ProgrammingError("expected one query", span=Span(text, 0, len(text)))
    return found[0]


def _split(text: str) -> Iterator[list[Token]]:
    chunk: list[Token] = []
    depth = 0
    for token in tokenize(text):
        depth += _opens(chunk, token, depth)
        if depth or token.token_type is not TokenType.SEMICOLON:
            chunk.append(token)
        elif chunk:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _opens(before: list[Token], token: Token, depth: int) -> int:
    """By how much a token goes deeper into the body of a function that has statements."""
    word = token.text.upper()
    if word == "ATOMIC":
        return int(bool(before) and before[-1].text.upper() == "BEGIN")
    if depth and token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER):
        return (word == "CASE") - (word == "END")
    return 0


def _statement(tokens: list[Token], text: str) -> ast.Statement:
    words = [token.text.lower() for token in tokens]
    span = Span(text, tokens[0].start, tokens[-1].end + 1)
    if "of" in words and (found := _then(tokens, text)) is not None:
        return found
    match words:
        case ["explain", "row" | "(", *_] if (row := _explain_row(words, tokens, text)) is not None:
            return row
        case ["explain", *_]:
            return _explain(tokens, text, span)
        case ["verify", "view", *_]:
            return _verify(tokens, text, span)
        case ["show", "tables"]:
            return ast.ShowTables(span)
        case [word, *_] if word in SESSION and (found := _session(word, Reader(tokens, text))) is not None:
            return found
        case ["create", *_] if (found := tables.create(Reader(tokens, text))) is not None:
            return found
        case [word, *_] if word in DEFINING and (found := _defining(word, Reader(tokens, text))) is not None:
            return found
        case ["replace", "into", *_]:
            # MySQL's way to write it.
            first = tokens[0]
            made = [Token(TokenType.INSERT, "INSERT", first.line, first.col, first.start, first.end)]
            inserted = _convert(_tree([*made, *tokens[1:]], text), text, span)
            return replace(inserted, alternative="REPLACE") if isinstance(inserted, ast.Insert) else inserted
        case ["copy", *_]:
            from kpg.compiler.sql.parse.copy import copy  # lazy: COPY

            return copy(Reader(tokens, text))
        case ["insert", *_]:
            return _inserted(tokens, text, span)
        case ["update" | "delete", *_] if "current" in words:
            tokens, cursor = dml.without_cursor(tokens)
            changed = _convert(_tree(tokens, text), text, span)
            if cursor and isinstance(changed, ast.Update | ast.Delete):
                return replace(changed, cursor=cursor)
            return changed
        case _:
            return _convert(_tree(tokens, text), text, span)


def _inserted(tokens: list[Token], text: str, span: Span) -> ast.Statement:
    given, tokens = overriding(tokens)
    listed: list[exp.Expr] = []
    if any(token.token_type in PARTS for token in tokens[:LIST]):
        tokens, listed = dml.split(tokens, text)
    inserted = _convert(_tree(tokens, text), text, span)
    if not isinstance(inserted, ast.Insert):
        return inserted
    inserted = replace(inserted, overriding=given)
    return dml.combined(inserted, listed) if listed else inserted


def _then(tokens: list[Token], text: str) -> ast.Statement | None:
    """A query with AS OF; None if there is none."""
    from kpg.compiler.sql.parse.as_of import HINT, marked, split  # lazy: AS OF

    if tokens[0].text.lower() in ("explain", "prepare"):
        return None
    within = marked(tokens, text)
    before, then = split(within, text)
    if then is None and within is tokens:
        return None
    statement = _statement(before, text)
    if then is None:
        if isinstance(statement, ast.Select | ast.Insert | ast.CreateTableAs):
            return statement
        span = Span(text, tokens[0].start, tokens[-1].end + 1)
        what = "AS OF within anything but a query that is asked once"
        raise NotSupportedError(f"{what} is not supported", span=span, hint=HINT)
    if within is not tokens:
        raise NotSupportedError("AS OF within a query AS OF is not supported", span=then.span, hint=HINT)
    if isinstance(statement, ast.Select):
        return replace(statement, then=then)
    plain = isinstance(statement, ast.Insert) and statement.conflict is None and not statement.returning
    if isinstance(statement, ast.CreateTableAs) or (isinstance(statement, ast.Insert) and plain):
        return replace(statement, query=replace(statement.query, then=then))
    raise NotSupportedError("AS OF of anything but a query is not supported", span=then.span, hint=HINT)


def _defining(word: str, reader: Reader) -> ast.Statement | None:
    """A statement that begins with one of DEFINING; None if it is read elsewhere."""
    from kpg.compiler.sql.parse import ddl  # lazy: four modules, 25 ms, that no table or view needs

    return ddl.read(word, reader)


def _session(word: str, reader: Reader) -> ast.Statement | None:
    """A statement that begins with one of SESSION; None if it is read elsewhere."""
    from kpg.compiler.sql.parse import session_statements  # lazy: statements about the session

    return session_statements.read(word.upper(), reader)


def _verify(tokens: list[Token], text: str, span: Span) -> ast.VerifyView:
    rest = tokens[2:]
    if len(rest) != 1:
        place = Span(text, rest[1].start, tokens[-1].end + 1) if rest else span
        raise ProgrammingError("VERIFY VIEW takes the name of one view", span=place)
    return ast.VerifyView(rest[0].text, span)


def _explain(tokens: list[Token], text: str, span: Span) -> ast.Statement:
    from kpg.compiler.sql.parse import session_statements  # lazy: statements about the session

    rest, how = session_statements.explaining(tokens[1:], text)
    stage = "physical"
    if rest and rest[0].text.lower() in STAGES:
        stage = rest[0].text.lower()
        rest = rest[1:]
    if not rest:
        raise ProgrammingError("EXPLAIN needs a query", span=span)
    if (viewed := session_statements.viewed(rest, stage, text, span, how)) is not None:
        return viewed
    if rest[0].text.lower() == "execute":
        reader = Reader(tokens, text)
        reader.skip(len(tokens) - len(rest))
        return session_statements.executed(reader)
    statement = _statement(rest, text)
    if isinstance(statement, Declare) and isinstance(statement.query, ast.Select):
        statement = statement.query
    if isinstance(statement, Accepted) and statement.what == "REFRESH":
        return ast.ExplainView(stage, statement.relations[0], statement.span, span, how)
    if isinstance(statement, ast.Explained | ast.Modifying):
        if how.generic:
            from kpg.compiler.sql.parse.generic_plans import without_values  # lazy: GENERIC_PLAN

            statement = without_values(statement)
        return ast.Explain(stage, statement, span, how)
    raise NotSupportedError(
        "EXPLAIN of anything but a query or a change is not supported", span=statement.span
    )


def _explain_row(words: list[str], tokens: list[Token], text: str) -> ast.Statement | None:
    """EXPLAIN of a row; None if it is of a query."""
    if words[1] == "(" and words[2:3] != ["row"]:
        return None
    from kpg.compiler.sql.parse.session_statements import explain_row  # lazy: EXPLAIN

    return explain_row(Reader(tokens, text))


def _tree(tokens: list[Token], text: str) -> exp.Expr:
    return tree_of(tokens, text)


def _convert(tree: exp.Expr, text: str, span: Span) -> ast.Statement:
    match tree:
        case _ if is_modifying(tree):
            return modifying(tree, text, span)
        case exp.Query() if (into := _into(tree)) is not None:
            return _select_into(tree, into, text, span)
        case exp.Query() | exp.Values():
            return ast.Select(tree, span)
        case exp.Create() | exp.Drop():
            raise NotSupportedError(f"{tree.key.upper()} {tree.args.get('kind')} is not supported", span=span)
        case exp.Insert() | exp.Update() | exp.Delete() | exp.Merge():
            return change(tree, text, span)
        case exp.Describe():
            only(tree, text, "this")
            return ast.Describe(target(tree.this, text)[0], span)
        case exp.Command():
            raise NotSupportedError(f"{tree.name.upper()} is not supported", span=span)
        case exp.Column() | exp.Alias() | exp.Identifier():
            word = text[span.start : span.end].split()[0]
            place = Span(text, span.start, span.start + len(word))
            raise ProgrammingError(f'syntax error at "{word}"', span=place, hint="expected a statement")
        case _:
            raise NotSupportedError(f"{construct_name(tree)} is not supported", span=span)


def _into(tree: exp.Expr) -> exp.Expr | None:
    """The INTO of a query: of its first SELECT."""
    while isinstance(tree, exp.SetOperation | exp.Subquery):
        tree = tree.this
    return tree.args.get("into")


def _select_into(tree: exp.Expr, into: exp.Expr, text: str, span: Span) -> ast.CreateTableAs:
    """SELECT ... INTO table as CREATE TABLE AS."""
    only(into, text, "this", "temporary", "unlogged")
    query = tree.copy()
    found = _into(query)
    assert found is not None
    found.pop()
    name = target(into.this, text)[0]
    temporary = bool(into.args.get("temporary"))
    return ast.CreateTableAs(name, (), ast.Select(query, span), False, span, temporary=temporary)


WORDS: Final = (
    *(
        "SELECT",
        "INSERT",
        "UPDATE",
        "DELETE",
        "MERGE",
        "CREATE",
        "DROP",
        "ALTER",
        "TRUNCATE",
        "WITH",
        "VALUES",
    ),
    *("EXPLAIN", "COPY", "BEGIN", "COMMIT", "ROLLBACK", "SHOW", "DESCRIBE", "VERIFY", "COMMENT", "REFRESH"),
    *("GRANT", "REVOKE", "PREPARE", "EXECUTE", "DEALLOCATE", "DECLARE", "FETCH", "SUBSCRIBE", "SET"),
)
"""What most statements begin with."""
INNER: Final = (
    *(
        "FROM",
        "WHERE",
        "GROUP",
        "ORDER",
        "HAVING",
        "LIMIT",
        "OFFSET",
        "JOIN",
        "LEFT",
        "RIGHT",
        "CROSS",
        "UNION",
    ),
    *("DISTINCT", "BETWEEN", "VALUES", "INTO", "TABLE", "VIEW", "MATERIALIZED", "INDEX", "COLUMN", "PRIMARY"),
    *("REFERENCES", "RETURNING", "PARTITION", "USING", "WHEN", "THEN", "ELSE"),
)
"""What is mistyped within them, and then taken for a name: the word behind is where it shows."""
ALIKE: Final = 0.75
"""As `form` is like FROM; names of columns are less like words of SQL, mostly."""
CLOSE: Final = 0.8
"""As `selct` is to SELECT, and RESET is not to SET."""
SKIPPED: Final = re.compile(r"(?:\s+|--[^\n]*|/\*.*?\*/)*", re.DOTALL)
FIRST: Final = re.compile(r"[A-Za-z_]+")
LAST: Final = re.compile(r"(?<![\w.\"'])([A-Za-z]+)\s+$")
RULE: Final = re.compile(r"create\s+(or\s+replace\s+)?rule\b", re.IGNORECASE)
PROMPTED: Final = re.compile(r"\.(help|tables|arrangements|read|timing|quit|exit)\b")
DATALOG: Final = re.compile(r"\.[a-z]+\b|[\w.]+\s*\([^;]*\)\s*(?::-|\.\s*$)", re.DOTALL)


def hinted(error: ProgrammingError | NotSupportedError, text: str) -> ProgrammingError | NotSupportedError:
    """The error, with what the statement was perhaps meant as if it is of syntax."""
    if error.span is None:
        return error
    if isinstance(error, NotSupportedError):
        words = FIRST.findall(text[error.span.start : error.span.end])[1:3]
        error.hint = error.hint or next(filter(None, map(_misspelt, words)), None)
        return error
    if not error.message.startswith("syntax error"):
        return error
    start = text.rfind(";", 0, max(error.span.start, 0)) + 1
    skipped = SKIPPED.match(text, start)
    start = start if skipped is None else skipped.end()
    if RULE.match(text, start):  # its statements stand in parentheses, with semicolons
        return unsupported_syntax("RULE", error.span, verb="CREATE")
    first = FIRST.match(text, start)
    meant = None if first is None else _first_meant(first[0], CLOSE)
    if first is not None and meant is not None:  # that word is the mistake, not what cannot follow it
        span = replace(error.span, start=first.start(), end=first.end())
        return ProgrammingError(f'syntax error at "{first[0]}"', span=span, hint=meant)
    found = _hint(text[start:]) or _misspelt_before(text[start : error.span.start])
    if found is not None:
        error.hint = found
    return error


def _misspelt_before(text: str) -> str | None:
    """A hint about the last word before the place of an error."""
    word = LAST.search(text)
    return None if word is None else _misspelt(word[1])


def _misspelt(word: str) -> str | None:
    return None if word.upper() in INNER else did_you_mean(word, INNER, likeness=ALIKE)


def _hint(text: str) -> str | None:
    if text.startswith("?-"):
        return 'a goal of Datalog: db.prepare("?- ...")() answers it, as program.query does'
    if PROMPTED.match(text):
        return "that is a command of the prompt: kpg sql, without a script"
    if DATALOG.match(text):
        return "this is Datalog: db.datalog takes it"
    word = FIRST.match(text)
    return None if word is None else _first_meant(word[0])


def _first_meant(word: str, likeness: float = 0.6) -> str | None:
    return None if word.upper() in WORDS else did_you_mean(word, WORDS, likeness=likeness)
