"""Text of records, ADT values and other values, as Soufflé prints them.

A record is ``[1, [2, nil]]``, an ADT value ``$Branch(1, "a")``. Fact files and callers use the same text.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final

from kpg.compiler.datalog.diagnostics import count_text, plural
from kpg.compiler.datalog.syntax.ast import unescape
from kpg.compiler.rules import core
from kpg.runtime.functions.datalog import quote, show_float, show_single, unquote
from kpg.runtime.records import dataclass
from kpg.runtime.types import MAX_WORD, MIN_WORD

TOKEN: Final = re.compile(
    r'\s*(?:(?P<mark>[\[\](),])|(?P<branch>\$[A-Za-z_?][\w?.]*)|"(?P<string>(?:[^"\\]|\\.)*)"'
    r"|(?P<word>[^,\[\]()$\"\s](?:[^,\])]*[^,\])\s])?))",
    re.DOTALL,
)
"""A token of a record or ADT value."""
STRUCTURED: Final = (core.Domain.RECORD, core.Domain.ADT)
RANGES: Final = {
    (core.Domain.NUMBER, 32): (-(2**31), 2**31 - 1),
    (core.Domain.NUMBER, 64): (MIN_WORD, MAX_WORD),
    (core.Domain.UNSIGNED, 32): (0, 2**32 - 1),
    (core.Domain.UNSIGNED, 64): (0, MAX_WORD),
}
"""The smallest and largest value of a domain, by the number of bits."""
FLOWLOG_RANGES: Final = {
    **{
        f"{word}{bits}": (-1 << bits - 1, (1 << bits - 1) - 1)
        for word in ("int", "i")
        for bits in (8, 16, 32)
    },
    **{f"{word}{bits}": (0, (1 << bits) - 1) for word in ("uint", "u") for bits in (8, 16, 32)},
}
"""The smallest and largest value of FlowLog's integer types."""


class TermError(Exception):
    """A text is not a value of a type. The message has the reason and the position."""


def canonical_term(
    text: str, type_: core.ValueType, structures: Mapping[str, core.Structure], size: int = 64
) -> str:
    """Return the canonical form of a record or ADT value. Equal values have equal canonical forms.

    Symbols without commas and brackets may stand without quotes. Raises TermError.
    """
    return _TermReader(text, structures, size).read(type_)


@dataclass(slots=True)
class _PartialTerm:
    """A record or branch whose fields are being read."""

    name: str
    head: str
    close: str
    fields: tuple[tuple[str, core.ValueType], ...]
    parts: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _TermReader:
    """Reads a term left to right with an explicit stack, because lists can nest deeply."""

    text: str
    structures: Mapping[str, core.Structure]
    size: int
    position: int = 0
    stack: list[_PartialTerm] = field(default_factory=list)

    def read(self, type_: core.ValueType) -> str:
        value = self._read_value(type_)
        while self.stack or value is None:
            partial = self.stack[-1]
            if value is not None:
                partial.parts.append(value)
            if len(partial.parts) == len(partial.fields):
                self._skip_mark(partial.close)
                self.stack.pop()
                value = f"{partial.head}{', '.join(partial.parts)}{partial.close}"
                continue
            if partial.parts:
                self._skip_mark(",")
            value = self._read_value(partial.fields[len(partial.parts)][1])
        if self.text[self.position :].strip():
            raise self._error("there is more after it")
        return value

    def _error(self, reason: str) -> TermError:
        return TermError(f"{reason} (character {self.position + 1})")

    def _next_token(self) -> re.Match[str]:
        token = TOKEN.match(self.text, self.position)
        if token is None:
            raise self._error(
                "it cannot be read" if self.text[self.position :].strip() else "it does not end"
            )
        return token

    def _skip_mark(self, expected: str) -> None:
        """Skip a bracket or comma."""
        token = self._next_token()
        if token["mark"] == expected:
            self.position = token.end()
            return
        partial = self.stack[-1]
        if token["mark"] in (",", partial.close):
            count = len(partial.parts) + (token["mark"] == ",")
            more = "more than " if token["mark"] == "," else ""
            actual = f"{more}{len(partial.parts)} are given" if more else count_text(count)
            raise self._error(f"{partial.name} has {plural(len(partial.fields), 'field')}, {actual}")
        raise self._error(f'"{expected}" is missing')

    def _read_value(self, type_: core.ValueType) -> str | None:
        """Return a scalar value, or None after opening a record or branch."""
        token = self._next_token()
        match type_.domain:
            case core.Domain.RECORD:
                return self._read_record(token, type_)
            case core.Domain.ADT:
                return self._read_branch(token, type_)
            case core.Domain.SYMBOL:
                return self._read_symbol(token)
            case _:
                return self._read_number(token, type_)

    def _read_record(self, token: re.Match[str], type_: core.ValueType) -> str | None:
        if token["word"] == "nil":
            self.position = token.end()
            return "nil"
        if token["mark"] != "[":
            raise self._error(f"a record of {type_.name} begins with [")
        self.position = token.end()
        fields = self.structures[type_.name].branches[""]
        self.stack.append(_PartialTerm(f"record {type_.name}", "[", "]", fields))
        return None

    def _read_branch(self, token: re.Match[str], type_: core.ValueType) -> str | None:
        branches = self.structures[type_.name].branches
        name = (token["branch"] or "")[1:]
        if name not in branches:
            names = ", ".join(f"${branch}" for branch in branches)
            raise self._error(f"the branches of {type_.name} are {names}")
        self.position = token.end()
        opens = TOKEN.match(self.text, self.position)
        if opens is not None and opens["mark"] == "(":
            self.position = opens.end()
        elif branches[name]:
            raise self._error('"(" is missing')
        else:
            return f"${name}"
        if branches[name]:
            self.stack.append(_PartialTerm(f"branch {name}", f"${name}(", ")", branches[name]))
            return None
        closes = self._next_token()
        if closes["mark"] != ")":
            raise self._error(f"branch {name} has 0 fields")
        self.position = closes.end()
        return f"${name}"

    def _read_symbol(self, token: re.Match[str]) -> str:
        if token["string"] is None and token["word"] is None:
            raise self._error("a symbol is missing")
        self.position = token.end()
        return quote(token["word"] if token["string"] is None else unescape(token["string"])[0])

    def _read_number(self, token: re.Match[str], type_: core.ValueType) -> str:
        word = token["word"] or ""
        value = _parse_float(word) if type_.domain is core.Domain.FLOAT else _parse_integer(word)
        low, high = RANGES.get((type_.domain, self.size), (value, value))
        if value is None or low is None or high is None or not low <= value <= high:
            raise self._error(f'"{word or token[0].strip()}" is no {type_.name}')
        self.position = token.end()
        return repr(value)


def _parse_integer(word: str) -> int | None:
    return int(word) if re.fullmatch(r"[+-]?[0-9]{1,30}", word, re.ASCII) else None


def _parse_float(word: str) -> float | None:
    try:
        value = float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


REFORMATTED_PART: Final = re.compile(
    r'"(?:[^"\\]|\\.)*"|-?[0-9]+\.[0-9][0-9e+-]*|-?[0-9]+e[0-9+-]+', re.DOTALL
)
"""The parts of a record or ADT value whose form in a file differs: symbols and floats."""
BRACKET_OR_COMMA: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\],]', re.DOTALL)
"""Brackets and commas of a record, or a symbol. Tuples have round brackets instead."""
MAX_FIXED_EXPONENT: Final = 16
"""The largest power of ten that is written without an exponent."""

FLOAT32_TYPE: Final = "f32"
"""FlowLog's type of 32-bit floats."""
FLOAT_TYPES: Final = (FLOAT32_TYPE, "f64")
"""FlowLog's float types. Like Rust, it writes their values without exponents."""

ValueFormatter = Callable[[Any], str]


def float_text(value: float) -> str:
    """Return the shortest digits of a float as C++ prints them: ``2``, ``0.1``, ``1e+20``, ``inf``."""
    text = repr(value)
    if text.endswith(f"e+{MAX_FIXED_EXPONENT}"):
        return f"{value:.0f}"
    return text.removesuffix(".0")


def _tuple_text(text: str) -> str:
    """Return a tuple with round brackets; a tuple of one value has a trailing comma."""
    has_comma: list[bool] = []

    def replace_bracket(token: re.Match[str]) -> str:
        match token[0]:
            case "[":
                has_comma.append(False)
                return "("
            case "]":
                return ")" if has_comma.pop() else ",)"
            case "," if has_comma:
                has_comma[-1] = True
        return token[0]

    return BRACKET_OR_COMMA.sub(replace_bracket, text)


def structure_text(text: str, *, quotes: bool) -> str:
    """Return a record or ADT value as in a file.

    Symbols have quotes or not, and floats are written as C++ prints them.
    """

    def reformat(token: re.Match[str]) -> str:
        symbol = unquote(token[0])
        if symbol is not None:
            return token[0] if quotes else symbol
        return float_text(float(token[0]))

    return REFORMATTED_PART.sub(reformat, text)


def formatter_for(column: core.Column, *, quotes: bool) -> ValueFormatter:
    """Return the formatter of a column's values. ``quotes`` quotes symbols in records and ADT values."""
    domain = column.type.domain
    if domain in STRUCTURED and column.type.name.startswith("("):
        return lambda value: structure_text(_tuple_text(value), quotes=quotes)
    if domain in STRUCTURED:
        return lambda value: structure_text(value, quotes=quotes)
    if domain is core.Domain.FLOAT:
        if column.type.name in FLOAT_TYPES:
            return show_single if column.type.name == FLOAT32_TYPE else show_float
        return float_text
    return value_text


def value_text(value: Any) -> str:
    """Return the text of a value that is not a float or structure."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
