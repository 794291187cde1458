"""ALTER TABLE and its like: what becomes of a table's definition, its rows, and the views over it.

A table whose columns change is made anew, and its rows are copied. Views read columns by position: those over
a table that gains a column are planned anew over the old ones; whatever a view would not survive is refused,
by the view's name.
"""

from dataclasses import replace
from functools import partial
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.entries import ViewEntry
from kpg.compiler.catalog.qualified_names import beside
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.rewrite.deparse import RELATION
from kpg.ddl.altering_columns import ColumnChange
from kpg.ddl.altering_kin import of_heir
from kpg.ddl.altering_table import place_of, with_name
from kpg.ddl.definitions import rename_sequence
from kpg.ddl.indexes import keep
from kpg.ddl.renaming import follow
from kpg.engine.engine import Engine
from kpg.listeners.notices import say_skipped_relation
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span

Words = NDArray[np.int64]


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
                from kpg.inheritance.inheriting import altered_together

                _, *rest_ = altered_together(engine, name, action, statement.span)
                rest = tuple(rest_)
            name = _Altering(engine, found, statement.span).run(action)
            for heir in rest:
                child = engine.catalog.table(heir)
                of_child = of_heir(found, child, action)
                if of_child is not None:
                    _Altering(engine, child, statement.span).run(of_child)
    engine.refresh_rules()
    if any(key[:2] == ("unique index", name.lower()) for key in engine.catalog.others):
        from kpg.ddl.unique_expressions import rebuild_unique_indexes

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
        engine.journal.note(done=partial(engine.forget_index, index.name))
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
                engine.rename_view_column(entry.name, place, new)
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
    users = engine.users(entry.name)
    if users:
        raise NotSupportedError(
            f'renaming "{entry.name}" is not supported while view "{users[0]}" uses it',
            span=span,
            hint="drop it first",
        )
    engine.rename_view(entry, new)
    follow(engine, {(RELATION, entry.name.lower()): new})
    return new


class _Altering(ColumnChange):
    """One action on a table."""

    def run(self, action: ast.Action) -> str:
        """Run it; the table's name afterwards."""
        match action:
            case ast.AddColumn():
                self._add_column(action)
            case ast.DropColumn():
                self._refuse_policies(action.name)
                self._drop_column(action)
            case ast.RenameColumn(old=old, new=new):
                self._rename_column(old, new)
            case ast.RenameTo(name=name):
                return self._rename(beside(self.entry.name, name))
            case ast.SetSchema(schema=schema):
                plain = self.entry.name.rpartition(".")[2]
                return self._rename(self.engine.catalog.created(f"{schema}.{plain}", span=self.span))
            case ast.AlterType():
                self._alter_type(action)
            case ast.SetRule():
                self._set_rule(action)
            case ast.AlterIdentity():
                self._alter_identity(action)
            case ast.SetNotNull(name=name, required=required):
                self._set_not_null(name, required)
            case ast.AddConstraint():
                self._add_constraint(action)
            case ast.DropConstraint():
                self._drop_constraint(action)
            case ast.RenameConstraint(old=old, new=new):
                self._rename_constraint(old, new)
            case ast.SettleConstraint():
                self._settle_constraint(action)
            case ast.Attach() | ast.Detach() | ast.Secure():
                from kpg.ddl.altering_kin import alter_kin

                alter_kin(self.engine, self.entry, action, self.span)
            case ast.Nothing() | ast.SetInvoker():
                pass
            case _:
                assert_never(action)
        return self.entry.name
