"""Source positions: how far each source has been read, in the table ``kpg_positions``.

The table is created on first use, and is an ordinary table. Positions therefore commit, roll back and persist
with the rows that they belong to. Views can read them, and time travel covers them.
"""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from kpg.compiler.sql.parse.statements import AsOf, SetPosition
from kpg.execute.changes import table_writes
from kpg.runtime.convert.python_values import to_rows
from kpg.runtime.errors import Error, InterfaceError, ProgrammingError
from kpg.runtime.types import JSONB, TEXT, ColumnDef, Schema
from kpg.session.base_table import Table
from kpg.session.time_travel import evaluate_constant

if TYPE_CHECKING:
    from kpg.session.engine import Engine

Position = int | str
Positions = tuple[str, Position] | Mapping[str, Position]
TABLE: Final = "kpg_positions"
SCHEMA: Final = Schema((ColumnDef("source", TEXT, False), ColumnDef("position", JSONB, False)), (0,))


def positions_table(engine: "Engine") -> Table:
    """Return the table of positions, created if missing; ProgrammingError if another table has its name."""
    if TABLE not in engine.catalog:
        if engine.transactions.in_batch or engine.journal.is_writing:
            engine.tables.attach(TABLE, SCHEMA)
            engine.tables.attached_tables.discard(TABLE)
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


def save(engine: "Engine", positions: Positions) -> None:
    """Save the positions of sources."""
    pairs = _pairs(positions)
    if pairs:
        table_writes.upsert(
            engine, positions_table(engine), [(source, json.dumps(position)) for source, position in pairs]
        )


def remove(engine: "Engine", source: str) -> None:
    """Remove the position of a source."""
    if source in read(engine):
        table_writes.delete(positions_table(engine), [(source,)])


def read(engine: "Engine") -> dict[str, Position]:
    """Return the position of each source."""
    if TABLE not in engine.catalog:
        return {}
    table = positions_table(engine)
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
    """Run SET POSITION source = position; NULL removes the position."""

    source = evaluate_constant(engine, AsOf(statement.source, statement.span))
    position = evaluate_constant(engine, AsOf(statement.position, statement.span))
    try:
        if not isinstance(source, str):
            raise ProgrammingError(f"a source has a name, not {source!r}")
        if isinstance(position, Decimal) and position == int(position):
            position = int(position)
        if position is None:
            remove(engine, source)
        elif isinstance(position, bool) or not isinstance(position, int | str):
            raise ProgrammingError(f"a position is a whole number or a text, not {position!r}")
        else:
            save(engine, (source, position))
    except Error as error:
        error.span = error.span or statement.span
        raise
