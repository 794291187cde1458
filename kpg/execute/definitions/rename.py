"""Renaming: rewrites all definitions that name a renamed object, and ALTER SCHEMA ... RENAME TO.

The rewrite covers stored texts, and the types of columns and views. Renaming a schema renames all objects in
it. A session's ``search_path`` and function bodies in quotes stay as they are.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import partial
from operator import is_not
from typing import Any, Protocol, TypeVar

from kpg.compiler.catalog.constraints import Domain, Sequence
from kpg.compiler.catalog.entries import (
    AGGREGATES,
    COMMENTS,
    INDEXES,
    PARTITIONED,
    POLICIES,
    PUBLIC,
    RELATIONS,
    ROUTINES,
    SCHEMAS,
    SEQUENCES,
    TYPES,
    UNIQUE_INDEXES,
    Catalog,
    Entry,
    TableEntry,
    ViewEntry,
)
from kpg.compiler.catalog.operations import CatalogOp, ObjectKind
from kpg.compiler.catalog.privileges import DEFAULT_ACLS
from kpg.compiler.catalog.routines import Aggregate
from kpg.compiler.qualified_names import QualifiedName
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.rewrite.deparse import FUNCTION, RELATION, SEQUENCE, TYPE, rename_references
from kpg.compiler.sql.rewrite.deparse import NewNames as NameMap
from kpg.compiler.sql.rewrite.name_qualification import map_texts, nextval_call
from kpg.execute.definitions.indexes import install_at_commit
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span
from kpg.runtime.types import Type
from kpg.session.engine import Engine

Node = TypeVar("Node")
K = TypeVar("K")
V = TypeVar("V")


def rewrite_references(engine: Engine, names: NameMap) -> None:
    """Rewrite every stored definition that names a renamed object.

    ``names`` maps old names to new ones, as in ``deparse.rename_references``. Function bodies in quotes stay
    as they are: their names are looked up at each call.
    """
    catalog = engine.catalog

    def rewrite(text: str) -> str:
        return rename_references(text, names)

    def rewrite_relation(entry: Entry) -> Entry:
        return (
            _rewrite_view(entry, rewrite) if isinstance(entry, ViewEntry) else _rewrite_table(entry, rewrite)
        )

    catalog.apply(
        *_changes(RELATIONS, catalog.entries, rewrite_relation),
        *_changes(TYPES, catalog.types, lambda one: map_texts(one, rewrite)),
        *_changes(ROUTINES, catalog.routines, lambda overloads: _rewrite_each(overloads, rewrite)),
        *_changes(POLICIES, catalog.policies, lambda one: map_texts(one, rewrite)),
        *_changes(PARTITIONED, catalog.partitioned, lambda one: map_texts(one, rewrite)),
        *_changes(UNIQUE_INDEXES, catalog.unique_indexes, lambda one: map_texts(one, rewrite)),
        *_changes(AGGREGATES, catalog.aggregates, lambda overloads: _rewrite_aggregates(overloads, names)),
    )
    engine.tables.refresh_constraints()


def rename_table(engine: Engine, old: TableEntry, name: str) -> None:
    """Rename a table and rewrite the definitions that name it."""
    engine.rename_table(old, name)
    rewrite_references(engine, {(RELATION, old.name.lower()): name})


def _changes(kind: ObjectKind[K, V], objects: Mapping[K, V], change: Callable[[V], V]) -> Iterator[CatalogOp]:
    """Yield an operation for each object that ``change`` changes."""
    for key, old in objects.items():
        new = change(old)
        if new is not old:
            yield kind.put(key, new)


def _rewrite_each(nodes: tuple[Node, ...], rewrite: Any) -> tuple[Node, ...]:
    found = tuple(map_texts(node, rewrite) for node in nodes)
    return found if any(map(is_not, found, nodes)) else nodes


def _rewrite_table(entry: TableEntry, rewrite: Any) -> TableEntry:
    constraints = map_texts(entry.constraints, rewrite)
    return entry if constraints is entry.constraints else replace(entry, constraints=constraints)


def _rewrite_view(entry: ViewEntry, rewrite: Any) -> ViewEntry:
    text = rewrite(entry.text)
    defaults = tuple((name, rewrite(default)) for name, default in entry.defaults)
    if text == entry.text and defaults == entry.defaults:
        return entry
    return replace(entry, whole=text if text != entry.text else entry.whole, defaults=defaults)


def _rewrite_aggregates(aggregates: tuple[Aggregate, ...], names: NameMap) -> tuple[Aggregate, ...]:
    """Rename the functions that aggregates name."""

    def new(name: str) -> str:
        return names.get((FUNCTION, name.lower().removeprefix(f"{PUBLIC}.")), name)

    found = tuple(replace(each, step=new(each.step), final=new(each.final)) for each in aggregates)
    return found if found != aggregates else aggregates


# Types


def rename_type(engine: Engine, old: Type, name: str, span: Span) -> None:
    """Rename a type in columns, views, functions, other types and texts. Values do not change."""
    _check_type_users(engine, old, span)
    replace_type(engine, old, name)
    rights = engine.catalog.privileges
    engine.catalog.apply(*rights.ops_to_rename((TYPE, old.name.lower()), (TYPE, name.lower())))
    rewrite_references(engine, {(TYPE, old.name.lower()): name})


def replace_type(engine: Engine, old: Type, name: str) -> None:
    """Rename a type everywhere except in texts; see :func:`rename_type`."""
    catalog, new = engine.catalog, replace(old, name=name)
    catalog.apply(TYPES.remove(old.name.lower()), TYPES.put(name.lower(), new))
    catalog.apply(
        *_changes(TYPES, catalog.types, lambda one: substitute_type(one, old, new)),
        *_changes(ROUTINES, catalog.routines, lambda overloads: substitute_type(overloads, old, new)),
        *_changes(AGGREGATES, catalog.aggregates, lambda overloads: substitute_type(overloads, old, new)),
    )
    for entry in catalog:
        schema = substitute_type(entry.schema, old, new)
        if isinstance(entry, TableEntry):
            if schema is not entry.schema:
                catalog.replace(replace(entry, schema=schema))
                engine.set_schema(entry.name, schema)
        elif entry.definition is not None and not callable(entry.definition):
            rel = substitute_type(entry.definition, old, new)
            if rel is not entry.definition or schema is not entry.schema:
                engine.views.redefine(replace(entry, schema=schema, definition=rel))


def _check_type_users(engine: Engine, old: Type, span: Span) -> None:
    """Raise NotSupportedError if a dataflow, or a view through a function, uses values of the type."""
    for entry in _tables_with_type(engine, old):
        programs = [one for one in engine.views.dependents(entry.name) if one in engine.dataflows]
        if programs:
            message = f'renaming type {old.name} is not supported while "{programs[0]}" reads {entry.name}'
            raise NotSupportedError(message, span=span, hint="drop that first, and make it again afterwards")
    for routines in engine.catalog.routines.values():
        for one in routines:
            users = engine.views.users(one.key)
            if users and substitute_type(one, old, replace(old, name="")) is not one:
                message = f"renaming type {old.name} is not supported while {users[0]} calls {one.name}"
                raise NotSupportedError(message, span=span, hint="drop that first, and make it again")


def _tables_with_type(engine: Engine, type_: Type) -> Iterator[TableEntry]:
    for entry in engine.catalog:
        other = replace(type_, name="")
        if isinstance(entry, TableEntry) and substitute_type(entry.schema, type_, other) is not entry.schema:
            yield entry


def substitute_type(value: Node, old: Type, new: Type) -> Node:
    """Replace a type in any structure of frozen records; return the structure itself if it is absent."""
    found: Any = value
    if isinstance(value, Type) and value.kind is old.kind and value.name.lower() == old.name.lower():
        return replace(value, name=new.name)
    if isinstance(value, tuple):
        parts: Any = tuple(substitute_type(item, old, new) for item in value)
        return parts if any(map(is_not, parts, value)) else value
    if isinstance(value, dict):
        known: Any = {key: substitute_type(item, old, new) for key, item in value.items()}
        return known if any(map(is_not, known.values(), value.values())) else value
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changes = {
        item.name: part
        for item in fields(value)
        if item.init
        and (part := substitute_type(getattr(value, item.name), old, new)) is not getattr(value, item.name)
    }
    return replace(found, **changes) if changes else value


Names = dict[tuple[str, str], str]


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=_HasName)


def rename_schema(engine: Engine, statement: ast.RenameSchema) -> None:
    """Run ALTER SCHEMA ... RENAME TO."""
    catalog, old, new = engine.catalog, statement.name.lower(), statement.new.lower()
    if old not in catalog.schemas:
        raise ProgrammingError(
            f'schema "{statement.name}" does not exist', span=statement.span, sqlstate="3F000"
        )
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
    _check_schema_users(engine, old, statement.span)
    catalog.apply(SCHEMAS.put(new, new))
    names = _SchemaRename(engine, old, new).run()
    catalog.apply(SCHEMAS.remove(old))
    rewrite_references(engine, names)
    _move_privileges(engine, old, new)


def _check_schema_users(engine: Engine, schema: str, span: Span) -> None:
    """Raise NotSupportedError if dataflows or plans use objects of the schema."""
    catalog = engine.catalog
    used: list[tuple[str, list[str]]] = []
    for entry in _in_schema(schema, catalog.entries.values()):
        users = engine.views.users(entry.name)
        if isinstance(entry, ViewEntry) and (entry.name in engine.dataflows or callable(entry.definition)):
            users = [entry.name]
        elif isinstance(entry, TableEntry) or not entry.materialized:
            users = [one for one in users if one in engine.dataflows]
        used.append((entry.name, users))
    for routines in catalog.routines.values():
        used += [(one.name, engine.views.users(one.key)) for one in _in_schema(schema, routines)]
    for name, users in used:
        if users:
            message = f'renaming schema {schema} is not supported while "{users[0]}" uses {name}'
            raise NotSupportedError(message, span=span, hint="drop that first, and make it again afterwards")


def _in_schema(schema: str, objects: Iterable[T]) -> list[T]:
    return [item for item in objects if item.name.lower().startswith(f"{schema}.")]


class _SchemaRename:
    """Renames all objects of a schema."""

    def __init__(self, engine: Engine, old: str, new: str) -> None:
        self._engine = engine
        self._old = old
        self._new = new
        self._names: Names = {}

    def run(self) -> Names:
        """Rename the objects and return the new names by kind and old name."""
        engine, catalog = self._engine, self._engine.catalog
        for sequence in _in_schema(self._old, list(catalog.sequences.values())):
            move_sequence(engine, sequence, self._new_name(SEQUENCE, sequence.name))
        for known in _in_schema(self._old, list(catalog)):
            entry = catalog.get(known.name)  # views over a renamed table have changed
            name = self._new_name(RELATION, entry.name)
            if isinstance(entry, TableEntry):
                engine.rename_table(entry, name)
            elif entry.name in engine.views or entry.name in engine.views.pending:
                engine.views.rename(entry, name)
            else:
                engine.views.rename_plain(entry, name)
        self._rename_types()
        self._rename_routines()
        self._rename_indexes()
        return self._names

    def _new_name(self, kind: str, name: str) -> QualifiedName:
        new = QualifiedName(f"{self._new}.{name.partition('.')[2]}")
        self._names[kind, name.lower()] = new
        return new

    def _rename_types(self) -> None:
        engine, catalog = self._engine, self._engine.catalog
        for user_type in _in_schema(self._old, catalog.types.values()):
            old, new = user_type.name.lower(), self._new_name(TYPE, user_type.name)
            if isinstance(user_type, Domain):
                catalog.apply(TYPES.remove(old), TYPES.put(new.lower(), replace(user_type, name=new)))
                rename_in_columns(engine, old, new)
            else:
                replace_type(engine, user_type, new)

    def _rename_routines(self) -> None:
        catalog = self._engine.catalog
        for name in [one for one in catalog.routines if one.startswith(f"{self._old}.")]:
            new = self._new_name(FUNCTION, name)
            routines = tuple(replace(one, name=str(new)) for one in catalog.routines[name])
            catalog.apply(ROUTINES.remove(name), ROUTINES.put(new, routines))
        for name in [one for one in catalog.aggregates if one.startswith(f"{self._old}.")]:
            new = self._new_name(FUNCTION, name)
            aggregates = tuple(replace(one, name=str(new)) for one in catalog.aggregates[name])
            catalog.apply(AGGREGATES.remove(name), AGGREGATES.put(new, aggregates))

    def _rename_indexes(self) -> None:
        engine, catalog = self._engine, self._engine.catalog
        for index in _in_schema(self._old, catalog.indexes.values()):
            renamed = replace(index, name=f"{self._new}.{index.name.partition('.')[2]}")
            catalog.apply(INDEXES.remove(index.name.lower()), INDEXES.put(renamed.name.lower(), renamed))
            engine.journal.add(finish=partial(engine.tables.uninstall_index, index.name))
            install_at_commit(engine, renamed)


def _move_privileges(engine: Engine, old: str, new: str) -> None:
    """Move the privileges and comments of the schema and its objects."""
    catalog = engine.catalog
    rights = catalog.privileges

    def new_name(name: str) -> str:
        return f"{new}.{name.partition('.')[2]}" if name.startswith(f"{old}.") else name

    catalog.apply(*rights.ops_to_rename(("SCHEMA", old), ("SCHEMA", new)))
    for key in (*rights.owners, *rights.acls):
        if new_name(key[1]) != key[1]:
            catalog.apply(*rights.ops_to_rename(key, (key[0], new_name(key[1]), *key[2:])))
    for (owner, schema, kind), items in rights.default_acls.items():
        if schema == old:
            catalog.apply(DEFAULT_ACLS.remove((owner, schema, kind)))
            catalog.apply(DEFAULT_ACLS.put((owner, new, kind), items))
    for comment_key, text in catalog.comments.items():
        renamed = (
            comment_key[0],
            new if comment_key[:2] == ("SCHEMA", old) else new_name(comment_key[1]),
            *comment_key[2:],
        )
        if renamed != comment_key:
            catalog.apply(COMMENTS.remove(comment_key), COMMENTS.put(renamed, text))


def rename_sequence(engine: Engine, old: Sequence, new: QualifiedName) -> None:
    """Rename a sequence and rewrite the definitions that name it."""
    move_sequence(engine, old, new)
    rewrite_references(engine, {(SEQUENCE, old.name.lower()): new})


def move_sequence(engine: Engine, old: Sequence, new: QualifiedName) -> None:
    """Rename a sequence, also in the columns that own it."""
    catalog = engine.catalog
    if new.lower() in catalog.sequences or new in catalog:
        raise ProgrammingError(f'relation "{new}" already exists')
    old_key, new_key = old.name.lower(), new.lower()
    catalog.apply(
        SEQUENCES.remove(old_key),
        SEQUENCES.put(new_key, replace(old, name=new)),
        *catalog.privileges.ops_to_rename((SEQUENCE, old_key), (SEQUENCE, new_key)),
    )
    engine.sequences.rename(old.name, new)
    engine.journal.add(undo=partial(engine.sequences.rename, new, old.name))
    for entry in catalog:
        if not isinstance(entry, TableEntry):
            continue
        rules = tuple(
            replace(rule, sequence=new, default=nextval_call(new)) if rule.sequence == old.name else rule
            for rule in entry.constraints.rules
        )
        if rules != entry.constraints.rules:
            catalog.replace(replace(entry, constraints=replace(entry.constraints, rules=rules)))


def rename_in_columns(engine: "Engine", old: str, new: str) -> None:
    """Rename a domain in its columns."""
    for table, _ in columns_of(engine.catalog, old):
        entry = engine.catalog.table(table)
        rules = tuple(
            replace(rule, domain=new) if rule.domain.lower() == old.lower() else rule
            for rule in entry.constraints.rules
        )
        engine.catalog.replace(replace(entry, constraints=replace(entry.constraints, rules=rules)))


def columns_of(catalog: Catalog, domain: str) -> list[tuple[str, str]]:
    """Return the columns of a domain, with their tables."""
    return [
        (entry.name, column.name)
        for entry in catalog
        if isinstance(entry, TableEntry)
        for column, rule in zip(entry.schema.columns, entry.constraints.rules, strict=False)
        if rule.domain.lower() == domain.lower()
    ]
