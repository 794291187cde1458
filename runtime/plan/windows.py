"""Window functions as data: a call, and the frame of rows that it looks at.

The relational algebra and the dataflow IR share them; columns are those of the node's input.
"""

import enum
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from typing import assert_never

from kpg.runtime.functions import Answer, Hierarchical, aggregate_named, window_function
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Literal, Scalar, columns, remap
from kpg.runtime.types import Type


class Unit(enum.Enum):
    """What the offsets of a frame count."""

    ROWS = "rows"
    RANGE = "range"
    GROUPS = "groups"


class Edge(enum.Enum):
    """Where a frame starts or ends, in the order in which they may stand in."""

    UNBOUNDED_PRECEDING = "unbounded preceding"
    PRECEDING = "preceding"
    CURRENT_ROW = "current row"
    FOLLOWING = "following"
    UNBOUNDED_FOLLOWING = "unbounded following"


class Exclude(enum.Enum):
    """The rows around the current one that its frame leaves out."""

    NO_OTHERS = "no others"
    CURRENT_ROW = "current row"
    GROUP = "group"
    TIES = "ties"


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a frame. With PRECEDING or FOLLOWING, how far: rows, groups, or a difference of values.

    Of a RANGE, ``offset`` is a word to add to or take from words, if that is all there is to it; else
    ``column`` has for each row the value that the bound is at. Of ROWS and GROUPS it has the offset.
    """

    edge: Edge
    offset: int = 0
    column: int | None = None


@dataclass(frozen=True, slots=True)
class Ranged:
    """The values that a RANGE with offsets compares: a column, in which rows are in order."""

    column: int
    descending: bool
    is_float: bool = False
    is_interned: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows of the partition that a row's aggregate is over."""

    unit: Unit = Unit.RANGE
    start: Bound = Bound(Edge.UNBOUNDED_PRECEDING)
    end: Bound = Bound(Edge.CURRENT_ROW)
    exclude: Exclude = Exclude.NO_OTHERS
    ranged: Ranged | None = None
    """Of a RANGE with offsets."""


@dataclass(frozen=True, slots=True)
class WindowCall:
    """A window function, or an aggregate over a frame; its arguments are columns and literals."""

    function: str
    args: tuple[Scalar, ...]
    type: Type
    frame: Frame = Frame()
    text: str = field(default="", compare=False)
    """The call as the user would recognise it, for errors."""


def call_columns(call: WindowCall) -> Iterator[int]:
    """The columns that a call reads."""
    for arg in call.args:
        yield from columns(arg)
    yield from (bound.column for bound in (call.frame.start, call.frame.end) if bound.column is not None)
    if call.frame.ranged is not None:
        yield call.frame.ranged.column


def moved_call(call: WindowCall, place: Callable[[int], int]) -> WindowCall:
    """The call over rows whose columns are elsewhere."""
    frame = call.frame
    start, end = (
        bound if bound.column is None else replace(bound, column=place(bound.column))
        for bound in (frame.start, frame.end)
    )
    ranged = frame.ranged and replace(frame.ranged, column=place(frame.ranged.column))
    args = tuple(remap(arg, place) for arg in call.args)
    return replace(call, args=args, frame=replace(frame, start=start, end=end, ranged=ranged))


def is_local(call: WindowCall) -> bool:
    """Whether changes of the call's answers are found without the rest of the partition.

    Not so if a row says itself how far it looks, or if a frame is open and its aggregate has no partial
    aggregates of a few words. Where answers depend on how many rows there are, all may change with that.
    """
    known, frame = window_function(call.function), call.frame
    closed = not {frame.start.edge, frame.end.edge} & {Edge.UNBOUNDED_PRECEDING, Edge.UNBOUNDED_FOLLOWING}
    fixed = len(call.args) < 2 or isinstance(call.args[1], Literal)
    if frame.ranged is not None and frame.ranged.is_interned:
        return False
    if frame.unit is not Unit.RANGE and (frame.start.column, frame.end.column) != (None, None):
        return False
    if known is None:
        function = aggregate_named(call.function)
        return closed or function.accumulator is not None or isinstance(function.maintenance, Hierarchical)
    match known.answer:
        case Answer.ROW_NUMBER | Answer.RANK | Answer.DENSE_RANK | Answer.PERCENT_RANK | Answer.CUME_DIST:
            return True
        case Answer.NTILE:
            return isinstance(call.args[0], Literal)
        case Answer.LAG | Answer.LEAD:
            return fixed
        case Answer.FIRST_VALUE | Answer.LAST_VALUE:
            return closed or frame.exclude is Exclude.NO_OTHERS
        case Answer.NTH_VALUE:
            counted = frame.start.edge is Edge.UNBOUNDED_PRECEDING and frame.exclude is Exclude.NO_OTHERS
            return fixed and (closed or counted)
        case _:
            assert_never(known.answer)


def frame_text(frame: Frame) -> str:
    """The frame as SQL writes it; a bound that is a column as ``#i``."""
    start, end = (_bound_text(bound) for bound in (frame.start, frame.end))
    exclude = "" if frame.exclude is Exclude.NO_OTHERS else f" exclude {frame.exclude.value}"
    return f"{frame.unit.value} between {start} and {end}{exclude}"


def _bound_text(bound: Bound) -> str:
    if bound.edge not in (Edge.PRECEDING, Edge.FOLLOWING):
        return bound.edge.value
    return f"{bound.offset if bound.column is None else f'#{bound.column}'} {bound.edge.value}"


def shown_call(call: WindowCall, shown: Callable[[Scalar], str]) -> str:
    """The call as text, without its OVER."""
    return f"{call.function}({', '.join(map(shown, call.args))})"
