"""Facts about each kind of plan node: inputs, state, column types, identity, and delta-join paths.

Code that depends on the kind of a node asks here. Every match is exhaustive, so the type checker reports a
new kind that is missing.

*Column types.* A word does not carry its type. Code that sends or stores rows needs to know which columns are
dictionary codes and which are rowids, and of which table. Operators that keep rowids rename them after a
vacuum.

*Paths.* A path is a chain of half-joins that runs as one operator when nothing stands in between. The
operator passes rows from lookup to lookup in bounded pieces, and can run a sample through a path to estimate
its cost.
"""

import enum
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from typing import assert_never

from kpg.runtime.errors import InternalError
from kpg.runtime.functions import lookup_aggregate, resolve_aggregate
from kpg.runtime.plan import nodes, user
from kpg.runtime.plan.nodes import (
    Aggregate,
    AnyNode,
    Arrange,
    BasicReduce,
    Concat,
    Constant,
    Delta,
    DeltaJoin,
    Distinct,
    Ego,
    Enter,
    Exchange,
    Expand,
    Fold,
    HalfJoin,
    Import,
    Leave,
    Linear,
    Loop,
    Mfp,
    Negate,
    RangeJoin,
    Reduce,
    Ref,
    Single,
    Source,
    Threshold,
    TopK,
    Variable,
    Window,
    is_local,
)
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column
from kpg.runtime.types import BIGINT, Type, common_word_type, rowid

Types = tuple[Type, ...]
"""Column types of a stream. Rowids are of type ROWID(table)."""


class Columns:
    """Column types of all streams of a plan, or of a loop's body.

    ``outer`` has the types of the list that contains the loop.
    """

    def __init__(self, nodes: Sequence[AnyNode], outer: "Columns | None" = None) -> None:
        self.nodes = nodes
        self.types: list[Types] = []
        """Column types by node; empty for a loop and a sink, which have no stream."""
        self.bodies: dict[Ref, Columns] = {}
        """Column types of the loops' bodies."""
        self._outer = outer
        for ref, node in enumerate(nodes):
            self.types.append(self._of(ref, node))

    def _of(self, ref: Ref, node: AnyNode) -> Types:
        match node:
            case Enter(input=source):
                if self._outer is None:
                    raise InternalError("Enter outside of a loop")
                return self._outer.types[source]
            case Loop(body=body):
                self.bodies[ref] = Columns(body, self)
                return ()
            case Leave(loop=place, result=result):
                loop = self.nodes[place]
                if not isinstance(loop, Loop):
                    raise InternalError("Leave of a node that is not a loop")
                return self.bodies[place].types[loop.results[result]]
            case _:
                return column_types(node, self.types.__getitem__)


def column_types(node: AnyNode, types_of: Callable[[Ref], Types]) -> Types:
    """Return the node's column types; ``types_of`` gives those of its inputs.

    Raises:
        InternalError: For Enter and Leave, whose columns belong to a node of another list, and for a
            sum of columns of incompatible types.
    """
    match node:
        case Source(table=table):
            return (rowid(table),)
        case Import(types=types) | Constant(types=types) | Variable(types=types) | user.Input(types=types):
            return types
        case Linear(input=ref, mfp=mfp) | Delta(input=ref, mfp=mfp):
            return mfp_types(mfp, types_of(ref))
        case HalfJoin(input=ref, arrangement=arrangement, mfp=mfp):
            return mfp_types(mfp, types_of(ref) + types_of(arrangement))
        case Concat(inputs=refs) | DeltaJoin(paths=refs):
            return _union_types([types_of(ref) for ref in refs])
        case Negate(input=ref) | Arrange(input=ref) | Distinct(input=ref) | Threshold(input=ref):
            return types_of(ref)
        case TopK(input=ref) | Single(input=ref) | nodes.Exchange(input=ref):
            return types_of(ref)
        case Expand(input=ref, kept=kept, calls=calls, ordinality=numbered):
            expanded = (type_ for call in calls for type_ in call.types)
            return (*types_of(ref)[:kept], *expanded, *((BIGINT,) if numbered else ()))
        case RangeJoin(left=left, right=right, mfp=mfp):
            return mfp_types(mfp, types_of(left) + types_of(right))
        case Reduce(input=ref, key=key, aggregates=aggregates):
            return (*types_of(ref)[:key], *map(_aggregate_type, aggregates))
        case BasicReduce(input=ref, key=key, aggregates=basics) | Fold(input=ref, key=key, aggregates=basics):
            return (*types_of(ref)[:key], *(basic.type for basic in basics))
        case Window(input=ref, calls=calls):
            return (*types_of(ref), *(call.type for call in calls))
        case Ego(pairs=ref, calls=aggregated):
            return (types_of(ref)[0], *(call.type for call in aggregated))
        case user.Apply(result=result) | user.Custom(result=result):
            return result.types
        case user.UserReduce(input=ref, key=key, result=result):
            return (*types_of(ref)[:key], *result.types)
        case user.EnterAt(input=ref):
            return types_of(ref)[:-1]
        case Loop() | user.Sink():
            return ()
        case Enter() | Leave():
            raise InternalError(f"the columns of {type(node).__name__} are those of a node in another list")
        case _:
            assert_never(node)


def mfp_types(mfp: Mfp, types: Types) -> Types:
    """Return the types of an mfp's outputs over rows of ``types``; a passed column keeps its type."""
    return tuple([types[out.index] if isinstance(out, Column) else out.type for out in mfp.outputs])


def _union_types(parts: Sequence[Types]) -> Types:
    result = []
    for column, types in enumerate(zip(*parts, strict=True)):
        type_ = types[0] if types.count(types[0]) == len(types) else common_word_type(types)
        if type_ is None:
            names = ", ".join(map(str, dict.fromkeys(types)))
            raise InternalError(f"column {column} of a sum has words of several kinds: {names}")
        result.append(type_)
    return tuple(result)


def _aggregate_type(aggregate: Aggregate) -> Type:
    kind = lookup_aggregate(aggregate.function).accumulator
    operands = 1 if kind is None else kind.operands
    return resolve_aggregate(aggregate.function, (aggregate.type,) * operands).result_type


def streams(node: AnyNode) -> tuple[Ref, ...]:
    """Return the nodes whose rows arrive at the node's ports 0, 1, ...; a node may feed several ports."""
    match node:
        case Source() | Import() | Constant() | user.Input():
            return ()
        case Linear(input=ref) | Negate(input=ref) | Arrange(input=ref) | Reduce(input=ref):
            return (ref,)
        case Distinct(input=ref) | Threshold(input=ref) | TopK(input=ref) | Expand(input=ref):
            return (ref,)
        case (
            BasicReduce(input=ref)
            | Fold(input=ref)
            | Single(input=ref)
            | Delta(input=ref)
            | HalfJoin(input=ref)
        ):
            return (ref,)
        case Window(input=ref):
            return (ref,)
        case user.Apply(input=ref) | user.UserReduce(input=ref) | user.Sink(input=ref):
            return (ref,)
        case user.EnterAt(input=ref) | nodes.Exchange(input=ref):
            return (ref,)
        case Concat(inputs=refs) | user.Custom(inputs=refs) | DeltaJoin(paths=refs):
            return refs
        case RangeJoin(left=left, right=right):
            return (left, right)
        case Ego():
            return node.sources
        case Enter():
            return ()  # its input is a node of the enclosing list
        case Variable(initial=initial):
            return () if initial is None else (initial,)
        case Loop(body=body):
            return tuple(dict.fromkeys(inner.input for inner in body if isinstance(inner, Enter)))
        case Leave(loop=ref):
            return (ref,)
        case _:
            assert_never(node)


def inputs(node: AnyNode) -> tuple[Ref, ...]:
    """Return the nodes that a node reads, streams and arrangements alike, without repetition."""
    looked_up = (node.arrangement,) if isinstance(node, HalfJoin) else ()
    return tuple(dict.fromkeys((*streams(node), *looked_up)))


def renumber_inputs(node: AnyNode, new_position: Callable[[Ref], Ref]) -> AnyNode:
    """Return the node with each reference ``ref`` replaced by ``new_position(ref)``."""
    match node:
        case Source() | Import() | Constant() | Enter() | user.Input():
            return node
        case Linear() | Negate() | Arrange() | Reduce() | Distinct() | Threshold() | TopK() | Expand():
            return replace(node, input=new_position(node.input))
        case (
            BasicReduce()
            | Window()
            | Fold()
            | Single()
            | Delta()
            | user.Apply()
            | user.UserReduce()
            | user.Sink()
            | user.EnterAt()
            | nodes.Exchange()
        ):
            return replace(node, input=new_position(node.input))
        case Concat(inputs=refs) | user.Custom(inputs=refs):
            return replace(node, inputs=tuple(map(new_position, refs)))
        case HalfJoin(input=ref, arrangement=arrangement):
            return replace(node, input=new_position(ref), arrangement=new_position(arrangement))
        case DeltaJoin(paths=refs):
            return DeltaJoin(tuple(map(new_position, refs)))
        case RangeJoin(left=left, right=right):
            return replace(node, left=new_position(left), right=new_position(right))
        case Ego(pairs=pairs, writes=writes, continuous=readers):
            continuous = None if readers is None else new_position(readers)
            return replace(
                node, pairs=new_position(pairs), writes=new_position(writes), continuous=continuous
            )
        case Variable(initial=initial):
            return node if initial is None else replace(node, initial=new_position(initial))
        case Loop(body=body):
            entered = (
                replace(inner, input=new_position(inner.input)) if isinstance(inner, Enter) else inner
                for inner in body
            )
            return replace(node, body=tuple(entered))
        case Leave(loop=loop):
            return replace(node, loop=new_position(loop))
        case _:
            assert_never(node)


class StateKind(enum.Enum):
    """Kind of state that a node has between steps; the values appear in EXPLAIN."""

    NOTHING = "nothing"
    TRACE = "a trace"
    """Its rows in a sorted trace that supports lookups."""
    GROUPS = "groups"
    """A few words for each group of its input."""
    INDEX = "an index of large partitions"
    """The sorted rows of partitions that have changed, as leaves of a tree of partial aggregates."""
    OUTPUT = "its output"
    """The output rows of each group."""
    OVERLAY = "an overlay"
    """Partial aggregates that readers share, and those of writers."""
    OWN = "its own state"
    """State of a user's operator, or rows that an input or a listener buffers."""


def state_kind(node: AnyNode) -> StateKind:
    """Return the kind of the node's own state; a loop's state belongs to the nodes of its body.

    A ``Leave`` has a trace if no node of the body holds the result (see :func:`holds_rows`).
    """
    match node:
        case Arrange():
            return StateKind.TRACE
        case Reduce() | Distinct() | Threshold() | Single():
            return StateKind.GROUPS
        case user.UserReduce():
            return StateKind.OUTPUT
        case Ego():
            return StateKind.OVERLAY
        case Fold() | user.Custom() | user.Sink() | user.Input():
            return StateKind.OWN
        case Source() | Import() | Constant() | Linear() | Concat() | Negate() | Expand():
            return StateKind.NOTHING
        case Window(calls=calls) if all(map(is_local, calls)):
            return StateKind.INDEX
        case Delta() | HalfJoin() | DeltaJoin() | RangeJoin() | TopK() | BasicReduce() | Window():
            return StateKind.NOTHING  # their inputs are arrangements
        case Enter() | Variable() | Loop() | Leave() | user.Apply() | user.EnterAt() | nodes.Exchange():
            return StateKind.NOTHING
        case _:
            assert_never(node)


def holds_rows(node: AnyNode) -> bool:
    """Return whether all rows of the node can be read from its state or the arrangement that it reads."""
    match node:
        case Arrange() | Reduce() | Distinct() | Threshold() | TopK() | BasicReduce() | user.UserReduce():
            return True
        case Constant() | Leave() | Window() | Fold() | Ego():
            return True
        case Source() | Import() | Linear() | Concat() | Negate() | Single() | Expand():
            return False
        case Delta() | HalfJoin() | DeltaJoin() | RangeJoin():
            return False
        case Enter() | Variable() | Loop():
            return False
        case user.Input() | user.Apply() | user.Custom() | user.Sink() | user.EnterAt() | nodes.Exchange():
            return False
        case _:
            assert_never(node)


def parameters(node: AnyNode) -> str:
    """Return a text that identifies the node apart from its inputs and a loop's body.

    References appear as indexes into the node's inputs; the caller adds what those compute. The text
    includes every field that takes part in equality.
    """
    place = {ref: index for index, ref in enumerate(inputs(node))}
    local_node = node if isinstance(node, Loop | Enter) else renumber_inputs(node, place.__getitem__)
    omitted = ("body",) if isinstance(node, Loop) else ("input",) if isinstance(node, Enter) else ()
    values = (
        _parameter_text(getattr(local_node, field.name))
        for field in fields(local_node)
        if field.compare and field.name not in omitted
    )
    return f"{type(node).__name__}({','.join(values)})"


def _parameter_text(value: object) -> str:
    return mfp_text(value) if isinstance(value, Mfp) else repr(value)


@lru_cache(maxsize=4096)
def mfp_text(mfp: Mfp) -> str:
    """Return an mfp as text; cached, since nested loops identify their nodes at every level."""
    return repr(mfp)


@dataclass(frozen=True, slots=True)
class DeltaPath:
    """DeltaPath of a delta join: a chain of nodes from a relation's changes to the join's changes.

    ``refs`` are the positions of the nodes.
    """

    delta: Delta
    half_joins: tuple[HalfJoin, ...]
    refs: tuple[Ref, ...]
    exchanges: tuple[Ref | None, ...]
    """The exchange before each half-join, or None."""

    @property
    def is_local(self) -> bool:
        """Whether rows stay at one worker along the whole path."""
        return not any(ref is not None for ref in self.exchanges)


def path_of(nodes: Sequence[object], end: Ref) -> DeltaPath:
    """Return the path whose last node is at position ``end``.

    Raises:
        InternalError: If a node on the path is neither a half-join nor an exchange.
    """
    half_joins: list[HalfJoin] = []
    refs, exchanges = [end], list[Ref | None]()
    while not isinstance(node := nodes[refs[-1]], Delta):
        if not isinstance(node, HalfJoin):
            raise InternalError(f"{type(node).__name__} is on a path of a join")
        half_joins.append(node)
        before, exchange = nodes[node.input], None
        if isinstance(before, Exchange):
            exchange = node.input
        exchanges.append(exchange)
        refs.append(before.input if isinstance(before, Exchange) else node.input)
    return DeltaPath(node, tuple(reversed(half_joins)), tuple(reversed(refs)), tuple(reversed(exchanges)))


def paths_of(nodes: Sequence[object], join: DeltaJoin) -> tuple[DeltaPath, ...]:
    """Return a join's paths.

    Raises:
        InternalError: If a path does not meet each other relation exactly once.
    """
    paths = tuple(path_of(nodes, end) for end in join.paths)
    for start, path in enumerate(paths):
        met = sorted([start, *(half.relation for half in path.half_joins)])
        if met != list(range(len(paths))) or any(half.start != start for half in path.half_joins):
            raise InternalError(f"path {start} of a join does not meet each other relation once")
    return paths


def sources(nodes: Sequence[object], node: AnyNode) -> tuple[Ref, ...]:
    """Return the inputs of a node's operator; for a join the relations in order, then the arrangements."""
    if not isinstance(node, DeltaJoin):
        return inputs(node)
    paths = paths_of(nodes, node)
    streams = (path.delta.input for path in paths)
    arrangements = (half.arrangement for path in paths for half in path.half_joins)
    return tuple(dict.fromkeys((*streams, *arrangements)))
