"""CREATE, ALTER and DROP SEQUENCE."""

from dataclasses import replace
from functools import partial

from kpg.compiler.catalog.constraints import Sequence
from kpg.compiler.catalog.entries import TableEntry
from kpg.compiler.qualified_names import beside
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.parse.tables import created, settled
from kpg.compiler.sql.rewrite.name_qualification import asks_sequence
from kpg.execute.definitions.indexes import refuse_other_kind
from kpg.execute.definitions.rename import rename_sequence
from kpg.runtime.errors import ProgrammingError
from kpg.session.engine import Engine
from kpg.session.notices import say_cascade, say_missing, say_present, say_skipped_relation


def create_sequence(engine: Engine, statement: ast.CreateSequence) -> None:
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


def alter_sequence(engine: Engine, statement: ast.AlterSequence) -> None:
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


def drop_sequence(engine: Engine, statement: ast.DropOther, name: str) -> None:
    """DROP SEQUENCE; with CASCADE, DEFAULTs that take its numbers go with it."""
    catalog = engine.catalog
    found = catalog.find_sequence(name)
    if found is None:
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
