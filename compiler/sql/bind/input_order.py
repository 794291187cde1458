"""The order in which the rows of a FROM come, for aggregates that mind the order and are told no other."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import repeat
from typing import assert_never

from kpg.compiler.algebra.rel import Get
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
    produced,
)
from kpg.runtime.scalar import Column, Literal
from kpg.runtime.types import BIGINT, INTEGER, ROWID, Type

Orders = Mapping[int, tuple[SortKey, ...]]
"""The ORDER BY of subqueries in FROM by the identity of their nodes."""


def order_within(node: Node, orders: Mapping[int, tuple[SortKey, ...]]) -> tuple[SortKey, ...]:
    """The ORDER BY of the one subquery that a FROM is, for a query around it that has none."""
    own = orders.get(id(node), ())
    if own:
        return own
    match node:
        case Filter(input=source) | Map(input=source):
            return order_within(source, orders)
        case TopK(group=(), order=order):
            return order
        case Scan() | Shared() | Rows() | Join() | Group() | GroupingSets() | Distinct() | SetOperation():
            return ()
        case TopK() | Expand() | Window():
            return ()
        case _:
            assert_never(node)


def numbered(binding: Binding, source: Node, orders: Orders) -> tuple[Node, tuple[SortKey, ...]]:
    """The source, and the order in which its rows came, as far as columns of it tell.

    Subqueries tell by their ORDER BY, tables by rowids; literal rows, and those that functions make, get a
    number. A join comes in the order of its left side.
    """
    made = produced(source)
    own = tuple(key for key in orders.get(id(source), ()) if key.column.index in made)
    source, keys = _numbered(binding, source, orders)
    return source, own + tuple(key for key in keys if key not in own)


def _numbered(binding: Binding, source: Node, orders: Orders) -> tuple[Node, tuple[SortKey, ...]]:
    match source:
        case Scan(rel=Get(is_table=True), ids=ids):
            return source, (ascending(Column(ids[-1], ROWID)),)
        case Rows(rows=()) | Rows(rows=(_,)):
            return source, ()
        case Rows(rows=rows, ids=ids, types=types):
            number = Column(binding.fresh(), INTEGER)
            counted = tuple((*row, Literal(place, INTEGER)) for place, row in enumerate(rows))
            return Rows(counted, (*ids, number.index), (*types, INTEGER)), (ascending(number),)
        case Expand(input=below, ids=ids, ordinality=True):
            inner, keys = numbered(binding, below, orders)
            return replace(source, input=inner), (*keys, ascending(Column(ids[-1], BIGINT)))
        case Expand(input=below, ids=ids):
            inner, keys = numbered(binding, below, orders)
            number = Column(binding.fresh(), BIGINT)
            counting = replace(source, input=inner, ids=(*ids, number.index), ordinality=True)
            return counting, (*keys, ascending(number))
        case Filter() | Map():
            inner, keys = numbered(binding, source.input, orders)
            return replace(source, input=inner), keys
        case Window(partition=partition, order=order):
            inner, keys = numbered(binding, source.input, orders)
            return replace(source, input=inner), (*map(ascending, partition), *order, *keys)
        case TopK(input=below, group=group, order=order):
            inner, keys = numbered(binding, below, orders)
            return replace(source, input=inner), (*map(ascending, group), *order, *keys)
        case Join(left=left, right=right):
            left, first = numbered(binding, left, orders)
            right, second = numbered(binding, right, orders)
            return replace(source, left=left, right=right), (*first, *second)
        case SetOperation(kind="union", all=True):
            return _numbered_union(binding, source, orders)
        case Group() | GroupingSets() | Distinct() | SetOperation() | Shared() | Scan():
            return source, ()
        case _:
            assert_never(source)


def _numbered_union(
    binding: Binding, union: SetOperation, orders: Orders
) -> tuple[Node, tuple[SortKey, ...]]:
    """The rows of the first query in their order, then those of the second."""
    sides = union.left, union.right
    found = [numbered(binding, side.node, {**orders, id(side.node): side.order}) for side in sides]
    first, second = (order for _, order in found)
    alike = [
        # Rowids are numbers of their own table.
        one.column.type.kind is not ROWID.kind and _sort(one) == _sort(other)
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
        made = tuple(Column(binding.fresh(), scalar.type) for scalar in scalars)
        mapped = Map(node, tuple(column.index for column in made), scalars)
        added.append(replace(side, node=mapped, columns=(*side.columns, *made)))
    columns = (Column(binding.fresh(), INTEGER), *(Column(binding.fresh(), k.column.type) for k in keys))
    ids = (*union.ids, *(column.index for column in columns))
    number, *rest = columns
    order = (ascending(number), *(replace(key, column=c) for key, c in zip(keys, rest, strict=True)))
    return replace(union, left=added[0], right=added[1], ids=ids), order


def _sort(key: SortKey) -> tuple[Type, bool, bool]:
    """What two keys have in common that can be one column."""
    return key.column.type, key.descending, key.nulls_first


def ascending(column: Column) -> SortKey:
    """A column as a key, the smallest values first."""
    return SortKey(column, False, False)
