"""Changes in a database with triggers or partitions."""

from dataclasses import replace

from kpg.compiler.sql import statements as ast
from kpg.dml.changing import Changes, into_table, prepared_alone
from kpg.engine.engine import Engine


def prepared_beside(engine: Engine, statement: ast.Change, *, whole: bool = True) -> Changes:
    """What a statement is going to change; if not ``whole``, it is a part of one of another relation."""
    from kpg.blocks.triggers import actions_of, through_actions
    from kpg.inheritance.inheriting import together
    from kpg.inheritance.routing import routed

    changes = through_actions(engine, statement)
    if changes is not None:
        return changes
    statement = into_table(engine, statement)
    several = together(engine, statement)
    if several is None and isinstance(statement, ast.Insert):
        several = routed(engine, statement)
    if isinstance(statement, ast.Merge):
        from kpg.inheritance.merged import merged

        several = merged(engine, statement)
    if several is not None:
        return several  # type: ignore[return-value]
    actions = actions_of(engine, statement, whole=whole)
    if actions is None:
        return prepared_alone(engine, statement)
    from kpg.blocks.rowwise import row_by_row

    done = row_by_row(engine, statement, actions)
    if done is not None:
        return done  # type: ignore[return-value]
    return replace(prepared_alone(engine, statement, actions), actions=actions)
