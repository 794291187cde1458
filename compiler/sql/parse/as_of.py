"""AS OF: the epoch or moment as of which a query reads.

``OF`` is also a name in Postgres, so ``AS OF`` is this clause only if a value can begin after it. A nested
``(query AS OF 5)`` is read as ``(SELECT * FROM (query) AS kpg_as_of WHERE kpg_as_of(5))``. Its rows are
computed before the rest of the statement.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.features import PAST_MARKER, StatementSpan, statement_span
from kpg.compiler.sql.parse.parameters import Part, map_trees
from kpg.compiler.sql.parse.reader import Reader
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span

VALUE_TOKENS: Final = frozenset(
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
VALUE_WORDS: Final = frozenset(
    (
        *("timestamp", "timestamptz", "date", "now", "current_timestamp", "localtimestamp", "cast", "epoch"),
        *("system", "true", "false", "clock_timestamp", "statement_timestamp", "transaction_timestamp"),
    )
)
"""First words of a value after AS OF; ``epoch`` and ``system time`` are noise words before it."""
HINT: Final = "write AS OF at the end of a query, of INSERT with a query, or of CREATE TABLE AS"


def split_as_of(tokens: list[Token], text: str) -> tuple[list[Token], ast.AsOf | None]:
    """Return the tokens of a query without its AS OF, and that clause."""
    place = find_as_of(tokens)
    if place is None:
        return tokens, None
    span = statement_span(tokens[place:], text)
    rest = skip_noise_words(tokens[place + 2 :])
    if not rest or not place:
        raise ProgrammingError("syntax error: AS OF stands between a query and a value", span=span)
    reader = Reader(rest, text)
    tree = reader.expression()
    if not reader.at_end:
        unread = reader.here()
        raise ProgrammingError(f'syntax error at "{text[unread.start : unread.end]}"', span=unread, hint=HINT)
    return tokens[:place], ast.AsOf(tree, span)


def value_query(as_of: ast.AsOf) -> ast.Select:
    """Return a query for the value of an AS OF expression."""
    return ast.Select(exp.Select(expressions=[as_of.value.copy()]), as_of.span)


def skip_noise_words(tokens: list[Token]) -> list[Token]:
    """Return the tokens after AS OF without ``epoch`` or ``system time``."""
    if _word(tokens[0]) == "epoch":
        return tokens[1:]
    if _word(tokens[0]) == "system":
        return tokens[2:] if len(tokens) > 1 and _word(tokens[1]) == "time" else tokens
    return tokens


def find_as_of(tokens: Sequence[Token], *, nested: bool = False) -> int | None:
    """Return the index of the first AS OF of the statement; None without one.

    With ``nested``, only AS OF in parentheses counts, else only AS OF outside.
    """
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
        if (following.token_type in VALUE_TOKENS or _word(following) in VALUE_WORDS) and nested == (
            depth > 0
        ):
            return place
    return None


def _word(token: Token) -> str:
    return token.text.lower()


QUERY_TOKENS: Final = frozenset((TokenType.SELECT, TokenType.WITH, TokenType.VALUES, TokenType.L_PAREN))
Found = tuple[exp.Select, exp.Expr, exp.Expr]


def mark_nested_queries(tokens: list[Token], text: str) -> list[Token]:
    """Return the tokens with each nested ``(query AS OF value)`` marked; the same list if there is none."""
    while (place := find_as_of(tokens, nested=True)) is not None:
        open_index, close_index = _enclosing_parentheses(tokens, place)
        if tokens[open_index + 1].token_type not in QUERY_TOKENS:
            span = Span(text, tokens[place].start, tokens[place + 2].end + 1)
            raise NotSupportedError(
                "AS OF behind anything but a query is not supported", span=span, hint=HINT
            )
        if any(token.text == PAST_MARKER for token in tokens[open_index:place]):
            span = Span(text, tokens[place].start, tokens[place + 2].end + 1)
            raise NotSupportedError("AS OF within a query AS OF is not supported", span=span, hint=HINT)
        make_tokens = _TokenFactory(tokens[place])
        value = skip_noise_words(tokens[place + 2 : close_index])
        tokens = [
            *tokens[: open_index + 1],
            *make_tokens("SELECT", "*", "FROM", "("),
            *tokens[open_index + 1 : place],
            *make_tokens(")", "AS", PAST_MARKER, "WHERE", PAST_MARKER, "("),
            *value,
            *make_tokens(")"),
            *tokens[close_index:],
        ]
    return tokens


def _enclosing_parentheses(tokens: list[Token], place: int) -> tuple[int, int]:
    """Return the indexes of the parentheses around a token."""
    depth, opens = 0, place
    while depth >= 0:
        opens -= 1
        depth += _depth_change(tokens[opens], TokenType.R_PAREN, TokenType.L_PAREN)
    depth, closes = 0, place
    while depth >= 0 and closes + 1 < len(tokens):
        closes += 1
        depth += _depth_change(tokens[closes], TokenType.L_PAREN, TokenType.R_PAREN)
    return opens, closes


def _depth_change(token: Token, opening: TokenType, closing: TokenType) -> int:
    return int(token.token_type is opening) - int(token.token_type is closing)


TYPES: Final = {
    "SELECT": TokenType.SELECT,
    "*": TokenType.STAR,
    "FROM": TokenType.FROM,
    "(": TokenType.L_PAREN,
    ")": TokenType.R_PAREN,
    "AS": TokenType.ALIAS,
    "WHERE": TokenType.WHERE,
    PAST_MARKER: TokenType.VAR,
}


class _TokenFactory:
    """Factory of tokens at the position of another token."""

    def __init__(self, at: Token) -> None:
        self._at = at

    def __call__(self, *words: str) -> Iterator[Token]:
        at = self._at
        return (Token(TYPES[word], word, at.line, at.col, at.start, at.end) for word in words)


def replace_nested_queries(
    statement: Part, store_query: Callable[[ast.Select], str], span: StatementSpan
) -> Part:
    """Return the statement with a table in place of each marked query, innermost first.

    ``store_query`` evaluates a query into a table and returns its name.
    """

    def change(tree: exp.Expr) -> exp.Expr:
        if not any(_marked_query(one) for one in tree.find_all(exp.Select)):
            return tree
        tree = tree.copy()
        for node in reversed(list(tree.find_all(exp.Select))):
            found = _marked_query(node)
            if found is not None:
                query, value = found
                name = store_query(ast.Select(query.copy(), span, ast.AsOf(value.copy(), span)))
                table = exp.Table(this=exp.Identifier(this=name, quoted=True))
                node.replace(exp.Select(expressions=[exp.Star()]).from_(table))
        return tree

    return map_trees(statement, change)


def _marked_query(node: exp.Select) -> tuple[exp.Expr, exp.Expr] | None:
    """Return the query and the value of a marked query; None for any other SELECT."""
    where = node.args.get("where")
    mark = None if where is None else where.this
    if not isinstance(mark, exp.Anonymous) or mark.name.lower() != PAST_MARKER or len(mark.expressions) != 1:
        return None
    source = node.args.get("from_") or node.args.get("from")
    return None if source is None else (source.this.this, mark.expressions[0])
