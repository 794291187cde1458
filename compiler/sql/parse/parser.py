"""Script text to statements, by sqlglot's tokenizer and Postgres parser.

Syntax that kpg does not support is refused with its name and position, never ignored. On a syntax
error, :func:`add_hint` suggests the mistyped word, or says that the text is Datalog.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from kpg.compiler.catalog.entries import did_you_mean
from kpg.compiler.sql.parse import dml, tables
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.dml import (
    convert_change,
    convert_modifying_with,
    extract_overriding,
    is_modifying,
    target_table,
)
from kpg.compiler.sql.parse.features import StatementSpan, statement_span
from kpg.compiler.sql.parse.reader import Reader, parse_tree
from kpg.compiler.sql.parse.statements import Declare, Utility
from kpg.compiler.sql.parse.syntax import allow_only, construct_name
from kpg.compiler.sql.parse.tokenizer import tokenize
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span, encoding_error
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.unsupported_features import unsupported_syntax_error

if TYPE_CHECKING:
    from kpg.compiler.sql.parse import as_of as as_of_syntax
    from kpg.compiler.sql.parse import copy as copy_syntax
    from kpg.compiler.sql.parse import ddl, generic_plans, session_statements
else:
    as_of_syntax = LazyModule("kpg.compiler.sql.parse.as_of")
    copy_syntax = LazyModule("kpg.compiler.sql.parse.copy")
    ddl = LazyModule("kpg.compiler.sql.parse.ddl")
    generic_plans = LazyModule("kpg.compiler.sql.parse.generic_plans")
    session_statements = LazyModule("kpg.compiler.sql.parse.session_statements")

STAGES: Final = ("ast", "logical", "magic", "steps", "optimized", "physical", "arrangements")
PART_TOKENS: Final = (TokenType.DOT, TokenType.L_BRACKET)
MAX_LIST_TOKENS: Final = 400
"""First tokens of an INSERT that are searched for parts of columns in its list."""
SESSION_KEYWORDS: Final = frozenset(
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
"""First words of session statements."""
DDL_KEYWORDS: Final = ("create", "alter", "drop", "truncate", "comment")
"""First words of DDL statements."""


def parse(text: str) -> list[ast.Statement]:
    """Parse the statements of a script.

    ProgrammingError for a syntax error, NotSupportedError for an unsupported construct.
    """
    if "\0" in text:
        raise encoding_error()
    if "stdin" not in text and "STDIN" not in text:
        return parse_masked(text, text)

    masked_text, blocks = copy_syntax.extract_copy_data(text)
    found = parse_masked(masked_text, text)
    return copy_syntax.attach_copy_data(found, blocks) if blocks else found


def parse_masked(masked_text: str, text: str) -> list[ast.Statement]:
    """Parse a masked text of the same length in place of ``text``; errors and spans refer to ``text``."""
    try:
        return [_parse_statement(tokens, text) for tokens in _split_statements(masked_text)]
    except (ProgrammingError, NotSupportedError) as error:
        raise add_hint(error, text) from error.__cause__


def parse_query(text: str) -> ast.Select:
    """Parse a text that must be one query."""
    found = parse(text)
    if len(found) != 1 or not isinstance(found[0], ast.Select):
        raise ProgrammingError("expected one query", span=Span(text, 0, len(text)))
    return found[0]


def _split_statements(text: str) -> Iterator[list[Token]]:
    chunk: list[Token] = []
    depth = 0
    for token in tokenize(text):
        depth += _body_depth_change(chunk, token, depth)
        if depth or token.token_type is not TokenType.SEMICOLON:
            chunk.append(token)
        elif chunk:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _body_depth_change(preceding: list[Token], token: Token, depth: int) -> int:
    """Return the change of nesting in the bodies of BEGIN ATOMIC functions at a token."""
    word = token.text.upper()
    if word == "ATOMIC":
        return int(bool(preceding) and preceding[-1].text.upper() == "BEGIN")
    if depth and token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER):
        return (word == "CASE") - (word == "END")
    return 0


def _parse_statement(tokens: list[Token], text: str) -> ast.Statement:
    words = [token.text.lower() for token in tokens]
    span = statement_span(tokens, text, words)
    if "of" in words and (found := _parse_as_of(tokens, text)) is not None:
        return found
    match words:
        case ["explain", "row" | "(", *_] if (row := _parse_explain_row(words, tokens, text)) is not None:
            return row
        case ["explain", *_]:
            return _parse_explain(tokens, text, span)
        case ["verify", "view", *_]:
            return _parse_verify(tokens, text, span)
        case ["show", "tables"]:
            return ast.ShowTables(span)
        case [word, *_] if (
            word in SESSION_KEYWORDS
            and (found := _parse_session_statement(word, Reader(tokens, text))) is not None
        ):
            return found
        case ["create", *_] if (found := tables.parse_create_relation(Reader(tokens, text))) is not None:
            return found
        case [word, *_] if (
            word in DDL_KEYWORDS and (found := _parse_ddl(word, Reader(tokens, text))) is not None
        ):
            return found
        case ["replace", "into", *_]:
            # MySQL's syntax.
            first = tokens[0]
            insert_token = [Token(TokenType.INSERT, "INSERT", first.line, first.col, first.start, first.end)]
            inserted = _convert(_parse_tree([*insert_token, *tokens[1:]], text), text, span)
            return replace(inserted, alternative="REPLACE") if isinstance(inserted, ast.Insert) else inserted
        case ["copy", *_]:
            return copy_syntax.parse_copy(Reader(tokens, text))
        case ["insert", *_]:
            return _parse_insert(tokens, text, span)
        case ["update" | "delete", *_] if "current" in words:
            tokens, cursor = dml.extract_cursor(tokens)
            changed = _convert(_parse_tree(tokens, text), text, span)
            if cursor and isinstance(changed, ast.Update | ast.Delete):
                return replace(changed, cursor=cursor)
            return changed
        case [word, *_] if word in _extension_parsers:
            # The registry of handlers, not a match over the union, finds how it runs.
            return cast("ast.Statement", _extension_parsers[word](Reader(tokens, text)))
        case _:
            return _convert(_parse_tree(tokens, text), text, span)


_extension_parsers: Final[dict[str, Callable[[Reader], ast.SessionStatement]]] = {}


def register_parser(word: str, parse_statement: Callable[[Reader], ast.SessionStatement]) -> None:
    """Register the parser of an extension's statements by their first word."""
    _extension_parsers[word.lower()] = parse_statement


def _parse_insert(tokens: list[Token], text: str, span: StatementSpan) -> ast.Statement:
    override, tokens = extract_overriding(tokens)
    listed: list[exp.Expr] = []
    if any(token.token_type in PART_TOKENS for token in tokens[:MAX_LIST_TOKENS]):
        tokens, listed = dml.split_insert_list(tokens, text)
    inserted = _convert(_parse_tree(tokens, text), text, span)
    if not isinstance(inserted, ast.Insert):
        return inserted
    inserted = replace(inserted, overriding=override)
    return dml.combine_part_values(inserted, listed) if listed else inserted


def _parse_as_of(tokens: list[Token], text: str) -> ast.Statement | None:
    """Parse a statement with AS OF; None if it has none."""
    if tokens[0].text.lower() in ("explain", "prepare"):
        return None
    marked_tokens = as_of_syntax.mark_nested_queries(tokens, text)
    rest, as_of = as_of_syntax.split_as_of(marked_tokens, text)
    if as_of is None and marked_tokens is tokens:
        return None
    statement = _parse_statement(rest, text)
    if as_of is None:
        if isinstance(statement, ast.Select | ast.Insert | ast.CreateTableAs):
            return statement
        span = Span(text, tokens[0].start, tokens[-1].end + 1)
        construct = "AS OF within anything but a query that is asked once"
        raise NotSupportedError(f"{construct} is not supported", span=span, hint=as_of_syntax.HINT)
    if marked_tokens is not tokens:
        raise NotSupportedError(
            "AS OF within a query AS OF is not supported", span=as_of.span, hint=as_of_syntax.HINT
        )
    if isinstance(statement, ast.Select):
        return replace(statement, as_of=as_of)
    plain = isinstance(statement, ast.Insert) and statement.conflict is None and not statement.returning
    if isinstance(statement, ast.CreateTableAs) or (isinstance(statement, ast.Insert) and plain):
        return replace(statement, query=replace(statement.query, as_of=as_of))
    raise NotSupportedError(
        "AS OF of anything but a query is not supported", span=as_of.span, hint=as_of_syntax.HINT
    )


def _parse_ddl(word: str, reader: Reader) -> ast.Statement | None:
    """Parse a statement that begins with one of DDL_KEYWORDS; None if sqlglot parses it."""
    return ddl.parse_ddl(word, reader)


def _parse_session_statement(word: str, reader: Reader) -> ast.Statement | None:
    """Parse a statement that begins with one of SESSION_KEYWORDS; None if sqlglot parses it."""
    return session_statements.parse_session_statement(word.upper(), reader)


def _parse_verify(tokens: list[Token], text: str, span: Span) -> ast.VerifyView:
    rest = tokens[2:]
    if len(rest) != 1:
        place = Span(text, rest[1].start, tokens[-1].end + 1) if rest else span
        raise ProgrammingError("VERIFY VIEW takes the name of one view", span=place)
    return ast.VerifyView(rest[0].text, span)


def _parse_explain(tokens: list[Token], text: str, span: StatementSpan) -> ast.Statement:
    rest, options = session_statements.parse_explain_options(tokens[1:], text)
    stage = "physical"
    if rest and rest[0].text.lower() in STAGES:
        stage = rest[0].text.lower()
        rest = rest[1:]
    if not rest:
        raise ProgrammingError("EXPLAIN needs a query", span=span)
    if (explain_view := session_statements.parse_explain_view(rest, stage, text, span, options)) is not None:
        return explain_view
    if rest[0].text.lower() == "execute":
        reader = Reader(tokens, text)
        reader.skip(len(tokens) - len(rest))
        return session_statements.parse_nested_execute(reader)
    statement = _parse_statement(rest, text)
    if isinstance(statement, Declare) and isinstance(statement.query, ast.Select):
        statement = statement.query
    if isinstance(statement, Utility) and statement.command == "REFRESH":
        return ast.ExplainView(stage, statement.relations[0], statement.span, span, options)
    if isinstance(statement, ast.Explainable | ast.ModifyingWith):
        if options.generic:
            statement = generic_plans.mark_parameters(statement)
        return ast.Explain(stage, statement, span, options)
    raise NotSupportedError(
        "EXPLAIN of anything but a query or a change is not supported", span=statement.span
    )


def _parse_explain_row(words: list[str], tokens: list[Token], text: str) -> ast.Statement | None:
    """Parse EXPLAIN ROW; None for any other EXPLAIN."""
    if words[1] == "(" and words[2:3] != ["row"]:
        return None

    return session_statements.parse_explain_row(Reader(tokens, text))


def _parse_tree(tokens: list[Token], text: str) -> exp.Expr:
    return parse_tree(tokens, text)


def _convert(tree: exp.Expr, text: str, span: StatementSpan) -> ast.Statement:
    match tree:
        case _ if is_modifying(tree):
            return convert_modifying_with(tree, text, span)
        case exp.Query() if (into := _into_clause(tree)) is not None:
            return _select_into(tree, into, text, span)
        case exp.Query() | exp.Values():
            return ast.Select(tree, span)
        case exp.Create() | exp.Drop():
            raise NotSupportedError(f"{tree.key.upper()} {tree.args.get('kind')} is not supported", span=span)
        case exp.Insert() | exp.Update() | exp.Delete() | exp.Merge():
            return convert_change(tree, text, span)
        case exp.Describe():
            allow_only(tree, text, "this")
            return ast.Describe(target_table(tree.this, text)[0], span)
        case exp.Command():
            raise NotSupportedError(f"{tree.name.upper()} is not supported", span=span)
        case exp.Column() | exp.Alias() | exp.Identifier():
            word = text[span.start : span.end].split()[0]
            place = Span(text, span.start, span.start + len(word))
            raise ProgrammingError(f'syntax error at "{word}"', span=place, hint="expected a statement")
        case _:
            raise NotSupportedError(f"{construct_name(tree)} is not supported", span=span)


def _into_clause(tree: exp.Expr) -> exp.Expr | None:
    """Return the INTO clause of a query's first SELECT."""
    while isinstance(tree, exp.SetOperation | exp.Subquery):
        tree = tree.this
    return tree.args.get("into")


def _select_into(tree: exp.Expr, into: exp.Expr, text: str, span: StatementSpan) -> ast.CreateTableAs:
    """Convert SELECT ... INTO table to CREATE TABLE AS."""
    allow_only(into, text, "this", "temporary", "unlogged")
    query = tree.copy()
    found = _into_clause(query)
    assert found is not None
    found.pop()
    name = target_table(into.this, text)[0]
    temporary = bool(into.args.get("temporary"))
    return ast.CreateTableAs(name, (), ast.Select(query, span), False, span, temporary=temporary)


STATEMENT_WORDS: Final = (
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
"""First words of most statements."""
CLAUSE_WORDS: Final = (
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
"""Words that, when mistyped inside a statement, are read as names; the error is at the next word."""
CLAUSE_LIKENESS: Final = 0.75
"""Likeness of `form` to FROM. Column names are usually less like keywords."""
STATEMENT_LIKENESS: Final = 0.8
"""Likeness of `selct` to SELECT; that of RESET to SET is lower."""
BLANK: Final = re.compile(r"(?:\s+|--[^\n]*|/\*.*?\*/)*", re.DOTALL)
FIRST_WORD: Final = re.compile(r"[A-Za-z_]+")
LAST_WORD: Final = re.compile(r"(?<![\w.\"'])([A-Za-z]+)\s+$")
CREATE_RULE: Final = re.compile(r"create\s+(or\s+replace\s+)?rule\b", re.IGNORECASE)
PROMPT_COMMAND: Final = re.compile(r"\.(help|tables|arrangements|read|timing|quit|exit)\b")
DATALOG: Final = re.compile(r"\.[a-z]+\b|[\w.]+\s*\([^;]*\)\s*(?::-|\.\s*$)", re.DOTALL)


def add_hint(error: ProgrammingError | NotSupportedError, text: str) -> ProgrammingError | NotSupportedError:
    """Return an error with a hint at the probable mistake, if it is a syntax error."""
    if error.span is None:
        return error
    if isinstance(error, NotSupportedError):
        words = FIRST_WORD.findall(text[error.span.start : error.span.end])[1:3]
        error.hint = error.hint or next(filter(None, map(_spelling_hint, words)), None)
        return error
    if not error.message.startswith("syntax error"):
        return error
    start = text.rfind(";", 0, max(error.span.start, 0)) + 1
    skipped = BLANK.match(text, start)
    start = start if skipped is None else skipped.end()
    if CREATE_RULE.match(text, start):  # has semicolons inside parentheses
        return unsupported_syntax_error("RULE", error.span, verb="CREATE")
    first = FIRST_WORD.match(text, start)
    suggestion = None if first is None else _first_word_hint(first[0], STATEMENT_LIKENESS)
    if first is not None and suggestion is not None:  # the first word is wrong, not the one at the error
        span = replace(error.span, start=first.start(), end=first.end())
        return ProgrammingError(f'syntax error at "{first[0]}"', span=span, hint=suggestion)
    found = _language_hint(text[start:]) or _spelling_hint_before(text[start : error.span.start])
    if found is not None:
        error.hint = found
    return error


def _spelling_hint_before(text: str) -> str | None:
    """Return a hint about the last word before an error."""
    word = LAST_WORD.search(text)
    return None if word is None else _spelling_hint(word[1])


def _spelling_hint(word: str) -> str | None:
    return (
        None if word.upper() in CLAUSE_WORDS else did_you_mean(word, CLAUSE_WORDS, likeness=CLAUSE_LIKENESS)
    )


def _language_hint(text: str) -> str | None:
    if text.startswith("?-"):
        return 'a goal of Datalog: db.prepare("?- ...")() answers it, as program.query does'
    if PROMPT_COMMAND.match(text):
        return "that is a command of the prompt: kpg sql, without a script"
    if DATALOG.match(text):
        return "this is Datalog: db.datalog takes it"
    word = FIRST_WORD.match(text)
    return None if word is None else _first_word_hint(word[0])


def _first_word_hint(word: str, likeness: float = 0.6) -> str | None:
    return None if word.upper() in STATEMENT_WORDS else did_you_mean(word, STATEMENT_WORDS, likeness=likeness)
