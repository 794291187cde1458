"""How values stand in files of text, as Soufflé prints them."""

import re
from collections.abc import Callable
from typing import Any, Final

from kpg.compiler.rules import core
from kpg.datalog.terms import STRUCTURED
from kpg.runtime.functions.datalog import plain_float, plain_single, unquote

PART: Final = re.compile(r'"(?:[^"\\]|\\.)*"|-?[0-9]+\.[0-9][0-9e+-]*|-?[0-9]+e[0-9+-]+', re.DOTALL)
"""What of a record or ADT value is written otherwise in a file: symbols and floats."""
BRACKETS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\],]', re.DOTALL)
"""Brackets and commas of a record, among symbols that may have such: a tuple's are round."""
LAST_FIXED: Final = 16
"""The largest power of ten whose number is written out."""

SINGLE: Final = "f32"
"""FlowLog's floats of 32 bits."""
FLOATS: Final = (SINGLE, "f64")
"""FlowLog's types of floats, which it writes as Rust does: without exponents."""

Spelling = Callable[[Any], str]


def float_text(value: float) -> str:
    """The shortest digits that are the float, as C++ prints them: ``2``, ``0.1``, ``1e+20``, ``inf``."""
    text = repr(value)
    if text.endswith(f"e+{LAST_FIXED}"):
        return f"{value:.0f}"
    return text.removesuffix(".0")


def _rounded(text: str) -> str:
    """A tuple with round brackets; one of a single value has a comma behind it."""
    commas: list[bool] = []

    def change(found: re.Match[str]) -> str:
        match found[0]:
            case "[":
                commas.append(False)
                return "("
            case "]":
                return ")" if commas.pop() else ",)"
            case "," if commas:
                commas[-1] = True
        return found[0]

    return BRACKETS.sub(change, text)


def structure_text(text: str, *, quotes: bool) -> str:
    """A record or ADT value as a file has it: symbols with quotes or without, floats as such."""

    def part(found: re.Match[str]) -> str:
        symbol = unquote(found[0])
        if symbol is not None:
            return found[0] if quotes else symbol
        return float_text(float(found[0]))

    return PART.sub(part, text)


def spelling_of(column: core.Column, *, quotes: bool) -> Spelling:
    """How the values of a column are written; ``quotes``: symbols in records and ADT values have them."""
    domain = column.type.domain
    if domain in STRUCTURED and column.type.name.startswith("("):
        return lambda value: structure_text(_rounded(value), quotes=quotes)
    if domain in STRUCTURED:
        return lambda value: structure_text(value, quotes=quotes)
    if domain is core.Domain.FLOAT:
        if column.type.name in FLOATS:
            return plain_single if column.type.name == SINGLE else plain_float
        return float_text
    return shown


def shown(value: Any) -> str:
    """A value of any other column."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
