"""The state of planning one query, and the composition of map-filter-project steps.

:class:`Builder` holds the nodes of the plan, hash-consed: equal nodes are one node. :func:`compose` fuses the
operators above a relation into one step over its rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import field

from kpg.compiler.algebra.facts import Facts
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.scalars import substitute
from kpg.compiler.physical.access_paths import Access, ColumnOrigins
from kpg.compiler.physical.cardinality import CardinalityEstimates
from kpg.runtime import plan
from kpg.runtime.errors import InternalError
from kpg.runtime.interrupts import checkpoint
from kpg.runtime.plan import AnyNode, Mfp, Plan, Ref, Types
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Scalar, children, with_children
from kpg.runtime.types import Type

ColumnFinder = Callable[[Scalar], int | None]
"""Returns the column of a row that holds the value of a scalar, or None."""


def compose(mfp: Mfp, values: Sequence[Scalar]) -> Mfp:
    """Return ``mfp`` over rows whose column ``i`` is ``values[i]`` over the rows below."""
    return Mfp(
        tuple(substitute(predicate, values) for predicate in mfp.predicates),
        tuple(substitute(output, values) for output in mfp.outputs),
    )


def identity(types: Sequence[Type]) -> Mfp:
    """Return the mfp that leaves rows of these types unchanged."""
    return Mfp((), tuple(Column(index, type_) for index, type_ in enumerate(types)))


def is_identity(mfp: Mfp, width: int) -> bool:
    """Return whether the mfp leaves every row of ``width`` columns unchanged."""
    places = tuple(output.index if isinstance(output, Column) else -1 for output in mfp.outputs)
    return not mfp.predicates and places == tuple(range(width))


def express_over(scalar: Scalar, find: ColumnFinder) -> Scalar:
    """Return the scalar over the columns of a row that holds values of other scalars.

    Raises InternalError if the scalar reads a column that the row cannot provide.
    """
    place = find(scalar)
    return express_children_over(scalar, find) if place is None else Column(place, scalar.type)


def express_children_over(scalar: Scalar, find: ColumnFinder) -> Scalar:
    """Return the scalar as :func:`express_over` does, but compute it even if the row holds its value."""
    if isinstance(scalar, Column):
        raise InternalError(f"column {scalar.index} is not at hand")
    return with_children(scalar, tuple(express_over(child, find) for child in children(scalar)))


DeferredNode = Callable[[], AnyNode]
"""Function that creates a node when the plan is finished.

It may add the nodes that it reads.
"""


@dataclass(slots=True, eq=False)
class Builder:
    """A list of hash-consed plan nodes, in dependency order except for nodes that deferred ones add."""

    nodes: list[AnyNode | DeferredNode] = field(default_factory=list)
    refs: dict[AnyNode, Ref] = field(default_factory=dict)
    types: list[Types] = field(default_factory=list)
    """Column types of each node."""

    def add(self, node: AnyNode, types: Types | None = None) -> Ref:
        """Return the position of a node, added unless an equal one exists.

        ``types`` are its column types, required if they do not follow from the node.
        """
        place = self.refs.get(node)
        if place is None:
            if types is None:
                types = plan.column_types(node, self.types.__getitem__)
            place = self.refs[node] = self.defer(node, types)
        return place

    def defer(self, node: AnyNode | DeferredNode, types: Types) -> Ref:
        """Add a node that is created later and has columns of ``types``, and return its position."""
        self.nodes.append(node)
        self.types.append(types)
        return len(self.nodes) - 1

    def linear(self, ref: Ref, mfp: Mfp) -> Ref:
        """Apply ``mfp`` to a stream.

        An identity returns the stream itself.
        """
        if is_identity(mfp, len(self.types[ref])):
            return ref
        return self.add(plan.Linear(ref, mfp))

    def arrange(self, ref: Ref, key: int) -> Ref:
        """Arrange a stream for lookups by its first ``key`` columns."""
        return self.add(plan.Arrange(ref, key))

    def finish(self, output: Ref) -> Plan:
        """Return the plan of the nodes that ``output`` depends on."""
        nodes, (place,) = self.list_nodes((output,))
        return Plan(nodes, place)

    def list_nodes(self, outputs: Sequence[Ref]) -> tuple[tuple[AnyNode, ...], tuple[Ref, ...]]:
        """Return the nodes that ``outputs`` depend on, and the new positions of ``outputs``.

        Equal nodes are merged, and the nodes are in dependency order.
        """
        places: dict[Ref, Ref] = {}
        nodes: dict[AnyNode, Ref] = {}
        stack = list(reversed(outputs))
        while stack:
            checkpoint()
            ref = stack[-1]
            if ref in places:
                stack.pop()
                continue
            node = self._create_deferred(ref)
            # The inputs of a join precede its paths, so that the nodes of each path are adjacent.
            needed = (*plan.sources(self.nodes, node), *plan.inputs(node))
            missing = [source for source in needed if source not in places]
            if missing:
                stack += reversed(missing)
                continue
            stack.pop()
            places[ref] = nodes.setdefault(plan.renumber_inputs(node, places.__getitem__), len(nodes))
        return tuple(nodes), tuple(places[output] for output in outputs)

    def _create_deferred(self, ref: Ref) -> AnyNode:
        node = self.nodes[ref]
        if callable(node):
            node = self.nodes[ref] = node()
        return node


@dataclass(slots=True, eq=False)
class Planning:
    """The plan under construction, and the facts about its relations."""

    facts: Facts
    """Facts with the values of the query's lets, whose ids are unique."""
    column_origins: ColumnOrigins
    estimates: CardinalityEstimates
    lower: "Callable[[Planning, Rel, Mfp], Ref]"
    """Returns a stream of the mfp over the relation's rows."""
    access: Access = field(default_factory=Access)
    builder: Builder = field(default_factory=Builder)
    streams: dict[tuple[Rel, Mfp], Ref] = field(default_factory=dict)
    """Streams that are already planned."""
    outer: "Planning | None" = None
    """The planning around the loop, if this one is of a loop's body."""
    recursive_streams: dict[str, Ref] = field(default_factory=dict)
    """Streams of recursive relations: variables in a loop's body, fixed points around the loop."""
    let_ids: dict[Rel, frozenset[str]] = field(default_factory=dict)
    """Ids of the lets that relations read, directly or through other lets."""
