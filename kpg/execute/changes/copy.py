"""COPY FROM and COPY TO: Postgres' own formats line by line, other file formats through pyarrow.

``CopyLines`` renders the output lazily, one portion of lines at a time.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow
from numpy.typing import NDArray

from kpg.api.result import Result, Row, row_count_result
from kpg.compiler.catalog.access_control import (
    has_row_security,
    require_column_privileges,
    require_file_access,
    require_sequence_privileges,
)
from kpg.compiler.sql.frontend import lower_query
from kpg.compiler.sql.parse import statements as ast
from kpg.execute.changes.defaults import with_defaults
from kpg.execute.changes.partition_routing import satisfies_bound
from kpg.execute.changes.table_pipeline import load_rows
from kpg.execute.queries.result_rows import EncodedContents
from kpg.runtime.convert import csv_format, files
from kpg.runtime.convert.arrow import Origin, encode_table
from kpg.runtime.convert.python_values import format_values
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import NotSupportedError, OperationalError, ProgrammingError
from kpg.runtime.interrupts import safe_point
from kpg.runtime.types import ERROR, TEXT, ColumnDef, Schema, Type
from kpg.runtime.values import codec_of
from kpg.runtime.values.codec import output_function
from kpg.runtime.values.style_output import writer_of
from kpg.runtime.values.styles import Style, has_style_output
from kpg.session.base_table import Table
from kpg.session.engine import Engine

Fields = list[str | None]
NAME = "copy"


class CopyLines:
    """The output of COPY TO: one column with a line per row, after the header line if there is one."""

    def __init__(
        self, rows: Result, form: csv_format.CopyFormat, dictionary: Dictionary, style: Style
    ) -> None:
        self.rows = rows
        self._form = form
        self._names = rows.columns
        self._dictionary = dictionary
        self._writers = [_writer(type_, style) for type_ in rows.types]

    def __len__(self) -> int:
        return len(self.rows) + self._form.header

    def arrow(self) -> "pyarrow.Table":
        """Return all lines; see ``Contents``."""
        import pyarrow

        return pyarrow.table(
            {NAME: pyarrow.array([line for (line,) in self.part(0, None)], pyarrow.string())}
        )

    def part(self, start: int, stop: int | None) -> list[Row]:
        """Return some lines; see ``Contents``."""
        first = self._form.header
        last = len(self) if stop is None else min(stop, len(self))
        lines = [self._header()] if first and start == 0 < last else []
        begin = max(start - first, 0)
        lines += self._lines(begin, max(last - first, begin))
        return [(line,) for line in lines]

    def _header(self) -> str:
        return csv_format.format_line(self._names, csv_format.header_format(self._form), self._names)

    def _lines(self, start: int, stop: int) -> list[str]:
        columns = self._columns(start, stop) if stop > start else []
        if not columns:
            return [""] * (stop - start)
        return [csv_format.format_line(row, self._form, self._names) for row in zip(*columns, strict=True)]

    def _columns(self, start: int, stop: int) -> list[Fields]:
        contents, types = self.rows.contents, self.rows.types
        if isinstance(contents, EncodedContents):
            words = contents.words[:, start:stop]
            return [
                format_values(column, type_, self._dictionary, write)
                for column, type_, write in zip(words, types, self._writers, strict=True)
            ]
        encoders = [
            (codec_of(type_).from_python, write) for type_, write in zip(types, self._writers, strict=True)
        ]
        values = zip(*contents.part(start, stop), strict=True)
        return [
            [None if value is None else write(take(value)) for value in column]
            for column, (take, write) in zip(values, encoders, strict=True)
        ]


def copy_lines(rows: Result, form: csv_format.CopyFormat, dictionary: Dictionary, style: Style) -> Result:
    """Return a result of COPY lines."""
    return Result([NAME], [TEXT], CopyLines(rows, form, dictionary, style))


def _writer(type_: Type, style: Style) -> Callable[[Any], str]:
    return writer_of(type_, style) if has_style_output(type_) else output_function(type_)


Words = NDArray[np.int64]
LINE_OPTIONS: Final = frozenset({"escape", "force_quote", "force_null", "force_not_null", "default"})
"""CSV options that require the line-by-line format instead of pyarrow."""
BOOLEANS: Final = {**dict.fromkeys(("true", "on", "1"), True), **dict.fromkeys(("false", "off", "0"), False)}
CHUNK_ROWS: Final = 1 << 16
LINES_AT_ONCE: Final = 2_000


def copy_from(engine: Engine, statement: ast.CopyFrom) -> Result:
    """Run COPY FROM: append a file's rows. Columns that are not listed get their DEFAULTs."""
    table = engine.table(statement.table)
    if engine.catalog.checks_privileges:
        _check_privileges(engine, table, statement)
    if not statement.path and statement.text is None:
        hint = "give a file, or rows: db.load, db.insert"
        raise NotSupportedError("COPY FROM STDIN needs a client", span=statement.span, hint=hint)
    schema, places = _target_columns(engine, table, statement)
    rows = 0
    for words, defaulted in _chunks(table, schema, statement):
        whole = _complete_rows(engine, table, words, places, defaulted)
        if statement.where:
            mask = satisfies_bound(engine, engine.catalog.table(table.name), statement.where, whole)
            whole = np.ascontiguousarray(whole[:, mask])
        rows += load_rows(engine, table, whole)
    return row_count_result(rows)


def _check_privileges(engine: Engine, table: Table, statement: ast.CopyFrom) -> None:
    """Raise PrivilegeError unless the role may insert the rows and read the file."""

    columns = frozenset(statement.columns or table.schema.names)
    require_column_privileges(engine.catalog, table.name, "a", columns, None)
    require_sequence_privileges(engine.catalog, engine.catalog.table(table.name), columns)
    if has_row_security(engine.catalog, table.name, engine.catalog.asker.user):
        message = "COPY FROM not supported with row-level security"
        raise NotSupportedError(message, span=statement.span, hint="use INSERT statements instead")
    if statement.path:
        require_file_access(engine.catalog, "from", statement.span)


def column_types(engine: Engine, statement: ast.CopyFrom) -> tuple[Type, ...]:
    """Return the types of the columns of rows that a client sends."""
    return _target_columns(engine, engine.table(statement.table), statement)[0].types


def _chunks(
    table: Table, schema: Schema, statement: ast.CopyFrom
) -> Iterator[tuple[Words, NDArray[np.bool_] | None]]:
    """Yield the rows of a file, and a mask of the fields that stand for DEFAULTs."""
    copy_options = dict(statement.options)
    if statement.format == "parquet":
        if copy_options:
            message = f'COPY option "{statement.options[0][0]}" is for CSV only'
            raise ProgrammingError(message, span=statement.span)
        chunks = files.read_parquet(statement.path, schema, table.dictionary)
    elif _uses_lines(statement):
        yield from _line_chunks(table, schema, statement)
        return
    else:
        options = csv_options(statement)
        if "header" not in copy_options:
            options = replace(options, header=_has_header(statement.path, schema, options))
        chunks = files.read_csv(statement.path, schema, table.dictionary, options)
    for words in chunks:
        safe_point()
        yield words, None


def _uses_lines(statement: ast.CopyFrom | ast.CopyTo) -> bool:
    options = dict(statement.options)
    if not statement.path:
        return True
    return (
        statement.format == "text" or bool(options.keys() & LINE_OPTIONS) or options.get("header") == "match"
    )


def _line_chunks(
    table: Table, schema: Schema, statement: ast.CopyFrom
) -> Iterator[tuple[Words, NDArray[np.bool_] | None]]:
    form = _copy_format(statement, schema)
    path, text = _read_text(statement)
    rows = list(csv_format.parse_rows(text, form, schema.names, path))
    for start in range(0, len(rows), CHUNK_ROWS):
        part = rows[start : start + CHUNK_ROWS]
        columns = list(zip(*part, strict=True))
        values = [
            pyarrow.array([field if isinstance(field, str) else None for field in column], pyarrow.string())
            for column in columns
        ]
        batch = pyarrow.RecordBatch.from_arrays(values, names=list(schema.names))
        origin = Origin(path, start)
        typed = files.cast_columns(
            batch, {column_def.name.lower(): column_def.type for column_def in schema.columns}, origin
        )
        nullable = Schema(tuple(replace(column_def, nullable=True) for column_def in schema.columns))
        absent = np.array(
            [[field is csv_format.DefaultMarker.DEFAULT for field in column] for column in columns]
        )
        known = nullable if form.default is not None else schema
        yield (
            encode_table(typed, known, table.dictionary, origin),
            absent if form.default is not None else None,
        )


def _read_text(statement: ast.CopyFrom) -> tuple[str, str]:
    """Return the origin and the text of the data."""
    if statement.text is not None:
        return "COPY", statement.text
    path = files.expand_path(statement.path, ".txt")[0]
    try:
        return str(path), path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise OperationalError(f"cannot read {path}: {error}", hint="is it a UTF-8 file?") from error


def _has_header(path: str, schema: Schema, options: files.CsvOptions) -> bool:
    """Whether a file's first line has column names; also true if it cannot be read as data."""
    try:
        row = files.csv_names(files.expand_path(path, ".csv")[0], schema, replace(options, header=True))
    except OperationalError:
        return True
    known = {name.lower() for name in schema.names}
    return not row or any(field.strip().lower() in known for field in row)


def _target_columns(engine: Engine, table: Table, statement: ast.CopyFrom) -> tuple[Schema, tuple[int, ...]]:
    """Return the columns of the file and their positions; without a list, all that are not generated."""
    schema = table.schema
    rules = engine.catalog.table(table.name).constraints.rules
    listed = statement.columns or tuple(
        name for place, name in enumerate(schema.names) if not (rules and rules[place].generated)
    )
    names = [name.lower() for name in schema.names]
    positions: list[int] = []
    for name in listed:
        if name.lower() not in names or names.index(name.lower()) in positions:
            problem = "named twice" if name.lower() in names else "not in the table"
            raise ProgrammingError(
                f'column "{name}" is {problem}', span=statement.span, hint=f"it has {', '.join(schema.names)}"
            )
        positions.append(names.index(name.lower()))
        if rules and rules[positions[-1]].generated:
            raise ProgrammingError(f'column "{name}" is generated', span=statement.span)
    return Schema(tuple(schema.columns[place] for place in positions)), tuple(positions)


def _complete_rows(
    engine: Engine,
    table: Table,
    words: Words,
    positions: tuple[int, ...],
    default_mask: NDArray[np.bool_] | None,
) -> Words:
    """Return full rows of the table, with DEFAULTs for omitted columns and fields."""
    width, count = len(table.schema.columns), words.shape[1]
    if positions == tuple(range(width)) and default_mask is None:
        return words

    whole = np.full((width, count), ERROR, np.int64)
    whole[list(positions)] = words if default_mask is None else np.where(default_mask, ERROR, words)
    entry = engine.catalog.table(table.name)
    return with_defaults(engine.executor, engine.sequences, entry, engine.catalog, whole)


def copy_to(engine: Engine, statement: ast.CopyTo) -> Result:
    """Run COPY TO: write rows to a file, or return the lines for STDOUT."""
    if statement.path and engine.catalog.checks_privileges:
        require_file_access(engine.catalog, "to", statement.span)

    if statement.path and not _uses_lines(statement):
        result = engine.nested_execution.select(engine, statement.query)
        data = result.arrow()
        if statement.format == "parquet":
            files.write_parquet(data, statement.path)
        else:
            files.write_csv(as_texts(data, result.types), statement.path, csv_options(statement))
        return row_count_result(len(result))
    bound = lower_query(statement.query, engine.reading_catalog)
    form = _copy_format(statement, Schema(tuple(map(ColumnDef, bound.names, bound.types))))
    rows = engine.nested_execution.select(engine, statement.query)
    lines = copy_lines(rows, form, engine.executor.dictionary, engine.catalog.style)
    if not statement.path:
        return lines
    try:
        with Path(statement.path).open("w", encoding="utf-8", newline="") as file:
            for start in range(0, len(lines), LINES_AT_ONCE):
                file.writelines(f"{line}\n" for (line,) in lines.part(start, start + LINES_AT_ONCE))
    except OSError as error:
        raise OperationalError(f"cannot write {statement.path}: {error}") from error
    return row_count_result(len(rows))


def as_texts(data: pyarrow.Table, types: Sequence[Type]) -> pyarrow.Table:
    """Convert columns that CSV cannot represent, such as arrays and intervals, to Postgres' text form."""
    columns = [
        files.show_column(column, type_) if type_.kind in files.TEXT_OUTPUT_KINDS else column
        for column, type_ in zip(data.columns, types, strict=True)
    ]
    return pyarrow.Table.from_arrays(columns, names=data.column_names)


def _copy_format(statement: ast.CopyFrom | ast.CopyTo, schema: Schema) -> csv_format.CopyFormat:
    options = dict(statement.options)
    csv = statement.format == "csv"
    header = options.get("header", "false")
    if header not in BOOLEANS and not (header == "match" and isinstance(statement, ast.CopyFrom)):
        raise ProgrammingError(f'COPY option header is "{header}"', span=statement.span, hint="true or false")
    for name in options:
        if not csv and name in ("quote", "escape", "force_quote", "force_null", "force_not_null"):
            raise ProgrammingError(f'COPY option "{name}" is for CSV only', span=statement.span)
    known = {name.lower() for name in schema.names}
    for option in ("force_quote", "force_null", "force_not_null"):
        for name in sorted(_names(options, option, []) - known):
            raise ProgrammingError(
                f'column "{name}" of COPY option "{option}" is unknown', span=statement.span
            )
    if "default" in options and isinstance(statement, ast.CopyTo):
        raise ProgrammingError("COPY DEFAULT only available using COPY FROM", span=statement.span)
    quote = _character(statement, "quote", options.get("quote", '"'))
    names = [name.lower() for name in schema.names]
    return csv_format.CopyFormat(
        csv,
        _character(statement, "delimiter", options.get("delimiter", "," if csv else "\t")),
        options.get("null", "" if csv else "\\N"),
        quote,
        _character(statement, "escape", options.get("escape", quote)),
        BOOLEANS.get(header, True),
        header == "match",
        _names(options, "force_quote", ["*"]),
        _names(options, "force_null", names),
        _names(options, "force_not_null", names),
        options.get("default"),
    )


def _names(options: dict[str, str], option: str, all_names: Sequence[str]) -> frozenset[str]:
    value = options.get(option, "")
    return frozenset(all_names if value == "*" else (name.lower() for name in value.split("\n") if name))


def _character(statement: ast.CopyFrom | ast.CopyTo, name: str, value: str) -> str:
    value = {"\\t": "\t", "tab": "\t"}.get(value, value)
    if len(value) != 1:
        raise ProgrammingError(f'COPY option {name} is "{value}", not one character', span=statement.span)
    return value


def csv_options(statement: ast.CopyFrom | ast.CopyTo) -> files.CsvOptions:
    """Return the CSV options of a COPY; the default delimiter of a ``.tsv`` file is the tab."""
    options = dict(statement.options)
    default = files.CsvOptions()
    header = options.get("header", "true")
    if header not in BOOLEANS:
        raise ProgrammingError(f'COPY option header is "{header}"', span=statement.span, hint="true or false")
    delimiter = options.get(
        "delimiter", "\t" if statement.path.lower().endswith(".tsv") else default.delimiter
    )
    return files.CsvOptions(
        header=BOOLEANS[header],
        delimiter=_character(statement, "delimiter", delimiter),
        quote=_character(statement, "quote", options.get("quote", default.quote)),
        null=options.get("null", default.null),
    )
