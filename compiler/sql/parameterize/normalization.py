"""Query normalization: statements that differ only in constants share one text, the plan cache's key.

:func:`marked_statement` parses a statement with markers in the place of its constants and parameters.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from sqlglot import exp

from kpg.compiler.sql.bind.literals import from_text, negated, number
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parameters import (
    Beyond,
    Binder,
    Marker,
    Parameters,
    Sized,
    checked,
    has_marks,
    numbered,
    rewritten,
)
from kpg.compiler.sql.parse.parser import parse
from kpg.compiler.sql.parse.syntax import transformed
from kpg.runtime.errors import InterfaceError
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Literal
from kpg.runtime.types import DATE, DOUBLE, INTEGER, TIMESTAMP, UNKNOWN, Type

LONGEST: Final = 10_000
MOST_CONSTANTS: Final = 200
SMALL: Final = 9
"""Digits of a number that is an INTEGER."""
_BEGINNING: Final = re.compile(r"[\s(]*+(?:select|with|values|table|update|delete|insert)\b", re.IGNORECASE)
_TOKEN: Final = re.compile(
    r"""[^\W\d][\w$]*+(?P<prefixed>['&])?+
    | "(?:[^"]|"")*+"
    | (?P<odd>\.\d | \d[\d.]*+[\w.$] | --|/\* | \$(?!\d) | \ue000 | " | ;(?!\s*+\Z))
    | (?P<number>\d++(?:\.\d++)?+)
    | (?P<text>'[^']*+(?:''[^']*+)*+')
    | (?P<open>')
    | \$\d++""",
    re.VERBOSE,
)
_ODD: Final = frozenset({"prefixed", "odd", "open"})


@dataclass(frozen=True, slots=True)
class Normal:
    """A text without its constants, what these are, and where they begin."""

    text: str
    constants: tuple[Literal, ...]
    written: tuple[str, ...]
    places: tuple[int, ...]


@lru_cache(256)
def normal(text: str) -> Normal | None:
    """A text as constants and what is around them; None if there is more in it than is told apart here."""
    if len(text) > LONGEST or "\0" in text or _BEGINNING.match(text) is None:
        return None
    around: list[str] = []
    constants: list[Literal] = []
    written: list[str] = []
    places: list[int] = []
    last = 0
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind is None:
            continue
        if kind in _ODD:
            return None
        found = token[0]
        literal = _number(found) if kind == "number" else Literal(found[1:-1].replace("''", "'"), UNKNOWN)
        if literal is None:
            return None
        start, stop = token.span()
        around += (text[last:start], _code(literal.type))
        constants.append(literal)
        written.append(found)
        places.append(start)
        last = stop
    if len(constants) > MOST_CONSTANTS:
        return None
    return Normal("".join((*around, text[last:])), tuple(constants), tuple(written), tuple(places))


def _number(text: str) -> Literal | None:
    return Literal(int(text), INTEGER) if len(text) <= SMALL and text.isdigit() else number(text)


@lru_cache(256)
def _code(type_: Type) -> str:
    """A type as what stands for a constant in a text."""
    return "\ue000" if type_ == UNKNOWN else f"\ue000{type_}\ue000"


Given = Literal | bool | None
"""What a parameter is to a plan: a constant of a slot, or a part of the statement."""


def given(parameters: Sequence[Any] | Mapping[str, Any]) -> tuple[tuple[str | int, Given], ...] | None:
    """Parameters by name or number; None if one is more than a constant.

    Raises InterfaceError for what is neither a list nor a mapping.
    """
    if isinstance(parameters, str) or not isinstance(parameters, Sequence | Mapping):
        raise InterfaceError(
            f"parameters are given in a list, or in a dict by name, not as {type(parameters).__name__}",
            hint="write [value]",
        )
    pairs = parameters.items() if isinstance(parameters, Mapping) else enumerate(parameters)
    found = []
    for name, value in pairs:
        constant = value if value is None or isinstance(value, bool) else _constant(value)
        if constant is None and value is not None:
            return None
        found.append((name, constant))
    return tuple(found)


def kinds(parameters: tuple[tuple[str | int, Given], ...]) -> tuple[object, ...]:
    """What a plan depends on of parameters: their types, and which of them are no constants of a slot."""
    return tuple((name, one.type if isinstance(one, Literal) else one) for name, one in parameters)


def _constant(value: Any) -> Literal | None:
    """A value as the constant that the parser would make of it; None if it is no such."""
    match value:
        case Sized():
            return Literal(int(value), value.type)
        case int():
            positive = number(str(abs(value)))
            return negated(positive) if value < 0 and positive is not None else positive
        case Decimal() if value.is_finite():
            positive = number(f"{value.copy_abs():f}")
            return negated(positive) if value.is_signed() and positive is not None else positive
        case float() if math.isfinite(value):
            return from_text(repr(value), DOUBLE)
        case str():
            return Literal(checked(value), UNKNOWN)
        case datetime() if value.tzinfo is None:
            return from_text(value.isoformat(sep=" "), TIMESTAMP)
        case date() if not isinstance(value, datetime):
            return from_text(value.isoformat(), DATE)
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Asked:
    """A statement as it is asked: its text without constants, and these."""

    text: str
    parameters: Callable[[], Parameters]
    """Values, or syntax of values."""
    normal: Normal
    given: tuple[tuple[str | int, Given], ...]

    @property
    def constants(self) -> tuple[Literal | None, ...]:
        """The constants of the text, then those of the parameters."""
        return (*self.normal.constants, *(one if isinstance(one, Literal) else None for _, one in self.given))


def asked(text: str, parameters: Parameters | None) -> Asked | None:
    """A text as a statement that may have a plan with slots; None if it has none."""
    by_position = parameters is not None and not hasattr(parameters, "keys")
    text = numbered(text) if by_position and "?" in text else text
    found = normal(text)
    values = () if parameters is None else given(parameters)
    return None if found is None or values is None else Asked(text, lambda: parameters or (), found, values)


def marked_statement(asked: Asked, pins: tuple[int, ...]) -> ast.Statement:
    """The statement with markers in the place of its constants."""
    normal = asked.normal
    markers = {
        normal.places[place]: Marker.of(place, literal.type)
        for place, literal in enumerate(normal.constants)
        if place not in pins
    }

    def mark(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Literal) or node.meta.get("start") not in markers:
            return node
        marked = node.copy()
        marked.set("this", markers[node.meta["start"]])
        return marked

    (statement,) = parse(asked.text)
    statement = rewritten(statement, lambda tree: transformed(tree, mark))
    if not asked.given:
        return statement
    if not has_marks(asked.text):
        raise Beyond
    first = len(normal.constants)
    names = [name for name, _ in asked.given]
    values = [_marker(place, one) for place, (_, one) in enumerate(asked.given, first)]
    by_name = isinstance(asked.parameters(), Mapping)
    binder = Binder(dict(zip(map(str, names), values, strict=True)) if by_name else values)
    bound = binder.bind(statement)
    binder.finish()
    return bound


def _marker(place: int, given: Given) -> Any:
    """What the binder of parameters is given for a value."""
    if not isinstance(given, Literal):
        return given
    return exp.Literal(this=Marker.of(place, given.type), is_string=given.type == UNKNOWN)
