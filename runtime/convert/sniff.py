"""What a CSV file does not say: its delimiter, whether it has a header, the types of its columns.

The delimiter is the one that makes the same number of fields, and the most, in all rows of a sample. Rows of
a table that none makes even are an error, where DuckDB leaves lines out or reads one column. A type fits a
column if all its values have that type's form. The first row is a header if it has a value in a
column of numbers, dates or truth values that is none, or if all columns are text. DuckDB decides alike.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
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
