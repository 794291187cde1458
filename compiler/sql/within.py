"""AS OF at the end of a query within another: what it gives is computed before the rest is asked.

``(query AS OF 5)`` is read as ``(SELECT * FROM (query) AS kpg_as_of WHERE kpg_as_of(5))``, which nobody else
writes and nothing else understands.
"""

from collections.abc import Callable, Iterator
from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from kpg.compiler.sql import statements as ast
from kpg.compiler.sql.parameters import Part, rewritten
from kpg.compiler.sql.then import HINT, place_of, without_words
from kpg.runtime.errors import NotSupportedError, Span

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
