"""ALTER TABLE: defaults, identities and constraints."""

from dataclasses import replace
from functools import partial
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.constraints import NO_RULE, Check, Constraints, ForeignKey, Heir, Rule, Unique
from kpg.compiler.catalog.entries import TableEntry, did_you_mean
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.rewrite.column_expressions import bind_default
from kpg.constraints.links import Link, link_of
from kpg.ddl.altering_table import TableChange
from kpg.ddl.defining import with_constraint
from kpg.ddl.indexes import add_key, drop_key
from kpg.listeners.notices import say_skipped
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.types import ColumnDef, Schema

Words = NDArray[np.int64]


class RuleChange(TableChange):
    """What becomes of a table's rules."""

    def _set_rule(self, action: ast.SetRule) -> None:
        place = self._place(action.name)
        column = self.entry.schema.columns[place]
        rules = self._rules()
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
                    self._refuse_rule(action, column, "is not a stored generated column")
                rules[place] = replace(rule, generated="")
            case _:
                rules[place] = self._identity(action, rule, column)
        kept = tuple(rules) if any(one != NO_RULE for one in rules) else ()
        self._put(replace(self.entry, constraints=replace(self.entry.constraints, rules=kept)))

    def _refuse_rule(self, action: ast.SetRule, column: ColumnDef, fact: str) -> None:
        """Raise ProgrammingError for a rule that a column does not have; with IF EXISTS, say so."""
        fact = f'column "{column.name}" of relation "{self.engine.catalog.plain(self.entry.name)}" {fact}'
        if not action.if_exists:
            raise ProgrammingError(fact, span=self.span)
        say_skipped(self.engine, fact)

    def _identity(self, action: ast.SetRule, rule: Rule, column: ColumnDef) -> Rule:
        if not action.text:
            if not rule.identity:
                self._refuse_rule(action, column, "is not an identity column")
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
        return replace(self._numbered(added, rule), identity=action.text)

    def _alter_identity(self, action: ast.AlterIdentity) -> None:
        rule = self.entry.constraints.rule(self._place(action.name))
        if not rule.identity:
            message = f'column "{action.name}" of relation "{self.entry.name}" is not an identity column'
            raise ProgrammingError(message, span=self.span)
        if action.kind:
            self._set_rule(ast.SetRule(action.name, "identity", action.kind))
        if action.options:
            from kpg.ddl.definitions import define

            define(self.engine, ast.AlterSequence(rule.sequence, action.options, False, "", self.span))

    def _set_not_null(self, name: str, required: bool) -> None:
        place = self._place(name)
        if not required and place in self.entry.schema.primary_key:
            raise ProgrammingError(f'column "{name}" is in the primary key', span=self.span)
        columns = list(self.entry.schema.columns)
        before = not columns[place].nullable
        if before == required:
            return
        if not required:
            self._refuse_users(f"dropping NOT NULL of column {name} of")
        columns[place] = replace(columns[place], nullable=not required)
        set_required = partial(self.engine.executor.set_required, self.entry.name, place)
        set_required(required=required)
        self.engine.journal.note(undo=partial(set_required, required=before))
        schema = Schema(tuple(columns), self.entry.schema.primary_key)
        self._put(replace(self.entry, schema=schema))
        self.engine.rename_column(self.entry.name, schema)

    def _add_constraint(self, action: ast.AddConstraint) -> None:
        engine = self.engine
        if isinstance(action.constraint, Unique) and self._has_from_whole(action.constraint):
            return
        new = with_constraint(self.entry, action.constraint, engine.catalog, self.span)
        match action.constraint:
            case Check():
                self._put(new)
                engine.refresh_rules()
                guard = engine.table(new.name).guard
                if action.checked and guard is not None:
                    guard.fitting(engine.executor.scan(new.name))
            case Unique(primary=True) if engine.dependents(new.name):
                # Views know the table without a primary key: one that keeps the same rows out is enough.
                for name in action.constraint.columns:
                    self._set_not_null(name, True)
                found = next(one for one in new.constraints.uniques if one.primary)
                add_key(engine, self.entry, replace(found, primary=False, late=True))
                self.entry = engine.catalog.table(new.name)
            case Unique(primary=True):
                self._refuse_users("adding a primary key to")
                self._rewrite(new, lambda words: words, tuple(range(len(new.schema.columns))))
            case Unique():
                add_key(engine, self.entry, new.constraints.uniques[-1])
                self.entry = engine.catalog.table(new.name)
            case ForeignKey():
                self._put(new)
                engine.refresh_rules()
                if action.checked:
                    engine.references.check_all(
                        link_of(new, new.constraints.foreign_keys[-1], engine.catalog)
                    )
            case _:
                assert_never(action.constraint)

    def _has_from_whole(self, key: Unique) -> bool:
        """Whether a partition has a key already: by that name, or the primary one of the same columns.

        Dumps say it of each partition, and then have the indexes attached.
        """
        whole = [one for one in self.engine.catalog.others.values() if isinstance(one, Heir)]
        if not any(one.child.lower() == self.entry.name.lower() for one in whole):
            return False
        columns = [name.lower() for name in key.columns]
        return any(
            [name.lower() for name in one.columns] == columns
            and (one.name.lower() == key.name.lower() or (one.is_primary and key.primary))
            for one in self.entry.constraints.uniques
        )

    def _drop_constraint(self, action: ast.DropConstraint) -> None:
        entry, old, engine = self.entry, self.entry.constraints, self.engine
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
                self._put(replace(entry, constraints=replace(old, checks=checks)))
            case ForeignKey():
                keys = tuple(one for one in old.foreign_keys if one != found)
                self._put(replace(entry, constraints=replace(old, foreign_keys=keys)))
            case Unique():
                for link in [*engine.references.users(entry.name), *self._own_links()]:
                    if set(link.key.target_columns) == set(found.columns):
                        self._drop_reference(
                            link.table, link.key, ", ".join(found.columns), cascade=action.cascade
                        )
                        self.entry = entry = engine.catalog.table(entry.name)
                if found.primary:
                    self._refuse_users("dropping the primary key of")
                    keys_ = tuple(one for one in entry.constraints.uniques if one != found)
                    schema = Schema(entry.schema.columns)
                    new = TableEntry(entry.name, schema, replace(entry.constraints, uniques=keys_))
                    self._rewrite(new, lambda words: words, tuple(range(len(schema.columns))))
                else:
                    drop_key(engine, entry, found)
                    self.entry = engine.catalog.table(entry.name)
            case _:
                assert_never(found)

    def _settle_constraint(self, action: ast.SettleConstraint) -> None:
        entry, engine = self.entry, self.engine
        found = next((one for one in entry.constraints if one.name.lower() == action.name.lower()), None)
        message = f'constraint "{action.name}" of relation "{entry.name}"'
        match found:
            case Check() if action.validates:
                engine.refresh_rules()
                guard = engine.table(entry.name).guard
                if guard is not None:
                    guard.fitting(engine.executor.scan(entry.name))
            case ForeignKey() if action.validates:
                engine.references.check_all(link_of(entry, found, engine.catalog))
            case ForeignKey():
                changed = replace(found, deferrable=action.deferrable, deferred=action.deferred)
                keys = tuple(changed if one == found else one for one in entry.constraints.foreign_keys)
                self._put(replace(entry, constraints=replace(entry.constraints, foreign_keys=keys)))
            case None:
                raise ProgrammingError(f"{message} does not exist", span=self.span)
            case Check() | Unique():
                wanted = "or check constraint" if action.validates else "constraint"
                raise ProgrammingError(f"{message} is not a foreign key {wanted}", span=self.span)
            case _:
                assert_never(found)

    def _own_links(self) -> list[Link]:
        return [
            link_of(self.entry, key, self.engine.catalog)
            for key in self.entry.constraints.foreign_keys
            if key.target == self.entry.name
        ]

    def _rename_constraint(self, old: str, new: str) -> None:
        was = self.entry.constraints
        names = [one.name.lower() for one in was]
        if old.lower() not in names:
            raise ProgrammingError(
                f'constraint "{old}" of "{self.entry.name}" does not exist', span=self.span
            )
        if new.lower() in names:
            raise ProgrammingError(
                f'constraint "{new}" of "{self.entry.name}" exists already', span=self.span
            )
        for key in was.uniques:
            if key.name.lower() == old.lower() and not key.primary:
                drop_key(self.engine, self.entry, key)
                add_key(self.engine, self.engine.catalog.table(self.entry.name), replace(key, name=new))
                self.entry = self.engine.catalog.table(self.entry.name)
                return
        self._put(
            replace(
                self.entry,
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
