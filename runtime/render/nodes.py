"""From the nodes of a plan, and of loops' bodies, to operators that are connected with each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kpg.runtime import plan, user
from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.dataflow.scope import LoopScope, Scope
from kpg.runtime.errors import InternalError
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.operators.history import LoopDistinct, LoopReduce
from kpg.runtime.operators.loop import ArrangedLeave, Enter, Leave, Loop, Variable, everything
from kpg.runtime.operators.topk import GroupReader
from kpg.runtime.operators.userreduce import UserReduce
from kpg.runtime.render.build import build
from kpg.runtime.render.context import Context, Site
from kpg.runtime.render.identity import describe, fingerprint
from kpg.runtime.trace.handle import TraceHandle
from kpg.runtime.trace.spine import Spine

STATEFUL = (Arrange, LoopDistinct, LoopReduce, GroupReader, UserReduce)
"""Operators in loops that hold the contents of their output, and emit consolidated updates."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """The operators of a plan, one for each node, and which of them are new, in dependency order."""

    operators: tuple[Operator, ...]
    new: tuple[Operator, ...]


def render(source: plan.Plan, registry: Mapping[str, Operator], context: Context) -> Rendered:
    """Operators for all nodes; new ones are connected to their inputs but not yet hydrated."""
    level = Level(source.nodes, context, context.scope, registry)
    level.render()
    return Rendered(tuple(level.built), tuple(level.new))


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

    nodes: Sequence[plan.AnyNode]
    context: Context
    scope: Scope
    registry: Mapping[str, Operator]
    outer: "Level | None" = None
    built: list[Operator] = field(default_factory=list)
    new: list[Operator] = field(default_factory=list)

    def render(self) -> None:
        """Fill ``built`` and ``new``."""
        found: dict[str, Operator] = {}
        names: list[str] = []
        outer = [] if self.outer is None else [op.place.fingerprint for op in self.outer.built]
        for node in self.nodes:
            name = fingerprint(node, names, outer, self.context)
            operator = self._existing(node) or self.registry.get(name) or found.get(name)
            if operator is None:
                site = Site(name, describe(node, self.nodes, self.context), self.context, self.scope)
                operator = found[name] = self._build(node, site)
                self.new.append(operator)
            self.built.append(operator)
            names.append(operator.place.fingerprint)

    def _existing(self, node: plan.AnyNode) -> Operator | None:
        """The operator of a node that has none of its own."""
        match node:
            case plan.Import(view=view):
                return self.context.view_output(view)
            case user.Input(identity=identity):
                return self.context.input(identity)
            case plan.Arrange(input=ref) if _is_arrangement(self.built[ref]):
                return self.built[ref]
            case _:
                return None

    def _build(self, node: plan.AnyNode, site: Site) -> Operator:
        match node:
            case plan.Enter(input=ref):
                return self._enter(ref, site)
            case plan.Loop():
                return self._loop(node, site)
            case plan.Leave(loop=ref, result=result):
                return _leave(self.built[ref], result, site)
            case plan.Variable():
                return self._variable(node, site)
            case _:
                operator = build(node, site, self.built)
                for port, stream in enumerate(self._streams(node)):
                    stream.consumers.append((operator, port))
                return operator

    def _streams(self, node: plan.AnyNode) -> list[Operator]:
        """The operators whose output stream arrives at ports 0, 1, ... of the node."""
        match node:
            case plan.Concat(inputs=refs) | plan.Join(inputs=refs) | user.Custom(inputs=refs):
                return [self.built[ref] for ref in refs]
            case plan.RangeJoin(left=left, right=right):
                return [self.built[left], self.built[right]]
            case _:
                return [self.built[ref] for ref in plan.inputs(node)]

    def _enter(self, ref: plan.Ref, site: Site) -> Operator:
        if self.outer is None:
            raise InternalError("Enter outside of a loop")
        source = self.outer.built[ref]
        operator = Enter(site.over((source,), source.place.rowids))
        source.consumers.append((operator, 0))
        return operator

    def _variable(self, node: plan.Variable, site: Site) -> Operator:
        """Its result is connected when the body is complete."""
        inputs = () if node.initial is None else (self.built[node.initial],)
        operator = Variable(site.over(inputs, (None,) * len(node.types)))
        for source in inputs:
            source.consumers.append((operator, 1))
        return operator

    def _loop(self, node: plan.Loop, site: Site) -> Operator:
        scope = LoopScope(self.scope.step, self.scope.interrupt, self.scope.depth + 1, parent=self.scope)
        body = Level(node.body, self.context, scope, {}, self)
        body.render()
        for inner, operator in zip(node.body, body.built, strict=True):
            if isinstance(inner, plan.Variable) and isinstance(operator, Variable):
                operator.limit, operator.error_at_limit = node.limit, node.error_at_limit
                result = body.built[node.results[inner.index]]
                operator.consolidated = inner.initial is None and isinstance(result, STATEFUL)
                result.consumers.append((operator, 0))
        entered = tuple(self.built[ref] for ref in plan.inputs(node))
        results = tuple(body.built[ref] for ref in node.results)
        loop = Loop(site.over(entered, ()), body=tuple(body.new), results=results, within=scope)
        scope.loop = loop
        return loop


def _is_arrangement(operator: Operator) -> bool:
    while isinstance(operator, Enter):
        (operator,) = operator.inputs
    return isinstance(operator, Arrange)


def _leave(loop: Operator, result: int, site: Site) -> Operator:
    """The result's way out; with an arrangement of it if nothing inside holds its contents."""
    if not isinstance(loop, Loop):
        raise InternalError("Leave of a node that is not a loop")
    source = loop.results[result]
    place = site.over((source, loop), source.place.rowids)
    operator: Operator
    if isinstance(source, STATEFUL):
        operator = Leave(place)
    else:
        spine = Spine(source.width, site.scope.depth)
        operator = ArrangedLeave(place, key=source.width, spine=spine, handle=TraceHandle(spine))
    source.consumers.append((operator, 0))
    return operator
