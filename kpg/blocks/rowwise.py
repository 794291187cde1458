"""Changes row by row, where triggers run before rows: each sees what those before it have become.

The rows are changed when the statement is prepared; what is left to apply is what comes after it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.blocks.actions import Actions, Part
from kpg.compiler.sql import statements as ast
from kpg.compiler.sql.change import nothing
from kpg.dml.changing import (
    Changes,
    Returned,
    found_rows,
    given_words,
    insertion,
    shown_again,
    updating,
)
from kpg.dml.merging import merge_changes
from kpg.dml.modify import checked
from kpg.engine.engine import Engine
from kpg.engine.table import Table
from kpg.result import Affected, Result
from kpg.runtime.errors import ProgrammingError

Words = NDArray[np.int64]
EVENTS: Final = {
    ast.Insert: ("INSERT",),
    ast.Update: ("UPDATE",),
    ast.Delete: ("DELETE",),
    ast.Merge: ("INSERT", "UPDATE", "DELETE"),
}


class RowByRow:
    """What a statement has changed, as changes that are still to be told."""

    updated = None
    deleted = None
    inserted = None

    def __init__(self, engine: Engine, table: Table, actions: Actions) -> None:
        self._engine = engine
        self.table = table
        self.actions = actions
        self.parts: list[Part] = []
        self.count = 0
        self.returned: Returned | None = None
        self.moved: list[Any] = []
        """What goes to other partitions."""

    def take(self, changes: Changes) -> None:
        """Make changes of a row."""
        self.count += changes.count
        self.parts += self.actions.made(changes)

    def give(self, returned: Returned | None) -> None:
        """Return more rows."""
        if returned is not None and self.returned is not None:
            words = np.concatenate((self.returned.words, returned.words), axis=1)
            returned = replace(self.returned, words=words)
        self.returned = returned or self.returned

    def apply(self) -> None:
        """Do what comes after the changes."""
        self.actions.after(self.parts)
        for one in self.moved:
            one.apply()

    def result(self) -> Result:
        """What the statement gives."""
        if self.returned is None:
            return Affected(self.count)
        result = Changes(self.table, returned=self.returned).result()
        result.affected = self.count
        return result


def row_by_row(engine: Engine, statement: ast.Change, actions: Actions) -> RowByRow | None:
    """Run a statement row by row; None if nothing is done before rows."""
    events = EVENTS[type(statement)]
    if isinstance(statement, ast.Insert) and statement.conflict and statement.conflict.assignments:
        events = ("INSERT", "UPDATE")
    if not actions.is_rowwise(events):
        return None
    table = engine.table(statement.table)
    for event in _statement_events(statement, events):
        actions.before_statement(event)
    match statement:
        case ast.Insert():
            statement, words = given_words(engine, table, statement)
            return inserted_rows(engine, table, statement, words, actions)
        case ast.Update():
            planned, data = found_rows(engine, statement)
            changes = updating(engine, table, statement, planned, data)
            return _updated(engine, changes, statement, actions)
        case ast.Delete():
            planned, data = found_rows(engine, statement)
            rowids, first = np.unique(data[0], return_index=True)
            names, types = planned.schema.names[1:], planned.schema.types[1:]
            returned = Returned(names, types, data[1:, first]) if statement.returning else None
            return _deleted(engine, Changes(table, deleted=rowids, returned=returned), actions)
        case ast.Merge():
            return _merged(engine, merge_changes(engine, table, statement), statement, actions)
        case _:
            assert_never(statement)


def _statement_events(statement: ast.Change, events: Sequence[str]) -> Sequence[str]:
    """The events that a statement may have, whether or not there is such a row."""
    if not isinstance(statement, ast.Merge):
        return events
    does = {
        "INSERT": any(when.values is not None for when in statement.whens),
        "UPDATE": any(when.assignments for when in statement.whens),
        "DELETE": any(when.deletes for when in statement.whens),
    }
    return [event for event in events if does[event]]


def inserted_rows(
    engine: Engine, table: Table, statement: ast.Insert, words: Words, actions: Actions
) -> RowByRow:
    """Insert rows one by one."""
    done = RowByRow(engine, table, actions)
    for row in _columns(words):
        changes = insertion(engine, table, statement, row, actions)
        done.take(changes)
        done.give(changes.returned)
    return done


def _updated(engine: Engine, changes: Changes, statement: ast.Update, actions: Actions) -> RowByRow:
    assert changes.updated is not None
    table = changes.table
    done = RowByRow(engine, table, actions)
    rowids, words = changes.updated
    shown = shown_again(engine, table, statement)
    for place in range(max(1, rowids.shape[0])):
        _need_live(engine, table, rowids[place : place + 1])
        ids, new = actions.before_update(
            np.ascontiguousarray(rowids[place : place + 1]), np.ascontiguousarray(words[:, place : place + 1])
        )
        _need_live(engine, table, ids)
        new = checked(np.ascontiguousarray(new), table)
        if statement.whole and new.shape[1]:
            from kpg.inheritance.routing import stays

            if not stays(engine, statement.whole, table.name, new)[0]:
                done.moved.append(_moved(engine, done, statement.whole, ids, new))
                continue
        if table.guard is not None:
            new = table.guard.fitting(new)
        done.take(Changes(table, updated=(ids, new)))
        if shown is not None:
            done.give(shown(new))
        elif changes.returned is not None and ids.size:
            done.give(
                replace(
                    changes.returned,
                    words=np.ascontiguousarray(changes.returned.words[:, place : place + 1]),
                )
            )
    if done.returned is None and changes.returned is not None:
        done.give(replace(changes.returned, words=changes.returned.words[:, :0]))
    return done


def _moved(engine: Engine, done: RowByRow, whole: str, ids: Words, new: Words) -> Any:
    """Take a row to the partition that its new values are of."""
    from kpg.inheritance.routing import route_words

    kept = done.actions.before_delete(ids)
    if kept.size and "references" in vars(engine):
        engine.references.moves(done.table.name, new)
    done.parts += done.actions.made(Changes(done.table, deleted=kept))
    several = route_words(engine, whole, new if kept.size else new[:, :0])
    done.count += int(kept.size)
    return several


def _deleted(engine: Engine, changes: Changes, actions: Actions) -> RowByRow:
    assert changes.deleted is not None
    done = RowByRow(engine, changes.table, actions)
    rowids = changes.deleted
    for place in range(max(1, rowids.shape[0])):
        _need_live(engine, changes.table, rowids[place : place + 1])
        kept = actions.before_delete(np.ascontiguousarray(rowids[place : place + 1]))
        _need_live(engine, changes.table, kept)
        done.take(Changes(changes.table, deleted=kept))
        if changes.returned is not None:
            words = changes.returned.words[:, place : place + int(kept.size)]
            done.give(replace(changes.returned, words=np.ascontiguousarray(words)))
    return done


def _merged(engine: Engine, changes: Changes, statement: ast.Merge, actions: Actions) -> RowByRow:
    done, table, span = RowByRow(engine, changes.table, actions), changes.table, statement.span
    parts: list[RowByRow] = []
    if changes.deleted is not None:
        parts.append(_deleted(engine, Changes(table, deleted=changes.deleted), actions))
    if changes.updated is not None:
        whole = ast.Update(statement.table, statement.alias, (), (), None, span)
        parts.append(_updated(engine, Changes(table, updated=changes.updated), whole, actions))
    if changes.inserted is not None:
        given = ast.Insert(statement.table, statement.alias, (), ast.Select(nothing(), span), None, span)
        parts.append(inserted_rows(engine, table, given, changes.inserted, actions))
    done.parts = [part for one in parts for part in one.parts]
    done.count = sum(one.count for one in parts)
    return done


def _columns(words: Words) -> list[Words]:
    """The rows one by one; the empty one if there is none."""
    return [np.ascontiguousarray(words[:, place : place + 1]) for place in range(max(1, words.shape[1]))]


def _need_live(engine: Engine, table: Table, rowids: Words) -> None:
    if rowids.size and not engine.executor.live(table.name, rowids).size:
        error = ProgrammingError(
            "tuple to be updated was already modified by an operation triggered by the current command",
            hint="Consider using an AFTER trigger instead of a BEFORE trigger to propagate changes to other "
            "rows.",
        )
        error.sqlstate = "27000"
        raise error


class Acted:
    """A table whose triggers run when foreign keys change it."""

    def __init__(self, engine: Engine, table: Table, actions: Callable[[str], Actions]) -> None:
        self._engine = engine
        self._table = table
        self._actions = actions

    def delete(self, rowids: Words) -> None:
        """Delete live rows."""
        actions = self._actions("DELETE")
        actions.before_statement("DELETE")
        done = _deleted(self._engine, Changes(self._table, deleted=rowids), actions)
        self._engine.references.after.append(done.apply)

    def update(self, rowids: Words, words: Words) -> Words:
        """Put rows in the place of others; the rowids of those that are there now."""
        actions = self._actions("UPDATE")
        actions.before_statement("UPDATE")
        old = self._engine.executor.fetch(self._table.name, rowids)
        kept, new = actions.before_update(rowids, words)
        old = np.ascontiguousarray(old[:, np.isin(rowids, kept)])
        made = self._table.update(kept, checked(new, self._table))
        self._engine.references.after.append(lambda: actions.after([("UPDATE", old, new)]))
        return made


def acted(engine: Engine, table: Table) -> Table | Acted:
    """A table as foreign keys change it."""
    entry = engine.catalog.table(table.name)
    if not Actions(engine, entry, None).triggers:
        return table
    return Acted(engine, table, lambda _: Actions(engine, entry, None))
