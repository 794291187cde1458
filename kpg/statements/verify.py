"""Whether a view is what its query says: computed from scratch, sharing nothing, and compared."""

from kpg.compiler.catalog.entries import ViewEntry
from kpg.compiler.sql.frontend import lower_query
from kpg.compiler.sql.parse.parser import parse_query
from kpg.engine.engine import Engine
from kpg.queries.planning import plan_bound, plan_view_entry
from kpg.result import Result, listing
from kpg.runtime.errors import InterfaceError, InternalError
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import BIGINT, TEXT
from kpg.view import Maintained


def verify(engine: Engine, view: Maintained) -> None:
    """Raise InternalError naming a row in which the view differs from its query, if there is one."""
    if engine.executor.has_pending:
        raise InterfaceError("a view cannot be verified while changes are pending", hint="commit first")
    if not view.sql:
        raise InterfaceError(f"{view.name} is exported by a dataflow: it has no query to verify")
    catalog = engine.expanded_catalog()
    entry = catalog.get(view.name)
    if view.name in engine.followed and isinstance(entry, ViewEntry):
        # Its tables have changed since it was written: what it means is kept, what it says is not.
        planned = plan_view_entry(entry, view.reader, catalog, engine.statistics)
    else:
        bound = lower_query(parse_query(view.sql), catalog, kept=True)
        planned = plan_bound(bound, catalog, engine.statistics)
    expected, expected_diff = engine.recompute(planned)
    kept, kept_diff = view.installed.rows()
    wrong = Updates.concat(
        [Updates.of(kept, (0,), kept_diff), Updates.of(expected, (0,), -expected_diff)]
    ).consolidate()
    if len(wrong):
        shown = [f"{row} {diff:+d}" for row, _, diff in view.reader.changes([wrong])[:3]]
        raise InternalError(
            f"view {view.name} differs from its query in {len(wrong)} rows",
            hint=f"kept - expected: {', '.join(shown)}",
        )


def verified(engine: Engine, name: str) -> Result:
    """The view's name and its number of rows, if it is what its query says."""
    view = engine.view(name)
    if engine.catalog.is_limited:
        from kpg.compiler.sql.frontend import check_relation

        check_relation(engine.catalog, name)
    verify(engine, view)
    return listing({"view": (TEXT, [view.name]), "rows": (BIGINT, [view.count()])})
