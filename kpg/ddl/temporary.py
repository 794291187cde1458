"""Temporary tables: what becomes of them at a commit, and when their session ends."""

from typing import TYPE_CHECKING

from kpg.compiler.catalog.entries import TableEntry
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.definitions import DropOther
from kpg.runtime.errors import ProgrammingError, Span

if TYPE_CHECKING:
    from kpg.engine.engine import Engine

NOWHERE = Span("", 0, 0)


def made(engine: "Engine", name: str, statement: ast.CreateTable | ast.CreateTableAs) -> None:
    """A table is made: note what is to become of it at a commit."""
    if not statement.on_commit:
        engine.at_commit.pop(name, None)
        return
    if not statement.temporary:
        error = ProgrammingError("ON COMMIT can only be used on temporary tables", span=statement.span)
        error.sqlstate = "42P16"
        raise error
    engine.at_commit[name] = statement.on_commit


def tidy(engine: "Engine") -> None:
    """A transaction of a session ends: empty, or drop, its tables that want it."""
    from kpg.ddl.dropping import drop_relations

    mine = f"{engine.catalog.temporary}."
    for name, action in [one for one in engine.at_commit.items() if one[0].startswith(mine)]:
        entry = engine.catalog.entries.get(name.lower())
        if not isinstance(entry, TableEntry):
            del engine.at_commit[name]
        elif action == "DROP":
            del engine.at_commit[name]
            with engine.journal.writing():
                drop_relations(engine, ast.Drop("TABLE", (name,), True, True, NOWHERE))
        elif engine.executor.count(name):
            table = engine.table(name)
            guard, table.guard = table.guard, None
            table.delete(engine.executor.rowids(name))
            table.guard = guard
            if guard is not None and guard.expression_keys:
                from kpg.ddl.unique_expressions import empty_unique_indexes

                empty_unique_indexes(engine, name)


def end(engine: "Engine") -> None:
    """The session that has the engine ends: its temporary tables go, with what was made of them."""
    from kpg.ddl.definitions import define
    from kpg.ddl.dropping import drop_relations

    catalog, schema = engine.catalog, engine.catalog.temporary
    if schema not in catalog.schemas:
        return
    engine.remembered.forget()
    with engine.transactions.statement(changes=True), engine.journal.writing():
        for name in [one for one in catalog.entries if one.startswith(f"{schema}.")]:
            if name in catalog.entries:
                kind = "TABLE" if isinstance(catalog.entries[name], TableEntry) else "VIEW"
                drop_relations(engine, ast.Drop(kind, (name,), True, True, NOWHERE))
        for name in [one for one in catalog.sequences if one.startswith(f"{schema}.")]:
            define(engine, DropOther("SEQUENCE", (name,), True, True, NOWHERE))
        for key in [one for one in catalog.rights.owners if one[1].startswith(f"{schema}.")]:
            catalog.rights.forget(key)
        del catalog.schemas[schema]
