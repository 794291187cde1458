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

from kpg.runtime.functions import Hierarchical, WindowResult, lookup_aggregate, window_function
from kpg.runtime.functions.aggregation.definition import Direction
from kpg.runtime.functions.table_functions import Expansion
from kpg.runtime.plan import user
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Literal, Scalar, columns, remap
from kpg.runtime.types import Type

Ref = int
"""Position of a node in the list that holds it."""


class EgoFamily(enum.Enum):
    """State of a partial aggregate."""

    SUMS = "counts and sums of words"
    LEAST = "the least word"
    GREATEST = "the greatest word"
    COUNTS = "each word, and how often it is there"
    STATES = "the state of an aggregate's algorithm, in Python"


@dataclass(frozen=True, slots=True)
class EgoCall:
    """Aggregate over the columns of a write, which are numbered from 0; a count if ``counts`` is set."""

    function: str
    arguments: tuple[int, ...]
    argument_types: tuple[Type, ...]
    type: Type
    counts: bool = False


@dataclass(frozen=True, slots=True)
class Ego:
    """Ego-centric aggregate: a row (reader, calls...) for each reader with a row of one of its writers.

    ``pairs`` has distinct rows (reader, writer). ``writes`` has rows (writer, columns...), those of the
    window. A change costs O(change x pushed partial aggregates). Pulled ones are computed on reads when
    the output has no consumer.
    """

    pairs: Ref
    writes: Ref
    family: EgoFamily
    calls: tuple[EgoCall, ...]
    construction: str
    """Algorithm that builds the overlay (``ego/construction.py``)."""
    mode: str
    """Push decision: ``auto`` minimizes the cost, ``push`` pushes all, ``pull`` pushes the writers only."""
    few: int = 0
    """Number of most frequent values to keep, for counts; 0 for all."""
    continuous: Ref | None = None
    """Input of distinct rows (reader,) that are always pushed."""

    @property
    def sources(self) -> tuple[Ref, ...]:
        """Inputs of the node."""
        rest = () if self.continuous is None else (self.continuous,)
        return (self.pairs, self.writes, *rest)


class Route(enum.Enum):
    """Workers that receive a row."""

    OWNER = "owner"
    """The worker that owns a column's word."""
    EVERYWHERE = "everywhere"
    """All workers."""
    PIECES = "pieces"
    """Round robin over ranges of rowids, for a table that every worker holds."""
    FIRST = "first"
    """Worker 0."""


@dataclass(frozen=True, slots=True)
class Combine:
    """Partial aggregation of rows before they are sent to a reduce.

    The first ``key`` columns are the group. Columns in ``summed`` are added up. Of the other columns
    the reduce reads only whether they are NULL.
    """

    key: int
    summed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Exchange:
    """Sends the input's rows to the workers that ``route`` selects. O(change).

    ``by`` is the routing column. If ``fetched`` is set, ``by`` is a rowid and the routing value is that
    (table, column) of its row. With ``held`` every worker has all rows already: each keeps its share
    and nothing is sent.
    """

    input: Ref
    route: Route
    by: int | None = None
    held: bool = False
    fetched: tuple[str, int] | None = None
    combine: Combine | None = None


class Unit(enum.Enum):
    """Unit of a frame's offsets."""

    ROWS = "rows"
    RANGE = "range"
    GROUPS = "groups"


class Edge(enum.Enum):
    """Start or end of a frame, in the order that SQL allows."""

    UNBOUNDED_PRECEDING = "unbounded preceding"
    PRECEDING = "preceding"
    CURRENT_ROW = "current row"
    FOLLOWING = "following"
    UNBOUNDED_FOLLOWING = "unbounded following"


class Exclude(enum.Enum):
    """Rows around the current one that a frame excludes."""

    NO_OTHERS = "no others"
    CURRENT_ROW = "current row"
    GROUP = "group"
    TIES = "ties"


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a frame.

    PRECEDING and FOLLOWING have an offset: rows, groups, or a difference of values. For RANGE,
    ``offset`` is a word to add or subtract if words allow that. Otherwise ``column`` has the bound's
    value for each row. For ROWS and GROUPS, ``column`` has the offset.
    """

    edge: Edge
    offset: int = 0
    column: int | None = None


@dataclass(frozen=True, slots=True)
class Ranged:
    """Column whose values a RANGE with offsets compares; the rows are sorted by it."""

    column: int
    descending: bool
    is_float: bool = False
    is_interned: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """Rows of the partition that an aggregate covers."""

    unit: Unit = Unit.RANGE
    start: Bound = Bound(Edge.UNBOUNDED_PRECEDING)
    end: Bound = Bound(Edge.CURRENT_ROW)
    exclude: Exclude = Exclude.NO_OTHERS
    ranged: Ranged | None = None
    """Set for a RANGE with offsets."""


@dataclass(frozen=True, slots=True)
class WindowCall:
    """Window function, or aggregate over a frame; its arguments are columns and literals."""

    function: str
    args: tuple[Scalar, ...]
    type: Type
    frame: Frame = Frame()
    text: str = field(default="", compare=False)
    """Source text of the call, for errors."""


def call_columns(call: WindowCall) -> Iterator[int]:
    """Yield the columns that a call reads."""
    for arg in call.args:
        yield from columns(arg)
    yield from (bound.column for bound in (call.frame.start, call.frame.end) if bound.column is not None)
    if call.frame.ranged is not None:
        yield call.frame.ranged.column


def remap_call(call: WindowCall, new_position: Callable[[int], int]) -> WindowCall:
    """Return the call over rows whose column ``i`` is at ``new_position(i)``."""
    frame = call.frame
    start, end = (
        bound if bound.column is None else replace(bound, column=new_position(bound.column))
        for bound in (frame.start, frame.end)
    )
    ranged = frame.ranged and replace(frame.ranged, column=new_position(frame.ranged.column))
    args = tuple(remap(arg, new_position) for arg in call.args)
    return replace(call, args=args, frame=replace(frame, start=start, end=end, ranged=ranged))


def is_local(call: WindowCall) -> bool:
    """Return whether changes of the call's results can be found without the rest of the partition.

    A call is not local if a row's own value sets its offset. Neither is one with an open frame whose
    aggregate has no partial aggregates of a few words, nor one whose results depend on the partition's
    size.
    """
    function_kind, frame = window_function(call.function), call.frame
    is_closed = not {frame.start.edge, frame.end.edge} & {Edge.UNBOUNDED_PRECEDING, Edge.UNBOUNDED_FOLLOWING}
    has_fixed_offset = len(call.args) < 2 or isinstance(call.args[1], Literal)
    if frame.ranged is not None and frame.ranged.is_interned:
        return False
    if frame.unit is not Unit.RANGE and (frame.start.column, frame.end.column) != (None, None):
        return False
    if function_kind is None:
        function = lookup_aggregate(call.function)
        return is_closed or function.accumulator is not None or isinstance(function.maintenance, Hierarchical)
    match function_kind.answer:
        case (
            WindowResult.ROW_NUMBER
            | WindowResult.RANK
            | WindowResult.DENSE_RANK
            | WindowResult.PERCENT_RANK
            | WindowResult.CUME_DIST
        ):
            return True
        case WindowResult.NTILE:
            return isinstance(call.args[0], Literal)
        case WindowResult.LAG | WindowResult.LEAD:
            return has_fixed_offset
        case WindowResult.FIRST_VALUE | WindowResult.LAST_VALUE:
            return is_closed or frame.exclude is Exclude.NO_OTHERS
        case WindowResult.NTH_VALUE:
            starts_at_first = (
                frame.start.edge is Edge.UNBOUNDED_PRECEDING and frame.exclude is Exclude.NO_OTHERS
            )
            return has_fixed_offset and (is_closed or starts_at_first)
        case _:
            assert_never(function_kind.answer)


def frame_text(frame: Frame) -> str:
    """Return the frame as SQL; a bound that is a column appears as ``#i``."""
    start, end = (_bound_text(bound) for bound in (frame.start, frame.end))
    exclude = "" if frame.exclude is Exclude.NO_OTHERS else f" exclude {frame.exclude.value}"
    return f"{frame.unit.value} between {start} and {end}{exclude}"


def _bound_text(bound: Bound) -> str:
    if bound.edge not in (Edge.PRECEDING, Edge.FOLLOWING):
        return bound.edge.value
    return f"{bound.offset if bound.column is None else f'#{bound.column}'} {bound.edge.value}"


def shown_call(call: WindowCall, scalar_text: Callable[[Scalar], str]) -> str:
    """Return the call as text, without its OVER."""
    return f"{call.function}({', '.join(map(scalar_text, call.args))})"


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
    """Fixed rows with multiplicity one each; values as in ``scalar.Literal``."""

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
    """The input as a shared trace, sorted by all columns; lookups use the ``key`` leading columns."""

    input: Ref
    key: int


@dataclass(frozen=True, slots=True)
class Delta:
    """Changes of one relation of a delta join, at the start of its path; ``mfp`` is applied to each.

    A change carries its original time along the path, besides its current one.
    """

    input: Ref
    mfp: Mfp


@dataclass(frozen=True, slots=True)
class HalfJoin:
    """One half of a join: changes on a path, each matched with the rows of an arrangement.

    ``input`` is a ``Delta`` or another half-join. Its columns ``key`` must equal the arrangement's
    first ``len(key)`` columns, word for word (the planner filters NULLs out where SQL's ``=`` requires
    it). ``mfp`` reads the stream row followed by the whole arrangement row.

    A change of relation ``start`` with original time t meets the updates of relation ``relation`` whose
    (time, relation) is below (t, start) in a linear extension of the time order. The result is at the
    join (least upper bound) of the times; its diff is the product. O(change times fan-out), without
    state.
    """

    input: Ref
    arrangement: Ref
    start: int
    relation: int
    key: tuple[int, ...]
    mfp: Mfp


@dataclass(frozen=True, slots=True)
class DeltaJoin:
    """An n-ary inner join without intermediate state: the sum of the outputs of its paths.

    ``paths[i]`` is the last half-join of a chain that begins with the ``Delta`` of relation i and meets
    each other relation once. All paths end in the same columns. Half-joins order the updates that they
    meet, so every combination of updates is found on exactly one path. Any single path computes the
    accumulated result. Relations may be the same node (self-join).
    """

    paths: tuple[Ref, ...]


@dataclass(frozen=True, slots=True)
class RangeJoin:
    """Inequality join: ``left.c op right.v`` for the rows that agree on ``key`` leading columns.

    ``left`` is an arrangement of (key..., c, rest...), ``right`` one of (key..., v, rest...). NULLs
    match nothing. When v changes, only the left rows between its old and its new value are read.
    ``mfp`` sees the left row followed by the right row, but must not read columns of the right row.
    O(change + rows between the thresholds).
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
    """Source text of the expression, for errors such as overflow."""
    second: int | None = None
    """Input column of the second operand, for aggregates of two operands."""


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
    """Set-returning functions: ``kept`` columns of each input row, then the columns of ``calls``.

    An input row gives as many rows as the longest call. Shorter calls are padded with NULLs. With
    ``ordinality`` the row number, from 1 on, follows. With ``outer`` an input row without any result
    stays, padded with NULLs. O(change x rows returned).
    """

    input: Ref
    kept: int
    calls: tuple[Expansion, ...]
    ordinality: bool = False
    outer: bool = False


@dataclass(frozen=True, slots=True)
class TopK:
    """Rows ``offset .. offset+limit`` of each group, in the order of the arrangement.

    ``input`` is an arrangement of (group..., order words..., rest...). A change costs a search from the
    start of its group, O(log n + offset + limit), not the whole group. ``limit`` None means all.
    ``exact`` lists the text columns that break ties of order words: (first order column of the text's
    prefix words, column of the text's code, descending).
    """

    input: Ref
    group: int
    limit: int | None
    offset: int
    exact: tuple[tuple[int, int, bool], ...] = ()


@dataclass(frozen=True, slots=True)
class BasicAggregate:
    """Aggregate that is recomputed for a changed group (``string_agg``), by its registered name."""

    function: str
    arguments: tuple[int, ...]
    """Input columns of the operands; literals are mapped to columns."""
    argument_types: tuple[Type, ...]
    type: Type
    order: tuple[Direction, ...] = ()
    """Directions of the sort keys, which are the last operands.

    The aggregate reads the rows in their order.
    """


@dataclass(frozen=True, slots=True)
class BasicReduce:
    """One row (key..., aggregates...) per group of an arrangement, recomputed from the group. O(group)."""

    input: Ref
    key: int
    aggregates: tuple[BasicAggregate, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """Each row of an arrangement, followed by the results of ``calls``.

    The arrangement is of (partition..., order words..., rest...). A partition is in the order of the
    arrangement; a row with multiplicity n counts as n rows. Rows that agree on the columns ``peers``
    are peers. ``exact`` as in ``TopK``. O(partition). If all calls are local (``is_local``) and the
    partition has an index, a few changes of a large partition cost O(log partition + rows whose results
    change).
    """

    input: Ref
    partition: int
    peers: tuple[int, ...]
    calls: tuple[WindowCall, ...]
    exact: tuple[tuple[int, int, bool], ...] = ()


@dataclass(frozen=True, slots=True)
class Fold:
    """One row (key..., aggregates...) per group, by aggregates with retraction. O(change).

    The states are Python objects, one per group. Not allowed in loops.
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
    """In a loop's body: node ``input`` of the list that contains the loop, present from round 0.

    An arrangement is looked up in place, without a copy.
    """

    input: Ref


@dataclass(frozen=True, slots=True)
class Variable:
    """In a loop's body: recursive collection ``index``, with columns of ``types``.

    At round 0 it is ``initial``, a node of the body, or empty. At round r + 1 it is the value of
    ``Loop.results[index]`` at round r.
    """

    index: int
    types: tuple[Type, ...]
    initial: Ref | None = None


@dataclass(frozen=True, slots=True)
class Loop:
    """Mutually recursive collections, computed by rounds.

    ``Leave`` reads its results, the loop has no stream. References within ``body`` are positions in it,
    except those of its ``Enter`` nodes. ``results[i]`` is the body node that defines variable i in the
    next round; results beyond the variables are only read. A ``limit`` of n computes n rounds. With
    ``error_at_limit`` it is an error if a variable would still change. Source, Constant, Import, Single
    and RangeJoin are not allowed in a body.
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
"""Node kinds that the compiler emits."""

AnyNode = Node | user.Node | Exchange


@dataclass(frozen=True, slots=True)
class Plan:
    """Nodes in dependency order; ``output`` is the node that a view reads.

    The output must hold its contents: an arrangement, a reduce, distinct, threshold or top-k, or linear
    operators and sums of these.
    """

    nodes: tuple[AnyNode, ...]
    output: Ref
