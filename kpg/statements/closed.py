"""Statements wait for who has locked a table that they read, or define anew."""

from collections.abc import Iterator

from kpg.compiler.catalog import TableEntry
from kpg.compiler.sql import statements as ast
from kpg.compiler.sql.definition import Definition
from kpg.compiler.sql.query import read_relations
from kpg.engine.engine import Engine
from kpg.engine.lock_modes import ACCESS_SHARE, CLOSED
from kpg.engine.locks import Wish
from kpg.engine.row_locks import refusal
from kpg.runtime.errors import Error


def wait_for_tables(engine: Engine, statement: ast.Statement) -> None:
    """Have a statement wait while LOCK TABLE keeps it from what it is about."""
    with engine.transactions.undoing():
        for table, mode in _uses(engine, statement):
            wish = Wish((table,), mode)
            if engine.locks.closed_to(table, mode):
                if not engine.locks.suspends:
                    raise refusal(table, row=False, hint="wait in a session")
                engine.locks.wait_for(engine, wish)


def _uses(engine: Engine, statement: ast.Statement) -> Iterator[tuple[str, str]]:
    """The tables that a statement reads, and those that it defines anew."""
    if isinstance(statement, Definition | ast.Drop):
        names = [getattr(statement, "name", ""), getattr(statement, "table", "")]
        names += (*getattr(statement, "names", ()), *getattr(statement, "tables", ()))
        for name in names:
            entry = engine.catalog.find(name) if isinstance(name, str) and name else None
            if isinstance(entry, TableEntry):
                yield entry.name, CLOSED
        return
    if not engine.locks.closed:
        return
    try:
        read = engine.tables_under(read_relations(statement, engine.catalog))
    except Error:
        return  # it names what is not there, and says so itself
    for name in sorted(read):
        if engine.find_table(name) is not None:
            yield name, ACCESS_SHARE
