"""One operator for each kind of plan node.

Operators that many programs have none of are imported by what builds them.
"""

from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.runtime import plan
from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import InternalError
from kpg.runtime.functions import AccumulatorKind, aggregate_named
from kpg.runtime.functions.shadows import guard_of
from kpg.runtime.kernels import groups as group_kernels
from kpg.runtime.kernels import moments
from kpg.runtime.mfp import CompiledMfp
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.history import LoopDistinct, LoopReduce
from kpg.runtime.operators.linear import Concat, Constant, Late, Linear, Negate
from kpg.runtime.operators.reduce import Distinct, Reduce, Single
from kpg.runtime.operators.source import Source
from kpg.runtime.plan import user
from kpg.runtime.render.context import Built, Site, arrangement_of
from kpg.runtime.state.groups import Accumulator, GroupTable
from kpg.runtime.state.history import HistoryTable
from kpg.runtime.trace.handle import TraceHandle
from kpg.runtime.trace.spine import Spine
from kpg.runtime.types import NULL


def build(node: plan.AnyNode, site: Site, built: Built) -> Operator:
    """One operator: one line per node, the work being in its constructor or a helper."""
    context = site.context
    match node:
        case plan.Source(table=table):
            return Source(site.over(), table=context.store(table), then=context.then, own=context.own)
        case plan.Constant():
            return Constant(site.over(), data=_constant(node, context.dictionary))
        case plan.Linear(input=ref, mfp=mfp):
            return _linear(site, built[ref], mfp)
        case plan.Concat(inputs=refs):
            return Concat(site.over(*(built[r] for r in refs)))
        case plan.Negate(input=ref):
            return Negate(site.over(built[ref]))
        case plan.Arrange(input=ref, key=key):
            return _arrange(site, built[ref], key)
        case plan.RangeJoin():
            from kpg.runtime.render.joins import range_join

            return range_join(node, site, built, context)
        case plan.Reduce():
            return _reduce(node, site, built)
        case plan.Distinct(input=ref) | plan.Threshold(input=ref):
            return _distinct(site, built[ref], only=isinstance(node, plan.Distinct))
        case plan.Single(input=ref, key=key):
            return Single(site.over(built[ref]), table=GroupTable(key, ()))
        case plan.Expand(input=ref):
            from kpg.runtime.operators.expand import Expand, Expander

            expander = Expander(node, context.dictionary)
            return Expand(site.over(built[ref]), expander=expander, poll=site.scope.interrupt.check)
        case plan.TopK():
            return _top_k(node, site, built)
        case plan.BasicReduce():
            return _basic_reduce(node, site, built)
        case plan.Window():
            return _window(node, site, built)
        case plan.Ego():
            from kpg.runtime.render.egos import ego

            return ego(node, site, built)
        case plan.Exchange():
            from kpg.runtime.render.shared import exchange

            return exchange(node, site, built)
        case plan.Fold(input=ref):
            from kpg.runtime.operators.fold import Fold, folders

            places = folders(node.aggregates, context.dictionary)
            return Fold(site.over(built[ref]), group=node.key, folders=places)
        case user.Apply() | user.UserReduce() | user.Custom() | user.Sink() | user.Input() | user.EnterAt():
            from kpg.runtime.render.users import build_user

            return build_user(node, site, built)
        case plan.Delta() | plan.HalfJoin() | plan.DeltaJoin():
            raise InternalError(f"{type(node).__name__} is built with the other nodes of its join")
        case plan.Import() | plan.Loop() | plan.Leave() | plan.Enter() | plan.Variable():
            raise InternalError(f"{type(node).__name__} is not built like other nodes")
        case _:
            assert_never(node)


def _linear(site: Site, source: Operator, mfp: plan.Mfp) -> Linear:
    """What is dear to compute waits until it is read, if it can be told without it where it fails."""
    compiled = CompiledMfp(mfp, site.context, later=site.context.restoring)
    if compiled.simple or site.scope.depth > 1:
        return Linear(site.over(source), mfp=compiled)
    guard = guard_of(mfp.predicates, mfp.outputs)
    if guard is None:
        return Linear(site.over(source), mfp=compiled)
    checking = CompiledMfp(plan.Mfp(*guard), site.context) if any(guard) else None
    return Late(site.over(source), mfp=compiled, guard=checking)


def _arrange(site: Site, source: Operator, key: int) -> Arrange:
    spine = Spine(site.width, site.scope.depth, key=key, effort=site.context.merge_effort)
    leading = site.types[0] if key else None
    return Arrange(site.over(source), key=key, spine=spine, handle=TraceHandle(spine), leading=leading)


def _top_k(node: plan.TopK, site: Site, built: Built) -> Operator:
    from kpg.runtime.operators.textorder import ExactOrder
    from kpg.runtime.operators.topk import TopK

    source = arrangement_of(built[node.input])
    exact = ExactOrder(node.exact, site.context.dictionary) if node.exact and node.limit != 0 else None
    return TopK(
        site.over(built[node.input]),
        arrangement=source,
        group=node.group,
        limit=node.limit,
        offset=node.offset,
        exact=exact,
    )


def _window(node: plan.Window, site: Site, built: Built) -> Operator:
    from kpg.runtime.operators.textorder import ExactOrder
    from kpg.runtime.operators.windows.operator import Window, shape_of

    source, dictionary = arrangement_of(built[node.input]), site.context.dictionary
    return Window(
        site.over(built[node.input]),
        arrangement=source,
        group=node.partition,
        peers=node.peers,
        calls=node.calls,
        exact=ExactOrder(node.exact, dictionary) if node.exact else None,
        dictionary=dictionary,
        shape=shape_of(source.width, node.peers, node.calls, node.exact, dictionary),
    )


def _basic_reduce(node: plan.BasicReduce, site: Site, built: Built) -> Operator:
    from kpg.runtime.operators.basic import BasicReduce, evaluators

    source = arrangement_of(built[node.input])
    return BasicReduce(
        site.over(built[node.input]),
        arrangement=source,
        group=node.key,
        evaluators=evaluators(node.aggregates, site.context.dictionary),
    )


def _reduce(node: plan.Reduce, site: Site, built: Built) -> Operator:
    source, key = built[node.input], node.key
    place = site.over(source)
    accumulators = tuple(_accumulator(aggregate) for aggregate in node.aggregates)
    if site.scope.depth > 1:
        history = HistoryTable(key, accumulators, site.scope.depth)
        return LoopReduce(place, table=history, aggregates=node.aggregates)
    return Reduce(place, table=GroupTable(key, accumulators), aggregates=node.aggregates)


def _distinct(site: Site, source: Operator, *, only: bool) -> Operator:
    """Distinct, or with ``only`` False threshold."""
    place = site.over(source)
    if site.scope.depth > 1:
        return LoopDistinct(place, table=HistoryTable(source.width, (), site.scope.depth), distinct=only)
    return Distinct(place, table=GroupTable(source.width, ()), distinct=only)


def _constant(node: plan.Constant, dictionary: Dictionary) -> NDArray[np.int64]:
    data = np.empty((len(node.types), len(node.rows)), np.int64)
    for place, values in enumerate(zip(*node.rows, strict=True)):
        if any(isinstance(value, str) for value in values):
            data[place] = dictionary.intern([None if value is None else str(value) for value in values])
        else:
            data[place] = [NULL if value is None else int(value) for value in values]
    return data


def _accumulator(aggregate: plan.Aggregate) -> Accumulator:
    """The state of one aggregate; ``count(*)`` reads the group's own count through column -1."""
    argument = -1 if aggregate.argument is None else aggregate.argument
    match aggregate_named(aggregate.function).accumulator:
        case AccumulatorKind.COUNT:
            return Accumulator(group_kernels.COUNT, argument)
        case AccumulatorKind.SUM:
            kind = group_kernels.SUM_DOUBLE if aggregate.type.is_float else group_kernels.SUM
            return Accumulator(kind, argument)
        case AccumulatorKind.ONLY:
            return Accumulator(group_kernels.SUM, argument)
        case AccumulatorKind.COMOMENT:
            return _pair(argument, aggregate.second, double=aggregate.type.is_float)
        case AccumulatorKind.BIT_AND:
            return Accumulator(moments.BIT_AND, argument)
        case AccumulatorKind.BIT_OR:
            return Accumulator(moments.BIT_OR, argument)
        case AccumulatorKind.BIT_XOR:
            return Accumulator(moments.BIT_XOR, argument)
        case None:
            raise InternalError(f"{aggregate.function} is not an accumulable aggregate")
        case accumulator:
            assert_never(accumulator)


def _pair(first: int, second: int | None, *, double: bool) -> Accumulator:
    """The state of the products of two operands, which may be one and the same."""
    assert second is not None
    if first == second:
        return Accumulator(moments.SPREAD_DOUBLE if double else moments.SPREAD, first, first)
    return Accumulator(moments.COMOMENT_DOUBLE if double else moments.COMOMENT, first, second)
