"""CSV dialects and types, inferred from a sample, and the line formats of COPY.

The delimiter is the one that gives all rows of the sample the same number of fields, and the most fields. If
none does, that is an error; DuckDB skips lines or reads one column. A type fits a column if all values have
its form. The first row is a header if it has a value that does not fit the type of its column (numeric, date
or boolean), or if all columns are text, as in DuckDB.

COPY's text and CSV formats are parsed and written line by line, with options that other CSV files do not
need.
"""

import csv
import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Final

from kpg.runtime.convert.files import CsvOptions, lines_of, uneven
from kpg.runtime.errors import DataError, OperationalError
from kpg.runtime.records import dataclass
from kpg.runtime.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    ColumnDef,
    Schema,
    Type,
)

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


DELIMITERS: Final = (",", "|", ";", "\t")
"""In the order in which a tie is decided."""
SAMPLE_ROWS: Final = 20_480
"""Rows by which types are told at first: as many as DuckDB looks at, so that files mean the same in both."""
FEW_ROWS: Final = 200
"""Rows by which the delimiter is told."""
SOME_ROWS: Final = 1 << 14
"""Rows whose values are looked at together, column by column."""

MOMENT: Final = r"\d{4}-(0\d|1[0-2])-([0-2]\d|3[01])[ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?"
"""A day and a time of it."""
FORMS: Final[tuple[tuple[Type, re.Pattern[str]], ...]] = (
    (BOOLEAN, re.compile(r"true|false", re.IGNORECASE)),
    (BIGINT, re.compile(r"(?a)\s*[+-]?(0|[1-9]\d{0,17})\s*")),
    (
        DOUBLE,
        re.compile(
            r"\s*[+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)(e[+-]?\d+)?\s*|\s*[+-]?(nan|inf(inity)?)\s*",
            re.IGNORECASE,
        ),
    ),
    (DATE, re.compile(r"\d{4}-(0\d|1[0-2])-([0-2]\d|3[01])")),
    (TIME, re.compile(r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,6})?)?")),
    (TIMESTAMP, re.compile(MOMENT)),
    (TIMESTAMPTZ, re.compile(MOMENT + r"(Z|[+-]\d\d(:?\d\d)?)")),
)
"""The form that the values of each type have: a column has the first type that fits, TEXT if none does."""


@dataclass(frozen=True, slots=True)
class Sniffed:
    """How to read a file, and its columns: ``options`` has no header, but skips the line of one."""

    options: CsvOptions
    schema: Schema


@dataclass(frozen=True, slots=True)
class Given:
    """What the user says of a file; None is to be found out. Names and types may be those of some columns."""

    delimiter: str | None = None
    header: bool | None = None
    quote: str = '"'
    null: str = ""
    skip: int = 0
    names: tuple[str, ...] = ()
    types: tuple[tuple[str, Type], ...] = ()
    sample: int | None = SAMPLE_ROWS
    """Rows to tell the types by; None: all."""
    text_only: bool = False
    """Whether columns are text unless ``types`` says otherwise."""


def sniff(path: Path, given: Given) -> Sniffed:
    """How to read a CSV file. OperationalError if it cannot be read as text, DataError for uneven rows."""
    try:
        delimiter = given.delimiter or _delimiter(path, given)
        with lines_of(path, given.skip) as lines:
            return _columns(csv.reader(lines, delimiter=delimiter, quotechar=given.quote), delimiter, given)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise OperationalError(
            f"cannot read {path} as CSV: {error}", hint="is it a UTF-8 CSV file?"
        ) from error


def _delimiter(path: Path, given: Given) -> str:
    """The one that makes even rows. Raises DataError if rows have one, but not equally often."""
    samples = {candidate: _sample(path, candidate, given) for candidate in DELIMITERS}
    widths = {}
    for candidate, rows in samples.items():
        found = {len(row) for _, row in rows}
        widths[candidate] = found.pop() if len(found) == 1 else 0
    best = max(DELIMITERS, key=lambda candidate: widths[candidate])
    if widths[best] < 2 and len(given.names) != 1:
        for candidate, rows in samples.items():
            _refuse_uneven(path, candidate, rows)
    return best


def _sample(path: Path, delimiter: str, given: Given) -> list[tuple[int, list[str]]]:
    """The first rows that are not empty, with their last lines."""
    with lines_of(path, given.skip) as lines:
        reader = csv.reader(lines, delimiter=delimiter, quotechar=given.quote)
        return [(given.skip + reader.line_num, row) for row in islice(reader, FEW_ROWS) if row]


def _refuse_uneven(path: Path, delimiter: str, rows: Sequence[tuple[int, list[str]]]) -> None:
    """Raise DataError for rows of a table that has gone wrong; a column of texts may have commas in some.

    It is a table if the first row and half of all have several fields, or all but the first equally many.
    """
    sizes = [len(row) for _, row in rows]
    if not sizes:
        return
    width = sizes[0]
    if width > 1:
        is_table = 2 * sum(size > 1 for size in sizes) >= len(sizes)
    else:
        is_table = len(set(sizes[1:])) == 1 and sizes[1] > 1
    odd = next(((line, row) for line, row in rows if len(row) != width), None)
    if is_table and odd is not None:
        line, row = odd
        raise DataError(
            uneven(path, line, row, width, delimiter),
            hint="read_csv('...', delim = '...', skip = 1) says what is between columns, what to leave out",
        )


def _columns(rows: Iterator[list[str]], delimiter: str, given: Given) -> Sniffed:
    first = next(rows, [])
    columns = [Forms() for _ in first]
    sample = rows if given.sample is None else islice(rows, given.sample)
    while chunk := list(islice(sample, SOME_ROWS)):
        columns = [forms.after(_values(chunk, place, given.null)) for place, forms in enumerate(columns)]
    header = _is_header(first, columns, given.null) if given.header is None else given.header
    if not header:
        columns = [forms.after(_values([first], place, given.null)) for place, forms in enumerate(columns)]
    names = _names(first if header else [""] * len(first), given.names)
    chosen = {name.lower(): type_ for name, type_ in given.types}
    if given.text_only:
        columns = [Forms() for _ in columns]
    types = [chosen.get(name.lower(), forms.type) for name, forms in zip(names, columns, strict=True)]
    options = CsvOptions(False, delimiter, given.quote, given.null, given.skip + int(header))
    return Sniffed(options, Schema(tuple(map(ColumnDef, names, types))))


@dataclass(frozen=True, slots=True)
class Forms:
    """Which of ``FORMS`` all values of a column have that were seen, and whether there were any."""

    fits: tuple[bool, ...] = (True,) * len(FORMS)
    any: bool = False

    def after(self, values: Iterable[str]) -> "Forms":
        """The same after more values."""
        distinct = set(values)
        fits = (
            fit and all(form.fullmatch(value) for value in distinct)
            for fit, (_, form) in zip(self.fits, FORMS, strict=True)
        )
        return Forms(tuple(fits), True) if distinct else self

    @property
    def type(self) -> Type:
        """The column's type."""
        first = (type_ for fit, (type_, _) in zip(self.fits, FORMS, strict=True) if fit)
        return next(first, TEXT) if self.any else TEXT


def _values(rows: Iterable[list[str]], place: int, null: str) -> Iterator[str]:
    return (row[place] for row in rows if place < len(row) and row[place] != null)


def _is_header(first: Sequence[str], columns: Sequence[Forms], null: str) -> bool:
    """Whether the first row names the columns: see the module's head."""
    if not any(forms.any for forms in columns):
        return all(Forms().after([value]).type == TEXT for value in first)
    if all(forms.type == TEXT for forms in columns):
        return True
    known = zip(first, columns, strict=True)
    return any(value != null and forms.any and not _has(value, forms.type) for value, forms in known)


def _has(value: str, type_: Type) -> bool:
    """Whether a text has the form of a type's values."""
    return type_ == TEXT or any(known == type_ and form.fullmatch(value) for known, form in FORMS)


def _names(first: Sequence[str], given: Sequence[str]) -> list[str]:
    """The columns' names: given ones, those of the header, and ``column3`` where neither says one."""
    result: list[str] = []
    taken: set[str] = set()
    for place, found in enumerate(first):
        name = given[place] if place < len(given) else found.strip() or f"column{place}"
        unique, number = name, 1
        while unique.lower() in taken:
            unique, number = f"{name}_{number}", number + 1
        taken.add(unique.lower())
        result.append(unique)
    return result
