"""The order in which the rows of a FROM come, for aggregates that mind the order and are told no other."""

from collections.abc import Mapping
from typing import assert_never

from kpg.compiler.algebra.rel import Get
from kpg.compiler.sql.tree import (
    Distinct,
    Expand,
    Filter,
    Group,
    GroupingSets,
    Join,
    Map,
    Node,
    Rows,
    Scan,
    SetOperation,
    Shared,
    SortKey,
    TopK,
    Window,
)
from kpg.runtime.scalar import Column


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


def input_order(node: Node, orders: Mapping[int, tuple[SortKey, ...]]) -> tuple[SortKey, ...]:
    """The keys: those of an ORDER BY, and where it does not tell, the order in which rows were written.

    ``orders`` has the ORDER BY of nodes by their identity. A join comes in the order of its left side.
    """
    own = orders.get(id(node), ())
    match node:
        case Filter(input=source) | Map(input=source) | Expand(input=source) | Window(input=source):
            return own + input_order(source, orders)
        case TopK(input=source, group=(), order=order):
            return order + input_order(source, orders)
        case Join(kind="inner" | "left", left=left, right=right):
            return own + input_order(left, orders) + input_order(right, orders)
        case Scan(rel=Get(is_table=True) as table, ids=ids):
            return (*own, SortKey(Column(ids[-1], table.types[-1]), False, False))
        case Scan() | Shared() | Rows() | Join() | Group() | GroupingSets() | Distinct() | SetOperation():
            return own
        case TopK(group=group, order=order):
            return tuple(SortKey(column, False, False) for column in group) + order
        case _:
            assert_never(node)
