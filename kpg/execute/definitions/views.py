"""CREATE VIEW: materialized views, which are maintained, and plain views, which are expanded in queries.

CREATE OR REPLACE checks that the old columns stay, and plans the views above again.
"""

from collections.abc import Callable
from dataclasses import replace

from kpg.api.view import MaintainedView
from kpg.compiler.algebra.rel import Get, Project, Rel
from kpg.compiler.algebra.traverse import walk
from kpg.compiler.catalog.access_control import has_enabled_row_security, require_schema_privilege
from kpg.compiler.catalog.entries import CLOCK, ROUTINES, Catalog, ViewEntry
from kpg.compiler.catalog.privileges import BOOTSTRAP_ROLE
from kpg.compiler.catalog.routines import Routine
from kpg.compiler.sql.bind.volatile_calls import has_sequence_calls
from kpg.compiler.sql.frontend import lower_query, lower_view, reads_system_catalog, referenced_relations
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parser import parse_query
from kpg.compiler.sql.parse.statements import Select
from kpg.compiler.sql.rewrite.changes import check_updatable_view, underlying_view
from kpg.compiler.sql.rewrite.name_qualification import qualify_query
from kpg.execute.queries.query_plan import (
    PlannedStatement,
    plan_bound,
    plan_view,
    relations_of,
    retry_with_numeric,
)
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span
from kpg.runtime.types import Schema
from kpg.runtime.values.styles import DEFAULT_STYLE
from kpg.session.engine import Engine
from kpg.session.notices import notice_existing


def create_view(engine: Engine, statement: ast.CreateView) -> MaintainedView | None:
    """Run CREATE VIEW or CREATE MATERIALIZED VIEW, which returns its view."""
    return retry_with_numeric(lambda: _create(engine, statement))


def _create(engine: Engine, statement: ast.CreateView) -> MaintainedView | None:
    name = engine.catalog.qualify_new_name(statement.name, temporary=statement.temporary, span=statement.span)
    old = engine.catalog.find(name)
    if statement.if_not_exists and old is not None:
        notice_existing(engine, name)
        return engine.views.get(old.name)
    of_system = reads_system_catalog(statement.query, engine.catalog)
    _check_maintainable(statement, of_system=of_system)
    catalog = _planning_catalog(engine, statement)
    planned, anew = _plan(engine, statement, catalog)
    of_system = of_system or anew
    if any(isinstance(node, Get) and node.name == CLOCK for node in walk(planned.rel)):
        engine.clock.create_row()
    qualified_text = qualify_query(statement.query, engine.catalog)
    # Readers cannot see hidden sort columns: they expand such a view.
    entry = ViewEntry(
        name,
        planned.schema,
        make_replanner(engine, qualified_text) if of_system else planned.rel,
        statement.query.text,
        statement.materialized and not planned.has_hidden_columns,
        planned.order,
        checked=bool(statement.check),
        local=statement.check == "LOCAL",
        defaults=old.defaults if isinstance(old, ViewEntry) and statement.or_replace else (),
        below=underlying_view(statement, engine.catalog),
        of_system=of_system,
        invoker=statement.invoker,
        whole=qualified_text if qualified_text != statement.query.text else "",
    )
    check_updatable_view(statement, entry)
    uses = relations_of(planned.rel, statement.query, engine.catalog)
    view = None
    if statement.materialized:
        view = _create_materialized(engine, statement, entry, planned, uses)
    else:
        _create_plain(engine, statement, entry, uses)
    if engine.catalog.style is not DEFAULT_STYLE or (statement.materialized and _is_filtered(engine.catalog)):
        engine.views.mark_text_stale(name)  # the text does not determine the time zone or the policies
    return view


def _planning_catalog(engine: Engine, statement: ast.CreateView) -> Catalog:
    """Return the catalog to plan a view by; PrivilegeError for names in a schema without USAGE."""
    catalog = engine.reading_catalog
    if not catalog.checks_privileges or statement.materialized:
        return catalog
    for relation in referenced_relations(statement.query, catalog):
        if relation in catalog:
            require_schema_privilege(catalog, relation, "U", statement.span)
    # The owner's privileges are checked at each read.
    catalog = catalog.copy()
    catalog.asker = replace(catalog.asker, user=BOOTSTRAP_ROLE)
    return catalog


def _is_filtered(catalog: Catalog) -> bool:
    """Whether policies may hide rows from the role."""
    return catalog.checks_privileges and has_enabled_row_security(catalog)


def _plan(engine: Engine, statement: ast.CreateView, catalog: Catalog) -> tuple[PlannedStatement, bool]:
    """Return the plan, and whether the view must be planned again for each query."""
    try:
        return plan_view(statement, catalog, engine.statistics), False
    except NotSupportedError:
        if statement.materialized:
            raise
    # A view that cannot be maintained, such as one with now() as a column, is planned at each query.
    return plan_bound(lower_view(statement, catalog, is_view=False), catalog, engine.statistics), True


def _create_materialized(
    engine: Engine,
    statement: ast.CreateView,
    entry: ViewEntry,
    planned: PlannedStatement,
    uses: frozenset[str],
) -> MaintainedView | None:
    """Create a maintained view; in a transaction, check it by computing it, and install it at the commit."""
    if engine.transactions.is_idle:
        return engine.views.create_materialized(entry, planned, uses, replace_old=statement.or_replace)
    engine.run(planned)
    session_catalog = engine.catalog
    path, settings, asker = session_catalog.search_path, dict(session_catalog.settings), session_catalog.asker

    def plan_at_commit() -> PlannedStatement:
        """Plan by the search path, settings and role of the statement."""
        catalog = engine.catalog.copy()
        catalog.search_path, catalog.settings, catalog.asker = path, settings, asker
        return plan_view(statement, catalog, engine.statistics)

    replace_old = statement.or_replace
    engine.views.create_at_commit(
        entry, plan_at_commit, uses, replace_old=replace_old, computed=engine.views.row_state()
    )
    return None


def _create_plain(engine: Engine, statement: ast.CreateView, entry: ViewEntry, uses: frozenset[str]) -> None:
    """Create a view that is expanded where it is used; views over a replaced one are planned again."""
    old = engine.catalog.find(entry.name)
    if not statement.or_replace or not isinstance(old, ViewEntry) or old.name in engine.views:
        engine.views.create(entry, uses, replace_old=statement.or_replace)
        return

    check_columns(old.schema, entry.schema, statement.span)
    if engine.views.users(old.name):
        engine.views.replace(entry, uses, replan_views_over(engine, entry, uses, statement.span))
    else:
        engine.views.create(entry, uses, replace_old=True)


def _check_maintainable(statement: ast.CreateView, *, of_system: bool) -> None:
    if of_system and statement.materialized:
        raise NotSupportedError(
            "a materialized view over relations that are computed for each query, such as system relations, "
            "is not supported",
            span=statement.span,
            hint="it would not follow: write CREATE VIEW",
        )
    if has_sequence_calls(statement.query.query):
        raise NotSupportedError("a number of a sequence in a view is not supported", span=statement.span)


def make_replanner(engine: Engine, text: str) -> Callable[[], Rel]:
    """Return the definition of a view over system relations, which is planned at each query."""
    query = parse_query(text)
    return lambda: lower_query(query, engine.reading_catalog).rel


def check_columns(old: Schema, new: Schema, span: Span) -> None:
    """Check that a replaced view keeps its columns; new ones follow them."""
    if len(new.columns) < len(old.columns):
        raise ProgrammingError("cannot drop columns from view", span=span, hint="drop the view first")
    for old_column, column in zip(old.columns, new.columns, strict=False):
        if old_column.name.lower() != column.name.lower():
            raise ProgrammingError(
                f'cannot change name of view column "{old_column.name}" to "{column.name}"',
                span=span,
                hint="use ALTER VIEW ... RENAME COLUMN ... to change its name",
            )
        if old_column.type != column.type:
            raise ProgrammingError(
                f'cannot change data type of view column "{old_column.name}" '
                f"from {old_column.type} to {column.type}",
                span=span,
                hint="drop the view first",
            )


def replan_views_over(
    engine: "Engine", entry: ViewEntry, uses: frozenset[str], span: Span
) -> list[ViewEntry]:
    """Return the views that use the replaced view, planned over ``entry``."""
    names = engine.views.users(entry.name)
    if uses & {entry.name, *names}:
        raise ProgrammingError(
            f'infinite recursion detected in view "{entry.name}"', span=span, hint="it would read itself"
        )
    catalog = engine.catalog.copy()
    old = catalog.get(entry.name)
    catalog.add(_without_new_columns(entry, old.schema), replace=True)
    return [_replan_over(engine, name, catalog, entry, span) for name in names]


def _without_new_columns(entry: ViewEntry, schema: Schema) -> ViewEntry:
    """Return the view without new columns, so that ``SELECT *`` of views over it does not change."""
    assert entry.rel is not None
    width = len(schema.columns)
    order = entry.order if all(item.column < width for item in entry.order) else ()
    return replace(entry, schema=schema, definition=Project(entry.rel, tuple(range(width))), order=order)


def replan_views_calling(
    engine: "Engine", old: Routine, overloads: tuple[Routine, ...], span: Span
) -> list[tuple[ViewEntry, frozenset[str]]]:
    """Return the views that call a replaced function, planned again, and the relations that they use.

    ``overloads`` are the new overloads of the function.
    """
    catalog = engine.catalog.copy()
    catalog.apply(ROUTINES.put(old.name, overloads))
    error = NotSupportedError(
        f"replacing function {old.name} in this way is not supported while a view uses it",
        span=span,
        hint="drop the view first, and make it again afterwards",
    )
    found = []
    for name in engine.views.users(old.key):
        view, query = _replan(engine, name, catalog, error)
        assert view.rel is not None
        found.append((view, relations_of(view.rel, query, catalog)))
    return found


def _replan_over(engine: "Engine", name: str, catalog: Catalog, entry: ViewEntry, span: Span) -> ViewEntry:
    return _replan(engine, name, catalog, _replacement_error(name, entry, span))[0]


def _replan(
    engine: "Engine", name: str, catalog: Catalog, error: NotSupportedError
) -> tuple[ViewEntry, Select]:
    """Return a view planned again over another catalog, and its query."""
    view = engine.catalog.find(name)
    plain = isinstance(view, ViewEntry) and not (callable(view.definition) or view.definition is None)
    if (
        not isinstance(view, ViewEntry)
        or not plain
        or name in engine.views.stale_texts
        or name in engine.dataflows
    ):
        raise error
    query = parse_query(view.text)
    bound = lower_query(query, catalog, is_view=True)
    if bound.types != view.schema.types:  # its * stood for fewer columns at CREATE VIEW
        raise error
    made = replace(view, definition=bound.rel)
    catalog.add(made, replace=True)
    return made, query


def _replacement_error(name: str, entry: ViewEntry, span: Span) -> NotSupportedError:
    return NotSupportedError(
        f'replacing view "{entry.name}" in this way is not supported while {name} uses it',
        span=span,
        hint=f'drop "{name}" first, and make it again afterwards',
    )
