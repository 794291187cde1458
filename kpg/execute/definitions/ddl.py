"""TRUNCATE, COMMENT, DROP of objects other than tables and views, and temporary tables.

Temporary tables follow their ON COMMIT action at a commit, and are dropped when their session ends.
"""

from functools import partial

from kpg.api.result import Result, row_count_result
from kpg.compiler.catalog.constraints import descendant_tables
from kpg.compiler.catalog.entries import COMMENTS, SCHEMAS, TableEntry
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.parse import statements
from kpg.compiler.sql.parse.definitions import DropOther
from kpg.execute.definitions.domains import drop_domain
from kpg.execute.definitions.drop import drop_relations
from kpg.execute.definitions.indexes import drop_index, empty_unique_indexes
from kpg.execute.definitions.schema_statements import drop_schema
from kpg.execute.definitions.sequences import drop_sequence
from kpg.execute.definitions.user_types import drop_type
from kpg.execute.queries.cursors import check_unused
from kpg.runtime.errors import ProgrammingError, Span
from kpg.session.engine import Engine


def drop_other(engine: Engine, statement: ast.DropOther) -> None:
    """Run DROP SEQUENCE, TYPE, DOMAIN, SCHEMA or INDEX."""
    for name in statement.names:
        match statement.kind:
            case "SEQUENCE":
                drop_sequence(engine, statement, name)
            case "TYPE":
                drop_type(engine, statement, name)
            case "DOMAIN":
                drop_domain(engine, statement, name)
            case "SCHEMA":
                drop_schema(engine, statement, name.lower())
            case _:
                drop_index(engine, statement, name)


def truncate(engine: Engine, statement: ast.Truncate) -> Result:
    """Run TRUNCATE."""
    check_unused(engine, statement.tables, "TRUNCATE", statement.span)
    catalog = engine.catalog
    names = tables_to_truncate(engine, statement)
    rows = 0
    for name in names:
        table = engine.table(name)
        rowids = engine.executor.tables.rowids(name)
        rows += int(rowids.shape[0])
        table.truncate(rowids)
        guard = table.guard
        if guard is not None and guard.expression_keys:
            empty_unique_indexes(engine, table.name)
        if statement.restart:
            for rule in catalog.table(name).constraints.rules:
                if rule.sequence:
                    at = engine.sequences.next.get(rule.sequence)
                    engine.sequences.restart(rule.sequence)
                    engine.journal.add(undo=partial(engine.sequences.restart, rule.sequence, at))
    return row_count_result(rows)


def tables_to_truncate(engine: Engine, statement: ast.Truncate) -> set[str]:
    """Return the named tables with their partitions, and with CASCADE all tables that refer to them."""
    catalog = engine.catalog
    tables = {catalog.table(name, statement.span).name for name in statement.tables}
    if catalog.partitions:
        tables |= {child for name in tables for child in descendant_tables(catalog.partitions, name)}
    pending = list(tables)
    while pending:
        name = pending.pop()
        users = (
            engine.tables.foreign_keys.referring_keys(name) if engine.tables.references is not None else []
        )
        for link in users:
            if link.table in tables:
                continue
            if not statement.cascade:
                raise ProgrammingError(
                    f"table {name} cannot be truncated: FOREIGN KEY {link.key.name} of table {link.table} "
                    "refers to it",
                    span=statement.span,
                    hint=f"truncate {link.table} at the same time, or use CASCADE",
                )
            tables.add(link.table)
            pending.append(link.table)
    return tables


def comment(engine: Engine, statement: ast.Comment) -> None:
    """Run COMMENT."""
    catalog = engine.catalog
    key: tuple[str, ...] = (statement.kind, statement.name.lower())
    match statement.kind:
        case "TABLE" | "VIEW" | "MATERIALIZED VIEW" | "COLUMN":
            entry = catalog.get(statement.name, statement.span)
            key = ("RELATION", entry.name.lower())
            if statement.kind == "COLUMN":
                if statement.part.lower() not in (name.lower() for name in entry.schema.names):
                    message = f'column "{statement.part}" of "{entry.name}" does not exist'
                    raise ProgrammingError(message, span=statement.span)
                key = ("COLUMN", entry.name.lower(), statement.part.lower())
            elif statement.kind == "MATERIALIZED VIEW" and not getattr(entry, "materialized", False):
                raise ProgrammingError(f'"{entry.name}" is not a materialized view', span=statement.span)
            elif (statement.kind == "TABLE") != isinstance(entry, TableEntry):
                kind = "table" if isinstance(entry, TableEntry) else "view"
                raise ProgrammingError(f'"{entry.name}" is a {kind}', span=statement.span)
        case "CONSTRAINT":
            table = catalog.table(statement.name, statement.span)
            if statement.part.lower() not in (constraint.name.lower() for constraint in table.constraints):
                message = f'constraint "{statement.part}" of "{table.name}" does not exist'
                raise ProgrammingError(message, span=statement.span)
            key = ("CONSTRAINT", table.name.lower(), statement.part.lower())
        case "POLICY":
            relation = catalog.get(statement.name, statement.span)
            key = (statement.kind, relation.name.lower(), statement.part.lower())
            if key[1:] not in catalog.policies:
                message = f'policy "{statement.part}" for table "{relation.name}" does not exist'
                raise ProgrammingError(message, span=statement.span)
        case "DOMAIN CONSTRAINT":
            key = (*key, statement.part.lower())
        case "FUNCTION" | "ROUTINE":
            schema, _, plain = statement.name.rpartition(".")
            if not catalog.find_routines(plain, schema):
                raise ProgrammingError(f'function "{statement.name}" does not exist', span=statement.span)
            key = ("FUNCTION", plain.lower())
        case "SEQUENCE":
            catalog.sequence(statement.name, statement.span)
        case "SCHEMA" if statement.name.lower() not in catalog.schemas:
            raise ProgrammingError(
                f'schema "{statement.name}" does not exist', span=statement.span, sqlstate="3F000"
            )
        case _:
            pass
    if statement.text:
        catalog.apply(COMMENTS.put(key, statement.text))
    else:
        catalog.apply(COMMENTS.remove(key))


NOWHERE = Span("", 0, 0)


def set_on_commit(
    engine: "Engine", name: str, statement: statements.CreateTable | statements.CreateTableAs
) -> None:
    """Register the ON COMMIT action of a new table."""
    if not statement.on_commit:
        engine.on_commit_actions.pop(name, None)
        return
    if not statement.temporary:
        error = ProgrammingError("ON COMMIT can only be used on temporary tables", span=statement.span)
        error.sqlstate = "42P16"
        raise error
    engine.on_commit_actions[name] = partial(_run_on_commit, engine, name, statement.on_commit)


def _run_on_commit(engine: Engine, name: str, action: str) -> None:
    """Run ON COMMIT DROP, or DELETE ROWS, of a temporary table."""
    entry = engine.catalog.entries.get(name.lower())
    if not isinstance(entry, TableEntry):
        del engine.on_commit_actions[name]
    elif action == "DROP":
        del engine.on_commit_actions[name]
        with engine.journal.writing():
            drop_relations(engine, statements.Drop("TABLE", (name,), True, True, NOWHERE))
    elif engine.executor.tables.count(name):
        table = engine.table(name)
        guard, table.guard = table.guard, None
        table.delete(engine.executor.tables.rowids(name))
        table.guard = guard
        if guard is not None and guard.expression_keys:
            empty_unique_indexes(engine, name)


def drop_temporary(engine: "Engine") -> None:
    """Drop the temporary objects of the current session."""
    catalog, schema = engine.catalog, engine.catalog.temporary_schema
    if schema not in catalog.schemas:
        return
    engine.plan_cache.invalidate()
    with engine.transactions.statement(changes=True), engine.journal.writing():
        for name in [one for one in catalog.entries if one.startswith(f"{schema}.")]:
            if name in catalog.entries:
                kind = "TABLE" if isinstance(catalog.entries[name], TableEntry) else "VIEW"
                drop_relations(engine, statements.Drop(kind, (name,), True, True, NOWHERE))
        for name in [one for one in catalog.sequences if one.startswith(f"{schema}.")]:
            drop_sequence(engine, DropOther("SEQUENCE", (name,), True, True, NOWHERE), name)
        for key in catalog.privileges.owners:
            if key[1].startswith(f"{schema}."):
                catalog.apply(*catalog.privileges.ops_to_remove(key))
        catalog.apply(SCHEMAS.remove(schema))
