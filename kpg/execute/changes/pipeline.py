"""Pipeline of INSERT, UPDATE, DELETE and MERGE: the stages from a statement to its changes.

The stages are ON CONFLICT, WHERE CURRENT OF, partitions, and the plain change of one table (``dml``).
"""

from typing import TYPE_CHECKING

from kpg.api.result import Result
from kpg.compiler.sql.parse import statements as ast
from kpg.execute.changes.dml import Changes, check_rows_live, prepare_table_changes
from kpg.runtime.gc_pause import LazyModule
from kpg.session.engine import Engine

if TYPE_CHECKING:
    from kpg.compiler.sql.rewrite import upsert as upsert_rewrite
    from kpg.execute.changes import partition_routing
    from kpg.execute.queries import cursors
else:
    upsert_rewrite = LazyModule("kpg.compiler.sql.rewrite.upsert")
    partition_routing = LazyModule("kpg.execute.changes.partition_routing")
    cursors = LazyModule("kpg.execute.queries.cursors")


def run_change(engine: Engine, statement: ast.Change) -> Result:
    """Run an INSERT, UPDATE, DELETE or MERGE."""
    changes = prepare_changes(engine, statement)
    check_rows_live(engine, changes)
    changes.apply()
    return changes.result()


def prepare_changes(engine: Engine, statement: ast.Change) -> Changes:
    """Compute the changes of a statement."""
    if isinstance(statement, ast.Insert) and statement.alternative:
        statement = upsert_rewrite.rewrite_alternative(statement, engine.catalog)
    if isinstance(statement, ast.Update | ast.Delete) and statement.cursor:
        return cursors.current_row_changes(engine, statement, prepare_changes)
    if engine.catalog.partitioned:
        return partition_routing.prepare_partitioned(engine, statement)
    return prepare_table_changes(engine, statement)
