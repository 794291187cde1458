"""The expressions of ``#if``: whole numbers, names, ``defined``, and C's operators on them."""

import operator
import re
from collections.abc import Callable, Collection
from typing import Final

TOKEN: Final = re.compile(r"\s*(\d+|\w+|\|\||&&|[=!<>]=|[-+*/%!<>()]|\S)")
DEFINED: Final = re.compile(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))")
DIGITS: Final = 18
"""Of the largest number that may be written."""
LEVELS: Final[tuple[dict[str, Callable[[int, int], int]], ...]] = (
    {"||": lambda left, right: int(bool(left) or bool(right))},
    {"&&": lambda left, right: int(bool(left) and bool(right))},
    {"==": operator.eq, "!=": operator.ne},
    {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge},
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "/": operator.floordiv, "%": operator.mod},
)
"""The binary operators, those that bind least first."""


def defined(text: str, names: Collection[str]) -> str:
    """The text with 1 or 0 for each question whether a name is defined."""
    return DEFINED.sub(lambda found: str(int((found[1] or found[2]) in names)), text)


def evaluate(text: str) -> int:
    """The value of an expression whose macros are expanded; a name that is left is 0.

    ValueError if it is none.
    """
    tokens = TOKEN.findall(text)
    value, rest = _binary(tokens, 0, 0)
    if rest != len(tokens):
        raise ValueError(tokens[rest])
    return value


def _binary(tokens: list[str], place: int, level: int) -> tuple[int, int]:
    """The value from a place on, and the place behind it."""
    if level == len(LEVELS):
        return _unary(tokens, place)
    value, place = _binary(tokens, place, level + 1)
    while place < len(tokens) and tokens[place] in LEVELS[level]:
        function = LEVELS[level][tokens[place]]
        right, place = _binary(tokens, place + 1, level + 1)
        if right == 0 and function in (operator.floordiv, operator.mod):
            raise ValueError("division by zero")
        value = int(function(value, right))
    return value, place


def _unary(tokens: list[str], place: int) -> tuple[int, int]:
    token = tokens[place] if place < len(tokens) else ""
    if token in ("!", "-", "+"):
        value, place = _unary(tokens, place + 1)
        return {"!": int(not value), "-": -value, "+": value}[token], place
    if token == "(":
        value, place = _binary(tokens, place + 1, 0)
        if place == len(tokens) or tokens[place] != ")":
            raise ValueError("a parenthesis is missing")
        return value, place + 1
    if token.isdecimal() and len(token) <= DIGITS:
        return int(token), place + 1
    if token.isidentifier():
        return 0, place + 1
    raise ValueError(token or "nothing")
