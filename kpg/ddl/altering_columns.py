"""ALTER TABLE: columns that come, go, and get other names or types."""

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.constraints import NO_RULE, Constraints
from kpg.compiler.catalog.entries import TableEntry
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.rewrite.column_expressions import bind_default, converted, renamed, uses
from kpg.constraints.filling import default_words
from kpg.ddl.altering_rules import RuleChange
from kpg.ddl.altering_table import with_name
from kpg.ddl.dropping import column_users, described, drop_users
from kpg.ddl.renaming import rename_table
from kpg.listeners.notices import say_cascade, say_skipped
from kpg.runtime.errors import NotSupportedError, ProgrammingError
from kpg.runtime.types import NULL, Schema

Words = NDArray[np.int64]


class ColumnChange(RuleChange):
    """What becomes of a table's columns."""

    def _add_column(self, action: ast.AddColumn) -> None:
        engine, entry = self.engine, self.entry
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
            rule = self._numbered(action, rule)
        schema = Schema(
            (*entry.schema.columns, replace(action.column, nullable=True)), entry.schema.primary_key
        )
        rules = (*self._rules(), rule)
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

        self._rewrite(new, extended, tuple(range(place)))
        if not action.column.nullable:
            self._set_not_null(action.column.name, True)
        for constraint in action.constraints:
            self._add_constraint(ast.AddConstraint(constraint, True))

    def _drop_column(self, action: ast.DropColumn) -> None:
        entry = self.entry
        if action.if_exists and action.name.lower() not in (name.lower() for name in entry.schema.names):
            shown = self.engine.catalog.plain(entry.name)
            say_skipped(self.engine, f'column "{action.name}" of relation "{shown}" does not exist')
            return
        place = self._place(action.name)
        name = entry.schema.names[place]
        if len(entry.schema.columns) == 1:
            raise NotSupportedError("a table without columns is not supported", span=self.span)
        self._drop_column_users(name, place, cascade=action.cascade)
        for link in self.engine.references.users(entry.name):
            if place in link.target_columns:
                self._drop_reference(link.table, link.key, name, cascade=action.cascade)
        generated = self._generated_from(name, cascade=action.cascade)
        if generated:
            say_cascade(self.engine, [f"column {generated} of {described(self.engine, entry.name)}"])
            self._drop_column(ast.DropColumn(generated, True, True))
            self._drop_column(action)
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
        self._forget_parts_of(name)
        chosen = list(kept)
        self._rewrite(TableEntry(entry.name, schema, constraints), lambda words: words[chosen], kept)

    def _drop_column_users(self, name: str, place: int, *, cascade: bool) -> None:
        """Drop the views that use a column; ProgrammingError, without ``cascade``, if there are some."""
        users = column_users(self.engine, self.entry, place)
        said = [described(self.engine, user) for user in users]
        if users and not cascade:
            raise ProgrammingError(
                f'column {name} of "{self.entry.name}" cannot be dropped: {", ".join(said)} '
                f"use{'' if len(users) > 1 else 's'} it",
                span=self.span,
                hint="drop what uses it first, or use CASCADE",
            )
        say_cascade(self.engine, said)
        drop_users(self.engine, users)

    def _refuse_policies(self, column: str) -> None:
        if self.engine.catalog.others:
            from kpg.security.securing import refuse_column

            refuse_column(self.engine.catalog, self.entry.name, column, self.span)

    def _generated_from(self, name: str, *, cascade: bool) -> str:
        """A column that is generated from another, if it may be dropped with that; "" for none."""
        entry = self.entry
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

    def _forget_parts_of(self, column: str) -> None:
        """Its indexes, what was said of it, and who may use it."""
        key = ("COLUMN", self.entry.name.lower(), column.lower())
        self.engine.catalog.comments.pop(key, None)
        self.engine.catalog.rights.forget(key)
        for index in list(self.engine.catalog.indexes.values()):
            if index.table == self.entry.name and column in index.columns:
                del self.engine.catalog.indexes[index.name.lower()]
                self.engine.journal.note(done=partial(self.engine.forget_index, index.name))

    def _alter_type(self, action: ast.AlterType) -> None:
        entry = self.entry
        place = self._place(action.name)
        name = entry.schema.names[place]
        self._refuse_users(f"changing the type of column {name} of")
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

        self._rewrite(new, changed, tuple(range(len(columns))))

    def _rename_column(self, old: str, new: str) -> None:
        entry = self.entry
        place = self._place(old)
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
        self._put(TableEntry(entry.name, schema, constraints))
        self._rename_elsewhere(before, new)
        self.engine.rename_column(entry.name, schema)

    def _rename_elsewhere(self, before: str, new: str) -> None:
        """The other name where other tables, indexes and sequences have it."""
        entry, catalog = self.entry, self.engine.catalog
        self._refuse_policies(before)

        def named(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(new if name == before else name for name in names)

        for rule, one in list(catalog.others.items()):
            if rule[:2] == ("unique index", entry.name.lower()):
                elements = tuple(renamed(text, before, new) for text in one.elements)
                moved = replace(one, elements=elements, where=renamed(one.where, before, new))
                catalog.others[rule] = moved
        for link in self.engine.references.users(entry.name):
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

    def _rename(self, name: str) -> str:
        engine, old = self.engine, self.entry
        if name in engine.catalog or name.lower() in engine.catalog.sequences:
            raise ProgrammingError(f'relation "{name}" already exists', span=self.span)
        if any(user in engine.dataflows for user in engine.dependents(old.name)):
            self._refuse_users("renaming")
        rename_table(engine, old, name)
        self.entry = engine.catalog.table(name)
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
