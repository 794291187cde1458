"""The formats ``IO=json`` and ``IO=sqlite``, laid out as in Soufflé.

In JSON, a row or a record is a list or an object, and nil is null. In SQLite, a relation r is a table ``_r``
of words with columns ``0``, ``1`` and so on. Symbols are in ``__SymbolTable``. A view ``r`` shows the named
columns and the symbols. Reading uses that view, or a table of that name.
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
from kpg.runtime.functions.datalog import branch_of, field, quote, unquote

OBJECT = "object"
"""The format in which columns and fields have their names."""


def to_text(rows: Sequence[Row], relation: core.Relation, program: core.Program, form: str) -> str:
    """The rows as an array with one of them a line."""
    types = [(column.name, column.type) for column in relation.columns]
    if not types:
        return "[null\n]\n" if rows else "[]\n"
    texts = [_dumped(_together(types, row, program, form)) for row in rows]
    return "[" + ",\n".join(texts) + "]\n"


def _dumped(value: Any) -> str:
    """The value as JSON, floats as in files of text."""
    match value:
        case float():
            return float_text(value)
        case list():
            return f"[{', '.join(map(_dumped, value))}]"
        case dict():
            return "{" + ", ".join(f"{json.dumps(key)}: {_dumped(one)}" for key, one in value.items()) + "}"
        case _:
            return json.dumps(value, ensure_ascii=False)


def _together(
    fields: Sequence[tuple[str, core.ValueType]], values: Sequence[Any], program: core.Program, form: str
) -> list[Any] | dict[str, Any]:
    made = [_value(value, type_, program, form) for value, (_, type_) in zip(values, fields, strict=False)]
    return dict(zip((name for name, _ in fields), made, strict=False)) if form == OBJECT else made


def _value(value: Any, type_: core.ValueType, program: core.Program, form: str) -> Any:
    if type_.domain not in STRUCTURED:
        return value if isinstance(value, str | int | float) else str(value)
    if value == "nil":
        return None
    name = branch_of(value)
    fields = program.structures[type_.name].branches[name]
    inner = [_field(value, place, one, program, form) for place, (_, one) in enumerate(fields)]
    if type_.domain is core.Domain.ADT:
        return [f"${name}", *inner]
    return dict(zip((label for label, _ in fields), inner, strict=True)) if form == OBJECT else inner


def _field(whole: str, place: int, type_: core.ValueType, program: core.Program, form: str) -> Any:
    text = field(whole, place) or ""
    match type_.domain:
        case core.Domain.SYMBOL:
            return unquote(text)
        case core.Domain.FLOAT:
            return float(text)
        case core.Domain.RECORD | core.Domain.ADT:
            return _value(text, type_, program, form)
        case _:
            return int(text)


def read_rows(path: Path, relation: core.Relation, program: core.Program) -> list[tuple[str, ...]]:
    """The rows of a file of JSON as texts: an array of arrays, or of objects with the columns' names."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise OperationalError(f"cannot read {path}: {error}") from error
    except json.JSONDecodeError as error:
        raise DataError(f"{path} line {error.lineno}: {error.msg}") from error
    if not isinstance(found, list):
        raise DataError(f"{path}: it is no array of rows")
    types = [(column.name, column.type) for column in relation.columns]
    return [_row(one, types, program, f"{path} row {number}") for number, one in enumerate(found, 1)]


def _row(
    given: Any, types: Sequence[tuple[str, core.ValueType]], program: core.Program, where: str
) -> tuple[str, ...]:
    values = [given.get(name) for name, _ in types] if isinstance(given, Mapping) else given
    if not isinstance(values, list) or len(values) != len(types):
        raise DataError(f"{where}: it does not have {len(types)} values")
    return tuple(_text(value, type_, program) for value, (_, type_) in zip(values, types, strict=True))


def _text(value: Any, type_: core.ValueType, program: core.Program) -> str:
    """The value as a file of text has it."""
    if type_.domain not in STRUCTURED:
        return value if isinstance(value, str) else json.dumps(value)
    if value is None:
        return "nil"
    branches = program.structures[type_.name].branches
    if type_.domain is core.Domain.ADT and isinstance(value, list) and value:
        name = re.sub(r"^\$", "", str(value[0]))
        return f"${name}({_fields(value[1:], branches.get(name, ()), program)})" if value[1:] else f"${name}"
    fields = branches.get("", ())
    if isinstance(value, Mapping):
        value = [value.get(name) for name, _ in fields]
    return f"[{_fields(value, fields, program)}]" if isinstance(value, list) else json.dumps(value)


def _fields(
    values: Sequence[Any], fields: Sequence[tuple[str, core.ValueType]], program: core.Program
) -> str:
    texts = []
    for place, value in enumerate(values):
        type_ = fields[place][1] if place < len(fields) else None
        if type_ is not None and type_.domain is core.Domain.SYMBOL:
            texts.append(quote(str(value)))
        else:
            texts.append(json.dumps(value) if type_ is None else _text(value, type_, program))
    return ", ".join(texts)


SYMBOLS = "__SymbolTable"


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def read_table(path: Path, name: str, relation: core.Relation) -> list[tuple[str, ...]]:
    """The rows as texts. OperationalError if there is no such database or table."""
    if not path.exists():
        raise OperationalError(f"there is no file {path} for relation {name}")
    with closing(sqlite3.connect(path)) as db:
        try:
            rows = db.execute(f"SELECT * FROM {_quoted(name)}").fetchall()
        except sqlite3.Error as error:
            raise OperationalError(f"cannot read {path}: {error}") from error
    width = len(relation.columns)
    if rows and len(rows[0]) < width:
        message = f"{path}: {len(rows[0])} columns for the {width} columns of {name}"
        raise DataError(message)
    return [tuple("" if value is None else str(value) for value in row[:width]) for row in rows]


def write_table(path: Path, name: str, relation: core.Relation, rows: Sequence[Row]) -> None:
    """Write the rows, in place of those that are there. OperationalError if that cannot be done."""
    try:
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(f"CREATE TABLE IF NOT EXISTS {SYMBOLS} (id INTEGER PRIMARY KEY, symbol TEXT UNIQUE)")
            _replace(db, name, relation, rows)
    except sqlite3.Error as error:
        raise OperationalError(f"cannot write {path}: {error}") from error


def _replace(db: sqlite3.Connection, name: str, relation: core.Relation, rows: Sequence[Row]) -> None:
    table, width = _quoted(f"_{name}"), len(relation.columns)
    texts = [place for place, column in enumerate(relation.columns) if column.type.type.is_text]
    db.execute(f"DROP VIEW IF EXISTS {_quoted(name)}")
    db.execute(f"DROP TABLE IF EXISTS {table}")
    columns = [
        f'"{place}" {"REAL" if column.type.domain is core.Domain.FLOAT else "INTEGER"}'
        for place, column in enumerate(relation.columns)
    ]
    db.execute(f"CREATE TABLE {table} ({', '.join(columns or ['holds INTEGER'])})")
    made = [_words(db, relation, row, texts) for row in rows]
    db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * max(width, 1))})", made)
    shown = [
        f'(SELECT symbol FROM {SYMBOLS} WHERE id = "{place}") AS {_quoted(column.name)}'
        if place in texts
        else f'"{place}" AS {_quoted(column.name)}'
        for place, column in enumerate(relation.columns)
    ]
    db.execute(f"CREATE VIEW {_quoted(name)} AS SELECT {', '.join(shown or ['holds'])} FROM {table}")


def _words(db: sqlite3.Connection, relation: core.Relation, row: Row, texts: Sequence[int]) -> list[Any]:
    values = list(row) or [1]
    for place in texts:
        text = values[place]
        if relation.columns[place].type.domain in STRUCTURED:
            text = structure_text(text, quotes=True)
        db.execute(f"INSERT OR IGNORE INTO {SYMBOLS}(symbol) VALUES (?)", (text,))
        values[place] = db.execute(f"SELECT id FROM {SYMBOLS} WHERE symbol = ?", (text,)).fetchone()[0]
    return values
