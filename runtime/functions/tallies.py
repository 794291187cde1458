"""Aggregates of how often each value is there: the most frequent values, and the distinct ones."""

from collections.abc import Callable
from typing import Any

from kpg.runtime.functions.aggregation import AggregateFunction, Algorithm, Folded, Types, Value, register
from kpg.runtime.functions.registry import Signature
from kpg.runtime.functions.rules import is_unknown
from kpg.runtime.records import dataclass
from kpg.runtime.types import BIGINT, INTEGER, TEXT, Kind, array
from kpg.runtime.values.arrays import of


@dataclass(slots=True)
class Tally:
    """How often each value is there, and, if that is asked, how many of the most frequent ones are wanted."""

    counts: dict[Value, int]
    few: int = 0


def _add(tally: Tally, row: tuple[Value, ...], times: int) -> Tally:
    left = tally.counts.get(row[0], 0) + times
    if left:
        tally.counts[row[0]] = left
    else:
        del tally.counts[row[0]]
    if len(row) > 1:
        tally.few = row[1]
    return tally


def _subtract(tally: Tally, row: tuple[Value, ...], times: int) -> Tally:
    return _add(tally, row, -times)


def _merge(tally: Tally, other: Tally) -> Tally:
    for value, times in other.counts.items():
        _add(tally, (value,), times)
    tally.few = max(tally.few, other.few)
    return tally


def _most_frequent(tally: Tally) -> Any:
    """The most frequent values, of equally frequent ones the smallest first."""
    if not tally.counts:
        return None
    ranked = sorted(tally.counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return of([value for value, _ in ranked[: tally.few]])


def _different(tally: Tally) -> Any:
    return of(sorted(tally.counts)) if tally.counts else None


def tallying(finish: Callable[[Tally], Value]) -> Callable[[Types], Algorithm]:
    """The algorithm of an aggregate of counts."""

    def algorithm(types: Types) -> Algorithm:
        return Algorithm(lambda: Tally({}), _add, _merge, finish, _subtract)

    return algorithm


def _top(types: Types) -> Signature | None:
    whole = len(types) == 2 and (types[1].kind in (Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT))
    if not whole or types[0].kind is Kind.ARRAY:
        return None
    value = TEXT if is_unknown(types[0]) else types[0]
    return Signature((value, INTEGER), array(value))


def _one(types: Types) -> Signature | None:
    if len(types) != 1 or types[0].kind is Kind.ARRAY:
        return None
    value = TEXT if is_unknown(types[0]) else types[0]
    return Signature((value,), array(value))


def _counted(types: Types) -> Signature | None:
    return Signature(types, BIGINT) if len(types) == 1 else None


register(
    AggregateFunction(
        "top_k",
        "a value and how many",
        "The most frequent values as an array, of equally frequent ones the smallest first.",
        {"(2, 2), (1, 2), (3, 2), (3, 2), (NULL, 2)": "[3, 1]", "('b', 1), ('a', 1)": "['a']"},
        _top,
        tallying(_most_frequent),
        Folded(),
        tallied=True,
    )
)
register(
    AggregateFunction(
        "distinct_values",
        "a value",
        "The different values as an array, in order.",
        {"(2), (1), (2), (NULL)": "[1, 2]"},
        _one,
        tallying(_different),
        Folded(),
        tallied=True,
        idempotent=True,
    )
)
register(
    AggregateFunction(
        "distinct_count",
        "a value",
        "How many different values there are.",
        {"(2), (1), (2), (NULL)": "2", "(NULL::INT)": "0"},
        _counted,
        tallying(lambda tally: len(tally.counts)),
        Folded(),
        empty=0,
        identity=0,
        tallied=True,
        idempotent=True,
    )
)
