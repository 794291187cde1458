"""CREATE OR REPLACE of views and functions: columns that a view keeps, and views that are planned again."""

from dataclasses import replace
from typing import TYPE_CHECKING

from kpg.compiler.algebra.rel import Project
from kpg.compiler.catalog.entries import Catalog, ViewEntry
from kpg.compiler.catalog.routines import Routine
from kpg.compiler.sql.frontend import lower_query
from kpg.compiler.sql.parse.parser import parse_query
from kpg.compiler.sql.parse.statements import Select
from kpg.queries.planning import relations_of
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span
from kpg.runtime.types import Schema

if TYPE_CHECKING:
    from kpg.engine.engine import Engine


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
    names = engine.users(entry.name)
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
    for name in engine.users(old.key):
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
    if not isinstance(view, ViewEntry) or not plain or name in engine.followed or name in engine.dataflows:
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
