"""The slow truth about dataflow plans: each node from scratch, over multisets of rows of Python values.

A join's paths must agree: each has the whole result. Order words become values that
compare as the words do. A loop's body is evaluated from scratch in every round.
"""

import datetime
import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cmp_to_key
from typing import Any

from kpg.runtime import plan
from kpg.runtime.plan import Mfp, Plan
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from tests.model import windows
from tests.model.relation import RecursionLimitError, SingleError, series, side_by_side
from tests.model.scalar import evaluate, from_word, passes

Row = tuple[Any, ...]
Rows = Counter[Row]
Tables = Mapping[str, Sequence[Row]]
COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
TEXT_BYTES = 7
"""Bytes of a text in one order word."""
MOST_ROUNDS = 1000
"""Rounds after which a loop without a limit counts as one without a fixed point."""


class DisagreementError(Exception):
    """Two paths of a join give different results."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a list of nodes reads besides itself; ``outer`` and ``variables`` are those of a loop's body."""

    tables: Tables
    views: Mapping[str, Rows]
    outer: "Sequence[Value]" = ()
    variables: Sequence[Rows | None] = ()
    """None: not yet carried, so the variable is its ``initial``."""


Value = Any
"""Of a node: its Rows; of a loop, the Rows of each of its results."""


def rows_of_plan(query: Plan, tables: Tables, views: Mapping[str, Rows] | None = None) -> Rows:
    """The multiset of rows in the plan's output."""
    rows: Rows = all_rows(query, tables, views)[query.output]
    return rows


def all_rows(query: Plan, tables: Tables, views: Mapping[str, Rows] | None = None) -> list[Value]:
    """The multiset of rows of every node; of a loop, those of its results."""
    return _list(query.nodes, Surroundings(tables, views or {}))


def _list(nodes: Sequence[plan.Node], around: Surroundings) -> list[Value]:
    done: list[Value] = []
    for node in nodes:
        done.append(_node(node, done, around))
    return done


def _node(node: plan.Node, done: Sequence[Value], around: Surroundings) -> Value:
    match node:
        case plan.Source(table=table):
            return Counter((index,) for index in range(len(around.tables[table])))
        case plan.Import(view=view):
            return around.views[view]
        case plan.Constant(rows=rows, types=types):
            return Counter(tuple(from_word(v, t) for v, t in zip(row, types, strict=True)) for row in rows)
        case plan.Enter(input=ref):
            return around.outer[ref]
        case plan.Variable(index=index, initial=initial):
            carried = around.variables[index]
            first = Counter() if initial is None else done[initial]
            return first if carried is None else carried
        case plan.Loop():
            return _fixed_point(node, replace(around, outer=done))
        case plan.Leave(loop=ref, result=result):
            return done[ref][result]
        case _:
            return _operator(node, done, around.tables)


def _fixed_point(loop: plan.Loop, around: Surroundings) -> list[Rows]:
    """The results of the round after which no variable changes, or of the last round within the limit."""
    places = {node.index: ref for ref, node in enumerate(loop.body) if isinstance(node, plan.Variable)}
    carried: list[Rows | None] = [None] * len(places)
    for _ in range(MOST_ROUNDS if loop.limit is None else loop.limit):
        done = _list(loop.body, replace(around, variables=carried))
        results = [done[ref] for ref in loop.results]
        if all(done[ref] == results[index] for index, ref in places.items()):
            return results
        carried = list(results[: len(places)])
    if loop.limit is None or loop.error_at_limit:
        raise RecursionLimitError
    return results


def _operator(node: plan.Node, done: Sequence[Rows], tables: Tables) -> Rows:
    match node:
        case plan.Linear(input=ref, mfp=mfp):
            return _mapped(mfp, done[ref], tables)
        case plan.Concat(inputs=refs):
            return _sum(done[ref] for ref in refs)
        case plan.Negate(input=ref):
            return Counter({row: -n for row, n in done[ref].items()})
        case plan.Arrange(input=ref):
            return done[ref]
        case plan.Delta(input=ref, mfp=mfp):
            return _mapped(mfp, done[ref], tables)
        case plan.HalfJoin():
            return _half_join(node, done, tables)
        case plan.DeltaJoin(paths=ends):
            return _delta_join(ends, done)
        case plan.RangeJoin():
            return _range_join(node, done, tables)
        case plan.Reduce(input=ref, key=key, aggregates=aggregates):
            return _reduce(done[ref], key, aggregates)
        case plan.Distinct(input=ref):
            return Counter({row: 1 for row, n in done[ref].items() if n > 0})
        case plan.Threshold(input=ref):
            return Counter({row: n for row, n in done[ref].items() if n > 0})
        case plan.TopK():
            return _top(node, done[node.input])
        case (
            plan.BasicReduce(input=ref, key=key, aggregates=basics)
            | plan.Fold(input=ref, key=key, aggregates=basics)
        ):
            return _basic(done[ref], key, basics)
        case plan.Expand():
            return _expand(node, done[node.input])
        case plan.Window():
            return _windowed(node, done[node.input])
        case plan.Single(input=ref, key=key):
            if any(sum(group.values()) > 1 for group in _groups(done[ref], key).values()):
                raise SingleError
            return done[ref]
        case _:
            raise AssertionError(node)


def _expand(node: plan.Expand, rows: Rows) -> Rows:
    result: Rows = Counter()
    for row, n in rows.items():
        lists = [series(call.function, *(row[place] for place in call.arguments)) for call in node.calls]
        widths = [len(call.types) for call in node.calls]
        for made in side_by_side(lists, widths, numbered=node.ordinality, outer=node.outer):
            result[(*row[: node.kept], *made)] += n
    return result


def _value(scalar: Scalar, row: Row, tables: Tables) -> Any:
    if isinstance(scalar, Call) and scalar.function == "order_word":
        value, descending, nulls_first, part = scalar.args
        flags = [f.value == 1 if isinstance(f, Literal) else False for f in (descending, nulls_first)]
        number = part.value if isinstance(part, Literal) and isinstance(part.value, int) else 0
        return _order_value(_value(value, row, tables), flags[0], flags[1], number)
    return evaluate(scalar, row, tables)


def _order_value(value: Any, descending: bool, nulls_first: bool, part: int) -> Row:
    """A tuple that sorts as the order word of the value does."""
    if value is None:
        return (0 if nulls_first else 2,)
    if isinstance(value, str):
        head = value.encode()[part * TEXT_BYTES : (part + 1) * TEXT_BYTES].ljust(TEXT_BYTES, b"\0")
        value = int.from_bytes(head, "big")
    if isinstance(value, datetime.date):
        value = datetime.datetime.combine(value, datetime.time.min) if type(value) is datetime.date else value
        value -= datetime.datetime(1970, 1, 1)
    return (1, -value if descending else value)


def _mapped(mfp: Mfp, rows: Rows, tables: Tables) -> Rows:
    result: Rows = Counter()
    if not mfp.predicates and all(isinstance(output, Column) for output in mfp.outputs):
        chosen = [output.index for output in mfp.outputs if isinstance(output, Column)]
        for row, n in rows.items():
            result[tuple([row[index] for index in chosen])] += n
        return _nonzero(result)
    for row, n in rows.items():
        if passes(mfp.predicates, row, tables):
            result[tuple(_value(output, row, tables) for output in mfp.outputs)] += n
    return _nonzero(result)


def _sum(parts: Iterable[Rows]) -> Rows:
    result: Rows = Counter()
    for part in parts:
        for row, n in part.items():
            result[row] += n
    return _nonzero(result)


def _nonzero(rows: Rows) -> Rows:
    return Counter({row: n for row, n in rows.items() if n})


def _groups(rows: Rows, key: int) -> dict[Row, Rows]:
    groups: dict[Row, Rows] = defaultdict(Counter)
    for row, n in rows.items():
        groups[row[:key]][row] += n
    return groups


def _delta_join(ends: Sequence[plan.Ref], done: Sequence[Rows]) -> Rows:
    """The result along path 0; along all others it must be the same."""
    results = [done[end] for end in ends]
    for start, result in enumerate(results):
        if result != results[0]:
            raise DisagreementError(f"path {start}: {result - results[0]} and {results[0] - result}")
    return results[0]


def _half_join(node: plan.HalfJoin, done: Sequence[Rows], tables: Tables) -> Rows:
    found = _groups(done[node.arrangement], len(node.key))
    pairs: Rows = Counter()
    for row, n in done[node.input].items():
        for match, m in found.get(tuple(row[column] for column in node.key), {}).items():
            pairs[(*row, *match)] += n * m
    return _mapped(node.mfp, pairs, tables)


def _range_join(node: plan.RangeJoin, done: Sequence[Rows], tables: Tables) -> Rows:
    compare = COMPARISONS[node.comparison]
    thresholds = _groups(done[node.right], node.key)
    result: Rows = Counter()
    for row, n in done[node.left].items():
        for other, m in thresholds.get(row[: node.key], {}).items():
            values = (row[node.key], other[node.key])
            if None not in values and compare(*values):
                result[(*row, *other)] += n * m
    return _mapped(node.mfp, _nonzero(result), tables)


def _reduce(rows: Rows, key: int, aggregates: Sequence[plan.Aggregate]) -> Rows:
    groups = _groups(rows, key) or ({(): Counter()} if key == 0 else {})
    result: Rows = Counter()
    for group, members in groups.items():
        if key == 0 or sum(members.values()) > 0:
            result[(*group, *(_accumulated(one, members) for one in aggregates))] += 1
    return result


def _accumulated(aggregate: plan.Aggregate, members: Rows) -> Any:
    if aggregate.argument is None:
        return sum(members.values())
    operands = [(row[aggregate.argument], n) for row, n in members.items()]
    known = [(value, n) for value, n in operands if value is not None]
    if aggregate.function == "count":
        return sum(n for _, n in known)
    if not known:
        return None
    if aggregate.function == "$only":
        ((value, _),) = known
        return value
    if aggregate.function == "$comoment":
        unit = 10**aggregate.type.scale  # it is of words
        pairs = [(row[aggregate.argument], row[aggregate.second], n) for row, n in members.items()]
        known = [(x * unit, y * unit, n) for x, y, n in pairs if x is not None and y is not None]
        return _comoment(known)
    total = sum((_product(value, n) for value, n in known[1:]), _product(*known[0]))
    return total


def _comoment(pairs: list[tuple[Any, Any, int]]) -> float | None:
    """sum(x * y) - sum(x) * sum(y) / n, exactly."""
    known = [(Fraction(x), Fraction(y), n) for x, y, n in pairs]
    count = sum(n for *_, n in known)
    if not count:
        return None
    first, second = sum(x * n for x, _, n in known), sum(y * n for _, y, n in known)
    return float(sum(x * y * n for x, y, n in known) - first * second / count)


def _product(value: Any, n: int) -> Any:
    return value * Decimal(n) if isinstance(value, Decimal) else value * n


def _top(node: plan.TopK, rows: Rows) -> Rows:
    result: Rows = Counter()
    for members in _groups(rows, node.group).values():
        ordered = sorted(members.items(), key=cmp_to_key(lambda a, b: _compared(node, a[0], b[0])))
        copies = [row for row, n in ordered for _ in range(n)]
        end = None if node.limit is None else node.offset + node.limit
        result.update(copies[node.offset : end])
    return result


def _windowed(node: plan.Window, rows: Rows) -> Rows:
    result: Rows = Counter()
    for members in _groups(rows, node.partition).values():
        order = cmp_to_key(lambda a, b: _in_order(node.partition, node.exact, a[0], b[0]))
        copies = [row for row, n in sorted(members.items(), key=order) for _ in range(n)]
        found = [windows.answers(call, copies, node.peers) for call in node.calls]
        result.update((*row, *values) for row, *values in zip(copies, *found, strict=True))
    return result


def _compared(node: plan.TopK, left: Row, right: Row) -> int:
    return _in_order(node.group, node.exact, left, right)


def _in_order(group: int, exact: tuple[tuple[int, int, bool], ...], left: Row, right: Row) -> int:
    texts = {first: (code, descending) for first, code, descending in exact}
    for column in range(group, len(left)):
        if column in texts:
            code, descending = texts[column]
            one, other = left[code], right[code]
            if one != other and None not in (one, other):
                below = one.encode() < other.encode()
                return 1 if below is descending else -1
        if left[column] != right[column]:
            return -1 if _sortable(left[column]) < _sortable(right[column]) else 1
    return 0


def _sortable(value: Any) -> tuple[bool, Any]:
    """NULL is the smallest word."""
    return (value is not None, 0 if value is None else value)


def _basic(rows: Rows, key: int, aggregates: Sequence[plan.BasicAggregate]) -> Rows:
    result: Rows = Counter()
    for group, members in _groups(+rows, key).items():
        result[(*group, *(_string_agg(one, members) for one in aggregates))] += 1
    return result


def _bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _string_agg(aggregate: plan.BasicAggregate, members: Rows) -> str | None:
    """The non-NULL strings by their keys, or else their bytes, the separator of each before it."""
    assert aggregate.function == "string_agg"
    value, separator, *keys = aggregate.arguments
    rows = sorted(
        (row for row, n in members.items() for _ in range(n) if row[value] is not None),
        key=lambda row: (row[value].encode(), (row[separator] or "").encode()),
    )
    for place, direction in reversed(list(zip(keys, aggregate.order, strict=True))):
        nulls = -1 if direction.nulls_first else 1
        sign = -1 if direction.descending else 1
        known = sorted({row[place] for row in rows if row[place] is not None}, key=_bytes)
        ranks = {one: sign * rank for rank, one in enumerate(known)}
        rows.sort(key=lambda row: (0, ranks[row[place]]) if row[place] is not None else (nulls, 0))
    pairs = [(row[value], row[separator]) for row in rows]
    if not pairs:
        return None
    return "".join((text if index == 0 else (mark or "") + text) for index, (text, mark) in enumerate(pairs))
