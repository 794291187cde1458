"""The bodies of functions in SQL as syntax trees."""

from functools import lru_cache

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from kpg.compiler.sql.ddl.reader import tree_of
from kpg.compiler.sql.syntax import transformed
from kpg.compiler.sql.tokens import tokenize
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span


@lru_cache(maxsize=512)
def body_of(text: str) -> exp.Expr:
    """The query that a body ends with, without places: they would be those of another text."""
    found: exp.Expr | None = None
    for tokens in _statements(tokenize(text)):
        found = tree_of(tokens, text)
        if not isinstance(found, exp.Query | exp.Values) or found.args.get("into") is not None:
            raise NotSupportedError(
                "a function that does anything but query is not supported",
                span=Span(text, tokens[0].start, tokens[-1].end + 1),
                hint="its body is SELECT or VALUES",
            )
    if found is None:
        raise ProgrammingError("the body of a function is empty")
    tree = transformed(found, _named)
    for part in tree.walk():
        part.meta.clear()
    return tree


@lru_cache(maxsize=512)
def texts_of(text: str) -> tuple[str, ...]:
    """The statements of a body as they are written."""
    return tuple(text[part[0].start : part[-1].end + 1] for part in _statements(tokenize(text)))


def _statements(tokens: list[Token]) -> list[list[Token]]:
    found: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            found.append([])
        else:
            found[-1].append(token)
    return [one for one in found if one]


def names_called(tree: exp.Expr) -> frozenset[str]:
    """The names of functions that a query calls, in lower case, of those that SQL does not have."""
    return frozenset(str(node.this).lower() for node in tree.find_all(exp.Anonymous))


def _named(node: exp.Expr) -> exp.Expr:
    """``$1`` as the name of a column."""
    if isinstance(node, exp.Parameter) and node.name.isdigit():
        return exp.column(exp.to_identifier(f"${node.name}", quoted=True))
    return node
