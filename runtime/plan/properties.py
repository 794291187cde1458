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
from kpg.runtime.functions import aggregate_named, resolve_aggregate
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
from kpg.runtime.types import BIGINT, Type, common_words, rowid

Types = tuple[Type, ...]
"""Those of the columns of a stream. Rowids are of type ROWID(table)."""


class Columns:
    """The types of all streams of a plan, or of a loop's body in the list that ``outer`` is of."""

    def __init__(self, nodes: Sequence[AnyNode], outer: "Columns | None" = None) -> None:
        self.nodes = nodes
        self.types: list[Types] = []
        """Of each node; a loop and a sink have no stream."""
        self.bodies: dict[Ref, Columns] = {}
        """Those of the loops' bodies."""
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


def column_types(node: AnyNode, of: Callable[[Ref], Types]) -> Types:
    """The types of the node's columns, given those of the nodes that it reads.

    InternalError for Enter and Leave, whose columns are those of a node of another list, and for sums of
    columns that do not mean the same.
    """
    match node:
        case Source(table=table):
            return (rowid(table),)
        case Import(types=types) | Constant(types=types) | Variable(types=types) | user.Input(types=types):
            return types
        case Linear(input=ref, mfp=mfp) | Delta(input=ref, mfp=mfp):
            return mapped(mfp, of(ref))
        case HalfJoin(input=ref, arrangement=arrangement, mfp=mfp):
            return mapped(mfp, of(ref) + of(arrangement))
        case Concat(inputs=refs) | DeltaJoin(paths=refs):
            return _summed([of(ref) for ref in refs])
        case Negate(input=ref) | Arrange(input=ref) | Distinct(input=ref) | Threshold(input=ref):
            return of(ref)
        case TopK(input=ref) | Single(input=ref) | nodes.Exchange(input=ref):
            return of(ref)
        case Expand(input=ref, kept=kept, calls=calls, ordinality=numbered):
            made = (type_ for call in calls for type_ in call.types)
            return (*of(ref)[:kept], *made, *((BIGINT,) if numbered else ()))
        case RangeJoin(left=left, right=right, mfp=mfp):
            return mapped(mfp, of(left) + of(right))
        case Reduce(input=ref, key=key, aggregates=aggregates):
            return (*of(ref)[:key], *map(_aggregated, aggregates))
        case BasicReduce(input=ref, key=key, aggregates=basics) | Fold(input=ref, key=key, aggregates=basics):
            return (*of(ref)[:key], *(basic.type for basic in basics))
        case Window(input=ref, calls=calls):
            return (*of(ref), *(call.type for call in calls))
        case Ego(pairs=ref, calls=aggregated):
            return (of(ref)[0], *(call.type for call in aggregated))
        case user.Apply(result=result) | user.Custom(result=result):
            return result.types
        case user.UserReduce(input=ref, key=key, result=result):
            return (*of(ref)[:key], *result.types)
        case user.EnterAt(input=ref):
            return of(ref)[:-1]
        case Loop() | user.Sink():
            return ()
        case Enter() | Leave():
            raise InternalError(f"the columns of {type(node).__name__} are those of a node in another list")
        case _:
            assert_never(node)


def mapped(mfp: Mfp, types: Types) -> Types:
    """The types of an mfp's outputs over rows of ``types``: a column that is passed on keeps its own."""
    return tuple(types[output.index] if isinstance(output, Column) else output.type for output in mfp.outputs)


def _summed(parts: Sequence[Types]) -> Types:
    found = []
    for column, types in enumerate(zip(*parts, strict=True)):
        type_ = common_words(types)
        if type_ is None:
            shown = ", ".join(map(str, dict.fromkeys(types)))
            raise InternalError(f"column {column} of a sum has words of several kinds: {shown}")
        found.append(type_)
    return tuple(found)


def _aggregated(aggregate: Aggregate) -> Type:
    kind = aggregate_named(aggregate.function).accumulator
    operands = 1 if kind is None else kind.operands
    return resolve_aggregate(aggregate.function, (aggregate.type,) * operands).result_type


def streams(node: AnyNode) -> tuple[Ref, ...]:
    """The nodes whose rows arrive at the node's ports 0, 1, ...; one may arrive at several."""
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
            return ()  # what it names is a node of the enclosing list
        case Variable(initial=initial):
            return () if initial is None else (initial,)
        case Loop(body=body):
            return tuple(dict.fromkeys(inner.input for inner in body if isinstance(inner, Enter)))
        case Leave(loop=ref):
            return (ref,)
        case _:
            assert_never(node)


def inputs(node: AnyNode) -> tuple[Ref, ...]:
    """The nodes that a node reads, streams and arrangements alike, without repetition."""
    looked_up = (node.arrangement,) if isinstance(node, HalfJoin) else ()
    return tuple(dict.fromkeys((*streams(node), *looked_up)))


def moved(node: AnyNode, place: Callable[[Ref], Ref]) -> AnyNode:
    """The node in another list, where what was at position ``ref`` is at ``place(ref)``."""
    match node:
        case Source() | Import() | Constant() | Enter() | user.Input():
            return node
        case Linear() | Negate() | Arrange() | Reduce() | Distinct() | Threshold() | TopK() | Expand():
            return replace(node, input=place(node.input))
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
            return replace(node, input=place(node.input))
        case Concat(inputs=refs) | user.Custom(inputs=refs):
            return replace(node, inputs=tuple(map(place, refs)))
        case HalfJoin(input=ref, arrangement=arrangement):
            return replace(node, input=place(ref), arrangement=place(arrangement))
        case DeltaJoin(paths=refs):
            return DeltaJoin(tuple(map(place, refs)))
        case RangeJoin(left=left, right=right):
            return replace(node, left=place(left), right=place(right))
        case Ego(pairs=pairs, writes=writes, continuous=readers):
            kept = None if readers is None else place(readers)
            return replace(node, pairs=place(pairs), writes=place(writes), continuous=kept)
        case Variable(initial=initial):
            return node if initial is None else replace(node, initial=place(initial))
        case Loop(body=body):
            entered = (
                replace(inner, input=place(inner.input)) if isinstance(inner, Enter) else inner
                for inner in body
            )
            return replace(node, body=tuple(entered))
        case Leave(loop=loop):
            return replace(node, loop=place(loop))
        case _:
            assert_never(node)


class Kept(enum.Enum):
    """What state a node has between steps, as EXPLAIN says it."""

    NOTHING = "nothing"
    TRACE = "a trace"
    """Its rows, sorted, where they can be looked up."""
    GROUPS = "groups"
    """A few words for each group of its input."""
    INDEX = "an index of large partitions"
    """The rows of partitions that have changed, in order, as leaves of a tree of partial aggregates."""
    OUTPUT = "its output"
    """The rows that it gave for each group."""
    OVERLAY = "an overlay"
    """Partial aggregates that readers share, and those of writers."""
    OWN = "its own state"
    """What a user's operator keeps, or an input or a listener until it is taken."""


def kept(node: AnyNode) -> Kept:
    """What the node itself keeps; a loop, what the nodes of its body do.

    A ``Leave`` is given a trace where no node of the body holds the result (see :func:`holds_rows`).
    """
    match node:
        case Arrange():
            return Kept.TRACE
        case Reduce() | Distinct() | Threshold() | Single():
            return Kept.GROUPS
        case user.UserReduce():
            return Kept.OUTPUT
        case Ego():
            return Kept.OVERLAY
        case Fold() | user.Custom() | user.Sink() | user.Input():
            return Kept.OWN
        case Source() | Import() | Constant() | Linear() | Concat() | Negate() | Expand():
            return Kept.NOTHING
        case Window(calls=calls) if all(map(is_local, calls)):
            return Kept.INDEX
        case Delta() | HalfJoin() | DeltaJoin() | RangeJoin() | TopK() | BasicReduce() | Window():
            return Kept.NOTHING  # they read arrangements
        case Enter() | Variable() | Loop() | Leave() | user.Apply() | user.EnterAt() | nodes.Exchange():
            return Kept.NOTHING
        case _:
            assert_never(node)


def holds_rows(node: AnyNode) -> bool:
    """Whether all rows of the node can be read off its state, or that of the arrangement that it reads."""
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
    """A text that differs for nodes that differ in anything but what they read, and but the body of a loop.

    References are written as places among the node's inputs: what these compute is for the caller to add.
    Every field counts that equality counts, so that no field can be forgotten.
    """
    place = {ref: index for index, ref in enumerate(inputs(node))}
    here = node if isinstance(node, Loop | Enter) else moved(node, place.__getitem__)
    left_out = ("body",) if isinstance(node, Loop) else ("input",) if isinstance(node, Enter) else ()
    values = (
        _written(getattr(here, one.name)) for one in fields(here) if one.compare and one.name not in left_out
    )
    return f"{type(node).__name__}({','.join(values)})"


def _written(value: object) -> str:
    return written(value) if isinstance(value, Mfp) else repr(value)


@lru_cache(maxsize=4096)
def written(mfp: Mfp) -> str:
    """An mfp as text, made once: the nodes of nested loops are identified at every level."""
    return repr(mfp)


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
