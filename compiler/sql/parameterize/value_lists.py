"""Long lists of VALUES, read by regular expressions instead of the parser.

The parser gets the text around a list with one row of it, and the cells are read by columns. In a
query the rest of the list is blanked, so positions stay valid. The module accepts only plain
constants. For any other text, or a list whose columns need more, the parser reads everything and
reports the errors. A cell whose value depends on more than its text is left to the binder.
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

from kpg.compiler.sql.bind.calls import without_length_limit
from kpg.compiler.sql.bind.from_clause import PARAMETER_ROWS
from kpg.compiler.sql.bind.literals import (
    convert,
    literal_from_quoted,
    literal_from_text,
    negate_literal,
    parse_number,
    round_literal,
)
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parameters import NotConstantError, Slot, map_trees
from kpg.compiler.sql.parse.parser import parse, parse_masked
from kpg.runtime.errors import Error
from kpg.runtime.functions import common_result_type
from kpg.runtime.interrupts import checkpoint
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Literal
from kpg.runtime.types import (
    BIT_KINDS,
    BOOLEAN,
    DATE,
    DOUBLE,
    ERROR,
    TIMESTAMP,
    UNKNOWN,
    Kind,
    Type,
    float_to_word,
)

_POSSESSIVE: Final = "+" if sys.version_info >= (3, 11, 5) else ""
"""Possessive suffix of a group's quantifier: the match is not retried.

Empty before Python 3.11.5, which resumes at the wrong position after a failed repetition of a group
with alternatives. Without the suffix the same text matches, with more memory.
"""
_S: Final = r"[ \t\r\n]"
_COMMA: Final = rf"{_S}*+,{_S}*+"
_STRING: Final = r"'[^']*+(?:''[^']*+)*+'"
_CELL: Final = (
    rf"(?:-?\d++(?:\.\d*+)?(?:e[+-]?\d++)?|{_STRING}|null|true|false|default|\?|\$\d++"
    rf"|(?:date|timestamp){_S}*+{_STRING})"
)
_NAME: Final = r'(?:[a-z_]\w*+|"[^"\']++")'
_FLAGS: Final = re.IGNORECASE | re.ASCII
_HEAD: Final = re.compile(
    rf"{_S}*+insert{_S}++into{_S}++{_NAME}(?:{_S}*+\.{_S}*+{_NAME})?{_POSSESSIVE}(?:{_S}++as{_S}++{_NAME})?{_POSSESSIVE}"
    rf"(?:{_S}*+\({_S}*+{_NAME}(?:{_COMMA}{_NAME})*{_POSSESSIVE}{_S}*+\))?{_POSSESSIVE}"
    rf"(?:{_S}*+overriding{_S}++(?:system|user){_S}++value)?{_POSSESSIVE}{_S}*+values{_S}*+(?=\()",
    _FLAGS,
)
_FIRST_ROW: Final = re.compile(rf"\({_S}*+{_CELL}(?:{_COMMA}{_CELL})*{_POSSESSIVE}{_S}*+\)", _FLAGS)
_CELLS: Final = re.compile(_CELL, _FLAGS)
_BLANK: Final = re.compile(r"[ \t\r\n;]*+")
_TAIL: Final = re.compile(rf"{_S}*+(?:on{_S}++conflict|returning)\b[^?:$;]*+;?+{_S}*+\Z", _FLAGS)
_LIST: Final = re.compile(rf"(?:\A|\(){_S}*+values{_S}*+(?=\()", _FLAGS)
_EXECUTE: Final = re.compile(
    rf"{_S}*+execute{_S}++(?P<name>[a-z_]\w*+){_S}*+"
    rf"(?P<values>\({_S}*+{_CELL}(?:{_COMMA}{_CELL})*{_POSSESSIVE}{_S}*+\))?{_POSSESSIVE}{_S}*+;?+{_S}*+\Z",
    _FLAGS,
)
_INSERT_START: Final = re.compile(rf"(?:\A|;)(?:{_S}|--[^\n]*+\n)*{_POSSESSIVE}(?=insert)", _FLAGS)
_STATEMENT_END: Final = re.compile(rf"{_S}*+(?:;|\Z)")
_LIST_END: Final = re.compile(rf"{_S}*+(?:[);]|\Z)")
MAX_COLUMNS: Final = 400
MAX_GROUPS: Final = 16
"""Columns of rows that one pattern with a group for each cell reads: 20 % faster, but slow to compile."""
MAX_SHORT_TEXT: Final = 500
"""Characters of a text that is too short for a long list."""
MIN_LONG_LIST: Final = 32
"""Rows of a list that is read here and not by the parser."""
MAX_TAIL: Final = 2000
"""Characters of the ON CONFLICT or RETURNING clause behind a list."""


@dataclass(frozen=True, slots=True)
class InsertValues:
    """INSERT of plain constants: the statement with one row of NULLs, and the cells by columns.

    A cell is written as in the text: ``1.5``, ``'it''s'``, ``NULL``, ``DATE '2000-01-01'``.
    """

    text: str
    columns: tuple[tuple[str, ...], ...]


@lru_cache(64)
def _row_patterns(width: int) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of a sequence of rows of ``width`` cells, and of cells in it, grouped.

    The second matches a row, or a cell with what precedes it if rows are so wide that compiling a group
    for each cell would take longer than reading the cells.
    """
    row = rf"\({_S}*+{_CELL}(?:{_COMMA}{_CELL}){{{width - 1}}}{_POSSESSIVE}{_S}*+\)"
    wide = width > MAX_GROUPS
    cells = rf"[(,]{_S}*+({_CELL})" if wide else rf"\({_S}*+{_COMMA.join([f'({_CELL})'] * width)}{_S}*+\)"
    return re.compile(rf"{row}(?:{_COMMA}{row})*{_POSSESSIVE}", _FLAGS), re.compile(cells, _FLAGS)


@dataclass(frozen=True, slots=True)
class ValuesList:
    """List of rows of plain constants: its offsets in a text, and its cells by columns."""

    start: int
    stop: int
    columns: tuple[tuple[str, ...], ...]


def find_long_lists(text: str) -> list[ValuesList]:
    """Return the long lists of VALUES in FROM, in parentheses or alone, whose cells are plain constants."""
    found = []
    for head in _LIST.finditer(text) if len(text) > MAX_SHORT_TEXT else ():
        cells, stop = _read_rows(text, head.end())
        if len(cells) >= MIN_LONG_LIST and _LIST_END.match(text, stop):
            columns = tuple(zip(*cells, strict=True))
            if not any(cell[0] in "?$" for column in columns for cell in column):
                found.append(ValuesList(head.end(), stop, columns))
    return found


def _read_rows(text: str, start: int) -> tuple[list[tuple[str, ...]], int]:
    """Return the rows that begin at an offset, each a tuple of cells, and the offset of their end."""
    first = _FIRST_ROW.match(text, start)
    width = 0 if first is None else len(_CELLS.findall(first[0]))
    if not 0 < width <= MAX_COLUMNS:
        return [], start
    all_rows, cell_groups = _row_patterns(width)
    rows = all_rows.match(text, start)
    assert rows is not None
    cells = cell_groups.findall(text, start, rows.end())
    if width == 1 or width > MAX_GROUPS:
        cells = list(zip(*[iter(cells)] * width, strict=True))
    return cells, rows.end()


def read_inserts(
    text: str, parameters: "Sequence[Any] | Mapping[str, Any] | None" = None
) -> list[InsertValues] | None:
    """Return the INSERTs of a script that has only INSERTs of plain constants; None for any other script."""
    found: list[InsertValues] = []
    binder = _ParameterBinder(parameters) if parameters or "?" in text or "$" in text else None
    place, end = 0, len(text)
    while place < end:
        head = _HEAD.match(text, place)
        if head is None:
            return None
        cells, stop = _read_rows(text, head.end())
        if not cells:
            return None
        blank = _BLANK.match(text, stop)
        assert blank is not None
        tail = ""
        place = blank.end()
        if place < end and ";" not in blank[0]:
            clause = _TAIL.match(text, stop)
            if clause is None or end - clause.start() > MAX_TAIL:
                return None
            tail, place = clause[0], end
            if "select" in tail.lower():
                return None
        columns = tuple(zip(*cells, strict=True))
        bound = columns if binder is None else binder.substitute(columns)
        if bound is None:
            return None
        statement = f"{head[0]}({', '.join(['NULL'] * len(columns))}){tail}"
        found.append(InsertValues(statement, bound))
    return found if found and (binder is None or binder.is_exhausted()) else None


def read_single_insert(text: str) -> InsertValues | None:
    """Return the INSERT of one row, with placeholders left as cells; None for any other text."""
    head = _HEAD.match(text)
    cells, stop = ([], 0) if head is None else _read_rows(text, head.end())
    if head is None or len(cells) != 1:
        return None
    tail = ""
    if _BLANK.fullmatch(text, stop) is None:
        clause = _TAIL.match(text, stop)
        if clause is None or len(text) - stop > MAX_TAIL or "select" in clause[0].lower():
            return None
        tail = clause[0]
    statement = f"{head[0]}({', '.join(['NULL'] * len(cells[0]))}){tail}"
    return InsertValues(statement, tuple((cell,) for cell in cells[0]))


@dataclass(frozen=True, slots=True)
class InsertRegion:
    """INSERT of plain constants among other statements, and its offsets."""

    start: int
    stop: int
    rows: InsertValues


def find_inserts(text: str) -> list[InsertRegion]:
    """Return the INSERTs of plain constants in a script with other statements.

    INSERTs with a clause behind the values are left out. Texts within other statements can match, see
    :func:`parse_around`. Scripts with comments that may contain an INSERT have no regions.
    """
    if "/*" in text or any("insert" in line.partition("--")[2].lower() for line in text.splitlines()):
        return []
    found = []
    place = 0
    while (start := _INSERT_START.search(text, place)) is not None:
        first, place = start.end(), start.end() + 1
        head = _HEAD.match(text, first)
        cells, stop = ([], first) if head is None else _read_rows(text, head.end())
        if head is not None and cells and _STATEMENT_END.match(text, stop):
            columns = tuple(zip(*cells, strict=True))
            if not any(cell[0] in "?$" for column in columns for cell in column):
                statement = f"{head[0].strip()}({', '.join(['NULL'] * len(columns))})"
                found.append(InsertRegion(first, stop, InsertValues(statement, columns)))
                place = stop
    return found


def parse_execute(text: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the name and the constants of an EXECUTE; None for any other text."""
    found = _EXECUTE.match(text)
    if found is None:
        return None
    cells = tuple(_CELLS.findall(found["values"] or ""))
    return None if any(cell[0] in "?$" for cell in cells) else (found["name"], cells)


class _ParameterBinder:
    """Values of placeholders, as constants of the text."""

    def __init__(self, parameters: "Sequence[Any] | Mapping[str, Any] | None") -> None:
        self._values = () if parameters is None or isinstance(parameters, Mapping) else parameters
        self._has_names = isinstance(parameters, Mapping) and bool(parameters)
        self._used: set[int] = set()
        self._next_position = 0

    def substitute(self, columns: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...] | None:
        """Return the columns with constants for placeholders; None if a value is no plain constant."""
        if not any(cell[0] in "?$" for column in columns for cell in column):
            return columns
        rows = []
        for row in zip(*columns, strict=True):
            checkpoint()
            cells = []
            for cell in row:
                if cell[0] in "?$":
                    place = self._next_position if cell[0] == "?" else int(cell[1:]) - 1
                    self._next_position += cell[0] == "?"
                    constant = constant_text(self._values[place]) if 0 <= place < len(self._values) else None
                    if constant is None:
                        return None
                    self._used.add(place)
                    cell = constant
                cells.append(cell)
            rows.append(cells)
        return tuple(zip(*rows, strict=True))

    def is_exhausted(self) -> bool:
        """Return whether every value was used."""
        return len(self._used) == len(self._values) and not self._has_names


def constant_text(value: Any) -> str | None:
    """Return a value as a constant of SQL text; None if it has no such form."""
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
            return _double_text(value)
        case str():
            return "'" + value.replace("'", "''") + "'"
        case datetime() if value.tzinfo is None:
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case date() if not isinstance(value, datetime):
            return f"DATE '{value.isoformat()}'"
        case _:
            return None


def _double_text(value: float) -> str:
    """Return a float with the suffix ``d``: ``1.5d``.

    SQL text has no such constant, and ``1.5e0`` is a NUMERIC.
    """
    return f"{value!r}d"


LIMITS: Final = {Kind.SMALLINT: 2**15, Kind.INTEGER: 2**31, Kind.BIGINT: 2**63}
"""Exclusive upper bounds of the integer types."""
StoredValue = int | str | None
"""Word, or the text of an interned value; None for NULL."""


def read_column(cells: Sequence[str], type_: Type) -> list[StoredValue]:
    """Return the values of one column's cells.

    NotConstantError if a cell is more than a constant of the type.
    """
    nulls = [place for place, cell in enumerate(cells) if cell[0] in "nN"]
    if not nulls:
        return _read_present(cells, type_)
    found = iter(_read_present([cell for cell in cells if cell[0] not in "nN"], type_))
    null_positions = set(nulls)
    return [None if place in null_positions else next(found) for place in range(len(cells))]


def _read_present(cells: Sequence[str], type_: Type) -> list[StoredValue]:
    """Return the values of cells without NULLs."""
    reader = _COLUMN_READERS.get(type_.kind)
    if reader is not None and cells:
        try:
            found = reader(cells, type_)
        except (ValueError, OverflowError):
            found = None
        if found is not None:
            return found
    values: dict[str, StoredValue] = {}
    for cell in cells:
        if cell not in values:
            values[cell] = _read_cell(cell, type_)
    return [values[cell] for cell in cells]


def _integers(cells: Sequence[str], type_: Type) -> list[StoredValue] | None:
    limit = LIMITS[type_.kind]
    found = list(map(int, cells))
    return list(found) if max(found) < limit and min(found) >= max(-limit, ERROR + 1) else None


def _decimals(cells: Sequence[str], type_: Type) -> list[StoredValue] | None:
    """Return the words of a DECIMAL column; None if a number has too many digits.

    ValueError for a cell that is not digits and a point.
    """
    scale, limit = type_.scale, 10**type_.precision
    found: list[StoredValue] = []
    for cell in cells:
        integer, _, part = cell.partition(".")
        missing = scale - len(part)
        word = int(integer + part) * 10**missing if missing >= 0 else limit
        if not -limit < word < limit:
            return None
        found.append(word)
    return found


def _doubles(cells: Sequence[str], type_: Type) -> list[StoredValue] | None:
    if any("e" in cell or "E" in cell for cell in cells):
        return None
    return [float_to_word(float(cell.removesuffix("d"))) for cell in cells]


def _texts(cells: Sequence[str], type_: Type) -> list[StoredValue] | None:
    if any(cell[0] != "'" for cell in cells):
        return None
    found: list[StoredValue] = [cell[1:-1].replace("''", "'") for cell in cells]
    return found


_COLUMN_READERS: Final[dict[Kind, Callable[[Sequence[str], Type], list[StoredValue] | None]]] = {
    Kind.SMALLINT: _integers,
    Kind.INTEGER: _integers,
    Kind.BIGINT: _integers,
    Kind.DECIMAL: _decimals,
    Kind.DOUBLE: _doubles,
    Kind.VARCHAR: _texts,
}
"""Readers of columns of plain cells; they return None or raise ValueError for other cells."""


def _read_cell(cell: str, type_: Type) -> StoredValue:
    """Return the value of one constant as the binder's ``assigned`` stores it."""
    literal = parse_constant(cell)
    if literal is None:
        raise NotConstantError
    value: Literal | None = None
    if literal.type == UNKNOWN:
        value = literal_from_text(
            str(literal.value), type_ if type_.kind in BIT_KINDS else without_length_limit(type_)
        )
    elif literal.type == type_:
        value = literal
    elif literal.type.is_exact and type_.is_exact:
        value = round_literal(literal, type_)
    elif literal.type.is_numeric and type_.is_numeric:
        folded = convert(literal, type_)
        value = folded if isinstance(folded, Literal) else None
    if value is None:
        raise NotConstantError
    return value.value


def parse_constant(cell: str) -> Literal | None:
    """Return the typed constant of a cell that is not NULL; None for DEFAULT and for invalid values."""
    first = cell[0]
    if cell[-1] == "d":  # from _double_text
        return Literal(float_to_word(float(cell[:-1])), DOUBLE)
    if first == "'":
        return Literal(cell[1:-1].replace("''", "'"), UNKNOWN)
    if first == "-":
        positive = parse_number(cell[1:])
        return None if positive is None else negate_literal(positive)
    if first.isdigit():
        return parse_number(cell)
    match cell.lower():
        case "true" | "false" as word:
            return Literal(int(word == "true"), BOOLEAN)
        case "default":
            return None
    quote = cell.index("'")
    type_ = DATE if cell[0] in "dD" else TIMESTAMP
    return literal_from_text(cell[quote + 1 : -1].replace("''", "'"), type_)


def slot_value(slot: Slot, constant: Literal) -> Literal:
    """Return the value of a slot for a constant: apply the binder's recorded steps to it.

    NotConstantError if a step does not yield a constant.
    """
    literal: object = constant
    for step, type_ in slot.steps:
        assert isinstance(literal, Literal)
        match step:
            case "text":
                literal = literal_from_quoted(literal, type_)
            case "converted":
                literal = convert(literal, type_)
            case "rounded":
                literal = round_literal(literal, type_)
            case "negated":
                literal = negate_literal(literal)
            case _:
                literal = Literal(literal.value, type_)
        if not isinstance(literal, Literal):
            raise NotConstantError
    assert isinstance(literal, Literal)
    return literal


class ListColumns:
    """Columns of a long list as typed constants; copies of a syntax tree share them."""

    __slots__ = ("columns",)

    def __init__(self, columns: tuple[tuple[Literal, ...], ...]) -> None:
        self.columns = columns

    def __deepcopy__(self, memo: dict[int, Any]) -> "ListColumns":
        return self


def parse_script(text: str) -> list[ast.Statement]:
    """Return the statements of a script, as ``parse`` does; long lists are read here."""
    lists = find_long_lists(text)
    if not lists:
        return parse(text)
    try:
        columns = {
            long_list.start + 1: ListColumns(tuple(map(_typed_column, long_list.columns)))
            for long_list in lists
        }
        statements = parse_masked(_shorten_lists(text, lists), text)
    except (NotConstantError, Error):
        return parse(text)
    found: set[int] = set()
    for statement in statements:
        map_trees(statement, lambda tree: _attach_columns(tree, columns, found))
    return statements if found == columns.keys() else parse(text)


def parse_around(text: str, regions: list[InsertRegion]) -> list[ast.Statement] | None:
    """Return the statements of a script without the INSERTs of some regions.

    None if a region is inside another statement.
    """
    parts: list[str] = []
    last = 0
    for region in regions:
        parts += (text[last : region.start], re.sub(r"[^\n]", " ", text[region.start : region.stop]))
        last = region.stop
    try:
        statements = parse_masked("".join((*parts, text[last:])), text)
    except Error:
        return None
    is_nested = any(
        statement.span.start < one.start < statement.span.end for one in regions for statement in statements
    )
    return None if is_nested else statements


def _shorten_lists(text: str, lists: list[ValuesList]) -> str:
    """Return the text with one row of each list, and blanks in place of the others."""
    parts: list[str] = []
    last = 0
    for long_list in lists:
        row = f"({','.join('0' * len(long_list.columns))})"
        blank = re.sub(r"[^\n]", " ", text[long_list.start + len(row) : long_list.stop])
        parts += (text[last : long_list.start], row, blank)
        last = long_list.stop
    return "".join((*parts, text[last:]))


def _attach_columns(tree: exp.Expr, rows: dict[int, ListColumns], replaced: set[int]) -> exp.Expr:
    for node in tree.find_all(exp.Values):
        first = node.expressions[0] if node.expressions else None
        cell = first.expressions[0] if isinstance(first, exp.Tuple) and first.expressions else None
        start = cell.meta.get("start") if isinstance(cell, exp.Literal) else None
        if start in rows and len(node.expressions) == 1:
            node.meta[PARAMETER_ROWS] = rows[start]
            replaced.add(start)
    return tree


def _typed_column(cells: tuple[str, ...]) -> tuple[Literal, ...]:
    """Return the constants of a column in their common type, as ``bind_values`` does.

    NotConstantError if a cell is more than a constant.
    """
    constants: dict[str, Literal] = {}
    for cell in cells:
        if cell not in constants:
            literal = Literal(None, UNKNOWN) if cell[0] in "nN" else parse_constant(cell)
            if literal is None:
                raise NotConstantError
            constants[cell] = literal
    kinds = dict.fromkeys(constants[cell].type for cell in cells)
    if set(kinds) != {UNKNOWN}:
        target = common_result_type(tuple(kinds))
        if target is None:
            raise NotConstantError
        constants = {cell: _convert(literal, target) for cell, literal in constants.items()}
    return tuple(map(constants.__getitem__, cells))


def _convert(literal: Literal, type_: Type) -> Literal:
    if literal.type == type_:
        return literal
    if literal.type == UNKNOWN and literal.value is not None:
        value = literal_from_quoted(literal, Type(type_.kind) if type_.is_text else type_)
        if value is None:
            raise NotConstantError
        return Literal(value.value, type_)
    found = convert(literal, type_)
    if not isinstance(found, Literal):
        raise NotConstantError
    return found
