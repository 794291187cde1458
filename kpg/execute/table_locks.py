"""Table locks: LOCK TABLE, and the waits of definitions and of readers, with Postgres' lock modes.

LOCK TABLE holds its lock until the transaction ends. A statement waits for other sessions' locks on the
tables that it reads. A definition in a transaction has the database to itself until that ends, so it holds
no lock of its own. It only waits for sessions that have changed or locked the table or its rows.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from kpg.compiler.catalog.access_control import relation_key, require_any_privilege
from kpg.compiler.catalog.constraints import ForeignKey, descendant_tables
from kpg.compiler.catalog.entries import TableEntry, ViewEntry
from kpg.compiler.sql.frontend import input_relations
from kpg.compiler.sql.parse import definitions
from kpg.compiler.sql.parse import definitions as ddl
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.statements import LockTable
from kpg.execute.definitions.ddl import tables_to_truncate
from kpg.runtime.errors import Error, InterfaceError, ProgrammingError
from kpg.session.engine import Engine
from kpg.session.locks import (
    ACCESS_EXCLUSIVE,
    ACCESS_SHARE,
    ROW_EXCLUSIVE,
    ROW_SHARE,
    SHARED,
    TABLE_MODES,
    LockRequest,
    lock_error,
)
from kpg.session.transaction import State

CHANGE_PRIVILEGES: Final = "wdD"
"""Letters of the privileges that allow every lock mode: UPDATE, DELETE, TRUNCATE."""
WEAK_MODES: Final = (ACCESS_SHARE, ROW_SHARE, ROW_EXCLUSIVE)
"""Lock modes that INSERT allows, too."""


def lock_tables(engine: Engine, statement: LockTable) -> None:
    """Run LOCK TABLE."""
    if engine.transactions.state is State.NONE:
        raise _error("LOCK TABLE can only be used in transaction blocks", "25P01")
    if engine.transactions.is_read_only and statement.mode not in WEAK_MODES:
        raise _error("cannot execute LOCK TABLE in a read-only transaction", "25006")
    for name, only in statement.relations:
        for table in _tables_to_lock(engine, name, statement, only=only):
            _lock(engine, table, statement)


def _error(message: str, state: str) -> InterfaceError:
    error = InterfaceError(message)
    error.sqlstate = state
    return error


def _tables_to_lock(engine: Engine, name: str, statement: LockTable, *, only: bool) -> list[str]:
    """Return the tables below a relation, after a check of the privilege to lock it."""
    catalog = engine.catalog
    entry = catalog.get(name, statement.span)
    if catalog.checks_privileges:
        weak = "a" if statement.mode in WEAK_MODES else ""
        reads = "r" if statement.mode == ACCESS_SHARE else ""
        require_any_privilege(catalog, relation_key(entry.name), CHANGE_PRIVILEGES + weak + reads)
    if isinstance(entry, TableEntry):
        below = () if only else descendant_tables(catalog.partitions, entry.name)
        return [entry.name, *below]
    if not isinstance(entry, ViewEntry) or entry.materialized:
        error = ProgrammingError(f'cannot lock relation "{name}"', span=statement.span)
        error.sqlstate = "42809"
        raise error
    return sorted(
        table_name
        for table_name in engine.views.relations_under([entry.name])
        if engine.find_table(table_name) is not None
    )


def _lock(engine: Engine, table: str, statement: LockTable) -> None:
    locks, request = engine.locks, LockRequest((table,), statement.mode)
    if locks.is_blocked(request):
        if not statement.waits or not locks.can_suspend:
            raise lock_error(table, is_row=False)
        locks.suspend(engine, request)
    locks.hold(request)


Definition = ast.CreateTable | ast.CreateTableAs | ast.CreateView | ast.Drop | ddl.AnyDefinition
Lock = tuple[str, str]
"""A table and a mode."""
SHARE_UPDATE_EXCLUSIVE: Final = TABLE_MODES[3]
"""Allows changes of rows, but no definitions."""
SHARE_ROW_EXCLUSIVE: Final = TABLE_MODES[5]
"""Allows readers only, and excludes other definitions."""
TABLE_COMMENTS: Final = ("TABLE", "COLUMN", "CONSTRAINT")
"""Kinds of comments that lock a table."""


@contextmanager
def wait_for_definition(engine: Engine, statement: Definition) -> Iterator[None]:
    """Wait for locks of a definition before the block, and after it for other tables that it changed."""
    for table, mode in locks_of_definition(engine, statement):
        _wait(engine, table, mode)
    others = engine.locks.tables_of_others(engine.catalog.asker.number)
    before = {name: engine.catalog.entries.get(name.lower()) for name in others}
    yield
    for name, entry in before.items():
        current = engine.catalog.entries.get(name.lower())
        if current != entry:
            _wait(engine, name, ACCESS_EXCLUSIVE if current is None else SHARED)


def _wait(engine: Engine, table: str, mode: str) -> None:
    locks, request = engine.locks, LockRequest((table,), mode)
    if locks.is_blocked(request):
        if not locks.can_suspend:
            raise lock_error(table, is_row=False, hint="wait in a session")
        locks.suspend(engine, request)


def locks_of_definition(engine: Engine, statement: Definition) -> list[Lock]:
    """Return the tables that a definition locks, with modes. Missing tables are left to the definition."""
    found = [
        (entry.name, mode)
        for name, mode in _named_tables(engine, statement)
        if isinstance(entry := engine.catalog.find(name), TableEntry)
    ]
    partitions = engine.catalog.partitions
    below = [(child, mode) for table, mode in found for child in descendant_tables(partitions, table)]
    return list(dict.fromkeys((*found, *below)))


def _named_tables(engine: Engine, statement: Definition) -> Iterator[Lock]:
    match statement:
        case ast.CreateTable():
            yield from _locks_of_create(engine, statement)
        case ast.CreateTableAs(or_replace=True):
            yield statement.name, ACCESS_EXCLUSIVE
        case ast.Drop(kind="TABLE"):
            yield from _locks_of_drop(engine, statement)
        case ddl.Truncate():
            yield from ((name, ACCESS_EXCLUSIVE) for name in sorted(tables_to_truncate(engine, statement)))
        case ddl.CreateIndex():
            yield statement.table, SHARED
        case ddl.DropOther(kind="INDEX"):
            indexes = (engine.catalog.find_index(name) for name in statement.names)
            yield from ((index.table, ACCESS_EXCLUSIVE) for index in indexes if index is not None)
        case ddl.DefinePolicy():
            yield statement.table, ACCESS_EXCLUSIVE
        case ddl.Comment() if statement.kind in TABLE_COMMENTS:
            yield statement.name, SHARE_UPDATE_EXCLUSIVE
        case definitions.AlterOwner():
            entry, rights = engine.catalog.find(statement.name), engine.catalog.privileges
            if entry is not None and rights.owns(engine.catalog.asker.user, relation_key(entry.name)):
                yield statement.name, ACCESS_EXCLUSIVE
        case ddl.Alter():
            for action in statement.actions:
                yield from _locks_of_action(engine, statement.name, action)
        case _:
            return


def _locks_of_create(engine: Engine, statement: ast.CreateTable) -> Iterator[Lock]:
    if statement.or_replace:
        yield statement.name, ACCESS_EXCLUSIVE
    if statement.partition is not None:
        yield statement.partition.parent, ACCESS_EXCLUSIVE
    for like in statement.likes:
        yield like.relation, ACCESS_SHARE
    for key in statement.constraints.foreign_keys:
        yield key.target, SHARE_ROW_EXCLUSIVE


def _locks_of_drop(engine: Engine, statement: ast.Drop) -> Iterator[Lock]:
    """Yield the dropped tables, and both sides of their foreign keys."""
    for name in statement.names:
        entry = engine.catalog.find(name)
        if not isinstance(entry, TableEntry):
            continue
        yield entry.name, ACCESS_EXCLUSIVE
        yield from ((key.target, ACCESS_EXCLUSIVE) for key in entry.constraints.foreign_keys)
        if engine.tables.references is not None:
            yield from (
                (link.table, ACCESS_EXCLUSIVE)
                for link in engine.tables.foreign_keys.referring_keys(entry.name)
            )


def _locks_of_action(engine: Engine, name: str, action: ddl.Action) -> Iterator[Lock]:
    match action:
        case ddl.AddConstraint(constraint=ForeignKey() as key):
            yield from ((name, SHARE_ROW_EXCLUSIVE), (key.target, SHARE_ROW_EXCLUSIVE))
            return
        case ddl.AlterConstraint(validates=True) | ddl.NoEffect():
            yield name, SHARE_UPDATE_EXCLUSIVE
            return
        case ddl.AttachPartition(child=child):
            yield from ((name, SHARE_UPDATE_EXCLUSIVE), (child, ACCESS_EXCLUSIVE))
            return
        case ddl.DetachPartition(child=child):
            yield child, ACCESS_EXCLUSIVE
        case ddl.AddColumn(constraints=constraints):
            yield from (
                (constraint.target, SHARE_ROW_EXCLUSIVE)
                for constraint in constraints
                if isinstance(constraint, ForeignKey)
            )
        case ddl.DropConstraint(name=dropped):
            entry = engine.catalog.find(name)
            keys: Any = entry.constraints.foreign_keys if isinstance(entry, TableEntry) else ()
            yield from ((key.target, ACCESS_EXCLUSIVE) for key in keys if key.name.lower() == dropped.lower())
        case _:
            pass
    yield name, ACCESS_EXCLUSIVE


def wait_for_tables(engine: Engine, statement: ast.Statement) -> None:
    """Suspend a statement while LOCK TABLE of another session excludes it from a table that it reads."""
    with engine.transactions.failing_on_error():
        for table in _excluded_tables(engine, statement):
            request = LockRequest((table,), ACCESS_SHARE)
            if engine.locks.is_table_blocked(table, ACCESS_SHARE):
                if not engine.locks.can_suspend:
                    raise lock_error(table, is_row=False, hint="wait in a session")
                engine.locks.suspend(engine, request)


def _excluded_tables(engine: Engine, statement: ast.Statement) -> Iterator[str]:
    """Yield the tables that a statement reads, if any table excludes readers."""
    if not engine.locks.excludes_readers:
        return
    try:
        read = engine.views.relations_under(input_relations(statement, engine.catalog))
    except Error:
        return  # a relation is missing, which the statement reports itself
    for name in sorted(read):
        if engine.find_table(name) is not None:
            yield name
