"""The paths of delta joins: chains of nodes that are run as one operator.

A half-join says all that it takes to run by itself. Where nothing stands between two, the operator of the
join takes rows from one to the next in bounded pieces, and can follow a path for a sample of a relation to
see what it costs.
"""

from collections.abc import Sequence

from kpg.runtime.errors import InternalError
from kpg.runtime.plan.facts import inputs
from kpg.runtime.plan.nodes import AnyNode, Delta, DeltaJoin, HalfJoin, Ref
from kpg.runtime.plan.placed import Exchange
from kpg.runtime.records import dataclass


@dataclass(frozen=True, slots=True)
class Path:
    """A chain of nodes, from the changes of a relation to changes of a join: ``refs`` are their positions."""

    delta: Delta
    half_joins: tuple[HalfJoin, ...]
    refs: tuple[Ref, ...]
    moved: tuple[Ref | None, ...]
    """The exchange before each half-join, if rows go to other workers there."""

    @property
    def is_whole(self) -> bool:
        """Whether rows stay at one worker all the way."""
        return not any(ref is not None for ref in self.moved)


def path_of(nodes: Sequence[object], end: Ref) -> Path:
    """The path whose last node is at position ``end``; InternalError if something else stands in between."""
    half_joins: list[HalfJoin] = []
    refs, moved = [end], list[Ref | None]()
    while not isinstance(node := nodes[refs[-1]], Delta):
        if not isinstance(node, HalfJoin):
            raise InternalError(f"{type(node).__name__} is on a path of a join")
        half_joins.append(node)
        before, exchange = nodes[node.input], None
        if isinstance(before, Exchange):
            exchange = node.input
        moved.append(exchange)
        refs.append(before.input if isinstance(before, Exchange) else node.input)
    return Path(node, tuple(reversed(half_joins)), tuple(reversed(refs)), tuple(reversed(moved)))


def paths_of(nodes: Sequence[object], join: DeltaJoin) -> tuple[Path, ...]:
    """A join's paths; InternalError if one does not meet each other relation once."""
    paths = tuple(path_of(nodes, end) for end in join.paths)
    for start, path in enumerate(paths):
        met = sorted([start, *(half.relation for half in path.half_joins)])
        if met != list(range(len(paths))) or any(half.start != start for half in path.half_joins):
            raise InternalError(f"path {start} of a join does not meet each other relation once")
    return paths


def sources(nodes: Sequence[object], node: AnyNode) -> tuple[Ref, ...]:
    """What the operator of a node reads: of a join, the relations in their order, then the arrangements."""
    if not isinstance(node, DeltaJoin):
        return inputs(node)
    paths = paths_of(nodes, node)
    streams = (path.delta.input for path in paths)
    arrangements = (half.arrangement for path in paths for half in path.half_joins)
    return tuple(dict.fromkeys((*streams, *arrangements)))
