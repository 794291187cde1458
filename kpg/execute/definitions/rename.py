"""Renaming: rewrites all definitions that name a renamed object, and ALTER SCHEMA ... RENAME TO.

The rewrite covers stored texts, and the types of columns and views. Renaming a schema renames all objects in
it. A session's ``search_path`` and function bodies in quotes stay as they are.
"""

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import partial
from operator import is_not
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kpg.compiler.catalog.constraints import Domain, Sequence
from kpg.compiler.catalog.entries import PUBLIC, Catalog, TableEntry, ViewEntry
from kpg.compiler.catalog.routines import Aggregate
from kpg.compiler.qualified_names import Resolved
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.rewrite.deparse import FUNCTION, RELATION, SEQUENCE, TYPE, with_names
from kpg.compiler.sql.rewrite.deparse import Names as NameMap
from kpg.compiler.sql.rewrite.name_qualification import sequence_call, with_texts
from kpg.execute.definitions.indexes import keep
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span
from kpg.runtime.types import Type
from kpg.session.engine import Engine

if TYPE_CHECKING:
    from kpg.session.engine import Engine

if TYPE_CHECKING:
    from kpg.session.engine import Engine

Node = TypeVar("Node")


def follow(engine: Engine, names: NameMap) -> None:
    """Have every text of a definition that names something of these name it by its new name.

    ``names`` has the new ones, as ``deparse.with_names`` takes them. The body of a
    function in quotes is no definition's text: its names are looked up when it is called.
    """
    catalog = engine.catalog

    def changed(text: str) -> str:
        return with_names(text, names)

    for entry in list(catalog):
        new = _of_view(entry, changed) if isinstance(entry, ViewEntry) else _of_table(entry, changed)
        if new is not entry:
            catalog.replace(new)
    for key, one in list(catalog.types.items()):
        if isinstance(one, Domain):
            _put(catalog.types, key, with_texts(one, changed))
    for name, routines in list(catalog.routines.items()):
        _put(catalog.routines, name, _each(routines, changed))
    for other, one in list(catalog.others.items()):
        told = _each(one, changed) if isinstance(one, tuple) else with_texts(one, changed)
        _put(catalog.others, other, _calling(told, names))
    catalog.version += 1
    engine.tables.refresh_rules()


def rename_table(engine: Engine, old: TableEntry, name: str) -> None:
    """A table has another name, and what is kept as text follows, too."""
    engine.rename_table(old, name)
    follow(engine, {(RELATION, old.name.lower()): name})


def _put(known: Any, key: Any, new: Any) -> None:
    if known[key] is not new:
        known[key] = new


def _each(some: tuple[Node, ...], changed: Any) -> tuple[Node, ...]:
    found = tuple(with_texts(one, changed) for one in some)
    return found if any(map(is_not, found, some)) else some


def _of_table(entry: TableEntry, changed: Any) -> TableEntry:
    constraints = with_texts(entry.constraints, changed)
    return entry if constraints is entry.constraints else replace(entry, constraints=constraints)


def _of_view(entry: ViewEntry, changed: Any) -> ViewEntry:
    text = changed(entry.text)
    defaults = tuple((name, changed(one)) for name, one in entry.defaults)
    if text == entry.text and defaults == entry.defaults:
        return entry
    return replace(entry, whole=text if text != entry.text else entry.whole, defaults=defaults)


def _calling(one: Any, names: NameMap) -> Any:
    """Aggregates that name a function by itself."""

    def new(name: str) -> str:
        return names.get((FUNCTION, name.lower().removeprefix(f"{PUBLIC}.")), name)

    if isinstance(one, tuple) and any(isinstance(each, Aggregate) for each in one):
        found = tuple(replace(each, step=new(each.step), final=new(each.final)) for each in one)
        return found if found != one else one
    return one


# Types


def rename_type(engine: Engine, old: Type, name: str, span: Span) -> None:
    """A type has another name: in columns, views, functions, other types and texts.

    Values stay as they are: none knows its type's name.
    """
    _refuse_readers(engine, old, span)
    put_type(engine, old, name)
    engine.catalog.rights.rename((TYPE, old.name.lower()), (TYPE, name.lower()))
    follow(engine, {(TYPE, old.name.lower()): name})


def put_type(engine: Engine, old: Type, name: str) -> None:
    """As :func:`rename_type`, but texts do not follow."""
    catalog, new = engine.catalog, replace(old, name=name)
    del catalog.types[old.name.lower()]
    catalog.types[name.lower()] = new
    for known in (catalog.types, catalog.routines, catalog.others):
        for key, one in list(known.items()):
            _put(known, key, retyped(one, old, new))
    for entry in list(catalog):
        schema = retyped(entry.schema, old, new)
        if isinstance(entry, TableEntry):
            if schema is not entry.schema:
                catalog.replace(replace(entry, schema=schema))
                engine.set_schema(entry.name, schema)
        elif entry.definition is not None and not callable(entry.definition):
            rel = retyped(entry.definition, old, new)
            if rel is not entry.definition or schema is not entry.schema:
                engine.views.move(replace(entry, schema=schema, definition=rel))


def _refuse_readers(engine: Engine, old: Type, span: Span) -> None:
    """NotSupportedError if something that a program made, or that calls a function, has values of a type."""
    for entry in _having(engine, old):
        programs = [one for one in engine.views.dependents(entry.name) if one in engine.dataflows]
        if programs:
            message = f'renaming type {old.name} is not supported while "{programs[0]}" reads {entry.name}'
            raise NotSupportedError(message, span=span, hint="drop that first, and make it again afterwards")
    for routines in engine.catalog.routines.values():
        for one in routines:
            users = engine.views.users(one.key)
            if users and retyped(one, old, replace(old, name="")) is not one:
                message = f"renaming type {old.name} is not supported while {users[0]} calls {one.name}"
                raise NotSupportedError(message, span=span, hint="drop that first, and make it again")


def _having(engine: Engine, type_: Type) -> Iterator[TableEntry]:
    for entry in engine.catalog:
        other = replace(type_, name="")
        if isinstance(entry, TableEntry) and retyped(entry.schema, type_, other) is not entry.schema:
            yield entry


def retyped(value: Node, old: Type, new: Type) -> Node:
    """Anything made of frozen records with another type in the place of one; itself if that is nowhere."""
    found: Any = value
    if isinstance(value, Type) and value.kind is old.kind and value.name.lower() == old.name.lower():
        return replace(value, name=new.name)
    if isinstance(value, tuple):
        parts: Any = tuple(retyped(one, old, new) for one in value)
        return parts if any(map(is_not, parts, value)) else value
    if isinstance(value, dict):
        known: Any = {key: retyped(one, old, new) for key, one in value.items()}
        return known if any(map(is_not, known.values(), value.values())) else value
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changes = {
        one.name: part
        for one in fields(value)
        if one.init and (part := retyped(getattr(value, one.name), old, new)) is not getattr(value, one.name)
    }
    return replace(found, **changes) if changes else value


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
        users = engine.views.users(entry.name)
        if isinstance(entry, ViewEntry) and (entry.name in engine.dataflows or callable(entry.definition)):
            users = [entry.name]
        elif isinstance(entry, TableEntry) or not entry.materialized:
            users = [one for one in users if one in engine.dataflows]
        used.append((entry.name, users))
    for routines in catalog.routines.values():
        used += [(one.name, engine.views.users(one.key)) for one in _within(schema, routines)]
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
            elif entry.name in engine.views or entry.name in engine.views.keeping:
                engine.views.rename(entry, name)
            else:
                engine.views.rename_expanded(entry, name)
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

        engine, indexes = self._engine, self._engine.catalog.indexes
        for one in _within(self._old, list(indexes.values())):
            del indexes[one.name.lower()]
            moved = replace(one, name=f"{self._new}.{one.name.partition('.')[2]}")
            indexes[moved.name.lower()] = moved
            engine.journal.note(done=partial(engine.tables.forget_index, one.name))
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


def rename_sequence(engine: Engine, old: Sequence, new: Resolved) -> None:
    """Give a sequence another name, and have what asks it follow."""
    move_sequence(engine, old, new)
    follow(engine, {(SEQUENCE, old.name.lower()): new})


def move_sequence(engine: Engine, old: Sequence, new: Resolved) -> None:
    """Give a sequence another name, and have the columns follow that it is of."""
    catalog = engine.catalog
    if new.lower() in catalog.sequences or new in catalog:
        raise ProgrammingError(f'relation "{new}" already exists')
    del catalog.sequences[old.name.lower()]
    catalog.sequences[new.lower()] = replace(old, name=new)
    catalog.rights.rename(("SEQUENCE", old.name.lower()), ("SEQUENCE", new.lower()))
    engine.sequences.rename(old.name, new)
    engine.journal.note(undo=partial(engine.sequences.rename, new, old.name))
    for entry in list(catalog):
        if not isinstance(entry, TableEntry):
            continue
        rules = tuple(
            replace(rule, sequence=new, default=sequence_call(new)) if rule.sequence == old.name else rule
            for rule in entry.constraints.rules
        )
        if rules != entry.constraints.rules:
            catalog.replace(replace(entry, constraints=replace(entry.constraints, rules=rules)))


def rename_in_columns(engine: "Engine", old: str, new: str) -> None:
    """Have columns of a domain know its other name."""
    for table, _ in columns_of(engine.catalog, old):
        entry = engine.catalog.table(table)
        rules = tuple(
            replace(rule, domain=new) if rule.domain.lower() == old.lower() else rule
            for rule in entry.constraints.rules
        )
        engine.catalog.replace(replace(entry, constraints=replace(entry.constraints, rules=rules)))


def columns_of(catalog: Catalog, domain: str) -> list[tuple[str, str]]:
    """The columns of a domain, with their tables."""
    return [
        (entry.name, column.name)
        for entry in catalog
        if isinstance(entry, TableEntry)
        for column, rule in zip(entry.schema.columns, entry.constraints.rules, strict=False)
        if rule.domain.lower() == domain.lower()
    ]
