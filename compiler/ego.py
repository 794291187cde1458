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
from kpg.runtime.functions import AccumulatorKind, aggregate_named, is_aggregate
from kpg.runtime.functions.aggregation.definition import AggregateFunction, Trend
from kpg.runtime.plan import EgoCall, EgoFamily, Mfp, Plan, Ref, inputs, moved
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Fetch, Literal, Named, Scalar, columns, remap
from kpg.runtime.types import Type

CALL: Final = re.compile(r"\s*(\w+)\s*\(\s*(?:value|\*)\s*\)\s*", re.IGNORECASE)
"""A call of an aggregate on nothing but what was written."""


@dataclass(frozen=True, slots=True)
class EgoQuery:
    """What an ego view is, in SQL: ``pairs`` (reader, writer), ``writes`` (node, value), an aggregate."""

    pairs: str
    writes: str
    aggregate: str
    continuous: str | None = None
    """Readers that are pushed anyway, each once."""

    @property
    def meaning(self) -> str:
        """The view as plain SQL."""
        return (
            f"SELECT p.reader AS node, {self.aggregate} AS value FROM ({self.pairs}) AS p"
            f" JOIN ({self.writes}) AS w ON w.node = p.writer GROUP BY p.reader"
        )

    @property
    def by_writer(self) -> str:
        """The aggregate of each writer's window."""
        return f"SELECT node, {self.aggregate} AS value FROM ({self.writes}) AS w GROUP BY node"

    @property
    def written(self) -> str:
        """What is in windows."""
        return f"SELECT node, value FROM ({self.writes}) AS w"


def function_of(aggregate: str) -> AggregateFunction | None:
    """The aggregate that a text is a plain call of, if it is one of the system's."""
    found = CALL.fullmatch(aggregate)
    return aggregate_named(found[1].lower()) if found and is_aggregate(found[1].lower()) else None


@dataclass(frozen=True, slots=True)
class How:
    """What a reduce becomes: a family, over ``mfp`` of the rows of a node.

    ``renamed`` are columns that what comes after it knows by other places.
    """

    family: EgoFamily
    calls: tuple[EgoCall, ...]
    rows: Ref
    mfp: Mfp | None = None
    renamed: tuple[tuple[int, int], ...] = ()
    few: int = 0


def ego_plan(
    pairs: Plan, grouped: Plan, written: Callable[[], Plan], aggregate: str, construction: str, mode: str,
    continuous: Plan | None = None,
) -> Plan:  # fmt: skip
    """The plan of an ego view, from those of pairs, of the aggregate by writer, and of what is written."""
    base = without_numbers(grouped)
    end = _stripped(base)
    above: list[Mfp] = []
    while isinstance(node := base.nodes[end], plan.Linear):
        above.append(node.mfp)
        end = node.input
    types = plan.Columns(base.nodes).types
    how = _compiled(base, end, types, aggregate)
    if how is None:
        result = plan.Columns(grouped.nodes).types[_stripped(grouped)][1]
        base, above = without_numbers(written()), []
        how = _in_python(base, aggregate, result)
    nodes: list[plan.AnyNode] = [*pairs.nodes]
    nodes += [moved(node, lambda ref: ref + len(pairs.nodes)) for node in base.nodes]
    rows = how.rows + len(pairs.nodes)
    if how.mfp is not None:
        nodes.append(plan.Linear(rows, how.mfp))
        rows = len(nodes) - 1
    kept = None
    if continuous is not None:
        count = len(nodes)
        nodes += [moved(node, lambda ref: ref + count) for node in continuous.nodes]
        kept = _stripped(continuous) + count
    made = _built(construction, how)
    nodes.append(plan.Ego(_stripped(pairs), rows, how.family, how.calls, made, mode, how.few, kept))
    for mfp in reversed(above):
        nodes.append(plan.Linear(len(nodes) - 1, _renamed(mfp, dict(how.renamed))))
    return pruned(nodes, len(nodes) - 1)


def _stripped(of: Plan) -> Ref:
    """What the plan's result is an index of."""
    node = of.nodes[of.output]
    return node.input if isinstance(node, plan.Arrange) else of.output


def _renamed(mfp: Mfp, places: dict[int, int]) -> Mfp:
    if not places:
        return mfp

    def place(column: int) -> int:
        return places.get(column, column)

    return Mfp(
        tuple(remap(one, place) for one in mfp.predicates), tuple(remap(one, place) for one in mfp.outputs)
    )


def without_numbers(of: Plan) -> Plan:
    """The plan without windows that only number the rows of a top-k, which are at most its limit."""
    nodes = list(of.nodes)
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
        rest = tuple(one for one in node.mfp.predicates if number not in columns(one))
        if any(number in columns(one) for one in node.mfp.outputs):
            continue
        nodes[ref] = plan.Linear(arranged.input, Mfp(rest, node.mfp.outputs))
    return pruned(nodes, of.output)


def pruned(nodes: Sequence[plan.AnyNode], output: Ref) -> Plan:
    """The plan of those nodes that the output needs."""
    needed: set[Ref] = set()
    waiting = [output]
    while waiting:
        ref = waiting.pop()
        if ref not in needed:
            needed.add(ref)
            waiting += inputs(nodes[ref])
    order = sorted(needed)
    place = {ref: at for at, ref in enumerate(order)}
    return Plan(tuple(moved(nodes[ref], place.__getitem__) for ref in order), place[output])


def renamed(of: Plan, was: str, name: str) -> Plan:
    """The plan when a table that it reads has another name."""

    def followed(part: Any) -> Any:
        if isinstance(part, tuple):
            return tuple(map(followed, part))
        if not is_dataclass(part) or isinstance(part, type):
            return part
        old = {field.name: getattr(part, field.name) for field in fields(part) if field.init}
        new = {field: followed(value) for field, value in old.items()}
        if isinstance(part, plan.Source | Fetch) and part.table == was:
            new["table"] = name
        return part if all(new[field] is value for field, value in old.items()) else replace(part, **new)

    made: Plan = followed(of)
    return made


def _compiled(base: Plan, end: Ref, types: Sequence[tuple[Type, ...]], aggregate: str) -> How | None:
    """How the reduce of a plan is done by a compiled family, or by the algorithm that it has anyway."""
    node = base.nodes[end]
    if isinstance(node, plan.Reduce) and node.key == 1:
        return _summing(base, node)
    if isinstance(node, plan.TopK) and (node.group, node.limit, node.offset) == (1, 1, 0) and not node.exact:
        return _extreme(base, node, types[end], aggregate)
    if isinstance(node, plan.Fold) and node.key == 1 and len(node.aggregates) == 1:
        return _by_algorithm(base, node.input, node.aggregates[0])
    if isinstance(node, plan.BasicReduce) and node.key == 1 and len(node.aggregates) == 1:
        below = base.nodes[node.input]
        assert isinstance(below, plan.Arrange)
        return _by_algorithm(base, below.input, node.aggregates[0])
    return None


def _summing(base: Plan, node: plan.Reduce) -> How | None:
    """Counts and sums, if all aggregates are such."""
    if not isinstance(base.nodes[node.input], plan.Linear | plan.RangeJoin | plan.DeltaJoin | plan.Concat):
        return None
    calls = tuple(map(_summed, node.aggregates))
    known = [call for call in calls if call is not None]
    return How(EgoFamily.SUMS, tuple(known), node.input) if len(known) == len(calls) else None


def _extreme(base: Plan, node: plan.TopK, types: tuple[Type, ...], aggregate: str) -> How | None:
    """The least or the greatest value."""
    function, below = function_of(aggregate), base.nodes[node.input]
    if function is None or function.trend is None or not isinstance(below, plan.Arrange) or len(types) != 3:
        return None
    mfp = Mfp((), (Column(0, types[0]), Column(2, types[2])))
    family = EgoFamily.GREATEST if function.trend is Trend.UP else EgoFamily.LEAST
    call = EgoCall(function.name, (0,), (types[2],), types[2])
    return How(family, (call,), below.input, mfp, ((2, 1),))


def _summed(one: plan.Aggregate) -> EgoCall | None:
    """A count, or a sum of words."""
    function = aggregate_named(one.function)
    arguments = () if one.argument is None else (one.argument - 1,)
    if function.accumulator is AccumulatorKind.COUNT:
        return EgoCall(one.function, arguments, (one.type,) * len(arguments), one.type, counts=True)
    if function.accumulator is not AccumulatorKind.SUM or one.type.is_float:
        return None
    return EgoCall(one.function, arguments, (one.type,), function_type(function, one.type))


def function_type(function: AggregateFunction, operand: Type) -> Type:
    """The type of an aggregate of one operand."""
    signature = function.rule((operand,))
    assert signature is not None
    return signature.result


def _by_algorithm(base: Plan, rows: Ref, one: plan.BasicAggregate) -> How:
    below = base.nodes[rows]
    if isinstance(below, plan.Distinct) or one.order:
        what = "DISTINCT" if isinstance(below, plan.Distinct) else "ORDER BY"
        raise NotSupportedError(
            f"an aggregate with {what} in an ego view is not supported",
            hint="distinct_values(value), distinct_count(value) and top_k(value, k) are kept",
        )
    arguments = tuple(place - 1 for place in one.arguments)
    call = EgoCall(one.function, arguments, one.argument_types, one.type)
    if not aggregate_named(one.function).tallied:
        return How(EgoFamily.STATES, (call,), rows)
    few = 0
    if len(arguments) > 1:
        limit = _literal(base, rows, one.arguments[1])
        if limit is None:
            return How(EgoFamily.STATES, (call,), rows)
        few = limit
    return How(EgoFamily.COUNTS, (call,), rows, few=few)


def _literal(base: Plan, rows: Ref, column: int) -> int | None:
    """The number that a column is in all rows."""
    node = base.nodes[rows]
    if not isinstance(node, plan.Linear):
        return None
    scalar: Scalar = node.mfp.outputs[column]
    if isinstance(scalar, Literal) and isinstance(scalar.value, int):
        return scalar.value
    return None


def _in_python(base: Plan, aggregate: str, result: Type) -> How:
    """How a plain call of an aggregate is done on its algorithm's states."""
    function = function_of(aggregate)
    rows = _stripped(base)
    (_, value) = plan.Columns(base.nodes).types[rows]
    if function is None:
        raise NotSupportedError(
            f"the aggregate {aggregate.strip()} in an ego view is not supported",
            hint="write a call on value, such as sum(value), and compute with what is read",
        )
    function = _special(function, value)
    return How(EgoFamily.STATES, (EgoCall(function.name, (0,), (value,), result),), rows)


def _special(function: AggregateFunction, value: Type) -> AggregateFunction:
    name = function.over.get(value.kind) or function.exact.get(value.kind)
    return function if name is None else aggregate_named(name)


def _built(construction: str, how: How) -> str:
    """The construction, which may not take away, or repeat, where the aggregate minds that."""
    function = how.calls[0].function
    record = function.definition if isinstance(function, Named) else aggregate_named(function)
    repeats = how.family in (EgoFamily.LEAST, EgoFamily.GREATEST)
    takes = how.family in (EgoFamily.SUMS, EgoFamily.COUNTS)
    if how.family is EgoFamily.STATES:
        takes = record.algorithm(how.calls[0].argument_types).subtract is not None
        repeats = record.idempotent and not takes
    if construction == "vnm_n" and not takes:
        raise NotSupportedError(
            f"an overlay by vnm_n for {record.name} is not supported: nothing can be taken away from it",
            hint="vnm_a and iob have no negative edges",
        )
    if construction == "vnm_d" and not repeats:
        raise NotSupportedError(
            f"an overlay by vnm_d for {record.name} is not supported: it minds what comes twice",
            hint="vnm_d is for min, max and what is declared idempotent, without subtract",
        )
    return construction
