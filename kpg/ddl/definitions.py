"""Statements that define what is neither table nor view, or change what is: sequences, schemas, ALTER."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, assert_never

from kpg.compiler.catalog.constraints import Sequence
from kpg.compiler.catalog.entries import TableEntry
from kpg.compiler.catalog.qualified_names import Resolved, beside
from kpg.compiler.sql.parse import definitions
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.parse.tables import created, settled
from kpg.compiler.sql.rewrite.name_qualification import asks_sequence, sequence_call
from kpg.engine.engine import Engine
from kpg.listeners.notices import say_cascade, say_missing, say_present, say_skipped, say_skipped_relation
from kpg.result import Affected, Result
from kpg.runtime.errors import ProgrammingError

if TYPE_CHECKING:
    pass


def define(engine: Engine, statement: ast.AnyDefinition) -> Result | None:
    """Run one statement."""
    engine.check_defining("a definition")
    if isinstance(statement, definitions.AnyRole):
        from kpg.security.roles import run_roles

        run_roles(engine, statement)
        return None
    match statement:
        case ast.CreateSequence():
            _create_sequence(engine, statement)
        case ast.CreateEgoView():
            from kpg.ddl.egos import created

            created(engine, statement)
        case ast.AlterSequence():
            _alter_sequence(engine, statement)
        case ast.CreateSchema():
            _create_schema(engine, statement)
        case ast.CreateIndex():
            from kpg.ddl.in_use import check_unused
            from kpg.ddl.indexes import create_index

            check_unused(engine, (statement.table,), "CREATE INDEX", statement.span)
            create_index(engine, statement)
        case ast.CreateType():
            from kpg.ddl.user_types import create_type

            create_type(engine, statement)
        case ast.CreateDomain():
            from kpg.ddl.domains import create_domain

            create_domain(engine, statement)
        case ast.AlterDomain():
            from kpg.ddl.domains import alter_domain

            alter_domain(engine, statement)
        case ast.AlterUserType():
            from kpg.ddl.altering_types import alter_type

            alter_type(engine, statement)
        case ast.RenameSchema():
            from kpg.ddl.moving import rename_schema

            rename_schema(engine, statement)
        case ast.DropOther():
            for name in statement.names:
                _drop(engine, statement, name)
        case ast.Truncate():
            from kpg.ddl.in_use import check_unused

            check_unused(engine, statement.tables, "TRUNCATE", statement.span)
            return Affected(_truncate(engine, statement))
        case ast.Comment():
            _comment(engine, statement)
        case ast.Alter():
            from kpg.ddl.altering import alter
            from kpg.ddl.in_use import check_altered

            check_altered(engine, statement)
            alter(engine, statement)
        case ast.DefinePolicy():
            from kpg.security.securing import define_policy

            define_policy(engine, statement)
        case ast.CreateAggregate() | ast.DropAggregate():
            from kpg.ddl.aggregates import define_aggregate

            define_aggregate(engine, statement)
        case ast.CreateFunction() | ast.DropFunction() | ast.AlterFunction():
            from kpg.ddl.routines import run_routine

            run_routine(engine, statement)
        case _:
            assert_never(statement)
    return None


def _create_sequence(engine: Engine, statement: ast.CreateSequence) -> None:
    catalog = engine.catalog
    name = catalog.created(statement.name, temporary=statement.temporary, span=statement.span)
    if name.lower() in catalog.sequences or name in catalog:
        if statement.if_not_exists:
            say_present(engine, name)
            return
        raise ProgrammingError(f'relation "{name}" already exists', span=statement.span)
    catalog.sequences[name.lower()] = _with_owner(
        engine, replace(created(name, statement.options, "bigint", statement.span), name=name)
    )
    engine.journal.note(undo=engine.sequences.forget(name))


def _with_owner(engine: Engine, sequence: Sequence) -> Sequence:
    if sequence.owner is None:
        return sequence
    table = engine.catalog.table(sequence.owner[0])
    return replace(sequence, owner=(table.name, sequence.owner[1]))


def _alter_sequence(engine: Engine, statement: ast.AlterSequence) -> None:
    catalog = engine.catalog
    old = catalog.find_sequence(statement.name)
    if old is None:
        if statement.if_exists:
            say_skipped_relation(engine, statement.name)
            return
        catalog.sequence(statement.name, statement.span)
        return
    if statement.rename:
        rename_sequence(engine, old, beside(old.name, statement.rename))
        return
    new = _with_owner(engine, settled(old, statement.options, statement.span, new=False))
    catalog.sequences[old.name.lower()] = new
    options = dict(statement.options)
    at = engine.sequences.next.get(old.name)
    if "restart" in options:
        value = options["restart"]
        engine.sequences.restart(old.name, value if isinstance(value, int) else None)
        engine.journal.note(undo=partial(engine.sequences.restart, old.name, at))
    elif at is None:
        # A sequence that was never asked goes on with the start that it had.
        engine.sequences.restart(old.name, old.start)
    elif new.increment != old.increment:
        engine.sequences.stepped(old, new)
        engine.journal.note(undo=partial(engine.sequences.stepped, new, old))


def rename_sequence(engine: Engine, old: Sequence, new: Resolved) -> None:
    """Give a sequence another name, and have what asks it follow."""
    from kpg.compiler.sql.rewrite.deparse import SEQUENCE
    from kpg.ddl.renaming import follow

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


def _create_schema(engine: Engine, statement: ast.CreateSchema) -> None:
    name = statement.name.lower()
    if name in engine.catalog.schemas or name in ("pg_catalog", "information_schema"):
        if statement.if_not_exists:
            say_skipped(engine, f'schema "{name}" already exists', "42P06")
            return
        raise ProgrammingError(f'schema "{statement.name}" already exists', span=statement.span)
    if name.startswith("pg_"):
        raise ProgrammingError(f'schema name "{statement.name}" is reserved', span=statement.span)
    engine.catalog.schemas[name] = name
    if statement.elements:
        _create_elements(engine, statement, name)


def _create_elements(engine: Engine, statement: ast.CreateSchema, name: str) -> None:
    """What CREATE SCHEMA makes in the schema."""
    from kpg.compiler.sql.parse.parser import parse
    from kpg.statements.statements import execute

    path = engine.catalog.search_path
    engine.catalog.search_path = (name, *path)
    try:
        with engine.transactions.substatements():
            for text in statement.elements:
                for one in parse(text):
                    execute(engine, one)
    finally:
        engine.catalog.search_path = path


def _drop(engine: Engine, statement: ast.DropOther, name: str) -> None:
    match statement.kind:
        case "SEQUENCE":
            drop_sequence(engine, statement, name)
        case "TYPE":
            from kpg.ddl.user_types import drop_type

            drop_type(engine, statement, name)
        case "DOMAIN":
            from kpg.ddl.domains import drop_domain

            drop_domain(engine, statement, name)
        case "SCHEMA":
            from kpg.ddl.dropping import drop_schema

            drop_schema(engine, statement, name.lower())
        case _:
            from kpg.ddl.indexes import drop_index

            drop_index(engine, statement, name)


def drop_sequence(engine: Engine, statement: ast.DropOther, name: str) -> None:
    """DROP SEQUENCE; with CASCADE, DEFAULTs that take its numbers go with it."""
    catalog = engine.catalog
    found = catalog.find_sequence(name)
    if found is None:
        from kpg.ddl.indexes import refuse_other_kind

        refuse_other_kind(engine, name, statement)
        if not statement.if_exists:
            catalog.sequence(name, statement.span)
        say_missing(engine, "sequence", name)
        return
    for entry in list(catalog):
        if not isinstance(entry, TableEntry):
            continue
        for place, rule in enumerate(entry.constraints.rules):
            if not asks_sequence(rule.default, found.name) and rule.sequence != found.name:
                continue
            if not statement.cascade or rule.identity:
                raise ProgrammingError(
                    f'sequence "{found.name}" cannot be dropped: column {entry.schema.names[place]} of table '
                    f"{entry.name} takes its numbers",
                    span=statement.span,
                    hint="drop that DEFAULT first, or use CASCADE",
                )
            column, table = entry.schema.names[place], catalog.plain(entry.name)
            say_cascade(engine, [f"default value for column {column} of table {table}"])
            rules = list(entry.constraints.rules)
            rules[place] = replace(rule, default="", sequence="")
            entry = replace(entry, constraints=replace(entry.constraints, rules=tuple(rules)))
            catalog.replace(entry)
    del catalog.sequences[found.name.lower()]
    engine.journal.note(undo=engine.sequences.forget(found.name))


def _truncate(engine: Engine, statement: ast.Truncate) -> int:
    catalog = engine.catalog
    chosen = to_truncate(engine, statement)
    rows = 0
    for name in chosen:
        table = engine.table(name)
        rowids = engine.executor.rowids(name)
        rows += int(rowids.shape[0])
        table.truncate(rowids)
        guard = table.guard
        if guard is not None and guard.expression_keys:
            from kpg.ddl.unique_expressions import empty_unique_indexes

            empty_unique_indexes(engine, table.name)
        if statement.restart:
            for rule in catalog.table(name).constraints.rules:
                if rule.sequence:
                    at = engine.sequences.next.get(rule.sequence)
                    engine.sequences.restart(rule.sequence)
                    engine.journal.note(undo=partial(engine.sequences.restart, rule.sequence, at))
    return rows


def to_truncate(engine: Engine, statement: ast.Truncate) -> set[str]:
    """The tables that are named, their partitions, and with CASCADE all that refers to one."""
    catalog = engine.catalog
    chosen = {catalog.table(name, statement.span).name for name in statement.tables}
    if catalog.others:
        from kpg.compiler.catalog.constraints import heirs

        chosen |= {heir for name in chosen for heir in heirs(catalog.others, name)}
    pending = list(chosen)
    while pending:
        name = pending.pop()
        users = engine.references.users(name) if "references" in engine.__dict__ else []
        for link in users:
            if link.table in chosen:
                continue
            if not statement.cascade:
                raise ProgrammingError(
                    f"table {name} cannot be truncated: FOREIGN KEY {link.key.name} of table {link.table} "
                    "refers to it",
                    span=statement.span,
                    hint=f"truncate {link.table} at the same time, or use CASCADE",
                )
            chosen.add(link.table)
            pending.append(link.table)
    return chosen


def _comment(engine: Engine, statement: ast.Comment) -> None:
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
            if statement.part.lower() not in (one.name.lower() for one in table.constraints):
                message = f'constraint "{statement.part}" of "{table.name}" does not exist'
                raise ProgrammingError(message, span=statement.span)
            key = ("CONSTRAINT", table.name.lower(), statement.part.lower())
        case "POLICY":
            relation = catalog.get(statement.name, statement.span)
            key = (statement.kind, relation.name.lower(), statement.part.lower())
            if (statement.kind.lower(), *key[1:]) not in catalog.others:
                kind = statement.kind.lower()
                message = f'{kind} "{statement.part}" for table "{relation.name}" does not exist'
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
            raise ProgrammingError(f'schema "{statement.name}" does not exist', span=statement.span)
        case _:
            pass
    if statement.text:
        catalog.comments[key] = statement.text
    else:
        catalog.comments.pop(key, None)
