"""The slow truth about relations: each operator as its definition, over multisets of rows of Python values.

A relation is a Counter from row (a tuple; None for NULL) to multiplicity. Joins alone take a hint from
their equalities, so that a product of four tables can be evaluated at all.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cmp_to_key
from typing import Any

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import width
from kpg.runtime.scalar import Call, Scalar, columns
from tests.model import windows
from tests.model.scalar import evaluate, from_word, passes

Row = tuple[Any, ...]
Rows = Counter[Row]
Tables = Mapping[str, Sequence[Row]]


class RecursionLimitError(Exception):
    """A loop has not reached its fixed point in as many rounds as it may take."""


class SingleError(Exception):
    """A scalar subquery has several rows."""


def rows_of(rel: Rel, tables: Tables, bound: Mapping[str, Rows] | None = None) -> Rows:
    """The multiset that a relation stands for; ``tables`` hold rows without rowid."""
    bound = bound or {}
    match rel:
        case algebra.Get(name=name, is_table=is_table):
            return Counter(
                (*row, index) if is_table else tuple(row) for index, row in enumerate(tables[name])
            )
        case algebra.Constant(rows=rows, types=types):
            return Counter(tuple(from_word(v, t) for v, t in zip(row, types, strict=True)) for row in rows)
        case algebra.LocalGet(id=id_):
            return bound[id_]
        case algebra.Let(id=id_, value=value, body=body):
            return rows_of(body, tables, {**bound, id_: rows_of(value, tables, bound)})
        case algebra.LetRec():
            return _fixed_point(rel, tables, bound)
        case algebra.Join():
            return _join(rel, [rows_of(source, tables, bound) for source in rel.inputs])
        case algebra.Union(inputs=inputs):
            return _sum(rows_of(source, tables, bound) for source in inputs)
        case _:
            return _unary(rel, rows_of(rel.input, tables, bound))


def _unary(rel: Rel, rows: Rows) -> Rows:
    match rel:
        case algebra.Map(scalars=scalars):
            return _image(rows, lambda row: (*row, *(evaluate(scalar, row) for scalar in scalars)))
        case algebra.Filter(predicates=predicates):
            return Counter({row: n for row, n in rows.items() if passes(predicates, row)})
        case algebra.Project(columns=chosen):
            return _image(rows, lambda row: tuple(row[column] for column in chosen))
        case algebra.Reduce():
            return _reduce(rel, rows)
        case algebra.TopK():
            return _top(rel, rows)
        case algebra.Window():
            return _windowed(rel, rows)
        case algebra.Distinct():
            return Counter({row: 1 for row, n in rows.items() if n > 0})
        case algebra.Threshold():
            return Counter({row: n for row, n in rows.items() if n > 0})
        case algebra.Negate():
            return Counter({row: -n for row, n in rows.items()})
        case algebra.Expand():
            return _expand(rel, rows)
        case algebra.Single(group=group):
            counts = _image(rows, lambda row: tuple(row[column] for column in group))
            if any(n > 1 for n in counts.values()):
                raise SingleError
            return rows
        case _:
            raise AssertionError(rel)


def _expand(rel: algebra.Expand, rows: Rows) -> Rows:
    result: Rows = Counter()
    for row, n in rows.items():
        lists = [series(call.function, *(evaluate(arg, row) for arg in call.args)) for call in rel.calls]
        widths = [len(call.types) for call in rel.calls]
        for made in side_by_side(lists, widths, numbered=rel.ordinality, outer=rel.outer):
            result[(*row, *made)] += n
    return result


def series(function: str, *args: Any) -> list[tuple[Any, ...]]:
    """The rows of a call that makes rows: numbers, or a value as it is."""
    if function == "$value":
        return [args]
    assert function == "generate_series", function
    if None in args:
        return []
    start, stop, step = (*args, 1)[:3]
    found = []
    while start <= stop if step > 0 else start >= stop:
        found.append((start,))
        start += step
    return found


def side_by_side(
    lists: list[list[tuple[Any, ...]]], widths: list[int], *, numbered: bool, outer: bool
) -> list[tuple[Any, ...]]:
    """The rows of several calls next to each other, NULLs where one has fewer, and their numbers."""
    longest = max(map(len, lists))
    result = []
    for place in range(max(longest, int(outer))):
        row: list[Any] = []
        for rows, count in zip(lists, widths, strict=True):
            row += rows[place] if place < len(rows) else (None,) * count
        if numbered:
            row.append(place + 1 if longest else None)
        result.append(tuple(row))
    return result


def _image(rows: Rows, function: Callable[[Row], Row]) -> Rows:
    result: Rows = Counter()
    for row, n in rows.items():
        result[function(row)] += n
    return _nonzero(result)


def _sum(parts: Iterable[Rows]) -> Rows:
    result: Rows = Counter()
    for part in parts:
        for row, n in part.items():
            result[row] += n
    return _nonzero(result)


def _nonzero(rows: Rows) -> Rows:
    return Counter({row: n for row, n in rows.items() if n})


def _fixed_point(rel: algebra.LetRec, tables: Tables, bound: Mapping[str, Rows]) -> Rows:
    here = {**bound, **{id_: Counter() for id_ in rel.ids}}
    for _ in range(10_000 if rel.limit is None else rel.limit):
        new = {id_: rows_of(v, tables, here) for id_, v in zip(rel.ids, rel.values, strict=True)}
        if all(here[id_] == rows for id_, rows in new.items()):
            break
        here |= new
    else:
        if rel.limit is None or rel.error_at_limit:
            raise RecursionLimitError
    return rows_of(rel.body, tables, here)


def _join(join: algebra.Join, inputs: list[Rows]) -> Rows:
    """Adds one input after the other, one that an equality ties to what is there if there is such."""
    starts = [sum(width(source) for source in join.inputs[:index]) for index in range(len(inputs) + 1)]
    total = starts[-1]
    pending = list(range(len(inputs)))
    tests = list(join.on)
    here: frozenset[int] = frozenset()
    rows: Rows = Counter({(None,) * total: 1})
    while pending:
        index = next((i for i in pending if _ties(tests, here, starts, i)), pending[0])
        pending.remove(index)
        ties = _ties(tests, here, starts, index)
        here |= set(range(starts[index], starts[index + 1]))
        ready = [test for test in tests if columns(test) <= here]
        tests = [test for test in tests if test not in ready]
        rows = _product(rows, inputs[index], (starts[index], starts[index + 1]), ties, ready)
    return rows


def _ties(
    tests: Sequence[Scalar], here: frozenset[int], starts: Sequence[int], index: int
) -> list[tuple[Scalar, Scalar]]:
    own = set(range(starts[index], starts[index + 1]))
    found = []
    for test in tests:
        if isinstance(test, Call) and test.function in ("eq", "is_not_distinct"):
            for left, right in (test.args, test.args[::-1]):
                if columns(left) and columns(right) and columns(left) <= here and columns(right) <= own:
                    found.append((left, right))
    return found


def _product(
    rows: Rows,
    added: Rows,
    place: tuple[int, int],
    ties: Sequence[tuple[Scalar, Scalar]],
    tests: Sequence[Scalar],
) -> Rows:
    start, stop = place
    index: defaultdict[Row, list[tuple[Row, int]]] = defaultdict(list)
    for row, n in added.items():
        padded = (None,) * start + row
        index[tuple(evaluate(right, padded) for _, right in ties)].append((row, n))
    result: Rows = Counter()
    for row, n in rows.items():
        for other, m in index.get(tuple(evaluate(left, row) for left, _ in ties), ()):
            joined = row[:start] + other + row[stop:]
            if passes(tests, joined):
                result[joined] += n * m
    return _nonzero(result)


def _reduce(rel: algebra.Reduce, rows: Rows) -> Rows:
    groups: defaultdict[Row, list[tuple[Row, int]]] = defaultdict(list)
    if not rel.keys:
        groups[()] = []
    for row, n in rows.items():
        groups[tuple(evaluate(key, row) for key in rel.keys)].append((row, n))
    return Counter(
        {key + tuple(_aggregate(call, group) for call in rel.aggregates): 1 for key, group in groups.items()}
    )


def _aggregate(call: algebra.AggregateCall, group: Sequence[tuple[Row, int]]) -> Any:
    if not call.args:
        return sum(n for _, n in group)
    arguments = [(tuple(evaluate(arg, row) for arg in call.args), n) for row, n in group]
    values = [(args, n) for args, n in arguments if args[0] is not None]
    if call.distinct:
        values = [(args, 1) for args in {args for args, _ in values}]
    match call.function:
        case "count":
            return sum(n for _, n in values)
        case _ if not values:
            return None
        case "sum":
            return _total([(args[0], n) for args, n in values])
        case "min":
            return min(args[0] for args, _ in values)
        case "max":
            return max(args[0] for args, _ in values)
        case "string_agg":
            texts = sorted(args[0] for args, n in values for _ in range(n))
            return values[0][0][1].join(texts)
        case "$comoment":
            unit = 10 ** call.args[0].type.scale  # it is of words
            return _comoment([(x * unit, y * unit, n) for (x, y, *_), n in values if y is not None])
        case other:
            raise AssertionError(other)


def _comoment(pairs: Sequence[tuple[Any, Any, int]]) -> float | None:
    """The sum of the products of both numbers' distances from their means."""
    count = sum(n for *_, n in pairs)
    if not count:
        return None
    exact = [(Fraction(x), Fraction(y), n) for x, y, n in pairs]
    first, second = (sum(row[place] * row[2] for row in exact) for place in (0, 1))
    return float(sum(x * y * n for x, y, n in exact) - first * second / count)


def _total(values: Sequence[tuple[Any, int]]) -> Any:
    if isinstance(values[0][0], float):
        return math.fsum(value * n for value, n in values)
    start = Decimal(0) if isinstance(values[0][0], Decimal) else 0
    return sum((value * n for value, n in values), start)


def _top(rel: algebra.TopK, rows: Rows) -> Rows:
    groups: defaultdict[Row, list[Row]] = defaultdict(list)
    for row, n in rows.items():
        groups[tuple(row[column] for column in rel.group)] += [row] * n
    result: Rows = Counter()
    for group in groups.values():
        ordered = sort_rows(group, rel.order)
        stop = None if rel.limit is None else rel.offset + rel.limit
        result.update(ordered[rel.offset : stop])
    return result


def _windowed(rel: algebra.Window, rows: Rows) -> Rows:
    partitions: defaultdict[Row, list[Row]] = defaultdict(list)
    for row, n in rows.items():
        partitions[tuple(row[column] for column in rel.partition)] += [row] * n
    peers = [by.column for by in rel.order]
    result: Rows = Counter()
    for partition in partitions.values():
        ordered = sort_rows(partition, (*rel.order, *rel.ties))
        found = [windows.answers(call, ordered, peers) for call in rel.calls]
        result.update((*row, *values) for row, *values in zip(ordered, *found, strict=True))
    return result


def sort_rows(rows: Iterable[Row], order: Sequence[algebra.OrderBy]) -> list[Row]:
    """The rows in order; ties in an order of their own, which does not depend on how they came."""
    ordered = sorted(rows, key=repr)

    def compare(left: Row, right: Row) -> int:
        for key in order:
            one, other = left[key.column], right[key.column]
            if one == other:
                continue
            if one is None or other is None:
                return -1 if (one is None) == key.nulls_first else 1
            return -1 if (one < other) != key.descending else 1
        return 0

    return sorted(ordered, key=cmp_to_key(compare))
