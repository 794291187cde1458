"""ALTER TABLE: partitions, what it inherits, and which of its triggers act."""

from dataclasses import replace
from typing import assert_never

from kpg.compiler.catalog import TableEntry
from kpg.compiler.constraints import Check, ForeignKey, Unique
from kpg.compiler.sql import definitions as ast
from kpg.compiler.triggers import Heir
from kpg.ddl.rereading import check_rereadable, end_past, reread
from kpg.engine.engine import Engine
from kpg.runtime.errors import ProgrammingError, Span


def of_heir(parent: TableEntry, child: TableEntry, action: ast.Action) -> ast.Action | None:
    """What an action on a table is to one that inherits it, whose keys have names of their own."""
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
    action: ast.Attach | ast.Detach | ast.Inherit | ast.Switch | ast.Secure,
    span: Span,
) -> None:
    """Run an action on a table."""
    match action:
        case ast.Attach():
            from kpg.inheritance.partitions import attach

            attach(engine, entry, action, span)
        case ast.Detach():
            from kpg.inheritance.partitions import detach

            detach(engine, entry, action, span)
        case ast.Inherit():
            _inherit(engine, entry, action, span)
        case ast.Switch():
            _switch(engine, entry, action, span)
        case ast.Secure():
            from kpg.security.securing import secure

            secure(engine, entry, action, span)
        case _:
            assert_never(action)


def _switch(engine: Engine, entry: TableEntry, action: ast.Switch, span: Span) -> None:
    others = engine.catalog.others
    name = action.name.lower()
    keys = [key for key in others if key[:2] == ("trigger", entry.name.lower())]
    keys = [key for key in keys if not name or key[2] == name]
    if name and not keys:
        message = f'trigger "{action.name}" for table "{entry.name}" does not exist'
        raise ProgrammingError(message, span=span)
    for key in keys:
        others[key] = replace(others[key], enabled=action.enabled)


def _inherit(engine: Engine, entry: TableEntry, action: ast.Inherit, span: Span) -> None:
    """INHERIT: the rows of a table are among those of another one from now on; NO INHERIT: no more."""
    catalog = engine.catalog
    parent = catalog.table(action.parent, span)
    key = ("inherits", parent.name.lower(), entry.name.lower())
    check_rereadable(engine, parent, span)
    if not action.begins:
        if key not in catalog.others:
            message = f'relation "{parent.name}" is not a parent of relation "{entry.name}"'
            raise ProgrammingError(message, span=span)
        del catalog.others[key]
        reread(engine, parent)
        end_past(engine, parent.name)
        return
    if key in catalog.others:
        raise ProgrammingError(f'relation "{parent.name}" would be inherited from more than once', span=span)
    types = {column.name.lower(): column.type for column in entry.schema.columns}
    for column in parent.schema.columns:
        if column.name.lower() not in types:
            raise ProgrammingError(f'child table is missing column "{column.name}"', span=span)
        if types[column.name.lower()] != column.type:
            message = f'child table "{entry.name}" has different type for column "{column.name}"'
            raise ProgrammingError(message, span=span)
    names = {one.name.lower() for one in entry.constraints.checks}
    for check in parent.constraints.checks:
        if check.name.lower() not in names:
            raise ProgrammingError(f'child table is missing constraint "{check.name}"', span=span)
    catalog.others[key] = Heir(parent.name, entry.name)
    reread(engine, parent)
    end_past(engine, parent.name)
