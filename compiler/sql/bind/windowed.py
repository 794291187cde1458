"""A query's window functions as columns of its rows or groups: one node for each partition and order."""

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from kpg.compiler.algebra.scalars import substitute_ids
from kpg.compiler.sql.bind.calls import condition
from kpg.compiler.sql.bind.columns import as_columns
from kpg.compiler.sql.bind.group import Grouping, Item
from kpg.compiler.sql.bind.input_order import Orders, numbered
from kpg.compiler.sql.bind.literals import conjuncts
from kpg.compiler.sql.bind.scope import Binding, Field, Over, Scope, Sorted, Windows
from kpg.compiler.sql.tree import (
    Node,
    SortKey,
    Window,
)
from kpg.runtime.plan.nodes import Bound, Edge, Frame, Ranged, Unit, WindowCall
from kpg.runtime.scalar import Column, Literal, Scalar


def bind_qualify(binding: Binding, scope: Scope, items: list[Item], node: exp.Select) -> tuple[Scalar, ...]:
    """The conjuncts of QUALIFY, in which the select list's names mean its values where no column has them."""
    clause = node.args.get("qualify")
    if clause is None:
        return ()
    known = {field.name.lower() for field in scope.fields}
    named: dict[int, Scalar] = {}
    fields = []
    for item in items:
        if item.name.lower() not in known:
            column = Column(binding.fresh(), item.scalar.type)
            named[column.index] = item.scalar
            fields.append(Field("", item.name, column))
    inner = replace(scope.without_rows("QUALIFY"), fields=[*scope.fields, *fields])
    scalar = condition(binding, binding.expression(inner, clause.this), clause.this, "QUALIFY")
    return conjuncts(substitute_ids(scalar, named))


def over_groups(windows: Windows, grouping: Grouping, node: exp.Expr) -> None:
    """Turns the calls over input rows into calls over groups."""

    def over(scalar: Scalar) -> Scalar:
        return grouping.over_groups(scalar, node)

    def perhaps(scalar: Scalar | None) -> Scalar | None:
        return None if scalar is None else over(scalar)

    windows.calls = [
        replace(
            call,
            args=tuple(map(over, call.args)),
            partition=tuple(map(over, call.partition)),
            order=tuple(replace(key, scalar=over(key.scalar)) for key in call.order),
            start=perhaps(call.start),
            end=perhaps(call.end),
            ranged=perhaps(call.ranged),
        )
        for call in windows.calls
    ]


def windowed(binding: Binding, source: Node, windows: Windows, orders: Orders) -> Node:
    """The source with a column for each call."""
    source, ties = numbered(binding, source, orders)
    wanted = dict.fromkeys(scalar for call in windows.calls for scalar in _scalars(call))
    source, columns = as_columns(binding, source, tuple(wanted))
    place = dict(zip(wanted, columns, strict=True))
    apart: dict[tuple[tuple[Scalar, ...], tuple[Sorted, ...]], list[tuple[int, Over]]] = {}
    for id_, call in zip(windows.ids, windows.calls, strict=True):
        apart.setdefault((_varying(call.partition), _varying_keys(call.order)), []).append((id_, call))
    sortings = [_sorting(*window) for window in apart]
    for (partition, order), calls in apart.items():
        own = _sorting(partition, order)
        finer = next((other for other in sortings if len(other) > len(own) and other[: len(own)] == own), own)
        source = Window(
            source,
            tuple(place[scalar] for scalar in partition),
            _placed(order, place),
            (*_placed(finer[len(own) :], place), *ties),
            tuple(id_ for id_, _ in calls),
            tuple(_call(call, place) for _, call in calls),
        )
    return source


def _sorting(partition: tuple[Scalar, ...], order: tuple[Sorted, ...]) -> tuple[Sorted, ...]:
    """What sorts rows for a window; one that needs less takes them as they come from one that needs more."""
    return (*(Sorted(scalar, False, False) for scalar in partition), *order)


def _placed(keys: Sequence[Sorted], place: dict[Scalar, Column]) -> tuple[SortKey, ...]:
    return tuple(SortKey(place[key.scalar], key.descending, key.nulls_first) for key in keys)


def _varying(scalars: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    return tuple(dict.fromkeys(scalar for scalar in scalars if not isinstance(scalar, Literal)))


def _varying_keys(keys: tuple[Sorted, ...]) -> tuple[Sorted, ...]:
    """The keys that tell rows apart; a repeated one does not."""
    seen: dict[Scalar, Sorted] = {}
    for key in keys:
        if not isinstance(key.scalar, Literal):
            seen.setdefault(key.scalar, key)
    return tuple(seen.values())


def _scalars(call: Over) -> list[Scalar]:
    """What has to be a column."""
    arguments = [arg for arg in call.args if not isinstance(arg, Literal)]
    frame = [scalar for scalar in (call.start, call.end, call.ranged) if scalar is not None]
    keys = (key.scalar for key in _varying_keys(call.order))
    return [*_varying(call.partition), *keys, *arguments, *frame]


def _call(call: Over, place: dict[Scalar, Column]) -> WindowCall:
    frame = call.frame if _varying_keys(call.order) else _unordered(call.frame)
    ranged = None
    if call.ranged is not None:
        type_, column = call.ranged.type, place[call.ranged].index
        ranged = Ranged(column, call.order[0].descending, type_.is_float, type_.is_interned)
    if call.ranged is not None or call.start is not None or call.end is not None:
        frame = Frame(
            frame.unit,
            _bound(frame.start, call.start, place),
            _bound(frame.end, call.end, place),
            frame.exclude,
            ranged,
        )
    args = tuple(place.get(arg, arg) if not isinstance(arg, Literal) else arg for arg in call.args)
    return WindowCall(call.function, args, call.type, frame, call.text)


def _unordered(frame: Frame) -> Frame:
    """The frame where all rows of a partition are peers: from its first to its last of them."""
    start, end = frame.start, frame.end
    if frame.unit is not Unit.ROWS and start.edge is Edge.CURRENT_ROW:
        start = Bound(Edge.UNBOUNDED_PRECEDING)
    if frame.unit is not Unit.ROWS and end.edge is Edge.CURRENT_ROW:
        end = Bound(Edge.UNBOUNDED_FOLLOWING)
    return replace(frame, start=start, end=end)


def _bound(bound: Bound, at: Scalar | None, place: dict[Scalar, Column]) -> Bound:
    return bound if at is None else replace(bound, column=place[at].index)
