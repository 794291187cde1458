"""CREATE SCHEMA with its elements, and DROP SCHEMA, with CASCADE including the schema's contents."""

from collections.abc import Iterator
from dataclasses import replace

from kpg.compiler.catalog.constraints import Domain
from kpg.compiler.catalog.entries import PUBLIC, SCHEMAS, TableEntry
from kpg.compiler.qualified_names import QualifiedName
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.parse.parser import parse
from kpg.compiler.sql.parse.statements import Drop
from kpg.execute.definitions.domains import drop_domain
from kpg.execute.definitions.drop import describe, drop_relations
from kpg.execute.definitions.routines import drop_routine
from kpg.execute.definitions.sequences import drop_sequence
from kpg.execute.definitions.user_types import drop_type
from kpg.execute.queries.cursors import check_unused
from kpg.runtime.errors import ProgrammingError
from kpg.session.engine import Engine
from kpg.session.notices import notice_cascade, notice_skipped


def drop_schema(engine: Engine, statement: ast.DropOther, name: str) -> None:
    """Run DROP SCHEMA for one schema."""
    catalog = engine.catalog
    if name not in catalog.schemas:
        if statement.if_exists:
            notice_skipped(engine, f'schema "{name}" does not exist')
            return
        raise ProgrammingError(f'schema "{name}" does not exist', span=statement.span, sqlstate="3F000")
    first = next(_describe_contents(engine, name), None)
    if first is not None and not statement.cascade:
        raise ProgrammingError(
            f'schema "{name}" cannot be dropped: it has {first}', span=statement.span, hint="use CASCADE"
        )
    notice_cascade(engine, list(_describe_contents(engine, name)))
    if first is not None:
        _drop_relations(engine, statement, name)
        _drop_others(engine, statement, name)
    if name != PUBLIC:
        catalog.apply(SCHEMAS.remove(name))


def _describe_contents(engine: Engine, schema: str) -> Iterator[str]:
    catalog = engine.catalog
    yield from (describe(engine, item) for item in _relations(engine, schema))
    yield from (
        f"sequence {item.name}" for item in catalog.sequences.values() if _schema_of(item.name) == schema
    )
    yield from (f"function {item}" for item in catalog.routines if _schema_of(item) == schema)
    yield from (f"type {item}" for item in catalog.types if _schema_of(item) == schema)


def _relations(engine: Engine, schema: str) -> list[str]:
    return [
        entry.name
        for entry in engine.catalog
        if _schema_of(entry.name) == schema and not _is_datalog(engine, entry.name)
    ]


def _drop_relations(engine: Engine, statement: ast.DropOther, schema: str) -> None:
    catalog = engine.catalog
    check_unused(engine, _relations(engine, schema), "DROP TABLE", statement.span)
    for relation in _relations(engine, schema):
        if relation in catalog:  # not dropped as a dependent of another one
            kind = "TABLE" if isinstance(catalog.get(relation), TableEntry) else "VIEW"
            drop_relations(engine, Drop(kind, (relation,), True, True, statement.span))
    for sequence in catalog.sequences.values():
        if _schema_of(sequence.name) == schema:
            drop_sequence(engine, replace(statement, kind="SEQUENCE"), sequence.name)


def _drop_others(engine: Engine, statement: ast.DropOther, schema: str) -> None:
    catalog = engine.catalog
    for name in [item for item in catalog.routines if _schema_of(item) == schema]:
        for routine in catalog.routines.get(name, ()):
            drop_routine(engine, routine, statement.span, cascade=True)
    for name in [item for item in catalog.types if _schema_of(item) == schema]:
        if isinstance(catalog.types[name], Domain):
            drop_domain(engine, replace(statement, kind="DOMAIN"), QualifiedName(name))
        else:
            drop_type(engine, replace(statement, kind="TYPE"), QualifiedName(name))


def _schema_of(name: str) -> str:
    return name.rpartition(".")[0].lower() or PUBLIC


def _is_datalog(engine: Engine, name: str) -> bool:
    schema = name.rpartition(".")[0].lower()
    return bool(schema) and schema not in engine.catalog.schemas


def create_schema(engine: Engine, statement: ast.CreateSchema) -> None:
    """Run CREATE SCHEMA."""
    name = statement.name.lower()
    if name in engine.catalog.schemas or name in ("pg_catalog", "information_schema"):
        if statement.if_not_exists:
            notice_skipped(engine, f'schema "{name}" already exists', "42P06")
            return
        raise ProgrammingError(f'schema "{statement.name}" already exists', span=statement.span)
    if name.startswith("pg_"):
        raise ProgrammingError(f'schema name "{statement.name}" is reserved', span=statement.span)
    engine.catalog.apply(SCHEMAS.put(name, name))
    if statement.elements:
        _create_elements(engine, statement, name)


def _create_elements(engine: Engine, statement: ast.CreateSchema, name: str) -> None:
    """Run the elements of CREATE SCHEMA."""

    path = engine.catalog.search_path
    engine.catalog.search_path = (name, *path)
    try:
        with engine.transactions.substatements():
            for text in statement.elements:
                for element in parse(text):
                    engine.nested_execution.execute(engine, element)
    finally:
        engine.catalog.search_path = path
