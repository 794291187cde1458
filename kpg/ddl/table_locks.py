"""The tables that definitions are about are kept from others as in Postgres, who wait, or are waited for.

A definition in a transaction has the database to itself until that ends, so it holds no lock of its own: it
only waits for those who have changed a table, or have locked it, or rows of it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from kpg.compiler.catalog.access_control import key_of
from kpg.compiler.catalog.constraints import ForeignKey, heirs
from kpg.compiler.catalog.entries import TableEntry
from kpg.compiler.sql.parse import definitions
from kpg.compiler.sql.parse import definitions as ddl
from kpg.compiler.sql.parse import statements as ast
from kpg.engine.engine import Engine
from kpg.engine.lock_modes import ACCESS_SHARE, CLOSED, SHARED, TABLE_MODES
from kpg.engine.locks import Wish
from kpg.engine.row_locks import refusal

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
            from kpg.ddl.definitions import to_truncate

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
        if "references" in vars(engine):
            yield from ((link.table, CLOSED) for link in engine.references.users(entry.name))


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
