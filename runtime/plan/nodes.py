"""The physical dataflow IR: what the compiler hands to the runtime.

A :class:`Plan` is a flat list of nodes in dependency order; a node names its inputs by their position in the
list (:data:`Ref`). Nothing is left to decide when it is rendered: which arrangements exist, in which order
joins look them up, and which kind of reduce maintains an aggregate are all written here.

*Streams and arrangements.* Every node produces a stream of updates ``(row, time, diff)``, a row being a tuple
of int64 words. ``Arrange`` additionally keeps the accumulated stream as a trace sorted lexicographically by
all its columns, so that it can be looked up by **any prefix** of them; only arrangements can be looked up.

*Base tables.* ``Source`` streams ``(rowid,)``. The columns of a row live once, in the table's row store;
expressions read them with ``Fetch``. An arrangement over a base table holds ``(key..., rowid)`` and so serves
every query that looks the table up by that key, whatever columns it needs.

*Workers.* ``Exchange`` nodes send rows to other workers; plans for one worker have none.

*Window calls.* :class:`WindowCall` and :class:`Frame` are shared with the relational algebra; their columns
are those of the node's input.

Nodes are plain frozen data: no numba, no numpy, picklable.
"""

import enum
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from typing import assert_never

from kpg.runtime.functions import Answer, Hierarchical, aggregate_named, window_function
from kpg.runtime.functions.aggregation.definition import Direction
from kpg.runtime.functions.table_functions import Expansion
from kpg.runtime.plan import user
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Literal, Scalar, columns, remap
from kpg.runtime.types import Type

Ref = int
"""Position of a node in the list that holds it."""


class EgoFamily(enum.Enum):
    """What is kept of a partial aggregate."""

    SUMS = "counts and sums of words"
    LEAST = "the least word"
    GREATEST = "the greatest word"
    COUNTS = "each word, and how often it is there"
    STATES = "the state of an aggregate's algorithm, in Python"


@dataclass(frozen=True, slots=True)
class EgoCall:
    """An aggregate over columns of a write, from 0 on; ``counts`` if it is how many there are."""

    function: str
    arguments: tuple[int, ...]
    argument_types: tuple[Type, ...]
    type: Type
    counts: bool = False


@dataclass(frozen=True, slots=True)
class Ego:
    """Rows (reader, calls...) for each reader with a row of one of its writers.

    ``pairs`` are rows (reader, writer), each once; ``writes`` rows (writer, columns...), those of the
    window. O(change x what is pushed) for each change; where nobody hears the rows, what is pulled is
    computed when it is read.
    """

    pairs: Ref
    writes: Ref
    family: EgoFamily
    calls: tuple[EgoCall, ...]
    construction: str
    """A way to build an overlay (``ego/building.py``)."""
    mode: str
    """What is pushed: ``auto`` what costs less so, ``push`` all, ``pull`` only writers."""
    few: int = 0
    """Of counts: how many of the most frequent; 0 for all."""
    continuous: Ref | None = None
    """Rows (reader), each once, of those that are pushed whatever that costs."""

    @property
    def sources(self) -> tuple[Ref, ...]:
        """What it reads."""
        rest = () if self.continuous is None else (self.continuous,)
        return (self.pairs, self.writes, *rest)


class Route(enum.Enum):
    """Which workers get a row."""

    OWNER = "owner"
    """The one that a column's word belongs to."""
    EVERYWHERE = "everywhere"
    """All of them."""
    PIECES = "pieces"
    """Of a table's rows, that all hold: by rowid, so many in a row for each."""
    FIRST = "first"
    """Worker 0."""


@dataclass(frozen=True, slots=True)
class Combine:
    """What rows may become on their way to a reduce: fewer of them, of which it makes the same.

    The first ``key`` columns are the group. Of the other columns those of ``summed`` are added up; of the
    rest it only counts whether they are NULL.
    """

    key: int
    summed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Exchange:
    """The input's rows at the workers that need them: by ``route``, those of column ``by`` or, of a rowid in

    that column, of the table's column that is ``fetched``. Where every worker has all rows already they are
    ``held``: each keeps its share, and nothing is sent. O(change).
    """

    input: Ref
    route: Route
    by: int | None = None
    held: bool = False
    fetched: tuple[str, int] | None = None
    combine: Combine | None = None


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


@dataclass(frozen=True, slots=True)
class Mfp:
    """Map, filter and project in one: rows satisfying all of ``predicates``, mapped to ``outputs``.

    Scalars refer to the columns of the input row. A row passes when every predicate is true (neither
    false nor NULL). Predicates are evaluated as if in order: an error (division by zero) in a later
    one does not count for a row that an earlier one rejects.
    """

    predicates: tuple[Scalar, ...]
    outputs: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """All rows of a base table, as ``(rowid,)``."""

    table: str


@dataclass(frozen=True, slots=True)
class Import:
    """The maintained result of another view, by name; its columns."""

    view: str
    types: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class Constant:
    """Fixed rows with multiplicity one each, values as in ``scalar.Literal``."""

    rows: tuple[tuple[int | str | None, ...], ...]
    types: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class Linear:
    """``mfp`` applied to each row. O(change)."""

    input: Ref
    mfp: Mfp


@dataclass(frozen=True, slots=True)
class Concat:
    """The sum of collections with equal columns. O(change)."""

    inputs: tuple[Ref, ...]


@dataclass(frozen=True, slots=True)
class Negate:
    """Every diff times -1. O(change)."""

    input: Ref


@dataclass(frozen=True, slots=True)
class Arrange:
    """The input as a shared trace, sorted by all columns; ``key`` leading columns are what it is for."""

    input: Ref
    key: int


@dataclass(frozen=True, slots=True)
class Delta:
    """Changes of one relation of a delta join, which set out to find their matches: ``mfp`` of each.

    On the way a change keeps, besides its time, the one at which it set out.
    """

    input: Ref
    mfp: Mfp


@dataclass(frozen=True, slots=True)
class HalfJoin:
    """Changes on their way, each matched with what an arrangement holds: one half of a join.

    ``input`` is a ``Delta`` or another half-join. Its columns ``key`` must equal the arrangement's first
    ``len(key)`` columns, word for word (the planner filters NULLs out where SQL's ``=`` asks for it).
    ``mfp`` sees the stream row followed by the whole arrangement row.

    A change of relation ``start`` that set out at time t meets the updates of relation ``relation`` whose
    (time, relation) is below (t, start) in a linear extension of the time order. The result is at the join
    (least upper bound) of the times, its diff the product. O(change times fan-out), and nothing is kept.
    """

    input: Ref
    arrangement: Ref
    start: int
    relation: int
    key: tuple[int, ...]
    mfp: Mfp


@dataclass(frozen=True, slots=True)
class DeltaJoin:
    """An n-ary inner join that keeps no intermediate results: the sum of what comes along its paths.

    ``paths[i]`` is the last half-join of a chain that begins with the ``Delta`` of relation i and meets each
    other relation once; all end in the same columns. By the order in which half-joins meet updates, every
    combination of updates is found along exactly one path. The accumulated result, as opposed to its
    changes, comes along any single one. Relations may be the same node (self-join).
    """

    paths: tuple[Ref, ...]


@dataclass(frozen=True, slots=True)
class RangeJoin:
    """``left.c op right.v`` for the rows that agree on ``key`` leading columns: an inequality join.

    ``left`` is an arrangement of (key..., c, rest...), ``right`` one of (key..., v, rest...). NULLs
    match nothing. When v changes, only the left rows between its old and its new value are touched.
    ``mfp`` sees the left row followed by the right row, of which it may use no column. O(change + rows
    between the thresholds).
    """

    left: Ref
    right: Ref
    key: int
    comparison: str
    """One of ``"<"``, ``"<="``, ``">"``, ``">="``."""
    mfp: Mfp


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An accumulable aggregate: ``count`` (rows if ``argument`` is None, else its non-NULLs) or ``sum``."""

    function: str
    argument: int | None
    """Input column of the operand."""
    type: Type
    """Type of the operand for ``sum`` (exact, or DOUBLE/REAL summed exactly), BIGINT for ``count``."""
    description: str = field(default="", compare=False, repr=False)
    """The expression as the user would recognise it, for errors such as overflow."""
    second: int | None = None
    """Input column of the second operand, of aggregates of two."""


@dataclass(frozen=True, slots=True)
class Reduce:
    """Accumulable reduce: one row (key..., aggregates...) per group; state is O(1) words per group.

    The first ``key`` input columns are the group key. ``sum`` over no non-NULL operand is NULL. With
    ``key == 0`` there is always exactly one output row, as SQL has it. O(change).
    """

    input: Ref
    key: int
    aggregates: tuple[Aggregate, ...]


@dataclass(frozen=True, slots=True)
class Distinct:
    """Each row whose multiplicity is positive, once. O(change)."""

    input: Ref


@dataclass(frozen=True, slots=True)
class Threshold:
    """Each row with its multiplicity where that is positive (EXCEPT ALL). O(change)."""

    input: Ref


@dataclass(frozen=True, slots=True)
class Expand:
    """Each row as often as the longest of ``calls`` makes rows of it: ``kept`` columns, then theirs.

    The rows of calls stand side by side, padded with NULLs; after them their number from 1 on if
    ``ordinality``. With ``outer`` a row for which there are none stays, with NULLs. O(change x rows made).
    """

    input: Ref
    kept: int
    calls: tuple[Expansion, ...]
    ordinality: bool = False
    outer: bool = False


@dataclass(frozen=True, slots=True)
class TopK:
    """Rows ``offset .. offset+limit`` of each group, in the order of the arrangement.

    ``input`` is an arrangement of (group..., order words..., rest...). Hierarchical: a change costs a
    search from the start of its group, O(log n + offset + limit), not the group. ``limit`` None means all.
    ``exact`` lists text columns by which rows that agree on the order words up to ``prefix`` are to be
    compared: (first order column of the text's prefix words, column of the text's code, descending).
    """

    input: Ref
    group: int
    limit: int | None
    offset: int
    exact: tuple[tuple[int, int, bool], ...] = ()


@dataclass(frozen=True, slots=True)
class BasicAggregate:
    """An aggregate that is recomputed for a changed group (``string_agg``): registered by name."""

    function: str
    arguments: tuple[int, ...]
    """Input columns of the operands; literals are mapped to columns."""
    argument_types: tuple[Type, ...]
    type: Type
    order: tuple[Direction, ...] = ()
    """The group's rows are taken in the order of as many keys, the last of the operands."""


@dataclass(frozen=True, slots=True)
class BasicReduce:
    """One row (key..., aggregates...) per group of an arrangement, recomputed from the group. O(group)."""

    input: Ref
    key: int
    aggregates: tuple[BasicAggregate, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """Each row of an arrangement of (partition..., order words..., rest...), and what ``calls`` say of it.

    A partition is in the order of the arrangement, and equal rows are as many; rows that agree on the
    columns ``peers`` are peers. ``exact`` as in ``TopK``. O(partition); if all calls are local
    (``is_local``), a few changes of a large partition cost O(log partition + rows whose answers change),
    once it has an index.
    """

    input: Ref
    partition: int
    peers: tuple[int, ...]
    calls: tuple[WindowCall, ...]
    exact: tuple[tuple[int, int, bool], ...] = ()


@dataclass(frozen=True, slots=True)
class Fold:
    """One row (key..., aggregates...) per group, by aggregates that can take rows back. O(change).

    Each group has their states, in Python; outside of loops only.
    """

    input: Ref
    key: int
    aggregates: tuple[BasicAggregate, ...]


@dataclass(frozen=True, slots=True)
class Single:
    """The input, which must have at most one row for each value of its first ``key`` columns.

    Raises DataError otherwise (a scalar subquery that returns several rows). O(change).
    """

    input: Ref
    key: int


@dataclass(frozen=True, slots=True)
class Enter:
    """In a loop's body: node ``input`` of the list that holds the loop, present from round 0.

    An arrangement stays one: it is looked up where it is, without a copy.
    """

    input: Ref


@dataclass(frozen=True, slots=True)
class Variable:
    """In a loop's body: recursive collection ``index``, of ``types``.

    At round 0 it is ``initial``, a node of the body, or empty; at round r + 1 what ``Loop.results[index]``
    is at r.
    """

    index: int
    types: tuple[Type, ...]
    initial: Ref | None = None


@dataclass(frozen=True, slots=True)
class Loop:
    """Collections defined by each other, computed by rounds; it has no stream: ``Leave`` reads its results.

    References within ``body`` are positions in it, except those of its ``Enter`` nodes. ``results[i]`` is
    the body node that variable i becomes in the next round; results beyond the variables are only read.
    With a ``limit`` of n only n rounds are computed: with ``error_at_limit`` it is an error if a
    variable would still change. Source, Constant, Import, Single and RangeJoin stay outside.
    """

    body: "tuple[AnyNode, ...]"
    results: tuple[Ref, ...]
    limit: int | None = None
    error_at_limit: bool = False


@dataclass(frozen=True, slots=True)
class Leave:
    """Result ``result`` of a loop, summed over all rounds: its fixed point. O(change)."""

    loop: Ref
    result: int


Node = (
    Source
    | Import
    | Constant
    | Linear
    | Concat
    | Negate
    | Arrange
    | Delta
    | HalfJoin
    | DeltaJoin
    | RangeJoin
    | Reduce
    | Distinct
    | Threshold
    | Expand
    | TopK
    | BasicReduce
    | Window
    | Fold
    | Single
    | Ego
    | Enter
    | Variable
    | Loop
    | Leave
)
"""What the compiler makes plans of."""

AnyNode = Node | user.Node | Exchange


@dataclass(frozen=True, slots=True)
class Plan:
    """Nodes in dependency order; ``output`` is what a view reads: operators that hold their contents.

    That is an arrangement, a reduce, distinct, threshold or top-k, or linear operators and sums of these.
    """

    nodes: tuple[AnyNode, ...]
    output: Ref
