"""Script text to statements, by sqlglot's tokenizer and Postgres parser.

What a statement holds besides what kpg understands is refused by name and place, never ignored.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from kpg.compiler.sql import statements as ast
from kpg.compiler.sql.ddl import dispatch
from kpg.compiler.sql.ddl.reader import Reader, tree_of
from kpg.compiler.sql.modify import change, is_modifying, modifying, overriding, target
from kpg.compiler.sql.session import Accepted, Declare
from kpg.compiler.sql.syntax import construct_name, only
from kpg.compiler.sql.tokens import tokenize
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span, no_text

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


def parse(text: str) -> list[ast.Statement]:
    """The statements of a script; ProgrammingError on a syntax error, NotSupportedError by construct."""
    if "\0" in text:
        raise no_text()
    if "stdin" not in text and "STDIN" not in text:
        return parse_as(text, text)
    from kpg.compiler.sql.copied_lines import with_data, without_data

    written, blocks = without_data(text)
    found = parse_as(written, text)
    return with_data(found, blocks) if blocks else found


def parse_as(written: str, text: str) -> list[ast.Statement]:
    """As :func:`parse`, of a text that stands for another of the same length, whose places are told."""
    try:
        return [_statement(tokens, text) for tokens in _split(written)]
    except (ProgrammingError, NotSupportedError) as error:
        from kpg.compiler.sql.beginnings import hinted

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
        case ["create", *_] if (found := dispatch.create(Reader(tokens, text))) is not None:
            return found
        case ["alter", *_] if (found := dispatch.alter_any(Reader(tokens, text))) is not None:
            return found
        case ["drop", *_] if (found := dispatch.drop(Reader(tokens, text))) is not None:
            return found
        case ["truncate", *_]:
            return dispatch.truncate(Reader(tokens, text))
        case ["comment", *_]:
            return dispatch.comment(Reader(tokens, text))
        case ["replace", "into", *_]:
            # MySQL's way to write it.
            first = tokens[0]
            made = [Token(TokenType.INSERT, "INSERT", first.line, first.col, first.start, first.end)]
            inserted = _convert(_tree([*made, *tokens[1:]], text), text, span)
            return replace(inserted, alternative="REPLACE") if isinstance(inserted, ast.Insert) else inserted
        case ["copy", *_]:
            from kpg.compiler.sql.ddl.copying import copy

            return copy(Reader(tokens, text))
        case ["insert", *_]:
            return _inserted(tokens, text, span)
        case ["update" | "delete", *_] if "current" in words:
            from kpg.compiler.sql.positioned import without_cursor

            tokens, cursor = without_cursor(tokens)
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
        from kpg.compiler.sql import inserted_parts

        tokens, listed = inserted_parts.split(tokens, text)
    inserted = _convert(_tree(tokens, text), text, span)
    if not isinstance(inserted, ast.Insert):
        return inserted
    inserted = replace(inserted, overriding=given)
    return inserted_parts.combined(inserted, listed) if listed else inserted


def _then(tokens: list[Token], text: str) -> ast.Statement | None:
    """A query with AS OF; None if there is none."""
    from kpg.compiler.sql.then import HINT, split
    from kpg.compiler.sql.within import marked

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


def _session(word: str, reader: Reader) -> ast.Statement | None:
    """A statement that begins with one of SESSION; None if it is read elsewhere."""
    from kpg.compiler.sql.ddl import session

    return session.read(word.upper(), reader)


def _verify(tokens: list[Token], text: str, span: Span) -> ast.VerifyView:
    rest = tokens[2:]
    if len(rest) != 1:
        place = Span(text, rest[1].start, tokens[-1].end + 1) if rest else span
        raise ProgrammingError("VERIFY VIEW takes the name of one view", span=place)
    return ast.VerifyView(rest[0].text, span)


def _explain(tokens: list[Token], text: str, span: Span) -> ast.Statement:
    from kpg.compiler.sql.ddl import explaining, session

    rest, how = explaining.explaining(tokens[1:], text)
    stage = "physical"
    if rest and rest[0].text.lower() in STAGES:
        stage = rest[0].text.lower()
        rest = rest[1:]
    if not rest:
        raise ProgrammingError("EXPLAIN needs a query", span=span)
    if (viewed := explaining.viewed(rest, stage, text, span, how)) is not None:
        return viewed
    if rest[0].text.lower() == "execute":
        reader = Reader(tokens, text)
        reader.skip(len(tokens) - len(rest))
        return session.executed(reader)
    statement = _statement(rest, text)
    if isinstance(statement, Declare) and isinstance(statement.query, ast.Select):
        statement = statement.query
    if isinstance(statement, Accepted) and statement.what == "REFRESH":
        return ast.ExplainView(stage, statement.relations[0], statement.span, span, how)
    if isinstance(statement, ast.Explained | ast.Modifying):
        if how.generic:
            from kpg.compiler.sql.generic import without_values

            statement = without_values(statement)
        return ast.Explain(stage, statement, span, how)
    raise NotSupportedError(
        "EXPLAIN of anything but a query or a change is not supported", span=statement.span
    )


def _explain_row(words: list[str], tokens: list[Token], text: str) -> ast.Statement | None:
    """EXPLAIN of a row; None if it is of a query."""
    if words[1] == "(" and words[2:3] != ["row"]:
        return None
    from kpg.compiler.sql.ddl.explaining import explain_row

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
