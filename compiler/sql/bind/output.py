"""The output columns of bound queries: types settled, brought to what a context asks for."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import assert_never

from sqlglot import exp

from kpg.compiler.sql.bind.calls import brought, coerce, settled, stored, unlimited
from kpg.compiler.sql.bind.literals import convert
from kpg.compiler.sql.bind.scope import Binding
from kpg.compiler.sql.tree import (
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
    Shared,
    SortKey,
    TopK,
    Window,
)
from kpg.runtime.scalar import Column, Literal, Scalar
from kpg.runtime.types import TEXT, UNKNOWN, ColumnDef, Type


def combined(binding: Binding, kind: str, every: bool, left: Query, right: Query) -> Query:
    """A set operation of two queries with columns of the same types, under the names of the first."""
    columns = tuple(Column(binding.fresh(), column.type) for column in left.columns)
    ids = tuple(column.index for column in columns)
    return Query(SetOperation(kind, every, left, right, ids), columns, left.names)


def united(binding: Binding, queries: Sequence[Query], distinct: bool = False) -> Query:
    """The union of queries with columns of the same types, which nests as deep as their number has digits."""
    if len(queries) == 1:
        return queries[0]
    middle = len(queries) // 2
    left, right = united(binding, queries[:middle]), united(binding, queries[middle:])
    return combined(binding, "union", not distinct, left, right)


def settled_query(query: Query) -> Query:
    """The query with columns of strings and NULLs that no context gave a type typed as text."""
    for column in query.columns:
        if column.type == UNKNOWN:
            query = _retyped(query, column.index, TEXT, None, None)
    return query


def stored_query(binding: Binding, query: Query, columns: Sequence[ColumnDef], node: exp.Expr) -> Query:
    """The query with its columns of the types of a table's columns, which errors of casting name."""
    query = brought_query(binding, query, tuple(unlimited(column.type) for column in columns), node)
    source = query.node
    if not isinstance(source, Map):
        return query
    targets = {column.index: target for column, target in zip(query.columns, columns, strict=True)}
    named = tuple(
        stored(scalar, targets[id_]) if id_ in targets else scalar
        for id_, scalar in zip(source.ids, source.scalars, strict=True)
    )
    return replace(query, node=replace(source, scalars=named))


def brought_query(binding: Binding, query: Query, types: tuple[Type, ...], node: exp.Expr) -> Query:
    """The query with its columns of the given types, by retyping constants and casting the rest."""
    for column, type_ in zip(query.columns, types, strict=True):
        if column.type == type_:
            continue
        constants = _converted(query, column.index, type_) if isinstance(query.node, Rows) else None
        if constants is not None:
            query = constants
        elif column.type == UNKNOWN:
            query = _retyped(query, column.index, type_, binding, node)
    needed = [
        (index, brought(binding, column, type_, node))
        for index, (column, type_) in enumerate(zip(query.columns, types, strict=True))
        if column.type != type_
    ]
    if not needed:
        return query
    ids = tuple(binding.fresh() for _ in needed)
    columns = list(query.columns)
    for id_, (index, scalar) in zip(ids, needed, strict=True):
        columns[index] = Column(id_, scalar.type)
    mapped = Map(query.node, ids, tuple(scalar for _, scalar in needed))
    return replace(query, node=mapped, columns=tuple(columns))


def _converted(query: Query, id_: int, type_: Type) -> Query | None:
    """Literal rows with a column's constants in another type, if each has an exact value of that."""
    rows = query.node
    assert isinstance(rows, Rows)
    place = rows.ids.index(id_)
    if any(convert(row[place], type_) is None for row in rows.rows):
        return None
    changed = _retype_rows(rows, place, lambda literal: coerce(literal, type_))
    columns = tuple(Column(id_, type_) if column.index == id_ else column for column in query.columns)
    return replace(query, node=changed, columns=columns)


def _retyped(query: Query, id_: int, type_: Type, binding: Binding | None, node: exp.Expr | None) -> Query:
    def constant(scalar: Scalar) -> Scalar:
        if binding is None or node is None:
            return settled(scalar)
        return brought(binding, scalar, type_, node)

    def visit(here: Node, target: int) -> Node:
        match here:
            case Map(input=source, ids=ids, scalars=scalars) if target in ids:
                changed = tuple(constant(s) if i == target else s for i, s in zip(ids, scalars, strict=True))
                return Map(source, ids, changed)
            case Rows(ids=ids):
                return _retype_rows(here, ids.index(target), constant)
            case SetOperation(left=left, right=right, ids=ids):
                place = ids.index(target)
                return replace(
                    here,
                    left=_retyped(left, left.columns[place].index, type_, binding, node),
                    right=_retyped(right, right.columns[place].index, type_, binding, node),
                )
            case Filter() | Map() | Window():
                return replace(here, input=visit(here.input, target))
            case Distinct(input=source, columns=columns):
                return Distinct(visit(source, target), tuple(fixed(column, target) for column in columns))
            case TopK(input=source, group=group, order=order):
                keys = tuple(replace(key, column=fixed(key.column, target)) for key in order)
                columns = tuple(fixed(column, target) for column in group)
                return replace(here, input=visit(source, target), group=columns, order=keys)
            case Scan() | Shared() | Join() | Group() | GroupingSets() | Expand():
                raise AssertionError("only constants have no type")
            case _:
                assert_never(here)

    def fixed(column: Column, target: int) -> Column:
        return Column(target, type_) if column.index == target else column

    columns = tuple(fixed(column, id_) for column in query.columns)
    order = tuple(SortKey(fixed(key.column, id_), key.descending, key.nulls_first) for key in query.order)
    return replace(query, node=visit(query.node, id_), columns=columns, order=order)


def _retype_rows(rows: Rows, place: int, constant: Callable[[Scalar], Scalar]) -> Rows:
    changed = []
    known: dict[Literal, Scalar] = {}
    for row in rows.rows:
        value = known.get(row[place])
        if value is None:
            value = known[row[place]] = constant(row[place])
        assert isinstance(value, Literal)
        changed.append((*row[:place], value, *row[place + 1 :]))
    types = (*rows.types[:place], changed[0][place].type, *rows.types[place + 1 :])
    return Rows(tuple(changed), rows.ids, types)
