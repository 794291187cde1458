"""COPY's own formats, line by line: text, and CSV with options that files of other programs do not need."""

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum
from typing import Final

from kpg.runtime.errors import DataError
from kpg.runtime.records import dataclass

ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
WRITTEN: Final = {"\\": "\\\\", **{char: f"\\{letter}" for letter, char in ESCAPES.items()}}
"""How text format writes characters that would end a field or a line."""


ESCAPED: Final = re.compile(r"(\\.)", re.DOTALL)
ENDS: Final = re.compile(r"\r\n|\r|\n")
MALFORMED: Final = "22P04"


class Absent(Enum):
    """A field that stands for a column's DEFAULT."""

    DEFAULT = "default"


Field = str | Absent | None


@dataclass(frozen=True, slots=True)
class Form:
    """How rows are written. ``default`` is what stands for a column's DEFAULT, None if nothing does.

    The names of columns are in lower case; "*" in ``force_quote`` means all.
    """

    csv: bool
    delimiter: str
    null: str
    quote: str = '"'
    escape: str = '"'
    header: bool = False
    matches: bool = False
    """Whether the header has to have the very names of the columns."""
    force_quote: frozenset[str] = frozenset()
    force_null: frozenset[str] = frozenset()
    force_not_null: frozenset[str] = frozenset()
    default: str | None = None


def rows_of(text: str, form: Form, names: Sequence[str], origin: str) -> Iterator[list[Field]]:
    """The fields of each line; DataError, which names the line, where there are too many or too few."""
    lines = _csv_lines(text, form) if form.csv else _text_lines(text)
    for number, line in enumerate(lines, 1):
        if form.header and number == 1:
            if form.matches:
                _match(line, form, names, origin)
            continue
        fields = _csv_fields(line, form, names) if form.csv else _text_fields(line, form)
        if len(fields) != len(names):
            error = DataError(f"{origin}, line {number}: {len(fields)} fields for {len(names)} columns")
            error.sqlstate = MALFORMED
            raise error
        yield fields


def _match(line: str, form: Form, names: Sequence[str], origin: str) -> None:
    found = _csv_fields(line, form, ()) if form.csv else _text_fields(line, form)
    if found != list(names):
        raise DataError(f"{origin}: the header is {found}, not {list(names)}")


def _text_lines(text: str) -> Iterator[str]:
    """Lines, of which a backslash before its end makes one go on; ``\\.`` alone ends them."""
    pending = ""
    lines = (_evenly_ended(text) if "\r" in text else text).split("\n")
    for line in lines if lines[-1] else lines[:-1]:
        if line == "\\." and not pending:
            return
        whole = pending + line
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending = whole + "\n"
            continue
        pending = ""
        yield whole


def _evenly_ended(text: str) -> str:
    """The text with newlines between its lines; DataError unless all end as the first one does."""
    plain = ESCAPED.sub("..", text)
    found = ENDS.search(plain)
    end = found[0] if found is not None else "\n"
    others = plain.replace(end, "")
    if "\r" in others or "\n" in others:
        what, sign = ("carriage return", "r") if "\r" in others else ("newline", "n")
        error = DataError(f"literal {what} found in data", hint=f'use "\\{sign}" to represent {what}')
        error.sqlstate = MALFORMED
        raise error
    return "".join(
        part if place % 2 else part.replace(end, "\n") for place, part in enumerate(ESCAPED.split(text))
    )


def _text_fields(line: str, form: Form) -> list[Field]:
    fields: list[Field] = []
    start = place = 0
    while place <= len(line):
        if place == len(line) or line[place] == form.delimiter:
            fields.append(_text_value(line[start:place], form))
            start = place + 1
        elif line[place] == "\\":
            place += 1
        place += 1
    return fields


def _text_value(written: str, form: Form) -> Field:
    if written == form.null:
        return None
    if written == form.default:
        return Absent.DEFAULT
    if "\\" not in written:
        return written
    parts: list[str] = []
    place = 0
    while place < len(written):
        char = written[place]
        place += 1
        if char != "\\" or place == len(written):
            parts.append(char)
            continue
        digits, base = _digits(written, place)
        if digits:
            parts.append(chr(int(digits, base)))
            place += len(digits) + (base == 16)
            continue
        parts.append(ESCAPES.get(written[place], written[place]))
        place += 1
    return "".join(parts)


def _digits(written: str, place: int) -> tuple[str, int]:
    """The digits of ``\\101`` or ``\\x41`` that begin at a place, and their base; none if they are others."""
    base, most = (16, 2) if written[place] == "x" else (8, 3)
    start = place + (base == 16)
    known = "0123456789abcdefABCDEF" if base == 16 else "01234567"
    end = start
    while end < min(len(written), start + most) and written[end] in known:
        end += 1
    return written[start:end], base


def _csv_lines(text: str, form: Form) -> Iterator[str]:
    """Records: lines, of which quotes may enclose several."""
    start, quoted, place = 0, False, 0
    text = text.replace("\r\n", "\n")
    while place < len(text):
        char = text[place]
        if quoted and char == form.escape and form.escape != form.quote and place + 1 < len(text):
            place += 1
        elif char == form.quote:
            quoted = not quoted
        elif char == "\n" and not quoted:
            yield text[start:place]
            start = place + 1
        place += 1
    if quoted:
        error = DataError("unterminated CSV quoted field", hint="a quote is not closed")
        error.sqlstate = MALFORMED
        raise error
    if start < len(text):
        yield text[start:]


def _csv_fields(line: str, form: Form, names: Sequence[str]) -> list[Field]:
    fields: list[Field] = []
    parts: list[str] = []
    quoted = had_quotes = False
    place = 0
    while place <= len(line):
        char = line[place] if place < len(line) else ""
        if quoted and char == form.escape and line[place + 1 : place + 2] in (form.quote, form.escape):
            place += 1
            parts.append(line[place : place + 1])
        elif char == form.quote:
            quoted, had_quotes = not quoted, True
        elif (char == form.delimiter and not quoted) or not char:
            name = names[len(fields)].lower() if len(fields) < len(names) else ""
            fields.append(_csv_value("".join(parts), had_quotes, form, name))
            parts, had_quotes = [], False
        else:
            parts.append(char)
        place += 1
    return fields


def _csv_value(value: str, quoted: bool, form: Form, name: str) -> Field:
    if value == form.default and not quoted:
        return Absent.DEFAULT
    if value == form.null and (not quoted or name in form.force_null) and name not in form.force_not_null:
        return None
    return value


def line_of(values: Sequence[str | None], form: Form, names: Sequence[str]) -> str:
    """A row as it is written, without the end of the line."""
    if form.csv:
        shown = [_csv_shown(value, form, name, len(names)) for value, name in zip(values, names, strict=True)]
    else:
        shown = [form.null if value is None else _text_shown(value, form) for value in values]
    return form.delimiter.join(shown)


def _text_shown(value: str, form: Form) -> str:
    return value.translate(_signs(form.delimiter))


@functools.cache
def _signs(delimiter: str) -> dict[int, str]:
    return str.maketrans({delimiter: f"\\{delimiter}", **WRITTEN})


def unforced(form: Form) -> Form:
    """The form in which the header is written: quoted where it has to be."""
    return replace(form, force_quote=frozenset())


def _csv_shown(value: str | None, form: Form, name: str, width: int) -> str:
    if value is None:
        return form.null
    forced = name.lower() in form.force_quote or "*" in form.force_quote
    special = any(sign in value for sign in (form.delimiter, form.quote, "\n", "\r"))
    if not (forced or special or value == form.null or (value == "\\." and width == 1)):
        return value
    for sign in dict.fromkeys((form.escape, form.quote)):
        value = value.replace(sign, form.escape + sign)
    return form.quote + value + form.quote
