"""Small hand-built plans over two tables, each with the plain Python function that says what it computes."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import zip_longest

from kpg.runtime.functions.table_functions import Expansion
from kpg.runtime.plan import (
    Aggregate,
    Arrange,
    Bound,
    Concat,
    Constant,
    Delta,
    DeltaJoin,
    Distinct,
    Edge,
    Exclude,
    Expand,
    Frame,
    HalfJoin,
    Linear,
    Mfp,
    Negate,
    Plan,
    Ranged,
    RangeJoin,
    Reduce,
    Single,
    Source,
    Threshold,
    TopK,
    Unit,
    Window,
    WindowCall,
)
from kpg.runtime.scalar import Column, Fetch, Literal, Scalar
from kpg.runtime.types import BIGINT, DOUBLE, INTEGER, NULL, ROWID, ColumnDef, Schema, float_to_word
from tests.model import windows

Row = tuple[int, ...]
Truth = Callable[[Sequence[Row], Sequence[Row]], Counter[Row]]

SCHEMA = Schema((ColumnDef("k", INTEGER), ColumnDef("v", INTEGER)))


def fetch(table: str, column: int, position: int) -> Scalar:
    return Fetch(table, column, Column(position, ROWID), INTEGER)


def col(index: int) -> Scalar:
    return Column(index, BIGINT)


def columns_of(table: str, source: int) -> Linear:
    """The table's two columns inline."""
    return Linear(source, Mfp((), (fetch(table, 0, 0), fetch(table, 1, 0))))


def join_plan() -> Plan:
    """select a.v, b.v from a join b on a.k = b.k, grouped by a.v: count, sum of b.v."""
    by_key = {t: Linear(i, Mfp((), (fetch(t, 0, 0), Column(0, ROWID)))) for i, t in enumerate("ab")}
    start = {t: Mfp((), (fetch(t, 0, 0), fetch(t, 1, 0))) for t in "ab"}
    nodes = (
        Source("a"),
        Source("b"),
        by_key["a"],
        by_key["b"],
        Arrange(2, 1),
        Arrange(3, 1),
        Delta(0, start["a"]),
        HalfJoin(6, 5, 0, 1, (0,), Mfp((), (col(1), fetch("b", 1, 3)))),
        Delta(1, start["b"]),
        HalfJoin(8, 4, 1, 0, (0,), Mfp((), (fetch("a", 1, 3), col(1)))),
        DeltaJoin((7, 9)),
        Reduce(10, 1, (Aggregate("count", None, BIGINT), Aggregate("sum", 1, BIGINT))),
        Arrange(11, 1),
    )
    return Plan(nodes, 12)


def join_truth(a: Sequence[Row], b: Sequence[Row]) -> Counter[Row]:
    groups: dict[int, list[int]] = {}
    for k, v in a:
        for k2, w in b:
            if k == k2:
                groups.setdefault(v, []).append(w)
    return Counter((v, len(ws), sum(ws)) for v, ws in groups.items())


def self_join_plan() -> Plan:
    """select x.v, y.v from a x join a y on x.v = y.k."""
    nodes = (
        Source("a"),
        Linear(0, Mfp((), (fetch("a", 0, 0), Column(0, ROWID)))),
        Linear(0, Mfp((), (fetch("a", 1, 0), Column(0, ROWID)))),
        Arrange(1, 1),
        Arrange(2, 1),
        Delta(0, Mfp((), (fetch("a", 1, 0), fetch("a", 0, 0)))),
        HalfJoin(5, 3, 0, 1, (0,), Mfp((), (col(1), fetch("a", 1, 3)))),
        Delta(0, Mfp((), (fetch("a", 0, 0), fetch("a", 1, 0)))),
        HalfJoin(7, 4, 1, 0, (0,), Mfp((), (fetch("a", 0, 3), col(1)))),
        DeltaJoin((6, 8)),
        Arrange(9, 2),
    )
    return Plan(nodes, 10)


def self_join_truth(a: Sequence[Row], b: Sequence[Row]) -> Counter[Row]:
    return Counter((x[0], y[1]) for x in a for y in a if x[1] == y[0])


def semijoin_plan() -> Plan:
    """The rows of a whose k some row of b has: distinct rowids, columns fetched above."""
    nodes = (
        Source("a"),
        Source("b"),
        Linear(0, Mfp((), (fetch("a", 0, 0), Column(0, ROWID)))),
        Linear(1, Mfp((), (fetch("b", 0, 0), Column(0, ROWID)))),
        Arrange(2, 1),
        Arrange(3, 1),
        Delta(0, Mfp((), (fetch("a", 0, 0), Column(0, ROWID)))),
        HalfJoin(6, 5, 0, 1, (0,), Mfp((), (Column(1, ROWID),))),
        Delta(1, Mfp((), (fetch("b", 0, 0),))),
        HalfJoin(8, 4, 1, 0, (0,), Mfp((), (Column(2, ROWID),))),
        DeltaJoin((7, 9)),
        Distinct(10),
        columns_of("a", 11),
        Arrange(12, 2),
    )
    return Plan(nodes, 13)


def semijoin_truth(a: Sequence[Row], b: Sequence[Row]) -> Counter[Row]:
    return Counter(row for row in a if row[0] in {other[0] for other in b})


def top_plan(limit: int | None, offset: int) -> Plan:
    """The rows of a with the smallest v of each k."""
    nodes = (
        Source("a"),
        columns_of("a", 0),
        Arrange(1, 1),
        TopK(2, 1, limit, offset),
        Arrange(3, 2),
    )
    return Plan(nodes, 4)


def top_truth(limit: int | None, offset: int) -> Truth:
    def truth(a: Sequence[Row], b: Sequence[Row]) -> Counter[Row]:
        result: Counter[Row] = Counter()
        for k in {row[0] for row in a}:
            values = sorted(row for row in a if row[0] == k)
            result.update(values[offset : None if limit is None else offset + limit])
        return result

    return truth


def set_plan() -> Plan:
    """distinct(a) plus (a except all b)."""
    nodes = (
        Source("a"),
        Source("b"),
        columns_of("a", 0),
        columns_of("b", 1),
        Distinct(2),
        Negate(3),
        Concat((2, 5)),
        Threshold(6),
        Concat((4, 7)),
        Arrange(8, 2),
    )
    return Plan(nodes, 9)


def set_truth(a: Sequence[Row], b: Sequence[Row]) -> Counter[Row]:
    return Counter(set(a)) + (Counter(a) - Counter(b))


def single_plan() -> Plan:
    """The number of rows of each k of a, of which there is one, and two fixed rows."""
    nodes = (
        Source("a"),
        columns_of("a", 0),
        Reduce(1, 1, (Aggregate("count", None, BIGINT),)),
        Single(2, 1),
        Constant(((7, 1), (7, 2)), (BIGINT, BIGINT)),
        Concat((3, 4)),
        Arrange(5, 2),
    )
    return Plan(nodes, 6)


def single_truth(a: Sequence[Row], b: Sequence[Row]) -> Counter[Row]:
    return Counter([*Counter(k for k, _ in a).items(), (7, 1), (7, 2)])


def range_plan(comparison: str) -> Plan:
    """The rows of a whose v compares so with the sum of b's v (none while b is empty)."""
    nodes = (
        Source("a"),
        Source("b"),
        Linear(0, Mfp((), (fetch("a", 1, 0), fetch("a", 0, 0)))),
        Arrange(2, 0),
        Linear(1, Mfp((), (fetch("b", 1, 0),))),
        Reduce(4, 0, (Aggregate("sum", 0, BIGINT),)),
        Arrange(5, 0),
        RangeJoin(3, 6, 0, comparison, Mfp((), (col(1), col(0)))),
        Arrange(7, 2),
    )
    return Plan(nodes, 8)


def range_truth(comparison: str) -> Truth:
    compare: dict[str, Callable[[int, int], bool]] = {
        "<": int.__lt__,
        "<=": int.__le__,
        ">": int.__gt__,
        ">=": int.__ge__,
    }

    def truth(a: Sequence[Row], b: Sequence[Row]) -> Counter[Row]:
        if not b:
            return Counter()
        threshold = sum(row[1] for row in b)
        return Counter(row for row in a if compare[comparison](row[1], threshold))

    return truth


def expand_plan(*, outer: bool) -> Plan:
    """Of each row of a its k, with the numbers from k to v beside those from 0 to k, and their places."""
    series = [
        Expansion("generate_series", places, (BIGINT, BIGINT), (BIGINT,)) for places in ((1, 2), (3, 1))
    ]
    outputs = (fetch("a", 0, 0), fetch("a", 0, 0), fetch("a", 1, 0), Literal(0, BIGINT))
    nodes = (
        Source("a"),
        Linear(0, Mfp((), outputs)),
        Expand(1, 1, tuple(series), ordinality=True, outer=outer),
        Reduce(2, 4, (Aggregate("count", None, BIGINT),)),
        Arrange(3, 5),
    )
    return Plan(nodes, 4)


def expand_truth(*, outer: bool) -> Truth:
    def truth(a: Sequence[Row], b: Sequence[Row]) -> Counter[Row]:
        made: Counter[Row] = Counter()
        for k, v in a:
            pairs = list(zip_longest(range(k, v + 1), range(k + 1), fillvalue=NULL))
            made.update((k, *pair, place) for place, pair in enumerate(pairs, 1))
            if outer and not pairs:
                made[k, NULL, NULL, NULL] += 1
        return Counter((*row, count) for row, count in made.items())

    return truth


def window_plan(partition: int, frame: Frame, *, shares: bool) -> Plan:
    """What window functions say of the rows of a, ordered by v; equal rows are several."""
    value = Column(1, BIGINT)
    names = ("row_number", "rank", "dense_rank", *(("cume_dist",) if shares else ()))
    calls = (
        *(WindowCall(name, (), DOUBLE if name == "cume_dist" else BIGINT) for name in names),
        *(WindowCall(name, (value, Literal(2, INTEGER)), BIGINT) for name in ("lag", "lead")),
        *(WindowCall(name, (value,), BIGINT, frame) for name in ("sum", "count", "min", "last_value")),
    )
    nodes = (
        Source("a"),
        columns_of("a", 0),
        Arrange(1, partition),
        Window(2, partition, (1,) if partition else (0, 1), calls),
        Arrange(3, 2),
    )
    return Plan(nodes, 4)


def window_truth(partition: int, plan: Plan) -> Truth:
    def truth(a: Sequence[Row], b: Sequence[Row]) -> Counter[Row]:
        (window,) = (node for node in plan.nodes if isinstance(node, Window))
        result: Counter[Row] = Counter()
        for k in {row[:partition] for row in a}:
            rows = sorted(row for row in a if row[:partition] == k)
            found = [windows.answers(call, rows, window.peers) for call in window.calls]
            for row, *values in zip(rows, *found, strict=True):
                shares = (float_to_word(value) if isinstance(value, float) else value for value in values)
                result[(*row, *(NULL if value is None else value for value in shares))] += 1
        return result

    return truth


FRAMES = {
    "running": Frame(),
    "whole": Frame(Unit.RANGE, end=Bound(Edge.UNBOUNDED_FOLLOWING)),
    "rows around": Frame(Unit.ROWS, Bound(Edge.PRECEDING, 1), Bound(Edge.FOLLOWING, 2), Exclude.CURRENT_ROW),
    "groups before": Frame(Unit.GROUPS, Bound(Edge.PRECEDING, 2), Bound(Edge.PRECEDING, 1)),
    "values around": Frame(
        Unit.RANGE, Bound(Edge.PRECEDING, 1), Bound(Edge.FOLLOWING, 1), ranged=Ranged(1, False, False)
    ),
    "to the end": Frame(Unit.ROWS, Bound(Edge.CURRENT_ROW), Bound(Edge.UNBOUNDED_FOLLOWING)),
}
WINDOW_PLANS = {
    (name, partition, shares): window_plan(partition, frame, shares=shares)
    for name, frame in FRAMES.items()
    for shares in (False, True)
    for partition in ((0, 1) if frame.ranged is None else (1,))
}

DATAFLOWS: dict[str, tuple[Plan, Truth]] = {
    "join and reduce": (join_plan(), join_truth),
    "self-join": (self_join_plan(), self_join_truth),
    "semijoin": (semijoin_plan(), semijoin_truth),
    "min": (top_plan(1, 0), top_truth(1, 0)),
    "top 2 after 1": (top_plan(2, 1), top_truth(2, 1)),
    "all after 1": (top_plan(None, 1), top_truth(None, 1)),
    "distinct and threshold": (set_plan(), set_truth),
    "expand": (expand_plan(outer=False), expand_truth(outer=False)),
    "expand or NULLs": (expand_plan(outer=True), expand_truth(outer=True)),
    "single and constant": (single_plan(), single_truth),
    **{
        f"windows by {partition}, {name}{', shares' if shares else ''}": (plan, window_truth(partition, plan))
        for (name, partition, shares), plan in WINDOW_PLANS.items()
    },
    **{f"v {op} threshold": (range_plan(op), range_truth(op)) for op in ("<", "<=", ">", ">=")},
}
