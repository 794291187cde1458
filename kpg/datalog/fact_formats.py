"""The formats ``IO=json`` and ``IO=sqlite``, laid out as in Soufflé.

In JSON, a row or a record is a list or an object, and nil is null. In SQLite, a relation r is a
table ``_r`` of words with columns ``0``, ``1`` and so on. Symbols are in ``__SymbolTable``. A view
``r`` shows the named columns and the symbols. Reading uses that view, or a table of that name.
"""

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from kpg.api.result import Row
from kpg.compiler.rules import core
from kpg.datalog.terms import STRUCTURED, float_text, structure_text
from kpg.runtime.errors import DataError, OperationalError
from kpg.runtime.functions.datalog import branch_name, extract_field, quote, unquote

OBJECT_FORMAT = "object"
"""The JSON format that writes rows and records as objects."""


def to_json(rows: Sequence[Row], relation: core.Relation, program: core.Program, format_: str) -> str:
    """Return the rows as a JSON array, one row per line."""
    types = [(column.name, column.type) for column in relation.columns]
    if not types:
        return "[null\n]\n" if rows else "[]\n"
    texts = [_dump_json(_json_row(types, row, program, format_)) for row in rows]
    return "[" + ",\n".join(texts) + "]\n"


def _dump_json(value: Any) -> str:
    """Return the value as JSON, with floats as in text files."""
    match value:
        case float():
            return float_text(value)
        case list():
            return f"[{', '.join(map(_dump_json, value))}]"
        case dict():
            return (
                "{" + ", ".join(f"{json.dumps(key)}: {_dump_json(item)}" for key, item in value.items()) + "}"
            )
        case _:
            return json.dumps(value, ensure_ascii=False)


def _json_row(
    fields: Sequence[tuple[str, core.ValueType]], values: Sequence[Any], program: core.Program, format_: str
) -> list[Any] | dict[str, Any]:
    converted = [
        _json_value(value, type_, program, format_) for value, (_, type_) in zip(values, fields, strict=False)
    ]
    return (
        dict(zip((name for name, _ in fields), converted, strict=False))
        if format_ == OBJECT_FORMAT
        else converted
    )


def _json_value(value: Any, type_: core.ValueType, program: core.Program, format_: str) -> Any:
    if type_.domain not in STRUCTURED:
        return value if isinstance(value, str | int | float) else str(value)
    if value == "nil":
        return None
    name = branch_name(value)
    fields = program.structures[type_.name].branches[name]
    field_values = [
        _json_field(value, position, field_type, program, format_)
        for position, (_, field_type) in enumerate(fields)
    ]
    if type_.domain is core.Domain.ADT:
        return [f"${name}", *field_values]
    return (
        dict(zip((label for label, _ in fields), field_values, strict=True))
        if format_ == OBJECT_FORMAT
        else field_values
    )


def _json_field(
    structure: str, position: int, type_: core.ValueType, program: core.Program, format_: str
) -> Any:
    text = extract_field(structure, position) or ""
    match type_.domain:
        case core.Domain.SYMBOL:
            return unquote(text)
        case core.Domain.FLOAT:
            return float(text)
        case core.Domain.RECORD | core.Domain.ADT:
            return _json_value(text, type_, program, format_)
        case _:
            return int(text)


def read_json(path: Path, relation: core.Relation, program: core.Program) -> list[tuple[str, ...]]:
    """Return the rows of a JSON file as texts.

    The file is an array of arrays, or of objects whose keys are the columns' names.
    """
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise OperationalError(f"cannot read {path}: {error}") from error
    except json.JSONDecodeError as error:
        raise DataError(f"{path} line {error.lineno}: {error.msg}") from error
    if not isinstance(rows, list):
        raise DataError(f"{path}: it is no array of rows")
    types = [(column.name, column.type) for column in relation.columns]
    return [_row_texts(row, types, program, f"{path} row {number}") for number, row in enumerate(rows, 1)]


def _row_texts(
    row: Any, types: Sequence[tuple[str, core.ValueType]], program: core.Program, where: str
) -> tuple[str, ...]:
    values = [row.get(name) for name, _ in types] if isinstance(row, Mapping) else row
    if not isinstance(values, list) or len(values) != len(types):
        raise DataError(f"{where}: it does not have {len(types)} values")
    return tuple(_value_text(value, type_, program) for value, (_, type_) in zip(values, types, strict=True))


def _value_text(value: Any, type_: core.ValueType, program: core.Program) -> str:
    """Return the value as a text file has it."""
    if type_.domain not in STRUCTURED:
        return value if isinstance(value, str) else json.dumps(value)
    if value is None:
        return "nil"
    branches = program.structures[type_.name].branches
    if type_.domain is core.Domain.ADT and isinstance(value, list) and value:
        name = re.sub(r"^\$", "", str(value[0]))
        return (
            f"${name}({_field_texts(value[1:], branches.get(name, ()), program)})"
            if value[1:]
            else f"${name}"
        )
    fields = branches.get("", ())
    if isinstance(value, Mapping):
        value = [value.get(name) for name, _ in fields]
    return f"[{_field_texts(value, fields, program)}]" if isinstance(value, list) else json.dumps(value)


def _field_texts(
    values: Sequence[Any], fields: Sequence[tuple[str, core.ValueType]], program: core.Program
) -> str:
    texts = []
    for position, value in enumerate(values):
        type_ = fields[position][1] if position < len(fields) else None
        if type_ is not None and type_.domain is core.Domain.SYMBOL:
            texts.append(quote(str(value)))
        else:
            texts.append(json.dumps(value) if type_ is None else _value_text(value, type_, program))
    return ", ".join(texts)


SYMBOL_TABLE = "__SymbolTable"
"""The table of symbols, by their numbers."""


def _quote_identifier(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def read_sqlite(path: Path, name: str, relation: core.Relation) -> list[tuple[str, ...]]:
    """Return the rows of a table as texts. Raises OperationalError without such a database or table."""
    if not path.exists():
        raise OperationalError(f"there is no file {path} for relation {name}")
    with closing(sqlite3.connect(path)) as db:
        try:
            rows = db.execute(f"SELECT * FROM {_quote_identifier(name)}").fetchall()
        except sqlite3.Error as error:
            raise OperationalError(f"cannot read {path}: {error}") from error
    width = len(relation.columns)
    if rows and len(rows[0]) < width:
        message = f"{path}: {len(rows[0])} columns for the {width} columns of {name}"
        raise DataError(message)
    return [tuple("" if value is None else str(value) for value in row[:width]) for row in rows]


def write_sqlite(path: Path, name: str, relation: core.Relation, rows: Sequence[Row]) -> None:
    """Replace a relation's rows in a database. Raises OperationalError if it cannot be written."""
    try:
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(
                f"CREATE TABLE IF NOT EXISTS {SYMBOL_TABLE} (id INTEGER PRIMARY KEY, symbol TEXT UNIQUE)"
            )
            _replace_table(db, name, relation, rows)
    except sqlite3.Error as error:
        raise OperationalError(f"cannot write {path}: {error}") from error


def _replace_table(db: sqlite3.Connection, name: str, relation: core.Relation, rows: Sequence[Row]) -> None:
    table, width = _quote_identifier(f"_{name}"), len(relation.columns)
    text_positions = [
        position for position, column in enumerate(relation.columns) if column.type.type.is_text
    ]
    db.execute(f"DROP VIEW IF EXISTS {_quote_identifier(name)}")
    db.execute(f"DROP TABLE IF EXISTS {table}")
    columns = [
        f'"{position}" {"REAL" if column.type.domain is core.Domain.FLOAT else "INTEGER"}'
        for position, column in enumerate(relation.columns)
    ]
    db.execute(f"CREATE TABLE {table} ({', '.join(columns or ['holds INTEGER'])})")
    encoded = [_encode_row(db, relation, row, text_positions) for row in rows]
    db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * max(width, 1))})", encoded)
    selected = [
        f'(SELECT symbol FROM {SYMBOL_TABLE} WHERE id = "{position}") AS {_quote_identifier(column.name)}'
        if position in text_positions
        else f'"{position}" AS {_quote_identifier(column.name)}'
        for position, column in enumerate(relation.columns)
    ]
    db.execute(
        f"CREATE VIEW {_quote_identifier(name)} AS SELECT {', '.join(selected or ['holds'])} FROM {table}"
    )


def _encode_row(
    db: sqlite3.Connection, relation: core.Relation, row: Row, text_positions: Sequence[int]
) -> list[Any]:
    values = list(row) or [1]
    for position in text_positions:
        text = values[position]
        if relation.columns[position].type.domain in STRUCTURED:
            text = structure_text(text, quotes=True)
        db.execute(f"INSERT OR IGNORE INTO {SYMBOL_TABLE}(symbol) VALUES (?)", (text,))
        values[position] = db.execute(f"SELECT id FROM {SYMBOL_TABLE} WHERE symbol = ?", (text,)).fetchone()[
            0
        ]
    return values
