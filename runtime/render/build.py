"""Rendering of plan nodes, and of loop bodies, as connected operators: one arm for each kind of node.

Rare operators are imported by the functions that build them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.runtime import plan
from kpg.runtime.dataflow.dataflow_graph import LoopScope, Operator, Scope
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import InternalError
from kpg.runtime.functions import AccumulatorKind, aggregate_named
from kpg.runtime.functions.registry import guard_of
from kpg.runtime.kernels import groups as group_kernels
from kpg.runtime.kernels import moments
from kpg.runtime.mfp import CompiledMfp
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.input import Source
from kpg.runtime.operators.linear import Concat, Constant, Late, Linear, Negate
from kpg.runtime.operators.loop import ArrangedLeave, Enter, Leave, Loop, Variable, everything
from kpg.runtime.operators.reduce import Distinct, LoopDistinct, LoopReduce, Reduce, Single
from kpg.runtime.plan import user
from kpg.runtime.records import dataclass
from kpg.runtime.render.context import Built, Context, Site, arrangement_of, with_inputs
from kpg.runtime.render.fingerprint import Identities, describe
from kpg.runtime.state.groups import Accumulator, GroupTable
from kpg.runtime.state.history import HistoryTable
from kpg.runtime.trace.spine import Spine, TraceHandle
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
            from kpg.runtime.render.joins import range_join  # lazy: a rare node

            return range_join(node, site, built, context)
        case plan.Reduce():
            return _reduce(node, site, built)
        case plan.Distinct(input=ref) | plan.Threshold(input=ref):
            return _distinct(site, built[ref], only=isinstance(node, plan.Distinct))
        case plan.Single(input=ref, key=key):
            return Single(site.over(built[ref]), table=GroupTable(key, ()))
        case plan.Expand(input=ref):
            from kpg.runtime.operators.expand import Expand, Expander  # lazy: a rare node

            expander = Expander(node, context.dictionary)
            return Expand(site.over(built[ref]), expander=expander, poll=site.scope.interrupt.check)
        case plan.TopK():
            return _top_k(node, site, built)
        case plan.BasicReduce():
            return _basic_reduce(node, site, built)
        case plan.Window():
            return _window(node, site, built)
        case plan.Ego():
            from kpg.runtime.render.user_nodes import ego  # lazy: a rare node

            return ego(node, site, built)
        case plan.Exchange():
            from kpg.runtime.render.exchange import exchange  # lazy: a rare node

            return exchange(node, site, built)
        case plan.Fold(input=ref):
            from kpg.runtime.operators.basic_reduce import Fold, folders  # lazy: a rare node

            places = folders(node.aggregates, context.dictionary)
            return Fold(site.over(built[ref]), group=node.key, folders=places)
        case user.Apply() | user.UserReduce() | user.Custom() | user.Sink() | user.Input() | user.EnterAt():
            from kpg.runtime.render.user_nodes import build_user  # lazy: a rare node

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
    from kpg.runtime.operators.topk import ExactOrder, TopK  # lazy: a rare node

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
    from kpg.runtime.operators.topk import ExactOrder  # lazy: a rare node
    from kpg.runtime.operators.windows.window_operator import Window, shape_of  # lazy: a rare node

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
    from kpg.runtime.operators.basic_reduce import BasicReduce, evaluators  # lazy: a rare node

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


@dataclass(frozen=True, slots=True)
class Rendered:
    """The operators of a plan and all that they read, and which of them are new, in dependency order."""

    operators: tuple[Operator, ...]
    new: tuple[Operator, ...]
    output: Operator
    identities: Identities


def render(
    source: plan.Plan, registry: Mapping[str, Operator], context: Context, known: Identities | None = None
) -> Rendered:
    """Operators for what is not there yet; new ones are connected to their inputs but not yet hydrated.

    What a context where all of it is the same had found of the plan need not be found again.

    An operator that exists is taken with what it reads, which may be less than its node does, or come by
    another way: what only such operators would read is not built.
    """
    identities = known or Identities(plan.Columns(source.nodes), context)
    level = Level(identities, context, context.scope, registry)
    level.render([source.output])
    operators = with_inputs(level.built.values(), level.imported)
    return Rendered(operators, tuple(level.new), level.built[source.output], identities)


def disconnect(operators: tuple[Operator, ...]) -> None:
    """Take operators, and those inside of loops, out of the consumer lists of all others.

    Loops let go of their bodies, so that the cycles of consumers do not keep them in memory.
    """
    gone = set(everything(operators))
    for operator in gone:
        for source in operator.inputs:
            source.consumers = [(c, port) for c, port in source.consumers if c not in gone]
        operator.consumers.clear()
    for operator in gone:
        if isinstance(operator, Loop):
            operator.body = operator.results = ()
            operator.touched.clear()


@dataclass(slots=True)
class Level:
    """The nodes of a plan or of a loop's body, on their way to operators of one scope.

    ``outer`` is the level that holds the loop, if it is one.
    """

    identities: Identities
    context: Context
    scope: Scope
    registry: Mapping[str, Operator]
    outer: "Level | None" = None
    built: dict[plan.Ref, Operator] = field(default_factory=dict)
    new: list[Operator] = field(default_factory=list)
    imported: set[Operator] = field(default_factory=set)

    @property
    def nodes(self) -> Sequence[plan.AnyNode]:
        """The nodes."""
        return self.identities.nodes

    def render(self, outputs: Iterable[plan.Ref]) -> None:
        """Fill ``built`` with all that the outputs need, and ``new``."""
        found: dict[str, Operator] = {}
        for ref in self._needed(outputs):
            name = self.identities.names[ref]
            operator = self._existing(ref) or found.get(name)
            if operator is None:
                node = self.nodes[ref]
                description = describe(node, self.nodes, self.context)
                content, types = self.identities.contents[ref], self.identities.types[ref]
                site = Site(name, description, self.context, self.scope, content, types)
                operator = self._build(ref, node, site)
                self.new.append(operator)
            self.built[ref] = found[name] = operator

    def _needed(self, outputs: Iterable[plan.Ref]) -> list[plan.Ref]:
        """The outputs, what operators that are to be built read, and the ways out of loops to be built."""
        needed: set[plan.Ref] = set()
        leaves = [ref for ref, node in enumerate(self.nodes) if isinstance(node, plan.Leave)]
        stack = list(outputs)
        while stack:
            ref = stack.pop()
            if ref in needed:
                continue
            needed.add(ref)
            node = self.nodes[ref]
            if self._existing(ref) is not None:
                continue
            stack += plan.sources(self.nodes, node)
            if isinstance(node, plan.Loop):
                stack += [leave for leave in leaves if ref in plan.inputs(self.nodes[leave])]
        return sorted(needed)

    def _existing(self, ref: plan.Ref) -> Operator | None:
        """The operator that was there before, if there is one, or an arrangement of what it would compute."""
        node, identities = self.nodes[ref], self.identities
        if isinstance(node, plan.Import):
            operator = self.context.view_output(node.view)
            self.imported.add(operator)
            return operator
        if isinstance(node, user.Input):
            return self.context.input(node.identity)
        return self.registry.get(identities.names[ref]) or self.registry.get(identities.arrangement(ref))

    def _build(self, ref: plan.Ref, node: plan.AnyNode, site: Site) -> Operator:
        match node:
            case plan.Enter(input=source):
                return self._enter(source, site)
            case plan.Loop():
                return self._loop(ref, node, site)
            case plan.Leave(loop=loop, result=result):
                return _leave(self.built[loop], result, site, arranged=self.identities.arranged[ref])
            case plan.Variable():
                return self._variable(node, site)
            case plan.DeltaJoin():
                return self._delta_join(ref, node, site)
            case _:
                return self._connected(build(node, site, self.built), plan.streams(node))

    def _connected(self, operator: Operator, streams: Iterable[plan.Ref]) -> Operator:
        """The operator, to whose ports the streams go."""
        for port, stream in enumerate(streams):
            self.built[stream].consumers.append((operator, port))
        return operator

    def _delta_join(self, ref: plan.Ref, node: plan.DeltaJoin, site: Site) -> Operator:
        from kpg.runtime.render.joins import delta_join, halves_of  # lazy: a rare node

        paths = plan.paths_of(self.nodes, node)
        if not all(path.is_whole for path in paths):
            from kpg.runtime.render.exchange import join_apart  # lazy: a rare node

            return join_apart(ref, paths, self)
        halves = self.identities.halves.get(ref)
        if halves is None:
            halves = self.identities.halves[ref] = halves_of(paths)
        inputs = [self.built[source] for source in plan.sources(self.nodes, node)]
        join = delta_join(halves, inputs, site, self.built)
        if self.context.sharing is not None:
            from kpg.runtime.render.exchange import followed  # lazy: a rare node

            join.chosen = followed(paths, self)
        return self._connected(join, (one.path.delta.input for one in halves))

    def _enter(self, ref: plan.Ref, site: Site) -> Operator:
        if self.outer is None:
            raise InternalError("Enter outside of a loop")
        source = self.outer.built[ref]
        operator = Enter(site.over(source))
        source.consumers.append((operator, 0))
        return operator

    def _variable(self, node: plan.Variable, site: Site) -> Operator:
        """Its result is connected when the body is complete."""
        inputs = () if node.initial is None else (self.built[node.initial],)
        operator = Variable(site.over(*inputs))
        for source in inputs:
            source.consumers.append((operator, 1))
        return operator

    def _loop(self, ref: plan.Ref, node: plan.Loop, site: Site) -> Operator:
        scope = LoopScope(self.scope.step, self.scope.interrupt, self.scope.depth + 1, parent=self.scope)
        body = Level(self.identities.bodies[ref], self.context, scope, {}, self)
        body.render(
            place
            for place, inner in enumerate(node.body)
            if not _on_a_path(inner, node.body)  # they are part of the join behind them
        )
        for place, inner in enumerate(node.body):
            operator = body.built.get(place)
            if isinstance(inner, plan.Variable) and isinstance(operator, Variable):
                operator.limit, operator.error_at_limit = node.limit, node.error_at_limit
                operator.result = result = body.built[node.results[inner.index]]
                operator.consolidated = inner.initial is None and body.identities.keeps(
                    node.results[inner.index]
                )
                result.consumers.append((operator, 0))
        entered = (self.built[ref] for ref in plan.inputs(node))
        results = tuple(body.built[ref] for ref in node.results)
        if self.context.sharing is not None:
            from kpg.runtime.render.exchange import loop_of  # lazy: a rare node

            loop = loop_of(self.context.sharing, site, tuple(entered), tuple(body.new), results, scope)
        else:
            loop = Loop(site.over(*entered), body=tuple(body.new), results=results, within=scope)
        scope.loop = loop
        return loop


def _on_a_path(node: plan.AnyNode, nodes: Sequence[plan.AnyNode]) -> bool:
    """Whether a node is on the path of a join, exchanges on it included."""
    if isinstance(node, plan.Exchange):
        node = nodes[node.input]
    return isinstance(node, plan.Delta | plan.HalfJoin)


def _leave(loop: Operator, result: int, site: Site, *, arranged: bool) -> Operator:
    """The result's way out; with an arrangement of it if nothing inside holds its contents."""
    if not isinstance(loop, Loop):
        raise InternalError("Leave of a node that is not a loop")
    source = loop.results[result]
    place = site.over(source, loop)
    operator: Operator = Leave(place)
    if arranged:
        spine = Spine(site.width, site.scope.depth, key=site.width, effort=site.context.merge_effort)
        operator = ArrangedLeave(place, key=site.width, spine=spine, handle=TraceHandle(spine))
    source.consumers.append((operator, 0))
    return operator
