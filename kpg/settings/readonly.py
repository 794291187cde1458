"""Transactions that are READ ONLY: what they refuse, and how a session asks for them."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kpg.compiler.sql.parse import statements
from kpg.compiler.sql.parse import statements as ast
from kpg.engine.engine import Engine
from kpg.runtime.errors import InterfaceError

Changing = statements.Insert | statements.Delete | statements.Update | statements.Merge | statements.CopyFrom
TRUE: Final = ("on", "true", "yes", "1", "t", "y")


def verb_of(statement: object) -> str:
    """What a statement is called: ``CREATE TABLE`` for ``CreateTable``."""
    if isinstance(statement, statements.Drop):
        return f"DROP {statement.kind}"
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(statement).__name__).upper()


def refused(engine: Engine, statement: object) -> None:
    """InterfaceError, the transaction being rolled back, for a statement that would change something."""
    with engine.transactions.undoing():
        error = InterfaceError(f"cannot execute {verb_of(statement)} in a read-only transaction")
        error.sqlstate = "25006"
        raise error


@contextmanager
def into_temporary(engine: Engine, statement: statements.Statement) -> Iterator[None]:
    """Temporary tables may be changed all the same; InterfaceError for a change of others."""
    name = statement.table if isinstance(statement, Changing) else ""
    entry = engine.catalog.find(name) if name else None
    if entry is None or not entry.name.startswith(f"{engine.catalog.temporary}."):
        refused(engine, statement)
    transactions = engine.transactions
    transactions.read_only = False
    try:
        yield
    finally:
        transactions.read_only = True


def set_modes(engine: Engine, statement: ast.SetTransaction) -> None:
    """SET TRANSACTION, and SET SESSION CHARACTERISTICS, which is about transactions to come."""
    transactions = engine.transactions
    if statement.snapshot:
        if engine.sessions is None:
            raise InterfaceError("only sessions have snapshots", hint="begin by db.session()")
        engine.sessions.join(statement.snapshot)
    elif statement.session:
        if statement.read_only is not None:
            set_default(engine, "on" if statement.read_only else "off")
        if statement.level:
            engine.settings["default_transaction_isolation"] = statement.level
    elif statement.read_only is not None and not transactions.idle:
        transactions.read_only = statement.read_only


def set_default(engine: Engine, value: str) -> None:
    """SET default_transaction_read_only."""
    reads_only = value.lower() in TRUE
    engine.settings["default_transaction_read_only"] = "on" if reads_only else "off"
    engine.transactions.reads_only(default=reads_only)
