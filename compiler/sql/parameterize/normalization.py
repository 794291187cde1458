"""Query normalization: statements that differ only in constants share one text, the plan cache's key.

:func:`parse_with_markers` parses a statement with markers in place of its constants and parameters.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from sqlglot import exp

from kpg.compiler.sql.bind.literals import literal_from_text, negate_literal, parse_number
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parameters import (
    Binder,
    Marker,
    NotConstantError,
    Parameters,
    TypedInteger,
    check_text,
    map_trees,
    may_have_placeholders,
    number_placeholders,
)
from kpg.compiler.sql.parse.parser import parse
from kpg.compiler.sql.parse.syntax import transform_tree
from kpg.runtime.errors import InterfaceError
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Literal
from kpg.runtime.types import DATE, DOUBLE, INTEGER, TIMESTAMP, UNKNOWN, Type

MAX_LENGTH: Final = 10_000
"""Characters of a text; longer ones are not normalized."""
MAX_CONSTANTS: Final = 200
INTEGER_DIGITS: Final = 9
"""Digits of a number that is surely an INTEGER."""
_FIRST_KEYWORD: Final = re.compile(
    r"[\s(]*+(?:select|with|values|table|update|delete|insert)\b", re.IGNORECASE
)
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
_UNSUPPORTED: Final = frozenset({"prefixed", "odd", "open"})


@dataclass(frozen=True, slots=True)
class NormalizedText:
    """Text without its constants, the constants, their source text, and the offsets where they begin."""

    text: str
    constants: tuple[Literal, ...]
    constant_texts: tuple[str, ...]
    offsets: tuple[int, ...]


@lru_cache(256)
def normalize_text(text: str) -> NormalizedText | None:
    """Separate the constants of a text from the rest.

    None for a text with comments, unusual literals, several statements or too many constants.
    """
    if len(text) > MAX_LENGTH or "\0" in text or _FIRST_KEYWORD.match(text) is None:
        return None
    parts: list[str] = []
    constants: list[Literal] = []
    constant_texts: list[str] = []
    offsets: list[int] = []
    last = 0
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind is None:
            continue
        if kind in _UNSUPPORTED:
            return None
        source = token[0]
        literal = _number(source) if kind == "number" else Literal(source[1:-1].replace("''", "'"), UNKNOWN)
        if literal is None:
            return None
        start, stop = token.span()
        parts += (text[last:start], _placeholder(literal.type))
        constants.append(literal)
        constant_texts.append(source)
        offsets.append(start)
        last = stop
    if len(constants) > MAX_CONSTANTS:
        return None
    return NormalizedText(
        "".join((*parts, text[last:])), tuple(constants), tuple(constant_texts), tuple(offsets)
    )


def _number(text: str) -> Literal | None:
    return (
        Literal(int(text), INTEGER) if len(text) <= INTEGER_DIGITS and text.isdigit() else parse_number(text)
    )


@lru_cache(256)
def _placeholder(type_: Type) -> str:
    """Return the text that stands for a constant of a type."""
    return "\ue000" if type_ == UNKNOWN else f"\ue000{type_}\ue000"


ParameterConstant = Literal | bool | None
"""Parameter of a cached plan: a slot's constant, or a NULL or boolean as part of the statement."""


def parameter_constants(
    parameters: Sequence[Any] | Mapping[str, Any],
) -> tuple[tuple[str | int, ParameterConstant], ...] | None:
    """Return parameters by name or number as constants; None if a value is no plain constant.

    InterfaceError if they are neither a sequence nor a mapping.
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


def constant_types(parameters: tuple[tuple[str | int, ParameterConstant], ...]) -> tuple[object, ...]:
    """Return what a plan depends on: the types of slot constants, and the other values themselves."""
    return tuple(
        (name, constant.type if isinstance(constant, Literal) else constant) for name, constant in parameters
    )


def _constant(value: Any) -> Literal | None:
    """Return a value as the constant that the parser would read; None if there is no such constant."""
    match value:
        case TypedInteger():
            return Literal(int(value), value.type)
        case int():
            positive = parse_number(str(abs(value)))
            return negate_literal(positive) if value < 0 and positive is not None else positive
        case Decimal() if value.is_finite():
            positive = parse_number(f"{value.copy_abs():f}")
            return negate_literal(positive) if value.is_signed() and positive is not None else positive
        case float() if math.isfinite(value):
            return literal_from_text(repr(value), DOUBLE)
        case str():
            return Literal(check_text(value), UNKNOWN)
        case datetime() if value.tzinfo is None:
            return literal_from_text(value.isoformat(sep=" "), TIMESTAMP)
        case date() if not isinstance(value, datetime):
            return literal_from_text(value.isoformat(), DATE)
        case _:
            return None


@dataclass(frozen=True, slots=True)
class NormalizedStatement:
    """Statement in normalized form: its text without constants, the constants, and its parameters."""

    text: str
    parameters: Callable[[], Parameters]
    """Function that returns the parameters, as values or as syntax trees."""
    normalized_text: NormalizedText
    parameter_constants: tuple[tuple[str | int, ParameterConstant], ...]

    @property
    def constants(self) -> tuple[Literal | None, ...]:
        """Return the constants of the text, then those of the parameters.

        A parameter without a slot has None.
        """
        return (
            *self.normalized_text.constants,
            *(
                constant if isinstance(constant, Literal) else None
                for _, constant in self.parameter_constants
            ),
        )


def normalize_statement(text: str, parameters: Parameters | None) -> NormalizedStatement | None:
    """Normalize a statement with its parameters; None if it cannot have a cached plan with slots."""
    by_position = parameters is not None and not hasattr(parameters, "keys")
    text = number_placeholders(text) if by_position and "?" in text else text
    normalized = normalize_text(text)
    constants = () if parameters is None else parameter_constants(parameters)
    return (
        None
        if normalized is None or constants is None
        else NormalizedStatement(text, lambda: parameters or (), normalized, constants)
    )


def parse_with_markers(source: NormalizedStatement, pins: tuple[int, ...]) -> ast.Statement:
    """Parse a normalized statement, with markers in place of constants other than the positions ``pins``.

    NotConstantError if there are parameters and the text has no placeholder.
    """
    normalized = source.normalized_text
    markers = {
        normalized.offsets[place]: Marker.of(place, literal.type)
        for place, literal in enumerate(normalized.constants)
        if place not in pins
    }

    def replace_constant(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Literal) or node.meta.get("start") not in markers:
            return node
        marked = node.copy()
        marked.set("this", markers[node.meta["start"]])
        return marked

    (statement,) = parse(source.text)
    statement = map_trees(statement, lambda tree: transform_tree(tree, replace_constant))
    if not source.parameter_constants:
        return statement
    if not may_have_placeholders(source.text):
        raise NotConstantError
    first = len(normalized.constants)
    names = [name for name, _ in source.parameter_constants]
    values = [
        _marker(place, constant) for place, (_, constant) in enumerate(source.parameter_constants, first)
    ]
    by_name = isinstance(source.parameters(), Mapping)
    binder = Binder(dict(zip(map(str, names), values, strict=True)) if by_name else values)
    bound = binder.bind(statement)
    binder.finish()
    return bound


def _marker(place: int, constant: ParameterConstant) -> Any:
    """Return the value of a parameter for the binder: a marker for a constant in a slot."""
    if not isinstance(constant, Literal):
        return constant
    return exp.Literal(this=Marker.of(place, constant.type), is_string=constant.type == UNKNOWN)
