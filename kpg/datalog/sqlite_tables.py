"""``IO=sqlite``: relations in SQLite databases, laid out as Soufflé lays them out.

A relation r is a table ``_r`` of words, with columns ``0``, ``1`` and so on, its symbols in
``__SymbolTable``, and a view ``r`` that shows the columns with their names and symbols. What is read is the
view, or a table of that name.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from kpg.compiler.rules import core
from kpg.datalog.spelling import structure_text
from kpg.datalog.terms import STRUCTURED
from kpg.result import Row
from kpg.runtime.errors import DataError, OperationalError

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
