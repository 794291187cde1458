"""AS OF at the end of a query: the epoch or the moment as of which it is asked.

``OF`` is a name in Postgres too, so that AS OF is this clause only where what follows can begin a value.
"""

from collections.abc import Sequence
from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from kpg.compiler.sql import statements as ast
from kpg.compiler.sql.ddl.reader import Reader
from kpg.runtime.errors import ProgrammingError, Span

VALUES: Final = frozenset(
    (
        TokenType.NUMBER,
        TokenType.STRING,
        TokenType.PARAMETER,
        TokenType.PLACEHOLDER,
        TokenType.COLON,
        TokenType.DASH,
        TokenType.NULL,
    )
)
WORDS: Final = frozenset(
    (
        *("timestamp", "timestamptz", "date", "now", "current_timestamp", "localtimestamp", "cast", "epoch"),
        *("system", "true", "false", "clock_timestamp", "statement_timestamp", "transaction_timestamp"),
    )
)
"""What a value begins with behind AS OF; with ``epoch`` and ``system time`` what is said without need."""
HINT: Final = (
    "AS OF stands at the end of a query that is asked once, of INSERT with one, or of CREATE TABLE AS"
)


def split(tokens: list[Token], text: str) -> tuple[list[Token], ast.Then | None]:
    """The tokens of a query without its AS OF, and that."""
    place = place_of(tokens)
    if place is None:
        return tokens, None
    span = Span(text, tokens[place].start, tokens[-1].end + 1)
    rest = without_words(tokens[place + 2 :])
    if not rest or not place:
        raise ProgrammingError("syntax error: AS OF stands between a query and a value", span=span)
    reader = Reader(rest, text)
    tree = reader.expression()
    if not reader.done:
        left = reader.here()
        raise ProgrammingError(f'syntax error at "{text[left.start : left.end]}"', span=left, hint=HINT)
    return tokens[:place], ast.Then(tree, span)


def query_of(alone: ast.Then) -> ast.Select:
    """The query that has an expression as its only value."""
    return ast.Select(exp.Select(expressions=[alone.query.copy()]), alone.span)


def without_words(rest: list[Token]) -> list[Token]:
    """What stands behind AS OF without what is said without need."""
    if _word(rest[0]) == "epoch":
        return rest[1:]
    if _word(rest[0]) == "system":
        return rest[2:] if len(rest) > 1 and _word(rest[1]) == "time" else rest
    return rest


def place_of(tokens: Sequence[Token], *, within: bool = False) -> int | None:
    """Where the first such clause begins, if there is one: of the statement, or ``within`` parentheses."""
    depth = 0
    for place, token in enumerate(tokens):
        depth += int(token.token_type is TokenType.L_PAREN) - int(token.token_type is TokenType.R_PAREN)
        if token.token_type is not TokenType.ALIAS or place + 2 >= len(tokens):
            continue
        following = tokens[place + 2]
        if _word(tokens[place + 1]) != "of" or tokens[place + 1].token_type is TokenType.IDENTIFIER:
            continue
        if place and _word(tokens[place - 1]) in ("system_time", "timestamp"):
            continue
        if (following.token_type in VALUES or _word(following) in WORDS) and within == (depth > 0):
            return place
    return None


def _word(token: Token) -> str:
    return token.text.lower()
