"""Base tables of an engine: creates, renames and drops them, and applies their constraints and indexes.

Invariant: the catalog's tables are a subset of the executor's.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.constraints import Constraints
from kpg.compiler.catalog.constraints import Sequence as Numbers
from kpg.compiler.catalog.entries import NO_CONSTRAINTS, Catalog, TableEntry, move_comments
from kpg.compiler.catalog.privileges import FIRST
from kpg.compiler.qualified_names import untaken
from kpg.gc_pause import LazyModule
from kpg.runtime.executor import Executor
from kpg.runtime.handles import Installation
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.plan import Plan
from kpg.runtime.types import Schema
from kpg.session.base_table import Table, Watch
from kpg.session.undo import Journal

if TYPE_CHECKING:
    from kpg.execute.changes import constraints as constraint_checks
    from kpg.execute.changes import defaults, foreign_keys
    from kpg.execute.changes.defaults import Sequences
    from kpg.execute.changes.foreign_keys import References
else:
    constraint_checks = LazyModule("kpg.execute.changes.constraints")
    defaults = LazyModule("kpg.execute.changes.defaults")
    foreign_keys = LazyModule("kpg.execute.changes.foreign_keys")

Words = NDArray[np.int64]


class EngineState(Protocol):
    """What the tables of an engine ask it for: state that changes with the session."""

    @property
    def sequences(self) -> "Sequences":
        """The next numbers of sequences."""

    def check_defining(self, what: str) -> None:
        """Raise unless the catalog may change now."""


class Tables:
    """The base tables of an engine."""

    def __init__(
        self,
        executor: Executor,
        catalog: Catalog,
        journal: Journal,
        interrupt: DeferredInterrupt,
        plans: dict[str, Plan],
        engine: EngineState,
    ) -> None:
        """``plans`` gets the plans of indexes."""
        self._executor = executor
        self._catalog = catalog
        self._journal = journal
        self._interrupt = interrupt
        self._plans = plans
        self._engine = engine
        self._dropped = count()
        self.by_name: dict[str, Table] = {}
        """By their names in the catalog's letters."""
        self.watching: list[Watch] = []
        """Asked before each change of rows; none while nobody has locked anything."""
        self.indexes: dict[str, Installation] = {}
        """Installed indexes, by name."""
        self.attached = set[str]()
        """Tables of rows from outside."""
        catalog.attached = self.attached
        self.references: References | None = None
        """Foreign keys; None before the first rule of a table."""

    @property
    def foreign_keys(self) -> "References":
        """Foreign keys, of which there may be none."""
        if self.references is None:
            self.references = foreign_keys.References(self._executor, self.by_name.__getitem__)
        return self.references

    def create(
        self,
        name: str,
        schema: Schema,
        constraints: Constraints = NO_CONSTRAINTS,
        sequences: Sequence[Numbers] = (),
    ) -> None:
        """Add an empty table, with its sequences."""
        self._engine.check_defining("CREATE TABLE")
        with self._interrupt:
            self._catalog.add(TableEntry(name, schema, constraints))
            try:
                self._executor.create_table(name, schema)
                self._add_keys(name, schema, constraints)
                for one in sequences:
                    self._catalog.sequences[one.name.lower()] = one
                    self._journal.note(undo=self._engine.sequences.forget(one.name))
                self.register(name, schema)
                self._journal.note(undo=partial(self.discard, name))
                if constraints.guarded:
                    self.refresh_rules()
            except BaseException:
                if name in self._catalog:
                    self._catalog.remove(name)
                raise

    def _add_keys(self, name: str, schema: Schema, constraints: Constraints) -> None:
        for key in constraints.uniques:
            if not key.primary:
                places = tuple(schema.names.index(one) for one in key.columns)
                self._executor.add_unique(name, key.name, places, nulls_distinct=key.nulls_distinct)

    def discard(self, name: str) -> None:
        """Give up a table's rows."""
        self._executor.drop_table(name)
        self.by_name.pop(name, None)

    def drop(self, entry: TableEntry) -> None:
        """Forget a table that nothing uses, with its sequences."""
        name = entry.name
        self._catalog.remove(name)
        self._forget_others(name)
        self.attached.discard(name)
        for index in [one for one in self._catalog.indexes.values() if one.table == name]:
            del self._catalog.indexes[index.name.lower()]
            self._journal.note(done=partial(self.forget_index, index.name))
        for one in [one for one in self._catalog.sequences.values() if one.owner and one.owner[0] == name]:
            del self._catalog.sequences[one.name.lower()]
            self._journal.note(undo=self._engine.sequences.forget(one.name))
        self.set_aside(name)
        if entry.constraints.guarded or (self.references is not None and self.references.concerns(name)):
            self.refresh_rules()

    def _forget_others(self, name: str) -> None:
        """What is kept beside a relation goes with it: unique indexes, policies, inheritance, partitions."""
        others, lower = self._catalog.others, name.lower()
        kept = [one.kept for key, one in others.items() if key[:2] == ("unique index", lower)]
        for key in [one for one in others if one[1] == lower or (one[0] == "inherits" and one[2] == lower)]:
            del others[key]
            if key[1] != lower:  # what that was when it had this partition, nobody knows
                parent, executor = self._catalog.get(key[1]).name, self._executor
                executor.known_from(parent, executor.epoch + executor.has_pending)
        for one in kept:
            self.drop(self._catalog.table(one))

    def set_aside(self, name: str) -> None:
        """Take a table's rows out of the way, to be given up when the transaction is over."""
        if not self._journal.writing_now:
            self.discard(name)
            return
        table, aside = self.by_name.pop(name), f"{name} (dropped {next(self._dropped)})"
        self._executor.rename_table(name, aside)

        def undo() -> None:
            self._executor.rename_table(aside, name)
            self.by_name[name] = table

        self._journal.note(undo, partial(self._executor.drop_table, aside))

    def refresh_rules(self) -> None:
        """Have tables follow the rules that the catalog has for them now."""
        references = self.foreign_keys
        references.refresh(self._catalog, self._default_words)
        for name, guard in constraint_checks.guards(self._executor, self._catalog, references).items():
            if name in self.by_name:
                self.by_name[name].guard = guard

    def _default_words(self, table: str, places: tuple[int, ...], rows: int) -> Words:
        entry = self._catalog.table(table)
        return defaults.default_words(
            self._executor, self._engine.sequences, entry, self._catalog, places, rows
        )

    def attach(self, name: str, schema: Schema) -> str:
        """Add a table for rows from outside, until :meth:`release_attached`; the name that it gets."""
        name = untaken(name, self._catalog.__contains__)
        with self._interrupt:
            self.attached.add(name)
            self._catalog.add(TableEntry(name, schema))
            self._executor.create_table(name, schema)
            self._executor.is_new(name)
            self.by_name[name] = Table(self._executor, name, schema)
            if self._catalog.asker.user != FIRST:  # who owns what nobody is said to own
                self._catalog.rights.owners["RELATION", name.lower()] = self._catalog.asker.user
        return name

    def register(self, name: str, schema: Schema) -> Table:
        """Add a table whose rows the executor has."""
        table = self.by_name[name] = Table(self._executor, name, schema, self.watching)
        return table

    def adopt(self, entry: TableEntry) -> None:
        """Have a table that has its rows again be as it was."""
        self._add_keys(entry.name, entry.schema, entry.constraints)
        self.register(entry.name, entry.schema)

    def keep_index(self, name: str, plan: Plan) -> None:
        """Install an index."""
        with self._interrupt:
            label = f"index {name}"
            self.indexes[name] = self._executor.install(label, plan)
            self._plans[label] = plan

    def forget_index(self, name: str) -> None:
        """Give up an index that may be installed."""
        installed = self.indexes.pop(name, None)
        if installed is not None:
            del self._plans[f"index {name}"]
            self._executor.uninstall(installed)

    def set_schema(self, name: str, schema: Schema) -> None:
        """Give a table's columns other names, or let them be NULL or not."""
        before = self.by_name[name]
        self.register(name, schema).tally = before.tally
        old = self._executor.set_schema(name, schema)

        def undo() -> None:
            self.by_name[name] = before
            self._executor.set_schema(name, old)

        self._journal.note(undo)

    def rename(self, old: TableEntry, name: str) -> None:
        """Give a table another name; what the catalog has of it follows, but for views."""
        was = old.name
        self._executor.rename_table(was, name)
        before = self.by_name.pop(was)
        self.register(name, old.schema).tally = before.tally

        def undo() -> None:
            self._executor.rename_table(name, was)
            del self.by_name[name]
            self.by_name[was] = before

        self._journal.note(undo)
        self._catalog.remove(was)
        self._catalog.add(replace(old, name=name))
        rename_in_catalog(self._catalog, was, name)


def rename_in_catalog(catalog: Catalog, was: str, name: str) -> None:
    """Let constraints, sequences, indexes, comments and privileges of a relation follow its name."""
    for entry in list(catalog):
        if isinstance(entry, TableEntry) and any(key.target == was for key in entry.constraints.foreign_keys):
            keys = tuple(
                replace(key, target=name) if key.target == was else key
                for key in entry.constraints.foreign_keys
            )
            catalog.replace(replace(entry, constraints=replace(entry.constraints, foreign_keys=keys)))
    for sequence in list(catalog.sequences.values()):
        if sequence.owner is not None and sequence.owner[0] == was:
            owner = (name, sequence.owner[1])
            catalog.sequences[sequence.name.lower()] = replace(sequence, owner=owner)
    for index in list(catalog.indexes.values()):
        if index.table == was:
            catalog.indexes[index.name.lower()] = replace(index, table=name)
    if catalog.comments:
        move_comments(catalog, was, name)

    for key, one in list(catalog.others.items()):
        if was.lower() in key[1:] and key[0] != "aggregate":
            del catalog.others[key]
            fields = {part: name for part in ("table", "parent", "child") if getattr(one, part, "") == was}
            moved = (key[0], *(name.lower() if part == was.lower() else part for part in key[1:]))
            catalog.others[moved] = replace(one, **fields)
    catalog.rights.rename(("RELATION", was.lower()), ("RELATION", name.lower()))
