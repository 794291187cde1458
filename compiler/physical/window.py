"""Window functions: an arrangement in which partitions are in order, and the calls over it."""

from collections.abc import Iterable

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.traverse import width
from kpg.compiler.physical.context import Planning
from kpg.compiler.physical.mfp import compose
from kpg.compiler.physical.topk import SortKey, ordered_rows
from kpg.runtime import plan
from kpg.runtime.plan import Mfp, Ref
from kpg.runtime.scalar import Column, Fetch, Scalar, columns, remap


def plan_window(planning: Planning, window: algebra.Window, mfp: Mfp) -> Ref:
    """The mfp over the rows and what the calls say of them.

    The arrangement has the columns that the window reads, and those of which no rowid among them tells.
    """
    types = algebra.types(window.input)
    flags = planning.facts.nullable(window.input)
    every = tuple(Column(index, type_) for index, type_ in enumerate(types))
    late = _late(planning, window)
    kept = [column for column in every if late[column.index] == column]

    def key(by: algebra.OrderBy) -> SortKey:
        return SortKey(every[by.column], by.descending, by.nulls_first, flags[by.column])

    partition = tuple(every[index] for index in dict.fromkeys(window.partition))
    ordered = ordered_rows(partition, tuple(map(key, (*window.order, *window.ties))), kept)
    place = {column.index: ordered.outputs.index(column) for column in kept}
    ref = planning.lower(planning, window.input, Mfp((), ordered.outputs))
    arranged = planning.builder.arrange(ref, len(partition))
    peers = tuple(place[by.column] for by in window.order)
    calls = tuple(plan.moved_call(call, place.__getitem__) for call in window.calls)
    node = plan.Window(arranged, len(partition), peers, calls, ordered.exact)
    ref = planning.builder.add(node)
    values: list[Scalar] = [remap(scalar, place.__getitem__) for scalar in late]
    start = len(ordered.outputs)
    values += [Column(start + number, call.type) for number, call in enumerate(window.calls)]
    return planning.builder.linear(ref, compose(mfp, values))


def _late(planning: Planning, window: algebra.Window) -> tuple[Scalar, ...]:
    """The input's columns; those that the window does not read as fetched by a rowid, where that is there."""
    read = _read(window)
    every = [Column(index, type_) for index, type_ in enumerate(algebra.types(window.input))]
    late = list(planning.storage.late_columns(window.input))
    result: list[Scalar] = [
        every[index] if index in read else late[index] for index in range(width(window.input))
    ]
    needed = frozenset[int]().union(*(columns(one) for one in result if isinstance(one, Fetch)))
    return tuple(every[index] if index in needed else one for index, one in enumerate(result))


def _read(window: algebra.Window) -> frozenset[int]:
    ordering: Iterable[int] = (by.column for by in (*window.order, *window.ties))
    called = (column for call in window.calls for column in plan.call_columns(call))
    return frozenset((*window.partition, *ordering, *called))
