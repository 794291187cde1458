"""LOCK TABLE: tables are kept from others until the transaction ends, as the mode says."""

from typing import Final

from kpg.compiler.catalog.access_control import key_of, need_any
from kpg.compiler.catalog.constraints import heirs
from kpg.compiler.catalog.entries import TableEntry, ViewEntry
from kpg.compiler.sql.parse.statements import LockTable
from kpg.engine.engine import Engine
from kpg.engine.lock_modes import ACCESS_SHARE, ROW_EXCLUSIVE, ROW_SHARE
from kpg.engine.locks import Wish
from kpg.engine.row_locks import refusal
from kpg.engine.transaction import State
from kpg.runtime.errors import InterfaceError, ProgrammingError

CHANGING: Final = "wdD"
"""The letters of privileges by which who has one may lock in any mode: UPDATE, DELETE, TRUNCATE."""
WEAK: Final = (ACCESS_SHARE, ROW_SHARE, ROW_EXCLUSIVE)
"""What who may INSERT may lock in, too."""


def lock_tables(engine: Engine, statement: LockTable) -> None:
    """Run one statement."""
    with engine.transactions.statement(changes=False):
        if engine.transactions.state is State.NONE:
            raise _error("LOCK TABLE can only be used in transaction blocks", "25P01")
        if engine.transactions.read_only and statement.mode not in WEAK:
            raise _error("cannot execute LOCK TABLE in a read-only transaction", "25006")
        for name, only in statement.relations:
            for table in _tables(engine, name, statement, only=only):
                _lock(engine, table, statement)


def _error(message: str, state: str) -> InterfaceError:
    error = InterfaceError(message)
    error.sqlstate = state
    return error


def _tables(engine: Engine, name: str, statement: LockTable, *, only: bool) -> list[str]:
    """The tables that a relation is made of, after it is found that who asks may lock it."""
    catalog = engine.catalog
    entry = catalog.get(name, statement.span)
    if catalog.is_limited:
        weak = "a" if statement.mode in WEAK else ""
        reads = "r" if statement.mode == ACCESS_SHARE else ""
        need_any(catalog, key_of(entry.name), CHANGING + weak + reads)
    if isinstance(entry, TableEntry):
        below = () if only or not catalog.others else heirs(catalog.others, entry.name)
        return [entry.name, *below]
    if not isinstance(entry, ViewEntry) or entry.materialized:
        error = ProgrammingError(f'cannot lock relation "{name}"', span=statement.span)
        error.sqlstate = "42809"
        raise error
    return sorted(one for one in engine.tables_under([entry.name]) if engine.find_table(one) is not None)


def _lock(engine: Engine, table: str, statement: LockTable) -> None:
    locks, wish = engine.locks, Wish((table,), statement.mode)
    if locks.blocked(wish):
        if not statement.waits or not locks.suspends:
            raise refusal(table, row=False)
        locks.wait_for(engine, wish)
    locks.hold(wish)
