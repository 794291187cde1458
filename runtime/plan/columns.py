"""The types of the columns of every node's rows.

A word says nothing of itself. Whoever sends rows away or writes them down has to know which words are codes
of the engine's texts, which are rowids, and of which table; operators that keep rowids rename them after a
vacuum.
"""

from collections.abc import Callable, Sequence
from typing import assert_never

from kpg.runtime.errors import InternalError
from kpg.runtime.functions import aggregate_named, resolve_aggregate
from kpg.runtime.plan import placed, user
from kpg.runtime.plan.ego import Ego
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
        case TopK(input=ref) | Single(input=ref) | placed.Exchange(input=ref):
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
