"""Text of records, ADT values and other values, as Soufflé prints them.

A record is ``[1, [2, nil]]``, an ADT value ``$Branch(1, "a")``. Fact files and callers use the same text.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final

from kpg.compiler.datalog.diagnostics import given, plural
from kpg.compiler.datalog.syntax.ast import unescape
from kpg.compiler.rules import core
from kpg.runtime.functions.datalog import plain_float, plain_single, quote, unquote
from kpg.runtime.records import dataclass
from kpg.runtime.types import MAX_WORD, MIN_WORD

TOKEN: Final = re.compile(
    r'\s*(?:(?P<mark>[\[\](),])|(?P<branch>\$[A-Za-z_?][\w?.]*)|"(?P<string>(?:[^"\\]|\\.)*)"'
    r"|(?P<word>[^,\[\]()$\"\s](?:[^,\])]*[^,\])\s])?))",
    re.DOTALL,
)
STRUCTURED: Final = (core.Domain.RECORD, core.Domain.ADT)
RANGES: Final = {
    (core.Domain.NUMBER, 32): (-(2**31), 2**31 - 1),
    (core.Domain.NUMBER, 64): (MIN_WORD, MAX_WORD),
    (core.Domain.UNSIGNED, 32): (0, 2**32 - 1),
    (core.Domain.UNSIGNED, 64): (0, MAX_WORD),
}
"""The least and the greatest value of a domain by the size of numbers."""
NARROW: Final = {
    **{
        f"{word}{bits}": (-1 << bits - 1, (1 << bits - 1) - 1)
        for word in ("int", "i")
        for bits in (8, 16, 32)
    },
    **{f"{word}{bits}": (0, (1 << bits) - 1) for word in ("uint", "u") for bits in (8, 16, 32)},
}
"""Those of FlowLog's types."""


class NoTerm(Exception):
    """A text is no value of a type; the message says why, and at which character."""


def canonical(
    text: str, type_: core.ValueType, structures: Mapping[str, core.Structure], size: int = 64
) -> str:
    """The record or ADT value as the program has it, by which equal values are equal texts.

    Symbols inside may stand without quotes if no comma or bracket is in them. NoTerm.
    """
    return _Reader(text, structures, size).read(type_)


@dataclass(slots=True)
class _Open:
    """A record or branch whose fields are being read."""

    name: str
    head: str
    close: str
    fields: tuple[tuple[str, core.ValueType], ...]
    parts: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Reader:
    """Reads left to right, with a stack of its own: lists are as deep as they are long."""

    text: str
    structures: Mapping[str, core.Structure]
    size: int
    place: int = 0
    stack: list[_Open] = field(default_factory=list)

    def read(self, type_: core.ValueType) -> str:
        value = self._value(type_)
        while self.stack or value is None:
            inner = self.stack[-1]
            if value is not None:
                inner.parts.append(value)
            if len(inner.parts) == len(inner.fields):
                self._mark(inner.close)
                self.stack.pop()
                value = f"{inner.head}{', '.join(inner.parts)}{inner.close}"
                continue
            if inner.parts:
                self._mark(",")
            value = self._value(inner.fields[len(inner.parts)][1])
        if self.text[self.place :].strip():
            raise self._wrong("there is more after it")
        return value

    def _wrong(self, why: str) -> NoTerm:
        return NoTerm(f"{why} (character {self.place + 1})")

    def _token(self) -> re.Match[str]:
        found = TOKEN.match(self.text, self.place)
        if found is None:
            raise self._wrong("it cannot be read" if self.text[self.place :].strip() else "it does not end")
        return found

    def _mark(self, wanted: str) -> None:
        """Goes over a bracket or comma."""
        found = self._token()
        if found["mark"] == wanted:
            self.place = found.end()
            return
        inner = self.stack[-1]
        if found["mark"] in (",", inner.close):
            count = len(inner.parts) + (found["mark"] == ",")
            more = "more than " if found["mark"] == "," else ""
            given_ = f"{more}{len(inner.parts)} are given" if more else given(count)
            raise self._wrong(f"{inner.name} has {plural(len(inner.fields), 'field')}, {given_}")
        raise self._wrong(f'"{wanted}" is missing')

    def _value(self, type_: core.ValueType) -> str | None:
        """A value of no parts; None if one with parts was opened."""
        found = self._token()
        match type_.domain:
            case core.Domain.RECORD:
                return self._record(found, type_)
            case core.Domain.ADT:
                return self._branch(found, type_)
            case core.Domain.SYMBOL:
                return self._symbol(found)
            case _:
                return self._number(found, type_)

    def _record(self, found: re.Match[str], type_: core.ValueType) -> str | None:
        if found["word"] == "nil":
            self.place = found.end()
            return "nil"
        if found["mark"] != "[":
            raise self._wrong(f"a record of {type_.name} begins with [")
        self.place = found.end()
        fields = self.structures[type_.name].branches[""]
        self.stack.append(_Open(f"record {type_.name}", "[", "]", fields))
        return None

    def _branch(self, found: re.Match[str], type_: core.ValueType) -> str | None:
        branches = self.structures[type_.name].branches
        name = (found["branch"] or "")[1:]
        if name not in branches:
            shown = ", ".join(f"${branch}" for branch in branches)
            raise self._wrong(f"the branches of {type_.name} are {shown}")
        self.place = found.end()
        opens = TOKEN.match(self.text, self.place)
        if opens is not None and opens["mark"] == "(":
            self.place = opens.end()
        elif branches[name]:
            raise self._wrong('"(" is missing')
        else:
            return f"${name}"
        if branches[name]:
            self.stack.append(_Open(f"branch {name}", f"${name}(", ")", branches[name]))
            return None
        closes = self._token()
        if closes["mark"] != ")":
            raise self._wrong(f"branch {name} has 0 fields")
        self.place = closes.end()
        return f"${name}"

    def _symbol(self, found: re.Match[str]) -> str:
        if found["string"] is None and found["word"] is None:
            raise self._wrong("a symbol is missing")
        self.place = found.end()
        return quote(found["word"] if found["string"] is None else unescape(found["string"])[0])

    def _number(self, found: re.Match[str], type_: core.ValueType) -> str:
        word = found["word"] or ""
        value = _float(word) if type_.domain is core.Domain.FLOAT else _whole(word)
        low, high = RANGES.get((type_.domain, self.size), (value, value))
        if value is None or low is None or high is None or not low <= value <= high:
            raise self._wrong(f'"{word or found[0].strip()}" is no {type_.name}')
        self.place = found.end()
        return repr(value)


def _whole(word: str) -> int | None:
    return int(word) if re.fullmatch(r"[+-]?[0-9]{1,30}", word, re.ASCII) else None


def _float(word: str) -> float | None:
    try:
        value = float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


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
