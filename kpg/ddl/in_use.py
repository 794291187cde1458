"""Tables with an open cursor or portal of the same session are not changed, emptied or dropped: 55006."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kpg.compiler.catalog.entries import ViewEntry
from kpg.compiler.sql.frontend import read_relations
from kpg.compiler.sql.parse import definitions as ast
from kpg.runtime.errors import ProgrammingError, Span

if TYPE_CHECKING:
    from kpg.engine.engine import Engine

NAMES = (ast.RenameTo, ast.RenameColumn, ast.RenameConstraint, ast.SetSchema)
"""Actions that only change names."""


def check_altered(engine: "Engine", statement: ast.Alter) -> None:
    """As :func:`check_unused`, for the table that a statement is about."""
    if statement.kind == "TABLE" and not all(isinstance(one, NAMES) for one in statement.actions):
        check_unused(engine, (statement.name,), "ALTER TABLE", statement.span)


def check_unused(engine: "Engine", names: Iterable[str], what: str, span: Span) -> None:
    """ProgrammingError if a query of the session that is still open reads one of some tables."""
    read = frozenset().union(*(_tables(engine, one) for one in _open(engine)))
    if not read:
        return
    for name in names:
        entry = engine.catalog.find(name)
        if entry is not None and entry.name in read:
            shown = entry.name.rpartition(".")[2]
            error = ProgrammingError(
                f'cannot {what} "{shown}" because it is being used by active queries in this session',
                span=span,
                hint="close the cursor, or the portal, first",
            )
            error.sqlstate = "55006"
            raise error


def _open(engine: "Engine") -> Iterator[object]:
    """The statements of open cursors and portals."""
    number = engine.catalog.asker.number
    if engine.cursors:
        from kpg.statements.cursors import is_open

        for (owner, _), cursor in engine.cursors.items():
            if owner == number and cursor.transaction is not None and is_open(engine, cursor):
                yield cursor.query
    session = None if engine.sessions is None else engine.sessions.sessions.get(number)
    if session is not None:
        yield from (portal.statement for portal in session.portals())


def _tables(engine: "Engine", statement: object) -> frozenset[str]:
    """What a statement reads, by way of views that are not kept."""
    found: set[str] = set()
    uses: dict[str, list[str]] = {}
    for view, used in engine.uses():
        uses.setdefault(view, []).append(used)
    waiting = list(read_relations(statement, engine.catalog))
    while waiting:
        entry = engine.catalog.find(waiting.pop())
        if isinstance(entry, ViewEntry) and not entry.materialized:
            waiting += uses.get(entry.name, ())
        elif entry is not None:
            found.add(entry.name)
    return frozenset(found)
