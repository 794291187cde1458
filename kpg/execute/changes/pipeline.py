"""Pipeline of INSERT, UPDATE, DELETE and MERGE: the stages from a statement to its changes.

The stages are ON CONFLICT, WHERE CURRENT OF, partitions, and the plain change of one table (``dml``).
"""

from kpg.api.result import Result
from kpg.compiler.sql.parse import statements as ast
from kpg.execute.changes.dml import Changes, check_there, prepared_alone
from kpg.session.engine import Engine


def change(engine: Engine, statement: ast.Change) -> Result:
    """Run a statement."""
    changes = prepared(engine, statement)
    check_there(engine, changes)
    changes.apply()
    return changes.result()


def prepared(engine: Engine, statement: ast.Change) -> Changes:
    """What a statement is going to change."""
    if isinstance(statement, ast.Insert) and statement.alternative:
        from kpg.compiler.sql.rewrite.upsert import with_conflict  # lazy: start-up

        statement = with_conflict(statement, engine.catalog)
    if isinstance(statement, ast.Update | ast.Delete) and statement.cursor:
        from kpg.execute.queries.cursors import positioned  # lazy: start-up

        return positioned(engine, statement, prepared)
    if engine.catalog.others:
        from kpg.execute.changes.partition_routing import prepared_beside  # lazy: start-up

        return prepared_beside(engine, statement)
    return prepared_alone(engine, statement)
