"""Table locks: LOCK TABLE, and the waits of definitions and of readers, with Postgres' lock modes.

LOCK TABLE holds its lock until the transaction ends. A statement waits for other sessions' locks on the
tables that it reads. A definition in a transaction has the database to itself until that ends, so it holds
no lock of its own. It only waits for sessions that have changed or locked the table or its rows.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from kpg.compiler.catalog.access_control import key_of, need_any
from kpg.compiler.catalog.constraints import ForeignKey, heirs
from kpg.compiler.catalog.entries import TableEntry, ViewEntry
from kpg.compiler.sql.frontend import read_relations
from kpg.compiler.sql.parse import definitions
from kpg.compiler.sql.parse import definitions as ddl
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.statements import LockTable
from kpg.execute.definitions.ddl import to_truncate
from kpg.runtime.errors import Error, InterfaceError, ProgrammingError
from kpg.session.engine import Engine
from kpg.session.locks import (
    ACCESS_SHARE,
    CLOSED,
    ROW_EXCLUSIVE,
    ROW_SHARE,
    SHARED,
    TABLE_MODES,
    Wish,
    refusal,
)
from kpg.session.transaction import State

CHANGING: Final = "wdD"
"""The letters of privileges by which who has one may lock in any mode: UPDATE, DELETE, TRUNCATE."""
WEAK: Final = (ACCESS_SHARE, ROW_SHARE, ROW_EXCLUSIVE)
"""What who may INSERT may lock in, too."""


def lock_tables(engine: Engine, statement: LockTable) -> None:
    """LOCK TABLE."""
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
    return sorted(
        one for one in engine.views.tables_under([entry.name]) if engine.find_table(one) is not None
    )


def _lock(engine: Engine, table: str, statement: LockTable) -> None:
    locks, wish = engine.locks, Wish((table,), statement.mode)
    if locks.blocked(wish):
        if not statement.waits or not locks.suspends:
            raise refusal(table, row=False)
        locks.wait_for(engine, wish)
    locks.hold(wish)


Defining = ast.CreateTable | ast.CreateTableAs | ast.CreateView | ast.Drop | ddl.AnyDefinition
Lock = tuple[str, str]
"""A table and a mode."""
OWN: Final = TABLE_MODES[3]
"""SHARE UPDATE EXCLUSIVE: rows may change meanwhile, definitions may not."""
CHECKED: Final = TABLE_MODES[5]
"""SHARE ROW EXCLUSIVE: rows may be read, and only one defines something."""
NOTED: Final = ("TABLE", "COLUMN", "CONSTRAINT")
"""What has comments that are a table's."""


@contextmanager
def closing(engine: Engine, statement: Defining) -> Iterator[None]:
    """Wait for others before a definition, and after it if tables have changed that it does not name."""
    for table, mode in locked(engine, statement):
        _wait(engine, table, mode)
    entries = engine.catalog.entries
    others = engine.locks.others(engine.catalog.asker.number)
    before = {name: entries.get(name.lower()) for name in others}
    yield
    for name, entry in before.items():
        now = entries.get(name.lower())
        if now != entry:
            _wait(engine, name, CLOSED if now is None else SHARED)


def _wait(engine: Engine, table: str, mode: str) -> None:
    locks, wish = engine.locks, Wish((table,), mode)
    if locks.blocked(wish):
        if not locks.suspends:
            raise refusal(table, row=False, hint="wait in a session")
        locks.wait_for(engine, wish)


def locked(engine: Engine, statement: Defining) -> list[Lock]:
    """The tables that a definition locks, and how; what is not there it says itself."""
    found = [
        (entry.name, mode)
        for name, mode in _named(engine, statement)
        if isinstance(entry := engine.catalog.find(name), TableEntry)
    ]
    others = engine.catalog.others
    below = [(heir, mode) for table, mode in found if others for heir in heirs(others, table)]
    return list(dict.fromkeys((*found, *below)))


def _named(engine: Engine, statement: Defining) -> Iterator[Lock]:
    match statement:
        case ast.CreateTable():
            yield from _made(engine, statement)
        case ast.CreateTableAs(or_replace=True):
            yield statement.name, CLOSED
        case ast.Drop(kind="TABLE"):
            yield from _dropped(engine, statement)
        case ddl.Truncate():
            yield from ((name, CLOSED) for name in sorted(to_truncate(engine, statement)))
        case ddl.CreateIndex():
            yield statement.table, SHARED
        case ddl.DropOther(kind="INDEX"):
            indexes = (engine.catalog.find_index(name) for name in statement.names)
            yield from ((index.table, CLOSED) for index in indexes if index is not None)
        case ddl.DefinePolicy():
            yield statement.table, CLOSED
        case ddl.Comment() if statement.kind in NOTED:
            yield statement.name, OWN
        case definitions.AlterOwner():
            entry, rights = engine.catalog.find(statement.name), engine.catalog.rights
            if entry is not None and rights.owns(engine.catalog.asker.user, key_of(entry.name)):
                yield statement.name, CLOSED
        case ddl.Alter():
            for action in statement.actions:
                yield from _altered(engine, statement.name, action)
        case _:
            return


def _made(engine: Engine, statement: ast.CreateTable) -> Iterator[Lock]:
    if statement.or_replace:
        yield statement.name, CLOSED
    if statement.partition is not None:
        yield statement.partition.parent, CLOSED
    for like in statement.likes:
        yield like.relation, ACCESS_SHARE
    for key in statement.constraints.foreign_keys:
        yield key.target, CHECKED


def _dropped(engine: Engine, statement: ast.Drop) -> Iterator[Lock]:
    """Tables that go, with both ends of their foreign keys."""
    for name in statement.names:
        entry = engine.catalog.find(name)
        if not isinstance(entry, TableEntry):
            continue
        yield entry.name, CLOSED
        yield from ((key.target, CLOSED) for key in entry.constraints.foreign_keys)
        if engine.tables.references is not None:
            yield from ((link.table, CLOSED) for link in engine.tables.foreign_keys.users(entry.name))


def _altered(engine: Engine, name: str, action: ddl.Action) -> Iterator[Lock]:
    match action:
        case ddl.AddConstraint(constraint=ForeignKey() as key):
            yield from ((name, CHECKED), (key.target, CHECKED))
            return
        case ddl.SettleConstraint(validates=True) | ddl.Nothing():
            yield name, OWN
            return
        case ddl.Attach(child=child):
            yield from ((name, OWN), (child, CLOSED))
            return
        case ddl.Detach(child=child):
            yield child, CLOSED
        case ddl.AddColumn(constraints=constraints):
            yield from ((one.target, CHECKED) for one in constraints if isinstance(one, ForeignKey))
        case ddl.DropConstraint(name=dropped):
            entry = engine.catalog.find(name)
            keys: Any = entry.constraints.foreign_keys if isinstance(entry, TableEntry) else ()
            yield from ((key.target, CLOSED) for key in keys if key.name.lower() == dropped.lower())
        case _:
            pass
    yield name, CLOSED


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
        read = engine.views.tables_under(read_relations(statement, engine.catalog))
    except Error:
        return  # it names what is not there, and says so itself
    for name in sorted(read):
        if engine.find_table(name) is not None:
            yield name
