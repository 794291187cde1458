"""ALTER TABLE: columns, defaults, identities, constraints, partitions, and row-level security.

A change of columns creates the table anew and copies its rows. Views read columns by position, so a view over
a table that gains a column is planned again over the old ones. A change that a view would not survive is
refused with the name of the view.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.constraints import NO_RULE, Check, Constraints, ForeignKey, Rule, Unique
from kpg.compiler.catalog.entries import (
    COMMENTS,
    INDEXES,
    PARTITIONED,
    PARTITIONS,
    SEQUENCES,
    UNIQUE_INDEXES,
    TableEntry,
    ViewEntry,
    did_you_mean,
)
from kpg.compiler.catalog.operations import CatalogOp
from kpg.compiler.qualified_names import sibling_name
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.rewrite.column_expressions import (
    bind_default,
    convert_column,
    rename_column,
    rename_in_tokens,
    uses_column,
)
from kpg.compiler.sql.rewrite.deparse import RELATION
from kpg.compiler.sql.rewrite.name_qualification import nextval_call
from kpg.execute import access_control
from kpg.execute.changes.defaults import default_words
from kpg.execute.changes.foreign_keys import Link, resolve_link
from kpg.execute.changes.partition_routing import tables_to_alter
from kpg.execute.changes.table_pipeline import check_computed, fit_lengths
from kpg.execute.definitions.drop import column_users, describe, drop_policies, drop_users
from kpg.execute.definitions.indexes import (
    add_key,
    drop_created_index,
    drop_key,
    index_uses_column,
    install_at_commit,
    install_if_exists,
    key_references,
    rebuild_unique_indexes,
)
from kpg.execute.definitions.partitions import attach, detach
from kpg.execute.definitions.rename import rename_sequence, rename_table, rewrite_references
from kpg.execute.definitions.sequences import alter_sequence
from kpg.execute.definitions.table_definition import free_name, with_constraint
from kpg.execute.queries.cursors import check_unused
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.interrupts import safe_point
from kpg.runtime.types import NULL, ColumnDef, Schema
from kpg.session.engine import Engine
from kpg.session.notices import notice_cascade, notice_missing_relation, notice_skipped

if TYPE_CHECKING:
    from kpg.session import distribution
else:
    distribution = LazyModule("kpg.session.distribution")

Words = NDArray[np.int64]

CONVERTED_ROWS: Final = 16_384
"""Rows that ALTER COLUMN TYPE converts between two safe points: 50 ms for texts."""
RENAMING_ACTIONS = (ast.RenameTo, ast.RenameColumn, ast.RenameConstraint, ast.SetSchema)
"""Actions that only change names."""


def column_position(schema: Schema, relation: str, name: str, span: Span) -> int:
    """Return the position of a column; ProgrammingError if it does not exist."""
    names = [column.lower() for column in schema.names]
    if name.lower() not in names:
        message = f'column "{name}" of "{relation}" does not exist'
        raise ProgrammingError(message, span=span.at(name), hint=did_you_mean(name, schema.names))
    return names.index(name.lower())


def rename_schema_column(schema: Schema, position: int, name: str, span: Span) -> Schema:
    """Return a schema with a column renamed; ProgrammingError if the name is taken."""
    if name.lower() in (column.lower() for column in schema.names):
        raise ProgrammingError(f'column "{name}" exists already', span=span)
    columns = list(schema.columns)
    columns[position] = replace(columns[position], name=name)
    return Schema(tuple(columns), schema.primary_key)


class TableChange:
    """A table under change: its present entry, and operations shared by all actions."""

    def __init__(self, engine: Engine, entry: TableEntry, span: Span) -> None:
        self.engine = engine
        self.entry = entry
        self.span = span

    def replace_entry(self, entry: TableEntry) -> None:
        self.engine.catalog.replace(entry)
        self.entry = entry

    def position_of(self, name: str) -> int:
        return column_position(self.entry.schema, self.entry.name, name, self.span)

    def rules(self) -> list[Rule]:
        return list(self.entry.constraints.rules or (NO_RULE,) * len(self.entry.schema.columns))

    def check_no_users(self, action: str) -> None:
        users = self.engine.views.users(self.entry.name)
        if users:
            raise NotSupportedError(
                f'{action} "{self.entry.name}" is not supported while '
                f"{', '.join(users)} use{'' if len(users) > 1 else 's'} it",
                span=self.span,
                hint="drop what uses it first, and make it again afterwards",
            )

    def add_sequence(self, action: ast.AddColumn, rule: Rule) -> Rule:
        assert action.sequence is not None
        catalog, column = self.engine.catalog, action.column.name
        plain = self.entry.name.rpartition(".")[2]
        name = action.sequence.name or free_name(f"{plain}_{column}_seq", catalog.sequences)
        name = sibling_name(self.entry.name, name)
        sequence = replace(action.sequence, name=name, owner=(self.entry.name, column))
        catalog.apply(SEQUENCES.put(name.lower(), sequence))
        self.engine.journal.add(undo=self.engine.sequences.remove(name))
        return replace(rule, default=nextval_call(name), sequence=name)

    def drop_reference(self, table: str, key: ForeignKey, name: str, *, cascade: bool) -> None:
        if not cascade:
            raise ProgrammingError(
                f"column {name} cannot be dropped: FOREIGN KEY {key.name} of table {table} refers to it",
                span=self.span,
                hint="drop that first, or use CASCADE",
            )
        other = self.engine.catalog.table(table)
        notice_cascade(
            self.engine, [f"constraint {key.name} on table {self.engine.catalog.unqualified_name(table)}"]
        )
        kept = tuple(other_key for other_key in other.constraints.foreign_keys if other_key != key)
        self.engine.catalog.replace(replace(other, constraints=replace(other.constraints, foreign_keys=kept)))

    def rewrite(self, new: TableEntry, change: Callable[[Words], Words], kept: tuple[int, ...]) -> None:
        """Create the table again with changed rows; ``kept`` are the positions of old columns that remain."""
        engine, old = self.engine, self.entry
        views = [
            engine.catalog.get(name) for name in engine.views.dependents(old.name) if name in engine.catalog
        ]
        if any(isinstance(view, ViewEntry) and callable(view.definition) for view in views) or any(
            name in engine.dataflows for name in engine.views.dependents(old.name)
        ):
            self.check_no_users("changing the columns of")
        words, tally = change(engine.executor.tables.scan(old.name)), engine.table(old.name).tally
        number = engine.executor.tables.table_number(old.name)
        clause = distribution.declared_distribution(engine.extras, number) if engine.extras else None
        engine.catalog.remove(old.name)
        engine.tables.drop_at_commit(old.name)
        engine.tables.create(new.name, new.schema, new.constraints)
        if clause is not None:
            distribution.declare_distribution(engine, new.name, clause)
        table = engine.table(new.name)
        words = np.ascontiguousarray(words)
        check_computed(words, table)
        if table.guard is not None:
            table.guard.expression_keys = ()  # the key tables keep the old rows until they are rebuilt
        table.insert(fit_lengths(words, table))
        table.tally = tally
        engine.executor.tables.restart_history(
            new.name, engine.executor.epoch + engine.executor.tables.has_pending
        )
        self.entry = engine.catalog.table(new.name)
        for index in engine.catalog.indexes.values():
            if index.table == new.name:
                engine.journal.add(finish=partial(engine.tables.uninstall_index, index.name))
                engine.journal.add(finish=partial(install_if_exists, engine, index.name))
        engine.views.follow_rewrite(old, new, kept, [view for view in views if isinstance(view, ViewEntry)])


def action_for_partition(parent: TableEntry, child: TableEntry, action: ast.Action) -> ast.Action | None:
    """Return the action on a partition for one on its parent; keys have names of their own."""
    if isinstance(action, ast.AddConstraint) and isinstance(action.constraint, Unique | ForeignKey):
        return replace(action, constraint=replace(action.constraint, name=""))
    if not isinstance(action, ast.DropConstraint):
        return action
    found = next((one for one in parent.constraints if one.name.lower() == action.name.lower()), None)
    for one in child.constraints:
        same = found is not None and replace(one, name="") == replace(found, name="")
        if same and (not isinstance(one, Check) or one.name.lower() == action.name.lower()):
            return replace(action, name=one.name)
    return None


def run_partition_action(
    engine: Engine,
    entry: TableEntry,
    action: ast.AttachPartition | ast.DetachPartition | ast.SetRowSecurity,
    span: Span,
) -> None:
    """Run ATTACH PARTITION, DETACH PARTITION, or a change of row-level security."""
    match action:
        case ast.AttachPartition():
            attach(engine, entry, action, span)
        case ast.DetachPartition():
            detach(engine, entry, action, span)
        case ast.SetRowSecurity():
            access_control.installed().alter_row_security(engine, entry, action, span)
        case _:
            assert_never(action)


class RuleChange:
    """Changes of a table's constraints, DEFAULTs and identities."""

    def __init__(self, table: TableChange) -> None:
        self.table = table
        self.engine = table.engine
        self.span = table.span

    def set_rule(self, action: ast.SetRule) -> None:
        place = self.table.position_of(action.name)
        column = self.table.entry.schema.columns[place]
        rules = self.table.rules()
        rule = rules[place]
        match action.part:
            case "default":
                if rule.generated or rule.identity:
                    kind = "generated" if rule.generated else "an identity column"
                    raise ProgrammingError(
                        f'column "{column.name}" is {kind}: it has no DEFAULT', span=self.span
                    )
                bind_default(column, action.text, self.engine.catalog)
                rules[place] = replace(rule, default=action.text)
            case "generated":
                if not rule.generated:
                    self.report_missing_rule(action, column, "is not a stored generated column")
                rules[place] = replace(rule, generated="")
            case _:
                rules[place] = self.identity(action, rule, column)
        kept = tuple(rules) if any(other != NO_RULE for other in rules) else ()
        self.table.replace_entry(
            replace(self.table.entry, constraints=replace(self.table.entry.constraints, rules=kept))
        )

    def report_missing_rule(self, action: ast.SetRule, column: ColumnDef, fact: str) -> None:
        """Raise ProgrammingError for a rule that a column lacks; with IF EXISTS, send a notice."""
        table_name = self.engine.catalog.unqualified_name(self.table.entry.name)
        fact = f'column "{column.name}" of relation "{table_name}" {fact}'
        if not action.if_exists:
            raise ProgrammingError(fact, span=self.span)
        notice_skipped(self.engine, fact)

    def identity(self, action: ast.SetRule, rule: Rule, column: ColumnDef) -> Rule:
        if not action.text:
            if not rule.identity:
                self.report_missing_rule(action, column, "is not an identity column")
            if rule.sequence:
                self.engine.catalog.apply(SEQUENCES.remove(rule.sequence.lower()))
            return Rule(generated=rule.generated)
        if action.sequence is None:
            if not rule.identity:
                raise ProgrammingError(f'column "{column.name}" is not an identity column', span=self.span)
            return replace(rule, identity=action.text)
        if rule.default or rule.generated or column.nullable:
            problem = "has a DEFAULT already" if rule.default else "must be NOT NULL"
            raise ProgrammingError(f'column "{column.name}" {problem}', span=self.span)
        added = ast.AddColumn(column, rule, (), action.sequence, False)
        return replace(self.table.add_sequence(added, rule), identity=action.text)

    def alter_identity(self, action: ast.AlterIdentity) -> None:
        rule = self.table.entry.constraints.rule(self.table.position_of(action.name))
        if not rule.identity:
            message = (
                f'column "{action.name}" of relation "{self.table.entry.name}" is not an identity column'
            )
            raise ProgrammingError(message, span=self.span)
        if action.kind:
            self.set_rule(ast.SetRule(action.name, "identity", action.kind))
        if action.options:
            alter_sequence(
                self.engine, ast.AlterSequence(rule.sequence, action.options, False, "", self.span)
            )

    def set_not_null(self, name: str, required: bool) -> None:
        place = self.table.position_of(name)
        if not required and place in self.table.entry.primary_key:
            raise ProgrammingError(f'column "{name}" is in the primary key', span=self.span)
        columns = list(self.table.entry.schema.columns)
        before = not columns[place].nullable
        if before == required:
            return
        if not required:
            self.table.check_no_users(f"dropping NOT NULL of column {name} of")
        columns[place] = replace(columns[place], nullable=not required)
        set_required = partial(self.engine.executor.tables.set_required, self.table.entry.name, place)
        set_required(required=required)
        self.engine.journal.add(undo=partial(set_required, required=before))
        schema = Schema(tuple(columns), self.table.entry.schema.primary_key)
        self.table.replace_entry(replace(self.table.entry, schema=schema))
        self.engine.set_schema(self.table.entry.name, schema)

    def add_constraint(self, action: ast.AddConstraint) -> None:
        engine = self.engine
        if isinstance(action.constraint, Unique) and self.inherits_key(action.constraint):
            return
        new = with_constraint(self.table.entry, action.constraint, engine.catalog, self.span)
        match action.constraint:
            case Check():
                self.table.replace_entry(new)
                engine.tables.refresh_constraints()
                guard = engine.table(new.name).guard
                if action.validates and guard is not None:
                    guard.check(engine.executor.tables.scan(new.name))
            case Unique(primary=True) if engine.views.dependents(new.name):
                # Views know the table without a primary key: one that keeps the same rows out is enough.
                for name in action.constraint.columns:
                    self.set_not_null(name, True)
                found = next(unique for unique in new.constraints.uniques if unique.primary)
                add_key(engine, self.table.entry, replace(found, primary=False, late=True))
                self.table.entry = engine.catalog.table(new.name)
            case Unique(primary=True):
                self.table.check_no_users("adding a primary key to")
                self.table.rewrite(new, lambda words: words, tuple(range(len(new.schema.columns))))
            case Unique():
                add_key(engine, self.table.entry, new.constraints.uniques[-1])
                self.table.entry = engine.catalog.table(new.name)
            case ForeignKey():
                self.table.replace_entry(new)
                engine.tables.refresh_constraints()
                if action.validates:
                    engine.tables.foreign_keys.check_existing_rows(
                        resolve_link(new, new.constraints.foreign_keys[-1], engine.catalog)
                    )
            case _:
                assert_never(action.constraint)

    def inherits_key(self, key: Unique) -> bool:
        """Whether a partition already has a key: by name, or the primary key of the same columns.

        Dumps define keys for each partition, and then attach the indexes.
        """
        if self.table.entry.name.lower() not in self.engine.catalog.partitions:
            return False
        columns = [name.lower() for name in key.columns]
        return any(
            [name.lower() for name in one.columns] == columns
            and (one.name.lower() == key.name.lower() or (one.is_primary and key.primary))
            for one in self.table.entry.constraints.uniques
        )

    def drop_constraint(self, action: ast.DropConstraint) -> None:
        entry, old, engine = self.table.entry, self.table.entry.constraints, self.engine
        found = next(
            (constraint for constraint in old if constraint.name.lower() == action.name.lower()), None
        )
        match found:
            case None:
                if action.if_exists:
                    shown = engine.catalog.unqualified_name(entry.name)
                    notice_skipped(engine, f'constraint "{action.name}" of relation "{shown}" does not exist')
                else:
                    known = (constraint.name for constraint in old)
                    message = f'constraint "{action.name}" of "{entry.name}" does not exist'
                    raise ProgrammingError(message, span=self.span, hint=did_you_mean(action.name, known))
            case Check():
                checks = tuple(constraint for constraint in old.checks if constraint != found)
                self.table.replace_entry(replace(entry, constraints=replace(old, checks=checks)))
            case ForeignKey():
                keys = tuple(constraint for constraint in old.foreign_keys if constraint != found)
                self.table.replace_entry(replace(entry, constraints=replace(old, foreign_keys=keys)))
            case Unique():
                for link in [*engine.tables.foreign_keys.referring_keys(entry.name), *self.self_references()]:
                    if set(link.key.target_columns) == set(found.columns):
                        self.table.drop_reference(
                            link.table, link.key, ", ".join(found.columns), cascade=action.cascade
                        )
                        self.table.entry = entry = engine.catalog.table(entry.name)
                if found.primary:
                    self.table.check_no_users("dropping the primary key of")
                    keys_ = tuple(
                        constraint for constraint in entry.constraints.uniques if constraint != found
                    )
                    schema = Schema(entry.schema.columns)
                    new = TableEntry(entry.name, schema, replace(entry.constraints, uniques=keys_))
                    self.table.rewrite(new, lambda words: words, tuple(range(len(schema.columns))))
                else:
                    drop_key(engine, entry, found)
                    self.table.entry = engine.catalog.table(entry.name)
            case _:
                assert_never(found)

    def alter_constraint(self, action: ast.AlterConstraint) -> None:
        entry, engine = self.table.entry, self.engine
        found = next(
            (
                constraint
                for constraint in entry.constraints
                if constraint.name.lower() == action.name.lower()
            ),
            None,
        )
        message = f'constraint "{action.name}" of relation "{entry.name}"'
        match found:
            case Check() if action.validates:
                engine.tables.refresh_constraints()
                guard = engine.table(entry.name).guard
                if guard is not None:
                    guard.check(engine.executor.tables.scan(entry.name))
            case ForeignKey() if action.validates:
                engine.tables.foreign_keys.check_existing_rows(resolve_link(entry, found, engine.catalog))
            case ForeignKey():
                changed = replace(found, deferrable=action.deferrable, deferred=action.deferred)
                keys = tuple(
                    changed if constraint == found else constraint
                    for constraint in entry.constraints.foreign_keys
                )
                self.table.replace_entry(
                    replace(entry, constraints=replace(entry.constraints, foreign_keys=keys))
                )
            case None:
                raise ProgrammingError(f"{message} does not exist", span=self.span)
            case Check() | Unique():
                wanted = "or check constraint" if action.validates else "constraint"
                raise ProgrammingError(f"{message} is not a foreign key {wanted}", span=self.span)
            case _:
                assert_never(found)

    def self_references(self) -> list[Link]:
        return [
            resolve_link(self.table.entry, key, self.engine.catalog)
            for key in self.table.entry.constraints.foreign_keys
            if key.target == self.table.entry.name
        ]

    def rename_constraint(self, old: str, new: str) -> None:
        constraints = self.table.entry.constraints
        names = [constraint.name.lower() for constraint in constraints]
        if old.lower() not in names:
            raise ProgrammingError(
                f'constraint "{old}" of "{self.table.entry.name}" does not exist', span=self.span
            )
        if new.lower() in names:
            raise ProgrammingError(
                f'constraint "{new}" of "{self.table.entry.name}" exists already', span=self.span
            )
        for key in constraints.uniques:
            if key.name.lower() == old.lower() and not key.primary:
                drop_key(self.engine, self.table.entry, key)
                add_key(self.engine, self.engine.catalog.table(self.table.entry.name), replace(key, name=new))
                self.table.entry = self.engine.catalog.table(self.table.entry.name)
                return
        self.table.replace_entry(
            replace(
                self.table.entry,
                constraints=Constraints(
                    constraints.rules,
                    tuple(
                        replace(constraint, name=new)
                        if constraint.name.lower() == old.lower()
                        else constraint
                        for constraint in constraints.checks
                    ),
                    tuple(
                        replace(constraint, name=new)
                        if constraint.name.lower() == old.lower()
                        else constraint
                        for constraint in constraints.uniques
                    ),
                    tuple(
                        replace(constraint, name=new)
                        if constraint.name.lower() == old.lower()
                        else constraint
                        for constraint in constraints.foreign_keys
                    ),
                ),
            )
        )


class ColumnChange:
    """Changes of a table's columns, and of its name."""

    def __init__(self, table: TableChange, rules: RuleChange) -> None:
        self.table = table
        self.rules = rules
        self.engine = table.engine
        self.span = table.span

    def add_columns(self, actions: Sequence[ast.AddColumn]) -> None:
        """Add columns at the end: the rows are written once for all of them."""
        engine, entry = self.engine, self.table.entry
        width, rules = len(entry.schema.columns), self.table.rules()
        known = {name.lower() for name in entry.schema.names}
        added: list[ast.AddColumn] = []
        for action in actions:
            name = action.column.name
            if name.lower() in known:
                shown = engine.catalog.unqualified_name(entry.name)
                fact = f'column "{name}" of relation "{shown}" already exists'
                if not action.if_not_exists:
                    error = ProgrammingError(fact, span=self.span)
                    error.sqlstate = "42701"
                    raise error
                notice_skipped(engine, fact, "42701")
                continue
            known.add(name.lower())
            added.append(action)
            has_sequence = action.sequence is not None
            rules.append(self.table.add_sequence(action, action.rule) if has_sequence else action.rule)
        if not added:
            return
        columns = (replace(action.column, nullable=True) for action in added)
        schema = Schema((*entry.schema.columns, *columns), entry.schema.primary_key)
        constraints = replace(
            entry.constraints, rules=tuple(rules) if any(rule != NO_RULE for rule in rules) else ()
        )
        new = TableEntry(entry.name, schema, constraints)
        computed = tuple(place for place in range(width, len(rules)) if rules[place].default)

        def append_values(words: Words) -> Words:
            rows = words.shape[1]
            values = np.full((len(added), rows), NULL, np.int64)
            if computed and rows:
                values[[place - width for place in computed]] = default_words(
                    engine.executor, engine.sequences, new, engine.catalog, computed, rows
                )
            return np.concatenate((words, values))

        self.table.rewrite(new, append_values, tuple(range(width)))
        for action in added:
            if not action.column.nullable:
                self.rules.set_not_null(action.column.name, True)
            for constraint in action.constraints:
                self.rules.add_constraint(ast.AddConstraint(constraint, True))

    def drop_column(self, action: ast.DropColumn) -> None:
        entry = self.table.entry
        if action.if_exists and action.name.lower() not in (name.lower() for name in entry.schema.names):
            shown = self.engine.catalog.unqualified_name(entry.name)
            notice_skipped(self.engine, f'column "{action.name}" of relation "{shown}" does not exist')
            return
        place = self.table.position_of(action.name)
        name = entry.schema.names[place]
        if len(entry.schema.columns) == 1:
            raise NotSupportedError("a table without columns is not supported", span=self.span)
        self.check_not_partition_key(name)
        self.drop_column_users(name, place, cascade=action.cascade)
        if self.engine.catalog.policies:
            drop_policies(self.engine, (entry.name,), name, cascade=action.cascade, span=self.span)
        self.drop_column_references(name, cascade=action.cascade)
        entry = self.table.entry
        generated = self.find_generated(name, cascade=action.cascade)
        if generated:
            notice_cascade(self.engine, [f"column {generated} of {describe(self.engine, entry.name)}"])
            self.drop_column(ast.DropColumn(generated, True, True))
            self.drop_column(action)
            return
        kept = tuple(index for index in range(len(entry.schema.columns)) if index != place)
        schema = Schema(
            tuple(entry.schema.columns[index] for index in kept),
            ()
            if place in entry.schema.primary_key
            else tuple(kept.index(index) for index in entry.schema.primary_key),
        )
        old = entry.constraints
        constraints = _drop_column_constraints(old, name, kept)
        sequence = old.rule(place).sequence
        if sequence:
            self.engine.catalog.apply(SEQUENCES.remove(sequence.lower()))
        self.drop_column_objects(name)
        chosen = list(kept)
        self.table.rewrite(TableEntry(entry.name, schema, constraints), lambda words: words[chosen], kept)

    def drop_column_users(self, name: str, position: int, *, cascade: bool) -> None:
        """Drop the views that use a column; ProgrammingError without ``cascade``."""
        users = column_users(self.engine, self.table.entry, position)
        descriptions = [describe(self.engine, user) for user in users]
        if users and not cascade:
            raise ProgrammingError(
                f'column {name} of "{self.table.entry.name}" cannot be dropped: {", ".join(descriptions)} '
                f"use{'' if len(users) > 1 else 's'} it",
                span=self.span,
                hint="drop what uses it first, or use CASCADE",
            )
        notice_cascade(self.engine, descriptions)
        drop_users(self.engine, users)

    def drop_column_references(self, column: str, *, cascade: bool) -> None:
        """Drop the foreign keys whose unique key has a column; ProgrammingError without ``cascade``.

        A foreign key of the column itself is dropped with it.
        """
        for key in self.table.entry.constraints.uniques:
            if column not in (*key.columns, *key.included):
                continue
            for link in key_references(self.engine, self.table.entry, key):
                if link.table == self.table.entry.name and column in link.key.columns:
                    continue
                self.table.drop_reference(link.table, link.key, column, cascade=cascade)
        self.table.entry = self.engine.catalog.table(self.table.entry.name)

    def check_not_partition_key(self, column: str) -> None:
        partitioned = self.engine.catalog.partitioned.get(self.table.entry.name.lower())
        if partitioned is not None and any(uses_column(key, column) for key in partitioned.keys):
            relation = self.engine.catalog.unqualified_name(self.table.entry.name)
            message = f'cannot drop column "{column}": it is in the partition key of relation "{relation}"'
            error = ProgrammingError(message, span=self.span)
            error.sqlstate = "42P16"
            raise error

    def find_generated(self, name: str, *, cascade: bool) -> str:
        """Return a column generated from another one, to be dropped with it; empty if there is none."""
        entry = self.table.entry
        for other, rule in zip(entry.schema.names, entry.constraints.rules, strict=False):
            if other != name and rule.generated and uses_column(rule.generated, name):
                if cascade:
                    return other
                raise ProgrammingError(
                    f"column {name} cannot be dropped: {other} is generated from it",
                    span=self.span,
                    hint="drop that first, or use CASCADE",
                )
        return ""

    def drop_column_objects(self, column: str) -> None:
        """Drop a column's indexes, comments and privileges."""
        key = ("COLUMN", self.table.entry.name.lower(), column.lower())
        catalog = self.engine.catalog
        catalog.apply(COMMENTS.remove(key), *catalog.privileges.ops_to_remove(key))
        for index in catalog.indexes.values():
            if index.table == self.table.entry.name and index_uses_column(catalog, index, column):
                drop_created_index(self.engine, index)

    def alter_type(self, action: ast.AlterType) -> None:
        entry = self.table.entry
        place = self.table.position_of(action.name)
        name = entry.schema.names[place]
        self.table.check_no_users(f"changing the type of column {name} of")
        columns = list(entry.schema.columns)
        columns[place] = replace(columns[place], type=action.type)
        schema = Schema(tuple(columns), entry.schema.primary_key)
        new = replace(entry, schema=schema)
        rule = entry.constraints.rule(place)
        if rule.default and not rule.sequence:
            bind_default(columns[place], rule.default, self.engine.catalog)
        mfp = convert_column(entry, place, action.type, action.using, self.engine.catalog)

        def convert(words: Words) -> Words:
            parts = []
            for start in range(0, words.shape[1], CONVERTED_ROWS):
                safe_point()
                part = np.ascontiguousarray(words[:, start : start + CONVERTED_ROWS])
                parts.append(self.engine.executor.evaluate(mfp, part)[0])
            safe_point()
            return np.concatenate(parts, axis=1) if parts else words

        self.table.rewrite(new, convert, tuple(range(len(columns))))

    def rename_column(self, old: str, new: str) -> None:
        entry = self.table.entry
        place = self.table.position_of(old)
        schema = rename_schema_column(entry.schema, place, new, self.span)
        before = entry.schema.names[place]
        relation = entry.name.lower()
        catalog = self.engine.catalog
        old_key, new_key = ("COLUMN", relation, before.lower()), ("COLUMN", relation, new.lower())
        catalog.apply(*catalog.privileges.ops_to_rename(old_key, new_key))
        if old_key in catalog.comments:
            catalog.apply(COMMENTS.remove(old_key), COMMENTS.put(new_key, catalog.comments[old_key]))

        def rename_in(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(new if name == before else name for name in names)

        if catalog.policies:
            access_control.installed().rename_column_in_policies(catalog, entry.name, before, new, self.span)
        was = entry.constraints
        constraints = Constraints(
            tuple(replace(rule, generated=rename_column(rule.generated, before, new)) for rule in was.rules),
            tuple(replace(check, text=rename_column(check.text, before, new)) for check in was.checks),
            tuple(
                replace(key, columns=rename_in(key.columns), included=rename_in(key.included))
                for key in was.uniques
            ),
            tuple(
                replace(
                    key,
                    columns=rename_in(key.columns),
                    set_columns=rename_in(key.set_columns),
                    target_columns=rename_in(key.target_columns)
                    if key.target == entry.name
                    else key.target_columns,
                )
                for key in was.foreign_keys
            ),
        )
        self.table.replace_entry(TableEntry(entry.name, schema, constraints))
        self.rename_references(before, new)
        self.engine.set_schema(entry.name, schema)

    def rename_references(self, before: str, new: str) -> None:
        """Rename a column in other tables, indexes and sequences."""
        entry, catalog = self.table.entry, self.engine.catalog

        def rename_in(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(new if name == before else name for name in names)

        ops: list[CatalogOp] = []
        partitioned = catalog.partitioned.get(entry.name.lower())
        if partitioned is not None:
            partition_keys = tuple(rename_column(key, before, new) for key in partitioned.keys)
            ops.append(PARTITIONED.put(entry.name.lower(), replace(partitioned, keys=partition_keys)))
        for child, partition in catalog.partitions.items():
            if partition.parent == entry.name:
                bound = rename_column(partition.bound, before, new)
                ops.append(PARTITIONS.put(child, replace(partition, bound=bound)))
        for place, one in catalog.unique_indexes.items():
            if place[0] == entry.name.lower():
                elements = tuple(rename_column(text, before, new) for text in one.elements)
                moved = replace(one, elements=elements, where=rename_column(one.where, before, new))
                ops.append(UNIQUE_INDEXES.put(place, moved))
        for link in self.engine.tables.foreign_keys.referring_keys(entry.name):
            other = catalog.table(link.table)
            keys = tuple(
                replace(key, target_columns=rename_in(key.target_columns))
                if key.target == entry.name
                else key
                for key in other.constraints.foreign_keys
            )
            catalog.replace(replace(other, constraints=replace(other.constraints, foreign_keys=keys)))
        for name, index in catalog.indexes.items():
            if index.table == entry.name:
                what = index.what
                if index_uses_column(catalog, index, before):
                    what = rename_in_tokens(what, before, new)
                ops.append(INDEXES.put(name, replace(index, columns=rename_in(index.columns), what=what)))
        for name, sequence in catalog.sequences.items():
            if sequence.owner == (entry.name, before):
                ops.append(SEQUENCES.put(name, replace(sequence, owner=(entry.name, new))))
        catalog.apply(*ops)

    def rename(self, name: str) -> str:
        engine, old = self.engine, self.table.entry
        if name in engine.catalog or name.lower() in engine.catalog.sequences:
            raise ProgrammingError(f'relation "{name}" already exists', span=self.span)
        if any(user in engine.dataflows for user in engine.views.dependents(old.name)):
            self.table.check_no_users("renaming")
        rename_table(engine, old, name)
        self.table.entry = engine.catalog.table(name)
        return name


def _drop_column_constraints(old: Constraints, column: str, kept: tuple[int, ...]) -> Constraints:
    """Return the constraints without those of a dropped column; ``kept`` are positions of other columns."""
    lower = column.lower()
    return Constraints(
        tuple(old.rules[index] for index in kept) if old.rules else (),
        tuple(check for check in old.checks if not uses_column(check.text, column)),
        tuple(
            key
            for key in old.uniques
            if lower not in (key_column.lower() for key_column in (*key.columns, *key.included))
        ),
        tuple(
            key for key in old.foreign_keys if lower not in (key_column.lower() for key_column in key.columns)
        ),
    )


def alter_relation(engine: Engine, statement: ast.Alter) -> None:
    """Run ALTER TABLE, VIEW, INDEX or SEQUENCE, unless the session has a cursor or portal on the table."""
    if statement.kind == "TABLE" and not all(
        isinstance(action, RENAMING_ACTIONS) for action in statement.actions
    ):
        check_unused(engine, (statement.name,), "ALTER TABLE", statement.span)
    alter(engine, statement)


def alter(engine: Engine, statement: ast.Alter) -> None:
    """Run the actions of a statement, one after the other."""
    if statement.kind == "INDEX":
        _alter_index(engine, statement)
        return
    if statement.kind == "TABLE" and engine.catalog.find_sequence(statement.name) is not None:
        numbers = engine.catalog.sequence(statement.name)
        if statement.actions and isinstance(statement.actions[0], ast.RenameTo):
            rename_sequence(engine, numbers, sibling_name(numbers.name, statement.actions[0].name))
        return
    entry = engine.catalog.find(statement.name)
    if entry is None:
        if not statement.if_exists:
            engine.catalog.get(statement.name, statement.span)
        notice_missing_relation(engine, statement.name)
        return
    name = entry.name
    partitions: set[str] = set()
    for action, added in _group_additions(statement.actions):
        found = engine.catalog.get(name, statement.span)
        if isinstance(found, ViewEntry):
            name = _alter_view(engine, found, action, statement)
        else:
            if statement.kind != "TABLE":
                raise ProgrammingError(
                    f'"{found.name}" is a table', span=statement.span, hint="use ALTER TABLE"
                )
            rest: tuple[str, ...] = ()
            if engine.catalog.partitioned:
                _, *rest_ = tables_to_alter(engine, name, action, statement.span)
                rest = tuple(rest_)
                partitions.update(rest)
            name = apply_action(engine, found, action, statement.span, added)
            for partition in rest:
                child = engine.catalog.table(partition)
                child_action = action_for_partition(found, child, action)
                if child_action is not None:
                    apply_action(engine, child, child_action, statement.span, added)
    engine.tables.refresh_constraints()
    for changed in (name, *sorted(partitions)):
        if any(table == changed.lower() for table, _ in engine.catalog.unique_indexes):
            rebuild_unique_indexes(engine, changed)


def _group_additions(
    actions: Sequence[ast.Action],
) -> list[tuple[ast.Action, list[ast.AddColumn]]]:
    """Return the actions, an ADD COLUMN with the ADD COLUMNs that follow it."""
    groups: list[tuple[ast.Action, list[ast.AddColumn]]] = []
    for action in actions:
        if groups and isinstance(action, ast.AddColumn) and isinstance(groups[-1][0], ast.AddColumn):
            groups[-1][1].append(action)
        else:
            groups.append((action, []))
    return groups


def _alter_index(engine: Engine, statement: ast.Alter) -> None:
    catalog = engine.catalog
    if not statement.actions:
        return
    index = catalog.indexes.get(statement.name.lower())
    action = statement.actions[0]
    if index is None:
        if not statement.if_exists:
            raise ProgrammingError(f'index "{statement.name}" does not exist', span=statement.span)
        notice_missing_relation(engine, statement.name)
        return
    if isinstance(action, ast.RenameTo):
        new = replace(index, name=action.name)
        catalog.apply(INDEXES.remove(index.name.lower()), INDEXES.put(new.name.lower(), new))
        engine.journal.add(finish=partial(engine.tables.uninstall_index, index.name))
        install_at_commit(engine, new)


def _alter_view(engine: Engine, entry: ViewEntry, action: ast.Action, statement: ast.Alter) -> str:
    """Rename a view or one of its columns, or change its defaults."""
    match action:
        case ast.RenameTo(name=name):
            return _rename_view(engine, entry, name, statement.span)
        case ast.RenameColumn(old=old, new=new):
            place = column_position(entry.schema, entry.name, old, statement.span)
            engine.catalog.replace(
                replace(entry, schema=rename_schema_column(entry.schema, place, new, statement.span))
            )
            if entry.name in engine.views:
                engine.views.rename_column(entry.name, place, new)
            return entry.name
        case ast.SetRule(name=column, part="default", text=text):
            column_position(entry.schema, entry.name, column, statement.span)
            defaults = {**dict(entry.defaults), column.lower(): text}
            given = tuple((name, one) for name, one in defaults.items() if one)
            engine.catalog.replace(replace(entry, defaults=given))
            return entry.name
        case ast.SetSecurityInvoker(invoker=invoker):
            engine.catalog.replace(replace(entry, invoker=invoker and not entry.materialized))
            return entry.name
        case ast.NoEffect() | ast.SetRule():
            return entry.name
        case _:
            raise ProgrammingError(
                f'"{entry.name}" is a view: it has no columns to change', span=statement.span
            )


def _rename_view(engine: Engine, entry: ViewEntry, name: str, span: Span) -> str:
    new = sibling_name(entry.name, name)
    if new in engine.catalog:
        raise ProgrammingError(f'relation "{new}" already exists', span=span)
    if entry.name in engine.dataflows or entry.definition is None or callable(entry.definition):
        raise NotSupportedError(f'renaming "{entry.name}" is not supported: a program made it', span=span)
    users = engine.views.users(entry.name)
    if users:
        raise NotSupportedError(
            f'renaming "{entry.name}" is not supported while view "{users[0]}" uses it',
            span=span,
            hint="drop it first",
        )
    engine.views.rename(entry, new)
    rewrite_references(engine, {(RELATION, entry.name.lower()): new})
    return new


def apply_action(
    engine: Engine, entry: TableEntry, action: ast.Action, span: Span, added: Sequence[ast.AddColumn] = ()
) -> str:
    """Run one action on a table and return the table's name after it.

    ``added`` are the ADD COLUMNs after one.
    """
    table = TableChange(engine, entry, span)
    rules = RuleChange(table)
    columns = ColumnChange(table, rules)
    match action:
        case ast.AddColumn():
            columns.add_columns((action, *added))
        case ast.DropColumn():
            columns.drop_column(action)
        case ast.RenameColumn(old=old, new=new):
            columns.rename_column(old, new)
        case ast.RenameTo(name=name):
            return columns.rename(sibling_name(table.entry.name, name))
        case ast.SetSchema(schema=schema):
            plain = table.entry.name.rpartition(".")[2]
            return columns.rename(engine.catalog.qualify_new_name(f"{schema}.{plain}", span=span))
        case ast.AlterType():
            columns.alter_type(action)
        case ast.SetRule():
            rules.set_rule(action)
        case ast.AlterIdentity():
            rules.alter_identity(action)
        case ast.SetNotNull(name=name, not_null=required):
            rules.set_not_null(name, required)
        case ast.AddConstraint():
            rules.add_constraint(action)
        case ast.DropConstraint():
            rules.drop_constraint(action)
        case ast.RenameConstraint(old=old, new=new):
            rules.rename_constraint(old, new)
        case ast.AlterConstraint():
            rules.alter_constraint(action)
        case ast.AttachPartition() | ast.DetachPartition() | ast.SetRowSecurity():
            run_partition_action(engine, table.entry, action, span)
        case ast.NoEffect() | ast.SetSecurityInvoker():
            pass
        case _:
            assert_never(action)
    return table.entry.name
