"""The physical dataflow IR: what the compiler hands to the runtime.

A :class:`Plan` is a flat list of nodes in dependency order; a node names its inputs by their position
in the list (:data:`Ref`). Nothing is left to decide when it is rendered: which arrangements exist, in
which order joins look them up, and which kind of reduce maintains an aggregate are all written here.

*Streams and arrangements.* Every node produces a stream of updates ``(row, time, diff)``, a row being
a tuple of int64 words. ``Arrange`` additionally keeps the accumulated stream as a trace sorted
lexicographically by all its columns, so that it can be looked up by **any prefix** of them; only
arrangements can be looked up.

*Base tables.* ``Source`` streams ``(rowid,)``. The columns of a row live once, in the table's row
store; expressions read them with ``Fetch``. An arrangement over a base table holds ``(key..., rowid)``
and so serves every query that looks the table up by that key, whatever columns it needs.

Nodes are plain frozen data: no numba, no numpy, picklable.
"""

from dataclasses import field

from kpg.runtime.functions.aggregation import Direction
from kpg.runtime.functions.tables import Expansion
from kpg.runtime.plan import placed, user
from kpg.runtime.plan.ego import Ego
from kpg.runtime.plan.windows import WindowCall
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Scalar
from kpg.runtime.types import Type

Ref = int
"""Position of a node in ``Plan.nodes``."""


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

AnyNode = Node | user.Node | placed.Exchange


@dataclass(frozen=True, slots=True)
class Plan:
    """Nodes in dependency order; ``output`` is what a view reads: operators that hold their contents.

    That is an arrangement, a reduce, distinct, threshold or top-k, or linear operators and sums of these.
    """

    nodes: tuple[AnyNode, ...]
    output: Ref
