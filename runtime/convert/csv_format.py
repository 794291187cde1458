"""CSV dialects and types, inferred from a sample, and the line formats of COPY.

The delimiter is the candidate that gives all rows of the sample the same number of fields, and the most
fields. If there is none, that is an error; DuckDB skips lines or reads one column. A type fits a column
if all values have its form. The first row is a header if one of its values does not fit its column's
numeric, date or boolean type. It is also a header if all columns are text, as in DuckDB.

COPY's text and CSV formats are parsed and written line by line, with options that other CSV files do
not need.
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

from kpg.runtime.convert.files import CsvOptions, open_lines, uneven_row_message
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
TEXT_ESCAPES: Final = {"\\": "\\\\", **{char: f"\\{letter}" for letter, char in ESCAPES.items()}}
"""Escapes in the text format of characters that would end a field or a line."""


ESCAPE_SEQUENCE: Final = re.compile(r"(\\.)", re.DOTALL)
LINE_END: Final = re.compile(r"\r\n|\r|\n")
BAD_COPY_FORMAT: Final = "22P04"


class DefaultMarker(Enum):
    """A field that stands for a column's DEFAULT."""

    DEFAULT = "default"


Field = str | DefaultMarker | None


@dataclass(frozen=True, slots=True)
class CopyFormat:
    """Format options of COPY. ``default`` is the text of a column's DEFAULT, or None.

    The names of columns are in lower case. "*" in ``force_quote`` stands for all.
    """

    csv: bool
    delimiter: str
    null: str
    quote: str = '"'
    escape: str = '"'
    header: bool = False
    must_match_header: bool = False
    """Whether the header must have exactly the names of the columns."""
    force_quote: frozenset[str] = frozenset()
    force_null: frozenset[str] = frozenset()
    force_not_null: frozenset[str] = frozenset()
    default: str | None = None


def parse_rows(text: str, options: CopyFormat, names: Sequence[str], origin: str) -> Iterator[list[Field]]:
    """Yield the fields of each line.

    Raises:
        DataError: A line has too many or too few fields. The message has its number.
    """
    lines = _csv_lines(text, options) if options.csv else _text_lines(text)
    for number, line in enumerate(lines, 1):
        if options.header and number == 1:
            if options.must_match_header:
                _check_header(line, options, names, origin)
            continue
        fields = _split_csv_line(line, options, names) if options.csv else _split_text_line(line, options)
        if len(fields) != len(names):
            error = DataError(f"{origin}, line {number}: {len(fields)} fields for {len(names)} columns")
            error.sqlstate = BAD_COPY_FORMAT
            raise error
        yield fields


def _check_header(line: str, form: CopyFormat, names: Sequence[str], origin: str) -> None:
    header = _split_csv_line(line, form, ()) if form.csv else _split_text_line(line, form)
    if header != list(names):
        raise DataError(f"{origin}: the header is {header}, not {list(names)}")


def _text_lines(text: str) -> Iterator[str]:
    r"""Yield lines. A backslash before its end continues a line, and a line ``\.`` ends the data."""
    pending = ""
    lines = (_normalize_line_ends(text) if "\r" in text else text).split("\n")
    for line in lines if lines[-1] else lines[:-1]:
        if line == "\\." and not pending:
            return
        whole = pending + line
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending = whole + "\n"
            continue
        pending = ""
        yield whole


def _normalize_line_ends(text: str) -> str:
    """Replace line ends by newlines.

    Raises:
        DataError: A line ends differently from the first.
    """
    plain = ESCAPE_SEQUENCE.sub("..", text)
    match = LINE_END.search(plain)
    end = match[0] if match is not None else "\n"
    rest = plain.replace(end, "")
    if "\r" in rest or "\n" in rest:
        what, sign = ("carriage return", "r") if "\r" in rest else ("newline", "n")
        error = DataError(f"literal {what} found in data", hint=f'use "\\{sign}" to represent {what}')
        error.sqlstate = BAD_COPY_FORMAT
        raise error
    return "".join(
        part if place % 2 else part.replace(end, "\n")
        for place, part in enumerate(ESCAPE_SEQUENCE.split(text))
    )


def _split_text_line(line: str, form: CopyFormat) -> list[Field]:
    fields: list[Field] = []
    start = place = 0
    while place <= len(line):
        if place == len(line) or line[place] == form.delimiter:
            fields.append(_parse_text_field(line[start:place], form))
            start = place + 1
        elif line[place] == "\\":
            place += 1
        place += 1
    return fields


def _parse_text_field(text: str, form: CopyFormat) -> Field:
    if text == form.null:
        return None
    if text == form.default:
        return DefaultMarker.DEFAULT
    if "\\" not in text:
        return text
    parts: list[str] = []
    place = 0
    while place < len(text):
        char = text[place]
        place += 1
        if char != "\\" or place == len(text):
            parts.append(char)
            continue
        digits, base = _code_digits(text, place)
        if digits:
            parts.append(chr(int(digits, base)))
            place += len(digits) + (base == 16)
            continue
        parts.append(ESCAPES.get(text[place], text[place]))
        place += 1
    return "".join(parts)


def _code_digits(text: str, place: int) -> tuple[str, int]:
    r"""Return the digits of ``\101`` or ``\x41`` at a position, and their base. Without digits return ""."""
    base, max_digits = (16, 2) if text[place] == "x" else (8, 3)
    start = place + (base == 16)
    allowed = "0123456789abcdefABCDEF" if base == 16 else "01234567"
    end = start
    while end < min(len(text), start + max_digits) and text[end] in allowed:
        end += 1
    return text[start:end], base


def _csv_lines(text: str, form: CopyFormat) -> Iterator[str]:
    """Yield records: lines, or several lines enclosed in quotes."""
    start, in_quotes, place = 0, False, 0
    text = text.replace("\r\n", "\n")
    while place < len(text):
        char = text[place]
        if in_quotes and char == form.escape and form.escape != form.quote and place + 1 < len(text):
            place += 1
        elif char == form.quote:
            in_quotes = not in_quotes
        elif char == "\n" and not in_quotes:
            yield text[start:place]
            start = place + 1
        place += 1
    if in_quotes:
        error = DataError("unterminated CSV quoted field", hint="a quote is not closed")
        error.sqlstate = BAD_COPY_FORMAT
        raise error
    if start < len(text):
        yield text[start:]


def _split_csv_line(line: str, form: CopyFormat, names: Sequence[str]) -> list[Field]:
    fields: list[Field] = []
    parts: list[str] = []
    in_quotes = had_quotes = False
    place = 0
    while place <= len(line):
        char = line[place] if place < len(line) else ""
        if in_quotes and char == form.escape and line[place + 1 : place + 2] in (form.quote, form.escape):
            place += 1
            parts.append(line[place : place + 1])
        elif char == form.quote:
            in_quotes, had_quotes = not in_quotes, True
        elif (char == form.delimiter and not in_quotes) or not char:
            name = names[len(fields)].lower() if len(fields) < len(names) else ""
            fields.append(_parse_csv_field("".join(parts), had_quotes, form, name))
            parts, had_quotes = [], False
        else:
            parts.append(char)
        place += 1
    return fields


def _parse_csv_field(value: str, is_quoted: bool, form: CopyFormat, name: str) -> Field:
    if value == form.default and not is_quoted:
        return DefaultMarker.DEFAULT
    if value == form.null and (not is_quoted or name in form.force_null) and name not in form.force_not_null:
        return None
    return value


def format_line(values: Sequence[str | None], form: CopyFormat, names: Sequence[str]) -> str:
    """Format a row without the line end."""
    if form.csv:
        fields = [
            _format_csv_field(value, form, name, len(names))
            for value, name in zip(values, names, strict=True)
        ]
    else:
        fields = [form.null if value is None else _format_text_field(value, form) for value in values]
    return form.delimiter.join(fields)


def _format_text_field(value: str, form: CopyFormat) -> str:
    return value.translate(_escape_table(form.delimiter))


@functools.cache
def _escape_table(delimiter: str) -> dict[int, str]:
    return str.maketrans({delimiter: f"\\{delimiter}", **TEXT_ESCAPES})


def header_format(form: CopyFormat) -> CopyFormat:
    """Return the format of the header, which is quoted only where necessary."""
    return replace(form, force_quote=frozenset())


def _format_csv_field(value: str | None, form: CopyFormat, name: str, width: int) -> str:
    if value is None:
        return form.null
    is_forced = name.lower() in form.force_quote or "*" in form.force_quote
    needs_quotes = any(sign in value for sign in (form.delimiter, form.quote, "\n", "\r"))
    if not (is_forced or needs_quotes or value == form.null or (value == "\\." and width == 1)):
        return value
    for sign in dict.fromkeys((form.escape, form.quote)):
        value = value.replace(sign, form.escape + sign)
    return form.quote + value + form.quote


DELIMITERS: Final = (",", "|", ";", "\t")
"""Candidates in the order that breaks ties."""
SAMPLE_ROWS: Final = 20_480
"""Default number of rows that decide the types: as many as in DuckDB, so that results agree."""
DELIMITER_SAMPLE_ROWS: Final = 200
"""Rows that decide the delimiter."""
INFERENCE_CHUNK_ROWS: Final = 1 << 14
"""Rows whose values are checked together, column by column."""

TIMESTAMP_FORM: Final = r"\d{4}-(0\d|1[0-2])-([0-2]\d|3[01])[ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?"
"""A date and a time of day."""
TYPE_FORMS: Final[tuple[tuple[Type, re.Pattern[str]], ...]] = (
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
    (TIMESTAMP, re.compile(TIMESTAMP_FORM)),
    (TIMESTAMPTZ, re.compile(TIMESTAMP_FORM + r"(Z|[+-]\d\d(:?\d\d)?)")),
)
"""Form of the values of each type. A column has the first type that fits, or TEXT."""


@dataclass(frozen=True, slots=True)
class CsvLayout:
    """Options and schema of a file. ``options`` skips the header line and has no header."""

    options: CsvOptions
    schema: Schema


@dataclass(frozen=True, slots=True)
class CsvHints:
    """The user's options for a file. None is inferred. Names and types may cover some columns only."""

    delimiter: str | None = None
    header: bool | None = None
    quote: str = '"'
    null: str = ""
    skip: int = 0
    names: tuple[str, ...] = ()
    types: tuple[tuple[str, Type], ...] = ()
    sample: int | None = SAMPLE_ROWS
    """Number of rows that decide the types, or None for all."""
    text_only: bool = False
    """Whether columns are text unless ``types`` has another type."""


def sniff(path: Path, hints: CsvHints) -> CsvLayout:
    """Infer the layout of a CSV file.

    Raises:
        OperationalError: The file cannot be read as text.
        DataError: Rows differ in their number of fields.
    """
    try:
        delimiter = hints.delimiter or _infer_delimiter(path, hints)
        with open_lines(path, hints.skip) as lines:
            return _infer_columns(
                csv.reader(lines, delimiter=delimiter, quotechar=hints.quote), delimiter, hints
            )
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise OperationalError(
            f"cannot read {path} as CSV: {error}", hint="is it a UTF-8 CSV file?"
        ) from error


def _infer_delimiter(path: Path, hints: CsvHints) -> str:
    """Return the delimiter that gives rows of equal length.

    Raises:
        DataError: A delimiter occurs, but not equally often in each row.
    """
    samples = {candidate: _sample(path, candidate, hints) for candidate in DELIMITERS}
    widths = {}
    for candidate, rows in samples.items():
        sizes = {len(row) for _, row in rows}
        widths[candidate] = sizes.pop() if len(sizes) == 1 else 0
    best = max(DELIMITERS, key=lambda candidate: widths[candidate])
    if widths[best] < 2 and len(hints.names) != 1:
        for candidate, rows in samples.items():
            _reject_uneven_rows(path, candidate, rows)
    return best


def _sample(path: Path, delimiter: str, hints: CsvHints) -> list[tuple[int, list[str]]]:
    """Return the first nonempty rows, with the numbers of their last lines."""
    with open_lines(path, hints.skip) as lines:
        reader = csv.reader(lines, delimiter=delimiter, quotechar=hints.quote)
        return [(hints.skip + reader.line_num, row) for row in islice(reader, DELIMITER_SAMPLE_ROWS) if row]


def _reject_uneven_rows(path: Path, delimiter: str, rows: Sequence[tuple[int, list[str]]]) -> None:
    """Raise DataError for a table with uneven rows. A column of texts may have commas in some.

    Rows are a table if the first row and half of all rows have several fields. They are one, too, if all
    but the first have the same number of several fields.
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
            uneven_row_message(path, line, row, width, delimiter),
            hint="set the delimiter and the lines to skip: read_csv('...', delim = '...', skip = 1)",
        )


def _infer_columns(rows: Iterator[list[str]], delimiter: str, hints: CsvHints) -> CsvLayout:
    first = next(rows, [])
    columns = [TypeCandidates() for _ in first]
    sample = rows if hints.sample is None else islice(rows, hints.sample)
    while chunk := list(islice(sample, INFERENCE_CHUNK_ROWS)):
        columns = [
            forms.narrow(_column_values(chunk, place, hints.null)) for place, forms in enumerate(columns)
        ]
    header = _is_header(first, columns, hints.null) if hints.header is None else hints.header
    if not header:
        columns = [
            forms.narrow(_column_values([first], place, hints.null)) for place, forms in enumerate(columns)
        ]
    names = _column_names(first if header else [""] * len(first), hints.names)
    declared_types = {name.lower(): type_ for name, type_ in hints.types}
    if hints.text_only:
        columns = [TypeCandidates() for _ in columns]
    types = [declared_types.get(name.lower(), forms.type) for name, forms in zip(names, columns, strict=True)]
    options = CsvOptions(False, delimiter, hints.quote, hints.null, hints.skip + int(header))
    return CsvLayout(options, Schema(tuple(map(ColumnDef, names, types))))


@dataclass(frozen=True, slots=True)
class TypeCandidates:
    """Types whose form all values of a column have so far, and whether there were values."""

    fits: tuple[bool, ...] = (True,) * len(TYPE_FORMS)
    has_values: bool = False

    def narrow(self, values: Iterable[str]) -> "TypeCandidates":
        """Return the candidates after more values."""
        distinct = set(values)
        fits = (
            fit and all(form.fullmatch(value) for value in distinct)
            for fit, (_, form) in zip(self.fits, TYPE_FORMS, strict=True)
        )
        return TypeCandidates(tuple(fits), True) if distinct else self

    @property
    def type(self) -> Type:
        """Inferred type of the column."""
        first = (type_ for fit, (type_, _) in zip(self.fits, TYPE_FORMS, strict=True) if fit)
        return next(first, TEXT) if self.has_values else TEXT


def _column_values(rows: Iterable[list[str]], place: int, null: str) -> Iterator[str]:
    return (row[place] for row in rows if place < len(row) and row[place] != null)


def _is_header(first: Sequence[str], columns: Sequence[TypeCandidates], null: str) -> bool:
    """Check whether the first row is a header; see the module docstring."""
    if not any(forms.has_values for forms in columns):
        return all(TypeCandidates().narrow([value]).type == TEXT for value in first)
    if all(forms.type == TEXT for forms in columns):
        return True
    known = zip(first, columns, strict=True)
    return any(
        value != null and forms.has_values and not _has_form(value, forms.type) for value, forms in known
    )


def _has_form(value: str, type_: Type) -> bool:
    """Check whether a text has the form of a type's values."""
    return type_ == TEXT or any(known == type_ and form.fullmatch(value) for known, form in TYPE_FORMS)


def _column_names(first: Sequence[str], declared: Sequence[str]) -> list[str]:
    """Return distinct column names: declared, else from the header, else ``column3`` and so on."""
    result: list[str] = []
    used: set[str] = set()
    for place, header in enumerate(first):
        name = declared[place] if place < len(declared) else header.strip() or f"column{place}"
        unique, number = name, 1
        while unique.lower() in used:
            unique, number = f"{name}_{number}", number + 1
        used.add(unique.lower())
        result.append(unique)
    return result
