"""COPY FROM and COPY TO: Postgres' own formats line by line, other file formats through pyarrow.

``Lines`` renders the output lazily, one portion of lines at a time.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow
from numpy.typing import NDArray

from kpg.api.result import Result, Row, row_count
from kpg.compiler.catalog.access_control import is_secured, need_columns, need_file, need_numbers
from kpg.compiler.sql.frontend import lower_query
from kpg.compiler.sql.parse import statements as ast
from kpg.execute.changes.defaults import with_defaults
from kpg.execute.changes.partition_routing import fits, route_words
from kpg.execute.queries.result_rows import Decoded
from kpg.runtime.convert import csv_format, files
from kpg.runtime.convert.arrow import Origin, encode
from kpg.runtime.convert.python_values import written
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import NotSupportedError, OperationalError, ProgrammingError
from kpg.runtime.interrupts import safe_point
from kpg.runtime.types import ERROR, TEXT, ColumnDef, Schema, Type
from kpg.runtime.values import codec_of
from kpg.runtime.values.codec import output_of
from kpg.runtime.values.style_output import writer_of
from kpg.runtime.values.styles import Style, depends
from kpg.session.base_table import Table
from kpg.session.engine import Engine

Shown = list[str | None]
NAME = "copy"


class Lines:
    """One column, a line for each row of a result, behind that of the header if there is one."""

    def __init__(self, rows: Result, form: csv_format.Form, dictionary: Dictionary, style: Style) -> None:
        self.rows = rows
        self._form = form
        self._names = rows.columns
        self._dictionary = dictionary
        self._writers = [_writer(type_, style) for type_ in rows.types]

    def __len__(self) -> int:
        return len(self.rows) + self._form.header

    def arrow(self) -> "pyarrow.Table":
        """See Contents."""
        import pyarrow

        return pyarrow.table(
            {NAME: pyarrow.array([line for (line,) in self.part(0, None)], pyarrow.string())}
        )

    def part(self, start: int, stop: int | None) -> list[Row]:
        """See Contents."""
        first = self._form.header
        last = len(self) if stop is None else min(stop, len(self))
        lines = [self._header()] if first and start == 0 < last else []
        begin = max(start - first, 0)
        lines += self._lines(begin, max(last - first, begin))
        return [(line,) for line in lines]

    def _header(self) -> str:
        return csv_format.line_of(self._names, csv_format.unforced(self._form), self._names)

    def _lines(self, start: int, stop: int) -> list[str]:
        columns = self._columns(start, stop) if stop > start else []
        if not columns:
            return [""] * (stop - start)
        return [csv_format.line_of(row, self._form, self._names) for row in zip(*columns, strict=True)]

    def _columns(self, start: int, stop: int) -> list[Shown]:
        contents, types = self.rows.contents, self.rows.types
        if isinstance(contents, Decoded):
            words = contents.words[:, start:stop]
            return [
                written(column, type_, self._dictionary, write)
                for column, type_, write in zip(words, types, self._writers, strict=True)
            ]
        made = [
            (codec_of(type_).from_python, write) for type_, write in zip(types, self._writers, strict=True)
        ]
        values = zip(*contents.part(start, stop), strict=True)
        return [
            [None if value is None else write(take(value)) for value in column]
            for column, (take, write) in zip(values, made, strict=True)
        ]


def lines_of(rows: Result, form: csv_format.Form, dictionary: Dictionary, style: Style) -> Result:
    """A result of lines."""
    return Result([NAME], [TEXT], Lines(rows, form, dictionary, style))


def _writer(type_: Type, style: Style) -> Callable[[Any], str]:
    return writer_of(type_, style) if depends(type_) else output_of(type_)


Words = NDArray[np.int64]
OWN: Final = frozenset({"escape", "force_quote", "force_null", "force_not_null", "default"})
"""Options of CSV for which a file is read or written line by line."""
SWITCH: Final = {**dict.fromkeys(("true", "on", "1"), True), **dict.fromkeys(("false", "off", "0"), False)}
CHUNK_ROWS: Final = 1 << 16
LINES_AT_ONCE: Final = 2_000


def copy_from(engine: Engine, statement: ast.CopyFrom) -> Result:
    """COPY FROM: append a file's rows; columns that are not listed take their DEFAULTs."""
    table = engine.table(statement.table)
    if engine.catalog.is_limited:
        _check_allowed(engine, table, statement)
    if not statement.path and statement.text is None:
        hint = "give a file, or rows: db.load, db.insert"
        raise NotSupportedError("COPY FROM STDIN needs a client", span=statement.span, hint=hint)
    schema, places = _chosen(engine, table, statement)
    rows = 0
    for words, defaulted in _chunks(table, schema, statement):
        whole = _placed(engine, table, words, places, defaulted)
        if statement.where:
            kept = fits(engine, engine.catalog.table(table.name), statement.where, whole)
            whole = np.ascontiguousarray(whole[:, kept])
        if ("partitioned", table.name.lower(), "") in engine.catalog.others:
            several = route_words(engine, table.name, whole)
            several.apply()
            rows += several.count
            continue
        table.load(whole)
        rows += whole.shape[1]
    return row_count(rows)


def _check_allowed(engine: Engine, table: Table, statement: ast.CopyFrom) -> None:
    """PrivilegeError unless who asks may insert the rows, and read the file if there is one."""

    columns = frozenset(statement.columns or table.schema.names)
    need_columns(engine.catalog, table.name, "a", columns, None)
    need_numbers(engine.catalog, engine.catalog.table(table.name), columns)
    if is_secured(engine.catalog, table.name, engine.catalog.asker.user):
        message = "COPY FROM not supported with row-level security"
        raise NotSupportedError(message, span=statement.span, hint="use INSERT statements instead")
    if statement.path:
        need_file(engine.catalog, "from", statement.span)


def copied_types(engine: Engine, statement: ast.CopyFrom) -> tuple[Type, ...]:
    """The types of the columns that rows from a client have."""
    return _chosen(engine, engine.table(statement.table), statement)[0].types


def _chunks(
    table: Table, schema: Schema, statement: ast.CopyFrom
) -> Iterator[tuple[Words, NDArray[np.bool_] | None]]:
    """The rows of a file, and which of their fields stand for DEFAULTs."""
    given = dict(statement.options)
    if statement.format == "parquet":
        if given:
            message = f'COPY option "{statement.options[0][0]}" is for CSV only'
            raise ProgrammingError(message, span=statement.span)
        chunks = files.read_parquet(statement.path, schema, table.dictionary)
    elif _is_own(statement):
        yield from _own_chunks(table, schema, statement)
        return
    else:
        options = csv_options(statement)
        if "header" not in given:
            options = replace(options, header=_has_header(statement.path, schema, options))
        chunks = files.read_csv(statement.path, schema, table.dictionary, options)
    for words in chunks:
        safe_point()
        yield words, None


def _is_own(statement: ast.CopyFrom | ast.CopyTo) -> bool:
    given = dict(statement.options)
    if not statement.path:
        return True
    return statement.format == "text" or bool(given.keys() & OWN) or given.get("header") == "match"


def _own_chunks(
    table: Table, schema: Schema, statement: ast.CopyFrom
) -> Iterator[tuple[Words, NDArray[np.bool_] | None]]:
    form = _form(statement, schema)
    path, text = _text_of(statement)
    rows = list(csv_format.rows_of(text, form, schema.names, path))
    for start in range(0, len(rows), CHUNK_ROWS):
        part = rows[start : start + CHUNK_ROWS]
        columns = list(zip(*part, strict=True))
        values = [
            pyarrow.array([field if isinstance(field, str) else None for field in column], pyarrow.string())
            for column in columns
        ]
        batch = pyarrow.RecordBatch.from_arrays(values, names=list(schema.names))
        origin = Origin(path, start)
        typed = files.typed(batch, {one.name.lower(): one.type for one in schema.columns}, origin)
        nullable = Schema(tuple(replace(one, nullable=True) for one in schema.columns))
        absent = np.array([[field is csv_format.Absent.DEFAULT for field in column] for column in columns])
        known = nullable if form.default is not None else schema
        yield encode(typed, known, table.dictionary, origin), absent if form.default is not None else None


def _text_of(statement: ast.CopyFrom) -> tuple[str, str]:
    """What is copied, and where it is from."""
    if statement.text is not None:
        return "COPY", statement.text
    path = files.expand(statement.path, ".txt")[0]
    try:
        return str(path), path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise OperationalError(f"cannot read {path}: {error}", hint="is it a UTF-8 file?") from error


def _has_header(path: str, schema: Schema, options: files.CsvOptions) -> bool:
    """Whether a file's first line has the names of columns; if it cannot be read as it is, it has."""
    try:
        row = files.csv_names(files.expand(path, ".csv")[0], schema, replace(options, header=True))
    except OperationalError:
        return True
    known = {name.lower() for name in schema.names}
    return not row or any(field.strip().lower() in known for field in row)


def _chosen(engine: Engine, table: Table, statement: ast.CopyFrom) -> tuple[Schema, tuple[int, ...]]:
    """The columns that a file has, and their places: without a list, all that are not computed."""
    schema = table.schema
    rules = engine.catalog.table(table.name).constraints.rules
    listed = statement.columns or tuple(
        name for place, name in enumerate(schema.names) if not (rules and rules[place].generated)
    )
    known = [name.lower() for name in schema.names]
    places: list[int] = []
    for name in listed:
        if name.lower() not in known or known.index(name.lower()) in places:
            problem = "named twice" if name.lower() in known else "not in the table"
            raise ProgrammingError(
                f'column "{name}" is {problem}', span=statement.span, hint=f"it has {', '.join(schema.names)}"
            )
        places.append(known.index(name.lower()))
        if rules and rules[places[-1]].generated:
            raise ProgrammingError(f'column "{name}" is generated', span=statement.span)
    return Schema(tuple(schema.columns[place] for place in places)), tuple(places)


def _placed(
    engine: Engine,
    table: Table,
    words: Words,
    places: tuple[int, ...],
    defaulted: NDArray[np.bool_] | None,
) -> Words:
    """Rows of the whole table: with the DEFAULTs of columns that a file has not, or leaves to them."""
    width, count = len(table.schema.columns), words.shape[1]
    if places == tuple(range(width)) and defaulted is None:
        return words

    whole = np.full((width, count), ERROR, np.int64)
    whole[list(places)] = words if defaulted is None else np.where(defaulted, ERROR, words)
    entry = engine.catalog.table(table.name)
    return with_defaults(engine.executor, engine.sequences, entry, engine.catalog, whole)


def copy_to(engine: Engine, statement: ast.CopyTo) -> Result:
    """COPY TO: write rows to a file; to STDOUT, as the lines that it would have."""
    if statement.path and engine.catalog.is_limited:
        need_file(engine.catalog, "to", statement.span)

    if statement.path and not _is_own(statement):
        result = engine.nested.select(engine, statement.query)
        data = result.arrow()
        if statement.format == "parquet":
            files.write_parquet(data, statement.path)
        else:
            files.write_csv(as_texts(data, result.types), statement.path, csv_options(statement))
        return row_count(len(result))
    bound = lower_query(statement.query, engine.reading_catalog)
    form = _form(statement, Schema(tuple(map(ColumnDef, bound.names, bound.types))))
    rows = engine.nested.select(engine, statement.query)
    lines = lines_of(rows, form, engine.executor.dictionary, engine.catalog.style)
    if not statement.path:
        return lines
    try:
        with Path(statement.path).open("w", encoding="utf-8", newline="") as file:
            for start in range(0, len(lines), LINES_AT_ONCE):
                file.writelines(f"{line}\n" for (line,) in lines.part(start, start + LINES_AT_ONCE))
    except OSError as error:
        raise OperationalError(f"cannot write {statement.path}: {error}") from error
    return row_count(len(rows))


def as_texts(data: pyarrow.Table, types: Sequence[Type]) -> pyarrow.Table:
    """The rows with what CSV has no form for, such as arrays and intervals, as Postgres writes it."""
    columns = [
        files.shown(column, type_) if type_.kind in files.SHOWN else column
        for column, type_ in zip(data.columns, types, strict=True)
    ]
    return pyarrow.Table.from_arrays(columns, names=data.column_names)


def _form(statement: ast.CopyFrom | ast.CopyTo, schema: Schema) -> csv_format.Form:
    given = dict(statement.options)
    csv = statement.format == "csv"
    header = given.get("header", "false")
    if header not in SWITCH and not (header == "match" and isinstance(statement, ast.CopyFrom)):
        raise ProgrammingError(f'COPY option header is "{header}"', span=statement.span, hint="true or false")
    for name in given:
        if not csv and name in ("quote", "escape", "force_quote", "force_null", "force_not_null"):
            raise ProgrammingError(f'COPY option "{name}" is for CSV only', span=statement.span)
    known = {name.lower() for name in schema.names}
    for option in ("force_quote", "force_null", "force_not_null"):
        for name in sorted(_names(given, option, []) - known):
            raise ProgrammingError(
                f'column "{name}" of COPY option "{option}" is unknown', span=statement.span
            )
    if "default" in given and isinstance(statement, ast.CopyTo):
        raise ProgrammingError("COPY DEFAULT only available using COPY FROM", span=statement.span)
    quote = _character(statement, "quote", given.get("quote", '"'))
    names = [name.lower() for name in schema.names]
    return csv_format.Form(
        csv,
        _character(statement, "delimiter", given.get("delimiter", "," if csv else "\t")),
        given.get("null", "" if csv else "\\N"),
        quote,
        _character(statement, "escape", given.get("escape", quote)),
        SWITCH.get(header, True),
        header == "match",
        _names(given, "force_quote", ["*"]),
        _names(given, "force_null", names),
        _names(given, "force_not_null", names),
        given.get("default"),
    )


def _names(given: dict[str, str], option: str, every: Sequence[str]) -> frozenset[str]:
    value = given.get(option, "")
    return frozenset(every if value == "*" else (name.lower() for name in value.split("\n") if name))


def _character(statement: ast.CopyFrom | ast.CopyTo, name: str, value: str) -> str:
    value = {"\\t": "\t", "tab": "\t"}.get(value, value)
    if len(value) != 1:
        raise ProgrammingError(f'COPY option {name} is "{value}", not one character', span=statement.span)
    return value


def csv_options(statement: ast.CopyFrom | ast.CopyTo) -> files.CsvOptions:
    """The CSV options of a COPY; a ``.tsv`` file has tabs unless told otherwise."""
    given = dict(statement.options)
    default = files.CsvOptions()
    header = given.get("header", "true")
    if header not in SWITCH:
        raise ProgrammingError(f'COPY option header is "{header}"', span=statement.span, hint="true or false")
    delimiter = given.get("delimiter", "\t" if statement.path.lower().endswith(".tsv") else default.delimiter)
    return files.CsvOptions(
        header=SWITCH[header],
        delimiter=_character(statement, "delimiter", delimiter),
        quote=_character(statement, "quote", given.get("quote", default.quote)),
        null=given.get("null", default.null),
    )
