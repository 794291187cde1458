"""CREATE, ALTER and DROP SEQUENCE."""

from dataclasses import replace
from functools import partial

from kpg.compiler.catalog.constraints import Sequence
from kpg.compiler.catalog.entries import SEQUENCES, TableEntry
from kpg.compiler.qualified_names import sibling_name
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.parse.tables import apply_sequence_options, make_sequence
from kpg.compiler.sql.rewrite.name_qualification import uses_sequence
from kpg.execute.definitions.indexes import check_not_other_kind
from kpg.execute.definitions.rename import rename_sequence
from kpg.runtime.errors import ProgrammingError
from kpg.session.engine import Engine
from kpg.session.notices import notice_cascade, notice_existing, notice_missing, notice_missing_relation


def create_sequence(engine: Engine, statement: ast.CreateSequence) -> None:
    """Run CREATE SEQUENCE."""
    catalog = engine.catalog
    name = catalog.qualify_new_name(statement.name, temporary=statement.temporary, span=statement.span)
    if name.lower() in catalog.sequences or name in catalog:
        if statement.if_not_exists:
            notice_existing(engine, name)
            return
        raise ProgrammingError(f'relation "{name}" already exists', span=statement.span)
    sequence = replace(make_sequence(name, statement.options, "bigint", statement.span), name=name)
    catalog.apply(SEQUENCES.put(name.lower(), _with_owner(engine, sequence)))
    engine.journal.add(undo=engine.sequences.remove(name))


def _with_owner(engine: Engine, sequence: Sequence) -> Sequence:
    if sequence.owner is None:
        return sequence
    table = engine.catalog.table(sequence.owner[0])
    return replace(sequence, owner=(table.name, sequence.owner[1]))


def alter_sequence(engine: Engine, statement: ast.AlterSequence) -> None:
    """Run ALTER SEQUENCE."""
    catalog = engine.catalog
    old = catalog.find_sequence(statement.name)
    if old is None:
        if statement.if_exists:
            notice_missing_relation(engine, statement.name)
            return
        catalog.sequence(statement.name, statement.span)
        return
    if statement.rename:
        rename_sequence(engine, old, sibling_name(old.name, statement.rename))
        return
    new = _with_owner(engine, apply_sequence_options(old, statement.options, statement.span, new=False))
    catalog.apply(SEQUENCES.put(old.name.lower(), new))
    options = dict(statement.options)
    at = engine.sequences.next.get(old.name)
    if "restart" in options:
        value = options["restart"]
        engine.sequences.restart(old.name, value if isinstance(value, int) else None)
        engine.journal.add(undo=partial(engine.sequences.restart, old.name, at))
    elif at is None:
        # An unused sequence keeps its former start value.
        engine.sequences.restart(old.name, old.start)
    elif new.increment != old.increment:
        engine.sequences.change_increment(old, new)
        engine.journal.add(undo=partial(engine.sequences.change_increment, new, old))


def drop_sequence(engine: Engine, statement: ast.DropOther, name: str) -> None:
    """Run DROP SEQUENCE; with CASCADE, DEFAULTs that use it are dropped."""
    catalog = engine.catalog
    found = catalog.find_sequence(name)
    if found is None:
        check_not_other_kind(engine, name, statement)
        if not statement.if_exists:
            catalog.sequence(name, statement.span)
        notice_missing(engine, "sequence", name)
        return
    for entry in catalog:
        if not isinstance(entry, TableEntry):
            continue
        for place, rule in enumerate(entry.constraints.rules):
            if not uses_sequence(rule.default, found.name) and rule.sequence != found.name:
                continue
            if not statement.cascade or rule.identity:
                raise ProgrammingError(
                    f'sequence "{found.name}" cannot be dropped: column {entry.schema.names[place]} of table '
                    f"{entry.name} takes its numbers",
                    span=statement.span,
                    hint="drop that DEFAULT first, or use CASCADE",
                )
            column, table = entry.schema.names[place], catalog.unqualified_name(entry.name)
            notice_cascade(engine, [f"default value for column {column} of table {table}"])
            rules = list(entry.constraints.rules)
            rules[place] = replace(rule, default="", sequence="")
            entry = replace(entry, constraints=replace(entry.constraints, rules=tuple(rules)))
            catalog.replace(entry)
    catalog.apply(SEQUENCES.remove(found.name.lower()))
    engine.journal.add(undo=engine.sequences.remove(found.name))
