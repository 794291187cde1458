"""The node list of a plan under construction: equal nodes are one node."""

from collections.abc import Callable, Sequence
from dataclasses import field

from kpg.compiler.physical.mfp import is_identity
from kpg.runtime import plan
from kpg.runtime.interrupts import checkpoint
from kpg.runtime.plan import AnyNode, Mfp, Plan, Ref, Types
from kpg.runtime.records import dataclass

Deferred = Callable[[], AnyNode]
"""Makes a node when the plan is finished; it may add the nodes that it needs."""


@dataclass(slots=True, eq=False)
class Builder:
    """Nodes hash-consed, each after those that it reads but for what deferred nodes add."""

    nodes: list[AnyNode | Deferred] = field(default_factory=list)
    places: dict[AnyNode, Ref] = field(default_factory=dict)
    types: list[Types] = field(default_factory=list)
    """Those of each node's columns."""

    def add(self, node: AnyNode, types: Types | None = None) -> Ref:
        """The node's position; a node that is there already is not added again.

        ``types`` are those of its columns, where the node does not tell.
        """
        place = self.places.get(node)
        if place is None:
            if types is None:
                types = plan.column_types(node, self.types.__getitem__)
            place = self.places[node] = self.defer(node, types)
        return place

    def defer(self, node: AnyNode | Deferred, types: Types) -> Ref:
        """The position of a node that is made later, and has columns of ``types``."""
        self.nodes.append(node)
        self.types.append(types)
        return len(self.nodes) - 1

    def linear(self, ref: Ref, mfp: Mfp) -> Ref:
        """``mfp`` applied to a stream, which is the stream itself where that changes nothing."""
        if is_identity(mfp, len(self.types[ref])):
            return ref
        return self.add(plan.Linear(ref, mfp))

    def arrange(self, ref: Ref, key: int) -> Ref:
        """The stream as an arrangement for lookups by its first ``key`` columns."""
        return self.add(plan.Arrange(ref, key))

    def finish(self, output: Ref) -> Plan:
        """The plan of the nodes that ``output`` needs."""
        nodes, (place,) = self.listed((output,))
        return Plan(nodes, place)

    def listed(self, outputs: Sequence[Ref]) -> tuple[tuple[AnyNode, ...], tuple[Ref, ...]]:
        """The nodes that ``outputs`` need, equal ones being one, in dependency order; the outputs' places."""
        places: dict[Ref, Ref] = {}
        nodes: dict[AnyNode, Ref] = {}
        stack = list(reversed(outputs))
        while stack:
            checkpoint()
            ref = stack[-1]
            if ref in places:
                stack.pop()
                continue
            node = self._made(ref)
            # What a join reads comes before the chains of its paths, which stay together.
            needed = (*plan.sources(self.nodes, node), *plan.inputs(node))
            missing = [source for source in needed if source not in places]
            if missing:
                stack += reversed(missing)
                continue
            stack.pop()
            places[ref] = nodes.setdefault(plan.moved(node, places.__getitem__), len(nodes))
        return tuple(nodes), tuple(places[output] for output in outputs)

    def _made(self, ref: Ref) -> AnyNode:
        node = self.nodes[ref]
        if callable(node):
            node = self.nodes[ref] = node()
        return node
