"""Long lists of VALUES, read by regular expressions instead of the parser.

The parser gets the text around a list with one row of it, and the cells are read by columns. In a query the
rest of the list is blanked, so positions stay valid. The module accepts only plain constants. For any other
text, or a list whose columns need more, the parser reads everything and reports the errors. A cell whose
value depends on more than its text is left to the binder.
"""

import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from sqlglot import exp

from kpg.compiler.sql.bind.calls import unlimited
from kpg.compiler.sql.bind.from_clause import ROWS
from kpg.compiler.sql.bind.literals import convert, from_text, meant, negated, number, rounded
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parameters import Beyond, Slot, rewritten
from kpg.compiler.sql.parse.parser import parse, parse_as
from kpg.runtime.errors import Error
from kpg.runtime.functions import shown_type
from kpg.runtime.interrupts import checkpoint
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Literal
from kpg.runtime.types import BOOLEAN, DATE, DOUBLE, ERROR, TIMESTAMP, UNKNOWN, Kind, Type, float_to_word

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


LIMITS: Final = {Kind.SMALLINT: 2**15, Kind.INTEGER: 2**31, Kind.BIGINT: 2**63}
Stored = int | str | None
"""A word, or the text of an interned value; None for NULL."""


def column_values(cells: Sequence[str], type_: Type) -> list[Stored]:
    """The values of one column's cells; Beyond if one is more than a constant of that type."""
    nulls = [place for place, cell in enumerate(cells) if cell[0] in "nN"]
    if not nulls:
        return _present(cells, type_)
    found = iter(_present([cell for cell in cells if cell[0] not in "nN"], type_))
    missing = set(nulls)
    return [None if place in missing else next(found) for place in range(len(cells))]


def _present(cells: Sequence[str], type_: Type) -> list[Stored]:
    """The values of cells that are not NULL."""
    fast = _FAST.get(type_.kind)
    if fast is not None and cells:
        try:
            found = fast(cells, type_)
        except (ValueError, OverflowError):
            found = None
        if found is not None:
            return found
    known: dict[str, Stored] = {}
    for cell in cells:
        if cell not in known:
            known[cell] = _stored(cell, type_)
    return [known[cell] for cell in cells]


def _integers(cells: Sequence[str], type_: Type) -> list[Stored] | None:
    limit = LIMITS[type_.kind]
    found = list(map(int, cells))
    return list(found) if max(found) < limit and min(found) >= max(-limit, ERROR + 1) else None


def _decimals(cells: Sequence[str], type_: Type) -> list[Stored] | None:
    """Numbers of no more places than the column has; ValueError for cells that are not digits and a point."""
    scale, limit = type_.scale, 10**type_.precision
    found: list[Stored] = []
    for cell in cells:
        whole, _, part = cell.partition(".")
        missing = scale - len(part)
        word = int(whole + part) * 10**missing if missing >= 0 else limit
        if not -limit < word < limit:
            return None
        found.append(word)
    return found


def _doubles(cells: Sequence[str], type_: Type) -> list[Stored] | None:
    if any("e" in cell or "E" in cell for cell in cells):
        return None
    return [float_to_word(float(cell.removesuffix("d"))) for cell in cells]


def _texts(cells: Sequence[str], type_: Type) -> list[Stored] | None:
    if any(cell[0] != "'" for cell in cells):
        return None
    found: list[Stored] = [cell[1:-1].replace("''", "'") for cell in cells]
    return found


_FAST: Final[dict[Kind, Callable[[Sequence[str], Type], list[Stored] | None]]] = {
    Kind.SMALLINT: _integers,
    Kind.INTEGER: _integers,
    Kind.BIGINT: _integers,
    Kind.DECIMAL: _decimals,
    Kind.DOUBLE: _doubles,
    Kind.VARCHAR: _texts,
}
"""Readers of many plain cells; None or ValueError for cells that are not all so."""


def _stored(cell: str, type_: Type) -> Stored:
    """One constant as the binder's ``assigned`` stores it."""
    literal = constant(cell)
    if literal is None:
        raise Beyond
    value: Literal | None = None
    if literal.type == UNKNOWN:
        value = from_text(str(literal.value), Type(type_.kind) if type_.is_text else unlimited(type_))
    elif literal.type == type_:
        value = literal
    elif literal.type.is_exact and type_.is_exact:
        value = rounded(literal, type_)
    elif literal.type.is_numeric and type_.is_numeric:
        folded = convert(literal, type_)
        value = folded if isinstance(folded, Literal) else None
    if value is None:
        raise Beyond
    return value.value


def constant(cell: str) -> Literal | None:
    """The typed constant that is written, which is not NULL; None for DEFAULT, and for what is no value."""
    first = cell[0]
    if cell[-1] == "d":  # a float that was given for a placeholder
        return Literal(float_to_word(float(cell[:-1])), DOUBLE)
    if first == "'":
        return Literal(cell[1:-1].replace("''", "'"), UNKNOWN)
    if first == "-":
        positive = number(cell[1:])
        return None if positive is None else negated(positive)
    if first.isdigit():
        return number(cell)
    match cell.lower():
        case "true" | "false" as word:
            return Literal(int(word == "true"), BOOLEAN)
        case "default":
            return None
    quote = cell.index("'")
    type_ = DATE if cell[0] in "dD" else TIMESTAMP
    return from_text(cell[quote + 1 : -1].replace("''", "'"), type_)


def valued(slot: Slot, given: Literal) -> Literal:
    """The constant of a slot where ``given`` is written: what the binder did with the slot, done with it."""
    literal: object = given
    for how, type_ in slot.steps:
        assert isinstance(literal, Literal)
        match how:
            case "text":
                literal = meant(literal, type_)
            case "converted":
                literal = convert(literal, type_)
            case "rounded":
                literal = rounded(literal, type_)
            case "negated":
                literal = negated(literal)
            case _:
                literal = Literal(literal.value, type_)
        if not isinstance(literal, Literal):
            raise Beyond
    assert isinstance(literal, Literal)
    return literal


class Columns:
    """The columns of a list, as typed constants. Copies of a tree share them."""

    __slots__ = ("columns",)

    def __init__(self, columns: tuple[tuple[Literal, ...], ...]) -> None:
        self.columns = columns

    def __deepcopy__(self, memo: dict[int, Any]) -> "Columns":
        return self


def parsed(text: str) -> list[ast.Statement]:
    """The statements of a script, as ``parse`` gives them."""
    lists = long_lists(text)
    if not lists:
        return parse(text)
    try:
        rows = {one.start + 1: Columns(tuple(map(_typed, one.columns))) for one in lists}
        statements = parse_as(_without(text, lists), text)
    except (Beyond, Error):
        return parse(text)
    found: set[int] = set()
    for statement in statements:
        rewritten(statement, lambda tree: _with_rows(tree, rows, found))
    return statements if found == rows.keys() else parse(text)


def around(text: str, regions: list[Region]) -> list[ast.Statement] | None:
    """The statements of a script but those of some regions; None if one is in the text of a statement."""
    parts: list[str] = []
    last = 0
    for one in regions:
        parts += (text[last : one.start], re.sub(r"[^\n]", " ", text[one.start : one.stop]))
        last = one.stop
    try:
        statements = parse_as("".join((*parts, text[last:])), text)
    except Error:
        return None
    inside = any(
        statement.span.start < one.start < statement.span.end for one in regions for statement in statements
    )
    return None if inside else statements


def _without(text: str, lists: list[Plain]) -> str:
    """The text with one row for each list."""
    parts: list[str] = []
    last = 0
    for one in lists:
        row = f"({','.join('0' * len(one.columns))})"
        blank = re.sub(r"[^\n]", " ", text[one.start + len(row) : one.stop])
        parts += (text[last : one.start], row, blank)
        last = one.stop
    return "".join((*parts, text[last:]))


def _with_rows(tree: exp.Expr, rows: dict[int, Columns], found: set[int]) -> exp.Expr:
    for node in tree.find_all(exp.Values):
        first = node.expressions[0] if node.expressions else None
        cell = first.expressions[0] if isinstance(first, exp.Tuple) and first.expressions else None
        start = cell.meta.get("start") if isinstance(cell, exp.Literal) else None
        if start in rows and len(node.expressions) == 1:
            node.meta[ROWS] = rows[start]
            found.add(start)
    return tree


def _typed(cells: tuple[str, ...]) -> tuple[Literal, ...]:
    """The constants of a column, of one type, as ``bind_values`` has them; Beyond if there is more to it."""
    known: dict[str, Literal] = {}
    for cell in cells:
        if cell not in known:
            literal = Literal(None, UNKNOWN) if cell[0] in "nN" else constant(cell)
            if literal is None:
                raise Beyond
            known[cell] = literal
    kinds = dict.fromkeys(known[cell].type for cell in cells)
    if set(kinds) != {UNKNOWN}:
        target = shown_type(tuple(kinds))
        if target is None:
            raise Beyond
        known = {cell: _as(literal, target) for cell, literal in known.items()}
    return tuple(map(known.__getitem__, cells))


def _as(literal: Literal, type_: Type) -> Literal:
    if literal.type == type_:
        return literal
    if literal.type == UNKNOWN and literal.value is not None:
        value = meant(literal, Type(type_.kind) if type_.is_text else type_)
        if value is None:
            raise Beyond
        return Literal(value.value, type_)
    found = convert(literal, type_)
    if not isinstance(found, Literal):
        raise Beyond
    return found
