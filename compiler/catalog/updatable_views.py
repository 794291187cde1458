"""Updatable views: views whose rows correspond one to one to rows of a single table.

:func:`resolve_updatable_view` maps a view to its base table. An INSERT, UPDATE or DELETE of the
view becomes one of that table.
"""

from collections.abc import Callable

from kpg.compiler.algebra.rel import Filter, Get, Map, Project, Rel
from kpg.compiler.catalog.entries import Catalog, TableEntry, ViewEntry
from kpg.runtime.errors import ProgrammingError, Span
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Scalar, transform
from kpg.runtime.types import ROWID


@dataclass(frozen=True, slots=True)
class Selection:
    """Columns and predicates of a view, over the columns of a single table by position."""

    table: str
    columns: tuple[Scalar, ...]
    predicates: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class UpdatableView:
    """A view and its base table.

    ``check_options`` are the views with a check option, and the conditions that new rows must satisfy.
    """

    view: str
    entry: TableEntry
    names: tuple[str, ...]
    columns: tuple[Scalar, ...]
    predicates: tuple[Scalar, ...]
    check_options: tuple[tuple[str, tuple[Scalar, ...]], ...]
    defaults: tuple[tuple[str, str], ...] = ()
    """DEFAULTs of the views for the table's columns, by lower-case name."""

    def column_name(self, column: str, fail: Callable[[str], Exception]) -> str:
        """Return the table's column of a view's column; ``fail`` builds the error if it is not updatable."""
        known = [name.lower() for name in self.names]
        if column.lower() not in known:
            raise fail(f'column "{column}" of "{self.view}" does not exist')
        found = self.columns[known.index(column.lower())]
        if not isinstance(found, Column):
            raise fail(f'column "{column}" of view "{self.view}" is an expression, so it cannot be changed')
        return self.entry.schema.names[found.index]


def as_selection(rel: Rel) -> Selection | None:
    """Return a relation as a selection of a table; None if it is not one."""
    if isinstance(rel, Get) and rel.is_table:
        columns = (Column(place, type_) for place, type_ in enumerate(rel.types))
        return Selection(rel.name, tuple(columns), ())
    if not isinstance(rel, Filter | Map | Project):
        return None
    below = as_selection(rel.input)
    if below is None:
        return None
    if isinstance(rel, Filter):
        more = tuple(_substitute_columns(below, one) for one in rel.predicates)
        return Selection(below.table, below.columns, (*below.predicates, *more))
    if isinstance(rel, Map):
        made = tuple(_substitute_columns(below, one) for one in rel.scalars)
        return Selection(below.table, (*below.columns, *made), below.predicates)
    return Selection(below.table, tuple(below.columns[place] for place in rel.columns), below.predicates)


def _substitute_columns(below: Selection, scalar: Scalar) -> Scalar:
    return transform(scalar, lambda one: below.columns[one.index] if isinstance(one, Column) else one)


def resolve_updatable_view(catalog: Catalog, name: str, span: Span | None) -> UpdatableView | None:
    """Return the updatable view of a name; None if it is a table.

    Raises:
        ProgrammingError: There is no such relation, or the view is not updatable.
    """
    entry = catalog.get(name, span)
    if not isinstance(entry, ViewEntry):
        return None
    rel = None if entry.materialized or entry.sql[:4].lower() == "with" else entry.rel
    found = None if rel is None else as_selection(rel)
    table = None if found is None else catalog.find(found.table)
    if entry.materialized:
        error = ProgrammingError(
            f'cannot change materialized view "{catalog.unqualified_name(entry.name)}"',
            span=span,
            hint="change the tables that it reads",
        )
        error.sqlstate = "42809"
        raise error
    if found is None or not isinstance(table, TableEntry):
        raise ProgrammingError(
            f'"{entry.name}" is a view',
            span=span,
            hint="only a view of rows and columns of one table is updatable: change the tables that it reads",
        )
    width = len(entry.schema.columns)
    columns = found.columns[:width]
    if any(column.type == ROWID for column in columns):
        raise ProgrammingError(f'"{entry.name}" is a view', span=span)
    checked, defaults = (
        tuple(_check_options(catalog, entry)),
        tuple(_view_defaults(catalog, entry, table).items()),
    )
    return UpdatableView(entry.name, table, entry.schema.names, columns, found.predicates, checked, defaults)


def _view_defaults(catalog: Catalog, entry: ViewEntry, table: TableEntry) -> dict[str, str]:
    """Return the DEFAULTs of the view and the views below it. Those of the upper view take precedence."""
    below = catalog.find(entry.below) if entry.below else None
    known = _view_defaults(catalog, below, table) if isinstance(below, ViewEntry) else {}
    found = as_selection(entry.rel) if entry.rel is not None else None
    if found is None or not entry.defaults:
        return known
    own = dict(entry.defaults)
    for name, column in zip(entry.schema.names, found.columns, strict=False):
        if name.lower() in own and isinstance(column, Column):
            known[table.schema.names[column.index].lower()] = own[name.lower()]
    return known


def updatable_columns(catalog: Catalog, entry: ViewEntry) -> frozenset[str]:
    """Return the updatable columns of a view; empty if the view is not updatable."""
    try:
        found = resolve_updatable_view(catalog, entry.name, None)
    except ProgrammingError:
        return frozenset()
    assert found is not None
    shown = zip(found.names, found.columns, strict=False)
    return frozenset(name for name, column in shown if isinstance(column, Column))


def _check_options(catalog: Catalog, entry: ViewEntry) -> list[tuple[str, tuple[Scalar, ...]]]:
    """Return the views with a check option, from this one downwards, with their conditions."""
    found = as_selection(entry.rel) if entry.rel is not None else None
    below = catalog.find(entry.below) if entry.below else None
    if entry.checked and not entry.local and found is not None:
        return [(entry.name, found.predicates)]
    rest = _check_options(catalog, below) if isinstance(below, ViewEntry) else []
    if not entry.checked or found is None:
        return rest
    return [(entry.name, found.predicates[_inherited_predicate_count(below) :]), *rest]


def _inherited_predicate_count(below: object) -> int:
    """Return the number of predicates of the view below. They come first among those of the view above it."""
    if not isinstance(below, ViewEntry) or below.rel is None:
        return 0
    found = as_selection(below.rel)
    return 0 if found is None else len(found.predicates)
