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
from kpg.compiler.catalog.entries import (
    INDEXES,
    NO_CONSTRAINTS,
    PARTITIONED,
    PARTITIONS,
    POLICIES,
    RELATIONS,
    ROW_SECURITY,
    SEQUENCES,
    UNIQUE_INDEXES,
    Catalog,
    TableEntry,
    move_comments,
)
from kpg.compiler.catalog.operations import CatalogOp
from kpg.compiler.catalog.privileges import BOOTSTRAP_ROLE, OWNERS
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
    from kpg.session import distribution
else:
    constraint_checks = LazyModule("kpg.execute.changes.constraints")
    defaults = LazyModule("kpg.execute.changes.defaults")
    foreign_keys = LazyModule("kpg.execute.changes.foreign_keys")
    distribution = LazyModule("kpg.session.distribution")

Words = NDArray[np.int64]


class TablesHost(Protocol):
    """The engine's state that tables use, which changes with the session."""

    @property
    def sequences(self) -> "Sequences":
        """Positions of sequences."""

    @property
    def extras(self) -> dict[str, object]:
        """Other values that the log records, by name."""

    def check_action_rows(self, table: str, words: "Words") -> "Words":
        """Return the rows that a referential action writes to a table after its pipeline."""

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
            self.references = foreign_keys.References(
                self._executor, self.by_name.__getitem__, self._engine.check_action_rows
            )
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
            before = self._catalog.snapshot()
            self._catalog.add(TableEntry(name, schema, constraints))
            try:
                self._executor.create_table(name, schema)
                self._add_keys(name, schema, constraints)
                self._catalog.apply(*(SEQUENCES.put(one.name.lower(), one) for one in sequences))
                for sequence in sequences:
                    self._journal.add(undo=self._engine.sequences.remove(sequence.name))
                self.register(name, schema)
                self._journal.add(undo=partial(self.discard, name))
                if constraints.has_row_checks:
                    self.refresh_constraints()
            except BaseException:
                self._catalog.restore(before)
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
            self._catalog.apply(INDEXES.remove(index.name.lower()))
            self._journal.add(finish=partial(self.uninstall_index, index.name))
        for one in [one for one in self._catalog.sequences.values() if one.owner and one.owner[0] == name]:
            self._catalog.apply(SEQUENCES.remove(one.name.lower()))
            self._journal.add(undo=self._engine.sequences.remove(one.name))
        self.drop_at_commit(name)
        if entry.constraints.has_row_checks or (
            self.references is not None and self.references.has_foreign_keys(name)
        ):
            self.refresh_constraints()

    def _drop_dependents(self, name: str) -> None:
        """Drop unique indexes, policies, inheritance and partitions of a relation."""
        catalog, lower = self._catalog, name.lower()
        partition = catalog.partitions.get(lower)
        if partition is not None:  # the parent's history without this partition is not known
            executor = self._executor
            executor.tables.restart_history(partition.parent, executor.epoch + executor.tables.has_pending)
        unique_indexes = [one for one in catalog.unique_indexes.items() if one[0][0] == lower]
        children = [key for key, one in catalog.partitions.items() if one.parent.lower() == lower]
        catalog.apply(
            ROW_SECURITY.remove(lower),
            PARTITIONED.remove(lower),
            *(POLICIES.remove(key) for key in catalog.policies if key[0] == lower),
            *(PARTITIONS.remove(key) for key in (lower, *children)),
            *(UNIQUE_INDEXES.remove(key) for key, _ in unique_indexes),
        )
        for _, index in unique_indexes:
            self.drop(catalog.table(index.kept))

    def drop_at_commit(self, name: str) -> None:
        """Hide a table's rows, and discard them when the transaction ends."""
        if self._engine.extras:
            number = self._executor.tables.table_number(name)
            distribution.withdraw_distribution(self._engine.extras, self._journal, number)
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
                self._catalog.apply(OWNERS.put(("RELATION", name.lower()), self._catalog.asker.user))
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
        self._catalog.apply(*ops_to_rename(self._catalog, old_name, name))


def ops_to_rename(catalog: Catalog, old_name: str, name: str) -> list[CatalogOp]:
    """Return the operations that rename a relation in the objects that name it, except in texts."""
    old, new = old_name.lower(), name.lower()
    ops: list[CatalogOp] = []
    for entry in catalog:
        if isinstance(entry, TableEntry) and any(
            key.target == old_name for key in entry.constraints.foreign_keys
        ):
            keys = tuple(
                replace(key, target=name) if key.target == old_name else key
                for key in entry.constraints.foreign_keys
            )
            changed = replace(entry, constraints=replace(entry.constraints, foreign_keys=keys))
            ops.append(RELATIONS.put(entry.name.lower(), changed))
    for key, sequence in catalog.sequences.items():
        if sequence.owner is not None and sequence.owner[0] == old_name:
            ops.append(SEQUENCES.put(key, replace(sequence, owner=(name, sequence.owner[1]))))
    for key, index in catalog.indexes.items():
        if index.table == old_name:
            ops.append(INDEXES.put(key, replace(index, table=name)))
    for (table, policy_name), policy in catalog.policies.items():
        if table == old:
            ops.append(POLICIES.remove((table, policy_name)))
            ops.append(POLICIES.put((new, policy_name), replace(policy, table=name)))
    for (table, index_name), unique_index in catalog.unique_indexes.items():
        if table == old:
            ops.append(UNIQUE_INDEXES.remove((table, index_name)))
            ops.append(UNIQUE_INDEXES.put((new, index_name), replace(unique_index, table=name)))
    if old in catalog.row_security:
        ops.append(ROW_SECURITY.remove(old))
        ops.append(ROW_SECURITY.put(new, replace(catalog.row_security[old], table=name)))
    if old in catalog.partitioned:
        ops.append(PARTITIONED.remove(old))
        ops.append(PARTITIONED.put(new, replace(catalog.partitioned[old], table=name)))
    for child, partition in catalog.partitions.items():
        if child == old:
            ops += (PARTITIONS.remove(child), PARTITIONS.put(new, replace(partition, child=name)))
        elif partition.parent == old_name:
            ops.append(PARTITIONS.put(child, replace(partition, parent=name)))
    ops += move_comments(catalog, old_name, name)
    return ops + catalog.privileges.ops_to_rename(("RELATION", old), ("RELATION", new))
