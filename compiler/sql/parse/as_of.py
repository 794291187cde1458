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
from kpg.compiler.sql.parse.parameters import Part, rewritten
from kpg.compiler.sql.parse.reader import Reader
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span

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


MARK: Final = "kpg_as_of"
QUERIES: Final = frozenset((TokenType.SELECT, TokenType.WITH, TokenType.VALUES, TokenType.L_PAREN))
Found = tuple[exp.Select, exp.Expr, exp.Expr]


def marked(tokens: list[Token], text: str) -> list[Token]:
    """The tokens of a statement with queries AS OF within it marked; the same list if there are none."""
    while (place := place_of(tokens, within=True)) is not None:
        opens, closes = _around(tokens, place)
        if tokens[opens + 1].token_type not in QUERIES:
            span = Span(text, tokens[place].start, tokens[place + 2].end + 1)
            raise NotSupportedError(
                "AS OF behind anything but a query is not supported", span=span, hint=HINT
            )
        if any(token.text == MARK for token in tokens[opens:place]):
            span = Span(text, tokens[place].start, tokens[place + 2].end + 1)
            raise NotSupportedError("AS OF within a query AS OF is not supported", span=span, hint=HINT)
        made = _Maker(tokens[place])
        value = without_words(tokens[place + 2 : closes])
        tokens = [
            *tokens[: opens + 1],
            *made("SELECT", "*", "FROM", "("),
            *tokens[opens + 1 : place],
            *made(")", "AS", MARK, "WHERE", MARK, "("),
            *value,
            *made(")"),
            *tokens[closes:],
        ]
    return tokens


def _around(tokens: list[Token], place: int) -> tuple[int, int]:
    """The parentheses around a place."""
    depth, opens = 0, place
    while depth >= 0:
        opens -= 1
        depth += _deeper(tokens[opens], TokenType.R_PAREN, TokenType.L_PAREN)
    depth, closes = 0, place
    while depth >= 0 and closes + 1 < len(tokens):
        closes += 1
        depth += _deeper(tokens[closes], TokenType.L_PAREN, TokenType.R_PAREN)
    return opens, closes


def _deeper(token: Token, more: TokenType, less: TokenType) -> int:
    return int(token.token_type is more) - int(token.token_type is less)


TYPES: Final = {
    "SELECT": TokenType.SELECT,
    "*": TokenType.STAR,
    "FROM": TokenType.FROM,
    "(": TokenType.L_PAREN,
    ")": TokenType.R_PAREN,
    "AS": TokenType.ALIAS,
    "WHERE": TokenType.WHERE,
    MARK: TokenType.VAR,
}


class _Maker:
    """Makes tokens where another one is."""

    def __init__(self, at: Token) -> None:
        self._at = at

    def __call__(self, *words: str) -> Iterator[Token]:
        at = self._at
        return (Token(TYPES[word], word, at.line, at.col, at.start, at.end) for word in words)


def evaluated(statement: Part, name_of: Callable[[ast.Select], str], span: Span) -> Part:
    """A statement that reads a table for each marked query, innermost first; ``name_of`` makes these."""

    def change(tree: exp.Expr) -> exp.Expr:
        if not any(_parts(one) for one in tree.find_all(exp.Select)):
            return tree
        tree = tree.copy()
        for node in reversed(list(tree.find_all(exp.Select))):
            found = _parts(node)
            if found is not None:
                query, value = found
                name = name_of(ast.Select(query.copy(), span, ast.Then(value.copy(), span)))
                table = exp.Table(this=exp.Identifier(this=name, quoted=True))
                node.replace(exp.Select(expressions=[exp.Star()]).from_(table))
        return tree

    return rewritten(statement, change)


def _parts(node: exp.Select) -> tuple[exp.Expr, exp.Expr] | None:
    """The query and the value of what was marked."""
    where = node.args.get("where")
    mark = None if where is None else where.this
    if not isinstance(mark, exp.Anonymous) or mark.name.lower() != MARK or len(mark.expressions) != 1:
        return None
    source = node.args.get("from_") or node.args.get("from")
    return None if source is None else (source.this.this, mark.expressions[0])
