"""What is known of every kind of node: what it reads, what it keeps, and what tells it from others.

Whoever has to treat nodes by their kind asks here. Each match is closed: a new kind of node that one of them
does not know is an error of the type checker.
"""

import enum
from collections.abc import Callable
from dataclasses import fields, replace
from functools import lru_cache
from typing import assert_never

from kpg.runtime.plan import placed, user
from kpg.runtime.plan.ego import Ego
from kpg.runtime.plan.nodes import (
    AnyNode,
    Arrange,
    BasicReduce,
    Concat,
    Constant,
    Delta,
    DeltaJoin,
    Distinct,
    Enter,
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
)
from kpg.runtime.plan.windows import is_local


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
        case user.EnterAt(input=ref) | placed.Exchange(input=ref):
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
            | placed.Exchange()
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
        case Enter() | Variable() | Loop() | Leave() | user.Apply() | user.EnterAt() | placed.Exchange():
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
        case user.Input() | user.Apply() | user.Custom() | user.Sink() | user.EnterAt() | placed.Exchange():
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
