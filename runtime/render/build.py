"""Rendering of plan nodes, and of loop bodies, as connected operators: one case for each kind of node.

Rare operators are imported by the functions that build them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.runtime import plan
from kpg.runtime.dataflow.dataflow_graph import LoopScope, Operator, Scope
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import InternalError
from kpg.runtime.functions import AccumulatorKind, lookup_aggregate
from kpg.runtime.functions.registry import guard_of
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.kernels import groups as group_kernels
from kpg.runtime.kernels import moments
from kpg.runtime.mfp import CompiledMfp
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.input import Source
from kpg.runtime.operators.linear import Concat, Constant, Laziness, Linear, Negate
from kpg.runtime.operators.loop import Enter, Leave, Loop, Variable, iterate_operators
from kpg.runtime.operators.reduce import AggregateOutput, LoopReduce, Reduce, Single, ThresholdOutput
from kpg.runtime.plan import user
from kpg.runtime.records import dataclass
from kpg.runtime.render.context import Built, Context, Site, arrangement_of, with_inputs
from kpg.runtime.render.fingerprint import Identities, describe
from kpg.runtime.state.groups import Accumulator, GroupTable
from kpg.runtime.state.history import HistoryTable
from kpg.runtime.trace.spine import Spine, TraceHandle
from kpg.runtime.types import NULL

if TYPE_CHECKING:
    from kpg.runtime.operators import basic_reduce, expand, topk
    from kpg.runtime.operators.windows import window_operator
    from kpg.runtime.render import exchange as exchanges
    from kpg.runtime.render import joins, user_nodes
else:
    joins = LazyModule("kpg.runtime.render.joins")
    expand = LazyModule("kpg.runtime.operators.expand")
    user_nodes = LazyModule("kpg.runtime.render.user_nodes")
    exchanges = LazyModule("kpg.runtime.render.exchange")
    basic_reduce = LazyModule("kpg.runtime.operators.basic_reduce")
    topk = LazyModule("kpg.runtime.operators.topk")
    window_operator = LazyModule("kpg.runtime.operators.windows.window_operator")


def build(node: plan.AnyNode, site: Site, built: Built) -> Operator:
    """Return a new operator for the node, not yet connected to its inputs."""
    context = site.context
    match node:
        case plan.Source(table=table):
            return Source(
                site.place_after(),
                table=context.store(table),
                as_of=context.as_of_epoch,
                reads_pending=context.reads_pending,
            )
        case plan.Constant():
            return Constant(site.place_after(), data=_constant(node, context.dictionary))
        case plan.Linear(input=ref, mfp=mfp):
            return _linear(site, built[ref], mfp)
        case plan.Concat(inputs=refs):
            return Concat(site.place_after(*(built[r] for r in refs)))
        case plan.Negate(input=ref):
            return Negate(site.place_after(built[ref]))
        case plan.Arrange(input=ref, key=key):
            return _arrange(site, built[ref], key)
        case plan.RangeJoin():
            return joins.build_range_join(node, site, built, context)
        case plan.Reduce():
            return _reduce(node, site, built)
        case plan.Distinct(input=ref) | plan.Threshold(input=ref):
            return _distinct(site, built[ref], is_distinct=isinstance(node, plan.Distinct))
        case plan.Single(input=ref, key=key):
            return Single(site.place_after(built[ref]), table=GroupTable(key, ()))
        case plan.Expand(input=ref):
            expander = expand.Expander(node, context.dictionary)
            return expand.Expand(
                site.place_after(built[ref]), expander=expander, poll=site.scope.interrupt.check
            )
        case plan.TopK():
            return _top_k(node, site, built)
        case plan.BasicReduce():
            return _basic_reduce(node, site, built)
        case plan.Window():
            return _window(node, site, built)
        case plan.Ego():
            return user_nodes.build_ego(node, site, built)
        case plan.Exchange():
            return exchanges.build_exchange(node, site, built)
        case plan.Fold(input=ref):
            places = basic_reduce.make_folders(node.aggregates, context.dictionary)
            return basic_reduce.Fold(site.place_after(built[ref]), group=node.key, folders=places)
        case user.Apply() | user.UserReduce() | user.Custom() | user.Sink() | user.Input() | user.EnterAt():
            return user_nodes.build_user(node, site, built)
        case plan.Delta() | plan.HalfJoin() | plan.DeltaJoin():
            raise InternalError(f"{type(node).__name__} is built with the other nodes of its join")
        case plan.Import() | plan.Loop() | plan.Leave() | plan.Enter() | plan.Variable():
            raise InternalError(f"{type(node).__name__} is not built like other nodes")
        case _:
            assert_never(node)


def _linear(site: Site, source: Operator, mfp: plan.Mfp) -> Linear:
    """Build a linear operator; expensive expressions become lazy if a guard can detect their errors."""
    compiled = CompiledMfp(mfp, site.context, lazy=site.context.is_restoring)
    if compiled.is_simple or site.scope.depth > 1:
        return Linear(site.place_after(source), mfp=compiled)
    guard = guard_of(mfp.predicates, mfp.outputs)
    if guard is None:
        return Linear(site.place_after(source), mfp=compiled)
    checking = CompiledMfp(plan.Mfp(*guard), site.context) if any(guard) else None
    return Linear(site.place_after(source), mfp=compiled, lazy=Laziness(checking))


def _arrange(site: Site, source: Operator, key: int) -> Arrange:
    spine = Spine(site.width, site.scope.depth, key=key, effort=site.context.merge_effort)
    leading = site.types[0] if key else None
    return Arrange(
        site.place_after(source), key=key, spine=spine, handle=TraceHandle(spine), leading_type=leading
    )


def _top_k(node: plan.TopK, site: Site, built: Built) -> Operator:
    source = arrangement_of(built[node.input])
    exact = topk.ExactOrder(node.exact, site.context.dictionary) if node.exact and node.limit != 0 else None
    return topk.TopK(
        site.place_after(built[node.input]),
        arrangement=source,
        group=node.group,
        limit=node.limit,
        offset=node.offset,
        exact=exact,
    )


def _window(node: plan.Window, site: Site, built: Built) -> Operator:
    source, dictionary = arrangement_of(built[node.input]), site.context.dictionary
    return window_operator.Window(
        site.place_after(built[node.input]),
        arrangement=source,
        group=node.partition,
        peers=node.peers,
        calls=node.calls,
        exact=topk.ExactOrder(node.exact, dictionary) if node.exact else None,
        dictionary=dictionary,
        index_spec=window_operator.make_index_spec(
            source.width, node.peers, node.calls, node.exact, dictionary
        ),
    )


def _basic_reduce(node: plan.BasicReduce, site: Site, built: Built) -> Operator:
    source = arrangement_of(built[node.input])
    return basic_reduce.BasicReduce(
        site.place_after(built[node.input]),
        arrangement=source,
        group=node.key,
        evaluators=basic_reduce.make_evaluators(node.aggregates, site.context.dictionary),
    )


def _reduce(node: plan.Reduce, site: Site, built: Built) -> Operator:
    source, key = built[node.input], node.key
    place = site.place_after(source)
    accumulators = tuple(_accumulator(aggregate) for aggregate in node.aggregates)
    if site.scope.depth > 1:
        history = HistoryTable(key, accumulators, site.scope.depth)
        return LoopReduce(place, table=history, output=AggregateOutput(node.aggregates))
    return Reduce(place, table=GroupTable(key, accumulators), output=AggregateOutput(node.aggregates))


def _distinct(site: Site, source: Operator, *, is_distinct: bool) -> Operator:
    """Build a distinct, or a threshold if ``is_distinct`` is False."""
    place, output = site.place_after(source), ThresholdOutput(is_distinct)
    if site.scope.depth > 1:
        return LoopReduce(place, table=HistoryTable(source.width, (), site.scope.depth), output=output)
    return Reduce(place, table=GroupTable(source.width, ()), output=output)


def _constant(node: plan.Constant, dictionary: Dictionary) -> NDArray[np.int64]:
    data = np.empty((len(node.types), len(node.rows)), np.int64)
    for place, values in enumerate(zip(*node.rows, strict=True)):
        if any(isinstance(value, str) for value in values):
            data[place] = dictionary.intern([None if value is None else str(value) for value in values])
        else:
            data[place] = [NULL if value is None else int(value) for value in values]
    return data


def _accumulator(aggregate: plan.Aggregate) -> Accumulator:
    """Return the state of one aggregate; ``count(*)`` reads the group's own count through column -1."""
    argument = -1 if aggregate.argument is None else aggregate.argument
    match lookup_aggregate(aggregate.function).accumulator:
        case AccumulatorKind.COUNT:
            return Accumulator(group_kernels.COUNT, argument)
        case AccumulatorKind.SUM:
            kind = group_kernels.SUM_DOUBLE if aggregate.type.is_float else group_kernels.SUM
            return Accumulator(kind, argument)
        case AccumulatorKind.ONLY:
            return Accumulator(group_kernels.SUM, argument)
        case AccumulatorKind.COMOMENT:
            return _comoment_accumulator(argument, aggregate.second, double=aggregate.type.is_float)
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


def _comoment_accumulator(first: int, second: int | None, *, double: bool) -> Accumulator:
    """Return the state of the products of two operands, which may be the same column."""
    assert second is not None
    if first == second:
        return Accumulator(moments.SPREAD_DOUBLE if double else moments.SPREAD, first, first)
    return Accumulator(moments.COMOMENT_DOUBLE if double else moments.COMOMENT, first, second)


@dataclass(frozen=True, slots=True)
class RenderResult:
    """Operators of a plan with all that they read, and which of them are new, in dependency order."""

    operators: tuple[Operator, ...]
    new: tuple[Operator, ...]
    output: Operator
    identities: Identities


def render(
    source: plan.Plan,
    registry: Mapping[str, Operator],
    context: Context,
    known_identities: Identities | None = None,
) -> RenderResult:
    """Return the plan's operators; new ones are connected to their inputs but not yet hydrated.

    ``known_identities`` can be passed from an earlier rendering in an equal context.

    An existing operator is used with its own inputs, which may be fewer than the node's or computed
    differently. Nodes that only such operators would read are not built.
    """
    identities = known_identities or Identities(plan.Columns(source.nodes), context)
    level = Level(identities, context, context.scope, registry)
    level.render([source.output])
    operators = with_inputs(level.built.values(), level.imported_operators)
    return RenderResult(operators, tuple(level.new), level.built[source.output], identities)


def disconnect(operators: tuple[Operator, ...]) -> None:
    """Remove operators, and those inside loops, from the consumer lists of all others.

    Loops release their bodies, so that cycles of consumers do not keep them in memory.
    """
    removed = set(iterate_operators(operators))
    for operator in removed:
        for source in operator.inputs:
            source.consumers = [(c, port) for c, port in source.consumers if c not in removed]
        operator.consumers.clear()
    for operator in removed:
        if isinstance(operator, Loop):
            operator.body = operator.results = ()
            operator.touched_operators.clear()


@dataclass(slots=True)
class Level:
    """The nodes of a plan or of a loop's body while they are rendered in one scope.

    ``outer`` is the level that contains the loop, if this is a body.
    """

    identities: Identities
    context: Context
    scope: Scope
    registry: Mapping[str, Operator]
    outer: "Level | None" = None
    built: dict[plan.Ref, Operator] = field(default_factory=dict)
    new: list[Operator] = field(default_factory=list)
    imported_operators: set[Operator] = field(default_factory=set)

    @property
    def nodes(self) -> Sequence[plan.AnyNode]:
        """The nodes."""
        return self.identities.nodes

    def render(self, outputs: Iterable[plan.Ref]) -> None:
        """Build everything that the outputs need: fills ``built`` and ``new``."""
        by_fingerprint: dict[str, Operator] = {}
        for ref in self._collect_needed(outputs):
            name = self.identities.names[ref]
            operator = self._find_existing(ref) or by_fingerprint.get(name)
            if operator is None:
                node = self.nodes[ref]
                description = describe(node, self.nodes, self.context)
                content, types = self.identities.contents[ref], self.identities.types[ref]
                site = Site(name, description, self.context, self.scope, content, types)
                operator = self._build(ref, node, site)
                self.new.append(operator)
            self.built[ref] = by_fingerprint[name] = operator

    def _collect_needed(self, outputs: Iterable[plan.Ref]) -> list[plan.Ref]:
        """Return the outputs, the inputs of operators to be built, and all leaves of loops to be built."""
        needed: set[plan.Ref] = set()
        leaves = [ref for ref, node in enumerate(self.nodes) if isinstance(node, plan.Leave)]
        stack = list(outputs)
        while stack:
            ref = stack.pop()
            if ref in needed:
                continue
            needed.add(ref)
            node = self.nodes[ref]
            if self._find_existing(ref) is not None:
                continue
            stack += plan.sources(self.nodes, node)
            if isinstance(node, plan.Loop):
                stack += [leave for leave in leaves if ref in plan.inputs(self.nodes[leave])]
        return sorted(needed)

    def _find_existing(self, ref: plan.Ref) -> Operator | None:
        """Return the existing operator of the node, or an existing arrangement of its result; else None."""
        node, identities = self.nodes[ref], self.identities
        if isinstance(node, plan.Import):
            operator = self.context.view_output(node.view)
            self.imported_operators.add(operator)
            return operator
        if isinstance(node, user.Input):
            return self.context.input(node.identity)
        return self.registry.get(identities.names[ref]) or self.registry.get(identities.arrangement_name(ref))

    def _build(self, ref: plan.Ref, node: plan.AnyNode, site: Site) -> Operator:
        match node:
            case plan.Enter(input=source):
                return self._enter(source, site)
            case plan.Loop():
                return self._loop(ref, node, site)
            case plan.Leave(loop=loop, result=result):
                return _leave(self.built[loop], result, site, is_arranged=self.identities.is_arranged[ref])
            case plan.Variable():
                return self._variable(node, site)
            case plan.DeltaJoin():
                return self._delta_join(ref, node, site)
            case _:
                return self._connect(build(node, site, self.built), plan.streams(node))

    def _connect(self, operator: Operator, streams: Iterable[plan.Ref]) -> Operator:
        """Connect the streams to the operator's ports and return the operator."""
        for port, stream in enumerate(streams):
            self.built[stream].consumers.append((operator, port))
        return operator

    def _delta_join(self, ref: plan.Ref, node: plan.DeltaJoin, site: Site) -> Operator:
        paths = plan.paths_of(self.nodes, node)
        if not all(path.is_local for path in paths):
            return exchanges.build_distributed_join(ref, paths, self)
        halves = self.identities.compact_paths.get(ref)
        if halves is None:
            halves = self.identities.compact_paths[ref] = joins.compact_paths(paths)
        inputs = [self.built[source] for source in plan.sources(self.nodes, node)]
        join = joins.build_delta_join(halves, inputs, site, self.built)
        if self.context.worker_group is not None:
            join.hydration_path = exchanges.choose_hydration_path(paths, self)
        return self._connect(join, (compact_path.path.delta.input for compact_path in halves))

    def _enter(self, ref: plan.Ref, site: Site) -> Operator:
        if self.outer is None:
            raise InternalError("Enter outside of a loop")
        source = self.outer.built[ref]
        operator = Enter(site.place_after(source))
        source.consumers.append((operator, 0))
        return operator

    def _variable(self, node: plan.Variable, site: Site) -> Operator:
        """Build a variable; its result is connected when the body is complete."""
        inputs = () if node.initial is None else (self.built[node.initial],)
        operator = Variable(site.place_after(*inputs))
        for source in inputs:
            source.consumers.append((operator, 1))
        return operator

    def _loop(self, ref: plan.Ref, node: plan.Loop, site: Site) -> Operator:
        scope = LoopScope(self.scope.step, self.scope.interrupt, self.scope.depth + 1, parent=self.scope)
        body = Level(self.identities.bodies[ref], self.context, scope, {}, self)
        body.render(
            place
            for place, inner in enumerate(node.body)
            if not _is_on_path(inner, node.body)  # they are built with their join
        )
        for place, inner in enumerate(node.body):
            operator = body.built.get(place)
            if isinstance(inner, plan.Variable) and isinstance(operator, Variable):
                operator.limit, operator.error_at_limit = node.limit, node.error_at_limit
                operator.result = result = body.built[node.results[inner.index]]
                operator.is_consolidated = inner.initial is None and body.identities.holds_output(
                    node.results[inner.index]
                )
                result.consumers.append((operator, 0))
        entered = (self.built[ref] for ref in plan.inputs(node))
        results = tuple(body.built[ref] for ref in node.results)
        if self.context.worker_group is not None:
            loop = exchanges.build_loop(
                self.context.worker_group, site, tuple(entered), tuple(body.new), results, scope
            )
        else:
            loop = Loop(site.place_after(*entered), body=tuple(body.new), results=results, body_scope=scope)
        scope.loop = loop
        return loop


def _is_on_path(node: plan.AnyNode, nodes: Sequence[plan.AnyNode]) -> bool:
    """Return whether a node, or the exchange before it, is on the path of a join."""
    if isinstance(node, plan.Exchange):
        node = nodes[node.input]
    return isinstance(node, plan.Delta | plan.HalfJoin)


def _leave(loop: Operator, result: int, site: Site, *, is_arranged: bool) -> Operator:
    """Build a leave, with an arrangement if no operator of the body holds the result."""
    if not isinstance(loop, Loop):
        raise InternalError("Leave of a node that is not a loop")
    source = loop.results[result]
    place = site.place_after(source, loop)
    operator: Operator = Leave(place)
    if is_arranged:
        spine = Spine(site.width, site.scope.depth, key=site.width, effort=site.context.merge_effort)
        handle = TraceHandle(spine)
        operator = Arrange(place, key=site.width, spine=spine, handle=handle, leaves_loop=True)
    source.consumers.append((operator, 0))
    return operator
