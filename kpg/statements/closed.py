"""Statements wait for who has locked a table that they read; definitions see ``ddl/table_locks.py``."""

from collections.abc import Iterator

from kpg.compiler.sql.frontend import read_relations
from kpg.compiler.sql.parse import statements as ast
from kpg.engine.engine import Engine
from kpg.engine.lock_modes import ACCESS_SHARE
from kpg.engine.locks import Wish
from kpg.engine.row_locks import refusal
from kpg.runtime.errors import Error


def wait_for_tables(engine: Engine, statement: ast.Statement) -> None:
    """Have a statement wait while LOCK TABLE keeps it from what it reads."""
    with engine.transactions.undoing():
        for table in _uses(engine, statement):
            wish = Wish((table,), ACCESS_SHARE)
            if engine.locks.closed_to(table, ACCESS_SHARE):
                if not engine.locks.suspends:
                    raise refusal(table, row=False, hint="wait in a session")
                engine.locks.wait_for(engine, wish)


def _uses(engine: Engine, statement: ast.Statement) -> Iterator[str]:
    """The tables that a statement reads, while some are kept from readers."""
    if not engine.locks.closed:
        return
    try:
        read = engine.tables_under(read_relations(statement, engine.catalog))
    except Error:
        return  # it names what is not there, and says so itself
    for name in sorted(read):
        if engine.find_table(name) is not None:
            yield name
