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
from kpg.compiler.catalog.privileges import BOOTSTRAP_ROLE
from kpg.compiler.qualified_names import unused_name
from kpg.runtime.executor import Executor
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.handles import Installation
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.plan import Plan
from kpg.runtime.types import Schema
from kpg.session.base_table import ChangeHook, Table
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


class TablesHost(Protocol):
    """The engine's state that tables use, which changes with the session."""

    @property
    def sequences(self) -> "Sequences":
        """Positions of sequences."""

    def check_can_define(self, operation: str) -> None:
        """Raise an error unless the catalog may change now."""


class Tables:
    """The base tables of an engine."""

    def __init__(
        self,
        executor: Executor,
        catalog: Catalog,
        journal: Journal,
        interrupt: DeferredInterrupt,
        plans: dict[str, Plan],
        engine: TablesHost,
    ) -> None:
        """Manage the tables of an executor; ``plans`` receives the plans of indexes."""
        self._executor = executor
        self._catalog = catalog
        self._journal = journal
        self._interrupt = interrupt
        self._plans = plans
        self._engine = engine
        self._drop_numbers = count()
        self.by_name: dict[str, Table] = {}
        """Tables by name as the catalog spells it."""
        self.change_hooks: list[ChangeHook] = []
        """Called before each change of rows; empty while nothing is locked."""
        self.indexes: dict[str, Installation] = {}
        """Installed indexes, by name."""
        self.attached_tables = set[str]()
        """Names of tables with external rows."""
        catalog.attached_tables = self.attached_tables
        self.references: References | None = None
        """Foreign keys; None before the first constraint."""

    @property
    def foreign_keys(self) -> "References":
        """Foreign keys, perhaps none."""
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
        """Create an empty table with its sequences."""
        self._engine.check_can_define("CREATE TABLE")
        with self._interrupt:
            self._catalog.add(TableEntry(name, schema, constraints))
            try:
                self._executor.create_table(name, schema)
                self._add_keys(name, schema, constraints)
                for sequence in sequences:
                    self._catalog.sequences[sequence.name.lower()] = sequence
                    self._journal.add(undo=self._engine.sequences.remove(sequence.name))
                self.register(name, schema)
                self._journal.add(undo=partial(self.discard, name))
                if constraints.has_row_checks:
                    self.refresh_constraints()
            except BaseException:
                if name in self._catalog:
                    self._catalog.remove(name)
                raise

    def _add_keys(self, name: str, schema: Schema, constraints: Constraints) -> None:
        for key in constraints.uniques:
            if not key.primary:
                positions = tuple(schema.names.index(column) for column in key.columns)
                self._executor.tables.add_unique(name, key.name, positions, nulls_distinct=key.nulls_distinct)

    def discard(self, name: str) -> None:
        """Discard a table's rows."""
        self._executor.drop_table(name)
        self.by_name.pop(name, None)

    def drop(self, entry: TableEntry) -> None:
        """Drop an unused table with its sequences."""
        name = entry.name
        self._catalog.remove(name)
        self._drop_dependents(name)
        self.attached_tables.discard(name)
        for index in [one for one in self._catalog.indexes.values() if one.table == name]:
            del self._catalog.indexes[index.name.lower()]
            self._journal.add(finish=partial(self.uninstall_index, index.name))
        for one in [one for one in self._catalog.sequences.values() if one.owner and one.owner[0] == name]:
            del self._catalog.sequences[one.name.lower()]
            self._journal.add(undo=self._engine.sequences.remove(one.name))
        self.drop_at_commit(name)
        if entry.constraints.has_row_checks or (
            self.references is not None and self.references.has_foreign_keys(name)
        ):
            self.refresh_constraints()

    def _drop_dependents(self, name: str) -> None:
        """Drop unique indexes, policies, inheritance and partitions of a relation."""
        catalog, lower = self._catalog, name.lower()
        catalog.row_security.pop(lower, None)
        catalog.partitioned.pop(lower, None)
        for policy in [one for one in catalog.policies if one[0] == lower]:
            del catalog.policies[policy]
        for child in [key for key, one in catalog.partitions.items() if one.parent.lower() == lower]:
            del catalog.partitions[child]
        partition = catalog.partitions.pop(lower, None)
        if partition is not None:  # the parent's history without this partition is not known
            executor = self._executor
            executor.tables.restart_history(partition.parent, executor.epoch + executor.tables.has_pending)
        for key in [one for one in catalog.unique_indexes if one[0] == lower]:
            self.drop(catalog.table(catalog.unique_indexes.pop(key).kept))

    def drop_at_commit(self, name: str) -> None:
        """Hide a table's rows, and discard them when the transaction ends."""
        if not self._journal.is_writing:
            self.discard(name)
            return
        table, hidden_name = self.by_name.pop(name), f"{name} (dropped {next(self._drop_numbers)})"
        self._executor.rename_table(name, hidden_name)

        def undo() -> None:
            self._executor.rename_table(hidden_name, name)
            self.by_name[name] = table

        self._journal.add(undo, partial(self._executor.drop_table, hidden_name))

    def refresh_constraints(self) -> None:
        """Apply the catalog's present constraints to all tables."""
        references = self.foreign_keys
        references.refresh(self._catalog, self._default_words)
        for name, guard in constraint_checks.make_guards(self._executor, self._catalog, references).items():
            if name in self.by_name:
                self.by_name[name].guard = guard

    def _default_words(self, table: str, positions: tuple[int, ...], rows: int) -> Words:
        entry = self._catalog.table(table)
        return defaults.default_words(
            self._executor, self._engine.sequences, entry, self._catalog, positions, rows
        )

    def attach(self, name: str, schema: Schema) -> str:
        """Add a table for external rows, until ``Engine.drop_attached``, and return its name."""
        name = unused_name(name, self._catalog.__contains__)
        with self._interrupt:
            self.attached_tables.add(name)
            self._catalog.add(TableEntry(name, schema))
            self._executor.create_table(name, schema)
            self._executor.tables.mark_new(name)
            self.by_name[name] = Table(self._executor, name, schema)
            if (
                self._catalog.asker.user != BOOTSTRAP_ROLE
            ):  # tables without an owner belong to the bootstrap role
                self._catalog.privileges.owners["RELATION", name.lower()] = self._catalog.asker.user
        return name

    def register(self, name: str, schema: Schema) -> Table:
        """Add a table whose rows the executor holds."""
        table = self.by_name[name] = Table(self._executor, name, schema, self.change_hooks)
        return table

    def adopt(self, entry: TableEntry) -> None:
        """Add a restored table with its keys."""
        self._add_keys(entry.name, entry.schema, entry.constraints)
        self.register(entry.name, entry.schema)

    def install_index(self, name: str, plan: Plan) -> None:
        """Install an index."""
        with self._interrupt:
            label = f"index {name}"
            self.indexes[name] = self._executor.install(label, plan)
            self._plans[label] = plan

    def uninstall_index(self, name: str) -> None:
        """Uninstall an index, if it is installed."""
        installation = self.indexes.pop(name, None)
        if installation is not None:
            del self._plans[f"index {name}"]
            self._executor.uninstall(installation)

    def set_schema(self, name: str, schema: Schema) -> None:
        """Change column names or nullability of a table."""
        before = self.by_name[name]
        self.register(name, schema).tally = before.tally
        old = self._executor.tables.set_schema(name, schema)

        def undo() -> None:
            self.by_name[name] = before
            self._executor.tables.set_schema(name, old)

        self._journal.add(undo)

    def rename(self, old: TableEntry, name: str) -> None:
        """Rename a table and its objects in the catalog, except in views."""
        old_name = old.name
        self._executor.rename_table(old_name, name)
        before = self.by_name.pop(old_name)
        self.register(name, old.schema).tally = before.tally

        def undo() -> None:
            self._executor.rename_table(name, old_name)
            del self.by_name[name]
            self.by_name[old_name] = before

        self._journal.add(undo)
        self._catalog.remove(old_name)
        self._catalog.add(replace(old, name=name))
        rename_in_catalog(self._catalog, old_name, name)


def rename_in_catalog(catalog: Catalog, old_name: str, name: str) -> None:
    """Rename a relation in constraints, sequences, indexes, comments and privileges."""
    for entry in list(catalog):
        if isinstance(entry, TableEntry) and any(
            key.target == old_name for key in entry.constraints.foreign_keys
        ):
            keys = tuple(
                replace(key, target=name) if key.target == old_name else key
                for key in entry.constraints.foreign_keys
            )
            catalog.replace(replace(entry, constraints=replace(entry.constraints, foreign_keys=keys)))
    for sequence in list(catalog.sequences.values()):
        if sequence.owner is not None and sequence.owner[0] == old_name:
            owner = (name, sequence.owner[1])
            catalog.sequences[sequence.name.lower()] = replace(sequence, owner=owner)
    for index in list(catalog.indexes.values()):
        if index.table == old_name:
            catalog.indexes[index.name.lower()] = replace(index, table=name)
    if catalog.comments:
        move_comments(catalog, old_name, name)

    old, new = old_name.lower(), name.lower()
    for (table, policy_name), policy in list(catalog.policies.items()):
        if table == old:
            del catalog.policies[table, policy_name]
            catalog.policies[new, policy_name] = replace(policy, table=name)
    for (table, index_name), unique_index in list(catalog.unique_indexes.items()):
        if table == old:
            del catalog.unique_indexes[table, index_name]
            catalog.unique_indexes[new, index_name] = replace(unique_index, table=name)
    if old in catalog.row_security:
        catalog.row_security[new] = replace(catalog.row_security.pop(old), table=name)
    if old in catalog.partitioned:
        catalog.partitioned[new] = replace(catalog.partitioned.pop(old), table=name)
    for child, partition in list(catalog.partitions.items()):
        if child == old:
            del catalog.partitions[child]
            catalog.partitions[new] = replace(partition, child=name)
        elif partition.parent == old_name:
            catalog.partitions[child] = replace(partition, parent=name)
    catalog.privileges.rename_object(("RELATION", old_name.lower()), ("RELATION", name.lower()))
