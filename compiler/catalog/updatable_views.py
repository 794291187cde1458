"""Updatable views: views whose rows correspond one to one to rows of a single table.

:func:`through` maps a view to its base table. An INSERT, UPDATE or DELETE of the view becomes one of that
table.
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
    """A view's columns, and what holds for its rows, over the columns of a table, by their positions."""

    table: str
    columns: tuple[Scalar, ...]
    predicates: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Through:
    """A table as a view shows it.

    ``checked`` are the views that take only rows that they show, with what these have to satisfy.
    """

    view: str
    entry: TableEntry
    names: tuple[str, ...]
    columns: tuple[Scalar, ...]
    predicates: tuple[Scalar, ...]
    checked: tuple[tuple[str, tuple[Scalar, ...]], ...]
    defaults: tuple[tuple[str, str], ...] = ()
    """What views give columns of the table, by their names in lower case, for DEFAULT."""

    def name_of(self, column: str, fail: Callable[[str], Exception]) -> str:
        """The table's name of a column of the view; ``fail`` makes an error if it cannot be written."""
        known = [name.lower() for name in self.names]
        if column.lower() not in known:
            raise fail(f'column "{column}" of "{self.view}" does not exist')
        found = self.columns[known.index(column.lower())]
        if not isinstance(found, Column):
            raise fail(f'column "{column}" of view "{self.view}" is computed: it cannot be changed')
        return self.entry.schema.names[found.index]


def selection(rel: Rel) -> Selection | None:
    """A relation as a selection of a table; None if it is none."""
    if isinstance(rel, Get) and rel.is_table:
        columns = (Column(place, type_) for place, type_ in enumerate(rel.types))
        return Selection(rel.name, tuple(columns), ())
    if not isinstance(rel, Filter | Map | Project):
        return None
    below = selection(rel.input)
    if below is None:
        return None
    if isinstance(rel, Filter):
        more = tuple(_over(below, one) for one in rel.predicates)
        return Selection(below.table, below.columns, (*below.predicates, *more))
    if isinstance(rel, Map):
        made = tuple(_over(below, one) for one in rel.scalars)
        return Selection(below.table, (*below.columns, *made), below.predicates)
    return Selection(below.table, tuple(below.columns[place] for place in rel.columns), below.predicates)


def _over(below: Selection, scalar: Scalar) -> Scalar:
    return transform(scalar, lambda one: below.columns[one.index] if isinstance(one, Column) else one)


def through(catalog: Catalog, name: str, span: Span | None) -> Through | None:
    """A table as the view of that name shows it, None if that is a table; an error if it is neither."""
    entry = catalog.get(name, span)
    if not isinstance(entry, ViewEntry):
        return None
    rel = None if entry.materialized or entry.sql[:4].lower() == "with" else entry.rel
    found = None if rel is None else selection(rel)
    table = None if found is None else catalog.find(found.table)
    if entry.materialized:
        error = ProgrammingError(
            f'cannot change materialized view "{catalog.plain(entry.name)}"',
            span=span,
            hint="it follows the tables that it reads: change these",
        )
        error.sqlstate = "42809"
        raise error
    if found is None or not isinstance(table, TableEntry):
        raise ProgrammingError(
            f'"{entry.name}" is a view',
            span=span,
            hint="it is no selection of rows and columns of one table: change the tables that it reads",
        )
    width = len(entry.schema.columns)
    columns = found.columns[:width]
    if any(column.type == ROWID for column in columns):
        raise ProgrammingError(f'"{entry.name}" is a view', span=span)
    checked, defaults = tuple(_checked(catalog, entry)), tuple(_defaults(catalog, entry, table).items())
    return Through(entry.name, table, entry.schema.names, columns, found.predicates, checked, defaults)


def _defaults(catalog: Catalog, entry: ViewEntry, table: TableEntry) -> dict[str, str]:
    """The DEFAULTs of this view and those below, of which the highest counts."""
    below = catalog.find(entry.below) if entry.below else None
    known = _defaults(catalog, below, table) if isinstance(below, ViewEntry) else {}
    found = selection(entry.rel) if entry.rel is not None else None
    if found is None or not entry.defaults:
        return known
    own = dict(entry.defaults)
    for name, column in zip(entry.schema.names, found.columns, strict=False):
        if name.lower() in own and isinstance(column, Column):
            known[table.schema.names[column.index].lower()] = own[name.lower()]
    return known


def written_columns(catalog: Catalog, entry: ViewEntry) -> frozenset[str]:
    """The columns of a view that can be written through it; none if it is no selection of a table."""
    try:
        found = through(catalog, entry.name, None)
    except ProgrammingError:
        return frozenset()
    assert found is not None
    shown = zip(found.names, found.columns, strict=False)
    return frozenset(name for name, column in shown if isinstance(column, Column))


def _checked(catalog: Catalog, entry: ViewEntry) -> list[tuple[str, tuple[Scalar, ...]]]:
    """The views that check rows, this one and those below, with their conditions."""
    found = selection(entry.rel) if entry.rel is not None else None
    below = catalog.find(entry.below) if entry.below else None
    if entry.checked and not entry.local and found is not None:
        return [(entry.name, found.predicates)]
    rest = _checked(catalog, below) if isinstance(below, ViewEntry) else []
    if not entry.checked or found is None:
        return rest
    return [(entry.name, found.predicates[_known_below(below) :]), *rest]


def _known_below(below: object) -> int:
    """How many conditions the view below has, which come first among those of a view over it."""
    if not isinstance(below, ViewEntry) or below.rel is None:
        return 0
    found = selection(below.rel)
    return 0 if found is None else len(found.predicates)
