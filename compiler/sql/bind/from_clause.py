"""FROM: tables, views, WITH queries, derived tables, functions, VALUES and joins.

Each item adds its names to the scope. ROWS FROM puts functions side by side. The columns of VALUES take their
types from the cells, or from the table to insert into.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from kpg.compiler.algebra.rel import types as rel_types
from kpg.compiler.catalog.entries import Entry, ViewEntry, did_you_mean, get_node
from kpg.compiler.sql.bind.calls import call, coerce_at, coerce_for_assignment, coerce_to_common, resolve_type
from kpg.compiler.sql.bind.functions import KEYWORDS_FUNCTION, OPTIONS_FUNCTION
from kpg.compiler.sql.bind.literals import conjuncts, default_fields_to_text, loose_type
from kpg.compiler.sql.bind.predicate import bind_condition
from kpg.compiler.sql.bind.query_output import default_query_to_text, union_queries
from kpg.compiler.sql.bind.row_functions import (
    ORDINALITY,
    bind_from_calls,
    check_from_call,
    column_definitions,
    from_calls,
)
from kpg.compiler.sql.bind.scope import (
    Binding,
    CommonTable,
    Field,
    Fields,
    Scope,
    add_relation,
    relation_alias,
)
from kpg.compiler.sql.bound_tree import Join, Map, Node, Query, Rows, Scan, SharedScan, SortKey
from kpg.compiler.sql.parse.syntax import allow_only, construct_name, relation_name
from kpg.runtime.functions import common_result_type
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Literal, Scalar
from kpg.runtime.types import INTEGER, UNKNOWN, ColumnDef, Type

if TYPE_CHECKING:
    from kpg.compiler.sql.bind import base_tables, row_security
    from kpg.compiler.sql.bind import routines as sql_functions
else:
    base_tables = LazyModule("kpg.compiler.sql.bind.base_tables")
    sql_functions = LazyModule("kpg.compiler.sql.bind.routines")
    row_security = LazyModule("kpg.compiler.sql.bind.row_security")


def bind_from(binding: Binding, scope: Scope, select: exp.Select) -> Node:
    """Bind FROM and its joins; without FROM, return one row."""
    source = select.args.get("from_")
    joins = select.args.get("joins") or []
    if source is None:
        return one_row(binding)
    allow_only(source, binding.source, "this")
    groups: list[tuple[exp.Expr, list[exp.Join]]] = [(source.this, [])]
    for join in joins:
        if _is_comma(join):
            groups.append((join.this, []))
        else:
            groups[-1][1].append(join)
    result: Node | None = None
    for first, rest in groups:
        node = _bind_joins(binding, scope, first, rest)
        result = node if result is None else Join("inner", result, node, ())
    assert result is not None
    return result


def one_row(binding: Binding) -> Rows:
    """Return one row with a column that nothing references."""
    return Rows(((Literal(0, INTEGER),),), (binding.new_id(),), (INTEGER,))


def _is_comma(join: exp.Join) -> bool:
    return not any(value for name, value in join.args.items() if name != "this")


def _bind_joins(binding: Binding, scope: Scope, first: exp.Expr, joins: list[exp.Join]) -> Node:
    start = len(scope.fields)
    node = _bind_item(binding, scope, first)
    for join in [*(first.args.get("joins") or []), *joins]:
        middle = len(scope.fields)
        right = _bind_right_side(binding, scope, join, start)
        node = _bind_join(binding, scope, node, right, join, (start, middle))
    return node


def _bind_right_side(binding: Binding, scope: Scope, join: exp.Join, start: int) -> Node:
    """Bind the right side of a join. In a RIGHT or FULL join it cannot reference the left side."""
    if str(join.args.get("side") or "").upper() not in ("RIGHT", "FULL"):
        return _bind_joins(binding, scope, join.this, [])
    left = scope.fields[start:]
    scope.fields[start:], scope.hidden_fields = [], Fields(left)
    scope.hidden_hint = "only the right side of an inner or left join can reference columns of its left side"
    node = _bind_joins(binding, scope, join.this, [])
    scope.fields[start:start], scope.hidden_fields = left, Fields()
    return node


def _bind_join(
    binding: Binding, scope: Scope, left: Node, right: Node, join: exp.Join, field_range: tuple[int, int]
) -> Node:
    allow_only(join, binding.source, "this", "side", "kind", "on", "using", "method", "using_alias")
    side, kind, method = (str(join.args.get(part) or "").upper() for part in ("side", "kind", "method"))
    if kind not in ("", "INNER", "OUTER", "CROSS") or method not in ("", "NATURAL"):
        binding.refuse(f"{method} {kind} JOIN".strip(), join)
    if kind == "CROSS" and (join.args.get("on") or join.args.get("using")):
        binding.fail("CROSS JOIN takes no condition", join)
    names = _using_names(scope, join, method, field_range)
    if names is not None:
        return _bind_join_using(binding, scope, (left, right), side, names, field_range, join)
    on: tuple[Scalar, ...] = ()
    if join.args.get("on") is not None:
        inner = scope.without_earlier_fields("a join condition", field_range[0])
        on = conjuncts(bind_condition(binding, inner, join.args["on"], "ON"))
    elif kind != "CROSS" and not isinstance(join.this, exp.Lateral):
        binding.fail("JOIN needs a condition", join, "add ON or USING, or write CROSS JOIN")
    _mark_nullable(binding, scope, side, field_range)
    return _join_of_side(binding, side, left, right, on, join)


def _mark_nullable(binding: Binding, scope: Scope, side: str, field_range: tuple[int, int]) -> None:
    """Record the columns on the nullable side of an outer join."""
    sides = (
        (scope.fields[field_range[1] :], ("LEFT", "FULL")),
        (scope.fields[slice(*field_range)], ("RIGHT", "FULL")),
    )
    binding.nullable_ids.update(
        known.column.index for fields, when in sides if side in when for known in fields
    )


def _join_of_side(
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


def _using_names(scope: Scope, join: exp.Join, method: str, field_range: tuple[int, int]) -> list[str] | None:
    if join.args.get("using"):
        return [name.name for name in join.args["using"]]
    if method != "NATURAL":
        return None
    left = {known.name.lower() for known in scope.fields[field_range[0] : field_range[1]] if known.is_visible}
    right = [known.name for known in scope.fields[field_range[1] :] if known.is_visible]
    return [name for name in right if name.lower() in left]


def _bind_join_using(
    binding: Binding,
    scope: Scope,
    sides: tuple[Node, Node],
    side: str,
    names: list[str],
    field_range: tuple[int, int],
    join: exp.Join,
) -> Node:
    start, middle = field_range
    left_fields, right_fields = Fields(scope.fields[start:middle]), Fields(scope.fields[middle:])
    lefts = [_side_field(binding, left_fields, name, join, "left") for name in names]
    rights = [_side_field(binding, right_fields, name, join, "right") for name in names]
    pairs = list(zip(lefts, rights, strict=True))
    binding.record_use((*lefts, *rights))
    on = tuple(call(binding, "eq", [left.column, right.column], join) for left, right in pairs)
    _mark_nullable(binding, scope, side, field_range)
    node = _join_of_side(binding, side, sides[0], sides[1], on, join)
    merged: list[Field] = []
    for left, right in pairs:
        column = right.column if side == "RIGHT" else left.column
        if side == "FULL":
            values = coerce_to_common(binding, [left.column, right.column], [join, join], "USING columns")
            column = Column(binding.new_id(), values[0].type)
            node = Map(node, (column.index,), (call(binding, "coalesce", values, join),))
        merged.append(Field("", left.name, column))
    hidden = {id(known) for pair in pairs for known in pair}
    rest = [
        replace(known, is_visible=False) if id(known) in hidden else known for known in scope.fields[start:]
    ]
    scope.fields[start:] = [*merged, *rest]
    alias = join.args.get("using_alias")
    if alias is not None:
        if alias.name.lower() in scope.relation_names():
            binding.fail(f'"{alias.name}" occurs twice in FROM', alias, "give one of them an alias")
        scope.fields += [replace(one, relation=alias.name, is_visible=False) for one in merged]
    return node


def _side_field(binding: Binding, fields: Fields, name: str, join: exp.Join, side: str) -> Field:
    found = fields.matching(name, "")
    if len(found) != 1:
        problem = "is ambiguous" if found else "does not exist"
        hint = did_you_mean(name, (known.name for known in fields))
        binding.fail(f'column "{name}" of USING {problem} in the {side} relation', join, hint)
    return found[0]


def _bind_item(binding: Binding, scope: Scope, node: exp.Expr) -> Node:
    match node:
        case exp.Table(this=exp.Values() as rows):  # in the parentheses of a join
            rows = rows.copy()
            rows.set("alias", node.args.get("alias"))
            return _bind_item(binding, scope, rows)
        case exp.Table() if not isinstance(node.this, exp.Identifier):
            return bind_table_function(binding, scope, node)
        case exp.Table():
            return _bind_table(binding, scope, node)
        case exp.Subquery() if _is_join_in_parentheses(node.this):
            allow_only(node, binding.source, "this", "alias", "joins")
            if node.args.get("alias") is None:
                return _bind_joins(binding, scope, node.this, [])
            return _bind_aliased_join(binding, scope, node)
        case exp.Subquery() | exp.Values():
            inner = Scope(scope.parent, common_tables=scope.common_tables)
            if node.args.get("joins"):  # joins of the enclosing parentheses, which are bound already
                node = node.copy()
                node.set("joins", None)
            return _add_derived_table(binding, scope, binding.query(inner, node), node)
        case exp.Unnest():
            allow_only(node, binding.source, "expressions", "alias", "offset")
            return _bind_single_call(binding, scope, node, node)
        case exp.Lateral() if not isinstance(node.this, exp.Subquery):
            allow_only(node, binding.source, "this", "alias", "ordinality")
            return _bind_single_call(binding, scope, node, node.this)
        case exp.Lateral(this=exp.Subquery() as query):
            allow_only(node, binding.source, "this", "alias")
            return _add_derived_table(
                binding, scope, binding.query(scope.without_aggregates("LATERAL"), query), node
            )
        case _:
            binding.refuse(f"{construct_name(node)} in FROM", node)


def _is_join_in_parentheses(node: exp.Expr) -> bool:
    """Return whether the content of parentheses in FROM is a join or a relation, not a query."""
    if isinstance(node, exp.Table):
        return True
    return isinstance(node, exp.Subquery) and (
        bool(node.args.get("joins")) or _is_join_in_parentheses(node.this)
    )


def _bind_single_call(binding: Binding, scope: Scope, node: exp.Expr, call_: exp.Expr) -> Node:

    numbered = bool(node.args.get("ordinality")) or restore_ordinality(call_, node)
    return bind_from_functions(binding, scope, node, [call_], with_ordinality=numbered)


def _bind_aliased_join(binding: Binding, scope: Scope, node: exp.Subquery) -> Node:
    """Bind ``(a JOIN b ...) AS name (columns)``. Its relations are not visible outside."""
    inner = Scope(scope.parent, common_tables=scope.common_tables)
    result = _bind_joins(binding, inner, node.this, [])
    name, renamed = relation_alias(binding, node, "")
    fields = inner.star_fields()
    names, columns = tuple(one.name for one in fields), tuple(one.column for one in fields)
    add_relation(binding, scope, name, names, columns, renamed, node)
    return result


def _add_derived_table(binding: Binding, scope: Scope, query: Query, node: exp.Expr) -> Node:
    query = default_query_to_text(query)
    name, renamed = relation_alias(binding, node, "")
    add_relation(binding, scope, name, query.names, query.columns, renamed, node)
    scope.orders[id(query.node)] = query.order
    return query.node


def _bind_system_relation(binding: Binding, scope: Scope, node: exp.Table) -> Node:
    """Bind a system relation or a sequence. Any other name is an error."""
    system = base_tables.bind_system_or_sequence(binding, scope, node)
    if system is not None:
        return system
    every = [known.name for known in binding.catalog]
    message = f'relation "{relation_name(node)}" does not exist'
    binding.fail(message, node.this, did_you_mean(node.name, every))


def _bind_table(binding: Binding, scope: Scope, node: exp.Table) -> Node:
    allow_only(node, binding.source, "this", "alias", "joins", "db", "only", "sample")
    if node.args.get("sample") is not None:
        return base_tables.bind_tablesample(binding, scope, node, _bind_table)
    common = scope.find_common_table(node.name) if node.args.get("db") is None else None
    if common is not None:
        return _bind_common_reference(binding, scope, common, node)
    entry = binding.catalog.find(relation_name(node))
    if entry is None:
        return _bind_system_relation(binding, scope, node)
    name, renamed = relation_alias(binding, node, binding.catalog.unqualified_name(entry.name))
    if binding.catalog.partitioned and not node.args.get("only"):
        query = base_tables.bind_partitions(binding, entry, name)
        if query is not None:
            width = len(entry.schema.columns)
            if binding.reads is not None:
                binding.reads.add_relation(entry, query.columns[:width], locks_rows=binding.is_locked(name))
            add_relation(binding, scope, name, query.names[:width], query.columns[:width], renamed, node)
            more = zip(query.names[width:], query.columns[width:], strict=True)
            scope.fields += (Field(name, shown, column, is_system=True) for shown, column in more)
            return query.node
    scan, columns = _scan_entry(binding, entry)
    result: Node = scan
    if isinstance(entry, ViewEntry) and entry.order:
        scope.orders[id(scan)] = _view_order(entry, scan)
    if binding.catalog.row_security:
        result, columns = row_security.filter_relation(binding, entry, result, columns, name)
    if binding.reads is not None:
        binding.reads.add_relation(entry, columns, locks_rows=binding.is_locked(name))
    add_relation(binding, scope, name, entry.schema.names, columns, renamed, node)
    if not binding.needs_row_location and not binding.features.system_columns:
        return result

    return base_tables.with_system_columns(binding, scope, name, entry, result, scan)


def _scan_entry(binding: Binding, entry: Entry) -> tuple[Scan | SharedScan, tuple[Column, ...]]:
    """Return the rows of a table or view and its visible columns. Plain views are shared."""
    width = len(entry.schema.columns)
    if isinstance(entry, ViewEntry) and not entry.materialized and entry.rel is not None:
        shared = _share_view(binding, entry)
        ids = tuple(binding.new_id() for _ in shared.columns)
        result: Scan | SharedScan = SharedScan(f"view {entry.name}", ids)
        types: tuple[Type, ...] = tuple(column.type for column in shared.columns)
    else:
        get = get_node(entry)
        types = rel_types(get)
        ids = tuple(binding.new_id() for _ in types)
        result = Scan(get, ids)
    return result, tuple(Column(id_, type_) for id_, type_ in zip(ids, types, strict=True))[:width]


def _view_order(entry: ViewEntry, rows: Scan | SharedScan) -> tuple[SortKey, ...]:
    """Return the sort keys of a view's ORDER BY, for a query over it without its own."""
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
        ids = tuple(binding.new_id() for _ in types)
        columns = tuple(Column(id_, type_) for id_, type_ in zip(ids, types, strict=True))
        binding.shared[key] = Query(Scan(entry.rel, ids), columns, entry.schema.names)
    return binding.shared[key]


def _bind_common_reference(binding: Binding, scope: Scope, common: CommonTable, node: exp.Table) -> Node:
    name, renamed = relation_alias(binding, node, common.name)
    if common.shared_key is None:
        query = default_query_to_text(binding.query(common.scope, common.syntax))
        names = (*common.column_names, *query.names[len(common.column_names) :])
        add_relation(binding, scope, name, names, query.columns, renamed, node)
        return query.node
    names, types = binding.shared_columns(common.shared_key)
    ids = tuple(binding.new_id() for _ in types)
    columns = tuple(Column(id_, type_) for id_, type_ in zip(ids, types, strict=True))
    add_relation(binding, scope, name, names, columns[: len(names)], renamed, node)
    result = SharedScan(common.shared_key, ids, common.outer_ids)
    known = binding.shared.get(common.shared_key)
    if known is not None and known.order:
        places = [known.columns.index(key.column) for key in known.order]
        keys = zip(known.order, places, strict=True)
        scope.orders[id(result)] = tuple(replace(key, column=columns[place]) for key, place in keys)
    return result


PARTITION_FUNCTIONS: Final = ("pg_partition_ancestors", "pg_partition_tree")


@dataclass(frozen=True, slots=True)
class FromItem:
    """One or more calls in FROM: rows, name, column names and columns."""

    node: Node
    name: str
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    is_value: bool = True
    """Whether a row with one column is the value of that column."""


def bind_table_function(binding: Binding, scope: Scope, node: exp.Table) -> Node:
    """Bind a function in the place of a table, or ROWS FROM."""
    allow_only(node, binding.source, "this", "alias", "joins", "ordinality", "rows_from", "db")
    check_from_call(binding, node)
    calls = from_calls(node)
    if isinstance(calls[0], exp.Anonymous) and str(calls[0].this).lower() == OPTIONS_FUNCTION:
        return base_tables.bind_options_table(binding, scope, node)
    if isinstance(calls[0], exp.Anonymous) and str(calls[0].this).lower() == KEYWORDS_FUNCTION:
        return base_tables.bind_keywords(binding, scope, node)
    if isinstance(calls[0], exp.Anonymous) and _is_partition_function(calls[0]):
        return base_tables.bind_partition_function(binding, scope, node, calls[0])
    if node.args.get("db") is not None and node.db.lower() != "pg_catalog":
        calls = [exp.Dot(this=node.args["db"].copy(), expression=calls[0].copy())]
    return bind_from_functions(binding, scope, node, calls, with_ordinality=bool(node.args.get("ordinality")))


def _is_partition_function(node: exp.Anonymous) -> bool:
    return str(node.this).lower() in PARTITION_FUNCTIONS and len(node.expressions) == 1


def bind_from_functions(
    binding: Binding, scope: Scope, node: exp.Expr, calls: list[exp.Expr], *, with_ordinality: bool
) -> Node:
    """Bind calls in FROM. Their arguments can refer to the items before them."""

    alias, renamed = relation_alias(binding, node, "")
    declared = column_definitions(node)
    lists = [column_definitions(part) for part in node.args.get("rows_from") or ()]
    if len(calls) == 1:
        item = _bind_call(
            binding,
            scope,
            calls[0],
            alias,
            declared or (lists[0] if lists else []),
            with_ordinality=with_ordinality,
        )
    elif any(lists) or binding.catalog.routines:
        item = _bind_lockstep(binding, scope, calls, alias, lists, with_ordinality=with_ordinality)
    else:
        item = _bind_built_in_calls(binding, scope, calls, alias, declared, with_ordinality=with_ordinality)
    if len(item.columns) == 1 and item.name and item.is_value:
        scope.scalar_columns[item.name.lower()] = item.columns[0]
    add_relation(binding, scope, item.name, item.names, item.columns, renamed, node)
    return item.node


def restore_ordinality(call_: exp.Expr, item: exp.Expr) -> bool:
    """Return whether ``unnest`` in FROM has WITH ORDINALITY, and restore its column alias."""
    if not isinstance(call_, exp.Unnest):
        return False
    offset = call_.args.get("offset")
    if isinstance(offset, exp.Identifier):  # sqlglot removes the name of the number from the column aliases
        item.args["alias"].append("columns", offset)
        call_.set("offset", True)
    return bool(offset)


def _bind_call(
    binding: Binding,
    scope: Scope,
    node: exp.Expr,
    alias: str,
    definitions: list[exp.Expr],
    *,
    with_ordinality: bool,
) -> FromItem:
    if binding.catalog.routines:
        types = {one.name: resolve_type(binding, one.args["kind"]) for one in definitions}
        found = sql_functions.bind_routine_rows(
            binding, scope, node, alias, with_ordinality=with_ordinality, column_types=types
        )
        if found is not None:
            names = (*types, *found.names[len(types) :])
            return FromItem(found.node, found.name, names, found.columns, is_value=False)
    return _bind_built_in_calls(binding, scope, [node], alias, definitions, with_ordinality=with_ordinality)


def _bind_built_in_calls(
    binding: Binding,
    scope: Scope,
    calls: list[exp.Expr],
    alias: str,
    definitions: list[exp.Expr],
    *,
    with_ordinality: bool,
) -> FromItem:

    source = one_row(binding)
    made = bind_from_calls(
        binding,
        scope,
        calls,
        with_ordinality=with_ordinality,
        source=source,
        alias=alias,
        definitions=definitions,
    )
    return FromItem(*made)


def _bind_lockstep(
    binding: Binding,
    scope: Scope,
    calls: list[exp.Expr],
    alias: str,
    lists: list[list[exp.Expr]],
    *,
    with_ordinality: bool,
) -> FromItem:
    """Bind calls in lockstep: number the rows of each, and join the calls by these numbers."""
    items = [
        _bind_call(binding, scope, node, "", declared, with_ordinality=True)
        for node, declared in zip(calls, lists or [[] for _ in calls], strict=True)
    ]
    result, number = items[0].node, items[0].columns[-1]
    for place, item in enumerate(items[1:], 1):
        other = item.columns[-1]
        result = Join("full", result, item.node, (call(binding, "eq", [number, other], calls[place]),))
        either = call(binding, "coalesce", [number, other], calls[place])
        number = Column(binding.new_id(), either.type)
        result = Map(result, (number.index,), (either,))
    names = [name for item in items for name in item.names[:-1]]
    columns = [column for item in items for column in item.columns[:-1]]
    if with_ordinality:
        names.append(ORDINALITY)
        columns.append(number)
    scope.orders[id(result)] = (SortKey(number, descending=False, nulls_first=False),)
    return FromItem(result, alias or items[0].name, tuple(names), tuple(columns))


Cells = list[list[Scalar]]
PARAMETER_ROWS: Final = "rows"
"""Metadata key of the parameter rows that replace a long VALUES list in a cached plan."""


def bind_values(binding: Binding, around: Scope, node: exp.Values) -> Query:
    """Bind VALUES. Each column has the common type of its cells."""
    known = node.meta.get(PARAMETER_ROWS)
    if known is not None:
        return _values_query(binding, [list(row) for row in zip(*known.columns, strict=True)])
    syntax = _row_syntax(binding, node)
    rows = _bind_cells(binding, around, syntax)
    for (first, second), row in zip(pairwise(rows), syntax[1:], strict=True):
        if len(first) != len(second):
            message = f"a row of {len(second)} values in VALUES with rows of {len(first)}"
            binding.fail(message, row[0])
    for index in range(len(rows[0])):
        _unify_column(binding, rows, syntax, index, node)
    return _values_query(binding, rows)


def bind_insert_values(binding: Binding, node: exp.Values, columns: Sequence[ColumnDef]) -> Query:
    """Bind VALUES of an INSERT. Each cell is coerced to its column on its own."""
    syntax = _row_syntax(binding, node)
    rows = _bind_cells(binding, Scope(), syntax)
    for row, parts in zip(rows, syntax, strict=True):
        if len(row) != len(columns):
            binding.fail(f"INSERT has {len(row)} values for {len(columns)} columns", parts[0])
        row[:] = [
            coerce_for_assignment(binding, cell, column, part)
            for cell, column, part in zip(row, columns, parts, strict=True)
        ]
    return _values_query(binding, rows)


def _row_syntax(binding: Binding, node: exp.Values) -> list[list[exp.Expr]]:
    for row in node.expressions:
        if not isinstance(row, exp.Tuple) or not row.expressions:
            binding.fail("a row of VALUES needs one or more values in parentheses", row)
    return [row.expressions for row in node.expressions]


def _bind_cells(binding: Binding, around: Scope, syntax: list[list[exp.Expr]]) -> Cells:
    scope = around.without_aggregates("VALUES")
    return [[binding.expression(scope, part) for part in row] for row in syntax]


def _unify_column(
    binding: Binding, rows: Cells, syntax: list[list[exp.Expr]], index: int, node: exp.Expr
) -> None:
    """Coerce a column to the common type of its cells. Strings and NULLs alone stay UNKNOWN."""
    kinds = {loose_type(row[index]): None for row in rows}
    if set(kinds) == {UNKNOWN}:
        return
    target = common_result_type(tuple(kinds))
    if target is None:
        binding.fail(f"column {index + 1} of VALUES has no common type", node, "add a CAST")
    for row, parts in zip(rows, syntax, strict=True):
        row[index] = coerce_at(binding, row[index], default_fields_to_text(target), parts[index])


def _values_query(binding: Binding, rows: Cells) -> Query:
    types = tuple(scalar.type for scalar in rows[0])
    names = tuple(f"column{index + 1}" for index in range(len(types)))
    constant = [tuple(cell for cell in row if isinstance(cell, Literal)) for row in rows]
    if any(len(row) < len(types) for row in constant):
        return _union_of_rows(binding, rows, names)
    ids = tuple(binding.new_id() for _ in types)
    columns = tuple(Column(id_, type_) for id_, type_ in zip(ids, types, strict=True))
    return Query(Rows(tuple(constant), ids, types), columns, names)


def _union_of_rows(binding: Binding, rows: Cells, names: tuple[str, ...]) -> Query:
    """Return non-constant rows as a union of one-row queries, in the order of their positions."""
    if len(rows) == 1:
        return _single_row_query(binding, rows[0], names)
    numbered = (*names, "number")
    queries = [
        _single_row_query(binding, [*row, Literal(place, INTEGER)], numbered)
        for place, row in enumerate(rows)
    ]
    result = union_queries(binding, queries)
    *shown, number = result.columns
    return Query(result.node, tuple(shown), names, (SortKey(number, descending=False, nulls_first=False),))


def _single_row_query(binding: Binding, row: list[Scalar], names: tuple[str, ...]) -> Query:
    ids = tuple(binding.new_id() for _ in row)
    node = Map(one_row(binding), ids, tuple(row))
    return Query(node, tuple(Column(id_, scalar.type) for id_, scalar in zip(ids, row, strict=True)), names)
