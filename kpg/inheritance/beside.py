"""Changes in a database with partitions."""

from kpg.compiler.sql.parse import statements as ast
from kpg.dml.changing import Changes, into_table, prepared_alone
from kpg.engine.engine import Engine


def prepared_beside(engine: Engine, statement: ast.Change) -> Changes:
    """What a statement is going to change."""
    from kpg.inheritance.inheriting import together
    from kpg.inheritance.routing import routed

    statement = into_table(engine, statement)
    several = together(engine, statement)
    if several is None and isinstance(statement, ast.Insert):
        several = routed(engine, statement)
    if isinstance(statement, ast.Merge):
        from kpg.inheritance.merged import merged

        several = merged(engine, statement)
    if several is not None:
        return several  # type: ignore[return-value]
    return prepared_alone(engine, statement)
