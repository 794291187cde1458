"""Fields of lines of text: by pyarrow where the lines are plain, else one by one as Soufflé splits them."""

import csv
import gzip
import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.csv

from kpg.compiler.datalog.types.declarations import is_on
from kpg.compiler.rules import core
from kpg.datalog.terms import STRUCTURED
from kpg.runtime.errors import DataError, OperationalError

STDIN: Final = Path("<stdin>")
ZIPPED: Final = b"\x1f\x8b"
OPENING: Final = "[("
CLOSING: Final = "])"


class _Irregular(Exception):
    """A line has other fields than columns."""


def separator(options: Mapping[str, str]) -> str:
    """What stands between fields if the directive alone decides: a tab, or by RFC 4180 a comma."""
    given = options.get("delimiter", "," if is_on(options, "rfc4180") else "\t")
    return {"\\t": "\t", "tab": "\t"}.get(given, given)


def content(path: Path) -> bytes:
    """All of a file, unpacked if it is zipped. OperationalError if it cannot be read."""
    try:
        found = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
        return gzip.decompress(found) if found[:2] == ZIPPED else found
    except (OSError, EOFError) as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception) -> OperationalError:
    """What is said of a file that cannot be read."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return OperationalError(f"cannot read {path}: {reason}")


def fields(
    path: Path, relation: core.Relation, options: Mapping[str, str], given: bytes | None = None
) -> pa.Table:
    """The fields of a relation's columns as strings; DataError for a line with too few.

    ``given`` is the text if it is in no file; ``path`` is then what messages call it.
    """
    source = _source(path) if given is None else given
    delimiter, quoted = _form(path, source, relation, options)
    columns = _columns(relation, options)
    is_plain = len(delimiter) == 1 and delimiter.isascii() and columns == list(range(len(columns)))
    has_commas = any(column.type.domain in STRUCTURED for column in relation.columns) and "," in delimiter
    if is_plain and (quoted or not has_commas):
        try:
            return _plain(path, source, len(columns), delimiter, quoted, is_on(options, "headers"))
        except _Irregular:
            pass
    return _one_by_one(path, source, relation, (delimiter, quoted, columns), is_on(options, "headers"))


def _source(path: Path) -> bytes | None:
    """The content, if it is not for pyarrow to read the file itself."""
    if path == STDIN:
        return content(path)
    try:
        with path.open("rb") as opened:
            start = opened.read(2)
    except OSError as error:
        raise unreadable(path, error) from error
    return content(path) if start == ZIPPED or not start else None


def _form(
    path: Path, source: bytes | None, relation: core.Relation, options: Mapping[str, str]
) -> tuple[str, bool]:
    """The delimiter, and whether fields may be in quotes.

    A ``.csv`` of which the program says nothing has commas and quotes, unless its first line has a tab.
    """
    if path.suffix != ".csv" or is_on(options, "rfc4180"):
        return separator(options), is_on(options, "rfc4180")
    if "delimiter" in options or "rfc4180" in options:
        return separator({"delimiter": ",", **options}), options.get("rfc4180") is None
    with io.BytesIO(source) if source is not None else path.open("rb") as opened:
        line = opened.readline()
    return ("\t", False) if b"\t" in line and len(relation.columns) > 1 else (",", True)


def _columns(relation: core.Relation, options: Mapping[str, str]) -> list[int]:
    """Where in a line the columns are. DataError if ``columns`` is wrong."""
    width = len(relation.columns)
    given = options.get("columns")
    if given is None:
        return list(range(width))
    places = [int(part) if part.isascii() and part.isdecimal() else -1 for part in given.split(":")]
    if len(places) != width or min(places) < 0:
        message = f'columns="{given}" of {relation.name} are not the places of {width} columns'
        raise DataError(message, hint='write numbers from 0 on with colons between them, "0:2"')
    return places


def _plain(
    path: Path, source: bytes | None, width: int, delimiter: str, quoted: bool, has_header: bool
) -> pa.Table:
    names = [str(place) for place in range(width)]
    wrong: list[pyarrow.csv.InvalidRow] = []

    def note(row: pyarrow.csv.InvalidRow) -> str:
        wrong.append(row)
        return "error"

    parse = pyarrow.csv.ParseOptions(
        delimiter=delimiter,
        quote_char='"' if quoted else False,
        newlines_in_values=quoted,
        ignore_empty_lines=False,
        invalid_row_handler=note,
    )
    reading = pyarrow.csv.ReadOptions(column_names=names, skip_rows=int(has_header), use_threads=False)
    kept = pyarrow.csv.ConvertOptions(
        column_types={name: pa.string() for name in names}, strings_can_be_null=False
    )
    if source is not None and not source:
        return _table([[] for _ in names])
    try:
        given = path if source is None else io.BytesIO(source)
        return pyarrow.csv.read_csv(given, reading, parse, kept)
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from error
    except pa.ArrowInvalid as error:
        if "Empty CSV" in str(error):
            return _table([[] for _ in names])
        if wrong:
            raise _Irregular from error
        raise DataError(f"{path}: {error}") from error


def _table(columns: Sequence[Sequence[str]]) -> pa.Table:
    return pa.table({str(place): pa.array(column, pa.string()) for place, column in enumerate(columns)})


def _one_by_one(
    path: Path,
    source: bytes | None,
    relation: core.Relation,
    form: tuple[str, bool, list[int]],
    has_header: bool,
) -> pa.Table:
    delimiter, quoted, columns = form
    try:
        text = (content(path) if source is None else source).decode()
    except UnicodeDecodeError as error:
        raise unreadable(path, error) from error
    at = dict(zip(columns, relation.columns, strict=True))
    nested = {place for place, column in at.items() if column.type.domain in STRUCTURED}
    found: list[list[str]] = [[] for _ in columns]
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else (), 1):
        if number == 1 and has_header:
            continue
        line = line.removesuffix("\r")
        parts = _quoted(line, delimiter) if quoted else _split(line, delimiter, nested, max(columns) + 1)
        if len(parts) <= max(columns):
            message = f"{path} line {number}: {len(parts)} fields for the {len(columns)} columns"
            raise DataError(f"{message} of {relation.name}", hint=f"the line is: {line[:100]}")
        for place, into in zip(columns, found, strict=True):
            into.append(parts[place])
    return _table(found)


def _split(line: str, delimiter: str, nested: set[int], most: int) -> list[str]:
    """The first fields of a line; those that are ``nested`` may have the delimiter inside of brackets."""
    parts: list[str] = []
    start: int | None = 0
    while start is not None and len(parts) < most:
        end = line.find(delimiter, start)
        if len(parts) in nested:
            end = _outside(line, delimiter, start)
        parts.append(line[start:] if end < 0 else line[start:end])
        start = None if end < 0 else end + len(delimiter)
    return parts


def _outside(line: str, delimiter: str, start: int) -> int:
    """The place of the next delimiter that is in no brackets and no quotes; -1 if there is none."""
    depth, place, in_quotes = 0, start, False
    while place < len(line):
        mark = line[place]
        if in_quotes:
            place += mark == "\\"
            in_quotes = mark != '"'
        elif depth == 0 and line.startswith(delimiter, place):
            return place
        elif mark == '"':
            in_quotes = depth > 0
        else:
            depth += (mark in OPENING) - (mark in CLOSING)
        place += 1
    return -1


def _quoted(line: str, delimiter: str) -> list[str]:
    """The fields of a line by RFC 4180, with a delimiter of any length."""
    if len(delimiter) == 1:
        return next(csv.reader([line], delimiter=delimiter), [""])
    parts: list[str] = []
    start = 0
    while True:
        part, end = _field(line, delimiter, start)
        parts.append(part)
        if end >= len(line):
            return parts
        start = end + len(delimiter)


def _field(line: str, delimiter: str, start: int) -> tuple[str, int]:
    """The field from a place on, and where it ends."""
    if not line.startswith('"', start):
        end = line.find(delimiter, start)
        end = len(line) if end < 0 else end
        return line[start:end], end
    place = start + 1
    while True:
        end = line.find('"', place)
        if end < 0:
            return line[start + 1 :].replace('""', '"'), len(line)
        if line.startswith('""', end):
            place = end + 2
            continue
        return line[start + 1 : end].replace('""', '"'), end + 1
