"""Ego views: the equivalent plain SQL, and the plan that maintains the view.

A view joins pairs (reader, writer) with the writes in a window and groups by reader. The plan is that of the
aggregate grouped by *writer*, with its reduce replaced by an ``Ego`` node over the pairs.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final

from kpg.runtime import plan
from kpg.runtime.errors import NotSupportedError
from kpg.runtime.functions import AccumulatorKind, is_aggregate, lookup_aggregate
from kpg.runtime.functions.aggregation.definition import AggregateFunction, Trend
from kpg.runtime.plan import EgoCall, EgoFamily, Mfp, Plan, Ref, inputs, renumber_inputs
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Fetch, Literal, Scalar, UserFunctionName, columns, remap
from kpg.runtime.types import Type

AGGREGATE_CALL: Final = re.compile(r"\s*(\w+)\s*\(\s*(?:value|\*)\s*\)\s*", re.IGNORECASE)
"""Call of an aggregate whose only argument is ``value`` or ``*``."""


@dataclass(frozen=True, slots=True)
class EgoQuery:
    """SQL of an ego view: ``pairs`` (reader, writer), ``writes`` (node, value) and an aggregate call."""

    pairs: str
    writes: str
    aggregate: str
    continuous: str | None = None
    """Query for the readers whose results are always pushed, each once."""

    @property
    def sql(self) -> str:
        """Equivalent plain SQL of the view."""
        return (
            f"SELECT p.reader AS node, {self.aggregate} AS value FROM ({self.pairs}) AS p"
            f" JOIN ({self.writes}) AS w ON w.node = p.writer GROUP BY p.reader"
        )

    @property
    def by_writer_sql(self) -> str:
        """Query that aggregates the window of each writer."""
        return f"SELECT node, {self.aggregate} AS value FROM ({self.writes}) AS w GROUP BY node"

    @property
    def writes_sql(self) -> str:
        """Query for the rows in the windows."""
        return f"SELECT node, value FROM ({self.writes}) AS w"


def find_builtin_aggregate(aggregate: str) -> AggregateFunction | None:
    """Return the built-in aggregate of a plain call such as ``sum(value)``; None for any other text."""
    call = AGGREGATE_CALL.fullmatch(aggregate)
    return lookup_aggregate(call[1].lower()) if call and is_aggregate(call[1].lower()) else None


@dataclass(frozen=True, slots=True)
class EgoReduce:
    """Arguments of the ``Ego`` node that replaces a reduce: the family and its calls over rows of a node.

    ``mfp`` is applied to the rows first. ``moved_columns`` maps columns of the reduce to columns of the
    ``Ego`` node, for the nodes above.
    """

    family: EgoFamily
    calls: tuple[EgoCall, ...]
    rows: Ref
    mfp: Mfp | None = None
    moved_columns: tuple[tuple[int, int], ...] = ()
    limit: int = 0


def ego_plan(
    pairs: Plan, by_writer: Plan, plan_writes: Callable[[], Plan], aggregate: str, construction: str,
    mode: str, continuous: Plan | None = None,
) -> Plan:  # fmt: skip
    """Return the plan of an ego view.

    ``by_writer_sql`` is the plan of the aggregate grouped by writer. ``plan_writes`` plans the rows in the
    windows.
    """
    base = remove_row_numbers(by_writer)
    end = _unarranged_output(base)
    above: list[Mfp] = []
    while isinstance(node := base.nodes[end], plan.Linear):
        above.append(node.mfp)
        end = node.input
    types = plan.Columns(base.nodes).types
    ego_reduce = _convert_reduce(base, end, types, aggregate)
    if ego_reduce is None:
        result = plan.Columns(by_writer.nodes).types[_unarranged_output(by_writer)][1]
        base, above = remove_row_numbers(plan_writes()), []
        ego_reduce = _convert_in_python(base, aggregate, result)
    nodes: list[plan.AnyNode] = [*pairs.nodes]
    nodes += [renumber_inputs(node, lambda ref: ref + len(pairs.nodes)) for node in base.nodes]
    rows = ego_reduce.rows + len(pairs.nodes)
    if ego_reduce.mfp is not None:
        nodes.append(plan.Linear(rows, ego_reduce.mfp))
        rows = len(nodes) - 1
    continuous_ref = None
    if continuous is not None:
        count = len(nodes)
        nodes += [renumber_inputs(node, lambda ref: ref + count) for node in continuous.nodes]
        continuous_ref = _unarranged_output(continuous) + count
    overlay = _check_construction(construction, ego_reduce)
    nodes.append(
        plan.Ego(
            _unarranged_output(pairs),
            rows,
            ego_reduce.family,
            ego_reduce.calls,
            overlay,
            mode,
            ego_reduce.limit,
            continuous_ref,
        )
    )
    for mfp in reversed(above):
        nodes.append(plan.Linear(len(nodes) - 1, _move_columns(mfp, dict(ego_reduce.moved_columns))))
    return prune_nodes(nodes, len(nodes) - 1)


def _unarranged_output(query: Plan) -> Ref:
    """Return the plan's output, or the input of the arrangement that is its output."""
    node = query.nodes[query.output]
    return node.input if isinstance(node, plan.Arrange) else query.output


def _move_columns(mfp: Mfp, moved_columns: dict[int, int]) -> Mfp:
    if not moved_columns:
        return mfp

    def place(column: int) -> int:
        return moved_columns.get(column, column)

    return Mfp(
        tuple(remap(scalar, place) for scalar in mfp.predicates),
        tuple(remap(scalar, place) for scalar in mfp.outputs),
    )


def remove_row_numbers(query: Plan) -> Plan:
    """Return the plan without windows that only number the rows of a top-k.

    The top-k already limits these row numbers.
    """
    nodes = list(query.nodes)
    for ref, node in enumerate(nodes):
        window = nodes[node.input] if isinstance(node, plan.Linear) else None
        if not isinstance(node, plan.Linear) or not isinstance(window, plan.Window) or len(window.calls) > 1:
            continue
        arranged = nodes[window.input]
        below = nodes[arranged.input] if isinstance(arranged, plan.Arrange) else None
        if not isinstance(below, plan.Linear) or not isinstance(nodes[below.input], plan.TopK):
            continue
        assert isinstance(arranged, plan.Arrange)
        number = len(below.mfp.outputs)
        rest = tuple(scalar for scalar in node.mfp.predicates if number not in columns(scalar))
        if any(number in columns(scalar) for scalar in node.mfp.outputs):
            continue
        nodes[ref] = plan.Linear(arranged.input, Mfp(rest, node.mfp.outputs))
    return prune_nodes(nodes, query.output)


def prune_nodes(nodes: Sequence[plan.AnyNode], output: Ref) -> Plan:
    """Return the plan of the nodes that the output needs."""
    needed: set[Ref] = set()
    waiting = [output]
    while waiting:
        ref = waiting.pop()
        if ref not in needed:
            needed.add(ref)
            waiting += inputs(nodes[ref])
    order = sorted(needed)
    place = {ref: at for at, ref in enumerate(order)}
    return Plan(tuple(renumber_inputs(nodes[ref], place.__getitem__) for ref in order), place[output])


def rename_table(query: Plan, old_name: str, new_name: str) -> Plan:
    """Return the plan with a renamed table."""

    def rename_in(node: Any) -> Any:
        if isinstance(node, tuple):
            return tuple(map(rename_in, node))
        if not is_dataclass(node) or isinstance(node, type):
            return node
        old = {field.name: getattr(node, field.name) for field in fields(node) if field.init}
        new = {field: rename_in(value) for field, value in old.items()}
        if isinstance(node, plan.Source | Fetch) and node.table == old_name:
            new["table"] = new_name
        return node if all(new[field] is value for field, value in old.items()) else replace(node, **new)

    result: Plan = rename_in(query)
    return result


def _convert_reduce(
    base: Plan, end: Ref, types: Sequence[tuple[Type, ...]], aggregate: str
) -> EgoReduce | None:
    """Return the ``Ego`` arguments of a plan's reduce: a compiled family, or the aggregate's algorithm."""
    node = base.nodes[end]
    if isinstance(node, plan.Reduce) and node.key == 1:
        return _convert_sums(base, node)
    if isinstance(node, plan.TopK) and (node.group, node.limit, node.offset) == (1, 1, 0) and not node.exact:
        return _convert_extreme(base, node, types[end], aggregate)
    if isinstance(node, plan.Fold) and node.key == 1 and len(node.aggregates) == 1:
        return _convert_by_algorithm(base, node.input, node.aggregates[0])
    if isinstance(node, plan.BasicReduce) and node.key == 1 and len(node.aggregates) == 1:
        below = base.nodes[node.input]
        assert isinstance(below, plan.Arrange)
        return _convert_by_algorithm(base, below.input, node.aggregates[0])
    return None


def _convert_sums(base: Plan, node: plan.Reduce) -> EgoReduce | None:
    """Return the arguments for counts and sums; None if any aggregate is of another kind."""
    if not isinstance(base.nodes[node.input], plan.Linear | plan.RangeJoin | plan.DeltaJoin | plan.Concat):
        return None
    calls = tuple(map(_sum_call, node.aggregates))
    converted = [call for call in calls if call is not None]
    return EgoReduce(EgoFamily.SUMS, tuple(converted), node.input) if len(converted) == len(calls) else None


def _convert_extreme(
    base: Plan, node: plan.TopK, types: tuple[Type, ...], aggregate: str
) -> EgoReduce | None:
    """Return the arguments for the least or the greatest value."""
    function, below = find_builtin_aggregate(aggregate), base.nodes[node.input]
    if function is None or function.trend is None or not isinstance(below, plan.Arrange) or len(types) != 3:
        return None
    mfp = Mfp((), (Column(0, types[0]), Column(2, types[2])))
    family = EgoFamily.GREATEST if function.trend is Trend.UP else EgoFamily.LEAST
    call = EgoCall(function.name, (0,), (types[2],), types[2])
    return EgoReduce(family, (call,), below.input, mfp, ((2, 1),))


def _sum_call(aggregate: plan.Aggregate) -> EgoCall | None:
    """Return the call of a count or of a sum of words; None for any other aggregate."""
    function = lookup_aggregate(aggregate.function)
    arguments = () if aggregate.argument is None else (aggregate.argument - 1,)
    if function.accumulator is AccumulatorKind.COUNT:
        return EgoCall(
            aggregate.function, arguments, (aggregate.type,) * len(arguments), aggregate.type, counts=True
        )
    if function.accumulator is not AccumulatorKind.SUM or aggregate.type.is_float:
        return None
    return EgoCall(
        aggregate.function, arguments, (aggregate.type,), aggregate_result_type(function, aggregate.type)
    )


def aggregate_result_type(function: AggregateFunction, operand: Type) -> Type:
    """Return the result type of an aggregate of one operand."""
    signature = function.rule((operand,))
    assert signature is not None
    return signature.result


def _convert_by_algorithm(base: Plan, rows: Ref, aggregate: plan.BasicAggregate) -> EgoReduce:
    below = base.nodes[rows]
    if isinstance(below, plan.Distinct) or aggregate.order:
        clause = "DISTINCT" if isinstance(below, plan.Distinct) else "ORDER BY"
        raise NotSupportedError(
            f"an aggregate with {clause} in an ego view is not supported",
            hint="write distinct_values(value), distinct_count(value) or top_k(value, k)",
        )
    arguments = tuple(place - 1 for place in aggregate.arguments)
    call = EgoCall(aggregate.function, arguments, aggregate.argument_types, aggregate.type)
    if not lookup_aggregate(aggregate.function).uses_tally:
        return EgoReduce(EgoFamily.STATES, (call,), rows)
    few = 0
    if len(arguments) > 1:
        limit = _constant_integer(base, rows, aggregate.arguments[1])
        if limit is None:
            return EgoReduce(EgoFamily.STATES, (call,), rows)
        few = limit
    return EgoReduce(EgoFamily.COUNTS, (call,), rows, limit=few)


def _constant_integer(base: Plan, rows: Ref, column: int) -> int | None:
    """Return the integer that a column has in all rows; None if it is no such constant."""
    node = base.nodes[rows]
    if not isinstance(node, plan.Linear):
        return None
    scalar: Scalar = node.mfp.outputs[column]
    if isinstance(scalar, Literal) and isinstance(scalar.value, int):
        return scalar.value
    return None


def _convert_in_python(base: Plan, aggregate: str, result: Type) -> EgoReduce:
    """Return the arguments for a plain call on the Python states of its algorithm."""
    function = find_builtin_aggregate(aggregate)
    rows = _unarranged_output(base)
    (_, value) = plan.Columns(base.nodes).types[rows]
    if function is None:
        raise NotSupportedError(
            f"the aggregate {aggregate.strip()} in an ego view is not supported",
            hint="write a call on value, such as sum(value), and compute with its result",
        )
    function = _specialize(function, value)
    return EgoReduce(EgoFamily.STATES, (EgoCall(function.name, (0,), (value,), result),), rows)


def _specialize(function: AggregateFunction, value: Type) -> AggregateFunction:
    name = function.by_kind.get(value.kind) or function.exact_by_kind.get(value.kind)
    return function if name is None else lookup_aggregate(name)


def _check_construction(construction: str, ego_reduce: EgoReduce) -> str:
    """Return the construction if the aggregate supports it.

    ``vnm_n`` needs an aggregate that can subtract, ``vnm_d`` an idempotent one. NotSupportedError
    otherwise.
    """
    function = ego_reduce.calls[0].function
    record = function.definition if isinstance(function, UserFunctionName) else lookup_aggregate(function)
    is_idempotent = ego_reduce.family in (EgoFamily.LEAST, EgoFamily.GREATEST)
    can_subtract = ego_reduce.family in (EgoFamily.SUMS, EgoFamily.COUNTS)
    if ego_reduce.family is EgoFamily.STATES:
        can_subtract = record.algorithm(ego_reduce.calls[0].argument_types).subtract is not None
        is_idempotent = record.idempotent and not can_subtract
    if construction == "vnm_n" and not can_subtract:
        raise NotSupportedError(
            f"an overlay by vnm_n for {record.name} is not supported: nothing can be taken away from it",
            hint="vnm_a and iob have no negative edges",
        )
    if construction == "vnm_d" and not is_idempotent:
        raise NotSupportedError(
            f"an overlay by vnm_d for {record.name} is not supported: it minds what comes twice",
            hint="vnm_d is for min, max and what is declared idempotent, without subtract",
        )
    return construction
