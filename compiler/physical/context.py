"""The state of planning one query, and the composition of map-filter-project steps.

:class:`Builder` holds the nodes of the plan, hash-consed: equal nodes are one node. :func:`compose` fuses the
operators above a relation into one step over its rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import field

from kpg.compiler.algebra.facts import Facts
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.scalars import substitute
from kpg.compiler.physical.access_paths import Access, Storage
from kpg.compiler.physical.cardinality import Sizes
from kpg.runtime import plan
from kpg.runtime.errors import InternalError
from kpg.runtime.interrupts import checkpoint
from kpg.runtime.plan import AnyNode, Mfp, Plan, Ref, Types
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Scalar, children, with_children
from kpg.runtime.types import Type

Finder = Callable[[Scalar], int | None]
"""Where a row has the value of a scalar, if it has it."""


def compose(mfp: Mfp, values: Sequence[Scalar]) -> Mfp:
    """``mfp`` over rows whose column ``i`` is ``values[i]`` of the rows below."""
    return Mfp(
        tuple(substitute(predicate, values) for predicate in mfp.predicates),
        tuple(substitute(output, values) for output in mfp.outputs),
    )


def identity(types: Sequence[Type]) -> Mfp:
    """All rows as they are."""
    return Mfp((), tuple(Column(index, type_) for index, type_ in enumerate(types)))


def is_identity(mfp: Mfp, width: int) -> bool:
    """Whether the mfp gives every row of ``width`` columns as it is."""
    places = tuple(output.index if isinstance(output, Column) else -1 for output in mfp.outputs)
    return not mfp.predicates and places == tuple(range(width))


def over(scalar: Scalar, find: Finder) -> Scalar:
    """The scalar over the columns of a row that has the values of other scalars.

    InternalError if it reads a column whose value cannot be found.
    """
    place = find(scalar)
    return parts_over(scalar, find) if place is None else Column(place, scalar.type)


def parts_over(scalar: Scalar, find: Finder) -> Scalar:
    """As :func:`over`, the scalar being computed even if a row has its value."""
    if isinstance(scalar, Column):
        raise InternalError(f"column {scalar.index} is not at hand")
    return with_children(scalar, tuple(over(child, find) for child in children(scalar)))


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


@dataclass(slots=True, eq=False)
class Planning:
    """The plan under construction, and what is known about the relations that it is made of."""

    facts: Facts
    """Their ``bound`` are the values of the query's lets, whose ids are unique."""
    storage: Storage
    sizes: Sizes
    lower: "Callable[[Planning, Rel, Mfp], Ref]"
    """A stream of the mfp's outputs over the relation's rows."""
    access: Access = field(default_factory=Access)
    builder: Builder = field(default_factory=Builder)
    lowered: dict[tuple[Rel, Mfp], Ref] = field(default_factory=dict)
    """The streams that are planned already."""
    around: "Planning | None" = None
    """In a loop's body, the planning of what is around the loop."""
    recursive: dict[str, Ref] = field(default_factory=dict)
    """The streams of recursive relations: in a loop's body its variables, around it its fixed points."""
    reads: dict[Rel, frozenset[str]] = field(default_factory=dict)
    """The ids of lets that relations read."""
