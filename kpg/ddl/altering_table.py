"""One table that is being altered: its entry in the catalog, and making it anew with other columns."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.constraints import NO_RULE, ForeignKey, Rule
from kpg.compiler.catalog.entries import TableEntry, ViewEntry, did_you_mean
from kpg.compiler.catalog.qualified_names import beside
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.rewrite.name_qualification import sequence_call
from kpg.ddl.defining import free_name
from kpg.ddl.indexes import install_if_there
from kpg.dml.modify import checked
from kpg.engine.engine import Engine
from kpg.listeners.notices import say_cascade
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span
from kpg.runtime.types import Schema

Words = NDArray[np.int64]


def place_of(schema: Schema, relation: str, name: str, span: Span) -> int:
    known = [one.lower() for one in schema.names]
    if name.lower() not in known:
        message = f'column "{name}" of "{relation}" does not exist'
        raise ProgrammingError(message, span=span.at(name), hint=did_you_mean(name, schema.names))
    return known.index(name.lower())


def with_name(schema: Schema, place: int, name: str, span: Span) -> Schema:
    if name.lower() in (one.lower() for one in schema.names):
        raise ProgrammingError(f'column "{name}" exists already', span=span)
    columns = list(schema.columns)
    columns[place] = replace(columns[place], name=name)
    return Schema(tuple(columns), schema.primary_key)


class TableChange:
    """A table, and what all actions on it need."""

    def __init__(self, engine: Engine, entry: TableEntry, span: Span) -> None:
        self.engine = engine
        self.entry = entry
        self.span = span

    def _put(self, entry: TableEntry) -> None:
        self.engine.catalog.replace(entry)
        self.entry = entry

    def _place(self, name: str) -> int:
        return place_of(self.entry.schema, self.entry.name, name, self.span)

    def _rules(self) -> list[Rule]:
        return list(self.entry.constraints.rules or (NO_RULE,) * len(self.entry.schema.columns))

    def _refuse_users(self, what: str) -> None:
        users = self.engine.users(self.entry.name)
        if users:
            raise NotSupportedError(
                f'{what} "{self.entry.name}" is not supported while '
                f"{', '.join(users)} use{'' if len(users) > 1 else 's'} it",
                span=self.span,
                hint="drop what uses it first, and make it again afterwards",
            )

    def _numbered(self, action: ast.AddColumn, rule: Rule) -> Rule:
        assert action.sequence is not None
        catalog, column = self.engine.catalog, action.column.name
        plain = self.entry.name.rpartition(".")[2]
        name = action.sequence.name or free_name(f"{plain}_{column}_seq", catalog.sequences)
        name = beside(self.entry.name, name)
        catalog.sequences[name.lower()] = replace(action.sequence, name=name, owner=(self.entry.name, column))
        self.engine.journal.note(undo=self.engine.sequences.forget(name))
        return replace(rule, default=sequence_call(name), sequence=name)

    def _drop_reference(self, table: str, key: ForeignKey, name: str, *, cascade: bool) -> None:
        if not cascade:
            raise ProgrammingError(
                f"column {name} cannot be dropped: FOREIGN KEY {key.name} of table {table} refers to it",
                span=self.span,
                hint="drop that first, or use CASCADE",
            )
        other = self.engine.catalog.table(table)
        say_cascade(self.engine, [f"constraint {key.name} on table {self.engine.catalog.plain(table)}"])
        kept = tuple(one for one in other.constraints.foreign_keys if one != key)
        self.engine.catalog.replace(replace(other, constraints=replace(other.constraints, foreign_keys=kept)))

    def _rewrite(self, new: TableEntry, change: Callable[[Words], Words], kept: tuple[int, ...]) -> None:
        """Make the table anew with rows that are made of its rows; ``kept`` are the old columns that stay."""
        engine, old = self.engine, self.entry
        views = [engine.catalog.get(name) for name in engine.dependents(old.name) if name in engine.catalog]
        if any(isinstance(view, ViewEntry) and callable(view.definition) for view in views) or any(
            name in engine.dataflows for name in engine.dependents(old.name)
        ):
            self._refuse_users("changing the columns of")
        words, tally = change(engine.executor.scan(old.name)), engine.table(old.name).tally
        engine.catalog.remove(old.name)
        engine.set_aside(old.name)
        engine.create_table(new.name, new.schema, new.constraints)
        table = engine.table(new.name)
        table.insert(checked(np.ascontiguousarray(words), table))
        table.tally = tally
        engine.executor.known_from(new.name, engine.executor.epoch + engine.executor.has_pending)
        self.entry = engine.catalog.table(new.name)
        for index in engine.catalog.indexes.values():
            if index.table == new.name:
                engine.journal.note(done=partial(engine.forget_index, index.name))
                engine.journal.note(done=partial(install_if_there, engine, index.name))
        engine.follow(old, new, kept, [view for view in views if isinstance(view, ViewEntry)])
