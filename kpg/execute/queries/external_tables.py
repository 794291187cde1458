"""External tables: files and data frames that statements read like tables.

A name that the catalog lacks is looked up as a file, or as a frame among the caller's variables. Its rows are
read once, into a table that lives as long as the statement. A view keeps its table as long as it lives, and
does not follow later changes of the file.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

from kpg.compiler.catalog.access_control import require_file_access
from kpg.compiler.catalog.privileges import OWNERS
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.rewrite.external_tables import (
    ExternalSource,
    Files,
    UnknownName,
    attach_external_tables,
)
from kpg.runtime.errors import DataError, Error, ProgrammingError
from kpg.runtime.gc_pause import LazyModule
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


def attach_external(engine: Engine, statement: ast.Statement) -> ast.Statement:
    """Return a statement with files, frames and AS OF queries replaced by temporary tables.

    The caller calls ``engine.drop_attached`` after the statement.
    """

    def attach(mention: ExternalSource) -> str | None:
        try:
            return _attach(engine, mention)
        except Error as error:
            error.span = error.span or mention.span
            raise

    if isinstance(statement, ast.Insert | ast.CreateTableAs) and statement.query.as_of is not None:
        with engine.transactions.failing_on_error():
            return time_travel.materialize_query(engine, statement)
    if isinstance(statement, ast.Querying) and _reads_past(statement):
        with engine.transactions.failing_on_error():
            statement = time_travel.materialize_subqueries(engine, statement)
    # Part of the statement: an error here fails the transaction.
    with engine.transactions.failing_on_error():
        return attach_external_tables(statement, engine.catalog.__contains__, attach)


def _reads_past(statement: ast.Querying) -> bool:
    """Return whether a statement has a nested query AS OF."""
    inner = statement.statement if isinstance(statement, ast.Explain) else statement
    return inner.span.features.reads_past


def create_table_from(engine: Engine, name: str, data: Any, primary_key: Sequence[str]) -> int:
    """Create a table with the columns and rows of a file or of data in memory, and return the row count.

    Raises:
        ProgrammingError: If a key column does not exist.
        IntegrityError: If rows violate the key.
    """
    plain = name.rpartition(".")[2]
    check_name(plain)
    source: Source | None = (
        bulk_load.source_from_path(data)
        if isinstance(data, str | Path)
        else bulk_load.source_from_data(data, plain)
    )
    name = engine.catalog.qualify_new_name(name)
    while True:
        assert source is not None
        for column in source.schema.names:
            check_name(column)
        with engine.transactions.statement(changes=False):
            engine.tables.create(name, with_primary_key(source.schema, primary_key))
        try:
            with engine.transactions.statement(changes=True):
                return fill(engine, name, source)
        except BaseException as error:
            engine.drop(name)
            if not isinstance(error, DataError) or source.fallback is None:
                raise
            source = source.fallback()


def check_name(name: str) -> None:
    """Raise ProgrammingError for a name that SQL cannot express."""
    try:
        is_valid = bool(name) and b"\0" not in name.encode()
    except UnicodeEncodeError:
        is_valid = False
    if not is_valid:
        raise ProgrammingError(f"{name!r} is no name of a table or column")


def with_primary_key(schema: Schema, primary_key: Sequence[str]) -> Schema:
    """Return a schema with a primary key, whose columns are NOT NULL."""
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
    """Append a source's rows to an empty table and return their number."""
    table, rows = engine.table(name), 0
    for words in source.chunks(table.dictionary):
        table.insert(words)
        rows += words.shape[1]
    return rows


def _attach(engine: Engine, mention: ExternalSource) -> str | None:
    """Create a table for a mention and return its name; None if the name means nothing."""
    if engine.catalog.checks_privileges:
        if isinstance(mention, UnknownName):
            return None
        require_file_access(engine.catalog, "from", mention.span)
    match mention:
        case UnknownName(name=name) if name.lower() == "kpg_positions":
            source_positions.positions_table(engine)
            return None
        case UnknownName(name=name):
            data = _find_frame(name)
            if data is None:
                return None
            return _attach_source(engine, name, bulk_load.source_from_data(data, name))
        case Files():
            return _attach_source(
                engine,
                f"{', '.join(mention.paths)}, as of epoch {engine.executor.epoch}",
                bulk_load.source_from_files(mention),
            )
        case _:
            assert_never(mention)


def _attach_source(engine: Engine, name: str, source: "Source") -> str:
    """Create a table of the source's rows. Its name, which EXPLAIN prints, has the epoch."""
    try:
        attached = engine.tables.attach(f"{name}, as of epoch {engine.executor.epoch}", source.schema)
        if engine.catalog.checks_privileges:
            engine.catalog.apply(OWNERS.put(("RELATION", attached.lower()), engine.catalog.asker.user))
        with engine.transactions.statement(changes=True):
            fill(engine, attached, source)
    except DataError:
        engine.drop_attached()
        if source.fallback is None or not engine.transactions.is_idle:
            raise
        return _attach_source(engine, name, source.fallback())
    return attached


def _find_frame(name: str) -> Any:
    """Return a frame among the variables of kpg's caller, by name; None if there is none."""
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "kpg":
        frame = frame.f_back
    found = frame.f_locals.get(name, frame.f_globals.get(name))
    if found is None:
        return None
    return found if arrow.is_frame(found) else None
