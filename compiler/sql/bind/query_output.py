"""Output of a bound query: column types, row order, and LIMIT.

Output columns are coerced to the types that the context requires. LIMIT, OFFSET and FETCH take the first
rows; WITH TIES adds rows equal to the last one. An order-sensitive aggregate without its own ORDER BY uses
the order of the subquery in FROM.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from typing import assert_never

from sqlglot import exp

from kpg.compiler.algebra.rel import Get
from kpg.compiler.sql.bind.calls import (
    call,
    check_comparable,
    check_length,
    coerce,
    coerce_at,
    default_to_text,
    name_stored_column,
    without_length_limit,
)
from kpg.compiler.sql.bind.literals import convert
from kpg.compiler.sql.bind.scope import Binding, Scope
from kpg.compiler.sql.bound_tree import (
    Distinct,
    Expand,
    Filter,
    Group,
    GroupingSets,
    Join,
    Map,
    Node,
    Query,
    Rows,
    Scan,
    SetOperation,
    SharedScan,
    SortKey,
    TopK,
    Window,
    output_ids,
)
from kpg.compiler.sql.parse.syntax import allow_only
from kpg.runtime.plan.nodes import WindowCall
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, INTEGER, ROWID, TEXT, UNKNOWN, ColumnDef, Kind, Type


def set_operation(binding: Binding, kind: str, keeps_duplicates: bool, left: Query, right: Query) -> Query:
    """Return a set operation of two queries with equal column types, named like the first."""
    columns = tuple(Column(binding.new_id(), column.type) for column in left.columns)
    ids = tuple(column.index for column in columns)
    return Query(SetOperation(kind, keeps_duplicates, left, right, ids), columns, left.names)


def union_queries(binding: Binding, queries: Sequence[Query], distinct: bool = False) -> Query:
    """Return the union of queries with equal column types, as a balanced tree."""
    if len(queries) == 1:
        return queries[0]
    middle = len(queries) // 2
    left, right = union_queries(binding, queries[:middle]), union_queries(binding, queries[middle:])
    return set_operation(binding, "union", not distinct, left, right)


def default_query_to_text(query: Query) -> Query:
    """Give columns of type UNKNOWN the type TEXT."""
    for column in query.columns:
        if column.type == UNKNOWN:
            query = _retype_unknown(query, column.index, TEXT, None, None)
    return query


def coerce_query_for_assignment(
    binding: Binding, query: Query, columns: Sequence[ColumnDef], node: exp.Expr
) -> Query:
    """Coerce a query to the columns of a table. Cast errors name the table's column."""
    types = tuple(
        without_length_limit(target.type, column.type)
        for column, target in zip(query.columns, columns, strict=True)
    )
    query = coerce_query(binding, query, types, node)
    source = query.node
    if isinstance(source, Map):
        targets = {column.index: target for column, target in zip(query.columns, columns, strict=True)}
        named = tuple(
            name_stored_column(scalar, targets[id_]) if id_ in targets else scalar
            for id_, scalar in zip(source.ids, source.scalars, strict=True)
        )
        query = replace(query, node=replace(source, scalars=named))
    checks = [
        check_length(column, target.type) for column, target in zip(query.columns, columns, strict=True)
    ]
    return _map_columns(
        binding, query, [(index, one) for index, one in enumerate(checks) if isinstance(one, Call)]
    )


def _map_columns(binding: Binding, query: Query, scalars: Sequence[tuple[int, Scalar]]) -> Query:
    """Return the query with some columns, by position, replaced by scalars."""
    if not scalars:
        return query
    ids = tuple(binding.new_id() for _ in scalars)
    columns = list(query.columns)
    for id_, (index, scalar) in zip(ids, scalars, strict=True):
        columns[index] = Column(id_, scalar.type)
    mapped = Map(query.node, ids, tuple(scalar for _, scalar in scalars))
    return replace(query, node=mapped, columns=tuple(columns))


def coerce_query(binding: Binding, query: Query, types: tuple[Type, ...], node: exp.Expr) -> Query:
    """Coerce the query's columns to the types, by retyping constants and casting the rest."""
    for column, type_ in zip(query.columns, types, strict=True):
        if column.type == type_:
            continue
        constants = _convert_constants(query, column.index, type_) if isinstance(query.node, Rows) else None
        if constants is not None:
            query = constants
        elif column.type == UNKNOWN:
            query = _retype_unknown(query, column.index, type_, binding, node)
    needed = [
        (index, coerce_at(binding, column, type_, node))
        for index, (column, type_) in enumerate(zip(query.columns, types, strict=True))
        if column.type != type_
    ]
    return _map_columns(binding, query, needed)


def _convert_constants(query: Query, id_: int, type_: Type) -> Query | None:
    """Return constant rows with a column of another type; None if a value has no exact conversion."""
    rows = query.node
    assert isinstance(rows, Rows)
    place = rows.ids.index(id_)
    if any(convert(row[place], type_) is None for row in rows.rows):
        return None
    changed = _retype_rows(rows, place, lambda literal: coerce(literal, type_))
    columns = tuple(Column(id_, type_) if column.index == id_ else column for column in query.columns)
    return replace(query, node=changed, columns=columns)


def _retype_unknown(
    query: Query, id_: int, type_: Type, binding: Binding | None, node: exp.Expr | None
) -> Query:
    """Return the query with an UNKNOWN column of another type."""

    def retype(scalar: Scalar) -> Scalar:
        if binding is None or node is None:
            return default_to_text(scalar)
        return coerce_at(binding, scalar, type_, node)

    def visit(here: Node, target: int) -> Node:
        match here:
            case Map(input=source, ids=ids, scalars=scalars) if target in ids:
                changed = tuple(retype(s) if i == target else s for i, s in zip(ids, scalars, strict=True))
                return Map(source, ids, changed)
            case Rows(ids=ids):
                return _retype_rows(here, ids.index(target), retype)
            case SetOperation(left=left, right=right, ids=ids):
                place = ids.index(target)
                return replace(
                    here,
                    left=_retype_unknown(left, left.columns[place].index, type_, binding, node),
                    right=_retype_unknown(right, right.columns[place].index, type_, binding, node),
                )
            case Filter() | Map() | Window():
                return replace(here, input=visit(here.input, target))
            case Distinct(input=source, columns=columns):
                return Distinct(
                    visit(source, target), tuple(retype_column(column, target) for column in columns)
                )
            case TopK(input=source, group=group, order=order):
                keys = tuple(replace(key, column=retype_column(key.column, target)) for key in order)
                columns = tuple(retype_column(column, target) for column in group)
                return replace(here, input=visit(source, target), group=columns, order=keys)
            case Scan() | SharedScan() | Join() | Group() | GroupingSets() | Expand():
                raise AssertionError("only constants have no type")
            case _:
                assert_never(here)

    def retype_column(column: Column, target: int) -> Column:
        return Column(target, type_) if column.index == target else column

    columns = tuple(retype_column(column, id_) for column in query.columns)
    order = tuple(
        SortKey(retype_column(key.column, id_), key.descending, key.nulls_first) for key in query.order
    )
    return replace(query, node=visit(query.node, id_), columns=columns, order=order)


def _retype_rows(rows: Rows, position: int, constant: Callable[[Scalar], Scalar]) -> Rows:
    changed = []
    known: dict[Literal, Scalar] = {}
    for row in rows.rows:
        value = known.get(row[position])
        if value is None:
            value = known[row[position]] = constant(row[position])
        assert isinstance(value, Literal)
        changed.append((*row[:position], value, *row[position + 1 :]))
    types = (*rows.types[:position], changed[0][position].type, *rows.types[position + 1 :])
    return Rows(tuple(changed), rows.ids, types)


Orders = Mapping[int, tuple[SortKey, ...]]
"""ORDER BY of the subqueries in FROM, by the identity of their nodes."""


def inherited_order(node: Node, orders: Mapping[int, tuple[SortKey, ...]]) -> tuple[SortKey, ...]:
    """Return the row order of a FROM that is one subquery, for a query without its own ORDER BY."""
    own = orders.get(id(node), ())
    if own:
        return own
    match node:
        case Filter(input=source) | Map(input=source):
            return inherited_order(source, orders)
        case TopK(group=(), order=order):
            return order
        case Scan() | SharedScan() | Rows() | Join() | Group() | GroupingSets() | Distinct() | SetOperation():
            return ()
        case TopK() | Expand() | Window():
            return ()
        case _:
            assert_never(node)


def with_row_order(binding: Binding, source: Node, orders: Orders) -> tuple[Node, tuple[SortKey, ...]]:
    """Return the source and the keys of its row order, as far as its columns determine it.

    Subqueries use their ORDER BY and tables use rowids. Constant rows and set-returning functions get a
    number. A join has the order of its left side, then of its right side.
    """
    made = output_ids(source)
    own = tuple(key for key in orders.get(id(source), ()) if key.column.index in made)
    source, keys = _with_own_order(binding, source, orders)
    return source, own + tuple(key for key in keys if key not in own)


def _with_own_order(binding: Binding, source: Node, orders: Orders) -> tuple[Node, tuple[SortKey, ...]]:
    match source:
        case Scan(rel=Get(is_table=True), ids=ids):
            return source, (ascending_key(Column(ids[-1], ROWID)),)
        case Rows(rows=()) | Rows(rows=(_,)):
            return source, ()
        case Rows(rows=rows, ids=ids, types=types):
            number = Column(binding.new_id(), INTEGER)
            counted = tuple((*row, Literal(place, INTEGER)) for place, row in enumerate(rows))
            return Rows(counted, (*ids, number.index), (*types, INTEGER)), (ascending_key(number),)
        case Expand(input=below, ids=ids, ordinality=True):
            inner, keys = with_row_order(binding, below, orders)
            return replace(source, input=inner), (*keys, ascending_key(Column(ids[-1], BIGINT)))
        case Expand(input=below, ids=ids):
            inner, keys = with_row_order(binding, below, orders)
            number = Column(binding.new_id(), BIGINT)
            counting = replace(source, input=inner, ids=(*ids, number.index), ordinality=True)
            return counting, (*keys, ascending_key(number))
        case Filter() | Map():
            inner, keys = with_row_order(binding, source.input, orders)
            return replace(source, input=inner), keys
        case Window(partition=partition, order=order):
            inner, keys = with_row_order(binding, source.input, orders)
            return replace(source, input=inner), (*map(ascending_key, partition), *order, *keys)
        case TopK(input=below, group=group, order=order):
            inner, keys = with_row_order(binding, below, orders)
            return replace(source, input=inner), (*map(ascending_key, group), *order, *keys)
        case Join(left=left, right=right):
            left, first = with_row_order(binding, left, orders)
            right, second = with_row_order(binding, right, orders)
            return replace(source, left=left, right=right), (*first, *second)
        case SetOperation(kind="union", all=True):
            return _with_union_order(binding, source, orders)
        case Group() | GroupingSets() | Distinct() | SetOperation() | SharedScan() | Scan():
            return source, ()
        case _:
            assert_never(source)


def _with_union_order(
    binding: Binding, union: SetOperation, orders: Orders
) -> tuple[Node, tuple[SortKey, ...]]:
    """Order the rows of the first query before those of the second."""
    sides = union.left, union.right
    found = [with_row_order(binding, side.node, {**orders, id(side.node): side.order}) for side in sides]
    first, second = (order for _, order in found)
    alike = [
        # Rowids of different tables are not comparable.
        one.column.type.kind is not ROWID.kind and _sort_signature(one) == _sort_signature(other)
        for one, other in zip(first, second, strict=False)
    ]
    shared = (*alike, False).index(False)
    keys = (*first, *second[shared:])
    nothing = repeat(None, len(first) - shared), repeat(None, len(second) - shared)
    own = (*first, *nothing[1]), (*second[:shared], *nothing[0], *second[shared:])
    added: list[Query] = []
    for which, (side, (node, _)) in enumerate(zip(sides, found, strict=True)):
        values = [
            Literal(None, key.column.type) if one is None else one.column
            for one, key in zip(own[which], keys, strict=True)
        ]
        scalars = (Literal(which, INTEGER), *values)
        made = tuple(Column(binding.new_id(), scalar.type) for scalar in scalars)
        mapped = Map(node, tuple(column.index for column in made), scalars)
        added.append(replace(side, node=mapped, columns=(*side.columns, *made)))
    columns = (Column(binding.new_id(), INTEGER), *(Column(binding.new_id(), k.column.type) for k in keys))
    ids = (*union.ids, *(column.index for column in columns))
    number, *rest = columns
    order = (ascending_key(number), *(replace(key, column=c) for key, c in zip(keys, rest, strict=True)))
    return replace(union, left=added[0], right=added[1], ids=ids), order


def _sort_signature(key: SortKey) -> tuple[Type, bool, bool]:
    """Return what must be equal for two sort keys to share one column."""
    return key.column.type, key.descending, key.nulls_first


def ascending_key(column: Column) -> SortKey:
    """Return a sort key in ascending order, NULLs last."""
    return SortKey(column, False, False)


def apply_limit(
    binding: Binding, around: Scope, query: Query, order: tuple[SortKey, ...], node: exp.Expr
) -> Query:
    """Return the query in its order, with LIMIT and OFFSET applied."""
    clause = node.args.get("limit")
    counts = [count for name in ("limit", "offset") if (count := node.args.get(name)) is not None]
    if any(_names_column(count) or (binding.is_view and _has_subquery(count)) for count in counts):
        return replace(query, node=_limit_by_row_number(binding, around, query, order, node), order=order)
    limit = _constant_row_count(binding, clause, "LIMIT")
    offset = _constant_row_count(binding, node.args.get("offset"), "OFFSET") or 0
    if clause is not None and _has_ties(binding, clause):
        if not order:
            binding.fail("WITH TIES needs an ORDER BY", clause)
        if limit is not None:
            return replace(query, node=_limit_with_ties(binding, query, order, limit, offset), order=order)
    if limit is None and not offset:
        return replace(query, order=order)
    return replace(query, node=TopK(query.node, (), order, limit, offset), order=order)


def _has_subquery(clause: exp.Expr) -> bool:
    """Return whether the count of a clause has a subquery."""
    return clause.find(exp.Query) is not None


def _names_column(clause: exp.Expr) -> bool:
    """Whether a clause names a column outside of a query of its own."""
    value = clause.args.get("count") if isinstance(clause, exp.Fetch) else clause.expression
    if value is None or (isinstance(value, exp.Column) and value.name.upper() == "ALL"):
        return False
    parts = value.walk(prune=lambda part: isinstance(part, exp.Query))
    return any(isinstance(part, exp.Column) for part in parts)


def _limit_by_row_number(
    binding: Binding, around: Scope, query: Query, order: tuple[SortKey, ...], node: exp.Expr
) -> Filter:
    """Filter by row numbers, with subqueries as bounds. A view maintains the filter."""
    limit, offset = (
        _bind_row_count(binding, around, node.args.get(name), name.upper()) for name in ("limit", "offset")
    )
    clause = node.args.get("limit")
    has_ties = clause is not None and _has_ties(binding, clause)
    if has_ties and not order:
        binding.fail("WITH TIES needs an ORDER BY", node)
    number, rank = Column(binding.new_id(), BIGINT), Column(binding.new_id(), BIGINT)
    calls = (WindowCall("row_number", (), BIGINT), WindowCall("rank", (), BIGINT))[: 1 + has_ties]
    made = (number.index, rank.index)[: 1 + has_ties]
    window = Window(query.node, (), order, (), made, calls)
    skipped = call(binding, "coalesce", [offset, Literal(0, BIGINT)], node)
    last = call(binding, "add", [skipped, limit], node)
    place = rank if has_ties else number
    within = call(binding, "coalesce", [call(binding, "le", [place, last], node), Literal(1, BOOLEAN)], node)
    return Filter(window, (call(binding, "gt", [number, skipped], node), within))


def _bind_row_count(binding: Binding, around: Scope, clause: exp.Expr | None, name: str) -> Scalar:
    if clause is None:
        return Literal(None, BIGINT)
    value = clause.args.get("count") if isinstance(clause, exp.Fetch) else clause.expression
    if value is None:
        return Literal(1, BIGINT)
    if isinstance(value, exp.Var | exp.Column) and value.name.upper() == "ALL":
        return Literal(None, BIGINT)
    count = default_to_text(binding.expression(Scope(parent=around, clause=name), value))
    if not count.type.is_numeric:
        shown = "text" if count.type.is_text else str(count.type).lower()
        binding.fail(f"argument of {name} must be type bigint, not type {shown}", clause)
    return Call(f"${name.lower()}", (coerce(count, BIGINT),), BIGINT)


def _has_ties(binding: Binding, clause: exp.Expr) -> bool:
    options = clause.args.get("limit_options")
    if options is not None and options.args.get("percent"):
        binding.refuse("FETCH with PERCENT", clause)
    return options is not None and bool(options.args.get("with_ties"))


def _limit_with_ties(
    binding: Binding, query: Query, order: tuple[SortKey, ...], limit: int, offset: int
) -> Filter:
    """Return the rows of rank at most ``offset + limit``, without the first ``offset`` rows."""
    rank, number = Column(binding.new_id(), BIGINT), Column(binding.new_id(), BIGINT)
    calls = (WindowCall("rank", (), BIGINT), WindowCall("row_number", (), BIGINT))
    window = Window(query.node, (), order, (), (rank.index, number.index), calls)
    within = Call("le", (rank, Literal(offset + limit, BIGINT)), BOOLEAN)
    beyond = Call("gt", (number, Literal(offset, BIGINT)), BOOLEAN)
    return Filter(window, (within, beyond) if limit else (Literal(0, BOOLEAN),))


def _constant_row_count(binding: Binding, clause: exp.Expr | None, name: str) -> int | None:
    """Return the constant of a LIMIT or OFFSET clause; None for all rows."""
    if clause is None:
        return None
    if isinstance(clause, exp.Fetch):
        allow_only(clause, binding.source, "direction", "count", "limit_options")
        value = clause.args.get("count") or exp.Literal.number(1)
    else:
        allow_only(clause, binding.source, "expression")
        value = clause.expression
    if isinstance(value, exp.Var | exp.Column) and value.name.upper() == "ALL":
        return None
    constant = _fold_arithmetic(binding.expression(Scope(clause=name), value))
    if not isinstance(constant, Literal):
        binding.refuse(f"{name} with anything but a constant", clause)
    if constant.value is None:
        return None
    count = _round_to_int(constant)
    if count is None:
        given = f"'{constant.value}'" if isinstance(constant.value, str) else constant.type
        binding.fail(f"{name} needs a whole number, not {given}", clause)
    if count < 0:
        binding.fail(f"{name} must not be negative", clause)
    return count


def _round_to_int(constant: Literal) -> int | None:
    """Return a constant of an exact type rounded to an integer; None for any other type."""
    if isinstance(constant.value, str):
        return int(constant.value) if constant.value.strip().lstrip("+-").isdecimal() else None
    if constant.type.is_exact and constant.value is not None:
        unit: int = 10**constant.type.scale if constant.type.kind is Kind.DECIMAL else 1
        return (constant.value + unit // 2) // unit
    return None


def _fold_arithmetic(scalar: Scalar) -> Scalar:
    """Fold sums, differences and products of integer constants."""
    if not isinstance(scalar, Call) or scalar.function not in ("add", "sub", "mul", "cast", "neg"):
        return scalar
    parts = [_fold_arithmetic(arg) for arg in scalar.args]
    if any(isinstance(part, Literal) and part.value is None for part in parts):
        return Literal(None, scalar.type)
    values = [part.value for part in parts if isinstance(part, Literal) and isinstance(part.value, int)]
    if len(values) < len(parts) or not all(part.type.is_integer for part in (*parts, scalar)):
        return scalar
    first, *rest = values
    match scalar.function:
        case "add":
            first += rest[0]
        case "sub":
            first -= rest[0]
        case "mul":
            first *= rest[0]
        case "neg":
            first = -first
    return Literal(first, scalar.type)


def bind_sort_key(binding: Binding, node: exp.Expr, column: Column) -> SortKey:
    """Return the sort key of an ORDER BY item. By default NULLs are largest."""
    allow_only(node, binding.source, "this", "desc", "nulls_first")
    check_comparable(binding, column.type, "ordering", node)
    descending = bool(node.args.get("desc"))
    return SortKey(column, descending, bool(node.args.get("nulls_first")))
