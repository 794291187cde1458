"""DROP SCHEMA: with CASCADE, all that is in it and what uses that."""

from collections.abc import Iterator
from dataclasses import replace

from kpg.compiler.catalog import PUBLIC, TableEntry
from kpg.compiler.constraints import Domain
from kpg.compiler.resolved import Resolved
from kpg.compiler.sql import definitions as ast
from kpg.compiler.sql.statements import Drop
from kpg.ddl.definitions import drop_sequence
from kpg.ddl.in_use import check_unused
from kpg.engine.engine import Engine
from kpg.runtime.errors import ProgrammingError


def drop_schema(engine: Engine, statement: ast.DropOther, name: str) -> None:
    """Run the statement for one schema."""
    catalog = engine.catalog
    if name not in catalog.schemas:
        if statement.if_exists:
            return
        raise ProgrammingError(f'schema "{name}" does not exist', span=statement.span)
    first = next(_inside(engine, name), None)
    if first is not None and not statement.cascade:
        raise ProgrammingError(
            f'schema "{name}" cannot be dropped: it has {first}', span=statement.span, hint="use CASCADE"
        )
    if first is not None:
        _drop_relations(engine, statement, name)
        _drop_others(engine, statement, name)
    if name != PUBLIC:
        del catalog.schemas[name]


def _inside(engine: Engine, schema: str) -> Iterator[str]:
    catalog = engine.catalog
    yield from (str(one) for one in _relations(engine, schema))
    yield from (one.name for one in catalog.sequences.values() if _schema_of(one.name) == schema)
    yield from (f"function {one}" for one in catalog.routines if _schema_of(one) == schema)
    yield from (f"type {one}" for one in catalog.types if _schema_of(one) == schema)


def _relations(engine: Engine, schema: str) -> list[str]:
    return [
        entry.name
        for entry in engine.catalog
        if _schema_of(entry.name) == schema and not _is_datalog(engine, entry.name)
    ]


def _drop_relations(engine: Engine, statement: ast.DropOther, schema: str) -> None:
    from kpg.statements.statements import drop_relations

    catalog = engine.catalog
    check_unused(engine, _relations(engine, schema), "DROP TABLE", statement.span)
    for one in _relations(engine, schema):
        if one in catalog:  # another one has not taken it along
            kind = "TABLE" if isinstance(catalog.get(one), TableEntry) else "VIEW"
            drop_relations(engine, Drop(kind, (one,), True, True, statement.span))
    for sequence in list(catalog.sequences.values()):
        if _schema_of(sequence.name) == schema:
            drop_sequence(engine, replace(statement, kind="SEQUENCE"), sequence.name)


def _drop_others(engine: Engine, statement: ast.DropOther, schema: str) -> None:
    catalog = engine.catalog
    for name in [one for one in catalog.routines if _schema_of(one) == schema]:
        from kpg.ddl.routines import drop_routine

        for routine in catalog.routines.get(name, ()):
            drop_routine(engine, routine, statement.span, cascade=True)
    for name in [one for one in catalog.types if _schema_of(one) == schema]:
        if isinstance(catalog.types[name], Domain):
            from kpg.ddl.domains import drop_domain

            drop_domain(engine, replace(statement, kind="DOMAIN"), Resolved(name))
        else:
            from kpg.ddl.user_types import drop_type

            drop_type(engine, replace(statement, kind="TYPE"), Resolved(name))


def _schema_of(name: str) -> str:
    return name.rpartition(".")[0].lower() or PUBLIC


def _is_datalog(engine: Engine, name: str) -> bool:
    schema = name.rpartition(".")[0].lower()
    return bool(schema) and schema not in engine.catalog.schemas
