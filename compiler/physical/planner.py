"""Lowering of relational algebra to the dataflow plan.

The map-filter-project above a relation is pushed into its operator. A recursive relation becomes
a loop, whose body holds only nodes that depend on the recursion. A window function reads an
arrangement that keeps each partition in order. A set-returning function computes its arguments
next to the columns that the query keeps.
"""

from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.facts import Facts
from kpg.compiler.algebra.rel import Rel, types
from kpg.compiler.algebra.scalars import all_columns, conjuncts, is_total, size_after_substitution
from kpg.compiler.algebra.traverse import let_values, recursions, walk, width, with_unique_ids
from kpg.compiler.physical.access_paths import ColumnOrigins
from kpg.compiler.physical.cardinality import CardinalityEstimates, Statistics
from kpg.compiler.physical.context import Builder, DeferredNode, Planning, compose, identity
from kpg.compiler.physical.join_problem import problem_of
from kpg.compiler.physical.reduce import SortKey, ordered_rows, plan_reduce, plan_topk
from kpg.runtime import plan
from kpg.runtime.errors import NotSupportedError, Span
from kpg.runtime.functions.table_functions import Expansion
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.interrupts import checkpoint
from kpg.runtime.plan import AnyNode, Concat, Linear, Mfp, Negate, Plan, Ref, Types
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Fetch, Scalar, columns, remap
from kpg.runtime.types import ROWID

if TYPE_CHECKING:
    from kpg.compiler.physical import join as join_planner
    from kpg.compiler.physical import join_order
else:
    join_planner = LazyModule("kpg.compiler.physical.join")
    join_order = LazyModule("kpg.compiler.physical.join_order")


@dataclass(slots=True, eq=False)
class BodyBuilder(Builder):
    """Builder of a loop's body.

    A loop-invariant node is added to the outer builder and enters the loop.
    """

    outer: Builder = field(kw_only=True)
    outer_refs: dict[Ref, Ref] = field(default_factory=dict)
    """Outer node of each Enter node in the body."""
    enter_refs: dict[Ref, Ref] = field(default_factory=dict)
    """Enter node in the body of each outer node."""

    def enter(self, outer: Ref) -> Ref:
        """Return the position of the Enter node for an outer node."""
        place = self.enter_refs.get(outer)
        if place is None:
            place = self.enter_refs[outer] = self.defer(plan.Enter(outer), self.outer.types[outer])
            self.outer_refs[place] = outer
        return place

    def add(self, node: AnyNode, types: Types | None = None) -> Ref:
        """Add a node to the body if it depends on the recursion or is on a join's path, else outside."""
        own = isinstance(node, plan.Variable | plan.Enter | plan.Delta | plan.HalfJoin)
        if own or not all(ref in self.outer_refs for ref in plan.inputs(node)):
            return Builder.add(self, node, types)
        return self.enter(self.outer.add(plan.renumber_inputs(node, self.outer_refs.__getitem__), types))


def plan_loop(planning: Planning, rec: algebra.LetRec, mfp: Mfp) -> Ref:
    """Return a stream of the mfp over the body of ``rec``, in which its ids are the fixed point."""
    builder = BodyBuilder(outer=planning.builder)
    inner = replace(planning, builder=builder, outer=planning, streams={}, recursive_streams={})
    for index, (id_, row_types) in enumerate(zip(rec.ids, rec.types, strict=True)):
        inner.recursive_streams[id_] = builder.add(plan.Variable(index, row_types))
    results = []
    for value in rec.values:
        results.append(inner.lower(inner, value, Mfp((), all_columns(value))))
    loop = planning.builder.defer(partial(_loop, builder, rec, tuple(results)), ())
    for index, id_ in enumerate(rec.ids):
        leave = plan.Leave(loop, index)
        planning.recursive_streams[id_] = planning.builder.add(leave, builder.types[results[index]])
    return planning.lower(planning, rec.body, mfp)


def _loop(builder: BodyBuilder, rec: algebra.LetRec, results: tuple[Ref, ...]) -> plan.Loop:
    nodes, places = builder.list_nodes(results)
    return plan.Loop(nodes, places, rec.limit, rec.error_at_limit)


def is_loop_invariant(planning: Planning, rel: Rel) -> bool:
    """Return whether ``rel`` reads no relation of the loop being planned, directly or through a let."""
    return not (planning.recursive_streams.keys() & _read_ids(planning, rel))


def _read_ids(planning: Planning, rel: Rel) -> frozenset[str]:
    """Return the ids of all lets, recursive or not, that a relation reads directly or through other lets."""
    known = planning.let_ids.get(rel)
    if known is None:
        found = {node.id for node in walk(rel) if isinstance(node, algebra.LocalGet)}
        for id_ in tuple(found):
            if id_ in planning.facts.let_values:
                found |= _read_ids(planning, planning.facts.let_values[id_])
        known = planning.let_ids[rel] = frozenset(found)
    return known


MAX_NODES: Final = 5000
"""Maximum number of scalar nodes that merging a map into the step above may produce."""


def lower(planning: Planning, rel: Rel, mfp: Mfp) -> Ref:
    """Return a stream of ``mfp`` over the rows of ``rel``.

    It is planned once, and outside of a loop if possible.
    """
    around, builder = planning.outer, planning.builder
    if around is not None and isinstance(builder, BodyBuilder) and is_loop_invariant(planning, rel):
        return builder.enter(lower(around, rel, mfp))
    known = planning.streams.get((rel, mfp))
    if known is None:
        known = planning.streams[rel, mfp] = _lower_node(planning, rel, mfp)
    return known


def _lower_node(planning: Planning, rel: Rel, mfp: Mfp) -> Ref:
    checkpoint()
    builder = planning.builder
    if isinstance(rel, algebra.Join | algebra.Union) and not all(
        map(is_total, (*mfp.predicates, *mfp.outputs))
    ):
        return _lower_in_two_steps(planning, rel, mfp)
    match rel:
        case algebra.Get():
            return _lower_get(planning, rel, mfp)
        case algebra.Constant(rows=rows, types=types):
            return builder.linear(builder.add(plan.Constant(rows, types)), mfp)
        case algebra.LocalGet(id=id_):
            return _lower_local(planning, id_, mfp)
        case algebra.Map(input=source, scalars=scalars):
            return _lower_map(planning, source, scalars, mfp)
        case algebra.Filter(input=source, predicates=predicates):
            return lower(planning, source, Mfp(conjuncts((*predicates, *mfp.predicates)), mfp.outputs))
        case algebra.Project(input=source, columns=chosen):
            columns = all_columns(source)
            return lower(planning, source, compose(mfp, [columns[column] for column in chosen]))
        case algebra.Join():
            if len(rel.inputs) > join_order.MAX_RELATIONS and not rel.orders:
                return lower(planning, join_order.split(planning, rel), mfp)

            return join_planner.plan_join(planning, problem_of(planning, rel, mfp))
        case algebra.Reduce():
            return plan_reduce(planning, rel, mfp)
        case algebra.Expand():
            return plan_expand(planning, rel, mfp)
        case algebra.TopK():
            return plan_topk(planning, rel, mfp)
        case algebra.Window():
            return plan_window(planning, rel, mfp)
        case algebra.Distinct(input=source):
            return _lower_distinct(planning, source, mfp)
        case algebra.Threshold(input=source):
            ref = builder.add(plan.Threshold(lower(planning, source, _all_columns(source))))
            return builder.linear(ref, mfp)
        case algebra.Negate(input=source):
            return builder.add(plan.Negate(lower(planning, source, mfp)))
        case algebra.Union(inputs=inputs):
            return builder.add(plan.Concat(tuple(lower(planning, source, mfp) for source in inputs)))
        case algebra.Single(input=source, group=group):
            return _lower_single(planning, source, group, mfp, rel.place)
        case algebra.Let(body=body):
            return lower(planning, body, mfp)
        case algebra.LetRec():
            return plan_loop(planning, rel, mfp)
        case _:
            assert_never(rel)


def _lower_in_two_steps(planning: Planning, rel: algebra.Join | algebra.Union, mfp: Mfp) -> Ref:
    """Evaluate scalars that can fail in a separate step, above the join or union.

    Rows from one part of the relation may cancel with rows from another. Only a separate step sees
    which rows remain (``runtime.operators.linear.apply_mfp_to_parts``).
    """
    early = tuple(test for test in mfp.predicates if is_total(test))
    late = tuple(test for test in mfp.predicates if test not in early)
    places = sorted(frozenset[int]().union(*map(columns, (*late, *mfp.outputs))))
    types = algebra.types(rel)
    ref = lower(planning, rel, Mfp(early, tuple(Column(place, types[place]) for place in places)))

    def renumber(scalar: Scalar) -> Scalar:
        return remap(scalar, places.index)

    return planning.builder.linear(ref, Mfp(tuple(map(renumber, late)), tuple(map(renumber, mfp.outputs))))


def _all_columns(rel: Rel) -> Mfp:
    return Mfp((), all_columns(rel))


def _lower_map(planning: Planning, source: Rel, scalars: tuple[Scalar, ...], mfp: Mfp) -> Ref:
    values = (*all_columns(source), *scalars)
    if size_after_substitution((*mfp.predicates, *mfp.outputs), values) > MAX_NODES:
        return planning.builder.linear(lower(planning, source, Mfp((), values)), mfp)
    return lower(planning, source, compose(mfp, values))


def _lower_local(planning: Planning, id_: str, mfp: Mfp) -> Ref:
    """Return a stream over a let's value.

    Joins run once, whatever columns the readers need.
    """
    if id_ in planning.recursive_streams:
        return planning.builder.linear(planning.recursive_streams[id_], mfp)
    value = planning.facts.let_values[id_]
    core = value
    while isinstance(core, algebra.Map | algebra.Filter | algebra.Project):
        core = core.input
    if isinstance(core, algebra.Distinct | algebra.Threshold | algebra.Reduce | algebra.Get):
        return lower(planning, value, mfp)
    return planning.builder.linear(lower(planning, value, _all_columns(value)), mfp)


def _lower_get(planning: Planning, get: algebra.Get, mfp: Mfp) -> Ref:
    """Return a stream of a table's rows by rowid with fetched columns, or of another view's rows."""
    builder = planning.builder
    if not get.is_table:
        return builder.linear(builder.add(plan.Import(get.name, get.types)), mfp)
    rowid = Column(0, ROWID)
    values: list[Scalar] = [
        Fetch(get.name, column, rowid, type_) for column, type_ in enumerate(get.types[:-1])
    ]
    return builder.linear(builder.add(plan.Source(get.name)), compose(mfp, (*values, rowid)))


def _lower_distinct(planning: Planning, source: Rel, mfp: Mfp) -> Ref:
    """Return distinct rows.

    Base table columns that one of the rowid columns determines are left out of the state.
    """
    late = planning.column_origins.late_columns(source)
    kept = [column for column in late if isinstance(column, Column)]
    ref = planning.builder.add(plan.Distinct(planning.lower(planning, source, Mfp((), tuple(kept)))))
    places = {column.index: place for place, column in enumerate(kept)}
    values = [remap(column, places.__getitem__) for column in late]
    return planning.builder.linear(ref, compose(mfp, values))


def _lower_single(
    planning: Planning, source: Rel, group: tuple[int, ...], mfp: Mfp, place: Span | None
) -> Ref:
    """Return a stream of the mfp over the input, checked to have at most one row per group."""
    if planning.outer is not None:
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


def plan_query(rel: Rel, statistics: Statistics) -> Plan:
    """Return the plan that maintains the relation.

    The output is arranged unless the state of other operators already holds its rows.
    """
    rel = with_unique_ids(rel)
    facts = Facts(let_values(rel), recursions(rel))
    planning = Planning(
        facts,
        ColumnOrigins(facts.let_values, statistics.early_materialization),
        CardinalityEstimates(statistics, facts),
        lower,
    )
    builder, columns = planning.builder, types(rel)
    ref = lower(planning, rel, identity(columns))
    if not _is_readable(builder.nodes, ref):
        ref = builder.arrange(ref, len(columns))
    planning.access.choose_arrangements(statistics.arrangements)
    return builder.finish(ref)


def _is_readable(nodes: Sequence[AnyNode | DeferredNode], ref: Ref) -> bool:
    """Return whether a node's rows can be read from operators' state without an arrangement of its own."""
    node = nodes[ref]
    if isinstance(node, Linear | Negate):
        return _is_readable(nodes, node.input)
    if isinstance(node, Concat):
        return all(_is_readable(nodes, source) for source in node.inputs)
    return not callable(node) and plan.holds_rows(node)


def plan_window(planning: Planning, window: algebra.Window, mfp: Mfp) -> Ref:
    """Return a stream of the mfp over the rows and the values of the window calls.

    The arrangement has the columns that the window reads, and those that no rowid column determines.
    """
    types = algebra.types(window.input)
    flags = planning.facts.nullable(window.input)
    every = tuple(Column(index, type_) for index, type_ in enumerate(types))
    late = _late_window_columns(planning, window)
    kept = [column for column in every if late[column.index] == column]

    def key(by: algebra.OrderBy) -> SortKey:
        return SortKey(every[by.column], by.descending, by.nulls_first, flags[by.column])

    partition = tuple(every[index] for index in dict.fromkeys(window.partition))
    ordered = ordered_rows(partition, tuple(map(key, (*window.order, *window.ties))), kept)
    places = {output: at for at, output in reversed(tuple(enumerate(ordered.outputs)))}
    place = {column.index: places[column] for column in kept}
    ref = planning.lower(planning, window.input, Mfp((), ordered.outputs))
    arranged = planning.builder.arrange(ref, len(partition))
    peers = tuple(place[by.column] for by in window.order)
    calls = tuple(plan.remap_call(call, place.__getitem__) for call in window.calls)
    node = plan.Window(arranged, len(partition), peers, calls, ordered.exact)
    ref = planning.builder.add(node)
    values: list[Scalar] = [remap(scalar, place.__getitem__) for scalar in late]
    start = len(ordered.outputs)
    values += [Column(start + number, call.type) for number, call in enumerate(window.calls)]
    return planning.builder.linear(ref, compose(mfp, values))


def _late_window_columns(planning: Planning, window: algebra.Window) -> tuple[Scalar, ...]:
    """Return the input's columns, fetched by rowid where the window does not read them."""
    read = _window_columns(window)
    every = [Column(index, type_) for index, type_ in enumerate(algebra.types(window.input))]
    late = list(planning.column_origins.late_columns(window.input))
    result: list[Scalar] = [
        every[index] if index in read else late[index] for index in range(width(window.input))
    ]
    needed = frozenset[int]().union(*(columns(scalar) for scalar in result if isinstance(scalar, Fetch)))
    return tuple(every[index] if index in needed else scalar for index, scalar in enumerate(result))


def _window_columns(window: algebra.Window) -> frozenset[int]:
    ordering: Iterable[int] = (by.column for by in (*window.order, *window.ties))
    called = (column for call in window.calls for column in plan.call_columns(call))
    return frozenset((*window.partition, *ordering, *called))


def plan_expand(planning: Planning, rel: algebra.Expand, mfp: Mfp) -> Ref:
    """Return a stream of the mfp over the rows that the set-returning functions return."""
    inner = width(rel.input)
    types = algebra.types(rel)
    required = frozenset[int]().union(*(columns(scalar) for scalar in (*mfp.predicates, *mfp.outputs)))
    kept = sorted(column for column in required if column < inner)
    outputs: list[Scalar] = [Column(column, types[column]) for column in kept]
    calls = []
    for call in rel.calls:
        places = tuple(range(len(outputs), len(outputs) + len(call.args)))
        outputs += call.args
        argument_types = tuple(arg.type for arg in call.args)
        calls.append(Expansion(call.function, places, argument_types, call.types, call.text))
    source = planning.lower(planning, rel.input, Mfp((), tuple(outputs)))
    node = plan.Expand(source, len(kept), tuple(calls), rel.ordinality, rel.outer)
    place = {column: index for index, column in enumerate((*kept, *range(inner, len(types))))}
    above = Mfp(
        tuple(remap(predicate, place.__getitem__) for predicate in mfp.predicates),
        tuple(remap(output, place.__getitem__) for output in mfp.outputs),
    )
    return planning.builder.linear(planning.builder.add(node), above)
