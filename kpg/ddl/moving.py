"""ALTER SCHEMA ... RENAME TO: all that is in the schema has other whole names, and what names it follows.

What a session has set as its ``search_path``, and what bodies of functions in quotes say, stays as it is.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

from kpg.compiler.catalog.constraints import Domain
from kpg.compiler.catalog.entries import PUBLIC, TableEntry, ViewEntry
from kpg.compiler.catalog.qualified_names import Resolved
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.rewrite.deparse import FUNCTION, RELATION, SEQUENCE, TYPE
from kpg.ddl.definitions import move_sequence
from kpg.ddl.domains import rename_in_columns
from kpg.ddl.renaming import follow, put_type
from kpg.engine.engine import Engine
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span

Names = dict[tuple[str, str], str]


class _Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=_Named)


def rename_schema(engine: Engine, statement: ast.RenameSchema) -> None:
    """Run the statement."""
    catalog, old, new = engine.catalog, statement.name.lower(), statement.new.lower()
    if old not in catalog.schemas:
        raise ProgrammingError(f'schema "{statement.name}" does not exist', span=statement.span)
    if new in catalog.schemas or new in ("pg_catalog", "information_schema"):
        error = ProgrammingError(f'schema "{statement.new}" already exists', span=statement.span)
        error.sqlstate = "42P06"
        raise error
    if new.startswith("pg_"):
        error = ProgrammingError(f'unacceptable schema name "{statement.new}"', span=statement.span)
        error.sqlstate = "42939"
        raise error
    if old == PUBLIC or old.startswith("pg_"):
        raise NotSupportedError(f"renaming schema {old} is not supported", span=statement.span)
    _refuse(engine, old, statement.span)
    catalog.schemas[new] = new
    names = _Moving(engine, old, new).run()
    del catalog.schemas[old]
    follow(engine, names)
    _move_rights(engine, old, new)


def _refuse(engine: Engine, schema: str, span: Span) -> None:
    """NotSupportedError if something cannot follow: what programs made, or plans that name what they use."""
    catalog = engine.catalog
    used: list[tuple[str, list[str]]] = []
    for entry in _within(schema, catalog.entries.values()):
        users = engine.users(entry.name)
        if isinstance(entry, ViewEntry) and (entry.name in engine.dataflows or callable(entry.definition)):
            users = [entry.name]
        elif isinstance(entry, TableEntry) or not entry.materialized:
            users = [one for one in users if one in engine.dataflows]
        used.append((entry.name, users))
    for routines in catalog.routines.values():
        used += [(one.name, engine.users(one.key)) for one in _within(schema, routines)]
    for name, users in used:
        if users:
            message = f'renaming schema {schema} is not supported while "{users[0]}" uses {name}'
            raise NotSupportedError(message, span=span, hint="drop that first, and make it again afterwards")


def _within(schema: str, some: Iterable[T]) -> list[T]:
    return [one for one in some if one.name.lower().startswith(f"{schema}.")]


class _Moving:
    """Gives other names to all that is in a schema."""

    def __init__(self, engine: Engine, old: str, new: str) -> None:
        self._engine = engine
        self._old = old
        self._new = new
        self._names: Names = {}

    def run(self) -> Names:
        """The new names by kinds and old ones."""
        engine, catalog = self._engine, self._engine.catalog
        for sequence in _within(self._old, list(catalog.sequences.values())):
            move_sequence(engine, sequence, self._named(SEQUENCE, sequence.name))
        for known in _within(self._old, list(catalog)):
            entry = catalog.get(known.name)  # as it is now: those over a table have followed it
            name = self._named(RELATION, entry.name)
            if isinstance(entry, TableEntry):
                engine.rename_table(entry, name)
            elif entry.name in engine.views or entry.name in engine.keeping:
                engine.rename_view(entry, name)
            else:
                engine.rename_expanded(entry, name)
        self._types()
        self._routines()
        self._indexes()
        return self._names

    def _named(self, kind: str, name: str) -> Resolved:
        new = Resolved(f"{self._new}.{name.partition('.')[2]}")
        self._names[kind, name.lower()] = new
        return new

    def _types(self) -> None:
        engine, types = self._engine, self._engine.catalog.types
        for one in _within(self._old, list(types.values())):
            old, new = one.name.lower(), self._named(TYPE, one.name)
            if isinstance(one, Domain):
                types[new.lower()] = replace(types.pop(old), name=new)
                rename_in_columns(engine, old, new)
            else:
                put_type(engine, one, new)

    def _routines(self) -> None:
        catalog = self._engine.catalog
        for name in [one for one in catalog.routines if one.startswith(f"{self._old}.")]:
            new = self._named(FUNCTION, name)
            catalog.routines[new] = tuple(replace(one, name=str(new)) for one in catalog.routines.pop(name))
        for key, one in list(catalog.others.items()):
            if key[0] == "aggregate" and key[1].startswith(f"{self._old}."):
                del catalog.others[key]
                new = self._named(FUNCTION, key[1])
                catalog.others["aggregate", new, ""] = tuple(replace(each, name=str(new)) for each in one)

    def _indexes(self) -> None:
        from kpg.ddl.indexes import keep

        engine, indexes = self._engine, self._engine.catalog.indexes
        for one in _within(self._old, list(indexes.values())):
            del indexes[one.name.lower()]
            moved = replace(one, name=f"{self._new}.{one.name.partition('.')[2]}")
            indexes[moved.name.lower()] = moved
            engine.journal.note(done=partial(engine.forget_index, one.name))
            keep(engine, moved)


def _move_rights(engine: Engine, old: str, new: str) -> None:
    """Rights of the schema, and what was said of things in it."""
    catalog = engine.catalog
    rights = catalog.rights

    def moved(name: str) -> str:
        return f"{new}.{name.partition('.')[2]}" if name.startswith(f"{old}.") else name

    rights.rename(("SCHEMA", old), ("SCHEMA", new))
    for key in [one for one in (*rights.owners, *rights.lists) if moved(one[1]) != one[1]]:
        rights.rename(key, (key[0], moved(key[1]), *key[2:]))
    for owner, schema, kind in [one for one in rights.defaults if one[1] == old]:
        rights.defaults[owner, new, kind] = rights.defaults.pop((owner, schema, kind))
    for said, text in list(catalog.comments.items()):
        renamed = (said[0], new if said[:2] == ("SCHEMA", old) else moved(said[1]), *said[2:])
        if renamed != said:
            del catalog.comments[said]
            catalog.comments[renamed] = text
