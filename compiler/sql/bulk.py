"""INSERT ... VALUES of plain constants, read by regular expressions: long lists of rows need no syntax tree.

What stands before and behind the rows is given to the parser, with one row for all of them, and remembered.
A text that holds anything else is not read here at all: the parser reads it, or says what is wrong with it.
"""

import math
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from kpg.runtime.interrupts import checkpoint
from kpg.runtime.records import dataclass

_ONCE: Final = "+" if sys.version_info >= (3, 11, 5) else ""
"""Behind a group's quantifier: what it has matched is kept. Python before 3.11.5 went on from where
a next try had failed, if there are alternatives in the group; without it the same is matched, in more memory.
"""
_S: Final = r"[ \t\r\n]"
_AND: Final = rf"{_S}*+,{_S}*+"
_STRING: Final = r"'[^']*+(?:''[^']*+)*+'"
_CELL: Final = (
    rf"(?:-?\d++(?:\.\d*+)?(?:e[+-]?\d++)?|{_STRING}|null|true|false|default|\?|\$\d++"
    rf"|(?:date|timestamp){_S}*+{_STRING})"
)
_NAME: Final = r'(?:[a-z_]\w*+|"[^"\']++")'
_FLAGS: Final = re.IGNORECASE | re.ASCII
_HEAD: Final = re.compile(
    rf"{_S}*+insert{_S}++into{_S}++{_NAME}(?:{_S}*+\.{_S}*+{_NAME})?{_ONCE}(?:{_S}++as{_S}++{_NAME})?{_ONCE}"
    rf"(?:{_S}*+\({_S}*+{_NAME}(?:{_AND}{_NAME})*{_ONCE}{_S}*+\))?{_ONCE}"
    rf"(?:{_S}*+overriding{_S}++(?:system|user){_S}++value)?{_ONCE}{_S}*+values{_S}*+(?=\()",
    _FLAGS,
)
_FIRST: Final = re.compile(rf"\({_S}*+{_CELL}(?:{_AND}{_CELL})*{_ONCE}{_S}*+\)", _FLAGS)
_CELLS: Final = re.compile(_CELL, _FLAGS)
_BLANK: Final = re.compile(r"[ \t\r\n;]*+")
_TAIL: Final = re.compile(rf"{_S}*+(?:on{_S}++conflict|returning)\b[^?:$;]*+;?+{_S}*+\Z", _FLAGS)
_LIST: Final = re.compile(rf"(?:\A|\(){_S}*+values{_S}*+(?=\()", _FLAGS)
_EXECUTE: Final = re.compile(
    rf"{_S}*+execute{_S}++(?P<name>[a-z_]\w*+){_S}*+"
    rf"(?P<values>\({_S}*+{_CELL}(?:{_AND}{_CELL})*{_ONCE}{_S}*+\))?{_ONCE}{_S}*+;?+{_S}*+\Z",
    _FLAGS,
)
_START: Final = re.compile(rf"(?:\A|;)(?:{_S}|--[^\n]*+\n)*{_ONCE}(?=insert)", _FLAGS)
_LAST: Final = re.compile(rf"{_S}*+(?:;|\Z)")
_END: Final = re.compile(rf"{_S}*+(?:[);]|\Z)")
MOST_COLUMNS: Final = 400
SHORT: Final = 500
LONG: Final = 32
"""Rows of a list that is not left to the parser, and letters of a text that cannot have one."""
LONGEST_TAIL: Final = 2000


@dataclass(frozen=True, slots=True)
class Rows:
    """An INSERT: what stands around its rows, as a statement with one row; and its cells, by columns.

    A cell is written as in the text: ``1.5``, ``'it''s'``, ``NULL``, ``DATE '2000-01-01'``.
    """

    text: str
    columns: tuple[tuple[str, ...], ...]


@lru_cache(64)
def _rows(width: int) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Rows of a number of cells: all that follow one another; and a single one, with its cells."""
    plain = rf"\({_S}*+{_AND.join([_CELL] * width)}{_S}*+\)"
    single = rf"\({_S}*+{_AND.join([f'({_CELL})'] * width)}{_S}*+\)"
    return re.compile(rf"{plain}(?:{_AND}{plain})*{_ONCE}", _FLAGS), re.compile(single, _FLAGS)


@dataclass(frozen=True, slots=True)
class Plain:
    """A list of rows of plain cells: where it stands in a text, and its cells by columns."""

    start: int
    stop: int
    columns: tuple[tuple[str, ...], ...]


def long_lists(text: str) -> list[Plain]:
    """The long lists of VALUES in FROM, in brackets or alone, whose cells are plain constants."""
    found = []
    for head in _LIST.finditer(text) if len(text) > SHORT else ():
        cells, stop = _cells(text, head.end())
        if len(cells) >= LONG and _END.match(text, stop):
            columns = tuple(zip(*cells, strict=True))
            if not any(cell[0] in "?$" for column in columns for cell in column):
                found.append(Plain(head.end(), stop, columns))
    return found


def _cells(text: str, start: int) -> tuple[list[tuple[str, ...]], int]:
    """The rows that begin at a place, each a tuple of cells, and where they end."""
    first = _FIRST.match(text, start)
    width = 0 if first is None else len(_CELLS.findall(first[0]))
    if not 0 < width <= MOST_COLUMNS:
        return [], start
    many, single = _rows(width)
    rows = many.match(text, start)
    assert rows is not None
    cells = single.findall(text, start, rows.end())
    return (cells if width > 1 else [(cell,) for cell in cells]), rows.end()


def read(text: str, parameters: "Sequence[Any] | Mapping[str, Any] | None" = None) -> list[Rows] | None:
    """The INSERTs of a script that has nothing else; None if it has, or if there is more to a constant."""
    found: list[Rows] = []
    given = _Given(parameters)
    place, end = 0, len(text)
    while place < end:
        head = _HEAD.match(text, place)
        if head is None:
            return None
        cells, stop = _cells(text, head.end())
        if not cells:
            return None
        blank = _BLANK.match(text, stop)
        assert blank is not None
        tail = ""
        place = blank.end()
        if place < end and ";" not in blank[0]:
            rest = _TAIL.match(text, stop)
            if rest is None or end - rest.start() > LONGEST_TAIL:
                return None
            tail, place = rest[0], end
            if "select" in tail.lower():
                return None
        columns = tuple(zip(*cells, strict=True))
        bound = given.bound(columns)
        if bound is None:
            return None
        short = f"{head[0]}({', '.join(['NULL'] * len(columns))}){tail}"
        found.append(Rows(short, bound))
    return found if found and given.finished() else None


def placed(text: str) -> Rows | None:
    """The INSERT of one row that a text is, with placeholders as cells; None if it is another statement."""
    head = _HEAD.match(text)
    cells, stop = ([], 0) if head is None else _cells(text, head.end())
    if head is None or len(cells) != 1:
        return None
    tail = ""
    if _BLANK.fullmatch(text, stop) is None:
        rest = _TAIL.match(text, stop)
        if rest is None or len(text) - stop > LONGEST_TAIL or "select" in rest[0].lower():
            return None
        tail = rest[0]
    short = f"{head[0]}({', '.join(['NULL'] * len(cells[0]))}){tail}"
    return Rows(short, tuple((cell,) for cell in cells[0]))


@dataclass(frozen=True, slots=True)
class Region:
    """An INSERT of plain constants among other statements, and where it stands."""

    start: int
    stop: int
    rows: Rows


def among_others(text: str) -> list[Region]:
    """The INSERTs of plain constants, without RETURNING and the like, of a script that has others too.

    Those in the texts of other statements are among them. Nothing of a script whose comments may hold some.
    """
    if "/*" in text or any("insert" in line.partition("--")[2].lower() for line in text.splitlines()):
        return []
    found = []
    place = 0
    while (start := _START.search(text, place)) is not None:
        first, place = start.end(), start.end() + 1
        head = _HEAD.match(text, first)
        cells, stop = ([], first) if head is None else _cells(text, head.end())
        if head is not None and cells and _LAST.match(text, stop):
            columns = tuple(zip(*cells, strict=True))
            if not any(cell[0] in "?$" for column in columns for cell in column):
                short = f"{head[0].strip()}({', '.join(['NULL'] * len(columns))})"
                found.append(Region(first, stop, Rows(short, columns)))
                place = stop
    return found


def executed(text: str) -> tuple[str, tuple[str, ...]] | None:
    """The name and the constants of an EXECUTE; None if the text is none, or has more than constants."""
    found = _EXECUTE.match(text)
    if found is None:
        return None
    cells = tuple(_CELLS.findall(found["values"] or ""))
    return None if any(cell[0] in "?$" for cell in cells) else (found["name"], cells)


class _Given:
    """The values of placeholders, as constants of the text."""

    def __init__(self, parameters: "Sequence[Any] | Mapping[str, Any] | None") -> None:
        self._values = () if parameters is None or isinstance(parameters, Mapping) else parameters
        self._named = isinstance(parameters, Mapping) and bool(parameters)
        self._used: set[int] = set()
        self._asked = 0

    def bound(self, columns: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...] | None:
        """The columns with constants in the place of placeholders; None if a value is not that simple."""
        if not any(cell[0] in "?$" for column in columns for cell in column):
            return columns
        made = []
        for row in zip(*columns, strict=True):
            checkpoint()
            cells = []
            for cell in row:
                if cell[0] in "?$":
                    place = self._asked if cell[0] == "?" else int(cell[1:]) - 1
                    self._asked += cell[0] == "?"
                    constant = written(self._values[place]) if 0 <= place < len(self._values) else None
                    if constant is None:
                        return None
                    self._used.add(place)
                    cell = constant
                cells.append(cell)
            made.append(cells)
        return tuple(zip(*made, strict=True))

    def finished(self) -> bool:
        """Whether all values were used."""
        return len(self._used) == len(self._values) and not self._named


def written(value: Any) -> str | None:
    """A value as a constant of the text; None for one that is none, or takes more than a word."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case Decimal() if value.is_finite():
            return f"{value:f}"
        case float() if math.isfinite(value):
            return _double(value)
        case str():
            return "'" + value.replace("'", "''") + "'"
        case datetime() if value.tzinfo is None:
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case date() if not isinstance(value, datetime):
            return f"DATE '{value.isoformat()}'"
        case _:
            return None


def _double(value: float) -> str:
    """A float, marked as one: ``1.5d``. No text has such a constant; ``1.5e0`` in a text is a NUMERIC."""
    return f"{value!r}d"
