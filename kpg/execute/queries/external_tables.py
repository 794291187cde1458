"""External tables: files and data frames that statements read like tables.

A name that the catalog lacks is looked up as a file, or as a frame among the caller's variables. Its rows are
read once, into a table that lives as long as the statement. A view keeps its table as long as it lives, and
does not follow later changes of the file.
"""

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, assert_never

from kpg.compiler.catalog.access_control import need_file
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.rewrite.external_tables import Files, Mention, Named, attached
from kpg.gc_pause import LazyModule
from kpg.runtime.errors import DataError, Error, ProgrammingError
from kpg.runtime.types import Schema
from kpg.session.engine import Engine

if TYPE_CHECKING:
    from kpg.execute.changes import bulk_load, source_positions
    from kpg.execute.changes.bulk_load import Source
    from kpg.runtime.convert import arrow
    from kpg.session import time_travel
else:
    bulk_load = LazyModule("kpg.execute.changes.bulk_load")
    source_positions = LazyModule("kpg.execute.changes.source_positions")
    arrow = LazyModule("kpg.runtime.convert.arrow")
    time_travel = LazyModule("kpg.session.time_travel")


WITHIN: Final = ast.Select | ast.Insert | ast.CreateTableAs | ast.Explain
PARTS: Final = re.compile(r"\bof\b", re.IGNORECASE)
"""A text that may have AS OF within it."""


def readable(engine: Engine, statement: ast.Statement) -> ast.Statement:
    """The statement with tables in the place of what it reads from outside.

    ``engine.release_attached`` is to be called when it has run.
    """

    def attach(mention: Mention) -> str | None:
        try:
            return _attach(engine, mention)
        except Error as error:
            error.span = error.span or mention.span
            raise

    if isinstance(statement, ast.Insert | ast.CreateTableAs) and statement.query.then is not None:
        with engine.transactions.undoing():
            return time_travel.settled(engine, statement)
    if isinstance(statement, WITHIN) and PARTS.search(statement.span.source):
        with engine.transactions.undoing():
            statement = time_travel.within(engine, statement)
    # As a part of the statement: what goes wrong here ends a transaction as everywhere.
    with engine.transactions.undoing():
        return attached(statement, engine.catalog.__contains__, attach)


def create(engine: Engine, name: str, data: Any, primary_key: Sequence[str]) -> int:
    """A new table with the columns and the rows of a file or of data in memory; how many rows.

    Raises ProgrammingError for a key column that is not there, IntegrityError for rows that violate the key.
    """
    plain = name.rpartition(".")[2]
    check_name(plain)
    source: Source | None = (
        bulk_load.of_path(data) if isinstance(data, str | Path) else bulk_load.of_data(data, plain)
    )
    name = engine.catalog.created(name)
    while True:
        assert source is not None
        for column in source.schema.names:
            check_name(column)
        with engine.transactions.statement(changes=False):
            engine.tables.create(name, keyed(source.schema, primary_key))
        try:
            with engine.transactions.statement(changes=True):
                return fill(engine, name, source)
        except BaseException as error:
            engine.drop(name)
            if not isinstance(error, DataError) or source.otherwise is None:
                raise
            source = source.otherwise()


def check_name(name: str) -> None:
    """ProgrammingError for what SQL has no way to write as a name."""
    try:
        fine = bool(name) and b"\0" not in name.encode()
    except UnicodeEncodeError:
        fine = False
    if not fine:
        raise ProgrammingError(f"{name!r} is no name of a table or column")


def keyed(schema: Schema, primary_key: Sequence[str]) -> Schema:
    """The columns with a primary key, which is NOT NULL."""
    listed = (primary_key,) if isinstance(primary_key, str) else tuple(primary_key)
    known = [name.lower() for name in schema.names]
    for name in listed:
        if name.lower() not in known:
            raise ProgrammingError(
                f'primary key column "{name}" does not exist',
                hint=f"the columns are {', '.join(schema.names)}",
            )
    key = tuple(known.index(name.lower()) for name in listed)
    columns = (replace(column, nullable=place not in key) for place, column in enumerate(schema.columns))
    return Schema(tuple(columns), key)


def fill(engine: Engine, name: str, source: "Source") -> int:
    """Append a source's rows to a table without any; how many."""
    table, rows = engine.table(name), 0
    for words in source.chunks(table.dictionary):
        table.insert(words)
        rows += words.shape[1]
    return rows


def _attach(engine: Engine, mention: Mention) -> str | None:
    """Make a table of what is mentioned; its name, or None if a name means nothing outside either."""
    if engine.catalog.is_limited:
        if isinstance(mention, Named):
            return None
        need_file(engine.catalog, "from", mention.span)
    match mention:
        case Named(name=name) if name.lower() == "kpg_positions":
            source_positions.table_of(engine)
            return None
        case Named(name=name):
            data = _of_caller(name)
            if data is None:
                return None
            return _keep(engine, name, bulk_load.of_data(data, name))
        case Files():
            return _keep(
                engine,
                f"{', '.join(mention.paths)}, as of epoch {engine.executor.epoch}",
                bulk_load.of_files(mention),
            )
        case _:
            assert_never(mention)


def _keep(engine: Engine, name: str, source: "Source") -> str:
    """A table of the source's rows, under a name by which EXPLAIN tells of when they are."""
    try:
        attached = engine.tables.attach(f"{name}, as of epoch {engine.executor.epoch}", source.schema)
        if engine.catalog.is_limited:
            engine.catalog.rights.owners["RELATION", attached.lower()] = engine.catalog.asker.user
        with engine.transactions.statement(changes=True):
            fill(engine, attached, source)
    except DataError:
        engine.release_attached()
        if source.otherwise is None or not engine.transactions.idle:
            raise
        return _keep(engine, name, source.otherwise())
    return attached


def _of_caller(name: str) -> Any:
    """A frame among the variables of who called kpg, by name; None if there is none."""
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "kpg":
        frame = frame.f_back
    found = frame.f_locals.get(name, frame.f_globals.get(name))
    if found is None:
        return None
    return found if arrow.is_frame(found) else None
