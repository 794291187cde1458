"""Pipeline of INSERT, UPDATE, DELETE and MERGE: the stages from a statement to its changes.

The stages are ON CONFLICT, WHERE CURRENT OF, partitions, and the plain change of one table (``dml``).
"""

from typing import TYPE_CHECKING

from kpg.api.result import Result
from kpg.compiler.sql.parse import statements as ast
from kpg.execute.changes.dml import Changes, check_there, prepared_alone
from kpg.gc_pause import LazyModule
from kpg.session.engine import Engine

if TYPE_CHECKING:
    from kpg.compiler.sql.rewrite import upsert as upsert_rewrite
    from kpg.execute.changes import partition_routing
    from kpg.execute.queries import cursors
else:
    upsert_rewrite = LazyModule("kpg.compiler.sql.rewrite.upsert")
    partition_routing = LazyModule("kpg.execute.changes.partition_routing")
    cursors = LazyModule("kpg.execute.queries.cursors")


def change(engine: Engine, statement: ast.Change) -> Result:
    """Run a statement."""
    changes = prepared(engine, statement)
    check_there(engine, changes)
    changes.apply()
    return changes.result()


def prepared(engine: Engine, statement: ast.Change) -> Changes:
    """What a statement is going to change."""
    if isinstance(statement, ast.Insert) and statement.alternative:
        statement = upsert_rewrite.with_conflict(statement, engine.catalog)
    if isinstance(statement, ast.Update | ast.Delete) and statement.cursor:
        return cursors.positioned(engine, statement, prepared)
    if engine.catalog.others:
        return partition_routing.prepared_beside(engine, statement)
    return prepared_alone(engine, statement)
