"""Names of Postgres' own schema, as tools write them: the same without the schema.

``OPERATOR(pg_catalog.~)`` is ``~``, ``x::pg_catalog.text`` is ``x::text``, ``COLLATE pg_catalog.default`` is
``COLLATE "default"``. Functions and relations keep theirs.
"""

from collections.abc import Sequence
from typing import Final

from sqlglot.tokenizer_core import Token, TokenType

SCHEMA: Final = "pg_catalog"


def unqualified(tokens: Sequence[Token]) -> list[Token]:
    """The tokens with plain operators and types."""
    result: list[Token] = []
    place = 0
    while place < len(tokens):
        found = _operator(tokens, place)
        if found:
            result.extend(tokens[found[0] : found[1]])
            place = found[1] + 1
        elif _is_schema(tokens, place) and result and _wants_type(result[-1]):
            place += 2
        else:
            result.append(tokens[place])
            place += 1
    return result


def _is_schema(tokens: Sequence[Token], place: int) -> bool:
    if place + 1 >= len(tokens) or tokens[place].text.lower() != SCHEMA:
        return False
    return tokens[place + 1].token_type is TokenType.DOT


def _wants_type(token: Token) -> bool:
    return token.token_type is TokenType.DCOLON or token.text.upper() in ("COLLATE", "AS")


def _operator(tokens: Sequence[Token], place: int) -> tuple[int, int] | None:
    """Where the operator of ``OPERATOR ( schema . operator )`` begins, and the parenthesis behind it."""
    if tokens[place].text.upper() != "OPERATOR" or place + 3 >= len(tokens):
        return None
    if tokens[place + 1].token_type is not TokenType.L_PAREN:
        return None
    start = place + 4 if _is_schema(tokens, place + 2) else place + 2
    end = next(
        (at for at in range(start, len(tokens)) if tokens[at].token_type is TokenType.R_PAREN), len(tokens)
    )
    return (start, end) if start < end < len(tokens) else None
