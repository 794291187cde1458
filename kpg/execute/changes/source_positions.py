"""Source positions: how far each source has been read, in the table ``kpg_positions``.

The table is created on first use, and is an ordinary table. Positions therefore commit, roll back and persist
with the rows that they belong to. Views can read them, and time travel covers them.
"""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from kpg.compiler.sql.parse.statements import SetPosition, Then
from kpg.execute.changes import table_writes
from kpg.runtime.convert.python_values import to_rows
from kpg.runtime.errors import Error, InterfaceError, ProgrammingError
from kpg.runtime.types import JSONB, TEXT, ColumnDef, Schema
from kpg.session.base_table import Table
from kpg.session.time_travel import constant

if TYPE_CHECKING:
    from kpg.session.engine import Engine

Position = int | str
Positions = tuple[str, Position] | Mapping[str, Position]
TABLE: Final = "kpg_positions"
SCHEMA: Final = Schema((ColumnDef("source", TEXT, False), ColumnDef("position", JSONB, False)), (0,))


def table_of(engine: "Engine") -> Table:
    """The table of positions, made if it is not there; ProgrammingError if another has its name."""
    if TABLE not in engine.catalog:
        if engine.transactions.in_batch or engine.journal.writing_now:
            engine.tables.attach(TABLE, SCHEMA)
            engine.tables.attached.discard(TABLE)
        else:
            with engine.journal.writing():
                engine.tables.create(TABLE, SCHEMA)
    table = engine.table(TABLE)
    if [*zip(table.schema.names, table.schema.types, strict=True)] != [
        *zip(SCHEMA.names, SCHEMA.types, strict=True)
    ]:
        raise ProgrammingError(
            f"the table {TABLE} is not what positions are kept in", hint="rename it: positions need that name"
        )
    return table


def keep(engine: "Engine", positions: Positions) -> None:
    """Note how far sources have been read."""
    pairs = _pairs(positions)
    if pairs:
        table_writes.upsert(
            engine, table_of(engine), [(source, json.dumps(position)) for source, position in pairs]
        )


def forget(engine: "Engine", source: str) -> None:
    """Forget how far a source has been read."""
    if source in read(engine):
        table_writes.delete(table_of(engine), [(source,)])


def read(engine: "Engine") -> dict[str, Position]:
    """How far each source has been read."""
    if TABLE not in engine.catalog:
        return {}
    table = table_of(engine)
    rows = to_rows(table.scan(), SCHEMA.types, table.dictionary)
    return {source: json.loads(position) for source, position in rows}


def _pairs(positions: Positions) -> list[tuple[str, Position]]:
    given = list(positions.items()) if isinstance(positions, Mapping) else [positions]
    for pair in given:
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], str):
            raise InterfaceError(
                f"the position is {pair!r}",
                hint='give ("source", position), or a dict of sources and positions',
            )
        if isinstance(pair[1], bool) or not isinstance(pair[1], int | str):
            raise InterfaceError(
                f"the position of {pair[0]} is {pair[1]!r}", hint="a position is a whole number or a text"
            )
    return given


def set_position(engine: "Engine", statement: SetPosition) -> None:
    """SET POSITION source = position, or to NULL, which forgets it."""

    source = constant(engine, Then(statement.source, statement.span))
    position = constant(engine, Then(statement.position, statement.span))
    try:
        if not isinstance(source, str):
            raise ProgrammingError(f"a source has a name, not {source!r}")
        if isinstance(position, Decimal) and position == int(position):
            position = int(position)
        if position is None:
            forget(engine, source)
        elif isinstance(position, bool) or not isinstance(position, int | str):
            raise ProgrammingError(f"a position is a whole number or a text, not {position!r}")
        else:
            keep(engine, (source, position))
    except Error as error:
        error.span = error.span or statement.span
        raise
