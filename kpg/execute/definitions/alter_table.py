"""ALTER TABLE: columns, defaults, identities, constraints, partitions, and row-level security.

A change of columns creates the table anew and copies its rows. Views read columns by position, so a view over
a table that gains a column is planned again over the old ones. A change that a view would not survive is
refused with the name of the view.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.constraints import NO_RULE, Check, Constraints, ForeignKey, Heir, Rule, Unique
from kpg.compiler.catalog.entries import TableEntry, ViewEntry, did_you_mean
from kpg.compiler.qualified_names import beside
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.rewrite.column_expressions import bind_default, converted, renamed, uses
from kpg.compiler.sql.rewrite.deparse import RELATION
from kpg.compiler.sql.rewrite.name_qualification import sequence_call
from kpg.execute.changes.defaults import default_words
from kpg.execute.changes.foreign_keys import Link, link_of
from kpg.execute.changes.partition_routing import altered_together
from kpg.execute.changes.table_writes import checked
from kpg.execute.definitions.drop import column_users, described, drop_users
from kpg.execute.definitions.indexes import add_key, drop_key, install_if_there, keep, rebuild_unique_indexes
from kpg.execute.definitions.partitions import attach, detach
from kpg.execute.definitions.rename import follow, rename_sequence, rename_table
from kpg.execute.definitions.sequences import alter_sequence
from kpg.execute.definitions.table_definition import free_name, with_constraint
from kpg.execute.queries.cursors import check_unused
from kpg.postgres.row_security import refuse_column, secure
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span
from kpg.runtime.types import NULL, ColumnDef, Schema
from kpg.session.engine import Engine
from kpg.session.notices import say_cascade, say_skipped, say_skipped_relation

Words = NDArray[np.int64]

NAMES = (ast.RenameTo, ast.RenameColumn, ast.RenameConstraint, ast.SetSchema)
"""Actions that only change names."""


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
    """A table under change: its present entry, and what all actions on it need."""

    def __init__(self, engine: Engine, entry: TableEntry, span: Span) -> None:
        self.engine = engine
        self.entry = entry
        self.span = span

    def put(self, entry: TableEntry) -> None:
        self.engine.catalog.replace(entry)
        self.entry = entry

    def place(self, name: str) -> int:
        return place_of(self.entry.schema, self.entry.name, name, self.span)

    def rules(self) -> list[Rule]:
        return list(self.entry.constraints.rules or (NO_RULE,) * len(self.entry.schema.columns))

    def refuse_users(self, what: str) -> None:
        users = self.engine.views.users(self.entry.name)
        if users:
            raise NotSupportedError(
                f'{what} "{self.entry.name}" is not supported while '
                f"{', '.join(users)} use{'' if len(users) > 1 else 's'} it",
                span=self.span,
                hint="drop what uses it first, and make it again afterwards",
            )

    def numbered(self, action: ast.AddColumn, rule: Rule) -> Rule:
        assert action.sequence is not None
        catalog, column = self.engine.catalog, action.column.name
        plain = self.entry.name.rpartition(".")[2]
        name = action.sequence.name or free_name(f"{plain}_{column}_seq", catalog.sequences)
        name = beside(self.entry.name, name)
        catalog.sequences[name.lower()] = replace(action.sequence, name=name, owner=(self.entry.name, column))
        self.engine.journal.note(undo=self.engine.sequences.forget(name))
        return replace(rule, default=sequence_call(name), sequence=name)

    def drop_reference(self, table: str, key: ForeignKey, name: str, *, cascade: bool) -> None:
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

    def rewrite(self, new: TableEntry, change: Callable[[Words], Words], kept: tuple[int, ...]) -> None:
        """Make the table anew with rows that are made of its rows; ``kept`` are the old columns that stay."""
        engine, old = self.engine, self.entry
        views = [
            engine.catalog.get(name) for name in engine.views.dependents(old.name) if name in engine.catalog
        ]
        if any(isinstance(view, ViewEntry) and callable(view.definition) for view in views) or any(
            name in engine.dataflows for name in engine.views.dependents(old.name)
        ):
            self.refuse_users("changing the columns of")
        words, tally = change(engine.executor.scan(old.name)), engine.table(old.name).tally
        engine.catalog.remove(old.name)
        engine.tables.set_aside(old.name)
        engine.tables.create(new.name, new.schema, new.constraints)
        table = engine.table(new.name)
        table.insert(checked(np.ascontiguousarray(words), table))
        table.tally = tally
        engine.executor.known_from(new.name, engine.executor.epoch + engine.executor.has_pending)
        self.entry = engine.catalog.table(new.name)
        for index in engine.catalog.indexes.values():
            if index.table == new.name:
                engine.journal.note(done=partial(engine.tables.forget_index, index.name))
                engine.journal.note(done=partial(install_if_there, engine, index.name))
        engine.views.follow(old, new, kept, [view for view in views if isinstance(view, ViewEntry)])


def of_heir(parent: TableEntry, child: TableEntry, action: ast.Action) -> ast.Action | None:
    """What an action on a table is to a partition of it, whose keys have names of their own."""
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


def alter_kin(
    engine: Engine,
    entry: TableEntry,
    action: ast.Attach | ast.Detach | ast.Secure,
    span: Span,
) -> None:
    """Run an action on a table."""
    match action:
        case ast.Attach():
            attach(engine, entry, action, span)
        case ast.Detach():
            detach(engine, entry, action, span)
        case ast.Secure():
            secure(engine, entry, action, span)
        case _:
            assert_never(action)


class RuleChange:
    """Changes of a table's constraints, DEFAULTs and identities."""

    def __init__(self, table: TableChange) -> None:
        self.table = table
        self.engine = table.engine
        self.span = table.span

    def set_rule(self, action: ast.SetRule) -> None:
        place = self.table.place(action.name)
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
                    self.refuse_rule(action, column, "is not a stored generated column")
                rules[place] = replace(rule, generated="")
            case _:
                rules[place] = self.identity(action, rule, column)
        kept = tuple(rules) if any(one != NO_RULE for one in rules) else ()
        self.table.put(
            replace(self.table.entry, constraints=replace(self.table.entry.constraints, rules=kept))
        )

    def refuse_rule(self, action: ast.SetRule, column: ColumnDef, fact: str) -> None:
        """Raise ProgrammingError for a rule that a column does not have; with IF EXISTS, say so."""
        fact = (
            f'column "{column.name}" of relation "{self.engine.catalog.plain(self.table.entry.name)}" {fact}'
        )
        if not action.if_exists:
            raise ProgrammingError(fact, span=self.span)
        say_skipped(self.engine, fact)

    def identity(self, action: ast.SetRule, rule: Rule, column: ColumnDef) -> Rule:
        if not action.text:
            if not rule.identity:
                self.refuse_rule(action, column, "is not an identity column")
            if rule.sequence:
                self.engine.catalog.sequences.pop(rule.sequence.lower(), None)
            return Rule(generated=rule.generated)
        if action.sequence is None:
            if not rule.identity:
                raise ProgrammingError(f'column "{column.name}" is not an identity column', span=self.span)
            return replace(rule, identity=action.text)
        if rule.default or rule.generated or column.nullable:
            problem = "has a DEFAULT already" if rule.default else "must be NOT NULL"
            raise ProgrammingError(f'column "{column.name}" {problem}', span=self.span)
        added = ast.AddColumn(column, rule, (), action.sequence, False)
        return replace(self.table.numbered(added, rule), identity=action.text)

    def alter_identity(self, action: ast.AlterIdentity) -> None:
        rule = self.table.entry.constraints.rule(self.table.place(action.name))
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
        place = self.table.place(name)
        if not required and place in self.table.entry.schema.primary_key:
            raise ProgrammingError(f'column "{name}" is in the primary key', span=self.span)
        columns = list(self.table.entry.schema.columns)
        before = not columns[place].nullable
        if before == required:
            return
        if not required:
            self.table.refuse_users(f"dropping NOT NULL of column {name} of")
        columns[place] = replace(columns[place], nullable=not required)
        set_required = partial(self.engine.executor.set_required, self.table.entry.name, place)
        set_required(required=required)
        self.engine.journal.note(undo=partial(set_required, required=before))
        schema = Schema(tuple(columns), self.table.entry.schema.primary_key)
        self.table.put(replace(self.table.entry, schema=schema))
        self.engine.set_schema(self.table.entry.name, schema)

    def add_constraint(self, action: ast.AddConstraint) -> None:
        engine = self.engine
        if isinstance(action.constraint, Unique) and self.has_from_whole(action.constraint):
            return
        new = with_constraint(self.table.entry, action.constraint, engine.catalog, self.span)
        match action.constraint:
            case Check():
                self.table.put(new)
                engine.tables.refresh_rules()
                guard = engine.table(new.name).guard
                if action.checked and guard is not None:
                    guard.fitting(engine.executor.scan(new.name))
            case Unique(primary=True) if engine.views.dependents(new.name):
                # Views know the table without a primary key: one that keeps the same rows out is enough.
                for name in action.constraint.columns:
                    self.set_not_null(name, True)
                found = next(one for one in new.constraints.uniques if one.primary)
                add_key(engine, self.table.entry, replace(found, primary=False, late=True))
                self.table.entry = engine.catalog.table(new.name)
            case Unique(primary=True):
                self.table.refuse_users("adding a primary key to")
                self.table.rewrite(new, lambda words: words, tuple(range(len(new.schema.columns))))
            case Unique():
                add_key(engine, self.table.entry, new.constraints.uniques[-1])
                self.table.entry = engine.catalog.table(new.name)
            case ForeignKey():
                self.table.put(new)
                engine.tables.refresh_rules()
                if action.checked:
                    engine.tables.foreign_keys.check_all(
                        link_of(new, new.constraints.foreign_keys[-1], engine.catalog)
                    )
            case _:
                assert_never(action.constraint)

    def has_from_whole(self, key: Unique) -> bool:
        """Whether a partition has a key already: by that name, or the primary one of the same columns.

        Dumps say it of each partition, and then have the indexes attached.
        """
        whole = [one for one in self.engine.catalog.others.values() if isinstance(one, Heir)]
        if not any(one.child.lower() == self.table.entry.name.lower() for one in whole):
            return False
        columns = [name.lower() for name in key.columns]
        return any(
            [name.lower() for name in one.columns] == columns
            and (one.name.lower() == key.name.lower() or (one.is_primary and key.primary))
            for one in self.table.entry.constraints.uniques
        )

    def drop_constraint(self, action: ast.DropConstraint) -> None:
        entry, old, engine = self.table.entry, self.table.entry.constraints, self.engine
        found = next((one for one in old if one.name.lower() == action.name.lower()), None)
        match found:
            case None:
                if action.if_exists:
                    shown = engine.catalog.plain(entry.name)
                    say_skipped(engine, f'constraint "{action.name}" of relation "{shown}" does not exist')
                else:
                    known = (one.name for one in old)
                    message = f'constraint "{action.name}" of "{entry.name}" does not exist'
                    raise ProgrammingError(message, span=self.span, hint=did_you_mean(action.name, known))
            case Check():
                checks = tuple(one for one in old.checks if one != found)
                self.table.put(replace(entry, constraints=replace(old, checks=checks)))
            case ForeignKey():
                keys = tuple(one for one in old.foreign_keys if one != found)
                self.table.put(replace(entry, constraints=replace(old, foreign_keys=keys)))
            case Unique():
                for link in [*engine.tables.foreign_keys.users(entry.name), *self.own_links()]:
                    if set(link.key.target_columns) == set(found.columns):
                        self.table.drop_reference(
                            link.table, link.key, ", ".join(found.columns), cascade=action.cascade
                        )
                        self.table.entry = entry = engine.catalog.table(entry.name)
                if found.primary:
                    self.table.refuse_users("dropping the primary key of")
                    keys_ = tuple(one for one in entry.constraints.uniques if one != found)
                    schema = Schema(entry.schema.columns)
                    new = TableEntry(entry.name, schema, replace(entry.constraints, uniques=keys_))
                    self.table.rewrite(new, lambda words: words, tuple(range(len(schema.columns))))
                else:
                    drop_key(engine, entry, found)
                    self.table.entry = engine.catalog.table(entry.name)
            case _:
                assert_never(found)

    def settle_constraint(self, action: ast.SettleConstraint) -> None:
        entry, engine = self.table.entry, self.engine
        found = next((one for one in entry.constraints if one.name.lower() == action.name.lower()), None)
        message = f'constraint "{action.name}" of relation "{entry.name}"'
        match found:
            case Check() if action.validates:
                engine.tables.refresh_rules()
                guard = engine.table(entry.name).guard
                if guard is not None:
                    guard.fitting(engine.executor.scan(entry.name))
            case ForeignKey() if action.validates:
                engine.tables.foreign_keys.check_all(link_of(entry, found, engine.catalog))
            case ForeignKey():
                changed = replace(found, deferrable=action.deferrable, deferred=action.deferred)
                keys = tuple(changed if one == found else one for one in entry.constraints.foreign_keys)
                self.table.put(replace(entry, constraints=replace(entry.constraints, foreign_keys=keys)))
            case None:
                raise ProgrammingError(f"{message} does not exist", span=self.span)
            case Check() | Unique():
                wanted = "or check constraint" if action.validates else "constraint"
                raise ProgrammingError(f"{message} is not a foreign key {wanted}", span=self.span)
            case _:
                assert_never(found)

    def own_links(self) -> list[Link]:
        return [
            link_of(self.table.entry, key, self.engine.catalog)
            for key in self.table.entry.constraints.foreign_keys
            if key.target == self.table.entry.name
        ]

    def rename_constraint(self, old: str, new: str) -> None:
        was = self.table.entry.constraints
        names = [one.name.lower() for one in was]
        if old.lower() not in names:
            raise ProgrammingError(
                f'constraint "{old}" of "{self.table.entry.name}" does not exist', span=self.span
            )
        if new.lower() in names:
            raise ProgrammingError(
                f'constraint "{new}" of "{self.table.entry.name}" exists already', span=self.span
            )
        for key in was.uniques:
            if key.name.lower() == old.lower() and not key.primary:
                drop_key(self.engine, self.table.entry, key)
                add_key(self.engine, self.engine.catalog.table(self.table.entry.name), replace(key, name=new))
                self.table.entry = self.engine.catalog.table(self.table.entry.name)
                return
        self.table.put(
            replace(
                self.table.entry,
                constraints=Constraints(
                    was.rules,
                    tuple(
                        replace(one, name=new) if one.name.lower() == old.lower() else one
                        for one in was.checks
                    ),
                    tuple(
                        replace(one, name=new) if one.name.lower() == old.lower() else one
                        for one in was.uniques
                    ),
                    tuple(
                        replace(one, name=new) if one.name.lower() == old.lower() else one
                        for one in was.foreign_keys
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

    def add_column(self, action: ast.AddColumn) -> None:
        engine, entry = self.engine, self.table.entry
        shown = engine.catalog.plain(entry.name)
        if action.column.name.lower() in (name.lower() for name in entry.schema.names):
            fact = f'column "{action.column.name}" of relation "{shown}" already exists'
            if not action.if_not_exists:
                error = ProgrammingError(fact, span=self.span)
                error.sqlstate = "42701"
                raise error
            say_skipped(engine, fact, "42701")
            return
        rule = action.rule
        if action.sequence is not None:
            rule = self.table.numbered(action, rule)
        schema = Schema(
            (*entry.schema.columns, replace(action.column, nullable=True)), entry.schema.primary_key
        )
        rules = (*self.table.rules(), rule)
        constraints = replace(entry.constraints, rules=rules if any(one != NO_RULE for one in rules) else ())
        new = TableEntry(entry.name, schema, constraints)
        place = len(entry.schema.columns)

        def extended(words: Words) -> Words:
            values = np.full((1, words.shape[1]), NULL, np.int64)
            if rule.default and words.shape[1]:
                count = words.shape[1]
                values = default_words(
                    engine.executor, engine.sequences, new, engine.catalog, (place,), count
                )
            return np.concatenate((words, values))

        self.table.rewrite(new, extended, tuple(range(place)))
        if not action.column.nullable:
            self.rules.set_not_null(action.column.name, True)
        for constraint in action.constraints:
            self.rules.add_constraint(ast.AddConstraint(constraint, True))

    def drop_column(self, action: ast.DropColumn) -> None:
        entry = self.table.entry
        if action.if_exists and action.name.lower() not in (name.lower() for name in entry.schema.names):
            shown = self.engine.catalog.plain(entry.name)
            say_skipped(self.engine, f'column "{action.name}" of relation "{shown}" does not exist')
            return
        place = self.table.place(action.name)
        name = entry.schema.names[place]
        if len(entry.schema.columns) == 1:
            raise NotSupportedError("a table without columns is not supported", span=self.span)
        self.drop_column_users(name, place, cascade=action.cascade)
        for link in self.engine.tables.foreign_keys.users(entry.name):
            if place in link.target_columns:
                self.table.drop_reference(link.table, link.key, name, cascade=action.cascade)
        generated = self.generated_from(name, cascade=action.cascade)
        if generated:
            say_cascade(self.engine, [f"column {generated} of {described(self.engine, entry.name)}"])
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
        constraints = _without(old, name, kept)
        sequence = old.rule(place).sequence
        if sequence:
            self.engine.catalog.sequences.pop(sequence.lower(), None)
        self.forget_parts_of(name)
        chosen = list(kept)
        self.table.rewrite(TableEntry(entry.name, schema, constraints), lambda words: words[chosen], kept)

    def drop_column_users(self, name: str, place: int, *, cascade: bool) -> None:
        """Drop the views that use a column; ProgrammingError, without ``cascade``, if there are some."""
        users = column_users(self.engine, self.table.entry, place)
        said = [described(self.engine, user) for user in users]
        if users and not cascade:
            raise ProgrammingError(
                f'column {name} of "{self.table.entry.name}" cannot be dropped: {", ".join(said)} '
                f"use{'' if len(users) > 1 else 's'} it",
                span=self.span,
                hint="drop what uses it first, or use CASCADE",
            )
        say_cascade(self.engine, said)
        drop_users(self.engine, users)

    def refuse_policies(self, column: str) -> None:
        if self.engine.catalog.others:
            refuse_column(self.engine.catalog, self.table.entry.name, column, self.span)

    def generated_from(self, name: str, *, cascade: bool) -> str:
        """A column that is generated from another, if it may be dropped with that; "" for none."""
        entry = self.table.entry
        for other, rule in zip(entry.schema.names, entry.constraints.rules, strict=False):
            if other != name and rule.generated and uses(rule.generated, name):
                if cascade:
                    return other
                raise ProgrammingError(
                    f"column {name} cannot be dropped: {other} is generated from it",
                    span=self.span,
                    hint="drop that first, or use CASCADE",
                )
        return ""

    def forget_parts_of(self, column: str) -> None:
        """Its indexes, what was said of it, and who may use it."""
        key = ("COLUMN", self.table.entry.name.lower(), column.lower())
        self.engine.catalog.comments.pop(key, None)
        self.engine.catalog.rights.forget(key)
        for index in list(self.engine.catalog.indexes.values()):
            if index.table == self.table.entry.name and column in index.columns:
                del self.engine.catalog.indexes[index.name.lower()]
                self.engine.journal.note(done=partial(self.engine.tables.forget_index, index.name))

    def alter_type(self, action: ast.AlterType) -> None:
        entry = self.table.entry
        place = self.table.place(action.name)
        name = entry.schema.names[place]
        self.table.refuse_users(f"changing the type of column {name} of")
        columns = list(entry.schema.columns)
        columns[place] = replace(columns[place], type=action.type)
        schema = Schema(tuple(columns), entry.schema.primary_key)
        new = replace(entry, schema=schema)
        rule = entry.constraints.rule(place)
        if rule.default and not rule.sequence:
            bind_default(columns[place], rule.default, self.engine.catalog)
        mfp = converted(entry, place, action.type, action.using, self.engine.catalog)

        def changed(words: Words) -> Words:
            if not words.shape[1]:
                return words
            return self.engine.executor.evaluate(mfp, np.ascontiguousarray(words))[0]

        self.table.rewrite(new, changed, tuple(range(len(columns))))

    def rename_column(self, old: str, new: str) -> None:
        entry = self.table.entry
        place = self.table.place(old)
        schema = with_name(entry.schema, place, new, self.span)
        before = entry.schema.names[place]
        relation = entry.name.lower()
        rights = self.engine.catalog.rights
        rights.rename(("COLUMN", relation, before.lower()), ("COLUMN", relation, new.lower()))
        comments = self.engine.catalog.comments
        said = comments.pop(("COLUMN", relation, before.lower()), None)
        if said is not None:
            comments["COLUMN", relation, new.lower()] = said

        def named(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(new if name == before else name for name in names)

        was = entry.constraints
        constraints = Constraints(
            tuple(replace(rule, generated=renamed(rule.generated, before, new)) for rule in was.rules),
            tuple(replace(check, text=renamed(check.text, before, new)) for check in was.checks),
            tuple(
                replace(key, columns=named(key.columns), included=named(key.included)) for key in was.uniques
            ),
            tuple(
                replace(
                    key,
                    columns=named(key.columns),
                    set_columns=named(key.set_columns),
                    target_columns=named(key.target_columns)
                    if key.target == entry.name
                    else key.target_columns,
                )
                for key in was.foreign_keys
            ),
        )
        self.table.put(TableEntry(entry.name, schema, constraints))
        self.rename_elsewhere(before, new)
        self.engine.set_schema(entry.name, schema)

    def rename_elsewhere(self, before: str, new: str) -> None:
        """The other name where other tables, indexes and sequences have it."""
        entry, catalog = self.table.entry, self.engine.catalog
        self.refuse_policies(before)

        def named(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(new if name == before else name for name in names)

        for rule, one in list(catalog.others.items()):
            if rule[:2] == ("unique index", entry.name.lower()):
                elements = tuple(renamed(text, before, new) for text in one.elements)
                moved = replace(one, elements=elements, where=renamed(one.where, before, new))
                catalog.others[rule] = moved
        for link in self.engine.tables.foreign_keys.users(entry.name):
            other = catalog.table(link.table)
            keys = tuple(
                replace(key, target_columns=named(key.target_columns)) if key.target == entry.name else key
                for key in other.constraints.foreign_keys
            )
            catalog.replace(replace(other, constraints=replace(other.constraints, foreign_keys=keys)))
        for index in list(catalog.indexes.values()):
            if index.table == entry.name:
                catalog.indexes[index.name.lower()] = replace(index, columns=named(index.columns))
        for sequence in list(catalog.sequences.values()):
            if sequence.owner == (entry.name, before):
                catalog.sequences[sequence.name.lower()] = replace(sequence, owner=(entry.name, new))

    def rename(self, name: str) -> str:
        engine, old = self.engine, self.table.entry
        if name in engine.catalog or name.lower() in engine.catalog.sequences:
            raise ProgrammingError(f'relation "{name}" already exists', span=self.span)
        if any(user in engine.dataflows for user in engine.views.dependents(old.name)):
            self.table.refuse_users("renaming")
        rename_table(engine, old, name)
        self.table.entry = engine.catalog.table(name)
        return name


def _without(old: Constraints, column: str, kept: tuple[int, ...]) -> Constraints:
    """Constraints without those that a column takes with it; ``kept`` are the places of the others."""
    lower = column.lower()
    return Constraints(
        tuple(old.rules[index] for index in kept) if old.rules else (),
        tuple(check for check in old.checks if not uses(check.text, column)),
        tuple(
            key for key in old.uniques if lower not in (one.lower() for one in (*key.columns, *key.included))
        ),
        tuple(key for key in old.foreign_keys if lower not in (one.lower() for one in key.columns)),
    )


def alter_relation(engine: Engine, statement: ast.Alter) -> None:
    """ALTER TABLE, VIEW, INDEX and SEQUENCE. The session may have no cursor or portal open over the table."""
    if statement.kind == "TABLE" and not all(isinstance(one, NAMES) for one in statement.actions):
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
            rename_sequence(engine, numbers, beside(numbers.name, statement.actions[0].name))
        return
    entry = engine.catalog.find(statement.name)
    if entry is None:
        if not statement.if_exists:
            engine.catalog.get(statement.name, statement.span)
        say_skipped_relation(engine, statement.name)
        return
    name = entry.name
    for action in statement.actions:
        found = engine.catalog.get(name, statement.span)
        if isinstance(found, ViewEntry):
            name = _alter_view(engine, found, action, statement)
        else:
            if statement.kind != "TABLE":
                raise ProgrammingError(
                    f'"{found.name}" is a table', span=statement.span, hint="use ALTER TABLE"
                )
            rest: tuple[str, ...] = ()
            if engine.catalog.others:
                _, *rest_ = altered_together(engine, name, action, statement.span)
                rest = tuple(rest_)
            name = apply_action(engine, found, action, statement.span)
            for heir in rest:
                child = engine.catalog.table(heir)
                of_child = of_heir(found, child, action)
                if of_child is not None:
                    apply_action(engine, child, of_child, statement.span)
    engine.tables.refresh_rules()
    if any(key[:2] == ("unique index", name.lower()) for key in engine.catalog.others):
        rebuild_unique_indexes(engine, name)


def _alter_index(engine: Engine, statement: ast.Alter) -> None:
    catalog = engine.catalog
    if not statement.actions:
        return
    index = catalog.indexes.get(statement.name.lower())
    action = statement.actions[0]
    if index is None:
        if not statement.if_exists:
            raise ProgrammingError(f'index "{statement.name}" does not exist', span=statement.span)
        say_skipped_relation(engine, statement.name)
        return
    if isinstance(action, ast.RenameTo):
        del catalog.indexes[index.name.lower()]
        new = replace(index, name=action.name)
        catalog.indexes[new.name.lower()] = new
        engine.journal.note(done=partial(engine.tables.forget_index, index.name))
        keep(engine, new)


def _alter_view(engine: Engine, entry: ViewEntry, action: ast.Action, statement: ast.Alter) -> str:
    """ALTER VIEW: a view's name, or that of a column, for those who will read it."""
    match action:
        case ast.RenameTo(name=name):
            return _rename_view(engine, entry, name, statement.span)
        case ast.RenameColumn(old=old, new=new):
            place = place_of(entry.schema, entry.name, old, statement.span)
            engine.catalog.replace(replace(entry, schema=with_name(entry.schema, place, new, statement.span)))
            if entry.name in engine.views:
                engine.views.rename_column(entry.name, place, new)
            return entry.name
        case ast.SetRule(name=column, part="default", text=text):
            place_of(entry.schema, entry.name, column, statement.span)
            defaults = {**dict(entry.defaults), column.lower(): text}
            given = tuple((name, one) for name, one in defaults.items() if one)
            engine.catalog.replace(replace(entry, defaults=given))
            return entry.name
        case ast.SetInvoker(invoker=invoker):
            engine.catalog.replace(replace(entry, invoker=invoker and not entry.materialized))
            return entry.name
        case ast.Nothing() | ast.SetRule():
            return entry.name
        case _:
            raise ProgrammingError(
                f'"{entry.name}" is a view: it has no columns to change', span=statement.span
            )


def _rename_view(engine: Engine, entry: ViewEntry, name: str, span: Span) -> str:
    new = beside(entry.name, name)
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
    follow(engine, {(RELATION, entry.name.lower()): new})
    return new


def apply_action(engine: Engine, entry: TableEntry, action: ast.Action, span: Span) -> str:
    """Run one action on a table; its name afterwards."""
    table = TableChange(engine, entry, span)
    rules = RuleChange(table)
    columns = ColumnChange(table, rules)
    match action:
        case ast.AddColumn():
            columns.add_column(action)
        case ast.DropColumn():
            columns.refuse_policies(action.name)
            columns.drop_column(action)
        case ast.RenameColumn(old=old, new=new):
            columns.rename_column(old, new)
        case ast.RenameTo(name=name):
            return columns.rename(beside(table.entry.name, name))
        case ast.SetSchema(schema=schema):
            plain = table.entry.name.rpartition(".")[2]
            return columns.rename(engine.catalog.created(f"{schema}.{plain}", span=span))
        case ast.AlterType():
            columns.alter_type(action)
        case ast.SetRule():
            rules.set_rule(action)
        case ast.AlterIdentity():
            rules.alter_identity(action)
        case ast.SetNotNull(name=name, required=required):
            rules.set_not_null(name, required)
        case ast.AddConstraint():
            rules.add_constraint(action)
        case ast.DropConstraint():
            rules.drop_constraint(action)
        case ast.RenameConstraint(old=old, new=new):
            rules.rename_constraint(old, new)
        case ast.SettleConstraint():
            rules.settle_constraint(action)
        case ast.Attach() | ast.Detach() | ast.Secure():
            alter_kin(engine, table.entry, action, span)
        case ast.Nothing() | ast.SetInvoker():
            pass
        case _:
            assert_never(action)
    return table.entry.name
