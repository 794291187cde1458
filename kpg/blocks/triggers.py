"""Triggers: what is done before, after and instead of changes."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kpg.blocks.actions import Actions
from kpg.blocks.frame import Frame
from kpg.compiler.catalog import Entry, ViewEntry
from kpg.compiler.resolved import written
from kpg.compiler.sql import definitions as ast
from kpg.compiler.sql import statements
from kpg.compiler.sql.anchoring import trigger_function
from kpg.compiler.sql.blocks.tree import Dynamic
from kpg.compiler.triggers import Trigger
from kpg.dml.changing import Changes
from kpg.engine.engine import Engine
from kpg.listeners.notices import say_skipped, say_skipped_relation
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.types import Kind, Schema, Type

Words = NDArray[np.int64]
TRIGGER = Type(Kind.ENUM, name="trigger")
Row = Sequence[int] | None


def define_trigger(
    engine: Engine, statement: ast.CreateTrigger | ast.DropTrigger | ast.RenameTrigger
) -> None:
    """CREATE or DROP a trigger, or give a trigger another name."""
    catalog = engine.catalog
    if isinstance(statement, ast.RenameTrigger):
        _rename(engine, statement)
        return
    if isinstance(statement, ast.CreateTrigger):
        made = statement.made
        entry = catalog.get(made.table, statement.span)
        _check(engine, made, entry)
        made = replace(made, function=trigger_function(made.function, catalog))
        key = ("trigger", entry.name.lower(), made.name.lower())
        if key in catalog.others and not statement.or_replace:
            message = f'trigger "{made.name}" for relation "{entry.name}" already exists'
            raise ProgrammingError(message, span=statement.span)
        catalog.others[key] = replace(made, table=entry.name)
        return
    found = catalog.find(statement.table)
    key = ("trigger", "" if found is None else found.name.lower(), statement.name.lower())
    if key not in catalog.others:
        if found is None and statement.if_exists:
            say_skipped_relation(engine, statement.table)
            return
        if found is None:
            catalog.get(statement.table, statement.span)
        shown = statement.table.rpartition(".")[2]
        if statement.if_exists:
            say_skipped(engine, f'trigger "{statement.name}" for relation "{shown}" does not exist')
            return
        error = ProgrammingError(
            f'trigger "{statement.name}" for table "{shown}" does not exist', span=statement.span
        )
        error.sqlstate = "42704"
        raise error
    del catalog.others[key]


def _rename(engine: Engine, statement: ast.RenameTrigger) -> None:
    catalog = engine.catalog
    entry = catalog.get(statement.table, statement.span)
    key = ("trigger", entry.name.lower(), statement.name.lower())
    if key not in catalog.others:
        message = f'trigger "{statement.name}" for table "{entry.name}" does not exist'
        raise ProgrammingError(message, span=statement.span)
    new = (*key[:2], statement.new.lower())
    if new in catalog.others:
        message = f'trigger "{statement.new}" for relation "{entry.name}" already exists'
        raise ProgrammingError(message, span=statement.span)
    catalog.others[new] = replace(catalog.others.pop(key), name=statement.new)


def _check(engine: Engine, made: Trigger, entry: Entry) -> None:
    schema, _, name = made.function.rpartition(".")
    known = engine.catalog.find_routines(name, schema)
    if not known:
        raise ProgrammingError(f"function {made.function}() does not exist")
    if known[0].result.name != "trigger":
        raise ProgrammingError(f"function {made.function} must return type trigger")
    is_view = isinstance(entry, ViewEntry)
    if is_view and (made.timing != "INSTEAD" and made.for_rows):
        raise ProgrammingError(f'"{entry.name}" is a view', hint="views have INSTEAD OF triggers for rows")
    if not is_view and made.timing == "INSTEAD":
        raise ProgrammingError(f'"{entry.name}" is a table', hint="tables cannot have INSTEAD OF triggers")


def actions_of(engine: Engine, statement: statements.Change, *, whole: bool = True) -> Actions | None:
    """What is to be done beside a statement; None if nothing is."""
    entry = engine.catalog.find(statement.table)
    if entry is None:
        return None
    columns = None
    if isinstance(statement, statements.Update):
        columns = [target.name for target, _ in statement.assignments]
    return Actions(engine, entry, columns, whole=whole) or None


EVENTS = {statements.Insert: "INSERT", statements.Update: "UPDATE", statements.Delete: "DELETE"}


def through_actions(engine: Engine, statement: statements.Change) -> Changes | None:
    """What a change of a view with triggers in its place does; None for anything else."""
    entry = engine.catalog.find(statement.table)
    event = EVENTS.get(type(statement), "")
    if not isinstance(entry, ViewEntry) or not event:
        return None
    actions = actions_of(engine, statement)
    if actions is None or not actions.instead(event):
        return None
    from kpg.dml.changing import prepared

    columns = tuple(replace(column, nullable=True) for column in entry.schema.columns)
    attached = engine.attach_table(f"{entry.name} (rows)", Schema(columns))
    if event != "INSERT":
        rows = engine.procedures.evaluator.rows(Frame(""), Dynamic(f"SELECT * FROM {written(entry.name)}"))
        engine.table(attached).insert(np.ascontiguousarray(rows.words))
    if isinstance(statement, statements.Insert) and entry.defaults:
        from kpg.compiler.sql.given import given_width
        from kpg.compiler.sql.through import with_defaults

        width = given_width(statement.query.query) or len(entry.schema.names)
        named = statement.columns or entry.schema.names[:width]
        named, statement = with_defaults(statement, named, dict(entry.defaults))
        statement = replace(statement, columns=named)
    changes = prepared(engine, replace(statement, table=attached))
    return replace(changes, actions=Instead(actions))


class Instead:
    """As actions, in the place of the changes."""

    def __init__(self, actions: Actions) -> None:
        self._actions = actions

    def apply(self, changes: Changes) -> None:
        """Do what triggers say."""
        self._actions.apply_instead(changes)
        self._actions.engine.release_attached()
