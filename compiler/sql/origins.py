"""Which columns of relations the columns of a query are, as its text says: the server tells clients.

Drivers look by these whether a column may be NULL, and which table an update of a row is for.
"""

from collections.abc import Iterator
from typing import Final

from sqlglot import exp

from kpg.compiler.catalog import Catalog, Entry, ViewEntry
from kpg.compiler.sql.parse import parse_query
from kpg.compiler.sql.syntax import relation_name
from kpg.runtime.errors import Error

Origin = tuple[str, int]
"""The name of a relation, and the place of the column in it."""
NONE: Final = ("", 0)
COMPUTED: Final = ("", -1)
"""Of a value that has neither a length nor a number of digits."""
PLAIN: Final = (exp.AggFunc, exp.Binary, exp.Literal, exp.Window)


def origins_of(query: exp.Expr, catalog: Catalog, width: int) -> tuple[Origin, ...]:
    """For each of the ``width`` columns of a query its relation and its place there; () if unknown."""
    if not isinstance(query, exp.Select):
        return ()
    common = {one.alias.lower() for one in query.find_all(exp.CTE)}
    sources = [_source(one, catalog, common) for one in _items(query)]
    joined = any(one.args.get("using") or one.args.get("method") for one in query.args.get("joins") or ())
    found: list[Origin] = []
    for item in query.expressions:
        one = item.this if isinstance(item, exp.Alias) else item
        if isinstance(one, exp.Star) or (isinstance(one, exp.Column) and isinstance(one.this, exp.Star)):
            whole = _all(sources, one.table if isinstance(one, exp.Column) else "")
            if whole is None or joined:
                return ()
            found += whole
        elif isinstance(one, exp.Column):
            found.append(_of(sources, one))
        else:
            found.append(COMPUTED if isinstance(one, PLAIN) else NONE)
    return tuple(found) if len(found) == width else ()


def is_computed(catalog: Catalog, view: ViewEntry, place: int) -> bool:
    """Whether a column of a view is computed, so that its type has neither length nor digits."""
    if not view.sql or not view.schema.types[place].precision:
        return False
    try:
        found = origins_of(parse_query(view.sql).query, catalog, len(view.schema.columns))
    except Error:
        return False
    name, column = found[place] if found else NONE
    source = catalog.find(name) if name else None
    if isinstance(source, ViewEntry):
        return is_computed(catalog, source, column - 1)
    return column == COMPUTED[1]


Source = tuple[str, Entry | None]
"""The name of something in FROM, and the relation that it is; None for anything else."""


def _items(query: exp.Select) -> Iterator[exp.Expr]:
    start = query.args.get("from") or query.args.get("from_")
    if start is not None:
        yield start.this
    for join in query.args.get("joins") or ():
        yield join.this
    yield from query.args.get("laterals") or ()


def _source(item: exp.Expr, catalog: Catalog, common: set[str]) -> Source:
    name = item.alias_or_name.lower()
    if not isinstance(item, exp.Table) or not isinstance(item.this, exp.Identifier):
        return name, None
    alias = item.args.get("alias")
    renamed = alias is not None and alias.args.get("columns")
    inside = item.args.get("joins")
    whole = relation_name(item)
    if renamed or inside or whole.lower() in common:
        return name, None
    return name, catalog.find(whole)


def _all(sources: list[Source], table: str) -> list[Origin] | None:
    found: list[Origin] = []
    for name, entry in sources:
        if table and name != table.lower():
            continue
        if entry is None:
            return None
        found += [(entry.name, place) for place in range(1, len(entry.schema.columns) + 1)]
    return found


def _of(sources: list[Source], column: exp.Column) -> Origin:
    """Where a column comes from: names that two things have are errors, which others tell."""
    wanted = column.name.lower()
    for name, entry in sources:
        if entry is None or (column.table and name != column.table.lower()):
            continue
        names = [one.lower() for one in entry.schema.names]
        if wanted in names:
            return entry.name, names.index(wanted) + 1
    return NONE
