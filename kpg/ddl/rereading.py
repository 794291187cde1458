"""Views over a table that gets a partition, or loses one: they read what it has now."""

from dataclasses import replace

from kpg.compiler.catalog.entries import TableEntry, ViewEntry
from kpg.compiler.sql.frontend import lower_query
from kpg.compiler.sql.parse.parser import parse_query
from kpg.engine.engine import Engine
from kpg.queries.planning import relations_of
from kpg.runtime.errors import NotSupportedError, Span


def check_rereadable(engine: Engine, parent: TableEntry, span: Span) -> None:
    """NotSupportedError if something reads a table that could not read another one with it."""
    for name in engine.users(parent.name):
        entry = engine.catalog.find(name)
        made = entry.definition if isinstance(entry, ViewEntry) else None
        if made is None or callable(made) or name in engine.followed or name in engine.dataflows:
            message = f'another table below "{parent.name}" is not supported while {name} reads it'
            raise NotSupportedError(message, span=span, hint="drop what reads it first, and make it again")
        if engine.executor.has_pending and name in engine.views:
            when = "in a transaction that has changed rows"
            message = f'another table below "{parent.name}" is not supported {when}'
            raise NotSupportedError(message, span=span, hint=f"{name} reads it: do it before the changes")


def reread(engine: Engine, parent: TableEntry) -> None:
    """Have views over a table be what their texts say now."""
    for name in engine.dependents(parent.name):
        entry = engine.catalog.find(name)
        if not isinstance(entry, ViewEntry):
            continue
        query = parse_query(entry.text)
        rel = lower_query(query, engine.catalog).rel
        engine.catalog.replace(replace(entry, definition=rel))
        engine._uses[name] = relations_of(rel, query, engine.catalog)
        if name in engine.views:
            engine.keep_later(name)


def end_past(engine: Engine, parent: str) -> None:
    """Of a table that has other partitions now, with rows, nobody knows what it was."""
    executor = engine.executor
    executor.known_from(parent, executor.epoch + executor.has_pending)
