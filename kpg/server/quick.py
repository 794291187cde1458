"""Statements that come again: run from their text and values, by plans that there are."""

import datetime
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any, Final

from kpg.compiler.sql.parameterize.parameters import Sized, highest_place
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parser import parse
from kpg.result import Result
from kpg.runtime.errors import DataError
from kpg.runtime.types import BIGINT, INTEGER, SMALLINT
from kpg.server import received
from kpg.sessions.texts import word_of

Taker = Callable[[bytes], Any]
TAGS: Final = {"select": "SELECT", "insert": "INSERT 0", "update": "UPDATE", "delete": "DELETE"}
MOST_TEXTS: Final = 1024
"""So many texts are known to be statements."""
LONGEST: Final = 10_000
TAKERS: Final[dict[int, Callable[[str], Any]]] = {
    0: str,
    16: lambda text: {"true": True, "t": True, "false": False, "f": False}[text],
    20: lambda text: Sized.of(int(text), BIGINT),
    21: lambda text: Sized.of(int(text), SMALLINT),
    23: lambda text: Sized.of(int(text), INTEGER),
    25: str,
    705: str,
    1042: str,
    1043: str,
    1082: datetime.date.fromisoformat,
    1700: lambda text: _fraction(Decimal(text)),
}
"""From a parameter's text to the value that means the same in SQL, by the number of its type."""


def _fraction(value: Decimal) -> Decimal:
    """A number with digits behind the point; another would be an INTEGER."""
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or exponent >= 0:
        raise ValueError
    return value


def tag_of(word: str, outcome: Result | None) -> str:
    """The tag of such a statement."""
    return f"{TAGS[word]} {0 if outcome is None else outcome.rowcount}"


@lru_cache(MOST_TEXTS)
def _known(text: str) -> tuple[ast.Statement, int]:
    (statement,) = parse(text)
    return statement, highest_place(statement)


def parsed(text: str) -> tuple[ast.Statement, int] | None:
    """The statement of a text, and how many parameters it has; None if the text is more than one."""
    return _known(text) if len(text) <= LONGEST and word_of(text) is not None else None


def takers_of(formats: Sequence[int], numbers: Sequence[int]) -> "list[Taker] | None":
    """What makes Python values of parameters; None if one is of a type that has none that means the same."""
    found: list[Taker] = []
    for form, number in zip(formats, numbers, strict=True):
        take = TAKERS.get(number)
        if take is None or (form and not number):  # only its type tells what it is in binary
            return None
        if form:
            found.append(partial(_binary, take, number))
        else:
            found.append(_decoded if take is str else partial(_textual, take))
    return found


def _binary(take: Callable[[str], Any], number: int, value: bytes) -> Any:
    try:
        return take(received.text_of_number(value, number, {}))
    except DataError as error:
        raise ValueError from error


def _decoded(value: bytes) -> str:
    """A text; ValueError if it has a zero byte, which is no character of a text."""
    if b"\0" in value:
        raise ValueError
    return value.decode()


def _textual(take: Callable[[str], Any], value: bytes) -> Any:
    return take(value.decode())


def taken(values: Sequence[bytes | None], takers: "Sequence[Taker]") -> list[Any] | None:
    """Parameters as Python values; None if one is none that means the same in SQL."""
    try:
        return [None if value is None else take(value) for value, take in zip(values, takers, strict=True)]
    except (ValueError, ArithmeticError, KeyError):
        return None


def values_of(
    values: Sequence[bytes | None], formats: Sequence[int], numbers: Sequence[int]
) -> list[Any] | None:
    """Parameters as Python values; None if one is of a type that has none that means the same."""
    takers = takers_of(formats, numbers)
    return None if takers is None else taken(values, takers)
