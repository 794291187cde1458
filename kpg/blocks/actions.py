"""The triggers of one relation, and what they do for a statement."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.blocks.frame import Frame, Record, Value, Variable, row_words
from kpg.blocks.returning import Returned
from kpg.compiler.catalog import Catalog, Entry
from kpg.compiler.triggers import Trigger
from kpg.dml.changing import Changes
from kpg.engine.engine import Engine
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.types import BIGINT, NULL, TEXT, Kind, Schema, Type, array

Words = NDArray[np.int64]
TRIGGER: Final = Type(Kind.ENUM, name="trigger")
Row = Sequence[int] | None
Part = tuple[str, Words | None, Words | None]
"""An event with the rows that were, and those that are to be."""


class Actions:
    """The triggers of one relation, for one statement."""

    def __init__(
        self, engine: Engine, entry: Entry, columns: Sequence[str] | None, *, whole: bool = True
    ) -> None:
        """``columns`` are those that an UPDATE sets; if not ``whole`` the statement is another relation's."""
        self.engine = engine
        self.evaluator = engine.procedures.evaluator
        self.entry = entry
        self._columns = None if columns is None else {column.lower() for column in columns}
        self.triggers = [one for one in triggers_of(engine.catalog, entry.name) if whole or one.for_rows]

    def __bool__(self) -> bool:
        return bool(self.triggers)

    def instead(self, event: str) -> bool:
        """Whether something is done in the place of an event of a view."""
        return any(one.timing == "INSTEAD" and event in one.events for one in self.triggers)

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

    def is_rowwise(self, events: Sequence[str]) -> bool:
        """Whether something is done before rows, each of which sees the changes of those before it."""
        return any(self._of("BEFORE", event, for_rows=True) for event in events)

    def apply(self, changes: Changes) -> None:
        """Make changes, and do what is to be done beside them."""
        self.after(self.made(changes))

    def made(self, changes: Changes) -> list[Part]:
        """Make changes; what there is to be done after them."""
        parts = self._parts(changes)
        replace(changes, actions=None).apply()
        return parts

    def after(self, parts: Sequence[Part]) -> None:
        """Do what is to be done after changes: first for rows, then for statements."""
        if "references" in self.engine.__dict__:
            self.engine.references.act()
        together = _by_event(parts)
        for event, old, new in parts:
            triggers = self._of("AFTER", event, for_rows=True)
            with self._transition(triggers, *together[event]):
                for before, after in _pairs(old, new) if triggers else []:
                    for trigger in triggers:
                        fire = partial(self._fire, trigger, event, before, after)
                        if trigger.deferral and self._waits(trigger):
                            self.engine.references.late.append((trigger.name.lower(), fire))
                        else:
                            fire()
        for event, (old, new) in together.items():
            triggers = self._of("AFTER", event, for_rows=False)
            with self._transition(triggers, old, new):
                for trigger in triggers:
                    self._fire(trigger, event, None, None)
        if "references" in self.engine.__dict__:
            self.engine.references.finish()

    def _waits(self, trigger: Trigger) -> bool:
        """Whether a constraint trigger is to be run when the transaction ends."""
        return self.engine.references.is_deferred(trigger.name, deferred=trigger.deferral == "DEFERRED")

    def apply_instead(self, changes: Changes) -> None:
        """What is done in the place of changing a view."""
        for event, old, new in self._parts(changes):
            for trigger in self._of("INSTEAD", event, for_rows=True):
                for before, after in _pairs(old, new):
                    self._fire(trigger, event, before, after)

    def _parts(self, changes: Changes) -> list[Part]:
        """Events with the rows that were, and those that are to be."""
        fetch, name = self.engine.executor.fetch, changes.table.name
        found: list[Part] = []
        if changes.deleted is not None:
            found.append(("DELETE", fetch(name, changes.deleted), None))
        if changes.updated is not None:
            found.append(("UPDATE", fetch(name, changes.updated[0]), changes.updated[1]))
        if changes.inserted is not None:
            found.append(("INSERT", None, changes.inserted))
        return found

    @contextmanager
    def _transition(
        self, triggers: Sequence[Trigger], old: Words | None, new: Words | None
    ) -> Iterator[None]:
        """The transition tables that triggers name, while the block runs."""
        columns = tuple(replace(column, nullable=True) for column in self.entry.schema.columns)
        made = False
        for trigger in triggers:
            for name, rows in ((trigger.old_rows, old), (trigger.new_rows, new)):
                if not name or rows is None or name.lower() in self.engine.catalog:
                    continue
                attached = self.engine.attach_table(name.lower(), Schema(columns))
                self.engine.table(attached).insert(np.ascontiguousarray(rows))
                made = True
        try:
            yield
        finally:
            if made:
                self.engine.release_attached()

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

    def _fire(self, trigger: Trigger, event: str, old: Row, new: Row, kept: Any = None) -> list[int] | None:
        """Run a trigger's function: the row that it gives; ``kept`` if its condition does not hold."""
        frame = self._frame(event, old, new)
        if trigger.condition and not self.evaluator.truth(frame, trigger.condition):
            return list(kept) if kept is not None else None
        (routine, *_) = self.engine.catalog.whole_routines(trigger.function)
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


def triggers_of(catalog: Catalog, name: str) -> list[Trigger]:
    """The enabled triggers of a relation by name, with those for rows of what it is a partition of."""
    found = [one for key, one in catalog.others.items() if key[:2] == ("trigger", name.lower())]
    for parent in _wholes(catalog, name.lower()):
        mine = (one for key, one in catalog.others.items() if key[:2] == ("trigger", parent))
        found += [one for one in mine if one.for_rows]
    return sorted((one for one in found if one.enabled), key=lambda one: one.name.lower())


def _wholes(catalog: Catalog, name: str) -> Iterator[str]:
    """The partitioned tables that a table is a partition of."""
    parents = [key[1] for key in catalog.others if key[0] == "inherits" and key[2] == name]
    for parent in parents:
        if ("partitioned", parent, "") in catalog.others:
            yield parent
            yield from _wholes(catalog, parent)


def _by_event(parts: Sequence[Part]) -> dict[str, tuple[Words | None, Words | None]]:
    """The rows of all parts, by their events."""
    found: dict[str, tuple[Words | None, Words | None]] = {}
    for event in dict.fromkeys(part[0] for part in parts):
        mine = [part for part in parts if part[0] == event]
        found[event] = _joined([part[1] for part in mine]), _joined([part[2] for part in mine])
    return found


def _joined(rows: Sequence[Words | None]) -> Words | None:
    found = [one for one in rows if one is not None]
    return np.concatenate(found, axis=1) if found else None
