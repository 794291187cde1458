"""FROM: tables, views, WITH queries, derived tables, functions, VALUES and joins.

Each item adds its names to the scope. ROWS FROM puts functions side by side. The columns of VALUES take their
types from the cells, or from the table to insert into.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from sqlglot import exp

from kpg.compiler.algebra.rel import types as rel_types
from kpg.compiler.catalog.entries import Entry, ViewEntry, did_you_mean, get_of
from kpg.compiler.sql.bind.calls import assigned, brought, call, unified, user_type
from kpg.compiler.sql.bind.functions import KEYWORDS, OPTIONS
from kpg.compiler.sql.bind.literals import conjuncts, loose_type, settled_type
from kpg.compiler.sql.bind.predicate import bind_condition
from kpg.compiler.sql.bind.query_output import settled_query, united
from kpg.compiler.sql.bind.row_functions import NUMBER, bind_from_calls, declared_of, in_order, only_call
from kpg.compiler.sql.bind.scope import Binding, Common, Field, Fields, Scope, enter, relation_alias
from kpg.compiler.sql.bound_tree import Join, Map, Node, Query, Rows, Scan, Shared, SortKey
from kpg.compiler.sql.parse.syntax import construct_name, only, relation_name
from kpg.runtime.functions import shown_type
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Literal, Scalar
from kpg.runtime.types import INTEGER, UNKNOWN, ColumnDef, Type


def bind_from(binding: Binding, scope: Scope, select: exp.Select) -> Node:
    """The relation that a SELECT's FROM and joins make; without FROM, one row."""
    source = select.args.get("from_")
    joins = select.args.get("joins") or []
    if source is None:
        return one_row(binding)
    only(source, binding.source, "this")
    groups: list[tuple[exp.Expr, list[exp.Join]]] = [(source.this, [])]
    for join in joins:
        if _is_comma(join):
            groups.append((join.this, []))
        else:
            groups[-1][1].append(join)
    result: Node | None = None
    for first, rest in groups:
        node = _joined(binding, scope, first, rest)
        result = node if result is None else Join("inner", result, node, ())
    assert result is not None
    return result


def one_row(binding: Binding) -> Rows:
    """One row, of a column that nothing refers to."""
    return Rows(((Literal(0, INTEGER),),), (binding.fresh(),), (INTEGER,))


def _is_comma(join: exp.Join) -> bool:
    return not any(value for name, value in join.args.items() if name != "this")


def _joined(binding: Binding, scope: Scope, first: exp.Expr, joins: list[exp.Join]) -> Node:
    start = len(scope.fields)
    node = _item(binding, scope, first)
    for join in [*(first.args.get("joins") or []), *joins]:
        middle = len(scope.fields)
        right = _right_side(binding, scope, join, start)
        node = _join(binding, scope, node, right, join, (start, middle))
    return node


def _right_side(binding: Binding, scope: Scope, join: exp.Join, start: int) -> Node:
    """The right side of a join; of a RIGHT or FULL one it may not name columns of the left side."""
    if str(join.args.get("side") or "").upper() not in ("RIGHT", "FULL"):
        return _joined(binding, scope, join.this, [])
    left = scope.fields[start:]
    scope.fields[start:], scope.hidden = [], Fields(left)
    scope.hidden_hint = "only the right side of an inner or a left join may name columns of its left side"
    node = _joined(binding, scope, join.this, [])
    scope.fields[start:start], scope.hidden = left, Fields()
    return node


def _join(
    binding: Binding, scope: Scope, left: Node, right: Node, join: exp.Join, places: tuple[int, int]
) -> Node:
    only(join, binding.source, "this", "side", "kind", "on", "using", "method", "using_alias")
    side, kind, method = (str(join.args.get(part) or "").upper() for part in ("side", "kind", "method"))
    if kind not in ("", "INNER", "OUTER", "CROSS") or method not in ("", "NATURAL"):
        binding.refuse(f"{method} {kind} JOIN".strip(), join)
    if kind == "CROSS" and (join.args.get("on") or join.args.get("using")):
        binding.wrong("CROSS JOIN takes no condition", join)
    names = _shared_names(scope, join, method, places)
    if names is not None:
        return _join_using(binding, scope, (left, right), side, names, places, join)
    on: tuple[Scalar, ...] = ()
    if join.args.get("on") is not None:
        inner = scope.from_here("a join condition", places[0])
        on = conjuncts(bind_condition(binding, inner, join.args["on"], "ON"))
    elif kind != "CROSS" and not isinstance(join.this, exp.Lateral):
        binding.wrong("JOIN needs a condition", join, "add ON or USING, or write CROSS JOIN")
    _note_padded(binding, scope, side, places)
    return _outer(binding, side, left, right, on, join)


def _note_padded(binding: Binding, scope: Scope, side: str, places: tuple[int, int]) -> None:
    """The rows of these relations may be missing."""
    sides = (scope.fields[places[1] :], ("LEFT", "FULL")), (scope.fields[slice(*places)], ("RIGHT", "FULL"))
    binding.padded.update(known.column.index for fields, when in sides if side in when for known in fields)


def _outer(
    binding: Binding, side: str, left: Node, right: Node, on: tuple[Scalar, ...], join: exp.Join
) -> Node:
    match side:
        case "":
            return Join("inner", left, right, on)
        case "LEFT":
            return Join("left", left, right, on)
        case "RIGHT":
            return Join("left", right, left, on)
        case "FULL":
            return Join("full", left, right, on)
        case _:
            binding.refuse(f"{side} JOIN", join)


def _shared_names(scope: Scope, join: exp.Join, method: str, places: tuple[int, int]) -> list[str] | None:
    if join.args.get("using"):
        return [name.name for name in join.args["using"]]
    if method != "NATURAL":
        return None
    left = {known.name.lower() for known in scope.fields[places[0] : places[1]] if known.listed}
    right = [known.name for known in scope.fields[places[1] :] if known.listed]
    return [name for name in right if name.lower() in left]


def _join_using(
    binding: Binding,
    scope: Scope,
    sides: tuple[Node, Node],
    side: str,
    names: list[str],
    places: tuple[int, int],
    join: exp.Join,
) -> Node:
    start, middle = places
    lefts = [_side_field(binding, scope.fields[start:middle], name, join, "left") for name in names]
    rights = [_side_field(binding, scope.fields[middle:], name, join, "right") for name in names]
    pairs = list(zip(lefts, rights, strict=True))
    binding.use((*lefts, *rights))
    on = tuple(call(binding, "eq", [left.column, right.column], join) for left, right in pairs)
    _note_padded(binding, scope, side, places)
    node = _outer(binding, side, sides[0], sides[1], on, join)
    merged: list[Field] = []
    for left, right in pairs:
        column = right.column if side == "RIGHT" else left.column
        if side == "FULL":
            values = unified(binding, [left.column, right.column], [join, join], "USING columns")
            column = Column(binding.fresh(), values[0].type)
            node = Map(node, (column.index,), (call(binding, "coalesce", values, join),))
        merged.append(Field("", left.name, column))
    hidden = {id(known) for pair in pairs for known in pair}
    rest = [replace(known, listed=False) if id(known) in hidden else known for known in scope.fields[start:]]
    scope.fields[start:] = [*merged, *rest]
    alias = join.args.get("using_alias")
    if alias is not None:
        if alias.name.lower() in scope.relations():
            binding.wrong(f'"{alias.name}" occurs twice in FROM', alias, "give one of them an alias")
        scope.fields += [replace(one, relation=alias.name, listed=False) for one in merged]
    return node


def _side_field(binding: Binding, fields: list[Field], name: str, join: exp.Join, side: str) -> Field:
    found = [known for known in fields if known.listed and known.name.lower() == name.lower()]
    if len(found) != 1:
        problem = "is ambiguous" if found else "does not exist"
        hint = did_you_mean(name, (known.name for known in fields))
        binding.wrong(f'column "{name}" of USING {problem} in the {side} relation', join, hint)
    return found[0]


def _item(binding: Binding, scope: Scope, node: exp.Expr) -> Node:
    match node:
        case exp.Table(this=exp.Values() as rows):  # within parentheses that hold a join
            rows = rows.copy()
            rows.set("alias", node.args.get("alias"))
            return _item(binding, scope, rows)
        case exp.Table() if not isinstance(node.this, exp.Identifier):
            return bind_called(binding, scope, node)
        case exp.Table():
            return _table(binding, scope, node)
        case exp.Subquery() if _is_join(node.this):
            only(node, binding.source, "this", "alias", "joins")
            if node.args.get("alias") is None:
                return _joined(binding, scope, node.this, [])
            return _named_join(binding, scope, node)
        case exp.Subquery() | exp.Values():
            inner = Scope(scope.parent, common=scope.common)
            if node.args.get("joins"):  # those of the parentheses around it, which have been read
                node = node.copy()
                node.set("joins", None)
            return _derived(binding, scope, binding.query(inner, node), node)
        case exp.Unnest():
            only(node, binding.source, "expressions", "alias", "offset")
            return _calls(binding, scope, node, node)
        case exp.Lateral() if not isinstance(node.this, exp.Subquery):
            only(node, binding.source, "this", "alias", "ordinality")
            return _calls(binding, scope, node, node.this)
        case exp.Lateral(this=exp.Subquery() as query):
            only(node, binding.source, "this", "alias")
            return _derived(binding, scope, binding.query(scope.without_aggregates("LATERAL"), query), node)
        case _:
            binding.refuse(f"{construct_name(node)} in FROM", node)


def _is_join(node: exp.Expr) -> bool:
    """Whether what stands in parentheses in FROM is a join, or a relation, and not a query."""
    if isinstance(node, exp.Table):
        return True
    return isinstance(node, exp.Subquery) and (bool(node.args.get("joins")) or _is_join(node.this))


def _calls(binding: Binding, scope: Scope, node: exp.Expr, one: exp.Expr) -> Node:

    numbered = bool(node.args.get("ordinality")) or named_number(one, node)
    return bind_calls(binding, scope, node, [one], numbered=numbered)


def _named_join(binding: Binding, scope: Scope, node: exp.Subquery) -> Node:
    """``(a JOIN b ...) AS name (columns)``, whose relations have no names of their own outside."""
    inner = Scope(scope.parent, common=scope.common)
    result = _joined(binding, inner, node.this, [])
    name, renamed = relation_alias(binding, node, "")
    fields = inner.visible()
    names, columns = tuple(one.name for one in fields), tuple(one.column for one in fields)
    enter(binding, scope, name, names, columns, renamed, node)
    return result


def _derived(binding: Binding, scope: Scope, query: Query, node: exp.Expr) -> Node:
    query = settled_query(query)
    name, renamed = relation_alias(binding, node, "")
    enter(binding, scope, name, query.names, query.columns, renamed, node)
    scope.orders[id(query.node)] = query.order
    return query.node


def _unlisted(binding: Binding, scope: Scope, node: exp.Table) -> Node:
    """A relation of the system, or an error."""
    from kpg.compiler.sql.bind.base_tables import bind_unlisted  # lazy: the system catalogs

    system = bind_unlisted(binding, scope, node)
    if system is not None:
        return system
    every = [known.name for known in binding.catalog]
    message = f'relation "{relation_name(node)}" does not exist'
    binding.wrong(message, node.this, did_you_mean(node.name, every))


def _table(binding: Binding, scope: Scope, node: exp.Table) -> Node:
    only(node, binding.source, "this", "alias", "joins", "db", "only", "sample")
    if node.args.get("sample") is not None:
        from kpg.compiler.sql.bind.base_tables import bind_sampled  # lazy: the system catalogs

        return bind_sampled(binding, scope, node, _table)
    common = scope.find_common(node.name) if node.args.get("db") is None else None
    if common is not None:
        return _common(binding, scope, common, node)
    entry = binding.catalog.find(relation_name(node))
    if entry is None:
        return _unlisted(binding, scope, node)
    name, renamed = relation_alias(binding, node, binding.catalog.plain(entry.name))
    if binding.catalog.others and not node.args.get("only"):
        from kpg.compiler.sql.bind.base_tables import with_heirs  # lazy: the system catalogs

        query = with_heirs(binding, entry, name)
        if query is not None:
            width = len(entry.schema.columns)
            if binding.reads is not None:
                binding.reads.enter(entry, query.columns[:width], locked=binding.locks(name))
            enter(binding, scope, name, query.names[:width], query.columns[:width], renamed, node)
            more = zip(query.names[width:], query.columns[width:], strict=True)
            scope.fields += (Field(name, shown, column, of_system=True) for shown, column in more)
            return query.node
    scan, columns = _rows_of(binding, entry)
    result: Node = scan
    if isinstance(entry, ViewEntry) and entry.order:
        scope.orders[id(scan)] = _order_of(entry, scan)
    if binding.catalog.others:
        from kpg.compiler.sql.bind.row_security import secured_rows  # lazy: policies

        result, columns = secured_rows(binding, entry, result, columns, name)
    if binding.reads is not None:
        binding.reads.enter(entry, columns, locked=binding.locks(name))
    enter(binding, scope, name, entry.schema.names, columns, renamed, node)
    text = "" if binding.located else binding.source.lower()
    if not binding.located and "tableoid" not in text and "ctid" not in text:
        return result
    from kpg.compiler.sql.bind.base_tables import with_system  # lazy: the system catalogs

    return with_system(binding, scope, name, entry, result, scan)


def _rows_of(binding: Binding, entry: Entry) -> tuple[Scan | Shared, tuple[Column, ...]]:
    """The rows of a table or view, and its columns but hidden ones; views that are not kept are shared."""
    width = len(entry.schema.columns)
    if isinstance(entry, ViewEntry) and not entry.materialized and entry.rel is not None:
        shared = _share_view(binding, entry)
        ids = tuple(binding.fresh() for _ in shared.columns)
        result: Scan | Shared = Shared(f"view {entry.name}", ids)
        types: tuple[Type, ...] = tuple(column.type for column in shared.columns)
    else:
        get = get_of(entry)
        types = rel_types(get)
        ids = tuple(binding.fresh() for _ in types)
        result = Scan(get, ids)
    return result, tuple(Column(id_, type_) for id_, type_ in zip(ids, types, strict=True))[:width]


def _order_of(entry: ViewEntry, rows: Scan | Shared) -> tuple[SortKey, ...]:
    """The ORDER BY of a view, over its rows: they come in that order where a query around them has none."""
    rel = rows.rel if isinstance(rows, Scan) else entry.rel
    assert rel is not None
    types = rel_types(rel)
    return tuple(
        SortKey(Column(rows.ids[one.column], types[one.column]), one.descending, one.nulls_first)
        for one in entry.order
    )


def _share_view(binding: Binding, entry: ViewEntry) -> Query:
    key = f"view {entry.name}"
    if key not in binding.shared:
        assert entry.rel is not None
        types = rel_types(entry.rel)
        ids = tuple(binding.fresh() for _ in types)
        columns = tuple(Column(id_, type_) for id_, type_ in zip(ids, types, strict=True))
        binding.shared[key] = Query(Scan(entry.rel, ids), columns, entry.schema.names)
    return binding.shared[key]


def _common(binding: Binding, scope: Scope, common: Common, node: exp.Table) -> Node:
    name, renamed = relation_alias(binding, node, common.name)
    if common.shared is None:
        query = settled_query(binding.query(common.scope, common.syntax))
        names = (*common.columns, *query.names[len(common.columns) :])
        enter(binding, scope, name, names, query.columns, renamed, node)
        return query.node
    names, types = binding.columns_of(common.shared)
    ids = tuple(binding.fresh() for _ in types)
    columns = tuple(Column(id_, type_) for id_, type_ in zip(ids, types, strict=True))
    enter(binding, scope, name, names, columns[: len(names)], renamed, node)
    result = Shared(common.shared, ids, common.outer)
    known = binding.shared.get(common.shared)
    if known is not None and known.order:
        places = [known.columns.index(key.column) for key in known.order]
        keys = zip(known.order, places, strict=True)
        scope.orders[id(result)] = tuple(replace(key, column=columns[place]) for key, place in keys)
    return result


OF_PARTITIONS: Final = ("pg_partition_ancestors", "pg_partition_tree")


@dataclass(frozen=True, slots=True)
class Item:
    """A call, or several, in FROM: the rows, their own name, and the columns with their names."""

    node: Node
    name: str
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    is_value: bool = True
    """Whether its rows are values, if it has one column."""


def bind_called(binding: Binding, scope: Scope, node: exp.Table) -> Node:
    """A function in the place of a table, or ROWS FROM several."""
    only(node, binding.source, "this", "alias", "joins", "ordinality", "rows_from", "db")
    only_call(binding, node)
    calls = in_order(node)
    if isinstance(calls[0], exp.Anonymous) and str(calls[0].this).lower() == OPTIONS:
        from kpg.compiler.sql.bind.base_tables import no_options  # lazy: the system catalogs

        return no_options(binding, scope, node)
    if isinstance(calls[0], exp.Anonymous) and str(calls[0].this).lower() == KEYWORDS:
        from kpg.compiler.sql.bind.base_tables import word_rows  # lazy: the system catalogs

        return word_rows(binding, scope, node)
    if isinstance(calls[0], exp.Anonymous) and _is_of_partitions(calls[0]):
        from kpg.compiler.sql.bind.base_tables import kin_rows  # lazy: the system catalogs

        return kin_rows(binding, scope, node, calls[0])
    if node.args.get("db") is not None and node.db.lower() != "pg_catalog":
        calls = [exp.Dot(this=node.args["db"].copy(), expression=calls[0].copy())]
    return bind_calls(binding, scope, node, calls, numbered=bool(node.args.get("ordinality")))


def _is_of_partitions(node: exp.Anonymous) -> bool:
    """Whether a call asks for the kin of a table."""
    return str(node.this).lower() in OF_PARTITIONS and len(node.expressions) == 1


def bind_calls(
    binding: Binding, scope: Scope, node: exp.Expr, calls: list[exp.Expr], *, numbered: bool
) -> Node:
    """Calls in FROM, whose arguments may name the items before."""

    alias, renamed = relation_alias(binding, node, "")
    declared = declared_of(node)
    lists = [declared_of(part) for part in node.args.get("rows_from") or ()]
    if len(calls) == 1:
        item = _one(
            binding, scope, calls[0], alias, declared or (lists[0] if lists else []), numbered=numbered
        )
    elif any(lists) or binding.catalog.routines:
        item = _in_step(binding, scope, calls, alias, lists, numbered=numbered)
    else:
        item = _built_in(binding, scope, calls, alias, declared, numbered=numbered)
    if len(item.columns) == 1 and item.name and item.is_value:
        scope.whole[item.name.lower()] = item.columns[0]
    enter(binding, scope, item.name, item.names, item.columns, renamed, node)
    return item.node


def named_number(call_: exp.Expr, item: exp.Expr) -> bool:
    """Whether ``unnest`` in FROM has WITH ORDINALITY; the number's name goes back to those of the item."""
    if not isinstance(call_, exp.Unnest):
        return False
    offset = call_.args.get("offset")
    if isinstance(offset, exp.Identifier):  # sqlglot takes the number's name from the others
        item.args["alias"].append("columns", offset)
        call_.set("offset", True)
    return bool(offset)


def _one(
    binding: Binding, scope: Scope, node: exp.Expr, alias: str, declared: list[exp.Expr], *, numbered: bool
) -> Item:
    if binding.catalog.routines:
        from kpg.compiler.sql.bind.routines import bind_routine_rows  # lazy: functions in SQL

        types = {one.name: user_type(binding, one.args["kind"]) for one in declared}
        found = bind_routine_rows(binding, scope, node, alias, numbered=numbered, declared=types)
        if found is not None:
            names = (*types, *found.names[len(types) :])
            return Item(found.node, found.name, names, found.columns, is_value=False)
    return _built_in(binding, scope, [node], alias, declared, numbered=numbered)


def _built_in(
    binding: Binding,
    scope: Scope,
    calls: list[exp.Expr],
    alias: str,
    declared: list[exp.Expr],
    *,
    numbered: bool,
) -> Item:

    source = one_row(binding)
    made = bind_from_calls(
        binding, scope, calls, numbered=numbered, source=source, alias=alias, declared=declared
    )
    return Item(*made)


def _in_step(
    binding: Binding,
    scope: Scope,
    calls: list[exp.Expr],
    alias: str,
    lists: list[list[exp.Expr]],
    *,
    numbered: bool,
) -> Item:
    """Calls of which each has rows of its own, side by side by their numbers."""
    items = [
        _one(binding, scope, node, "", declared, numbered=True)
        for node, declared in zip(calls, lists or [[] for _ in calls], strict=True)
    ]
    result, number = items[0].node, items[0].columns[-1]
    for place, item in enumerate(items[1:], 1):
        other = item.columns[-1]
        result = Join("full", result, item.node, (call(binding, "eq", [number, other], calls[place]),))
        either = call(binding, "coalesce", [number, other], calls[place])
        number = Column(binding.fresh(), either.type)
        result = Map(result, (number.index,), (either,))
    names = [name for item in items for name in item.names[:-1]]
    columns = [column for item in items for column in item.columns[:-1]]
    if numbered:
        names.append(NUMBER)
        columns.append(number)
    scope.orders[id(result)] = (SortKey(number, descending=False, nulls_first=False),)
    return Item(result, alias or items[0].name, tuple(names), tuple(columns))


Cells = list[list[Scalar]]
ROWS: Final = "rows"
"""Where a tree has the rows that stand for those of a long list."""


def bind_values(binding: Binding, around: Scope, node: exp.Values) -> Query:
    """VALUES as a query, each column of a type that all its cells can have."""
    known = node.meta.get(ROWS)
    if known is not None:
        return _query(binding, [list(row) for row in zip(*known.columns, strict=True)])
    syntax = _syntax(binding, node)
    rows = _bound(binding, around, syntax)
    for (first, second), row in zip(pairwise(rows), syntax[1:], strict=True):
        if len(first) != len(second):
            message = f"a row of {len(second)} values in VALUES with rows of {len(first)}"
            binding.wrong(message, row[0])
    for index in range(len(rows[0])):
        _unify(binding, rows, syntax, index, node)
    return _query(binding, rows)


def bind_inserted(binding: Binding, node: exp.Values, columns: Sequence[ColumnDef]) -> Query:
    """VALUES for columns of a table: each cell on its own takes its column's type."""
    syntax = _syntax(binding, node)
    rows = _bound(binding, Scope(), syntax)
    for row, parts in zip(rows, syntax, strict=True):
        if len(row) != len(columns):
            binding.wrong(f"INSERT has {len(row)} values for {len(columns)} columns", parts[0])
        row[:] = [
            assigned(binding, cell, column, part)
            for cell, column, part in zip(row, columns, parts, strict=True)
        ]
    return _query(binding, rows)


def _syntax(binding: Binding, node: exp.Values) -> list[list[exp.Expr]]:
    for row in node.expressions:
        if not isinstance(row, exp.Tuple) or not row.expressions:
            binding.wrong("a row of VALUES is one value or more in brackets", row)
    return [row.expressions for row in node.expressions]


def _bound(binding: Binding, around: Scope, syntax: list[list[exp.Expr]]) -> Cells:
    scope = around.without_aggregates("VALUES")
    return [[binding.expression(scope, part) for part in row] for row in syntax]


def _unify(binding: Binding, rows: Cells, syntax: list[list[exp.Expr]], index: int, node: exp.Expr) -> None:
    """Brings one column to a type; strings and NULLs alone leave it UNKNOWN."""
    kinds = {loose_type(row[index]): None for row in rows}
    if set(kinds) == {UNKNOWN}:
        return
    target = shown_type(tuple(kinds))
    if target is None:
        binding.wrong(f"column {index + 1} of VALUES has no common type", node, "add a CAST")
    for row, parts in zip(rows, syntax, strict=True):
        row[index] = brought(binding, row[index], settled_type(target), parts[index])


def _query(binding: Binding, rows: Cells) -> Query:
    types = tuple(scalar.type for scalar in rows[0])
    names = tuple(f"column{index + 1}" for index in range(len(types)))
    constant = [tuple(cell for cell in row if isinstance(cell, Literal)) for row in rows]
    if any(len(row) < len(types) for row in constant):
        return _computed(binding, rows, names)
    ids = tuple(binding.fresh() for _ in types)
    columns = tuple(Column(id_, type_) for id_, type_ in zip(ids, types, strict=True))
    return Query(Rows(tuple(constant), ids, types), columns, names)


def _computed(binding: Binding, rows: Cells, names: tuple[str, ...]) -> Query:
    """Rows that are not constant: a union of one-row queries, in the order of the numbers that they get."""
    if len(rows) == 1:
        return _one_row(binding, rows[0], names)
    numbered = (*names, "number")
    queries = [_one_row(binding, [*row, Literal(place, INTEGER)], numbered) for place, row in enumerate(rows)]
    result = united(binding, queries)
    *shown, number = result.columns
    return Query(result.node, tuple(shown), names, (SortKey(number, descending=False, nulls_first=False),))


def _one_row(binding: Binding, row: list[Scalar], names: tuple[str, ...]) -> Query:
    ids = tuple(binding.fresh() for _ in row)
    node = Map(one_row(binding), ids, tuple(row))
    return Query(node, tuple(Column(id_, scalar.type) for id_, scalar in zip(ids, row, strict=True)), names)
