"""Rows as text: the box for a terminal, and the HTML table for a notebook."""

import datetime
import functools
import html as html_escape
import shutil
import unicodedata
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Protocol

from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.records import dataclass
from kpg.runtime.types import NUMERIC_KINDS, VALUE_KINDS, Kind, Type

if TYPE_CHECKING:
    from kpg.runtime import values as codecs
else:
    codecs = LazyModule("kpg.runtime.values")

MAX_ROWS: Final = 20
"""Rows of a table that are printed, half from each end: they fit on a screen."""
MIN_COLUMN_WIDTH: Final = 16
"""Characters to which wide columns are cut at most; beyond that, columns are left out."""
ELLIPSIS: Final = "…"


class RowSource(Protocol):
    """Rows with a count, readable in parts."""

    def __len__(self) -> int: ...

    def part(self, start: int = 0, stop: int | None = None) -> list[tuple[Any, ...]]:
        """Return the rows from ``start`` to before ``stop``, by default to the last."""


@dataclass(frozen=True, slots=True)
class Ends:
    """The printed ones of ``total`` rows: the first and, if these are not all, the last ones."""

    total: int
    head: Sequence[tuple[Any, ...]]
    tail: Sequence[tuple[Any, ...]] = ()

    @classmethod
    def from_rows(cls, rows: RowSource) -> "Ends":
        """Return all of at most ``MAX_ROWS`` rows, otherwise half of them from each end."""
        total = len(rows)
        if total <= MAX_ROWS:
            return cls(total, rows.part())
        return cls(total, rows.part(0, MAX_ROWS // 2), rows.part(total - MAX_ROWS // 2))


@dataclass(frozen=True, slots=True)
class _Column:
    """A column as text: name, type, cells, and whether it is right-aligned."""

    name: str
    type: str
    cells: tuple[str, ...]
    is_right_aligned: bool

    @property
    def width(self) -> int:
        return max(map(display_width, (self.name, self.type, *self.cells)))


def cell(value: Any) -> str:
    """Return a value as SQL prints it. Control characters are escaped, so that a row is one line."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case datetime.datetime():
            return value.isoformat(sep=" ")
        case Decimal():
            return f"{value:f}"
        case str():
            return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value)
        case _:
            return str(value)


def _cell(type_: Type, value: Any) -> str:
    """Return a value by its type; types that Python prints differently, such as arrays, as in Postgres."""
    if value is None or type_.kind not in VALUE_KINDS or type_.kind is Kind.NUMERIC:
        return cell(value)

    codec = codecs.codec_of(type_)
    return cell(codec.show(codec.from_python(value)))


def display_width(text: str) -> int:
    """Return the terminal columns of a text: two for wide East Asian characters, none for combining ones."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) != 0 for char in text)


def box(names: Sequence[str], types: Sequence[Type], ends: Ends, width: int | None = None) -> str:
    """Return a box of at most 20 rows and ``width`` columns (default: the terminal's), and the counts."""
    width = width or shutil.get_terminal_size((120, 24)).columns
    columns = _format_columns(names, types, ends)
    if not columns:
        return f"({_footer(ends.total, 0, 0)})"
    fitted = _fit_columns([_narrow(column, width - 4) for column in columns], width)
    widths = [max(column.width, 1) for column in fitted]
    hidden = len(columns) - sum(column.type != ELLIPSIS for column in fitted)
    footer = _footer(ends.total, len(columns), hidden)
    inner = sum(widths) + 3 * len(widths) - 1
    if inner - 2 < len(footer):
        widths[-1] += len(footer) - (inner - 2)
        inner = len(footer) + 2
    lines = [_rule("┌", "┬", "┐", widths)]
    lines.append(_line([_centre(c.name, w) for c, w in zip(fitted, widths, strict=True)]))
    lines.append(_line([_centre(c.type, w) for c, w in zip(fitted, widths, strict=True)]))
    lines.append(_rule("├", "┼", "┤", widths))
    for index in range(len(fitted[0].cells)):
        cells = zip(fitted, widths, strict=True)
        lines.append(_line([_pad(c.cells[index], w, c.is_right_aligned) for c, w in cells]))
    lines.append(_rule("├", "┴", "┤", widths))
    lines.append(f"│ {_pad(footer, inner - 2, right=False)} │")
    lines.append(f"└{'─' * inner}┘")
    return "\n".join(lines)


def html(names: Sequence[str], types: Sequence[Type], ends: Ends) -> str:
    """Return an HTML table of at most 20 rows."""
    columns = _format_columns(names, types, ends)
    heads = "".join(f"<th>{_escape(c.name)}<br><small>{_escape(c.type)}</small></th>" for c in columns)
    body = []
    for index in range(len(columns[0].cells) if columns else 0):
        cells = "".join(
            f'<td style="text-align: {"right" if column.is_right_aligned else "left"}">'
            f"{_escape(column.cells[index])}</td>"
            for column in columns
        )
        body.append(f"<tr>{cells}</tr>")
    footer = _footer(ends.total, len(names), 0)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(body)}</tbody></table><p>{footer}</p>"


def _format_columns(names: Sequence[str], types: Sequence[Type], ends: Ends) -> list[_Column]:
    columns = []
    for index, (name, type_) in enumerate(zip(names, types, strict=True)):
        format_cell = functools.partial(_cell, type_)
        cells = [format_cell(row[index]) for row in ends.head]
        if ends.tail:
            cells.append("·")
            cells.extend(format_cell(row[index]) for row in ends.tail)
        columns.append(_Column(cell(name), str(type_), tuple(cells), type_.kind in NUMERIC_KINDS))
    return columns


def _fit_columns(columns: list[_Column], width: int) -> list[_Column]:
    """Narrow the widest columns; if they still do not fit, replace those in the middle by one ``…``."""
    spare = width - 1 - 3 * len(columns)
    limit = max((column.width for column in columns), default=0)
    while limit > MIN_COLUMN_WIDTH and sum(min(column.width, limit) for column in columns) > spare:
        limit -= 1
    columns = [_narrow(column, limit) for column in columns]
    if len(columns) < 3 or sum(column.width for column in columns) <= spare:
        return columns
    gap = _Column(ELLIPSIS, ELLIPSIS, (ELLIPSIS,) * len(columns[0].cells), is_right_aligned=False)
    for kept in range(len(columns) - 1, 1, -1):
        shown = [*columns[: (kept + 1) // 2], gap, *columns[len(columns) - kept // 2 :]]
        if sum(column.width + 3 for column in shown) + 1 <= width:
            break
    return shown


def _narrow(column: _Column, limit: int) -> _Column:
    if column.width <= limit:
        return column
    cells = tuple(_truncate(text, limit) for text in column.cells)
    return _Column(
        _truncate(column.name, limit), _truncate(column.type, limit), cells, column.is_right_aligned
    )


def _truncate(text: str, limit: int) -> str:
    if display_width(text) <= limit:
        return text
    while display_width(text) > limit - 1:
        text = text[:-1]
    return text + ELLIPSIS


def _footer(rows: int, columns: int, hidden: int) -> str:
    parts = [f"{rows:,} row{'' if rows == 1 else 's'}"]
    if rows > MAX_ROWS:
        parts[0] += f" ({MAX_ROWS} shown)"
    parts.append(f"{columns} column{'' if columns == 1 else 's'}")
    if hidden:
        parts[1] += f" ({columns - hidden} shown)"
    return ", ".join(parts)


def _pad(text: str, width: int, right: bool) -> str:
    blank = " " * (width - display_width(text))
    return blank + text if right else text + blank


def _centre(text: str, width: int) -> str:
    blank = width - display_width(text)
    return " " * (blank // 2) + text + " " * (blank - blank // 2)


def _line(cells: list[str]) -> str:
    return f"│ {' │ '.join(cells)} │"


def _rule(left: str, middle: str, right: str, widths: list[int]) -> str:
    return left + middle.join("─" * (width + 2) for width in widths) + right


def _escape(text: str) -> str:
    return html_escape.escape(text)
