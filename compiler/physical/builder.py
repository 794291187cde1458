"""The node list of a plan under construction: equal nodes are one node."""

from dataclasses import dataclass, field, replace
from typing import assert_never

from kpg.compiler.physical.mfp import is_identity
from kpg.runtime import plan
from kpg.runtime.plan import Mfp, Node, Plan, Ref


@dataclass(slots=True)
class Builder:
    """Nodes in dependency order, hash-consed."""

    nodes: list[Node] = field(default_factory=list)
    places: dict[Node, Ref] = field(default_factory=dict)
    widths: list[int] = field(default_factory=list)

    def add(self, node: Node) -> Ref:
        """The node's position; a node that is there already is not added again."""
        place = self.places.get(node)
        if place is None:
            place = len(self.nodes)
            self.widths.append(self._width(node))
            self.nodes.append(node)
            self.places[node] = place
        return place

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
        needed = {output}
        for ref in range(output, -1, -1):
            if ref in needed:
                needed.update(plan.inputs(self.nodes[ref]))
        places = {ref: place for place, ref in enumerate(sorted(needed))}
        return Plan(tuple(_moved(self.nodes[ref], places) for ref in sorted(needed)), places[output])

    def _width(self, node: Node) -> int:
        match node:
            case plan.Source():
                return 1
            case plan.Import(types=types) | plan.Constant(types=types):
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
            case _:
                assert_never(node)


def _moved(node: Node, places: dict[Ref, Ref]) -> Node:
    """The node with its references renumbered."""
    match node:
        case plan.Source() | plan.Import() | plan.Constant():
            return node
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


def _moved_path(path: plan.Path, places: dict[Ref, Ref]) -> plan.Path:
    lookups = tuple(replace(lookup, arrangement=places[lookup.arrangement]) for lookup in path.lookups)
    return replace(path, lookups=lookups)
