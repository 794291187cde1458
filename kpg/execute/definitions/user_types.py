"""User-defined types: ENUMs and composite types."""

from dataclasses import fields, replace
from operator import is_
from typing import TYPE_CHECKING, Any, TypeVar

from kpg.compiler.catalog.constraints import Domain
from kpg.compiler.catalog.entries import TYPES, Catalog
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.types import ColumnDef, Schema, Type
from kpg.session.notices import notice_missing_type

if TYPE_CHECKING:
    from kpg.compiler.sql.parse import definitions as ast
    from kpg.execute.definitions import callers, domains
    from kpg.session.engine import Engine
else:
    callers = LazyModule("kpg.execute.definitions.callers")
    domains = LazyModule("kpg.execute.definitions.domains")

T = TypeVar("T")
TYPED_ACTIONS = ("AddColumn", "AlterType")
"""The actions of ALTER TABLE that name a type."""
RESOLVED_LATER = (
    *("CreateFunction", "DropFunction", "AlterFunction", "CreateDomain", "AlterDomain"),
    *("CreateAggregate", "DropAggregate"),
)
"""Statements whose types may be row types or polymorphic, so that they are resolved later."""


def resolve_types(statement: T, catalog: Catalog) -> T:
    """Return a definition with the names of user-defined types resolved."""
    span = getattr(statement, "span", None)
    if type(statement).__name__ in RESOLVED_LATER:
        return statement
    if any(isinstance(one, Domain) for one in catalog.types.values()):
        statement = domains.with_domains(statement, catalog)

    def resolve(value: Any) -> Any:
        if isinstance(value, Type):
            return catalog.resolve_type(value, span)
        if isinstance(value, tuple):
            found = tuple(map(resolve, value))
            return value if all(map(is_, found, value)) else found
        if not isinstance(value, ColumnDef | Schema) and type(value).__name__ not in TYPED_ACTIONS:
            return value
        changes = {field.name: resolve(getattr(value, field.name)) for field in fields(value)}
        same = all(changes[field.name] is getattr(value, field.name) for field in fields(value))
        return value if same else replace(value, **changes)

    changes = {one.name: resolve(getattr(statement, one.name)) for one in fields(statement)}  # type: ignore[arg-type]
    changes = {name: value for name, value in changes.items() if value is not getattr(statement, name)}
    return replace(statement, **changes) if changes else statement  # type: ignore[type-var]


def create_type(engine: "Engine", statement: "ast.CreateType") -> None:
    """Run CREATE TYPE."""
    name = engine.catalog.qualify_new_name(statement.name, span=statement.span)
    if name.lower() in engine.catalog.types:
        raise ProgrammingError(f'type "{name}" already exists', span=statement.span)
    if len(set(statement.type.labels)) < len(statement.type.labels):
        raise ProgrammingError(f'type "{name}" has a label twice', span=statement.span)
    if not statement.type.labels:
        raise ProgrammingError(f'type "{name}" has no labels', span=statement.span)
    engine.catalog.apply(TYPES.put(name.lower(), replace(statement.type, name=name)))


def drop_type(engine: "Engine", statement: "ast.DropOther", name: str) -> None:
    """Run DROP TYPE."""
    found = engine.catalog.find_type(name)
    if isinstance(found, Domain):
        domains.drop_domain(engine, statement, name)
        return
    if found is None:
        if statement.if_exists:
            notice_missing_type(engine, name)
            return
        raise ProgrammingError(f'type "{name}" does not exist', span=statement.span, sqlstate="42704")
    used = [
        (entry.name, column.name)
        for entry in engine.catalog
        for column in entry.schema.columns
        if found.name in (column.type.name, *(part.name for part in column.type.parts))
    ]
    domains.drop_columns(engine, statement, used, f'type "{found.name}"')
    callers.refuse_named_type(engine, found.name, statement.span)
    engine.catalog.apply(TYPES.remove(found.name.lower()))
