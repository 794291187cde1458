"""What follows when something has another name: all texts that name it, and types in columns and views."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from operator import is_not
from typing import Any, TypeVar

from kpg.compiler.catalog.constraints import Domain
from kpg.compiler.catalog.entries import PUBLIC, TableEntry, ViewEntry
from kpg.compiler.catalog.routines import Aggregate
from kpg.compiler.sql.rewrite.deparse import FUNCTION, RELATION, TYPE, Names, with_names
from kpg.compiler.sql.rewrite.name_qualification import with_texts
from kpg.engine.engine import Engine
from kpg.runtime.errors import NotSupportedError, Span
from kpg.runtime.types import Type

T = TypeVar("T")


def follow(engine: Engine, names: Names) -> None:
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
    engine.refresh_rules()


def rename_table(engine: Engine, old: TableEntry, name: str) -> None:
    """A table has another name, and what is kept as text follows, too."""
    engine.rename_table(old, name)
    follow(engine, {(RELATION, old.name.lower()): name})


def _put(known: Any, key: Any, new: Any) -> None:
    if known[key] is not new:
        known[key] = new


def _each(some: tuple[T, ...], changed: Any) -> tuple[T, ...]:
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


def _calling(one: Any, names: Names) -> Any:
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
                engine.rename_column(entry.name, schema)
        elif entry.definition is not None and not callable(entry.definition):
            rel = retyped(entry.definition, old, new)
            if rel is not entry.definition or schema is not entry.schema:
                engine.move(replace(entry, schema=schema, definition=rel))


def _refuse_readers(engine: Engine, old: Type, span: Span) -> None:
    """NotSupportedError if something that a program made, or that calls a function, has values of a type."""
    for entry in _having(engine, old):
        programs = [one for one in engine.dependents(entry.name) if one in engine.dataflows]
        if programs:
            message = f'renaming type {old.name} is not supported while "{programs[0]}" reads {entry.name}'
            raise NotSupportedError(message, span=span, hint="drop that first, and make it again afterwards")
    for routines in engine.catalog.routines.values():
        for one in routines:
            users = engine.users(one.key)
            if users and retyped(one, old, replace(old, name="")) is not one:
                message = f"renaming type {old.name} is not supported while {users[0]} calls {one.name}"
                raise NotSupportedError(message, span=span, hint="drop that first, and make it again")


def _having(engine: Engine, type_: Type) -> Iterator[TableEntry]:
    for entry in engine.catalog:
        other = replace(type_, name="")
        if isinstance(entry, TableEntry) and retyped(entry.schema, type_, other) is not entry.schema:
            yield entry


def retyped(value: T, old: Type, new: Type) -> T:
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
