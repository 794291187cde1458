"""Entry points from a statement to a relation, with what presenting its rows needs.

:class:`Bound` is the result. :func:`origins_of` gives the table and column from which each output column
comes; the server sends it to clients. Drivers use it to look up nullability and the table of an updatable
row. The ``check_*`` functions raise PrivilegeError.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from sqlglot import exp

from kpg.compiler.algebra import facts
from kpg.compiler.algebra.rel import OrderBy, Rel, types
from kpg.compiler.catalog.access_control import denied, key_of, may_columns, need_columns, whose
from kpg.compiler.catalog.entries import Catalog, Entry, ViewEntry
from kpg.compiler.catalog.privileges import FIRST
from kpg.compiler.qualified_names import written
from kpg.compiler.sql.bind.query import bind, bind_query, new_binding
from kpg.compiler.sql.bound_tree import Reads, Resolved
from kpg.compiler.sql.lower.query import lower_resolved
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parameters import trees_of
from kpg.compiler.sql.parse.parser import parse_query
from kpg.compiler.sql.parse.reader import body_of
from kpg.compiler.sql.parse.syntax import relation_name
from kpg.runtime.errors import Error, ProgrammingError
from kpg.runtime.records import dataclass
from kpg.runtime.types import Type
from kpg.runtime.values.styles import PLAIN as STYLES_PLAIN

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
    places: Places = {}
    for item in query.expressions:
        one = item.this if isinstance(item, exp.Alias) else item
        if isinstance(one, exp.Star) or (isinstance(one, exp.Column) and isinstance(one.this, exp.Star)):
            whole = _all(sources, one.table if isinstance(one, exp.Column) else "")
            if whole is None or joined:
                return ()
            found += whole
        elif isinstance(one, exp.Column):
            found.append(_of(sources, places, one))
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


Places = dict[str, dict[str, int]]
"""The positions of the columns of relations by their names in lower case."""


def _of(sources: list[Source], places: Places, column: exp.Column) -> Origin:
    """Where a column comes from: names that two things have are errors, which others tell."""
    wanted = column.name.lower()
    for name, entry in sources:
        if entry is None or (column.table and name != column.table.lower()):
            continue
        if entry.name not in places:
            names = reversed(tuple(enumerate(entry.schema.names)))
            places[entry.name] = {name.lower(): place for place, name in names}
        place = places[entry.name].get(wanted)
        if place is not None:
            return entry.name, place + 1
    return NONE


@dataclass(frozen=True, slots=True)
class Bound:
    """A query as a relation. Its first ``visible`` columns are the result; ``order`` is over all of them."""

    rel: Rel
    names: tuple[str, ...]
    types: tuple[Type, ...]
    nullable: tuple[bool, ...]
    order: tuple[OrderBy, ...]
    visible: int
    origins: tuple[tuple[str, int], ...] = ()
    """What columns of relations its columns are, if that is known: see ``origins.py``."""


def lower_query(statement: ast.Select, catalog: Catalog, *, kept: bool = False) -> Bound:
    """The relation of a query that is asked once, or of the one that a view is."""
    bound = lowered(bind(statement.query, statement.span.source, catalog, kept=kept), catalog)
    return bound if kept else replace(bound, origins=origins_of(statement.query, catalog, bound.visible))


def lowered(resolved: Resolved, catalog: Catalog) -> Bound:
    """The relation of a bound query, with what presenting it needs; PrivilegeError if it may not be read."""
    check_reads(resolved.reads, catalog)
    query = resolved.query
    rel, ids = lower_resolved(resolved)
    if resolved.style is not STYLES_PLAIN:
        from kpg.compiler.sql.lower.session_style import in_style  # lazy: a time zone

        rel = in_style(rel, resolved.style)
    order = tuple(
        OrderBy(ids.index(key.column.index), key.descending, key.nulls_first) for key in query.order
    )
    visible = len(query.columns)
    return Bound(rel, query.names, types(rel)[:visible], facts.nullable(rel)[:visible], order, visible)


def lower_relation(name: str, catalog: Catalog) -> Bound:
    """All rows of a table or view."""
    return lower_query(parse_query(f"select * from {written(name)}"), catalog)


def named_relations(query: ast.Select, catalog: Catalog) -> frozenset[str]:
    """The tables and views of the catalog that the text of a query names."""
    common = {with_.alias.lower() for with_ in query.query.find_all(exp.CTE)}
    found = (catalog.find(relation_name(table)) for table in query.query.find_all(exp.Table))
    names = {entry.name for entry in found if entry is not None and entry.name.lower() not in common}
    return frozenset(names) | (
        _routines(query.query, catalog) if catalog.routines or catalog.others else frozenset()
    )


def read_relations(statement: object, catalog: Catalog) -> frozenset[str]:
    """The tables and views that a statement reads; the target of an INSERT is not among them."""
    found: set[str] = set()
    if isinstance(statement, ast.Modifying):
        for one in (*(part for _, _, part in statement.parts), statement.main):
            found |= read_relations(one, catalog)
        return frozenset(found)
    for tree in trees_of(statement):
        for table in tree.find_all(exp.Table):
            entry = catalog.find(relation_name(table))
            if entry is not None:
                found.add(entry.name)
    if isinstance(statement, ast.ExplainRow | ast.ExplainView):
        found.add(catalog.get(statement.relation, statement.place).name)
    target = getattr(statement, "table", None)
    if isinstance(target, str) and not isinstance(statement, ast.Insert | ast.CopyFrom):
        found.add(catalog.get(target).name)
    return frozenset(found)


def _routines(tree: exp.Expr, catalog: Catalog) -> frozenset[str]:
    """The functions and aggregates in SQL that a tree and their bodies call, by the names that views know."""

    found: set[str] = set()
    aggregates = catalog.aggregates if catalog.others else {}
    pending = [tree]
    while pending:
        for node in pending.pop().find_all(exp.Func):
            names = [str(node.this)] if isinstance(node, exp.Anonymous) else type(node).sql_names()
            schema = node.parent.this.name if isinstance(node.parent, exp.Dot) else ""
            for one in (one for name in names for one in aggregates.get(name.lower(), ())):
                found.add(f"function {one.fold}")
            for routine in (one for name in names for one in catalog.find_routines(name.lower(), schema)):
                if routine.key not in found:
                    found.add(routine.key)
                    pending.append(body_of(routine.body))
    return frozenset(found)


def named_columns(query: ast.Select, catalog: Catalog, relation: str) -> frozenset[str]:
    """The columns of a relation that the text of a query names; * names all.

    ProgrammingError if the text cannot be bound.
    """
    seen = catalog.copy()
    seen.asker = replace(catalog.asker, user=FIRST)
    binding = new_binding(query.span.source, seen)
    binding.kept, binding.reads = True, Reads()
    bind_query(binding, None, query.query)
    found: set[str] = set()
    waiting = [binding.reads]
    while waiting:
        reads = waiting.pop()
        waiting += (within for _, within in reads.within)
        found.update(*(one.used for one in reads.relations if one.entry.name == relation))
    return frozenset(found)


def has_star(query: ast.Select) -> bool:
    """Whether the columns of a query, or of a part of it, are all those of a relation."""
    return any(select.is_star for select in query.query.find_all(exp.Select))


def asks_system(query: ast.Select, catalog: Catalog) -> bool:
    """Whether a query reads a relation of the system, or a view that does."""
    names = [relation_name(table).lower() for table in query.query.find_all(exp.Table)]
    if any(name.startswith(("pg_catalog.", "information_schema.", "pg_")) for name in names):
        return True
    return any(isinstance(view := catalog.find(name), ViewEntry) and view.of_system for name in names)


def lower_view(
    statement: ast.CreateView | ast.CreateTableAs, catalog: Catalog, *, kept: bool = True
) -> Bound:
    """The relation of a view's or table's query under the column names of these, which must differ.

    That of a view is one that can be ``kept`` up to date, or one for asking it once.
    """
    bound = lower_query(statement.query, catalog, kept=kept and isinstance(statement, ast.CreateView))
    what = "view" if isinstance(statement, ast.CreateView) else "table"
    if len(statement.columns) > bound.visible:
        message = f"the {what} has {bound.visible} columns but {len(statement.columns)} are named"
        raise ProgrammingError(message, span=statement.span)
    names = (*statement.columns, *bound.names[len(statement.columns) :])
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            hint = "give one of them another name with AS"
            raise ProgrammingError(f'the {what} has two columns "{name}"', span=statement.span, hint=hint)
        seen.add(name.lower())
    return replace(bound, names=names)


def check_reads(reads: Reads | None, catalog: Catalog) -> None:
    """PrivilegeError if who asks may not read what a statement names."""
    if reads is None:
        return
    for one in reads.relations:
        if one.scanned or one.used:
            need_columns(catalog, one.entry.name, "r", frozenset(one.used))
            if isinstance(one.entry, ViewEntry):
                check_view(catalog, one.entry)
    for seen, inner in reads.within:
        check_reads(inner, seen)
    for one in reads.locked:
        need_columns(catalog, one.entry.name, "w", frozenset())


def check_view(catalog: Catalog, view: ViewEntry) -> None:
    """PrivilegeError if the owner of a view, or who asks, may not read what the view names.

    A materialized view has its rows already.
    """
    if view.materialized or not view.sql:
        return
    user = whose(catalog, view)
    if view.is_derived:
        from kpg.compiler.sql.bind.row_security import below  # lazy: policies, 8 ms

        for under in below(catalog, view):
            if not may_columns(catalog, user, under.name, "r", frozenset(under.schema.names)):
                raise denied(catalog, key_of(under.name))
        return
    query = parse_query(view.text)
    wholly = True
    for name in sorted(named_relations(query, catalog)):
        entry = catalog.entries.get(name.lower())
        if isinstance(entry, ViewEntry):
            check_view(catalog, entry)
        wholly &= entry is None or may_columns(catalog, user, name, "r", None)
    if wholly:
        return
    # Only some of the columns, if any: which of them the view names, the binder knows.
    seen = catalog.copy()
    seen.asker = replace(catalog.asker, user=user)
    reads = bind(query.query, query.span.source, seen).reads
    for one in reads.relations if reads is not None else ():
        if (one.scanned or one.used) and not may_columns(
            seen, user, one.entry.name, "r", frozenset(one.used)
        ):
            raise denied(seen, key_of(one.entry.name))


def check_relation(catalog: Catalog, name: str) -> None:
    """PrivilegeError if who asks may not read a whole relation."""
    if not catalog.is_limited:
        return
    entry = catalog.get(name)
    need_columns(catalog, entry.name, "r", frozenset(entry.schema.names))
    if catalog.others:
        from kpg.compiler.sql.bind.row_security import refuse_secured  # lazy: policies, 8 ms

        refuse_secured(catalog, entry)
    if isinstance(entry, ViewEntry):
        check_view(catalog, entry)
