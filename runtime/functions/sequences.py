"""Aggregates that need all their rows: joined texts, percentiles, the most frequent value.

The state is the list of what came and, negative, what went. Its rows are put in order when it is finished: by
the keys of an ORDER BY, or by the operands themselves.
"""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate, islice
from typing import Final

from kpg.runtime.functions.aggregation import Algorithm, Direction, Places, Rows, Types, Value
from kpg.runtime.functions.algorithms import rank
from kpg.runtime.types import Kind

Operands = tuple[Value, ...]
COMPARABLE: Final = (bool, int, float, str, bytes, Decimal)
InOrder = Callable[[Rows], Value]


def natural(finish: Callable[[Types], InOrder]) -> Callable[[Types], Algorithm]:
    """The aggregate over rows in the order of their operands."""
    return lambda types: _over_rows(finish(types), _by_operands)


def ordered(finish: InOrder, order: tuple[Direction, ...]) -> Algorithm:
    """The aggregate over rows in the order of their last operands; rows that agree on them by the others."""

    def put(rows: Rows) -> Rows:
        rows = _by_operands(rows)
        width = len(rows[0][0]) - len(order)
        for place in range(len(order) - 1, -1, -1):
            rows = _sorted(rows, width + place, order[place])
        return [(operands[:width], times) for operands, times in rows]

    return _over_rows(finish, put)


def _sorted(rows: Rows, place: int, direction: Direction) -> Rows:
    """The rows by one operand, those that agree on it as they were."""
    nulls = [row for row in rows if row[0][place] is None]
    known = [row for row in rows if row[0][place] is not None]
    known.sort(key=lambda row: key_of(row[0][place]), reverse=direction.descending)
    return nulls + known if direction.nulls_first else known + nulls


def _by_operands(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: tuple((value is None, key_of(value)) for value in row[0]))


def key_of(value: Value) -> Value:
    """What values of a type are ordered by; those that Python cannot compare by their text, somehow."""
    if value is None:
        return 0
    return rank(value) if isinstance(value, COMPARABLE) else repr(value)


def _over_rows(finish: InOrder, put: Callable[[Rows], Rows]) -> Algorithm:
    def add(state: Rows, operands: Operands, times: int) -> Rows:
        state.append((operands, times))
        return state

    def merge(left: Rows, right: Rows) -> Rows:
        left += right
        return left

    def finished(state: Rows) -> Value:
        if any(times < 0 for _, times in state):
            net: Counter[Operands] = Counter()
            for operands, times in state:
                net[operands] += times
            state = [(operands, times) for operands, times in net.items() if times]
        return finish(put(state)) if state else None

    return Algorithm(
        initialize=list,
        add=add,
        subtract=lambda state, operands, times: add(state, operands, -times),
        merge=merge,
        finish=finished,
    )


def joining(types: Types) -> InOrder:
    """The texts, each after the first with its separator (nothing, if NULL) before it."""

    nothing: Value = b"" if types[0].kind is Kind.BYTEA else ""

    def finish(rows: Rows) -> Value:
        parts = [part for (text, between), times in rows for part in (between or nothing, text) * times]
        return nothing.join(parts[1:])

    return finish


def at_places(places: Callable[[Types], Places]) -> Callable[[Types], InOrder]:
    """The aggregate that looks at some places, over rows in order."""

    def of_types(types: Types) -> InOrder:
        wanted = places(types)

        def finish(rows: Rows) -> Value:
            ends = list(accumulate(times for _, times in rows))
            direct = rows[0][0][1] if len(types) > 1 else None
            found = [rows[bisect_right(ends, place)][0][0] for place in wanted.at(direct, ends[-1])]
            return wanted.finish(found, direct, ends[-1])

        return finish

    return of_types


def median(types: Types) -> Places:
    """The value in the middle of doubles in order, or the mean of the two that are."""

    def finish(values: list[Value], direct: Value, rows: int) -> Value:
        left, right = values
        return left if left == right else left / 2 + right / 2

    return Places(lambda direct, rows: [(rows - 1) // 2, rows // 2], finish)


def continuous(types: Types) -> Places:
    """The value at a fraction of the way from the first to the last, between two if it is there."""
    between = _between_intervals if types[0].kind is Kind.INTERVAL else _between

    def at(fraction: float, rows: int) -> list[int]:
        place = fraction * (rows - 1)
        return [math.floor(place), math.ceil(place)]

    def finish(values: list[Value], fraction: float, rows: int) -> Value:
        left, right = values
        place = fraction * (rows - 1)
        return left if left == right else between(left, right, place - math.floor(place))

    return _at_fractions(types, Places(at, finish))


def _between(left: float, right: float, share: float) -> float:
    return left + share * (right - left)


def _between_intervals(left: Value, right: Value, share: float) -> Value:
    from kpg.runtime.values import intervals

    distance = intervals.made(*(Fraction(b - a) for a, b in zip(left, right, strict=True)))
    step = intervals.scaled(distance, share)
    return intervals.made(*(Fraction(a + b) for a, b in zip(left, step, strict=True)))


def discrete(types: Types) -> Places:
    """The first value at or after a fraction of all."""
    return _at_fractions(
        types,
        Places(
            lambda fraction, rows: [max(math.ceil(fraction * rows), 1) - 1],
            lambda values, fraction, rows: values[0],
        ),
    )


def _at_fractions(types: Types, one: Places) -> Places:
    """The same for the second operand: a fraction or an array of fractions, NULL for what is NULL."""
    several = types[1].kind is Kind.ARRAY

    def fractions(direct: Value) -> list[float | None]:
        return list(direct.items) if several and direct is not None else [direct]

    def at(direct: Value, rows: int) -> list[int]:
        found: list[int] = []
        for fraction in fractions(direct):
            if fraction is not None:
                if not 0 <= fraction <= 1:
                    raise ValueError(f"percentile value {fraction:g} is not between 0 and 1")
                found += one.at(fraction, rows)
        return found

    def finish(values: list[Value], direct: Value, rows: int) -> Value:
        rest, results = iter(values), list[Value]()
        for fraction in fractions(direct):
            known = [] if fraction is None else list(islice(rest, len(one.at(fraction, rows))))
            results.append(one.finish(known, fraction, rows) if known else None)
        return direct._replace(items=tuple(results)) if several and direct is not None else results[0]

    return Places(at, finish)


def most_frequent(types: Types) -> InOrder:
    """The value that occurs most often, of several the first."""

    def finish(rows: Rows) -> Value:
        counts: dict[Value, int] = {}
        values: dict[Value, Value] = {}
        for operands, times in rows:
            key = key_of(operands[0])
            counts[key] = counts.get(key, 0) + times
            values.setdefault(key, operands[0])
        return values[max(counts, key=counts.__getitem__)]

    return finish
