"""ALTER TABLE: partitions, and row-level security."""

from dataclasses import replace
from typing import assert_never

from kpg.compiler.catalog.constraints import Check, ForeignKey, Unique
from kpg.compiler.catalog.entries import TableEntry
from kpg.compiler.sql.parse import definitions as ast
from kpg.engine.engine import Engine
from kpg.runtime.errors import Span


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
            from kpg.inheritance.partitions import attach

            attach(engine, entry, action, span)
        case ast.Detach():
            from kpg.inheritance.partitions import detach

            detach(engine, entry, action, span)
        case ast.Secure():
            from kpg.security.securing import secure

            secure(engine, entry, action, span)
        case _:
            assert_never(action)
