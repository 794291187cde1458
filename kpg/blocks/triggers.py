"""Triggers and rules: what is done before, after and instead of changes."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpg.blocks.frame import Frame, Record, Value, Variable, row_words
from kpg.blocks.returning import Returned
from kpg.changing import Changes
from kpg.compiler.catalog import Entry, ViewEntry
from kpg.compiler.sql import definitions as ast
from kpg.compiler.sql import statements
from kpg.compiler.sql.blocks.tree import Dynamic
from kpg.compiler.triggers import Deed, Trigger
from kpg.engine import Engine
from kpg.runtime.errors import NotSupportedError, ProgrammingError
from kpg.runtime.types import BIGINT, NULL, TEXT, Kind, Schema, Type, array

Words = NDArray[np.int64]
TRIGGER = Type(Kind.ENUM, name="trigger")
Row = Sequence[int] | None


def define_trigger(engine: Engine, statement: ast.CreateTrigger | ast.DropTrigger) -> None:
    """CREATE or DROP a trigger or a rule."""
    catalog = engine.catalog
    if isinstance(statement, ast.CreateTrigger):
        made = statement.made
        entry = catalog.get(made.table, statement.span)
        kind = "trigger" if isinstance(made, Trigger) else "rule"
        if isinstance(made, Trigger):
            _check(engine, made, entry)
        key = (kind, entry.name.lower(), made.name.lower())
        if key in catalog.others and not statement.or_replace:
            message = f'{kind} "{made.name}" for relation "{entry.name}" already exists'
            raise ProgrammingError(message, span=statement.span)
        catalog.others[key] = replace(made, table=entry.name)
        return
    found = catalog.find(statement.table)
    key = (statement.kind, "" if found is None else found.name.lower(), statement.name.lower())
    if key not in catalog.others:
        if statement.if_exists:
            return
        message = f'{statement.kind} "{statement.name}" for table "{statement.table}" does not exist'
        raise ProgrammingError(message, span=statement.span)
    del catalog.others[key]


def _check(engine: Engine, made: Trigger, entry: Entry) -> None:
    schema, _, name = made.function.rpartition(".")
    known = engine.catalog.find_routines(name, schema)
    if not known:
        raise ProgrammingError(f"function {made.function}() does not exist")
    if known[0].result.name != "trigger":
        raise ProgrammingError(f"function {made.function} must return type trigger")
    if made.for_rows and ("partitioned", entry.name.lower(), "") in engine.catalog.others:
        raise NotSupportedError(
            f'a trigger for rows of "{entry.name}", which is partitioned, is not supported',
            hint="make one for each partition",
        )
    is_view = isinstance(entry, ViewEntry)
    if is_view and (made.timing != "INSTEAD" and made.for_rows):
        raise ProgrammingError(f'"{entry.name}" is a view', hint="views have INSTEAD OF triggers for rows")
    if not is_view and made.timing == "INSTEAD":
        raise ProgrammingError(f'"{entry.name}" is a table', hint="tables cannot have INSTEAD OF triggers")


class Actions:
    """The triggers and rules of one relation, for one statement."""

    def __init__(self, engine: Engine, entry: Entry, columns: Sequence[str] | None) -> None:
        self.engine = engine
        self.evaluator = engine.procedures.evaluator
        self.entry = entry
        self._columns = None if columns is None else {column.lower() for column in columns}
        name = entry.name.lower()
        mine = sorted((key, one) for key, one in engine.catalog.others.items() if key[1] == name)
        self.triggers = [one for _, one in mine if isinstance(one, Trigger) and one.enabled]
        self.rules = [one for _, one in mine if isinstance(one, Deed)]

    def __bool__(self) -> bool:
        return bool(self.triggers or self.rules)

    def instead(self, event: str) -> bool:
        """Whether something is done in the place of an event of a view."""
        acts = any(one.timing == "INSTEAD" and event in one.events for one in self.triggers)
        return acts or any(one.instead and one.event == event for one in self.rules)

    def before_statement(self, event: str) -> None:
        """Triggers before a statement."""
        for trigger in self._of("BEFORE", event, for_rows=False):
            self._fire(trigger, event, None, None)

    def after_statement(self, event: str) -> None:
        """Triggers after a statement that tells no rows."""
        for trigger in self._of("AFTER", event, for_rows=False):
            self._fire(trigger, event, None, None)

    def before_insert(self, words: Words) -> Words:
        """The rows to insert, as triggers have them."""
        return self._before("INSERT", None, words)[1]

    def before_update(self, rowids: Words, words: Words) -> tuple[Words, Words]:
        """The rows to change, and what they become."""
        return self._before("UPDATE", rowids, words)

    def before_delete(self, rowids: Words) -> Words:
        """The rows to delete."""
        triggers = self._of("BEFORE", "DELETE", for_rows=True)
        if not triggers:
            return rowids
        old = self.engine.executor.fetch(self.entry.name, rowids)
        kept = []
        for place in range(rowids.shape[0]):
            row = old[:, place].tolist()
            if all(self._fire(one, "DELETE", row, None, ("",)) is not None for one in triggers):
                kept.append(place)
        return np.ascontiguousarray(rowids[kept])

    def _before(self, event: str, rowids: Words | None, words: Words) -> tuple[Words, Words]:
        ids = np.empty(words.shape[1], np.int64) if rowids is None else rowids
        triggers = self._of("BEFORE", event, for_rows=True)
        if not triggers or not words.shape[1]:
            return ids, words
        old = None if rowids is None else self.engine.executor.fetch(self.entry.name, rowids)
        rows: list[list[int]] = []
        kept: list[int] = []
        for place in range(words.shape[1]):
            before = None if old is None else old[:, place].tolist()
            row: list[int] | None = words[:, place].tolist()
            for trigger in triggers:
                assert row is not None
                row = self._fire(trigger, event, before, row, row)
                if row is None:
                    break
            if row is not None:
                kept.append(place)
                rows.append(row)
        made = np.array(rows, np.int64).reshape(len(rows), words.shape[0]).T
        return np.ascontiguousarray(ids[kept]), np.ascontiguousarray(made)

    def apply(self, changes: Changes) -> None:
        """Make changes, and do what is to be done beside them."""
        parts = self._parts(changes)
        left = changes
        for event, old, new in parts:
            left = self._rules(left, event, old, new)
        replace(left, actions=None).apply()
        for event, old, new in parts:
            self._after(event, old, new)

    def apply_instead(self, changes: Changes) -> None:
        """What is done in the place of changing a view."""
        for event, old, new in self._parts(changes):
            self._rules(changes, event, old, new)
            for trigger in self._of("INSTEAD", event, for_rows=True):
                for before, after in _pairs(old, new):
                    self._fire(trigger, event, before, after)

    def _parts(self, changes: Changes) -> list[tuple[str, Words | None, Words | None]]:
        """Events with the rows that were, and those that are to be."""
        fetch, name = self.engine.executor.fetch, changes.table.name
        found: list[tuple[str, Words | None, Words | None]] = []
        if changes.deleted is not None:
            found.append(("DELETE", fetch(name, changes.deleted), None))
        if changes.updated is not None:
            found.append(("UPDATE", fetch(name, changes.updated[0]), changes.updated[1]))
        if changes.inserted is not None:
            found.append(("INSERT", None, changes.inserted))
        return found

    def _rules(self, changes: Changes, event: str, old: Words | None, new: Words | None) -> Changes:
        """Run what rules say; the changes that are left."""
        for rule in self.rules:
            if rule.event != event:
                continue
            pairs = _pairs(old, new)
            chosen = [
                place
                for place, (before, after) in enumerate(pairs)
                if not rule.condition or self._is_true(rule.condition, event, before, after)
            ]
            for place in chosen:
                for text in rule.statements:
                    self.evaluator.run(self._frame(event, *pairs[place]), Dynamic(text))
            if rule.instead:
                changes = _without(changes, event, chosen)
        return changes

    def _after(self, event: str, old: Words | None, new: Words | None) -> None:
        rows = self._of("AFTER", event, for_rows=True)
        whole = self._of("AFTER", event, for_rows=False)
        if not rows and not whole:
            return
        pairs = _pairs(old, new) if rows else []
        attached = self._transition((*rows, *whole), old, new)
        try:
            for before, after in pairs:
                for trigger in rows:
                    self._fire(trigger, event, before, after)
            for trigger in whole:
                self._fire(trigger, event, None, None)
        finally:
            if attached:
                self.engine.release_attached()

    def _transition(self, triggers: Sequence[Trigger], old: Words | None, new: Words | None) -> bool:
        """Make the transition tables that triggers name."""
        columns = tuple(replace(column, nullable=True) for column in self.entry.schema.columns)
        made = False
        for trigger in triggers:
            for name, rows in ((trigger.old_rows, old), (trigger.new_rows, new)):
                if not name or rows is None or name.lower() in self.engine.catalog:
                    continue
                attached = self.engine.attach_table(name.lower(), Schema(columns))
                self.engine.table(attached).insert(np.ascontiguousarray(rows))
                made = True
        return made

    def _of(self, timing: str, event: str, *, for_rows: bool) -> list[Trigger]:
        return [
            one
            for one in self.triggers
            if one.timing == timing
            and event in one.events
            and one.for_rows is for_rows
            and (event != "UPDATE" or not one.columns or self._sets(one.columns))
        ]

    def _sets(self, columns: Sequence[str]) -> bool:
        return self._columns is None or any(column.lower() in self._columns for column in columns)

    def _is_true(self, condition: str, event: str, old: Row, new: Row) -> bool:
        return self.evaluator.truth(self._frame(event, old, new), condition)

    def _fire(self, trigger: Trigger, event: str, old: Row, new: Row, kept: Any = None) -> list[int] | None:
        """Run a trigger's function: the row that it gives; ``kept`` if its condition does not hold."""
        frame = self._frame(event, old, new)
        if trigger.condition and not self.evaluator.truth(frame, trigger.condition):
            return list(kept) if kept is not None else None
        schema, _, name = trigger.function.rpartition(".")
        (routine, *_) = self.engine.catalog.find_routines(name, schema)
        if trigger.arguments:
            routine = replace(routine, body=counted_from_one(routine.body))
        self._tell(frame, trigger, event)
        returned = Returned(TRIGGER, (), rows=False)
        self.engine.procedures.run_in(routine, frame, returned)
        value = returned.value
        if value is None or value.word == NULL or value.type.kind is not Kind.RECORD:
            return None
        words = row_words(value, self.evaluator.dictionary)
        wanted = self.entry.schema.types
        if len(words) != len(wanted):
            raise ProgrammingError(f'trigger "{trigger.name}" gives a row of {len(words)} columns')
        given = (Value(type_, word) for type_, word in zip(value.type.parts, words, strict=True))
        return [self.evaluator.cast(one, type_).word for one, type_ in zip(given, wanted, strict=True)]

    def _frame(self, event: str, old: Row, new: Row) -> Frame:
        frame = Frame("trigger")
        for name, row in (("old", old), ("new", new)):
            record = Record(name, self.entry.schema.names, self.entry.schema.types)
            record.missing = row is None
            if row is not None:
                record.words = list(row)
            frame.declare(name, record)
        return frame

    def _tell(self, frame: Frame, trigger: Trigger, event: str) -> None:
        """What a trigger's function knows beside the rows."""
        schema, _, plain = self.entry.name.rpartition(".")
        texts = {
            "tg_name": trigger.name,
            "tg_when": "INSTEAD OF" if trigger.timing == "INSTEAD" else trigger.timing,
            "tg_level": "ROW" if trigger.for_rows else "STATEMENT",
            "tg_op": event,
            "tg_relname": plain,
            "tg_table_name": plain,
            "tg_table_schema": schema or "public",
        }
        for name, text in texts.items():
            frame.declare(name, Variable(name, TEXT, self.evaluator.dictionary.code(text)))
        frame.declare("tg_nargs", Variable("tg_nargs", BIGINT, len(trigger.arguments)))
        frame.declare("tg_argv", self._arguments(trigger))

    def _arguments(self, trigger: Trigger) -> Variable:
        """The arguments, which are counted from 0 in Postgres and here with one more in front."""
        from kpg.blocks.frame import word_of
        from kpg.runtime.values.arrays import of

        type_ = array(TEXT)
        word = word_of(of(trigger.arguments), type_, self.evaluator.dictionary)
        return Variable("tg_argv", type_, word)


def counted_from_one(body: str) -> str:
    """A body whose TG_ARGV is counted as all arrays are here: in Postgres its first element has number 0."""
    return re.sub(r"(\btg_argv\s*\[)([^\]]*)\]", r"\1(\2) + 1]", body, flags=re.IGNORECASE)


def _pairs(old: Words | None, new: Words | None) -> list[tuple[Row, Row]]:
    """The rows before and after, one by one."""
    count = (old if old is not None else new if new is not None else np.empty((0, 0))).shape[1]
    return [
        (None if old is None else old[:, place].tolist(), None if new is None else new[:, place].tolist())
        for place in range(count)
    ]


def _without(changes: Changes, event: str, places: Sequence[int]) -> Changes:
    """Changes without some rows of an event."""

    def rest(words: Words) -> Words:
        return np.ascontiguousarray(np.delete(words, list(places), axis=-1))

    if event == "DELETE" and changes.deleted is not None:
        return replace(changes, deleted=rest(changes.deleted))
    if event == "UPDATE" and changes.updated is not None:
        rowids, words = changes.updated
        return replace(changes, updated=(rest(rowids), rest(words)))
    if event == "INSERT" and changes.inserted is not None:
        return replace(changes, inserted=rest(changes.inserted))
    return changes


def actions_of(engine: Engine, statement: statements.Change) -> Actions | None:
    """What is to be done beside a statement; None if nothing is."""
    entry = engine.catalog.find(statement.table)
    if entry is None:
        return None
    columns = None
    if isinstance(statement, statements.Update):
        columns = [target.name for target, _ in statement.assignments]
    return Actions(engine, entry, columns) or None


EVENTS = {statements.Insert: "INSERT", statements.Update: "UPDATE", statements.Delete: "DELETE"}


def through_actions(engine: Engine, statement: statements.Change) -> Changes | None:
    """What a change of a view with triggers or rules in its place does; None for anything else."""
    entry = engine.catalog.find(statement.table)
    event = EVENTS.get(type(statement), "")
    if not isinstance(entry, ViewEntry) or not event:
        return None
    actions = actions_of(engine, statement)
    if actions is None or not actions.instead(event):
        return None
    from kpg.changing import prepared

    columns = tuple(replace(column, nullable=True) for column in entry.schema.columns)
    attached = engine.attach_table(f"{entry.name} (rows)", Schema(columns))
    if event != "INSERT":
        rows = engine.procedures.evaluator.rows(Frame(""), Dynamic(f"SELECT * FROM {_quoted(entry.name)}"))
        engine.table(attached).insert(np.ascontiguousarray(rows.words))
    changes = prepared(engine, replace(statement, table=attached))
    return replace(changes, actions=Instead(actions))


def _quoted(name: str) -> str:
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


class Instead:
    """As actions, in the place of the changes."""

    def __init__(self, actions: Actions) -> None:
        self._actions = actions

    def apply(self, changes: Changes) -> None:
        """Do what triggers and rules say."""
        self._actions.apply_instead(changes)
        self._actions.engine.release_attached()
