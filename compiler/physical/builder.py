"""The node list of a plan under construction: equal nodes are one node."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from kpg.compiler.physical.mfp import is_identity
from kpg.runtime import plan
from kpg.runtime.errors import InternalError
from kpg.runtime.plan import AnyNode, Mfp, Node, Plan, Ref

Deferred = Callable[[], Node]
"""Makes a node when the plan is finished; it may add the nodes that it needs."""


@dataclass(slots=True, eq=False)
class Builder:
    """Nodes hash-consed, each after those that it reads but for what deferred nodes add."""

    nodes: list[Node | Deferred] = field(default_factory=list)
    places: dict[Node, Ref] = field(default_factory=dict)
    widths: list[int] = field(default_factory=list)

    def add(self, node: Node, width: int | None = None) -> Ref:
        """The node's position; a node that is there already is not added again.

        ``width`` is the number of its columns, where the node does not tell.
        """
        place = self.places.get(node)
        if place is None:
            place = self.places[node] = self.defer(node, self._width(node) if width is None else width)
        return place

    def defer(self, node: Node | Deferred, width: int) -> Ref:
        """The position of a node of ``width`` columns that is made later."""
        self.nodes.append(node)
        self.widths.append(width)
        return len(self.nodes) - 1

    def linear(self, ref: Ref, mfp: Mfp) -> Ref:
        """``mfp`` applied to a stream, which is the stream itself where that changes nothing."""
        if is_identity(mfp, self.widths[ref]):
            return ref
        return self.add(plan.Linear(ref, mfp))

    def arrange(self, ref: Ref, key: int) -> Ref:
        """The stream as an arrangement for lookups by its first ``key`` columns."""
        return self.add(plan.Arrange(ref, key))

    def finish(self, output: Ref) -> Plan:
        """The plan of the nodes that ``output`` needs."""
        nodes, (place,) = self.listed((output,))
        return Plan(nodes, place)

    def listed(self, outputs: Sequence[Ref]) -> tuple[tuple[Node, ...], tuple[Ref, ...]]:
        """The nodes that ``outputs`` need, equal ones being one, in dependency order; the outputs' places."""
        places: dict[Ref, Ref] = {}
        nodes: dict[Node, Ref] = {}
        stack = list(reversed(outputs))
        while stack:
            ref = stack[-1]
            if ref in places:
                stack.pop()
                continue
            node = self._made(ref)
            missing = [source for source in plan.inputs(node) if source not in places]
            if missing:
                stack += reversed(missing)
                continue
            stack.pop()
            places[ref] = nodes.setdefault(moved(node, places), len(nodes))
        return tuple(nodes), tuple(places[output] for output in outputs)

    def _made(self, ref: Ref) -> Node:
        node = self.nodes[ref]
        if callable(node):
            node = self.nodes[ref] = node()
        return node

    def _width(self, node: Node) -> int:
        match node:
            case plan.Source():
                return 1
            case plan.Import(types=types) | plan.Constant(types=types) | plan.Variable(types=types):
                return len(types)
            case plan.Linear(mfp=mfp) | plan.RangeJoin(mfp=mfp):
                return len(mfp.outputs)
            case plan.Concat(inputs=refs):
                return self.widths[refs[0]]
            case plan.Join(paths=paths):
                return len(paths[0].lookups[-1].mfp.outputs)
            case plan.Reduce(key=key, aggregates=aggregates):
                return key + len(aggregates)
            case plan.BasicReduce(key=key, aggregates=basics):
                return key + len(basics)
            case plan.Negate(input=ref) | plan.Arrange(input=ref) | plan.Distinct(input=ref):
                return self.widths[ref]
            case plan.Threshold(input=ref) | plan.TopK(input=ref) | plan.Single(input=ref):
                return self.widths[ref]
            case plan.Enter() | plan.Loop() | plan.Leave():
                raise InternalError(f"the width of a {type(node).__name__} is not given")
            case _:
                assert_never(node)


def moved(node: Node, places: dict[Ref, Ref]) -> Node:
    """The node with its references renumbered."""
    match node:
        case plan.Source() | plan.Import() | plan.Constant() | plan.Enter():
            return node
        case plan.Variable(initial=initial):
            return node if initial is None else replace(node, initial=places[initial])
        case plan.Loop(body=body):
            return replace(node, body=tuple(_entered(inner, places) for inner in body))
        case plan.Leave(loop=ref):
            return replace(node, loop=places[ref])
        case plan.Concat(inputs=refs):
            return plan.Concat(tuple(places[ref] for ref in refs))
        case plan.Join(inputs=refs, paths=paths):
            return plan.Join(
                tuple(places[ref] for ref in refs), tuple(_moved_path(path, places) for path in paths)
            )
        case plan.RangeJoin(left=left, right=right):
            return replace(node, left=places[left], right=places[right])
        case plan.Linear() | plan.Negate() | plan.Arrange() | plan.Reduce() | plan.Distinct():
            return replace(node, input=places[node.input])
        case plan.Threshold() | plan.TopK() | plan.BasicReduce() | plan.Single():
            return replace(node, input=places[node.input])
        case _:
            assert_never(node)


def _entered(inner: AnyNode, places: dict[Ref, Ref]) -> AnyNode:
    """A node of a loop's body, of which only those that enter it read the nodes around the loop."""
    return replace(inner, input=places[inner.input]) if isinstance(inner, plan.Enter) else inner


def _moved_path(path: plan.Path, places: dict[Ref, Ref]) -> plan.Path:
    lookups = tuple(replace(lookup, arrangement=places[lookup.arrangement]) for lookup in path.lookups)
    return replace(path, lookups=lookups)
