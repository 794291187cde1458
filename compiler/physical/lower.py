"""Relational algebra to dataflow nodes, the map-filter-project above each relation pushed into it."""

from typing import Final, assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.failing import is_total
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.scalars import all_columns, conjuncts, written_size
from kpg.compiler.physical.context import Planning
from kpg.compiler.physical.mfp import compose
from kpg.compiler.physical.problem import problem_of
from kpg.compiler.physical.recursion import BodyBuilder, is_invariant, plan_loop
from kpg.compiler.physical.reduce import plan_reduce
from kpg.compiler.physical.topk import plan_topk
from kpg.runtime import plan
from kpg.runtime.errors import NotSupportedError, Span
from kpg.runtime.interrupts import checkpoint
from kpg.runtime.plan import Mfp, Ref
from kpg.runtime.scalar import Column, Fetch, Scalar, columns, remap
from kpg.runtime.types import ROWID

MOST_NODES: Final = 5000
"""A map is a step of its own where writing it out in the step above would take more scalar nodes."""


def lower(planning: Planning, rel: Rel, mfp: Mfp) -> Ref:
    """A stream of ``mfp`` over the rows of ``rel``, planned once, and around a loop if that is possible."""
    around, builder = planning.around, planning.builder
    if around is not None and isinstance(builder, BodyBuilder) and is_invariant(planning, rel):
        return builder.enter(lower(around, rel, mfp))
    known = planning.lowered.get((rel, mfp))
    if known is None:
        known = planning.lowered[rel, mfp] = _lowered(planning, rel, mfp)
    return known


def _lowered(planning: Planning, rel: Rel, mfp: Mfp) -> Ref:
    checkpoint()
    builder = planning.builder
    if isinstance(rel, algebra.Join | algebra.Union) and not all(
        map(is_total, (*mfp.predicates, *mfp.outputs))
    ):
        return _in_two(planning, rel, mfp)
    match rel:
        case algebra.Get():
            return _get(planning, rel, mfp)
        case algebra.Constant(rows=rows, types=types):
            return builder.linear(builder.add(plan.Constant(rows, types)), mfp)
        case algebra.LocalGet(id=id_):
            return _local(planning, id_, mfp)
        case algebra.Map(input=source, scalars=scalars):
            return _map(planning, source, scalars, mfp)
        case algebra.Filter(input=source, predicates=predicates):
            return lower(planning, source, Mfp(conjuncts((*predicates, *mfp.predicates)), mfp.outputs))
        case algebra.Project(input=source, columns=chosen):
            columns = all_columns(source)
            return lower(planning, source, compose(mfp, [columns[column] for column in chosen]))
        case algebra.Join():
            from kpg.compiler.physical.join import plan_join
            from kpg.compiler.physical.split import MOST, split

            if len(rel.inputs) > MOST and not rel.orders:
                return lower(planning, split(planning, rel), mfp)

            return plan_join(planning, problem_of(planning, rel, mfp))
        case algebra.Reduce():
            return plan_reduce(planning, rel, mfp)
        case algebra.Expand():
            from kpg.compiler.physical.expand import plan_expand

            return plan_expand(planning, rel, mfp)
        case algebra.TopK():
            return plan_topk(planning, rel, mfp)
        case algebra.Window():
            from kpg.compiler.physical.window import plan_window

            return plan_window(planning, rel, mfp)
        case algebra.Distinct(input=source):
            return _distinct(planning, source, mfp)
        case algebra.Threshold(input=source):
            ref = builder.add(plan.Threshold(lower(planning, source, _all(source))))
            return builder.linear(ref, mfp)
        case algebra.Negate(input=source):
            return builder.add(plan.Negate(lower(planning, source, mfp)))
        case algebra.Union(inputs=inputs):
            return builder.add(plan.Concat(tuple(lower(planning, source, mfp) for source in inputs)))
        case algebra.Single(input=source, group=group):
            return _single(planning, source, group, mfp, rel.place)
        case algebra.Let(body=body):
            return lower(planning, body, mfp)
        case algebra.LetRec():
            return plan_loop(planning, rel, mfp)
        case _:
            assert_never(rel)


def _in_two(planning: Planning, rel: algebra.Join | algebra.Union, mfp: Mfp) -> Ref:
    """What may fail as a step of its own: rows that come in one part of the relation may go in another.

    A step finds those that cancel out (``runtime.operators.linear.apply_all``), a part alone cannot.
    """
    early = tuple(test for test in mfp.predicates if is_total(test))
    late = tuple(test for test in mfp.predicates if test not in early)
    places = sorted(frozenset[int]().union(*map(columns, (*late, *mfp.outputs))))
    types = algebra.types(rel)
    ref = lower(planning, rel, Mfp(early, tuple(Column(place, types[place]) for place in places)))

    def moved(scalar: Scalar) -> Scalar:
        return remap(scalar, places.index)

    return planning.builder.linear(ref, Mfp(tuple(map(moved, late)), tuple(map(moved, mfp.outputs))))


def _all(rel: Rel) -> Mfp:
    return Mfp((), all_columns(rel))


def _map(planning: Planning, source: Rel, scalars: tuple[Scalar, ...], mfp: Mfp) -> Ref:
    values = (*all_columns(source), *scalars)
    if written_size((*mfp.predicates, *mfp.outputs), values) > MOST_NODES:
        return planning.builder.linear(lower(planning, source, Mfp((), values)), mfp)
    return lower(planning, source, compose(mfp, values))


def _local(planning: Planning, id_: str, mfp: Mfp) -> Ref:
    """A let's value, whose state is shared whatever is asked of it; joins are run once."""
    if id_ in planning.recursive:
        return planning.builder.linear(planning.recursive[id_], mfp)
    value = planning.facts.bound[id_]
    core = value
    while isinstance(core, algebra.Map | algebra.Filter | algebra.Project):
        core = core.input
    if isinstance(core, algebra.Distinct | algebra.Threshold | algebra.Reduce | algebra.Get):
        return lower(planning, value, mfp)
    return planning.builder.linear(lower(planning, value, _all(value)), mfp)


def _get(planning: Planning, get: algebra.Get, mfp: Mfp) -> Ref:
    """A table's rows by rowid, columns fetched; another view's rows as they are."""
    builder = planning.builder
    if not get.is_table:
        return builder.linear(builder.add(plan.Import(get.name, get.types)), mfp)
    rowid = Column(0, ROWID)
    values: list[Scalar] = [
        Fetch(get.name, column, rowid, type_) for column, type_ in enumerate(get.types[:-1])
    ]
    return builder.linear(builder.add(plan.Source(get.name)), compose(mfp, (*values, rowid)))


def _distinct(planning: Planning, source: Rel, mfp: Mfp) -> Ref:
    """Distinct rows; of a base table's columns, those that a rowid among the others gives are left out."""
    late = planning.storage.late_columns(source)
    kept = [column for column in late if isinstance(column, Column)]
    ref = planning.builder.add(plan.Distinct(planning.lower(planning, source, Mfp((), tuple(kept)))))
    places = {column.index: place for place, column in enumerate(kept)}
    values = [remap(column, places.__getitem__) for column in late]
    return planning.builder.linear(ref, compose(mfp, values))


def _single(planning: Planning, source: Rel, group: tuple[int, ...], mfp: Mfp, place: Span | None) -> Ref:
    """At most one row per group, the group's columns first."""
    if planning.around is not None:
        raise NotSupportedError(
            "a scalar subquery over a recursive relation that may have several rows is not supported",
            hint="say which row: use max() or another aggregate, or LIMIT 1, in the subquery",
            span=place,
        )
    types = algebra.types(source)
    order = (*dict.fromkeys(group), *(column for column in range(len(types)) if column not in group))
    columns = tuple(Column(column, types[column]) for column in order)
    ref = planning.lower(planning, source, Mfp((), columns))
    single = planning.builder.add(plan.Single(ref, len(set(group))))
    values = [Column(order.index(column), type_) for column, type_ in enumerate(types)]
    return planning.builder.linear(single, compose(mfp, values))
