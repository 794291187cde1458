"""CREATE VIEW: materialized views, which are maintained, and plain views, which are expanded in queries.

CREATE OR REPLACE checks that the old columns stay, and plans the views above again.
"""

from collections.abc import Callable
from dataclasses import replace

from kpg.api.view import Maintained
from kpg.compiler.algebra.rel import Get, Project, Rel
from kpg.compiler.algebra.traverse import walk
from kpg.compiler.catalog.access_control import any_enabled, need_schema
from kpg.compiler.catalog.entries import CLOCK, Catalog, ViewEntry
from kpg.compiler.catalog.privileges import FIRST
from kpg.compiler.catalog.routines import Routine
from kpg.compiler.sql.bind.volatile_calls import has_calls
from kpg.compiler.sql.frontend import asks_system, lower_query, lower_view, named_relations
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parser import parse_query
from kpg.compiler.sql.parse.statements import Select
from kpg.compiler.sql.rewrite.changes import below_of, refuse_unchecked
from kpg.compiler.sql.rewrite.name_qualification import whole_query
from kpg.execute.queries.query_plan import Planned, plan_bound, plan_view, relations_of, widening
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span
from kpg.runtime.types import Schema
from kpg.runtime.values.styles import PLAIN
from kpg.session.engine import Engine
from kpg.session.notices import say_present


def create_view(engine: Engine, statement: ast.CreateView) -> Maintained | None:
    """CREATE VIEW and CREATE MATERIALIZED VIEW; the latter returns its view."""
    return widening(lambda: _create(engine, statement))


def _create(engine: Engine, statement: ast.CreateView) -> Maintained | None:
    name = engine.catalog.created(statement.name, temporary=statement.temporary, span=statement.span)
    old = engine.catalog.find(name)
    if statement.if_not_exists and old is not None:
        say_present(engine, name)
        return engine.views.get(old.name)
    of_system = asks_system(statement.query, engine.catalog)
    _refuse(statement, of_system=of_system)
    catalog = _seen(engine, statement)
    planned, anew = _planned(engine, statement, catalog)
    of_system = of_system or anew
    if any(isinstance(node, Get) and node.name == CLOCK for node in walk(planned.rel)):
        engine.clock.keep()
    whole = whole_query(statement.query, engine.catalog)
    # Hidden columns, which only sort, are not for others to read: then others expand the view.
    entry = ViewEntry(
        name,
        planned.schema,
        asked_again(engine, whole) if of_system else planned.rel,
        statement.query.text,
        statement.materialized and not planned.has_hidden_columns,
        planned.order,
        checked=bool(statement.check),
        local=statement.check == "LOCAL",
        defaults=old.defaults if isinstance(old, ViewEntry) and statement.or_replace else (),
        below=below_of(statement, engine.catalog),
        of_system=of_system,
        invoker=statement.invoker,
        whole=whole if whole != statement.query.text else "",
    )
    refuse_unchecked(statement, entry)
    uses = relations_of(planned.rel, statement.query, engine.catalog)
    made = None
    if statement.materialized:
        made = _create_kept(engine, statement, entry, planned, uses)
    else:
        _create_plain(engine, statement, entry, uses)
    if engine.catalog.style is not PLAIN or (statement.materialized and _is_filtered(engine.catalog)):
        engine.views.leave_text(name)  # its text alone does not say its time zone, or whose policies hold
    return made


def _seen(engine: Engine, statement: ast.CreateView) -> Catalog:
    """The catalog to plan a view by; PrivilegeError if it names what is in a schema that may not be used."""
    catalog = engine.reading_catalog
    if not catalog.is_limited or statement.materialized:
        return catalog
    for one in named_relations(statement.query, catalog):
        if one in catalog:
            need_schema(catalog, one, "U", statement.span)
    # Whether its owner may read what it names is asked whenever somebody reads it.
    catalog = catalog.copy()
    catalog.asker = replace(catalog.asker, user=FIRST)
    return catalog


def _is_filtered(catalog: Catalog) -> bool:
    """Whether policies may keep rows from who asks."""
    if not catalog.is_limited or not catalog.others:
        return False

    return any_enabled(catalog)


def _planned(engine: Engine, statement: ast.CreateView, catalog: Catalog) -> tuple[Planned, bool]:
    """The plan, and whether the view has to be planned anew each time that it is asked."""
    try:
        return plan_view(statement, catalog, engine.statistics), False
    except NotSupportedError:
        if statement.materialized:
            raise
    # What cannot be kept up to date, as the present time in a column, can still be asked each time.
    return plan_bound(lower_view(statement, catalog, kept=False), catalog, engine.statistics), True


def _create_kept(
    engine: Engine, statement: ast.CreateView, entry: ViewEntry, planned: Planned, uses: frozenset[str]
) -> Maintained | None:
    """A view that is maintained; in a transaction it is computed now, and there once that ends."""
    if engine.transactions.idle:
        return engine.views.create_materialized(entry, planned, uses, replace_old=statement.or_replace)
    engine.run(planned)
    seen = engine.catalog
    path, settings, asker = seen.search_path, dict(seen.settings), seen.asker

    def later() -> Planned:
        """The plan at the commit, when the path, the settings and the role may be others."""
        catalog = engine.catalog.copy()
        catalog.search_path, catalog.settings, catalog.asker = path, settings, asker
        return plan_view(statement, catalog, engine.statistics)

    replace_old = statement.or_replace
    engine.views.create_later(entry, later, uses, replace_old=replace_old, computed=engine.views.row_state())
    return None


def _create_plain(engine: Engine, statement: ast.CreateView, entry: ViewEntry, uses: frozenset[str]) -> None:
    """A view that is expanded where it is used; those over one that it replaces are planned again."""
    old = engine.catalog.find(entry.name)
    if not statement.or_replace or not isinstance(old, ViewEntry) or old.name in engine.views:
        engine.views.create(entry, uses, replace_old=statement.or_replace)
        return

    check_columns(old.schema, entry.schema, statement.span)
    if engine.views.users(old.name):
        engine.views.replace(entry, uses, views_over(engine, entry, uses, statement.span))
    else:
        engine.views.create(entry, uses, replace_old=True)


def _refuse(statement: ast.CreateView, *, of_system: bool) -> None:
    if of_system and statement.materialized:
        raise NotSupportedError(
            "a materialized view over what is computed each time it is asked for, as the system's relations "
            "are, is not supported",
            span=statement.span,
            hint="it would not follow: write CREATE VIEW",
        )
    if has_calls(statement.query.query):
        raise NotSupportedError("a number of a sequence in a view is not supported", span=statement.span)


def asked_again(engine: Engine, text: str) -> Callable[[], Rel]:
    """The definition of a view over relations of the system: another plan each time that it is asked."""
    query = parse_query(text)
    return lambda: lower_query(query, engine.reading_catalog).rel


def check_columns(old: Schema, new: Schema, span: Span) -> None:
    """A view that is replaced has the columns that it had, and others behind them."""
    if len(new.columns) < len(old.columns):
        raise ProgrammingError("cannot drop columns from view", span=span, hint="drop the view first")
    for was, column in zip(old.columns, new.columns, strict=False):
        if was.name.lower() != column.name.lower():
            raise ProgrammingError(
                f'cannot change name of view column "{was.name}" to "{column.name}"',
                span=span,
                hint="use ALTER VIEW ... RENAME COLUMN ... to change its name",
            )
        if was.type != column.type:
            raise ProgrammingError(
                f'cannot change data type of view column "{was.name}" from {was.type} to {column.type}',
                span=span,
                hint="drop the view first",
            )


def views_over(engine: "Engine", entry: ViewEntry, uses: frozenset[str], span: Span) -> list[ViewEntry]:
    """The views that use the one that ``entry`` takes the place of, with the plans that they have then."""
    names = engine.views.users(entry.name)
    if uses & {entry.name, *names}:
        raise ProgrammingError(
            f'infinite recursion detected in view "{entry.name}"', span=span, hint="it would read itself"
        )
    catalog = engine.catalog.copy()
    old = catalog.get(entry.name)
    catalog.add(_cut(entry, old.schema), replace=True)
    return [_over(engine, name, catalog, entry, span) for name in names]


def _cut(entry: ViewEntry, schema: Schema) -> ViewEntry:
    """The view without the columns that are new: ``SELECT *`` of those over it stays what it was."""
    assert entry.rel is not None
    width = len(schema.columns)
    order = entry.order if all(one.column < width for one in entry.order) else ()
    return replace(entry, schema=schema, definition=Project(entry.rel, tuple(range(width))), order=order)


def views_calling(
    engine: "Engine", old: Routine, known: tuple[Routine, ...], span: Span
) -> list[tuple[ViewEntry, frozenset[str]]]:
    """The views that call a function which is replaced, with their plans then and what these use.

    ``known`` are the functions of its name from then on.
    """
    catalog = engine.catalog.copy()
    catalog.routines[old.name] = known
    refused = NotSupportedError(
        f"replacing function {old.name} in this way is not supported while a view uses it",
        span=span,
        hint="drop the view first, and make it again afterwards",
    )
    found = []
    for name in engine.views.users(old.key):
        view, query = _again(engine, name, catalog, refused)
        assert view.rel is not None
        found.append((view, relations_of(view.rel, query, catalog)))
    return found


def _over(engine: "Engine", name: str, catalog: Catalog, entry: ViewEntry, span: Span) -> ViewEntry:
    return _again(engine, name, catalog, _refused(name, entry, span))[0]


def _again(
    engine: "Engine", name: str, catalog: Catalog, refused: NotSupportedError
) -> tuple[ViewEntry, Select]:
    """A view that is planned again over another catalog, and its query."""
    view = engine.catalog.find(name)
    plain = isinstance(view, ViewEntry) and not (callable(view.definition) or view.definition is None)
    if (
        not isinstance(view, ViewEntry)
        or not plain
        or name in engine.views.followed
        or name in engine.dataflows
    ):
        raise refused
    query = parse_query(view.text)
    bound = lower_query(query, catalog, kept=True)
    if bound.types != view.schema.types:  # its * had fewer columns when it was made
        raise refused
    made = replace(view, definition=bound.rel)
    catalog.add(made, replace=True)
    return made, query


def _refused(name: str, entry: ViewEntry, span: Span) -> NotSupportedError:
    return NotSupportedError(
        f'replacing view "{entry.name}" in this way is not supported while {name} uses it',
        span=span,
        hint=f'drop "{name}" first, and make it again afterwards',
    )
